"""The registry of audited mechanisms: examples, exact law, bank of histograms and sampler of each type."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import laplace as laplace_law

from pate._core.checks import check_int, check_real
from pate._core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.privacy.exact.noise import GaussianNoise, LaplaceNoise
from pate.privacy.noise.source import NoiseSource

# Alternative laws: what a faulty mechanism would release, each for a fault seen in published code.

#: Of the noise: from half to twice what is claimed.
FACTORS = (0.5, 0.7071, 0.8, 0.9, 0.95, 0.98, 1.02, 1.05, 1.1, 1.25, 1.4142, 2.0)
#: How often noise is left out.
_NODES = 256
#: Scales that differ by less share one grid, evenly spaced: a sum that is right to many digits.
_ALIKE = 4.0
#: Cumulative distribution and quantiles, by the family of noise.
_LAWS: dict[str, Any] = {
    "gaussian": (ndtr, ndtri),
    "laplace": (laplace_law.cdf, laplace_law.ppf),
}
#: Scales of noise of the other family.
_OTHER_FAMILY = (0.7071, 1.0, 1.4142)


def scaled_copies(mechanism: Any, noises: Sequence[str]) -> dict[str, Any]:
    """Return a frozen mechanism with each of its noises, and all of them, multiplied by :data:`FACTORS`."""
    noises = [name for name in noises if getattr(mechanism, name) is not None]
    groups = {name: [name] for name in noises} | ({"all noise": noises} if len(noises) > 1 else {})
    return {
        f"{group} x {factor:g}": dataclasses.replace(mechanism, **{n: getattr(mechanism, n) * factor for n in names})
        for group, names in groups.items()
        for factor in FACTORS
    }


def winner_law(centres: FloatArray, scales: FloatArray | float, *, laplace: bool = False) -> FloatArray:
    """Return approximately the probability that each class wins, with one noise scale per class: (n_classes,)."""
    wide = np.broadcast_to(np.asarray(scales, dtype=float), centres.shape)
    return _winner_law(np.asarray(centres, dtype=float).tobytes(), wide.tobytes(), laplace)


@lru_cache(maxsize=4096)
def _winner_law(centres: bytes, scales: bytes, laplace: bool) -> FloatArray:
    log_below = (LaplaceNoise if laplace else GaussianNoise)(1.0).log_cdf
    both = np.frombuffer(centres) + 1j * np.frombuffer(scales)
    alike, where, repeats = np.unique(both, return_inverse=True, return_counts=True)
    pairs = np.stack([alike.real, alike.imag])
    wins = np.empty(len(repeats))
    if pairs[1].max() < _ALIKE * pairs[1].min():  # one grid for all
        reach = 25.0 if laplace else 8.0
        x = np.linspace((pairs[0] - reach * pairs[1]).max(), (pairs[0] + reach * pairs[1]).max(), _NODES)
        z = (x - pairs[0][:, None]) / pairs[1][:, None]
        below = log_below(z)
        density = (-np.abs(z) if laplace else -0.5 * z * z) - np.log(pairs[1])[:, None]
        wins = np.exp(density - below + repeats @ below).sum(axis=1)
        pairs = pairs[:, :0]
    quantiles = _LAWS["laplace" if laplace else "gaussian"][1]((np.arange(_NODES) + 0.5) / _NODES)
    for j, (centre, scale) in enumerate(pairs.T):
        x = centre + scale * quantiles
        below = repeats @ log_below((x - pairs[0][:, None]) / pairs[1][:, None])
        wins[j] = np.exp(below - log_below((x - centre) / scale)).mean()
    law = wins[where.ravel()]
    law = np.asarray(law / law.sum())
    law.setflags(write=False)
    return law


def about(exact: Mapping[str, Any], counts: IntArray) -> FloatArray:
    """Return approximately the law of a noisy argmax with such exact parameters: quick, for alternatives only."""
    noise, test = exact["noise"], exact["threshold"]
    labels = np.stack([winner_law(row, noise.scale, laplace=is_laplace(noise)) for row in counts.astype(float)])
    if test is None:
        return labels
    passed = ndtr((test.top(counts) - test.threshold) / test.scale)[:, None]
    return np.concatenate([labels * passed, 1 - passed], axis=1)


def is_laplace(noise: Any) -> bool:
    return type(noise).__name__ == "LaplaceNoise"


def _unequal(n: int) -> Iterator[tuple[str, FloatArray]]:
    """Yield factors of the noise by class, which differ between classes."""
    for spread in (0.05, 0.1, 0.2, 0.5):
        for name, sign in (("growing", 1), ("falling", -1)):
            yield f"noise {name} by class, {spread:g}", 1 + sign * np.linspace(-spread, spread, n)


def label_faults(exact: Mapping[str, Any], counts: IntArray, law: FloatArray) -> dict[str, FloatArray]:
    """Return laws of faulty noisy argmaxes on histograms (n, m): each (n, m), or (n, m + 1) with a threshold.

    Noise that differs between classes, is missing on empty ones or is left out now and then, of another family or
    truncated, on every count of the threshold test, one noise for test and answer; ties to the lowest index; offsets
    of the test left out, or of the other sign.
    """
    n, m = counts.shape
    scale, laplace, test = exact["noise"].scale, is_laplace(exact["noise"]), exact["threshold"]
    values = counts.astype(float)
    top = values.max(axis=1)
    honest, passed = law[:, :m], np.ones(n)
    if test is not None:
        passed = ndtr((test.top(counts) - test.threshold) / test.scale)
        honest = law[:, :m] / np.maximum(law[:, :m].sum(axis=1, keepdims=True), 1e-300)

    def joined(labels: FloatArray, answered: FloatArray) -> FloatArray:
        both = [labels * answered[:, None], 1 - answered[:, None]]
        return labels if test is None else np.concatenate(both, axis=1)

    def winners(scales: FloatArray, *, other: bool = False) -> FloatArray:
        rows = np.broadcast_to(scales, values.shape)
        return joined(
            np.stack([winner_law(c, s, laplace=laplace != other) for c, s in zip(values, rows, strict=True)]), passed
        )

    found = {name: winners(scale * factors) for name, factors in _unequal(m)}
    found["no noise on empty classes"] = winners(np.where(counts > 0, scale, 1e-3 * scale))
    for factor in _OTHER_FAMILY:
        found[f"noise of the other family, scale x {factor:g}"] = winners(np.array(scale * factor), other=True)
    truth = (values == top[:, None]) / (values == top[:, None]).sum(axis=1, keepdims=True)
    first = np.eye(m)[values.argmax(axis=1)]
    for share in _LEFT_OUT:
        found[f"no noise in {share:g} of the answers"] = joined((1 - share) * honest + share * truth, passed)
        if share < 1:
            found[f"ties to the lowest index in {share:g}"] = joined((1 - share) * honest + share * first, passed)
    found["always the first of the largest"] = joined(first, passed)
    tilt = np.linspace(1, -1, m)
    for size in (0.003, 0.01, 0.03, 0.1):
        low = honest * (1 + size * tilt)
        found[f"low indices by {size:g}"] = joined(low / low.sum(axis=1, keepdims=True), passed)
    if test is None:
        return found
    seen, margins = test.top(counts), test.margins(counts)
    tested = values if margins is None else margins
    answered = {
        "threshold noise on every count": 1 - np.prod(ndtr((test.threshold - tested) / test.scale), axis=1),
        "no threshold noise": np.where(seen >= test.threshold, 1 - 1e-6, 1e-6),
        "no refusals": np.full(n, 1 - 1e-6),
        "the answer's noise in the test": 1 - np.prod(ndtr((test.threshold - tested) / scale), axis=1),
    }
    if margins is not None:
        wrong = {"no offsets": top, "offsets of the other sign": (2 * values - margins).max(axis=1)}
        answered |= {name: ndtr((h - test.threshold) / test.scale) for name, h in wrong.items()}
    for share in _LEFT_OUT[:3]:
        answered[f"no noise in {share:g} of the tests"] = (1 - share) * passed + share * (seen >= test.threshold)
    return found | {name: joined(honest, often) for name, often in answered.items()}


# Releases of real numbers: their exact law on stretches whose ends lie between the multiples of their grid.

#: Ends of stretches, as probabilities: tails, which show truncated noise and other families, and a body.
_TAILS = (1e-4, 1e-3, 0.01, 0.03)
_BODY = tuple(i / 16 for i in range(1, 16))
_LEFT_OUT = (1e-3, 1e-2, 1e-1, 1.0)


@dataclass(frozen=True, eq=False)
class Numbers:
    """The distribution of released numbers: independent noise around known centres, rounded to multiples of a grid.

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
    >>> made = Numbers(np.array([[0.0, 5.0]]), 2.0)
    >>> made.probabilities(made.edges()).sum(axis=1).round(12)
    array([1., 1.])

    A sampler of yours against the scale that it should have:

    >>> from pate.audit.laws import law
    >>> rng = np.random.default_rng(0)
    >>> claim = lambda counts: Numbers(counts.astype(float), 2.0, noise="laplace")
    >>> law(
    ...     claim,
    ...     sampler=lambda counts: counts + rng.laplace(0, 1.8, counts.shape),
    ...     bank=[[0]],
    ... ).refuted
    True
    """

    centres: FloatArray
    scale: float | FloatArray
    grid: float = 0.0
    noise: str = "gaussian"
    low: float = -np.inf
    high: float = np.inf

    @property
    def _columns(self) -> tuple[FloatArray, FloatArray]:
        scale = np.broadcast_to(np.asarray(self.scale, dtype=float), self.centres.shape)
        return self.centres.reshape(-1, 1), scale.reshape(-1, 1)

    def below(self, x: FloatArray, *, shift: float = 0.0, factor: float = 1.0, noise: str = "") -> FloatArray:
        """Return P(released <= x) by the number (rows of ``x``), where x lies between two multiples of the grid."""
        centres, scale = self._columns
        z = (x - centres - shift * scale) / (factor * scale)
        law = _LAWS[noise or self.noise][0](z)
        return np.where(x < self.low, 0.0, np.where(x >= self.high, 1.0, law))

    def edges(self) -> FloatArray:
        """Return ends of stretches by number, rising: (n_histograms * n_numbers, n_edges).

        The narrowest stretch holds the number without noise and little else.
        """
        z = _LAWS[self.noise][1](np.array(sorted((*_TAILS, *_BODY, *(1 - t for t in _TAILS)))))
        centres, scale = self._columns
        narrow = (max(self.grid, 0.0) or 1e-4) * (1 if self.grid else scale)
        ends = [centres + scale * z[z != 0], centres - narrow, centres + narrow]
        found = np.sort(np.concatenate(ends, axis=1), axis=1)
        # Between two multiples of the grid, where a rounded number and the real one lie on the same side.
        return found if not self.grid else (np.floor(found / self.grid) + 0.5) * self.grid

    def probabilities(self, edges: FloatArray, **other: float | str) -> FloatArray:
        """Return the law on the stretches, (n_histograms * n_numbers, n_edges + 1); ``other`` as in :meth:`below`."""
        below = self.below(edges, **other)  # type: ignore[arg-type]
        ends = np.ones((len(below), 1))
        return np.diff(np.concatenate([0 * ends, below, ends], axis=1), axis=1)

    def alternatives(self, edges: FloatArray, counts: IntArray) -> dict[str, FloatArray]:
        """Return laws of faulty noise on the same stretches: scaled, shifted, missing, truncated, of another family."""
        law = self.probabilities(edges)
        found = {f"noise x {f:g}": self.probabilities(edges, factor=f) for f in FACTORS}
        found |= {f"shifted by {s:g} scales": self.probabilities(edges, shift=s) for s in (-0.1, -0.03, 0.03, 0.1)}
        other = "laplace" if self.noise == "gaussian" else "gaussian"
        for factor in _OTHER_FAMILY:
            name = f"noise of the other family, scale x {factor:g}"
            found[name] = self.probabilities(edges, factor=factor, noise=other)
        still = np.eye(edges.shape[1] + 1)[
            [np.searchsorted(e, c) for e, c in zip(edges, self.centres.ravel(), strict=True)]
        ]
        found |= {f"no noise in {share:g} of the numbers": (1 - share) * law + share * still for share in _LEFT_OUT}
        for name, by_class in _unequal(self.centres.shape[1]):
            factors = np.tile(by_class, len(self.centres))[:, None]
            found[name] = self.probabilities(edges, factor=factors)  # type: ignore[arg-type]
        if counts.size == self.centres.size:
            found["no noise on empty classes"] = np.where(counts.reshape(-1, 1) > 0, law, still)
        centres, scale = self._columns
        for reach in (2.0, 3.0, 4.0):
            inside = np.abs((edges - centres) / scale) <= reach
            # A stretch one of whose ends is within reach.
            padded = np.concatenate([inside[:, :1], inside, inside[:, -1:]], axis=1)
            inside_law = np.where(padded[:, 1:] | padded[:, :-1], law, 0)
            found[f"noise truncated at {reach:g} scales"] = inside_law / inside_law.sum(axis=1, keepdims=True)
        return found

    def rivals(self, edges: FloatArray, counts: IntArray) -> dict[str, FloatArray]:
        """Return :meth:`alternatives`: its former name."""
        warnings.warn("rivals() is now alternatives(): call that.", DeprecationWarning, stacklevel=2)
        return self.alternatives(edges, counts)

    def tallies(self, edges: FloatArray, numbers: FloatArray, which: IntArray) -> IntArray:
        """Return how many ``numbers`` (n, n_numbers) of the histograms ``which`` (n,) lie in each stretch."""
        n_each = self.centres.shape[1]
        out = np.zeros((len(edges), edges.shape[1] + 1), dtype=np.int64)
        for h in range(len(self.centres)):
            mine = numbers[which == h]
            for j in range(n_each if len(mine) else 0):
                at = np.searchsorted(edges[h * n_each + j], mine[:, j])
                out[h * n_each + j] += np.bincount(at, minlength=out.shape[1])
        return out


# Histograms that exercise every branch of a mechanism: the bank decides which faults a test can find.

#: Many classes: the largest of so many noises moves with their scale, which one release of ten classes hardly shows.
WIDE = 1_000
#: Scales by which a leader over so many equals stands above them where its chance to win reveals most of the scale:
#: where the divergence of 0.9 from 1 scale is largest, found on a grid (experiments/audit_power.py).
_HEIGHTS = ((2, 2.1), (3, 2.2), (10, 2.5), (100, 3.1), (WIDE, 3.7))


def telling_height(n_classes: int) -> float:
    """Return by how many scales a leader should stand above ``n_classes - 1`` equals."""
    known = np.log([n for n, _ in _HEIGHTS])
    return float(np.interp(np.log(n_classes), known, [height for _, height in _HEIGHTS]))


def wide_bank(scale: float, top: int) -> dict[str, IntArray]:
    """Return histograms of two and of a thousand classes, with a leader at ``top`` votes at least.

    Among a thousand it stands 3.3 scales above the others: that reveals nearly as much of the scale as 3.7, and a
    third more of noise that differs between classes.
    """
    found = {}
    for m, name, height in ((2, "two classes in all", telling_height(2)), (WIDE, "a thousand classes", 3.3)):
        gap = round(height * scale)
        row = np.full(m, max(top, gap) - gap, dtype=np.int64)
        row[m // 2] += gap
        found[name] = row
    return found


def law_bank(
    n_classes: int, scale: float, *, threshold: float | None = None, scale1: float | None = None
) -> dict[str, IntArray]:
    """Return histograms, by name, that exercise every branch of a noisy argmax (and of a threshold test).

    No votes; one teacher; a leader over equals, where its chance to win reveals most of the scale (about 2.5 scales
    for ten classes), at the first, a middle and the last index; a tie of the first and the last class; two classes
    over empty ones; a staircase. With a threshold T the leaders stand at T - scale1, T, T + scale1 and T + 2 scale1,
    and all classes are alike above it,
    so that every branch is taken and one histogram shows both noises.

    Parameters
    ----------
    n_classes : int
        >= 2.
    scale : float
        The argmax noise, in votes.
    threshold, scale1 : float, optional
        Of the threshold test.

    Returns
    -------
    dict of str to numpy.ndarray of int64, shape (n_classes,)

    Examples
    --------
    >>> law_bank(4, 10.0)["leader in the middle"]
    array([ 0,  0, 23,  0])
    >>> law_bank(4, 10.0, threshold=200, scale1=50.0)["leader at T, first"]
    array([200, 177, 177, 177])
    """
    n_classes = check_int("n_classes", n_classes, low=2)
    scale = check_real("scale", scale, low=0, low_open=True)
    height = round(telling_height(n_classes) * scale)
    index, middle, last = np.arange(n_classes), n_classes // 2, n_classes - 1

    def leader(at: int, top: float, below: int = height) -> IntArray:
        # Clipped at 0: a histogram of votes.
        top = max(round(top), 0)
        return np.where(index == at, top, max(top - below, 0)).astype(np.int64)

    high = float(height) if threshold is None or scale1 is None else max(threshold + 2 * scale1, float(height))
    tie = leader(0, high, round(2.0 * scale))
    tie[last] = tie[0]
    two = np.zeros(n_classes, dtype=np.int64)
    two[[middle - 1, last]] = round(high), max(round(high) - round(2.1 * scale), 0)
    one = (index == last).astype(np.int64)
    step = round(0.4 * scale * min(1.0, 9 / last))
    stairs = max(round(high) - step * last, 0) + step * index
    bank = {"no votes": np.zeros(n_classes, dtype=np.int64), "one teacher": one}
    if threshold is None or scale1 is None:
        bank |= {
            "leader first": leader(0, high),
            "leader in the middle": leader(middle, high),
            "leader last, all vote": leader(last, high) + 3 * round(scale),
        }
    else:
        bank |= {
            "leader at T - s1, last": leader(last, threshold - scale1),
            "leader at T, first": leader(0, threshold),
            "leader at T + s1, last": leader(last, threshold + scale1),
            "leader at T + 2 s1, middle": leader(middle, high),
            "all alike, above T": np.full(n_classes, round(high), dtype=np.int64),
        }
    return bank | {"tie of first and last": tie, "two classes": two, "stairs": stairs.astype(np.int64)}


#: (mechanism, histograms (n, m)) -> probabilities (n, n_outcomes), or the law of released numbers.
LawOf = Callable[[Any, IntArray], FloatArray | Numbers]
#: (mechanism, n_classes) -> histograms by name.
BankOf = Callable[[Any, int], Mapping[str, IntArray]]
#: (mechanism, counts (n, m), noise) -> labels (n,), ABSTAIN where refused, or numbers (n, k).
SampleOf = Callable[[Any, IntArray, NoiseSource], Any]

#: Package -> module that registers its mechanisms when they are first needed: some packages are slow to import.
_REGISTERING_MODULES = {
    "pate.mechanisms": "pate.audit.laws._votes",
    "pate.privacy.publish": "pate.audit.laws._votes",
    "pate.comparison.baselines": "pate.audit.laws._votes",
    "pate.dpsgd": "pate.audit.laws._training",
}


@dataclass(frozen=True, eq=False)
class Entry:
    """The registration of one type of mechanism: what the audits need to know about it.

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
    noises : tuple of str or None

    Examples
    --------
    >>> from pate import LNMax
    >>> registered()[LNMax].examples
    (LNMax(scale=20.0), LNMax(scale=3.0))
    """

    examples: tuple[Any, ...]
    law: LawOf
    bank: BankOf
    sample: SampleOf
    n_classes: int = 10
    max_releases: int = 20_000
    wide: bool = False
    noises: tuple[str, ...] | None = None

    def noises_of(self, mechanism: Any) -> tuple[str, ...]:
        """Return the names of a mechanism's noises."""
        return self.noises if self.noises is not None else tuple(getattr(mechanism, "noise_fields", ()))


