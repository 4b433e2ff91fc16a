"""Costs are money: counted one by one, whatever they are worth and however they are wrapped."""

import math

import dp_accounting as dpa
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pate import Charge
from pate.exceptions import InvalidInputError
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
    assert both.mu_squared == pytest.approx(5 * 4 / 9, rel=1e-15)


def _wrapped(cost, how):
    return [cost, Charge.total([(cost, 1)]), Accountant().add(cost).close(), cost * 1][how]


_PAYMENTS = st.lists(
    st.tuples(st.integers(0, len(COSTS) - 1), st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=7
)


@pytest.mark.long
@settings(max_examples=80)
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


@pytest.mark.parametrize("times", [-2, 0.5, math.nan, True, 10**400])
def test_nothing_is_released_a_negative_or_a_broken_number_of_times(times):
    """Three releases and minus two once cost one."""
    with pytest.raises(InvalidInputError, match="whole number"):
        Charge.total([(LABEL, 3), (LABEL, times)])
    with pytest.raises(InvalidInputError, match="whole number"):
        LABEL * times
    with pytest.raises(InvalidInputError, match="whole number"):
        Accountant().add(LABEL, count=times)
    event = dpa.GaussianDpEvent(2.0)
    again = dpa.SelfComposedDpEvent(event, times)
    with pytest.raises(InvalidInputError, match="whole number"):
        from_dp_event(dpa.ComposedDpEvent([event, event, event, again]))
    with pytest.raises(InvalidInputError, match="whole number"):
        from_dp_event(dpa.PoissonSampledDpEvent(0.1, dpa.ComposedDpEvent([event, event, event, again])))


@pytest.mark.parametrize("nothing", [dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(2.0), 0), dpa.ComposedDpEvent([])])
def test_a_sample_of_which_nothing_is_released_costs_nothing(nothing):
    assert from_dp_event(dpa.PoissonSampledDpEvent(0.1, nothing)) == Charge.zero()


def test_a_charge_is_not_what_it_was_made_from():
    """A list could be emptied after it was paid for; an array could not be compared."""
    orders, rdp = [8.0, 16.0], [0.3, 0.4]
    cost = Charge(math.inf, rdp, orders=orders)
    plan = Accountant().add(cost)
    rdp[:], orders[:] = [0.0, 0.0], [900.0, 901.0]
    assert plan.close() == cost == Charge(math.inf, (0.3, 0.4), orders=(8.0, 16.0))
    assert cost == Charge(math.inf, np.array([0.3, 0.4]), orders=np.array([8, 16]))
    assert hash(cost) == hash(Charge(np.float64("inf"), (v for v in (0.3, 0.4)), orders=range(8, 17, 8)))


def test_small_costs_are_not_lost_beside_large_ones_of_low_precision():
    """One float32 once made floats of 24 bits of every sum."""
    large = Charge(np.float32(1), [np.float32(1)], np.float32(1), [2], np.float32(0.5))
    small = Charge(1e-9, (1e-9,), 1e-9, (2.0,), 1e-9)
    both = large + small
    assert (both.mu_squared, both.pure, both.rdp[0], both.delta0) == (1 + 1e-9, 1 + 1e-9, 1 + 1e-9, 0.5 + 1e-9)
    assert all(type(v) is float for v in (both.mu_squared, both.pure, both.delta0, *both.rdp, *both.orders))


@pytest.mark.parametrize("number", [None, "much", "2", [0.1], 1j, 10**400, math.nan, -0.1])
def test_what_is_no_cost_is_refused(number):
    for make in (
        lambda: Charge(number, (0.1,), orders=(8.0,)),
        lambda: Charge(0.1, (number,), orders=(8.0,)),
        lambda: Charge(0.1, (0.1,), number, (8.0,)),
        lambda: Charge(0.1, (0.1,), orders=(number,)),
        lambda: Charge(0.1, (0.1,), orders=(8.0,), delta0=number),
    ):
        with pytest.raises(InvalidInputError):
            make()


def test_no_subclass_prices_a_charge_otherwise():
    """One with an ``rdp_at`` of its own once paid nothing to a ledger."""
    with pytest.raises(InvalidInputError, match="subclass"):

        class Free(Charge):
            pass


def test_costs_beyond_all_floats_are_infinite_or_refused():
    most = Charge(1e308, (1e308,), 1e308, (2.0,))
    assert Charge.total([(most, 100)]) == most * 100 == Charge(math.inf, (math.inf,), math.inf, (2.0,))
    for make in (
        lambda: Charge.gaussian(sensitivity=1e200, sigma=1.0),
        lambda: Charge.gaussian_argmax(1e160),
        lambda: Charge.threshold_test(1e160),
    ):
        with pytest.raises(InvalidInputError):
            make()
