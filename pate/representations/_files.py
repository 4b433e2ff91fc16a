"""Representations read from safetensors files: arrays, and one JSON text of settings; nothing in them is run.

A file is public, as what it keeps is. The digest in it covers everything, so a damaged or edited one is refused; who
writes a file anew can write a digest too, so take files from whom you trust.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.exceptions import InvalidInputError
from pate.representations._base import Representation
from pate.representations._packing import FORMAT, HOMES, KEY, digest, digest_of, plain


def load(path: str | os.PathLike[str], *, module: Any = None) -> Representation:
    """Read a representation that was saved; nothing in the file is run.

    Parameters
    ----------
    path : path of a safetensors file
    module : torch module, or list of them
        The architecture of each :class:`FromModule` in it, in order; its weights come from the file.

    Returns
    -------
    Representation
        Fitted, of the same fingerprint.

    Raises
    ------
    InvalidInputError
        There is no such file, it is of something else or of a later version, or it is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from pate.representations import TableMap
    >>> rep = TableMap().fit(np.arange(20.0).reshape(10, 2))
    >>> file = Path(tempfile.mkdtemp()) / "rep.safetensors"
    >>> rep.save(file)
    >>> load(file).fingerprint() == rep.fingerprint()
    True
    """
    arrays, head = _read(path)
    if not isinstance(head, dict) or set(head) != {"format", "fingerprint", "checksum", "representation"}:
        raise _damaged(path, "its description is not one")
    if head["format"] != FORMAT:
        raise InvalidInputError(
            f"{os.fspath(path)!r} is of format {str(head['format'])[:20]}; this version of pate reads {FORMAT}."
        )
    try:
        known = digest(arrays, head["representation"])
    except (TypeError, ValueError):
        raise _damaged(path, "its description is not one") from None
    if known != head["checksum"]:
        raise _damaged(path, "its contents are not those of its digest")
    modules = list(module) if isinstance(module, list | tuple) else [] if module is None else [module]
    try:
        rep = _made(arrays, head["representation"], modules)
    except InvalidInputError:
        raise
    except Exception as error:  # whatever a wrong shape or type leads to
        raise _damaged(path, type(error).__name__) from None
    if modules:
        raise InvalidInputError(f"module names {len(modules)} more than the file has a place for. Leave it out.")
    if digest_of(rep) != head["fingerprint"]:
        raise _damaged(path, "it does not give back what it says")
    return rep


def _damaged(path: str | os.PathLike[str], why: str) -> InvalidInputError:
    return InvalidInputError(
        f"{os.fspath(path)!r} is no intact file of a representation: {why}. Fit it anew on the public rows, or fetch "
        "the file again."
    )


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, npt.NDArray[Any]], Any]:
    from safetensors import safe_open

    if not Path(path).is_file():
        raise InvalidInputError(f"path={os.fspath(path)!r} is no file. Name one that a representation was saved to.")
    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: plain(name, file.get_tensor(name)) for name in sorted(file.keys())}
            odd = [name for name, array in arrays.items() if array.dtype.kind == "f" and not np.isfinite(array).all()]
    except InvalidInputError as error:
        raise _damaged(path, str(error)) from None
    except BaseException as error:  # any way in which a parser may fail; a panic in its Rust is no Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise _damaged(path, "not a safetensors file") from None
    if odd:
        raise _damaged(path, f"{odd[0]} holds NaN or infinity")
    if KEY not in metadata:
        raise InvalidInputError(f"{os.fspath(path)!r} is a safetensors file, but not of a representation.")
    try:
        return arrays, json.loads(metadata[KEY])
    except (ValueError, RecursionError):
        raise _damaged(path, "its description is not JSON") from None


def _made(arrays: dict[str, npt.NDArray[Any]], described: Mapping[str, Any], modules: list[Any]) -> Representation:
    kind = _class(described["class"])
    parts = []
    for i, inner in enumerate(described["parts"]):
        parts.append(_made(_under(arrays, f"part{i}/"), inner, modules))
    rep = kind._empty(dict(described["settings"]), tuple(parts), modules)
    if described["cells"] is not None:
        rep.cells_ = kind._reader.restore(_under(arrays, "cells/"), described["cells"])
        rep._named()
    rep.n_public_, rep.n_features_out_ = int(described["n_public"]), int(described["n_features_out"])
    rep.provenance_ = str(described["provenance"])
    rep._restore(_under(arrays, "state/") | _under(arrays, "sealed/"), described["words"])
    return rep


def _under(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> dict[str, npt.NDArray[Any]]:
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}


def _class(kept: Any) -> type[Representation]:
    prefix, _, name = str(kept).rpartition(".")
    home = HOMES.get(f"{prefix}." if prefix else "")
    found = getattr(import_module(home), name, None) if home and name.isidentifier() else None
    if not (isinstance(found, type) and issubclass(found, Representation)):
        raise InvalidInputError(
            f"the file holds a representation of a kind that this version of pate does not know: {str(kept)[:60]!r}."
        )
    return found
