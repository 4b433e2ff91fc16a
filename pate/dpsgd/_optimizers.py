"""Optimisers of DP-SGD and their learning rates: they see noised gradients alone, so they cost no privacy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn

from pate._core.checks import check_choice, check_real
from pate.exceptions import InvalidInputError

# Averages of the weights that DP-SGD releases step by step: less of each step's noise, at no cost of privacy.


class Averaging(Protocol):
    """How much each step's weights count."""

    def share(self, step: int, n_steps: int) -> float:
        """Return how far the average moves to the weights after this step, counted from 0: 1 is all the way."""


@dataclass(frozen=True)
class ExponentialAveraging:
    """An exponential moving average of the weights, without bias to the start (Polyak, Juditsky 1992; De et al. 2022).

    Parameters
    ----------
    decay : float
        In [0, 1): what is left of a step's share one step later.

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
    """The mean of the weights after each of the last steps (Rakhlin, Shamir and Sridharan 2012).

    Parameters
    ----------
    fraction : float
        In (0, 1]: which share of the steps, rounded up.

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
    """The average of one run, in double precision."""

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
        """Go on from there."""
        found = state["averages"]
        if [a.shape for a in found] != [a.shape for a in self.averages]:
            raise InvalidInputError("averages must have the shapes of the parameters. Load what was saved of this run.")
        for average, kept in zip(self.averages, found, strict=True):
            average.copy_(kept)


OPTIMIZERS = ("sgd", "adam", "adam-bc")
SCHEDULES = ("constant", "cosine", "linear")


@dataclass(frozen=True)
class Optimizer:
    """The optimiser of :class:`pate.DPSGDClassifier`: sgd or Adam, momentum, learning-rate schedule, averaging.

    A field that is None is left to the recipe; for a module that you name: sgd with momentum 0.9, a constant rate, no
    averaging.

    Parameters
    ----------
    name : {"sgd", "adam", "adam-bc"} or None
        ``"adam-bc"`` is Adam with its second moment corrected for the noise (:class:`DPAdamBC`).
    momentum : float or None
        In [0, 1), for sgd only.
    schedule : {"constant", "cosine", "linear"}, a LearningRateSchedule or None
    averaging : {"ema", "tail"}, an Averaging or None
        The weights that are kept: an average over the steps.

    Notes
    -----
    Values are checked by ``fit``.

    Examples
    --------
    >>> Optimizer("sgd", momentum=0.5, averaging="ema").averaging
    'ema'
    """

    name: str | None = None
    momentum: float | None = None
    schedule: str | LearningRateSchedule | None = None
    averaging: str | Averaging | None = None


def make_optimizer(
    name: str, module: nn.Module, *, learning_rate: float, momentum: float = 0.0
) -> torch.optim.Optimizer:
    """Return the optimiser of a name over the trainable parameters; ``momentum`` is of sgd only."""
    check_choice("optimizer", name, OPTIMIZERS)
    parameters = [p for p in module.parameters() if p.requires_grad]
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=learning_rate, momentum=momentum)
    if name == "adam":
        return torch.optim.AdamW(parameters, lr=learning_rate, weight_decay=0.0)
    return DPAdamBC(parameters, lr=learning_rate)


