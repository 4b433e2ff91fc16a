"""Rows, labels and owners as teachers take them, and which private records can be used."""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import get_tags
from sklearn.utils.validation import validate_data

from pate._core.checks import (
    canonical,
    check_classes,
    check_labels,
    check_no_amounts,
    one_spelling,
    quietly,
    unmasked,
)
from pate._core.curator import CuratorMessage, joined_texts, nearly_alike, warn
from pate._core.frames import plain_column
from pate._core.types import Mask
from pate.data import (
    NO_OWNER,
    ODD_CELLS,
    OUTSIDE,
    by_name,
    count_cross_shard_duplicates,
    flat_rows,
    frame_as_floats,
    holds_numbers,
    is_frame,
    is_sparse,
    is_texts,
    order_key,
    read_rows,
    text_columns,
    usable_records,
)
from pate.data.partition import Partition, distinct_ids, has_id
from pate.exceptions import DuplicateRecordsWarning, InvalidInputError, PrivacyLeakWarning
from pate.privacy.budget import Budget
from pate.privacy.convert import gdp_from_budget
from pate.votes import hash_queries

if TYPE_CHECKING:
    import pandas as pd

# Rows (array, DataFrame, sparse matrix or texts): checked where they come in, cut by index.


#: Rows that are looked at together.
_BLOCK = 4096


def check_rows(X: Any, *, estimator: Any, name: str = "X", whole: bool = True, objects: bool = False) -> Any:
    """Return ``X`` as a 2-d array, a DataFrame, a CSR matrix or a 1-d array of texts that ``estimator`` may be given.

    Images are laid out flat. Missing values are refused unless the estimator declares that it takes them, or holds
    steps that may fill them; not ``whole`` leaves them in: of private rows, none may decide whether there is an error.
    ``objects``: as of :func:`pate.data.read_rows`.
    """
    rows = flat_rows(read_rows(X, name=name, objects=objects))
    who = type(estimator).__name__
    odd = "" if takes("string", estimator) else text_columns(rows)
    if odd:
        raise InvalidInputError(
            f"{name} must hold numbers for {who}, got {odd}. Make numbers of them inside each shard (a pipeline with "
            "an encoder or a vectoriser as its first step), or by what public rows teach (pate.TableEncoder)."
        )
    if whole and not is_texts(rows) and not takes_missing(estimator) and not complete_rows(rows).all():
        raise InvalidInputError(
            f"{name} holds NaN or infinity. Fill them (a SimpleImputer as the first step of a pipeline is fitted "
            "inside each shard), drop those rows, or use an estimator that takes missing values."
        )
    if is_sparse(rows) and not takes("sparse", estimator):
        raise InvalidInputError(f"{name} must be dense for {who}, got a sparse matrix. Pass X.toarray().")
    return rows


def remember_columns(estimator: Any, rows: Any, *, reset: bool) -> None:
    """Have scikit-learn remember names and number of columns, or see that they are those it remembers: public facts."""
    problem = ""
    try:
        validate_data(estimator, flat_rows(rows), reset=reset, skip_check_array=True)
    except (TypeError, ValueError) as error:
        problem = str(error)
    if problem:  # out here no context is kept
        raise InvalidInputError(problem)


def as_floats(X: Any) -> Any:
    """Return a DataFrame with its numbers and truth values as float64 (missing is NaN); other rows as they are."""
    return frame_as_floats(X) if is_frame(X) else X


def take_rows(X: Any, index: npt.NDArray[np.int64]) -> Any:
    """Return a copy of the rows ``index``: what one teacher does to them no other teacher sees.

    Categories and row names of a DataFrame are those of these rows alone.
    """
    if not is_frame(X):
        return X[index]
    import pandas as pd

    rows = X.iloc[index].copy().reset_index(drop=True)
    rows.attrs = {}
    for j, dtype in enumerate(X.dtypes):
        if isinstance(dtype, pd.CategoricalDtype):
            rows.isetitem(j, _own_categories(rows.iloc[:, j]))
    return rows


