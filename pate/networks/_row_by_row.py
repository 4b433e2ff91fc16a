"""Run a user's module so that what it gives of a row follows from that row alone, and nothing of it is kept.

Layers that are known to act on rows alone run on all rows at once, by their types' own code; any other module on single
rows: side by side (``vmap``) where its code allows it, else in turn, by a copy that is thrown away. A trial of a few
rows vouches for no other batch: experts have a capacity, code asks how many rows there are.
"""

from __future__ import annotations

import copy
import operator
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._functorch import autograd_function
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from pate.exceptions import InvalidInputError
from pate.networks._contract import hooked, own_generator

# A module read as a program of layers that keep records apart, so that it may be run on many records at once.

#: Layers without parameters, each record by itself.
_PLAIN = (
    nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.ELU, nn.SELU, nn.LeakyReLU, nn.SiLU, nn.Softplus, nn.Hardtanh,
    nn.ReLU6, nn.Identity, nn.MaxPool1d, nn.MaxPool2d, nn.AvgPool1d, nn.AvgPool2d, nn.AdaptiveAvgPool1d,
    nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.LocalResponseNorm,
)  # fmt: skip
#: Layers with parameters, of which gradients of single records are known above.
TRAINABLE = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.GroupNorm, nn.LayerNorm, nn.Embedding)
_KNOWN = {*_PLAIN, *TRAINABLE, nn.Flatten, nn.Unflatten, nn.ZeroPad2d}
_FUNCTIONS: dict[Any, Callable[..., Tensor]] = {
    torch.relu: torch.relu, F.relu: torch.relu, torch.tanh: torch.tanh, F.tanh: torch.tanh,
    torch.sigmoid: torch.sigmoid, F.gelu: F.gelu, F.silu: F.silu,
}  # fmt: skip
_METHODS: dict[str, Callable[..., Tensor]] = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}
_SUMS = (operator.add, torch.add)
#: Over places of one record: never over the first dimension, nor one counted from the last.
_OVER: dict[Any, Callable[..., Tensor]] = {
    "mean": torch.mean, torch.mean: torch.mean, "sum": torch.sum, torch.sum: torch.sum,
    "amax": torch.amax, torch.amax: torch.amax,
}  # fmt: skip
_TURNS = ("transpose", torch.transpose)


@dataclass(frozen=True)
class Step:
    """One step of a program: of which results (-1 is the rows), a layer with its name in the module, or a function.

    The layer is the module's object itself: whatever takes its name later is not run.
    """

    inputs: tuple[int, ...]
    layer: nn.Module | None = None
    name: str = ""
    function: Callable[..., Tensor] | None = None

    def __call__(self, *given: Tensor) -> Tensor:
        """Return what the step makes of its inputs; a layer's is its type's, without hooks or attachments."""
        if self.layer is None:
            assert self.function is not None
            return self.function(*given)
        kind = type(self.layer)
        if kind not in _KNOWN:  # else it might mix records: its class was changed after it was read
            raise InvalidInputError(f"a layer must stay what it was when the run began, got {kind.__name__}.")
        return kind.forward(self.layer, *given)


def read_program(module: nn.Module) -> tuple[Step, ...] | None:
    """Return the module's steps in order, or None if anything in it is not known to keep records apart."""
    if any(map(_changed, nn.Module.modules(module))):
        return None
    owned = list(nn.Module.parameters(module))
    if any(type(p) is not nn.Parameter or p.dtype != torch.float32 for p in owned):
        return None
    if any(type(b) is not Tensor for b in nn.Module.buffers(module)):
        return None
    if type(module) in TRAINABLE:  # a layer alone would be traced into its own code
        return (Step((-1,), module),) if _knows(module) else None
    try:
        graph = torch.fx.symbolic_trace(copy.deepcopy(module)).graph
    except Exception:  # control flow and much else that cannot be traced
        return None
    steps: list[Step] = []
    known: dict[torch.fx.Node, int] = {}
    result = None
    for node in graph.nodes:
        if node.op == "placeholder":
            if known or node.args:
                return None
            known[node] = -1
        elif node.op == "output":
            result = known.get(node.args[0]) if isinstance(node.args[0], torch.fx.Node) else None
        else:
            step = _step(module, node, known)
            if step is None:
                return None
            known[node] = len(steps)
            steps.append(step)
    if not steps or result != len(steps) - 1 or not _each_once(module, steps):
        return None
    return tuple(steps)


