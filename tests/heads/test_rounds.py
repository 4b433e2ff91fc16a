"""Plans of rounds: public, and never dearer than what they divide."""

from __future__ import annotations

import numpy as np
import pytest

from pate.exceptions import InvalidInputError
from pate.heads import plan_rounds


@pytest.mark.parametrize("mu", [0.001, 0.03, 0.2, 1.0, 10.0])
@pytest.mark.parametrize("n", [10, 3000, 60_000, 10**7])
@pytest.mark.parametrize("m", [2, 10, 26])
def test_a_plan_costs_what_it_may(mu, n, m):
    plan = plan_rounds(mu, n, m, np.geomspace(1, 1e-3, 256))
    assert sum(x**2 for x in plan.mus(mu)) == pytest.approx(mu**2)
    assert len(plan.clips) == plan.n_rounds - 1
    assert 1 <= plan.n_components <= 256
    assert all(0 < clip <= np.sqrt(2) for clip in plan.clips)


def test_more_budget_means_more_rounds_and_dimensions():
    plans = [plan_rounds(mu, 40_000, 10, 512) for mu in np.geomspace(0.005, 1, 20)]
    assert [p.n_rounds for p in plans] == sorted(p.n_rounds for p in plans)
    assert [p.n_components for p in plans] == sorted(p.n_components for p in plans)
    assert plans[0].n_rounds == 1 < plans[-1].n_rounds


@pytest.mark.parametrize(
    "bad", [(0.0, 10, 2, 5), (1.0, 0, 2, 5), (1.0, 10, 1, 5), (1.0, 10, 2, 0), (1.0, 10, 2, [0.0])]
)
def test_numbers_out_of_range_are_refused(bad):
    with pytest.raises(InvalidInputError):
        plan_rounds(*bad)
