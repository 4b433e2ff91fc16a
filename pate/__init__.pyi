"""What is loaded when first used, and from where: ``__init__.py`` reads this file, and so do type checkers."""

from . import representations as representations
from .comparison._report import ComparisonReport as ComparisonReport
from .comparison.run import compare as compare
from .data import (
    Dataset as Dataset,
    Partition as Partition,
    TableEncoder as TableEncoder,
    load_dataset as load_dataset,
    partition as partition,
    read_table as read_table,
)
from .dpsgd import DPSGDClassifier as DPSGDClassifier, DPSGDRegressor as DPSGDRegressor
from .estimators import (
    PATEClassifier as PATEClassifier,
    PATEMultilabelClassifier as PATEMultilabelClassifier,
    PATERegressor as PATERegressor,
    Queries as Queries,
)
from .exceptions import (
    BudgetExceededError as BudgetExceededError,
    InvalidInputError as InvalidInputError,
    PateError as PateError,
    PrivacyLeakWarning as PrivacyLeakWarning,
    SensitiveValueError as SensitiveValueError,
)
from .ledger import Ledger as Ledger
from .mechanisms import (
    ConfidentGNMax as ConfidentGNMax,
    GNMax as GNMax,
    GaussianSum as GaussianSum,
    LNMax as LNMax,
    NoisyBallots as NoisyBallots,
    NoisyHistogram as NoisyHistogram,
    VoteCap as VoteCap,
)
from .privacy.budget import Budget as Budget
from .privacy.compose.calibrate import calibrate as calibrate
from .privacy.compose._filters import Accountant as Accountant, GDPFilter as GDPFilter, RenyiFilter as RenyiFilter
from .privacy.cost import Charge as Charge
from .privacy.words import Guarantee as Guarantee, Sensitive as Sensitive
from .records import RecordVoters as RecordVoters
from .release import (
    BallotRelease as BallotRelease,
    LabelRelease as LabelRelease,
    LabelSession as LabelSession,
    open_ballot_session as open_ballot_session,
    open_session as open_session,
    open_vote_cap as open_vote_cap,
    quote as quote,
    release_ballots as release_ballots,
    release_labels as release_labels,
)
from .estimators.selection import private_select as private_select
from .release.statement.files import render_statement as render_statement
from .release.statement.fields import MeasuredAccuracy as MeasuredAccuracy
from .release.statement.model import PrivacyStatement as PrivacyStatement
from .release.account import PrivacyReport as PrivacyReport, account as account
from .estimators.plan import Plan as Plan, plan as plan
from .comparison.studies.run import run_experiment as run_experiment
from .teachers import (
    CallableTeachers as CallableTeachers,
    CoordinatedVoter as CoordinatedVoter,
    HeadTeacherEnsemble as HeadTeacherEnsemble,
    TeacherEnsemble as TeacherEnsemble,
)
from .teachers.torch import TorchTeacherEnsemble as TorchTeacherEnsemble
from .votes import ABSTAIN as ABSTAIN, Voter as Voter, Votes as Votes

__version__: str
