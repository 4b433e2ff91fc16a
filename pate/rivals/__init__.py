"""Private methods of other people's, at their best and under this package's promises, to compare with."""

from pate.rivals.private_knn import PrivateKNN, SampledNeighbours
from pate.rivals.sparse_vector import SparseVectorPATE, StabilityTest, distance_to_instability

__all__ = ["PrivateKNN", "SampledNeighbours", "SparseVectorPATE", "StabilityTest", "distance_to_instability"]
