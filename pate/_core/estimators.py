"""Estimators of scikit-learn as bytes: no pickle, only types that are named, and no index that leaves its array."""

from __future__ import annotations

import io
import json
import operator
import re
import zipfile
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble._forest import BaseForest
from sklearn.ensemble._gb import BaseGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.neighbors import BallTree, KDTree
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm._base import BaseLibSVM
from sklearn.tree._tree import Tree

from pate.exceptions import InvalidInputError

#: What skops does not trust by itself, and cannot harm: data holders and pure functions, each by its full name. A
#: prefix such as ``numpy.`` would not do: functions are types to skops, and ``numpy.testing`` has one that runs code.
HARMLESS: tuple[str, ...] = (
    "numpy.dtype",
    "sklearn.feature_selection._univariate_selection.chi2",
    "sklearn.feature_selection._univariate_selection.f_classif",
    "sklearn.utils._bunch.Bunch",
)

#: Where a skops file describes what it holds.
_SCHEMA = "schema.json"


def pack_estimator(estimator: Any, *, trusted: Collection[str] = HARMLESS, refusal: str, remedy: str) -> bytes:
    """Return a fitted estimator as bytes that :func:`unpack_estimator` will take with the same ``trusted``.

    ``trusted`` are full names of types, beside those that skops trusts; ``refusal`` and ``remedy`` begin and end the
    error of what could not be read back safely. Nothing of what it was fitted on is quoted there.
    """
    import skops.io as sio  # slow to import, and only those who keep estimators need it

    try:
        data = bytes(sio.dumps(estimator))
        unknown = sorted(set(sio.get_untrusted_types(data=data)) - set(trusted))
    except Exception as error:
        # Not chained and not quoted: a fitted part's text may show private values.
        raise InvalidInputError(f"{refusal}: skops cannot store it ({type(error).__name__}). {remedy}") from None
    if unknown:
        raise InvalidInputError(
            f"{refusal}: {', '.join(unknown)} is not among the types that are safe to read back. {remedy}"
        )
    return data


def canonical_bytes(data: bytes) -> bytes:
    """Return packed bytes in which only the estimator is left: no hour, and nothing of the memory it stood in.

    skops writes addresses, and NumPy the gaps between the fields of a record (a tree's nodes), where whatever was in
    memory before still stands.
    """
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as new:
        places: dict[str, str] = {}

        def place(found: re.Match[str]) -> str:
            return f"{found[1]}{places.setdefault(found[2], str(len(places)))}"

        schema = re.sub(r'("__id__": )(\d+)', place, old.read(_SCHEMA).decode("utf-8"))
        names = {name: name for name in old.namelist() if name != _SCHEMA}
        for name in sorted(names, key=schema.find):
            stem, dot, ending = name.partition(".")
            names[name] = f"{places.setdefault(stem, str(len(places)))}{dot}{ending}"
            schema = schema.replace(json.dumps(name), json.dumps(names[name]))
        for name, now in sorted(names.items(), key=lambda pair: pair[1]):
            new.writestr(
                zipfile.ZipInfo(now), _without_gaps(old.read(name)) if now.endswith(".npy") else old.read(name)
            )
        new.writestr(zipfile.ZipInfo(_SCHEMA), schema)
    return made.getvalue()


def _without_gaps(packed: bytes) -> bytes:
    """Return a packed array, the bytes between the fields of its records nought."""
    array = np.load(io.BytesIO(packed), allow_pickle=False)
    if array.dtype.names is None:
        return packed
    clean = np.zeros(array.shape, dtype=array.dtype)
    for name in array.dtype.names:
        clean[name] = array[name]
    made = io.BytesIO()
    np.save(made, clean, allow_pickle=False)
    return made.getvalue()


