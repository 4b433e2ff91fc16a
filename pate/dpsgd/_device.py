"""Where DP-SGD computes: its device, its threads, torch's generators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from pate.exceptions import InvalidInputError


def as_device(name: str) -> torch.device:
    """Return the device of a name; ``"auto"`` takes a CUDA device where there is one.

    Raises
    ------
    InvalidInputError

    Examples
    --------
    >>> as_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise InvalidInputError(f"device must be 'auto' or a torch device, got {name!r}.") from error
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise InvalidInputError(
                f"device={name!r} is not there: torch sees no CUDA device. Use device='cpu' or 'auto'."
            )
        # fork_rng and the seeding below need to know which one.
        return device if device.index is not None else torch.device("cuda", torch.cuda.current_device())
    return device


@contextmanager
def held_threads(number: int | None) -> Iterator[None]:
    """Hold torch to this many CPU threads, and give it back as it was."""
    before = torch.get_num_threads()
    try:
        if number is not None:
            torch.set_num_threads(number)
        yield
    finally:
        torch.set_num_threads(before)


def seed_torch(seed: int, device: torch.device) -> None:
    """Seed the generators that fork_rng gives back, and no other."""
    torch.random.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)
