"""Finished teachers on disk: whole or absent, found again only by the very configuration and data that made them.

Two things stand between a file and this process:

1. The seal before it is an HMAC whose key is derived from the teacher's whole recipe, its private shard included.
   Anyone who can write into the folder but does not hold the private data cannot make a file that passes, and a
   truncated one fails. Nothing is parsed before the seal fits.
2. What is read back is data: types that are trusted by name (:data:`TRUSTED_TYPES`), or plain arrays. No pickle is
   ever read.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import os
import pickle
import types
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sklearn

from pate._core.estimators import HARMLESS, pack_estimator, unpack_estimator
from pate._core.files import own_folder, read_json, write_bytes, write_json, write_text
from pate._core.secret import stored_secret
from pate._core.tensors import as_safetensors, parsing, plain
from pate.exceptions import InvalidInputError, PateError, RunFolderError
from pate.teachers._usable import is_frame, is_sparse

# What a teacher is made of, as a digest: the key under which it is kept, and found again. Everything that goes in is
# written with its length before it, so that no two recipes read the same.

_KEY_FORMAT = 3
#: Kinds of array whose bytes are their values. Texts are not: their width depends on rows of other shards.
_PLAIN_KINDS = "biufcmM"
#: Cells whose repr says all about them.
_PLAIN_CELLS = {type(None), bool, int, float, str}


def recipe_key(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    partition: str,
    index: int,
    versions: str | None = None,
) -> bytes:
    """Return a digest over everything that decides how one teacher comes out: 32 bytes, **private** as the shard is.

    ``estimator`` has the teacher's own seeds set; ``partition`` is the partition's fingerprint; ``versions`` are those
    of the software that trains, None for scikit-learn's and NumPy's. Rows of other shards do not matter: replacing a
    record elsewhere keeps this teacher.
    """
    if versions is None:
        versions = f"sklearn={sklearn.__version__} numpy={np.__version__}"
    digest = hashlib.sha256()
    for text in (f"format {_KEY_FORMAT}", versions, partition, str(index), describe(estimator)):
        _add(digest, text)
    _add_rows(digest, X)
    _add_rows(digest, y)
    return digest.digest()


def describe(value: Any) -> str:
    """Return a text that is the same for equal configurations, in every process; refuse what has no such text.

    A class is known by its name alone; a Python function by its name, code, defaults and what it closes over, not by
    the functions it calls.
    """
    try:
        return _describe(value)
    except RecursionError:
        raise _unknown(value) from None


def _describe(value: Any) -> str:
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value)
    if isinstance(value, np.generic):
        return f"{value.dtype.str}:{value.item()!r}"
    if isinstance(value, np.ndarray):
        return f"array:{_rows_digest(value)}"
    if isinstance(value, dict):
        return f"{{{', '.join(sorted(f'{_describe(k)}: {_describe(v)}' for k, v in value.items()))}}}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}[{', '.join(map(_describe, value))}]"
    if isinstance(value, set | frozenset):
        return f"set[{', '.join(sorted(map(_describe, value)))}]"
    if isinstance(value, partial):
        return f"partial[{_describe(value.func)}, {_describe(value.args)}, {_describe(value.keywords)}]"
    if isinstance(value, types.FunctionType):
        return f"{value.__module__}.{value.__qualname__}:{_function_digest(value)}"
    if isinstance(value, types.MethodType):
        return f"method[{_describe(value.__func__)}, {_describe(value.__self__)}]"
    if isinstance(value, type | types.BuiltinFunctionType | np.ufunc):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}"
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if is_frame(value) or is_sparse(value) or hasattr(value, "__array__"):
        # Tensors, Series: their values are not among their attributes.
        return f"{kind}:{_rows_digest(value)}"
    if hasattr(value, "__dict__"):
        # All attributes, not the parameters only: a part that was fitted on public data counts as it is.
        fields = (f"{name}: {_describe(field)}" for name, field in sorted(vars(value).items()))
        return f"{kind}{{{', '.join(fields)}}}"
    buffer = io.BytesIO()
    try:
        pickle.dump(value, buffer, protocol=4)  # written to be hashed, never read
    except Exception:
        raise _unknown(value) from None
    return f"{kind}:{hashlib.sha256(buffer.getvalue()).hexdigest()}"


def _unknown(value: Any) -> InvalidInputError:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    return InvalidInputError(
        f"checkpoint_dir cannot recognise a parameter of type {kind} again. Use checkpoint_dir=None."
    )


def _function_digest(function: types.FunctionType) -> str:
    # Names alone would take one lambda for another, and a function for its edited self.
    digest = hashlib.sha256()
    _add_code(digest, function.__code__)
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    _add(digest, _describe([function.__defaults__, function.__kwdefaults__, cells]))
    return digest.hexdigest()


def _add_code(digest: Any, code: types.CodeType) -> None:
    _add(digest, code.co_code)
    counts = [code.co_argcount, code.co_kwonlyargcount, code.co_flags & 0x3FF]  # flags beyond are of the whole file
    _add(digest, _describe([code.co_names, code.co_varnames, code.co_freevars, counts]))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _add_code(digest, constant)
        else:
            _add(digest, "..." if constant is ... else _describe(constant))


def _add(digest: Any, part: str | bytes | memoryview) -> None:
    """Add one part with its length before it."""
    data = memoryview(part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part)
    digest.update(data.nbytes.to_bytes(8, "little"))
    digest.update(data)


def _rows_digest(X: Any) -> str:
    digest = hashlib.sha256()
    _add_rows(digest, X)
    return digest.hexdigest()


def _add_rows(digest: Any, X: Any) -> None:
    if is_frame(X):
        _add(digest, f"frame {X.shape}")
        for j, column in enumerate(X.columns):
            _add(digest, repr(column))
            _add_column(digest, X.iloc[:, j])
    elif is_sparse(X):
        rows = X.tocsr()
        _add(digest, "sparse")
        for array in (np.asarray(rows.shape), rows.indptr, rows.indices, rows.data):
            _add_array(digest, array)
    elif isinstance(X, list | tuple):
        _add(digest, f"list {len(X)}")
        _add_cells(digest, X)
    elif hasattr(X, "dtype") and hasattr(X, "iloc"):  # a pandas Series
        _add(digest, f"column {X.shape} {X.name!r}")
        _add_column(digest, X)
    elif hasattr(X, "__array__"):
        try:
            array = np.asarray(X)
        except Exception:
            raise _unknown(X) from None
        _add_array(digest, array)
    else:
        raise InvalidInputError(
            f"checkpoint_dir cannot recognise rows of type {type(X).__qualname__} again. Pass an array, a DataFrame, "
            "a sparse matrix or a list, or use checkpoint_dir=None."
        )


def _add_column(digest: Any, values: Any) -> None:
    categories = getattr(values.dtype, "categories", None)
    _add(digest, str(values.dtype))
    if categories is not None:  # the text of the type leaves out what is beyond a screenful
        _add(digest, f"ordered {values.dtype.ordered} of {len(categories)}")
        _add_cells(digest, categories.tolist())
    array = values.to_numpy()
    if array.dtype.kind in _PLAIN_KINDS:
        _add_array(digest, array)
    else:
        _add_cells(digest, values.tolist())


def _add_array(digest: Any, array: npt.NDArray[Any]) -> None:
    if array.dtype.kind in _PLAIN_KINDS:
        _add(digest, f"array {array.dtype.str} {array.shape}")
        _add(digest, np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    else:
        _add(digest, f"array {array.dtype.kind} {array.shape}")
        _add_cells(digest, array.reshape(-1).tolist())


def _add_cells(digest: Any, values: Iterable[Any]) -> None:
    cells = list(values)
    if all(type(cell) in _PLAIN_CELLS for cell in cells):
        _add(digest, "cells" + repr(cells))
        return
    _add(digest, f"mixed cells {len(cells)}")
    for cell in cells:
        # repr would leave out the middle of a long array.
        _add(digest, describe(cell))


# The seal before every stored teacher, checked before anything is parsed; the error of a file that fails it.

_SEAL_BYTES = 32


class DamagedCheckpointError(PateError, ValueError):
    """A stored teacher is truncated, altered, or of types that are not trusted."""


def seal(data: bytes, key: bytes) -> bytes:
    """Return the HMAC-SHA256 of ``data``, 32 bytes; its secret is derived from a teacher's private recipe."""
    secret = hashlib.sha256(b"pate checkpoint seal\0" + key).digest()
    return hmac.digest(secret, data, hashlib.sha256)


