"""Clipping: what bounds the gradient of one unit (a record, or a person) before gradients are added up.

An engine (:mod:`pate.dpsgd.engines`) finds the norm of every unit's gradient, in each group of parameters, and asks the
clipping for factors. Whatever the norms are, the vector that is left of a unit is at most ``max_norm`` long, over all
parameters: that is C, the unit of the noise multiplier, and all that accounting uses. So every clipping here serves
every sampling, either adjacency and correlated noise alike.

**A norm that follows a quantile of the norms** (:class:`QuantileClipping`), by a count that is noised and charged:
Andrew, Thakkar, McMahan and Ramaswamy, *Differentially Private Learning with Adaptive Clipping*, NeurIPS 2021. A step
releases, beside the sum of clipped gradients, how many of its units were within the norm C: b_u = 1 for a unit that
was, else 0. Then C <- C exp(-learning_rate (b - quantile)), b being the noised share of those within.

**What the count costs** (their Theorem 1 is for add-or-remove; here is the argument for both). A unit gives the step
one vector

    w_u = (g_u / (sigma_g C), (b_u - 1/2) / sigma_b),   norm(w_u)^2 <= 1 / sigma_g^2 + 1 / (4 sigma_b^2) = 1 / sigma^2,

and the step releases their sum over the sample plus N(0, I): of one more dimension, but nothing else than the sum of
vectors within 1 / sigma that is accounted without a count. Centred bits are what makes it so: b_u - 1/2 is +-1/2,
where b_u would be up to 1 away from a unit that is not there. Add-or-remove: a unit moves the sum by w_u, of norm 1 /
sigma at most. Replace-one: by w - w', of norm 2 / sigma at most (opposite gradients, and the bit turned), the place
being in the sample or not for both; with Poisson sampling that is the pair (1-q) N(0) + q N(w) against (1-q) N(0) + q
N(w') for |w|, |w'| <= 1 / sigma, for which :mod:`pate.dpsgd._calibration` proves that the one-dimensional pair at +-1
/ sigma dominates, in any dimension. So a step costs what one of noise multiplier

    sigma = (1 / sigma_g^2 + 1 / (4 sigma_b^2))^(-1/2)

costs, whatever the sampling, as long as its theorem is about sums of vectors of bounded norm; correlated noise must be
drawn for the whole vector. C depends on earlier releases, and steps compose adaptively: the vector of step t,
in units of C_t, is within 1 / sigma whatever C_t is.

**What it is divided by** is the expected batch, a constant: the sample's size is private under add-or-remove, and
random in any case. b = 1/2 + (sum of (b_u - 1/2) + sigma_b Z) / expected batch is unbiased either way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol, cast

import torch
from torch import Tensor
from torch.nn.functional import threshold

from pate._core.checks import check_real, largest_of, least_of
from pate._core.recorder import resolve
from pate.exceptions import InvalidInputError

__all__ = [
    "AutomaticClipping",
    "Clip",
    "Clipping",
    "ClippingRun",
    "FlatClipping",
    "PerLayerClipping",
    "QuantileClipping",
]

#: The least clipping norm: a smaller one, over a row's, would be no number of float32.
LEAST_NORM = 1e-8
#: Double precision rounds factors: they are smaller by more than that.
_DOWN = 1 - 1e-12
#: Below, numbers of double precision lose digits.
_LEAST = 1e-290


class Clip(Protocol):
    """What an engine asks of a clipping; a function of what was released and of public settings.

    Attributes
    ----------
    max_norm : float
        C of the step that is under way: no unit's vector is longer, whatever its gradient was.

    Examples
    --------
    >>> clip: Clip = FlatClipping(2.0)
    >>> clip.groups(["0.weight", "0.bias", "2.weight"])
    (0, 0, 0)
    >>> clip.factors(torch.tensor([[4.0], [1.0]], dtype=torch.float64)).flatten().tolist()
    [0.4999999999995, 0.999999999999]
    """

    @property
    def max_norm(self) -> float:
        """The L2 norm, over all trainable parameters, of the longest vector that is left of a unit."""

    def groups(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return the group of each trainable parameter, 0, 1, ..., from their names in the module's order."""

    def factors(self, norms: Tensor) -> Tensor:
        """Return what to multiply each unit's gradient with in each group; called once for each unit of a step.

        Parameters
        ----------
        norms : float64 tensor of shape (n_units, n_groups)
            Never below the true ones. Infinity where a unit's gradient is not finite.

        Returns
        -------
        float64 tensor of shape (n_units, n_groups)
            With sqrt(sum over groups of (factor norm)^2) <= max_norm, and 0 for a norm that is not finite.
        """


