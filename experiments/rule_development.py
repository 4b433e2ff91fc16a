"""What the public rule of `pate.recipes` gives on development tables, and the law of `expected` fitted to it.

    PATE_DATA_HOME=... python experiments/rule_development.py [--smoke]

Splits of training parts only (seeds from 100 on; digits and spambase have no published test part, so that their rows
are shared with everybody's splits), and made tables. Records vote as the rule says, with Gaussian noise in floating
point: figures for choosing settings, never a release. Writes every run to experiments/results/rule_development.json as
it goes (a second call goes on), and the fitted law to pate/recipes/expected.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import log_softmax
from sklearn.cluster import KMeans
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesRegressor

from pate import load_dataset
from pate.core.provenance import provenance
from pate.privacy.convert import gdp_from_budget
from pate.recipes import PublicFacts, Recipe, choose
from pate.recipes._build import heavy_tailed
from pate.recipes._expected import fit_law

HERE = Path(__file__).parent
RUNS = HERE / "results" / "rule_development.json"
LAW = HERE.parent / "pate" / "recipes" / "expected.json"
Array = npt.NDArray[np.float64]
_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")


@dataclass(frozen=True)
class Config:
    """Everything that decides the runs."""

    # name -> private, public rows
    tables: tuple[tuple[str, int, int], ...] = (
        ("digits", 1_038, 400), ("optdigits", 2_400, 600), ("pendigits", 5_000, 1_000), ("pendigits-26", 5_000, 1_000),
        ("spambase", 2_400, 600), ("made-6", 3_435, 1_000), ("made-8", 10_000, 2_000),
    )  # fmt: skip
    seeds: tuple[int, ...] = (100, 101)
    epsilons: tuple[float, ...] = (0.05, 0.1, 0.25, 0.5, 1.0, 3.0)
    delta: float = 1e-5
    most_measured: int = 2_000
    components: int = 600
    landmarks: int = 2_000
    ridge: float = 5e-4
    steps: int = 60


def rows_of(name: str) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return the training rows of a table; pendigits-26 has each digit cut into two or three clusters."""
    if name.startswith("made-"):
        m = int(name[5:])
        return make_classification(  # type: ignore[no-any-return]
            20_000, 30, n_informative=8, n_redundant=12, n_classes=m, n_clusters_per_class=2, class_sep=1.5,
            random_state=m,
        )  # fmt: skip
    data = load_dataset(name.partition("-")[0], random_state=100)
    X = np.concatenate([data.private.X, data.public.X]).astype(float)
    y = np.concatenate([data.private.y, data.public.y_for_evaluation])
    if name == "digits":
        X, y = np.concatenate([X, data.test.X]), np.concatenate([y, data.test.y])
    if name == "pendigits-26":
        cut, start = np.zeros_like(y), 0
        for c, k in enumerate([3] * 6 + [2] * 4):
            cut[y == c] = start + KMeans(k, n_init=2, random_state=0).fit(X[y == c]).labels_
            start += k
        y = cut
    return X, y


def kernel_components(public: Array, c: Config, one_scale: bool) -> Callable[[Array], Array]:
    """Return the map to principal components of the Laplacian kernel at the public median distance."""
    spread = np.full(public.shape[1], public.std()) if one_scale else public.std(axis=0)
    mean, spread = public.mean(axis=0), np.where(spread > 1e-6, spread, 1.0)
    heavy = not one_scale and heavy_tailed(public)
    known = np.sort(public, axis=0)

    def scaled(X: Array) -> Array:
        if heavy:
            ranks = (np.searchsorted(known[:, j], X[:, j], side) for j in range(X.shape[1]) for side in _SIDES)
            both = np.stack(list(ranks), axis=1).reshape(len(X), -1, 2).sum(axis=2)
            return np.asarray((both / (2 * len(known)) - 0.5) * 12**0.5)
        return np.clip((X - mean) / spread, -5, 5)

    land = scaled(public)[: c.landmarks]
    width = float(np.median(cdist(land[:500], land[-500:])))
    K = np.exp(-cdist(land, land) / width)
    row, total = K.mean(axis=0), K.mean()
    values, U = np.linalg.eigh(K - row - row[:, None] + total)
    keep = np.flatnonzero(values > 1e-7 * values[-1])[::-1][: c.components]
    to = U[:, keep] / np.sqrt(values[keep])

    def mapped(X: Array) -> Array:
        k = np.exp(-cdist(scaled(X), land) / width)
        return np.asarray((k - row - k.mean(axis=1, keepdims=True) + total) @ to)

    return mapped


