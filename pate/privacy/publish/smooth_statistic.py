"""A bound on the cost of noisy-max answers whose smooth sensitivity is easy: what is sanitised.

Statistic for GNMax: R = sum of Q(u_i), u = Phi^-1(Pr[not the most likely class]) of the exact law. u moves by at most
mu = sqrt(2)/sigma per teacher (:mod:`pate.privacy.publish.tail_bound`, Lemma 1) and Q is nondecreasing, so

    A_d = sum_i sup over e in [-d - 1, d] of Q(u_i + (e + 1) mu) - Q(u_i + e mu)

(e starts at -d - 1: from a data set d away, u may fall by one more step). Q is piecewise linear with knots mu/K
apart, so the supremum is taken at knots. Everything is a bound in both directions.

Confident-GNMax answers with probability s(n), n the largest count, an integer that moves by at most 1. With K_label
the label's exp((a-1) D) - 1, W(n) >= s^a s'^(1-a) nondecreasing and H(n) the cost of the bit alone, the joint cost is
at most log1p(s^a s'^(1-a) K_label)/(a-1) + H <= w(n) Q(u) + H(n), w = W kappa / log1p(kappa), where kappa =
exp((a-1) cap) - 1 >= K_label and log1p(W K) <= W K <= W log1p(K) kappa / log1p(kappa). Within reach, w Q + H changes by
at most sup w sup dQ + sup dw sup Q + sup |dH|, each a supremum over windows that a neighbour's lie in one step later.
Where W is beyond floats w is infinite, and so are its changes and every product with it, one with 0 included: all of
them still grow with the windows, and what is infinite is cut to the public cost of a query, which no bound exceeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from pate.core.checks import check_int, largest_of
from pate.core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.privacy.public_curve import rho_star, threshold_rho_star
from pate.privacy.publish.gate import query_scores
from pate.privacy.publish.tail_bound import TailBound
from pate.privacy.publish.term_tables import answer_weights, loser_tables, term_table

_LOWEST, _HIGHEST = -38.0, 8.0
_SPLITS = 64
#: What rounding may change in a statistic and its sensitivity (relative), and in beta (eight times, absolute).
ROUNDING = 1e-9
#: The lattice of scores takes mu so much longer, so that rounding moves nobody further than one teacher.
_STRETCH = 1 + 1e-7


@lru_cache(maxsize=64)
def query_cap(order: float, sigma: float, sigma_threshold: float | None = None) -> float:
    """Return the public cost of one query of GNMax, or of Confident-GNMax, at ``order``.

    Examples
    --------
    >>> query_cap(8.0, 40.0) < query_cap(8.0, 40.0, 150.0) < 8 / 40**2
    True
    """
    test = 0.0 if sigma_threshold is None else float(threshold_rho_star([order], sigma_threshold)[0])
    return float(rho_star([order], sigma)[0]) + test


@dataclass(frozen=True, repr=False)
class ConsensusCost:
    """Q(u): a bound on one query's cost, a nondecreasing, piecewise linear function of u. No votes are in it.

    Attributes
    ----------
    start, step : float
        First knot and distance of knots, in standard deviations.
    knots_per_teacher : int
        mu / step, a billionth less.
    values : (n_knots,)
        Constant beyond either end.
    change : (n_knots + knots_per_teacher,)
        Of Q between a knot, from one mu before ``start`` on, and the knot one mu to the right.
    reach : (n_knots + knots_per_teacher,)
        The largest of ``change`` over one mu from each knot on.
    """

    start: float
    step: float
    knots_per_teacher: int
    values: FloatArray
    change: FloatArray
    reach: FloatArray

    def _knot(self, u: FloatArray) -> IntArray:
        return np.floor((u - self.start) / self.step).astype(np.int64)

    def cost(self, u: FloatArray) -> FloatArray:
        """Return Q(u), the shape of ``u``."""
        return np.asarray(np.interp((u - self.start) / self.step, np.arange(len(self.values)), self.values))

    @property
    def n_windows(self) -> int:
        """From so many teachers on, windows hold all the knots."""
        return len(self.values) // self.knots_per_teacher + 3

    def windows(self, u: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield, for d = 0, 1, ..., the largest change of Q by one teacher and the largest Q, within d. Private."""
        k, change, reach = self.knots_per_teacher, self.change, self.reach

        def at(table: FloatArray, knot: IntArray) -> FloatArray:
            return table[np.clip(knot + k, 0, len(table) - 1)]

        left = self._knot(u)
        worst = np.maximum(at(reach, left - k), at(change, left + 1))
        d = 0
        while True:
            yield worst, self.values[np.clip(left + 1 + (d + 1) * k, 0, len(self.values) - 1)]
            d += 1
            worst = np.maximum(worst, np.maximum(at(reach, left - (d + 1) * k), at(reach, left + 1 + (d - 1) * k)))


