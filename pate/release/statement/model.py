"""The privacy statement: everything a reader needs to know what an epsilon means, as a value with one JSON form.

The fields follow the reporting checklist of Ponomareva et al. 2023, "How to DP-fy ML". Every field is public: none may
be read off the private records. The JSON form is described by ``_templates/statement.schema.json``.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from pate.exceptions import InvalidInputError
from pate.ledger import Ledger
from pate.privacy.cost import Charge
from pate.privacy.words import Guarantee
from pate.release.statement import plain_language
from pate.release.statement.catalogue import open_catalogue
from pate.release.statement.fields import (
    NAMED,
    OPEN_TUNING,
    SCHEMA,
    UNITS,
    Assumption,
    StatementFields,
    check_audits,
    check_stated,
    versions,
)
from pate.release.statement.plain import as_plain_text, check_keys, promises

__all__ = ["DERIVED", "OPEN_TUNING", "SCHEMA", "UNITS", "Assumption", "PrivacyStatement", "versions"]

#: The source of noise that anybody can repeat.
SEEDED = "a fixed seed: NOT PRIVATE"
#: Derived from the fields, for readers of the JSON; a file in which they differ from the fields is refused. The digest
#: covers all other entries, so it comes last: what the others say against each other is said first.
DERIVED = ("schema", "headline", "private", "tier", "meaning", "digest")
#: Entries that came later: absent where there is nothing to say.
_OPTIONAL = ("audits", "measured", "doubts", "errors", "tier_budgets", "quality", "viewers")


@dataclass(frozen=True, kw_only=True, repr=False)
class PrivacyStatement(StatementFields):
    """The privacy statement of a release: epsilon and delta, what they protect, how, and who vouches for what.

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
    audits : tuple of CitedAudit
        What was tried against the claim, and whether it stood; empty: no audit is cited, and the JSON has no entry.
    measured : MeasuredAccuracy or None
        How often the released model is right; None: it was not measured, and the JSON has no entry.
    errors : MeasuredErrors or None
        How far a released model of a number is off; likewise.
    quality : MeasuredQuality or None
        How good a released model of several labels is; likewise.
    doubts : tuple of Doubt
        What speaks against relying on the labels; empty: nothing that pate looks for, and the JSON has no entry.
    tier_budgets : tuple of TierGuarantee
        What each tier of units is promised, where they have budgets of their own; ``guarantee`` is that of the largest.
        Empty: there are none, and the JSON has no entry.
    viewers : tuple of ViewerGuarantee
        What each viewer learns, where several institutions take part; ``guarantee`` is that of who learns most. Empty:
        one curator holds the data, and the JSON has no entry.
    created : str
    versions : dict of str to str
    commit : str
        Commit of the checkout that the code ran from; empty for an installed package.
    schema : str
        Version of the JSON format: that of this package, or of the earlier one that wrote it.

    Examples
    --------
    >>> s = PrivacyStatement(
    ...     released="labels",
    ...     unit="record",
    ...     n_units=100,
    ...     mechanism="GNMax(sigma=40)",
    ...     guarantee=Guarantee(epsilon=1.0, delta=1e-5, kind="public", method="gdp"),
    ...     accounting="GDP",
    ... )
    >>> s.headline
    'epsilon = 1 at delta = 1e-05 (strong) for one record (one row of the private data), replace-one adjacency'
    """

    @property
    def headline(self) -> str:
        """One line: the guarantee in words, or why there is none."""
        return plain_language.headline(self)

    @property
    def meaning(self) -> str:
        """The number in plain words: what the release can tell an attacker about one unit."""
        return plain_language.meaning(self)

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
            :meth:`pate.release.statement.fields.Assumption.vouched`.
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
        """
        said = check_stated(stated, [a.name for a in self.assumptions if a.name != "noise"])
        named: dict[str, Any] = {name: text for name, text in said.items() if name in NAMED}
        made = replace(self, **named)
        for name in said.keys() - named.keys():
            made = made.with_evidence(name, said[name], by="curator")
        return made

    def with_audits(self, audits: Iterable[Any]) -> PrivacyStatement:
        """Return the statement with more audits cited: what was tried, whether the claim stood, never what was found.

        Parameters
        ----------
        audits : iterable
            Each as its ``cited()`` gives it, or a thing that has ``cited()`` (an :class:`pate.audit.Audit` cites all
            of its own).

        Raises
        ------
        InvalidInputError
            Something else, or more than a statement holds.
        """
        cited = [one.cited() if hasattr(one, "cited") else one for one in audits]
        flat = [entry for one in cited for entry in (one if isinstance(one, list | tuple) else [one])]
        return replace(self, audits=(*self.audits, *check_audits(flat)))

    def of_file(self, name: str, content: bytes) -> PrivacyStatement:
        """Return the statement that goes with a file: it names it, and a change of a byte shows."""
        # The labels are paid for by now: no name may stop them.
        return replace(self, label_file=as_plain_text(name), label_file_sha256=hashlib.sha256(content).hexdigest())

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values, as ``_templates/statement.schema.json`` describes them."""
        values: dict[str, Any] = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        values["curve"] = [list(point) for point in self.curve]
        for name in ("measured", "errors", "quality"):
            held = getattr(self, name)
            values[name] = None if held is None else held.to_dict()
        for name in _OPTIONAL:  # left out where empty: the digests of statements without them stay as they are
            if not values[name]:
                del values[name]
        made = {
            "schema": self.schema,
            "headline": self.headline,
            "private": not self.seeded,
            "tier": "none" if self.seeded else plain_language.tier(self),
            "meaning": {"text": self.meaning, "bounds": None if self.seeded else plain_language.bounds(self)},
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
        """
        given = values if isinstance(values, Mapping) else {}
        own = [f.name for f in fields(cls) if f.name not in _OPTIONAL or f.name in given]
        check_keys("the statement", values, [*DERIVED, *own])
        if any(name in given and not given[name] for name in _OPTIONAL):
            raise InvalidInputError(f"the statement's {', '.join(_OPTIONAL)} must not be empty. Leave it out.")
        promise = check_keys("the statement's guarantee", values["guarantee"], [f.name for f in fields(Guarantee)])
        made: dict[str, Any] = {name: values[name] for name in own}
        made["guarantee"] = Guarantee(**promise)
        if not isinstance(values["assumptions"], list | tuple):
            raise InvalidInputError("the statement's assumptions must be a list.")
        made["assumptions"] = Assumption.listed("assumptions", values["assumptions"])
        if isinstance(values["versions"], Mapping):
            made["versions"] = dict(values["versions"])
        statement = cls(**made)
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
        """Return what text, page and report say, in their order: a heading and a text, or a list of texts.

        Examples
        --------
        >>> g = Guarantee(epsilon=1.0, delta=1e-5, kind="public", method="gdp")
        >>> PrivacyStatement(
        ...     released="labels",
        ...     unit="record",
        ...     n_units=None,
        ...     mechanism="m",
        ...     guarantee=g,
        ...     accounting="GDP",
        ... ).rows()[4]
        ('Released', 'labels')
        """
        return plain_language.rows(self, self.digest)

    def text(self) -> str:
        """Return the page of text."""
        return plain_language.text(self.rows())

    def html(self, *, language: str = "en", catalogue: str | os.PathLike[str] | None = None) -> str:
        """Return the page for a data-protection officer: it asks nothing of the network and runs no script.

        First what the statement means, in plain words; then the record word for word, each heading explained.

        Parameters
        ----------
        language : str
            Language of the plain words: one that the package has (``"en"``).
        catalogue : path or None
            A translation of them (:func:`pate.release.statement.catalogue.new_catalogue`); comes first.
            What it lacks is in English, and marked.

        Raises
        ------
        InvalidInputError
            A language that does not ship, or a file that is no catalogue.
        """
        return plain_language.html(self, self.rows(), self.digest, open_catalogue(language, catalogue))

    def _repr_html_(self) -> str:
        return plain_language.card(self, open_catalogue())

    def __repr__(self) -> str:
        return f"PrivacyStatement({self.headline!r})"

    def __str__(self) -> str:
        return self.text()


