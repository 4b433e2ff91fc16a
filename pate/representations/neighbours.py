"""Rows as the public rows near them are: a graph of public rows draws what belongs together nearer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.neighbors import NearestNeighbors

from pate.core.checks import check_int
from pate.exceptions import InvalidInputError
from pate.representations._base import Representation


class PublicNeighbours(Representation):
    """Replace a row by the mean of the public rows nearest to it, which are replaced by theirs first, round by round.

    Put behind a representation in which neighbours are of one class more often than clusters are (what a
    self-supervised network sees). A row meets public rows alone, so no record moves another's vector. Diffusion on a
    graph of neighbours, as in label propagation (Zhou et al., NIPS 2003), of vectors instead of labels.

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
    provenance_ : str

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat(np.eye(2), 30, axis=0) + rng.normal(size=(60, 2)) * 0.2
    >>> z = PublicNeighbours().fit(X).transform(X)
    >>> z.shape, bool(z[:30].std(axis=0).max() < X[:30].std(axis=0).min() / 2)
    ((60, 2), True)
    """

    def __init__(self, n_neighbors: int = 10, *, rounds: int = 4) -> None:
        self.n_neighbors = n_neighbors
        self.rounds = rounds

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

    def _state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        return {"rows": self.rows_, "drawn": self.drawn_}, {}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> None:
        self.rows_, self.drawn_ = arrays["rows"], arrays["drawn"]
        if self.rows_.shape != self.drawn_.shape or self.rows_.shape[1] != self.n_features_out_:
            raise ValueError("arrays of another shape")
        self._index()


def _unit(rows: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return rows of length 1; those of length nought stay."""
    longest = np.maximum(np.abs(rows).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    rows = rows / longest
    length = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    return np.asarray(rows / np.maximum(length, 1e-30), dtype=np.float32)
