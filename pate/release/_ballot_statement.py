"""The statement of released sums of ballots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from pate.ledger import Ledger
from pate.mechanisms import GaussianSum
from pate.privacy.cost import Charge
from pate.records import BallotFacts, RightFacts
from pate.release._quote import ReleaseTerms
from pate.release._rounds import counted
from pate.release._statement import _NOISE, _others
from pate.statement.fields import Assumption, check_stated
from pate.statement.model import PrivacyStatement
from pate.statement.plain import as_plain_text, promises

_PUBLIC = "public rows"
_MODEL = "public model"
_OWN_ROW = "own row only"
_BLOCKS = (
    "pate mapped every row, and asked any model, by its own classes, in blocks of one fixed shape, and cut, clipped "
    "and added the ballots in whole numbers"
)

_CAST = "the model whose residuals were cast was computed from released quantities and public rows alone"
_ASKED = "each model that records were asked about was computed from released quantities and public rows alone"

#: A ledger cannot compare features: a digest of them would be one more private thing to keep, and to guess at.
_EARLIER = (
    "; stored by release {} of the ledger, of the records as they were then: their labels and owners are compared with "
    "the ledger's, their features are not"
)
_NOT_OWN = (
    "ballots were clipped and added in whole numbers, but representation, space or model are code that pate does not "
    "know, or may round a row's last bits by its place among the others"
)


#: Of classes that were read off the labels the statement says elsewhere that they are not covered.
_NAMED = Assumption(
    name="classes",
    claim="the set of classes is public knowledge",
    how="they were named beforehand",
    by="curator",
)


def ballot_assumptions(
    facts: Sequence[BallotFacts],
    *,
    unit: str,
    adjacency: str,
    seeded: bool,
    residual: bool,
    right: Sequence[RightFacts] = (),
) -> tuple[Assumption, ...]:
    """Return what the guarantee rests on; ``facts`` are of what was cast so far, ``right`` of counts."""
    own = bool(facts) and all(f.own_maps for f in facts) and all(f.own for f in right)
    person = (
        "all rows of one person carry one group id, and the ids say nothing about anybody; a row without an id casts "
        "nothing, and who has none at all is no unit"
        if unit == "group"
        else "one person is one record: who has several is protected for each of them, not for all together"
    )
    number = (
        "the number of units and all parameters"
        if adjacency == "replace-one"
        else "the nominal number of units and all parameters"
    )
    noise = (
        ("it is a fixed seed, which anybody can repeat: the assumption does NOT hold", "nobody")
        if seeded
        else ("drawn from the operating system's generator, once, when it was used", "pate")
    )
    found = [
        Assumption(
            name=_OWN_ROW,
            claim="each unit's ballot is computed from that unit's own records and from public things alone",
            how=_BLOCKS if own else _NOT_OWN,
            by="pate" if own else "nobody",
        ),
        Assumption(
            name=_PUBLIC,
            claim="the rows that representation and space were fitted on are public",
        ),
    ]
    found.append(
        Assumption(
            name="preprocessing",
            claim="what was done to the records before they were cast looked at each of them alone, or at public rows",
            how="not known here",
        )
    )
    if residual or right:
        heads = bool(facts) and all(f.own_model for f in facts if f.clip is not None) and all(f.own for f in right)
        found.append(
            Assumption(
                name=_MODEL,
                claim=_ASKED if right else _CAST,
                how="a head of pate's; on what it was fitted is not known here"
                if heads
                else "a model that pate does not know",
                by="nobody",
            )
        )
    return (
        *found,
        Assumption(
            name="duplicates", claim="nobody's record stands under two units", how="equal rows were not looked for here"
        ),
        Assumption(name="one person", claim=person),
        Assumption(
            name="parameters", claim=f"{number} are public, and were chosen without looking at the private data"
        ),
        Assumption(name="noise", claim="nobody can predict or repeat the noise", how=noise[0], by=noise[1]),
        *([] if any(f.classes_inferred for f in facts) else [_NAMED]),
    )


def check_ballots_stated(stated: Mapping[str, str] | None, *, residual: bool) -> dict[str, str]:
    """Return what a person states about a release of ballots, refused at the door where it has no place.

    Examples
    --------
    >>> check_ballots_stated({"public rows": "a census of 1990"}, residual=False)
    {'public rows': 'a census of 1990'}
    """
    known = ballot_assumptions([], unit="record", adjacency="replace-one", seeded=False, residual=residual)
    return check_stated(stated, [a.name for a in known if a.name != "noise"])


def ballot_statement(
    facts: Sequence[BallotFacts],
    rounds: Sequence[GaussianSum],
    charge: Charge,
    terms: ReleaseTerms,
    *,
    stated: Mapping[str, str],
    release: int | None,
    head: str | None = None,
    seeded: bool = False,
    earlier: bool = False,
    right: Sequence[RightFacts] = (),
) -> PrivacyStatement:
    """Return the statement of sums of ballots that are one charge: one release, or the rounds of a session so far.

    Parameters
    ----------
    facts : sequence of BallotFacts
        Of each round that was cast.
    rounds : sequence of GaussianSum
        All that were charged.
    charge : Charge
    terms : ReleaseTerms
    stated : mapping
        Checked at the door.
    release : int or None
        The charge's number in the ledger.
    head : str or None
        Digest of the entry that holds the last statistics.
    seeded : bool
        The stored statistics were drawn with a seed.
    earlier : bool
        Some of the statistics were not cast now: the ledger stored them before.
    right : sequence of RightFacts
        Of counts of right answers, which are rounds too.
    """
    last, ledger = facts[-1], terms.ledger
    seeded = seeded or terms.seeded
    guarantee = replace(charge.guarantee(terms.budget.delta), adjacency=last.adjacency)
    residual = any(f.clip is not None for f in facts)
    replaced = last.adjacency == "replace-one"
    multipliers = counted(m.noise_multiplier for m in rounds)
    squares = " + ".join(f"{n}/{m.noise_multiplier!r}^2" for m, n in Counter(rounds).items())
    statement = PrivacyStatement(
        released="; ".join((_released(facts), *map(counts_in_words, right)))
        + (_EARLIER.format(release) if earlier else ""),
        unit=last.unit,
        n_units=last.n if replaced else None,
        guarantee=replace(guarantee, kind="seeded") if seeded else guarantee,
        mechanism=(
            f"GaussianSum, {len(rounds)} round{'s' if len(rounds) > 1 else ''}, noise multiplier {multipliers}: every "
            f"{'record' if last.unit == 'record' else 'person'} casts one bounded ballot per round, the exact sum gets "
            f"Gaussian noise on every cell; directions by {_maps(facts)}"
            + ("; and says in the last whether the model of the others is right about it" if right else "")
        )
        + ("" if replaced else f"; a nominal number of {last.n:,} units"),
        accounting=(
            "exact Gaussian composition: mu^2 adds up over rounds, later ones may depend on earlier ones (Dong, Roth, "
            "Su 2022), converted exactly (Balle, Wang 2018); no cost that looks at the data is lower for a Gaussian sum"
            + ("" if replaced else "; not comparable with replace-one epsilons, which are larger at the same noise")
        ),
        noise_source=_NOISE[seeded],
        seeded=seeded,
        setting="central: the curator holds the records, casts their ballots and is trusted with them",
        covered=(
            "the released statistics and everything computed from them and from public data (heads, labels, students)",
        ),
        not_covered=(
            "the ballots, their exact sum and every file made from those",
            "whether casting failed, and how long it took",
            *(
                ("the set of classes, which was read off the private labels",)
                if any(f.classes_inferred for f in facts)
                else ()
            ),
            _others(ledger),
        ),
        assumptions=ballot_assumptions(
            facts, unit=last.unit, adjacency=last.adjacency, seeded=seeded, residual=residual, right=right
        ),
        tuning=as_plain_text(terms.tuning),
        verify=(
            f"mu^2 = {squares}, then epsilon at delta "
            f"{terms.budget.delta!r} (Balle, Wang 2018): pate.Charge.gaussian(sensitivity=1, sigma=...).guarantee(...)"
        ),
        ledger_head=_head(ledger, release, head),
        ledger_releases=() if ledger is None or release is None else (release,),
        **promises(charge),
    )
    known = {"dataset", "organisation", "purpose", *(a.name for a in statement.assumptions)}
    return statement.with_stated({name: text for name, text in stated.items() if name in known})


def _head(ledger: Ledger | None, release: int | None, head: str | None) -> str:
    return "" if ledger is None or release is None else head or ledger.head_of([release])


def _maps(facts: Sequence[BallotFacts]) -> str:
    """Return what representation and space were fitted on: words of classes that may be anybody's."""
    return as_plain_text("; ".join(dict.fromkeys(f.provenance for f in facts)))[:1500]


def _released(facts: Sequence[BallotFacts]) -> str:
    """Return what was released, round after round, those alike taken together."""
    said = []
    for (n_components, n_classes, what), alike in groupby((f.n_components, f.n_classes, _what(f)) for f in facts):
        n = len(list(alike))
        sums = f"{n} noisy {n_components} x {n_classes} sums" if n > 1 else f"a noisy {n_components} x {n_classes} sum"
        said.append(f"{sums} of {what}")
    return "; ".join(said)


def counts_in_words(f: RightFacts) -> str:
    """Return what was counted, in words."""
    one = "records" if f.unit == "record" else "persons (each with the share of their records)"
    cells = f"{f.n_cells} noisy counts, right or wrong by class," if f.by_class else "a noisy count"
    return f"{cells} of the {one} that the model is right about"


def _what(f: BallotFacts) -> str:
    return f"{f.kind} ballots" if f.clip is None else f"residual ballots clipped to {f.clip:g}, in a {f.kind} space"
