"""Whole runs in two worlds, and the scores that they leave: the games in which some of the faults are found."""

from __future__ import annotations

from typing import Any

import numpy as np
import planted_dpsgd as dpsgd
from planted_accounting import GNMAX
from planted_ledger import LATER, LIMIT, LOUD_TEST, N_CLASSES, ORDER, RefusalsAreFree, one_switches, teachers
from planted_noise import OftenLeftOut
from wall_looks import Scores, by_game, by_textbook

from pate import Charge, ConfidentGNMax, NoisyHistogram
from pate.dpsgd.mechanisms import PoissonSGD, Shape
from pate.mechanisms import ANSWERED
from pate.privacy.exact import GaussianNoise, per_teacher_rdp, vote_groups
from pate.privacy.noise.source import NoiseSource


def both(honest: tuple[Scores, Any], faulty: tuple[Scores, Any], **options: Any) -> tuple[Any, Any]:
    """The sharp game and the textbook's, on the same runs."""
    return by_game(honest, faulty, **options), by_textbook(honest, faulty, **options)


# ---- one noisy histogram: one vote moves ----

LOUD = NoisyHistogram(sigma=2**0.5 / 3)
QUIET = NoisyHistogram(sigma=40.0)
WORLDS = (np.array([10, 10]), np.array([11, 9]))


def histogram(mechanism: NoisyHistogram) -> Scores:
    def scores(world: int, n: int, source: NoiseSource) -> np.ndarray:
        released = mechanism.sample(np.tile(WORLDS[world], (n, 1)), source).noisy_counts
        # An attacker who knows that noise may be missing looks for counts as they are first.
        bare = [(released == counts).all(axis=1) for counts in WORLDS]
        return np.where(bare[1], np.inf, np.where(bare[0], -np.inf, released[:, 0] - released[:, 1]))

    return scores


def seeded_histogram(world: int, n: int, source: NoiseSource) -> np.ndarray:
    return np.concatenate([histogram(LOUD)(world, 1, NoiseSource(1234)) for _ in range(n)])


AT_09 = both((histogram(LOUD), LOUD.charge(1)), (histogram(LOUD.scaled(0.9)), LOUD.charge(1)))
SENSITIVITY_ONE = both(
    (histogram(LOUD), LOUD.charge(1)), (histogram(LOUD), Charge.gaussian(sensitivity=1.0, sigma=LOUD.sigma))
)
SEEDED = both((histogram(LOUD), LOUD.charge(1)), (seeded_histogram, LOUD.charge(1)), most=1_000)
LEFT_OUT = both(
    (histogram(QUIET), QUIET.charge(1)), (histogram(OftenLeftOut(QUIET.sigma)), QUIET.charge(1)), most=60_000
)


# ---- refusals ----


def refusals(mechanism: ConfidentGNMax, queries: int = 300) -> Scores:
    worlds = (np.array([249, 1]), np.array([250, 0]))

    def scores(world: int, n: int, source: NoiseSource) -> np.ndarray:
        counts = np.tile(worlds[world], (queries, 1))
        return np.array([(mechanism.sample(counts, source).status == ANSWERED).sum() for _ in range(n)], dtype=float)

    return scores


_TEST = ConfidentGNMax(*LOUD_TEST)
REFUSED = both(
    (refusals(_TEST), _TEST.charge(300)), (refusals(_TEST), RefusalsAreFree(*LOUD_TEST).charge(300)), most=1_000
)


# ---- what stops by private costs ----


def _counts(labels: np.ndarray) -> np.ndarray:
    return np.stack([np.bincount(column, minlength=N_CLASSES) for column in labels.T])


def later_answers(drop: bool) -> Scores:
    """How many more of the later answers are what the second half of the teachers says."""
    data = [D[0] for D in (teachers(0), one_switches(teachers(0)))]

    def scores(world: int, n: int, source: NoiseSource) -> np.ndarray:
        X = data[world]
        left = np.ones(len(X), dtype=bool)
        if drop:
            losses = per_teacher_rdp(
                vote_groups(X[:, :1], n_classes=N_CLASSES), [ORDER], noise=GaussianNoise(GNMAX.sigma)
            )
            left = losses.max(axis=(1, 2)) < LIMIT
        later = _counts(X[left, 1:])
        answers = [GNMAX.sample(later, source).labels for _ in range(n)]
        return np.array([(a == 3).sum() - (a == 2).sum() for a in answers], dtype=float)

    return scores


