"""Presets by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pate.core.checks import check_choice, check_int, check_real
from pate.dpsgd._optimizers import OPTIMIZERS, SCHEDULES
from pate.exceptions import InvalidInputError

# A recipe of DP-SGD: every setting of a training, and where it comes from.

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


_LINEAR: dict[str, Any] = {"module": "linear", "module_kwargs": {"bias": False}, "max_grad_norm": 0.1}

#: What papers and our own splits (seeds from 100 on; docs/dpsgd-recipes.md) say.
_PRESETS = (
    DPSGDRecipe(
        "linear",
        representation="scattering",
        n_components=256,
        alpha=0.65,
        logit_noise=1.0,
        source="Tramer and Boneh, ICLR 2021: linear on wavelet scattering; its components by public rows: ours",
        **_LINEAR,
    ),
    DPSGDRecipe(
        "linear-group-norm",
        representation="group-norm",
        epochs=30,
        logit_noise=2.0,
        source="Tramer and Boneh, ICLR 2021: linear on wavelet scattering in normed groups, no public rows",
        **_LINEAR,
    ),
    DPSGDRecipe(
        "tempered-cnn",
        module="tanh-cnn",
        max_grad_norm=0.1,
        logit_noise=0.05,
        source="Papernot et al., AAAI 2021: tempered sigmoids; clipping and length of the road of Tramer and Boneh",
    ),
    DPSGDRecipe(
        "resnet",
        module="small-resnet",
        module_kwargs={"norm": "group"},
        max_grad_norm=0.1,
        logit_noise=0.05,
        averaging="ema",
        source="De et al. 2022: group norm, large batches, moving average of the weights; one copy of each record",
    ),
    DPSGDRecipe(
        "tabular-mlp",
        representation="encoded",
        module="tanh-mlp",
        max_grad_norm=0.1,
        logit_noise=0.1,
        source="Papernot et al., AAAI 2021, for the bounded activation",
    ),
    DPSGDRecipe(
        "tabular-kernel",
        representation="kernel",
        alpha=0.7,
        constant=0.2,
        logit_noise=1.6,
        source="Rahimi and Recht, NIPS 2007, for the features; few components and few, full steps by our own splits",
        **_LINEAR | {"max_grad_norm": 0.2},
    ),
    DPSGDRecipe(
        "tabular-logistic",
        representation="encoded",
        alpha=0.65,
        constant=0.3,
        logit_noise=1.0,
        source="Bassily et al., FOCS 2014, for private logistic regression by noisy gradients; our own splits",
        **_LINEAR | {"max_grad_norm": 0.3},
    ),
    DPSGDRecipe(
        "declared",
        representation="declared",
        constant=0.3,
        logit_noise=1.6,
        source="Rahimi and Recht, NIPS 2007, for the features, beside the columns themselves; scales as declared: ours",
        **_LINEAR | {"max_grad_norm": 0.2},
    ),
    DPSGDRecipe(
        "unit-rows",
        representation="unit-rows",
        constant=0.3,
        logit_noise=1.6,
        source="Rahimi and Recht, NIPS 2007, for the features, beside rows of norm 1: what is left without public rows",
        **_LINEAR | {"max_grad_norm": 0.2},
    ),
    DPSGDRecipe(
        "pretrained",
        representation="given",
        constant=0.3,
        logit_noise=1.0,
        source="Tramer and Boneh, ICLR 2021; De et al. 2022: a linear head on frozen features learnt elsewhere",
        **_LINEAR,
    ),
)
_BY_NAME = {preset.name: preset for preset in _PRESETS}


def named_recipes() -> tuple[str, ...]:
    """Return the names that :func:`recipe` knows.

    Examples
    --------
    >>> "tempered-cnn" in named_recipes()
    True
    """
    return tuple(_BY_NAME)


def recipe(name: str) -> DPSGDRecipe:
    """Return a preset by its name; :func:`dataclasses.replace` changes it.

    =================== =============================================================================================
    linear              images, public rows: linear on components of wavelet scattering (Tramer and Boneh 2021)
    linear-group-norm   images, no public rows: scattering, normed in groups (Tramer and Boneh 2021)
    tempered-cnn        a small tanh network on pixels (Papernot et al. 2021)
    resnet              residual network with group norm, moving average (De et al. 2022)
    tabular-kernel      tables of numbers, public rows: linear on few components of a Gaussian kernel
    tabular-logistic    tables with categories, public rows: logistic on their encoded columns
    tabular-mlp         a tanh network on encoded columns
    declared            tables without public rows whose ranges a person declared: columns and a kernel of them
    unit-rows           tables without public rows: logistic on rows of norm 1 and a kernel of them
    pretrained          linear on a frozen representation or module of the caller's
    =================== =============================================================================================

    Raises
    ------
    InvalidInputError
        No preset has this name.

    Examples
    --------
    >>> recipe("linear").max_grad_norm
    0.1
    >>> recipe("best")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: recipe must be one of 'linear', ..., got 'best'. ...
    """
    return _BY_NAME[check_choice("recipe", name, tuple(_BY_NAME))]
