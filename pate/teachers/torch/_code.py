"""Whether a module and an augmentation are still the same code: what they are made of, and what they do."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
import torch

from pate.networks._generators import own_generator
from pate.teachers._keys import describe
from pate.teachers.torch._recipe import Recipe

_PROBE_ROWS = 4


def code_digest(recipe: Recipe) -> str:
    """Return a digest that an edited module or augmentation changes, for the key of checkpoints.

    Sources are read where there are any, but a global that a function looks up may change without its source: so a
    module's first weights, and what it and the augmentation make of fixed rows, count as well.
    """
    module = recipe.fresh(0)
    digest = sha256()
    texts = {_source(part) for part in _parts([recipe.module, recipe.augment, dict(recipe.kwargs), module])}
    for text in (*sorted(texts), repr(module)):
        digest.update(f"{len(text)} {text}".encode())
    for name, tensor in module.state_dict(keep_vars=True).items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} {tensor.requires_grad}".encode())
        digest.update(np.ascontiguousarray(tensor.detach().numpy()).tobytes())
    generator = torch.Generator().manual_seed(0)
    rows = torch.rand((_PROBE_ROWS, *recipe.sample_shape), generator=generator, dtype=recipe.dtype)
    for training in (True, False):
        with torch.no_grad(), own_generator(0), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            digest.update(_rounded(module.train(training)(rows)))
    if recipe.augment is not None:
        digest.update(_rounded(recipe.epoch_rows(0, 0, rows)[1]))
    return digest.hexdigest()


def _rounded(tensor: torch.Tensor) -> bytes:
    # Not to the last bit: another number of threads must not look like other code.
    return np.round(tensor.detach().to(torch.float64).numpy(), 3).tobytes() + str(tuple(tensor.shape)).encode()


def _parts(found: list[Any]) -> Iterator[Any]:
    """Yield every function and class, outside torch and Python, that something is made of."""
    seen: set[int] = set()
    keep: list[Any] = []  # ids stay taken for as long as their objects live
    while found:
        part = found.pop()
        if id(part) in seen or part is None or isinstance(part, str | bytes | int | float | bool):
            continue
        seen.add(id(part))
        keep.append(part)
        if isinstance(part, partial):
            found += [part.func, *part.args, *part.keywords.values()]
        elif isinstance(part, dict):
            found += part.values()
        elif isinstance(part, list | tuple | set | frozenset):
            found += part
        elif isinstance(part, torch.Tensor | np.ndarray):
            continue
        elif inspect.isroutine(part):
            yield part
        elif isinstance(part, type):
            yield from (base for base in part.__mro__ if not _foreign(base))
        else:
            found.append(type(part))
            if isinstance(part, torch.nn.Module):
                found += part.modules()
            elif dataclasses.is_dataclass(part):
                found += [getattr(part, field.name) for field in dataclasses.fields(part)]
            else:
                found += getattr(part, "__dict__", {}).values()


def _constants(part: Any) -> str:
    """Return the plain globals that a function, or the functions of a class, look up."""
    functions = [m for m in vars(part).values() if inspect.isfunction(m)] if isinstance(part, type) else [part]
    found = {}
    for function in functions:
        space = getattr(function, "__globals__", {})
        for used in getattr(getattr(function, "__code__", None), "co_names", ()):
            value = space.get(used)
            if isinstance(value, bool | int | float | str | bytes | tuple):
                found[used] = repr(value)
    return repr(sorted(found.items()))


def _foreign(kind: type) -> bool:
    return kind.__module__.split(".")[0] in ("torch", "builtins", "abc", "typing", "numpy")


def _source(part: Any) -> str:
    name = f"{getattr(part, '__module__', '')}.{getattr(part, '__qualname__', '')} {_constants(part)}"
    try:
        return f"{name} {inspect.getsource(part)}"
    except (OSError, TypeError):  # typed into an interpreter
        if not isinstance(part, type):
            return f"{name} {describe(part)}"
        methods = {n: describe(m) for n, m in sorted(vars(part).items()) if inspect.isfunction(m)}
        return f"{name} {methods}"
