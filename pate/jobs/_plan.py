"""Plans: what a job will do and what it will cost, known before anything is trained."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from pate.data import file_of
from pate.ledger import Ledger
from pate.mechanisms import GaussianSum, Mechanism
from pate.models.recipes import Recipe
from pate.privacy.budget import Budget
from pate.privacy.cost import Charge
from pate.privacy.words import Guarantee
from pate.release import SHARE, Quote, counted
from pate.release.statement.fields import TierGuarantee


def about_total(ledger: Ledger | None, cost: Charge, records: Any, budget: Budget) -> str:
    """Say what a release takes of the total of these records, before it is charged; "" where no ledger counts it.

    ``records`` is the path that the ledger is of, ``budget`` the total if this is the first charge. Shares are of the
    ledger's limit in its accounting unit: epsilons do not add up to their total.
    """
    if ledger is None or cost == Charge.zero():
        return ""
    before, name = ledger.remaining(default_total=budget), file_of(records).name
    terms = None if before.opening is None else before.opening.terms_for(cost)
    if before.opening is None or terms is None or before.total is None:
        return ""
    price = terms.currency.price(cost)
    prices = (*before.prices, price)
    after = replace(before, opening=replace(before.opening, terms=terms), prices=prices)
    if ledger.total is None:
        takes = "all" if after.fraction_left < _NOTHING else f"{100 * price / terms.limit:.3g}%"
        begin = shlex.join(["pate", "ledger", "begin", str(ledger.path), "--epsilon", "TOTAL", "--delta"])
        return (
            f"This is the first release from {name}: it sets their total to epsilon {budget.epsilon:g} for good, and "
            f"spends {takes} of it. For a larger total: {begin} {budget.delta:g}"
        )
    more = f"{100 * after.fraction_left:.3g}%, one more release of up to epsilon {after.epsilon_left:.3g}"
    rest = "nothing of use" if after.fraction_left < _NOTHING else more
    return (
        f"Of the total of {name}, epsilon {before.total.epsilon:g}, {100 - 100 * before.fraction_left:.3g}% is spent; "
        f"this takes {100 * price / terms.limit:.3g}% and leaves {rest}."
    )


#: So little of a limit buys nothing.
_NOTHING = 5e-4


def measures_line(counts: Sequence[GaussianSum], n_units: int) -> tuple[str, str]:
    """Return what a plan says of counts of right answers; nothing where there are none."""
    if not counts:
        return "measures", ""
    points = 196 * counts[0].noise_multiplier / n_units
    cells = " and recall by class" if len(counts) > 1 else ""
    cost = f"{SHARE * len(counts):.3g} of the budget (mu^2)"
    return "measures", f"how often the model is right{cells}, to +-{points:.2g} percentage points, for {cost}"


@dataclass(frozen=True, eq=False, kw_only=True)
class JobPlan:
    """The base of all plans; ``odd`` are columns with a remark on how they are used."""

    n_public: int
    unit: str
    odd: tuple[str, ...] = ()
    #: A warning where labels may be of little use, or nobody knows: what ``pate label --quiet`` prints in any case.
    caution: ClassVar[str] = ""
    #: What this takes of the total of all releases, see :func:`about_total`.
    total: str = ""

    def _spends(self) -> str:
        raise NotImplementedError

    def _price(self) -> list[tuple[str, str]]:
        """Return the last lines of every plan."""
        return [("will spend", self._spends()), ("total", self.total)]

    def text(self, *, brief: bool = False) -> str:
        """Return the plan line by line; ``brief``: of columns only the odd ones, and no reasons."""
        found = self.lines()
        if brief:
            shortened = {"columns": "\n".join(self.odd), "chosen": ""}
            found = [(name, shortened.get(name, value)) for name, value in found]
        return "\n".join(f"{name:<11}" + value.replace("\n", "\n" + " " * 11) for name, value in found if value)

    def lines(self) -> list[tuple[str, str]]:
        """Return what will be done, each with its name."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False, kw_only=True)
