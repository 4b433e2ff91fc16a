"""Heads: what released ballots and public rows say of any row, for nothing more."""

from pate.models.heads._linear import Head, LinearHead, ReleasedBallots, load_head
from pate.models.heads.descent import DescentHead
from pate.models.heads.forest import ForestHead, SelfTrainedHead
from pate.models.heads.least_squares import LabelPropagationHead, LeastSquaresHead, residual_step
from pate.models.heads.likelihood import CorrectedHead, LikelihoodHead

__all__ = [
    "CorrectedHead",
    "DescentHead",
    "ForestHead",
    "Head",
    "LabelPropagationHead",
    "LeastSquaresHead",
    "LikelihoodHead",
    "LinearHead",
    "ReleasedBallots",
    "SelfTrainedHead",
    "load_head",
    "residual_step",
]
