"""One composition for everything: public costs of any kind add up in one accountant, declared beforehand."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_int, check_real
from pate.exceptions import InvalidInputError
from pate.privacy.convert import (
    DEFAULT_ORDERS,
    check_delta,
    check_orders,
    delta_left,
    gdp_to_epsilon,
    rdp_to_epsilon,
)
from pate.privacy.cost import Charge
from pate.privacy.publish.gate import PTRGate
from pate.privacy.words import Guarantee


@dataclass(frozen=True)
class PublicCost:
    """A worst-case cost of any mechanism, known before the data are touched: more general than a :class:`Charge`.

    Build it with :meth:`of`, :meth:`at_order`, :func:`pate.privacy.select_best` or :func:`pate.privacy.from_dp_event`.

    Attributes
    ----------
    orders, rdp : tuple of float, both of shape (n_orders,)
        Renyi divergence at increasing orders above 1, in nats; infinite where unknown.
    mu_squared : float
        The release is sqrt(mu_squared)-GDP; infinite where unknown.
    pure : float
        Pure epsilon; infinite where there is none.
    delta0 : float
        Probability by which all of the above may fail (a propose-test-release gate); it is added to delta.

    Notes
    -----
    delta0 composes by addition, and is added to delta, where for every pair of neighbours and any past the two laws are
    P = (1 - delta0) P' + delta0 P'' and Q = (1 - delta0) Q' + delta0 Q'' with *the same* delta0, and P', Q' have the
    stated costs (approximate concentrated privacy, Bun and Steinke 2016, Definition 8.1). A propose-test-release gate
    is of that form: its bad event has one probability in both worlds. An event that happens in one world only is not:
    there the true delta is up to (1 + e^epsilon) delta0.

    Examples
    --------
    >>> 2 * PublicCost.at_order(0.1, order=8.0, delta0=1e-6)
    PublicCost(orders=(8.0,), rdp=(0.2,), mu_squared=inf, pure=inf, delta0=2e-06)
    """

    orders: tuple[float, ...]
    rdp: tuple[float, ...]
    mu_squared: float = math.inf
    pure: float = math.inf
    delta0: float = 0.0
    #: The dp_accounting event it came from, if it did.
    event: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        alphas = check_orders(self.orders)
        if len(self.rdp) != len(alphas) or (np.diff(alphas) <= 0).any():
            raise InvalidInputError("a PublicCost needs increasing orders and one Renyi value for each.")
        if any(not v >= 0 for v in (*self.rdp, self.mu_squared, self.pure, self.delta0)):
            raise InvalidInputError("the values of a PublicCost must be numbers >= 0.")

    @classmethod
    def of(cls, cost: Cost) -> PublicCost:
        """Return a charge or a gate in the wider form; anything that is not a public worst case is refused.

        Parameters
        ----------
        cost : Charge, PTRGate or PublicCost
            A gate with all its answers: its Renyi curve up to its order, and its delta0.

        Raises
        ------
        InvalidInputError
            None of these, such as a data-dependent (sensitive) cost or a bare number, or a gate with seeded noise.

        Examples
        --------
        >>> PublicCost.of(Charge.gaussian(sensitivity=1.0, sigma=2.0)).mu_squared
        0.25
        >>> PublicCost.of(0.3)
        Traceback (most recent call last):
        pate.exceptions.InvalidInputError: a cost must be a pate.Charge, a PTRGate or a PublicCost, got float. ...
        """
        if isinstance(cost, PublicCost):
            return cost
        if isinstance(cost, Charge):
            return cls(DEFAULT_ORDERS, cost.rdp, cost.mu_squared, cost.pure)
        if isinstance(cost, PTRGate):
            if cost.guarantee.kind != "public":
                raise InvalidInputError("a cost must be of real noise; this gate was tested with a seed.")
            orders = tuple(sorted({a for a in (*DEFAULT_ORDERS, cost.order) if a <= cost.order}))
            return cls(orders, tuple(cost.rdp(orders).tolist()), delta0=cost.delta0)
        raise InvalidInputError(
            f"a cost must be a pate.Charge, a PTRGate or a PublicCost, got {type(cost).__name__}. Only worst "
            "cases fixed before the data are touched compose; data-dependent costs do not."
        )

    @classmethod
    def at_order(cls, rdp: float, *, order: float, delta0: float = 0.0) -> PublicCost:
        """Return a cost known at one Renyi order (and so, by monotonicity, at every smaller one).

        A propose-test-release gate with target tau at order a and noise w on its distance (in teachers) has
        rdp = tau + a/(2 w^2) and fails with delta0 (Redberg, Zhu, Wang 2023).

        Parameters
        ----------
        rdp : float
            In nats.
        order : float
            Above 1, chosen without looking at the votes.
        delta0 : float
            In [0, 1).

        Examples
        --------
        >>> tau, order, w = 0.2, 8.0, 4.0
        >>> PublicCost.at_order(tau + order / (2 * w**2), order=order, delta0=1e-6).rdp
        (0.45,)
        """
        delta0 = check_real("delta0", delta0, low=0, high=1, high_open=True)
        return cls((check_real("order", order),), (check_real("rdp", rdp, low=0),), delta0=delta0)

    def rdp_at(self, orders: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return upper bounds at any orders, shape (n_orders,): chords, since (alpha - 1) D_alpha is convex in alpha.

        Examples
        --------
        >>> PublicCost.at_order(0.1, order=8.0).rdp_at([2.0, 8.0, 9.0])
        array([0.1, 0.1, inf])
        """
        alphas = check_orders(orders)
        known, values = np.array(self.orders), np.array(self.rdp)
        finite = np.isfinite(values)
        knots = np.concatenate([[1.0], known[finite]])
        moments = np.concatenate([[0.0], values[finite] * (known[finite] - 1)])
        bound = np.interp(alphas, knots, moments, right=np.inf) / (alphas - 1)
        exact = dict(zip(self.orders, self.rdp, strict=True))
        return np.array([exact.get(a, b) for a, b in zip(alphas.tolist(), bound.tolist(), strict=True)])

    def __add__(self, other: Cost) -> PublicCost:
        return total_cost([(self, 1), (PublicCost.of(other), 1)])

    __radd__ = __add__

    def __mul__(self, n: int) -> PublicCost:
        n = check_int("n", n, low=0)
        if n == 0:
            return PublicCost.of(Charge.zero())
        event = None
        if self.event is not None:
            from dp_accounting import SelfComposedDpEvent

            event = SelfComposedDpEvent(self.event, n)
        rdp = tuple(v * n for v in self.rdp)
        return PublicCost(self.orders, rdp, self.mu_squared * n, self.pure * n, self.delta0 * n, event)

    __rmul__ = __mul__

    def guarantee(self, delta: float) -> Guarantee:
        """Return the least epsilon at ``delta`` that GDP, RDP or pure composition proves.

        Parameters
        ----------
        delta : float
            In (0, 1) and above ``delta0``.

        Raises
        ------
        InvalidInputError
            delta0 uses up all of delta, or nothing finite is known.

        Examples
        --------
        >>> one = PublicCost.of(Charge.gaussian(sensitivity=2**0.5, sigma=40.0))
        >>> (one * 300).guarantee(1e-5) == (Charge.gaussian(sensitivity=2**0.5, sigma=40.0) * 300).guarantee(1e-5)
        True
        """
        delta = check_delta(delta)
        # The margin covers the rounding of the sum of failure probabilities.
        left = delta_left(delta, self.delta0 * (1 + 1e-9))
        if left <= 0:
            raise InvalidInputError(
                f"delta must be above the {self.delta0:g} by which the gates may fail, got {delta!r}. "
                "Use gates with a smaller delta0."
            )
        by_rdp, order = rdp_to_epsilon(self.rdp, left, orders=self.orders)
        options: list[tuple[float, str, float | None]] = [(by_rdp, "rdp", order), (self.pure, "pure", None)]
        if math.isfinite(self.mu_squared):
            options.insert(0, (gdp_to_epsilon(math.sqrt(self.mu_squared), left), "gdp", None))
        epsilon, method, used = min(options, key=lambda option: option[0])
        if not math.isfinite(epsilon):
            raise InvalidInputError("this composition has no finite cost. Are single orders below all known ones?")
        return Guarantee(epsilon=epsilon, delta=delta, kind="public", method=method, order=used)


