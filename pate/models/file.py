"""The model file, ``*.pate``: a public model and its privacy statement in one archive that holds no code.

A zip of uncompressed members, checked byte by byte before any of it is used.

Examples
--------
>>> from pate.models.file import InputSpec
>>> print(
...     InputSpec(
...         kind="table", n_features=2, columns=(("age", "numeric"), ("town", "text"))
...     )
... )
a table with the columns 'age' (number), 'town' (text)
"""

from __future__ import annotations

import codecs
import hashlib
import io
import json
import os
import re
import shlex
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pate import __version__
from pate._core.checks import check_classes
from pate._core.files import parse_json, write_bytes, write_text, writing
from pate._core.moved import renamed
from pate._core.pages import render
from pate.data import THOUSANDS
from pate.exceptions import InvalidInputError, PateError, RunFolderError
from pate.release.statement import plain_language
from pate.release.statement.catalogue import english
from pate.release.statement.files import new_page
from pate.release.statement.model import PrivacyStatement
from pate.release.statement.plain import as_plain_text

__all__ = ["InputSpec", "Manifest", "ModelFile", "check_model_path", "read_model", "write_model", "write_page"]

__getattr__ = renamed(__name__, {"Door": "InputSpec"})

# The manifest of a model file: the kind of model, its classes, and the rows it takes. All of it is public.

#: The number changes when the format does.
FORMAT = "pate-model-1"
KINDS = {
    "records": "a model of the votes of private records, one bounded ballot each",
    "dpsgd": "a linear model of public maps, trained on private records by DP-SGD",
    "student": "a student trained on released labels of public rows",
    "numbers": "a model of a number, with intervals: bins of it on which private records voted, and a correction",
    "dpsgd-number": "a linear model of public maps for a number, trained on private records by DP-SGD",
    "labels": "a model of several labels at once, on which private records voted",
}
#: Those that predict a number.
OF_NUMBERS = ("numbers", "dpsgd-number")
ROWS = ("table", "array", "texts", "images")
_COLUMNS = {"numeric": "number", "text": "text", "date": "date"}
#: Names at most so many columns in texts.
_NAMED_COLUMNS = 40


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """The kind of rows that a model takes: kind of data, columns, image size.

    Attributes
    ----------
    kind : {"table", "array", "texts", "images"}
        ``"table"``: columns by name; ``"array"``: columns by place; ``"images"``: files of one size and colour.
    n_features : int or None
        None for texts.
    columns : tuple of (name, kind), or None
        Of a table; kinds as in :attr:`pate.data.Table.kinds`: ``"numeric"``, ``"text"``, ``"date:"`` and a form.
    mixed : bool or None
        Whether some cells of an array are texts; None if rows are no array.
    image_shape : tuple of int or None
        (height, width) or (channels, height, width) of rows that are flattened images.
    size : (width, height) or None
    color : {"grey", "rgb"} or None
        Size and colour of image files.
    decimal : {","} or None
        The decimal separator of the public CSV file, where that is a comma.
    encoding : str or None
        Its encoding (of the private one, where there is no public one), where that is not UTF-8.
    thousands : str or None
        What stands between thousands there, of :data:`pate.data.THOUSANDS`.

    Examples
    --------
    >>> print(
    ...     InputSpec(
    ...         kind="images", n_features=6, image_shape=(2, 3), size=(3, 2), color="grey"
    ...     )
    ... )
    images of 3 x 2 pixels, grey
    >>> InputSpec.from_dict(InputSpec(kind="array", n_features=4).to_dict()) == InputSpec(
    ...     kind="array", n_features=4
    ... )
    True
    """

    kind: str
    n_features: int | None = None
    columns: tuple[tuple[str, str], ...] | None = None
    mixed: bool | None = None
    image_shape: tuple[int, ...] | None = None
    size: tuple[int, int] | None = None
    color: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    thousands: str | None = None

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
            and (self.image_shape is None or len(self.image_shape) in (2, 3))
            and (self.size is None or len(self.size) == 2)
            and all(whole(side) for side in sides)
            and (self.kind != "table" or self.columns is not None)
            and self.decimal in (None, ",")
            and self.thousands in (None, *THOUSANDS)
            and (self.encoding is None or _is_encoding(self.encoding))
            and self.color in (None, "grey", "rgb")
            and (self.kind != "images" or None not in (self.size, self.color))
        )
        if not fine:
            raise InvalidInputError("the description of the model's rows is not valid. Save the model again.")

    @property
    def names(self) -> list[str]:
        """The names of the columns, in order."""
        return [name for name, _ in self.columns or ()]

    def __str__(self) -> str:
        if self.kind == "texts":
            return "texts" + (f", in the column {self.names[0]!r}" if self.columns else "")
        if self.columns is not None:
            shown = [f"{name!r} ({_COLUMNS[kind.partition(':')[0]]})" for name, kind in self.columns[:_NAMED_COLUMNS]]
            more = len(self.columns) - len(shown)
            return f"a table with the columns {', '.join(shown)}" + (f" and {more} more" if more else "")
        if self.kind == "images" and self.size is not None:
            return f"images of {self.size[0]} x {self.size[1]} pixels, {self.color}"
        cells = ("cell" if self.mixed else "number") + "s" * (self.n_features != 1)
        shape = "" if self.image_shape is None else f", images of shape {self.image_shape}"
        return f"rows of {self.n_features} {cells}{shape}"

    def to_dict(self) -> dict[str, Any]:
        """Return the specification as JSON values."""
        return {name: value for name, value in asdict(self).items() if value is not None or name not in _WRITTEN}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> InputSpec:
        """Return the specification that :meth:`to_dict` wrote; any other mapping is refused."""
        names = [f.name for f in fields(cls) if f.name not in _WRITTEN or f.name in (values or ())]
        return cls(**{name: _tupled(value) for name, value in _exactly(values, names).items()})


