"""Who takes part in a step of private training, which noise goes in, and what both cost."""

from pate.dpsgd.mechanisms._ftrl import BandedFTRL, TreeFTRL, banded_error, choose_bands
from pate.dpsgd.mechanisms._mechanism import (
    PoissonSGD,
    Shape,
    ShuffledSGD,
    TrainingMechanism,
    TruncatedPoissonSGD,
)

__all__ = [
    "BandedFTRL",
    "PoissonSGD",
    "Shape",
    "ShuffledSGD",
    "TrainingMechanism",
    "TreeFTRL",
    "TruncatedPoissonSGD",
    "banded_error",
    "choose_bands",
]
