"""Tables from Excel workbooks, folders of Parquet files and databases."""

from __future__ import annotations

import datetime as dt
import sqlite3
import sys
import warnings
import zipfile
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

from pate.data import check_other_file, read_both, read_table
from pate.data._files._arrow import Database, beside
from pate.exceptions import CuratorWarning, InvalidInputError, PateError

openpyxl = pytest.importorskip("openpyxl", reason="pip install 'pate-privacy[excel]'")
duckdb = pytest.importorskip("duckdb", reason="pip install 'pate-privacy[duckdb]'")
pa = pytest.importorskip("pyarrow", reason="pip install 'pate-privacy[parquet]'")
pq = pytest.importorskip("pyarrow.parquet", reason="pip install 'pate-privacy[parquet]'")

HEADER = ["age", "town", "born", "ill"]
PEOPLE = [[50, "Oslo", dt.date(1970, 1, 2), "no"], [51.5, "Rome", dt.date(1970, 1, 3), "yes"],
          [None, "?", None, "no"]]  # fmt: skip
SHOWN = [[40.5, "Oslo", dt.date(1970, 1, 5)], [61, "Rome", None]]


def workbook(path, rows, header=HEADER, **sheets):
    book = openpyxl.Workbook()
    page = book.active
    for line in [header, *rows]:
        page.append(line)
    for name, lines in sheets.items():
        for line in lines:
            (book[name] if name in book.sheetnames else book.create_sheet(name)).append(line)
    book.save(path)
    return path


def sqlite(path, rows, header=HEADER, table="visits"):
    with closing(sqlite3.connect(path)) as book, book:
        book.execute(f"CREATE TABLE {table} ({', '.join(header)})")
        cells = [[str(c) if isinstance(c, dt.date) else c for c in line] for line in rows]
        book.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(header))})", cells)
    book.close()
    return f"sqlite:{path}?table={table}"


def duck(path, rows, header=HEADER, table="visits"):
    kinds = {"age": "DECIMAL(9, 2)", "born": "DATE"}
    with duckdb.connect(str(path)) as book:
        columns = ", ".join(f"{name} {kinds.get(name, 'TEXT')}" for name in header)
        book.execute(f"CREATE TABLE {table} ({columns})")
        book.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(header))})", rows)
    return f"duckdb:{path}?table={table}"


MAKERS = {"xlsx": workbook, "sqlite": sqlite, "duckdb": duck}


@pytest.mark.few(6)
@pytest.mark.parametrize("shown", MAKERS)
@pytest.mark.parametrize("held", MAKERS)
def test_every_kind_beside_every_other(tmp_path, held, shown):
    pair = read_both(
        MAKERS[held](tmp_path / f"p.{held}", PEOPLE),
        MAKERS[shown](tmp_path / f"u.{shown}", SHOWN, HEADER[:3]),
        target="ill",
    )
    assert pair.public.X.iloc[0].tolist() == [40.5, "Oslo", 4.0]
    assert pair.private.X.iloc[1].tolist() == [51.5, "Rome", 2.0]
    assert pair.private.X[["age", "born"]].isna().to_numpy().tolist() == [[False] * 2, [False] * 2, [True] * 2]
    assert pair.private.y.tolist() == ["no", "yes", "no"]
    assert pair.public.kinds["age"] == "numeric"
    assert pair.private.format.kind == {"xlsx": "Excel"}.get(held, held)


@pytest.mark.few(3)
@pytest.mark.parametrize("held", ["xlsx", "sqlite"])
@pytest.mark.parametrize("odd", ["John Doe", 10**30, "7", dt.date(2020, 1, 1), True, "#DIV/0!", "1,5", ""])
@pytest.mark.parametrize("column", range(4))
def test_one_odd_cell_changes_no_other(tmp_path, held, odd, column):
    """Cells without a declared type: a whole column is never what its odd cell makes of it."""
    if held == "sqlite" and odd == 10**30:
        odd = 10**18
    changed = [list(line) for line in PEOPLE]
    changed[1][column] = odd
    public = workbook(tmp_path / "u.xlsx", SHOWN, HEADER[:3])
    found = []
    for i, rows in enumerate((PEOPLE, changed)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CuratorWarning)
            found.append(read_both(MAKERS[held](tmp_path / f"{i}.{held}", rows), public, target="ill").private)
    usual, other = found
    pd.testing.assert_frame_equal(usual.X.iloc[[0, 2]], other.X.iloc[[0, 2]], check_exact=True)
    assert usual.y[[0, 2]].tolist() == other.y[[0, 2]].tolist()


