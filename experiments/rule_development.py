"""What the public rule of `pate.models.recipes` gives on development tables, and the law of `expected` fitted to it.

    PATE_DATA_HOME=... python experiments/rule_development.py --tables FOLDER   # CSV files with a column `target`
    PATE_DATA_HOME=... python experiments/rule_development.py --fit-only        # the law of the stored runs
    PATE_DATA_HOME=... python experiments/rule_development.py --smoke           # does it run? nothing is written

Development rows alone, cut at random into private, public and test rows: tables of FOLDER, training parts of pendigits,
optdigits, spambase and Adult, digits, one class against the rest, diamonds' prices in five classes, and tables made
from these or from nothing. **Simulated**: rule, representations, ballots' spaces, heads and students are those of the
package, but sums are added up and noise is drawn in floating point, which takes a tenth of the time of a release and
is never one. Every run is kept as it is done, so that a killed sweep goes on. Beside it: the share of the commonest
class, what the rule reaches at mu = 50 (called "without noise"), and what a logistic regression of 100 public rows with
labels, all columns standardised, would reach. Some runs are made again by the package itself (``released``).
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from _expected_law import fit_law
from _tables import Cell, filled
from scipy.special import softmax
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from pate import Budget, PATEClassifier, Queries, load_dataset
from pate.mechanisms import GaussianSum
from pate.models.heads import SelfTrainedHead
from pate.models.recipes import PublicFacts, choose, fitted_representation, kind_of
from pate.models.recipes._build import make_head, make_space
from pate.models.recipes._model import asked_with
from pate.release import measured_shares
from pate.representations import TableMap

HERE = Path(__file__).parent
RUNS = HERE / "results" / "rule_development.json"
LAW = HERE.parent / "pate" / "models" / "recipes" / "expected.json"
Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Config:
    """Fixed before any row is looked at."""

    #: Table, class that is separated from the rest (or none).
    tables: tuple[tuple[str, str], ...] = (
        ("vowel", ""), ("pima", ""), ("german", ""), ("churn", ""), ("credit", ""), ("income", ""), ("reviews", ""),
        ("diamonds", ""), ("spambase", ""), ("optdigits", ""), ("pendigits", ""), ("adult", ""), ("optdigits", "8"),
        ("pendigits", "9"), ("vowel", "0"), ("adult-numbers", ""), ("pendigits-26", ""), ("digits", ""), ("made-4", ""),
        ("made-20", ""), ("diamonds-numbers", ""),
    )  # fmt: skip
    seeds: tuple[int, ...] = (100, 101)
    n_public: tuple[int, ...] = (100, 1_000)
    n_records: tuple[int, ...] = (500, 2_000, 6_000)
    epsilons: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 8.0)
    delta: float = 1e-5
    no_noise: float = 50.0
    labelled: int = 100
    most_test: int = 2_000
    simulated: bool = True
    #: Some runs again by the package itself, with the largest number of public rows.
    n_released: int = 2_000
    epsilon_released: float = 1.0


@dataclass(frozen=True)
class Split:
    """A table cut in three: what is public is mapped once, and records are taken from the front."""

    kind: str
    n_classes: int
    z: tuple[Array, Array, Array]  # public, private, test
    y: tuple[Labels, Labels, Labels]
    by_hand: float


def rows_of(name: str, against: str, folder: Path | None) -> tuple[Any, Labels]:
    """Return all development rows of a table, and their labels from 0 on.

    ``-numbers`` keeps the columns of numbers, ``pendigits-26`` cuts each digit into two or three clusters.
    """
    X: Any
    if name.startswith("made-"):
        m = int(name[5:])
        return make_classification(
            12_000, 20, n_informative=8, n_redundant=6, n_classes=m, n_clusters_per_class=2, class_sep=1.5,
            weights=[2 / (m + 1)] + [1 / (m + 1)] * (m - 1), random_state=m,
        )  # fmt: skip
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return X / 16, y.astype(int)
    if name == "pendigits-26":
        X, y = rows_of("pendigits", "", folder)
        cut, start = np.zeros_like(y), 0
        for digit in range(10):
            k = 3 if digit < 6 else 2
            of = y == digit
            cut[of] = start + KMeans(k, n_init=2, random_state=0).fit(X[of]).labels_
            start += k
        return X, cut
    if name.endswith("-numbers"):
        X, y = rows_of(name.removesuffix("-numbers"), "", folder)
        return X.select_dtypes("number").to_numpy(dtype=float), y
    path = None if folder is None else folder / f"{name}.csv.gz"
    if path is not None and path.exists():
        if name == "diamonds":
            X = pd.read_csv(path)
            return X, pd.qcut(X.pop("price"), 5, labels=False).to_numpy()
        X = pd.read_csv(path, na_values=["?", ""])
        y = X.pop("target").to_numpy()
        if list(X.columns) == ["review"]:
            X = X["review"].fillna("").to_numpy(dtype=object)
        elif all(pd.api.types.is_numeric_dtype(X[c]) for c in X):
            X = X.to_numpy(dtype=float)
    else:
        data = load_dataset(name, random_state=100)
        X, y = data.private.X, np.asarray(data.private.y)
        X = X.astype(float) if isinstance(X, np.ndarray) else X
    codes = np.unique(y, return_inverse=True)[1]
    return X, (codes == int(against)).astype(int) if against else codes


def taken(X: Any, rows: Labels) -> Any:
    """Return these rows."""
    return X.iloc[rows].reset_index(drop=True) if hasattr(X, "iloc") else X[rows]


@cache
def _rows(name: str, against: str, folder: Path | None) -> tuple[Any, Labels]:
    return rows_of(name, against, folder)


_LAST: dict[tuple[Any, ...], Split] = {}


def split(c: Config, folder: Path | None, name: str, against: str, n_public: int, seed: int) -> Split:
    """Cut a table, fit the representation on its public rows, and map all rows; the last one is remembered."""
    key = (c, folder, name, against, n_public, seed)
    if key not in _LAST:
        _LAST.clear()
        _LAST[key] = _cut(c, folder, name, against, n_public, seed)
    return _LAST[key]


def _cut(c: Config, folder: Path | None, name: str, against: str, n_public: int, seed: int) -> Split:
    X, y = _rows(name, against, folder)
    public, private, test = _parts(c, name, len(y), n_public, seed)
    shown = taken(X, public)
    kind = kind_of(shown)
    representation = fitted_representation(kind, shown)
    z = tuple(np.asarray(representation.transform(taken(X, i)), dtype=float) for i in (public, private, test))
    plain = z if kind == "text" else tuple(_columns(shown, taken(X, i)) for i in (public, test))
    scaler, few = StandardScaler().fit(plain[0]), slice(c.labelled)
    right = float((y[test] == y[public[few]][0]).mean())  # one class alone
    if len(np.unique(y[public[few]])) > 1:
        model = LogisticRegression(max_iter=500).fit(scaler.transform(plain[0][few]), y[public[few]])
        right = float(model.score(scaler.transform(plain[-1]), y[test]))
    ys = (y[public], y[private], y[test])
    return Split(kind, int(y.max()) + 1, (z[0], z[1], z[2]), ys, right)


def _parts(c: Config, name: str, n: int, n_public: int, seed: int) -> tuple[Labels, Labels, Labels]:
    order = np.random.default_rng([seed, len(name), 7]).permutation(n)
    n_test = min(c.most_test, n // 4)
    rest = order[n_test:]
    n_public = min(n_public, len(rest) // 4)
    return rest[:n_public], rest[n_public:][: max(c.n_records)], order[:n_test]


def _columns(public: Any, X: Any) -> Array:
    return np.asarray(TableMap().fit(public).transform(X), dtype=float)


def facts_of(s: Split, n: int, mu: float) -> PublicFacts:
    """Return what the rule may know of so many records."""
    return PublicFacts(
        n, s.n_classes, mu, len(s.z[0]), s.kind, spectrum=tuple(np.sort(s.z[0].var(axis=0))[::-1].tolist())
    )  # fmt: skip


def simulated(s: Split, facts: PublicFacts, rng: np.random.Generator) -> float:
    """Return the accuracy on test rows of the model that the rule says, with noise in floating point."""
    recipe, m, n = choose(facts), s.n_classes, facts.n_units
    space = make_space(recipe, s.z[0]).fit(s.z[0])
    public, private, test = (np.asarray(space.transform(z), dtype=float) for z in (s.z[0], s.z[1][:n], s.z[2]))
    truth = np.eye(m)[s.y[1][:n]]
    head: Any = make_head(recipe, space, tuple(range(m)))
    for r in recipe.rounds:
        if r.clip is None:
            votes, delta = truth - 1 / m, math.sqrt(2) if recipe.space == "soft" else 2 * math.sqrt(1 - 1 / m)
        else:
            p = softmax(private @ head.coef_, axis=1) if hasattr(head, "sum_") else head.predict_proba(private)
            votes, delta = truth - p, 2 * r.clip
            votes *= np.minimum(1, r.clip / np.maximum(np.linalg.norm(votes, axis=1, keepdims=True), 1e-12))
        sigma = delta / (facts.mu * math.sqrt(r.share))
        sums = private.T @ votes + sigma * rng.normal(size=(private.shape[1], m))
        release = SimpleNamespace(statistics=sums, sigma=sigma, n_units=n, classes=tuple(range(m)), clip=r.clip)
        head = head.fit(release, public) if r.clip is None else head.updated(release, public)
    if recipe.student == "ridge":
        head, test = SelfTrainedHead().fit(head, asked_with(head, s.z[0], public), features=s.z[0]), s.z[2]
    return float((head.predict_proba(test).argmax(axis=1) == s.y[2]).mean())


def measured(
    c: Config, folder: Path | None, name: str, against: str, n_public: int, n: int, epsilon: float | None, seed: int
) -> dict[str, Any]:
    """Return one run beside its facts; without an epsilon hardly any noise is drawn."""
    s = split(c, folder, name, against, n_public, seed)
    mu = c.no_noise
    if epsilon is not None:
        mu = 1 / GaussianSum.for_budget(Budget(epsilon, c.delta)).noise_multiplier
        mu *= math.sqrt(1 - math.fsum(measured_shares(None, n=n, mu=mu)))
    facts = facts_of(s, n, mu)
    recipe = choose(facts)
    rng = np.random.default_rng([seed, n, round(1000 * (epsilon or 0))])
    return {
        "kind": s.kind, "n_classes": s.n_classes, "public_rows": len(s.z[0]), "evidence": facts.evidence,
        "space": recipe.space, "n_components": recipe.n_components, "n_rounds": len(recipe.rounds),
        "accuracy": simulated(s, facts, rng), "commonest": float(np.bincount(s.y[2]).max() / len(s.y[2])),
        "by_hand": s.by_hand,
    }  # fmt: skip


def released(c: Config, folder: Path | None, name: str, against: str, seed: int) -> dict[str, Any]:
    """Return what the package itself gives: exact sums and noise, charged, at one budget and number of records."""
    X, y = _rows(name, against, folder)
    public, private, test = _parts(c, name, len(y), max(c.n_public), seed)
    private = private[: c.n_released]
    clf = PATEClassifier(
        budget=Budget(c.epsilon_released, c.delta),
        classes=range(int(y.max()) + 1),
        random_state=seed,
        queries=Queries(force=True),
        stated={"overlap is public": "yes"},
    )
    clf.fit(taken(X, private), y[private], X_public=taken(X, public))
    return {"n_records": len(private), "accuracy": float((clf.predict(taken(X, test)) == y[test]).mean())}


def cells(c: Config, folder: Path | None) -> Iterator[Cell]:
    """Yield every run; a table with fewer records than the largest number has its own largest."""
    for seed in c.seeds:
        for n_public in c.n_public:
            for name, against in c.tables:
                n_all = len(_rows(name, against, folder)[1])
                left = n_all - min(c.most_test, n_all // 4)
                left -= min(n_public, left // 4)
                for n in sorted({min(n, left) for n in c.n_records}):
                    for epsilon in (None, *c.epsilons):
                        key = {
                            "table": name, "against": against, "n_public": n_public, "n_records": n,
                            "epsilon": epsilon, "seed": seed,
                        }  # fmt: skip
                        yield "runs", key, partial(measured, c, folder, **key_of(key))

    for name, against in c.tables:
        key = {"table": name, "against": against, "seed": c.seeds[0]}
        yield "released", key, partial(released, c, folder, name, against, c.seeds[0])


def key_of(key: dict[str, Any]) -> dict[str, Any]:
    """Return a cell's key by the names of ``measured``."""
    return {("name" if k == "table" else "n" if k == "n_records" else k): v for k, v in key.items()}