def space_of(recipe: Recipe, z: Array, seed: int) -> Callable[[Array], Array]:
    """Return the public map from components to ballots of norm 1."""

    def unit(x: Array) -> Array:
        return np.asarray(x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12))

    if recipe.space == "signed":
        d = recipe.n_components
        scale = z[:, :d].var(axis=0) ** (-(recipe.alpha or 0) / 2)
        return lambda x: unit(x[:, :d] * scale)
    q, k = recipe.n_components, recipe.k or 1
    centres = KMeans(q, n_init=1, max_iter=30, random_state=seed).fit(z[:, :64]).cluster_centers_

    def soft(x: Array) -> Array:
        near = -cdist(x[:, :64], centres)
        return unit(np.maximum(near - np.partition(near, q - k - 1, axis=1)[:, [q - k - 1]], 0))

    return soft


def run(recipe: Recipe, mu: float, phis: tuple[Array, ...], zs: tuple[Array, ...], ys: tuple[Array, ...], m: int,
        columns: tuple[Array, ...], c: Config, rng: np.random.Generator) -> float:  # fmt: skip
    """Return the accuracy on the rows to measure on, of the head or of its student."""
    private, public, measured = phis
    n, y = len(private), np.eye(m)[ys[0].astype(int)]
    W, sums = np.zeros((private.shape[1], m)), []
    for r in recipe.rounds:
        if r.clip is None:
            ballots, told = y - 1 / m, None
            delta = np.sqrt(2) if recipe.space == "soft" else 2 * np.sqrt(1 - 1 / m)
        else:
            ballots = y - _probabilities(private @ W)
            ballots *= np.minimum(1, r.clip / np.maximum(np.linalg.norm(ballots, axis=1, keepdims=True), 1e-9))
            p = _probabilities(public @ W)
            length = np.sqrt(np.maximum(1 - 2 * p + (p**2).sum(axis=1, keepdims=True), 1e-12))
            told, delta = (p, np.minimum(1, r.clip / length)), 2 * r.clip
        sigma = delta / (mu * np.sqrt(r.share))
        B = private.T @ ballots + sigma * rng.normal(size=W.shape)
        sums.append((B - B.mean(axis=1, keepdims=True), sigma, told))
        W = matched(W, sums, public, n, recipe.prior_scale or 1.0, c.steps)
    if recipe.student is None:
        return float(((measured @ W).argmax(axis=1) == ys[2]).mean())
    if recipe.student == "forest":
        trees = ExtraTreesRegressor(100, min_samples_leaf=5, max_features=1 / 3, random_state=0)
        trees.fit(columns[1], _probabilities(public @ W))
        told = [np.log(np.maximum(trees.predict(x), 1e-4)) for x in columns[1:]]
        V = matched(np.zeros_like(W), sums, public, n, 0.6 * (recipe.prior_scale or 1.0), c.steps, told[0])
        return float(((told[1] + measured @ V).argmax(axis=1) == ys[2]).mean())
    z = zs[1] / np.sqrt(zs[1].var(axis=0).sum())
    labels = np.eye(m)[(public @ W).argmax(axis=1)]
    A = np.linalg.solve(z.T @ z + c.ridge * len(z) * np.eye(z.shape[1]), z.T @ (labels - 1 / m))
    return float(((zs[2] @ A).argmax(axis=1) == ys[2]).mean())


