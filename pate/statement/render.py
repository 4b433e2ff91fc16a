"""A statement in words: one list of headings and texts, shown as plain text, and as the page's part for experts."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from pate.privacy import words
from pate.privacy.attacker import attack_bounds, in_words
from pate.privacy.convert import format_up
from pate.statement.fields import BY_PAIR, OPEN_TUNING, UNITS, StatementFields

#: A heading, and a text or a list of texts below it.
Rows = Sequence[tuple[str, str | tuple[str, ...]]]
_KIND_WORDS = {
    "public": "public: a constant of the mechanism, the same for all private data",
    "sanitised": "sanitised: depends on the private data through noise that is paid for",
}


def tier(s: StatementFields) -> str:
    """Return the statement's tier: of its epsilon, and of its delta where it is known how many units there are."""
    g = s.guarantee
    return words.tier(g.epsilon) if s.schema == BY_PAIR else words.tier(g.epsilon, g.delta, s.n_public)


def large_delta(s: StatementFields) -> bool:
    """Return whether delta, not well below 1/n, lowers the tier that its epsilon has, or could."""
    return s.guarantee.delta * (s.n_public or 0) > words.WELL_BELOW


def bounds(s: StatementFields) -> dict[str, float | None]:
    """Return what the statement allows an attacker at most, by all that it promises."""
    g = s.guarantee
    return attack_bounds(g.epsilon, g.delta, **_promised(s))


def headline(s: StatementFields) -> str:
    """Return the guarantee in one line, or why there is none."""
    if s.seeded:
        return "not private: seeded noise (for tests and experiments only)"
    g, called = s.guarantee, tier(s)
    if called != words.tier(g.epsilon):
        called += f": delta is not well below 1 in {s.n_public:,}"
    return (
        f"epsilon = {format_up(g.epsilon)} at delta = {format_up(g.delta, 6)} ({called}) for "
        f"{UNITS[s.unit]}, {g.adjacency} adjacency"
    )


def meaning(s: StatementFields) -> str:
    """Return what the number allows an attacker, in words."""
    if s.seeded:
        return "Nothing is protected: whoever knows or guesses the seed can subtract the noise."
    g = s.guarantee
    told = f"{in_words(g, s.unit, **_promised(s))} Tier: {tier(s)} ({words.TIERS})."
    if words.tier(g.epsilon) == "weak":
        told += " At this epsilon the number alone is no evidence of anonymisation: audit as well."
    if large_delta(s) and s.schema != BY_PAIR:
        told += (
            f" Delta is not well below 1/n = 1/{s.n_public:,}: a mechanism that publishes one whole {s.unit}, picked "
            f"at random, {_how_often(g.delta, s.n_public)} would satisfy it."
        )
    return told


def _how_often(delta: float, n: int | None) -> str:
    chance = min(1.0, delta * (n or 0))
    return "always" if chance == 1 else f"with probability {format_up(chance, 2)}"


def _promised(s: StatementFields) -> dict[str, Any]:
    return {} if s.schema == BY_PAIR else s.promised


def rows(s: StatementFields, digest: str) -> list[tuple[str, str | tuple[str, ...]]]:
    """Return what every view says, in its order; what nobody gave has no row."""
    g = s.guarantee
    known = (
        f"; {s.n_units:,} in all (public: neighbouring data sets have equally many {s.unit}s)"
        if s.n_units and g.adjacency == "replace-one"
        else f"; {s.n_units:,} in all"
        if s.n_units
        else ""
    )
    about = [
        f"{name}: {text}" for name, text in (("data", s.dataset), ("by", s.organisation), ("for", s.purpose)) if text
    ]
    tuning = s.tuning if s.tuning == OPEN_TUNING else f"{s.tuning} (stated by the curator)"
    made = [*(f"{k} {v}" for k, v in s.versions.items()), *([f"commit {s.commit}"] if s.commit else [])]
    found: list[tuple[str, str | tuple[str, ...]]] = [
        ("Guarantee", headline(s)),
        ("In words", meaning(s)),
        ("What was protected", f"{UNITS[s.unit]}{known}; {g.adjacency}: data sets that differ in one unit's data"),
        ("Against whom", s.threat_model),
        ("Released", s.released),
        *([("Measured accuracy", s.measured.rows())] if s.measured is not None else []),
        *([("Doubts", tuple(map(str, s.doubts)))] if s.doubts else []),
        *([("Label file", f"{s.label_file}, SHA-256 {s.label_file_sha256}")] if s.label_file else []),
        *([("About, as stated", "; ".join(about))] if about else []),
        ("Setting", s.setting),
        ("Mechanism", s.mechanism),
        ("Noise from", s.noise_source),
        ("Accounting", s.accounting),
        ("Epsilon", _epsilon(s)),
        *([("At other deltas", _curve(s))] if s.curve else []),
        ("Covered", s.covered or "the release alone"),
        ("Not covered", s.not_covered or "nothing named"),
        ("Assumptions", tuple(map(str, s.assumptions)) or "none named"),
        ("Tuned on private data", tuning),
        *([("Audited", tuple(map(str, s.audits)))] if s.audits else []),
        ("Ledger", _ledger(s)),
        ("To verify", s.verify or "no recipe given"),
        ("Made with", f"{', '.join(made)}; {s.created}; digest {digest}"),
    ]
    return found


def text(shown: Rows) -> str:
    """Return the rows as a page of plain text."""
    lines = ["PRIVACY STATEMENT", "================="]
    for name, value in shown:
        items = [value] if isinstance(value, str) else [f"- {item}" for item in value]
        body = [line for item in items for line in textwrap.wrap(item, 84, subsequent_indent="  " * (item != value))]
        lines.append(f"{name + ':':<24}{body[0] if body else ''}".rstrip())
        lines.extend(" " * 24 + more for more in body[1:])
    return "\n".join(lines) + "\n"


def _epsilon(s: StatementFields) -> str:
    g = s.guarantee
    order = "" if g.order is None else f" (order {g.order:g})"
    kind = "NOT PRIVATE: seeded noise" if s.seeded else _KIND_WORDS.get(g.kind, g.kind)
    return (
        f"{format_up(g.epsilon, 6)} at delta {format_up(g.delta, 6)}; {kind}; by {g.method}{order}; "
        f"{g.directions} directions; {g.adaptivity}"
    )


def _curve(s: StatementFields) -> str:
    points = ", ".join(f"{format_up(epsilon)} at {delta:g}" for delta, epsilon in s.curve)
    mu = "" if s.mu is None else f"; {format_up(s.mu)}-GDP"
    rho = "" if s.rho is None else f"; {format_up(s.rho)}-zCDP"
    return f"epsilon {points}{mu}{rho}; all of one constant, so they hold together"


def _ledger(s: StatementFields) -> str:
    if not s.ledger_head and not s.ledger_releases:
        return "none: other releases from the same private data are not counted"
    line = f"releases {', '.join(map(str, s.ledger_releases)) or 'not named'}"
    if s.ledger_head:
        line += f"; head {s.ledger_head} (pate ledger verify shows whether a row is changed or missing)"
    return line
