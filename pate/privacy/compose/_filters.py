"""Accountants and filters: add up adaptively chosen costs, and stop before a total that was fixed beforehand."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable

from pate._core.checks import check_real
from pate.exceptions import BudgetExceededError, InvalidInputError
from pate.privacy.budget import Budget, check_budget
from pate.privacy.compose.accounting_unit import AccountingUnit, Terms
from pate.privacy.cost import Charge, check_charge, check_times
from pate.privacy.words import Guarantee

# A plan and its cost: public costs of any kind add up, declared beforehand.


class Accountant:
    """Compute the epsilon of several releases together; all are declared before the first is made.

    Label releases, threshold tests, gates, DP-SGD runs and private selection may be mixed; later ones may be chosen by
    looking at earlier outputs, but the total charge may not. Reading an epsilon closes the plan: an epsilon that is
    read while the run goes on, at the order that happens to be best so far, is an odometer reading, for which no
    guarantee is known. If you do not know beforehand how many releases there will be, use a
    :class:`pate.privacy.GDPFilter` or :class:`pate.privacy.RenyiFilter`, or a :class:`pate.Ledger`.

    Guarantees
    ----------
    Replace-one, both directions, adaptive: RDP composes by addition (Mironov 2017, Proposition 1), GDP by addition of
    mu^2 (Dong, Roth, Su 2022, Corollary 3.3), pure epsilon by addition; failure probabilities by the union bound.
    Where DP-SGD is part of the plan and everything else in it has a finite mu^2, dominating pairs are composed too
    (Zhu, Dong, Wang 2022, Theorem 10; the plan fixes how many there are of each, in whatever order they are run). All
    of these are constants, so the least of them holds.

    Examples
    --------
    >>> plan = Accountant()
    >>> plan.add(Charge.gaussian_argmax(40.0), what="labels", count=100)
    Accountant(100 x labels)
    >>> plan.add(Charge.at_order(0.3, order=8.0, delta0=1e-6), what="gate")
    Accountant(100 x labels, 1 x gate)
    >>> print(plan.guarantee(1e-5))
    (1.84975, 1e-05)-DP, public, by rdp (order 8), adjacency replace-one, both directions, adaptive
    >>> plan.add(Charge.gaussian_argmax(40.0))
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: this accountant's epsilon was read, which closed its plan. ...
    """

    def __init__(self) -> None:
        self._steps: list[tuple[str, Charge, int]] = []
        self._closed = False

    def add(self, cost: Charge, *, what: str = "release", count: int = 1) -> Accountant:
        """Declare ``count`` releases of this cost each.

        Parameters
        ----------
        cost : Charge
            Of a gate: ``gate.charge``. Of a dp_accounting event: :func:`pate.privacy.from_dp_event`.
        what : str
            For the display.
        count : int

        Raises
        ------
        InvalidInputError
            Not a public worst case, or an epsilon was read already.
        """
        if self._closed:
            raise InvalidInputError(
                "this accountant's epsilon was read, which closed its plan. Declare everything first, or spend "
                "against a GDPFilter, a RenyiFilter or a Ledger, whose guarantee is fixed beforehand."
            )
        self._steps.append((str(what), check_charge(cost), check_times(count, "count")))
        return self

    def close(self) -> Charge:
        """Close the plan and return its whole cost, for use in another plan, a filter or a ledger."""
        self._closed = True
        return Charge.total((cost, count) for _, cost, count in self._steps)

    def guarantee(self, delta: float) -> Guarantee:
        """Return the guarantee of the whole plan; it closes the plan. See :meth:`pate.Charge.guarantee`.

        Parameters
        ----------
        delta : float
            In (0, 1) and above the probability by which gates may fail.

        Raises
        ------
        InvalidInputError
            The gates use up all of delta, or nothing finite is known.
        """
        return self.close().guarantee(delta)

    def __repr__(self) -> str:
        return f"Accountant({', '.join(f'{n} x {what}' for what, _, n in self._steps)})"


class _Filter:
    """What both filters share: the terms under which everything is spent, as in :class:`pate.Ledger`."""

    def __init__(self, budget: Budget, currency: AccountingUnit, gate_delta: float) -> None:
        self.budget = check_budget(budget)
        remedy = "It is the part of the budget's delta that gates may use."
        gate_delta = check_real("gate_delta", gate_delta, low=0, high=self.budget.delta, high_open=True, remedy=remedy)
        self._terms = Terms.of(self.budget, currency, gate_delta)
        self.gate_delta = gate_delta
        # One by one: sums are then rounded once, like the ledger's.
        self._prices: list[float] = []
        self._failures: list[float] = []
        self._one_at_a_time = threading.RLock()

    @property
    def limit(self) -> float:
        """The most that the filter's one scalar may add up to; a constant."""
        return self._terms.limit

    @property
    def guarantee(self) -> Guarantee:
        """What all releases together satisfy, however many there will be: the budget itself, a constant."""
        return Guarantee(
            epsilon=self.budget.epsilon,
            delta=self.budget.delta,
            kind="public",
            method=self._terms.currency.method,
            order=self._terms.currency.order,
        )

    @property
    def used_fraction(self) -> float:
        """Share of the limit that is spent, 0 to 1. It is no epsilon and converts to none."""
        return math.fsum(self._prices) / self.limit

    def admits(self, cost: Charge) -> bool:
        """Return whether the cost still fits.

        Parameters
        ----------
        cost : Charge
            May be chosen by looking at everything released before.
        """
        with self._one_at_a_time:
            return not self._terms.refusal(self._prices, self._failures, cost)

    def spend(self, cost: Charge) -> None:
        """Spend the cost; do this before the release."""
        with self._one_at_a_time:
            refusal = self._terms.refusal(self._prices, self._failures, cost)
            if refusal:
                raise BudgetExceededError(
                    f"{self!r} does not admit this release: {refusal}. Use more noise, ask less, or stop; nothing was "
                    "spent."
                )
            whole = check_charge(cost)
            self._prices.append(self._terms.currency.price(whole))
            self._failures.append(whole.delta0)

    def replay(self, costs: Iterable[Charge]) -> None:
        """Spend again what was spent before, such as ``row.charge for row in ledger.releases()``, in order."""
        for cost in costs:
            self.spend(cost)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.budget})"