def sealed(data: bytes, key: bytes) -> bytes:
    """Return ``data`` behind its seal."""
    return seal(data, key) + data


def opened(packed: bytes, key: bytes) -> bytes:
    """Return the bytes behind a seal that fits.

    Raises
    ------
    DamagedCheckpointError
    """
    found, data = packed[:_SEAL_BYTES], packed[_SEAL_BYTES:]
    if not hmac.compare_digest(found, seal(data, key)):
        raise DamagedCheckpointError("the seal does not fit")
    return data


# scikit-learn teachers as bytes: a skops file (no pickle) behind a seal.

#: Fitted state of scikit-learn's own classifiers and transformers beside what is harmless to everybody: data holders
#: and pure functions only, each by its full name.
TRUSTED_TYPES: tuple[str, ...] = (
    *HARMLESS,
    "pate.teachers._shards.OwnClasses",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace",
    "sklearn.gaussian_process.kernels.ConstantKernel",
    "sklearn.gaussian_process.kernels.DotProduct",
    "sklearn.gaussian_process.kernels.Matern",
    "sklearn.gaussian_process.kernels.Product",
    "sklearn.gaussian_process.kernels.RBF",
    "sklearn.gaussian_process.kernels.RationalQuadratic",
    "sklearn.gaussian_process.kernels.Sum",
    "sklearn.gaussian_process.kernels.WhiteKernel",
    "sklearn.impute._iterative.IterativeImputer",
    "sklearn.impute._iterative._ImputerTriplet",
    "sklearn.metrics._classification.accuracy_score",
    "sklearn.metrics._dist_metrics.ChebyshevDistance64",
    "sklearn.metrics._dist_metrics.EuclideanDistance32",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.metrics._dist_metrics.ManhattanDistance64",
    "sklearn.metrics._dist_metrics.MinkowskiDistance64",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.metrics._scorer._Scorer",
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.model_selection._split.StratifiedShuffleSplit",
    "sklearn.neighbors._ball_tree.BallTree",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.tree._tree.Tree",
)


