"""What one replaced record shows at most: pair, data-dependent and public epsilon of canaries on real data.

    PATE_DATA_HOME=... python experiments/audit_pairs.py [--data optdigits mnist] [--seeds 100 101 102]

Exact numbers, no sampling. The data sets are published, so that what derives from them may be shown. The adversary who
"knows the rest" crafts the query with the very teachers; the other one trains teachers on other rows.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

from sklearn.linear_model import LogisticRegression

from pate import GNMax, TeacherEnsemble, load_dataset
from pate._core.provenance import provenance
from pate.audit import canary, pair
from pate.exceptions import DuplicateRecordsWarning

PAIR = "epsilon of the pair"


@dataclass(frozen=True)
class Config:
    """Everything that decides the table."""

    n_teachers: int = 250
    sigma: float = 40.0
    n_queries: int = 300
    delta: float = 1e-5
    records: int = 3
    #: Seeds of the partition, the teachers and the canaries; of a data set, those in its rows.
    seeds: tuple[int, ...] = (100, 101)
    #: Canary, queries, who crafts the query.
    rows: tuple[tuple[str, str, str], ...] = (
        ("mislabelled", "given", ""),
        ("crafted", "crafted", "knows the rest"),
        ("natural", "given", ""),
        ("out of distribution", "given", ""),
        ("crafted", "given", ""),
        ("mislabelled", "most contested", ""),
        ("crafted", "most contested", ""),
        ("mislabelled", "crafted", "knows the rest"),
        ("crafted", "crafted", "own teachers"),
    )


TEACHERS = {"optdigits": LogisticRegression(), "mnist": LogisticRegression()}


def worst_case(config):
    """Return the largest epsilon of one vote moved between two classes, the same query asked every time."""
    half, found = config.n_teachers // 2, []
    for gap in range(12):
        counts = [[half + gap, config.n_teachers - half - gap]] * config.n_queries
        moved = [[a - 1, b + 1] for a, b in counts]
        stored = pair(counts, moved, GNMax(config.sigma), delta=config.delta, published=True)
        found.append({"votes ahead": 2 * half + 2 * gap - config.n_teachers, "epsilon": stored[PAIR].value})
    return found


def measure(name, seed, config):
    """Yield a row for each canary: the one of the tried records that shows most, and all of them."""
    data = load_dataset(name, random_state=seed)
    X, y, public = data.private.X, data.private.y, data.public.X
    estimator = TEACHERS[name]
    teachers = TeacherEnsemble(
        estimator, config.n_teachers, classes=data.classes, random_state=seed, partition_seed=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DuplicateRecordsWarning)
        teachers.fit(X, y)
    for kind, queries, crafter in config.rows:
        begun = time.perf_counter()
        found = canary(
            teachers,
            X,
            y,
            X_public=public,
            mechanism=GNMax(config.sigma),
            canary=kind,
            queries=queries,
            n_queries=config.n_queries,
            records=1 if kind == "crafted" else config.records,
            delta=config.delta,
            adversary=(data.test.X, data.test.y) if crafter == "own teachers" else None,
            random_state=seed,
            published=True,
        )
        yield {
            "data": name,
            "seed": seed,
            "teacher": type(estimator).__name__,
            "canary": kind,
            "queries": queries,
            "adversary": crafter,
            "pair": found[PAIR].value,
            "pairs": [f.value for f in found.figures if f.name == PAIR],
            "data-dependent": found["data-dependent epsilon"].value,
            "public": found["public epsilon"].value,
            "share of the public Renyi curve": found["largest share of the claimed Renyi curve"].value,
            "queries moved": found["queries moved"].value,
            "seconds": time.perf_counter() - begun,
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["optdigits"], choices=list(TEACHERS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(Config.seeds))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "audit_pairs.json")
    args = parser.parse_args()
    config = Config(seeds=tuple(args.seeds))
    kept = json.loads(args.out.read_text())["rows"] if args.out.exists() else []
    rows = [r for r in kept if r["data"] not in args.data]
    worst = worst_case(config)
    print(f"worst repeated pair: {max(w['epsilon'] for w in worst):.4f}")
    for name in args.data:
        for seed in config.seeds:
            for row in measure(name, seed, config):
                rows.append(row)
                shown = f"{name:<10}{seed:>4} {row['canary']:<20}{row['queries']:<15}{row['adversary']:<15}"
                print(
                    f"{shown}{row['pair']:8.4f}{row['data-dependent']:8.4f}{row['public']:8.4f}{row['seconds']:7.1f} s",
                    flush=True,
                )
                # After every row: a run that is stopped keeps what it has found.
                stored = {"config": asdict(config), "worst_case": worst, "rows": rows, "made": provenance()}
                args.out.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
