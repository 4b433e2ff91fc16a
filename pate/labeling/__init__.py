"""The lock: prices, the release itself, and what was released."""

from pate.labeling._assumptions import (
    check_release_stated,
    classes_were_named,
    drawn_here,
    vouch_for_training,
)
from pate.labeling._lock import release_labels
from pate.labeling._quote import Quote, count_fresh, quote, warn_if_weak
from pate.labeling._release import LabelRelease
from pate.labeling._resume import session_left
from pate.labeling._session import LabelSession, open_session
from pate.labeling._vote_cap import VoteCapRun, open_vote_cap

__all__ = [
    "LabelRelease",
    "LabelSession",
    "Quote",
    "VoteCapRun",
    "check_release_stated",
    "classes_were_named",
    "count_fresh",
    "drawn_here",
    "open_session",
    "open_vote_cap",
    "quote",
    "release_labels",
    "session_left",
    "vouch_for_training",
    "warn_if_weak",
]
