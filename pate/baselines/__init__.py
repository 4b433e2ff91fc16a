"""What PATE is measured against: DP-SGD (needs torch and Opacus)."""

from pate.baselines.dpsgd import DPSGDClassifier

__all__ = ["DPSGDClassifier"]
