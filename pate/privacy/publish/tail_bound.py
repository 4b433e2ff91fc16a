"""An upper bound on the cost of noisy-max answers that moves slowly with the votes.

For any event A of the noisy counts N(n, sigma^2 I) let v_A(n) = Phi^-1(Pr_n[A]) be its *score*.

Lemma 1 (Lipschitz). |v_A(n') - v_A(n)| <= |n' - n| / sigma. By the Neyman-Pearson lemma no test of N(n, sigma^2 I)
against N(n', sigma^2 I) does better than the half-space orthogonal to n' - n, and for that one Phi^-1 of its
probability moves by exactly |n' - n| / sigma; the same for the complement of A. One replaced vote: mu =
sqrt(2)/sigma; d teachers: d mu.

Lemma 2 (bystanders). For the event "class j wins" and a vote moved from u to b, neither of them j, the score moves by
at most mu/2. The gradient g of v_j has |g| <= 1 (Lemma 1), entries that sum to 0 (adding a constant to all counts
changes nothing), g_j >= 0 and the others <= 0. Hence |g_i| <= g_j and g_i^2 + g_j^2 <= 1, so |g_i| <= 1/sqrt(2), and
|g_b - g_u| <= max(|g_b|, |g_u|) <= 1/sqrt(2) at every point between n and n'.

Lemma 3 (terms). exp((a-1) D_a(P || P')) - 1 = sum_j T(P_j, P'_j), each term at most psi_s(v_j) when the score of j
moves by at most s, in both directions (:mod:`pate.privacy.publish.tail_bound`).

Bound. Over the two classes {u, b} that a vote can touch, max of psi_mu(v_u) + psi_mu(v_b) + sum of psi_{mu/2} of the
others. It is symmetric in the classes, so only the sorted scores matter, and order statistics are as Lipschitz as the
scores. For data sets d teachers away each psi is replaced by the lesser of its largest value on (-inf, v + d mu] and
on [v - d mu, inf) (first form), or the losers' probabilities are at most c_k = Phi(v_k + d mu) each and Phi(r + d mu)
together, r the score of "not the most likely class" (second form). With H a concave, nondecreasing majorant of psi as
a function of p, the largest sum of H under these is water-filling; the touched loser is the one with the largest cap,
by exchange, once the surplus H_mu - H_{mu/2} is replaced by its running maximum. Every step only grows with d and
with the scores, so n' at d - 1 is never above n at d, for every real d, negative ones too.

Confident-GNMax answers with probability s = Phi(t), t = (max n - T)/sigma_1, which moves by 1/sigma_1:
exp((a-1) D) - 1 <= s^a s'^(1-a) K_label + K_test, each factor bounded by its largest value in reach.

Continuous Gaussian noise only: discrete Gaussian noise has no Lemma 1 with the same constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri_exp

from pate._core.checks import check_real, largest_of, least_of
from pate._core.types import FloatArray
from pate.exceptions import InvalidInputError

# Tables of what one outcome can contribute to the cost of a noisy maximum, by its probability alone.

#: Standard deviations that the tables reach beyond where the terms matter; Phi(-37.5) is about 1e-307.
_REACH = 37.5
_CELLS_PER_UNIT = 4096
_MOST_CELLS = 1 << 21
#: Covers the rounding of a score (log-probabilities are good to 1e-9) and of the tables.
SCORE_SLACK = 1e-8
LOG_SLACK = 1e-9
#: Cells of a table that share a corner of the concave majorant, and where that starts.
_HULL_CELLS = 8
_HULL_REACH = 30.0


def log_term(order: float, log_size: FloatArray, *, rising: bool) -> FloatArray:
    """Return log g(l) of l = exp(log_size) or of its negative, g(l) = e^{al} - 1 - a (e^l - 1); never too low.

    For small l, a^k - a <= a(a-1)(1+a)^{k-2} in the series gives g <= a(a-1)/2 l^2 exp((1+a)|l|).
    """
    a, size = order, np.exp(log_size)
    with np.errstate(all="ignore"):
        small = math.log(a * (a - 1) / 2) + 2 * log_size + (1 + a) * size
        if rising:
            middle = np.log(np.expm1(np.minimum(a * size, 40.0)) - a * np.expm1(np.minimum(size, 40.0)))
            large = a * size + np.log1p((a - 1) * np.exp(-a * size) - a * np.exp(-(a - 1) * size))
            found = np.where(a * size > 30, large, middle)
        else:
            found = np.log(np.expm1(-a * size) - a * np.expm1(-size))
    return np.asarray(np.where((1 + a) * size < 1e-4, small, found))


def _log_log_ratio(w: FloatArray, shift: float) -> FloatArray:
    """Log of l = log(Phi(w + shift) / Phi(w)), without cancellation on the right."""
    with np.errstate(all="ignore"):
        left = np.log(log_ndtr(w + shift) - log_ndtr(w))
        gain = log_ndtr(-w) + np.log(-np.expm1(log_ndtr(-w - shift) - log_ndtr(-w))) - log_ndtr(w)
        # log(log1p(x)) is x's logarithm, and never more, once x is below rounding.
        right = np.where(gain > -30, np.log(np.log1p(np.exp(np.maximum(gain, -31.0)))), gain)
    return np.where(w > 0, right, left)


@dataclass(frozen=True, repr=False)
class TermTable:
    """Running maxima of psi_shift from either side, in logarithms; a constant of (shift, order), not of any votes.

    Attributes
    ----------
    start, step : float
        Left end and width of the cells, in standard deviations.
    below : (n_cells + 2,) log of the largest psi left of the right end of a cell (first: left of the table)
    above : (n_cells + 2,) log of the largest psi right of the left end of a cell (last: right of the table)
    """

    start: float
    step: float
    below: FloatArray
    above: FloatArray

    @classmethod
    def of(cls, start: float, step: float, left: float, cells: FloatArray, right: float) -> TermTable:
        """Return the running maxima of bounds left of the cells, in each of them and right of them."""
        whole = np.concatenate([[left], cells, [right]]) + LOG_SLACK
        table = cls(start, step, np.maximum.accumulate(whole), np.maximum.accumulate(whole[::-1])[::-1])
        table.below.setflags(write=False)
        table.above.setflags(write=False)
        return table

    def _cell(self, v: FloatArray) -> npt.NDArray[np.int64]:
        cell = np.floor((v - self.start) / self.step) + 1
        return np.clip(cell, 0, len(self.below) - 1).astype(np.int64)

    def up_to(self, v: FloatArray) -> FloatArray:
        """Return log sup psi over (-inf, v]."""
        return np.asarray(self.below[self._cell(v + SCORE_SLACK)])

    def from_(self, v: FloatArray) -> FloatArray:
        """Return log sup psi over [v, inf)."""
        return np.asarray(self.above[self._cell(v - SCORE_SLACK)])


def _cells(shift: float, order: float) -> tuple[float, float, FloatArray]:
    start = -(_REACH + order * shift)
    n_cells = min(_MOST_CELLS, math.ceil((_REACH - start) * _CELLS_PER_UNIT))
    step = (_REACH - start) / n_cells
    edges: FloatArray = start + step * np.arange(n_cells + 1, dtype=np.float64)
    return start, step, edges


@lru_cache(maxsize=16)
def term_table(shift: float, order: float) -> TermTable:
    """Tabulate upper bounds of psi_shift at ``order``."""
    start, step, edges = _cells(shift, order)
    left, right = edges[:-1], edges[1:]
    cells = np.full(len(left), -np.inf)
    for offset in (0.0, -shift):
        size = _log_log_ratio(left + offset, shift)
        cells = np.maximum(cells, log_ndtr(right + offset) + log_term(order, size, rising=True))
        cells = np.maximum(cells, log_ndtr(right + offset + shift) + log_term(order, size, rising=False))
    low, high = float(log_ndtr(start)), float(log_ndtr(start + shift))
    far_left = largest_of(order * high - (order - 1) * low, math.log(order - 1) + high)
    size = _log_log_ratio(np.array([edges[-1] - shift]), shift)
    far_right = largest_of(*(float(log_term(order, size, rising=rising)[0]) for rising in (True, False)))
    return TermTable.of(start, step, far_left, cells, far_right)


@dataclass(frozen=True, repr=False)
class ConcaveTable:
    """A concave, nondecreasing, piecewise linear function of a probability, times exp(log_scale).

    Attributes
    ----------
    p, y : (n_points,)
    log_scale : float
    """

    p: FloatArray
    y: FloatArray
    log_scale: float

    def __call__(self, p: FloatArray) -> FloatArray:
        """Return the values at ``p``, without exp(log_scale)."""
        return np.asarray(np.interp(p, self.p, self.y))


@lru_cache(maxsize=16)
def concave_table(shift: float, order: float) -> ConcaveTable:
    """Return a concave, nondecreasing majorant of psi_shift as a function of the probability."""
    table = term_table(shift, order)
    # The step function's upper left corners, every few cells: left edge, value at the last cell.
    first = max(1, int(np.searchsorted(table.start + table.step * np.arange(len(table.below)), -_HULL_REACH)))
    lefts = np.arange(first, len(table.below) - 1, _HULL_CELLS)
    lasts = np.minimum(lefts + _HULL_CELLS - 1, len(table.below) - 1)
    p = np.concatenate([[0.0], ndtr(table.start + table.step * (lefts - 1)), [1.0]])
    log_y = np.concatenate([[table.below[first]], table.below[lasts], [table.below[-1]]])
    # Phi saturates at 1: of equal probabilities keep the last, with the largest value.
    keep = np.append(np.diff(p) > 0, True)
    p, log_y = p[keep], log_y[keep]
    log_scale = float(log_y[-1])
    # What underflows is raised to the floor: a bound may be too high.
    y = np.maximum(np.exp(np.maximum(log_y - log_scale, -700.0)), 1e-300)
    hull: list[int] = []
    for k in range(len(p)):
        while len(hull) >= 2:
            i, j = hull[-2], hull[-1]
            # Slopes, not cross products: those underflow.
            if (y[j] - y[i]) / (p[j] - p[i]) > (y[k] - y[j]) / (p[k] - p[j]):
                break
            hull.pop()
        hull.append(k)
    rounding = largest_of(1.0, float((y / np.interp(p, p[hull], y[hull])).max()))
    return ConcaveTable(p[hull], y[hull] * rounding * (1 + LOG_SLACK), log_scale)


@lru_cache(maxsize=8)
def loser_tables(touched: float, aside: float, order: float) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Tabulate H_aside and H_aside + running maximum of (H_touched - H_aside) on one grid of probabilities.

    Returns
    -------
    p, aside, touched : arrays of shape (n_points,)
        To be interpolated linearly (between two points both are linear, so their difference is largest at one of them).
    log_scale : float
        Added to the log of the values.
    """
    far, near = concave_table(touched, order), concave_table(aside, order)
    p = np.union1d(far.p, near.p)
    low = near(p) * math.exp(least_of(0.0, near.log_scale - far.log_scale))
    low = np.maximum(low, 1e-300)
    surplus = np.maximum.accumulate(np.maximum(far(p) - low, 0.0))
    return p, low, low + surplus, far.log_scale


