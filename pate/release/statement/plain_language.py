"""The statement for readers who know no differential privacy: a page of plain words, all of them from a catalogue.

What is shown of a statement's own texts (what was released, what a person stated) is shown as it is.
"""

from __future__ import annotations

import math
import shlex
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pate._core.pages import render
from pate.privacy import words
from pate.privacy.attacker import attack_bounds, detection_bound, in_words, largest_success, replaced_success
from pate.privacy.convert import format_up, gdp_from_budget
from pate.privacy.words import tier as by_epsilon
from pate.release.statement.catalogue import Catalogue, Line
from pate.release.statement.fields import (
    BY_PAIR,
    OPEN_TUNING,
    UNITS,
    StatementFields,
    TierGuarantee,
    ViewerGuarantee,
)

# A statement in words: one list of headings and texts, shown as plain text, and as the page's part for experts.

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
    """Return what the number allows an attacker, in words: stored, and compared with these when a file is read."""
    if s.seeded:
        return "Nothing is protected: whoever knows or guesses the seed can subtract the noise."
    g = s.guarantee
    parts = f"{in_words(g, s.unit, **_promised(s))} Tier: {tier(s)} ({words.TIERS})."
    if words.tier(g.epsilon) == "weak":
        parts += " At this epsilon the number alone is no evidence of anonymisation: audit as well."
    if large_delta(s) and s.schema != BY_PAIR:
        chance = min(1.0, g.delta * (s.n_public or 0))
        often = "always" if chance == 1 else f"with probability {format_up(chance, 2)}"
        parts += (
            f" Delta is not well below 1/n = 1/{s.n_public:,}: a mechanism that publishes one whole {s.unit}, picked "
            f"at random, {often} would satisfy it."
        )
    return parts


def _promised(s: StatementFields) -> dict[str, Any]:
    return {} if s.schema == BY_PAIR else s.promised


def rows(s: StatementFields, digest: str) -> list[tuple[str, str | tuple[str, ...]]]:
    """Return what every view says, in its order; what was not given has no row."""
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
        *([("Budgets of tiers", _tiers(s))] if s.tier_budgets else []),
        *([("Learnt by whom", tuple(map(str, s.viewers)))] if s.viewers else []),
        ("What was protected", f"{UNITS[s.unit]}{known}; {g.adjacency}: data sets that differ in one unit's data"),
        ("Against whom", s.threat_model),
        ("Released", s.released),
        *([("Measured accuracy", s.measured.rows())] if s.measured is not None else []),
        *([("Measured errors", s.errors.rows())] if s.errors is not None else []),
        *([("Measured quality", s.quality.rows())] if s.quality is not None else []),
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
        ("Assumptions", tuple(f"{a.name}: {a}" for a in s.assumptions) or "none named"),
        ("Tuned on private data", tuning),
        *([("Audited", tuple(map(str, s.audits)))] if s.audits else []),
        ("Ledger", _ledger(s)),
        ("To verify", s.verify or "no recipe given"),
        ("Made with", f"{', '.join(made)}; {s.created}; digest {digest}"),
    ]
    return found


def text(shown: Rows, title: str = "PRIVACY STATEMENT") -> str:
    """Return the rows as a page of plain text."""
    lines = [title, "=" * len(title)]
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


def _tiers(s: StatementFields) -> tuple[str, ...]:
    fixed = (
        "the guarantee above is that of the largest; who is in which tier, and how many are, is public: data sets that "
        f"differ in one {s.unit}'s data have it in the same tier"
    )
    measured = ("the measured accuracy counts every unit by its weight",) if s.measured is not None else ()
    return (*map(str, s.tier_budgets), fixed, *measured)


def _curve(s: StatementFields) -> str:
    points = ", ".join(f"{format_up(epsilon)} at {delta:g}" for delta, epsilon in s.curve)
    mu = "" if s.mu is None else f"; {format_up(s.mu)}-GDP"
    rho = "" if s.rho is None else f"; {format_up(s.rho)}-zCDP"
    return f"epsilon {points}{mu}{rho}; all of one constant, so they hold together"


def _ledger(s: StatementFields) -> str:
    if s.viewers and not s.ledger_head and not s.ledger_releases:
        return "each institution's own, in which this release is charged; what another ledger holds is not counted"
    if not s.ledger_head and not s.ledger_releases:
        return "none: other releases from the same private data are not counted"
    line = f"releases {', '.join(map(str, s.ledger_releases)) or 'not named'}"
    if s.ledger_head:
        line += f"; head {s.ledger_head} (pate ledger verify shows whether a row is changed or missing)"
    return line


