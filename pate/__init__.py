"""PATE: learn from private data by asking an ensemble of teachers, and know exactly what it cost.

Public names are loaded when first used, so that ``import pate`` stays light.

Examples
--------
>>> import pate
>>> pate.GNMax(sigma=40.0)
GNMax(sigma=40.0)
"""

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

__version__ = metadata.version("pate")

_HOME = {
    "ABSTAIN": "pate.votes",
    "Accountant": "pate.privacy.compose.filters",
    "BallotRelease": "pate.release",
    "Budget": "pate.privacy.budget",
    "BudgetExceededError": "pate.exceptions",
    "CallableTeachers": "pate.teachers",
    "Charge": "pate.privacy.cost",
    "ComparisonReport": "pate.comparison.report",
    "ConfidentGNMax": "pate.mechanisms",
    "DPSGDClassifier": "pate.dpsgd",
    "Dataset": "pate.data",
    "GDPFilter": "pate.privacy.compose.filters",
    "GNMax": "pate.mechanisms",
    "GaussianSum": "pate.mechanisms",
    "Guarantee": "pate.privacy.words",
    "HeadTeacherEnsemble": "pate.teachers",
    "InvalidInputError": "pate.exceptions",
    "LNMax": "pate.mechanisms",
    "LabelRelease": "pate.release",
    "LabelSession": "pate.release",
    "Ledger": "pate.ledger",
    "MeasuredAccuracy": "pate.statement.fields",
    "NoisyHistogram": "pate.mechanisms",
    "PATEClassifier": "pate.estimator",
    "Partition": "pate.data",
    "Plan": "pate.studies.plan",
    "PateError": "pate.exceptions",
    "PrivacyLeakWarning": "pate.exceptions",
    "PrivacyReport": "pate.studies.account",
    "PrivacyStatement": "pate.statement.model",
    "RecordVoters": "pate.records",
    "RenyiFilter": "pate.privacy.compose.filters",
    "Sensitive": "pate.privacy.words",
    "SensitiveValueError": "pate.exceptions",
    "TableEncoder": "pate.data",
    "TeacherEnsemble": "pate.teachers",
    "TorchTeacherEnsemble": "pate.teachers.torch",
    "VoteCap": "pate.mechanisms",
    "Voter": "pate.votes",
    "Votes": "pate.votes",
    "account": "pate.studies.account",
    "calibrate": "pate.privacy.compose.calibrate",
    "compare": "pate.comparison.run",
    "load_dataset": "pate.data",
    "open_ballot_session": "pate.release",
    "open_session": "pate.release",
    "open_vote_cap": "pate.release",
    "partition": "pate.data",
    "plan": "pate.studies.plan",
    "private_select": "pate.selection",
    "quote": "pate.release",
    "read_table": "pate.data",
    "release_ballots": "pate.release",
    "release_labels": "pate.release",
    "render_statement": "pate.statement.files",
    "run_experiment": "pate.studies.run",
}

__all__ = [*sorted(_HOME), "__version__"]

if TYPE_CHECKING:
    from pate.comparison.report import ComparisonReport
    from pate.comparison.run import compare
    from pate.data import Dataset, Partition, TableEncoder, load_dataset, partition, read_table
    from pate.dpsgd import DPSGDClassifier
    from pate.estimator import PATEClassifier
    from pate.exceptions import (
        BudgetExceededError,
        InvalidInputError,
        PateError,
        PrivacyLeakWarning,
        SensitiveValueError,
    )
    from pate.ledger import Ledger
    from pate.mechanisms import ConfidentGNMax, GaussianSum, GNMax, LNMax, NoisyHistogram, VoteCap
    from pate.privacy.budget import Budget
    from pate.privacy.compose.calibrate import calibrate
    from pate.privacy.compose.filters import Accountant, GDPFilter, RenyiFilter
    from pate.privacy.cost import Charge
    from pate.privacy.words import Guarantee, Sensitive
    from pate.records import RecordVoters
    from pate.release import (
        BallotRelease,
        LabelRelease,
        LabelSession,
        open_ballot_session,
        open_session,
        open_vote_cap,
        quote,
        release_ballots,
        release_labels,
    )
    from pate.selection import private_select
    from pate.statement.fields import MeasuredAccuracy
    from pate.statement.files import render_statement
    from pate.statement.model import PrivacyStatement
    from pate.studies.account import PrivacyReport, account
    from pate.studies.plan import Plan, plan
    from pate.studies.run import run_experiment
    from pate.teachers import CallableTeachers, HeadTeacherEnsemble, TeacherEnsemble
    from pate.teachers.torch import TorchTeacherEnsemble
    from pate.votes import ABSTAIN, Voter, Votes


def __getattr__(name: str) -> Any:
    if name == "representations":  # a room of its own: its names are taken from it
        return import_module("pate.representations")
    if name not in _HOME:
        raise AttributeError(f"module 'pate' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
