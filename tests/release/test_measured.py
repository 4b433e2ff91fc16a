"""Measured accuracy: what is drawn is what is charged, and what is said of it is what the numbers say."""

import json
import math

import numpy as np
import pytest

from pate import Budget, BudgetExceededError, GaussianSum, InvalidInputError, Ledger, RecordVoters, open_ballot_session
from pate.privacy.noise.source import NoiseSource
from pate.records import RightFacts, SignedSpace, count_right
from pate.records.ballot_sum import GRID
from pate.release import ReleasedCounts, check_measure, measured_accuracy, measured_shares
from pate.release._measured import SHARE, USEFUL, correction, noise_half_width
from pate.release.statement.fields import ClassRecall, MeasuredAccuracy
from pate.release.statement.model import PrivacyStatement

BUDGET = Budget(1.0, 1e-5)
RNG = np.random.default_rng(0)
Y = RNG.integers(3, size=600)
X = RNG.normal(size=(600, 3)) + 3 * np.eye(3)[Y]
VOTERS = RecordVoters(None, SignedSpace().fit(RNG.normal(size=(60, 3)) + 3 * np.eye(3)[RNG.integers(3, size=60)]),
                      classes=3)  # fmt: skip


def facts(**changes):
    estimated = {"by_class": False, "classes": (0, 1), "unit": "record", "adjacency": "replace-one", "n": 9_000}
    return RightFacts(**{**estimated, **changes})


def opened(shares=(0.96, 0.04), **more):
    more = {"classes": 3, "n_units": 600, "n_measured": len(shares) - 1} | more
    return open_ballot_session(BUDGET, shares=list(shares), **more)


def asked(session, model="mine", **more):
    first = session.ask(VOTERS.cast(X, Y))
    said = np.argmax(X, axis=1)
    counts = count_right(said, Y, classes=(0, 1, 2), model=model, **more)
    return first, counts


# What is paid ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shares", [(0.96, 0.04), (0.3, 0.62, 0.04, 0.04)])
def test_all_rounds_together_are_the_budget_and_noise_is_as_charged(shares):
    session = opened(shares)
    assert session.charge.mu_squared <= BUDGET.mu_squared
    assert session.charge.guarantee(BUDGET.delta).epsilon == pytest.approx(BUDGET.epsilon, rel=1e-6)
    for share, mechanism in zip(shares, session.mechanisms, strict=True):
        assert mechanism.charge(1).mu_squared == pytest.approx(share * session.charge.mu_squared, rel=1e-9)


@pytest.mark.parametrize(("by_class", "most"), [(False, 1.0), (True, 2**0.5)])
def test_the_noise_that_is_stated_is_the_noise_that_is_charged(by_class, most):
    mechanism = GaussianSum(7.5)
    released = ReleasedCounts.of(np.zeros(4 if by_class else 1), facts(by_class=by_class), mechanism, None)
    assert released.sigma >= most / math.sqrt(mechanism.charge(1).mu_squared) * (1 - 1e-12)
    assert released.sigma == pytest.approx(7.5 * most)


def test_drawn_counts_scatter_as_they_say():
    """Statistical: mean and variance of 4,000 released counts, each within five standard errors."""
    counts = count_right(np.zeros(50, dtype=np.int64), np.zeros(50, dtype=np.int64), classes=(0, 1))
    sums = np.repeat(counts.sums, 4_000, axis=0)
    drawn = GaussianSum(3.0).sample(sums, counts.delta_squared, NoiseSource(5)) / GRID
    assert abs(drawn.mean() - 50) < 5 * 3 / math.sqrt(4_000)
    assert abs(drawn.var() / 9 - 1) < 5 * math.sqrt(2 / 4_000)


def test_a_count_is_the_last_round_and_no_more_is_drawn():
    with opened() as session:
        first, counts = asked(session)
        released = session.measure(counts)
        assert session.n_left == 0
        assert (session.measure(counts).noisy == released.noisy).all()  # the same request: nothing is drawn
        assert released.statement.guarantee == first.guarantee
        other = count_right(np.zeros(600, dtype=np.int64), Y, classes=(0, 1, 2), model="another")
        with pytest.raises(BudgetExceededError, match="all 2 rounds"):
            session.measure(other)
    assert abs(released.noisy[0] - counts.sums[0, 0] / GRID) < 6 * released.sigma
    assert "a noisy count of the records that the model is right about" in released.statement.released
    assert "public model" in {a.name for a in released.statement.assumptions}
    with pytest.raises(InvalidInputError, match="closed"):
        session.measure(counts)


