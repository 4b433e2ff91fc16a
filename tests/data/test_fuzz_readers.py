"""Whatever is in a file, its reader gives a value or one of the package's own errors: no crash, no hang, no bomb.

Each reader is fed valid files that were changed (a byte, a number, a piece cut out or put in), changed inside their
packing as well (an array's header within its archive, a text within its gzip, a checkpoint sealed again), and noise.
The default run is short; ``pytest -m slow -s tests/test_fuzz_readers.py`` runs more than 100,000 cases and
prints a table.
Warnings are errors here, so a reader that lets numpy warn is found too.
"""

from __future__ import annotations

import datetime as dt
import functools
import gzip
import io
import json
import sqlite3
import struct
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pate import Budget, GNMax, Ledger, Partition, Votes, partition, read_table, release_labels
from pate.cli._label import LabelOptions
from pate.cli._options import read_job_file, uses_of
from pate.comparison._folder import CellFolder
from pate.comparison.studies._folders import refuse_other_results
from pate.data._files import _npz
from pate.data._named._fetch import StoredFile, idx_contents, load_file, parse_idx, unpack
from pate.exceptions import (
    CuratorWarning,
    DatasetNotFoundError,
    InvalidInputError,
    LedgerError,
    PateError,
    RunFolderError,
)
from pate.jobs.vote_files import read_votes
from pate.release.statement.files import read_statement
from pate.teachers.checkpoints import WEIGHTS, CheckpointStore, DamagedCheckpointError, pack, pack_weights
from pate.teachers.checkpoints import sealed as behind_seal

#: Cases of the slow run for one reader; there are more than 25.
MANY = 4000
SLOWEST_CASE = 20.0  # seconds; a case takes milliseconds, so this is a depend on any machine

COUNTS = np.random.default_rng(0).multinomial(20, [0.7, 0.2, 0.1], size=6)


