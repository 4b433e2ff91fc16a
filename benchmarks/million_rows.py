"""Time and memory of 1,000,000 public rows and 250 teachers: training, voting, and a release of all into a ledger.

    python benchmarks/million_rows.py [--smoke] [--rows 1000000] [--teachers 250] [--jobs 2] [--out FILE]

Public rows are a memory-mapped file, as a big table would be. Votes are kept as counts, never teachers x rows. The
release asks every row, at a budget nobody would choose: what is measured is that it can be carried, not what it costs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import tempfile
import threading
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import sklearn
from _machine import HERE, machine, seconds
from sklearn.linear_model import LogisticRegression

from pate import Budget, GNMax, Ledger, TeacherEnsemble, release_labels


@dataclass(frozen=True)
class Config:
    """How much of it."""

    n_rows: int = 1_000_000
    n_features: int = 50
    n_records: int = 50_000
    n_teachers: int = 250
    n_jobs: int = 2
    seed: int = 0


SMOKE = Config(n_rows=2_000, n_records=1_000, n_teachers=10)


class Peak:
    """The most memory that this process and its workers held at any one moment, MiB, sampled ten times a second."""

    def __enter__(self) -> Peak:
        self.mib, self._over = 0.0, threading.Event()
        self._watch = threading.Thread(target=self._sample, daemon=True)
        self._watch.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._over.set()
        self._watch.join()

    def _sample(self) -> None:
        while not self._over.wait(0.1):
            self.mib = max(self.mib, sum(map(resident, [Path("/proc/self"), *children()])))


def resident(process: Path) -> float:
    try:
        lines = (process / "status").read_text().splitlines()
    except OSError:
        return 0.0
    # Without shared file pages: every worker maps the same public rows.
    parts = [int(line.split()[1]) / 1024 for line in lines if line.startswith(("RssAnon", "RssShmem"))]
    return sum(parts)


def children() -> list[Path]:
    own = multiprocessing.current_process().pid
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = (process / "stat").read_text().rsplit(")", 1)[1].split()[1]
        except OSError:
            continue
        if int(parent) == own:
            found.append(process)
    return found


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="tiny: does it run at all (numbers mean nothing)")
    parser.add_argument("--rows", type=int, default=Config.n_rows)
    parser.add_argument("--teachers", type=int, default=Config.n_teachers)
    parser.add_argument("--jobs", type=int, default=Config.n_jobs)
    parser.add_argument("--out", type=Path, default=None, help="default: results/million_rows.json beside this file")
    given = parser.parse_args(argv)
    config = SMOKE if given.smoke else Config(n_rows=given.rows, n_teachers=given.teachers, n_jobs=given.jobs)
    stamp = machine(np, sklearn, joblib)
    rng = np.random.default_rng(config.seed)
    weights = rng.normal(size=(config.n_features, 10))
    X = rng.normal(size=(config.n_records, config.n_features)).astype(np.float32)
    y = (X @ weights + rng.gumbel(size=(config.n_records, 10))).argmax(1)
    rows: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        shape = (config.n_rows, config.n_features)
        public = np.lib.format.open_memmap(f"{folder}/public.npy", mode="w+", dtype=np.float32, shape=shape)
        for start in range(0, config.n_rows, 50_000):
            part = public[start : start + 50_000]
            part[:] = rng.normal(size=part.shape)
        public.flush()
        public = np.load(f"{folder}/public.npy", mmap_mode="r", allow_pickle=False)
        teachers = TeacherEnsemble(
            LogisticRegression(max_iter=200),
            config.n_teachers,
            classes=range(10),
            n_jobs=config.n_jobs,
            random_state=0,
            partition_seed=0,
        )
        kept: dict[str, Any] = {}

        def measured(name: str, work: Any) -> None:
            with Peak() as peak:
                took, kept[name] = seconds(work)
            rows[name] = {"seconds": took, "peak_mib": peak.mib}
            print(f"{name:<10}{took:>8.1f} s   {peak.mib:>8.0f} MiB")

        measured("training", lambda: teachers.fit(X, y))
        measured("voting", lambda: teachers.vote(public, keep_labels=False))
        ledger = Ledger(f"{folder}/ledger.sqlite")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            budget = Budget(1e6, 1e-5)
            measured("release", lambda: release_labels(kept["voting"], GNMax(sigma=40.0), budget=budget, ledger=ledger))
        answered = kept["release"].n_answered
        size = (Path(folder) / "ledger.sqlite").stat().st_size / 2**20
    print(f"{answered:,} of {config.n_rows:,} rows answered; ledger {size:.0f} MiB")
    out = given.out or HERE / "results" / ("million_rows-smoke.json" if given.smoke else "million_rows.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "benchmark": "million_rows",
        "config": asdict(config),
        "machine": stamp,
        "summary": rows,
        "answered": answered,
        "ledger_mib": size,
        "peak_of_this_process_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"written to {out}")


if __name__ == "__main__":
    main()
