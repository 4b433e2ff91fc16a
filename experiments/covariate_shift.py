"""How often the curator is warned that private rows stand elsewhere: false alarms, and other units that are found.

    PATE_DATA_HOME=... python experiments/covariate_shift.py --tables FOLDER   # some minutes, then the page
    python experiments/covariate_shift.py --page                                 # the table of docs/audit-faults.md
    python experiments/covariate_shift.py --smoke                                # does it run?

FOLDER has development tables (CSV, a column ``target`` or ``price``). The threshold of ``pate.data._shift`` was chosen
on these tables, so that these are figures of development, not of tables that nobody had seen.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _tables import write_page

from pate import load_dataset
from pate._core.provenance import provenance
from pate.data import _shift

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "experiments" / "results" / "covariate_shift.json"
PAGE = ROOT / "docs" / "audit-faults.md"
Turn = Callable[[pd.DataFrame], pd.DataFrame]
UNITS: dict[str, Turn] = {
    "times 10": lambda v: v * 10,
    "a 16th": lambda v: v / 16,
    "a 100th": lambda v: v / 100,
    "a scaler on one side": lambda v: (v - v.mean()) / v.std().replace(0, 1),
    "logarithms": lambda v: np.sign(v) * np.log1p(v.abs()),
    "inches for centimetres": lambda v: v / 2.54,
    "pounds for kilograms": lambda v: v * 2.2046,
    "Fahrenheit for Celsius": lambda v: v * 1.8 + 32,
}


@dataclass(frozen=True)
class Config:
    """Everything that is fixed before a table is looked at."""

    named: tuple[str, ...] = ("adult", "diabetes130", "spambase", "pendigits", "optdigits")
    repeats: int = 8
    public: tuple[int, ...] = (30, 100, 300, 1000)
    columns: int = 3
    seed: int = 1


def tables(config: Config, folder: Path | None) -> Iterator[tuple[str, pd.DataFrame, np.ndarray]]:
    """Yield name, features and target."""
    for file in sorted(folder.glob("*.csv.gz")) if folder is not None else ():
        frame = pd.read_csv(file, na_values=["?", ""])
        y = frame.pop("price" if "price" in frame else "target")
        if len(frame.columns) > 1:  # texts are not compared
            yield file.name.partition(".")[0], frame, y.to_numpy()
    for name in config.named:
        part = load_dataset(name).private
        yield name, pd.DataFrame(part.X).rename(columns=str).reset_index(drop=True), np.asarray(part.y)


def most(private: pd.DataFrame, public: pd.DataFrame) -> float:
    """Return the excess of the column that stands most elsewhere."""
    found = _shift._shifts(_shift._pairs(private, public, None))
    return max((shift.excess for shift in found), default=0.0)


def looked(X: pd.DataFrame, y: np.ndarray, config: Config, rng: np.random.Generator) -> Iterator[tuple[str, float]]:
    """Yield what was done to the public rows, and the excess."""
    n = len(X)

    def against(rows: np.ndarray) -> float:
        return most(X.iloc[np.setdiff1d(np.arange(n), rows)], X.iloc[rows])

    numbers = [c for c in X if pd.api.types.is_numeric_dtype(X[c])]
    spread = [c for c in numbers if X[c].nunique() >= 10 and X[c].value_counts(normalize=True).iloc[0] < 0.5]
    for m in (m for m in config.public if m <= n / 3):
        yield f"honest split, {m} public rows", against(rng.permutation(n)[:m])
    m = min(300, n // 8)
    for column in rng.permutation(numbers)[: config.columns]:
        ranks = X[column].astype(float).rank(pct=True, method="first").fillna(0.5)
        for third in (ranks < 1 / 3, ranks > 2 / 3, (ranks > 1 / 3) & (ranks < 2 / 3)):
            yield "public rows of one third of a column", against(rng.permutation(np.flatnonzero(third))[:m])
        weight = 1 / (1 + np.exp(-6 * (ranks - 0.5)))
        yield "public rows leaning to one end of a column", against(rng.choice(n, m, False, weight / weight.sum()))
    if len(np.unique(y)) < 50:
        weight = np.where(y == rng.choice(np.unique(y)), 20.0, 1.0)
        yield "public rows 20 times as often of one class", against(rng.choice(n, m, False, weight / weight.sum()))
    if not numbers:
        return
    order, Z = rng.permutation(n), X[numbers].astype(float)
    public, private = Z.iloc[order[:m]], Z.iloc[order[m:]]
    for units, turn in UNITS.items():
        for here, there in ((private, turn(public)), (turn(private), public)):
            yield f"whole table: {units}", most(here, there)
            for column in spread:
                yield f"one column: {units}", most(here[[column]], there[[column]])


def measure(config: Config, folder: Path | None) -> dict[str, Any]:
    """Return how often each gave a warning."""
    rng, found, names = np.random.default_rng(config.seed), {}, []
    for name, X, y in tables(config, folder):
        names.append(name)
        for _ in range(config.repeats):
            for what, excess in looked(X, y, config, rng):
                found.setdefault(what, []).append(excess > _shift._MOST)
        print(name, flush=True)
    rows = [{"what": what, "told": int(sum(flags)), "of": len(flags)} for what, flags in found.items()]
    return {"config": asdict(config), "tables": names, "rows": rows, "provenance": provenance()}


def table(stored: dict[str, Any]) -> str:
    """Return the page's table."""
    share = {row["what"]: f"{100 * row['told'] / row['of']:.1f}% of {row['of']:,}" for row in stored["rows"]}
    lines = ["| what differs | warned of |", "|---|---|"]
    lines += [f"| {what} | {n} |" for what, n in share.items() if ":" not in what]
    lines += ["", "| other units on one side | all columns, warned of | one column, warned of |", "|---|---|---|"]
    lines += [f"| {units} | {share[f'whole table: {units}']} | {share[f'one column: {units}']} |" for units in UNITS]
    return "\n".join(lines)


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, help="folder of development tables")
    parser.add_argument("--page", action="store_true", help="the page from the stored result alone")
    parser.add_argument("--smoke", action="store_true", help="does it run?")
    given = parser.parse_args()
    if given.smoke:
        stored = measure(Config(named=("pendigits",), repeats=1), None)
        print(table(stored))
        return
    if not given.page:
        stored = measure(Config(), given.tables)
        RESULT.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    write_page(PAGE, "shift", table(json.loads(RESULT.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
