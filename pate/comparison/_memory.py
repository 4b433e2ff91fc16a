"""The most memory that this process held since it was last asked to forget: of Linux, and of a CUDA device."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

_SELF = Path("/proc/self")
_MIB = 2**20


def forget_peak() -> bool:
    """Begin anew, and return whether the process's own peak will be known."""
    torch = _torch_on_cuda()
    if torch is not None:
        torch.cuda.reset_peak_memory_stats()
    try:
        (_SELF / "clear_refs").write_text("5")  # man 5 proc: resets the peak resident set size ("high water mark")
    except OSError:
        return False
    return True


def peak_mib(known: bool) -> tuple[float | None, float | None]:
    """Return the most MiB held since :func:`forget_peak`, by the process and on its CUDA device; None where unknown.

    Parameters
    ----------
    known : bool
        What :func:`forget_peak` returned.
    """
    here = None
    if known:
        with suppress(OSError, ValueError, StopIteration):
            line = next(line for line in (_SELF / "status").read_text().splitlines() if line.startswith("VmHWM:"))
            here = int(line.split()[1]) / 1024
    torch = _torch_on_cuda()
    return here, None if torch is None else torch.cuda.max_memory_allocated() / _MIB


def _torch_on_cuda() -> Any:
    """Return torch where something has imported it and put it to work on a CUDA device: nobody is made to load it."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and torch.cuda.is_initialized() else None
