"""Candidates that leave their settings to a recipe: planned once, of public facts, before anything is priced."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from pate import Budget, DPSGDClassifier, Ledger, private_select
from pate.dpsgd import SampledGaussian
from pate.dpsgd.recipes import RecipePlan
from pate.estimators.selection._by_dpsgd import DPSGDContestant, MappingOnce
from pate.estimators.selection._contestant import Facts
from pate.estimators.selection._statement import share_of
from pate.exceptions import InvalidInputError
from pate.privacy.compose.repetitions import Repetitions
from pate.representations import TextMap

BUDGET = Budget(8.0, 1e-4)
DIGITS = load_digits(return_X_y=True)
PUBLIC = DIGITS[0][:300] / 16
X, Y = DIGITS[0][300:1100] / 16, DIGITS[1][300:1100]


def select(candidates, rows=X, labels=Y, **settings):
    said = {"budget": BUDGET, "classes": range(10), "mean_runs": 2, "distribution": "geometric", "X_public": PUBLIC}
    return private_select(candidates, rows, labels, **said | settings)


@pytest.mark.long
def test_the_planner_chooses_by_public_facts_and_one_runs_share(monkeypatch):
    made = []
    real = RecipePlan.of.__func__

    def counted(cls, *args, **kwargs):
        made.append(kwargs)
        return real(cls, *args, **kwargs)

    monkeypatch.setattr(RecipePlan, "of", classmethod(counted))
    found = select({"default": DPSGDClassifier(budget=BUDGET), "slow": DPSGDClassifier(budget=BUDGET, epochs=2)})
    assert len(made) == 2, "a plan for each candidate, and none in a run"
    share = share_of(Repetitions("geometric", 2.0), BUDGET)
    assert [(m["n_units"], m["n_classes"], m["budget"]) for m in made] == [(640, 10, share)] * 2
    winner = found.winner
    assert winner.recipe_.name == "tabular-kernel"
    assert winner.sample_rate_ == winner.recipe_.expected_batch_size / 640
    assert winner.n_steps_ == {"default": winner.recipe_.epochs, "slow": 2}[found.name]
    assert found.guarantee.epsilon <= BUDGET.epsilon
    assert found.statement.guarantee == found.guarantee
    assert "recipe 'tabular-kernel' of public facts" in found.statement.mechanism
    assert {a.name: a.by for a in found.statement.assumptions}["public rows"] != "pate"


@pytest.mark.long
def test_the_winner_takes_rows_as_they_were_given_and_keeps_none_of_them():
    found = select({"default": DPSGDClassifier(budget=BUDGET)})
    assert found.winner.score(DIGITS[0][1100:] / 16, DIGITS[1][1100:]) > 0.6
    assert type(found.winner._method) is RecipePlan
    again = found.winner.fit(X, Y, X_public=PUBLIC)  # its own settings: what was open is planned by the whole budget
    assert again.guarantee_.epsilon > 0.98 * BUDGET.epsilon


@pytest.mark.long
def test_no_private_value_moves_the_plan_or_the_price():
    facts = {"classes": tuple(range(10)), "unit": "record", "n_units": 800, "n_held": 160, "budget": BUDGET}
    contestant = DPSGDContestant(
        "a", DPSGDClassifier(budget=BUDGET), Facts(**facts, X_public=PUBLIC, row_shape=X.shape[1:])
    )
    before = contestant.words(3.0), contestant.charge(3.0).rdp
    for rows in (X, 5 - 7 * X):
        contestant.fit(contestant.made(3.0, 0), rows[:640], Y[:640], None)
        assert (contestant.words(3.0), contestant.charge(3.0).rdp) == before


@pytest.mark.long
def test_a_run_that_follows_another_plan_is_never_released(monkeypatch):
    """Were the plan made from scratch in a run, by another budget, its steps would not be those that were paid."""
    from pate.estimators.selection import _by_dpsgd
    from pate.exceptions import PateError

    real = _by_dpsgd.fit_privately
    monkeypatch.setattr(
        _by_dpsgd,
        "fit_privately",
        lambda clf, X, y, groups, recipe_plan: real(
            clf.set_params(mechanism=SampledGaussian(n_steps=99)), X, y, recipe_plan=recipe_plan
        ),
    )
    with pytest.raises(PateError, match="cost more than its price"):
        select({"a": DPSGDClassifier(budget=BUDGET)})


@pytest.mark.long
def test_persons_are_planned_for_by_their_number():
    found = select({"a": DPSGDClassifier(budget=BUDGET)}, groups=np.repeat(np.arange(400), 2))
    assert found.statement.unit == "group"
    assert found.winner.sample_rate_ == found.winner.recipe_.expected_batch_size / 320


@pytest.mark.parametrize(
    ("rows", "public", "said"),
    [(X, X, "other rows"), (X, X[:90], "other rows"), (X, PUBLIC[:, :9], "columns of X")],
)
def test_public_rows_that_are_private_or_of_other_columns_are_refused_for_nothing(rows, public, said, tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", total=BUDGET, currency="renyi")
    with pytest.raises(InvalidInputError, match=said):
        select({"a": DPSGDClassifier(budget=BUDGET)}, rows, X_public=public, ledger=ledger)
    assert ledger.releases() == []


@pytest.mark.long
def test_tables_with_categories_and_tables_without_public_rows_are_planned():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(20, 90, 600), "ward": rng.choice(["a", "b", "c"], 600)})
    y = (frame["ward"] == "b").astype(int).to_numpy()
    named = DPSGDClassifier(budget=BUDGET)
    found = select({"a": named}, frame[200:], y[200:], X_public=frame[:200], classes=[0, 1])
    assert found.winner.recipe_.name == "tabular-logistic"
    assert found.winner.score(frame[200:], y[200:]) > 0.8
    assert select({"a": named}, X_public=None).winner.recipe_.name == "unit-rows"


@pytest.mark.long
def test_texts_are_planned_with_a_representation_of_the_callers():
    texts = np.array([f"{'good' if i % 2 else 'bad'} stay in room {i % 7}" for i in range(400)], dtype=object)
    clf = DPSGDClassifier(budget=BUDGET, representation=TextMap())
    found = select({"a": clf}, texts[100:], np.arange(100, 400) % 2, X_public=texts[:100], classes=[0, 1])
    assert found.winner.score(texts[:100], np.arange(100) % 2) > 0.8


def test_a_recipe_that_does_not_go_with_the_rows_is_refused_for_nothing(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", total=BUDGET, currency="renyi")
    with pytest.raises(InvalidInputError, match="images"):
        select({"a": DPSGDClassifier(budget=BUDGET, recipe="linear")}, ledger=ledger)
    with pytest.raises(InvalidInputError, match="module must be None"):
        select({"a": DPSGDClassifier("linear", budget=BUDGET, recipe="unit-rows")}, ledger=ledger)
    assert ledger.releases() == []


def test_what_was_mapped_once_is_handed_out_as_a_copy():
    plan = RecipePlan.of((64,), PUBLIC, n_units=800, n_classes=10, budget=BUDGET)
    once = MappingOnce(plan.recipe, plan.facts, plan.maps)
    first = once.transform(X)
    first[:] = 0
    np.testing.assert_array_equal(once.transform(X), plan.transform(X))
    np.testing.assert_array_equal(once.transform(X + 1), plan.transform(X + 1))
    assert "seen" not in repr(once)
