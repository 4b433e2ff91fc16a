"""How accurate is DP-SGD by its recipes, with nothing else said? Beside record voters and shards, on the same rows.

    PATE_DATA_HOME=... python experiments/dpsgd_recipes.py                    # all missing cells, then the page
    python experiments/dpsgd_recipes.py --data digits adult --seeds 0 1 --contestants records shards
    python experiments/dpsgd_recipes.py --page                                # the page from the stored JSON
    python experiments/dpsgd_recipes.py --smoke                               # a minute: does it run?

Every setting is the planner's, from public facts; presets were tuned on splits of private parts with seeds from 100 on,
never on these test rows. Records and shards see the rows that DP-SGD's module sees, mapped once, and are set by pate's
own rules. Split, noise and samples are drawn by every seed. The JSON is written after every cell: a killed run
goes on where it was. Wavelets of images are computed once per data set and kept in --work.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from _dpsgd_recipes_page import write_page
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import FunctionTransformer

from pate import Budget, DPSGDClassifier, PATEClassifier, Queries, load_dataset
from pate._core.provenance import provenance
from pate.dpsgd import SampledGaussian
from pate.dpsgd.recipes import RecipePlan, choose_recipe
from pate.representations import FromTransformer
from pate.representations.images import Scattering

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "experiments" / "results" / "dpsgd_recipes.json"
OTHERS = ROOT / "experiments" / "results" / "accuracy_vs_epsilon.json"
PAGE = ROOT / "docs" / "dpsgd-recipes.md"
DELTA = 1e-5
KEY = ("data", "public", "adjacency", "epsilon", "seed", "contestant")
#: What stored cells without a contestant are of.
FIRST = "dp-sgd"


@dataclass(frozen=True)
class Question:
    """One row of the table."""

    data: str
    public: bool = True
    adjacency: str = "replace-one"
    epsilon: float = 1.0
    n_public: int | None = None
    target: float | None = None
    tuned_on: bool = True


def _asked(data: str, n_public: int | None = None, tuned_on: bool = True, **targets: float) -> tuple[Question, ...]:
    return tuple(
        Question(data, epsilon=e, n_public=n_public, tuned_on=tuned_on, target=targets.get(f"at_{e:g}"))
        for e in (1.0, 3.0)
    )


QUESTIONS = (
    *_asked("digits", 400, at_1=83.5, at_3=92.5),
    *_asked("adult", 8_000, at_1=85.3),
    *_asked("pendigits"),
    *_asked("optdigits", tuned_on=False),
    *_asked("spambase", tuned_on=False),
    *_asked("mnist", 9_000, at_1=98.0, at_3=98.7),
    Question("mnist", True, "add-or-remove", 1.0, 9_000, 98.6),
    Question("mnist", True, "add-or-remove", 3.0, 9_000, 98.9),
    *_asked("fashion_mnist", 9_000, at_1=88.3, at_3=89.2),
    Question("fashion_mnist", True, "add-or-remove", 3.0, 9_000, 89.7),
    Question("digits", False, epsilon=3.0),
    Question("mnist", False, "add-or-remove", 3.0, None, 98.3),
)
SMOKE = (Question("digits", n_public=200, epsilon=3.0), Question("digits", False, epsilon=3.0))


#: A classifier, the test rows as it takes them, and what is reported of it.
Fitted = tuple[Any, Any, dict[str, Any]]


class Kept:
    """Wavelet scattering of the rows of one data set: a row's map depends on nothing but the row."""

    def __init__(self, name: str, rows: Any, folder: Path) -> None:
        file, keys = folder / f"{name}_scattering.npy", folder / f"{name}_keys.json"
        if not keys.exists():
            folder.mkdir(parents=True, exist_ok=True)
            plain = Scattering(image_shape=(1, 28, 28)).fit(rows[:2000])
            made = np.lib.format.open_memmap(file, "w+", np.float32, (len(rows), plain.n_features_out_))
            for start in range(0, len(rows), 2000):
                made[start : start + 2000] = plain.transform(rows[start : start + 2000])
            made.flush()
            keys.write_text(json.dumps([self.key(row) for row in rows]), encoding="utf-8")
        self.made = np.load(file, mmap_mode="r")
        self.at = {key: i for i, key in enumerate(json.loads(keys.read_text(encoding="utf-8")))}

    @staticmethod
    def key(row: Any) -> str:
        """Return what a row is found by."""
        return hashlib.sha1(np.ascontiguousarray(row, dtype=np.float32).tobytes()).hexdigest()[:20]

    def __call__(self, X: Any) -> Any:
        """Return the scattering of rows of this data set."""
        return self.made[[self.at[self.key(row)] for row in np.asarray(X)]]


