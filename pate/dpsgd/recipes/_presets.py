"""Presets by name."""

from __future__ import annotations

from typing import Any

from pate.core.checks import check_choice
from pate.dpsgd.recipes._recipe import DPSGDRecipe

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
        module="linear",
        module_kwargs={"bias": False},
        max_grad_norm=0.2,
        source="Rahimi and Recht, NIPS 2007, for the features; few components and few, full steps by our own splits",
    ),
    DPSGDRecipe(
        "tabular-logistic",
        representation="encoded",
        alpha=0.65,
        constant=0.3,
        logit_noise=1.0,
        module="linear",
        module_kwargs={"bias": False},
        max_grad_norm=0.3,
        source="Bassily et al., FOCS 2014, for private logistic regression by noisy gradients; our own splits",
    ),
    DPSGDRecipe(
        "declared",
        representation="declared",
        constant=0.3,
        logit_noise=1.6,
        module="linear",
        module_kwargs={"bias": False},
        max_grad_norm=0.2,
        source="Rahimi and Recht, NIPS 2007, for the features, beside the columns themselves; scales as declared: ours",
    ),
    DPSGDRecipe(
        "unit-rows",
        representation="unit-rows",
        constant=0.3,
        logit_noise=1.6,
        module="linear",
        module_kwargs={"bias": False},
        max_grad_norm=0.2,
        source="Rahimi and Recht, NIPS 2007, for the features, beside rows of norm 1: what is left without public rows",
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
