"""Which mechanism gives the most right answers within a public epsilon? On the 2018 paper's own MNIST votes.

    PATE_DATA_HOME=... python experiments/mechanism_table.py

An answer is right when it is the plurality of the votes. For every mechanism and budget the parameters (noise,
threshold, gap, number of queries) are those with the most right answers among which a given share of answers is
right: found by looking at the votes, which a curator may not do for free, so the table compares what mechanisms *can*
do. Costs are public: histogram by GDP, the others by the certified rho*.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.special import ndtr

from pate import Budget, ConfidentGNMax, GNMax, NoisyHistogram
from pate._core.provenance import provenance


@dataclass(frozen=True)
class Config:
    """Everything that decides the table."""

    epsilons: tuple[float, ...] = (0.5, 1.0, 2.0)
    delta: float = 1e-5
    precisions: tuple[float, ...] = (0.95, 0.98)
    sigmas: tuple[float, ...] = tuple(float(s) for s in np.geomspace(15, 130, 28).round(1))
    gaps: tuple[float, ...] = tuple(float(g) for g in range(0, 301, 5))
    thresholds: tuple[float, ...] = tuple(float(t) for t in range(120, 341, 20))
    ratios: tuple[float, ...] = (1.0, 1.5, 2.0, 2.5, 3.0, 3.75, 5.0, 7.0)  # noise of the test over noise of the answer
    draws: int = 6
    seed: int = 0


def most_queries(fits, high=20000):
    """Return the largest n that fits the budget; fits(n) once false stays false."""
    low, top = 0, high
    while top - low > 1:
        middle = (low + top) // 2
        low, top = (middle, top) if fits(middle) else (low, middle)
    return low


def best(rows):
    return max(rows, key=lambda row: row["right"], default=None)


def table(counts, config):
    """Return one row per mechanism, precision and epsilon."""
    counts = np.asarray(counts, dtype=np.float64)
    plurality = counts.argmax(axis=1)
    rng = np.random.default_rng(config.seed)
    # The same draws at every noise, so that the search does not chase luck.
    noise = rng.standard_normal((config.draws, *counts.shape))
    everyone = np.arange(len(counts))
    found = {}
    for sigma in config.sigmas:
        hits, leads = np.zeros(len(counts)), []
        for z in noise:
            noisy = counts + sigma * z
            winner = noisy.argmax(axis=1)
            top = noisy[everyone, winner]
            noisy[everyone, winner] = -np.inf
            leads.append((winner == plurality, top - noisy.max(axis=1)))
            hits += winner == plurality
        right = np.concatenate([r for r, _ in leads])
        lead = np.concatenate([g for _, g in leads])
        answered = [float((lead >= g).mean()) for g in config.gaps]
        correct = [float((right & (lead >= g)).mean()) for g in config.gaps]
        found[sigma] = (answered, correct, hits / config.draws)

    rows = []
    for epsilon in config.epsilons:
        budget = Budget(epsilon, config.delta)
        for precision in config.precisions:
            rows += [
                {
                    "mechanism": name,
                    "epsilon": epsilon,
                    "precision": precision,
                    "best": best(options(counts, found, config, budget, precision)),
                }
                for name, options in (("histogram", histogram), ("confident", confident), ("gnmax", gnmax))
            ]
    return rows


def histogram(counts, found, config, budget, precision):
    for sigma, (answered, correct, _) in found.items():
        n = most_queries(lambda n, s=sigma: budget.allows(NoisyHistogram(sigma=s).charge(n)))
        for gap, a, c in zip(config.gaps, answered, correct, strict=True):
            if n and c >= precision * a:
                yield {"right": n * c, "answers": n * a, "queries": n, "sigma": sigma, "gap": gap}


def gnmax(counts, found, config, budget, precision):
    for sigma, (_, correct, _) in found.items():
        n = most_queries(lambda n, s=sigma: budget.allows(GNMax(sigma=s).charge(n)))
        if n and correct[0] >= precision:
            yield {"right": n * correct[0], "answers": n, "queries": n, "sigma": sigma}


def confident(counts, found, config, budget, precision):
    top = counts.max(axis=1)
    for sigma, (_, _, hits) in found.items():
        for ratio in config.ratios:
            for threshold in config.thresholds:
                passes = ndtr((top - threshold) / (ratio * sigma))
                a, c = float(passes.mean()), float((passes * hits).mean())
                if c < precision * a or a < 1e-3:
                    continue
                # The cap on answers, which is charged whole, is the expected number of answers.
                m = ConfidentGNMax(threshold=threshold, sigma_threshold=ratio * sigma, sigma=sigma)
                n = most_queries(lambda n, m=m, a=a: budget.allows(m.charge(n, max(1, round(n * a)))))
                if n:
                    row = {"right": n * c, "answers": n * a, "queries": n, "sigma": sigma}
                    yield {**row, "sigma_threshold": ratio * sigma, "threshold": threshold}


def show(rows, config):
    heading = "".join(f"{f'eps {e:g}':>10}" for e in config.epsilons)
    for precision in config.precisions:
        print(f"right answers, at least {precision:.0%} of the answers right{'':>4}{heading}")
        for name in ("histogram", "confident", "gnmax"):
            cells = [r["best"] for r in rows if r["mechanism"] == name and r["precision"] == precision]
            print(f"{name:<50}" + "".join(f"{c['right'] if c else 0:>10.0f}" for c in cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="a coarse search on made-up votes: does it run?")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results") / "mechanism_table.json")
    given = parser.parse_args()
    config = Config()
    if given.smoke:
        config = Config(epsilons=(1.0,), precisions=(0.9,), sigmas=(20.0, 40.0), ratios=(3.0,), draws=1)
        top = np.random.default_rng(0).integers(120, 250, 200)
        counts = np.stack([top, 250 - top, np.zeros_like(top)], axis=1)
    else:
        home = os.environ.get("PATE_DATA_HOME")
        if not home:
            parser.error("set PATE_DATA_HOME to the folder with pate2018_mnist_votes.npz")
        with np.load(Path(home) / "pate2018_mnist_votes.npz", allow_pickle=False) as file:
            counts = file["counts"].astype(np.int64)
    rows = table(counts, config)
    show(rows, config)
    if not given.smoke:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        result = {"config": asdict(config), "n_votes": len(counts), "rows": rows, **provenance()}
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        print(f"wrote {given.out.name}")


if __name__ == "__main__":
    main()
