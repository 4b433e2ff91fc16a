"""Files of named data sets: found in a folder, or downloaded, checked by their contents and stored.

One check serves every data set and both ways in: a SHA-256 over the *contents* (the text of a ``.gz``; names, types,
shapes and bytes of the arrays of an ``.npz``). It does not depend on how an archive was compressed, so a folder filled
by hand, or by another tool, is as good as a download. Files of which only a checksum of the file itself is published
(SVHN, CIFAR-10) are stored as they come, and checked before anything in them is read.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from pate._core.curator import need
from pate._core.files import atomic_path
from pate.data._files._npz import BROKEN, check_unpacked, gunzip, read_npz, readable
from pate.exceptions import DatasetNotFoundError, InvalidInputError

#: Arrays by name; a text file is the single array ``text`` of bytes, a file stored as is the single array ``file``.
Content = dict[str, npt.NDArray[Any]]

#: The environment variable that names the folder of the data sets' files.
DATA_HOME_VARIABLE = "PATE_DATA_HOME"

#: Arrays that may be in a file and are not needed.
_IGNORED = frozenset({"ids_mapping"})


@dataclass(frozen=True)
class StoredFile:
    """A file of a data set in the data folder, and the source of its contents.

    ``sha256`` is :func:`content_sha256` of what is in it. ``origins`` are mirrors, tried in order, each of (URL,
    member): the file of that name, or that member of a zip archive; ``convert`` makes contents of the members' bytes.
    ``as_is``: the file is stored as published, and the digest is of the file itself.
    """

    name: str
    sha256: str
    origins: tuple[tuple[tuple[str, str], ...], ...]
    convert: Callable[[Sequence[bytes]], Content]
    as_is: bool = False


def data_folder(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of data files: the argument, else ``PATE_DATA_HOME``, else the platform's cache folder."""
    if data_home is not None:
        return Path(data_home).expanduser()
    if os.environ.get(DATA_HOME_VARIABLE):
        return Path(os.environ[DATA_HOME_VARIABLE]).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("pate")


def content_sha256(content: Mapping[str, npt.NDArray[Any]]) -> str:
    """Return the SHA-256 of contents, independent of the archive they came in."""
    if set(content) in ({"text"}, {"file"}):
        (array,) = content.values()
        return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
    digest = hashlib.sha256()
    for name in sorted(set(content) - _IGNORED):
        array = np.asarray(content[name])
        if array.dtype.kind == "U":
            kind, body = "text", "\n".join(array.ravel().tolist()).encode()
        else:
            array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
            kind, body = array.dtype.str, array.tobytes()
        digest.update(f"{name} {kind} {array.shape}\n".encode())
        digest.update(body)
    return digest.hexdigest()


def load_file(stored: StoredFile, *, dataset: str, folder: Path, download: bool) -> Content:
    """Return the checked contents of a data set's file: from the folder, else downloaded and stored there."""
    path = folder / stored.name
    if path.is_file():
        remedy = "It is damaged or another file of the same name: delete it and load again."
        content = _read(path, remedy, as_is=stored.as_is)
        if content_sha256(content) != stored.sha256:
            raise InvalidInputError(
                f"{path} does not hold the data set {dataset!r} as published (SHA-256 differs). {remedy}"
            )
        return content
    reasons = ["download=False"]
    if download:
        need("pooch", extra="datasets", why=f"Downloading the data set {dataset!r}")
        reasons = []
        for origin in stored.origins:
            try:
                parts = [_download(url, member, as_is=stored.as_is) for url, member in origin]
                content = _bytes(parts[0]) if stored.as_is else stored.convert(parts)
                if content_sha256(content) != stored.sha256:
                    raise ValueError("the SHA-256 of what arrived differs from the published data")
            except BROKEN as error:
                # A connection's own text runs over lines and says nothing more than its name.
                said = "" if isinstance(error, OSError) else f": {error}"
                reasons.append(type(error).__name__ + said)
                continue
            _write(path, content, as_is=stored.as_is)
            return content
    urls = list(dict.fromkeys(url for origin in stored.origins for url, _ in origin))
    raise DatasetNotFoundError(
        f"data set {dataset!r} needs the file {stored.name}, which is not in {folder} and was not downloaded "
        f"({'; '.join(reasons)}). Put it there, set {DATA_HOME_VARIABLE} to the folder that has it, or allow the "
        f"download from {', '.join(urls)}."
    )