def made_statement(
    *,
    guarantee: Guarantee,
    seeded: bool,
    noise_source: str,
    charge: Charge | None = None,
    ledger: Ledger | None = None,
    releases: Iterable[int] = (),
    head: str | None = None,
    tuning: str = "",
    stated: Mapping[str, str] | None = None,
    **said: Any,
) -> PrivacyStatement:
    """Return a statement of a release that is already paid for: no text that a user gave may make it fail.

    Seeded noise is no promise, whatever the guarantee says; ``charge`` promises more than one (epsilon, delta); the
    head is of the entry with the answers, ``head`` or the last one of ``releases``, not of the one with the charge: a
    ledger without the answers must not fit. What a person stated (checked before the release) is stated where it
    still has a place: not of classes, say, that votes then turn out to have read off.
    """
    releases = tuple(releases)
    made = PrivacyStatement(
        guarantee=replace(guarantee, kind="seeded") if seeded else guarantee,
        seeded=seeded,
        noise_source=SEEDED if seeded else noise_source,
        tuning=as_plain_text(tuning),
        ledger_head="" if ledger is None or not releases else head or ledger.head_of(releases),
        ledger_releases=releases,
        **({} if charge is None else promises(charge)),
        **said,
    )
    known = {*NAMED, *(a.name for a in made.assumptions)}
    return made.with_stated({name: text for name, text in (stated or {}).items() if name in known})
