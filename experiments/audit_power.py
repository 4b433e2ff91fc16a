"""How many releases the law test needs to find a fault, and how often it refutes who has none.

    python experiments/audit_power.py            # half an hour of one core: both tables
    python experiments/audit_power.py --smoke    # does it run?

Faults are planted in samplers beside an honest claim, 50 seeds each; shown are the releases of each histogram that the
sequential test drew, by quartiles, and its seconds. Honest mechanisms run to the end, 20,000 releases of each
histogram; reported are how many were refuted, and the largest log e-value that any run ever had (refuted from 13.8 on).
The bank's own choice, by how many scales a leader stands above equals, is found again on a grid of exact divergences.
The JSON is written after every row: a killed run goes on where it was, with the same code and Config.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _tables import filled

from pate import ConfidentGNMax, GNMax, LNMax, NoisyHistogram
from pate.audit import independence, law
from pate.audit.testing import registered

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "experiments" / "results" / "audit_power.json"

T, S1, S = 200.0, 150.0, 40.0
CONFIDENT = ConfidentGNMax(T, S1, S)
Faulty = Callable[[np.random.Generator], Any]


@dataclass(frozen=True)
class Config:
    """How often."""

    seeds: int = 50
    first_seed: int = 100
    max_releases: int = 50_000
    honest_runs: int = 1_000
    honest_wide_runs: int = 20
    honest_releases: int = 20_000
    false_alarms: float = 1e-6
    heights: tuple[int, ...] = (2, 3, 10, 100, 1_000)


SMOKE = Config(seeds=3, max_releases=2_000, honest_runs=5, honest_wide_runs=3, honest_releases=200, heights=(2, 10))


def confident(
    rng: np.random.Generator, *, every_count: bool = False, spread: float = 0.0, empty: bool = True, ties: bool = False
) -> Any:
    """Return a sampler of Confident-GNMax in floating point, with a fault."""

    def sample(counts: np.ndarray) -> np.ndarray:
        top = counts if every_count else counts.max(axis=1, keepdims=True)
        passed = (top + rng.normal(0, S1, top.shape)).max(axis=1) >= T
        scales = (
            S * np.linspace(1 - spread, 1 + spread, counts.shape[1]) * (np.ones(counts.shape) if empty else counts > 0)
        )
        noise = rng.standard_normal(counts.shape) * scales
        if ties:
            noise = np.rint(noise)
        return np.where(passed, (counts + noise).argmax(axis=1), -1)

    return sample


def shared(rng: np.random.Generator) -> Any:
    """Return a sampler whose every second query has the noise of the one before."""

    def sample(counts: np.ndarray) -> np.ndarray:
        noise = rng.normal(0, S, counts.shape)
        noise[1::2] = noise[: 2 * (len(counts) // 2) : 2]
        return (counts + noise).argmax(axis=1)

    return sample


def whole(rng: np.random.Generator) -> Any:
    """Return a sampler of a tenth of the noise, rounded to whole votes, whose ties go to the lowest index."""
    return lambda counts: (counts + np.rint(rng.normal(0, S / 10, counts.shape))).argmax(axis=1)


def forgetful(rng: np.random.Generator, *, numbers: bool = False) -> Any:
    """Return a sampler that leaves its noise out once in a thousand."""

    def sample(counts: np.ndarray) -> np.ndarray:
        there = rng.random((len(counts), 1)) >= 1e-3
        noisy = counts + there * S * rng.standard_normal(counts.shape)
        return noisy if numbers else noisy.argmax(axis=1)

    return sample


def seeded(rng: np.random.Generator) -> Any:
    """Return a sampler that begins every release with the same seed."""
    seed = int(rng.integers(2**32))
    return lambda counts: (counts + np.random.default_rng(seed).normal(0, S, counts.shape)).argmax(axis=1)


def as_claimed(mechanism: Any) -> Faulty:
    """Return an honest mechanism, beside a claim that is not its own."""
    return lambda rng: mechanism


#: Name -> (claim, what is sampled, which test, classes).
FAULTS: dict[str, tuple[Any, Faulty, str, int | None]] = {
    "sigma x 0.9": (CONFIDENT, as_claimed(ConfidentGNMax(T, S1, 0.9 * S)), "law", 10),
    "threshold's sigma x 0.9": (CONFIDENT, as_claimed(ConfidentGNMax(T, 0.9 * S1, S)), "law", 10),
    "both x 0.9": (CONFIDENT, as_claimed(CONFIDENT.scaled(0.9)), "law", 10),
    "sigma x 0.95": (CONFIDENT, as_claimed(ConfidentGNMax(T, S1, 0.95 * S)), "law", 10),
    "threshold's sigma x 0.95": (CONFIDENT, as_claimed(ConfidentGNMax(T, 0.95 * S1, S)), "law", 10),
    "both x 0.95": (CONFIDENT, as_claimed(CONFIDENT.scaled(0.95)), "law", 10),
    "sigma x 1.1": (CONFIDENT, as_claimed(ConfidentGNMax(T, S1, 1.1 * S)), "law", 10),
    "sigma / sqrt 2": (CONFIDENT, as_claimed(ConfidentGNMax(T, S1, S / 2**0.5)), "law", 10),
    "threshold noise on every count": (CONFIDENT, partial(confident, every_count=True), "law", 10),
    "unequal noise, 0.9 to 1.1": (CONFIDENT, partial(confident, spread=0.1), "law", 10),
    "noise on non-empty classes only": (CONFIDENT, partial(confident, empty=False), "law", 10),
    "whole noise of sigma 4, ties to the lowest index": (GNMax(S / 10), whole, "law", 10),
    "whole noise, ties to the lowest index": (CONFIDENT, partial(confident, ties=True), "law", 10),
    "sigma x 0.9, with two and 1,000 classes": (
        CONFIDENT, as_claimed(ConfidentGNMax(T, S1, 0.9 * S)), "law", None),
    "sigma x 0.95, with two and 1,000 classes": (
        CONFIDENT, as_claimed(ConfidentGNMax(T, S1, 0.95 * S)), "law", None),
    "unequal noise, 0.9 to 1.1, with two and 1,000 classes": (CONFIDENT, partial(confident, spread=0.1), "law", None),
    "GNMax, sigma x 0.9": (GNMax(S), as_claimed(GNMax(0.9 * S)), "law", 10),
    "GNMax, Laplace of the same variance": (GNMax(S), as_claimed(LNMax(S / 2**0.5)), "law", 10),
    "LNMax, scale x 0.9": (LNMax(20.0), as_claimed(LNMax(18.0)), "law", 10),
    "released counts, sigma x 0.9": (NoisyHistogram(S), as_claimed(NoisyHistogram(0.9 * S)), "law", 10),
    "released counts, noise left out once in 1,000": (
        NoisyHistogram(S), partial(forgetful, numbers=True), "law", 10),
    "noise of every second query used again": (GNMax(S), shared, "independence", 3),
    "seeded noise": (GNMax(S), seeded, "independence", 3),
    "noise left out once in 1,000": (GNMax(S), forgetful, "independence", 3),
}  # fmt: skip


#: Whose false alarms are counted, and in which share of the runs.
HONEST = {CONFIDENT: 0.3, GNMax(S): 0.3, LNMax(20.0): 0.3, NoisyHistogram(S): 0.1}


def power(name: str, config: Config) -> dict[str, Any]:
    """Return in how many releases a fault was found, over the seeds."""
    claim, faulty, test, n_classes = FAULTS[name]
    found, seconds = [], []
    for seed in range(config.first_seed, config.first_seed + config.seeds):
        sampler = faulty(np.random.default_rng([seed, 1]))
        started = time.perf_counter()
        shared_terms: dict[str, Any] = {"sampler": sampler, "noise_seed": seed, "false_alarms": config.false_alarms}
        if test == "law":
            most = config.max_releases
            made = law(claim, n_classes=n_classes, max_releases=most, **shared_terms)
            releases = made["releases of each histogram"].value
        else:
            made = independence(claim, n_classes=n_classes, max_releases=2 * config.max_releases, **shared_terms)
            releases = [f.value for f in made.figures if f.name == "answers"][-1]  # of the test that found it
        seconds.append(time.perf_counter() - started)
        found.append(releases if made.refuted else np.inf)
    quartiles = [None if np.isinf(q) else float(q) for q in np.quantile(found, [0.25, 0.5, 0.75, 1], method="higher")]
    return {
        "test": test,
        "n_classes": n_classes,
        "found": int(np.isfinite(found).sum()),
        "of": config.seeds,
        **dict(zip(("lower_quartile", "median", "upper_quartile", "most"), quartiles, strict=True)),
        "median_seconds": round(float(np.median(seconds)), 3),
    }


def honest(mechanism: Any, n_classes: int | None, runs: int, config: Config) -> dict[str, Any]:
    """Return how often an honest mechanism was refuted, and the largest evidence there ever was."""
    refuted, largest = 0, -np.inf
    for seed in range(config.first_seed, config.first_seed + runs):
        made = law(
            mechanism,
            n_classes=n_classes,
            noise_seed=seed,
            max_releases=config.honest_releases,
            false_alarms=config.false_alarms,
        )
        refuted += made.refuted
        assert made.picture is not None
        largest = max(largest, *made.picture.curves[0].y)
    return {"runs": runs, "releases": config.honest_releases, "refuted": refuted, "largest_log_e": round(largest, 3)}


def height(n_classes: int) -> dict[str, Any]:
    """Return by how many scales a leader over equals stands where 0.9 of the noise differs most from all of it."""
    best = (0.0, 0.0)
    for tenths in range(5, 61):
        row = np.zeros((1, n_classes), dtype=np.int64)
        row[0, 0] = tenths
        claimed, less = (np.exp(GNMax(10.0 * f).log_probs(row)) for f in (1.0, 0.9))
        best = max(best, (float((less * np.log(less / claimed)).sum()), tenths / 10))
    return {"height": best[1], "nats_of_a_release": round(best[0], 5)}


def rows(config: Config) -> Iterator[tuple[str, dict[str, Any], Callable[[], dict[str, Any]]]]:
    """Yield every row's table, its key, and what measures it."""
    for m in config.heights:
        yield "heights", {"n_classes": m}, partial(height, m)
    for name in FAULTS:
        yield "power", {"fault": name}, partial(power, name, config)
    for mechanism, share in HONEST.items():
        runs = round(share * config.honest_runs)
        yield (
            "false_alarms",
            {"mechanism": repr(mechanism), "n_classes": 10},
            partial(honest, mechanism, 10, runs, config),
        )
    wide = partial(honest, CONFIDENT, None, config.honest_wide_runs, config)
    yield "false_alarms", {"mechanism": repr(CONFIDENT), "n_classes": None}, wide


def run(config: Config, result: Path | None) -> dict[str, Any]:
    """Measure what is missing, and return all rows."""
    registered()  # rooms are read before anything is timed
    return filled(config, ("heights", "power", "false_alarms"), rows(config), result)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="a few runs of everything: does it run?")
    given = parser.parse_args()
    run(SMOKE if given.smoke else Config(), None if given.smoke else RESULT)


if __name__ == "__main__":
    main()
