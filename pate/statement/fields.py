"""What a statement holds, each entry checked where it comes in; its words and its JSON are made elsewhere."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from importlib import metadata
from typing import Any

from pate.core.provenance import git_commit, now
from pate.exceptions import InvalidInputError, SensitiveValueError
from pate.privacy.words import Guarantee
from pate.statement.assumptions import Assumption
from pate.statement.measured import MeasuredAccuracy, check_measured
from pate.statement.plain import (
    LARGEST,
    check_guarantee,
    check_keys,
    check_number,
    check_text,
    check_texts,
    check_whole,
)

# What speaks against the use of released labels, as a statement tells it: a kind, and a sentence with its remedy.

#: What there may be to say.
KINDS = ("classes never named", "below the commonest", "few public rows")
#: A statement is a page.
MOST_DOUBTS = 20


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """A reason not to rely on released labels; public, as it follows from what was released and from public rows.

    Parameters
    ----------
    kind : {"classes never named", "below the commonest", "few public rows"}
    sentence : str
        What is so, and what helps.

    Raises
    ------
    InvalidInputError
        Another kind, or no plain text.
    """

    kind: str
    sentence: str

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            raise InvalidInputError(f"a doubt's kind must be one of {', '.join(KINDS)}. Name its kind.")
        check_text("a doubt's sentence", self.sentence)

    def __str__(self) -> str:
        return self.sentence

    def to_dict(self) -> dict[str, str]:
        """Return the fields as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, where: str = "a doubt") -> Doubt:
        """Return the doubt behind its dictionary, strictly.

        Raises
        ------
        InvalidInputError
            An entry is unknown, missing or of another kind.
        """
        return cls(**check_keys(where, values, ["kind", "sentence"]))


def check_doubts(values: Any) -> tuple[Doubt, ...]:
    """Return a list of doubts, given as such or as dictionaries."""
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) > MOST_DOUBTS:
        raise InvalidInputError(f"doubts must be a list of at most {MOST_DOUBTS} doubts. Put them into a list.")
    return tuple(
        one if isinstance(one, Doubt) else Doubt.from_dict(one, where=f"doubts[{i}]") for i, one in enumerate(values)
    )


# What a statement may say of an audit: what was tried, and whether the claim stood; never what was found.

#: The layers of an audit, from certain to suggestive, and what each did.
LAYERS = {
    "replay": "inner states compared on two neighbouring data sets",
    "law": "what is drawn compared with the exact law",
    "pair": "the exact divergence of two neighbouring data sets",
    "game": "an attacker who tells two worlds apart",
    "attack": "membership inference",
}
#: A statement is a page.
MOST_AUDITS = 40


@dataclass(frozen=True, kw_only=True)
class CitedAudit:
    """An audit as it may be cited whatever the data were.

    Attributes
    ----------
    layer : {"replay", "law", "pair", "game", "attack"}
    claim : str
        What was to be refuted.
    tried : str
        What was tried.
    stood : bool
        Whether the claim stood. That it did proves nothing; that it did not is proof against it.
    """

    layer: str
    claim: str
    tried: str
    stood: bool

    def __post_init__(self) -> None:
        if not isinstance(self.layer, str) or self.layer not in LAYERS:
            raise InvalidInputError(f"a cited audit's layer must be one of {', '.join(LAYERS)}. Name its layer.")
        check_text("a cited audit's claim", self.claim)
        check_text("a cited audit's tried", self.tried)
        if not isinstance(self.stood, bool):
            raise InvalidInputError("a cited audit's stood must be True or False.")

    def __str__(self) -> str:
        word = "the claim stood" if self.stood else "the claim was REFUTED"
        return f"{self.layer} ({LAYERS[self.layer]}): tried {self.tried}, against {self.claim}; {word}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, where: str = "a cited audit") -> CitedAudit:
        """Return the audit behind its dictionary, strictly.

        Raises
        ------
        InvalidInputError
            An entry is unknown, missing or of another kind: what was found has no place here.
        """
        return cls(**check_keys(where, values, ["layer", "claim", "tried", "stood"]))


