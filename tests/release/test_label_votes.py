"""Teachers' votes on several labels: what a replaced ballot moves and costs, abstaining, and the ledger."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant

from pate import ABSTAIN, Budget, GNMax, InvalidInputError, Ledger, NoisyHistogram, release_labels
from pate.release import label_votes, labels_of

NAMES = ["ill", "old", "rich"]
RNG = np.random.default_rng(0)
#: Ten rows; 90% of 200 teachers agree with what is so.
TRUTH = RNG.integers(0, 2, size=(10, 3))
BALLOTS = np.where(RNG.random((200, 10, 3)) < 0.9, TRUTH, 1 - TRUTH)
BUDGET = Budget(20.0, 1e-5)


def test_every_replaced_ballot_moves_counts_by_sqrt_2_a_query_at_most_and_some_by_all_of_it():
    every = [np.array(one) for one in itertools.product((0, 1), repeat=3)]
    sure = {None: None, "one": [[[0.9, 0.6, 0.7]]]}
    for confidence in sure.values():
        found = [label_votes([[one]], NAMES, confidence=confidence).counts for one in every]
        moved = [int(np.square(a - b).sum()) for a, b in itertools.combinations(found, 2)]
        assert max(moved) == 2 * len(found[0])  # sqrt(2) for each query that is charged
    assert len(label_votes([[every[0]]], NAMES).counts) == 3
    assert len(label_votes([[every[0]]], NAMES, confidence=sure["one"]).counts) == 1


@pytest.mark.parametrize("n_rows", [1, 7])
def test_by_label_costs_what_a_gaussian_on_yes_votes_does(n_rows):
    """mu^2 = n L/s^2 at noise s on each number of yes votes; one vote each costs 2 n/sigma^2."""
    s = 30.0
    votes = label_votes(BALLOTS[:, :n_rows], NAMES)
    mechanism = NoisyHistogram(s * math.sqrt(2))
    charge = mechanism.charge(votes.n_queries)
    assert charge.mu_squared == pytest.approx(n_rows * 3 / s**2)
    accountant = PLDAccountant()
    accountant.compose(SelfComposedDpEvent(GaussianDpEvent(s / math.sqrt(3)), n_rows))
    assert charge.guarantee(1e-5).epsilon == pytest.approx(accountant.get_epsilon(1e-5), rel=5e-3)
    one = label_votes(BALLOTS[:, :n_rows], NAMES, confidence=np.ones_like(BALLOTS, dtype=float)[:, :n_rows])
    assert NoisyHistogram(s).charge(one.n_queries).mu_squared == pytest.approx(2 * n_rows / s**2)


def test_yes_no_and_abstaining_are_free(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=BUDGET)
    votes = label_votes(BALLOTS, NAMES, query_hashes=tuple(f"{i:064x}" for i in range(10)))
    release = release_labels(votes, NoisyHistogram(9.0), budget=BUDGET, ledger=ledger)
    assert (labels_of(release, 3) == TRUTH).all()
    unsure = labels_of(release, 3, gap=80.0)
    assert set(np.unique(unsure)) <= {0, 1, ABSTAIN}
    assert 0 < (unsure == ABSTAIN).sum() < 30
    assert labels_of(release, 3, threshold=0.99).mean() < 0.5 * TRUTH.mean()
    again = release_labels(votes, NoisyHistogram(9.0), budget=BUDGET, ledger=ledger)
    assert np.array_equal(labels_of(again, 3, gap=80.0), unsure)
    assert len(ledger.releases()) == 1


def test_noise_on_yes_votes_is_smaller_by_sqrt_2_than_on_a_count():
    """By half the difference of both counts; the wrong scale is rejected."""
    votes = label_votes(np.repeat(TRUTH[None], 100, axis=0), NAMES)
    drawn = []
    for seed in range(60):
        counts = release_labels(votes, NoisyHistogram(20.0), budget=BUDGET, noise_seed=seed).noisy_counts
        drawn.append((counts[:, 1] - counts[:, 0]) / 2 - (TRUTH.ravel() - 0.5) * 100)
    assert np.std(drawn) == pytest.approx(20 / math.sqrt(2), rel=0.08)


def test_one_vote_each_goes_to_the_surest_label_that_is_there():
    ballots = np.array([[[1, 1, 0], [0, 0, 0]]] * 40)
    sure = np.tile([[0.6, 0.8, 0.99], [0.2, 0.1, 0.3]], (40, 1, 1))
    votes = label_votes(ballots, NAMES, confidence=sure)
    assert votes.counts.tolist() == [[0, 40, 0, 0], [0, 0, 0, 40]]
    release = release_labels(votes, NoisyHistogram(2.0), budget=BUDGET)
    assert labels_of(release, 3, n_teachers=40).tolist() == [[0, 1, 0], [0, 0, 0]]
    with pytest.raises(InvalidInputError, match="n_teachers"):
        labels_of(release, 3)


@pytest.mark.parametrize(
    ("ballots", "more", "text"),
    [
        (BALLOTS[0], {}, "shape"),
        (BALLOTS[..., :2], {}, "shape"),
        (BALLOTS * 2, {}, "0 and 1"),
        (BALLOTS * 0.5, {}, "0 and 1"),
        (BALLOTS, {"confidence": np.ones((200, 10))}, "confidence"),
        (BALLOTS, {"confidence": np.full(BALLOTS.shape, np.nan)}, "confidence"),
    ],
)
def test_what_is_no_ballot_is_refused(ballots, more, text):
    with pytest.raises(InvalidInputError, match=text):
        label_votes(ballots, NAMES, **more)


def test_labels_need_counts_and_the_right_number_of_labels():
    votes = label_votes(BALLOTS, NAMES)
    with pytest.raises(InvalidInputError, match="noisy counts"):
        labels_of(release_labels(votes, GNMax(20.0), budget=BUDGET), 3)
    with pytest.raises(InvalidInputError, match="n_labels"):
        labels_of(release_labels(votes, NoisyHistogram(20.0), budget=BUDGET), 4)
