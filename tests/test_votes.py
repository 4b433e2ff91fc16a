from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pate import GNMax, InvalidInputError, Votes, account
from pate.release.account import cost_by_queries
from pate.votes import as_votes, hash_queries


def test_counts_from_labels_match_a_plain_count():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, size=(11, 40))
    votes = Votes.from_labels(labels, classes=list("abcde"))
    plain = np.array([np.bincount(column, minlength=5) for column in labels.T])
    assert np.array_equal(votes.counts, plain)
    assert (votes.n_teachers, votes.n_queries, votes.n_classes) == (11, 40, 5)
    half = votes.take(np.arange(40) % 2 == 0)
    assert np.array_equal(half.counts, plain[::2])
    assert np.array_equal(half.labels, labels[:, ::2])


def test_votes_cannot_be_changed_and_do_not_show():
    votes = Votes.from_counts([[37, 5], [21, 21]])
    with pytest.raises(ValueError, match="read-only"):
        votes.counts[0, 0] = 1
    assert "37" not in repr(votes)
    assert "21" not in str(votes)


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ([[5, 5], [5, 4]], "rows that all sum"),
        ([[5.5, 4.5]], "whole numbers"),
        ([[11, -1]], ">= 0"),
        ([3, 1, 2], "class ids"),
        (np.zeros((0, 3), int), "no rows"),
        ([["a", "b"]], "whole numbers"),
    ],
)
def test_bad_counts(counts, text):
    with pytest.raises(InvalidInputError, match=text):
        Votes.from_counts(counts)


def test_class_ids_are_not_taken_for_counts():
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidInputError, match="class ids"):
        Votes.from_counts(rng.integers(0, 10, size=(50, 200)))
    with pytest.raises(InvalidInputError, match="n_teachers"):
        Votes.from_counts([[5, 5]], n_teachers=12)


@pytest.mark.parametrize("labels", [[[0, 3]], [[-1, 0]], [0, 1], [[0.5, 1]]])
def test_bad_labels(labels):
    with pytest.raises(InvalidInputError):
        Votes.from_labels(labels, classes=3)


def test_query_hashes_know_equal_rows():
    import pandas as pd

    X = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])
    a = hash_queries(X)
    assert a[0] == a[2] != a[1]
    frame = pd.DataFrame({"age": [1, 2, 1], "city": ["x", "y", "x"]})
    b = hash_queries(frame)
    assert b[0] == b[2] != b[1]
    assert hash_queries(frame.rename(columns={"age": "years"}))[0] != b[0]


@pytest.mark.parametrize("kind", [np.int16, np.int32, np.int64, np.uint8, np.float64])
def test_labels_are_counted_in_blocks_and_kept_narrow(monkeypatch, kind):
    labels = np.random.default_rng(0).integers(0, 4, (9, 20)).astype(kind)
    whole = Votes.from_labels(labels, classes=4)
    expected = np.array([[(labels[:, q] == c).sum() for c in range(4)] for q in range(20)])
    assert (whole.counts == expected).all()
    monkeypatch.setattr("pate.votes._COUNTED_ROWS", 3)
    parts = Votes.from_labels(labels, classes=4)
    assert (parts.counts == whole.counts).all()
    assert parts.labels.dtype == (kind if np.dtype(kind).kind == "i" else np.int64)
    labels[0, 0] = 3 - labels[0, 0]
    assert (parts.labels == whole.labels).all()


# Votes from anywhere ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        [[8, 2], [5, 5]],
        ((8, 2), (5, 5)),
        np.array([[8, 2], [5, 5]], dtype=np.uint8),
        np.array([[8.0, 2.0], [5.0, 5.0]]),
        np.array([[8, 2], [5, 5]], dtype=object),
        np.ma.array([[8, 2], [5, 5]]),
        pd.DataFrame([[8, 2], [5, 5]]),
        pd.DataFrame([[8, 2], [5, 5]], dtype="Int64"),
        Votes.from_counts([[8, 2], [5, 5]]),
    ],
)
def test_counts_from_anywhere(given):
    votes = as_votes(given)
    assert votes.counts.tolist() == [[8, 2], [5, 5]]
    assert (votes.n_teachers, votes.classes) == (10, (0, 1))
    price = account(given, GNMax(4.0), delta=1e-5)
    same = account(Votes.from_counts([[8, 2], [5, 5]]), GNMax(4.0), delta=1e-5)
    assert price.public == same.public
    assert price.data_dependent.reveal() == same.data_dependent.reveal()
    assert cost_by_queries(given, GNMax(4.0), delta=1e-5).reveal()


