"""What an existing vote matrix costs, by every analysis, each for its own use. Nothing is released here."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pate.labeling import warn_if_weak
from pate.mechanisms import ConfidentGNMax, GNMax, LNMax, Mechanism
from pate.privacy import papernot
from pate.privacy.conversion import rdp_to_epsilon
from pate.privacy.guarantee import Guarantee, Sensitive
from pate.votes import Votes


@dataclass(frozen=True, repr=False)
class PrivacyReport:
    """What a vote matrix costs under a mechanism, by every analysis, each for its own use.

    Attributes
    ----------
    public : Guarantee
        A constant; may be published.
    data_dependent : Sensitive[Guarantee]
        The best bound at these very votes; private.
    papernot2018 : Sensitive[Guarantee] or None
        The 2018 paper's analysis as published: Theorem 6 (one direction), expected costs, the older conversion.
    papernot2017 : Sensitive[Guarantee] or None
        The 2017 paper's moments bound for Laplace noise.
    expected_answers : Sensitive[float]
        Expected number of answers at these votes.

    Examples
    --------
    >>> from pate import GNMax, Votes
    >>> account(Votes.from_counts([[240, 10]] * 100), GNMax(sigma=40.0), delta=1e-5)
    PrivacyReport(public=(1.3..., 1e-05)-DP, public, by gdp, ..., data_dependent=<sensitive>)
    """

    public: Guarantee
    data_dependent: Sensitive[Guarantee]
    papernot2018: Sensitive[Guarantee] | None
    papernot2017: Sensitive[Guarantee] | None
    expected_answers: Sensitive[float]

    def __repr__(self) -> str:
        return f"PrivacyReport(public={self.public}, data_dependent=<sensitive>)"


def account(votes: Votes, mechanism: Mechanism, *, delta: float, max_answers: int | None = None) -> PrivacyReport:
    """Account for an existing vote matrix, without releasing anything.

    Parameters
    ----------
    votes : Votes
    mechanism : Mechanism
    delta : float
        In (0, 1).
    max_answers : int or None
        The cap on answers that the public price assumes; None assumes that all are answered.

    Returns
    -------
    PrivacyReport
        The public epsilon does not depend on the votes; the others do and are wrapped as sensitive.

    Examples
    --------
    >>> votes = Votes.from_counts([[240, 10]] * 100)
    >>> report = account(votes, GNMax(sigma=40.0), delta=1e-5)
    >>> report.data_dependent
    Sensitive(data-dependent guarantee: hidden; .reveal() shows it)
    >>> report.data_dependent.reveal().epsilon < report.public.epsilon
    True
    """
    warn_if_weak(delta, votes.n_units)
    public = mechanism.charge(votes.n_queries, max_answers).guarantee(delta)
    answers = float(votes.n_queries)
    if isinstance(mechanism, ConfidentGNMax):
        curve = papernot.expected_confident_rdp(
            votes.counts, mechanism.threshold, mechanism.sigma_threshold, mechanism.sigma
        )
        log_yes, _ = papernot.log_answer_probability(votes.counts, mechanism.threshold, mechanism.sigma_threshold)
        answers = float(np.exp(log_yes).sum())
    elif isinstance(mechanism, GNMax):
        curve = papernot.rdp_bound(
            papernot.log_q_gaussian(votes.counts, mechanism.sigma), mechanism.sigma, papernot.PAPER_ORDERS
        )
    elif isinstance(mechanism, LNMax):
        curve = papernot.laplace_moments(votes.counts, mechanism.scale, papernot.PAPER_ORDERS)
    else:
        # A Gaussian's divergence does not depend on where it sits: the data-dependent cost is the public one.
        same = Sensitive(replace(public, kind="data-dependent"), "data-dependent guarantee")
        return PrivacyReport(public, same, None, None, Sensitive(answers, "expected number of answers"))

    total = curve.sum(axis=0)
    method = "papernot2017" if isinstance(mechanism, LNMax) else "papernot2018"
    if isinstance(mechanism, ConfidentGNMax):
        method += ", expected costs"

    def bound(conversion: str) -> Guarantee:
        epsilon, order = rdp_to_epsilon(total, delta, orders=papernot.PAPER_ORDERS, conversion=conversion)
        return Guarantee(
            epsilon=epsilon,
            delta=delta,
            kind="data-dependent",
            method=f"{method}, {conversion} conversion",
            order=order,
            directions="forward",
            adaptivity="fixed queries",
        )

    published = Sensitive(bound("mironov"), "published analysis")
    laplace = isinstance(mechanism, LNMax)
    return PrivacyReport(
        public,
        Sensitive(bound("cks"), "data-dependent guarantee"),
        None if laplace else published,
        published if laplace else None,
        Sensitive(answers, "expected number of answers"),
    )
