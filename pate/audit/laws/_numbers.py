"""Releases of real numbers: their exact law on stretches whose ends lie between the multiples of their grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from pate.audit.laws._rivals import FACTORS
from pate.core.types import FloatArray, IntArray

#: Ends of stretches, as probabilities: tails by which truncated noise and other families are seen, and a body.
_TAILS = (1e-4, 1e-3, 0.01, 0.03)
_BODY = tuple(i / 16 for i in range(1, 16))
_LEFT_OUT = (1e-3, 1e-2, 1e-1, 1.0)


@dataclass(frozen=True, eq=False)
class Numbers:
    """The law of released numbers: independent noise around known centres, rounded to the nearest multiple of a grid.

    Attributes
    ----------
    centres : float array of shape (n_histograms, n_numbers)
    scale : float or float array of that shape
        Standard deviation (Gaussian) or scale (Laplace).
    grid : float
        What is released is a multiple of it; 0 for none.
    noise : {"gaussian", "laplace"}
    low, high : float
        Clipped to these.

    Examples
    --------
    >>> law = Numbers(np.array([[0.0, 5.0]]), 2.0)
    >>> bins = law.edges()
    >>> law.probabilities(bins).sum(axis=1).round(12)
    array([1., 1.])
    """

    centres: FloatArray
    scale: float | FloatArray
    grid: float = 0.0
    noise: str = "gaussian"
    low: float = -np.inf
    high: float = np.inf

    def below(self, x: FloatArray, *, shift: float = 0.0, factor: float = 1.0, noise: str = "") -> FloatArray:
        """Return P(released <= x) by the number (rows of ``x``), where x lies between two multiples of the grid."""
        centres = self.centres.ravel()[:, None]
        scale = np.broadcast_to(np.asarray(self.scale, dtype=float), self.centres.shape).ravel()[:, None]
        z = (x - centres - shift * scale) / (factor * scale)
        if (noise or self.noise) == "gaussian":
            law = ndtr(z)
        else:
            law = np.where(z < 0, 0.5 * np.exp(np.minimum(z, 0)), 1 - 0.5 * np.exp(-np.maximum(z, 0)))
        return np.where(x < self.low, 0.0, np.where(x >= self.high, 1.0, law))

    def edges(self) -> FloatArray:
        """Return ends of stretches by number, rising: (n_histograms * n_numbers, n_edges).

        The narrowest stretch holds the number without noise and little else.
        """
        lower = np.array(sorted((*_TAILS, *_BODY, *(1 - t for t in _TAILS))))
        z = ndtri(lower)
        if self.noise == "laplace":
            z = np.where(lower < 0.5, np.log(2 * np.minimum(lower, 0.5)), -np.log(2 * np.minimum(1 - lower, 0.5)))
        centres = self.centres.ravel()[:, None]
        scale = np.broadcast_to(np.asarray(self.scale, dtype=float), self.centres.shape).ravel()[:, None]
        ends = centres + scale * z[z != 0]
        narrow = max(self.grid, 0.0) or 1e-4
        middle = np.concatenate(
            [centres - narrow * (1 if self.grid else scale), centres + narrow * (1 if self.grid else scale)], axis=1
        )
        found = np.sort(np.concatenate([ends, middle], axis=1), axis=1)
        # Between two multiples of the grid, where a rounded number and the real one lie on the same side.
        return found if not self.grid else (np.floor(found / self.grid) + 0.5) * self.grid

    def probabilities(self, edges: FloatArray, **other: float | str) -> FloatArray:
        """Return the law on the stretches, (n_histograms * n_numbers, n_edges + 1); ``other`` as in :meth:`below`."""
        below = self.below(edges, **other)  # type: ignore[arg-type]
        ends = np.ones((len(below), 1))
        return np.diff(np.concatenate([0 * ends, below, ends], axis=1), axis=1)

    def rivals(self, edges: FloatArray, counts: IntArray) -> dict[str, FloatArray]:
        """Return laws of faulty noise on the same stretches: scaled, shifted, missing, truncated, of another family."""
        law = self.probabilities(edges)
        found = {f"noise x {f:g}": self.probabilities(edges, factor=f) for f in FACTORS}
        found |= {f"shifted by {s:g} scales": self.probabilities(edges, shift=s) for s in (-0.1, -0.03, 0.03, 0.1)}
        other = "laplace" if self.noise == "gaussian" else "gaussian"
        for factor in (0.7071, 1.0, 1.4142):
            name = f"noise of the other family, scale x {factor:g}"
            found[name] = self.probabilities(edges, factor=factor, noise=other)
        still = np.eye(edges.shape[1] + 1)[
            [np.searchsorted(e, c) for e, c in zip(edges, self.centres.ravel(), strict=True)]
        ]
        found |= {f"no noise in {share:g} of the numbers": (1 - share) * law + share * still for share in _LEFT_OUT}
        n_each = self.centres.shape[1]
        for spread in (0.05, 0.1, 0.2, 0.5):
            for name, sign in (("growing", 1), ("falling", -1)):
                factors = np.tile(1 + sign * np.linspace(-spread, spread, n_each), len(self.centres))[:, None]
                found[f"noise {name} by class, {spread:g}"] = self.probabilities(edges, factor=factors)  # type: ignore[arg-type]
        if counts.size == self.centres.size:
            found["no noise on empty classes"] = np.where(counts.reshape(-1, 1) > 0, law, still)
        for reach in (2.0, 3.0, 4.0):
            inside = (
                np.abs(
                    (edges - self.centres.reshape(-1, 1))
                    / np.broadcast_to(self.scale, self.centres.shape).reshape(-1, 1)
                )
                <= reach
            )
            kept = np.where(
                np.concatenate([inside, inside[:, -1:]], axis=1) | np.concatenate([inside[:, :1], inside], axis=1),
                law,
                0,
            )
            found[f"noise truncated at {reach:g} scales"] = kept / kept.sum(axis=1, keepdims=True)
        return found

    def tallies(self, edges: FloatArray, numbers: FloatArray, which: IntArray) -> IntArray:
        """Return how often each stretch was met by ``numbers`` (n, n_numbers) of the histograms ``which`` (n,)."""
        n_each = self.centres.shape[1]
        out = np.zeros((len(edges), edges.shape[1] + 1), dtype=np.int64)
        for h in range(len(self.centres)):
            mine = numbers[which == h]
            for j in range(n_each if len(mine) else 0):
                at = np.searchsorted(edges[h * n_each + j], mine[:, j])
                out[h * n_each + j] += np.bincount(at, minlength=out.shape[1])
        return out