def npy(array) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def npz(**arrays) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def zipped(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def first_member(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Change the first array of an archive and pack it again, so that its checksum fits."""

    def apply(data: bytes) -> bytes:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        first = next(iter(members))
        return zipped({**members, first: change(members[first])})

    return apply


def in_gzip(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda data: gzip.compress(change(gzip.decompress(data)), mtime=0)


def plain(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return change


# The readers ---------------------------------------------------------------------------------------------------

TABLE = b'age,town,ill\n50,Oslo,no\n?,Rome,yes\n61.5,"a,b",no\n'
JOB = b"""# what to do
private = "a.csv"
epsilon = 2.0
classes = ["no", "yes"]
max-answers = 100
resize = true
"""
JSON_RUN = json.dumps(
    {"kind": "run", "dataset": "digits", "protocol": "standard", "settings": {"a": [1, 2.5]}}
).encode()


def parquet() -> bytes:
    import pandas as pd

    file = io.BytesIO()
    frame = pd.DataFrame(
        {"age": [1.0, None, 3.0], "town": ["a", None, "c"], "n": [1, 2, 3], "c": pd.Categorical(list("xyx"))}
    )
    frame.to_parquet(file)
    return file.getvalue()


def known_votes() -> Votes:
    """Votes that a ledger recognises, query by query and by the data they come from."""
    return replace(Votes.from_counts(COUNTS), query_hashes=tuple(f"{i:064x}" for i in range(6)), fingerprint="ab" * 32)


@functools.cache
def ledger_files() -> tuple[bytes, bytes]:
    """A ledger with two releases, and its key."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "l.sqlite"
        votes = known_votes()
        release_labels(votes.take([0, 1]), GNMax(20.0), budget=Budget(9.0, 1e-5), ledger=Ledger(path))
        release_labels(votes, GNMax(20.0), budget=Budget(9.0, 1e-5), ledger=Ledger(path))
        return path.read_bytes(), (path.parent / "l.sqlite.key").read_bytes()


def partition_file(**changes) -> bytes:
    p = partition(9, 3, partition_seed=0)
    stored = {"format": np.int64(1), "assignment": p.assignment, "n_shards": np.int64(3), "n_units": np.int64(9)}
    return npz(**{**stored, "unit": np.array("record"), **changes})


def statement_file() -> bytes:
    release = release_labels(Votes.from_counts(COUNTS), GNMax(20.0), budget=Budget(9.0, 1e-5))
    return json.dumps(release.statement.to_dict()).encode()


KEY = b"k" * 32


def teacher_file() -> bytes:
    from sklearn.linear_model import LogisticRegression

    return pack(LogisticRegression().fit(np.eye(4), [0, 1, 0, 1]), KEY)


def sealed(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Change what is under the seal and seal it again: what only an owner of the private data could do."""

    def apply(data: bytes) -> bytes:
        return behind_seal(first_member(change)(data[32:]), KEY)

    return apply


def load_teacher(path: Path) -> Any:
    store = CheckpointStore(path.parent / "store")
    store.path(0, KEY).write_bytes(path.read_bytes())
    return store.load(0, KEY)


def weights_file() -> bytes:
    return pack_weights({"a.weight": np.eye(3, dtype=np.float32), "a.bias": np.zeros(3)}, KEY)


def load_weights(path: Path) -> Any:
    store = CheckpointStore(path.parent / "store", codec=WEIGHTS)
    store.path(0, KEY).write_bytes(path.read_bytes())
    return store.load(0, KEY)


def load_seed(path: Path) -> Any:
    store = CheckpointStore(path.parent / "store")
    (store.folder / "manifest.json").write_bytes(path.read_bytes())
    return store.seed(3)


def open_ledger(path: Path) -> Any:
    ledger = Ledger(path)
    looked = ledger.total, ledger.releases(), ledger.used_fraction, ledger.stored([f"{0:064x}"], "gnmax")
    return *looked, ledger.verify()


def load_raw(name: str) -> Callable[[Path], Any]:
    def load(path: Path) -> Any:
        goal = path.with_name(name)
        path.replace(goal)
        stored = StoredFile(name, "0" * 64, (), idx_contents)
        return load_file(stored, dataset="made up", folder=path.parent, download=False)

    return load


def convert_download(path: Path) -> Any:
    """What arrives from a mirror, as ``load_file`` takes it in: its errors are turned into DatasetNotFoundError."""
    stored = StoredFile("x.npz", "0" * 64, ((("u", "a-idx1-ubyte"),),), lambda parts: {"y": parse_idx(parts[0])})
    data = path.read_bytes()
    path.unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pate.data._named._fetch._download", lambda url, member, **_: unpack(data, member))
        return load_file(stored, dataset="made up", folder=path.parent, download=True)


def go_on(path: Path) -> Any:
    """The folder of a comparison that another program wrote into."""
    path.replace(path.with_name("results.json"))
    refuse_other_results(path.parent, {"kind": "run", "dataset": "digits", "protocol": "standard", "settings": {}})


def read_cells(path: Path) -> Any:
    path.replace(path.with_name("cells.jsonl"))
    with CellFolder(path.parent) as folder:
        folder.cells = folder._open(path.parent / "cells.jsonl")
        return folder.cells.read()


def open_with_key(path: Path) -> Any:
    """A ledger's key file that was changed; the ledger itself is whole."""
    place = path.with_name("l.sqlite")
    place.write_bytes(ledger_files()[0])
    path.replace(place.with_name("l.sqlite.key"))
    ledger = Ledger(place)
    return ledger.verify(), release_labels(known_votes(), GNMax(20.0), budget=Budget(9.0, 1e-5), ledger=ledger)


def images(path: Path) -> Any:
    from pate.data._files.images import read_images

    return read_images(path.parent, convert=True, color="grey", size=(3, 2), resize=True)


def pictures(kind: str) -> list[bytes]:
    from PIL import Image

    found = []
    for mode in ("L", "RGB") if kind == "jpeg" else ("L", "RGB", "P", "RGBA", "1", "I;16"):
        file = io.BytesIO()
        Image.new(mode, (3, 2), 1).save(file, format=kind)
        found.append(file.getvalue())
    return found


@dataclass(frozen=True)
class Reader:
    """A reader, valid files for it, and what of them is changed."""

    name: str
    suffix: str
    read: Callable[[Path], Any]
    seeds: Callable[[], list[bytes]]
    errors: tuple[type[PateError], ...] = (InvalidInputError,)
    inside: Callable[[Callable[[bytes], bytes]], Callable[[bytes], bytes]] = plain


def votes_of(kind: str | None) -> Callable[[Path], Any]:
    return lambda path: read_votes(path, kind=kind, classes=3)


def table(path: Path) -> Any:
    return read_table(path, target="ill" if b"ill" in path.read_bytes()[:200] else None)


def private_table(path: Path) -> Any:
    like = read_table_like()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CuratorWarning)
        return read_table(path, like=like)


@functools.cache
def read_table_like() -> Any:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "like.csv"
        path.write_bytes(b"age;town;ill;day\n5,5;Oslo;no;2020-01-31\n")
        return read_table(path, decimal=",")


def workbook() -> bytes:
    openpyxl = pytest.importorskip("openpyxl", reason="pip install 'pate-privacy[excel]'")
    book, file = openpyxl.Workbook(), io.BytesIO()
    for line in (["age", "town", "day"], [50, "Oslo", dt.date(2020, 1, 31)], [None, "Rome", None]):
        book.active.append(line)
    book.save(file)
    return file.getvalue()


@functools.cache
def small_database() -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        with closing(sqlite3.connect(path)) as book:
            book.executescript(
                "PRAGMA page_size=512; CREATE TABLE t (a, b); INSERT INTO t VALUES (1, 'x'), (NULL, 2.5)"
            )
        return path.read_bytes()


def many_arrays() -> list[bytes]:
    text = np.array(["a", "bc"])
    return [
        npz(X=np.eye(3), y=np.arange(3), groups=np.array(["a", "b", "c"])),
        npz(age=np.arange(2.0), town=text, old=np.array([True, False])),
        npz(X=np.zeros((2, 2, 2), dtype=np.uint8), columns=np.array(list("abcd"))),
    ]


NPY = [
    npy(COUNTS),
    npy(COUNTS.astype(np.float32)),
    npy(np.asfortranarray(COUNTS)),
    npy(COUNTS % 3),
    npy(np.array([["a", "b"]])),
    npy(np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])),
    npy(np.array([[{}]], dtype=object)),
]
IDX = [bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), bytes([0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 2, 7, 9])]
CSV_VOTES = [b"18,1,1\n10,10,0\n", b"0,1,2,2\n1,1,1,0\n", b"# comment\n1e2,0\n"]

