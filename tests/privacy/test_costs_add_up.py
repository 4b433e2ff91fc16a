"""Costs are money: counted one by one, whatever they are worth and however they are wrapped."""

import math

import dp_accounting as dpa
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pate import Charge
from pate.privacy import DEFAULT_ORDERS, Accountant, from_dp_event, rdp_to_epsilon
from pate.privacy.publish.gate import PTRGate

LABEL = Charge.gaussian_argmax(40.0)
COUNTS = Charge.gaussian(sensitivity=2**0.5, sigma=40.0)
LAPLACE = Charge.laplace(shifts=(1.0, 1.0), scale=30.0)
TEST = Charge.threshold_test(150.0)
GATE = PTRGate(sigma=40, order=9.0, tau=0.5, width=4, delta=1e-5, delta0=1e-6).charge
ONE_ORDER = Charge.at_order(0.2, order=8.0, delta0=2e-6)
EVENT = from_dp_event(dpa.GaussianDpEvent(20.0))
COSTS = [LABEL, COUNTS, LAPLACE, TEST, GATE, ONE_ORDER, EVENT]


def values(cost):
    """What a cost is worth, read off its parts by hand: at two orders, mu^2, pure, delta0."""
    return np.array([*cost.rdp_at([4.0, 8.0]), cost.mu_squared, cost.pure, cost.delta0])


@pytest.mark.parametrize("cost", COSTS)
def test_a_cost_beside_its_equal_costs_twice(cost):
    """``one + one`` once cost half: two equal payments were one key of a dictionary."""
    twice = cost + cost
    assert values(twice) == pytest.approx(2 * values(cost), rel=1e-12)
    assert twice == cost * 2 == Accountant().add(cost).add(cost).close() == Charge.total([(cost, 1), (cost, 1)])


def test_the_epsilon_of_two_equal_releases_is_that_of_both():
    one = LABEL * 300
    twice = (one + one).guarantee(1e-5).epsilon
    assert twice == (LABEL * 600).guarantee(1e-5).epsilon
    by_hand = rdp_to_epsilon([2 * v for v in one.rdp], 1e-5)[0]
    assert twice == pytest.approx(by_hand, rel=1e-12)
    assert twice > 3.1


def test_a_gate_beside_an_equal_cost_is_paid_for_too():
    same = Charge(math.inf, GATE.rdp, orders=GATE.orders, delta0=GATE.delta0)
    assert (same + GATE).delta0 == 2 * GATE.delta0
    assert (same + GATE).rdp_at([9.0])[0] == 2 * GATE.rdp_at([9.0])[0]


def test_equal_parts_of_an_event_are_all_read():
    part = dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(3.0), 2)
    both = from_dp_event(dpa.ComposedDpEvent([part, part, dpa.GaussianDpEvent(3.0)]))
    assert both.mu_squared == pytest.approx(5 / 9, rel=1e-15)


def _wrapped(cost, how):
    return [cost, Charge.total([(cost, 1)]), Accountant().add(cost).close(), cost * 1][how]


_PAYMENTS = st.lists(
    st.tuples(st.integers(0, len(COSTS) - 1), st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=7
)


@settings(max_examples=80, deadline=None)
@given(payments=_PAYMENTS, order=st.randoms(use_true_random=False), cut=st.integers(0, 7))
def test_the_value_of_any_sum_is_the_sum_of_the_values(payments, order, cut):
    """In any order, wrapped in any way, with + or in a plan, in one go or in two."""
    with np.errstate(invalid="ignore"):
        expected = sum(np.where(n == 0, 0.0, n * values(COSTS[i])) for i, _, n in payments)
    mixed = list(payments)
    order.shuffle(mixed)

    plan, first, second = Accountant(), Charge.zero(), Charge.zero()
    for place, (i, how, n) in enumerate(mixed):
        plan.add(_wrapped(COSTS[i], how), count=n)
        if place < cut:
            first = first + _wrapped(COSTS[i], how) * n
        else:
            for _ in range(n):
                second = second + _wrapped(COSTS[i], how)
    for total in (plan.close(), first + second, second + first):
        assert values(total) == pytest.approx(expected, rel=1e-12)


def test_an_order_that_only_some_parts_know_is_unknown_in_the_sum():
    total = LABEL + ONE_ORDER
    assert math.isinf(total.rdp_at([10.0])[0])
    assert total.mu_squared == math.inf
    assert set(total.orders) == set(DEFAULT_ORDERS)
