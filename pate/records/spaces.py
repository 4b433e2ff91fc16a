"""Ballot spaces: maps from a representation z to a direction phi, |phi| <= 1, fitted on public rows.

The guarantee relies on none of them: :mod:`pate.records.ballot_sum` clips ballots, and certifies it in whole numbers.
A space decides only how informative a ballot is, and it must be fitted on public rows.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from pate._core.checks import check_int, check_real, shown
from pate._core.tensors import load_tensors, save_tensors
from pate._core.types import FloatArray
from pate.data import is_frame
from pate.exceptions import InvalidInputError
from pate.representations import ExactMap, one_sign, private_kind

_FORM = "ballot space 1"


class BallotSpace(TransformerMixin, BaseEstimator):
    """Base class of ballot spaces; a subclass has ``_fit``, ``_phi`` and the names of its fitted arrays."""

    kind: ClassVar[str]
    _arrays: ClassVar[tuple[str, ...]]
    #: A row's phi is the same to the last bit wherever the row stands (:class:`ExactMap`).
    exact_: ClassVar[bool] = True
    n_features_in_: int
    n_components_: int
    bounds_: FloatArray
    _product: ExactMap
    _offsets: FloatArray
    provenance_: str

    def fit(self, X: Any, y: None = None) -> Self:
        """Fit on public rows.

        ``X`` (n_public, p), finite numbers, is the public rows' representation; pate's private types are refused.
        """
        z = _public(X)
        self.n_features_in_ = z.shape[1]
        self.feature_names_in_ = list(X.columns) if is_frame(X) else None
        self.provenance_ = f"{self} fitted on {len(z):,} public rows"
        self._fit(z)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return phi, float64 of shape (n, n_components_); a row that is not finite gives the zero direction.

        Each row's phi is a function of that row alone, to the last bit wherever it stands. Rows are clipped to twice
        the range of the public ones.
        """
        check_is_fitted(self, "n_components_")
        z = np.asarray(X, dtype=np.float64)
        if z.ndim != 2 or z.shape[1] != self.n_features_in_:
            raise InvalidInputError(f"X must have shape (n, {self.n_features_in_}), got {z.shape}.")
        fine = np.asarray(np.isfinite(z).all(axis=1))
        with np.errstate(all="ignore"):
            phi = self._phi(np.where(fine[:, None], z, 0.0))
        fine &= np.isfinite(phi).all(axis=1)
        return np.where(fine[:, None], phi, 0.0)

    def fingerprint(self) -> str:
        """Return a digest of all settings and all that was fitted. Public."""
        check_is_fitted(self, "n_components_")
        digest = hashlib.sha256(f"{_FORM} {type(self).__name__} {json.dumps(self._settings())}".encode())
        for name in self._arrays:
            array = np.ascontiguousarray(getattr(self, name), dtype="<f8")
            digest.update(f"\n{name} {array.shape} ".encode() + array.tobytes())
        return digest.hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted space as safetensors; :func:`load_space` reads it."""
        check_is_fitted(self, "n_components_")
        facts = {
            "space": type(self).__name__,
            "settings": self._settings(),
            "provenance": self.provenance_,
            "n_features_in": self.n_features_in_,
        }
        save_tensors(path, {name: getattr(self, name) for name in self._arrays}, facts, form=_FORM)

    def _settings(self) -> dict[str, Any]:
        return {k: v.item() if isinstance(v, np.generic) else v for k, v in sorted(self.get_params().items())}

    def _fit(self, z: FloatArray) -> None:
        raise NotImplementedError

    def _phi(self, z: FloatArray) -> FloatArray:
        raise NotImplementedError

    def _loaded(self) -> None:
        """Set what follows from the fitted arrays."""
        raise NotImplementedError


def load_space(path: str | os.PathLike[str]) -> BallotSpace:
    """Read a ballot space (the public map that turns rows into ballots) from a file.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "space.safetensors"
    >>> space = HardSpace(n_centres=2, random_state=0).fit(np.eye(4))
    >>> space.save(path)
    >>> load_space(path).fingerprint() == space.fingerprint()
    True
    """
    arrays, facts = load_tensors(path, form=_FORM)
    kinds: dict[str, type[BallotSpace]] = {c.__name__: c for c in (SoftSpace, HardSpace, SignedSpace)}
    try:
        kind = kinds[facts["space"]]
        space = kind(**facts["settings"])
        for name in kind._arrays:
            setattr(space, name, arrays[name].astype(np.float64))
        space.provenance_, space.n_features_in_ = str(facts["provenance"]), int(facts["n_features_in"])
        with np.errstate(all="ignore"):
            space._loaded()
        shape = space.transform(np.zeros((1, space.n_features_in_))).shape
        if shape != (1, space.n_components_) or not np.isfinite(space._offsets).all():
            raise ValueError("arrays of other shapes, or too large")
    except (KeyError, TypeError, IndexError, ValueError):
        raise InvalidInputError(f"path must be a saved ballot space, got {str(path)!r}. Name the saved file.") from None
    return space


@dataclass(repr=False, eq=False)
class SoftSpace(BallotSpace):
    """Soft votes: a row votes for the ``k`` nearest of ``n_centres`` public cluster centres, weighted by nearness.

    The weight of a centre is its similarity minus that of the (k+1)-th nearest, and 0 beyond; rows are then brought to
    norm 1. Similarity is minus the squared distance, in which a row's own length cancels. All weights are >= 0, which
    is why a soft vote costs no more than a hard one (:mod:`pate.records.ballot_sum`).

    Parameters
    ----------
    n_centres : int
        Q, centres by k-means on the public rows.
    k : int
        Below ``n_centres``.
    n_dims : int or None
        Use only the first so many coordinates (the largest ones, of principal components); None: all.
    cosine : bool
        Bring rows to length 1 before anything else.
    n_init : int
        Starts of k-means.
    random_state : int or None
        Seeds k-means.

    Attributes
    ----------
    centres_ : float64 array of shape (n_centres, p)
    bounds_ : float64 array of shape (2, p)
        To which rows are clipped.
    n_components_ : int
        Q.

    Examples
    --------
    >>> z = np.array([[0.0], [0.1], [1.0], [1.1], [5.0], [5.1]])
    >>> phi = SoftSpace(n_centres=3, k=2, random_state=0).fit(z).transform(z)
    >>> np.square(phi).sum(axis=1).round(9).tolist(), bool((phi >= 0).all())
    ([1.0, 1.0, 1.0, 1.0, 1.0, 1.0], True)
    """

    kind = "soft"
    _arrays = ("centres_", "bounds_")
    n_centres: int = 200
    k: int = 10
    _: KW_ONLY
    n_dims: int | None = None
    cosine: bool = False
    n_init: int = 1
    random_state: int | None = None

    def _fit(self, z: FloatArray) -> None:
        from sklearn.cluster import KMeans

        q = check_int("n_centres", self.n_centres, low=2, high=len(z), remedy="There are no more public rows.")
        self._nearest()
        if self.n_dims is not None:
            check_int("n_dims", self.n_dims, low=1)
        means = KMeans(q, n_init=check_int("n_init", self.n_init, low=1), random_state=self.random_state)
        z = self._lengths(z)
        self.centres_ = np.asarray(means.fit(z).cluster_centers_, dtype=np.float64)
        self.bounds_ = _twice_the_range(z)
        self._loaded()

    def _nearest(self) -> int:
        return check_int("k", self.k, low=1, high=self.n_centres - 1, remedy="It must be below n_centres.")

    def _loaded(self) -> None:
        self.n_components_ = len(self.centres_)
        self._product = ExactMap.of(2.0 * self.centres_.T, low=self.bounds_[0], high=self.bounds_[1])
        # |z - c|^2 = |z|^2 - s: the row's own length is the same for all centres.
        middle = self._product.centre
        self._offsets = (2.0 * middle * self.centres_).sum(axis=1) - np.square(self.centres_).sum(axis=1)

    def _lengths(self, z: FloatArray) -> FloatArray:
        z = z[:, : self.n_dims]
        return _unit(z) if self.cosine else z

    def _similarity(self, z: FloatArray) -> FloatArray:
        return np.asarray(self._product(self._lengths(z)) + self._offsets)

    def _phi(self, z: FloatArray) -> FloatArray:
        s = self._similarity(z)
        place = self.n_components_ - self._nearest() - 1
        last = np.partition(s, place, axis=1)[:, place]
        return _unit(np.maximum(s - last[:, None], 0.0))


class HardSpace(SoftSpace):
    """Hard votes: a row votes for the nearest of ``n_centres`` public cluster centres (the first of equally near ones).

    Parameters
    ----------
    n_centres, n_dims, cosine, n_init, random_state
        See :class:`SoftSpace`.

    Examples
    --------
    >>> z = np.array([[0.0], [0.1], [1.0], [1.1]])
    >>> HardSpace(n_centres=2, random_state=0).fit(z).transform(z).sum(axis=0).tolist()
    [2.0, 2.0]
    """

    kind = "hard"

    def __init__(
        self, n_centres: int = 200, *, n_dims: int | None = None, cosine: bool = False, n_init: int = 1,
        random_state: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(n_centres, 1, n_dims=n_dims, cosine=cosine, n_init=n_init, random_state=random_state)

    def _phi(self, z: FloatArray) -> FloatArray:
        s = self._similarity(z)
        phi = np.zeros_like(s)
        phi[np.arange(len(s)), s.argmax(axis=1)] = 1.0
        return phi


@dataclass(repr=False, eq=False)
class SignedSpace(BallotSpace):
    """Signed vectors: a row's principal components (fitted on public rows), partly whitened and scaled to length 1.

    Component j is divided by (its public standard deviation)^alpha: 0 changes nothing, 1 gives all components the same
    variance.

    Parameters
    ----------
    n_components : int or None
        The number of largest components; None takes all that vary.
    alpha : float
        In [0, 1].
    constant : float
        Size of a constant coordinate beside them, in root-mean-square lengths of the public rows: with it the sum of
        ballots holds the share of each class. 0 adds none.

    Attributes
    ----------
    mean_ : float64 array of shape (p,)
    components_ : float64 array of shape (p, n_components)
        Rotation and whitening in one.
    variances_ : float64 array of shape (n_components,)
        The public spectrum.
    n_components_ : int
        d: the components, and the constant coordinate.

    Examples
    --------
    >>> z = np.random.default_rng(0).normal(size=(100, 5)) * [9, 3, 1, 1, 1]
    >>> phi = SignedSpace(n_components=2, alpha=0.8, constant=0.5).fit(z).transform(z)
    >>> phi.shape, np.square(phi).sum(axis=1).round(9).max().item()
    ((100, 3), 1.0)
    """

    kind = "signed"
    _arrays = ("mean_", "components_", "variances_", "bias_", "bounds_")
    n_components: int | None = None
    _: KW_ONLY
    alpha: float = 0.8
    constant: float = 0.0

    def _fit(self, z: FloatArray) -> None:
        alpha = check_real("alpha", self.alpha, low=0, high=1)
        constant = check_real("constant", self.constant, low=0)
        self.mean_ = z.mean(axis=0)
        centred = z - self.mean_
        values, vectors = np.linalg.eigh(centred.T @ centred / len(z))
        values, vectors = values[::-1], vectors[:, ::-1]
        n_varying = int((values > max(values[0], 0.0) * 1e-12).sum())
        if not n_varying:
            raise InvalidInputError("X must vary, got public rows that are all equal. Pass other public rows.")
        wanted = n_varying
        if self.n_components is not None:
            wanted = min(check_int("n_components", self.n_components, low=1), n_varying)
        self.variances_ = values[:wanted].copy()
        # The sign of an eigenvector is arbitrary: the largest entry is made positive.
        vectors = vectors[:, :wanted]
        vectors = one_sign(vectors)
        self.components_ = vectors * self.variances_ ** (-alpha / 2)
        self.bounds_ = _twice_the_range(z)
        self.bias_ = np.array([constant * np.sqrt((self.variances_ ** (1 - alpha)).sum())])
        self._loaded()

    def _loaded(self) -> None:
        self._product = ExactMap.of(self.components_, low=self.bounds_[0], high=self.bounds_[1])
        self._offsets = ((self._product.centre - self.mean_)[:, None] * self.components_).sum(axis=0)
        self.n_components_ = self.components_.shape[1] + int(self.bias_[0] > 0)

    def _phi(self, z: FloatArray) -> FloatArray:
        found = self._product(z) + self._offsets
        if self.bias_[0] > 0:
            found = np.concatenate([found, np.full((len(found), 1), self.bias_[0])], axis=1)
        return _unit(found)


def _twice_the_range(z: FloatArray) -> FloatArray:
    """Return bounds, shape (2, p), with the public range in their middle half."""
    low, high = z.min(axis=0), z.max(axis=0)
    return np.stack([low - (high - low) / 2, high + (high - low) / 2])


def _unit(rows: FloatArray) -> FloatArray:
    """Return rows of length 1, zero ones as they are."""
    peak = np.abs(rows).max(axis=1, initial=0.0, keepdims=True)
    rows = rows / np.where(peak > 0, peak, 1.0)
    length = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    return np.asarray(rows / np.where(length > 0, length, 1.0))


def _public(X: Any) -> FloatArray:
    private = private_kind(X)
    if private is not None:
        raise InvalidInputError(
            f"X must be public rows, got {private}, which is private. Fit the space on public rows."
        )
    try:
        z = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"X must be numbers of shape (n_public, p), got {shown(X)}.") from None
    if z.ndim != 2 or 0 in z.shape or not np.isfinite(z).all():
        raise InvalidInputError(f"X must be finite numbers of shape (n_public, p), got shape {z.shape}.")
    return z
