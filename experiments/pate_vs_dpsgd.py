"""Answer for one data set: PATE or DP-SGD, at which epsilon, and at what cost in time.

    python experiments/pate_vs_dpsgd.py                   # digits, minutes on two cores
    python experiments/pate_vs_dpsgd.py --dataset mnist   # much longer; downloads MNIST when it is not there
    python experiments/pate_vs_dpsgd.py --smoke           # seconds: does it run?

A killed run goes on when it is called again. Numbers and figures come from the JSON, never typed by hand.
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from pate import Budget, compare, load_dataset
from pate.comparison.contestants import default_contestants, named

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Config:
    """What is compared. Everything here is fixed before the private rows are looked at."""

    dataset: str = "digits"
    contestants: tuple[str, ...] = ()  # none: those that are done in minutes on such data
    epsilons: tuple[float, ...] = (0.5, 1.0, 3.0, 8.0)
    delta: float = 1e-5
    n_repeats: int = 5
    n_private: int | None = None
    n_public: int | None = None
    n_jobs: int | None = -1
    random_state: int = 0


#: Digits has 1,438 rows for both: 400 are public.
DIGITS = Config(n_public=400)


def configure(dataset: str, smoke: bool) -> Config:
    config = DIGITS if dataset == "digits" else Config(dataset=dataset)
    few = {"contestants": ("pate", "dpsgd"), "epsilons": (3.0, 8.0), "n_repeats": 1, "n_private": 600, "n_jobs": 1}
    return replace(config, **few) if smoke else config


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--smoke", action="store_true", help="two contestants and budgets, one repeat, few rows")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder of the run (default: %(default)s)")
    options = parser.parse_args()

    config = configure(options.dataset, options.smoke)
    folder = options.out / f"pate_vs_dpsgd_{config.dataset}{'_smoke' if options.smoke else ''}"
    data = load_dataset(config.dataset, n_private=config.n_private, n_public=config.n_public)
    report = compare(
        named(config.contestants) if config.contestants else default_contestants(data.kind, data.image_shape),
        data,
        budgets=[Budget(epsilon, config.delta) for epsilon in config.epsilons],
        n_repeats=config.n_repeats,
        random_state=config.random_state,
        n_jobs=config.n_jobs,
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
