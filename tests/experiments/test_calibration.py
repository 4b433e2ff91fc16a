"""What docs/records.md says of calibration and of balanced decisions is what was measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    import calibration

    yield calibration
    for name in ("calibration", "measured_accuracy", "_tables"):
        sys.modules.pop(name, None)


@pytest.fixture
def told(script):
    return json.loads(script.RESULT.read_text(encoding="utf-8"))


def test_the_stored_summary_is_of_the_stored_fits(script, told):
    assert script.summary(told["fits"]) == told["summary"]


def test_the_page_tells_what_was_measured(told):
    page = (ROOT / "docs" / "records.md").read_text(encoding="utf-8")
    found, rare = told["summary"]["measured"], told["summary"]["imbalanced"]
    before, after = (f"{100 * value:.1f}" for value in found["error"])
    assert f"from {before} to {after} points" in page
    low, high = (f"{100 * value:.1f}" for value in rare["balanced"])
    assert f"from {low} to {high}" in page


def test_errors_of_calibration_are_what_they_are_called(script):
    p, codes = np.array([[0.9, 0.1]] * 10), np.array([0] * 9 + [1])
    assert script.calibration_error(p, codes) == pytest.approx(0.0)
    assert script.calibration_error(p, 1 - codes) == pytest.approx(0.8)
    assert script.balanced(np.zeros(10, dtype=int), codes) == 0.5
