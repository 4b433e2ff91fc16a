"""CPU seconds per fit of HistGradientBoosting: a plain loop, a hand-made pool of workers, and TeacherEnsemble.

    python benchmarks/hist_gradient_boosting.py [--smoke] [--teachers 4] [--jobs 2] [--repeats 3] [--out FILE]

Where torch was imported before scikit-learn, scikit-learn's OpenMP calls end in torch's copy of libgomp, and
``torch.set_num_threads(n)`` gives *scikit-learn* n threads, whatever OMP_NUM_THREADS a worker process was started with.
A function that lives in ``__main__`` travels to workers by value, and brings the torch it names along; the same
function in a module of its own need not. "pool, torch in __main__" is that trap, built by hand. All variants meet
the same estimator, which lives in ``__main__`` and clocks itself. Data: the digits that come with scikit-learn.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import joblib
import numpy as np
import sklearn
import torch
from _machine import machine
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

from pate import TeacherEnsemble

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Config:
    """What is measured."""

    n_teachers: int = 4
    n_records: int = 800
    max_iter: int = 20
    n_jobs: int = 2
    n_repeats: int = 3
    seed: int = 0


SMOKE = Config(n_teachers=2, n_records=200, max_iter=2, n_repeats=1)


class Clocked(HistGradientBoostingClassifier):
    """Notes the CPU seconds of all threads of its process, and how many OpenMP threads scikit-learn would take."""

    def fit(self, X: Any, y: Any) -> Any:
        """Fit, and clock it."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        super().fit(X, y)
        now = resource.getrusage(resource.RUSAGE_SELF)
        self.cpu_s_ = now.ru_utime - used.ru_utime + now.ru_stime - used.ru_stime
        self.threads_ = _openmp_effective_n_threads()
        return self


def fit_one(estimator: Any, X: Any, y: Any) -> Any:
    return clone(estimator).fit(X, y)


def fit_one_beside_torch(estimator: Any, X: Any, y: Any, n_threads: int) -> Any:
    torch.set_num_threads(n_threads)
    return clone(estimator).fit(X, y)


def measure(config: Config) -> list[dict[str, dict[str, float]]]:
    """Return, per repeat and variant, the median CPU seconds per fit, wall seconds per fit and threads."""
    X, y = load_digits(return_X_y=True)
    chosen = np.random.default_rng(config.seed).permutation(len(X))[: config.n_records]
    X, y = X[chosen], y[chosen]
    estimator = Clocked(max_iter=config.max_iter, early_stopping=False, random_state=config.seed)
    ensemble = TeacherEnsemble(
        estimator,
        config.n_teachers,
        classes=range(10),
        n_jobs=config.n_jobs,
        random_state=config.seed,
        partition_seed=config.seed,
    ).fit(X, y)  # starts the workers as well
    shards = [ensemble.partition_.shard(i) for i in range(config.n_teachers)]
    n_threads = os.cpu_count() or 1

    def plain() -> list[Any]:
        return [fit_one(estimator, X[s], y[s]) for s in shards]

    def ours() -> list[Any]:
        return list(ensemble.fit(X, y).teachers_)

    def pool() -> list[Any]:
        return list(Parallel(n_jobs=config.n_jobs)(delayed(fit_one)(estimator, X[s], y[s]) for s in shards))

    def trap() -> list[Any]:
        call = delayed(fit_one_beside_torch)
        return list(Parallel(n_jobs=config.n_jobs)(call(estimator, X[s], y[s], n_threads) for s in shards))

    def ours_after_trap() -> list[Any]:
        # In the very workers whose threads were set to two.
        return list(ensemble.fit(X, y).teachers_)

    variants: dict[str, tuple[Callable[[], list[Any]], bool]] = {
        "plain loop": (plain, False),
        "ours": (ours, False),
        "pool": (pool, True),
        "pool, torch in __main__": (trap, True),
        "ours, in those workers": (ours_after_trap, False),
    }
    rows = []
    for _ in range(config.n_repeats):
        row = {}
        for name, (work, fresh) in variants.items():
            if fresh:
                get_reusable_executor().shutdown(wait=True)
                Parallel(n_jobs=config.n_jobs)(delayed(int)() for _ in range(2 * config.n_jobs))
            start = time.perf_counter()
            models = work()
            wall = time.perf_counter() - start
            row[name] = {
                "cpu_s_per_fit": median(m.cpu_s_ for m in models),
                "wall_s_per_fit": wall / len(models),
                "openmp_threads": max(m.threads_ for m in models),
            }
        rows.append(row)
    return rows


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="tiny: does it run at all (numbers mean nothing)")
    parser.add_argument("--teachers", type=int, default=Config.n_teachers)
    parser.add_argument("--jobs", type=int, default=Config.n_jobs)
    parser.add_argument("--repeats", type=int, default=Config.n_repeats)
    parser.add_argument("--seed", type=int, default=Config.seed)
    parser.add_argument("--out", type=Path, default=None, help="default: results/hist_gradient_boosting.json")
    given = parser.parse_args(argv)
    config = (
        SMOKE
        if given.smoke
        else Config(n_teachers=given.teachers, n_jobs=given.jobs, n_repeats=given.repeats, seed=given.seed)
    )
    stamp = machine(np, sklearn, joblib, torch)
    rows = measure(config)
    table = {name: {what: median(row[name][what] for row in rows) for what in rows[0][name]} for name in rows[0]}
    print(f"digits, {config.n_teachers} teachers, n_jobs={config.n_jobs}, medians of {config.n_repeats} repeats")
    print(f"{'':<26}{'CPU s per fit':>14}{'wall s per fit':>15}{'OpenMP threads':>15}")
    for name, r in table.items():
        print(f"{name:<26}{r['cpu_s_per_fit']:>14.2f}{r['wall_s_per_fit']:>15.2f}{r['openmp_threads']:>15.0f}")
    name = "hist_gradient_boosting-smoke.json" if given.smoke else "hist_gradient_boosting.json"
    out = given.out or HERE / "results" / name
    out.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "benchmark": "hist_gradient_boosting",
        "data": "digits",
        "config": asdict(config),
        "machine": stamp,
        "summary": table,
        "repeats": rows,
    }
    out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"written to {out}")


if __name__ == "__main__":
    main()
