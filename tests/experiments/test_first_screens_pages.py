"""Figures of README, of the front page and of the page on the papers' pipeline are those of stored results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pate

ROOT = Path(pate.__file__).parents[1]


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))


def between(page: str, name: str) -> str:
    """What stands between a page's marks."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return text.partition(f"<!-- {name}:begin -->\n")[2].partition(f"\n<!-- {name}:end -->")[0]


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_what_records_reach_beside_others_is_that_of_the_stored_results(page):
    import first_screens

    told = json.loads(first_screens.STORED.read_text(encoding="utf-8"))
    assert between(page, "beside") == first_screens.beside_teachers(*told["config"]["beside"])


def test_the_page_of_the_papers_is_that_of_the_stored_result():
    import papers_pipeline

    told = json.loads(papers_pipeline.RESULT.read_text(encoding="utf-8"))
    assert between("docs/papers.md", "papers") == papers_pipeline.page(told)
    rows = papers_pipeline.joined(told)
    assert len(rows) == len(papers_pipeline.Config().releases)
    assert all(row["data_dependent"] < row["public"] for row in rows)
