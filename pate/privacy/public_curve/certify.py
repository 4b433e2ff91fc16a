"""Recompute the certified public constants: ``python -m pate.privacy.public_curve.certify --jobs 2``.

Writes ``rho_star_table.npz`` (5 minutes of one core). Every number in it is an upper bound that does not rest on an
optimiser's word; docs/public-curve.md has the proofs. For one order a and one h = 1/sigma the divergence of two
three-outcome laws has to be bounded over the whole plane of (x, y):

* a triangle ``x >= -X, y >= -Y, x + y <= sqrt(2) L`` by cells. On a square of side d a function whose second
  derivatives are all >= -K is at most its largest corner value plus K d^2 / 4 (Lemmas 3 and 4 give two such K);
* outside the triangle by Lemma 5 (one of the three outcomes is then negligible, and the rest is a binary law).

Cells that could still exceed the best corner are split. Rounding and quadrature errors (Lemma 6) are covered by
``SLACK``.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr

from pate._core.checks import largest_of, least_of
from pate._core.types import FloatArray, IntArray

TABLE = Path(__file__).with_name("rho_star_table.npz")
UNIT = 60_000  # the table holds ceil(constant * UNIT) as 16-bit integers
SLACK = 1e-6  # relative, on exp((a-1) D) - 1: docs/public-curve.md, Lemma 6 needs 4e-8 at h = 1e-4
LARGEST_T = 6.0  # beyond a/sigma = 6 the gain is below 5%: the table holds 1 there
THIRD_ABSOLUTE_MOMENT = 2.0 * np.sqrt(2.0 / np.pi)  # E|G|^3 of a standard normal
LEVELS = (16, 4, 1)  # cell sides, in units of STEP
STEP = 0.0125
RIDGE = 8.0  # L: distance beyond which "neither" is negligible
MARGIN = 8.0  # beyond it a class that lags by so many sigma is negligible


def grid_orders(ratio: float = 1.08, smallest: float = 0.01, largest: float = 8192.0) -> FloatArray:
    """Return the table's orders: a - 1 grows geometrically, whole orders up to 64 are hit exactly.

    Examples
    --------
    >>> 2.0 in grid_orders(), float(grid_orders()[0])
    (True, 1.01)
    """
    n = int(np.ceil(np.log(largest / smallest) / np.log(ratio)))
    geometric = 1.0 + smallest * ratio ** np.arange(n + 1)
    exact = np.concatenate([np.arange(2.0, 17.0), [1.25, 1.5, 1.75, 2.5, 20.0, 24.0, 32.0, 48.0, 64.0]])
    far = geometric[np.abs(geometric[:, None] - exact[None, :]).min(axis=1) > 0.03 * (geometric - 1.0)]
    return np.sort(np.concatenate([far, exact]))


def grid_inverse_sigmas(ratio: float = 1.08, smallest: float = 1e-4, largest: float = 2.0) -> FloatArray:
    """Return the table's values of 1/sigma (1/sensitivity for the threshold test), with 1/10, 1/40 ... exact.

    Examples
    --------
    >>> bool(1 / 40 in grid_inverse_sigmas())
    True
    """
    n = int(np.ceil(np.log(largest / smallest) / np.log(ratio)))
    geometric = smallest * ratio ** np.arange(n + 1)
    exact = 1.0 / np.array([5.0, 10.0, 20.0, 40.0, 50.0, 100.0, 150.0, 200.0])
    far = geometric[np.abs(geometric[:, None] / exact[None, :] - 1.0).min(axis=1) > 0.03]
    return np.sort(np.concatenate([far, exact]))


def excess(order: float, log_p: FloatArray, log_q: FloatArray) -> FloatArray:
    """Return sum_j Q_j g_a(l_j) = exp((a-1) D_a(P||Q)) - 1 over the first axis (outcomes).

    Examples
    --------
    >>> law = np.log(np.array([0.3, 0.7]))
    >>> float(excess(2.0, law, law))
    0.0
    """
    ratio = log_p - log_q
    return np.sum(np.exp(log_q) * (np.expm1(order * ratio) - order * np.expm1(ratio)), axis=0)


def curvatures(order: float, shift_sq: float, per_step: float, third: float) -> tuple[float, float]:
    """Return (K_G, K_F): no second derivative of G = exp(F) - 1 is below -K_G, none of F = (a-1) D below -K_F.

    Parameters
    ----------
    order : float
    shift_sq : float
        Squared length of the shift between the two laws (2 h^2, or s^2 in one dimension).
    per_step : float
        Bound on the gradient difference |l_e|, the length of the shift.
    third : float
        Bound on |l_ee|.
    """
    a = order
    whole = float(np.expm1(a * (a - 1.0) * shift_sq / 2.0))
    tv = float(2.0 * ndtr(np.sqrt(shift_sq) / 2.0) - 1.0)
    slope = a * (whole + 2.0 * (a - 1.0) * tv)
    square = a * (a - 1.0) * (2.0 + np.exp(-1.0) + 1.0 + whole) + a * (whole + (a - 1.0) * tv)
    k_g = whole + per_step**2 * square + third * slope
    return float(k_g), 1.0 + (a - 1.0) * third


def cell_bound(order: float, corner: FloatArray, k_g: float, k_f: float, r_sq: float) -> FloatArray:
    """Return the bound on F over cells with the largest corner G and r_sq = squared distance corner - centre."""
    inflated = corner * (1.0 + SLACK)
    return np.minimum(np.log1p(inflated + k_g * r_sq / 2.0), np.log1p(inflated) + k_f * r_sq / 2.0)


def binary_bound(order: float, shift: float, step: float = 0.004) -> float:
    """Return a proved bound on sup_u (a-1) D_a between the laws (Phi(u), Phi(-u)) at u and at u - shift.

    Examples
    --------
    >>> round(binary_bound(2.0, 0.01) / (2 * 0.01**2 / 2), 3)
    0.637
    """
    a, tail = order, 9.0
    low, high = -tail - (a - 1.0) * shift, tail + shift
    n = int(np.ceil((high - low) / step))
    u = np.linspace(low, high, n + 1)
    g = excess(a, np.stack([log_ndtr(u), log_ndtr(-u)]), np.stack([log_ndtr(u - shift), log_ndtr(shift - u)]))
    third = least_of(1.0, THIRD_ABSOLUTE_MOMENT * shift)
    k_g, k_f = curvatures(a, shift**2, shift, third)
    inside = cell_bound(a, np.maximum(g[1:], g[:-1]), k_g, k_f, ((high - low) / n / 2.0) ** 2).max()
    growth = np.exp(a * (a - 1.0) * shift**2 / 2.0)
    outside = (a - 1.0) * -np.log1p(-ndtr(-tail)) + growth * ndtr(-tail)
    return largest_of(float(inside), float(outside))


class Plane:
    """The lattice of (x, y), and the three outcomes' log probabilities on it and on its shift by (-h, +h).

    Examples
    --------
    >>> plane = Plane(6.0, step=0.2)
    >>> bool(abs(plane.win[5, 5] + plane.win[5, 5] + ndtr(-plane.axis[5]) ** 2 - 1) < 1e-12)
    True
    """

    def __init__(self, reach: float = LARGEST_T, step: float = STEP) -> None:
        self.step = step
        self.low = -(MARGIN + reach)
        self.axis: FloatArray = np.asarray(
            self.low + step * np.arange(int(np.ceil((MARGIN + 18.0 - self.low) / step)) + 1), dtype=np.float64
        )
        node, weight = np.polynomial.legendre.leggauss(16)
        panels = np.arange(36.0)
        self._v = (panels[:, None] + 0.5 + 0.5 * node[None, :]).ravel()
        self._w = np.tile(0.5 * weight, len(panels)) / np.sqrt(2.0 * np.pi)
        self.win = self._win(self.axis, self.axis)  # P(first wins) at (x, y); P(second wins) is the transpose

    def _win(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """P(N(x,1) > max(0, N(y,1))) on the product of two axes: a sum of positive terms, so no cancellation."""
        density: FloatArray = self._w * np.exp(-0.5 * (self._v[None, :] - x[:, None]) ** 2)
        return density @ ndtr(self._v[:, None] - y[None, :])

    def shift(self, h: float) -> None:
        """Prepare the shifted laws."""
        self.h = h
        self.first = self._win(self.axis - h, self.axis + h)
        self.second = self._win(self.axis + h, self.axis - h).T
        self._minus = (log_ndtr(-self.axis), log_ndtr(-(self.axis - h)), log_ndtr(-(self.axis + h)))

    def laws(self, i: IntArray, k: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return log P and log Q, each (3, n), at lattice points (i, k)."""
        base, left, right = self._minus
        log_p = np.stack([np.log(self.win[i, k]), np.log(self.win[k, i]), base[i] + base[k]])
        log_q = np.stack([np.log(self.first[i, k]), np.log(self.second[i, k]), left[i] + right[k]])
        return log_p, log_q


