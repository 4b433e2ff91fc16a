"""Schemas: what the columns of a table hold, learnt from public rows or declared by the user."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pate._core.checks import canonical, check_choice, check_spellings, did_you_mean, shown
from pate._core.files import atomic_path, parse_toml
from pate._core.frames import plain_rows
from pate.data._columns import DATE, DATE_FORMS, as_days, as_float, as_text, column_kind, holds_numbers
from pate.data._validation import is_frame, is_sparse, is_texts, read_rows
from pate.exceptions import InvalidInputError

NUMERIC, CATEGORY, TEXT = "numeric", "category", "text"
_KINDS = (NUMERIC, CATEGORY, TEXT, *(f"{DATE}{form}" for form in DATE_FORMS))
#: What rows are as a whole: of named columns, without names, or one text each.
_ROWS = ("table", "array", "texts")
#: More categories of one column are no list that a person types.
MOST_VALUES = 256
#: Rows that are made up within declared ranges: in each column evenly spread, every category about as often as others.
_MADE_UP, _SEED = 1024, 0x5EED
#: A column's kind in a draft, where a person is to say it.
_OPEN = "?"
_SAY = "Say (low, high), two numbers, or the list of its categories, as texts."


@dataclass(frozen=True)
class Column:
    """One column of a :class:`Schema`, as public rows show it or as you declare it.

    Attributes
    ----------
    name : str
    kind : {"numeric", "category", "text", "date:year-first", "date:day-first", "date:month-first", "date:declared"}
        A date is read as days since 1970-01-01; ``"text"`` is a text whose values are not listed.
    categories : tuple of str or None
        All values of a category, each once.
    range : (float, float) or None
        The least and the largest number, or day; equal where there is but one. Days may be given as dates, or texts
        such as ``"2020-01-31"``.
    integer : bool
        Whether all numbers are whole.
    special : tuple of float
        Numbers that are codes and measure nothing, such as -9 for "not asked". Readers leave them as they are.

    Raises
    ------
    InvalidInputError
        A value of another kind, a reversed range, categories that are empty or stand there twice.

    Examples
    --------
    >>> Column("age", "numeric", range=(0, 120), integer=True).range
    (0.0, 120.0)
    """

    name: str
    kind: str
    categories: tuple[str, ...] | None = None
    range: tuple[float, float] | None = None
    integer: bool = False
    special: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", canonical(_check_text("the name of a column", self.name)))
        at = f" of the column {self.name!r}"
        check_choice(f"kind{at}", self.kind, _KINDS)
        if not isinstance(self.integer, bool):
            raise InvalidInputError(f"integer{at} must be true or false, got {shown(self.integer)}. Say one of them.")
        if (self.kind == CATEGORY) != (self.categories is not None):
            needs = "must be listed" if self.kind == CATEGORY else f"must be left out, as its kind is {self.kind!r}"
            raise InvalidInputError(f"categories{at} {needs}. They go with the kind 'category', and with no other.")
        if self.categories is not None:
            object.__setattr__(self, "categories", _unlike(f"categories{at}", self.categories, _check_text))
            if not self.categories:
                raise InvalidInputError(f"categories{at} must name one at least, got none. List all of them.")
        if self.kind in (CATEGORY, TEXT) and (self.range is not None or self.integer):
            raise InvalidInputError(f"range and integer{at} must be left out, as its kind is {self.kind!r}.")
        if self.range is not None:
            end_of = _day if self.kind.startswith(DATE) else _number
            ends = tuple(end_of(f"range{at}", end) for end in _listed(f"range{at}", self.range))
            if len(ends) != 2 or ends[0] > ends[1]:
                raise InvalidInputError(f"range{at} must be two numbers, the lower first, got {list(ends)}. Swap them.")
            object.__setattr__(self, "range", ends)
        object.__setattr__(self, "special", _unlike(f"special{at}", self.special, _number))
        if self.special and self.kind != NUMERIC:
            raise InvalidInputError(f"special{at} must be left out, as its kind is {self.kind!r}: it is of numbers.")

    def spread(self) -> npt.NDArray[Any]:
        """Return made-up cells, shape (1024,): evenly over the range, or every category about as often as others."""
        if self.categories is not None:
            if not 2 <= len(self.categories) <= MOST_VALUES:
                raise InvalidInputError(
                    f"schema of {self.name!r} must name 2 to {MOST_VALUES} categories, got {len(self.categories)}. "
                    "Name the frequent ones: all others count as missing."
                )
            return np.resize(np.array(self.categories, dtype=object), _MADE_UP)
        cells = np.linspace(*_apart(f" of {self.name!r}", *(self.range or (0.0, 0.0))), _MADE_UP)
        return np.round(cells) if self.integer else cells


@dataclass(frozen=True, repr=False)
class Schema:
    r"""A schema: the columns of a table, with their names, kinds, categories and ranges.

    Attributes
    ----------
    columns : tuple of Column
        In their order, each name once; none where rows are texts.
    rows : {"table", "array", "texts"}
        A table has columns that are known by name; those of an array are by place, x0, x1, ... here; texts are one a
        row.

    Notes
    -----
    **Guarantees.** All that is in a schema is public: :meth:`learn` is for public rows alone, and what is declared
    must be known without the private records. Nothing of a private row may ever enter one, for readers let it decide
    what every private cell becomes, and it may be written down and shown. So given, a private cell is read by itself.

    Examples
    --------
    >>> import pandas as pd, tempfile
    >>> schema = Schema.learn(
    ...     pd.DataFrame({"age": [20, 40, 31], "town": ["Oslo", "Rome", "Oslo"]})
    ... )
    >>> schema, schema.columns[0].range, schema.columns[1].categories
    (Schema(1 numeric, 1 category), (20.0, 40.0), ('Oslo', 'Rome'))
    >>> path = Path(tempfile.mkdtemp()) / "schema.toml"
    >>> schema.write(path)
    >>> print(path.read_text())
    # What the columns of a table hold, as pate reads them. All of it is public.
    rows = "table"
    <BLANKLINE>
    [[column]]
    name = "age"
    kind = "numeric"
    range = [20.0, 40.0]
    integer = true
    <BLANKLINE>
    [[column]]
    name = "town"
    kind = "category"
    categories = ["Oslo", "Rome"]
    <BLANKLINE>
    >>> Schema.read(path) == schema
    True
    """

    columns: tuple[Column, ...] = ()
    rows: str = "table"

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(_listed("columns", self.columns)))
        check_choice("rows", self.rows, _ROWS)
        odd = [column for column in self.columns if not isinstance(column, Column)]
        if odd:
            raise InvalidInputError(f"columns must be pate.data.Column values, got {shown(odd[0])}. Make one of each.")
        if bool(self.columns) == (self.rows == "texts"):
            needs = "none, as rows are texts" if self.columns else "one at least"
            raise InvalidInputError(f"columns must be {needs}, got {len(self.columns)}.")
        _unlike("the names of columns", self.names, _check_text)

    def __repr__(self) -> str:
        kinds = [column.kind.partition(":")[0] for column in self.columns]
        counted = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
        return f"Schema({counted}{', without names' * (self.rows == 'array')})" if kinds else "Schema(texts)"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def kinds(self) -> dict[str, str]:
        """What each column is, as :attr:`pate.data.Table.kinds` says it: ``"numeric"``, ``"text"`` or ``"date:"``."""
        return {column.name: TEXT if column.kind == CATEGORY else column.kind for column in self.columns}

    @classmethod
    def learn(cls, X_public: Any) -> Self:
        """Return what **public** rows hold.

        Parameters
        ----------
        X_public : DataFrame, Table, array of shape (n, n_features), or texts of shape (n,)
            Of a :class:`pate.data.Table` it is known which numbers are dates. A column of texts with at most 256
            different ones is a category. Special numbers are for a person to declare: none are learnt.

        Raises
        ------
        InvalidInputError
            Images, sparse rows, and what no reader of public rows takes (dates as such, infinite numbers of a file).
        """
        given, kinds = _taken(X_public)
        rows = read_rows(given, name="X_public")
        if is_texts(rows):
            return cls((), "texts")
        if is_sparse(rows) or rows.ndim > 2:
            raise InvalidInputError(
                "X_public must be a table, an array of shape (n, n_features) or texts, got a sparse matrix or images. "
                "Sparse rows and images have no columns by name, and need no schema: leave it out."
            )
        import pandas as pd

        dates = {n: kind for n, kind in kinds.items() if kind.startswith(DATE)}
        frame = rows if is_frame(rows) else pd.DataFrame(rows).infer_objects().add_prefix("x")
        cells = (frame.iloc[:, j] for j in range(frame.shape[1]))
        found = [_learnt(str(name), column, dates) for name, column in zip(frame.columns, cells, strict=True)]
        return cls(tuple(found), "table" if is_frame(rows) else "array")

    @classmethod
    def declared(cls, ranges: Any, *, n_columns: int | None = None) -> Self:
        """Return the schema of declared ranges, as ``ranges=`` takes them; a schema is returned as it is.

        Parameters
        ----------
        ranges : mapping of str to (low, high) or list of str; (low, high); list of (low, high); or Schema
            For each column of a table a range of numbers, or all its categories; for an array one range for all
            columns, or one for each.
        n_columns : int or None
            Number of columns of an array; needed if one range is given for all columns.

        Examples
        --------
        >>> Schema.declared({"age": (0, 120), "sex": ["male", "female"]})
        Schema(1 numeric, 1 category)
        """
        if isinstance(ranges, cls):
            made = ranges
        elif isinstance(ranges, Mapping):
            if not ranges or not all(isinstance(name, str) for name in ranges):
                raise InvalidInputError(
                    f"schema must name at least one column, by texts, got {shown(ranges) if ranges else 'none'}. Say "
                    "{'age': (0, 120)}."
                )
            made = cls(tuple(_declared(name, f" of {name!r}", given) for name, given in ranges.items()))
        elif not isinstance(ranges, Sequence) or isinstance(ranges, str) or not len(ranges):
            raise InvalidInputError(
                f"schema must be a mapping of columns to ranges, or (low, high) of all columns, got {shown(ranges)}. "
                "Say {'age': (0, 120), 'sex': ['male', 'female']}, or pass a pate.data.Schema."
            )
        else:
            pairs = [ranges] * (n_columns or 1) if _is_number(ranges[0]) else ranges
            made = cls(tuple(_declared(f"x{j}", f" of column {j}", pair) for j, pair in enumerate(pairs)), "array")
        if made.rows == "array" and n_columns not in (None, len(made.columns)):
            raise InvalidInputError(
                f"schema must be one (low, high), or one for each of the {n_columns} columns, got {len(made.columns)} "
                "of them."
            )
        return made

    def stand_ins(self) -> Any:
        """Return 1024 made-up rows within the ranges, a DataFrame or a float64 array; the same for equal schemas.

        No private cell is in them, nor counted for them: public maps are fitted on them where there are no public rows.

        Raises
        ------
        InvalidInputError
            A column has neither a range nor 2 to 256 categories.
        """
        import pandas as pd

        rng = np.random.default_rng(_SEED)
        if not self.columns:
            raise InvalidInputError(f"schema must be of the columns of a table, and these rows are texts. {_SAY}")
        made = [rng.permutation(cells) for cells in [column.spread() for column in self.columns]]
        if self.rows == "table":
            return pd.DataFrame({n: pd.Series(c, dtype=c.dtype) for n, c in zip(self.names, made, strict=True)})
        if any(column.categories is not None for column in self.columns):
            raise InvalidInputError("schema of an array must be numbers. Give categories by name, in a table.")
        return np.column_stack(made)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Return the schema in a TOML file that :meth:`write`, or a person, wrote.

        Raises
        ------
        InvalidInputError
            No such file, or not TOML; an unknown key; a value that :class:`Column` refuses; two columns of one name.
        """
        try:
            held = parse_toml(Path(path).read_text(encoding="utf-8-sig"))
        except (OSError, ValueError, RecursionError) as error:
            why = getattr(error, "strerror", None) or error
            raise InvalidInputError(
                f"the schema {os.fspath(path)!r} cannot be read: {why}. Write a TOML file with a [[column]] for each "
                "column: name = 'age', kind = 'numeric', range = [0, 120]."
            ) from None
        try:
            return cls._of_tables(held)
        except InvalidInputError as error:
            raise InvalidInputError(f"the schema {os.fspath(path)!r}: {error}") from None

    @classmethod
    def _of_tables(cls, held: Mapping[str, Any]) -> Self:
        _check_keys("a schema", held, ("rows", "column"))
        tables = held.get("column", [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise InvalidInputError(f"column must be tables, got {shown(tables)}. Begin each with a line [[column]].")
        known = [field.name for field in fields(Column)]
        for j, table in enumerate(tables):
            _check_keys(f"the column {shown(table.get('name', j))}", table, known, needed=("name", "kind"))
            if table["kind"] == _OPEN:
                raise InvalidInputError(
                    f"the column {shown(table['name'])} is not filled in yet. Write its kind (numeric with a range, or "
                    "category with its categories) in place of '?', or take its [[column]] out."
                )
        return cls(tuple(Column(**table) for table in tables), held.get("rows", "table"))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a TOML file that :meth:`read` takes: whole, or not at all."""
        lines = [
            "# What the columns of a table hold, as pate reads them. All of it is public.",
            f'rows = "{self.rows}"',
        ]
        for column in self.columns:
            held = ((field.name, getattr(column, field.name), field.default) for field in fields(column))
            lines += ["", "[[column]]", *(f"{name} = {_toml(value)}" for name, value, usual in held if value != usual)]
        with atomic_path(path) as beside:
            beside.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


_DRAFT = """\
# What the columns of a table hold, as pate reads them. All of it is public: fill it in from a codebook or common
# knowledge, never by looking at the records. Of {file} the header line alone was read.
#
# Write in place of "?" what a column is, keep the lines that go with it without their #, and delete the others:
#   kind = "numeric"   range = [0, 120]; integer = true where all are whole; special = [-9], numbers that are codes
#                      ("not asked") or stand out (0 for "none")
#   kind = "category"  categories = ["no", "yes"], all of them, as they are written
#   kind = "date:year-first", "date:day-first" or "date:month-first"
#                      range = ["2020-01-01", "2024-12-31"], the earliest and the latest day
# A column that is not to be used: delete it, from [[column]] on.
rows = "table"
"""


def draft_schema(names: Sequence[str], file: str) -> str:
    """Return the TOML of a schema that a person is to fill in; :meth:`Schema.read` refuses it until that is done."""
    lines = ["# range = [0, 1]", "# integer = true", "# special = []", '# categories = ["", ""]']
    made = ["\n".join(["", "[[column]]", f"name = {_toml(n)}", f'kind = "{_OPEN}"', *lines, ""]) for n in names]
    return _DRAFT.format(file=_toml(file)) + "".join(made)


def schema_like(like: Any) -> Schema | None:
    """Return a schema of names and kinds from public rows; a schema is returned as it is.

    Nothing is refused here, nor is it learnt what a column ranges over: the validation of public rows does the one, and
    :meth:`Schema.learn` the other. None where rows say nothing of cells: images, sparse rows.
    """
    like = plain_rows(_taken(like)[0], name="X_public")
    if like is None or isinstance(like, Schema) or is_sparse(like):
        return like if isinstance(like, Schema) else None
    if is_frame(like):
        kinds = {canonical(str(n)) or "_": NUMERIC if holds_numbers(t) else TEXT for n, t in like.dtypes.items()}
        return Schema(tuple(Column(name, kind) for name, kind in kinds.items())) if kinds else None
    if hasattr(like, "__array__") and not hasattr(like, "__iter__"):  # what only NumPy can read
        like = np.asarray(like)
    lists = isinstance(like, list | tuple) and bool(like) and all(isinstance(row, list | tuple) for row in like)
    if not lists and np.ndim(next(iter(like), ())) == 0:
        return Schema((), "texts") if any(isinstance(cell, str) for cell in like) else None
    held = np.empty((len(like), len(like[0])), dtype=object) if lists else like
    with suppress(ValueError):  # rows of other lengths: the reader of public rows refuses them
        held = np.asarray(like) if lists else like
    shape = tuple(getattr(held, "shape", ()))
    if len(shape) != 2 or not shape[1]:
        return None
    numeric = [True] * shape[1]
    if getattr(held, "dtype", np.dtype(object)).kind not in "biuf":
        numeric = [not any(isinstance(row[j], str) for row in like if len(row) > j) for j in range(shape[1])]
    return Schema(tuple(Column(f"x{j}", NUMERIC if number else TEXT) for j, number in enumerate(numeric)), "array")


def declared_by_name(ranges: Any) -> Schema | None:
    """Return the schema of declared ranges of named columns; None where there are none, or they are an array's."""
    if not isinstance(ranges, Mapping | Schema):
        return None
    schema = Schema.declared(ranges)
    return schema if schema.rows == "table" else None


def declared_widths(ranges: Any) -> Schema | None:
    """Return the schema of ranges that say how many columns there are; None of one (low, high) for all of them."""
    one = isinstance(ranges, Sequence | np.ndarray) and not isinstance(ranges, str) and np.ndim(ranges) == 1
    return None if ranges is None or one else Schema.declared(ranges)


def _taken(given: Any) -> tuple[Any, Mapping[str, str]]:
    """Return the rows of a table that was read, and its kinds; of rows as such nothing is known."""
    if is_frame(given) or not hasattr(given, "X"):
        return given, {}
    return given.X, getattr(given, "kinds", {})


def _learnt(name: str, column: Any, dates: Mapping[str, str]) -> Column:
    """Return what one public column holds."""
    if column_kind(name, column) == NUMERIC:
        values = as_float(column).to_numpy()
        values = values[np.isfinite(values)]
        ends = (float(values.min()), float(values.max())) if len(values) else None
        whole = bool(len(values) and (values == np.floor(values)).all() and name not in dates)
        return Column(name, dates.get(name, NUMERIC), range=ends, integer=whole)
    known = sorted(str(cell) for cell in set(as_text(column).dropna()))
    return Column(name, CATEGORY, tuple(filter(None, known))) if 0 < len(known) <= MOST_VALUES else Column(name, TEXT)


def _declared(name: str, at: str, given: Any) -> Column:
    """Return the column of a declared range, or of declared categories."""
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if not isinstance(given, Sequence) or isinstance(given, str) or not len(given):
        raise InvalidInputError(f"schema{at} must be a range or categories, got {shown(given)}. {_SAY}")
    if all(isinstance(value, str) for value in given):
        made = Column(name, CATEGORY, tuple(dict.fromkeys(given)))
        made.spread()
        return made
    if len(given) != 2 or not all(_is_number(value) for value in given):
        raise InvalidInputError(f"schema{at} must be two numbers, or texts, got {shown(given)}. {_SAY}")
    return Column(name, NUMERIC, range=_apart(at, *map(float, given)))


def _apart(at: str, low: float, high: float) -> tuple[float, float]:
    """Return a range that rows can be spread over."""
    if not (low < high and math.isfinite(high - low)):
        raise InvalidInputError(
            f"schema{at} must be two finite numbers, the lower first, got ({low:g}, {high:g}). {_SAY}"
        )
    return low, high


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _day(what: str, value: Any) -> float:
    day = float(value) if _is_number(value) else as_days(value, "year-first")
    if not math.isfinite(day):
        raise InvalidInputError(
            f'{what} must hold days, got {shown(value)}. Write them as "2020-01-31", or as days since 1970-01-01.'
        )
    return day


def _number(what: str, value: Any) -> float:
    if math.isfinite(as_days(value, "year-first")):
        raise InvalidInputError(
            f"{what} must hold finite numbers, got {shown(value)}. Where they are dates, say so: kind = "
            '"date:year-first", "date:day-first" or "date:month-first", as the table writes them.'
        )
    if not _is_number(value) or not math.isfinite(value):
        raise InvalidInputError(f"{what} must hold finite numbers, got {shown(value)}. Say 0 or 1.5, for two.")
    return float(value)


def _check_text(what: str, value: Any) -> str:
    if not isinstance(value, str) or not canonical(value) or value != value.encode(errors="ignore").decode():
        raise InvalidInputError(f"{what} must be texts that are not empty, got {shown(value)}. Write it in quotes.")
    return str(value)


def _listed(what: str, value: Any) -> list[Any]:
    if not isinstance(value, list | tuple | np.ndarray):
        raise InvalidInputError(f"{what} must be a list, got {shown(value)}. Write it in [brackets].")
    return list(value)


def _unlike(what: str, values: Any, check: Any) -> tuple[Any, ...]:
    """Return values, each checked, texts in the form in which they are compared; refuse duplicates."""
    made = [check(what, value) for value in _listed(what, values)]
    twice = [value for value in dict.fromkeys(made) if made.count(value) > 1] if len(set(made)) < len(made) else []
    if twice:
        raise InvalidInputError(f"{what} must differ, and {shown(twice[0])} stands there twice. Leave one out.")
    check_spellings(what, made)
    return canonical(tuple(made))


def _check_keys(what: str, held: Mapping[str, Any], known: Sequence[str], *, needed: Sequence[str] = ()) -> None:
    for key in [key for key in held if key not in known]:
        near = did_you_mean(key, known) or " Leave it out."
        raise InvalidInputError(f"{what} has the key {key!r}, which is none of {', '.join(known)}.{near}")
    for key in [key for key in needed if key not in held]:
        raise InvalidInputError(f"{what} lacks {key!r}. Write {key} = '...'.")


def _toml(value: Any) -> str:
    """Return a text, number, truth value or a list of such as TOML writes it: JSON's way, but for one sign."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
