"""How tables are written: recognised from what is public, and no private record decides how the others are read."""

from __future__ import annotations

import csv
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pate.data import read_both, read_table
from pate.exceptions import CuratorWarning, InvalidInputError

ROWS = [["Zürich", "50.5", "no"], ["Genève", "41", "yes"], ["Bern", "", "no"]]


def written(path, rows, header=("town", "age", "ill"), sep=",", encoding="utf-8"):
    text = "\n".join(sep.join(line) for line in [list(header), *rows]) + "\n"
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_a_public_file_is_recognised(tmp_path, sep, encoding):
    t = read_table(written(tmp_path / "t.csv", ROWS, sep=sep, encoding=encoding), target="ill")
    assert t.X["town"].tolist() == ["Zürich", "Genève", "Bern"]
    assert t.X["age"].tolist()[:2] == [50.5, 41.0]
    assert (t.format.sep, t.format.encoding) == (sep, encoding.removesuffix("-sig"))


@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_a_private_file_is_as_the_public_one_or_says_it_itself(tmp_path, sep, encoding):
    """Its separator is in its header line; a mark of its encoding in its first bytes, else it is the public file's."""
    public = written(tmp_path / "u.csv", [row[:2] for row in ROWS], header=("town", "age"), encoding="cp1252", sep="|")
    private = written(tmp_path / "p.csv", ROWS, sep=sep, encoding=encoding)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        pair = read_both(private, public, target="ill")
    warned = [str(w.message) for w in said if w.category is CuratorWarning]
    assert ("looks like UTF-8" in "".join(warned)) == (encoding == "utf-8")
    if encoding != "utf-8":
        assert pair.private.X["town"].tolist() == ["Zürich", "Genève", "Bern"]
    assert pair.private.y.tolist() == ["no", "yes", "no"]


def test_one_odd_byte_does_not_change_how_a_private_file_is_read(tmp_path):
    """Its record cannot be used; were all read as latin-1 then, it would change the letters of all others."""
    public = written(tmp_path / "u.csv", [["Oslo", "1"]], header=("town", "age"))
    private = written(tmp_path / "p.csv", ROWS)
    private.write_bytes(private.read_bytes() + b"M\xfcnchen,3,no\n")
    with pytest.warns(CuratorWarning, match=r"1 of 4 records .*1 with letters of another encoding") as said:
        pair = read_both(private, public, target="ill")
    assert "nchen" not in str(said[0].message)
    assert pair.private.X["town"].tolist()[:3] == [row[0] for row in ROWS]
    assert pair.private.y.tolist()[3] is None
    pair = read_both(private, public, target="ill", encoding="latin-1")
    assert pair.private.X["town"].tolist()[-1] == "München"
    assert pair.public.format.encoding == "utf-8"  # recognised, whatever the private one is


def test_separators_in_private_cells_decide_nothing(tmp_path):
    public = written(tmp_path / "u.csv", [["Oslo", "1"]], header=("town", "age"))
    plain = written(tmp_path / "p.csv", [["a", "1", "no"], ["b", "2", "no"]])
    odd = written(tmp_path / "o.csv", [["a;b;c;d|e|f", "1", "no"], ["b", "2", "no"]])
    usual, other = (read_both(path, public, target="ill").private for path in (plain, odd))
    assert other.format == usual.format
    pd.testing.assert_frame_equal(usual.X.iloc[1:], other.X.iloc[1:])


def test_a_header_with_two_separators(tmp_path):
    """Of a public file the rows tell; of a private one its names do, else nothing is guessed."""
    names = ("size, cm", "age")
    public = written(tmp_path / "u.csv", [["1", "2"], ["3", "4"]], header=names, sep=";")
    assert read_table(public).X.columns.tolist() == list(names)
    private = written(tmp_path / "p.csv", [["1", "2", "no"]], header=(*names, "ill"), sep=";")
    assert read_both(private, public, target="ill").private.X.to_numpy().tolist() == [[1.0, 2.0]]
    unclear = written(tmp_path / "c.csv", [["1,2", "3"]], header=("a,b", "c"), sep=";")
    with pytest.raises(InvalidInputError, match=r"each may separate its cells.*--sep"):
        read_table(unclear, like=pd.DataFrame({"z": [1.0]}))
    assert read_table(unclear, sep="semicolon").X.columns.tolist() == ["a,b", "c"]


