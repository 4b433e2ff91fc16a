"""Exact Renyi divergences of noisy-max votes: every neighbour, both directions.

Adjacency: one vote is replaced. ``forward`` is D_a(M(n) || M(n')), ``reverse`` D_a(M(n') || M(n)), each the largest
over all neighbours n' = n - e_u + e_b with n_u >= 1.

Guarantees
----------
The values are exact up to quadrature and rounding. The quadrature's relative error of every probability is proved to be
at most 1e-12, whatever the number of classes (:mod:`~pate.privacy.exact.quadrature`), the probabilities of each
histogram are checked to sum to 1 within 1e-10, and the divergences differ from an independent multiprecision
integration by less than 1e-11, relative, from 2 to 10,000 classes (see the tests). `SAFETY` and `FLOOR` turn a value
into an upper bound; a published guarantee must use :func:`upper_bound`. All values depend on the votes: they are
private numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pate._core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.privacy.convert import check_orders
from pate.privacy.exact import native
from pate.privacy.exact._histograms import (
    Groups,
    Histograms,
    check_counts,
    distinct_histograms,
    merge_far,
)
from pate.privacy.exact._log_space import Join, JoinOffsets, join_tables, log_divergences, log_law
from pate.privacy.exact._pair_law import PairLaw, all_laws, batches
from pate.privacy.exact._quadrature import FINER, OrderPlan, divergence_terms, plan_orders
from pate.privacy.exact.noise import GaussianNoise, LaplaceNoise, ThresholdTest

__all__ = ["SAFETY", "ExactDivergences", "exact_divergences", "exact_rdp", "log_probs", "upper_bound"]

NoiseLike = GaussianNoise | LaplaceNoise

#: Factor that covers quadrature and rounding (measured below 1e-11), and a floor that covers underflow to 0.
SAFETY = 1 + 1e-8
FLOOR = 1e-290

#: Histograms at once, on one thread.
CHUNK = 2048


def upper_bound(divergences: npt.ArrayLike) -> FloatArray:
    """Return divergences rounded up, so that they are certainly not below the true ones.

    Examples
    --------
    >>> upper_bound([1.0]) > 1
    array([ True])
    """
    return np.asarray(divergences, dtype=np.float64) * SAFETY + FLOOR


@dataclass(frozen=True)
class ExactDivergences:
    """The result of :func:`exact_divergences`, by distinct vote histogram; its repr shows sizes only.

    Attributes
    ----------
    orders : (n_orders,)
    forward, reverse : (n_distinct, n_orders) largest over all neighbours
    histograms : Histograms

    Examples
    --------
    >>> found = exact_divergences(
    ...     [[3, 1], [1, 3], [2, 2]], [2.0, 8.0], noise=GaussianNoise(2.0)
    ... )
    >>> found.forward.shape, found.per_query().shape
    ((2, 2), (3, 2))
    >>> found
    ExactDivergences(orders=array([2., 8.]))
    """

    orders: FloatArray
    forward: FloatArray = field(repr=False)
    reverse: FloatArray = field(repr=False)
    histograms: Histograms = field(repr=False)

    def per_query(self) -> FloatArray:
        """Return (n_queries, n_orders): the larger direction of each query."""
        return np.maximum(self.forward, self.reverse)[self.histograms.inverse]

    def totals(self) -> FloatArray:
        """Return (2, n_orders): sums over the queries, forward and reverse kept apart."""
        weight = self.histograms.multiplicity.astype(np.float64)
        return np.stack([weight @ self.forward, weight @ self.reverse])

    def total(self) -> FloatArray:
        """Return (n_orders,): the larger direction of the sums, which bounds the whole list of queries."""
        return np.asarray(self.totals().max(axis=0))


def worker_count() -> int:
    """Return how many threads to use: the cores this process may run on, at most 8."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, min(8, len(os.sched_getaffinity(0))))
    return max(1, min(8, os.cpu_count() or 1))


