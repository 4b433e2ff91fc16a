"""What a run or a comparison gave, in types: ``Result`` for everybody, ``SensitiveResult`` for the curator alone.

These are the JSON of ``results.json`` and what the reports show. A name that stands in neither is refused, so that what
was made from private votes cannot ride along.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from pate.core.checks import check_choice
from pate.exceptions import InvalidInputError
from pate.privacy.budget import Budget
from pate.report._record import Example, PrivateRecord, Record, Scalar, Setting
from pate.report.rows import Entrant, FitCost, Row
from pate.statement.model import PrivacyStatement


@dataclass(frozen=True, kw_only=True)
class CostLine(Record):
    """Epsilon by number of queries, by one way of accounting."""

    _name = "cost line"
    label: str
    queries: tuple[int, ...]
    epsilon: tuple[float, ...]

    def _check(self) -> None:
        if len(self.queries) != len(self.epsilon):
            raise InvalidInputError(f"{self._name} must have one epsilon for each number of queries.")


@dataclass(frozen=True, kw_only=True)
class Spent(Record):
    """Where a run stopped on its cost curve."""

    _name = "spent"
    queries: int
    epsilon: float


@dataclass(frozen=True, kw_only=True)
class CostCurve(Record):
    """What more queries would cost: constants, known before the first query."""

    _name = "cost curve"
    curves: tuple[CostLine, ...]
    spent: Spent | None = None

    def _check(self) -> None:
        if not self.curves:
            raise InvalidInputError(
                f"{self._name} must have at least one line. Pass cost_curve=None to leave the picture out."
            )


@dataclass(frozen=True, kw_only=True)
class Stated(Record):
    """The statement of one contestant of a comparison at one epsilon, of its first fit."""

    _name = "stated"
    contestant: str
    epsilon: float
    statement: PrivacyStatement


@dataclass(frozen=True, kw_only=True, repr=False)
class Result(Record):
    """What a run or a comparison gave, all of it public: what ``results.json`` holds and ``report.html`` shows.

    Attributes
    ----------
    kind : {"run", "comparison"}
    title : str
    dataset, protocol, description, command, created, commit : str or None
    versions : dict of str to scalar
    classes : tuple of scalars
        Class values in their order.
    settings : dict of str to scalar, or to a tuple of up to 32
    budget : Budget or None
    published : bool
        Whether the private rows are known to the world: only then may rows of ceilings and costs of fits be shown.
    entrants : tuple of Entrant
        Of a comparison.
    rows : tuple of Row
        Empty where nothing was measured.
    fit_costs : tuple of FitCost
        Of published data; without data-dependent epsilons.
    answers_per_class : tuple of int or None
        Released labels that name each of ``classes``.
    cost_curve : CostCurve or None
    examples : tuple of Example
        Of public rows that are images.
    statement : PrivacyStatement or None
        Of a run's release.
    statements : tuple of Stated
        Of a comparison's contestants.
    notes : tuple of str

    Raises
    ------
    InvalidInputError
        A value of another type, or one made from private votes. The error names it and does not show it.

    Examples
    --------
    >>> made = Result(kind="run", title="PATE on digits", rows=[])
    >>> made, Result.from_dict(made.to_dict()) == made
    (Result('PATE on digits'), True)
    >>> Result.from_dict({"kind": "run", "title": "A run", "rows": [], "teacher_accuracy": [0.9]})
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: result has the key 'teacher_accuracy', which no report knows. Allowed: ...
    """

    _name = "result"
    kind: str
    title: str
    dataset: str | None = None
    protocol: str | None = None
    description: str | None = None
    command: str | None = None
    created: str | None = None
    versions: dict[str, Scalar] = field(default_factory=dict)
    commit: str | None = None
    classes: tuple[Scalar, ...] = ()
    settings: dict[str, Setting] = field(default_factory=dict)
    budget: Budget | None = None
    published: bool = False
    entrants: tuple[Entrant, ...] = ()
    rows: tuple[Row, ...] = field(metadata={"remedy": "Pass rows=[] where none were measured."})
    fit_costs: tuple[FitCost, ...] = ()
    answers_per_class: tuple[int, ...] | None = None
    cost_curve: CostCurve | None = None
    examples: tuple[Example, ...] = ()
    statement: PrivacyStatement | None = None
    statements: tuple[Stated, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, result: Self | Mapping[str, Any]) -> Self:
        """Return a result as it is, or read from its JSON values.

        Examples
        --------
        >>> Result.of({"kind": "run", "title": "A run", "rows": []})
        Result('A run')
        """
        return result if isinstance(result, cls) else cls.from_dict(result)  # type: ignore[arg-type]

    def _check(self) -> None:
        check_choice("result['kind']", self.kind, ("run", "comparison"))
        for group in ("versions", "settings"):
            for name in getattr(self, group):
                if name in _PRIVATE_NAMES:
                    raise InvalidInputError(
                        f"result[{group!r}][{name!r}] is made from private votes. Leave it to the sensitive report."
                    )
        if not self.published and (self.fit_costs or any(row.role == "ceiling" for row in self.rows)):
            raise InvalidInputError(
                "result['rows'] and result['fit_costs'] must have no ceiling and no cost unless the private rows are "
                "published: both are private. Leave them to the sensitive report."
            )
        if any(cost.data_dependent_epsilon is not None for cost in self.fit_costs):
            raise InvalidInputError(
                "result['fit_costs'] must have no data-dependent epsilon: it is private. Leave it to the sensitive "
                "report."
            )
        counts = self.answers_per_class
        if counts is not None and len(counts) != len(self.classes):
            raise InvalidInputError(
                f"result['answers_per_class'] must have one count for each of result['classes'], got {len(counts)} "
                f"for {len(self.classes)}. Count every class, 0 too."
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.title!r})"


@dataclass(frozen=True, kw_only=True, repr=False)
class Reference(PrivateRecord):
    """How right a model without privacy is."""

    _name = "reference"
    name: str
    accuracy: float
    seed: int


@dataclass(frozen=True, kw_only=True, repr=False)
class LabelAccuracy(PrivateRecord):
    """Share of one repeat's released labels that are right."""

    _name = "label accuracy"
    accuracy: float
    seed: int


