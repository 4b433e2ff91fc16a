"""Which devices there are, and how many teachers go side by side on one."""

from __future__ import annotations

from typing import Any

import torch

from pate.core.checks import check_int
from pate.exceptions import InvalidInputError

#: Most teachers in one group where nothing else is said; beyond some hundreds a step is all arithmetic.
_LARGEST_GROUP = 256


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

    Examples
    --------
    >>> visible_devices("cpu")
    [device(type='cpu')]
    >>> visible_devices("abacus")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: device must be 'auto', 'cpu', 'cuda', 'cuda:N' or 'mps', got 'abacus'. ...
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
    """Return a device by its name, whether or not this process has it.

    Examples
    --------
    >>> named_device("cuda:1")
    device(type='cuda', index=1)
    """
    try:
        wanted = torch.device(device)
    except (RuntimeError, TypeError):
        wanted = None
    if wanted is None or wanted.type not in ("cpu", "cuda", "mps"):
        raise InvalidInputError(
            f"device must be 'auto', 'cpu', 'cuda', 'cuda:N' or 'mps', got {device!r}. 'auto' takes what there is."
        )
    return wanted


def group_size_on(device: torch.device, group_size: Any, n_teachers: int, n_devices: int) -> int:
    """Return how many teachers are trained as one group.

    On a CPU one after the other is as fast, and lean; on a GPU as many as there are, up to some hundreds.

    Examples
    --------
    >>> group_size_on(torch.device("cpu"), "auto", 250, 1), group_size_on(torch.device("cuda"), "auto", 250, 2)
    (1, 125)
    """
    if group_size != "auto":
        return check_int("group_size", group_size, low=1, remedy="'auto' chooses by the device.")
    if device.type == "cpu":
        return 1
    return max(1, min(_LARGEST_GROUP, -(-n_teachers // n_devices)))
