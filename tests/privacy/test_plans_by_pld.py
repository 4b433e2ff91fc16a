"""Plans with DP-SGD in them, composed by privacy loss distributions: never less than the truth, and less than Renyi."""

from __future__ import annotations

import math
from dataclasses import replace

import dp_accounting as dpa
import pytest
from dp_accounting import pld
from hypothesis import given, settings
from hypothesis import strategies as st

from pate import Budget, Charge, InvalidInputError, Ledger
from pate.privacy import Accountant, from_dp_event, select_best
from pate.privacy.losses import Losses, SampledGaussianPair

HISTOGRAM = Charge.gaussian(sensitivity=2**0.5, sigma=40.0)
LABEL = Charge.gaussian_argmax(40.0)
GATE = Charge.at_order(0.3, order=8.0, delta0=1e-6)


def steps(q, sigma, n):
    return from_dp_event(dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(q, dpa.GaussianDpEvent(sigma)), n))


def by_dp_accounting(parts, delta, interval, *, mu_squared=0.0):
    """dp_accounting's own composition; a Gaussian of this mu is one of noise 2/mu between opposite contributions."""
    accountant = pld.PLDAccountant(dpa.NeighboringRelation.REPLACE_ONE, interval)
    for q, sigma, n in parts:
        accountant.compose(dpa.PoissonSampledDpEvent(q, dpa.GaussianDpEvent(sigma)), n)
    if mu_squared:
        accountant.compose(dpa.GaussianDpEvent(2 / math.sqrt(mu_squared)))
    return accountant.get_epsilon(delta)


@pytest.mark.long
@pytest.mark.parametrize(
    ("parts", "histograms", "least_gain"),
    [
        ([(0.01, 1.0, 1000)], 0, 0.06),
        ([(0.05, 1.5, 200), (0.02, 1.1, 300)], 0, 0.06),
        ([(0.05, 1.5, 200)], 100, 0.05),
        ([(0.256, 2.5, 80)], 1, 0.05),
    ],
)
def test_a_plan_is_composed_tightly_and_never_below_the_truth(parts, histograms, least_gain):
    plan = Accountant()
    for part in parts:
        plan.add(steps(*part), what="DP-SGD")
    plan.add(HISTOGRAM, what="histogram", count=histograms)
    found, whole = plan.guarantee(1e-5), plan.close()
    fine = by_dp_accounting(parts, 1e-5, 1e-4, mu_squared=histograms * HISTOGRAM.mu_squared)
    assert fine * (1 - 1e-6) <= found.epsilon <= 1.005 * fine
    assert found.epsilon < (1 - least_gain) * replace(whole, losses=None).guarantee(1e-5).epsilon
    assert (found.method, found.order, found.delta, found.kind) == ("pld", None, 1e-5, "public")


@pytest.mark.long
@settings(max_examples=15)
@given(
    q=st.floats(0.005, 0.3),
    sigma=st.floats(1.2, 5.0),
    n=st.integers(1, 300),
    labels=st.integers(0, 200),
    log_delta=st.floats(-9, -3),
)
def test_it_is_the_least_of_all_accounts(q, sigma, n, labels, log_delta):
    plan, delta = Accountant().add(steps(q, sigma, n)).add(LABEL, count=labels), 10**log_delta
    found, whole = plan.guarantee(delta), plan.close()
    assert found.epsilon <= replace(whole, losses=None).guarantee(delta).epsilon
    # The Gaussian behind every label dominates it, so that this is an upper bound on what is found, too.
    coarse = by_dp_accounting([(q, sigma, n)], delta * (1 - 1e-6), 2e-2, mu_squared=labels * LABEL.mu_squared)
    assert found.epsilon <= coarse * (1 + 1e-3) + 1e-6


def test_equal_charges_are_two_payments():
    one = steps(0.05, 1.5, 100)
    twice = Accountant().add(one).add(one).guarantee(1e-5)
    at_once = Accountant().add(one, count=2).guarantee(1e-5)
    longer = Accountant().add(steps(0.05, 1.5, 200)).guarantee(1e-5)
    alone = Accountant().add(one).guarantee(1e-5)
    assert twice.epsilon == at_once.epsilon == longer.epsilon > 1.2 * alone.epsilon
    for whole in (one + one, one * 2, 2 * one, Charge.total([(one, 1), (one, 1)])):
        assert whole.losses.n_steps == 200
        assert whole == Accountant().add(one, count=2).close()


