"""How well record voters predict a number, and how often its 90% intervals hold.

    PATE_DATA_HOME=... python experiments/predict_numbers.py           # resumes; results/predict_numbers.json
    PATE_DATA_HOME=... python experiments/predict_numbers.py --smoke   # does it run?

Adult's age and hours a week from its other columns and the income, the log price of diamonds, and days in hospital
(diabetes 130), cut at random into private, public and test rows. `pate.models._numbers` says what records contribute;
here plain numpy adds the noise, at the scale of the exact Gaussian for the budget: these are figures, not releases.
A stated range is `wide` times as wide as in `Config`, about its lower end. Columns of `runs`: R2 and mean absolute
error on test rows, those measured privately with their standard errors, coverage of the 90% intervals there and their
mean width over the target's standard deviation.

`rivals`: what linear methods reach on the same rows, public space and budget, with numpy's noise too. They are told the
target's mean and standard deviation for nothing, learn from the records that ours holds out as well, and of their
settings the best on the *test* rows is shown: that favours them. "adassp": Wang (UAI 2018), its three parts a third of
mu^2 each; "shards": the noisy mean of ridge regressions of disjoint shards, clipped to their median norm; "descent":
full-batch descent on clipped gradients; "dpsgd": `DPSGDRegressor` as it comes, told the range alone, with true noise.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _tables import Cell, filled, taken, write_page, written

from pate import Budget, DPSGDRegressor, GaussianSum, load_dataset
from pate.models import NumbersPlan
from pate.models.recipes import fitted_representation, kind_of
from pate.records import SignedSpace

RESULT = Path(__file__).parent / "results" / "predict_numbers.json"
PAGE = Path(__file__).parents[1] / "docs" / "numbers.md"
RIVALS = ("adassp", "shards", "descent", "dpsgd")


@dataclass(frozen=True)
class Config:
    """Fixed before any row is looked at."""

    #: Target, its stated range, private, public and test rows.
    targets: tuple[tuple[str, float, float, int, int, int], ...] = (
        ("age", 0, 100, 32_000, 4_000, 7_900), ("hours", 0, 100, 32_000, 4_000, 7_900),
        ("price", 4, 12, 40_000, 5_000, 8_900), ("days", 0, 20, 55_000, 5_000, 9_000),
    )  # fmt: skip
    epsilons: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0)
    wide: tuple[float, ...] = (1.0, 100.0)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    delta: float = 1e-5
    #: Settings of the rivals: components and clip of the target in standard deviations; components, shards and ridge;
    #: components, steps, clip of a gradient and rate.
    adassp: tuple[tuple[float, ...], ...] = ((10, 20, 40, 80, 160, 320), (2, 3, 5))
    shards: tuple[tuple[float, ...], ...] = ((10, 20, 40), (100, 300, 1000, 3000), (0.03, 0.3))
    descent: tuple[tuple[float, ...], ...] = ((80, 160), (10, 20, 60), (0.1, 1, 2), (3, 10, 30))


@cache
def rows_of(target: str) -> tuple[pd.DataFrame, Any]:
    """Return all rows and the numbers to predict."""
    if target == "price":
        folder = Path(os.environ["PATE_DATA_HOME"]) / "tables"
        X = pd.read_csv(folder / "diamonds.csv.gz")
        return X, np.log(X.pop("price").to_numpy(dtype=float))
    data = load_dataset("diabetes130" if target == "days" else "adult", random_state=0)
    parts = [data.private] if target == "days" else [data.private, data.test]
    X = pd.concat([part.X for part in parts], ignore_index=True)
    X["label"] = np.concatenate([np.asarray(part.y) for part in parts]).astype(str)
    for name in X.columns:
        if X[name].dtype.name == "category":
            X[name] = X[name].astype(object)
    column = {"age": "age", "hours": "hours-per-week", "days": "time_in_hospital"}[target]
    return X, X.pop(column).to_numpy(dtype=float)


def cut_of(target: str, sizes: tuple[int, ...], seed: int) -> tuple[list[pd.DataFrame], list[Any]]:
    """Return private, public and test rows, and their numbers."""
    X, y = rows_of(target)
    order = np.random.default_rng(seed).permutation(len(y))
    cuts = np.split(order, np.cumsum(sizes))[: len(sizes)]
    return [taken(X, cut) for cut in cuts], [y[cut] for cut in cuts]


@cache
def parts_of(target: str, sizes: tuple[int, ...], seed: int) -> tuple[str, list[Any], list[Any]]:
    """Return the kind of the rows, and representation and numbers of private, public and test rows."""
    parts, numbers = cut_of(target, sizes, seed)
    kind = kind_of(parts[1])
    seen = fitted_representation(kind, parts[1])
    return kind, [np.asarray(seen.transform(part), dtype=float) for part in parts], numbers


def measured(c: Config, target: str, epsilon: float, wide: float, seed: int) -> dict[str, Any]:
    """Play all rounds once, and return what test rows say."""
    _, low, high, *sizes = next(t for t in c.targets if t[0] == target)
    kind, (z, z_public, z_test), (y, _, y_test) = parts_of(target, tuple(sizes), seed)
    mu = 1 / GaussianSum.for_budget(Budget(epsilon, c.delta)).noise_multiplier
    spectrum = tuple(np.sort(z_public.var(axis=0))[::-1].tolist())
    plan = NumbersPlan(
        low, low + (high - low) * wide, n_units=len(y), mu=mu, n_public=len(z_public), kind=kind, spectrum=spectrum
    )
    recipe = plan.recipe
    space = SignedSpace(recipe.n_components, alpha=recipe.alpha, constant=recipe.constant).fit(z_public)
    phi, phi_test = space.transform(z), space.transform(z_test)
    held_out = np.arange(len(y)) % 10 == 0
    state, noise = plan.start(space.transform(z_public)), np.random.default_rng(seed + 1000)
    parts = {part: (phi[held_out == part], y[held_out == part]) for part in (False, True)}
    while (ask := state.ask) is not None:
        seen, numbers = parts[ask.held_out]
        r = ask.votes(seen, numbers)
        sums = (seen.T @ r if ask.with_phi else r.sum(axis=0)).reshape(ask.shape)
        sigma = ask.delta / (mu * math.sqrt(ask.share))
        state = state.updated(sums + sigma * noise.normal(size=ask.shape), sigma=sigma)
    model, errors = state.model, state.errors
    assert model is not None
    assert errors is not None
    found = model.predict(phi_test)
    below, above = model.interval(phi_test)
    return {
        "r2": round(1 - float(np.square(y_test - found).mean() / y_test.var()), 4),
        "mae": round(float(np.abs(y_test - found).mean()), 4),
        "covered": round(float(((below <= y_test) & (y_test <= above)).mean()), 4),
        "width": round(float((above - below).mean() / y_test.std()), 3),
        "measured_r2": errors.r2, "r2_error": errors.r2_error,
        "measured_mae": errors.mae, "mae_error": errors.mae_error,
        "components": recipe.n_components, "bins": len(model.bins.means),
        "range": [state.zoom.low, state.zoom.high],
    }  # fmt: skip


def adassp(phi: Any, y: Any, mu: float, noise: np.random.Generator, *, times: float) -> Any:
    """Return the weights of AdaSSP (Wang 2018, algorithm 2), of numbers clipped to ``times``."""
    d, sigma = phi.shape[1], math.sqrt(3) / mu  # of each part, for a sensitivity of 1
    second, y = phi.T @ phi, np.clip(y / times, -1, 1)
    upper = np.triu(noise.normal(size=(d, d)), 1)  # entries off the diagonal count twice in the norm, sqrt 2
    noisy = second + sigma * (upper + upper.T + math.sqrt(2) * np.diag(noise.normal(size=d)))
    least = np.linalg.eigvalsh(second)[0] + sigma * (noise.normal() - math.sqrt(math.log(6e5)))
    ridge = max(0.0, sigma * math.sqrt(2 * d * math.log(2 * d**2 / 0.05)) - max(least, 0.0))
    moment = phi.T @ y + 2 * sigma * noise.normal(size=d)
    return times * np.linalg.solve(noisy + ridge * np.eye(d), moment)


def shards(phi: Any, y: Any, mu: float, noise: np.random.Generator, *, k: int, ridge: float) -> Any:
    """Return the noisy mean of the weights of k disjoint shards; the median norm, their clip, is told for nothing."""
    d, n = phi.shape[1], len(y) // k * k
    rows, y = phi[:n].reshape(k, -1, d), y[:n].reshape(k, -1, 1)
    turned = rows.transpose(0, 2, 1)
    weights = np.linalg.solve(turned @ rows + ridge * np.eye(d), turned @ y)[..., 0]
    length = np.linalg.norm(weights, axis=1, keepdims=True)
    clip = np.median(length)
    return (weights * np.minimum(1, clip / length)).mean(axis=0) + 2 * clip / (k * mu) * noise.normal(size=d)


def descent(phi: Any, y: Any, mu: float, noise: np.random.Generator, *, steps: int, clip: float, rate: float) -> Any:
    """Return the weights after so many full batches of clipped gradients."""
    n, d = phi.shape
    weights, length = np.zeros(d, dtype=phi.dtype), np.linalg.norm(phi, axis=1)
    for _ in range(steps):
        left = y - phi @ weights
        left *= np.minimum(1, clip / np.maximum(length * np.abs(left), 1e-12))
        drawn = noise.normal(size=d).astype(phi.dtype)
        weights += rate / n * (phi.T @ left + 2 * clip * math.sqrt(steps) / mu * drawn)
    return weights


def rival(c: Config, target: str, epsilon: float, seed: int, method: str) -> dict[str, Any]:
    """Return the best R2 on test rows that a rival reaches, and with which setting."""
    _, low, high, *sizes = next(t for t in c.targets if t[0] == target)
    if method == "dpsgd":
        (X, public, test), (y, _, y_test) = cut_of(target, tuple(sizes), seed)
        reg = DPSGDRegressor(budget=Budget(epsilon, c.delta), target_range=(low, high), random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # for curators of private tables
            return {"r2": round(reg.fit(X, y, X_public=public).score(test, y_test), 4), "setting": []}
    _, (z, z_public, z_test), (y, _, y_test) = parts_of(target, tuple(sizes), seed)
    mu = 1 / GaussianSum.for_budget(Budget(epsilon, c.delta)).noise_multiplier
    noise, best = np.random.default_rng(seed + 1000), (-math.inf, ())
    told = y.mean(), y.std()
    y, y_test = (((one - told[0]) / told[1]).astype(np.float32) for one in (y, y_test))
    made: dict[str, Callable[..., Any]] = {
        "adassp": lambda phi, times: adassp(phi, y, mu, noise, times=times),
        "shards": lambda phi, k, ridge: shards(phi, y, mu, noise, k=k, ridge=ridge),
        "descent": lambda phi, steps, clip, rate: descent(phi, y, mu, noise, steps=steps, clip=clip, rate=rate),
    }
    components, *others = getattr(c, method)
    for d in components:
        space = SignedSpace(d, alpha=0.5, constant=0.2).fit(z_public)
        phi, phi_test = (space.transform(rows).astype(np.float32) for rows in (z, z_test))
        for setting in product(*others):
            found = phi_test @ made[method](phi, *setting)
            r2 = 1 - float(np.square(y_test - found).mean() / y_test.var())
            best = max(best, (round(r2, 4), (d, *setting)))
    return {"r2": best[0], "setting": list(best[1])}


def cells(c: Config) -> Iterator[Cell]:
    """Yield every run."""
    for seed in c.seeds:
        for target, *_ in c.targets:
            for epsilon in c.epsilons:
                for wide in c.wide:
                    key = {"target": target, "epsilon": epsilon, "wide": wide, "seed": seed}
                    yield "runs", key, partial(measured, c, target, epsilon, wide, seed)
                for method in RIVALS:
                    key = {"target": target, "epsilon": epsilon, "seed": seed, "method": method}
                    yield "rivals", key, partial(rival, c, **key)
            parts_of.cache_clear()


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean over seeds of each target, budget and range, and how far off measured errors are."""
    table = pd.DataFrame(rows)
    for name in ("r2", "mae"):
        table[f"{name}_off"] = (table[f"measured_{name}"].astype(float) - table[name]) / table[f"{name}_error"].astype(
            float
        )
    told: dict[str, Any] = {}
    for (target, epsilon, wide), part in table.groupby(["target", "epsilon", "wide"], sort=False):
        told[f"{target}, epsilon {epsilon:g}, range x{wide:g}"] = {
            name: round(float(part[name].mean()), 4) for name in ("r2", "mae", "covered", "width", "r2_off", "mae_off")
        }
    return told


