"""The statement of a release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pate.ledger import Ledger, LedgerRow
from pate.mechanisms import Mechanism, NoisyHistogram
from pate.privacy.convert import format_up
from pate.privacy.words import Guarantee
from pate.release._kept import with_counts
from pate.release._quote import Quote, ReleaseTerms
from pate.statement.fields import NAMED, Assumption, check_stated
from pate.statement.model import PrivacyStatement
from pate.statement.plain import as_plain_text, promises
from pate.votes import Votes

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
#: The assumption of a cut that anybody who knows its seed can repeat.
KNOWN_SHARDS = "known shards"
_GIVEN = "the release was given votes and cannot see how they came about"
_UNKNOWN = (
    "how many other fits were made on these data is not known to this statement; a ledger counts those it charged"
)
_NAMED = "they were named beforehand"
#: What no person can state: pate draws the noise, and knows.
_PATES_OWN = ("noise",)


def make_assumptions(
    *,
    unit: str,
    classes_inferred: bool,
    seeded: bool,
    classes_named: bool = False,
    partition_seeded: bool = False,
) -> tuple[Assumption, ...]:
    """Return the assumptions of a release of given votes: all open but the noise, and the classes that somebody named.

    Parameters
    ----------
    unit : {"record", "group"}
    classes_inferred : bool
        The set of classes was read off the private labels.
    seeded : bool
    classes_named : bool
        A person named every class at the door.
    partition_seeded : bool
        The shards were cut by a seed that somebody may know.
    """
    person = (
        "all rows of one person carry one group id, and the ids say nothing about anybody"
        if unit == "group"
        else "one person is one record: who has several is protected for each of them, not for all together"
    )
    noise = (
        ("it is a fixed seed, which anybody can repeat: the assumption does NOT hold", "nobody")
        if seeded
        else ("drawn from the operating system's generator, once, when it was used", "pate")
    )
    found = [
        Assumption(
            name="disjoint shards",
            claim="every unit's records are in one shard only, whatever the other units' records are",
            how=_GIVEN,
        ),
        Assumption(name="own shard only", claim="each teacher was trained on its own shard alone", how=_GIVEN),
        Assumption(
            name="preprocessing",
            claim="whatever was fitted before training was fitted inside a shard or on public rows",
            how=_GIVEN,
        ),
        Assumption(name="public rows", claim="the rows that were labelled are public", how=_GIVEN),
        Assumption(
            name="duplicates",
            claim="nobody's record stands in two shards, entered twice",
            how="equal rows were not looked for here",
        ),
        Assumption(name="one person", claim=person),
        Assumption(
            name="parameters",
            claim="the public rows and all parameters were chosen without looking at the private data",
            how=_UNKNOWN,
        ),
        Assumption(name="noise", claim="nobody can predict or repeat the noise", how=noise[0], by=noise[1]),
    ]
    if not classes_inferred:
        how, by = (_NAMED, "curator") if classes_named else ("they came with the votes", "nobody")
        found.append(Assumption(name="classes", claim="the set of classes is public knowledge", how=how, by=by))
    if partition_seeded:
        place = "the group keeps its id" if unit == "group" else "all other records keep their places in the file"
        found.append(
            Assumption(
                name=KNOWN_SHARDS,
                claim=f"only such a replacement is protected against in which {place}",
                how="the shards were cut by a seed that may be known (partition_seed), not by a secret",
                by="nobody",
            )
        )
    return tuple(found)


def check_release_stated(
    stated: Mapping[str, str] | None, *, unit: str, classes_inferred: bool = False, also: tuple[str, ...] = ()
) -> dict[str, str]:
    """Return what a person states about a release of labels, refused at the door where it has no place.

    Examples
    --------
    >>> check_release_stated({"classes": "by law"}, unit="record")
    {'classes': 'by law'}
    >>> check_release_stated({"noise": "we threw the seed away"}, unit="record")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: stated has the unknown entry 'noise'. A person may state: dataset, ...
    """
    known = make_assumptions(unit=unit, classes_inferred=classes_inferred, seeded=False)
    return check_stated(stated, [*(a.name for a in known if a.name not in _PATES_OWN), *also])


def drawn_here(statement: PrivacyStatement, n_asked: int, teachers: object = None) -> bool:
    """Whether all labels are of the one release that was charged now, ``n_asked`` queries, by teachers of pate's.

    Labels that were stored before may be of teachers that nobody here saw: for those pate does not vouch. Nor does it
    for an ensemble whose class is somebody else's: what that does with the records is not known here.
    """
    own = teachers is None or type(teachers).__module__.partition(".")[0] == "pate"
    return own and n_asked > 0 and len(statement.ledger_releases) <= 1


def vouch_for_training(
    statement: PrivacyStatement,
    *,
    preprocessing: str = "none",
    public_rows: str | None = None,
) -> PrivacyStatement:
    """Return the statement of labels whose teachers pate itself partitioned and trained (see :func:`drawn_here`).

    Parameters
    ----------
    statement : PrivacyStatement
        Of a release of those teachers' votes.
    preprocessing : {"public", "shard", "none"}
        Where a table's scaling and encoding was learnt.
    public_rows : {"checked", "declared"} or None
        Whether private rows were looked for among the public ones, or a person declared that those are public.
    """
    known = any(a.name == KNOWN_SHARDS for a in statement.assumptions)
    by = "a seed that may be known" if known else "a secret of 256 bits from the operating system"
    shards = (
        f"pate dealt each group out whole, by a keyed hash of its id alone, under {by}"
        if statement.unit == "group"
        else f"pate dealt the records out by a keyed permutation of their places in the file, under {by}"
    )
    s = statement.with_evidence("disjoint shards", shards)
    s = s.with_evidence("own shard only", "pate trained one classifier per shard on that shard's rows")
    # That a search was made is public; what it found is not, and what became of it is the curator's word or nobody's.
    looked = (
        "pate looked for equal rows in different shards; what it found, and what was done about it, is not told here"
    )
    s = s.with_evidence("duplicates", looked, by="nobody")
    return with_public_rows(with_preprocessing(s, preprocessing), public_rows)


def with_preprocessing(statement: PrivacyStatement, where: str) -> PrivacyStatement:
    """Return the statement with where scaling and encoding was learnt, see :func:`vouch_for_training`."""
    how, by = _PREPROCESSING[where]
    return statement.with_evidence("preprocessing", how, by=by)


def with_public_rows(statement: PrivacyStatement, public_rows: str | None) -> PrivacyStatement:
    """Return the statement with what was seen to of the public rows, see :func:`vouch_for_training`."""
    if public_rows == "declared":
        return statement.with_evidence("public rows", "declared, wherever they also stand", by="curator")
    if public_rows == "checked":
        looked = "pate looked for private rows among them; what it found is not told here"
        return statement.with_evidence("public rows", looked, by="nobody")
    return statement


def classes_were_named(statement: PrivacyStatement) -> PrivacyStatement:
    """Return the statement where a person named every class at the door, ``classes=``."""
    if all(a.name != "classes" for a in statement.assumptions):  # read off the labels: the statement says so elsewhere
        return statement
    return statement.with_evidence("classes", _NAMED, by="curator")


_ACCOUNTING = {
    "gdp": "exact Gaussian composition: mu^2 adds up (Dong, Roth, Su 2022), converted exactly (Balle, Wang 2018)",
    "rdp": "Renyi composition (an argmax or threshold test of Gaussian noise alone by its certified cost, docs/"
    "public-curve.md), converted by Canonne, Kamath, Steinke 2020",
    "pure": "pure composition: epsilons add up",
}
#: Seeded or not.
_NOISE = {
    True: "a fixed seed: NOT PRIVATE",
    False: "the operating system's cryptographic generator, as exact real-valued (continuous) noise",
}


def make_statement(
    votes: Votes,
    mechanism: Mechanism,
    price: Quote,
    terms: ReleaseTerms,
    sources: set[int],
    *,
    stated: Mapping[str, str],
    classes_named: bool = False,
    head: str | None = None,
) -> PrivacyStatement:
    """Return the statement of labels that come from the ledger's releases ``sources`` (or from no ledger).

    ``head`` is the digest of the entry that holds the labels; None takes the last entry of the releases. ``stated`` was
    checked at the door.
    """
    ledger = terms.ledger
    rows = [] if ledger is None else ledger.releases(sources)
    seeded = terms.seeded or any(row.seeded for row in rows)
    # Stored answers may be of other teachers' votes: what weakened those, weakens this.
    votes = replace(
        votes,
        classes_inferred=votes.classes_inferred or any(row.facts.get("classes_inferred") for row in rows),
        partition_seeded=votes.partition_seeded or any(row.facts.get("partition_seeded") for row in rows),
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
    statement = PrivacyStatement(
        released=released,
        unit=votes.unit,
        n_units=votes.n_units,
        guarantee=replace(guarantee, kind="seeded") if seeded else guarantee,
        mechanism=f"{noise}, {votes.n_classes} classes",
        accounting=accounting,
        noise_source=_NOISE[seeded],
        seeded=seeded,
        covered=(
            "the released labels and everything computed from them and from public data (a student model, metrics)",
        ),
        not_covered=(
            "the teachers, their votes and every file made from those",
            _others(ledger),
            *(("the set of classes, which was read off the private labels",) if votes.classes_inferred else ()),
        ),
        assumptions=make_assumptions(
            unit=votes.unit,
            classes_inferred=votes.classes_inferred,
            seeded=seeded,
            classes_named=classes_named,
            partition_seeded=votes.partition_seeded,
        ),
        # The charge is in the ledger by now: no text of the caller's may stop the labels.
        tuning=as_plain_text(terms.tuning),
        verify=verify,
        # Of the entry with the answers, not of the one with the charge: a ledger without them must not fit.
        ledger_head="" if ledger is None else head or ledger.head_of(sources),
        ledger_releases=tuple(row.id for row in rows),
        **promises(charge),
    )
    # Likewise: what was checked at the door for classes that votes then turn out to have read off has no place.
    known = {*NAMED, *(a.name for a in statement.assumptions)}
    return statement.with_stated({name: text for name, text in stated.items() if name in known})


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
    names = [type(mechanism).__name__, *(["GaussianSum"] if price.counts else [])]
    labels = f"{mechanism}.charge({price.n_queries}, {price.max_answers})"
    whole = " + ".join([labels, *(f"{count}.charge(1)" for count in price.counts)])
    whole = f"({whole})" if price.counts else whole
    return f"from pate import {', '.join(names)}; {whole}.guarantee({price.guarantee.delta!r})"
