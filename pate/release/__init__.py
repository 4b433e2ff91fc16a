"""Quote and release labels within a budget: terms, prices, plans, sessions, and the releases themselves.

Names that are imported here but are not in ``__all__`` are for the package's own modules.
"""

from pate.release._ballot_session import BallotSession, open_ballot_session, release_ballots
from pate.release._ballot_session import stored_rounds as stored_rounds
from pate.release._labels import BallotRelease, Decisions, LabelRelease, ModelLabels, RecordLabels, ReleasedLabels
from pate.release._measured import ReleasedCounts, measured_accuracy
from pate.release._measured import check_measure as check_measure
from pate.release._measured import doubted as doubted
from pate.release._measured import measured_shares as measured_shares
from pate.release._measured import tell_doubts as tell_doubts
from pate.release._pipeline import Asking as Asking
from pate.release._pipeline import BatchPlan as BatchPlan
from pate.release._pipeline import Evidence as Evidence
from pate.release._pipeline import Outcome as Outcome
from pate.release._pipeline import Priced as Priced
from pate.release._pipeline import cast_votes as cast_votes
from pate.release._pipeline import plan_release as plan_release
from pate.release._quote import NOISE_PER_TEACHER as NOISE_PER_TEACHER
from pate.release._quote import RECORDS_PER_TEACHER as RECORDS_PER_TEACHER
from pate.release._quote import Quote, ReleaseTerms, affordable_answers, check_useful, quote
from pate.release._quote import check_enough as check_enough
from pate.release._quote import default_heads as default_heads
from pate.release._quote import expected_of_votes as expected_of_votes
from pate.release._quote import price_of as price_of
from pate.release._quote import share_right as share_right
from pate.release._quote import share_rounds as share_rounds
from pate.release._quote import warn_if_weak as warn_if_weak
from pate.release._release_labels import release_labels, sanitised_epsilon
from pate.release._session import LabelSession, VoteCapRun, open_session, open_vote_cap
from pate.release._session import opened as opened
from pate.release._statement import check_ballots_stated as check_ballots_stated
from pate.release._statement import check_release_stated as check_release_stated
from pate.release._stored import session_left as session_left

__all__ = [
    "BallotRelease",
    "BallotSession",
    "Decisions",
    "LabelRelease",
    "LabelSession",
    "ModelLabels",
    "Quote",
    "RecordLabels",
    "ReleaseTerms",
    "ReleasedCounts",
    "ReleasedLabels",
    "VoteCapRun",
    "affordable_answers",
    "check_useful",
    "measured_accuracy",
    "open_ballot_session",
    "open_session",
    "open_vote_cap",
    "quote",
    "release_ballots",
    "release_labels",
    "sanitised_epsilon",
]
