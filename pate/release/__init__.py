"""The lock: terms, prices, plans, the one door, and what was released."""

from pate.release._ballot_release import BallotRelease, Decisions
from pate.release._ballot_session import BallotSession, open_ballot_session, release_ballots, stored_rounds
from pate.release._kept import session_left
from pate.release._labels import LabelRelease, ModelLabels, RecordLabels, ReleasedLabels
from pate.release._lock import release_labels
from pate.release._measured import (
    ReleasedCounts,
    check_measure,
    doubted,
    measured_accuracy,
    measured_shares,
    tell_doubts,
)
from pate.release._pipeline import (
    Asking,
    BatchPlan,
    Evidence,
    Outcome,
    Priced,
    cast_votes,
    plan_release,
)
from pate.release._quote import Quote, ReleaseTerms, affordable_answers, price_of, quote, warn_if_weak
from pate.release._rounds import share_rounds
from pate.release._sanitised import sanitised_epsilon
from pate.release._session import LabelSession, open_session, opened
from pate.release._statement import check_ballots_stated, check_release_stated
from pate.release._vote_cap import VoteCapRun, open_vote_cap
from pate.release._worth import (
    NOISE_PER_TEACHER,
    RECORDS_PER_TEACHER,
    check_enough,
    check_worth,
    default_heads,
    expected_of_votes,
    share_right,
)

__all__ = [
    "NOISE_PER_TEACHER",
    "RECORDS_PER_TEACHER",
    "Asking",
    "BallotRelease",
    "BallotSession",
    "BatchPlan",
    "Decisions",
    "Evidence",
    "LabelRelease",
    "LabelSession",
    "ModelLabels",
    "Outcome",
    "Priced",
    "Quote",
    "RecordLabels",
    "ReleaseTerms",
    "ReleasedCounts",
    "ReleasedLabels",
    "VoteCapRun",
    "affordable_answers",
    "cast_votes",
    "check_ballots_stated",
    "check_enough",
    "check_measure",
    "check_release_stated",
    "check_worth",
    "default_heads",
    "doubted",
    "expected_of_votes",
    "measured_accuracy",
    "measured_shares",
    "open_ballot_session",
    "open_session",
    "open_vote_cap",
    "opened",
    "plan_release",
    "price_of",
    "quote",
    "release_ballots",
    "release_labels",
    "sanitised_epsilon",
    "session_left",
    "share_right",
    "share_rounds",
    "stored_rounds",
    "tell_doubts",
    "warn_if_weak",
]