def test_codes_of_typed_columns_are_texts_on_both_sides_without_a_word(tmp_path):
    """A public column of texts that spell numbers is no reason to ask whether the private one is another column."""
    header = ["plz", "age"]
    public = workbook(tmp_path / "u.xlsx", [["01067", 1], ["80331", 2]], header)
    pair = read_both(duck(tmp_path / "p.db", [["80331", 5, "no"]], [*header, "ill"]), public, target="ill")
    assert pair.private.X["plz"].tolist() == ["80331"]
    words = workbook(tmp_path / "w.xlsx", [["Oslo", 1], ["Rome", 2]], header)
    with pytest.warns(CuratorWarning, match="'plz' holds numbers alone"):
        read_both(f"duckdb:{tmp_path / 'p.db'}?table=visits", words, target="ill")


# Excel --------------------------------------------------------------------------------------------------------


def test_one_of_several_sheets(tmp_path):
    path = workbook(tmp_path / "t.xlsx", SHOWN, HEADER[:3], other=[["a"], [1]])
    with pytest.raises(InvalidInputError, match=r"has the sheets 'Sheet', 'other'; say which.*--sheet"):
        read_table(path)
    with pytest.raises(InvalidInputError, match="none of them 'third'"):
        read_table(path, sheet="third")
    t = read_table(path, sheet="other")
    assert t.X.to_numpy().tolist() == [[1.0]]
    assert str(t.format) == "Excel, sheet 'other'"
    assert len(read_both(workbook(tmp_path / "p.xlsx", PEOPLE), path, target="ill", sheet="Sheet").public.X) == 2


def test_blank_lines_notes_and_leading_zeros_of_a_sheet(tmp_path):
    """Blank lines at the end are none; one between others is a row, so that rows keep their places."""
    rows = [["007", 1, "a note"], [None, None, None], ["010", 2.0, None], [None, None, "total"], [None, None, None]]
    t = read_table(workbook(tmp_path / "t.xlsx", rows, ["code", "n", None]))
    assert t.X["code"].tolist()[::2] == ["007", "010"]
    assert t.X["n"].isna().tolist() == [False, True, False]


def test_a_workbook_that_is_none(tmp_path):
    (tmp_path / "t.xlsx").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(InvalidInputError, match="is not a readable Excel workbook"):
        read_table(tmp_path / "t.xlsx")
    with pytest.raises(InvalidInputError, match="0 rows"):
        read_table(workbook(tmp_path / "e.xlsx", []))


@pytest.mark.parametrize(("module", "extra", "name"), [("openpyxl", "excel", "t.xlsx"), ("duckdb", "duckdb", "t.db")])
def test_a_missing_package_is_named_with_its_install_line(tmp_path, monkeypatch, module, extra, name):
    monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr("pate._core.curator.find_spec", lambda wanted: None if wanted == module else wanted)
    (tmp_path / name).write_bytes(b"x")
    source = tmp_path / name if extra == "excel" else f"duckdb:{tmp_path / name}?table=t"
    with pytest.raises(PateError, match=rf'pip install "pate-privacy\[{extra}\]"'):
        read_table(source)


# Parquet ------------------------------------------------------------------------------------------------------


def parts(folder, years=("2019", "007"), n=2):
    for i, year in enumerate(years):
        place = folder / f"year={year}" / "part-0.parquet"
        place.parent.mkdir(parents=True)
        pd.DataFrame({"age": np.arange(n) + 10.0 * i}).to_parquet(place)
    (folder / "_SUCCESS").write_text("")
    (folder / ".crc.parquet").write_text("hidden")
    return folder


def test_a_folder_of_parts_is_one_table(tmp_path):
    t = read_table(parts(tmp_path / "d"))
    assert sorted(map(tuple, t.X.to_numpy().tolist())) == [(0.0, "2019"), (1.0, "2019"), (10.0, "007"), (11.0, "007")]
    assert str(t.format) == "Parquet, 2 files"
    years = read_table(parts(tmp_path / "e", ("2019", "2020")))
    assert years.kinds["year"] == "numeric"
    with pytest.warns(CuratorWarning, match="'year' has 2 that"):
        X = read_table(parts(tmp_path / "g", ("2019", "unknown")), like=years).X
    assert X["year"].dropna().tolist() == [2019.0, 2019.0]


def test_parts_that_differ_or_are_broken(tmp_path):
    folder = parts(tmp_path / "d")
    pd.DataFrame({"age": ["old"]}).to_parquet(folder / "year=007" / "part-1.parquet")
    with pytest.raises(InvalidInputError, match="its parts differ"):
        read_table(folder)
    (folder / "year=007" / "part-1.parquet").write_bytes(b"PAR1")
    with pytest.raises(InvalidInputError, match="not a readable Parquet table"):
        read_table(folder)


