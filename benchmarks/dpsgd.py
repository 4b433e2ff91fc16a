"""CPU time of a step of DP-SGD over one of plain SGD, beside Opacus' engines, in one run.

    python benchmarks/dpsgd.py [--smoke] [--repeats 5] [--seed 0] [--out FILE]

A step is: take the batch out of the records, clipped sum, optimiser. Everybody runs the same module on the same
batches, one thread, and takes turns within a repeat; a ratio is the median of the repeats' ratios to plain SGD. Noise
and Poisson sampling depend on the numbers of parameters and of records alone: they are timed by themselves, ours from a
cryptographic generator and, beside it, Opacus' default (torch's generator) and its secure mode. Memory: high-water mark
of a process of its own that runs a few steps. Rows are random numbers of MNIST's shape: no figure here depends on what
they are.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np
import opacus
import torch
from _machine import machine
from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
from opacus.grad_sample.gsm_exp_weights import GradSampleModuleExpandedWeights
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from opacus.optimizers.optimizer import _generate_noise
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import nn

from pate.dpsgd._run import _parts, build_engine
from pate.dpsgd._units import Units
from pate.dpsgd.engines import BookKeepingEngine, PerRecordEngine
from pate.dpsgd.mechanisms import PoissonSGD, Shape
from pate.dpsgd.mechanisms._mechanism import gaussian
from pate.networks import make_module
from pate.privacy.noise.source import NoiseSource

HERE = Path(__file__).resolve().parent
NORM, RATE = 1.0, 1e-6


@dataclass(frozen=True)
class Config:
    """What is measured."""

    modules: tuple[str, ...] = ("linear", "mlp", "tanh-cnn", "small-cnn")
    batches: tuple[int, ...] = (256, 1024, 4096)
    n_records: int = 51_000
    n_features: int = 784
    n_classes: int = 10
    seconds: float = 0.6
    n_repeats: int = 5
    #: Those that take longest are left out beyond this batch size.
    most_for_slow: int = 1024
    seed: int = 0
    device: str = "cpu"


SMOKE = Config(modules=("linear", "tanh-cnn"), batches=(16,), n_records=64, n_features=64, seconds=0.0, n_repeats=1)
Step = Callable[[torch.Tensor], None]


def new(name: str, c: Config) -> nn.Module:
    torch.manual_seed(c.seed)
    return make_module(name)(n_features=c.n_features, n_classes=c.n_classes).to(c.device)


def plain(name: str, X: torch.Tensor, y: torch.Tensor, c: Config) -> Step:
    module = new(name, c).train()
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE)

    def step(index: torch.Tensor) -> None:
        optimizer.zero_grad(set_to_none=True)
        index = index.to(X.device)
        nn.functional.cross_entropy(module(X.index_select(0, index)), y[index]).backward()
        optimizer.step()

    return step


def ours(kind: type) -> Callable[..., Step]:
    def make(name: str, X: torch.Tensor, y: torch.Tensor, c: Config) -> Step:
        torch.manual_seed(c.seed)
        engine = build_engine(name, c.n_features, c.n_classes, engine=kind)
        parameters = list(engine.module.to(c.device).parameters())
        units, source = Units(X.cpu().numpy(), y.cpu().numpy(), device=X.device), NoiseSource()
        optimizer = torch.optim.SGD(parameters, lr=RATE)

        def step(index: torch.Tensor) -> None:
            sums: list[torch.Tensor] = []
            # As a fit runs it where records are sampled: blocks by their numbers, the same draws for all.
            for _, some, blocks in _parts(index.numpy(), engine.at_once, len(index) / c.n_records):
                X_part, y_part, _ = units.take(some, source)
                found = engine.clipped_sum(X_part, y_part, NORM, seed=0, shared=True, blocks=blocks)
                sums = [total.add_(part) for total, part in zip(sums, found, strict=True)] if sums else found
            for p, total in zip(parameters, sums, strict=True):
                p.grad = (total / len(index)).to(p.dtype)
            optimizer.step()

        return step

    return make


def of_opacus(mode: str) -> Callable[..., Step]:
    def make(name: str, X: torch.Tensor, y: torch.Tensor, c: Config) -> Step:
        inner = new(name, c).train()
        if mode == "ghost":
            module = GradSampleModuleFastGradientClipping(inner, max_grad_norm=NORM, use_ghost_clipping=True)
            kind = DPOptimizerFastGradientClipping
        elif mode == "expanded weights":
            module, kind = GradSampleModuleExpandedWeights(inner), DPOptimizer
        else:
            module, kind = GradSampleModule(inner, force_functorch=mode == "functorch"), DPOptimizer
        optimizer = kind(
            torch.optim.SGD(inner.parameters(), lr=RATE), noise_multiplier=0.0, max_grad_norm=NORM,
            expected_batch_size=1,
        )  # fmt: skip
        loss = nn.functional.cross_entropy
        if mode == "ghost":
            loss = DPLossFastGradientClipping(module, optimizer, nn.CrossEntropyLoss())

        def step(index: torch.Tensor) -> None:
            optimizer.zero_grad(set_to_none=True)
            optimizer.expected_batch_size = len(index)
            index = index.to(X.device)
            loss(module(X.index_select(0, index)), y[index]).backward()
            optimizer.step()

        return step

    return make


ENGINES: dict[str, Callable[..., Step]] = {
    "plain SGD": plain,
    "book-keeping": ours(BookKeepingEngine),
    "record by record (vmap)": ours(PerRecordEngine),
    "Opacus hooks": of_opacus("hooks"),
    "Opacus functorch": of_opacus("functorch"),
    "Opacus expanded weights": of_opacus("expanded weights"),
    "Opacus ghost": of_opacus("ghost"),
}
SLOW = ("record by record (vmap)", "Opacus hooks", "Opacus functorch", "Opacus expanded weights")


def records(c: Config) -> tuple[torch.Tensor, torch.Tensor, np.random.Generator]:
    rng = np.random.default_rng(c.seed)
    X = torch.from_numpy(rng.random((c.n_records, c.n_features), dtype=np.float32))
    return X.to(c.device), torch.from_numpy(rng.integers(0, c.n_classes, c.n_records)).to(c.device), rng


def cpu(step: Step, indices: list[torch.Tensor], least: float) -> float:
    """Return CPU seconds per step, over at least so many seconds."""
    start, n = time.process_time(), 0
    while not n or time.process_time() - start < least:
        step(indices[n % len(indices)])
        n += 1
    return (time.process_time() - start) / n


def measure(c: Config) -> list[dict[str, object]]:
    """Return a row for each module, batch and engine."""
    X, y, rng = records(c)
    rows: list[dict[str, object]] = []
    for name in c.modules:
        for batch in c.batches:
            indices = [torch.from_numpy(np.sort(rng.choice(c.n_records, batch, replace=False))) for _ in range(3)]
            steps = {}
            for engine, make in ENGINES.items():
                if batch > c.most_for_slow and engine in SLOW:
                    continue
                try:
                    steps[engine] = make(name, X, y, c)
                    steps[engine](indices[0])
                except Exception as error:
                    steps.pop(engine, None)
                    rows.append({"module": name, "batch": batch, "engine": engine, "failed": type(error).__name__})
            times: dict[str, list[float]] = {engine: [] for engine in steps}
            for _ in range(c.n_repeats):
                for engine, step in steps.items():
                    times[engine].append(cpu(step, indices, c.seconds))
            for engine, found in times.items():
                ratios = [a / b for a, b in zip(found, times["plain SGD"], strict=True)]
                rows.append(
                    {
                        **{"module": name, "batch": batch, "engine": engine, "cpu_ms": 1e3 * median(found)},
                        **{"ratio": median(ratios), "ratio_low": min(ratios), "ratio_high": max(ratios)},
                    }
                )
                print(f"{name} {batch} {engine}: {1e3 * median(found):.2f} ms, {median(ratios):.2f}", flush=True)
    return rows


def parts(c: Config) -> dict[str, float]:
    """Return what sampling and noise cost by themselves, in CPU milliseconds: medians of the repeats."""
    source = NoiseSource()
    shape = Shape(c.n_records, 0.01, 1, c.n_records // 100)
    like = torch.zeros(1_000_000)
    work: dict[str, Callable[[], object]] = {
        "noise_ms_per_million": lambda: gaussian(source, len(like)),
        "opacus_noise_ms_per_million": lambda: _generate_noise(1.0, like),
        "opacus_secure_noise_ms_per_million": lambda: _generate_noise(1.0, like, secure_mode=True),
        "sampling_ms_per_step": lambda: list(PoissonSGD().batches(shape, c.n_records, source)),
    }
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(max(5, c.n_repeats)):
        for name, do in work.items():
            start = time.process_time()
            do()
            times[name].append(1e3 * (time.process_time() - start))
    return {name: median(found) for name, found in times.items()}


def high_water() -> float:
    """Return the most memory that this program has held so far, in MiB (Linux)."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def peak(name: str, batch: int, engine: str, c: Config) -> None:
    """Print the high-water mark of this process before and after three steps, in MiB."""
    torch.set_num_threads(1)
    X, y, rng = records(c)
    before = high_water()
    step = ENGINES[engine](name, X, y, c)
    for _ in range(3):
        step(torch.from_numpy(rng.choice(c.n_records, batch, replace=False)))
    print(json.dumps({"before": before, "after": high_water()}))


