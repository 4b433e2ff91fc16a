"""One composition for everything: the accountant, filters, dp_accounting's events, private selection."""

import math
from dataclasses import replace

import dp_accounting as dpa
import mpmath
import numpy as np
import pytest
from dp_accounting import pld
from dp_accounting import rdp as dpa_rdp
from dp_event_oracle import dominating_event, mechanism_event, per_value
from hypothesis import given, settings
from hypothesis import strategies as st

from pate import (
    Budget,
    BudgetExceededError,
    Charge,
    ConfidentGNMax,
    GNMax,
    InvalidInputError,
    Ledger,
    LNMax,
    NoisyHistogram,
    Sensitive,
    VoteCap,
)
from pate.privacy import (
    DEFAULT_ORDERS,
    Accountant,
    GDPFilter,
    RenyiFilter,
    from_dp_event,
    gdp_to_epsilon,
    select_best,
)
from pate.privacy.compose.dpsgd_accountants import sampled_gaussian_rdp
from pate.privacy.compose.repetitions import _gamma
from pate.privacy.noise.source import NoiseSource
from pate.privacy.publish.gate import PTRGate

LABEL = Charge.gaussian_argmax(40.0)
HISTOGRAM = Charge.gaussian(sensitivity=2**0.5, sigma=40.0)
LAPLACE = Charge.laplace(shifts=(1.0, 1.0), scale=30.0)
TEST = Charge.threshold_test(150.0)
GATE = Charge.at_order(0.3 + 8 / 32, order=8.0, delta0=1e-6)
CHARGES = [LABEL, HISTOGRAM, LAPLACE, TEST]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from([*CHARGES, GATE]), st.integers(0, 400)), max_size=6))
def test_n_charges_equal_one_charge_times_n_and_order_does_not_matter(steps):
    at_once, one_by_one = Accountant(), Accountant()
    for cost, n in steps:
        at_once.add(cost, count=n)
    for cost, n in reversed(steps):
        for _ in range(n % 7):
            one_by_one.add(cost)
        one_by_one.add(cost, count=n - n % 7)
    assert at_once.close() == one_by_one.close()


@pytest.mark.parametrize("cost", [*CHARGES, GATE])
def test_a_plan_of_one_kind_is_the_charge_times_n(cost):
    whole = cost * 321
    assert Accountant().add(cost, count=321).close() == whole
    if not cost.delta0:
        assert Accountant().add(cost, count=321).guarantee(1e-5) == whole.guarantee(1e-5)


def test_different_mechanisms_compose_to_the_sum():
    plan = Accountant()
    for n, cost in enumerate([*CHARGES, GATE], start=1):
        plan.add(cost, count=n)
    total = plan.close()
    assert total.delta0 == pytest.approx(5e-6, rel=1e-12)
    assert total.mu_squared == math.inf  # the gate is known by one Renyi order alone
    for order in (2.0, 8.0):
        expected = sum(n * c.rdp[DEFAULT_ORDERS.index(order)] for n, c in enumerate(CHARGES, start=1)) + 5 * GATE.rdp[0]
        assert total.rdp_at([order])[0] == pytest.approx(expected, rel=1e-12)
    assert total.rdp_at([10.0])[0] == math.inf
    # By hand: order 8 or below, converted at delta less the gates' failures.
    rho, left = total.rdp_at([8.0])[0], 1e-5 - 5e-6
    by_hand = rho + math.log1p(-1 / 8) - (math.log(left) + math.log(8)) / 7
    assert total.guarantee(1e-5).epsilon == pytest.approx(by_hand, rel=1e-9)


def test_a_gate_composes_by_its_curve_and_its_failure_probability():
    gate = PTRGate(sigma=40, order=9.0, tau=0.5, width=4, delta=1e-5, delta0=1e-6)
    assert Accountant().add(gate.charge).guarantee(1e-5).epsilon == pytest.approx(gate.guarantee.epsilon, rel=1e-8)
    total = Accountant().add(gate.charge).add(LABEL, count=100).close()
    assert total.delta0 == 1e-6
    assert total.rdp_at([9.0])[0] == pytest.approx(gate.rdp([9.0])[0] + (LABEL * 100).rdp_at([9.0])[0])
    stop = RenyiFilter(Budget(3.0, 1e-5), 8.0, gate_delta=1e-6)
    stop.spend(gate.charge)
    assert stop.used_fraction * stop.limit == pytest.approx(gate.rdp([8.0])[0])
    gate.test([[240, 10]] * 3, NoiseSource(0))
    with pytest.raises(InvalidInputError, match="seed"):
        Accountant().add(gate.charge)


