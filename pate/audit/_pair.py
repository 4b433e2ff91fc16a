"""The exact divergence of the releases on one pair of neighbouring data sets, without sampling."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_int, check_real, shown
from pate._core.types import FloatArray, IntArray
from pate.audit._claims import Claim
from pate.exceptions import InvalidInputError
from pate.mechanisms import ExactLaw, GaussianSum, Mechanism, NoisyHistogram
from pate.privacy.convert import check_delta, gdp_to_epsilon
from pate.privacy.cost import Charge
from pate.privacy.exact import (
    Groups,
    PairLaw,
    all_laws,
    distinct_histograms,
    group_ranks,
    per_teacher_rdp,
)
from pate.privacy.exact._given_pair import GivenPair, PairEpsilon, given_pair
from pate.privacy.exact.noise import ThresholdTest
from pate.records import BallotSum, VectorSum
from pate.report.audit_result import AuditResult, Curve, Figure, Picture
from pate.votes import Votes, as_votes

__all__ = ["pair", "worst_neighbour"]

#: Relative rounding of a closed form, and of a claim that a pair may meet exactly.
_MARGIN = 1e-9
#: Absolute rounding of a query's Renyi divergence.
_RDP_ERROR = 1e-11
#: Deltas at which the claim is checked, besides the given one.
_DELTAS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
#: Orders at which a run that may stop is checked; all of a claim's otherwise.
_FEW_ORDERS = (1.5, 2.0, 4.0, 8.0, 16.0, 32.0)
_POINTS = 6


@dataclass(frozen=True)
class GaussianPair:
    """Two Gaussians of one covariance: ``squares`` are the squared distances of each query's means, in deviations."""

    squares: FloatArray

    def first(self, n_queries: int) -> GaussianPair:
        """Return the first so many queries."""
        return GaussianPair(self.squares[:n_queries])

    def epsilon(self, delta: float) -> PairEpsilon:
        """Return the closed form (Balle and Wang 2018, Theorem 8), the same in both directions."""
        high = gdp_to_epsilon(math.sqrt(float(self.squares.sum())), delta)
        return PairEpsilon(delta, (high * (1 - _MARGIN), high), (high * (1 - _MARGIN), high))

    def rdp(self, orders: npt.ArrayLike) -> FloatArray:
        """Return alpha mu^2 / 2."""
        return np.tile(np.asarray(orders, dtype=np.float64) * float(self.squares.sum()) / 2, (2, 1))


#: Two laws of one list of queries, of which every divergence can be worked out.
PairOfLaws = GaussianPair | GivenPair


