"""The exact outcome law of a noisy maximum, and how each single changed vote changes it.

For counts n, P(j) is the integral of f(x - n_j) prod_{i != j} F(x - n_i). Let W_j be that integrand, normalised.
Moving one vote from class u to class b multiplies it by a factor R that is close to 1, so

    P'(j) / P(j) - 1 = E_{W_j}[R - 1],

computed as it stands: no difference of two rounded probabilities. Where one class holds the largest count alone, its
own ratio is taken from sum_j (P'(j) - P(j)) = 0 if it wins more often than not: then E[R - 1] over the winner is a
sum that cancels, and otherwise the sum over the others does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pate._core.types import FloatArray, IntArray
from pate.privacy.exact._histograms import Groups, most_classes, structure
from pate.privacy.exact._log_space import log_law
from pate.privacy.exact._quadrature import (
    FINER,
    SUM_ERROR,
    LaplaceNodes,
    TrapezoidTables,
    laplace_nodes,
    trapezoid_tables,
)
from pate.privacy.exact.noise import GaussianNoise, LaplaceNoise

__all__ = ["PairLaw", "all_laws", "batches", "pair_law"]


#: Beyond these, a linear-space number may leave the range of a double: the log-space engine takes over.
MIN_LOG_PROBABILITY = -600.0
MAX_LOG_POWER = 600.0
#: Closer to -1 a ratio keeps too few digits of 1 + ratio.
MIN_RATIO = -0.997


@dataclass(frozen=True)
class PairLaw:
    """Outcome law of histograms with the same number G of distinct counts, and of all their neighbours.

    Outcomes come in S = G + 2 slots: the classes of each group left unchanged, the class u that loses a vote, the
    class b that gains it. All arrays begin with the histogram.

    Attributes
    ----------
    log_prob : (B, G) log probability of one class of each group
    classes : (B, S, G, G) number of classes in a slot, by the groups of u and b
    weight : (B, S, G, G) probability of a slot under the histogram itself
    ratio : (B, S, G, G) P'(slot) / P(slot) - 1
    valid : (B, G, G) whether such a neighbour exists
    change : (B, G, G) change of the largest count, -1, 0 or 1
    log_ratio : (B, S, G, G) log of 1 + ratio, clipped to +-700
    """

    log_prob: FloatArray
    classes: FloatArray
    weight: FloatArray
    ratio: FloatArray
    valid: npt.NDArray[np.bool_]
    change: npt.NDArray[np.int8]
    log_ratio: FloatArray


@dataclass(frozen=True)
class _Integrand:
    """log F, log hazard, four shifts (each (B, X, G)), log quadrature weights (B, X), and the proof of the step.

    ``strip`` are the rows of :attr:`TrapezoidTables.strip` (B, X, G, 2), None where nothing is left to be proved.
    """

    log_cdf: FloatArray
    log_hazard: FloatArray
    cdf_up: FloatArray
    cdf_down: FloatArray
    density_up: FloatArray
    density_down: FloatArray
    log_weight: FloatArray
    strip: FloatArray | None = None
    log_strip: float = np.inf


def _gaussian_integrand(values: IntArray, tables: TrapezoidTables, index: IntArray) -> _Integrand:
    length = int(tables.length[index].max())
    lattice = tables.start[index, None] + tables.stride * np.arange(length)
    at = lattice[:, :, None] - values[:, None, :] * tables.per_count - tables.low
    t = tables.table[at]
    log_weight = np.full(lattice.shape, np.log(tables.step))
    strip = None if tables.strip is None else tables.strip[at]
    return _Integrand(  # type: ignore[misc]
        *(t[..., k] for k in range(6)), log_weight=log_weight, strip=strip, log_strip=tables.log_strip
    )


def _laplace_integrand(values: IntArray, nodes: LaplaceNodes, noise: LaplaceNoise) -> _Integrand:
    lengths = np.diff(nodes.offsets)
    n, width = len(lengths), int(lengths.max())
    row = np.repeat(np.arange(n), lengths)
    column = np.arange(len(row)) - np.repeat(nodes.offsets[:-1], lengths)
    x = np.repeat(values[:, :1] + 1.0, width, axis=1)
    log_weight = np.full((n, width), -np.inf)
    x[row, column] = nodes.x
    log_weight[row, column] = np.log(nodes.weights)
    t = (x[:, :, None] - values[:, None, :]) / noise.scale
    return _Integrand(*noise.one_vote(t), log_weight)  # type: ignore[arg-type, call-arg]


def _log_sum(logs: FloatArray) -> FloatArray:
    """Log of the sum of exponentials over axis 1."""
    peak = logs.max(axis=1)
    with np.errstate(under="ignore"):
        return np.asarray(peak + np.log(np.exp(logs - peak[:, None]).sum(axis=1)))


def _ratios(values: IntArray, sizes: IntArray, parts: _Integrand) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log_prob (B, G), how far beyond the proved error each histogram is (B,) and raw ratios (B, S, G, G)."""
    n, g = values.shape
    log_all = (parts.log_cdf * sizes[:, None, :]).sum(-1) + parts.log_weight
    logs = log_all[..., None] + parts.log_hazard
    peak = logs.max(axis=1)
    with np.errstate(under="ignore"):
        w = np.exp(logs - peak[:, None, :])
    total = w.sum(axis=1)
    w /= total[:, None, :]
    log_prob = peak + np.log(total)
    beyond = np.full(n, -np.inf)
    if parts.strip is not None:
        raised = (parts.strip[..., 0] * sizes[:, None, :]).sum(-1) + parts.strip[..., -1, 1] + parts.log_weight
        beyond = _log_sum(raised) - log_prob[:, -1] - parts.log_strip

    up, down = parts.cdf_up, parts.cdf_down
    ratio = np.empty((n, g + 2, g, g))
    wt = np.swapaxes(w, 1, 2)
    both = (1 + up)[:, :, :, None] * down[:, :, None, :]
    ratio[:, :g] = (wt @ both.reshape(n, -1, g * g)).reshape(n, g, g, g)
    ratio[:, :g] += (wt @ up)[:, :, :, None]
    own = w * parts.density_up
    ratio[:, g] = np.swapaxes(w + own, 1, 2) @ down + own.sum(axis=1)[:, :, None]
    own = w * parts.density_down
    ratio[:, g + 1] = np.swapaxes(up, 1, 2) @ (w + own) + own.sum(axis=1)[:, None, :]
    return log_prob, beyond, ratio