class GDPFilter(_Filter):
    """A filter: admit releases while their sum of mu^2 (Gaussian DP) stays within the budget, as a ledger does.

    Parameters
    ----------
    budget : Budget
    gate_delta : float
        The part of the budget's delta set aside for costs that may fail (gates); 0 admits none of them.

    Guarantees
    ----------
    Releases, their number and their costs may depend on everything released before; all together satisfy the budget
    (Smith and Thakurta 2022: fully adaptive Gaussian filter; pure mechanisms enter by their dominating mu).
    Costs without a finite mu^2 are not admitted.

    Raises
    ------
    InvalidInputError
        Not a budget, or gate_delta not below its delta.

    Examples
    --------
    >>> from pate.privacy import Budget, Charge
    >>> one, stop = (
    ...     Charge.gaussian(sensitivity=2**0.5, sigma=40.0),
    ...     GDPFilter(Budget(1.0, 1e-5)),
    ... )
    >>> n = 0
    >>> while stop.admits(one):
    ...     stop.spend(one)
    ...     n += 1
    >>> n, stop.guarantee.epsilon
    (57, 1.0)
    """

    def __init__(self, budget: Budget, *, gate_delta: float = 0.0) -> None:
        super().__init__(budget, AccountingUnit(), gate_delta)


class RenyiFilter(_Filter):
    """A filter: admit releases while their sum of Renyi divergences, at one fixed order, stays within the budget.

    Parameters
    ----------
    budget : Budget
    order : float
        Above 1, fixed before the first release. A good one: the order of a guarantee for about as many releases as
        are expected.
    gate_delta : float
        The part of the budget's delta set aside for costs that may fail (gates); 0 admits none of them.

    Guarantees
    ----------
    Releases, their number and their costs may depend on everything released before; all together satisfy the budget
    (Feldman and Zrnic 2021, Theorem 3.1; Lecuyer 2021; conversion by Canonne, Kamath, Steinke 2020). Choosing the
    order after seeing how much was spent is an odometer reading, for which this does not hold: the order is frozen.

    Raises
    ------
    InvalidInputError
        At this order the conversion alone costs more than the budget.

    Examples
    --------
    >>> from pate.privacy import Budget, Charge
    >>> one, stop = Charge.gaussian_argmax(40.0), RenyiFilter(Budget(1.0, 1e-5), order=20.0)
    >>> n = 0
    >>> while stop.admits(one):
    ...     stop.spend(one)
    ...     n += 1
    >>> n, stop.guarantee.order
    (74, 20.0)
    """

    def __init__(self, budget: Budget, order: float, *, gate_delta: float = 0.0) -> None:
        self._order = check_real("order", order, low=1, low_open=True, remedy="Orders of 5 to 50 are usual.")
        super().__init__(budget, AccountingUnit(self._order), gate_delta)

    @property
    def order(self) -> float:
        """The order, fixed beforehand."""
        return self._order

    def __repr__(self) -> str:
        return f"RenyiFilter({self.budget}, order={self._order:g})"
