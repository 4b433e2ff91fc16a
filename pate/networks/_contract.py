"""What a torch module is to this package: made anew from public arguments, rows in, one row of logits each out.

Teachers and DP-SGD take the same modules; what either asks of them beyond that stands with it.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from pate.exceptions import InvalidInputError


def logits_of(output: Any) -> torch.Tensor:
    """Return the logits in what a module returned.

    Parameters
    ----------
    output : tensor, mapping with an entry "logits", or object with an attribute ``logits``

    Returns
    -------
    tensor
        As it stands there, of any shape.

    Raises
    ------
    InvalidInputError
        None of these.
    """
    found = output
    if not isinstance(found, torch.Tensor):
        found = found.get("logits") if isinstance(found, Mapping) else getattr(found, "logits", None)
    if isinstance(found, torch.Tensor):
        return found
    keys = f" with the entries {', '.join(map(repr, output))}" if isinstance(output, Mapping) else ""
    raise InvalidInputError(
        "module must return logits: a tensor, a mapping with an entry 'logits' or an object with an attribute "
        f"logits. It returned a {type(output).__name__}{keys}. Wrap it in a module that returns its logits."
    )


def give_logits(module: nn.Module, inputs: Any, output: Any) -> torch.Tensor:
    """Stand behind a module as a forward hook, so that whoever calls it gets logits."""
    return logits_of(output)


def hooked(module: nn.Module) -> bool:
    """Whether code of somebody's own hangs on the module; what picks the logits out of an output is ours."""
    return bool(
        any(hook is not give_logits for hook in module._forward_hooks.values())
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


def module_arguments(
    module: Callable[..., nn.Module], kwargs: Mapping[str, Any] | None, *, n_features: int, n_classes: int
) -> dict[str, Any]:
    """Return the arguments to make a module with: the user's, ``n_features`` and ``n_classes`` where it takes them."""
    found = dict(kwargs or {})
    try:
        names = inspect.signature(module).parameters
    except (TypeError, ValueError):
        return found
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in names.values())
    for name, value in (("n_features", n_features), ("n_classes", n_classes)):
        named = name in names and names[name].kind is not inspect.Parameter.POSITIONAL_ONLY
        if named or (takes_any and _passes_on(module, name)):
            found.setdefault(name, value)
    return found


def _passes_on(module: Any, name: str) -> bool:
    """Whether a class hands ``**kwargs`` on to a base that takes ``name``."""
    for base in inspect.getmro(module)[1:] if inspect.isclass(module) else ():
        names = inspect.signature(base).parameters
        if name in names:
            return names[name].kind is not inspect.Parameter.POSITIONAL_ONLY
        if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in names.values()):
            return False
    return False


def several_inputs(module: nn.Module) -> str:
    """Return what to do where ``forward`` takes several inputs, with a space before it; empty where it takes one."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(module.forward).parameters.values()
    names = [p.name for p in parameters if p.kind in kinds and p.default is p.empty]
    if len(names) < 2:
        return ""
    return (
        f" forward takes {len(names)} inputs ({', '.join(names)}), and a row comes as one: put them side by side in X "
        "(np.hstack), and take them apart in a module around this one: self.inner(x[:, :k], x[:, k:])."
    )


def make(module: Callable[..., nn.Module], kwargs: Mapping[str, Any]) -> nn.Module:
    """Make a module that returns logits.

    Parameters
    ----------
    module : callable
    kwargs : mapping
        Copied: a tensor or module among them is every module's start, not one thing that they all train.

    Raises
    ------
    InvalidInputError
        Something else than a module was made, or one with lazy layers.
    """
    made = module(**copy.deepcopy(dict(kwargs)))
    if not isinstance(made, nn.Module):
        raise InvalidInputError(f"module must make a torch.nn.Module, it made a {type(made).__name__}.")
    if any(map(is_lazy, (*made.parameters(), *made.buffers()))):
        raise InvalidInputError(
            "module has lazy layers, whose sizes the first rows would decide. Give them sizes: n_features is passed to "
            "whatever takes it."
        )
    if give_logits not in made._forward_hooks.values():
        made.register_forward_hook(give_logits)
    return made


def check_apart(one: nn.Module, other: nn.Module) -> None:
    """Refuse a factory whose modules share memory: what one learns, the other would start with.

    Raises
    ------
    InvalidInputError
    """
    places = [
        {t.untyped_storage().data_ptr() for t in (*m.parameters(), *m.buffers()) if t.numel()} for m in (one, other)
    ]
    if one is other or places[0] & places[1]:
        raise InvalidInputError(
            "module must make a new module with parameters of its own at every call; two calls shared some. "
            "Make the layers inside the class or function."
        )
