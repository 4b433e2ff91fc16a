"""Budgets per tier from records to statement, ledger and model: each tier's own price, and no other mixed with it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from plain_space import PlainSpace

from pate import Budget, GaussianSum, Ledger, PATEClassifier, PrivacyStatement, open_ballot_session, release_ballots
from pate.audit import replay
from pate.exceptions import InvalidInputError, LedgerError, PrivacyLeakWarning
from pate.mechanisms import NoisyHistogram
from pate.privacy.tiers import WHOLE, TierBudgets
from pate.records import RecordVoters, Tiers, _maps
from pate.release import ReleaseTerms, quote
from pate.release._transaction import Transaction

BUDGETS = {"gold": Budget(1.0, 1e-5), "basic": Budget(0.3, 1e-5)}
RNG = np.random.default_rng(0)
Y = RNG.integers(2, size=900)
X = RNG.normal(size=(900, 4)) + 1.5 * Y[:, None]
X_PUBLIC = RNG.normal(size=(150, 4)) + 1.5 * RNG.integers(2, size=150)[:, None]
TIERS = np.where(np.arange(900) % 3 == 0, "gold", "basic")
VOTERS = RecordVoters(None, PlainSpace("signed", 4), classes=2)


def fit(tiers=TIERS, budget=None, **more):
    more = {"classes": [0, 1], "voters": "records", "random_state": 0, **more}
    clf = PATEClassifier(budget=BUDGETS if budget is None else budget, **more)
    return clf.fit(X, Y, X_public=X_PUBLIC, tiers=tiers)


@pytest.fixture(scope="module")
def fitted():
    return fit(measure=True)


def test_a_fit_promises_each_tier_its_own(fitted):
    s = fitted.statement_
    assert fitted.score(X, Y) > 0.8
    found = {tier.name: tier for tier in s.tier_budgets}
    for name, budget in BUDGETS.items():
        assert 0.999 * budget.epsilon < found[name].epsilon <= budget.epsilon
    assert s.guarantee.epsilon == found["gold"].epsilon
    assert [found[name].n for name in ("gold", "basic")] == [300, 600]
    assert found["basic"].mu == pytest.approx(found["basic"].weight * s.mu, rel=1e-12)
    assert {a.name: a.by for a in s.assumptions}["tiers"] == "nobody"
    assert PrivacyStatement.from_dict(json.loads(json.dumps(s.to_dict()))) == s


def test_what_is_measured_counts_by_weight(fitted):
    measured = fitted.measured_
    assert measured.low <= fitted.score(X, Y) + 0.05
    assert measured.high >= fitted.score(X, Y) - 0.05
    assert "each by the weight of its tier" in fitted.statement_.released


def test_statements_are_stored_with_a_model(fitted, tmp_path):
    fitted.save(tmp_path / "a.pate")
    assert PATEClassifier.load(tmp_path / "a.pate").statement_ == fitted.statement_


def test_a_person_states_how_tiers_came_about():
    s = fit(stated={"tiers": "by contract, signed in 2020"}).statement_
    assert {a.name: a.by for a in s.assumptions}["tiers"] == "curator"


def test_a_ledger_charges_each_tier_its_own_and_mixes_nothing(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=Budget(3.0, 1e-5))
    first = fit(ledger=ledger)
    again = fit(ledger=ledger)
    assert len(ledger.releases()) == 1
    assert again.statement_.tier_budgets == first.statement_.tier_budgets
    fit(ledger=ledger, budget={"gold": Budget(1.5, 1e-5), "basic": Budget(0.9, 1e-5)})  # the ledger's weights
    weight = dict(TierBudgets.of(BUDGETS).pairs)
    spent = sum(row.charge.mu_squared for row in ledger.releases())
    for tier in ledger.tiers():
        assert tier["spent"] == pytest.approx((weight[tier["tier"]] / WHOLE) ** 2 * spent, rel=1e-12)
        assert tier["spent"] <= tier["limit"]
    assert [tier["tier"] for tier in ledger.tiers()] == ["basic", "gold"]
    assert ledger.tiers()[1]["epsilon"] == 3.0
    assert ledger.verify().ok
    before = ledger.spent
    with pytest.raises(LedgerError, match="no tiers"):
        PATEClassifier(budget=Budget(0.3, 1e-5), classes=[0, 1], voters="records", ledger=ledger).fit(
            X, Y, X_public=X_PUBLIC
        )
    with pytest.raises(LedgerError, match="in another tier"):
        fit(np.roll(TIERS, 1), ledger=ledger, budget={"gold": Budget(0.5, 1e-5), "basic": Budget(0.2, 1e-5)})
    with pytest.raises(InvalidInputError, match="must be epsilon"):
        fit(ledger=ledger, budget={"gold": Budget(0.9, 1e-5), "basic": Budget(0.1, 1e-5)})
    with pytest.raises(LedgerError, match="no tiers"):
        ledger.pay(GaussianSum(50.0).charge(1), what="anything", kind="other")
    assert ledger.spent == before
    ledger.revise("people were added")
    assert fit(np.roll(TIERS, 1), ledger=ledger, budget={"gold": Budget(0.5, 1e-5), "basic": Budget(0.2, 1e-5)})


def test_a_ledger_that_began_without_tiers_takes_none(tmp_path):
    for i, begin in enumerate(
        (
            lambda ledger: PATEClassifier(
                budget=Budget(0.3, 1e-5), classes=[0, 1], voters="records", ledger=ledger
            ).fit(X, Y, X_public=X_PUBLIC),
            lambda ledger: ledger.pay(GaussianSum(50.0).charge(1), what="anything", kind="other"),
        )
    ):
        (tmp_path / str(i)).mkdir()
        ledger = Ledger(tmp_path / str(i) / "l.sqlite", total=Budget(3.0, 1e-5))
        begin(ledger)
        with pytest.raises(LedgerError, match="no tiers"):
            fit(ledger=ledger)
        assert len(ledger.releases()) == 1


def test_a_person_of_several_records_has_one_tier():
    groups = np.arange(900) // 3
    clf = PATEClassifier(budget=BUDGETS, classes=[0, 1], voters="records", random_state=0)
    clf.fit(X, Y, X_public=X_PUBLIC, groups=groups, tiers=np.where(groups % 4 == 0, "gold", "basic"))
    assert [(t.name, t.n) for t in clf.statement_.tier_budgets] == [("basic", 225), ("gold", 75)]
    with pytest.raises(InvalidInputError, match="one person"):
        clf.fit(X, Y, X_public=X_PUBLIC, groups=groups, tiers=TIERS)


def test_only_records_that_vote_on_public_rows_have_tiers():
    for more in ({"voters": "dpsgd"}, {"voters": "shards"}, {"voters": "heads"}):
        with pytest.raises(InvalidInputError, match="tiers must be left out where voters="):
            fit(**more)
    with pytest.raises(InvalidInputError, match="without public rows"):
        PATEClassifier(budget=BUDGETS, classes=[0, 1]).fit(X, Y, schema=(-9, 9), tiers=TIERS)
    with pytest.raises(InvalidInputError, match="one budget for all"):
        fit(budget=Budget(1.0, 1e-5))
    with pytest.raises(InvalidInputError, match="tiers must name"):
        fit(None)


def test_tiers_that_are_a_private_column_warn():
    table = pd.DataFrame(X, columns=list("abcd")).assign(contract=TIERS)
    public = pd.DataFrame(X_PUBLIC, columns=list("abcd")).assign(contract=np.resize(["gold", "basic", "basic"], 150))
    with pytest.warns(PrivacyLeakWarning, match="of the private records names the tier of each"):
        PATEClassifier(budget=BUDGETS, classes=[0, 1], voters="records").fit(
            table, Y, X_public=public, tiers=table["contract"]
        )


def test_sums_are_released_on_the_terms_of_their_own_tiers_alone():
    tiers = Tiers.of(BUDGETS, TIERS)
    sums = VOTERS.cast(X, Y, tiers=tiers)
    plain = VOTERS.cast(X, Y)
    release = release_ballots(sums, GaussianSum.for_budget(BUDGETS["gold"]), budget=BUDGETS)
    assert release.n_units == round(sums.facts.weight) < 900
    other = VOTERS.cast(X, Y, tiers=Tiers.of({**BUDGETS, "basic": Budget(0.5, 1e-5)}, TIERS))
    for wrong, budget in ((plain, BUDGETS), (sums, BUDGETS["gold"]), (other, BUDGETS)):
        with pytest.raises(InvalidInputError, match="by the weights"):
            release_ballots(wrong, GaussianSum(9.0), budget=budget)
    session = open_ballot_session(BUDGETS, shares=[1, 1], classes=2, n_units=900, tiers=sums.unit_owners.tiers)
    for wrong in (plain, other, VOTERS.cast(X, Y, tiers=Tiers.of(BUDGETS, np.roll(TIERS, 1)))):
        with pytest.raises(InvalidInputError, match="tiers"):
            session.ask(wrong)
    assert session.ask(sums).statement.tier_budgets[0].n == 600
    assert session.n_left == 1
    with pytest.raises(InvalidInputError, match="a budget for each tier"):
        open_ballot_session(BUDGETS, shares=[1], classes=2, n_units=900)


def test_nothing_but_sums_of_ballots_is_charged_by_tier():
    terms = ReleaseTerms(budget=BUDGETS["gold"], tiers=TierBudgets.of(BUDGETS))
    paying = Transaction(terms, VOTERS.cast(X, Y).registration())
    with pytest.raises(InvalidInputError, match="for each of the tiers"):
        paying.labels(NoisyHistogram(90.0), np.array([[3, 1]]), quote(1, NoisyHistogram(90.0), budget=BUDGETS["gold"]))


# The replay: two fits beside each other, one record apart ---------------------------------------------------------


def replayed(place):
    other = X.copy()
    other[place] = -other[place] * 9
    y = Y.copy()
    y[place] = 1 - y[place]
    return replay(lambda X, y: fit_of(X, y), (X, Y), (other, y), random_state=0, published=True)


def fit_of(X, y):
    clf = PATEClassifier(budget=BUDGETS, classes=[0, 1], voters="records", random_state=0)
    return clf.fit(X, y, X_public=X_PUBLIC, tiers=TIERS).release_.labels


@pytest.mark.parametrize("place", [0, 1])
def test_a_replay_finds_that_a_record_moves_no_more_than_its_tier(place):
    assert not replayed(place).refuted


def test_a_replay_finds_ballots_that_were_not_weighed(monkeypatch):
    monkeypatch.setattr(_maps, "weighed", lambda p, scales: p)
    assert replayed(1).refuted
    assert not replayed(0).refuted  # a record of full weight


def test_a_replay_finds_weights_that_are_not_the_tiers(monkeypatch):
    """What a unit may move is by its tier, not by the weights that it was given."""
    right = Tiers.of_units
    monkeypatch.setattr(Tiers, "of_units", lambda *a: replace(of := right(*a), scales=np.full_like(of.scales, WHOLE)))
    assert replayed(1).refuted
