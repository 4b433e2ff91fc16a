"""The price of trust: what is simulated is the noise that sites add, and the page is that of the stored result."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from pate import Budget
from pate.federation import SitesPlan
from pate.models.recipes import RecordsPlan, fitted_representation
from pate.privacy.convert import gdp_from_budget, gdp_to_epsilon
from pate.release import ReleaseTerms
from pate.release._shares import SET_ASIDE

ROOT = Path(__file__).parents[2]
#: The script takes two seconds to import.
pytestmark = pytest.mark.long


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    import price_of_trust

    yield price_of_trust
    for name in ("price_of_trust", "_price_of_trust_page", "_page", "_tables"):
        sys.modules.pop(name, None)


@pytest.fixture
def stored(script):
    return json.loads(script.RESULT.read_text(encoding="utf-8"))


@pytest.mark.sample
def test_the_page_is_that_of_the_stored_result(script, stored):
    assert script.summary(stored) in script.PAGE.read_text(encoding="utf-8")
    assert script.of_whole_institutions(stored) in script.DETAILS.read_text(encoding="utf-8")


@pytest.mark.parametrize(("k", "t", "c"), [(10, 0, 1), (10, 4, 1), (20, 9, 1), (7, 3, 2)])
def test_a_run_is_simulated_at_the_noise_that_is_there(script, monkeypatch, k, t, c):
    """k shares of variance s^2 / (k - t) have the multiplier of the budget that one curator is given."""
    asked = []
    monkeypatch.setattr(script, "together", lambda name, n, seed, epsilon, *_: asked.append(epsilon) or 0.5)
    found = script.of_votes("adult", k, t, c, 1.0, 0, script.Config())
    claimed = 1 / gdp_from_budget(1.0, 1e-5)  # what the honest k - t add, over what one unit moves the sum
    there = claimed * c * math.sqrt(k / (k - t))
    assert asked[0] == pytest.approx(gdp_to_epsilon(1 / there, 1e-5), rel=1e-6)
    assert found["times"] == pytest.approx(there / claimed, abs=1e-4)
    assert found["outsider"] == pytest.approx(gdp_to_epsilon(c / there, 1e-5), abs=1e-4)


@pytest.mark.parametrize(("k", "t", "c"), [(10, 4, 1), (20, 9, 1), (7, 3, 2)])
def test_the_plan_of_a_real_federation_expects_the_simulated_run(k, t, c):
    """Recipe and noise of a plan among sites are those of one curator at the budget of :func:`of_votes`."""
    X = np.random.default_rng(0).normal(size=(300, 4))
    asked = {"classes": (0, 1), "unit": "group"}
    sites = SitesPlan.of(
        X, budget=Budget(1.0, 1e-5), n_units=[500] * k, tolerate=t, max_sites_per_person=c, measure=False, **asked
    )
    mu = gdp_from_budget(1.0, 1e-5 * (1 - SET_ASIDE)) * math.sqrt((k - t) / k) / c
    terms = ReleaseTerms(budget=Budget(gdp_to_epsilon(mu, 1e-5), 1e-5))
    one = RecordsPlan.of(
        terms, X, n_units=500 * k, representation=fitted_representation("table", X), measure=False, **asked
    )
    assert sites.ballots.recipe == one.recipe
    there = [m.noise_multiplier * math.sqrt(k / (k - t)) for m in sites.mechanisms]
    assert there == pytest.approx([m.noise_multiplier for m in one.mechanisms], rel=1e-6)


def test_records_are_dealt_to_one_site_each_and_units_are_cut_by_site(script):
    none = np.zeros((9, 1))
    dealt = script.Held("adult", none, np.zeros(9), none, none, np.zeros(9), 2)
    places, tests = dealt.dealt(4, 0)
    assert sorted(np.bincount(places).tolist()) == [2, 2, 2, 3]
    assert set(tests.tolist()) == {-1}
    persons, sites = np.array([0, 0, 1, 1]), np.array([0, 2, 1, 1])
    kept = script.Held("diabetes130", none, none, none, none, none, 3, persons=persons, sites=sites)
    assert len(set(kept.units(at_one_site=True).tolist())) == 3
    assert kept.units(at_one_site=False).tolist() == [0, 0, 1, 1]


def test_voting_together_pays_and_trust_costs_little(stored):
    """What the page says in words: Adult by ten sites, for every epsilon."""
    for epsilon in (0.1, 0.3, 1.0):
        by = {
            name: np.mean([row["accuracy"] for row in stored[table] if key.items() <= row.items()])
            for name, table, key in (
                ("curator", "votes", {"data": "adult", "k": 1, "epsilon": epsilon}),
                ("together", "votes", {"data": "adult", "k": 10, "t": 4, "epsilon": epsilon}),
                ("records", "alone", {"data": "adult", "k": 10, "by": "records", "epsilon": epsilon}),
                ("dpsgd", "alone", {"data": "adult", "k": 10, "by": "dpsgd", "epsilon": epsilon}),
            )
        }
        assert by["curator"] - by["together"] < 0.01
        assert by["together"] > max(by["records"], by["dpsgd"])
