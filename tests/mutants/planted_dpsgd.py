"""Faults of DP-SGD: gradients that are not one record's, samples that are not those charged, noise that is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.special import ndtr
from torch import nn
from wall import Mutant
from wall_looks import EVEN, by_check, by_gradients, by_outcomes, quantile_cells

from pate.dpsgd._checks import try_module
from pate.dpsgd.engines import PerRecordEngine
from pate.dpsgd.mechanisms import PoissonSGD, Shape
from pate.exceptions import InvalidInputError
from pate.noise.source import NoiseSource

FEATURES, CLASSES, RECORDS, BATCH = 4, 3, 64, 16
SHAPE = Shape(RECORDS, BATCH / RECORDS, 2, BATCH)
SIZE = FEATURES * CLASSES + CLASSES


def world(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    y = rng.integers(CLASSES, size=RECORDS)
    X = np.eye(FEATURES)[y] + rng.normal(size=(RECORDS, FEATURES))
    return torch.from_numpy(X.astype(np.float32)), torch.from_numpy(y)


def thirtyfold(data: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    X, y = data[0].clone(), data[1].clone()
    X[7], y[7] = -30.0 * X[7], (y[7] + 1) % CLASSES
    return X, y


def module() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Linear(FEATURES, CLASSES)


# ---- gradients ----


class Summed(nn.Linear):
    """A layer that adds up the rows of a batch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.cumsum(0))


class MixesRows(PerRecordEngine):
    """The rows of a batch are mixed before each one's gradient is clipped, as hooks on activations allow."""

    def clipped_sum(self, X, y, clip, **options):
        return super().clipped_sum(X.cumsum(0), y, clip, **options)


class ClipsTheMean(PerRecordEngine):
    """The gradient of the batch's mean loss is clipped, and multiplied by the size of the batch."""

    def clipped_sum(self, X, y, clip, **options):
        sums = [g.double().sum(0) for g in self.gradients(X, y, seed=options["seed"])]
        length = float(torch.cat([s.flatten() for s in sums]).norm()) / len(X)
        return [s * min(1.0, clip / length) for s in sums]


# ---- samples ----


class TwiceTheRate(PoissonSGD):
    """Batches of twice the size that is charged, as where an epoch has half its steps."""

    def batches(self, shape, n_units, source):
        twice = Shape(shape.n_units, 2 * shape.sample_rate, shape.n_steps, shape.expected_batch_size)
        return super().batches(twice, n_units, source)


class FixedBatches(PoissonSGD):
    """Rows are shuffled once and cut into batches, and the charge is that of Poisson samples."""

    def batches(self, shape, n_units, source):
        order = np.argsort(source.words(n_units), kind="stable")
        for step in range(shape.n_steps):
            yield np.sort(np.roll(order, -step * shape.expected_batch_size)[: shape.expected_batch_size])


def memberships(mechanism: PoissonSGD) -> Any:
    """Whether the first record was in step 1 and in step 2, four outcomes, for n runs."""

    def draw(n: int, source: NoiseSource) -> np.ndarray:
        runs = (list(mechanism.batches(SHAPE, RECORDS, source)) for _ in range(n))
        return np.array([2 * (0 in first) + (0 in second) for first, second in runs])

    return draw


_Q = SHAPE.sample_rate
MEMBERS = np.array([(1 - _Q) ** 2, _Q * (1 - _Q), _Q * (1 - _Q), _Q**2])


# ---- noise ----


class OncePerMicrobatch(PoissonSGD):
    """Each of four microbatches gets a quarter of the noise: variances add up, standard deviations do not."""

    def noise(self, shape, size, source):
        parts = [super(OncePerMicrobatch, self).noise(shape, size, source) for _ in range(4)]
        for drawn in zip(*parts, strict=True):
            yield sum(drawn) / 4


class BareBias(PoissonSGD):
    """The parameters of one group, the biases, get no noise."""

    def noise(self, shape, size, source):
        for drawn in super().noise(shape, size, source):
            drawn[-CLASSES:] = 0.0
            yield drawn


def noise_cells(mechanism: PoissonSGD) -> Any:
    """In which of its quantiles every number of the noise lies, for n numbers."""

    def draw(n: int, source: NoiseSource) -> np.ndarray:
        steps = Shape(RECORDS, SHAPE.sample_rate, -(-n // SIZE), BATCH)
        numbers = torch.cat(list(mechanism.noise(steps, SIZE, source)))[:n]
        return quantile_cells(ndtr(numbers.numpy()))

    return draw


# ---- what is refused ----


def _refused(layer: type[nn.Linear]) -> str:
    try:
        try_module(layer(FEATURES, CLASSES), (FEATURES,), CLASSES)
    except InvalidInputError:
        return "a module that mixes rows is refused"
    return ""


HONEST = PoissonSGD()
MUTANTS = (
    Mutant(
        "DP-SGD over a module that mixes rows (cumsum)",
        "per-sample gradients by hooks, which take the module's word for it",
        {
            "pair": by_gradients(PerRecordEngine, MixesRows, module, world, thirtyfold),
            "check": by_check(lambda: nn.Linear, lambda: Summed, _refused),
        },
    ),
    Mutant(
        "gradients averaged over the batch before clipping",
        "training loops that call clip_grad_norm_ on the mean loss",
        {"pair": by_gradients(PerRecordEngine, ClipsTheMean, module, world, thirtyfold)},
    ),
    Mutant(
        "a wrong sampling rate",
        "scripts that compute the rate from other numbers than the loader has",
        {"law": by_outcomes(memberships(HONEST), memberships(TwiceTheRate()), MEMBERS, most=20_000)},
    ),
    Mutant(
        "fixed batches charged as Poisson samples",
        "data loaders that shuffle, under an accountant for Poisson sampling (Chua et al. 2024)",
        {"law": by_outcomes(memberships(HONEST), memberships(FixedBatches()), MEMBERS, most=20_000)},
    ),
    Mutant(
        "noise once per microbatch",
        "gradient accumulation around a private optimiser",
        {"law": by_outcomes(noise_cells(HONEST), noise_cells(OncePerMicrobatch()), EVEN)},
    ),
    Mutant(
        "a parameter group without noise",
        "optimisers that step over the groups themselves",
        {"law": by_outcomes(noise_cells(HONEST), noise_cells(BareBias()), EVEN)},
    ),
)
