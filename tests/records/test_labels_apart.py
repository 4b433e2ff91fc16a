"""No label and no owner of one record changes what becomes of another's, whatever holds them; nor comes an error."""

from __future__ import annotations

import collections
import datetime as dt
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from pate import Budget, PATEClassifier, Queries, RecordVoters
from pate.data import check_public_rows
from pate.data._columns import as_number
from pate.exceptions import PublicOverlapWarning
from pate.records import SignedSpace
from pate.teachers._usable import class_indices, owned

#: The curator is warned of unusable records, which tests/estimators/test_unusable_records.py tests.
pytestmark = pytest.mark.filterwarnings("ignore::pate.exceptions.CuratorWarning")

N = 40
Z = np.random.default_rng(0).normal(size=(N, 2))
LONG = 2**60 + 1  # no float64 is
ODD = (None, "?", [0, 1], {}, float("nan"), np.zeros(2), np.timedelta64(1, "D"), 1j, 10**5000, object())


def _objects(values: list[object]) -> np.ndarray:
    return np.fromiter(values, dtype=object, count=len(values))


HELD = {
    "list": (list, (0, 1)),
    "column": (lambda values: [[value] for value in values], (0, 1)),
    "column of arrays": (lambda values: [np.array([v]) if type(v) is int else v for v in values], (0, 1)),
    "numbers of no length": (lambda values: [np.array(v) if type(v) is int else v for v in values], (0, 1)),
    "deque": (collections.deque, (0, 1)),
    "float32": (lambda values: [np.float32(v) if type(v) is float else v for v in values], (0.1, 0.5)),
    "float64 beside long": (
        lambda values: [np.float64(2**53) if type(v) is int and v == 5 else v for v in values],
        (2**53 + 1, 5),
    ),
}


@pytest.mark.parametrize("how", HELD)
def test_one_odd_label_is_its_own_records_matter(how: str) -> None:
    hold, classes = HELD[how]
    plain = [classes[i % 2] for i in range(N)]
    before = class_indices(hold(plain), classes)
    for odd in ODD:
        after = class_indices(hold([*plain[:7], odd, *plain[8:]]), classes)
        assert np.delete(after, 7).tolist() == np.delete(before, 7).tolist()


@pytest.mark.parametrize("kind", ["category", "Int64"])
def test_a_missing_label_makes_no_float_of_the_others(kind: str) -> None:
    values = [LONG, 5, LONG, None]
    assert class_indices(pd.Series(values, dtype=object).astype(kind), (LONG, 5)).tolist() == [0, 1, 0, -1]


@pytest.mark.long
def test_a_column_of_labels_with_an_odd_one_is_taken_like_any_other() -> None:
    y = np.arange(N).reshape(-1, 1) % 2
    columns = [y, np.ma.array(y, mask=np.arange(N).reshape(-1, 1) == 7)]
    for odd in ([0], ["?"], [0, 1], None):
        columns.append([[value] for value in y.ravel()])
        columns[-1][7] = odd
    for column in columns:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf = PATEClassifier(budget=Budget(1.0, 1e-5), classes=(0, 1), queries=Queries(force=True)).fit(
                Z, column, X_public=Z + 0.5
            )
        assert clf.release_.n_answered == N


NO_ID = ({}, [1], {1}, 1j, object(), np.zeros(2), Decimal("NaN"), (1, None), (1, [2]), 10**5000, dt.time(1),
         np.datetime64("0001-01-01"), np.datetime64("NaT"), np.timedelta64("NaT"), pd.NaT,
         pd.Interval(0, 1))  # fmt: skip


@pytest.mark.parametrize("odd", NO_ID, ids=lambda v: type(v).__name__)
def test_an_owner_that_is_none_is_its_own_records_matter(odd: object) -> None:
    voters = RecordVoters(None, SignedSpace().fit(Z), classes=2)
    people: list[object] = [f"person {i // 2}" for i in range(N)]
    y = [0, 1, 1, 0] * (N // 4)
    missing, given = [*people], [*people]
    missing[7], given[7] = None, odd
    expected = voters.cast(Z, y, groups=missing)
    found = voters.cast(Z, y, groups=given)
    assert (found.sums == expected.sums).all()
    assert found.facts == expected.facts
    assert found.facts.n == N // 2
    with pytest.warns(PublicOverlapWarning):
        check_public_rows(Z, np.concatenate([Z[:3], Z + 0.5]), given)


def test_owners_of_any_form_are_owners_whatever_another_is() -> None:
    pairs = [("clinic", i // 2) for i in range(6)]
    assert owned(pairs, 6)[1].all()
    voters = RecordVoters(None, SignedSpace().fit(Z), classes=2)
    for other in (None, ("clinic", "a", "b"), "x"):
        people = [pairs[i % 6] for i in range(N)]
        assert voters.cast(Z, [0, 1] * (N // 2), groups=people).facts.n == 3
        people[7] = other
        assert voters.cast(Z, [0, 1] * (N // 2), groups=people).facts.n == (3 if other is None else 4)
    days = np.array(["2020-01-01", "2020-01-02", "NaT"], dtype="M8[D]")
    assert owned(days, 3)[1].tolist() == [True, True, False]
    same = [pd.Timestamp(days[0]), days[0], dt.datetime(2020, 1, 1)]  # one person, in three ways
    assert voters.cast(Z[:3], [0, 1, 0], groups=same).facts.n == 1


def test_a_span_of_time_is_no_number_alone_or_in_a_column() -> None:
    for cell in (np.timedelta64(5, "D"), np.timedelta64(5), np.timedelta64("NaT")):
        assert np.isnan(as_number(cell))
    assert as_number(np.complex64(2)) == 2.0
    voters = RecordVoters(None, SignedSpace().fit(Z), classes=2)
    y = [0, 1] * (N // 2)
    y[7] = 5  # it casts none
    for made in (lambda z: np.timedelta64(int(10 * z), "D"), np.complex64):
        rows = [[made(a), b] for a, b in Z.tolist()]
        before = voters.cast(pd.DataFrame(rows), y).sums
        rows[7] = ["a text", 1.0]
        assert (voters.cast(pd.DataFrame(rows), y).sums == before).all()


@pytest.mark.parametrize(
    "odd", [np.timedelta64(1), [10**5000], {}, 10**5000, 1j, Decimal("sNaN")], ids=lambda v: type(v).__name__
)
def test_no_cell_stops_the_search_for_private_rows_among_the_public(odd: object) -> None:
    rows = Z.tolist()
    rows[7][1] = odd
    check_public_rows(pd.DataFrame(rows), pd.DataFrame(Z + 0.5))


def test_a_series_of_numbers_is_rows_of_one_cell_as_one_with_a_text_is() -> None:
    voters = RecordVoters(None, SignedSpace().fit(Z[:, :1]), classes=2)
    y = [0, 1] * (N // 2)
    y[7] = 5
    before = voters.cast(Z[:, :1], y).sums
    cells = Z[:, 0].tolist()
    for odd in (None, "a text", {}):
        assert (voters.cast(pd.Series(cells), y).sums == before).all()
        cells[7] = odd
        assert (voters.cast(pd.Series(cells), y).sums == before).all()


def test_an_array_of_whole_numbers_is_looked_up_as_a_list_is():
    for values in (np.array([3, -1, 7, 3]), np.array([True, False]), np.array([2, 1], dtype=np.uint8)):
        assert class_indices(values, (1, "2", 3)).tolist() == class_indices(values.tolist(), (1, "2", 3)).tolist()
