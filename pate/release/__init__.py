"""The lock: prices, the release itself, and what was released."""

from pate.release._assumptions import (
    check_release_stated,
    classes_were_named,
    drawn_here,
    vouch_for_training,
)
from pate.release._labels import LabelRelease
from pate.release._lock import release_labels
from pate.release._quote import Quote, count_fresh, quote, warn_if_weak
from pate.release._resume import session_left
from pate.release._session import LabelSession, open_session
from pate.release._vote_cap import VoteCapRun, open_vote_cap

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