def test_gaussian_parts_are_summed_and_the_order_does_not_matter():
    one, other = steps(0.05, 1.5, 50), steps(0.02, 1.0, 70)
    forth = Charge.total([(one, 2), (HISTOGRAM, 7), (other, 1)])
    back = other + HISTOGRAM * 3 + one + HISTOGRAM * 4 + one
    assert dict(forth.losses.steps) == dict(back.losses.steps)
    assert sorted(n for _, n in forth.losses.steps) == [70, 100]
    for whole in (forth, back):
        assert 0 <= whole.losses.mu_squared / (7 * HISTOGRAM.mu_squared) - 1 < 1e-12
    assert (one * 0).losses is None
    assert HISTOGRAM.losses is None
    assert (HISTOGRAM + LABEL).losses is None


def test_one_part_that_has_no_pair_leaves_the_other_accounts():
    plan = Accountant().add(steps(0.05, 1.5, 100)).add(GATE)
    assert plan.close().losses is None
    assert plan.guarantee(1e-5) == plan.close().guarantee(1e-5)
    best_of = select_best(steps(0.05, 1.5, 100), mean_runs=10)
    assert best_of.losses is None
    assert Accountant().add(best_of).guarantee(1e-5) == best_of.guarantee(1e-5)


def test_what_may_fail_is_taken_off_delta_here_too():
    run = steps(0.05, 1.5, 100)
    failing = replace(HISTOGRAM, delta0=4e-6)
    found = Accountant().add(run).add(failing).guarantee(1e-5)
    less = Accountant().add(run).add(HISTOGRAM).guarantee(6e-6)
    assert found.method == "pld"
    assert found.epsilon == pytest.approx(less.epsilon, rel=1e-6)  # on grids that differ a little
    with pytest.raises(InvalidInputError, match="gates may fail"):
        Accountant().add(run).add(replace(HISTOGRAM, delta0=1e-5)).guarantee(1e-5)


def test_many_kinds_fall_back_to_renyi_divergence():
    plan = Accountant()
    for i in range(40):
        plan.add(steps(0.05, 1.5 + i / 100, 1))
    assert plan.close().losses is None
    assert plan.guarantee(1e-5).method == "rdp"


def test_rounding_is_paid_out_of_delta_and_where_it_cannot_be_losses_are_tilted():
    pair = SampledGaussianPair.poisson(0.001, 1.0)
    run = Losses(0.0, ((pair, 10**6),))
    assert run.slack >= 64 * 10**6 * 2.0**-53
    assert run.epsilon(1e-5, about=10.0) < run.epsilon(run.slack / 2, about=10.0) < 20
    coin = Losses(0.0, ((SampledGaussianPair(pair.branches, error=1e-12), 100),))
    assert coin.epsilon(1e-10, about=10.0) == math.inf
    assert Losses(0.0, ((pair, 1),)).epsilon(1e-5, about=math.inf) == math.inf


def test_without_subsampling_it_is_the_exact_gaussian():
    assert Losses(0.25).epsilon(1e-5, about=1.0) == Charge.gaussian(sensitivity=0.5, sigma=1.0).guarantee(1e-5).epsilon


def test_a_charge_is_its_numbers_with_or_without_its_pairs(tmp_path):
    run = steps(0.05, 1.5, 100)
    bare = replace(run, losses=None)
    assert bare == run
    assert hash(bare) == hash(run)
    assert "losses" not in repr(run)
    with pytest.raises(InvalidInputError, match="losses of a Charge"):
        replace(run, losses=[(0.05, 1.5)])
    # A ledger counts in one currency: it keeps no pairs, prices both alike and reads back what it wrote.
    prices = []
    for cost, name in ((run, "with"), (bare, "without")):
        ledger = Ledger(tmp_path / f"{name}.sqlite", total=Budget(8.0, 1e-5), currency="renyi")
        ledger.record(cost, mechanism="DP-SGD", n_queries=0, kind="DP-SGD")
        (row,) = ledger.releases()
        assert row.charge == run
        assert row.charge.losses is None
        assert ledger.verify().ok
        prices.append(row.price)
    assert prices[0] == prices[1]


@pytest.mark.long
def test_truncated_samples_go_through_the_same_function():
    event = dpa.dp_event.TruncatedSubsampledGaussianDpEvent(1000, 0.05, 60, 1.5)
    cost = from_dp_event(dpa.SelfComposedDpEvent(event, 200))
    accountant = pld.PLDAccountant(dpa.NeighboringRelation.REPLACE_ONE, 1e-4)
    fine = accountant.compose(event, 200).get_epsilon(1e-5)
    found = Accountant().add(cost).guarantee(1e-5)
    assert fine * (1 - 1e-6) <= found.epsilon <= 1.005 * fine
    assert cost.mu_squared == pytest.approx(200 * (2 / 1.5) ** 2)
    for nothing in (
        dpa.dp_event.TruncatedSubsampledGaussianDpEvent(1000, 0.0, 60, 1.5),
        dpa.dp_event.TruncatedSubsampledGaussianDpEvent(1000, 0.1, 0, 1.5),
    ):
        assert from_dp_event(nothing) == Charge.zero()
