"""The statement of a release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pate.ledger import Ledger, LedgerRow
from pate.mechanisms import Mechanism, NoisyHistogram
from pate.privacy.convert import format_up
from pate.privacy.words import Guarantee
from pate.release._assumptions import make_assumptions
from pate.release._kept import with_counts
from pate.release._quote import Quote
from pate.release._terms import ReleaseTerms
from pate.statement.assumptions import NAMED
from pate.statement.model import PrivacyStatement
from pate.statement.plain import as_plain_text
from pate.statement.promises import promises
from pate.votes import Votes

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
