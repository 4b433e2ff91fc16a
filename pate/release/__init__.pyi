"""What is loaded when first used, and from where: ``__init__.py`` reads this file, and so do type checkers."""

from ._ballot_session import (
    BallotSession as BallotSession,
    PaidCounts as PaidCounts,
    PricedRounds as PricedRounds,
    message_of_counts as message_of_counts,
    open_ballot_session as open_ballot_session,
    open_on_terms as open_on_terms,
    release_ballots as release_ballots,
    stored_rounds as stored_rounds,
)
from ._interactive import (
    InteractiveRelease as InteractiveRelease,
    label_interactively as label_interactively,
)
from ._labels import (
    BallotRelease as BallotRelease,
    VectorRelease as VectorRelease,
    Decisions as Decisions,
    LabelRelease as LabelRelease,
    ModelLabels as ModelLabels,
    RecordLabels as RecordLabels,
    ReleasedLabels as ReleasedLabels,
)
from ._measured import (
    ReleasedCounts as ReleasedCounts,
    SHARE as SHARE,
    check_measure as check_measure,
    doubted as doubted,
    doubt_named as doubt_named,
    measured_accuracy as measured_accuracy,
    measured_shares as measured_shares,
    warn_of_doubts as warn_of_doubts,
    warn_of_student as warn_of_student,
)
from ._pipeline import (
    Asking as Asking,
    BatchPlan as BatchPlan,
    Evidence as Evidence,
    Outcome as Outcome,
    Priced as Priced,
    cast_votes as cast_votes,
    plan_release as plan_release,
    with_affordable_counts as with_affordable_counts,
)
from ._quote import (
    NOISE_PER_TEACHER as NOISE_PER_TEACHER,
    ON_EXHAUSTED as ON_EXHAUSTED,
    Quote as Quote,
    RECORDS_PER_TEACHER as RECORDS_PER_TEACHER,
    ReleaseTerms as ReleaseTerms,
    affordable_answers as affordable_answers,
    buy_rounds as buy_rounds,
    check_enough as check_enough,
    check_useful as check_useful,
    counted as counted,
    default_heads as default_heads,
    expected_of_votes as expected_of_votes,
    price_of as price_of,
    quote as quote,
    share_right as share_right,
    share_rounds as share_rounds,
    sum_of_rounds as sum_of_rounds,
    warn_if_weak as warn_if_weak,
)
from ._label_votes import (
    NONE as NONE,
    clipped_votes as clipped_votes,
    label_votes as label_votes,
    labels_of as labels_of,
)
from ._release_labels import release_labels as release_labels, sanitised_epsilon as sanitised_epsilon
from ._session import (
    LabelSession as LabelSession,
    VoteCapRun as VoteCapRun,
    open_session as open_session,
    open_vote_cap as open_vote_cap,
    opened as opened,
)
from ._statement import (
    KNOWN_SHARDS as KNOWN_SHARDS,
    ballot_assumptions as ballot_assumptions,
    check_ballots_stated as check_ballots_stated,
    check_release_stated as check_release_stated,
    make_assumptions as make_assumptions,
    tier_guarantees as tier_guarantees,
    vouch_for_training as vouch_for_training,
    with_public_rows as with_public_rows,
)
from ._shares import (
    ShareSession as ShareSession,
    buy_labels as buy_labels,
    buy_shares as buy_shares,
    open_shares as open_shares,
    site_ledger as site_ledger,
)
from ._shares_statement import (
    FederationFacts as FederationFacts,
    federation_statement as federation_statement,
    viewer_guarantees as viewer_guarantees,
)
from ._stored import session_left as session_left
from ._transaction import PaidBallots as PaidBallots
