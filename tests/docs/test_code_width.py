"""Code in README, pages, tutorial and gallery has at most 88 columns, which the site shows without scrolling."""

from __future__ import annotations

from pathlib import Path

import pytest

import pate

ROOT = Path(pate.__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
WIDEST = 88


def wide(page: str) -> list[str]:
    """The lines of a page's code, fenced or indented, that are too wide."""
    markdown = pytest.importorskip("markdown_it", reason='reads Markdown: pip install ".[docs]"')
    tokens = markdown.MarkdownIt("commonmark").parse(page)
    code = [line for token in tokens if token.type in ("fence", "code_block") for line in token.content.splitlines()]
    return [line for line in code if len(line) > WIDEST]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_in_pages_is_not_too_wide(page):
    assert wide(page.read_text(encoding="utf-8")) == []


def test_code_in_the_tutorial_is_not_too_wide(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_site"))
    import site_notebook

    cells = site_notebook.cells((ROOT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8"))
    lines = [line for kind, source in cells if kind == "code" for line in source.splitlines()]
    assert len(lines) > 20
    assert [line for line in lines if len(line) > WIDEST] == []


def test_examples_of_the_gallery_are_not_too_wide():
    examples = sorted((ROOT / "docs" / "gallery").glob("plot_*.py"))
    assert examples
    lines = [line for path in examples for line in path.read_text(encoding="utf-8").splitlines()]
    assert [line for line in lines if len(line) > WIDEST] == []


@pytest.mark.parametrize("page", ["```python\n{}\n```\n", "    {}\n", "- a\n\n  ```sh\n  {}\n  ```\n"])
def test_the_reader_of_code_sees_wide_lines(page):
    assert wide(page.format("x" * 88)) == []
    assert wide(page.format("x" * 89)) == ["x" * 89]
    assert wide("x" * 200) == []
