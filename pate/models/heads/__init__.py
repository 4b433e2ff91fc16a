"""Heads: what released ballots and public rows say of any row, for nothing more."""

from pate.models.heads._descent import DescentHead
from pate.models.heads._forest import ForestHead, SelfTrainedHead
from pate.models.heads._least_squares import LabelPropagationHead, LeastSquaresHead, residual_step
from pate.models.heads._likelihood import CorrectedHead, LikelihoodHead
from pate.models.heads._linear import Head, LinearHead, ReleasedBallots, load_head

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
