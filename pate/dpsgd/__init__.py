"""DP-SGD: train one torch model with noised, clipped gradients; the baseline for PATE (needs torch)."""

from pate.dpsgd._canaries import Canaries, CanaryScores
from pate.dpsgd._classifier import DPSGDClassifier
from pate.dpsgd._optimizers import DPAdamBC, ExponentialAveraging, LearningRateSchedule, TailAveraging
from pate.dpsgd._run import TrainingStep
from pate.dpsgd._units import ImageAugmentation

__all__ = [
    "Canaries",
    "CanaryScores",
    "DPAdamBC",
    "DPSGDClassifier",
    "ExponentialAveraging",
    "ImageAugmentation",
    "LearningRateSchedule",
    "TailAveraging",
    "TrainingStep",
]
