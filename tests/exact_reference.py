"""Slow references in multiprecision, for the tests: written from the definitions, sharing nothing with the engines.

Every class is treated on its own (no groups), both histograms of a pair are integrated separately, and the
divergence is the plain sum over outcomes.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import mpmath as mp  # type: ignore[import-untyped]

__all__ = ["GroupedLaw", "divergence", "gaussian_probs", "laplace_probs", "neighbours", "with_threshold", "worst"]


def _phi_cdf(t: Any) -> Any:
    return mp.erfc(-t / mp.sqrt(2)) / 2


def gaussian_probs(counts: Sequence[int], sigma: float, *, step: float = 0.2, reach: float = 13.0) -> list[Any]:
    """P(j) for every class; the largest count's is the complement of the others when it is alone."""
    sigma = mp.mpf(sigma)
    top, bottom = max(counts), min(counts)
    low, high = (top + bottom) / mp.mpf(2) - reach * sigma, top + reach * sigma
    n = int(mp.ceil((high - low) / (sigma * step)))
    totals = {c: mp.mpf(0) for c in counts}
    for i in range(n + 1):
        x = low + i * step * sigma
        product = mp.mpf(1)
        hazards = {}
        for c in totals:
            t = (x - c) / sigma
            cdf = _phi_cdf(t)
            hazards[c] = mp.exp(-t * t / 2) / mp.sqrt(2 * mp.pi) / cdf
            product *= cdf ** counts.count(c)
        for c in totals:
            totals[c] += product * hazards[c] * step
    return _complement(counts, totals)


def laplace_probs(counts: Sequence[int], scale: float, *, half: int = 12) -> list[Any]:
    """Return the same for Laplace noise, by Gauss-Legendre of ``half`` nodes on panels between the kinks."""
    scale = mp.mpf(scale)
    kinks = sorted(set(counts))
    edges = [kinks[0] - 90 * scale, *kinks, kinks[-1] + 90 * scale]
    totals = {c: mp.mpf(0) for c in counts}
    nodes = _gauss_legendre(half)
    for left, right in itertools.pairwise(edges):
        panels = int(mp.ceil((right - left) / scale))
        for p in range(panels):
            a = left + (right - left) * mp.mpf(p) / panels
            b = left + (right - left) * mp.mpf(p + 1) / panels
            for node, weight in nodes:
                x = (a + b) / 2 + (b - a) / 2 * node
                product, hazards = weight * (b - a) / 2 / scale, {}
                for c in totals:
                    t = (x - c) / scale
                    half_exp = mp.exp(-abs(t)) / 2
                    cdf = half_exp if t < 0 else 1 - half_exp
                    hazards[c] = half_exp / cdf
                    product *= cdf ** counts.count(c)
                for c in totals:
                    totals[c] += product * hazards[c]
    return _complement(counts, totals)


def _gauss_legendre(n: int) -> list[tuple[Any, Any]]:
    found = []
    for k in range(n):
        x = mp.cos(mp.pi * (k + mp.mpf(3) / 4) / (n + mp.mpf(1) / 2))
        for _ in range(100):
            p0, p1 = mp.mpf(1), x
            for j in range(2, n + 1):
                p0, p1 = p1, ((2 * j - 1) * x * p1 - (j - 1) * p0) / j
            slope = n * (x * p1 - p0) / (x * x - 1)
            move = p1 / slope
            x -= move
            if abs(move) < mp.eps * 4:
                break
        found.append((x, 2 / ((1 - x * x) * slope * slope)))
    return found


def _complement(counts: Sequence[int], totals: dict[int, Any]) -> list[Any]:
    top = max(counts)
    if list(counts).count(top) == 1:
        totals[top] = 1 - sum(totals[c] for c in counts if c != top)
    return [totals[c] for c in counts]


