"""Searches and cross-validations over a private estimator: every fit is a fresh spend, counted and stated."""

import copy
import pickle
import re
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from pate import Budget, DPSGDClassifier, Ledger, PATEClassifier, private_select
from pate.exceptions import BudgetExceededError, CuratorWarning, LedgerError, RepeatedFitWarning
from pate.privacy.cost import Charge
from pate.privacy.words import Guarantee
from pate.release.statement._fits import Total, counted_elsewhere

RNG = np.random.default_rng(0)
Y = RNG.integers(2, size=240)
X = RNG.normal(size=(240, 3)) + 2 * Y[:, None]
X_PUBLIC = RNG.normal(size=(60, 3)) + 1
BUDGET = Budget(1.0, 1e-5)


def records(**more):
    return PATEClassifier(budget=BUDGET, classes=[0, 1], random_state=0, **more)


def shards(**more):
    return PATEClassifier(n_teachers=20, budget=BUDGET, classes=[0, 1], random_state=0, **more)


def dpsgd(**more):
    return DPSGDClassifier("linear", budget=BUDGET, classes=[0, 1], epochs=1, expected_batch_size=64, **more)


def fitted(clf):
    return clf.fit(X, Y, **({} if isinstance(clf, DPSGDClassifier) else {"X_public": X_PUBLIC}))


def fits_stated(statement):
    found = [a for a in statement.assumptions if a.name == "tuning"]
    assert all(a.by == "nobody" for a in found)
    return found[0].how if found else ""


def number(text, pattern):
    return float(re.search(pattern, text).group(1))


@pytest.mark.long
@pytest.mark.parametrize("make", [records, shards, dpsgd])
def test_a_search_is_warned_of_and_its_statement_counts_every_fit(make):
    clf = make()
    public = {} if make is dpsgd else {"X_public": X_PUBLIC}
    grid = {"random_state": [0, 1]}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        search = GridSearchCV(clf, grid, cv=KFold(2), error_score="raise").fit(X, Y, **public)
    said = [w for w in said if issubclass(w.category, RepeatedFitWarning)]
    assert [str(w.message).split()[1] for w in said] == ["2", "4"]  # of 5: it does not drown what else is said
    how = fits_stated(search.best_estimator_.statement_)
    assert "5 fits" in how
    assert "StratifiedKFold" in how
    together, simple = number(how, r"together: epsilon = ([\d.]+)"), number(how, r"addition epsilon = ([\d.]+)")
    assert search.best_estimator_.statement_.guarantee.epsilon < together < simple
    assert simple == pytest.approx(5.0, rel=0.05)
    if make is records:  # 5 Gaussian releases of one mu each: sqrt(5) of it
        mu = search.best_estimator_.statement_.mu
        assert together == pytest.approx(
            Charge.gaussian(sensitivity=mu * 5**0.5, sigma=1).guarantee(1e-5).epsilon, rel=1e-3
        )


@pytest.mark.long
def test_a_pipelines_classifier_is_counted_too():
    pipe = make_pipeline(FunctionTransformer(), dpsgd())
    with pytest.warns(RepeatedFitWarning):
        found = cross_validate(pipe, X, Y, cv=KFold(3), return_estimator=True)["estimator"]
    assert [fits_stated(each[-1].statement_)[:6] for each in found] == ["", "2 fits", "3 fits"]


@pytest.mark.long
def test_one_fit_says_nothing_of_others_and_other_estimators_are_not_counted():
    one, other = fitted(dpsgd()), fitted(dpsgd())
    assert fits_stated(one.statement_) == fits_stated(other.statement_) == ""


@pytest.mark.few(1)
@pytest.mark.parametrize("of", [lambda c: c, clone, copy.copy, copy.deepcopy, lambda c: clone(copy.copy(clone(c)))])
def test_clones_and_copies_are_kin(of):
    first = fitted(dpsgd())
    with pytest.warns(RepeatedFitWarning, match="fit 2 of this DPSGDClassifier"):
        again = fitted(of(first))
    assert "2 fits" in fits_stated(again.statement_)
    assert fits_stated(first.statement_) == "" or of(first) is first


def test_an_unfitted_clone_holds_its_parameters_and_nothing_else():
    clf = records()
    assert set(vars(clone(clf))) == set(clf.get_params(deep=False))


@pytest.mark.few(1)
@pytest.mark.parametrize("make", [records, dpsgd])
def test_what_other_processes_did_is_open(make):
    clf = make()
    away = pickle.loads(pickle.dumps(clf))
    with pytest.warns(RepeatedFitWarning, match="came from another process"):
        there = fitted(clone(away))
    here = fitted(clf)
    for each in (there, here):
        assert "their fits are not known" in fits_stated(each.statement_)
    assert "together" not in fits_stated(here.statement_)  # no sum where something is missing from it


def test_a_pickle_is_whole():
    clf = fitted(dpsgd())
    back = pickle.loads(pickle.dumps(clf))
    assert (back.predict(X) == clf.predict(X)).all()
    assert back.statement_.digest == clf.statement_.digest


@pytest.mark.long
def test_seeded_fits_warn_of_nothing_and_void_the_sum():
    clf = records(noise_seed=1)
    fitted(clf)
    assert fits_stated(fitted(clf).statement_) == ""  # not private, which it says first
    with pytest.warns(RepeatedFitWarning):
        statement = fitted(fitted(clf.set_params(noise_seed=None))).statement_
    assert "2 of them with seeded noise" in fits_stated(statement)
    assert "epsilon" not in fits_stated(statement)