#: How the public file was written, where that is unusual.
_WRITTEN = ("decimal", "encoding", "thousands")


def _is_encoding(name: Any) -> bool:
    try:
        return isinstance(name, str) and codecs.lookup(name).name == name
    except (LookupError, ValueError):
        return False


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The description of a model: kind, classes, input rows, parts and settings.

    Attributes
    ----------
    kind : {"records", "dpsgd", "student", "numbers", "dpsgd-number", "labels"}
    classes : tuple
        Class values: texts, truth values, whole or finite numbers; of a model of a number the ends of its range.
    dtype : str
        Type of the array that holds the classes.
    door : InputSpec
        The rows that the model takes.
    made_of : tuple of str
        Its parts, one line each.
    settings : dict
        Settings of the estimator that loading returns: JSON values.
    parts : dict
        Facts for the readers of its parts: JSON values.
    pate : str
        The version that wrote it.

    Examples
    --------
    >>> made = Manifest(
    ...     kind="records",
    ...     classes=("no", "yes"),
    ...     dtype="<U3",
    ...     door=InputSpec(kind="array", n_features=4),
    ... )
    >>> Manifest.from_dict(made.to_dict()) == made, made.class_array()
    (True, array(['no', 'yes'], dtype='<U3'))
    """

    kind: str
    classes: tuple[Any, ...]
    dtype: str
    door: InputSpec
    made_of: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)
    pate: str = __version__

    def __post_init__(self) -> None:
        check_classes(self.classes)
        odd = [c for c in self.classes if not isinstance(c, str | int) and not (isinstance(c, float) and isfinite(c))]
        if odd:
            raise InvalidInputError(
                "classes must be texts, truth values or finite numbers to be stored in a file, got "
                f"{type(odd[0]).__name__}. Name them by texts, and fit again."
            )
        if self.kind not in KINDS or not isinstance(self.pate, str):
            raise InvalidInputError(
                "the kind of model is unknown to this version of pate. Read the file with the version that wrote it."
            )
        if self.kind in OF_NUMBERS and not (
            len(self.classes) == 2
            and not any(isinstance(end, bool | str) for end in self.classes)
            and self.classes[0] < self.classes[1]
        ):
            raise InvalidInputError("the ends of the range of a model of a number must be two numbers in order.")
        if not all(isinstance(line, str) for line in self.made_of):
            raise InvalidInputError("made_of must be lines of text. Save the model again.")
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
            dtype = np.dtype(self.dtype) if fine else np.dtype(object)
            # Before there is an array: a few texts in "<U200000000" take gigabytes.
            fine = fine and 0 < len(self.classes) * dtype.itemsize <= _MOST_JSON_BYTES
            fine = fine and tuple(np.array(self.classes, dtype=dtype).tolist()) == self.classes
        except (TypeError, ValueError, OverflowError):
            fine = False
        if not fine:
            raise InvalidInputError("the classes are not of the dtype that is stored with them. Save the model again.")
        return np.array(self.classes, dtype=dtype)

    def to_dict(self) -> dict[str, Any]:
        """Return the manifest as JSON values, without the list of files."""
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
        """Return the manifest that :meth:`to_dict` wrote; any other mapping, or another format, is refused."""
        found = values.get("format") if isinstance(values, Mapping) else None
        if found != FORMAT:
            raise InvalidInputError(
                f"its format is {str(found)[:40]!r}, and this version of pate reads {FORMAT!r}. Install the version of "
                "pate that wrote it, or a later one."
            )
        held = _exactly(values, ["format", "pate", "kind", "classes", "rows", "made_of", "settings", "parts"])
        classes = _exactly(held["classes"], ["values", "dtype"])
        listed = (_tupled(held["made_of"]), _tupled(classes["values"]))
        fine = all(isinstance(one, tuple) for one in listed)
        if not fine or not all(isinstance(held[name], dict) for name in ("settings", "parts")):
            raise InvalidInputError("its classes or settings are not valid. Save the model again.")
        more = {name: held[name] for name in ("kind", "settings", "parts", "pate")}
        return cls(
            made_of=listed[0], classes=listed[1], dtype=classes["dtype"], door=InputSpec.from_dict(held["rows"]), **more
        )


def _tupled(value: Any) -> Any:
    """Return JSON's lists, and those in them, as tuples."""
    return tuple(map(_tupled, value)) if isinstance(value, list | tuple) else value