def test_failures_of_gates_must_leave_room_in_delta():
    with pytest.raises(InvalidInputError, match="delta must be above"):
        (GATE * 10).guarantee(1e-5)


def test_a_charge_does_not_swallow_a_failure_probability():
    risky = Charge(LABEL.mu_squared, LABEL.rdp, delta0=1e-6)
    for total in (LABEL + risky, risky + LABEL, risky + risky):
        assert total.delta0 >= 1e-6


def test_bounds_between_orders_are_bounds():
    """(alpha - 1) D is convex: the chord lies above the true curve, here known in closed form."""
    cost = LAPLACE
    between = np.linspace(1.01, 255, 400)
    from pate.privacy.cost import laplace_rdp

    assert (cost.rdp_at(between) >= 2 * laplace_rdp(1.0, 30.0, between) * (1 - 1e-9)).all()
    assert cost.rdp_at([257.0])[0] == math.inf


# ---- nothing but public constants, and no odometer -------------------------------------------------------------------


@pytest.mark.parametrize(
    "charge", [Accountant().add, GDPFilter(Budget(1, 1e-5)).spend, RenyiFilter(Budget(1, 1e-5), 20).spend]
)
@pytest.mark.parametrize(
    "cost", [0.1, Sensitive(LABEL, "data-dependent cost"), LABEL.guarantee(1e-5), GNMax(sigma=40.0), np.zeros(32)]
)
def test_data_dependent_costs_and_bare_numbers_do_not_get_in(charge, cost):
    with pytest.raises(InvalidInputError, match="a cost must be"):
        charge(cost)


def test_reading_an_epsilon_closes_the_plan():
    for read in (lambda p: p.guarantee(1e-5), lambda p: p.close()):
        plan = Accountant().add(LABEL)
        read(plan)
        with pytest.raises(InvalidInputError, match="closed its plan"):
            plan.add(LABEL)


@pytest.mark.parametrize("stop", [GDPFilter(Budget(1.0, 1e-5)), RenyiFilter(Budget(1.0, 1e-5), 20.0)])
def test_no_odometer_reading_is_reachable_from_a_filter(stop):
    before = stop.guarantee
    stop.spend(LABEL * 10)
    assert stop.guarantee == before
    assert (stop.guarantee.epsilon, stop.guarantee.delta) == (1.0, 1e-5)
    public = {name for name in dir(stop) if not name.startswith("_")}
    assert public == {"admits", "budget", "gate_delta", "guarantee", "limit", "replay", "spend", "used_fraction"} | (
        {"order"} if isinstance(stop, RenyiFilter) else set()
    )
    for fixed in ("order", "limit", "guarantee") if isinstance(stop, RenyiFilter) else ("limit", "guarantee"):
        with pytest.raises(AttributeError):
            setattr(stop, fixed, 5.0)


# ---- the filters' guarantee ------------------------------------------------------------------------------------------


def adversary(stop, seed):
    """Whatever the answers were, choose the next mechanism by them; return everything that was released."""
    rng, spent = np.random.default_rng(seed), []
    for _ in range(3000):
        scale = float(rng.choice([5.0, 20.0, 40.0, 150.0]))
        cost = [
            Charge.gaussian_argmax(scale),
            Charge.laplace(shifts=(1, 1), scale=scale),
            Charge.threshold_test(scale),
        ][int(rng.integers(3))]
        try:
            stop.spend(cost)
        except BudgetExceededError:
            continue
        spent.append(cost)
    return spent


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_on_every_transcript_the_filters_scalar_stays_within_the_budget(seed):
    budget = Budget(1.0, 1e-5)
    spent = adversary(GDPFilter(budget), seed)
    mu_squared = math.fsum(c.mu_squared for c in spent)
    assert 0.99 * budget.mu_squared < mu_squared <= budget.mu_squared
    assert gdp_to_epsilon(math.sqrt(mu_squared), 1e-5) <= 1.0

    order = 20.0
    spent = adversary(RenyiFilter(budget, order), seed)
    rho = math.fsum(c.rdp[DEFAULT_ORDERS.index(order)] for c in spent)
    epsilon = rho + math.log1p(-1 / order) - (math.log(1e-5) + math.log(order)) / (order - 1)
    assert 0.97 < epsilon <= 1.0


