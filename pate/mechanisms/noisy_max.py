"""Noisy maxima: only the name of the winner gets out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from pate._random import NoiseSource
from pate._validation import check_real
from pate.mechanisms._base import (
    MAX_COUNT_SENSITIVITY,
    VOTE_L2_SENSITIVITY,
    Draw,
    Mechanism,
    all_answered,
    capped,
)
from pate.privacy.charge import Charge


@dataclass(frozen=True)
class GNMax(Mechanism):
    """Gaussian noisy max: argmax of counts + N(0, sigma^2) (Papernot et al. 2018, Section 4.1).

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise on every count, in votes.

    Guarantees
    ----------
    Adjacency replace-one: two counts move by one, L2 sensitivity sqrt(2). n queries are exactly
    sqrt(2 n)/sigma-GDP, also when chosen adaptively; the argmax is post-processing of the noisy counts.

    Raises
    ------
    InvalidInputError
        sigma is not a positive number.

    Examples
    --------
    >>> GNMax(sigma=40.0).charge(300).guarantee(1e-5).epsilon.__round__(4)
    2.5017
    """

    sigma: float
    family: ClassVar[str] = "gnmax"

    def charge(self, n_queries: int, max_answers: int | None = None) -> Charge:
        """Return the worst-case cost of ``n_queries`` answers; there are no refusals to save by a cap.

        Examples
        --------
        >>> GNMax(sigma=2.0).charge(4).mu_squared.__round__(9)
        2.0
        """
        asked, _ = self._asked(n_queries, max_answers)
        return Charge.gaussian(sensitivity=VOTE_L2_SENSITIVITY, sigma=self.sigma) * asked

    def sample(self, counts: npt.NDArray[np.int64], noise: NoiseSource, *, max_answers: int | None = None) -> Draw:
        """Draw one label per query.

        Parameters
        ----------
        counts : int array of shape (n_queries, n_classes)
        noise : NoiseSource
        max_answers : int or None
            Queries beyond the first ``max_answers`` are not asked.

        Examples
        --------
        >>> GNMax(sigma=1.0).sample(np.array([[90, 10], [5, 95]]), NoiseSource()).labels
        array([0, 1])
        """
        noisy = counts + self.sigma * noise.normal(counts.shape)
        return capped(np.ones(len(counts), dtype=bool), noisy.argmax(axis=1), max_answers)


@dataclass(frozen=True)
class LNMax(Mechanism):
    """Laplace noisy max: argmax of counts + Laplace(scale) (Papernot et al. 2017; their gamma is 1/scale).

    Parameters
    ----------
    scale : float
        Scale b of the noise on every count, in votes; its standard deviation is b sqrt(2).

    Guarantees
    ----------
    Adjacency replace-one: two counts move by one each, so a query is (2/scale, 0)-DP; n queries compose by pure
    composition, by RDP (Mironov 2017, Proposition 6) or by the dominating Gaussian, whichever is least.

    Raises
    ------
    InvalidInputError
        scale is not a positive number.

    Examples
    --------
    >>> LNMax(scale=20.0).charge(1).pure
    0.1
    """

    scale: float
    family: ClassVar[str] = "lnmax"
    _noises: ClassVar[tuple[str, ...]] = ("scale",)

    def charge(self, n_queries: int, max_answers: int | None = None) -> Charge:
        """Return the worst-case cost of ``n_queries`` answers.

        Examples
        --------
        >>> LNMax(scale=20.0).charge(3).pure.__round__(9)
        0.3
        """
        asked, _ = self._asked(n_queries, max_answers)
        return Charge.laplace(shifts=(1.0, 1.0), scale=self.scale) * asked

    def sample(self, counts: npt.NDArray[np.int64], noise: NoiseSource, *, max_answers: int | None = None) -> Draw:
        """Draw one label per query; see :meth:`GNMax.sample`.

        Examples
        --------
        >>> LNMax(scale=1.0).sample(np.array([[90, 10], [5, 95]]), NoiseSource()).labels
        array([0, 1])
        """
        noisy = counts + self.scale * noise.laplace(counts.shape)
        return capped(np.ones(len(counts), dtype=bool), noisy.argmax(axis=1), max_answers)


@dataclass(frozen=True)
class ConfidentGNMax(Mechanism):
    """Confident-GNMax: answer by GNMax only where the noisy largest count reaches a threshold.

    Source: Papernot et al. 2018, Algorithm 1. The test adds N(0, sigma_threshold^2) to the *true* largest count.

    Parameters
    ----------
    threshold : float
        Votes the largest count must reach; chosen without looking at the votes.
    sigma_threshold : float
        Standard deviation of the noise of the test, in votes.
    sigma : float
        Standard deviation of the noise of the answer, in votes.

    Guarantees
    ----------
    Adjacency replace-one. Every query asked pays the test (sensitivity 1), every answer pays GNMax
    (sensitivity sqrt(2)): n asked with at most c answers are sqrt(n/sigma_threshold^2 + 2c/sigma^2)-GDP. The
    number of answers is random, so c is a cap declared before the run and the whole cap is charged.

    Raises
    ------
    InvalidInputError
        A noise that is not positive or a threshold that is not a number.

    Examples
    --------
    >>> m = ConfidentGNMax(threshold=200, sigma_threshold=150, sigma=40)
    >>> m.charge(640, max_answers=300).guarantee(1e-5).epsilon.__round__(3)
    2.607
    """

    threshold: float
    sigma_threshold: float
    sigma: float
    family: ClassVar[str] = "confident-gnmax"
    may_refuse: ClassVar[bool] = True
    _noises: ClassVar[tuple[str, ...]] = ("sigma_threshold", "sigma")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "threshold", check_real("threshold", self.threshold))

    def charge(self, n_queries: int, max_answers: int | None = None) -> Charge:
        """Return the worst-case cost of ``n_queries`` tests and ``max_answers`` answers (None: all answered).

        Examples
        --------
        >>> m = ConfidentGNMax(threshold=200, sigma_threshold=1.0, sigma=2**0.5)
        >>> m.charge(10, max_answers=3).mu_squared.__round__(9)
        13.0
        """
        asked, answered = self._asked(n_queries, max_answers)
        test = Charge.gaussian(sensitivity=MAX_COUNT_SENSITIVITY, sigma=self.sigma_threshold)
        answer = Charge.gaussian(sensitivity=VOTE_L2_SENSITIVITY, sigma=self.sigma)
        return test * asked + answer * answered

    def sample(self, counts: npt.NDArray[np.int64], noise: NoiseSource, *, max_answers: int | None = None) -> Draw:
        """Draw a label or a refusal per query, stopping after ``max_answers`` answers.

        Examples
        --------
        >>> m = ConfidentGNMax(threshold=80, sigma_threshold=1.0, sigma=1.0)
        >>> m.sample(np.array([[95, 5], [50, 50]]), NoiseSource()).labels
        array([ 0, -1])
        """
        largest = counts.max(axis=1) + self.sigma_threshold * noise.normal(len(counts))
        noisy = counts + self.sigma * noise.normal(counts.shape)
        return capped(largest >= self.threshold, noisy.argmax(axis=1), max_answers)


@dataclass(frozen=True)
class NoisyHistogram(Mechanism):
    """Release the noisy counts themselves: counts + N(0, sigma^2) on every class.

    Argmax, abstaining on small gaps, class offsets, soft labels and tuning all of these on the released counts are
    post-processing and cost nothing: see :meth:`pate.LabelRelease.decide`.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise on every count, in votes.

    Guarantees
    ----------
    Adjacency replace-one: n queries are exactly sqrt(2 n)/sigma-GDP, fully adaptive (Dong, Roth, Su 2022). A
    Gaussian's divergence does not depend on where it sits, so no data-dependent cost is lower.

    Raises
    ------
    InvalidInputError
        sigma is not a positive number.

    Examples
    --------
    >>> NoisyHistogram(sigma=64.0).charge(147).guarantee(1e-5).epsilon.__round__(5)
    0.99943
    """

    sigma: float
    family: ClassVar[str] = "noisy-histogram"
    #: Released counts are rounded to this grid (post-processing): the low bits of floating-point noise, by which
    #: the true count could be recognised (Mironov 2012), are gone.
    GRID: ClassVar[float] = 2.0**-10

    def charge(self, n_queries: int, max_answers: int | None = None) -> Charge:
        """Return the worst-case cost of releasing ``n_queries`` noisy histograms.

        Examples
        --------
        >>> NoisyHistogram(sigma=2.0).charge(4) == GNMax(sigma=2.0).charge(4)
        True
        """
        return GNMax(self.sigma).charge(n_queries, max_answers)

    def sample(self, counts: npt.NDArray[np.int64], noise: NoiseSource, *, max_answers: int | None = None) -> Draw:
        """Draw a noisy histogram per query and its argmax.

        Examples
        --------
        >>> NoisyHistogram(sigma=1.0).sample(np.array([[90, 10]]), NoiseSource()).noisy_counts.shape
        (1, 2)
        """
        noisy = counts + self.sigma * noise.normal(counts.shape)
        noisy = np.round(noisy / self.GRID) * self.GRID
        if max_answers is None or max_answers >= len(counts):
            return all_answered(noisy.argmax(axis=1), noisy)
        draw = capped(np.ones(len(counts), dtype=bool), noisy.argmax(axis=1), max_answers)
        noisy[max_answers:] = np.nan
        return Draw(draw.labels, draw.status, noisy)