def outside_triangle(order: float, h: float) -> float:
    """Lemma 5: a bound on (a-1) D_a wherever x <= -X, y <= -Y or x + y >= sqrt(2) L."""
    a = order
    growth = np.exp(a * (a - 1.0) * h * h)
    lag = ndtr(-MARGIN)
    lagging = 0.5 * a * (a - 1.0) * h * h + (a - 1.0) * -np.log1p(-lag) + growth * lag
    far = ndtr(-RIDGE)
    ridge = binary_bound(a, np.sqrt(2.0) * h) + (a - 1.0) * -np.log1p(-far) + growth * far
    return largest_of(float(lagging), float(ridge))


def certify_plane(order: float, plane: Plane) -> float:
    """Return the certified bound on sup (a-1) D_a for the plane's h."""
    a, h = order, plane.h
    third = least_of(1.0, np.sqrt(2.0) * THIRD_ABSOLUTE_MOMENT * h)
    k_g, k_f = curvatures(a, 2.0 * h * h, np.sqrt(2.0) * h, third)
    side = LEVELS[0]
    x_low, y_low = -(MARGIN + (a - 1.0) * h), -(MARGIN + h)
    last = len(plane.axis) - 1 - side
    first_x = max(0, int(np.floor((x_low - plane.low) / plane.step)) - 1)
    first_y = max(0, int(np.floor((y_low - plane.low) / plane.step)) - 1)
    i, k = np.meshgrid(np.arange(first_x, last + 1, side), np.arange(first_y, last + 1, side), indexing="ij")
    # The cells cover the triangle: its corners are (x_low, y_low) and the two where x + y = sqrt(2) L.
    reach = plane.axis[last] + plane.step
    short = reach < np.sqrt(2.0) * RIDGE - least_of(x_low, y_low)
    if plane.axis[first_x] > x_low or plane.axis[first_y] > y_low or short:
        raise ValueError(f"the lattice does not cover the triangle at order {a}, 1/sigma {h}: use a larger reach.")
    keep = plane.axis[i] + plane.axis[k] <= np.sqrt(2.0) * RIDGE
    i, k = i[keep], k[keep]
    floor = best = 0.0
    for level, side in enumerate(LEVELS):
        points, where = np.unique(
            np.stack([i, i + side, i, i + side], 1).ravel() * len(plane.axis)
            + np.stack([k, k, k + side, k + side], 1).ravel(),
            return_inverse=True,
        )
        g = excess(a, *plane.laws(points // len(plane.axis), points % len(plane.axis)))
        corner = g[where].reshape(-1, 4).max(axis=1)
        bound = cell_bound(a, corner, k_g, k_f, (side * plane.step) ** 2 / 2.0)
        floor = largest_of(floor, float(np.log1p(corner.max())))
        # A cell is decided once it cannot exceed the best point seen by more than 0.02%.
        todo = bound > floor * 1.0002
        if level == len(LEVELS) - 1 or not todo.any():
            best = largest_of(best, float(bound.max()))
            break
        if (~todo).any():
            best = largest_of(best, float(bound[~todo].max()))
        split = LEVELS[level + 1] * np.arange(side // LEVELS[level + 1])
        i = (i[todo][:, None, None] + split[None, :, None] + 0 * split[None, None, :]).ravel()
        k = (k[todo][:, None, None] + 0 * split[None, :, None] + split[None, None, :]).ravel()
    return largest_of(best, outside_triangle(a, h))


def constants(h: float, orders: FloatArray, plane: Plane) -> FloatArray:
    """Return the certified constants (2, n_orders): rho* / (a h^2), and the threshold's / (a h^2 / 2).

    Where the Gaussian bound is as good, the constant is 1.
    """
    plane.shift(h)
    out = np.ones((2, len(orders)))
    for n, a in enumerate(orders):
        if a * h <= LARGEST_T:
            scale = a * (a - 1.0) * h * h
            out[0, n] = least_of(1.0, certify_plane(a, plane) / scale)
            out[1, n] = least_of(1.0, binary_bound(a, h) / (scale / 2.0))
    return out


def _columns(hs: FloatArray, orders: FloatArray) -> list[FloatArray]:
    plane = Plane()
    return [constants(float(h), orders, plane) for h in hs]


def build(jobs: int) -> tuple[FloatArray, FloatArray, npt.NDArray[np.uint16]]:
    """Return the table: orders, values of 1/sigma, and ceil(constant * UNIT) (2, n_h, n_orders)."""
    orders, hs = grid_orders(), grid_inverse_sigmas()
    shares = [hs[j :: max(1, 4 * jobs)] for j in range(max(1, 4 * jobs))]
    table = np.ones((2, len(hs), len(orders)))
    with ProcessPoolExecutor(jobs) as pool:
        for j, columns in enumerate(pool.map(_columns, shares, [orders] * len(shares))):
            for n, column in enumerate(columns):
                table[:, j + n * max(1, 4 * jobs)] = column
    return orders, hs, np.minimum(UNIT, np.ceil(table * UNIT)).astype(np.uint16)


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    jobs = parser.parse_args().jobs
    start = time.perf_counter()
    orders, hs, table = build(jobs)
    np.savez_compressed(TABLE, orders=orders, inverse_sigmas=hs, table=table)
    print(f"{table.shape} in {time.perf_counter() - start:.0f} s, {TABLE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
