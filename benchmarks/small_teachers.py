"""CPU seconds of many teachers on small shards: TeacherEnsemble over a plain loop with one thread, in one run.

    python benchmarks/small_teachers.py [--smoke] [--teachers 1000] [--repeats 5] [--seed 0] [--out FILE]

Where a teacher trains for a millisecond, everything around it shows: checks, clones, seeds, threads held, tasks. The
plain loop clones, fits and predicts, one teacher after the other. CPU seconds are those of this process and of its
workers, which were started before. Data: 100 records a teacher of 20 features, made up.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import joblib
import numpy as np
import sklearn
from _machine import machine
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from threadpoolctl import threadpool_limits

from pate import TeacherEnsemble

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Config:
    """What is measured."""

    n_teachers: int = 1000
    n_shard: int = 100
    n_queries: int = 500
    n_repeats: int = 5
    seed: int = 0


SMOKE = Config(n_teachers=10, n_queries=20, n_repeats=1)


def started() -> list[int]:
    """Return the ids of all processes that this one has started, and those have (Linux)."""
    found, new = [], [os.getpid()]
    while new:
        lists = [file.read_text().split() for pid in new for file in Path(f"/proc/{pid}/task").glob("*/children")]
        new = [int(pid) for pids in lists for pid in pids]
        found += new
    return found


def used_seconds(workers: list[int]) -> float:
    """Return the CPU seconds of this process and of these others (Linux)."""
    ticks = 0
    for pid in [os.getpid(), *workers]:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def cost(work: Callable[[], Any], workers: list[int]) -> tuple[float, Any]:
    """Return the CPU seconds that ``work`` took, and its result."""
    before = used_seconds(workers)
    result = work()
    return used_seconds(workers) - before, result


def measure(config: Config) -> dict[str, dict[str, float]]:
    """Return medians of CPU seconds by estimator and number of workers, and the ratio with its range."""
    rng = np.random.default_rng(config.seed)
    X = rng.normal(size=(config.n_teachers * config.n_shard, 20))
    y = (X[:, :5].sum(axis=1) + rng.normal(size=len(X)) > 0).astype(int)
    public = rng.normal(size=(config.n_queries, 20))
    table = {}
    for estimator in (LogisticRegression(max_iter=100), GaussianNB()):
        for n_jobs in (1, 2):
            said = {"classes": (0, 1), "n_jobs": n_jobs, "random_state": config.seed, "partition_seed": config.seed}
            teachers = TeacherEnsemble(estimator, config.n_teachers, **said).fit(X, y)  # starts the workers as well
            workers = started()
            shards = [teachers.partition_.shard(i) for i in range(config.n_teachers)]

            def ours(teachers: Any = teachers) -> Any:
                return teachers.fit(X, y).vote(public).labels

            def plain(estimator: Any = estimator, shards: Any = shards) -> Any:
                with threadpool_limits(1):
                    models = [clone(estimator).fit(X[shard], y[shard]) for shard in shards]
                    return np.array([model.predict(public) for model in models])

            pairs = []
            for _ in range(config.n_repeats):
                (mine, labels), (others, expected) = cost(ours, workers), cost(plain, workers)
                if (labels != expected).mean() > 0.001:
                    raise SystemExit("the two did not do the same work")
                pairs.append((mine, others, mine / max(others, 1e-9)))
            mine, others, ratios = zip(*pairs, strict=True)
            table[f"{type(estimator).__name__}, n_jobs={n_jobs}"] = {
                "ours_cpu_s": median(mine),
                "plain_cpu_s": median(others),
                "ratio": median(ratios),
                "ratio_low": min(ratios),
                "ratio_high": max(ratios),
            }
    return table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="tiny: does it run at all (numbers mean nothing)")
    parser.add_argument("--teachers", type=int, default=Config.n_teachers)
    parser.add_argument("--repeats", type=int, default=Config.n_repeats)
    parser.add_argument("--seed", type=int, default=Config.seed)
    parser.add_argument("--out", type=Path, default=None, help="default: results/small_teachers.json beside this file")
    given = parser.parse_args(argv)
    config = SMOKE if given.smoke else Config(n_teachers=given.teachers, n_repeats=given.repeats, seed=given.seed)
    stamp, table = machine(np, sklearn, joblib), measure(config)
    for what, row in table.items():
        print(f"{what:<30}{row['ours_cpu_s']:>8.2f} s{row['plain_cpu_s']:>8.2f} s{row['ratio']:>7.2f}")
    out = given.out or HERE / "results" / ("small_teachers-smoke.json" if given.smoke else "small_teachers.json")
    out.write_text(json.dumps({"machine": stamp, "config": asdict(config), "table": table}, indent=2) + "\n")


if __name__ == "__main__":
    main()
