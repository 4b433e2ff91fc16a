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
    "Accountant": "pate.privacy.composition",
    "Budget": "pate.privacy.budget",
    "BudgetExceededError": "pate.exceptions",
    "CallableTeachers": "pate.teachers",
    "Charge": "pate.privacy.charge",
    "ComparisonReport": "pate.comparison",
    "ConfidentGNMax": "pate.mechanisms",
    "DPSGDClassifier": "pate.baselines",
    "Dataset": "pate.data",
    "GDPFilter": "pate.privacy.filters",
    "GNMax": "pate.mechanisms",
    "Guarantee": "pate.privacy.guarantee",
    "InvalidInputError": "pate.exceptions",
    "LNMax": "pate.mechanisms",
    "LabelRelease": "pate.labeling",
    "LabelSession": "pate.labeling",
    "Ledger": "pate.privacy.ledger",
    "NoisyHistogram": "pate.mechanisms",
    "PATEClassifier": "pate.estimator",
    "Partition": "pate.data",
    "Plan": "pate.planning",
    "PateError": "pate.exceptions",
    "PrivacyLeakWarning": "pate.exceptions",
    "PrivacyReport": "pate.accounting",
    "PrivacyStatement": "pate.privacy.statement",
    "RenyiFilter": "pate.privacy.filters",
    "Sensitive": "pate.privacy.guarantee",
    "SensitiveValueError": "pate.exceptions",
    "TableEncoder": "pate.data",
    "TeacherEnsemble": "pate.teachers",
    "TorchTeacherEnsemble": "pate.teachers.torch",
    "VoteCap": "pate.mechanisms",
    "Voter": "pate.votes",
    "Votes": "pate.votes",
    "account": "pate.accounting",
    "calibrate": "pate.privacy.calibration",
    "compare": "pate.comparison",
    "load_dataset": "pate.data",
    "open_session": "pate.labeling",
    "open_vote_cap": "pate.labeling",
    "partition": "pate.data",
    "plan": "pate.planning",
    "quote": "pate.labeling",
    "read_table": "pate.data",
    "release_labels": "pate.labeling",
    "render_statement": "pate.statement_page",
    "run_experiment": "pate.runs",
}

__all__ = [*sorted(_HOME), "__version__"]

if TYPE_CHECKING:
    from pate.accounting import PrivacyReport, account
    from pate.baselines import DPSGDClassifier
    from pate.comparison import ComparisonReport, compare
    from pate.data import Dataset, Partition, TableEncoder, load_dataset, partition, read_table
    from pate.estimator import PATEClassifier
    from pate.exceptions import (
        BudgetExceededError,
        InvalidInputError,
        PateError,
        PrivacyLeakWarning,
        SensitiveValueError,
    )
    from pate.labeling import LabelRelease, LabelSession, open_session, open_vote_cap, quote, release_labels
    from pate.mechanisms import ConfidentGNMax, GNMax, LNMax, NoisyHistogram, VoteCap
    from pate.planning import Plan, plan
    from pate.privacy.budget import Budget
    from pate.privacy.calibration import calibrate
    from pate.privacy.charge import Charge
    from pate.privacy.composition import Accountant
    from pate.privacy.filters import GDPFilter, RenyiFilter
    from pate.privacy.guarantee import Guarantee, Sensitive
    from pate.privacy.ledger import Ledger
    from pate.privacy.statement import PrivacyStatement
    from pate.runs import run_experiment
    from pate.statement_page import render_statement
    from pate.teachers import CallableTeachers, TeacherEnsemble
    from pate.teachers.torch import TorchTeacherEnsemble
    from pate.votes import ABSTAIN, Voter, Votes


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'pate' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
