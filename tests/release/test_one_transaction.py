"""Five ways to release, one transaction: the same labels and ledger rows, and no noise before the charge is taken."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
from pate_of import pate_of
from sklearn.naive_bayes import GaussianNB

from pate import (
    ABSTAIN,
    Budget,
    BudgetExceededError,
    Charge,
    ConfidentGNMax,
    GNMax,
    InvalidInputError,
    Ledger,
    NoisyHistogram,
    PATEClassifier,
    Queries,
    TeacherEnsemble,
    Votes,
    open_session,
    open_vote_cap,
    release_labels,
)
from pate.jobs import LabelJob, VoteJob
from pate.ledger import Registration
from pate.mechanisms import VoteCap
from pate.privacy.compose.calibrate import largest
from pate.privacy.noise.source import NoiseSource
from pate.privacy.publish.smooth_sensitivity import SmoothSensitivity
from pate.release import Asking, BatchPlan, Quote, ReleaseTerms, price_of
from pate.release._transaction import Transaction
from pate.release.account import account

BUDGET = Budget(3.0, 1e-5)
CONFIDENT = ConfidentGNMax(threshold=60.0, sigma_threshold=40.0, sigma=30.0)
HOW = SmoothSensitivity(order=8.0, beta=0.0125, noise_scale=4.0)
COUNTS = np.array([[n, 90 - n, 10] for n in (88, 80, 72, 64, 55, 46, 30, 10, 88)])
X = np.arange(120.0).reshape(60, 2)
Y = np.repeat([0, 1], 30)
PUBLIC = X[::5] + 0.5


def votes(rows=slice(None)):
    hashes = tuple(f"{i:02d}" for i in range(len(COUNTS)))[rows]
    return Votes.from_counts(COUNTS[rows], classes=("a", "b", "c"), n_units=1000, query_hashes=hashes)


def by_release(ledger, folder):
    return release_labels(votes(), CONFIDENT, budget=BUDGET, ledger=ledger, max_answers=4, noise_seed=5).labels


def by_session(ledger, folder):
    asked = {"n_queries": 8, "n_teachers": 100, "classes": ("a", "b", "c"), "n_units": 1000}
    with open_session(CONFIDENT, budget=BUDGET, ledger=ledger, noise_seed=5, max_answers=6, **asked) as session:
        first = session.ask(votes(slice(0, 5)))
        return np.concatenate([first.labels, session.ask(votes(slice(3, 9)), on_exhausted="abstain").labels])


def by_vote_cap(ledger, folder):
    labels = np.array([[i % 3, -1 if i % 2 else 1, 2] for i in range(60)])
    run = open_vote_cap(VoteCap(5, 20.0), n_teachers=60, classes=3, budget=BUDGET, ledger=ledger, noise_seed=5)
    return np.concatenate([run.ask(labels).labels, run.ask(labels, query_hashes=["x", "y", "z"]).labels])


def by_classifier(ledger, folder):
    clf = PATEClassifier(
        TeacherEnsemble(GaussianNB(), 20, partition_seed=1),
        budget=BUDGET,
        classes=[0, 1],
        ledger=ledger,
        noise_seed=5,
        random_state=0,
        stated={"overlap is public": "yes"},
        queries=Queries(6, gap=2.0),
        student="decision-tree",
    )
    return clf.fit(X, Y, X_public=PUBLIC).release_.labels


def tables(folder, ledger):
    frame = pd.DataFrame(X, columns=["u", "v"])
    frame.assign(ill=Y).to_csv(folder / "private.csv", index=False)
    pd.DataFrame(PUBLIC, columns=["u", "v"]).to_csv(folder / "public.csv", index=False)
    return {
        "private": folder / "private.csv", "public": folder / "public.csv", "target": "ill", "classes": [0, 1],
        "teacher": "naive-bayes", "n_teachers": 20, "budget": BUDGET, "ledger": ledger.path, "partition_seed": 1,
        "noise_seed": 5, "n_queries": 6,
    }  # fmt: skip


def by_job(ledger, folder):
    return LabelJob(**tables(folder, ledger)).run().labels


def by_rounds(ledger, folder):
    given = tables(folder, ledger)
    return LabelJob(**given, select="uncertain", rounds=2, mechanism=GNMax(8.0)).run().labels


def by_vote_job(ledger, folder):
    np.save(folder / "votes.npy", COUNTS)
    given = {"classes": ["a", "b", "c"], "budget": BUDGET, "n_units": 1000, "noise_seed": 5, "n_queries": 6}
    return VoteJob(folder / "votes.npy", ledger=ledger.path, new_ledger=ledger.total is None, **given).run().labels


def by_account(ledger, folder):
    ledger.open_total(BUDGET)
    given = {"delta": 1e-5, "pld": False, "sanitise": HOW, "ledger": ledger, "noise_seed": 5}
    return np.array([account(votes(), GNMax(40.0), **given).sanitised.epsilon])


#: Taken from the four separate functions that there were before the transaction.
GOLDEN = {
    "by_release": (
        [0, 0, 0, 0, -1, -1, -1, -1, -1],
        [
            (
                "ConfidentGNMax(threshold=60.0, sigma_threshold=40.0, sigma=30.0)",
                9,
                "labels",
                4,
                {"max_answers": 4, "n_teachers": 100},
                0.037186167,
                True,
            )
        ],
    ),
    "by_session": (
        [0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1],
        [
            (
                "ConfidentGNMax(threshold=60.0, sigma_threshold=40.0, sigma=30.0)",
                8,
                "session",
                0,
                {"adaptive": True, "max_answers": 6, "n_teachers": 100},
                0.047019813,
                True,
            )
        ],
    ),
    "by_vote_cap": (
        [2, 1, 2, 0, 1, 2],
        [("VoteCap(max_votes=5, sigma=20.0)", 5, "capped votes", 0, {"n_teachers": 60}, 0.06435, True)],
    ),
    "by_classifier": (
        [1, 0, -1, 1, -1, 0],
        [
            (
                "NoisyHistogram(sigma=4.817157041281462)",
                6,
                "labels",
                6,
                {"max_answers": 6, "n_teachers": 20, "partition_seeded": True},
                0.517129885,
                True,
            )
        ],
    ),
    "by_job": (
        [0, 0, 0, 1, 1, 1],
        [
            (
                "NoisyHistogram(sigma=4.817157041281462)",
                6,
                "labels",
                6,
                {"max_answers": 6, "n_teachers": 20, "partition_seeded": True},
                0.517129885,
                True,
            )
        ],
    ),
    "by_rounds": (
        [0, 0, 0, 0, 0, 1],
        [
            (
                "GNMax(sigma=8.0)",
                6,
                "session",
                0,
                {"adaptive": True, "max_answers": 6, "n_teachers": 20, "partition_seeded": True},
                0.430569413,
                True,
            )
        ],
    ),
    "by_vote_job": (
        [0, 0, 0, 1, 1, 0],
        [
            (
                "NoisyHistogram(sigma=4.817157041281462)",
                6,
                "labels",
                6,
                {"max_answers": 6, "n_teachers": 100},
                0.517129885,
                True,
            )
        ],
    ),
    "by_account": (
        [1.73],
        [
            (
                "sanitised epsilon of 9 queries by GNMax(sigma=40.0)",
                0,
                "sanitised value",
                0,
                {
                    "guarantee": {
                        "adaptivity": "fixed queries",
                        "adjacency": "replace-one",
                        "delta": 1e-05,
                        "directions": "both",
                        "epsilon": 1.73,
                        "kind": "seeded",
                        "method": "smooth sensitivity, beta 0.0125, noise scale 4, too low with probability "
                        "at most 1e-06 (within delta)",
                        "order": 8.0,
                    }
                },
                0.39728171,
                True,
            )
        ],
    ),
}
WAYS = {
    way.__name__: way
    for way in (
        by_release,
        by_session,
        by_vote_cap,
        by_classifier,
        by_job,
        by_rounds,
        by_vote_job,
        by_account,
    )
}  # fmt: skip


def rows_of(ledger):
    return [
        (row.mechanism, row.n_queries, row.kind, row.n_answers, row.facts, round(row.price, 9), row.seeded)
        for row in Ledger(ledger.path).releases()
    ]


@pytest.mark.few(1)
@pytest.mark.parametrize("way", WAYS)
def test_labels_and_ledger_rows_are_as_by_separate_code(tmp_path, way):
    ledger = ledger_for(way, tmp_path)
    labels = WAYS[way](ledger, tmp_path).tolist()
    assert (labels, rows_of(ledger)) == GOLDEN[way]


def ledger_for(way, folder):
    return Ledger(folder / "ledger.sqlite", currency="renyi" if way == "by_account" else None)


@pytest.mark.few(2)
@pytest.mark.parametrize("way", WAYS)
def test_no_noise_is_drawn_before_the_charge(tmp_path, monkeypatch, way):
    """The ledger is asked first, by one caller only, and all the noise comes after."""
    events = []
    record, words = Ledger.record, NoiseSource.words

    def recorded(self, *args, **kwargs):
        events.append(f"charged by {inspect.stack()[1].frame.f_globals['__name__']}")
        return record(self, *args, **kwargs)

    monkeypatch.setattr(Ledger, "record", recorded)
    monkeypatch.setattr(NoiseSource, "words", lambda self, n: (n and events.append("noise")) or words(self, n))
    WAYS[way](ledger_for(way, tmp_path), tmp_path)
    assert list(dict.fromkeys(events)) == ["charged by pate.release._transaction", "noise"]


@pytest.mark.parametrize("way", WAYS)
def test_a_charge_that_is_refused_at_the_last_moment_draws_no_noise(tmp_path, monkeypatch, way):
    """Another process spends what was left after the price was made: the transaction refuses, and nothing was drawn."""
    record, words, drawn = Ledger.record, NoiseSource.words, []

    def outrun(self, cost, **kwargs):
        tiny, left = Charge.gaussian(sensitivity=1.0, sigma=100.0), self.remaining()
        other = tiny * largest(lambda n: left.allows(tiny * n), 10**6)
        record(self, other, mechanism="another process", n_queries=0)
        return record(self, cost, **kwargs)

    ledger = ledger_for(way, tmp_path)
    ledger.open_total(BUDGET)
    monkeypatch.setattr(Ledger, "record", outrun)
    monkeypatch.setattr(NoiseSource, "words", lambda self, n: drawn.append(n) or words(self, n))
    with pytest.raises(BudgetExceededError):
        WAYS[way](ledger, tmp_path)
    assert not any(drawn)
    assert [row.mechanism for row in Ledger(ledger.path).releases()] == ["another process"]


@pytest.mark.few(3)
@pytest.mark.parametrize("seed", range(6))
def test_what_is_sampled_is_what_was_charged(tmp_path, monkeypatch, seed):
    """On random terms: the ledger's charge is that of as many queries, and of the cap, as the sampler was given."""
    rng, sampled, sample = np.random.default_rng(seed), [], ConfidentGNMax.sample

    def noted(self, counts, noise, max_answers=None):
        drawn = sample(self, counts, noise, max_answers=max_answers)
        sampled.append((len(counts), max_answers, int((drawn.status == "answered").sum())))
        return drawn

    monkeypatch.setattr(ConfidentGNMax, "sample", noted)
    ledger = Ledger(tmp_path / "ledger.sqlite", total=Budget(30.0, 1e-5))
    given = {"budget": Budget(float(rng.uniform(0.5, 4.0)), 1e-5), "ledger": ledger, "on_exhausted": "abstain"}
    given["max_answers"] = None if seed % 2 else int(rng.integers(1, 9))
    release_labels(votes(slice(0, int(rng.integers(3, 9)))), CONFIDENT, **given)
    [(n, cap, answered)] = sampled
    assert ledger.releases()[0].charge == CONFIDENT.charge(n, cap)
    assert answered <= cap
    sampled.clear()
    asked = {"n_queries": int(rng.integers(1, 15)), "n_teachers": 100, "classes": ("a", "b", "c"), "n_units": 1000}
    with open_session(CONFIDENT, **given, **asked) as session:
        for row in rng.permutation(len(COUNTS)).tolist() * 2:
            session.ask(votes(slice(row, row + 2)), on_exhausted="abstain")
    row = ledger.releases()[1]
    assert row.charge == CONFIDENT.charge(row.n_queries, row.facts["max_answers"])
    assert sum(n for n, _, _ in sampled) <= row.n_queries
    assert sum(answered for _, _, answered in sampled) <= row.facts["max_answers"]


