"""How often a released model is right, as a statement tells it: measured with noise, corrected, with its interval."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pate.exceptions import InvalidInputError
from pate.statement.plain import LARGEST, check_keys, check_number, check_text, check_whole

#: Of whom the accuracy is told, by the statement's unit.
OF_UNIT = {"record": "the private records", "group": "the private persons' records (each person counts as one)"}
#: Classes that a statement tells of at most.
MOST_CLASSES = 10_000


@dataclass(frozen=True, kw_only=True)
class ClassRecall:
    """How many records of one class the model is right about; nothing where noise leaves too little to tell.

    Parameters
    ----------
    name : str
        The class.
    estimate, low, high : float or None
        Shares; all None where the class's noisy count is too small.

    Examples
    --------
    >>> print(ClassRecall(name="yes", estimate=0.8, low=0.7, high=0.9))
    yes 80.0% (70.0 to 90.0)
    >>> print(ClassRecall(name="no"))
    no: too few to tell
    """

    name: str
    estimate: float | None = None
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        check_text("a measured class's name", self.name)
        given = (self.low, self.estimate, self.high)
        if any(value is not None for value in given):
            _check_interval(self, f"recall of {self.name[:40]!r}")

    def __str__(self) -> str:
        if self.estimate is None or self.low is None or self.high is None:
            return f"{self.name}: too few to tell"
        return f"{self.name} {self.estimate:.1%} ({100 * self.low:.1f} to {100 * self.high:.1f})"


@dataclass(frozen=True, kw_only=True)
class MeasuredAccuracy:
    """How often a released model is right: counted on the private records with noise, and corrected. Public.

    An estimate, not a fact about the records: of what the model reaches on records drawn as the private ones were,
    though it was measured on those that it learnt from (:func:`pate.release.corrected`).

    Parameters
    ----------
    estimate, low, high : float
        Share of records that the model is right about, and its interval. With persons as units the mean over persons of
        that share.
    level : float
        Share of such intervals that hold the true one.
    unit : {"record", "group"}
    n : int or None
        Units that were counted over; None where their number is private, and was counted with noise too.
    counted : float
        The noisy share before the correction. May lie outside 0 to 1.
    correction : float
        What was taken off it.
    sigma : float
        Standard deviation of the noise on every count, in units.
    share : float
        Part of the release's mu^2 that all counts cost; of one that is no Gaussian, mu^2 of the counts over that which
        the budget alone would buy.
    by_class : tuple of ClassRecall
        Empty where no cells by class were asked for.

    Raises
    ------
    InvalidInputError
        A number out of its range.

    Examples
    --------
    >>> told = MeasuredAccuracy(estimate=0.873, low=0.861, high=0.885, unit="record", n=9000, counted=0.88,
    ...     correction=0.007, sigma=18.7, share=0.04)
    >>> print(told)
    right on 87.3% of the private records, 86.1 to 88.5 (95%)
    >>> MeasuredAccuracy.from_dict(told.to_dict()) == told
    True
    """

    estimate: float
    low: float
    high: float
    unit: str
    n: int | None
    counted: float
    correction: float
    sigma: float
    share: float
    level: float = 0.95
    by_class: tuple[ClassRecall, ...] = ()

    def __post_init__(self) -> None:
        _check_interval(self, "measured accuracy")
        if self.unit not in OF_UNIT:
            raise InvalidInputError(f"measured unit must be one of {', '.join(OF_UNIT)}. Say what was counted.")
        if self.n is not None:
            object.__setattr__(self, "n", check_whole("measured n", self.n, low=1))
        for name, low, high in (
            ("counted", -LARGEST, LARGEST),
            ("correction", -1, 1),
            ("sigma", 0, LARGEST),
            ("share", 0, 1),
            ("level", 0.5, 1),
        ):
            object.__setattr__(self, name, check_number(f"measured {name}", getattr(self, name), low=low, high=high))
        held = self.by_class
        if not isinstance(held, tuple | list) or len(held) > MOST_CLASSES:
            raise InvalidInputError(f"measured by_class must list at most {MOST_CLASSES} classes, each a ClassRecall.")
        if not all(isinstance(one, ClassRecall) for one in held):
            raise InvalidInputError("measured by_class must list ClassRecall, one per class. Make them of its names.")
        object.__setattr__(self, "by_class", tuple(held))

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        return (
            f"right on {self.estimate:.1%} of {OF_UNIT[self.unit]}, {100 * self.low:.1f} to {100 * self.high:.1f} "
            f"({self.level:.0%})"
        )

    def rows(self) -> tuple[str, ...]:
        """Return what a statement says of it: the measurement, what it is, and one line per class.

        Examples
        --------
        >>> told = MeasuredAccuracy(estimate=0.5, low=0.4, high=0.6, unit="record", n=900, counted=0.5,
        ...     correction=0.0, sigma=18.7, share=0.04)
        >>> len(told.rows())
        2
        """
        of = "" if self.n is None else f" of {self.n:,}"
        what = (
            f"an estimate: a count{of} with Gaussian noise of standard deviation {self.sigma:.4g}, paid for within the "
            f"same guarantee ({self.share:.2g} of its mu^2); corrected by {100 * self.correction:.1f} points for being "
            "measured on records that the model learnt from, so that it speaks of others drawn alike"
        )
        return str(self), what, *(f"right about class {one}" for one in self.by_class)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {**asdict(self), "by_class": [asdict(one) for one in self.by_class]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> MeasuredAccuracy:
        """Return the measurement behind its dictionary, strictly.

        Raises
        ------
        InvalidInputError
            An entry is unknown, missing or of another kind.

        Examples
        --------
        >>> MeasuredAccuracy.from_dict({"estimate": 0.9})
        Traceback (most recent call last):
        pate.exceptions.InvalidInputError: the statement's measured lacks 'low'. It must have: estimate, low, ...
        """
        check_keys("the statement's measured", values, _KEYS)
        held = values["by_class"]
        if isinstance(held, str) or not isinstance(held, tuple | list):
            raise InvalidInputError(
                "the statement's measured by_class must be a list. Ask for the file as it was made."
            )
        keys = ["name", "estimate", "low", "high"]
        told = tuple(ClassRecall(**check_keys(f"by_class[{i}]", one, keys)) for i, one in enumerate(held))
        return cls(**{**values, "by_class": told})


_KEYS = tuple(MeasuredAccuracy.__dataclass_fields__)


def check_measured(value: Any) -> MeasuredAccuracy | None:
    """Return a statement's measured accuracy, given as such or as its dictionary.

    Examples
    --------
    >>> check_measured(None)
    >>> check_measured(0.9)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: the statement's measured must be a dictionary, got 0.9. Pass what the file holds.
    """
    return value if value is None or isinstance(value, MeasuredAccuracy) else MeasuredAccuracy.from_dict(value)


def _check_interval(held: Any, name: str) -> None:
    for part in ("low", "estimate", "high"):
        value = check_number(f"{name} {part}", getattr(held, part), low=0, high=1)
        object.__setattr__(held, part, value)
    if not (held.low <= held.estimate <= held.high and math.isfinite(held.estimate)):
        raise InvalidInputError(f"{name} must have low <= estimate <= high. Ask for the file as it was written.")
