"""Record voters: every private record casts one bounded ballot in a space that public rows alone define."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pate.records.ballot_sum import BallotFacts, BallotSum

if TYPE_CHECKING:
    from pate.records.right import RightCounts as RightCounts
    from pate.records.right import RightFacts as RightFacts
    from pate.records.right import count_right as count_right
    from pate.records.spaces import HardSpace as HardSpace
    from pate.records.spaces import SignedSpace as SignedSpace
    from pate.records.spaces import SoftSpace as SoftSpace
    from pate.records.spaces import load_space as load_space
    from pate.records.voters import RecordVoters as RecordVoters

_LAZY = {  # they need scikit-learn, whose import takes a second
    "HardSpace": "pate.records.spaces",
    "RecordVoters": "pate.records.voters",
    "RightCounts": "pate.records.right",
    "RightFacts": "pate.records.right",
    "SignedSpace": "pate.records.spaces",
    "SoftSpace": "pate.records.spaces",
    "count_right": "pate.records.right",
    "load_space": "pate.records.spaces",
}

__all__ = [
    "BallotFacts",
    "BallotSum",
    "HardSpace",
    "RecordVoters",
    "RightCounts",
    "RightFacts",
    "SignedSpace",
    "SoftSpace",
    "count_right",
    "load_space",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
