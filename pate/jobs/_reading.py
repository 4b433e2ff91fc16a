"""Read a job's data: a private and a public table, or a private and a public folder of images."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pate._core.checks import canonical, cell_kind, check_classes, check_no_amounts, one_spelling, quietly
from pate._core.curator import CuratorMessage, warn
from pate.data import (
    TARGET,
    Column,
    ColumnUse,
    ImageFolder,
    TableFormat,
    TablePair,
    about_owners,
    as_label,
    as_number,
    as_written,
    file_of,
    is_table,
    is_text_column,
    quoted,
    read_both,
    read_images,
    read_table,
    without_empty,
)
from pate.data._columns import THOUSANDS_UNSAID, have_groups
from pate.data.schema import declared_by_name
from pate.exceptions import CheckpointWarning, InvalidInputError, PrivacyLeakWarning
from pate.jobs._request import LabelSettings, check_id
from pate.teachers import import_teacher, is_import_path, make_teacher
from pate.teachers.checkpoints import pack

# The classes of a job, and labels as the classes' own values.


def read_classes(y: npt.NDArray[Any]) -> tuple[Any, ...]:
    warn(
        "classes= was not given, so the set of classes is taken from the private target and becomes public with the "
        "labels. Name every possible class.",
        PrivacyLeakWarning,
    )
    found = quietly("the target", _distinct, y)
    check_no_amounts("the target", [as_label(value) for value in found.tolist()], len(y), named="classes= (--classes)")
    return check_classes(found)


def _distinct(y: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the values that occur, sorted: as numbers or truth values if all are, else as they are written."""
    values = [value for value in y.tolist() if cell_kind(value) != "missing"]
    spelt = [as_label(value) for value in values]
    if len({isinstance(value, bool) for value in spelt}) == 1 and not any(isinstance(v, str) for v in spelt):
        return np.unique(np.array(spelt))
    column = np.empty(len(values), dtype=object)
    column[:] = values
    found = np.unique(column)
    return np.array(one_spelling(found.tolist()), dtype=object)


def as_classes(y: npt.NDArray[Any], classes: tuple[Any, ...]) -> npt.NDArray[Any]:
    """Read a column as the classes' own type: a command line gives ``0,1`` as text, a file holds numbers.

    Value by value: a record with an odd or missing one changes no other record's class. A value is the class that it
    equals, else the one that is written alike (``0`` is ``"0"``; in NFC, without outer blanks), else the one that is
    the same number (``"0.0"``). What is none of them stays as it is, and its record is not used for training.
    """
    known = frozenset(classes)
    by_text: dict[str, Any] = {}
    by_number: dict[float, Any] = {}
    for value in classes:
        by_text.setdefault(as_written(value), value)
        if np.isfinite(as_number(value)):
            by_number.setdefault(as_number(value), value)
    values = np.empty(len(y), dtype=object)
    values[:] = [_as_class(value, known, by_text, by_number) for value in y.tolist()]
    return values


def _as_class(value: Any, known: frozenset[Any], by_text: dict[str, Any], by_number: dict[float, Any]) -> Any:
    try:
        if value in known:
            return value
        text = as_written(value)
    except Exception:  # a cell that cannot be looked up or written, such as a list of its own kind
        return None
    return by_text[text] if text in by_text else by_number.get(as_number(value), value)


def about_thousands(y: npt.NDArray[Any]) -> list[CuratorMessage]:
    """Return what the curator should know of cells of a numeric target that nobody said how to read."""
    return [CuratorMessage(f"numbers of the target: {THOUSANDS_UNSAID}.")] if have_groups(y.tolist()) else []


_UNKNOWN = TableFormat("table")


