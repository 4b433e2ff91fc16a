"""Former paths of modules give the modules as they are now."""

from __future__ import annotations

import subprocess
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec

import pytest
from sklearn.base import clone

from pate import Budget, InvalidInputError, PATEClassifier
from pate._core.moved import MOVED, STAY, new_path

MODULES = sorted({*MOVED, "core.checks", "data.files.tables", "students._spreading", "statement.model"} - STAY)
PRIVATE = {
    "heads.forest": "models.heads._forest",
    "audit.claims": "audit._claims",
    "records.voters": "records._voters",
}


@pytest.mark.parametrize("old", MODULES)
def test_a_former_path_gives_the_very_same_module(old, monkeypatch):
    monkeypatch.delitem(sys.modules, f"pate.{old}", raising=False)
    with pytest.warns(DeprecationWarning, match=f"pate.{old} is now "):
        module = import_module(f"pate.{old}")
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
    with pytest.warns(DeprecationWarning, match="anyway is now called force"):
        clf = PATEClassifier(budget=Budget(1.0, 1e-5), anyway=True)
    assert clf.force is True
    assert "anyway" not in clf.get_params()
    assert clone(clf).force is True
    with pytest.raises(InvalidInputError, match="both are given"):
        PATEClassifier(anyway=True, force=False)