@dataclass(frozen=True, kw_only=True, repr=False)
class Seconds(PrivateRecord):
    """How long a fit took: training may end early by what the private rows are.

    Examples
    --------
    >>> Seconds(name="PATE", seconds=1.5, seed=0)
    Seconds(<sensitive>)
    """

    _name = "seconds"
    name: str
    seconds: float
    seed: int


@dataclass(frozen=True, kw_only=True, repr=False)
class PrivatePrice(PrivateRecord):
    """An epsilon that depends on the votes, and what it may be used for."""

    _name = "price"
    label: str
    epsilon: float
    delta: float
    method: str
    use: str


@dataclass(frozen=True, kw_only=True, repr=False)
class EnsembleCurve(PrivateRecord):
    """How right the vote is when only some teachers are asked; see :func:`pate.teachers.ensemble_curve`."""

    _name = "ensemble curve"
    n_teachers: tuple[int, ...]
    accuracy: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    n_rows: int
    n_draws: int
    clear: tuple[float, ...] | None = None
    margin_noise: float | None = None

    def _check(self) -> None:
        for name in ("n_teachers", "accuracy", "low", "high", "clear"):
            values = getattr(self, name)
            if values is not None and not 0 < len(values) == len(self.n_teachers):
                raise InvalidInputError(
                    f"{self._name}'s {name} must have one value for each number of teachers, at least one."
                )
        if self.clear is not None and self.margin_noise is None:
            raise InvalidInputError(f"{self._name}'s margin_noise must be a finite number beside clear margins.")


@dataclass(frozen=True, kw_only=True, repr=False)
class SensitiveResult(PrivateRecord):
    """What stays with the curator: made from private votes, without noise; what ``sensitive.html`` shows.

    Attributes
    ----------
    references : tuple of Reference
    margins : tuple of int
        For each query of the first repeat, votes of the first class minus those of the second.
    n_teachers : int or None
        Needed beside the margins.
    teacher_accuracy : tuple of float
    ensemble_curve : EnsembleCurve or None
    data_dependent : tuple of PrivatePrice
    label_accuracy : tuple of LabelAccuracy
    seconds : tuple of Seconds
    ceilings : tuple of Row
        Of a comparison: fits without privacy.
    costs : tuple of FitCost
        Of a comparison's fits.
    notes : tuple of str
    """

    _name = "sensitive"
    references: tuple[Reference, ...] = ()
    margins: tuple[int, ...] = ()
    n_teachers: int | None = None
    teacher_accuracy: tuple[float, ...] = ()
    ensemble_curve: EnsembleCurve | None = None
    data_dependent: tuple[PrivatePrice, ...] = ()
    label_accuracy: tuple[LabelAccuracy, ...] = ()
    seconds: tuple[Seconds, ...] = ()
    ceilings: tuple[Row, ...] = ()
    costs: tuple[FitCost, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, sensitive: Self | Mapping[str, Any]) -> Self:
        """Return the curator's numbers as they are, or read from a dictionary."""
        return sensitive if isinstance(sensitive, cls) else cls.from_dict(sensitive)  # type: ignore[arg-type]

    def _check(self) -> None:
        if not self.margins:
            return
        if self.n_teachers is None or self.n_teachers < 1:
            raise InvalidInputError(
                "sensitive['n_teachers'] must be a whole number >= 1 beside the margins. Pass votes.n_teachers."
            )
        if not all(0 <= margin <= self.n_teachers for margin in self.margins):
            raise InvalidInputError(
                "sensitive['margins'] must be votes of the first class minus the second, between 0 and n_teachers. "
                "Take both from the same votes."
            )


#: The number of teachers is a setting, and anybody may take notes.
_PRIVATE_NAMES = frozenset(f.name for f in fields(SensitiveResult)) - {"n_teachers", "notes"}
