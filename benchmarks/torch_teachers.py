"""Torch teachers per second and votes per second: TorchTeacherEnsemble against a plain loop, in one run.

    python benchmarks/torch_teachers.py [--smoke] [--only NAME ...] [--device cpu] [--repeats 3] [--accuracy]

The plain loop is what one would write without this package, on the same device and with torch's own number of threads:
for each shard a module, a shuffling DataLoader, torch's default Adam and ``loss.item()``; for votes each module in turn
over batches of 100 rows. It trains and asks a part of the teachers only (``plain_teachers``): all cost alike. Ours is
the whole job, worker processes warm. The two take turns within a repeat; the ratio is the median of the repeats'.

"memory" is how much the peak of a fresh process grows in a fit of ten teachers as one group on the CPU. ``--accuracy``
also trains every teacher plainly, once, and compares the mean accuracies. Data: MNIST from PATE_DATA_HOME, or else
random pixels of the same shape.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from _machine import HERE, load_mnist, machine, rates, seconds
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from pate import TorchTeacherEnsemble
from pate.networks import MLP, SmallCNN

#: What is measured: our module, the plain loop's, our precision.
VARIANTS: dict[str, tuple[type[nn.Module], str, str]] = {
    "cnn float32": (SmallCNN, "cnn", "float32"),
    "cnn bf16": (SmallCNN, "cnn", "bf16"),
    "mlp float32": (MLP, "mlp", "float32"),
}


@dataclass(frozen=True)
class Config:
    """How much of it."""

    n_teachers: int = 250
    n_records: int = 60_000
    n_queries: int = 10_000
    epochs: int = 20
    n_jobs: int = 2
    n_repeats: int = 3
    plain_teachers: int = 20
    device: str = "cpu"
    seed: int = 0


SMOKE = Config(n_teachers=6, n_records=240, n_queries=60, epochs=1, n_repeats=1, plain_teachers=2)


def plain_module(kind: str) -> nn.Module:
    """Return the same network as a tutorial writes it: activation before pooling."""
    if kind == "mlp":
        return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        *(nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10)),
    )


def plain_loop(kind: str, X: Any, y: Any, shards: list[Any], config: Config) -> list[nn.Module]:
    modules = []
    for shard in shards:
        module = plain_module(kind).to(config.device)
        optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
        loss_of = nn.CrossEntropyLoss()
        data = TensorDataset(torch.from_numpy(X[shard]), torch.from_numpy(y[shard]))
        batches = DataLoader(data, batch_size=32, shuffle=True)
        for _ in range(config.epochs):
            total = 0.0
            for rows, labels in batches:
                optimizer.zero_grad()
                loss = loss_of(module(rows.to(config.device)), labels.to(config.device))
                loss.backward()
                optimizer.step()
                total += loss.item()
        modules.append(module)
    return modules


def plain_votes(modules: list[nn.Module], public: Any, config: Config) -> Any:
    rows = torch.from_numpy(public)
    labels = np.empty((len(modules), len(rows)), dtype=np.int64)
    with torch.no_grad():
        for i, module in enumerate(modules):
            module.eval()
            for start in range(0, len(rows), 100):
                part = rows[start : start + 100].to(config.device)
                labels[i, start : start + 100] = module(part).argmax(1).cpu().numpy()
    return labels


def ensemble(name: str, config: Config, **options: Any) -> TorchTeacherEnsemble:
    module, _, precision = VARIANTS[name]
    return TorchTeacherEnsemble(
        module,
        options.pop("n_teachers", config.n_teachers),
        classes=range(10),
        epochs=config.epochs,
        precision=precision,
        device=config.device,
        n_jobs=config.n_jobs if config.device == "cpu" else None,
        random_state=config.seed,
        partition_seed=config.seed,
        **options,
    )


def measure(name: str, config: Config, data: tuple[Any, Any, Any, Any]) -> list[dict[str, float]]:
    """Return one row of rates per repeat."""
    X, y, public, truth = data
    _, kind, precision = VARIANTS[name]
    teachers = ensemble(name, config)
    # Starting worker processes is paid once per session, not per fit: warm them up.
    ensemble(name, replace(config, epochs=1), n_teachers=2 * config.n_jobs).fit(X[:200], y[:200])
    rows = []
    for _ in range(config.n_repeats):
        ours_fit, _ = seconds(partial(teachers.fit, X, y))
        # Votes are float32 whatever the training was.
        asked = public if precision == "float32" else public[:1000]
        ours_vote, votes = seconds(partial(teachers.vote, asked))
        shards = [teachers.partition_.shard(i) for i in range(min(config.plain_teachers, config.n_teachers))]
        plain_fit, modules = seconds(partial(plain_loop, kind, X, y, shards, config))
        plain_vote, labels = seconds(partial(plain_votes, modules, asked, config))
        rows.append(
            {
                "ours_teachers_per_s": config.n_teachers / ours_fit,
                "plain_teachers_per_s": len(shards) / plain_fit,
                "ours_votes_per_s": config.n_teachers * len(asked) / ours_vote,
                "plain_votes_per_s": len(shards) * len(asked) / plain_vote,
                "ours_fit_s": ours_fit,
                "ours_vote_s": ours_vote,
                "ours_accuracy": float((votes.labels == truth[: len(asked)]).mean()),
                "plain_accuracy": float((labels == truth[: len(asked)]).mean()),
            }
        )
        print(f"  {name}: {rows[-1]['ours_teachers_per_s'] / rows[-1]['plain_teachers_per_s']:.2f}x", file=sys.stderr)
    return rows


def group_memory(config: Config) -> dict[str, float]:
    """Return the peak of a fresh process above what it held before, MiB, when ten teachers are trained as one group."""
    code = (
        "from torch_teachers import *\n"
        "torch.set_num_threads(1)\n"
        f"config = {config!r}\n"
        "rng = np.random.default_rng(0)\n"
        "X, y = rng.random((2400, 784), dtype=np.float32), rng.integers(0, 10, 2400)\n"
        "def status(name):\n"
        "    lines = Path('/proc/self/status').read_text().splitlines()\n"
        "    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))\n"
        "teachers = ensemble('cnn float32', replace(config, n_jobs=1, epochs=2), n_teachers=10, group_size=10)\n"
        "Path('/proc/self/clear_refs').write_text('5')  # the peak begins again\n"
        "before = status('VmRSS')\n"
        "teachers.fit(X, y)\n"
        "print(before, status('VmHWM') - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=HERE, capture_output=True, text=True, check=True)
    before, extra = map(float, done.stdout.split()[-2:])
    return {"before_mib": before, "extra_mib": extra}


def accuracy(config: Config, data: tuple[Any, Any, Any, Any]) -> dict[str, float]:
    """Return the mean accuracy of all teachers, ours and those of the plain loop on the same shards."""
    X, y, public, truth = data
    teachers = ensemble("cnn float32", config).fit(X, y)
    ours = (teachers.vote(public).labels == truth).mean(1)
    shards = [teachers.partition_.shard(i) for i in range(config.n_teachers)]
    plain = (plain_votes(plain_loop("cnn", X, y, shards, config), public, config) == truth).mean(1)
    error = float(np.sqrt((ours.var(ddof=1) + plain.var(ddof=1)) / len(ours)))
    return {"ours": float(ours.mean()), "plain": float(plain.mean()), "standard_error": error}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="tiny: does it run at all (numbers mean nothing)")
    parser.add_argument("--only", nargs="*", choices=VARIANTS, default=list(VARIANTS), metavar="NAME")
    parser.add_argument("--teachers", type=int, default=Config.n_teachers)
    parser.add_argument("--epochs", type=int, default=Config.epochs)
    parser.add_argument("--jobs", type=int, default=Config.n_jobs)
    parser.add_argument("--repeats", type=int, default=Config.n_repeats)
    parser.add_argument("--device", default=Config.device)
    parser.add_argument("--seed", type=int, default=Config.seed)
    parser.add_argument("--accuracy", action="store_true", help="also train every teacher plainly, once")
    parser.add_argument("--out", type=Path, default=None, help="default: results/torch_teachers.json")
    given = parser.parse_args(argv)
    config = replace(
        SMOKE if given.smoke else Config(),
        **({} if given.smoke else {"n_teachers": given.teachers, "epochs": given.epochs, "n_repeats": given.repeats}),
        n_jobs=given.jobs,
        device=given.device,
        seed=given.seed,
    )
    stamp = machine(np, torch, joblib)
    stamp["torch_threads"] = torch.get_num_threads()
    if torch.cuda.is_available() and config.device != "cpu":
        stamp["gpu"] = torch.cuda.get_device_name()
    *data, source = load_mnist(config.n_records, config.n_queries, config.seed)
    suffix = "-smoke" if given.smoke else "" if config.device == "cpu" else f"-{config.device.replace(':', '')}"
    out = given.out or HERE / "results" / f"torch_teachers{suffix}.json"
    result: dict[str, Any] = {"benchmark": "torch_teachers", "data": source, "config": asdict(config), "variants": {}}
    if out.is_file():  # variants may be measured one at a time, each with its own stamp
        earlier = json.loads(out.read_text(encoding="utf-8"))
        if earlier["config"] == result["config"] and earlier["data"] == source:
            result = earlier
    for name in given.only:
        rows = measure(name, config, tuple(data))
        result["variants"][name] = {"machine": stamp, "summary": rates(rows), "repeats": rows}
    print(f"{source}, {config.n_teachers} teachers, {config.epochs} epochs, {config.device}, n_jobs={config.n_jobs}")
    print(f"{'per second':<24}{'ours':>12}{'plain loop':>12}{'ratio':>8}   range")
    for name in given.only:
        for what, r in result["variants"][name]["summary"].items():
            span = f"{r['ratio_low']:.2f} to {r['ratio_high']:.2f}"
            ours, plain = f"{r['ours_per_s']:>12,.1f}", f"{r['plain_per_s']:>12,.1f}"
            print(f"{name + ' ' + what:<24}{ours}{plain}{r['ratio']:>8.2f}   {span}")
    if config.device == "cpu" and Path("/proc/self/clear_refs").exists():
        result["group_memory"] = group_memory(config)
        print(f"ten teachers as one group: {result['group_memory']['extra_mib']:.0f} MiB more at the peak")
    if given.accuracy:
        result["accuracy"] = accuracy(config, tuple(data)) | {"machine": stamp}
        print("mean accuracy of a teacher: ours {ours:.4f}, plain {plain:.4f}".format(**result["accuracy"]))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"written to {out}")


if __name__ == "__main__":
    main()
