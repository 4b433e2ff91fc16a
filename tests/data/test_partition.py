"""The disjoint partition."""

from __future__ import annotations

import io
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pate.data import Partition, _overlap, count_cross_shard_duplicates, partition, recognised_by, records_fingerprint
from pate.data._columns import owners_of
from pate.data.partition import distinct_ids
from pate.exceptions import InvalidInputError


@settings(max_examples=60)
@given(st.integers(1, 300), st.data())
def test_record_shards_are_disjoint_cover_all_and_differ_by_at_most_one(n, data):
    k = data.draw(st.integers(1, n))
    p = partition(n, k, partition_seed=data.draw(st.integers(0, 5)))
    shards = [p.shard(i) for i in range(k)]
    assert sorted(np.concatenate(shards).tolist()) == list(range(n))
    sizes = [len(s) for s in shards]
    assert max(sizes) - min(sizes) <= 1
    for a, b in zip(shards, p.shards(), strict=True):
        assert a.dtype == b.dtype == np.int64
        np.testing.assert_array_equal(a, b)
    assert (p.unit, p.n_units, p.adjacency) == ("record", n, "replace-one")


@settings(max_examples=60)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=80), st.data())
def test_groups_are_never_split_and_shards_may_be_empty(groups, data):
    n_groups = len(set(groups))
    k = data.draw(st.integers(1, n_groups))
    p = partition(len(groups), k, groups=groups, partition_seed=data.draw(st.integers(0, 5)))
    table = pd.DataFrame({"g": groups, "s": p.assignment})
    assert (table.groupby("g")["s"].nunique() == 1).all()
    assert sorted(np.concatenate(list(p.shards())).tolist()) == list(range(len(groups)))
    assert len(list(p.shards())) == k
    assert (p.unit, p.n_units) == ("group", n_groups)


def test_every_record_is_as_likely_in_every_shard():
    n, k, runs = 12, 4, 2000
    hits = np.zeros((n, k))
    for seed in range(runs):
        hits[np.arange(n), partition(n, k, partition_seed=seed).assignment] += 1
    expected = runs / k
    chi2 = ((hits - expected) ** 2 / expected).sum()
    assert chi2 < 90  # 36 degrees of freedom: beyond 90 has probability 1e-6


def test_seed_repeats_and_none_does_not():
    assert partition(500, 5, partition_seed=3).fingerprint() == partition(500, 5, partition_seed=3).fingerprint()
    assert partition(500, 5, partition_seed=3).fingerprint() != partition(500, 5, partition_seed=4).fingerprint()
    assert partition(500, 5).fingerprint() != partition(500, 5).fingerprint()


def _shard_by_person(groups, p):
    return dict(zip(groups, p.assignment.tolist(), strict=True))


MIXED_IDS = [*(f"p{i:02d}" for i in range(8)), *range(3, 9), 2.5, np.int64(77), ("a", 1), pd.Timestamp("2020-01-01")]


@pytest.mark.parametrize(
    "ids", [[f"p{i:02d}" for i in range(20)], list(range(20)), MIXED_IDS], ids=["text", "int", "mixed"]
)
@pytest.mark.parametrize("n_records", [1, 2, 9])
@pytest.mark.parametrize("who", [0, 7, 17])
def test_replacing_one_groups_records_moves_no_other(ids, n_records, who):
    """Load-bearing: neither the number nor the place of one person's records moves another person."""
    before = [x for x in ids for _ in range(3)]
    rest = [x for x in before if x != ids[who]]
    rng = np.random.default_rng(who)
    for seed in range(5):
        places = np.sort(rng.integers(0, len(rest) + 1, n_records))
        after = list(rest)
        for place in places[::-1]:
            after.insert(place, ids[who])
        old = _shard_by_person(before, partition(len(before), 4, groups=before, partition_seed=seed))
        new = _shard_by_person(after, partition(len(after), 4, groups=after, partition_seed=seed))
        assert old == new


def test_losing_the_first_row_moves_no_other():
    """The reviewer's demonstration: 199 people keep their shards when one loses the first of two rows."""
    people = list(range(200)) + list(range(200))
    old = _shard_by_person(people, partition(400, 20, groups=people, partition_seed=0))
    new = _shard_by_person(people[1:], partition(399, 20, groups=people[1:], partition_seed=0))
    assert old == new


def test_ids_of_any_types_go_their_own_way():
    """No order of the records, and no other's id, moves anyone."""
    groups = np.empty(len(MIXED_IDS), dtype=object)
    groups[:] = MIXED_IDS
    expected = _shard_by_person(map(repr, groups), partition(len(groups), 5, groups=list(groups), partition_seed=0))
    for seed in range(5):
        some = np.random.default_rng(seed).permutation(len(groups))[: 8 + seed]
        p = partition(len(some), 5, groups=list(groups[some]), partition_seed=0)
        found = _shard_by_person(map(repr, groups[some]), p)
        assert found == {person: expected[person] for person in found}


