"""Teachers per second and votes per second: TeacherEnsemble against a plain loop, in one run.

    python benchmarks/teachers.py [--smoke] [--teachers 250] [--jobs 2] [--repeats 3] [--seed 0] [--out FILE]

The plain loop is what one would write without this package: clone, fit, predict, one teacher after the other, with
whatever threads the libraries take. The two take turns within a repeat, so that both meet the same machine; the ratio
is the median of the repeats' ratios. Data: MNIST from PATE_DATA_HOME, or else random pixels of the same shape.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import scipy
import sklearn
from _machine import load_mnist, machine, rates, seconds
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from pate import TeacherEnsemble

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Config:
    """What is measured."""

    n_teachers: int = 250
    n_records: int = 60_000
    n_queries: int = 9_000
    n_jobs: int = 2
    n_repeats: int = 3
    plain_teachers: int = 25  # the plain loop trains and asks only so many teachers: all cost alike
    seed: int = 0


SMOKE = Config(n_teachers=8, n_records=800, n_queries=100, n_repeats=1, plain_teachers=4)


def plain_loop(estimator: Any, X: Any, y: Any, shards: list[Any]) -> list[Any]:
    return [clone(estimator).fit(X[shard], y[shard]) for shard in shards]


def plain_votes(models: list[Any], public: Any) -> Any:
    return np.array([model.predict(public) for model in models])


def measure(config: Config) -> tuple[list[dict[str, float]], str]:
    """Return one row of rates per repeat, and the data's name."""
    X, y, public, _, source = load_mnist(config.n_records, config.n_queries, config.seed)
    estimator = LogisticRegression(max_iter=100)
    teachers = TeacherEnsemble(
        estimator,
        config.n_teachers,
        classes=range(10),
        n_jobs=config.n_jobs,
        random_state=config.seed,
        partition_seed=config.seed,
    )
    # Starting worker processes is paid once per session, not per fit: warm them up.
    TeacherEnsemble(estimator, 2 * config.n_jobs, classes=range(10), n_jobs=config.n_jobs).fit(X[:400], y[:400])
    rows = []
    for _ in range(config.n_repeats):
        ours_fit, _ = seconds(lambda: teachers.fit(X, y))
        ours_vote, votes = seconds(lambda: teachers.vote(public))
        shards = [teachers.partition_.shard(i) for i in range(min(config.plain_teachers, config.n_teachers))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plain_fit, models = seconds(partial(plain_loop, estimator, X, y, shards))
            plain_vote, labels = seconds(partial(plain_votes, models, public))
        # The last bits of a fit depend on the number of threads: the same work, not the same bytes.
        agreement = float((labels == votes.labels[: len(labels)]).mean())
        if agreement < 0.99:
            raise SystemExit(f"the two did not do the same work: {agreement:.3f} of the votes agree")
        rows.append(
            {
                "ours_teachers_per_s": config.n_teachers / ours_fit,
                "plain_teachers_per_s": len(shards) / plain_fit,
                "ours_votes_per_s": config.n_teachers * len(public) / ours_vote,
                "plain_votes_per_s": len(shards) * len(public) / plain_vote,
                "agreement": agreement,
            }
        )
    return rows, source


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="tiny: does it run at all (numbers mean nothing)")
    parser.add_argument("--teachers", type=int, default=Config.n_teachers)
    parser.add_argument("--jobs", type=int, default=Config.n_jobs)
    parser.add_argument("--repeats", type=int, default=Config.n_repeats)
    parser.add_argument("--seed", type=int, default=Config.seed)
    parser.add_argument("--out", type=Path, default=None, help="default: results/teachers.json beside this file")
    given = parser.parse_args(argv)
    config = (
        SMOKE
        if given.smoke
        else Config(n_teachers=given.teachers, n_jobs=given.jobs, n_repeats=given.repeats, seed=given.seed)
    )
    stamp = machine(np, scipy, sklearn, joblib)
    rows, source = measure(config)
    table = rates(rows)
    print(f"{source}, {config.n_teachers} teachers, n_jobs={config.n_jobs}, {config.n_repeats} repeats")
    print(f"{'per second':<12}{'ours':>12}{'plain loop':>12}{'ratio':>8}   range")
    for what, r in table.items():
        low, high = r["ratio_low"], r["ratio_high"]
        print(
            f"{what:<12}{r['ours_per_s']:>12,.1f}{r['plain_per_s']:>12,.1f}{r['ratio']:>8.1f}   {low:.1f} to {high:.1f}"
        )
    out = given.out or HERE / "results" / ("teachers-smoke.json" if given.smoke else "teachers.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "benchmark": "teachers",
        "data": source,
        "config": asdict(config),
        "machine": stamp,
        "summary": table,
        "repeats": rows,
    }
    out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"written to {out}")


if __name__ == "__main__":
    main()