def test_minimising_over_orders_after_the_fact_would_promise_less_than_was_spent():
    """Why the order is frozen: a run may stop where the best order says less than the filter's constant."""
    stop = RenyiFilter(Budget(1.0, 1e-5), 8.0 * 4)
    while stop.admits(LABEL):
        stop.spend(LABEL)
    n = round(stop.used_fraction * stop.limit / LABEL.rdp[DEFAULT_ORDERS.index(32.0)])
    assert (LABEL * n).guarantee(1e-5).epsilon < 0.95  # the odometer
    assert stop.guarantee.epsilon == 1.0  # what may be said


def test_a_refused_cost_spends_nothing():
    stop = GDPFilter(Budget(1.0, 1e-5))
    stop.spend(LABEL * 50)
    used = stop.used_fraction
    with pytest.raises(BudgetExceededError, match="nothing was spent"):
        stop.spend(LABEL * 50)
    assert stop.used_fraction == used
    assert stop.admits(LABEL * 7)
    assert not stop.admits(LABEL * 8)


def test_filters_admit_gates_only_from_a_share_of_delta_set_aside():
    budget = Budget(3.0, 1e-5)
    assert not RenyiFilter(budget, 8.0).admits(GATE)
    stop = RenyiFilter(budget, 8.0, gate_delta=2e-6)
    assert stop.limit < RenyiFilter(budget, 8.0).limit
    stop.spend(GATE)
    stop.spend(GATE)
    assert not stop.admits(GATE)  # the third failure probability does not fit, though its Renyi cost would
    assert stop.admits(Charge.at_order(GATE.rdp[0] / 10, order=8.0))
    assert not RenyiFilter(budget, 9.0, gate_delta=2e-6).admits(GATE)  # its cost at 9 is unknown
    assert not GDPFilter(budget, gate_delta=2e-6).admits(GATE)
    assert GDPFilter(budget, gate_delta=2e-6).limit < GDPFilter(budget).limit


def test_an_order_at_which_the_conversion_costs_all_is_refused():
    with pytest.raises(InvalidInputError, match="order must be larger"):
        RenyiFilter(Budget(1.0, 1e-5), 5.0)


def test_the_ledger_and_the_filter_stop_alike_and_a_replay_gives_the_live_value(tmp_path):
    budget = Budget(1.0, 1e-5)
    ledger, stop = Ledger(tmp_path / "ledger.sqlite", total=budget), GDPFilter(budget)
    rng = np.random.default_rng(1)
    for _ in range(40):
        cost = CHARGES[int(rng.integers(len(CHARGES)))] * int(rng.integers(1, 12))
        assert ledger.allows(cost) == stop.admits(cost)
        if stop.admits(cost):
            stop.spend(cost)
            ledger.record(cost, mechanism="any", n_queries=1)
    assert ledger.used_fraction == stop.used_fraction > 0.9
    again = GDPFilter(budget)
    again.replay(row.charge for row in ledger.releases())
    assert again.used_fraction == ledger.spent / budget.mu_squared == stop.used_fraction


# ---- dp_accounting ---------------------------------------------------------------------------------------------------


def epsilon_of(event, orders=DEFAULT_ORDERS):
    return dpa_rdp.RdpAccountant(orders).compose(event).get_epsilon(1e-5)


@pytest.mark.parametrize(
    ("mechanism", "n", "cap"),
    [
        (NoisyHistogram(sigma=40.0), 300, None),
        (GNMax(sigma=40.0), 300, None),
        (LNMax(scale=30.0), 200, None),
        (ConfidentGNMax(threshold=200, sigma_threshold=150, sigma=40), 640, 200),
        (VoteCap(max_votes=50, sigma=30.0), None, None),
    ],
)
def test_a_mechanisms_event_costs_what_it_costs(mechanism, n, cap):
    event = mechanism_event(mechanism, n, cap)
    charge = mechanism.charge(n, cap)
    back = from_dp_event(per_value(event))
    assert back.mu_squared == pytest.approx(charge.mu_squared, rel=1e-12)
    assert (np.array(back.rdp) >= np.array(charge.rdp) * (1 - 1e-9)).all()
    # dp_accounting's own conversion is not exactly ours, its divergences are.
    theirs = dpa_rdp.RdpAccountant(DEFAULT_ORDERS).compose(event).rdp
    assert back.rdp == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("charge", [LABEL * 3, HISTOGRAM * 10, LAPLACE * 7, TEST])