def _own_categories(column: pd.Series) -> pd.Series:
    """Return a categorical column whose categories are those in it: sorted, or in the order that was declared.

    The list that all shards share would show them another shard's categories, and shift their codes.
    """
    import pandas as pd

    codes = column.cat.codes.to_numpy()
    held = np.unique(codes[codes >= 0])
    names = column.cat.categories[held].tolist()
    order = list(range(len(names)))
    if not column.cat.ordered:
        order.sort(key=lambda i: order_key(names[i]))
    names = [names[i] for i in order]
    if all(isinstance(name, int | float) and not isinstance(name, bool) for name in names):
        names = [float(name) for name in names]  # whole numbers are ints only as long as all shards have whole ones
    place = np.full(len(column.cat.categories) + 1, -1)  # the last one is for missing cells
    place[held[order]] = np.arange(len(names))
    values = pd.Categorical.from_codes(place[codes], categories=pd.Index(names), ordered=column.cat.ordered)
    return pd.Series(values, index=column.index, name=column.name)


def column_kinds(X: Any) -> dict[Any, str] | None:
    """Return each column's kind of a DataFrame ("number", "text", "category", or its dtype); None for other rows."""
    if not is_frame(X):
        return None
    return {name: _kind(t) for name, t in zip(X.columns, X.dtypes, strict=True)}


def _kind(dtype: Any) -> str:
    import pandas as pd

    text = isinstance(dtype, pd.StringDtype) or dtype == np.dtype(object)  # texts, as one pandas or another holds them
    return "number" if holds_numbers(dtype) else "text" if text else str(dtype.name)


def holds_objects(X: Any) -> bool | None:
    """Whether some cells of a checked array are texts; None where it is none."""
    return X.dtype.kind == "O" if isinstance(X, np.ndarray) and X.ndim > 1 else None


def check_same_kind(X: Any, *, objects: bool | None) -> None:
    """Refuse rows of numbers where the public ones of a fit held texts (``objects``), or the reverse."""
    here = holds_objects(X)
    if here is not None and objects is not None and here != objects:
        raise InvalidInputError(
            f"rows are {'texts and numbers' if here else 'numbers alone'}, and the public rows of fit were not. Bring "
            "both to the same kind of cells."
        )


def copy_input_tags(estimator: Any, tags: Any) -> None:
    """Say of an ensemble which rows it takes: those that its estimator does."""
    try:
        said = get_tags(estimator).input_tags
    except Exception:  # an estimator without tags
        return
    for name in ("allow_nan", "categorical", "one_d_array", "sparse", "string"):
        setattr(tags.input_tags, name, getattr(said, name))


def match_columns(X: Any, columns: dict[Any, str] | None, n_features: int | None) -> Any:
    """Return public ``X`` with the columns the teachers were fitted on, by name where they have names.

    ``n_features`` is None for teachers that were fitted on texts.

    The public rows have the last word on what kind a column is: a private record that turned a column of numbers into
    one of objects ends here.
    """
    if is_texts(X) or (n_features is None and columns is None):
        if not (is_texts(X) and n_features is None):
            here, there = ("texts", "a table") if is_texts(X) else ("a table", "texts")
            raise InvalidInputError(
                f"X holds {here}, but the teachers were fitted on {there}. Public and private rows must be of one kind."
            )
        return X
    if columns is not None:
        if not is_frame(X):
            raise InvalidInputError(
                "X must be a DataFrame, because the teachers were fitted on one. Name its columns as in fit."
            )
        X = by_name(X, columns, other="the teachers were fitted on")
        odd = [
            f"{c!r} ({columns[c]}, here {kind})" for c, kind in (column_kinds(X) or {}).items() if kind != columns[c]
        ]
        if odd:
            raise InvalidInputError(
                f"X has columns of other kinds than the teachers were fitted on: {', '.join(odd)}. Bring both tables "
                "to the same types, as read_table does: .astype(float) for numbers, .astype(object) for text."
            )
        return as_floats(X)
    if X.shape[1] != n_features:
        raise InvalidInputError(
            f"X has {X.shape[1]} columns, but the teachers were fitted on {n_features}. "
            "Public and private rows need the same features in the same order."
        )
    return as_floats(X).to_numpy() if is_frame(X) else X


