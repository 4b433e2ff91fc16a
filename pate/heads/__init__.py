"""Heads: what released ballots and public rows say of any row, for nothing more."""

from pate.heads._linear import Head, LinearHead, load_head
from pate.heads._moments import ReleasedBallots
from pate.heads.descent import DescentHead
from pate.heads.forest import ForestHead
from pate.heads.least_squares import LeastSquaresHead
from pate.heads.likelihood import CorrectedHead, LikelihoodHead
from pate.heads.logistic import MomentLogisticHead
from pate.heads.propagation import LabelPropagationHead
from pate.heads.residual import residual_step
from pate.heads.self_trained import SelfTrainedHead
from pate.heads.targets import TargetsStudent, noise_aware_targets

__all__ = [
    "CorrectedHead",
    "DescentHead",
    "ForestHead",
    "Head",
    "LabelPropagationHead",
    "LeastSquaresHead",
    "LikelihoodHead",
    "LinearHead",
    "MomentLogisticHead",
    "ReleasedBallots",
    "SelfTrainedHead",
    "TargetsStudent",
    "load_head",
    "noise_aware_targets",
    "residual_step",
]