#: What composes: constants known before the data are touched.
Cost: TypeAlias = Charge | PTRGate | PublicCost


def total_cost(parts: Iterable[tuple[PublicCost, int]]) -> PublicCost:
    """Return the cost of several releases, each with how often it is made: counted one by one, equal or not.

    Each value is summed exactly over all the orders that occur and rounded once, so that n equal costs are exactly n
    times one, however they are grouped.

    Examples
    --------
    >>> one = PublicCost.of(Charge.laplace(shifts=(1.0,), scale=8.0))
    >>> total_cost([(one, 3), (one, 1)]).pure
    0.5
    """
    parts = [(cost, n) for cost, n in parts if n]
    if not parts:
        return PublicCost.of(Charge.zero())
    orders = tuple(sorted({a for cost, _ in parts for a in cost.orders}))
    times = [n for _, n in parts]
    curves = [cost.rdp_at(orders).tolist() for cost, _ in parts]
    event = None
    if all(cost.event is not None for cost, _ in parts):
        from dp_accounting import ComposedDpEvent, SelfComposedDpEvent

        event = ComposedDpEvent([SelfComposedDpEvent(cost.event, n) for cost, n in parts])
    return PublicCost(
        orders,
        tuple(_sum(column, times) for column in zip(*curves, strict=True)),
        _sum((cost.mu_squared for cost, _ in parts), times),
        _sum((cost.pure for cost, _ in parts), times),
        _sum((cost.delta0 for cost, _ in parts), times),
        event,
    )


