"""How well record voters predict several labels at once, and DP-SGD and record voters label by label beside them.

    PATE_DATA_HOME=... python experiments/several_labels.py           # resumes; results/several_labels.json
    PATE_DATA_HOME=... python experiments/several_labels.py --smoke   # does it run?

Chapters: which of the 16 chapters of ICD-9 (without V and E codes) a patient's three diagnoses lie in, from all other
columns of Diabetes 130. Drugs: its ten commonest drugs, given or not, from all columns but drugs. Dense: six columns of
Adult cut in two (income, sex, married, age, hours, race) from the others. All are cut at random, record by record, into
private, public and test rows. Methods, each at the whole budget:

- together: `pate.models.LabelsPlan` says what records contribute; plain numpy adds the noise, at the scale of the exact
  Gaussian for the budget: these are figures, not releases.
- split: the same rounds, but every label by itself, each with mu/sqrt(L).
- DP-SGD: a linear model of the same directions by full-batch descent for each label, mu/sqrt(L) each: gradients of
  records clipped one by one, as DP-SGD with every record in every batch (numpy; the best of `rates` on the test rows,
  which favours it).
- no privacy: logistic regression on the same directions, once, without regard to the budget.

Macro-AUC, macro-F1, micro-F1 and the share of right labels are of test rows; for "together" also micro-F1 as measured
privately on held-out records, with its standard error.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _tables import Cell, filled, taken, write_page
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, roc_auc_score

from pate import Budget, GaussianSum, load_dataset
from pate.models import LabelsPlan
from pate.models import _labels as rules
from pate.models._labels import LabelsModel
from pate.models.recipes import fitted_representation, kind_of
from pate.records import SignedSpace

RESULT = Path(__file__).parent / "results" / "several_labels.json"
PAGE = Path(__file__).parents[1] / "docs" / "labels.md"
METHODS = ("together", "split", "DP-SGD", "no privacy")


@dataclass(frozen=True)
class Config:
    """Fixed before any row is looked at."""

    #: Task, private, public and test rows.
    tasks: tuple[tuple[str, int, int, int], ...] = (
        ("chapters", 55_000, 5_000, 9_000), ("drugs", 55_000, 5_000, 9_000), ("dense", 32_000, 4_000, 7_900),
    )  # fmt: skip
    epsilons: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0)
    seeds: tuple[int, ...] = (0, 1)
    #: Of the methods beside it, which are run on the first seed alone.
    beside: tuple[float, ...] = (0.3, 1.0)
    delta: float = 1e-5
    #: Of DP-SGD: steps, clip of a gradient, and lengths of a step, in units of what one record may move.
    steps: int = 40
    clip: float = 0.1
    rates: tuple[float, ...] = (0.4, 1.6)


#: Where chapters of ICD-9 end.
_CHAPTERS = (
    (140, "infections"), (240, "neoplasms"), (280, "endocrine"), (290, "blood"), (320, "mental"), (390, "nervous"),
    (460, "circulatory"), (520, "respiratory"), (580, "digestive"), (630, "genitourinary"), (680, "pregnancy"),
    (710, "skin"), (740, "musculoskeletal"), (760, "congenital"), (780, "perinatal"), (800, "symptoms"),
    (1000, "injury"),
)  # fmt: skip


def chapter(code: Any) -> str | None:
    """Return the chapter of a code of ICD-9; None of V and E codes and where there is none."""
    if not isinstance(code, str) or not code[:1].isdigit():
        return None
    return next(name for end, name in _CHAPTERS if float(code) < end)


@cache
def rows_of(task: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return all rows, and their labels."""
    data = load_dataset("adult" if task == "dense" else "diabetes130", random_state=0)
    parts = [data.private, data.test] if task == "dense" else [data.private]
    X = pd.concat([part.X for part in parts], ignore_index=True)
    X["label"] = np.concatenate([np.asarray(part.y) for part in parts]).astype(str)
    for name in X.columns:
        if X[name].dtype.name == "category":
            X[name] = X[name].astype(object)
    if task == "dense":
        labels = {
            "income": X["label"].isin(["1", ">50K"]), "male": X["sex"] == "Male", "white": X["race"] == "White",
            "married": X["marital-status"].str.startswith("Married-civ"), "age": X["age"] > 37,
            "hours": X["hours-per-week"] > 40,
        }  # fmt: skip
        used = ["label", "sex", "race", "marital-status", "relationship", "age", "hours-per-week"]
        return X.drop(columns=used), pd.DataFrame(labels)
    if task == "chapters":
        diagnoses = X[["diag_1", "diag_2", "diag_3"]]
        found = pd.DataFrame({name: diagnoses[name].map(chapter) for name in diagnoses})
        names = sorted({name for column in found for name in found[column].dropna()})
        return X.drop(columns=diagnoses.columns), pd.DataFrame({name: (found == name).any(axis=1) for name in names})
    drugs = [name for name in X if set(X[name].dropna().unique()) <= {"No", "Steady", "Up", "Down"} and name != "label"]
    given = pd.DataFrame({name: X[name] != "No" for name in drugs})
    return X.drop(columns=[*drugs, "change", "diabetesMed"]), given[given.mean().sort_values().index[-10:]]