def _bytes(data: bytes) -> Content:
    return {"file": np.frombuffer(data, dtype=np.uint8)}


def _read(path: Path, remedy: str, *, as_is: bool) -> Content:
    if path.suffix == ".npz":
        return read_npz(path, what="data file", remedy=remedy)
    with readable(path, "data file", remedy):
        return _bytes(path.read_bytes()) if as_is else text_contents([gunzip(path.read_bytes())])


def _write(path: Path, content: Content, *, as_is: bool) -> None:
    try:
        with atomic_path(path) as part, open(part, "wb") as file:
            if as_is:
                file.write(content["file"].data)
            elif path.suffix == ".npz":
                arrays: dict[str, Any] = dict(content)
                np.savez_compressed(file, **arrays)
            else:
                file.write(gzip.compress(content["text"].tobytes(), mtime=0))
    except OSError as error:
        raise InvalidInputError(
            f"data_home={str(path.parent)!r} cannot be written ({error}). "
            f"Give a folder of your own as data_home or in {DATA_HOME_VARIABLE}."
        ) from error


def _download(url: str, member: str, *, as_is: bool = False) -> bytes:
    """Fetch one URL and return the member's bytes, unpacked from a zip or gzip; ``as_is`` the file's own."""
    import pooch

    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "download"
        bar = _Bar(member) if sys.stderr.isatty() else None
        fetch = pooch.HTTPDownloader(progressbar=bar or False, chunk_size=1 << 16, timeout=30)
        try:
            fetch(url, str(file), None)
        finally:
            if bar:
                bar.close()
        data = file.read_bytes()
    if not data:
        raise ValueError(f"{url} answered with an empty file")
    return data if as_is else unpack(data, member)


def unpack(data: bytes, member: str) -> bytes:
    """Return the bytes of one file that came as it is, in a gzip file, or in a zip archive under the name ``member``.

    A name inside the archive is compared and nothing else: no path of it is ever written to.
    """
    if data[:4] == b"PK\3\4":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for found in archive.infolist():
                if PurePosixPath(found.filename).name == member:
                    # zipfile reads no further than the size that it declares.
                    check_unpacked(found.file_size, len(data))
                    return archive.read(found)
        raise KeyError(f"{member} is not in the archive")
    # A server may already have unpacked it in transfer: the first bytes show it, not the name.
    return gunzip(data) if data[:2] == b"\x1f\x8b" else data


