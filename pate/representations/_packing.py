"""What a fitted representation is made of: arrays, and a description for JSON; and its digest over both."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.files import atomic_path
from pate.exceptions import InvalidInputError

FORMAT = 2
KEY = "pate.representation"
_DTYPES = frozenset(["bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64"])
#: Where classes that a file may name live, by the prefix of their name.
HOMES = {"": "pate.representations", "images.": "pate.representations.images"}


def kept_name(rep: Any, *, strict: bool = True) -> str:
    """Return the name by which a file knows a class; where not ``strict``, that of any other class too."""
    name = type(rep).__name__
    for prefix, home in HOMES.items():
        inside = type(rep).__module__ == home or type(rep).__module__.startswith(f"{home}.")
        if inside and getattr(import_module(home), name, None) is type(rep):
            return prefix + name
    if not strict:
        return f"{type(rep).__module__}:{type(rep).__qualname__}"
    raise InvalidInputError(
        f"{name} is no class of this package, and cannot be kept in a file that anybody can read back. Wrap what it "
        "does in FromTransformer or FromModule."
    )


def packed(rep: Any, *, keep: bool = False) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Return all arrays of a fitted representation, its parts' included, and its description for JSON.

    ``keep`` adds what a file needs beyond: bytes that differ from one writing to the next, which no digest of what was
    fitted may cover. What cannot be kept is then refused.
    """
    reader_arrays, reader_words = rep.cells_.state() if hasattr(rep, "cells_") else ({}, None)
    arrays, words = rep._state()
    made = {f"cells/{k}": v for k, v in reader_arrays.items()} | {f"state/{k}": v for k, v in arrays.items()}
    if keep:
        made |= {f"sealed/{k}": v for k, v in rep._sealed().items()}
    parts = []
    for i, part in enumerate(rep._parts()):
        inner, described = packed(part, keep=keep)
        made |= {f"part{i}/{k}": v for k, v in inner.items()}
        parts.append(described)
    described = {
        "class": kept_name(rep, strict=keep),
        "settings": rep._settings(),
        "cells": reader_words,
        "words": words,
        "n_public": rep.n_public_,
        "n_features_out": rep.n_features_out_,
        "provenance": rep.provenance_,
        "parts": parts,
    }
    return {k: plain(k, v) for k, v in made.items()}, described


def plain(name: str, array: Any) -> npt.NDArray[Any]:
    """Return an array as safetensors takes it: in order, little-endian, of a type that everybody knows."""
    values = np.asarray(array, order="C")
    if values.dtype.name not in _DTYPES:
        raise InvalidInputError(f"{name} of type {values.dtype} cannot be kept in a safetensors file. Convert it.")
    return values.astype(values.dtype.newbyteorder("<"), copy=False)


def digest(arrays: Mapping[str, npt.NDArray[Any]], described: Any) -> str:
    """Return the SHA-256 digest of arrays and their description."""
    text = json.dumps(described, sort_keys=True, allow_nan=False)
    made = hashlib.sha256(f"pate representation {FORMAT} {len(arrays)}\n{text}\n".encode())
    for name in sorted(arrays):
        made.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape}\n".encode())
        made.update(np.ascontiguousarray(arrays[name]).tobytes())
    return made.hexdigest()


def digest_of(rep: Any) -> str:
    """Return the digest of a fitted representation."""
    return digest(*packed(rep))


def save(rep: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted representation."""
    from safetensors.numpy import save as to_bytes

    arrays, described = packed(rep, keep=True)
    head = {
        "format": FORMAT,
        "fingerprint": digest_of(rep),
        "checksum": digest(arrays, described),
        "representation": described,
    }
    data = to_bytes(arrays, metadata={KEY: json.dumps(head, sort_keys=True, allow_nan=False)})
    try:
        with atomic_path(path) as beside:
            beside.write_bytes(data)
    except OSError as error:
        raise InvalidInputError(
            f"path={os.fspath(path)!r} cannot be written: {error.strerror or error}. Name a file in a folder that you "
            "may write to."
        ) from None
