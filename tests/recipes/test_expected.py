"""What is expected comes from stored runs, grows with the evidence, and says where it is a guess."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pate
from pate.recipes import PublicFacts, choose, expected
from pate.recipes._expected import fit_law

ROOT = Path(pate.__file__).parent


@pytest.fixture(scope="module")
def runs() -> list[dict[str, Any]]:
    stored = ROOT.parent / "experiments" / "results" / "rule_development.json"
    return list(json.loads(stored.read_text())["runs"])


def test_the_constants_are_those_of_the_stored_runs(runs: list[dict[str, Any]]) -> None:
    law, again = json.loads((ROOT / "recipes" / "expected.json").read_text()), fit_law(runs)
    assert law.keys() == again.keys()
    for key, value in again.items():
        assert law[key] == (pytest.approx(value, abs=2e-3) if key not in ("tables",) else value)


def test_most_stored_runs_lie_within_twice_what_is_said(runs: list[dict[str, Any]]) -> None:
    inside = []
    for r in runs:
        facts = PublicFacts(1, r["n_classes"], r["evidence"] * r["n_classes"] * 2**0.5, r["n_public"])
        said = expected(facts, choose(facts))
        inside.append(abs(r["accuracy"] / r["without_noise"] - said.share) <= 2 * said.plus_minus)
    assert np.mean(inside) > 0.85


def test_the_law_is_found_again_in_runs_made_by_it() -> None:
    made = [
        {"table": t, "evidence": e, "n_classes": m, "without_noise": 0.9, "accuracy":
         0.9 * (1 / m + (1 - 1 / m) / (1 + np.exp(1.0 - 0.8 * np.log(e))))}
        for t, m in (("a", 2), ("b", 10), ("c", 30)) for e in (0.5, 2.0, 8.0, 32.0, 128.0)
    ]  # fmt: skip
    law = fit_law(made)
    assert law["coefficients"] == pytest.approx([-1.0, 0.8, 0.0], abs=0.02)
    assert max(law["error"]) < 0.01


@given(st.integers(2, 100), st.floats(0.1, 1e4), st.floats(1, 100))
@settings(max_examples=100, deadline=None)
def test_more_evidence_is_never_expected_to_give_less(n_classes: int, evidence: float, factor: float) -> None:
    facts = PublicFacts(1, n_classes, evidence * n_classes * 2**0.5, 1_000)
    more = replace(facts, mu=facts.mu * factor)
    low, high = expected(facts, choose(facts)), expected(more, choose(more))
    assert 1 / n_classes <= low.share <= high.share <= 1
    assert 0 < low.plus_minus < 1


def test_what_was_never_run_is_called_a_guess() -> None:
    facts = PublicFacts(5_000, 10, 0.14, 1_000)
    known = expected(facts, choose(facts))
    assert known.within
    for other in (replace(facts, kind="image"), replace(facts, n_classes=500), replace(facts, mu=1e3)):
        guess = expected(other, choose(other))
        assert not guess.within
        assert "a guess" in str(guess)
    assert expected(replace(facts, kind="image"), choose(facts)).plus_minus == pytest.approx(2 * known.plus_minus)