class ClippingRun(Clip, Protocol):
    """A clipping in one run of DP-SGD: it may follow what the run released.

    Attributes
    ----------
    extra_draws : int
        How many numbers a step releases beside the sum of gradients: coordinates of the same vector, whose noise comes
        from the same draw of the mechanism.

    Examples
    --------
    >>> run: ClippingRun = FlatClipping(2.0).start(256)
    >>> run.step(torch.zeros(run.extra_draws)), run.max_norm
    (None, 2.0)
    """

    extra_draws: int

    def step(self, draws: Tensor) -> None:
        """End a step: release what depends on it with this noise, ``extra_draws`` numbers of standard deviation 1."""

    def state_dict(self) -> dict[str, float]:
        """Return what was learnt so far from what was released; between steps alone."""

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Go on from there."""


class Clipping(Protocol):
    """Frozen settings of a clipping: what :class:`pate.DPSGDClassifier` takes.

    Examples
    --------
    >>> clipping: Clipping = FlatClipping(2.0)
    >>> clipping.gradient_noise_multiplier(1.5, 256), clipping.words()
    (1.5, 'gradients clipped to norm 2')
    """

    @property
    def max_norm(self) -> float:
        """C of the first step."""

    def gradient_noise_multiplier(self, noise_multiplier: float, expected_batch_size: float) -> float:
        """Return the noise of the gradients, in units of C, that leaves the whole step at ``noise_multiplier``.

        ``noise_multiplier`` is what accounting takes; this is what the sum of gradients gets.
        """

    def start(self, expected_batch_size: float) -> ClippingRun:
        """Return a new run's."""

    def words(self) -> str:
        """Return it in words, for statement and ledger."""


class _Fixed:
    """A clipping that nothing is released for: settings and run are one."""

    extra_draws = 0

    def gradient_noise_multiplier(self, noise_multiplier: float, expected_batch_size: float) -> float:
        """Return ``noise_multiplier``: all noise is the gradients'."""
        return noise_multiplier

    def start(self, expected_batch_size: float) -> Any:
        """Return this object: no step changes it."""
        return self

    def step(self, draws: Tensor) -> None:
        """Do nothing."""

    def state_dict(self) -> dict[str, float]:
        """Return nothing."""
        return {}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Do nothing."""

    def groups(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return one group of all parameters."""
        return (0,) * len(names)


def within(norms: Tensor, bounds: Any) -> Tensor:
    """Return factors that leave each norm within its bound; none for what is not finite."""
    return _finite((bounds / norms).clamp_(max=1.0).mul_(_DOWN))


def _finite(factors: Tensor) -> Tensor:
    """Return factors without those that are not a number, or too small for one of full precision."""
    return threshold(factors.nan_to_num_(nan=0.0), _LEAST, 0.0)


@dataclass(frozen=True)
class FlatClipping(_Fixed):
    """A unit's gradient is scaled down to ``max_norm`` where it is longer: Abadi et al., *Deep Learning with DP*, 2016.

    Parameters
    ----------
    max_norm : float
        At least 1e-8.

    Examples
    --------
    >>> FlatClipping(1.0).factors(
    ...     torch.tensor([[0.5], [2.0], [float("inf")]], dtype=torch.float64)
    ... ).round(decimals=6)
    tensor([[1.0000],
            [0.5000],
            [0.0000]], dtype=torch.float64)
    """

    max_norm: float = 1.0

    def __post_init__(self) -> None:
        check_norm(self.max_norm)

    def factors(self, norms: Tensor) -> Tensor:
        """See :class:`Clip`."""
        return within(norms, self.max_norm)

    def words(self) -> str:
        """See :class:`Clipping`."""
        return f"gradients clipped to norm {self.max_norm:g}"


