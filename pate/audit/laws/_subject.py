"""What is put to the test: a bank of histograms, the exact law of what is released of each, and bets against it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.audit.laws._bank import wide_bank
from pate.audit.laws._evidence import Cells
from pate.audit.laws._numbers import Numbers
from pate.audit.laws._registry import Entry, find
from pate.audit.laws._rivals import about, label_rivals, scaled_copies
from pate.core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.noise.source import NoiseSource
from pate.votes import ABSTAIN

__all__ = ["Part", "Subject", "drawn_by", "subject_of"]

Law = Callable[[IntArray], "FloatArray | Numbers"]
#: counts (n, m) -> labels (n,) or numbers (n, k).
Sampler = Callable[[IntArray], npt.ArrayLike]
#: Cells of counts that a sampler is given at once, at most.
_MOST = 2**21


@dataclass(frozen=True, eq=False)
class Part:
    """Histograms of one width, and the law of what is released of them.

    Attributes
    ----------
    names : tuple of str
    counts : int64 array of shape (n_histograms, m)
    law : float array (n_histograms, n_outcomes) or Numbers
    rivals : dict of str to float array of the law's shape, on the stretches of ``edges`` for numbers
    edges : float array or None
    """

    names: tuple[str, ...]
    counts: IntArray
    law: FloatArray | Numbers
    rivals: Mapping[str, FloatArray]
    edges: FloatArray | None = None

    @cached_property
    def probabilities(self) -> FloatArray:
        """The law of each cell: (n_cells, n_outcomes)."""
        if isinstance(self.law, Numbers):
            assert self.edges is not None
            return self.law.probabilities(self.edges)
        return self.law

    @property
    def cells(self) -> tuple[str, ...]:
        """Names of the cells: the histograms, or each number of each."""
        if not isinstance(self.law, Numbers):
            return self.names
        return tuple(f"{name}, number {j}" for name in self.names for j in range(self.law.centres.shape[1]))

    def tallies(self, sampler: Sampler, n: int) -> IntArray:
        """Draw ``n`` releases of each histogram and return how often each outcome came: (n_cells, n_outcomes)."""
        total = np.zeros(self.probabilities.shape, dtype=np.int64)
        at_once = max(1, _MOST // max(1, self.counts.size))
        for start in range(0, n, at_once):
            each = min(at_once, n - start)
            which = np.repeat(np.arange(len(self.counts)), each)
            total += self.counted(ask(sampler, self.counts[which]), which)
        return total

    def counted(self, released: npt.NDArray[Any], which: IntArray) -> IntArray:
        """Return the tallies of ``released`` of the histograms ``which``."""
        if isinstance(self.law, Numbers):
            assert self.edges is not None
            numbers = numbers_of(released, (len(which), self.law.centres.shape[1]))
            return self.law.tallies(self.edges, numbers, which)
        n_outcomes = self.law.shape[1]
        labels = labels_of(released, len(which), n_outcomes, self.counts.shape[1])
        return np.bincount(which * n_outcomes + labels, minlength=self.law.size).reshape(self.law.shape)


@dataclass(frozen=True, eq=False)
class Subject:
    """The parts, and all their cells together."""

    parts: tuple[Part, ...]
    cells: Cells

    @classmethod
    def of(cls, parts: Sequence[Part]) -> Subject:
        """Put cells of several widths side by side, with outcomes that never come where one has fewer."""
        width = max(p.probabilities.shape[1] for p in parts)

        def side_by_side(tables: Sequence[FloatArray]) -> FloatArray:
            return np.concatenate([np.pad(t, ((0, 0), (0, width - t.shape[1]))) for t in tables])

        names = tuple(name for p in parts for name in p.cells)
        rivals = {name: side_by_side([p.rivals[name] for p in parts]) for name in parts[0].rivals}
        return cls(tuple(parts), Cells(names, side_by_side([p.probabilities for p in parts]), rivals))

    @property
    def histograms(self) -> tuple[str, ...]:
        """Names of all histograms."""
        return tuple(name for p in self.parts for name in p.names)

    def tallies(self, sampler: Sampler, n: int) -> IntArray:
        """Draw ``n`` releases of each histogram: (n_cells, n_outcomes)."""
        width = self.cells.law.shape[1]
        found = [p.tallies(sampler, n) for p in self.parts]
        return np.concatenate([np.pad(t, ((0, 0), (0, width - t.shape[1]))) for t in found])


def ask(sampler: Sampler, counts: IntArray) -> npt.NDArray[Any]:
    """Return what a sampler gives for counts (n, m), in clear words where it fails."""
    shape = tuple(counts.shape)
    try:
        # A copy: nobody's sampler changes the bank.
        return np.asarray(sampler(counts.copy()))
    except Exception as error:
        raise InvalidInputError(
            f"sampler failed on counts of shape {shape}: {type(error).__name__}: {error}. It is given whole counts "
            "(n, n_classes) and must return one label for each row, shape (n,), or noisy counts (n, n_classes). Pass "
            "n_classes= or bank= where it takes no other number of classes."
        ) from error


def labels_of(released: npt.NDArray[Any], n: int, n_outcomes: int, n_classes: int) -> IntArray:
    """Return outcome numbers of labels, the refusal as the last outcome; those no law has are :func:`refused`."""
    if released.dtype.kind not in "iu" or released.shape != (n,):
        raise InvalidInputError(
            f"sampler must return one whole number for each row of counts, shape {(n,)}, got dtype {released.dtype} "
            f"and shape {released.shape}. Labels are class indices, {ABSTAIN} where it refuses."
        )
    labels = released.astype(np.int64)
    labels = np.where(labels == ABSTAIN, n_classes, labels)
    odd = (labels < 0) | (labels >= n_outcomes)
    if odd.any():
        raise ImpossibleError(f"it {_words(int(released[odd][0]))}, which the claim never does")
    return labels


def _words(label: int) -> str:
    return "refused to answer" if label == ABSTAIN else f"released label {label}"


def numbers_of(released: npt.NDArray[Any], shape: tuple[int, int]) -> FloatArray:
    """Return released numbers as floats of the shape that the law says."""
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
    """A release that no draw of the claimed law gives: the claim is refuted, and surely."""


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
    """Return what is tested of a claim: a registered mechanism, one with ``log_probs``, or a law of counts."""
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
    # Nothing is kept from one call to the next: the law is that of the code as it is now.
    law = _law_of(entry, mechanism)
    names, counts = _bank_of(entry.bank(mechanism, n_classes or entry.n_classes) if bank is None else bank)
    parts = [_part(law, mechanism, names, counts, alternatives)]
    if bank is None and n_classes is None and entry.wide and hasattr(mechanism, "exact_parameters"):
        wide = wide_bank(mechanism.exact_parameters()["noise"].scale, int(counts.max()))
        parts += [_part(law, mechanism, (name,), row[None], alternatives) for name, row in wide.items()]
    return Subject.of(parts)


def _law_of(entry: Entry, mechanism: Any) -> Law:
    return lambda counts: entry.law(mechanism, counts)


def _bank_of(bank: Any) -> tuple[tuple[str, ...], IntArray]:
    """Return names and histograms, checked."""
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
    found = law(counts)
    if isinstance(found, Numbers):
        _check_numbers("the claimed law", found, len(counts))
        edges = found.edges()
        bets = found.rivals(edges, counts)
        for name, other in (alternatives or {}).items():
            rival = _other_law(other)(counts)
            if not isinstance(rival, Numbers):
                raise InvalidInputError(f"alternatives[{name!r}] must give Numbers, as the claim does.")
            _check_numbers(f"alternatives[{name!r}]", rival, len(counts))
            bets[name] = rival.probabilities(edges)
        return Part(names, counts, found, bets, edges)
    table = _table("the claimed law", found, len(counts))
    entry = find(mechanism) if mechanism is not None else None
    rivals: dict[str, FloatArray] = {}
    if entry is not None:
        copies = scaled_copies(mechanism, entry.noises_of(mechanism))
        if hasattr(mechanism, "exact_parameters"):
            rivals = {name: about(copy.exact_parameters(), counts) for name, copy in copies.items()}
            rivals |= label_rivals(mechanism.exact_parameters(), counts, table)
        else:
            rivals = {name: np.asarray(entry.law(copy, counts)) for name, copy in copies.items()}
    for name, other in (alternatives or {}).items():
        rivals[name] = _table(f"alternatives[{name!r}]", _other_law(other)(counts), len(counts), table.shape[1])
    return Part(names, counts, table, rivals)


def _check_numbers(name: str, law: Numbers, n: int) -> None:
    centres, scale = np.asarray(law.centres), np.asarray(law.scale)
    if centres.ndim != 2 or len(centres) != n or not np.isfinite(centres).all():
        raise InvalidInputError(f"{name} must have finite centres of shape ({n}, n_numbers), got {centres.shape}.")
    if scale.shape not in ((), centres.shape) or not (np.isfinite(scale) & (scale > 0)).all():
        raise InvalidInputError(f"{name} must have a finite scale > 0, one or as many as centres.")


def _other_law(other: Any) -> Law:
    entry = find(other)
    return _law_of(entry, other) if entry is not None else other


def _table(name: str, law: Any, n: int, n_outcomes: int | None = None) -> FloatArray:
    """Return probabilities (n, n_outcomes), checked."""
    table = np.asarray(law, dtype=np.float64)
    right = table.ndim == 2 and len(table) == n and table.shape[1] == (n_outcomes or table.shape[1])
    if not right or not np.isfinite(table).all() or (table < 0).any() or (abs(table.sum(axis=1) - 1) > 1e-6).any():
        raise InvalidInputError(
            f"{name} must be probabilities of shape ({n}, {n_outcomes or 'n_outcomes'}) whose rows sum to 1, got shape "
            f"{table.shape}."
        )
    # A law in single precision is off by more than the test grants to rounding.
    return np.asarray(table / table.sum(axis=1, keepdims=True))
