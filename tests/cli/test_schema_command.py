"""``pate schema``: a draft from the header line alone, and a person's answers."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import threading
from pathlib import Path

import pytest
from test_cli import pate

from pate import InvalidInputError
from pate.cli import _schema as command
from pate.data import Column, Schema, read_header

HEADER = b'age,"town, or village",seen,ill\n'
NAMES = ("age", "town, or village", "seen", "ill")


@pytest.fixture
def person(monkeypatch):
    """Somebody at a terminal, who types these lines."""

    def types(*lines):
        monkeypatch.setattr(command, "is_interactive", lambda: True)
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))

    return types


def test_a_draft_holds_the_names_and_is_refused_until_it_is_filled_in(tmp_path):
    (tmp_path / "p.csv").write_bytes(HEADER + b"39,Oslo,3.1.2020,yes\n")
    done = pate("schema", "p.csv", "--out", "s.toml", "--target", "ill", "--drop", "seen", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Wrote s.toml: a draft.")
    text = (tmp_path / "s.toml").read_text()
    assert "ill" not in text.partition("[[column]]")[2].replace("village", "")
    assert "39" not in text
    with pytest.raises(InvalidInputError, match="the column 'age' is not filled in yet"):
        Schema.read(tmp_path / "s.toml")
    filled = text.replace('"?"\n# range = [0, 1]\n# integer', '"numeric"\nrange = [0, 120]\ninteger', 1)
    (tmp_path / "s.toml").write_text(filled)
    with pytest.raises(InvalidInputError, match="'town, or village' is not filled in yet"):
        Schema.read(tmp_path / "s.toml")
    filled = filled.replace('"?"', '"category"').replace('# categories = ["", ""]', 'categories = ["Oslo"]')
    (tmp_path / "s.toml").write_text(filled.replace('categories = ["Oslo"]\n', "", 1))
    assert Schema.read(tmp_path / "s.toml").columns == (
        Column("age", "numeric", range=(0, 120), integer=True),
        Column("town, or village", "category", ("Oslo",)),
    )


@pytest.mark.parametrize("records", [b"", b"39,Oslo,x,yes\n", b'"\xff\x00\n,,,,"""\n' * 9, b"\r\n\r\n", b"a,b\n" * 99])
def test_no_record_makes_a_difference(tmp_path, records):
    (tmp_path / "p.csv").write_bytes(HEADER + records)
    done = pate("schema", "p.csv", "--out", "s.toml", "--json", cwd=tmp_path)
    assert json.loads(done.stdout) == {"columns": list(NAMES), "filled_in": False, "file": "s.toml"}
    (tmp_path / "q").mkdir()
    (tmp_path / "q" / "p.csv").write_bytes(HEADER + b"1,2,3,4\n")
    pate("schema", "p.csv", "--out", "s.toml", cwd=tmp_path / "q")
    assert (tmp_path / "s.toml").read_bytes() == (tmp_path / "q" / "s.toml").read_bytes()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFO here")
def test_nothing_after_the_header_line_is_waited_for(tmp_path):
    os.mkfifo(tmp_path / "p.csv")
    done = threading.Event()

    def write():
        with (tmp_path / "p.csv").open("wb", buffering=0) as pipe:
            pipe.write(HEADER)
            done.wait(20)  # the records never come

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert read_header(tmp_path / "p.csv") == NAMES
        assert not done.is_set()
    finally:
        done.set()
        writer.join()


