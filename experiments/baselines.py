"""Other people's private methods beside ours: private kNN, the sparse-vector scheme, record voters and DP-SGD.

    PATE_DATA_HOME=... python experiments/baselines.py # a quarter of an hour of one core, then the page
    PATE_DATA_HOME=... python experiments/baselines.py --develop # what the rules were chosen from: training rows alone
    python experiments/baselines.py --page # the page's tables from the stored JSON
    python experiments/baselines.py --smoke # does it run?

Everybody takes the settings of their own public rule and is asked about the same test rows; splits, teachers, samples
and noise are drawn by every seed. ``--develop`` cuts the training parts only (seeds from 100 on; digits has no
published test part, so that its rows are shared with everybody's splits). The JSON is written after every cell: a
killed run goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pate import Budget, DPSGDClassifier, PATEClassifier, load_dataset
from pate._core.provenance import provenance
from pate.comparison.baselines import PrivateKNN, SparseVectorPATE, distance_to_instability
from pate.comparison.baselines._private_knn import neighbour_settings
from pate.models.recipes import fitted_representation, kind_of
from pate.teachers import HeadTeacherEnsemble

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "experiments" / "results" / "baselines.json"
PAGE = ROOT / "docs" / "baselines.md"
DELTA, EPSILONS = 1e-5, (0.5, 1.0, 3.0)
#: Between these lines of the page nothing is typed by hand.
BEGIN, END = "<!-- {} of experiments/baselines.py -->", "<!-- end -->"
KEY = ("data", "epsilon", "seed", "method")
#: name -> private, public rows of a split of the training part
TRAINING = {"digits": (1_038, 400), "optdigits": (2_400, 600), "pendigits": (5_000, 1_000)}
#: Of the rule's number of queries, and of its share of a class: what is tried beside the rule itself.
FACTORS = (0.5, 1.0, 2.0)
Row = dict[str, Any]


@dataclass(frozen=True)
class Rows:
    """Private, public and test rows."""

    X: Any
    y: Any
    public: Any
    X_test: Any
    y_test: Any
    n_classes: int
    image_shape: tuple[int, ...] | None


def split(data: str, seed: int) -> Rows:
    """Return the rows that everybody is measured on."""
    d = load_dataset(data, random_state=seed)
    return Rows(d.private.X, d.private.y, d.public.X, d.test.X, d.test.y, len(d.classes), d.image_shape)


def training_split(data: str, seed: int) -> Rows:
    """Return rows of the training part alone (of digits, of all)."""
    d = load_dataset(data, random_state=100)
    X = np.concatenate([d.private.X, d.public.X])
    y = np.concatenate([d.private.y, d.public.y_for_evaluation])
    if data == "digits":
        X, y = np.concatenate([X, d.test.X]), np.concatenate([y, d.test.y])
    mixed, (a, b) = np.random.default_rng(seed).permutation(len(X)), TRAINING[data]
    i, j, k = mixed[:a], mixed[a : a + b], mixed[a + b : a + b + 1_500]
    return Rows(X[i], y[i], X[j], X[k], y[k], len(d.classes), d.image_shape)


def _common(rows: Rows, budget: Budget, seed: int) -> dict[str, Any]:
    return {
        "budget": budget,
        "classes": range(rows.n_classes),
        "image_shape": rows.image_shape,
        "random_state": seed,
    }


def _fitted(clf: Any, rows: Rows) -> Any:
    return clf.fit(rows.X, rows.y, X_public=rows.public)


def knn(rows: Rows, budget: Budget, seed: int) -> Any:
    return _fitted(PrivateKNN(**_common(rows, budget, seed)), rows)


def knn_sampled(rows: Rows, budget: Budget, seed: int) -> Any:
    return _fitted(PrivateKNN(**_common(rows, budget, seed), sample_rate=0.15), rows)


def sparse_vector(rows: Rows, budget: Budget, seed: int) -> Any:
    return _fitted(SparseVectorPATE(**_common(rows, budget, seed)), rows)


def records(rows: Rows, budget: Budget, seed: int) -> Any:
    return _fitted(PATEClassifier(**_common(rows, budget, seed)), rows)


def dp_sgd(rows: Rows, budget: Budget, seed: int) -> Any:
    return _fitted(DPSGDClassifier(**_common(rows, budget, seed)), rows)


METHODS: dict[str, tuple[str, Callable[[Rows, Budget, int], Any]]] = {
    "records": ("record voters (this package's default)", records),
    "dp-sgd": ("DP-SGD, planned recipe", dp_sgd),
    "knn": ("private kNN", knn),
    "knn-sampled": ("private kNN, samples of 15 %", knn_sampled),
    "sparse-vector": ("sparse vector", sparse_vector),
}


def measure(data: str, epsilon: float, seed: int, method: str) -> Row:
    """Return one cell: a fit, its accuracy on the test rows, and what it took."""
    rows = split(data, seed)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = METHODS[method][1](rows, Budget(epsilon, DELTA), seed)
        seconds = time.perf_counter() - start
        accuracy = float(np.mean(clf.predict(rows.X_test) == rows.y_test))
    release = getattr(clf, "release_", None)
    stored = getattr(clf, "mechanism_", None)
    return {
        **dict(zip(KEY, (data, epsilon, seed, method), strict=True)),
        "accuracy": accuracy,
        "guarantee": [clf.statement_.guarantee.epsilon, clf.statement_.guarantee.delta],
        "queries": None if stored is None else release.n_queries,
        "answers": None if stored is None else release.n_answered,
        "mechanism": None if stored is None else repr(stored),
        "seconds": round(seconds, 2),
        "n_private": len(rows.y),
        "n_public": len(rows.public),
        "n_test": len(rows.y_test),
    }


def develop_knn(data: str, epsilon: float, seed: int) -> Iterator[Row]:
    """Yield kNN's accuracy on training rows at the rule's settings and around them."""
    rows, budget = training_split(data, seed), Budget(epsilon, DELTA)
    n = len(rows.y)
    share, n_queries = neighbour_settings(budget, n_units=n, n_classes=rows.n_classes, n_public=len(rows.public))
    fitted = fitted_representation(
        kind_of(rows.public, rows.image_shape), rows.public, image_shape=rows.image_shape, random_state=seed
    )
    for of_queries in FACTORS:
        for of_share in FACTORS:
            asked = min(max(rows.n_classes, round(of_queries * n_queries)), len(rows.public))
            clf = PrivateKNN(
                **_common(rows, budget, seed),
                representation=fitted,
                n_queries=asked,
                n_neighbors=max(1, round(of_share * share * n)),
            )
            score = float(np.mean(_fitted(clf, rows).predict(rows.X_test) == rows.y_test))
            yield {
                "study": "knn", "data": data, "epsilon": epsilon, "seed": seed, "of_queries": of_queries,
                "of_share": of_share, "n_queries": asked, "n_neighbors": clf.mechanism_.n_neighbors, "accuracy": score,
            }  # fmt: skip


def develop_stability(data: str, seed: int) -> Iterator[Row]:
    """Yield how far from instability heads are on training rows, by their number: without privacy, public tables."""
    rows = training_split(data, seed)
    fitted = fitted_representation(
        kind_of(rows.public, rows.image_shape), rows.public, image_shape=rows.image_shape, random_state=seed
    )
    for per_teacher in (8, 15, 30, 60):
        n_teachers = len(rows.y) // per_teacher
        teachers = HeadTeacherEnsemble(fitted, n_teachers, classes=range(rows.n_classes), random_state=seed)
        votes = teachers.fit(rows.X, rows.y).vote(rows.public)
        far = distance_to_instability(votes.counts) / n_teachers
        typical = -math.expm1(-per_teacher / (3 * rows.n_classes)) / 2
        yield {
            "study": "stability", "data": data, "seed": seed, "records": per_teacher, "n_teachers": n_teachers,
            "median": float(np.median(far)), "law": typical,
            "below_half": float(np.mean(far < typical / 2)),
        }  # fmt: skip


def read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"cells": [], "development": []}


def write(file: Path, stored: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    stored |= {"delta": DELTA, "provenance": provenance()}
    file.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def run(file: Path, data: tuple[str, ...], epsilons: tuple[float, ...], seeds: tuple[int, ...]) -> None:
    """Fill in what is not there yet."""
    stored = read(file)
    known = {tuple(cell[k] for k in KEY) for cell in stored["cells"]}
    for key in ((d, e, s, m) for d in data for s in seeds for e in epsilons for m in METHODS):
        if key not in known:
            stored["cells"].append(measure(*key))
            write(file, stored)
            print(*key, round(stored["cells"][-1]["accuracy"], 4), stored["cells"][-1]["seconds"], flush=True)


def develop(file: Path, data: tuple[str, ...], epsilons: tuple[float, ...], seeds: tuple[int, ...]) -> None:
    stored = read(file)
    stored["development"] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in data:
            for seed in seeds:
                stored["development"] += list(develop_stability(name, seed))
                for epsilon in epsilons:
                    stored["development"] += list(develop_knn(name, epsilon, seed))
                write(file, stored)
                print("developed on", name, seed, flush=True)


def _number(values: list[float]) -> str:
    spread = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.fmean(values):.1f}{spread}"


def accuracy_table(cells: list[Row]) -> list[str]:
    """Return test accuracies, in percent, with deviations over seeds."""
    where = sorted({(c["data"], c["epsilon"]) for c in cells})
    head = ["", *(f"{data}, ε = {epsilon:g}" for data, epsilon in where)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for method, (words, _) in METHODS.items():
        found = [
            [c["accuracy"] for c in cells if (c["data"], c["epsilon"], c["method"]) == (*w, method)] for w in where
        ]
        lines.append("| " + " | ".join([words, *(_number(v) if v else "" for v in found)]) + " |")
    for method, said in (("knn", "its queries"), ("sparse-vector", "its answers of queries")):
        found = []
        for w in where:
            mine = [c for c in cells if (c["data"], c["epsilon"], c["method"]) == (*w, method)]
            means = [statistics.fmean(c[name] for c in mine) for name in ("answers", "queries")] if mine else [0, 0]
            found.append(f"{means[0]:.1f} of {means[1]:.0f}" if method == "sparse-vector" else f"{means[1]:.0f}")
        lines.append("| " + " | ".join([f"{METHODS[method][0]}: {said}", *found]) + " |")
    seconds = [[c["seconds"] for c in cells if c["method"] == m] for m in METHODS]
    stored = "; ".join(
        f"{METHODS[m][0]} {statistics.median(s):.1f}" for m, s in zip(METHODS, seconds, strict=True) if s
    )
    sizes = sorted({(c["data"], c["n_private"], c["n_public"], c["n_test"]) for c in cells})
    rows = "; ".join(f"{d}: {a:,} private, {b:,} public, {c:,} test rows" for d, a, b, c in sizes)
    n_seeds = len({c["seed"] for c in cells})
    return [*lines, "", f"Accuracy in percent, mean ± deviation over {n_seeds} seeds, delta {DELTA:g}. {rows}. Median "
            f"seconds of a fit, one core of a shared machine: {stored}."]  # fmt: skip


def development_table(found: list[Row]) -> list[str]:
    """Return what the rules were chosen from."""
    mine = [r for r in found if r["study"] == "knn"]
    lines = [
        "| queries | " + " | ".join(f"neighbours x {f:g}" for f in FACTORS) + " |",
        "|---|" + "---|" * len(FACTORS),
    ]
    for of_queries in FACTORS:
        cells = [[r["accuracy"] for r in mine if (r["of_queries"], r["of_share"]) == (of_queries, f)] for f in FACTORS]
        lines.append(f"| x {of_queries:g} | " + " | ".join(f"{100 * statistics.fmean(c):.1f}" for c in cells) + " |")
    tables = sorted({r["data"] for r in mine})
    seeds = sorted({r["seed"] for r in mine})
    epsilons = sorted({r["epsilon"] for r in mine})
    lines += ["", f"Private kNN's mean accuracy in percent around its rule (x 1, x 1): {', '.join(tables)}, epsilon "
              f"{', '.join(f'{e:g}' for e in epsilons)} and seeds {', '.join(map(str, seeds))}.", "",
              "| records of a teacher | median distance / teachers | by the law | share below half of that |",
              "|---|---|---|---|"]  # fmt: skip
    theirs = [r for r in found if r["study"] == "stability"]
    for per_teacher in sorted({r["records"] for r in theirs}):
        some = [r for r in theirs if r["records"] == per_teacher]
        values = [statistics.fmean(r[name] for r in some) for name in ("median", "law", "below_half")]
        lines.append(f"| {per_teacher} | " + " | ".join(f"{v:.3f}" for v in values) + " |")
    return [*lines, "", "Sparse vector: distances to instability of heads' votes on public rows, over the same splits."]


def fill(page: str, name: str, lines: list[str]) -> str:
    """Return the page with the lines between its marks."""
    begin = BEGIN.format(name)
    before, _, rest = page.partition(begin)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"docs/baselines.md must have the lines {begin} and {END}.")
    return before + begin + "\n" + "\n".join(lines) + "\n" + end + after


def page(file: Path, target: Path) -> None:
    stored, text = read(file), target.read_text(encoding="utf-8")
    text = fill(text, "accuracy", accuracy_table(stored["cells"]))
    target.write_text(fill(text, "development", development_table(stored["development"])), encoding="utf-8")
    print(f"wrote {target.name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["digits", "pendigits"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--develop", action="store_true", help="measure what the rules were chosen from")
    parser.add_argument("--page", action="store_true", help="compute nothing: the page's tables from the stored JSON")
    parser.add_argument("--smoke", action="store_true", help="one cell of each; publishes nothing")
    options = parser.parse_args()
    if options.smoke:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "baselines.json"
            run(file, ("digits",), (3.0,), (0,))
            print("\n".join(accuracy_table(read(file)["cells"])))
        return
    if options.develop:
        develop(RESULT, tuple(TRAINING), EPSILONS, (100, 101))
    elif not options.page:
        run(RESULT, tuple(options.data), EPSILONS, tuple(options.seeds))
    if PAGE.exists() and read(RESULT)["cells"] and read(RESULT)["development"]:
        page(RESULT, PAGE)


if __name__ == "__main__":
    main()
