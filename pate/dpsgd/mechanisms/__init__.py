"""Training mechanisms of DP-SGD: how records are sampled, which noise is added, and what both cost."""

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