def hash_rows(X: Any) -> tuple[str, ...]:
    """Return the digests of :func:`pate.votes.hash_queries`, a sparse row hashing like the same row when dense."""
    if is_texts(X):
        return hash_queries(X.reshape(-1, 1))
    if not is_sparse(X):
        return hash_queries(X)
    return tuple(digest for part in slices(X.shape[0], _BLOCK) for digest in hash_queries(X[part].toarray()))


def slices(n_rows: int, chunk_size: int) -> Iterator[slice]:
    """Yield consecutive slices of at most ``chunk_size`` rows."""
    for start in range(0, n_rows, chunk_size):
        yield slice(start, min(start + chunk_size, n_rows))


def takes_missing(estimator: Any) -> bool:
    """Whether to leave missing values to the estimator.

    scikit-learn's tags do not look through pipelines, so the steps are read here: scalers pass NaN on, imputers end
    it, and steps that choose columns or run the user's own code decide for themselves.
    """
    steps = getattr(estimator, "steps", None)
    if steps is None:
        return _declares_missing(estimator) or hasattr(estimator, "transformers")
    for _, step in steps:
        if step is None or step == "passthrough":
            continue
        module = type(step).__module__
        if "impute" in module or not module.startswith("sklearn."):
            return True
        if hasattr(step, "transformers") or hasattr(step, "transformer_list") or hasattr(step, "func"):
            return True
        if hasattr(step, "steps"):
            return takes_missing(step)
        if not _declares_missing(step):
            return False
    return True


def _declares_missing(estimator: Any) -> bool:
    try:
        tags = get_tags(estimator)
    except Exception:  # an estimator without tags: it decides
        return True
    return bool(tags.input_tags.allow_nan or tags.no_validation)


def takes(what: str, estimator: Any) -> bool:
    """Whether rows of a kind ("sparse", "string") may be given to the estimator: no only where that is certain.

    Pipelines, searches and other people's estimators decide for themselves: their tags do not tell. One that looks at
    no row (``no_validation``: a constant) takes any.
    """
    if not type(estimator).__module__.startswith("sklearn.") or hasattr(estimator, "steps"):
        return True
    if any(hasattr(value, "fit") or isinstance(value, list) for value in estimator.get_params(deep=False).values()):
        return True
    try:
        tags = get_tags(estimator)
    except Exception:  # an estimator without tags
        return True
    taken = tags.input_tags
    return bool(tags.no_validation or getattr(taken, what) or (what == "string" and taken.categorical))


def takes_texts_alone(estimator: Any) -> bool:
    """Whether the estimator, or a pipeline's first step, says by its tags that a row is one text (a vectoriser)."""
    while getattr(estimator, "steps", None):
        estimator = estimator.steps[0][1]
    try:
        tags = get_tags(estimator).input_tags
    except Exception:  # an estimator without tags
        return False
    return bool(tags.string and not tags.two_d_array)


# Labels, owners and whole rows: of private records each is its own matter.


