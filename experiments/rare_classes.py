"""How many records must a rare class have, so that a model finds it? Recall by number of its records and by epsilon.

    PATE_DATA_HOME=... python experiments/rare_classes.py           # five minutes of one core; goes on where it ended
    python experiments/rare_classes.py --page                        # the table of docs/imbalance.md
    PATE_DATA_HOME=... python experiments/rare_classes.py --smoke   # does it run?

Two classes: one class of a data set against the rest. Of the rare class a fixed number of private records is kept, and
as large a share of the public rows as of the private ones; all test rows are kept. Record voters by default, both
decisions of the same fit. ``decide="balanced"`` is applied as the package applies it where accuracy is not measured.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _tables import Cell, filled, taken, write_page

from pate import Budget, PATEClassifier, load_dataset
from pate.models.recipes._model import balancing, decided, noise_temperature
from pate.privacy.convert import gdp_from_budget

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "experiments" / "results" / "rare_classes.json"
PAGE = ROOT / "docs" / "imbalance.md"


@dataclass(frozen=True)
class Config:
    """Fixed before any row is looked at."""

    #: Data set, and the class (its place) that is separated from the rest.
    data: tuple[tuple[str, int], ...] = (("pendigits", 9), ("adult", 1))
    #: Private records of the rare class.
    rare: tuple[int, ...] = (10, 30, 100, 300)
    epsilons: tuple[float, ...] = (0.3, 1.0, 3.0)
    seeds: tuple[int, ...] = (0, 1)
    delta: float = 1e-5
    n_private: int = 5_000
    n_public: int = 500


@cache
def rows_of(name: str, seed: int) -> tuple[Any, Any]:
    """Return all private and test rows of a data set, shuffled: pendigits' own parts are of different writers."""
    data = load_dataset(name, random_state=seed)
    X = [data.private.X, data.test.X]
    joined = np.concatenate(X) if isinstance(X[0], np.ndarray) else pd.concat(X, ignore_index=True)
    y = np.concatenate([np.asarray(data.private.y), np.asarray(data.test.y)])
    order = np.random.default_rng([seed, 5]).permutation(len(y))
    return taken(joined, order), y[order]


def measured(name: str, against: int, k: int, epsilon: float, seed: int, config: Config) -> dict[str, Any]:
    """Return the recall of both classes on test rows, by both decisions of one fit."""
    X, y = rows_of(name, seed)
    truth = (y == against).astype(int)
    rare, others = np.flatnonzero(truth == 1), np.flatnonzero(truth == 0)
    n, n_public = config.n_private, config.n_public
    rare_public = round(k * n_public / n)
    private = np.concatenate([rare[:k], others[: n - k]])
    public = np.concatenate([rare[k : k + rare_public], others[n - k : n + n_public - k - rare_public]])
    test = np.concatenate([rare[k + rare_public :], others[n + n_public :]])[:20_000]
    rng = np.random.default_rng([seed, k])
    private, public = rng.permutation(private), rng.permutation(public)
    clf = PATEClassifier(
        budget=Budget(epsilon, config.delta), classes=[0, 1], voters="records", measure=False, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan, _ = clf.fit_keeping(taken(X, private), truth[private], X_public=taken(X, public))
    model, likeliest = clf.student_, clf.predict(taken(X, test))
    rows, own = (clf._check_rows(taken(X, i), model) for i in (test, public))
    weights = balancing(model.untempered(own), noise_temperature(model.head, plan.phi))
    balanced = decided(model.untempered(rows), weights)
    found = {"n_test": len(test), "n_test_rare": int(truth[test].sum()), "mu": gdp_from_budget(epsilon, config.delta)}
    for how, said in (("likeliest", likeliest), ("balanced", balanced)):
        found[how] = [float((said[truth[test] == c] == c).mean()) for c in (0, 1)]
    found["never_named"] = not (clf.release_.labels == 1).any()
    return {key: np.round(value, 4).tolist() if isinstance(value, list) else value for key, value in found.items()}


def cells(config: Config) -> Iterator[Cell]:
    """Yield every fit."""
    for seed, (name, against), k, epsilon in product(config.seeds, config.data, config.rare, config.epsilons):
        key = {"name": name, "against": against, "k": k, "epsilon": epsilon, "seed": seed}
        yield "rows", key, partial(measured, **key, config=config)


def table(stored: dict[str, Any]) -> str:
    """Return mean recall of the rare class in %; the last line is the least mean recall of the others."""
    config, rows = stored["config"], stored["rows"]
    heads = [f"{how}, {e:g}" for e in config["epsilons"] for how in ("likeliest", "balanced")]
    lines = ["| data | rare records | " + " | ".join(heads) + " |", "|---" * (len(heads) + 2) + "|"]
    least = np.full(len(heads), 100.0)
    for (name, _), k in product(config["data"], config["rare"]):
        line = []
        for epsilon in config["epsilons"]:
            fits = [r for r in rows if (r["name"], r["k"], r["epsilon"]) == (name, k, epsilon)]
            for how in ("likeliest", "balanced"):
                others, rare = 100 * np.mean([r[how] for r in fits], axis=0)
                least[len(line)] = min(least[len(line)], others)
                line.append(f"{rare:.0f}")
        lines.append(f"| {name} | {k} of {config['n_private']:,} | " + " | ".join(line) + " |")
    lines.append("| the other class, at least | | " + " | ".join(f"{value:.0f}" for value in least) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="the page from the stored result alone")
    parser.add_argument("--smoke", action="store_true", help="does it run?")
    given, config = parser.parse_args(), Config()
    if given.smoke:
        config = Config(data=(("pendigits", 9),), rare=(100,), epsilons=(3.0,), seeds=(0,), n_private=1_000)
        print(table(filled(config, ["rows"], cells(config), None)))
        return
    if not given.page:
        filled(config, ["rows"], cells(config), RESULT)
    write_page(PAGE, "recall", table(json.loads(RESULT.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
