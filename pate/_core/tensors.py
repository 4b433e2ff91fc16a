"""Arrays and what is known of them in one safetensors file: whole or absent, and nothing in it runs when it is read."""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pate._core.files import write_bytes
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
    """Return a fitted estimator as bytes that :func:`unpack_estimator` will take with the same ``trusted``.

    ``trusted`` are full names of types, beside those that skops trusts; ``refusal`` and ``remedy`` begin and end the
    error of what could not be read back safely. Nothing of what it was fitted on is quoted there.
    """
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


def canonical_bytes(data: bytes) -> bytes:
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
    """Return the estimator in bytes; whatever skops raises is raised.

    Bytes that claim to hold more than they are, are refused: what is packed here is stored as it is.
    """
    import skops.io as sio

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(member.file_size for member in archive.infolist()) > len(data):
            raise ValueError("members that unpack to more than they are")

    return sio.loads(data, trusted=list(trusted))


# Arrays and JSON about them as one safetensors file.

_KEY = "pate"
#: Types that both NumPy and every safetensors library know.
_DTYPES = frozenset(
    ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
)


def plain(name: Any, array: Any) -> npt.NDArray[Any]:
    """Return an array as safetensors takes it: in order, little-endian, of a type that all readers know."""
    if not _is_text(name) or name == "__metadata__":
        raise InvalidInputError(f"arrays to keep must have texts other than '__metadata__' as names, got {name!r}.")
    values = np.asarray(array, order="C")
    if values.dtype.name not in _DTYPES:
        raise InvalidInputError(
            f"arrays to keep must be truth values, whole numbers or floats of 16 to 64 bits, got {values.dtype} for "
            f"{name!r}. Convert it: float32 holds every bfloat16."
        )
    return values.astype(values.dtype.newbyteorder("<"), copy=False)


def _is_text(value: Any) -> bool:
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:  # half of a surrogate pair
        return False


def as_safetensors(arrays: Mapping[str, Any], metadata: dict[str, str] | None = None) -> bytes:
    """Return the bytes of a safetensors file."""
    from safetensors.numpy import save  # only those who keep arrays need it

    return save({name: plain(name, array) for name, array in arrays.items()}, metadata=metadata)


@contextmanager
def parsing() -> Iterator[None]:
    """Make a ValueError of a panic in safetensors' Rust, which is no Exception."""
    try:
        yield
        return
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ != "PanicException":
            raise
        problem = str(error)
    raise ValueError(problem)


def opened(path: str | os.PathLike[str], key: str, *, framework: str = "numpy") -> tuple[dict[str, Any], Any]:
    """Return the tensors of a safetensors file, and the JSON under a key; whatever is wrong raises an Exception."""
    from safetensors import safe_open

    with parsing(), safe_open(os.fspath(path), framework=framework) as file:
        tensors = {name: file.get_tensor(name) for name in sorted(file.keys())}
        return tensors, json.loads((file.metadata() or {})[key])


def save_tensors(
    path: str | os.PathLike[str],
    arrays: Mapping[str, npt.NDArray[Any]],
    facts: Mapping[str, Any],
    *,
    form: str,
    mode: int | None = None,
) -> None:
    """Write arrays, and JSON facts about them, as a file of one ``form``: public, unless ``mode`` keeps it private."""
    header = json.dumps({"form": form, "facts": dict(facts)}, sort_keys=True, allow_nan=False)
    write_bytes(path, as_safetensors(arrays, {_KEY: header}), mode=mode)


def load_tensors(path: str | os.PathLike[str], *, form: str) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Return the arrays and the facts that :func:`save_tensors` wrote; refuse any other file."""
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
