"""The temperature of a model whose accuracy was not measured, from released sums and the law of their noise."""

from types import SimpleNamespace

import numpy as np
import pytest

from pate import Budget, PATEClassifier, Queries
from pate.models.heads import DescentHead, LikelihoodHead, LinearHead
from pate.models.recipes import _run
from pate.models.recipes._model import noise_temperature, unmeasured_temperature

RNG = np.random.default_rng(0)
PHI = RNG.normal(size=(4_000, 3))
PHI /= np.linalg.norm(PHI, axis=1, keepdims=True)
TRUE = np.array([[3.0, -3.0], [0.0, 0.0], [-1.0, 1.0]])
N, K, SIGMA, CLIP = 3_000, 10, 5.0, 0.1


def softmax(logits):
    odds = np.exp(logits)
    return odds / odds.sum(axis=1, keepdims=True)


def learnt(rng, flipped):
    """Rounds of noisy sums of records, so many of whose labels are drawn at random."""
    phi, p = PHI[:N], softmax(PHI[:N] @ TRUE)
    y = (rng.random(N) < p[:, 1]).astype(int)
    y = np.where(rng.random(N) < flipped, rng.integers(2, size=N), y)
    head, rounds = DescentHead(n_rounds=K, constant=False).start(3, (0, 1)), []
    for _ in range(K):
        r = np.eye(2)[y] - head.predict_proba(phi)
        r *= np.minimum(1, CLIP / np.linalg.norm(r, axis=1, keepdims=True))
        sums = phi.T @ r + rng.normal(0, SIGMA, size=(3, 2))
        rounds.append(SimpleNamespace(statistics=sums, sigma=SIGMA, n_units=N, classes=(0, 1), clip=CLIP))
        head = head.updated(rounds[-1])
    return head, rounds


@pytest.mark.parametrize("flipped", [0.0, 0.7])
def test_a_model_becomes_as_sure_as_it_is_right(flipped):
    off = []
    for seed in range(4):
        head, rounds = learnt(np.random.default_rng(seed), flipped)
        public = PHI[N:]
        p = head.predict_proba(public)
        t = unmeasured_temperature(head, rounds, public, p)
        truth = (1 - flipped) * softmax(public @ TRUE) + flipped / 2
        said = p.argmax(axis=1)
        sure = softmax(head.decision_function(public) / t).max(axis=1).mean()
        off.append(sure - truth[np.arange(len(said)), said].mean())
        assert t == unmeasured_temperature(head, rounds, public, p)
    assert abs(np.mean(off)) < 0.04


def test_class_ballots_of_one_round_are_looked_at_too():
    sums = N * PHI.T @ (softmax(PHI @ TRUE) - 0.5) / len(PHI)
    release = SimpleNamespace(statistics=sums, sigma=5.0, n_units=N, classes=(0, 1), clip=None)
    head = LikelihoodHead().fit(release, PHI)
    for times in (0.3, 1.0, 2.0):
        p = softmax(times * PHI @ TRUE)
        assert unmeasured_temperature(head, [release], PHI, p) == pytest.approx(times, rel=0.2)


def test_of_anything_else_the_known_noise_is_all_there_is():
    head = LinearHead.of(np.eye(3), (0, 1, 2))
    assert unmeasured_temperature(head, [], PHI, softmax(PHI)) == noise_temperature(head, PHI)
    assert unmeasured_temperature(head, [], PHI[:0], softmax(PHI[:0])) == 1.0


@pytest.mark.long
@pytest.mark.parametrize(("n", "asked"), [(400, 1), (3_000, 0)])
def test_where_measuring_is_not_worth_it_and_no_class_changes(monkeypatch, n, asked):
    times = []

    def counted(*args):
        times.append(unmeasured_temperature(*args))
        return times[-1]

    monkeypatch.setattr(_run, "unmeasured_temperature", counted)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n + 300, 5))
    y = (X[:, 0] + rng.normal(size=len(X)) > 0).astype(int)
    for decide in ("likeliest", "balanced"):
        clf = PATEClassifier(
            budget=Budget(1.0, 1e-5),
            classes=(0, 1),
            voters="records",
            noise_seed=0,
            decide=decide,
            queries=Queries(force=True),
            stated={"overlap is public": "yes"},
            measure=False,
        ).fit(X[:n], y[:n], X_public=X[n:])
        assert len(times) == asked
        if asked:
            assert clf.student_.temperature == times[-1]
        known = clf.student_.untempered(X[n:])
        weights = clf.student_.weights or (1.0, 1.0)
        assert (clf.predict(X[n:]) == (known / np.asarray(weights)).argmax(axis=1)).all()
        times.clear()
