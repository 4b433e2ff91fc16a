"""Jobs from files to files: read private and public rows, release private labels, write labels and a model."""

from pate.jobs._choice import CHOICES, OneRound, QueryChoice, Uncertain, make_choice
from pate.jobs._plan import BallotPlan, GradientPlan, LabelPlan, VotePlan
from pate.jobs._request import PREPROCESSING, find_ledger
from pate.jobs._tables import LabelJob
from pate.jobs._writing import Predictions, check_new_files, check_proba, predict_file, read_public
from pate.jobs.vote_files import VoteJob

__all__ = [
    "CHOICES",
    "PREPROCESSING",
    "BallotPlan",
    "GradientPlan",
    "LabelJob",
    "LabelPlan",
    "OneRound",
    "Predictions",
    "QueryChoice",
    "Uncertain",
    "VoteJob",
    "VotePlan",
    "check_new_files",
    "check_proba",
    "find_ledger",
    "make_choice",
    "predict_file",
    "read_public",
]