READERS = [
    Reader("votes npy", ".npy", votes_of(None), lambda: NPY),
    Reader("votes npy as labels", ".npy", votes_of("labels"), lambda: NPY),
    Reader("votes npz", ".npz", votes_of("counts"), lambda: [npz(votes=COUNTS), npz(a=COUNTS, b=COUNTS)]),
    Reader("votes npz, inside", ".npz", votes_of(None), lambda: [npz(votes=COUNTS)], inside=first_member),
    Reader("votes csv", ".csv", votes_of("counts"), lambda: CSV_VOTES),
    Reader("table csv", ".csv", table, lambda: [TABLE, TABLE.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + TABLE]),
    Reader("table csv.gz", ".csv.gz", table, lambda: [gzip.compress(TABLE)]),
    Reader("table csv.gz, inside", ".csv.gz", read_table, lambda: [gzip.compress(TABLE)], inside=in_gzip),
    Reader("table of other letters", ".csv", read_table, lambda: [TABLE.decode().replace(",", ";").encode(code)
                                                                   for code in ("utf-16", "utf-8-sig", "cp1252")]),
    Reader("private csv", ".csv", private_table, lambda: [b"age;town;ill;day\n5,5;Oslo;no;2020-01-31\n1;Rome;;x\n"]),
    Reader("table xlsx", ".xlsx", read_table, lambda: [workbook()]),
    Reader("table xlsx, inside", ".xlsx", read_table, lambda: [workbook()], inside=first_member),
    Reader("table sqlite", ".db", lambda path: read_table(f"sqlite:{path}?table=t"), lambda: [small_database()]),
    Reader("table parquet", ".parquet", read_table, lambda: [parquet()]),
    Reader("table npz", ".npz", read_table, many_arrays),
    Reader("table npz, inside", ".npz", read_table, many_arrays, inside=first_member),
    Reader("table npy", ".npy", read_table, lambda: NPY),
    Reader("partition", ".npz", Partition.load, lambda: [partition_file()]),
    Reader("partition, inside", ".npz", Partition.load,
           lambda: [partition_file(), npz(n_shards=np.int64(3), format=np.int64(1), unit=np.array("group"),
                                          assignment=np.array([0, 1, 2, 0]), n_units=np.int64(3))],
           inside=first_member),
    Reader("checkpoint", ".skops", load_teacher, lambda: [teacher_file()], (DamagedCheckpointError,)),
    Reader("checkpoint under its seal", ".skops", load_teacher, lambda: [teacher_file()], (DamagedCheckpointError,),
           sealed),
    Reader("weights", ".safetensors", load_weights, lambda: [weights_file()], (DamagedCheckpointError,)),
    Reader("checkpoint seed", ".json", load_seed, lambda: [b'{"format": 2, "seed": 3}'], (DamagedCheckpointError,)),
    Reader("ledger", ".sqlite", open_ledger, lambda: [ledger_files()[0]], (LedgerError,)),
    Reader("ledger's key", ".txt", open_with_key, lambda: [ledger_files()[1]], (LedgerError,)),
    Reader("statement", ".json", read_statement, lambda: [statement_file()], (PateError,)),
    Reader("run folder", ".json", go_on, lambda: [JSON_RUN], (RunFolderError,)),
    Reader("comparison's fits", ".jsonl", read_cells, lambda: [JSON_RUN + b"\n" + JSON_RUN + b"\n"], (RunFolderError,)),
    Reader("data set npz", ".tmp", load_raw("made-up.npz"), lambda: [npz(x_train=np.eye(3), y_train=np.arange(3))]),
    Reader("data set gz", ".tmp", load_raw("made-up.gz"), lambda: [gzip.compress(TABLE)]),
    Reader("job file", ".toml", lambda path: read_job_file(path, uses_of(LabelOptions)), lambda: [JOB]),
    Reader("images png", ".png", images, lambda: pictures("png")),
    Reader("images jpeg", ".jpg", images, lambda: pictures("jpeg")),
    Reader("download, idx in gz", ".tmp", convert_download, lambda: [gzip.compress(part) for part in IDX],
           (DatasetNotFoundError,), in_gzip),
    Reader("download, zip", ".tmp", convert_download,
           lambda: [zipped({"../../a-idx1-ubyte": IDX[0], "b": IDX[1]})], (DatasetNotFoundError,)),
]  # fmt: skip