class DPAdamBC(torch.optim.Optimizer):
    """Adam with its second moment corrected for the bias that the privacy noise adds.

    Tang, Shpilevskiy and Lecuyer, *DP-AdamBC: Your DP-Adam Is Actually DP-SGD (Unless You Apply Bias Correction)*, AAAI
    2024. The square of a noisy gradient is larger than the gradient's own by the variance of the noise, which is the
    same for all parameters and mostly larger than what Adam estimates: without the correction, steps are no more
    adaptive than those of sgd. So a step divides by sqrt(max(v - variance, floor)) in place of sqrt(v) + eps.

    Parameters
    ----------
    params : iterable of torch.nn.Parameter
    lr : float
    betas : tuple of float
        Decay rates of the averages of gradients and of their squares.
    floor : float
        The paper's gamma': the least second moment, in units of squared gradients.
    weight_decay : float
        Beside the gradient, as AdamW's.
    noise_std : float or None
        Standard deviation of the noise in each number of a gradient as it comes here (noise multiplier times clipping
        norm, over the expected batch size): :func:`set_noise_std`. It may change from step to step.

    Notes
    -----
    The variance is averaged with the same weights as the squares, so that what is subtracted is exactly what noise has
    put there, in expectation, where the clipping norm moves too.

    Examples
    --------
    >>> p = nn.Parameter(torch.zeros(1))
    >>> optimizer = DPAdamBC([p], lr=0.1, noise_std=3.0)
    >>> p.grad = torch.tensor([5.0])
    >>> optimizer.step()  # 0.1 5 / sqrt(5^2 - 3^2)
    >>> p.item()
    -0.125
    """

    def __init__(
        self,
        params: Any,
        lr: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        floor: float = 5e-8,
        weight_decay: float = 0.0,
        noise_std: float | None = None,
    ) -> None:
        check_real("lr", lr, low=0)
        for beta in betas:
            check_real("betas", beta, low=0, high=1, high_open=True)
        check_real("floor", floor, low=0, low_open=True)
        check_real("weight_decay", weight_decay, low=0)
        defaults = {"lr": lr, "betas": betas, "floor": floor, "weight_decay": weight_decay, "noise_std": noise_std}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Move the parameters by their noised gradients."""
        for group in self.param_groups:
            if group["noise_std"] is None:
                raise InvalidInputError(
                    "noise_std must be given before the first step, got None. Call set_noise_std()."
                )
            (b1, b2), rate = group["betas"], group["lr"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(step=0, noise=0.0, mean=torch.zeros_like(p), square=torch.zeros_like(p))
                state["step"] += 1
                state["noise"] = b2 * state["noise"] + (1 - b2) * group["noise_std"] ** 2
                state["mean"].lerp_(p.grad, 1 - b1)
                state["square"].mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                unbiased = 1 - b2 ** state["step"]
                second = (state["square"] - state["noise"]).div_(unbiased).clamp_(min=group["floor"])
                p.mul_(1 - rate * group["weight_decay"])
                p.addcdiv_(state["mean"], second.sqrt_(), value=-rate / (1 - b1 ** state["step"]))


def set_noise_std(optimizer: torch.optim.Optimizer, noise_std: float) -> None:
    """Set the standard deviation of the noise in each gradient entry, if the optimiser uses it."""
    for group in optimizer.param_groups:
        if "noise_std" in group:
            group["noise_std"] = check_real("noise_std", noise_std, low=0)


@dataclass(frozen=True)
class LearningRateSchedule:
    """A learning-rate schedule: the rate of each step, as a multiple of the optimiser's learning rate.

    Parameters
    ----------
    kind : {"constant", "cosine", "linear"}
        How it falls to ``final`` after the warm-up: cosine is Loshchilov and Hutter's, 2017.
    warmup : float
        In [0, 1): the share of the steps over which it rises in a straight line.
    final : float
        In [0, 1]: where it ends, at the last step; not for "constant".

    Examples
    --------
    >>> schedule = LearningRateSchedule("cosine", warmup=0.2)
    >>> [round(schedule.factor(step, 10), 3) for step in range(10)]
    [0.5, 1.0, 1.0, 0.95, 0.812, 0.611, 0.389, 0.188, 0.05, 0.0]
    """

    kind: str = "constant"
    warmup: float = 0.0
    final: float = 0.0

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, SCHEDULES)
        check_real("warmup", self.warmup, low=0, high=1, high_open=True)
        check_real("final", self.final, low=0, high=1)

    def factor(self, step: int, n_steps: int) -> float:
        """Return the factor of one step, counted from 0."""
        rising = round(self.warmup * n_steps)
        if step < rising:
            return (step + 1) / rising
        if self.kind == "constant":
            return 1.0
        done = (step - rising) / max(1, n_steps - 1 - rising)
        left = (1 + math.cos(math.pi * done)) / 2 if self.kind == "cosine" else 1 - done
        return self.final + (1 - self.final) * left

    def apply(self, optimizer: torch.optim.Optimizer, learning_rate: float, step: int, n_steps: int) -> None:
        """Set the optimiser's learning rate for one step."""
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * self.factor(step, n_steps)