def with_threshold(probs: Sequence[Any], counts: Sequence[int], threshold: float, sigma: float) -> list[Any]:
    """Return the m + 1 outcomes of the mechanism that refuses when max(counts) + N(0, sigma^2) < threshold."""
    answer = _phi_cdf((max(counts) - mp.mpf(threshold)) / mp.mpf(sigma))
    refuse = _phi_cdf((mp.mpf(threshold) - max(counts)) / mp.mpf(sigma))
    return [*(answer * p for p in probs), refuse]


def divergence(p: Sequence[Any], q: Sequence[Any], order: float) -> Any:
    """D_order(p || q).

    The sum of p^a q^(1 - a) is written as 1 + sum of q g(log p/q), equal because p and q sum to 1, so that
    divergences far below the working precision differ from 0.
    """
    a = mp.mpf(order)
    total = mp.mpf(0)
    big = max(range(len(q)), key=lambda j: q[j])
    for j in range(len(p)):
        if j == big:
            # log p/q of a near-certain outcome from the others' differences.
            change = -sum(p[i] - q[i] for i in range(len(p)) if i != big) / q[big]
            ratio = mp.log1p(change)
        else:
            ratio = mp.log(p[j] / q[j])
        total += q[j] * (mp.expm1(a * ratio) - a * mp.expm1(ratio))
    return mp.log1p(total) / (a - 1)


def neighbours(counts: Sequence[int]) -> list[tuple[int, int, list[int]]]:
    """All (u, b, counts with one vote moved from class u to class b), one of each kind of equal classes."""
    seen, found = set(), []
    for u, cu in enumerate(counts):
        for b, cb in enumerate(counts):
            if u == b or cu < 1 or (cu, cb) in seen:
                continue
            seen.add((cu, cb))
            moved = list(counts)
            moved[u] -= 1
            moved[b] += 1
            found.append((u, b, moved))
    return found


def worst(
    counts: Sequence[int],
    scale: float,
    orders: Sequence[float],
    *,
    laplace: bool = False,
    threshold: tuple[float, float] | None = None,
) -> tuple[list[Any], list[Any]]:
    """Largest forward and reverse divergence over all neighbours, at every order."""
    law = laplace_probs if laplace else gaussian_probs

    def outcomes(n: Sequence[int]) -> list[Any]:
        probs = law(n, scale)
        return with_threshold(probs, n, *threshold) if threshold else probs

    p = outcomes(counts)
    forward, reverse = [mp.mpf(0)] * len(orders), [mp.mpf(0)] * len(orders)
    for _, _, moved in neighbours(counts):
        q = outcomes(moved)
        for k, order in enumerate(orders):
            forward[k] = max(forward[k], divergence(p, q, order))
            reverse[k] = max(reverse[k], divergence(q, p, order))
    return forward, reverse


