"""What PATE is measured against: DP-SGD and its kin (needs torch)."""

from pate.dpsgd._augmentation import ImageAugmentation
from pate.dpsgd._averaging import ExponentialAveraging, TailAveraging
from pate.dpsgd._canaries import Canaries, CanaryScores
from pate.dpsgd._optimizers import DPAdamBC, LearningRateSchedule
from pate.dpsgd._run import TrainingStep
from pate.dpsgd.classifier import DPSGDClassifier

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
