"""A sequential test of a mechanism's law: that it releases what the accounting says it releases.

For the library's own mechanisms :func:`check_mechanism` is all it takes; :func:`law_test` is for any sampler and law.

The null hypothesis is the exact law of the outcomes on every histogram of a bank. The evidence is an e-process: a
non-negative number with expectation at most 1 under the null at every stopping time, so that by Ville's inequality it
*ever* reaches 1/alpha with probability at most alpha. Draw as long as you like; a right sampler is rejected once in a
million test suites.

Per histogram the bet is a Dirichlet mixture centred on the null (it needs no alternative); optional alternatives, such
as the same law at 0.9 sigma, are added as plain likelihood ratios and find small errors sooner.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, logsumexp

from pate.core.checks import check_int, check_real
from pate.core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.mechanisms import ConfidentGNMax, GNMax, LNMax, Mechanism
from pate.noise.laws import argmax_law, confident_law
from pate.noise.source import NoiseSource
from pate.votes import ABSTAIN

__all__ = ["LawTestResult", "check_mechanism", "law_bank", "law_test"]

Sampler = Callable[[IntArray], npt.ArrayLike]  # counts (n, m) -> outcomes (n,)
Law = Callable[[IntArray], FloatArray]  # counts (n, m) -> probabilities (n, n_outcomes)

_FLOOR = 1e-12  # probabilities are rounded up to it: that only makes the test more patient
_ROUNDING = 1e-9  # relative error granted to the law
_STRENGTHS = np.array([10.0, 100.0, 1e3, 1e4, 1e5])  # pseudo-draws of the Dirichlet mixtures


@dataclass(frozen=True)
class LawTestResult:
    """What the test found.

    Parameters
    ----------
    rejected : bool
        The e-process reached 1/alpha: the sampler does not have the law.
    log_e : float
        Natural log of the e-process when the test stopped.
    n_draws : int
        Outcomes drawn, over all histograms.
    evidence : dict
        Log e-value of each bet (histograms by number, "all", alternatives by name): what gave it away.

    Examples
    --------
    >>> LawTestResult(False, 0.0, 100, {}).rejected
    False
    """

    rejected: bool
    log_e: float
    n_draws: int
    evidence: Mapping[str, float]


def law_bank(n_classes: int, scale: float, *, threshold: float | None = None, scale1: float | None = None) -> IntArray:
    """Return histograms that exercise every branch of a noisy argmax (and of a threshold test).

    Zeros, ties, equal losers, a leader at 1, 2, 2.35 and 2.7 scales over many equals, two leaders over empty classes, a
    staircase; with a threshold, leaders at T - scale1, T, T + scale1. Leaders stand in the middle, not at index 0.

    Parameters
    ----------
    n_classes : int
        >= 2.
    scale : float
        The argmax noise, in votes.
    threshold, scale1 : float, optional
        Of the threshold test.

    Returns
    -------
    numpy.ndarray of int64, shape (n_histograms, n_classes)

    Examples
    --------
    >>> law_bank(4, 10.0)[3]
    array([ 0,  0, 20,  0])
    """
    n_classes = check_int("n_classes", n_classes, low=2)
    scale = check_real("scale", scale, low=0, low_open=True)
    middle, last = n_classes // 2, n_classes - 1
    index = np.arange(n_classes)

    def leader(height: float, others: int = 0) -> IntArray:
        return np.where(index == middle, others + round(height), others)

    base = round(scale)
    rows = [
        np.zeros(n_classes, dtype=np.int64),
        np.where((index == middle) | (index == last), 2 * base, 0),
        leader(scale, others=3 * base),
        leader(2.0 * scale),
        leader(2.35 * scale, others=base),
        leader(2.7 * scale),
        np.where(index == middle, 2 * base, np.where(index == last, base, 0)),
        (base * index) // max(1, last // 2),
        (base * index[::-1]) // max(1, last // 2),
    ]
    if threshold is not None and scale1 is not None:
        tops = [threshold - scale1, threshold, threshold + scale1]
        rows += [leader(max(0.0, top)) for top in tops]
        rows += [np.where(index == last, round(max(0.0, t)), round(max(0.0, t - 2 * scale))) for t in tops]
    return np.array(rows, dtype=np.int64)


def _dirichlet(tallies: FloatArray, null: FloatArray) -> FloatArray:
    """Log likelihood ratio of Dirichlet(strength * null) mixtures against the null: (n_histograms,)."""
    n = tallies.sum(axis=1)
    centre = null / null.sum(axis=1, keepdims=True)
    prior = _STRENGTHS[:, None, None] * centre[None, :, :]
    marginal = (gammaln(tallies[None] + prior) - gammaln(prior)).sum(axis=2)
    marginal += gammaln(_STRENGTHS)[:, None] - gammaln(n[None, :] + _STRENGTHS[:, None])
    mixed = logsumexp(marginal, axis=0) - math.log(len(_STRENGTHS))
    return np.asarray(mixed - (tallies * np.log(null)).sum(axis=1))


def law_test(
    sample: Sampler,
    law: Law,
    bank: npt.ArrayLike,
    *,
    alternatives: Mapping[str, Law] | None = None,
    alpha: float = 1e-6,
    batch: int = 2_000,
    max_draws: int = 1_000_000,
) -> LawTestResult:
    """Draw from ``sample`` until its law is refuted or ``max_draws`` outcomes have been seen.

    Parameters
    ----------
    sample : callable
        counts (n, m) to outcomes (n,), independent given the counts; outcome numbers index the law's columns.
    law : callable
        counts (n, m) to exact probabilities (n, n_outcomes).
    bank : array-like of ints, shape (n_histograms, m)
    alternatives : mapping of name to law, optional
        Laws to bet on besides the general mixture.
    alpha : float
        Probability that a right sampler is ever rejected.
    batch : int
        Draws per histogram between two looks (looking costs nothing).
    max_draws : int
        Where to give up.

    Returns
    -------
    LawTestResult

    Examples
    --------
    >>> fair, bank = lambda counts: np.full((len(counts), 2), 0.5), [[0, 0]]
    >>> rng = np.random.default_rng(0)
    >>> law_test(lambda c: rng.integers(0, 2, len(c)), fair, bank, max_draws=20_000).rejected
    False
    >>> law_test(lambda c: (rng.random(len(c)) < 0.6).astype(int), fair, bank, max_draws=20_000).rejected
    True
    """
    counts = np.asarray(bank, dtype=np.int64)
    if counts.ndim != 2 or not len(counts):
        raise InvalidInputError(f"bank must have shape (n_histograms >= 1, n_classes), got {counts.shape}.")
    alpha = check_real("alpha", alpha, low=0, high=1, low_open=True, high_open=True)
    batch, max_draws = check_int("batch", batch, low=1), check_int("max_draws", max_draws, low=1)
    null = np.maximum(law(counts) * (1.0 + _ROUNDING), _FLOOR)
    rivals = {}
    for name, alternative in (alternatives or {}).items():
        other = alternative(counts)
        rivals[name] = np.log(np.maximum(other, 0.01 * null) / np.maximum(other, 0.01 * null).sum(1, keepdims=True))
    n_outcomes = null.shape[1]
    tallies = np.zeros(null.shape)
    rows = np.repeat(counts, batch, axis=0)
    drawn, log_e, evidence = 0, 0.0, {}
    while drawn < max_draws:
        outcome = np.asarray(sample(rows))
        drawn += len(rows)
        if outcome.shape != (len(rows),) or outcome.dtype.kind not in "iu":
            raise InvalidInputError(f"sample must return whole numbers of shape {(len(rows),)}, got {outcome.shape}.")
        if (outcome < 0).any() or (outcome >= n_outcomes).any():
            return LawTestResult(True, math.inf, drawn, {"impossible outcome": math.inf})
        cell = np.repeat(np.arange(len(counts)), batch) * n_outcomes + outcome
        tallies += np.bincount(cell, minlength=tallies.size).reshape(tallies.shape)
        each = _dirichlet(tallies, null)
        evidence = {str(n): float(value) for n, value in enumerate(each)}
        evidence["all"] = float(each.sum())
        for name, rival in rivals.items():
            evidence[name] = float((tallies * (rival - np.log(null))).sum())
        # The mean of e-processes is one: half on the product, half shared by the histograms and the rivals.
        values = np.array(list(evidence.values()))
        weights = np.full(len(values), 0.5 / (len(values) - 1))
        weights[len(counts)] = 0.5
        log_e = float(logsumexp(values, b=weights))
        if log_e >= -math.log(alpha):
            return LawTestResult(True, log_e, drawn, evidence)
    return LawTestResult(False, log_e, drawn, evidence)


def check_mechanism(
    mechanism: Mechanism,
    source: NoiseSource,
    *,
    n_classes: int = 10,
    accounted_as: Mechanism | None = None,
    max_draws: int = 500_000,
) -> LawTestResult:
    """Test that what a mechanism samples has the exact law of the mechanism it is accounted as.

    Parameters
    ----------
    mechanism : GNMax, LNMax or ConfidentGNMax, or a subclass
        Whose ``sample`` is put to the test.
    source : pate.noise.source.NoiseSource
        Seeded for a repeatable test; from the operating system to test what protects people.
    n_classes : int
        >= 2.
    accounted_as : mechanism, optional
        Whose law is the null hypothesis; the mechanism itself when not given.
    max_draws : int
        Where to give up.

    Returns
    -------
    LawTestResult
        A right mechanism is rejected with probability at most 1e-6; a standard deviation wrong by 10% is found
        within some 20,000 draws (Ville's inequality for the e-process of :func:`law_test`).

    Raises
    ------
    InvalidInputError
        A mechanism whose outcomes are not labels and refusals alone.

    Examples
    --------
    >>> from pate import GNMax
    >>> from pate.noise.source import NoiseSource
    >>> check_mechanism(GNMax(40.0), NoiseSource(0), max_draws=50_000).rejected
    False
    >>> check_mechanism(GNMax(36.0), NoiseSource(0), accounted_as=GNMax(40.0)).rejected
    True
    """
    null = mechanism if accounted_as is None else accounted_as
    n_classes = check_int("n_classes", n_classes, low=2)
    law: Law
    if isinstance(null, ConfidentGNMax):
        confident = null
        bank = law_bank(n_classes, null.sigma, threshold=null.threshold, scale1=null.sigma_threshold)

        def law(counts: IntArray) -> FloatArray:
            return confident_law(
                counts, threshold=confident.threshold, scale1=confident.sigma_threshold, scale2=confident.sigma
            )

    elif isinstance(null, GNMax | LNMax):
        scale, noise = (null.sigma, "gaussian") if isinstance(null, GNMax) else (null.scale, "laplace")
        bank = law_bank(n_classes, scale)

        def law(counts: IntArray) -> FloatArray:
            return argmax_law(counts, scale=scale, noise=noise)

    else:
        raise InvalidInputError(f"check_mechanism knows the laws of GNMax, LNMax and ConfidentGNMax, got {null!r}.")

    def sample(counts: IntArray) -> IntArray:
        labels = mechanism.sample(counts, source).labels
        # The law's last column is the refusal; without one it is an outcome that may never happen.
        return np.where(labels == ABSTAIN, n_classes, labels)

    return law_test(sample, law, bank, max_draws=max_draws)
