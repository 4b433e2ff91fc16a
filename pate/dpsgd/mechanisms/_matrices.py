"""Correlated noise by Toeplitz matrices in closed form: coefficients, what one unit moves, and the error that is left.

A run of n steps releases ``C X + sigma Z`` for a lower triangular C (n, n), the sums of clipped gradients X (n, d) and
independent normals Z (n, d), which is the same as ``X + sigma C^-1 Z``: every step's sum gets noise that takes back
some of what earlier steps got. Optimisers add gradients up, and in sums over many steps the noise then cancels.

**Sensitivity.** A unit takes part in steps r, r + b, r + 2 b, ... (or in some of them), each time with a gradient of
norm at most 1. With all rows g_t of what it moves, |C G|^2 = sum over s, t of (C^T C)_st <g_s, g_t>, which is at most
the sum of |C^T C|_st over its steps, and equal to it where C^T C >= 0 (all g_t the same): |sum of the columns of C at
r, r + b, ...| (Choquette-Choo, McMahan, Rush, Thakurta 2023, "Multi-epoch matrix factorization mechanisms", section 2;
absolute values: "(Amplified) banded matrix factorization", 2023, equation 5). :func:`cyclic_sensitivity` is the largest
of these over r, computed by adding up columns; absolute values are taken first, so that it stays an upper bound
whatever the signs. For Toeplitz C with falling coefficients the first offset is the worst, even of all patterns with
gaps of b and more (Kalinin and Lampert 2024, "Banded square root matrix factorization"): a test finds the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.signal import lfilter

from pate.core.checks import largest_of
from pate.core.types import FloatArray

# Correlated noise by binary trees: a node is the noisy sum of a block of steps, and all nodes are used at best.


@dataclass(frozen=True)
class Forest:
    """Complete binary trees, one after the other, scaled so that no step is in nodes of more than 1 in squares.

    Attributes
    ----------
    restart : int
        Number of steps after which new trees begin.
    """

    n_steps: int
    restart: int

    @property
    def trees(self) -> tuple[tuple[int, int], ...]:
        """First step and height of each: a tree of height h has 2^h steps."""
        found, start = [], 0
        while start < self.n_steps:
            stop = min(start + self.restart, self.n_steps)
            while start < stop:
                height = (stop - start).bit_length() - 1
                found.append((start, height))
                start += 1 << height
        return tuple(found)

    @property
    def scale(self) -> float:
        """Norm of the longest column of H: in how many nodes a step is, at most, under the square root."""
        return math.sqrt(1 + largest_of(*(height for _, height in self.trees)))

    def nodes(self) -> npt.NDArray[np.int64]:
        """Return the nodes' blocks, first step and the step behind the last: shape (n_nodes, 2)."""
        levels = [
            start + (np.arange(1 << (height - h))[:, None] + [0, 1]) * (1 << h)
            for start, height in self.trees
            for h in range(height + 1)
        ]
        return np.concatenate(levels)

    def sensitivity(self, separation: int) -> float:
        """Return what one unit moves that takes part in every ``separation``-th step: exact, as H >= 0.

        A node is moved by as many gradients as the unit has steps in its block, and all may point the same way
        (:mod:`pate.dpsgd.mechanisms._matrices`); the first step is tried out.
        """
        low, high = self.nodes().T
        worst = 0
        for first in range(min(separation, self.n_steps)):
            # How many of first, first + separation, ... lie in the block: those below its end less those below it.
            below_high, below_low = (np.maximum(0, -((first - x) // separation)) for x in (high, low))
            counts = below_high - below_low
            worst = max(worst, int(counts @ counts))
        return math.sqrt(worst) / self.scale

    def dense(self) -> FloatArray:
        """Return H over its scale, shape (n_nodes, n_steps)."""
        steps = np.arange(self.n_steps)
        low, high = self.nodes().T[:, :, None]
        return np.asarray(((low <= steps) & (steps < high)) / self.scale)

    def rmse(self, momentum: float = 0.0) -> float:
        """Return the root mean squared error of the iterates for a noise multiplier of one; takes n_steps^3 time.

        As :meth:`pate.dpsgd.mechanisms._matrices.Toeplitz.rmse`.
        """
        H = self.dense()
        covariance = np.linalg.inv(H.T @ H)
        recursion = [1.0, -(1 + momentum), momentum]
        summed = lfilter([1.0], recursion, lfilter([1.0], recursion, covariance, axis=0), axis=1)
        return math.sqrt(float(summed.trace()) / self.n_steps)


def tree_step(step: int, height: int) -> tuple[tuple[tuple[int, float], ...], float]:
    """Return how the noise of one step of a tree hangs on the noise before it, for nodes with unit noise.

    Parameters
    ----------
    step : int
        In the tree: 0, ..., 2^height - 1.

    Returns
    -------
    weights : tuple of (int, float)
        Of the summed noise of the finished block of height h left of the path to the step, one pair for each.
    std : float
        Of what is drawn anew.
    """
    p = 0.0
    inner: dict[int, float] = {}
    for h in range(height - 1, -1, -1):
        q = 1 + p
        inner = {left: w * p / q for left, w in inner.items()}
        if step >> h & 1:
            inner[h] = 1.0
            p = q
        else:
            a = 2 - 2.0**-h
            p = q * a / (q + a)
    return tuple((h, -w * p / (1 + p)) for h, w in inner.items()), 1 / math.sqrt(1 + p)


def root_coefficients(n: int, *, momentum: float = 0.0, inverse: bool = False) -> FloatArray:
    """Return the first column of the square root of the optimiser's matrix A, or of the root's inverse.

    A holds what each gradient adds to each iterate of SGD with ``momentum``: the series 1/((1 - x)(1 - momentum x)),
    which is 1/(1 - x), prefix sums, without. Its square root is the product of (1 - x)^(-1/2) and
    (1 - momentum x)^(-1/2) (Fichtenberger, Henzinger, Upadhyay 2023; with momentum, Kalinin and Lampert 2024).

    Parameters
    ----------
    n : int
        How many coefficients.
    momentum : float
        In [0, 1).
    inverse : bool
        Those of C^-1 instead of C.

    Returns
    -------
    float64 array of shape (n,)
    """
    k = np.arange(1, n)
    binomial = np.cumprod(np.r_[1.0, (k - 1.5) / k if inverse else (k - 0.5) / k])
    if momentum == 0:
        return np.asarray(binomial)
    return np.asarray(np.convolve(binomial, binomial * momentum ** np.arange(n))[:n])


def inverse_coefficients(coefficients: npt.ArrayLike, n: int) -> FloatArray:
    """Return the first column of the inverse of the Toeplitz matrix with this first column (the rest of it zero)."""
    impulse = np.zeros(n)
    impulse[0] = 1.0
    return np.asarray(lfilter([1.0], np.asarray(coefficients, dtype=np.float64)[:n], impulse))


def optimised_coefficients(n_bands: int, n_steps: int, *, momentum: float = 0.0) -> FloatArray:
    """Return the first column of the banded Toeplitz C that leaves the least error for turns that share no row.

    The error of the iterates is sum over j of (n - j) b_j^2 with the series b of 1/((1 - x)(1 - momentum x) c(x)), the
    sensitivity that of the turns, |c| each: their product is minimised over c >= 0, from the square root on, by L-BFGS
    with the gradient written out (McKenna 2025, "Scaling up the banded matrix factorization mechanism"). Takes
    milliseconds. Privacy hangs on the columns' norms alone, which are computed of what is returned: multiples of
    2^-20, the same on any machine but for chance.
    """
    n_bands = min(n_bands, n_steps)
    if n_bands == 1:
        return np.ones(1)
    left = np.arange(n_steps, 0, -1) / n_steps
    impulse = np.zeros(n_steps)
    impulse[0] = 1.0
    optimiser = [1.0, -(1 + momentum), momentum]

    def log_product(tail: FloatArray) -> tuple[float, FloatArray]:
        c = np.r_[1.0, tail]
        b = lfilter([1.0], np.convolve(c, optimiser), impulse)
        slope = lfilter([1.0], c, b)  # d b / d c_k = -x^k b / c
        error, square = float(left @ b**2), float(c @ c)
        moved = np.array([(left * b)[k:] @ slope[: n_steps - k] for k in range(1, n_bands)])
        return math.log(error * square), 2 * tail / square - 2 * moved / error

    start = root_coefficients(n_bands, momentum=momentum)[1:]
    tail = minimize(log_product, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * (n_bands - 1)).x
    return np.round(np.r_[1.0, tail] * 2**20) / 2**20


def cyclic_sensitivity(column: Callable[[int], FloatArray], n_steps: int, separation: int) -> float:
    """Return by how much C X moves (Frobenius norm) when one unit's gradients of norm 1 come or go.

    The unit takes part in every ``separation``-th step at most, from any first step on; see the top of the module.

    Parameters
    ----------
    column : callable
        t -> the entries of column t of C from row t on, as far as they are not zero.
    """
    worst = 0.0
    for first in range(min(separation, n_steps)):
        total = np.zeros(n_steps)
        for t in range(first, n_steps, separation):
            entries = np.abs(column(t))
            total[t : t + len(entries)] += entries
        worst = largest_of(worst, float(total @ total))
    return math.sqrt(worst)


@dataclass(frozen=True, eq=False)
class Toeplitz:
    """C = T D^-1: T lower triangular Toeplitz, D diagonal and such that no column of C is longer than 1.

    A single participation then moves C X by at most 1, as in DP-SGD, and noise multipliers of the two mean the same.

    Attributes
    ----------
    column : float64 array of shape (n_bands,)
        T's first column, as far as it is not zero. Where the inverse is banded, all ``n_steps``.
    lengths : float64 array of shape (n_steps,)
        D's diagonal.
    """

    column: FloatArray
    lengths: FloatArray

    @classmethod
    def of(cls, column: npt.ArrayLike, *, n_steps: int, equal_columns: bool) -> Toeplitz:
        """Return C from T's first column.

        Parameters
        ----------
        column : array-like of shape (n_bands,)
        equal_columns : bool
            Whether each column of C has norm 1 (those that the end of the run cuts short too), or the longest alone.
        """
        entries = np.array(column, dtype=np.float64)[:n_steps]
        squares = np.cumsum(entries**2)
        rows_left = np.minimum(np.arange(n_steps, 0, -1), len(entries))
        lengths = np.sqrt(squares[rows_left - 1] if equal_columns else np.full(n_steps, squares[-1]))
        for array in (entries, lengths):
            array.setflags(write=False)
        return cls(entries, lengths)

    @property
    def n_steps(self) -> int:
        """Rows and columns."""
        return len(self.lengths)

    def sensitivity(self, separation: int) -> float:
        """Return what one unit moves that takes part in every ``separation``-th step (:func:`cyclic_sensitivity`)."""

        def column(t: int) -> FloatArray:
            return np.asarray(self.column[: self.n_steps - t] / self.lengths[t])

        return cyclic_sensitivity(column, self.n_steps, separation)

    def dense(self) -> FloatArray:
        """Return C itself, shape (n_steps, n_steps)."""
        n = self.n_steps
        found = np.zeros((n, n))
        for t in range(n):
            entries = self.column[: n - t]
            found[t : t + len(entries), t] = entries / self.lengths[t]
        return found

    def rmse(self, momentum: float = 0.0) -> float:
        """Return sqrt(|A C^-1|^2 / n_steps): the error of a coordinate of an iterate, for a noise multiplier of one.

        A adds up the gradients (:func:`root_coefficients`). Times the sensitivity and over the mu of the budget this
        is the error that has to be lived with.
        """
        return math.sqrt(sum(float(e @ e) for e in self._errors(momentum)) / self.n_steps)

    def _errors(self, momentum: float) -> Iterator[FloatArray]:
        """Yield the columns of A C^-1 = A D T^-1, from the diagonal on."""
        inverse = inverse_coefficients(self.column, self.n_steps)
        recursion = [1.0, -(1 + momentum), momentum]
        for t in range(self.n_steps):
            yield lfilter([1.0], recursion, self.lengths[t:] * inverse[: self.n_steps - t])
