"""Base of representations: public maps from any row to a finite vector, fitted on public rows only."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from pate._core.checks import check_int, quietly, shown
from pate._core.files import write_bytes, writing
from pate._core.recorder import note
from pate._core.tensors import as_safetensors, plain
from pate.exceptions import InvalidInputError, SensitiveValueError
from pate.representations._cells import NumberCells
from pate.representations._exact import ExactMap

# What slow maps made of rows, remembered for a while: in this process alone, bounded, and to the very bits.

#: Rows that are remembered together: a multiple of every map's block, so that no row's place in its block changes.
_TOGETHER = 1024
_ACTIVE: ContextVar[RowMemory | None] = ContextVar("pate_row_memory", default=None)


class RowMemory:
    """A cache of the vectors that slow representations (scattering, networks) computed, for calls with the same rows.

    Fits at several budgets, or of several methods, map the same private rows by the same public maps; scattering of
    60,000 images takes minutes. Maps use the cache within :meth:`on`. Their results are the same to the last bit.

    Parameters
    ----------
    max_bytes : int
        What was used longest ago is forgotten beyond that.

    Notes
    -----
    **Sensitive**: vectors of private rows stay in this process until :meth:`forget`, or until they are crowded out;
    they are never written. Which rows were seen before shows in how long a map takes, and in nothing else.

    Examples
    --------
    >>> from pate.representations.images import Scattering
    >>> images = np.random.default_rng(0).uniform(size=(5, 28, 28))
    >>> scattering, memory = Scattering(device="cpu").fit(images), RowMemory()
    >>> with memory.on():
    ...     first, again = scattering.transform(images), scattering.transform(images)
    >>> bool((first == again).all()), memory.hits, memory
    (True, 1, RowMemory(<sensitive>))
    """

    def __init__(self, max_bytes: int = 2 << 30) -> None:
        self.max_bytes = check_int("max_bytes", max_bytes, low=1)
        self.hits = 0
        self._kept: OrderedDict[tuple[str, bytes], npt.NDArray[Any]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return "RowMemory(<sensitive>)"

    def __reduce__(self) -> Any:
        return RowMemory, (self.max_bytes,)  # what is remembered leaves no process

    @contextmanager
    def on(self) -> Iterator[None]:
        """Make slow maps of this thread use the memory."""
        token = _ACTIVE.set(self)
        try:
            yield
        finally:
            _ACTIVE.reset(token)

    def forget(self) -> None:
        """Drop everything."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    def vectors(self, rep: Any, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return what ``rep`` makes of rows, from the memory where it is known."""
        known, made = rep.fingerprint(), []
        for start in range(0, len(X), _TOGETHER):
            rows = np.ascontiguousarray(X[start : start + _TOGETHER])
            digest = hashlib.sha256(f"{rows.dtype.str} {rows.shape}\n".encode())
            digest.update(rows.data)
            made.append(self._piece((known, digest.digest()), rep._vectors, rows))
        return np.concatenate(made)

    def _piece(
        self, key: tuple[str, bytes], compute: Callable[[Any], npt.NDArray[Any]], rows: npt.NDArray[Any]
    ) -> npt.NDArray[Any]:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                self.hits += 1
                return self._kept[key]
        piece = compute(rows)
        with self._lock:
            if key not in self._kept and piece.nbytes <= self.max_bytes:
                self._kept[key] = piece
                self._bytes += piece.nbytes
                while self._bytes > self.max_bytes:
                    self._bytes -= self._kept.popitem(last=False)[1].nbytes
        return piece


# What nothing public may be fitted on (representations, ballot spaces, students), recognised by its type.

#: Types of this package that hold private things, or rows beside the public ones. By name: some are in higher layers.
_REFUSED = {
    "BallotSum": "the sum of private ballots",
    "CappedVotes": "votes of private records",
    "Dataset": "private and public rows together",
    "HeldOutRows": "rows to measure on",
    "HeldRecords": "directions of private records",
    "Partition": "the cut of the private rows",
    "PrivateRows": "the private rows",
    "ReadRows": "private rows",
    "Sensitive": "a private value",
    "SensitiveResult": "private results",
    "Votes": "votes of teachers of private rows",
}


def private_kind(X: Any) -> str | None:
    """Return the name of the private type that ``X`` is of, or something in a list or dict is; None: it is of none."""
    kinds = {type(X)} | (set(map(type, X)) if isinstance(X, list | tuple) else set())
    if isinstance(X, dict):
        kinds |= set(map(type, X.values()))
    for kind in kinds:
        for base in kind.__mro__:
            if base.__name__ in _REFUSED and base.__module__.split(".")[0] == "pate":
                return base.__name__
    return None


def refuse_private(name: str, X: Any) -> None:
    """Refuse what is private by its type, alone or in a list: a representation is fitted on public rows only.

    Arrays carry no type of their own: who passes private ones has broken the rule where no code can see it.
    """
    found = private_kind(X)
    if found is not None:
        raise SensitiveValueError(
            f"{name} must be public rows, got a {found}: {_REFUSED[found]}. A representation "
            "is fitted on public rows only: pass those, such as data.public.X."
        )


