"""A training step recorded once as a CUDA graph and replayed, where that is possible, exact and faster."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

#: One step of a group: (rows, labels, weight, active) -> nothing; changes the optimiser's state in place.
GroupStep = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], None]

_WARM_UP, _TIMED = 3, 5


def make_stepper(
    step: GroupStep, state: list[torch.Tensor], trial: tuple[torch.Tensor, ...], device: torch.device
) -> GroupStep:
    """Return ``step``, or on a CUDA device its recorded form if it does exactly the same, and faster.

    Parameters
    ----------
    step : callable
    state : list of tensors
        Everything that a step changes.
    trial : tuple of tensors
        A batch of rows that are nobody's: what is chosen must not hang on any shard.
    device : torch.device
    """
    if device.type != "cuda":
        return step
    return Graphed(step, state, device).choose(trial)


class Graphed:
    """Decides once, on a batch like those to come; the state is put back after every trial."""

    def __init__(self, step: GroupStep, state: list[torch.Tensor], device: torch.device) -> None:
        self._eager, self._state, self._device = step, state, device

    def choose(self, batch: tuple[torch.Tensor, ...]) -> GroupStep:
        """Return the step to take."""
        before = [t.clone() for t in self._state]

        def restore() -> None:
            for tensor, value in zip(self._state, before, strict=True):
                tensor.copy_(value)

        try:
            recorded = self._record(batch)
            restore()
            self._eager(*batch)
            expected = [t.clone() for t in self._state]
            restore()
            recorded(*batch)
            same = all(
                torch.allclose(found, value, rtol=1e-4, atol=1e-6, equal_nan=True)
                for found, value in zip(self._state, expected, strict=True)
            )
            faster = same and self._seconds(recorded, batch) < self._seconds(self._eager, batch)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # an operation that cannot be recorded
            faster = False
        restore()
        return recorded if faster else self._eager

    def _record(self, batch: tuple[torch.Tensor, ...]) -> GroupStep:
        fixed = tuple(t.contiguous().clone() for t in batch)
        side = torch.cuda.Stream(self._device)
        side.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP):
                self._eager(*fixed)
        torch.cuda.current_stream(self._device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._eager(*fixed)

        def replay(*given: torch.Tensor) -> None:
            for place, tensor in zip(fixed, given, strict=True):
                place.copy_(tensor)
            graph.replay()

        return replay

    def _seconds(self, step: GroupStep, batch: tuple[torch.Tensor, ...]) -> float:
        torch.cuda.synchronize(self._device)
        start = time.perf_counter()
        for _ in range(_TIMED):
            step(*batch)
        torch.cuda.synchronize(self._device)
        return time.perf_counter() - start
