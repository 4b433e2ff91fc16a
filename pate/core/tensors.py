"""Arrays and what is known of them in one safetensors file: whole or absent, and nothing in it runs when it is read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.files import atomic_path
from pate.exceptions import InvalidInputError

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
    """Write arrays, and JSON facts about them, as one safetensors file: public ones, unless ``mode`` keeps it private.

    Parameters
    ----------
    path : path
    arrays : dict of name -> array
    facts : dict
        Plain JSON values.
    form : str
        What kind of file it is, by which :func:`load_tensors` knows it.
    mode : int or None
        The file's permissions.
    """
    from safetensors.numpy import save

    plain = {name: np.array(array, order="C", copy=True) for name, array in arrays.items()}
    odd = [name for name, array in plain.items() if array.dtype.name not in _DTYPES]
    if odd:
        raise InvalidInputError(f"arrays to save must be of {', '.join(_DTYPES)}, {odd[0]!r} is {plain[odd[0]].dtype}.")
    told = json.dumps({"form": form, "facts": dict(facts)}, sort_keys=True, allow_nan=False)
    data = save(plain, metadata={_KEY: told})
    with atomic_path(path, mode=mode) as part:
        part.write_bytes(data)


def load_tensors(path: str | os.PathLike[str], *, form: str) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Read what :func:`save_tensors` wrote.

    Returns
    -------
    arrays : dict of name -> array
    facts : dict

    Raises
    ------
    InvalidInputError
        No such file, or none of this form.
    """
    from safetensors import safe_open

    why = ""
    arrays: dict[str, npt.NDArray[Any]] = {}
    held: Any = None
    try:
        if not Path(path).is_file():
            raise FileNotFoundError
        with safe_open(path, framework="numpy") as file:
            held = json.loads((file.metadata() or {})[_KEY])
            arrays = {name: file.get_tensor(name) for name in sorted(file.keys())}
    except BaseException as error:  # a panic in safetensors' Rust is no Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        why = type(error).__name__
    if not why and not (isinstance(held, dict) and held.get("form") == form and isinstance(held.get("facts"), dict)):
        why = "it is another kind of file"
    if why:
        raise InvalidInputError(
            f"path must be a file written by pate ({form}), got {str(path)!r}: {why}. Name the file that was saved."
        )
    return arrays, held["facts"]
