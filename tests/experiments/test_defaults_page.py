"""The tables of what the defaults reach are those of the stored result."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    import defaults

    yield defaults
    for name in ("defaults", "_tables"):
        sys.modules.pop(name, None)


def test_the_published_tables_are_those_of_the_stored_result(script):
    stored = json.loads(script.RESULT.read_text(encoding="utf-8"))
    for name, (page, table) in script.TABLES.items():
        assert f"<!-- {name}:begin -->\n{table(stored)}\n<!-- {name}:end -->" in page.read_text(encoding="utf-8")
