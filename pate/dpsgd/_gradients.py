"""Gradients of single records, which nothing in a module can mix.

Clipping bounds what one record moves only where each record's gradient is a function of that record alone. Hooks that
read a batch's activations (as Opacus' do) take the module's word for it: after a ``cumsum`` over the batch, one record
moves all of them. Here the module never sees a batch. It is run on one record at a time, as a batch of one, from a
copy that has never run before; ``torch.func.vmap`` does that for many records in one go. What a module does across
its batch, or keeps from one call to the next, finds nothing there.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from pate.core.seeds import training_seed
from pate.teachers.torch._recipe import own_generator


@contextmanager
def _no_remarks() -> Iterator[None]:
    with warnings.catch_warnings():
        # Speed alone: an operation without a batching rule is run record by record.
        warnings.filterwarnings("ignore", message="There is a performance drop", category=UserWarning)
        yield


class RecordGradients:
    """The gradient of each record's cross-entropy, with respect to the trainable parameters.

    Parameters
    ----------
    module : torch.nn.Module
        Its parameters are read at every call; it is never run itself.
    vectorised : bool
        Whether to run records side by side (``vmap``), or one after the other: for modules whose code looks at values.

    Examples
    --------
    >>> gradients = RecordGradients(nn.Linear(2, 3))
    >>> weight, bias = gradients(torch.ones(5, 2), torch.zeros(5, dtype=torch.int64), seed=0)
    >>> weight.shape, bias.shape
    (torch.Size([5, 3, 2]), torch.Size([5, 3]))
    """

    def __init__(self, module: nn.Module, *, vectorised: bool = True) -> None:
        self.module = module
        self.vectorised = vectorised
        self.names = [name for name, p in module.named_parameters() if p.requires_grad]

    def __call__(self, X: torch.Tensor, y: torch.Tensor, *, seed: int, shared: bool = False) -> list[torch.Tensor]:
        r"""Return one tensor of shape (n, \*shape) for each trainable parameter.

        Parameters
        ----------
        X : tensor of shape (n, ...)
        y : int64 tensor of shape (n,)
        seed : int
            What the module's random numbers (dropout) start from.
        shared : bool
            Whether all records draw the same numbers. Otherwise each has its own, which hang on its place among the n.
        """
        parameters = dict(self.module.named_parameters())
        # Copies: what the module writes into its parameters may be of a record, and would be released.
        moved = {name: parameters[name].detach().clone() for name in self.names}
        if self.vectorised:
            with own_generator(seed, X.device), _no_remarks():
                each = vmap(grad(self._loss()), (None, 0, 0), randomness="same" if shared else "different")
                found = each(moved, X, y)
            return [found[name] for name in self.names]
        rows = []
        for i, (x, label) in enumerate(zip(X, y, strict=True)):
            leaves = {name: value.clone().requires_grad_() for name, value in moved.items()}
            with own_generator(seed if shared else training_seed(seed, i), X.device):
                loss = self._loss()(leaves, x, label)
            rows.append(torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True))
        return [torch.stack(column) for column in zip(*rows, strict=True)]

    def _loss(self) -> Callable[[dict[str, torch.Tensor], torch.Tensor, torch.Tensor], torch.Tensor]:
        """Return the loss of one record under given parameters, by a module that has never run.

        A new copy each time, of everything: an attribute, a frozen parameter, a buffer, or vmap's own stand-in for a
        batch, that an earlier call left something in would bring other records in.
        """
        stateless = copy.deepcopy(self.module).train()

        def loss(moved: dict[str, torch.Tensor], x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
            logits = functional_call(stateless, moved, (x[None],))
            return nn.functional.cross_entropy(logits, label[None])

        return loss


def clipped_sum(gradients: Sequence[torch.Tensor], max_norm: float) -> list[torch.Tensor]:
    r"""Return the sum over records of their gradients, each scaled to an L2 norm of at most ``max_norm``.

    Entries that are not finite are zeroed first: one record that overflows would turn the whole sum into NaN, whatever
    the norm. Norms and sums are of double precision, whatever the parameters are: a norm of ten million float32 comes
    out a percent too small, and a sum of bfloat16 moves in steps of 2 at 256.

    Parameters
    ----------
    gradients : sequence of tensors of shape (n, \\*shape)
        One for each parameter.
    max_norm : float

    Examples
    --------
    >>> clipped_sum([torch.tensor([[3.0, 4.0], [0.0, 0.5]])], 1.0)
    [tensor([0.6000, 1.3000], dtype=torch.float64)]
    """
    finite = [g.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).flatten(1) for g in gradients]
    norms = [torch.linalg.vector_norm(g, dim=1, dtype=torch.float64) for g in finite]
    factors = (max_norm / (torch.stack(norms, dim=1).norm(dim=1) + 1e-6)).clamp(max=1.0)
    return [(factors @ g.double()).view(h.shape[1:]) for g, h in zip(finite, gradients, strict=True)]
