"""Thousands of heads per second: HeadTeacherEnsemble against a joblib loop of RidgeClassifier, in one run.

    python benchmarks/heads.py [--smoke] [--teachers 5000] [--jobs 2] [--repeats 3] [--seed 0] [--out FILE]

The loop is what one would write without this package: ``Parallel(n_jobs)(delayed(fit)(...))`` over chunks of shards,
the same penalty, one thread per worker; it trains and asks a part of the teachers, who all cost alike. The two take
turns within a repeat, and the ratio is the median of the repeats' ratios. The other heads are timed beside it, without
a counterpart. Data: MNIST from PATE_DATA_HOME (or random pixels of the same shape), on principal components of public
images.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import scipy
import sklearn
from _machine import load_mnist, machine, rates, seconds
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeClassifier
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_limits

from pate import HeadTeacherEnsemble

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Config:
    """What is measured."""

    n_teachers: int = 5000
    n_records: int = 60_000
    n_features: int = 256
    n_queries: int = 1000
    n_jobs: int = 2
    n_repeats: int = 3
    plain_teachers: int = 1000
    penalty: float = 0.3
    seed: int = 0


SMOKE = Config(n_teachers=40, n_records=800, n_features=16, n_queries=50, n_repeats=1, plain_teachers=20)


def fit_some(shards: list[tuple[Any, Any]], penalty: float) -> list[Any]:
    with threadpool_limits(1):
        return [
            RidgeClassifier(alpha=max(penalty * float(rows.var(axis=0).sum()), 1e-12)).fit(rows, y)
            for rows, y in shards
        ]


def ask_some(models: list[Any], public: Any) -> list[Any]:
    with threadpool_limits(1):
        return [model.predict(public) for model in models]


def in_chunks(function: Any, items: list[Any], n_jobs: int, *args: Any) -> list[Any]:
    size = -(-len(items) // (4 * n_jobs))
    calls = (joblib.delayed(function)(items[i : i + size], *args) for i in range(0, len(items), size))
    return [found for part in joblib.Parallel(n_jobs=n_jobs)(calls) for found in part]


def peak_mib() -> float:
    """Return the high-water marks of this process and its workers together (Linux), or of this one alone."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    pids = [
        pid for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text(encoding="ascii").split()
    ]
    total = own
    for pid in pids:
        status = Path(f"/proc/{pid}/status")
        lines = status.read_text(encoding="utf-8").splitlines() if status.is_file() else []
        total += sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
    return total


def measure(config: Config) -> tuple[list[dict[str, float]], dict[str, dict[str, float]], str]:
    """Return one row of rates per repeat, seconds by head, and the data's name."""
    X, y, public, _, source = load_mnist(config.n_records, max(config.n_queries, config.n_features), config.seed)
    shape = PCA(config.n_features, svd_solver="randomized", random_state=config.seed).fit(public)
    X, public = shape.transform(X).astype(np.float64), shape.transform(public[: config.n_queries]).astype(np.float64)
    options = {
        "classes": range(10),
        "n_jobs": config.n_jobs,
        "random_state": config.seed,
        "partition_seed": config.seed,
    }
    as_it_is = FunctionTransformer()  # the representation is made beforehand, for both
    teachers = HeadTeacherEnsemble(as_it_is, config.n_teachers, penalty=config.penalty, **options)
    # Starting worker processes is paid once per session, not per fit: warm them up.
    HeadTeacherEnsemble(as_it_is, 2 * config.n_jobs, **options).fit(X[:400], y[:400])
    in_chunks(fit_some, [(X[:100], y[:100])] * 2 * config.n_jobs, config.n_jobs, config.penalty)
    rows = []
    for _ in range(config.n_repeats):
        ours_fit, _ = seconds(lambda: teachers.fit(X, y))
        ours_vote, votes = seconds(lambda: teachers.vote(public))
        shards = [teachers.partition_.shard(i) for i in range(min(config.plain_teachers, config.n_teachers))]
        cut = [(X[shard], y[shard]) for shard in shards]
        plain_fit, models = seconds(partial(in_chunks, fit_some, cut, config.n_jobs, config.penalty))
        plain_vote, labels = seconds(partial(in_chunks, ask_some, models, config.n_jobs, public))
        agreement = float((np.array(labels) == votes.labels[: len(labels)]).mean())
        if agreement < 0.999:
            raise SystemExit(f"the two did not do the same work: {agreement:.4f} of the votes agree")
        rows.append(
            {
                "ours_teachers_per_s": config.n_teachers / ours_fit,
                "plain_teachers_per_s": len(shards) / plain_fit,
                "ours_votes_per_s": config.n_teachers * len(public) / ours_vote,
                "plain_votes_per_s": len(shards) * len(public) / plain_vote,
                "agreement": agreement,
            }
        )
    heads = {}
    for head in ("ridge", "logistic", "mlp"):
        teachers = HeadTeacherEnsemble(as_it_is, config.n_teachers, head=head, **options)
        fit_s, _ = seconds(partial(teachers.fit, X, y))
        vote_s, _ = seconds(partial(teachers.vote, public))
        heads[head] = {"fit_s": fit_s, "vote_s": vote_s, "peak_mib_so_far": peak_mib()}
    return rows, heads, source


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="tiny: does it run at all (numbers mean nothing)")
    parser.add_argument("--teachers", type=int, default=Config.n_teachers)
    parser.add_argument("--jobs", type=int, default=Config.n_jobs)
    parser.add_argument("--repeats", type=int, default=Config.n_repeats)
    parser.add_argument("--seed", type=int, default=Config.seed)
    parser.add_argument("--out", type=Path, default=None, help="default: results/heads.json beside this file")
    given = parser.parse_args(argv)
    config = (
        SMOKE
        if given.smoke
        else Config(n_teachers=given.teachers, n_jobs=given.jobs, n_repeats=given.repeats, seed=given.seed)
    )
    stamp = machine(np, scipy, sklearn, joblib)
    rows, heads, source = measure(config)
    table = rates(rows)
    print(f"{source}, {config.n_teachers} heads on {config.n_features} features, n_jobs={config.n_jobs}")
    for what, r in table.items():
        print(f"{what}: {r['ours_per_s']:,.0f} per second, loop {r['plain_per_s']:,.0f}, ratio {r['ratio']:.1f}")
    for head, r in heads.items():
        print(f"{head}: {r['fit_s']:.1f} s to fit, {r['vote_s']:.1f} s to vote, {r['peak_mib_so_far']:.0f} MiB so far")
    out = given.out or HERE / "results" / ("heads-smoke.json" if given.smoke else "heads.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "benchmark": "heads",
        "data": source,
        "config": asdict(config),
        "machine": stamp,
        "load_after": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "summary": table,
        "heads": heads,
        "repeats": rows,
    }
    out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"written to {out}")


if __name__ == "__main__":
    main()
