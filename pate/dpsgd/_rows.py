"""Read records for DP-SGD as rows of float32 or of ids, and class indices; error texts quote no cell."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import type_of_target
from torch import nn

from pate._core.checks import check_classes, check_labels, encode_labels, quietly
from pate._core.frames import plain_column, plain_rows
from pate._core.types import Mask
from pate.data import (
    as_texts,
    by_name,
    check_same_shape,
    image_shape,
    is_frame,
    is_sparse,
    is_texts,
    private_cells,
    read_numbers,
    read_rows,
)
from pate.data.schema import declared_by_name
from pate.dpsgd._checks import ids_of
from pate.exceptions import InvalidInputError
from pate.models.file import InputSpec
from pate.records import NUMBER, read_target
from pate.teachers import (
    Owners,
    class_indices,
    classes_in,
    column_kinds,
    flat_labels,
    holds_objects,
    label_column,
    remember_columns,
)

#: Columns of sparse rows that are filled in for a module, and rows at a time.
_MOST_COLUMNS, _BLOCK_ROWS = 50_000, 4096


def read_records(
    estimator: Any, X: Any, y: Any, classes: Any, *, n_is_public: bool = True, planned: bool = False, like: Any = None,
    number: bool = False,
) -> tuple[Any, npt.NDArray[Any], tuple[Any, ...], Mask]:  # fmt: skip
    """Return private rows of shape (n, ...), class indices and the classes; sets ``n_features_in_``.

    ``n_is_public``: whether an error may say how many records there are. ``planned``: a recipe's maps read the rows,
    which are returned as given; else zeros stand in place of a record that is not finite. Labels are -1 for what is no
    class; the last of four says which rows could be read. What they are as a whole is refused, and without ``classes``,
    which all records decide then, any of them. With ``number`` targets are float64, NaN for what is none.
    """
    one = "number" if number else "class"
    if y is None:
        who = "DPSGDRegressor" if number else "DPSGDClassifier"
        raise InvalidInputError(f"{who} requires y to be passed, but the target y is None. Pass one {one} per row.")
    X, y = plain_rows(X), plain_column(y)
    strict, readable = classes is None, None
    if not strict:
        X, readable = quietly("X", private_cells, X, texts=planned, like=like, finite=not planned)
    if not n_is_public:
        shape = quietly("X", lambda: X.shape if hasattr(X, "shape") else np.shape(X))
        texts = planned and quietly("X", as_texts, X) is not None
        if 0 in shape[1:] or (len(shape) < 2 and not texts):
            raise InvalidInputError(f"X must have one row of features for each record. {_N_HIDDEN}")
    if planned:
        features = _read_columns(estimator, X, reset=True)
    else:
        features, whole = _read_features(estimator, X, reset=True, whole=strict)
        readable = whole if readable is None else readable & whole
    n_records = int(np.shape(features)[0])
    y, shape = flat_labels(y, strict=strict)
    if not n_is_public and shape != (n_records,):
        raise InvalidInputError(f"y must hold one {one} for each row of X. {_N_HIDDEN}")
    if readable is None:
        readable = np.ones(n_records, dtype=bool)
    if number:
        numbers = read_target(y)
        if len(numbers) != n_records:
            raise InvalidInputError(f"X and y must have as many rows, got {n_records} and {len(numbers)}.")
        return features, numbers, NUMBER, readable
    if not strict:
        values = check_classes(classes)
        return features, class_indices(label_column(y, n_records), values), values, readable
    target = check_labels("y", y, n_records)
    kind = quietly("y", type_of_target, target)
    if kind not in ("binary", "multiclass"):
        raise InvalidInputError(f"Unknown label type: {kind}. y must hold one class value per row.")
    values = check_classes(classes_in(target))
    return features, encode_labels("y", target, values), values, readable


def within_ranges(ranges: Any, X: Any, X_public: Any) -> tuple[Any, Any]:
    """Return private rows with the declared columns in order, and made-up rows that say what each column holds."""
    if X_public is not None:
        raise InvalidInputError(
            "X_public must be None where schema= is given: declared ranges stand in for public rows. Leave one out."
        )
    schema = declared_by_name(ranges)
    if schema is None:
        return X, None
    return by_name(X, schema.names, other="the declared ranges"), schema.stand_ins() if is_frame(X) else None


def read_more(
    estimator: Any, X: Any, y: Any, classes: tuple[Any, ...], recipe_plan: Any = None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Return further rows and class indices, of the columns and classes of those that were read."""
    features = read_asked(estimator, X, recipe_plan)
    return features, encode_labels("y", check_labels("y", plain_column(y), len(features)), classes)


