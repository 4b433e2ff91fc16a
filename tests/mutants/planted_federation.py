"""Faults of runs among sites: whose noise is counted, what is paid when, and noise that is used twice."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from planted_accounting import ASKED, TIE, TIE_PRIME
from scipy.special import ndtr
from wall import Mutant
from wall_looks import by_check, by_law, by_pair

from pate import Budget, Ledger, NoisyHistogram, Votes
from pate.ledger import Registration
from pate.mechanisms import SharedGaussian, SharedGNMax, _shares, rounds_charge
from pate.privacy.noise.source import NoiseSource
from pate.release import ShareSession, open_shares, site_ledger
from pate.release._transaction import PaidShares, Transaction

#: Five sites, of which two put together what they have; 40 votes of noise from the other three.
SUMS = SharedGaussian(40 / 2**0.5, n_sites=5, tolerate=2)
LABELS = SharedGNMax(40.0, n_sites=5, tolerate=2, n_classes=5)


class TotalOfSums(SharedGaussian):
    """All shares together have the noise that is paid for, those of the coalition too."""

    def share_scale(self, delta_squared: int) -> float:
        return super().share_scale(delta_squared) * math.sqrt(self.n_honest / self.n_sites)


class TotalOfLabels(SharedGNMax):
    def share_scale(self, delta_squared: int) -> float:
        return super().share_scale(delta_squared) * math.sqrt(self.n_honest / self.n_sites)


class NobodyColludes(SharedGaussian):
    """Every viewer is charged as one who knows nobody's noise."""

    def unknown_to(self, viewer: str) -> int:
        return self.n_sites


class OneSiteEach(SharedGaussian):
    """A person at three sites is charged as one at one."""

    def charge_of(self, viewer: str, n_cells: int) -> Any:
        return SharedGaussian(self.noise_multiplier, self.n_sites, self.tolerate).charge_of(viewer, n_cells)


#: Three votes a query move: of a person at three sites.
THREE = ([127, 123], [124, 126])


def _at_three(kind: type[SharedGaussian]) -> Any:
    return kind(40 / 2**0.5, 5, 2, max_sites_per_person=3).charge(2) * ASKED


# ---- noise on a lattice ----

#: So coarse a lattice that it shows: the honest sum has eight steps.
STEPS = 8.0


class NoMoreThanPaid(SharedGaussian):
    """A lattice's noise has the variance of the Gaussian noise that is paid for, and nothing for rounding."""

    def share_scale(self, delta_squared: int) -> float:
        return self.noise_multiplier * math.sqrt(delta_squared / self.n_honest)


def _kinks(kind: type[SharedGaussian]) -> str:
    """Brute force: the hockey-stick of one share of eight steps, one count moved, against what is paid."""
    with (
        patch.object(_shares, "LEAST_STEPS", STEPS),
        patch.object(_shares, "DELTA_OF_CELL", 1 / (128 * STEPS**4)),
    ):
        mechanism = kind(STEPS, n_sites=3, tolerate=2)
        paid, scale = mechanism.charge(1), mechanism.share_scale(1) * mechanism.lattice(1)
    k = np.arange(-320, 321)
    law = np.exp(-(k**2) / (2 * scale**2))
    law /= law.sum()
    mu = math.sqrt(paid.mu_squared)
    for epsilon in np.linspace(0, 6 * mu, 600):
        exact = np.maximum(law[1:] - np.exp(epsilon) * law[:-1], 0).sum()
        allowed = ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu) + paid.delta0
        if exact > allowed * (1 + 1e-9):
            return f"delta at epsilon {epsilon:.3g} is {exact:.4g}, and {allowed:.4g} was paid for"
    return ""


# ---- charge and draw ----

VOTES = Votes.from_counts([[8, 2], [5, 5]])


def _opened(ledger: Ledger, request: str = "plan 1") -> Any:
    return open_shares(
        [SUMS], data=Registration.of_votes(VOTES), budget=Budget(2.0, 1e-5), ledger=ledger, request=request, n_cells=4
    )


def _charged_first(ledger: Ledger) -> None:
    _opened(ledger).share(VOTES)


def _charged_afterwards(ledger: Ledger) -> None:
    """The share is on its way before the ledger's file is written."""

    def draws(self: Transaction, rounds: Any, facts: Any, *, n_cells: int, request: str) -> PaidShares:
        paid = PaidShares(rounds, NoiseSource(), self.terms.ledger, None, n_cells)
        paid.draw(VOTES.counts, 2)
        self._pay(rounds_charge(rounds, n_cells), lambda: None, mechanism="", n_queries=1, facts=lambda _: {})
        return paid

    with patch.object(Transaction, "shares", draws):
        _opened(ledger)


