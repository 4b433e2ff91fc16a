"""One rule for private records that cannot be used, anyone who takes them: no record decides whether there is a
release.

One record is made unusable in every way there is. All ways must give the same release, bit by bit (noise and cut are
seeded), as what it contributes is fixed; and where all records are such there is a release as well.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from dpsgd_steps import by_value
from pate_of import pate_of
from sklearn.naive_bayes import GaussianNB
from torch import nn

from pate import (
    Budget,
    DPSGDClassifier,
    HeadTeacherEnsemble,
    RecordVoters,
    TeacherEnsemble,
    TorchTeacherEnsemble,
)
from pate.comparison.baselines import PrivateKNN
from pate.dpsgd._run import build_engine
from pate.dpsgd._units import Units
from pate.dpsgd.clipping import AutomaticClipping, FlatClipping, PerLayerClipping
from pate.dpsgd.engines import BookKeepingEngine, PerRecordEngine
from pate.estimators.selection import private_select
from pate.exceptions import CuratorWarning
from pate.networks import Linear
from pate.privacy.noise.source import NoiseSource
from pate.records import SignedSpace
from pate.representations import PublicPCA

N, D, WHO = 60, 3, 7
RNG = np.random.default_rng(0)
LABELS = RNG.integers(2, size=N)
ROWS = (RNG.normal(size=(N, D)) + 2 * LABELS[:, None]).round(2)
PUBLIC = np.concatenate([ROWS[::2] + 0.01, 4.0 - ROWS[1::2]]).round(3)
BUDGET = Budget(50.0, 1e-3)
#: What stands in place of a class: any object may.
NO_CLASS = (None, float("nan"), 2, {}, [1, 0], 10**400)
#: What stands in place of a row of numbers.
NO_ROW = (
    [np.nan] * D, ["x", 1, 2], [1, 2], None, "a text", [{}, 1, 2], [[1], [2], [3, 4]], [1j, np.inf, 10**400],
)  # fmt: skip


def weights_of(clf):
    return np.concatenate([p.detach().numpy().ravel() for p in clf.module_.parameters()])


def dpsgd(module="linear", **options):
    settings = {
        "budget": BUDGET, "classes": (0, 1), "epochs": 2, "expected_batch_size": 20, "noise_seed": 1,
        "random_state": 0, **options,
    }  # fmt: skip
    return DPSGDClassifier(module, **by_value(**settings))


def planned():
    return dpsgd(None, epochs=None, expected_batch_size=None)


def pate(**options):
    settings = {
        "budget": BUDGET, "classes": (0, 1), "noise_seed": 1, "random_state": 0, "overlap_is_public": True,
        "force": True, **options,
    }  # fmt: skip
    return pate_of(**settings)


def votes(ensemble, X, y, g):
    return ensemble.fit(X, y, groups=g, X_public=PUBLIC).vote(PUBLIC).counts


def of_shards(**options):
    return lambda X, y, g: pate(partition_seed=0, **options).fit(X, y, X_public=PUBLIC, groups=g).release_.labels


SPACE = SignedSpace().fit(PUBLIC)
CUT = {"classes": (0, 1), "random_state": 0, "partition_seed": 0}
PCA = PublicPCA(2).fit(PUBLIC)
#: Name to a release of (X, y, groups), and whether a row that is no row of numbers is unusable there (else its cells
#: are filled in by what public rows say, which is its own matter too).
TAKERS = {
    "teachers": (lambda X, y, g: votes(TeacherEnsemble(GaussianNB(), 4, **CUT), X, y, g), True),
    "torch teachers": (
        lambda X, y, g: votes(TorchTeacherEnsemble(Linear, 4, epochs=1, batch_size=8, **CUT), X, y, g),
        True,
    ),
    "head teachers": (lambda X, y, g: votes(HeadTeacherEnsemble(PCA, 4, **CUT), X, y, g), False),
    "record voters": (lambda X, y, g: RecordVoters(None, SPACE, classes=(0, 1)).cast(X, y, groups=g).sums, True),
    "PATE by records": (
        lambda X, y, g: pate().fit(X, y, X_public=PUBLIC, groups=g).predict_proba(PUBLIC),
        False,
    ),
    "PATE by shards": (of_shards(estimator=GaussianNB(), n_teachers=4, n_queries=5), True),
    "PATE by heads": (of_shards(voters="heads", n_teachers=4, n_queries=5), False),
    "DP-SGD": (lambda X, y, g: weights_of(dpsgd().fit(X, y, X_public=PUBLIC, groups=g)), True),
    "DP-SGD by factorisation": (
        lambda X, y, g: weights_of(dpsgd(mechanism="ftrl").fit(X, y, X_public=PUBLIC, groups=g)),
        True,
    ),
    "DP-SGD by a recipe": (
        lambda X, y, g: weights_of(planned().fit(X, y, X_public=PUBLIC, groups=g)),
        False,
    ),
    "private kNN": (
        lambda X, y, g: PrivateKNN(
            budget=BUDGET, classes=(0, 1), random_state=0, noise_seed=1, overlap_is_public=True, n_queries=5
        ).fit(X, y, X_public=PUBLIC, groups=g).release_.labels,
        False,
    ),
    "private selection": (
        lambda X, y, g: weights_of(
            private_select(
                {"a": dpsgd(classes=None, noise_seed=None)},
                X,
                y,
                X_public=PUBLIC,
                budget=Budget(1.0, 1e-3),
                classes=(0, 1),
                groups=g,
                noise_seed=3,
            ).winner
        ),
        True,
    ),
}  # fmt: skip


#: A fit of these takes a while: some of the ways will do.
LONG = ("PATE by records", "DP-SGD by a recipe", "private kNN", "private selection")


ALL = [
    taker if taker in ("teachers", "record voters")
    else pytest.param(taker, marks=[pytest.mark.long, *([pytest.mark.sample] if taker == "PATE by heads" else [])])
    for taker in TAKERS
]  # fmt: skip


def released(taker, X, y, groups=None):
    """Return what is released, and the curator's warnings of unusable records."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = TAKERS[taker][0](X, y, groups)
    warned = [str(w.message) for w in said if w.category is CuratorWarning and "cannot be used" in str(w.message)]
    return np.asarray(found), warned


