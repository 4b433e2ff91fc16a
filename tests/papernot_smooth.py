"""The smooth-sensitivity release of the 2018 paper: a comparison that tests reproduce, and no part of pate.

Papernot et al. 2018, Appendix B: local sensitivity of the Theorem 6 bound at every distance (Algorithms 3 to 5),
released with Gaussian noise scaled by it (GNSS). Three reasons why this is a comparison and not a guarantee: Theorem
6 bounds one direction; the cost of Confident-GNMax is an expectation over the run; and the price published for GNSS
(Theorem 23) is below the exact divergence of two normals that meet its conditions
(:func:`~pate.privacy.publish.smooth_sensitivity.gnss_rdp`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from pate._core.checks import check_int, check_real
from pate._core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.privacy.convert import check_delta, rdp_overhead
from pate.privacy.noise import rounded_up
from pate.privacy.noise.source import NoiseSource
from pate.privacy.papernot import check_votes, log_answer_probability, log_q_gaussian, rdp_bound
from pate.privacy.publish.smooth_sensitivity import GRID, gnss_rdp
from pate.privacy.words import Guarantee, Sensitive

_POINTS = 20_000


def gnss_rdp_papernot2018(beta: float, noise_scale: float, order: float) -> float:
    """Return the price of GNSS as published in 2018 (Theorem 23); below the exact one where beta nears 1/(2 order).

    Examples
    --------
    >>> (
    ...     round(gnss_rdp_papernot2018(0.46 / 14, 6.0, 14.0), 2),
    ...     round(gnss_rdp(0.46 / 14, 6.0, 14.0), 2),
    ... )
    (0.55, 1.71)
    """
    check_real("order", order, low=1, low_open=True)
    check_real("noise_scale", noise_scale, low=0, low_open=True)
    check_real("beta", beta, low=0, high=1 / (2 * order), high_open=True, remedy="Its limit is 1/(2 order).")
    stretch = -0.5 * math.log1p(-2 * order * beta) + beta * order
    return order * math.exp(2 * beta) / noise_scale**2 + stretch / (order - 1)


def _batch(counts: npt.ArrayLike) -> FloatArray:
    """Return the votes of at least one query, all of as many teachers."""
    votes = check_votes(getattr(counts, "counts", counts))
    if not len(votes) or (votes.sum(axis=1) != votes[0].sum()).any() or (votes != np.rint(votes)).any():
        raise InvalidInputError("counts must be whole numbers, in rows that all sum to the number of teachers.")
    return votes


class _Bound:
    """The Theorem 6 bound B(q) of one order, its knee q0 and the shifted knee q1; all in log q."""

    def __init__(self, sigma: float, order: float, n_classes: int) -> None:
        sigma = check_real("sigma", sigma, low=0, low_open=True)
        order = check_real("order", order, low=1, low_open=True)
        self.sigma, self.order, self.losers = sigma, order, n_classes - 1
        self.public = order / sigma**2
        high = min(-((1 + 1 / sigma) ** 2), -(((order - 0.99) / sigma) ** 2), -1 / sigma**2)
        self.log_q0 = high
        if self(np.array([high]))[0] >= self.public:
            low = 2 * high
            while self(np.array([low]))[0] >= self.public:
                low *= 1.5
                if low < -1e5:
                    raise InvalidInputError(f"the 2018 bound never helps at sigma {sigma:g}, order {order:g}.")
            for _ in range(200):
                middle = (low + high) / 2
                low, high = (low, middle) if self(np.array([middle]))[0] >= self.public else (middle, high)
            self.log_q0 = high
        self.log_q1 = float(self.moved(np.array([self.log_q0]), -1)[0])

    def __call__(self, log_q: FloatArray) -> FloatArray:
        return rdp_bound(log_q, self.sigma, [self.order])[:, 0]

    def capped(self, log_q: FloatArray) -> FloatArray:
        return np.where(log_q >= getattr(self, "log_q0", np.inf), self.public, self(log_q))

    def moved(self, log_q: FloatArray, votes: int) -> FloatArray:
        """Log q after one vote moved, at most: its score per loser moves by sqrt(2)/sigma."""
        score = ndtri(np.exp(log_q) / self.losers)
        with np.errstate(divide="ignore"):
            return np.minimum(0.0, np.log(self.losers * ndtr(score + votes * math.sqrt(2) / self.sigma)))

    def local_sensitivity(self, log_q: FloatArray) -> FloatArray:
        at = np.where((log_q >= self.log_q1) & (log_q <= self.log_q0), self.log_q1, log_q)
        here = self.capped(at)
        return np.maximum(self.capped(self.moved(at, 1)) - here, here - self.capped(self.moved(at, -1)))


def papernot2018_conditions(sigma: float, order: float, n_classes: int) -> tuple[bool, bool]:
    """Check conditions C5 and C6 of the 2018 paper (Appendix B.4), on which its local sensitivity rests.

    C5: the bound B(q) does not fall as q grows to q0. C6: neither does B(q one vote worse) - B(q), to q1. Public: no
    votes are in them. They are checked at 20,000 points even in log q, a numerical check as the paper's own is.

    Raises
    ------
    InvalidInputError
        A parameter is out of range, or the 2018 bound never helps there.

    Examples
    --------
    >>> papernot2018_conditions(40.0, 14.0, 10), papernot2018_conditions(10.0, 25.0, 10)
    ((True, True), (True, False))
    """
    bound = _Bound(sigma, order, check_int("n_classes", n_classes, low=2))
    up_to_q0 = bound.log_q0 - np.geomspace(700.0, 1e-9, _POINTS)
    up_to_q1 = bound.log_q1 - np.geomspace(700.0, 1e-9, _POINTS)
    cost = bound.capped(up_to_q0)
    near = bound.capped(up_to_q1)
    steps = bound.capped(bound.moved(up_to_q1, 1)) - near
    # What rounding may do: a step is a difference of two costs.
    return _rises(cost, cost), _rises(steps, near + steps)


def _rises(values: FloatArray, scale: FloatArray) -> bool:
    return bool((np.diff(values) >= -1e-10 * scale[1:] - 1e-300).all())


def gnmax_local_sensitivity(counts: npt.ArrayLike, sigma: float, order: float) -> FloatArray:
    """Return the 2018 paper's local sensitivity of its GNMax bound at every distance (Algorithms 3 to 5).

    From the votes one walks to the nearest histogram with q in [q1, q0], where the sensitivity is largest: towards the
    runner-up while q < q1, towards the leader while q > q0.

    Parameters
    ----------
    counts : array-like of shape (n_queries, n_classes)
        Each row sums to the number of teachers.

    Returns
    -------
    array of shape (n_queries, n_teachers)
        Column d: for histograms d votes away.

    Examples
    --------
    >>> gnmax_local_sensitivity([[10, 0, 0]], 0.5, 1.5)[0, :4]
    array([3.13503646e-17, 1.60178280e-08, 5.90681786e-03, 5.99981308e+00])
    """
    votes = -np.sort(-_batch(counts), axis=1)
    bound = _Bound(sigma, order, votes.shape[1])
    n_teachers = round(float(votes[0].sum()))
    plateau = float(bound.local_sensitivity(np.array([bound.log_q1]))[0])
    out = np.full((len(votes), n_teachers), plateau)
    log_q = log_q_gaussian(votes, sigma)
    walks = np.flatnonzero((log_q < bound.log_q1) | (log_q > bound.log_q0))
    out[walks, 0] = bound.local_sensitivity(log_q[walks])
    to_leader = log_q > bound.log_q0
    for d in range(1, n_teachers):
        go = np.where(
            to_leader[walks], (log_q[walks] > bound.log_q0) & (votes[walks, 1] > 0), log_q[walks] < bound.log_q1
        )
        walks = walks[go]
        if not len(walks):
            break
        step = np.where(to_leader[walks], 1.0, -1.0)
        votes[walks, 0] += step
        votes[walks, 1] -= step
        votes[walks, 1:] = -np.sort(-votes[walks, 1:], axis=1)
        log_q[walks] = log_q_gaussian(votes[walks], sigma)
        out[walks, d] = bound.local_sensitivity(log_q[walks])
    return out


def threshold_local_sensitivity(
    counts: npt.ArrayLike, n_teachers: int, threshold: float, sigma_threshold: float, order: float
) -> FloatArray:
    """Return the local sensitivity of the bound on the threshold test at every distance, (n_queries, n_teachers).

    Examples
    --------
    >>> threshold_local_sensitivity([[20, 10, 0]], 30, 16, 2.0, 10.0)[0, 3:6].round(6)
    array([0.000148, 0.014783, 0.039415])
    """
    n_teachers = check_int("n_teachers", n_teachers, low=1)
    tops = check_votes(counts).max(axis=1).astype(np.int64)
    if len(tops) and tops.max() > n_teachers:
        raise InvalidInputError(f"counts must not be above n_teachers={n_teachers}.")
    grid = np.arange(n_teachers + 1)
    yes, no = log_answer_probability(np.stack([grid, 0 * grid], axis=1), threshold, sigma_threshold)
    costs = rdp_bound(np.minimum(yes, no), math.sqrt(2) * sigma_threshold, [order])[:, 0]
    steps = np.abs(np.diff(costs))
    one = np.maximum(np.append(steps, 0.0), np.insert(steps, 0, 0.0))
    out = np.zeros((len(tops), n_teachers))
    for d in range(n_teachers):
        up, down = tops + d, tops - d
        out[:, d] = np.maximum(
            np.where(up <= n_teachers, one[np.minimum(up, n_teachers)], 0.0),
            np.where(down >= 0, one[np.maximum(down, 0)], 0.0),
        )
    return out


@dataclass(frozen=True, repr=False)
class Papernot2018Release:
    """What the 2018 release says of these votes; private until its noise is drawn.

    Attributes
    ----------
    epsilon_before : float
        The data-dependent epsilon, older conversion.
    epsilon : float
        With the published price of the release: the centre of the published number.
    deviation : float
        Standard deviation of the noise on it.
    smooth_sensitivity, noise_scale, expected_answers : float
    """

    epsilon_before: float
    epsilon: float
    deviation: float
    smooth_sensitivity: float
    noise_scale: float
    expected_answers: float


def papernot2018_smooth(
    counts: npt.ArrayLike,
    sigma: float,
    *,
    order: float,
    beta: float,
    delta: float,
    noise_scale: float | None = None,
    threshold: float | None = None,
    sigma_threshold: float | None = None,
) -> Sensitive[Papernot2018Release]:
    """Return the smooth-sensitivity analysis of the 2018 paper: centre and deviation of the number it would publish.

    Parameters
    ----------
    counts : array-like of shape (n_queries, n_classes), or anything with such ``counts``
    sigma, threshold, sigma_threshold : float
        In votes; with a threshold Confident-GNMax, whose cost is the expected one.
    order, beta, delta : float
    noise_scale : float or None
        None: the paper's (order e^{2 beta} / S)^(1/3), which depends on the votes.

    Returns
    -------
    Sensitive[Papernot2018Release]

    Raises
    ------
    InvalidInputError
        A parameter is out of range.

    Examples
    --------
    >>> papernot2018_smooth([[240, 10]] * 100, 40.0, order=14.0, beta=0.03, delta=1e-5)
    Sensitive(2018 smooth sensitivity: hidden; .reveal() shows it)
    """
    delta = check_delta(delta)
    beta = check_real("beta", beta, low=0, high=1 / (2 * order), high_open=True, remedy="Its limit is 1/(2 order).")
    votes = _batch(counts)
    value, sensitivity, answers = _value_and_sensitivity(votes, sigma, order, threshold, sigma_threshold)
    smooth = float((np.exp(-beta * np.arange(len(sensitivity))) * sensitivity).max())
    scale = noise_scale if noise_scale is not None else (order * math.exp(2 * beta) / smooth) ** (1 / 3)
    before = value + math.log(1 / delta) / (order - 1)
    return Sensitive(
        Papernot2018Release(
            epsilon_before=before,
            epsilon=before + gnss_rdp_papernot2018(beta, scale, order),
            deviation=smooth * scale,
            smooth_sensitivity=smooth,
            noise_scale=scale,
            expected_answers=answers,
        ),
        "2018 smooth sensitivity",
    )


def _value_and_sensitivity(
    votes: FloatArray, sigma: float, order: float, threshold: float | None, sigma_threshold: float | None
) -> tuple[float, FloatArray, float]:
    """Return the expected cost, its local sensitivity at every distance, and the expected number of answers."""
    if (threshold is None) != (sigma_threshold is None):
        raise InvalidInputError("threshold and sigma_threshold belong together: pass both or neither.")
    n_teachers = int(votes[0].sum())
    labels = rdp_bound(log_q_gaussian(votes, sigma), sigma, [order])[:, 0]
    moves = gnmax_local_sensitivity(votes, sigma, order)
    if threshold is None or sigma_threshold is None:
        return float(labels.sum()), moves.sum(axis=0), float(len(votes))
    yes, no = log_answer_probability(votes, threshold, sigma_threshold)
    answered = np.exp(yes)
    test = rdp_bound(np.minimum(yes, no), math.sqrt(2) * sigma_threshold, [order])[:, 0]
    tests = threshold_local_sensitivity(votes, n_teachers, threshold, sigma_threshold, order)
    value = float((answered * labels + test).sum())
    return value, (answered[:, None] * moves + tests).sum(axis=0), float(answered.sum())


def release_papernot2018(
    counts: npt.ArrayLike,
    sigma: float,
    *,
    order: float,
    beta: float,
    noise_scale: float,
    delta: float,
    noise: NoiseSource,
) -> Guarantee:
    """Return the 2018 paper's number for GNMax, drawn once with a fixed ``noise_scale`` at the exact price of GNSS.

    Not for Confident-GNMax: the paper's sensitivity of its expected cost leaves out how one vote changes the weight of
    the label's cost, and where the threshold's noise is small it is neither smooth nor a bound on the change.

    Returns
    -------
    Guarantee
        Kind ``"sanitised"``, forward direction only: the release is private, but what it says of the answers is the
        2018 bound, and as in the paper it is as often too low as too high. Prefer
        :func:`~pate.privacy.publish.release_smooth`.

    Raises
    ------
    InvalidInputError
        A parameter is out of range, or condition C5 or C6 of the paper does not hold for them.

    Examples
    --------
    >>> done = release_papernot2018(
    ...     [[240, 10]] * 100,
    ...     40.0,
    ...     order=14.0,
    ...     beta=0.01,
    ...     noise_scale=6.0,
    ...     delta=1e-5,
    ...     noise=NoiseSource(),
    ... )
    >>> done.kind, done.directions
    ('sanitised', 'forward')
    """
    price = gnss_rdp(beta, noise_scale, order)
    votes = _batch(counts)
    held = papernot2018_conditions(sigma, order, votes.shape[1])
    if not all(held):
        broken = " and ".join(name for name, good in zip(("C5", "C6"), held, strict=True) if not good)
        raise InvalidInputError(
            f"sigma={sigma:g}, order={order:g}, {votes.shape[1]} classes break condition {broken} of the 2018 paper: "
            "its smooth sensitivity is not one. Take another order, or pate.privacy.publish.release_smooth."
        )
    value, sensitivity, _ = _value_and_sensitivity(votes, sigma, order, None, None)
    smooth = float((np.exp(-beta * np.arange(len(sensitivity))) * sensitivity).max())
    centre = Fraction(value) + Fraction(price) + Fraction(rdp_overhead(order, check_delta(delta)))
    steps = rounded_up(centre, scale=Fraction(smooth) * Fraction(noise_scale), grid=GRID, source=noise)
    return Guarantee(
        epsilon=float(max(0, steps) * GRID),
        delta=delta,
        kind="seeded" if noise.seeded else "sanitised",
        method=f"papernot2018 smooth sensitivity, beta {beta:g}, noise scale {noise_scale:g}",
        order=float(order),
        directions="forward",
        adaptivity="fixed queries",
    )
