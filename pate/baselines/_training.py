"""One run of DP-SGD: Poisson samples, Opacus' clipped per-record gradients, noise, nothing else.

Three things are not left to Opacus 1.6 and torch, so that what is sampled is what is accounted:

* Opacus takes int(1 / (1 / k)) steps an epoch, which is k - 1 for some k (93, 99, 105, ...), and its masks are 24-bit
  floats; here the number of steps is given and a record is in when a 64-bit word is below q 2^64.
* torch's CPU generator keeps only the lower 32 bits of its seed, few enough to try them all; here samples and noise
  come from :class:`pate._random.NoiseSource`, by default the operating system's cryptographic generator.
* A record whose gradient overflows would turn the whole sum into NaN, whatever the clipping norm; its non-finite
  entries are zeroed before clipping.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from opacus import GradSampleModule
from opacus.optimizers import DPOptimizer
from opacus.utils.batch_memory_manager import BatchSplittingSampler
from torch import nn
from torch.utils.data import Sampler

from pate._progress import track
from pate._random import NoiseSource


class PoissonSampler(Sampler[npt.NDArray[np.int64]]):
    """Each record enters each step independently with probability ``sample_rate``; samples may be empty.

    Parameters
    ----------
    n_records : int
    sample_rate : float
        In (0, 1]; rounded down to a multiple of 2^-64.
    n_steps : int
    source : NoiseSource

    Examples
    --------
    >>> [rows.shape for rows in PoissonSampler(5, 1.0, 2, NoiseSource())]
    [(5,), (5,)]
    """

    def __init__(self, n_records: int, sample_rate: float, n_steps: int, source: NoiseSource) -> None:
        self.n_records = n_records
        self.below = int(sample_rate * 2.0**64)
        self.n_steps = n_steps
        self.source = source

    def __len__(self) -> int:
        return self.n_steps

    def __iter__(self) -> Iterator[npt.NDArray[np.int64]]:
        for _ in range(self.n_steps):
            if self.below >= 2**64:
                yield np.arange(self.n_records)
            else:
                yield np.flatnonzero(self.source.words(self.n_records) < np.uint64(self.below))


class NoisyOptimizer(DPOptimizer):
    """Opacus' optimizer with noise from a ``NoiseSource`` and with non-finite gradient entries zeroed."""

    def __init__(self, optimizer: torch.optim.Optimizer, *, source: NoiseSource, **kwargs: Any) -> None:
        super().__init__(optimizer, **kwargs)
        self.source = source

    def clip_and_accumulate(self) -> None:
        """Add the clipped gradients of one physical batch to the step's sum."""
        for p in self.params:
            p.grad_sample.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
        super().clip_and_accumulate()

    def add_noise(self) -> None:
        """Add N(0, (noise_multiplier * max_grad_norm)^2) to every coordinate of the sum."""
        scale = self.noise_multiplier * self.max_grad_norm
        draws = scale * self.source.normal(sum(p.numel() for p in self.params))
        start = 0
        for p in self.params:
            noise = torch.from_numpy(draws[start : start + p.numel()]).to(p.device)
            # The sum is rounded to the parameter's precision after the noise is in.
            p.grad = (p.summed_grad.double() + noise.view_as(p)).to(p.dtype)
            start += p.numel()


def train(
    module: nn.Module,
    X: torch.Tensor,
    y: torch.Tensor,
    *,
    sampler: PoissonSampler,
    optimizer: torch.optim.Optimizer,
    noise_multiplier: float,
    max_grad_norm: float,
    expected_batch_size: int,
    max_physical_batch_size: int,
    show: bool = False,
) -> nn.Module:
    """Train ``module`` and return what may leave: a copy with the noisy parameters alone.

    Parameters
    ----------
    module : torch.nn.Module
        New, checked by ``build_module``, on the device of ``X``.
    X : tensor of shape (n, n_features)
    y : int64 tensor of shape (n,)
        Class indices.
    sampler : PoissonSampler
        Also brings the source of the noise.
    optimizer : torch.optim.Optimizer
        Over the trainable parameters of ``module``.
    noise_multiplier, max_grad_norm : float
    expected_batch_size : int
        What the noisy sum is divided by: a constant, never the size of the sample.
    max_physical_batch_size : int
    show : bool
        Show a progress bar.

    Returns
    -------
    torch.nn.Module
        On the CPU, in evaluation mode; buffers as they were before training.
    """
    released = copy.deepcopy(module).cpu()
    parameters = [p for p in module.parameters() if p.requires_grad]
    private = GradSampleModule(module.train())
    noisy = NoisyOptimizer(
        optimizer,
        noise_multiplier=noise_multiplier,
        max_grad_norm=max_grad_norm,
        expected_batch_size=expected_batch_size,
        source=sampler.source,
    )
    steps = track(sampler, total=len(sampler), label="DP-SGD steps", show=show)
    # Opacus' splitter tells the optimizer which physical batch ends a step: noise is added there, once.
    for rows in BatchSplittingSampler(sampler=steps, max_batch_size=max_physical_batch_size, optimizer=noisy):
        noisy.zero_grad(set_to_none=True)
        if len(rows):
            index = torch.as_tensor(rows, device=X.device)
            nn.functional.cross_entropy(private(X[index]), y[index]).backward()
        else:
            # An empty sample is a step like any other: its sum is zero and gets its noise.
            for p in parameters:
                p.grad_sample = p.new_zeros((0, *p.shape))  # type: ignore[attr-defined]
        noisy.step()
    # Per-record gradients, buffers and hooks stay behind with the private copy.
    with torch.no_grad():
        for target, trained in zip(released.parameters(), module.parameters(), strict=True):
            if trained.requires_grad:
                target.copy_(trained)
    return released.eval()
