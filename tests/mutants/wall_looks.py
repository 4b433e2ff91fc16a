"""One function per layer of the audit, each returning a check ("look") for ``wall.Mutant``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from wall import Found, Look

from pate.audit import Claim, independence, law, pair, replay
from pate.audit._bounds import curve_test, epsilon_bound
from pate.privacy.noise.source import NoiseSource
from pate.report.audit_result import AuditResult

DELTA = 1e-5
#: The probability that a true claim is refuted, in every look that is not certain.
FALSE_ALARMS = 1e-6


def _found(result: AuditResult) -> Found:
    return Found(result.refuted, result.n_releases, result.finding)


# ---- law ----


def by_law(claimed: Any, faulty: Any, *, audit: Any = law, most: int = 3_000, **options: Any) -> Look:
    """The exact law of what is claimed, against releases of what is run: both mechanisms, or a function to draw by."""

    def look(planted: bool, seed: int) -> Found:
        return _found(
            audit(claimed, sampler=faulty if planted else None, noise_seed=seed, max_releases=most, **options)
        )

    return look


def by_pairs(claimed: Any, faulty: Any, *, most: int = 5_000) -> Look:
    """Whether queries of a release, and releases, have noise of their own."""
    return by_law(claimed, faulty, audit=independence, most=most)


def by_outcomes(
    draw: Callable[[int, NoiseSource], np.ndarray],
    exact: Callable[[], np.ndarray],
    faulty: Callable[[], np.ndarray],
    *,
    most: int,
) -> Look:
    """Outcomes 0 .. k-1, drawn as they should be, against the law that an account takes them to have."""

    def look(planted: bool, seed: int) -> Found:
        drawn_from, source = (faulty if planted else exact)(), NoiseSource(seed)
        found = law(
            lambda counts: np.repeat(drawn_from[None, :], len(counts), axis=0),
            sampler=lambda counts: draw(len(counts), source),
            bank=np.zeros((1, len(drawn_from)), dtype=np.int64),
            max_releases=most,
        )
        return _found(found)

    return look


# ---- pair ----


def by_pair(
    claimed: Callable[[], Any],
    faulty: Callable[[], Any],
    law: Any,
    votes: Any,
    other: Any,
    n: int,
    *,
    max_moved: int = 1,
) -> Look:
    """The exact divergence of one pair of votes, asked about ``n`` times, against the charge or guarantee given."""

    def look(planted: bool, seed: int) -> Found:
        claim = (faulty if planted else claimed)()
        return _found(
            pair([votes] * n, [other] * n, law, claim=claim, delta=DELTA, max_moved=max_moved, published=True)
        )

    return look


def by_sums(honest: Any, faulty: Any, make: Any, change: Any) -> Look:
    """Exact sums of ballots under D and D': they may differ by Delta, which the noise is scaled to."""

    def look(planted: bool, seed: int) -> Found:
        run, data = (faulty if planted else honest), make(seed)
        one, other = run(*data), run(*change(data))
        moved = int(np.square((one.sums - other.sums).astype(object)).sum())
        times = (moved / one.delta_squared) ** 0.5
        return Found(moved > one.delta_squared, 0, f"the sum moved by {times:.3g} times what one unit may move it")

    return look


def by_gradients(honest: Any, faulty: Any, module: Any, make: Any, change: Any, *, norm: float = 1.0) -> Look:
    """Sums of clipped gradients of a batch under D and D': one record may move them by twice the norm."""

    def look(planted: bool, seed: int) -> Found:
        engine, data = (faulty if planted else honest)(module()), make(seed)
        sums = [engine.clipped_sum(X, y, norm, seed=0) for X, y in (data, change(data))]
        squares = sum(float((a - b).square().sum()) for a, b in zip(*sums, strict=True))
        times = squares**0.5 / (2 * norm)
        return Found(times > 1 + 1e-6, 0, f"the sum moved by {times:.3g} times what one record may move it")

    return look


# ---- replay ----


def by_replay(honest: Any, faulty: Any, make: Any, change: Any, *, people: bool = False) -> Look:
    """The pipeline on D and D' with the same randomness: what moved inside.

    ``people``: whether the fault is about persons. Else the unit is the record, and no groups are passed: pipelines
    that drop them would be found for that alone.
    """

    def look(planted: bool, seed: int) -> Found:
        data = make(seed)
        parts = 3 if people else 2
        return _found(replay(faulty if planted else honest, data[:parts], change(data)[:parts], published=True))

    return look


# ---- game ----

#: The scores of n runs of world 0 or 1: (world, n, source).
Scores = Callable[[int, int, NoiseSource], np.ndarray]
#: Sizes of a game, each with the runs of the one before.
_SIZES = (25, 50, 100, 200, 500, 1_000, 2_000, 4_000, 8_000, 20_000, 60_000)


def _game(says: Callable[[Any, Claim, float], tuple[bool, str]], most: int, honest: Any, faulty: Any) -> Look:
    sizes = [n for n in _SIZES if n <= most]

    def look(planted: bool, seed: int) -> Found:
        scores, promised = faulty if planted else honest
        claim, n, refuted, said = Claim.of(promised), 0, False, ""
        worlds = [np.zeros(0), np.zeros(0)]
        sources = [NoiseSource(seed).child(1 + world) for world in (0, 1)]
        for n in sizes:
            worlds = [
                np.concatenate([old, scores(world, n - len(old), source)])
                for world, (old, source) in enumerate(zip(worlds, sources, strict=True))
            ]
            refuted, said = says(worlds, claim, FALSE_ALARMS / len(sizes))
            if refuted:
                break
        return Found(refuted, 2 * n, said)

    return look


def by_game(honest: tuple[Scores, Any], faulty: tuple[Scores, Any], *, most: int = 4_000) -> Look:
    """Whole runs in two worlds, against the trade-off curve of a claim: the rank test of games."""

    def says(worlds: Any, claim: Claim, alpha: float) -> tuple[bool, str]:
        found = curve_test(*worlds, claim)
        rates = f"{found.true_positives:.1%} true positives where {found.allowed:.1%} are allowed"
        return found.p_value <= alpha, f"{rates}, p-value {found.p_value:.1g}"

    return _game(says, most, honest, faulty)


def by_textbook(honest: tuple[Scores, Any], faulty: tuple[Scores, Any], *, most: int = 4_000) -> Look:
    """The same runs, against the claim's epsilon at ``DELTA`` alone, by Clopper and Pearson's intervals."""

    def says(worlds: Any, claim: Claim, alpha: float) -> tuple[bool, str]:
        low = epsilon_bound(*worlds, delta=DELTA, level=1 - alpha, method="clopper-pearson")
        claimed = claim.epsilon(DELTA)
        return low > claimed, f"epsilon is at least {low:.3g}, and {claimed:.3g} is claimed"

    return _game(says, most, honest, faulty)


# ---- check ----


def by_check(honest: Callable[[], Any], faulty: Callable[[], Any], holds: Callable[[Any], str]) -> Look:
    """A check of what the layers hold fixed: ``holds`` says what is wrong, or nothing."""

    def look(planted: bool, seed: int) -> Found:
        wrong = holds((faulty if planted else honest)())
        return Found(bool(wrong), 0, wrong)

    return look
