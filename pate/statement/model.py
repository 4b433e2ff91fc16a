"""The privacy statement: everything a reader needs to know what an epsilon means, as data and as a page of text.

The fields follow the reporting checklist of Ponomareva et al. 2023, "How to DP-fy ML". Every field is public: none may
be read off the private records. The JSON form is described by ``_templates/statement.schema.json``.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from importlib import metadata
from typing import Any

from pate.core.provenance import git_commit, now
from pate.exceptions import InvalidInputError, SensitiveValueError
from pate.privacy.attacker import attack_bounds
from pate.privacy.words import Guarantee
from pate.statement import _summary as _page
from pate.statement._summary import OPEN_TUNING, UNITS, tier
from pate.statement.assumptions import BY, NAMED, Assumption, check_stated
from pate.statement.plain import (
    LARGEST,
    as_plain_text,
    check_guarantee,
    check_keys,
    check_number,
    check_text,
    check_texts,
    check_whole,
)

__all__ = ["BY", "DERIVED", "OPEN_TUNING", "SCHEMA", "UNITS", "Assumption", "PrivacyStatement", "tier", "versions"]

#: The format of the JSON; another number when a field changes its meaning.
SCHEMA = "pate-statement-2"
#: Derived from the fields, for readers of the JSON; a file in which they differ from the fields is refused. The digest
#: covers all other entries, so it comes last: what the others say against each other is said first.
DERIVED = ("schema", "headline", "private", "tier", "meaning", "digest")
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
    found = {}
    for name in ("pate", "numpy", "scipy", "dp-accounting", *used):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {**found, "python": platform.python_version()}


@lru_cache(maxsize=1)
def _commit() -> str:
    """Return the checkout's commit, asked once: the code that runs was read when the process began."""
    return git_commit() or ""


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
        Each is seen to by pate, stated by a person, or open; a plain text is open.
    tuning : str
        What was tuned on private data and whether that is charged, as a person stated it; empty: open, in those words.
    verify : str
        How a reader recomputes epsilon.
    ledger_head : str
        Hash of the ledger's last row that this release knew; empty without a ledger.
    ledger_releases : tuple of int
        The ledger's releases that the labels come from.
    dataset, organisation, purpose : str
        In the curator's words; empty where not given.
    label_file, label_file_sha256 : str
        The file the statement goes with, named by the job that wrote it, and its hash.
    mu, rho : float or None
        The release is mu-GDP and rho-zCDP, where that holds and nothing is seeded.
    curve : tuple of (delta, epsilon)
        Further promises of the same constant.
    created : str
    versions : dict of str to str
    commit : str
        Of the checkout the code ran from; empty for an installed package.

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
    created: str = field(default_factory=now)
    versions: dict[str, str] = field(default_factory=versions)
    commit: str = field(default_factory=_commit)

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
        self._check_promises()
        if not isinstance(self.versions, dict):
            raise InvalidInputError("versions must be a dictionary of names to versions.")
        for name, version in self.versions.items():
            check_text("versions", name)
            check_text(f"versions[{name!r}]", version)

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

    @property
    def headline(self) -> str:
        """One line: the guarantee in words, or why there is none."""
        return _page.headline(self)

    @property
    def meaning(self) -> str:
        """The number in plain words: what the release can tell an attacker about one unit."""
        return _page.meaning(self)

    @property
    def digest(self) -> str:
        """SHA-256 of every entry of :meth:`to_dict` but itself, as canonical JSON: an edited file does not match it."""
        return str(self.to_dict()["digest"])

    def with_evidence(self, name: str, how: str, *, by: str = "pate") -> PrivacyStatement:
        """Return the statement with another word on how the assumption ``name`` was ensured.

        Parameters
        ----------
        name, how : str
        by : {"pate", "curator", "nobody"}
            ``"pate"`` is for the code that saw to it, in this run. What becomes of an earlier word:
            :meth:`pate.statement.assumptions.Assumption.vouched`.

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
        changed = tuple(a.vouched(how, by) if a.name == name else a for a in self.assumptions)
        return replace(self, assumptions=changed)

    def with_stated(self, stated: Mapping[str, str] | None) -> PrivacyStatement:
        """Return the statement with what a person states in their own words.

        Parameters
        ----------
        stated : mapping of str to str, or None
            ``dataset``, ``organisation``, ``purpose``, and how an assumption was ensured, by the assumption's name.
            Public.

        Raises
        ------
        InvalidInputError
            Another name, or no text.

        Examples
        --------
        >>> from pate import Budget, GNMax, Votes, release_labels
        >>> s = release_labels(Votes.from_counts([[9, 1]]), GNMax(sigma=9.0), budget=Budget(2.0, 1e-5)).statement
        >>> s = s.with_stated({"purpose": "triage", "one person": "patients are unique by their number"})
        >>> s.purpose, [a.by for a in s.assumptions if a.name == "one person"]
        ('triage', ['curator'])
        """
        said = check_stated(stated, [a.name for a in self.assumptions if a.name != "noise"])
        named: dict[str, Any] = {name: text for name, text in said.items() if name in NAMED}
        made = replace(self, **named)
        for name in said.keys() - named.keys():
            made = made.with_evidence(name, said[name], by="curator")
        return made

    def of_file(self, name: str, content: bytes) -> PrivacyStatement:
        """Return the statement that goes with a file: it names it, and a change of a byte shows.

        Examples
        --------
        >>> g = Guarantee(epsilon=1.0, delta=1e-5, kind="public", method="gdp")
        >>> s = PrivacyStatement(released="labels", unit="record", n_units=9, mechanism="m", guarantee=g, accounting="")
        >>> s.of_file("labels.csv", b"row,label").label_file_sha256[:8]
        '52c6885c'
        """
        # The labels are paid for by now: no name may stop them.
        return replace(self, label_file=as_plain_text(name), label_file_sha256=hashlib.sha256(content).hexdigest())

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
        values["curve"] = [list(point) for point in self.curve]
        bounds = None if self.seeded else attack_bounds(self.guarantee.epsilon, self.guarantee.delta)
        made = {
            "schema": SCHEMA,
            "headline": self.headline,
            "private": not self.seeded,
            "tier": tier(self.guarantee.epsilon) if not self.seeded else "none",
            "meaning": {"text": self.meaning, "bounds": bounds},
            **values,
        }
        canonical = json.dumps(made, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return {**made, "digest": hashlib.sha256(canonical.encode("ascii")).hexdigest()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PrivacyStatement:
        """Return the statement behind its dictionary, strictly: nothing unknown, nothing missing, no contradiction.

        Raises
        ------
        InvalidInputError
            An entry is unknown, missing or of another kind, the headline, tier or bounds are not those of the
            guarantee beside them, or the digest is not that of the other entries: the file was altered.
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
                what = "guarantee says" if name != "digest" else "other entries give"
                raise InvalidInputError(
                    f"the statement contradicts itself: its {name} is not what its {what}. It was altered: "
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
        return _page.rows(self)

    def text(self) -> str:
        """Return the page of text.

        Examples
        --------
        >>> g = Guarantee(epsilon=1.0, delta=1e-5, kind="public", method="gdp")
        >>> print(PrivacyStatement(released="labels", unit="record", n_units=None, mechanism="m", guarantee=g,
        ...     accounting="GDP").text().splitlines()[0])
        PRIVACY STATEMENT
        """
        return _page.text(self.rows())

    def __str__(self) -> str:
        return self.text()


_TEXTS = tuple(f.name for f in fields(PrivacyStatement) if f.type == "str" and f.name != "unit")
