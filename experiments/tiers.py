"""Budgets per tier: accuracy where each record keeps its own budget, beside all at the lowest and the largest alone.

    PATE_DATA_HOME=... python experiments/tiers.py     # about a quarter of an hour of one core
    python experiments/tiers.py --table                # the page's table from the stored result
    python experiments/tiers.py --smoke                # does it run?

Adult, record voters with defaults, delta 1e-5: "tiers" weighs every record by its tier; "lowest" gives all records the
smallest budget; "top" takes the records of the largest budget alone, at that budget. Records, tiers, public and test
rows are the same for the three in one seed; noise is seeded too, so that a run can be repeated.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from _tables import Cell, by_command_line, taken

from pate import Budget, PATEClassifier, Queries, load_dataset

RESULT = Path(__file__).with_name("results") / "tiers.json"
PAGE = Path(__file__).parents[1] / "docs" / "tiers.md"
METHODS = ("tiers", "lowest", "top")


@dataclass(frozen=True)
class Config:
    """What is measured: numbers of records, the tiers' epsilons and shares, and pairs of seeds."""

    data: str = "adult"
    n: tuple[int, ...] = (1_000, 3_000, 30_000)
    epsilons: tuple[float, ...] = (0.1, 0.2, 0.3)
    shares: tuple[float, ...] = (0.34, 0.43, 0.23)
    delta: float = 1e-5
    seeds: int = 10


@cache
def data_of(name: str) -> Any:
    """Return the data set, read once."""
    return load_dataset(name, random_state=0)


def measure(n: int, seed: int, method: str, config: Config) -> dict[str, Any]:
    """Fit one method and return its accuracy on the test rows."""
    data, rng = data_of(config.data), np.random.default_rng(seed)
    rows = rng.permutation(len(data.private.y))[:n]
    names = np.array([f"epsilon {epsilon:g}" for epsilon in config.epsilons])
    sizes = np.diff(np.round(np.r_[0, np.cumsum(config.shares)] * len(rows)).astype(int))
    tiers = rng.permutation(np.repeat(names, sizes))
    budgets = {str(name): Budget(e, config.delta) for name, e in zip(names, config.epsilons, strict=True)}
    kept = rows[tiers == names[-1]] if method == "top" else rows
    budget: Any = budgets if method == "tiers" else Budget((max if method == "top" else min)(config.epsilons), 1e-5)
    clf = PATEClassifier(
        budget=budget, classes=range(len(data.classes)), voters="records", random_state=seed, noise_seed=seed,
        queries=Queries(force=True), measure=False,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # for curators of private tables
        held = {"tiers": tiers} if method == "tiers" else {}
        clf.fit(taken(data.private.X, kept), data.private.y[kept], X_public=data.public.X, **held)
    return {"accuracy": round(float((clf.predict(data.test.X) == data.test.y).mean()), 4), "records": len(kept)}


def cells(config: Config) -> Iterator[Cell]:
    """Yield what is to be measured."""
    for seed, n, method in product(range(config.seeds), config.n, METHODS):
        key = {"n": n, "seed": seed, "method": method}
        yield "rows", key, partial(measure, **key, config=config)


def table(told: dict[str, Any]) -> str:
    """Return means, and the paired differences with their standard errors, as Markdown."""
    by: dict[int, dict[str, dict[int, float]]] = {}
    for row in told["rows"]:
        by.setdefault(row["n"], {}).setdefault(row["method"], {})[row["seed"]] = row["accuracy"]
    lines = [
        "| records | tiers | all at the lowest | the largest tier alone | gain over lowest, points | over largest |",
        "|---" * 6 + "|",
    ]
    for n, found in by.items():
        means = [f"{np.mean(list(found[m].values())):.4f}" for m in METHODS]
        gains = []
        for other in METHODS[1:]:
            apart = 100 * np.array([found["tiers"][seed] - found[other][seed] for seed in sorted(found["tiers"])])
            gains.append(f"{apart.mean():+.2f} +- {apart.std(ddof=1) / np.sqrt(len(apart)):.2f}".replace("+-", "±"))
        lines.append(f"| {n:,} | " + " | ".join([*means, *gains]) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure, or write the page's table."""
    small = Config(n=(400,), seeds=2)
    by_command_line(str(__doc__), cells, table, config=Config(), smoke=small, result=RESULT, page=PAGE)


if __name__ == "__main__":
    main()