def memory(c: Config) -> list[dict[str, object]]:
    rows = []
    for name in c.modules:
        for engine in ("plain SGD", "book-keeping", "Opacus ghost"):
            for batch in (min(c.batches), max(c.batches)):
                command = [sys.executable, __file__, "--peak", name, str(batch), engine]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode == 0:
                    rows.append({"module": name, "engine": engine, "batch": batch, **json.loads(done.stdout)})
                    print(rows[-1], flush=True)
    return rows


def main(argv: list[str] | None = None) -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="tiny: does it run at all (numbers mean nothing)")
    parser.add_argument("--repeats", type=int, default=Config.n_repeats)
    parser.add_argument("--seed", type=int, default=Config.seed)
    parser.add_argument("--peak", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=None, help="default: results/dpsgd.json beside this file")
    given = parser.parse_args(argv)
    if given.peak:
        peak(given.peak[0], int(given.peak[1]), given.peak[2], Config())
        return
    c = SMOKE if given.smoke else Config(n_repeats=given.repeats, seed=given.seed)
    stamp = machine(np, torch, opacus)
    torch.set_num_threads(1)
    result = {
        "benchmark": "dpsgd",
        "config": asdict(c),
        "machine": stamp,
        "steps": measure(c),
        "parts": parts(c),
        "memory": [] if given.smoke else memory(c),
        "load_after": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }
    print(result["parts"])
    out = given.out or HERE / "results" / ("dpsgd-smoke.json" if given.smoke else "dpsgd.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"written to {out}")


if __name__ == "__main__":
    main()