def class_indices(y: Any, classes: Sequence[Any]) -> npt.NDArray[np.int64]:
    """Return each value's index in ``classes``, and -1 for what is none of them (a missing value, another class).

    Texts are compared in NFC, without outer blanks.

    Parameters
    ----------
    y : array-like of shape (n,)
    classes : sequence of class values

    Examples
    --------
    >>> class_indices(["b", "a", None, "?"], ("a", "b"))
    array([ 1,  0, -1, -1])
    """
    values = as_column(y)
    if values.dtype.kind in "mMV":  # no class values, whatever numbers they are made of
        return np.full(len(values), -1, dtype=np.int64)
    places = {form: i for i, value in enumerate(classes) for form in (value, canonical(value))}
    if values.ndim == 1 and values.dtype.kind in "biu":  # each value is looked up once
        held, which = np.unique(values, return_inverse=True)
        return np.array([_place(value, places) for value in held.tolist()], dtype=np.int64)[which]
    return np.array([_place(value, places) for value in values.tolist()], dtype=np.int64)


class ClassScores(ClassifierMixin):
    """A classifier whose accuracy counts a label as the class that it spells: in NFC, without outer blanks; a mixin."""

    classes_: Any

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of predictions on rows with labels ``y``."""
        values = np.array(list(self.classes_), dtype=object)
        if any(isinstance(value, str) for value in values) and (labels := as_column(y)).ndim == 1:
            places, y = class_indices(labels, values.tolist()), labels.astype(object)
            y[places >= 0] = values[places[places >= 0]]
        return float(super().score(X, y, sample_weight))


def as_column(y: Any) -> npt.NDArray[Any]:
    """Return values as an array in which no value changes what the others are."""
    y = plain_column(y)
    if isinstance(y, np.ma.MaskedArray):
        shown = np.array(y.data, dtype=object)
        shown[np.ma.getmaskarray(y)] = None
        return shown
    if is_frame(y) and y.shape[1] == 1:
        return as_column(y.iloc[:, 0]).reshape(-1, 1)
    if hasattr(y, "dtype"):  # pandas' own types become floats when one value is missing
        return np.asarray(y if isinstance(y.dtype, np.dtype) or not hasattr(y, "astype") else y.astype(object))
    if hasattr(y, "__array__") or isinstance(y, str | bytes) or not isinstance(y, Sequence):
        return np.asarray(y)
    return np.fromiter(y, dtype=object, count=len(y))  # numpy would turn all into texts for the sake of one


def label_column(y: Any, n_records: int) -> npt.NDArray[Any]:
    """Return labels as an array of shape (n_records,) in which no label changes what the others are.

    Another number than of records, and a declared type of no class values (dates, complex numbers), is refused.
    """
    values = quietly("y", as_column, y)
    if values.shape != (n_records,) or values.dtype.kind in "cmMV":
        check_labels("y", y, n_records)
    return values


def flat_labels(y: Any, *, strict: bool) -> tuple[Any, tuple[int, ...]]:
    """Return labels, those of one column as a 1-d array, and their shape; ``strict`` where no classes are named."""
    shape = quietly("y", lambda: (np.asarray if strict else as_column)(y).shape)
    if len(shape) != 2 or shape[1] != 1:
        return y, shape
    warn(
        "A column-vector y was passed when a 1d array was expected. Pass y.ravel().",
        DataConversionWarning,
    )
    y = np.asarray(unmasked("y", y) if strict else as_column(y)).ravel()
    return y, y.shape


def _place(value: Any, places: dict[Any, int]) -> int:
    try:
        if isinstance(value, list | tuple | np.ndarray):  # a row of one column, in a list of such
            (value,) = as_column(value).ravel()
        found = places.get(value, -1)
        return places.get(canonical(value), -1) if found < 0 and isinstance(value, str) else found
    except Exception:  # a cell that cannot be looked up, such as a list
        return -1


def complete_rows(X: Any) -> Mask:
    """Return which rows have a finite value in every cell, shape (n,)."""
    n = X.shape[0]
    if is_texts(X):
        return np.ones(n, dtype=bool)
    if is_sparse(X):
        rows = np.repeat(np.arange(n), np.diff(X.indptr))
        return np.asarray(np.bincount(rows[~np.isfinite(X.data)], minlength=n) == 0)
    if is_frame(X):
        numbers = X.select_dtypes("number").to_numpy(dtype=float, na_value=np.nan)
        return np.asarray(~X.isna().to_numpy().any(axis=1) & np.isfinite(numbers).all(axis=1))
    cells = X.reshape(n, -1)
    if X.dtype.kind == "O":
        return np.array([all(map(_is_there, row)) for row in cells], dtype=bool)
    if X.dtype.kind != "f":
        return np.ones(n, dtype=bool)
    found = np.empty(n, dtype=bool)
    for part in slices(n, _BLOCK):
        found[part] = np.isfinite(cells[part]).all(axis=1)
    return found


def _is_there(cell: Any) -> bool:
    try:
        return cell is not None and bool(cell == cell) and cell not in (np.inf, -np.inf)  # NaN differs from itself
    except Exception:  # a cell of some kind of its own: its estimator's business
        return True


def owned(groups: Any, n_records: int) -> tuple[Any, Mask]:
    """Return ``groups`` with some owner for every record, and which records said theirs.

    A record of unknown owner could put one person into two shards, so it goes into none. What stands in for its owner
    is another record's, so that no group is added. An id that is none (a list, a number too long to be written) is
    unknown too: it is that record's matter.
    """
    if groups is None:
        return None, np.ones(n_records, dtype=bool)
    groups = plain_column(groups, name="groups")
    values = as_column(groups if hasattr(groups, "__array__") else list(groups))
    if values.shape != (n_records,):
        return groups, np.ones(n_records, dtype=bool)  # refused by partition, in its words
    if values.dtype.kind in "biu":
        return values, np.ones(n_records, dtype=bool)
    known = np.fromiter(map(has_id, values), dtype=bool, count=n_records)
    if known.all() or not known.any():
        return values, known
    filled = np.fromiter(values, dtype=object, count=n_records)
    first = int(np.flatnonzero(known)[0])
    for i in np.flatnonzero(~known):
        filled[i] = filled[first]
    return filled, known


@dataclass(frozen=True, repr=False)
class Owners:
    """The owner of each record, as :func:`owned` gives them, numbered by ``codes``; None where none were given."""

    groups: Any
    known: Mask
    codes: npt.NDArray[np.intp] | None = None
    ids: list[bytes] | None = None

    @classmethod
    def of(cls, groups: Any, n_records: int) -> Owners:
        """Return them, and refuse another length, and no id at all; no id is quoted."""
        filled, known = quietly("groups", owned, groups, n_records)
        if filled is None:
            return cls(None, known)
        return cls(filled, known, *quietly("groups", distinct_ids, filled, n_records))


def units_of(groups: Any, n_records: int) -> tuple[int, str]:
    """Return how many units of privacy there are, and what one is: a record, or a group (all records of one owner)."""
    ids = Owners.of(groups, n_records).ids
    return (n_records, "record") if ids is None else (len(ids), "group")


def usable(classes: Any, labels: Any, readable: Mask | None, has_owner: Mask | None) -> Mask:
    """Return which records can be used, and warn the curator of the others: see :func:`usable_records`."""
    checks = {f"{OUTSIDE}={classes!r}": labels >= 0, ODD_CELLS: readable, NO_OWNER: has_owner}
    return usable_records({what: fine for what, fine in checks.items() if fine is not None})


# What ensembles read of private labels, and what they tell the curator of private rows.


def classes_in(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the distinct values of private labels, which become public by it, and of that it warns."""
    warn(
        "classes=None: the set of classes is read off the private labels and becomes public with whatever is released, "
        "votes and models too. Name every class that could occur: classes=[...].",
        PrivacyLeakWarning,
    )
    found = None
    with suppress(TypeError):
        found = quietly("y", np.unique, labels) if labels.dtype.kind != "O" else np.unique(labels)
    if found is None:
        raise InvalidInputError("y holds classes of mixed types. Make them alike, or name them in classes=.")
    if found.dtype.kind in "OU":
        found = np.array(one_spelling(found.tolist()), dtype=found.dtype)
    check_no_amounts("y", found.tolist(), len(labels))
    if len(found) < 2:
        raise InvalidInputError(
            "y has only one class: there is nothing to tell apart. Check the target, or name all in classes=."
        )
    return found


