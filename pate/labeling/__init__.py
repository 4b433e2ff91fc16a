"""The lock: prices, the release itself, and what was released."""

from pate.labeling._lock import release_labels
from pate.labeling._quote import Quote, count_fresh, quote, warn_if_weak
from pate.labeling._release import LabelRelease
from pate.labeling._vote_cap import VoteCapRun, open_vote_cap

__all__ = [
    "LabelRelease",
    "Quote",
    "VoteCapRun",
    "count_fresh",
    "open_vote_cap",
    "quote",
    "release_labels",
    "warn_if_weak",
]
