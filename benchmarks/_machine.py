"""What every benchmark stamps its result with, and the data that several of them use."""

from __future__ import annotations

import gc
import os
import platform
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import numpy as np

from pate import __version__ as pate_version

HERE = Path(__file__).resolve().parent


def machine(*modules: ModuleType) -> dict[str, Any]:
    """Return the processor, the load before the run, the commit, and the versions of ``modules``."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True, check=False)
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "versions": {m.__name__: m.__version__ for m in modules} | {"pate": pate_version},
        "commit": done.stdout.strip() or None,
    }


def load_mnist(n_records: int, n_queries: int, seed: int) -> tuple[Any, Any, Any, Any, str]:
    """Return private rows and labels, public rows and labels, and where they come from.

    MNIST from PATE_DATA_HOME, or else a few lit pixels per class over noise: as sparse and as learnable as digits.
    """
    rng = np.random.default_rng(seed)
    file = Path(os.environ.get("PATE_DATA_HOME", "")) / "mnist.npz"
    if os.environ.get("PATE_DATA_HOME") and file.is_file():
        with np.load(file, allow_pickle=False) as stored:
            train, labels, test, truth = (stored[name] for name in ("x_train", "y_train", "x_test", "y_test"))
        chosen = rng.permutation(len(train))[:n_records]
        images = [a.reshape(len(a), -1).astype(np.float32) / 255 for a in (train[chosen], test[:n_queries])]
        return images[0], labels[chosen].astype(np.int64), images[1], truth[:n_queries].astype(np.int64), "mnist"
    pattern = rng.random((10, 784)) < 0.2
    labels = rng.integers(0, 10, n_records + n_queries)
    rows = pattern[labels] * rng.random((len(labels), 784)) * (rng.random((len(labels), 784)) < 0.8)
    rows = rows.astype(np.float32)
    private, public = slice(0, n_records), slice(n_records, None)
    return rows[private], labels[private], rows[public], labels[public], "synthetic, shape of mnist"


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return how long ``work`` took, and its result."""
    gc.collect()
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def rates(rows: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return medians over repeats of teachers and votes per second, ours and the plain loop's.

    The ratio is the median of the ratios within a repeat, with its range.
    """
    table = {}
    for what in ("teachers", "votes"):
        ours, plain = ([r[f"{who}_{what}_per_s"] for r in rows] for who in ("ours", "plain"))
        ratios = [a / b for a, b in zip(ours, plain, strict=True)]
        table[what] = {
            "ours_per_s": median(ours),
            "plain_per_s": median(plain),
            "ratio": median(ratios),
            "ratio_low": min(ratios),
            "ratio_high": max(ratios),
        }
    return table
