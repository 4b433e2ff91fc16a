"""What makes one torch teacher, wherever it is trained: its weights, the order of its records, its steps.

Everything random comes from (seed, teacher, epoch), on the CPU: it does not depend on grouping, workers or devices.
Only what a module itself draws on its way forward (dropout) is drawn on the device, from the same.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from pate._core.secret import training_seed
from pate.exceptions import InvalidInputError
from pate.networks import check_apart, make, own_generator, why_rows_fail
from pate.teachers.checkpoints import describe
from pate.teachers.torch._chain import Step, agrees, read_chain

#: The place of torch teachers in the tree of training seeds.
_SEED_PATH = 0x707C4
#: ... and what a seed is of: first weights, the order of an epoch, dropout in it, its augmentation, and a vote.
_INIT, _EPOCH, FORWARD, _AUGMENT, VOTE = range(5)

OPTIMIZERS = ("adam", "adamw", "sgd")
PRECISIONS: dict[str, torch.dtype] = {
    "float32": torch.float32,
    "bf16": torch.bfloat16,
    "float64": torch.float64,
}

#: name -> array: what is left of a trained teacher.
Weights = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Optimizer:
    """The optimiser's public settings, with torch's meanings."""

    name: str = "adam"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    momentum: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8


@dataclass(frozen=True, eq=False)
class Recipe:
    """Everything public that decides how teachers come out; the rest is their shards.

    ``module(**kwargs)`` makes a module, ``augment(x, generator)`` changes a shard's rows of one epoch, on the CPU.
    Training is ``epochs`` passes over a shard or, where that is None, ``n_steps`` steps, as many for every teacher
    whatever its shard holds. ``chain`` are the module's layers when it is one plain chain (:func:`with_chain`).
    """

    module: Callable[..., nn.Module]
    kwargs: Mapping[str, Any]
    n_classes: int
    sample_shape: tuple[int, ...]
    epochs: int | None
    batch_size: int
    optimizer: Optimizer
    augment: Callable[[torch.Tensor, torch.Generator], torch.Tensor] | None
    precision: str
    seed: int
    chain: tuple[Step, ...] | None = None
    n_steps: int | None = None

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights that the optimiser moves (those of bf16 are float32)."""
        return torch.float64 if self.precision == "float64" else torch.float32

    def fresh(self, index: int) -> nn.Module:
        """Return teacher ``index`` before its first step, on the CPU, in training mode."""
        return self._made(index).to(self.dtype).train()

    def _made(self, index: int) -> nn.Module:
        with own_generator(self.seed_of(index, _INIT)):
            return make(self.module, self.kwargs)

    def check_apart(self) -> None:
        """Refuse a factory whose modules share memory: one shard would train another one's teacher."""
        check_apart(self._made(0), self._made(1))

    def order(self, index: int, epoch: int, n: int) -> torch.Tensor:
        """Return the order in which teacher ``index`` sees its ``n`` records, int64 of shape (n,)."""
        return torch.randperm(n, generator=self._generator(index, epoch))

    def epoch_rows(self, index: int, epoch: int, X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the order of one epoch, and the shard's rows in it, augmented; ``X`` on the CPU."""
        generator = self._generator(index, epoch)
        order = torch.randperm(len(X), generator=generator)
        rows = X[order]
        if self.augment is not None:
            # A copy of the rows already, and one of the augmentation: what it remembers ends with this epoch. Random
            # numbers that it takes from elsewhere are this teacher's own as well.
            augment = copy.deepcopy(self.augment)
            with own_generator(self.seed_of(index, _AUGMENT, epoch)):
                rows = augment(rows, generator)
        return order, rows

    def epochs_of(self, n: int, *, joined: bool = False) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """Yield each epoch and the bounds of its batches (see :func:`batch_bounds`), for a shard of ``n`` records."""
        bounds = batch_bounds(n, self.batch_size, joined=joined)
        left = self.n_steps if self.n_steps is not None else (self.epochs or 0) * len(bounds)
        for epoch in count() if bounds else ():
            if left <= 0:
                return
            yield epoch, bounds[:left]
            left -= len(bounds)

    def _generator(self, index: int, epoch: int) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed_of(index, _EPOCH, epoch))

    def seed_of(self, index: int, *path: int) -> int:
        """Return the seed of something of teacher ``index``."""
        return training_seed(self.seed, _SEED_PATH, index, *path)


#: Steps of training where no number is given: at least so many, and at least so many passes over a shard.
_STEPS, _PASSES = 500, 20