#: An attacker who accepts so many false alarms, of those for whom it is not so.
FALSE_ALARMS = 0.01
#: Epsilons that a reader may compare with.
SCALE = (0.1, 1.0, 3.0, 10.0)
#: What a mechanism's text begins with, and who voted or worked.
_KINDS = {
    "records": ("GaussianSum",),
    "teachers": ("NoisyHistogram", "NoisyBallots", "LNMax", "GNMax", "ConfidentGNMax", "VoteCap"),
    "dpsgd": ("DP-SGD", "DP-FTRL", "shuffled DP-SGD"),
    "selection": ("private selection",),
    "federation": ("SharedGaussian", "SharedGNMax"),
}


@dataclass(frozen=True)
class Card:
    """A fact at the top of the page: its name, its value, and a word more."""

    name: Line
    value: Line
    more: Line


@dataclass(frozen=True)
class Section:
    """A heading, and what stands below it: paragraphs, and lists with a line before them."""

    title: Line
    texts: tuple[Line, ...]
    lists: tuple[tuple[Line, tuple[Line, ...]], ...] = ()


@dataclass(frozen=True)
class Scale:
    """How many times of 100 an attacker is right at most, by epsilon; one of them is this release."""

    caption: Line
    #: (epsilon, right of 100, which one it is)
    marks: tuple[tuple[str, int, Line | None], ...]


@dataclass(frozen=True)
class PlainLanguagePage:
    """What the page says, in its order."""

    title: Line
    lead: Line
    alarm: Line | None
    cards: tuple[Card, ...]
    sections: tuple[Section, ...]
    scale: Scale | None


def plain_language_page(s: StatementFields, say: Catalogue, digest: str) -> PlainLanguagePage:
    """Return the page of a statement in the words of a catalogue; see :class:`PlainLanguagePage`."""
    bounds = None if s.seeded else _bounds(s)
    return PlainLanguagePage(
        title=say("page.title"),
        lead=say("page.lead"),
        alarm=say("page.seeded") if s.seeded else None,
        cards=_cards(s, say, bounds),
        sections=(
            _done(s, say),
            _who(s, say),
            _sure(s, say, bounds),
            _rests(s, say),
            _not(s, say),
            _check(s, say, digest),
        ),
        scale=None if bounds is None else _scale(s, say),
    )


def glossary(say: Catalogue) -> list[tuple[str, Line, Line]]:
    """Return the words of privacy: key, name and meaning."""
    return [(key, say(f"glossary.name.{key}"), say(f"glossary.{key}")) for key in say.keys("glossary")]


def of_hundred(share: float | None) -> int:
    """Return a bounded share as so many of 100, rounded up."""
    return min(100, math.ceil(100 * (share or 0.0) - 1e-9))


def _bounds(s: StatementFields) -> tuple[int, int, float | None]:
    """Right of 100 at even odds; found of 100 at few false alarms; the factor."""
    epsilon, delta = s.guarantee.epsilon, s.guarantee.delta
    found = attack_bounds(epsilon, delta, **s.promised)
    alarms = detection_bound(epsilon, delta, FALSE_ALARMS, **s.promised)
    return of_hundred(found["largest_success"]), of_hundred(alarms), found["likelihood_factor"]


def _cards(s: StatementFields, say: Catalogue, bounds: tuple[int, int, float | None] | None) -> tuple[Card, ...]:
    n_open = sum(a.by == "nobody" for a in s.assumptions)
    count = say("card.count", n=say.whole(s.n_units)) if s.n_units else say("card.count_unknown")
    cards = [Card(say("card.protected"), say(f"card.protected_{s.unit}"), count)]
    if bounds is not None:
        cards += [
            Card(say("card.guess"), say("card.guess_value", n=bounds[0]), say(f"card.guess_more{_asked(s)}")),
            Card(say("card.tier"), say(f"tier.{tier(s)}"), say(f"card.tier_{'delta' if _lowered(s) else 'more'}")),
        ]
    of_all = say("card.open_value", open=n_open, all=len(s.assumptions))
    return (*cards, Card(say("card.open"), of_all, say("card.open_more")))


def _done(s: StatementFields, say: Catalogue) -> Section:
    kind = next((kind for kind, names in _KINDS.items() if s.mechanism.startswith(names)), "other")
    stated = [(name, getattr(s, field)) for name, field in (("data", "dataset"), *((n, n) for n in _STATED))]
    own = f"done.{kind}_{s.unit}"
    done = say(own if say.has(own) else f"done.{kind}")
    about = tuple(say(f"done.{name}", text=text) for name, text in stated if text) or (say("done.unstated"),)
    made = say("done.made", date=s.created[:10], version=s.versions.get("pate", "?"))
    parts = [*s.not_covered, *(f"the set of classes, which {a.how}" for a in s.assumptions if a.name == "classes")]
    read = (say("done.classes_read"),) if any(_CLASSES_READ in text.replace("it was", "was") for text in parts) else ()
    of_number = "done.errors" if s.errors is None or s.errors.held_out else "done.errors_own"
    found = (("done.measured", s.measured), (of_number, s.errors), ("done.quality", s.quality))
    right = tuple(say(key, text=str(one)) for key, one in found if one is not None)
    foreign = say.language.partition("-")[0] != "en"
    doubts = tuple(Line(one.sentence, foreign) for one in s.doubts)
    texts = (done, *read, say("done.released", text=s.released), *right, *about, made)
    return Section(say("done.title"), texts, ((say("done.doubts"), doubts),) if doubts else ())


