"""What does choosing among settings on the private data itself give? One epsilon pays for all of it.

    PATE_DATA_HOME=... python experiments/private_selection.py                 # digits, minutes: cells, then the page
    python experiments/private_selection.py --data mnist                       # slow: wavelets of 70,000 images first
    python experiments/private_selection.py --page                             # the page's tables from the stored JSON
    python experiments/private_selection.py --smoke                            # does it run?

Every candidate is fitted by itself at the whole epsilon, on all private rows; then one selection among all of them is
made at the same epsilon. Both are asked about the test rows, which chose nothing. Candidates are those below, fixed
before any was fitted. The JSON is written after every cell: a killed run goes on where it was. How long a selection
took is not kept: it would tell how many runs there were.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pate import Budget, Charge, DPSGDClassifier, PATEClassifier, load_dataset, private_select
from pate._core.provenance import provenance
from pate.exceptions import NothingSelectedError
from pate.privacy.compose.repetitions import Repetitions, deltas_of

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "experiments" / "results" / "private_selection.json"
PAGE = ROOT / "docs" / "private-selection.md"
DELTA, MEAN_RUNS = 1e-5, 10.0
RATES = (0.01, 0.1, 1.0, 10.0)
#: Between these lines of the page nothing is typed by hand.
BEGIN, END = "<!-- {} of experiments/private_selection.py -->", "<!-- end -->"
_SAYS = {
    "poisson": "steadiest; 0 with probability exp(-mean)",
    "geometric": "at least 1",
    "logarithmic": "at least 1; mostly few, sometimes very many",
}
KEY = ("data", "among", "epsilon", "seed", "fitted")


@dataclass(frozen=True)
class Question:
    """One data set, what is chosen among, and one epsilon."""

    data: str
    among: str
    epsilon: float
    n_public: int
    seeds: tuple[int, ...] = (0, 1, 2, 3)
    mean_runs: float = MEAN_RUNS


QUESTIONS = (
    *(Question("digits", among, e, 400) for among in ("rates", "roads") for e in (1.0, 3.0)),
    Question("mnist", "rates", 1.0, 9_000, (0,), 6.0),
    Question("mnist", "recipes", 1.0, 9_000, (0,), 6.0),
)
SMOKE = (Question("digits", "roads", 8.0, 200, (0,), 2.0),)


def candidates(among: str, budget: Budget, seed: int) -> dict[str, Any]:
    """Return what is chosen among; a candidate that names no module leaves everything to the planner."""
    dpsgd = {"budget": budget, "random_state": seed}
    rates = {f"rate {rate:g}": DPSGDClassifier("linear", learning_rate=rate, **dpsgd) for rate in RATES}
    recipes = {"planner": DPSGDClassifier(**dpsgd), "linear": DPSGDClassifier("linear", **dpsgd)}
    roads = {**recipes, "unit rows": DPSGDClassifier(recipe="unit-rows", **dpsgd)}
    records = {"records": PATEClassifier(budget=budget, random_state=seed)}
    return {"rates": rates, "recipes": recipes, "roads": roads | records}[among]


@contextmanager
def _wavelets(question: Question, data: Any, work: Path) -> Iterator[None]:
    """Keep wavelets of images, which depend on nothing but the image."""
    if question.data != "mnist" or question.among != "recipes":
        yield
        return
    from dpsgd_recipes import Kept

    from pate.representations.images import Scattering

    kept = Kept(question.data, np.concatenate([data.public.X, data.private.X, data.test.X]), work)
    plain, Scattering.transform = Scattering.transform, lambda _, X: kept(X)  # type: ignore[method-assign]
    try:
        yield
    finally:
        Scattering.transform = plain  # type: ignore[method-assign]


def measure(question: Question, seed: int, fitted: str, work: Path) -> dict[str, Any]:
    """Fit one candidate by itself, or select among all of them; what test rows say of it."""
    data = load_dataset(question.data, random_state=seed, n_public=question.n_public)
    budget, classes = Budget(question.epsilon, DELTA), range(len(data.classes))
    X, y, public = data.private.X, data.private.y, data.public.X
    among = candidates(question.among, budget, seed)
    with _wavelets(question, data, work), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # benchmarks hold the same row twice
        for one in among.values():
            one.set_params(classes=classes, image_shape=data.image_shape)
        if fitted != "selected":
            model = among[fitted].fit(X, y, X_public=public)
            return {"accuracy": float(np.mean(model.predict(data.test.X) == data.test.y)), "n_private": len(y)}
        try:
            found = private_select(
                among, X, y, X_public=public, budget=budget, classes=classes, mean_runs=question.mean_runs
            )
        except NothingSelectedError:
            return {"accuracy": None, "n_private": len(y)}
        right = float(np.mean(found.winner.predict(data.test.X) == data.test.y))
    return {"accuracy": right, "winner": found.name, "epsilon_said": found.guarantee.epsilon, "n_private": len(y)}


def laws() -> list[dict[str, Any]]:
    """Return, for each law of the number of runs, the mu of one run, and how often the one best of four is drawn."""
    found = []
    for name in _SAYS:
        law, low, high = Repetitions(name, MEAN_RUNS), 0.01, 1.0
        while high > 1.0001 * low:
            one = Charge.gaussian(sensitivity=math.sqrt(low * high), sigma=1.0)
            # Poisson's theorem takes any proof of a run's (epsilon, delta).
            deltas = deltas_of(one) if name == "poisson" else None
            fits = law.charge(one, deltas).guarantee(DELTA).epsilon <= 1.0
            low, high = (math.sqrt(low * high), high) if fits else (low, math.sqrt(low * high))
        missed = sum(law.probability(k) * 0.75**k for k in range(1_000))
        found.append({"distribution": name, "mu": low, "finds": 1 - missed})
    return found


def run(questions: tuple[Question, ...], result: Path, work: Path) -> None:
    stored = json.loads(result.read_text(encoding="utf-8"))["cells"] if result.exists() else []
    have = {tuple(cell[name] for name in KEY) for cell in stored}
    result.parent.mkdir(parents=True, exist_ok=True)
    stamp = provenance()  # before the result, which git knows too, is another
    for q in questions:
        for seed in q.seeds:
            for fitted in (*candidates(q.among, Budget(q.epsilon, DELTA), seed), "selected"):
                key = (q.data, q.among, q.epsilon, seed, fitted)
                if key in have:
                    continue
                found = measure(q, seed, fitted, work)
                stored.append(dict(zip(KEY, key, strict=True)) | found | {"commit": stamp["commit"]})
                figures = {"delta": DELTA, **stamp, "laws": laws(), "questions": [asdict(q) for q in QUESTIONS]}
                result.write_text(json.dumps(figures | {"cells": stored}, indent=1) + "\n", encoding="utf-8")
                print(key, found, flush=True)


def _mean(values: list[float | None]) -> str:
    known = [100 * v for v in values if v is not None]
    spread = f" ± {statistics.stdev(known):.1f}" if len(known) > 1 else ""
    return f"{statistics.fmean(known):.1f}{spread}" if known else "nothing"


def measured(figures: dict[str, Any]) -> str:
    """Return the table of what was measured."""
    lines = [
        "| data | epsilon | selected (seeds) | won | best alone | worst alone |",
        "|---|---|---|---|---|---|",
    ]
    for q in figures["questions"]:
        cells = [c for c in figures["cells"] if all(c[k] == q[k] for k in ("data", "among", "epsilon"))]
        selected = [c for c in cells if c["fitted"] == "selected"]
        if not selected:
            continue
        names = list(dict.fromkeys(c["fitted"] for c in cells if c["fitted"] != "selected"))
        alone = {n: [c["accuracy"] for c in cells if c["fitted"] == n] for n in names}
        ends = (pick(names, key=lambda n: statistics.fmean(alone[n])) for pick in (max, min))
        winners = [c.get("winner", "nobody") for c in selected]
        won = ", ".join(f"{n} ({winners.count(n)})" for n in dict.fromkeys(winners))
        row = [f"{q['data']}, {selected[0]['n_private']:,} records", f"{q['epsilon']:g}"]
        row += [
            f"{_mean([c['accuracy'] for c in selected])} ({len(selected)})",
            won,
            *(f"{n}: {_mean(alone[n])}" for n in ends),
        ]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def priced(figures: dict[str, Any]) -> str:
    """Return the table of the laws."""
    head = f"| `distribution` | K | a run may have mu (epsilon 1 in all, delta 1e-5, {MEAN_RUNS:g} runs on average) |"
    lines = [head + " finds the one best of four |", "|---|---|---|---|"]
    for law in figures["laws"]:
        name = law["distribution"]
        lines.append(f'| `"{name}"` | {_SAYS[name]} | {law["mu"]:.3f} | {100 * law["finds"]:.0f} % |')
    return "\n".join(lines)


def write_page(result: Path, page: Path) -> None:
    """Put the tables between their marks in the page."""
    figures, text = json.loads(result.read_text(encoding="utf-8")), page.read_text(encoding="utf-8")
    for name, table in (("laws", priced(figures)), ("accuracies", measured(figures))):
        before, mark, after = text.partition(BEGIN.format(name))
        rest = after.partition(END)[2]
        text = f"{before}{mark}\n\n{table}\n\n{END}{rest}"
    page.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["digits"], choices=sorted({q.data for q in QUESTIONS}))
    parser.add_argument("--work", type=Path, default=Path("runs/dpsgd_recipes"), help="where wavelets are kept")
    parser.add_argument("--page", action="store_true", help="compute nothing")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    if options.smoke:
        with tempfile.TemporaryDirectory() as made:
            run(SMOKE, Path(made) / "result.json", Path(made))
        return
    if not options.page:
        run(tuple(q for q in QUESTIONS if q.data in options.data), RESULT, options.work)
    write_page(RESULT, PAGE)


if __name__ == "__main__":
    main()
