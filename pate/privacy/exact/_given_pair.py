"""Epsilon of one given pair of lists of histograms, from below and from above, with no sampling.

Votes under D and under D' give two laws of the whole list of answers, products over the queries. What follows is the
hockey-stick divergence of these two laws, and no bound over neighbours. Let an adversary look at a statistic T of the
answers, a sum of one lattice point per query, and ask whether T > K. Then delta(epsilon) >= P(T > K) - e^epsilon
Q(T > K) for every K and every such T, by post-processing; with equality at the best K where T is the privacy loss
itself. So

    epsilon(delta) = max over K of log((P(T > K) - delta) / Q(T > K))

- *from below*, T the sum of the losses rounded to the lattice;
- *from above*, for a pair that reveals more: every outcome is split in two with losses on the lattice, so that both
  its probabilities are kept (connect the dots: Doroshenko et al. 2022). Of this pair T is the privacy loss.

T's laws are sums of positive terms, computed query by query: all digits are right in both tails, and one law gives both
directions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pate._core.checks import largest_of
from pate._core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.privacy.convert import DEFAULT_ORDERS, check_delta, check_orders
from pate.privacy.exact._composition import PROBABILITY_ERROR
from pate.privacy.exact._histograms import check_counts
from pate.privacy.exact._laws import NoiseLike, log_probs
from pate.privacy.exact._quadrature import log_sum, log_terms
from pate.privacy.exact.noise import ThresholdTest

__all__ = ["GivenPair", "PairEpsilon", "given_pair"]

#: Lattice points on either side of 0; and for a run that stops.
_HALF, _LEAST_HALF, _MOST_HALF_STOPPED = 1 << 14, 1 << 7, 1 << 11
#: Numbers that may be added up, roughly: seconds of one core.
_WORK = 1e9
#: Deviations of the whole loss that the lattice reaches beyond its mean.
_DEVIATIONS = 10.0
#: An outcome below this under both laws is given up, which is counted against the bound from above.
_RARE = 1e-18
#: Rounding of sums of positive terms that add up to 1.
_ROUNDING = 1e-12
#: More than all that is too small for a float: by it a bound from below stays one where a test is never wrong.
_UNDERFLOW = 1e-290


@dataclass(frozen=True)
class PairEpsilon:
    """Epsilon of one pair at ``delta``: its repr shows no value that depends on the votes.

    Attributes
    ----------
    delta : float
    forward, reverse : tuple of float
        From below and from above, of the first list against the second and the other way round.

    Examples
    --------
    >>> PairEpsilon(1e-5, (0.5, 0.51), (0.6, 0.61)).epsilon
    (0.6, 0.61)
    """

    delta: float
    forward: tuple[float, float] = field(repr=False)
    reverse: tuple[float, float] = field(repr=False)

    @property
    def epsilon(self) -> tuple[float, float]:
        """The larger direction, from below and from above."""
        return largest_of(self.forward[0], self.reverse[0]), largest_of(self.forward[1], self.reverse[1])


@dataclass(frozen=True)
class GivenPair:
    """The two laws of a list of queries; made by :func:`given_pair`. Its repr shows sizes only.

    Attributes
    ----------
    log_p, log_q : (n_queries, n_outcomes) array
        Natural logarithms, under either list; a refusal stands last.
    places : (n_queries,) array
        Which queries of the list they are: without a cap only those with a changed vote, which alone say something.
    cap : int or None
        The run ends with so many answers; None: it never ends early.

    Examples
    --------
    >>> from pate.privacy.exact import GaussianNoise
    >>> pair = given_pair([[5, 5]] * 9, [[6, 4]] * 9, noise=GaussianNoise(4.0))
    >>> pair
    GivenPair(n_queries=9, n_outcomes=2)
    >>> low, high = pair.epsilon(1e-5).epsilon
    >>> bool(low <= high <= low * 1.001)
    True
    """

    log_p: FloatArray = field(repr=False)
    log_q: FloatArray = field(repr=False)
    places: IntArray = field(repr=False)
    cap: int | None = None

    def __repr__(self) -> str:
        return f"GivenPair(n_queries={len(self.log_p)}, n_outcomes={self.log_p.shape[1]})"

    def first(self, n_queries: int) -> GivenPair:
        """Return the pair of the first so many queries of the list.

        Examples
        --------
        >>> from pate.privacy.exact import GaussianNoise
        >>> given_pair([[5, 5]] * 9, [[6, 4]] * 9, noise=GaussianNoise(4.0)).first(2)
        GivenPair(n_queries=2, n_outcomes=2)
        """
        kept = int(np.searchsorted(self.places, n_queries))
        return GivenPair(self.log_p[:kept], self.log_q[:kept], self.places[:kept], self.cap)

    def epsilon(self, delta: float) -> PairEpsilon:
        """Return epsilon at ``delta``, both directions; the laws are worked out once for all deltas.

        With a cap the value from above is that of the run without it, which tells more. From below, a run that is too
        long for a computation of seconds is looked at as far as that reaches: post-processing too.

        Raises
        ------
        InvalidInputError
            A delta outside (0, 1).
        """
        delta = check_delta(delta)
        if self._spread == 0.0:
            return PairEpsilon(delta, (0.0, 0.0), (0.0, 0.0))
        low = _from_below(*self._rounded, delta, self._slack)
        high = _from_above(*self._split, delta, self._slack)
        return PairEpsilon(delta, (low[0], largest_of(low[0], high[0])), (low[1], largest_of(low[1], high[1])))

    @cached_property
    def _laws(self) -> FloatArray:
        laws = np.stack([_probabilities(self.log_p), _probabilities(self.log_q)])
        return np.where((laws > _RARE).any(axis=0), laws, 0.0)

    @cached_property
    def _spread(self) -> float:
        return _spread(self._laws, self.log_p - self.log_q)

    @property
    def _slack(self) -> float:
        return 4 * PROBABILITY_ERROR * len(self.log_p) + _ROUNDING

    @cached_property
    def _rounded(self) -> tuple[FloatArray, FloatArray]:
        """The laws of the sum of rounded losses, under P and under Q."""
        n_queries, n_outcomes = self.log_p.shape
        half = _HALF
        if self.cap is not None:
            affordable = _WORK / (4.0 * n_queries * min(self.cap, n_queries) * n_outcomes)
            half = int(min(_MOST_HALF_STOPPED, max(_LEAST_HALF, affordable)))
            n_queries = int(max(self.cap, min(n_queries, n_queries * affordable / half)))
        loss = (self.log_p - self.log_q)[:n_queries]
        index = np.clip(np.rint(loss * (half / self._spread)), -half, half).astype(np.int64)
        p, q = _walk(index, self._laws[:, :n_queries], half, self.cap)
        return p, q

    @cached_property
    def _split(self) -> tuple[FloatArray, FloatArray]:
        """The same of the pair whose losses lie on the lattice."""
        step, loss, first = self._spread / _HALF, self.log_p - self.log_q, self._laws[0]
        at = np.clip(np.floor(loss / step), -_HALF, _HALF - 1)
        # Both probabilities are kept: P's by the two shares, Q's by P e^-loss.
        share = np.clip(np.expm1((at + 1) * step - loss) / math.expm1(step), 0.0, 1.0)
        masses = np.concatenate([first * share, first * (1 - share)], axis=1)
        p = _walk(np.concatenate([at, at + 1], axis=1).astype(np.int64), masses[None], _HALF)[0]
        with np.errstate(over="ignore", invalid="ignore"):
            return p, np.where(p > 0, p * np.exp(-step * np.arange(-_HALF, _HALF + 1)), 0.0)

    def rdp(self, orders: npt.ArrayLike = DEFAULT_ORDERS) -> FloatArray:
        """Return the Renyi divergence of the whole lists, both directions: (2, n_orders).

        exp((a - 1) D) - 1 is a sum of terms >= 0 in every query (see :mod:`~pate.privacy.exact.quadrature`); it is as
        good as the losses, to about 1e-12 a query. A run that may stop is a chain of answers so far, whose expectations
        are multiplied step by step.
        """
        alphas = check_orders(orders)
        both = (self.log_p, self.log_q), (self.log_q, self.log_p)
        if self.cap is not None:
            return np.stack([_stopped_rdp(first, second, alphas, self.cap) for first, second in both])
        if not len(self.log_p):
            return np.zeros((2, len(alphas)))
        return np.stack([self.rdp_by_query(order).sum(axis=1) for order in alphas.tolist()], axis=1)

    def rdp_by_query(self, order: float) -> FloatArray:
        """Return the Renyi divergence of every query by itself, both directions: (2, n_queries)."""
        both = (self.log_p, self.log_q), (self.log_q, self.log_p)
        return np.stack([_rdp(first, second, order) for first, second in both])


def given_pair(
    counts: npt.ArrayLike,
    counts_prime: npt.ArrayLike,
    *,
    noise: NoiseLike,
    threshold: ThresholdTest | None = None,
    cap: int | None = None,
) -> GivenPair:
    """Return the two exact laws of noisy maxima over two lists of histograms.

    Parameters
    ----------
    counts, counts_prime : (n_queries, n_classes) int array
    noise : GaussianNoise or LaplaceNoise
    threshold : ThresholdTest, optional
        A query is answered only if a noisy largest count passes.
    cap : int, optional
        The run ends when so many queries were answered; what comes after is neither asked nor tested.

    Returns
    -------
    GivenPair
        Private: a function of the votes.

    Raises
    ------
    InvalidInputError
        Counts that are not whole numbers >= 0 of at least two classes, or of two shapes.

    Examples
    --------
    >>> from pate.privacy.exact import GaussianNoise
    >>> pair = given_pair([[125, 125]], [[124, 126]], noise=GaussianNoise(40.0))
    >>> float(pair.rdp([2.0]).max().round(6))
    0.000796
    """
    first, second = check_counts(counts), check_counts(counts_prime)
    if first.shape != second.shape:
        raise InvalidInputError(
            f"counts and counts_prime must have one shape, got {first.shape} and {second.shape}. Both are of the same "
            "queries and classes."
        )
    if threshold is None and cap is not None:
        first, second, cap = first[:cap], second[:cap], None
    if cap is not None and cap >= len(first):
        cap = None
    places = np.arange(len(first))
    if cap is None:  # a query without a changed vote says nothing of the pair
        places = np.flatnonzero((first != second).any(axis=1))
    if not len(places) or cap == 0:
        nothing = np.zeros((0, first.shape[1] + (threshold is not None)))
        return GivenPair(nothing, nothing, places[:0])
    test = None if threshold is None else threshold.of_queries(places)
    of_p, of_q = (log_probs(c[places], noise=noise, threshold=test) for c in (first, second))
    return GivenPair(of_p, of_q, places, cap)


def _probabilities(logs: FloatArray) -> FloatArray:
    with np.errstate(under="ignore"):
        p = np.exp(logs)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def _spread(laws: FloatArray, loss: FloatArray) -> float:
    """Return how far the whole loss may reach from 0, all but surely, under either law."""
    if not loss.size or not np.abs(loss).max() > 0:
        return 0.0
    reach = 0.0
    for law in laws:
        mean = (law * loss).sum(axis=1)
        variance = np.maximum((law * loss**2).sum(axis=1) - mean**2, 0.0).sum()
        reach = largest_of(reach, abs(float(mean.sum())) + _DEVIATIONS * math.sqrt(float(variance)))
    largest = float(np.abs(loss[(laws > _RARE).any(axis=0)]).max(initial=0.0))
    return reach + 2 * largest


def _walk(index: IntArray, laws: FloatArray, half: int, cap: int | None = None) -> FloatArray:
    """Return the laws of the sum of lattice points, (n_laws, 2 half + 1); what leaves the lattice is left out."""
    n_queries, n_outcomes = index.shape
    rows = 1 if cap is None else min(cap, n_queries)
    state = np.zeros((len(laws), rows, 2 * half + 1))
    done = np.zeros((len(laws), 2 * half + 1))
    state[:, 0, half] = 1.0
    begin = end = half
    live = np.asarray(laws.any(axis=0))
    for i in range(n_queries):
        reached = 1 if cap is None else min(i + 1, rows)
        said: dict[tuple[int, bool], FloatArray] = {}
        for j in np.flatnonzero(live[i]):
            key = int(index[i, j]), cap is not None and j < n_outcomes - 1
            said[key] = said[key] + laws[:, i, j] if key in said else laws[:, i, j]
        if not said:
            continue
        old_begin, old_end = begin, end
        begin = max(0, min(begin, begin + min(at for at, _ in said)))
        end = min(2 * half, max(end, end + max(at for at, _ in said)))
        new = np.zeros_like(state[:, : min(reached + 1, rows), begin : end + 1])
        for (at, answered), mass in said.items():
            low, high = max(begin, old_begin + at), min(end, old_end + at)
            if high < low:
                continue
            moved = mass[:, None, None] * state[:, :reached, low - at : high - at + 1]
            if not answered:
                new[:, :reached, low - begin : high - begin + 1] += moved
            else:
                top = min(reached, rows - 1)
                new[:, 1 : top + 1, low - begin : high - begin + 1] += moved[:, :top]
                if reached == rows:
                    done[:, low : high + 1] += moved[:, -1]
        state[:, : new.shape[1], begin : end + 1] = new
    return done + state.sum(axis=1)


def _best_test(hit: FloatArray, false: FloatArray, delta: float, *, lost: float = 0.0) -> float:
    """Return the largest log((hit(T > K) - delta) / (false(T > K) + lost)) over K, at least 0."""
    above, under = (np.cumsum(masses[::-1])[::-1] for masses in (hit, false))
    good = above > delta
    if not good.any():
        return 0.0
    with np.errstate(divide="ignore"):
        return largest_of(0.0, float((np.log(above[good] - delta) - np.log(under[good] + lost)).max()))


def _from_below(p: FloatArray, q: FloatArray, delta: float, slack: float) -> tuple[float, float]:
    found = [_best_test(*laws, delta + slack, lost=_UNDERFLOW) for laws in ((p, q), (q[::-1], p[::-1]))]
    return largest_of(0.0, found[0] - slack), largest_of(0.0, found[1] - slack)


def _from_above(p: FloatArray, q: FloatArray, delta: float, slack: float) -> tuple[float, float]:
    found = []
    for hit, false in ((p, q), (q[::-1], p[::-1])):
        lost = max(0.0, 1 - float(hit.sum())) + slack
        found.append(_best_test(hit, false, delta - lost) + slack if lost < delta else math.inf)
    return found[0], found[1]


def _rdp(log_p: FloatArray, log_q: FloatArray, order: float) -> FloatArray:
    """Return the Renyi divergence of each query, (n_queries,)."""
    log_k = log_sum(log_q + log_terms(order, log_p - log_q), axis=1)
    return np.asarray(np.logaddexp(0.0, log_k) / (order - 1))


def _stopped_rdp(log_p: FloatArray, log_q: FloatArray, orders: FloatArray, cap: int) -> FloatArray:
    """Return the Renyi divergence of a run that ends with the ``cap``-th answer, (n_orders,)."""
    weights = orders[:, None, None] * log_p + (1 - orders)[:, None, None] * log_q
    refused, answered = weights[..., -1], np.logaddexp.reduce(weights[..., :-1], axis=2)
    state, done = np.full((len(orders), cap), -np.inf), np.full(len(orders), -np.inf)
    state[:, 0] = 0.0
    for i in range(len(log_p)):
        no, yes = refused[:, i, None], answered[:, i, None]
        done = np.logaddexp(done, state[:, -1] + yes[:, 0])
        live = min(i + 2, cap)
        state[:, 1:live] = np.logaddexp(state[:, 1:live] + no, state[:, : live - 1] + yes)
        state[:, :1] += no
    total = np.logaddexp(done, np.logaddexp.reduce(state, axis=1)) / (orders - 1)
    return np.asarray(np.maximum(total, 0.0))
