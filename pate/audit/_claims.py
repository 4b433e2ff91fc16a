"""Claims about a release as trade-off curves, the form that all audits compare with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from pate._core.checks import check_real, least_of, shown
from pate._core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.privacy.budget import Budget
from pate.privacy.convert import format_up, gdp_to_delta, gdp_to_epsilon
from pate.privacy.cost import Charge
from pate.privacy.losses import discretization_interval
from pate.privacy.words import Guarantee

__all__ = ["Claim"]

#: Points of a curve that is known at any epsilon.
_N_POINTS = 1500
#: At these deltas a curve's epsilon is stored exactly, not interpolated.
_USUAL = tuple(10.0**-k for k in range(1, 13))
#: Relative error granted to a delta, and beyond it e^epsilon would overflow.
_MARGIN, _MOST_EPSILON = 1e-10, 500.0


@dataclass(frozen=True, repr=False)
class Claim:
    """A privacy claim to test: the most an attacker can reach if it is true. Made by :meth:`of` or :meth:`gaussian`.

    Attributes
    ----------
    kind : {"gaussian", "pld", "points"}
        ``"gaussian"``: the exact curve of Gaussian differential privacy; ``"pld"``: a whole curve otherwise (a privacy
        loss distribution, or a charge's accounts together); ``"points"``: (epsilon, delta) pairs and no more.
    text : str
        The claim in words.
    mu : float or None
        It is mu-GDP (for a charge, besides its other accounts).
    points : tuple of (epsilon, delta)
        Pairs that it promises, all of them at once.
    sensitive : bool
        Whether the claim itself is a private number; its words then hold none.

    Notes
    -----
    **Guarantees.** All pairs hold in both directions. (epsilon, delta)-DP bounds the true positive rate of every test
    of one neighbour against the other at false positive rate a by min(e^epsilon a + delta, 1 - e^-epsilon (1 - delta -
    a)) (Kairouz, Oh, Viswanath 2015, Theorem 2.1; Dong, Roth, Su 2022, Proposition 2.5); mu-GDP by
    Phi(Phi^-1(a) + mu) (ibid., Definition 2.6). delta is convex in e^epsilon, so that it lies below the chords of its
    points: a curve of finitely many points claims a little less, never more, than what it was taken from.

    Examples
    --------
    >>> claim = Claim.of((1.0, 1e-5))
    >>> str(claim), claim.kind, claim.true_positives([0.01]).round(4)
    ('(1, 1e-05)-DP', 'points', array([0.0272]))
    >>> Claim.gaussian(1.0).epsilon(1e-5) < Claim.gaussian(1.0).epsilon(1e-6)
    True
    """

    kind: str
    text: str
    mu: float | None = None
    points: tuple[tuple[float, float], ...] = field(default=(), repr=False)
    sensitive: bool = False

    @classmethod
    def of(cls, x: Any) -> Claim:
        """Return the claim of a guarantee, budget, charge or (epsilon, delta).

        Parameters
        ----------
        x : Claim, Guarantee, Budget, Charge, (epsilon, delta), a list of such pairs, or dp_accounting's PLD

        Raises
        ------
        InvalidInputError
            Something else, or a guarantee for one direction only.

        Examples
        --------
        >>> from pate import Budget, GNMax
        >>> print(Claim.of(Budget(1.0, 1e-5)))
        (1, 1e-05)-DP
        >>> claim = Claim.of(
        ...     GNMax(40.0).charge(300)
        ... )  # mu-GDP and a Renyi curve: the lesser at each delta
        >>> claim.kind, round(claim.epsilon(1e-5), 4)
        ('pld', 2.1211)
        >>> Claim.of("1.0")
        Traceback (most recent call last):
        pate.exceptions.InvalidInputError: a claim must be a Claim, Guarantee, Budget, Charge, (epsilon, delta), ...
        """
        if isinstance(x, Claim):
            return x
        if isinstance(x, Guarantee):
            return _of_guarantee(x)
        if isinstance(x, Charge):
            return _of_charge(x)
        if hasattr(x, "get_delta_for_epsilon") and hasattr(x, "get_epsilon_for_delta"):
            points = _sampled(x.get_delta_for_epsilon, x.get_epsilon_for_delta)
            return cls("pld", _curve_text("a privacy loss distribution", points), points=points)
        if pairs := _pairs((x.epsilon, x.delta) if isinstance(x, Budget) else x):
            return cls("points", " and ".join(_pair_text(*pair) for pair in pairs), points=pairs)
        raise InvalidInputError(
            "a claim must be a Claim, Guarantee, Budget, Charge, (epsilon, delta), a list of such pairs, or a privacy "
            f"loss distribution of dp_accounting, got {shown(x)}. Try (1.0, 1e-5), or Claim.gaussian(mu)."
        )

    @classmethod
    def gaussian(cls, mu: float) -> Claim:
        """Return the claim of mu-Gaussian differential privacy: mu is sensitivity over sigma, of all releases together.

        Examples
        --------
        >>> Claim.gaussian(3.0)
        Claim('3-GDP')
        """
        mu = check_real("mu", mu, low=0, low_open=True)
        return cls("gaussian", f"{format_up(mu)}-GDP", mu=mu)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Claim({self.text!r})"

    def delta(self, epsilon: float) -> float:
        """Return the least delta that it promises at ``epsilon`` >= 0.

        Examples
        --------
        >>> Claim.of((1.0, 1e-5)).delta(1.0), Claim.of((1.0, 0.0)).delta(0.0).__round__(4)
        (1e-05, 0.4621)
        """
        epsilon = check_real("epsilon", epsilon, low=0)
        found = [1.0]
        if self.mu is not None:
            found.append(gdp_to_delta(self.mu, epsilon) * (1 + _MARGIN))
        if self.points:
            e, d = self._hull
            found.append(float(np.interp(math.exp(min(epsilon, _MOST_EPSILON)), e, d)))
        return least_of(*found)

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon that it promises at ``delta``; infinite where it promises none.

        Examples
        --------
        >>> Claim.of((1.0, 1e-5)).epsilon(1e-5), Claim.of((1.0, 1e-5)).epsilon(1e-6)
        (1.0, inf)
        """
        delta = check_real("delta", delta, low=0, high=1, high_open=True)
        found = [math.inf]
        if self.mu is not None and delta > 0:
            found.append(gdp_to_epsilon(self.mu, delta))
        if self.points:
            kept = [e for e, d in self.points if d <= delta]
            e, d = self._hull
            if delta >= d[-1]:
                kept.append(float(np.log(np.interp(-delta, -d, e))))
            found += kept
        return least_of(*found)

    def true_positives(self, false_positives: npt.ArrayLike) -> FloatArray:
        """Return the highest true positive rate that the claim allows at each false positive rate, in both directions.

        Parameters
        ----------
        false_positives : array-like of floats in [0, 1]

        Returns
        -------
        float64 array of the same shape
            Concave and increasing: 1 - f of the claim's trade-off function f.

        Examples
        --------
        >>> Claim.gaussian(1.0).true_positives([0.0, 0.5, 1.0]).round(4)
        array([0.    , 0.8413, 1.    ])
        """
        a = np.asarray(false_positives, dtype=np.float64)
        if not ((a >= 0) & (a <= 1)).all():
            raise InvalidInputError("false_positives must be rates in [0, 1]. Divide counts by the number of runs.")
        found = np.ones(a.shape)
        if self.mu is not None:
            found = np.minimum(found, ndtr(ndtri(a) + self.mu))
        if self.points:
            starts, slopes, heights = self._lines
            line = np.searchsorted(starts, a, side="right") - 1
            found = np.minimum(found, slopes[line] * a + heights[line])
        return np.clip(found, 0.0, 1.0)

    @cached_property
    def _hull(self) -> tuple[FloatArray, FloatArray]:
        """The lower hull of all pairs in (e^epsilon, delta), from epsilon 0 on: delta is convex there and decreases."""
        # A pair whose e^epsilon overflows is left out: lowering its epsilon would claim more than it does.
        kept = [p for p in self.points if p[0] <= _MOST_EPSILON]
        e, d = np.exp(np.array([p[0] for p in kept])), np.array([p[1] for p in kept])
        at_zero = float(np.min(1 - (1 - d) * 2 / (1 + e), initial=1.0))
        hull: list[tuple[float, float]] = []
        for x, y in sorted([(1.0, at_zero), *zip(e.tolist(), d.tolist(), strict=True)]):
            if hull and (y >= hull[-1][1] or x == hull[-1][0]):  # sorted: the least delta of an epsilon comes first
                continue
            while len(hull) > 1 and _above(hull[-2], hull[-1], (x, y)):
                hull.pop()
            hull.append((x, y))
        return np.array([p[0] for p in hull]), np.array([p[1] for p in hull])

    @cached_property
    def _lines(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The lines that the curve is made of: from which false positive rate on, slope, height at 0.

        Any of them bounds the curve from above everywhere, so that rounding of where they meet cannot hurt a claim.
        """
        e, d = self._hull
        slopes = np.concatenate([e[::-1], 1 / e])
        heights = np.concatenate([d[::-1], 1 - (1 - d) / e])
        drop, rise = -np.diff(slopes), np.diff(heights)
        meet = np.divide(rise, drop, out=np.zeros(len(drop)), where=drop > 0)
        return np.concatenate([[0.0], np.maximum.accumulate(np.clip(meet, 0.0, 1.0))]), slopes, heights


def _above(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Whether b lies on or above the line from a to c."""
    return (b[1] - a[1]) * (c[0] - a[0]) >= (c[1] - a[1]) * (b[0] - a[0])


def _pairs(x: Any) -> tuple[tuple[float, float], ...]:
    """Return the (epsilon, delta) pairs in ``x``; none where it is something else."""
    if not isinstance(x, list | tuple) or not x:
        return ()
    rows = [x] if not isinstance(x[0], list | tuple) else list(x)
    if any(not isinstance(row, list | tuple) or len(row) != 2 for row in rows):
        return ()
    remedy = "Give epsilon first, then delta."
    return tuple(
        (check_real("epsilon", e, low=0), check_real("delta", d, low=0, high=1, high_open=True, remedy=remedy))
        for e, d in rows
    )


def _pair_text(epsilon: float, delta: float) -> str:
    return f"({format_up(epsilon, 6)}, {delta:g})-DP"


def _curve_text(what: str, points: Iterable[tuple[float, float]]) -> str:
    usual = sorted((d, e) for e, d in points if d in _USUAL and d <= 1e-5)
    said = f" with {_pair_text(usual[-1][1], usual[-1][0])}" if usual else ""
    return f"the curve of {what}{said}"


def _of_guarantee(guarantee: Guarantee) -> Claim:
    if guarantee.directions != "both":
        raise InvalidInputError(
            "a claim must hold in both directions, and this Guarantee bounds the forward direction only: it promises "
            "no privacy. Account for both directions."
        )
    pair = ((guarantee.epsilon, guarantee.delta),)
    if guarantee.kind == "data-dependent":
        return Claim("points", "a data-dependent guarantee (its numbers are private)", points=pair, sensitive=True)
    return Claim("points", str(guarantee), points=pair)


def _of_charge(charge: Charge) -> Claim:
    gaussian = tuple(a * charge.mu_squared / 2 for a in charge.orders)
    mu = math.sqrt(charge.mu_squared) if math.isfinite(charge.mu_squared) and not charge.delta0 else None
    if mu and charge.losses is None and math.isinf(charge.pure) and np.allclose(charge.rdp, gaussian, rtol=1e-9):
        return Claim.gaussian(mu)
    # Each account by itself is a promise; the charge converts them at any delta. Its losses follow, composed once.
    accounts = replace(charge, losses=None)
    deltas = [*_USUAL, *np.geomspace(max(1e-15, 1.01 * charge.delta0), 0.9, 120)]
    points = [(accounts.guarantee(d).epsilon, d) for d in map(float, deltas) if d > charge.delta0 * 1.001]
    if charge.losses is not None and charge.losses.n_steps:
        points += _of_losses(charge, {d: e for e, d in points}.get(1e-5, math.inf))
    if math.isfinite(charge.pure):
        points.append((charge.pure, charge.delta0))
    return Claim("pld", _curve_text("a charge", points), mu=mu, points=tuple(points))


def _of_losses(charge: Charge, about: float) -> list[tuple[float, float]]:
    losses = charge.losses
    if losses is None or not about <= _MOST_EPSILON:
        return []
    found = losses.distribution(discretization_interval(about, losses.n_steps))
    extra = losses.slack + charge.delta0
    points = _sampled(
        found.get_delta_for_epsilon, lambda d: found.get_epsilon_for_delta(d - extra) if d > extra else math.inf
    )
    # The usual deltas are asked for with the slack taken off; all others get it on top.
    return [(e, d if d in _USUAL else d + extra) for e, d in points if d + extra < 1]


def _sampled(delta_of: Callable[[Any], Any], epsilon_of: Callable[[float], float]) -> tuple[tuple[float, float], ...]:
    """Return a curve as points: at the usual deltas, and densely up to where delta no longer matters."""
    usual = [(float(epsilon_of(d)), d) for d in _USUAL]
    finite = [e for e, _ in usual if e <= _MOST_EPSILON]
    top = max([*finite, 1e-3]) * 1.2
    epsilons = np.concatenate([np.linspace(0.0, top, _N_POINTS), top + np.geomspace(1e-2, _MOST_EPSILON - top, 50)])
    deltas = np.asarray(delta_of(epsilons), dtype=np.float64)
    rows = zip(epsilons.tolist(), np.clip(deltas, 0.0, 1.0).tolist(), strict=True)
    return tuple(pair for pair in [*usual, *rows] if math.isfinite(pair[0]) and pair[0] <= _MOST_EPSILON)