def _from_log(log_k: FloatArray, orders: FloatArray) -> FloatArray:
    with np.errstate(under="ignore", over="ignore"):
        return np.where(log_k > 30, log_k, np.log1p(np.exp(np.minimum(log_k, 30.0)))) / (orders - 1)


def _join(k: FloatArray, terms: tuple[FloatArray, FloatArray]) -> FloatArray:
    """Fold the threshold test into k (2, n_orders, B, G, G)."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        factor, addend = (np.moveaxis(np.exp(part), (-2, -1), (0, 1)) for part in terms)
        return np.asarray(factor * k + addend)


def _batch_maxima(law: PairLaw, groups: Groups, index: IntArray, plan: OrderPlan, join: Join | None) -> FloatArray:
    """Return K (2, n_orders, B, G): largest over the class b that gains the vote, for each losing group u."""
    n, g = law.log_prob.shape
    out = np.empty((2, plan.n_orders, n, g))
    size = max(1, int(150_000 / ((g + 2) * n * g)))
    for start in range(0, g, size):
        u = slice(start, start + size)
        weight, ratio = (np.moveaxis(a[:, :, u], 1, 0) for a in (law.weight, law.ratio))
        weight, ratio = np.where(weight > 0, weight, 0.0), np.where(weight > 0, ratio, 0.0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            inverse = -ratio / (1 + ratio)
            k = np.stack([divergence_terms(weight * (1 + ratio), inverse, plan), divergence_terms(weight, ratio, plan)])
        if join is not None:
            k = _join(k, join.of(groups, index, law.classes, law.change, u))
        # An overflow must stay visible: NaN becomes inf and sends the histogram to the log-space engine.
        k = np.where(law.valid[:, u], np.where(k < 1e300, k, np.inf), 0.0)
        out[..., u] = k.max(axis=-1)
    return out


def _numpy_maxima(
    groups: Groups, noise: NoiseLike, plan: OrderPlan, join: Join | None, *, per_group: bool, finer: int
) -> tuple[FloatArray, IntArray]:
    """Do what :func:`pate.privacy.exact.native.maxima` does."""
    out = np.zeros((len(groups.values), 2, plan.n_orders))
    state = np.full(len(groups), native.LOST, dtype=np.int64)
    for index, values, law, inexact, extreme in batches(groups, noise, max_order=max(plan.alphas), finer=finer):
        if law is not None:
            k = np.moveaxis(_batch_maxima(law, groups, index, plan, join), (0, 1), (2, 3))
            extreme |= ~np.isfinite(k).all(axis=(1, 2, 3))
            out[groups.offsets[index][:, None] + np.arange(values.shape[1])] = k
        state[index] = np.where(extreme, native.LOST, np.where(inexact, native.INEXACT, 0))
    return out if per_group else np.maximum.reduceat(out, groups.offsets[:-1], axis=0), state


def _log_maxima(groups: Groups, index: int, noise: NoiseLike, orders: FloatArray, join: Join | None) -> FloatArray:
    """Divergences (G, 2, n_orders) of one histogram by the log-space engine."""
    span = slice(groups.offsets[index], groups.offsets[index + 1])
    values, sizes = groups.values[span], groups.sizes[span]
    law = log_law(values, sizes, noise)
    log_k = log_divergences(law, orders)
    if join is not None:
        terms = join.of(groups, np.array([index]), law.classes[None], law.change[None], slice(None))
        factor, addend = (np.moveaxis(part[0], (-2, -1), (0, 1)) for part in terms)
        log_k = np.logaddexp(factor + log_k, addend)
    log_k = np.where(law.valid, log_k, -np.inf).max(axis=-1)
    return np.moveaxis(_from_log(np.moveaxis(log_k, 1, -1), orders), 0, 1)


def _refined(
    compute: Callable[..., tuple[FloatArray, IntArray]],
    groups: Groups,
    noise: NoiseLike,
    plan: OrderPlan,
    join: Join | None,
    *,
    per_group: bool,
) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Return K (rows, 2, n_orders), by a rule as fine as its proof needs, and which need the log-space engine."""
    out = np.zeros((len(groups.values) if per_group else len(groups), 2, plan.n_orders))
    lost = np.zeros(len(groups), dtype=bool)
    todo = np.arange(len(groups))
    for finer in FINER if isinstance(noise, GaussianNoise) else FINER[:1]:
        part = groups if finer == 1 else groups.take(todo)
        k, state = compute(part, noise, plan, join, per_group=per_group, finer=finer)
        rows = todo
        if per_group:
            rows = np.repeat(groups.offsets[todo] - part.offsets[:-1], part.n_groups) + np.arange(part.offsets[-1])
        out[rows] = k
        lost[todo[state == native.LOST]] = True
        todo = todo[state == native.INEXACT]
        if not len(todo):
            break
    lost[todo] = True
    return out, lost