def read_labels(y: Any, classes: Any, n_records: int) -> tuple[tuple[Any, ...], npt.NDArray[np.int64]]:
    """Return the classes, read off ``y`` (with a warning) where they are None, and y as class indices, -1 for none."""
    y, strict = plain_column(y), classes is None
    values = check_labels("y", y, n_records) if strict else label_column(y, n_records)
    known = check_classes(classes_in(values) if strict else classes)
    return known, class_indices(values, known)


def warn_of_duplicates(X: Any, cut: Partition) -> None:
    """Warn the curator alone: the number depends on every record."""
    n_duplicates = 0
    with suppress(Exception):  # an odd cell is its record's own matter
        n_duplicates = count_cross_shard_duplicates(X, cut)
    if n_duplicates:
        remedy = (
            "remove repeats, or give all records of a person the same id"
            if cut.unit == "group"
            else "remove repeats, or pass groups= so that a person's records stay together"
        )
        warn(
            f"{n_duplicates} distinct rows stand in more than one shard. If two equal rows are of the same person, the "
            f"guarantee is weaker for that person: {remedy}. (This number is private: do not publish it.)",
            DuplicateRecordsWarning,
        )


# What the curator alone should know of private labels before anything is spent: who votes, and classes without records.

_PARTS = re.compile(r"\s*[,;|/+&]\s*")
#: Longer texts are no classes, and of more values than these none is meant for a class that was named.
_LONGEST, _MOST_VALUES = 200, 10_000
#: A class of less evidence than that, n_c mu/sqrt 2, was never named where it had less than this part of an equal share
#: of the records: experiments/rare_classes.py (20 of 20 fits).
_HIDDEN, _RARE = 6.0, 0.25


