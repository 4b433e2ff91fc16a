"""A public model corrected by residuals: it starts as itself, learns from noisy sums, and a record has one ballot."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pate import Budget, InvalidInputError, RecordVoters, open_ballot_session
from pate.heads import CorrectedHead, LikelihoodHead
from pate.records import SoftSpace
from pate.records.ballots import quantised_residuals

CLASSES = ("a", "b", "c")


def world(n, seed):
    """Three clusters, and logits of a model that takes every second row of the third for one of the first."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    z = rng.normal(size=(n, 3)) * 0.3 + 2 * np.eye(3)[y]
    wrong = (y == 2) & (z[:, 0] > 0)
    return np.hstack([z, 2.0 * np.eye(3)[np.where(wrong, 0, y)]]), y


Z, Y = world(4000, 0)
PUBLIC, TRUTH = world(600, 1)
SPACE = SoftSpace(20, 4, n_dims=3, random_state=0).fit(PUBLIC)


def start():
    return CorrectedHead.of(SPACE, PUBLIC, CLASSES)


def asked(head, epsilon, clip=0.5, seed=None):
    voters = RecordVoters(None, SPACE, classes=CLASSES)
    y = np.array(CLASSES)[Y]
    with open_ballot_session(
        Budget(epsilon, 1e-5), shares=[1], classes=CLASSES, n_units=len(Y), noise_seed=seed
    ) as session:
        return session.ask(voters.cast_residuals(Z, y, head, clip=clip))


def test_before_any_round_it_is_the_model():
    head = start()
    np.testing.assert_array_equal(head.decision_function(PUBLIC), PUBLIC[:, 3:])
    assert (head.predict(PUBLIC) == TRUTH).mean() < 0.9


def test_records_put_the_model_right():
    head = start()
    better = head.updated(asked(head, 2.0, seed=0), SPACE.transform(PUBLIC))
    assert (better.predict(PUBLIC) == TRUTH).mean() > (head.predict(PUBLIC) == TRUTH).mean() + 0.08
    np.testing.assert_array_equal(head.decision_function(PUBLIC), PUBLIC[:, 3:])  # and the first head stays


def test_noise_alone_leaves_it_nearly_as_it_is():
    head = start()
    noise = np.random.default_rng(0).normal(size=(20, 3)) * 5000.0
    noise -= noise.mean(axis=1, keepdims=True)
    release = SimpleNamespace(statistics=noise, sigma=5000.0, n_units=4000, classes=CLASSES, clip=0.5)
    corrected = head.updated(release, SPACE.transform(PUBLIC))
    np.testing.assert_allclose(corrected.predict_proba(PUBLIC), head.predict_proba(PUBLIC), atol=0.05)


def test_no_offset_and_no_space_is_the_likelihood_head():
    """Identity: of logits of nought it is a matched head of residuals of an even guess."""
    flat = PUBLIC.copy()
    flat[:, 3:] = 0.0
    head = CorrectedHead.of(SPACE, flat, CLASSES, tau=2.0)
    phi = SPACE.transform(flat)
    sums = phi.T @ (np.eye(3)[TRUTH] - 1 / 3) * 3
    told = {"sigma": 1.0, "n_units": 1800, "classes": CLASSES}
    one = head.updated(SimpleNamespace(statistics=sums, clip=2**0.5, **told), phi).predict_proba(flat)
    plain = LikelihoodHead(tau=2.0, max_iter=60).fit(SimpleNamespace(statistics=sums, **told), phi).predict_proba(phi)
    np.testing.assert_allclose(one, plain, atol=0.02)


def test_neighbouring_tables_differ_in_one_ballot():
    head, voters, y = start(), RecordVoters(None, SPACE, classes=CLASSES), np.array(CLASSES)[Y]
    other = Z.copy()
    other[5] = [np.nan, 1e300, 0, 9, -9, 3]
    one, two = (voters.cast_residuals(rows, y, head, clip=0.5) for rows in (Z, other))
    p = np.trunc(SPACE.transform(Z[5:6]) * 2**16)
    r = quantised_residuals(head.predict_proba(Z[5:6]), Y[5:6], 0.5)
    np.testing.assert_array_equal(one.sums - two.sums, (p.T @ r).astype(np.int64))  # an unusable row casts nothing


def test_what_it_cannot_do_is_said(tmp_path):
    with pytest.raises(InvalidInputError, match="starts from a public model"):
        CorrectedHead(SPACE).fit(None, None)
    with pytest.raises(InvalidInputError, match="cannot be kept alone"):
        start().save(tmp_path / "x")
    with pytest.raises(InvalidInputError, match="must end in the logits of 7"):
        CorrectedHead.of(SPACE, PUBLIC, range(7))
    with pytest.raises(InvalidInputError, match="residual"):
        start().updated(SimpleNamespace(statistics=np.zeros((20, 3)), sigma=1.0, n_units=9, classes=CLASSES), PUBLIC)
