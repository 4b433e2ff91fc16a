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
    repeats_needed : int or None
        About how many repeats would tell such a difference from none; None where more repeats alone would not.
    """

    _name = "verdict"
    epsilon: float
    first: str
    second: str
    difference: float
    low: float | None = None
    high: float | None = None
    verdict: str
    repeats_needed: int | None = None

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
        The contestants with the greatest mean of either side.
    by, against : str
        The pair on which the verdict stands, one of each side. Ahead or behind: who is ahead of the whole other side,
        and the rival who comes nearest. Undecided: the greatest mean of all, and a rival it is not told apart from.
    difference : float
        Of ``by`` minus ``against``.
    low, high : float or None
        Its interval.
    verdict : {"ahead", "behind", "undecided"}
        Ahead: some contestant of the side is ahead of every one of the other side.
    repeats_needed : int or None
        As of :class:`Verdict`.
    """

    _name = "side verdict"
    epsilon: float
    side: str
    other: str
    best: str
    best_other: str
    by: str
    against: str
    difference: float
    low: float | None = None
    high: float | None = None
    verdict: str
    repeats_needed: int | None = None

    def _check(self) -> None:
        check_choice(f"{self._name}['verdict']", self.verdict, VERDICTS)


@dataclass(frozen=True, kw_only=True)
class Stretch(Record):
    """Epsilons between which two contestants may be equally right.

    Attributes
    ----------
    low, high : float or None
        Its ends; None where it goes on beyond the epsilons looked at.
    at : tuple of float
        Where the mean difference is zero in it.
    sure : bool
        Whether the curves surely cross in it: one contestant is ahead on its left, the other on its right.
    """

    _name = "stretch"
    low: float | None = None
    high: float | None = None
    at: tuple[float, ...] = ()
    sure: bool = False


@dataclass(frozen=True, kw_only=True)
class Crossing(Record):
    """Where the curves of two contestants cross, on the logarithm of epsilon.

    Attributes
    ----------
    first, second : str
    stretches : tuple of Stretch
        Every crossing lies in one of them; none where one contestant is surely ahead everywhere.
    told : str
        In words.
    """

    _name = "crossing"
    first: str
    second: str
    stretches: tuple[Stretch, ...] = ()
    told: str


@dataclass(frozen=True, kw_only=True)
class Rule(Record):
    """By which rule verdicts were found.

    Attributes
    ----------
    level : float
        With this probability at least no verdict is wrong, of all together (Bonferroni).
    n_between, n_others : int
        Differences looked at between the sides, and between others. Where there are both, four fifths of what may be
        wrong are for the ones, one fifth is for the others.
    n_repeats, least_repeats : int
        Below the least nothing is decided.
    same_rows : bool
        Whether all repeats have the same test rows.
    test_share : float or None
        Else the share of all rows that a repeat draws as its test rows.
    """

    _name = "rule"
    level: float
    n_between: int
    n_others: int
    n_repeats: int
    least_repeats: int
    same_rows: bool
    test_share: float | None = None


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
    side_pairs : tuple of Verdict
        At every epsilon, everyone of the side against everyone of the other.
    crossings : tuple of Crossing
    rule : Rule or None
        None where nothing was decided.
    redraws : {"all rows", "training rows", "nothing"}
        What every repeat draws anew of the data.
    n_pool : int or None
        Rows that a repeat's parts are cut from; None where that is the curator's.
    """

    schema: str = SCHEMA
    bands: tuple[Band, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    side_verdicts: tuple[SideVerdict, ...] = ()
    side_pairs: tuple[Verdict, ...] = ()
    crossings: tuple[Crossing, ...] = ()
    rule: Rule | None = None
    redraws: str = "nothing"
    n_pool: int | None = None

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
        check_choice("result['redraws']", self.redraws, ("all rows", "training rows", "nothing"))
        # A ceiling of private data is not among the rows; nor may its name come in by another door.
        rows = {row.contestant for row in self.rows}
        named = [band.contestant for band in self.bands] + [
            n for v in (*self.verdicts, *self.side_pairs) for n in (v.first, v.second)
        ]
        named += [n for v in self.side_verdicts for n in (v.best, v.best_other, v.by, v.against)]
        named += [n for found in self.crossings for n in (found.first, found.second)]
        if not rows.issuperset(named):
            raise InvalidInputError(
                "result['bands'], ['verdicts'], ['side_verdicts'], ['side_pairs'] and ['crossings'] must name "
                "contestants of result['rows'] alone. Leave what is private to the sensitive report."
            )


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
