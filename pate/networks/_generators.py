"""The global generators, held for one piece of training and given back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from pate.core.seeds import global_generators

#: torch's global generators belong to one training at a time, also where several run in threads of one process.
_GENERATORS = threading.RLock()


@contextmanager
def own_generator(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Seed the global generators of torch, NumPy and Python, and give them back as they were.

    What is trained shares no state: whoever draws from them would otherwise depend on how much those before it drew.
    """
    devices = [device] if device is not None and device.type == "cuda" else []
    with _GENERATORS, torch.random.fork_rng(devices=devices), global_generators(seed):
        # Not torch.manual_seed: it reseeds all devices, also those that are not given back.
        torch.default_generator.manual_seed(seed)
        for place in devices:
            with torch.cuda.device(place):
                torch.cuda.manual_seed(seed)
        if device is not None and device.type == "mps":
            torch.mps.manual_seed(seed)
        yield
