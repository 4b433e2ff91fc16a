"""Record voters: the whole ``pate label`` command, and ballots of a million records that come in chunks.

    python benchmarks/record_voters.py [--smoke] [--records 100000] [--streamed 1000000] [--fitted 100000] [--jobs 2]
        [--repeats 3]

Tables are made: numbers alone, and numbers beside 20 columns of text. The command is given classes and epsilon, and
nothing else; reading, fitting on public rows, all rounds, ledger, statement and writing are in its time.
Beside it: casting by exact sums of whole numbers against the same arithmetic in plain NumPy floats (scipy's distances,
two products, one sum), on the same rows, with one process and as many threads each, taking turns. The ratio is the
median of the repeats' ratios.
And a whole fit by the default rule, table in memory, against scikit-learn's on the same records without privacy
(Nystroem's features, as many as a ballot has components, and SGDClassifier with as many passes as ours has rounds), in
CPU seconds of one thread each; ``--fitted 1000000`` for more records.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import joblib
import numpy as np
import pandas as pd
import scipy
import sklearn
from _machine import HERE, machine, seconds
from million_rows import Peak, resident
from scipy.spatial.distance import cdist
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from pate import Budget, PATEClassifier, RecordVoters
from pate.records import SignedSpace
from pate.representations import KernelPCA, TableMap, chain

N_CLASSES, CHUNK = 10, 50_000


@dataclass(frozen=True)
class Config:
    """How much of it."""

    n_records: int = 100_000
    n_streamed: int = 1_000_000
    n_features: int = 50
    n_public: int = 10_000
    n_cast: int = 16_384
    n_fitted: int = 100_000
    n_fitted_public: int = 1_000
    epsilon: float = 1.0
    n_jobs: int = 2
    n_repeats: int = 3
    seed: int = 0


SMOKE = Config(
    n_records=1_500, n_streamed=4_000, n_public=200, n_cast=1_024, n_fitted=2_000, n_fitted_public=100, n_repeats=1
)


class World:
    """Ten overlapping classes, bent and noisy, in ``n_features`` columns."""

    def __init__(self, config: Config) -> None:
        rng = np.random.default_rng(config.seed)
        self.n_features = config.n_features
        self.centres, self.mixing = rng.normal(size=(N_CLASSES, 8)), rng.normal(size=(8, config.n_features))

    def rows(self, n: int, seed: int) -> tuple[Any, Any]:
        """Return ``n`` rows and their classes."""
        rng = np.random.default_rng((seed, n))
        y = rng.integers(N_CLASSES, size=n)
        hidden = 0.7 * rng.normal(size=(n, 8)) + 1.2 * self.centres[y]
        return 2 * np.tanh(hidden @ self.mixing / 2.5) + 0.5 * rng.normal(size=(n, self.n_features)), y

    def table(self, n: int, seed: int, *, texts: int) -> tuple[pd.DataFrame, Any]:
        """Return them as a table, the first ``texts`` columns cut into words."""
        X, y = self.rows(n, seed)
        frame = pd.DataFrame(X.round(4), columns=[f"c{j}" for j in range(self.n_features)])
        for j in range(texts):
            frame[f"c{j}"] = np.array([f"k{i}" for i in range(12)])[np.digitize(X[:, j], np.linspace(-2, 2, 11))]
        return frame, y


class PeakOf(Peak):
    """The most memory that another process and all below it held at any one moment, MiB."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def _sample(self) -> None:
        while not self._over.wait(0.1):
            self.mib = max(self.mib, sum(map(resident, tree(self.pid))))


def tree(pid: int) -> list[Path]:
    parents = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(process.name)] = int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    found, size = {pid}, 0
    while len(found) > size:
        size = len(found)
        found |= {child for child, parent in parents.items() if parent in found}
    return [Path("/proc") / str(one) for one in found]