def pair(
    votes: Votes | BallotSum | VectorSum | npt.ArrayLike,
    votes_prime: Votes | BallotSum | VectorSum | npt.ArrayLike,
    mechanism: Mechanism | GaussianSum,
    *,
    delta: float = 1e-5,
    max_answers: int | None = None,
    claim: Any = None,
    max_moved: int = 1,
    published: bool = False,
) -> AuditResult:
    """Compute the exact divergence of a mechanism's releases on two given neighbours D and D', and test a claim by it.

    No sampling, and no bound over neighbours: this pair alone. Its epsilon is a lower bound on the mechanism's, so a
    claim below it is false for certain (``false_alarms=0``). The claim is checked at the same places: epsilon at
    ``delta`` and at seven other deltas, and, of a charge, its Renyi curve at all orders.

    Parameters
    ----------
    votes, votes_prime : Votes, counts of shape (n_queries, n_classes), BallotSum or VectorSum
        Votes on the same queries, under D and under D'. **Sensitive**, and so is the result.
    mechanism : GNMax, LNMax, ConfidentGNMax, NoisyHistogram; GaussianSum for a sum
        Fixed queries, each answered as drawn. Equal queries may be asked many times; a ledger would answer them once.
    delta : float
        In (0, 1).
    max_answers : int or None
        The run ends with so many answers.
    claim : Claim, Guarantee, Budget, Charge, (epsilon, delta) or None
        What is claimed of this release; None: what the mechanism charges for it.
    max_moved : int
        How many teachers may have changed their votes. More than one is a leak in itself, where one unit was replaced
        (see ``pate.audit.replay``); the claim is still the one for a single unit.
    published : bool
        The data are public or made up: the result is then not sensitive, unless the claim is.

    Returns
    -------
    AuditResult
        Figures: ``"epsilon of the pair"`` (``value``, which is ``low``, is never above the true value, ``high`` never
        below), the same ``", forward"`` (D against D') and ``", reverse"``, ``"claimed epsilon"``, ``"share of the
        claimed epsilon"``, ``"largest share of the claimed Renyi curve"`` and ``"teachers moved"`` (at least, where
        votes have no labels). **Sensitive** unless published.

    Raises
    ------
    InvalidInputError
        Votes of other queries, classes or teachers, more teachers moved than ``max_moved``, a ballot sum moved further
        than one unit can, or a mechanism whose law is not known here.

    Notes
    -----
    Noisy maxima by :mod:`pate.privacy.exact._given_pair`; noisy histograms and ballot sums are Gaussians, of which the
    rounding to the public grid (post-processing) is left out: it lowers mu by less than 1e-9, relative.

    Examples
    --------
    >>> from pate import GNMax
    >>> tied = pair([[125, 125]] * 300, [[124, 126]] * 300, GNMax(40.0), published=True)
    >>> (
    ...     tied.refuted,
    ...     round(tied["epsilon of the pair"].value, 3),
    ...     round(tied["claimed epsilon"].value, 3),
    ... )
    (False, 1.935, 2.121)
    """
    begun = time.perf_counter()
    delta = check_delta(delta)
    max_moved = check_int("max_moved", max_moved, low=1)
    laws: PairOfLaws
    if isinstance(votes, BallotSum | VectorSum) or isinstance(votes_prime, BallotSum | VectorSum):
        laws, charge, moved = _of_ballots(votes, votes_prime, mechanism, max_answers)
        n_queries, what = 1, "the sums of ballots of one pair of neighbours, by their exact laws"
    else:
        first, second = _same_queries(votes, votes_prime)
        laws, charge = laws_of(first, second, mechanism, max_answers)
        moved, n_queries = n_moved(first, second), first.n_queries
        what = f"the votes of one pair of neighbours on {n_queries:,} queries, by their exact laws"
        if moved > max_moved:
            raise InvalidInputError(
                f"votes and votes_prime differ in the votes of {moved if published else 'some'} teachers, more than "
                f"max_moved={max_moved}. One unit "
                "stands behind one teacher; if it was one unit that was replaced, something is shared between teachers "
                "(pate.audit.replay names it). Pass max_moved to measure what that costs."
            )
    claimed_as = charge if claim is None else claim
    whole = Claim.of(claimed_as)
    claimed = charge.guarantee(delta).epsilon if claim is None else whole.epsilon(delta)
    found = laws.epsilon(delta)
    few = _FEW_ORDERS if max_answers is not None and max_answers < n_queries else None
    share = _renyi_share(laws, claimed_as, n_queries, few)
    beyond = _beyond(laws, whole, delta, found.epsilon[0], claimed, share)
    return AuditResult(
        layer="pair",
        target=repr(mechanism),
        claim=str(charge.guarantee(delta) if claim is None else whole),
        tried=what,
        refuted=bool(beyond),
        finding=beyond or f"epsilon {found.epsilon[0]:.4g} at delta {delta:g} of the {claimed:.4g} that are claimed",
        false_alarms=0.0,
        seconds=time.perf_counter() - begun,
        limits="Of this pair and these queries alone: other neighbours, or other queries, may show more.",
        figures=(*pair_figures(found, claimed, share), Figure(name="teachers moved", value=float(moved))),
        picture=_picture(laws, mechanism, n_queries, max_answers, delta) if claim is None else None,
        settings={"delta": delta, "max_answers": max_answers, "n_queries": n_queries, "max_moved": max_moved},
        sensitive=not published or whole.sensitive,
    )


