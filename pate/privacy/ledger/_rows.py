"""What a ledger says, as plain frozen values; every field is public unless it says otherwise."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from pate.exceptions import InvalidInputError
from pate.privacy.budget import Budget
from pate.privacy.charge import Charge
from pate.privacy.conversion import gdp_to_epsilon

#: The keys of a registration in the file, the fingerprint apart.
_FACTS = ("unit", "adjacency", "classes", "n_units", "n_shards")


@dataclass(frozen=True)
class Answer:
    """One stored answer: a label index or ABSTAIN, the noisy counts if those were released, and its release.

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

    Examples
    --------
    >>> LedgerRow(1, "2026-01-01T00:00:00+00:00", "GNMax(sigma=40.0)", 10, Charge.zero(), {}).id
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
        Into how many disjoint shards the data were cut when they were registered. A later release may cut anew.
    fingerprint : str or None
        A digest of the private records, by which a ledger recognises them: **sensitive**, not shown, and stored only
        under a secret key (:class:`pate.Ledger`).
    adjacency : str

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

    def __post_init__(self) -> None:
        if self.unit not in ("record", "group"):
            raise InvalidInputError(f"unit must be 'record' or 'group', got {self.unit!r}.")
        object.__setattr__(self, "classes", tuple(_plain(c) for c in self.classes))

    def to_dict(self) -> dict[str, Any]:
        """Return the public facts as JSON values, the fingerprint left out.

        Examples
        --------
        >>> Registration("record", (0, 1), fingerprint="0123abcd").to_dict()["classes"]
        [0, 1]
        """
        return {name: list(v) if isinstance(v := getattr(self, name), tuple) else v for name in _FACTS}


def _plain(value: Any) -> Any:
    """Return a class value as JSON has it: 1, 1.0, True and "1" stay four different things."""
    item = value.item() if hasattr(value, "item") else value
    if isinstance(item, float) and not math.isfinite(item):
        return repr(item)
    return item if isinstance(item, str | bool | int | float) else repr(item)


@dataclass(frozen=True)
class Remaining:
    """What a ledger's total still allows. Public: charges are constants.

    Attributes
    ----------
    total : Budget or None
        None before the first release.
    spent_mu_squared : float
    n_releases : int
    costs : tuple of float
        The releases' mu^2 one by one: sums are then rounded once, as :meth:`pate.Ledger.verify` does.

    Examples
    --------
    >>> left = Remaining(Budget(1.0, 1e-5), spent_mu_squared=0.0, n_releases=0)
    >>> left.fraction_left, round(left.epsilon_left, 6)
    (1.0, 1.0)
    """

    total: Budget | None
    spent_mu_squared: float
    n_releases: int
    costs: tuple[float, ...] = field(default=(), repr=False)

    @property
    def left_mu_squared(self) -> float:
        """How much mu^2 further releases may add up to; infinite without a total."""
        return math.inf if self.total is None else max(0.0, self.total.mu_squared - self.spent_mu_squared)

    @property
    def fraction_left(self) -> float:
        """Share of the total's mu^2 that is left, 0 to 1."""
        return 1.0 if self.total is None else self.left_mu_squared / self.total.mu_squared

    @property
    def epsilon_left(self) -> float:
        """The epsilon, at the total's delta, of the one largest Gaussian release that still fits.

        It adds to nothing: the epsilon spent and the epsilon left do not sum to the total's.
        """
        if self.total is None:
            return math.inf
        left = self.left_mu_squared
        return gdp_to_epsilon(math.sqrt(left), self.total.delta) if left else 0.0

    def allows(self, charge: Charge) -> bool:
        """Return whether the charge would fit.

        Examples
        --------
        >>> Remaining(Budget(1.0, 1e-5), 0.0, 0).allows(Charge.gaussian(sensitivity=2**0.5, sigma=1.0))
        False
        """
        spent = self.costs or (self.spent_mu_squared,)
        return self.total is None or math.fsum((*spent, charge.mu_squared)) <= self.total.mu_squared

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON values.

        Examples
        --------
        >>> Remaining(Budget(1.0, 1e-5), 0.0, 0).to_dict()["n_releases"]
        0
        """
        total = None if self.total is None else {"epsilon": self.total.epsilon, "delta": self.total.delta}
        figures = {} if total is None else {"fraction_left": self.fraction_left, "epsilon_left": self.epsilon_left}
        return {"total": total, "n_releases": self.n_releases, "spent_mu_squared": self.spent_mu_squared, **figures}


@dataclass(frozen=True)
class Verification:
    """What checking a ledger found.

    Attributes
    ----------
    problems : tuple of str
        What is wrong: changed, missing, reordered or added rows, a changed total, a damaged file. Empty if all is well.
    notes : tuple of str
        What is odd but proves nothing, such as a clock that went back.
    n_entries, n_releases, n_answers : int
    head : str
        The digest of the last entry. Written down elsewhere it also proves, later, that nothing was taken back.

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

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        size = f"{self.n_entries} entries, {self.n_releases} releases, {self.n_answers} answers, head {self.head}"
        lines = [f"{'verified' if self.ok else 'NOT VERIFIED'}: {size}"]
        return "\n".join([*lines, *(f"problem: {p}" for p in self.problems), *(f"note: {n}" for n in self.notes)])
