"""What a test of law examines: a bank of histograms, their exact laws, and alternatives to bet on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, logsumexp

from pate._core.types import FloatArray, IntArray
from pate.audit.laws._registry import Numbers, about, find, label_faults, scaled_copies, wide_bank
from pate.exceptions import InvalidInputError
from pate.privacy.noise.source import NoiseSource
from pate.votes import ABSTAIN

# Evidence of tallies against a law: an e-process, valid at any time, and a statistic at a fixed size.

#: Probabilities are rounded up to it, which is on the safe side.
FLOOR = 1e-12
#: Relative error granted to the law.
_ROUNDING = 1e-9
#: The least weight of the law in every alternative, so that one odd outcome does not end a good bet.
_HEDGE = 1e-3
#: Pseudo-draws of the Dirichlet mixtures.
_STRENGTHS = np.array([10.0, 100.0, 1e3, 1e4, 1e5])
#: Shares of the mean: alternatives on all cells together, on each cell, Dirichlet mixtures on all and on each.
_TOGETHER, _EACH, _ANY_TOGETHER, _ANY_EACH = 0.6, 0.1, 0.2, 0.1


@dataclass(frozen=True, eq=False)
class Cells:
    """Independent cells, each with its law over outcomes, and alternative laws."""

    names: tuple[str, ...]  # of the cells: histograms, or a class of a histogram
    law: FloatArray  # (n_cells, n_outcomes): exact; 0 beyond a cell's own outcomes
    alternatives: Mapping[str, FloatArray]  # laws to bet on

    @cached_property
    def _log_null(self) -> FloatArray:
        return np.log(np.maximum(self.law * (1.0 + _ROUNDING), FLOOR))

    @cached_property
    def _log_ratios(self) -> FloatArray:
        """Log likelihood ratios of the alternatives: (n_alternatives, n_cells, n_outcomes)."""
        if not self.alternatives:
            return np.zeros((0, *self.law.shape))
        sums = self.law.sum(axis=1, keepdims=True)
        laws = [_proper(q, self.law) for q in self.alternatives.values()]
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
        each = (f"{alternative}, at {cell}" for alternative in self.alternatives for cell in self.names)
        alone = (
            f"{kind}, at {cell}" for kind in ("another law", "another law of alike outcomes") for cell in self.names
        )
        return (*self.alternatives, *each, "other laws", "other laws of alike outcomes", *alone)

    @cached_property
    def _weights(self) -> FloatArray:
        n, k = len(self.alternatives), len(self.names)
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
        """Return the first cell and outcome that the law never gives, or None."""
        where = np.argwhere((np.asarray(tallies) > 0) & (self.law <= 0))
        return (self.names[where[0][0]], int(where[0][1])) if len(where) else None

    def statistics(self, tallies: IntArray) -> FloatArray:
        """Return chi-square and the largest log likelihood ratio, for tallies of shape (..., n_cells, n_outcomes)."""
        counts = np.asarray(tallies, dtype=float)
        null = np.exp(self._log_null)
        expected = counts.sum(axis=-1, keepdims=True) * null
        # Outcomes expected less than five times are merged, as chi-square needs.
        chi = np.where(expected >= 5, (counts - expected) ** 2 / np.maximum(expected, 5), 0.0)
        rest = np.where(expected < 5, counts - expected, 0.0).sum(axis=-1)
        rare = np.where(expected < 5, expected, 0.0).sum(axis=-1)
        total = chi.sum(axis=(-1, -2)) + (rest**2 / np.maximum(rare, 1.0)).sum(axis=-1)
        flat = self._log_ratios.reshape(len(self.alternatives), -1)
        best = (
            (counts.reshape(*counts.shape[:-2], -1) @ flat.T).max(axis=-1)
            if self.alternatives
            else np.zeros(total.shape)
        )
        return np.stack([total, best], axis=-1)


def _proper(alternative: FloatArray, law: FloatArray) -> FloatArray:
    """Return an alternative with the law in place of its invalid rows."""
    fine = np.isfinite(alternative).all(axis=1, keepdims=True) & (alternative >= 0).all(axis=1, keepdims=True)
    return np.where(fine & (alternative > 0).any(axis=1, keepdims=True), alternative, law)


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


Law = Callable[[IntArray], "FloatArray | Numbers"]
#: counts (n, m) -> labels (n,) or numbers (n, k).
Sampler = Callable[[IntArray], npt.ArrayLike]
#: Cells of counts that a sampler is given at once, at most.
_MOST = 2**21


@dataclass(frozen=True, eq=False)
class Part:
    """Histograms of one width, and the law of what is released of them."""

    names: tuple[str, ...]
    counts: IntArray  # (n_histograms, m)
    law: FloatArray | Numbers
    cells: tuple[str, ...]  # the histograms, or each number of each
    probabilities: FloatArray  # (n_cells, n_outcomes)
    alternatives: Mapping[str, FloatArray]
    edges: FloatArray = field(default_factory=lambda: np.zeros(0))  # of the stretches of numbers

    def tallies(self, sampler: Sampler, n: int) -> IntArray:
        """Draw ``n`` releases of each histogram and return how often each outcome came: (n_cells, n_outcomes)."""
        total, n_outcomes = np.zeros(self.probabilities.shape, dtype=np.int64), self.probabilities.shape[1]
        at_once = max(1, _MOST // max(1, self.counts.size))
        for start in range(0, n, at_once):
            each = min(at_once, n - start)
            which = np.repeat(np.arange(len(self.counts)), each)
            released = ask(sampler, self.counts[which])
            if isinstance(self.law, Numbers):
                numbers = numbers_of(released, (len(which), self.law.centres.shape[1]))
                total += self.law.tallies(self.edges, numbers, which)
                continue
            labels = labels_of(released, len(which), n_outcomes, self.counts.shape[1])
            total += np.bincount(which * n_outcomes + labels, minlength=total.size).reshape(total.shape)
        return total


@dataclass(frozen=True, eq=False)
class Subject:
    """The parts, and all their cells together."""

    parts: tuple[Part, ...]
    cells: Cells

    @classmethod
    def of(cls, parts: Sequence[Part]) -> Subject:
        """Join cells of several widths, padded with outcomes of probability 0."""
        width = max(p.probabilities.shape[1] for p in parts)
        names = tuple(name for p in parts for name in p.cells)
        alternatives = {
            name: _side_by_side([p.alternatives[name] for p in parts], width) for name in parts[0].alternatives
        }
        return cls(tuple(parts), Cells(names, _side_by_side([p.probabilities for p in parts], width), alternatives))

    @property
    def histograms(self) -> tuple[str, ...]:
        return tuple(name for p in self.parts for name in p.names)

    def tallies(self, sampler: Sampler, n: int) -> IntArray:
        width = self.cells.law.shape[1]
        return _side_by_side([p.tallies(sampler, n) for p in self.parts], width)


def _side_by_side(tables: Sequence[Any], width: int) -> Any:
    return np.concatenate([np.pad(t, ((0, 0), (0, width - t.shape[1]))) for t in tables])


def ask(sampler: Sampler, counts: IntArray) -> npt.NDArray[Any]:
    """Return what a sampler gives for counts (n, m), with a clear error where it fails."""
    shape = tuple(counts.shape)
    try:
        # A copy: a sampler must not change the bank.
        return np.asarray(sampler(counts.copy()))
    except Exception as error:
        raise InvalidInputError(
            f"sampler failed on counts of shape {shape}: {type(error).__name__}: {error}. It is given whole counts "
            "(n, n_classes) and must return one label for each row, shape (n,), or noisy counts (n, n_classes). Pass "
            "n_classes= or bank= where it takes no other number of classes."
        ) from error


def labels_of(released: npt.NDArray[Any], n: int, n_outcomes: int, n_classes: int) -> IntArray:
    """Return outcome numbers of labels, a refusal last; raise ImpossibleError for one that the law never gives."""
    if released.dtype.kind not in "iu" or released.shape != (n,):
        raise InvalidInputError(
            f"sampler must return one whole number for each row of counts, shape {(n,)}, got dtype {released.dtype} "
            f"and shape {released.shape}. Labels are class indices, {ABSTAIN} where it refuses."
        )
    labels = released.astype(np.int64)
    labels = np.where(labels == ABSTAIN, n_classes, labels)
    odd = (labels < 0) | (labels >= n_outcomes)
    if odd.any():
        first = int(released[odd][0])
        did = "refused to answer" if first == ABSTAIN else f"released label {first}"
        raise ImpossibleError(f"it {did}, which the claim never does")
    return labels


def numbers_of(released: npt.NDArray[Any], shape: tuple[int, int]) -> FloatArray:
    """Return released numbers as floats, of the law's shape."""
    if released.dtype.kind not in "iuf" or released.shape != shape:
        raise InvalidInputError(
            f"sampler must return numbers of shape {shape} for this claim, got dtype {released.dtype} and shape "
            f"{released.shape}."
        )
    numbers = released.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ImpossibleError("it released a number that is not finite, which the claim never does")
    return numbers


