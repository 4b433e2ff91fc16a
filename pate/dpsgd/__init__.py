"""DP-SGD: train one torch model with noised, clipped gradients; the baseline for PATE (needs torch)."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "Canaries",
    "CanaryScores",
    "DPAdamBC",
    "DPSGDClassifier",
    "DPSGDRegressor",
    "Device",
    "ExponentialAveraging",
    "ImageAugmentation",
    "LearningRateSchedule",
    "Optimizer",
    "SampledGaussian",
    "TailAveraging",
    "TrainingStep",
]
