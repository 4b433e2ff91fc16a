"""Weights of tiers: each tier is charged no more than its budget, and next to nothing less."""

from __future__ import annotations

import math

import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pate import Budget
from pate.exceptions import InvalidInputError
from pate.mechanisms import GaussianSum
from pate.privacy.budget import check_budget
from pate.privacy.convert import gdp_from_budget
from pate.privacy.tiers import WHOLE, TierBudgets, as_budget, scaled
from pate.records.ballot_sum import GRID
from pate.release._quote import share_rounds, sum_of_rounds

BUDGETS = {"a": Budget(1.0, 1e-5), "b": Budget(2.0, 1e-5), "c": Budget(3.0, 1e-5)}


def test_the_weights_are_those_of_the_design():
    """Budgets 1, 2 and 3: mu .268, .502 and .719, weights 1, 1.87 and 2.68 (the design's figures, made elsewhere)."""
    tiers = TierBudgets.of(BUDGETS)
    assert tiers.top == BUDGETS["c"]
    assert [round(w / tiers.weights[0], 2) for w in tiers.weights] == [1.0, 1.87, 2.68]
    assert WHOLE == GRID == tiers.weights[-1]


@given(
    st.lists(
        st.tuples(st.floats(0.01, 20.0), st.sampled_from([1e-8, 1e-6, 1e-5, 1e-3])), min_size=1, max_size=5, unique=True
    ),
    st.lists(st.floats(0.05, 1.0), min_size=1, max_size=3),
)
@example([(1.0, 1e-5), (1.0, 1e-6)], [1.0])
@settings(max_examples=40)
def test_every_tier_is_charged_its_budget_and_hardly_less(pairs, shares):
    tiers = TierBudgets.of({f"t{i}": Budget(*pair) for i, pair in enumerate(pairs)})
    whole = sum_of_rounds(share_rounds(tiers.top, shares))
    for name, budget, weight in zip(tiers.names, tiers.budgets, tiers.weights, strict=True):
        charge = tiers.charge(name, whole)
        assert budget.allows(charge)
        # Two steps of the grid of weights, and what calibration leaves.
        assert math.sqrt(charge.mu_squared) * (weight + 2) / weight * (1 + 1e-6) >= gdp_from_budget(
            *vars(budget).values()
        )


def test_nine_tenths_of_the_noise_is_more_than_every_tier_allows():
    tiers = TierBudgets.of(BUDGETS)
    noise = GaussianSum.for_budget(tiers.top).noise_multiplier
    weak = GaussianSum(0.9 * noise).charge(1)
    assert not any(b.allows(tiers.charge(n, weak)) for n, b in tiers.mapping.items())


def test_a_tier_costs_what_dp_accounting_says_of_its_rounds():
    tiers = TierBudgets.of(BUDGETS)
    rounds = share_rounds(tiers.top, [0.3, 0.5, 0.2])
    whole = sum_of_rounds(rounds)
    for name, weight in tiers.pairs:
        parts = [pld.from_gaussian_mechanism(m.noise_multiplier * WHOLE / weight) for m in rounds]
        theirs = parts[0].compose(parts[1]).compose(parts[2]).get_epsilon_for_delta(1e-5)
        assert tiers.charge(name, whole).guarantee(1e-5).epsilon == pytest.approx(theirs, rel=2e-3)


def test_n_charges_of_a_tier_are_n_times_one():
    one = GaussianSum(9.0).charge(1)
    assert scaled(one * 7, 12_345).mu_squared == pytest.approx(7 * scaled(one, 12_345).mu_squared, rel=1e-14)
    assert scaled(one, WHOLE) == one


def test_what_a_ledger_began_with_stays():
    tiers = TierBudgets.of(BUDGETS)
    smaller = tuple((name, max(1, weight - 9 * (weight < WHOLE))) for name, weight in tiers.pairs)
    assert tiers.held_to(smaller).pairs == smaller
    assert tiers.held_to(None) is tiers
    for wrong in (
        [(name, min(WHOLE, weight + 9)) for name, weight in tiers.pairs],
        [("a", WHOLE)],
        [*tiers.pairs, ("d", 1)],
    ):
        with pytest.raises(InvalidInputError, match="ledger"):
            tiers.held_to(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {1: Budget(1.0, 1e-5)},
        {" ": Budget(1.0, 1e-5)},
        {"a": 1.0},
        {"a": Budget(1e-9, 1e-9), "b": Budget(9.0, 0.1)},
    ],
)
def test_odd_budgets_are_refused(wrong):
    with pytest.raises(InvalidInputError, match="budget"):
        as_budget(wrong)


def test_where_there_are_no_tiers_their_budgets_are_refused_in_one_line():
    with pytest.raises(InvalidInputError, match="got one for every tier") as caught:
        check_budget(BUDGETS)
    assert "\n" not in str(caught.value)
