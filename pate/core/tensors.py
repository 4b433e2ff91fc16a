"""Arrays and what is known of them in one safetensors file: whole or absent, and nothing in it runs when it is read."""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.files import atomic_path
from pate.exceptions import InvalidInputError

# scikit-learn objects as bytes by skops: no pickle, and only types that are named are built when they are read.

#: What skops does not trust by itself, and cannot harm: data holders and pure functions, each by its full name. A
#: prefix such as ``numpy.`` would not do: functions are types to skops, and ``numpy.testing`` has one that runs code.
HARMLESS: tuple[str, ...] = (
    "numpy.dtype",
    "sklearn.feature_selection._univariate_selection.chi2",
    "sklearn.feature_selection._univariate_selection.f_classif",
    "sklearn.utils._bunch.Bunch",
)

#: Where a skops file describes what it holds.
_SCHEMA = "schema.json"


def pack_estimator(estimator: Any, *, trusted: Collection[str] = HARMLESS, refusal: str, remedy: str) -> bytes:
    """Return a fitted estimator as bytes that :func:`unpack_estimator` will take with the same ``trusted``."""
    import skops.io as sio  # slow to import, and only those who keep estimators need it

    try:
        data = bytes(sio.dumps(estimator))
        unknown = sorted(set(sio.get_untrusted_types(data=data)) - set(trusted))
    except Exception as error:
        # Not chained and not quoted: a fitted part's text may show private values.
        raise InvalidInputError(f"{refusal}: skops cannot store it ({type(error).__name__}). {remedy}") from None
    if unknown:
        raise InvalidInputError(
            f"{refusal}: {', '.join(unknown)} is not among the types that are safe to read back. {remedy}"
        )
    return data


def settled(data: bytes) -> bytes:
    """Return packed bytes in which only the estimator is left: no hour, and nothing of the memory it stood in.

    skops writes addresses, and NumPy the gaps between the fields of a record (a tree's nodes), where whatever was in
    memory before still stands.
    """
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as new:
        places: dict[str, str] = {}

        def place(found: re.Match[str]) -> str:
            return f"{found[1]}{places.setdefault(found[2], str(len(places)))}"

        schema = re.sub(r'("__id__": )(\d+)', place, old.read(_SCHEMA).decode("utf-8"))
        names = {name: name for name in old.namelist() if name != _SCHEMA}
        for name in sorted(names, key=schema.find):
            stem, dot, ending = name.partition(".")
            names[name] = f"{places.setdefault(stem, str(len(places)))}{dot}{ending}"
            schema = schema.replace(json.dumps(name), json.dumps(names[name]))
        for name, now in sorted(names.items(), key=lambda pair: pair[1]):
            new.writestr(
                zipfile.ZipInfo(now), _without_gaps(old.read(name)) if now.endswith(".npy") else old.read(name)
            )
        new.writestr(zipfile.ZipInfo(_SCHEMA), schema)
    return made.getvalue()


def _without_gaps(packed: bytes) -> bytes:
    """Return a packed array, the bytes between the fields of its records nought."""
    array = np.load(io.BytesIO(packed), allow_pickle=False)
    if array.dtype.names is None:
        return packed
    clean = np.zeros(array.shape, dtype=array.dtype)
    for name in array.dtype.names:
        clean[name] = array[name]
    made = io.BytesIO()
    np.save(made, clean, allow_pickle=False)
    return made.getvalue()


def unpack_estimator(data: bytes, *, trusted: Collection[str] = HARMLESS) -> Any:
    """Return the estimator in bytes; whatever skops raises is raised."""
    import skops.io as sio

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(member.file_size for member in archive.infolist()) > len(data):
            raise ValueError("members that unpack to more than they are")

    return sio.loads(data, trusted=list(trusted))


_KEY = "pate"
_DTYPES = ("bool", "uint8", "int16", "int32", "int64", "float32", "float64")


def save_tensors(
    path: str | os.PathLike[str],
    arrays: Mapping[str, npt.NDArray[Any]],
    facts: Mapping[str, Any],
    *,
    form: str,
    mode: int | None = None,
) -> None:
    """Write arrays, and JSON facts about them, as one safetensors file: public, unless ``mode`` keeps it private."""
    from safetensors.numpy import save

    plain = {name: np.array(array, order="C", copy=True) for name, array in arrays.items()}
    odd = [name for name, array in plain.items() if array.dtype.name not in _DTYPES]
    if odd:
        raise InvalidInputError(f"arrays to save must be of {', '.join(_DTYPES)}, {odd[0]!r} is {plain[odd[0]].dtype}.")
    told = json.dumps({"form": form, "facts": dict(facts)}, sort_keys=True, allow_nan=False)
    data = save(plain, metadata={_KEY: told})
    with atomic_path(path, mode=mode) as part:
        part.write_bytes(data)


def opened(path: str | os.PathLike[str], key: str, *, framework: str = "numpy") -> tuple[dict[str, Any], Any]:
    """Return the tensors of a safetensors file and the JSON under a key; whatever is wrong raises an Exception."""
    from safetensors import safe_open

    try:
        with safe_open(os.fspath(path), framework=framework) as file:
            told = json.loads((file.metadata() or {})[key])
            return {name: file.get_tensor(name) for name in sorted(file.keys())}, told
    except BaseException as error:  # a panic in safetensors' Rust is no Exception
        if isinstance(error, Exception) or type(error).__name__ != "PanicException":
            raise
        problem = str(error)
    raise ValueError(problem)


def load_tensors(path: str | os.PathLike[str], *, form: str) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Read what :func:`save_tensors` wrote."""
    arrays, held, why = dict[str, npt.NDArray[Any]](), dict[str, Any](), ""
    try:
        if not Path(path).is_file():
            raise FileNotFoundError
        arrays, held = opened(path, _KEY)
    except Exception as error:
        why = type(error).__name__
    if not why and not (isinstance(held, dict) and held.get("form") == form and isinstance(held.get("facts"), dict)):
        why = "it is another kind of file"
    if why:
        raise InvalidInputError(
            f"path must be a file written by pate ({form}), got {str(path)!r}: {why}. Name the file that was saved."
        )
    return arrays, held["facts"]
