"""Record voters: every private record casts a ballot, a bounded vector made by maps fitted on public rows."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

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