class VotePlan(JobPlan):
    """The plan of a release of teachers' votes: what it does and costs, from public shapes alone.

    Attributes
    ----------
    n_public : int
        Public rows that the teachers vote on.
    n_teachers : int
    unit : {"record", "group"}
    mechanism : Mechanism
    queries : int64 array or None
        Rows that will be asked about; None when they are chosen in rounds.
    gap : float
        Abstain below a noisy margin of so many votes (:class:`NoisyHistogram` only).
    n_free : int
        How many of those rows are repeats, or were answered before, or are paid for already.
    quote : Quote
        The most that will be spent.
    expectation : str
        How useful the labels are expected to be.

    Examples
    --------
    >>> from pate import Budget, GNMax
    >>> from pate.release import quote
    >>> price = quote(20, GNMax(40.0), budget=Budget(1.0, 1e-5))
    >>> facts = {
    ...     "n_public": 50,
    ...     "n_teachers": 250,
    ...     "unit": "record",
    ...     "gap": 0.0,
    ...     "n_free": 0,
    ...     "quote": price,
    ... }
    >>> plan = VotePlan(mechanism=GNMax(40.0), queries=np.arange(20), **facts)
    >>> print(plan.text().splitlines()[0])
    teachers   250, each with a shard of its own (record)
    """

    n_teachers: int
    mechanism: Mechanism
    queries: npt.NDArray[np.int64] | None
    gap: float
    n_free: int
    quote: Quote
    expectation: str = ""

    @property
    def is_paid(self) -> bool:
        """Whether nothing is left to pay for."""
        return self.quote.is_free

    def __str__(self) -> str:
        stored = f" ({self.n_free} more are repeats or were answered before: free)" if self.n_free else ""
        answers = f", at most {self.quote.max_answers} answered" if self.mechanism.may_refuse else ""
        asked = f"{self.quote.n_queries} of {self.n_public} public rows asked{answers}{stored}"
        return f"{self._who()}; {self.mechanism}; {asked}; will spend {self.quote.guarantee}"

    def _who(self) -> str:
        return f"{self.n_teachers} teachers"

    def _asked(self) -> str:
        return f"{0 if self.queries is None else len(self.queries)} of {self.n_public} public rows"

    def _noise(self) -> str:
        return f"{self.mechanism}, in votes" + (
            f"; abstains below a noisy margin of {self.gap:g} votes" if self.gap else ""
        )

    def _questions(self) -> str:
        fewer = self.queries is not None and self.quote.max_answers + self.n_free < len(self.queries)
        cap = f"; at most {self.quote.max_answers} are answered" if self.mechanism.may_refuse or fewer else ""
        free = f"; {self.n_free} of them are repeats or were answered before: free" if self.n_free else ""
        return f"{self._asked()}{cap}{free}"

    @property
    def guarantee(self) -> Guarantee:
        """The most that will be spent."""
        return self.quote.guarantee

    def _spends(self) -> str:
        return f"{self.quote.guarantee} for {self.quote.n_queries} new questions"

    def lines(self) -> list[tuple[str, str]]:
        """Return what will be done, each with its name."""
        return [
            ("teachers", f"{self.n_teachers}, each with a shard of its own ({self.unit})"),
            ("noise", self._noise()),
            ("questions", self._questions()),
            ("expects", self.expectation),
            *self._price(),
        ]


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelPlan(VotePlan):
    """The plan of a labelling job: what it does and costs, from the private file's shape alone, before any training.

    It also has all attributes of :class:`VotePlan`.

    Attributes
    ----------
    n_records, n_units : int
        Where persons are protected the first is private, and not shown.
    teacher : str
    select : str
        How the rows are chosen.
    rounds : tuple of int
        How many rows each round asks about.
    encoding : str
        How rows become numbers.
    affordable : int
        How many answers the whole budget (what is left of it) buys at this noise.
    files : tuple of (str, str)
        How the files were read, and what becomes of their columns: named lines, from public rows and names alone.
    counts : tuple of GaussianSum
        What measures in the end how often the labels' student is right.

    Examples
    --------
    >>> from pate import Budget, GNMax
    >>> from pate.release import quote
    >>> price = quote(20, GNMax(40.0), budget=Budget(1.0, 1e-5))
    >>> facts = {
    ...     "n_public": 50,
    ...     "n_teachers": 250,
    ...     "unit": "record",
    ...     "gap": 0.0,
    ...     "n_free": 0,
    ...     "quote": price,
    ... }
    >>> plan = LabelPlan(
    ...     n_records=600,
    ...     n_units=600,
    ...     mechanism=GNMax(40.0),
    ...     queries=None,
    ...     teacher="svm",
    ...     rounds=(10, 10),
    ...     **facts,
    ... )
    >>> print(plan.text().splitlines()[0])
    shards     250, each of 2 to 3 of the 600 records
    """

    n_records: int
    n_units: int
    teacher: str = ""
    select: str = "auto"
    rounds: tuple[int, ...] = ()
    encoding: str = ""
    affordable: int = 0
    files: tuple[tuple[str, str], ...] = ()
    counts: tuple[GaussianSum, ...] = ()

    def _who(self) -> str:
        return f"{self.n_units} {self.unit}s over {self.n_teachers} teachers"

    def _asked(self) -> str:
        how = f"{sum(self.rounds)} of {self.n_public} public rows, chosen by {self.select}"
        if len(self.rounds) > 1:
            how += f" in {len(self.rounds)} rounds of {', '.join(map(str, self.rounds))}, all paid for before the first"
        return how

    def lines(self) -> list[tuple[str, str]]:
        """Return what will be done, each with its name."""
        small, more = divmod(self.n_units, self.n_teachers)
        size = f"{small}" if not more else f"{small} to {small + 1}"
        if self.unit == "group":  # by a hash of each id: some shards get more, some none
            size = f"about {self.n_units / self.n_teachers:.3g}"
        return [
            ("shards", f"{self.n_teachers}, each of {size} of the {self.n_units} {self.unit}s"),
            ("teachers", f"{self.n_teachers} x {self.teacher}"),
            *self.files,
            ("rows", self.encoding),
            ("noise", self._noise()),
            ("questions", self._questions()),
            measures_line(self.counts, self.n_units),
            ("expects", self.expectation),
            ("budget", f"buys {self.affordable:,} answers at this noise"),
            *self._price(),
        ]


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelPlan(JobPlan):
    """The plan of a job without teachers: a model labels all public rows."""

    n_units: int
    encoding: str
    guarantee: Guarantee
    is_paid: bool
    files: tuple[tuple[str, str], ...] = ()
    caution: str = ""  # type: ignore[misc]
    total_if_short: Budget | None = None
    _earlier: ClassVar[str] = "an earlier run"

    def _spends(self) -> str:
        if self.is_paid:
            return f"nothing more: {self._earlier} paid for {self.guarantee}"
        total = self.total_if_short
        rest = "" if total is None else (
            f"; this is all that the ledger has left of its total, epsilon = {total.epsilon:g} at delta "
            f"{total.delta:g}: less than was asked for, and no later release can be paid"
        )  # fmt: skip
        return f"{self.guarantee}{rest}"