# The cases -----------------------------------------------------------------------------------------------------

TOKENS = [
    b"nan", b"inf", b"-1", b"1e999", b"0.5", b"9" * 30, b"9" * 4400, b'"', b"'", b",", b"\n", b"\r", b"\x00",
    b"\xff\xfe", "\u202e".encode(), b"[" * 2000, b"{" * 2000, b"null", b"NaN", b"true", b"(1000000000000,)",
    b"(0, 1000000000000)", b"(-1,)", b"'|O'", b"'<U9'", b"'|S0'", b"'<f16'", b"'<M8[s]'", b"PK\x03\x04",
    b"PK\x05\x06", b"\x1f\x8b\x08",
    b"\x93NUMPY\x03\x00",
]  # fmt: skip
NUMBERS = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF]

PLACE = st.integers(0, 2**16 - 1)
EDIT = st.one_of(
    st.tuples(st.just("set"), PLACE, st.binary(min_size=1, max_size=4)),
    st.tuples(st.just("put"), PLACE, st.sampled_from(TOKENS) | st.binary(max_size=8)),
    st.tuples(st.just("over"), PLACE, st.sampled_from(TOKENS)),
    st.tuples(st.just("number"), PLACE, st.sampled_from([struct.pack(f, n & (256 ** struct.calcsize(f) - 1))
                                                       for f in ("<H", ">I", "<I", "<Q", ">Q") for n in NUMBERS])),
    st.tuples(st.just("drop"), PLACE, st.integers(1, 40)),
    st.tuples(st.just("twice"), PLACE, st.integers(1, 200)),
    st.tuples(st.just("cut"), PLACE, st.none()),
)  # fmt: skip
CASE = st.tuples(st.integers(0, 7), st.lists(EDIT, min_size=1, max_size=4)) | st.binary(max_size=200)


