"""Weights of a network as bytes: a safetensors file behind a seal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.exceptions import InvalidInputError
from pate.teachers._seal import DamagedCheckpointError, opened, sealed

_METADATA = "__metadata__"
#: Types that both numpy and every safetensors library know.
_DTYPES = frozenset(
    ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
)


def pack_weights(arrays: Mapping[str, npt.NDArray[Any]], key: bytes) -> bytes:
    """Return weights as a sealed safetensors file.

    Parameters
    ----------
    arrays : dict of name -> array of any shape
        Truth values, whole numbers or floats of 16 to 64 bits.
    key : bytes
        The teacher's private recipe.

    Raises
    ------
    InvalidInputError
        A name or a type that safetensors cannot hold.
    """
    from safetensors.numpy import save  # only those who keep checkpoints need it

    return sealed(save({name: _plain(name, array) for name, array in arrays.items()}), key)


def unpack_weights(packed: bytes, key: bytes) -> dict[str, npt.NDArray[Any]]:
    """Return the weights in a sealed safetensors file, sorted by name; the seal is checked before anything is parsed.

    Returns
    -------
    dict of name -> array
        The arrays may be written to.

    Raises
    ------
    DamagedCheckpointError
        Anything else than what :func:`pack_weights` made with ``key``.
    """
    from safetensors.numpy import load

    data = opened(packed, key)
    try:
        weights = {name: _plain(name, array) for name, array in sorted(load(data).items())}
    except BaseException as error:  # any way in which a parser may fail means the same thing here
        # A panic in safetensors' Rust is no Exception; Ctrl-C is none either, and goes on.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise DamagedCheckpointError(f"not a safetensors file ({type(error).__name__})") from None
    return {name: array if array.flags.writeable else array.copy() for name, array in weights.items()}


def _plain(name: Any, array: Any) -> npt.NDArray[Any]:
    """Return an array as safetensors takes it: in order, little-endian, of a type that everybody knows."""
    if not _is_text(name) or name == _METADATA:
        raise InvalidInputError(f"weights must have texts other than {_METADATA!r} as names, got {name!r}. Rename it.")
    values = np.asarray(array, order="C")
    if values.dtype.name not in _DTYPES:
        raise InvalidInputError(
            f"weights must be truth values, whole numbers or floats of 16 to 64 bits, got {values.dtype} for {name!r}. "
            "Convert it: float32 holds every bfloat16."
        )
    return values.astype(values.dtype.newbyteorder("<"), copy=False)


def _is_text(value: Any) -> bool:
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