def pair_figures(found: PairEpsilon, claimed: float, share: float | None) -> list[Figure]:
    """Return the results of a pair as figures."""
    sides = {"": found.epsilon, ", forward": found.forward, ", reverse": found.reverse}
    # An infinite bound is not shown.
    rows = [
        Figure(name=f"epsilon of the pair{side}", value=low, low=low, high=high if math.isfinite(high) else None)
        for side, (low, high) in sides.items()
    ]
    if math.isfinite(claimed):
        rows.append(Figure(name="claimed epsilon", value=claimed))
        if claimed > 0:
            rows.append(Figure(name="share of the claimed epsilon", value=found.epsilon[0] / claimed))
    if share is not None:
        rows.append(Figure(name="largest share of the claimed Renyi curve", value=share))
    return rows


def laws_of(first: Votes, second: Votes, mechanism: Any, max_answers: int | None) -> tuple[PairOfLaws, Charge]:
    """Return the laws of a mechanism over two lists of votes, and what it charges for such a list."""
    cap = None if max_answers is None else check_int("max_answers", max_answers, low=0)
    if isinstance(mechanism, ExactLaw) and isinstance(mechanism, Mechanism):
        law = mechanism.exact_parameters()
        laws: PairOfLaws = given_pair(first.counts, second.counts, cap=cap, **law)
    elif isinstance(mechanism, NoisyHistogram):
        squares = ((first.counts - second.counts)[:cap].astype(np.float64) ** 2).sum(axis=1)
        laws = GaussianPair(squares / mechanism.sigma**2)
    else:
        raise InvalidInputError(
            "mechanism must be a GNMax, LNMax, ConfidentGNMax or NoisyHistogram for votes (a GaussianSum for a "
            f"BallotSum), got {shown(mechanism)}. Of others no exact law is known here: try pate.audit.game."
        )
    return laws, mechanism.charge(first.n_queries, cap)


def n_moved(first: Votes, second: Votes) -> int:
    """Return how many teachers' votes differ; at least how many, where there are no labels."""
    if first.labels is not None and second.labels is not None:
        return int((first.labels != second.labels).any(axis=1).sum())
    change = second.counts.astype(np.int64) - first.counts
    return int(max(np.maximum(change, 0).sum(axis=1).max(initial=0), np.maximum(-change, 0).sum(axis=1).max(initial=0)))


def _same_queries(votes: Any, votes_prime: Any) -> tuple[Votes, Votes]:
    first, second = as_votes(votes), as_votes(votes_prime)
    for name in ("n_queries", "n_classes", "n_teachers", "classes", "query_hashes"):
        one, other = getattr(first, name), getattr(second, name)
        if one != other and not (name == "query_hashes" and None in (one, other)):
            said = f" ({one} and {other})" if isinstance(one, int) else ""
            raise InvalidInputError(
                f"votes and votes_prime must have the same {name}{said}. Ask both ensembles about the same public rows."
            )
    return first, second


def _of_ballots(
    votes: Any, votes_prime: Any, mechanism: Any, max_answers: int | None
) -> tuple[GaussianPair, Charge, int]:
    if type(votes) is not type(votes_prime):
        raise InvalidInputError(
            f"votes and votes_prime must both be a BallotSum, or both a VectorSum, got {shown(votes)} and "
            f"{shown(votes_prime)}. Cast both."
        )
    if not isinstance(mechanism, GaussianSum):
        raise InvalidInputError(f"mechanism must be a GaussianSum for a BallotSum, got {shown(mechanism)}.")
    if max_answers is not None:
        raise InvalidInputError("max_answers is for labels: a sum of ballots is released whole. Leave it out.")
    if votes.facts != votes_prime.facts:
        raise InvalidInputError(
            "votes and votes_prime must be sums of the same voters, adjacency and number of units. Cast both parts by "
            "the same voters."
        )
    # Whole numbers of up to 2^62: their squares need Python's.
    square = sum(int(d) ** 2 for d in (votes.sums - votes_prime.sums).ravel())
    if square > votes.delta_squared:
        raise InvalidInputError(
            "the sums differ by more than one unit can move them: these are no neighbours. Replace the records of one "
            "unit only."
        )
    mu_squared = square / mechanism.scale(votes.delta_squared) ** 2
    return GaussianPair(np.array([mu_squared])), mechanism.charge(1), int(square > 0)


