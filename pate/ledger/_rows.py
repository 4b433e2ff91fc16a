"""What a ledger says, as plain frozen values; every field is public unless it says otherwise."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from pate._core.checks import largest_of, least_of
from pate.exceptions import InvalidInputError
from pate.ledger._files import FileCheck
from pate.privacy.budget import Budget
from pate.privacy.compose.accounting_unit import Opening, Terms
from pate.privacy.convert import delta_left, gdp_to_epsilon
from pate.privacy.cost import Charge

#: What a release may have paid for.
KINDS = (
    "labels", "session", "capped votes", "gate", "sanitised value", "DP-SGD", "selection", "other",
    "ballots", "ballot session", "noise shares",
)  # fmt: skip

#: The keys of a registration in the file, the fingerprint apart.
_FACTS = ("unit", "adjacency", "classes", "n_units", "n_shards")


@dataclass(frozen=True)
class Answer:
    """One stored answer of a ledger: label index or ABSTAIN, noisy counts if they were released, and its release.

    Examples
    --------
    >>> Answer(label=3, noisy_counts=None, release=1).label
    3
    """

    label: int
    noisy_counts: tuple[float, ...] | None
    release: int


@dataclass(frozen=True)
class LedgerRow:
    """One release as the ledger holds it; every field is public.

    Attributes
    ----------
    id : int
        The release's number: rows are ordered by it, never by time.
    created : str
        When, by the clock of the machine; information only.
    mechanism : str
    n_queries : int
    charge : Charge
        The worst case that was charged.
    facts : dict
        Further public facts.
    seeded : bool
        Whether the noise could be repeated: then nothing is private.
    version : str
        The version of this library.
    n_answers : int
        Stored with the release itself; a run of capped votes stores its answers later.
    digest : str
        The hash of the row, of its answers and of everything before it.
    kind : str
        What was paid for, one of :data:`KINDS`.
    price : float
        What it took of the limit, in the ledger's currency.
    failure : float
        What it took of the share of delta that was set aside.
    contents : dict or None
        A digest of the private features under the ledger's key and a salt; None where it was not known.

    Examples
    --------
    >>> LedgerRow(
    ...     1, "2026-01-01T00:00:00+00:00", "GNMax(sigma=40.0)", 10, Charge.zero(), {}
    ... ).id
    1
    """

    id: int
    created: str
    mechanism: str
    n_queries: int
    charge: Charge
    facts: dict[str, Any]
    seeded: bool = False
    version: str = ""
    n_answers: int = 0
    digest: str = ""
    kind: str = "labels"
    price: float = 0.0
    failure: float = 0.0
    contents: dict[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Registration:
    """The private data set that a ledger is for, in public facts.

    Attributes
    ----------
    unit : {"record", "group"}
    classes : tuple
        Class values in their order.
    n_units : int or None
        Number of protected units (public under replace-one adjacency).
    n_shards : int or None
        Into how many disjoint shards the data were cut when they were registered. A later release may cut again.
    fingerprint : str or None
        A digest of the private records, by which a ledger recognises them: **sensitive**, not shown, and stored only
        under a secret key (:class:`pate.Ledger`).
    adjacency : str
    contents : str or None
        A digest of their features, likewise: by it a ledger tells that stored answers are of other features.
    sketch : (tuple of str, tuple of str) or None
        Digests of some of the rows, and of some of the people, likewise: by them a ledger tells that another data set
        is largely of the same ones. All three are of :func:`pate.data.recognised_by`. Empty ones are kept, too, filled
        up: that no row stands once is private. None: not looked for.
    tiers : tuple of (name, weight), or None
        Where units are of several tiers, each charged its own: weights in whole 65,536ths (:mod:`pate.privacy.tiers`).
    members : str or None
        A digest of which unit is in which tier, stored under the secret key: a unit that changed its tier between
        releases would be charged by two weights.

    Examples
    --------
    >>> Registration("record", ("no", "yes"), n_units=1000, fingerprint="0123abcd")
    Registration(unit='record', classes=('no', 'yes'), n_units=1000, n_shards=None, adjacency='replace-one')
    """

    unit: str
    classes: tuple[Any, ...]
    n_units: int | None = None
    n_shards: int | None = None
    fingerprint: str | None = field(default=None, repr=False)
    adjacency: str = "replace-one"
    contents: str | None = field(default=None, repr=False)
    sketch: tuple[tuple[str, ...], tuple[str, ...]] | None = field(default=None, repr=False)
    tiers: tuple[tuple[str, int], ...] | None = field(default=None, repr=False)
    members: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.unit not in ("record", "group"):
            raise InvalidInputError(f"unit must be 'record' or 'group', got {self.unit!r}.")
        object.__setattr__(self, "classes", tuple(_plain(c) for c in self.classes))

    @classmethod
    def of_votes(cls, votes: Any) -> Registration:
        """Return the data set behind a :class:`pate.Votes`."""
        return cls(
            votes.unit,
            votes.classes,
            n_units=votes.n_units,
            n_shards=votes.n_teachers,
            fingerprint=votes.fingerprint,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the public facts as JSON values, the fingerprint left out."""
        facts = {name: list(v) if isinstance(v := getattr(self, name), tuple) else v for name in _FACTS}
        return facts if self.tiers is None else {**facts, "tiers": [list(tier) for tier in self.tiers]}


