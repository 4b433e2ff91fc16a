"""Representations behind one another, and beside one another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from pate.core.checks import check_real, shown
from pate.core.frames import plain_rows
from pate.core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.representations._base import BLOCK, Representation, check_representation
from pate.representations._cells import n_rows, slice_rows

#: Rows that go through a chain together.
_STRIDE = 4 * BLOCK


class _Joined(Representation):
    """Several representations as one; their fitted copies stand in ``parts_``."""

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

    def _state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        return {}, {}

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


class Chain(_Joined):
    """Representations one behind another, each fitted on what the one before makes of the public rows.

    Parameters
    ----------
    parts : list of representations
        They stay as they are; fitted copies are kept in ``parts_``.

    Attributes
    ----------
    parts_ : tuple of fitted representations
    n_features_out_ : int
    provenance_ : str

    Examples
    --------
    >>> from pate.representations import RandomFourier, TableMap
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> Chain([TableMap(), RandomFourier(64)]).fit(X).transform(X).shape
    (50, 64)
    """

    def __init__(self, parts: Any) -> None:
        self.parts = parts

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
        self._settled()
        return self

    def _settled(self) -> None:
        self.n_features_out_ = self.parts_[-1].n_features_out_
        self.provenance_ = ", then ".join(part.provenance_ for part in self.parts_)
        self._named()

    def ending_in(self, last: Representation) -> Chain:
        """Return this chain with another fitted map in the last one's place, which takes what that one took."""
        made = Chain([*self.parts[:-1], last])
        made.__dict__ |= {k: v for k, v in self.__dict__.items() if k != "parts"}
        made.parts_ = (*self.parts_[:-1], last)
        made._settled()
        return made

    def _learn(self, rows: Any) -> None:
        raise NotImplementedError  # fit does it

    def _map(self, block: Any) -> npt.NDArray[Any]:
        raise NotImplementedError  # _vectors does it

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

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> None:
        self._settled()


def chain(*parts: Representation) -> Chain:
    """Return representations one behind another as one; a :class:`Chain`.

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


class Combined(_Joined):
    """Representations side by side: their vectors one after another, each part brought to a mean square of its weight.

    Parts differ in scale: each is divided by the root mean square length of its public vectors, and multiplied by the
    root of its weight, so that equal weights count equally in a scalar product.

    Parameters
    ----------
    parts : list of representations
        They stay as they are; fitted copies are kept in ``parts_``.
    weights : list of float or None
        One per part, > 0; None is 1 each.

    Attributes
    ----------
    parts_ : tuple of fitted representations
    scales_ : float64 array of shape (n_parts,)
        What each part's vectors are multiplied with.
    n_features_out_ : int
    provenance_ : str

    Examples
    --------
    >>> from pate.representations import PublicPCA, RandomFourier
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> both = Combined([PublicPCA(), RandomFourier(64)], weights=[1.0, 3.0]).fit(X)
    >>> both.transform(X).shape, round(float((both.transform(X)[:, 4:] ** 2).sum(axis=1).mean()), 3)
    ((50, 68), 3.0)
    """

    def __init__(self, parts: Any, weights: Any = None) -> None:
        self.parts = parts
        self.weights = weights

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
        self._settled()
        return self

    def _settled(self) -> None:
        self.n_features_out_ = sum(part.n_features_out_ for part in self.parts_)
        self.provenance_ = " beside ".join(part.provenance_ for part in self.parts_)
        self._named()

    def _learn(self, rows: Any) -> None:
        raise NotImplementedError  # fit does it

    def _map(self, block: Any) -> npt.NDArray[Any]:
        raise NotImplementedError  # each part reads rows for itself

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

    def _state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        return {"scales": self.scales_}, {}

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> None:
        self.scales_ = arrays["scales"]
        if self.scales_.shape != (len(self.parts_),) or not (self.scales_ > 0).all():
            raise ValueError("scales of another shape")
        self._settled()


def combine(*parts: Representation, weights: Sequence[float] | None = None) -> Combined:
    """Return representations side by side as one; a :class:`Combined`.

    Parameters
    ----------
    *parts : representations
    weights : sequence of float or None
        One per part; None is 1 each.

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
