"""Audits of pate's own releases: every method by replay, real votes by pairs, and no exact loss is charged.

Every mechanism by its law is in ``test_law_registry.py``; the faults that all of this finds are in ``tests/mutants``.
``-m slow`` runs the thorough part.
"""

from __future__ import annotations

import numpy as np
import pytest
from our_pipelines import BY_RECORD_ALONE, CLASSES, PIPELINES, classifier_by_records, private_training, world

from pate import (
    Accountant,
    Budget,
    ConfidentGNMax,
    GNMax,
    InvalidInputError,
    Ledger,
    LNMax,
    Sensitive,
    Votes,
    account,
)
from pate.audit import neighbours, pair, replay
from pate.privacy import GDPFilter, RenyiFilter

FAST = ("flip", "scale")
#: Fitted three times a pair, seconds each.
HEAVY = (classifier_by_records, private_training)
ALL = [*PIPELINES, *BY_RECORD_ALONE]


def named(pipeline):
    return pipeline.__name__


def replayed(pipeline, kinds, *, people=False, seed=0, adjacency="replace-one"):
    X, y, groups = world(seed)
    pairs = neighbours(
        X, y, groups=groups if people else None, kinds=kinds, classes=CLASSES, random_state=seed, adjacency=adjacency
    )
    assert pairs
    # DP-SGD refuses a table with a missing value in validation, before anything is drawn: there is nothing to compare.
    pairs = [made for made in pairs if not (pipeline is private_training and made.kind == "missing")]
    return [(made.what, replay(pipeline, made, published=True)) for made in pairs]


@pytest.mark.few(1)
@pytest.mark.parametrize("pipeline", ALL, ids=named)
def test_one_record_moves_what_one_record_may(pipeline):
    for what, found in replayed(pipeline, FAST[1:] if pipeline in HEAVY else FAST):
        assert not found.refuted, f"{what}: {found.finding}"


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("people", [False, True], ids=["records", "people"])
@pytest.mark.parametrize("pipeline", ALL, ids=named)
def test_whatever_happens_to_one_unit(pipeline, people):
    if people and pipeline in BY_RECORD_ALONE:
        pytest.skip("it knows no persons")
    for seed in range(4):
        for what, found in replayed(pipeline, None, people=people, seed=seed):
            assert not found.refuted, f"{what}: {found.finding}"


# ---- pair <= data-dependent <= public, on votes of real teachers ----

MECHANISMS = (GNMax(40.0), LNMax(20.0), ConfidentGNMax(threshold=200, sigma_threshold=150, sigma=40))


def one_vote_moved(counts, rng):
    """In every query one vote goes from some class to another: one teacher's, as far as counts tell."""
    moved = counts.copy()
    for row in moved:
        loser = rng.choice(np.flatnonzero(row))
        row[loser] -= 1
        row[rng.choice(np.delete(np.arange(len(row)), loser))] += 1
    return moved


def chain(counts, mechanism, rng):
    """Epsilons of a pair of votes, of all neighbours of these votes, and of all votes."""
    found = pair(counts, one_vote_moved(counts, rng), mechanism, published=True)
    assert not found.refuted, found.finding
    report = account(Votes.from_counts(counts), mechanism, delta=1e-5)
    exact = report.data_dependent
    exact = exact.reveal() if isinstance(exact, Sensitive) else exact
    return found["epsilon of the pair"].value, exact.epsilon, report.public.epsilon


@pytest.mark.few(1)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_the_chain_stands_on_real_votes(mnist2018_counts, mechanism):
    one, any_pair, worst = chain(mnist2018_counts[:60], mechanism, np.random.default_rng(0))
    assert 0 < one <= any_pair <= worst


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("n", [1, 30, 1000])
def test_the_chain_stands_on_many_real_votes(mnist2018_counts, mechanism, n):
    rng = np.random.default_rng(n)
    for _ in range(5):
        some = rng.choice(len(mnist2018_counts), n, replace=False)
        one, any_pair, worst = chain(mnist2018_counts[some], mechanism, rng)
        assert 0 <= one <= any_pair <= worst


# ---- what was lost at these very votes buys nothing ----


@pytest.mark.parametrize("exact", ["rdp", "epsilon"])
def test_a_data_dependent_cost_is_no_payment(exact, tmp_path):
    """Nothing accepts the exact loss of the votes as a charge: neither a filter, nor a plan, nor the ledger."""
    votes = Votes.from_counts([[126, 124]])
    cost = (
        GNMax(40.0).exact_rdp(votes.counts)
        if exact == "rdp"
        else account(votes, GNMax(40.0), delta=1e-5).data_dependent
    )
    budget = Budget(1.0, 1e-5)
    for pay in (
        GDPFilter(budget).spend,
        RenyiFilter(budget, order=20.0).spend,
        lambda c: Accountant().add(c),
        lambda c: Ledger(tmp_path / "ledger.sqlite", total=budget).record(c, mechanism="exact", n_queries=1),
    ):
        with pytest.raises(InvalidInputError):
            pay(cost)
