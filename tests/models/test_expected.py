"""What is expected comes from stored runs, grows with the evidence, and says where it is not known."""

from __future__ import annotations

import json
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pate
from pate.models.recipes import PublicFacts, choose, expected
from pate.models.recipes._expected import Expectation, by_hand

ROOT = Path(pate.__file__).parent
STORED = ROOT.parent / "experiments" / "results" / "rule_development.json"
fit_law = runpy.run_path(str(ROOT.parent / "experiments" / "_expected_law.py"))["fit_law"]
#: What makes a split: runs of one share their accuracy without noise.
SPLIT = ("table", "against", "n_public", "n_records", "seed")


@pytest.fixture(scope="module")
def law() -> dict[str, Any]:
    return dict(json.loads((ROOT / "models" / "recipes" / "expected.json").read_text()))


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """The stored runs with noise, as experiments/rule_development.py hands them to the law."""
    runs = json.loads(STORED.read_text())["runs"]
    quiet = {tuple(r[k] for k in SPLIT): r["accuracy"] for r in runs if r["epsilon"] is None}
    return [
        {
            **r,
            "table": r["table"] + (f"#{r['against']}" if r["against"] else ""),
            "family": r["table"] if r["table"].startswith("made-") else r["table"].partition("-")[0],
            "n_public": r["public_rows"],
            "without_noise": quiet[tuple(r[k] for k in SPLIT)],
        }
        for r in runs
        if r["epsilon"] is not None
    ]


def facts_of(r: dict[str, Any]) -> PublicFacts:
    mu = r["evidence"] * r["n_classes"] * 2**0.5 / r["n_records"]
    return PublicFacts(r["n_records"], r["n_classes"], mu, r["n_public"], r["kind"])


def known(**other: Any) -> PublicFacts:
    return replace(PublicFacts(5_000, 10, 0.5, 1_000), **other)