#: The methods beside it that the page shows.
_SHOWN = {"adassp": "AdaSSP", "descent": "descent", "dpsgd": "`DPSGDRegressor`"}


def table(told: dict[str, Any]) -> str:
    """Return the means as Markdown; the best R2 of a line is bold."""
    heads = ["target", "epsilon", "R2", *_SHOWN.values(), "R2, 100 times too wide", "within"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    rivals = pd.DataFrame(told["rivals"]).groupby(["target", "epsilon", "method"])["r2"].mean()
    for target, epsilon in dict.fromkeys((row["target"], row["epsilon"]) for row in told["runs"]):
        narrow, wide = (told["summary"][f"{target}, epsilon {epsilon:g}, range x{times}"] for times in (1, 100))
        r2 = [narrow["r2"], *(rivals[target, epsilon, method] for method in _SHOWN)]
        figures = [f"**{one:.3f}**" if one == max(r2) else f"{one:.3f}" for one in r2]
        figures += [f"{wide['r2']:.3f}", f"{narrow['covered']:.1%}"]
        lines.append(f"| {target} | {epsilon:g} | {' | '.join(figures)} |")
    return "\n".join(lines)


def _sort(row: dict[str, Any]) -> int:
    return 2 if "method" in row else int(row["wide"] > 1)


def main() -> None:
    """Measure what is missing, and print and store what follows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--splits", type=int, nargs=3, default=(5, 5, 5), help="of stated ranges, wide ones, rivals")
    parser.add_argument("--targets", nargs="*", help="these alone")
    parser.add_argument("--page", action="store_true", help="compute nothing: the page's table from the stored JSON")
    asked = parser.parse_args()
    c = Config()
    if asked.page:
        write_page(PAGE, "figures", table(json.loads(RESULT.read_text(encoding="utf-8"))))
        return
    if asked.smoke:
        c = Config(targets=(("age", 0, 100, 3_000, 400, 900),), epsilons=(3.0,), seeds=(0,))
    result = None if asked.smoke else RESULT
    todo = (one for one in cells(c) if one[1]["seed"] < asked.splits[_sort(one[1])])
    todo = (one for one in todo if not asked.targets or one[1]["target"] in asked.targets)
    told = filled(c, ["runs", "rivals"], todo, result)
    told["summary"] = summary(told["runs"])
    print(json.dumps(told["summary"], indent=1))
    if result is not None:
        result.write_text(written(told), encoding="utf-8")
        write_page(PAGE, "figures", table(told))


if __name__ == "__main__":
    main()
