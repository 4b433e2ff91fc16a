"""Clipped sums in one pass: gradients with respect to layers' outputs, norms from them, one weighted sum.

For a layer with input a and output z, and g the gradient, with respect to z, of the sum of the records' losses, row i
of g is of record i alone where layers keep records apart. A record's gradient with respect to the weights follows from
its rows of a and g: an outer product for a linear layer, which is never formed, and small products for the others
(Goodfellow, *Efficient Per-Example Gradient Computations*, 2015; Rochette, Manoel and Tramel 2019; Bu, Wang, Zha and
Karypis, *Differentially Private Optimization on Large Model at Small Cost*, ICML 2023: book-keeping).

A unit of K rows is as a record with K times as many places: its gradient is the sum of its rows'. Then even a linear
layer's is formed, since clipping must see what is left of K outer products that may cancel.
"""

from __future__ import annotations

import copy
import math
import operator
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.functional import threshold

from pate.dpsgd._checks import Trial
from pate.dpsgd.clipping import Clip, as_clip
from pate.dpsgd.engines._engine import PerRecordEngine, check_units, loss_gradient
from pate.exceptions import InvalidInputError
from pate.networks import hooked, steady_kernels

# Gradients of single records in one layer, from what goes into it and what comes back to it.

#: Records whose float32 products are added up before the sum goes on in float64.
BLOCK = 128
#: Units of a block that a unit more or less may change: 2 FEW^2 <= BLOCK^2, see :class:`BookKeepingEngine`.
FEW = 90
#: Numbers whose float32 squares are.
RUN = 64
#: Numbers of a product up to which many of them are faster in one go.
_SMALL = 2**14
#: Outputs below which a linear layer is faster as the weights times the rows, transposed, than as torch has it.
_NARROW = 16
#: Norm of a row beyond which nothing of its record is left.
_LARGEST = 1e30


def passes(n: int, most: int, blocks: Sequence[int] | None) -> Iterator[tuple[slice, Sequence[int] | None]]:
    """Yield which units go in each pass, and the sizes of their blocks: whole ones, ``most`` units or one block."""
    if blocks is None:
        yield from ((slice(at, at + most), None) for at in range(0, n, most))
        return
    at, held = 0, list[int]()
    for size in [*blocks, most + 1]:
        if held and sum(held) + size > most:
            yield slice(at, at + sum(held)), held
            at, held = at + sum(held), []
        held.append(size)


# A part is gradients of n units with respect to some parameters of a layer, by their names in it. ``squares`` are their
# squared norms, float64 of shape (n,). ``add`` adds their sums, each times its factor, to float64 tensors of the
# parameters' shapes: products are in the type of the factors, at most BLOCK of them added up in it, or so many as
# ``blocks`` says; in float64 where that is more than FEW. ``without`` is the same with nothing of some units, whatever
# it holds.


@dataclass(frozen=True)
class Whole:
    """Formed: one row of numbers per unit, of one parameter."""

    names: tuple[str, ...]
    rows: Tensor

    def squares(self) -> Tensor:
        return _squares(self.rows)

    def add(self, factors: Tensor, totals: Sequence[Tensor], blocks: Sequence[int] | None = None) -> None:
        flat = totals[0].view(-1)
        for some, kind in _cuts(self.rows, factors.dtype, blocks):
            flat += factors[some].to(kind) @ self.rows[some].to(kind)

    def without(self, odd: Tensor) -> Whole:
        return Whole(self.names, _nothing(self.rows, odd))