#: Rows that go through a map at once, always this many: behind the last ones stand public rows.
BLOCK = 1024
#: ... of exact maps fewer, in a multiple of this.
_LANES = 8


class Representation(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Abstract base of representations: maps from rows to vectors that are fitted on public rows alone.

    A subclass defines ``_learn``, which fits it on public rows (and sets ``n_features_out_``), ``_map``, which maps one
    block of rows, and ``_arrays`` and ``_numbers``, which return what a file stores.

    Attributes
    ----------
    n_features_in_, n_features_out_ : int
    n_public_ : int
        Public rows it was fitted on.
    provenance_ : str
        One line for the statement: where the representation comes from.
    exact_ : bool
        Whether a row's vector is the same to the last bit wherever the row stands. If not, it may differ in the last
        bits with the row's place in its block, but never with another row: blocks have one size and are padded.

    Notes
    -----
    **Guarantee.** ``fit`` takes public rows only; what is private by its type is refused, but an array does not
    show whether its rows are private. A row's vector depends on that row, its place and the fitted state alone, and is
    finite whatever the row holds: no record moves another's ballot (docs/representations.md).

    Examples
    --------
    >>> issubclass(Representation, TransformerMixin)
    True
    """

    #: What reads rows, and makes blocks of them.
    _reader: ClassVar[Any] = NumberCells
    _block_rows: ClassVar[int] = BLOCK
    #: Settings that change no vector (a device, progress): they are not saved.
    _passing: ClassVar[tuple[str, ...]] = ()
    #: Fitted arrays and numbers that a file holds, beside ``map_``, by their names without the underscore.
    _arrays: ClassVar[tuple[str, ...]] = ()
    _numbers: ClassVar[tuple[str, ...]] = ()
    map_: ExactMap
    exact_: bool = False
    #: Whether mapping rows takes so long that :class:`RowMemory` remembers them.
    slow_: bool = False

    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn the map from **public** rows.

        Parameters
        ----------
        X : array or DataFrame of shape (n_public, n_features)
            Public rows, whose cells are refused by name where they are neither number nor text nor missing.
        y : ignored
            Labels of records have no place here.

        Raises
        ------
        SensitiveValueError
            ``X`` is private by its type.
        InvalidInputError
            A setting is wrong, or the rows cannot be read.
        """
        refuse_private("X_public", X)
        note("representation", representation=self, rows=X)
        self._check()
        self.cells_ = self._reader.learn(X)
        rows = self.cells_.read(X)
        self.n_public_ = int(rows.shape[0])
        self._learn(rows)
        self.provenance_ = self._provenance()
        self._named()
        return self

    def transform(self, X: Any) -> npt.NDArray[Any]:
        """Map any rows, public or private, each by itself.

        Parameters
        ----------
        X : array or DataFrame of shape (n, n_features)
            Rows with the same columns as the public rows. A missing or unreadable cell is replaced by a value that
            public rows gave.

        Returns
        -------
        float64 or float32 array of shape (n, n_features_out_)
            Finite.

        Raises
        ------
        InvalidInputError
            The columns are others: never for what a cell holds.
        """
        return self.vectors(X)

    def vectors(self, X: Any) -> npt.NDArray[Any]:
        """Return what :meth:`transform` does, as an array whatever ``set_output`` or scikit-learn's settings say."""
        check_is_fitted(self, "n_features_out_")
        memory = _ACTIVE.get()
        hashable = type(X) is np.ndarray and X.dtype.kind in "biuf" and len(X) > 0  # cheaply
        return memory.vectors(self, X) if memory is not None and self.slow_ and hashable else self._vectors(X)

    def _disposable(self) -> Representation:
        """Return what is shown rows: where code of the user's may keep some of them, a copy that is thrown away."""
        return self if type(self).__module__.startswith("pate.") else copy.deepcopy(self)

    def _vectors(self, X: Any) -> npt.NDArray[Any]:
        return self._disposable()._in_blocks(X)

    def _in_blocks(self, X: Any) -> npt.NDArray[Any]:
        rows = self.cells_.read(X)
        n, size = int(rows.shape[0]), self._block_rows
        made: npt.NDArray[Any] | None = None
        for start in range(0, n, size):
            # Where sums are exact, the shape shows in no bit: few rows need not wait for a whole block of others.
            there = min(size, -(-(n - start) // _LANES) * _LANES) if self.exact_ else size
            part = quietly("X", self._mapped, rows, start, there)
            if made is None:
                made = np.empty((n, self.n_features_out_), dtype=part.dtype)
            made[start : start + size] = part[: n - start]
        return np.empty((0, self.n_features_out_)) if made is None else made

    def fingerprint(self) -> str:
        """Return a SHA-256 digest of the settings and of all that was fitted: public, 64 hexadecimal digits."""
        check_is_fitted(self, "n_features_out_")
        return digest_of(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a safetensors file, whole or not at all; :func:`pate.representations.load` reads it."""
        check_is_fitted(self, "n_features_out_")
        arrays, described = packed(self, keep=True)
        head = {
            "format": FORMAT,
            "fingerprint": digest_of(self),
            "checksum": digest(arrays, described),
            "representation": described,
        }
        data = as_safetensors(arrays, {KEY: json.dumps(head, sort_keys=True, allow_nan=False)})
        with writing("path", path):
            write_bytes(path, data)

    def _mapped(self, rows: Any, start: int, size: int) -> npt.NDArray[Any]:
        return self._map(self.cells_.block(rows, start, size))

    def _check(self) -> None:
        """Refuse wrong settings."""

    @abstractmethod
    def _learn(self, rows: Any) -> None:
        """Learn from public rows as the reader gives them, and set ``n_features_out_``."""

    @abstractmethod
    def _map(self, block: Any) -> npt.NDArray[Any]:
        """Return the vectors of one block, finite, as many rows as it has."""

    def _state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return what was fitted: arrays by name, and what goes into JSON."""
        arrays = {name: getattr(self, f"{name}_") for name in self._arrays}
        made = self.map_.state("map") if hasattr(self, "map_") else {}
        return arrays | made, {name: getattr(self, f"{name}_") for name in self._numbers}

    def _sealed(self) -> dict[str, npt.NDArray[Any]]:
        """Return what a file needs besides, and no digest of what was fitted covers."""
        return {}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> None:
        """Take back what ``_state`` gave; any error means a damaged file."""
        for name in self._arrays:
            setattr(self, f"{name}_", arrays[name])
        for name in self._numbers:
            setattr(self, f"{name}_", float(words[name]))
        if any(name.startswith("map.") for name in arrays):
            self.map_ = ExactMap.restore("map", arrays)
        if not self._fits():
            raise ValueError("arrays of another shape")

    def _fits(self) -> bool:
        """Whether what a file gave is of one shape throughout."""
        return True

    def _parts(self) -> tuple[Representation, ...]:
        """Return the fitted representations it is made of."""
        return ()

    def _settings(self) -> dict[str, Any]:
        """Return the parameters that a file stores."""
        kept = {k: v for k, v in self.get_params(deep=False).items() if k not in self._passing}
        return {k: v.item() if isinstance(v, np.generic) else v for k, v in kept.items()}

    def _given(self) -> str:
        """Return a digest of what a person gave that is no setting (a module's weights), for the cache."""
        return ""

    def _modules(self) -> list[Any]:
        """Return the architectures that a file cannot store, in order."""
        return [module for part in getattr(self, "parts", ()) for module in part._modules()]

    @classmethod
    def _empty(cls, settings: dict[str, Any], parts: tuple[Representation, ...], modules: list[Any]) -> Any:
        """Return an unfitted one of the settings in a file; takes its architectures off the front of ``modules``."""
        if parts or set(settings) != set(cls._get_param_names()) - set(cls._passing):
            raise ValueError("other settings")
        rep = cls(**settings)
        rep._check()
        return rep

    def _provenance(self) -> str:
        return f"{type(self).__name__} fitted on {self.n_public_:,} public rows"

    def _named(self) -> None:
        """Set what scikit-learn calls the number and names of columns."""
        self.n_features_in_ = self.cells_.n_features
        names = getattr(self.cells_, "names", None)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    @property
    def _n_features_out(self) -> int:
        return self.n_features_out_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.requires_fit = True
        return tags


def check_representation(name: str, value: Any) -> Representation:
    """Return a representation, fitted or not; a scikit-learn transformer is one through ``FromTransformer``."""
    if not isinstance(value, Representation):
        raise InvalidInputError(
            f"{name} must be a representation, got {shown(value)}. Wrap a transformer in FromTransformer, a torch "
            "module in FromModule."
        )
    return value


# What a fitted representation is made of: arrays, and a description for JSON; and its digest over both.

FORMAT = 2
KEY = "pate.representation"
#: Where classes that a file may name live, by the prefix of their name.
HOMES = {"": "pate.representations", "images.": "pate.representations.images"}


def stored_name(rep: Any, *, strict: bool = True) -> str:
    """Return the name by which a file knows a class; where not ``strict``, that of any other class too."""
    name = type(rep).__name__
    for prefix, home in HOMES.items():
        inside = type(rep).__module__ == home or type(rep).__module__.startswith(f"{home}.")
        if inside and getattr(import_module(home), name, None) is type(rep):
            return prefix + name
    if not strict:
        return f"{type(rep).__module__}:{type(rep).__qualname__}"
    raise InvalidInputError(
        f"{name} is no class of this package, and cannot be saved in a file that anyone can read back. Wrap what it "
        "does in FromTransformer or FromModule."
    )


def packed(rep: Any, *, keep: bool = False) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Return all arrays of a fitted representation, its parts' included, and its description for JSON.

    ``keep`` adds what a file needs beyond: bytes that differ from one writing to the next, which no digest of what was
    fitted may cover. What cannot be saved is then refused.
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
        "class": stored_name(rep, strict=keep),
        "settings": rep._settings(),
        "cells": reader_words,
        "words": words,
        "n_public": rep.n_public_,
        "n_features_out": rep.n_features_out_,
        "provenance": rep.provenance_,
        "parts": parts,
    }
    return {k: plain(k, v) for k, v in made.items()}, described


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
