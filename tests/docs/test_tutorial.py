"""The tutorial runs as it stands, and is kept without what it gave."""

from __future__ import annotations

from pathlib import Path

import pytest

import pate

ROOT = Path(pate.__file__).parents[1]
FILE = ROOT / "docs" / "tutorial.ipynb"


@pytest.fixture
def site_notebook(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_site"))
    import site_notebook as module

    return module


def test_it_is_a_notebook_without_outputs():
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(FILE, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(code) > 5
    assert [(cell.outputs, cell.execution_count) for cell in code] == [([], None)] * len(code)


@pytest.mark.long
def test_it_runs_and_shows_what_its_text_says(site_notebook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, shown = {"__name__": "__main__"}, []
    for kind, source in site_notebook.cells(FILE.read_text(encoding="utf-8")):
        if kind == "code":
            shown.append(site_notebook.shown(*site_notebook.run(source, names)))
    assert all(shown), "a cell shows nothing"
    statement, table = names["clf"].statement_, names["table"].set_index(["who", "epsilon"])["accuracy"]
    assert statement.guarantee.epsilon <= 1.0
    assert not statement.seeded
    assert table["PATE", 1.0] > 0.8
    floor, ceiling = table["commonest class"].item(), table["without privacy"].item()
    assert floor < table["PATE", 0.3] < ceiling
    assert list(tmp_path.iterdir()) == []
