"""Exact accounting of votes against a plain loop over the 2018 paper's bound, in one run.

    python benchmarks/accounting.py [--smoke] [--repeats 3] [--queries 1000 10000] [--million] [--seed 0] [--out FILE]

Ours: the exact divergences of GNMax(sigma), every neighbour, both directions, 32 orders. The plain loop is what the
published analysis does: for each query, Proposition 7 and Theorem 6 of Papernot et al. 2018 at the same 32 orders, one
query after the other, numpy inside; it is one formula and one direction. It is written out here and checked against
``pate.privacy.papernot``. Ours and the loop take turns within a repeat; the ratio is the median of the repeats' ratios.
Where there are many queries the loop runs over the first ones and is scaled up (loop_queries says how many).

Votes: "synthetic" have 58% near-unanimous queries and a broad rest; "mnist2018" are the paper's own, from
PATE_DATA_HOME, drawn with replacement where more than 9,000 are asked for. The first call of a fresh process is
timed apart.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy
from _machine import machine
from scipy.special import log_ndtr

from pate import GNMax
from pate.privacy import DEFAULT_ORDERS, papernot
from pate.privacy.exact import exact_divergences, native

HERE = Path(__file__).resolve().parent
ORDERS = np.array(DEFAULT_ORDERS)


@dataclass(frozen=True)
class Config:
    """What is measured."""

    n_queries: tuple[int, ...] = (100, 1_000, 10_000)
    n_classes: tuple[int, ...] = (2, 10, 100, 1_000)
    n_teachers: tuple[int, ...] = (10, 100, 1_000, 10_000)
    base: tuple[int, int, int] = (1_000, 10, 250)  # queries, classes, teachers of the curves
    sigma: float = 40.0
    n_repeats: int = 3
    loop_limit: int = 2_000
    seed: int = 0


SMOKE = Config((20,), (2, 5), (10,), (30, 4, 50), n_repeats=1, loop_limit=20)


def synthetic(n_queries: int, n_classes: int, n_teachers: int, seed: int) -> Any:
    """Return votes with a share of near-unanimous queries and a broad rest."""
    rng = np.random.default_rng(seed)
    consensus = np.where(rng.random(n_queries) < 0.58, rng.beta(120, 1.0, n_queries), rng.beta(4, 2, n_queries))
    weights = rng.dirichlet(np.full(n_classes - 1, 0.25), n_queries)
    p = np.concatenate([consensus[:, None], weights * (1 - consensus[:, None])], axis=1)
    counts = rng.multinomial(n_teachers, p / p.sum(axis=1, keepdims=True))
    return rng.permuted(counts, axis=1)


def mnist2018(n_queries: int, seed: int) -> Any | None:
    """Return the 2018 paper's votes, or None where they are not."""
    file = Path(os.environ.get("PATE_DATA_HOME", "")) / "pate2018_mnist_votes.npz"
    if not os.environ.get("PATE_DATA_HOME") or not file.is_file():
        return None
    with np.load(file, allow_pickle=False) as stored:
        counts = stored["counts"].astype(np.int64)
    if n_queries <= len(counts):
        return counts[:n_queries]
    return counts[np.random.default_rng(seed).integers(0, len(counts), n_queries)]


def plain_query(n: Any, sigma: float) -> Any:
    """Proposition 7 and Theorem 6 with Proposition 10's parameters, for one histogram and all orders."""
    public = ORDERS / sigma**2
    winner = int(n.argmax())
    gaps = (n[winner] - np.delete(n, winner)) / (math.sqrt(2) * sigma)
    logs = log_ndtr(-gaps)
    peak = logs.max()
    log_q = min(peak + math.log(np.exp(logs - peak).sum()), math.log1p(-1 / len(n)))
    mu2 = sigma * math.sqrt(-log_q)
    mu1 = mu2 + 1
    eps1, eps2 = mu1 / sigma**2, mu2 / sigma**2
    limit = (mu2 - 1) * eps2 - mu2 * math.log(mu1 / (mu1 - 1) * mu2 / (mu2 - 1)) if mu2 > 1 else -math.inf
    if mu2 <= 1 or log_q > limit or -log_q <= eps2:
        return public
    log1q = math.log1p(-math.exp(log_q))
    log_a = log1q - math.log(-math.expm1((log_q + eps2) * (1 - 1 / mu2)))
    log_b = eps1 - log_q / (mu1 - 1)
    bound = np.logaddexp(log1q + (ORDERS - 1) * log_a, log_q + (ORDERS - 1) * log_b) / (ORDERS - 1)
    return np.where(mu1 >= ORDERS, np.minimum(np.maximum(bound, 0.0), public), public)


