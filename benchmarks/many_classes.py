"""The exact law of many classes against an independent integration.

    python benchmarks/many_classes.py [--smoke] [--before FILE] [--out FILE]

For every shape of votes: the largest relative error of a probability and of a divergence (every neighbour, both
directions, five orders) of the engine that `engine="auto"` takes, of GNMax(sigma), against Gauss-Legendre in 40 digits
(tests/exact_reference.py), which shares no rule and no code with it. --before adds the result of another commit: run
this file with that checkout on PYTHONPATH, then again with its output.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
from _machine import machine

import pate
from pate.privacy.exact import GaussianNoise, exact_divergences, log_probs, native

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))
from exact_reference import GroupedLaw  # noqa: E402

ORDERS = (1.25, 2.0, 8.0, 32.0, 256.0)
CLASSES = (2, 10, 20, 30, 50, 100, 300, 1_000, 3_000, 10_000)
SHAPES: dict[str, Callable[[int], list[int]]] = {
    "all tied": lambda m: [30] * m,
    "half one vote behind": lambda m: [31] * (m // 2) + [30] * (m - m // 2),
    "leader by one vote": lambda m: [31] + [30] * (m - 1),
    "leader by 250 votes": lambda m: [250] + [0] * (m - 1),
    "four steps of 12 votes": lambda m: [90 - 12 * (i % 4) for i in range(m)],
}


def measure(counts: list[int], sigma: float) -> tuple[float, float]:
    """Return the largest relative error of a probability, and of a divergence."""
    noise = GaussianNoise(sigma)
    law, forward, reverse = GroupedLaw(counts, sigma).worst(ORDERS)
    logs = log_probs(counts, noise=noise)[0]
    found = exact_divergences(counts, ORDERS, noise=noise)
    pairs = zip((*found.forward[0], *found.reverse[0]), (*forward, *reverse), strict=True)
    return (
        max(abs(float(mp.exp(mp.mpf(float(logs[counts.index(c)]))) / p - 1)) for c, p in law.items()),
        max(abs(float(mp.mpf(float(f)) / w - 1)) for f, w in pairs),
    )


def commit_of_pate() -> str | None:
    """Return the commit of the code that is measured, which may be another checkout's than this file's."""
    folder = Path(pate.__file__).resolve().parent
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="two sizes only")
    parser.add_argument("--sigma", type=float, default=40.0)
    parser.add_argument("--before", type=Path, default=None, help="the output of another commit")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "many_classes.json")
    given = parser.parse_args(argv)
    before: dict[str, Any] = json.loads(given.before.read_text(encoding="utf-8")) if given.before else {}
    earlier = {(r["votes"], r["n_classes"]): r for r in before.get("rows", [])}
    rows = []
    with mp.workdps(40):
        for name, shape in SHAPES.items():
            for m in CLASSES[:2] if given.smoke else CLASSES:
                probability, divergence = measure(shape(m), given.sigma)
                row = {"votes": name, "n_classes": m, "probability": probability, "divergence": divergence}
                old = earlier.get((name, m))
                if old:
                    row |= {f"{key}_before": old[key] for key in ("probability", "divergence")}
                rows.append(row)
                print(f"{name:<24}{m:>7,}" + "".join(f"{v:>10.1e}" for v in list(row.values())[2:]), flush=True)
    result = {
        "benchmark": "many_classes",
        "sigma": given.sigma,
        "orders": ORDERS,
        "machine": machine(np, mp) | {"compiled_kernel": native.available(), "commit": commit_of_pate()},
        "commit_before": before.get("machine", {}).get("commit"),
        "rows": rows,
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"written to {given.out}")


if __name__ == "__main__":
    main()
