"""Faults of accounts: what is drawn is what was meant, and the epsilon that is told is too small."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.special import ndtri
from wall import Mutant
from wall_looks import DELTA, by_law, by_outcomes, by_pair

from pate import Accountant, Charge, GNMax, LNMax
from pate.audit import Claim
from pate.mechanisms._base import all_answered
from pate.noise import real_argmax
from pate.noise.source import NoiseSource
from pate.privacy.attacker import largest_success
from pate.privacy.exact import GaussianNoise, log_probs, pair_law, quadrature
from pate.privacy.words import Guarantee

#: One vote moves a tie: the worst there is.
TIE, TIE_PRIME = [126, 124], [125, 125]
GNMAX = GNMax(sigma=40.0)
ASKED = 300


class SensitivityOne(GNMax):
    """One vote is one vote: but two counts move."""

    def charge(self, n_queries: int, max_answers: int | None = None) -> Charge:
        return Charge.gaussian(sensitivity=1.0, sigma=self.sigma) * n_queries


class OneCount(LNMax):
    def charge(self, n_queries: int, max_answers: int | None = None) -> Charge:
        return Charge.laplace(shifts=(1.0,), scale=self.scale) * n_queries


class Swapped(Accountant):
    """The budget's epsilon arrives where its delta is meant."""

    def guarantee(self, delta: float) -> Any:
        return replace(super().guarantee(0.9), delta=delta)


class ClassIdsAsCounts(GNMax):
    """Labels are added up: a vote for class j counts j times."""

    def sample(self, counts, noise, *, max_answers=None):
        weighted = counts * np.arange(counts.shape[1])
        return all_answered(real_argmax(weighted, scale=self.sigma, source=noise))

    def log_probs(self, counts):
        return GNMAX.log_probs(np.asarray(counts) * np.arange(np.shape(counts)[-1]))


def told(accountant: Accountant) -> Guarantee:
    return accountant.add(GNMAX.charge(ASKED)).guarantee(DELTA)


# ---- quadrature ----

MANY = 1000
NEAR_TIES = [31] + [30] * (MANY - 1)


def guesses(answers: int) -> Claim:
    """The Gaussian release of which a statement would tell the same best guess at even odds."""
    charge = GNMAX.charge(answers)
    right = largest_success(9.0, DELTA, mu=charge.mu_squared**0.5)
    return Claim.gaussian(2 * float(ndtri(right)))


def coarse_law() -> np.ndarray:
    """The law of many classes by steps of one and a half sigma, where nothing checks the error."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(quadrature, "STEP", 1.5))
        stack.enter_context(patch.object(quadrature, "allowance", lambda step: (7.0 * step, 1e9)))
        stack.enter_context(patch.object(pair_law, "SUM_ERROR", 1e9))
        return exact_law()


def exact_law() -> np.ndarray:
    return np.exp(log_probs([NEAR_TIES], noise=GaussianNoise(3.0)))[0]


def _drawn(n: int, source: NoiseSource) -> np.ndarray:
    """Releases of many classes by the honest mechanism."""
    return GNMax(sigma=3.0).sample(np.repeat([NEAR_TIES], n, axis=0), source).labels


MUTANTS = (
    Mutant(
        "sensitivity 1 for sqrt 2, Gaussian noise",
        "accounts that count one changed vote, where two counts change",
        {
            "pair": by_pair(
                lambda: GNMAX.charge(ASKED),
                lambda: SensitivityOne(40.0).charge(ASKED),
                GNMAX,
                TIE,
                TIE_PRIME,
                ASKED,
            )
        },
    ),
    Mutant(
        "sensitivity 1 for 2, Laplace noise",
        "ports of the 2017 paper's noisy maximum",
        {
            "pair": by_pair(
                lambda: LNMax(20.0).charge(1),
                lambda: OneCount(20.0).charge(1),
                LNMax(20.0),
                [30, 0],
                [29, 1],
                1,
            )
        },
    ),
    Mutant(
        "delta in epsilon's place",
        "calls by position",
        {"pair": by_pair(lambda: told(Accountant()), lambda: told(Swapped()), GNMAX, TIE, TIE_PRIME, ASKED)},
    ),
    Mutant(
        "an attacker's guess told for one answer of many",
        "plain words beside an epsilon, worked out by themselves",
        {"pair": by_pair(lambda: guesses(ASKED), lambda: guesses(1), GNMAX, TIE, TIE_PRIME, ASKED)},
    ),
    Mutant(
        "class ids as counts",
        "vote counts made by adding up labels",
        {
            "law": by_law(GNMAX, ClassIdsAsCounts(40.0)),
        },
    ),
    Mutant(
        "quadrature that aliases for many classes",
        "a fixed grid for every number of classes",
        {"law": by_outcomes(_drawn, exact_law, coarse_law, most=4_000)},
    ),
)
