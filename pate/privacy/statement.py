"""The privacy statement: everything a reader needs to know what an epsilon means, as data and as a page of text.

The fields follow the reporting checklist of Ponomareva et al. 2023, "How to DP-fy ML". Every field is public: none may
be read off the private records. The JSON form is described by ``_templates/statement.schema.json``.
"""

from __future__ import annotations

import platform
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from pate.exceptions import InvalidInputError, SensitiveValueError
from pate.privacy._plain import check_guarantee, check_keys, check_text, check_texts, check_whole
from pate.privacy.attacker import attack_bounds, in_words
from pate.privacy.conversion import format_up
from pate.privacy.guarantee import Guarantee

#: The format of the JSON; another number when a field changes its meaning.
SCHEMA = "pate-statement-1"
UNITS = {
    "record": "one record (one row of the private data)",
    "group": "one group (all rows of one person, by the group column)",
}
#: Who vouches for an assumption.
BY = {"pate": "seen to by pate", "curator": "stated by the curator", "nobody": "not checked"}
#: Derived from the fields, for readers of the JSON; a file in which they differ from the fields is refused.
DERIVED = ("schema", "headline", "private", "tier", "meaning")


def tier(epsilon: float) -> str:
    """Return the tier of an epsilon: <= 1 strong, <= 10 reasonable, above weak.

    Examples
    --------
    >>> tier(1.0), tier(3.0), tier(12.0)
    ('strong', 'reasonable', 'weak')
    """
    return "strong" if epsilon <= 1 else "reasonable" if epsilon <= 10 else "weak"


def versions() -> dict[str, str]:
    """Return the versions a reader needs to repeat the computation.

    Examples
    --------
    >>> sorted(versions())
    ['numpy', 'pate', 'python', 'scipy']
    """
    found = {name: metadata.version(name) for name in ("pate", "numpy", "scipy")}
    return {**found, "python": platform.python_version()}


@dataclass(frozen=True, kw_only=True)
class Assumption:
    """Something the guarantee rests on, and how it was ensured.

    Attributes
    ----------
    name : str
        Short, the same in every statement.
    claim : str
        What has to be true.
    how : str
        How it was ensured.
    by : {"pate", "curator", "nobody"}
        Who vouches: this software, whoever ran it, or nobody (it was not checked).

    Examples
    --------
    >>> print(Assumption(name="noise", claim="nobody can repeat the noise", how="the system's generator", by="pate"))
    nobody can repeat the noise (seen to by pate: the system's generator)
    """

    name: str
    claim: str
    how: str = ""
    by: str = "curator"

    def __post_init__(self) -> None:
        for key in ("name", "claim", "how"):
            check_text(f"assumption {key}", getattr(self, key))
        if self.by not in tuple(BY):
            raise InvalidInputError(f"an assumption's by must be one of {', '.join(BY)}. Say who vouches for it.")

    def __str__(self) -> str:
        return f"{self.claim} ({BY[self.by]}{': ' if self.how else ''}{self.how})"


