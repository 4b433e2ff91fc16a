"""What tallies say against a law: an e-process over any number of looks, and a statistic at a fixed size.

An e-process is a non-negative number with expectation at most 1 under the law at every stopping time; by Ville's
inequality it *ever* reaches 1/alpha with probability at most alpha (Ramdas, Grunwald, Vovk, Shafer 2023). A likelihood
ratio is one, so is a mixture of them, a product over independent cells, and a mean of e-processes: bets may be chosen
as one likes, as long as it is before the draws.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammaln, logsumexp

from pate.core.types import FloatArray, IntArray

__all__ = ["Cells"]

#: Probabilities are rounded up to it: that only makes the test more patient.
FLOOR = 1e-12
#: Relative error granted to the law.
_ROUNDING = 1e-9
#: What a rival gives of the law at least, so that one odd outcome does not end a good bet.
_HEDGE = 1e-3
#: Pseudo-draws of the Dirichlet mixtures.
_STRENGTHS = np.array([10.0, 100.0, 1e3, 1e4, 1e5])
#: Shares of the mean: rivals on all cells together, rivals on each cell, Dirichlet mixtures on all and on each.
_TOGETHER, _EACH, _ANY_TOGETHER, _ANY_EACH = 0.6, 0.1, 0.2, 0.1


@dataclass(frozen=True, eq=False)
class Cells:
    """Independent cells, each with its law over outcomes, and the bets against it.

    Attributes
    ----------
    names : tuple of str
        Of the cells: histograms, or a class of a histogram.
    law : float array of shape (n_cells, n_outcomes)
        Exact; 0 beyond a cell's own outcomes.
    rivals : dict of str to float array of the same shape
        Laws to bet on.
    """

    names: tuple[str, ...]
    law: FloatArray
    rivals: Mapping[str, FloatArray]

    @cached_property
    def _log_null(self) -> FloatArray:
        return np.log(np.maximum(self.law * (1.0 + _ROUNDING), FLOOR))

    @cached_property
    def _log_ratios(self) -> FloatArray:
        """Log likelihood ratios of the rivals: (n_rivals, n_cells, n_outcomes)."""
        if not self.rivals:
            return np.zeros((0, *self.law.shape))
        sums = self.law.sum(axis=1, keepdims=True)
        laws = [_proper(q, self.law) for q in self.rivals.values()]
        mixed = [(1 - _HEDGE) * q / q.sum(axis=1, keepdims=True) + _HEDGE * self.law / sums for q in laws]
        return np.log(np.maximum(mixed, FLOOR * _HEDGE)) - self._log_null

    @cached_property
    def _merged(self) -> IntArray:
        """For each outcome the number of its group: those of one probability, in a cell, are merged."""
        group = np.zeros(self.law.shape, dtype=np.int64)
        for k, row in enumerate(self.law):
            group[k] = np.unique(np.round(np.log(np.maximum(row, FLOOR)), 9), return_inverse=True)[1].ravel()
        return group

    @cached_property
    def _merged_law(self) -> FloatArray:
        return self._merge(np.exp(self._log_null))

    def _merge(self, tallies: FloatArray) -> FloatArray:
        groups, n = self._merged, int(self._merged.max()) + 1
        cell = (np.arange(len(groups))[:, None] * n + groups).ravel()
        return np.asarray(np.bincount(cell, tallies.ravel().astype(float), len(groups) * n).reshape(len(groups), n))

    @cached_property
    def bets(self) -> tuple[str, ...]:
        """Names of the bets, in the order of :meth:`log_e`'s values."""
        each = (f"{rival}, at {cell}" for rival in self.rivals for cell in self.names)
        alone = (
            f"{kind}, at {cell}" for kind in ("another law", "another law of alike outcomes") for cell in self.names
        )
        return (*self.rivals, *each, "other laws", "other laws of alike outcomes", *alone)

    @cached_property
    def _weights(self) -> FloatArray:
        n, k = len(self.rivals), len(self.names)
        shares = ((n, _TOGETHER), (n * k, _EACH), (2, _ANY_TOGETHER), (2 * k, _ANY_EACH))
        weights = np.concatenate([np.full(many, share / max(many, 1)) for many, share in shares])
        return np.asarray(weights / weights.sum())

    def log_e(self, tallies: FloatArray | IntArray) -> tuple[float, FloatArray]:
        """Return the log of the e-process at tallies (n_cells, n_outcomes), and that of each of the :attr:`bets`."""
        seen = np.asarray(tallies, dtype=float)
        each = np.einsum("akb,kb->ak", self._log_ratios, seen)
        fine = _dirichlet(seen, np.exp(self._log_null))
        merged = _dirichlet(self._merge(seen), self._merged_law)
        values = np.concatenate([each.sum(axis=1), each.ravel(), [fine.sum(), merged.sum()], fine, merged])
        return float(logsumexp(values, b=self._weights)), values

    def impossible(self, tallies: FloatArray | IntArray) -> tuple[str, int] | None:
        """Return the first cell where an outcome came out that the law never gives, and which, or None."""
        where = np.argwhere((np.asarray(tallies) > 0) & (self.law <= 0))
        return (self.names[where[0][0]], int(where[0][1])) if len(where) else None

    def statistics(self, tallies: IntArray) -> FloatArray:
        """Return chi-square and the largest log likelihood ratio, for tallies of shape (..., n_cells, n_outcomes).

        Returns
        -------
        float array of shape (..., 2)
        """
        counts = np.asarray(tallies, dtype=float)
        null = np.exp(self._log_null)
        expected = counts.sum(axis=-1, keepdims=True) * null
        # Merged below five: chi-square is about what is expected to be seen at all.
        chi = np.where(expected >= 5, (counts - expected) ** 2 / np.maximum(expected, 5), 0.0)
        rest = np.where(expected < 5, counts - expected, 0.0).sum(axis=-1)
        rare = np.where(expected < 5, expected, 0.0).sum(axis=-1)
        total = chi.sum(axis=(-1, -2)) + (rest**2 / np.maximum(rare, 1.0)).sum(axis=-1)
        flat = self._log_ratios.reshape(len(self.rivals), -1)
        best = (counts.reshape(*counts.shape[:-2], -1) @ flat.T).max(axis=-1) if self.rivals else np.zeros(total.shape)
        return np.stack([total, best], axis=-1)


