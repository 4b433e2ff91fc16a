"""The tables of docs/numbers.md and docs/labels.md are those of the stored results."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["predict_numbers", "small_numbers", "several_labels"])
def test_the_published_table_is_that_of_the_stored_result(monkeypatch, name):
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    script = importlib.import_module(name)
    try:
        stored = json.loads(script.RESULT.read_text(encoding="utf-8"))
        assert script.table(stored) in script.PAGE.read_text(encoding="utf-8")
    finally:
        for made in (name, "dpsgd_numbers", "_tables"):
            sys.modules.pop(made, None)
