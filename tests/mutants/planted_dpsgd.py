"""Faults of DP-SGD: gradients that are not one record's, samples that are not those charged, noise that is missing."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from wall import Mutant
from wall_looks import by_check, by_gradients, by_law

from pate.audit.laws._training import Batches
from pate.dpsgd._checks import try_module
from pate.dpsgd.engines import PerRecordEngine
from pate.dpsgd.mechanisms import PoissonSGD, Shape
from pate.exceptions import InvalidInputError

FEATURES, CLASSES, RECORDS, BATCH = 4, 3, 64, 16
SHAPE = Shape(RECORDS, BATCH / RECORDS, 2, BATCH)
SIZE = FEATURES * CLASSES + CLASSES


def world(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    y = rng.integers(CLASSES, size=RECORDS)
    X = np.eye(FEATURES)[y] + rng.normal(size=(RECORDS, FEATURES))
    return torch.from_numpy(X.astype(np.float32)), torch.from_numpy(y)


def far_out(data: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """A record is replaced by one far out, with the label that the model finds least likely."""
    X, y = data[0].clone(), data[1].clone()
    X[7] = -1000.0 * X[7]
    y[7] = int(module()(X[7]).argmin())
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
            "pair": by_gradients(PerRecordEngine, MixesRows, module, world, far_out),
            "check": by_check(lambda: nn.Linear, lambda: Summed, _refused),
        },
    ),
    Mutant(
        "gradients averaged over the batch before clipping",
        "training loops that clip the mean loss; a factor of the batch size, as Tramèr et al. (2022) found",
        {"pair": by_gradients(PerRecordEngine, ClipsTheMean, module, world, far_out)},
    ),
    Mutant(
        "a wrong sampling rate",
        "scripts that compute the rate from other numbers than the loader has",
        {"law": by_law(Batches(HONEST), Batches(TwiceTheRate()))},
    ),
    Mutant(
        "fixed batches charged as Poisson samples",
        "data loaders that shuffle, under an accountant for Poisson sampling (Chua et al. 2024)",
        {"law": by_law(Batches(HONEST), Batches(FixedBatches()))},
    ),
    Mutant(
        "noise once per microbatch",
        "gradient accumulation around a private optimiser",
        {"law": by_law(HONEST, OncePerMicrobatch())},
    ),
    Mutant(
        "a parameter group without noise",
        "optimisers that step over the groups themselves",
        {"law": by_law(HONEST, BareBias())},
    ),
)
