"""Formats of the named data sets: canonical files to arrays, arrays to features, labels and groups."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.data.files._limits import check_unpacked
from pate.data.named._fetch import Content
from pate.exceptions import InvalidInputError

ADULT_CLASSES = ("<=50K", ">50K")
DIABETES_CLASSES = ("NO", ">30", "<30")
_ADULT_COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
)
_ADULT_NUMERIC = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
_DIABETES_NUMERIC = (
    "encounter_id",
    "patient_nbr",
    "time_in_hospital",
    "num_lab_procedures",
    "num_procedures",
    "num_medications",
    "number_outpatient",
    "number_emergency",
    "number_inpatient",
    "number_diagnoses",
)


@dataclass(frozen=True, eq=False)
class Raw:
    """All rows of a data set before any cut.

    Attributes
    ----------
    X : array of shape (n, n_features), or DataFrame of n rows
    y : int64 array of shape (n,)
        Class indices.
    n_train : int or None
        The first ``n_train`` rows are the published training set; None when no split was published.
    groups : int array of shape (n,) or None
    scale : float or None
        Divide the features by this; None leaves them.
    """

    X: Any
    y: npt.NDArray[np.int64]
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
