"""Several labels of each record: how cells are read, how a ledger knows them, and how far a unit moves their sum."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

from pate import InvalidInputError
from pate.records import label_codes, read_labels, sum_alone, units_of_labels


@pytest.mark.parametrize(
    "given",
    [
        [[1, 0], [0, 1], [1, 1]],
        np.array([[1, 0], [0, 1], [1, 1]], dtype=np.uint8),
        np.array([[True, False], [False, True], [True, True]]),
        [["yes", "no"], ["No", " YES "], ["true", "1"]],
        pd.DataFrame({"0": ["yes", "no", "yes"], "1": [False, True, True]}),
        csr_matrix([[1, 0], [0, 1], [1, 1]]),
    ],
)
def test_cells_that_say_yes_or_no_are_read_alike(given):
    found, names = read_labels(given)
    assert found.tolist() == [[1, 0], [0, 1], [1, 1]]
    assert names == ("0", "1")


def test_a_cell_that_says_neither_affects_its_own_record_only():
    found, _ = read_labels([[1, 0], [2, 1], ["perhaps", 0], [None, 1], [0, np.nan]], ["a", "b"])
    assert np.isfinite(found).all(axis=1).tolist() == [True, False, False, False, False]
    units = units_of_labels(found, ("a", "b"))
    assert (units.part("all").sum(), units.n) == (1, 5)
    assert sum_alone(units, found, clip=2.0, kind="counts", what="", query="").sums.tolist() == [[32768, 0]]


class _Unwritable:
    def __str__(self):
        raise ValueError("private")


@pytest.mark.parametrize(
    "row",
    [None, math.nan, [1], [1, 0, 1], "ab", [1, 10**5000], [_Unwritable(), 0], [1, [2, 3]], [1, np.arange(3)], [0, 1j]],
)
@pytest.mark.parametrize("names", [None, ("a", "b")])
def test_no_record_brings_a_refusal_about_or_changes_another(row, names):
    """A refusal, and the reading of other cells, would tell of one record, which no noise covers."""
    found, _ = read_labels([[1, "no"], ["yes", 0.0], row, [-0.0, True]], names)
    assert np.isnan(found[2]).any()
    assert found[[0, 1, 3]].tolist() == [[1, 0], [1, 0], [0, 1]]


@pytest.mark.parametrize("cell", ["?", 1])
def test_a_column_is_not_refused_though_one_cell_alone_could_be_read(cell):
    """Else one record decided by its cell whether anything is released."""
    for given in ([[1, 20], [0, cell]], pd.DataFrame({"a": [1, 0], "b": [20, cell]})):
        assert np.isnan(read_labels(given)[0][0, 1])


@pytest.mark.parametrize(
    ("given", "names", "text"),
    [
        (None, None, "None"),
        ([1, 0, 1], None, r"shape \(n, L\)"),
        ([[1], [0]], None, "For one label"),
        ([[1, 0], [0, 1]], ["a"], "^labels must name each label once, got 1 for 2 columns"),
        ([[1, 0], [0, 1]], ["a", "b", "c"], "got 3 for 2 columns"),
        ([[1, 0], [0, 1]], ["a", "a"], "^labels must name each label once, got 2, some of them twice"),
        ([[1, 0], [0, 1]], "ab", "^labels must list"),
        ([[1, 0], [0, 1]], 2, "^labels must list"),
        (pd.DataFrame([[1, 0]], columns=["a", "a"]), None, "^the columns of y must name each label once"),
        (np.zeros((3, 2), dtype="M8[s]"), None, "array of datetime64"),
    ],
)
def test_what_holds_no_labels_is_refused(given, names, text):
    with pytest.raises(InvalidInputError, match=text):
        read_labels(given, names)


def test_a_ledger_tells_every_two_rows_apart_but_for_those_it_cannot_use():
    every = np.array(list(itertools.product((0.0, 1.0), repeat=10)))
    codes = label_codes(every)
    assert len(set(codes.tolist())) == len(every)
    assert codes.min() >= 0
    assert codes.max() < 2**31
    assert label_codes(np.array([[np.nan, 1.0]])).tolist() == [-1]


def squared(a, b):
    return sum(int(x) ** 2 for x in (a.sums - b.sums).ravel().tolist())


@pytest.mark.parametrize("n_records", [1, 3])
def test_label_vectors_move_a_sum_by_sqrt_2_times_their_norm_and_no_further(n_records):
    """Every pair of a person's labels; negative and endless ones too, which a caller's mistake might let in."""
    groups = None if n_records == 1 else np.r_[np.zeros(n_records, dtype=int), 1]
    mine = [np.array(one) for one in itertools.product((0.0, 1.0), repeat=6)]
    mine += [np.full(6, -5.0), np.array([9.0, -9, 0, 0, 0, 0]), np.full(6, np.inf), np.full(6, 1e300)]
    found = []
    for one in mine:
        given = np.vstack([*[one] * n_records, np.ones(6)])
        units = units_of_labels(np.zeros((n_records + 1, 6)), tuple("abcdef"), groups)
        found.append(sum_alone(units, given, clip=np.sqrt(3), kind="counts", what="", query=""))
    most, bound = max(squared(a, b) for a, b in itertools.combinations(found, 2)), found[0].delta_squared
    assert bound == 2 * 65536**2
    assert most <= bound
    assert most > bound * 0.9999  # three labels, and three others


def test_as_signed_sums_they_would_cost_twice_as_much():
    units = units_of_labels(np.zeros((1, 2)), ("a", "b"))
    both = [sum_alone(units, [[1.0, 0.0]], clip=1.0, kind=kind, what="", query="") for kind in ("counts", "signed")]
    assert both[1].delta_squared == 2 * both[0].delta_squared
    with pytest.raises(InvalidInputError, match="kind"):
        sum_alone(units, [[1.0, 0.0]], clip=1.0, kind="squares", what="", query="")