def edited(data: bytes, edits) -> bytes:
    for what, place, value in edits:
        at = place * (len(data) + 1) >> 16
        if what in ("set", "number", "over"):
            data = data[:at] + value + data[at + len(value) :]
        elif what == "put":
            data = data[:at] + value + data[at:]
        elif what == "drop":
            data = data[:at] + data[at + value :]
        elif what == "twice":
            data = data[: at + value] + data[at:]
        else:
            data = data[:at]
    return data


def fuzz(reader: Reader, folder: Path, cases: int) -> Counter[str]:
    """Run the cases and return how each ended; raises at the first that ends otherwise."""
    seeds = reader.seeds()
    ended: Counter[str] = Counter()
    number = iter(range(10**9))

    @settings(max_examples=cases, suppress_health_check=list(HealthCheck))
    @given(CASE)
    def one(case):
        place = folder / f"{next(number)}"
        place.mkdir()
        path = place / f"file{reader.suffix}"
        if isinstance(case, bytes):
            data = case
        else:
            data = reader.inside(lambda inner: edited(inner, case[1]))(seeds[case[0] % len(seeds)])
        path.write_bytes(data)
        start = time.monotonic()
        try:
            reader.read(path)
            how = "read"
        except reader.errors as error:
            how = type(error).__name__ if len(str(error)) < 4000 else "a text without end"
        assert time.monotonic() - start < SLOWEST_CASE
        ended["cases"] += 1
        ended[how] += 1
        assert how != "a text without end"
        for left in sorted(place.rglob("*"), reverse=True):
            left.rmdir() if left.is_dir() else left.unlink()
        place.rmdir()

    one()
    return ended


@pytest.fixture
def small_limits(monkeypatch):
    """Bombs small enough for a test: the rule is the same."""
    monkeypatch.setattr(_npz, "FREE_BYTES", 2**20)


@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.name)
def test_the_seeds_are_good(tmp_path, reader):
    """Otherwise the fuzzing would stop at the first check."""
    fine = 0
    for i, data in enumerate(reader.seeds()):
        (tmp_path / str(i)).mkdir()
        path = tmp_path / str(i) / f"file{reader.suffix}"
        path.write_bytes(data)
        try:
            reader.read(path)
            fine += 1
        except reader.errors as error:
            # A data set of another content than the published one is refused, read or not.
            fine += "SHA-256" in str(error) or "another comparison" in str(error) or "something else" in str(error)
    assert fine


@pytest.mark.few(2)
@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.name)
def test_a_changed_file_is_read_or_refused(tmp_path, reader):
    assert fuzz(reader, tmp_path, 60)["cases"] >= 50


# Bombs: files that ask for more than they hold ----------------------------------------------------------------


def header(shape: str, descr: str = "'<i8'") -> bytes:
    """An npy header of any shape, with eight bytes after it."""
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(8)


SHAPES = ["(1000000000000000,)", "(0, 1000000000000)", "(1000000000, 1000000000, 1000000000)", "(-1,)", "(1,) * 9", "9"]
TYPES = ["'|S0'", "'|V8'", "'|O'", "('<i8', (1000000000000,))", "'a8'", "[('a', '|O')]", "'<U1'", "'|S4000000000'"]
HEADERS = [header(shape) for shape in SHAPES] + [header("(1,)", t) for t in TYPES]