def with_one(values, odd):
    changed = list(values)
    changed[WHO] = odd
    return changed


@pytest.mark.long
@pytest.mark.parametrize("taker", ALL)
def test_every_way_of_being_unusable_gives_the_same_release(taker):
    rows, y = ROWS.tolist(), LABELS.tolist()
    first, warned = released(taker, rows, with_one(y, "?"))
    assert warned
    assert all(f"1 of {N} records cannot be used and contributes nothing" in one for one in warned)
    assert all("do not publish" in one for one in warned)
    some = slice(1, 4) if taker in LONG else slice(None)
    for odd in NO_CLASS[some]:
        again, _ = released(taker, rows, with_one(y, odd))
        assert np.array_equal(again, first), odd
    for odd in NO_ROW[some]:
        again, _ = released(taker, with_one(rows, odd), y)
        assert again.shape == first.shape
        if TAKERS[taker][1]:
            assert np.array_equal(again, first), odd
    usual, warned = released(taker, rows, y)
    assert usual.shape == first.shape
    assert not warned


@pytest.mark.long
@pytest.mark.parametrize("taker", ALL)
def test_where_no_record_is_left_there_is_a_release_as_beside_one_that_is(taker):
    rows, y = ROWS.tolist(), LABELS.tolist()
    for X, labels, n in (
        (rows, ["?"] * N, N),
        (rows, with_one(["?"] * N, y[WHO]), N - 1),
        (with_one([["x"] * D] * N, rows[WHO]), y, N - 1),
        ([["x"] * D] * N, y, N),
    ):
        found, warned = released(taker, X, labels)
        assert len(found)
        # What texts are to a candidate of a selection, the candidate says, and what it says of a run is not shown.
        if labels is not y or (TAKERS[taker][1] and taker != "private selection"):
            assert f"{n} of {N} records" in warned[0]
            assert ("NO RECORD IS LEFT" in warned[0]) == (n == N)