@pytest.mark.parametrize("packed", [False, True])
def test_no_byte_of_a_record_is_taken_up(tmp_path, monkeypatch, packed):
    name = "p.csv.gz" if packed else "p.csv"
    data = HEADER + b"39,Oslo,x,yes\n" * 999
    (tmp_path / name).write_bytes(gzip.compress(data) if packed else data)
    taken = bytearray()
    one_by_one = sys.modules["pate.data._files._csv"]._one_by_one

    def watched(stream, *, packed):
        for byte in one_by_one(stream, packed=packed):
            taken.extend(byte)
            yield byte

    monkeypatch.setattr("pate.data._files._csv._one_by_one", watched)
    assert read_header(tmp_path / name) == NAMES
    assert bytes(taken) == HEADER


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b"\xef\xbb\xbfage;town\r\n1;2\r\n", ("age", "town")),
        ("age\tbø\n1\t2\n".encode("utf-16"), ("age", "bø")),
        ("age|town\r1|2\r".encode("utf-32"), ("age", "town")),
        (b"sep=;\r\na,b;c\r\n1;2\r\n", ("a,b", "c")),
        (b"age, town ,", ("age", "town", "Unnamed: 2")),
        (b"0,1,2\n5,6,7\n", ("0", "1", "2")),
    ],
)
def test_a_header_is_read_however_it_is_written(tmp_path, data, names):
    (tmp_path / "p.csv").write_bytes(data)
    assert read_header(tmp_path / "p.csv") == names


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "is empty: there is no header line"),
        (b"\n1,2\n", "is empty: there is no header line"),
        (b"a,a\n1,2\n", "has the column 'a' twice"),
        (b'a,"b\nc"\n1,2\n', "its header is not one line of names"),
        (b"39,Oslo,77516.5\n", "its first line has numbers among its cells"),
        (b"a,b;c\n", "each may separate its cells. Say which: --sep."),
        (b"b\xf8,c\n", "is not utf-8 text"),
        (b"PK\x03\x04,\n", "is not text"),
    ],
)
def test_what_is_no_header_is_refused_in_one_line(tmp_path, data, text):
    (tmp_path / "p.csv").write_bytes(data)
    done = pate("schema", "p.csv", "--out", "s.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert text in done.stderr
    assert not (tmp_path / "s.toml").exists()


def test_misuse_is_refused_in_one_line(tmp_path):
    (tmp_path / "p.csv").write_bytes(HEADER)
    (tmp_path / "old.toml").write_text("mine")
    for words, text in (
        (("p.csv", "--out", "old.toml"), "--out 'old.toml' exists already."),
        (("p.csv", "--out", "s.json"), "--out must end in .toml, got 's.json'."),
        (("p.csv", "--out", "s.toml", "--target", "il"), "--target must be in the header of p.csv, and 'il' is not."),
        (("p.csv", "--out", "s.toml", "--drop", "age,tow"), "--drop must be in the header of p.csv, and 'tow' is not."),
        (("p.parquet", "--out", "s.toml"), "private must end in .csv"),
        (("q.csv", "--out", "s.toml"), "there is no file q.csv"),
        (("p.csv",), "--out is missing"),
    ):
        done = pate("schema", *words, cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert text in done.stderr
    assert (tmp_path / "old.toml").read_text() == "mine"
    assert not Path(tmp_path / "s.toml").exists()


def test_a_person_is_asked_and_asked_again(tmp_path, person):
    (tmp_path / "p.csv").write_bytes(HEADER)
    person(
        "what?", "n", "120, 0", "", "y", "n", "0 x", "n", "0, 120", "-9", "y",  # age, at the third attempt
        "c", '["Oslo, or near", "Rome"]',
        "d", "d", "1970-01-01, 1970-01-11",
        "s",
    )  # fmt: skip
    done = pate("schema", "p.csv", "--out", "s.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the lower first" in done.stderr
    assert "numbers must be written as 0, 1.5, got '0 x'" in done.stderr
    assert Schema.read(tmp_path / "s.toml").columns == (
        Column("age", "numeric", range=(0, 120), integer=True, special=(-9,)),
        Column("town, or village", "category", ("Oslo, or near", "Rome")),
        Column("seen", "date:day-first", range=(0, 10)),
    )


def test_answers_that_end_early_write_nothing(tmp_path, person):
    (tmp_path / "p.csv").write_bytes(HEADER)
    person("n", "0, 120", "", "y", "c")
    done = pate("schema", "p.csv", "--out", "s.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "the answers ended at the column 'town, or village', and nothing was written" in done.stderr
    assert not (tmp_path / "s.toml").exists()
    person("s", "s", "s", "s")
    assert "columns must be one at least" in pate("schema", "p.csv", "--out", "s.toml", cwd=tmp_path).stderr
    person()
    assert pate("schema", "p.csv", "--out", "s.toml", "--no-input", cwd=tmp_path).returncode == 0