# Databases ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [sqlite, duck])
def test_a_query_is_a_table_and_nothing_is_written(tmp_path, make):
    path = tmp_path / "t.db"
    source = make(path, PEOPLE).partition("?")[0]
    before = path.read_bytes()
    t = read_table(f"{source}?query=SELECT age, 2 * age AS twice FROM visits WHERE town = 'Rome' ORDER BY age")
    assert t.X.to_numpy().tolist() == [[51.5, 103.0]]
    for query in ("DELETE FROM visits", "DROP TABLE visits", "SELECT * FROM nowhere", "COPY visits TO 'x.csv'"):
        with pytest.raises(InvalidInputError, match="a query, cannot be read"):
            read_table(f"{source}?query={query}")
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.db"]
    with pytest.raises(InvalidInputError, match="has no table 'none'; it has 'visits'"):
        read_table(f"{source}?table=none")
    with pytest.raises(InvalidInputError, match="has no table"):
        read_table(f'{source}?table=visits"; DROP TABLE visits; --')


def test_a_query_reads_no_other_file(tmp_path):
    (tmp_path / "other.csv").write_text("a\n1\n")
    source = duck(tmp_path / "t.db", PEOPLE).partition("?")[0]
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_table(f"{source}?query=SELECT * FROM read_csv('{tmp_path / 'other.csv'}')")


def test_a_text_that_is_no_utf8_is_its_own_cells_matter(tmp_path):
    source = sqlite(tmp_path / "t.db", PEOPLE)
    with closing(sqlite3.connect(tmp_path / "t.db")) as book, book:
        book.execute("UPDATE visits SET town = CAST(x'4fff6f' AS TEXT) WHERE ill = 'yes'")
    book.close()
    like = read_table(workbook(tmp_path / "u.xlsx", SHOWN, HEADER[:3]))
    with pytest.warns(CuratorWarning, match="'town' has 1 that are not what the public rows have"):
        towns = read_table(source, target="ill", like=like).X["town"]
    assert towns.isna().tolist() == [False, True, False]


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_file_that_is_no_database(tmp_path, kind):
    (tmp_path / "t.db").write_text("age,ill\n" * 200)
    with pytest.raises(InvalidInputError, match=f"Is it a {kind} file"):
        read_table(f"{kind}:{tmp_path / 't.db'}?table=t")
    with pytest.raises(InvalidInputError, match="there is no file"):
        read_table(f"{kind}:{tmp_path / 'none.db'}?table=t")
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("source", ["duckdb:a.db", "duckdb:a.db?table=", "sqlite:?table=t", "sqlite:a.db?where=1"])
def test_what_names_no_table_of_a_database(source):
    with pytest.raises(InvalidInputError, match=r"must be named (duckdb|sqlite):FILE\?table=NAME"):
        read_table(source)


def test_a_password_is_never_shown():
    with pytest.raises(InvalidInputError, match="a database server cannot be read") as caught:
        read_table("postgresql://me:secret@clinic/db?table=visits")
    assert "secret" not in str(caught.value)


def test_where_a_table_and_its_files_are(tmp_path):
    assert Database.of("sqlite:///abs/a.db?table=t").path.as_posix() == "/abs/a.db"
    assert beside("duckdb:a.db?query=SELECT 1", ".x").name == "a.db.x"
    source = sqlite(tmp_path / "t.db", PEOPLE)
    with pytest.raises(InvalidInputError, match="private and public are one file"):
        check_other_file(source, source)
    with pytest.raises(InvalidInputError, match="private and public are one file"):
        check_other_file(source, source.replace("t.db", f"../{tmp_path.name}/t.db"))
    check_other_file(source, source.replace("visits", "others"))


# One odd cell in a declared type -------------------------------------------------------------------------------

FAR = 10**7  # days: the year 29349, for which Python has no date


def far_parquet(path, kind):
    moments = pa.array([1, FAR], pa.int32()).cast(pa.date32())
    if kind != "date32":
        unit, _, zone = kind.partition(",")
        day = 86400 * {"s": 1, "us": 10**6}[unit]
        moments = pa.array([day, FAR * day], pa.int64()).cast(pa.timestamp(unit, tz=zone or None))
    pq.write_table(pa.table({"born": moments, "ill": ["no", "yes"]}), path)
    return path


