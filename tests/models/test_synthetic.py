"""Record voters on synthetic rows of a schema: one charge, resumed after a kill, the same for neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from pate import Budget, Ledger
from pate.audit import replay
from pate.data import Schema
from pate.mechanisms import GaussianSum
from pate.models._synthetic import SyntheticPlan
from pate.release import BallotSession, ReleaseTerms

RNG = np.random.default_rng(0)
N, BUDGET = 600, Budget(8.0, 1e-5)
Y = RNG.integers(2, size=N)
X = np.clip(RNG.normal(size=(N, 2)) + 2 * Y[:, None], -4, 6)
SCHEMA = Schema.declared([(-4.0, 6.0), (-4.0, 6.0)], n_columns=2)


def plan_of(ledger=None, n_units=N, unit="record"):
    terms = ReleaseTerms(budget=BUDGET, ledger=ledger)
    return SyntheticPlan.of(terms, SCHEMA, classes=(0, 1), n_units=n_units, unit=unit, random_state=0, force=True)


@pytest.mark.long
def test_all_of_it_is_one_charge_resumed_after_a_kill(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "l.sqlite", total=BUDGET)
    real, asked = BallotSession.ask, []

    def stopped(self, ballots):
        if len(asked) == 3:
            raise KeyboardInterrupt
        asked.append(real(self, ballots))
        return asked[-1]

    with monkeypatch.context() as m:
        m.setattr(BallotSession, "ask", stopped)
        with pytest.raises(KeyboardInterrupt):
            plan_of(ledger).run(X, Y)
    labels, model, rows = plan_of(ledger).run(X, Y)
    assert all(np.array_equal(a.statistics, b.statistics) for a, b in zip(asked, labels.rounds, strict=False))
    again, _, same = plan_of(ledger).run(X, Y)
    assert np.array_equal(rows, same, equal_nan=True)
    assert np.array_equal(labels.labels, again.labels)
    assert (model.predict(X) == Y).mean() > 0.8
    (row,) = ledger.releases()
    mu_squared = GaussianSum.for_budget(BUDGET).noise_multiplier ** -2
    assert row.charge.mu_squared == pytest.approx(mu_squared, rel=1e-6)
    assert row.charge.guarantee(1e-5).epsilon <= BUDGET.epsilon
    statement = labels.statement
    assert statement.guarantee.epsilon <= BUDGET.epsilon
    assert "how many records are in each cell of each column" in statement.released
    assert next(a.by for a in statement.assumptions if a.name == "own row only") == "pate"


def by_schema(X, y, groups=None):
    n = len(X) if groups is None else len(set(groups.tolist()))
    unit = "record" if groups is None else "group"
    return plan_of(n_units=n, unit=unit).run(X, y, groups=groups)[0].labels


@pytest.mark.long
@pytest.mark.parametrize("people", [False, True])
def test_a_neighbour_moves_no_sum_further_than_is_paid_for(people):
    groups = (np.arange(200) // 2,) if people else ()
    other, labels = X[:200].copy(), Y[:200].copy()
    other[:2] = (1e9, np.nan) if people else other[:2]
    other[0], labels[0] = (6.0, -4.0), 1 - labels[0]
    found = replay(by_schema, (X[:200], Y[:200], *groups), (other, labels, *groups), published=True)
    assert not found.refuted, found.finding