@lru_cache(maxsize=8)
def consensus_cost(sigma: float, order: float, n_classes: int) -> ConsensusCost:
    """Tabulate Q(u) for GNMax with continuous noise.

    With Pr[not the leader] = q: the leader's term, and the largest sum of the losers' terms with total probability q,
    of which one vote touches two classes (as :class:`~.tail_bound.TailBound`, without each loser's own
    score).

    Examples
    --------
    >>> q = consensus_cost(40.0, 8.0, 10)
    >>> q.cost(np.array([-6.0, -3.0, 0.0])).round(6)
    array([0.      , 0.00015..., 0.00320...])
    """
    m = check_int("n_classes", n_classes, low=2)
    bound = TailBound(sigma=sigma, order=order, public=query_cap(order, sigma))
    mu = bound.shift * _STRETCH
    if (order - 1) * bound.cap > 300:
        raise InvalidInputError(f"order must be small enough for (order - 1) cost < 300, got {order:g}.")
    k = max(4, min(64, int(2e5 * mu / (_HIGHEST - _LOWEST))))
    step = mu / k
    knots: FloatArray = _LOWEST + step * np.arange(math.ceil((_HIGHEST - _LOWEST) / step) + 1, dtype=np.float64)
    right: FloatArray = knots + step * (1 + 1e-6)  # a knot carries the bound of the next one: interpolation stays above
    p, low, high, log_scale = loser_tables(mu, mu / 2, order)
    mass = ndtr(right)
    best = np.zeros(len(knots))
    for i in range(_SPLITS if m > 2 else 1):
        others = np.interp(mass * (1 - i / _SPLITS) / (m - 2), p, low) * (m - 2) if m > 2 else 0.0
        first = np.interp(mass * ((i + 1) / _SPLITS if m > 2 else 1.0), p, high)
        best = np.maximum(best, first + others)
    touched, aside = (np.exp(np.minimum(term_table(s, order).from_(-right), 600.0)) for s in (mu, mu / 2))
    surplus = np.interp(mass / 2, p, high) - np.interp(mass / 2, p, low) if m > 2 else 0.0
    scale = math.exp(log_scale)
    total = best * scale + np.maximum(touched, aside + surplus * scale)
    values = np.minimum(np.log1p(total) / (order - 1) * (1 + 1e-9), bound.cap)
    values = np.maximum.accumulate(values)
    padded = np.concatenate([np.full(k, values[0]), values, np.full(k, values[-1])])
    change = padded[k:] - padded[:-k]
    reach = np.max(np.lib.stride_tricks.sliding_window_view(np.pad(change, (0, k)), k + 1), axis=1)
    for array in (values, change, reach):
        array.setflags(write=False)
    return ConsensusCost(_LOWEST, step, k, values, change, reach)


@dataclass(frozen=True, repr=False)
class ThresholdCost:
    """w(n) and H(n) of Confident-GNMax at every possible largest count n = 0 ... n_teachers. No votes are in it."""

    weight: FloatArray
    test: FloatArray

    def windows(self, tops: IntArray) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
        """Yield, for d = 0, 1, ..., the largest w, change of w and change of H within d teachers. Private."""
        steps = np.stack([_changes_of(self.weight), np.abs(np.diff(self.test))])
        steps = np.concatenate([np.zeros((2, 1)), steps, np.zeros((2, 1))], axis=1)  # nothing beyond 0 and n_teachers
        last = len(self.weight) - 1
        worst = np.maximum(steps[:, tops], steps[:, tops + 1])
        d = 0
        while True:
            yield self.weight[np.minimum(tops + d + 1, last)], worst[0], worst[1]
            d += 1
            ends = np.clip(tops - d, 0, last + 1), np.clip(tops + 1 + d, 0, last + 1)
            worst = np.maximum(worst, np.maximum(steps[:, ends[0]], steps[:, ends[1]]))


