"""Which mechanisms are audited: each registers once, with examples, its law, its bank and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from pate.audit.laws._bank import law_bank
from pate.audit.laws._numbers import Numbers
from pate.core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.noise.source import NoiseSource

__all__ = ["Entry", "find", "register", "registered"]

#: (mechanism, histograms (n, m)) -> probabilities (n, n_outcomes), or the law of released numbers.
LawOf = Callable[[Any, IntArray], FloatArray | Numbers]
#: (mechanism, n_classes) -> histograms by name.
BankOf = Callable[[Any, int], Mapping[str, IntArray]]
#: (mechanism, counts (n, m), noise) -> labels (n,), ABSTAIN where refused, or numbers (n, k).
SampleOf = Callable[[Any, IntArray, NoiseSource], Any]

#: Registered when somebody asks for them: some rooms are heavy.
_ROOMS = {
    "pate.mechanisms": "pate.audit.laws._votes",
    "pate.privacy.publish": "pate.audit.laws._gates",
    "pate.rivals": "pate.audit.laws._rival_methods",
    "pate.dpsgd": "pate.audit.laws._training",
}


@dataclass(frozen=True, eq=False)
class Entry:
    """How mechanisms of one type are audited.

    Attributes
    ----------
    examples : tuple
        Mechanisms of one type; the first is audited in every test run.
    law, bank, sample : callable
        See :func:`register`.
    n_classes : int
    max_releases : int
        Of each histogram, where the caller does not say.
    wide : bool
        Whether a thousand classes may be asked about.
    """

    examples: tuple[Any, ...]
    law: LawOf
    bank: BankOf
    sample: SampleOf
    n_classes: int = 10
    max_releases: int = 20_000
    wide: bool = False


_ENTRIES: dict[type, Entry] = {}


def _law(mechanism: Any, counts: IntArray) -> FloatArray:
    return np.exp(mechanism.log_probs(counts))


def _bank(mechanism: Any, n_classes: int) -> dict[str, IntArray]:
    if not hasattr(mechanism, "exact_parameters"):
        return law_bank(n_classes, float(getattr(mechanism, getattr(mechanism, "_noises", ("sigma",))[0], 10.0)))
    exact = mechanism.exact_parameters()
    test = exact["threshold"]
    if test is None:
        return law_bank(n_classes, exact["noise"].scale)
    return law_bank(n_classes, exact["noise"].scale, threshold=test.threshold, scale1=test.scale)


def _sample(mechanism: Any, counts: IntArray, noise: NoiseSource) -> IntArray:
    return np.asarray(mechanism.sample(counts, noise).labels)


def register(
    examples: Iterable[Any],
    *,
    law: LawOf | None = None,
    bank: BankOf | None = None,
    sample: SampleOf | None = None,
    n_classes: int = 10,
    max_releases: int = 20_000,
    wide: bool | None = None,
) -> None:
    """Register mechanisms of one type: from then on they are audited like the package's own.

    Parameters
    ----------
    examples : iterable of mechanisms of one type
        Frozen values; subclasses are audited by the entry of their nearest registered base.
    law : callable, optional
        ``law(mechanism, counts)`` is the exact law on histograms (n, m): probabilities of shape (n, n_outcomes), the
        refusal last where there is one, or :class:`Numbers`. ``exp(mechanism.log_probs(counts))`` when not given.
    bank : callable, optional
        ``bank(mechanism, n_classes)`` gives histograms by name; :func:`law_bank` of the mechanism's noises otherwise.
    sample : callable, optional
        ``sample(mechanism, counts, noise)`` draws one release of each row of counts (n, m): labels (n,), -1 where it
        refuses, or numbers (n, k). ``mechanism.sample(counts, noise).labels`` when not given.
    n_classes : int
        Of the bank, where the caller does not say.
    max_releases : int
        Of each histogram, where the caller does not say: fewer for what is slow to draw.
    wide : bool, optional
        Whether a histogram of a thousand classes is asked about too; where the law is ``log_probs``, by itself.

    Raises
    ------
    InvalidInputError
        No example, or examples of several types.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from pate import GNMax
    >>> from pate.audit.laws import law
    >>> @dataclass(frozen=True)
    ... class HalfNoise(GNMax):
    ...     def sample(self, counts, noise, *, max_answers=None):
    ...         return GNMax(self.sigma / 2).sample(counts, noise, max_answers=max_answers)
    >>> register([HalfNoise(40.0)])
    >>> law(HalfNoise(40.0), noise_seed=0).refuted
    True
    >>> forget(HalfNoise)
    """
    made = tuple(examples)
    if len({type(m) for m in made}) != 1:
        names = ", ".join(type(m).__name__ for m in made) or "none"
        raise InvalidInputError(f"examples must be mechanisms of one type, got {names}. Register each type by itself.")
    whole = law is None if wide is None else wide
    _ENTRIES[type(made[0])] = Entry(made, law or _law, bank or _bank, sample or _sample, n_classes, max_releases, whole)


def forget(kind: type) -> None:
    """Take a type's entry away again."""
    _ENTRIES.pop(kind, None)


def registered() -> dict[type, Entry]:
    """Return all entries by type, the package's own first.

    Examples
    --------
    >>> from pate import GNMax
    >>> GNMax in registered()
    True
    """
    for home in _ROOMS.values():
        import_module(home)
    return dict(_ENTRIES)


def find(mechanism: Any) -> Entry | None:
    """Return the entry of a mechanism's type or of its nearest base; for one with ``log_probs`` there is always one."""
    for kind in type(mechanism).__mro__:
        for room, home in _ROOMS.items():
            if kind.__module__.startswith(room):
                import_module(home)
        if kind in _ENTRIES:
            return _ENTRIES[kind]
    if hasattr(mechanism, "log_probs") and hasattr(mechanism, "sample"):
        return Entry((mechanism,), _law, _bank, _sample, wide=True)
    return None