#: If no record can be used, a run still goes on: stopping it would reveal something about the records.
NOBODY = "Nothing would be learnt, and the budget would be spent: see how the target is written, before you go on."


def about_labels(
    y: Any,
    groups: Any,
    classes: Sequence[Any],
    *,
    counted: bool = True,
    budget: Budget | None = None,
    to_equal: float = 0.0,
) -> list[CuratorMessage]:
    """Return what the curator should know of private labels; nothing else may come of it.

    ``counted``: whether to say how many records do not vote. ``budget``: what is to be spent, to say which classes are
    too rare for it. ``to_equal``: how far decisions take the classes' shares for equal ones. ``quoting`` alone has
    values of ``y``; empty where all records vote, and enough for each class.
    """
    values = as_column(y).ravel()
    n = len(values)
    places = class_indices(values, classes)
    owners, has_owner = owned(groups, n)
    votes = (places >= 0) & has_owner
    absent = [value for i, value in enumerate(classes) if not (places == i).any()]
    others = _others(values[places < 0])
    several = sum(k for value, k in others.items() if _holds_several(value, classes))
    parts = []
    if counted and not votes.all():
        left_out = ((places < 0, "of a class outside classes"), (~has_owner, "of an unknown owner"))
        why = [f"{int(out.sum()):,} {of}" for out, of in left_out if out.any()]
        parts.append(f"{int(votes.sum()):,} of {n:,} records ({votes.mean():.1%}) vote: {', '.join(why)}.")
        parts += [NOBODY] * (not votes.any())
    alike, quoting = nearly_alike(others, classes)
    if alike:
        parts.append(f"{alike.total():,} differ from a class in case or compatibility form alone, and are of none.")
    parts += [f"{told}." for told in joined_texts("y", [*values.tolist(), *classes])]
    if several:
        parts.append(f"{several:,} hold several classes in one cell: a record votes for one.")
    if absent:
        named = ", ".join(map(repr, absent[:5])) + (f" and {len(absent) - 5} more" if len(absent) > 5 else "")
        parts.append(f"No record is of the class{'es' * (len(absent) > 1)} {named}.")
    parts += _too_rare(places[votes], None if groups is None else owners, votes, classes, budget, to_equal)
    quoting = "\n".join(filter(None, (quoting, _nearest(absent, others - alike))))
    return [CuratorMessage(" ".join(parts), quoting)] if parts else []