@pytest.mark.parametrize(
    "convert",
    [
        list,
        np.array,
        pd.Series,
        lambda g: pd.Series(g, dtype="category"),
        lambda g: pd.Series(g, index=range(5, 5 + len(g))),
        pd.Index,
    ],
)
def test_groups_of_any_container_give_the_same_partition(convert):
    groups = ["u", "v", "u", "w", "x", "v"]
    expected = partition(6, 3, groups=groups, partition_seed=2).fingerprint()
    assert partition(6, 3, groups=convert(groups), partition_seed=2).fingerprint() == expected


def test_one_and_text_one_are_two_groups():
    assert partition(2, 2, groups=[1, "1"], partition_seed=0).n_units == 2


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"n_records": 3, "n_shards": 4}, "number of records"),
        ({"n_records": 0, "n_shards": 1}, "n_records"),
        ({"n_records": 3, "n_shards": 0}, "n_shards"),
        ({"n_records": 3, "n_shards": 1.5}, "n_shards"),
        ({"n_records": 4, "n_shards": 3, "groups": ["a", "a", "b", "b"]}, "number of groups"),
        ({"n_records": 4, "n_shards": 2, "groups": ["a", "b"]}, "groups must have shape"),
        ({"n_records": 2, "n_shards": 1, "groups": np.zeros((2, 2))}, "groups must have shape"),
        ({"n_records": 2, "n_shards": 1, "groups": [1.0, np.nan]}, "missing ids"),
        ({"n_records": 2, "n_shards": 1, "groups": np.array([1.0, np.nan])}, "missing ids"),
        ({"n_records": 2, "n_shards": 1, "groups": ["a", None]}, "missing ids"),
        ({"n_records": 2, "n_shards": 1, "groups": pd.Series(["a", pd.NA], dtype="string")}, "missing ids"),
        ({"n_records": 2, "n_shards": 1, "groups": ["a", " "]}, "missing ids"),
        ({"n_records": 2, "n_shards": 1, "partition_seed": -1}, "partition_seed"),
    ],
)
def test_bad_input_is_named(kwargs, text):
    with pytest.raises(InvalidInputError, match=text):
        partition(**kwargs)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (([0, 2], 2), "shards 0 to 1"),
        (([0, -1], 2), "shards 0 to 1"),
        (([0, 0], 2), "empty"),
        (([0, 0, 3], 3, "group", 3), "shards 0 to 2"),
        (([0.0, 1.0], 2), "whole numbers"),
        (([[0, 1]], 2), "whole numbers"),
        (([0, 1], 2, "person"), "unit"),
        (([0, 1], 2, "record", 3), "n_units"),
        (([0, 0, 1], 2, "group", 1), "n_units"),
        (([0, 0, 1], 2, "group"), "n_units"),
    ],
)
def test_a_partition_that_is_none_cannot_be_built(args, text):
    with pytest.raises(InvalidInputError, match=text):
        Partition(*args)


def test_the_assignment_cannot_be_changed_afterwards():
    source = np.array([0, 1, 0], dtype=np.int32)
    p = Partition(source, 2)
    source[0] = 1
    assert p.assignment.tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="read-only"):
        p.assignment[0] = 1
    with pytest.raises(AttributeError):
        p.n_shards = 3
    with pytest.raises(InvalidInputError, match="shard"):
        p.shard(2)


@pytest.mark.parametrize("groups", [None, ["a", "b", "a", "c", "d"]])
def test_save_and_load(tmp_path, groups):
    p = partition(5, 2, groups=groups, partition_seed=0)
    p.save(tmp_path / "p.npz")
    assert [f.name for f in tmp_path.iterdir()] == ["p.npz"]
    assert (tmp_path / "p.npz").stat().st_mode & 0o077 == 0
    q = Partition.load(tmp_path / "p.npz")
    np.testing.assert_array_equal(p.assignment, q.assignment)
    assert (p.unit, p.n_units, p.n_shards, p.fingerprint()) == (q.unit, q.n_units, q.n_shards, q.fingerprint())


def _npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: b"",
        lambda whole: whole[: len(whole) // 2],
        lambda whole: b"not an archive",
        lambda whole: _npz(other=np.zeros(3)),
        lambda whole: _npz(format=99, assignment=np.array([0, 1]), n_shards=2, n_units=2, unit=np.array("record")),
        lambda whole: _npz(format=1, assignment=np.array([0, 5]), n_shards=2, n_units=2, unit=np.array("record")),
        lambda whole: _npz(format=1, assignment=np.array([0, 1], dtype=object), n_shards=2),
    ],
)
def test_damaged_file_is_refused(tmp_path, damage):
    file = tmp_path / "p.npz"
    partition(50, 2, partition_seed=0).save(file)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(InvalidInputError, match=r"p\.npz is not a readable partition"):
        Partition.load(file)