def _proper(rival: FloatArray, law: FloatArray) -> FloatArray:
    """Return a rival with the law in the place of rows that are none: only on laws may be bet."""
    fine = np.isfinite(rival).all(axis=1, keepdims=True) & (rival >= 0).all(axis=1, keepdims=True)
    return np.where(fine & (rival > 0).any(axis=1, keepdims=True), rival, law)


def _dirichlet(tallies: FloatArray, null: FloatArray) -> FloatArray:
    """Log likelihood ratio of Dirichlet(strength * null) mixtures against the null, by cell: (n_cells,)."""
    n = tallies.sum(axis=1)
    centre = null / null.sum(axis=1, keepdims=True)
    seen = tallies > 0  # gammaln(0 + a) - gammaln(a) is 0
    rows = np.nonzero(seen)[0]
    prior = _STRENGTHS[:, None] * centre[seen]
    parts = gammaln(tallies[seen] + prior) - gammaln(prior)
    marginal = np.stack([np.bincount(rows, part, len(n)) for part in parts])
    marginal += gammaln(_STRENGTHS)[:, None] - gammaln(n[None, :] + _STRENGTHS[:, None])
    mixed = logsumexp(marginal, axis=0) - math.log(len(_STRENGTHS))
    return np.asarray(mixed - np.bincount(rows, tallies[seen] * np.log(null[seen]), len(n)))
