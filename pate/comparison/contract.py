"""Define a contestant of a comparison: how it is built, which public facts it may use, how it was tuned."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_choice, check_int
from pate._core.secret import training_seed
from pate.data import Dataset
from pate.exceptions import InvalidInputError
from pate.models.recipes import default_representation, kind_of, scattered, some_rows
from pate.privacy.budget import Budget
from pate.report.result import ROLES, SIDES
from pate.report.scores import ACCURACY, R2, Score
from pate.representations import Representation, cached
from pate.teachers import units_of

__all__ = ["PREDICTS", "Contestant", "Setting", "Tuning", "own_representation", "quick_representation"]

#: What a contestant predicts, and the score that says how well.
PREDICTS: dict[str, Score] = {"classes": ACCURACY, "numbers": R2}

_LABELLED_PATH = (0x1ABE1,)


@dataclass(frozen=True)
class Tuning:
    """How the settings of a compared method were tuned, for the report.

    Attributes
    ----------
    rule : str
        What sets them, per budget.
    n_tried : int or None
        Settings that were tried to find the rule, or by a search; 0 where none was, None where nobody counted.
    on : str
        The data that they were tried on.

    Examples
    --------
    >>> Tuning(
    ...     "its own planner, from public facts",
    ...     n_tried=6,
    ...     on="splits of the training part of digits",
    ... )
    Tuning(rule='its own planner, from public facts', n_tried=6, on='splits of the training part of digits')
    """

    rule: str = ""
    n_tried: int | None = 0
    on: str = ""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The public facts that a method may use before it is fitted; nothing in it depends on a private row.

    Attributes
    ----------
    budget : Budget
        What it may spend; a floor or a ceiling has no use for it.
    classes : tuple
        Class indices; empty where the target is a number.
    X_public : rows
        Public rows of this repeat, unlabelled.
    kind : {"image", "table"}
        Of the data set.
    image_shape : tuple or None
    n_records, n_units : int
        Private records, and units that a guarantee protects: records or persons. Where persons are protected, only a
        ceiling gets the number of records; for all others both numbers are that of the persons.
    unit : {"record", "group"}
    seed : int
        Seed of training in this repeat, the same for all contestants.
    noise_seed : int or None
        For tests: makes noise repeatable, and then nothing is private.
    n_jobs : int or None
    cache : Path or None
        Folder of fitted public maps, shared by all budgets.
    y_public : int64 array of shape (n_public,) or None
        Class indices of public rows labelled by hand, -1 elsewhere (numbers: float64, NaN elsewhere); only for
        contestants that ask for some (:attr:`Contestant.n_public_labels`).
    target_range : (float, float) or None
        For a numeric target: its least and largest value.

    Examples
    --------
    >>> setting = Setting(
    ...     budget=Budget(1.0, 1e-5),
    ...     classes=(0, 1),
    ...     X_public=[[0.0], [1.0]],
    ...     kind="table",
    ...     n_records=90,
    ...     n_units=90,
    ...     seed=7,
    ... )
    >>> setting.unit, setting.image_shape
    ('record', None)
    """

    budget: Budget
    classes: tuple[int, ...]
    X_public: Any
    kind: str
    n_records: int
    n_units: int
    seed: int
    image_shape: tuple[int, ...] | None = None
    unit: str = "record"
    noise_seed: int | None = None
    n_jobs: int | None = None
    cache: Path | None = None
    y_public: npt.NDArray[Any] | None = None
    target_range: tuple[float, float] | None = None

    @classmethod
    def of(
        cls,
        data: Dataset,
        contestant: Contestant,
        *,
        budget: Budget,
        seed: int,
        noise_seed: int | None = None,
        n_jobs: int | None = None,
        cache: Path | None = None,
    ) -> Setting:
        """Return a contestant's setting for a data set: of the private rows it holds only the number of units."""
        n_records = len(data.private.y)
        n_units, unit = units_of(data.private.groups, n_records)
        y_public_of = None
        if contestant.n_public_labels:
            truth = np.asarray(data.public.y_for_evaluation)
            rng = np.random.default_rng(training_seed(seed, *_LABELLED_PATH))
            some = rng.permutation(len(truth))[: contestant.n_public_labels]
            y_public_of = np.full(len(truth), -1, dtype=np.int64) if data.target_range is None else truth * np.nan
            y_public_of[some] = truth[some]
        return cls(
            budget=budget,
            classes=tuple(range(len(data.classes))),
            X_public=data.public.X,
            kind=data.kind,
            # Where persons are protected the number of records depends on them: it is not public.
            n_records=n_records if contestant.role == "ceiling" else n_units,
            n_units=n_units,
            seed=seed,
            image_shape=data.image_shape,
            unit=unit,
            noise_seed=noise_seed,
            n_jobs=n_jobs,
            cache=cache,
            y_public=y_public_of,
            target_range=data.target_range,
        )

    def fitted(self, representation: Representation) -> Any:
        """Return the representation fitted on the public rows, once for all budgets and contestants of a repeat.

        Of more than 20,000 public rows, so many are drawn (:func:`pate.models.recipes.some_rows`). One that no file may
        hold, as it is made of a class of your own, is fitted whenever it is asked for.
        """
        from sklearn.base import clone

        rows = some_rows(self.X_public, self.seed)
        if self.cache is not None:
            with suppress(InvalidInputError):  # whatever else is wrong is wrong again below
                return cached(representation, rows, self.cache)
        return clone(representation).fit(rows)