def test_excels_own_first_line(tmp_path):
    (tmp_path / "t.csv").write_text("sep=|\na|b,c\n1|2\n")
    assert read_table(tmp_path / "t.csv").X.columns.tolist() == ["a", "b,c"]


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"sep": ";;"}, r"sep \(--sep\) must be one character"),
        ({"encoding": "klingon"}, r"encoding \(--encoding\) must be one that Python knows"),
        ({"encoding": "rot13"}, r"encoding \(--encoding\) must be one that Python knows"),
        ({"decimal": ";"}, r"decimal \(--decimal\) must be"),
        ({"sheet": "one"}, r"sheet \(--sheet\) is for Excel workbooks, and 't.csv' is none"),
        ({"dates": "soon"}, "dates must be one of"),
    ],
)  # fmt: skip
def test_what_cannot_be_said(tmp_path, option, text):
    with pytest.raises(InvalidInputError, match=text):
        read_table(written(tmp_path / "t.csv", ROWS), **option)


def test_binary_files_are_no_tables(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
    for like in (None, pd.DataFrame({"a": [1.0]})):
        with pytest.raises(InvalidInputError, match=r"is not .*text"):
            read_table(tmp_path / "t.csv", like=like)


# Decimal commas -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("doses", "others"),
    [(("1,50", "2"), ("1.5", "2")), (("1,50", "many"), ("1", "2"))],
)
def test_decimal_commas_that_may_be_thousands_or_stand_beside_points_are_not_taken_for_such(tmp_path, doses, others):
    rows = list(zip("ab", doses, others, strict=True))
    t = read_table(written(tmp_path / "u.csv", rows, header=("town", "dose", "n"), sep=";"))
    assert (t.kinds["dose"], t.kinds["n"]) == ("text", "numeric")
    assert t.format.decimal == "."
    assert ("decimal commas" in t.remarks.get("dose", "")) == (doses[1] != "many")


@pytest.mark.parametrize("said", [None, ","])
def test_decimal_commas_are_recognised_in_the_public_file_and_read(tmp_path, said):
    rows = [["a", "1,50", "1"], ["b", "-2", "2"], ["c", "", "3"]]
    public = written(tmp_path / "u.csv", rows, header=("town", "dose", "n"), sep=";")
    assert "decimal commas" in read_table(public, decimal=".").remarks["dose"]
    t = read_table(public, decimal=said)
    assert t.X["dose"].tolist()[:2] == [1.5, -2.0]
    assert t.kinds == {"town": "text", "dose": "numeric", "n": "numeric"}
    private = written(
        tmp_path / "p.csv", [["a", "1,25", "7"], ["b", "1.234", "8"]], header=("town", "dose", "n"), sep=";"
    )
    with pytest.warns(CuratorWarning, match="'dose' has 1 that"):
        X = read_table(private, like=t).X
    assert X["dose"].tolist()[0] == 1.25
    assert np.isnan(X["dose"].tolist()[1])  # a thousand, or one and a bit: not guessed
    assert X["n"].tolist() == [7.0, 8.0]


# Dates --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "order", "days"),
    [
        (["1970-01-02", "1970-01-03T12:00", ""], "auto", [1.0, 2.5]),
        (["1970-01-02 01:00+01:00", "1970/01/02"], "auto", [1.0, 1.0]),
        (["02.01.1970", "1.2.1970"], "auto", [1.0, 31.0]),
        (["13/01/1970", "02/01/1970"], "auto", [12.0, 1.0]),
        (["01/13/1970", "01/02/1970"], "auto", [12.0, 1.0]),
        (["01/02/1970", "02/02/1970"], "day-first", [31.0, 32.0]),
        (["01/02/1970", "02/02/1970"], "month-first", [1.0, 32.0]),
    ],
)
def test_dates_become_days(tmp_path, cells, order, days):
    path = written(tmp_path / "t.csv", [[cell, "1"] for cell in cells], header=("when", "n"))
    t = read_table(path, dates=order)
    assert t.X["when"].dropna().tolist() == days
    assert t.kinds["when"].startswith("date:")


@pytest.mark.parametrize(
    ("cells", "order"),
    [(["01/02/1970", "02/02/1970"], "auto"), (["1970-01-02", "soon"], "auto"), (["1970-01-02"], "text"),
     (["1970-02-30"], "auto"), (["01/13/1970"], "day-first")],
)  # fmt: skip
def test_what_is_no_date_stays_text(tmp_path, cells, order):
    t = read_table(written(tmp_path / "t.csv", [[c, "1"] for c in cells], header=("when", "n")), dates=order)
    assert t.X["when"].tolist() == cells
    assert ("day or the month" in t.remarks.get("when", "")) == (cells[0] == "01/02/1970")


