"""Neighbours are exactly neighbours, under their stated adjacency."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pate.audit import neighbours
from pate.audit.replays import KINDS
from pate.audit.replays._compare import ranges
from pate.audit.replays._neighbours import Choice, Records, distance, make_neighbour
from pate.exceptions import InvalidInputError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3))
Y = np.array([0, 1, 2] * 4)
PEOPLE = np.array(list("aabbccddeeff"))
ADJACENCIES = ("replace-one", "add-or-remove")


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("groups", [None, PEOPLE], ids=["records", "people"])
@pytest.mark.parametrize("seed", range(5))
def test_every_pair_is_one_step_apart(adjacency, groups, seed):
    found = neighbours(X, Y, groups=groups, adjacency=adjacency, random_state=seed)
    assert len(found) >= 4
    for pair in found:
        apart = distance(pair.D, pair.D_prime, adjacency)
        assert apart.order if pair.kind == "front" else apart.units == 1, pair
        assert apart.touched <= (2 if pair.kind == "regroup" else 1)


@pytest.mark.parametrize(
    ("adjacency", "groups", "missing"),
    [
        ("replace-one", None, {"remove", "add", "regroup"}),
        ("replace-one", PEOPLE, set()),
        ("add-or-remove", None, {"replace", "flip", "scale", "missing", "regroup"}),
        ("add-or-remove", PEOPLE, {"replace", "flip", "scale", "missing", "regroup", "only of its class"}),
    ],
)
def test_which_kinds_are_neighbours_under_which_adjacency(adjacency, groups, missing):
    assert {pair.kind for pair in neighbours(X, Y, groups=groups, adjacency=adjacency)} == set(KINDS) - missing
    for kind in missing:
        with pytest.raises(InvalidInputError, match=f"kind '{kind}' makes no neighbour here: "):
            neighbours(X, Y, groups=groups, adjacency=adjacency, kinds=[kind])


def one(kind, groups=None, adjacency="replace-one", **choice):
    return make_neighbour(kind, Records.of((X, Y, groups)), Choice(**choice), adjacency=adjacency)


def test_what_each_kind_does():
    assert one("flip", at=4).D_prime.y.tolist() != Y.tolist()
    assert np.allclose(one("scale", at=4).D_prime.X[4], 30 * X[4])
    assert np.isnan(one("missing", at=4).D_prime.X[4]).all()
    twice = one("duplicate", at=4).D_prime
    assert (X[4] == twice.X).all(axis=1).sum() == 2
    assert twice.n == 12
    front = one("front", at=3).D_prime
    assert (front.X[0] == X[4]).all()
    assert sorted(front.digests()) == sorted(Records.of((X, Y)).digests())
    only = one("only of its class", at=4)
    assert (only.D.y == Y[4]).sum() == 1
    assert (only.D_prime.y == Y[4]).sum() == 0


def test_people_come_and_go_whole():
    gone = one("remove", PEOPLE, "add-or-remove", at=4)
    assert sorted(gone.D.groups.tolist()) == sorted(PEOPLE.tolist())
    assert "c" not in gone.D_prime.groups
    assert gone.D_prime.n == 10
    fewer = one("remove", PEOPLE, at=4)
    assert (fewer.D_prime.groups == "c").sum() == 1
    more = one("add", PEOPLE, "add-or-remove", at=4)
    assert len(set(more.D_prime.groups)) == 7
    other = one("regroup", PEOPLE, at=4)
    assert "c" not in other.D_prime.groups
    assert len(set(other.D_prime.groups)) == 6


def test_a_record_that_moves_to_another_person_changes_two():
    moved = PEOPLE.copy()
    moved[0] = "b"
    apart = distance(Records.of((X, Y, PEOPLE)), Records.of((X, Y, moved)), "replace-one")
    assert (apart.units, apart.touched) == (2, 2)


def test_nothing_of_the_data_is_written_to():
    before = X.copy(), Y.copy(), PEOPLE.copy()
    neighbours(X, Y, groups=PEOPLE)
    assert all((a == b).all() for a, b in zip(before, (X, Y, PEOPLE), strict=True))


@pytest.mark.parametrize(
    ("table", "kinds"),
    [
        (pd.DataFrame(X, columns=list("abc")), {"scale", "missing", "replace"}),
        (pd.DataFrame({"a": X[:, 0], "town": ["Oslo", "Bonn"] * 6}), {"replace", "flip", "duplicate"}),
        (np.array([f"text {i}" for i in range(12)], dtype=object), {"replace", "flip", "front"}),
        (X.reshape(12, 3, 1, 1), {"scale", "missing"}),
    ],
    ids=["frame", "mixed frame", "texts", "images"],
)
def test_tables_of_all_kinds(table, kinds):
    found = neighbours(table, Y)
    assert {pair.kind for pair in found} >= kinds
    for pair in found:
        assert type(pair.D_prime.X) is type(table)
        assert pair.D_prime.X.shape == table.shape


def test_labels_may_be_texts_and_longer_than_before():
    found = neighbours(X, np.array(["a", "b", "cc"] * 4), classes=["a", "b", "cc", "a longer one"], random_state=2)
    assert all(pair.D_prime.n == 12 for pair in found)


@given(st.sampled_from(KINDS), st.integers(0, 50), st.integers(0, 50), st.integers(0, 9), st.booleans(), st.booleans())
@settings(max_examples=150)
def test_whatever_is_chosen_is_a_neighbour_or_refused(kind, at, other, label, people, add):
    adjacency = "add-or-remove" if add else "replace-one"
    records = Records.of((X, Y, PEOPLE if people else None))
    try:
        pair = make_neighbour(kind, records, Choice(at, other, label), adjacency=adjacency)
    except InvalidInputError:
        return
    apart = distance(pair.D, pair.D_prime, adjacency)
    back = distance(pair.D_prime, pair.D, adjacency)
    assert apart.units == back.units == (0 if pair.kind == "front" else 1)


def test_distances():
    a = Records.of((X, Y))
    assert distance(a, Records.of((X, Y)), "replace-one").units == 0
    assert not distance(a, Records.of((X, Y)), "replace-one").order
    assert distance(a, a.labelled(0, 1).labelled(1, 0), "replace-one").units == 2
    assert distance(a, a.labelled(0, 1), "add-or-remove").units == 2
    assert distance(a, a.take(range(11)), "add-or-remove").units == 1


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ((X,), "must be"),
        ((X, Y[:3]), "one label"),
        ((X, Y, PEOPLE[:3]), "one owner"),
    ],
)
def test_bad_records_are_refused(data, said):
    with pytest.raises(InvalidInputError, match=said):
        Records.of(data)


def test_options_are_checked():
    with pytest.raises(InvalidInputError, match="Did you mean"):
        neighbours(X, Y, kinds=["flipp"])
    with pytest.raises(InvalidInputError, match="adjacency must be one of"):
        neighbours(X, Y, adjacency="substitute")
    with pytest.raises(InvalidInputError, match="both have groups"):
        distance(Records.of((X, Y)), Records.of((X, Y, PEOPLE)), "replace-one")


def test_ranges_are_said_shortly():
    assert ranges(range(250)) == "0 to 249"
    assert ranges([3]) == "3"
    assert ranges([]) == ""


@pytest.mark.parametrize("table", [X, pd.DataFrame(X)], ids=["array", "frame"])
@pytest.mark.parametrize("kind", ["replace", "flip", "scale", "missing"])
def test_all_that_a_person_has_changes(kind, table):
    people = np.array(list("abcabcabcabc"))
    pair = make_neighbour(kind, Records.of((table, Y, people)), Choice(at=4, other=3), adjacency="replace-one")
    assert pair.what.startswith("one person")
    apart = distance(pair.D, pair.D_prime, "replace-one")
    assert apart.places.tolist() == [1, 4, 7, 10]
    assert (apart.units, apart.records) == (1, 4)