def test_the_columns_of_a_table_of_counts_name_the_classes():
    assert as_votes(pd.DataFrame({"no": [8, 5], "yes": [2, 5]})).classes == ("no", "yes")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([[0, 1, 1], [1, 0, 1], [1, 1, 0]], "may be counts or teachers' labels"),  # rows of one sum, and labels
        ([[8, 2], [5, 4]], "may be counts or teachers' labels"),
        ([[3, 1, 2]] * 4, None),  # as labels these would need 4 classes of 3 queries: counts
        ([8, 2], "got shape"),
        ([[]], "got shape"),
        (np.zeros((2, 2, 2)), "got shape"),
        ([[8, 2], [5]], "cannot be read"),
        ([["a", "b"]], "must be whole numbers"),
        ([[7.5, 2.5]], "must be whole numbers"),
        ([[True, False]], "must be whole numbers"),
        ([[8 + 1j, 2]], "must be whole numbers, got complex"),
        (np.ma.array([[8, 2]], mask=[[True, False]]), "masked cells"),
        (pd.DataFrame([[8, None]], dtype="Int64"), "must be whole numbers"),
        ([[11, -1]], ">= 0"),
        ("votes.npz", "got str.*read_votes"),
        (None, "got NoneType"),
        ({"counts": [[8, 2]]}, "got dict"),
    ],
)
def test_what_is_no_vote_is_refused_in_words(given, text):
    if text is None:
        assert as_votes(given).n_teachers == 6
        return
    for take in (as_votes, lambda votes: account(votes, GNMax(4.0), delta=1e-5)):
        with pytest.raises(InvalidInputError, match=text):
            take(given)


def test_account_says_what_a_mechanism_is():
    with pytest.raises(InvalidInputError, match="mechanism must be a mechanism"):
        account([[8, 2]], 4.0, delta=1e-5)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"counts": np.array([[800, 200]])}, "at most one vote of each of the 10"),
        ({"counts": np.array([[12, -2]])}, "must be >= 0"),
        ({"counts": np.array([[8.0, 2.0]])}, "whole numbers"),
        ({"counts": np.array([[8, 2, 0]])}, "one column per class"),
        ({"counts": [[8, 2]]}, "whole numbers"),
        ({"counts": np.array([[2**63 - 1, 2**63 - 1, 12]]), "classes": (0, 1, 2)}, "at most one vote"),
        ({"n_teachers": 9}, "at most one vote of each of the 9"),
        ({"labels": np.zeros((9, 1), dtype=np.int64)}, "labels must have shape"),
        ({"unit": "person"}, "unit must be"),
        ({"query_hashes": ("a", "b")}, "2 entries for 1 queries"),
    ],
)
def test_votes_are_one_of_each_teacher_however_they_are_made(changed, text):
    votes = Votes.from_counts([[8, 2]])
    with pytest.raises(InvalidInputError, match=text):
        replace(votes, **changed)


def test_votes_stay_as_they_were_checked():
    mine = np.array([[8, 2]])
    votes = replace(Votes.from_counts([[8, 2]]), counts=mine)
    mine[0, 0] = 8000
    assert votes.counts.tolist() == [[8, 2]]
    assert not votes.counts.flags.writeable


def test_counts_whose_sums_wrap_around_are_refused():
    with pytest.raises(InvalidInputError, match="at most one vote of each of the 10 teachers"):
        Votes.from_counts([[2**63 - 1, 2**63 - 1, 12]])
