"""DP-SGD behind the estimator: one budget, one statement that says which road and why, one file; and ``auto``."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from pate_of import pate_of

from pate import Budget, BudgetExceededError, DPSGDClassifier, InvalidInputError, Ledger, PATEClassifier
from pate.dpsgd._statement import priced
from pate.estimators._by_dpsgd import Ask, method_of, plan_training
from pate.exceptions import CuratorWarning, RepeatedFitWarning
from pate.models.recipes import FEWEST_PUBLIC, PublicFacts, chosen_method
from pate.release import ModelLabels, ReleaseTerms

BUDGET = Budget(2.0, 1e-4)
RANGES = {"age": (0, 100), "dose": (-5, 5), "town": ["Oslo", "Rome"]}


def people(n, seed):
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(
        {"age": rng.uniform(10, 90, n), "dose": rng.normal(size=n), "town": rng.choice(["Oslo", "Rome"], n)}
    )
    return rows, np.where(rows["age"] > 50, "yes", "no")


X, Y = people(600, 0)
PUBLIC, TRUTH = people(60, 1)


def of(**more):
    return pate_of(**({"voters": "dpsgd", "budget": BUDGET, "classes": ["no", "yes"], "random_state": 0} | more))


@pytest.fixture(scope="module")
def fitted():
    return of().fit(X, Y, X_public=PUBLIC)


# What it costs ---------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_guarantee_is_dp_sgds_own(fitted):
    alone = DPSGDClassifier(budget=BUDGET, classes=["no", "yes"], random_state=0).fit(X, Y, X_public=PUBLIC)
    assert fitted.statement_.guarantee == alone.guarantee_ == fitted.release_.guarantee
    assert fitted.statement_.mechanism == alone.statement_.mechanism
    assert fitted.statement_.mu == alone.statement_.mu
    assert fitted.statement_.accounting == alone.statement_.accounting
    assert [a.name for a in fitted.statement_.assumptions] == [a.name for a in alone.statement_.assumptions]


@pytest.mark.long
def test_the_ledger_is_charged_what_the_statement_says_once(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    clf = of(ledger=ledger).fit(X, Y, X_public=PUBLIC)
    (row,) = ledger.releases()
    assert row.kind == "DP-SGD"
    assert clf.statement_.ledger_releases == (row.id,)
    assert row.facts["epsilon"] == clf.statement_.guarantee.epsilon
    assert clf.release_.charge.mu_squared == pytest.approx(clf.statement_.mu**2)
    assert ledger.used_fraction == pytest.approx(1.0, abs=1e-3)
    with pytest.raises(BudgetExceededError):
        of(ledger=ledger).fit(X, Y, X_public=PUBLIC)
    assert len(ledger.releases()) == 1


@pytest.mark.long
def test_a_second_run_on_a_ledger_is_said_to_be_a_fresh_spend(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", total=Budget(6.0, 1e-4))
    of(ledger=ledger).fit(X, Y, X_public=PUBLIC)
    with pytest.warns(RepeatedFitWarning, match="paid for 1 run of DP-SGD already"):
        of(ledger=ledger).fit(X, Y, X_public=PUBLIC)
    assert len(ledger.releases()) == 2


@pytest.mark.long
def test_a_run_that_died_goes_on_and_pays_once(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "ledger.sqlite")

    def dies(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pate.dpsgd._fit.dpsgd_statement", dies)
        with pytest.raises(KeyboardInterrupt):
            of(ledger=ledger).fit(X, Y, X_public=PUBLIC)
    assert len(ledger.releases()) == 1
    clf = of(ledger=ledger)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatedFitWarning)
        clf.fit(X, Y, X_public=PUBLIC)
    assert len(ledger.releases()) == 1
    assert clf.statement_.ledger_releases == (1,)
    assert not (tmp_path / "ledger.sqlite.dpsgd").exists()


def test_fits_are_counted_with_those_of_clones():
    clf = of().fit(X, Y, X_public=PUBLIC)
    with pytest.warns(RepeatedFitWarning, match="fit 2"):
        clf.fit(X, Y, X_public=PUBLIC)
    assert any(a.name == "tuning" for a in clf.statement_.assumptions)


# What it may look at ---------------------------------------------------------------------------------------------


def _plan(rows, y, public, *, schema=None, **more):
    terms = ReleaseTerms(budget=BUDGET)
    ask = Ask(classes=("no", "yes"), n_units=len(rows), unit="record", **more)
    return plan_training(public, terms, ask, row_shape=(3,), schema=schema)


@pytest.mark.parametrize(("public", "more"), [(PUBLIC, {}), (None, {"schema": RANGES}), (PUBLIC[:5], {})])
def test_neighbouring_tables_have_one_plan_one_map_and_one_method(public, more):
    other, y = X.copy(), Y.copy()
    other.iloc[3] = [1e9, np.nan, "Kyiv"]
    y[3] = "yes" if y[3] == "no" else "no"
    one, two = _plan(X, Y, public, **more), _plan(other, y, public, **more)
    assert (one.recipe_plan.recipe, one.plan) == (two.recipe_plan.recipe, two.plan)
    assert [m.fingerprint() for m in one.recipe_plan.maps] == [m.fingerprint() for m in two.recipe_plan.maps]
    roads = [of(voters=None)._method("auto", rows, labels, public, None, None) for rows, labels in ((X, Y), (other, y))]
    assert roads[0] == roads[1]


def test_a_record_that_cannot_be_used_changes_no_word_of_the_statement():
    odd, y = X.copy(), Y.astype(object).copy()
    odd["age"] = odd["age"].astype(object)
    odd.iloc[0, 0], y[1] = "fifty", None
    with pytest.warns(CuratorWarning):
        clf = of().fit(odd, y, X_public=PUBLIC)
    other = of().fit(X, Y, X_public=PUBLIC)
    one, two = clf.statement_, other.statement_
    assert (one.mechanism, one.guarantee, one.assumptions) == (two.mechanism, two.guarantee, two.assumptions)


# Which road ------------------------------------------------------------------------------------------------------


def test_auto_takes_records_where_public_rows_make_a_map():
    facts = PublicFacts(n_units=600, n_classes=2, mu=0.5, n_public=FEWEST_PUBLIC)
    assert chosen_method(facts)[0] == "records"
    assert chosen_method(replace(facts, n_public=FEWEST_PUBLIC - 1))[0] == "dpsgd"
    assert chosen_method(replace(facts, n_public=0))[0] == "dpsgd"
    assert method_of(PUBLIC, BUDGET, n_units=600, n_classes=2)[0] == "records"


def test_the_statement_says_which_method_and_why():
    clf = of(voters=None).fit(X, Y, X_public=PUBLIC[:10])
    assert (clf.who_votes(), clf.voters_) == ("auto", "dpsgd")
    assert "chosen by a public rule, as 10 public rows make no map" in clf.statement_.mechanism
    assert clf.release_.n_answered == 10
    named = of().fit(X, Y, X_public=PUBLIC[:10])
    assert "public rule" not in named.statement_.mechanism


@pytest.mark.long
def test_the_statement_of_records_says_why_too():
    clf = of(voters="auto").fit(X, Y, X_public=PUBLIC)
    assert clf.voters_ == "records"
    assert clf.statement_.mechanism.endswith(
        "chosen by a public rule, as 60 public rows make a map that records can vote on"
    )


@pytest.mark.parametrize(
    ("options", "public", "text"),
    [
        ({"n_teachers": 10}, PUBLIC, "voters='dpsgd' cannot go with n_teachers"),
        ({"voters": "auto", "gap": 1.0}, PUBLIC, "voters='auto' cannot go with queries.gap"),
        ({"voters": "records", "schema": RANGES}, PUBLIC, "schema must be left out with voters='records'"),
        ({"voters": None, "schema": RANGES}, PUBLIC, "schema must be left out with voters='records'"),
        ({"voters": "records"}, None, "X_public must be the public rows to label"),
        ({"student": "decision-tree"}, None, "student must be None where there are no public rows"),
        ({"schema": {"age": (0, 100)}}, None, "other columns than"),
        ({"stated": {"disjoint shards": "mine"}}, PUBLIC, "stated has the unknown entry"),
        ({"voters": "dp-sgd"}, PUBLIC, "voters must be one of"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_spent(options, public, text, monkeypatch):
    monkeypatch.setattr("pate.dpsgd._fit.run_training", lambda *_, **__: pytest.fail("something was trained"))
    with pytest.raises(InvalidInputError, match=text):
        of(**{name: options[name] for name in options if name != "schema"}).fit(
            X, Y, X_public=public, schema=options.get("schema")
        )


# What it gives ---------------------------------------------------------------------------------------------------


def test_labels_are_the_models_own(fitted):
    release = fitted.release_
    assert type(release) is ModelLabels
    assert release.values() == fitted.predict(PUBLIC).tolist()
    assert np.array_equal(release.probability, fitted.predict_proba(PUBLIC))
    assert (np.array(release.values()) == TRUTH).mean() > 0.8
    assert release.to_frame().columns.tolist() == ["row", "label", "status"]
    assert np.array_equal(fitted.queries_, np.arange(60))
    assert fitted.refit_student(PUBLIC).student_ is fitted._model


@pytest.mark.long
def test_it_answers_as_the_trained_module_does():
    clf = of(noise_seed=5)
    alone = DPSGDClassifier(budget=BUDGET, classes=["no", "yes"], random_state=0, noise_seed=5)
    mine = clf.fit(X, Y, X_public=PUBLIC).student_.untempered(PUBLIC)
    assert clf.statement_.seeded
    assert np.allclose(mine, alone.fit(X, Y, X_public=PUBLIC).predict_proba(PUBLIC), atol=1e-5)


@pytest.mark.few(1)
@pytest.mark.parametrize("schema", [None, RANGES])
def test_a_file_gives_the_very_same_model(tmp_path, schema):
    clf = of().fit(X, Y, X_public=None if schema else PUBLIC, schema=schema)
    clf.save(tmp_path / "model.pate")
    again = PATEClassifier.load(tmp_path / "model.pate")
    assert np.array_equal(again.predict_proba(PUBLIC), clf.predict_proba(PUBLIC))
    assert (again.voters_, again.who_votes(), again.statement_) == ("dpsgd", "dpsgd", clf.statement_)


def test_of_texts_that_were_not_declared_the_curator_is_warned():
    with pytest.warns(CuratorWarning, match="'town' hold no numbers"):
        clf = of().fit(X, Y)
    assert clf.statement_.n_units == 600


def test_persons_are_protected_whole():
    clf = of().fit(X, Y, X_public=PUBLIC, groups=np.arange(600) // 3)
    assert (clf.statement_.unit, clf.statement_.n_units) == ("group", 200)


def test_classes_that_were_read_off_are_open():
    with pytest.warns(match="classes=None: the set of classes"):
        clf = of(classes=None).fit(X[["age", "dose"]], Y)
    assert next(a.by for a in clf.statement_.assumptions if a.name == "classes") == "nobody"


def test_a_person_may_state_what_they_did():
    claims = {"one person": "patients are unique", "purpose": "triage"}
    clf = of(stated=claims, tuning="nothing").fit(X, Y, X_public=PUBLIC)
    s = clf.statement_
    assert (s.purpose, s.tuning) == ("triage", "nothing")
    assert next(a.by for a in s.assumptions if a.name == "one person") == "curator"


def test_what_is_priced_is_what_is_charged():
    plan = _plan(X, Y, PUBLIC)
    assert plan.charge == priced(plan.plan)
    assert plan.charge.guarantee(BUDGET.delta).epsilon == pytest.approx(plan.guarantee.epsilon, rel=1e-6)


# How often it is right -------------------------------------------------------------------------------------------


@pytest.mark.long
def test_records_say_how_often_the_trained_model_is_right_within_the_budget(tmp_path):
    clf = of(measure="by class").fit(X, Y, X_public=PUBLIC)
    estimate = clf.measured_
    assert estimate == clf.statement_.measured
    assert estimate.low <= clf.score(*people(4_000, 2)) <= estimate.high
    assert [one.name for one in estimate.by_class] == ["no", "yes"]
    assert clf.statement_.guarantee.epsilon <= BUDGET.epsilon
    clf.save(tmp_path / "model.pate")
    assert PATEClassifier.load(tmp_path / "model.pate").measured_ == estimate


def test_measuring_is_priced_beforehand_and_a_named_student_is_not_measured():
    plans = [_plan(X, Y, PUBLIC, measure=measure).plan for measure in (False, None, True)]
    assert plans[0].noise_multiplier < plans[1].noise_multiplier == plans[2].noise_multiplier
    assert all(plan.guarantee.epsilon <= BUDGET.epsilon for plan in plans)
    with pytest.raises(InvalidInputError, match="or of DP-SGD, and no student of it"):
        of(measure=True, student="knn").fit(X[["age"]], Y, X_public=PUBLIC[["age"]])
