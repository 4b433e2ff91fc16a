"""The noise of a selection: found from public numbers, fair between candidates, and on the safe side."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dpsgd_steps import by_value
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad

from pate import Budget, Charge, DPSGDClassifier, PATEClassifier
from pate.dpsgd.mechanisms import PoissonSGD, Shape
from pate.estimators.selection._by_dpsgd import DPSGDContestant, _by_loss_distribution
from pate.estimators.selection._contestant import Facts, PATEContestant
from pate.estimators.selection._statement import find_price, worst_of
from pate.exceptions import InvalidInputError
from pate.privacy import select_best
from pate.privacy.compose.repetitions import DISTRIBUTIONS, Repetitions, deltas_of
from pate.privacy.convert import DEFAULT_ORDERS

BUDGET = Budget(1.5, 1e-5)
FACTS = Facts((0, 1), "record", n_units=5000, n_held=1000, budget=BUDGET, X_public=np.zeros((50, 2)))
EPSILONS = [math.log(1 + 1 / (order - 1)) for order in DEFAULT_ORDERS]


def dpsgd(name, **given):
    return DPSGDContestant(name, DPSGDClassifier("linear", budget=BUDGET, **by_value(**given)), FACTS)


@pytest.mark.few(2)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_whole_fits_and_hardly_anything_is_left(distribution):
    contestants = [dpsgd("a", epochs=3, expected_batch_size=400), PATEContestant("b", PATEClassifier(), FACTS)]
    law = Repetitions(distribution, 8.0)
    price = find_price(contestants, law, BUDGET)
    assert 0.98 * BUDGET.epsilon < price.whole.guarantee(1e-5).epsilon <= BUDGET.epsilon
    # No candidate pays much for another one's curve.
    for contestant, noise in zip(contestants, price.noises, strict=True):
        alone = find_price([contestant], law, BUDGET).noises[0]
        assert 0.99 * alone <= noise < 1.1 * alone
    # The score is no dearer than the candidates.
    pairs = list(zip(contestants, price.noises, strict=True))
    without = law.charge(worst_of([c.charge(n) for c, n in pairs]), np.max([c.deltas(n) for c, n in pairs], axis=0))
    assert price.whole.guarantee(1e-5).epsilon == pytest.approx(without.guarantee(1e-5).epsilon, rel=0.06)


def test_more_runs_and_a_smaller_budget_need_more_noise():
    one = [dpsgd("a", epochs=2, expected_batch_size=400)]
    noise = lambda mean, epsilon: find_price(one, Repetitions("geometric", mean), Budget(epsilon, 1e-5)).noises[0]  # noqa: E731
    assert noise(4.0, 1.0) < noise(16.0, 1.0) < noise(16.0, 0.5)


def test_a_noise_that_is_given_is_kept():
    given_, free = dpsgd("a", epochs=1, noise_multiplier=9.0), dpsgd("b", epochs=1)
    price = find_price([given_, free], Repetitions("geometric", 8.0), BUDGET)
    assert "noise multiplier 9" in given_.words(price.noises[0])
    assert given_.settings(price.noises[0])["mechanism"].noise_multiplier == 9.0
    assert price.one.rdp[0] >= given_.charge(1.0).rdp[0]


@pytest.mark.long
@pytest.mark.parametrize(("sigma", "rate"), [(1.0, 0.1), (3.0, 0.5), (0.7, 0.02)])
def test_deltas_of_one_step_are_those_of_the_integral(sigma, rate):
    """The replace-one pair written out: (1-q) N(0) + q N(1) against (1-q) N(0) + q N(-1)."""

    def over(x, epsilon):
        density = [(1 - rate) * stats.norm.pdf(x, 0, sigma) + rate * stats.norm.pdf(x, m, sigma) for m in (1, -1)]
        return max(0.0, density[0] - math.exp(epsilon) * density[1])

    found = _by_loss_distribution(sigma, rate, 1, 1e-4)
    for i in (0, 3, 10, 20):
        true = quad(over, -10 * sigma - 1, 10 * sigma + 1, args=(EPSILONS[i],), limit=400, epsabs=1e-12)[0]
        assert true * (1 - 1e-6) - 1e-9 <= found[i] <= true * 1.02 + 1e-7


def test_loss_distributions_never_prove_more_than_a_curve_contradicts():
    """Of many steps: below what the Renyi curve proves, and not absurdly so."""
    by_curve = deltas_of(PoissonSGD().charge(5.0, Shape(4000, 0.1, 60, 400)))
    found = _by_loss_distribution(5.0, 0.1, 60, 1e-3)
    assert (found <= by_curve).all()
    assert (np.diff(found) >= 0).all()  # larger orders ask for smaller epsilons
    contestant = dpsgd("a", epochs=6, expected_batch_size=400)
    assert (contestant.deltas(5.0) <= found + 1e-12).all()


@settings(max_examples=40)
@given(st.floats(0.02, 2.0), st.floats(1.2, 50.0), st.floats(0.0, 2.0))
def test_deltas_lower_the_price_of_a_poisson_number_and_of_no_other(mu, mean, factor):
    one = Charge(math.inf, tuple(a * mu**2 / 2 for a in DEFAULT_ORDERS))
    known = deltas_of(one)
    plain = select_best(one, mean_runs=mean, shape=math.inf)
    helped = select_best(one, mean_runs=mean, shape=math.inf, deltas=known * factor)
    assert (np.array(helped.rdp) <= plain.rdp).all()
    assert (helped == plain) == (factor >= 1 or (np.array(helped.rdp) == plain.rdp).all())
    geometric = select_best(one, mean_runs=mean, shape=1.0, deltas=known * 0)
    assert geometric == select_best(one, mean_runs=mean, shape=1.0)


@pytest.mark.parametrize("bad", [[0.1], [-1.0] * len(DEFAULT_ORDERS), [math.nan] * len(DEFAULT_ORDERS)])
def test_deltas_of_another_form_are_refused(bad):
    with pytest.raises(InvalidInputError, match="deltas"):
        select_best(Charge.gaussian(sensitivity=1.0, sigma=9.0), mean_runs=5.0, shape=math.inf, deltas=bad)


@given(st.lists(st.floats(0.5, 50.0), min_size=1, max_size=5))
def test_the_worst_of_several_is_below_none(sigmas):
    charges = [Charge.gaussian(sensitivity=1.0, sigma=s) for s in sigmas] + [Charge.laplace(shifts=(1.0,), scale=5.0)]
    worst = worst_of(charges)
    assert all((np.array(worst.rdp) >= c.rdp).all() and worst.mu_squared >= c.mu_squared for c in charges)
    assert all(any(v == c.rdp[i] for c in charges) for i, v in enumerate(worst.rdp))
