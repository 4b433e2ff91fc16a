"""Records say in the end how often the model is right: within the same budget, once, and of their own row alone."""

from dataclasses import replace

import numpy as np
import pytest

from pate import Budget, BudgetExceededError, InvalidInputError, Ledger
from pate.models.heads import LinearHead
from pate.models.recipes import RecordModel, RecordsPlan, Round, fitted_representation
from pate.records import SignedSpace
from pate.records._voters import RecordVoters
from pate.release import BallotSession, ReleaseTerms

CLASSES = ("a", "b", "c")
RNG = np.random.default_rng(3)
CODES = RNG.integers(3, size=1_500)
ROWS = RNG.normal(size=(1_500, 4)) + 2 * np.eye(4)[CODES]
X, Y, PUBLIC = ROWS[:1_200], np.array(CLASSES)[CODES[:1_200]], ROWS[1_200:]
BUDGET = Budget(1.0, 1e-5)


def plan_of(*, budget=BUDGET, ledger=None, noise_seed=None, n=1_200, **more):
    terms = ReleaseTerms(budget=budget, ledger=ledger, noise_seed=noise_seed)
    more = {"classes": CLASSES, "n_units": n, "unit": "record"} | more
    return RecordsPlan.of(terms, PUBLIC, representation=fitted_representation("table", PUBLIC), **more)


@pytest.mark.long
@pytest.mark.parametrize("measure", [True, "by class"])
def test_measuring_is_paid_for_within_the_budget_and_close_to_the_truth(measure):
    plan = plan_of(measure=measure)
    labels, model = plan.run(X, Y)
    measured, count = labels.statement.measured, plan.mechanisms[len(plan.recipe.rounds)]
    assert labels.charge.mu_squared <= BUDGET.mu_squared
    assert labels.statement.guarantee.epsilon == pytest.approx(1.0, rel=1e-6)
    assert count.charge(1).mu_squared == pytest.approx(0.04 * labels.charge.mu_squared, rel=1e-6)
    assert measured.sigma == pytest.approx(count.noise_multiplier)
    right = (np.array(CLASSES)[model.predict(X)] == Y).mean()
    assert abs(measured.counted - right) < 6 * measured.sigma / 1_200 + 0.01
    assert len(measured.by_class) == (3 if measure == "by class" else 0)
    by = {a.name: a.by for a in labels.statement.assumptions}
    assert by["own row only"] == by["public model"] == "pate"


def test_without_it_nothing_is_taken_off_and_small_data_are_not_measured():
    assert plan_of(measure=False).shares == [r.share for r in plan_of(measure=False).recipe.rounds]
    few = plan_of(n=300)
    assert few.measured_shares == ()
    assert few.shares == [r.share for r in few.recipe.rounds]
    assert plan_of(measure=True, n=300).measured_shares == (0.04,)
    names = {plan_of(measure=m).name for m in (False, True, "by class")}
    assert len(names) == 3


@pytest.mark.long
def test_a_run_killed_before_it_returned_gives_the_stored_count(tmp_path, monkeypatch):
    """The count is stored, then the run dies; the same run again shows that very count, and spends nothing."""
    ledger, shown = Ledger(tmp_path / "l.sqlite"), []
    measure = BallotSession.measure

    def dies(self, counts):
        shown.append(measure(self, counts).noisy)
        raise KeyboardInterrupt

    monkeypatch.setattr(BallotSession, "measure", dies)
    with pytest.raises(KeyboardInterrupt):
        plan_of(ledger=ledger, measure=True).run(X, Y)
    spent = ledger.remaining()
    monkeypatch.setattr(BallotSession, "measure", measure)
    for _ in range(2):
        measured = plan_of(ledger=Ledger(ledger.path), measure=True).run(X, Y)[0].statement.measured
        assert measured.counted == shown[0][0] / 1_200
    assert ledger.remaining() == spent
    assert len(shown) == 1


