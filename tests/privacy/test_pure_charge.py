"""Charge.pure_dp: the cost of any mechanism of pure DP, exact where it can be, and never too small."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given
from hypothesis import strategies as st

from pate import Budget, InvalidInputError, Ledger
from pate.privacy import DEFAULT_ORDERS, Charge, pure_to_gdp
from pate.privacy.cost import pure_rdp

EPSILONS = st.floats(1e-6, 30)


def exact_renyi(order: float, epsilon: float) -> Decimal:
    """Of randomised response from itself turned round, in 60 digits."""
    a, e = Decimal(order), Decimal(epsilon).exp()
    p, q = e / (1 + e), 1 / (1 + e)
    return (p**a * q ** (1 - a) + q**a * p ** (1 - a)).ln() / (a - 1)


@pytest.mark.parametrize("epsilon", [1e-7, 1e-3, 0.1, 0.7, 1.0, 5.0, 30.0, 200.0, 700.0])
def test_the_curve_is_that_of_randomised_response(epsilon):
    orders = (1.0001, 1.25, 2.0, 5.5, 33.0, 256.0)
    with localcontext() as context:
        context.prec = 60
        exact = [exact_renyi(a, epsilon) for a in orders]
        over = [Decimal(float(got)) / one - 1 for got, one in zip(pure_rdp(epsilon, orders), exact, strict=True)]
    assert all(-1e-15 < float(one) < 1e-11 for one in over)


def test_golden_figures():
    two = DEFAULT_ORDERS.index(2.0)
    assert Charge.pure_dp(1.0).rdp[two] == pytest.approx(math.log(math.cosh(1.5) / math.cosh(0.5)), rel=1e-11)
    assert Charge.pure_dp(1.0).rdp[two] == pytest.approx(0.735325664, abs=1e-9)
    assert Charge.pure_dp(0.1).mu_squared == pytest.approx(0.12531**2, rel=1e-4)
    assert Charge.pure_dp(0.0).guarantee(1e-9).epsilon == 0.0


@given(EPSILONS)
def test_it_lies_below_the_known_bounds(epsilon):
    """Bun and Steinke 2016, Proposition 3.3, and pure DP itself; not below zero, and rising with the order."""
    curve, orders = np.array(Charge.pure_dp(epsilon).rdp), np.array(DEFAULT_ORDERS)
    assert (curve <= orders * epsilon**2 / 2 * (1 + 1e-11)).all()
    assert (curve <= epsilon).all()
    assert (curve >= 0).all()
    assert (np.diff(curve) >= -1e-11 * epsilon).all()


@given(EPSILONS, st.integers(2, 9), st.integers(0, 10**6))
def test_no_pair_of_pure_laws_is_further_apart(epsilon, n, seed):
    """Any laws P and Q with e^-epsilon <= P/Q <= e^epsilon."""
    rng = np.random.default_rng(seed)
    base = rng.dirichlet(np.ones(n)) + 1e-12
    # Weights are within e^(epsilon/2) of each other, and to norm them moves a ratio by no more than that again.
    p, q = (base * np.exp(rng.random(n) * epsilon / 2) for _ in range(2))
    p, q = p / p.sum(), q / q.sum()
    assert np.abs(np.log(p / q)).max() <= epsilon * (1 + 1e-9) + 1e-12
    for order in (1.5, 2.0, 8.0, 64.0):
        terms = order * np.log(p) + (1 - order) * np.log(q)
        renyi = np.logaddexp.reduce(terms) / (order - 1)
        assert renyi <= pure_rdp(epsilon, [order])[0] + 1e-13 * order


def test_laplace_costs_less_than_any_pure_mechanism_may():
    laplace, pure = Charge.laplace(shifts=(1.0,), scale=4.0), Charge.pure_dp(0.25)
    assert laplace.pure == pure.pure
    assert laplace.mu_squared == pytest.approx(pure.mu_squared)
    assert (np.array(laplace.rdp) <= np.array(pure.rdp) + 1e-12).all()


@pytest.mark.parametrize(("epsilon", "n"), [(0.05, 200), (0.3, 30), (1.0, 5), (2.0, 1)])
def test_what_is_stated_covers_the_exact_composition(epsilon, n):
    """n randomised responses, by binomials (Kairouz, Oh, Viswanath 2015) and by dp_accounting's own."""
    delta = 1e-5
    stated = (Charge.pure_dp(epsilon) * n).guarantee(delta).epsilon
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    heads = np.arange(n + 1)
    binomial = np.array([math.comb(n, int(k)) * p**k * (1 - p) ** (n - k) for k in heads])
    loss = (2 * heads - n) * epsilon
    spent = float((binomial * np.maximum(-np.expm1(stated - loss), 0)).sum())
    assert spent <= delta * (1 + 1e-9)
    theirs = pld.from_randomized_response(2 / (1 + math.exp(epsilon)), 2, value_discretization_interval=1e-4)
    assert theirs.self_compose(n).get_epsilon_for_delta(delta) <= stated + 2e-4 * n
    assert stated <= n * epsilon


def test_beyond_what_is_dominated_by_a_gaussian_the_other_costs_stay():
    far = Charge.pure_dp(800.0)
    assert (far.mu_squared, far.pure, far.rdp[-1]) == (math.inf, 800.0, 800.0)
    assert far.guarantee(1e-5).epsilon == 800.0
    assert Charge.pure_dp(3.0).mu_squared == pure_to_gdp(3.0) ** 2


@pytest.mark.parametrize("wrong", [-0.1, math.nan, math.inf, "1", None])
def test_no_number_is_no_price(wrong):
    with pytest.raises(InvalidInputError, match="epsilon"):
        Charge.pure_dp(wrong)


def test_a_ledger_takes_it(tmp_path):
    ledger = Ledger(tmp_path / "pure.sqlite", total=Budget(1.0, 1e-5))
    ledger.record(Charge.pure_dp(0.1), mechanism="mine", n_queries=0)
    assert 0 < ledger.used_fraction < 0.2
    assert ledger.verify().ok
