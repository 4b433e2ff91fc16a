"""No cell of one record changes what becomes of another's, whatever holds the rows: the ballots stay, bit by bit."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest

from pate import RecordVoters
from pate.estimators._public_rows import any_rows
from pate.exceptions import InvalidInputError
from pate.records import SignedSpace
from pate.representations import TableMap

#: The curator is warned of unusable records, which tests/estimators/test_unusable_records.py tests.
pytestmark = pytest.mark.filterwarnings("ignore::pate.exceptions.CuratorWarning")

ODD = ("zz", "1", "", None, float("nan"), 2, True, 1.5, 1j, 1 + 0j, 2**53 + 1, 2**70, dt.date(2020, 1, 1), {}, [1],
       b"x", np.float32(1), pd.NA, pd.NaT, np.inf)  # fmt: skip
CATEGORIES = {
    "bool": [True, False, True, False],
    "int": [1, 2, 0, 1],
    "float": [1.0, 2.0, 0.0, 1.0],
    "text": ["1", "a", "true", "b"],
    "mixed": ["a", 1, True, 1.5],
}


def _held(how: str, rows: list[list[object]]) -> object:
    if how == "list":
        return rows
    if how == "frame":
        return pd.DataFrame(rows, columns=["u", "c"])
    cells = np.empty((len(rows), 2), dtype=object)
    for i, row in enumerate(rows):
        cells[i, 0], cells[i, 1] = row
    if how == "objects":
        return cells
    return np.ma.array(cells, mask=np.zeros(cells.shape, dtype=bool))


@pytest.mark.few(3)
@pytest.mark.parametrize("method", ["voters", "classifier"])
@pytest.mark.parametrize("how", ["list", "frame", "objects", "masked"])
@pytest.mark.parametrize("kind", CATEGORIES)
def test_an_unusable_record_moves_nothing(kind: str, how: str, method: str) -> None:
    if (how, method) == ("masked", "classifier"):
        pytest.skip("texts in masked arrays are refused there, whatever they are")
    rng = np.random.default_rng(0)
    n, known = 40, CATEGORIES[kind]
    cells = [known[i % 4] for i in range(n)]
    numbers = rng.normal(size=n).round(2).tolist()
    public = pd.DataFrame({"u": numbers * 2, "c": np.array([*cells, *["a", "b", "1", "True"] * 10], dtype=object)})
    table = TableMap().fit(public)
    voters = RecordVoters(table, SignedSpace().fit(table.transform(public)), classes=("no", "yes"))
    y = ["no", "yes"] * (n // 2)
    y[7] = "?"  # it casts none: every sum must be the same

    def cast(odd: object, column: int) -> np.ndarray:
        rows = [[u, c] for u, c in zip(numbers, cells, strict=True)]
        rows[7][column] = odd
        X = _held(how, rows)
        if method == "classifier":
            X = any_rows(("no", "yes")).read_private(X, public).rows
        return voters.cast(X, y).sums

    first = cast(known[3], 1)
    assert first.any()
    for odd in ODD:
        if method == "classifier" and how == "frame" and isinstance(odd, dt.date | dict | list | bytes):
            continue  # the same as any odd cell, in objects
        for column in (0, 1):
            assert (cast(odd, column) == first).all(), (odd, column)


@pytest.mark.parametrize("how", ["list", "frame", "objects", "masked"])
def test_without_a_representation_an_odd_cell_is_that_records_alone(how: str) -> None:
    z = np.random.default_rng(0).normal(size=(40, 2))
    voters = RecordVoters(None, SignedSpace().fit(z), classes=("no", "yes"))
    y = ["no", "yes"] * 20
    y[7] = "?"
    first = voters.cast(z, y).sums
    for odd in ODD:
        rows = z.tolist()
        rows[7][0] = odd
        assert (voters.cast(_held(how, rows), y).sums == first).all(), odd


def test_a_sum_is_not_added_twice() -> None:
    z = np.random.default_rng(0).normal(size=(40, 2))
    voters = RecordVoters(None, SignedSpace().fit(z), classes=2)
    a, b = voters.cast(z[:20], [0, 1] * 10), voters.cast(z[20:], [0, 1] * 10)
    both = a + b
    for again in (lambda: a + a, lambda: both + a, lambda: b + both):
        with pytest.raises(InvalidInputError, match="added twice"):
            again()


def test_progress_does_not_tell_how_many_records_the_persons_have(capfd: pytest.CaptureFixture[str]) -> None:
    z = np.random.default_rng(0).normal(size=(9000, 2))
    voters = RecordVoters(None, SignedSpace().fit(z[:50]), classes=2, verbose=True)
    voters.cast(z, [0, 1] * 4500, groups=np.arange(9000) // 3)
    assert not "".join(capfd.readouterr()).strip()
    voters.cast(z, [0, 1] * 4500)  # their number is public
    assert "ballots" in "".join(capfd.readouterr())