def _step(module: nn.Module, node: torch.fx.Node, known: dict[torch.fx.Node, int]) -> Step | None:
    sources = [known[a] for a in node.args if isinstance(a, torch.fx.Node)]
    rest: list[Any] = [a for a in node.args if not isinstance(a, torch.fx.Node)]
    if node.op == "call_module" and len(sources) == 1 and not rest and not node.kwargs:
        name = str(node.target)
        layer = nn.Module.get_submodule(module, name)
        return Step((sources[0],), layer, name) if _knows(layer) else None
    if node.op not in ("call_function", "call_method"):
        return None
    if node.target in _SUMS and len(sources) == 2 and not rest and not node.kwargs:
        return Step(tuple(sources), function=_added)
    if node.target in ("flatten", torch.flatten) and len(sources) == 1:
        start = [*rest, *node.kwargs.values()]
        whole = start in ([1], [1, -1]) and set(node.kwargs) <= {"start_dim", "end_dim"}
        return Step((sources[0],), function=partial(torch.flatten, start_dim=1)) if whole else None
    if node.target in ("reshape", "view", torch.reshape) and len(sources) == 1 and not node.kwargs:
        shape: Any = tuple(rest[0]) if len(rest) == 1 and isinstance(rest[0], tuple | list) else tuple(rest)
        whole = shape[:1] == (-1,) and all(type(size) is int and size > 0 for size in shape[1:])
        return Step((sources[0],), function=partial(_reshaped, shape=shape[1:])) if whole else None
    if node.target in _OVER and len(sources) == 1:
        return _over(sources[0], _OVER[node.target], rest, dict(node.kwargs))
    if node.target in _TURNS and len(sources) == 1 and not node.kwargs and len(rest) == 2 and all(map(_inner, rest)):
        return Step((sources[0],), function=partial(torch.transpose, dim0=rest[0], dim1=rest[1]))
    table: Any = _FUNCTIONS if node.op == "call_function" else _METHODS
    plain = len(sources) == 1 and not rest and set(node.kwargs) <= {"inplace"}
    return Step((sources[0],), function=table[node.target]) if plain and node.target in table else None


def _inner(dim: Any) -> bool:
    return type(dim) is int and dim >= 1


def _over(source: int, function: Callable[..., Tensor], rest: list[Any], options: dict[str, Any]) -> Step | None:
    """Return a step that sums up over dimensions of one record, or None where it is not known to."""
    options.update(zip(("dim", "keepdim"), rest, strict=False))
    dims: Any = options.get("dim")
    dims = tuple(dims) if isinstance(dims, tuple | list) else (dims,)
    known = len(rest) <= 2 and set(options) <= {"dim", "keepdim"} and type(options.get("keepdim", False)) is bool
    if not known or not dims or not all(map(_inner, dims)):
        return None
    return Step((source,), function=partial(function, dim=dims, keepdim=options.get("keepdim", False)))


def _added(a: Tensor, b: Tensor) -> Tensor:
    if a.shape != b.shape:  # spread out over one another, records would meet
        raise InvalidInputError(f"module adds results of shapes {tuple(a.shape)} and {tuple(b.shape)}.")
    return a + b


def _reshaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    # By the number of records, not -1: with another number of values a record this fails, and mixes nothing.
    return x.reshape(len(x), *shape)


def _knows(layer: Any) -> bool:
    kind = type(layer)
    if kind in TRAINABLE and any(
        type(p) not in (nn.Parameter, type(None)) for p in (layer.weight, getattr(layer, "bias", None))
    ):
        return False  # a tensor with code of its own would see a batch
    if kind in _PLAIN:
        return not getattr(layer, "return_indices", False) and not getattr(layer, "inplace", False)
    if kind is nn.Flatten:
        return layer.start_dim >= 1
    if kind is nn.ZeroPad2d:  # of two dimensions from the last: with rows of one it makes more rows, which is seen
        return len(layer.padding) == 4 and min(layer.padding) >= 0
    if kind is nn.Unflatten:
        return isinstance(layer.dim, int) and layer.dim >= 1
    if kind in (nn.Conv1d, nn.Conv2d):
        return layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    if kind is nn.Embedding:
        return layer.max_norm is None and not layer.sparse and not layer.scale_grad_by_freq
    return kind in TRAINABLE


def _changed(module: nn.Module) -> bool:
    """Whether the module has attachments (hooks, replaced methods) that its type does not show."""
    return hooked(module) or bool({"forward", "_call_impl", "__call__"} & set(vars(module)))


def _each_once(module: nn.Module, steps: list[Step]) -> bool:
    """Whether every parameter belongs to one layer that is called once: then a record's gradient has one part there."""
    layers = [step.layer for step in steps if step.layer is not None]
    called = [layer for layer in layers if any(True for _ in nn.Module.parameters(layer))]
    if len(set(map(id, called))) < len(called):
        return False
    reached = [id(p) for layer in called for p in nn.Module.parameters(layer, recurse=False)]
    return sorted(reached) == sorted(map(id, nn.Module.parameters(module))) and len(set(reached)) == len(reached)


