"""What a model file says of itself: which kind of model, of which classes, for which rows. All of it is public."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pate import __version__
from pate.core.checks import check_classes
from pate.exceptions import InvalidInputError

#: Another number when a file is to be read otherwise.
FORMAT = "pate-model-1"
KINDS = {
    "records": "a model of what private records voted, each with one bounded ballot",
    "dpsgd": "a linear model of public maps, trained on private records by DP-SGD",
    "student": "a student that learnt from released labels of public rows",
}
ROWS = ("table", "array", "texts", "images")
_COLUMNS = {"numeric": "number", "text": "text", "date": "date"}
#: Columns that are named one by one.
_NAMED = 40


@dataclass(frozen=True, kw_only=True)
class Door:
    """What a row is that the model takes.

    Attributes
    ----------
    kind : {"table", "array", "texts", "images"}
        ``"table"``: columns by name; ``"array"``: columns by place; ``"images"``: files of one size and colour.
    n_features : int or None
        None of texts.
    columns : tuple of (name, kind), or None
        Of a table; kinds as in :attr:`pate.data.Table.kinds`: ``"numeric"``, ``"text"``, ``"date:"`` and a form.
    mixed : bool or None
        Whether some cells of an array are texts; None where it is none.
    image_shape : tuple of int or None
        (height, width) or (channels, height, width) of rows that are flattened images.
    size : (width, height) or None
    color : {"grey", "rgb"} or None
        Of image files.
    decimal : {","} or None
        What stood before the decimals of the public CSV file, where that was a comma.

    Examples
    --------
    >>> print(Door(kind="images", n_features=6, image_shape=(2, 3), size=(3, 2), color="grey"))
    images of 3 x 2 pixels, grey
    >>> Door.from_dict(Door(kind="array", n_features=4).to_dict())
    Door(kind='array', n_features=4, columns=None, mixed=None, image_shape=None, size=None, color=None, decimal=None)
    """

    kind: str
    n_features: int | None = None
    columns: tuple[tuple[str, str], ...] | None = None
    mixed: bool | None = None
    image_shape: tuple[int, ...] | None = None
    size: tuple[int, int] | None = None
    color: str | None = None
    decimal: str | None = None

    def __post_init__(self) -> None:
        whole = lambda value: isinstance(value, int) and not isinstance(value, bool) and value > 0  # noqa: E731
        sides = (self.image_shape or ()) + (self.size or ())
        fine = (
            self.kind in ROWS
            and (self.n_features is None or whole(self.n_features))
            and (self.columns is None or all(_is_column(c) for c in self.columns))
            and (self.columns is None or len({name for name, _ in self.columns}) == len(self.columns))
            and (self.columns is None or len(self.columns) == self.n_features)
            and (self.mixed is None or isinstance(self.mixed, bool))
            and all(whole(side) for side in sides)
            and (self.kind != "table" or self.columns is not None)
            and self.decimal in (None, ",")
            and (self.kind != "images" or (self.size is not None and self.color in ("grey", "rgb")))
        )
        if not fine:
            raise InvalidInputError("what the model's rows are is not said as it must be. Save the model anew.")

    @property
    def names(self) -> list[str]:
        """Names of the columns, in order."""
        return [name for name, _ in self.columns or ()]

    def __str__(self) -> str:
        if self.kind == "texts":
            return "texts" + (f", in the column {self.names[0]!r}" if self.columns else "")
        if self.columns is not None:
            shown = [f"{name!r} ({_COLUMNS[kind.partition(':')[0]]})" for name, kind in self.columns[:_NAMED]]
            more = len(self.columns) - len(shown)
            return f"a table with the columns {', '.join(shown)}" + (f" and {more} more" if more else "")
        if self.kind == "images" and self.size is not None:
            return f"images of {self.size[0]} x {self.size[1]} pixels, {self.color}"
        cells = ("cell" if self.mixed else "number") + "s" * (self.n_features != 1)
        shape = "" if self.image_shape is None else f", images of shape {self.image_shape}"
        return f"rows of {self.n_features} {cells}{shape}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "kind": self.kind,
            "n_features": self.n_features,
            "columns": None if self.columns is None else [list(column) for column in self.columns],
            "mixed": self.mixed,
            "image_shape": None if self.image_shape is None else list(self.image_shape),
            "size": None if self.size is None else list(self.size),
            "color": self.color,
            **({} if self.decimal is None else {"decimal": self.decimal}),  # earlier versions read all other files
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Door:
        """Return what :meth:`to_dict` described; any other mapping is refused."""
        told = ("kind", "n_features", "columns", "mixed", "image_shape", "size", "color")
        held = _exactly(values, (*told, "decimal") if "decimal" in (values or ()) else told)
        columns, shape, size = held["columns"], held["image_shape"], held["size"]
        return cls(
            kind=held["kind"],
            n_features=held["n_features"],
            columns=None if columns is None else tuple(tuple(column) for column in columns),
            mixed=held["mixed"],
            image_shape=None if shape is None else tuple(shape),
            size=None if size is None else tuple(size),
            color=held["color"],
            decimal=held.get("decimal"),
        )


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a model is.

    Attributes
    ----------
    kind : {"records", "dpsgd", "student"}
    classes : tuple
        Class values: texts, truth values, whole or finite numbers.
    dtype : str
        Of the array that holds them.
    door : Door
    made_of : tuple of str
        Its parts, one line each.
    settings : dict
        Of the estimator that it comes back as: JSON values.
    parts : dict
        What the readers of its parts need to know: JSON values.
    pate : str
        The version that wrote it.

    Examples
    --------
    >>> made = Manifest(kind="records", classes=("no", "yes"), dtype="<U3", door=Door(kind="array", n_features=4))
    >>> Manifest.from_dict(made.to_dict()) == made, made.class_array()
    (True, array(['no', 'yes'], dtype='<U3'))
    """

    kind: str
    classes: tuple[Any, ...]
    dtype: str
    door: Door
    made_of: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)
    pate: str = __version__

    def __post_init__(self) -> None:
        check_classes(self.classes)
        odd = [c for c in self.classes if not _is_plain(c)]
        if odd:
            raise InvalidInputError(
                "classes must be texts, truth values or finite numbers to be kept in a file, got "
                f"{type(odd[0]).__name__}. Name them by texts, and fit anew."
            )
        if self.kind not in KINDS or not isinstance(self.pate, str):
            raise InvalidInputError("the kind of model is not known. Read the file with the version that wrote it.")
        if not all(isinstance(line, str) for line in self.made_of):
            raise InvalidInputError("what a model is made of must be lines of text. Save the model anew.")
        self.class_array()

    @classmethod
    def of_classes(cls, classes: npt.NDArray[Any], **more: Any) -> Manifest:
        """Return the manifest of a fitted classifier's ``classes_``."""
        values = np.asarray(classes)
        return cls(classes=tuple(values.tolist()), dtype=values.dtype.str if values.dtype.kind != "O" else "|O", **more)

    def class_array(self) -> npt.NDArray[Any]:
        """Return the classes as the fitted classifier held them."""
        fine = isinstance(self.dtype, str) and (self.dtype == "|O" or self.dtype[1:2] in tuple("biufU"))
        try:
            made = np.array(self.classes, dtype=object if self.dtype == "|O" else np.dtype(self.dtype))
            fine = fine and tuple(made.tolist()) == self.classes
        except (TypeError, ValueError, OverflowError):
            fine = False
        if not fine:
            raise InvalidInputError("the classes are not of the type that is named beside them. Save the model anew.")
        return made

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values, without the list of files."""
        return {
            "format": FORMAT,
            "pate": self.pate,
            "kind": self.kind,
            "classes": {"values": list(self.classes), "dtype": self.dtype},
            "rows": self.door.to_dict(),
            "made_of": list(self.made_of),
            "settings": self.settings,
            "parts": self.parts,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Manifest:
        """Return what :meth:`to_dict` described; any other mapping, or another format, is refused."""
        said = values.get("format") if isinstance(values, Mapping) else None
        if said != FORMAT:
            raise InvalidInputError(
                f"its format is {str(said)[:40]!r}, and this version of pate reads {FORMAT!r}. Install the version of "
                "pate that wrote it, or a later one."
            )
        held = _exactly(values, ("format", "pate", "kind", "classes", "rows", "made_of", "settings", "parts"))
        classes = _exactly(held["classes"], ("values", "dtype"))
        if not all(isinstance(held[name], dict) for name in ("settings", "parts")):
            raise InvalidInputError("its settings are not said as they must be. Save the model anew.")
        if not all(isinstance(one, list) for one in (held["made_of"], classes["values"])):
            raise InvalidInputError("its classes are not said as they must be. Save the model anew.")
        return cls(
            kind=held["kind"],
            classes=tuple(classes["values"]),
            dtype=classes["dtype"],
            door=Door.from_dict(held["rows"]),
            made_of=tuple(held["made_of"]),
            settings=held["settings"],
            parts=held["parts"],
            pate=held["pate"],
        )


def _exactly(values: Any, names: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(values, Mapping) or set(values) != set(names):
        raise InvalidInputError("its description has other entries than this version of pate knows.")
    return values


def _is_column(column: Any) -> bool:
    fine = isinstance(column, tuple) and len(column) == 2 and all(isinstance(text, str) for text in column)
    return fine and (column[1] in ("numeric", "text") or column[1].startswith("date:"))


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))
