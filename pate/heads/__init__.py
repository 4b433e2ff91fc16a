"""Heads: what released ballots and public rows say of any row, for nothing more."""

from pate.heads._linear import Head, LinearHead, ReleasedBallots, load_head
from pate.heads.descent import DescentHead
from pate.heads.forest import ForestHead, SelfTrainedHead
from pate.heads.least_squares import LabelPropagationHead, LeastSquaresHead, residual_step
from pate.heads.likelihood import CorrectedHead, LikelihoodHead

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
