"""How many private fits were made of one estimator and of its clones: every one of them is a fresh spend.

A grid search and a cross-validation fit clones of one estimator, and hand back the last: a statement that spoke of
that fit alone would hide the others. They are counted by descent (a clone knows whom it was cloned from), never by
looking at records: a number that depends on nothing private may stand in a statement. What happens in other processes
cannot be counted here, and the statement says so.
"""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Self
from weakref import WeakKeyDictionary

from sklearn.base import BaseEstimator
from sklearn.base import clone as _clone

from pate._core.curator import warn
from pate.exceptions import BudgetExceededError, RepeatedFitWarning
from pate.privacy.convert import format_up
from pate.privacy.cost import Charge
from pate.privacy.words import Guarantee
from pate.release.statement.fields import Assumption
from pate.release.statement.model import PrivacyStatement

_UNCOUNTED: ContextVar[bool] = ContextVar("pate_fits_counted_elsewhere", default=False)
_LOCK = threading.Lock()
#: Whose kin an estimator is: beside it, as an unfitted one holds its parameters and nothing else.
_KIN: WeakKeyDictionary[Any, Kin] = WeakKeyDictionary()
_ELSEWHERE = "_fits_elsewhere"


@dataclass(frozen=True)
class Total:
    """What some fits cost together, if all of them were on the same records."""

    n: int = 0
    n_seeded: int = 0  # so many of them had noise that can be repeated
    epsilon: float = 0.0  # as delta: the sum over the others, by simple composition, whatever each was chosen by
    delta: float = 0.0
    charge: Charge | None = None  # their sum; None where one of them has no charge
    units: frozenset[tuple[str, str]] = frozenset()  # (unit, adjacency): no one epsilon holds for two of them

    def plus(self, guarantee: Guarantee, unit: str, charge: Charge | None) -> Total:
        """Return the total with one fit more."""
        if guarantee.kind == "seeded":
            return replace(self, n=self.n + 1, n_seeded=self.n_seeded + 1)
        first = self.n == self.n_seeded
        return Total(
            self.n + 1,
            self.n_seeded,
            self.epsilon + guarantee.epsilon,
            self.delta + guarantee.delta,
            charge if first else None if self.charge is None or charge is None else self.charge + charge,
            self.units | {(unit, guarantee.adjacency)},
        )

    def words(self, delta: float) -> str:
        """Return what all of them cost together, in words."""
        if self.n_seeded:
            return f"{self.n_seeded} of them with seeded noise, so that nothing holds for all together"
        if len(self.units) > 1:
            return "of different units or adjacencies, so that no one epsilon holds for all together"
        simple = f"epsilon = {format_up(self.epsilon, 4)} at delta = {format_up(self.delta, 3)}"
        if self.charge is None:
            return simple
        epsilon = self.charge.guarantee(delta).epsilon
        if epsilon >= self.epsilon:
            return simple
        return (
            f"epsilon = {format_up(epsilon, 4)} at delta = {delta:g} where their number and budgets were fixed "
            f"beforehand (a grid); by simple addition {simple}"
        )


class Kin:
    """An estimator and its clones in this process: their fits are counted together."""

    def __init__(self, *, elsewhere: bool = False) -> None:
        self.total = Total()
        #: Ledgers that were charged, by their path; None: no ledger was.
        self.ledgers: set[str | None] = set()
        #: Runs that may be taken up again, and were counted.
        self.runs: set[str] = set()
        #: Whether one of them came from another process, and whether one went to some.
        self.elsewhere, self.sent = elsewhere, False

    def add(
        self, guarantee: Guarantee, unit: str, charge: Charge | None, *, ledger: Any = None, run: str | None = None
    ) -> Total:
        """Count a fit, and return the total."""
        with _LOCK:
            self.total = self.total.plus(guarantee, unit, charge)
            self.ledgers.add(_name(ledger))
            self.runs |= {run} if run is not None else set()
            return self.total