def check_audits(values: Any) -> tuple[CitedAudit, ...]:
    """Return a list of cited audits, given as such or as what ``cited()`` returns."""
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) > MOST_AUDITS:
        raise InvalidInputError(
            f"audits must be a list of at most {MOST_AUDITS} audits, each as its cited() gives it. Put them into a "
            "list, or cite those that matter."
        )
    return tuple(
        one if isinstance(one, CitedAudit) else CitedAudit.from_dict(one, where=f"audits[{i}]")
        for i, one in enumerate(values)
    )


UNITS = {
    "record": "one record (one row of the private data)",
    "group": "one group (all rows of one person, by the group column)",
}
#: What a statement says of tuning when nobody stated anything.
OPEN_TUNING = (
    "open: nobody stated what was tuned on the private data, nor how many other fits (a grid search, another run) were "
    "made on them; this statement is of one release, and only a ledger counts them all"
)
#: Named in a statement when they were imported: then they may have had a part in it.
_IF_IMPORTED = {"sklearn": "scikit-learn", "torch": "torch", "opacus": "opacus"}


def versions() -> dict[str, str]:
    """Return the versions a reader needs to repeat the computation; nothing is imported for it.

    Examples
    --------
    >>> {"numpy", "pate", "python", "scipy"} <= set(versions())
    True
    """
    used = [name for module, name in _IF_IMPORTED.items() if module in sys.modules]
    found = {name: _version(name) for name in ("pate", "numpy", "scipy", "dp-accounting", *used)}
    return {**{name: v for name, v in found.items() if v}, "python": platform.python_version()}


@lru_cache
def _version(name: str) -> str | None:
    """Return a package's version, asked once: files are read for it."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


#: The format of the JSON; another number when a field changes its meaning.
SCHEMA = "pate-statement-3"
#: That of earlier versions, still read: its words looked at epsilon and delta alone, its tier at epsilon alone.
BY_PAIR = "pate-statement-2"


@lru_cache(maxsize=1)
def _commit() -> str:
    """Return the checkout's commit, asked once: the code that runs was read when the process began."""
    return git_commit() or ""