@dataclass(frozen=True)
class Contestant:
    """A contestant of a comparison: a named method that learns from private and public rows.

    Attributes
    ----------
    name : str
    make : callable
        Takes a :class:`Setting`, returns an unfitted classifier: ``fit(X, y)``, with ``X_public`` and ``groups`` where
        it takes them, ``predict`` and, for calibration, ``predict_proba``. Labels are class indices, or numbers. The
        guarantee in its ``statement_`` is checked against the budget. A floor is given no private row: its ``X`` and
        ``y`` are None.
    role : {"private", "floor", "ceiling"}
    side : {"PATE", "DP-SGD", "other"}
    tuning : Tuning
    sees : str
        What it learns from, for the reader.
    n_public_labels : int
        Public rows, drawn again in every repeat, whose labels it gets, as if labelled by hand.
    predicts : {"classes", "numbers"}

    Raises
    ------
    InvalidInputError
        An empty name, an unknown role or side, or another word for what it predicts.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> floor = Contestant("majority", lambda setting: DummyClassifier(), role="ceiling")
    >>> floor.name, floor.side
    ('majority', 'other')
    """

    name: str
    make: Callable[[Setting], Any]
    role: str = "private"
    side: str = "other"
    tuning: Tuning = Tuning()
    sees: str = "private rows and labels, public rows"
    n_public_labels: int = 0
    predicts: str = "classes"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InvalidInputError(f"name must be text, got {self.name!r}. Name the contestant.")
        if not callable(self.make):
            raise InvalidInputError(
                f"make must be a function of one Setting that returns an unfitted classifier, got {self.make!r}."
            )
        check_choice("role", self.role, ROLES)
        check_choice("side", self.side, SIDES)
        check_choice("predicts", self.predicts, PREDICTS)
        check_int("n_public_labels", self.n_public_labels, low=0)


# The public maps that contestants use, fitted once for all budgets and contestants of a repeat.


def own_representation(setting: Setting) -> Any:
    """Return record voters' default representation, fitted on the public rows of this repeat of a comparison."""
    X, shape = setting.X_public, setting.image_shape
    return setting.fitted(default_representation(kind_of(X, shape), X, image_shape=shape, random_state=setting.seed))


def quick_representation(setting: Setting) -> Any:
    """Return the default representation, except for images of at least 16 x 16 pixels: scattering, which is faster."""
    if kind_of(setting.X_public, setting.image_shape) != "image":
        return own_representation(setting)
    return setting.fitted(scattered(setting.X_public, setting.image_shape))