class ImpossibleError(Exception):
    """A release that the claimed law never gives: the claim is refuted with certainty."""


def drawn_by(sampler: Any, source: NoiseSource) -> Sampler:
    """Return a function of counts: a user's own, or a mechanism's, which draws from ``source``."""
    entry = find(sampler)
    if entry is not None:
        return lambda counts: entry.sample(sampler, counts, source)
    if callable(sampler):
        return sampler
    raise InvalidInputError(
        f"sampler must be a function of counts (n, n_classes), or a mechanism, got {type(sampler).__name__}."
    )


def subject_of(mechanism: Any, n_classes: int | None, bank: Any, alternatives: Mapping[str, Any] | None) -> Subject:
    """Return the bank, laws and alternatives of a claim: a mechanism, or a function that gives the law of counts."""
    if isinstance(mechanism, type):
        name = mechanism.__name__
        raise InvalidInputError(f"mechanism must be a value such as {name}(...), got the class {name} itself.")
    entry = find(mechanism)
    if entry is None and not callable(mechanism):
        raise InvalidInputError(
            f"law knows no law of {type(mechanism).__name__}. Register it with pate.testing.register([...], law=..., "
            "sample=...), or pass a function: counts (n, m) to probabilities (n, n_outcomes)."
        )
    if entry is None:
        if bank is None:
            raise InvalidInputError("bank must be histograms (n_histograms, n_classes) where the claim is a function.")
        return Subject.of([_part(mechanism, None, *_bank_of(bank), alternatives)])
    # Nothing is cached between calls: the law is that of the current code.
    law = partial(entry.law, mechanism)
    names, counts = _bank_of(entry.bank(mechanism, n_classes or entry.n_classes) if bank is None else bank)
    parts = [_part(law, mechanism, names, counts, alternatives)]
    if bank is None and n_classes is None and entry.wide and hasattr(mechanism, "exact_parameters"):
        wide = wide_bank(mechanism.exact_parameters()["noise"].scale, int(counts.max()))
        parts += [_part(law, mechanism, (name,), row[None], alternatives) for name, row in wide.items()]
    return Subject.of(parts)