@dataclass(frozen=True, kw_only=True)
class StatementFields:
    """The entries of a :class:`pate.PrivacyStatement`, which tells what each means."""

    released: str
    unit: str
    n_units: int | None
    guarantee: Guarantee
    mechanism: str
    accounting: str
    noise_source: str = "operating system"
    seeded: bool = False
    setting: str = "central: the curator holds the records, trains on them and is trusted with them"
    threat_model: str = (
        "anyone who sees what was released, whatever else they know (every other unit's data, say), however much they "
        "compute, and whatever they do with it later; not against the curator, nor against whoever watches or times "
        "the curator's machine"
    )
    covered: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    tuning: str = ""
    verify: str = ""
    ledger_head: str = ""
    ledger_releases: tuple[int, ...] = ()
    dataset: str = ""
    organisation: str = ""
    purpose: str = ""
    label_file: str = ""
    label_file_sha256: str = ""
    mu: float | None = None
    rho: float | None = None
    curve: tuple[tuple[float, float], ...] = ()
    audits: tuple[CitedAudit, ...] = ()
    measured: MeasuredAccuracy | None = None
    doubts: tuple[Doubt, ...] = ()
    created: str = field(default_factory=now)
    versions: dict[str, str] = field(default_factory=versions)
    commit: str = field(default_factory=_commit)
    schema: str = SCHEMA

    def __post_init__(self) -> None:
        if self.schema not in (SCHEMA, BY_PAIR):
            raise InvalidInputError(
                f"the statement's schema must be {SCHEMA!r} or {BY_PAIR!r}. Read it with the pate that wrote it."
            )
        if not isinstance(self.guarantee, Guarantee):
            raise InvalidInputError("guarantee must be a pate.Guarantee. Pass release.guarantee, for example.")
        if self.guarantee.kind == "data-dependent":
            raise SensitiveValueError(
                "a statement is public and cannot carry a data-dependent epsilon. Pass the public guarantee."
            )
        check_guarantee(self.guarantee)
        for name in _TEXTS:
            check_text(name, getattr(self, name))
        if self.label_file_sha256 and not re.fullmatch("[0-9a-f]{64}", self.label_file_sha256):
            raise InvalidInputError("label_file_sha256 must be 64 hexadecimal digits, or empty.")
        if not self.tuning.strip():
            object.__setattr__(self, "tuning", OPEN_TUNING)
        for name in ("covered", "not_covered"):
            object.__setattr__(self, name, check_texts(name, getattr(self, name)))
        if isinstance(self.assumptions, str) or not isinstance(self.assumptions, tuple | list):
            raise InvalidInputError("assumptions must be a list of Assumption. Put them into a list.")
        held = tuple(a if isinstance(a, Assumption) else Assumption(name="stated", claim=a) for a in self.assumptions)
        object.__setattr__(self, "assumptions", held)
        if not isinstance(self.unit, str) or self.unit not in UNITS:
            raise InvalidInputError(f"unit must be one of {', '.join(UNITS)}. Say what one person's data is.")
        if self.n_units is not None:
            object.__setattr__(self, "n_units", check_whole("n_units", self.n_units, low=0))
        if not isinstance(self.ledger_releases, tuple | list):
            raise InvalidInputError("ledger_releases must be a list of numbers of releases.")
        releases = tuple(check_whole("ledger_releases", number, low=1) for number in self.ledger_releases)
        object.__setattr__(self, "ledger_releases", releases)
        if not isinstance(self.seeded, bool):
            raise InvalidInputError("seeded must be True or False.")
        if self.guarantee.kind == "seeded" and not self.seeded:
            raise InvalidInputError("the statement contradicts itself: its guarantee is of seeded noise, it is not.")
        object.__setattr__(self, "audits", check_audits(self.audits))
        object.__setattr__(self, "measured", check_measured(self.measured))
        object.__setattr__(self, "doubts", check_doubts(self.doubts))
        self._check_promises()
        if not isinstance(self.versions, dict):
            raise InvalidInputError("versions must be a dictionary of names to versions.")
        for name, version in self.versions.items():
            check_text("versions", name)
            check_text(f"versions[{name!r}]", version)

    @property
    def promised(self) -> dict[str, Any]:
        """What bounds an attacker beside epsilon and delta, as :func:`pate.privacy.attacker.attack_bounds` takes it."""
        return {"mu": self.mu, "curve": self.curve}

    @property
    def n_public(self) -> int | None:
        """The number of units, where neighbouring data sets have equally many."""
        return None if self.guarantee.adjacency == "add-or-remove" else self.n_units

    def _check_promises(self) -> None:
        for name in ("mu", "rho"):
            if getattr(self, name) is not None:
                # Whoever knows the seed is promised nothing, by no definition.
                value = None if self.seeded else check_number(name, getattr(self, name), low=0, high=LARGEST)
                object.__setattr__(self, name, value)
        if not isinstance(self.curve, tuple | list) or not all(
            isinstance(point, tuple | list) and len(point) == 2 for point in self.curve
        ):
            raise InvalidInputError("curve must be a list of pairs (delta, epsilon).")
        points = tuple(
            (check_number("curve delta", d, low=0, high=1), check_number("curve epsilon", e, low=0, high=LARGEST))
            for d, e in self.curve
        )
        object.__setattr__(self, "curve", () if self.seeded else points)


_TEXTS = tuple(f.name for f in fields(StatementFields) if f.type == "str" and f.name != "unit")
