"""Tidy rows: one fit of one contestant, measured; who takes part; and what a fit cost, which is the curator's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pate.core.checks import check_choice
from pate.exceptions import InvalidInputError
from pate.report._record import PrivateRecord, Record, is_number

_PROMISED = "A contestant without a guarantee is private: put it into the sensitive report's references."
#: ``private``: keeps its budget. ``floor``: sees no private row. ``ceiling``: sees them without any privacy.
ROLES = ("private", "floor", "ceiling")
#: Whose curves are held against each other.
SIDES = ("PATE", "DP-SGD", "other")


def _promised() -> Any:
    return field(metadata={"remedy": _PROMISED})


@dataclass(frozen=True, kw_only=True)
class GroupScore(Record):
    """How one named group of rows fared: the rows of one value of a public column.

    Attributes
    ----------
    value : str
    n_test : int
        Test rows of the group.
    accuracy : float or None
        On those.
    n_queries : int or None
        Public rows of the group that were asked about; None where nothing is asked.
    answer_rate : float or None
        The share of those that was answered.
    """

    _name = "group score"
    value: str
    n_test: int
    accuracy: float | None
    n_queries: int | None = None
    answer_rate: float | None = None


@dataclass(frozen=True, kw_only=True)
class Row(Record):
    """One fit of one contestant at one budget, measured on the test rows.

    Attributes
    ----------
    contestant : str
    role : {"private", "floor", "ceiling"}
        Only what is ``private`` has an epsilon.
    epsilon, delta : float or None
        What it may cost. None of a floor, which sees no private row, and of a ceiling, which promises nothing.
    repeat : int
        0, 1, ...: the same split for all contestants.
    accuracy : float or None
        Share of the test rows that were classified right. None where the budget was refused.
    balanced_accuracy : float or None
        Mean of the classes' accuracies.
    worst_class_accuracy : float or None
        The least of them.
    class_accuracy : tuple of float or None
        By class, in their order; None of a class without test rows.
    calibration_error : float or None
        Expected calibration error of the predicted class's probability, in 15 bins of equal width (Guo et al. 2017);
        None without ``predict_proba``.
    groups : tuple of GroupScore
        By value of a public column, where one was named.
    queries, answers : int or None
        Public rows asked about and answered; None where nothing is asked.
    class_answers : tuple of int
        Released labels that name each class.
    class_queries : tuple of int
        Rows asked about that truly are of each class.
    class_answer_rate : tuple of float or None
        Of the rows asked about that truly are of a class, the share that was answered; None where none was asked about.
    n_test : int or None
        Test rows.
    seed : int or None
        The contestant's ``random_state``.
    settings : str or None
        What was chosen, public: mechanism, number of teachers, recipe.
    refused : str or None
        Why the budget buys nothing here; then nothing is measured.

    Raises
    ------
    InvalidInputError
        A contestant that promises nothing and does not say so; a fit that is neither measured nor refused.

    Examples
    --------
    >>> Row(contestant="PATE", epsilon=2.0, delta=1e-5, accuracy=0.95, seed=0).to_dict()["answers"] is None
    True
    >>> Row(contestant="public rows alone", role="floor", epsilon=None, delta=None, accuracy=0.1, seed=0).role
    'floor'
    """

    _name = "row"
    contestant: str
    role: str = "private"
    epsilon: float | None = _promised()
    delta: float | None = _promised()
    repeat: int = 0
    accuracy: float | None = _promised()
    balanced_accuracy: float | None = None
    worst_class_accuracy: float | None = None
    class_accuracy: tuple[float | None, ...] = ()
    calibration_error: float | None = None
    groups: tuple[GroupScore, ...] = ()
    queries: int | None = None
    answers: int | None = None
    class_answers: tuple[int, ...] = ()
    class_queries: tuple[int, ...] = ()
    class_answer_rate: tuple[float | None, ...] = ()
    n_test: int | None = None
    seed: int | None
    settings: str | None = None
    refused: str | None = None

    def _check(self) -> None:
        check_choice(f"{self._name}['role']", self.role, ROLES)
        for name in ("epsilon", "delta"):
            if is_number(getattr(self, name)) != (self.role == "private"):
                must = "a finite number" if self.role == "private" else f"None of a {self.role}"
                raise InvalidInputError(f"{self._name}[{name!r}] must be {must}. {_PROMISED}")
        if is_number(self.accuracy) == (self.refused is not None):
            must = "a finite number" if self.refused is None else "None of a fit that was refused"
            raise InvalidInputError(f"{self._name}['accuracy'] must be {must}.")


@dataclass(frozen=True, kw_only=True)
class Entrant(Record):
    """Who takes part in a comparison, for the reader.

    Attributes
    ----------
    name, role, side, sees : str
        Those of :class:`pate.comparison.contract.Contestant`.
    rule, tried_on : str
        By what its settings are set, and the data that they were tried on.
    n_tried : int or None
        How many settings were tried; None: nobody says.
    made_of : str or None
        The classifier with its parameters, where it was given.
    """

    _name = "entrant"
    name: str
    role: str = "private"
    side: str = "other"
    sees: str = ""
    rule: str = ""
    n_tried: int | None = None
    tried_on: str = ""
    made_of: str | None = None

    def _check(self) -> None:
        check_choice(f"{self._name}['role']", self.role, ROLES)
        check_choice(f"{self._name}['side']", self.side, SIDES)


@dataclass(frozen=True, kw_only=True, repr=False)
class FitCost(PrivateRecord):
    """What one fit cost: **sensitive** unless the data are published, as training may end early by its private rows.

    Attributes
    ----------
    contestant, epsilon, repeat
        Which fit.
    data_dependent_epsilon : float or None
        What the released labels cost by the votes themselves, at the budget's delta: sensitive always. None where no
        teachers' votes are kept, or the mechanism has no exact law.
    startup_seconds : float
        Imports, and what public rows teach (representations).
    training_seconds, labelling_seconds, predicting_seconds : float
        The private models; votes, noise and the student; the test rows.
    peak_mib, gpu_peak_mib : float or None
        The most memory that the process held (all of it, not the fit's part alone); the GPU's part.

    Examples
    --------
    >>> FitCost(contestant="PATE", epsilon=1.0, repeat=0)
    FitCost(<sensitive>)
    """

    _name = "fit cost"
    contestant: str
    epsilon: float | None
    repeat: int
    data_dependent_epsilon: float | None = None
    startup_seconds: float = 0.0
    training_seconds: float = 0.0
    labelling_seconds: float = 0.0
    predicting_seconds: float = 0.0
    peak_mib: float | None = None
    gpu_peak_mib: float | None = None

    @property
    def key(self) -> tuple[str, float | None, int]:
        """Which fit of the comparison this is.

        Examples
        --------
        >>> FitCost(contestant="PATE", epsilon=1.0, repeat=0).key
        ('PATE', 1.0, 0)
        """
        return self.contestant, self.epsilon, self.repeat
