"""Looks: one function per layer of the audit, each returning a look for ``wall.Mutant``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pate.audit.law_test import check_mechanism, law_test
from wall import Found, Look

from pate.audit.bounds import curve_test, epsilon_bound
from pate.audit.claims import Claim
from pate.mechanisms import Mechanism
from pate.noise.source import NoiseSource

#: Cells of numbers whose law is told by their quantiles.
_CELLS = 20
DELTA = 1e-5


def by_law(claimed: Mechanism, faulty: Mechanism, *, n_classes: int = 10, most: int = 120_000) -> Look:
    """The exact law of what is claimed, against releases of what is run."""

    def look(planted: bool, seed: int) -> Found:
        run = faulty if planted else claimed
        found = check_mechanism(run, NoiseSource(seed), n_classes=n_classes, accounted_as=claimed, max_draws=most)
        first = max(found.evidence, key=lambda name: found.evidence[name])
        return Found(found.rejected, found.n_draws, f"log e-value {found.log_e:.0f}, most from {first}")

    return look


def by_outcomes(
    honest: Callable[[int, NoiseSource], np.ndarray],
    faulty: Callable[[int, NoiseSource], np.ndarray],
    law: np.ndarray | Callable[[], np.ndarray],
    *,
    faulty_law: Callable[[], np.ndarray] | None = None,
    batch: int = 200,
    most: int = 20_000,
) -> Look:
    """Any outcomes 0 .. k-1 of one known law: (n, source) to n outcomes."""

    def look(planted: bool, seed: int) -> Found:
        draw, source = (faulty if planted else honest), NoiseSource(seed)
        null = faulty_law if planted and faulty_law is not None else law
        null = np.asarray(null() if callable(null) else null)
        found = law_test(
            lambda counts: draw(len(counts), source),
            lambda counts: np.repeat(null[None, :], len(counts), axis=0),
            np.zeros((1, 2), dtype=np.int64),
            batch=batch,
            max_draws=most,
        )
        return Found(found.rejected, found.n_draws, f"log e-value {found.log_e:.0f}")

    return look


def quantile_cells(uniform: np.ndarray) -> np.ndarray:
    """Cells of numbers in [0, 1] that are all equally likely."""
    return np.clip((uniform * _CELLS).astype(np.int64), 0, _CELLS - 1)


EVEN = np.full(_CELLS, 1 / _CELLS)


def by_check(honest: Callable[[], Any], faulty: Callable[[], Any], holds: Callable[[Any], str]) -> Look:
    """A check of accounts: ``holds`` says what is wrong with what an account gave, or nothing."""

    def look(planted: bool, seed: int) -> Found:
        wrong = holds((faulty if planted else honest)())
        return Found(bool(wrong), 0, wrong)

    return look


def pair_epsilon(mechanism: Any, counts: np.ndarray, counts_prime: np.ndarray, times: int) -> float:
    """The larger epsilon at ``DELTA`` of one pair of votes, each query asked ``times`` times; from below."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    p, q = (np.exp(mechanism.log_probs(np.atleast_2d(c))) for c in (counts, counts_prime))
    worst = 0.0
    for a, b in ((p, q), (q, p)):
        whole = None
        for row, other in zip(a, b, strict=True):
            law, law_prime = (dict(enumerate(np.log(r).tolist())) for r in (row, other))
            one = pld.from_two_probability_mass_functions(
                law, law_prime, pessimistic_estimate=False, value_discretization_interval=1e-4, symmetric=True
            )
            many = one.self_compose(times)
            whole = many if whole is None else whole.compose(many)
        worst = max(worst, whole.get_epsilon_for_delta(DELTA))
    return worst


def by_sums(honest: Any, faulty: Any, make: Any, change: Any) -> Look:
    """Exact sums of ballots under D and D': they may differ by Delta, which the noise is scaled to."""

    def look(planted: bool, seed: int) -> Found:
        run, data = (faulty if planted else honest), make(seed)
        one, other = run(*data), run(*change(data))
        moved = int(np.square((one.sums - other.sums).astype(object)).sum())
        times = (moved / one.delta_squared) ** 0.5
        return Found(moved > one.delta_squared, 0, f"the sum moved by {times:.3g} times what one unit may move it")

    return look


def by_pair(
    claimed: Callable[[], float], faulty: Callable[[], float], law: Any, votes: Any, votes_prime: Any, times: int = 1
) -> Look:
    """The exact divergence of one pair of votes, against the epsilon at ``DELTA`` that an account gives."""

    def look(planted: bool, seed: int) -> Found:
        found = pair_epsilon(law, np.array(votes), np.array(votes_prime), times)
        told = (faulty if planted else claimed)()
        return Found(found > told, 0, f"this pair has epsilon {found:.3g}, and {told:.3g} is charged")

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


def by_replay(honest: Any, faulty: Any, make: Any, change: Any) -> Look:
    """The pipeline on D and D' with the same randomness: what moved inside."""

    def look(planted: bool, seed: int) -> Found:
        from pate.audit import replay

        data = make(seed)
        found = replay(faulty if planted else honest, data, change(data), published=True)
        return Found(found.refuted, found.n_releases, found.finding)

    return look


#: The probability that a true claim is refuted, over all sizes that are tried.
FALSE_ALARMS = 1e-6
#: Runs of each world that are looked at; a larger game has the smaller one's runs in it.
SIZES = (30, 100, 300, 1_000, 4_000, 20_000, 60_000)
#: The scores of n runs of world 0 or 1: (world, n, source).
Scores = Callable[[int, int, NoiseSource], np.ndarray]


def by_game(
    honest: tuple[Scores, Any], faulty: tuple[Scores, Any], *, most: int = 4_000, textbook: bool = False
) -> Look:
    """Scores of whole runs in two worlds against a claim: its trade-off curve, or its epsilon at ``DELTA`` alone."""
    sizes = [n for n in SIZES if n <= most]
    alpha = FALSE_ALARMS / len(sizes)

    def look(planted: bool, seed: int) -> Found:
        scores, promised = faulty if planted else honest
        claim, said, n = Claim.of(promised), "", 0
        worlds = [np.zeros(0), np.zeros(0)]
        sources = [NoiseSource(seed).child(1 + world) for world in (0, 1)]
        for n in sizes:
            worlds = [
                np.concatenate([old, scores(world, n - len(old), source)])
                for world, (old, source) in enumerate(zip(worlds, sources, strict=True))
            ]
            if textbook:
                low = epsilon_bound(*worlds, delta=DELTA, level=1 - alpha, method="clopper-pearson")
                refuted, said = low > claim.epsilon(DELTA), f"epsilon is at least {low:.3g}"
            else:
                p = curve_test(*worlds, claim).p_value
                refuted, said = p <= alpha, f"p-value {p:.1g} against {claim}"
            if refuted:
                break
        return Found(refuted, 2 * n, said)

    return look
