"""Ballot spaces: public, of length at most 1, each row by itself, and the same again from a file."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from pate import InvalidInputError, load_dataset
from pate.privacy.words import Sensitive
from pate.records import HardSpace, RecordVoters, SignedSpace, SoftSpace, load_space

Z = np.random.default_rng(0).normal(size=(300, 6)) * [9, 5, 3, 1, 0.5, 0.1]
SPACES = [
    SoftSpace(n_centres=30, k=5, random_state=0),
    SoftSpace(n_centres=30, k=5, cosine=True, random_state=0),
    HardSpace(n_centres=30, random_state=0),
    SignedSpace(),
    SignedSpace(n_components=3, alpha=1.0, constant=0.7),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_directions_are_within_the_unit_ball(space):
    space = clone(space).fit(Z)
    phi = space.transform(np.concatenate([Z * 1e9, Z * 0, Z]))
    assert phi.shape == (900, space.n_components_)
    assert np.square(phi).sum(axis=1).max() <= 1 + 1e-12
    assert np.square(phi[600:]).sum(axis=1).min() > 1 - 1e-9
    assert space.kind == "signed" or phi.min() >= 0
    odd = space.transform([[np.nan, 0, 0, 0, 0, 0], [0, np.inf, 0, 0, 0, 0]])
    assert not odd.any()


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_saved_and_loaded_it_is_the_same(space, tmp_path):
    space = clone(space).fit(Z)
    space.save(tmp_path / "s.safetensors")
    again = load_space(tmp_path / "s.safetensors")
    assert again.fingerprint() == space.fingerprint()
    assert (again.transform(Z) == space.transform(Z)).all()
    assert (type(again), again.provenance_, again.kind) == (type(space), space.provenance_, space.kind)
    assert clone(space).fit(Z + 0.5).fingerprint() != space.fingerprint()


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"nothing")
    for path in (tmp_path / "a", tmp_path / "none"):
        with pytest.raises(InvalidInputError, match="must be a file written by pate"):
            load_space(path)


def test_soft_weights_are_those_of_the_recipe():
    space = SoftSpace(n_centres=30, k=5, random_state=0).fit(Z)
    apart = np.square(Z[:, None] - space.centres_[None]).sum(axis=2)
    s = -apart
    weights = np.maximum(s - np.sort(s, axis=1)[:, -6][:, None], 0)
    weights /= np.sqrt(np.square(weights).sum(axis=1, keepdims=True))
    found = space.transform(Z)
    assert np.abs(found - weights).max() < 1e-5  # steps of a 4-millionth of the range
    assert ((found > 1e-12).sum(axis=1) <= 5).all()
    hard = HardSpace(n_centres=30, random_state=0).fit(Z)
    assert (hard.transform(Z).argmax(axis=1) == apart.argmin(axis=1)).all()


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_a_row_is_the_same_to_the_last_bit_wherever_it_stands(space):
    """In blocks of any shape: all sums are of whole numbers."""
    space = clone(space).fit(Z)
    whole = space.transform(Z)
    order = np.random.default_rng(1).permutation(300)
    assert (space.transform(Z[order]) == whole[order]).all()
    assert all((space.transform(Z[i : i + k])[0] == whole[i]).all() for i in range(0, 290, 29) for k in (1, 2, 3, 7))


def test_far_rows_are_clipped_to_twice_the_public_range():
    for space in map(clone, SPACES):
        space.fit(Z)
        edge = np.clip(Z * 100, 1.5 * Z.min(axis=0) - 0.5 * Z.max(axis=0), 1.5 * Z.max(axis=0) - 0.5 * Z.min(axis=0))
        if not getattr(space, "cosine", False):
            assert np.abs(space.transform(Z * 100) - space.transform(edge)).max() < 1e-9


def test_whitening_is_partial():
    for alpha in (0.0, 0.5, 1.0):
        space = SignedSpace(alpha=alpha).fit(Z)
        z = (Z - space.mean_) @ space.components_
        assert np.allclose(z.var(axis=0), space.variances_ ** (1 - alpha))
        unit = z / np.sqrt(np.square(z).sum(axis=1, keepdims=True))
        assert np.abs(space.transform(Z) - unit).max() < 1e-4
    assert SignedSpace().fit(np.c_[Z, Z[:, 0]]).n_components_ == 6  # a column twice is no direction more


def test_settings_that_do_not_fit_are_refused():
    for space, match in (
        (SoftSpace(n_centres=301), "n_centres must be"),
        (SoftSpace(n_centres=10, k=10), "k must be"),
        (SignedSpace(alpha=2.0), "alpha must be"),
        (SignedSpace(n_components=0), "n_components must be"),
    ):
        with pytest.raises(InvalidInputError, match=match):
            space.fit(Z)
    with pytest.raises(InvalidInputError, match="public rows that are all equal"):
        SignedSpace().fit(np.ones((9, 2)))
    with pytest.raises(InvalidInputError, match="finite numbers"):
        SignedSpace().fit(np.full((9, 2), np.nan))


def test_private_things_cannot_be_fitted_on():
    ballots = RecordVoters(None, SignedSpace().fit(Z), classes=2).cast(Z, [0, 1] * 150)
    private = load_dataset("digits").private
    for thing in (ballots, private, Sensitive(Z)):
        with pytest.raises(InvalidInputError, match="which is private"):
            SignedSpace().fit(thing)


def test_what_is_fitted_does_not_know_private_rows():
    """The same public rows beside other private ones: the same space, to the last bit."""
    digests = set()
    for seed in range(3):
        private = np.random.default_rng(seed).normal(size=(50, 6))
        space = SoftSpace(n_centres=9, k=3, random_state=0).fit(Z)
        RecordVoters(None, space, classes=2).cast(private, [0, 1] * 25)
        digests.add(space.fingerprint())
    assert len(digests) == 1