_SPLIT = ("table", "against", "n_public", "n_records", "seed")


def law_rows(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the runs with noise, each beside the accuracy of its split without; one class against others is a table.

    Examples
    --------
    >>> run = dict.fromkeys((*_SPLIT, "public_rows"), 1) | {
    ...     "table": "a",
    ...     "against": "3",
    ...     "epsilon": None,
    ... }
    >>> law_rows([{**run, "accuracy": 0.9}, {**run, "epsilon": 1.0, "accuracy": 0.8}])[0][
    ...     "without_noise"
    ... ]
    0.9
    """
    quiet = {tuple(r[k] for k in _SPLIT): r["accuracy"] for r in runs if r["epsilon"] is None}
    return [
        {
            **r,
            "table": r["table"] + (f"#{r['against']}" if r["against"] else ""),
            "family": r["table"] if r["table"].startswith("made-") else r["table"].partition("-")[0],
            "n_public": r["public_rows"],
            "without_noise": quiet[tuple(r[k] for k in _SPLIT)],
        }
        for r in runs
        if r["epsilon"] is not None and tuple(r[k] for k in _SPLIT) in quiet
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", type=Path, help="folder of CSV files with a column `target`")
    parser.add_argument("--smoke", action="store_true", help="two small tables, nothing is written")
    parser.add_argument("--fit-only", action="store_true", help="fit the law to the stored runs")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    c = Config()
    if given.smoke:
        c = replace(
            c, tables=(("optdigits", "8"),), seeds=(100,), n_public=(100,), n_records=(500,), epsilons=(0.3, 3.0)
        )
        filled(c, ("runs", "released"), cells(c, given.tables), None)
        return
    if not given.fit_only:
        filled(c, ("runs", "released"), cells(c, given.tables), RUNS)
    runs = json.loads(RUNS.read_text(encoding="utf-8"))["runs"]
    LAW.write_text(json.dumps(fit_law(law_rows(runs)), indent=1) + "\n", encoding="utf-8")
    print(LAW.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
