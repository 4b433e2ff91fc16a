"""Result records: one row for each measured fit, the contestants, and what fits cost (for the curator alone)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from pate._core.checks import check_choice
from pate.exceptions import InvalidInputError
from pate.privacy.budget import Budget
from pate.release.statement.model import PrivacyStatement
from pate.report._record import Example, PrivateRecord, Record, Scalar, Setting, is_number, one_of, rare
from pate.report.scores import ACCURACY, SCORES, Score

_PROMISED = "A contestant without a guarantee is private: put it into the sensitive report's references."
#: ``private``: keeps its budget. ``floor``: sees no private row. ``ceiling``: sees them without any privacy.
ROLES = ("private", "floor", "ceiling")
#: Whose curves are held against each other.
SIDES = ("PATE", "DP-SGD", "other")


_Item = TypeVar("_Item")
_Key = TypeVar("_Key")


def gathered(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    """Gather what has the same key, in order of appearance."""
    found: dict[_Key, list[_Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def _promised() -> Any:
    return field(metadata={"remedy": _PROMISED})


@dataclass(frozen=True, kw_only=True)
class GroupScore(Record):
    """How one named group of rows fared: the rows of one value of a public column."""

    _name = "group score"
    value: str
    n_test: int  # test rows of the group
    accuracy: float | None  # on those
    n_queries: int | None = None  # public rows of the group that were asked about; None where nothing is asked
    answer_rate: float | None = None  # the share of those that was answered


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
        Share of the test rows that were classified right. None where the budget was refused, and of numbers.
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
    r2, mean_absolute_error : float or None
        Of a numeric target, on the test rows, the latter in the target's unit. Not in JSON where the target is classes.

    Raises
    ------
    InvalidInputError
        A contestant that promises nothing and does not say so; a fit that is neither measured nor refused.

    Examples
    --------
    >>> Row(contestant="PATE", epsilon=2.0, delta=1e-5, accuracy=0.95, seed=0).to_dict()[
    ...     "answers"
    ... ] is None
    True
    >>> Row(
    ...     contestant="public rows alone",
    ...     role="floor",
    ...     epsilon=None,
    ...     delta=None,
    ...     accuracy=0.1,
    ...     seed=0,
    ... ).role
    'floor'
    """

    _name = "row"
    contestant: str
    role: str = one_of(ROLES, default="private")
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
    r2: float | None = rare()
    mean_absolute_error: float | None = rare()

    @property
    def score(self) -> float | None:
        """What verdicts are about: R2 of a numeric target, else the accuracy."""
        return self.accuracy if self.r2 is None else self.r2

    def _check(self) -> None:
        for name in ("epsilon", "delta"):
            if is_number(getattr(self, name)) != (self.role == "private"):
                must = "a finite number" if self.role == "private" else f"None of a {self.role}"
                raise InvalidInputError(f"{self._name}[{name!r}] must be {must}. {_PROMISED}")
        if is_number(self.score) == (self.refused is not None):
            must = "a finite number" if self.refused is None else "None of a fit that was refused"
            raise InvalidInputError(f"{self._name}['accuracy'] must be {must}.")


@dataclass(frozen=True, kw_only=True)
class Entrant(Record):
    """Who takes part in a comparison, for the reader."""

    _name = "entrant"
    name: str  # as role, side and sees: of :class:`pate.comparison.contract.Contestant`
    role: str = one_of(ROLES, default="private")
    side: str = one_of(SIDES, default="other")
    sees: str = ""
    rule: str = ""  # by what its settings are set, and the data that they were tried on
    n_tried: int | None = None  # how many settings were tried; None: not stated
    tried_on: str = ""
    made_of: str | None = None  # the classifier with its parameters, where it was given


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
        """Which fit of the comparison this is."""
        return self.contestant, self.epsilon, self.repeat

    @property
    def seconds(self) -> float:
        """How long its training and labelling took."""
        return self.training_seconds + self.labelling_seconds


