"""PATE and DP-SGD set up for a named data set, by settings that hold for its size and kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.neighbors import KNeighborsClassifier

from pate.core.checks import check_choice
from pate.data import Dataset, encode_dataset, load_dataset
from pate.estimator import PATEClassifier
from pate.exceptions import InvalidInputError
from pate.privacy.budget import Budget
from pate.students import make_student
from pate.studies.compare import compare
from pate.studies.comparison import ComparisonReport
from pate.teachers import make_teacher

MODULES = ("auto", "linear", "tanh-mlp", "tanh-cnn", "none")

#: Steps of the baseline by module: the linear and mlp ones by its defaults, the cnn in fewer, larger batches.
_DPSGD: dict[str, dict[str, Any]] = {"tanh-cnn": {"epochs": 5, "expected_batch_size": 1024, "learning_rate": 0.5}}


@dataclass(frozen=True)
class Setting:
    """What PATE does on a data set when nothing else is said.

    Examples
    --------
    >>> setting("digits").n_teachers
    80
    """

    teacher: Any
    student: str
    n_teachers: int
    n_queries: int | None
    select: str
    n_public: int | None


# Digits is public, so tuning on it costs nobody anything; the others are general values, tuned on nothing.
_SETTINGS = {"digits": Setting(KNeighborsClassifier(n_neighbors=1), "vote-spreading", 80, 40, "spread", 400)}
_IMAGES = Setting("svm", "vote-spreading", 250, 500, "spread", None)
_TABLES = Setting("logistic-regression", "logistic-regression", 250, 500, "random", None)


def setting(dataset: str) -> Setting:
    """Return the setting of a data set.

    Examples
    --------
    >>> setting("adult").teacher
    'logistic-regression'
    """
    name = dataset.replace("-", "_").lower()
    images = ("mnist", "fashion_mnist", "optdigits")
    return _SETTINGS.get(name, _IMAGES if name in images else _TABLES)


def dpsgd_module(dpsgd: str, data: Dataset) -> str:
    """Return the module of the DP-SGD baseline for a data set.

    Parameters
    ----------
    dpsgd : {"auto", "linear", "tanh-mlp", "tanh-cnn", "none"}
        ``"auto"``: tanh-cnn for images of 28 x 28 or more, linear otherwise, none where rows are grouped by person.
    data : Dataset

    Raises
    ------
    InvalidInputError
        A module is named although rows are grouped: DP-SGD here protects one row, which is another promise.

    Examples
    --------
    >>> dpsgd_module("auto", load_dataset("digits"))
    'linear'
    """
    check_choice("dpsgd", dpsgd, MODULES)
    grouped = data.private.groups is not None
    if dpsgd == "auto":
        large = data.image_shape is not None and min(data.image_shape) >= 28
        return "none" if grouped else "tanh-cnn" if large else "linear"
    if grouped and dpsgd != "none":
        raise InvalidInputError(
            f"dpsgd must be 'none' or 'auto' for {data.name!r}, got {dpsgd!r}: its rows are grouped by person, and "
            "DP-SGD here protects one row. Comparing the two would compare different promises."
        )
    return dpsgd


def make_dpsgd(
    module: str, data: Dataset, budget: Budget, *, random_state: int | None = None, verbose: bool = False
) -> Any:
    """Return an unfitted DP-SGD classifier for class indices of a data set.

    Examples
    --------
    >>> make_dpsgd("linear", load_dataset("digits"), Budget(1.0, 1e-5)).expected_batch_size
    256
    """
    # Imported here: a run without the baseline does not need torch.
    from pate.dpsgd import DPSGDClassifier

    options = {"expected_batch_size": 256, **_DPSGD.get(module, {})}
    options["expected_batch_size"] = min(options["expected_batch_size"], len(data.private.y))
    return DPSGDClassifier(
        module,
        budget=budget,
        classes=range(len(data.classes)),
        random_state=random_state,
        verbose=verbose,
        **options,
    )


def compare_on(
    dataset: str,
    *,
    epsilons: Sequence[float],
    delta: float = 1e-5,
    n_repeats: int = 3,
    protocol: str = "standard",
    n_teachers: int | None = None,
    n_public: int | None = None,
    n_private: int | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    out: Any = None,
    data_home: Any = None,
    verbose: bool = False,
) -> ComparisonReport:
    """Compare PATE with DP-SGD on a named data set; see :func:`pate.compare`.

    Parameters
    ----------
    dataset, protocol, n_public, n_private, data_home
        See :func:`pate.load_dataset`.
    epsilons : sequence of float
    delta, n_repeats, random_state, out, verbose
        See :func:`pate.compare`.
    n_teachers : int or None
        None takes the data set's setting.
    n_jobs : int or None

    Returns
    -------
    ComparisonReport

    Raises
    ------
    InvalidInputError
        An unknown data set, or one whose rows are grouped by person.

    Examples
    --------
    >>> report = compare_on("digits", epsilons=[3.0], n_repeats=1, n_teachers=20)
    >>> [row["contestant"] for row in report.rows()]
    ['PATE', 'DP-SGD']
    """
    if not len(epsilons):
        raise InvalidInputError("epsilons must name at least one budget, got none.")
    chosen = setting(dataset)
    budgets = [Budget(e, delta) for e in epsilons]
    data = encode_dataset(
        load_dataset(
            dataset,
            protocol=protocol,
            data_home=data_home,
            random_state=random_state,
            n_public=n_public or chosen.n_public,
            n_private=n_private,
        )
    )
    module = dpsgd_module("auto", data)
    if module == "none":
        raise InvalidInputError(
            f"dataset must be one whose rows are not grouped by person, got {dataset!r}: DP-SGD here protects one row, "
            "PATE would protect one person. Use pate run for PATE alone."
        )
    n_rows = len(data.public.y_for_evaluation)
    classifier = PATEClassifier(
        make_teacher(chosen.teacher),
        n_teachers=n_teachers or chosen.n_teachers,
        budget=budgets[0],
        classes=range(len(data.classes)),
        student=make_student(chosen.student),
        n_queries=None if chosen.n_queries is None else min(chosen.n_queries, n_rows),
        select=chosen.select,
        n_jobs=n_jobs,
        anyway=True,  # a comparison shows what comes of any budget
    )
    contestants = {"PATE": classifier, "DP-SGD": make_dpsgd(module, data, budgets[0])}
    return compare(
        contestants,
        data,
        budgets=budgets,
        n_repeats=n_repeats,
        random_state=random_state,
        out=out,
        verbose=verbose,
    )
