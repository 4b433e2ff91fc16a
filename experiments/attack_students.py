"""Who can tell on which records a model was fitted? Membership inference on eight kinds of models, one table.

    python experiments/attack_students.py                              # digits: 128 models of each kind, three seeds
    PATE_DATA_HOME=... python experiments/attack_students.py --data mnist   # 16 networks; resumable in --work
    python experiments/attack_students.py --page                       # the pages' tables from the stored JSON
    python experiments/attack_students.py --smoke                      # does it run?

Every kind is fitted on random halves of the same records, and every model is a target in its turn. The kinds and their
settings were fixed on other seeds (100 and up). The JSON is written after every cell: a killed run goes on there.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from pate import Budget, DPSGDClassifier, GNMax, PATEClassifier, Queries, load_dataset
from pate._core.provenance import provenance
from pate.audit import attack
from pate.dpsgd import SampledGaussian

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "experiments" / "results" / "attack_students.json"
#: The users' page has a short table, the reviewers' page the whole one.
PAGE, WHOLE = ROOT / "docs" / "audit-attacks.md", ROOT / "docs" / "audit-faults.md"
#: Between these lines of a page nothing is typed by hand.
BEGIN, END = "<!-- table of experiments/attack_students.py -->", "<!-- end -->"
ATTACKS = ("lira", "lira-offline", "rmia", "loss")
ONE = Budget(1.0, 1e-5)
#: So large that it promises nothing: the votes are released as they are.
NOTHING = Budget(1e6, 1e-5)
KEY = ("data", "seed", "kind")


@dataclass(frozen=True)
class Config:
    """One table."""

    data: str
    kinds: tuple[str, ...]
    seeds: tuple[int, ...]
    n_shadows: int
    n_records: int | None = None
    n_public: int | None = None


DIGITS = Config(
    "digits",
    ("kernel", "linear", "5-nn", "tree", "forest", "PATE, shards, epsilon 1", "PATE, records, epsilon 1",
     "PATE, shards, votes without noise", "DP-SGD, epsilon 1"),
    (0, 1, 2),
    128,
)  # fmt: skip
MNIST = Config("mnist", ("network", "DP-SGD, epsilon 1"), (0,), 16, n_records=1_000)
SMOKE = Config("digits", ("kernel", "PATE, shards, epsilon 1"), (100,), 8, n_records=200)


class KernelClassifier(ClassifierMixin, BaseEstimator):
    """Least squares on the classes in a Gaussian kernel's space."""

    def __init__(self, gamma: float = 0.05, alpha: float = 0.01) -> None:
        self.gamma = gamma
        self.alpha = alpha

    def fit(self, X: Any, y: Any) -> Self:
        """Solve for the classes' indicators."""
        self.classes_ = np.unique(y)
        self.model_ = KernelRidge(kernel="rbf", gamma=self.gamma, alpha=self.alpha)
        self.model_.fit(X, (np.asarray(y)[:, None] == self.classes_).astype(float))
        return self

    def decision_function(self, X: Any) -> Any:
        """Return a column for each class."""
        return self.model_.predict(X)

    def predict(self, X: Any) -> Any:
        """Return the class of the largest column."""
        return self.classes_[self.decision_function(X).argmax(axis=1)]


