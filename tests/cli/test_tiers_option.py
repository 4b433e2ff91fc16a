"""``pate label --tiers``: the column, an epsilon for each tier, and what the plan, statement and ledger say."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from test_cli import pate

GIVEN = {"private": "p.csv", "public": "u.csv", "target": "ill", "classes": "no,yes", "epsilon": 2, "delta": "1e-4",
         "tiers": "contract:gold=2,basic=0.5", "jobs": 1, "out": "labels.csv"}  # fmt: skip


@pytest.fixture
def tables(tmp_path):
    rng = np.random.default_rng(0)
    age = rng.normal(50, 10, 660).round(2)
    rows = pd.DataFrame({"age": age, "ill": np.where(age > 50, "yes", "no")})
    tiers = np.resize(["gold", "basic", "basic"], 600)
    rows[:600].assign(contract=tiers).to_csv(tmp_path / "p.csv", index=False)
    rows[600:].drop(columns="ill").to_csv(tmp_path / "u.csv", index=False)
    return tmp_path


def run(folder, *flags, **changes):
    said = {**GIVEN, **{name.replace("_", "-"): value for name, value in changes.items()}}
    return pate("label", *(p for k, v in said.items() if v is not None for p in (f"--{k}", v)), *flags, cwd=folder)


@pytest.mark.long
def test_each_tier_is_charged_its_own(tables):
    assert pate("ledger", "begin", "p.csv.ledger.sqlite", "--epsilon", 9, "--delta", "1e-4", cwd=tables).returncode == 0
    planned = run(tables, "--plan")
    assert planned.returncode == 0, planned.stderr
    assert "tiers      basic: epsilon = 0.5 at delta = 0.0001" in planned.stdout
    done = run(tables, "--yes")
    assert done.returncode == 0, done.stderr
    assert "column 'contract' of the private records names the tier" in " ".join(done.stderr.split())
    statement = json.loads((tables / "labels.statement.json").read_text(encoding="utf-8"))
    tiers = {tier["name"]: tier for tier in statement["tier_budgets"]}
    assert {name: tier["n"] for name, tier in tiers.items()} == {"gold": 200, "basic": 400}
    assert 0.499 < tiers["basic"]["epsilon"] <= 0.5
    assert statement["guarantee"]["epsilon"] == tiers["gold"]["epsilon"] <= 2
    shown = pate("ledger", "show", "p.csv.ledger.sqlite", cwd=tables).stdout
    assert "tier basic: weight" in shown
    again = run(tables, "--yes", out="again.csv")
    assert again.returncode == 0, again.stderr
    assert "nothing more" in again.stderr + again.stdout
    mixed = run(tables, "--yes", tiers=None, drop="contract", out="other.csv")
    assert "and this release has no tiers" in mixed.stderr


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tiers": "gold=2,basic=1"}, "must be COLUMN:TIER=EPSILON,..."),
        ({"tiers": "contract:gold=2,gold=1"}, "each tier once"),
        ({"tiers": "contract:gold=two"}, "COLUMN:TIER=EPSILON"),
        ({"tiers": "contract:gold=2,basic=0"}, "each epsilon above 0"),
        ({"tiers": "contract:gold=3,basic=1"}, "--epsilon must be the largest of --tiers, 3, got 2"),
        ({"tiers": "level:gold=2,basic=1"}, "tiers column 'level' is not in p.csv"),
        ({"tiers": "contract:gold=2,silver=1"}, "--tiers must name the tier of every record"),
        ({"voters": "dpsgd"}, "--tiers must be left out where --voters dpsgd"),
        ({"teachers": 9}, "--tiers must be left out where --voters shards"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(tables, changes, words):
    done = run(tables, "--yes", **changes)
    assert done.returncode == 2
    assert words in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not list(tables.glob("*ledger*"))
