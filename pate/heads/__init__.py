"""Heads: what released ballots and public rows say of any row, for nothing more."""

from pate.heads._linear import Head, LinearHead, load_head
from pate.heads._moments import ReleasedBallots
from pate.heads.least_squares import LeastSquaresHead
from pate.heads.logistic import MomentLogisticHead
from pate.heads.residual import residual_step

__all__ = [
    "Head",
    "LeastSquaresHead",
    "LinearHead",
    "MomentLogisticHead",
    "ReleasedBallots",
    "load_head",
    "residual_step",
]