_STATED = ("organisation", "purpose")
#: How a statement says that no one named the classes.
_CLASSES_READ = "the set of classes, which was read off"


def _lowered(s: StatementFields) -> bool:
    return tier(s) != by_epsilon(s.guarantee.epsilon)


def _asked(s: StatementFields) -> str:
    """Return how texts end where the guarantee is about being in the data: no limit of it is one on what is said."""
    return "" if s.guarantee.adjacency == "replace-one" else "_present"


def _who(s: StatementFields, say: Catalogue) -> Section:
    how = "present" if _asked(s) else "replaced"
    texts = (say(f"who.{s.unit}"), say(f"who.{how}_{s.unit}"), say("who.against"))
    tiers = tuple(_tier(tier, say) for tier in s.tier_budgets)
    viewers = tuple(_viewer(one, say) for one in s.viewers)
    found = (("who.tiers", tiers), ("who.viewers", viewers))
    return Section(say("who.title"), texts, tuple((say(key), lines) for key, lines in found if lines))


def _viewer(one: ViewerGuarantee, say: Catalogue) -> Line:
    at = {"epsilon": say.number(one.epsilon), "delta": say.number(one.delta, 6)}
    named = {"parties": say.whole(one.n_parties)} if one.viewer == "coalition" else {}
    return say(f"who.viewer_{one.viewer}", n=of_hundred(one.success), **named, **at)


def _tier(tier: TierGuarantee, say: Catalogue) -> Line:
    at = {"epsilon": say.number(tier.epsilon), "delta": say.number(tier.delta, 6), "count": say.whole(tier.n)}
    right = of_hundred(largest_success(tier.epsilon, tier.delta, mu=tier.mu))
    return say("who.tier", name=tier.name, n=right, **at)


def _sure(s: StatementFields, say: Catalogue, bounds: tuple[int, int, float | None] | None) -> Section:
    if bounds is None:
        return Section(say("sure.title"), (say("sure.none"),))
    g, who = s.guarantee, say(f"sure.who_{s.unit}")
    right, found, factor = bounds
    about = _asked(s)
    every = say(f"sure.guess_all{about}", who=who.text)
    texts = [every if right == 100 else say(f"sure.guess{about}", who=who.text, n=right)]
    if found < 100:
        texts.append(say("sure.alarm", n=found))
    if about:
        value = of_hundred(replaced_success(g.epsilon, g.delta, **s.promised))
        every = say("sure.value_all", who=who.text)
        texts.append(every if value == 100 else say("sure.value", who=who.text, n=value))
    texts.append(_by(s, say))
    if factor is not None:
        texts.append(say(f"sure.factor{about}", factor=say.number(factor), epsilon=say.number(g.epsilon)))
    if g.delta:
        parts = {"delta": say.number(g.delta, 6), "one_in": say.one_in(g.delta)}
        count = {"n": say.whole(s.n_units)} if s.n_units else {}
        texts.append(say("sure.delta_count" if count else "sure.delta", **parts, **count))
        if large_delta(s):
            texts.append(say("sure.delta_large", chance=of_hundred(min(1.0, g.delta * (s.n_public or 0)))))
    texts += [say(f"sure.{tier(s)}"), say("sure.proof")]
    if g.kind == "sanitised":
        texts.append(say("sure.sanitised"))
    return Section(say("sure.title"), tuple(texts))


def _by(s: StatementFields, say: Catalogue) -> Line:
    """Return where the numbers of 100 come from."""
    g = s.guarantee
    pair, best = (largest_success(g.epsilon, g.delta, **more) for more in ({}, s.promised))
    if best == pair:
        return say("sure.by_pair")
    if s.mu is not None and largest_success(g.epsilon, g.delta, mu=s.mu) == best:
        return say("sure.by_mu", mu=say.number(s.mu), n=of_hundred(pair))
    return say("sure.by_curve", n=of_hundred(pair))


