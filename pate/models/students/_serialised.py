"""Save fitted students without pickle, and read them without running or trusting anything in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble._forest import BaseForest
from sklearn.ensemble._gb import BaseGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.neighbors import BallTree, KDTree
from sklearn.pipeline import Pipeline
from sklearn.svm._base import BaseLibSVM
from sklearn.tree._tree import Tree

from pate._core.tensors import canonical_bytes, pack_estimator, unpack_estimator
from pate.exceptions import InvalidInputError
from pate.models.students._image import ImageStudent
from pate.representations import Representation, load
from pate.teachers.checkpoints import TRUSTED_TYPES

#: Types that may be read: those trusted in teachers, and this package's own.
TYPES = (
    *TRUSTED_TYPES,
    "pate.data.encoding.TableEncoder",
    # A file of an older version names the former module.
    *(f"pate.{of}._spreading.{n}" for of in ("models.students", "students") for n in ("LabelSpreads", "VoteSpreading")),
)
_SKOPS, _IMAGE, _MAP = "student.skops", "student.safetensors", "representation.safetensors"


def keep_student(student: Any, folder: Path) -> dict[str, Any]:
    """Write a fitted student into a folder, and return the facts that :func:`read_student` needs besides.

    The student is scikit-learn's or this package's own, or a pipeline of a public representation and one of those.
    """
    if isinstance(student, Pipeline) and isinstance(student.steps[0][1], Representation) and len(student.steps) == 2:
        student.steps[0][1].save(folder / _MAP)
        return {"mapped": keep_student(student.steps[1][1], folder)}
    if isinstance(student, ImageStudent):
        if not isinstance(student.network, str) or student.init is not None:
            raise InvalidInputError(
                "an ImageStudent with a network of your own cannot be saved in a model file, which holds no code. Save "
                "its weights with student_.save(...), or name the network."
            )
        student.save(folder / _IMAGE)
        return {"student": "image"}
    data = pack_estimator(
        student,
        trusted=TYPES,
        refusal=f"a {type(student).__name__} cannot be saved in a model file",
        remedy="Name another student, made of scikit-learn's own parts.",
    )
    (folder / _SKOPS).write_bytes(canonical_bytes(data))
    return {"student": "skops"}


def read_student(folder: Path, facts: Any, *, module: Any = None) -> Any:
    """Return the student that :func:`keep_student` wrote.

    Refused: types that are not safe to build, and trees with nodes or columns out of range.
    """
    if "mapped" in facts:
        return Pipeline(
            [("representation", load(folder / _MAP, module=module)), ("student", read_student(folder, facts["mapped"]))]
        )
    if facts["student"] == "image":
        return ImageStudent.load(folder / _IMAGE)
    problem = ""
    try:
        student = unpack_estimator((folder / _SKOPS).read_bytes(), trusted=TYPES)
        make_safe(student)
        return student
    except Exception as error:  # skops names types; a damaged file may raise any
        problem = f"skops refuses it ({type(error).__name__})"
    raise InvalidInputError(
        f"the student cannot be built: {problem}. It holds types that are not safe to read, or is damaged"
    )


def made_of(student: Any) -> str:
    """Return the class names of a student and its steps, in a line."""
    if isinstance(student, Pipeline):
        return ", ".join(made_of(step) for _, step in student.steps)
    return type(student).__name__


def make_safe(thing: Any) -> None:
    """Refuse a student from a file whose indices would make compiled code read outside its arrays.

    Trees are checked node by node; search trees of neighbours are built again from their rows.
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
    for round_ in held.get("_predictors", ()):
        if any(((p.nodes["feature_idx"] >= width) | (p.nodes["feature_idx"] < 0)).any() for p in round_):
            raise ValueError("a tree of other rows")


def _check_stages(held: dict[str, Any]) -> None:
    """Refuse more trees a round than there are outputs for."""
    stages, n_classes = held["estimators_"], len(held["classes_"])
    n_trees = n_classes if n_classes > 2 else 1
    begun = getattr(held["init_"], "classes_", held["classes_"])
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
    fine = rows.ndim == 2 and rows.shape[1] == held["n_features_in_"]
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
