"""Whether a module may be trained by DP-SGD at all: checked on made-up rows, before any private row is used.

That no record moves another one's gradient is not what these checks stand for: that is what an engine promises
(:mod:`pate.dpsgd.engines`). They refuse what would then not do what its author meant, and say why.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from pate.exceptions import InvalidInputError
from pate.networks import close, own_generator, why_rows_fail

#: Odd and even, one and many: what mixes records may do so for some sizes only.
SIZES = (1, 2, 3, 4, 7)
_TABLES = (nn.Embedding, nn.EmbeddingBag)
#: float32, in which rows are read, has all whole numbers up to that.
_MOST_IDS = 2**24
_MIXES = (
    "module mixes the records of a batch ({how}), so clipping cannot bound one record's influence. Remove whatever "
    "sums, sorts, normalises or attends across the batch; rows come as (batch, ...), the batch first "
    "(batch_first=True in torch's recurrent and attention layers)."
)


@dataclass(frozen=True)
class Trial:
    """The made-up data that a module is checked on before any private row is used.

    ``rows`` are tensors (8, ...) of several kinds, int64 where they are ids (below ``n_ids``, of :func:`ids_of`).
    ``module`` is a copy with weights moved off where they start, where zeros would hide what becomes of rows; never
    run, but copied. ``n_classes`` is 1 where it predicts a number.
    """

    rows: tuple[torch.Tensor, ...]
    module: nn.Module
    n_classes: int
    n_ids: int | None = None

    def another(self, rows: torch.Tensor) -> torch.Tensor:
        """Return a row that is not among these."""
        return rows[-1] + 1.0 if self.n_ids is None else (rows[-1] + 1) % self.n_ids

    def targets(self, n: int, *, shift: int = 0) -> torch.Tensor:
        """Return targets of n rows; with another shift each is another one."""
        return made_up_targets(n, self.n_classes, shift)


def check_trainable(module: nn.Module) -> None:
    """Refuse a module without trainable parameters, and layers that mix records or keep something of them."""
    if not any(p.requires_grad for p in module.parameters()):
        raise InvalidInputError("module has no parameters to train. Give it at least one layer with weights.")
    for part in module.modules():
        if isinstance(part, _TABLES) and (part.max_norm is not None or part.sparse):
            raise InvalidInputError(
                f"module must not hold a torch.nn.{type(part).__name__} with max_norm, which rewrites the table's rows "
                "that a batch holds, beside the noise, nor with sparse=True, whose gradient tells which those were. "
                "Leave both out."
            )
    problems = [] if module.training else ["it does not stay in training mode"]
    for part in module.modules():
        kind = type(part).__name__
        trained = any(p.requires_grad for p in part.parameters(recurse=False))
        # Frozen, and in evaluation mode whatever mode the module is in, it is a map of single rows.
        if isinstance(part, _BatchNorm) and (trained or part.training or part.running_mean is None):
            problems.append(f"{kind} makes each record's output depend on its batch")
        elif isinstance(part, _InstanceNorm) and trained and part.track_running_stats:
            problems.append(f"{kind} keeps running statistics of the records (track_running_stats=False keeps none)")
        elif trained and any(True for _ in part.buffers()):
            problems.append(f"the trained layer {kind} has buffers, which nothing protects")
    if problems:
        raise InvalidInputError(
            f"module cannot be trained with differential privacy: {'; '.join(dict.fromkeys(problems))}. "
            "Use torch.nn.GroupNorm or LayerNorm instead of batch norm (or freeze it, requires_grad_(False), and call "
            "its eval() in a train() of your own), and no buffers in trained layers."
        )


def ids_of(module: nn.Module, row_shape: tuple[int, ...]) -> int | None:
    """Return how many ids rows may be made of, 0, 1, ..., or None for a module that takes rows of numbers.

    Rows are ids where the module takes whole numbers and looks them up: what reaches a table (``torch.nn.Embedding``)
    is another thing for rows of zeros than for rows of ones. It is not for a table of places, say.
    """
    if not any(isinstance(part, _TABLES) for part in module.modules()):
        return None
    run = copy.deepcopy(module).eval()
    seen: list[list[tuple[nn.Module, torch.Tensor]]] = [[], []]
    value = 0

    def look(table: nn.Module, given: Any, options: Any) -> None:
        seen[value].append((table, given[0] if given else options["input"]))

    for part in run.modules():
        if isinstance(part, _TABLES):
            part.register_forward_pre_hook(look, with_kwargs=True)
    for value in (0, 1):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _run(run, torch.full((2, *row_shape), value, dtype=torch.int64))
        except Exception:  # of made-up rows: it does not take ids
            return None
    sizes = [
        int(cast(Any, table).num_embeddings)
        for (table, zeros), (_, ones) in zip(*seen, strict=False)
        if zeros.shape != ones.shape or not torch.equal(zeros, ones)
    ]
    if sizes and min(sizes) > _MOST_IDS:
        raise InvalidInputError(
            f"module has a table of {min(sizes)} rows; at most {_MOST_IDS} ids can be distinguished. Hash them."
        )
    return min(sizes) if sizes else None


def try_module(module: nn.Module, row_shape: tuple[int, ...], n_classes: int) -> Trial:
    """Refuse a module whose output has another shape, mixes records or changes from call to call.

    Every row of batches of several sizes is compared with the same row alone and with itself after a change in each
    other row, in evaluation and in training mode, on rows of several kinds.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        n_ids = ids_of(module, row_shape)
        trial = Trial(tuple(_made_up(row_shape, n_ids)), copy.deepcopy(module), n_classes, n_ids)
        with torch.no_grad():
            for p in filter(torch.is_floating_point, trial.module.parameters()):
                p.add_(torch.randn_like(p), alpha=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = copy.deepcopy(trial.module)
        _check_shape(run, trial.rows[0], n_classes)
        for mode in (True, False):
            _check_apart(run.train(mode), trial)
        run = copy.deepcopy(trial.module).train()
        with own_generator(0):
            run(trial.rows[0]).sum().backward()
    idle = [name for name, p in run.named_parameters() if p.requires_grad and p.grad is None]
    if idle:
        raise InvalidInputError(
            f"module has parameters that do not reach its output: {', '.join(idle)}. Remove or freeze them."
        )
    return trial


def made_up_rows(module: nn.Module, row_shape: tuple[int, ...]) -> torch.Tensor:
    """Return 8 rows at random, as the module takes them."""
    return next(_made_up(row_shape, ids_of(module, row_shape)))


def made_up_targets(n: int, n_classes: int, shift: int = 0) -> torch.Tensor:
    """Return class indices one after the other, or for one output numbers from -1 to 1."""
    places = torch.arange(n) + shift
    return places % n_classes if n_classes > 1 else places % 3 - 1.0


def _made_up(row_shape: tuple[int, ...], n_ids: int | None) -> Iterator[torch.Tensor]:
    """Yield rows of several kinds, of numbers or of ids, as many as the largest batch and one to change rows for."""
    n = max(SIZES) + 1
    if n_ids is None:
        some = torch.randn(n, *row_shape)
        yield some
        yield torch.rand(n, *row_shape)
        yield 30 * some.roll(1, 0)  # beyond thresholds
        yield torch.randint(0, 2, (n, *row_shape)).float()
    else:
        some = torch.randint(0, n_ids, (n, *row_shape))
        yield some
        yield torch.randint(0, min(n_ids, 3), (n, *row_shape))  # the same ones again and again
        yield some.flatten(1)[:, :1].view(n, *[1] * len(row_shape)).expand_as(some).clone()  # one all along
        yield some.clamp(min=n_ids - 2)
    twins = some[:2].repeat_interleave(-(-n // 2), 0)[:n]  # duplicates, some all zero
    yield twins * (torch.arange(n) % 3 > 0).to(some.dtype).view(n, *[1] * len(row_shape))


def _run(module: nn.Module, rows: torch.Tensor) -> torch.Tensor:
    with torch.no_grad(), own_generator(0):  # the same dropout every time
        return module(rows)


def _check_shape(module: nn.Module, rows: torch.Tensor, n_classes: int) -> None:
    shape = tuple(rows.shape[1:])
    words = f"(batch, {', '.join(map(str, shape))})"
    for size in SIZES:
        try:
            logits = _run(module, rows[:size])
        except InvalidInputError:  # what it returned
            raise
        except Exception as error:  # the module's own code; it has seen nothing private
            raise InvalidInputError(
                f"module must map {words} to logits of shape (batch, {n_classes}); on a batch of {size} it raised "
                f"{type(error).__name__}: {error}."
                + (why_rows_fail(module, rows.dtype) or " It must take batches of any size, one record's too.")
            ) from error
        if tuple(logits.shape) != (size, n_classes) or not logits.is_floating_point():
            raise InvalidInputError(
                f"module must map {words} to logits of shape (batch, {n_classes}), a batch of {size} gave "
                f"{tuple(logits.shape)} of {str(logits.dtype).removeprefix('torch.')}. Set its number of outputs, and "
                "have it keep the batch first, one record's too."
            )


def _check_apart(module: nn.Module, trial: Trial) -> None:
    kinds = trial.rows
    before = {name: value.detach().clone() for name, value in tensors_of(module)}
    draws = _draws(module, kinds[0][:1])
    for rows in kinds:
        alone = [_run(module, row[None])[0] for row in rows]
        for size in SIZES:
            batch = rows[:size]
            found = _run(module, batch)
            # Dropout draws for a whole batch: a row's numbers are not those that it draws alone.
            odd = [] if draws else [i for i in range(size) if not close(found[i], alone[i])]
            if odd:
                raise InvalidInputError(_MIXES.format(how=f"row {odd[0]} of {size} is not what it is alone"))
            for j in range(size if module.training else 0):
                changed = batch.clone()
                changed[j] = trial.another(rows)
                again = _run(module, changed)
                odd = [i for i in range(size) if i != j and not close(found[i], again[i])]
                if odd:
                    raise InvalidInputError(_MIXES.format(how=f"row {odd[0]} of {size} changed with row {j}"))
    kept = [name for name, value in tensors_of(module) if not torch.equal(value, before[name])]
    if kept or not all(close(_run(module, row[None])[0], was) for row, was in zip(rows, alone, strict=True)):
        what = (
            f"its buffers or parameters change: {', '.join(kept)}"
            if kept
            else "a row comes out differently the second time"
        )
        raise InvalidInputError(
            f"module keeps something from one call to the next ({what}), by which one record would reach others. "
            "Let its output follow from its parameters and its rows alone."
        )


def tensors_of(module: nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [*module.named_parameters(), *module.named_buffers()]  # asked again each time: they may be replaced


def _draws(module: nn.Module, rows: torch.Tensor) -> bool:
    """Whether the module draws random numbers."""
    with own_generator(0):
        before = torch.get_rng_state()
        with torch.no_grad():
            module(rows)
        return not torch.equal(before, torch.get_rng_state())
