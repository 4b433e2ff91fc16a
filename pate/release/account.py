"""What an existing vote matrix costs, by every analysis, each for its own use.

Nothing is released here but, when asked for, a sanitised epsilon, whose own price is in it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_choice, check_int, shown
from pate._core.pages import cell
from pate.exceptions import InvalidInputError
from pate.ledger import Ledger
from pate.mechanisms import ConfidentGNMax, ExactLaw, GNMax, LNMax, Mechanism
from pate.privacy import papernot
from pate.privacy.convert import DEFAULT_ORDERS, check_delta, rdp_overheads, rdp_to_epsilon
from pate.privacy.offsets import MOST_CLASSES
from pate.privacy.publish.smooth_sensitivity import SmoothSensitivity
from pate.privacy.words import Guarantee, Sensitive
from pate.release import LabelRelease, ReleasedLabels, sanitised_epsilon, warn_if_weak
from pate.votes import Votes, as_votes

#: ``pld="auto"`` composes privacy loss distributions where that is estimated to take at most so many seconds.
PLD_SECONDS = 5.0

#: What each number may be used for, by the attribute of :class:`PrivacyReport`.
USES: Mapping[str, str] = MappingProxyType(
    {
        "public": "a constant known before the run: this is the number to publish and to budget by",
        "sanitised": "an upper bound at this data set that may be published; it is too low with a probability that "
        "delta contains, its own release is paid for, and the ledger keeps the one draw",
        "data_dependent": "private: internal study only; never publish it",
        "papernot2018": "private: to compare with papers, as published (one direction); never publish it",
        "papernot2017": "private: to compare with papers, as published (one direction); never publish it",
    }
)
#: Those that are functions of the votes, each by an analysis of its own.
PRIVATE = ("data_dependent", "papernot2018", "papernot2017")


@dataclass(frozen=True, repr=False)
class PrivacyReport:
    """The cost of labels from a vote matrix: the public, data-dependent and sanitised epsilon (docs/concepts.md).

    Attributes
    ----------
    public : Guarantee
        A constant; may be published.
    data_dependent : Sensitive[Guarantee]
        The least bound at these very votes that covers every neighbour and both directions: for the curator alone.
    papernot2018 : Sensitive[Guarantee] or None
        The 2018 paper's analysis as published: Theorem 6 (one direction), expected costs, the older conversion. To
        compare with papers; private.
    papernot2017 : Sensitive[Guarantee] or None
        The 2017 paper's moments bound for Laplace noise.
    expected_answers : Sensitive[float]
        Expected number of answers at these votes.
    exact : Sensitive[dict of str to Guarantee]
        Every exact analysis that was made (``"rdp"``, ``"pld"``); empty for a mechanism without one. ``data_dependent``
        is the least of these and of the public number.
    sanitised : Guarantee or None
        A publishable upper bound at these votes, when it was asked for; see
        :func:`pate.privacy.publish.smooth_sensitivity.release_smooth` for what exactly is claimed.

    Examples
    --------
    >>> from pate import GNMax, Votes
    >>> account(Votes.from_counts([[240, 10]] * 100), GNMax(sigma=40.0), delta=1e-5)
    PrivacyReport(public=(1.1..., 1e-05)-DP, public, by rdp ..., data_dependent=<sensitive>)
    """

    public: Guarantee
    data_dependent: Sensitive[Guarantee]
    papernot2018: Sensitive[Guarantee] | None
    papernot2017: Sensitive[Guarantee] | None
    expected_answers: Sensitive[float]
    exact: Sensitive[dict[str, Guarantee]] = field(default_factory=lambda: Sensitive({}, "exact guarantees"))
    sanitised: Guarantee | None = None

    def __repr__(self) -> str:
        return f"PrivacyReport(public={self.public}, data_dependent=<sensitive>)"

    def _repr_html_(self) -> str:
        known = [name for name in USES if getattr(self, name) is not None]
        shown = {"public": str(self.public), "sanitised": str(self.sanitised)}
        rows = [(name, shown.get(name, "hidden"), USES[name]) for name in known]
        heads = ("number", "guarantee", "what it may be used for")
        return cell("PrivacyReport", str(self.public), heads=heads, rows=rows)

    def to_dict(self, *, include_sensitive: bool = False) -> dict[str, Any]:
        """Return what may be published, for JSON; with ``include_sensitive`` also what is for the curator alone."""
        sanitised = None if self.sanitised is None else self.sanitised.to_dict()
        found: dict[str, Any] = {"public": self.public.to_dict(), "sanitised": sanitised}
        if not include_sensitive:
            return found
        hidden = {name: getattr(self, name) for name in PRIVATE}
        private = {n: None if w is None else w.reveal().to_dict(include_sensitive=True) for n, w in hidden.items()}
        return found | {"private": {**private, "expected_answers": self.expected_answers.reveal()}}


def account(
    votes: Votes | npt.ArrayLike,
    mechanism: Mechanism | LabelRelease,
    *,
    delta: float | None = None,
    max_answers: int | None = None,
    pld: bool | str = "auto",
    sanitise: SmoothSensitivity | bool | None = None,
    ledger: Ledger | None = None,
    noise_seed: int | None = None,
) -> PrivacyReport:
    """Compute what labels from existing votes cost in privacy; it releases nothing but, if asked, a sanitised epsilon.

    The data-dependent number is exact: the divergence of the true law of the outcomes (for Confident-GNMax that of the
    joint mechanism, refusals included) from that of every neighbour, in both directions. With teachers' labels it is
    summed teacher by teacher, because a person can change one teacher's votes only; with counts alone the worst vote of
    every query is summed. It is composed by RDP and, where asked, by privacy loss distributions, and the least of these
    and of the public number counts. It holds for queries (and offsets) fixed in advance and for teachers that share
    nothing fitted on private data: where queries or offsets followed from earlier answers, the public number alone is a
    guarantee.

    Parameters
    ----------
    votes : Votes, or array, DataFrame or list of shape (n_queries, n_classes)
        An array is read as counts and refused if it may be something else: see :func:`pate.votes.as_votes`. For one
        label per teacher use :meth:`Votes.from_labels`.
    mechanism : Mechanism or LabelRelease
        A release stands for what it did: its mechanism, its queries (equal rows are one), its cap on answers and, where
        none is given, its delta. ``votes`` are then those that it was drawn for: of :func:`pate.release_labels`, or of
        :meth:`pate.PATEClassifier.fit_keeping`. A fitted classifier keeps none: what is published may not hold them.
    delta : float or None
        In (0, 1); None with a release alone.
    max_answers : int or None
        The most answers that the public cost assumes; None assumes that all queries are answered. Not with a release.
    pld : bool or "auto"
        Whether to compose privacy loss distributions too (5 to 10% less epsilon). It takes about 3 ms a query at 10
        classes, far more at hundreds of classes; "auto" does it where the estimated time is at most `PLD_SECONDS` = 5
        seconds.

    sanitise : SmoothSensitivity, bool or None
        Also return an upper bound on the data-dependent epsilon that may be published (for :class:`GNMax` and
        :class:`ConfidentGNMax`); True takes the usual settings (:meth:`SmoothSensitivity.usual`). It is drawn once,
        charged to the ledger and kept there: for the same votes, mechanism, delta and parameters, the ledger gives the
        same number again, free.
    ledger : Ledger or None
        Needed with ``sanitise``: the ledger of these private data, with a total, that counts in Renyi divergence.
    noise_seed : int or None
        For tests only: the sanitised guarantee then has the kind ``"seeded"``.

    Returns
    -------
    PrivacyReport
        The public epsilon does not depend on the votes; the others do and are wrapped as sensitive.

    Raises
    ------
    InvalidInputError
        Votes that may be something else, a delta outside (0, 1), a ``pld`` that is none of True, False, "auto", or
        ``sanitise`` that is something else, without a ledger that has a total, with another mechanism, or for
        teachers who abstain. A release by records or DP-SGD, which have no votes of teachers, or whose ``asked`` is
        None; votes on other queries, of other classes or by another number of teachers than the release's.
    BudgetExceededError
        The ledger cannot pay for the sanitised number.

    Examples
    --------
    >>> votes = Votes.from_counts([[240, 10]] * 100)
    >>> report = account(votes, GNMax(sigma=40.0), delta=1e-5)
    >>> report.data_dependent
    Sensitive(data-dependent guarantee: hidden; .reveal() shows it)
    >>> report.data_dependent.reveal().epsilon < report.public.epsilon
    True

    Of a release, at its own delta:

    >>> from pate import Budget, release_labels
    >>> release = release_labels(votes, GNMax(sigma=40.0), budget=Budget(2.0, 1e-5))
    >>> account(votes, release).public == report.public == release.guarantee
    True
    """
    kind = "public"
    if isinstance(mechanism, ReleasedLabels):
        release = _check_release(mechanism, max_answers)
        votes = _asked_by(release, as_votes(votes))
        mechanism, max_answers, kind = release.mechanism, release.quote.max_answers, release.guarantee.kind
        delta = release.guarantee.delta if delta is None else delta
    votes, delta = as_votes(votes), check_delta(cast("float", delta))
    if not isinstance(mechanism, Mechanism):
        raise InvalidInputError(f"mechanism must be a mechanism such as GNMax(sigma=40), got {shown(mechanism)}.")
    mechanism.check_classes(votes.n_classes)
    if not isinstance(pld, bool):
        check_choice("pld", pld, ("auto",), remedy="Or say True or False.")
    how = SmoothSensitivity.usual(delta) if sanitise is True else None if sanitise is False else sanitise
    if not isinstance(how, SmoothSensitivity | None):
        raise InvalidInputError(
            f"sanitise must be True (the usual settings), None or a SmoothSensitivity, got {shown(sanitise)}. That is "
            "in pate.privacy.publish.smooth_sensitivity: SmoothSensitivity(order=8, beta=0.0125, noise_scale=4)."
        )
    sanitised = None
    if how is not None:
        sanitised = sanitised_epsilon(votes, mechanism, how, ledger, delta=delta, noise_seed=noise_seed)
    warn_if_weak(delta, votes.n_units)
    public = replace(mechanism.charge(votes.n_queries, max_answers).guarantee(delta), kind=kind)
    exact = _exact(votes, mechanism, delta, pld)
    # The public number holds at these votes as well: what is known of them can only lower it.
    best = min((replace(public, kind="data-dependent"), *exact.values()), key=lambda g: g.epsilon)
    published = _published(votes, mechanism, delta)
    laplace = isinstance(mechanism, LNMax)
    answers = float(votes.n_queries)
    if isinstance(mechanism, ConfidentGNMax):
        test = mechanism.exact_parameters()["threshold"]
        assert test is not None
        answers = float(np.exp(test.log_answer(test.top(votes.counts))).sum())
    return PrivacyReport(
        public=public,
        data_dependent=Sensitive(best, "data-dependent guarantee"),
        papernot2018=None if laplace else published,
        papernot2017=published if laplace else None,
        expected_answers=Sensitive(answers, "expected number of answers"),
        exact=Sensitive(exact, "exact guarantees"),
        sanitised=sanitised,
    )


def _check_release(release: ReleasedLabels, max_answers: int | None) -> LabelRelease:
    if not isinstance(release, LabelRelease):
        raise InvalidInputError(
            f"mechanism must be a mechanism or a LabelRelease, got {type(release).__name__}: records voted or DP-SGD "
            "learnt, so there are no votes of teachers, and the cost is the same whatever the data are. See its "
            "guarantee."
        )
    if release.asked is None:
        raise InvalidInputError(
            "the release must have charged and drawn all its labels at once, and nothing else: not stored answers, a "
            "session, noise of several sites, tiers, several labels, or a count of right answers (measure=). See its "
            "guarantee."
        )
    if max_answers is not None:
        raise InvalidInputError(f"max_answers must be None with a release, which has its own, got {max_answers!r}.")
    return release


def _asked_by(release: LabelRelease, votes: Votes) -> Votes:
    """Return the votes that the release was drawn for."""
    asked = release.asked
    assert asked is not None
    theirs = (release.n_queries, release.classes, asked.n_teachers, asked.query_hashes)
    if (votes.n_queries, votes.classes, votes.n_teachers, votes.query_hashes) != theirs:
        raise InvalidInputError(
            f"votes must be those of the release, on {release.n_queries} queries of {len(release.classes)} classes by "
            f"{asked.n_teachers} teachers, in their order, got {votes!r}."
        )
    return votes.take(asked.rows)


def _exact(votes: Votes, mechanism: Mechanism, delta: float, pld: bool | str) -> dict[str, Guarantee]:
    """Return the exact analyses at these votes: no entry where there is none, or for teachers who abstain.

    With offsets there is none beyond :data:`~pate.privacy.offsets.MOST_CLASSES` classes.
    """
    if not isinstance(mechanism, ExactLaw) or not votes.n_queries or not _has_exact(mechanism, votes):
        # A Gaussian's divergence does not depend on where it sits: a histogram's cost is the public one.
        return {}
    if (votes.counts.sum(axis=1) != votes.n_teachers).any():
        # The exact analysis is of one vote replaced; where teachers may abstain there are other neighbours.
        return {}
    from pate.privacy import exact

    law = mechanism.exact_parameters()
    compose: Any
    if votes.labels is None:
        scope, n_teachers, compose = "per query", None, partial(exact.pld_epsilon, votes.counts)
        curves = exact.exact_divergences(votes.counts, DEFAULT_ORDERS, **law).totals()
    else:
        groups = exact.vote_groups(votes.labels, counts=votes.counts, threshold=law["threshold"])
        scope, n_teachers, compose = "per teacher", votes.n_teachers, partial(exact.per_teacher_pld_epsilon, groups)
        curves = np.moveaxis(exact.per_teacher_rdp(groups, DEFAULT_ORDERS, **law), 2, 0)
    epsilon, order = _worst_curve(exact.upper_bound(curves.reshape(-1, len(DEFAULT_ORDERS))), delta)
    found = {"rdp": _at_these_votes(epsilon, delta, f"rdp of the exact law {scope}", order=order)}
    if pld == "auto":
        pld = exact.pld_seconds(votes.counts, **law, n_teachers=n_teachers) <= PLD_SECONDS
    if pld:
        found["pld"] = _at_these_votes(compose(delta, **law).epsilon, delta, f"pld of the exact law {scope}")
    return found


def _has_exact(mechanism: ExactLaw, votes: Votes) -> bool:
    test = mechanism.exact_parameters()["threshold"]
    return test is None or test.offsets is None or votes.n_classes <= MOST_CLASSES


def _at_these_votes(epsilon: float, delta: float, method: str, **more: Any) -> Guarantee:
    said = {"epsilon": epsilon, "delta": delta, "method": method, "adaptivity": "fixed queries", **more}
    return Guarantee(kind="data-dependent", **said)


def _worst_curve(curves: npt.NDArray[np.float64], delta: float) -> tuple[float, float]:
    """Return the largest epsilon of RDP curves (n_curves, n_orders), each at its own best order, and that order.

    A neighbour and a direction have one curve, and every order bounds them: the best order may be taken curve by curve.
    """
    overhead = rdp_overheads(DEFAULT_ORDERS, check_delta(delta))
    worst = int((curves + overhead).min(axis=1).argmax())
    return rdp_to_epsilon(curves[worst], delta)


def _published(votes: Votes, mechanism: Mechanism, delta: float) -> Sensitive[Guarantee] | None:
    """Return the analysis of the paper that introduced the mechanism, as published; None where it has none."""
    orders = papernot.PAPER_ORDERS
    method = "papernot2018"
    if isinstance(mechanism, ConfidentGNMax):
        if mechanism.offsets is not None:
            return None
        curve = papernot.expected_confident_rdp(
            votes.counts, mechanism.threshold, mechanism.sigma_threshold, mechanism.sigma
        )
        method = "papernot2018, expected costs"
    elif isinstance(mechanism, GNMax):
        curve = papernot.rdp_bound(papernot.log_q_gaussian(votes.counts, mechanism.sigma), mechanism.sigma, orders)
    elif isinstance(mechanism, LNMax):
        curve = papernot.laplace_moments(votes.counts, mechanism.scale, orders)
        method = "papernot2017"
    else:
        return None
    epsilon, order = rdp_to_epsilon(curve.sum(axis=0), delta, orders=orders, conversion="mironov")
    said = f"{method}, mironov conversion"
    return Sensitive(_at_these_votes(epsilon, delta, said, order=order, directions="forward"), "published analysis")


def cost_by_queries(
    votes: Votes | npt.ArrayLike,
    mechanism: Mechanism,
    *,
    delta: float,
    max_answers: int | None = None,
    pld: bool | str = "auto",
    n_points: int = 12,
) -> Sensitive[list[dict[str, object]]]:
    """Account for the first 1, ..., n_queries of the queries, by every analysis: what a picture is drawn from.

    Parameters
    ----------
    votes, mechanism, delta, max_answers, pld
        As in :func:`account`; "auto" decides once, for all the queries.
    n_points : int
        How many numbers of queries, at least 2.

    Returns
    -------
    Sensitive[list of dict]
        For :func:`pate.report.plots.cost_curves`: ``label``, ``queries`` (ints), ``epsilon`` (floats). Only the curve
        labelled public may be published.

    Raises
    ------
    InvalidInputError
        As :func:`account`, or no queries at all.
    """
    votes = as_votes(votes)
    n_points = check_int("n_points", n_points, low=2)
    check_int("n_queries", votes.n_queries, low=1, remedy="There is nothing to draw without queries.")
    # Epsilon grows about as the root of the number of queries: even steps of the root draw it smoothly.
    places = np.unique((np.linspace(1, votes.n_queries**0.5, n_points) ** 2).round().astype(np.int64)).tolist()
    if pld == "auto" and isinstance(mechanism, ExactLaw) and _has_exact(mechanism, votes):
        from pate.privacy.exact import pld_seconds

        # Every point is composed again, with a third as many queries on average.
        n_teachers = None if votes.labels is None else votes.n_teachers
        law = mechanism.exact_parameters()
        pld = len(places) / 3 * pld_seconds(votes.counts, **law, n_teachers=n_teachers) <= 4 * PLD_SECONDS
    curves: dict[str, list[float]] = {}
    for n in places:
        with warnings.catch_warnings():
            if n < votes.n_queries:
                warnings.simplefilter("ignore")  # said once is enough
            report = account(votes.take(range(n)), mechanism, delta=delta, max_answers=max_answers, pld=pld)
        epsilons = {"public": report.public.epsilon}
        for name, guarantee in report.exact.reveal().items():
            scope = "" if votes.labels is None else ", per teacher"
            epsilons[f"exact at these votes, {name.upper()}{scope}"] = guarantee.epsilon
        for name, published in (("2018", report.papernot2018), ("2017", report.papernot2017)):
            if published is not None:
                epsilons[f"as published in {name}, one direction"] = published.reveal().epsilon
        for name, epsilon in epsilons.items():
            curves.setdefault(name, []).append(epsilon)
    drawn: Any = [{"label": name, "queries": places, "epsilon": epsilons} for name, epsilons in curves.items()]
    return Sensitive(drawn, "cost by number of queries")
