"""Subsampled Gaussians composed at deltas that the rounding of an ordinary Fourier transform would use up.

The composition is that of :mod:`pate.privacy.exact._composition`: losses tilted by exp(theta loss), so that rounding is
small against the tail that decides delta. What is fed to it must be accurate in the tails too. This module computes it.

**Masses.** A dominating pair (P, Q) of one step has an increasing likelihood ratio: {loss > l} is a half-line that
begins at x(l), in closed form. At the points l_k of a grid of width h, H_k = P(loss > l_k) - e^{l_k} Q(loss > l_k) is
the hockey-stick divergence; its chords dominate (Doroshenko et al. 2022), and belong to the pair that splits the masses
p and q of each cell (l_k, l_{k+1}] between its two ends: a = (e^{l_{k+1}} q - p) / (e^h - 1) to the lower one, p - a to
the upper one. Below the grid mass is lifted to its lowest point, above it to infinity: both are upwards.

**Rounding.** Let P's tails be rounded up and Q's down: every H_k only grows, as it is linear in them, and with it the
chords. (x(l) is rounded too; as x(l) maximises P - e^l Q, that lowers H_k by the square of the rounding, far below what
the tails are raised by.) Let then a be rounded down, and kept within [0, p]: mass moves to larger losses, and every
divergence grows. Both hold for any size of the rounding; sizes need only be large enough, and cost some 1e-14 of a
loss each step. Tails are accurate relatively: where less than half is below a point it is counted from there, else from
above. So each mass is that of such a pair within a few units in the last place: ``PROBABILITY_ERROR`` of
:func:`pate.privacy.exact._composition.compose_epsilons` pays for these, its own bounds for the transform, for what
wraps around it and for the last digits of sums. Mass at infinity is at most 2e-6 of delta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr, ndtri

from pate._core.checks import largest_of, least_of
from pate._core.types import FloatArray
from pate.privacy.exact._composition import LossTable, compose_epsilons

__all__ = ["Branches", "loss_masses", "tilted_epsilon"]


#: A public coin between pairs: (probability, sampling rate, noise over the norm of one contribution) of each side.
Branches = tuple[tuple[float, float, float], ...]

#: The ordered pairs of an adjacency: P = (1-q) N(0) + q N(1) or N(0); Q = (1-q) N(0) + q N(-1), or N(0) against such P.
DIRECTIONS = {
    "replace-one": ("replace",),
    "add-or-remove": ("remove", "add"),
    "zero-out": ("remove", "add"),
}
#: Losses beyond it have all their mass put at infinity.
_LARGEST_LOSS = 600.0
#: Points of a grid, over all kinds of steps, beyond which it is not worth its memory.
_MOST_POINTS = 2**24
#: Part of delta for losses beyond the grid, and as much again for the largest on it.
_PART = 1e-6
#: Smallest number whose relative accuracy is relied on.
_TINY = 1e-290


def tilted_epsilon(
    kinds: Sequence[tuple[Branches, int]], delta: float, interval: float, *, adjacency: str = "replace-one"
) -> float:
    """Return an upper bound on the epsilon of steps of several kinds, each so many times; infinite where none is found.

    Parameters
    ----------
    kinds : sequence of (Branches, int)
        Noise of at least 0.05.
    delta : float
        Not too small for numbers: 1e-12 and 1e6 steps are tested.
    interval : float
        Grid of the privacy loss, in nats.
    adjacency : {"replace-one", "add-or-remove", "zero-out"}

    Examples
    --------
    >>> found = tilted_epsilon([(((1.0, 0.01, 1.0),), 1000)], 1e-12, 1e-3)
    >>> round(found, 2)
    5.08
    """
    counts = np.array([n for _, n in kinds], dtype=np.float64)
    tail = _PART * delta / counts.sum()
    found = 0.0
    for direction in DIRECTIONS[adjacency]:
        least, top = (
            least_of(largest_of(*sizes), _LARGEST_LOSS)
            for sizes in zip(*(_range(b, direction, tail) for b, _ in kinds), strict=True)
        )
        while True:
            reach = math.ceil(top / interval) + 1
            if 2 * reach * len(kinds) > _MOST_POINTS:
                return math.inf
            rows, infinite = zip(*(loss_masses(b, direction, interval, reach, tail) for b, _ in kinds), strict=True)
            left = delta - float(counts @ np.array(infinite))
            if left <= 0:
                return math.inf
            table = LossTable(interval, np.array(rows))
            theta, most = _tilt(table, counts, left)
            if theta < 0.9 * most or top <= least:
                break
            # Only small losses are that large: at this tilt they weigh nothing, and are lifted to half as far down.
            top = largest_of(top / 2, least)
        found = largest_of(found, float(compose_epsilons(table, counts, left, theta)[0]))
    return found


def loss_masses(
    branches: Branches, direction: str, interval: float, reach: int, tail: float = 0.0
) -> tuple[FloatArray, float]:
    """Return pessimistic masses of one step's privacy loss on a grid, and the mass at infinity.

    Parameters
    ----------
    branches : Branches
    direction : {"replace", "remove", "add"}
    interval : float
    reach : int
    tail : float
        Largest losses of so much probability are put at infinity too.

    Returns
    -------
    masses : (2 reach + 1,) array
        At the losses ``interval * k``, k = -reach ... reach.
    infinite : float

    Examples
    --------
    >>> masses, infinite = loss_masses(((1.0, 0.1, 2.0),), "replace", 0.01, 300)
    >>> abs(float(masses.sum()) - 1) < 1e-12, infinite < 1e-12
    (True, True)
    """
    losses: FloatArray = np.asarray(np.arange(-reach, reach + 1) * interval, dtype=np.float64)
    masses, infinite = np.zeros(2 * reach + 1), 0.0
    with np.errstate(under="ignore", divide="ignore"):
        for weight, q, s in branches:
            first, second = _sides(direction, q)
            x = _half_line(direction, q, s, losses)
            below, p, above = _cells(first, x, s, upwards=True)
            _, other, _ = _cells(second, x, s, upwards=False)
            # exp(l) is off by |l| units in the last place for l's own rounding, and by a few.
            unit = (8 + 2 * np.abs(losses[1:])) * 2.0**-53
            lower = (np.exp(losses[1:]) * other - p - unit * p) / math.expm1(interval)
            lower = np.clip(lower, 0.0, p)
            masses[:-1] += weight * lower
            masses[1:] += weight * (p - lower)
            masses[0] += weight * below
            infinite += weight * above
    kept = int(np.count_nonzero(np.cumsum(masses[::-1])[::-1] > tail))
    infinite += float(masses[kept:].sum())
    masses[kept:] = 0.0
    return masses, infinite


def _sides(direction: str, q: float) -> tuple[tuple[tuple[float, float], ...], tuple[tuple[float, float], ...]]:
    """Return (weight, mean) of the components of P and of Q."""
    up, none, down = ((1 - q, 0.0), (q, 1.0)), ((1.0, 0.0),), ((1 - q, 0.0), (q, -1.0))
    return {"replace": (up, down), "remove": (up, none), "add": (none, down)}[direction]


def _half_line(direction: str, q: float, s: float, losses: FloatArray) -> FloatArray:
    """Return where each loss is reached; -inf and inf where all losses are larger or smaller."""
    if direction == "replace":
        if q == 1:
            return s * s / 2 * losses
        return np.asarray(s * s * (losses / 2 + np.arcsinh((1 - q) / q * math.exp(0.5 / s**2) * np.sinh(losses / 2))))
    sign = 1.0 if direction == "remove" else -1.0
    share = np.expm1(sign * losses) / q  # e^loss = 1 - q + q y, y the ratio of the Gaussians
    return np.asarray(sign * (0.5 + s * s * np.log1p(np.maximum(share, -1.0))))


def _range(branches: Branches, direction: str, tail: float) -> tuple[float, float]:
    """Return how far a grid must reach for large losses, and for small ones too.

    Beyond it there is probability of about ``tail``. Any numbers would do: what is beyond is counted.
    """
    least, most = 0.0, 0.0
    for _, q, s in branches:
        rest = math.log1p(-q) if q < 1 else -math.inf
        x = s * -float(ndtri(least_of(tail, 0.1))) + (direction != "add")
        up = float(np.logaddexp(rest, math.log(q) + (2 * x - 1) / (2 * s * s)))
        down = float(np.logaddexp(rest, math.log(q) - (2 * x + 1) / (2 * s * s))) if direction == "replace" else 0.0
        most = largest_of(most, up - down)
        least = largest_of(least, least_of(-rest, most) if direction == "add" else most)
    return least, most


def _cells(
    parts: Sequence[tuple[float, float]], x: FloatArray, s: float, *, upwards: bool
) -> tuple[float, FloatArray, float]:
    """Return the masses of a mixture below x[0], between neighbours of x, and above x[-1].

    Tails above are rounded up (``upwards``) or down at every x, by at least twice their error: that of ndtr, and of its
    argument z, which moves exp(-z^2/2) by z^2 units in the last place.
    """
    below, above = np.zeros(len(x)), np.zeros(len(x))
    for weight, mean in parts:
        z = (x - mean) / s
        below += weight * ndtr(z)
        above += weight * ndtr(-z)
    size = np.minimum((np.abs(x) + 1) / s, 40.0)
    size, tiny = 1e-15 * (8 + 4 * size**2), np.where(np.isinf(x), 0.0, _TINY)
    if upwards:
        above = np.maximum.accumulate((above * (1 + size) + tiny)[::-1])[::-1]
        below = np.minimum.accumulate(np.maximum(below * (1 - size) - tiny, 0.0)[::-1])[::-1]
    else:
        above = np.minimum.accumulate(np.maximum(above * (1 - size) - tiny, 0.0))
        below = np.maximum.accumulate(below * (1 + size) + tiny)
    middle = int(np.searchsorted(below, 0.5))
    cells = np.concatenate([np.diff(below[:middle]), np.zeros(1), -np.diff(above[middle:])])
    if middle == 0:
        return 1 - float(above[0]), cells[1:], float(above[-1])
    if middle == len(x):
        return float(below[0]), cells[:-1], 1 - float(below[-1])
    cells[middle - 1] = max(1 - float(below[middle - 1]) - float(above[middle]), 0.0)
    return float(below[0]), cells, float(above[-1])


def _tilt(table: LossTable, counts: FloatArray, delta: float) -> tuple[float, float]:
    """Return about the tilt under which the mean loss is epsilon (the order of the best Renyi bound, less 1).

    Also the largest tilt that numbers have room for. Any tilt would do; so a coarser grid does.
    """
    width = max(1, table.masses.shape[1] // 4096)
    starts = np.arange(0, table.masses.shape[1], width)
    masses = np.add.reduceat(table.masses, starts, axis=1)
    losses = table.losses[starts] + (width - 1) / 2 * table.discretization
    most = _LARGEST_LOSS / losses[-1]
    best, ratio = math.sqrt(most * 0.1), most / 0.1
    for points in (60, 12):
        thetas = np.clip(best * ratio ** np.linspace(-0.5, 0.5, points), None, most)
        growth = thetas[:, None] * losses
        with np.errstate(under="ignore", divide="ignore"):
            cumulants = np.log(np.exp(growth) @ masses.T) @ counts
        orders = thetas + 1
        overhead = -math.log(delta) + thetas * np.log1p(-1 / orders) - np.log(orders)
        best = float(thetas[np.argmin((cumulants + overhead) / thetas)])
        ratio = ratio ** (2 / points)
    return best, most