@dataclass(frozen=True, eq=False, kw_only=True)
class BallotPlan(ModelPlan):
    """The plan of a job where every record votes: what it does and costs, from public shapes and rows alone.

    Attributes
    ----------
    n_units, n_public : int
    unit : {"record", "group"}
    encoding : str
        How rows become numbers.
    recipe : Recipe
        How ballots are cast and what is made of them, and why.
    mechanisms : tuple of GaussianSum
        The noise of every round, those that measure last.
    guarantee : Guarantee
        Of all rounds together.
    is_paid : bool
        An earlier run paid for them: this one spends nothing.
    expectation : str
        How useful the labels are expected to be.
    instead : str
        What would cost no privacy, and how often that is right.
    files : tuple of (str, str)
        As for :class:`LabelPlan`.
    measured_shares : tuple of float
        Parts of mu^2 of the last rounds, which measure how often the model is right.
    tiers : tuple of TierGuarantee
        What each tier of units is promised, where they have budgets of their own; ``guarantee`` is the largest's.
    weight : int or None
        What all units weigh together; None without tiers.

    Examples
    --------
    >>> from pate.models.recipes import PublicFacts, choose
    >>> facts = {"n_units": 900, "n_public": 400, "unit": "record", "encoding": "3 columns"}
    >>> noise = GaussianSum(9.0)
    >>> plan = BallotPlan(
    ...     recipe=choose(PublicFacts(n_units=900, n_classes=10, mu=1 / 9, n_public=400)),
    ...     is_paid=False,
    ...     mechanisms=(noise,),
    ...     guarantee=noise.charge(1).guarantee(1e-5),
    ...     **facts,
    ... )
    >>> print(plan)
    900 records vote in 1 round; Gaussian noise, 9 times what one record may change; all 400 public rows; will spend ...
    """

    recipe: Recipe
    mechanisms: tuple[GaussianSum, ...]
    expectation: str = ""
    instead: str = ""
    measured_shares: tuple[float, ...] = ()
    tiers: tuple[TierGuarantee, ...] = ()
    weight: int | None = None

    def __str__(self) -> str:
        n = len(self.recipe.rounds)
        return (
            f"{self.n_units} {self.unit}s vote in {n} round{'s' * (n > 1)}; Gaussian noise, {self._multipliers()} "
            f"times what one {self._one()} may change; all {self.n_public} public rows; will spend {self._spends()}"
        )

    def lines(self) -> list[tuple[str, str]]:
        """Return what will be done, each with its name."""
        each = ", all ballots of one clipped together" if self.unit == "group" else ""
        rest = (1 - math.fsum(self.measured_shares)) / math.fsum(r.share for r in self.recipe.rounds)
        shares = counted(round(r.share * rest, 3) for r in self.recipe.rounds)
        return [
            ("voters", f"{self.n_units} {self.unit}s{each}"),
            ("tiers", "\n".join(map(str, self.tiers))),
            *self.files,
            ("rows", self.encoding),
            ("chosen", "\n".join(f"{what}: {why}" for what, why in self.recipe.reasons)),
            (
                "rounds",
                f"{len(self.recipe.rounds)}, all paid for before the first; shares of the budget (mu^2): {shares}",
            ),
            ("noise", f"Gaussian, in multiples of what one {self._one()} may change: {self._multipliers()}"),
            ("labels", f"all {self.n_public} public rows"),
            measures_line(self.mechanisms[len(self.recipe.rounds) :], self.weight or self.n_units),
            ("expects", self.expectation),
            ("instead", self.instead),
            *self._price(),
        ]

    def _multipliers(self) -> str:
        return counted(m.noise_multiplier for m in self.mechanisms[: len(self.recipe.rounds)])

    def _one(self) -> str:
        return "record" if self.unit == "record" else "person"


