"""Comparisons that look like real ones, from fits that are simulated row by row: for tests of what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pate.comparison._cells import Cell, packed
from pate.comparison._report import ComparisonReport
from pate.privacy.words import Guarantee
from pate.release.statement.model import PrivacyStatement
from pate.report.result import Entrant, FitCost, GroupScore

DELTA = 1e-5
SIDES = ("PATE", "DP-SGD", "other")


def statement(epsilon: float, mechanism: str) -> PrivacyStatement:
    promise = Guarantee(epsilon=0.999 * epsilon, delta=DELTA, kind="public", method="gdp")
    return PrivacyStatement(
        released="labels", unit="record", n_units=1000, guarantee=promise, mechanism=mechanism, accounting="exact",
        assumptions=("each record is in one shard",),
    )  # fmt: skip


def curve(place: int, epsilon: float) -> float:
    """How right a contestant is: PATE's start high and rise slowly, DP-SGD's start low and end higher."""
    rise = epsilon / (epsilon + (0.05, 1.0, 0.3)[place % 3])
    return 0.15 + rise * (0.78, 0.83, 0.75)[place % 3] - 0.012 * (place // 3)


def comparison(
    n_contestants: int = 4,
    epsilons: Sequence[float] = (0.1, 1.0, 8.0),
    *,
    n_repeats: int = 5,
    n_test: int = 600,
    n_classes: int = 4,
    redraws: str = "all rows",
    published: bool = True,
    dataset: str = "digits",
    starve: int | None = None,
    refuse: bool = False,
    names: Sequence[str] | None = None,
    **more: Any,
) -> ComparisonReport:
    """Return a comparison; ``starve`` is a class that the first contestant hardly answers."""
    rng = np.random.default_rng(7)
    names = names or [f"{SIDES[i % 3].lower().replace(' ', '-')}-{'abcdefgh'[i // 3]}" for i in range(n_contestants)]
    fixed = rng.random(n_test), rng.integers(0, n_classes, n_test)
    cells, costs, ceilings = [], [], []
    for repeat in range(n_repeats):
        hard, y = fixed if redraws != "all rows" else (rng.random(n_test), rng.integers(0, n_classes, n_test))
        for place, name in enumerate(names):
            for epsilon in epsilons:
                base = {"contestant": name, "epsilon": epsilon, "delta": DELTA, "repeat": repeat, "seed": 100 + repeat}
                if refuse and place == 0 and epsilon == min(epsilons):
                    why = "budget must buy at least 40 answers, got 3. Take a larger epsilon."
                    cells.append(Cell(**base, accuracy=None, refused=why))
                    continue
                skill = curve(place, epsilon) + rng.normal(0, 0.004)
                right = hard + 0.05 * rng.standard_normal(n_test) < skill
                asks = place % 3 == 0
                cells.append(Cell(
                    **base, **_measured(right, y, n_classes), right=packed(right), n_test=n_test,
                    calibration_error=0.03, settings=f"recipe {place}, 3 rounds",
                    statement=statement(epsilon, f"GaussianSum(sigma={10 / epsilon:g})"),
                    **(_answers(n_classes, starve if place == 0 else None) if asks else {}),
                ))  # fmt: skip
                costs.append(FitCost(
                    contestant=name, epsilon=epsilon, repeat=repeat, data_dependent_epsilon=0.77777 * epsilon,
                    startup_seconds=1.0, training_seconds=12.3456, labelling_seconds=2.0, predicting_seconds=0.1,
                    peak_mib=512.0,
                ))  # fmt: skip
        for name, role, level in (("majority", "floor", 0.25), ("no-privacy", "ceiling", 0.987)):
            right = hard < level
            made = Cell(contestant=name, role=role, epsilon=None, delta=None, repeat=repeat, seed=100 + repeat,
                        **_measured(right, y, n_classes), right=packed(right), n_test=n_test)  # fmt: skip
            (cells if role == "floor" or published else ceilings).append(made)
    entrants = [
        Entrant(name=name, side=SIDES[i % 3], sees="private rows and labels, public rows", rule="a public rule",
                n_tried=(340, 60, 0)[i % 3], tried_on="splits of training parts")
        for i, name in enumerate(names)
    ]  # fmt: skip
    entrants += [Entrant(name="majority", role="floor"), Entrant(name="no-privacy", role="ceiling")]
    return ComparisonReport(**{
        "cells": tuple(sorted(cells, key=lambda c: (c.contestant, c.epsilon or 0, c.repeat))), "dataset": dataset,
        "protocol": "standard", "description": "Made up.", "classes": tuple(range(n_classes)),
        "entrants": tuple(entrants), "redraws": redraws, "n_pool": 5 * n_test, "published": published,
        "ceilings": tuple(ceilings), "costs": tuple(costs), "created": "2026-01-01T00:00:00+00:00",
        "settings": {"n_private": 3 * n_test, "n_public": n_test, "n_test": n_test, "n_repeats": n_repeats},
        "versions": {"pate": "0.1"}, **more,
    })  # fmt: skip


def _measured(right: Any, y: Any, n_classes: int) -> dict[str, Any]:
    by_class = [float(right[y == k].mean()) for k in range(n_classes)]
    groups = [
        GroupScore(value=v, n_test=100, accuracy=0.9, n_queries=50, answer_rate=r) for v, r in (("F", 0.7), ("M", 0.6))
    ]
    return {
        "accuracy": float(right.mean()), "balanced_accuracy": float(np.mean(by_class)),
        "worst_class_accuracy": min(by_class), "class_accuracy": tuple(by_class), "groups": tuple(groups),
    }  # fmt: skip


def _answers(n_classes: int, starve: int | None) -> dict[str, Any]:
    rates = [0.1 if k == starve else 0.8 for k in range(n_classes)]
    return {
        "queries": 50 * n_classes, "answers": int(sum(50 * rate for rate in rates)), "class_queries": (50,) * n_classes,
        "class_answer_rate": tuple(rates), "class_answers": tuple(int(50 * rate) for rate in rates),
    }  # fmt: skip
