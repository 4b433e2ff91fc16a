"""A residual ballot is its record's own, to the last bit: neighbours replayed with all others in other places."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_space import PlainModel
from sklearn.tree import DecisionTreeClassifier

from pate import RecordVoters
from pate.models.heads import (
    LabelPropagationHead,
    LeastSquaresHead,
    LikelihoodHead,
    SelfTrainedHead,
    residual_step,
)
from pate.records import SignedSpace
from pate.records.ballot_sum import quantised_residuals
from pate.representations._exact import own_product

#: The curator is warned of unusable records, which tests/estimators/test_unusable_records.py tests.
pytestmark = pytest.mark.filterwarnings("ignore::pate.exceptions.CuratorWarning")

RNG = np.random.default_rng(3)
PUBLIC = RNG.normal(size=(400, 37)) * np.geomspace(1, 50, 37)
X = RNG.normal(size=(1500, 37)) * np.geomspace(1, 50, 37)
Y = (X[:, :3] / np.geomspace(1, 50, 37)[:3] + RNG.normal(size=(1500, 3))).argmax(axis=1)
SPACE = SignedSpace(constant=0.4).fit(PUBLIC)
PHI = SPACE.transform(PUBLIC)


def released(clip=None):
    sums = SPACE.transform(X).T @ (np.eye(3)[Y] - 1 / 3) * (1 if clip is None else 0.2)
    sums += 5 * np.random.default_rng(4).normal(size=sums.shape)
    sums -= sums.mean(axis=1, keepdims=True)
    return SimpleNamespace(statistics=sums, sigma=5.0, n_units=1500, classes=(0, 1, 2), kind="signed", clip=clip)


def _heads():
    first = LeastSquaresHead().fit(released(), PHI)
    likely = LikelihoodHead(max_iter=20).fit(released(), PHI, features=PUBLIC)
    return {
        "least squares": first,
        "one step later": residual_step(first, released(0.5), PHI),
        "likelihood": LikelihoodHead(max_iter=20).fit(released(), PHI),
        "likelihood of features": likely,
        "two rounds": likely.updated(released(0.5), PHI),
        "self-trained": SelfTrainedHead().fit(first, PHI, features=PUBLIC),
    }


HEADS = _heads()


def rows_for(head, rows):
    return SPACE.transform(rows) if getattr(head, "takes", "phi") == "phi" else rows


@pytest.mark.parametrize("name", HEADS)
def test_a_row_has_the_same_probabilities_wherever_it_stands(name):
    head = HEADS[name]
    rows = rows_for(head, X)
    whole = head.predict_proba(rows)
    order = np.random.default_rng(0).permutation(1500)
    assert head.exact_
    assert (head.predict_proba(rows[order]) == whole[order]).all()
    assert (head.predict_proba(rows[::-1]) == whole[::-1]).all()
    assert (head.predict_proba(np.asfortranarray(rows)) == whole).all()
    assert all((head.predict_proba(rows[i : i + k])[0] == whole[i]).all() for i in range(0, 1490, 149) for k in (1, 3))


@pytest.mark.few(9)
@pytest.mark.parametrize("clip", [0.3, 1.2])
@pytest.mark.parametrize("name", HEADS)
def test_one_more_record_in_front_is_one_more_ballot(name, clip):
    """Under add-or-remove every other record then stands elsewhere; the statement vouches for this."""
    settings = {"adjacency": "add-or-remove", "nominal_n": 1500}
    voters, head = RecordVoters(None, SPACE, classes=3, **settings), HEADS[name]

    def cast(rows, y, groups=None):
        return voters.cast_residuals(rows, y, head, clip=clip, groups=groups)

    rest, whole = cast(X[1:], Y[1:]), cast(X, Y)
    own = cast(X[:1], Y[:1]).sums
    assert own.any()
    assert (whole.sums - rest.sums == own).all()
    assert whole.facts.own_maps
    assert whole.facts.own_model
    p = np.trunc(SPACE.transform(X[:1]) * 2**16)
    asked = (
        p / 2**16 if getattr(head, "takes", "phi") == "phi" else X[:1]
    )  # the direction that is cast is the one that it is asked with
    r = quantised_residuals(head.predict_proba(asked), Y[:1], clip)
    assert (own == (p.T @ r).astype(np.int64)).all()

    people = np.arange(1500) // 3
    grouped = cast(X, Y, groups=people)
    mine = people == 0
    assert (
        grouped.sums - cast(X[~mine], Y[~mine], groups=people[~mine]).sums
        == cast(X[mine], Y[mine], groups=people[mine]).sums
    ).all()
    assert grouped.facts.own_maps


def test_other_models_are_not_vouched_for():
    voters = RecordVoters(None, SPACE, classes=3)
    spread = LabelPropagationHead().fit(released(), PHI)
    assert not spread.exact_

    class Mine(LikelihoodHead):
        pass

    def facts(model, groups=None):
        return voters.cast_residuals(X, Y, model, clip=0.5, groups=groups).facts

    assert facts(spread).own_maps  # every other record keeps its place
    assert not facts(spread, np.arange(1500) // 2).own_maps
    others = (
        PlainModel(np.ones((SPACE.n_components_, 3))),  # it may look at a whole block
        Mine(max_iter=5).fit(released(), PHI),
        DecisionTreeClassifier(max_depth=1).fit(PHI, np.arange(len(PHI)) % 3),
    )
    for model in others:
        assert not facts(model).own_maps
        assert not facts(model).own_model


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", HEADS)
def test_a_record_that_no_model_can_be_asked_with_casts_the_zero_ballot(name, odd):
    voters, head = RecordVoters(None, SPACE, classes=3), HEADS[name]
    keep = np.arange(1500) != 700
    rows = X.copy()
    rows[700, 5] = odd
    without = voters.cast_residuals(X[keep], Y[keep], head, clip=0.5).sums
    assert (voters.cast_residuals(rows, Y, head, clip=0.5).sums == without).all()


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 90), st.integers(1, 5), st.integers(-300, 300))
def test_products_of_a_row_are_its_own(seed, n, d, m, far):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d)) * np.exp2(rng.integers(-20, 20, size=d))
    weights = rng.normal(size=(d, m)) * (rng.random((d, 1)) < 0.8)
    rows[0] *= 2.0**far
    whole = own_product(rows, weights)
    order = rng.permutation(n)
    assert (own_product(np.asfortranarray(rows[order]), weights) == whole[order]).all()
    assert (own_product(rows[-1:], np.asfortranarray(weights)) == whole[-1:]).all()
    most = (np.abs(rows) * np.abs(weights).max(axis=1)).max(axis=1, keepdims=True)
    assert (np.abs(whole - rows @ weights) <= most * d * 2.0**-20).all()


def test_products_of_huge_rows_are_finite():
    rows = np.array([[1e308, -1e308], [1e308, 1e308], [5e-324, 0.0], [0.0, 0.0]])
    found = own_product(rows, np.array([[1e300], [1e300]]))
    assert np.isfinite(found).all()
    assert found[1] > 0
    assert (found[3] == 0).all()