def unpack_estimator(data: bytes, *, trusted: Collection[str] = HARMLESS) -> Any:
    """Return the estimator in bytes; whatever skops raises is raised.

    Bytes that unpack to more than they are, are refused, and so is whatever would make compiled code read outside its
    arrays: see :func:`make_safe`.
    """
    import skops.io as sio

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        sizes = {member.filename: member.file_size for member in archive.infolist()}
        _check_size(sum(sizes.values()), data)
        nodes = list(_nodes(json.loads(archive.read(_SCHEMA))))
    # An array is read again for each object that names it.
    named = {(node["file"], node.get("__id__", id(node))) for node in nodes if isinstance(node.get("file"), str)}
    _check_size(sum(sizes.get(name, 0) for name, _ in named), data)
    # skops trusts these by the name of their base class; they may be compressed, and nobody looks at their indices.
    # None is written: no sparse matrix is among the types that are trusted when one is packed.
    if any(node.get("__loader__") == "SparseMatrixNode" for node in nodes):
        raise ValueError("a sparse matrix")
    estimator = sio.loads(data, trusted=list(trusted))
    make_safe(estimator)
    return estimator


def _check_size(n_bytes: int, data: bytes) -> None:
    if n_bytes > len(data):
        raise ValueError("members that unpack to more than they are")


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in JSON values."""
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
        waiting += one.values() if isinstance(one, dict) else one if isinstance(one, list) else []


def make_safe(thing: Any) -> None:
    """Refuse (ValueError, KeyError) an estimator whose indices would make compiled code read outside its arrays.

    Trees are checked node by node; search trees of neighbours are built again from their rows. What makes sparse rows
    may name no column that these do not have: SciPy does not look.
    """
    waiting, seen = [thing], set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, str | bytes | int | float | type(None)):
            continue
        seen.add(id(one))
        if isinstance(one, Tree):
            _check_tree(one)
        elif isinstance(one, TreePredictor):
            _check_predictor(one)
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list | tuple | set):
            waiting += one
        elif isinstance(one, np.ndarray):
            waiting += one.ravel().tolist() if one.dtype.kind == "O" else []
        else:
            held = getattr(one, "__dict__", {})
            _check_widths(one, held)
            if isinstance(held.get("_tree"), KDTree | BallTree):
                _grow_again(one)
            waiting += held.values()


def _check_widths(one: Any, held: dict[str, Any]) -> None:
    """Refuse trees with more columns than the estimator that holds them checks rows for."""
    width = held.get("n_features_in_")
    if isinstance(held.get("tree_"), Tree) and held["tree_"].n_features != width:
        raise ValueError("a tree of other rows")
    # An unfitted estimator (a template for others) has no trees.
    if isinstance(one, BaseForest | BaseGradientBoosting) and "estimators_" in held:
        trees = np.asarray(held["estimators_"], dtype=object).ravel().tolist()
        if any(tree.n_features_in_ != width for tree in trees):
            raise ValueError("a forest of other rows")
    if isinstance(one, BaseGradientBoosting) and "estimators_" in held:
        _check_stages(held)
    if isinstance(one, BaseLibSVM) and "_n_support" in held:
        _check_machine(held)
    if isinstance(held.get("_fit_X"), np.ndarray) and "_fit_method" in held:
        _check_neighbours(held)
    for predictor in (p for round_ in held.get("_predictors", ()) for p in round_):
        nodes = predictor.nodes
        asked = nodes["feature_idx"].astype(np.int64)
        by_category = asked[(nodes["is_leaf"] == 0) & (nodes["is_categorical"] == 1)]
        if not ((asked >= 0) & (asked < width)).all():
            raise ValueError("a tree of other rows")
        if len(by_category) and not np.asarray(held["_bin_mapper"].is_categorical_)[by_category].all():
            raise ValueError("a tree of other categories")
    if isinstance(held.get("vocabulary_"), dict):  # of texts, and of dictionaries
        columns = list(held["vocabulary_"].values())
        if not all(0 <= operator.index(column) < len(columns) for column in columns):
            raise ValueError("words of other columns")
    if isinstance(one, OneHotEncoder) and "categories_" in held:
        _check_columns(held)


def _check_columns(held: dict[str, Any]) -> None:
    """Refuse categories that go to columns which others have."""
    groups, n_columns, dropped = held["categories_"], held["_n_features_outs"], held["_drop_idx_after_grouping"]
    grouped = held["_default_to_infrequent_mappings"] if held["_infrequent_enabled"] else [None] * len(groups)
    if not len(groups) == len(n_columns) == len(grouped):
        raise ValueError("categories of other columns")
    for i, (group, n, mapped) in enumerate(zip(groups, n_columns, grouped, strict=True)):
        places = np.arange(len(group)) if mapped is None else np.asarray(mapped)
        drop = None if dropped is None else dropped[i]
        if drop is not None:
            places = places[places != drop] - (places[places != drop] > drop)
        if places.dtype.kind not in "iu" or not ((places >= 0) & (places < n)).all():
            raise ValueError("categories of other columns")


def _check_stages(held: dict[str, Any]) -> None:
    """Refuse more trees a round than there are outputs for."""
    stages, classes = held["estimators_"], held.get("classes_", (None,))  # a number is one output
    n_classes, begun = len(classes), getattr(held["init_"], "classes_", classes)
    n_trees = n_classes if n_classes > 2 else 1
    if stages.ndim != 2 or stages.shape[1] != n_trees or len(begun) != n_classes:
        raise ValueError("a forest of other classes")
    if held["n_trees_per_iteration_"] != n_trees or any(
        len(t.tree_.value.ravel()) != t.tree_.node_count for t in stages.flat
    ):
        raise ValueError("a forest of other classes")


def _check_machine(held: dict[str, Any]) -> None:
    """Refuse a support vector machine with arrays of inconsistent lengths."""
    each = np.asarray(held["_n_support"])
    n, k, rows = len(held["support_"]), len(each), held["support_vectors_"]
    pairs = k * (k - 1) // 2
    fine = each.ndim == 1 and k == len(held["classes_"]) and (each >= 0).all() and int(each.sum(dtype=np.int64)) == n
    fine = fine and held["_dual_coef_"].shape == (k - 1, n) and held["_intercept_"].shape == (pairs,)
    fine = fine and all(len(held[name]) in (0, pairs) for name in ("_probA", "_probB"))
    precomputed = held["kernel"] == "precomputed"
    fine = fine and (precomputed or rows.shape == (n, held["n_features_in_"]))
    fine = fine and not (
        precomputed and n and not 0 <= held["support_"].min() <= held["support_"].max() < held["n_features_in_"]
    )
    if not fine:
        raise ValueError("a machine of other rows")


def _check_neighbours(held: dict[str, Any]) -> None:
    """Refuse neighbours with other columns than rows are checked for, or of an unknown class."""
    rows, own = held["_fit_X"], held.get("_y")
    fine = rows.ndim == 2 and rows.shape == (held["n_samples_fit_"], held["n_features_in_"])
    if own is not None and "classes_" in held:
        fine = fine and own.shape == rows.shape[:1] and bool(((own >= 0) & (own < len(held["classes_"]))).all())
    if not fine:
        raise ValueError("neighbours of other rows")


def _check_tree(tree: Tree) -> None:
    n = int(tree.node_count)
    if not 0 < n <= int(tree.capacity):
        raise ValueError("a tree without nodes")
    left, right, feature = (np.asarray(a) for a in (tree.children_left, tree.children_right, tree.feature))
    inner = left != -1
    _check_children(inner, left, right)
    if (feature[inner] < 0).any() or (feature[inner] >= int(tree.n_features)).any():
        raise ValueError("a tree that asks for another column")


def _check_children(inner: npt.NDArray[np.bool_], *sides: npt.NDArray[Any]) -> None:
    """Refuse nodes whose children do not come after them, so that every walk ends at a leaf."""
    here = np.flatnonzero(inner)
    if any(((side[inner] <= here) | (side[inner] >= len(inner))).any() for side in sides):
        raise ValueError("a tree that points out of itself")


def _check_predictor(predictor: TreePredictor) -> None:
    nodes = predictor.nodes
    inner = nodes["is_leaf"] == 0
    _check_children(inner, nodes["left"].astype(np.int64), nodes["right"].astype(np.int64))
    categories = nodes["bitset_idx"][inner & (nodes["is_categorical"] == 1)].astype(np.int64)
    if not len(nodes) or (categories >= len(predictor.raw_left_cat_bitsets)).any():
        raise ValueError("a tree that asks for another category")


def _grow_again(neighbours: Any) -> None:
    old = neighbours._tree
    rows = np.asarray(neighbours._fit_X, dtype=np.float64)
    neighbours._tree = type(old)(
        rows, neighbours.leaf_size, metric=neighbours.effective_metric_, **neighbours.effective_metric_params_
    )
