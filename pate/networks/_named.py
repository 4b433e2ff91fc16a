"""Ready networks by name: one name, one network, for whoever trains it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn

from pate.core.checks import check_choice
from pate.exceptions import InvalidInputError
from pate.networks._papernot import PapernotCNN, PapernotDeepCNN, TanhCNN
from pate.networks._small import MLP, Linear, SmallCNN, SmallResNet

_NAMED: dict[str, Callable[..., nn.Module]] = {
    "linear": Linear,
    "mlp": MLP,
    "papernot-cnn": PapernotCNN,
    "papernot-deep-cnn": PapernotDeepCNN,
    "small-cnn": SmallCNN,
    "small-resnet": SmallResNet,
    "tanh-cnn": TanhCNN,
    "tanh-mlp": partial(MLP, hidden=(64,), activation="tanh"),
}


def named_modules() -> tuple[str, ...]:
    """Return the names that :func:`make_module` knows.

    Examples
    --------
    >>> "small-cnn" in named_modules()
    True
    """
    return tuple(_NAMED)


def make_module(name: Any) -> Callable[..., nn.Module]:
    """Return what makes a ready module, by its name; a class or function is returned as it is.

    Parameters
    ----------
    name : str, nn.Module class, or function that makes one
        One of :func:`named_modules`. Never an import path: a name from a command line must not run code.

    Raises
    ------
    InvalidInputError
        The name is not known, or a module was passed instead of its class.

    Examples
    --------
    >>> make_module("mlp").__name__
    'MLP'
    >>> make_module("oracle")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: module must be one of 'linear', ..., 'tanh-mlp', got 'oracle'. ...
    """
    remedy = "For anything else pass an nn.Module class, or a function that makes a module."
    if isinstance(name, nn.Module):
        raise InvalidInputError(
            f"module must be a class or a function that makes one, got an object of type {type(name).__name__}. "
            "Each training starts from a new module: pass the class, not an instance."
        )
    if not isinstance(name, str) and callable(name):
        return name
    return _NAMED[check_choice("module", name, _NAMED, remedy=remedy)]
