"""The user guide stays short, and each of its chapters has what a chapter needs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pate

ROOT = Path(pate.__file__).parents[1]
PAGES = (ROOT / "docs" / "pages.md").read_text(encoding="utf-8")
#: Words as a reader counts them: marks of tables and of code are none.
MOST_WORDS = 31_000


def pages_under(heading: str) -> list[Path]:
    """The Markdown pages that docs/pages.md lists under a heading."""
    section = PAGES.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [(ROOT / "docs" / link).resolve() for link in re.findall(r"^- \[.+?\]\(([^)#:]+\.md)\)", section, re.M)]


CHAPTERS = pages_under("User guide")


def test_start_and_user_guide_have_at_most_31_000_words():
    pages = [page for page in [*pages_under("Start"), *CHAPTERS] if page.name != "README.md"]  # which has its own limit
    words = {page.name: len(re.findall(r"\S*\w\S*", page.read_text(encoding="utf-8"))) for page in pages}
    assert len(words) > 20
    assert sum(words.values()) <= MOST_WORDS, words


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.stem)
def test_a_chapter_has_code_something_to_look_at_and_what_can_go_wrong(page):
    text = page.read_text(encoding="utf-8")
    assert re.search(r"^```(python|sh)$", text, re.M), "code that runs alone"
    assert re.search(r"^\| *:?-+", text, re.M) or "![" in text, "a table or a figure"
    assert "\n## What can go wrong\n" in text
