"""Private methods of other people's, at their best and under this package's promises, to compare with."""

from pate.rivals._neighbours import SampledNeighbours
from pate.rivals._stability import StabilityTest, distance_to_instability
from pate.rivals.private_knn import PrivateKNN
from pate.rivals.sparse_vector import SparseVectorPATE

__all__ = ["PrivateKNN", "SampledNeighbours", "SparseVectorPATE", "StabilityTest", "distance_to_instability"]