@cache
def parts_of(task: str, sizes: tuple[int, ...], seed: int) -> tuple[str, list[Any], list[Any], tuple[str, ...]]:
    """Return the rows' kind, representation and labels of private, public and test rows, and the labels' names."""
    X, labels = rows_of(task)
    cuts = np.split(np.random.default_rng(seed).permutation(len(X)), np.cumsum(sizes))[: len(sizes)]
    public = taken(X, cuts[1])
    kind, y = kind_of(public), labels.to_numpy(dtype=np.float64)
    seen = fitted_representation(kind, public)
    z = [np.asarray(seen.transform(taken(X, cut)), dtype=np.float64) for cut in cuts]
    return kind, z, [y[cut] for cut in cuts], tuple(labels.columns)


def scores(found: Any, given: Any, thresholds: Any) -> dict[str, float]:
    """Return what test rows say of logits."""
    there = [j for j in range(given.shape[1]) if 0 < given[:, j].sum() < len(given)]
    said = found > thresholds
    return {
        "auc": round(float(np.mean([roc_auc_score(given[:, j], found[:, j]) for j in there])), 4),
        "f1": round(float(f1_score(given, said, average="macro", zero_division=0)), 4),
        "micro": round(float(f1_score(given, said, average="micro", zero_division=0)), 4),
        "right": round(float((said == given).mean()), 4),
    }


def measured(c: Config, task: str, epsilon: float, method: str, seed: int) -> dict[str, Any]:
    """Learn once, and return what test rows say."""
    sizes = next(tuple(sizes) for name, *sizes in c.tasks if name == task)
    kind, (z, z_public, z_test), (y, _, y_test), names = parts_of(task, sizes, seed)
    mu = 1 / GaussianSum.for_budget(Budget(epsilon, c.delta)).noise_multiplier
    spectrum = tuple(np.sort(z_public.var(axis=0))[::-1].tolist())
    plan = LabelsPlan(names, n_units=len(y), mu=mu, n_public=len(z_public), kind=kind, spectrum=spectrum)
    recipe = plan.recipe
    space = SignedSpace(recipe.n_components, alpha=recipe.alpha, constant=recipe.constant).fit(z_public)
    phi, public, test = (space.transform(part) for part in (z, z_public, z_test))
    noise = np.random.default_rng(seed + 1000)
    if method == "together":
        state = played(plan, mu, phi, y, public, noise)
        model = state.model
        told = {"measured_f1": state.pooled.f1, "f1_error": state.pooled.f1_error}
        return scores(model.decision_function(test), y_test, model.thresholds) | told
    each = mu / math.sqrt(len(names))
    rates = np.clip(y.mean(axis=0), 1e-3, 1 - 1e-3)
    if method == "split":
        model = by_split(plan, each, phi, y, public, noise)
        return scores(model.decision_function(test), y_test, model.thresholds)
    if method == "no privacy":
        models = [LogisticRegression(C=30, max_iter=200).fit(phi, column) for column in y.T]
        fits = [lambda rows: np.stack([model.decision_function(rows) for model in models], axis=1)]
    else:
        weights = [by_descent(c, rate, each, phi, y, noise) for rate in c.rates]
        fits = [partial(_linear, one) for one in weights]
    # Thresholds by the true prevalences, which favours both.
    found = [(fit(test), np.quantile(fit(public), 1 - rates, axis=0).diagonal()) for fit in fits]
    return max((scores(logits, y_test, at) for logits, at in found), key=lambda one: one["auc"])


def _linear(weights: Any, rows: Any) -> Any:
    return rows @ weights


def played(plan: LabelsPlan, mu: float, phi: Any, y: Any, public: Any, noise: np.random.Generator) -> Any:
    """Ask all rounds, and return what is known after the last one."""
    state, held_out = plan.start(public), np.arange(len(y)) % 10 == 0
    parts = {part: (phi[held_out == part], y[held_out == part]) for part in (False, True)}
    while (ask := state.ask) is not None:
        seen, labels = parts[ask.held_out]
        r = ask.votes(seen, labels)
        sums = (seen.T @ r if ask.with_phi else r.sum(axis=0)).reshape(ask.shape)
        sigma = ask.delta / (mu * math.sqrt(ask.share))
        state = state.updated(sums + sigma * noise.normal(size=ask.shape), sigma=sigma)
    return state


