"""Several rounds of ballots for one budget: what each may cost, and whether they are worth it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from pate.core.checks import check_real, shown
from pate.exceptions import BudgetExceededError, InvalidInputError, NotWorthwhileError
from pate.ledger import Ledger, Remaining
from pate.mechanisms import GaussianSum
from pate.privacy.budget import Budget, check_budget
from pate.privacy.compose.calibrate import Allowance, calibrate
from pate.privacy.cost import Charge

#: Less than this share of the budget's mu is a residue of rounding, or as good as nothing.
_LEAST_LEFT = 0.01


def sum_of_rounds(rounds: Sequence[GaussianSum]) -> Charge:
    """Return what several sums of ballots cost together: mu^2 adds up."""
    return Charge.total([(mechanism.charge(1), times) for mechanism, times in Counter(rounds).items()])


def counted(numbers: Iterable[float]) -> str:
    """Return numbers of rounds as text, equal ones once."""
    return ", ".join(f"{x:.6g} ({n} times)" if n > 1 else f"{x:.6g}" for x, n in Counter(numbers).items())


@dataclass(frozen=True)
class _Rounds:
    """Several sums with shares of one mu^2, to be calibrated as one."""

    shares: tuple[float, ...]
    noise_multiplier: float = 1.0

    @property
    def mechanisms(self) -> tuple[GaussianSum, ...]:
        return tuple(GaussianSum(self.noise_multiplier / math.sqrt(share)) for share in self.shares)

    def charge(self, n_queries: int = 1, max_answers: int | None = None) -> Charge:
        return sum_of_rounds(self.mechanisms)

    def scaled(self, factor: float) -> _Rounds:
        found = replace(self, noise_multiplier=self.noise_multiplier * factor)
        assert found.mechanisms  # noise beyond any use is refused here, where calibrate sees it
        return found


def share_rounds(
    budget: Budget, shares: Sequence[float], ledger_left: Allowance | None = None
) -> tuple[GaussianSum, ...]:
    """Return one mechanism per round such that all together just fit the budget; round i takes its share of mu^2.

    Parameters
    ----------
    budget : Budget
    shares : sequence of float
        Above 0; their sum stands for the whole.
    ledger_left : Remaining or None
        See :meth:`GaussianSum.for_budget`.

    Examples
    --------
    >>> one, two = share_rounds(Budget(1.0, 1e-5), [1, 3])
    >>> round((one.noise_multiplier / two.noise_multiplier) ** 2, 9)
    3.0
    """
    if isinstance(shares, str) or not isinstance(shares, Sequence) or not len(shares):
        raise InvalidInputError(f"shares must list one number per round, got {shown(shares)}. Try [0.3, 0.7].")
    parts = [check_real(f"shares[{i}]", share, low=1e-9, high=1e9) for i, share in enumerate(shares)]
    whole = math.fsum(parts)
    asked, budget = tuple(part / whole for part in parts), check_budget(budget)
    if ledger_left is None or isinstance(ledger_left, Remaining):  # a value, which a ledger itself is not
        return _calibrated(asked, budget, ledger_left)
    return calibrate(_Rounds(asked), budget, n_queries=1, left=ledger_left).mechanisms


@lru_cache(maxsize=64)  # a plan asks for the same several times; what a ledger has left is part of the question
def _calibrated(shares: tuple[float, ...], budget: Budget, left: Remaining | None) -> tuple[GaussianSum, ...]:
    return calibrate(_Rounds(shares), budget, n_queries=1, left=left).mechanisms


def buy_rounds(
    budget: Budget,
    shares: Sequence[float],
    ledger: Ledger | None,
    *,
    n_units: int | None,
    anyway: bool = False,
    n_measured: int = 0,
) -> tuple[GaussianSum, ...]:
    """Return what budget and ledger buy, refused where nearly nothing can be learnt from it: crumbs.

    Noise on every cell that is larger than all ballots together says nothing of any class: the rule by which
    :func:`pate.release.check_worth` refuses teachers' votes. A ballot sum moves by at least 1/sqrt(2) of a ballot for
    one unit, so that more noise than ``n_units`` sensitivities is that much; K rounds alike say together what one of
    1/sqrt(K) of their noise does.

    Parameters
    ----------
    budget : Budget
    shares : sequence of float
    ledger : Ledger or None
    n_units : int or None
        Public number of units, or the nominal one; None: not known yet, and not looked at.
    anyway : bool
        Buy rounds of more noise than ballots, too. What is left in a ledger must be worth something still.
    n_measured : int
        So many of the last rounds are counts of right answers, of which any noise is told as it is.

    Raises
    ------
    BudgetExceededError
        The ledger has nothing left, or next to nothing of what the budget buys.
    NotWorthwhileError
        The noise of a round is more than all ballots together, the root of the number of rounds times over.
    """
    left = None if ledger is None else ledger.remaining(default_total=budget)
    whole = share_rounds(budget, shares)
    try:
        rounds = whole if left is None else share_rounds(budget, shares, left)
    except BudgetExceededError:  # nothing that any noise could fit into
        rounds = ()
    if not rounds or sum_of_rounds(rounds).mu_squared < _LEAST_LEFT**2 * sum_of_rounds(whole).mu_squared:
        raise BudgetExceededError(
            f"the ledger has less left than {_LEAST_LEFT:.0%} of what {budget} buys: noise would drown all ballots. "
            "Nothing was spent. A total is never raised: before the first of several releases begin a ledger with the "
            "total of all (pate ledger begin; Ledger(path, total=...))."
        )
    cast = rounds[: len(rounds) - n_measured] or rounds
    worst = max(m.noise_multiplier for m in cast)
    if n_units is not None and worst > n_units * math.sqrt(len(cast)) and not anyway:
        raise NotWorthwhileError(
            f"nearly nothing is to be expected of {len(rounds) - n_measured} rounds of ballots by {n_units} units: in "
            f"the least of them noise is {worst:.4g} times what one unit may change, more than all can outvote. "
            "Take fewer rounds, more even shares or a larger epsilon; or say anyway=True (--anyway). Nothing was spent."
        )
    return rounds
