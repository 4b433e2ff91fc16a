"""Accounting units: the one number that a filter or a ledger adds up, fixed before anything is spent.

A filter stops at a limit on *one* sum. Which sum may be chosen freely beforehand: mu^2 of Gaussian differential
privacy, Renyi divergence at one order, or pure epsilon (which is Renyi divergence at order infinity). It may not be
chosen by looking at what was spent: the least of several sums, or the best order at the end, is an odometer reading, of
which no guarantee is known. This is the one place where costs get a price and budgets a limit; :class:`pate.Ledger`,
:class:`pate.privacy.GDPFilter` and :class:`pate.privacy.RenyiFilter` all ask here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from pate._core.checks import check_real, largest_of
from pate.exceptions import InvalidInputError
from pate.privacy.budget import Budget
from pate.privacy.convert import DEFAULT_ORDERS, delta_left, gdp_to_epsilon, pure_to_mu_squared, rdp_overhead
from pate.privacy.cost import Charge, check_charge

_ALLOWED = "None, 'gdp', 'pure', 'renyi' (the first charge chooses its order) or 'renyi:ORDER', such as 'renyi:12.5'"


@dataclass(frozen=True)
class AccountingUnit:
    """A scalar that adds up: mu^2 (``order`` None), Renyi divergence at ``order``, or pure epsilon (infinite order).

    Parameters
    ----------
    order : float or None

    Guarantees
    ----------
    Sums of prices that stay within :meth:`limit`, whatever later releases depend on, satisfy the budget under
    fully adaptive composition. GDP: Smith and Thakurta 2022; Koskela, Tobaben and Honkela 2023. Renyi at one order:
    Feldman and Zrnic 2021, Theorem 3.1; Lecuyer 2021; converted by Canonne, Kamath and Steinke 2020. Pure: Rogers,
    Roth, Ullman and Vadhan 2016. Failure probabilities (delta0) add up within a share of delta set aside beforehand
    (approximate concentrated privacy under full adaptivity: Whitehouse, Ramdas, Rogers and Wu 2023).
    """

    order: float | None = None

    @classmethod
    def named(cls, name: str) -> AccountingUnit:
        """Return the currency of a name that says it all: "gdp", "pure" or "renyi:ORDER"."""
        if name in ("gdp", "pure"):
            return cls(None if name == "gdp" else math.inf)
        kind, _, order = name.partition(":")
        if kind != "renyi":
            raise InvalidInputError(f"currency must be {_ALLOWED}, got {name!r}.")
        return cls(_order(order))

    @property
    def name(self) -> str:
        """Its name, by which :meth:`named` finds it again."""
        if self.order is None:
            return "gdp"
        return "pure" if math.isinf(self.order) else f"renyi:{repr(self.order).removesuffix('.0')}"

    @property
    def unit(self) -> str:
        """What is added up, in words."""
        if self.order is None:
            return "mu^2"
        return "pure epsilon" if math.isinf(self.order) else f"Renyi divergence at order {self.order:g}"

    @property
    def method(self) -> str:
        """The method of a guarantee by this filter."""
        return f"{self.name.partition(':')[0]}-filter"

    @property
    def theorem(self) -> str:
        """Where it is proved that the sum may be filled up adaptively."""
        if self.order is None:
            return "Smith and Thakurta 2022; Koskela et al. 2023"
        if math.isinf(self.order):
            return "Rogers et al. 2016"
        return "Feldman and Zrnic 2021, Theorem 3.1; Lecuyer 2021"

    def price(self, cost: Charge) -> float:
        """Return the scalar that a cost takes; infinite where this currency cannot pay for it."""
        whole = check_charge(cost)
        if self.order is None:
            return whole.mu_squared
        if math.isinf(self.order):
            return whole.pure
        return float(whole.rdp_at([self.order])[0])

    def limit(self, total: Budget, failure_delta: float = 0.0) -> float:
        """Return the most that prices may add up to; zero or less where this order cannot serve the budget.

        Parameters
        ----------
        total : Budget
        failure_delta : float
            The part of its delta that costs that may fail can use up.
        """
        return _limit(self.order, total, failure_delta)

    def epsilon(self, price: float, delta: float) -> float:
        """Return the epsilon at ``delta`` of one release of this price; 0 for one that is free."""
        if price <= 0:
            return 0.0
        if self.order is None:
            return gdp_to_epsilon(math.sqrt(price), delta)
        return price if math.isinf(self.order) else largest_of(0.0, price + rdp_overhead(self.order, delta))


def _order(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    return check_real("ORDER of 'renyi:ORDER'", number, low=1, low_open=True, remedy="Orders of 5 to 50 are usual.")


@lru_cache(maxsize=4096)
def _limit(order: float | None, total: Budget, failure_delta: float) -> float:
    left = delta_left(total.delta, failure_delta)
    if order is None:
        return Budget(total.epsilon, left).mu_squared
    if math.isinf(order):
        return total.epsilon
    overhead = rdp_overhead(order, left)
    # The largest float that converts to no more than epsilon: what a budget allows, a limit allows, to the last digit.
    step = math.ulp(largest_of(total.epsilon, abs(overhead)))
    low, high = total.epsilon - overhead - 4 * step, total.epsilon - overhead + 4 * step
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if middle + overhead <= total.epsilon else (low, middle)
    return low


def check_accounting_unit(currency: object) -> str | None:
    """Return the name of what was asked for, "renyi" where its order is left open, None where all is."""
    if currency is None or currency == "renyi":
        return None if currency is None else "renyi"
    if isinstance(currency, AccountingUnit):
        return currency.name
    if isinstance(currency, tuple) and len(currency) == 2 and currency[0] == "renyi":
        return AccountingUnit(_order(currency[1])).name
    if not isinstance(currency, str):
        raise InvalidInputError(f"currency must be {_ALLOWED}, got {currency!r}.")
    return AccountingUnit.named(currency).name


@dataclass(frozen=True)
class Terms:
    """What was fixed before the first charge: the budget, the currency, the share of delta for failures, the limit."""

    total: Budget
    currency: AccountingUnit
    failure_delta: float
    limit: float

    @classmethod
    def of(cls, total: Budget, currency: AccountingUnit, failure_delta: float = 0.0) -> Terms:
        """Return the terms with the currency's own limit."""
        failure_delta = check_failure_delta(failure_delta, total)
        limit = currency.limit(total, failure_delta)
        if limit <= 0:
            overhead = total.epsilon - limit
            raise InvalidInputError(
                f"order must be larger for {total}: at {currency.order:g} the conversion alone costs {overhead:.3g}. "
                "Try the order of a guarantee for about as many releases as are expected."
            )
        return cls(total, currency, failure_delta, limit)

    @property
    def filled(self) -> Charge:
        """The cost of everything together once the limit is used up: what is known of it, whatever is released yet."""
        order = self.currency.order
        if order is None:
            whole = Charge.gaussian(sensitivity=math.sqrt(self.limit), sigma=1.0)
            return replace(whole, mu_squared=self.limit, delta0=self.failure_delta)
        if math.isinf(order):
            # Infinite where far beyond any promise: labels that were paid for need their statement all the same.
            return Charge(
                pure_to_mu_squared(self.limit),
                (self.limit,) * len(DEFAULT_ORDERS),
                self.limit,
                delta0=self.failure_delta,
            )
        return Charge.at_order(self.limit, order=order, delta0=self.failure_delta)

    def refusal(self, prices: Sequence[float], failures: Sequence[float], cost: Charge) -> str:
        """Return why the cost may not be added to what was paid; "" if it may. Sums are compared exactly.

        Parameters
        ----------
        prices, failures : sequence of float
            Of all releases so far, in this currency.
        cost : Charge
        """
        whole = check_charge(cost)
        price = self.currency.price(whole)
        if not math.isfinite(price):
            return (
                f"its cost in {self.currency.unit}, fixed as the currency before the first charge, is not known. Use "
                "a mechanism that has one (mu^2: noise on counts; Renyi: of a smaller or equal order), or open the "
                "ledger of the next data set with another currency"
            )
        # fsum is rounded once, so that its sign is exact.
        if math.fsum((*failures, whole.delta0, -self.failure_delta)) > 0:
            return (
                f"it may fail with probability {whole.delta0:g}, and {self.failure_delta:g} of delta was set aside for "
                "all such costs. Take a smaller delta0, or set more aside (failure_delta) when opening"
            )
        if math.fsum((*prices, price, -self.limit)) > 0:
            left = largest_of(0.0, math.fsum((self.limit, *(-p for p in prices))))
            return (
                f"it takes {price / self.limit:.1%} of the total, as {self.currency.unit} counts it: more than the "
                f"{left / self.limit:.1%} that is left"
            )
        return ""