@dataclass(frozen=True)
class Outer:
    """Outer products of a row that came back and a row that went in, never formed; a bias is met by ones."""

    names: tuple[str, ...]
    back: Tensor
    rows: Tensor

    def squares(self) -> Tensor:
        rows = _squares(self.rows)
        met = rows * ("weight" in self.names) + float("bias" in self.names)
        # Rows beyond that leave nothing: their products with numbers near float32's smallest would be rounded up.
        return torch.where(rows <= _LARGEST**2, _squares(self.back) * met, torch.inf)

    def add(self, factors: Tensor, totals: Sequence[Tensor], blocks: Sequence[int] | None = None) -> None:
        scaled, found = factors[:, None] * self.back, dict(zip(self.names, totals, strict=True))
        if "bias" in found:
            found["bias"] += scaled.sum(dim=0, dtype=torch.float64)
        if "weight" in found:
            _add_products(scaled, self.rows.to(factors.dtype), found["weight"], blocks)

    def without(self, odd: Tensor) -> Outer:
        return Outer(self.names, _nothing(self.back, odd), _nothing(self.rows, odd))


@dataclass(frozen=True)
class Looked:
    """Rows of a table: for each unit, and each id that it holds, one row, summed over all places before it is squared.

    A word that stands twice in a record moves its row twice: norms of places, added up, would miss what is between
    them. All of it is in double precision.
    """

    names: tuple[str, ...]
    units: Tensor
    ids: Tensor
    rows: Tensor
    n_units: int

    def squares(self) -> Tensor:
        return self.rows.new_zeros(self.n_units).index_add_(0, self.units, self.rows.square().sum(dim=1))

    def add(self, factors: Tensor, totals: Sequence[Tensor], blocks: Sequence[int] | None = None) -> None:
        totals[0].index_add_(0, self.ids, self.rows * factors.double()[self.units, None])

    def without(self, odd: Tensor) -> Looked:
        return Looked(self.names, self.units, self.ids, _nothing(self.rows, odd[self.units]), self.n_units)


Part = Whole | Outer | Looked


def _looked(layer: nn.Embedding, ids: Tensor, g: Tensor, k: int) -> Looked:
    n, size = len(ids) // k, layer.num_embeddings
    places = torch.arange(n, device=ids.device)[:, None] * size + ids.reshape(n, -1)
    found, at = torch.unique(places, return_inverse=True)
    units, ids = found // size, found % size
    rows = torch.zeros(len(found), layer.embedding_dim, dtype=torch.float64, device=g.device)
    rows.index_add_(0, at.flatten(), g.reshape(-1, layer.embedding_dim).double())
    if layer.padding_idx is not None:  # that row is not learnt
        rows[ids == layer.padding_idx] = 0.0
    return Looked(("weight",), units, ids, rows, n)