def group_divergences(
    groups: Groups,
    noise: NoiseLike,
    orders: FloatArray,
    *,
    threshold: ThresholdTest | None = None,
    per_group: bool = True,
    engine: str = "auto",
) -> FloatArray:
    """Divergences of histograms given as groups of equal counts: (rows, 2, n_orders), forward then reverse.

    Parameters
    ----------
    groups : Groups
        At least one histogram.
    per_group : bool
        One row per group: the largest over the class that gains the vote, when a class of this group loses it
        (0 where the count is 0). Otherwise one row per histogram: the largest over all neighbours.
    engine : {"auto", "native", "numpy", "log"}
        Which implementation computes; they agree to 1e-12 (tested). Offsets are not for "native".
    """
    plan = plan_orders(tuple(float(a) for a in orders))
    join: Join | None = None
    original = groups
    if threshold is not None and (threshold.offsets is None) != (groups.margins is None):
        raise InvalidInputError("votes must be grouped by the offsets of the threshold test. Pass it to vote_groups.")
    if threshold is not None and groups.margins is not None:
        # Counts far below the leader still differ in what the test sees of them: nothing is merged.
        join, place = JoinOffsets(threshold, orders), np.arange(len(groups.values))
        engine = "numpy" if engine == "auto" else engine
    else:
        groups, place = merge_far(groups, noise.far(float(orders.max())))
        tops = groups.values[groups.offsets[:-1]]
        if threshold is not None and len(tops):
            join = join_tables(threshold, int(tops.min()), int(tops.max()), orders)
    if engine == "log":
        out = np.zeros((len(groups.values) if per_group else len(groups), 2, len(orders)))
        lost = np.ones(len(groups), dtype=bool)
    else:
        use_native = engine == "native" or (engine == "auto" and native.available())
        compute = native.maxima if use_native else _numpy_maxima
        k, lost = _refined(compute, groups, noise, plan, join, per_group=per_group)
        out = np.log1p(k) / (orders - 1)
    for index in np.flatnonzero(lost):
        found = _log_maxima(groups, int(index), noise, orders, join)
        if per_group:
            out[groups.offsets[index] : groups.offsets[index + 1]] = found
        else:
            out[index] = found.max(axis=0)
    if per_group and groups is not original:
        # A far count of 0 shares its place with counts that can lose a vote; it cannot.
        out = np.where(original.values[:, None, None] > 0, out[place], 0.0)
    return out


