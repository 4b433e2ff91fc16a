"""Correlated noise by binary trees: a node is the noisy sum of a block of steps, and all nodes are used at best.

The tree mechanism (Dwork, Naor, Pitassi, Rothblum 2010; Chan, Shi, Song 2011; Kairouz et al. 2021) releases H X + Z,
one row of H for each node: ones where the node's block is. Steps that fill no power of two make several trees, largest
first, and a new tree starts wherever a restart is asked for.

From the noisy nodes the best linear unbiased estimate of X has noise of precision H^T H (Honaker 2015, "from above and
from below"). The lower triangular L with L^T L = H^T H releases L X + Z, has therefore the same sensitivity, and noise
L^-1 Z of that very law, which comes step by step (Denisov et al. 2022): what Kairouz et al. (2021) get out
of the nodes that are finished at a step ("from below") is never better.

Row t of L is found by integrating the steps to come out of exp(-1/2 sum over nodes (sum of the node's block)^2). A
block of height h that lies ahead counts by its sum s alone, as exp(-a_h s^2 / 2), a_0 = 1 and a_h = 1 + a_{h-1} / 2,
so a_h = 2 - 2^-h. Going down from the root to the leaf t, what is above a block with sum u is exp(-p (u + m)^2 / 2),
with p = 0 at the root; the node itself makes it q = 1 + p and m' = p m / q; then

    t in the right half:  p = q, m = m' + (sum of the left half)     t in the left half:  p = q a / (q + a), m = m'.

At the leaf the noise has precision 1 + p and mean -p m / (1 + p): a step needs the sums of the finished blocks to the
left of it, as many as the tree has levels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.signal import lfilter

from pate.core.checks import largest_of
from pate.core.types import FloatArray


@dataclass(frozen=True)
class Forest:
    """Complete binary trees, one after the other, scaled so that no step is in nodes of more than 1 in squares.

    Attributes
    ----------
    n_steps : int
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
    height : int

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