def _cuts(rows: Tensor, kind: torch.dtype, blocks: Sequence[int] | None) -> Iterator[tuple[slice, torch.dtype]]:
    """Yield blocks of units, and the type in which their products are added up."""
    at, n = 0, len(rows)
    # In float64 blocks only save memory, and on a GPU each is a launch.
    most = max(1, n) if kind == torch.float64 and rows.is_cuda else BLOCK
    for size in [most] * -(-n // most) if blocks is None else blocks:
        yield slice(at, at + size), torch.float64 if blocks is not None and size > FEW else kind
        at += size


def _add_products(left: Tensor, right: Tensor, total: Tensor, blocks: Sequence[int] | None) -> None:
    """Add left^T right to ``total``, block by block in their own type."""
    if blocks is not None or left.is_cuda:
        for some, kind in _cuts(left, left.dtype, blocks):
            total += left[some].to(kind).t() @ right[some].to(kind)
        return
    n_blocks, whole = len(left) // BLOCK, len(left) - len(left) % BLOCK
    if total.numel() <= _SMALL and n_blocks > 1:
        a, b = (x[:whole].reshape(-1, BLOCK, x.shape[1]) for x in (left, right))
        total += torch.bmm(a.transpose(1, 2), b).sum(dim=0, dtype=torch.float64)
        left, right = left[whole:], right[whole:]
    for at in range(0, len(left), BLOCK):
        total += left[at : at + BLOCK].t() @ right[at : at + BLOCK]


def _squares(rows: Tensor) -> Tensor:
    """Return squared norms or a little more, float64 of shape (n,): the squares of :data:`RUN` numbers in float32.

    There a square below 2^-126 may count for nothing: each number gets the 2^-63 whose square that is.
    """
    n, size = rows.shape
    whole = size - size % RUN if size > RUN else 0
    total = torch.linalg.vector_norm(rows[:, whole:], dim=1).double()
    if whole:
        runs = torch.linalg.vector_norm(rows[:, :whole].reshape(n, -1, RUN), dim=2)
        total = (runs.double().square().sum(dim=1) + total.square()).sqrt()
    return (total + size**0.5 * 2.0**-63).square()


def _nothing(x: Tensor, odd: Tensor) -> Tensor:
    return torch.where(odd.view(-1, *[1] * (x.dim() - 1)), 0.0, x)


def run(layer: Any, a: Tensor) -> tuple[Tensor, Tensor]:
    """Return what the layer's weights were multiplied with, and its output: gradients go through to ``a`` alone."""
    if isinstance(layer, nn.Embedding):
        return a, F.embedding(a, layer.weight.detach(), layer.padding_idx)
    weight: Any
    bias: Any
    weight, bias = (None if p is None else p.detach() for p in (layer.weight, layer.bias))
    kind: Any = layer
    match kind:
        case nn.Linear() if bias is not None and a.dim() == 2 and len(bias) < _NARROW:
            return a, torch.addmm(bias[:, None], weight, a.t()).t()
        case nn.Linear():
            return a, F.linear(a, weight, bias)
        case nn.Conv2d():
            return a, F.conv2d(a, weight, bias, layer.stride, layer.padding, layer.dilation)
        case nn.Conv1d():
            return a, F.conv1d(a, weight, bias, layer.stride, layer.padding, layer.dilation)
        case nn.GroupNorm():
            x, shape = F.group_norm(a, layer.num_groups, None, None, layer.eps), (-1, *[1] * (a.dim() - 2))
        case nn.LayerNorm():
            x, shape = F.layer_norm(a, layer.normalized_shape, None, None, layer.eps), layer.normalized_shape
        case _:
            raise AssertionError(type(layer))
    z = x if weight is None else x * weight.view(shape)
    return x, z if bias is None else z + bias.view(shape)


def parts(layer: Any, kept: Tensor, g: Tensor, rows_per_unit: int = 1) -> list[Part]:
    """Return the gradients of single units for the layer's trainable parameters, in their order.

    Shapes: ``kept`` (n K, ...), ``g`` (n K, ...).
    """
    learnt = tuple(name for name, p in layer.named_parameters(recurse=False) if p.requires_grad)
    if isinstance(layer, nn.Linear) and g.dim() == 2 and rows_per_unit == 1:
        return [Outer(learnt, g, kept)]
    if isinstance(layer, nn.Embedding):
        return [_looked(layer, kept, g, rows_per_unit)]
    found: list[Part] = []
    if "weight" in learnt:
        found.append(Whole(("weight",), _weight(layer, kept, g, rows_per_unit)))
    if "bias" in learnt:
        found.append(Whole(("bias",), _by_unit(_summed(layer, g), rows_per_unit)))
    return found


def _by_unit(rows: Tensor, rows_per_unit: int) -> Tensor:
    """Return sums over the rows of each unit, shape (n, numbers)."""
    return rows if rows_per_unit == 1 else rows.reshape(-1, rows_per_unit, rows.shape[1]).sum(dim=1)


def _weight(layer: Any, kept: Tensor, g: Tensor, k: int) -> Tensor:
    match layer:
        case nn.Linear():
            n = len(g) // k
            back, rows = (x.reshape(n, -1, x.shape[-1]) for x in (g, kept))  # places of all rows of a unit
            return (back.transpose(1, 2) @ rows).flatten(1)
        case nn.Conv2d():
            patches = _patches(kept, layer.kernel_size, layer.dilation, layer.padding, layer.stride)
            return _by_unit((g.flatten(2) @ patches.transpose(1, 2)).flatten(1), k)
        case nn.Conv1d():
            sizes = zip((1, 1, 0, 1), (layer.kernel_size, layer.dilation, layer.padding, layer.stride), strict=True)
            patches = _patches(kept.unsqueeze(2), *[(flat, int(size[0])) for flat, size in sizes])
            return _by_unit((g @ patches.transpose(1, 2)).flatten(1), k)
        case _:
            return _by_unit(_summed(layer, g * kept), k)


def _patches(x: Tensor, size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    """Return what a convolution's weights meet at each place, shape (n, channels of all places of the kernel, places).

    Torch's unfold launches one kernel per row on a GPU; there it is one copy of all.
    """
    return (_copied if x.is_cuda else F.unfold)(x, size, dilation, padding, stride)


def _copied(x: Tensor, size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    x = F.pad(x, (padding[1], padding[1], padding[0], padding[0])).contiguous()
    n, channels, *sides = x.shape
    places = [(a - d * (k - 1) - 1) // s + 1 for a, k, d, s in zip(sides, size, dilation, stride, strict=True)]
    row, channel, *steps = x.stride()
    apart = [step * d for step, d in zip(steps, dilation, strict=True)]
    moved = [step * s for step, s in zip(steps, stride, strict=True)]
    seen = x.as_strided((n, channels, *size, *places), (row, channel, *apart, *moved))
    return seen.reshape(n, channels * math.prod(size), math.prod(places))


def _summed(layer: Any, x: Tensor) -> Tensor:
    """Return sums over all places of a row that one number of a parameter is used at, shape (n K, numbers)."""
    match layer:
        case nn.Linear():
            return x if x.dim() == 2 else x.flatten(1, -2).sum(dim=1)
        case nn.LayerNorm():
            return x.reshape(len(x), -1, math.prod(layer.normalized_shape)).sum(dim=1)
        case _:
            return x if x.dim() == 2 else x.flatten(2).sum(dim=2)


def floats(layer: Any, kept: Tensor, z: Tensor) -> int:
    """Return about how many numbers one record costs here at a time, by one row of :func:`run`."""
    size = kept.numel() + 2 * z.numel()
    if isinstance(layer, nn.Linear) and z.dim() == 2:
        return size
    if isinstance(layer, nn.Embedding):
        return size + 6 * z.numel()
    if isinstance(layer, nn.Conv1d | nn.Conv2d):
        size += layer.weight[0].numel() * z[0, 0].numel()
    return size + (0 if layer.weight is None else int(layer.weight.numel()))


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


#: Records in one pass: as many as keep about so many numbers, so that memory does not grow with the batch.
_KEPT, _FEWEST, _MOST = 2**24, 16, 4096
#: ... and how many times as many on a GPU, where a pass costs its launches.
_ON_GPU = 4
_ROUNDING = 2.0**-24
#: A factor below is 0: float32 would round it, up too. A shorter vector is within the norm.
_LEAST = 1e-30
#: By how much of itself a norm is larger than what float32 found: its squares' rounding, and its factor's.
_ABOVE = 1 / (1 - (2 * RUN + 8) * _ROUNDING)


def _excess(m: int) -> float:
    """Return m gamma_m: by how many norms a float32 sum of m vectors errs at most."""
    return m * (m * _ROUNDING / (1 - m * _ROUNDING))


class BookKeepingEngine:
    """The fast engine, for modules of torch's common layers: it computes clipped sums for many records in one pass.

    One pass back to the layers' outputs gives every record's norm without forming its gradient (a linear layer's is an
    outer product), and one weighted sum the clipped gradients' sum: Bu, Wang, Zha and Karypis, *Differentially Private
    Optimization on Large Model at Small Cost*, ICML 2023. The module's own code is never run on records.

    Parameters
    ----------
    module : torch.nn.Module
        Its parameters are read at every call; it is never run itself.
    program : tuple of Step
        What :func:`read_program` reads off it.

    Notes
    -----
    That records are kept apart is by construction: what runs are layers of known types, held since the trace, by their
    types' own ``forward`` (so that no hook is called), and a few functions that look at one record each.

    A norm, of runs of :data:`RUN` float32 squares, errs by gamma_64 of itself at most, where gamma_m = m u/(1 - m u)
    (Higham, *Accuracy and Stability of Numerical Algorithms*, 2002, equation 3.5), beside what underflows, which is
    added; what a clipping is shown is larger by as much. Weighted sums are in float32 for :data:`BLOCK` units at a
    time: m products' sum errs by at most gamma_m times the sum of their sizes, number by number and in any order of
    adding, hence by m gamma_m C for m vectors that are within C over all groups of parameters. A replaced unit changes
    one block, by 2 C and 2 m gamma_m C: :attr:`excess` is m gamma_m, and the noise is larger by as much. A unit that is
    there or not changes it by C and 2 m gamma_m C: with ``blocks``, by units' numbers so that none moves into another
    one, m is at most :data:`FEW`. Larger blocks, matrix products that are allowed less than float32 (TF32),
    ``shared`` without blocks, where a unit more moves all of them, and all on a GPU are in float64. Of a unit of
    several rows there is one product in these sums: what its rows give is added up, and rounded, before its norm is
    taken.

    What is inside one record's gradient is float32, and its last bits may depend on the record's place in the batch, as
    they do in :class:`PerRecordEngine`'s: matrix products round by place. Where all places are the same for neighbours
    nothing comes of it. With ``shared`` they are not, and a record exactly at a kink (relu) may fall on its other side:
    that no such thing is exploited is part of the statement's real arithmetic.

    Examples
    --------
    >>> linear = nn.Linear(2, 3)
    >>> engine = BookKeepingEngine(linear, read_program(linear))
    >>> weight, bias = engine.clipped_sum(
    ...     torch.ones(5, 2), torch.zeros(5, dtype=torch.int64), 1.0, seed=0
    ... )
    >>> weight.shape, bias.shape
    (torch.Size([3, 2]), torch.Size([3]))
    """

    excess = _excess(BLOCK)
    unseen: nn.Module | None = None
    apart = (
        "a trace of the module's code shows torch's own layers and functions alone, which are known to keep records "
        "apart; the code itself never saw a record"
    )

    def __init__(self, module: nn.Module, program: tuple[Step, ...]) -> None:
        self.module = module
        self.program = program
        trainable = [name for name, p in nn.Module.named_parameters(module) if p.requires_grad]
        self._order = {name: i for i, name in enumerate(trainable)}
        self._at_once = _MOST
        #: What a unit of several rows costs beyond its rows.
        formed = (step.layer for step in program if not isinstance(step.layer, nn.Embedding))
        self._formed = 1 + sum(p.numel() for layer in formed for p in _own(layer) if p.requires_grad)

    @property
    def at_once(self) -> int:
        """How many rows are handed over at a time: by the device that the module is on."""
        return self._at_once * (_ON_GPU if any(p.is_cuda for p in nn.Module.parameters(self.module)) else 1)

    @at_once.setter
    def at_once(self, number: int) -> None:
        self._at_once = number

    @classmethod
    def takes(cls, module: nn.Module) -> bool:
        """Whether the module is made of known layers alone."""
        return read_program(module) is not None

    @classmethod
    def for_module(cls, module: nn.Module, trial: Trial) -> BookKeepingEngine:
        """Return the engine, or refuse a module that is not made of known layers alone.

        Raises
        ------
        InvalidInputError
            It holds something else, or its logits are others than those of its layers in a row.
        """
        program = _program_of(module)
        copied = copy.deepcopy(trial.module)
        engine, tried = cls(module, program), cls(copied, _program_of(copied))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _check_against_single_records(tried, PerRecordEngine(trial.module), trial)
        with torch.enable_grad():
            _, taps = tried._forward(trial.rows[0][:1])
        kept = sum(floats(step.layer, one, z) for step, one, z in taps)
        engine.at_once = max(_FEWEST, min(_MOST, _KEPT // kept))
        return engine

    def clipped_sum(
        self,
        X: Tensor,
        y: Tensor,
        clip: Clip | float,
        *,
        rows_per_unit: int = 1,
        weights: Tensor | None = None,
        seed: int,
        shared: bool = False,
        blocks: Sequence[int] | None = None,
    ) -> list[Tensor]:
        """Return the sum of clipped gradients: see :class:`pate.dpsgd.engines.Engine`. Nothing in it is random."""
        clip, k = as_clip(clip), rows_per_unit
        check_units(X, y, k, weights)
        if weights is None and k > 1:
            weights = torch.full((len(X),), 1 / k, device=X.device)
        groups = dict(zip(self._order, clip.groups(list(self._order)), strict=True))
        owned = [p for p in nn.Module.parameters(self.module) if p.requires_grad]
        total = [torch.zeros_like(p, dtype=torch.float64) for p in owned]
        most = self.at_once if k == 1 else k * max(1, min(self.at_once // k, _KEPT // self._formed))
        if k > 1 or most < BLOCK:  # never by how many there are: all blocks would change with one unit
            blocks = None
        # Products may be of fewer digits than float32 has: TF32, bfloat16.
        coarse = torch.get_float32_matmul_precision() != "highest"
        coarse = coarse or (X.is_cuda and torch.backends.cuda.matmul.allow_tf32)
        # On a GPU blocks are launches, which take longer than double precision does.
        exact = coarse or X.is_cuda or (shared and blocks is None)
        # A caller's autocast would round blocks to eight bits; anomaly detection raises at what is not finite.
        no_autocast = torch.autocast(X.device.type, enabled=False)
        with no_autocast, torch.autograd.set_detect_anomaly(False), steady_kernels(X.device):
            for some, within in passes(len(X), most, None if exact else blocks):
                with torch.enable_grad():
                    logits, taps = self._forward(X[some])
                g = loss_gradient(logits.detach(), y[some])
                if weights is not None:
                    g *= weights[some, None]
                found = self._parts(logits, taps, g, k)
                self._add(found, clip, groups, total, exact=exact, blocks=within)
        return total

    def outputs(self, X: Tensor) -> Tensor:
        """Return what the module makes of rows, each by itself, in evaluation mode or not."""
        with torch.autocast(X.device.type, enabled=False):
            return self._forward(X)[0]

    def _parts(
        self, logits: Tensor, taps: Sequence[tuple[Step, Tensor, Tensor]], g: Tensor, k: int
    ) -> list[tuple[str, Part]]:
        """Return the gradients of single units, layer by layer, with the beginning of their parameters' names."""
        outputs = [z for _, _, z in taps]
        if len(outputs) == 1 and outputs[0] is logits:  # a linear model: nothing to go back through
            back: Sequence[Tensor] = [g]
        else:
            back = torch.autograd.grad(logits, outputs, g, allow_unused=True, materialize_grads=True)
        return [
            (f"{step.name}." if step.name else "", part)
            for (step, kept, _), g in zip(taps, back, strict=True)
            for part in parts(step.layer, kept, g, k)
        ]

    def _add(
        self,
        found: list[tuple[str, Part]],
        clip: Clip,
        groups: Mapping[str, int],
        total: list[Tensor],
        *,
        exact: bool,
        blocks: Sequence[int] | None,
    ) -> None:
        """Clip the gradients of some units and add them up."""
        n_groups = max(groups.values()) + 1
        if n_groups > 1:
            found = [(layer, one) for layer, part in found for one in _in_groups(layer, part, groups)]
            grouped: list[list[Tensor]] = [[] for _ in range(n_groups)]
            for layer, part in found:
                grouped[groups[layer + part.names[0]]].append(part.squares())
            squares = torch.stack([torch.stack(some).sum(dim=0) for some in grouped], dim=1)
        else:
            squares = torch.stack([part.squares() for _, part in found]).sum(dim=0)[:, None]
        norms, finite = squares.sqrt() * _ABOVE, torch.isfinite(squares)
        if finite.all():
            factors = clip.factors(norms)
        else:  # of a unit that is not nothing is left, and of the others not a bit is changed
            odd = ~finite.all(dim=1)
            found = [(layer, part.without(odd)) for layer, part in found]
            factors = clip.factors(norms.masked_fill(odd[:, None], torch.inf)).masked_fill(odd[:, None], 0.0)
        factors = threshold(factors, _LEAST, 0.0)
        columns = factors.to(torch.float64 if exact else torch.float32).t().contiguous()
        for layer, part in found:
            names = [layer + name for name in part.names]
            part.add(columns[groups[names[0]]], [total[self._order[name]] for name in names], blocks)

    def _forward(self, X: Tensor) -> tuple[Tensor, list[tuple[Step, Tensor, Tensor]]]:
        """Return the logits, and of each layer that learns its step, what its weights met, and its output."""
        results: list[Tensor] = []
        taps = []
        for step in self.program:
            given = [X if i < 0 else results[i] for i in step.inputs]
            if type(step.layer) not in TRAINABLE:
                results.append(step(*given))
            else:
                kept, z = run(step.layer, *given)
                if torch.is_grad_enabled() and any(p.requires_grad for p in _own(step.layer)):
                    z = z if z.requires_grad else z.requires_grad_()
                    taps.append((step, kept.detach(), z))
                results.append(z)
            if len(results[-1]) != len(X):
                raise InvalidInputError("module has layers after which there is not one row for each record.")
        return results[-1], taps


def _in_groups(layer: str, part: Part, groups: Mapping[str, int]) -> list[Part]:
    """Return the part, or one for each of its parameters where these are not of one group."""
    together = len({groups[layer + name] for name in part.names}) == 1
    return [part] if together else [replace(part, names=(name,)) for name in part.names]


def _own(layer: nn.Module | None) -> Iterator[nn.Parameter]:
    return iter(()) if layer is None else nn.Module.parameters(layer, recurse=False)


def _program_of(module: nn.Module) -> tuple[Step, ...]:
    program = read_program(module)
    if program is None:
        raise InvalidInputError(
            "module must be made of torch's own layers that keep records apart (Linear, Conv1d, Conv2d, GroupNorm, "
            "LayerNorm, Embedding, activations that are not in place, pooling) in float32, each with weights called "
            "once, for BookKeepingEngine. Use PerRecordEngine."
        )
    return program


def _check_against_single_records(engine: BookKeepingEngine, alone: PerRecordEngine, trial: Trial) -> None:
    """Refuse a module for which the gradients of made-up rows are not those of the module itself, one row at a time."""
    off = n = 0
    for rows in trial.rows:
        labels = trial.targets(len(rows))
        theirs = alone.gradients(rows, labels, seed=0)
        for i in range(len(rows)):
            one = engine.clipped_sum(rows[i : i + 1], labels[i : i + 1], 1e20, seed=0)
            a, b = (torch.cat([g.flatten().double() for g in found]) for found in (one, [g[i] for g in theirs]))
            if bool(torch.isfinite(b).all()):
                off += not float((a - b).norm()) <= 1e-3 * (1e-3 + float(b.norm()))
                n += 1
    # A few may differ: rounding decides on which side of a kink (relu, pooling) a number lies.
    if 4 * off > n:
        raise InvalidInputError("module has other gradients than its layers in a row. Use PerRecordEngine.")
