"""The page of private selection says what its JSON says."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pate import Budget
from pate.estimators.selection._statement import share_of
from pate.privacy.compose.repetitions import Repetitions
from pate.privacy.convert import gdp_from_budget

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    import private_selection

    yield private_selection
    sys.modules.pop("private_selection", None)


def test_the_published_tables_are_those_of_the_published_numbers(script, tmp_path):
    made = tmp_path / "page.md"
    published = script.PAGE.read_text(encoding="utf-8")
    begin = script.BEGIN.format("accuracies")
    made.write_text(published.partition(begin)[0] + begin + "| an old table |" + script.END, encoding="utf-8")
    script.write_page(script.RESULT, made)
    whole = made.read_text(encoding="utf-8")
    assert "an old table" not in whole
    assert published.startswith(whole)


def test_the_stored_laws_are_those_that_a_selection_is_priced_by(script):
    stored = json.loads(script.RESULT.read_text(encoding="utf-8"))["laws"]
    assert [law["distribution"] for law in stored] == ["poisson", "geometric", "logarithmic"]
    for law in stored:
        share = share_of(Repetitions(law["distribution"], script.MEAN_RUNS), Budget(1.0, script.DELTA))
        assert law["mu"] == pytest.approx(gdp_from_budget(share.epsilon, script.DELTA), rel=0.006)


def test_no_stored_cell_tells_how_long_a_selection_took(script):
    cells = json.loads(script.RESULT.read_text(encoding="utf-8"))["cells"]
    assert any(cell["fitted"] == "selected" for cell in cells)
    assert not any("second" in name for cell in cells for name in cell)


def test_a_selection_that_found_nothing_is_reported(script):
    key = {"data": "toy", "among": "rates", "epsilon": 1.0, "n_private": 9}
    cells = [key | {"fitted": "slow", "accuracy": 0.5, "seed": s} for s in (0, 1)]
    cells += [key | {"fitted": "selected", "accuracy": None, "seed": 0}]
    table = script.measured({"questions": [key | {"mean_runs": 2.0}], "cells": cells})
    assert (
        table.splitlines()[-1]
        == "| toy, 9 records | 1 | nothing (1) | nobody (1) | slow: 50.0 ± 0.0 | slow: 50.0 ± 0.0 |"
    )
