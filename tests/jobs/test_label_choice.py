"""Which rows a job asks about: plug-ins that see public rows and released labels only, and rounds paid for at once."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
from sklearn.svm import LinearSVC

from pate import Budget, BudgetExceededError, GNMax, InvalidInputError, Ledger, NoisyHistogram
from pate.jobs import CHOICES, LabelJob, OneRound, QueryChoice, Uncertain, make_choice
from pate.votes import ABSTAIN

RICH = {"mechanism": NoisyHistogram(0.01), "budget": Budget(1e6, 1e-4)}


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 2)).round(4)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "town": rng.choice(["Oslo", "Rome"], 700)})
    frame["ill"] = np.where(X[:, 0] + 0.3 * X[:, 1] > 0.5, "yes", "no")
    frame[:400].to_csv(tmp_path / "private.csv", index=False)
    frame[400:].drop(columns="ill").to_csv(tmp_path / "public.csv", index=False)
    return tmp_path / "private.csv", tmp_path / "public.csv"


def job(private, public, **options):
    defaults = {
        "target": "ill", "classes": ["no", "yes"], "budget": Budget(6.0, 1e-4), "teacher": "decision-tree",
        "n_teachers": 12, "n_queries": 20, "select": "uncertain", "rounds": 4,
        "partition_seed": 0, "force": True,  # a dozen teachers are quick
    }  # fmt: skip
    return LabelJob(private, public, **(defaults | options))


# The choice itself ----------------------------------------------------------------------------------------------


def test_no_choice_is_shown_anything_private():
    for kind in (OneRound, Uncertain, QueryChoice):
        names = set(inspect.signature(kind.choose).parameters) - {"self"}
        assert names == {"rows", "n_queries", "labels", "open_rows", "random_state"}


@pytest.mark.parametrize("name", CHOICES)
def test_every_choice_takes_open_rows_only(name):
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(200, 3)), np.full(200, ABSTAIN)
    labels[:40] = (rows[:40, 0] > 0).astype(int)
    open_rows = np.arange(40, 200)
    found = make_choice(name).choose(rows, 15, labels=labels, open_rows=open_rows, random_state=0)
    assert len(np.unique(found)) == len(found) <= 15
    assert np.isin(found, open_rows).all()
    again = make_choice(name).choose(rows, 15, labels=labels, open_rows=open_rows, random_state=0)
    assert np.array_equal(found, again)


def test_uncertain_asks_at_the_border():
    rng = np.random.default_rng(0)
    rows, labels = rng.uniform(-1, 1, size=(1000, 2)), np.full(1000, ABSTAIN)
    labels[:60] = (rows[:60, 0] > 0).astype(int)
    found = Uncertain().choose(rows, 20, labels=labels, open_rows=np.arange(60, 1000), random_state=0)
    assert abs(rows[found, 0]).mean() < 0.2  # 0.5 by chance


@pytest.mark.parametrize("label", [ABSTAIN, 1])
def test_uncertain_without_two_classes_clusters(label):
    rows = np.random.default_rng(0).normal(size=(100, 2))
    labels = np.full(100, ABSTAIN)
    labels[:3] = label
    arguments = {"labels": labels, "open_rows": np.arange(3, 100), "random_state": 0}
    found = Uncertain().choose(rows, 5, **arguments)
    assert np.array_equal(found, OneRound("cluster").choose(rows, 5, **arguments))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"select": "best"}, "select must be one of"),
        ({"select": "random"}, "rounds and student are for select='uncertain'"),
        ({"rounds": 1}, "rounds must be a whole number >= 2"),
        ({"student": "oracle"}, "student must be one of"),
        ({"student": LinearSVC()}, "must have predict_proba"),
    ],
)
def test_bad_choices(files, options, text):
    with pytest.raises(InvalidInputError, match=text):
        job(*files, **options)


# The job --------------------------------------------------------------------------------------------------------


def test_the_plan_prices_all_rounds(files):
    plan = job(*files, mechanism=GNMax(15.0)).plan
    assert plan.rounds == (10, 4, 3, 3)
    assert plan.quote.charge == GNMax(15.0).charge(20)
    for text in (
        "chosen by uncertain in 4 rounds of 10, 4, 3, 3, all paid for before the first",
        "12, each of 33 to 34 of the 400 records",
        "12 x decision-tree",
        "GNMax(sigma=15.0)",
        "buys ",
    ):
        assert text in plan.text()


@pytest.mark.few(1)
@pytest.mark.parametrize("with_ledger", [False, True])
@pytest.mark.parametrize("mechanism", [None, GNMax(15.0)], ids=str)
def test_rounds_are_one_charge_and_one_statement(tmp_path, files, with_ledger, mechanism):
    path = tmp_path / "l.sqlite" if with_ledger else None
    work = job(*files, ledger=path, mechanism=mechanism)
    release = work.run()
    assert release.n_queries == 20
    assert len(np.unique(work.queries_)) == 20
    assert (np.diff(work.queries_) > 0).all()
    assert release.quote == work.plan.quote
    assert release.guarantee == work.plan.quote.guarantee
    assert "adaptive" in release.statement.released
    if with_ledger:
        (row,) = Ledger(path).releases()
        assert row.charge == work.plan.quote.charge
        assert Ledger(path).verify().ok


def test_rounds_find_the_border(files):
    work = job(*files, n_queries=40, rounds=5, **RICH)
    assert work.run().n_answered == 40
    public = pd.read_csv(files[1])
    far = abs(public["a"] + 0.3 * public["b"] - 0.5)
    assert far.iloc[work.queries_].mean() < 0.8 * far.mean()


@pytest.mark.long
def test_the_same_seed_and_labels_ask_the_same_rows(files):
    a, b = (job(*files, noise_seed=3) for _ in range(2))
    a.run(), b.run()
    assert np.array_equal(a.queries_, b.queries_)
    c = job(*files, noise_seed=3, random_state=5)
    c.run()
    assert not np.array_equal(a.queries_, c.queries_)


@pytest.mark.long
def test_a_second_run_is_free_and_the_same(tmp_path, files):
    path = tmp_path / "l.sqlite"
    work = job(*files, ledger=path)
    first = work.run()
    again = job(*files, ledger=path)
    assert again.plan.quote.n_queries == 0
    assert "0 of 300 public rows asked (20 more are repeats or were answered before: free)" in str(again.plan)
    release = again.run()
    assert np.array_equal(again.queries_, work.queries_)
    assert np.array_equal(release.noisy_counts, first.noisy_counts)
    assert release.guarantee.epsilon == pytest.approx(first.guarantee.epsilon)
    assert len(Ledger(path).releases()) == 1
    with pytest.raises(BudgetExceededError):
        job(*files, ledger=path, random_state=9)


@pytest.mark.long
def test_a_crash_between_rounds_loses_nothing(tmp_path, files, monkeypatch):
    """The process dies after the second round: the next run takes up the same session and pays nothing."""
    from pate.release import LabelSession

    path, answered, ask = tmp_path / "l.sqlite", [], LabelSession.ask

    def dying(self, votes, **more):
        if len(answered) == 2:
            raise KeyboardInterrupt
        answered.append(ask(self, votes, **more))
        return answered[-1]

    with monkeypatch.context() as patch:
        patch.setattr(LabelSession, "ask", dying)
        with pytest.raises(KeyboardInterrupt):
            job(*files, ledger=path).run()
    spent = Ledger(path).spent
    work = job(*files, ledger=path)
    assert "will spend (0," in str(work.plan)
    release = work.run()
    assert release.n_queries == 20
    assert Ledger(path).spent == spent
    kept = {tuple(row) for row in release.noisy_counts}
    assert all(tuple(row) in kept for held in answered for row in held.noisy_counts)


def test_repeated_public_rows_are_asked_once(files, tmp_path):
    public = pd.read_csv(files[1])
    pd.concat([public[:10]] * 4).to_csv(tmp_path / "few.csv", index=False)
    work = job(files[0], tmp_path / "few.csv", n_queries=None, mechanism=GNMax(15.0), rounds=3)
    assert sum(work.plan.rounds) == 10
    assert work.run().n_queries == 10


def test_a_plug_in_of_ones_own(files):
    class Last:
        seen = ()

        def rounds(self, n_queries):
            return (n_queries // 2, n_queries - n_queries // 2)

        def choose(self, rows, n_queries, *, labels, open_rows, random_state):
            self.seen += ((labels != ABSTAIN).sum(),)
            labels[:] = 0  # a copy: nothing happens to the job's
            return open_rows[-n_queries:]

    choice = Last()
    work = job(*files, select=choice, rounds=None)
    assert "chosen by Last in 2 rounds" in work.plan.text()
    work.run()
    assert work.queries_.tolist() == list(range(280, 300))
    assert choice.seen == (0, 10)


@pytest.mark.parametrize("rows", [[0, 1, 2], [-1], [0.5], [300], []])
def test_a_plug_in_that_chooses_nonsense_is_stopped(files, rows):
    class Odd:
        def rounds(self, n_queries):
            return (n_queries,)

        def choose(self, *_, **__):
            return rows

    with pytest.raises(InvalidInputError, match="positions of open rows"):
        job(*files, select=Odd(), rounds=None, n_queries=2)


@pytest.mark.parametrize("rounds", [(), (1,), (3,), (0, 2), (1.0, 1.0)])
def test_a_plug_in_whose_rounds_do_not_add_up_is_stopped(files, rounds):
    class Odd(OneRound):
        def rounds(self, n_queries):
            return rounds

    with pytest.raises(InvalidInputError, match=r"in its rounds|a round of select"):
        job(*files, select=Odd(), rounds=None, n_queries=2)


def test_a_choice_needs_no_encoding_of_its_own(files):
    """Even where teachers encode inside their shards, rows are chosen by what public rows teach."""
    for select in ("spread", "cluster"):
        work = job(*files, select=select, rounds=None, preprocess="shard")
        assert len(work.plan.queries) >= 15