@dataclass(frozen=True)
class PerLayerClipping(_Fixed):
    """Every layer's gradient is scaled down to its own norm: McMahan, Ramage, Talwar and Zhang, ICLR 2018.

    Layer l is clipped to ``max_norm`` s_l / sqrt(sum of s^2), so that all layers together are within ``max_norm``,
    which is what accounting depends on.

    Parameters
    ----------
    max_norm : float
        C, of all layers together; at least 1e-8.
    shares : tuple of float or None
        s, one positive number per layer with trainable parameters, in the module's order. None for equal ones.

    Examples
    --------
    >>> clip = PerLayerClipping(1.0, shares=(3.0, 4.0))
    >>> clip.groups(["0.weight", "0.bias", "2.weight"])
    (0, 0, 1)
    >>> clip.factors(torch.tensor([[10.0, 0.1]], dtype=torch.float64)).round(decimals=6)
    tensor([[0.0600, 1.0000]], dtype=torch.float64)
    """

    max_norm: float = 1.0
    shares: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_norm(self.max_norm)
        if self.shares is None:
            return
        if not isinstance(self.shares, tuple) or not self.shares:
            raise InvalidInputError(
                f"shares must be a tuple of positive numbers, one per layer, or None, got {self.shares!r}. Pass None "
                "for equal ones."
            )
        for share in self.shares:
            check_real("shares", share, low=1e-3, high=1e3, remedy="They count relative to one another.")

    def groups(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return one group per module that owns parameters.

        Raises
        ------
        InvalidInputError
            There are more layers, or fewer, than ``shares``.
        """
        layers = list(dict.fromkeys(name.rpartition(".")[0] for name in names))
        if self.shares is not None and len(self.shares) != len(layers):
            raise InvalidInputError(
                f"shares must be one number for each of the {len(layers)} layers with trainable parameters, got "
                f"{len(self.shares)}. They are {', '.join(layer or 'the module itself' for layer in layers)}."
            )
        return tuple(layers.index(name.rpartition(".")[0]) for name in names)

    def factors(self, norms: Tensor) -> Tensor:
        """See :class:`Clip`."""
        shares = self.shares or (1.0,) * norms.shape[1]
        whole = math.hypot(*shares)
        bounds = torch.tensor([self.max_norm * s / whole for s in shares], dtype=torch.float64)
        return within(norms, bounds.to(norms.device))

    def words(self) -> str:
        """See :class:`Clipping`."""
        how = "equally" if self.shares is None else "in shares " + ", ".join(f"{s:g}" for s in self.shares)
        return f"gradients clipped layer by layer ({how}), to norm {self.max_norm:g} in all"


@dataclass(frozen=True)
class AutomaticClipping(_Fixed):
    """Every gradient is scaled to nearly one norm: AUTO-S of Bu, Wang, Zha and Karypis, *Automatic Clipping*, 2023.

    A gradient g becomes ``max_norm`` g / (norm(g) + gamma), shorter than ``max_norm`` whatever it was. With that
    ``max_norm`` is only another factor of the learning rate, and 1 does.

    Parameters
    ----------
    max_norm : float
        In [1e-8, 1e6].
    gamma : float
        In [1e-6, 1e6]: below it a gradient stays shorter than others. The paper's is 0.01.

    Notes
    -----
    Gradients shorter than ``max_norm`` - ``gamma`` become longer, and with them what float32 rounded in them.

    Examples
    --------
    >>> AutomaticClipping(1.0, gamma=0.01).factors(
    ...     torch.tensor([[0.0], [0.99], [9.99]], dtype=torch.float64)
    ... ).round()
    tensor([[100.],
            [  1.],
            [  0.]], dtype=torch.float64)
    """

    max_norm: float = 1.0
    gamma: float = 0.01

    def __post_init__(self) -> None:
        check_real("max_norm", self.max_norm, low=LEAST_NORM, high=1e6)
        check_real("gamma", self.gamma, low=1e-6, high=1e6)

    def factors(self, norms: Tensor) -> Tensor:
        """See :class:`Clip`."""
        return _finite(self.max_norm * _DOWN / (norms + self.gamma))

    def words(self) -> str:
        """See :class:`Clipping`."""
        return f"gradients scaled to nearly norm {self.max_norm:g}, by it over their norm plus {self.gamma:g}"


def check_norm(max_norm: Any, name: str = "max_norm") -> float:
    return check_real(name, max_norm, low=LEAST_NORM, high=1e30)


def as_clip(clip: Clip | float) -> Clip:
    """Return a clip; a number is the norm of a flat one.

    Examples
    --------
    >>> as_clip(0.5)
    FlatClipping(max_norm=0.5)
    """
    return FlatClipping(check_norm(clip, "max_grad_norm")) if isinstance(clip, Real) else cast(Clip, clip)


#: The norm does not grow beyond.
_LARGEST_NORM = 1e6
#: Noise of the count where none is given: the expected batch over this (Andrew et al. 2021, section 3.1).
_BATCH_PER_NOISE = 20.0


@dataclass(frozen=True)
class QuantileClipping:
    """Clipping to a norm that follows the ``quantile`` of the gradients' norms (Andrew et al. 2021).

    Parameters
    ----------
    quantile : float
        In (0, 1): the share of units that is to be within the norm.
    max_norm : float
        C of the first step, in [1e-8, 1e6], where C stays.
    learning_rate : float
        Of log C, in (0, 1].
    count_noise : float or None
        sigma_b, the standard deviation of the noise on the count, in units; None for a twentieth of the expected batch.

    Notes
    -----
    What a step costs follows from its noise multiplier as for any other clipping: the noise of the gradients is larger
    than that (:meth:`gradient_noise_multiplier`), which pays for the count. The proof stands above, in the module.

    Examples
    --------
    >>> import torch
    >>> clipping = QuantileClipping(0.5, max_norm=1.0)
    >>> round(clipping.gradient_noise_multiplier(1.0, 256), 6)
    1.000764
    >>> run = clipping.start(2)
    >>> run.factors(torch.tensor([[0.5], [4.0]], dtype=torch.float64)).flatten().round(
    ...     decimals=6
    ... )
    tensor([1.0000, 0.2500], dtype=torch.float64)
    >>> run.step(torch.zeros(1))  # half of them were within: C stays
    >>> run.max_norm
    1.0
    """

    quantile: float = 0.5
    max_norm: float = 1.0
    learning_rate: float = 0.2
    count_noise: float | None = None

    def __post_init__(self) -> None:
        check_real("quantile", self.quantile, low=0, high=1, low_open=True, high_open=True)
        check_norm(self.max_norm)
        check_real("max_norm", self.max_norm, high=_LARGEST_NORM)
        check_real("learning_rate", self.learning_rate, low=0, high=1, low_open=True)
        if self.count_noise is not None:
            check_real("count_noise", self.count_noise, low=0, low_open=True)

    def count_noise_of(self, expected_batch_size: float) -> float:
        """Return sigma_b."""
        return expected_batch_size / _BATCH_PER_NOISE if self.count_noise is None else float(self.count_noise)

    def gradient_noise_multiplier(self, noise_multiplier: float, expected_batch_size: float) -> float:
        """Return sigma_g = (1 / sigma^2 - 1 / (4 sigma_b^2))^(-1/2), rounded up.

        Raises
        ------
        InvalidInputError
            The count alone would cost more than ``noise_multiplier`` allows.

        Examples
        --------
        >>> round(QuantileClipping(count_noise=1.0).gradient_noise_multiplier(1.2, 256), 9)
        1.5
        """
        sigma = check_real("noise_multiplier", noise_multiplier, low=0, low_open=True)
        noise = self.count_noise_of(expected_batch_size)
        # The square of how much of the budget, in units of 1 / sigma, the count takes.
        taken = (sigma / (2 * noise)) ** 2
        if not taken < 1:
            raise InvalidInputError(
                f"count_noise must be more than half of the noise multiplier ({sigma:g}), got {noise:g}: the count "
                "alone would cost more than the whole step may. Use more noise on the count, or larger batches."
            )
        return sigma / math.sqrt(1 - taken) * (1 + 1e-12)

    def start(self, expected_batch_size: float) -> QuantileRun:
        """Return a new run's norm, at ``max_norm``."""
        return QuantileRun(self, expected_batch_size)

    def words(self) -> str:
        """See :class:`Clipping`."""
        noise = "a twentieth of the expected batch" if self.count_noise is None else f"{self.count_noise:g}"
        return (
            f"gradients clipped to a norm that follows their {self.quantile:g}-quantile, from {self.max_norm:g} on, "
            f"by a count noised by {noise}"
        )


class QuantileRun:
    """The norm of one run: what an engine asks for factors, and what counts.

    A step's count is added up over all parts that the step's units are handed over in, and is gone once its noised
    value has moved the norm.

    Parameters
    ----------
    settings : QuantileClipping
    expected_batch_size : float
        Public: what the noised count is divided by.

    Attributes
    ----------
    max_norm : float
        C of the step that is under way: a function of what was released.
    extra_draws : int
        1: the count.

    Examples
    --------
    >>> import torch
    >>> run = QuantileClipping(0.5, learning_rate=0.2).start(4)
    >>> for part in (torch.tensor([[9.0]]), torch.tensor([[8.0], [7.0], [6.0]])):
    ...     _ = run.factors(part.double())
    >>> run.step(torch.zeros(1))  # all four were beyond: C exp(0.2 0.5)
    >>> round(run.max_norm, 6)
    1.105171
    """

    extra_draws = 1

    def __init__(self, settings: QuantileClipping, expected_batch_size: float) -> None:
        self.settings = settings
        self.expected_batch_size = check_real("expected_batch_size", expected_batch_size, low=0, low_open=True)
        self.max_norm = float(settings.max_norm)
        # Private, between two parts of a step: never shown, never stored.
        self._count = 0.0
        self._within_step = False

    def groups(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return one group of all parameters."""
        return (0,) * len(names)

    def factors(self, norms: Tensor) -> Tensor:
        """See :class:`Clip`; counts who is within, so each unit of a step is shown once."""
        self._within_step = True
        self._count += float((norms[:, 0] <= self.max_norm).sum()) - len(norms) / 2
        return within(norms, self.max_norm)

    def step(self, draws: Tensor) -> None:
        """End a step: the noised count moves the norm.

        Parameters
        ----------
        draws : tensor of shape (1,)
            Of standard deviation 1, from the draw of the mechanism that the gradients' noise comes from.
        """
        noised = self._count + self.settings.count_noise_of(self.expected_batch_size) * float(draws[0])
        noised = float(resolve("quantile", noised))
        self._count, self._within_step = 0.0, False
        share = 0.5 + noised / self.expected_batch_size
        moved = self.settings.learning_rate * (self.settings.quantile - share)
        self.max_norm = least_of(
            largest_of(self.max_norm * math.exp(least_of(largest_of(moved, -50.0), 50.0)), LEAST_NORM), _LARGEST_NORM
        )

    def state_dict(self) -> dict[str, float]:
        """Return what was learnt from what was released.

        Raises
        ------
        InvalidInputError
            A step is under way: its count is private, and is in no checkpoint.
        """
        if self._within_step:
            raise InvalidInputError("state_dict() must be called between steps, got it within one. End the step first.")
        return {"max_norm": self.max_norm}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Go on from what :meth:`state_dict` gave, at the beginning of a step.

        Raises
        ------
        InvalidInputError
            It holds no norm.
        """
        norm = check_real("max_norm", state.get("max_norm"), low=LEAST_NORM, high=_LARGEST_NORM)
        self.max_norm, self._count, self._within_step = norm, 0.0, False

    def __repr__(self) -> str:
        return f"QuantileRun(max_norm={self.max_norm:g})"
