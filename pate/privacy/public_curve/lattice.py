"""The public constant for *discrete* Gaussian noise with uniform ties: a finite maximum for each sigma.

On the integers no margin between grid points is needed: docs/public-curve.md (theorem 3) reduces every histogram,
number of classes and pattern of ties to three families of three-outcome laws indexed by two integers, so the supremum
over a triangle of Z^2 is a plain maximum, and the rest is a tail bound: some 400 sigma^2 evaluations an order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_real
from pate.core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.privacy.public_curve.certify import SLACK, excess

__all__ = ["lattice_rho_star"]

_REACH = 8.0  # sigmas beyond which an outcome is negligible


class _Laws:
    """The winner's log probabilities on the square of integers low <= i, j <= high (the rest's best stands at 0)."""

    def __init__(self, sigma: float, low: int, high: int) -> None:
        self.axis = np.arange(low, high + 1)
        r = 2 * max(-low, high) + int(9 * sigma)
        x = np.arange(-r, r + 1.0)
        mass = np.exp(-0.5 * (x / sigma) ** 2)
        mass /= mass.sum()
        cdf = np.cumsum(mass)
        self._at = lambda k: mass[k + r]
        self._upto = lambda k: cdf[k + r]
        n, i = len(self.axis), self.axis
        # win[i, j] = sum over s >= 0 of p(s - i) (F(s - 1 - j) + p(s - j)/2); a step along the diagonal adds a term.
        s = np.arange(0, high + int(8 * sigma) + 2)
        half = self._upto(s[:, None] - 1 - i[None, :]) + 0.5 * self._at(s[:, None] - i[None, :])
        win = np.empty((n, n))
        win[0] = self._at(s - i[0]) @ half
        win[:, 0] = self._at(s[None, :] - i[:, None]) @ half[:, 0]
        step = self._at(-i)[:, None] * (self._upto(-1 - i) + 0.5 * self._at(-i))[None, :]
        for row in range(1, n):
            win[row, 1:] = win[row - 1, :-1] + step[row, 1:]
        self.win, self.tie = win, step

    def logs(self, a: IntArray, b: IntArray, bits: tuple[int, int]) -> FloatArray:
        """Return log P (3, n) at axis indices a, b; bits say which of the two beats the rest on a tie with it."""
        i, j = self.axis[a], self.axis[b]
        first, second = self.win[a, b], self.win[b, a]
        if bits == (1, 0):  # at level 0 the first wins ties with the rest, and against the second
            first = first - self.tie[a, b] + self._at(-i) * self._upto(-j)
            second = second - self.tie[b, a]
        elif bits == (0, 1):
            second = second - self.tie[b, a] + self._at(-j) * self._upto(-i)
            first = first - self.tie[a, b]
        neither = self._upto(-i - bits[0]) * self._upto(-j - bits[1])
        return np.log(np.stack([first, second, neither]))


def lattice_rho_star(orders: npt.ArrayLike, sigma: float) -> FloatArray:
    """Return a proved bound on the Renyi divergence of one argmax with N_Z(0, sigma^2) noise and uniform ties.

    Parameters
    ----------
    orders : array-like of shape (n_orders,)
        Each > 1 and at most 6 sigma; larger ones get orders / sigma^2.
    sigma : float
        1 to 100 (the cost grows like sigma^2: 0.2 to 0.6 s per order at 40).

    Returns
    -------
    numpy.ndarray of shape (n_orders,)

    Examples
    --------
    >>> (lattice_rho_star([2.0, 8.0], 5.0) * 5**2 / [2, 8]).round(2)
    array([0.64, 0.69])
    """
    a = np.asarray(orders, dtype=np.float64)
    if a.ndim != 1 or (a <= 1).any():
        raise InvalidInputError(f"orders must be numbers > 1 of shape (n_orders,), got {orders!r}.")
    sigma = check_real("sigma", sigma, low=1, high=100)
    out = a / sigma**2
    use = np.flatnonzero(a <= 6.0 * sigma)
    if not len(use):
        return np.asarray(out)
    edge = int(np.ceil(_REACH * sigma)) + 1
    total = int(np.ceil(np.sqrt(2.0) * _REACH * sigma)) + 1
    low = -edge - int(np.ceil(a[use].max()))
    high = total - low + 1
    laws = _Laws(sigma, low - 1, high + 1)
    i, j = np.meshgrid(np.arange(1, len(laws.axis) - 1), np.arange(1, len(laws.axis) - 1), indexing="ij")
    keep = laws.axis[i] + laws.axis[j] <= total
    i, j = i[keep], j[keep]
    # Tail of one lattice Gaussian, and of a sum of two given the parity of the difference.
    far = _tails(sigma, edge - 1), 2.0 * _tails(np.sqrt(2.0) * sigma, total - 1, parity=True)
    best = np.zeros(len(use))
    for bits in ((1, 1), (1, 0), (0, 1)):
        log_p, log_q = laws.logs(i, j, bits), laws.logs(i - 1, j + 1, bits)
        for n, order in enumerate(a[use]):
            inside = (laws.axis[i] >= -edge - order) & (laws.axis[j] >= -edge - 2)
            g = excess(order, log_p[:, inside], log_q[:, inside])
            best[n] = max(best[n], float(np.log1p(g.max() * (1.0 + SLACK))))
    for n, order in enumerate(a[use]):
        growth = np.exp(order * (order - 1.0) / sigma**2)
        lagging = 0.5 * order * (order - 1.0) / sigma**2 + (order - 1.0) * -np.log1p(-far[0]) + growth * far[0]
        ridge = _two_classes(order, sigma) + (order - 1.0) * -np.log1p(-far[1]) + growth * far[1]
        best[n] = max(best[n], lagging, ridge)
    out[use] = np.minimum(out[use], best / (a[use] - 1.0))
    return np.asarray(out)


def _two_classes(order: float, sigma: float) -> float:
    """Bound (a - 1) D_a of an argmax of two classes: a maximum over the gap, and the same tail bound beyond."""
    r = int(9.0 * sigma + order) + 4  # 2r > sqrt(2) 8 sigma + 2a: the table reaches as far as the maximum
    mass = np.exp(-0.5 * (np.arange(-r, r + 1.0) / sigma) ** 2)
    mass /= mass.sum()
    difference = np.convolve(mass, mass)
    wins = np.cumsum(difference) - 0.5 * difference  # P(D < d) + P(D = d)/2, d = -2r .. 2r: the first leads by d
    reach = int(np.ceil(np.sqrt(2.0) * _REACH * sigma)) + 2
    low, high = 2 * r - reach - 2 * int(np.ceil(order)), 2 * r + reach
    d = np.arange(low, high + 1)
    law = np.log(np.stack([wins, wins[::-1]]))
    g = excess(order, law[:, d], law[:, d - 2]).max()
    tail = 2.0 * _tails(np.sqrt(2.0) * sigma, 2 * r - low - 2 * int(np.ceil(order)) - 2, parity=True)
    growth = np.exp(order * (order - 1.0) / sigma**2)
    return float(max(np.log1p(g * (1.0 + SLACK)), (order - 1.0) * -np.log1p(-tail) + growth * tail))


def _tails(sigma: float, k: int, *, parity: bool = False) -> float:
    """P(X >= k) for N_Z(0, sigma^2); with ``parity`` the larger of the two classes' conditional tails."""
    x = np.arange(-int(40 * sigma) - 2, int(40 * sigma) + 3)
    mass = np.exp(-0.5 * (x / sigma) ** 2)
    if not parity:
        return float(mass[x >= k].sum() / mass.sum())
    return max(float(mass[(x >= k) & (x % 2 == c)].sum() / mass[x % 2 == c].sum()) for c in (0, 1))
