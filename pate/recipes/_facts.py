"""What a rule may look at: numbers that are public before any private record is read."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pate.core.checks import check_choice, check_int, check_real, shown
from pate.exceptions import InvalidInputError

KINDS = ("table", "mixed", "image", "glyph", "text")
ADJACENCIES = ("replace-one", "add-or-remove")
#: A component whose public variance is below this share of the largest one's is rounding.
_LEAST_VARIANCE = 1e-6


@dataclass(frozen=True)
class PublicFacts:
    """The public facts that a recipe is chosen from; nothing here may be counted on private cells.

    Parameters
    ----------
    n_units : int
        How many private records (persons, where they are protected) vote. Public where neighbours replace one; else
        the nominal number.
    n_classes : int
        At least 2.
    mu : float
        What may be spent, as Gaussian differential privacy: all rounds together.
    n_public : int
        Public rows, which fit the representation and carry the head; 0 where there are none.
    kind : {"table", "mixed", "image", "glyph", "text"}
        ``table``: all columns are numbers; ``mixed``: some are categories; ``glyph``: images made of strokes.
    spectrum : sequence of float or None
        Variances of the representation's components over the public rows.
    adjacency : {"replace-one", "add-or-remove"}

    Raises
    ------
    InvalidInputError
        A value out of its range.

    Examples
    --------
    >>> facts = PublicFacts(n_units=10_000, n_classes=10, mu=0.14, n_public=2_000)
    >>> round(facts.evidence)
    99
    >>> PublicFacts(n_units=10_000, n_classes=1, mu=0.14, n_public=2_000)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: n_classes must be a whole number >= 2, got 1.
    """

    n_units: int
    n_classes: int
    mu: float
    n_public: int
    kind: str = "table"
    spectrum: tuple[float, ...] | None = None
    adjacency: str = "replace-one"

    def __post_init__(self) -> None:
        check_int("n_units", self.n_units, low=1)
        check_int("n_classes", self.n_classes, low=2)
        check_real("mu", self.mu, low=0, low_open=True)
        check_int("n_public", self.n_public, low=0)
        check_choice("kind", self.kind, KINDS)
        check_choice("adjacency", self.adjacency, ADJACENCIES)
        object.__setattr__(self, "spectrum", _variances(self.spectrum))

    @property
    def evidence(self) -> float:
        """A class's share of the ballots over the noise on one cell: n mu / (m Delta), Delta that of a soft ballot.

        Records and budget count through this product alone: twice the records are worth twice the mu.
        """
        delta = math.sqrt(2) if self.adjacency == "replace-one" else math.sqrt(1 - 1 / self.n_classes)
        return self.n_units * self.mu / (self.n_classes * delta)

    @property
    def most_components(self) -> int:
        """How many components public rows can tell apart: half of their number, and no rounding."""
        half = max(self.n_public // 2, 1)
        if self.spectrum is None:
            return half
        return min(half, sum(v > _LEAST_VARIANCE * max(self.spectrum) for v in self.spectrum))


def _variances(spectrum: Iterable[float] | None) -> tuple[float, ...] | None:
    if spectrum is None:
        return None
    try:
        values = np.asarray(tuple(spectrum), dtype=float)
    except (TypeError, ValueError):
        raise InvalidInputError(f"spectrum must hold public variances, got {shown(spectrum)}.") from None
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all() or (values < 0).any() or not values.any():
        raise InvalidInputError(
            f"spectrum must hold at least one public variance, finite, none negative and not all 0, got "
            f"{shown(values)}. Take None where there is none."
        )
    return tuple(values.tolist())
