"""Planned fits under attack: whose maps they were, what a row's place does, and what an error or a file says."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from dpsgd_steps import by_value
from torch import nn

from pate import Budget, DPSGDClassifier
from pate.dpsgd._canaries import Canaries
from pate.exceptions import CuratorWarning, InvalidInputError
from pate.representations import FromModule, KernelPCA

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 5))
Y = (X[:, 0] > 0).astype(int)
PUBLIC, PRIVATE = slice(0, 200), slice(200, 600)
NOMINAL = {"adjacency": "add-or-remove", "nominal_n": 400}


def make(**more):
    return DPSGDClassifier(**by_value(**{"budget": Budget(3.0, 1e-5), "classes": [0, 1], "epochs": 1, **more}))


def said(clf):
    return {a.name: a for a in clf.statement_.assumptions}


@pytest.mark.few(2)
@pytest.mark.parametrize("recipe", [None, "unit-rows", "tabular-kernel", "pretrained"])
def test_a_callers_representation_is_never_vouched_for(recipe):
    """It may have been fitted on the private rows, by whatever recipe it comes in."""
    seen = KernelPCA(8).fit(X[PRIVATE])
    clf = make(recipe=recipe, representation=seen).fit(X[PRIVATE], Y[PRIVATE], X_public=X[PUBLIC])
    assert said(clf)["preprocessing"].by == "nobody"
    assert seen.provenance_ in said(clf)["preprocessing"].how
    assert said(clf)["public rows"].by == "nobody"


def test_rows_that_are_called_public_are_an_assumption():
    clf = make().fit(X[PRIVATE], Y[PRIVATE], X_public=X[PUBLIC])
    assert (said(clf)["preprocessing"].by, said(clf)["public rows"].by) == ("pate", "nobody")
    assert "public rows" not in said(make().fit(X[PRIVATE], Y[PRIVATE]))


def test_private_rows_do_not_pass_for_public_ones():
    frame = pd.DataFrame(X).rename(columns=str)
    for rows, public in [(X, X), (frame, frame), (X, X[:200]), (X[:300], X[299:])]:
        clf = make()
        with pytest.raises(InvalidInputError, match="X_public must be other rows"):
            clf.fit(rows, Y[: len(rows)], X_public=public)
        assert not hasattr(clf, "statement_")


@pytest.mark.long
@pytest.mark.parametrize(
    ("more", "groups", "own", "exact"),
    [
        ({}, None, "pate", "pate"),
        (NOMINAL, None, "nobody", "pate"),
        ({"expected_batch_size": 50}, np.arange(400) // 2, "nobody", "pate"),
    ],
)
def test_a_place_that_shows_in_last_bits_is_said_where_neighbours_move_it(monkeypatch, more, groups, own, exact):
    representation = KernelPCA(8).fit(X[PUBLIC])
    clf = make(representation=representation, **more).fit(X[PRIVATE], Y[PRIVATE], groups=groups)
    assert said(clf)["own row only"].by == exact
    monkeypatch.setattr(KernelPCA, "exact_", False)
    clf.fit(X[PRIVATE], Y[PRIVATE], groups=groups)
    assert said(clf)["own row only"].by == own


def test_a_callers_module_is_not_vouched_for():
    module = FromModule(nn.Linear(5, 3), provenance="made up", one_by_one=True).fit(X[PUBLIC])
    clf = make(representation=module).fit(X[PRIVATE], Y[PRIVATE])
    assert said(clf)["own row only"].by == "nobody"


@pytest.mark.parametrize("rows", [np.zeros((377, 0)), np.zeros(377), ["a text"] * 377])
@pytest.mark.parametrize("module", [None, "linear"])
def test_an_error_tells_no_number_of_records(rows, module):
    more = {"module": module, "expected_batch_size": 50} if module else {}
    with pytest.raises(InvalidInputError) as caught:
        make(**NOMINAL, **more).fit(rows, Y[:377])
    assert "377" not in str(caught.value)
    if not module:
        representation = KernelPCA(8).fit(X[PUBLIC])
        with pytest.raises(InvalidInputError) as caught:
            make(representation=representation, **NOMINAL).fit(rows, Y[:377])
        assert "377" not in str(caught.value)


@pytest.mark.long
def test_canaries_of_a_table_in_a_run_that_is_kept(tmp_path):
    table = pd.DataFrame({"a": X[:, 0], "town": np.array(["Oslo", "Rome"])[Y]})
    canaries = Canaries(X=table[PUBLIC][:10], y=Y[:10])
    clf = make(checkpoint_dir=tmp_path / "run.safetensors")
    clf.fit(table[PRIVATE], Y[PRIVATE], X_public=table[PUBLIC], canaries=canaries)
    assert len(clf.canaries_.scores) == 10


def test_a_model_keeps_the_map_that_it_was_trained_behind():
    representation = KernelPCA(8).fit(X[PUBLIC])
    clf = make(representation=representation).fit(X[PRIVATE], Y[PRIVATE])
    before = clf.predict_proba(X[:20])
    representation.fit(3.0 * X[PRIVATE] - 5.0)
    assert (clf.predict_proba(X[:20]) == before).all()


@pytest.mark.few(1)
@pytest.mark.parametrize("cell", ["Ms Smith", None, float("inf"), 10**400, True])
def test_a_cell_of_another_kind_changes_no_other_row_and_no_setting(cell):
    """One private cell makes objects of a whole column."""
    table = pd.DataFrame({"n": np.arange(600) % 50, "x": X[:, 1], "b": X[:, 2] > 0, "c": np.array(list("uvw"))[Y]})
    odd = table[PRIVATE].astype(object)
    odd.iloc[7] = [cell] * 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CuratorWarning)
        a, b = (
            make(noise_multiplier=9.0).fit(rows, Y[PRIVATE], X_public=table[PUBLIC]) for rows in (table[PRIVATE], odd)
        )
    assert (a.recipe_, a.n_steps_, a.sample_rate_) == (b.recipe_, b.n_steps_, b.sample_rate_)
    moved = a._method.transform(table[PRIVATE]) != b._method.transform(odd)
    assert set(np.flatnonzero(moved.any(axis=1))) <= {7}
    assert a.statement_.mechanism == b.statement_.mechanism
