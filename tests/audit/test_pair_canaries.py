"""Canaries: which votes move, the exact divergence, and the order of the bounds."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from pate import ConfidentGNMax, GaussianSum, GNMax, LNMax, NoisyHistogram, PATEClassifier, TeacherEnsemble
from pate.audit import canary
from pate.audit._canaries import (
    CANARIES,
    contested,
    crafted_query,
    far_row,
    other_class,
    own_teachers,
    with_copy,
    with_labels,
)
from pate.exceptions import InvalidInputError, PateError, SensitiveValueError
from pate.privacy.exact._given_pair import given_pair
from pate.records import RecordVoters, SignedSpace, SoftSpace

ROWS, LABELS = make_blobs(400, centers=3, cluster_std=2.0, random_state=0)
X, Y, PUBLIC, Y_PUBLIC = ROWS[:300], LABELS[:300], ROWS[300:], LABELS[300:]
PERSONS = np.arange(300) // 3
CHAIN = "epsilon of the pair", "data-dependent epsilon", "public epsilon"


def ensemble(estimator=None, n_teachers=30):
    return TeacherEnsemble(
        estimator or KNeighborsClassifier(1), n_teachers, classes=range(3), random_state=0, partition_seed=1
    )


TEACHERS = ensemble().fit(X, Y)


def chain_of(found):
    return [found[name].value for name in CHAIN]


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "queries"),
    [
        *((k, "given") for k in CANARIES if k != "person"),
        ("natural", "most contested"),
        ("crafted", "most contested"),
        ("mislabelled", "crafted"),
        ("crafted", "crafted"),
    ],
)
def test_each_canary_moves_one_teacher_and_the_chain_holds(kind, queries):
    found = canary(
        TEACHERS, X, Y, X_public=PUBLIC, mechanism=GNMax(8.0), canary=kind, queries=queries, n_queries=30, records=2
    )
    low, middle, high = chain_of(found)
    assert 0 <= low <= middle <= high
    assert {f.value for f in found.figures if f.name == "teachers moved"} <= {0.0, 1.0}
    assert all(f.value <= 1 for f in found.figures if f.name == "largest share of the claimed Renyi curve")
    assert found.sensitive
    assert not found.refuted
    assert found.cited()["tried"] == f"2 {kind} canaries against 30 {queries} queries"
    with pytest.raises(SensitiveValueError):
        found.rows()
    values = [f.value for f in found.figures if f.name == CHAIN[0]]
    assert values == sorted(values, reverse=True)  # the canary that shows most comes first


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "mechanism", [LNMax(8.0), ConfidentGNMax(18, 12.0, 8.0), NoisyHistogram(8.0)], ids=lambda m: m.family
)
def test_other_mechanisms(mechanism):
    found = canary(TEACHERS, X, Y, X_public=PUBLIC, mechanism=mechanism, canary="crafted", n_queries=20, published=True)
    low, middle, high = chain_of(found)
    assert 0 < low <= middle <= high
    assert {c.label for c in found.picture.curves} == {"this pair", "data-dependent (Renyi)", "public"}


def test_a_cap_on_answers():
    found = canary(
        TEACHERS,
        X,
        Y,
        X_public=PUBLIC,
        mechanism=ConfidentGNMax(18, 12.0, 8.0),
        n_queries=20,
        max_answers=5,
        published=True,
    )
    low, middle, high = chain_of(found)
    assert 0 <= low <= middle <= high
    assert found.settings["max_answers"] == 5


def test_a_whole_person_moves_one_teacher():
    groups = PERSONS.astype(str)
    teachers = ensemble(GaussianNB(), 12).fit(X, Y, groups=groups)
    found = canary(
        teachers,
        X,
        Y,
        X_public=PUBLIC,
        mechanism=GNMax(8.0),
        canary="person",
        groups=groups,
        records=[3],
        published=True,
    )
    one = canary(teachers, X, Y, X_public=PUBLIC, mechanism=GNMax(8.0), groups=groups, records=[3], published=True)
    assert found["teachers moved"].value == 1
    assert found["queries moved"].value >= one["queries moved"].value > 0
    with pytest.raises(InvalidInputError, match="Pass groups"):
        canary(ensemble(), X, Y, X_public=PUBLIC, mechanism=GNMax(8.0), canary="person")


@pytest.mark.long
def test_a_crafted_record_and_query_reach_the_worst_case():
    """Digits: the crafted pair is within 3% of the worst repeated one, where a mislabelled record shows less."""
    rows, labels = load_digits(return_X_y=True)
    rows = rows / 16
    teachers = TeacherEnsemble(
        LogisticRegression(max_iter=50), 60, classes=range(10), random_state=0, partition_seed=0
    ).fit(rows[:1200], labels[:1200])
    shared = {"mechanism": GNMax(10.0), "n_queries": 100, "published": True}
    at_most = max(
        given_pair([[30 + g, 30 - g]] * 100, [[29 + g, 31 - g]] * 100, noise=GNMax(10.0).exact_parameters()["noise"])
        .epsilon(1e-5)
        .epsilon[0]
        for g in range(4)
    )
    crafted = canary(
        teachers, rows[:1200], labels[:1200], X_public=rows[1200:], canary="crafted", queries="crafted", **shared
    )
    plain = canary(teachers, rows[:1200], labels[:1200], X_public=rows[1200:], **shared)
    assert 0.97 * at_most < crafted[CHAIN[0]].value < 1.01 * at_most
    assert plain[CHAIN[0]].value < 0.5 * crafted[CHAIN[0]].value
    assert crafted["queries moved"].value == 100


@pytest.mark.long
def test_an_adversary_needs_no_private_rows():
    theirs = own_teachers(TEACHERS, PUBLIC, Y_PUBLIC, n_records=300, seed=5)
    assert theirs.partition_.n_records == 300
    assert theirs.n_teachers == 30
    query = crafted_query(theirs, PUBLIC, GNMax(8.0), np.random.default_rng(0))
    moved_by = contested(theirs.vote(query).counts, GNMax(8.0))
    assert moved_by[0] >= contested(theirs.vote(PUBLIC).counts, GNMax(8.0)).max()
    found = canary(
        TEACHERS,
        X,
        Y,
        X_public=PUBLIC,
        mechanism=GNMax(8.0),
        canary="crafted",
        queries="crafted",
        adversary=(PUBLIC, Y_PUBLIC),
        n_queries=20,
        published=True,
    )
    assert found[CHAIN[0]].value > 0
    assert found.settings["n_queries"] == 20
    with pytest.raises(InvalidInputError, match="of one length"):
        own_teachers(TEACHERS, PUBLIC, Y_PUBLIC[:-1], n_records=300, seed=0)
    with pytest.raises(InvalidInputError, match=r"\(rows, labels\)"):
        canary(TEACHERS, X, Y, X_public=PUBLIC, mechanism=GNMax(8.0), queries="crafted", adversary=PUBLIC)


@dataclasses.dataclass(frozen=True)
class TooCheap(GNMax):
    def charge(self, n_queries, max_answers=None):
        return GNMax(self.sigma * 4).charge(n_queries)


@pytest.mark.long
def test_a_chain_that_does_not_hold_is_an_error():
    tried = {"mechanism": TooCheap(8.0), "canary": "crafted", "queries": "crafted", "n_queries": 40}
    with pytest.raises(PateError, match=r"does not hold \(.* <= .*\)"):
        canary(TEACHERS, X, Y, X_public=PUBLIC, **tried, published=True)
    with pytest.raises(PateError, match="does not hold: the accounting"):  # private numbers are not quoted
        canary(TEACHERS, X, Y, X_public=PUBLIC, **tried)


@pytest.mark.long
def test_a_data_dependent_bound_that_is_too_low_is_an_error(monkeypatch):
    from pate.audit import _canaries as canaries

    honest = canaries.account

    def half(votes, mechanism, **settings):
        return honest(votes, GNMax(mechanism.sigma * 3), **settings)

    monkeypatch.setattr(canaries, "account", half)
    with pytest.raises(PateError, match="pair <= data-dependent <= public does not hold"):
        canary(TEACHERS, X, Y, X_public=PUBLIC, mechanism=GNMax(8.0), canary="crafted", queries="crafted", n_queries=40)


@pytest.mark.parametrize("space", [SignedSpace(), SoftSpace(16)], ids=["signed", "soft"])
def test_record_voters(space):
    voters = RecordVoters(None, space.fit(PUBLIC), classes=3)
    shown = {}
    for kind in ("natural", "mislabelled", "crafted"):
        found = canary(
            voters, X, Y, X_public=PUBLIC, mechanism=GaussianSum(2.0), canary=kind, records=[4], published=True
        )
        low, middle, high = chain_of(found)
        assert 0 <= low <= middle == high
        shown[kind] = low
    assert shown["crafted"] >= shown["mislabelled"] > 0
    assert shown["crafted"] > 0.9 * high  # exact there: some record does move the sum that far
    groups = canary(
        voters,
        X,
        Y,
        X_public=PUBLIC,
        mechanism=GaussianSum(2.0),
        canary="person",
        groups=PERSONS,
        records=1,
        published=True,
    )
    assert chain_of(groups)[0] > 0
    with pytest.raises(InvalidInputError, match="asked nothing"):
        canary(voters, X, Y, X_public=PUBLIC, mechanism=GaussianSum(2.0), queries="crafted")


def test_a_classifier_lends_its_teachers():
    model = PATEClassifier(GaussianNB(), n_teachers=20, classes=range(3), random_state=0)
    found = canary(model, X, Y, X_public=PUBLIC, mechanism=GNMax(8.0), n_queries=10, published=True)
    assert found["teachers moved"].value <= 1
    assert not hasattr(model, "release_")
    with pytest.raises(InvalidInputError, match="lets records vote"):
        canary(PATEClassifier(classes=range(3)), X, Y, X_public=PUBLIC, mechanism=GNMax(8.0))


@pytest.mark.long
def test_tables_and_lists():
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    teachers = ensemble(GaussianNB())
    for kind in ("natural", "mislabelled"):
        found = canary(
            teachers,
            frame,
            Y,
            X_public=frame.iloc[:40],
            mechanism=GNMax(8.0),
            canary=kind,
            n_queries=10,
            published=True,
        )
        assert chain_of(found)[0] <= chain_of(found)[1]
    with pytest.raises(InvalidInputError, match="array of numbers"):
        canary(teachers, frame, Y, X_public=frame.iloc[:40], mechanism=GNMax(8.0), canary="out of distribution")
    assert with_copy(("a", "b"), np.array([0]), 1) == ["b", "b"]
    assert with_labels([1.5, 2.5], np.array([0]), [2.5]).tolist() == [2.5, 2.5]


def test_what_stands_in_a_record_s_place():
    rng = np.random.default_rng(0)
    changed = other_class(np.array([0, 1, 2, 2]), 3, rng)
    assert (changed != [0, 1, 2, 2]).all()
    assert set(changed) <= {0, 1, 2}
    far = far_row(PUBLIC, X, rng)
    np.testing.assert_allclose(np.abs(far - PUBLIC.mean(axis=0)), 10 * PUBLIC.std(axis=0), rtol=1e-6)


def test_bad_input_is_refused():
    with pytest.raises(InvalidInputError, match="Did you mean"):
        canary(TEACHERS, X, Y, X_public=PUBLIC, mechanism=GNMax(8.0), canary="mislabeled")
    with pytest.raises(InvalidInputError, match="queries"):
        canary(TEACHERS, X, Y, X_public=PUBLIC, mechanism=GNMax(8.0), queries="all")
    with pytest.raises(InvalidInputError, match="other records"):
        canary(TEACHERS, X, 2 - Y, X_public=PUBLIC, mechanism=GNMax(8.0))
    with pytest.raises(InvalidInputError, match="voters must be"):
        canary(GaussianNB(), X, Y, X_public=PUBLIC, mechanism=GNMax(8.0))
    with pytest.raises(InvalidInputError, match="records"):
        canary(TEACHERS, X, Y, X_public=PUBLIC, mechanism=GNMax(8.0), records=[300])
    with pytest.raises(InvalidInputError, match="at least one record"):
        canary(TEACHERS, X, Y, X_public=PUBLIC, mechanism=GNMax(8.0), records=[])
    with pytest.raises(InvalidInputError, match="n_queries"):
        canary(TEACHERS, X, Y, X_public=PUBLIC, mechanism=GNMax(8.0), n_queries=0)