def test_declared_dates_and_texts_meet(tmp_path):
    """Of Parquet a type, of CSV texts: the private column is read as the public one, cell by cell."""
    public = tmp_path / "u.parquet"
    pd.DataFrame({"when": pd.to_datetime(["1970-01-02", None]), "n": [1, 2]}).to_parquet(public)
    t = read_table(public)
    assert t.X["when"].tolist()[0] == 1.0
    private = written(tmp_path / "p.csv", [["1970-01-05", "1"], ["soon", "2"]], header=("when", "n"))
    with pytest.warns(CuratorWarning, match="'when' has 1 that"):
        assert read_table(private, like=t).X["when"].tolist()[0] == 4.0
    pd.DataFrame({"when": pd.to_datetime(["1970-01-03"]).date, "n": [1]}).to_parquet(tmp_path / "p.parquet")
    assert read_table(tmp_path / "p.parquet", like=t).X["when"].tolist() == [2.0]
    pd.DataFrame({"when": pd.to_datetime(["1970-01-03"]), "n": [1]}).to_parquet(tmp_path / "p.parquet")
    assert read_table(tmp_path / "p.parquet", like=t).X["when"].tolist() == [2.0]
    with pytest.raises(InvalidInputError, match="'when' holds"):
        read_table(tmp_path / "p.parquet", like=pd.DataFrame({"when": [1.0], "n": [1.0]}))


LIKE = [["1970-01-02", "1,5", "Oslo"], ["1971-01-02", "", "Rome"]]
PEOPLE = [["1980-05-05", "2,5", "Oslo", "no"], ["1981-05-05", "0,1", "Rome", "yes"], ["1982-01-01", "7", "?", "no"]]


