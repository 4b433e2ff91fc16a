"""Whether noise is drawn afresh: between the queries of one release, between releases, and for every answer."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from pate.audit.laws._law import _name, _target
from pate.audit.laws._registry import Numbers, find
from pate.audit.laws._subject import Cells, ImpossibleError, Sampler, ask, drawn_by, labels_of, numbers_of
from pate.core.checks import check_int, check_real
from pate.core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.noise.source import NoiseSource
from pate.report.audit_result import AuditResult, Figure

__all__ = ["independence"]

#: Queries of one release.
_QUERIES = 256
#: How far apart two queries are that are compared.
_LAGS = (1, 2, 128)
#: Shares of pairs that may be copies.
_COPIES = (1e-3, 1e-2, 0.05, 0.2, 0.5, 1.0)
#: Numbers fall into so many equally likely stretches.
_STRETCHES = 4
#: Classes over which a leader by one vote wins seldom, unless its noise was left out.
_MANY = 1_000
#: Shares of answers whose noise may be left out.
_LEFT_OUT = (3e-4, 1e-3, 3e-3, 1e-2, 1e-1)

LIMITS = (
    "Copies of noise were looked for between neighbouring queries, at a few distances in one release, between "
    "neighbouring classes (and the first and the last), and between a release and the next; noise that is re-used at "
    "another distance stays unseen."
)


def independence(
    mechanism: Any,
    *,
    sampler: Any = None,
    n_classes: int = 3,
    false_alarms: float = 1e-6,
    max_releases: int = 60_000,
    noise_seed: int | None = None,
) -> AuditResult:
    """Test that queries of one release, and releases, have noise of their own, and that no answer goes without.

    Pairs of answers to equal histograms must have the product of their exact laws: neighbours in a release, queries
    further apart, and the same query of two releases (seeded noise gives the same answer twice). For noisy maxima a
    leader by one vote over 999 equals wins about once in a thousand, twice as often where noise is left out once in a
    thousand; for released numbers :func:`law` sees that too.

    Parameters
    ----------
    mechanism : mechanism
        The claim: registered, or with ``log_probs``.
    sampler : callable or mechanism, optional
        As in :func:`law`; called with 256 equal rows, twice in turn.
    n_classes : int
        Of the histogram that pairs are asked about.
    false_alarms : float
        Probability that a true claim is refuted.
    max_releases : int
        Answers, of each kind of test.
    noise_seed : int, optional
        Of a mechanism's own noise; one stream for all of its releases.

    Returns
    -------
    AuditResult

    Raises
    ------
    InvalidInputError
        A mechanism without a known law, or a sampler that fails or returns another shape.

    Notes
    -----
    The mean of one e-process for each kind of pair, as in :func:`law`; half of the false alarms are for noise left out.

    Examples
    --------
    >>> from pate import GNMax
    >>> independence(GNMax(40.0), noise_seed=0, max_releases=5_000).refuted
    False
    >>> seeded = lambda counts: (counts + np.random.default_rng(7).normal(0, 40, counts.shape)).argmax(axis=1)
    >>> independence(GNMax(40.0), sampler=seeded).finding
    "the claim 'two releases differ' fails after 512 answers."
    """
    n_classes = check_int("n_classes", n_classes, low=2)
    alpha = check_real("false_alarms", false_alarms, low=0, high=1, low_open=True, high_open=True)
    most = check_int("max_releases", max_releases, low=1)
    entry = find(mechanism)
    if entry is None:
        raise InvalidInputError(f"independence knows no law of {type(mechanism).__name__}. Register it first.")
    source = NoiseSource(noise_seed)
    draw = drawn_by(mechanism if sampler is None else sampler, source)
    # Where a threshold is, half of the queries pass; otherwise all classes are alike.
    exact = mechanism.exact_parameters() if hasattr(mechanism, "exact_parameters") else {"threshold": None}
    level = 0 if exact["threshold"] is None else max(0, round(exact["threshold"].threshold))
    row = np.full((1, n_classes), level, dtype=np.int64)
    claimed = entry.law(mechanism, row)
    started = time.perf_counter()
    figures: list[Figure] = []
    try:
        found, n = _pairs(draw, row, claimed, most, -math.log(alpha / 2), figures)
        if not found and entry.wide and hasattr(mechanism, "exact_parameters"):
            found, more = _left_out(draw, mechanism, most, -math.log(alpha / 2), figures)
            n += more
    except ImpossibleError as impossible:
        found, n = f"{impossible}.", 1
    return AuditResult(
        layer="law",
        target=_target(mechanism, sampler),
        claim=f"noise of {_name(mechanism)} is drawn afresh for every query of every release",
        tried=f"pairs of up to {most:,} answers, in one release and in two",
        refuted=bool(found),
        finding=found or f"nothing in {n:,} answers.",
        false_alarms=alpha,
        n_releases=n,
        seconds=time.perf_counter() - started,
        limits=LIMITS,
        figures=tuple(figures),
        settings={"n_classes": n_classes, "noise": "seeded" if source.seeded else "operating system"},
    )


def _pairs(
    draw: Sampler, row: IntArray, claimed: FloatArray | Numbers, most: int, line: float, figures: list[Figure]
) -> tuple[str, int]:
    """Return what was found, and after how many answers."""
    rows = np.repeat(row, _QUERIES, axis=0)
    ends, chances = _stretches(claimed) if isinstance(claimed, Numbers) else (None, claimed[0])
    kinds = [f"queries {lag} apart have noise of their own" for lag in _LAGS] + ["two releases differ"]
    classes = _class_pairs(claimed.centres.shape[1]) if isinstance(claimed, Numbers) else {}
    kinds += classes
    cells = _pair_cells(np.asarray(chances))
    tallies = {kind: np.zeros(cells.law.shape, dtype=np.int64) for kind in kinds}
    n, next_look, values = 0, 2 * _QUERIES, np.zeros(len(kinds))
    while n < most:
        first, second = (_outcomes(ask(draw, rows), row, claimed, ends) for _ in range(2))
        n += 2 * _QUERIES
        for kind, lag in zip(kinds, _LAGS, strict=False):
            for one in (first, second):
                blocks = one.reshape(-1, 2, lag, one.shape[1])
                _count(tallies[kind], blocks[:, 0], blocks[:, 1], len(chances))
        _count(tallies["two releases differ"], first, second, len(chances))
        for kind, (one_class, other) in classes.items():
            _count(tallies[kind], first[:, one_class], first[:, other], len(chances))
        if n >= next_look or n >= most:
            next_look = math.ceil(1.2 * next_look)
            values = np.array([cells.log_e(tallies[kind])[0] for kind in kinds])
            if np.logaddexp.reduce(values) - math.log(len(kinds)) >= line:
                break
    figures.append(Figure(name="answers", value=float(n), of="pairs"))
    figures += [Figure(name="log e-value", value=float(v), of=kind) for v, kind in zip(values, kinds, strict=True)]
    if np.logaddexp.reduce(values) - math.log(len(kinds)) < line:
        return "", n
    return f"the claim {kinds[int(values.argmax())]!r} fails after {n:,} answers.", n


def _class_pairs(n: int) -> dict[str, tuple[IntArray, IntArray]]:
    """Return pairs of classes by the name of what is tested: no class twice in one test, so pairs are independent."""
    found = {}
    for start in (0, 1):
        one = np.arange(start, n - 1, 2)
        if len(one):
            found[f"neighbouring classes have noise of their own, from class {start} on"] = one, one + 1
    if n > 2:
        found["the first class and the last have noise of their own"] = np.array([0]), np.array([n - 1])
    return found


def _pair_cells(chances: FloatArray) -> Cells:
    """Return the one cell of pairs: the product law, and copies (or opposites) now and then to bet on."""
    product = np.outer(chances, chances)
    copies = np.diag(chances)
    rivals = {f"{s:g} are copies": ((1 - s) * product + s * copies).reshape(1, -1) for s in _COPIES}
    if np.allclose(chances, chances[::-1]):
        opposite = np.fliplr(np.diag(chances))
        rivals |= {f"{s:g} are opposites": ((1 - s) * product + s * opposite).reshape(1, -1) for s in _COPIES}
    return Cells(("pairs",), product.reshape(1, -1), rivals)


def _count(tallies: IntArray, first: IntArray, second: IntArray, n: int) -> None:
    tallies += np.bincount((first * n + second).ravel(), minlength=n * n).reshape(1, -1)


def _stretches(law: Numbers) -> tuple[FloatArray, FloatArray]:
    """Return the ends of about equally likely stretches of the first number, above its centre, and their chances."""
    edges, below = law.edges(), law.below(law.edges())
    wanted = np.arange(1, _STRETCHES) / _STRETCHES
    at = [int(abs(below[0] - w).argmin()) for w in wanted]
    chances = np.diff(np.concatenate([[0.0], below[0, at], [1.0]]))
    return edges[0, at] - law.centres.ravel()[0], chances


def _outcomes(released: Any, row: IntArray, claimed: FloatArray | Numbers, ends: FloatArray | None) -> IntArray:
    """Return outcome numbers (n_queries, n_each): the label, or the stretch of each number."""
    if not isinstance(claimed, Numbers):
        return labels_of(released, _QUERIES, claimed.shape[1], row.shape[1])[:, None]
    numbers = numbers_of(released, (_QUERIES, claimed.centres.shape[1]))
    assert ends is not None
    return np.asarray(np.searchsorted(ends, numbers - claimed.centres))


def _left_out(draw: Sampler, mechanism: Any, most: int, line: float, figures: list[Figure]) -> tuple[str, int]:
    """Return whether a leader by one vote wins too often, as it does where noise is left out now and then."""
    entry = find(mechanism)
    assert entry is not None
    test = mechanism.exact_parameters()["threshold"]
    level = 0 if test is None else max(0, round(test.threshold + 4 * test.scale))
    row = np.full((1, _MANY), level, dtype=np.int64)
    row[0, _MANY // 2] += 1
    law = np.asarray(entry.law(mechanism, row))
    merged = np.array([[law[0, _MANY // 2], 1 - law[0, _MANY // 2]]])
    truth = np.array([[1.0, 0.0]])
    rivals = {f"{s:g} without noise": (1 - s) * merged + s * truth for s in _LEFT_OUT}
    cells, tallies, n = Cells(("leader by one vote",), merged, rivals), np.zeros((1, 2), dtype=np.int64), 0
    log_e, each = 0.0, 1_000
    while n < most and log_e < line:
        labels = labels_of(ask(draw, np.repeat(row, each, axis=0)), each, law.shape[1], _MANY)
        n += each
        wins = int((labels == _MANY // 2).sum())
        tallies += [[wins, each - wins]]
        log_e = cells.log_e(tallies)[0]
    figures.append(Figure(name="log e-value", value=log_e, of="every answer has noise"))
    figures.append(Figure(name="answers", value=float(n), of="every answer has noise"))
    return ("" if log_e < line else f"the claim 'every answer has noise' fails after {n:,} answers."), n
