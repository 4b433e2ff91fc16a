"""Descent by noisy sums: what its steps are, what is known of their noise, and where it comes to rest."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pate import Budget, RecordVoters, open_ballot_session
from pate.exceptions import InvalidInputError
from pate.models.heads import DescentHead, LikelihoodHead, LinearHead, load_head
from pate.models.heads._descent import _groups
from pate.models.heads._linear import softmax
from pate.records import SignedSpace


def released(statistics, sigma, *, n=1_000, clip=0.1, classes=(0, 1)):
    return SimpleNamespace(
        statistics=np.asarray(statistics, dtype=float), sigma=sigma, n_units=n, classes=classes, clip=clip
    )


def test_groups_are_all_components_once_and_the_constant_by_itself():
    for d in (1, 2, 4, 5, 9, 100):
        for constant in (False, True):
            parts = list(_groups(d, constant=constant))
            assert np.concatenate([np.arange(d)[part] for part in parts]).tolist() == list(range(d))
            assert not constant or d == 1 or parts[-1] == slice(d - 1, d)


@pytest.mark.long
def test_the_noise_of_all_rounds_is_what_was_asked_for():
    """Statistical: sums of nothing but noise give weights of the documented standard deviation."""
    rng = np.random.default_rng(0)
    sums = []
    for _ in range(1_200):
        head = DescentHead(n_rounds=8, constant=False).start(5, (0, 1))
        for sigma in (3.0, 3.0, 3.0, 3.0, 9.0, 9.0, 9.0, 9.0):
            head = head.updated(released(rng.normal(size=(5, 2)) * sigma, sigma))
        sums.append(head.sum_)
    assert head.variance_ == pytest.approx(1.6**2)
    # Rows are centred, which takes half of two classes' variance.
    assert np.var(sums) == pytest.approx(1.6**2 / 2, rel=0.06)


def test_without_noise_steps_are_no_longer_than_the_longest():
    head = DescentHead(n_rounds=1, constant=False).start(1, (0, 1))
    sure = head.updated(released([[100.0, -100.0]], 0.0))  # 1,000 records of one mind, each clipped to 0.1
    assert sure.sum_.max() == pytest.approx(200.0)
    assert sure.variance_ == 0
    np.testing.assert_array_equal(sure.coef_, sure.sum_)


def test_what_is_lost_in_noise_is_shrunk_and_the_rest_is_not():
    head = DescentHead(n_rounds=1, constant=False).start(8, (0, 1))
    votes = np.zeros((8, 2))
    votes[:4] = [500.0, -500.0]
    found = head.updated(released(votes, 1.0))
    assert found.coef_[:4] == pytest.approx(found.sum_[:4], rel=1e-3)
    votes[4:] = [0.1, -0.1]
    found = head.updated(released(votes, 1.0))
    assert found.coef_[4:] == pytest.approx(0.25 * found.sum_[4:])


def test_its_fixed_point_is_where_clipped_residuals_cancel():
    """Property: almost without noise, the residual sum goes to nothing, whatever the public rows are."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2_000, 3))
    y = (X @ [2.0, -1.0, 0.0] + rng.logistic(size=2_000) > 0).astype(int)
    voters = RecordVoters(None, SignedSpace(constant=0.2).fit(X[:200]), classes=(0, 1))
    held = voters.hold(X, y)
    head = DescentHead(n_rounds=60).start(voters.space.n_components_, (0, 1))
    first = voters.cast_residuals(held, model=head, clip=0.1)
    for _ in range(60):
        cast = voters.cast_residuals(held, model=head, clip=0.1)
        head = head.updated(released(cast.sums / 2.0**32, 3.0, n=2_000))
    last = voters.cast_residuals(held, model=head, clip=0.1)
    assert np.abs(last.sums).max() < 0.1 * np.abs(first.sums).max()
    assert (head.predict(voters.transform(X)) == y).mean() > 0.8


