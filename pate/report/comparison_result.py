"""What a comparison gave, in types: who is ahead and how sure that is, and what every contestant is.

Verdicts, bands and crossings are computed once, from which test rows every fit had right
(:mod:`pate.comparison.statistics`); what stands here is their outcome, and the pages compute none of it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pate.core.checks import check_choice
from pate.exceptions import InvalidInputError
from pate.report._record import Record
from pate.report.result import Result

#: The version of ``results.json``; ``_templates/comparison.schema.json`` describes it.
SCHEMA = "pate-comparison-1"
#: What may be said of one contestant against another.
VERDICTS = ("ahead", "behind", "undecided")


@dataclass(frozen=True, kw_only=True)
class Band(Record):
    """How right a contestant is at one epsilon, and how far that can be trusted.

    Attributes
    ----------
    contestant : str
    epsilon : float or None
        None for floors and ceilings, which have no use for a budget.
    mean : float
        Accuracy over the repeats.
    low, high : float or None
        Of the accuracy itself; None where one repeat says nothing.
    paired_low, paired_high : float or None
        Without what the repeats have in common: where these of two contestants are apart, so are they.
    n_repeats : int

    Examples
    --------
    >>> Band(contestant="PATE", epsilon=1.0, mean=0.9, n_repeats=1).low is None
    True
    """

    _name = "band"
    contestant: str
    epsilon: float | None = None
    mean: float
    low: float | None = None
    high: float | None = None
    paired_low: float | None = None
    paired_high: float | None = None
    n_repeats: int


@dataclass(frozen=True, kw_only=True)
class Verdict(Record):
    """Two contestants at one epsilon: the difference of their accuracies, first minus second, and its interval.

    Attributes
    ----------
    epsilon : float
    first, second : str
    difference : float
        A share of 1.
    low, high : float or None
        None where there are too few repeats for an interval.
    verdict : {"ahead", "behind", "undecided"}
        Of the first.

    Examples
    --------
    >>> Verdict(epsilon=1.0, first="PATE", second="DP-SGD", difference=0.03, low=0.01, high=0.05, verdict="better")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: verdict['verdict'] must be one of 'ahead', 'behind', 'undecided', ...
    """

    _name = "verdict"
    epsilon: float
    first: str
    second: str
    difference: float
    low: float | None = None
    high: float | None = None
    verdict: str

    def _check(self) -> None:
        check_choice(f"{self._name}['verdict']", self.verdict, VERDICTS)


@dataclass(frozen=True, kw_only=True)
class SideVerdict(Record):
    """One side against another at one epsilon: the best of each by its mean, and what may be said of the sides.

    Attributes
    ----------
    epsilon : float
    side, other : str
    best, best_other : str
        Contestants.
    difference : float
        Of these two, first minus second.
    low, high : float or None
        Its interval.
    verdict : {"ahead", "behind", "undecided"}
        Ahead: some contestant of the side is ahead of every one of the other side.

    Examples
    --------
    >>> SideVerdict(epsilon=1.0, side="PATE", other="DP-SGD", best="records", best_other="linear", difference=0.02,
    ...             verdict="undecided").low is None
    True
    """

    _name = "side verdict"
    epsilon: float
    side: str
    other: str
    best: str
    best_other: str
    difference: float
    low: float | None = None
    high: float | None = None
    verdict: str

    def _check(self) -> None:
        check_choice(f"{self._name}['verdict']", self.verdict, VERDICTS)


@dataclass(frozen=True, kw_only=True)
class Crossing(Record):
    """Where the curves of two contestants cross, on the logarithm of epsilon.

    Attributes
    ----------
    first, second : str
    epsilon : float or None
        None where they do not cross between the epsilons looked at.
    low, high : float or None
        Its interval; None where it is open at that end.
    told : str
        In words.

    Examples
    --------
    >>> Crossing(first="PATE", second="DP-SGD", told="PATE is ahead at every epsilon looked at").epsilon is None
    True
    """

    _name = "crossing"
    first: str
    second: str
    epsilon: float | None = None
    low: float | None = None
    high: float | None = None
    told: str = ""


@dataclass(frozen=True, kw_only=True)
class Rule(Record):
    """By which rule the verdicts were found.

    Attributes
    ----------
    level : float
        All verdicts together are right with this probability.
    looks : int
        Differences looked at, for which the level is corrected.
    n_repeats, repeats_needed : int
        Below the repeats needed nothing is decided.
    correction, includes, source : str
        How the level is corrected, what the intervals include, and who showed it.

    Examples
    --------
    >>> Rule(level=0.95, looks=4, n_repeats=5, repeats_needed=3).looks
    4
    """

    _name = "rule"
    level: float
    looks: int
    n_repeats: int
    repeats_needed: int
    correction: str = ""
    includes: str = ""
    source: str = ""


@dataclass(frozen=True, kw_only=True, repr=False)
class ComparisonResult(Result):
    """What a comparison gave, all of it public: what its ``results.json`` holds and its ``report.html`` shows.

    Attributes
    ----------
    schema : str
        ``"pate-comparison-1"``.
    bands : tuple of Band
    verdicts : tuple of Verdict
        At every epsilon, the leader by mean against each rival.
    side_verdicts : tuple of SideVerdict
    crossings : tuple of Crossing
    rule : Rule or None
        None where nothing was decided.
    redraws : {"all rows", "training rows", "nothing"}
        What every repeat draws anew of the data.

    Examples
    --------
    >>> made = ComparisonResult(kind="comparison", title="PATE on digits", rows=[])
    >>> made.schema, ComparisonResult.from_dict(made.to_dict()) == made
    ('pate-comparison-1', True)
    """

    schema: str = SCHEMA
    bands: tuple[Band, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    side_verdicts: tuple[SideVerdict, ...] = ()
    crossings: tuple[Crossing, ...] = ()
    rule: Rule | None = None
    redraws: str = "nothing"

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The budgets, ascending.

        Examples
        --------
        >>> ComparisonResult(kind="comparison", title="t", rows=[]).epsilons
        ()
        """
        return tuple(sorted({row.epsilon for row in self.rows if row.epsilon is not None}))

    def _check(self) -> None:
        super()._check()
        if self.schema != SCHEMA:
            raise InvalidInputError(
                f"result['schema'] must be {SCHEMA!r}. Another version of pate wrote this; read it with that one."
            )
        check_choice("result['kind']", self.kind, ("comparison",))


def typed(result: Result | Mapping[str, Any]) -> Result:
    """Return a result of the class that its JSON belongs to.

    Examples
    --------
    >>> type(typed({"kind": "comparison", "schema": SCHEMA, "title": "A", "rows": []})).__name__
    'ComparisonResult'
    >>> type(typed({"kind": "run", "title": "A", "rows": []})).__name__
    'Result'
    """
    if isinstance(result, Result):
        return result
    return (ComparisonResult if "schema" in result else Result).of(result)
