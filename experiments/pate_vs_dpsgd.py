"""Answer for one data set: PATE or DP-SGD, at which epsilon, and at what cost in time.

    python experiments/pate_vs_dpsgd.py                   # digits, a minute or two on two cores
    python experiments/pate_vs_dpsgd.py --dataset mnist   # much longer; downloads MNIST when it is not there
    python experiments/pate_vs_dpsgd.py --smoke           # seconds: does it run?

A killed run goes on when it is called again. Numbers and figures come from the JSON, never typed by hand.
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from pate import Budget, Dataset, DPSGDClassifier, PATEClassifier, compare, load_dataset
from pate.data import encode_dataset

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Config:
    """What is compared. Everything here is fixed before the private rows are looked at."""

    dataset: str = "digits"
    epsilons: tuple[float, ...] = (0.5, 1.0, 3.0, 8.0)
    delta: float = 1e-5
    n_repeats: int = 5
    n_private: int | None = None
    n_public: int | None = None
    epochs: int = 20
    batch_size: int = 256
    n_jobs: int | None = -1
    random_state: int = 0


#: Digits has 1,438 rows for both: 400 are public.
DIGITS = Config(n_public=400, n_jobs=None)


def configure(dataset: str, smoke: bool) -> Config:
    config = DIGITS if dataset == "digits" else Config(dataset=dataset)
    return replace(config, epsilons=(3.0, 8.0), n_repeats=1, n_private=600, epochs=2) if smoke else config


def load(config: Config) -> Dataset:
    """Images are scaled to [0, 1] by a constant, tables by what public rows teach: neither costs anything."""
    return encode_dataset(load_dataset(config.dataset, n_private=config.n_private, n_public=config.n_public))


def contestants(config: Config, data: Dataset) -> dict[str, PATEClassifier | DPSGDClassifier]:
    classes, budget = range(len(data.classes)), Budget(config.epsilons[0], config.delta)  # compare sets each budget
    # Records vote, set by the public rule.
    pate = PATEClassifier(budget=budget, classes=classes, image_shape=data.image_shape, n_jobs=config.n_jobs)
    dpsgd = DPSGDClassifier(
        "linear", budget=budget, classes=classes, epochs=config.epochs, expected_batch_size=config.batch_size
    )
    return {"PATE": pate, "DP-SGD": dpsgd}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--smoke", action="store_true", help="two budgets, one seed, few rows")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder of the run (default: %(default)s)")
    options = parser.parse_args()

    config = configure(options.dataset, options.smoke)
    folder = options.out / f"pate_vs_dpsgd_{config.dataset}{'_smoke' if options.smoke else ''}"
    data = load(config)
    report = compare(
        contestants(config, data),
        data,
        budgets=[Budget(epsilon, config.delta) for epsilon in config.epsilons],
        n_repeats=config.n_repeats,
        random_state=config.random_state,
        out=folder,
        verbose=True,
    )
    smoke = " --smoke" if options.smoke else ""
    report.save(folder, command=f"python experiments/pate_vs_dpsgd.py --dataset {config.dataset}{smoke}")
    if not options.smoke:
        shutil.copy(folder / "results.json", RESULTS / f"pate_vs_dpsgd_{config.dataset}.json")
    print(report)
    print(f"\nResults: {folder / 'results.json'}\nReport:  {folder / 'report.html'}")


if __name__ == "__main__":
    main()
