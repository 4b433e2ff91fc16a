"""What a GPU makes faster: teachers in groups, steps of DP-SGD, networks on public images; against its own processor.

    python benchmarks/gpu.py [--smoke] [--only teachers dpsgd images] [--repeats 3] [--device cuda]

Everybody takes turns within a repeat, in one process; a ratio is the median of the repeats' ratios. Teachers: those of
`torch_teachers.py`, all as one group on the GPU, against one after the other there, against the plain loop there, and
against this package on the CPU with a worker process for each core; and whether the votes are those of the CPU's
teachers, and the weights those of another fit bit for bit. DP-SGD: seconds of a step (as in `dpsgd.py`, by the clock)
beside plain SGD and Opacus on the GPU, and on the CPU with all its cores; and steps of a whole fit, noise and all.
Images: an image student, and a self-supervised network, whole fits on both.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import dpsgd
import numpy as np
import opacus
import torch
import torch_teachers
from _machine import HERE, load_mnist, machine, seconds

from pate import Budget, DPSGDClassifier
from pate.dpsgd import Device, SampledGaussian
from pate.models.students import ImageStudent
from pate.representations.images import SelfSupervised

CORES = os.cpu_count() or 1
Save = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Config:
    """How much of it."""

    device: str = "cuda"
    n_teachers: int = 250
    n_alone: int = 10
    n_records: int = 60_000
    n_queries: int = 2_000
    epochs: int = 20
    modules: tuple[str, ...] = ("linear", "mlp", "tanh-cnn", "small-cnn")
    batches: tuple[int, ...] = (256, 1024, 4096)
    n_steps: int = 16
    step_seconds: float = 0.2
    n_images: int = 4_000
    image_epochs: int = 10
    n_repeats: int = 3
    seed: int = 0


SMOKE = Config(
    n_teachers=6, n_alone=2, n_records=240, n_queries=60, epochs=1, modules=("linear", "tanh-cnn"), batches=(16,),
    n_steps=8, step_seconds=0.0, n_images=64, image_epochs=1, n_repeats=1,
)  # fmt: skip


def wait(device: str) -> None:
    """Wait until the device has done what it was given."""
    if device != "cpu":
        torch.cuda.synchronize()


def compared(times: dict[str, list[float]], to: str) -> dict[str, dict[str, float]]:
    """Return medians of seconds, and how many times as long as ``to`` each took: its median and range over repeats."""
    found = {}
    for name, took in times.items():
        ratios = [a / b for a, b in zip(took, times[to], strict=True)]
        found[name] = {
            "seconds": median(took), "ratio": median(ratios), "ratio_low": min(ratios), "ratio_high": max(ratios),
        }  # fmt: skip
    return found


def teachers(c: Config, save: Save) -> None:
    """Time of one teacher, and of its votes on all public rows, in each of the ways."""
    X, y, public, truth, source = load_mnist(c.n_records, c.n_queries, c.seed)
    some = X[: c.n_records * c.n_alone // c.n_teachers], y[: c.n_records * c.n_alone // c.n_teachers]
    there = torch_teachers.Config(n_teachers=c.n_teachers, epochs=c.epochs, device=c.device, seed=c.seed, n_jobs=CORES)
    here, alone = replace(there, device="cpu"), replace(there, n_teachers=c.n_alone)
    for name, (_, kind, precision) in torch_teachers.VARIANTS.items():
        ways = {
            "grouped": (there, {}, X, y), "one by one": (alone, {"group_size": 1}, *some), "cpu": (here, {}, X, y),
        }  # fmt: skip
        if precision != "float32":
            ways.pop("cpu")
        made = {way: torch_teachers.ensemble(name, config, **more) for way, (config, more, *_) in ways.items()}
        for way, (config, more, *_) in ways.items():  # worker processes and kernels are there
            warm = replace(config, n_teachers=2 * CORES if way == "cpu" else 4, epochs=1)
            torch_teachers.ensemble(name, warm, **more).fit(X[:200], y[:200]).vote(public[:50])
        fits, asks = ({way: list[float]() for way in (*ways, "plain loop")} for _ in range(2))
        same, differing, right = [], [], {}
        for _ in range(c.n_repeats):
            votes, earlier = {}, getattr(made["grouped"], "teachers_", None)
            for way, (config, _, rows, labels) in ways.items():
                took, _ = seconds(partial(made[way].fit, rows, labels))
                fits[way].append(took / config.n_teachers)
                took, votes[way] = seconds(partial(made[way].vote, public))
                asks[way].append(took / config.n_teachers)
                right[way] = float((votes[way].labels == truth).mean())
            shards = [made["one by one"].partition_.shard(i) for i in range(c.n_alone)]
            took, modules = seconds(partial(torch_teachers.plain_loop, kind, *some, shards, alone))
            fits["plain loop"].append(took / c.n_alone)
            took, labels = seconds(partial(torch_teachers.plain_votes, modules, public, alone))
            asks["plain loop"].append(took / c.n_alone)
            right["plain loop"] = float((labels == truth).mean())
            if earlier is not None:
                now = made["grouped"].teachers_
                same.append(all(np.array_equal(a[n], b[n]) for a, b in zip(earlier, now, strict=True) for n in a))
            if "cpu" in votes:
                differing.append(float((votes["cpu"].labels != votes["grouped"].labels).mean()))
            found = {
                "data": source, "training": compared(fits, "grouped"), "voting": compared(asks, "grouped"),
                "accuracy": right, "repeats_bit_for_bit": same, "votes_unlike_cpu": differing,
                "repeats": {"training": fits, "voting": asks},
            }  # fmt: skip
            save({name: found})
            print(name, {way: f"{1 / r['seconds']:.1f}/s" for way, r in found["training"].items()}, flush=True)


def clock(step: dpsgd.Step, indices: list[torch.Tensor], least: float, device: str) -> float:
    """Return seconds per step, over at least so many seconds."""
    wait(device)
    start, n = time.perf_counter(), 0
    while not n or time.perf_counter() - start < least:
        for index in indices:
            step(index)
        n += len(indices)
        wait(device)
    return (time.perf_counter() - start) / n


#: Whose steps are measured on the GPU.
BESIDE = ("plain SGD", "book-keeping", "record by record (vmap)", "Opacus hooks", "Opacus ghost")


def private_steps(c: Config, save: Save) -> None:
    """Seconds of a step on the GPU, beside others there and beside the CPU."""
    settings = dpsgd.Config(modules=c.modules, batches=c.batches, seed=c.seed, device=c.device)
    if c.n_repeats == 1 and c.step_seconds == 0:
        settings = replace(dpsgd.SMOKE, device=c.device)
    there, here = dpsgd.records(settings), dpsgd.records(replace(settings, device="cpu"))
    rng = np.random.default_rng(c.seed)
    for name in c.modules:
        steps: dict[str, tuple[dpsgd.Step, str]] = {}
        failed = {}
        for engine in BESIDE:
            try:
                steps[engine] = dpsgd.ENGINES[engine](name, *there[:2], settings), c.device
                steps[engine][0](torch.arange(16))
            except Exception as error:
                steps.pop(engine, None)
                failed[engine] = f"{type(error).__name__}: {error}"[:200]
        for engine in ("plain SGD", "book-keeping"):
            steps[f"{engine}, cpu"] = dpsgd.ENGINES[engine](name, *here[:2], replace(settings, device="cpu")), "cpu"
        for batch in c.batches:
            indices = [torch.from_numpy(np.sort(rng.choice(len(here[0]), batch, replace=False))) for _ in range(3)]
            taken = {e: step for e, step in steps.items() if batch <= settings.most_for_slow or e not in dpsgd.SLOW}
            for step, _ in taken.values():
                step(indices[0])
            times: dict[str, list[float]] = {engine: [] for engine in taken}
            for _ in range(c.n_repeats):
                for engine, (step, device) in taken.items():
                    times[engine].append(clock(step, indices, c.step_seconds, device))
            found = compared(times, "book-keeping")
            save({f"{name}, batch {batch}": {"steps": found, "repeats": times, "failed": failed}})
            print(name, batch, {e: f"{1e3 * r['seconds']:.2f} ms" for e, r in found.items()}, failed, flush=True)


def whole_fits(c: Config, save: Save) -> None:
    """Seconds of a step of a whole private fit: sampling, sums, noise, optimiser."""
    n = 64 if c.step_seconds == 0 else 51_000
    rng = np.random.default_rng(c.seed)
    X, y = rng.random((n, 784), dtype=np.float32), rng.integers(0, 10, n)
    for name in c.modules:
        times: dict[str, list[float]] = {"gpu": [], "cpu": []}
        for _ in range(c.n_repeats):
            for way, device in (("gpu", Device(c.device)), ("cpu", Device("cpu", n_threads=CORES))):
                ends: list[float] = []
                DPSGDClassifier(
                    name, budget=Budget(8.0, 1e-6), classes=range(10), expected_batch_size=min(n // 4, 1024),
                    mechanism=SampledGaussian(n_steps=c.n_steps), device=device, measure=False,
                    random_state=c.seed, callbacks=[lambda _, ends=ends: ends.append(time.perf_counter())],
                ).fit(X, y)  # fmt: skip
                times[way].append((ends[-1] - ends[2]) / (len(ends) - 3))
        found = compared(times, "gpu")
        save({name: {"steps": found, "repeats": times}})
        print("fit", name, {way: f"{1e3 * r['seconds']:.2f} ms" for way, r in found.items()}, flush=True)


def images(c: Config, save: Save) -> None:
    """Seconds of whole fits on public images."""
    X, y, public, truth, source = load_mnist(c.n_images, c.n_queries, c.seed)
    X, public = (a.reshape(-1, 28, 28) for a in (X, public))
    some = np.where(np.arange(len(y)) < len(y) // 2, y, -1)
    work: dict[str, Callable[[str, int], Any]] = {
        "image student": lambda device, epochs: ImageStudent(epochs=epochs, random_state=c.seed, device=device).fit(
            X, some
        ),
        "self-supervised": lambda device, epochs: SelfSupervised(epochs=epochs, random_state=c.seed, device=device).fit(
            X
        ),
    }
    for name, fit in work.items():
        times: dict[str, list[float]] = {"gpu": [], "cpu": []}
        right = {}
        fit(c.device, 1)
        for _ in range(c.n_repeats):
            for way, device in (("gpu", c.device), ("cpu", "cpu")):
                took, fitted = seconds(partial(fit, device, c.image_epochs))
                times[way].append(took)
                if name == "image student":
                    right[way] = float((fitted.predict(public) == truth).mean())
        found = compared(times, "gpu")
        save({name: {"data": source, "fits": found, "accuracy": right, "repeats": times}})
        print(name, {way: f"{r['seconds']:.2f} s" for way, r in found.items()}, right, flush=True)


PARTS: dict[str, Callable[[Config, Save], None]] = {
    "teachers": teachers, "dpsgd": private_steps, "dpsgd fits": whole_fits, "images": images,
}  # fmt: skip


def main(argv: list[str] | None = None) -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="tiny: does it run at all (numbers mean nothing)")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--repeats", type=int, default=Config.n_repeats)
    parser.add_argument("--device", default=Config.device)
    parser.add_argument("--seed", type=int, default=Config.seed)
    parser.add_argument("--out", type=Path, default=None, help="default: results/gpu.json beside this file")
    given = parser.parse_args(argv)
    c = SMOKE if given.smoke else Config(n_repeats=given.repeats)
    c = replace(c, device=given.device, seed=given.seed)
    stamp = machine(np, torch, opacus)
    if c.device != "cpu":
        stamp["gpu"] = torch.cuda.get_device_name()
        stamp["versions"] |= {"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
    out = given.out or HERE / "results" / ("gpu-smoke.json" if given.smoke else "gpu.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"benchmark": "gpu", "config": json.loads(json.dumps(asdict(c)))}
    if out.is_file():  # parts may be measured one at a time, each with its own stamp
        earlier = json.loads(out.read_text(encoding="utf-8"))
        result = earlier if earlier["config"] == result["config"] else result

    def save(part: str, found: dict[str, Any]) -> None:
        result.setdefault(part, {"machine": stamp}).update(found)
        out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")

    for part in given.only:
        result.pop(part, None)
        PARTS[part](c, partial(save, part))
    print(f"written to {out}")


if __name__ == "__main__":
    main()
