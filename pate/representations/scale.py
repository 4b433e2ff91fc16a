"""Scales that public rows fix: columns by their spread, and rows of one length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_int, check_real
from pate.core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.representations._base import Representation

#: Added to the variance of a group, as in group normalisation.
_EPSILON = 1e-5
#: A column's spread counts as at least this share of the mean spread: what hardly varies is not blown up.
_LEAST = 1e-3


def _blocks(scale: Representation, rows: Any) -> Iterator[FloatArray]:
    """Yield public rows as numbers, block by block: never more of them than a block at a time."""
    n, size = int(rows.shape[0]), scale._block_rows
    for start in range(0, n, size):
        yield scale.cells_.block(rows, start, min(size, n - start))


class PublicScale(Representation):
    """Columns less their public mean, divided by a power of their public standard deviation.

    Parameters
    ----------
    power : float
        0 leaves the scale as it is, 1 makes all spreads alike, 1/2 is between: of wavelet scattering it lets the quiet
        maps be heard without letting them speak alone.

    Attributes
    ----------
    n_features_out_ : int
    provenance_ : str

    Notes
    -----
    Each number is worked on by itself, so a row's vector is the same to the last bit wherever it stands.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(2000, 2)) * [100.0, 1.0]
    >>> PublicScale(0.5).fit(X).transform(X).std(axis=0).round(0)
    array([10.,  1.])
    """

    exact_ = True

    def __init__(self, power: float = 0.5) -> None:
        self.power = power

    def _check(self) -> None:
        check_real("power", self.power, low=0, high=1, remedy="0 leaves the scale, 1 makes all spreads alike.")

    def _learn(self, rows: Any) -> None:
        n, d = rows.shape
        total, squares = np.zeros(d), np.zeros(d)
        for block in _blocks(self, rows):
            total += block.sum(axis=0)
        self.mean_ = total / n
        for block in _blocks(self, rows):
            squares += ((block - self.mean_) ** 2).sum(axis=0)
        spread = np.sqrt(squares / n)
        floor = _LEAST * spread.mean()
        spread = np.maximum(spread, floor) if floor > 0 else np.ones(d)
        self.scale_ = spread ** -float(self.power)
        self.n_features_out_ = d

    def _map(self, block: FloatArray) -> FloatArray:
        return (block - self.mean_) * self.scale_

    def _state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        return {"mean": self.mean_, "scale": self.scale_}, {}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> None:
        self.mean_, self.scale_ = arrays["mean"], arrays["scale"]
        if not self.mean_.shape == self.scale_.shape == (self.n_features_out_,):
            raise ValueError("columns of another number")


class AboveLeast(Representation):
    """Columns less their least public value, and no less than 0: of amounts, how far they are from nothing.

    Attributes
    ----------
    n_features_out_ : int
    provenance_ : str

    Notes
    -----
    Each number is worked on by itself, so a row's vector is the same to the last bit wherever it stands.

    Examples
    --------
    >>> AboveLeast().fit(np.array([[2.0, 0.0], [5.0, 1.0]])).transform(np.array([[3.0, -1.0]]))
    array([[1., 0.]])
    """

    exact_ = True

    def _learn(self, rows: Any) -> None:
        self.least_ = np.min([block.min(axis=0) for block in _blocks(self, rows)], axis=0)
        self.n_features_out_ = int(rows.shape[1])

    def _map(self, block: FloatArray) -> FloatArray:
        return np.maximum(block - self.least_, 0.0)

    def _state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        return {"least": self.least_}, {}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> None:
        self.least_ = arrays["least"]
        if self.least_.shape != (self.n_features_out_,):
            raise ValueError("columns of another number")


class _ByRow(Representation):
    """What looks at a row alone: public rows leave nothing to be kept."""

    exact_ = True

    def _state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        return {}, {}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> None:
        pass


class UnitRows(_ByRow):
    """Each row divided by its own L2 norm, beside a constant; a row of zeros keeps the constant alone.

    How long a linear model's gradient can be is then known before any record is read: at most sqrt(2), for the
    cross-entropy of a softmax. Public rows decide nothing but the range of the columns.

    Parameters
    ----------
    constant : float
        A last coordinate of this value, the others being scaled so that the row has norm 1: a bias that a linear model
        pays for with ``constant**2`` of its gradient. 0 adds no coordinate.

    Attributes
    ----------
    n_features_out_ : int
    provenance_ : str

    Notes
    -----
    Squares are added up column by column, so a row's vector is the same to the last bit wherever it stands.

    Examples
    --------
    >>> X = np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 5.0]])
    >>> UnitRows().fit(X).transform(X).tolist()
    [[0.6, 0.8], [0.0, 0.0], [0.0, 1.0]]
    >>> UnitRows(constant=0.6).fit(X).transform(X)[2].tolist()
    [0.0, 0.8, 0.6]
    """

    def __init__(self, *, constant: float = 0.0) -> None:
        self.constant = constant

    def _check(self) -> None:
        check_real("constant", self.constant, low=0, high=1, high_open=True, remedy="The row's norm is 1 with it.")

    def _learn(self, rows: Any) -> None:
        self.n_features_out_ = int(rows.shape[1]) + (self.constant > 0)

    def _map(self, block: FloatArray) -> FloatArray:
        # By its largest number first: squares then neither overflow nor vanish.
        largest = np.abs(block).max(axis=1, keepdims=True)
        made = block / np.where(largest > 0, largest, 1.0)
        squares = np.zeros(len(block))
        for column in made.T:
            squares += column * column
        made /= np.sqrt(np.where(squares > 0, squares, 1.0))[:, None]
        if not self.constant:
            return made
        made *= np.sqrt(1.0 - self.constant**2)
        return np.column_stack([made, np.full(len(made), float(self.constant))])


class GroupedRows(_ByRow):
    """Each row cut into groups of columns side by side; in each group the row's numbers get mean 0 and variance 1.

    Group normalisation (Wu and He, ECCV 2018) of features, without weights: what Tramer and Boneh (ICLR 2021) do with
    wavelet scattering where nothing is public. Public rows decide nothing but the range of the columns.

    Parameters
    ----------
    n_groups : int
        Divides the number of columns.

    Attributes
    ----------
    n_features_out_ : int
    provenance_ : str

    Notes
    -----
    Sums are taken column by column, so a row's vector is the same to the last bit wherever it stands.

    Examples
    --------
    >>> X = np.array([[0.0, 2.0, 50.0, 70.0], [1.0, 1.0, 5.0, 5.0]])
    >>> GroupedRows(2).fit(X).transform(X).round(3).tolist()
    [[-1.0, 1.0, -1.0, 1.0], [0.0, 0.0, 0.0, 0.0]]
    """

    def __init__(self, n_groups: int = 1) -> None:
        self.n_groups = n_groups

    def _check(self) -> None:
        check_int("n_groups", self.n_groups, low=1)

    def _learn(self, rows: Any) -> None:
        d = int(rows.shape[1])
        if d % self.n_groups:
            raise InvalidInputError(
                f"n_groups must divide the number of columns, {d}, got {self.n_groups}. Groups have one size."
            )
        self.n_features_out_ = d

    def _map(self, block: FloatArray) -> FloatArray:
        groups = block.reshape(len(block), self.n_groups, -1)
        size = groups.shape[2]
        mean = np.zeros(groups.shape[:2])
        for i in range(size):
            mean += groups[:, :, i]
        apart = groups - (mean / size)[:, :, None]
        squares = np.zeros(groups.shape[:2])
        for i in range(size):
            squares += apart[:, :, i] * apart[:, :, i]
        apart /= np.sqrt(squares / size + _EPSILON)[:, :, None]
        return apart.reshape(block.shape)