def test_the_constants_are_those_of_the_stored_runs(law: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    again = fit_law(rows, check=False)
    assert law.keys() == again.keys() | {"left_out"}
    for key in ("coefficients", "evidence"):
        assert law[key] == pytest.approx(again[key], abs=2e-3)
    for sort, widths in again["half_width"].items():
        assert law["half_width"][sort] == pytest.approx(widths, abs=0.01)
    for key in ("classes", "public_rows", "private_records", "kinds", "by_hand", "n_runs", "tables"):
        assert law[key] == again[key]


def test_the_law_did_what_it_should_on_tables_left_out(law: dict[str, Any]) -> None:
    """Of the runs that it called known nine in ten were inside; it called half of them known, within ten points."""
    left_out = law["left_out"]
    assert left_out["inside"] >= 0.9
    assert left_out["known"] >= 0.5
    assert left_out["median_width"] <= 0.1


def test_most_stored_runs_that_are_called_known_lie_inside(rows: list[dict[str, Any]]) -> None:
    inside = []
    for r in rows:
        facts = facts_of(r)
        said = expected(facts, choose(facts))
        if said.within:
            low, high = said.interval
            inside.append(low <= min(1.0, r["accuracy"] / r["without_noise"]) <= high + 1e-9)
    assert len(inside) > 0.5 * len(rows)
    assert np.mean(inside) > 0.9


def made(noise: float = 0.0) -> list[dict[str, Any]]:
    """Return runs of a law of our own on four tables."""
    rng = np.random.default_rng(0)
    found = []
    for table, m, n_public in (("a", 2, 100), ("b", 10, 1_000), ("c", 30, 300), ("d", 2, 900)):
        for e in np.geomspace(0.5, 500, 30):
            x = -1.0 + 0.8 * np.log(e) + 0.5 * (m == 2) + 0.1 * np.log(n_public)
            share = np.clip(1 / m + (1 - 1 / m) / (1 + np.exp(-x)) + noise * rng.uniform(-1, 1), 0, 1)
            found.append(
                {"table": table, "kind": "table", "evidence": e, "n_classes": m, "n_public": n_public, "n_records": 500,
                 "without_noise": 0.9, "accuracy": 0.9 * share, "by_hand": 0.6}
            )  # fmt: skip
    return found


def test_the_law_is_found_again_in_runs_made_by_it() -> None:
    law = fit_law(made(), check=False)
    assert law["coefficients"] == pytest.approx([-1.0, 0.8, 0.5, 0.1], abs=0.1)
    assert max(law["half_width"]["more"]) < 0.05
    assert law["classes"] == [2, 30]
    assert law["public_rows"] == [100, 1_000]


def test_intervals_are_wider_where_runs_scatter_and_never_grow_with_evidence() -> None:
    calm, wild = (fit_law(made(noise), check=False)["half_width"] for noise in (0.0, 0.1))
    for sort in ("two", "more"):
        assert wild[sort][-1] > calm[sort][-1]
        assert np.all(np.diff(wild[sort]) <= 0)


def test_a_run_that_beats_its_own_accuracy_without_noise_counts_as_all_of_it() -> None:
    beaten = [{**r, "without_noise": 0.5 * r["accuracy"]} for r in made()]
    even = [{**r, "without_noise": r["accuracy"]} for r in made()]
    assert fit_law(beaten, check=False)["coefficients"] == fit_law(even, check=False)["coefficients"]


@given(st.integers(2, 100), st.floats(0.1, 1e4), st.floats(1, 100), st.integers(1, 5_000), st.integers(1, 10))
@settings(max_examples=100)
def test_more_evidence_or_public_rows_are_never_expected_to_give_less(
    n_classes: int, evidence: float, factor: float, n_public: int, times: int
) -> None:
    facts = PublicFacts(1, n_classes, evidence * n_classes * 2**0.5, n_public)
    more = replace(facts, mu=facts.mu * factor, n_public=n_public * times)
    low, high = expected(facts, choose(facts)), expected(more, choose(more))
    assert 1 / n_classes <= low.share <= high.share <= 1
    assert 0 < high.plus_minus <= low.plus_minus < 1


@pytest.mark.parametrize("kind", ["table", "mixed", "text"])
def test_what_is_known_is_said_as_an_interval(kind: str) -> None:
    facts = known(kind=kind)
    said = expected(facts, choose(facts))
    assert said.within
    assert said.doubt == ""
    low, high = said.interval
    assert 0.8 < low < high <= 1
    assert str(said).startswith(f"{int(100 * low)}% to ")


@pytest.mark.parametrize(
    ("other", "doubt"),
    [
        ({"kind": "image"}, "images were not measured"),
        ({"n_classes": 500}, "500 classes are more than were measured"),
        ({"n_public": 30}, "30 public rows are fewer than were measured"),
        ({"n_units": 40, "mu": 50.0}, "40 private records are fewer than were measured"),
        ({"mu": 0.01}, "with so few records for this noise"),
    ],
)
def test_an_unknown_accuracy_is_reported_as_unknown(other: dict[str, Any], doubt: str) -> None:
    facts = known(**other)
    said = expected(facts, choose(facts))
    assert not said.within
    assert str(said).startswith(f"not known: {doubt}")


def test_another_student_than_the_rules_was_not_measured() -> None:
    facts = known()
    assert "'forest' was not measured" in str(expected(facts, replace(choose(facts), student="forest")))


def test_an_interval_ends_at_all_of_it() -> None:
    assert Expectation(0.99, 0.05, True).interval == (pytest.approx(0.94), 1.0)
    assert str(Expectation(0.995, 0.03, True)) == "96% to 100% of the accuracy without noise"
    assert str(Expectation(0.5, 0.3, False)).startswith("not known: ")


def test_labels_by_hand_are_named_where_evidence_is_small(law: dict[str, Any]) -> None:
    little, much = known(mu=0.02), known()
    assert by_hand(little) == tuple(law["by_hand"]["more"])
    assert by_hand(replace(little, n_classes=2)) == tuple(law["by_hand"]["two"])
    assert by_hand(much) is None
    for other in ({"n_public": 99}, {"kind": "image"}, {"n_classes": 500}):
        assert by_hand(replace(little, **other)) is None
    for held, n in law["by_hand"].values():
        assert held / n > 0.8
