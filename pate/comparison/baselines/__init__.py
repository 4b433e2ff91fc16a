"""Private methods of other people's, at their best and under this package's promises, to compare with."""

from pate.comparison.baselines._private_knn import PrivateKNN, SampledNeighbours
from pate.comparison.baselines._sparse_vector import SparseVectorPATE, StabilityTest, distance_to_instability

__all__ = ["PrivateKNN", "SampledNeighbours", "SparseVectorPATE", "StabilityTest", "distance_to_instability"]
