"""PATE and DP-SGD set up for a named data set, by settings that hold for its size and kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pate.core.checks import check_choice
from pate.data import Dataset, encode_dataset, load_dataset
from pate.estimator import PATEClassifier
from pate.exceptions import InvalidInputError
from pate.privacy.budget import Budget
from pate.studies.compare import compare
from pate.studies.comparison import ComparisonReport

MODULES = ("auto", "linear", "tanh-mlp", "tanh-cnn", "none")

#: Steps of the baseline by module: the linear and mlp ones by its defaults, the cnn in fewer, larger batches.
_DPSGD: dict[str, dict[str, Any]] = {"tanh-cnn": {"epochs": 5, "expected_batch_size": 1024, "learning_rate": 0.5}}


#: Of a small data set more than the usual share is public: scikit-learn's digits have so many public rows here.
_PUBLIC_ROWS = {"digits": 400}


def public_rows(dataset: str) -> int | None:
    """Return how many public rows a data set is cut with where nobody says; None: :func:`pate.load_dataset`'s share.

    Examples
    --------
    >>> public_rows("digits"), public_rows("adult")
    (400, None)
    """
    return _PUBLIC_ROWS.get(dataset.replace("-", "_").lower())


def make_dpsgd(
    module: str, data: Dataset, budget: Budget, *, random_state: int | None = None, verbose: bool = False
) -> Any:
    """Return an unfitted DP-SGD classifier for class indices of a data set.

    Parameters
    ----------
    module : {"auto", "linear", "tanh-mlp", "tanh-cnn"}
        ``"auto"`` leaves everything to DP-SGD's own planner (:mod:`pate.dpsgd.recipes`), which wants the rows as they
        are and ``X_public``; the others take encoded rows, and defaults by module.
    data : Dataset
    budget : Budget
    random_state : int or None
    verbose : bool

    Examples
    --------
    >>> make_dpsgd("linear", load_dataset("digits"), Budget(1.0, 1e-5)).expected_batch_size
    256
    """
    check_choice("dpsgd", module, MODULES[:-1])
    # Imported here: a run without the baseline does not need torch.
    from pate.dpsgd import DPSGDClassifier

    if module == "auto":
        return DPSGDClassifier(
            budget=budget,
            classes=range(len(data.classes)),
            image_shape=data.image_shape,
            random_state=random_state,
            verbose=verbose,
        )
    options = {"expected_batch_size": 256, **_DPSGD.get(module, {})}
    groups = data.private.groups
    n_units = len(data.private.y) if groups is None else len(set(groups))
    options["expected_batch_size"] = min(options["expected_batch_size"], n_units)
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
        None lets records vote; a number trains so many teachers on shards.
    n_jobs : int or None

    Returns
    -------
    ComparisonReport

    Raises
    ------
    InvalidInputError
        An unknown data set.

    Examples
    --------
    >>> report = compare_on("digits", epsilons=[3.0], n_repeats=1)
    >>> [row["contestant"] for row in report.rows()]
    ['PATE', 'DP-SGD']
    """
    if not len(epsilons):
        raise InvalidInputError("epsilons must name at least one budget, got none.")
    budgets = [Budget(e, delta) for e in epsilons]
    data = load_dataset(
        dataset,
        protocol=protocol,
        data_home=data_home,
        random_state=random_state,
        n_public=n_public or public_rows(dataset),
        n_private=n_private,
    )
    if n_teachers is not None:
        data = encode_dataset(data)  # teachers need numbers; representations read tables cell by cell
    classifier = PATEClassifier(
        n_teachers=n_teachers,
        budget=budgets[0],
        classes=range(len(data.classes)),
        image_shape=data.image_shape,
        n_jobs=n_jobs,
        anyway=True,  # a comparison shows what comes of any budget
    )
    dpsgd = make_dpsgd("auto", data, budgets[0])
    contestants = {"PATE": classifier, "DP-SGD": dpsgd}
    return compare(
        contestants,
        data,
        budgets=budgets,
        n_repeats=n_repeats,
        random_state=random_state,
        out=out,
        verbose=verbose,
    )