def test_the_event_of_a_charge_dominates_it(charge):
    event = dominating_event(charge)
    assert (2 / event.noise_multiplier) ** 2 >= charge.mu_squared
    assert (np.array(from_dp_event(event).rdp) >= np.array(charge.rdp) * (1 - 1e-12)).all()
    exact = pld.PLDAccountant(dpa.NeighboringRelation.REPLACE_ONE).compose(event).get_epsilon(1e-5)
    assert exact >= charge.guarantee(1e-5).epsilon * (1 - 1e-4)


def test_nothing_costs_nothing_and_what_has_no_cost_says_so():
    assert from_dp_event(dpa.NoOpDpEvent()).guarantee(1e-5).epsilon == 0
    for event in (dpa.NonPrivateDpEvent(), dpa.PoissonSampledDpEvent(0.1, dpa.LaplaceDpEvent(1.0)), "event"):
        with pytest.raises(InvalidInputError):
            from_dp_event(event)


def test_events_nest():
    gauss, laplace = dpa.GaussianDpEvent(3.0), dpa.LaplaceDpEvent(9.0)
    event = dpa.ComposedDpEvent([dpa.SelfComposedDpEvent(dpa.ComposedDpEvent([gauss, laplace, gauss]), 4), gauss])
    cost = from_dp_event(per_value(event))
    assert cost.mu_squared == pytest.approx(9 / 9 + 4 * from_dp_event(per_value(laplace)).mu_squared)
    assert cost.rdp == pytest.approx(dpa_rdp.RdpAccountant(DEFAULT_ORDERS).compose(event).rdp, rel=1e-9)
    plan = Accountant().add(from_dp_event(gauss), count=5).add(from_dp_event(laplace))
    assert plan.close() == from_dp_event(dpa.ComposedDpEvent([dpa.SelfComposedDpEvent(gauss, 5), laplace]))


RELATIONS = dpa.NeighboringRelation
TRUNCATED = dpa.dp_event.TruncatedSubsampledGaussianDpEvent(500, 0.02, 30, 2.0)
EVENTS = {
    "gaussian": dpa.GaussianDpEvent(3.0),
    "gaussians": dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(2.0), 8),
    "all sampled": dpa.PoissonSampledDpEvent(1.0, dpa.GaussianDpEvent(3.0)),
    "nearly all sampled": dpa.PoissonSampledDpEvent(0.9999, dpa.GaussianDpEvent(3.0)),
    "sampled": dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.05, dpa.GaussianDpEvent(1.0)), 20),
    "truncated": dpa.SelfComposedDpEvent(TRUNCATED, 50),
    "mixed": dpa.ComposedDpEvent([dpa.GaussianDpEvent(4.0), dpa.PoissonSampledDpEvent(0.1, dpa.GaussianDpEvent(2.0))]),
}


@pytest.mark.long
@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_an_events_epsilon_is_that_of_a_replaced_record_and_so_above_that_of_one_record_more(event):
    """A multiplier is noise over the norm of one value; read as noise over a distance it gave half of epsilon."""
    epsilon = from_dp_event(event).guarantee(1e-5).epsilon
    relations = (RELATIONS.REPLACE_ONE, RELATIONS.ADD_OR_REMOVE_ONE)
    replaced, added = (pld.PLDAccountant(relation).compose(event).get_epsilon(1e-5) for relation in relations)
    assert epsilon == pytest.approx(replaced, rel=0.01)
    assert epsilon > 1.15 * added


@pytest.mark.parametrize("multiplier", [0.5, 2.0, 9.0])
def test_a_laplace_event_is_a_shift_of_two(multiplier):
    """dp_accounting has no replace-one Laplace; two opposite values are one value of twice the norm."""
    event, twice = dpa.LaplaceDpEvent(multiplier), dpa.LaplaceDpEvent(multiplier / 2)
    for n in (1, 12):
        cost = from_dp_event(dpa.SelfComposedDpEvent(event, n))
        theirs = pld.PLDAccountant().compose(twice, n).get_epsilon(1e-5)
        assert cost.guarantee(1e-5).epsilon >= theirs * (1 - 1e-9)
        assert cost.pure == pytest.approx(n * 2 / multiplier)
        assert cost.rdp == pytest.approx(dpa_rdp.RdpAccountant(DEFAULT_ORDERS).compose(twice, n).rdp, rel=1e-9)


