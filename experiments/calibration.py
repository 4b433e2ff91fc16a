"""How far probabilities are from what happens, calibrated and not, and what balanced decisions buy.

    PATE_DATA_HOME=... python experiments/calibration.py --tables FOLDER   # CSV files with a column `target`
    PATE_DATA_HOME=... python experiments/calibration.py --smoke           # does it run?

Development tables alone, cut at random into private, public and test rows (experiments/measured_accuracy.py). Every
record votes, by default: accuracy is measured where noise leaves less than five points to either side, and the
temperature is then the measured one, else that of the known noise. ``before`` is the same model at a temperature of 1.
Expected calibration error: 15 bins of the largest probability (Guo et al., "On Calibration of Modern Neural Networks",
ICML 2017). Balanced accuracy is the mean recall of the classes, of both ways to decide by the same model.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _tables import Cell, filled
from measured_accuracy import rows_of, taken

from pate import Budget, PATEClassifier
from pate.exceptions import CuratorWarning, PateWarning
from pate.recipes._answers import balancing, decided, noise_temperature

RESULT = Path(__file__).parent / "results" / "calibration.json"


@dataclass(frozen=True)
class Config:
    """Fixed before any row is looked at."""

    #: Table, class that is told from the rest (or none).
    tables: tuple[tuple[str, str], ...] = (
        ("vowel", ""), ("pima", ""), ("german", ""), ("churn", ""), ("credit", ""), ("income", ""),
        ("optdigits", ""), ("pendigits", ""), ("pendigits", "9"),
    )  # fmt: skip
    epsilons: tuple[float, ...] = (0.3, 1.0, 3.0)
    seeds: tuple[int, ...] = (0, 1)
    delta: float = 1e-5
    private: float = 0.6
    public: float = 0.2
    most_private: int = 4_000
    most_public: int = 600


def calibration_error(p: np.ndarray[Any, Any], codes: np.ndarray[Any, Any], bins: int = 15) -> float:
    """Return the mean over bins, by their rows, of how far sureness is from accuracy."""
    sure, right = p.max(axis=1), p.argmax(axis=1) == codes
    at = np.minimum((sure * bins).astype(int), bins - 1)
    parts = [np.flatnonzero(at == b) for b in range(bins)]
    return float(sum(abs(sure[rows].sum() - right[rows].sum()) for rows in parts if len(rows)) / len(p))


def log_loss(p: np.ndarray[Any, Any], codes: np.ndarray[Any, Any]) -> float:
    """Return the mean of -log of the true class's probability."""
    return float(-np.log(np.maximum(p[np.arange(len(p)), codes], 1e-12)).mean())


def balanced(said: np.ndarray[Any, Any], codes: np.ndarray[Any, Any]) -> float:
    """Return the mean recall of the classes."""
    return float(np.mean([(said[codes == code] == code).mean() for code in np.unique(codes)]))


def measured(c: Config, folder: Path | None, name: str, against: str, epsilon: float, seed: int) -> dict[str, Any]:
    """Fit once, and return what both say of the test rows."""
    X, y = rows_of(name, against, folder)
    classes, codes = np.unique(y, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(y))
    n, n_public = min(int(c.private * len(y)), c.most_private), min(int(c.public * len(y)), c.most_public)
    private, public, test = order[:n], order[n : n + n_public], order[n + n_public :]
    clf = PATEClassifier(
        budget=Budget(epsilon, c.delta), classes=range(len(classes)), random_state=seed, voters="records", anyway=True,
        overlap_is_public=True,
    )  # fmt: skip
    with warnings.catch_warnings():
        for kind in (CuratorWarning, PateWarning, FutureWarning):
            warnings.simplefilter("ignore", kind)
        plan, _ = clf.fit_keeping(taken(X, private), codes[private], X_public=taken(X, public))
        model = clf.student_
        rows = clf._check_rows(taken(X, test), model)
        here = clf._check_rows(taken(X, public), model)
        before, after, own = model.untempered(rows), model.predict_proba(rows), model.untempered(here)
    known = noise_temperature(model.head, plan.phi)
    weights = balancing(own, known)
    codes = codes[test]
    return {
        "n": n, "n_test": len(test), "m": len(classes), "head": type(model.head).__name__,
        "measured": None if clf.measured_ is None else clf.measured_.estimate,
        "temperature": model.temperature, "of_noise": known, "accuracy": float((before.argmax(1) == codes).mean()),
        "error": [calibration_error(before, codes), calibration_error(after, codes)],
        "loss": [log_loss(before, codes), log_loss(after, codes)],
        "balanced": [balanced(decided(before), codes), balanced(decided(before, weights), codes)],
        "balanced_right": float((decided(before, weights) == codes).mean()),
    }  # fmt: skip


def cells(c: Config, folder: Path | None) -> Iterator[Cell]:
    """Yield every fit."""
    for seed in c.seeds:
        for name, against in c.tables:
            for epsilon in c.epsilons:
                key = {"table": name, "against": against, "epsilon": epsilon, "seed": seed}
                yield "fits", key, partial(measured, c, folder, name, against, epsilon, seed)


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return means before and after, by epsilon, where accuracy was measured and where not, and of all."""
    told: dict[str, Any] = {}
    parts = {f"epsilon {e:g}": [r for r in rows if r["epsilon"] == e] for e in sorted({r["epsilon"] for r in rows})}
    parts["measured"] = [r for r in rows if r["measured"] is not None]
    parts["not measured"] = [r for r in rows if r["measured"] is None]
    parts["imbalanced"] = [r for r in rows if (r["table"], r["against"]) in (("churn", ""), ("pendigits", "9"))]
    for name, part in {**parts, "all": rows}.items():
        if part:
            means = {what: np.mean([r[what] for r in part], axis=0).round(4).tolist() for what in _TOLD}
            told[name] = {"fits": len(part), **means}
    return told


_TOLD = ("accuracy", "error", "loss", "balanced", "balanced_right")


def main() -> None:
    """Measure what is missing, and say what it comes to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, help="folder of development tables")
    parser.add_argument("--smoke", action="store_true", help="does it run?")
    given = parser.parse_args()
    if given.smoke:
        config = Config(tables=(("pendigits", "9"),), epsilons=(1.0,), seeds=(0,), most_private=1_000)
        print(json.dumps(summary(filled(config, ["fits"], cells(config, None), None)["fits"]), indent=1))
        return
    config = Config()
    told = filled(config, ["fits"], cells(config, given.tables), RESULT)
    told["summary"] = summary(told["fits"])
    RESULT.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(told["summary"], indent=1))


if __name__ == "__main__":
    main()
