"""Lower confidence bounds on epsilon and mu, and tests of a claimed curve, from scores of runs in two worlds.

``out`` are an attacker's scores of runs without the record in question (or of one neighbour), ``in_`` of runs with it;
the higher, the more it looks like "in". Choosing a threshold and bounding on the same runs is the commonest false
audit: here a choice is made on one half and bounded on the other, or all thresholds that were tried are corrected for.

**The rank test** (:func:`curve_test`) is the sharp one. Let t be the k-th largest of n scores of one world, k fixed
beforehand. The rate at which a fresh run of that world exceeds t has the law Beta(k, n - k + 1) whatever the scores
are like (continuous; ties are broken at random, which is post-processing). If the claim holds, runs of the other world
exceed t at no more than C(that rate), C the claim's curve, so that given t their number is stochastically below
Binomial(n', C(rate)). Hence

    p = E[P(Binomial(n', C(U)) >= observed)],  U ~ Beta(k, n - k + 1)

is an exact p-value: no other unknown is left, and all runs of both worlds are in it. Ranks from both ends of both
worlds are tried, in a grid fixed by n and n' alone, and corrected by Bonferroni. The integral is taken as an upper sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import betainc, betaincc, betaincinv, expit, logit

from pate._core.checks import check_choice, check_int, check_real
from pate._core.types import FloatArray, IntArray
from pate.audit._claims import Claim
from pate.exceptions import InvalidInputError

__all__ = ["CurveTest", "bayesian_interval", "curve_test", "epsilon_bound", "mu_bound", "rates_bound"]

#: Ranks grow by this factor; between two of them little power is lost.
_RATIO = 2 ** (1 / 3)
#: Cells of the upper sum, and how far it reaches, in standard deviations of a rank's logit.
_CELLS, _REACH = 240, 14.0
#: The largest values that are searched.
_MOST_EPSILON, _MOST_MU = 50.0, 50.0
_LEAST = 1e-9
#: Quantiles of each posterior.
_NODES = 500


@dataclass(frozen=True)
class CurveTest:
    """The result of :func:`curve_test`.

    Attributes
    ----------
    p_value : float
        Probability, if the claim holds, of scores at least as extreme, corrected for all ranks that were tried.
    false_positives, true_positives : float
        Observed at the rank with the least p-value: the share of one world there, and of the other.
    allowed : float
        The most true positives that the claim allows at that many false positives.
    n_tried : int
        Ranks tried.
    """

    p_value: float
    false_positives: float
    true_positives: float
    allowed: float
    n_tried: int


def curve_test(out: npt.ArrayLike, in_: npt.ArrayLike, claim: Claim) -> CurveTest:
    """Test the whole curve of a claim on all runs at once: the rank test, exact at any number of runs.

    Parameters
    ----------
    out, in_ : array-like of shapes (n,) and (n',)
        Scores of independent runs in either world; infinities are allowed.
    claim : Claim

    Returns
    -------
    CurveTest

    Notes
    -----
    **Guarantees.** If the claim holds for this pair of worlds (in both directions), p_value <= a with probability at
    most a, for every a at once and every law of the scores (see this module's text). The direction of the scores is
    the attacker's choice: one that points the wrong way finds nothing.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> out, in_ = (
    ...     rng.normal(size=4000),
    ...     rng.normal(3 / 0.9, 1, 4000),
    ... )  # noise at 0.9 of what was claimed
    >>> curve_test(out, in_, Claim.gaussian(3.0)).p_value < 1e-6
    True
    >>> curve_test(out, in_, Claim.gaussian(3 / 0.9)).p_value > 0.01
    True
    """
    first, second = _check(out, "out"), _check(in_, "in_")
    return _ranked(_Ranked.of(first, second), claim)


def mu_bound(out: npt.ArrayLike, in_: npt.ArrayLike, *, level: float = 0.95) -> float:
    """Return the largest mu such that the scores refute mu-GDP at this confidence: a bound from below; 0 for none.

    Parameters
    ----------
    out, in_ : array-like of shapes (n,) and (n',)
    level : float
        Confidence, in (0, 1).

    Notes
    -----
    **Guarantees.** A release that is mu-GDP has a bound above mu with probability at most 1 - level, whatever its
    scores are like (claims of less mu are refuted by the same test with at least as small a p-value). An epsilon
    computed from it assumes that the curve is Gaussian.
    """
    return _largest_refuted(out, in_, level, Claim.gaussian, _MOST_MU)


def epsilon_bound(
    out: npt.ArrayLike, in_: npt.ArrayLike, *, delta: float, level: float = 0.95, method: str = "ranks", seed: int = 0
) -> float:
    """Return a bound from below on epsilon at ``delta``, in both directions; 0 where the scores prove nothing.

    Parameters
    ----------
    out, in_ : array-like of shapes (n,) and (n',)
    delta : float
        In [0, 1).
    level : float
        Confidence, in (0, 1).
    method : {"ranks", "clopper-pearson"}
        ``"ranks"``: the largest epsilon that :func:`curve_test` refutes. ``"clopper-pearson"``: a threshold chosen on
        one half of either world, its two error rates bounded on the other (Jagielski, Ullman, Oprea 2020).
    seed : int
        Of the cut in halves.

    Notes
    -----
    **Guarantees.** If the release is (epsilon, delta)-DP, the bound is above epsilon with probability at most
    1 - level.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> out, in_ = rng.normal(size=4000), rng.normal(3, 1, 4000)
    >>> sharp = epsilon_bound(out, in_, delta=1e-5)
    >>> usual = epsilon_bound(out, in_, delta=1e-5, method="clopper-pearson")
    >>> (
    ...     3 < usual < Claim.gaussian(3.0).epsilon(1e-5),
    ...     3 < sharp < Claim.gaussian(3.0).epsilon(1e-5),
    ... )
    (True, True)
    """
    delta = check_real("delta", delta, low=0, high=1, high_open=True)
    if method == "ranks":
        return _largest_refuted(out, in_, level, lambda e: Claim.of((e, delta)), _MOST_EPSILON)
    check_choice("method", method, ["ranks", "clopper-pearson"])
    counts = half_counts(out, in_, delta=delta, level=level, seed=seed)
    return rates_bound(*counts, delta=delta, level=level)


def rates_bound(
    false_positives: int, n_out: int, false_negatives: int, n_in: int, *, delta: float, level: float = 0.95
) -> float:
    """Return the Clopper-Pearson bound on epsilon from the two errors of ONE attack, fixed beforehand.

    Each error rate is bounded from above at confidence (1 + level) / 2; the same two bounds serve both directions.

    Raises
    ------
    InvalidInputError
        More errors than runs, or a delta or level out of range.
    """
    for name, k, n in (("false_positives", false_positives, n_out), ("false_negatives", false_negatives, n_in)):
        check_int(name, k, low=0, high=n, remedy="It is a number of runs out of those that were played.")
    delta = check_real("delta", delta, low=0, high=1, high_open=True)
    level = check_real("level", level, low=0, high=1, low_open=True, high_open=True)
    errors = (upper_rate(false_positives, n_out, (1 - level) / 2), upper_rate(false_negatives, n_in, (1 - level) / 2))
    return float(_epsilon_of(*errors, delta))


def bayesian_interval(
    false_positives: int, n_out: int, false_negatives: int, n_in: int, *, delta: float, level: float = 0.95
) -> tuple[float, float]:
    """Return the equal-tailed credible interval of epsilon of Zanella-Beguelin et al. 2023, by quadrature.

    Error rates have independent Jeffreys priors, Beta(1/2, 1/2). Narrower than Clopper-Pearson's; it depends on the
    prior, so that it is an estimate and refutes nothing. The attack must be fixed beforehand.
    """
    middles = (np.arange(_NODES) + 0.5) / _NODES
    errors = ((false_positives, n_out), (false_negatives, n_in))
    a, b = (betaincinv(k + 0.5, n - k + 0.5, middles) for k, n in errors)
    epsilon = _epsilon_of(a[:, None], b[None, :], delta)
    low, high = np.quantile(np.minimum(epsilon, _MOST_EPSILON), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def half_counts(
    out: npt.ArrayLike, in_: npt.ArrayLike, *, delta: float, level: float = 0.95, seed: int = 0
) -> tuple[int, int, int, int]:
    """Return (false positives, n, false negatives, n') on one half, of the threshold best on the other half."""
    rng = own_generator(seed)
    first, second = rng.permutation(_check(out, "out")), rng.permutation(_check(in_, "in_"))
    if min(len(first), len(second)) < 2:
        raise InvalidInputError("out and in_ must hold 2 scores each at least, to be cut in halves. Play more runs.")
    chosen = best_threshold(first[::2], second[::2], delta=delta, level=level)
    a, b = first[1::2], second[1::2]
    return int((a >= chosen).sum()), len(a), int((b < chosen).sum()), len(b)


def best_threshold(out: FloatArray, in_: FloatArray, *, delta: float, level: float = 0.95) -> float:
    """Return the threshold with the best Clopper-Pearson bound on these scores; to be bounded on others."""
    thresholds = np.unique(np.concatenate([out, in_]))
    if len(thresholds) > 512:
        thresholds = np.unique(np.quantile(thresholds, np.linspace(0, 1, 512), method="nearest"))
    above = len(out) - np.searchsorted(np.sort(out), thresholds, side="left")
    below = np.searchsorted(np.sort(in_), thresholds, side="left")
    tail = (1 - level) / 2
    a, b = upper_rate(above, len(out), tail), upper_rate(below, len(in_), tail)
    # Where none gives a bound, the one with the fewest errors.
    return float(thresholds[int(np.argmax(_epsilon_of(a, b, delta) - 1e-9 * (a + b)))])


def _epsilon_of(a: FloatArray, b: FloatArray, delta: float) -> FloatArray:
    """Return the epsilon that error rates of at most a and b prove, in both directions."""
    with np.errstate(divide="ignore", invalid="ignore"):
        both = [np.log(np.maximum(1 - delta - x, 0.0)) - np.log(y) for x, y in ((a, b), (b, a))]
    return np.asarray(np.fmax(np.fmax(*both), 0.0))


def upper_rate(k: npt.ArrayLike, n: int, tail: float) -> FloatArray:
    """Return Clopper and Pearson's upper bound on a rate, exceeded with probability at most ``tail``."""
    k = np.asarray(k)
    with np.errstate(invalid="ignore"):
        return np.where(k < n, betaincinv(k + 1.0, np.maximum(n - k, 0.5), 1 - tail), 1.0)


def _largest_refuted(
    out: npt.ArrayLike, in_: npt.ArrayLike, level: float, claim_of: Callable[[float], Claim], most: float
) -> float:
    level = check_real("level", level, low=0, high=1, low_open=True, high_open=True)
    ranked = _Ranked.of(_check(out, "out"), _check(in_, "in_"))

    def excess(x: float) -> float:
        return math.log(max(_ranked(ranked, claim_of(x)).p_value, 1e-300) / (1 - level))

    low, high = doubled(lambda x: excess(x) <= 0, _LEAST, most)
    if low == high:
        return low
    found = float(brentq(excess, low, high, xtol=1e-4))
    while excess(found) > 0:  # on the side that is refuted
        found = max(found - 1e-4, low)
    return found


def doubled(refuted: Callable[[float], bool], low: float, most: float) -> tuple[float, float]:
    """Return a refuted number and a larger one that is not; (0, 0) if none is refuted, (most, most) if all are."""
    if not refuted(low):
        return 0.0, 0.0
    high = 1.0
    while refuted(high):
        low, high = high, 2 * high
        if low >= most:
            return most, most
    return low, high


@dataclass(frozen=True)
class _Ranked:
    """The thresholds of a rank test: rank k among n of one world, and how many of the other world's n' exceed it."""

    k: IntArray
    n: IntArray
    beyond: IntArray
    n_other: IntArray

    @classmethod
    def of(cls, out: FloatArray, in_: FloatArray) -> _Ranked:
        low, high = _untied(out, in_, own_generator())
        parts = [_tries(low, high), _tries(-high, -low)]
        return cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    @cached_property
    def cells(self) -> tuple[FloatArray, FloatArray]:
        """Rates in cells, and what mass of Beta(k, n - k + 1) is in each; the last cell ends at 1."""
        k, n = (np.asarray(v, dtype=np.float64)[:, None] for v in (self.k, self.n))
        centre, width = logit(k / (n + 1)), np.sqrt(1 / k + 1 / (n - k + 1))
        u = expit(centre + width * np.linspace(-_REACH / 3, _REACH, _CELLS))
        ends = [np.ones((len(k), 1)), betaincc(k, n - k + 1, u), np.zeros((len(k), 1))]
        return u, -np.diff(np.concatenate(ends, axis=1))


def own_generator(seed: int = 0) -> np.random.Generator:
    """Return a random generator that differs from ``default_rng(seed)`` for every seed.

    Users seed their scores, or their coins, by small numbers: ties broken by the very same numbers would be broken by
    what is to be guessed, and a true claim refuted.
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0x74696573, 0x6F776E)))


def _tries(low: IntArray, high: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return tries at ranks of ``low`` from its top down to its middle, and of ``high`` against it likewise."""
    n, n_other = len(low), len(high)
    k = np.unique(np.round(_RATIO ** np.arange(0, math.log(max(n / 2, 1)) / math.log(_RATIO) + 1e-9)).astype(np.int64))
    thresholds = np.sort(low)[::-1][k - 1]
    beyond = n_other - np.searchsorted(np.sort(high), thresholds, side="right")
    return k, np.full(len(k), n), beyond, np.full(len(k), n_other)


def _untied(out: FloatArray, in_: FloatArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return the scores as places in one order of all of them, ties broken at random."""
    both = np.concatenate([out, in_])
    place = np.empty(len(both), dtype=np.int64)
    place[np.lexsort((rng.random(len(both)), both))] = np.arange(len(both))
    return place[: len(out)], place[len(out) :]


def _ranked(tries: _Ranked, claim: Claim) -> CurveTest:
    u, masses = tries.cells
    x, m = (np.asarray(v, dtype=np.float64)[:, None] for v in (tries.beyond, tries.n_other))
    caps = np.concatenate([claim.true_positives(u), np.ones(u[:, :1].shape)], axis=1)
    # P(Binomial(m, cap) >= x), at the upper end of each cell.
    tails = np.where(x > 0, betainc(np.maximum(x, 1.0), m - np.maximum(x, 1.0) + 1, caps), 1.0)
    p = (masses * tails).sum(axis=1)
    best = int(np.argmin(p))
    rate = float(tries.k[best] / tries.n[best])
    return CurveTest(
        p_value=float(min(1.0, p[best] * len(p))),
        false_positives=rate,
        true_positives=float(tries.beyond[best] / tries.n_other[best]),
        allowed=float(claim.true_positives([rate])[0]),
        n_tried=len(p),
    )


def _check(scores: npt.ArrayLike, name: str) -> FloatArray:
    array = np.asarray(scores)
    if array.ndim != 1 or not len(array) or array.dtype.kind not in "biuf" or np.isnan(array).any():
        raise InvalidInputError(
            f"{name} must hold one score per run: a vector of numbers without NaN, got shape {array.shape}. "
            "Return one number per run."
        )
    return array.astype(np.float64)
