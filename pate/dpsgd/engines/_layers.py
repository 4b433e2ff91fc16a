"""Gradients of single records in one layer, from what goes into it and what comes back to it.

For a layer with input a and output z, and g the gradient, with respect to z, of the sum of the records' losses, row i
of g is of record i alone where layers keep records apart. A record's gradient with respect to the weights follows from
its rows of a and g: an outer product for a linear layer, which is never formed, and small products for the others
(Goodfellow, *Efficient Per-Example Gradient Computations*, 2015; Rochette, Manoel and Tramel 2019; Bu, Wang, Zha and
Karypis, *Differentially Private Optimization on Large Model at Small Cost*, ICML 2023: book-keeping).

A unit of K rows is as a record with K times as many places: its gradient is the sum of its rows'. Then even a linear
layer's is formed, since clipping must see what is left of K outer products that may cancel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

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


def whole_blocks(sizes: Sequence[int], most: int) -> Iterator[tuple[int, list[int]]]:
    """Yield where each run of blocks begins and their sizes: as many as have ``most`` units together, or one."""
    at, held = 0, list[int]()
    for size in [*sizes, most + 1]:
        if held and sum(held) + size > most:
            yield at, held
            at, held = at + sum(held), []
        held.append(size)


class Part(Protocol):
    """Gradients of n units with respect to some parameters of a layer."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of those parameters, in the layer."""

    def squares(self) -> Tensor:
        """Return their squared norms, float64 of shape (n,)."""

    def add(self, factors: Tensor, totals: Sequence[Tensor], blocks: Sequence[int] | None = None) -> None:
        """Add the sums of the gradients, each times its factor, to float64 tensors of the parameters' shapes.

        Products are in the type of ``factors``, at most :data:`BLOCK` of them added up in it, or so many as ``blocks``
        says; in float64 where that is more than :data:`FEW`.
        """

    def without(self, odd: Tensor) -> Part:
        """Return the same with nothing of those units, whatever it holds."""

    def apart(self) -> list[Part]:
        """Return one part for each parameter, for a clipping that groups them otherwise than by layer."""


@dataclass(frozen=True)
class Whole:
    """Formed: one row of numbers per unit, of one parameter."""

    names: tuple[str, ...]
    rows: Tensor

    def squares(self) -> Tensor:
        return _squares(self.rows)

    def add(self, factors: Tensor, totals: Sequence[Tensor], blocks: Sequence[int] | None = None) -> None:
        flat = totals[0].view(-1)
        for some, kind in _cuts(len(factors), factors.dtype, blocks):
            flat += factors[some].to(kind) @ self.rows[some].to(kind)

    def without(self, odd: Tensor) -> Whole:
        return Whole(self.names, _nothing(self.rows, odd))

    def apart(self) -> list[Part]:
        return [self]


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

    def apart(self) -> list[Part]:
        return [Outer((name,), self.back, self.rows) for name in self.names]


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

    def apart(self) -> list[Part]:
        return [self]


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


def _cuts(n: int, kind: torch.dtype, blocks: Sequence[int] | None) -> Iterator[tuple[slice, torch.dtype]]:
    """Yield blocks of units, and the type in which their products are added up."""
    at = 0
    for size in [BLOCK] * -(-n // BLOCK) if blocks is None else blocks:
        yield slice(at, at + size), torch.float64 if blocks is not None and size > FEW else kind
        at += size


def _add_products(left: Tensor, right: Tensor, total: Tensor, blocks: Sequence[int] | None) -> None:
    """Add left^T right to ``total``, block by block in their own type."""
    if blocks is not None:
        for some, kind in _cuts(len(left), left.dtype, blocks):
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

    Parameters
    ----------
    layer : torch.nn.Module
        Of a type in :data:`pate.dpsgd.engines._book_keeping.TRAINABLE`.
    kept : tensor of shape (n K, ...)
        From :func:`run`.
    g : tensor of shape (n K, ...)
        The gradient of the units' losses with respect to the output.
    rows_per_unit : int
        K.
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
            patches = F.unfold(kept, layer.kernel_size, layer.dilation, layer.padding, layer.stride)  # type: ignore[arg-type]
            return _by_unit((g.flatten(2) @ patches.transpose(1, 2)).flatten(1), k)
        case nn.Conv1d():
            sizes = zip((1, 1, 0, 1), (layer.kernel_size, layer.dilation, layer.padding, layer.stride), strict=True)
            patches = F.unfold(kept.unsqueeze(2), *[(flat, int(size[0])) for flat, size in sizes])
            return _by_unit((g @ patches.transpose(1, 2)).flatten(1), k)
        case _:
            return _by_unit(_summed(layer, g * kept), k)


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
