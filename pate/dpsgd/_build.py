"""How :class:`pate.DPSGDClassifier` makes what it trains: a new module, found fit for DP-SGD, and its engine."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from torch import nn

from pate.dpsgd._checks import Trial, check_trainable, try_module
from pate.dpsgd.engines import BookKeepingEngine, Engine, PerRecordEngine, check_promise
from pate.exceptions import InvalidInputError
from pate.networks import make_module
from pate.networks._contract import check_apart, make, module_arguments


def build_engine(
    module: str | Callable[..., nn.Module],
    row_shape: int | tuple[int, ...],
    n_classes: int,
    kwargs: Mapping[str, Any] | None = None,
    *,
    engine: type[Engine] | None = None,
) -> Engine:
    """Make a module as torch teachers are made, and check that DP-SGD may train it.

    Parameters
    ----------
    module : name of a ready module, class, or function that makes one
    row_shape : int or tuple of int
        Shape of one row.
    kwargs : mapping or None
        More arguments.
    engine : class of an engine or None
        None takes book-keeping where the module is made of known layers alone, else gradients of single records.

    Returns
    -------
    Engine
        Its ``module`` has never been run: copies were.

    Raises
    ------
    InvalidInputError
        It cannot be made this way, has another output shape, or a record's output depends on its batch.
    """
    shape = (row_shape,) if isinstance(row_shape, int) else tuple(row_shape)
    factory = make_module(module)
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise InvalidInputError(f"module_kwargs must be a mapping or None, got {kwargs!r}.")
    arguments = module_arguments(factory, kwargs, n_features=math.prod(shape), n_classes=n_classes)
    try:
        made, other = make(factory, arguments), make(factory, arguments)
    except InvalidInputError:
        raise
    except Exception as error:  # the module's own code; nothing private has been near it
        raise InvalidInputError(
            f"module could not be made with {arguments!r}: {type(error).__name__}: {error}. It gets n_features, "
            "n_classes where it takes them, and module_kwargs: pass what it needs there."
        ) from error
    check_apart(made, other)
    made = copy.deepcopy(made)  # what was trained is no other fit's beginning, though the function hands it out again
    check_trainable(made.train())
    trial = try_module(made, shape, n_classes)
    if engine is None and BookKeepingEngine.takes(made):
        with suppress(Exception):  # of made-up rows alone, and the other engine takes more modules
            return _promised(BookKeepingEngine, made, trial)
    return _promised(engine or PerRecordEngine, made, trial)


def _promised(kind: type[Engine], module: nn.Module, trial: Trial) -> Engine:
    built = kind.for_module(module, trial)
    check_promise(built, trial)
    return built