@pytest.mark.parametrize("read", [read_votes, read_table])
@pytest.mark.parametrize("data", HEADERS, ids=[*SHAPES, *TYPES])
def test_a_header_is_believed_only_where_the_bytes_are(tmp_path, read, data):
    (tmp_path / "a.npy").write_bytes(data)
    (tmp_path / "a.npz").write_bytes(zipped({"X.npy": data}))
    for name in ("a.npy", "a.npz"):
        with pytest.raises(InvalidInputError):
            read(tmp_path / name)


@pytest.mark.parametrize("name", ["a.csv.gz", "a.npz", "wide.npz", "a.parquet", "set.gz", "set.npz"])
def test_a_bomb_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.setattr(_npz, "FREE_BYTES", 2**20)
    path = tmp_path / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(b"a\n" + b"1\n" * 10**6))
    elif name == "wide.npz":  # a row of columns that would all get a name
        path.write_bytes(npz(X=np.zeros((1, 200_000), dtype=np.uint8)))
    elif name.endswith(".npz"):
        path.write_bytes(npz(X=np.zeros((1000, 1000))))
    else:
        import pandas as pd

        pd.DataFrame({f"c{i}": np.zeros(50_000) for i in range(4)}).to_parquet(path, compression="zstd")
    assert path.stat().st_size * _npz.MOST_TIMES < 1.7e6
    load = load_raw(name) if name.startswith("set") else read_table
    with pytest.raises(InvalidInputError, match=r"unpack to \d+ or more|at most 100000"):
        load(path)


@pytest.mark.parametrize(
    "data", [gzip.compress(bytes(2 * 10**6)), zipped({"x/a": bytes(2 * 10**6)})], ids=["gz", "zip"]
)
def test_a_download_that_is_a_bomb_is_refused(monkeypatch, data):
    monkeypatch.setattr(_npz, "FREE_BYTES", 2**20)
    with pytest.raises(_npz.TooLargeError):
        unpack(data, "a")


def test_names_in_an_archive_are_no_paths(tmp_path, monkeypatch):
    """Whatever a member is called, nothing is written anywhere."""
    monkeypatch.chdir(tmp_path)
    names = ["../../evil.npy", "/etc/evil.npy", "C:\\evil.npy", "a/../../b.npy"]
    (tmp_path / "a.npz").write_bytes(zipped({name: npy(np.arange(3)) for name in names}))
    assert sorted(read_table(tmp_path / "a.npz").X.columns) == sorted(name.removesuffix(".npy") for name in names)
    assert unpack(zipped({"../../evil": b"1"}), "evil") == b"1"
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    "reader", [r for r in READERS if "json" in r.suffix or r.suffix == ".toml"], ids=lambda r: r.name
)
@pytest.mark.parametrize("data", [DEEP, b'{"a":' * 100_000, b"a = " + DEEP, b"a." * 10_000 + b"a = 1", b"9" * 10_000])
def test_deep_and_long_texts_are_refused(tmp_path, reader, data):
    path = tmp_path / f"file{reader.suffix}"
    path.write_bytes(data + b"\n" + data)
    with pytest.raises(reader.errors):
        reader.read(path)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_hundred_thousand_cases(tmp_path, capsys):
    total: Counter[str] = Counter()
    with capsys.disabled():
        print()
        for reader in READERS:
            start = time.monotonic()
            ended = fuzz(reader, tmp_path, MANY)
            ways = ", ".join(f"{n} {how}" for how, n in sorted(ended.items()) if how != "cases")
            print(f"{reader.name:<28}{ended['cases']:>7} cases in {time.monotonic() - start:6.1f} s: {ways}")
            total += ended
        print(f"{'all':<28}{total['cases']:>7} cases")
    assert total["cases"] >= 100_000
    assert sum(n for how, n in total.items() if how != "cases") == total["cases"]