class Prepared:
    """A data set cut by one seed, seen through the recipe's representation."""

    def __init__(self, question: Question, seed: int, work: Path) -> None:
        self.seed, self.data = seed, load_dataset(question.data, random_state=seed, n_public=question.n_public)
        private, public = self.data.private, self.data.public
        # Without public rows nobody knows the public ones either: the private ones are all there is, and no more.
        self.public = public.X if question.public else None
        self.image_shape = (1, 28, 28) if question.data in ("mnist", "fashion_mnist") else None
        self.kept = None
        if self.image_shape:
            self.kept = Kept(question.data, np.concatenate([public.X, private.X, self.data.test.X]), work)
        self.plan = self._made(Budget(3.0, DELTA), "replace-one")
        self.mapped: dict[Any, Any] = {}

    @contextmanager
    def _looked_up(self) -> Iterator[None]:
        """Find scattering where it is kept."""
        plain = Scattering.vectors
        try:
            if self.kept is not None:
                Scattering.vectors = lambda _, X: self.kept(X)  # type: ignore[method-assign]
            yield
        finally:
            Scattering.vectors = plain  # type: ignore[method-assign]

    def _made(self, budget: Budget, adjacency: str) -> RecipePlan:
        with self._looked_up():
            return RecipePlan.of(
                tuple(np.shape(self.data.private.X)[1:]),
                self.public,
                n_units=len(self.data.private.y),
                n_classes=len(self.data.classes),
                budget=budget,
                image_shape=self.image_shape,
                adjacency=adjacency,
            )

    def planned(self, question: Question) -> RecipePlan:
        """Return the plan for another budget."""
        facts = replace(self.plan.facts, budget=Budget(question.epsilon, DELTA), adjacency=question.adjacency)
        recipe = choose_recipe(facts)
        if recipe.n_components == self.plan.recipe.n_components:  # the same representation, then
            return replace(self.plan, recipe=recipe, facts=facts)
        return self._made(facts.budget, facts.adjacency)

    def rows(self, plan: RecipePlan) -> dict[str, Any]:
        """Return private, test and public rows as the plan's representation shows them."""
        key = plan.recipe.n_components
        if key not in self.mapped:
            with self._looked_up():
                raw = {"private": self.data.private.X, "test": self.data.test.X, "public": self.public}
                self.mapped = {key: {name: _mapped(plan, X) for name, X in raw.items() if X is not None}}
        return self.mapped[key]


def _mapped(plan: RecipePlan, X: Any) -> Any:
    cut = [X.iloc[i : i + 8192] if hasattr(X, "iloc") else X[i : i + 8192] for i in range(0, len(X), 8192)]
    return np.concatenate([plan.transform(part) for part in cut])


def _dp_sgd(question: Question, plan: RecipePlan, prepared: Prepared, rows: dict[str, Any]) -> Fitted:
    data = prepared.data
    nominal = len(data.private.y) if question.adjacency == "add-or-remove" else None
    clf = DPSGDClassifier(
        budget=plan.facts.budget,
        classes=range(len(data.classes)),
        mechanism=SampledGaussian(adjacency=question.adjacency, nominal_n=nominal),
        **plan.settings(),
    )
    clf.fit(rows["private"], data.private.y)
    recipe = asdict(plan.recipe)
    return (
        clf,
        rows["test"],
        {
            "spent": clf.guarantee_.epsilon,
            "noise_multiplier": clf.noise_multiplier_,
            "n_steps": clf.n_steps_,
            "learning_rate": plan.recipe.learning_rate,
            "max_grad_norm": plan.recipe.max_grad_norm,
            **{k: recipe[k] for k in ("name", "n_components", "expected_batch_size", "epochs")},
        },
    )


