"""Few public rows, and public rows drawn elsewhere: record voters beside DP-SGD, both by default, on known tables.

    PATE_DATA_HOME=... python experiments/public_rows.py --tables FOLDER   # hours; a run that was cut off goes on
    python experiments/public_rows.py --page                                 # the table of docs/record-recipes.md
    PATE_DATA_HOME=... python experiments/public_rows.py --smoke            # does it run?

FOLDER has development tables (CSV, a column ``target``). A lowest third is the third of all rows that are lowest along
a principal direction of the standardised numbers: public rows come from it, private and test rows from everywhere.
The rule of record voters was chosen on these tables: figures of development, not of tables that nobody had seen.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _tables import Cell, filled
from measured_accuracy import rows_of

from pate import Budget, PATEClassifier
from pate.exceptions import CuratorWarning, PateWarning

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "experiments" / "results" / "public_rows.json"
PAGE = ROOT / "docs" / "record-recipes.md"
BEGIN, END = "<!-- public-rows:begin -->", "<!-- public-rows:end -->"
WORDS = {"random": "at random", "first": "lowest third along the first principal direction",
         "second": "lowest third along the second"}  # fmt: skip


@dataclass(frozen=True)
class Config:
    """Fixed before any row is looked at."""

    #: Table, class that is told from the rest (or none).
    tables: tuple[tuple[str, str], ...] = (
        ("vowel", ""), ("pima", ""), ("german", ""), ("churn", ""), ("credit", ""), ("income", ""), ("spambase", ""),
        ("optdigits", ""), ("pendigits", ""), ("optdigits", "8"), ("pendigits", "9"),
    )  # fmt: skip
    #: How public rows are drawn, and how many.
    draws: tuple[tuple[str, int], ...] = (
        ("random", 1000), ("random", 100), ("random", 30), ("first", 1000), ("second", 1000)
    )  # fmt: skip
    epsilons: tuple[float, ...] = (1.0,)
    seeds: tuple[int, ...] = (100, 101)
    delta: float = 1e-5
    most_private: int = 6_000


def cut(X: Any, how: str, n_public: int, seed: int) -> tuple[np.ndarray[Any, Any], ...]:
    """Return the numbers of private, public and test rows."""
    n, rng = len(X), np.random.default_rng(seed)
    test, rest = np.split(rng.permutation(n), [min(2_000, n // 4)])
    pool = rest
    if how != "random":
        numbers = X.select_dtypes("number").to_numpy(float) if isinstance(X, pd.DataFrame) else np.asarray(X, float)
        Z = numbers[rest]
        Z = np.nan_to_num((Z - np.nanmean(Z, axis=0)) / (np.nanstd(Z, axis=0) + 1e-9))
        along = Z @ np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)[2][["first", "second"].index(how)]
        pool = rest[along <= np.quantile(along, 1 / 3)]
    public = pool[: min(n_public, len(rest) // 4)]
    return rng.permutation(np.setdiff1d(rest, public)), public, test


def measured(table: tuple[str, str], how: str, n_public: int, epsilon: float, seed: int, who: str, folder: Any,
             config: Config) -> dict[str, Any]:  # fmt: skip
    """Return the accuracy of one fit on the test rows."""
    X, y = rows_of(*table, folder)
    private, public, test = cut(X, how, n_public, seed)
    at = X.iloc.__getitem__ if isinstance(X, pd.DataFrame) else X.__getitem__
    private = private[: config.most_private]
    classes = np.unique(y).tolist()
    clf = PATEClassifier(
        budget=Budget(epsilon, config.delta), classes=classes, voters=who, measure=False, noise_seed=seed,
        random_state=seed, overlap_is_public=True,
    )  # fmt: skip
    with warnings.catch_warnings():
        for kind in (PateWarning, CuratorWarning):
            warnings.simplefilter("ignore", kind)
        clf.fit(at(private), y[private], X_public=at(public))
        said = clf.predict(at(test))
    return {
        "n_private": len(private), "n_public": len(public), "accuracy": round(float(np.mean(said == y[test])), 4),
        "commonest": round(float(pd.Series(y[test]).value_counts(normalize=True).iloc[0]), 4),
    }  # fmt: skip


def cells(config: Config, folder: Path | None) -> Iterator[Cell]:
    """Yield every fit."""
    for seed in config.seeds:
        for name, against in config.tables:
            for how, n_public in config.draws:
                if how != "random" and name == "income":
                    continue  # categories alone: there is no direction
                for epsilon in config.epsilons:
                    for who in ("records", "dpsgd"):
                        key = {"table": name, "against": against, "public": how, "asked": n_public, "epsilon": epsilon}
                        todo = partial(measured, (name, against), how, n_public, epsilon, seed, who, folder, config)
                        yield "rows", {**key, "seed": seed, "voters": who}, todo


def table(told: dict[str, Any]) -> str:
    """Return the page's table: means over tables and seeds that both were fitted on."""
    D = pd.DataFrame(told["rows"])
    key = ["public", "asked", "epsilon", "table", "against", "seed"]
    both = D.pivot_table(index=key, columns="voters", values="accuracy").dropna().reset_index()
    lines = ["| public rows | epsilon | fits | records | DP-SGD | records ahead by, and its standard error |"]
    lines.append("|---|---|---|---|---|---|")
    for how, asked in dict.fromkeys(map(tuple, told["config"]["draws"])):
        for epsilon in told["config"]["epsilons"]:
            q = both[(both.public == how) & (both.asked == asked) & (both.epsilon == epsilon)]
            ahead = 100 * (q.records - q.dpsgd)
            error = ahead.groupby([q.table, q.against]).mean().sem() if len(q) else float("nan")
            lines.append(
                f"| {asked:,} {WORDS[how]} | {epsilon:g} | {len(q)} | {100 * q.records.mean():.1f} | "
                f"{100 * q.dpsgd.mean():.1f} | {ahead.mean():+.1f} ± {error:.1f} |"
            )
    return "\n".join(lines)


def write_page(result: Path, page: Path) -> None:
    """Put the table between the page's marks."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{page} must have the lines {BEGIN} and {END}.")
    made = table(json.loads(result.read_text(encoding="utf-8")))
    page.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")


def main() -> None:
    """Measure what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, help="folder of development tables")
    parser.add_argument("--page", action="store_true", help="the page from the stored result alone")
    parser.add_argument("--smoke", action="store_true", help="does it run?")
    given = parser.parse_args()
    if given.smoke:
        config = Config(tables=(("pendigits", ""),), draws=(("first", 100),), seeds=(100,), most_private=300)
        print(table(filled(config, ["rows"], cells(config, None), None)))
        return
    if not given.page:
        config = Config()
        filled(config, ["rows"], cells(config, given.tables), RESULT)
    write_page(RESULT, PAGE)


if __name__ == "__main__":
    main()
