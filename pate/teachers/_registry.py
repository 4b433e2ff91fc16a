"""Teachers by name, sensible on shards of a few hundred rows, and an ensemble of whatever was chosen."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from pate._core.checks import check_choice, check_int, check_real
from pate.exceptions import InvalidInputError
from pate.teachers._base import ShardEnsemble
from pate.teachers._ensemble import TeacherEnsemble

_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


def is_import_path(name: Any) -> bool:
    """Return whether a teacher's name has the form ``package.module:attribute``.

    Examples
    --------
    >>> is_import_path("sklearn.tree:DecisionTreeClassifier"), is_import_path("svm")
    (True, False)
    """
    return isinstance(name, str) and _PATH.fullmatch(name) is not None


def import_teacher(path: str) -> Any:
    """Return the classifier at an import path; **this runs the module's code**.

    Parameters
    ----------
    path : str
        ``package.module:attribute``: a classifier, a class, or a function without parameters that returns one.

    Raises
    ------
    InvalidInputError
        There is no such module or attribute, or it is no classifier.

    Examples
    --------
    >>> import_teacher("sklearn.tree:DecisionTreeClassifier")
    DecisionTreeClassifier()
    """
    if not is_import_path(path):
        raise InvalidInputError(
            f"teacher must be a name, or an import path like package.module:attribute, got {path!r}."
        )
    module_name, _, attribute = path.partition(":")
    try:
        found: Any = import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except ImportError as error:
        raise InvalidInputError(
            f"teacher {path!r} cannot be imported: {error}. The module must be installed, or on Python's path "
            "(PYTHONPATH=. finds one in this folder)."
        ) from error
    except AttributeError as error:
        raise InvalidInputError(
            f"teacher {path!r} cannot be imported: {error}. Check the name after the colon."
        ) from error
    try:
        model = found if hasattr(found, "fit") and not isinstance(found, type) else found()
    except TypeError as error:
        raise InvalidInputError(
            f"teacher {path!r} cannot be made without parameters: {error}. Name a function that returns a classifier."
        ) from error
    if not (hasattr(model, "fit") and hasattr(model, "predict") and is_classifier(model)):
        raise InvalidInputError(
            f"teacher {path!r} is a {type(model).__name__}, not a scikit-learn classifier. Name one, or a function "
            "that returns one."
        )
    return model


# How much the vote gains from more teachers: made from private votes, for the curator's eyes alone.

#: Sizes of the subsets, and how many random ones of each.
_N_SIZES, _N_DRAWS = 12, 20
#: Margins beyond so many standard deviations of the noise on them count as clear.
_CLEAR = 2.0


def ensemble_curve(
    labels: npt.ArrayLike,
    truth: npt.ArrayLike,
    *,
    n_classes: int,
    margin_noise: float | None = None,
    random_state: int = 0,
) -> dict[str, Any]:
    """Return how right the vote is when only some of the teachers are asked. **Sensitive**, and without noise.

    Parameters
    ----------
    labels : int array of shape (n_teachers, n_rows)
        Each teacher's class indices.
    truth : int array of shape (n_rows,)
        The right ones.
    n_classes : int
    margin_noise : float or None
        Standard deviation, in votes, of the noise on the difference of two counts; None leaves ``clear`` out.
    random_state : int
        Decides which teachers are in the subsets, and nothing else.

    Returns
    -------
    dict of plain values
        ``n_teachers``: the sizes k of the subsets, about a dozen from 1 to all. For each: ``accuracy``, the mean over
        random subsets of the share of rows on which their plurality is right (the first class wins a tie); ``low``
        and ``high``, the worst and the best of those subsets; ``clear``, the mean share of rows whose margin (votes of
        the first class minus the second) is wider than two ``margin_noise``, or None. Also ``margin_noise``,
        ``n_rows`` and ``n_draws``, the number of subsets per size.

    Notes
    -----
    Teachers keep the shards they were trained on. A run with fewer teachers would have given each more records, and
    better votes than a subset's.

    Examples
    --------
    >>> curve = ensemble_curve([[0, 1], [0, 1], [1, 1]], [0, 1], n_classes=2)
    >>> curve["n_teachers"], curve["accuracy"][-1]
    ([1, 2, 3], 1.0)
    """
    votes, right = np.asarray(labels), np.asarray(truth)
    if votes.ndim != 2 or not votes.size or right.shape != votes.shape[1:]:
        raise InvalidInputError(
            f"labels must have shape (n_teachers, n_rows) and truth (n_rows,), with something in both, got "
            f"{votes.shape} and {right.shape}. Take labels from teachers.vote(rows).labels."
        )
    n_classes = check_int("n_classes", n_classes, low=2)
    if margin_noise is not None:
        margin_noise = check_real("margin_noise", margin_noise, low=0, low_open=True)
    n_teachers, n_rows = votes.shape
    sizes = np.unique(np.geomspace(1, n_teachers, _N_SIZES).round().astype(int)).tolist()
    if n_teachers <= _N_SIZES:
        sizes = list(range(1, n_teachers + 1))
    rng = np.random.default_rng(check_int("random_state", random_state, low=0))
    n_right, n_clear = np.empty((2, _N_DRAWS, len(sizes)), dtype=np.int64)
    rows = np.arange(n_rows)
    for draw in range(_N_DRAWS):
        # One order of the teachers gives a subset of every size: its beginnings.
        order = rng.permutation(n_teachers)
        counts = np.zeros((n_rows, n_classes), dtype=np.int32)
        asked = 0
        for column, size in enumerate(sizes):
            for teacher in order[asked:size]:
                counts[rows, votes[teacher]] += 1
            asked = size
            n_right[draw, column] = (counts.argmax(axis=1) == right).sum()
            top = np.partition(counts, n_classes - 2, axis=1)
            n_clear[draw, column] = (top[:, -1] - top[:, -2] > _CLEAR * (margin_noise or 0.0)).sum()
    return {
        "n_teachers": sizes,
        "accuracy": (n_right.sum(axis=0) / (_N_DRAWS * n_rows)).tolist(),
        "low": (n_right.min(axis=0) / n_rows).tolist(),
        "high": (n_right.max(axis=0) / n_rows).tolist(),
        "clear": None if margin_noise is None else (n_clear.sum(axis=0) / (_N_DRAWS * n_rows)).tolist(),
        "margin_noise": margin_noise,
        "n_rows": n_rows,
        "n_draws": _N_DRAWS,
    }


#: Number of teachers where none is given.
DEFAULT_N_TEACHERS = 100


def _hist_gradient_boosting() -> HistGradientBoostingClassifier:
    # Small leaves and no early stopping: a shard is too small to hold out part of it.
    return HistGradientBoostingClassifier(max_iter=50, max_leaf_nodes=15, min_samples_leaf=5, early_stopping=False)


_TEACHERS: dict[str, Callable[[], Any]] = {
    "decision-tree": DecisionTreeClassifier,
    "hist-gradient-boosting": _hist_gradient_boosting,
    "knn": lambda: KNeighborsClassifier(n_neighbors=3, weights="distance"),
    "logistic-regression": lambda: LogisticRegression(max_iter=200),
    "mlp": lambda: MLPClassifier((64,), alpha=1e-2, batch_size=32, max_iter=60),
    # Pixels that never change have variance 0: without smoothing they decide every vote.
    "naive-bayes": lambda: GaussianNB(var_smoothing=1e-1),
    "random-forest": lambda: RandomForestClassifier(n_estimators=100),
    "svm": lambda: SVC(C=10.0),
}


#: Ready modules of pate.networks by their names there, and what is not at its default in a teacher by name.
_TORCH_MODULES: dict[str, dict[str, Any]] = {
    "linear": {},
    "mlp": {},
    "papernot-cnn": {},
    "papernot-deep-cnn": {},
    "small-cnn": {},
    # Batch normalisation would have the teachers trained one by one, slowly on a GPU.
    "small-resnet": {"norm": "group"},
    "tanh-cnn": {},
    "tanh-mlp": {},
}
_PREFIX = "torch-"  # "mlp" is scikit-learn's


def named_teachers(*, torch: bool = True) -> tuple[str, ...]:
    """Return the names that :func:`make_teacher` knows.

    Parameters
    ----------
    torch : bool
        Whether to list those that stand for an ensemble of torch modules too: they are no classifiers, so no students.

    Examples
    --------
    >>> "random-forest" in named_teachers(), "torch-small-cnn" in named_teachers()
    (True, True)
    >>> [name for name in named_teachers(torch=False) if name.startswith("torch")]
    []
    """
    return (*_TEACHERS, *(_PREFIX + name for name in _TORCH_MODULES if torch))


def make_teacher(name: Any) -> BaseEstimator:
    """Return an unfitted teacher by name (change it further with ``set_params``); any other object is returned as is.

    The columns are expected to be numbers of similar scale (pixels in [0, 1], or standardised with public numbers).

    Parameters
    ----------
    name : str, classifier or ensemble of teachers
        One of :func:`named_teachers`. Never an import path: a name from a command line must not run code.

    Returns
    -------
    classifier or TorchTeacherEnsemble
        For a name that begins with ``torch-`` an ensemble, since torch teachers are trained together; how many there
        are to be is for :func:`make_ensemble` to say.

    Raises
    ------
    InvalidInputError
        The name is not known.

    Examples
    --------
    >>> make_teacher("svm")
    SVC(C=10.0)
    >>> make_teacher("torch-mlp").n_teachers
    100
    >>> make_teacher("oracle")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: teacher must be one of 'decision-tree', ..., got 'oracle'. ...
    """
    if not isinstance(name, str) and hasattr(name, "fit"):
        return name
    remedy = "For anything else use TeacherEnsemble(estimator, ...) or TorchTeacherEnsemble(module, ...)."
    known = check_choice("teacher", name, named_teachers(), remedy=remedy)
    if known in _TEACHERS:
        return _TEACHERS[known]()
    # Imported here: most names do not need torch.
    from pate.networks import make_module
    from pate.teachers.torch import TorchTeacherEnsemble

    module = known.removeprefix(_PREFIX)
    return TorchTeacherEnsemble(make_module(module), DEFAULT_N_TEACHERS, module_kwargs=_TORCH_MODULES[module] or None)


def make_ensemble(
    teacher: Any,
    n_teachers: int | None = None,
    *,
    classes: Any = None,
    n_jobs: int | None = None,
    random_state: int | None = None,
    partition_seed: int | None = None,
    checkpoint_dir: Any = None,
    verbose: bool = False,
) -> ShardEnsemble:
    """Return an unfitted ensemble of teachers; parameters given here replace those of the ensemble.

    Parameters
    ----------
    teacher : classifier, TeacherEnsemble or TorchTeacherEnsemble
        A classifier becomes a :class:`~pate.TeacherEnsemble`; an ensemble is cloned, never changed.
    n_teachers : int or None
        None takes the ensemble's own, or 100 for a classifier.
    classes, n_jobs, random_state, partition_seed, checkpoint_dir
        See :class:`~pate.TeacherEnsemble`; None takes the ensemble's own.
    verbose : bool
        True here or in the ensemble shows progress.

    Returns
    -------
    TeacherEnsemble or TorchTeacherEnsemble

    Raises
    ------
    InvalidInputError
        The ensemble is fitted: code that holds the template would hold the teachers too.

    Examples
    --------
    >>> make_ensemble(GaussianNB(), 20, random_state=0)
    TeacherEnsemble(estimator=GaussianNB(), n_teachers=20, random_state=0)
    >>> make_ensemble(TeacherEnsemble(GaussianNB(), 20, random_state=0), random_state=1)
    TeacherEnsemble(estimator=GaussianNB(), n_teachers=20, random_state=1)
    """
    given = {
        "n_teachers": n_teachers,
        "classes": classes,
        "n_jobs": n_jobs,
        "random_state": random_state,
        "partition_seed": partition_seed,
        "checkpoint_dir": checkpoint_dir,
        "verbose": verbose or None,
    }
    said = {name: value for name, value in given.items() if value is not None}
    if not isinstance(teacher, ShardEnsemble):
        return TeacherEnsemble(teacher, **({"n_teachers": DEFAULT_N_TEACHERS} | said))
    if hasattr(teacher, "teachers_"):
        raise InvalidInputError(
            f"the {type(teacher).__name__} must be unfitted, got a fitted one: its teachers are private and would stay "
            "within reach. Pass sklearn.base.clone(ensemble)."
        )
    return clone(teacher).set_params(**said)