def _pate(plan: RecipePlan, prepared: Prepared, rows: dict[str, Any], **who: Any) -> tuple[Any, Any, dict]:
    """Fit PATE on these rows; all settings are its own rules'."""
    data = prepared.data
    clf = PATEClassifier(
        budget=plan.facts.budget,
        classes=range(len(data.classes)),
        random_state=prepared.seed,
        queries=Queries(force=True),
        **who,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # benchmarks hold the same row twice
        made, _ = clf.fit_keeping(rows["private"], data.private.y, X_public=rows["public"])
    return clf, made, {"spent": clf.statement_.guarantee.epsilon}


def _records(question: Question, plan: RecipePlan, prepared: Prepared, rows: dict[str, Any]) -> Fitted:
    """Let records vote on the recipe's representation.

    Where it is one map of a table, the table is shown with it, so that pate's rule knows which kind of table it is (of
    categories become columns of numbers it cannot tell). What scattering made of images is shown as numbers.
    """
    width = rows["public"].shape[1]
    if plan.recipe.representation != "scattering":
        data = prepared.data
        rows, rep = {"private": data.private.X, "public": data.public.X, "test": data.test.X}, plan.maps[0]
    else:
        rep = FromTransformer(FunctionTransformer())
    clf, made, said = _pate(plan, prepared, rows, representation=rep)
    r = made.recipe
    name = f"{r.space} ballots of {r.n_components}, {len(r.rounds)} rounds, {r.student or 'no'} student"
    return clf, rows["test"], said | {"name": name, "n_components": width}


def _shards(question: Question, plan: RecipePlan, prepared: Prepared, rows: dict[str, Any]) -> Fitted:
    """Train shard teachers on the rows, centred and divided by one number of the public ones.

    Scikit-learn's penalty takes columns for numbers around 1; in rows of norm 1 it leaves little.
    """
    centre = rows["public"].mean(axis=0)
    unit = float(np.sqrt(((rows["public"] - centre) ** 2).mean()))
    rows = {name: (X - centre) / unit for name, X in rows.items()}
    clf, made, said = _pate(plan, prepared, rows, estimator=LogisticRegression(max_iter=200))
    name = f"{made.n_teachers} logistic regressions, {len(clf.queries_)} queries, {type(clf.student_).__name__}"
    return clf, rows["test"], said | {"name": name, "n_components": rows["public"].shape[1]}


CONTESTANTS = {FIRST: _dp_sgd, "records": _records, "shards": _shards}


def measure(question: Question, prepared: Prepared, contestant: str) -> dict[str, Any]:
    plan = prepared.planned(question)
    start = time.perf_counter()
    rows = prepared.rows(plan)
    mapping, start = time.perf_counter() - start, time.perf_counter()
    clf, X, said = CONTESTANTS[contestant](question, plan, prepared, rows)
    seconds, y = time.perf_counter() - start, prepared.data.test.y
    return {
        "accuracy": float(np.mean(clf.predict(X) == y)),
        **said,
        "seconds": round(seconds, 2),
        "mapping_seconds": round(mapping, 2),
        "n_private": len(prepared.data.private.y),
        "n_public": 0 if prepared.public is None else plan.facts.n_public,
        "n_test": len(y),
    }


def key_of(cell: dict[str, Any]) -> tuple[Any, ...]:
    return tuple({"contestant": FIRST, **cell}[name] for name in KEY)


def run(
    questions: tuple[Question, ...], seeds: tuple[int, ...], contestants: tuple[str, ...], result: Path, work: Path
) -> None:
    stored = json.loads(result.read_text(encoding="utf-8"))["cells"] if result.exists() else []
    have = {key_of(cell) for cell in stored}
    stamp = provenance()  # before the result, which git knows too, is another
    for seed in seeds:
        prepared, before = None, None
        for q in questions:
            alike = q.public and q.adjacency == "replace-one"  # where all of them can be asked
            for contestant in [c for c in contestants if alike or c == FIRST]:
                cell = {k: v for k, v in asdict(q).items() if k in KEY} | {"seed": seed, "contestant": contestant}
                if key_of(cell) in have:
                    continue
                if before != (q.data, q.public, q.n_public):
                    prepared, before = None, (q.data, q.public, q.n_public)
                    prepared = Prepared(q, seed, work)
                found = measure(q, prepared, contestant)
                stored.append(cell | found | {"commit": stamp["commit"]})
                figures = {"delta": DELTA, **stamp, "questions": [asdict(q) for q in QUESTIONS], "cells": stored}
                result.parent.mkdir(parents=True, exist_ok=True)
                result.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
                print(f"{key_of(cell)}: {100 * found['accuracy']:.2f}% in {found['seconds']:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--contestants", nargs="+", choices=tuple(CONTESTANTS), default=tuple(CONTESTANTS))
    parser.add_argument("--work", type=Path, default=Path("runs/dpsgd_recipes"))
    parser.add_argument("--page", action="store_true", help="compute nothing")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    if options.smoke:
        with tempfile.TemporaryDirectory() as made:
            run(SMOKE, (0,), tuple(CONTESTANTS), Path(made) / "result.json", Path(made))
            write_page(Path(made) / "result.json", OTHERS, Path(made) / "page.md")
        return
    if not options.page:
        asked = tuple(q for q in QUESTIONS if not options.data or q.data in options.data)
        run(asked, tuple(options.seeds), tuple(options.contestants), RESULT, options.work)
    write_page(RESULT, OTHERS, PAGE)


if __name__ == "__main__":
    main()
