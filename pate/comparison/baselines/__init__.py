"""Baselines: published private methods by other authors, as classifiers with exact accounting and statements."""

from pate.comparison.baselines._private_knn import PrivateKNN, SampledNeighbours
from pate.comparison.baselines._sparse_vector import SparseVectorPATE, StabilityTest, distance_to_instability

__all__ = [
    "PrivateKNN",
    "SampledNeighbours",
    "SparseVectorPATE",
    "StabilityTest",
    "distance_to_instability",
]