def _exactly(values: Any, names: list[str]) -> Mapping[str, Any]:
    if not isinstance(values, Mapping) or set(values) != set(names):
        raise InvalidInputError("its description has entries that this version of pate does not know, or lacks some.")
    return values


def _is_column(column: Any) -> bool:
    fine = isinstance(column, tuple) and len(column) == 2 and all(isinstance(text, str) for text in column)
    return fine and (column[1] in ("numeric", "text") or column[1].startswith("date:"))


# The archive.

SUFFIX = ".pate"
_MANIFEST, _STATEMENT = "manifest.json", "statement.json"
#: Names of parts are plain, so that none is unpacked outside its folder.
_PART = re.compile(r"[a-z][a-z0-9_]{0,40}\.(safetensors|skops)")
_MOST_PARTS = 16
_OTHER_PARTS = "its parts are not those that its manifest names"
_MOST_JSON_BYTES = 50_000_000
#: A fixed date, so that the same model gives the same bytes.
_DATE = (1980, 1, 1, 0, 0, 0)


#: Facts of the model on the first screen of its page.
_SHORT = ("Model", "Classes", "Labels", "Predicts", "Takes")
_UNMEASURED = ("How good", "not measured within this epsilon. Try the model on rows whose labels you know.")


def _measured(s: PrivacyStatement) -> tuple[tuple[str, object], ...]:
    return ("Accuracy", s.measured), ("Error", s.errors), ("F1", s.quality)


