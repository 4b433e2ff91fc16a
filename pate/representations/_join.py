"""Combine representations: in sequence (:func:`chain`), or side by side (:func:`combine`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils import get_tags

from pate._core.checks import check_int, check_real, shown
from pate._core.frames import plain_rows
from pate._core.secret import training_seed
from pate._core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.representations._base import BLOCK, Representation, check_representation
from pate.representations._cells import n_rows, slice_rows
from pate.representations._exact import ExactMap, one_sign

# Features of numbers: random Fourier features, and principal components partly whitened.

_SEED_PATH = (0x0F0E,)
#: Rows among which the median distance is taken.
_PAIRED_ROWS = 1000
#: A turn has so many steps, and one cosine each: it is looked up, so that it depends on no library's last bit.
_TURN = 1 << 16
_COSINES = np.rint(np.cos(np.arange(_TURN) * (2 * np.pi / _TURN)) * 2.0**30) / 2.0**30


@dataclass(repr=False, eq=False)
class RandomFourier(Representation):
    """Random Fourier features, whose scalar products approximate a Gaussian kernel (Rahimi and Recht, NIPS 2007).

    Half of the features are cosines of random projections, half their sines, scaled so that every vector has norm 1
    (to a step of 1e-4 of a turn). The projections are orthogonal in blocks (Yu et al., NIPS 2016), which comes nearer.

    Parameters
    ----------
    n_features : int
        How many, an even number.
    bandwidth : "median" or float
        The kernel's standard deviation: the median distance between public rows, or so many times that.
    random_state : int
        Seed of the projections, which are public.

    Attributes
    ----------
    bandwidth_ : float
        In the units of the columns.

    Notes
    -----
    Columns should be of comparable scale: put a :class:`TableMap` before it (``chain(TableMap(), RandomFourier())``).
    Sums are exact, so a row's vector is the same to the last bit at any place.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> z = RandomFourier(500, random_state=0).fit(X).transform(X)
    >>> z.shape, bool(abs(np.linalg.norm(z, axis=1) - 1).max() < 1e-3)
    ((200, 500), True)
    """

    exact_ = True
    _numbers = ("bandwidth",)
    n_features: int = 1024
    _: KW_ONLY
    bandwidth: Any = "median"
    random_state: int = 0

    def _check(self) -> None:
        n = check_int("n_features", self.n_features, low=2, remedy="Half are cosines, half are sines.")
        if n % 2:
            raise InvalidInputError(
                f"n_features must be even, got {n}: half are cosines, half are sines. Take {n + 1}."
            )
        if not (isinstance(self.bandwidth, str) and self.bandwidth == "median"):
            if isinstance(self.bandwidth, str):
                raise InvalidInputError(f"bandwidth must be 'median' or a number > 0, got {shown(self.bandwidth)}.")
            check_real("bandwidth", self.bandwidth, low=0, low_open=True, remedy="It multiplies the median distance.")
        check_int("random_state", self.random_state, low=0, remedy="It is public: a fixed one lets others repeat it.")

    def _learn(self, rows: Any) -> None:
        from scipy.spatial.distance import pdist

        rng = np.random.default_rng(training_seed(self.random_state, *_SEED_PATH))
        chosen = rng.permutation(len(rows))[:_PAIRED_ROWS]
        distances = pdist(self.cells_.clean(np.array(rows[chosen], dtype=np.float64)))
        apart = distances[distances > 0]
        median = float(np.median(apart)) if len(apart) else 1.0
        self.bandwidth_ = median * (1.0 if self.bandwidth == "median" else float(self.bandwidth))
        directions = _orthogonal(self.cells_.n_features, self.n_features // 2, rng)
        self.map_ = ExactMap.of(
            directions / (2 * np.pi * self.bandwidth_), low=self.cells_.low, high=self.cells_.high
        )  # in turns
        self.n_features_out_ = int(self.n_features)

    def _map(self, block: FloatArray) -> FloatArray:
        turns = self.map_(block)
        turns -= np.rint(turns)  # exact, and never too large for a whole number
        turns *= _TURN
        steps = np.rint(turns).astype(np.int64)
        half = self.n_features_out_ // 2
        made = np.empty((len(block), self.n_features_out_))
        np.take(_COSINES, steps & (_TURN - 1), out=made[:, :half])
        np.take(_COSINES, (steps - _TURN // 4) & (_TURN - 1), out=made[:, half:])
        made *= half**-0.5
        return made

    def _fits(self) -> bool:
        return bool(self.map_.weights.shape == (self.cells_.n_features, self.n_features_out_ // 2))


def _orthogonal(n_in: int, n_out: int, rng: np.random.Generator) -> FloatArray:
    """Return directions of shape (n_in, n_out), each Gaussian, and at right angles in blocks of ``n_in``."""
    blocks = []
    for start in range(0, n_out, n_in):
        square, _ = np.linalg.qr(rng.standard_normal((n_in, n_in)))
        lengths = np.linalg.norm(rng.standard_normal((n_in, n_in)), axis=0)
        blocks.append((square * lengths)[:, : n_out - start])
    return np.hstack(blocks)


@dataclass(repr=False, eq=False)
class PublicPCA(Representation):
    """PCA, fitted on public rows and partly whitened: component j is multiplied by its variance^(-alpha/2).

    Parameters
    ----------
    n_components : int or None
        None keeps as many as there are: columns, or public rows less one.
    alpha : float
        0 keeps the variances as they are, 1 makes them all 1; between 0 and 1.

    Attributes
    ----------
    spectrum_ : float64 array of shape (n_components_,)
        The public variances along the components, falling.
    total_variance_ : float
        Total variance of all components, used or not.
    n_components_ : int

    Notes
    -----
    A component without public variance (below 1e-10 of the first) is kept as 0. Sums are exact, so a row's vector is
    the same to the last bit at any place.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(500, 3)) * [10.0, 1.0, 0.1]
    >>> pca = PublicPCA(2, alpha=1.0).fit(X)
    >>> pca.transform(X).std(axis=0).round(2), pca.spectrum_.round(0)
    (array([1., 1.]), array([96.,  1.]))
    """

    exact_ = True
    _arrays, _numbers = ("mean", "spectrum"), ("total_variance",)
    n_components: int | None = None
    _: KW_ONLY
    alpha: float = 0.8

    def _check(self) -> None:
        if self.n_components is not None:
            check_int("n_components", self.n_components, low=1)
        check_real("alpha", self.alpha, low=0, high=1, remedy="0 whitens nothing, 1 everything.")

    def _learn(self, rows: Any) -> None:
        n, d = rows.shape
        most = min(d, max(n - 1, 1))
        k = most if self.n_components is None else int(self.n_components)
        if k > most:
            raise InvalidInputError(
                f"n_components must be at most {most} for {n} public rows of {d} columns, got {k}. Take {most}."
            )
        total, gram = np.zeros(d), np.zeros((d, d))
        for start in range(0, n, self._block_rows):
            total += self.cells_.block(rows, start, min(self._block_rows, n - start)).sum(axis=0)
        mean = total / n
        for start in range(0, n, self._block_rows):
            part = self.cells_.block(rows, start, min(self._block_rows, n - start)) - mean
            gram += part.T @ part
        variances, vectors = np.linalg.eigh(gram / max(n - 1, 1))
        order = np.argsort(variances)[::-1][:k]
        self.spectrum_ = np.maximum(variances[order], 0.0)
        self.total_variance_ = float(np.maximum(variances, 0.0).sum())
        there = self.spectrum_ > 1e-10 * max(float(self.spectrum_[0]), 1e-290)
        scale = np.where(there, np.where(there, self.spectrum_, 1.0) ** (-self.alpha / 2), 0.0)
        axes = vectors[:, order]
        axes = one_sign(axes)
        self.map_ = ExactMap.of(axes * scale, low=self.cells_.low, high=self.cells_.high)
        self.mean_ = self.map_(mean[None])[0]
        self.n_features_out_ = k

    @property
    def n_components_(self) -> int:
        """Number of components."""
        return self.n_features_out_

    def _map(self, block: FloatArray) -> FloatArray:
        made = self.map_(block)
        made -= self.mean_
        return made

    def _fits(self) -> bool:
        alike = self.mean_.shape == self.spectrum_.shape == (self.n_features_out_,)
        return bool(alike and self.map_.weights.shape == (self.cells_.n_features, len(self.mean_)))


#: Rows that go through a chain together.
_STRIDE = 4 * BLOCK


class _Joined(Representation):
    """Several representations as one; their fitted copies are in ``parts_``."""

    #: How many parts, the first ones, rows are given to; None: all.
    _n_reading: ClassVar[int | None] = None
    parts: Any
    parts_: tuple[Representation, ...]

    def _check(self) -> None:
        if not isinstance(self.parts, list | tuple) or not self.parts:
            raise InvalidInputError(f"parts must be a list of representations, got {shown(self.parts)}.")
        for i, part in enumerate(self.parts):
            check_representation(f"parts[{i}]", part)

    def _parts(self) -> tuple[Representation, ...]:
        return self.parts_

    def _settings(self) -> dict[str, Any]:
        return {k: v for k, v in super()._settings().items() if k != "parts"}

    @classmethod
    def _empty(cls, settings: dict[str, Any], parts: tuple[Representation, ...], modules: list[Any]) -> Any:
        rep = cls(list(parts), **settings)
        rep._check()
        rep.parts_ = parts
        return rep

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        with suppress(Exception):  # fit refuses parts that are no representations
            tags.input_tags.sparse = all(get_tags(part).input_tags.sparse for part in self.parts[: self._n_reading])
        return tags

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> None:
        super()._restore(arrays, words)
        self._after_fit()

    def _after_fit(self) -> None:
        """Set what follows from the fitted parts."""

    def _learn(self, rows: Any) -> None:
        raise NotImplementedError  # fit does it

    def _map(self, block: Any) -> npt.NDArray[Any]:
        raise NotImplementedError  # _vectors does it: each part reads rows for itself

    @property
    def exact_(self) -> bool:  # type: ignore[override]
        """Whether every part is exact."""
        return all(part.exact_ for part in getattr(self, "parts_", self.parts))

    @property
    def slow_(self) -> bool:  # type: ignore[override]
        """Whether any part is slow."""
        return any(part.slow_ for part in getattr(self, "parts_", self.parts))

    @property
    def n_public_(self) -> int:
        """Public rows it was fitted on."""
        return self.parts_[0].n_public_

    @n_public_.setter
    def n_public_(self, value: int) -> None:
        if value != self.parts_[0].n_public_:
            raise ValueError("parts of other rows")

    def _named(self) -> None:
        """Set what scikit-learn calls the number and names of columns: those of the first part."""
        first = self.parts_[0]
        self.n_features_in_ = first.n_features_in_
        if hasattr(first, "feature_names_in_"):
            self.feature_names_in_ = first.feature_names_in_


@dataclass(repr=False, eq=False)
class Chain(_Joined):
    """Representations in sequence: each is fitted on the previous one's vectors of the public rows.

    Parameters
    ----------
    parts : list of representations
        They stay as they are; fitted copies are in ``parts_``.

    Attributes
    ----------
    parts_ : tuple of fitted representations

    Examples
    --------
    >>> from pate.representations import RandomFourier, TableMap
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> Chain([TableMap(), RandomFourier(64)]).fit(X).transform(X).shape
    (50, 64)
    """

    _n_reading = 1
    parts: Any

    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn every part from **public** rows, one behind another; as :meth:`Representation.fit`."""
        self._check()
        fitted: list[Representation] = []
        rows = X
        for i, part in enumerate(self.parts):
            fitted.append(clone(part).fit(rows))
            if i + 1 < len(self.parts):
                rows = fitted[-1].vectors(rows)
        self.parts_ = tuple(fitted)
        self._after_fit()
        return self

    def _after_fit(self) -> None:
        self.n_features_out_ = self.parts_[-1].n_features_out_
        self.provenance_ = ", then ".join(part.provenance_ for part in self.parts_)
        self._named()

    def ending_in(self, last: Representation) -> Chain:
        """Return this chain with another fitted map in the last one's place, which takes what that one took."""
        made = Chain([*self.parts[:-1], last])
        made.__dict__ |= {k: v for k, v in self.__dict__.items() if k != "parts"}
        made.parts_ = (*self.parts_[:-1], last)
        made._after_fit()
        return made

    def _vectors(self, X: Any) -> npt.NDArray[Any]:
        # What is in between is never whole.
        X = plain_rows(X)
        made: npt.NDArray[Any] | None = None
        n = n_rows(X)
        for start in range(0, n, _STRIDE):
            part: Any = slice_rows(X, start, _STRIDE)
            for step in self.parts_:
                part = step.vectors(part)
            if made is None:
                made = np.empty((n, self.n_features_out_), dtype=part.dtype)
            made[start : start + _STRIDE] = part
        return np.empty((0, self.n_features_out_)) if made is None else made