_N_HIDDEN = "Their number is not shown: under add-or-remove adjacency it is private."


def read_groups(
    groups: Any, n_records: int, *, n_is_public: bool = True
) -> tuple[npt.NDArray[np.int64] | None, Any, Mask]:
    """Return the index of each record's person, the owners as other readers see them, and which records have one.

    A record without an owner has person -1, and is in no unit; all are None without ``groups``.
    """
    if groups is None:
        return None, None, np.ones(n_records, dtype=bool)
    groups = plain_column(groups, name="groups")
    if not hasattr(groups, "dtype"):
        groups = quietly("groups", list, groups)
    if not n_is_public and (getattr(groups, "ndim", 1) != 1 or len(groups) != n_records):
        raise InvalidInputError(f"groups must hold one id for each row of X. {_N_HIDDEN}")
    owners = Owners.of(groups, n_records)
    assert owners.codes is not None
    return np.where(owners.known, owners.codes, -1).astype(np.int64), owners.groups, owners.known


def _read_columns(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Return rows of any kind that a recipe's maps take, after a look at their columns."""
    rows = read_rows(X, name="X")
    if not reset:
        rows = by_name(rows, getattr(estimator, "feature_names_in_", None))
    shape = image_shape(rows)
    if reset:
        estimator._row_shape = shape
    check_same_shape(shape, estimator._row_shape)
    remember_columns(estimator, rows.reshape(-1, 1) if is_texts(rows) else rows, reset=reset)
    return rows


def check_apart(X: Any, X_public: Any) -> None:
    """Refuse private rows in place of public ones, recognised by their place in memory: no cell is compared.

    Equal rows elsewhere are not looked for: whether one is found would say something of a record.
    """
    same = X_public is not None and X_public is X
    if isinstance(X, np.ndarray) and isinstance(X_public, np.ndarray):
        with suppress(np.exceptions.TooHardError):
            same |= np.shares_memory(X, X_public, max_work=10_000)  # type: ignore[arg-type]
    if same:
        raise InvalidInputError(
            "X_public must be other rows than X, got the same ones. What is fitted on private rows is paid for by no "
            "budget: pass public rows, or leave X_public out."
        )


def check_map(said: Any, rows: Any, X_public: Any) -> None:
    """Refuse texts and sparse rows where nothing public makes numbers of them, and public images of another shape."""
    if said.representation is None and X_public is None and (is_texts(rows) or is_sparse(rows)):
        raise InvalidInputError(
            f"X_public must be given, as the rows are {'texts' if is_texts(rows) else 'sparse'}: public rows tell how "
            "numbers are made of them. Pass fit(X, y, X_public=...), or a fitted representation=."
        )
    check_same_shape(image_shape(X_public, name="X_public"), image_shape(rows), name="X_public")


def read_asked(estimator: Any, X: Any, recipe_plan: Any) -> npt.NDArray[np.float32]:
    """Return further rows of the columns of fit, shape (n, ...), through its public maps if it has a ``recipe_plan``.

    See :class:`pate.dpsgd.recipes.RecipePlan`. Refuses what is no finite number, and other rows than those of fit.
    """
    if recipe_plan is None:
        return _read_features(estimator, plain_rows(X), reset=False, whole=True)[0]
    features, whole = map_private(_read_columns(estimator, X, reset=False), recipe_plan)
    if not whole.all():
        raise InvalidInputError("X holds what a public map makes no finite number of. Fill in or drop such rows.")
    return features


def read_public(estimator: Any, X: Any, recipe_plan: Any) -> npt.NDArray[np.float32]:
    """Return public rows of the columns of fit through its maps, without those that maps make no finite number of."""
    features, whole = map_private(_read_columns(estimator, X, reset=False), recipe_plan)
    return features[whole]


def map_private(rows: Any, recipe_plan: Any) -> tuple[npt.NDArray[np.float32], Mask]:
    """Return checked rows as a recipe's public maps make them, zeros where that is not finite, and where it is."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _whole(np.asarray(quietly("X", recipe_plan.transform, rows), dtype=np.float32))


def _whole(features: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], Mask]:
    """Return rows with zeros in place of those that are not finite, and which are."""
    whole = np.isfinite(features).reshape(len(features), -1).all(axis=1)
    if not whole.all():
        features = features.copy()
        features[~whole] = 0.0
    return features, np.asarray(whole)


def _read_features(estimator: Any, X: Any, *, reset: bool, whole: bool) -> tuple[npt.NDArray[np.float32], Mask]:
    """Return rows of numbers, and which are finite; with ``whole`` all must be."""
    if not reset:
        X = by_name(X, getattr(estimator, "feature_names_in_", None))
    rows = _dense(X) if is_sparse(X) else read_numbers(X, user=type(estimator).__name__, missing=not whole)
    shape = tuple(rows.shape[1:])
    remember_columns(estimator, X if is_frame(X) else rows, reset=reset)
    if reset:
        estimator._row_shape = shape
    elif shape != estimator._row_shape:
        raise InvalidInputError(
            f"X must have rows of shape {estimator._row_shape}, as in fit, got {shape}. Public and private rows need "
            "the same features in the same order."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        features, finite = _whole(rows.astype(np.float32, order="C"))
    if whole and not finite.all():
        raise InvalidInputError("X holds infinity as float32. Scale its columns by public constants.")
    return features, finite


def _dense(X: Any) -> npt.NDArray[np.float32]:
    """Return sparse rows as float32, filled in block by block; how wide they may be is decided by the columns alone."""
    X = read_rows(X)
    if X.shape[1] > _MOST_COLUMNS:
        raise InvalidInputError(
            f"X is sparse and has {X.shape[1]:,} columns; a module takes whole rows, and up to {_MOST_COLUMNS:,} "
            "columns are filled in. Leave module out and pass X_public (a public map then makes few columns), or "
            "make fewer by what is public: HashingVectorizer(n_features=4096), or TruncatedSVD fitted on public rows."
        )
    rows = np.empty(X.shape, dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(rows), _BLOCK_ROWS):
            rows[start : start + _BLOCK_ROWS] = X[start : start + _BLOCK_ROWS].toarray()
    return rows


def rows_for(module: nn.Module, features: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    """Return rows as the module takes them: as they are, or as int64 ids where it looks them up in a table.

    A row that holds something else than ids that the table has is refused, and not quoted.
    """
    rows, known = ids_for(module, features)
    if not known.all():
        n_ids = ids_of(module, features.shape[1:])
        raise InvalidInputError(
            f"X must hold whole numbers from 0 to {(n_ids or 1) - 1}, since the module looks them up in a table of "
            f"{n_ids} rows. Number words or categories by a public list, with one number for all that are not on it."
        )
    return rows


def ids_for(module: nn.Module, features: npt.NDArray[np.float32]) -> tuple[npt.NDArray[Any], Mask]:
    """Return rows as the module takes them, zeros where it has no id of a row, and which rows are whole."""
    n_ids = ids_of(module, features.shape[1:])
    if n_ids is None:
        return features, np.ones(len(features), dtype=bool)
    # Beyond _MOST_IDS float32 rounds, but never to a number that a table has.
    odd = ~((features >= 0) & (features < n_ids) & (features == np.floor(features)))
    known = ~odd.reshape(len(features), -1).any(axis=1)
    return np.where(known.reshape(-1, *[1] * (features.ndim - 1)), features, 0).astype(np.int64), known


def keep_columns(estimator: Any, reader: Any) -> None:
    """Give an estimator what another one, its reader, learnt of the columns."""
    for name in ("n_features_in_", "feature_names_in_", "_row_shape"):
        if hasattr(reader, name):
            setattr(estimator, name, getattr(reader, name))
        elif hasattr(estimator, name):
            delattr(estimator, name)


def input_spec(fitted: Any, X_public: Any, schema: Any) -> InputSpec:
    """Return what a row is that a fitted estimator takes, by a schema, public rows, or private columns' names."""
    n, names = int(getattr(fitted, "n_features_in_", 0)), getattr(fitted, "feature_names_in_", None)
    if X_public is not None and as_texts(X_public) is not None:
        return InputSpec(kind="texts")
    shape = fitted.image_shape if fitted.image_shape is not None else fitted._row_shape
    shape = None if shape is None or len(shape) < 2 else tuple(int(side) for side in shape)
    if names is None:
        return InputSpec(kind="array", n_features=n, mixed=bool(holds_objects(X_public)), image_shape=shape)
    said, seen = declared_by_name(schema), column_kinds(X_public) or {}
    if said is not None:
        kinds = {one.name: "text" if one.kind == "category" else one.kind for one in said.columns}
    else:
        kinds = {name: "numeric" if seen.get(name, "number") == "number" else "text" for name in names}
    columns = tuple((str(name), kinds[name]) for name in names)
    return InputSpec(kind="table", n_features=n, columns=columns, image_shape=shape)
