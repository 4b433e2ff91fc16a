"""``pate label`` on files as people have them: read as they are meant, or refused in one line with nothing spent."""

from __future__ import annotations

import csv
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
from test_cli import pate

N, N_PUBLIC = 120, 30
BASE = {"private": "p.csv", "public": "u.csv", "target": "ill", "classes": "no,yes", "epsilon": 4, "delta": "1e-3",
        "teacher": "naive-bayes", "teachers": 6, "queries": 5, "jobs": 1, "out": "labels.csv"}  # fmt: skip


def run(folder, *flags, **options):
    merged = {k: v for k, v in (BASE | options).items() if v is not None}
    given = [part for k, v in merged.items() for part in (f"--{k.replace('_', '-')}", v)]
    return pate("label", *given, *flags, cwd=folder)


def refused(folder, done, *words):
    """In one line, in order of the words; nothing was written, registered or paid for."""
    assert done.returncode == 2, done.stdout + done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in errors[0]
    assert not [
        p.name
        for p in folder.rglob("*")
        if (p.name.startswith("labels.") and p.suffix != ".private") or "ledger" in p.name
    ]


def write(path, frame, sep=",", encoding="utf-8", decimal="."):
    frame.to_csv(path, index=False, sep=sep, encoding=encoding, decimal=decimal)
    return path


def people(n, rng):
    frame = pd.DataFrame({"age": rng.normal(50, 10, n).round(2), "town": rng.choice(["Bern", "Zürich"], n)})
    return frame.assign(ill=np.where(frame["age"] > 50, "yes", "no"))


@pytest.fixture
def tables(tmp_path):
    rng = np.random.default_rng(0)
    write(tmp_path / "p.csv", people(N, rng))
    write(tmp_path / "u.csv", people(N_PUBLIC, rng).drop(columns="ill"))
    return tmp_path


def change(folder, name, how):
    write(folder / name, how(pd.read_csv(folder / name)))


# Bad input ----------------------------------------------------------------------------------------------------

