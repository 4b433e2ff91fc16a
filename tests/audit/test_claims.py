"""Claims: the same curve from equivalent inputs, never stronger than the input."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.optimize import linprog
from scipy.special import ndtr, ndtri

from pate.audit import Claim
from pate.exceptions import InvalidInputError
from pate.mechanisms import GNMax, LNMax, NoisyHistogram
from pate.privacy.budget import Budget
from pate.privacy.compose.dpsgd_accountants import from_dp_event
from pate.privacy.convert import gdp_to_epsilon
from pate.privacy.cost import Charge
from pate.privacy.words import Guarantee, Sensitive

RATES = np.concatenate([[0.0], np.geomspace(1e-6, 1, 300)])


def test_a_gaussian_loss_distribution_is_the_gaussian_curve_from_above():
    exact, sampled = Claim.gaussian(2.0), Claim.of(pld.from_gaussian_mechanism(0.5, value_discretization_interval=1e-3))
    gap = sampled.true_positives(RATES) - exact.true_positives(RATES)
    assert sampled.kind == "pld"
    assert exact.kind == "gaussian"
    assert gap.min() >= -1e-12
    assert gap.max() < 1e-4
    assert exact.true_positives(RATES) == pytest.approx(ndtr(ndtri(RATES) + 2.0), abs=1e-14)
    for delta in (1e-3, 1e-5, 3.3e-7):
        assert exact.epsilon(delta) == gdp_to_epsilon(2.0, delta)
        assert exact.epsilon(delta) <= sampled.epsilon(delta) <= exact.epsilon(delta) * 1.001


def test_pairs_allow_what_the_theorem_allows():
    epsilon, delta = 1.0, 1e-3
    claim = Claim.of((epsilon, delta))
    wanted = np.minimum(np.e * RATES + delta, 1 - (1 - delta - RATES) / np.e).clip(max=1)
    assert claim.true_positives(RATES) == pytest.approx(wanted, abs=1e-14)
    assert claim.true_positives([0.0, 1.0]).tolist() == [pytest.approx(delta), 1.0]
    # delta at a smaller epsilon, by the kink of that curve
    kink = (1 - delta) / (1 + np.e)
    assert claim.delta(0.5) == pytest.approx(1 - kink - math.exp(0.5) * kink)
    assert claim.delta(2.0) == delta
    assert claim.epsilon(delta / 2) == math.inf


def test_delta_and_the_curve_are_one_claim():
    """delta(epsilon) is the highest that true positives rise above e^epsilon times the false ones."""
    rates = np.linspace(0, 1, 20_001)
    for claim in (Claim.gaussian(1.5), Claim.of((1.0, 1e-3)), Claim.of(LNMax(20.0).charge(10))):
        for epsilon in (0.1, 0.7, 1.5):
            highest = float((claim.true_positives(rates) - math.exp(epsilon) * rates).max())
            assert highest <= claim.delta(epsilon) + 1e-9
            assert claim.delta(epsilon) == pytest.approx(highest, abs=2e-3)


def test_the_curve_is_what_no_pair_of_laws_can_exceed():
    """A linear program over all pairs of laws on five outcomes reaches the curve of several pairs, and no more."""
    pairs = [(0.3, 0.05), (1.0, 0.001)]
    claim, a = Claim.of(pairs), 0.1
    k = 5
    # Outcomes 0, 1: the attacker says "in". Maximise P(0) + P(1), given Q(0) + Q(1) = a and all events' inequalities.
    rows, bounds = [], []
    for event in range(1, 2**k - 1):
        inside = np.array([event >> j & 1 for j in range(k)], dtype=float)
        for epsilon, delta in pairs:
            rows += [np.r_[inside, -math.exp(epsilon) * inside], np.r_[-math.exp(epsilon) * inside, inside]]
            bounds += [delta, delta]
    equal = [np.r_[np.ones(k), np.zeros(k)], np.r_[np.zeros(k), np.ones(k)], np.r_[np.zeros(k), 1, 1, 0, 0, 0]]
    best = linprog(-np.r_[1, 1, 0, 0, 0, np.zeros(k)], A_ub=rows, b_ub=bounds, A_eq=equal, b_eq=[1, 1, a])
    assert -best.fun == pytest.approx(float(claim.true_positives([a])[0]), abs=1e-7)


def test_charges_promise_all_their_accounts():
    charge = GNMax(40.0).charge(300)
    claim = Claim.of(charge)
    gaussian = Claim.of(NoisyHistogram(40.0).charge(300))
    assert gaussian.kind == "gaussian"
    assert gaussian.mu == pytest.approx(math.sqrt(600) / 40)
    assert claim.epsilon(1e-5) == charge.guarantee(1e-5).epsilon < gaussian.epsilon(1e-5)
    assert (claim.true_positives(RATES) <= gaussian.true_positives(RATES)).all()
    pure = Claim.of(LNMax(20.0).charge(3))
    assert pure.epsilon(0.0) == pytest.approx(0.3)
    assert pure.delta(0.31) == 0.0
    gate = Claim.of(Charge.at_order(0.4, order=8.0, delta0=1e-6))
    assert gate.epsilon(1e-5) == Charge.at_order(0.4, order=8.0, delta0=1e-6).guarantee(1e-5).epsilon
    assert gate.delta(50.0) >= 1e-6


def test_sampled_gaussians_are_composed_by_their_losses():
    step = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0))
    charge = from_dp_event(dp_event.SelfComposedDpEvent(step, 500))
    claim = Claim.of(charge)
    assert claim.mu is None
    assert claim.kind == "pld"
    assert charge.losses is not None
    without = replace(charge, losses=None).guarantee(1e-5).epsilon
    by_losses = charge.losses.epsilon(1e-5, about=without)
    assert charge.guarantee(1e-5).epsilon == by_losses
    assert claim.epsilon(1e-5) == pytest.approx(by_losses, rel=1e-6)
    assert claim.epsilon(1e-5) < 0.95 * without


def test_private_guarantees_stay_private():
    found = Claim.of(Guarantee(epsilon=0.123456, delta=1e-5, kind="data-dependent", method="pld"))
    assert found.sensitive
    assert "123" not in str(found)
    assert "123" not in repr(found)
    assert not Claim.of(Guarantee(epsilon=0.123456, delta=1e-5, kind="public", method="gdp")).sensitive
    with pytest.raises(InvalidInputError, match="both directions"):
        Claim.of(Guarantee(epsilon=1.0, delta=1e-5, kind="public", method="rdp", directions="forward"))


@pytest.mark.parametrize(
    "bad", [1.0, "x", None, [], (1.0,), (1.0, 2.0), (-1.0, 0.1), [(1.0, 0.1), 3], Sensitive(1.0), np.ones(2)]
)
def test_what_is_no_claim_is_refused(bad):
    with pytest.raises(InvalidInputError):
        Claim.of(bad)


def test_claims_are_values():
    claim = Claim.of(Budget(1.0, 1e-5))
    assert claim == Claim.of((1.0, 1e-5))
    assert hash(claim) == hash(copy.deepcopy(claim))
    claim.true_positives([0.1])  # fills its caches
    assert pickle.loads(pickle.dumps(claim)) == claim
    assert Claim.of(claim) is claim
    with pytest.raises(AttributeError):
        claim.mu = 3.0
    for rates in ([1.1], [-0.1], [math.nan]):
        with pytest.raises(InvalidInputError):
            claim.true_positives(rates)
