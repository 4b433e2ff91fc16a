"""Faults of accounts: what is drawn is what was meant, and the stated epsilon is too small."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.special import ndtri
from wall import Found, Mutant
from wall_looks import DELTA, Scores, by_game, by_law, by_outcomes, by_pair, by_textbook

from pate import Accountant, Charge, ConfidentGNMax, GNMax, LNMax, account
from pate.audit import Claim, pair
from pate.mechanisms._base import all_answered
from pate.privacy.attacker import largest_success
from pate.privacy.exact import GaussianNoise, _pair_law, distinct_histograms, log_probs
from pate.privacy.exact import _quadrature as quadrature
from pate.privacy.noise import real_argmax
from pate.privacy.noise.source import NoiseSource
from pate.privacy.publish import smooth_sensitivity
from pate.privacy.publish.smooth_sensitivity import SmoothSensitivity, release_smooth
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


def guarantee_of(accountant: Accountant) -> Guarantee:
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
        stack.enter_context(patch.object(_pair_law, "SUM_ERROR", 1e9))
        return exact_law()


def exact_law() -> np.ndarray:
    return np.exp(log_probs([NEAR_TIES], noise=GaussianNoise(3.0)))[0]


def _drawn(n: int, source: NoiseSource) -> np.ndarray:
    """Releases of many classes by the honest mechanism."""
    return GNMax(sigma=3.0).sample(np.repeat([NEAR_TIES], n, axis=0), source).labels


# ---- a publishable bound ----

SMOOTH = SmoothSensitivity(order=8.0, beta=0.0125, noise_scale=4.0)
#: One teacher's vote moves, where the weights of a threshold test with next to no noise are beyond floats.
NEIGHBOURS = [[99, 1, 0], [74, 13, 13]], [[99, 1, 0], [75, 13, 12]]


def sanitised(world: int, n: int, source: NoiseSource) -> np.ndarray:
    how = {"order": SMOOTH.order, "beta": SMOOTH.beta, "noise_scale": SMOOTH.noise_scale, "delta": DELTA}
    test = {"threshold": 90.0, "sigma_threshold": 0.18}
    return np.array([release_smooth(NEIGHBOURS[world], 1.0, noise=source, **how, **test).epsilon for _ in range(n)])


def swallowed(world: int, n: int, source: NoiseSource) -> np.ndarray:
    """Infinity less infinity is no number, and ``max`` passes it over."""
    with ExitStack() as stack:
        stack.enter_context(np.errstate(all="ignore"))
        stack.enter_context(patch.object(smooth_sensitivity, "_changes_of", np.diff))
        stack.enter_context(patch.object(smooth_sensitivity, "largest_of", max))
        return sanitised(world, n, source)


PUBLISHED: tuple[tuple[Scores, Any], tuple[Scores, Any]] = (sanitised, SMOOTH.cost), (swallowed, SMOOTH.cost)


# ---- offsets of a threshold test ----

#: The first query passes for certain, the others by the toss of a coin: one sorted histogram, two costs.
FAIR = ConfidentGNMax(threshold=150, sigma_threshold=20, sigma=40, offsets=(-100, 50, 0))
ROLLED = np.array([[200, 30, 20]] + [[30, 200, 20]] * 200)


def cost_of_sorted_counts(counts: Any, margins: Any = None) -> Any:
    """One cost for all queries of one sorted histogram, whichever classes the offsets are of."""
    found = distinct_histograms(counts)
    if margins is None:
        return found
    whole = np.take_along_axis(margins, np.lexsort((-margins, -counts.astype(int)), axis=1), axis=1)
    return replace(found, margins=whole[np.unique(found.inverse, return_index=True)[1]])


def by_claim_at_votes(planted: bool, seed: int) -> Found:
    with patch(
        "pate.privacy.exact._laws.distinct_histograms", cost_of_sorted_counts if planted else distinct_histograms
    ):
        claim = account(ROLLED, FAIR, delta=DELTA, pld=False).data_dependent.reveal()
    moved = ROLLED + np.array([0, -1, 1])
    moved[0] = ROLLED[0]
    found = pair(ROLLED, moved, FAIR, claim=claim, delta=DELTA, published=True)
    return Found(found.refuted, found.n_releases, found.finding)


MUTANTS = (
    Mutant(
        "equal histograms share a cost, whatever their offsets",
        "caches of exact costs by sorted counts",
        {"pair": by_claim_at_votes},
    ),
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
        {
            "pair": by_pair(
                lambda: guarantee_of(Accountant()), lambda: guarantee_of(Swapped()), GNMAX, TIE, TIE_PRIME, ASKED
            )
        },
    ),
    Mutant(
        "an attacker's guess stated for one answer of many",
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
    Mutant(
        "a cost that is no number, passed over by a maximum",
        "bounds that overflow and are then compared",
        {"game": by_game(*PUBLISHED, most=50)},
        tried={"textbook": by_textbook(*PUBLISHED, most=50)},
        blind={"pair": "the number is released beside the answers, which cost what is stated"},
    ),
)