def pack(model: Any, key: bytes) -> bytes:
    """Return a fitted teacher as sealed bytes; refuse what could not be read back safely."""
    data = pack_estimator(
        model,
        trusted=TRUSTED_TYPES,
        refusal=f"checkpoint_dir cannot keep {type(model).__name__}",
        remedy="Use checkpoint_dir=None, or an estimator made of scikit-learn's own parts.",
    )
    return sealed(data, key)


def unpack(packed: bytes, key: bytes) -> Any:
    """Return the teacher in sealed bytes; the seal is checked before anything is parsed."""
    data = opened(packed, key)
    try:
        return unpack_estimator(data, trusted=TRUSTED_TYPES)
    except Exception as error:  # any way in which a parser may fail means the same thing here
        raise DamagedCheckpointError(f"skops refuses it ({type(error).__name__})") from None


# Weights of a network as bytes: a safetensors file behind a seal.


def pack_weights(arrays: Mapping[str, npt.NDArray[Any]], key: bytes) -> bytes:
    """Return weights (truth values, whole numbers or floats of 16 to 64 bits) as a sealed safetensors file."""
    return sealed(as_safetensors(arrays), key)


def unpack_weights(packed: bytes, key: bytes) -> dict[str, npt.NDArray[Any]]:
    """Return the weights in a sealed file, sorted by name; the seal is checked before anything is parsed."""
    from safetensors.numpy import load

    data = opened(packed, key)
    try:
        with parsing():
            weights = {name: plain(name, array) for name, array in sorted(load(data).items())}
    except Exception as error:  # any way in which a parser may fail means the same thing here
        raise DamagedCheckpointError(f"not a safetensors file ({type(error).__name__})") from None
    return {name: array if array.flags.writeable else array.copy() for name, array in weights.items()}


