"""Label public rows with what teachers learnt from private ones: files in, files out."""

from pate.label_job._choice import CHOICES, OneRound, QueryChoice, Uncertain, make_choice
from pate.label_job._config import read_job_file
from pate.label_job._job import PREPROCESSING, LabelJob
from pate.label_job._ledgers import find_ledger
from pate.label_job._plan import LabelPlan
from pate.label_job._votes import VoteJob, VotePlan
from pate.label_job._writing import check_new_files

__all__ = [
    "CHOICES",
    "PREPROCESSING",
    "LabelJob",
    "LabelPlan",
    "OneRound",
    "QueryChoice",
    "Uncertain",
    "VoteJob",
    "VotePlan",
    "check_new_files",
    "find_ledger",
    "make_choice",
    "read_job_file",
]
