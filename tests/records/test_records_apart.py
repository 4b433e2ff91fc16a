"""Replacing one record by anything moves the ballot sum by at most Delta, and changes no other record's ballot."""

from __future__ import annotations

import datetime as dt
import functools
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

from pate import RecordVoters
from pate.data._cells import private_cells
from pate.exceptions import InvalidInputError
from pate.records import SignedSpace, SoftSpace
from pate.representations import TableMap, TextMap

#: The curator is warned of unusable records, which tests/estimators/test_unusable_records.py tests.
pytestmark = pytest.mark.filterwarnings("ignore::pate.exceptions.CuratorWarning")

CELLS = (1.0, True, "1", "Oslo", "", None, float("nan"), np.inf, 10**400, 1j, 1 + 0j, b"7", {}, [1], (1, 2), object(),
         dt.date(2020, 1, 1), np.datetime64("2020-01-01"), np.zeros(2), pd.NA, pd.NaT)  # fmt: skip
#: What a whole column may hold that is no number.
COLUMNS = (dt.date(2020, 1, 1), b"7", [1], 1j, None, "Oslo")
ROWS = (None, 7, "a text", "", b"x", {}, {1, 2, 3}, [], [1.0], [1.0, 2.0], (1, 2, 3, 4), [1.0, 2.0, "a"], np.zeros(3),
        np.ones((2, 2)), [[1, 2, 3]], [[1], [2], [3]], [np.zeros(2), 1, 2], np.array(["a", {}, None], dtype=object),
        object())  # fmt: skip
N = 20


def _public() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(60, 3))


@functools.cache
def _voters(kind: str) -> RecordVoters:
    z = _public()
    if kind == "none":
        return RecordVoters(None, SignedSpace().fit(z), classes=2)
    if kind == "scaler":
        scaler = StandardScaler().fit(z)
        return RecordVoters(scaler, SignedSpace().fit(scaler.transform(z)), classes=2)
    table = TableMap().fit(z)
    space = SignedSpace(4, constant=1.0) if kind == "signed" else SoftSpace(8, 3)
    return RecordVoters(table, space.fit(table.transform(z)), classes=2)


def _objects(rows: list[list[object]]) -> np.ndarray:
    cells = np.empty((len(rows), 3), dtype=object)
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            cells[i, j] = cell
    return cells


def _frame(rows: list[list[object]]) -> pd.DataFrame:
    cells = _objects(rows)
    return pd.DataFrame({j: pd.Series(list(cells[:, j]), dtype=object) for j in range(3)})


HELD = {"list": list, "objects": _objects, "frame": _frame}


def _moved(a: object, b: object) -> float:
    return math.sqrt(sum(int(x) ** 2 for x in (a.sums - b.sums).ravel()))  # type: ignore[attr-defined]


def _one_alone(voters: RecordVoters, hold: object, rows: list, y: list) -> None:
    """Assert that record 0 adds to the sum of the others what it casts alone, and no more than one unit may."""
    rest, whole = voters.cast(hold(rows)[1:], y[1:]), voters.cast(hold(rows), y)  # type: ignore[operator]
    alone = voters.cast(hold(rows)[:1], y[:1])  # type: ignore[operator]
    assert (whole.sums == rest.sums + alone.sums).all()


@pytest.mark.few(1)
@pytest.mark.parametrize("how", HELD)
@pytest.mark.parametrize("kind", ["none", "signed", "soft"])
@pytest.mark.parametrize("others", COLUMNS, ids=lambda c: type(c).__name__)
def test_a_column_without_numbers_is_read_alike_whatever_one_record_has_there(
    kind: str, how: str, others: object
) -> None:
    voters, y = _voters(kind), [0] * N
    z = np.random.default_rng(0).normal(size=(N, 3)).tolist()
    rows = [[a, b, others] for a, b, _ in z]
    before = voters.cast(HELD[how](rows), y)
    for odd in CELLS:
        rows[0] = [*z[0][:2], odd]
        assert _moved(voters.cast(HELD[how](rows), y), before) <= before.delta, odd
        _one_alone(voters, HELD[how], rows, y)


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["none", "signed", "soft"])
@pytest.mark.parametrize("rest", ["numbers", "short", "texts"])
def test_a_row_of_a_list_may_be_anything(kind: str, rest: str) -> None:
    voters, y = _voters(kind), [0] * N
    rows = np.random.default_rng(0).normal(size=(N, 3)).tolist()
    if rest == "short":  # the width is the map's, not that of most private rows
        rows[2:] = [row[:2] for row in rows[2:]]
    elif rest == "texts":
        rows[2:] = ["a text"] * (N - 2)
    before = voters.cast(rows, y)
    for odd in ROWS:
        rows[0] = odd
        assert _moved(voters.cast(rows, y), before) <= before.delta
        _one_alone(voters, list, rows, y)


def test_rows_in_a_list_an_object_array_or_numbers_cast_the_same_ballots() -> None:
    X, y = np.random.default_rng(0).normal(size=(N, 3)), [0, 1] * (N // 2)
    for kind in ("none", "signed", "soft", "scaler"):
        voters = _voters(kind)
        rows = np.empty(N, dtype=object)
        rows[:] = [list(row) for row in X]
        for same in (X.tolist(), list(X), X.astype(object), rows, X.astype(complex), [tuple(row) for row in X]):
            assert (voters.cast(same, y).sums == voters.cast(X, y).sums).all()


@pytest.mark.few(6)
@pytest.mark.parametrize("odd", ["", 7, None, [], ["a", "b"], ["a note"], b"x", np.zeros(2), object()])
def test_what_is_no_text_is_that_records_matter(odd: object) -> None:
    public = ["a note on cats", "a note on dogs", "cats and dogs", "of dogs"] * 5
    rep = TextMap(2).fit(public)
    voters = RecordVoters(rep, SignedSpace().fit(rep.transform(public)), classes=2)
    for notes in (public, [7] * 20, [["a", "note"]] * 20):
        rows, y = [odd, *notes[1:]], [0] * 20
        assert _moved(voters.cast(rows, y), voters.cast(notes, y)) <= voters.cast(notes, y).delta
        _one_alone(voters, list, rows, y)


def test_the_width_of_rows_is_the_maps() -> None:
    voters = _voters("signed")
    with pytest.raises(InvalidInputError, match="3 columns"):
        voters.cast(np.zeros((4, 2)), [0, 1, 0, 1])
    assert not voters.cast(np.zeros((4, 2)).tolist(), [0, 1, 0, 1]).sums.any()
    with pytest.raises(InvalidInputError, match="must be rows"):
        voters.cast("a text", [0])


@pytest.mark.parametrize("odd", ["a text", [1.0], None, 7, {}], ids=str)
@pytest.mark.parametrize("rest", [2, 3])
def test_before_teachers_too_a_row_of_a_list_decides_no_others_width_or_kind(odd: object, rest: int) -> None:
    public = _public()
    rows = [row[:rest] for row in np.random.default_rng(0).normal(size=(N, 3)).tolist()]
    rows[1] = [1.0, 2.0, 3.0]
    rows[0] = odd
    for like in (public, public.tolist()):
        found, _ = private_cells(rows, texts=False, like=like)
        assert found.shape == (N, 3)
        assert found[1].tolist() == [1.0, 2.0, 3.0]
