"""The statements of what is released: labels, and sums of ballots."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from pate.ledger import Ledger, LedgerRow
from pate.mechanisms import GaussianSum, Mechanism, NoisyHistogram
from pate.privacy.convert import format_up
from pate.privacy.cost import Charge
from pate.privacy.tiers import WHOLE, TierBudgets
from pate.privacy.words import Guarantee
from pate.records import NUMBER, BallotFacts, RightFacts, TierFacts, UnitTiers, VectorFacts, is_own
from pate.release._quote import Quote, ReleaseTerms, counted
from pate.release._stored import races_in, with_counts
from pate.release.statement.fields import (
    CLASSES_NAMED,
    ONE_RECORD,
    Assumption,
    TierGuarantee,
    check_stated,
    drawn_noise,
)
from pate.release.statement.model import PrivacyStatement, made_statement
from pate.release.statement.plain import as_plain_text
from pate.votes import BallotVotes, Votes

# What the guarantee of released labels rests on, and who vouches for each point.

#: How a table's scaling and encoding was kept from mixing shards, by :class:`pate.jobs.LabelJob`'s names.
_PREPROCESSING = {
    "public": ("pate learnt scaling and encoding from the rows given as public alone", "pate"),
    "shard": ("pate learnt scaling and encoding inside every shard", "pate"),
    "none": (
        "pate fitted nothing before training; what was done to the rows before they came is not known here",
        "nobody",
    ),
}
#: The assumption when shards are cut by a seed: anybody who knows the seed can repeat the cut.
KNOWN_SHARDS = "known shards"
#: The assumption of votes that were drawn by races which all teachers share.
PUBLIC_RACE = "public race"
_RACES_NAMED = 10
_RACED = (
    "pate drew every race from its seed and a digest of the public row alone; that the seed was chosen without looking "
    "at the private data is one of the parameters"
)
_NOT_LOOKED = "equal rows were not looked for here"
_CLASSES_READ = "the set of classes, which was read off the private labels"
_GIVEN = "the release was given votes and cannot see how they came about"
_UNKNOWN = (
    "how many other fits were made on these data is not known to this statement; a ledger counts those it charged"
)
#: What no person can state: pate draws the noise, and knows.
_PATES_OWN = ("noise",)


def make_assumptions(
    *,
    unit: str,
    classes_inferred: bool,
    seeded: bool,
    classes_named: bool = False,
    partition_seeded: bool = False,
    races: Sequence[int] = (),
) -> tuple[Assumption, ...]:
    """Return the assumptions of a release of given votes: all open but the noise, and the classes that a person named.

    ``classes_inferred``: the set of classes was read off the private labels; ``classes_named``: a person named every
    class before the release; ``partition_seeded``: the shards were cut by a seed that may be known; ``races``: the
    public seeds by which votes were drawn.
    """
    grouped, found = unit == "group", []
    person = (
        "all rows of one person carry one group id, and the ids say nothing about anybody" if grouped else ONE_RECORD
    )
    if not classes_inferred:
        by_votes = replace(CLASSES_NAMED, how="they came with the votes", by="nobody")
        found.append(CLASSES_NAMED if classes_named else by_votes)
    if partition_seeded:
        place = "the group keeps its id" if grouped else "all other records keep their places in the file"
        claim = f"only such a replacement is protected against in which {place}"
        how = "the shards were cut by a seed that may be known (partition_seed), not by a secret"
        found.append(Assumption(KNOWN_SHARDS, claim, how))
    if races:
        more = f" and {len(races) - _RACES_NAMED} more" if len(races) > _RACES_NAMED else ""
        named = f"seed{'s' * (len(races) > 1)} {', '.join(map(str, races[:_RACES_NAMED]))}{more}"
        claim = f"votes were drawn from teachers' probabilities by races of public {named}, the same for all teachers"
        found.append(Assumption(PUBLIC_RACE, claim, _RACED, "pate"))
    return (
        Assumption(
            "disjoint shards",
            "every unit's records are in one shard only, whatever the other units' records are",
            _GIVEN,
        ),
        Assumption("own shard only", "each teacher was trained on its own shard alone", _GIVEN),
        Assumption(
            "preprocessing", "whatever was fitted before training was fitted inside a shard or on public rows", _GIVEN
        ),
        Assumption("public rows", "the rows that were labelled are public", _GIVEN),
        Assumption("duplicates", "nobody's record stands in two shards, entered twice", _NOT_LOOKED),
        Assumption("one person", person),
        Assumption(
            "parameters", "the public rows and all parameters were chosen without looking at the private data", _UNKNOWN
        ),
        drawn_noise(seeded),
        *found,
    )


def check_release_stated(
    stated: Mapping[str, str] | None,
    *,
    unit: str,
    classes_inferred: bool = False,
    also: tuple[str, ...] = (),
    tiers: bool = False,
    mechanism: object = None,
) -> dict[str, str]:
    """Return what a person states about a release of labels, refused where it has no place.

    Of a ``mechanism`` that is not pate's a person may state why its charge is right.

    Examples
    --------
    >>> check_release_stated({"classes": "by law"}, unit="record")
    {'classes': 'by law'}
    >>> check_release_stated({"noise": "we threw the seed away"}, unit="record")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: stated has the unknown entry 'noise'. A person may state: dataset, ...
    """
    known = make_assumptions(unit=unit, classes_inferred=classes_inferred, seeded=False)
    own = (*((_TIERS.name, _PURE.name) if tiers else ()), *(() if is_own(mechanism) else (_FOREIGN.name,)))
    return check_stated(stated, [*(a.name for a in known if a.name not in _PATES_OWN), *own, *also])


def drawn_here(statement: PrivacyStatement, n_asked: int, teachers: object = None) -> bool:
    """Whether all labels are of the one release that was charged now, ``n_asked`` queries, by teachers of pate's.

    Labels that were stored before may be of teachers not seen here: for those pate does not vouch. Nor does it
    for an ensemble of a class that is not pate's: what that does with the records is not known here.
    """
    own = teachers is None or type(teachers).__module__.partition(".")[0] == "pate"
    return own and n_asked > 0 and len(statement.ledger_releases) <= 1


def vouch_for_training(
    statement: PrivacyStatement,
    *,
    preprocessing: str = "none",
    public_rows: str | None = None,
) -> PrivacyStatement:
    """Return the statement of labels whose teachers pate itself partitioned and trained (see :func:`drawn_here`)."""
    known = any(a.name == KNOWN_SHARDS for a in statement.assumptions)
    by = "a seed that may be known" if known else "a secret of 256 bits from the operating system"
    shards = (
        f"pate dealt each group out whole, by a keyed hash of its id alone, under {by}"
        if statement.unit == "group"
        else f"pate dealt the records out by a keyed permutation of their places in the file, under {by}"
    )
    s = statement.with_evidence("disjoint shards", shards)
    s = s.with_evidence("own shard only", "pate trained one classifier per shard on that shard's rows")
    # That a search was made is public; what it found is not, and what was done about it only the curator can state.
    looked = (
        "pate looked for equal rows in different shards; what it found, and what was done about it, is not told here"
    )
    s = s.with_evidence("duplicates", looked, by="nobody")
    how, by = _PREPROCESSING[preprocessing]
    return with_public_rows(s.with_evidence("preprocessing", how, by=by), public_rows)


def with_public_rows(statement: PrivacyStatement, public_rows: str | None) -> PrivacyStatement:
    """Return the statement with what was seen to of the public rows, see :func:`vouch_for_training`."""
    if public_rows == "declared":
        return statement.with_evidence("public rows", "declared, wherever they also stand", by="curator")
    if public_rows == "checked":
        looked = "pate looked for private rows among them; what it found is not told here"
        return statement.with_evidence("public rows", looked, by="nobody")
    if public_rows == "drawn":
        made = "pate drew them from sums that were released before, in this run, and that this price includes"
        mechanism = statement.mechanism.replace("public rows", "synthetic rows")  # that maps were fitted on
        return replace(statement, mechanism=mechanism).with_evidence("public rows", made)
    return statement


_ACCOUNTING = {
    "gdp": "exact Gaussian composition: mu^2 adds up (Dong, Roth, Su 2022), converted exactly (Balle, Wang 2018)",
    "rdp": "Renyi composition (an argmax or threshold test of Gaussian noise alone by its certified cost, docs/"
    "public-curve.md), converted by Canonne, Kamath, Steinke 2020",
    "pure": "pure composition: epsilons add up",
}
#: Where the noise of votes and ballots comes from.
_NOISE = "the operating system's cryptographic generator, as exact real-valued (continuous) noise"
_FOREIGN_NOISE = "the operating system's cryptographic generator, as {0}, which is not pate's, makes noise of it"
#: The assumption of a mechanism that is not pate's: its charge is believed.
_FOREIGN = Assumption(
    "mechanism", "the mechanism, which is not pate's, costs at most what its charge says, whatever the votes are"
)


def statement_of(terms: ReleaseTerms, **said: Any) -> PrivacyStatement:
    """Return the statement of a release on these terms, see :func:`made_statement`."""
    said = {"noise_source": _NOISE, **said}
    return made_statement(ledger=terms.ledger, tuning=terms.tuning, stated=terms.stated, **said)


def make_statement(
    votes: Votes | BallotVotes,
    mechanism: Mechanism,
    price: Quote,
    terms: ReleaseTerms,
    sources: set[int],
    *,
    classes_named: bool = False,
    head: str | None = None,
    units: TierFacts | None = None,
) -> PrivacyStatement:
    """Return the statement of labels that come from the ledger's releases ``sources`` (or from no ledger).

    ``head`` is the digest of the entry that holds the labels; None takes the last entry of the releases. ``units`` are
    of the terms' tiers.
    """
    ledger = terms.ledger
    rows = [] if ledger is None else ledger.releases(sources)
    seeded = terms.seeded or any(row.seeded for row in rows)
    # Stored answers may be of other teachers' votes: what weakened those, weakens this.
    votes = replace(
        votes,
        classes_inferred=votes.classes_inferred or any(row.facts.get("classes_inferred") for row in rows),
        partition_seeded=votes.partition_seeded or any(row.facts.get("partition_seeded") for row in rows),
        races=tuple(sorted({*votes.races, *(seed for row in rows for seed in races_in(row.facts))})),
    )
    charge, guarantee, accounting = price.charge, price.guarantee, _ACCOUNTING[price.guarantee.method]
    released, verify = _released(mechanism, price), _recipe(mechanism, price)
    noise = f"{with_counts(mechanism, price.counts)}, {votes.n_teachers} teachers"
    if len(rows) == 1 and price.is_free:
        charge = rows[0].charge
        guarantee = charge.guarantee(terms.budget.delta)
        accounting = f"{_ACCOUNTING[guarantee.method]}; answered from the ledger, charged there once"
        noise = _noise_of(rows)
        released = f"labels of public rows, stored by release {rows[0].id} of the ledger ({rows[0].mechanism})"
        verify = "read the ledger's release and recompute its charge's guarantee"
    elif len(rows) > 1:
        # Several releases, each perhaps chosen after the last: only the filter's constant is a guarantee.
        counted = None if ledger is None else ledger.remaining().terms
        assert counted is not None  # there are releases
        total, currency = counted.total, counted.currency
        guarantee = Guarantee(
            epsilon=total.epsilon,
            delta=total.delta,
            kind="public",
            method=currency.method,
            order=currency.order if currency.method == "renyi-filter" else None,
        )
        charge = counted.filled
        numbers = ", ".join(str(row.id) for row in rows)
        released = f"labels of {votes.n_queries} public rows, by releases {numbers} of the ledger"
        accounting = (
            f"labels of {len(rows)} releases; all releases in the ledger together stay within its total budget "
            f"(filter on {currency.unit}, fixed before the first charge: {currency.theorem})"
        )
        noise = _noise_of(rows)
        verify = (
            f"pate ledger verify; or sum {currency.unit} over the ledger's releases and compare it with "
            f"{counted.limit!r}, the most within the total budget"
        )
    weighed = tier_guarantees(terms.tiers, charge, units)
    return statement_of(
        terms,
        released=released,
        unit=votes.unit,
        n_units=votes.n_units,
        guarantee=guarantee,
        mechanism=f"{noise}, {votes.n_classes} classes"
        + ("; a vote counts by the weight of the tier that its teacher's shard is of" if weighed else ""),
        accounting=accounting + (_WEIGHED_VOTES if weighed else ""),
        seeded=seeded,
        covered=(
            "the released labels and everything computed from them and from public data (a student model, metrics)",
        ),
        not_covered=(
            "the teachers, their votes and every file made from those",
            *((_TIER_LEFT.format(votes.unit),) if weighed else ()),
            _others(ledger),
            *((_CLASSES_READ,) if votes.classes_inferred else ()),
        ),
        assumptions=(
            *make_assumptions(
                unit=votes.unit,
                classes_inferred=votes.classes_inferred,
                seeded=seeded,
                classes_named=classes_named,
                partition_seeded=votes.partition_seeded,
                races=votes.races,
            ),
            *((_TIERS, _PURE) if weighed else ()),
            *(() if is_own(mechanism) else (_FOREIGN,)),
        ),
        tier_budgets=weighed,
        verify=verify,
        noise_source=_NOISE if is_own(mechanism) else _FOREIGN_NOISE.format(type(mechanism).__name__),
        charge=charge,
        releases=[row.id for row in rows],
        head=head,
    )


def _noise_of(rows: list[LedgerRow]) -> str:
    """Return by what stored labels were made: perhaps with other teachers than the ones at hand."""
    made = [f"{row.mechanism}, {row.facts.get('n_teachers', 'an unknown number of')} teachers" for row in rows]
    return "; ".join(dict.fromkeys(made))


def _others(ledger: Ledger | None) -> str:
    total = None if ledger is None else ledger.total
    if total is None:
        return "other releases from the same private data"
    return (
        "other releases from the same private data: those in this ledger come on top, all of them together within "
        f"epsilon = {format_up(total.epsilon)} at delta = {total.delta:g}; those outside it are not counted"
    )


def _released(mechanism: Mechanism, price: Quote) -> str:
    what = "noisy vote counts" if isinstance(mechanism, NoisyHistogram) else "noisy labels"
    cap = f", at most {price.max_answers} of them answered" if mechanism.may_refuse else ""
    return f"{what} of {price.n_queries} public rows{cap}"


def _recipe(mechanism: Mechanism, price: Quote) -> str:
    kind, counted_by = type(mechanism), ["GaussianSum"] if price.counts else []
    if is_own(mechanism):
        homes = {"pate": [kind.__name__, *counted_by]}
    else:
        homes = {as_plain_text(kind.__module__): [kind.__name__], "pate": counted_by}
    labels = f"{mechanism}.charge({price.n_queries}, {price.max_answers})"
    whole = " + ".join([labels, *(f"{count}.charge(1)" for count in price.counts)])
    whole = f"({whole})" if price.counts else whole
    found = "".join(f"from {home} import {', '.join(names)}; " for home, names in homes.items() if names)
    return f"{found}{whole}.guarantee({price.guarantee.delta!r})"


# The statement of released sums of ballots.

_MODEL = "public model"
_OWN_ROW = "own row only"
_BLOCKS = (
    "pate mapped every row, and asked any model, by its own classes, in blocks of one fixed shape, and cut, clipped "
    "and added the ballots in whole numbers"
)

_ONE_PERSON = (
    "all rows of one person carry one group id, and the ids say nothing about anybody; a row without an id casts "
    "nothing, and who has none at all is no unit"
)
_CAST = "the model whose residuals were cast was computed from released quantities and public rows alone"
_ASKED = "each model that records were asked about was computed from released quantities and public rows alone"

_TIERS = Assumption(
    "tiers", "which unit is in which tier is public, was fixed without looking at the private data, and does not change"
)
#: Of votes: what the weights rest on.
_PURE = Assumption("shards of one tier", "every shard holds the records of one tier alone", _GIVEN)
_TIER_LEFT = "which {} is in which tier, and one that changes its tier"
_WEIGHED_VOTES = (
    "; a unit of a tier of weight w moves two weighted counts by w at most: its mu is w times that of weight 1, in "
    "every query and in all together"
)
_WEIGHED = (
    "; a unit of weight w moves every sum w times as far as one of weight 1 at most: its mu is w times theirs, in "
    "every round and in all together"
)

#: A ledger cannot compare features: a digest of them would be one more private value to store, and to guess at.
_EARLIER = (
    "; stored by release {} of the ledger, of the records as they were then: their labels and owners are compared with "
    "the ledger's, their features are not"
)
_NOT_OWN = (
    "ballots were clipped and added in whole numbers, but representation, space or model are code that pate does not "
    "know, or may round a row's last bits by its place among the others"
)


def ballot_assumptions(
    facts: Sequence[BallotFacts | VectorFacts],
    *,
    unit: str,
    adjacency: str,
    seeded: bool,
    residual: bool,
    right: Sequence[RightFacts] = (),
    tiers: bool = False,
) -> tuple[Assumption, ...]:
    """Return what the guarantee rests on; ``facts`` are of what was cast so far, ``right`` of counts."""
    own = bool(facts) and all(f.own_maps for f in facts) and all(f.own for f in right)
    nominal = "" if adjacency == "replace-one" else "nominal "
    person = _ONE_PERSON if unit == "group" else ONE_RECORD
    model = []
    if residual or right:
        heads = bool(facts) and all(f.own_model for f in facts if _residual(f)) and all(f.own for f in right)
        fitted = "a head of pate's; on what it was fitted is not known here"
        how = fitted if heads else "a model that pate does not know"
        model = [Assumption(_MODEL, _ASKED if right else _CAST, how)]
    return (
        Assumption(
            _OWN_ROW,
            "each unit's ballot is computed from that unit's own records and from public things alone",
            _BLOCKS if own else _NOT_OWN,
            "pate" if own else "nobody",
        ),
        Assumption("public rows", "the rows that representation and space were fitted on are public"),
        Assumption(
            "preprocessing",
            "what was done to the records before they were cast looked at each of them alone, or at public rows",
            "not known here",
        ),
        *model,
        Assumption("duplicates", "nobody's record stands under two units", _NOT_LOOKED),
        Assumption("one person", person),
        Assumption(
            "parameters",
            f"the {nominal}number of units and all parameters are public, and were chosen without looking at the "
            "private data",
        ),
        *([_TIERS] if tiers else []),
        drawn_noise(seeded),
        *([] if any(f.classes_inferred or f.classes == NUMBER for f in facts) else [CLASSES_NAMED]),
    )


def check_ballots_stated(
    stated: Mapping[str, str] | None, *, residual: bool, tiers: TierBudgets | None = None
) -> dict[str, str]:
    """Return what a person states about a release of ballots, refused where it has no place.

    Examples
    --------
    >>> check_ballots_stated({"public rows": "a census of 1990"}, residual=False)
    {'public rows': 'a census of 1990'}
    """
    known = ballot_assumptions(
        [], unit="record", adjacency="replace-one", seeded=False, residual=residual, tiers=tiers is not None
    )
    return check_stated(stated, [a.name for a in known if a.name != "noise"])


#: Of a session with held-out units, in its mechanism and in its accounting.
_HELD_OUT_ASKED = (
    "; rounds held out: {}, the last ones, are asked of held-out units alone, and the others of the rest: which is "
    "which follows from a secret order of places, or from a hash of a person's id"
)
_HELD_OUT_PAID = (
    "; a unit takes part in the rounds of one part alone, so that the larger of the two parts' costs counts (parallel "
    "composition, McSherry 2009)"
)


def _residual(f: BallotFacts | VectorFacts) -> bool:
    """Whether records were asked about a model of earlier rounds."""
    return f.clip is not None if isinstance(f, BallotFacts) else f.is_residual


def ballot_statement(
    facts: Sequence[BallotFacts | VectorFacts],
    rounds: Sequence[GaussianSum],
    charge: Charge,
    terms: ReleaseTerms,
    *,
    release: int | None,
    head: str | None = None,
    seeded: bool = False,
    earlier: bool = False,
    right: Sequence[RightFacts] = (),
    n_held_out: int = 0,
) -> PrivacyStatement:
    """Return the statement of sums of ballots that are one charge: one release, or the rounds of a session so far."""
    last, ledger, seeded = facts[-1], terms.ledger, seeded or terms.seeded
    guarantee = replace(charge.guarantee(terms.budget.delta), adjacency=last.adjacency)
    residual = any(map(_residual, facts))
    replaced = last.adjacency == "replace-one"
    multipliers = counted(m.noise_multiplier for m in rounds)
    squares = _squares(rounds)
    if n_held_out:
        training, held_out = rounds[:-n_held_out], rounds[-n_held_out:]
        squares = f"the larger of {_squares(training)} (training units) and {_squares(held_out)} (held-out units)"
    weighed = tier_guarantees(terms.tiers, charge, last.tiers)
    about: dict[str, Any] = {"unit": last.unit, "adjacency": last.adjacency, "seeded": seeded, "residual": residual}
    return statement_of(
        terms,
        released="; ".join((sums_in_words(facts), *map(counts_in_words, right)))
        + (_EARLIER.format(release) if earlier else ""),
        unit=last.unit,
        n_units=last.n if replaced else None,
        guarantee=guarantee,
        mechanism=(
            f"GaussianSum, {len(rounds)} round{'s' if len(rounds) > 1 else ''}, noise multiplier {multipliers}: every "
            f"{'record' if last.unit == 'record' else 'person'} casts one bounded ballot per round, the exact sum gets "
            f"Gaussian noise on every cell; directions by {_maps(facts)}"
            + ("; and says in the last whether the model of the others is right about it" if right else "")
            + (_HELD_OUT_ASKED.format(n_held_out) if n_held_out else "")
            + ("; what a unit contributes is scaled by the weight of its tier" if weighed else "")
        )
        + ("" if replaced else f"; a nominal number of {last.n:,} units"),
        accounting=(
            "exact Gaussian composition: mu^2 adds up over rounds, later ones may depend on earlier ones (Dong, Roth, "
            "Su 2022), converted exactly (Balle, Wang 2018); no cost that looks at the data is lower for a Gaussian sum"
            + (_HELD_OUT_PAID if n_held_out else "")
            + (_WEIGHED if weighed else "")
            + ("" if replaced else "; not comparable with replace-one epsilons, which are larger at the same noise")
        ),
        seeded=seeded,
        setting="central: the curator holds the records, casts their ballots and is trusted with them",
        covered=(
            "the released statistics and everything computed from them and from public data (heads, labels, students)",
        ),
        not_covered=(
            "the ballots, their exact sum and every file made from those",
            "whether casting failed, and how long it took",
            *((_CLASSES_READ,) if any(f.classes_inferred for f in facts) else ()),
            *((_TIER_LEFT.format(last.unit),) if weighed else ()),
            _others(ledger),
        ),
        assumptions=ballot_assumptions(facts, **about, right=right, tiers=bool(weighed)),
        tier_budgets=weighed,
        verify=(
            f"mu^2 = {squares}, then epsilon at delta "
            f"{terms.budget.delta!r} (Balle, Wang 2018): pate.Charge.gaussian(sensitivity=1, sigma=...).guarantee(...)"
        ),
        charge=charge,
        releases=() if ledger is None or release is None else (release,),
        head=head,
    )


def _squares(rounds: Sequence[GaussianSum]) -> str:
    return " + ".join(f"{n}/{m.noise_multiplier!r}^2" for m, n in Counter(rounds).items())


def tier_guarantees(
    tiers: TierBudgets | None, whole: Charge, units: UnitTiers | TierFacts | None
) -> tuple[TierGuarantee, ...]:
    """Return what each tier of these units is promised, if there are any, where one of weight 1 is charged ``whole``.

    Examples
    --------
    >>> from pate import Budget
    >>> tiers = TierBudgets.of({"gold": Budget(3.0, 1e-5), "basic": Budget(1.0, 1e-5)})
    >>> for one in tier_guarantees(
    ...     tiers, Charge.gaussian(sensitivity=0.7, sigma=1.0), (("basic", 1, 9),)
    ... ):
    ...     print(one)
    basic: epsilon = 0.9709 at delta = 1e-05 (0.261-GDP) for each of 9, who weigh 0.373
    gold: epsilon = 2.91 at delta = 1e-05 (0.7-GDP) for each of 0, who weigh 1
    """
    if tiers is None or units is None:
        return ()
    counts = {name: n for name, _, n in (units.facts if isinstance(units, UnitTiers) else units)}
    found = []
    for name, weight, budget in zip(tiers.names, tiers.weights, tiers.budgets, strict=True):
        charge = tiers.charge(name, whole)
        found.append(
            TierGuarantee(
                name=name,
                n=counts.get(name, 0),
                weight=weight / WHOLE,
                epsilon=charge.guarantee(budget.delta).epsilon,
                delta=budget.delta,
                mu=math.sqrt(charge.mu_squared),
            )
        )
    return tuple(found)


def _maps(facts: Sequence[BallotFacts | VectorFacts]) -> str:
    """Return what representation and space were fitted on: words of classes that may be anybody's."""
    return as_plain_text("; ".join(dict.fromkeys(f.provenance for f in facts if f.provenance)))[:1500]


