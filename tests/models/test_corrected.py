"""A public model corrected by residuals: it starts as itself, learns from noisy sums, and a record has one ballot."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import numpy as np
import pytest

from pate import Budget, InvalidInputError, RecordVoters, open_ballot_session
from pate.exceptions import CuratorWarning
from pate.models.heads import CorrectedHead, LikelihoodHead
from pate.records import SoftSpace
from pate.records.ballot_sum import quantised_residuals

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
    given = {"sigma": 1.0, "n_units": 1800, "classes": CLASSES}
    one = head.updated(SimpleNamespace(statistics=sums, clip=2**0.5, **given), phi).predict_proba(flat)
    plain = LikelihoodHead(tau=2.0, max_iter=60).fit(SimpleNamespace(statistics=sums, **given), phi).predict_proba(phi)
    np.testing.assert_allclose(one, plain, atol=0.02)


def test_neighbouring_tables_differ_in_one_ballot():
    head, voters, y = start(), RecordVoters(None, SPACE, classes=CLASSES), np.array(CLASSES)[Y]
    other = Z.copy()
    other[5] = [np.nan, 1e300, 0, 9, -9, 3]
    one = voters.cast_residuals(Z, y, head, clip=0.5)
    with pytest.warns(CuratorWarning, match="1 of 4000 records cannot be used"):
        two = voters.cast_residuals(other, y, head, clip=0.5)
    p = np.trunc(SPACE.transform(Z[5:6]) * 2**16)
    r = quantised_residuals(head.predict_proba(Z[5:6]), Y[5:6], 0.5)
    np.testing.assert_array_equal(one.sums - two.sums, (p.T @ r).astype(np.int64))  # an unusable row casts nothing


class Mix(SoftSpace):
    """Takes the block's first row from every row, as a user's space may do."""

    def transform(self, X):
        z = np.asarray(X, dtype=float)
        return super().transform(z - 50 * z[:1])


def corrected(space):
    """Return a head that moves logits by directions of ``space``, the same amounts in any."""
    head = CorrectedHead.of(space, PUBLIC, CLASSES)
    head.coef_ = np.random.default_rng(0).normal(size=head.coef_.shape) * 5
    return head


def test_a_head_in_a_space_of_the_user_is_not_vouched_for():
    """One record moves the others' residuals there; and a statement must not say that pate saw to that."""
    voters, y = RecordVoters(None, SPACE, classes=CLASSES), np.array(CLASSES)[Y]
    mix = Mix(20, 4, n_dims=3, random_state=0).fit(PUBLIC)
    other = Z.copy()
    other[0] += 9
    one, two = (voters.cast_residuals(rows, y, corrected(mix), clip=0.5) for rows in (Z, other))
    assert np.linalg.norm((one.sums - two.sums).astype(float)) > one.delta
    assert (one.facts.own_maps, one.facts.own_model) == (False, False)
    assert not corrected(mix).exact_
    with open_ballot_session(Budget(1.0, 1e-5), shares=[1], classes=CLASSES, n_units=len(Y)) as session:
        by = {a.name: a.by for a in session.ask(one).statement.assumptions}
    assert "pate" not in (by["own row only"], by["public model"])


def test_a_head_in_pates_space_is_vouched_for_wherever_a_row_stands():
    head, y = corrected(SPACE), np.array(CLASSES)[Y]
    assert head.exact_
    assert not CorrectedHead().exact_
    settings = {"classes": CLASSES, "adjacency": "add-or-remove", "nominal_n": len(Y)}
    voters = RecordVoters(None, SPACE, **settings)
    whole, rest = (voters.cast_residuals(Z[a:], y[a:], head, clip=0.5) for a in (0, 1))
    assert (whole.sums - rest.sums == voters.cast_residuals(Z[:1], y[:1], head, clip=0.5).sums).all()
    assert (whole.facts.own_maps, whole.facts.own_model) == (True, True)


def test_a_space_is_exact_only_if_it_says_so():
    """Own, yet places may show: vouched for where every other record keeps its place, and nowhere else."""
    space, y = copy.deepcopy(SPACE), np.array(CLASSES)[Y]
    space.exact_ = False
    head = corrected(space)
    facts = RecordVoters(None, SPACE, classes=CLASSES).cast_residuals(Z, y, head, clip=0.5).facts
    assert (facts.own_maps, facts.own_model) == (True, True)
    grouped = RecordVoters(None, SPACE, classes=CLASSES).cast_residuals(Z, y, head, clip=0.5, groups=Y).facts
    assert not grouped.own_maps


def test_the_same_weights_in_another_space_are_another_head():
    other = SoftSpace(20, 4, n_dims=3, random_state=1).fit(PUBLIC)
    assert corrected(SPACE).fingerprint() == corrected(copy.deepcopy(SPACE)).fingerprint()
    assert corrected(SPACE).fingerprint() != corrected(other).fingerprint()


def test_unsupported_methods_are_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="starts from a public model"):
        CorrectedHead(SPACE).fit(None, None)
    with pytest.raises(InvalidInputError, match="cannot be saved without the model"):
        start().save(tmp_path / "x")
    with pytest.raises(InvalidInputError, match="must end in the logits of 7"):
        CorrectedHead.of(SPACE, PUBLIC, range(7))
    with pytest.raises(InvalidInputError, match="residual"):
        start().updated(SimpleNamespace(statistics=np.zeros((20, 3)), sigma=1.0, n_units=9, classes=CLASSES), PUBLIC)
