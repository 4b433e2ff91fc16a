"""Contestants by name on a named data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pate.comparison.contestants import default_contestants, named
from pate.comparison.report import ComparisonReport
from pate.comparison.run import compare
from pate.data import load_dataset
from pate.exceptions import InvalidInputError
from pate.privacy.budget import Budget
from pate.studies.config import public_rows


def compare_on(
    dataset: str,
    *,
    contestants: Sequence[str] = (),
    epsilons: Sequence[float],
    delta: float = 1e-5,
    n_repeats: int = 5,
    protocol: str = "standard",
    n_public: int | None = None,
    n_private: int | None = None,
    by: str | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    out: Any = None,
    sensitive_report: bool = False,
    data_home: Any = None,
    verbose: bool = False,
) -> ComparisonReport:
    """Compare contestants by name on a named data set; see :func:`pate.compare`.

    Parameters
    ----------
    dataset, protocol, n_public, n_private, data_home
        See :func:`pate.load_dataset`.
    contestants : sequence of str
        Of :data:`pate.comparison.contestants.NAMES`; none: those that are done in minutes on such data.
    epsilons : sequence of float
    delta, n_repeats, by, random_state, n_jobs, out, verbose
        See :func:`pate.compare`.
    sensitive_report : bool
        Also write ``sensitive.html``.

    Returns
    -------
    ComparisonReport

    Raises
    ------
    InvalidInputError
        An unknown data set or contestant.
    """
    if not len(epsilons):
        raise InvalidInputError("epsilons must name at least one budget, got none.")
    budgets = [Budget(e, delta) for e in epsilons]
    if contestants:
        named(contestants)  # before anything is downloaded
    data = load_dataset(
        dataset,
        protocol=protocol,
        data_home=data_home,
        random_state=random_state,
        n_public=n_public or public_rows(dataset),
        n_private=n_private,
    )
    facts = {"kind": data.kind, "image_shape": data.image_shape}
    return compare(
        named(contestants, **facts) if contestants else default_contestants(**facts),  # type: ignore[arg-type]
        data,
        budgets=budgets,
        n_repeats=n_repeats,
        random_state=random_state,
        n_jobs=n_jobs,
        out=out,
        sensitive=sensitive_report,
        by=by,
        verbose=verbose,
    )