def sums_in_words(facts: Sequence[BallotFacts | VectorFacts]) -> str:
    """Return what was released, round after round, those alike taken together."""
    said = []
    for ((rows, columns), what), alike in groupby((_shape(f), _what(f)) for f in facts):
        n = len(list(alike))
        sums = f"{n} noisy {rows} x {columns} sums" if n > 1 else f"a noisy {rows} x {columns} sum"
        said.append(f"{sums} of {what}")
    return "; ".join(said)


def counts_in_words(f: RightFacts) -> str:
    """Return what was counted, in words."""
    one = "records" if f.unit == "record" else "persons (each with the share of their records)"
    cells = f"{f.n_cells} noisy counts, right or wrong by class," if f.by_class else "a noisy count"
    weighed = "" if f.tiers is None else ", each by the weight of its tier,"
    return f"{cells} of the {one}{weighed} that the model is right about"


def _shape(f: BallotFacts | VectorFacts) -> tuple[int, int]:
    return (f.n_components, f.n_classes) if isinstance(f, BallotFacts) else f.shape


def _what(f: BallotFacts | VectorFacts) -> str:
    if isinstance(f, VectorFacts):
        return f.in_words
    return f"{f.kind} ballots" if f.clip is None else f"residual ballots clipped to {f.clip:g}, in a {f.kind} space"