def _too_rare(
    places: npt.NDArray[Any], owners: Any, votes: Mask, classes: Sequence[Any], budget: Budget | None, to_equal: float
) -> list[str]:
    """Say which classes have so few records, or persons, that noise hides them at this budget.

    Also of which others balanced decisions would find few: those whose share counts as more than twice itself.
    """
    if budget is None or not len(places):
        return []
    counts = np.bincount(places, minlength=len(classes))
    n, m, unit = counts.sum(), len(classes), "record"
    if owners is not None and len(owners) == len(votes):  # a person counts once for each class of theirs
        try:
            pairs = set(zip(places.tolist(), np.asarray(owners, dtype=object)[votes].tolist(), strict=True))
        except Exception:  # an odd id of one record may not stop a run, nor be quoted; ids of no use are refused later
            return []
        counts = np.bincount([place for place, _ in pairs], minlength=m)
        n, unit = counts.sum(), "person"
    least = _HIDDEN * math.sqrt(2) / gdp_from_budget(budget.epsilon, budget.delta)
    hidden = (counts > 0) & (counts < least) & (counts < _RARE * n / m)
    drawn = (counts > 0) & (counts < to_equal * n / m) & ~hidden

    def told(which: Mask) -> str:
        few, held = np.flatnonzero(which).tolist(), counts.tolist()
        named = ", ".join(f"{classes[i]!r} ({held[i]:,} {unit}{'s' * (held[i] > 1)})" for i in few[:5])
        return f"class{'es' * (len(few) > 1)} {named}" + (f" and {len(few) - 5} more" if len(few) > 5 else "")

    parts = []
    if hidden.any():
        parts.append(
            f"Too rare for this budget: the {told(hidden)}. With fewer than {math.ceil(least):,} {unit}s the model "
            "will hardly ever name a class that is rarer than the others. If public knowledge says so too, join "
            "classes or take a larger budget."
        )
    if drawn.any():
        parts.append(
            f"decide='balanced' (--decide balanced) may still name too seldom the {told(drawn)}: lest noise decides, "
            f"it takes a class of less than {to_equal / m:.2%} of all for one that is twice as common, or more. "
            "threshold() can name it more often; measure='by class' (--measure by-class) may tell its recall."
        )
    return parts


def _others(values: npt.NDArray[Any]) -> Counter[str]:
    found = Counter(value for value in values.tolist() if isinstance(value, str) and len(value) <= _LONGEST)
    return found if len(found) <= _MOST_VALUES else Counter()


def _holds_several(value: str, classes: Sequence[Any]) -> bool:
    known = {str(c) for c in classes}
    parts = _PARTS.split(value.strip())
    return len(parts) > 1 and any(part in known for part in parts)


def _nearest(absent: list[Any], others: Counter[str]) -> str:
    """Say which values are spelt nearly as a class without records."""
    folded: dict[str, str] = {}
    for value, _ in others.most_common():
        folded.setdefault(value.strip().casefold(), value)
    lines = []
    for name in absent:
        near = difflib.get_close_matches(str(name).strip().casefold(), folded, n=1)
        if near:
            value = folded[near[0]]
            n = others[value]
            had = "1 record has" if n == 1 else f"{n:,} records have"
            lines.append(f"{name!r} was named, and {had} {value!r}: is that meant?")
    return "\n".join(lines)