@dataclass(frozen=True, kw_only=True)
class PrivacyStatement:
    """What was protected, against whom, how, and at which price.

    Attributes
    ----------
    released : str
        What left the curator.
    unit : {"record", "group"}
    n_units : int or None
        Number of protected units (public under replace-one adjacency).
    guarantee : Guarantee
        Public or sanitised; a data-dependent one is refused.
    mechanism : str
        The mechanism with its parameters.
    accounting : str
        How the price composes.
    noise_source : str
    seeded : bool
        True when the noise could be repeated: then nothing is private.
    setting, threat_model : str
        Who is trusted with what; against whom the guarantee holds, and against whom it does not.
    covered, not_covered : tuple of str
    assumptions : tuple of Assumption
        A plain text is taken as stated by the curator.
    tuning : str
        What was tuned on private data and whether that is charged.
    verify : str
        How a reader recomputes epsilon.
    ledger_head : str
        Hash of the ledger's last row that this release knew; empty without a ledger.
    ledger_releases : tuple of int
        The ledger's releases that the labels come from.
    created : str
    versions : dict of str to str

    Examples
    --------
    >>> s = PrivacyStatement(released="labels", unit="record", n_units=100, mechanism="GNMax(sigma=40)",
    ...     guarantee=Guarantee(epsilon=1.0, delta=1e-5, kind="public", method="gdp"), accounting="GDP")
    >>> s.headline
    'epsilon = 1 at delta = 1e-05 (strong) for one record (one row of the private data), replace-one adjacency'
    """

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
    tuning: str = "not declared by the curator"
    verify: str = ""
    ledger_head: str = ""
    ledger_releases: tuple[int, ...] = ()
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    versions: dict[str, str] = field(default_factory=versions)

    def __post_init__(self) -> None:
        if not isinstance(self.guarantee, Guarantee):
            raise InvalidInputError("guarantee must be a pate.Guarantee. Pass release.guarantee, for example.")
        if self.guarantee.kind == "data-dependent":
            raise SensitiveValueError(
                "a statement is public and cannot carry a data-dependent epsilon. Pass the public guarantee."
            )
        check_guarantee(self.guarantee)
        for name in _TEXTS:
            check_text(name, getattr(self, name))
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
        if not isinstance(self.versions, dict):
            raise InvalidInputError("versions must be a dictionary of names to versions.")
        for name, version in self.versions.items():
            check_text("versions", name)
            check_text(f"versions[{name!r}]", version)

    @property
    def headline(self) -> str:
        """One line: the guarantee in words, or why there is none."""
        if self.seeded:
            return "not private: seeded noise (for tests and experiments only)"
        g = self.guarantee
        return (
            f"epsilon = {format_up(g.epsilon)} at delta = {format_up(g.delta, 6)} ({tier(g.epsilon)}) for "
            f"{UNITS[self.unit]}, {g.adjacency} adjacency"
        )

    @property
    def meaning(self) -> str:
        """The number in plain words: what the release can tell an attacker about one unit."""
        if self.seeded:
            return "Nothing is protected: whoever knows or guesses the seed can subtract the noise."
        level = tier(self.guarantee.epsilon)
        weak = " At this epsilon the number alone is no evidence of anonymisation: audit as well."
        return (
            f"{in_words(self.guarantee, self.unit)} Tier: {level} (up to 1 strong, up to 10 reasonable, else weak)."
            f"{weak if level == 'weak' else ''}"
        )

    def with_evidence(self, name: str, how: str, *, by: str = "pate") -> PrivacyStatement:
        """Return the statement with another word on how the assumption ``name`` was ensured.

        Parameters
        ----------
        name, how : str
        by : {"pate", "curator", "nobody"}

        Examples
        --------
        >>> from pate import Budget, GNMax, Votes, release_labels
        >>> s = release_labels(Votes.from_counts([[9, 1]]), GNMax(sigma=9.0), budget=Budget(2.0, 1e-5)).statement
        >>> s = s.with_evidence("disjoint shards", "cut by pate.partition")
        >>> [a.by for a in s.assumptions if a.name == "disjoint shards"]
        ['pate']
        """
        known = [a.name for a in self.assumptions]
        if name not in known:
            raise InvalidInputError(f"name must be one of the assumptions {', '.join(known)}, got {name!r}.")
        changed = tuple(replace(a, how=how, by=by) if a.name == name else a for a in self.assumptions)
        return replace(self, assumptions=changed)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values, as ``_templates/statement.schema.json`` describes them.

        Examples
        --------
        >>> g = Guarantee(epsilon=1.0, delta=1e-5, kind="public", method="gdp")
        >>> PrivacyStatement(released="labels", unit="record", n_units=None, mechanism="m", guarantee=g,
        ...     accounting="GDP").to_dict()["tier"]
        'strong'
        """
        values: dict[str, Any] = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        bounds = None if self.seeded else attack_bounds(self.guarantee.epsilon, self.guarantee.delta)
        return {
            "schema": SCHEMA,
            "headline": self.headline,
            "private": not self.seeded,
            "tier": tier(self.guarantee.epsilon) if not self.seeded else "none",
            "meaning": {"text": self.meaning, "bounds": bounds},
            **values,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PrivacyStatement:
        """Return the statement behind its dictionary, strictly: nothing unknown, nothing missing, no contradiction.

        Raises
        ------
        InvalidInputError
            An entry is unknown, missing or of another kind, or the headline, tier or bounds are not those of the
            guarantee beside them.
        SensitiveValueError
            The epsilon is a data-dependent one.

        Examples
        --------
        >>> g = Guarantee(epsilon=1.0, delta=1e-5, kind="public", method="gdp")
        >>> s = PrivacyStatement(released="labels", unit="record", n_units=9, mechanism="m", guarantee=g, accounting="")
        >>> PrivacyStatement.from_dict(s.to_dict()) == s
        True
        >>> PrivacyStatement.from_dict({**s.to_dict(), "headline": "epsilon = 0"})
        Traceback (most recent call last):
        pate.exceptions.InvalidInputError: the statement contradicts itself: its headline is not what its ...
        """
        own = [f.name for f in fields(cls)]
        check_keys("the statement", values, [*DERIVED, *own])
        if values["schema"] != SCHEMA:
            raise InvalidInputError(f"the statement's schema must be {SCHEMA!r}. Read it with the pate that wrote it.")
        promise = check_keys("the statement's guarantee", values["guarantee"], [f.name for f in fields(Guarantee)])
        made: dict[str, Any] = {name: values[name] for name in own}
        made["guarantee"] = Guarantee(**promise)
        if not isinstance(values["assumptions"], list | tuple):
            raise InvalidInputError("the statement's assumptions must be a list.")
        keys = [f.name for f in fields(Assumption)]
        made["assumptions"] = tuple(
            Assumption(**check_keys(f"assumptions[{i}]", a, keys)) for i, a in enumerate(values["assumptions"])
        )
        if isinstance(values["versions"], Mapping):
            made["versions"] = dict(values["versions"])
        statement = cls(**made)
        if statement.guarantee.kind == "seeded" and not statement.seeded:
            raise InvalidInputError("the statement contradicts itself: its guarantee is of seeded noise, it is not.")
        derived = statement.to_dict()
        for name in DERIVED:
            # Equal and of equal type: 1 is not True.
            if values[name] != derived[name] or type(values[name]) is not type(derived[name]):
                raise InvalidInputError(
                    f"the statement contradicts itself: its {name} is not what its guarantee says. It was altered: "
                    "ask for the file as it was written."
                )
        return statement

    def rows(self) -> list[tuple[str, str | tuple[str, ...]]]:
        """Return what the page says, in its order: a name and a text, or a list of texts.

        Examples
        --------
        >>> g = Guarantee(epsilon=1.0, delta=1e-5, kind="public", method="gdp")
        >>> PrivacyStatement(released="labels", unit="record", n_units=None, mechanism="m", guarantee=g,
        ...     accounting="GDP").rows()[4]
        ('Released', 'labels')
        """
        g = self.guarantee
        known = (
            f"; {self.n_units:,} in all (public: neighbouring data sets have equally many {self.unit}s)"
            if self.n_units and g.adjacency == "replace-one"
            else f"; {self.n_units:,} in all"
            if self.n_units
            else ""
        )
        order = "" if g.order is None else f" (order {g.order:g})"
        kind = "NOT PRIVATE: seeded noise" if self.seeded else _KIND_WORDS.get(g.kind, g.kind)
        ledger = "none: other releases from the same private data are not counted"
        if self.ledger_head or self.ledger_releases:
            ledger = f"releases {', '.join(map(str, self.ledger_releases)) or 'not named'}"
            if self.ledger_head:
                ledger += f"; head {self.ledger_head} (pate ledger verify shows whether a row is changed or missing)"
        return [
            ("Guarantee", self.headline),
            ("In words", self.meaning),
            (
                "What was protected",
                f"{UNITS[self.unit]}{known}; {g.adjacency}: data sets that differ in one unit's data",
            ),
            ("Against whom", self.threat_model),
            ("Released", self.released),
            ("Setting", self.setting),
            ("Mechanism", self.mechanism),
            ("Noise from", self.noise_source),
            ("Accounting", self.accounting),
            (
                "Epsilon",
                f"{format_up(g.epsilon, 6)} at delta {format_up(g.delta, 6)}; {kind}; by {g.method}{order}; "
                f"{g.directions} directions; {g.adaptivity}",
            ),
            ("Covered", self.covered or "the release alone"),
            ("Not covered", self.not_covered or "nothing named"),
            ("Assumptions", tuple(map(str, self.assumptions)) or "none named"),
            ("Tuned on private data", self.tuning),
            ("Ledger", ledger),
            ("To verify", self.verify or "no recipe given"),
            ("Made with", f"{', '.join(f'{k} {v}' for k, v in self.versions.items())}; {self.created}"),
        ]

    def text(self) -> str:
        """Return the page of text.

        Examples
        --------
        >>> g = Guarantee(epsilon=1.0, delta=1e-5, kind="public", method="gdp")
        >>> print(PrivacyStatement(released="labels", unit="record", n_units=None, mechanism="m", guarantee=g,
        ...     accounting="GDP").text().splitlines()[0])
        PRIVACY STATEMENT
        """
        lines = ["PRIVACY STATEMENT", "================="]
        for name, value in self.rows():
            items = [value] if isinstance(value, str) else [f"- {item}" for item in value]
            body = [
                line for item in items for line in textwrap.wrap(item, 84, subsequent_indent="  " * (item != value))
            ]
            lines.append(f"{name + ':':<24}{body[0] if body else ''}".rstrip())
            lines.extend(" " * 24 + more for more in body[1:])
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        return self.text()


_TEXTS = tuple(f.name for f in fields(PrivacyStatement) if f.type == "str" and f.name != "unit")
_KIND_WORDS = {
    "public": "public: a constant of the mechanism, the same for all private data",
    "sanitised": "sanitised: depends on the private data through noise that is paid for",
}
