"""One teacher trained again in the same cut: what a whole fit on the neighbouring data would give."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.tree import DecisionTreeClassifier

from pate import HeadTeacherEnsemble, TeacherEnsemble
from pate.exceptions import CuratorWarning, InvalidInputError

DIGITS = load_digits(return_X_y=True)
X, Y = DIGITS[0][:300] / 16, DIGITS[1][:300]
PUBLIC = DIGITS[0][300:360] / 16


def trees():
    return TeacherEnsemble(
        DecisionTreeClassifier(max_features=8), 12, classes=range(10), random_state=0, partition_seed=3
    )


def torches():
    pytest.importorskip("torch")
    from pate import TorchTeacherEnsemble
    from pate.networks import MLP

    return TorchTeacherEnsemble(MLP, 12, classes=range(10), epochs=2, device="cpu", random_state=0, partition_seed=3)


def heads():
    from pate.representations import PublicPCA

    return HeadTeacherEnsemble(PublicPCA(8).fit(PUBLIC), 12, classes=range(10), random_state=0, partition_seed=3)


def neighbour(record=7):
    moved, labels = X.copy(), Y.copy()
    moved[record] *= -5
    labels[record] = (labels[record] + 1) % 10
    return moved, labels


@pytest.mark.few(2)
@pytest.mark.parametrize("make", [trees, torches, heads])
def test_it_gives_what_a_whole_fit_would(make):
    teachers = make().fit(X, Y)
    shard = int(teachers.partition_.assignment[7])
    before = teachers.vote(PUBLIC).labels.copy()
    moved = teachers.with_shard(*neighbour(), shard=shard).vote(PUBLIC).labels
    whole = clone(teachers).fit(*neighbour()).vote(PUBLIC).labels
    np.testing.assert_array_equal(moved, whole)
    assert set(np.flatnonzero((moved != before).any(axis=1))) <= {shard}
    np.testing.assert_array_equal(teachers.with_shard(X, Y, shard=shard).vote(PUBLIC).labels, before)
    np.testing.assert_array_equal(teachers.vote(PUBLIC).labels, before)  # the first ones are as they were


def test_groups_stay_where_they_are():
    groups = np.arange(300) // 3
    teachers = trees().fit(X, Y, groups=groups)
    shard = int(teachers.partition_.assignment[7])
    moved = teachers.with_shard(*neighbour(), groups=groups, shard=shard).vote(PUBLIC).labels
    np.testing.assert_array_equal(moved, clone(teachers).fit(*neighbour(), groups=groups).vote(PUBLIC).labels)


@pytest.mark.filterwarnings("ignore::pate.exceptions.CuratorWarning")
def test_a_shard_without_a_usable_record_has_no_teacher():
    teachers = trees().fit(X, Y)
    labels = Y.copy()
    labels[teachers.partition_.shard(4)] = 77
    moved = teachers.with_shard(X, labels, shard=4)
    assert moved.teachers_[4] is None
    assert 4 in moved.failed_
    assert (moved.vote(PUBLIC).labels[4] == 4).all()  # its fixed class
    with pytest.warns(CuratorWarning):
        whole = clone(teachers).fit(X, labels)
    np.testing.assert_array_equal(moved.vote(PUBLIC).labels, whole.vote(PUBLIC).labels)


def test_bad_input_is_refused():
    teachers = trees().fit(X, Y)
    with pytest.raises(InvalidInputError, match="number of records"):
        teachers.with_shard(X[:-1], Y[:-1], shard=0)
    with pytest.raises(InvalidInputError, match="shard must be"):
        teachers.with_shard(X, Y, shard=12)