def _brute(X, assignment):
    places: dict = {}
    for row, shard in zip(np.asarray(X).tolist(), assignment.tolist(), strict=True):
        key = tuple(None if v != v else v for v in row)
        places.setdefault(key, set()).add(shard)
    return sum(len(s) > 1 for s in places.values())


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.sampled_from([0.0, -0.0, 1.0, float("nan")]), min_size=2, max_size=2), min_size=3),
    st.integers(0, 3),
)
def test_duplicates_agree_with_a_plain_count(rows, seed):
    p = partition(len(rows), 3, partition_seed=seed)
    expected = _brute(rows, p.assignment)
    assert count_cross_shard_duplicates(np.array(rows), p) == expected
    assert count_cross_shard_duplicates(pd.DataFrame(rows), p) == expected
    text = pd.DataFrame(rows).map(lambda v: "gone" if v != v else f"v{v + 0.0}")
    assert count_cross_shard_duplicates(text, p) == expected
    assert count_cross_shard_duplicates(text.astype("category"), p) == expected
    assert count_cross_shard_duplicates(text.to_numpy(dtype=object), p) == expected


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, np.float64])
def test_rows_that_all_differ_are_seen_at_a_glance(dtype, monkeypatch):
    digests = _overlap.row_digests
    monkeypatch.setattr(_overlap, "row_digests", lambda X: looked.append(1) or digests(X))
    rows, looked = np.stack(np.unravel_index(np.arange(8**3), (8, 8, 8)), axis=1).astype(dtype), []
    p = Partition(np.arange(len(rows)) % 2, 2)
    assert (count_cross_shard_duplicates(rows, p), looked) == (0, [])
    rows[1] = rows[-2]
    assert (count_cross_shard_duplicates(rows, p), looked) == (1, [1])


def test_duplicates_print_nothing_and_check_the_length(capsys):
    p = Partition([0, 1], 2)
    assert count_cross_shard_duplicates(np.zeros((2, 2, 2), dtype=np.uint8), p) == 1
    assert capsys.readouterr() == ("", "")
    with pytest.raises(InvalidInputError, match="2 rows"):
        count_cross_shard_duplicates(np.zeros((3, 2)), p)


def test_duplicates_are_fast_enough_for_mnist_sized_data():
    X = np.zeros((20_000, 784), dtype=np.float32)
    X[:, 0] = np.arange(20_000)
    X[1] = X[0]
    p = partition(20_000, 250, partition_seed=0)
    start = time.perf_counter()
    found = count_cross_shard_duplicates(X, p)
    assert time.perf_counter() - start < 5  # about 0.2 s alone; a comparison of all pairs takes minutes
    assert found == int(p.assignment[0] != p.assignment[1])


@pytest.mark.parametrize("spelt", [("Jos\u00e9", "Jose\u0301"), ("anna", "anna "), ("anna", "\u00a0anna\n")])
def test_a_person_spelt_in_two_ways_is_one_unit(spelt):
    for groups in ([*spelt, "b"], np.array([*spelt, "b"]), pd.Series([*spelt, "b"]), [*((1, s) for s in spelt), "b"]):
        codes, ids = distinct_ids(groups, 3)
        assert codes.tolist() == [0, 0, 1]
        assert len(ids) == 2
        cuts = [partition(3, 2, groups=groups, partition_seed=seed).assignment for seed in range(8)]
        assert all(cut[0] == cut[1] for cut in cuts)


@pytest.mark.parametrize("spelt", [("Jos\u00e9", "Jose\u0301"), ("anna", "anna ")])
def test_spellings_of_one_person_give_one_fingerprint_and_one_owner(spelt):
    for ids in (spelt, [(7, name) for name in spelt]):
        (one, mine), (other, theirs) = (
            (
                records_fingerprint(np.array([0, 1]), [name, "b"]),
                recognised_by(np.eye(2), np.array([0, 1]), [name, "b"]),
            )
            for name in ids
        )
        assert (one, mine) == (other, theirs)
    assert len(set(owners_of(pd.DataFrame({"who": spelt}), "who", strict=True).tolist())) == 1


def test_a_long_run_of_marks_or_a_texts_own_methods_stop_nobody():
    long = "e" + "\u0301" * 200_000  # of 10,000 characters on NFC would take minutes
    assert distinct_ids([long, f" {long}", "e\u0301", "\u00e9"], 4)[0].tolist() == [0, 0, 1, 1]

    class Odd(str):
        def isascii(self):
            raise ValueError

    assert distinct_ids([Odd("a"), "a "], 2)[0].tolist() == [0, 0]