def number_of_answers(stopped: bool) -> Scores:
    data = [_counts(D[0][:, :1]) for D in (teachers(0), one_switches(teachers(0)))]

    def scores(world: int, n: int, source: NoiseSource) -> np.ndarray:
        cost = GNMAX.exact_rdp(data[world], [ORDER])[0, 0]
        return np.full(n, int(LATER * LIMIT / cost) if stopped else LATER, dtype=float)

    return scores


E1 = both(
    (later_answers(False), GNMAX.charge(1 + LATER)),
    (later_answers(True), Charge.at_order(LIMIT, order=ORDER)),
    most=300,
)
STOPPED = both(
    (number_of_answers(False), GNMAX.charge(LATER)),
    (number_of_answers(True), Charge.at_order(LATER * LIMIT, order=ORDER)),
    most=300,
)


# ---- DP-SGD: released sums of clipped gradients ----

EVERYBODY = Shape(dpsgd.RECORDS, 1.0, 1, dpsgd.RECORDS)


def sums(engine: Any) -> Scores:
    """One step with everybody in it, along the line between the two sums."""
    module = dpsgd.module()
    found = [
        np.concatenate([s.numpy().ravel() for s in engine(module).clipped_sum(X, y, 1.0, seed=0)])
        for X, y in (dpsgd.world(0), dpsgd.far_out(dpsgd.world(0)))
    ]
    line = found[1] - found[0]
    line /= np.linalg.norm(line)

    def scores(world: int, n: int, source: NoiseSource) -> np.ndarray:
        steps = Shape(dpsgd.RECORDS, 1.0, n, dpsgd.RECORDS)
        noise = np.stack([drawn.numpy() for drawn in PoissonSGD().noise(steps, dpsgd.SIZE, source)])
        return found[world] @ line + noise @ line

    return scores


def canary(mechanism: PoissonSGD, shape: Shape = EVERYBODY) -> Scores:
    """A record whose clipped gradient points along the last bias, one way or the other, in the steps that have it."""

    def scores(world: int, n: int, source: NoiseSource) -> np.ndarray:
        out = np.empty(n)
        for i in range(n):
            noise = sum(float(drawn[-1]) for drawn in mechanism.noise(shape, dpsgd.SIZE, source))
            times = sum(int(0 in batch) for batch in mechanism.batches(shape, shape.n_units, source))
            out[i] = noise + (times if world else -times)
        return out

    return scores


_FULL = PoissonSGD().charge(1.0, EVERYBODY)
_FEW = PoissonSGD().charge(1.0, dpsgd.SHAPE)


def gradients(engine: Any) -> tuple[Any, Any]:
    return both((sums(dpsgd.PerRecordEngine), _FULL), (sums(engine), _FULL), most=1_000)


def noised(mechanism: PoissonSGD) -> tuple[Any, Any]:
    return both((canary(PoissonSGD()), _FULL), (canary(mechanism), _FULL), most=1_000)


def sampled(mechanism: PoissonSGD) -> tuple[Any, Any]:
    return both((canary(PoissonSGD(), dpsgd.SHAPE), _FEW), (canary(mechanism, dpsgd.SHAPE), _FEW))


#: Name of a fault to its games, the sharp one and the textbook's. The sharp one must find it...
FOUND = {
    "noise at 0.9": AT_09,
    "sensitivity 1 for sqrt 2, Gaussian noise": SENSITIVITY_ONE,
    "seeded noise": SEEDED,
    "noise left out once in 1,000": LEFT_OUT,
    "refused queries uncharged": REFUSED,
    "teachers dropped by data-dependent cost": E1,
    "answers stopped by data-dependent cost": STOPPED,
    "DP-SGD over a module that mixes rows (cumsum)": gradients(dpsgd.MixesRows),
    "gradients averaged over the batch before clipping": gradients(dpsgd.ClipsTheMean),
    "noise once per microbatch": noised(dpsgd.OncePerMicrobatch()),
    "a parameter group without noise": noised(dpsgd.BareBias()),
    "a wrong sampling rate": sampled(dpsgd.TwiceTheRate()),
}
#: ... and here it is tried, to see whether it does.
TRIED = {"fixed batches charged as Poisson samples": sampled(dpsgd.FixedBatches())}
