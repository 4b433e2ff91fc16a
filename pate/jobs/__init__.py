"""Jobs from files to files: read private and public rows, release private labels, write labels and a model."""

from pate.jobs._choice import CHOICES as CHOICES
from pate.jobs._choice import OneRound as OneRound
from pate.jobs._choice import QueryChoice as QueryChoice
from pate.jobs._choice import Uncertain as Uncertain
from pate.jobs._choice import make_choice as make_choice
from pate.jobs._numbers import NumberJob
from pate.jobs._plan import BallotPlan as BallotPlan
from pate.jobs._plan import GradientPlan as GradientPlan
from pate.jobs._plan import LabelPlan as LabelPlan
from pate.jobs._plan import VotePlan as VotePlan
from pate.jobs._request import PREPROCESSING as PREPROCESSING
from pate.jobs._request import find_ledger as find_ledger
from pate.jobs._several import SeveralLabelsJob
from pate.jobs._tables import LabelJob
from pate.jobs._trained_numbers import NumberTrainingJob as NumberTrainingJob
from pate.jobs._writing import Predictions as Predictions
from pate.jobs._writing import check_new_files as check_new_files
from pate.jobs._writing import check_proba as check_proba
from pate.jobs._writing import predict_file
from pate.jobs._writing import read_public as read_public
from pate.jobs.vote_files import VoteJob

__all__ = [
    "LabelJob",
    "NumberJob",
    "SeveralLabelsJob",
    "VoteJob",
    "predict_file",
]