@pytest.mark.long
@settings(max_examples=60)
@given(
    row=st.integers(0, 2),
    column=st.integers(0, 3),
    cell=st.one_of(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
        st.sampled_from(
            ["1.234", "1,2,3", "12.5.2020", "2020-13-01", "9999-12-31T23:59:59.9+14:00", "0001-01-01", ";;;"]
        ),
    ),
)
def test_one_cell_is_its_own_rows_matter_in_dates_and_decimal_commas(row, column, cell, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    public = written(folder / "like.csv", LIKE, header=("born", "dose", "town"), sep=";")
    changed = [list(person) for person in PEOPLE]
    changed[row][column] = cell
    found = []
    for people in (PEOPLE, changed):
        with (folder / "people.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter=";").writerows([["born", "dose", "town", "ill"], *people])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CuratorWarning)
            found.append(read_both(folder / "people.csv", public, target="ill"))
    rest = [i for i in range(3) if i != row]
    usual, other = found
    pd.testing.assert_frame_equal(usual.private.X.iloc[rest], other.private.X.iloc[rest], check_exact=True)
    assert usual.private.y[rest].tolist() == other.private.y[rest].tolist()
    assert usual.columns == other.columns
    assert usual.private.format == other.private.format


# Columns ------------------------------------------------------------------------------------------------------


def codes(n=30):
    return {
        "plz": [f"0{1000 + i % 7}" for i in range(n)],
        "case": [str(5000 + 13 * i) for i in range(n)],
        "zipCode": [str(80331 + i % 5) for i in range(n)],
        "name": [f"person {i}" for i in range(n)],
        "age": [str(20 + i % 9) for i in range(n)],
        "weight": [f"{60 + i / 7:.3f}" for i in range(n)],
    }


def test_codes_and_ids_are_pointed_out_before_they_become_numbers(tmp_path):
    held = codes()
    path = written(tmp_path / "t.csv", list(zip(*held.values(), strict=True)), header=tuple(held))
    t = read_table(path)
    assert set(t.remarks) == {"plz", "case", "zipCode", "name"}
    assert "lose their zeros" in t.remarks["plz"]
    assert "nearly all of them different" in t.remarks["case"]
    assert "--id" in t.remarks["name"]
    warned = read_table(path, text=["plz", "case", "zipCode"], drop=["name"])
    assert warned.remarks == {}
    assert warned.X["plz"].tolist()[0] == "01000"


def test_an_id_is_kept_as_it_is_written_and_is_no_feature(tmp_path):
    public = written(
        tmp_path / "u.csv", [["007", "1", "a"], ["", "2", "b"], ["007", "3", "c"]], header=("v", "age", "t")
    )
    private = written(tmp_path / "p.csv", [["1", "a", "no"]], header=("age", "t", "ill"))
    pair = read_both(private, public, target="ill", id="v")
    assert pair.public.ids.tolist() == ["007", None, "007"]
    assert pair.public.X.columns.tolist() == ["age", "t"]
    (use,) = [use for use in pair.columns if use.name == "v"]
    assert use.remark == "1 are empty and 1 stand there before: kept as they are"
    both = written(tmp_path / "b.csv", [["x1", "1", "a", "no"]], header=("v", "age", "t", "ill"))
    assert read_both(both, public, target="ill", id="v", group="v").private.groups.tolist() == ["x1"]
    with pytest.raises(InvalidInputError, match=r"id column 'w' is in neither p\.csv nor u\.csv"):
        read_both(private, public, target="ill", id="w")


def test_columns_of_one_file_only_are_named_and_left_out_on_request(tmp_path):
    public = written(tmp_path / "u.csv", [["1", "2", "3"]], header=("age", "extra", "ill"))
    private = written(tmp_path / "p.csv", [["1", "2", "no"]], header=("age", "ward", "ill"))
    with pytest.raises(InvalidInputError, match=r"it lacks 'ward'; it also has 'extra'.*--only-common.*--group"):
        read_both(private, public, target="ill")
    pair = read_both(private, public, target="ill", only_common=True)
    assert pair.private.X.columns.tolist() == pair.public.X.columns.tolist() == ["age"]
    assert read_both(private, public, target="ill", drop=["ward", "extra"]).public.X.columns.tolist() == ["age"]
    other = written(tmp_path / "o.csv", [["1"]], header=("height",))
    with pytest.raises(InvalidInputError, match="no feature in common"):
        read_both(private, other, target="ill", only_common=True)


def test_what_is_left_out_need_not_be_readable(tmp_path):
    pd.DataFrame({"age": [1.0], "scan": [[1, 2]]}).to_parquet(tmp_path / "u.parquet")
    pd.DataFrame({"age": [1.0], "ill": ["no"], "stay": pd.to_timedelta(["1h"])}).to_parquet(tmp_path / "p.parquet")
    pair = read_both(tmp_path / "p.parquet", tmp_path / "u.parquet", target="ill", only_common=True)
    assert pair.private.X.columns.tolist() == ["age"]


def test_a_line_break_of_another_kind_moves_no_cell(tmp_path):
    r"""pandas loses an empty first cell behind a line of \r alone: of an empty record, the record itself."""
    (tmp_path / "u.csv").write_text("town,age\nBonn,1\n,2\n")
    for odd in ("\r,7,yes", "\r,,"):
        (tmp_path / "p.csv").write_bytes(f"town,age,ill\nOslo,5,no\n{odd}\nRome,6,no\n".encode())
        held = read_both(tmp_path / "p.csv", tmp_path / "u.csv", target="ill").private
        assert held.X["town"].isna().tolist() == [False, True, False]
        assert held.X["age"].tolist()[::2] == [5.0, 6.0]
        assert held.y.tolist() == ["no", "yes" if "yes" in odd else None, "no"]


def test_line_breaks_of_old_and_a_control_character_refuse_nothing(tmp_path):
    (tmp_path / "u.csv").write_text("town,age\nBonn,1\nRome,2\n")
    (tmp_path / "p.csv").write_bytes(b"town;age;ill\rOs\x01lo;5;no\rRome;6;no\r")
    held = read_both(tmp_path / "p.csv", tmp_path / "u.csv", target="ill").private
    assert held.X["town"].tolist() == ["Os\x01lo", "Rome"]


def test_a_long_text_is_its_own_records_matter(tmp_path):
    limit = csv.field_size_limit()
    (tmp_path / "u.csv").write_text("note,age\nBonn,1\nRome,2\n")
    (tmp_path / "p.csv").write_text(f"note,age,ill\n{'long ' * 40_000},5,no\nshort,6,no\n")
    held = read_both(tmp_path / "p.csv", tmp_path / "u.csv", target="ill").private
    assert held.X["note"].str.len().tolist() == [199_999, 5]  # without its last blank
    assert csv.field_size_limit() == limit