@dataclass(frozen=True, eq=False, repr=False)
class ModelFile:
    """A model file that was read and checked, with its manifest and statement; the model is not built yet.

    Attributes
    ----------
    path : Path
    manifest : Manifest
    statement : PrivacyStatement
        The statement of the release that the model was made from; the model is post-processing of it, and as public.
    parts : dict of str to bytes
    n_bytes : int
    sha256 : str
        Of the whole file.
    """

    path: Path
    manifest: Manifest
    statement: PrivacyStatement
    parts: Mapping[str, bytes] = field(default_factory=dict)
    n_bytes: int = 0
    sha256: str = ""

    def __repr__(self) -> str:
        return f"ModelFile({self.path.name!r}, {self.manifest.kind!r}, classes={len(self.manifest.classes)})"

    @contextmanager
    def unpacked(self) -> Iterator[Path]:
        """Yield a temporary folder with the parts in it.

        Any failure while they are read is raised as one line that says the file is damaged.
        """
        with tempfile.TemporaryDirectory(prefix="pate-model-") as name:
            for part, data in self.parts.items():
                (Path(name) / part).write_bytes(data)
            problem = ""
            try:
                yield Path(name)
            except PateError:
                raise
            except Exception as error:  # a wrong shape or type may raise any
                problem = type(error).__name__
            if problem:
                raise damaged(self.path, f"its parts do not make a model ({problem})")

    def rows(self) -> list[tuple[str, str | tuple[str, ...]]]:
        """Return the facts of the model for its page: pairs of a heading and a text, or a list of texts."""
        m = self.manifest
        kinds, classes = {type(c).__name__ for c in m.classes}, as_plain_text(", ".join(map(str, m.classes)))
        types = {"str": "texts", "bool": "truth values", "int": "whole numbers", "float": "numbers"}
        return [
            ("Model", KINDS[m.kind]),
            ("Made of", tuple(map(as_plain_text, m.made_of))),
            ("Predicts", f"a number from {m.classes[0]:g} to {m.classes[1]:g}")
            if m.kind in OF_NUMBERS
            else ("Labels", classes)
            if m.kind == "labels"
            else ("Classes", f"{classes} ({', '.join(sorted(types[k] for k in kinds))})"),
            ("Takes", str(m.door)),
            ("Costs", "no more privacy, however often it is used: it is as public as the release it was made from"),
            ("Holds", "released statistics and public rows, and what was computed from them; no private row, vote, "
                      "ballot or teacher"),
            ("File", f"{self.n_bytes:,} bytes, SHA-256 {self.sha256}, written by pate {as_plain_text(m.pate)}"),
        ]  # fmt: skip

    def text(self) -> str:
        """Return the model and its statement as plain text."""
        return plain_language.text(self.rows(), "MODEL") + "\n" + self.statement.text()

    def html(self) -> str:
        """Return the model and its statement as one HTML page, which loads nothing from the network."""
        s, rows, say, name = self.statement, self.rows(), english(), shlex.quote(self.path.name)
        # How good it is, where that was measured at a part of the same price.
        good = [(title, str(found)) for title, found in _measured(s) if found is not None]
        return render(
            "model.html",
            name=self.path.name,
            headline=s.headline,
            seeded=s.seeded,
            page=plain_language.plain_language_page(s, say, s.digest),
            short=[*(row for row in rows if row[0] in _SHORT), *(good or [_UNMEASURED])],
            doubts=[doubt.sentence for doubt in s.doubts],
            predict=f"pate predict new.csv --model {name} --out predictions.csv",
            show=f"pate show {name}",
            rows=rows,
            statement=s.rows(),
            glossary=plain_language.glossary(say),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the file's facts, the manifest and the statement as JSON values."""
        facts = {"bytes": self.n_bytes, "sha256": self.sha256}
        return {"file": facts, "model": self.manifest.to_dict(), "statement": self.statement.to_dict()}


def check_model_path(path: str | os.PathLike[str], *, name: str = "path") -> Path:
    """Check that a model may be written to a path (an unused name that ends in ``.pate``), and return the path."""
    goal = Path(path)
    if goal.suffix != SUFFIX:
        raise InvalidInputError(f"{name} must end in {SUFFIX}, got {goal.name!r}. Rename it.")
    if os.path.lexists(goal):
        raise RunFolderError(f"{str(goal)!r} exists. Results are never overwritten: name another file.")
    return goal


def write_model(
    path: str | os.PathLike[str],
    manifest: Manifest,
    statement: PrivacyStatement,
    parts: Mapping[str, bytes],
    *,
    before: Callable[[dict[str, bytes]], None] | None = None,
) -> None:
    """Write a model file, whole or not at all; an existing file is never overwritten.

    ``statement`` is of the release that it was made from, ``parts`` are files by name (``*.safetensors`` or
    ``*.skops``), and ``before`` is called with the file's name and bytes before they are written.

    Examples
    --------
    >>> import tempfile
    >>> from pate import Budget, GNMax, Votes, release_labels
    >>> from pate.models.file import InputSpec
    >>> statement = release_labels(
    ...     Votes.from_counts([[9, 1]]), GNMax(sigma=9.0), budget=Budget(2.0, 1e-5)
    ... ).statement
    >>> spec = InputSpec(kind="array", n_features=1)
    >>> manifest = Manifest(kind="student", classes=(0, 1), dtype="<i8", door=spec)
    >>> file = Path(tempfile.mkdtemp()) / "model.pate"
    >>> write_model(file, manifest, statement, {})
    >>> read_model(file).statement == statement
    True
    """
    goal = check_model_path(path)
    if called := _rows_called(statement):
        made_of = tuple(line.replace("public rows", called) for line in manifest.made_of)
        manifest = replace(manifest, made_of=made_of)
    stated = _json(statement.to_dict())
    made = archived(manifest.to_dict(), {_STATEMENT: stated, **dict(sorted(parts.items()))})
    if before is not None:
        before({goal.name: made})
    with writing("path", path):
        write_bytes(goal, made)


def archived(described: Mapping[str, Any], members: Mapping[str, bytes]) -> bytes:
    """Return an archive of a description (JSON values) and parts, which it names with their digests.

    Examples
    --------
    >>> from_archive(archived({"kind": "round"}, {"a.safetensors": b"1"}), "round.pate")
    ({'kind': 'round'}, {'a.safetensors': b'1'})
    """
    listed = {"files": {name: _facts(data) for name, data in sorted(members.items())}}
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name, data in {_MANIFEST: _json({**described, **listed}), **members}.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), data)
    return made.getvalue()