# What a run or a comparison gave, in types: ``Result`` for the public, ``SensitiveResult`` for the curator alone.


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
    >>> Result.from_dict(
    ...     {"kind": "run", "title": "A run", "rows": [], "teacher_accuracy": [0.9]}
    ... )
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: result has the key 'teacher_accuracy', which no report knows. Allowed: ...
    """

    _name = "result"
    kind: str = one_of(("run", "comparison"))
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

    def _check(self) -> None:
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
    """What stays with the curator: made from private votes, without noise; what ``sensitive.html`` shows."""

    _name = "sensitive"
    references: tuple[Reference, ...] = ()
    #: For each query of the first repeat, votes of the first class minus those of the second.
    margins: tuple[int, ...] = ()
    n_teachers: int | None = None  # needed beside the margins
    teacher_accuracy: tuple[float, ...] = ()
    ensemble_curve: EnsembleCurve | None = None
    data_dependent: tuple[PrivatePrice, ...] = ()
    label_accuracy: tuple[LabelAccuracy, ...] = ()
    seconds: tuple[Seconds, ...] = ()
    ceilings: tuple[Row, ...] = ()  # of a comparison: fits without privacy
    costs: tuple[FitCost, ...] = ()  # of a comparison's fits
    notes: tuple[str, ...] = ()

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


#: The number of teachers is a setting, and anyone may take notes.
_PRIVATE_NAMES = frozenset(f.name for f in fields(SensitiveResult)) - {"n_teachers", "notes"}


# What a comparison gave, in types: who is ahead and how sure that is, and what every contestant is.

#: The version of ``results.json``; ``_templates/comparison.schema.json`` describes it.
SCHEMA = "pate-comparison-1"
#: What may be said of one contestant against another.
VERDICTS = ("ahead", "behind", "undecided")


@dataclass(frozen=True, kw_only=True)
class Band(Record):
    """How good a contestant is at one epsilon, and how far that can be trusted."""

    _name = "band"
    contestant: str
    epsilon: float | None = None  # None for floors and ceilings, which have no use for a budget
    mean: float  # score over the repeats
    low: float | None = None  # of the score itself; None where one repeat says nothing
    high: float | None = None
    #: Without what the repeats have in common: where these of two contestants are apart, so are they.
    paired_low: float | None = None
    paired_high: float | None = None
    n_repeats: int


@dataclass(frozen=True, kw_only=True)
class Verdict(Record):
    """Two contestants at one epsilon: the difference of their scores, first minus second, and its interval."""

    _name = "verdict"
    epsilon: float
    first: str
    second: str
    difference: float  # a share of 1
    low: float | None = None  # None where there are too few repeats for an interval
    high: float | None = None
    verdict: str = one_of(VERDICTS)  # of the first
    #: About how many repeats would tell such a difference from none; None where more repeats alone would not.
    repeats_needed: int | None = None


@dataclass(frozen=True, kw_only=True)
class SideVerdict(Record):
    """One side against another at one epsilon: the best of each by its mean, and what may be said of the sides."""

    _name = "side verdict"
    epsilon: float
    side: str
    other: str
    best: str  # the contestants with the greatest mean of either side
    best_other: str
    #: The pair on which the verdict stands, one of each side. Ahead or behind: who is ahead of the whole other
    #: side, and the nearest alternative. Undecided: the greatest mean of all, and an alternative
    #: from which it is not distinguished.
    by: str
    against: str
    difference: float  # of ``by`` minus ``against``
    low: float | None = None  # its interval
    high: float | None = None
    #: Ahead: some contestant of the side is ahead of every one of the other side.
    verdict: str = one_of(VERDICTS)
    repeats_needed: int | None = None  # as of :class:`Verdict`


@dataclass(frozen=True, kw_only=True)
class Stretch(Record):
    """Epsilons between which two contestants may be equally right."""

    _name = "stretch"
    low: float | None = None  # its ends; None where it goes on beyond the epsilons looked at
    high: float | None = None
    at: tuple[float, ...] = ()  # where the mean difference is zero in it
    #: Whether the curves surely cross in it: one contestant is ahead on its left, the other on its right.
    sure: bool = False


@dataclass(frozen=True, kw_only=True)
class Crossing(Record):
    """Where the curves of two contestants cross, on the logarithm of epsilon."""

    _name = "crossing"
    first: str
    second: str
    #: Every crossing lies in one of them; none where one contestant is surely ahead everywhere.
    stretches: tuple[Stretch, ...] = ()
    told: str  # in words


@dataclass(frozen=True, kw_only=True)
class Rule(Record):
    """By which rule verdicts were found."""

    _name = "rule"
    level: float  # with this probability at least no verdict is wrong, of all together (Bonferroni)
    #: Differences looked at between the sides, and between others. Where there are both, four fifths of what may
    #: be wrong are for the ones, one fifth is for the others.
    n_between: int
    n_others: int
    n_repeats: int  # below the least nothing is decided
    least_repeats: int
    same_rows: bool  # whether all repeats have the same test rows
    test_share: float | None = None  # else the share of all rows that a repeat draws as its test rows


@dataclass(frozen=True, kw_only=True, repr=False)
class ComparisonResult(Result):
    """What a comparison gave, all of it public: what its ``results.json`` holds and its ``report.html`` shows.

    Attributes
    ----------
    schema : str
        ``"pate-comparison-1"``.
    bands : tuple of Band
    verdicts : tuple of Verdict
        At every epsilon, the leader by mean against each alternative.
    side_verdicts : tuple of SideVerdict
    side_pairs : tuple of Verdict
        At every epsilon, everyone of the side against everyone of the other.
    crossings : tuple of Crossing
    rule : Rule or None
        None where nothing was decided.
    redraws : {"all rows", "training rows", "nothing"}
        What every repeat draws again of the data.
    n_pool : int or None
        Rows that a repeat's parts are cut from; None where that is the curator's.
    score : {"accuracy", "R2"}
        What means, bands and verdicts are about. Not in JSON where it is the accuracy.
    """

    schema: str = SCHEMA
    bands: tuple[Band, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    side_verdicts: tuple[SideVerdict, ...] = ()
    side_pairs: tuple[Verdict, ...] = ()
    crossings: tuple[Crossing, ...] = ()
    rule: Rule | None = None
    redraws: str = one_of(("all rows", "training rows", "nothing"), default="nothing")
    n_pool: int | None = None
    score: str = one_of(tuple(SCORES), is_rare=True, default=ACCURACY.name)

    @property
    def scale(self) -> Score:
        """The score, with its limits and how it is printed."""
        return SCORES[self.score]

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The budgets, ascending."""
        return tuple(sorted({row.epsilon for row in self.rows if row.epsilon is not None}))

    def _check(self) -> None:
        super()._check()
        if self.schema != SCHEMA:
            raise InvalidInputError(
                f"result['schema'] must be {SCHEMA!r}. Another version of pate wrote this; read it with that one."
            )
        check_choice("result['kind']", self.kind, ("comparison",))
        # A ceiling of private data is not among the rows; nor may its name come in by another field.
        named = {band.contestant for band in self.bands}
        pairs: tuple[Any, ...] = (*self.verdicts, *self.side_pairs, *self.crossings)
        named |= {n for v in pairs for n in (v.first, v.second)}
        named |= {n for v in self.side_verdicts for n in (v.best, v.best_other, v.by, v.against)}
        if not named <= {row.contestant for row in self.rows}:
            raise InvalidInputError(
                "result['bands'], ['verdicts'], ['side_verdicts'], ['side_pairs'] and ['crossings'] must name "
                "contestants of result['rows'] alone. Leave what is private to the sensitive report."
            )


def typed(result: Result | Mapping[str, Any]) -> Result:
    """Return a result of the class that its JSON belongs to."""
    if isinstance(result, Result):
        return result
    return (ComparisonResult if "schema" in result else Result).from_dict(result)
