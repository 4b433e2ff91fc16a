"""Who is ahead at the same epsilon, delta and split: what the pages of `pate demo` and `pate run` say of it.

    python experiments/who_wins.py

reads experiments/results/accuracy_vs_epsilon.json (records that vote, with nothing else said) and every DP-SGD of both
that file and dpsgd_recipes.json, takes the best DP-SGD, and writes pate/_templates/measured.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Config:
    """What is compared; a single seed has no spread, and decides nothing."""

    accuracies: Path = ROOT / "experiments" / "results" / "accuracy_vs_epsilon.json"
    recipes: Path = ROOT / "experiments" / "results" / "dpsgd_recipes.json"
    out: Path = ROOT / "pate" / "_templates" / "measured.json"
    pate: str = "records"
    dpsgd: tuple[str, ...] = ("dp-sgd", "dp-sgd-representation", "dp-sgd-best")
    least_seeds: int = 2
    #: DP-SGD was measured on one record of each person there: not the same question.
    left_out: tuple[str, ...] = ("diabetes130",)


def measured(config: Config) -> dict[str, Any]:
    """Return one entry for each data set and epsilon at which both were measured on the same split."""
    told = json.loads(config.accuracies.read_text(encoding="utf-8"))
    public = {p["data"]: p["n_public"] for p in told["problems"] if p["protocol"] == "standard"}
    cells: dict[tuple[str, float], dict[str, list[dict[str, Any]]]] = {}
    for row in told["summary"]:
        if row["protocol"] != "standard" or row["epsilon"] is None or row["data"] in config.left_out:
            continue
        side = "pate" if row["method"] == config.pate else "dpsgd" if row["method"] in config.dpsgd else None
        if side and row["accuracy"]["n"] >= config.least_seeds:
            cells.setdefault((row["data"], row["epsilon"]), {}).setdefault(side, []).append(row["accuracy"])
    runs: dict[tuple[str, float], list[float]] = {}
    for cell in json.loads(config.recipes.read_text(encoding="utf-8"))["cells"]:
        same = cell["public"] and cell["adjacency"] == "replace-one" and cell["n_public"] == public.get(cell["data"])
        same &= cell.get("contestant", "dp-sgd") == "dp-sgd"  # records and shards stand there too
        if same and cell["data"] not in config.left_out:
            runs.setdefault((cell["data"], cell["epsilon"]), []).append(cell["accuracy"])
    for key, values in runs.items():
        if len(values) >= config.least_seeds:
            entry = {"mean": statistics.fmean(values), "sd": statistics.stdev(values), "n": len(values)}
            cells.setdefault(key, {}).setdefault("dpsgd", []).append(entry)
    rows = [
        {"data": data, "epsilon": epsilon, "pate": _best(sides["pate"]), "dpsgd": _best(sides["dpsgd"])}
        for (data, epsilon), sides in sorted(cells.items())
        if {"pate", "dpsgd"} <= sides.keys()
    ]
    return {"delta": told["delta"], "sources": ["docs/accuracy.md", "docs/dpsgd-recipes.md"], "rows": rows}


def _best(found: list[dict[str, Any]]) -> dict[str, Any]:
    best = max(found, key=lambda cell: cell["mean"])
    return {"mean": round(best["mean"], 5), "sd": round(best["sd"], 5), "n": best["n"]}


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    config = Config()
    made = measured(config)
    config.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    print(f"{config.out.relative_to(ROOT)}: {len(made['rows'])} rows")


if __name__ == "__main__":
    main()
