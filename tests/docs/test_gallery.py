"""Every example of the gallery runs, says nothing that it does not check, and is listed."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest

import pate

ROOT = Path(pate.__file__).parents[1]
FOLDER = ROOT / "docs" / "gallery"
EXAMPLES = sorted(FOLDER.glob("plot_*.py"))
#: Runs in ``make test`` too, as the one of its kind.
SAMPLE = "plot_table"


def marks(path: Path) -> list[pytest.MarkDecorator]:
    return [pytest.mark.long, *([pytest.mark.sample] if path.stem == SAMPLE else [])]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", [pytest.param(p, marks=marks(p), id=p.stem) for p in EXAMPLES])
def test_an_example_runs_and_ends_in_a_picture(path, tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib", reason='draws pictures: pip install ".[plots]"')
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    plt.close("all")
    try:
        runpy.run_path(str(path), run_name="__main__")
        assert plt.get_fignums() == [1]
        plt.figure(1).canvas.draw()  # as the site does, where drawing may warn
    finally:
        plt.close("all")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_checks_what_it_claims_and_is_short(path):
    text = path.read_text(encoding="utf-8")
    assert [node for node in ast.parse(text).body if isinstance(node, ast.Assert)]
    assert 30 <= len(text.splitlines()) <= 80


def test_the_list_has_every_example_with_its_title(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_site"))
    import site_gallery

    titles = {path.stem: ast.get_docstring(ast.parse(path.read_text())).splitlines()[0] for path in EXAMPLES}
    assert len(titles) == 10
    assert site_gallery.listed() == titles
    assert [site_gallery.place(f"{name}.py") for name in (*site_gallery.listed(), "plot_new")] == list(range(11))


def test_pages_that_examples_point_to_are_there():
    texts = "".join(path.read_text(encoding="utf-8") for path in EXAMPLES)
    pages = re.findall(r":doc:`/([^`]+)`", texts)
    assert len(pages) >= 10
    assert [page for page in pages if not (ROOT / f"{page}.md").exists()] == []


def test_the_picture_of_all_is_small():
    assert 10_000 < (ROOT / "docs" / "images" / "gallery.png").stat().st_size <= 200_000
