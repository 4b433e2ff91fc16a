"""Test releases of a mechanism against the exact law that its accounting assumes (audit layer "law")."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from pate._core.checks import check_choice, check_int, check_real
from pate._core.types import FloatArray, IntArray
from pate.audit.laws._registry import Entry, Numbers, classes_of, find
from pate.audit.laws._subject import (
    Cells,
    ImpossibleError,
    Sampler,
    Subject,
    ask,
    drawn_by,
    labels_of,
    numbers_of,
    subject_of,
)
from pate.exceptions import InvalidInputError
from pate.privacy.noise.source import NoiseSource
from pate.report.audit_result import AuditResult, Curve, Figure, Picture

#: Releases at the first analysis, and the factor to each next one: more analyses cost time, not false alarms.
_FIRST, _LATER = 16, 1.15
#: Simulated tallies of the test of fixed size.
_SIMULATIONS = 9_999
_FIXED_RELEASES = 2_000
#: How many alternatives a result names.
_NAMED = 5

LIMITS = (
    "Only the histograms of the bank were asked about, one release at a time: a fault that shows on others alone, one "
    "too small for so many releases, or one that depends on earlier releases stays unseen."
)


def law(
    mechanism: Any,
    *,
    sampler: Any = None,
    n_classes: int | None = None,
    bank: Any = None,
    false_alarms: float | None = None,
    max_releases: int | None = None,
    noise_seed: int | None = None,
    test: str = "sequential",
    alternatives: Mapping[str, Any] | None = None,
) -> AuditResult:
    """Draw releases for many vote histograms and compare them with a mechanism's exact distribution (its law).

    Parameters
    ----------
    mechanism : mechanism, or function
        The claim. A registered mechanism (:func:`pate.audit.testing.register`; all of the package's are), any with
        ``log_probs``, or a function of counts (n, m) that returns probabilities (n, n_outcomes) or :class:`Numbers`.
    sampler : callable or mechanism, optional
        What is drawn, where that is not ``mechanism`` itself: ``sampler(counts)`` takes whole counts (n, m) and returns
        labels (n,), -1 where it refuses, or noisy counts (n, m), of whatever library it is.
    n_classes : int, optional
        Number of classes of all histograms. If not given: ten, and for noisy-max mechanisms also one histogram of two
        and one of 1,000 classes (not in the test of fixed size).
    bank : array-like of shape (n_histograms, n_classes), or dict of names to histograms, optional
        Made from the mechanism's branches when not given (:func:`law_bank`).
    false_alarms : float
        Probability that a true claim is refuted; 1e-6, or 1e-3 for the test of fixed size.
    max_releases : int, optional
        The most releases per histogram: 20,000 (fewer for slow mechanisms), or 2,000 for the test of fixed size.
    noise_seed : int, optional
        Seed of the mechanism's noise. None takes the operating system's, as in releases that protect people.
    test : {"sequential", "fixed"}
        Sequential stops as soon as the claim is refuted, valid at any time: an e-process (a mean of likelihood
        ratios over alternatives on all histograms together and on each, and of Dirichlet mixtures). Fixed draws
        ``max_releases`` and simulates the p-values of chi-square and of the largest likelihood ratio, for two tests.
    alternatives : dict of names to mechanisms or functions, optional
        Further alternative laws, besides the faults that are always tested: scaled, unequal or missing noise, ...

    Returns
    -------
    AuditResult
        ``refuted``, the evidence in ``figures``, the log e-value over releases as picture. Its votes are made up:
        nothing in it is private.

    Raises
    ------
    InvalidInputError
        A mechanism without a known law, a sampler that fails or returns another shape, an invalid bank.

    Notes
    -----
    Ville's inequality for e-processes (Ville 1939; Ramdas, Grunwald, Vovk, Shafer 2023, "Game-theoretic statistics and
    safe anytime-valid inference", section 3): ever reaching 1/false_alarms has at most that probability under the law.

    Examples
    --------
    >>> from pate import GNMax
    >>> honest = law(GNMax(40.0), n_classes=10, noise_seed=0)
    >>> honest.refuted, honest["releases of each histogram"].value
    (False, 20000.0)
    >>> theirs = lambda counts: (
    ...     counts + np.random.default_rng(0).normal(0, 30, counts.shape)
    ... ).argmax(axis=1)
    >>> found = law(GNMax(40.0), sampler=theirs, n_classes=10)
    >>> found.refuted, found.false_alarms
    (True, 1e-06)
    """
    check_choice("test", test, ["sequential", "fixed"])
    fixed = test == "fixed"
    alpha = (1e-3 if fixed else 1e-6) if false_alarms is None else false_alarms
    remedy = f"{_SIMULATIONS:,} simulations show no smaller one; test='sequential' does." if fixed else ""
    least = 2 / (_SIMULATIONS + 1) if fixed else 0.0
    alpha = check_real("false_alarms", alpha, low=least, high=1, low_open=not fixed, high_open=True, remedy=remedy)
    if n_classes is not None:
        n_classes = check_int("n_classes", n_classes, low=2)
    elif bank is None:
        n_classes = classes_of(mechanism)
    entry = find(mechanism)
    if max_releases is None:
        usual = entry.max_releases if entry is not None else 20_000
        max_releases = min(usual, _FIXED_RELEASES) if fixed else usual
    if fixed and n_classes is None and entry is not None:
        n_classes = entry.n_classes  # a thousand classes are slow to simulate ten thousand times
    most = check_int("max_releases", max_releases, low=1)
    subject = subject_of(mechanism, n_classes, bank, alternatives)
    drawn = _Drawn(mechanism, sampler, noise_seed, alpha)
    found = (
        _fixed(subject, drawn.draw, most, alpha, noise_seed) if fixed else _sequential(subject, drawn.draw, most, alpha)
    )
    n, finding, figures, picture = found
    histograms = subject.histograms
    return drawn.result(
        finding,
        f"nothing in {n:,} releases of each histogram.",
        {"test": test, "histograms": histograms[:32], "max_releases": most},
        claim=f"releases have the exact law of {_name(mechanism)}",
        tried=f"up to {most:,} releases of each of {len(histograms)} histograms, {test} test",
        n_releases=n * len(histograms),
        limits=LIMITS,
        figures=(Figure(name="releases of each histogram", value=float(n)), *figures),
        picture=picture,
    )


class _Drawn:
    """The sampler under test, the claim, and the time of the start."""

    def __init__(self, mechanism: Any, sampler: Any, seed: int | None, alpha: float) -> None:
        source = NoiseSource(seed)
        self.draw = drawn_by(mechanism if sampler is None else sampler, source)
        self._target = _name(mechanism) if sampler is None else f"{_name(sampler)} beside {_name(mechanism)}"
        self._seeded, self._alpha, self._started = source.seeded, alpha, time.perf_counter()

    def result(self, finding: str, nothing: str, settings: dict[str, Any], **more: Any) -> AuditResult:
        """Return the result; ``finding``: what refutes the claim, empty where nothing does."""
        return AuditResult(
            layer="law",
            target=self._target,
            refuted=bool(finding),
            finding=finding or nothing,
            false_alarms=self._alpha,
            seconds=time.perf_counter() - self._started,
            settings={**settings, "noise": "seeded" if self._seeded else "operating system"},
            **more,
        )


def analysis_sizes(most: int) -> list[int]:
    """Return after how many releases the evidence is computed, ``most`` last."""
    found = [min(_FIRST, most)]
    while found[-1] < most:
        found.append(min(most, max(found[-1] + 1, math.ceil(found[-1] * _LATER))))
    return found


#: Releases, what refutes the claim in words (empty for nothing), figures, picture.
Found = tuple[int, str, list[Figure], Picture | None]


def _sequential(subject: Subject, draw: Sampler, most: int, alpha: float) -> Found:
    line, n = -math.log(alpha), 0
    tallies = np.zeros(subject.cells.law.shape, dtype=np.int64)
    path: list[tuple[int, float]] = []
    for n_next in analysis_sizes(most):
        try:
            tallies += _possible(subject, draw, n_next - n)
        except ImpossibleError as impossible:
            return n_next, f"{impossible}.", [], _path(path, line) if path else None
        n = n_next
        log_e, values = subject.cells.log_e(tallies)
        path.append((n, log_e))
        if log_e >= line:
            break
    best = np.argsort(-values, kind="stable")[:_NAMED]
    named = [Figure(name="log e-value of a bet", value=float(values[b]), of=subject.cells.bets[b]) for b in best]
    finding = f"{subject.cells.bets[best[0]]!r} explains {n:,} releases of each histogram far better."
    figures = [Figure(name="log e-value", value=log_e), *named]
    return n, finding if log_e >= line else "", figures, _path(path, line)


def _possible(subject: Subject, draw: Sampler, n: int) -> IntArray:
    tallies = subject.tallies(draw, n)
    odd = subject.cells.impossible(tallies)
    if odd is not None:
        raise ImpossibleError(f"outcome {odd[1]} of {odd[0]!r} came out, which the claim never gives")
    return tallies


def _path(path: list[tuple[int, float]], line: float) -> Picture:
    n = [float(x) for x, _ in path]
    return Picture(
        x_label="releases of each histogram",
        y_label="log e-value",
        curves=(
            Curve(label="evidence against the claim", x=tuple(n), y=tuple(y for _, y in path)),
            Curve(label="refuted from here on", x=tuple(n), y=(line,) * len(n), role="claim"),
        ),
    )


def _fixed(subject: Subject, draw: Sampler, n: int, alpha: float, seed: int | None) -> Found:
    cells = subject.cells
    try:
        tallies = _possible(subject, draw, n)
    except ImpossibleError as impossible:
        return n, f"{impossible}.", [], None
    seen = cells.statistics(tallies)
    above = np.zeros(2)
    # Simulations are not private, and no noise of a release.
    for some in _simulated(cells.law, n, np.random.default_rng(seed)):
        above += (cells.statistics(some) >= seen).sum(axis=0)
    p = (above + 1) / (_SIMULATIONS + 1)
    both = min(1.0, 2 * float(p.min()))
    names = ("p-value of chi-square", "p-value of the largest likelihood ratio")
    figures = [Figure(name="p-value", value=both)]
    figures += [Figure(name=name, value=float(value)) for name, value in zip(names, p, strict=True)]
    return n, f"{names[int(p.argmin())]} is {p.min():.2g}." if both <= alpha else "", figures, None


def _simulated(law: FloatArray, n: int, rng: np.random.Generator) -> Any:
    """Yield tallies under the law, (n_some, n_cells, n_outcomes), ``_SIMULATIONS`` in all."""
    chances = law / law.sum(axis=1, keepdims=True)
    some = max(1, min(_SIMULATIONS, 2**22 // law.size))
    for start in range(0, _SIMULATIONS, some):
        many = min(some, _SIMULATIONS - start)
        drawn: list[IntArray] = [rng.multinomial(n, row, size=many) for row in chances]
        yield np.stack(drawn, axis=1)


def _name(mechanism: Any) -> str:
    own = getattr(mechanism, "__name__", None)
    return str(own) if isinstance(own, str) else repr(mechanism)


# Independence of noise: between the queries of one release, between releases, and for every answer.

#: Queries of one release.
_QUERIES = 256
#: Distances of two queries that are compared.
_LAGS = (1, 2, 128)
#: Shares of pairs that may be copies.
_COPIES = (1e-3, 1e-2, 0.05, 0.2, 0.5, 1.0)
#: Numbers fall into so many equally likely stretches.
_STRETCHES = 4
#: Classes over which a leader by one vote wins seldom, unless its noise was left out.
_MANY = 1_000
#: Shares of answers whose noise may be left out.
_LEFT_OUT = (3e-4, 1e-3, 3e-3, 1e-2, 1e-1)

_AFRESH_LIMITS = (
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
    """Test that a mechanism's noise is independent between queries and releases, and that every answer has noise.

    Pairs of answers to equal histograms must have the product of their exact laws: neighbours in a release, queries
    further apart, and the same query of two releases (seeded noise gives the same answer twice). For noisy maxima a
    leader by one vote over 999 equals wins about once in a thousand, twice as often where noise is left out once in a
    thousand; for released numbers :func:`law` tests that too.

    Parameters
    ----------
    mechanism : mechanism
        The claim: registered, or with ``log_probs``.
    sampler : callable or mechanism, optional
        As in :func:`law`; called with 256 equal rows, twice in turn.
    n_classes : int
        Number of classes of the histogram that is asked about; for a mechanism with offsets, as many as those.
    false_alarms : float
        Probability that a true claim is refuted.
    max_releases : int
        Answers, of each kind of test.
    noise_seed : int, optional
        Seed of the mechanism's noise; one stream for all of its releases.

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
    >>> seeded = lambda counts: (
    ...     counts + np.random.default_rng(7).normal(0, 40, counts.shape)
    ... ).argmax(axis=1)
    >>> independence(GNMax(40.0), sampler=seeded).finding
    "the claim 'two releases differ' fails after 512 answers."
    """
    own = classes_of(mechanism)
    n_classes = check_int("n_classes", n_classes, low=2) if own is None else own
    alpha = check_real("false_alarms", false_alarms, low=0, high=1, low_open=True, high_open=True)
    most = check_int("max_releases", max_releases, low=1)
    entry = find(mechanism)
    if entry is None:
        raise InvalidInputError(f"independence knows no law of {type(mechanism).__name__}. Register it first.")
    drawn = _Drawn(mechanism, sampler, noise_seed, alpha)
    # Where a threshold is, half of the queries pass; otherwise all classes are alike.
    exact = mechanism.exact_parameters() if hasattr(mechanism, "exact_parameters") else {"threshold": None}
    level = 0 if exact["threshold"] is None else max(0, round(exact["threshold"].threshold))
    row = np.full((1, n_classes), level, dtype=np.int64)
    claimed, line = entry.law(mechanism, row), -math.log(alpha / 2)
    figures: list[Figure] = []
    try:
        found, n = _pairs(drawn.draw, row, claimed, most, line, figures)
        if not found and entry.wide and own is None and hasattr(mechanism, "exact_parameters"):
            found, more = _left_out(drawn.draw, entry, mechanism, most, line, figures)
            n += more
    except ImpossibleError as impossible:
        found, n = f"{impossible}.", 1
    return drawn.result(
        found,
        f"nothing in {n:,} answers.",
        {"n_classes": n_classes},
        claim=f"noise of {_name(mechanism)} is drawn afresh for every query of every release",
        tried=f"pairs of up to {most:,} answers, in one release and in two",
        n_releases=n,
        limits=_AFRESH_LIMITS,
        figures=tuple(figures),
    )


def _pairs(
    draw: Sampler, row: IntArray, claimed: FloatArray | Numbers, most: int, line: float, figures: list[Figure]
) -> tuple[str, int]:
    rows = np.repeat(row, _QUERIES, axis=0)
    ends, chances = _stretches(claimed) if isinstance(claimed, Numbers) else (None, claimed[0])
    kinds = [f"queries {lag} apart have noise of their own" for lag in _LAGS] + ["two releases differ"]
    classes = _class_pairs(claimed.centres.shape[1]) if isinstance(claimed, Numbers) else {}
    kinds += classes
    cells = _pair_cells(np.asarray(chances))
    tallies = {kind: np.zeros(cells.law.shape, dtype=np.int64) for kind in kinds}
    n, next_analysis, values = 0, 2 * _QUERIES, np.zeros(len(kinds))
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
        if n >= next_analysis or n >= most:
            next_analysis = math.ceil(1.2 * next_analysis)
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
    """Return the one cell of pairs: the product law, and alternatives in which some are copies or opposites."""
    product = np.outer(chances, chances)
    copies = np.diag(chances)
    alternatives = {f"{s:g} are copies": ((1 - s) * product + s * copies).reshape(1, -1) for s in _COPIES}
    if np.allclose(chances, chances[::-1]):
        opposite = np.fliplr(np.diag(chances))
        alternatives |= {f"{s:g} are opposites": ((1 - s) * product + s * opposite).reshape(1, -1) for s in _COPIES}
    return Cells(("pairs",), product.reshape(1, -1), alternatives)


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


def _left_out(
    draw: Sampler, entry: Entry, mechanism: Any, most: int, line: float, figures: list[Figure]
) -> tuple[str, int]:
    """Test whether a leader by one vote wins too often, as where noise is sometimes left out."""
    test = mechanism.exact_parameters()["threshold"]
    level = 0 if test is None else max(0, round(test.threshold + 4 * test.scale))
    row = np.full((1, _MANY), level, dtype=np.int64)
    row[0, _MANY // 2] += 1
    law = np.asarray(entry.law(mechanism, row))
    merged = np.array([[law[0, _MANY // 2], 1 - law[0, _MANY // 2]]])
    truth = np.array([[1.0, 0.0]])
    alternatives = {f"{s:g} without noise": (1 - s) * merged + s * truth for s in _LEFT_OUT}
    cells, tallies, n = Cells(("leader by one vote",), merged, alternatives), np.zeros((1, 2), dtype=np.int64), 0
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