def _close_the_law(
    sizes: IntArray, log_prob: FloatArray, classes: FloatArray, ratio: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Make a likely leader's probability and ratio the complements of all the others'; return (log_prob, weight)."""
    g = log_prob.shape[1]
    prob = np.exp(log_prob)
    others = (prob[:, 1:] * sizes[:, 1:]).sum(axis=1)
    lone = np.flatnonzero((sizes[:, 0] == 1) & (others < 0.5))
    if len(lone):
        log_prob[lone, 0] = np.log1p(-others[lone])
        prob[lone, 0] = 1 - others[lone]
    weight = np.empty_like(classes)
    weight[:, :g] = classes[:, :g] * prob[:, :, None, None]
    weight[:, g] = prob[:, :, None]
    weight[:, g + 1] = prob[:, None, :]
    if len(lone):
        r, q = ratio[lone], weight[lone]
        r[:, 0, 1:, 1:] = 0
        r[:, g, 0, :] = 0
        r[:, g + 1, :, 0] = 0
        lead = -np.einsum("nsub,nsub->nub", q, r) / prob[lone, 0, None, None]
        r[:, 0, 1:, 1:] = lead[:, 1:, 1:]
        r[:, g, 0, :] = lead[:, 0, :]
        r[:, g + 1, :, 0] = lead[:, :, 0]
        ratio[lone] = r
    return log_prob, weight


def pair_law(
    values: IntArray, sizes: IntArray, parts: _Integrand, *, max_order: float
) -> tuple[PairLaw, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Compute the law of a batch; also which histograms need a finer rule, and which the log-space engine."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        classes, valid, change = structure(values, sizes)
        log_prob, beyond, ratio = _ratios(values, sizes, parts)
        # Every outcome by its own integral, the leader's too.
        total = (np.exp(log_prob) * sizes).sum(axis=1)
        inexact = np.asarray(~((beyond <= 0) & (np.abs(total - 1) < SUM_ERROR)))
        log_prob, weight = _close_the_law(sizes, log_prob, classes, ratio)
        present = (classes > 0) & valid[:, None]
        log_ratio = np.where(present, np.log1p(ratio), 0.0)
        power = np.abs(log_ratio) * max_order
        g = values.shape[1]
        log_weight = np.empty_like(classes)
        log_weight[:, :g] = log_prob[:, :, None, None] + np.log(np.maximum(classes[:, :g], 1.0))
        log_weight[:, g], log_weight[:, g + 1] = log_prob[:, :, None], log_prob[:, None, :]
        # Terms below exp(-740) are below the smallest double; those in between are for the log-space engine.
        # NaN, and ratios too close to -1 to tell how close, count as not lost.
        lost = (log_weight + power < -740) & (ratio > MIN_RATIO)
        wild = ~((power < MAX_LOG_POWER) & (log_weight > MIN_LOG_PROBABILITY) & (ratio > MIN_RATIO))
        extreme = np.asarray((wild & ~lost & present).any(axis=(1, 2, 3)))
        drop = wild & lost
        weight[drop], ratio[drop], log_ratio[drop] = 0.0, 0.0, 0.0
    return PairLaw(log_prob, classes, weight, ratio, valid, change, log_ratio), inexact, extreme


def batches(
    groups: Groups, noise: GaussianNoise | LaplaceNoise, *, max_order: float, finer: int = 1, budget: int = 200_000
) -> Iterator[tuple[IntArray, IntArray, PairLaw | None, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]]:
    """Yield (index, values, law, inexact, extreme) for batches of histograms with equally many groups.

    The law is None where the shared lattice would be too large; all its histograms count as extreme.
    """
    n_groups = groups.n_groups
    top, bottom = groups.values[groups.offsets[:-1]], groups.values[groups.offsets[1:] - 1]
    tables = None
    if isinstance(noise, GaussianNoise):
        tables = trapezoid_tables(top, bottom, most_classes(groups), noise, finer=finer)
    for g in np.unique(n_groups):
        members = np.flatnonzero(n_groups == g)
        members = members[np.argsort((top - bottom)[members], kind="stable")]
        size = max(1, int(budget / ((g + 2) * g * g + 60 * g * 8)))
        for start in range(0, len(members), size):
            index = members[start : start + size]
            flat = groups.offsets[index][:, None] + np.arange(g)
            values, sizes = groups.values[flat], groups.sizes[flat]
            everything = np.ones(len(index), dtype=bool)
            if isinstance(noise, LaplaceNoise):
                parts = _laplace_integrand(values, laplace_nodes(values, sizes, noise), noise)
                law, inexact, extreme = pair_law(values, sizes, parts, max_order=max_order)
                yield index, values, law, ~everything, extreme | inexact
            elif tables is None:
                yield index, values, None, ~everything, everything
            else:
                parts = _gaussian_integrand(values, tables, index)
                yield index, values, *pair_law(values, sizes, parts, max_order=max_order)


def all_laws(groups: Groups, noise: GaussianNoise | LaplaceNoise) -> Iterator[tuple[IntArray, IntArray, PairLaw]]:
    """Yield (index, values, law) for all histograms, by whichever engine is right for each.

    Terms too small for a double are dropped: their slots have weight 0.
    """
    todo = np.arange(len(groups))
    for finer in (*FINER, 0):
        again = []
        if finer and len(todo):
            for index, values, law, inexact, extreme in batches(groups.take(todo), noise, max_order=1.0, finer=finer):
                good = ~(inexact | extreme)
                again.append(todo[index[~good]])
                if law is not None and good.any():
                    yield todo[index[good]], values[good], _select(law, good)
            todo = np.concatenate(again) if again else todo[:0]
        for single in todo if not finer else ():
            span = slice(groups.offsets[single], groups.offsets[single + 1])
            values, sizes = groups.values[span], groups.sizes[span]
            found = log_law(values, sizes, noise)
            with np.errstate(under="ignore"):
                weight = found.classes * np.exp(found.log_weight)
            logs = np.where(found.classes > 0, np.clip(found.log_ratio, -700.0, 700.0), 0.0)
            arrays = found.log_prob, found.classes, weight, np.expm1(logs), found.valid, found.change, logs
            yield np.array([single]), values[None], PairLaw(*(a[None] for a in arrays))  # type: ignore[arg-type]


def _select(law: PairLaw, mask: npt.NDArray[np.bool_]) -> PairLaw:
    if mask.all():
        return law
    arrays = law.log_prob, law.classes, law.weight, law.ratio, law.valid, law.change, law.log_ratio
    return PairLaw(*(a[mask] for a in arrays))  # type: ignore[arg-type]
