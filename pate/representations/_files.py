"""Representations read from safetensors files: arrays, and one JSON text of settings; nothing in them is run.

A file is public, as what it holds is. The digest in it covers everything, so a damaged or edited one is refused; but
any person who writes a file can write a digest too, so take files from people you trust.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from pate._core.checks import quietly
from pate._core.curator import warn
from pate._core.tensors import opened, plain
from pate.data import is_frame, is_sparse, read_rows
from pate.exceptions import CheckpointWarning, InvalidInputError
from pate.representations._base import (
    FORMAT,
    HOMES,
    KEY,
    Representation,
    check_representation,
    digest,
    digest_of,
    refuse_private,
    stored_name,
)
from pate.representations._own import Brought
from pate.votes import hash_queries


def load(path: str | os.PathLike[str], *, module: Any = None, own: bool = False) -> Representation:
    """Read a saved representation; no code in the file is run.

    Parameters
    ----------
    path : path of a safetensors file
    module : torch module, or list of them
        The architecture of each :class:`FromModule` in it, in order; its weights come from the file.
    own : bool
        Refuse files with a map that is not pate's own (:class:`FromModule`, :class:`FromTransformer`), before anything
        of it is built.

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
        rep = _made(arrays, head["representation"], modules, own=own)
    except InvalidInputError:
        raise
    except Exception as error:  # a wrong shape or type may raise anything
        raise _damaged(path, type(error).__name__) from None
    if modules:
        raise InvalidInputError(f"module names {len(modules)} more than the file has a place for. Leave it out.")
    if digest_of(rep) != head["fingerprint"]:
        raise _damaged(path, "it does not give back what it says")
    return rep


def _damaged(path: str | os.PathLike[str], why: str) -> InvalidInputError:
    return InvalidInputError(
        f"{os.fspath(path)!r} is no intact file of a representation: {why}. Fit it again on the public rows, or fetch "
        "the file again."
    )


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, npt.NDArray[Any]], Any]:
    if not Path(path).is_file():
        raise InvalidInputError(f"path={os.fspath(path)!r} is no file. Name one that a representation was saved to.")
    why = ""
    try:
        arrays, head = opened(path, KEY)
        arrays = {name: plain(name, array) for name, array in arrays.items()}
    except KeyError:
        raise InvalidInputError(f"{os.fspath(path)!r} is a safetensors file, but not of a representation.") from None
    except InvalidInputError as error:
        why = str(error)
    except (json.JSONDecodeError, RecursionError):
        why = "its description is not JSON"
    except Exception:  # any way in which a parser may fail
        why = "not a safetensors file"
    if why:
        raise _damaged(path, why)
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise _damaged(path, f"{name} holds NaN or infinity")
    return arrays, head


def _made(
    arrays: dict[str, npt.NDArray[Any]], described: Mapping[str, Any], modules: list[Any], *, own: bool
) -> Representation:
    kind = _class(described["class"])
    if own and issubclass(kind, Brought):
        raise InvalidInputError(
            f"the file must hold maps of pate's own alone, got a {kind.__name__}. Use one of those."
        )
    parts = []
    for i, inner in enumerate(described["parts"]):
        parts.append(_made(_under(arrays, f"part{i}/"), inner, modules, own=own))
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


def _class(stored: Any) -> type[Representation]:
    prefix, _, name = str(stored).rpartition(".")
    home = HOMES.get(f"{prefix}." if prefix else "")
    found = getattr(import_module(home), name, None) if home and name.isidentifier() else None
    if not (isinstance(found, type) and issubclass(found, Representation)):
        raise InvalidInputError(
            f"the file holds a representation of a kind that this version of pate does not know: {str(stored)[:60]!r}."
        )
    return found


# Fitted representations stored by content: the same settings and the same public rows are fitted once.

#: A change of how something is fitted makes earlier files invalid.
_VERSION = 2


def cached(rep: Representation, X_public: Any, folder: str | os.PathLike[str]) -> Any:
    """Return ``rep`` fitted on the public rows; read it from ``folder`` if it was fitted on them before.

    Parameters
    ----------
    rep : Representation
        Its settings count, whether or not it is fitted; it stays as it is.
    X_public : array or DataFrame of shape (n_public, n_features), or texts
        Public rows.
    folder : path
        Made when absent. Files are whole or absent: who is interrupted starts again. Nothing is deleted.

    Returns
    -------
    Representation
        A fitted copy.

    Warns
    -----
    CheckpointWarning
        A file was damaged: it is fitted again and replaced.

    Examples
    --------
    >>> import tempfile
    >>> from pate.representations import RandomFourier
    >>> X, folder = np.random.default_rng(0).normal(size=(50, 4)), tempfile.mkdtemp()
    >>> first, again = (
    ...     cached(RandomFourier(8), X, folder),
    ...     cached(RandomFourier(8), X, folder),
    ... )
    >>> len(list(Path(folder).iterdir())), first.fingerprint() == again.fingerprint()
    (1, True)
    """
    check_representation("rep", rep)
    refuse_private("X_public", X_public)
    rep._check()
    key = content_key(rep, X_public)
    file = Path(folder) / f"{type(rep).__name__}-{key[:32]}.safetensors"
    if file.exists():
        try:
            return load(file, module=rep._modules())
        except InvalidInputError:
            warn(
                f"{file.name} in the cache is damaged: it is fitted again and replaced.",
                CheckpointWarning,
            )
    made = clone(rep).fit(X_public)
    made.save(file)
    return made


def content_key(rep: Representation, X_public: Any) -> str:
    """Return the cache key of a fit: a digest of the settings and the public rows."""
    digest = hashlib.sha256(f"pate cached representation {_VERSION}\n".encode())
    digest.update(json.dumps(recipe(rep), sort_keys=True).encode())
    quietly("X_public", _add_rows, digest, X_public)
    return digest.hexdigest()


def recipe(rep: Representation) -> Any:
    """Return what decides a fit besides the rows, for JSON."""
    parts = [recipe(part) for part in getattr(rep, "parts", ())]
    return {"class": stored_name(rep), "settings": rep._settings(), "given": rep._given(), "parts": parts}


def _add_rows(digest: Any, X: Any) -> None:
    rows = read_rows(X, name="X_public")
    if is_sparse(rows):
        rows = rows.sorted_indices()
        for array in (rows.data, rows.indices.astype("<i8"), rows.indptr.astype("<i8")):
            digest.update(f"{array.dtype.str} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        digest.update(f"{rows.shape}".encode())
        return
    if is_frame(rows):
        digest.update(repr([str(t) for t in rows.dtypes]).encode())
    for text in hash_queries(rows.reshape(-1, 1) if rows.ndim == 1 else rows):
        digest.update(text.encode())
