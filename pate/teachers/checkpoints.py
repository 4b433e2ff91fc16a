"""Finished teachers on disk: whole or absent, found again only by the very configuration and data that made them.

Two things stand between a file and this process:

1. The seal before it is an HMAC whose key is derived from the teacher's whole recipe, its private shard included.
   Whoever can write into the folder but does not hold the private data cannot make a file that passes, and a truncated
   one fails. Nothing is parsed before the seal fits.
2. What is read back is data: types that are trusted by name (:mod:`pate.teachers.checkpoints`), or plain arrays
   (:mod:`pate.teachers.checkpoints`). No pickle is ever read.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.files import atomic_path, write_json, write_text
from pate.core.secret import kept_secret
from pate.core.tensors import HARMLESS, pack_estimator, unpack_estimator
from pate.exceptions import InvalidInputError, PateError
from pate.teachers._keys import describe, recipe_key

__all__ = [
    "SKOPS",
    "TRUSTED_TYPES",
    "WEIGHTS",
    "CheckpointStore",
    "Codec",
    "DamagedCheckpointError",
    "describe",
    "pack",
    "pack_weights",
    "recipe_key",
    "unpack",
    "unpack_weights",
]


# The seal before every stored teacher, checked before anything is parsed; the error of a file that fails it.

_SEAL_BYTES = 32


class DamagedCheckpointError(PateError, ValueError):
    """A stored teacher is truncated, altered, or of types that are not trusted."""


#: Under the name by which it is caught.
DamagedCheckpointError.__module__ = "pate.teachers.checkpoints"


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

_METADATA = "__metadata__"
#: Types that both numpy and every safetensors library know.
_DTYPES = frozenset(
    ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
)


def pack_weights(arrays: Mapping[str, npt.NDArray[Any]], key: bytes) -> bytes:
    """Return weights (truth values, whole numbers or floats of 16 to 64 bits) as a sealed safetensors file."""
    from safetensors.numpy import save  # only those who keep checkpoints need it

    return sealed(save({name: _plain(name, array) for name, array in arrays.items()}), key)


def unpack_weights(packed: bytes, key: bytes) -> dict[str, npt.NDArray[Any]]:
    """Return the weights in a sealed file, sorted by name; the seal is checked before anything is parsed."""
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


_FORMAT = 2

_README = """\
Teachers of a PATE ensemble, each trained on one shard of PRIVATE data.

Everything in this folder is sensitive: a model can give away the records it was trained on, and no privacy guarantee
covers it. Keep the folder to yourself, and delete it when the run is over. Files of an earlier configuration are never
picked up again, nor deleted. A file that ends in .failed says why a teacher could not be trained; delete it to have
that teacher tried again, with more memory for example.
"""


@dataclass(frozen=True)
class Codec:
    """How teachers of one kind become sealed bytes, and come back; ``unpack`` raises DamagedCheckpointError alone."""

    suffix: str
    pack: Callable[[Any, bytes], bytes]
    unpack: Callable[[bytes, bytes], Any]


#: Fitted scikit-learn classifiers.
SKOPS = Codec(".skops", pack, unpack)
#: Weights of networks: dicts of arrays by name.
WEIGHTS = Codec(".safetensors", pack_weights, unpack_weights)


class CheckpointStore:
    """The folder that keeps finished teachers: made for its owner only (mode 0700), every file 0600."""

    def __init__(self, folder: str | os.PathLike[str], *, codec: Codec = SKOPS) -> None:
        self.folder = Path(folder)
        self.codec = codec
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not (self.folder / "README.txt").exists():
                write_text(self.folder / "README.txt", _README, mode=0o600)
        except OSError as error:
            raise InvalidInputError(
                f"checkpoint_dir must be a folder that can be written to, got {os.fspath(folder)!r} "
                f"({error.strerror}). Name another, or None to keep no teachers."
            ) from error

    def __repr__(self) -> str:
        return f"CheckpointStore({os.fspath(self.folder)!r})"

    def seed(self, fresh: int) -> int:
        """Return the training seed drawn for this folder, keeping ``fresh`` if there is none yet.

        A run without ``random_state`` that was killed must train the same teachers when it goes on. Where the manifest
        cannot be read, ``fresh`` replaces it, and a DamagedCheckpointError says so.
        """
        manifest = self.folder / "manifest.json"
        damaged = False
        if manifest.exists():
            try:
                seed = json.loads(manifest.read_text(encoding="utf-8"))["seed"]
                if isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0:
                    return seed
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                pass
            damaged = True
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
            return kept_secret(file)
        except InvalidInputError:
            file.unlink(missing_ok=True)
            raise DamagedCheckpointError("the secret of the shards could not be read") from None

    def path(self, index: int, key: bytes) -> Path:
        """Return where the teacher made by the recipe ``key`` is kept."""
        # Not the key itself: the name must not give away what the seal is made with.
        name = hashlib.sha256(b"pate checkpoint name\0" + key).hexdigest()[:32]
        return self.folder / f"teacher-{index:05d}-{name}{self.codec.suffix}"

    def save(self, index: int, key: bytes, packed: bytes) -> None:
        """Write a teacher packed by the codec, atomically."""
        with atomic_path(self.path(index, key), mode=0o600) as part:
            part.write_bytes(packed)

    def save_failure(self, index: int, key: bytes, why: str) -> None:
        """Write down that the teacher made by the recipe ``key`` failed: it is not tried again."""
        path = self.path(index, key).with_suffix(".failed")
        write_text(path, f"{_failure_seal(key, why)} {why}", mode=0o600)

    def failure(self, index: int, key: bytes) -> str | None:
        """Return why the teacher made by the recipe ``key`` failed, or None: it did not, or nobody knows."""
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
        return self.codec.unpack(packed, key)


def _failure_seal(key: bytes, why: str) -> str:
    return seal(b"failed\0" + why.encode("utf-8", "surrogatepass"), key).hex()