def _sum(values: Iterable[float], times: Iterable[int]) -> float:
    """Return the sum of n times each value, rounded once."""
    pairs = list(zip(values, times, strict=True))
    if any(math.isinf(value) for value, _ in pairs):
        return math.inf
    return float(sum(Fraction(value) * n for value, n in pairs))


class Accountant:
    """The cost of a plan: everything that will be released, declared before any of it is.

    Label releases, threshold tests, gates, DP-SGD runs and private selection may be mixed; later ones may be chosen
    by looking at earlier outputs, but how much is charged in all may not. Reading an epsilon closes the plan: one
    read off while the run goes on, at the order that happens to be best so far, is an odometer reading, of which no
    guarantee is known. When the end is open use a :class:`pate.privacy.GDPFilter` or
    :class:`pate.privacy.RenyiFilter`, or a :class:`pate.Ledger`.

    Guarantees
    ----------
    Replace-one, both directions, adaptive: RDP composes by addition (Mironov 2017, Proposition 1), GDP by addition of
    mu^2 (Dong, Roth, Su 2022, Corollary 3.3), pure epsilon by addition; failure probabilities by the union bound.

    Examples
    --------
    >>> plan = Accountant()
    >>> plan.add(Charge.gaussian_argmax(40.0), what="labels", count=100)
    Accountant(100 x labels)
    >>> plan.add(PublicCost.at_order(0.3, order=8.0, delta0=1e-6), what="gate")
    Accountant(100 x labels, 1 x gate)
    >>> print(plan.guarantee(1e-5))
    (1.84975, 1e-05)-DP, public, by rdp (order 8), adjacency replace-one, both directions, adaptive
    >>> plan.add(Charge.gaussian_argmax(40.0))
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: this accountant's epsilon was read, which closed its plan. ...
    """

    def __init__(self) -> None:
        self._steps: list[tuple[str, PublicCost, int]] = []
        self._closed = False

    def add(self, cost: Cost, *, what: str = "release", count: int = 1) -> Accountant:
        """Declare ``count`` releases of this cost each.

        Parameters
        ----------
        cost : Charge, PTRGate or PublicCost
        what : str
            For the display.
        count : int

        Raises
        ------
        InvalidInputError
            Not a public worst case, or an epsilon was read already.

        Examples
        --------
        >>> one = Charge.gaussian(sensitivity=1.0, sigma=5.0)
        >>> Accountant().add(one, count=3).cost == Accountant().add(one).add(one).add(one).cost
        True
        """
        if self._closed:
            raise InvalidInputError(
                "this accountant's epsilon was read, which closed its plan. Declare everything first, or spend "
                "against a GDPFilter, a RenyiFilter or a Ledger, whose guarantee is fixed beforehand."
            )
        self._steps.append((str(what), PublicCost.of(cost), check_int("count", count, low=0)))
        return self

    def add_event(self, event: Any, *, what: str = "dp_accounting event", count: int = 1) -> Accountant:
        """Declare a dp_accounting event, such as a DP-SGD run; see :func:`pate.privacy.from_dp_event`.

        Examples
        --------
        >>> import dp_accounting
        >>> step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
        >>> plan = Accountant().add_event(dp_accounting.SelfComposedDpEvent(step, 1000), what="DP-SGD")
        >>> 3 < plan.guarantee(1e-5).epsilon < 5
        True
        """
        from pate.privacy.compose.dp_events import from_dp_event

        return self.add(from_dp_event(event), what=what, count=count)

    @property
    def cost(self) -> PublicCost:
        """The whole plan as one cost, for use in another plan or a filter; it closes this one."""
        self._closed = True
        return total_cost((cost, count) for _, cost, count in self._steps)

    def guarantee(self, delta: float) -> Guarantee:
        """Return the guarantee of the whole plan; it closes the plan. See :meth:`PublicCost.guarantee`.

        Examples
        --------
        >>> Accountant().guarantee(1e-5).epsilon
        0.0
        """
        return self.cost.guarantee(delta)

    def __repr__(self) -> str:
        return f"Accountant({', '.join(f'{n} x {what}' for what, _, n in self._steps)})"
