"""How true the measured accuracy of students of teachers' labels is of other records: constants, and coverage.

    PATE_DATA_HOME=... python experiments/measured_accuracy.py --tables FOLDER   # CSV files with a column `target`
    PATE_DATA_HOME=... python experiments/measured_accuracy.py --smoke           # does it run?

Development tables alone, cut at random into private, public and test rows, whose columns the public rows'
`TableEncoder` makes numbers; shards and heads vote by default, measure=True. A finished fit is kept, so that a killed
run goes on. The correction of `pate.release._measured` is fitted to all fits (constants `size` and `half`); coverage is
that of the constants as they are shipped. A test part is a sample too: the interval is widened by its standard error
before it is said to hold or not. Record voters and DP-SGD: `defaults.py`.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _tables import Cell, filled, rows_of, taken

from pate import Budget, PATEClassifier, Queries, TableEncoder
from pate.exceptions import CuratorWarning, PateWarning
from pate.release import _measured as law

RESULT = Path(__file__).parent / "results" / "measured_accuracy_teachers.json"


@dataclass(frozen=True)
class Config:
    """Fixed before any row is looked at."""

    #: Table, class that is separated from the rest (or none).
    tables: tuple[tuple[str, str], ...] = (
        ("german", ""), ("churn", ""), ("credit", ""), ("income", ""), ("pendigits", ""),
    )  # fmt: skip
    epsilons: tuple[float, ...] = (1.0, 3.0)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4, 5)  # the constant was fitted to the first half
    voters: tuple[str, ...] = ("shards", "heads")
    delta: float = 1e-5
    private: float = 0.6
    public: float = 0.2
    most_private: int = 4_000
    most_public: int = 600


def measured(
    c: Config, folder: Path | None, name: str, against: str, epsilon: float, seed: int, voters: str
) -> dict[str, Any]:
    """Fit once, and return what was measured beside what the test rows say."""
    X, y = rows_of(name, against, folder)
    classes, codes = np.unique(y, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(y))
    n, n_public = min(int(c.private * len(y)), c.most_private), min(int(c.public * len(y)), c.most_public)
    private, public, test = order[:n], order[n : n + n_public], order[n + n_public :]
    if hasattr(X, "iloc"):
        X = TableEncoder().fit(taken(X, public)).transform(X).astype(float)
    clf = PATEClassifier(
        budget=Budget(epsilon, c.delta),
        classes=range(len(classes)),
        random_state=seed,
        measure=True,
        queries=Queries(force=True),
        stated={"overlap is public": "yes"},
        voters=voters,
    )
    with warnings.catch_warnings():
        for kind in (CuratorWarning, PateWarning, FutureWarning):
            warnings.simplefilter("ignore", kind)
        clf.fit(taken(X, private), codes[private], X_public=taken(X, public))
        right = float((clf.predict(taken(X, test)) == codes[test]).mean())
    estimate = clf.measured_
    assert estimate is not None
    return {
        "n": n, "n_test": len(test), "m": len(classes), "mu": math.sqrt(clf.statement_.mu**2 * (1 - estimate.share)),
        "sigma": estimate.sigma, "counted": estimate.counted, "correction": estimate.correction,
        "estimate": estimate.estimate, "low": estimate.low, "high": estimate.high, "test": right,
    }  # fmt: skip


def cells(c: Config, folder: Path | None) -> Iterator[Cell]:
    """Yield every fit."""
    for seed in c.seeds:
        for name, against in c.tables:
            for epsilon in c.epsilons:
                for voters in c.voters:
                    key = {"table": name, "against": against, "epsilon": epsilon, "seed": seed, "voters": voters}
                    yield "fits", key, partial(measured, c, folder, name, against, epsilon, seed, voters)


def fitted(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the constants of the correction that come nearest to what was seen, by weighted least squares."""
    n, m, mu, test = (np.array([r[k] for r in rows], dtype=float) for k in ("n", "m", "mu", "test"))
    counted, sigma, n_test = (np.array([r[k] for r in rows], dtype=float) for k in ("counted", "sigma", "n_test"))
    evidence = n * mu / (m * math.sqrt(2))
    d = np.clip(law._COMPONENTS * (evidence / 20) ** law._POWER, law._FEWEST, law._MOST)
    spread = test * (1 - test)
    own = (sigma / n) ** 2 + spread / n + spread / n_test
    found = []
    for half in (5.0, 10.0, 20.0, 40.0, 80.0):
        shape = np.sqrt(spread * d * (m - 1) / n) * evidence / (evidence + half)
        for size in np.arange(0, 0.61, 0.02):
            b = size * shape
            left = (counted - test - b) ** 2
            found.append((float((left / (own + (law._SPREAD * b) ** 2)).mean()), float(left.mean()), size, half))
    _, _, size, half = min(found, key=lambda f: f[1])
    return {"size": round(float(size), 2), "half": half}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return coverage by epsilon, the median half width, how far off the estimate is, and constants of a new fit."""
    results: dict[str, Any] = {
        "shipped": {"size": law.SIZE_OF_LABELS, "half": law._HALF, "spread": round(law._SPREAD, 3)}
    }
    results["fitted"] = fitted(rows)
    parts = {f"epsilon {e:g}": [r for r in rows if r["epsilon"] == e] for e in sorted({r["epsilon"] for r in rows})}
    parts |= {
        name: [r for r in rows if r["voters"] == name] for name in sorted({r.get("voters", "") for r in rows}) if name
    }
    late = [r for r in rows if r["seed"] > 2]
    for name, part in [*parts.items(), *([("seeds 3 to 5", late)] if late else []), ("all", rows)]:
        held, off = [], []
        for r in part:
            own = 1.96 * math.sqrt(r["test"] * (1 - r["test"]) / r["n_test"])
            low, high = (
                r["estimate"] - s * math.hypot(abs(r["estimate"] - e), own) for s, e in ((1, r["low"]), (-1, r["high"]))
            )
            held.append(low <= r["test"] <= high)
            off.append(r["estimate"] - r["test"])
        wide = [(r["high"] - r["low"]) / 2 for r in part]
        large = [w for w, r in zip(wide, part, strict=True) if r["n"] >= 3_000]
        results[name] = {
            "fits": len(part), "coverage": round(float(np.mean(held)), 3),
            "mean of counted - test": round(float(np.mean([r["counted"] - r["test"] for r in part])), 4),
            "mean of estimate - test": round(float(np.mean(off)), 4),
            "median half width": round(float(np.median(wide)), 4),
            "median half width, 3,000 records or more": round(float(np.median(large)), 4) if large else None,
        }  # fmt: skip
    return results


def main() -> None:
    """Measure what is missing, and print and store what follows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, help="folder of further development tables, NAME.csv.gz")
    parser.add_argument("--smoke", action="store_true")
    asked = parser.parse_args()
    c = Config(tables=(("digits", ""),), epsilons=(3.0,), seeds=(0,)) if asked.smoke else Config()
    result = None if asked.smoke else RESULT
    results = filled(c, ["fits"], cells(c, asked.tables), result)
    results["summary"] = summary(results["fits"])
    print(json.dumps(results["summary"], indent=1))
    if result is not None:
        result.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
