"""Counts of right answers beside teachers' labels: charged with them, drawn once, and stated."""

import json
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

from pate import (
    Budget,
    BudgetExceededError,
    ConfidentGNMax,
    GaussianSum,
    GNMax,
    InvalidInputError,
    Ledger,
    LNMax,
    NoisyHistogram,
    Votes,
)
from pate.data import records_fingerprint
from pate.exceptions import LedgerError
from pate.ledger import Registration
from pate.records import count_right
from pate.release import (
    Asking,
    BatchPlan,
    Evidence,
    LabelRelease,
    ReleaseTerms,
    opened,
    plan_release,
)
from pate.release._ballot_session import PaidCounts, message_of_counts
from pate.release._transaction import PaidBallots

BUDGET = Budget(2.0, 1e-5)
N, N_QUERIES, N_TEACHERS = 5_000, 20, 100
RNG = np.random.default_rng(0)
LABELS = RNG.integers(2, size=N)
SAID = np.where(RNG.random(N) < 0.8, LABELS, 1 - LABELS)  # what a model answers: right about four in five
HASHES = tuple(f"{i:02x}" * 32 for i in range(N_QUERIES))
COUNTS = np.array([[90, 10], [15, 85]] * (N_QUERIES // 2))
FINGERPRINT = records_fingerprint(LABELS, None)
MECHANISMS = [None, GNMax(30.0), LNMax(40.0), ConfidentGNMax(60.0, 40.0, 25.0), NoisyHistogram(60.0)]


class Voter:
    classes_, n_teachers = (0, 1), N_TEACHERS

    def vote(self, X):
        votes = Votes.from_counts(COUNTS[: len(X)], classes=(0, 1), unit="record", n_units=N)
        return replace(votes, fingerprint=FINGERPRINT)


def plan_of(mechanism=None, *, measure=True, ledger=None, budget=BUDGET, hashes=HASHES, n=N_QUERIES, **more):
    asking = plan_release(
        budget, N_QUERIES, n_teachers=N_TEACHERS, mechanism=mechanism, n_queries=n, measure=measure, n_units=N,
        force=True,
    )  # fmt: skip
    terms = ReleaseTerms(budget=budget, ledger=ledger, **more)
    return BatchPlan.of(terms, asking, np.arange(n), None if hashes is None else hashes[:n])


def run(plan):
    return plan.run(Voter(), np.zeros((len(plan.queries), 1)), Evidence())


def right(model="m", said=SAID, **more):
    return count_right(said, LABELS, classes=(0, 1), model=model, own=True, **more)


def statement_of(outcome, counts):
    return message_of_counts(outcome.release.statement, counts, outcome.counts)


# What is charged ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("measure", [True, "by class"])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_labels_and_counts_are_one_charge_within_the_budget_and_the_statement_says_so(tmp_path, mechanism, measure):
    """Golden by recomputation: plan, quote, ledger and statement name one charge, which the recipe computes again."""
    ledger = Ledger(tmp_path / "l.sqlite")
    plan = plan_of(mechanism, measure=measure, ledger=ledger)
    outcome = run(plan)
    (row,) = ledger.releases()
    own = plan.asking.mechanism.charge(plan.quote.n_queries, plan.quote.max_answers)
    counted = [GaussianSum(value).charge(1) for value in row.facts["right_counts"]]
    assert len(counted) == (2 if measure == "by class" else 1)
    assert row.charge.mu_squared == pytest.approx(own.mu_squared + sum(c.mu_squared for c in counted), rel=1e-12)
    assert row.charge == plan.quote.charge
    assert row.charge.guarantee(1e-5) == plan.quote.guarantee == outcome.release.statement.guarantee
    assert BUDGET.allows(row.charge)
    assert all(c.mu_squared == pytest.approx(0.04 * BUDGET.mu_squared, rel=1e-6) for c in counted)
    statement = statement_of(outcome, [outcome.counts.release(right())])
    assert "GaussianSum" in statement.mechanism
    imported, formula = statement.verify.split("; ", 1)
    names = {}
    exec(imported, names)
    assert eval(formula, names) == statement.guarantee


def test_calibrated_labels_and_counts_are_the_whole_budget():
    plan = plan_of()
    assert plan.quote.charge.mu_squared == pytest.approx(BUDGET.mu_squared, rel=1e-8)
    assert plan.quote.charge.mu_squared <= BUDGET.mu_squared
    assert plan_of(measure=False).quote.charge.mu_squared == pytest.approx(BUDGET.mu_squared, rel=1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_asked_is_within_the_budget_or_refused(seed):
    """Property: budgets, mechanisms, caps and ways of measuring drawn at random."""
    rng = np.random.default_rng(seed)
    budget = Budget(float(10 ** rng.uniform(-1, 1.5)), float(10 ** rng.uniform(-9, -4)))
    sigma = float(10 ** rng.uniform(0.5, 2.5))
    mechanism = [None, GNMax(sigma), LNMax(sigma), ConfidentGNMax(60.0, 2 * sigma, sigma)][seed % 4]
    more = {"max_answers": int(rng.integers(1, 20)), "on_exhausted": ["raise", "abstain"][seed % 2]}
    try:
        plan = plan_of(mechanism, measure=[True, "by class"][seed % 2], budget=budget, **more)
    except BudgetExceededError:
        return
    assert plan.quote.counts == plan.asking.counts
    assert budget.allows(plan.quote.charge)
    assert run(plan).release.n_answered <= plan.quote.max_answers


def test_the_cap_on_answers_is_what_the_rest_of_the_budget_buys():
    """Labels that may be refused stop where budget less counts is gone, whatever the votes are."""
    mechanism, tight = ConfidentGNMax(0.0, 400.0, 14.0), Budget(1.5, 1e-5)
    alone, beside = (plan_of(mechanism, measure=m, budget=tight) for m in (False, "by class"))
    assert 0 < beside.quote.max_answers < alone.quote.max_answers < N_QUERIES
    assert not tight.allows(beside.terms.with_counts(mechanism.charge(N_QUERIES, beside.quote.max_answers + 1)))
    assert run(beside).release.n_answered <= beside.quote.max_answers


# What is drawn -----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_count_has_the_stated_law_and_its_interval_holds_as_often():
    """Statistical: 1,500 counts of samples of one law; their noise within five standard errors, coverage near 95%.

    Not quite 95: nothing was learnt from these samples, and the correction takes something off all the same.
    """
    outcome = run(plan_of(hashes=None))
    rng, held, noise = np.random.default_rng(1), 0, []
    for seed in range(1_500):
        paid = PaidBallots(outcome.counts.mechanisms, _noise(seed), None, None)
        counts = PaidCounts(paid, ReleaseTerms(budget=BUDGET), Registration("record", (0, 1), n_units=N))
        n_right = int(rng.binomial(N, 0.8))
        said = np.where(np.arange(N) < n_right, LABELS, 1 - LABELS)
        found = counts.release(right(said=said))
        noise.append((float(found.noisy[0]) - n_right) / found.sigma)
        measured = message_of_counts(outcome.release.statement, [found], counts).measured
        held += measured.low <= 0.8 <= measured.high
    assert abs(np.mean(noise)) < 5 / math.sqrt(1_500)
    assert abs(np.var(noise) - 1) < 5 * math.sqrt(2 / 1_500)
    assert found.sigma == pytest.approx(1 / math.sqrt(0.04 * BUDGET.mu_squared), rel=1e-6)
    assert 0.91 < held / 1_500 < 0.97


def _noise(seed):
    from pate.privacy.noise.source import NoiseSource

    return NoiseSource(seed)


def test_a_count_is_drawn_once_and_of_one_model():
    outcome = run(plan_of(measure="by class", hashes=None))
    counts = outcome.counts
    first = counts.release(right())
    assert counts.release(right()).noisy == first.noisy
    assert counts.release(right("another")) is None
    cells = counts.release(right(by_class=True))
    assert cells.noisy.shape == (4,)
    assert counts.release(right("another", by_class=True)) is None
    with pytest.raises(InvalidInputError, match="cannot be copied"):
        pickle.dumps(counts)
    statement = statement_of(outcome, [first, cells])
    assert len(statement.measured.by_class) == 2
    assert statement.measured.share == pytest.approx(0.08, rel=1e-6)
    assert {a.name: a.by for a in statement.assumptions}["own row only"] == "pate"


def test_cells_are_no_second_count_of_another_model():
    counts = run(plan_of(measure="by class", hashes=None)).counts
    assert counts.release(right()) is not None
    assert counts.release(right("another")) is None  # though noise for cells is paid for


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"groups": np.arange(N) // 2}, "unit"),
        ({"classes": (0, 1, 2)}, "classes"),
        ({"labels": 1 - LABELS}, "fingerprint"),
        ({"labels": LABELS[:9], "answers": SAID[:9]}, "n_units"),
    ],
)
def test_counts_of_other_records_are_refused(wrong, name):
    given = {"answers": SAID, "labels": LABELS, "classes": (0, 1)} | wrong
    with pytest.raises(InvalidInputError, match=f"another {name}"):
        run(plan_of(hashes=None)).counts.release(count_right(given.pop("answers"), given.pop("labels"), **given))


# With a ledger -----------------------------------------------------------------------------------------------------


def test_a_run_that_was_cut_off_draws_the_count_once_whenever_that_was(tmp_path, monkeypatch):
    """Resume: before the count it is drawn by the next run; after it, it is given again; never for another charge."""
    path = tmp_path / "l.sqlite"
    run(plan_of(ledger=Ledger(path)))  # killed: labels are stored, and the count is paid for
    spent = Ledger(path).remaining()
    second = run(plan_of(ledger=Ledger(path)))
    assert (second.release.quote.n_queries, second.release.quote.counts) == (0, ())
    first = second.counts.release(right())
    statement = statement_of(second, [first])
    assert statement.ledger_head == Ledger(path).head
    for _ in range(2):
        again = run(plan_of(ledger=Ledger(path)))
        assert again.counts.release(right()).noisy == first.noisy
        assert again.counts.release(right("another")) is None
        assert "stored in the ledger by an earlier run" in statement_of(again, [first]).released
        assert again.release.statement.guarantee == second.release.statement.guarantee == statement.guarantee
    ledger = Ledger(path)
    assert ledger.remaining() == spent
    assert ledger.n_answers(1) == N_QUERIES + 1
    assert ledger.verify().ok


def test_of_two_runs_side_by_side_one_draws(tmp_path):
    path = tmp_path / "l.sqlite"
    run(plan_of(ledger=Ledger(path)))
    one, other = (run(plan_of(ledger=Ledger(path))) for _ in range(2))
    found = one.counts.release(right())
    with pytest.raises(LedgerError, match="another process goes on"):
        other.counts.release(right("another"))
    assert other.counts.release(right()).noisy == found.noisy  # the stored one
    assert Ledger(path).n_answers(1) == N_QUERIES + 1


def test_a_count_read_between_is_found_out(tmp_path, monkeypatch):
    """Between reading the number of answers and of counts, another process may draw one: the ledger refuses ours."""
    path, seen = tmp_path / "l.sqlite", []
    run(plan_of(ledger=Ledger(path)))
    other = run(plan_of(ledger=Ledger(path)))
    n_answers = Ledger.n_answers

    def then_another_draws(self, release):
        found = n_answers(self, release)
        if not seen:
            seen.append(other.counts.release(right()))
        return found

    monkeypatch.setattr(Ledger, "n_answers", then_another_draws)
    late = run(plan_of(ledger=Ledger(path)))
    monkeypatch.undo()
    assert late.counts.release(right()).noisy == seen[0].noisy
    assert late.counts.release(right("another")) is None


def test_the_ledger_holds_no_more_counts_than_were_paid_for(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite")
    run(plan_of(ledger=ledger)).counts.release(right())
    with pytest.raises(LedgerError, match="were not paid for"):
        ledger.add_answers(1, [("ab" * 32, "gaussian-sum", -1, [1.0])])


def test_a_count_that_could_not_be_stored_is_not_shown(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "l.sqlite")
    counts = run(plan_of(ledger=ledger)).counts

    def fails(*arguments, **options):
        raise LedgerError("disk full")

    monkeypatch.setattr(Ledger, "add_answers", fails)
    with pytest.raises(LedgerError, match="disk full"):
        counts.release(right())
    monkeypatch.undo()
    assert counts.release(right()) is None  # used up here; another process may draw what was not shown
    assert run(plan_of(ledger=Ledger(ledger.path))).counts.release(right()) is not None


def test_a_count_for_stored_labels_is_bought_on_request(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=Budget(3.0, 1e-5))
    run(plan_of(GNMax(60.0), measure=False, ledger=ledger))
    plan = plan_of(GNMax(60.0), measure=True, ledger=ledger)
    assert (plan.n_fresh, plan.quote.n_queries, len(plan.quote.counts)) == (0, 0, 1)
    assert not plan.quote.is_free
    outcome = run(plan)
    rows = ledger.releases()
    assert [row.n_queries for row in rows] == [N_QUERIES, 0]
    assert rows[1].charge.mu_squared == pytest.approx(0.04 * BUDGET.mu_squared, rel=1e-6)
    assert outcome.release.statement.ledger_releases == (1, 2)
    assert outcome.release.statement.guarantee.epsilon == 3.0  # of the ledger: chosen after the labels were seen
    first = outcome.counts.release(right())
    again = run(plan_of(GNMax(60.0), measure=True, ledger=ledger))
    assert again.counts.release(right()).noisy == first.noisy
    assert len(ledger.releases()) == 2


def test_a_ledger_with_little_left_buys_labels_or_says_what_it_lacks(tmp_path):
    """By default: no count where not all labels are bought beside it, nor for labels that are free."""
    ledger = Ledger(tmp_path / "l.sqlite", total=BUDGET)
    most = Budget(1.98, 1e-5)
    run(plan_of(ledger=ledger, n=4, budget=most))
    rest = plan_of(measure=None, ledger=ledger, budget=most, n=4)
    assert rest.quote.is_free
    assert rest.terms.counts  # as it was paid for
    alone = plan_of(measure=None, ledger=ledger, n=4)
    assert (alone.terms.counts, alone.quote.is_free) == ((), True)
    with pytest.raises(BudgetExceededError, match="does not buy the count of right answers"):
        plan_of(ledger=ledger, n=4)
    more = plan_of(NoisyHistogram(60.0), measure=False, ledger=ledger, on_exhausted="abstain")
    assert 0 < more.quote.n_queries < N_QUERIES - 4
    with pytest.raises(BudgetExceededError, match="and a label besides"):
        plan_of(NoisyHistogram(60.0), measure=True, ledger=ledger, on_exhausted="abstain")


def test_what_is_measured_by_default():
    assert plan_of(measure=None).quote.counts
    assert not plan_of(GNMax(30.0), measure=None).quote.counts  # its noise was named
    assert not plan_release(BUDGET, 20, n_teachers=9, measure=None, n_units=50).counts
    assert plan_release(BUDGET, 20, n_teachers=9, measure=True, n_units=50, force=True).counts


# Sessions ----------------------------------------------------------------------------------------------------------


def session_of(ledger, n=N_QUERIES):
    terms = ReleaseTerms(budget=BUDGET, ledger=ledger, counts=(GaussianSum(9.0),))
    data = Registration("record", (0, 1), n_units=N, n_shards=N_TEACHERS, fingerprint=FINGERPRINT)
    name = None if ledger is None else "mine"
    return opened(NoisyHistogram(60.0), terms, data, (0, 1), n_queries=n, name=name)


def votes(*places):
    found = Votes.from_counts(COUNTS[list(places)], classes=(0, 1), unit="record", n_units=N)
    return replace(found, fingerprint=FINGERPRINT, query_hashes=tuple(HASHES[i] for i in places))


def test_a_session_pays_for_its_count_and_a_count_is_no_question(tmp_path):
    path = tmp_path / "l.sqlite"
    with session_of(Ledger(path)) as session:
        release = session.ask(votes(0, 1, 2))
        first = session.counts().release(right())
        assert session.n_left == N_QUERIES - 3
        assert session.counts().release(right()).noisy == first.noisy
        assert session.ask(votes(3)).labels.shape == (1,)
    (row,) = Ledger(path).releases()
    assert row.charge == session.quote.charge == NoisyHistogram(60.0).charge(N_QUERIES) + GaussianSum(9.0).charge(1)
    assert release.statement.guarantee == row.charge.guarantee(1e-5)
    assert isinstance(release, LabelRelease)
    assert release.counts == (GaussianSum(9.0),)
    with session_of(Ledger(path)) as again:
        assert again.n_left == N_QUERIES - 4
        again.ask(votes(*range(N_QUERIES)))
        assert again.n_left == 0
        assert again.counts().release(right()).noisy == first.noisy
        assert again.counts().release(right("another")) is None
    assert Ledger(path).n_answers(1) == N_QUERIES + 1
    assert len(Ledger(path).releases()) == 1
    assert Ledger(path).verify().ok


def test_a_session_without_counts_has_none():
    data = Registration("record", (0, 1), n_units=N, n_shards=N_TEACHERS)
    with opened(GNMax(60.0), ReleaseTerms(budget=BUDGET), data, (0, 1), n_queries=3) as session:
        assert session.counts() is None


def test_what_is_public_of_a_count_is_what_the_ledger_holds(tmp_path):
    """No number of the records but the noisy one: neither in the ledger's facts, nor in a plan."""
    ledger = Ledger(tmp_path / "l.sqlite")
    counts = run(plan_of(ledger=ledger)).counts
    counts.release(right())
    held = ledger.releases()[0].facts
    assert set(held["round 1"]["right"]) == {"by_class", "classes", "unit", "adjacency", "n", "model", "own"}
    assert json.dumps(held).count(str(int(right().sums[0, 0]))) == 0
    assert Asking(GNMax(1.0), 3).counts == ()