def test_the_whole_l1_distance_in_one_coordinate_costs_most():
    for parts in ((1.0, 1.0), (0.5, 1.5), (0.2,) * 10):
        together = np.array(Charge.laplace(shifts=(2.0,), scale=3.0).rdp)
        assert (np.array(Charge.laplace(shifts=parts, scale=3.0).rdp) <= together * (1 + 1e-12)).all()


def test_a_charge_uses_the_pairs_that_it_carries():
    step = from_dp_event(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(1.0)))
    alone, without = step.guarantee(1e-5), replace(step, losses=None).guarantee(1e-5)
    assert alone.method == "pld"
    assert alone.epsilon < 0.7 * without.epsilon
    for parts in ([step, LABEL], [step * 3, GATE], [step * 2, TEST * 5]):  # mixed charges: as an accountant has them
        whole, plan = sum(parts[1:], parts[0]), Accountant()
        for part in parts:
            plan.add(part)
        assert whole.guarantee(1e-5) == plan.guarantee(1e-5)
        assert whole.guarantee(1e-5).epsilon <= replace(whole, losses=None).guarantee(1e-5).epsilon


def mp_replace_rdp(q, s, a):
    mpmath.mp.dps = 25
    q, s, a = mpmath.mpf(q), mpmath.mpf(s), mpmath.mpf(a)
    p = lambda x: (1 - q) * mpmath.npdf(x, 0, s) + q * mpmath.npdf(x, 1, s)  # noqa: E731
    r = lambda x: (1 - q) * mpmath.npdf(x, 0, s) + q * mpmath.npdf(x, -1, s)  # noqa: E731
    nodes = [-1 - 14 * s + k * (2 * a + 28 * s + 1) / 12 for k in range(13)]
    moment = mpmath.quad(lambda x: p(x) ** a * r(x) ** (1 - a), nodes)
    return float(mpmath.log(moment) / (a - 1))


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("q", "s", "order"), [(0.01, 1.0, 2.0), (0.01, 1.0, 32.0), (0.25, 2.5, 8.0), (1e-5, 4.0, 5.0), (0.1, 0.3, 3.0)]
)
def test_dpsgd_under_replace_one_against_high_precision(q, s, order):
    value = sampled_gaussian_rdp(q, s, [order])[0]
    exact = mp_replace_rdp(q, s, order)
    assert exact <= value <= exact * (1 + 3e-7)


def test_dpsgd_without_sampling_is_a_gaussian_of_distance_two_and_lies_above_add_or_remove():
    assert sampled_gaussian_rdp(1.0, 2.0) == pytest.approx([4 * a / 8 for a in DEFAULT_ORDERS], rel=1e-6)
    step = dpa.PoissonSampledDpEvent(0.02, dpa.GaussianDpEvent(1.2))
    theirs = dpa_rdp.RdpAccountant(DEFAULT_ORDERS).compose(step).rdp
    assert (np.array(from_dp_event(step).rdp) > theirs).all()


@pytest.mark.parametrize(("q", "s", "steps"), [(0.01, 1.0, 1000), (0.256, 2.5, 80)])
def test_a_dpsgd_run_is_bounded_by_and_close_to_its_privacy_loss_distribution(q, s, steps):
    event = dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(q, dpa.GaussianDpEvent(s)), steps)
    exact = pld.PLDAccountant(dpa.NeighboringRelation.REPLACE_ONE, value_discretization_interval=1e-3)
    epsilon = exact.compose(event).get_epsilon(1e-5)
    assert epsilon <= Accountant().add(from_dp_event(event)).guarantee(1e-5).epsilon <= 1.12 * epsilon