def check_failure_delta(value: Any, total: Budget) -> float:
    """Return the share of delta set aside for costs that may fail, below the budget's delta."""
    remedy = "It is the part of the budget's delta that gates and sanitised values may use."
    return check_real("failure_delta", value, low=0, high=total.delta, high_open=True, remedy=remedy)


def choose_terms(
    total: Budget, cost: Charge, *, asked: str | None = None, failure_delta: float | None = None
) -> Terms | None:
    """Return the terms under which a budget buys most of what is planned; None when none of them buys it once.

    Of GDP and the orders at which the cost is known, the one where the cost takes the smallest share of the limit, so
    that most of its like fits; equal shares go to GDP. Only where none of these admits the cost, pure epsilon is tried:
    Gaussian noise could never be paid in it. Everything here is public: the budget, and a worst case fixed beforehand.

    Parameters
    ----------
    total : Budget
    cost : Charge
        What is to be paid first.
    asked : str or None
        A currency by name, "renyi" for any order, None for any.
    failure_delta : float or None
        None sets aside what this cost needs.
    """
    whole = check_charge(cost)
    failures = whole.delta0 if failure_delta is None else failure_delta
    if whole.delta0 > failures or failures >= total.delta:
        return None
    if asked not in (None, "renyi"):
        terms = Terms.of(total, AccountingUnit.named(str(asked)), failures)
        return None if terms.refusal((), (), whole) else terms
    best: tuple[float, AccountingUnit] | None = None
    known = [(AccountingUnit(a), value) for a, value in zip(whole.orders, whole.rdp, strict=True)]
    for currency, price in known if asked else [(AccountingUnit(), whole.mu_squared), *known]:
        limit = currency.limit(total, failures) if math.isfinite(price) else 0.0
        # Rounding may not decide against GDP, which comes first.
        if limit > 0 and price <= limit and (best is None or price / limit < best[0] * (1 - 1e-9)):
            best = (price / limit, currency)
    if best is not None:
        return Terms.of(total, best[1], failures)
    pure = AccountingUnit(math.inf)
    return Terms.of(total, pure, failures) if asked is None and whole.pure <= pure.limit(total, failures) else None