def test_a_session_that_was_left_gives_the_stored_count(tmp_path):
    """Resume: the count is in the ledger before it is shown, and is given again, never drawn again."""
    path = tmp_path / "ledger.sqlite"
    fingerprint = VOTERS.cast(X, Y).registration().fingerprint
    more = {"name": "plan", "fingerprint": fingerprint}
    with opened(ledger=Ledger(path), **more) as session:
        _, counts = asked(session)
        released = session.measure(counts)
    spent = Ledger(path).remaining()
    with opened(ledger=Ledger(path), **more) as again:
        assert again.n_left == 0
        _, counts = asked(again)
        assert (again.measure(counts).noisy == released.noisy).all()
        assert "stored by release 1" in again.measure(counts).statement.released
    assert Ledger(path).remaining() == spent


def test_a_count_of_other_records_or_units_or_too_early_is_refused():
    with opened() as session:
        counts = count_right(np.zeros(600, dtype=np.int64), Y, classes=(0, 1, 2))
        with pytest.raises(InvalidInputError, match="after a round of ballots"):
            session.measure(counts)
        session.ask(VOTERS.cast(X, Y))
        for wrong, name in (
            (count_right(np.zeros(9, dtype=np.int64), Y[:9], classes=(0, 1, 2)), "n_units"),
            (count_right(np.zeros(600, dtype=np.int64), Y, classes=(0, 1, 2), groups=np.arange(600)), "unit"),
            (count_right(np.zeros(600, dtype=np.int64), Y, classes=(0, 1, 3)), "classes"),
        ):
            with pytest.raises(InvalidInputError, match=f"{name}="):
                session.measure(wrong)
        with pytest.raises(InvalidInputError, match="counts must be RightCounts"):
            session.measure(VOTERS.cast(X, Y))


def test_add_or_remove_counts_right_and_wrong():
    voters = RecordVoters(None, VOTERS.space, classes=3, adjacency="add-or-remove", nominal_n=500)
    with open_ballot_session(BUDGET, shares=[0.9, 0.1], classes=3, nominal_n=500) as session:
        session.ask(voters.cast(X, Y))
        counts = count_right(
            np.argmax(X, axis=1), Y, classes=(0, 1, 2), adjacency="add-or-remove", nominal_n=500, model="m"
        )
        released = session.measure(counts)
    estimated = measured_accuracy([released], mu=0.25, share=0.1)
    assert released.noisy.shape == (2,)
    assert released.sigma == pytest.approx(session.mechanisms[-1].noise_multiplier)
    assert estimated.n is None
    assert "600" not in json.dumps(estimated.to_dict())
    right = (np.argmax(X, axis=1) == Y).mean()
    assert abs(estimated.counted - right) < 6 * released.sigma / 600 * 1.5


# What is said of it ----------------------------------------------------------------------------------------------


def test_a_fixed_share_is_estimated_with_the_stated_variance():
    """The interval without correction holds the true share about as often as it says: noise and sampling together."""
    rng, n, sigma, right = np.random.default_rng(1), 5_000, 40.0, 0.8
    held = 0
    for _ in range(2_000):
        noisy = rng.binomial(n, right) + sigma * rng.normal()
        estimated = measured_accuracy([ReleasedCounts(facts(n=n), np.array([noisy]), sigma)], mu=1e-9, share=0.04)
        held += estimated.low <= right <= estimated.high
    assert 0.935 < held / 2_000 < 0.965


@pytest.mark.parametrize("noisy", [-500.0, 0.0, 9_000.0, 12_000.0])
def test_whatever_was_drawn_the_interval_is_within_0_and_1(noisy):
    estimated = measured_accuracy([ReleasedCounts(facts(), np.array([noisy]), 90.0)], mu=0.3, share=0.04)
    assert 0 <= estimated.low <= estimated.estimate <= estimated.high <= 1
    removed = facts(adjacency="add-or-remove")
    for cells in ([noisy, 30.0], [noisy, -noisy], [-5.0, -9.0]):
        estimated = measured_accuracy([ReleasedCounts(removed, np.array(cells), 90.0)], mu=0.3, share=0.04)
        assert 0 <= estimated.low <= estimated.estimate <= estimated.high <= 1


