"""What was measured of canaries on real data: the chain, and how near a crafted pair comes to the worst case."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "experiments" / "results" / "audit_pairs.json"
STORED = json.loads(FILE.read_text(encoding="utf-8"))
WORST = max(w["epsilon"] for w in STORED["worst_case"])


@pytest.mark.parametrize("row", STORED["rows"], ids=lambda r: f"{r['data']}-{r['seed']}-{r['canary']}-{r['queries']}")
def test_each_measured_chain_stands(row):
    assert 0 <= row["pair"] <= row["data-dependent"] <= row["public"]
    assert row["pair"] == max(row["pairs"])
    assert row["share of the public Renyi curve"] <= 1  # never above rho*


@pytest.mark.parametrize("data", sorted({r["data"] for r in STORED["rows"]}))
def test_a_crafted_record_and_query_come_within_a_hundredth_of_the_worst_case(data):
    crafted = [r["pair"] for r in STORED["rows"] if r["data"] == data and r["adversary"] == "knows the rest"]
    assert 0.99 * WORST <= max(crafted) <= 1.001 * WORST
    plain = [r["pair"] for r in STORED["rows"] if r["data"] == data and r["queries"] == "given"]
    assert max(plain) < 0.5 * max(crafted)


def test_the_worst_repeated_pair_is_the_law_s():
    """A vote moved between two classes that are alone, at the gap that is worst."""
    from pate import GNMax
    from pate.audit import pair

    config = STORED["config"]
    worst = max(STORED["worst_case"], key=lambda w: w["epsilon"])
    ahead = (config["n_teachers"] + worst["votes ahead"]) // 2
    counts = [[ahead, config["n_teachers"] - ahead]] * config["n_queries"]
    moved = [[a - 1, b + 1] for a, b in counts]
    found = pair(counts, moved, GNMax(config["sigma"]), delta=config["delta"], published=True)
    assert found["epsilon of the pair"].value == pytest.approx(worst["epsilon"], rel=1e-9)
