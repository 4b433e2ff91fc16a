"""The pages of attacks say what their JSON says, and the JSON what was to be reached."""

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
    import attack_students

    yield attack_students
    sys.modules.pop("attack_students", None)


@pytest.fixture
def cells(script):
    return json.loads(script.RESULT.read_text(encoding="utf-8"))["cells"]


@pytest.mark.parametrize("short", [True, False])
def test_the_published_table_is_that_of_the_published_numbers(script, tmp_path, short):
    made = tmp_path / "page.md"
    published = (script.PAGE if short else script.WHOLE).read_text(encoding="utf-8")
    before, _, after = published.partition(script.BEGIN)
    made.write_text(f"{before}{script.BEGIN}\n\n| an old table |\n\n{script.END}{after.partition(script.END)[2]}")
    script.write_page(script.RESULT, made, short=short)
    assert made.read_text(encoding="utf-8") == published
    assert "| kernel |" in published


def test_what_was_to_be_reached_is(script, cells):
    digits = [cell for cell in cells if cell["data"] == "digits"]
    first = [cell for cell in digits if cell["seed"] == 0]
    assert {cell["kind"] for cell in first} == set(script.DIGITS.kinds)
    assert sum(cell["cpu_seconds"] for cell in first) / 2 < 120
    at_1, most = "true positives at 1% false positives", "most the claim allows at 1% false positives"
    for cell in digits:
        assert cell["n_targets"] >= 32
        assert not cell["refuted"]
        if cell["kind"] == "kernel":
            assert script.figure(cell, at_1, "lira")["low"] >= 0.25
        if cell["kind"].endswith("epsilon 1"):
            ceiling = script.figure(cell, most)["value"]
            assert ceiling < 0.03
            assert all(script.figure(cell, at_1, name)["value"] <= ceiling for name in script.ATTACKS)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["kernel", "network"])
def test_the_scripts_own_models_learn(script, name):
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = np.tile(rng.normal(size=(3, 64)), (30, 1)) + 0.3 * rng.normal(size=(90, 64))
    model = script.model_of(name)
    if name == "network":
        model.set_params(epochs=15, random_state=0)
    assert model.fit(X[:60], y[:60]).score(X[60:], y[60:]) > 0.9