_FORMAT = 2

_README = """\
Teachers of a PATE ensemble, each trained on one shard of PRIVATE data.

Everything in this folder is sensitive: a model can give away the records it was trained on, and no privacy guarantee
covers it. Keep the folder to yourself, and delete it when the run is over. Files of an earlier configuration are never
picked up again, nor deleted. A file that ends in .failed says why a teacher could not be trained; delete it to have
that teacher tried again, with more memory for example.
"""


#: What a store keeps, by the end of its files' names: fitted scikit-learn classifiers; weights, arrays by name.
SKOPS, WEIGHTS = ".skops", ".safetensors"
_UNPACK: dict[str, Callable[[bytes, bytes], Any]] = {SKOPS: unpack, WEIGHTS: unpack_weights}


class CheckpointStore:
    """The folder that keeps finished teachers: made for its owner only (mode 0700), every file 0600."""

    def __init__(self, folder: str | os.PathLike[str], *, codec: str = SKOPS) -> None:
        self.folder = own_folder("checkpoint_dir", folder, _README, otherwise=", or None to keep no teachers")
        self.codec = codec

    def __repr__(self) -> str:
        return f"CheckpointStore({os.fspath(self.folder)!r})"

    def seed(self, fresh: int) -> int:
        """Return the training seed drawn for this folder, keeping ``fresh`` if there is none yet.

        A run without ``random_state`` that was killed must train the same teachers when it goes on. Where the manifest
        cannot be read, ``fresh`` replaces it, and a DamagedCheckpointError says so.
        """
        manifest = self.folder / "manifest.json"
        damaged = manifest.exists()
        with suppress(RunFolderError):
            seed = read_json(manifest).get("seed")
            if isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0:
                return seed
        write_json(manifest, {"format": _FORMAT, "seed": fresh}, mode=0o600)
        if damaged:
            raise DamagedCheckpointError("the manifest could not be read")
        return fresh

    def secret(self) -> bytes:
        """Return the secret by which this folder's shards are cut, drawn when there is none yet.

        One that cannot be read is removed, so that the next call draws a new one.
        """
        file = self.folder / "shards.key"
        try:
            return stored_secret(file)
        except InvalidInputError:
            file.unlink(missing_ok=True)
            raise DamagedCheckpointError("the secret of the shards could not be read") from None

    def path(self, index: int, key: bytes) -> Path:
        """Return where the teacher made by the recipe ``key`` is kept."""
        # Not the key itself: the name must not give away what the seal is made with.
        name = hashlib.sha256(b"pate checkpoint name\0" + key).hexdigest()[:32]
        return self.folder / f"teacher-{index:05d}-{name}{self.codec}"

    def save(self, index: int, key: bytes, packed: bytes) -> None:
        """Write a teacher packed by the codec, atomically."""
        write_bytes(self.path(index, key), packed, mode=0o600)

    def save_failure(self, index: int, key: bytes, why: str) -> None:
        """Write down that the teacher made by the recipe ``key`` failed: it is not tried again."""
        path = self.path(index, key).with_suffix(".failed")
        write_text(path, f"{_failure_seal(key, why)} {why}", mode=0o600)

    def failure(self, index: int, key: bytes) -> str | None:
        """Return why the teacher made by the recipe ``key`` failed, or None: it did not, or that is unknown."""
        try:
            found, _, why = self.path(index, key).with_suffix(".failed").read_text(encoding="utf-8").partition(" ")
        except (OSError, ValueError):
            return None
        return why if hmac.compare_digest(found.encode(), _failure_seal(key, why).encode()) else None

    def load(self, index: int, key: bytes) -> Any | None:
        """Return the teacher made by the recipe ``key``, None when it is not there; refuse one not to be trusted."""
        try:
            packed = self.path(index, key).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DamagedCheckpointError("the file cannot be read") from error
        return _UNPACK[self.codec](packed, key)


def _failure_seal(key: bytes, why: str) -> str:
    return seal(b"failed\0" + why.encode("utf-8", "surrogatepass"), key).hex()
