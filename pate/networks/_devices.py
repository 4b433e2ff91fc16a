"""Which devices there are, and how many threads torch takes on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from pate.exceptions import InvalidInputError


def visible_devices(device: Any) -> list[torch.device]:
    """Return the devices that ``device`` stands for, in this process.

    Parameters
    ----------
    device : str or torch.device
        ``"auto"`` is every CUDA device, else MPS, else the CPU; ``"cuda"`` is every CUDA device.

    Raises
    ------
    InvalidInputError
        There is no such device here.
    """
    cuda = [torch.device("cuda", i) for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    mps = [torch.device("mps")] if torch.backends.mps.is_available() else []
    if device == "auto":
        return cuda or mps or [torch.device("cpu")]
    wanted = named_device(device)
    if wanted.type == "cpu":
        return [torch.device("cpu")]
    found = cuda if wanted.type == "cuda" else mps
    if wanted.index is not None:
        found = [d for d in found if (d.index or 0) == wanted.index]
    if not found:
        raise InvalidInputError(
            f"device={device!r} is not there: torch sees {len(cuda)} CUDA and {len(mps)} MPS devices. Use 'auto'."
        )
    return found


def named_device(device: Any) -> torch.device:
    """Return a device by its name, whether or not this process has it."""
    try:
        wanted = torch.device(device)
    except (RuntimeError, TypeError):
        wanted = None
    if wanted is None or wanted.type not in ("cpu", "cuda", "mps"):
        raise InvalidInputError(
            f"device must be 'auto', 'cpu', 'cuda', 'cuda:N' or 'mps', got {device!r}. 'auto' takes what there is."
        )
    return wanted


def one_device(device: Any) -> torch.device:
    """Return the one device of a training that sums in float64: torch's current CUDA device where there is a choice.

    Raises
    ------
    InvalidInputError
        There is no such device here, or it has no float64.
    """
    found = visible_devices(device)
    if found[0].type == "mps":
        if device == "auto":
            return torch.device("cpu")
        raise InvalidInputError(f"device={device!r} has no float64, which is needed here. Use device='cpu' or 'auto'.")
    return found[torch.cuda.current_device()] if len(found) > 1 else found[0]


@contextmanager
def held_threads(number: int | None) -> Iterator[None]:
    """Hold torch to this many CPU threads, and give it back as it was; None leaves it."""
    before = torch.get_num_threads()
    try:
        if number is not None:
            torch.set_num_threads(number)
        yield
    finally:
        torch.set_num_threads(before)


def has_bf16(device: torch.device) -> bool:
    """Whether bf16 is faster here: a fact of the machine."""
    if device.type == "cpu":
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported() and torch.cpu.get_capabilities().get("avx512_bf16"))
    return device.type == "cuda" and bool(torch.cuda.is_bf16_supported())
