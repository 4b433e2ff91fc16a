"""Quote and release labels within a budget: terms, prices, plans, sessions, and the releases themselves.

Names that are imported here but are not in ``__all__`` are for the package's own modules.
"""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

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
    "ReleasedLabels",
    "VoteCapRun",
    "measured_accuracy",
    "open_ballot_session",
    "open_session",
    "open_vote_cap",
    "quote",
    "release_ballots",
    "release_labels",
]
