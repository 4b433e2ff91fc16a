"""What is loaded when first used, and from where: ``__init__.py`` reads this file, and so do type checkers."""

from .ballot_sum import BallotFacts as BallotFacts, BallotSum as BallotSum
from ._right import RightCounts as RightCounts, RightFacts as RightFacts, count_right as count_right
from .spaces import HardSpace as HardSpace, SignedSpace as SignedSpace, SoftSpace as SoftSpace, load_space as load_space
from ._voters import RecordVoters as RecordVoters
