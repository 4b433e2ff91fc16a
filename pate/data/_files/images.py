"""Folders of images: one sub-folder per class for private ones, flat for public ones."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_choice, check_int
from pate._core.curator import need, tell_curator
from pate._core.progress import track
from pate.data._files._npz import readable
from pate.exceptions import InvalidInputError

#: What the files may be; decided by their contents, the names only say what is meant to be an image.
_SUFFIXES = (".png", ".jpg", ".jpeg")
_FORMATS = ("PNG", "JPEG")
#: What systems leave in folders besides hidden files.
_LEFT_BEHIND = ("thumbs.db", "ehthumbs.db", "desktop.ini", "__macosx")
COLORS = ("grey", "rgb")
_MODES = {"grey": "L", "rgb": "RGB"}
#: A file of a few kilobytes can claim to be billions of pixels.
_MOST_PIXELS = 50_000_000


@dataclass(frozen=True, eq=False, repr=False)
class ImageFolder:
    """Images of one size; what :func:`read_images` returns.

    Attributes
    ----------
    X : uint8 array of shape (n, height, width), or (n, height, width, 3) for colour
    names : tuple of str
        File names, in order; those of private images are private.
    y : object array of shape (n,) or None
        The sub-folder of each image: its class; None where the image was set aside.
    groups : object array of shape (n,) or None
        The owner of each image; None where its name does not say.
    path : Path

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> folder = Path(tempfile.mkdtemp())
    >>> Image.new("L", (4, 3)).save(folder / "a.png")
    >>> images = read_images(folder)
    >>> images.X.shape, images.names, images.color, images.size
    ((1, 3, 4), ('a.png',), 'grey', (4, 3))
    """

    X: npt.NDArray[np.uint8]
    names: tuple[str, ...]
    y: npt.NDArray[np.object_] | None
    groups: npt.NDArray[np.object_] | None
    path: Path

    @property
    def color(self) -> str:
        """``"grey"`` or ``"rgb"``."""
        return "grey" if self.X.ndim == 3 else "rgb"

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, in pixels."""
        return self.X.shape[2], self.X.shape[1]

    def rows(self) -> npt.NDArray[np.float32]:
        """Return the images as rows of numbers from 0 to 1, shape (n, height * width [* 3])."""
        return self.X.reshape(len(self.X), -1).astype(np.float32) / np.float32(255)

    def __repr__(self) -> str:
        return f"ImageFolder({self.path.name!r}, n={len(self.X)}, size={self.size}, color={self.color!r})"


