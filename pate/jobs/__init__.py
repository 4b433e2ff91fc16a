"""Jobs from files to files: read private and public rows, release private labels, write labels and a model."""

from pate.jobs._choice import CHOICES as CHOICES
from pate.jobs._choice import OneRound as OneRound
from pate.jobs._choice import QueryChoice as QueryChoice
from pate.jobs._choice import Uncertain as Uncertain
from pate.jobs._choice import make_choice as make_choice
from pate.jobs._numbers import NumberJob
from pate.jobs._plan import BallotPlan as BallotPlan
from pate.jobs._plan import GradientPlan as GradientPlan
from pate.jobs._plan import JobPlan as JobPlan
from pate.jobs._plan import LabelPlan as LabelPlan
from pate.jobs._plan import VotePlan as VotePlan
from pate.jobs._reading import as_classes as as_classes
from pate.jobs._reading import in_planes as in_planes
from pate.jobs._reading import read_public_alone as read_public_alone
from pate.jobs._request import PREPROCESSING as PREPROCESSING
from pate.jobs._request import check_id as check_id
from pate.jobs._request import find_ledger as find_ledger
from pate.jobs._several import SeveralLabelsJob
from pate.jobs._student import Learnt as Learnt
from pate.jobs._student import LeavesModel as LeavesModel
from pate.jobs._student import Pupil as Pupil
from pate.jobs._student import input_spec_of as input_spec_of
from pate.jobs._tables import LabelJob
from pate.jobs._trained_numbers import NumberTrainingJob as NumberTrainingJob
from pate.jobs._writing import Predictions as Predictions
from pate.jobs._writing import check_new_files as check_new_files
from pate.jobs._writing import check_proba as check_proba
from pate.jobs._writing import columns_like as columns_like
from pate.jobs._writing import predict_file
from pate.jobs._writing import read_public as read_public
from pate.jobs._writing import table_like as table_like
from pate.jobs.vote_files import VoteJob

__all__ = [
    "LabelJob",
    "NumberJob",
    "SeveralLabelsJob",
    "VoteJob",
    "predict_file",
]
