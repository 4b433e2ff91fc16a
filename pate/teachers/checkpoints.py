"""Finished teachers on disk: whole or absent, found again only by the very configuration and data that made them.

A checkpoint is a skops file (no pickle) behind a 32-byte seal. Two things stand between a file and this process:

1. The seal is an HMAC whose key is derived from the teacher's whole recipe, its private shard included. Whoever can
   write into the folder but does not hold the private data cannot make a file that is even parsed, and a truncated
   file fails here.
2. skops builds only the types it deems safe and the ones named in :data:`TRUSTED_TYPES`, one by one. A prefix such as
   ``numpy.`` would not do: functions are types to skops, and ``numpy.testing`` has one that runs source code.

The fitted trees of scikit-learn are in the list although skops leaves them out (indices in a crafted tree are followed
unchecked, and can crash the process): only files that pass the seal come that far.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import os
import pickle
import types
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sklearn

from pate._files import atomic_path, write_json, write_text
from pate.exceptions import InvalidInputError, PateError
from pate.teachers._rows import is_frame, is_sparse

_FORMAT = 2
_SEAL_BYTES = 32

_README = """\
Teachers of a PATE ensemble, each trained on one shard of PRIVATE data.

Everything in this folder is sensitive: a model can give away the records it was trained on, and no privacy guarantee
covers it. Keep the folder to yourself, and delete it when the run is over. Files of an earlier configuration are never
picked up again, nor deleted.
"""

#: Fitted state of scikit-learn's own classifiers and transformers that skops does not trust by itself: data holders
#: and pure functions only, each by its full name.
TRUSTED_TYPES: tuple[str, ...] = (
    "numpy.dtype",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.feature_selection._univariate_selection.chi2",
    "sklearn.feature_selection._univariate_selection.f_classif",
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
    "sklearn.utils._bunch.Bunch",
)


class DamagedCheckpointError(PateError, ValueError):
    """A stored teacher is truncated, altered, or of types that are not trusted.

    Examples
    --------
    >>> issubclass(DamagedCheckpointError, ValueError)
    True
    """


class CheckpointStore:
    """The folder that keeps finished teachers.

    Parameters
    ----------
    folder : path
        Made, when absent, for its owner only (mode 0700); every file is 0600.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sklearn.naive_bayes import GaussianNB
    >>> store = CheckpointStore(pathlib.Path(tempfile.mkdtemp()) / "teachers")
    >>> X, y = np.array([[0.0], [1.0]]), np.array([0, 1])
    >>> key = recipe_key(GaussianNB(), X, y, partition="p", index=3)
    >>> store.save(3, key, pack(GaussianNB().fit(X, y), key))
    >>> store.load(3, key).predict([[0.9]])
    array([1])
    >>> store.load(3, recipe_key(GaussianNB(), X, 1 - y, partition="p", index=3)) is None
    True
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
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
        """Return the seed drawn for this folder, keeping ``fresh`` if there is none yet.

        A run without ``random_state`` that was killed must cut the same shards when it goes on.

        Raises
        ------
        DamagedCheckpointError
            The manifest is there but not readable; ``fresh`` has replaced it.

        Examples
        --------
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> CheckpointStore(folder).seed(7), CheckpointStore(folder).seed(8)
        (7, 7)
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

    def path(self, index: int, key: bytes) -> Path:
        """Return where the teacher made by the recipe ``key`` is kept.

        Examples
        --------
        >>> import tempfile
        >>> CheckpointStore(tempfile.mkdtemp()).path(3, b"key").name
        'teacher-00003-....skops'
        """
        # Not the key itself: the name must not give away what the seal is made with.
        name = hashlib.sha256(b"pate checkpoint name\0" + key).hexdigest()[:32]
        return self.folder / f"teacher-{index:05d}-{name}.skops"

    def save(self, index: int, key: bytes, packed: bytes) -> None:
        """Write a teacher packed by :func:`pack`, atomically.

        Examples
        --------
        >>> import tempfile
        >>> store = CheckpointStore(tempfile.mkdtemp())
        >>> store.save(0, b"key", b"...")
        >>> store.path(0, b"key").stat().st_mode & 0o777 == 0o600
        True
        """
        with atomic_path(self.path(index, key), mode=0o600) as part:
            part.write_bytes(packed)

    def load(self, index: int, key: bytes) -> Any | None:
        """Return the teacher made by the recipe ``key``, or None when it is not there.

        Raises
        ------
        DamagedCheckpointError
            The file is there but cannot be trusted.

        Examples
        --------
        >>> import tempfile
        >>> store = CheckpointStore(tempfile.mkdtemp())
        >>> store.save(0, b"key", b"not a teacher")
        >>> store.load(0, b"key")
        Traceback (most recent call last):
        pate.teachers.checkpoints.DamagedCheckpointError: the seal does not fit
        """
        try:
            packed = self.path(index, key).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DamagedCheckpointError("the file cannot be read") from error
        return unpack(packed, key)


def pack(model: Any, key: bytes) -> bytes:
    """Return a fitted teacher as sealed bytes.

    Raises
    ------
    InvalidInputError
        The teacher holds something that could not be read back safely.

    Examples
    --------
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> pack(FunctionTransformer(lambda x: x), b"key")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: checkpoint_dir cannot keep FunctionTransformer: ... Use checkpoint_dir=None, ...
    """
    import skops.io as sio  # slow to import, and only those who keep checkpoints need it

    name = type(model).__name__
    remedy = "Use checkpoint_dir=None, or an estimator made of scikit-learn's own parts."
    try:
        data = sio.dumps(model)
        unknown = sorted(set(sio.get_untrusted_types(data=data)) - set(TRUSTED_TYPES))
    except Exception as error:
        # Not chained and not quoted: a fitted part's text may show private values.
        raise InvalidInputError(
            f"checkpoint_dir cannot keep {name}: skops cannot store it ({type(error).__name__}). {remedy}"
        ) from None
    if unknown:
        raise InvalidInputError(
            f"checkpoint_dir cannot keep {name}: {', '.join(unknown)} is not among the types that are safe to read "
            f"back. {remedy}"
        )
    return _seal(data, key) + data


def unpack(packed: bytes, key: bytes) -> Any:
    """Return the teacher in sealed bytes; the seal is checked before anything is parsed.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> unpack(pack(GaussianNB(), b"key"), b"key")
    GaussianNB()
    >>> unpack(pack(GaussianNB(), b"key"), b"another key")
    Traceback (most recent call last):
    pate.teachers.checkpoints.DamagedCheckpointError: the seal does not fit
    """
    import skops.io as sio

    seal, data = packed[:_SEAL_BYTES], packed[_SEAL_BYTES:]
    if not hmac.compare_digest(seal, _seal(data, key)):
        raise DamagedCheckpointError("the seal does not fit")
    try:
        return sio.loads(data, trusted=list(TRUSTED_TYPES))
    except Exception as error:  # any way in which a parser may fail means the same thing here
        raise DamagedCheckpointError(f"skops refuses it ({type(error).__name__})") from None


def _seal(data: bytes, key: bytes) -> bytes:
    secret = hashlib.sha256(b"pate checkpoint seal\0" + key).digest()
    return hmac.new(secret, data, hashlib.sha256).digest()


def recipe_key(estimator: Any, X: Any, y: npt.NDArray[np.int64], *, partition: str, index: int) -> bytes:
    """Return a digest over everything that decides how one teacher comes out.

    Parameters
    ----------
    estimator : unfitted classifier
        With the teacher's own seeds set.
    X : array, DataFrame or sparse matrix of shape (n_shard, n_features)
        The shard's rows. Rows of other shards do not matter: replacing a record elsewhere keeps this teacher.
    y : int64 array of shape (n_shard,)
    partition : str
        The partition's fingerprint.
    index : int
        The shard.

    Returns
    -------
    bytes of length 32
        **Private**: it is made from the shard.

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> X, y = np.eye(2), np.array([0, 1])
    >>> a, b = (recipe_key(SVC(C=c), X, y, partition="p", index=0) for c in (1.0, 2.0))
    >>> len(a), a == b
    (32, False)
    """
    digest = hashlib.sha256()
    versions = f"{_FORMAT} sklearn={sklearn.__version__} numpy={np.__version__}"
    for part in (versions, partition, str(index), describe(estimator)):
        digest.update(hashlib.sha256(part.encode()).digest())
    _digest_rows(digest, X)
    _digest_rows(digest, y)
    return digest.digest()


def _digest_rows(digest: Any, X: Any) -> None:
    if is_frame(X):
        digest.update(f"frame {X.shape}".encode())
        for j, column in enumerate(X.columns):
            values = X.iloc[:, j]
            digest.update(f"{column!r} {values.dtype!r}".encode())
            array = values.to_numpy()
            if array.dtype.kind in "biuf":
                digest.update(np.ascontiguousarray(array).tobytes())
            else:
                digest.update(repr(values.tolist()).encode())
    elif is_sparse(X):
        for array in (np.asarray(X.shape), X.indptr, X.indices, X.data):
            _digest_rows(digest, array)
    else:
        digest.update(f"array {X.dtype.str} {X.shape}".encode())
        digest.update(repr(X.tolist()).encode() if X.dtype.kind == "O" else np.ascontiguousarray(X).tobytes())


def describe(value: Any) -> str:
    """Return a text that is the same for equal configurations, in every process.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> describe(GaussianNB())
    'sklearn.naive_bayes.GaussianNB{priors: None, var_smoothing: 1e-09}'
    """
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value)
    if isinstance(value, np.generic):
        return f"{value.dtype.str}:{value.item()!r}"
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256()
        _digest_rows(digest, value)
        return f"array:{digest.hexdigest()}"
    if isinstance(value, dict):
        return f"{{{', '.join(sorted(f'{describe(k)}: {describe(v)}' for k, v in value.items()))}}}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}[{', '.join(map(describe, value))}]"
    if isinstance(value, set | frozenset):
        return f"set[{', '.join(sorted(map(describe, value)))}]"
    if isinstance(value, partial):
        return f"partial[{describe(value.func)}, {describe(value.args)}, {describe(value.keywords)}]"
    if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType | np.ufunc):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}"
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if hasattr(value, "__dict__"):
        # All attributes, not the parameters only: a part that was fitted on public data counts as it is.
        fields = (f"{name}: {describe(field)}" for name, field in sorted(vars(value).items()))
        return f"{kind}{{{', '.join(fields)}}}"
    buffer = io.BytesIO()
    try:
        pickle.dump(value, buffer, protocol=4)  # written to be hashed, never read
    except Exception:
        raise InvalidInputError(
            f"checkpoint_dir cannot recognise a parameter of type {kind} again. Use checkpoint_dir=None."
        ) from None
    return f"{kind}:{hashlib.sha256(buffer.getvalue()).hexdigest()}"