def default_steps(n_shard: int, batch_size: int) -> int:
    """Return how many steps teachers take where no number is given."""
    return max(_STEPS, _PASSES * math.ceil(n_shard / batch_size))


def batch_bounds(n: int, batch_size: int, *, joined: bool = False) -> list[tuple[int, int]]:
    """Return the bounds of an epoch's batches: full ones, then what is left."""
    bounds = [(start, min(start + batch_size, n)) for start in range(0, n, batch_size)]
    if joined and len(bounds) > 1 and bounds[-1][1] - bounds[-1][0] == 1:
        bounds[-2:] = [(bounds[-2][0], n)]
    return bounds


def needs_pairs(module: nn.Module) -> bool:
    """Whether a module normalises over its batch."""
    return any(isinstance(m, _BatchNorm) for m in module.modules())


def check_output(recipe: Recipe) -> None:
    """Make a module and show it two rows of zeros: what does not fit is refused before any training."""
    try:
        module = recipe.fresh(0)
    except InvalidInputError:
        raise
    except Exception as error:  # the module's own code; nothing private has been near it
        raise InvalidInputError(
            f"module could not be made with {dict(recipe.kwargs)!r}: {type(error).__name__}: {error}. "
            "Pass what it needs in module_kwargs."
        ) from error
    rows = torch.zeros((2, *recipe.sample_shape), dtype=recipe.dtype)
    try:
        with torch.no_grad(), warnings.catch_warnings(), own_generator(0):
            warnings.simplefilter("ignore")
            shape = tuple(module.eval()(rows).shape)
    except InvalidInputError:  # what it returned
        raise
    except Exception as error:
        raise InvalidInputError(
            f"module does not take rows of shape {recipe.sample_shape}: {type(error).__name__}: {error}."
            + (
                why_rows_fail(module, rows.dtype)
                or " Rows reach it as they are given to fit: reshape them, or start with nn.Unflatten."
            )
        ) from error
    if shape != (2, recipe.n_classes):
        raise InvalidInputError(
            f"module must map rows of shape {recipe.sample_shape} to {recipe.n_classes} logits, one per class; two "
            f"rows came out as {shape}. Set its number of outputs in module_kwargs."
        )
    if not any(p.requires_grad for p in module.parameters()):
        raise InvalidInputError("module has no parameters to train.")


def with_chain(recipe: Recipe) -> Recipe:
    """Return the recipe with its chain, if running that gives what the module gives on made-up rows.

    Done once, before teachers are spread out: tracing a module patches torch's classes for as long as it lasts, and
    teachers may run in threads.
    """
    module = recipe.fresh(0)
    chain = read_chain(module.train())
    if chain is None or chain != read_chain(module.eval()):
        return replace(recipe, chain=None)
    rows = torch.rand((2, *recipe.sample_shape), generator=torch.Generator().manual_seed(0), dtype=recipe.dtype)
    return replace(recipe, chain=chain if agrees(module, chain, rows) else None)


def weights_of(module: nn.Module) -> Weights:
    """Return parameters and buffers as arrays of their own."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in module.state_dict().items()}


def load_weights(recipe: Recipe, index: int, weights: Weights) -> nn.Module:
    """Return teacher ``index`` with these weights, in evaluation mode, on the CPU."""
    module = recipe.fresh(index)  # its own: what is drawn at the start and kept outside the weights is there again
    module.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})
    return module.eval()


def finite(weights: Weights) -> bool:
    """Whether all weights are finite."""
    return all(value.dtype.kind != "f" or math.isfinite(float(np.abs(value).sum())) for value in weights.values())


# Whether a module and an augmentation are still the same code: what they are made of, and what they do.

_PROBE_ROWS = 4
#: Whose code is not the user's.
_FOREIGN = ("torch", "builtins", "abc", "typing", "numpy")


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
            yield from (base for base in part.__mro__ if base.__module__.split(".")[0] not in _FOREIGN)
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


def _source(part: Any) -> str:
    name = f"{getattr(part, '__module__', '')}.{getattr(part, '__qualname__', '')} {_constants(part)}"
    try:
        return f"{name} {inspect.getsource(part)}"
    except (OSError, TypeError):  # typed into an interpreter
        if not isinstance(part, type):
            return f"{name} {describe(part)}"
        methods = {n: describe(m) for n, m in sorted(vars(part).items()) if inspect.isfunction(m)}
        return f"{name} {methods}"
