"""Fitted representations kept by content: the same settings and the same public rows are fitted once."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from pate.core.checks import quietly
from pate.data._door import is_frame, is_sparse, read_rows
from pate.exceptions import CheckpointWarning, InvalidInputError
from pate.representations._base import Representation, check_representation
from pate.representations._files import load
from pate.representations._packing import kept_name
from pate.representations._private import refuse_private
from pate.votes import hash_queries

#: A change of how something is fitted makes earlier files strangers.
_VERSION = 2


def cached(rep: Representation, X_public: Any, folder: str | os.PathLike[str]) -> Any:
    """Return ``rep`` fitted on public rows, from ``folder`` if it was fitted on them before.

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
        A file was damaged: it is fitted anew and replaced.

    Examples
    --------
    >>> import tempfile
    >>> from pate.representations import RandomFourier
    >>> X, folder = np.random.default_rng(0).normal(size=(50, 4)), tempfile.mkdtemp()
    >>> first, again = cached(RandomFourier(8), X, folder), cached(RandomFourier(8), X, folder)
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
            warnings.warn(
                f"{file.name} in the cache is damaged: it is fitted anew and replaced.", CheckpointWarning, stacklevel=2
            )
    made = clone(rep).fit(X_public)
    made.save(file)
    return made


def content_key(rep: Representation, X_public: Any) -> str:
    """Return the digest by which the fit of these settings on these public rows is found again."""
    digest = hashlib.sha256(f"pate cached representation {_VERSION}\n".encode())
    digest.update(json.dumps(recipe(rep), sort_keys=True).encode())
    quietly("X_public", _add_rows, digest, X_public)
    return digest.hexdigest()


def recipe(rep: Representation) -> Any:
    """Return what decides a fit besides the rows, for JSON."""
    parts = [recipe(part) for part in getattr(rep, "parts", ())]
    return {"class": kept_name(rep), "settings": rep._settings(), "given": rep._given(), "parts": parts}


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