def chain(*parts: Representation) -> Chain:
    """Return one representation that applies several in sequence; a :class:`Chain`.

    Examples
    --------
    >>> from pate.representations import PublicPCA, TableMap
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> chain(TableMap(), PublicPCA(3)).fit(X).n_features_out_
    3
    """
    made = Chain(list(parts))
    made._check()
    return made


@dataclass(repr=False, eq=False)
class Combined(_Joined):
    """Representations side by side: their vectors are concatenated, each scaled so that its weight is its mean square.

    Parts differ in scale: each is divided by the root mean square length of its public vectors, and multiplied by the
    root of its weight, so that equal weights count equally in a scalar product.

    Parameters
    ----------
    parts : list of representations
        They stay as they are; fitted copies are in ``parts_``.
    weights : list of float or None
        One per part, > 0; None is 1 each.

    Attributes
    ----------
    parts_ : tuple of fitted representations
    scales_ : float64 array of shape (n_parts,)
        What each part's vectors are multiplied with.

    Examples
    --------
    >>> from pate.representations import PublicPCA, RandomFourier
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> both = Combined([PublicPCA(), RandomFourier(64)], weights=[1.0, 3.0]).fit(X)
    >>> (
    ...     both.transform(X).shape,
    ...     round(float((both.transform(X)[:, 4:] ** 2).sum(axis=1).mean()), 3),
    ... )
    ((50, 68), 3.0)
    """

    _arrays = ("scales",)
    parts: Any
    weights: Any = None

    def _check(self) -> None:
        super()._check()
        if self.weights is None:
            return
        if not isinstance(self.weights, list | tuple) or len(self.weights) != len(self.parts):
            raise InvalidInputError(
                f"weights must be a list of {len(self.parts)} numbers, one per part, got {shown(self.weights)}."
            )
        for i, weight in enumerate(self.weights):
            check_real(f"weights[{i}]", weight, low=0, low_open=True)

    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn every part from the same **public** rows; as :meth:`Representation.fit`."""
        self._check()
        fitted, scales = [], []
        for part, weight in zip(self.parts, self.weights or [1.0] * len(self.parts), strict=True):
            fitted.append(clone(part).fit(X))
            made = fitted[-1].vectors(X).astype(np.float64)
            square = float((made**2).sum(axis=1).mean())
            scales.append(math.sqrt(weight / square) if square > 0 else 1.0)
        self.parts_ = tuple(fitted)
        self.scales_: FloatArray = np.array(scales)
        self._after_fit()
        return self

    def _after_fit(self) -> None:
        self.n_features_out_ = sum(part.n_features_out_ for part in self.parts_)
        self.provenance_ = " beside ".join(part.provenance_ for part in self.parts_)
        self._named()

    def _vectors(self, X: Any) -> npt.NDArray[Any]:
        made: npt.NDArray[Any] | None = None
        place = 0
        for part, scale in zip(self.parts_, self.scales_, strict=True):
            values = part.vectors(X)
            if made is None:
                made = np.empty((len(values), self.n_features_out_))
            np.multiply(values, scale, out=made[:, place : place + values.shape[1]])
            place += values.shape[1]
        return np.empty((0, self.n_features_out_)) if made is None else made

    def _fits(self) -> bool:
        return bool(self.scales_.shape == (len(self.parts_),) and (self.scales_ > 0).all())


def combine(*parts: Representation, weights: Sequence[float] | None = None) -> Combined:
    """Return one representation that concatenates the vectors of several; a :class:`Combined`.

    Examples
    --------
    >>> from pate.representations import PublicPCA, RandomFourier
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> combine(PublicPCA(2), RandomFourier(8)).fit(X).n_features_out_
    10
    """
    made = Combined(list(parts), None if weights is None else list(weights))
    made._check()
    return made