class CountedFits(BaseEstimator):
    """An estimator whose fits spend: clones and copies are counted with it; a mixin."""

    def _kin(self) -> Kin:
        with _LOCK:
            if self not in _KIN:
                _KIN[self] = Kin(elsewhere=bool(self.__dict__.pop(_ELSEWHERE, False)))
            return _KIN[self]

    def _is_kin(self, made: Self) -> Self:
        kin = Kin() if _UNCOUNTED.get() else self._kin()
        with _LOCK:
            _KIN[made] = kin
        return made

    def __sklearn_clone__(self) -> Self:
        made = type(self)(**{name: _clone(value, safe=False) for name, value in self.get_params(deep=False).items()})
        # As scikit-learn's own clone does; and what was said by former names.
        for name in ("_metadata_request", "_sklearn_output_config", "_former"):
            if name in self.__dict__:
                setattr(made, name, copy.deepcopy(self.__dict__[name]))
        return self._is_kin(made)

    def __copy__(self) -> Self:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        return self._is_kin(made)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return self._is_kin(made)

    def __getstate__(self) -> Any:
        """Return what a pickle holds: not the count, but that it comes from where there may be one."""
        self._kin().sent = True
        return {**super().__getstate__(), _ELSEWHERE: True}

    def _spend(self, guarantee: Guarantee, unit: str, charge: Charge | None, *, run: str | None = None) -> None:
        """Count a fit that is about to spend, and warn where it is not the first."""
        kin, ledger = self._kin(), getattr(self, "ledger", None)
        if _UNCOUNTED.get() or run in kin.runs:
            return
        total = kin.add(guarantee, unit, charge, ledger=ledger, run=run)
        if guarantee.kind == "seeded" or ledger is not None:
            return
        if total.n > 1 and not total.n & (total.n - 1):
            warn(
                f"fit {total.n} of this {type(self).__name__} and its clones in this process (a grid search, a "
                f"cross-validation, or fit called again): each is a fresh spend. On the same records, together: "
                f"{total.words(guarantee.delta)}. Scores on private rows, and what is chosen by them, no number "
                "covers. pate.private_select chooses settings within one budget; the statement keeps count.",
                RepeatedFitWarning,
            )
        elif total.n == 1 and kin.elsewhere:
            warn(
                f"this {type(self).__name__} came from another process (a search with n_jobs, a pickle): each fit is a "
                "fresh spend, and those of other processes are not counted here. A search in one process (n_jobs=1) "
                "is counted; pate.private_select chooses settings within one budget.",
                RepeatedFitWarning,
            )

    def _told(self, statement: PrivacyStatement) -> PrivacyStatement:
        """Return a statement that also names the fits beside this one; as it is where there are none to tell of.

        Where all of them were charged to one ledger it says nothing: the ledger counts every release, in whichever
        process. A fit before the ledger was named is in none.
        """
        kin, ledger = self._kin(), getattr(self, "ledger", None)
        alone = kin.total.n <= 1 and not kin.elsewhere and not kin.sent
        kept = ledger is not None and kin.ledgers <= {_name(ledger)}
        if alone or kept or statement.seeded or _UNCOUNTED.get():
            return statement
        return replace(statement, assumptions=(*statement.assumptions, _tuning(kin, statement.guarantee.delta)))


@contextmanager
def naming_fits_before(estimator: CountedFits) -> Iterator[None]:
    """Have a refusal for lack of budget say that fits before this one, of folds perhaps, were charged to the ledger."""
    try:
        yield
    except BudgetExceededError as error:
        ledger = getattr(estimator, "ledger", None)
        kin = Kin() if _UNCOUNTED.get() or ledger is None else estimator._kin()
        if _name(ledger) in kin.ledgers:
            error.add_note(_BEFORE.format(kin.total.n))
        raise


#: What a refusal adds where this estimator or a clone of it was charged before.
_BEFORE = (
    "(Fits of this estimator and its clones in this process that were charged before: {}. In a cross-validation or a "
    "search the first fold is charged before the next one is refused, and stays spent. Cross-validate without a "
    "ledger, on data that are not private alone; of private data fit all records once, or choose settings by "
    "pate.private_select: docs/scikit-learn.md.)"
)


def _name(ledger: Any) -> str | None:
    return None if ledger is None else os.path.realpath(ledger.path)


def _tuning(kin: Kin, delta: float) -> Assumption:
    total = kin.total
    text = "one fit of this estimator and its clones was made in this process, this one"
    if total.n > 1:
        text = f"{total.n} fits of this estimator and its clones were made in this process, this one included"
        text += (
            f"; on the same records, together: {total.words(delta)} (of folds of them, if the cut into folds looked at "
            "no row: KFold does not, StratifiedKFold looks at the labels)"
        )
    if kin.elsewhere or kin.sent:
        text += "; copies of it were in other processes too (a search with n_jobs, a pickle): their fits are not known"
    return Assumption(
        name="tuning",
        claim="other fits on these records, and what was chosen by them, are paid for",
        how=f"{text}. No number here covers scores on private rows, nor what was chosen by them",
    )


def count_selection(
    candidates: Iterable[Any], guarantee: Guarantee, unit: str, charge: Charge, *, ledger: Any = None
) -> None:
    """Count a private selection as one fit of each of its estimators: how many runs there were it never tells."""
    kins = {id(kin): kin for kin in (one._kin() for one in candidates if isinstance(one, CountedFits))}
    for kin in kins.values():
        kin.add(guarantee, unit, charge, ledger=ledger)


def join_kin(winner: Any, candidate: Any) -> None:
    """Let the winner of a selection be kin of the candidate that it is a run of."""
    if isinstance(winner, CountedFits) and isinstance(candidate, CountedFits):
        kin = candidate._kin()
        with _LOCK:
            _KIN[winner] = kin


@contextmanager
def counted_elsewhere() -> Iterator[None]:
    """Count no fit within, and let no clone made there be kin: the caller reports them itself.

    In a private selection that is what privacy asks for: its price requires that no one knows the number of runs.
    """
    token = _UNCOUNTED.set(True)
    try:
        yield
    finally:
        _UNCOUNTED.reset(token)
