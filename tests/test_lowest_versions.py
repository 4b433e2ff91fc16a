"""What `make test-lowest` installs is what pyproject.toml allows at the least."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
#: No small CPU build of its oldest versions is on PyPI; the file says so.
STAND_IN = {"torch"}


def lower_bounds(project, extra=None):
    """Lower bounds of what ``pip install .[dev]`` asks for, extras within extras included."""
    listed = project["dependencies"] if extra is None else project["optional-dependencies"][extra]
    for line in listed:
        needed = Requirement(line)
        if needed.name == "pate-privacy":
            for inner in needed.extras:
                yield from lower_bounds(project, inner)
        for bound in needed.specifier:
            if bound.operator == ">=":
                yield canonicalize_name(needed.name), Version(bound.version)


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def pinned():
    lines = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def test_every_lower_bound_is_the_version_that_is_tested(project, pinned):
    bounds = dict([*lower_bounds(project), *lower_bounds(project, "dev")])
    assert len(bounds) > 20
    wrong = {name: (str(low), str(pinned.get(name))) for name, low in bounds.items() if pinned.get(name) != low}
    assert set(wrong) == STAND_IN, wrong


def test_the_python_is_the_lowest_too(project):
    python = "3.11"
    assert f"LOWEST_PYTHON ?= python{python}\n" in (ROOT / "Makefile").read_text(encoding="utf-8")
    allowed = SpecifierSet(project["requires-python"])
    assert allowed.contains(python)
    assert not allowed.contains("3.10")
