"""What an engine of DP-SGD is, what it promises, and the trial of that promise on made-up rows.

The mechanism is one, whatever the engine: :mod:`pate.dpsgd._run` draws the records of a step, hands them to an
engine in parts, adds up what comes back and adds the noise, once. Sampling, noise and account are not the engine's: it
knows no rate, no budget and no source of noise. So one engine may stand for another without a word of the statement
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

import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Protocol

import torch
from torch import nn

from pate.dpsgd._checks import Trial
from pate.dpsgd.clipping import Clip, FlatClipping, PerLayerClipping
from pate.exceptions import InvalidInputError

#: Clipping norm of the trial: below the gradients of nearly all records, so that what is clipped is seen. And another
#: one, that of most runs: an engine may not heed it, or keep to it only where it is small.
_NORM, _ANOTHER = 1e-3, 1.0
_ROUNDING = 1e-3
#: Rows of a unit, and units of as many.
_UNITS = {1: 4, 2: 3}


class Engine(Protocol):
    """Whatever computes sums of clipped gradients; the module's docstring has what it promises.

    Attributes
    ----------
    module : torch.nn.Module
        What is trained. Its parameters are read at every call, and written by the optimiser alone.
    excess : float
        By how many clipping norms at most rounding in a sum differs between neighbours, beside their units' own
        vectors; the noise is larger by as much.
    at_once : int
        How many rows are handed over at a time, where nobody says how many (but one unit at least): memory grows with
        it.
    apart : str
        How it is seen to that no record moves another one's gradient, for the statement.

    Examples
    --------
    >>> from pate.dpsgd.engines import PerRecordEngine
    >>> engine: Engine = PerRecordEngine(nn.Linear(2, 3))
    >>> weight, bias = engine.clipped_sum(torch.ones(5, 2), torch.zeros(5, dtype=torch.int64), 1.0, seed=0)
    >>> weight.shape, bias.shape
    (torch.Size([3, 2]), torch.Size([3]))
    """

    module: nn.Module
    excess: float
    at_once: int
    apart: str

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
        y : int64 tensor of shape (n K,)
            Class indices.
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
            Whether all units draw the same numbers. Otherwise each has its own, which hang on its place among the n.
        blocks : sequence of int or None
            With ``shared``: how many units stand in each block. Which block a unit is in must hang on that unit alone,
            and on constants: then rounding in a block is moved by none but its own units.
        """


def check_units(X: torch.Tensor, y: torch.Tensor, rows_per_unit: int, weights: torch.Tensor | None) -> int:
    """Return the number of units.

    Raises
    ------
    InvalidInputError
        Rows, labels and weights are not as many, or not whole units.
    """
    sizes = {len(X), len(y), len(X) if weights is None else len(weights)}
    if rows_per_unit < 1 or len(sizes) > 1 or len(X) % rows_per_unit:
        raise InvalidInputError(
            f"rows, labels and weights must be as many, and whole units of {rows_per_unit} rows. Fill units up with "
            "rows of weight 0."
        )
    return len(X) // rows_per_unit


def record_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the loss of each record, shape (n,): cross-entropy, the one that every engine differentiates.

    Examples
    --------
    >>> record_loss(torch.zeros(2, 4), torch.tensor([0, 3])).exp()
    tensor([4., 4.])
    """
    return nn.functional.cross_entropy(logits, labels, reduction="none")


def loss_gradient(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the gradient of :func:`record_loss` by each record's logits: softmax minus one at its label."""
    # Class by class in memory: over few numbers that lie side by side torch's softmax is slow.
    g = logits.t().contiguous().softmax(dim=0)
    return g.scatter_add_(0, labels[None], g.new_full((1, len(labels)), -1.0)).t()


def check_promise(engine: Engine, trial: Trial) -> None:
    """Refuse an engine that breaks its promise on made-up rows, for the module that it is to train.

    What comes back has the parameters' shapes. Every unit alone is within the norm; with any unit replaced, all of its
    rows at a time, the sum has moved by twice the norm at most, and with ``shared`` by the norm when one is taken away.
    Units are of one row and of two, clipped as a whole and layer by layer.

    Raises
    ------
    InvalidInputError

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
    before = [t.detach().clone() for t in _tensors(engine.module)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i, rows in enumerate(trial.rows):
            shared = i % 2 == 1
            clip: Clip = PerLayerClipping(_ANOTHER) if shared else FlatClipping(_NORM)
            _try_units(engine, trial, rows, 1, partial(_flat, engine, clip=clip, shared=shared, rows_per_unit=1))
            if i < 2:
                weights = torch.tensor([0.75, 0.25, 1.0, 2.0, 1.0, 0.0])
                run = partial(_flat, engine, clip=clip, shared=shared, rows_per_unit=2, weights=weights)
                _try_units(engine, trial, rows, 2, run)
    if not all(map(torch.equal, before, _tensors(engine.module))):
        raise _broken(engine, "the module's parameters or buffers change while sums are computed")


def _try_units(engine: Engine, trial: Trial, rows: torch.Tensor, k: int, run: partial[torch.Tensor]) -> None:
    """Refuse an engine by which one unit of k rows moves the sum too far."""
    n = _UNITS[k]
    batch, labels = rows[: n * k], torch.arange(n * k) % trial.n_classes
    whole = run(batch, labels)
    for j in range(n):
        unit = torch.arange(j * k, (j + 1) * k)
        alone = float(run(batch, labels, only=unit).norm())
        if not alone <= 1 + _ROUNDING:
            raise _broken(engine, f"the sum of one unit has {alone:.4g} times the clipping norm")
        changed, others = batch.clone(), labels.clone()
        changed[unit], others[unit] = trial.another(rows), (labels[unit] + 1) % trial.n_classes
        moved = float((run(changed, others) - whole).norm())
        if not moved <= 2 * (1 + _ROUNDING):
            raise _broken(engine, f"replacing a unit moves the sum by {moved:.4g} clipping norms")
        rest = torch.tensor([i for i in range(n * k) if i // k != j])
        gone = float((run(batch, labels, only=rest) - whole).norm()) if run.keywords["shared"] else 0.0
        if not gone <= 1 + _ROUNDING:
            raise _broken(engine, f"taking a unit away moves the sum by {gone:.4g} clipping norms")


def _tensors(module: nn.Module) -> Iterator[torch.Tensor]:
    yield from module.parameters()
    yield from module.buffers()


def _flat(
    engine: Engine,
    X: torch.Tensor,
    y: torch.Tensor,
    *,
    clip: Clip,
    shared: bool,
    rows_per_unit: int,
    weights: torch.Tensor | None = None,
    only: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the sum in one row, in units of the norm; refuse one that would be spread out when it is added."""
    at = torch.arange(len(X)) if only is None else only
    parts = engine.clipped_sum(
        *(X[at], y[at], clip),
        rows_per_unit=rows_per_unit,
        weights=None if weights is None else weights[at],
        seed=1,
        shared=shared,
    )
    wanted = [p.shape for p in engine.module.parameters() if p.requires_grad]
    if [part.shape for part in parts] != wanted or any(part.dtype != torch.float64 for part in parts):
        raise _broken(engine, "the sums are not one float64 tensor of each trainable parameter's shape")
    return torch.cat([part.flatten() for part in parts]) / clip.max_norm


def _broken(engine: Engine, how: str) -> InvalidInputError:
    return InvalidInputError(
        f"module cannot be trained with differential privacy by {type(engine).__name__}: on made-up rows {how}. Use "
        "torch's own layers and functions in it."
    )