_ENTRIES: dict[type, Entry] = {}


#: The noise, in votes, that a bank is made for where a mechanism names none.
_USUAL = 10.0


def _law(mechanism: Any, counts: IntArray) -> FloatArray:
    return np.exp(mechanism.log_probs(counts))


def _bank(mechanism: Any, n_classes: int) -> dict[str, IntArray]:
    if not hasattr(mechanism, "exact_parameters"):
        noises = getattr(mechanism, "noise_fields", ("sigma",))
        return law_bank(n_classes, float(getattr(mechanism, noises[0], _USUAL)) if noises else _USUAL)
    exact = mechanism.exact_parameters()
    threshold, scale1 = (getattr(exact["threshold"], name, None) for name in ("threshold", "scale"))
    return law_bank(n_classes, exact["noise"].scale, threshold=threshold, scale1=scale1)


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
    noises: tuple[str, ...] | None = None,
) -> None:
    """Register your own type of mechanism for the audits that test the package's mechanisms.

    Parameters
    ----------
    examples : iterable of mechanisms of one type
        Frozen values; subclasses are audited by the entry of their nearest registered base.
    law : callable, optional
        ``law(mechanism, counts)`` is the exact law on histograms (n, m): probabilities of shape (n, n_outcomes), the
        refusal last where there is one, or :class:`Numbers`. ``exp(mechanism.log_probs(counts))`` when not given.
    bank : callable, optional
        ``bank(mechanism, n_classes)`` gives histograms by name; :func:`law_bank` of the mechanism's first noise (of ten
        votes where it names none) otherwise.
    sample : callable, optional
        ``sample(mechanism, counts, noise)`` draws one release of each row of counts (n, m): labels (n,), -1 where it
        refuses, or numbers (n, k). ``mechanism.sample(counts, noise).labels`` when not given.
    n_classes : int
        Of the bank, where the caller does not say.
    max_releases : int
        Of each histogram, where the caller does not say: fewer for what is slow to draw.
    wide : bool, optional
        Whether a histogram of a thousand classes is asked about too; where the law is ``log_probs``, by itself.
    noises : tuple of str, optional
        Fields of the mechanism, a dataclass, that are scales of noise: other scales are alternatives. Those that a
        :class:`~pate.mechanisms.Mechanism` names itself when not given.

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
    _ENTRIES[type(made[0])] = Entry(
        made, law or _law, bank or _bank, sample or _sample, n_classes, max_releases, whole, noises
    )


def forget(kind: type) -> None:
    """Remove a type of mechanism from the registry.

    Examples
    --------
    >>> class Coin: ...
    >>> register([Coin()], law=lambda coin, counts: np.full((len(counts), 2), 0.5))
    >>> forget(Coin)
    >>> Coin in registered()
    False
    """
    _ENTRIES.pop(kind, None)


def registered() -> dict[type, Entry]:
    """Return all registered entries by type of mechanism, the package's own first.

    Examples
    --------
    >>> from pate import GNMax
    >>> GNMax in registered()
    True
    """
    for module in _REGISTERING_MODULES.values():
        import_module(module)
    return dict(_ENTRIES)


def classes_of(mechanism: Any) -> int | None:
    """Return for how many classes a mechanism is; None where for any number."""
    offsets = getattr(mechanism, "offsets", None)
    return None if offsets is None else len(offsets)


def find(mechanism: Any) -> Entry | None:
    """Return the entry of a mechanism's type or of its nearest base; for one with ``log_probs`` there is always one."""
    for kind in type(mechanism).__mro__:
        for package, module in _REGISTERING_MODULES.items():
            if kind.__module__.startswith(package):
                import_module(module)
        if kind in _ENTRIES:
            return _ENTRIES[kind]
    if hasattr(mechanism, "log_probs") and hasattr(mechanism, "sample") and not isinstance(mechanism, type):
        return Entry((mechanism,), _law, _bank, _sample, wide=True)
    return None
