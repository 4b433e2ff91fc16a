"""Numbers predicted from few records: never far below the released mean, and intervals that hold or are left out.

    PATE_DATA_HOME=... python experiments/small_numbers.py             # resumes; results/small_numbers.json
    PATE_DATA_HOME=... python experiments/small_numbers.py --smoke     # does it run?

The targets of `predict_numbers.py`, and "noise", which is the age of another person. `dpsgd`: `DPSGDRegressor` without
public rows, the ranges of columns as other rows have them; `records`: `PATERegressor` with 500 public rows. R2 on 4,000
test rows and the share of them within the 90% interval, None where it is left out; a fit that is refused
(`NotWorthwhileError`) has no figures. True noise. Development data: the limits of refusal were chosen on such tables.
The table goes to docs/numbers.md.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _tables import Cell, filled, write_page, written
from dpsgd_numbers import parts_of
from sklearn.metrics import r2_score

from pate import Budget, DPSGDRegressor, PATERegressor
from pate.exceptions import NotWorthwhileError

RESULT = Path(__file__).parent / "results" / "small_numbers.json"
PAGE = Path(__file__).parents[1] / "docs" / "numbers.md"


@dataclass(frozen=True)
class Config:
    """What is run."""

    targets: tuple[tuple[str, float, float], ...] = (
        ("age", 0, 100), ("hours", 0, 100), ("price", 4, 12), ("noise", 0, 100),
    )  # fmt: skip
    records: tuple[int, ...] = (1_000, 3_000)
    epsilons: tuple[float, ...] = (0.3, 1.0, 3.0)
    wide: tuple[float, ...] = (1.0, 4.0)
    seeds: tuple[int, ...] = (0, 1)
    delta: float = 1e-5


def score(c: Config, method: str, target: str, n: int, epsilon: float, wide: float, seed: int) -> dict[str, Any]:
    """Fit once, and return R2 on test rows and the share of them within the interval."""
    _, low, high = next(t for t in c.targets if t[0] == target)
    (rows, public, test), (y, _, y_test), schema = parts_of(
        "age" if target == "noise" else target, (n, 500, 4_000), seed
    )
    if target == "noise":
        shuffled = np.random.default_rng(seed)
        y, y_test = shuffled.permutation(y), shuffled.permutation(y_test)
    made = {"dpsgd": DPSGDRegressor, "records": PATERegressor}[method]
    reg = made(budget=Budget(epsilon, c.delta), target_range=(low, low + (high - low) * wide), random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # curators' warnings, and of doubts: the figures say what they say
        try:
            reg.fit(rows, y, **({"schema": schema} if method == "dpsgd" else {"X_public": public}))
        except NotWorthwhileError:
            return {"refused": True}
    value, lower, upper = reg.predict(test, return_interval=True)
    within = None if np.isnan(lower).any() else round(float(((lower <= y_test) & (y_test <= upper)).mean()), 4)
    return {"refused": False, "r2": round(float(r2_score(y_test, value)), 4), "within": within}


def cells(c: Config) -> Iterator[Cell]:
    """Yield every run."""
    for seed, (target, *_), n in product(c.seeds, c.targets, c.records):
        for method, epsilon, wide in product(("dpsgd", "records"), c.epsilons, c.wide):
            key = {"method": method, "target": target, "n": n, "epsilon": epsilon, "wide": wide, "seed": seed}
            yield "runs", key, partial(score, c, **key)
        parts_of.cache_clear()


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return for each method and budget how often it was refused, R2's mean and least, and the intervals' shares."""
    found = {}
    for (method, n, epsilon), part in pd.DataFrame(rows).groupby(["method", "n", "epsilon"], sort=False):
        sold = part[~part.refused]
        of_targets = sold.groupby("target")["r2"].mean() if len(sold) else pd.Series(dtype=float)
        within = sold["within"].dropna().astype(float) if len(sold) else pd.Series(dtype=float)
        found[f"{method}, {n} records, epsilon {epsilon:g}"] = {
            "refused": f"{int(part.refused.sum())} of {len(part)}",
            "r2": {target: round(float(r2), 3) for target, r2 in of_targets.items()},
            "least r2": None if sold.empty else float(sold.r2.min()),
            "without interval": len(sold) - len(within),
            "within": None
            if within.empty
            else [float(within.min()), round(float(within.mean()), 3), float(within.max())],
        }
    return found


def table(told: dict[str, Any]) -> str:
    """Return the means as Markdown, of what was not refused."""
    names = list(dict.fromkeys(row["target"] for row in told["runs"]))
    lines = [
        f"| estimator, records, epsilon | {' | '.join(names)} | least R2 | within |",
        "|---" * (len(names) + 3) + "|",
    ]
    for key, one in told["summary"].items():
        method, *rest = key.split(", ")
        label = ", ".join([{"dpsgd": "`DPSGDRegressor`", "records": "`PATERegressor`"}[method], *rest])
        if not one["r2"]:
            lines.append(f"| {label} |{' |' * len(names)} refused | |")
            continue
        within = one["within"]
        within = "no interval" if within is None else f"{within[0]:.0%} to {within[2]:.0%}"
        figures = [f"{one['r2'][name]:.2f}" for name in names] + [f"{one['least r2']:.2f}", within]
        lines.append(f"| {label} | {' | '.join(figures)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure what is missing, and print and store what follows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--page", action="store_true", help="compute nothing: the page's table from the stored JSON")
    asked = parser.parse_args()
    if asked.page:
        write_page(PAGE, "small", table(json.loads(RESULT.read_text(encoding="utf-8"))))
        return
    c = Config(targets=(("age", 0, 100),), records=(1_000,), epsilons=(3.0,), wide=(1.0,), seeds=(0,))
    c = c if asked.smoke else Config()
    result = None if asked.smoke else RESULT
    told = filled(c, ["runs"], cells(c), result)
    told["summary"] = summary(told["runs"])
    print(json.dumps(told["summary"], indent=1))
    if result is not None:
        result.write_text(written(told), encoding="utf-8")
        write_page(PAGE, "small", table(told))


if __name__ == "__main__":
    main()
