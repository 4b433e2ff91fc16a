"""Certified public Renyi divergences of one noisy argmax and of one threshold test (Gaussian noise).

Replacing one vote moves two counts, hence a/sigma^2 by data processing. But only the winner is released, and that is
worth a third less: for every histogram, number of classes and neighbour D_a <= rho*(a), about 0.64 a/sigma^2.
``rho_star_table.npz`` holds proved bounds on a grid of orders and of 1/sigma (made by ``certify.py``, proofs in
docs/public-curve.md). Between the grid's points chords are bounds too, because (a - 1) D_a is convex in a and convex
in 1/sigma.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_int, check_real
from pate._core.types import FloatArray
from pate.exceptions import InvalidInputError

__all__ = ["rho_star", "threshold_rho_star", "vote_cap_rho_star"]


_TABLE = Path(__file__).with_name("rho_star_table.npz")
_UNIT = 60_000.0
_PAIR, _SINGLE = 0, 1


@cache
def _table() -> tuple[FloatArray, FloatArray, FloatArray]:
    with np.load(_TABLE, allow_pickle=False) as stored:
        return stored["orders"], stored["inverse_sigmas"], stored["table"] / _UNIT


def _check_orders(orders: npt.ArrayLike) -> FloatArray:
    array = np.asarray(orders, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all() or (array <= 0).any():
        raise InvalidInputError(
            f"orders must be a list of finite numbers > 0 of shape (n_orders,), got {orders!r}. "
            "Renyi orders above 1, such as [1.5, 2, 8, 32], are what the conversion to epsilon uses."
        )
    return array


def _bound(orders: FloatArray, h: float, kind: int) -> FloatArray:
    """Return the certified bound, never above the Gaussian one (squared shift 2 h^2 or h^2)."""
    knots, hs, constants = _table()
    shift_sq = 2.0 * h * h if kind == _PAIR else h * h
    gaussian = 0.5 * orders * shift_sq
    if h >= hs[-1]:
        return gaussian
    # (a - 1) rho* at the table's orders, by a chord in h from the grid (with the point 0, where it is 0).
    n = int(np.searchsorted(hs, h, side="right"))
    unit = shift_sq / (h * h)
    scale = 0.5 * knots * (knots - 1.0) * unit
    right = scale * hs[n] ** 2 * constants[kind, n]
    left_h = float(hs[n - 1]) if n else 0.0
    left = scale * hs[n - 1] ** 2 * constants[kind, n - 1] if n else np.zeros_like(right)
    weight = (h - left_h) / (float(hs[n]) - left_h)
    at_knots = np.minimum(left + weight * (right - left), scale * h * h)
    # Orders below the first knot: D_a does not decrease in a. Above the last: the Gaussian bound.
    inner = np.clip(orders, knots[0], knots[-1])
    bound = np.interp(inner, knots, at_knots) / (inner - 1.0)
    result: FloatArray = np.where(orders > knots[-1], gaussian, np.minimum(gaussian, bound))
    return result


def rho_star(orders: npt.ArrayLike, sigma: float) -> FloatArray:
    """Return the public Renyi divergence of one answer of GNMax (argmax of counts + N(0, sigma^2)), whatever the votes.

    Parameters
    ----------
    orders : array-like of shape (n_orders,)
        Renyi orders > 0.
    sigma : float
        Standard deviation of the Gaussian noise on every count, in votes.

    Returns
    -------
    numpy.ndarray of shape (n_orders,)
        An upper bound on D_a, in nats, at most orders / sigma^2.

    Notes
    -----
    Guarantee: replacement of one vote (u to b, any u and b), both directions, every histogram, any number of teachers
    and of classes >= 2, queries chosen adaptively. Only the label may be released. The noise has to be the continuous
    Gaussian, independent on every class of a fixed public list (empty ones too); the discrete Gaussian
    has another curve (theorem 3). Proved in docs/public-curve.md, theorem 1; 0 to 0.3% above the exact supremum.

    Examples
    --------
    >>> (rho_star([2.0, 8.0, 32.0], sigma=40.0) * 40**2 / [2, 8, 32]).round(3)
    array([0.64 , 0.641, 0.654])
    """
    sigma = check_real("sigma", sigma, low=0, low_open=True, remedy="Use the noise's standard deviation in votes.")
    return _bound(_check_orders(orders), 1.0 / sigma, _PAIR)


def threshold_rho_star(orders: npt.ArrayLike, sigma1: float) -> FloatArray:
    """Return the public Renyi divergence of one threshold test: the bit ``top count + N(0, sigma1^2) >= T``.

    The top count moves by at most 1. The same number bounds a noisy argmax when one single count moves by 1 (a voter
    abstains in one of the two worlds).

    Parameters
    ----------
    orders : array-like of shape (n_orders,)
        Renyi orders > 0.
    sigma1 : float
        Standard deviation of the test's Gaussian noise, in votes.

    Returns
    -------
    numpy.ndarray of shape (n_orders,)
        An upper bound on D_a, in nats, at most orders / (2 sigma1^2).

    Notes
    -----
    Guarantee: both directions, any public threshold, any counts; sensitivity 1. Proved in
    docs/public-curve.md, theorem 2.

    Examples
    --------
    >>> (threshold_rho_star([2.0, 32.0], sigma1=150.0) * 2 * 150**2 / [2, 32]).round(3)
    array([0.637, 0.637])
    """
    sigma1 = check_real("sigma1", sigma1, low=0, low_open=True, remedy="Use the test's standard deviation in votes.")
    return _bound(_check_orders(orders), 1.0 / sigma1, _SINGLE)


def vote_cap_rho_star(orders: npt.ArrayLike, sigma: float, max_votes: int) -> FloatArray:
    """Return the public Renyi divergence of a whole run in which every teacher votes at most ``max_votes`` times.

    A step where the changed teacher votes in one world only moves one count (binary bound), a step where it votes in
    both moves two; with s single and d double steps, s + 2 d <= 2 max_votes on every transcript.

    Parameters
    ----------
    orders : array-like of shape (n_orders,)
        Renyi orders > 0. Fix the order used for a stopping rule beforehand.
    sigma : float
        Standard deviation of the Gaussian noise on every count, in votes.
    max_votes : int
        The cap B, >= 1.

    Returns
    -------
    numpy.ndarray of shape (n_orders,)
        max_votes * max(rho_star, 2 * single-count bound), at most max_votes * orders / sigma^2.

    Examples
    --------
    >>> float(
    ...     (
    ...         vote_cap_rho_star([8.0], sigma=40.0, max_votes=3)
    ...         / rho_star([8.0], sigma=40.0)
    ...     )[0].round(9)
    ... )
    3.0
    """
    max_votes = check_int("max_votes", max_votes, low=1)
    pair = rho_star(orders, sigma)
    return max_votes * np.maximum(pair, 2.0 * threshold_rho_star(orders, sigma))
