"""One run of private training: sampled units, clipped gradients, noise, nothing else.

Three things are not left to Opacus 1.6 and torch, so that what is sampled is what is accounted:

* Opacus takes int(1 / (1 / k)) steps an epoch, which is k - 1 for some k (93, 99, 105, ...), and its masks are 24-bit
  floats; here the number of steps is given and a unit is in when a 64-bit word is below q 2^64.
* torch's CPU generator keeps only the lower 32 bits of its seed, few enough to try them all; here samples and noise
  come from :class:`pate.noise.source.NoiseSource`, by default the operating system's cryptographic generator.
* Hooks on a batch's activations trust the module to keep records apart; no engine of :mod:`pate.dpsgd.engines` does:
  one runs records alone, the other layers that it knows, by their types' own code.

Who is in a step and which noise goes in is the mechanism's (:mod:`pate.dpsgd.mechanisms`); the sum, an engine's.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pate.core.seeds import training_seed
from pate.core.tape import note, playing, settle
from pate.dpsgd._canaries import CanaryRun
from pate.dpsgd._optimizers import tell_noise
from pate.dpsgd._units import Units
from pate.dpsgd.clipping import Clip, Clipping, ClippingRun
from pate.dpsgd.engines import Engine
from pate.dpsgd.engines._layers import BLOCK, whole_blocks
from pate.dpsgd.mechanisms import Shape, TrainingMechanism
from pate.exceptions import InvalidInputError, PateError
from pate.noise.source import NoiseSource

#: Units of a block that are expected in a step: few enough that hardly any has more than float32 may add up.
_IN_BLOCK = 62


def training_steps(
    engine: Engine,
    units: Units,
    *,
    mechanism: TrainingMechanism,
    shape: Shape,
    source: NoiseSource,
    optimizer: torch.optim.Optimizer,
    noise_multiplier: float,
    clipping: Clipping,
    clip: ClippingRun,
    max_physical_batch_size: int | None = None,
    random_state: int | None = None,
    shared_draws: bool = False,
    numbered: bool = False,
    start: int = 0,
    canaries: CanaryRun | None = None,
) -> Generator[int]:
    """Train the module behind ``engine`` and yield the number of steps done, after each one.

    Between two steps the parameters are what has been released so far, and whatever is done to them is post-processing.

    Parameters
    ----------
    engine : Engine
        Of a new module, on the device of ``units``.
    units : Units
        The private rows.
    mechanism : TrainingMechanism
    shape : Shape
    source : NoiseSource
        Of samples, noise and which of a person's records are taken: a child for each.
    optimizer : torch.optim.Optimizer
        Over the trainable parameters of the module.
    noise_multiplier : float
        Of the whole step, in units of the clipping norm.
    clipping : Clipping
    clip : ClippingRun
        Of this run, from ``clipping.start``.
    max_physical_batch_size : int or None
        Rows at once; None leaves it to the engine.
    random_state : int or None
        Of the module's own random numbers (dropout).
    shared_draws : bool
        Whether all records of a step draw the same ones. Otherwise a record's hang on how many stand before it:
        harmless where a sample told to the attacker would cost no more, as without amplification. Else not, for
        neighbours of equal size neither: a record in the sample would give those behind it other draws than one that is
        out, and move the sum by far more than its own gradient.
    numbered : bool
        Whether units have the same numbers in neighbours: sums may then be rounded in blocks by these numbers.
    start : int
        Steps that were done before: their batches and noise are drawn again and passed over.
    canaries : CanaryRun or None
        Units of an auditor's behind the private ones.

    Raises
    ------
    InvalidInputError
        The module's code failed on private rows. What it said is not told: it may quote them.
    """
    parameters = [p for p in engine.module.parameters() if p.requires_grad]
    sizes = [p.numel() for p in parameters]
    # A clipping that releases more than gradients takes its noise from theirs; norms round by ``excess``.
    multiplier = clipping.gradient_noise_multiplier(noise_multiplier, shape.expected_batch_size) * (1 + engine.excess)
    k = units.rows_per_unit
    at_once = max(1, (max_physical_batch_size or engine.at_once) // k)
    root = training_seed(random_state, 1)
    n_units = units.n_units if canaries is None else canaries.n_units + canaries.canaries.n
    batches = mechanism.batches(shape, n_units, source.child(0))
    draws = mechanism.noise(shape, sum(sizes) + clip.extra_draws, source.child(1))
    try:
        for step, (batch, noise) in enumerate(islice(zip(batches, draws, strict=True), start, None), start):
            # An empty sample is a step like any other: its sum is zero and gets its noise.
            total: list[torch.Tensor] = []
            which, marks = source.child(2, step), np.zeros(0, np.int64)
            if canaries is not None:
                batch, marks = canaries.split(batch)
            for first, some, blocks in _parts(batch, at_once, shape.sample_rate if numbered and shared_draws else None):
                X, y, weights = units.take(some, which)
                seed = training_seed(root, *((step,) if shared_draws else (step, first)))
                options = {"rows_per_unit": k, "weights": weights, "shared": shared_draws, "blocks": blocks}
                found = _sum(engine, X, y, clip, seed=seed, **options)
                # Never spread out: one number would count for every weight.
                found = [part.view(p.shape) for p, part in zip(parameters, found, strict=True)]
                total = [whole.add_(part) for whole, part in zip(total, found, strict=True)] if total else found
            total = total or [torch.zeros_like(p, dtype=torch.float64) for p in parameters]
            if canaries is not None:
                canaries.add(total, marks, clip.max_norm)
            scale = multiplier * clip.max_norm
            if playing() is not None:
                told = {"step": step, "scale": scale, "max_norm": clip.max_norm, "n_drawn": len(batch)}
                note("dpsgd", sums=[part.cpu().numpy().copy() for part in total], **told)
            for p, whole, drawn in zip(parameters, total, noise[: sum(sizes)].split(sizes), strict=True):
                whole.add_(drawn.to(p.device).view_as(p), alpha=scale)
                if playing() is not None:
                    whole.copy_(settle("DP-SGD", whole))
                # The sum is rounded to the parameter's precision after the noise is in.
                p.grad = (whole / shape.expected_batch_size).to(p.dtype)
            if canaries is not None:
                canaries.observe(total, clip.max_norm)
            tell_noise(optimizer, scale / shape.expected_batch_size)
            clip.step(noise[sum(sizes) :])
            optimizer.step()
            yield step + 1
    finally:
        for p in parameters:
            p.grad = None


def _parts(
    batch: npt.NDArray[np.int64], at_once: int, rate: float | None
) -> Iterator[tuple[int, npt.NDArray[np.int64], list[int] | None]]:
    """Yield where a part of a step's units begins, the part, and how many stand in each of its blocks.

    With a rate blocks are of so many numbers that some :data:`_IN_BLOCK` of their units are in a step, and parts are
    whole blocks: no unit's block hangs on who else is there.
    """
    if rate is None or at_once < BLOCK:
        for first in range(0, len(batch), at_once):
            yield first, batch[first : first + at_once], None
        return
    counts = np.bincount(batch // max(1, int(_IN_BLOCK / rate)))
    sizes = counts[counts > 0].tolist()
    for first, held in whole_blocks(sizes, at_once):
        yield first, batch[first : first + sum(held)], held


def _sum(engine: Engine, X: torch.Tensor, y: torch.Tensor, clip: Clip, **options: Any) -> list[torch.Tensor]:
    """Return an engine's sum; what the module's own code says about private rows stays here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return engine.clipped_sum(X, y, clip, **options)
        except PateError:
            raise
        except Exception as error:
            problem = type(error).__name__
    raise InvalidInputError(
        f"training failed: the module raised {problem} on the private rows, though not on made-up ones. What it "
        "said is not shown: it may quote private values. That it failed is for the curator alone."
    )