@dataclass(frozen=True, eq=False, repr=False)
class Sources:
    """Private records, and public rows with the same features if there are any.

    X, y and groups are the private records, **sensitive**: X a DataFrame, an array of texts (``kind`` "texts": a table
    whose one feature is a column of texts), or one of numbers for images. ``public`` are public rows before any
    encoding, ``hashed`` the same as they stand in the files, by which a ledger recognises them; ``names`` the files of
    public images, ``ids`` and ``id_name`` the public rows' own. ``files`` says how all was read, from public rows and
    names alone, ``odd`` which columns have a remark; ``messages`` what the curator is warned of in private columns.
    ``tiers`` are public. ``written`` says how the public file is written, or the private one where there is none,
    ``of_target`` the private one. ``image_shape`` is (height, width), or (3, height, width) of colours: rows hold pixel
    after pixel nevertheless.
    """

    kind: str
    X: Any
    y: npt.NDArray[Any]
    groups: npt.NDArray[Any] | None
    public: Any
    hashed: Any
    names: tuple[str, ...] | None = None
    image_shape: tuple[int, ...] | None = None
    ids: npt.NDArray[Any] | None = None
    id_name: str | None = None
    files: tuple[tuple[str, str], ...] = ()
    odd: tuple[str, ...] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    written: TableFormat = _UNKNOWN
    of_target: TableFormat = _UNKNOWN
    messages: tuple[CuratorMessage, ...] = ()
    tiers: npt.NDArray[Any] | None = None

    @property
    def unit(self) -> str:
        """What is protected."""
        return "record" if self.groups is None else "group"

    @property
    def n_units(self) -> int:
        """How many of them there are: owners of any types, mixed ones too; a record of unknown owner is in no shard."""
        if self.groups is None:
            return len(self.y)
        return len({owner for owner in self.groups.tolist() if owner is not None})


#: What is said of tables alone.
_OF_TABLES = (
    "target",
    "drop",
    "text",
    "id",
    "only_common",
    "sep",
    "encoding",
    "decimal",
    "thousands",
    "sheet",
    "dates",
)


def read_sources(job: LabelSettings, classes: tuple[Any, ...] | None = None) -> Sources:
    """Read both sides; what columns and images are like is decided by the public one, whatever private cells are.

    ``classes`` are held against public labels alone. Without a public side ``schema`` decides, of images their size and
    colour.
    """
    private, public = job.private, job.public
    if public is None:
        return _alone(job) if is_table(private) else _images_alone(job)
    folders = [not is_table(p) for p in (private, public)]
    if folders[0] != folders[1]:
        raise InvalidInputError(
            f"private and public must both be tables or both be folders of images, got {os.fspath(private)!r} and "
            f"{os.fspath(public)!r}. Bring both to the same kind."
        )
    if not folders[0]:
        given = [name for name in ("size", "resize", "color") if getattr(job, name)]
        if given and Path(private).exists():
            raise InvalidInputError(f"{' and '.join(given)} is for folders of images, not for tables. Leave it out.")
        return _tables(job, public, classes)
    named = [name for name in _OF_TABLES if getattr(job, name) and getattr(job, name) != "auto"]
    if named:
        raise InvalidInputError(
            f"{' and '.join(named)} is for tables: in a folder of images the sub-folders are the classes. Leave it out."
        )
    how: dict[str, Any] = {"resize": job.resize, "convert": job.color is not None, "verbose": job.verbose}
    shown = read_images(public, size=job.size, color=job.color, **how)
    held = read_images(private, labelled=True, group=job.group, like=shown, **how)
    pixels = shown.X.reshape(len(shown.X), -1)
    return _images(held, public=shown.rows(), hashed=pixels, names=shown.names)


def read_public_alone(
    public: str | os.PathLike[str],
    *,
    size: tuple[int, int] | None = None,
    resize: bool = False,
    color: str | None = None,
    **written: Any,
) -> Sources:
    """Read public rows whose private side is elsewhere: a table, as :func:`pate.read_table` does, or images."""
    if not is_table(public):
        shown = read_images(public, size=size, resize=resize, color=color, convert=color is not None)
        height, width, *colours = shown.X.shape[1:]
        pixels, shape = shown.X.reshape(len(shown.X), -1), (*colours, height, width)
        return Sources("images", None, None, None, shown.rows(), pixels, shown.names, shape)  # type: ignore[arg-type]
    table = without_empty(read_table(public, **written))
    texts = _are_texts(table.X, written.get("text", ()))
    return Sources(
        "texts" if texts else "table",
        None,
        None,  # type: ignore[arg-type]
        None,
        _as_texts(table.X) if texts else _as_table(table.X),
        table.X,
        ids=table.ids,
        id_name=table.id_name,
        kinds=table.kinds,
        written=table.format,
    )


def _images(held: ImageFolder, public: Any = None, hashed: Any = None, names: tuple[str, ...] | None = None) -> Sources:
    assert held.y is not None
    height, width, *colours = held.X.shape[1:]
    return Sources("images", held.rows(), held.y, held.groups, public, hashed, names, (*colours, height, width))