def plain_loop(counts: Any, sigma: float) -> Any:
    total = np.zeros(len(ORDERS))
    for n in counts:
        total += plain_query(n, sigma)
    return total


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    gc.collect()
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def measure(name: str, counts: Any, config: Config) -> dict[str, Any]:
    """Return medians over repeats of both, and the median of the repeats' ratios with its range."""
    noise = GNMax(config.sigma).exact_parameters()["noise"]
    part = counts[: config.loop_limit]
    check = papernot.rdp_bound(papernot.log_q_gaussian(part[:50], config.sigma), config.sigma, ORDERS).sum(axis=0)
    if not np.allclose(plain_loop(part[:50], config.sigma), check, rtol=1e-6):
        raise SystemExit("the plain loop is not the 2018 bound")
    exact_divergences(counts[:10], ORDERS, noise=noise)
    ours, loop, distinct = [], [], 0
    for _ in range(config.n_repeats):
        took, found = seconds(lambda: exact_divergences(counts, ORDERS, noise=noise))
        distinct = len(found.forward)
        if not (np.isfinite(found.total()).all() and (found.total() <= len(counts) * ORDERS / config.sigma**2).all()):
            raise SystemExit("the exact divergences are above the worst case")
        ours.append(took)
        loop.append(seconds(lambda: plain_loop(part, config.sigma))[0] * len(counts) / len(part))
    ratios = [b / a for a, b in zip(ours, loop, strict=True)]
    row = {
        "votes": name,
        "n_queries": len(counts),
        "n_classes": counts.shape[1],
        "n_teachers": int(counts[0].sum()),
        "distinct": distinct,
        "ours_s": median(ours),
        "loop_s": median(loop),
        "loop_queries": len(part),
        "ratio": median(ratios),
        "ratio_low": min(ratios),
        "ratio_high": max(ratios),
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }
    print(
        f"{name:<10}{row['n_queries']:>9,}{row['n_classes']:>8,}{row['n_teachers']:>9,}{distinct:>10,}"
        f"{row['ours_s']:>10.3f}{row['loop_s']:>10.3f}{row['ratio']:>8.1f}"
        f"   {row['ratio_low']:.1f} to {row['ratio_high']:.1f}",
        flush=True,
    )
    return row


def first_call() -> float:
    """Return the seconds from a bare interpreter to a first answer on 1,000 queries, imports included."""
    code = (
        "import time; t = time.perf_counter(); import numpy as np; from pate import GNMax; "
        "c = np.random.default_rng(0).multinomial(250, [.8, .15, .05], size=1000); "
        "GNMax(sigma=40.0).exact_rdp(c); print(time.perf_counter() - t)"
    )
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="tiny: does it run at all (numbers mean nothing)")
    parser.add_argument("--repeats", type=int, default=Config.n_repeats)
    parser.add_argument("--queries", type=int, nargs="+", default=list(Config.n_queries))
    parser.add_argument("--million", action="store_true", help="also 1,000,000 queries (a minute, 2 GiB)")
    parser.add_argument("--seed", type=int, default=Config.seed)
    parser.add_argument("--out", type=Path, default=None, help="default: results/accounting.json beside this file")
    given = parser.parse_args(argv)
    config = SMOKE if given.smoke else Config(tuple(given.queries), n_repeats=given.repeats, seed=given.seed)
    stamp = machine(np, scipy) | {"compiled_kernel": native.available()}
    start = first_call()
    print(f"first call in a fresh process, imports included: {start:.2f} s; compiled kernel: {native.available()}")
    print(
        f"{'votes':<10}{'queries':>9}{'classes':>8}{'teachers':>9}{'distinct':>10}"
        f"{'ours, s':>10}{'loop, s':>10}{'ratio':>8}   range"
    )
    n, m, k = config.base
    curves: dict[str, list[dict[str, Any]]] = {"queries": [], "classes": [], "teachers": [], "extreme": []}
    for size in (*config.n_queries, *([1_000_000] if given.million else [])):
        curves["queries"].append(measure("synthetic", synthetic(size, m, k, config.seed), config))
        real = mnist2018(size, config.seed)
        if real is not None and size < 1_000_000:
            curves["queries"].append(measure("mnist2018", real, config))
    for size in config.n_classes:
        curves["classes"].append(measure("synthetic", synthetic(n, size, k, config.seed), config))
    for size in config.n_teachers:
        curves["teachers"].append(measure("synthetic", synthetic(n, m, size, config.seed), config))
    if not given.smoke:
        curves["extreme"].append(measure("synthetic", synthetic(100, 1_000, 10_000, config.seed), config))
    out = given.out or HERE / "results" / ("accounting-smoke.json" if given.smoke else "accounting.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "benchmark": "accounting",
        "orders": len(ORDERS),
        "config": asdict(config),
        "machine": stamp,
        "first_call_s": start,
        "curves": curves,
    }
    out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"written to {out}")


if __name__ == "__main__":
    main()