@pytest.mark.parametrize("kind", ["date32", "s", "us", "us,Europe/Oslo"])
@pytest.mark.parametrize("shown", ["text", "parquet"])
def test_a_date_that_python_has_no_name_for_is_its_own_records_matter(tmp_path, kind, shown):
    private = far_parquet(tmp_path / "p.parquet", kind)
    if shown == "text":
        (tmp_path / "u.csv").write_text("born\n1970-01-02\n1980-01-01\n")
    else:
        pd.DataFrame({"born": pd.to_datetime(["1970-01-02", "1980-01-01"])}).to_parquet(tmp_path / "u.parquet")
    public = tmp_path / ("u.csv" if shown == "text" else "u.parquet")
    days = read_both(private, public, target="ill").private.X["born"].tolist()
    assert days[0] == 1.0
    assert np.isnan(days[1])


@pytest.mark.parametrize("unit", ["D", "us"])
def test_a_date_of_an_array_that_python_has_no_name_for(tmp_path, unit):
    born = np.array([1, FAR], "M8[D]").astype(f"M8[{unit}]")
    if unit == "D":
        born[1] = np.array(10**15, "M8[D]")  # of which pandas tells the year
    np.savez(tmp_path / "p.npz", born=born, ill=np.array(["no", "yes"]))
    (tmp_path / "u.csv").write_text("born\n1970-01-02\n1980-01-01\n")
    days = read_both(tmp_path / "p.npz", tmp_path / "u.csv", target="ill").private.X["born"].tolist()
    assert days[0] == 1.0
    assert np.isnan(days[1])


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMPTZ"])
def test_an_infinite_date_of_a_database_is_its_own_records_matter(tmp_path, kind):
    with duckdb.connect(str(tmp_path / "p.db")) as book:
        book.execute(f"CREATE TABLE t (born {kind}, ill TEXT)")
        book.execute("INSERT INTO t VALUES ('1970-01-03', 'no'), ('infinity', 'yes')")
    (tmp_path / "u.csv").write_text("born\n1970-01-02\n1980-01-01\n")
    days = read_both(f"duckdb:{tmp_path}/p.db?table=t", tmp_path / "u.csv", target="ill").private.X["born"].tolist()
    assert 1.0 <= days[0] <= 3.0
    assert np.isnan(days[1])


def test_a_cell_of_sqlite_that_is_no_text_is_its_own_records_matter(tmp_path):
    with closing(sqlite3.connect(tmp_path / "p.db")) as book, book:
        book.execute("CREATE TABLE t (who, town, age, ill)")
        book.execute("INSERT INTO t VALUES ('a', 'Oslo', 1, 'no'), ('b', CAST(x'ff41' AS TEXT), 2, 'yes')")
    book.close()
    (tmp_path / "u.csv").write_text("town,age\nOslo,1\nRome,2\n")
    with pytest.warns(CuratorWarning):
        held = read_both(f"sqlite:{tmp_path}/p.db?table=t", tmp_path / "u.csv", target="ill", group="who").private
    assert held.X["town"].tolist()[0] == "Oslo"
    assert held.X["town"].isna().tolist() == [False, True]
    assert held.groups.tolist() == ["a", "b"]


def test_a_date_of_a_sheet_that_is_none_is_not_quoted(tmp_path):
    made = workbook(tmp_path / "made.xlsx", PEOPLE)
    with zipfile.ZipFile(made) as old, zipfile.ZipFile(tmp_path / "p.xlsx", "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("sheet1.xml"):
                assert b"<v>25571</v>" in data
                data = data.replace(b"<v>25571</v>", b"<v>98765432</v>")
            new.writestr(name, data)
    public = workbook(tmp_path / "u.xlsx", SHOWN, HEADER[:3])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        held = read_both(tmp_path / "p.xlsx", public, target="ill").private
    assert held.X["born"].isna().tolist() == [False, True, True]
    assert not any("98765432" in str(w.message) for w in said)


def test_folders_without_a_name_and_a_value_are_no_column(tmp_path):
    (tmp_path / "d" / "2020").mkdir(parents=True)
    pd.DataFrame({"age": [1.0]}).to_parquet(tmp_path / "d" / "2020" / "part.parquet")
    assert read_table(tmp_path / "d").X.columns.tolist() == ["age"]


def test_of_a_private_folder_it_is_not_said_how_many_values_part_it(tmp_path):
    """Another record's town would be one file more."""
    shown, held = parts(tmp_path / "u"), parts(tmp_path / "p", ("2019", "2020", "x07"))
    for place in held.rglob("part-0.parquet"):
        pd.read_parquet(place, partitioning=None).assign(ill="no").to_parquet(place)
    pair = read_both(held, shown, target="ill")
    assert [str(t.format) for t in (pair.private, pair.public)] == ["Parquet, parted by a column", "Parquet, 2 files"]
