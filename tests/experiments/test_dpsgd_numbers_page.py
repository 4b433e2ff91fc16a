"""The page of DP-SGD says what was measured of its numbers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_published_table_is_that_of_the_stored_result(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    import dpsgd_numbers

    try:
        stored = json.loads(dpsgd_numbers.RESULT.read_text(encoding="utf-8"))
        written = dpsgd_numbers.PAGE.read_text(encoding="utf-8")
        assert dpsgd_numbers.page(stored) in written, "run python experiments/dpsgd_numbers.py --page"
    finally:
        sys.modules.pop("dpsgd_numbers", None)
