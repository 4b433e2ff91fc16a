"""One way to hand over rows, and one name for one thing, in everything that is public."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

import pate

SITE = Path(pate.__file__).parents[1] / "docs" / "_site"
#: What private records come with: said by name, in this order. A third argument by place once was the owners in one
#: class and the public rows in the next: the wrong one protects records where persons were meant.
BY_NAME = ("X_public", "groups")
#: What has another name already, and the few that mean another thing by the word.
OTHER_WORDS = {
    "checkpoint": ("checkpoint_dir", ()),
    "checkpoints": ("checkpoint_dir", ()),
    "cache_dir": ("checkpoint_dir", ()),
    # What is written for good, or read back, maps that any fit may find there, and where an engine keeps its files.
    "folder": ("checkpoint_dir", ("save", "load", "cached", "MPyCAggregator", "make_authority")),
    "jobs": ("n_jobs", ()),
    "workers": ("n_jobs", ()),
    "n_workers": ("n_jobs", ()),
    "state": ("stated", ("load_state_dict",)),  # torch's
    "public_rows": ("X_public", ("Evidence",)),  # how it was seen that they are public
    "owners": ("groups", ()),
    "persons": ("groups", ()),
}


def signatures(value, name):
    """The parameters of a function, of what makes an object of a class, and of its public methods."""
    found = {name: value}
    if inspect.isclass(value):
        methods = {key: inspect.getattr_static(value, key) for key in dir(value) if not key.startswith("_")}
        plain = {key: m.__func__ if isinstance(m, staticmethod | classmethod) else m for key, m in methods.items()}
        ours = {k: m for k, m in plain.items() if inspect.isfunction(m) and m.__module__.startswith("pate")}
        found |= {f"{name}.{key}": method for key, method in ours.items()}
    for key, function in found.items():
        try:
            yield key, inspect.signature(function).parameters
        except (TypeError, ValueError):  # a constant, or a type of another library
            continue


@pytest.fixture(scope="module")
def public():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SITE))
        import site_reference

        packages = site_reference.packages()
    values = {
        f"{package}.{name}": getattr(importlib.import_module(package), name)
        for package, names in packages.items()
        for name in names
    }
    return [found for name, value in values.items() for found in signatures(value, name)]


def misplaced(parameters):
    """What is wrong with how a function takes private records; empty where nothing is, or where it takes none."""
    names = list(parameters)
    asked = [name for name in names if name in BY_NAME]
    if "y" not in names or not asked:
        return ""
    wrong = [name for name in asked if parameters[name].kind is not inspect.Parameter.KEYWORD_ONLY]
    if wrong:
        return f"{', '.join(wrong)} by place"
    together = names[names.index(asked[0]) :][: len(asked)] == asked
    return "" if names[: names.index("y")][-1:] == ["X"] and together and asked == sorted(asked) else "another order"


def test_records_are_handed_over_alike_everywhere(public):
    calls = [(name, p) for name, p in public if not name.rpartition(".")[2][0].isupper()]  # a class: rows it holds
    takes = {name: misplaced(p) for name, p in calls if "y" in p and set(BY_NAME) & set(p)}
    assert len(takes) > 20
    assert {"pate.PATEClassifier.fit", "pate.DPSGDClassifier.fit", "pate.private_select"} <= set(takes)
    assert {name: wrong for name, wrong in takes.items() if wrong} == {}


def test_one_thing_has_one_name(public):
    assert {p for _, parameters in public for p in parameters} >= {name for name, _ in OTHER_WORDS.values()}
    wrong = {
        f"{name}({word}=): say {better}="
        for word, (better, elsewhere) in OTHER_WORDS.items()
        for name, parameters in public
        if word in parameters and name.rpartition(".")[2] not in elsewhere
    }
    assert wrong == set()
