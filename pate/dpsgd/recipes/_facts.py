"""What a recipe may be chosen from: facts that are public before any private record is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pate.core.checks import check_choice, check_int
from pate.data._columns import of_one_unit
from pate.data._door import is_frame, is_sparse, is_texts, read_rows
from pate.dpsgd._calibration import ADJACENCIES
from pate.exceptions import InvalidInputError
from pate.privacy.budget import Budget
from pate.privacy.convert import gdp_from_budget

KINDS = ("table", "mixed", "image", "features")
SCALES = ("common", "apart", "heavy")
#: Record gradients of a linear model in about a minute of one core.
LINEAR_GRADIENTS = 4_000_000
#: Smaller images are tables of pixels.
_SMALL_IMAGE = 16
#: Excess kurtosis of a column with long tails, as in the rule of record voters.
_HEAVY = 10.0


@dataclass(frozen=True)
class TrainingFacts:
    """The public facts that a recipe is chosen from; nothing here may be counted on private cells.

    Parameters
    ----------
    kind : {"table", "mixed", "image", "features"}
        ``table``: all columns are numbers; ``mixed``: some are categories; ``features``: rows of a representation.
    n_units : int
        Private records, or persons: their true number where it is public (replace-one, zero-out), else the nominal one.
    n_classes : int
    budget : Budget
    n_public : int
        Public rows; 0 where there are none.
    row_shape : tuple of int
        Shape of one row; of images (height, width) or (channels, height, width).
    scale : {"common", "apart", "heavy"}
        Of public columns of numbers: of one unit (as pixels are), of several, or with long tails.
    adjacency : {"replace-one", "add-or-remove", "zero-out"}
    most_gradients : int
        The limit on computing: gradients of single records in all steps together. The default is about a minute of one
        core for a linear model of some hundred columns.
    declared : bool
        Whether a person declared the ranges of the columns, which then stand in for public rows.

    Raises
    ------
    InvalidInputError
        A value out of its range.

    Examples
    --------
    >>> facts = TrainingFacts("image", 51_000, 10, Budget(1.0, 1e-5), n_public=9_000, row_shape=(28, 28))
    >>> round(facts.evidence), round(facts.mu, 3)
    (967, 0.268)
    """

    kind: str
    n_units: int
    n_classes: int
    budget: Budget
    n_public: int = 0
    row_shape: tuple[int, ...] = ()
    scale: str = "apart"
    adjacency: str = "replace-one"
    most_gradients: int = LINEAR_GRADIENTS
    declared: bool = False

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        check_int("n_units", self.n_units, low=1)
        check_int("n_classes", self.n_classes, low=2)
        if not isinstance(self.budget, Budget):
            raise InvalidInputError(
                f"budget must be a pate.Budget, got {type(self.budget).__name__}. Pass Budget(epsilon=1.0, delta=1e-5)."
            )
        check_int("n_public", self.n_public, low=0)
        check_choice("scale", self.scale, SCALES)
        check_choice("adjacency", self.adjacency, ADJACENCIES)
        check_int("most_gradients", self.most_gradients, low=1)

    @property
    def mu(self) -> float:
        """What may be spent in Gaussian differential privacy, for one record that is replaced by another.

        Where neighbours differ in one record's presence a gradient moves the sum by C, not by 2 C: the same budget
        is worth twice the mu.
        """
        twice = 1.0 if self.adjacency == "replace-one" else 2.0
        return twice * gdp_from_budget(self.budget.epsilon, self.budget.delta)

    @property
    def evidence(self) -> float:
        """A class's share of the records over the noise, n mu / (sqrt(2) m): as record voters count it."""
        return self.n_units * self.mu / (self.n_classes * math.sqrt(2))


def facts_of(
    row_shape: tuple[int, ...],
    X_public: Any = None,
    *,
    n_units: int,
    n_classes: int,
    budget: Budget,
    image_shape: tuple[int, ...] | None = None,
    adjacency: str = "replace-one",
    most_gradients: int = LINEAR_GRADIENTS,
    given: bool = False,
) -> TrainingFacts:
    """Return the facts of a data set: the shape of its rows, and what its public rows look like.

    Parameters
    ----------
    row_shape : tuple of int
        Shape of one private row: of a table (columns,), of images as they are handed over.
    X_public : rows or None
    n_units, n_classes, budget, adjacency, most_gradients
        See :class:`TrainingFacts`.
    image_shape : tuple or None
        Of flattened images.
    given : bool
        Whether there is a representation already: rows are then its features.

    Raises
    ------
    InvalidInputError
        Texts or sparse rows, which need a representation of the caller's.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> facts = facts_of((3,), X, n_units=1000, n_classes=2, budget=Budget(1.0, 1e-5))
    >>> facts.kind, facts.n_public, facts.scale
    ('table', 50, 'common')
    """
    shape = tuple(int(n) for n in (image_shape if image_shape is not None else row_shape))
    n_public, kind, scale = 0, "table", "apart"
    if X_public is not None:
        rows = read_rows(X_public, name="X_public")
        n_public = int(np.shape(rows)[0])
        if not given:
            if is_texts(rows) or is_sparse(rows):
                raise InvalidInputError(
                    "X_public holds texts or sparse rows, which no module sees as they are. Say given=True, and pass a "
                    "representation, such as pate.representations.TextMap()."
                )
            numbers = _numbers(rows)
            kind = "mixed" if numbers is None else "table"
            scale = "apart" if numbers is None else _scale_of(numbers)
    if given:
        kind = "features"
    elif len(shape) > 1 and min(shape[-2:]) >= _SMALL_IMAGE:
        kind = "image"
    return TrainingFacts(kind, n_units, n_classes, budget, n_public, shape, scale, adjacency, most_gradients)


def _numbers(rows: Any) -> Any:
    """Return public rows as float64 of shape (n, columns), or None where some columns are categories."""
    if is_frame(rows):
        if any(column.dtype.kind not in "biuf" for _, column in rows.items()):
            return None
        rows = rows.to_numpy(dtype=np.float64, na_value=np.nan)
    if rows.dtype.kind == "O":
        return None
    flat = np.asarray(rows, dtype=np.float64).reshape(len(rows), -1)
    few = [len(np.unique(column[~np.isnan(column)])) <= 2 for column in flat.T]
    # Columns of two values are categories that somebody encoded, or pixels of a border.
    return None if np.ndim(rows) == 2 and np.mean(few) > 0.5 else flat


def _scale_of(rows: Any) -> str:
    with np.errstate(all="ignore"):
        rows = np.where(np.isfinite(rows), rows, np.nan)
        if of_one_unit(rows):
            return "common"
        apart = rows / np.nanmax(np.abs(rows), axis=0, initial=1e-300)
        apart = apart - np.nanmean(apart, axis=0)
        heavy = np.nanmean(apart**4, axis=0) / np.nanmean(apart**2, axis=0) ** 2 - 3 > _HEAVY
    return "heavy" if heavy.mean() > 0.5 else "apart"
