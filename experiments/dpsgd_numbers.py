"""How well DP-SGD predicts a number: the planner's recipe, six settings by hand, and ranges that are too wide.

    PATE_DATA_HOME=... python experiments/dpsgd_numbers.py             # resumes; results/dpsgd_numbers.json
    PATE_DATA_HOME=... python experiments/dpsgd_numbers.py --smoke     # does it run?
    PATE_DATA_HOME=... python experiments/dpsgd_numbers.py --page      # the page, of what was measured so far

The targets of `predict_numbers.py`, 12,000 private records and 1,500 public rows: without public rows (`declared`: the
ranges of columns as the public rows have them; not of days in hospital, where columns have one value each) and with
them. R2 on 4,000 test rows, the share of them within the 90% interval, and R2 as the private records tell it; one seed,
with true noise: development data, on which the recipe's numbers were chosen. The table goes to docs/dpsgd.md.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _tables import Cell, filled, taken, write_page
from predict_numbers import rows_of
from sklearn.metrics import r2_score

from pate import Budget, DPSGDRegressor

RESULT = Path(__file__).parent / "results" / "dpsgd_numbers.json"
PAGE = Path(__file__).parents[1] / "docs" / "dpsgd.md"


@dataclass(frozen=True)
class Config:
    """What is run."""

    targets: tuple[tuple[str, float, float], ...] = (
        ("age", 0, 100), ("hours", 0, 100), ("price", 4, 12), ("days", 0, 20),
    )  # fmt: skip
    sizes: tuple[int, ...] = (12_000, 1_500, 4_000)
    epsilons: tuple[float, ...] = (1.0, 3.0)
    norms: tuple[float, ...] = (0.2, 0.5)
    rates: tuple[float, ...] = (0.6, 1.5, 3.0)
    wide: tuple[float, ...] = (1.0, 10.0, 100.0)
    searched: bool = True
    delta: float = 1e-5
    seed: int = 100


@cache
def parts_of(target: str, sizes: tuple[int, ...], seed: int) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """Return private, public and test rows, their numbers, and what the public columns hold."""
    X, y = rows_of(target)
    cuts = np.split(np.random.default_rng(seed).permutation(len(y)), np.cumsum(sizes))[: len(sizes)]
    rows = [taken(X, cut).reset_index(drop=True) for cut in cuts]
    public, schema = rows[1], {}
    for name in public:
        column = public[name].dropna()
        numeric = column.dtype.kind in "biuf"
        schema[name] = (
            (float(column.min()), float(column.max())) if numeric else sorted(map(str, column.unique()))[:200]
        )
    return rows, [y[cut] for cut in cuts], schema


def score(c: Config, target: str, way: str, epsilon: float, wide: float, **settings: float) -> dict[str, Any]:
    """Fit once, and return R2 on test rows."""
    _, low, high = next(t for t in c.targets if t[0] == target)
    (rows, public, test), (y, _, y_test), schema = parts_of(target, c.sizes, c.seed)
    where = {"schema": schema} if way == "declared" else {"X_public": public}
    reg = DPSGDRegressor(
        budget=Budget(epsilon, c.delta), target_range=(low, low + (high - low) * wide), random_state=0, **settings
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reg.fit(rows, y, **where)
    value, lower, upper = reg.predict(test, return_interval=True)
    told = reg.measured_
    return {
        "r2": round(float(r2_score(y_test, value)), 4),
        "within": round(float(((lower <= y_test) & (y_test <= upper)).mean()), 4),
        "measured": None if told is None or told.r2 is None else round(told.r2, 4),
        "measured_error": None if told is None or told.r2_error is None else round(told.r2_error, 4),
        "learning_rate": round(reg.recipe_.learning_rate, 3),
    }


def cells(c: Config) -> Iterator[Cell]:
    """Yield every run: the recipe's, with ranges that are too wide; then those by hand."""
    for by_hand in (False, True):
        for target, *_ in c.targets:
            for way in ("declared", "public")[target == "days" :]:
                for epsilon in c.epsilons:
                    key = {"target": target, "way": way, "epsilon": epsilon}
                    run = partial(score, c, target, way, epsilon)
                    for wide in () if by_hand else c.wide:
                        yield "recipe", key | {"wide": wide}, partial(run, wide)
                    for norm, rate in product(c.norms, c.rates) if by_hand else ():
                        settings = {"max_grad_norm": norm, "learning_rate": rate}
                        yield "by hand", key | {"norm": norm, "rate": rate}, partial(run, 1.0, **settings)
            parts_of.cache_clear()


def summary(told: dict[str, Any]) -> dict[str, Any]:
    """Return R2 of the recipe by width, and the best by hand, for each target and budget."""
    recipe, by_hand = pd.DataFrame(told["recipe"]), told["by hand"]
    found: dict[str, Any] = {}
    for (target, way, epsilon), part in recipe.groupby(["target", "way", "epsilon"], sort=False):
        tight, key = part.loc[part.wide.idxmin()], {"target": target, "way": way, "epsilon": epsilon}
        found[f"{target}, {way}, {epsilon:g}"] = {
            "by width": {f"{row.wide:g}": row.r2 for row in part.itertuples()},
            "best by hand": max((row["r2"] for row in by_hand if key.items() <= row.items()), default=None),
            "within": [row.within for row in part.itertuples()],
            "measured": [tight.measured, tight.measured_error],
        }
    return found


def page(told: dict[str, Any]) -> str:
    """Return the table of the page: a row for a target with its rows, and its epsilons in one cell."""
    asked: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for name, one in told["summary"].items():
        target, _, epsilon = name.rpartition(", ")
        asked.setdefault(target, []).append((epsilon, one))
    lines = ["| target, rows | epsilon | R2 | R2, range 100 times too wide | R2 told | within 90% |", "|---" * 6 + "|"]
    for target, found in asked.items():
        widths = [list(one["by width"].values()) for _, one in found]
        r2, wide = ([f"{by[place]:.2f}" for by in widths] for place in (0, -1))
        measured = [f"{value:.2f} ± {error:.2f}" for value, error in (one["measured"] for _, one in found)]
        shares = [share for _, one in found for share in one["within"]]
        cells = ["/".join(cell) for cell in ([e for e, _ in found], r2, wide, measured)]
        lines.append(f"| {target} | {' | '.join(cells)} | {min(shares):.0%} to {max(shares):.0%} |")
    return "\n".join(lines)


def main() -> None:
    """Measure what is missing, and print and store what follows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--page", action="store_true", help="only write the page, of what was measured so far")
    asked = parser.parse_args()
    c = Config()
    if asked.smoke:
        c = Config(
            targets=(("age", 0, 100),),
            sizes=(2_000, 300, 500),
            epsilons=(3.0,),
            norms=(0.5,),
            rates=(1.0,),
            wide=(1.0,),
        )
    result = None if asked.smoke else RESULT
    told = filled(c, ["recipe", "by hand"], () if asked.page else cells(c), result)
    told["summary"] = summary(told)
    print(json.dumps(told["summary"], indent=1))
    if result is not None:
        result.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        write_page(PAGE, "numbers", page(told))


if __name__ == "__main__":
    main()
