"""Features of numbers: random Fourier features, and principal components partly whitened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_int, check_real, shown
from pate.core.seeds import training_seed
from pate.core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.representations._base import Representation
from pate.representations._exact import ExactMap, one_sign

_SEED_PATH = (0x0F0E,)
#: Rows among which the median distance is taken.
_PAIRED_ROWS = 1000
#: A turn has so many steps, and one cosine each: it is looked up, so that it hangs on no library's last bit.
_TURN = 1 << 16
_COSINES = np.rint(np.cos(np.arange(_TURN) * (2 * np.pi / _TURN)) * 2.0**30) / 2.0**30


class RandomFourier(Representation):
    """Random Fourier features: vectors whose scalar products come near a Gaussian kernel (Rahimi and Recht, NIPS 2007).

    Half of the features are cosines of random projections, half their sines, scaled so that every vector has norm 1
    (to a step of 1e-4 of a turn). The projections are orthogonal in blocks (Yu et al., NIPS 2016), which comes nearer.

    Parameters
    ----------
    n_features : int
        How many, an even number.
    bandwidth : "median" or float
        The kernel's standard deviation: the median distance between public rows, or so many times that.
    random_state : int
        Of the projections, which are public.

    Attributes
    ----------
    bandwidth_ : float
        In the units of the columns.
    n_features_out_ : int
    provenance_ : str

    Notes
    -----
    Columns should be of comparable scale: put a :class:`TableMap` before it (``chain(TableMap(), RandomFourier())``).
    Sums are exact, so a row's vector is the same to the last bit wherever it stands.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> z = RandomFourier(500, random_state=0).fit(X).transform(X)
    >>> z.shape, bool(abs(np.linalg.norm(z, axis=1) - 1).max() < 1e-3)
    ((200, 500), True)
    """

    exact_ = True

    def __init__(self, n_features: int = 1024, *, bandwidth: Any = "median", random_state: int = 0) -> None:
        self.n_features = n_features
        self.bandwidth = bandwidth
        self.random_state = random_state

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
        rng = np.random.default_rng(training_seed(self.random_state, *_SEED_PATH))
        chosen = rng.permutation(len(rows))[:_PAIRED_ROWS]
        median = _median_distance(self.cells_.clean(np.array(rows[chosen], dtype=np.float64)))
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

    def _state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        return self.map_.state("map"), {"bandwidth": self.bandwidth_}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> None:
        self.map_ = ExactMap.restore("map", arrays)
        self.bandwidth_ = float(words["bandwidth"])
        if self.map_.weights.shape != (self.cells_.n_features, self.n_features_out_ // 2):
            raise ValueError("weights of another shape")


def _median_distance(rows: FloatArray) -> float:
    from scipy.spatial.distance import pdist

    distances = pdist(rows) if len(rows) > 1 else np.zeros(1)
    apart = distances[distances > 0]
    return float(np.median(apart)) if len(apart) else 1.0


def _orthogonal(n_in: int, n_out: int, rng: np.random.Generator) -> FloatArray:
    """Return directions of shape (n_in, n_out), each Gaussian, and at right angles in blocks of ``n_in``."""
    blocks = []
    for start in range(0, n_out, n_in):
        square, _ = np.linalg.qr(rng.standard_normal((n_in, n_in)))
        lengths = np.linalg.norm(rng.standard_normal((n_in, n_in)), axis=0)
        blocks.append((square * lengths)[:, : n_out - start])
    return np.hstack(blocks)


class PublicPCA(Representation):
    """Principal components of public rows, partly whitened: component j is multiplied by its variance^(-alpha/2).

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
        Of all components, kept or not.
    n_components_, n_features_out_ : int
    provenance_ : str

    Notes
    -----
    A component without public variance (below 1e-10 of the first) is kept as 0. Sums are exact, so a row's vector is
    the same to the last bit wherever it stands.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(500, 3)) * [10.0, 1.0, 0.1]
    >>> pca = PublicPCA(2, alpha=1.0).fit(X)
    >>> pca.transform(X).std(axis=0).round(2), pca.spectrum_.round(0)
    (array([1., 1.]), array([96.,  1.]))
    """

    exact_ = True

    def __init__(self, n_components: int | None = None, *, alpha: float = 0.8) -> None:
        self.n_components = n_components
        self.alpha = alpha

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
        self.n_components_ = self.n_features_out_ = k

    def _map(self, block: FloatArray) -> FloatArray:
        made = self.map_(block)
        made -= self.mean_
        return made

    def _state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        arrays = self.map_.state("map") | {"mean": self.mean_, "spectrum": self.spectrum_}
        return arrays, {"total_variance": self.total_variance_}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> None:
        self.map_ = ExactMap.restore("map", arrays)
        self.mean_, self.spectrum_ = arrays["mean"], arrays["spectrum"]
        self.total_variance_ = float(words["total_variance"])
        self.n_components_ = len(self.spectrum_)
        if self.mean_.shape != self.spectrum_.shape or len(self.mean_) != self.n_features_out_:
            raise ValueError("components of another number")
        if self.map_.weights.shape != (self.cells_.n_features, self.n_components_):
            raise ValueError("weights of another shape")
