"""PATE against DP-SGD on a named data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pate.comparison.report import ComparisonReport
from pate.comparison.run import compare
from pate.data import encode_dataset, load_dataset
from pate.estimator import PATEClassifier
from pate.exceptions import InvalidInputError
from pate.privacy.budget import Budget
from pate.studies.baseline import make_dpsgd, public_rows


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
