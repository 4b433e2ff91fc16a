"""The law of what to expect of a recipe (pate.models.recipes), fitted to the stored runs of rule_development.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from pate._core.types import FloatArray, Mask
from pate.models.recipes._expected import _BY_HAND_BELOW, _KNOTS, _WIDEST, _ends, _inputs, _key, _predicted

#: An interval holds so many of the runs on tables that the law was not fitted to.
_INSIDE = 0.9
#: Half widths are of runs whose log evidence is about so near; those of tables of the other sort (two classes, or more)
#: count so much less.
_NEAR = 0.4
_OTHERS = 0.2
#: Residuals beyond this size pull the law by their direction alone.
_OUTLYING = 0.05
#: Labels by hand reach about as much: at most so much less.
_ABOUT = 0.01


def fit_law(rows: Iterable[Mapping[str, Any]], *, check: bool = True) -> dict[str, Any]:
    """Return the constants of the law, fitted to development runs; intervals are those of errors on tables left out.

    A run that beats its own accuracy without noise counts as all of it.

    Rows have ``table``, ``kind``, ``evidence``, ``n_classes``, ``n_public``, ``n_records``, ``accuracy``,
    ``without_noise`` and ``by_hand`` (what 100 labelled public rows reach); ``family`` where several tables are left
    out together. ``check`` also fits the whole law without each family of tables, and tells how well it did there.
    """
    rows = list(rows)
    law = _fitted(rows)
    if check:
        law["left_out"] = _left_out(rows)
    return law


def _fitted(rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    X = np.array([_inputs(r["evidence"], r["n_classes"], r["n_public"]) for r in rows])
    chance = np.array([1 / r["n_classes"] for r in rows])
    share = np.array([_share(r) for r in rows])
    family = np.array([_family(r) for r in rows])
    table = np.array([r["table"] for r in rows])
    weight = np.array([1 / np.count_nonzero(table == t) for t in table])

    def law_of(some: Mask) -> FloatArray:
        return _coefficients(X[some], chance[some], share[some], weight[some])

    error = np.zeros(len(rows))
    for f in np.unique(family):
        out = family == f
        w = law_of(~out) if not out.all() else law_of(out)
        error[out] = np.abs(chance[out] + (1 - chance[out]) * expit(X[out] @ w) - share[out])
    two = chance == 0.5
    groups = {"two": two, "more": ~two}
    ends = {
        name: [int(min(r[key] for r in rows)), int(max(r[key] for r in rows))]
        for name, key in (("classes", "n_classes"), ("public_rows", "n_public"), ("private_records", "n_records"))
    }
    few = {k: [r for r in rows if _key(r["n_classes"]) == k and r["evidence"] < _BY_HAND_BELOW[k]] for k in groups}
    return {
        "coefficients": [round(float(w), 4) for w in law_of(np.ones(len(rows), dtype=bool))],
        "half_width": {
            # Tables of the other sort count too, but little.
            k: _half_widths(X[:, 1], error, weight * np.where(g, 1.0, _OTHERS)) for k, g in groups.items()
        },
        "evidence": [round(float(np.exp(q)), 3) for q in (X[:, 1].min(), X[:, 1].max())],
        **ends,
        "kinds": sorted({str(r["kind"]) for r in rows}),
        "by_hand": {k: [sum(r["by_hand"] >= r["accuracy"] - _ABOUT for r in of), len(of)] for k, of in few.items()},
        "n_runs": len(rows),
        "tables": sorted({str(t) for t in table}),
    }  # fmt: skip


def _coefficients(X: FloatArray, chance: FloatArray, share: FloatArray, weight: FloatArray) -> FloatArray:
    """Fit the law: every table counts as much as another, and outlying runs are not followed."""

    def loss(w: FloatArray) -> tuple[float, FloatArray]:
        p = expit(X @ w)
        r = chance + (1 - chance) * p - share
        long = np.sqrt(1 + (r / _OUTLYING) ** 2)
        slope = X.T @ (weight * r / (_OUTLYING**2 * long) * (1 - chance) * p * (1 - p))
        # A weak pull towards 0 keeps the fit finite.
        return float((weight * long).sum() / weight.sum() + 1e-4 * w @ w), slope / weight.sum() + 2e-4 * w

    start = np.array([-1.0, 1.0, 0.0, 0.0])
    # More evidence and more public rows never do harm.
    bounds = [(None, None), (0.0, None), (None, None), (0.0, None)]
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x)


def _half_widths(log_evidence: FloatArray, error: FloatArray, weight: FloatArray) -> list[float]:
    """Return what so many errors near each level of evidence are below, and no more where there is more evidence."""
    order, found = np.argsort(error), []
    for knot in np.log(_KNOTS):
        near = weight * np.maximum(np.exp(-0.5 * ((log_evidence - knot) / _NEAR) ** 2), 1e-300)
        below = np.cumsum(near[order]) / near.sum()
        found.append(error[order][min(int(np.searchsorted(below, _INSIDE)), len(error) - 1)])
    return [round(float(h), 4) for h in np.maximum.accumulate(found[::-1])[::-1]]


def _share(r: Mapping[str, Any]) -> float:
    return float(min(1.0, r["accuracy"] / r["without_noise"]))


def _family(r: Mapping[str, Any]) -> str:
    return str(r.get("family", r["table"]))


def _left_out(rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how the law did on families of tables that neither it nor its intervals were fitted to."""
    widths: list[float] = []
    inside: dict[str, list[bool]] = {"two": [], "more": []}
    families = sorted({_family(r) for r in rows})
    for family in families if len(families) > 2 else ():
        law = _fitted([r for r in rows if _family(r) != family])
        for r in rows:
            if _family(r) == family:
                share, half = _predicted(law, r["evidence"], r["n_classes"], r["n_public"])
                low, high = _ends(share, half)
                if high - low <= _WIDEST:
                    widths.append(high - low)
                    inside[_key(r["n_classes"])].append(low <= _share(r) <= high + 1e-9)
    if not widths:
        return {"known": 0.0}
    return {
        "known": round(len(widths) / len(rows), 3),
        "inside": round(sum(map(sum, inside.values())) / len(widths), 3),
        "median_width": round(float(np.median(widths)), 3),
        "inside_by_classes": {k: [sum(of), len(of)] for k, of in inside.items()},
    }
