"""What an engine of DP-SGD is, what it promises, and the trial of that promise on made-up rows.

The mechanism is one, whatever the engine: :mod:`pate.dpsgd._run` draws the records of a step, hands them to an engine
in parts, adds up what comes back and adds the noise, once. Sampling, noise and account are not the engine's: it knows
no rate, no budget and no source of noise. So one engine may replace another without any change of the statement
changing, as long as it keeps its promise, C being the clipping norm:

* **Clipped.** ``clipped_sum`` is the sum, over exactly the records it was given, of one vector g_i for each, with
  norm(g_i) <= C whatever the record holds, and nothing in it that is not finite.
* **Apart.** g_i is a function of record i, the parameters and the seed; unless ``shared``, of the record's place in the
  part too. Never of the other records. So a replaced record moves the sum by 2 C at most and, with ``shared``, one
  that is not there by C: the sensitivities that :mod:`pate.dpsgd._calibration` takes.
* **Without a trace.** No parameter, no buffer and no attribute that outlives the call is a function of a record.

An engine refuses every module for which it cannot keep this (``for_module``). One that runs a module on whole batches
(ghost clipping, book-keeping) takes the module's word for "apart", so it may take only modules made of layers it
knows; a closed form takes linear ones alone. DP-FTRL needs no engine of its own: it adds other noise, to the same sums
of other samples.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from pate._core.curator import warn
from pate._core.secret import training_seed
from pate.dpsgd._checks import SIZES, Trial, tensors_of
from pate.dpsgd.clipping import Clip, FlatClipping, PerLayerClipping, as_clip
from pate.exceptions import InvalidInputError, PerformanceWarning
from pate.networks import brings_rules, close, own_generator, steady_kernels

#: Clipping norm of the trial: below the gradients of nearly all records, so that what is clipped is seen. And another
#: one, that of most runs: an engine may not heed it, or keep to it only where it is small.
_NORM, _ANOTHER = 1e-3, 1.0
_TOLERANCE = 1e-3
#: Rows of a unit, and units of as many.
_UNITS = {1: 4, 2: 3}


class Engine(Protocol):
    """The interface of an engine of DP-SGD, which computes sums of clipped per-record gradients.

    Attributes
    ----------
    module : torch.nn.Module
        What is trained. Its parameters are read at every call, and written by the optimiser alone.
    excess : float
        The most, in clipping norms, by which rounding of a sum differs between neighbours, besides their units' own
        vectors; the noise is made larger by as much.
    at_once : int
        How many rows are handed over at a time, if not given (but one unit at least): memory grows with
        it.
    apart : str
        How it is seen to that no record moves another one's gradient, for the statement.
    unseen : torch.nn.Module or None
        Made as ``module`` was, with nothing in common: no copy of it runs on a record. With the trained parameters it
        is what is released (:func:`released`).

    Examples
    --------
    >>> from pate.dpsgd.engines import PerRecordEngine
    >>> engine: Engine = PerRecordEngine(nn.Linear(2, 3))
    >>> weight, bias = engine.clipped_sum(
    ...     torch.ones(5, 2), torch.zeros(5, dtype=torch.int64), 1.0, seed=0
    ... )
    >>> weight.shape, bias.shape
    (torch.Size([3, 2]), torch.Size([3]))
    """

    module: nn.Module
    excess: float
    at_once: int
    apart: str
    unseen: nn.Module | None

    @classmethod
    def for_module(cls, module: nn.Module, trial: Trial) -> Engine:
        """Return an engine for a module that has never been run, and that keeps rows apart on its way forward.

        Raises
        ------
        InvalidInputError
            The promise cannot be kept for this module: found out on the rows of ``trial``, by copies of its module.
        """

    def clipped_sum(
        self,
        X: torch.Tensor,
        y: torch.Tensor,
        clip: Clip | float,
        *,
        rows_per_unit: int = 1,
        weights: torch.Tensor | None = None,
        seed: int,
        shared: bool = False,
        blocks: Sequence[int] | None = None,
    ) -> list[torch.Tensor]:
        r"""Return the sum of the units' clipped gradients, one float64 tensor per trainable parameter.

        A unit's gradient is that of its rows' :func:`record_loss`, weighted and added up.

        Parameters
        ----------
        X : tensor of shape (n K, ...)
            K rows for each of n units: those of unit u are ``X[u K : (u + 1) K]``.
        y : tensor of shape (n K,)
            Class indices (int64), or numbers (float32) for a module of one output.
        clip : Clip or float
            What bounds a unit's gradient; a number is the L2 norm over all trainable parameters.
        rows_per_unit : int
            K.
        weights : tensor of shape (n K,) or None
            What each row counts in its unit's loss; one of weight 0 fills a unit up that has fewer than K rows of its
            own, and should hold zeros. None for 1 / K each: the mean.
        seed : int
            What the module's random numbers (dropout) start from.
        shared : bool
            Whether all units draw the same numbers. Otherwise each has its own, which depend on its place among the n.
        blocks : sequence of int or None
            With ``shared``: how many units stand in each block. A unit's block must depend on that unit alone,
            and on constants: then rounding in a block is moved by none but its own units.
        """


def released(engine: Engine) -> nn.Module:
    """Return a module with the trained parameters, on the CPU, in evaluation mode, that has seen no record.

    Not a copy of one that was trained: what its code kept of a batch in a closure (a hook's, say) every copy shares.
    """
    made = copy.deepcopy(engine.module if engine.unseen is None else engine.unseen)
    take_numbers(made, engine.module)
    return made.cpu().eval()


def take_numbers(module: nn.Module, of: nn.Module) -> None:
    """Give a module another one's parameters and buffers; no code of the user's runs, as for ``state_dict`` it may."""
    with torch.no_grad():
        for (_, mine), (_, theirs) in zip(tensors_of(module), tensors_of(of), strict=True):
            mine.copy_(theirs)


def check_units(X: torch.Tensor, y: torch.Tensor, rows_per_unit: int, weights: torch.Tensor | None) -> int:
    """Return the number of units."""
    sizes = {len(X), len(y), len(X) if weights is None else len(weights)}
    if rows_per_unit < 1 or len(sizes) > 1 or len(X) % rows_per_unit:
        raise InvalidInputError(
            f"rows, labels and weights must be as many, and whole units of {rows_per_unit} rows. Fill units up with "
            "rows of weight 0."
        )
    return len(X) // rows_per_unit


def record_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the loss of each record, shape (n,), that every engine differentiates.

    Cross-entropy of class indices; of numbers half the squared error of the one output. Clipping to C then makes that
    Huber's loss of width C for a linear model of rows of norm 1: its gradient is the error, cut at C, times the row.

    Examples
    --------
    >>> record_loss(torch.zeros(2, 4), torch.tensor([0, 3])).exp()
    tensor([4., 4.])
    >>> record_loss(torch.zeros(2, 1), torch.tensor([1.0, -2.0]))
    tensor([0.5000, 2.0000])
    """
    if labels.is_floating_point():
        return (logits[:, 0] - labels).square() / 2
    return nn.functional.cross_entropy(logits, labels, reduction="none")


def loss_gradient(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the gradient of :func:`record_loss` by the logits: softmax minus one at a record's label, or its error."""
    if labels.is_floating_point():
        return logits - labels[:, None]
    # Class by class in memory: over few numbers that lie side by side torch's softmax is slow.
    g = logits.t().contiguous().softmax(dim=0)
    return g.scatter_add_(0, labels[None], g.new_full((1, len(labels)), -1.0)).t()


def check_promise(engine: Engine, trial: Trial) -> None:
    """Refuse an engine that breaks its promise on made-up rows, for the module that it is to train.

    What comes back has the parameters' shapes. Every unit alone is within the norm; with any unit replaced, all of its
    rows at a time, the sum has moved by twice the norm at most, and with ``shared`` by the norm when one is taken away.
    Units are of one row and of two, clipped as a whole and layer by layer.

    Examples
    --------
    >>> from pate.dpsgd._checks import try_module
    >>> from pate.dpsgd.engines import PerRecordEngine
    >>> class Generous(PerRecordEngine):
    ...     def clipped_sum(self, X, y, clip, **options):
    ...         return super().clipped_sum(X, y, FlatClipping(9 * clip.max_norm), **options)
    >>> linear = nn.Linear(4, 3)
    >>> check_promise(PerRecordEngine(linear), try_module(linear, (4,), 3))
    >>> check_promise(Generous(linear), try_module(linear, (4,), 3))
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: module cannot be trained ... the sum of one unit has ... the clipping norm. ...
    """
    before = [t.detach().clone() for _, t in tensors_of(engine.module)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i, rows in enumerate(trial.rows):
            shared = i % 2 == 1
            clip: Clip = PerLayerClipping(_ANOTHER) if shared else FlatClipping(_NORM)
            _try_units(
                engine, trial, rows, 1, partial(_sum_in_a_row, engine, clip=clip, shared=shared, rows_per_unit=1)
            )
            if i < 2:
                weights = torch.tensor([0.75, 0.25, 1.0, 2.0, 1.0, 0.0])
                run = partial(_sum_in_a_row, engine, clip=clip, shared=shared, rows_per_unit=2, weights=weights)
                _try_units(engine, trial, rows, 2, run)
    if not all(torch.equal(t, was) for (_, t), was in zip(tensors_of(engine.module), before, strict=False)):
        raise _broken(engine, "the module's parameters or buffers change while sums are computed")


def _try_units(engine: Engine, trial: Trial, rows: torch.Tensor, k: int, run: partial[torch.Tensor]) -> None:
    """Refuse an engine by which one unit of k rows moves the sum too far."""
    n = _UNITS[k]
    batch, labels, others = rows[: n * k], trial.targets(n * k), trial.targets(n * k, shift=1)
    whole = run(batch, labels)
    for j in range(n):
        unit = torch.arange(j * k, (j + 1) * k)
        alone = float(run(batch, labels, only=unit).norm())
        if not alone <= 1 + _TOLERANCE:
            raise _broken(engine, f"the sum of one unit has {alone:.4g} times the clipping norm")
        changed, replaced = batch.clone(), labels.clone()
        changed[unit], replaced[unit] = trial.another(rows), others[unit]
        moved = float((run(changed, replaced) - whole).norm())
        if not moved <= 2 * (1 + _TOLERANCE):
            raise _broken(engine, f"replacing a unit moves the sum by {moved:.4g} clipping norms")
        rest = torch.tensor([i for i in range(n * k) if i // k != j])
        gone = float((run(batch, labels, only=rest) - whole).norm()) if run.keywords["shared"] else 0.0
        if not gone <= 1 + _TOLERANCE:
            raise _broken(engine, f"taking a unit away moves the sum by {gone:.4g} clipping norms")


def _sum_in_a_row(
    engine: Engine,
    X: torch.Tensor,
    y: torch.Tensor,
    *,
    clip: Clip,
    weights: torch.Tensor | None = None,
    only: torch.Tensor | None = None,
    **how: Any,
) -> torch.Tensor:
    """Return the sum in one row, in units of the norm; refuse one that would be spread out when it is added."""
    at = torch.arange(len(X)) if only is None else only
    parts = engine.clipped_sum(X[at], y[at], clip, weights=None if weights is None else weights[at], seed=1, **how)
    wanted = [p.shape for p in engine.module.parameters() if p.requires_grad]
    if [part.shape for part in parts] != wanted or any(part.dtype != torch.float64 for part in parts):
        raise _broken(engine, "the sums are not one float64 tensor of each trainable parameter's shape")
    return torch.cat([part.flatten() for part in parts]) / clip.max_norm


def _broken(engine: Engine, how: str) -> InvalidInputError:
    return InvalidInputError(
        f"module cannot be trained with differential privacy by {type(engine).__name__}: on made-up rows {how}. Use "
        "torch's own layers and functions in it."
    )


# Gradients of single records, which nothing in a module can mix. Hooks that read a batch's activations (as Opacus' do)
# take the module's word for it: after a ``cumsum`` over the batch, one record moves all of them. Here the module never
# sees a batch: it is run on one record at a time, from a copy that never ran before, by ``torch.func.vmap`` for many in
# one go. What a module does across its batch, or keeps from one call to the next, finds nothing there.

#: About how many numbers of gradients are kept at a time.
_KEPT = 2**27
#: By how much of itself a norm in double precision, of up to 10^8 numbers, may come out too small.
_ROUNDING = 1e-8
_OTHERS = (
    "module has other gradients for a record beside others than alone, so clipping cannot bound one record's "
    "influence. Use torch's own layers and functions in it."
)


class PerRecordEngine:
    """The engine for any module: it computes the gradient of one record at a time.

    Parameters
    ----------
    module : torch.nn.Module
        Its parameters are read at every call; it is never run itself.
    vectorised : bool
        Whether to run records side by side (``vmap``), or one after the other: for modules whose code looks at values.
    each_its_own : bool
        Whether ``vmap`` is given the weights as one set for each record. It costs more, and lets torch's
        kernels run that write into a product of weights alone (``nn.GRU``, ``nn.RNN``).

    Examples
    --------
    >>> engine = PerRecordEngine(nn.Linear(2, 3))
    >>> weight, bias = engine.gradients(
    ...     torch.ones(5, 2), torch.zeros(5, dtype=torch.int64), seed=0
    ... )
    >>> weight.shape, bias.shape
    (torch.Size([5, 3, 2]), torch.Size([5, 3]))
    """

    #: Sums of float64, which err by 1e-16 of a norm for each record.
    excess = 0.0
    at_once = 64
    unseen: nn.Module | None = None
    apart = (
        "every record's gradient was computed from that record alone, by a copy of the module that was then thrown "
        "away; what its code keeps elsewhere (in a global, say) is not seen"
    )

    def __init__(self, module: nn.Module, *, vectorised: bool = True, each_its_own: bool = False) -> None:
        self.module = module
        self.vectorised, self.each_its_own = vectorised, each_its_own
        self.names = [name for name, p in module.named_parameters() if p.requires_grad]
        size = sum(p.numel() for p in module.parameters() if p.requires_grad)
        self.at_once = max(1, min(type(self).at_once, _KEPT // max(1, size)))

    @classmethod
    def for_module(cls, module: nn.Module, trial: Trial) -> PerRecordEngine:
        """Return the engine that runs records side by side, where the module allows it.

        The gradients of records side by side are compared with those of each record alone.

        Raises
        ------
        InvalidInputError
            They are others.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            how = _side_by_side(trial)
        if how is None:
            warn(
                "module cannot be run on records side by side (it looks at the values of its rows: control flow, numpy "
                "or .item(); or torch's vmap has no rule for a part of it): they are run one after the other, slowly.",
                PerformanceWarning,
            )
            return cls(module, vectorised=False)
        return cls(module, each_its_own=how)

    def clipped_sum(
        self,
        X: torch.Tensor,
        y: torch.Tensor,
        clip: Clip | float,
        *,
        blocks: Sequence[int] | None = None,
        **options: Any,
    ) -> list[torch.Tensor]:
        """Return the sum of clipped gradients: see :class:`Engine`."""
        clip = as_clip(clip)
        found = self.gradients(X, y, **options)
        return clipped(found, clip, clip.groups(self.names))

    def gradients(
        self,
        X: torch.Tensor,
        y: torch.Tensor,
        *,
        rows_per_unit: int = 1,
        weights: torch.Tensor | None = None,
        seed: int,
        shared: bool = False,
    ) -> list[torch.Tensor]:
        r"""Return one tensor (n, \*shape) for each trainable parameter, a row per unit (:meth:`Engine.clipped_sum`)."""
        n, k = check_units(X, y, rows_per_unit, weights), rows_per_unit
        parameters = dict(self.module.named_parameters())
        # Copies: what the module writes into its parameters may be of a record, and would be released.
        moved = {name: parameters[name].detach().clone() for name in self.names}
        if not n:
            return [value.new_zeros(0, *value.shape) for value in moved.values()]
        if weights is None:
            weights = torch.full((n * k,), 1 / k, device=X.device)
        units = X.reshape(n, k, *X.shape[1:]), y.reshape(n, k), weights.reshape(n, k)
        if self.vectorised:
            if self.each_its_own:
                moved = {name: value.expand(n, *value.shape) for name, value in moved.items()}
            inner = 0 if self.each_its_own else None
            with own_generator(seed, X.device), warnings.catch_warnings(), self._own_kernels(X.device):
                # Speed alone: an operation without a batching rule is run record by record.
                warnings.filterwarnings("ignore", message="There is a performance drop", category=UserWarning)
                each = vmap(grad(self._loss()), (inner, 0, 0, 0), randomness="same" if shared else "different")
                found = each(moved, *units)
            return [found[name] for name in self.names]
        rows = []
        for i, unit in enumerate(zip(*units, strict=True)):
            leaves = {name: value.clone().requires_grad_() for name, value in moved.items()}
            with own_generator(seed if shared else training_seed(seed, i), X.device), self._own_kernels(X.device):
                loss = self._loss()(leaves, *unit)
            rows.append(torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True))
        return [torch.stack(column) for column in zip(*rows, strict=True)]

    def _own_kernels(self, device: torch.device) -> AbstractContextManager[None]:
        """Keep recurrent layers off cuDNN: its dropout draws from a state of its own, which no unit's seed reaches."""
        recurrent = any(isinstance(part, nn.RNNBase) for part in self.module.modules())
        return steady_kernels(device, enabled=False if recurrent else None)

    def _loss(self) -> Callable[..., torch.Tensor]:
        """Return the loss of one unit under given parameters, by a module that has never run.

        A new copy each time, of everything: an attribute, a frozen parameter, a buffer, or vmap's own stand-in for a
        batch, that an earlier call left something in would bring other records in. Rows of one unit may meet: they
        are clipped as one.
        """
        stateless = copy.deepcopy(self.module).train()

        def loss(
            moved: dict[str, torch.Tensor], x: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor
        ) -> torch.Tensor:
            losses = record_loss(functional_call(stateless, moved, (x,)), labels)
            return (losses * weights.to(losses.dtype)).sum()

        return loss


def clipped(gradients: Sequence[torch.Tensor], clip: Clip | float, groups: Sequence[int] = ()) -> list[torch.Tensor]:
    r"""Return the sum over units of their gradients, each as the clipping leaves it.

    Of a unit with an entry that is not finite nothing is left: it would turn the whole sum into NaN, whatever the norm.
    Norms and sums are of double precision, whatever the parameters are: a norm of ten million float32 comes out a
    percent too small, and a sum of bfloat16 moves in steps of 2 at 256.

    Shapes: ``gradients`` (n, \\*shape).
    """
    clip, groups = as_clip(clip), groups or (0,) * len(gradients)
    flat = [g.reshape(len(g), math.prod(g.shape[1:])) for g in gradients]
    finite = [g.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0) for g in flat]
    odd = torch.stack([~torch.isfinite(g).all(dim=1) for g in flat]).any(dim=0)
    squares = torch.zeros(len(odd), max(groups) + 1, dtype=torch.float64, device=odd.device)
    for group, g in zip(groups, finite, strict=True):
        squares[:, group] += torch.linalg.vector_norm(g, dim=1, dtype=torch.float64).square()
    norms = torch.where(odd[:, None], torch.inf, squares.sqrt() * (1 + _ROUNDING))
    factors = torch.where(odd[:, None], 0.0, clip.factors(norms))
    return [
        (factors[:, group] @ g.double()).view(h.shape[1:])
        for group, g, h in zip(groups, finite, gradients, strict=True)
    ]


def _side_by_side(trial: Trial) -> bool | None:
    """Return whether records run side by side need weights each its own, None where they cannot be run so at all."""
    if brings_rules(copy.deepcopy(trial.module), trial.rows[0][:1]):
        return None
    for each_its_own in (False, True):
        fast = PerRecordEngine(trial.module, each_its_own=each_its_own)
        if _agrees(fast, trial):
            for rows in trial.rows:
                for size in SIZES:
                    _check_gradients_apart(fast, rows[:size], trial.another(rows), trial.targets(size))
            return each_its_own
    return None


def _agrees(fast: PerRecordEngine, trial: Trial) -> bool:
    """Whether records can be run side by side; refuse a module whose gradients then are others than alone."""
    plain = PerRecordEngine(trial.module, vectorised=False)
    labels = trial.targets(4)
    for rows in (kind[: len(labels)] for kind in trial.rows[:3]):
        theirs = _flat(plain.gradients(rows, labels, seed=1, shared=True))
        try:
            ours = _flat(fast.gradients(rows, labels, seed=1, shared=True))
        except Exception:  # on made-up rows: no record decides how its gradient or another one's is computed
            return False
        off = (ours - theirs).norm(dim=1) > 1e-3 * (1 + theirs.norm(dim=1))
        # A few may differ: rounding decides on which side of a kink (relu, pooling) a number lies.
        if 2 * int(off.sum()) > len(rows):
            raise InvalidInputError(_OTHERS)
    return True


def _check_gradients_apart(
    engine: PerRecordEngine, batch: torch.Tensor, other: torch.Tensor, labels: torch.Tensor
) -> None:
    """Refuse a module in which some record's gradient is another one when a record beside it changes.

    Such as by a batching rule of an operator, which sees all records at once. Here rows stay what they are, and no kink
    excuses a difference.
    """
    found = _flat(engine.gradients(batch, labels, seed=1))
    for j in range(len(batch)):
        changed = batch.clone()
        changed[j] = other
        again = _flat(engine.gradients(changed, labels, seed=1))
        again[j] = found[j]
        if not all(close(a, b) for a, b in zip(again, found, strict=True)):
            raise InvalidInputError(_OTHERS)


def _flat(gradients: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([g.reshape(len(g), -1) for g in gradients], dim=1).nan_to_num(0.0, 0.0, 0.0)
