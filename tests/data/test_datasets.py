"""Named data sets: cuts, files, downloads from a server on this machine, and what goes wrong."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import hashlib
import http.server
import io
import os
import threading
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pate.data._named import _fetch, datasets
from pate.data._named._fetch import StoredFile, content_sha256, data_folder, load_file
from pate.data._named.datasets import list_datasets, load_dataset
from pate.exceptions import DatasetNotFoundError, InvalidInputError

REAL = os.environ.get("PATE_DATA_HOME", "")
WITH_FILES = [name for name in list_datasets() if name != "digits"]


def real(name):
    """Skip unless the real files of ``name`` are at hand."""
    missing = [f.name for f in datasets.SOURCES[name].files if not (Path(REAL) / f.name).is_file()]
    if not REAL or missing:
        pytest.skip(f"needs PATE_DATA_HOME with {', '.join(missing) or name}")
    return REAL


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    """Refuse every address but this machine's own."""
    import requests

    send = requests.Session.send

    def guarded(self, request, **kwargs):
        if not request.url.startswith("http://127.0.0.1:"):
            raise requests.ConnectionError(f"offline: {request.url}")
        return send(self, request, **kwargs)

    monkeypatch.setattr(requests.Session, "send", guarded)
    for variable in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)


@contextlib.contextmanager
def serving(files):
    """Serve a dict of path to bytes on 127.0.0.1; anything else is a 404. Yields (base URL, paths asked for)."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            body = files.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


# ---------------------------------------------------------------------------------------------------- digits, cuts


def test_digits_standard():
    d = load_dataset("digits")
    assert (len(d.private.y), len(d.public.y_for_evaluation), len(d.test.y)) == (1222, 216, 359)
    X = np.concatenate([d.private.X, d.public.X, d.test.X])
    assert X.dtype == np.float32
    assert (X.min(), X.max()) == (0.0, 1.0)
    assert (d.classes, d.kind, d.image_shape, d.private.groups) == (tuple(range(10)), "image", (8, 8), None)
    assert {part.dtype for part in (d.private.y, d.public.y_for_evaluation, d.test.y)} == {np.dtype(np.int64)}
    # Every row once, with its own label.
    from sklearn.datasets import load_digits

    bunch = load_digits()
    y = np.concatenate([d.private.y, d.public.y_for_evaluation, d.test.y])
    mine = sorted(map(tuple, np.column_stack([X * 16, y]).astype(int).tolist()))
    theirs = sorted(map(tuple, np.column_stack([bunch.data, bunch.target]).astype(int).tolist()))
    assert mine == theirs
    for y_part in (d.private.y, d.public.y_for_evaluation, d.test.y):  # a random cut holds every class
        assert set(y_part.tolist()) == set(range(10))


def test_public_labels_stand_only_under_a_name_that_says_what_they_are_for():
    d = load_dataset("digits")
    assert {f.name for f in dataclasses.fields(d.public)} == {"X", "y_for_evaluation"}
    with pytest.raises(dataclasses.FrozenInstanceError):
        d.name = "other"


@pytest.mark.parametrize("part", [None, "private", "public", "test"])
def test_reprs_show_sizes_only(part):
    d = load_dataset("digits", n_private=50, n_public=10)
    shown = repr(getattr(d, part) if part else d)
    assert "array" not in shown
    assert "[" not in shown
    assert len(shown) < 150


def test_the_seed_decides_the_cut():
    a, b, c = (load_dataset("digits", random_state=s) for s in (0, 0, 1))
    np.testing.assert_array_equal(a.private.X, b.private.X)
    assert not np.array_equal(a.private.X, c.private.X)
    e, f = load_dataset("digits", random_state=None), load_dataset("digits", random_state=None)
    assert not np.array_equal(e.private.X, f.private.X)


def test_fewer_rows_of_one_part_leave_the_others_as_they_were():
    full = load_dataset("digits")
    fewer = load_dataset("digits", n_public=50, n_private=400)
    np.testing.assert_array_equal(fewer.public.X, full.public.X[:50])
    np.testing.assert_array_equal(fewer.private.X, full.private.X[-400:])
    np.testing.assert_array_equal(fewer.test.X, full.test.X)
    more = load_dataset("digits", n_public=1000)
    assert (len(more.private.y), len(more.public.X)) == (438, 1000)


def test_digits_paper():
    d = load_dataset("digits", protocol="paper")
    assert (len(d.private.y), len(d.public.X), len(d.test.y)) == (1438, 323, 36)
    assert "first 323 test rows" in d.description
    assert "random 20%" in d.description
    few = load_dataset("digits", protocol="paper", n_public=20, n_private=100)
    np.testing.assert_array_equal(few.public.X, d.public.X[:20])
    np.testing.assert_array_equal(few.test.X, d.test.X)
    assert len(few.private.y) == 100


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"name": "cifar"}, "name must be one of 'digits'"),
        ({"name": 3}, "name must be one of"),
        ({"protocol": "mine"}, "protocol must be one of"),
        ({"n_public": 0}, "n_public must be a whole number"),
        ({"n_private": 2.5}, "n_private must be a whole number"),
        ({"n_public": 1438}, "do not fit"),
        ({"n_public": 1000, "n_private": 1000}, "do not fit"),
        ({"protocol": "paper", "n_public": 324}, "n_public must be at most 323"),
        ({"protocol": "paper", "n_private": 1439}, "n_private must be at most"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_bad_arguments_are_named(kwargs, text):
    with pytest.raises(InvalidInputError, match=text):
        load_dataset(**({"name": "digits"} | kwargs))


# ------------------------------------------------------------------------------------------------------ real files

EXPECTED = {  # name: (kind, n_features, n_classes, standard sizes, paper sizes)
    "mnist": ("image", 784, 10, (51000, 9000, 10000), (60000, 9000, 1000)),
    "fashion_mnist": ("image", 784, 10, (51000, 9000, 10000), (60000, 9000, 1000)),
    "adult": ("table", 14, 2, (27677, 4884, 16281), (32561, 9000, 7281)),
    "diabetes130": ("table", 47, 3, (69201, 12212, 20353), (81413, 9000, 11353)),
    "optdigits": ("image", 64, 10, (3250, 573, 1797), (3823, 1617, 180)),
    "pendigits": ("table", 16, 10, (6370, 1124, 3498), (7494, 3148, 350)),
    "spambase": ("table", 57, 2, (3129, 552, 920), (3681, 828, 92)),
    "svhn": ("image", 3072, 10, (62268, 10989, 26032), (73257, 9000, 17032)),
    "cifar10": ("image", 3072, 10, (42500, 7500, 10000), (50000, 9000, 1000)),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("protocol", ["standard", "paper"])
@pytest.mark.parametrize("name", WITH_FILES)
def test_real_data(name, protocol):
    d = load_dataset(name, protocol=protocol, data_home=real(name), download=False)
    kind, n_features, n_classes, *sizes = EXPECTED[name]
    assert (d.kind, d.private.X.shape[1], len(d.classes)) == (kind, n_features, n_classes)
    parts = (
        (d.private.X, d.private.y),
        (d.public.X, d.public.y_for_evaluation),
        (d.test.X, d.test.y),
    )
    assert tuple(len(y) for _, y in parts) == sizes[protocol == "paper"]
    for X, y in parts:
        assert len(X) == len(y)
        assert y.dtype == np.int64
        assert set(np.unique(y).tolist()) == set(range(n_classes))
        if isinstance(X, np.ndarray):
            assert X.dtype == np.float32
            assert np.isfinite(X).all()
            assert kind == "table" or (X.min(), X.max()) == (0.0, 1.0)
        else:
            kinds = {str(t) for t in X.dtypes}
            assert kinds == {"float32", "category"}
            assert not (X == "?").any().any()
            assert X.index.equals(pd.RangeIndex(len(X)))


@pytest.mark.long
def test_mnist_keeps_its_order_in_the_paper_protocol():
    stored = np.load(Path(real("mnist")) / "mnist.npz")
    x_test, y_test = stored["x_test"], stored["y_test"]
    d = load_dataset("mnist", protocol="paper", data_home=REAL)
    np.testing.assert_array_equal(np.rint(d.public.X * 255).reshape(-1, 28, 28), x_test[:9000])
    np.testing.assert_array_equal(d.public.y_for_evaluation, y_test[:9000])
    np.testing.assert_array_equal(d.test.y, y_test[9000:])
    np.testing.assert_array_equal(d.private.y, stored["y_train"])
    assert load_dataset("Fashion-MNIST", data_home=REAL).name == "fashion_mnist" if real("fashion_mnist") else 1


def test_adult_known_facts():
    d = load_dataset("adult", protocol="paper", data_home=real("adult"))
    assert int((d.private.y == 1).sum()) == 7841  # the published 24.08% of 32,561
    assert int((d.public.y_for_evaluation == 1).sum() + (d.test.y == 1).sum()) == 3846
    assert int(d.private.X["workclass"].isna().sum()) == 1836
    first = d.private.X.iloc[0]
    assert (first["age"], first["workclass"], first["capital-gain"]) == (39.0, "State-gov", 2174.0)
    assert first["native-country"] == "United-States"


@pytest.mark.long
@pytest.mark.parametrize("protocol", ["standard", "paper"])
def test_diabetes_patients_stand_in_one_part_only(protocol):
    d = load_dataset("diabetes130", protocol=protocol, data_home=real("diabetes130"))
    raw = np.load(Path(REAL) / "diabetes130.npz")
    assert not {"encounter_id", "patient_nbr", "readmitted"} & set(d.private.X.columns)
    # Private, public and test patients together are at most all of them only if none stands in two parts.
    private = set(d.private.groups.tolist())
    names = raw["numeric_names"].tolist()
    numeric = raw["numeric"]
    patient_of_row = {}
    shown = [n for n in names if n not in ("encounter_id", "patient_nbr")]
    for values, patient in zip(
        numeric[:, [names.index(n) for n in shown]].tolist(),
        numeric[:, names.index("patient_nbr")].tolist(),
        strict=True,
    ):
        patient_of_row.setdefault(tuple(values), set()).add(patient)
    # A public or test row whose numeric values belong to one patient only names that patient.
    known = 0
    for X in (d.public.X, d.test.X):
        for row in X[shown].astype(int).itertuples(index=False, name=None):
            owners = patient_of_row[row]
            if len(owners) == 1:
                known += 1
                assert not owners & private
    assert known > 5000
    assert len(private) < 71518
    classes = [d.classes[i] for i in d.private.y[:2000]]
    assert set(classes) == {"NO", ">30", "<30"}


def test_diabetes_decodes_like_the_csv():
    raw = np.load(Path(real("diabetes130")) / "diabetes130.npz")
    d = load_dataset("diabetes130", protocol="paper", data_home=REAL)
    names = raw["categorical_names"].tolist()
    codes, counts = raw["categorical"], raw["numeric"][:, 1]
    rows = np.isin(counts, np.unique(d.private.groups))  # private keeps the file's order
    assert rows.sum() == len(d.private.y)
    for name in ("race", "diag_1", "insulin"):
        text = raw[f"values_{name}"][codes[rows, names.index(name)]]
        mine = d.private.X[name].astype(object).where(d.private.X[name].notna(), "?")
        assert mine.tolist() == text.tolist()
    text = raw["values_readmitted"][codes[rows, names.index("readmitted")]]
    assert [d.classes[i] for i in d.private.y] == text.tolist()


def test_group_cut_with_fewer_rows():
    d = load_dataset("diabetes130", data_home=real("diabetes130"), n_public=500, n_private=3000)
    assert (len(d.public.X), len(d.private.y), len(d.private.groups)) == (500, 3000, 3000)


# ----------------------------------------------------------------------------------------------------- the download


def _idx(array):
    head = bytes([0, 0, 8, array.ndim]) + b"".join(int(n).to_bytes(4, "big") for n in array.shape)
    return gzip.compress(head + array.tobytes(), compresslevel=1)


def _rows(table):
    return "\n".join(",".join(repr(v) for v in row) for row in table.tolist()).encode() + b"\n"


def canonical_files(name):
    """Rebuild the canonical files of a data set from the real local ones: dict of member to bytes."""
    folder = Path(real(name))
    if name == "adult":
        return {m: gzip.decompress((folder / f"{m}.gz").read_bytes()) for m in ("adult.data", "adult.test")}
    with np.load(folder / f"{name}.npz") as stored:
        c = {k: stored[k] for k in stored.files}
    if name in ("mnist", "fashion_mnist"):
        return {m: _idx(c[key]) for m, key in MEMBERS.items()}
    if name == "spambase":
        return {"spambase.data": _rows(np.column_stack([c["x"], c["y"]]))}
    if name == "diabetes130":
        numbers = c["numeric"].astype(str).T.tolist()
        columns = dict(zip(c["numeric_names"].tolist(), numbers, strict=True))
        for j, column in enumerate(c["categorical_names"].tolist()):
            columns[column] = c[f"values_{column}"][c["categorical"][:, j]].tolist()
        lines = map(",".join, zip(*columns.values(), strict=True))
        return {"diabetic_data.csv": "\n".join([",".join(columns), *lines]).encode()}
    return {
        f"{name}.{end}": _rows(np.column_stack([c[f"x_{part}"], c[f"y_{part}"]]))
        for end, part in (("tra", "train"), ("tes", "test"))
    }


def point_at(monkeypatch, name, base, *, archive=False):
    """Make the first mirror of every file of ``name`` a folder, or a zip, of a local server."""
    source = datasets.SOURCES[name]
    files = tuple(
        dataclasses.replace(
            f,
            origins=(
                tuple((f"{base}/all.zip" if archive else f"{base}/{m}", m) for _, m in f.origins[0]),
                *f.origins[1:],
            ),
        )
        for f in source.files
    )
    monkeypatch.setitem(datasets.SOURCES, name, dataclasses.replace(source, files=files))


@pytest.mark.parametrize(
    ("name", "archive"),
    [
        pytest.param("adult", False, marks=pytest.mark.long),
        pytest.param("adult", True, marks=pytest.mark.long),
        ("optdigits", False),
        ("pendigits", True),
        ("spambase", False),
        pytest.param("mnist", False, marks=pytest.mark.long),
        pytest.param("diabetes130", True, marks=pytest.mark.slow),
        pytest.param("fashion_mnist", False, marks=pytest.mark.slow),
    ],
)
def test_download_gives_what_the_real_file_gives(name, archive, monkeypatch, tmp_path, capfd):
    members = canonical_files(name)
    if archive:
        whole = io.BytesIO()
        with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as z:
            for member, data in members.items():
                z.writestr(f"some/folder/{member}", data)
        served = {"/all.zip": whole.getvalue()}
    else:
        served = {f"/{member}": data for member, data in members.items()}
    folder = tmp_path / "new" / "folder"
    with serving(served) as (base, asked):
        point_at(monkeypatch, name, base, archive=archive)
        got = load_dataset(name, data_home=folder, n_private=200, n_public=50)
        n_asked = len(asked)
        assert n_asked >= len(members)
        again = load_dataset(name, data_home=folder, n_private=200, n_public=50)
        assert len(asked) == n_asked  # the second time from the folder
    assert sorted(f.name for f in folder.iterdir()) == sorted(f.name for f in datasets.SOURCES[name].files)
    here = load_dataset(name, data_home=REAL, n_private=200, n_public=50)
    for d in (got, again):
        for mine, theirs in ((d.private, here.private), (d.test, here.test)):
            np.testing.assert_array_equal(mine.y, theirs.y)
            if isinstance(mine.X, np.ndarray):
                np.testing.assert_array_equal(mine.X, theirs.X)
            else:
                pd.testing.assert_frame_equal(mine.X[theirs.X.columns], theirs.X)
    assert capfd.readouterr() == ("", "")


# The same path without real data: a tiny set in each format.

TINY = {"x_train": np.arange(12, dtype=np.uint8).reshape(3, 2, 2), "y_train": np.array([1, 0, 1], dtype=np.uint8)}
TINY |= {"x_test": TINY["x_train"][:2] + 1, "y_test": np.array([0, 1], dtype=np.uint8)}
MEMBERS = dict(zip(datasets._IDX_NAMES, ("x_train", "y_train", "x_test", "y_test"), strict=True))


def tiny(base, *more_bases):
    origins = tuple(tuple((f"{b}/{m}", m) for m in MEMBERS) for b in (base, *more_bases))
    return StoredFile("tiny.npz", content_sha256(TINY), origins, _fetch.idx_contents)


def tiny_served(prefix="", **replaced):
    files = {f"{prefix}/{m}": _idx(TINY[key]) for m, key in MEMBERS.items()}
    return files | {f"{prefix}/{m}": replaced[key] for m, key in MEMBERS.items() if key in replaced}


def test_download_stores_the_checked_arrays(tmp_path):
    with serving(tiny_served()) as (base, _):
        content = load_file(tiny(base), dataset="tiny", folder=tmp_path / "d", download=True)
    np.testing.assert_array_equal(content["x_test"], TINY["x_test"])
    assert [f.name for f in (tmp_path / "d").iterdir()] == ["tiny.npz"]
    offline = load_file(tiny(base), dataset="tiny", folder=tmp_path / "d", download=False)
    assert content_sha256(offline) == content_sha256(TINY)


def test_a_file_unpacked_in_transfer_is_understood(tmp_path):
    served = tiny_served(x_train=gzip.decompress(_idx(TINY["x_train"])))
    with serving(served) as (base, _):
        load_file(tiny(base), dataset="tiny", folder=tmp_path, download=True)
    assert (tmp_path / "tiny.npz").is_file()


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (_idx(TINY["x_train"] ^ 1), "SHA-256"),
        (_idx(TINY["x_train"])[:-9], "EOFError"),
        (b"<html>not found, politely</html>", "not an IDX file"),
        (b"", "empty"),
        (b"PK\3\4 no archive", "BadZipFile"),
        (_idx(TINY["x_train"].reshape(3, 4)), "SHA-256"),
    ],
)
def test_a_wrong_download_leaves_nothing_behind(wrong, text, tmp_path):
    folder = tmp_path / "d"
    with serving(tiny_served(x_train=wrong)) as (base, _), pytest.raises(DatasetNotFoundError, match=text):
        load_file(tiny(base), dataset="tiny", folder=folder, download=True)
    assert not folder.exists()


def test_canonical_text_becomes_the_stored_layout():
    head = [*_fetch._DIABETES_NUMERIC, "race", "max_glu_serum", "readmitted"]
    rows = [[*range(10), "?", "None", "NO"], [*range(10, 20), "Asian", ">200", "<30"]]
    text = "\r\n".join(",".join(map(str, row)) for row in [head, *rows]).encode()
    c = _fetch.diabetes_contents([text])
    assert c["numeric"].dtype == np.int32
    assert c["numeric"].tolist() == [list(range(10)), list(range(10, 20))]
    assert c["categorical_names"].tolist() == ["race", "max_glu_serum", "readmitted"]
    assert (c["categorical"].dtype, c["categorical"].tolist()) == (np.dtype(np.uint16), [[0, 1, 1], [1, 0, 0]])
    assert c["values_max_glu_serum"].tolist() == [">200", "None"]
    raw = _fetch.diabetes_rows([c])
    assert raw.y.tolist() == [0, 2]
    assert raw.groups.tolist() == [1, 11]
    assert raw.X["race"].isna().tolist() == [True, False]
    assert raw.X["race"].iloc[1] == "Asian"
    assert raw.X["max_glu_serum"].tolist() == ["None", ">200"]  # not ordered is a value, not missing

    c = _fetch.train_test_contents([b" 1, 2,7\n 3,4,8\n", b"5,6,9\n"])
    assert {k: v.tolist() for k, v in c.items()} == {
        "x_train": [[1, 2], [3, 4]],
        "y_train": [7, 8],
        "x_test": [[5, 6]],
        "y_test": [9],
    }
    c = _fetch.spambase_contents([b"0.1,15,1\n0,2.5,0\n"])
    assert (c["x"].tolist(), c["y"].tolist(), c["y"].dtype) == ([[0.1, 15], [0, 2.5]], [1, 0], np.dtype(np.uint8))


def test_the_second_mirror_is_asked_when_the_first_is_wrong(tmp_path):
    served = tiny_served("/bad", y_train=b"spoilt") | tiny_served("/good")
    with serving(served) as (base, asked):
        load_file(tiny(f"{base}/bad", f"{base}/good"), dataset="tiny", folder=tmp_path, download=True)
    assert any(path.startswith("/bad") for path in asked)
    assert (tmp_path / "tiny.npz").is_file()


def test_a_missing_member_of_an_archive(tmp_path):
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as z:
        z.writestr("readme.txt", "nothing here")
    with serving({"/a.zip": whole.getvalue()}) as (base, _):
        stored = StoredFile("t.gz", "0" * 64, (((f"{base}/a.zip", "t.data"),),), _fetch.text_contents)
        with pytest.raises(DatasetNotFoundError, match=r"t\.data is not in the archive"):
            load_file(stored, dataset="t", folder=tmp_path, download=True)


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with serving(tiny_served()) as (base, _), pytest.raises(InvalidInputError, match="cannot be written"):
        load_file(tiny(base), dataset="tiny", folder=tmp_path / "file", download=True)


@pytest.mark.parametrize("terminal", [True, False])
def test_the_bar_shows_on_a_terminal_only(terminal, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_fetch.sys.stderr, "isatty", lambda: terminal, raising=False)
    with serving(tiny_served()) as (base, _):
        load_file(tiny(base), dataset="tiny", folder=tmp_path, download=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert ("download" in err) == terminal


# ---------------------------------------------------------------------------------------------- absent and damaged


@pytest.mark.parametrize("name", WITH_FILES)
@pytest.mark.parametrize("download", [True, False])
def test_absent_and_offline_says_everything_one_needs(name, download, tmp_path, monkeypatch):
    monkeypatch.setenv("PATE_DATA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(DatasetNotFoundError) as caught:
        load_dataset(name, download=download)
    text = str(caught.value)
    file = datasets.SOURCES[name].files[0]
    for word in (name, file.name, str(tmp_path / "nowhere"), "PATE_DATA_HOME", file.origins[0][0][0]):
        assert word in text
    assert ("offline" if download else "download=False") in text
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("name", ["optdigits", "adult"])
@pytest.mark.parametrize("damage", ["empty", "truncated", "flipped", "other", "text"])
def test_a_damaged_local_file_is_refused(name, damage, tmp_path):
    for f in datasets.SOURCES[name].files:
        (tmp_path / f.name).write_bytes((Path(real(name)) / f.name).read_bytes())
    path = tmp_path / datasets.SOURCES[name].files[0].name
    whole = path.read_bytes()
    if damage == "flipped":
        middle = len(whole) // 2
        whole = whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :]
    elif damage == "other" and path.suffix == ".npz":
        file = io.BytesIO()
        np.savez(file, x=np.zeros((3, 2)))
        whole = file.getvalue()
    elif damage == "other":
        whole = gzip.compress(b"1, 2, 3\n")
    else:
        whole = {"empty": b"", "truncated": whole[: len(whole) // 2], "text": b"hello"}[damage]
    path.write_bytes(whole)
    with pytest.raises(InvalidInputError, match=r"delete it and load again"):
        load_dataset(name, data_home=tmp_path, download=False)


def test_a_local_file_of_the_right_name_with_other_contents_without_real_data(tmp_path):
    np.savez(tmp_path / "mnist.npz", **TINY)
    with pytest.raises(InvalidInputError, match="SHA-256 differs"):
        load_dataset("mnist", data_home=tmp_path, download=False)


def test_the_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("PATE_DATA_HOME", str(tmp_path))
    assert data_folder() == tmp_path
    assert data_folder("~/x") == Path.home() / "x"
    monkeypatch.setenv("PATE_DATA_HOME", "")
    assert data_folder().name == "pate"


def test_the_digest_looks_at_names_types_shapes_and_bytes():
    base = content_sha256({"a": np.arange(4, dtype=np.int32), "b": np.array(["x", "yz"])})
    assert base == content_sha256({"b": np.array(["x", "yz"], dtype="U9"), "a": np.arange(4, dtype=">i4")})
    for other in (
        {"c": np.arange(4, dtype=np.int32), "b": np.array(["x", "yz"])},
        {"a": np.arange(4, dtype=np.int64), "b": np.array(["x", "yz"])},
        {"a": np.arange(4, dtype=np.int32).reshape(2, 2), "b": np.array(["x", "yz"])},
        {"a": np.arange(4, dtype=np.int32), "b": np.array(["xy", "z"])},
    ):
        assert content_sha256(other) != base


def test_the_adult_digest_is_of_the_published_text():
    text = gzip.decompress((Path(real("adult")) / "adult.test.gz").read_bytes())
    assert text.startswith(b"|1x3 Cross validator")
    assert hashlib.sha256(text).hexdigest() == datasets.SOURCES["adult"].files[1].sha256


@pytest.mark.parametrize("name", WITH_FILES)
def test_every_source_is_a_public_address_with_a_digest(name):
    for f in datasets.SOURCES[name].files:
        assert len(bytes.fromhex(f.sha256)) == 32
        assert f.origins
        for url, member in (pair for origin in f.origins for pair in origin):
            # What has no https is covered by the digest.
            assert url.startswith(("https://", "http://fashion-mnist.s3-website.", "http://ufldl.stanford.edu/"))
            assert url.endswith((member, ".zip"))