@pytest.mark.long
def test_a_ledger_counts_by_itself(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", total=Budget(2.0, 1e-5))
    clf = records(ledger=ledger)
    fitted(clf)
    other = fitted(clone(clf).set_params(random_state=1))
    assert fits_stated(other.statement_) == ""
    assert other.statement_.ledger_head
    with pytest.raises(LedgerError, match="private_select"):  # a fold is another data set
        cross_validate(clf, X, Y, cv=2, error_score="raise", params={"X_public": X_PUBLIC})


@pytest.mark.long
def test_what_is_counted_elsewhere_is_not_counted_here():
    clf = dpsgd()
    with counted_elsewhere():
        fitted(clf)
        fitted(clf)
    assert fits_stated(fitted(clf).statement_) == ""


@pytest.mark.long
def test_a_private_selection_never_tells_its_number_of_runs():
    clf = dpsgd()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatedFitWarning)
        found = private_select({"one": clf}, X, Y, budget=Budget(8.0, 1e-4), classes=[0, 1], mean_runs=8)
    for model in (found.winner, clone(found.winner), clf):
        assert model._kin().total.n == 1  # the selection, whatever it did
    assert fits_stated(found.statement) == fits_stated(found.winner.statement_) == ""


@pytest.mark.long
@pytest.mark.parametrize("of", [lambda found, clf: found.winner, lambda found, clf: clf], ids=["winner", "candidate"])
def test_what_is_fitted_after_a_private_selection_tells_of_its_price(of):
    clf, budget = dpsgd(), Budget(8.0, 1e-4)
    found = private_select({"one": clf}, X, Y, budget=budget, classes=[0, 1], mean_runs=8)
    with pytest.warns(RepeatedFitWarning):
        again = fitted(of(found, clf)).statement_
    assert fits_stated(again).startswith("2 fits of this estimator")
    together = number(fits_stated(again), r"simple addition epsilon = ([\d.]+)")
    assert together >= found.guarantee.epsilon + again.guarantee.epsilon - 1e-6


@pytest.mark.long
@pytest.mark.parametrize("make", [records, dpsgd])
def test_a_ledger_that_was_named_late_hides_no_fit(make, tmp_path):
    clf = fitted(make())
    late = fitted(clf.set_params(ledger=Ledger(tmp_path / "late.sqlite"))).statement_
    assert fits_stated(late).startswith("2 fits of this estimator")
    with pytest.warns(CuratorWarning, match=r"what was given holds the private data set of the ledger .*late\.sqlite'"):
        other = fitted(clf.set_params(ledger=Ledger(tmp_path / "other.sqlite"))).statement_
    assert fits_stated(other).startswith("3 fits of this estimator")


@pytest.mark.long
def test_a_run_that_another_process_began_is_counted_here_once(tmp_path):
    class Killed(Exception):
        pass

    def kill(progress):
        raise Killed

    place = tmp_path / "run"
    begun = dpsgd(random_state=0, checkpoint_dir=place, callbacks=[kill])
    with pytest.raises(Killed):
        fitted(begun)
    assert place.exists()
    clf = fitted(dpsgd(random_state=0))  # of this process, where the other run is not known
    with pytest.warns(RepeatedFitWarning):
        taken_up = fitted(clf.set_params(checkpoint_dir=place)).statement_
    assert fits_stated(taken_up).startswith("2 fits of this estimator")
    ended = fitted(begun.set_params(callbacks=[], checkpoint_dir=None)).statement_
    assert fits_stated(ended).startswith("2 fits of this estimator")


def test_totals_add_up_and_never_say_less_than_one_fit():
    one = Guarantee(epsilon=1.0, delta=1e-5, kind="public", method="gdp")
    charge = Charge.gaussian(sensitivity=1.0, sigma=4.0)
    total = Total()
    for n in range(1, 6):
        total = total.plus(one, "record", charge)
        assert total.charge.mu_squared == pytest.approx(n * charge.mu_squared)
        assert total.epsilon == n
    assert Total().plus(one, "record", charge).plus(one, "record", None).charge is None
    assert "no one epsilon" in total.plus(one, "group", charge).words(1e-5)
    assert Total().plus(one, "record", None).plus(one, "record", charge).charge is None


def test_groups_are_routed_where_requested():
    import sklearn

    people = np.repeat(np.arange(80), 3)
    with sklearn.config_context(enable_metadata_routing=True):
        clf = records().set_fit_request(groups=True, X_public=True)
        with pytest.warns(RepeatedFitWarning):
            found = cross_validate(
                clf, X, Y, cv=2, params={"groups": people, "X_public": X_PUBLIC}, return_estimator=True
            )
    assert [each.statement_.unit for each in found["estimator"]] == ["group", "group"]


@pytest.mark.parametrize("voters", ["records", "dpsgd"])
def test_a_fold_that_the_ledger_no_longer_pays_for_hears_of_the_first_one(voters, tmp_path):
    ledger, public = Ledger(tmp_path / "ledger.sqlite", total=BUDGET), {"X_public": X_PUBLIC}
    clf = records(ledger=ledger, measure=False, voters=voters)
    with pytest.raises(BudgetExceededError) as refused:
        cross_validate(clf, X[:-1], Y[:-1], cv=KFold(2), params=public, error_score="raise")
    assert len(ledger.releases()) == 1
    assert "charged before: 1. In a cross-validation" in "".join(refused.value.__notes__)
    assert "pate.private_select" in "".join(refused.value.__notes__)
    with pytest.raises(BudgetExceededError) as other:  # of another estimator nothing is said
        records(ledger=ledger, measure=False, voters=voters).fit(X, Y, **public)
    assert not hasattr(other.value, "__notes__")
