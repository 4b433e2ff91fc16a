"""Canaries: units of an auditor's that go in by a coin, and whose scores are worth what the claim allows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from dpsgd_steps import by_value
from scipy.stats import norm

from pate import Budget, DPSGDClassifier
from pate.dpsgd import Canaries
from pate.dpsgd._canaries import CanaryRun
from pate.exceptions import InvalidInputError
from pate.privacy.noise.source import NoiseSource

RNG = np.random.default_rng(3)
X = RNG.normal(size=(100, 60)).astype(np.float32)
Y = RNG.integers(0, 10, 100)


def fitted(canaries, *, groups=None, **more):
    options = {"budget": Budget(8.0, 1e-3), "classes": range(10), "expected_batch_size": 600, "n_steps": 20, **more}
    return DPSGDClassifier("linear", noise_seed=1, **by_value(**options)).fit(X, Y, groups=groups, canaries=canaries)


def test_gradient_canaries_score_what_their_law_says():
    """All units in all steps: a canary's score is N(T, T sigma^2) if it is in, N(0, T sigma^2) if not."""
    m, steps = 500, 20
    clf = fitted(Canaries(gradients=m))
    assert clf.sample_rate_ == 1
    found = clf.canaries_
    spread = np.sqrt(steps) * clf.noise_multiplier_
    assert 180 < found.included.sum() < 320
    into, out = found.scores[found.included], found.scores[~found.included]
    # Private gradients move the weights too, all canaries alike at most C each: standardise by the law.
    assert abs(into.mean() - out.mean() - steps) < 5 * spread * np.sqrt(4 / m)
    assert 0.8 < out.std() / spread < 1.3
    # The best threshold guesses as often as the trade-off curve of mu = sqrt(T) / sigma allows.
    right = ((found.scores > steps / 2 + np.median(out)) == found.included).mean()
    assert right < norm.cdf(steps / 2 / spread) + 4 * 0.5 / np.sqrt(m)


def test_a_canary_is_a_unit_that_is_clipped_and_counts_for_nothing_where_its_coin_fell_so():
    weights = [torch.nn.Parameter(torch.zeros(3, 4)), torch.nn.Parameter(torch.zeros(5))]
    run = CanaryRun(Canaries(gradients=17), 10, weights, NoiseSource(2))
    assert run.included.any()
    assert not run.included.all()
    everyone = np.arange(27)
    units, marks = run.split(everyone)
    assert units.tolist() == list(range(10))
    assert marks.tolist() == np.flatnonzero(run.included).tolist()
    for mark in marks:
        total = [torch.zeros(3, 4, dtype=torch.float64), torch.zeros(5, dtype=torch.float64)]
        run.add(total, np.array([mark]), 0.3)
        flat = torch.cat([part.flatten() for part in total])
        assert float(flat.norm()) == pytest.approx(0.3)
        assert int((flat != 0).sum()) == 1
    total = [torch.zeros(3, 4, dtype=torch.float64), torch.zeros(5, dtype=torch.float64)]
    run.add(total, marks, 1.0)
    assert int((torch.cat([part.flatten() for part in total]) != 0).sum()) == len(marks)  # each along its own weight


def test_records_are_scored_by_their_loss():
    rows = RNG.normal(size=(200, 60)).astype(np.float32) * 3
    labels = RNG.integers(0, 10, 200)
    clf = fitted(Canaries(X=rows, y=labels), expected_batch_size=300, n_steps=200, budget=Budget(1000.0, 1e-3),
               noise_multiplier=1.0, learning_rate=2.0)  # fmt: skip
    found = clf.canaries_
    right = clf.predict_proba(rows)[np.arange(200), labels]
    np.testing.assert_allclose(found.scores, np.log(right))
    assert found.scores[found.included].mean() > found.scores[~found.included].mean() + 0.5
    assert clf.statement_.n_units == 100
    assert "200 canaries" in clf.statement_.mechanism


@pytest.mark.long
def test_without_canaries_nothing_is_left_behind_and_bad_ones_are_refused():
    assert not hasattr(fitted(None, expected_batch_size=50), "canaries_")
    with pytest.raises(InvalidInputError, match="one of the two"):
        Canaries(gradients=3, X=X, y=Y)
    with pytest.raises(InvalidInputError, match="one of the two"):
        Canaries(X=X)
    with pytest.raises(InvalidInputError, match="at most as many as the 610 trainable weights"):
        fitted(Canaries(gradients=611))
    with pytest.raises(InvalidInputError, match="canaries must be a"):
        fitted(5, expected_batch_size=50)
    with pytest.raises(InvalidInputError):
        fitted(Canaries(X=X[:, :9], y=Y), expected_batch_size=50)


@pytest.mark.long
def test_persons_and_canaries():
    clf = fitted(Canaries(gradients=30), expected_batch_size=20, groups=np.repeat(np.arange(50), 2))
    assert clf.sample_rate_ == 20 / 80
    assert clf.statement_.n_units == 50
    clf = fitted(Canaries(X=X[:30], y=Y[:30]), expected_batch_size=20, groups=np.repeat(np.arange(50), 2))
    assert len(clf.canaries_.scores) == 30