def _scale(s: StatementFields, say: Catalogue) -> Scale:
    """Return what other epsilons would allow: Gaussian noise of them, or the worst that has them."""
    g = s.guarantee
    here, own = float(format_up(g.epsilon)), largest_success(g.epsilon, g.delta, **s.promised)
    by_noise = own < largest_success(g.epsilon, g.delta) and 0 < g.delta < 1
    marks = []
    for epsilon in sorted({*SCALE, here}):
        mu = gdp_from_budget(epsilon, g.delta) * (1 + 1e-9) if by_noise else None
        right = own if epsilon == here else largest_success(epsilon, g.delta, mu=mu)
        marks.append((say.number(epsilon), of_hundred(right), say("sure.scale_this") if epsilon == here else None))
    return Scale(say("sure.scale_noise" if by_noise else "sure.scale_caption"), tuple(marks))


def _rests(s: StatementFields, say: Catalogue) -> Section:
    by = {who: [a for a in s.assumptions if a.by == who] for who in ("pate", "curator", "nobody")}
    counts = {"pate": len(by["pate"]), "stated": len(by["curator"]), "open": len(by["nobody"])}
    lists = []
    if by["curator"]:
        parts = (say("rests.how", claim=_claim(a.name, a.claim, s, say).text, text=a.how) for a in by["curator"])
        lists.append((say("rests.stated"), tuple(parts)))
    if by["nobody"]:
        lists.append((say("rests.open"), tuple(_claim(a.name, a.claim, s, say) for a in by["nobody"])))
    return Section(say("rests.title"), (say("rests.count", all=len(s.assumptions), **counts),), tuple(lists))


def _claim(name: str, claim: str, s: StatementFields, say: Catalogue) -> Line:
    """Return a claim in plain words; one that the catalogue does not know by its name, as it stands."""
    keys = (f"rests.claims.{name}, {s.unit}", f"rests.claims.{name}")
    return next((say(key) for key in keys if say.has(key)), Line(claim, say.language.partition("-")[0] != "en"))


def _not(s: StatementFields, say: Catalogue) -> Section:
    ledger = "not.ledger" if s.ledger_releases or s.ledger_head else "not.ledgers" if s.viewers else "not.others"
    tuning = say("not.tuning") if s.tuning == OPEN_TUNING else say("not.tuning_stated", text=s.tuning)
    more = (say("not.general"), say(ledger), tuning, *(say(f"not.{name}") for name in ("inside", "right", "law")))
    return Section(say("not.title"), (), ((Line(""), more),))


def _check(s: StatementFields, say: Catalogue, digest: str) -> Section:
    texts = [say("check.file", file=s.label_file, sha=s.label_file_sha256)] if s.label_file else []
    if s.ledger_releases:
        texts.append(say("check.ledger", releases=", ".join(map(str, s.ledger_releases))))
    texts.append(say("check.digest", digest=digest))
    lists = [
        (say(f"check.audits_{word}"), tuple(say(f"check.audit_{a.layer}", text=a.tried) for a in found))
        for word, stood in (("refuted", False), ("stood", True))
        if (found := [a for a in s.audits if a.stood is stood])
    ]
    return Section(say("check.title"), tuple(texts), tuple(lists))


# The statement as one HTML page: plain words first, then the record, each of its headings explained.


def html(s: StatementFields, shown: Rows, digest: str, say: Catalogue) -> str:
    """Return the page, which prints on two sheets of A4; ``shown`` are the record's rows."""
    return render(
        "statement.html",
        page=plain_language_page(s, say, digest),
        language=say.language,
        name=say.name,
        missing=len(say.missing),
        all=len(say.missing) + len(say.texts),
        again=say("page.again"),
        command=_commands(s),
        record_title=say("page.record_title"),
        record_intro=say("page.record_intro"),
        headline=headline(s),
        rows=[(*explained(name, say), value) for name, value in shown],
        words_title=say("page.words_title"),
        glossary=glossary(say),
    )


def explained(name: str, say: Catalogue) -> tuple[Line, Line]:
    """Return a heading of the record and what it means."""
    key = name.lower().replace(",", "").replace(" ", "_")
    return say(f"heading.{key}"), say(f"explained.{key}")


def card(s: StatementFields, say: Catalogue) -> str:
    """Return the statement in a notebook's cell: headline and the cards of the page."""
    return render("cell_statement.html", page=plain_language_page(s, say, ""), headline=headline(s))


def _commands(s: StatementFields) -> str:
    stem = s.label_file.rpartition(".")[0] or s.label_file or "labels"
    files = shlex.join([*([s.label_file] if s.label_file else []), f"{stem}.statement.json"])
    plain = f"pate statement {shlex.quote(f'{stem}.statement.json')} --out page.html"
    return f"{plain}\npate verify {files}" + " --ledger LEDGER.sqlite" * bool(s.ledger_releases)
