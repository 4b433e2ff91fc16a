"""A recipe of DP-SGD: every setting of a training, and where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pate.core.checks import check_choice, check_int, check_real
from pate.dpsgd._optimizers import OPTIMIZERS, SCHEDULES
from pate.exceptions import InvalidInputError

REPRESENTATIONS = ("scattering", "group-norm", "kernel", "encoded", "declared", "unit-rows", "given")
AVERAGING = ("tail", "ema")


@dataclass(frozen=True)
class DPSGDRecipe:
    """What is trained on what, and how; frozen. A number that is None is the planner's to choose.

    Parameters
    ----------
    name : str
    representation : {"scattering", "group-norm", "kernel", "encoded", "declared", "unit-rows", "given"} or None
        What the module sees of a row: a map that public rows (``group-norm``: constants) fix; ``given`` is the caller's
        own; None leaves rows as they are. See :meth:`RecipePlan.of`.
    module : str or callable
        What :class:`pate.DPSGDClassifier` takes.
    module_kwargs : mapping
    n_components, alpha, constant : int or None, float, float
        Of the representation: how many components, how far they are whitened
        (:class:`pate.representations.PublicPCA`), and the constant coordinate beside them
        (:class:`pate.representations.UnitRows`).
    expected_batch_size, epochs : int or None
    learning_rate : float or None
        None: so that noise moves a logit as far as ``logit_noise`` says.
    logit_noise : float
        Standard deviation that all steps together may give to a logit of a row of norm 1 by a linear model (to a weight
        by any): ``learning_rate`` is
        ``logit_noise (1 - momentum) n mu / (2 C T)``, for n records, T steps and mu the budget in Gaussian differential
        privacy (replace-one; twice that where a record is added or removed). In the limit of many steps the
        gradients' noise sums up to that, whatever batch and steps are.
    optimizer : {"sgd", "adam", "adam-bc"}
    momentum : float
    max_grad_norm : float
        C.
    averaging : {"tail", "ema"} or None
    schedule : {"constant", "linear", "cosine"}
    augmentation : int
        Changed copies of a record whose gradients are averaged before they are clipped (De et al. 2022); 1 is the
        record alone, as in all presets.
    source : str
        Paper or measurement.
    reasons : tuple of (str, str)
        What the planner chose, and why.

    Raises
    ------
    InvalidInputError
        A value out of its range.

    Examples
    --------
    >>> DPSGDRecipe("mine", module="tanh-mlp", source="my own", learning_rate=0.5).averaging is None
    True
    >>> DPSGDRecipe("mine", module="linear", source="my own", max_grad_norm=0)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: max_grad_norm must be a finite number > 0, got 0. ...
    """

    name: str
    module: str | Callable[..., Any]
    source: str
    representation: str | None = None
    module_kwargs: Mapping[str, Any] = field(default_factory=dict)
    n_components: int | None = None
    alpha: float = 0.8
    constant: float = 0.0
    expected_batch_size: int | None = None
    epochs: int | None = None
    learning_rate: float | None = None
    logit_noise: float = 1.0
    optimizer: str = "sgd"
    momentum: float = 0.9
    max_grad_norm: float = 1.0
    averaging: str | None = None
    schedule: str = "constant"
    augmentation: int = 1
    reasons: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.representation is not None:
            check_choice("representation", self.representation, REPRESENTATIONS)
        if not (isinstance(self.module, str) or callable(self.module)):
            raise InvalidInputError(
                f"module must be a name or make a module, got {self.module!r}. Pass 'linear', a class or a function."
            )
        for name in ("n_components", "expected_batch_size", "epochs"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), low=1)
        if self.learning_rate is not None:
            check_real("learning_rate", self.learning_rate, low=0, low_open=True)
        check_real("alpha", self.alpha, low=0, high=1)
        check_real("constant", self.constant, low=0, high=1, high_open=True)
        check_real("logit_noise", self.logit_noise, low=0, low_open=True)
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_real("momentum", self.momentum, low=0, high=1, high_open=True)
        check_real(
            "max_grad_norm", self.max_grad_norm, low=0, low_open=True, remedy="Gradients are clipped to this L2 norm."
        )
        if self.averaging is not None:
            check_choice("averaging", self.averaging, AVERAGING)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_int("augmentation", self.augmentation, low=1)

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: {self.source}", *(f"{what}: {why}" for what, why in self.reasons)])
