"""Votes drawn by one public race: exact marginals, agreement, one vote a shard, and what the statement says of it."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from noise_laws import argmax_law, renyi
from scipy import stats
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from pate import (
    Budget,
    CoordinatedVoter,
    GNMax,
    Ledger,
    NoisyHistogram,
    TeacherEnsemble,
    Voter,
    open_session,
    release_labels,
)
from pate.exceptions import CuratorWarning, InvalidInputError
from pate.teachers import hash_rows, public_race
from pate.votes import hash_queries

BUDGET = Budget(50.0, 1e-5)
SKEWED = np.array([0.5, 0.3, 0.15, 0.05, 0.0])
LIKE_IT = np.array([0.4, 0.3, 0.1, 0.15, 0.05])


def rows(n):
    return np.arange(float(n)).reshape(n, 1)


def says(p):
    return lambda asked: np.tile(p, (len(asked), 1))


def voter_of(ps, **options):
    given = {"classes": range(len(ps[0])), "seed": 7, "n_retries": 0, "batch_size": 500} | options
    return CoordinatedVoter([says(p) for p in ps], **given)


# ---- the race ----


def test_the_race_is_what_the_page_says():
    """By plain Python, number by number, and as it was first published: a later version must draw the same."""
    held = hashlib.shake_256(b"pate public race\x0011\x00ab12").digest(8 * 4)
    numbers = [int.from_bytes(held[8 * i : 8 * i + 8], "little") >> 12 for i in range(4)]
    by_hand = [math.log(-math.log((k + 0.5) / 2**52)) for k in numbers]
    np.testing.assert_allclose(public_race(11, "ab12", 4), by_hand, rtol=1e-13)
    golden = [-0.2349610231349434, -3.8261138703870623, -1.511174604733674, 0.0533949127350845]
    np.testing.assert_allclose(public_race(11, "ab12", 4), golden, rtol=1e-9)
    np.testing.assert_array_equal(public_race(11, "ab12", 3), public_race(11, "ab12", 4)[:3])
    edge = [math.log(-math.log(u)) for u in (2.0**-53, (2**52 - 0.5) / 2**52)]
    assert np.isfinite(edge).all(), "no race is won or lost for good"


def test_races_are_exponential_and_independent():
    """Of every class, and of no other row, class or seed."""
    n = 4000
    times = np.exp([public_race(3, digest, 6) for digest in hash_queries(rows(n))])
    for column in times.T:
        assert stats.kstest(column, "expon").pvalue > 1e-4
    assert abs(np.corrcoef(np.log(times), rowvar=False) - np.eye(6)).max() < 5 / math.sqrt(n)
    assert abs(np.corrcoef(np.log(times[1:, 0]), np.log(times[:-1, 0]))[0, 1]) < 5 / math.sqrt(n)
    others = np.exp([public_race(4, digest, 6) for digest in hash_queries(rows(n))])
    assert abs(np.corrcoef(np.log(times[:, 0]), np.log(others[:, 0]))[0, 1]) < 5 / math.sqrt(n)
    assert stats.kstest(times[:, 0] * 1.1, "expon").pvalue < 1e-4, "a wrong scale passes"


def test_a_race_is_of_its_seed_and_its_row_alone(monkeypatch):
    """The same races are drawn whatever teachers answer, in whatever batches and threads, in whatever order of rows."""
    drawn = []

    def watched(seed, digest, n_classes):
        drawn.append((seed, digest, n_classes))
        return public_race(seed, digest, n_classes)

    monkeypatch.setattr("pate.teachers._coordinated.public_race", watched)
    asked = set()
    for ps, options in (
        ([SKEWED] * 3, {}),
        ([LIKE_IT, SKEWED], {"batch_size": 3}),
        ([SKEWED[::-1]] * 4, {"n_jobs": 4}),
    ):
        drawn.clear()
        voter_of(ps, **options).vote(rows(10))
        assert Counter(drawn) == {race: len(ps) for race in drawn}
        asked.add(frozenset(drawn))
    assert asked == {frozenset((7, digest, 5) for digest in hash_rows(rows(10)))}


# ---- what is drawn by it ----


@pytest.mark.parametrize("p", [SKEWED, LIKE_IT, np.full(5, 0.2), np.array([1.0, 0, 0, 0, 0])], ids=str)
def test_each_vote_is_drawn_from_its_own_teachers_distribution(p):
    n = 6000
    found = np.bincount(voter_of([p, LIKE_IT]).vote(rows(n)).labels[0], minlength=5)
    assert found[p == 0].sum() == 0
    if p.max() == 1:
        return
    assert stats.chisquare(found[p > 0], n * p[p > 0]).pvalue > 1e-4
    assert stats.chisquare(found, n * np.array([0.1, 0.1, 0.1, 0.1, 0.6])).pvalue < 1e-4


def agreement(p, q):
    """Probability that two teachers draw the same (Moulton and Jiang 2018)."""
    both = np.flatnonzero((p > 0) & (q > 0))
    return sum(1 / np.maximum(p / p[j], q / q[j]).sum() for j in both)


def test_two_teachers_agree_as_often_as_the_formula_says():
    n = 6000
    votes = voter_of([SKEWED, LIKE_IT, SKEWED, SKEWED[::-1]]).vote(rows(n)).labels
    assert (votes[0] == votes[2]).all()
    for other, q in ((1, LIKE_IT), (3, SKEWED[::-1])):
        expected = agreement(SKEWED, q)
        found = float((votes[0] == votes[other]).mean())
        assert found == pytest.approx(expected, abs=4.5 * math.sqrt(expected * (1 - expected) / n))
        apart = abs(SKEWED - q).sum() / 2
        assert found > (1 - apart) / (1 + apart) - 0.02


def test_a_race_for_each_teacher_would_not_do():
    """The fault that this class is there to avoid: marginals are right, and like teachers disagree."""
    n = 2000
    apart = [voter_of([SKEWED], seed=seed).vote(rows(n)).labels[0] for seed in (1, 2)]
    found = (apart[0] == apart[1]).mean()
    assert found == pytest.approx((SKEWED**2).sum(), abs=0.06)
    assert found < 0.9 < agreement(SKEWED, SKEWED)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=2, max_size=8))
def test_the_bound_is_below_the_formula(weights):
    totals = np.maximum(1, np.array(weights).sum(axis=0))
    p, q = (np.array([*weights, (0, 0)]) / totals).T
    p[-1], q[-1] = 1 - p.sum(), 1 - q.sum()  # all of it, where there was nothing else
    apart = abs(p - q).sum() / 2
    assert (1 - apart) / (1 + apart) - 1e-9 <= agreement(p, q) <= 1 - apart + 1e-9


def test_agreement_is_what_decides_against_noise():
    """250 teachers about 20 of 50 words: a wide gap, where votes drawn apart have hardly one."""
    rng = np.random.default_rng(0)
    gaps, apart = [], []
    for seed in range(21):
        ps = np.zeros((250, 50))
        ps[:, :20] = rng.dirichlet(50 * rng.dirichlet(np.ones(20)), size=250)
        for counts, into in (
            (voter_of(ps, seed=seed).vote(rows(1)).counts[0], gaps),
            (np.bincount([rng.choice(50, p=p) for p in ps], minlength=50), apart),
        ):
            first = np.sort(counts)
            into.append(first[-1] - first[-2])
    assert np.median(gaps) > 80 > 20 > np.median(apart)


# ---- one shard, one vote ----

ODD = {
    "another": lambda asked: np.tile(SKEWED[::-1], (len(asked), 1)),
    "nan": lambda asked: np.full((len(asked), 5), np.nan),
    "fails": lambda asked: 1 / 0,
    "short": lambda asked: [],
    "shared": lambda asked: asked.fill(-1.0) or np.tile(SKEWED, (len(asked), 1)),
}


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("kind", ODD)
def test_a_replaced_shard_moves_its_own_vote_alone(kind, n_jobs):
    def functions(odd):
        rng = np.random.default_rng(0)
        made = [says(p) for p in rng.dirichlet(np.ones(5), size=6)]
        return [*made[:2], ODD[kind], *made[3:]] if odd else made

    given = {"classes": range(5), "seed": 1, "n_retries": 0, "batch_size": 7, "n_jobs": n_jobs}
    before = CoordinatedVoter(functions(False), **given).vote(rows(40))
    asked = rows(40)
    voter = CoordinatedVoter(functions(True), **given)
    if kind in ("another", "shared"):
        after = voter.vote(asked)
    else:
        with pytest.warns(CuratorWarning, match="1 of 6 teachers could not vote"):
            after = voter.vote(asked)
        assert (after.labels[2] == 2).all(), "its fixed class"
    np.testing.assert_array_equal(asked, rows(40))
    np.testing.assert_array_equal(np.delete(before.labels, 2, axis=0), np.delete(after.labels, 2, axis=0))
    assert (np.abs(before.counts - after.counts).sum(axis=1) <= 2).all()
    assert before.query_hashes == after.query_hashes


@settings(max_examples=30)
@given(st.integers(0, 2**40), st.integers(1, 6), st.integers(0, 2**20))
def test_a_teacher_votes_as_it_does_alone(seed, batch_size, world):
    """To the last bit: whoever stands beside it, in whatever batches, with whatever sum of floats."""
    ps = np.random.default_rng(world).dirichlet(np.full(6, 0.3), size=4)
    together = voter_of(ps, seed=seed, batch_size=batch_size).vote(rows(9)).labels
    for i, p in enumerate(ps):
        alone = voter_of([p], seed=seed).vote(rows(9)).labels[0]
        np.testing.assert_array_equal(alone, together[i])


def test_the_first_of_equals_wins(monkeypatch):
    monkeypatch.setattr("pate.teachers._coordinated.public_race", lambda seed, digest, n: np.zeros(n))
    assert voter_of([[0.0, 0.5, 0.5]]).vote(rows(1)).labels.tolist() == [[1]]


# ---- what is refused, and fails ----


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ([0.5, 0.5], "one probability per row and class"),
        ([[0.5, 0.3, 0.2]] * 2, "one probability per row and class"),
        ([["0.5", "0.5"]] * 2, "one probability per row and class"),
        ([[0.6, 0.6]] * 2, "no probabilities"),
        ([[0.5, 0.5], [np.nan, 1.0]], "no probabilities"),
        ([[np.inf, 0.5]] * 2, "no probabilities"),
        ([[1.5, -0.5]] * 2, "no probabilities"),
        ([[0.0, 0.0]] * 2, "no probabilities"),
        ([[50.0, 50.0]] * 2, "no probabilities"),
        ([[0.5, 0.5], [1.0]], "its function raised"),
    ],
)
def test_what_are_no_probabilities_is_a_failed_call(answer, why):
    calls = []
    odd = CoordinatedVoter(
        [lambda asked: calls.append(1) or answer, says([0.5, 0.5])], classes=(0, 1), seed=0, n_retries=1, retry_wait=0
    )
    with pytest.warns(CuratorWarning, match="1 of 2 teachers") as warned:
        votes = odd.vote(rows(2))
    assert why in odd.failed_in_vote_[0]
    assert len(calls) == 2
    assert votes.labels[0].tolist() == [0, 0]
    assert not any(number in str(warned[0].message) for number in ("0.6", "1.5", "50", "nan"))


@pytest.mark.parametrize("kind", [np.float32, np.float16, int, bool])
def test_probabilities_of_any_precision(kind):
    said = np.array([[0.0, 1.0, 0.0]] if kind in (int, bool) else [[0.1, 0.2, 0.7]]).astype(kind)
    assert voter_of([said[0]]).vote(rows(3)).n_queries == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": -1}, "seed must be a whole number >= 0"),
        ({"seed": None, "checkpoint_dir": "x", "checkpoint_key": "y"}, "seed must be given with checkpoint_dir"),
        ({"classes": None}, "classes must list"),
        ({"teachers": []}, "teachers must be a list of functions or of fitted classifiers"),
        ({"teachers": [3, len]}, "teachers must be a list of functions or of fitted classifiers"),
        ({"teachers": len}, "teachers must be a list of functions or of fitted classifiers"),
        ({"teachers": [len, len]}, "once"),
        ({"teachers": [GaussianNB()] * 2}, "twice|once"),
        ({"teachers": TeacherEnsemble(RidgeClassifier(), 2)}, "must answer with probabilities"),
        ({"n_retries": -1}, "n_retries"),
    ],
)
def test_bad_settings_are_refused(change, message, tmp_path):
    given = {"teachers": [len, min], "classes": (0, 1), "seed": 0} | change
    if "checkpoint_dir" in given:
        given["checkpoint_dir"] = tmp_path / "x"
    with pytest.raises(InvalidInputError, match=message):
        CoordinatedVoter(given.pop("teachers"), **given)


# ---- caches ----


def test_an_interrupted_vote_goes_on_and_another_seed_asks_again(tmp_path):
    asked = []

    def function(name, p, batch):
        asked.append((name, len(batch)))
        if name == "b" and len(asked) == 4 and not (tmp_path / "mended").exists():
            raise ConnectionError
        return np.tile(p, (len(batch), 1))

    def voter(seed):
        functions = [partial(function, "a", SKEWED), partial(function, "b", LIKE_IT)]
        return CoordinatedVoter(
            functions, classes=range(5), seed=seed, batch_size=5, n_retries=0,
            checkpoint_dir=tmp_path / "kept", checkpoint_key="two shards",
        )  # fmt: skip

    with pytest.warns(CuratorWarning):
        voter(3).vote(rows(10))
    (tmp_path / "mended").touch()
    asked.clear()
    votes = voter(3).vote(rows(10))
    assert asked == [("b", 5)]
    np.testing.assert_array_equal(votes.labels, voter_of([SKEWED, LIKE_IT], seed=3).vote(rows(10)).labels)
    asked.clear()
    assert (voter(4).vote(rows(10)).labels != votes.labels).any()
    assert len(asked) == 4


def test_an_undrawn_seed_is_drawn_and_told():
    seeds = {CoordinatedVoter([says(SKEWED)], classes=range(5)).seed for _ in range(3)}
    assert len(seeds) == 3
    voter = CoordinatedVoter([says(SKEWED)], classes=range(5))
    again = voter_of([SKEWED], seed=voter.seed)
    np.testing.assert_array_equal(voter.vote(rows(20)).labels, again.vote(rows(20)).labels)
    assert str(voter.seed) in repr(voter)


# ---- classifiers, and ensembles of them ----


def made(n=300, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    return np.eye(3)[y] + rng.normal(size=(n, 3)), np.array(["a", "b", "c"])[y]


def test_an_ensemble_draws_by_its_teachers_probabilities():
    X, y = made()
    y = np.where((y == "a") & (np.arange(300) >= 4), "b", y)  # most shards lack the class in the middle
    y[0] = "a"
    groups = np.arange(300) // 4
    teachers = TeacherEnsemble(GaussianNB(), 5, classes=list("cab"), random_state=0).fit(X, y, groups=groups)
    voter = CoordinatedVoter(teachers, seed=2)
    assert isinstance(voter, Voter)
    public = made(60, seed=1)[0]
    votes, plain = voter.vote(public), teachers.vote(public)
    assert (votes.classes, votes.unit, votes.n_units) == (("c", "a", "b"), "group", 75)
    for name in ("fingerprint", "partition_seeded", "classes_inferred"):
        assert getattr(votes, name) == getattr(plain, name)
    for i, model in enumerate(teachers.teachers_):
        odds = np.zeros((60, 3))
        odds[:, model.classes_] = model.predict_proba(public)
        races = np.exp([public_race(2, digest, 3) for digest in hash_rows(public)])
        with np.errstate(divide="ignore"):
            np.testing.assert_array_equal(votes.labels[i], (races / odds).argmin(axis=1))
    lean = voter.vote(public, keep_labels=False)
    assert lean.labels is None
    np.testing.assert_array_equal(lean.counts, votes.counts)


def test_a_cut_that_is_known_stays_known():
    X, y = made()
    teachers = TeacherEnsemble(GaussianNB(), 5, classes=list("abc"), partition_seed=0).fit(X, y)
    assert CoordinatedVoter(teachers, seed=2).vote(X[:3]).partition_seeded


class FailsOnOutliers(GaussianNB):
    def fit(self, X, y):
        if np.abs(X).max() > 50:
            raise ValueError("did not converge")
        return super().fit(X, y)


def test_teachers_that_could_not_be_trained_vote_as_in_their_ensemble():
    X, y = made()
    X[7] = 99.0
    with pytest.warns(CuratorWarning, match="1 of 5 teachers could not be trained"):
        teachers = TeacherEnsemble(FailsOnOutliers(), 5, classes=list("abc"), random_state=0).fit(X, y)
    (failed,) = teachers.failed_
    with pytest.warns(CuratorWarning, match="1 of 5 teachers could not vote"):
        votes = CoordinatedVoter(teachers, seed=2).vote(X[:5])
    np.testing.assert_array_equal(votes.labels[failed], teachers.vote(X[:5]).labels[failed])


def test_fitted_classifiers_by_their_own_classes():
    X, y = made()
    models = [GaussianNB().fit(X[:100], y[:100]), GaussianNB().fit(X[y != "b"], y[y != "b"])]
    votes = CoordinatedVoter(
        [*models, DummyClassifier(strategy="constant", constant="c").fit(X, y)], classes=["c", "b", "a"], seed=0
    ).vote(X)
    assert (votes.labels[1] != 1).all()
    assert (votes.labels[2] == 0).all()
    assert np.bincount(votes.labels[0], minlength=3).min() > 30
    methods = CoordinatedVoter([m.predict_proba for m in models], classes=["c", "b", "a"], seed=0).vote(X)
    np.testing.assert_array_equal(methods.labels, votes.labels[:2])
    odd = CoordinatedVoter(models, classes=("a", "b"), seed=0)
    with pytest.warns(CuratorWarning, match="2 of 2 teachers"):
        odd.vote(X)
    with pytest.raises(InvalidInputError, match="once"):
        CoordinatedVoter([models[0], models[0]], classes=list("abc"), seed=0)


def test_texts():
    notes = [
        f"{text}, day {day}" for day in range(25) for text in ("no fever", "high fever", "all well", "fever, cough")
    ]
    model = make_pipeline(HashingVectorizer(n_features=2**8), LogisticRegression())
    teachers = TeacherEnsemble(model, 4, classes=(0, 1), random_state=0).fit(notes, [0, 1, 0, 1] * 25)
    votes = CoordinatedVoter(teachers, seed=0).vote(["fever, again", "all well, again"])
    assert votes.counts.sum(axis=1).tolist() == [4, 4]
    with pytest.raises(InvalidInputError, match="X holds a table"):
        CoordinatedVoter(teachers, seed=0).vote([[1.0, 2.0]])


def test_an_ensemble_brings_its_own_facts():
    X, y = made()
    teachers = TeacherEnsemble(GaussianNB(), 5, classes=list("abc"), random_state=0)
    with pytest.raises(NotFittedError):
        CoordinatedVoter(teachers)
    teachers.fit(X, y)
    for name, value in (("classes", list("abc")), ("unit", "record"), ("n_units", 300)):
        with pytest.raises(InvalidInputError, match=f"{name} is the ensemble's own"):
            CoordinatedVoter(teachers, **{name: value})


# ---- cost, ledger, statement ----


@pytest.mark.parametrize("shard", ["another", "nan", "opposite"])
def test_a_public_race_adds_nothing_to_the_cost(shard):
    """By exact laws of neighbours under many races: the race and the release together, and the release alone."""
    rng, orders = np.random.default_rng(0), np.array([1.5, 2.0, 8.0, 32.0])
    ps = rng.dirichlet(np.full(3, 2.0), size=12)
    moved = ps.copy()
    moved[4] = {"another": rng.dirichlet(np.ones(3)), "nan": [np.nan] * 3, "opposite": ps[4][::-1]}[shard]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CuratorWarning)
        p, q = (argmax_law(voter_of(some).vote(rows(200)).counts, scale=4.0) for some in (ps, moved))
    bound = GNMax(4.0).charge(1).rdp_at(orders)
    for one, other in ((p, q), (q, p)):
        each = np.array([renyi(a, b, orders) for a, b in zip(one, other, strict=True)])
        together = np.log(np.exp((orders - 1) * each).mean(axis=0)) / (orders - 1)
        alone = renyi(one.mean(axis=0), other.mean(axis=0), orders)
        assert each.max() > 0, "nothing moved"
        assert (alone <= together + 1e-12).all()
        assert (together <= each.max(axis=0) + 1e-12).all()
        assert (each <= bound).all()


def test_a_session_tells_all_its_seeds(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", total=BUDGET)
    given = {"n_teachers": 100, "classes": range(5), "budget": BUDGET, "ledger": ledger}
    with open_session(GNMax(20.0), n_queries=9, **given) as session:
        asked = [session.ask(voter_of([SKEWED] * 100, seed=seed).vote(rows(2))) for seed in (5, 6)]
        assert session.n_left == 5
    (found,) = [a for a in asked[1].statement.assumptions if a.name == "public race"]
    assert "seeds 5, 6" in found.claim


def test_the_cost_is_the_mechanisms_and_the_seed_is_told():
    votes = voter_of([SKEWED] * 100, n_units=500).vote(rows(10))
    for mechanism in (GNMax(40.0), NoisyHistogram(40.0)):
        release = release_labels(votes, mechanism, budget=BUDGET)
        assert release.guarantee == mechanism.charge(10).guarantee(1e-5)
        (found,) = [a for a in release.statement.assumptions if a.name == "public race"]
        assert "seed 7" in found.claim
        assert found.by == "pate"
    plain = voter_of([SKEWED] * 100).vote(rows(10)).take([0, 1])
    assert plain.races == (7,)
    with pytest.raises(InvalidInputError, match="unknown entry 'public race'"):
        release_labels(votes, GNMax(40.0), budget=BUDGET, stated={"public race": "seed of the lottery"})


def test_another_seed_is_another_query_to_a_ledger(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", total=BUDGET)

    def ask(seed):
        votes = voter_of([SKEWED] * 100, seed=seed).vote(rows(10))
        return release_labels(votes, GNMax(20.0), budget=BUDGET, ledger=ledger)

    first, other, again = ask(1), ask(2), ask(1)
    assert [row.n_queries for row in ledger.releases()] == [10, 10]
    assert (again.labels == first.labels).all()
    assert (other.labels != first.labels).any()
    for release, seed in ((first, 1), (other, 2), (again, 1)):
        (found,) = [a for a in release.statement.assumptions if a.name == "public race"]
        assert f"seed {seed}" in found.claim
    assert ledger.verify().ok


def test_a_statement_names_some_of_many_seeds():
    from pate.release._statement import make_assumptions

    told = make_assumptions(unit="record", classes_inferred=False, seeded=False, races=range(1, 31))
    (found,) = [a for a in told if a.name == "public race"]
    assert "seeds 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 20 more" in found.claim