BAD_FILES = {
    "empty": (b"", "is empty"),
    "blank": (b"\n\n", "is empty: there is no header line"),
    "header only": (b"age,town,ill\n", "has 0 rows"),
    "binary": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\1", "is not"),
    "latin-1": ("age,town,ill\n1,Zürich,no\n".encode("latin-1"), "is not utf-8 text", "--encoding"),
    "ragged": (b"age,town,ill\n1,Bern,no\n2,Bern\n", "line 3: 2 cells where the header has 3"),
    "open quote": (b'age,town,ill\n1,"Bern,no\n', "is not a readable CSV table"),
    "twice": (b"age,age,ill\n1,2,no\n", "has columns of the same name: 'age'"),
    "no name": (b",age,town,ill\n0,1,Bern,no\n", "has a column without a name", "--drop"),
    "another separator": (b"age^town^ill\n1^Bern^no\n", "target column 'ill' is not in p.csv", "--sep"),
    "other columns": (b"age,ort,ill\n1,Bern,no\n", "it lacks 'ort'; it also has 'town'", "--only-common"),
    "target alone": (b"ill\nno\n", "it also has 'age', 'town'"),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("bad", [bad for bad in BAD_FILES if bad not in ("latin-1", "ragged", "open quote")])
def test_a_bad_private_file_is_refused_in_one_line(tables, bad):
    content, *words = BAD_FILES[bad]
    (tables / "p.csv").write_bytes(content)
    refused(tables, run(tables), *words)


@pytest.mark.few(2)
@pytest.mark.parametrize("bad", ["empty", "header only", "binary", "ragged", "twice", "no name"])
def test_a_bad_public_file_is_refused_in_one_line(tables, bad):
    content, *words = BAD_FILES[bad]
    (tables / "u.csv").write_bytes(content)
    refused(tables, run(tables), *words)


@pytest.mark.long
@pytest.mark.parametrize(
    ("labels", "voters"), [(lambda y: [""] * len(y), "shards"), (lambda y: y.map({"no": "0", "yes": "1"}), "records")]
)
def test_labels_of_which_none_is_a_class_are_released_as_beside_one_that_is(tables, labels, voters):
    own = {} if voters == "shards" else {"teacher": None, "teachers": None, "queries": None}
    change(tables, "p.csv", lambda frame: frame.assign(ill=labels(frame["ill"])))
    done = run(tables, voters=voters, **own)
    assert done.returncode == 0, done.stderr
    assert "NO RECORD IS LEFT" in " ".join(done.stderr.split())


@pytest.mark.long
def test_lines_that_are_no_rows_refuse_nothing(tables):
    file = tables / "p.csv"
    lines = file.read_bytes().rstrip(b"\n").split(b"\n")
    lines[5:9] = [b"50.0,Bern", b"50.0,Bern,no,no", b'50.0,"Bern,no', b"50.0,B\0rn,\xff"]
    file.write_bytes(b"\n".join(lines) + b"\n")
    done = run(tables)
    assert done.returncode == 0, done.stderr
    assert f"4 of {N} records cannot be used and contribute nothing" in " ".join(done.stderr.split())


@pytest.mark.long
@pytest.mark.parametrize("which", ["one class", "a class without records", "a missing label"])
def test_labels_that_are_fine(tables, which):
    def how(frame):
        frame.loc[3 if which == "a missing label" else slice(None), "ill"] = (
            None if which == "a missing label" else "no"
        )
        return frame

    if which != "a class without records":
        change(tables, "p.csv", how)
    done = run(tables, classes="no,yes,unknown" if which == "a class without records" else "no,yes")
    assert done.returncode == 0, done.stderr
    assert len(pd.read_csv(tables / "labels.csv")) == N_PUBLIC


@pytest.mark.long
def test_names_that_are_wrong(tables):
    refused(tables, run(tables, target="sick"), "target column 'sick' is not in p.csv, which has: 'age', 'town', 'ill'")
    refused(tables, run(tables, group="who"), "group column 'who' is not in p.csv")
    refused(tables, run(tables, drop="weight"), "drop column 'weight' is in neither p.csv nor u.csv")
    refused(tables, run(tables, text="weight"), "text column 'weight' is in neither")
    refused(tables, run(tables, id="weight"), "id column 'weight' is in neither")
    refused(tables, run(tables, id="ill"), "'ill' has two roles")
    refused(tables, run(tables, classes="no"), "at least two distinct class values")
    refused(tables, run(tables, private="none.csv"), "there is no file none.csv")
    refused(tables, run(tables, sheet="one"), "sheet", "is for Excel workbooks")


@pytest.mark.long
def test_one_file_on_both_sides_and_an_output_that_is_there(tables):
    refused(tables, run(tables, private="u.csv"), "--private and --public are one file")
    shutil.copy(tables / "u.csv", tables / "v.csv")
    refused(tables, run(tables, private="v.csv"), "--private and --public are copies of one file")
    before = (tables / "p.csv").read_bytes()
    refused(tables, run(tables, out="p.csv"), "'p.csv' exists. Results are never overwritten")
    refused(tables, run(tables, out="u.csv/labels.csv"), "cannot be written")
    assert (tables / "p.csv").read_bytes() == before


# Files as people have them ------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_table_from_a_spreadsheet_program(tables):
    """Semicolons, cp1252, decimal commas, dates, an id and a column too many, classes with a comma."""
    rng = np.random.default_rng(1)
    kinds = {"yes": "krank", "no": "gesund, nicht krank"}
    for name, n in (("p.csv", N), ("u.csv", N_PUBLIC)):
        frame = people(n, rng).assign(day=[f"{1 + i % 28:02}.03.2021" for i in range(n)])
        frame["ill"] = frame["ill"].map(kinds)
        more = frame.assign(who=range(n)) if name == "p.csv" else frame.drop(columns="ill").assign(
            visit=[f"00{i}" for i in range(n)], ward="A")  # fmt: skip
        write(tables / name, more, ";", "cp1252", ",")
    (tables / "classes.txt").write_text("krank\n\ngesund, nicht krank\n", encoding="utf-8-sig")
    given = {"classes": None, "classes_file": "classes.txt", "id": "visit", "decimal": ",", "group": "who"}
    refused(tables, run(tables, **given), "it also has 'ward'")
    plan = run(tables, "--plan", "--verbose", "--only-common", **given)
    assert plan.returncode == 0, plan.stderr
    for line in (
        "private    p.csv: CSV, semicolons, cp1252, decimal commas",
        "public     u.csv: CSV, semicolons, cp1252, decimal commas; 30 rows",
        "columns    age: number",
        "           town: 2 categories",
        "           ill: the classes",
        "           day: date, in days since 1970-01-01 (day-first)",
        "           who: says whose row it is",
        "           visit: id, kept beside the labels",
        "           ward: left out, as it stands in the public file only",
    ):
        assert line in plan.stdout.splitlines()
    assert run(tables, "--only-common", **given).returncode == 0
    with (tables / "labels.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [line["visit"] for line in lines] == [f"00{i}" for i in range(N_PUBLIC)]
    assert {line["label"] for line in lines if line["label"]} <= set(kinds.values())


@pytest.mark.few(1)
@pytest.mark.parametrize("sep", [";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_other_separators_and_marks(tables, sep, encoding):
    for name in ("p.csv", "u.csv"):
        write(tables / name, pd.read_csv(tables / name), sep, encoding)
    done = run(tables, "--plan")
    assert done.returncode == 0, done.stderr
    assert (
        f"p.csv: CSV, {({';': 'semicolons', '|': 'pipes'}).get(sep, 'tabs')}, {encoding[:6].rstrip('-')}" in done.stdout
    )


@pytest.mark.long
def test_what_the_public_file_says_of_codes_and_classes(tables):
    change(tables, "u.csv", lambda frame: frame.assign(ill=["no", "perhaps"] * 15))
    change(tables, "u.csv", lambda frame: frame.assign(plz=[f"0{1000 + i}" for i in range(N_PUBLIC)]))
    change(tables, "p.csv", lambda frame: frame.assign(plz="01000"))
    done = run(tables, "--plan")  # what is odd is said in any case
    assert "age: number" not in done.stdout
    assert "ill: the classes (the public file has 'perhaps' there, which is no class)" in done.stdout
    assert "plz: number (cells such as 007 lose their zeros: a code? Then --text, --drop or --id)" in done.stdout
    text = run(tables, "--plan", "--verbose", text="plz").stdout
    assert "plz: 30 categories, as you say\n" in text


@pytest.mark.long
def test_a_long_list_of_columns_is_shortened(tables):
    def wide(frame):
        more = pd.DataFrame({f"m{i}": frame["age"] + i for i in range(60)})
        return pd.concat([frame, more], axis=1)

    for name in ("p.csv", "u.csv"):
        change(tables, name, wide)
    done = run(tables, "--plan", "--verbose")
    assert "columns    number: age, m0, ... m59 (61 columns)\n" in done.stdout
    assert "           categories: town\n" in done.stdout


@pytest.mark.long
def test_a_plan_says_nothing_of_private_cells(tables):
    usual = run(tables, "--plan", "--verbose").stdout
    change(tables, "p.csv", lambda frame: frame.assign(age=[f"0{i},5" for i in range(N)], town="2020-01-01", ill="x"))
    assert run(tables, "--plan", "--verbose").stdout == usual


@pytest.mark.long
def test_a_database_has_its_ledger_beside_it(tables):
    with closing(sqlite3.connect(tables / "c.db")) as book, book:
        pd.read_csv(tables / "p.csv").to_sql("visits", book, index=False)
        pd.read_csv(tables / "u.csv").to_sql("cohort", book, index=False)
    book.close()
    given = {"private": "sqlite:c.db?table=visits", "public": "sqlite:c.db?table=cohort"}
    done = run(tables, **given)
    assert done.returncode == 0, done.stderr
    assert (tables / "c.db.visits.ledger.sqlite").exists()
    same = {"private": "sqlite:c.db?table=visits", "public": "sqlite:c.db?table=visits", "out": "again.csv"}
    assert "--private and --public are one file" in run(tables, **same).stderr
    (tables / "jobs").mkdir()
    lines = [f'{k} = "{v}"' for k, v in {"private": "sqlite:../c.db?table=visits", "public": "../u.csv"}.items()]
    (tables / "jobs" / "job.toml").write_text("\n".join([*lines, 'classes = ["no", "yes"]']))
    own = {"private": None, "public": None, "classes": None, "config": "jobs/job.toml", "out": "again.csv"}
    assert run(tables, "--plan", **own).returncode == 0


@pytest.mark.long
def test_classes_are_named_once_and_in_a_file_that_can_be_read(tables):
    (tables / "classes.txt").write_bytes(b"no\n\xff\n")
    refused(tables, run(tables, classes_file="classes.txt"), "--classes and --classes-file both name the classes")
    refused(tables, run(tables, classes=None, classes_file="classes.txt"), "cannot be read as UTF-8 text")
    refused(tables, run(tables, classes=None, classes_file="none.txt"), "cannot be read")


@pytest.mark.long
def test_an_id_in_the_private_file_only_and_one_with_a_written_name(tables):
    change(tables, "p.csv", lambda frame: frame.assign(row=range(N)))
    assert "row: id, left out: the public file has none" in run(tables, "--plan", "-v", id="row").stdout
    change(tables, "u.csv", lambda frame: frame.assign(row=range(100, 100 + N_PUBLIC)))
    assert run(tables, id="row").returncode == 0
    assert pd.read_csv(tables / "labels.csv").columns.tolist() == ["row", "label", "status", "margin", "confidence"]
    assert pd.read_csv(tables / "labels.csv")["row"].tolist()[0] == 100
    for path in (*tables.glob("labels*"), *tables.glob("*ledger*")):
        path.unlink() if path.is_file() else shutil.rmtree(path)
    change(tables, "u.csv", lambda frame: frame.rename(columns={"row": "status"}))
    refused(tables, run(tables, "--only-common", id="status"), "id must not be called 'status'")


@pytest.mark.long
def test_votes_from_elsewhere_have_ids_too(tables):
    change(tables, "u.csv", lambda frame: frame[:3].assign(visit=["a", "b", "c"]))
    np.save(tables / "votes.npy", [[98, 2], [5, 95], [60, 40]])
    given = ["--votes", "votes.npy", "--classes", "no,yes", "--epsilon", 5, "--new-ledger", "--id", "visit", "--out",
             "labels.csv"]  # fmt: skip
    assert "--id must be left out without public rows" in pate("label", *given, cwd=tables).stderr
    done = pate("label", *given, "--public", "u.csv", cwd=tables)
    assert done.returncode == 0, done.stderr
    assert pd.read_csv(tables / "labels.csv").columns.tolist() == [
        "visit",
        "row",
        "label",
        "status",
        "margin",
        "confidence",
    ]


# Before anything is spent ---------------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("way", [{}, {"teacher": None, "teachers": None, "queries": None}], ids=["shards", "records"])
def test_the_plan_tells_the_curator_of_records_that_do_not_vote(tables, way):
    done = run(tables, "--plan", classes="no,maybe", **way)
    assert done.returncode == 0, done.stderr
    n_yes = int((pd.read_csv(tables / "p.csv")["ill"] == "yes").sum())
    reported = (
        f"{N - n_yes} of {N} records ({1 - n_yes / N:.1%}) vote: {n_yes} of a class outside classes. No record is of"
    )
    assert reported in " ".join(done.stderr.split())
    assert sorted(p.name for p in tables.iterdir()) == ["p.csv", "u.csv"]


@pytest.mark.long
def test_the_plan_refuses_a_second_ledger_for_the_same_records(tables):
    assert run(tables).returncode == 0
    shutil.copy(tables / "p.csv", tables / "copy.csv")
    done = run(tables, "--plan", private="copy.csv", out="again.csv")
    assert done.returncode == 2
    assert "holds the private data set of the ledger" in done.stderr
