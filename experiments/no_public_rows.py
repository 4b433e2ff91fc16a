"""No public rows: synthetic ones from a private Gaussian copula, beside real ones and DP-SGD on the declared schema.

    PATE_DATA_HOME=... python experiments/no_public_rows.py     # resumes; about an hour of one core
    python experiments/no_public_rows.py --table                # the page's table from the stored result
    python experiments/no_public_rows.py --smoke                # does it run?

Every method gets the whole budget, delta 1e-5, replace-one: "real" is ``PATEClassifier`` with the data set's own public
rows; "copula" releases the two sums of ``pate.data.copula`` (with numpy's noise here: a simulation) and gives the
classifier the rest of mu^2, with the drawn rows for public ones; "dpsgd" is ``DPSGDClassifier`` on the schema. Ranges
and categories are those of the data sets' documentation. Test rows of pendigits and optdigits are of other writers;
"pendigits, writers mixed" cuts private and test rows anew, at random. Figures of development: constants were chosen on
Adult and pendigits.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from _tables import Cell, filled, taken, write_page

from pate import Budget, DPSGDClassifier, PATEClassifier, Queries, load_dataset
from pate.data import Column, Dataset, Schema, copula
from pate.privacy.convert import gdp_from_budget, gdp_to_epsilon

RESULT = Path(__file__).with_name("results") / "no_public_rows.json"
PAGE = Path(__file__).parents[1] / "docs" / "public-rows.md"
MIXED = "pendigits, writers mixed"
METHODS = ("real", "copula", "dpsgd")
#: Adult's numbers, as its documentation has them: range, and what stands out.
ADULT = {"age": (17, 90, ()), "fnlwgt": (12285, 1490400, ()), "education-num": (1, 16, ()),
         "capital-gain": (0, 99999, (0,)), "capital-loss": (0, 4356, (0,)), "hours-per-week": (1, 99, ())}  # fmt: skip


@dataclass(frozen=True)
class Config:
    """Everything that is fixed before a private row is looked at; ``data``: name, records (None: all)."""

    data: tuple[tuple[str, int | None], ...] = (
        ("pendigits", None), (MIXED, None), ("adult", None), ("spambase", None), ("optdigits", None),
        ("pendigits", 1000), ("adult", 1000),
    )  # fmt: skip
    seeds: int = 5
    epsilons: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0)
    delta: float = 1e-5
    shares: tuple[float, float] = (copula.MARGINALS_SHARE, copula.MOMENT_SHARE)
    n_rows: int = copula.N_ROWS


@cache
def data_of(name: str, n: int | None, seed: int) -> Dataset:
    """Return a data set with at most ``n`` private rows; optical digits as the whole numbers that they were."""
    data = load_dataset(name.split(",")[0], random_state=seed)
    if name == MIXED:
        data = mixed(data, seed)
    if name == "optdigits":
        parts = {part: replace(held, X=held.X * 16) for part in ("private", "public", "test")
                 if (held := getattr(data, part)) is not None}  # fmt: skip
        data = replace(data, kind="table", image_shape=None, **parts)
    if n is None:
        return data
    some = np.random.default_rng(seed).permutation(len(data.private.y))[:n]
    return replace(data, private=replace(data.private, X=taken(data.private.X, some), y=data.private.y[some]))


def mixed(data: Dataset, seed: int) -> Dataset:
    """Return private and test rows shuffled and cut anew: as many public and private ones, the rest to test."""
    X, y = (np.concatenate([getattr(part, of) for part in (data.private, data.test)]) for of in ("X", "y"))
    order = np.random.default_rng([seed, 3]).permutation(len(y))
    public, private, test = np.split(order, np.cumsum([len(data.public.X), len(data.private.X)]))
    return replace(
        data,
        public=replace(data.public, X=X[public]),
        private=replace(data.private, X=X[private], y=y[private]),
        test=replace(data.test, X=X[test], y=y[test]),
    )


def schema_of(name: str, X: Any) -> Schema:
    """Return what is publicly known of the columns."""
    if name == "adult":
        return Schema(tuple(
            Column(n, "numeric", range=ADULT[n][:2], integer=True, special=ADULT[n][2]) if n in ADULT
            else Column(n, "category", tuple(map(str, X[n].cat.categories))) for n in X
        ))  # fmt: skip
    most = {"pendigits": 100, MIXED: 100, "optdigits": 16}.get(name)
    known = {"integer": True} if most else {"special": (0,)}
    ends = [(0, most or (100 if j < 54 else 1000)) for j in range(X.shape[1])]
    return Schema(tuple(Column(f"x{j}", "numeric", range=end, **known) for j, end in enumerate(ends)), "array")


def synthetic(data: Dataset, schema: Schema, mu: float, config: Config, seed: int) -> tuple[Any, float]:
    """Return drawn rows, and the mean total variation of the released marginals from the exact ones."""
    rng, cells, n = np.random.default_rng([seed, 7]), copula.cells_of(schema), len(data.private.y)
    p, sizes = len(cells), [one.n_cells for one in cells]
    codes = copula.cell_codes(data.private.X, schema, cells)
    exact = [np.bincount(codes[:, j], minlength=size).astype(float) for j, size in enumerate(sizes)]
    sigma = math.sqrt(2 * p) / (mu * math.sqrt(config.shares[0]))
    marginals = copula.fit_marginals(cells, np.concatenate(exact) + rng.normal(0, sigma, sum(sizes)), n, sigma)
    off = [np.abs(a / n - b).sum() / 2 for a, b in zip(exact, marginals.probabilities, strict=True)]
    scores = copula.normal_scores(codes, marginals)
    sigma = math.sqrt(2) * copula.score_bound(p) ** 2 / (mu * math.sqrt(config.shares[1]))
    R = copula.fit_correlation(scores.T @ scores + rng.normal(0, sigma, (p, p)), marginals, n, sigma)
    made = copula.Copula(schema, marginals, R)
    rows = made.draw(config.n_rows, seed=seed)
    made.check(rows)
    return rows, float(np.mean(off))


def measure(data: str, n: int | None, seed: int, epsilon: float, method: str, config: Config) -> dict[str, Any]:
    """Fit one method within one budget, and return its accuracy on the test rows."""
    found, budget, more = data_of(data, n, seed), Budget(epsilon, config.delta), {}
    X, y, mu = found.private.X, found.private.y, gdp_from_budget(epsilon, config.delta)
    schema, classes, public = schema_of(data, X), range(len(found.classes)), found.public.X
    if method == "copula":
        public, off = synthetic(found, schema, mu, config, seed)
        left = mu * math.sqrt(1 - sum(config.shares))
        budget, more = Budget(gdp_to_epsilon(left, config.delta), config.delta), {"off_marginals": round(off, 4)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # for curators of private tables
        if method == "dpsgd":
            clf: Any = DPSGDClassifier(budget=budget, classes=classes, random_state=seed).fit(X, y, schema=schema)
        else:
            clf = PATEClassifier(
                budget=budget, classes=classes, voters="records", random_state=seed, queries=Queries(force=True)
            )
            clf.fit(X, y, X_public=public)
    right = float((clf.predict(found.test.X) == found.test.y).mean())
    evidence = len(y) * mu / (len(classes) * math.sqrt(2))
    return {"accuracy": round(right, 4), "evidence": round(evidence, 1), "columns": len(schema.columns), **more}


def cells(config: Config) -> Iterator[Cell]:
    """Yield what is to be measured."""
    for seed, (name, n), epsilon in product(range(config.seeds), config.data, config.epsilons):
        for method in METHODS:
            key = {"data": name, "n": n, "seed": seed, "epsilon": epsilon, "method": method}
            yield "rows", key, partial(measure, **key, config=config)


def table(told: dict[str, Any]) -> str:
    """Return mean accuracies in % as Markdown: a line for each data set, and at each epsilon all methods."""
    config, rows = told["config"], told["rows"]
    heads = ["data", "records", "columns", *(f"epsilon {e:g}" for e in config["epsilons"])]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, n in config["data"]:
        of = [row for row in rows if (row["data"], row["n"]) == (name, n)]
        line = [name, f"{n:,}" if n else "all", str(of[0]["columns"])] if of else []
        for epsilon in config["epsilons"] if of else ():
            here = [row for row in of if row["epsilon"] == epsilon]
            means = {m: 100 * np.mean([row["accuracy"] for row in here if row["method"] == m]) for m in METHODS}
            line.append(f"{'/'.join(f'{mean:.1f}' for mean in means.values())}, E {here[0]['evidence']:.0f}")
        lines += [f"| {' | '.join(line)} |"] * bool(of)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="the tables from the stored result alone")
    parser.add_argument("--smoke", action="store_true", help="does it run?")
    parser.add_argument("--seeds", type=int, default=5, help="the first so many seeds alone")
    given, config = parser.parse_args(), Config()
    if given.smoke:
        config = Config(data=(("pendigits", 1000),), seeds=1, epsilons=(3.0,))
    if given.table:
        told = json.loads(RESULT.read_text(encoding="utf-8"))
    else:
        todo = (cell for cell in cells(config) if cell[1]["seed"] < given.seeds)
        told = filled(config, ("rows",), todo, None if given.smoke else RESULT)
    print(table(told))
    if not given.smoke:
        write_page(PAGE, "methods", table(told))


if __name__ == "__main__":
    main()