@lru_cache(maxsize=8)
def answer_weights(shift: float, order: float) -> TermTable:
    """Tabulate the running maximum of log(s^a s'^(1-a)), s = Phi(t), s' = Phi(t') with |t' - t| <= shift."""
    start, step, edges = _cells(shift, order)
    log_weight = order * log_ndtr(edges[1:]) - (order - 1) * log_ndtr(edges[:-1] - shift)
    # Left of the table it grows (as the terms do); right of it, s <= 1.
    far_left = order * log_ndtr(start) - (order - 1) * log_ndtr(start - shift)
    far_right = -(order - 1) * log_ndtr(edges[-1] - shift)
    return TermTable.of(start, step, far_left, log_weight, far_right)


#: Ways to split the losers' mass; queries at once.
_SPLITS = 16
_CHUNK = 1 << 14


@dataclass(frozen=True, repr=False)
class QueryScores:
    """Scores Phi^-1 of the outcomes of queries: private numbers, not shown.

    Attributes
    ----------
    answers : (n_queries, n_classes)
        Of the classes, in decreasing order.
    rest : (n_queries,)
        Of "not the most likely class".
    test : (n_queries,) or None
        Of "answered", (max n - T) / sigma_1, where there is a threshold.
    """

    answers: FloatArray
    rest: FloatArray
    test: FloatArray | None = None

    def __repr__(self) -> str:
        return f"QueryScores({len(self.rest)} queries)"