@dataclass(frozen=True, eq=False, kw_only=True)
class SyntheticRowsPlan(ModelPlan):
    """The plan of a job without public rows where records vote on synthetic ones: from a schema and a budget alone.

    Attributes
    ----------
    n_units, n_public : int
        The latter is 0.
    unit : {"record", "group"}
    encoding : str
    n_cells : int
        Of all columns together.
    mechanisms : tuple of GaussianSum
        The noise of the cells' counts, of the second moment, and of all further rounds as one.
    guarantee : Guarantee
        Of all rounds together.
    is_paid : bool
        An earlier run paid for them: this one spends nothing.
    chosen : str
        Why a public rule chose it; empty where a person did.

    Examples
    --------
    >>> noise = GaussianSum(9.0)
    >>> plan = SyntheticRowsPlan(
    ...     n_units=900,
    ...     n_public=0,
    ...     unit="record",
    ...     encoding="3 columns",
    ...     n_cells=40,
    ...     is_paid=False,
    ...     mechanisms=(noise,) * 3,
    ...     guarantee=(noise.charge(1) * 3).guarantee(1e-5),
    ... )
    >>> print(plan)
    900 records give noisy sums over a schema, and vote on synthetic rows drawn from them; will spend (0.69...
    """

    n_cells: int
    mechanisms: tuple[GaussianSum, ...]
    chosen: str = ""

    def __str__(self) -> str:
        return (
            f"{self.n_units} {self.unit}s give noisy sums over a schema, and vote on synthetic rows drawn from them; "
            f"will spend {self._spends()}"
        )

    def lines(self) -> list[tuple[str, str]]:
        """Return what will be done, each with its name."""
        return [
            ("voters", f"{self.n_units} {self.unit}s" + (f": {self.chosen}" if self.chosen else "")),
            *self.files,
            ("rows", self.encoding),
            ("synthetic", f"rows drawn from noisy counts of {self.n_cells} cells and a noisy second moment"),
            ("noise", "Gaussian, in multiples of what one unit may change, of counts, moment and all votes as one: "
                      + counted(m.noise_multiplier for m in self.mechanisms)),
            ("labels", "none, as there are no public rows: the model and its statement are what is written"),
            *self._price(),
        ]  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class GradientPlan(ModelPlan):
    """The plan of a DP-SGD job: what it does and costs, from public shapes and rows alone.

    Attributes
    ----------
    n_units, n_public : int
    unit : {"record", "group"}
    encoding : str
        How rows become numbers.
    reasons : tuple of (str, str)
        What the recipe's planner chose, and why.
    n_steps : int
    sampling : str
        Who is in a step.
    noise_multiplier : float
    guarantee : Guarantee
        Of the whole run.
    is_paid : bool
        An earlier run, which was cut off, paid for it: this one goes on with that, and spends nothing.
    chosen : str
        Why a public rule chose DP-SGD; empty where a person did.
    before : int
        Runs that the ledger has paid for: none of them is given again.
    files : tuple of (str, str)
        As for :class:`LabelPlan`.
    counts : tuple of GaussianSum
        What measures in the end how often the model is right.

    Examples
    --------
    >>> from pate.privacy.words import Guarantee
    >>> plan = GradientPlan(
    ...     n_units=900,
    ...     n_public=0,
    ...     unit="record",
    ...     encoding="3 columns",
    ...     reasons=(),
    ...     n_steps=40,
    ...     sampling="all in every step",
    ...     noise_multiplier=9.0,
    ...     is_paid=False,
    ...     guarantee=Guarantee(epsilon=1.0, delta=1e-5, kind="public", method="gdp"),
    ... )
    >>> print(plan)
    DP-SGD learns from 900 records in 40 steps, all in every step; noise multiplier 9; no public rows; will spend ...
    """

    reasons: tuple[tuple[str, str], ...]
    n_steps: int
    sampling: str
    noise_multiplier: float
    chosen: str = ""
    before: int = 0
    counts: tuple[GaussianSum, ...] = ()
    _earlier = "a run that was cut off"

    def __str__(self) -> str:
        rows = f"all {self.n_public} public rows" if self.n_public else "no public rows"
        return (
            f"DP-SGD learns from {self.n_units} {self.unit}s in {self.n_steps} steps, {self.sampling}; noise "
            f"multiplier {self.noise_multiplier:.6g}; {rows}; will spend {self._spends()}"
        )

    def lines(self) -> list[tuple[str, str]]:
        """Return what will be done, each with its name."""
        again = f"{self.before} run{'s' * (self.before > 1)} of DP-SGD before" if self.before else ""
        return [
            ("learns", f"DP-SGD, from {self.n_units} {self.unit}s" + (f": {self.chosen}" if self.chosen else "")),
            *self.files,
            ("rows", self.encoding),
            ("chosen", "\n".join(f"{what}: {why}" for what, why in self.reasons)),
            ("steps", f"{self.n_steps}, {self.sampling}"),
            ("noise", f"Gaussian, {self.noise_multiplier:.6g} times the norm that gradients are clipped to"),
            (
                "labels",
                f"all {self.n_public} public rows, by the model"
                if self.n_public
                else "none, as there are no public rows: the model and its statement are what is written",
            ),
            measures_line(self.counts, self.n_units),
            ("ledger", f"has paid for {again}; their results are not given again, and this run is charged in full")
            if again
            else ("ledger", ""),
            *self._price(),
        ]