def test_a_session_of_rounds_learns_and_a_file_holds_it(tmp_path):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(3_000, 4))
    y = (X[:, 0] > 0).astype(int)
    voters = RecordVoters(None, SignedSpace(constant=0.2).fit(X[:300]), classes=(0, 1))
    head = DescentHead(n_rounds=10).start(voters.space.n_components_, (0, 1))
    with open_ballot_session(Budget(1.0, 1e-5), shares=[0.1] * 10, classes=(0, 1), n_units=3_000) as session:
        for _ in range(10):
            head = head.updated(session.ask(voters.cast_residuals(X, y, head, clip=0.1)))
    phi = voters.transform(X)
    assert (head.predict(phi) == y).mean() > 0.9
    np.testing.assert_array_equal(head.predict_proba(phi), softmax(head.decision_function(phi)))
    head.save(tmp_path / "head.safetensors")
    again = load_head(tmp_path / "head.safetensors")
    assert again.fingerprint() == head.fingerprint()
    np.testing.assert_array_equal(again.predict_proba(phi), head.predict_proba(phi))


@pytest.mark.parametrize(
    ("release", "said"),
    [
        (released([[1.0, -1.0]], 1.0, clip=None), "residual ballots"),
        (released([[1.0, -1.0]] * 2, 1.0), "one space"),
        (released([[1.0, -1.0]], 1.0, classes=("a", "b")), "same classes"),
        (released([[1.0, -1.0]], float("nan")), "sigma"),
    ],
)
def test_what_does_not_belong_to_it_is_refused(release, said):
    head = DescentHead(n_rounds=2, constant=False).start(1, (0, 1))
    with pytest.raises(InvalidInputError, match=said):
        head.updated(release)


def test_other_rounds_and_settings_are_refused():
    head = DescentHead(n_rounds=1, constant=False).start(1, (0, 1)).updated(released([[1.0, -1.0]], 1.0))
    with pytest.raises(InvalidInputError, match="has had its 1 rounds"):
        head.updated(released([[1.0, -1.0]], 1.0))
    with pytest.raises(InvalidInputError, match="n_rounds"):
        DescentHead(n_rounds=0).start(1, (0, 1))
    with pytest.raises(InvalidInputError, match="round by round"):
        DescentHead().fit(released([[1.0, -1.0]], 1.0), [[1.0]])
    assert not isinstance(head, LikelihoodHead)


@pytest.mark.parametrize("width", [1, 9, 257])
@pytest.mark.parametrize("n_classes", [2, 3, 11])
def test_a_prepared_head_answers_to_the_same_bit(width, n_classes):
    """Rows in whole numbers, of very different sizes, zero ones and weights of zero among them."""
    rng = np.random.default_rng(width)
    coef = rng.normal(size=(width, n_classes)) * np.exp(3 * rng.normal(size=(width, 1)))
    coef[rng.integers(width)] = 0.0
    whole = rng.integers(-(2**16), 2**16, size=(700, width)) >> rng.integers(0, 17, size=(700, 1))
    head = LinearHead.of(coef, tuple(range(n_classes)))
    np.testing.assert_array_equal(head.prepared(2.0**-16)(whole.astype(float)), head.predict_proba(whole / 2**16))


def test_a_head_with_logits_of_its_own_is_asked_itself():
    class Other(LinearHead):
        def decision_function(self, phi):
            return np.zeros((len(phi), 2))

    head = Other()
    head.coef_, head.classes_ = np.eye(2), (0, 1)
    assert (head.prepared(0.5)(np.eye(2)) == 0.5).all()


def test_steps_that_overshoot_get_shorter():
    # One direction that all rows share, and labels that are wrong for one in four: full steps go to and fro for ever.
    rng = np.random.default_rng(0)
    n, clip = 20_000, 0.1
    y = (rng.random(n) < 0.75).astype(int)
    residual_of = np.eye(2)[y]
    head, seen = DescentHead(n_rounds=40, constant=False).start(1, (0, 1)), []
    for _ in range(40):
        residuals = residual_of - head.predict_proba(np.ones((1, 1)))
        short = np.minimum(1, clip / np.maximum(np.linalg.norm(residuals, axis=1), 1e-12))
        sums = (residuals * short[:, None]).sum(axis=0, keepdims=True)
        release = SimpleNamespace(statistics=sums, sigma=0.5, n_units=n, classes=(0, 1), clip=clip)
        head = head.updated(release)
        seen.append(float(head.coef_[0, 1] - head.coef_[0, 0]))
    assert np.ptp(seen[-10:]) < 1
    assert 2 < seen[-1] < 6
