"""What the pages about the project say of the project."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import settings

import pate
from pate.ledger._store import FORMAT
from pate.release.statement.model import SCHEMA

ROOT = Path(pate.__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("*/README.md")])
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
TEST = re.compile(r"`?(tests/[\w/]+\.py)")


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def dead_links(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    linked = [name for name in LINK.findall(text) if not (page.parent / name).exists()]
    return linked + [name for name in TEST.findall(text) if not (ROOT / name).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_point_at_what_is_there(page):
    assert dead_links(page) == []


def test_the_reader_of_links_sees_a_dead_one(tmp_path):
    (tmp_path / "x.md").write_text("[a](no.md#there) [b](https://host/no.md) [c](x.md) `tests/test_no.py`")
    assert dead_links(tmp_path / "x.md") == ["no.md", "tests/test_no.py"]


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "docs/versioning.md"])
def test_the_habits_are_linked_from_the_readme(name):
    assert f"]({name})" in text_of("README.md")


def test_before_a_commit_runs_what_make_check_runs():
    recipe = re.search(r"^check:.*\n((?:\t.*\n)+)", text_of("Makefile"), flags=re.MULTILINE)
    commands = [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe[1].splitlines()]
    hooks = re.findall(r"entry: ([^,]+), language: system", text_of(".pre-commit-config.yaml"))
    assert hooks == commands
    assert "repo: http" not in text_of(".pre-commit-config.yaml")


def test_tests_that_search_try_the_same_cases_each_time_unless_asked_for_others():
    usual, search = settings.get_profile("same"), settings.get_profile("search")
    assert usual.derandomize
    assert usual.database is None
    assert not search.derandomize
    assert "--hypothesis-profile=search" in text_of("Makefile")
    for file in sorted((ROOT / "tests").rglob("test_*.py")):  # else make search would try the same cases too
        own = file != Path(__file__) and re.search(r"derandomize|@seed\(|load_profile", file.read_text("utf-8"))
        assert not own, file.name


def test_citation_and_versioning_name_what_is_so():
    assert f"\nversion: {pate.__version__}\n" in text_of("CITATION.cff")
    assert SCHEMA in text_of("docs/versioning.md")
    assert f"format number (now {FORMAT})" in text_of("docs/versioning.md")


class Case:
    """As much of a collected test as the root conftest.py asks of one."""

    def __init__(self, nodeid, *marks):
        self.nodeid, self.marks = nodeid, {mark.name: mark for mark in marks}
        self.get_closest_marker = self.marks.get

    def add_marker(self, mark):
        self.marks[mark.name] = mark


def test_of_cases_that_are_long_together_some_stay_short(pytestconfig):
    choose = pytestconfig.pluginmanager.get_plugin(str(ROOT / "conftest.py")).pytest_collection_modifyitems
    four = [Case(f"a.py::test_four[{i}]", pytest.mark.few(4)) for i in range(10)]
    one = [Case(f"a.py::test_one[{i}]", pytest.mark.few(1)) for i in range(2)]
    many = [Case(f"a.py::test_many[{i}]", pytest.mark.few(8)) for i in range(3)]
    choose([*four, Case("a.py::test_long", pytest.mark.few(4), pytest.mark.long), *one, *many, Case("a.py::test_free")])
    short = [[at for at, case in enumerate(cases) if "long" not in case.marks] for cases in (four, one, many)]
    assert short == [[0, 3, 6, 9], [0], [0, 1, 2]]