def _dies_while_drawing(run: Callable[[Ledger], None]) -> str:
    """The machine stops in the middle of a draw: is the site charged then?"""
    with tempfile.TemporaryDirectory() as folder:
        ledger = site_ledger(Path(folder) / "site.sqlite", Budget(3.0, 1e-5))
        with patch.object(SharedGaussian, "sample", side_effect=KeyboardInterrupt), suppress(KeyboardInterrupt):
            run(ledger)
        return "" if Ledger(ledger.path).releases() else "a share was drawn, and no ledger knows of it"


# ---- a retry ----


def _fresh(ledger: Ledger) -> list[list[int]]:
    return [_opened(ledger, f"try {n}").share(VOTES) for n in (1, 2)]


def _kept_for_the_retry(ledger: Ledger) -> list[list[int]]:
    """A site keeps its share for the retry, so as not to pay noise twice."""
    masked = _opened(ledger, "try 1").share(VOTES)
    return [masked, masked]


def _same_noise(run: Callable[[Ledger], list[list[int]]]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        one, other = run(site_ledger(Path(folder) / "site.sqlite", Budget(3.0, 1e-5)))
    return "both tries have the same noise: with one site less, the difference is its votes" if one == other else ""


# ---- votes on many rows in one round ----

MANY = Votes.from_counts([[8, 2]] * 300)


def _spread(n_queries: int) -> float:
    """The noise in one site's share of counts, where it is made for votes on so many rows."""
    session = open_shares(
        [SUMS], data=Registration.of_votes(MANY), budget=Budget(2.0, 1e-5), ledger=None, request="plan", n_cells=600,
        without_ledger=True,
    )  # fmt: skip
    as_many = nullcontext()
    if n_queries != len(MANY.counts):
        as_many = patch.object(ShareSession, "_checked", lambda self, votes: (votes.counts, 2 * n_queries))
    with as_many:
        share = session.share(MANY)
    return float(np.std(np.array(share) / SUMS.lattice(2 * n_queries) - MANY.counts.ravel()))


def _too_little(spread: float) -> str:
    """One unit moves two counts of every row, and the round is charged once: noise multiplier over all of that."""
    wanted = SUMS.noise_multiplier * math.sqrt(2 * len(MANY.counts) / SUMS.n_honest)
    return "" if spread > 0.8 * wanted else f"the noise is {spread / wanted:.2g} of what one charge for all rows needs"


FORMULAS = "secure aggregation with noise of variance sigma^2 / k at each of k sites"

MUTANTS = (
    Mutant(
        "noise of all sites counted, in opened sums",
        FORMULAS,
        {"law": by_law(SUMS, TotalOfSums(40 / 2**0.5, 5, 2), most=2_000, n_classes=5)},
    ),
    Mutant(
        "noise of all sites counted, in labels",
        FORMULAS,
        {"law": by_law(LABELS, TotalOfLabels(40.0, 5, 2, 5), most=5_000, n_classes=5)},
    ),
    Mutant(
        "a coalition charged as an outsider",
        "papers that state the central epsilon for everybody",
        {
            "pair": by_pair(
                lambda: SUMS.charge(2) * ASKED,
                lambda: NobodyColludes(40 / 2**0.5, 5, 2).charge(2) * ASKED,
                NoisyHistogram(40.0),
                TIE,
                TIE_PRIME,
                ASKED,
            )
        },
    ),
    Mutant(
        "a person at three sites charged as at one",
        "federations of hospitals that share patients",
        {
            "pair": by_pair(
                lambda: _at_three(SharedGaussian),
                lambda: _at_three(OneSiteEach),
                NoisyHistogram(40.0),
                *THREE,
                ASKED,
                max_moved=3,
            )
        },
    ),
    Mutant(
        "a lattice's noise charged as Gaussian",
        "discrete Gaussians with the epsilon of continuous ones",
        {"check": by_check(lambda: SharedGaussian, lambda: NoMoreThanPaid, _kinks)},
    ),
    Mutant(
        "a share drawn before it is charged",
        "clients that report their privacy loss when the round has ended",
        {"check": by_check(lambda: _charged_first, lambda: _charged_afterwards, _dies_while_drawing)},
    ),
    Mutant(
        "votes on all rows noised as those on one",
        "noise per query where the whole matrix is charged as one release",
        {"check": by_check(lambda: _spread(300), lambda: _spread(1), _too_little)},
    ),
    Mutant(
        "a retry with the noise of the first try",
        "drop-out recovery that asks the others again for what they sent",
        {"check": by_check(lambda: _fresh, lambda: _kept_for_the_retry, _same_noise)},
    ),
)