def _renyi_share(laws: PairOfLaws, claim: Any, n_queries: int, few: tuple[float, ...] | None) -> float | None:
    """Return the pair's largest Renyi divergence over a charge's, over all orders; None where it claims no curve."""
    if not isinstance(claim, Charge) or claim.delta0:
        return None
    orders = np.array(claim.orders if few is None else few)
    claimed = claim.rdp_at(orders)
    known = np.isfinite(claimed)
    if not known.any():
        return None
    rdp = np.maximum(laws.rdp(orders[known]).max(axis=0) - _RDP_ERROR * n_queries, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(rdp > 0, rdp / claimed[known], 0.0)
    return float(np.nan_to_num(share.max(), posinf=1e9))


def _beyond(laws: PairOfLaws, whole: Claim, delta: float, low: float, claimed: float, share: float | None) -> str:
    """Return how the pair, of epsilon ``low`` at ``delta``, exceeds the claim; empty where it does not."""
    looked_at = ((at, laws.epsilon(at).epsilon[0], whole.epsilon(at)) for at in _DELTAS)
    for at, reached_there, most in chain([(delta, low, claimed)], looked_at):
        if reached_there > most * (1 + _MARGIN):
            return f"epsilon is at least {reached_there:.6g} at delta {at:g}, where {most:.6g} is claimed"
    if share is not None and share > 1 + 1e-8:
        return f"the Renyi divergence is {share:.6g} times what is claimed, at some order"
    return ""


def _picture(laws: PairOfLaws, mechanism: Any, n_queries: int, max_answers: int | None, delta: float) -> Picture | None:
    places = some_places(n_queries, max_answers)
    public = [mechanism.charge(n, max_answers).guarantee(delta).epsilon for n in places]
    return bounds_picture(places, {"this pair": reached(laws, places, delta)}, public) if places else None


def some_places(n_queries: int, max_answers: int | None) -> list[int]:
    """Return numbers of queries to draw a picture at.

    Empty for a run that may stop: it would be computed again for every place, slowly.
    """
    if not n_queries or (max_answers is not None and max_answers < n_queries):
        return []
    return even_places(n_queries)


def even_places(n_queries: int) -> list[int]:
    """Return numbers of queries by even steps of the root."""
    return np.unique((np.linspace(1, n_queries**0.5, _POINTS) ** 2).round().astype(int)).tolist()


def reached(laws: PairOfLaws, places: list[int], delta: float) -> list[float]:
    """Return the pair's epsilon, from below, of the first so many queries."""
    return [laws.first(n).epsilon(delta).epsilon[0] for n in places]


def bounds_picture(places: list[int], measured: dict[str, list[float]], public: list[float]) -> Picture:
    """Return bounds on epsilon by the number of queries, side by side; what is 0 has no place on log axes."""
    curves = []
    for label, values in (*measured.items(), ("public", public)):
        shown_points = [(float(n), e) for n, e in zip(places, values, strict=True) if e > 0 and math.isfinite(e)]
        role = "claim" if values is public else "measured"
        if shown_points or role == "claim":
            curves.append(
                Curve(label=label, x=tuple(n for n, _ in shown_points), y=tuple(e for _, e in shown_points), role=role)
            )
    return Picture(x_label="queries", y_label="epsilon", scale="log", curves=tuple(curves))


# The worst neighbour of given votes: one vote of every query moved to the greatest effect, by the exact law.


def worst_neighbour(votes: Votes, mechanism: Mechanism, *, order: float = 8.0, reverse: bool = False) -> IntArray:
    """Return counts that differ by one teacher's votes, as far from these as possible by the exact law.

    Parameters
    ----------
    votes : Votes
        **Sensitive**. With teachers' labels one teacher is replaced, the one whose votes cost most; with counts alone
        one vote of every query.
    mechanism : GNMax, LNMax or ConfidentGNMax
    order : float
        The Renyi order by which "far" is meant, above 1.
    reverse : bool
        How far the neighbour is from these votes, not these from the neighbour. One direction for all queries: what is
        far forwards in one and backwards in another adds up to less.

    Returns
    -------
    int64 array of shape (n_queries, n_classes)
        **Sensitive**.

    Raises
    ------
    InvalidInputError
        A mechanism without an exact law, teachers who abstain, or fewer than two classes.
    """
    if not isinstance(mechanism, ExactLaw):
        raise InvalidInputError(f"worst_neighbour needs a mechanism with an exact law, got {mechanism!r}.")
    order = check_real("order", order, low=1, low_open=True)
    counts = np.asarray(votes.counts, dtype=np.int64)
    if (counts.sum(axis=1) != votes.n_teachers).any():
        raise InvalidInputError(
            "votes must have a vote of every teacher in every query. Leave out the teachers that abstain."
        )
    law = mechanism.exact_parameters()
    test = law["threshold"]
    margins = None if test is None else test.margins(counts)
    found = distinct_histograms(counts, margins)
    groups, ranks = found.groups(), group_ranks(counts, margins)
    # Of each distinct histogram and group that loses a vote: the group that gains it, and how far that is.
    gains = np.zeros(len(groups.values), dtype=np.int64)
    far = np.full(len(groups.values), -np.inf)
    for index, values, pair in all_laws(groups, law["noise"]):
        moved = _distance(groups, index, pair, test, order if reverse else 1 - order)
        places = groups.offsets[index][:, None] + np.arange(values.shape[1])
        gains[places], far[places] = moved.argmax(axis=2), moved.max(axis=2)
    losers = _losers(votes, mechanism, order, reverse)
    out = counts.copy()
    for q, row in enumerate(found.inverse):
        span = slice(groups.offsets[row], groups.offsets[row + 1])
        if losers is None:
            lose = int(far[span].argmax())
            loser = int(np.flatnonzero(ranks[q] == lose)[0])
        else:
            loser = int(losers[q])
            lose = int(ranks[q, loser])
        (others,) = np.nonzero((ranks[q] == gains[span][lose]) & (np.arange(counts.shape[1]) != loser))
        out[q, loser] -= 1
        out[q, others[0]] += 1
    return out


def _losers(votes: Votes, mechanism: ExactLaw, order: float, reverse: bool) -> npt.NDArray[np.integer] | None:
    """Return the class that the most costly teacher voted for in every query; None where labels are unknown."""
    if votes.labels is None:
        return None
    cost = per_teacher_rdp(votes.labels, [order], counts=votes.counts, **mechanism.exact_parameters())
    return np.asarray(votes.labels)[int(cost[:, 0, int(reverse)].argmax())]


def _distance(
    groups: Groups, index: IntArray, pair: PairLaw, threshold: ThresholdTest | None, power: float
) -> FloatArray:
    """Return log E[(P'/P)^power] under P, (B, G, G) by losing and gaining group; -inf where nothing can move."""
    with np.errstate(under="ignore", over="ignore", divide="ignore"):
        logs = np.where(pair.weight > 0, power * pair.log_ratio, -np.inf)
        peak = np.maximum(logs.max(axis=1), 0.0)
        found = np.log((pair.weight * np.exp(logs - peak[:, None])).sum(axis=1)) + peak
        if threshold is not None:
            top, change = groups.tested(index, pair.classes, pair.change)
            found = _joined(found, top[:, None, None], change, threshold, power)
    return np.where(pair.valid, found, -np.inf)


def _joined(
    inner: FloatArray, top: npt.NDArray[Any], change: npt.NDArray[Any], threshold: ThresholdTest, power: float
) -> FloatArray:
    answer, refuse = threshold.log_answer(top), threshold.log_refuse(top)
    more, less = threshold.log_answer_ratio(top, change), threshold.log_refuse_ratio(top, change)
    return np.logaddexp(answer + power * more + inner, refuse + power * less)
