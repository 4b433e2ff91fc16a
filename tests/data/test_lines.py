"""Lines of private text files: whatever bytes stand in one, all other records are what they were."""

from __future__ import annotations

import csv
import io
import random
import warnings

import pandas as pd
import pytest

from pate.data import read_table
from pate.data._columns import as_number, column_like
from pate.data._files._csv import Wanted, open_csv
from pate.exceptions import CuratorWarning

ROWS = [b"5,hello,a", b'6,"quoted, cell",b', b'"7","",a', b",,b", b'8,"say ""hi""",a', b" 9, spaced ,b"]
ROWS += [b'10,",lead",a', b"11,caf\xc3\xa9,b"]
HEAD = b"age,note,ill"

FORGED = "\nevil,Paris,99\nevil,Paris,99\n"


@pytest.fixture
def read(tmp_path):
    (tmp_path / "u.csv").write_text("age,note,ill\n1,x,a\n2,y,b\n")
    public = read_table(tmp_path / "u.csv", target="ill")

    def of(data):
        (tmp_path / "p.csv").write_bytes(data)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            table = read_table(tmp_path / "p.csv", target="ill", like=public)
        warned = [str(w.message) for w in said if w.category is CuratorWarning]
        return [repr(row) for row in zip(table.X["age"], table.X["note"], table.y, strict=True)], warned

    return of


@pytest.mark.few(1)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_any_bytes_in_the_place_of_a_line_change_that_record_alone(read, end):
    usual, warned = read(end.join([HEAD, *ROWS]) + end)
    assert usual[1] == "(6.0, 'quoted, cell', 'b')"
    assert usual[4] == "(8.0, 'say \"hi\"', 'a')"
    assert not warned
    draw = random.Random(0)
    some = [byte for byte in range(256) if byte not in b"\r\n"]
    for _ in range(50):
        i, n = draw.randrange(len(ROWS)), draw.randrange(12)
        line = bytes(
            draw.choice(b"\",,a1 \t\x00\xff;|'\\") if draw.random() < 0.8 else draw.choice(some) for _ in range(n)
        )
        found, _ = read(end.join([HEAD, *ROWS[:i], line, *ROWS[i + 1 :]]) + end)
        assert len(found) == len(usual), line
        assert [row for j, row in enumerate(found) if j != i] == [row for j, row in enumerate(usual) if j != i], line


def test_each_kind_of_broken_line_is_one_unusable_record_with_a_warning(read):
    usual, _ = read(b"\n".join([HEAD, *ROWS]) + b"\n")
    for line in (b"", b"5", b"5,hello", b"5,hello,a,b", b"5,h\x00i,a", b"5,\xff,a", b'5,"hello,a', b'5,"he"llo,a'):
        found, warned = read(b"\n".join([HEAD, line, *ROWS[1:]]) + b"\n")
        assert found == ["(nan, nan, None)", *usual[1:]]
        assert len(warned) == 1
        assert f"1 of {len(ROWS)} records cannot be used and contributes nothing: 1 with" in warned[0]
        assert "hello" not in warned[0]


def test_what_was_written_properly_is_read_as_it_was_written(read):
    """Cells that span lines too, whatever they hold: no cell makes two records."""
    draw = random.Random(1)
    parts = ['"', '""', ",", "\n", "\r\n", "1,2,a", "\n3,forged,b\n", '\n"4","forged","b"\n', " x", "é"]
    for _ in range(50):
        notes = ["n" + "".join(draw.choice(parts) for _ in range(draw.randrange(6))) + "n" for _ in range(6)]
        made = io.StringIO(newline="")
        quoting = draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
        writer = csv.writer(made, quoting=quoting, lineterminator=draw.choice(["\n", "\r\n"]))
        writer.writerows([["age", "note", "ill"], *([i, note, "ab"[i % 2]] for i, note in enumerate(notes))])
        found, warned = read(made.getvalue().encode())
        assert found == [repr((float(i), note, "ab"[i % 2])) for i, note in enumerate(notes)]
        assert not warned


def test_a_line_of_another_encoding_in_files_of_wide_letters(read):
    text = "age,note,ill\n5,x,a\n6,\xe9,b\n7,z,a\n"
    usual, warned = read(text.encode("utf-16"))
    assert usual == ["(5.0, 'x', 'a')", "(6.0, '\xe9', 'b')", "(7.0, 'z', 'a')"]
    assert not warned
    broken, warned = read(text.encode("utf-16").replace("\xe9".encode("utf-16-le"), b"\x00\xd8"))
    assert broken == [usual[0], "(nan, nan, None)", usual[2]]
    assert "1 with letters of another encoding" in warned[0]


def test_a_cell_of_a_parquet_file_that_is_no_text_is_missing(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"t": ["a", "b"], "ill": ["x", "y"]}), tmp_path / "u.parquet")
    public = read_table(tmp_path / "u.parquet", target="ill")
    cells = pa.array([b"a", b"\xff\xfe", b"c"], type=pa.binary()).view(pa.string())
    for column in (cells, cells.dictionary_encode()):
        pq.write_table(pa.table({"t": column, "ill": ["x", "y", "x"]}), tmp_path / "p.parquet")
        found = read_table(tmp_path / "p.parquet", target="ill", like=public).X["t"]
        assert found.isna().tolist() == [False, True, False]
        assert found.tolist()[::2] == ["a", "c"]


@pytest.mark.parametrize(
    "cells",
    [["a\0" + FORGED, "Rome", 2], ["a" + FORGED, "R\rome", 2], ["a" + FORGED, "R\u0416me", 2]],
    ids=["NUL", "carriage return", "foreign letter"],
)
def test_no_cell_makes_records_of_the_lines_in_another(cells, tmp_path):
    """Where a record ends depends on quotes and cells alone, whatever else stands in it."""
    kinds = {"note": "text", "city": "text", "age": "numeric"}
    path, wanted = tmp_path / "private.csv", Wanted()
    for third in (["fine", "Rome", 2], cells):
        pd.DataFrame([["hello", "Oslo", 1], third, ["x", "Bern", 3]], columns=list(kinds)).to_csv(path, index=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CuratorWarning)
            assert len(open_csv(path, wanted, names=list(kinds)).frame([], kinds)) == 3


@pytest.mark.parametrize("odd", ["", "x", "1_0", "inf", "NAN", " nan ", "9" * 400])
@pytest.mark.parametrize("decimal", [".", ","])
def test_numbers_read_in_one_pass_are_those_that_are_read_one_by_one(odd, decimal, tmp_path, monkeypatch):
    monkeypatch.setattr("pate.data._files._csv._BLOCK", 3)
    numbers = [f"{i / 7:.17g}".replace(".", decimal) for i in range(-4, 4)] + [" 7 ", "1e-320"]
    path, found = tmp_path / "p.csv", []
    for cells in (numbers, [*numbers[:4], odd, *numbers[5:]]):
        path.write_text("\n".join(["n;t", *(f"{cell};b" for cell in cells)]) + "\n")
        frame = open_csv(path, Wanted(decimal=decimal), names=["n", "t"]).frame([], {"n": "numeric", "t": "text"})
        found.append(column_like("n", frame["n"], "numeric")[0].tolist())
    assert found[0] == [as_number(cell.replace(decimal, ".")) for cell in numbers]
    assert found[1][:4] + found[1][5:] == found[0][:4] + found[0][5:]
    assert found[1][4] != found[1][4]