def outcome_scores(log_probs: npt.ArrayLike, test: npt.ArrayLike | None = None) -> QueryScores:
    """Return the scores of exact laws.

    Parameters
    ----------
    log_probs : array-like of shape (n_queries, n_classes)
        Natural logs of the law of the noisy maximum; each row is a whole law.
    test : array-like of shape (n_queries,) or None
        Score of passing the threshold test.
    """
    log_p = np.atleast_2d(np.asarray(log_probs, dtype=np.float64))
    if log_p.ndim != 2 or log_p.shape[1] < 2 or np.isnan(log_p).any():
        raise InvalidInputError(f"log_probs must have shape (n_queries, n_classes >= 2), got {log_p.shape}.")
    log_p = np.minimum(-np.sort(-log_p, axis=1), 0.0)
    answers = np.asarray(ndtri_exp(log_p))
    rest = np.asarray(ndtri_exp(np.minimum(logsumexp(log_p[:, 1:], axis=1), 0.0)))
    answers[:, 0] = np.where(rest < 0, -rest, answers[:, 0])
    return QueryScores(answers, rest, None if test is None else np.asarray(test, dtype=np.float64))


@dataclass(frozen=True)
class TailBound:
    """A bound on the cost of noisy-max queries, for all data sets within so many teachers, in O(1) a query.

    Parameters
    ----------
    sigma : float
        Standard deviation of the continuous Gaussian noise on every count, in votes.
    order : float
        Renyi order, above 1.
    sigma_threshold : float or None
        Standard deviation of the noise of Confident-GNMax's test, in votes; None for GNMax.
    public : float or None
        Public cost of one query at this order, a constant; None takes the Gaussian one.

    Guarantees
    ----------
    Adjacency replace-one (one vote a query is replaced). ``cost(outcome_scores(law), d)`` with d >= 0 bounds both
    directions of the Renyi divergence between any data set within d teachers of this one and any neighbour of it.
    ``cost(scores, d)`` grows with d, and that of a neighbour at d - 1 is at most that of this one at d, for all
    real d. Proof: module docstring. The values depend on the votes: they are private numbers.
    """

    sigma: float
    order: float
    sigma_threshold: float | None = None
    public: float | None = None

    def __post_init__(self) -> None:
        check_real("sigma", self.sigma, low=0, low_open=True)
        check_real("order", self.order, low=1, low_open=True)
        if self.sigma_threshold is not None:
            check_real("sigma_threshold", self.sigma_threshold, low=0, low_open=True)
        if self.public is not None:
            check_real("public", self.public, low=0)

    @property
    def cap(self) -> float:
        """The public cost of one query at ``order``."""
        if self.public is not None:
            return self.public
        test = 0.0 if self.sigma_threshold is None else self.sigma_threshold**-2
        return self.order * (self.shift**2 + test) / 2

    @property
    def shift(self) -> float:
        """mu: how far one teacher can move the score of a class, in standard deviations."""
        return math.sqrt(2) / self.sigma

    def cost(self, scores: QueryScores, distance: npt.ArrayLike = 0.0) -> FloatArray:
        """Bound the Renyi cost of every query at this order, both directions.

        Parameters
        ----------
        scores : QueryScores
        distance : float or array-like of shape (n_distances,)
            Number of changed teachers; real, negative allowed.

        Returns
        -------
        array of shape (n_queries,) or (n_distances, n_queries)
        """
        distances = np.atleast_1d(np.asarray(distance, dtype=np.float64))
        out = np.empty((len(distances), len(scores.rest)))
        for k, d in enumerate(distances):
            for start in range(0, len(scores.rest), _CHUNK):
                part = slice(start, start + _CHUNK)
                out[k, part] = self._cost(
                    scores.answers[part],
                    scores.rest[part],
                    None if scores.test is None else scores.test[part],
                    float(d),
                )
        return np.asarray(out[0] if np.ndim(distance) == 0 else out)

    def _cost(self, v: FloatArray, rest: FloatArray, test: FloatArray | None, d: float) -> FloatArray:
        move = d * self.shift
        touched, aside = (_in_reach(term_table(shift, self.order), v, move) for shift in (self.shift, self.shift / 2))
        touched = np.maximum(touched, aside)
        log_k = np.minimum(_first_form(touched, aside), self._second_form(touched, aside, v, rest, move))
        if (test is None) != (self.sigma_threshold is None):
            raise InvalidInputError("scores and bound disagree about the threshold test.")
        if test is not None and self.sigma_threshold is not None:
            one = 1 / self.sigma_threshold
            table = term_table(one, self.order)
            log_test = np.logaddexp(_in_reach(table, test, d * one), _in_reach(table, -test, d * one))
            # The first of the pair may be the neighbour, one teacher further.
            weight = answer_weights(one, self.order).up_to(test + (d + 1) * one)
            log_k = np.logaddexp(weight + log_k, log_test)
        rdp = np.logaddexp(0.0, log_k) / (self.order - 1)
        return np.asarray(np.minimum(rdp * (1 + LOG_SLACK), self.cap))

    def _second_form(
        self, touched: FloatArray, aside: FloatArray, v: FloatArray, rest: FloatArray, move: float
    ) -> FloatArray:
        p, low, high, log_scale = loser_tables(self.shift, self.shift / 2, self.order)
        caps = ndtr(v[:, 1:] + move + SCORE_SLACK)
        mass = ndtr(rest + move + SCORE_SLACK)
        best = np.zeros(len(v))
        for k in range(_SPLITS):
            # The touched loser has at most this much, the others share what is left.
            first = np.interp(np.minimum(mass * ((k + 1) / _SPLITS), caps[:, 0]), p, high)
            best = np.maximum(best, first + _water_fill(caps[:, 1:], mass * (1 - k / _SPLITS), p, low))
        # The second touched class: the leader, or a loser with at most half of the mass.
        surplus = np.zeros(len(v))
        if v.shape[1] > 2:
            half = np.minimum(mass / 2, caps[:, 1])
            surplus = np.interp(half, p, high) - np.interp(half, p, low)
        with np.errstate(under="ignore"):
            leader = np.logaddexp(aside[:, 0], np.log(np.maximum(surplus, 1e-300)) + log_scale)
        return np.asarray(np.logaddexp(np.log(best) + log_scale, np.maximum(touched[:, 0], leader)))


