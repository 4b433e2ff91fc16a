"""Arrays and what is known of them in one safetensors file: whole or absent, and nothing in it runs when it is read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pate._core.files import write_bytes
from pate.exceptions import InvalidInputError

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
