"""The privacy statement of one private selection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pate.ledger import Ledger
from pate.privacy.words import Guarantee
from pate.selection._contestant import Contestant, StatedContestant
from pate.selection._facts import Facts
from pate.selection._price import Price
from pate.statement.model import Assumption, PrivacyStatement
from pate.statement.promises import promises

_LAWS = {
    "poisson": "Papernot and Steinke 2022, Theorem 6",
    "geometric": "Papernot and Steinke 2022, Theorem 2, eta = 1",
    "logarithmic": "Papernot and Steinke 2022, Theorem 2, eta = 0",
}


def mechanism_of(contestants: Sequence[Contestant], weights: Sequence[int], price: Price, facts: Facts) -> str:
    """Return the selection in words, alike in a statement and in a ledger."""
    how = "uniformly" if len(set(weights)) <= 1 else f"with weights {', '.join(map(str, weights))}"
    told = "; ".join(f"{c.name}: {c.words(n)}" for c, n in zip(contestants, price.noises, strict=True))
    return (
        f"private selection: the best of K runs, K {price.law.distribution} of mean {price.law.mean:g}, each of a "
        f"candidate drawn {how}, trained on {facts.n_trained:,} units and scored on {facts.n_held:,} held out, "
        f"Gaussian noise of {price.score_noise:.6g} units on the number told right; candidates: {told}"
    )


def selection_statement(
    contestants: Sequence[Contestant],
    weights: Sequence[int],
    price: Price,
    facts: Facts,
    guarantee: Guarantee,
    *,
    seeded: bool,
    created: str,
    tuning: str = "",
    inner: Sequence[Assumption] = (),
    ledger: Ledger | None = None,
    releases: Iterable[int] = (),
) -> PrivacyStatement:
    """Return what was protected, how, and at which price; a function of public numbers and of who won.

    Parameters
    ----------
    contestants, weights, price, facts
        What ran.
    guarantee : Guarantee
        Of the whole.
    seeded : bool
    created : str
        When it was charged: the end would tell how many runs there were.
    tuning : str
    inner : sequence of Assumption
        What the winner rests on.
    ledger : Ledger or None
    releases : iterable of int
    """
    releases = tuple(releases)
    chosen = (
        f"the choice among the {len(contestants)} candidates named above was made by this selection and is charged in "
        "it; nobody stated what else was tuned on the private data"
    )
    return PrivacyStatement(
        released="a classifier, the best of several private runs, its name and its noisy score, and whatever is "
        "computed from them",
        unit=facts.unit,
        n_units=facts.n_units,
        guarantee=replace(guarantee, kind="seeded") if seeded else guarantee,
        mechanism=mechanism_of(contestants, weights, price, facts),
        accounting=(
            "replace-one: the largest Renyi divergence among the candidates and the score at every order (a unit is "
            "either trained on or held out, and a run is of one candidate), then the price of the best of a random "
            f"number of runs ({_LAWS[price.law.distribution]})"
        ),
        noise_source="a fixed seed: NOT PRIVATE"
        if seeded
        else "the operating system's cryptographic generator, for the number of runs, the candidates drawn, the split, "
        "the scores and every run's own noise",
        seeded=seeded,
        covered=("every run of this selection, the losers included, and the winner's score",),
        not_covered=(
            "how long the selection took: the number of runs is secret, and the price holds while it is",
            "whether a candidate fails on the private records; it then loses",
            "scaling of the features",
        ),
        assumptions=_assumptions(contestants, facts, seeded=seeded, inner=inner),
        tuning=tuning if tuning.strip() else chosen,
        verify=_verify(contestants, price, guarantee.delta),
        ledger_head="" if ledger is None or not releases else ledger.head_of(releases),
        ledger_releases=releases,
        curve=() if seeded else promises(price.whole)["curve"],
        created=created,
    )


def _assumptions(
    contestants: Sequence[Contestant], facts: Facts, *, seeded: bool, inner: Sequence[Assumption]
) -> tuple[Assumption, ...]:
    stated = [c.name for c in contestants if isinstance(c, StatedContestant)]
    rowwise = all(c.rowwise for c in contestants)
    one = "each person is one group" if facts.grouped else "each person is one record"
    own = (
        Assumption(name="parameters", claim="the number of units and all settings of all candidates are public"),
        Assumption(name="one person", claim=one),
        Assumption(
            name="selection",
            claim="the number of runs has the law that is accounted, is not known, and only the winner got out",
            how="drawn exactly from that law before the first run; nothing of the other runs was kept",
            by="pate",
        ),
        Assumption(
            name="held-out units",
            claim="no unit was both trained on and scored",
            how="cut at random, " + ("by person" if facts.grouped else "by record"),
            by="pate",
        ),
        Assumption(
            name="scores",
            claim="what a model says of one held-out row hangs on no other row",
            how="all candidates are models that answer row by row" if rowwise else "",
            by="pate" if rowwise else "nobody",
        ),
        Assumption(
            name="candidates",
            claim="one run of every candidate costs what was computed beforehand",
            how="every run's own account was compared with it"
            if not stated
            else f"the curator states the price of {', '.join(stated)}",
            by="curator" if stated else "pate",
        ),
        Assumption(name="failures", claim="whether a candidate's training fails hangs on no single unit"),
        Assumption(
            name="losers",
            claim="the runs that lost rest on what statements of their own kind assume, as the winner's does on what "
            "follows here",
        ),
        Assumption(
            name="noise",
            claim="nobody can predict or repeat the noise and the draws",
            how="a fixed seed: the assumption does NOT hold"
            if seeded
            else "drawn from the operating system's generator",
            by="nobody" if seeded else "pate",
        ),
        Assumption(
            name="classes", claim="the set of classes is public", how="they were passed as classes=", by="curator"
        ),
    )
    known = {a.name for a in own}
    return (*own, *(a for a in inner if a.name not in known))


def _verify(contestants: Sequence[Contestant], price: Price, delta: float) -> str:
    told = "; ".join(c.verify(n) for c, n in zip(contestants, price.noises, strict=True))
    score = f"Charge.gaussian(sensitivity=1, sigma={price.score_noise!r})"
    return (
        f"the largest, at every order, of: {told}; and {score} of the score; then pate.privacy.select_best(that, "
        f"mean_runs={price.law.mean!r}, shape={price.law.shape!r}).guarantee({delta!r})"
    )
