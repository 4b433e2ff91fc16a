"""Whole releases of ours in two worlds: each stands by its own charge, and falls by a claim of less."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from pate import Budget, Votes, release_ballots, release_labels
from pate.audit import Claim, game
from pate.audit._game import MechanismRelease
from pate.mechanisms import GaussianSum, GNMax
from pate.models.students import fit_student
from pate.privacy.noise.source import NoiseSource
from pate.privacy.publish.gate import PTRGate
from pate.privacy.publish.smooth_sensitivity import SmoothSensitivity, release_smooth
from pate.records import RecordVoters, SignedSpace

RICH = Budget(50.0, 1e-3)
GN = GNMax(1.5)
#: Ten teachers, one of whom votes otherwise: contested queries.
D, D_PRIME = np.array([[5, 5]] * 6), np.array([[4, 6]] * 6)
RNG = np.random.default_rng(0)
X_PUBLIC = RNG.normal(size=(6, 2))
SPACE = SignedSpace().fit(RNG.normal(size=(40, 3)))
X, Y = RNG.normal(size=(30, 3)), RNG.integers(0, 2, 30)
VOTERS = RecordVoters(None, SPACE, classes=(0, 1))
HERE = VOTERS.cast(np.vstack([100 * X[:1], X[1:]]), Y)
THERE = VOTERS.cast(np.vstack([-100 * X[:1], X[1:]]), Y)


def labels(counts, seed):
    return release_labels(Votes.from_counts(counts), GN, budget=RICH, noise_seed=seed).labels


def ratio(output):
    return MechanismRelease(GN).log_ratio(output[None], D, D_PRIME)[0]


def student(counts, seed):
    model = fit_student(LogisticRegression(), X_PUBLIC, labels(counts, seed), random_state=0)
    return model.predict(X_PUBLIC)


def ballots(cast, seed):
    return release_ballots(cast, GaussianSum(0.5), budget=RICH, noise_seed=seed).statistics


def gate(counts, seed):
    return gate_of().test(counts, NoiseSource(seed))


def gate_of():
    return PTRGate(sigma=40.0, order=8.0, tau=0.1, width=1.0, delta=0.2, delta0=0.1)


def smooth(counts, seed):
    return release_smooth(counts, 40.0, noise=NoiseSource(seed), delta=0.1, delta0=1e-3, **SMOOTH).epsilon


SMOOTH = {"order": 8.0, "beta": 0.02, "noise_scale": 1.0}
#: Votes about which a gate and a smooth bound may change their minds.
SURE, LESS_SURE = np.array([[80, 20]] * 40), np.array([[79, 21]] * 40)

RELEASES = {
    "labels": (labels, D, D_PRIME, ratio, GN.charge(6), 120),
    "record voters": (ballots, HERE, THERE, lambda s: -float(np.sum(s * MOVED)), GaussianSum(0.5).charge(1), 120),
    "gate": (gate, SURE, LESS_SURE, lambda passed: -float(passed), gate_of().charge, 60),
    "smooth sensitivity": (smooth, SURE, LESS_SURE, float, SmoothSensitivity(**SMOOTH).cost, 60),
}
MOVED = HERE.sums - THERE.sums


@pytest.mark.long
@pytest.mark.parametrize("name", RELEASES)
def test_a_release_stands_by_its_own_charge(name):
    release, here, there, score, charge, n_runs = RELEASES[name]
    found = game(
        release, here, there, claim=charge, score=score, n_runs=n_runs, random_state=1, delta=1e-3, published=True
    )
    assert not found.refuted
    assert found["lower bound on epsilon"].value <= Claim.of(charge).epsilon(1e-3)
    # Worlds that are distinguished: this game could have found something.
    if name in ("labels", "record voters"):
        small = Claim.gaussian(0.02 * charge.mu_squared**0.5)
        assert game(release, here, there, claim=small, score=score, n_runs=n_runs, random_state=2).refuted


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::pate.exceptions.StudentWarning")
def test_a_student_is_played_by_a_classifier():
    """Post-processing leaks no more; half of the runs teach the attacker."""
    found = game(student, D, D_PRIME, claim=GN.charge(6), score="classifier", n_runs=80, random_state=2, published=True)
    assert not found.refuted
    assert found.settings["runs looked at"] == 40


@pytest.mark.slow
def test_dpsgd_is_played_whole():
    """A record among 60 whose gradient is clipped; seeded runs of a tiny linear model, batches and all."""
    from pate import DPSGDClassifier
    from pate.dpsgd import SampledGaussian

    rng = np.random.default_rng(0)
    rows, classes = rng.normal(size=(60, 4)).astype(np.float32), rng.integers(0, 2, 60)
    other, flipped = rows.copy(), classes.copy()
    other[0], flipped[0] = 10.0, 1 - classes[0]

    def release(world, seed):
        model = DPSGDClassifier(
            "linear", budget=Budget(2.0, 1e-3), classes=(0, 1), expected_batch_size=20, noise_seed=seed, random_state=0,
            mechanism=SampledGaussian(n_steps=6),
        )  # fmt: skip
        return model.fit(*world).predict_proba(np.full((1, 4), 10, dtype=np.float32))[0, 1]

    found = game(release, (rows, classes), (other, flipped), claim=(2.0, 1e-3), score=float, n_runs=10, random_state=3)
    assert not found.refuted