def _changes_of(weight: FloatArray) -> FloatArray:
    """Return the increases of nondecreasing weights; of what is beyond floats nothing is known: infinite."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(weight[1:]), np.inf, np.diff(weight))


@lru_cache(maxsize=8)
def threshold_cost(
    sigma: float, threshold: float, sigma_threshold: float, order: float, n_teachers: int
) -> ThresholdCost:
    """Tabulate w(n) and H(n) of Confident-GNMax.

    Examples
    --------
    >>> cost = threshold_cost(40.0, 200.0, 150.0, 8.0, 250)
    >>> cost.weight[[0, 125, 250]].round(3), round(float(cost.test.max()), 7)
    (array([0.102, 0.332, 0.659]), 0.0001132)
    """
    one = 1 / sigma_threshold
    t: FloatArray = (np.arange(n_teachers + 1, dtype=np.float64) - threshold) * one
    kappa = math.expm1((order - 1) * query_cap(order, sigma))
    # The first of the pair may be the neighbour, one teacher further.
    with np.errstate(over="ignore"):
        weight = np.exp(answer_weights(one, order).up_to(t + one)) * (kappa / math.log1p(kappa) * (1 + ROUNDING))
    table = term_table(one, order)
    logs = np.logaddexp(*(np.minimum(table.up_to(s), table.from_(s)) for s in (t, -t)))
    test = np.minimum(np.logaddexp(0.0, logs) / (order - 1), float(threshold_rho_star([order], sigma_threshold)[0]))
    return ThresholdCost(np.maximum.accumulate(weight), test * (1 + ROUNDING))


def discounted_maximum(changes: Iterator[FloatArray], beta: float, most: float, n_windows: int) -> float:
    """Return max_d exp(-beta d) A_d, A_d the sum over queries of the change within d, at most ``most`` each. Private.

    Examples
    --------
    >>> discounted_maximum(iter([np.array([0.1]), np.array([0.9]), np.array([1.0])]), 0.5, 1.0, 3).__round__(4)
    0.5459
    """
    best = 0.0
    for d, change in zip(range(n_windows), changes, strict=False):
        best = largest_of(best, math.exp(-beta * d) * float(np.minimum(change, most).sum()))
        if math.exp(-beta * (d + 1)) * most * len(change) <= best:
            break
    return best


def _changes(labels: ConsensusCost, u: FloatArray, tests: ThresholdCost | None, tops: IntArray) -> Iterator[FloatArray]:
    """Yield, for d = 0, 1, ..., the most that one teacher changes each query's cost within d."""
    if tests is None:
        yield from (change for change, _ in labels.windows(u))
        return
    for (change, highest), (weight, more, bit) in zip(labels.windows(u), tests.windows(tops), strict=True):
        yield _times(weight, change) + _times(more, highest) + bit


def _times(weight: FloatArray, cost: FloatArray) -> FloatArray:
    """Return weight * cost, infinite where the weight is: infinity times 0 would be no number."""
    with np.errstate(over="ignore"):
        return np.where(np.isinf(weight), np.inf, np.where(np.isinf(weight), 0.0, weight) * cost)


def smooth_bound(
    counts: npt.ArrayLike,
    sigma: float,
    *,
    order: float,
    beta: float,
    threshold: float | None = None,
    sigma_threshold: float | None = None,
) -> tuple[float, float]:
    """Return the statistic R, which bounds the Renyi cost of all the answers, and its smooth sensitivity S.

    Private numbers: functions of the votes.

    Parameters
    ----------
    counts : array-like of shape (n_queries, n_classes), or anything with such ``counts``
    sigma, threshold, sigma_threshold : float
        In votes; with a threshold it is Confident-GNMax.
    order, beta : float

    Returns
    -------
    value, sensitivity : float
        Rounding is on the safe side: S covers that of R, and is smooth with a beta larger by 1e-8.

    Raises
    ------
    InvalidInputError
        As :func:`release_smooth`.

    Examples
    --------
    >>> value, sensitivity = smooth_bound([[200, 50]] * 100, 40.0, order=8.0, beta=0.02)
    >>> value < 100 * 8 / 40**2, 0 < sensitivity < value
    (True, True)
    """
    votes = np.asarray(getattr(counts, "counts", counts))
    if votes.ndim != 2 or not votes.size or (votes.sum(axis=1) != votes[0].sum()).any():
        raise InvalidInputError("counts must have rows that all sum to the number of teachers.")
    # Q is constant beyond its knots, and so may u be (which keeps it Lipschitz): the last window then holds them all.
    u = np.clip(query_scores(votes, sigma).rest, _LOWEST, _HIGHEST)
    labels = consensus_cost(float(sigma), float(order), votes.shape[1])
    cost, cap = labels.cost(u), float(labels.values[-1])
    tests, tops = None, votes.max(axis=1)
    if threshold is not None and sigma_threshold is not None:
        tests = threshold_cost(
            float(sigma), float(threshold), float(sigma_threshold), float(order), int(votes[0].sum())
        )
        cap = query_cap(order, float(sigma), float(sigma_threshold))
        cost = np.minimum(_times(tests.weight[tops], cost) + tests.test[tops], cap)
    elif threshold is not sigma_threshold:
        raise InvalidInputError("threshold and sigma_threshold belong together: pass both or neither.")
    # Beyond these every window holds everything.
    most = max(labels.n_windows, 0 if tests is None else int(votes[0].sum()) + 1)
    found = discounted_maximum(_changes(labels, u, tests, tops), beta, cap, most)
    value = float(cost.sum()) * (1 + ROUNDING)
    return value, (found + 4 * ROUNDING * value) * (1 + 4 * ROUNDING)