class NetworkClassifier(ClassifierMixin, BaseEstimator):
    """A small convolutional network, trained without privacy."""

    def __init__(self, epochs: int = 20, random_state: int | None = None) -> None:
        self.epochs = epochs
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Train by Adam on batches of 64."""
        import torch

        from pate.networks import SmallCNN

        self.classes_, labels = np.unique(y, return_inverse=True)
        rows, targets = torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(labels)
        with torch.random.fork_rng():
            torch.manual_seed(0 if self.random_state is None else self.random_state)
            self.module_ = SmallCNN(n_features=rows.shape[1], n_classes=len(self.classes_))
            optimizer = torch.optim.Adam(self.module_.parameters(), lr=1e-3)
            for _ in range(self.epochs):
                for batch in torch.randperm(len(rows)).split(64):
                    optimizer.zero_grad()
                    torch.nn.functional.cross_entropy(self.module_(rows[batch]), targets[batch]).backward()
                    optimizer.step()
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return the softmax of the logits, in double precision."""
        import torch

        with torch.no_grad():
            logits = [self.module_(rows) for rows in torch.as_tensor(X, dtype=torch.float32).split(500)]
            return torch.cat(logits).double().softmax(dim=1).numpy()

    def predict(self, X: Any) -> Any:
        """Return the likeliest class."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def model_of(kind: str) -> Any:
    """Return the unfitted model of a kind."""
    shards = {"classes": range(10), "queries": Queries(force=True)}
    return {
        "kernel": KernelClassifier(),
        "linear": LogisticRegression(max_iter=100),
        "5-nn": KNeighborsClassifier(5),
        "tree": DecisionTreeClassifier(),
        "forest": RandomForestClassifier(20),
        "network": NetworkClassifier(),
        "PATE, shards, epsilon 1": PATEClassifier(GaussianNB(var_smoothing=0.1), n_teachers=50, budget=ONE, **shards),
        "PATE, records, epsilon 1": PATEClassifier(budget=ONE, classes=range(10), image_shape=(8, 8)),
        "PATE, shards, votes without noise": PATEClassifier(
            GaussianNB(var_smoothing=0.1), n_teachers=20, budget=NOTHING, mechanism=GNMax(0.02), **shards
        ),
        "DP-SGD, epsilon 1": DPSGDClassifier(
            "linear", budget=ONE, classes=range(10), mechanism=SampledGaussian(n_steps=30)
        ),
    }[kind]


def measure(config: Config, kind: str, seed: int, n_jobs: int, folder: Path | None) -> dict[str, Any]:
    """Attack one kind, and return what the page and its picture need."""
    data = load_dataset(config.data, random_state=seed, n_public=config.n_public)
    X, y = data.private.X[: config.n_records], data.private.y[: config.n_records]
    began, cpu = time.monotonic(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # logistic regressions that stop early
        found = attack(
            model_of(kind),
            X,
            y,
            attack=ATTACKS,
            n_shadows=config.n_shadows,
            X_public=data.public.X if kind.startswith("PATE") else None,
            random_state=seed,
            n_jobs=n_jobs,
            checkpoint_dir=folder,
            published=True,
        )
    figures = [f.to_dict() for f in found.figures if not f.estimate]
    return {
        "seconds": round(time.monotonic() - began, 1),
        # Workers are other processes: with one job only this is the whole.
        "cpu_seconds": round(time.process_time() - cpu, 1) if n_jobs == 1 else None,
        "n_records": len(y),
        "n_targets": found.settings["targets"],
        "claim": found.claim,
        "refuted": found.refuted,
        "figures": figures,
    }


def run(config: Config, result: Path, n_jobs: int, work: Path | None) -> None:
    """Measure what is not stored yet."""
    stored = json.loads(result.read_text(encoding="utf-8")) if result.exists() else {"configs": {}, "cells": []}
    have = {tuple(cell[name] for name in KEY) for cell in stored["cells"]}
    stamp = provenance()
    for seed in config.seeds:
        for kind in config.kinds:
            key = (config.data, seed, kind)
            if key in have:
                continue
            folder = None if work is None else work / f"{config.data}-{seed}-{config.kinds.index(kind)}.private"
            cell = dict(zip(KEY, key, strict=True)) | measure(config, kind, seed, n_jobs, folder)
            stored["cells"].append(cell | {"n_jobs": n_jobs, "n_cores": os.cpu_count(), "commit": stamp["commit"]})
            _keep(stored, stamp, config, result)
            print(*key, f"{cell['seconds']} s", flush=True)
    _keep(stored, stamp, config, result)


def _keep(stored: dict[str, Any], stamp: dict[str, Any], config: Config, result: Path) -> None:
    result.parent.mkdir(parents=True, exist_ok=True)
    kept = {**stamp, "configs": stored["configs"] | {config.data: asdict(config)}, "cells": stored["cells"]}
    result.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def figure(cell: dict[str, Any], name: str, of: str | None = None) -> dict[str, Any] | None:
    """Return a figure of a cell."""
    return next((f for f in cell["figures"] if f["name"] == name and of in (None, f["of"])), None)


def _share(found: dict[str, Any] | None) -> str:
    if found is None or found["value"] is None:
        return ""
    interval = "" if found["low"] is None else f" ({100 * found['low']:.1f} to {100 * found['high']:.1f})"
    return f"{100 * found['value']:.1f}{interval}"


def _row(cells: list[dict[str, Any]], short: bool) -> list[str]:
    first = cells[0]
    at1, at01 = (f"true positives at {rate} false positives" for rate in ("1%", "0.1%"))
    others = [
        f"{100 * (found['value'] if found else 0):.1f}" for found in (figure(first, at1, name) for name in ATTACKS[1:])
    ]
    seeds = [figure(cell, at1, "lira") for cell in cells]
    values = [100 * found["value"] for found in seeds if found]
    area = figure(first, "AUC", "lira")
    held = figure(first, "accuracy on the other records")
    allowed = _share(figure(first, "most the claim allows at 1% false positives")) or "no claim"
    accuracy = f"{100 * held['value']:.1f}" if held else ""
    if short:
        return [first["kind"], accuracy, _share(seeds[0]), allowed]
    return [
        first["kind"],
        accuracy,
        f"{area['value']:.3f} ({area['low']:.3f} to {area['high']:.3f})" if area else "",
        _share(seeds[0]),
        f"{min(values):.1f} to {max(values):.1f}" if len(values) > 1 else "",
        _share(figure(first, at01, "lira")),
        *others,
        allowed,
        ", ".join(sorted({f"{cell['cpu_seconds']:.0f}" for cell in cells[:1] if cell["cpu_seconds"] is not None})),
    ]


def table(stored: dict[str, Any], *, short: bool = False) -> str:
    """Return a table for each data set; ``short`` has LiRA on digits alone."""
    lines: list[str] = []
    heads = ["model", "accuracy", "AUC, LiRA", "found at 1%, LiRA", "other seeds too", "found at 0.1%, LiRA",
             "offline", "RMIA", "loss", "allowed at 1%", "core seconds"]  # fmt: skip
    if short:
        heads = ["model", "accuracy", "found at 1%", "allowed at 1%"]
    for name, config in stored["configs"].items():
        if short and name != "digits":
            continue
        mine = [cell for cell in stored["cells"] if cell["data"] == name]
        first = mine[0]
        lines += [
            f"**{name}**: {first['n_records']:,} records, {first['n_targets']} targets of each kind, "
            f"{len(config['seeds'])} seed{'' if len(config['seeds']) == 1 else 's'}.",
            "",
            f"| {' | '.join(heads)} |",
            "|---" * len(heads) + "|",
        ]
        for kind in config["kinds"]:
            cells = sorted((c for c in mine if c["kind"] == kind), key=lambda cell: cell["seed"])
            if cells:
                lines.append(f"| {' | '.join(_row(cells, short))} |")
        lines.append("")
    return "\n".join(lines).rstrip()


def write_page(result: Path, page: Path, *, short: bool = False) -> None:
    """Put the tables between their marks in a page."""
    stored, text = json.loads(result.read_text(encoding="utf-8")), page.read_text(encoding="utf-8")
    before, mark, after = text.partition(BEGIN)
    page.write_text(
        f"{before}{mark}\n\n{table(stored, short=short)}\n\n{END}{after.partition(END)[2]}", encoding="utf-8"
    )


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=("digits", "mnist"), default="digits")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--work", type=Path, help="a folder that keeps finished models' answers: a killed run goes on")
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    chosen = parser.parse_args()
    if chosen.page:
        write_page(chosen.out, PAGE, short=True)
        write_page(chosen.out, WHOLE)
        return
    if chosen.smoke:
        run(SMOKE, ROOT / "runs" / "attack_students_smoke.json", chosen.n_jobs, None)
        return
    run(DIGITS if chosen.data == "digits" else MNIST, chosen.out, chosen.n_jobs, chosen.work)


if __name__ == "__main__":
    main()
