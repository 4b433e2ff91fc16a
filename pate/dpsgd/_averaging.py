"""Averages of the weights that DP-SGD releases step by step: less of each step's noise, at no cost of privacy.

The guarantee covers every intermediate step, so that any function of them is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn

from pate.core.checks import check_real
from pate.exceptions import InvalidInputError


class Averaging(Protocol):
    """How much each step's weights count."""

    def share(self, step: int, n_steps: int) -> float:
        """Return how far the average moves to the weights after this step, counted from 0: 1 is all the way."""


@dataclass(frozen=True)
class ExponentialAveraging:
    """Weights decay with their age (Polyak and Juditsky 1992; De et al. 2022), without the bias to where they started.

    Parameters
    ----------
    decay : float
        In [0, 1): what is left of a step's share one step later.

    Raises
    ------
    InvalidInputError

    Examples
    --------
    >>> [round(ExponentialAveraging(0.5).share(step, 3), 4) for step in range(3)]
    [1.0, 0.6667, 0.5714]
    """

    decay: float = 0.999

    def __post_init__(self) -> None:
        check_real("decay", self.decay, low=0, high=1, high_open=True)

    def share(self, step: int, n_steps: int) -> float:
        """See :class:`Averaging`: a_t (1 - decay^t) is the sum of (1 - decay) decay^(t - s) w_s over s = 1 to t."""
        return (1 - self.decay) / (1 - self.decay ** (step + 1))


@dataclass(frozen=True)
class TailAveraging:
    """The plain mean of the weights after the last steps (Rakhlin, Shamir and Sridharan 2012).

    Parameters
    ----------
    fraction : float
        In (0, 1]: which share of the steps, rounded up.

    Raises
    ------
    InvalidInputError

    Examples
    --------
    >>> [round(TailAveraging(0.6).share(step, 5), 2) for step in range(5)]
    [0.0, 0.0, 1.0, 0.5, 0.33]
    """

    fraction: float = 0.5

    def __post_init__(self) -> None:
        check_real("fraction", self.fraction, low=0, high=1, low_open=True)

    def share(self, step: int, n_steps: int) -> float:
        """See :class:`Averaging`."""
        first = n_steps - min(n_steps, math.ceil(self.fraction * n_steps * (1 - 1e-12)))
        return 0.0 if step < first else 1.0 / (step - first + 1)


class RunningAverage:
    """The average of one run, in double precision.

    Parameters
    ----------
    averaging : Averaging
    parameters : iterable of torch.nn.Parameter
        The trainable ones, which the optimiser moves.
    n_steps : int
    """

    def __init__(self, averaging: Averaging, parameters: Iterable[nn.Parameter], n_steps: int) -> None:
        self.averaging = averaging
        self.parameters = list(parameters)
        self.n_steps = n_steps
        self.averages = [p.detach().double().clone() for p in self.parameters]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Count the weights after a step, counted from 0."""
        share = self.averaging.share(step, self.n_steps)
        for average, p in zip(self.averages, self.parameters, strict=True):
            if share == 1:  # whatever stood there, not a number included
                average.copy_(p)
            elif share:
                average += share * (p.double() - average)

    @torch.no_grad()
    def write(self) -> None:
        """Put the average in the place of the weights; for after the last step."""
        for average, p in zip(self.averages, self.parameters, strict=True):
            p.copy_(average)

    def state_dict(self) -> dict[str, Any]:
        """Return the average so far."""
        return {"averages": [average.clone() for average in self.averages]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there.

        Raises
        ------
        InvalidInputError
            It is of other parameters.
        """
        found = state["averages"]
        if [a.shape for a in found] != [a.shape for a in self.averages]:
            raise InvalidInputError("averages must have the shapes of the parameters. Load what was saved of this run.")
        for average, kept in zip(self.averages, found, strict=True):
            average.copy_(kept)
