"""Clipped sums in one pass: gradients with respect to layers' outputs, norms from them, one weighted sum."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pate.dpsgd._checks import Trial
from pate.dpsgd.engines._engine import loss_gradient
from pate.dpsgd.engines._layers import BLOCK, RUN, floats, parts, run
from pate.dpsgd.engines._program import TRAINABLE, Step, read_program
from pate.exceptions import InvalidInputError

#: Records in one pass: as many as keep about so many numbers, so that memory does not grow with the batch.
_KEPT, _FEWEST, _MOST = 2**24, 16, 4096
_ROUNDING = 2.0**-24


def _excess(m: int) -> float:
    """Return m gamma_m: by how many norms a float32 sum of m vectors errs at most."""
    return m * (m * _ROUNDING / (1 - m * _ROUNDING))


class BookKeepingEngine:
    """Runs many records at once through layers that are known to keep them apart; takes modules made of such layers.

    One pass back to the layers' outputs gives every record's norm without forming its gradient (a linear layer's is an
    outer product), and one weighted sum the clipped gradients' sum: Bu, Wang, Zha and Karypis, *Differentially Private
    Optimization on Large Model at Small Cost*, ICML 2023. The module's own code is never run on records.

    Parameters
    ----------
    module : torch.nn.Module
        Its parameters are read at every call; it is never run itself.
    program : tuple of Step
        What :func:`read_program` reads off it.

    Attributes
    ----------
    excess : float
    at_once : int

    Notes
    -----
    Sums are in float32 for :data:`BLOCK` records and :data:`RUN` squares at a time, which errs: m products' sum by at
    most gamma_m = m u/(1 - m u) times the sum of their sizes, in any order of adding (Higham, *Accuracy and Stability
    of Numerical Algorithms*, 2002, equation 3.5). So a norm errs by gamma_64 of itself at most, and factors are
    smaller by as much; and the sum of m clipped vectors errs by m gamma_m C at most. A replaced record changes one
    block: :attr:`excess` is m gamma_m, and the noise is larger by as much. With ``shared``, where a record more moves
    all blocks, weighted sums are in float64.

    Examples
    --------
    >>> linear = nn.Linear(2, 3)
    >>> engine = BookKeepingEngine(linear, read_program(linear))
    >>> weight, bias = engine.clipped_sum(torch.ones(5, 2), torch.zeros(5, dtype=torch.int64), 1.0, seed=0)
    >>> weight.shape, bias.shape
    (torch.Size([3, 2]), torch.Size([3]))
    """

    excess = _excess(BLOCK)
    apart = (
        "a trace of the module's code shows torch's own layers and functions alone, which are known to keep records "
        "apart; the code itself never saw a record"
    )

    def __init__(self, module: nn.Module, program: tuple[Step, ...]) -> None:
        self.module = module
        self.program = program
        trainable = [name for name, p in module.named_parameters() if p.requires_grad]
        self._order = {name: i for i, name in enumerate(trainable)}
        self.at_once = _MOST

    @classmethod
    def takes(cls, module: nn.Module) -> bool:
        """Whether the module is made of known layers alone.

        Examples
        --------
        >>> BookKeepingEngine.takes(nn.Linear(4, 3)), BookKeepingEngine.takes(nn.Sequential(nn.Dropout(0.5)))
        (True, False)
        """
        return read_program(module) is not None

    @classmethod
    def for_module(cls, module: nn.Module, trial: Trial) -> BookKeepingEngine:
        """Return the engine, or refuse a module that is not made of known layers alone.

        Raises
        ------
        InvalidInputError
            It holds something else, or its logits are others than those of its layers in a row.

        Examples
        --------
        >>> from pate.dpsgd._checks import try_module
        >>> tanh = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
        >>> len(BookKeepingEngine.for_module(tanh, try_module(tanh, (4,), 2)).program)
        3
        """
        program = read_program(module)
        if program is None:
            raise InvalidInputError(
                "module must be made of torch's own layers that keep records apart (Linear, Conv1d, Conv2d, GroupNorm, "
                "LayerNorm, Embedding, activations, pooling), each called once, for BookKeepingEngine. Use "
                "PerRecordEngine."
            )
        engine, tried = cls(module, program), cls(trial.module, program)
        plain = copy.deepcopy(trial.module).train()
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for rows in trial.rows:
                if not torch.allclose(tried._forward(rows)[0], plain(rows), rtol=1e-4, atol=1e-5, equal_nan=True):
                    raise InvalidInputError("module gives other logits than its layers in a row. Use PerRecordEngine.")
        with torch.enable_grad():
            _, taps = tried._forward(trial.rows[0][:1])
        kept = sum(floats(trial.module.get_submodule(name), one, z) for name, one, z in taps)
        engine.at_once = max(_FEWEST, min(_MOST, _KEPT // kept))
        return engine

    def clipped_sum(self, X: Tensor, y: Tensor, max_norm: float, *, seed: int, shared: bool = False) -> list[Tensor]:
        """Return the sum of clipped gradients: see :class:`pate.dpsgd.engines.Engine`. Nothing in it is random."""
        owned = [p for p in self.module.parameters() if p.requires_grad]
        total = [torch.zeros_like(p, dtype=torch.float64) for p in owned]
        for at in range(0, len(X), self.at_once):
            self._add(X[at : at + self.at_once], y[at : at + self.at_once], max_norm, total, exact=shared)
        return total

    def _add(self, X: Tensor, y: Tensor, max_norm: float, total: list[Tensor], *, exact: bool) -> None:
        with torch.enable_grad():
            logits, taps = self._forward(X)
        outputs, g = [z for _, _, z in taps], loss_gradient(logits.detach(), y)
        if len(outputs) == 1 and outputs[0] is logits:  # a linear model: nothing to go back through
            back: Sequence[Tensor] = [g]
        else:
            back = torch.autograd.grad(logits, outputs, g, allow_unused=True, materialize_grads=True)
        found = [
            (f"{layer}." if layer else "", part)
            for (layer, kept, _), g in zip(taps, back, strict=True)
            for part in parts(self.module.get_submodule(layer), kept, g)
        ]
        squares = torch.stack([part.squares() for _, part in found]).sum(dim=0)
        odd = ~torch.isfinite(squares)
        if odd.any():  # of such a record nothing is left, and of the others not a bit is changed
            found = [(layer, part.without(odd)) for layer, part in found]
        low = torch.float64 if exact or X.dtype == torch.float64 else torch.float32
        bound = max_norm * (1 - 2 * RUN * _ROUNDING)
        factors = (bound / squares.sqrt().clamp(min=1e-12)).clamp(max=1.0)
        factors = torch.where(odd, 0.0, factors).to(low)
        for layer, part in found:
            part.add(factors, [total[self._order[layer + name]] for name in part.names])

    def _forward(self, X: Tensor) -> tuple[Tensor, list[tuple[str, Tensor, Tensor]]]:
        """Return the logits, and of each layer that learns its name, what its weights met, and its output."""
        results: list[Tensor] = []
        taps = []
        for step in self.program:
            given = [X if i < 0 else results[i] for i in step.inputs]
            if step.function is not None:
                results.append(step.function(*given))
                continue
            layer = self.module.get_submodule(step.layer)
            if type(layer) not in TRAINABLE:
                results.append(layer(*given))
                continue
            kept, z = run(layer, *given)
            if torch.is_grad_enabled() and any(p.requires_grad for p in layer.parameters(recurse=False)):
                z = z if z.requires_grad else z.requires_grad_()
                taps.append((step.layer, kept.detach(), z))
            results.append(z)
        return results[-1], taps