def _images_alone(job: LabelSettings) -> Sources:
    if job.size is None or job.color is None or job.schema is not None:
        raise InvalidInputError(
            "size and color must be named (--size, --color), and schema left out, where no public images say what "
            "images are like: the private ones must not."
        )
    return _images(
        read_images(
            job.private, labelled=True, group=job.group, size=job.size, color=job.color, resize=job.resize,
            convert=True, verbose=job.verbose,
        )
    )  # fmt: skip


def _alone(job: LabelSettings) -> Sources:
    """Read the private table where nothing is public but what a person declared of it."""
    private, target, name = job.private, canonical(job.target), file_of(job.private).name
    if job.schema is None:
        raise InvalidInputError(
            "schema must be declared where there are no public rows: it says which columns there are, and what is in "
            "them. Pass public=, or schema={'age': (0, 120), 'sex': ['male', 'female']} (--range age=0:120)."
        )
    _check_target(target, private, name)
    schema = declared_by_name(job.schema)
    if schema is None:
        raise InvalidInputError("schema of a table must be by the names of its columns. Say {'age': (0, 120), ...}.")
    kinds = schema.kinds
    roles = [canonical(one) for one in (target, job.group, job.id) if one is not None]
    if clash := [one for one in roles if one in kinds]:
        raise InvalidInputError(
            f"schema must not name {clash[0]!r}: that is the target, the group or the id. Take it out of the schema."
        )
    held = read_table(
        private, target=target, group=job.group, id=job.id, like=schema, sep=job.sep, encoding=job.encoding,
        decimal=job.decimal, thousands=job.thousands, sheet=job.sheet,
    )  # fmt: skip
    absent = [column for column in kinds if column not in held.X.columns]
    if absent:
        raise InvalidInputError(
            f"schema names columns that {name} lacks: {quoted(absent)}. It has: {quoted(held.X.columns)}."
        )
    if held.y is None:
        raise _no_target(name, target)
    left = [f"{c}: left out, as no range of it was declared" for c in held.X.columns if c not in kinds]
    lines = [*(f"{column.name}: {_declared(column)}" for column in schema.columns), *left]
    n = f"; {len(held.X):,} rows" if held.groups is None else ""
    return Sources(
        "table",
        held.X[list(kinds)],
        held.y,
        held.groups,
        None,
        None,
        files=(("private", f"{name}: {held.format}{n}"), ("columns", "\n".join(lines))),
        odd=tuple(left[:_MOST_REMARKS]),
        kinds=kinds,
        written=held.format,
        of_target=held.format,
        messages=tuple(about_owners(held.X)) if job.group is None else (),
    )


def _check_target(target: str | None, private: str | os.PathLike[str], name: Any) -> None:
    if target is None and Path(private).suffix.lower() != ".npz":
        raise _no_target(name, target)


def _no_target(file: Any, target: str | None) -> InvalidInputError:
    return InvalidInputError(f"target must name the column of {file} that is to be learnt, got {target!r}.")


def _declared(column: Column) -> str:
    if column.range is None:
        return f"{len(column.categories or ())} categories"
    low, high = column.range
    return f"{'number' if column.kind == 'numeric' else 'day'} from {low:g} to {high:g}"


def _tables(job: LabelSettings, public: str | os.PathLike[str], classes: tuple[Any, ...] | None) -> Sources:
    _check_target(job.target, job.private, file_of(job.private))
    check_id(job.id, classes)
    options: dict[str, Any] = {name: getattr(job, name) for name in (*_OF_TABLES, "group", "tiers", "verbose")}
    pair = read_both(job.private, public, **options)
    if pair.private.y is None:
        raise _no_target(file_of(job.private), job.target)
    shown = pair.public
    texts = _are_texts(shown.X, job.text)
    X, rows = map(_as_texts, (pair.private.X, shown.X)) if texts else (pair.private.X, _as_table(shown.X))
    columns = _uses(pair, classes, texts=texts)
    return Sources(
        "texts" if texts else "table",
        X,
        pair.private.y,
        pair.private.groups,
        rows,
        shown.X,
        ids=shown.ids,
        id_name=shown.id_name,
        files=_described(pair, columns),
        odd=tuple(str(use) for use in columns if use.remark)[:_MOST_REMARKS],
        kinds=shown.kinds,
        written=shown.format,
        of_target=pair.private.format,
        messages=pair.told,
        tiers=pair.private.tiers,
    )