def _bank_of(bank: Any) -> tuple[tuple[str, ...], IntArray]:
    names = tuple(bank) if isinstance(bank, Mapping) else None
    try:
        counts = np.asarray(list(bank.values()) if isinstance(bank, Mapping) else bank)
    except ValueError:
        counts = np.zeros(0)
    if counts.ndim != 2 or not len(counts) or counts.dtype.kind not in "iu":
        raise InvalidInputError(
            f"bank must be whole counts of shape (n_histograms >= 1, n_classes), got dtype {counts.dtype} and shape "
            f"{counts.shape}. All histograms have the same classes."
        )
    return names or tuple(f"histogram {n}" for n in range(len(counts))), counts.astype(np.int64)


def _part(
    law: Law, mechanism: Any, names: tuple[str, ...], counts: IntArray, alternatives: Mapping[str, Any] | None
) -> Part:
    n = len(counts)
    found = _checked("the claimed law", law(counts), n)
    others = {
        name: _checked(f"alternatives[{name!r}]", _other_law(other)(counts), n, found)
        for name, other in (alternatives or {}).items()
    }
    if isinstance(found, Numbers):
        edges = found.edges()
        bets = found.alternatives(edges, counts) | {name: other.probabilities(edges) for name, other in others.items()}
        cells = tuple(f"{name}, number {j}" for name in names for j in range(found.centres.shape[1]))
        return Part(names, counts, found, cells, found.probabilities(edges), bets, edges)
    entry = find(mechanism) if mechanism is not None else None
    faults: dict[str, FloatArray] = {}
    if entry is not None:
        copies = scaled_copies(mechanism, entry.noises_of(mechanism))
        if hasattr(mechanism, "exact_parameters"):
            faults = {name: about(copy.exact_parameters(), counts) for name, copy in copies.items()}
            faults |= label_faults(mechanism.exact_parameters(), counts, found)
        else:
            faults = {name: np.asarray(entry.law(copy, counts)) for name, copy in copies.items()}
    return Part(names, counts, found, names, found, faults | others)


def _other_law(other: Any) -> Law:
    entry = find(other)
    return partial(entry.law, other) if entry is not None else other


def _checked(name: str, law: Any, n: int, like: Any = None) -> Any:
    """Return a law of ``n`` histograms, of the kind of the claimed one: Numbers, or probabilities (n, n_outcomes)."""
    if isinstance(like, Numbers) and not isinstance(law, Numbers):
        raise InvalidInputError(f"{name} must give Numbers, as the claim does.")
    if isinstance(law, Numbers):
        centres, scale = np.asarray(law.centres), np.asarray(law.scale)
        if centres.ndim != 2 or len(centres) != n or not np.isfinite(centres).all():
            raise InvalidInputError(f"{name} must have finite centres of shape ({n}, n_numbers), got {centres.shape}.")
        if scale.shape not in ((), centres.shape) or not (np.isfinite(scale) & (scale > 0)).all():
            raise InvalidInputError(f"{name} must have a finite scale > 0, one or as many as centres.")
        return law
    table, n_outcomes = np.asarray(law, dtype=np.float64), None if like is None else like.shape[1]
    right = table.ndim == 2 and len(table) == n and table.shape[1] == (n_outcomes or table.shape[1])
    if not right or not np.isfinite(table).all() or (table < 0).any() or (abs(table.sum(axis=1) - 1) > 1e-6).any():
        raise InvalidInputError(
            f"{name} must be probabilities of shape ({n}, {n_outcomes or 'n_outcomes'}) whose rows sum to 1, got shape "
            f"{table.shape}."
        )
    # A law in single precision is off by more than the test grants to rounding.
    return np.asarray(table / table.sum(axis=1, keepdims=True))
