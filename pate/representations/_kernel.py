"""Kernel principal components of public rows: a smooth space that public rows alone define, without chance."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.neighbors import NearestNeighbors

from pate._core.checks import check_choice, check_int, check_real
from pate._core.secret import training_seed
from pate._core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.representations._base import Representation
from pate.representations._exact import INPUT_BITS, ExactDistances, ExactMap, one_sign

# Rows as the public rows near them are: a graph of public rows draws what belongs together nearer.


@dataclass(repr=False, eq=False)
class PublicNeighbours(Representation):
    """Smooth vectors: replace a row by the mean of its nearest public rows, which were smoothed in the same way before.

    Use it after a representation in which nearest neighbours share a class more often than clusters do (such as a
    self-supervised network's). A row is compared with public rows alone, so no record changes another's vector.
    Diffusion on a graph of neighbours, as in label propagation (Zhou et al., NIPS 2003), of vectors instead of labels.

    Parameters
    ----------
    n_neighbors : int
        Public rows, nearest by angle, that a row is replaced by the mean of.
    rounds : int
        How often public rows are.

    Attributes
    ----------
    n_features_out_ : int
        As many as the rows have; vectors have length 1.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat(np.eye(2), 30, axis=0) + rng.normal(size=(60, 2)) * 0.2
    >>> z = PublicNeighbours().fit(X).transform(X)
    >>> z.shape, bool(z[:30].std(axis=0).max() < X[:30].std(axis=0).min() / 2)
    ((60, 2), True)
    """

    _arrays = ("rows", "drawn")
    n_neighbors: int = 10
    _: KW_ONLY
    rounds: int = 4

    def _check(self) -> None:
        check_int("n_neighbors", self.n_neighbors, low=1)
        check_int("rounds", self.rounds, low=1)

    def _learn(self, rows: npt.NDArray[Any]) -> None:
        if len(rows) <= self.n_neighbors:
            raise InvalidInputError(
                f"n_neighbors must be less than the number of public rows, got {self.n_neighbors} for {len(rows)} rows."
            )
        self.rows_ = _unit(self.cells_.clean(np.array(rows, dtype=np.float64)))
        self._index()
        near = np.sort(self._near.kneighbors(self.rows_, self.n_neighbors + 1, return_distance=False), axis=1)
        drawn = self.rows_
        for _ in range(self.rounds):
            drawn = _unit(drawn[near].mean(axis=1))
        self.drawn_ = drawn
        self.n_features_out_ = drawn.shape[1]

    def _index(self) -> None:
        self._near = NearestNeighbors(algorithm="brute").fit(self.rows_)

    def _map(self, block: npt.NDArray[Any]) -> npt.NDArray[Any]:
        near = self._near.kneighbors(_unit(block), self.n_neighbors, return_distance=False)
        # In one order, whichever of equally near ones came first.
        return _unit(self.drawn_[np.sort(near, axis=1)].mean(axis=1))

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> None:
        super()._restore(arrays, words)
        self._index()

    def _fits(self) -> bool:
        return bool(self.rows_.shape == self.drawn_.shape and self.rows_.shape[1] == self.n_features_out_)


def _unit(rows: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return rows of length 1; those of length nought stay."""
    longest = np.maximum(np.abs(rows).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    rows = rows / longest
    length = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    return np.asarray(rows / np.maximum(length, 1e-30), dtype=np.float32)


_SEED_PATH = (0x4B9CA,)
_KERNELS = ("laplacian", "rbf")
#: Rows among which the median distance is taken, and how small a component is none.
_PAIRED_ROWS, _LEAST = 1000, 1e-7
#: Steps between 0 and 1 that a kernel's value is rounded to.
_STEPS = 2.0**30
#: From so many bandwidths on a kernel's value is less than half a step.
_REACH = {"laplacian": 22.0, "rbf": 7.0}
#: Rows that are compared with all landmarks at once: the result stays in the processor's cache.
_CACHED_ROWS = 64


@dataclass(repr=False, eq=False)
class KernelPCA(Representation):
    """Kernel PCA, fitted on public rows (Schoelkopf, Smola and Mueller, Neural Computation 1998).

    Rows are compared with public landmarks (all public rows, or a random part: Williams and Seeger, NIPS 2000), and the
    centred kernel's components follow in falling order of public variance, not whitened.

    Parameters
    ----------
    n_components : int
        At most; fewer where there are fewer landmarks or directions.
    kernel : {"laplacian", "rbf"}
        exp(-r/h), which needs little tuning, or exp(-r^2/(2 h^2)), of the distance r.
    bandwidth : float
        h over the median distance of public rows.
    n_landmarks : int
        At most; memory and time grow with the square and the cube of it.
    random_state : int
        Seed of the choice of landmarks, which is public.

    Attributes
    ----------
    spectrum_ : float64 array of shape (n_features_out_,)
        Variances of the landmarks along the components, falling.
    bandwidth_ : float
        h.

    Notes
    -----
    Columns should be of comparable scale: put a :class:`TableMap` before it. Columns of one unit (pixels) are better
    left as they are. Each pair of row and landmark is compared by itself and sums are exact, so a row's vector is the
    same to the last bit at any place.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> z = KernelPCA(5).fit(X).transform(X)
    >>> z.shape, bool((np.diff(z.var(axis=0)) <= 0).all())
    ((100, 5), True)
    """

    exact_ = True
    _arrays, _numbers = ("landmarks", "means", "spectrum"), ("bandwidth", "mean")
    n_components: int = 512
    _: KW_ONLY
    kernel: str = "laplacian"
    bandwidth: float = 1.0
    n_landmarks: int = 2000
    random_state: int = 0

    def _check(self) -> None:
        check_int("n_components", self.n_components, low=1)
        check_choice("kernel", self.kernel, _KERNELS)
        check_real("bandwidth", self.bandwidth, low=0, low_open=True, remedy="It multiplies the median distance.")
        check_int("n_landmarks", self.n_landmarks, low=3)
        check_int("random_state", self.random_state, low=0, remedy="It is public: a fixed one lets others repeat it.")

    def _learn(self, rows: Any) -> None:
        rng = np.random.default_rng(training_seed(self.random_state, *_SEED_PATH))
        chosen = np.sort(rng.permutation(len(rows))[: self.n_landmarks])
        self.landmarks_ = self.cells_.clean(np.array(rows[chosen], dtype=np.float64))
        if len(self.landmarks_) < 3:
            raise InvalidInputError(f"X_public must have at least 3 rows, got {len(self.landmarks_)}. Give more rows.")
        some = self.landmarks_[rng.permutation(len(self.landmarks_))[:_PAIRED_ROWS]]
        apart = _distances(some, some)[np.triu_indices(len(some), 1)]
        apart = apart[apart > 0]
        if not len(apart):
            raise InvalidInputError("X_public must have rows that differ. Give rows with more to say.")
        self.bandwidth_ = float(np.median(apart)) * float(self.bandwidth)
        self._prepare()
        gram = self._kernel(self.landmarks_)
        self.means_, self.mean_ = gram.mean(axis=0), float(gram.mean())
        values, vectors = np.linalg.eigh(gram - self.means_ - self.means_[:, None] + self.mean_)
        order = np.argsort(values)[::-1][: self.n_components]
        values, vectors = values[order], vectors[:, order]
        there = values > _LEAST * values[0]
        values, vectors = values[there], vectors[:, there]
        vectors = one_sign(vectors)
        # k less its mean over landmarks, in steps.
        bound = np.full(len(vectors), _STEPS)
        self.map_ = ExactMap.of(vectors / (np.sqrt(values) * _STEPS), low=-bound, high=bound)
        self.spectrum_ = values / len(gram)
        self.n_features_out_ = len(values)
        self._shift = self._centred_means()

    def _prepare(self) -> None:
        """Set what follows from landmarks and bandwidth, which are public."""
        reach = _REACH[self.kernel] * self.bandwidth_
        self._apart = ExactDistances.of(self.landmarks_, scale=self.bandwidth_, reach=reach)

    def _centred_means(self) -> FloatArray:
        """Return what the landmarks' means add to every row's vector, by exact sums as well."""
        return self.map_((self.mean_ - self.means_)[None] * _STEPS)

    def first(self, n_components: int) -> KernelPCA:
        """Return the map to the first components alone: the same numbers to the last bit, in less time.

        More than there are leaves all.

        Examples
        --------
        >>> X = np.random.default_rng(0).normal(size=(100, 3))
        >>> whole = KernelPCA(20).fit(X)
        >>> bool((whole.first(5).transform(X) == whole.transform(X)[:, :5]).all())
        True
        """
        n = min(check_int("n_components", n_components, low=1), self.n_features_out_)
        made = copy(self).set_params(n_components=n)
        made.map_, made.spectrum_, made._shift = self.map_.first(n), self.spectrum_[:n], self._shift[:, :n]
        made.n_features_out_ = n
        return made

    def _kernel(self, rows: FloatArray) -> FloatArray:
        # Steps are powers of two: dividing once rounds as dividing after them does.
        apart, unit = (
            (_distances(rows, self.landmarks_), 1.0)
            if self._apart is None
            else (self._apart.in_steps(rows), self._apart.step)
        )
        apart /= self.bandwidth_ / unit * (-1.0 if self.kernel == "laplacian" else 1.0)
        if self.kernel == "rbf":
            apart *= -0.5 * apart
        return np.asarray(np.exp(apart, out=apart))

    def _map(self, block: FloatArray) -> FloatArray:
        steps = np.empty((len(block), len(self.landmarks_)))
        for start in range(0, len(block), _CACHED_ROWS):
            part = self._kernel(block[start : start + _CACHED_ROWS])
            # In whole steps, so that every sum is exact: first over landmarks, then in the product.
            np.rint(np.multiply(part, _STEPS, out=part), out=part)
            part -= part.sum(axis=1, keepdims=True) / steps.shape[1]
            # As map_ takes them: no mean is further than _STEPS from what it is the mean of.
            np.rint(np.multiply(part, 2.0**INPUT_BITS / _STEPS, out=part), out=steps[start : start + _CACHED_ROWS])
        return self.map_.of_steps(steps) + self._shift

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> None:
        super()._restore(arrays, words)
        self._prepare()
        self._shift = self._centred_means()

    def _fits(self) -> bool:
        n, d = self.landmarks_.shape
        alike = d == self.cells_.n_features and self.means_.shape == (n,)
        alike = alike and self.map_.weights.shape == (n, self.n_features_out_)
        return bool(alike and not self.map_.centre.any() and (self.map_.half == _STEPS).all())


def _distances(a: FloatArray, b: FloatArray) -> FloatArray:
    from scipy.spatial.distance import cdist  # each pair by itself: no row's distance depends on another's

    return np.asarray(cdist(a, b))
