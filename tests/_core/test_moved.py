"""Former paths of modules give the modules as they are now."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from pate import Budget, HeadTeacherEnsemble, InvalidInputError, PATEClassifier, Queries, TeacherEnsemble
from pate._core.moved import MOVED, STAY, new_path
from pate.release import plan_release

MODULES = sorted({*MOVED, "core.checks", "data.files.tables", "students._spreading", "statement.model"} - STAY)
PRIVATE = {
    "heads.forest": "models.heads._forest",
    "audit.claims": "audit._claims",
    "records.voters": "records._voters",
}


@pytest.mark.parametrize("old", MODULES)
def test_a_former_path_gives_the_very_same_module(old, monkeypatch):
    monkeypatch.delitem(sys.modules, f"pate.{old}", raising=False)
    with warnings.catch_warnings(record=True) as said:  # of a package on the way, too, where nothing imported it before
        warnings.simplefilter("always")
        module = import_module(f"pate.{old}")
    assert any(str(one.message).startswith(f"pate.{old} is now ") for one in said)
    assert module is import_module(str(new_path(f"pate.{old}")))
    assert module.__name__ == module.__spec__.name == new_path(f"pate.{old}")


@pytest.mark.parametrize("old", PRIVATE)
def test_a_module_that_became_private_is_found_by_its_former_name(old, monkeypatch):
    for name in (f"pate.{old}", f"pate.models.{old}"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.warns(DeprecationWarning, match="is now pate."):
        assert import_module(f"pate.{old}") is import_module(f"pate.{PRIVATE[old]}")


def test_the_short_name_of_testing_stays():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert import_module("pate.testing") is import_module("pate.audit.testing")


def test_no_former_path_is_a_path_of_today():
    assert [old for old in MOVED if find_spec(f"pate.{MOVED[old]}") is None] == []
    assert [old for old in MOVED if new_path(f"pate.{MOVED[old]}") is not None] == []


def test_what_was_never_there_is_not_found():
    with pytest.raises(ModuleNotFoundError, match="no_such"):
        import_module("pate.models.heads.no_such")
    with pytest.raises(ModuleNotFoundError, match="no_such"):
        import_module("pate.no_such")


def test_other_packages_import_by_the_former_path():
    code = "from pate.heads import LikelihoodHead\nimport pate\nprint(pate.heads.LikelihoodHead is LikelihoodHead)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "True"), done.stderr


def test_a_former_public_name_gives_the_very_same_object():
    from pate.models import file, recipes

    with pytest.warns(DeprecationWarning, match=r"pate\.models\.recipes\.chosen_road is now .*chosen_method"):
        assert recipes.chosen_road is recipes.chosen_method
    with pytest.warns(DeprecationWarning, match="is now"):
        assert file.Door is file.InputSpec
    with pytest.raises(AttributeError, match="no_such"):
        _ = recipes.no_such


def test_former_names_of_parameters_are_taken_with_a_warning():
    with pytest.warns(DeprecationWarning, match="anyway is deprecated: use queries=Queries"):
        clf = PATEClassifier(budget=Budget(1.0, 1e-5), anyway=True)
    assert clf.queries == Queries(force=True)
    assert "anyway" not in clf.get_params()
    with pytest.warns(DeprecationWarning, match="anyway is now called force"):
        assert plan_release(Budget(0.1, 1e-5), 100, n_teachers=10, n_classes=10, anyway=True).n_queries == 10
    with pytest.raises(InvalidInputError, match="both are given"):
        plan_release(Budget(0.1, 1e-5), 100, n_teachers=10, anyway=True, force=False)


FORMER = {
    "n_queries": (60, {"queries": Queries(60)}),
    "select": ("random", {"queries": Queries(select="random")}),
    "gap": (2.0, {"queries": Queries(gap=2.0)}),
    "max_answers": (5, {"queries": Queries(max_answers=5)}),
    "on_exhausted": ("abstain", {"queries": Queries(on_exhausted="abstain")}),
    "force": (True, {"queries": Queries(force=True)}),
    "tuning": ("nothing", {"stated": {"tuning": "nothing"}}),
    "overlap_is_public": (True, {"stated": {"overlap is public": "yes"}}),
    "n_jobs": (2, {}),
    "partition_seed": (3, {}),
    "ranges": ((0, 16), {}),
}


@pytest.mark.parametrize("old", FORMER)
def test_a_former_parameter_is_taken_set_read_and_cloned(old):
    value, now = FORMER[old]
    with pytest.warns(DeprecationWarning, match=f"^{old} is deprecated"):
        made = PATEClassifier(**{old: value})
    with pytest.warns(DeprecationWarning, match=f"^{old} is deprecated"):
        changed = PATEClassifier().set_params(**{old: value})
    for clf in (made, changed, clone(made), pickle.loads(pickle.dumps(made))):
        assert {name: getattr(clf, name) for name in now} == now
        assert len(clf.get_params(deep=False)) == 18
        assert old not in clf.get_params()
        with pytest.warns(DeprecationWarning, match=f"PATEClassifier.{old} is deprecated"):
            assert getattr(clf, old) == value
    for name, new in now.items():
        with pytest.raises(InvalidInputError, match="both are given"):
            PATEClassifier(**{old: value, name: new})
    assert old not in dir(PATEClassifier())


def test_former_parameters_go_together_and_those_of_today_stay():
    with pytest.warns(DeprecationWarning, match="is deprecated: use"):
        clf = PATEClassifier(n_queries=9, gap=1.0, tuning="none", stated={"purpose": "research"})
    assert (clf.queries, clf.stated) == (Queries(9, gap=1.0), {"purpose": "research", "tuning": "none"})
    with pytest.warns(DeprecationWarning, match="is deprecated: use"):
        clf.set_params(gap=2.0, tuning="nothing", overlap_is_public=False)
    assert (clf.queries, clf.stated) == (Queries(9, gap=2.0), {"purpose": "research", "tuning": "nothing"})


def test_former_parameters_have_their_former_effect():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y, public = (X[:, 0] > 0).astype(int), rng.normal(size=(60, 2))
    given = {"budget": Budget(9.0, 1e-3), "classes": (0, 1), "n_teachers": 10, "random_state": 0, "noise_seed": 0}
    with pytest.warns(DeprecationWarning, match="is deprecated: use"):
        old = PATEClassifier(partition_seed=3, n_queries=20, tuning="none", overlap_is_public=True, **given)
    teachers = TeacherEnsemble(LogisticRegression(), 100, partition_seed=3)
    new = PATEClassifier(teachers, queries=20, stated={"tuning": "none", "overlap is public": "yes"}, **given)
    one, two = (clf.fit(X, y, X_public=public) for clf in (clone(old), new))
    assert np.array_equal(one.release_.noisy_counts, two.release_.noisy_counts)
    assert replace(one.statement_, created=two.statement_.created) == two.statement_
    assert (one.statement_.tuning, one.who_votes()) == ("none", "shards")
    with pytest.warns(DeprecationWarning, match="is deprecated: use"):
        heads = PATEClassifier(voters="heads", partition_seed=3, **given)
    teachers = HeadTeacherEnsemble(None, None, partition_seed=3)
    two = PATEClassifier(teachers, voters="heads", **given).fit(X, y, X_public=public)
    assert np.array_equal(heads.fit(X, y, X_public=public).release_.noisy_counts, two.release_.noisy_counts)
    with pytest.warns(DeprecationWarning, match="is deprecated: use"):
        clf = PATEClassifier(voters="records", ranges=(0, 1), budget=given["budget"], classes=(0, 1))
    with pytest.raises(InvalidInputError, match=r"schema must be left out"):
        clone(clf).fit(X, y, X_public=public)
