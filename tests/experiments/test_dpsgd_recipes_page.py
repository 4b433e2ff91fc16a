"""The page of DP-SGD's recipes says what its JSON says, and names anyone who wins."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
RESULTS = EXPERIMENTS / "results"


@pytest.fixture
def page_of(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    from _dpsgd_recipes_page import write_page

    yield write_page
    sys.modules.pop("_dpsgd_recipes_page", None)


def test_the_published_page_is_that_of_the_published_numbers(page_of, tmp_path):
    made = tmp_path / "page.md"
    page_of(RESULTS / "dpsgd_recipes.json", RESULTS / "accuracy_vs_epsilon.json", made)
    assert made.read_text(encoding="utf-8") == (EXPERIMENTS.parent / "docs" / "dpsgd-recipes.md").read_text(
        encoding="utf-8"
    )


KEY = {"data": "toy", "public": True, "adjacency": "replace-one", "epsilon": 1.0}


def last_line(page_of, folder, own, **alike):
    """The row of a question that DP-SGD answered with 80 and 90, others on the same rows, records on their own road."""
    said = {"name": "linear", "n_public": 9, "seconds": 1.0}
    cells = [KEY | said | {"accuracy": a, "seed": s} for s, a in enumerate((0.8, 0.9))]
    cells += [KEY | said | {"accuracy": a, "seed": 0, "contestant": name} for name, a in alike.items()]
    stored = {"questions": [KEY | {"target": 84.0, "tuned_on": True, "n_public": 9}], "cells": cells}
    row = {"data": "toy", "protocol": "standard", "epsilon": 1.0, "method": "records"}
    others = {
        "problems": [{"data": "toy", "protocol": "standard", "n_public": 9}],
        "summary": [row | {"accuracy": {"mean": own, "sd": 0.0, "n": 5}}],
    }
    for name, content in (("mine", stored), ("others", others)):
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    page_of(folder / "mine.json", folder / "others.json", folder / "page.md")
    lines = (folder / "page.md").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith("| toy"))


@pytest.mark.parametrize(("own", "winner"), [(0.95, "records, own road"), (0.75, "DP-SGD")])
def test_the_method_ahead_is_named(page_of, tmp_path, own, winner):
    line = last_line(page_of, tmp_path, own)
    assert "85.00 ± 7.07 (2)" in line
    assert "84.0 reached" in line
    assert line.endswith(f"| {winner} |")


def test_the_method_ahead_on_the_same_rows_is_named_beside_the_winner_of_all(page_of, tmp_path):
    line = last_line(page_of, tmp_path, 0.95, records=0.86, shards=0.5)
    assert "85.00 ± 7.07 (2) | 86.00 (1) | 50.00 (1) | records | **95.00 (5)** |" in line
    assert line.endswith("| records, own road |")
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "Highest mean, same rows, in 1 questions that all were asked: records 1." in page
    assert "Highest mean of all, in 1 questions that all were asked: records, own road 1." in page


def test_cells_of_other_contestants_do_not_count_as_dpsgd(page_of, tmp_path):
    line = last_line(page_of, tmp_path, 0.2, records=0.3, shards=0.99)
    assert "| **99.00 (1)** | shards |" in line
    assert line.endswith("| shards, same rows |")


def test_who_is_level_is_named_with_the_other(page_of, tmp_path):
    line = last_line(page_of, tmp_path, 0.2, records=0.85001)
    assert "**85.00 ± 7.07 (2)** | **85.00 (1)** | · | DP-SGD and records |" in line
    assert line.endswith("| DP-SGD and records, same rows |")