def exact_divergences(
    counts: npt.ArrayLike,
    orders: npt.ArrayLike,
    *,
    noise: NoiseLike,
    threshold: ThresholdTest | None = None,
    engine: str = "auto",
) -> ExactDivergences:
    """Compute the exact divergences of noisy-max queries, the largest over all neighbours.

    Parameters
    ----------
    counts : (n_queries, n_classes) int array
        Votes per class.
    orders : (n_orders,) floats above 1
    noise : GaussianNoise or LaplaceNoise
        Noise on every count.
    threshold : ThresholdTest, optional
        The query is answered only if a noisy largest count passes; refusing is an outcome of its own. With offsets,
        these must be public and fixed before any answer: see docs/public-curve.md.

    Returns
    -------
    ExactDivergences
        Private: a function of the votes.

    Raises
    ------
    InvalidInputError
        Counts that are not whole numbers >= 0 of at least two classes, or orders not above 1.

    Examples
    --------
    >>> found = exact_divergences([[250, 0], [0, 250]], [2.0], noise=GaussianNoise(40.0))
    >>> len(found.forward), float(found.total()[0].round(9))
    (1, 3.1e-07)
    """
    checked, alphas = check_counts(counts), check_orders(orders)
    histograms = distinct_histograms(checked, None if threshold is None else threshold.margins(checked))
    unique, back = np.unique(alphas, return_inverse=True)
    n = len(histograms.rows)
    worst = np.zeros((n, 2, len(unique)))

    def work(part: slice) -> None:
        groups = histograms.groups(part)
        worst[part] = group_divergences(groups, noise, unique, threshold=threshold, per_group=False, engine=engine)

    run_chunks(work, n)
    worst = worst[..., back]
    return ExactDivergences(alphas, worst[:, 0], worst[:, 1], histograms)


def run_chunks(work: Callable[[slice], None], n: int) -> None:
    """Call ``work(part)`` for every chunk of n histograms, on as many threads as there are cores."""
    parts = [slice(start, min(start + CHUNK, n)) for start in range(0, n, CHUNK)]
    if len(parts) <= 1 or worker_count() == 1:
        for part in parts:
            work(part)
        return
    with ThreadPoolExecutor(worker_count()) as pool:
        list(pool.map(work, parts))


def exact_rdp(
    counts: npt.ArrayLike,
    orders: npt.ArrayLike,
    *,
    noise: NoiseLike,
    threshold: ThresholdTest | None = None,
) -> FloatArray:
    """Return each query's largest Renyi divergence over neighbours and directions, shape (n_queries, n_orders).

    Raises
    ------
    InvalidInputError
        Counts that are not whole numbers >= 0 of at least two classes, or orders not above 1.

    Examples
    --------
    >>> exact_rdp([125, 125], [2.0], noise=GaussianNoise(40.0)).round(9)
    array([[0.000795...]])
    """
    return exact_divergences(counts, orders, noise=noise, threshold=threshold).per_query()


def log_probs(counts: npt.ArrayLike, *, noise: NoiseLike, threshold: ThresholdTest | None = None) -> FloatArray:
    """Return exact log probabilities of all outcomes: (n_queries, n_classes), with a threshold one more for refusal.

    Raises
    ------
    InvalidInputError
        Counts that are not whole numbers >= 0 of at least two classes.

    Examples
    --------
    >>> np.exp(log_probs([2, 2], noise=GaussianNoise(1.0)))
    array([[0.5, 0.5]])
    """
    checked = check_counts(counts)
    order = np.argsort(-checked.astype(np.int64), axis=1, kind="stable")
    histograms = distinct_histograms(checked)
    groups = histograms.groups()
    flat = np.empty(len(groups.values))
    for index, values, law in all_laws(groups, noise):
        flat[groups.offsets[index][:, None] + np.arange(values.shape[1])] = law.log_prob
    by_rank = np.repeat(flat, groups.sizes).reshape(histograms.rows.shape)[histograms.inverse]
    out = np.empty_like(by_rank)
    np.put_along_axis(out, order, by_rank, axis=1)
    if threshold is None:
        return out
    top = threshold.top(checked)
    answer, refuse = threshold.log_answer(top), threshold.log_refuse(top)
    return np.concatenate([out + answer[:, None], refuse[:, None]], axis=1)
