"""Budgets per tier of teachers' votes: what one unit moves, what it is charged, and what its statement says."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.naive_bayes import GaussianNB

from pate import (
    Budget,
    BudgetExceededError,
    GNMax,
    Ledger,
    NoisyHistogram,
    PATEClassifier,
    PrivacyStatement,
    TeacherEnsemble,
    Votes,
    account,
    calibrate,
    release_labels,
)
from pate.audit import replay
from pate.exceptions import InvalidInputError, ResultWarning
from pate.ledger import Registration
from pate.privacy.tiers import WHOLE, TierBudgets
from pate.release import ReleaseTerms, quote
from pate.release._transaction import Transaction

BUDGETS = {"gold": Budget(1.0, 1e-5), "basic": Budget(0.3, 1e-5)}
TIERS = TierBudgets.of(BUDGETS)
N_QUERIES = 8
HISTOGRAM = calibrate(NoisyHistogram(1.0), TIERS.top, n_queries=N_QUERIES)


def votes_of(labels, *, n_classes=3, n_units=500, **more):
    found = Votes.from_labels(np.asarray(labels), classes=n_classes, n_units=n_units)
    return replace(found, **more)


def both(seed=0, n_queries=N_QUERIES):
    rng = np.random.default_rng(seed)
    labels = {"gold": rng.integers(3, size=(30, n_queries)), "basic": rng.integers(3, size=(60, n_queries))}
    n_units = {"gold": 400, "basic": 900}
    return {name: votes_of(held, n_units=n_units[name]) for name, held in labels.items()}


def asked_of(votes, mechanism=HISTOGRAM, budget=None):
    """The counts that noise is added to in a release."""
    seen, own = [], NoisyHistogram.sample

    def sample(self, counts, noise, *, max_answers=None):
        seen.append(np.array(counts))
        return own(self, counts, noise, max_answers=max_answers)

    with patch.object(NoisyHistogram, "sample", sample):
        release_labels(votes, mechanism, budget=budget or BUDGETS, noise_seed=1)
    return seen[0]


@given(
    st.lists(st.floats(0.05, 5.0), min_size=1, max_size=4),
    st.integers(2, 5),
    st.integers(0, 2**32 - 1),
    st.data(),
)
@settings(max_examples=20)
def test_a_unit_moves_the_counts_by_its_weight_times_the_root_of_two_and_reaches_it(epsilons, n_classes, seed, data):
    budgets = {f"t{i}": Budget(epsilon, 1e-6) for i, epsilon in enumerate(epsilons)}
    tiers, rng = TierBudgets.of(budgets), np.random.default_rng(seed)
    labels = {name: rng.integers(n_classes, size=(int(rng.integers(1, 9)), 4)) for name in tiers.names}
    name = data.draw(st.sampled_from(tiers.names))
    weight = dict(tiers.pairs)[name]
    # One unit is in one shard: one teacher of its tier votes as it likes, on every row.
    teacher = data.draw(st.integers(0, len(labels[name]) - 1))
    other = {key: held.copy() for key, held in labels.items()}
    other[name][teacher] = rng.integers(n_classes, size=4)
    mechanism = calibrate(NoisyHistogram(1.0), tiers.top, n_queries=4)
    first, second = (
        asked_of({key: votes_of(held, n_classes=n_classes) for key, held in side.items()}, mechanism, budgets)
        for side in (labels, other)
    )
    # Exact: whole numbers of 2^-16.
    moved = ((first - second) * WHOLE).astype(np.int64)
    squares = np.square(moved).sum(axis=1)
    changed = other[name][teacher] != labels[name][teacher]
    assert squares.tolist() == (2 * weight**2 * changed).tolist()


SMALL = {"gold": Budget(2.0, 1e-4), "mid": Budget(0.8, 1e-4), "basic": Budget(0.25, 1e-5)}
FEW = {"gold": [[0], [1]], "mid": [[1], [1]], "basic": [[0], [0], [1]]}


def of_two(labels):
    return {name: votes_of(held, n_classes=2) for name, held in labels.items()}


def divergences(name):
    """Brute force, one query of two classes: the hockey-stick divergence as epsilon to delta, both ways, of releases
    that differ in one unit of this tier."""
    mechanism = calibrate(NoisyHistogram(1.0), TierBudgets.of(SMALL).top, n_queries=1)
    moved = {key: [list(row) for row in held] for key, held in FEW.items()}
    moved[name][0][0] ^= 1
    at = np.linspace(-10, 12, 1201) * mechanism.sigma / 2
    laws = []
    for side in (FEW, moved):
        (means,) = asked_of(of_two(side), mechanism, SMALL)
        law = np.outer(*(np.exp(-((at - mean) ** 2) / (2 * mechanism.sigma**2)) for mean in means))
        laws.append(law / law.sum())
    return [
        lambda epsilon, p=p, q=q: np.maximum(p - math.exp(epsilon) * q, 0).sum() for p, q in (laws, laws[::-1])
    ], release_labels(of_two(FEW), mechanism, budget=SMALL).statement


@pytest.mark.parametrize("name", SMALL)
def test_what_is_released_diverges_by_no_more_than_is_charged_and_by_as_much(name):
    deltas, statement = divergences(name)
    (tier,) = (one for one in statement.tier_budgets if one.name == name)
    for delta in deltas:
        assert delta(tier.epsilon) <= tier.delta * (1 + 1e-3)
        assert delta(0.99 * tier.epsilon) > tier.delta


def test_a_planted_fault_weights_charged_and_not_counted_is_found():
    with patch.object(TierBudgets, "weigh", lambda self, counts: counts.sum(axis=0)):
        assert all(delta(SMALL["gold"].epsilon) <= SMALL["gold"].delta * (1 + 1e-3) for delta in divergences("gold")[0])
        for name in ("mid", "basic"):
            assert all(delta(SMALL[name].epsilon) > 2 * SMALL[name].delta for delta in divergences(name)[0])


def test_a_tier_costs_what_dp_accounting_says():
    statement = release_labels(both(), HISTOGRAM, budget=BUDGETS).statement
    for one in statement.tier_budgets:
        weight = dict(TIERS.pairs)[one.name]
        theirs = pld.from_gaussian_mechanism(HISTOGRAM.sigma * WHOLE / weight / math.sqrt(2))
        theirs = theirs.self_compose(N_QUERIES).get_epsilon_for_delta(one.delta)
        assert one.epsilon == pytest.approx(theirs, rel=2e-3)


def test_weights_of_one_release_what_one_ensemble_releases():
    alike = dict.fromkeys(BUDGETS, Budget(1.0, 1e-5))
    votes = both()
    whole = Votes.from_counts(sum(one.counts for one in votes.values()), n_units=1300)
    found = release_labels(votes, HISTOGRAM, budget=alike, noise_seed=3)
    plain = release_labels(whole, HISTOGRAM, budget=alike["gold"], noise_seed=3)
    assert np.array_equal(found.noisy_counts, plain.noisy_counts)
    assert found.labels.tolist() == plain.labels.tolist()
    assert found.guarantee == plain.guarantee


def test_noisy_counts_are_of_the_weighted_votes():
    votes = both(n_queries=4000)
    mechanism = calibrate(NoisyHistogram(1.0), TIERS.top, n_queries=4000)
    noise = release_labels(votes, mechanism, budget=BUDGETS, noise_seed=0).noisy_counts - sum(
        dict(TIERS.pairs)[name] / WHOLE * one.counts for name, one in votes.items()
    )
    assert abs(noise.mean()) < 5 * mechanism.sigma / math.sqrt(noise.size)
    assert noise.std() == pytest.approx(mechanism.sigma, rel=5 / math.sqrt(2 * noise.size))


def test_nine_tenths_of_the_noise_or_of_a_budget_buys_nothing():
    with pytest.raises(BudgetExceededError, match="buys 6 of these 8"):
        release_labels(both(), HISTOGRAM.scaled(0.9), budget=BUDGETS)
    with pytest.raises(BudgetExceededError):
        release_labels(both(), HISTOGRAM, budget=dict(BUDGETS, gold=Budget(0.9, 1e-5)))
    with pytest.warns(ResultWarning, match="at most 6 of the 8 public rows"):
        some = release_labels(both(), HISTOGRAM.scaled(0.9), budget=BUDGETS, on_exhausted="abstain")
    assert some.n_answered == 6
    # A smaller budget of a smaller tier is a smaller weight, not more noise.
    less = release_labels(both(), HISTOGRAM, budget=dict(BUDGETS, basic=Budget(0.27, 1e-5)))
    assert less.statement.tier_budgets[0].epsilon <= 0.27


def test_weights_above_what_a_tier_allows_are_refused_where_they_are_charged():
    heavy = replace(TIERS, weights=(TIERS.weights[0] + 9, WHOLE))
    terms, charge = ReleaseTerms(budget=TIERS.top, tiers=heavy), HISTOGRAM.charge(N_QUERIES)
    assert TIERS.top.allows(charge)
    assert replace(terms, tiers=TIERS).allows(charge)
    assert not terms.allows(charge)


def test_a_statement_promises_each_tier_its_own():
    release = release_labels(both(), HISTOGRAM, budget=BUDGETS, stated={"tiers": "by contract"})
    s = release.statement
    found = {one.name: one for one in s.tier_budgets}
    for name, budget in BUDGETS.items():
        assert 0.999 * budget.epsilon < found[name].epsilon <= budget.epsilon
    assert (found["gold"].n, found["basic"].n, s.n_units) == (400, 900, 1300)
    assert s.guarantee.epsilon == found["gold"].epsilon
    assert found["basic"].mu == pytest.approx(found["basic"].weight * s.mu, rel=1e-12)
    by = {one.name: one.by for one in s.assumptions}
    assert (by["tiers"], by["shards of one tier"]) == ("curator", "nobody")
    assert "90 teachers" in s.mechanism
    assert "weight of the tier" in s.mechanism
    assert any("in which tier" in one for one in s.not_covered)
    assert PrivacyStatement.from_dict(json.loads(json.dumps(s.to_dict()))) == s
    assert "basic: epsilon = 0.3" in str(s)
    without = release_labels(both()["gold"], HISTOGRAM, budget=BUDGETS["gold"]).statement
    assert not without.tier_budgets
    assert "tiers" not in {one.name for one in without.assumptions}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"mechanism": GNMax(1e6)}, "must be a NoisyHistogram"),
        ({"budget": BUDGETS["gold"]}, "one budget for all"),
        ({"votes": both()["gold"]}, "votes without tiers"),
        ({"votes": {"gold": both()["gold"]}}, "the same tiers"),
        ({"votes": both() | {"silver": both()["gold"]}}, "the same tiers"),
        ({"votes": both() | {"gold": both()["gold"].counts}}, "votes must be pate.Votes"),
        ({"votes": both() | {"gold": both()["gold"].take([0, 1])}}, "on the same rows"),
        ({"votes": both() | {"gold": replace(both()["gold"], n_units=None)}}, "number of units"),
        ({"votes": both() | {"gold": replace(both()["gold"], unit="group")}}, "on the same rows"),
        ({"votes": {name: replace(one, fingerprint="ab") for name, one in both().items()}}, "the same data twice"),
    ],
)
def test_bad_input_is_refused(change, match):
    said = {"votes": both(), "mechanism": HISTOGRAM, "budget": BUDGETS} | change
    with pytest.raises(InvalidInputError, match=match) as caught:
        release_labels(said["votes"], said["mechanism"], budget=said["budget"])
    assert "\n" not in str(caught.value)


def test_no_ledger_no_session_no_figure_at_given_votes(tmp_path):
    with pytest.raises(InvalidInputError, match="ledger must be None"):
        release_labels(both(), HISTOGRAM, budget=BUDGETS, ledger=Ledger(tmp_path / "l.sqlite"))
    with pytest.raises(InvalidInputError, match=r"votes must be pate\.Votes"):
        account(both(), GNMax(40.0), delta=1e-5)
    terms, data = ReleaseTerms(budget=TIERS.top, tiers=TIERS), Registration("record", (0, 1, 2), n_shards=90)
    price = quote(N_QUERIES, HISTOGRAM, budget=TIERS.top)
    with pytest.raises(InvalidInputError, match="in one release"):
        Transaction(terms, data).session(HISTOGRAM, price)
    # Votes that nobody weighed are not released on terms of tiers.
    with pytest.raises(InvalidInputError, match="for each of the tiers"):
        Transaction(terms, data).labels(HISTOGRAM, both()["gold"].counts, price)


RNG = np.random.default_rng(0)
Y = RNG.integers(2, size=1200)
X = RNG.normal(size=(1200, 2)) + 2 * Y[:, None]
X_PUBLIC = RNG.normal(size=(40, 2)) + 1
GOLD = np.arange(1200) % 3 == 0
LARGE = {"gold": Budget(8.0, 1e-5), "basic": Budget(4.0, 1e-5)}


def released_of(X, y, n_queries=40):
    votes = {}
    for name, rows, n in (("gold", GOLD, 20), ("basic", ~GOLD, 40)):
        ensemble = TeacherEnsemble(GaussianNB(), n_teachers=n, classes=[0, 1]).fit(X[rows], y[rows])
        votes[name] = ensemble.vote(X_PUBLIC[:n_queries])
    mechanism = calibrate(NoisyHistogram(1.0), LARGE["gold"], n_queries=n_queries)
    return release_labels(votes, mechanism, budget=LARGE)


def test_an_ensemble_for_each_tier_end_to_end():
    release = released_of(X, Y)
    assert (release.labels == (X_PUBLIC.sum(axis=1) > 2)).mean() > 0.8
    assert [one.n for one in release.statement.tier_budgets] == [800, 400]
    clf = PATEClassifier(budget=LARGE, classes=[0, 1], voters="shards")
    with pytest.raises(InvalidInputError, match="release_labels"):
        clf.fit(X, Y, X_public=X_PUBLIC, tiers=["gold"] * 1200)


@pytest.mark.parametrize("place", [0, 1])
def test_a_replay_finds_one_vote_that_moves_and_a_fault_of_all(place):
    other, y = X.copy(), Y.copy()
    other[place], y[place] = -9 * other[place], 1 - y[place]
    assert not replay(lambda X, y: released_of(X, y, 5), (X, Y), (other, y), random_state=0, published=True).refuted
    found = replay(
        lambda X, y: released_of(X - X.mean(axis=0), y, 5), (X, Y), (other, y), random_state=0, published=True
    )
    assert found.refuted