def test_no_record_changes_the_answer_about_another():
    """Every other record's answer is the same to the last bit, also where rows change places."""
    voters = RecordVoters(None, SignedSpace().fit(PUBLIC), classes=CLASSES)
    model = RecordModel(voters, LinearHead.of(RNG.normal(size=(voters.space.n_components_, 3)), CLASSES))
    whole = model.answers(X)
    for i in (0, 7, 1_023, 1_024, 1_199):
        other = X.copy()
        other[i] = [1e9, np.nan, -5, 0]
        changed = model.answers(other)
        assert changed[i] in (-1, 0, 1, 2)
        assert (np.delete(changed, i) == np.delete(whole, i)).all()
    order = np.random.default_rng(0).permutation(1_200)
    assert model.own(unit="group")
    assert (model.answers(X[order]) == whole[order]).all()
    assert (model.answers(X[1:]) == whole[1:]).all()


def test_held_records_are_asked_as_their_rows_are():
    plan = plan_of(measure=True)
    voters = plan.voters
    model = RecordModel(voters, LinearHead.of(RNG.normal(size=(plan.phi.shape[1], 3)), CLASSES))
    held = voters.hold(X, Y)
    assert model.takes_held(held, voters)
    assert (model.answers(held) == model.answers(X)).mean() > 0.999
    assert not model.takes_held(voters.hold(X, Y, groups=np.arange(1_200) // 2), voters)


@pytest.mark.long
def test_records_that_cannot_be_used_refuse_nothing():
    odd, labels = X.astype(object).copy(), Y.astype(object).copy()
    odd[0, 0], odd[1, 2], labels[2], labels[3] = None, {}, None, "z"
    with pytest.warns(UserWarning, match="cannot be used"):
        measured = plan_of(measure=True).run(odd, labels)[0].statement.measured
    assert measured.n == 1_200
    with pytest.warns(UserWarning, match="NO RECORD IS LEFT"):
        measured = plan_of(measure=True).run(X, np.full(1_200, "z"))[0].statement.measured
    assert abs(measured.counted) < 6 * measured.sigma / 1_200


@pytest.mark.long
def test_persons_count_as_one_each():
    groups = np.repeat(np.arange(400), 3)
    plan = plan_of(n=400, unit="group", budget=Budget(3.0, 1e-5), measure=True)
    labels, model = plan.run(X, Y, groups=groups)
    measured = labels.statement.measured
    assert (measured.unit, measured.n) == ("group", 400)
    right = (np.array(CLASSES)[model.predict(X)] == Y).reshape(400, 3).mean(axis=1).mean()
    assert abs(measured.counted - right) < 6 * measured.sigma / 400 + 0.01
    assert {a.name: a.by for a in labels.statement.assumptions}["own row only"] == "pate"


def test_a_word_that_is_none_of_those_there_are_is_refused():
    with pytest.raises(InvalidInputError, match="measure must be None, True, False or 'by class', got 'yes'"):
        plan_of(measure="yes")


@pytest.mark.long
def test_counts_of_another_model_are_not_given_for_this_one(tmp_path):
    """One round, one name in the ledger: a student that learns from it is another model."""
    recipe = replace(plan_of().recipe, rounds=(Round(1.0),), prior_scale=1.0)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    plan_of(measure=True, recipe=recipe, ledger=ledger).run(X, Y)
    with pytest.raises(BudgetExceededError):
        plan_of(measure=True, recipe=replace(recipe, student="ridge"), ledger=ledger).run(X, Y)


@pytest.mark.long
def test_the_last_statement_alone_is_bound(tmp_path):
    """A round's own says nothing of the measured accuracy, nor of doubts."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    labels, _ = plan_of(measure=True, ledger=ledger).run(X, Y)
    round_alone = labels.rounds[-1].statement
    assert round_alone.measured is None
    (found,) = ledger.verify(files=[round_alone.to_dict()]).files
    assert found.status == "unknown"