def from_archive(data: bytes, path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return description and parts of an archive, checked byte by byte; ``path`` is its name in errors."""
    described, members, intact = _opened(Path(path), data)
    if not intact:
        raise damaged(path, _OTHER_PARTS)
    return described, members


def _opened(file: Path, data: bytes) -> tuple[dict[str, Any], dict[str, bytes], bool]:
    """Return description and parts, and whether the parts are those that it names."""
    members = _members(file, data)
    described = _parsed(file, members.pop(_MANIFEST, b""), "manifest")
    files = described.pop("files", None) if isinstance(described, dict) else None
    return described, members, files == {name: _facts(part) for name, part in members.items()}


def _rows_called(statement: PrivacyStatement) -> str:
    """Return what the rows are that maps were fitted on, where they are not public ones of somebody's."""
    known = {a.name: a.how for a in statement.assumptions}
    if known.get("public rows", "").startswith("pate drew them"):
        return "synthetic rows"
    return "made-up rows" if "ranges" in known and "public rows" not in known else ""


def write_page(file: ModelFile, out: str | os.PathLike[str]) -> None:
    """Write a page that describes the model, with its statement, to a new ``.html`` or ``.txt`` file."""
    goal = new_page(out)
    with writing("out", out):
        write_text(goal, file.html() if goal.suffix == ".html" else file.text())


def read_model(path: str | os.PathLike[str]) -> ModelFile:
    """Read and check a model file (``.pate``); no code in it is run, and no model is built yet.

    It refuses a missing file, another format, a damaged file, and a statement that was altered.

    Examples
    --------
    >>> read_model("nowhere.pate")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: there is no model file 'nowhere.pate'. Check the name and the folder.
    """
    file = Path(path)
    if not file.is_file():
        raise InvalidInputError(f"there is no model file {os.fspath(path)!r}. Check the name and the folder.")
    try:
        data = file.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{os.fspath(path)!r} cannot be read: {error.strerror}. Check its rights.") from None
    described, members, intact = _opened(file, data)
    try:
        manifest = Manifest.from_dict(described)
    except InvalidInputError as error:
        raise damaged(file, str(error)) from None
    except (TypeError, ValueError):
        raise damaged(file, "its manifest is not valid") from None
    if not intact or _STATEMENT not in members:
        raise damaged(file, _OTHER_PARTS)
    try:
        statement = PrivacyStatement.from_dict(_parsed(file, members.pop(_STATEMENT), "statement"))
    except PateError as error:
        raise damaged(file, str(error)) from None
    return ModelFile(file, manifest, statement, members, len(data), hashlib.sha256(data).hexdigest())


def damaged(path: str | os.PathLike[str], why: str) -> InvalidInputError:
    """Return the error for a damaged file."""
    whole = why.rstrip(".")
    return InvalidInputError(
        f"{os.fspath(path)!r} is not an intact model file: {whole}. Fetch it again, or save the model again."
    )


def _members(file: Path, data: bytes) -> dict[str, bytes]:
    """Return the archive's members; compressed ones are refused, so that a small file unpacks to no large one."""
    problem = ""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            names = [info.filename for info in infos]
            if len(infos) > _MOST_PARTS or len(set(names)) != len(names):
                problem = "it has too many members, or two of one name"
            elif any(not (n in (_MANIFEST, _STATEMENT) or _PART.fullmatch(n)) for n in names):
                problem = "it has members with names that model files do not use"
            elif any(i.compress_type != zipfile.ZIP_STORED or i.flag_bits & 1 or i.is_dir() for i in infos):
                problem = "its members are compressed or encrypted"
            elif sum(max(i.file_size, i.compress_size) for i in infos) > len(data):
                problem = "its members claim to be larger than the file"
            elif any(i.file_size > _MOST_JSON_BYTES for i in infos if i.filename in (_MANIFEST, _STATEMENT)):
                problem = "its description is too long"
            else:
                return {name: archive.read(name) for name in names}
    except Exception as error:  # a parser may raise any
        problem = f"it is not a readable zip archive ({type(error).__name__})"
    raise damaged(file, problem)


def _parsed(file: Path, data: bytes, what: str) -> Any:
    try:
        return parse_json(data)
    except (ValueError, RecursionError):
        raise damaged(file, f"its {what} is missing or not JSON") from None


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n").encode("ascii")


def _facts(data: bytes) -> dict[str, Any]:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
