"""Persons with several records: what protecting persons costs in accuracy, beside rows, by records per person.

    PATE_DATA_HOME=... python experiments/persons.py     # some minutes of one core
    python experiments/persons.py --table                # the page's table from the stored result
    python experiments/persons.py --smoke                # does it run?

pendigits, record voters with defaults, delta 1e-5. The same private records belong to persons of 1, 3 or 10 records
each: "mixed" draws a person's records at random, "alike" gives a person records of one class where there are enough.
"all" protects persons with all their records (``groups=``); "one" keeps one record of each person and protects rows,
which are then persons too. Split, persons and noise are seeded, so that a run can be repeated.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from _tables import Cell, by_command_line

from pate import Budget, PATEClassifier, load_dataset

RESULT = Path(__file__).with_name("results") / "persons.json"
PAGE = Path(__file__).parents[1] / "docs" / "persons.md"


@dataclass(frozen=True)
class Config:
    """What is measured: records per person, epsilons, and numbers of seeds."""

    data: str = "pendigits"
    per_person: tuple[int, ...] = (1, 3, 10)
    epsilons: tuple[float, ...] = (1.0, 3.0)
    delta: float = 1e-5
    seeds: int = 3


@cache
def data_of(name: str, seed: int) -> Any:
    """Return the data set, read once."""
    return load_dataset(name, random_state=seed)


def persons_of(labels: npt.NDArray[Any], k: int, how: str, seed: int) -> npt.NDArray[np.int64]:
    """Return the person of every record: k records each, the last fewer; ``how`` is "mixed" or "alike"."""
    order = np.random.default_rng(seed).permutation(len(labels))
    if how == "alike":
        order = order[np.argsort(labels[order], kind="stable")]
    persons = np.empty(len(labels), dtype=np.int64)
    persons[order] = np.arange(len(labels)) // k
    return persons


def measure(k: int, how: str, method: str, epsilon: float, seed: int, config: Config) -> dict[str, Any]:
    """Fit once, and return the accuracy on the test rows and the number of persons."""
    data = data_of(config.data, seed)
    X, y = data.private.X, data.private.y
    persons = persons_of(y, k, how, seed)
    if method == "one":
        _, first = np.unique(persons, return_index=True)
        X, y, persons = X[first], y[first], persons[first]
    clf = PATEClassifier(
        budget=Budget(epsilon, config.delta), classes=range(len(data.classes)), voters="records", random_state=seed,
        noise_seed=seed, measure=False,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # for curators of private tables
        clf.fit(X, y, X_public=data.public.X, groups=persons if method == "all" and k > 1 else None)
    return {"accuracy": round(float((clf.predict(data.test.X) == data.test.y).mean()), 4), "persons": len(set(persons))}


def cells(config: Config) -> Iterator[Cell]:
    """Yield what is to be measured."""
    for seed in range(config.seeds):
        for k in config.per_person:
            ways = [("mixed", "all")] if k == 1 else [("mixed", "all"), ("alike", "all"), ("mixed", "one")]
            for (how, method), epsilon in ((way, e) for way in ways for e in config.epsilons):
                key = {"k": k, "how": how, "method": method, "epsilon": epsilon, "seed": seed}
                yield "rows", key, partial(measure, **key, config=config)


def table(told: dict[str, Any]) -> str:
    """Return mean accuracies in % with their standard deviations over seeds, as Markdown."""
    epsilons = told["config"]["epsilons"]
    by: dict[tuple[int, str, str], dict[float, list[float]]] = {}
    persons: dict[int, int] = {}
    for row in told["rows"]:
        by.setdefault((row["k"], row["how"], row["method"]), {}).setdefault(row["epsilon"], []).append(row["accuracy"])
        persons[row["k"]] = row["persons"]
    lines = [
        "| records of a person | persons | what votes | " + " | ".join(f"epsilon {e:g}" for e in epsilons) + " |",
        "|---" * (3 + len(epsilons)) + "|",
    ]
    said = {
        ("mixed", "all"): "all, of any classes",
        ("alike", "all"): "all, of one class",
        ("mixed", "one"): "one of each person",
    }
    for (k, how, method), found in by.items():
        shown = [f"{100 * np.mean(found[e]):.1f} ± {100 * np.std(found[e], ddof=1):.1f}" for e in epsilons]
        what = "all" if k == 1 else said[how, method]
        lines.append(f"| {k} | {persons[k]:,} | {what} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure, or write the page's table."""
    small = Config(per_person=(1, 10), epsilons=(3.0,), seeds=2)
    by_command_line(str(__doc__), cells, table, config=Config(), smoke=small, result=RESULT, page=PAGE)


if __name__ == "__main__":
    main()