def read_images(
    path: str | os.PathLike[str],
    *,
    labelled: bool = False,
    group: str | None = None,
    size: tuple[int, int] | None = None,
    resize: bool = False,
    color: str | None = None,
    convert: bool = False,
    like: ImageFolder | None = None,
    verbose: bool = False,
) -> ImageFolder:
    """Read all images of a folder, in the order of their names; hidden and system files are skipped.

    Parameters
    ----------
    path : path
        With ``labelled`` a folder of one sub-folder per class, else a flat folder. PNG and JPEG of 8 bits.
    labelled : bool
    group : {"prefix"} or None
        ``"prefix"``: a file name's part before its first ``_`` says whose image it is (a patient, say).
    size : (width, height) or None
        What every image must be; None takes the first one's. Take it from public images.
    resize : bool
        Bring other sizes to it instead of refusing them.
    color : {"grey", "rgb"} or None
        None takes the first image's.
    convert : bool
        Bring others to it (grey, colour, palettes, transparency) instead of refusing them.
    like : ImageFolder or None
        The public images: give them whenever the folder is **private**. Size and colour are theirs, and an image that
        cannot be used affects no other; see the notes.
    verbose : bool
        Show progress.

    Returns
    -------
    ImageFolder

    Raises
    ------
    InvalidInputError
        Not such a folder, no image in it, something else in it, a link that leaves it, an image that cannot be read or
        is of another size or colour. A private file is named by its place in its class folder, not by its name.
    MissingExtraError
        Pillow is not installed.

    Warns
    -----
    CuratorWarning
        With ``like``: how many images were set aside, and why the first one was.

    Notes
    -----
    **Guarantees.** With ``like`` what a private image is (unreadable, of another size or colour, without the name that
    ``group`` needs) decides nothing but itself: it is black, its class or owner is None, and who trains sets it aside.
    What stands in the folders is public: sub-folders, their number of files, endings and links.

    Examples
    --------
    >>> import tempfile
    >>> read_images(tempfile.mkdtemp())
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: ... holds no images. ...
    """
    need("PIL", extra="images", why="A folder of images")
    root = Path(path)
    if not root.is_dir():
        raise InvalidInputError(f"there is no folder {root}. Check the name.")
    if color is not None:
        check_choice("color", color, COLORS)
    if group is not None:
        check_choice("group", group, ["prefix"], remedy="File names of images hold no other column.")
    if like is not None:
        size, color = like.size, like.color
    if size is not None:
        size = (check_int("width", size[0], low=1), check_int("height", size[1], low=1))
    files = list(_labelled_files(root) if labelled else _files(root, root, private=False))
    if not files:
        where = "no images in sub-folders, one per class" if labelled else "no images"
        raise InvalidInputError(f"the folder {root} holds {where}. PNG and JPEG files are read.")
    pixels: npt.NDArray[np.uint8] | None = None
    if like is not None:
        pixels = np.zeros((len(files), *like.X.shape[1:]), dtype=np.uint8)
    aside: dict[int, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, about metadata; sizes are checked here
        for i, (file, said) in enumerate(track(files, total=len(files), label="images", show=verbose)):
            try:
                image, size, color = _pixels(file, said, size=size, resize=resize, color=color, convert=convert)
            except InvalidInputError as error:
                if like is None:
                    raise
                aside[i] = str(error)
                continue
            if pixels is None:
                pixels = np.empty((len(files), *image.shape), dtype=np.uint8)
            pixels[i] = image
    assert pixels is not None
    names = tuple(file.name for file, _ in files)
    y = np.array([file.parent.name for file, _ in files], dtype=object) if labelled else None
    strict = like is None
    groups = np.array([_prefix(file, said, strict) for file, said in files], dtype=object) if group else None
    if aside:
        if y is not None:
            y[list(aside)] = None
        tell_curator(
            f"{len(aside)} of {len(files)} images of {root} cannot be used and are set aside; the first: "
            f"{next(iter(aside.values()))} (This is private: do not publish it.)",
        )
    return ImageFolder(pixels, names, y, groups, root)


def _labelled_files(root: Path) -> Iterator[tuple[Path, str]]:
    for entry in _entries(root):
        if not entry.is_dir():
            raise InvalidInputError(
                f"the folder {root} holds a file beside its sub-folders. Private images stand in one sub-folder per "
                "class, named like the class; move or hide everything else."
            )
        _check_inside(entry, root, f"the sub-folder {entry.name!r}")
        yield from _files(entry, root, private=True)


def _files(folder: Path, root: Path, *, private: bool) -> Iterator[tuple[Path, str]]:
    """Yield a folder's images and what to call each in an error."""
    for i, entry in enumerate(_entries(folder), start=1):
        said = f"entry {i} (by name) of {folder}" if private else f"{entry}"
        if entry.is_dir():
            hint = "" if private else " Public images lie flat in one folder: sub-folders would show their classes."
            raise InvalidInputError(f"{said} is a folder, not an image.{hint} Move its images up, or remove it.")
        if entry.suffix.lower() not in _SUFFIXES:
            raise InvalidInputError(f"{said} is not a PNG or JPEG file by its ending. Convert, move or hide it.")
        _check_inside(entry, root, said)
        yield entry, said


def _entries(folder: Path) -> list[Path]:
    try:
        shown = (e for e in folder.iterdir() if not e.name.startswith(".") and e.name.lower() not in _LEFT_BEHIND)
        return sorted(shown, key=lambda e: e.name)
    except OSError as error:
        raise InvalidInputError(
            f"the folder {folder} cannot be read ({error.strerror}). Check its permissions."
        ) from None


def _check_inside(entry: Path, root: Path, said: str) -> None:
    try:
        inside = entry.resolve(strict=True).is_relative_to(root.resolve())
    except (OSError, RuntimeError):  # a link to nowhere, or in a circle
        inside = False
    if not inside:
        raise InvalidInputError(f"{said} is a link out of {root}, or to nowhere. Put the file itself there.")


def _prefix(file: Path, said: str, strict: bool) -> str | None:
    prefix, mark, _ = file.name.partition("_")
    if not mark or not prefix:
        if not strict:
            return None
        raise InvalidInputError(
            f"{said} has no name of the form PERSON_rest, which group='prefix' needs. Rename it, or leave group out."
        )
    return prefix


def _pixels(
    file: Path, said: str, *, size: tuple[int, int] | None, resize: bool, color: str | None, convert: bool
) -> tuple[npt.NDArray[np.uint8], tuple[int, int], str]:
    """Return an image's pixels, and the size and colour that all others must have."""
    from PIL import Image

    # Decoders fail in many ways, and their words may quote the file.
    reading = readable(said, "PNG or JPEG image", "It may be truncated: replace it.", Exception)
    with reading, Image.open(file, formats=_FORMATS) as image:
        n_pixels = image.size[0] * image.size[1]
        if n_pixels > _MOST_PIXELS:
            raise InvalidInputError(
                f"{said} has more than {_MOST_PIXELS:,} pixels. Make it smaller: teachers see every pixel."
            )
        loaded: Any = _in_color(image, said, color, convert)
        found = str(_color_of(loaded.mode))
        wanted = size or loaded.size
        if loaded.size != wanted:
            if not resize:
                raise InvalidInputError(
                    f"{said} is not {wanted[0]} x {wanted[1]} pixels like the others. Bring them to one size, or "
                    "pass resize=True (--resize)."
                )
            loaded = loaded.resize(wanted, Image.Resampling.BILINEAR)
        return np.asarray(loaded, dtype=np.uint8), wanted, found


def _color_of(mode: str) -> str | None:
    return next((name for name, m in _MODES.items() if m == mode), None)


def _in_color(image: Any, said: str, color: str | None, convert: bool) -> Any:
    if image.mode.startswith(("I", "F")):
        raise InvalidInputError(f"{said} has more than 8 bits per colour. Save it with 8 bits per colour.")
    found = _color_of(image.mode)
    if found is not None and color in (None, found):
        return image
    if convert and color is not None:
        return image.convert(_MODES[color])
    kind = found or "neither grey nor plain colour (a palette, transparency, black and white or print colours)"
    wanted = f", and {color} is wanted" if color else ""
    raise InvalidInputError(
        f"{said} is {kind}{wanted}. Convert the files, or name the colour to bring them all to: color= and "
        "convert=True (--color; of pate predict --resize)."
    )