def _plain(value: Any) -> Any:
    """Return a class value as JSON has it: 1, 1.0, True and "1" stay four different things."""
    item = value.item() if hasattr(value, "item") else value
    if isinstance(item, float) and not math.isfinite(item):
        return repr(item)
    return item if isinstance(item, str | bool | int | float) else repr(item)


@dataclass(frozen=True)
class Remaining:
    """What a ledger's total still allows, in its accounting unit. Public: charges are constants.

    Attributes
    ----------
    opening : Opening or None
        What the ledger was opened with; None before the first release.
    prices, failures : tuple of float
        Cost and failure probability of each release; sums are rounded once, as :meth:`pate.Ledger.verify` does.

    Examples
    --------
    >>> left = Remaining(Opening(Budget(1.0, 1e-5), "gdp", 0.0, None))
    >>> left.fraction_left, round(left.epsilon_left, 6), left.currency
    (1.0, 1.0, 'gdp')
    >>> print(left)
    left: 100.0% of the total (epsilon 1 at delta 1e-05, accounting unit open until the first charge) after 0 releases;
    one more release of up to epsilon 1.000 fits
    """

    opening: Opening | None
    prices: tuple[float, ...] = field(default=(), repr=False)
    failures: tuple[float, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        if self.total is None:
            return "left: all; the first release fixes the total"
        total, n = self.total, self.n_releases
        counted = "accounting unit open until the first charge" if self.terms is None else f"counted in {self.currency}"
        aside = f"; {self.failure_left:g} of delta left for costs that may fail" if self.failure_left else ""
        gaussian = "" if self._order is None else " of Gaussian noise"
        fits = f"one more release{gaussian} of up to epsilon {self.epsilon_left:.3f} fits"
        if self.epsilon_left < 0.0005 or self.fraction_left < 0.0005:
            fits = "nothing more of use can be released; what was released stays free"
        return (
            f"left: {self.fraction_left:.1%} of the total "
            f"(epsilon {total.epsilon:g} at delta {total.delta:g}, {counted}) "
            f"after {n} release{'s' * (n != 1)}; {fits}{aside}"
        )

    @property
    def total(self) -> Budget | None:
        """The budget of all releases together; None before the first."""
        return None if self.opening is None else self.opening.total

    @property
    def terms(self) -> Terms | None:
        """Currency, limit and share for failures; None before the first charge fixes them."""
        return None if self.opening is None else self.opening.terms

    @property
    def currency(self) -> str | None:
        """The name of the currency, or of what was asked for; None where the first charge decides."""
        if self.opening is None or self.terms is None:
            return None if self.opening is None else self.opening.asked
        return self.terms.currency.name

    @property
    def n_releases(self) -> int:
        """How many were charged."""
        return len(self.prices)

    @property
    def spent(self) -> float:
        """Sum of the prices, in the ledger's currency."""
        return math.fsum(self.prices)

    @property
    def left(self) -> float:
        """How much further prices may add up to; infinite before the first charge."""
        return (
            math.inf
            if self.terms is None
            else largest_of(0.0, math.fsum((self.terms.limit, *(-p for p in self.prices))))
        )

    @property
    def fraction_left(self) -> float:
        """Share of the limit that is left, 0 to 1. It is no epsilon and converts to none."""
        return 1.0 if self.terms is None else self.left / self.terms.limit

    @property
    def failure_left(self) -> float | None:
        """How much of the share of delta for costs that may fail is left; None where the first charge decides."""
        if self.terms is None:
            return None if self.opening is None else self.opening.failure_delta
        return largest_of(0.0, math.fsum((self.terms.failure_delta, *(-f for f in self.failures))))

    @property
    def epsilon_left(self) -> float:
        """The epsilon, at the total's delta, of the one largest release of Gaussian noise that still fits.

        It adds to nothing: the epsilon spent and the epsilon left do not sum to the total's.
        """
        if self.total is None:
            return math.inf
        if self.terms is None:
            return self.total.epsilon
        left = delta_left(self.total.delta, self.terms.failure_delta)
        found = least_of(self.total.epsilon, self.terms.currency.epsilon(self.left, left))
        if self._order is not None:  # its own conversion has an overhead, however little is left
            unit = self.terms.currency.price(Charge.gaussian(sensitivity=1.0, sigma=1.0))  # as it would be charged
            found = least_of(found, gdp_to_epsilon(math.sqrt(self.left / unit), left))
        return found

    @property
    def _order(self) -> float | None:
        """The single Renyi order that is counted at, if there is one."""
        order = None if self.terms is None else self.terms.currency.order
        return None if order is None or math.isinf(order) else order

    def refusal(self, cost: Charge) -> str:
        """Return why the cost would not fit, in words; "" if it would."""
        return "" if self.opening is None else self.opening.refusal(self.prices, self.failures, cost)

    def allows(self, cost: Charge) -> bool:
        """Return whether the cost would fit."""
        return not self.refusal(cost)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        if self.total is None:
            return {"total": None, "n_releases": 0}
        return {
            "total": {"epsilon": self.total.epsilon, "delta": self.total.delta},
            "currency": self.currency,
            "limit": None if self.terms is None else self.terms.limit,
            "spent": self.spent,
            "n_releases": self.n_releases,
            "fraction_left": self.fraction_left,
            "epsilon_left": self.epsilon_left,
            "failure_delta": self.failure_left if self.terms is None else self.terms.failure_delta,
            "failure_left": self.failure_left,
        }


@dataclass(frozen=True)
class Verification:
    """The result of checking a ledger: the problems that were found, and the state of each file.

    Attributes
    ----------
    problems : tuple of str
        What is wrong: changed, missing, reordered or added rows, a changed total, a damaged file. Empty if all is well.
    notes : tuple of str
        What is odd but proves nothing, such as a clock that went back.
    n_entries, n_releases, n_answers : int
    head : str
        The digest of the last entry. Written down elsewhere it also proves, later, that nothing was taken back.
    files : tuple of FileCheck
        What the ledger says of the files that were to be compared with it.

    Examples
    --------
    >>> bool(Verification((), (), 3, 1, 10, "ab"))
    True
    """

    problems: tuple[str, ...]
    notes: tuple[str, ...]
    n_entries: int
    n_releases: int
    n_answers: int
    head: str
    files: tuple[FileCheck, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong with the ledger."""
        return not self.problems

    @property
    def as_released(self) -> bool:
        """Whether the ledger and every file are as they were released."""
        return self.ok and all(file.ok for file in self.files)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        n = self.n_releases
        size = f"{self.n_entries} entries, {n} release{'s' * (n != 1)}, {self.n_answers} answers, head {self.head}"
        lines = [*map(str, self.files), f"{'verified' if self.ok else 'NOT VERIFIED'}: {size}"]
        return "\n".join([*lines, *(f"problem: {p}" for p in self.problems), *(f"note: {n}" for n in self.notes)])
