"""What a job reads: a private and a public table, or a private and a public folder of images."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from pate.core.progress import track
from pate.data import align_columns, read_images, read_table
from pate.exceptions import InvalidInputError


@dataclass(frozen=True, eq=False, repr=False)
class Sources:
    """Private records and public rows with the same features.

    Attributes
    ----------
    kind : {"table", "images"}
    X, y, groups
        The private records: a DataFrame, or an array of numbers for images. **Sensitive.**
    public : DataFrame or array of shape (n_public, n_features)
        Public rows for the teachers, before any encoding.
    hashed : DataFrame or array of shape (n_public, ...)
        The same rows as they stand in the files, by which a ledger recognises them.
    names : tuple of str or None
        File names of public images.
    image_shape : tuple of int or None
        Of images: (height, width), or (3, height, width) of colours, whose rows hold pixel after pixel nevertheless.
    """

    kind: str
    X: Any
    y: npt.NDArray[Any]
    groups: npt.NDArray[Any] | None
    public: Any
    hashed: Any
    names: tuple[str, ...] | None = None
    image_shape: tuple[int, ...] | None = None


def read_sources(
    private: str | os.PathLike[str],
    public: str | os.PathLike[str],
    *,
    target: str | None,
    group: str | None = None,
    drop: Iterable[str] = (),
    text: Iterable[str] = (),
    size: tuple[int, int] | None = None,
    resize: bool = False,
    color: str | None = None,
    verbose: bool = False,
) -> Sources:
    """Read both sides; what columns and images are like is decided by the public one, whatever private cells are."""
    folders = [Path(p).is_dir() for p in (private, public)]
    drop = [drop] if isinstance(drop, str) else list(drop)
    text = [text] if isinstance(text, str) else list(text)
    if folders[0] != folders[1]:
        raise InvalidInputError(
            f"private and public must both be tables or both be folders of images, got {os.fspath(private)!r} and "
            f"{os.fspath(public)!r}. Bring both to the same kind."
        )
    if not folders[0]:
        given = [name for name, value in (("size", size), ("resize", resize), ("color", color)) if value]
        if given and Path(private).exists():
            raise InvalidInputError(f"{' and '.join(given)} is for folders of images, not for tables. Leave it out.")
        return _tables(private, public, target, group, drop, text, verbose)
    named = [name for name, value in (("target", target), ("drop", drop), ("text", text)) if value]
    if named:
        raise InvalidInputError(
            f"{' and '.join(named)} is for tables: in a folder of images the sub-folders are the classes. Leave it out."
        )
    options: dict[str, Any] = {"resize": resize, "convert": color is not None, "verbose": verbose}
    shown = read_images(public, size=size, color=color, **options)
    held = read_images(private, labelled=True, group=group, like=shown, **options)
    assert held.y is not None
    pixels = shown.X.reshape(len(shown.X), -1)
    height, width, *colours = shown.X.shape[1:]
    shape = (*colours, height, width)
    return Sources("images", held.rows(), held.y, held.groups, shown.rows(), pixels, shown.names, shape)


def _tables(
    private: str | os.PathLike[str],
    public: str | os.PathLike[str],
    target: str | None,
    group: str | None,
    drop: list[str],
    text: list[str],
    verbose: bool,
) -> Sources:
    if target is None and Path(private).suffix.lower() != ".npz":
        raise InvalidInputError(f"target must name the column of classes in {private}, got None.")
    files = track((public, private), total=2, label="tables read", show=verbose)
    shown = read_table(next(files), text=text)
    # The classes' own type is for whoever knows the classes (as_classes): here labels are as they are written.
    labels = [] if target is None else [target]
    table = read_table(next(files), target=target, group=group, drop=drop, text=[*text, *labels], like=shown.X)
    next(files, None)
    if table.y is None:
        raise InvalidInputError(f"target must name the column of classes in {private}, got {target!r}.")
    rows = align_columns(table.X, shown.X, drop=[name for name in (target, group, *drop) if name])
    return Sources("table", table.X, table.y, table.groups, rows, rows)