def test_recall_is_given_of_classes_whose_count_stands_out_of_the_noise():
    cells = ReleasedCounts(facts(by_class=True, classes=("no", "yes")), np.array([7_000.0, 60.0, 1_000.0, 40.0]), 30.0)
    count = ReleasedCounts(facts(classes=("no", "yes")), np.array([7_100.0]), 20.0)
    estimated = measured_accuracy([count, cells], mu=0.3, share=0.08)
    no, yes = estimated.by_class
    assert no.low < 7 / 8 - estimated.correction < no.high
    assert yes == ClassRecall(name="yes")
    assert str(yes) == "yes: too few to tell"


def test_the_correction_is_none_where_nothing_was_learnt_and_never_below_guessing():
    assert correction(0.8, n=1_000, n_classes=2, mu=1e-9) < 1e-6
    assert correction(1.0, n=1_000, n_classes=2, mu=1.0) == 0
    assert correction(0.2, n=300, n_classes=5, mu=9.0) == 0
    assert correction(0.9, n=300, n_classes=5, mu=9.0) <= 0.7
    assert correction(0.8, n=10_000, n_classes=2, mu=0.3) < correction(0.8, n=1_000, n_classes=2, mu=0.3)


def test_whether_it_is_measured_is_decided_by_public_numbers():
    assert measured_shares(True, n=5, mu=0.01) == (SHARE,)
    assert measured_shares(False, n=10**6, mu=1.0) == ()
    assert measured_shares("by class", n=10**6, mu=1.0) == (SHARE, SHARE)
    n = 10_000
    edge = 1.959963984540054 / (n * USEFUL * math.sqrt(SHARE))
    assert measured_shares(None, n=n, mu=edge * 1.001) == (SHARE,)
    assert measured_shares(None, n=n, mu=edge * 0.999) == ()
    assert noise_half_width(n, edge) == pytest.approx(USEFUL)
    with pytest.raises(InvalidInputError, match="measure must be"):
        check_measure("yes")


# In a statement --------------------------------------------------------------------------------------------------


def statement(**changes):
    released = {"released": "labels", "unit": "record", "n_units": 9, "mechanism": "m", "accounting": ""}
    return PrivacyStatement(**released, guarantee=GaussianSum(9.0).charge(1).guarantee(1e-5), **changes)


def estimated():
    return measured_accuracy([ReleasedCounts(facts(), np.array([8_000.0]), 18.0)], mu=0.3, share=0.04)


def test_a_statement_holds_it_and_is_read_strictly():
    s = statement(measured=estimated())
    held = json.loads(json.dumps(s.to_dict()))
    assert PrivacyStatement.from_dict(held) == s
    assert "right on 87" in s.text().replace("\n", " ")
    assert "an estimate" in s.text()
    assert "measured" not in statement().to_dict()
    for change in ({"estimate": 0.99}, {"more": 1}, {"low": 2.0}, {"by_class": "none"}, {"n": 1.5}):
        with pytest.raises(InvalidInputError):
            PrivacyStatement.from_dict({**held, "measured": {**held["measured"], **change}})
    with pytest.raises(InvalidInputError, match="must not be empty"):
        PrivacyStatement.from_dict({**held, "measured": None})


def test_a_statement_follows_its_schema():
    jsonschema = pytest.importorskip("jsonschema")
    from importlib import resources

    schema = json.loads(resources.files("pate").joinpath("_templates/statement.schema.json").read_text("utf-8"))
    cells = ReleasedCounts(facts(by_class=True), np.array([7_000.0, 60.0, 1_000.0, 40.0]), 30.0)
    count = ReleasedCounts(facts(), np.array([7_100.0]), 20.0)
    s = statement(measured=measured_accuracy([count, cells], mu=0.3, share=0.08))
    jsonschema.validate(json.loads(json.dumps(s.to_dict())), schema)


def test_it_says_what_the_issue_asked_for():
    short = {"unit": "record", "n": 9, "counted": 0.88, "correction": 0.007, "sigma": 1.0, "share": 0.04}
    one = MeasuredAccuracy(estimate=0.873, low=0.861, high=0.885, **short)
    assert str(one) == "right on 87.3% of the private records, 86.1 to 88.5 (95%)"
    with pytest.raises(InvalidInputError, match="low <= estimate <= high"):
        MeasuredAccuracy(estimate=0.873, low=0.9, high=0.95, **short)