def by_split(plan: LabelsPlan, mu: float, phi: Any, y: Any, public: Any, noise: np.random.Generator) -> LabelsModel:
    """Return the model of the same rounds of all records, every label by itself with mu."""
    first, *rounds = plan.shares
    n, columns = len(y), range(y.shape[1])
    counted = y.sum(axis=0) + math.sqrt(2 / first) / mu * noise.normal(size=y.shape[1])
    least = (math.sqrt(0.5 / first) / mu + 1) / n
    q = np.clip(counted / n, least, 1 - least)
    clip = rules._CLIP * np.sqrt(q * (1 - q))
    sigma = 2 * clip / (mu * math.sqrt(rounds[0]))
    largest = np.linalg.eigvalsh(public.T @ public / len(public))[-1]
    step = np.minimum(
        1 / (n * largest * rules._CLIP * q * (1 - q)), rules._LOGIT_NOISE / sigma / math.sqrt(len(rounds))
    )
    offsets, total, variance = np.log(q / (1 - q)), np.zeros((phi.shape[1], len(q))), np.zeros(len(q))
    weights = total
    for _ in rounds:
        r = np.clip(y - 1 / (1 + np.exp(-(offsets + phi @ weights))), -clip, clip)
        total = total + step * (phi.T @ r + sigma * noise.normal(size=total.shape))
        variance = variance + (step * sigma) ** 2
        weights = np.concatenate([rules._shrunk(total[:, [j]], variance[j]) for j in columns], axis=1)
    return LabelsModel(weights, offsets, q, np.zeros(len(q))).at_prevalences(public)


def by_descent(c: Config, rate: float, mu: float, phi: Any, y: Any, noise: np.random.Generator) -> Any:
    """Return weights by full-batch DP-SGD of every label by itself, mu each; gradients are clipped to norm C."""
    weights, length = np.zeros((phi.shape[1], y.shape[1])), np.linalg.norm(phi, axis=1)[:, None]
    sigma = 2 * c.clip * math.sqrt(c.steps) / mu
    for _ in range(c.steps):
        r = y - 1 / (1 + np.exp(-phi @ weights))
        r *= np.minimum(1, c.clip / np.maximum(np.abs(r) * length, 1e-12))
        weights += rate / (sigma * math.sqrt(c.steps)) * (phi.T @ r + sigma * noise.normal(size=weights.shape))
    return weights


def cells(c: Config) -> Iterator[Cell]:
    """Yield every run."""
    for seed in c.seeds:
        for task, *_ in c.tasks:
            for method in METHODS if seed == c.seeds[0] else METHODS[:1]:
                asked = {"together": c.epsilons, "no privacy": c.epsilons[-1:]}
                for epsilon in asked.get(method, c.beside):
                    key = {"task": task, "epsilon": epsilon, "method": method, "seed": seed}
                    yield "runs", key, partial(measured, c, task, epsilon, method, seed)
            parts_of.cache_clear()


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return means over seeds, and how far measured F1 is off in its standard errors."""
    table, told = pd.DataFrame(rows), {}
    table["off"] = (table["measured_f1"].astype(float) - table["micro"]) / table["f1_error"].astype(float)
    for (task, method, epsilon), part in table.groupby(["task", "method", "epsilon"], sort=False):
        means = {name: round(float(part[name].mean()), 4) for name in ("auc", "f1", "right")}
        if method == "together":
            means["off"] = round(float(part["off"].mean()), 2)
        told[f"{task}, {method}, epsilon {epsilon:g}"] = means
    return told


def table(told: dict[str, Any]) -> str:
    """Return the means as Markdown: AUC and F1 in one cell."""
    private = METHODS[:3]
    lines = [f"| labels | epsilon | {' | '.join(private)} |", "|---" * (2 + len(private)) + "|"]
    for task, *_ in told["config"]["tasks"]:
        for epsilon in told["config"]["epsilons"]:
            figures = [_auc_and_f1(told, task, name, epsilon) for name in private]
            lines.append(f"| {task} | {epsilon:g} | {' | '.join(figures)} |")
        most = _auc_and_f1(told, task, "no privacy", told["config"]["epsilons"][-1])
        lines.append(f"| {task} | no privacy | {most} | | |")
    return "\n".join(lines)


def _auc_and_f1(told: dict[str, Any], task: str, method: str, epsilon: float) -> str:
    found = told["summary"].get(f"{task}, {method}, epsilon {epsilon:g}")
    return f"{found['auc']:.3f}/{found['f1']:.3f}" if found else "-"


def main() -> None:
    """Measure what is missing, and print and store what follows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--seeds", type=int, default=2, help="the first so many seeds alone")
    parser.add_argument("--page", action="store_true", help="compute nothing: the page's table from the stored JSON")
    asked = parser.parse_args()
    c = Config()
    if asked.page:
        write_page(PAGE, "figures", table(json.loads(RESULT.read_text(encoding="utf-8"))))
        return
    if asked.smoke:
        c = Config(tasks=(("dense", 3_000, 400, 900),), epsilons=(3.0,), beside=(3.0,), seeds=(0,), steps=4)
    result = None if asked.smoke else RESULT
    told = filled(c, ["runs"], (cell for cell in cells(c) if cell[1]["seed"] < asked.seeds), result)
    told["summary"] = summary(told["runs"])
    print(json.dumps(told["summary"], indent=1))
    if result is not None:
        result.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        write_page(PAGE, "figures", table(told))


if __name__ == "__main__":
    main()