# Single rows.


def close(a: Tensor, b: Tensor) -> bool:
    """Whether two results are alike but for rounding."""
    size = float(b.nan_to_num(0.0, 0.0, 0.0).abs().max())
    return torch.allclose(a, b, rtol=1e-4, atol=1e-5 * max(size, 1.0), equal_nan=True)


def _calls_rules(module: nn.Module, rows: Tensor) -> bool:
    """Whether a rule for batches is called where two rows run side by side, in the module or in its gradients.

    Torch looks at what every such rule returns, of a Function or of an operator: a rule that no gradient passes is seen
    there too. A torch without that look is taken to call some.
    """
    look = getattr(autograd_function, _LOOK, None)
    if look is None:
        return True
    called: list[bool] = []

    def seen(*args: Any, **options: Any) -> Any:
        called.append(True)
        return look(*args, **options)

    weights, two = dict(module.named_parameters()), rows.detach().repeat(2, *[1] * (rows.dim() - 1))
    setattr(autograd_function, _LOOK, seen)
    try:
        with suppress(Exception), torch.no_grad(), own_generator(0):  # what cannot run side by side calls nothing
            vmap(lambda row: module(row[None])[0], randomness="same")(two)
        with suppress(Exception), own_generator(0):
            one = grad(lambda given, row: functional_call(module, given, (row[None],)).sum())
            vmap(one, in_dims=(None, 0), randomness="same")(weights, two)
    finally:
        setattr(autograd_function, _LOOK, look)
    return bool(called)


#: What torch calls on every rule's result.
_LOOK = "validate_vmap_returns_tuple_of_two_elements"


def brings_rules(module: nn.Module, rows: Tensor) -> bool:
    """Whether a Function or an operator in it has a rule of its own for batches: one that sees all records at once."""
    if _calls_rules(module, rows):
        return True
    rows = rows.detach().clone().requires_grad_(rows.is_floating_point())  # seen also before the first layer
    inputs = [p for p in (*module.parameters(), rows) if p.requires_grad]
    with torch.enable_grad(), own_generator(0):
        out = module(rows).sum()
        back = torch.autograd.grad(out, inputs, create_graph=True, allow_unused=True)
    todo = [t.grad_fn for t in (out, *back) if t is not None]
    seen = set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        made_by = getattr(node, "_forward_cls", None)
        if made_by is not None and made_by.vmap is not torch.autograd.Function.vmap:
            return True
        todo += [after for after, _ in node.next_functions]
    return False


@dataclass(frozen=True, eq=False)
class RowByRow:
    """Maps rows to a module's outputs, each row by itself: ``module`` in evaluation mode is never run on one.

    Its parameters are read at every call. ``program`` are its steps where all of them are known (:func:`read_program`);
    else single rows run ``side_by_side``, or in turn.
    """

    module: nn.Module
    program: tuple[Step, ...] | None
    side_by_side: bool

    @classmethod
    def of(cls, module: nn.Module, like: Tensor) -> RowByRow:
        """Return the way to ask a module, by rows of zeros shaped as ``like`` (1, ...)."""
        program = read_program(module.eval())
        if program is not None:
            return cls(module, program, side_by_side=False)
        zeros = torch.zeros_like(like).repeat(2, *[1] * (like.dim() - 1))
        with warnings.catch_warnings(), suppress(Exception):  # of zeros alone
            warnings.simplefilter("ignore")
            fast, slow = cls(module, None, side_by_side=True), cls(module, None, side_by_side=False)
            if not brings_rules(copy.deepcopy(module).requires_grad_(True), zeros[:1]) and close(
                fast(zeros), slow(zeros)
            ):
                return fast
        return cls(module, None, side_by_side=False)

    def __call__(self, rows: Tensor) -> Tensor:
        """Return what the module makes of rows, shape (n, ...)."""
        with torch.no_grad(), torch.autocast(rows.device.type, enabled=False):
            if self.program is not None:
                return _run(self.program, rows)
            if self.side_by_side:
                module = copy.deepcopy(self.module)
                return vmap(lambda row: module(row[None])[0])(rows)
            found = []
            for row in rows:
                with own_generator(0, rows.device):
                    found.append(copy.deepcopy(self.module)(row[None])[0])
            return torch.stack(found)


def _run(program: tuple[Step, ...], rows: Tensor) -> Tensor:
    results: list[Tensor] = []
    for step in program:
        results.append(step(*[rows if i < 0 else results[i] for i in step.inputs]))
        check_rows_kept(results[-1], rows)
    return results[-1]


def check_rows_kept(made: Tensor, rows: Tensor) -> None:
    """Refuse what a layer made where it is not one row for each."""
    if len(made) != len(rows):
        raise InvalidInputError("module has layers after which there is not one row for each record.")