def _are_texts(public: Any, codes: Iterable[str]) -> bool:
    """Whether the one feature is a column of texts, by its public cells, and nobody said that it holds codes."""
    return is_text_column(public) and public.columns[0] not in codes


def _as_table(public: Any) -> Any:
    """Return a public table in which codes that look like texts are declared categories."""
    return public.astype("category") if is_text_column(public) else public


def _as_texts(side: Any) -> npt.NDArray[np.object_]:
    return np.asarray(side.iloc[:, 0].fillna("").to_numpy(dtype=object))


#: So many columns are listed one by one.
_MOST_LISTED = 40
#: So many remarks are shown beside a shorter list.
_MOST_REMARKS = 20


def _uses(pair: TablePair, classes: tuple[Any, ...] | None, *, texts: bool) -> list[ColumnUse]:
    """Return what becomes of the columns of two tables."""
    odd = _not_classes(pair.public.y, classes)
    columns = [replace(use, remark=odd) if use.becomes == TARGET else use for use in pair.columns]
    if texts:
        columns = [ColumnUse(use.name, "texts") if use.name in pair.public.X.columns else use for use in columns]
    return columns


def _described(pair: TablePair, columns: list[ColumnUse]) -> tuple[tuple[str, str], ...]:
    """Return how two tables were read and what becomes of their columns, as named lines."""
    if len(columns) <= _MOST_LISTED:
        lines = [str(use) for use in columns]
    else:
        alike: dict[str, list[str]] = {}
        for use in columns:
            alike.setdefault(use.kind, []).append(use.name)
        lines = [f"{kind}: {_some(names)}" for kind, names in alike.items()]
        lines += [str(use) for use in columns if use.remark][:_MOST_REMARKS]
    sides = (("private", pair.private), ("public", pair.public))
    # How many records a person has is theirs alone to know, and so is the sum over all persons.
    counted = [f"; {len(table.X):,} rows" if table.groups is None else "" for _, table in sides]
    files = [(side, f"{table.path.name}: {table.format}{n}") for (side, table), n in zip(sides, counted, strict=True)]
    return (*files, ("columns", "\n".join(lines)))


def _some(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 5 else f"{names[0]}, {names[1]}, ... {names[-1]} ({len(names)} columns)"


def _not_classes(labels: npt.NDArray[Any] | None, classes: tuple[Any, ...] | None) -> str:
    """Say which labels of the public file are no classes; of the private one's nothing is said."""
    if labels is None or classes is None:
        return ""
    found = {str(value) for value in as_classes(labels, classes).tolist() if value is not None and value not in classes}
    return f"the public file has {', '.join(map(repr, sorted(found)[:5]))} there, which is no class" if found else ""


def in_planes(rows: Any, image_shape: tuple[int, ...] | None) -> Any:
    """Return rows of coloured images colour by colour, as representations of images take them; others as they are."""
    if image_shape is None or len(image_shape) < 3:
        return rows
    colours, height, width = image_shape
    pixels = rows.reshape(len(rows), height, width, colours)
    return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)).reshape(len(rows), -1)


# What a job is given, brought to one form: the teacher, the classes, the units.


def chosen_teacher(teacher: Any, *, allow_import: bool) -> Any:
    if not is_import_path(teacher):
        return make_teacher(teacher)
    if not allow_import:
        raise InvalidInputError(
            f"teacher {teacher!r} is an import path: importing it runs whatever code is in that module, with your "
            "rights and beside the private data. If you trust it, say so: allow_import=True (--allow-import)."
        )
    return import_teacher(teacher)


def name_of(teacher: Any, estimator: Any) -> str:
    return teacher if isinstance(teacher, str) else type(estimator).__name__


def kept_in(checkpoint_dir: Any, estimator: Any, teacher: Any) -> Any:
    """Return the folder for checkpoints, or None when an imported teacher cannot be kept safely."""
    if checkpoint_dir is not None and is_import_path(teacher):
        try:
            pack(estimator, b"")
        except InvalidInputError:
            warn(
                f"teachers of type {type(estimator).__name__} cannot be read back safely, so none is kept: a killed "
                "run trains them again.",
                CheckpointWarning,
            )
            return None
    return checkpoint_dir