def command(world: World, config: Config, *, texts: int) -> dict[str, float]:
    """Run the command once on a table of its own, and return its time, memory and the share of right labels."""
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        private, y = world.table(config.n_records, 1, texts=texts)
        public, truth = world.table(config.n_public, 2, texts=texts)
        private.assign(label=y).to_csv(at / "private.csv", index=False)
        public.to_csv(at / "public.csv", index=False)
        classes = ",".join(map(str, range(N_CLASSES)))
        given = ["--private", at / "private.csv", "--public", at / "public.csv", "--out", at / "out.csv"]
        given += ["--target", "label", "--classes", classes, "--epsilon", config.epsilon, "--delta", 1e-6]
        given += ["--jobs", config.n_jobs]
        start = time.perf_counter()
        run = subprocess.Popen(
            [sys.executable, "-c", "from pate.cli import main; main()", "label", *map(str, given)],
            stdout=subprocess.DEVNULL,
        )
        with PeakOf(run.pid) as peak:
            code = run.wait()
        took = time.perf_counter() - start
        if code:
            raise SystemExit(f"pate label ended with {code}")
        labels = pd.read_csv(at / "out.csv").label.to_numpy()
    return {"seconds": took, "peak_mib": peak.mib, "accuracy": float((labels == truth).mean())}


def plain_cast(voters: RecordVoters, rows: Any, y: Any) -> Any:
    """Return the sum of ballots as floats would have it: the order of adding shows in its last bits."""
    table, kernel = voters.representation.parts_
    space, total = voters.space, np.zeros((voters.space.n_components_, N_CLASSES))
    vectors, unit = kernel.map_.weights, kernel.map_.unit * 2.0**22
    for start in range(0, len(rows), 1024):
        x = table.transform(rows[start : start + 1024])
        k = np.exp(-cdist(x, kernel.landmarks_) / kernel.bandwidth_)
        k += kernel.mean_ - kernel.means_ - k.mean(axis=1, keepdims=True)
        phi = (k @ (vectors * unit) - space.mean_) @ space.components_
        phi /= np.linalg.norm(phi, axis=1, keepdims=True)
        total += phi.T @ (np.eye(N_CLASSES)[y[start : start + 1024]] - 1 / N_CLASSES)
    return total


def casting(world: World, config: Config) -> tuple[RecordVoters, list[dict[str, float]]]:
    """Return voters, and rows per second of both ways, repeat by repeat."""
    public, _ = world.rows(config.n_public, 2)
    representation = chain(TableMap(numeric=["standard"]), KernelPCA(600)).fit(public)
    space = SignedSpace(512).fit(representation.transform(public))
    voters = RecordVoters(representation, space, classes=N_CLASSES)
    X, y = world.rows(config.n_cast, 3)
    found = []
    for _ in range(config.n_repeats):
        ours, ballots = seconds(lambda: voters.cast(X, y))
        plain, total = seconds(lambda: plain_cast(voters, X, y))
        apart = float(np.abs(ballots.sums / ballots.scale - total).max() / np.abs(total).max())
        if apart > 1e-3:
            raise SystemExit(f"the two did not do the same work: {apart:.1e} apart")
        found.append({"ours_per_s": len(X) / ours, "plain_per_s": len(X) / plain, "apart": apart})
    return voters, found


def streamed(voters: RecordVoters, world: World, config: Config) -> dict[str, float]:
    """Cast one round of records that come chunk by chunk."""
    voters = RecordVoters(voters.representation, voters.space, classes=N_CLASSES, n_jobs=config.n_jobs)

    def chunks() -> Iterator[tuple[Any, Any]]:
        for start in range(0, config.n_streamed, CHUNK):
            yield world.rows(min(CHUNK, config.n_streamed - start), 10 + start)

    with PeakOf(os.getpid()) as peak:
        took, ballots = seconds(lambda: voters.cast(chunks()))
    if ballots.facts.n != config.n_streamed:
        raise SystemExit("not all records were cast")
    return {"seconds": took, "peak_mib": peak.mib}


