"""What the law test finds, and how seldom it is wrong, as it was measured."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from pate.audit.laws._registry import telling_height

ROOT = Path(__file__).parents[2]

#: Median releases of each histogram within which a fault is to be found.
PROMISED = {
    "sigma x 0.9": 1_500,
    "threshold's sigma x 0.9": 1_500,
    "both x 0.9": 1_500,
    "sigma x 0.95": 7_000,
    "threshold's sigma x 0.95": 7_000,
    "both x 0.95": 7_000,
    "threshold noise on every count": 100,
    "unequal noise, 0.9 to 1.1, with two and 1,000 classes": 300,
    "noise on non-empty classes only": 500,
}


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    import audit_power

    yield audit_power
    sys.modules.pop("audit_power", None)


@pytest.fixture
def stored(script):
    return json.loads(script.RESULT.read_text(encoding="utf-8"))


def test_the_stored_result_is_whole(script, stored):
    assert stored["config"] == json.loads(json.dumps(asdict(script.Config()))), "run python experiments/audit_power.py"
    wanted = [(table, key) for table, key, _ in script.rows(script.Config())]
    assert len(wanted) == sum(len(stored[table]) for table in ("heights", "power", "false_alarms"))
    assert all(any(key.items() <= row.items() for row in stored[table]) for table, key in wanted)


def test_faults_are_found_as_soon_as_promised(stored):
    found = {row["fault"]: row for row in stored["power"]}
    for fault, most in PROMISED.items():
        assert found[fault]["found"] == found[fault]["of"], fault
        assert found[fault]["median"] <= most, fault
        assert found[fault]["median_seconds"] < 1, fault


def test_nothing_honest_was_refuted(stored):
    ten = [row for row in stored["false_alarms"] if row["n_classes"] == 10]
    assert sum(row["runs"] for row in ten) >= 1_000
    for row in stored["false_alarms"]:
        assert row["refuted"] == 0
        assert row["releases"] == 20_000
        # Ville: it ever reaches x with probability exp(-x) at most.
        assert row["largest_log_e"] < 12


def test_the_bank_uses_the_heights_that_were_found(stored):
    for row in stored["heights"]:
        assert telling_height(row["n_classes"]) == pytest.approx(row["height"])


def test_a_killed_run_goes_on_where_it_was(script, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "FAULTS", {"both x 0.9": script.FAULTS["both x 0.9"]})
    monkeypatch.setattr(script, "honest", lambda *given: {"refuted": 0})
    result, measured = tmp_path / "power.json", []
    small = script.Config(seeds=2, heights=(2,))
    honest_power = script.power
    monkeypatch.setattr(script, "power", lambda *given: measured.append(given) or honest_power(*given))
    first = script.run(small, result)
    assert json.loads(result.read_text(encoding="utf-8"))["power"] == first["power"]
    script.run(small, result)
    assert len(measured) == 1
    assert first["power"][0]["found"] == 2
