"""Train teachers on a dask cluster and release labels of public rows: docs/cluster.md in a page of Python.

python experiments/cluster_teachers.py --smoke                                 (two worker processes of its own)
python experiments/cluster_teachers.py --scheduler tcp://scheduler:8786 --dataset mnist --teachers 250 --torch
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from distributed import Client, LocalCluster
from sklearn.linear_model import LogisticRegression

from pate import Budget, GNMax, TeacherEnsemble, TorchTeacherEnsemble, load_dataset, release_labels
from pate.networks import MLP


@dataclass(frozen=True)
class Config:
    """Everything that decides the release; public, and fixed before the private rows are looked at."""

    dataset: str = "digits"
    n_teachers: int = 250
    torch: bool = False
    epochs: int = 20
    device: str = "auto"
    group_size: int | str = "auto"
    n_queries: int = 100
    sigma: float = 40.0
    epsilon: float = 2.0
    delta: float = 1e-5
    random_state: int = 0


def make_teachers(config: Config, classes: tuple[Any, ...], checkpoint_dir: Path | None) -> Any:
    common: dict[str, Any] = {
        "classes": classes,
        "random_state": config.random_state,
        "partition_seed": config.random_state,
        "checkpoint_dir": checkpoint_dir,
        "verbose": True,
    }
    if not config.torch:
        return TeacherEnsemble(LogisticRegression(), config.n_teachers, **common)
    return TorchTeacherEnsemble(
        MLP, config.n_teachers, epochs=config.epochs, device=config.device, group_size=config.group_size, **common
    )


def train_and_release(config: Config, client: Client, checkpoint_dir: Path | None) -> None:
    data = load_dataset(config.dataset)
    public = data.public.X[: config.n_queries]
    print(f"{sum(client.ncores().values())} tasks side by side on {len(client.ncores())} workers")
    started = time.perf_counter()
    with joblib.parallel_config(backend="dask"):
        teachers = make_teachers(config, data.classes, checkpoint_dir).fit(data.private.X, data.private.y)
        votes = teachers.vote(public, keep_labels=False)
    print(f"{config.n_teachers} teachers trained and asked in {time.perf_counter() - started:.1f} s")

    # Here, and not on the cluster, is where privacy begins.
    release = release_labels(votes, GNMax(config.sigma), budget=Budget(config.epsilon, config.delta))
    right = np.mean(release.labels == data.public.y_for_evaluation[: config.n_queries])
    print(f"{release.n_answered} labels, {right:.0%} of them right\n{release.statement.headline}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="Small, on two worker processes of its own.")
    parser.add_argument("--scheduler", help="Such as tcp://scheduler:8786; left out: workers on this machine.")
    parser.add_argument("--workers", type=int, default=2, help="How many, without --scheduler.")
    parser.add_argument("--dataset", default=Config.dataset)
    parser.add_argument("--teachers", type=int, default=Config.n_teachers)
    parser.add_argument("--torch", action="store_true", help="A small network each, instead of logistic regression.")
    parser.add_argument("--device", default=Config.device)
    parser.add_argument("--group-size", type=int, help="Teachers per task on GPUs.")
    parser.add_argument("--checkpoints", type=Path, help="Private folder; the same call goes on after a kill.")
    given = parser.parse_args()
    config = Config(
        dataset=given.dataset,
        n_teachers=given.teachers,
        torch=given.torch,
        device=given.device,
        group_size=given.group_size or "auto",
    )
    if given.smoke:
        config = Config(n_teachers=20, sigma=5.0, n_queries=5, epsilon=8.0)
    if given.scheduler:
        with Client(given.scheduler) as client:
            train_and_release(config, client, given.checkpoints)
        return
    with (
        LocalCluster(n_workers=given.workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        train_and_release(config, client, given.checkpoints)


if __name__ == "__main__":
    main()
