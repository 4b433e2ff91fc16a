"""What a recipe is expected to give, before any private record is read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from pate.recipes._facts import PublicFacts
from pate.recipes._recipe import Recipe

_FILE = "expected.json"
#: The law is fitted to tables; other data and far away from what was run it is a guess, and says so.
_GUESS = 2.0


@dataclass(frozen=True)
class Expectation:
    """What share of the accuracy without noise is expected, and how sure that is.

    Attributes
    ----------
    share : float
        Accuracy, over what the same records, representation and recipe reach without noise: 1 / n_classes at least.
    plus_minus : float
        Root mean square error of the law on development tables that it was not fitted to, at that level of evidence;
        doubled where the facts are of a kind, or as far away, as none of them.
    within : bool
        Whether the facts are like those of the development runs.
    n_runs, n_tables : int
        How many runs the law was fitted to, on how many tables.

    Examples
    --------
    >>> Expectation(0.9, 0.03, True).share
    0.9
    """

    share: float
    plus_minus: float
    within: bool
    n_runs: int = 0
    n_tables: int = 0

    def __str__(self) -> str:
        doubt = "" if self.within else " (a guess: unlike the data it was measured on)"
        share = math.floor(100 * min(self.share, 0.99))  # never a promise of all of it
        return f"{share}% of the accuracy without noise, give or take {self.plus_minus:.0%}{doubt}"


def expected(facts: PublicFacts, recipe: Recipe) -> Expectation:
    """Return the accuracy to expect, as a share of what the same path reaches without noise.

    The share above chance is a logistic function of log evidence and log number of classes, fitted by
    ``experiments/rule_development.py`` to its stored runs; the constants are those of its file.

    Parameters
    ----------
    facts : PublicFacts
    recipe : Recipe
        What :func:`choose` says. One with fewer ballots of its budget in the first round than noise allows does worse.

    Returns
    -------
    Expectation

    Examples
    --------
    >>> from pate.recipes import choose
    >>> facts = PublicFacts(n_units=5_000, n_classes=10, mu=0.14, n_public=1_000)
    >>> expected(facts, choose(facts)).share > 0.9
    True
    >>> none = PublicFacts(n_units=50, n_classes=10, mu=0.01, n_public=1_000)
    >>> expected(none, choose(none)).share < 0.3
    True
    """
    law = _law()
    x = _inputs(facts.evidence, facts.n_classes)
    chance = 1 / facts.n_classes
    above = float(expit(x @ np.asarray(law["coefficients"])))
    spread = float(np.interp(math.log(facts.evidence), law["log_evidence"], law["error"]))
    within = (
        facts.kind == "table"
        and law["evidence"][0] <= facts.evidence <= law["evidence"][1]
        and law["classes"][0] <= facts.n_classes <= law["classes"][1]
        and recipe.representation == "kernel"
    )
    share = chance + (1 - chance) * above
    return Expectation(share, spread * (1.0 if within else _GUESS), within, law["n_runs"], len(law["tables"]))


def _inputs(evidence: float, n_classes: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([1.0, math.log(max(evidence, 1e-300)), math.log(n_classes)])


@lru_cache(maxsize=1)
def _law() -> dict[str, Any]:
    return dict(json.loads(files("pate.recipes").joinpath(_FILE).read_text(encoding="utf-8")))


def fit_law(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the constants of the law, fitted to development runs; the error is that on tables left out.

    Parameters
    ----------
    rows : iterable of mappings
        With ``table``, ``evidence``, ``n_classes``, ``accuracy`` and ``without_noise``.

    Examples
    --------
    >>> rows = [{"table": t, "evidence": e, "n_classes": m, "accuracy": 0.9 * e / (e + 9), "without_noise": 0.9}
    ...         for t, m in (("a", 2), ("b", 10), ("c", 20)) for e in (1.0, 9.0, 81.0)]
    >>> fit_law(rows)["coefficients"][1] > 0
    True
    """
    rows = list(rows)
    chance = np.array([1 / r["n_classes"] for r in rows])
    share = np.array([r["accuracy"] / r["without_noise"] for r in rows])
    X = np.array([_inputs(r["evidence"], r["n_classes"]) for r in rows])
    table = np.array([r["table"] for r in rows])

    def model(w: Any, some: Any) -> Any:
        return chance[some] + (1 - chance[some]) * expit(X[some] @ w)

    def fit(some: Any) -> Any:
        def loss(w: Any) -> float:
            # A weak pull towards 0 keeps the fit finite; the slope of the evidence is never negative.
            return float(((model(w, some) - share[some]) ** 2).sum() + 1e-4 * (w**2).sum())

        bounds = [(None, None), (0.0, None), (None, None)]
        return minimize(loss, np.array([-1.0, 1.0, 0.0]), method="L-BFGS-B", bounds=bounds).x

    error = np.zeros(len(rows))
    for t in np.unique(table):
        out = table == t
        error[out] = model(fit(~out), out) - share[out]
    logs = X[:, 1]
    knots = np.quantile(logs, [0.1, 0.3, 0.5, 0.7, 0.9])
    near = np.exp(-0.5 * ((logs[None] - knots[:, None]) / max(np.ptp(logs) / 8, 1e-9)) ** 2)
    spread = np.sqrt((near * error**2).sum(axis=1) / near.sum(axis=1))
    return {
        "coefficients": [round(float(w), 4) for w in fit(np.ones(len(rows), dtype=bool))],
        "log_evidence": [round(float(k), 3) for k in knots],
        "error": [round(float(s), 4) for s in spread],
        "evidence": [round(float(np.exp(q)), 3) for q in (logs.min(), logs.max())],
        "classes": [int(r) for r in (1 / chance.max() + 0.5, 1 / chance.min() + 0.5)],
        "n_runs": len(rows),
        "tables": sorted({str(t) for t in table}),
    }