@pytest.mark.long
def test_a_record_without_an_owner_is_of_no_unit():
    people = [f"p{i // 2}" for i in range(N)]
    for taker in ("teachers", "record voters", "DP-SGD"):
        first, warned = released(taker, ROWS, LABELS, with_one(people, None))
        assert warned
        assert "1 with no owner in groups" in warned[0]
        for odd in (float("nan"), " ", {}):
            assert np.array_equal(released(taker, ROWS, LABELS, with_one(people, odd))[0], first)
        # Nor does what else it holds count: it is in no sample.
        assert np.array_equal(released(taker, -ROWS * (np.arange(N) == WHO)[:, None] + ROWS, LABELS,
                                       with_one(people, None))[0], first)  # fmt: skip


class Smooth(nn.Module):
    def __init__(self, *, n_features, n_classes):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n_features, 4), nn.Tanh(), nn.Linear(4, n_classes))

    def forward(self, x):
        return self.layers(x)


class Dropping(Smooth):
    def __init__(self, **facts):
        super().__init__(n_features=D, n_classes=2)
        self.layers.insert(1, nn.Dropout(0.3))


@pytest.mark.long
def test_the_gradient_of_an_unusable_record_is_zero_whatever_engine_clipping_and_unit():
    usable = np.arange(N) // 3 != WHO // 3
    rows = np.where(usable[:, None], ROWS, 0).astype(np.float32)
    for module, kind in ((Smooth, BookKeepingEngine), (Dropping, PerRecordEngine)):
        torch.manual_seed(0)
        engine = build_engine(module, D, 2)
        assert isinstance(engine, kind)
        for owners, k in ((None, 1), (np.arange(N) // 3, 2)):
            units = Units(rows, np.where(usable, LABELS, -1), owners, k, usable=usable)
            gone = np.unique(np.arange(N)[~usable] if owners is None else owners[~usable])
            others = np.setdiff1d(np.arange(units.n_units), gone)
            assert units.n_units == (N if owners is None else N // 3)
            whole = units.take(np.arange(units.n_units), NoiseSource(5))
            left = np.isin(np.repeat(np.arange(units.n_units), units.rows_per_unit), others)
            for clip in (FlatClipping(0.1), PerLayerClipping(0.1), AutomaticClipping(0.1)):
                sums = []
                for taken in (whole, [part[left] for part in whole], [part[~left] for part in whole]):
                    X, y, weights = taken
                    options = {"rows_per_unit": units.rows_per_unit, "seed": 0, "shared": True}
                    sums.append(
                        torch.cat([g.flatten() for g in engine.clipped_sum(X, y, clip, weights=weights, **options)])
                    )
                torch.testing.assert_close(sums[0], sums[1], rtol=1e-6, atol=1e-7)
                assert float(sums[1].norm()) > 0
                assert not sums[2].any()


@pytest.mark.few(1)
@pytest.mark.parametrize("form", [lambda X: X.astype(object), np.ma.array, lambda X: pd.DataFrame(X).astype("Float64")])
def test_one_infinity_is_its_records_own_matter_in_whatever_holds_it(form):
    X, y = np.random.default_rng(0).normal(size=(40, 3)), [0, 1] * 20
    X[3, 1] = np.inf
    with pytest.warns(CuratorWarning, match="1 of 40 records cannot be used"):
        DPSGDClassifier("linear", budget=Budget(3.0, 1e-3), classes=[0, 1], expected_batch_size=8).fit(form(X), y)
