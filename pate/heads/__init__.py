"""Heads: what released ballots and public rows say of any row, for nothing more."""

from pate.heads._linear import Head, LinearHead, load_head
from pate.heads._moments import ReleasedBallots
from pate.heads.least_squares import LeastSquaresHead
from pate.heads.likelihood import LikelihoodHead
from pate.heads.logistic import MomentLogisticHead
from pate.heads.self_trained import SelfTrainedHead

__all__ = ["Head", "LeastSquaresHead", "LikelihoodHead", "LinearHead", "MomentLogisticHead", "ReleasedBallots", "SelfTrainedHead", "load_head"]