def test_paid_queries_are_drawn_once_each():
    """The transaction itself counts: a caller that miscounts gets nothing."""
    terms = ReleaseTerms(budget=BUDGET)
    transaction = Transaction(terms, Registration("record", ("a", "b", "c"), n_shards=100))
    paid = transaction.session(GNMax(40.0), price_of(3, GNMax(40.0), terms))
    paid.draw(COUNTS[:2], lambda drawn: ())
    with pytest.raises(BudgetExceededError, match="2 queries were asked, and 1 of 3 are paid for and left"):
        paid.draw(COUNTS[:2], lambda drawn: ())
    assert paid.n_left == 1


# Plans ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["by_release", "by_session", "by_classifier", "by_job", "by_rounds", "by_vote_job"])
def test_a_release_is_priced_once(tmp_path, monkeypatch, way):
    made = []
    monkeypatch.setattr("pate.release._quote.Quote", lambda *a, **k: made.append(Quote(*a, **k)) or made[-1])
    WAYS[way](ledger_for(way, tmp_path), tmp_path)
    assert len(made) == 1


@pytest.mark.parametrize("on_exhausted", ["raise", "abstain"])
def test_a_plan_that_others_overtook_is_priced_again(tmp_path, on_exhausted):
    """Between plan and release another process spends: the planned price is no licence."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    np.save(tmp_path / "votes.npy", COUNTS)
    given = {"classes": 3, "budget": BUDGET, "ledger": ledger.path, "mechanism": GNMax(5.5), "n_queries": 9}
    work = VoteJob(tmp_path / "votes.npy", new_ledger=True, on_exhausted=on_exhausted, **given)
    assert work.plan.quote.n_queries == 9
    VoteJob(tmp_path / "votes.npy", new_ledger=True, **(given | {"n_queries": 7})).run()
    if on_exhausted == "raise":
        with pytest.raises(BudgetExceededError, match=r"buys [1-8] of these 9 queries"):
            work.run()
        assert len(ledger.releases()) == 1
        return
    release = work.run()
    row = ledger.releases()[1]
    assert 0 < release.quote.n_queries == row.n_queries == release.n_answered < 9
    assert row.charge == release.quote.charge == GNMax(5.5).charge(row.n_queries)


def test_any_object_that_votes_only_implements_voter():
    class Sites:
        classes_, n_teachers = ("a", "b", "c"), 100

        def vote(self, X):
            return Votes.from_counts(COUNTS[X[:, 0]], classes=self.classes_)

    asking = Asking(NoisyHistogram(sigma=4.0), 3, gap=25.0)
    queries = np.array([0, 4, 5])
    plan = BatchPlan.of(ReleaseTerms(budget=BUDGET, noise_seed=5), asking, queries, None)
    outcome = plan.run(Sites(), queries.reshape(-1, 1))
    assert outcome.release.labels.tolist() == [0, ABSTAIN, ABSTAIN]  # 88 of 100, and two leads under the gap
    assert outcome.release.quote is plan.quote
    assert {a.name: a.by for a in outcome.release.statement.assumptions}["own shard only"] == "nobody"


class NeverTrained(GaussianNB):
    def fit(self, X, y):
        raise AssertionError("a teacher was trained")


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"noise_seed": -1}, "noise_seed must be a whole number >= 0"),
        ({"max_answers": 0}, "max_answers must be a whole number >= 1"),
        ({"on_exhausted": "stop"}, "on_exhausted must be one of"),
        ({"ledger": "ledger.sqlite"}, "ledger must be a pate.Ledger or None"),
        ({"tuning": None}, r"tuning('\])? must be (a )?text"),
        ({"budget": 1.0}, "budget must be pate.Budget"),
    ],
)
def test_terms_are_checked_wherever_they_come_in(tmp_path, wrong, text):
    given = {"budget": BUDGET} | wrong
    said = {"n_teachers": 5, "classes": [0, 1], "student": GaussianNB(), **given}
    openers = {
        "terms": lambda: ReleaseTerms(**given),
        "release": lambda: release_labels(votes(), GNMax(40.0), **given),
        "session": lambda: open_session(GNMax(40.0), n_queries=3, n_teachers=9, classes=2, **given),
        "classifier": lambda: pate_of(NeverTrained(), **said).fit(X, Y, X_public=PUBLIC),
    }
    for name, transaction in openers.items():
        with pytest.raises(InvalidInputError, match=text):
            pytest.fail(f"{name} let {transaction()} in")
