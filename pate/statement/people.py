"""The statement for people who know no differential privacy: a page of plain words, all of them from a catalogue.

What is shown of a statement's own texts (what was released, what a person stated) is shown as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pate.privacy.attacker import attack_bounds, detection_bound, largest_success, replaced_success
from pate.privacy.convert import format_up, gdp_from_budget
from pate.privacy.words import tier as by_epsilon
from pate.statement.catalogue import Catalogue, Line
from pate.statement.fields import OPEN_TUNING, StatementFields
from pate.statement.render import large_delta, tier

#: An attacker who accepts so many false alarms, of those for whom it is not so.
FALSE_ALARMS = 0.01
#: Epsilons that a reader may compare with.
SCALE = (0.1, 1.0, 3.0, 10.0)
#: What a mechanism's text begins with, and whose votes or work it was.
_KINDS = {
    "records": ("GaussianSum",),
    "teachers": ("NoisyHistogram", "LNMax", "GNMax", "ConfidentGNMax", "VoteCap"),
    "dpsgd": ("DP-SGD", "DP-FTRL", "shuffled DP-SGD"),
    "selection": ("private selection",),
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
    """How many times of 100 an attacker is right at most, by epsilon; one of them is this release.

    Examples
    --------
    >>> Scale(Line("For comparison"), (("1", 74, None),)).marks[0][1]
    74
    """

    caption: Line
    #: (epsilon, right of 100, which one it is)
    marks: tuple[tuple[str, int, Line | None], ...]


@dataclass(frozen=True)
class PeoplePage:
    """What the page says, in its order."""

    title: Line
    lead: Line
    alarm: Line | None
    cards: tuple[Card, ...]
    sections: tuple[Section, ...]
    scale: Scale | None


def people_page(s: StatementFields, say: Catalogue, digest: str) -> PeoplePage:
    """Return the page of a statement in the words of a catalogue; see :class:`PeoplePage`."""
    bounds = None if s.seeded else _bounds(s)
    return PeoplePage(
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
    """Return the words of privacy: key, name and meaning.

    Examples
    --------
    >>> from pate.statement.catalogue import english
    >>> glossary(english())[0][1].text
    'Epsilon (ε)'
    """
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
    told = [*s.not_covered, *(f"the set of classes, which {a.how}" for a in s.assumptions if a.name == "classes")]
    read = (say("done.classes_read"),) if any(_CLASSES_READ in text.replace("it was", "was") for text in told) else ()
    right = () if s.measured is None else (say("done.measured", text=str(s.measured)),)
    foreign = say.language.partition("-")[0] != "en"
    doubts = tuple(Line(one.sentence, foreign) for one in s.doubts)
    texts = (done, *read, say("done.released", text=s.released), *right, *about, made)
    return Section(say("done.title"), texts, ((say("done.doubts"), doubts),) if doubts else ())


_STATED = ("organisation", "purpose")
#: How a statement says that nobody named the classes.
_CLASSES_READ = "the set of classes, which was read off"


def _lowered(s: StatementFields) -> bool:
    return tier(s) != by_epsilon(s.guarantee.epsilon)


def _asked(s: StatementFields) -> str:
    """Return how texts end where the guarantee is about being in the data: no limit of it is one on what is said."""
    return "" if s.guarantee.adjacency == "replace-one" else "_present"


def _who(s: StatementFields, say: Catalogue) -> Section:
    how = "present" if _asked(s) else "replaced"
    return Section(say("who.title"), (say(f"who.{s.unit}"), say(f"who.{how}_{s.unit}"), say("who.against")))


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
        told = {"delta": say.number(g.delta, 6), "one_in": say.one_in(g.delta)}
        count = {"n": say.whole(s.n_units)} if s.n_units else {}
        texts.append(say("sure.delta_count" if count else "sure.delta", **told, **count))
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
        told = (say("rests.how", claim=_claim(a.name, a.claim, s, say).text, text=a.how) for a in by["curator"])
        lists.append((say("rests.stated"), tuple(told)))
    if by["nobody"]:
        lists.append((say("rests.open"), tuple(_claim(a.name, a.claim, s, say) for a in by["nobody"])))
    return Section(say("rests.title"), (say("rests.count", all=len(s.assumptions), **counts),), tuple(lists))


def _claim(name: str, claim: str, s: StatementFields, say: Catalogue) -> Line:
    """Return a claim in plain words; one that the catalogue does not know by its name, as it stands."""
    keys = (f"rests.claims.{name}, {s.unit}", f"rests.claims.{name}")
    return next((say(key) for key in keys if say.has(key)), Line(claim, say.language.partition("-")[0] != "en"))


def _not(s: StatementFields, say: Catalogue) -> Section:
    others = say("not.ledger" if s.ledger_releases or s.ledger_head else "not.others")
    tuning = say("not.tuning") if s.tuning == OPEN_TUNING else say("not.tuning_stated", text=s.tuning)
    more = (say("not.general"), others, tuning, *(say(f"not.{name}") for name in ("inside", "right", "law")))
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
