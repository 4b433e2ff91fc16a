"""Weights of a network as bytes: a safetensors file that any library can open, with a seal among its metadata.

The seal covers what the file says and not how it is laid out (safetensors writes its metadata in any order): names,
types, shapes and values of the arrays, and the other metadata, each with its length before it.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.exceptions import InvalidInputError
from pate.teachers._seal import DamagedCheckpointError, new_seal

_SEAL = "pate.seal"
_METADATA = "__metadata__"
_LENGTH_BYTES = 8  # of the header's length, at the beginning of a safetensors file
#: Types that both numpy and every safetensors library know.
_DTYPES = frozenset(
    ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
)


def pack_weights(arrays: Mapping[str, npt.NDArray[Any]], key: bytes, facts: Mapping[str, str] | None = None) -> bytes:
    """Return weights as a sealed safetensors file.

    Parameters
    ----------
    arrays : dict of name -> array of any shape
        Truth values, whole numbers or floats of 16 to 64 bits.
    key : bytes
        The teacher's private recipe.
    facts : dict of str -> str or None
        What else the file should say, readable by anyone who opens it and covered by the seal. Names that begin with
        ``pate.`` are ours.

    Raises
    ------
    InvalidInputError
        A name, a type or a fact that safetensors cannot hold.

    Examples
    --------
    >>> from safetensors.numpy import load
    >>> load(pack_weights({"bias": np.ones(2, np.float32)}, b"key", {"module": "CNN"}))
    {'bias': array([1., 1.], dtype=float32)}
    """
    from safetensors.numpy import save  # only those who keep checkpoints need it

    weights = {name: _plain(name, array) for name, array in arrays.items()}
    metadata = dict(facts or {})
    for name, fact in metadata.items():
        if not (_is_text(name) and _is_text(fact)) or name.startswith("pate."):
            raise InvalidInputError(
                f"facts must be texts under names that do not begin with 'pate.', got one named {name!r}. Use str()."
            )
    return save(weights, {**metadata, _SEAL: _seal(weights, metadata, key)})


def unpack_weights(packed: bytes, key: bytes) -> dict[str, npt.NDArray[Any]]:
    """Return the weights in a sealed safetensors file, sorted by name, once the seal has been checked.

    Returns
    -------
    dict of name -> array
        The arrays may be written to.

    Raises
    ------
    DamagedCheckpointError
        Anything else than a file that :func:`pack_weights` made with ``key``.

    Examples
    --------
    >>> packed = pack_weights({"bias": np.ones(2)}, b"key")
    >>> unpack_weights(packed, b"key")
    {'bias': array([1., 1.])}
    >>> unpack_weights(packed, b"another key")
    Traceback (most recent call last):
    pate.teachers.checkpoints.DamagedCheckpointError: the seal does not fit
    """
    from safetensors.numpy import load

    try:
        metadata = _metadata(packed)
        found = metadata.pop(_SEAL, "")
        weights = {name: _plain(name, array) for name, array in sorted(load(packed).items())}
        expected = _seal(weights, metadata, key)
        fits = hmac.compare_digest(found.encode(), expected.encode())
    except BaseException as error:  # any way in which a parser may fail means the same thing here
        # A panic in safetensors' Rust is no Exception; Ctrl-C is none either, and goes on.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise DamagedCheckpointError(f"not a sealed safetensors file ({type(error).__name__})") from None
    if not fits:
        raise DamagedCheckpointError("the seal does not fit")
    return {name: array if array.flags.writeable else array.copy() for name, array in weights.items()}


def _metadata(packed: bytes) -> dict[str, str]:
    """Return the texts in the header; safetensors itself reads them from files only."""
    length = int.from_bytes(packed[:_LENGTH_BYTES], "little")
    if length > len(packed) - _LENGTH_BYTES:
        raise ValueError("the header is longer than the file")
    header = json.loads(packed[_LENGTH_BYTES : _LENGTH_BYTES + length], object_pairs_hook=_without_repeats)
    metadata = header[_METADATA]
    if not all(_is_text(name) and _is_text(fact) for name, fact in metadata.items()):
        raise ValueError("metadata are texts")
    return dict(metadata)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Of a name that comes twice, two parsers may see different ones.
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name comes twice")
    return found


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


def _seal(weights: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, str], key: bytes) -> str:
    mac = new_seal(key)

    def add(part: str | memoryview) -> None:
        data = memoryview(part.encode()) if isinstance(part, str) else part
        mac.update(data.nbytes.to_bytes(8, "little"))
        mac.update(data)

    add("pate weights 1")
    add(str(len(metadata)))
    for name, fact in sorted(metadata.items()):
        add(name)
        add(fact)
    add(str(len(weights)))
    for name, array in sorted(weights.items()):
        add(name)
        add(array.dtype.str)
        add(str(array.shape))
        add(array.reshape(-1).view(np.uint8).data)
    return mac.hexdigest()