def _in_reach(table: TermTable, scores: FloatArray, move: float) -> FloatArray:
    return np.minimum(table.up_to(scores + move), table.from_(scores - move))


def _first_form(touched: FloatArray, aside: FloatArray) -> FloatArray:
    """Log of max over pairs of classes, relative to the largest term: orders times log-ratios pass 700."""
    scale = touched.max(axis=1, keepdims=True)
    with np.errstate(under="ignore"):
        extra = np.exp(touched - scale) - np.exp(aside - scale)
        two = np.partition(extra, -2, axis=1)[:, -2:].sum(axis=1)
        return np.asarray(scale[:, 0] + np.log(np.exp(aside - scale).sum(axis=1) + two))


def _water_fill(caps: FloatArray, mass: FloatArray, p: FloatArray, values: FloatArray) -> FloatArray:
    """Largest sum of a concave, nondecreasing table over parts below decreasing ``caps`` that add up to ``mass``."""
    n = caps.shape[1]
    if not n:
        return np.zeros(len(caps))
    smallest = np.concatenate([np.zeros((len(caps), 1)), np.cumsum(caps[:, :0:-1], axis=1)], axis=1)
    level = ((mass[:, None] - smallest) / np.arange(n, 0, -1)).max(axis=1)
    return np.asarray(np.interp(np.minimum(caps, level[:, None]), p, values).sum(axis=1))