@dataclass(frozen=True)
class Opening:
    """What a ledger was opened with.

    Attributes
    ----------
    total : Budget
    asked : str or None
        The currency that was asked for; None, or "renyi" without an order, leaves it to the first charge.
    failure_delta : float or None
        Likewise.
    terms : Terms or None
        What holds; None before the first charge.
    """

    total: Budget
    asked: str | None
    failure_delta: float | None
    terms: Terms | None

    def terms_for(self, cost: Charge) -> Terms | None:
        """Return the terms, or those that this cost would fix by being the first; None if it cannot."""
        if self.terms is not None:
            return self.terms
        return choose_terms(self.total, cost, asked=self.asked, failure_delta=self.failure_delta)

    def refusal(self, prices: Sequence[float], failures: Sequence[float], cost: Charge) -> str:
        """Return why the cost may not be added to what was paid, in words; "" if it may."""
        terms = self.terms_for(cost)
        if terms is None and self.asked not in (None, "renyi"):
            terms = Terms.of(self.total, AccountingUnit.named(str(self.asked)), self.failure_delta or 0.0)
        if terms is not None:
            return terms.refusal(prices, failures, cost)
        asked = "" if self.asked is None else f", counted by {self.asked}"
        return f"the total {self.total}{asked} does not buy it, or not with the share of delta that it may fail by"

    def conflict(self, asked: str | None, failure_delta: float | None) -> str:
        """Return how what is asked for differs from what is held, in words; "" if it does not, or nothing is asked."""
        found = self.asked if self.terms is None else self.terms.currency.name
        if not (asked in (None, found) or (asked == "renyi" and str(found).startswith("renyi:"))):
            return f"counts in {found or 'what its first charge decides'}, not in {asked}"
        share = self.failure_delta if self.terms is None else self.terms.failure_delta
        if failure_delta not in (None, share):
            held = "what its first charge needs" if share is None else share
            return f"sets {held} of its delta aside for costs that may fail, not {failure_delta}"
        return ""
