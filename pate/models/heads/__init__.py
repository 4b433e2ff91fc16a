"""Heads: classifiers fitted on released ballots and public rows, at no further privacy cost."""

from pate.models.heads._descent import DescentHead
from pate.models.heads._forest import ForestHead, SelfTrainedHead
from pate.models.heads._least_squares import LabelPropagationHead, LeastSquaresHead, residual_step
from pate.models.heads._likelihood import CorrectedHead as CorrectedHead
from pate.models.heads._likelihood import LikelihoodHead
from pate.models.heads._linear import Head, LinearHead, load_head
from pate.models.heads._linear import ReleasedBallots as ReleasedBallots

#: The names for users; what is imported ``as`` itself is for pate's other packages.
__all__ = [
    "DescentHead",
    "ForestHead",
    "Head",
    "LabelPropagationHead",
    "LeastSquaresHead",
    "LikelihoodHead",
    "LinearHead",
    "SelfTrainedHead",
    "load_head",
    "residual_step",
]
