import numpy as np
import pytest

from pate import InvalidInputError, Votes
from pate.votes import hash_queries


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