def matched(W: Array, sums: list[tuple[Array, float, tuple[Array, Array] | None]], phi: Array, n: int, scale: float,
            steps: int, before: Array | float = 0.0) -> Array:  # fmt: skip
    """Return the likeliest weights beside the logits ``before``, given every round's sums and a Gaussian prior."""
    per, m = n / len(phi), W.shape[1]

    def loss(w: Array) -> tuple[float, Array]:
        V = w.reshape(W.shape)
        P = _probabilities(before + phi @ V)
        value, slope = float((V**2).sum()) / (2 * scale**2), np.zeros_like(P)
        for B, sigma, told in sums:
            R = P - 1 / m if told is None else P * told[1] - told[0] * (P * told[1]).sum(axis=1, keepdims=True)
            D = per * phi.T @ R - B
            D -= D.mean(axis=1, keepdims=True)
            value += float((D**2).sum()) / (2 * sigma**2)
            g = per / sigma**2 * (phi @ D)
            slope += g if told is None else told[1] * (g - (told[0] * g).sum(axis=1, keepdims=True))
        return value, (phi.T @ (P * (slope - (P * slope).sum(axis=1, keepdims=True))) + V / scale**2).ravel()

    found = minimize(loss, W.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": steps, "maxcor": 20})
    return np.asarray(found.x).reshape(W.shape)


def _probabilities(logits: Array) -> Array:
    return np.exp(log_softmax(logits, axis=1))


def runs(c: Config, done: set[tuple[str, int, float]]) -> Iterator[dict[str, object]]:
    for name, n_private, n_public in c.tables:
        if all((name, s, e) in done for s in c.seeds for e in c.epsilons):
            continue
        X, y = rows_of(name)
        m = int(y.max()) + 1
        for seed in c.seeds:
            order = np.random.default_rng(seed).permutation(len(y))
            parts = np.split(order[: n_private + n_public + c.most_measured], [n_private, n_private + n_public])
            pixels = name in ("digits", "optdigits")
            to, columns = kernel_components(X[parts[1]], c, one_scale=pixels), tuple(X[p] for p in parts)
            zs, ys = tuple(to(X[p]) for p in parts), tuple(y[p] for p in parts)
            for epsilon in c.epsilons:
                if (name, seed, epsilon) in done:
                    continue
                mu = gdp_from_budget(epsilon, c.delta)
                facts = PublicFacts(
                    n_private, m, mu, n_public, spectrum=tuple(zs[1].var(axis=0).tolist()), columns=not pixels,
                    quantiles=not pixels and heavy_tailed(X[parts[1]]),
                )  # fmt: skip
                recipe = choose(facts)
                space = space_of(recipe, zs[1], seed)
                phis = tuple(space(z) for z in zs)
                rng = np.random.default_rng([seed, round(1000 * epsilon)])
                noisy, quiet = (run(recipe, u, phis, zs, ys, m, columns, c, rng) for u in (mu, 1e4 * mu))
                yield {
                    "table": name, "seed": seed, "epsilon": epsilon, "n_classes": m, "n_public": n_public,
                    "evidence": facts.evidence, "space": recipe.space, "n_components": recipe.n_components,
                    "n_rounds": len(recipe.rounds), "student": recipe.student,
                    "accuracy": noisy, "without_noise": quiet,
                }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="one small table, nothing is written")
    parser.add_argument("--fit-only", action="store_true", help="fit the law to the stored runs")
    given = parser.parse_args()
    if given.smoke:
        for row in runs(Config(tables=(("digits", 1_038, 400),), seeds=(100,), epsilons=(0.5,)), set()):
            print(row)
        return
    c = Config()
    rows = json.loads(RUNS.read_text())["runs"] if RUNS.exists() else []
    if not given.fit_only:
        for row in runs(c, {(r["table"], r["seed"], r["epsilon"]) for r in rows}):
            rows.append(row)
            print(" ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items()), flush=True)
            RUNS.write_text(json.dumps({"config": asdict(c), "stamp": provenance(), "runs": rows}, indent=1) + "\n")
    LAW.write_text(json.dumps(fit_law(rows), indent=1) + "\n")
    print(LAW.read_text())


if __name__ == "__main__":
    main()