class _Bar:
    """What pooch expects of a progress bar, drawn by rich on standard error."""

    def __init__(self, label: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
        self._progress = Progress(*columns, console=Console(file=sys.stderr), transient=True)
        self._task = self._progress.add_task(f"download {label}", total=None)
        self._progress.start()
        self.total = 0

    def update(self, n_bytes: int) -> None:
        self._progress.update(self._task, advance=n_bytes, total=self.total or None)

    def reset(self) -> None:
        self._progress.reset(self._task)

    def close(self) -> None:
        self._progress.stop()


# Formats of the named data sets: canonical files to arrays, arrays to features, labels and groups.

ADULT_CLASSES = ("<=50K", ">50K")
DIABETES_CLASSES = ("NO", ">30", "<30")
_ADULT_COLUMNS = ("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
                  "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
                  "income")  # fmt: skip
_ADULT_NUMERIC = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
_DIABETES_NUMERIC = ("encounter_id", "patient_nbr", "time_in_hospital", "num_lab_procedures", "num_procedures",
                     "num_medications", "number_outpatient", "number_emergency", "number_inpatient",
                     "number_diagnoses")  # fmt: skip


@dataclass(frozen=True, eq=False)
class Raw:
    """All rows of a data set before any cut: ``y`` are class indices or numbers, features are divided by ``scale``.

    The first ``n_train`` rows are the published training set; None when no split was published.
    """

    X: Any
    y: npt.NDArray[Any]
    n_train: int | None = None
    groups: npt.NDArray[np.int64] | None = None
    scale: float | None = None


# From the canonical files to the contents of the folder's file -------------------------------------------------


def parse_idx(data: bytes) -> npt.NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes (the format of MNIST)."""
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise ValueError("not an IDX file of unsigned bytes")
    n_dims = data[3]
    shape = tuple(int(n) for n in np.frombuffer(data, dtype=">u4", count=n_dims, offset=4))
    return np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * n_dims).reshape(shape)


def idx_contents(parts: Sequence[bytes]) -> Content:
    return dict(zip(("x_train", "y_train", "x_test", "y_test"), map(parse_idx, parts), strict=True))


def _csv_array(data: bytes) -> npt.NDArray[np.float64]:
    return np.loadtxt(io.BytesIO(data), delimiter=",", ndmin=2)


def train_test_contents(parts: Sequence[bytes]) -> Content:
    train, test = (_csv_array(part).astype(np.uint8) for part in parts)
    return {"x_train": train[:, :-1], "y_train": train[:, -1], "x_test": test[:, :-1], "y_test": test[:, -1]}


def spambase_contents(parts: Sequence[bytes]) -> Content:
    table = _csv_array(parts[0])
    return {"x": table[:, :-1], "y": table[:, -1].astype(np.uint8)}


def text_contents(parts: Sequence[bytes]) -> Content:
    return {"text": np.frombuffer(parts[0], dtype=np.uint8)}


def diabetes_contents(parts: Sequence[bytes]) -> Content:
    import pandas as pd

    table = pd.read_csv(io.BytesIO(parts[0]), dtype=str, keep_default_na=False)
    names = [name for name in table.columns if name not in _DIABETES_NUMERIC]
    content: Content = {
        "numeric": table[list(_DIABETES_NUMERIC)].to_numpy(dtype=np.int32),
        "numeric_names": np.array(_DIABETES_NUMERIC),
        "categorical_names": np.array(names),
    }
    codes = np.empty((len(table), len(names)), dtype=np.uint16)
    for j, name in enumerate(names):
        # Sorted by code point, as numpy sorts; factorising first is ten times as fast as sorting every row.
        codes[:, j], values = pd.factorize(table[name].to_numpy(dtype=object), sort=True)
        content[f"values_{name}"] = np.array(values.tolist())
    return content | {"categorical": codes}


# From the contents to features and labels ----------------------------------------------------------------------


def train_test_rows(scale: float | None) -> Callable[[Sequence[Content]], Raw]:
    def build(contents: Sequence[Content]) -> Raw:
        c = contents[0]
        X = np.concatenate([c["x_train"], c["x_test"]])
        y = np.concatenate([c["y_train"], c["y_test"]]).astype(np.int64)
        return Raw(X.reshape(len(X), -1), y, n_train=len(c["x_train"]), scale=scale)

    return build


def spambase_rows(contents: Sequence[Content]) -> Raw:
    return Raw(contents[0]["x"], contents[0]["y"].astype(np.int64))


def digits_rows(contents: Sequence[Content]) -> Raw:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return Raw(bunch.data, bunch.target.astype(np.int64), scale=16.0)


def adult_rows(contents: Sequence[Content]) -> Raw:
    import pandas as pd

    def rows(content: Content) -> Any:
        return pd.read_csv(
            io.BytesIO(content["text"].tobytes()),
            header=None,
            names=list(_ADULT_COLUMNS),
            skipinitialspace=True,
            comment="|",  # the first line of adult.test
            keep_default_na=False,
            na_values=["?"],
            dtype={name: np.float32 if name in _ADULT_NUMERIC else "object" for name in _ADULT_COLUMNS},
        )

    train, test = map(rows, contents)
    table = pd.concat([train, test], ignore_index=True)
    income = table.pop("income").str.rstrip(".")  # labels of adult.test end in a dot
    for name in table.columns:
        if name not in _ADULT_NUMERIC:
            table[name] = table[name].astype("category")
    y = (income == ADULT_CLASSES[1]).to_numpy().astype(np.int64)
    return Raw(table, y, n_train=len(train))


def diabetes_rows(contents: Sequence[Content]) -> Raw:
    import pandas as pd

    c = contents[0]
    numeric = dict(zip(c["numeric_names"].tolist(), c["numeric"].T, strict=True))
    columns: dict[str, Any] = {
        name: values.astype(np.float32)
        for name, values in numeric.items()
        if name not in ("encounter_id", "patient_nbr")
    }
    names = c["categorical_names"].tolist()
    for j, name in enumerate(names):
        if name == "readmitted":
            continue
        values = c[f"values_{name}"].astype(object)
        known = values != "?"
        new_code = np.where(known, np.cumsum(known) - 1, -1)  # -1 is pandas' missing
        columns[name] = pd.Categorical.from_codes(new_code[c["categorical"][:, j]], categories=values[known])
    index = np.array([DIABETES_CLASSES.index(v) for v in c["values_readmitted"].tolist()], dtype=np.int64)
    y = index[c["categorical"][:, names.index("readmitted")]]
    return Raw(pd.DataFrame(columns), y, groups=numeric["patient_nbr"].astype(np.int64))


def svhn_rows(contents: Sequence[Content]) -> Raw:
    """Read the two .mat files of SVHN's cropped digits: pixels (32, 32, 3, n), labels 1 to 10 where 10 is the digit 0.

    Rows become channels, then height, then width, as everywhere here.
    """
    from scipy.io import loadmat

    images, labels = [], []
    for content in contents:
        file: Any = io.BytesIO(content["file"].tobytes())  # the stubs know paths alone
        found = loadmat(file, variable_names=["X", "y"])
        pixels, digits = found.get("X"), found.get("y")
        if pixels is None or digits is None or pixels.shape[:3] != (32, 32, 3) or pixels.shape[3] != digits.size:
            raise InvalidInputError("a file of SVHN must have X of shape (32, 32, 3, n) and n labels y.")
        images.append(np.ascontiguousarray(pixels.transpose(3, 2, 0, 1), dtype=np.uint8).reshape(len(digits), -1))
        labels.append(digits.ravel().astype(np.int64) % 10)
    return Raw(np.concatenate(images), np.concatenate(labels), n_train=len(labels[0]), scale=255.0)


#: A record of CIFAR-10's binary version: the label, and 32 x 32 pixels of red, of green, of blue.
_CIFAR_RECORD = 1 + 3 * 32 * 32
_CIFAR_TRAIN = tuple(f"data_batch_{i}.bin" for i in range(1, 6))


def cifar10_rows(contents: Sequence[Content]) -> Raw:
    """Read CIFAR-10's binary version out of its archive, in memory: no member's path is ever written to."""
    packed = contents[0]["file"].tobytes()
    batches: dict[str, npt.NDArray[np.uint8]] = {}
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
        for member in archive:
            name = member.name.rpartition("/")[2]
            if name not in (*_CIFAR_TRAIN, "test_batch.bin") or not member.isfile():
                continue
            check_unpacked(member.size, len(packed))
            file = archive.extractfile(member)
            records = np.frombuffer(b"" if file is None else file.read(), dtype=np.uint8)
            if len(records) == 0 or len(records) % _CIFAR_RECORD:
                raise InvalidInputError(f"{name} of CIFAR-10 must hold records of {_CIFAR_RECORD} bytes.")
            batches[name] = records.reshape(-1, _CIFAR_RECORD)
    missing = [name for name in (*_CIFAR_TRAIN, "test_batch.bin") if name not in batches]
    if missing:
        raise InvalidInputError(f"the archive of CIFAR-10 lacks {', '.join(missing)}.")
    rows = np.concatenate([*(batches[name] for name in _CIFAR_TRAIN), batches["test_batch.bin"]])
    n_train = len(rows) - len(batches["test_batch.bin"])
    return Raw(rows[:, 1:], rows[:, 0].astype(np.int64), n_train=n_train, scale=255.0)
