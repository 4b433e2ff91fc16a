"""What a federation agrees to before a round begins: every site checks it, and what it costs that site, for itself."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pate._core.checks import check_choice, check_int, check_real
from pate.exceptions import InvalidInputError
from pate.federation._config import check_party_name
from pate.federation._contract import check_tolerate
from pate.mechanisms import SharedGaussian, SharedGNMax, institution_charge
from pate.privacy.convert import format_up
from pate.release import viewer_guarantees

#: What is opened, and in words.
_OPENED = {
    "ballots": "sums of bounded ballots, with noise",
    "counts": "counts of teachers' votes, with noise",
    "labels": "labels alone, of votes with noise",
}
OPENS = tuple(_OPENED)


#: What a plan may ask of a site at most: it is checked before anything is priced.
_MOST = {"noise_multipliers": 1_000, "sites": 1_000, "recipients": 1_001, "classes": 10_000, "nonce": 100}
_MOST_CELLS = 1 << 26


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The terms of one run among institutions (sites): public, the same for all, and identified by its digest.

    Attributes
    ----------
    nonce : str
        Random, of this run: a run that failed is another run when it is tried again.
    coordinator : str
        Who asks.
    sites : tuple of str
        In the order of the parties; the coordinator, where it has no data of its own, comes first as party 0.
    n_units : tuple of int
        Of each site: public (replace-one adjacency).
    recipients : tuple of str
        Whom the result is opened to: parties.
    opens : {"ballots", "counts", "labels"}
    tolerate : int
        t: the coalition that is withstood, the coordinator among it.
    noise_multipliers : tuple of float
        Round by round: standard deviation of what *honest sites alone* (all but t) add together, over the most that one
        unit moves the sum. Counts and labels are one round.
    steps_per_vote : int
        Of labels: noise is whole multiples of one over this power of two.
    n_cells : int
        At most so many numbers are opened over all rounds (labels: so many are compared).
    classes : tuple
    unit : {"record", "group"}
    max_sites_per_person : int
    representation : str
        Fingerprint of the maps that sites get; empty for votes.
    queries : str
        Digest of the public rows that are voted on; empty for ballots.
    columns : tuple of str
        Columns of a public table: a site whose records lack one refuses before anybody is charged. Empty if columns
        have no names.

    Examples
    --------
    >>> plan = Plan(
    ...     nonce="ab",
    ...     coordinator="registry",
    ...     sites=("a", "b", "c"),
    ...     n_units=(9, 9, 9),
    ...     recipients=("registry",),
    ...     opens="ballots",
    ...     tolerate=1,
    ...     noise_multipliers=(4.0,),
    ...     n_cells=10,
    ...     classes=(0, 1),
    ...     unit="record",
    ... )
    >>> plan == Plan.from_dict(plan.to_dict()), len(plan.digest)
    (True, 64)
    """

    nonce: str
    coordinator: str
    sites: tuple[str, ...]
    n_units: tuple[int, ...]
    recipients: tuple[str, ...]
    opens: str
    tolerate: int
    noise_multipliers: tuple[float, ...]
    n_cells: int
    classes: tuple[Any, ...]
    unit: str
    max_sites_per_person: int = 1
    steps_per_vote: int = 1
    representation: str = ""
    queries: str = ""
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choice("opens", self.opens, OPENS)
        for name in ("sites", "n_units", "recipients", "noise_multipliers", "classes", "columns"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name, most in _MOST.items():
            if len(getattr(self, name)) > most:
                raise InvalidInputError(f"{name} must be at most {most:,}, got {len(getattr(self, name)):,}.")
        for i, noise in enumerate(self.noise_multipliers):
            check_real(f"noise_multipliers[{i}]", noise, low=1e-9, high=1e12)
        check_int("n_cells", self.n_cells, low=1, high=_MOST_CELLS)
        # Somebody at a site is shown these and decides by them: what certificates name changes nothing on a terminal.
        for one in (self.coordinator, *self.sites, *self.recipients):
            check_party_name(one)
        if not all(isinstance(one, str) for one in self.columns):
            raise InvalidInputError("columns must be texts: the names that a public table has.")
        if not set(self.recipients) <= {self.coordinator, *self.sites} or not self.recipients:
            raise InvalidInputError(f"recipients must be parties of the plan, one at least, got {self.recipients}.")
        for i, n in enumerate(self.n_units):
            check_int(f"n_units[{i}]", n, low=1)
        check_tolerate(self.tolerate, self.n_parties)

    @property
    def n_parties(self) -> int:
        """Sites, and the coordinator where it is none of them."""
        return len(self.sites) + (self.coordinator not in self.sites)

    @property
    def digest(self) -> str:
        """SHA-256 of all of it as canonical JSON."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Plan:
        """Return the plan behind its dictionary; refused where an entry is unknown or missing."""
        try:
            return cls(**values)
        except TypeError:
            raise InvalidInputError("a plan must have the entries that this version of pate knows.") from None


def mechanisms_of(plan: Plan) -> tuple[SharedGaussian | SharedGNMax, ...]:
    """Return what every site adds in each round of a plan: it is priced by these, and sampled by these.

    Counts and labels are votes on ``n_cells / len(classes)`` rows. One unit moves all counts by sqrt(2 rows), and those
    of one row, of which a label is made, by sqrt 2.

    Examples
    --------
    >>> plan = Plan(
    ...     nonce="ab",
    ...     coordinator="registry",
    ...     sites=("a", "b", "c"),
    ...     n_units=(9, 9, 9),
    ...     recipients=("registry",),
    ...     opens="ballots",
    ...     tolerate=1,
    ...     noise_multipliers=(4.0,),
    ...     n_cells=10,
    ...     classes=(0, 1),
    ...     unit="record",
    ... )
    >>> mechanisms_of(plan)
    (SharedGaussian(noise_multiplier=4.0, n_sites=3, tolerate=1, max_sites_per_person=1),)
    """
    k, t, c = len(plan.sites), plan.tolerate, plan.max_sites_per_person
    if plan.opens != "labels":
        return tuple(SharedGaussian(one, k, t, c) for one in plan.noise_multipliers)
    if len(plan.noise_multipliers) != 1:
        raise InvalidInputError("a plan that opens labels must have one round.")
    sigma = plan.noise_multipliers[0] * math.sqrt(2)
    return (SharedGNMax(sigma, k, t, len(plan.classes), c, steps_per_vote=plan.steps_per_vote),)


# In plain words: what is opened to whom, what it withstands, and what it costs by viewer.

_WHO = {
    "coalition": "any {t} parties together, the coordinator among them",
    "coordinator": "the coordinator alone",
    "outsider": "whoever sees only what is published",
}


def viewers_of(plan: Plan, delta: float) -> list[tuple[str, str, str]]:
    """Return who may look, what each sees, and the epsilon of one unit at ``delta``, rounded up."""
    found = viewer_guarantees(mechanisms_of(plan), plan.n_cells, delta)
    who = _WHO | ({"coalition": "any one party"} if plan.tolerate == 1 else {})
    return [(who[one.viewer].format(t=plan.tolerate), one.sees, format_up(one.epsilon)) for one in found]


def plan_lines(plan: Plan, delta: float) -> list[tuple[str, str]]:
    """Return what a plan does, each with its name: for the person who is asked to agree to it, or to pay for it.

    Examples
    --------
    >>> plan = Plan(
    ...     nonce="ab",
    ...     coordinator="registry",
    ...     sites=("a", "b", "c"),
    ...     n_units=(9, 9, 9),
    ...     recipients=("registry",),
    ...     opens="ballots",
    ...     tolerate=1,
    ...     noise_multipliers=(4.0,),
    ...     n_cells=10,
    ...     classes=(0, 1),
    ...     unit="record",
    ... )
    >>> plan_lines(plan, 1e-6)[1]
    ('opened', 'sums of bounded ballots, with noise: at most 10 numbers in 1 round, to registry')
    """
    n = len(plan.noise_multipliers)
    unit = "record" if plan.unit == "record" else "person"
    spread = "" if plan.max_sites_per_person == 1 else f", who may be at {plan.max_sites_per_person} sites"
    seen, most = viewers_of(plan, delta), max(plan.n_units)
    whole = institution_charge(mechanisms_of(plan), plan.n_cells, most).guarantee(delta).epsilon
    costs = [f"epsilon {epsilon} against {who}" for who, _, epsilon in seen]
    opened = f"at most {plan.n_cells:,} numbers in {n} round{'s' * (n != 1)}, to {', '.join(plan.recipients)}"
    lines = {
        "asks": f"{plan.coordinator}, of {len(plan.sites)} sites: {', '.join(plan.sites)}",
        "opened": f"{_OPENED[plan.opens]}: {opened}",
        "withstands": f"{seen[0][0]}, as long as all follow the protocol\nif one falls silent nothing more is opened",
        "costs": "\n".join([f"one {unit} of one site{spread}, at delta {delta:g}:", *costs]),
        "whole site": f"epsilon {format_up(whole)} if all {most:,} {unit}s of the largest site were replaced",
    }
    return list(lines.items())