class GroupedLaw:
    """Laws of a histogram and of all its neighbours for many classes, by Gauss-Legendre instead of a trapezoid.

    Equal counts are integrated once; apart from that every histogram on its own, from the definition.
    """

    def __init__(self, counts: Sequence[int], scale: float, *, laplace: bool = False, nodes: int = 14) -> None:
        self.scale, self.laplace = mp.mpf(scale), laplace
        self.sizes = Counter(counts)
        edges = self._laplace_edges() if laplace else self._gaussian_edges()
        rule = _gauss_legendre(nodes)
        self._nodes = [
            ((a + b + (b - a) * x) / 2, weight * (b - a) / 2)
            for a, b in itertools.pairwise(edges)
            for x, weight in rule
        ]
        self._cdfs: dict[int, list[Any]] = {}
        self._densities: dict[int, list[Any]] = {}

    def _gaussian_edges(self) -> list[Any]:
        top, bottom, m = max(self.sizes), min(self.sizes), sum(self.sizes.values())
        reach = 13 + mp.sqrt(2 * mp.log(m)) + 2 / self.scale
        high = top / self.scale + reach
        low = max(min((top + bottom) / mp.mpf(2), top) / self.scale, bottom / self.scale) - reach
        n = int(mp.ceil((high - low) * 4))
        return [low + (high - low) * k / n for k in range(n + 1)]

    def _laplace_edges(self) -> list[Any]:
        """Panels of at most a quarter, graded to the kinks: left of one, the integrand may fall like exp(m x)."""
        m = sum(self.sizes.values())
        kinks = sorted({(c + d) / self.scale for c in self.sizes for d in (-1, 0, 1)})
        kinks = [kinks[0] - 60, *kinks, kinks[-1] + 60]
        edges = set(kinks)
        for left, right in itertools.pairwise(kinks):
            edge, width = right, mp.mpf(1) / m
            while edge > left:
                edges.add(edge)
                edge -= width
                width = min(width * mp.mpf("1.3"), mp.mpf("0.25"))
        return sorted(edges)

    def _tables(self, count: int) -> tuple[list[Any], list[Any]]:
        if count not in self._cdfs:
            t = [x - count / self.scale for x, _ in self._nodes]
            if self.laplace:
                self._densities[count] = [mp.exp(-abs(v)) / 2 for v in t]
                self._cdfs[count] = [d if v < 0 else 1 - d for v, d in zip(t, self._densities[count], strict=True)]
            else:
                root = mp.sqrt(2 * mp.pi)
                self._cdfs[count] = [_phi_cdf(v) for v in t]
                self._densities[count] = [mp.exp(-v * v / 2) / root for v in t]
        return self._cdfs[count], self._densities[count]

    def law(self, sizes: dict[int, int]) -> dict[int, Any]:
        """P(one class) by its count."""
        tables = {c: self._tables(c) for c in sizes}
        totals = dict.fromkeys(sizes, mp.mpf(0))
        for i, (_, weight) in enumerate(self._nodes):
            product = weight
            for c, size in sizes.items():
                product *= tables[c][0][i] ** size
            for c in sizes:
                totals[c] += product * tables[c][1][i] / tables[c][0][i]
        return totals

    def pairs(self) -> Iterator[tuple[int, int, list[tuple[int, Any, Any]]]]:
        """Yield the counts (u, b) between which a vote moves, and (number of classes, P, P' of one) of all outcomes."""
        p = self.law(self.sizes)
        for u, b in itertools.product(self.sizes, repeat=2):
            if u < 1 or (u == b and self.sizes[u] < 2):
                continue
            moved = Counter(self.sizes)
            moved.subtract([u, b])
            moved.update([u - 1, b + 1])
            q = self.law({c: size for c, size in moved.items() if size})
            # The unchanged of each count, the loser, the winner.
            same = {c: size - (c == u) - (c == b) for c, size in self.sizes.items()}
            outcomes = [(size, p[c], q[c]) for c, size in same.items() if size]
            yield u, b, [*outcomes, (1, p[u], q[u - 1]), (1, p[b], q[b + 1])]

    def worst(self, orders: Sequence[float]) -> tuple[dict[int, Any], list[Any], list[Any]]:
        """Return the law, and the largest forward and reverse divergence over all neighbours at every order."""
        forward, reverse = [mp.mpf(0)] * len(orders), [mp.mpf(0)] * len(orders)
        for _, _, outcomes in self.pairs():
            for k, order in enumerate(orders):
                forward[k] = max(forward[k], grouped_divergence(outcomes, order))
                reverse[k] = max(reverse[k], grouped_divergence([(n, y, x) for n, x, y in outcomes], order))
        return self.law(self.sizes), forward, reverse


def grouped_divergence(outcomes: Sequence[tuple[int, Any, Any]], order: float) -> Any:
    """D_order of laws given as (number of classes, p, q); the same sum as :func:`divergence`."""
    a = mp.mpf(order)
    total = mp.mpf(0)
    big = max(range(len(outcomes)), key=lambda j: outcomes[j][2] / outcomes[j][0])
    for j, (n, p, q) in enumerate(outcomes):
        change = p / q - 1
        if j == big and n == 1:
            # A near-certain outcome has its digits in the others.
            change = -sum(k * (x - y) for i, (k, x, y) in enumerate(outcomes) if i != big) / q
        total += n * q * (mp.expm1(a * mp.log1p(change)) - a * change)
    return mp.log1p(total) / (a - 1)