def fitting(world: World, config: Config) -> list[dict[str, float]]:
    """Return CPU seconds, memory and right answers of both fits, repeat by repeat."""
    (X, y), (public, _), (rows, truth) = (
        world.rows(n, seed) for seed, n in ((4, config.n_fitted), (5, config.n_fitted_public), (6, 10_000))
    )
    found = []
    for i in range(config.n_repeats):
        ours = PATEClassifier(
            budget=Budget(config.epsilon, 1e-6), classes=range(N_CLASSES), voters="records", random_state=i
        )
        with threadpool_limits(1), warnings.catch_warnings(), PeakOf(os.getpid()) as peak:
            warnings.simplefilter("ignore")
            start = time.process_time()
            plan, _ = ours.fit_keeping(X, y, X_public=public)
            took = time.process_time() - start
        n_components, n_rounds = plan.phi.shape[1], len(plan.recipe.rounds)
        plain = make_pipeline(
            StandardScaler(),
            Nystroem(n_components=n_components, gamma=0.5 / config.n_features, random_state=i),
            SGDClassifier(loss="log_loss", max_iter=n_rounds, tol=None, random_state=i),
        )
        with threadpool_limits(1):
            start = time.process_time()
            plain.fit(X, y)
            theirs = time.process_time() - start
        found.append(
            {"cpu_seconds": took, "plain_cpu_seconds": theirs, "ratio": took / theirs, "peak_mib": peak.mib}
            | {"n_components": n_components, "n_rounds": n_rounds}
            | {"accuracy": float((ours.predict(rows) == truth).mean())}
            | {"plain_accuracy": float((plain.predict(rows) == truth).mean())}
        )
    return found


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="tiny: does it run at all (numbers mean nothing)")
    parser.add_argument("--records", type=int, default=Config.n_records)
    parser.add_argument("--streamed", type=int, default=Config.n_streamed)
    parser.add_argument("--fitted", type=int, default=Config.n_fitted)
    parser.add_argument("--jobs", type=int, default=Config.n_jobs)
    parser.add_argument("--repeats", type=int, default=Config.n_repeats)
    parser.add_argument("--out", type=Path, default=None, help="default: results/record_voters.json beside this file")
    given = parser.parse_args(argv)
    config = (
        SMOKE
        if given.smoke
        else Config(
            n_records=given.records,
            n_streamed=given.streamed,
            n_fitted=given.fitted,
            n_jobs=given.jobs,
            n_repeats=given.repeats,
        )
    )
    stamp = machine(np, scipy, sklearn, joblib, pd)
    world = World(config)
    fits = fitting(world, config)
    fit = {key: median(r[key] for r in fits) for key in fits[0]}
    print(
        f"fit of {config.n_fitted:,} records: {fit['cpu_seconds']:.1f} CPU seconds, {fit['peak_mib']:.0f} MiB, "
        f"{fit['ratio']:.2f} of scikit-learn's {fit['plain_cpu_seconds']:.1f}",
        flush=True,
    )
    commands: dict[str, dict[str, Any]] = {}
    for name, texts in (("numbers", 0), ("numbers and texts", 20)):
        runs = [command(world, config, texts=texts) for _ in range(config.n_repeats)]
        commands[name] = {key: median(r[key] for r in runs) for key in runs[0]} | {"repeats": runs}
        r = commands[name]
        print(f"{name}: {r['seconds']:.1f} s, {r['peak_mib']:.0f} MiB, {r['accuracy']:.3f} right", flush=True)
    voters, repeats = casting(world, config)
    ratios = [r["ours_per_s"] / r["plain_per_s"] for r in repeats]
    cast = {key: median(r[key] for r in repeats) for key in ("ours_per_s", "plain_per_s")}
    cast |= {"ratio": median(ratios), "ratio_low": min(ratios), "ratio_high": max(ratios)}
    print(f"casting: {cast['ours_per_s']:,.0f} records per second, floats {cast['plain_per_s']:,.0f}", flush=True)
    stream = streamed(voters, world, config)
    print(f"{config.n_streamed:,} records in chunks: {stream['seconds']:.0f} s, {stream['peak_mib']:.0f} MiB")
    out = given.out or HERE / "results" / ("record_voters-smoke.json" if given.smoke else "record_voters.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "benchmark": "record_voters",
        "config": asdict(config),
        "machine": stamp,
        "load_after": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "commands": commands,
        "summary": {"records": cast, "fit": fit},
        "repeats": repeats,
        "fits": fits,
        "streamed": stream,
    }
    out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"written to {out}")


if __name__ == "__main__":
    main()