def test_labels_a_gate_dpsgd_and_selection_in_one_plan():
    run = from_dp_event(dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(2.0)), 500))
    plan = Accountant().add(LABEL, what="labels", count=50).add(GATE, what="gate").add(run, what="DP-SGD")
    plan.add(select_best(HISTOGRAM, mean_runs=5), what="tuning")
    epsilon = plan.guarantee(1e-5).epsilon
    parts = [LABEL * 50, GATE, run, select_best(HISTOGRAM, mean_runs=5)]
    apart = [p.guarantee(1e-5).epsilon for p in parts]
    assert max(apart) < epsilon < sum(apart)
    assert repr(plan) == "Accountant(50 x labels, 1 x gate, 1 x DP-SGD, 1 x tuning)"


# ---- private selection -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("mean", [1.5, 20.0])
def test_selection_agrees_with_dp_accounting(shape, mean):
    event, per_value = (dpa.dp_event.RepeatAndSelectDpEvent(dpa.GaussianDpEvent(s), mean, shape) for s in (10.0, 20.0))
    theirs = dpa_rdp.RdpAccountant(DEFAULT_ORDERS).compose(event).rdp
    assert from_dp_event(per_value).rdp == pytest.approx(theirs, rel=1e-6)


def test_poisson_selection_agrees_with_dp_accounting():
    """By its Renyi curve alone a Gaussian costs what they say; its mu proves smaller deltas, and so less."""
    event, per_value = (dpa.dp_event.RepeatAndSelectDpEvent(dpa.GaussianDpEvent(s), 20.0, math.inf) for s in (10, 20))
    curve_alone = replace(from_dp_event(per_value.event), mu_squared=math.inf)
    ours = select_best(curve_alone, mean_runs=20.0, shape=math.inf)
    assert ours.guarantee(1e-5).epsilon == pytest.approx(epsilon_of(event), rel=1e-6)
    theirs = dpa_rdp.RdpAccountant(DEFAULT_ORDERS).compose(event).rdp
    assert (np.array(ours.rdp) <= theirs * (1 + 1e-6)).all()
    assert from_dp_event(per_value).guarantee(1e-5).epsilon < 0.9 * ours.guarantee(1e-5).epsilon


def test_selecting_by_a_pure_mechanism_costs_two_plus_shape_times():
    pure = Charge.laplace(shifts=(1.0,), scale=10.0)
    for shape in (0.0, 1.0):
        assert select_best(pure, mean_runs=20, shape=shape).pure == pytest.approx((2 + shape) * 0.1)
    # A geometric number of runs, best of coin flips: the exact law keeps the promise.
    gamma, e = 1 / 20, 0.1
    high = math.exp(e) / (1 + math.exp(e))
    some = lambda p: 1 - gamma * (1 - p) / (1 - (1 - gamma) * (1 - p))  # noqa: E731  P(at least one 1)
    ratio = max(math.log(some(high) / some(1 - high)), math.log((1 - some(1 - high)) / (1 - some(high))))
    assert 0.1 < ratio <= select_best(pure, mean_runs=20).pure


@pytest.mark.parametrize(
    "bad",
    [
        {"mean_runs": 1.0},
        {"mean_runs": 1 + 1e-15},
        {"mean_runs": 5, "shape": -0.5},
        {"mean_runs": 5, "shape": math.nan},
        {"mean_runs": 5, "shape": 1e300},
        {"mean_runs": 5, "shape": "1"},
    ],
)
def test_selection_refuses_what_its_theorems_do_not_cover(bad):
    with pytest.raises(InvalidInputError):
        select_best(LABEL, **bad)
    with pytest.raises(InvalidInputError, match="delta0"):
        select_best(GATE, mean_runs=5)


@pytest.mark.parametrize("mean", [1 + 1e-10, 1 + 1e-8, 1 + 1e-6])
def test_gamma_of_hardly_more_than_one_run_is_not_above_the_truth(mean):
    """A difference of nearly equal numbers once lost them, and the search for it its sign."""
    with mpmath.workdps(60):
        gamma = mpmath.mpf(_gamma(0.0, mean))
        assert (1 / gamma - 1) / mpmath.log(1 / gamma) >= mpmath.mpf(mean)


def test_equal_costs_of_unequal_events_are_not_merged():
    sampled = dpa.PoissonSampledDpEvent(1.0, dpa.GaussianDpEvent(2.0))
    a, b = from_dp_event(sampled), from_dp_event(dpa.GaussianDpEvent(2.0))
    assert a == b
    assert (a + b).mu_squared == from_dp_event(dpa.ComposedDpEvent([sampled, dpa.GaussianDpEvent(2.0)])).mu_squared == 2
