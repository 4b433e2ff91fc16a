"""Which teachers are trained as one group, and on how many GPUs: public, and settled before any shard is looked at."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from pate.core.checks import check_int
from pate.teachers._rows import slices

#: Most teachers in one group where nothing else is said; beyond some hundreds a step is all arithmetic.
_LARGEST_GROUP = 256


@dataclass(frozen=True)
class Places:
    """The places of teachers.

    Attributes
    ----------
    n_teachers : int
    group_size : int
    n_gpus : int
        0 on the CPU.
    """

    n_teachers: int
    group_size: int
    n_gpus: int

    def groups(self, waiting: Collection[int]) -> Iterator[list[int]]:
        """Yield the groups that somebody waiting is in; a group is the same teachers whoever is waiting."""
        everybody = range(self.n_teachers)
        groups = (list(everybody[part]) for part in slices(self.n_teachers, self.group_size))
        return (group for group in groups if not set(group).isdisjoint(waiting))

    def group_of(self, index: int) -> list[int]:
        """Return the teachers of the group that ``index`` has its place in."""
        start = index - index % self.group_size
        return list(range(start, min(start + self.group_size, self.n_teachers)))


def group_size_on(device: torch.device, group_size: Any, n_teachers: int, n_devices: int) -> int:
    """Return how many teachers are trained as one group.

    On a CPU one after the other is as fast, and lean; on a GPU as many as there are, up to some hundreds.
    """
    if group_size != "auto":
        return check_int("group_size", group_size, low=1, remedy="'auto' chooses by the device.")
    if device.type == "cpu":
        return 1
    return max(1, min(_LARGEST_GROUP, -(-n_teachers // n_devices)))
