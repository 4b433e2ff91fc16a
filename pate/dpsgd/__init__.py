"""What PATE is measured against: DP-SGD (needs torch and Opacus)."""

from pate.dpsgd.classifier import DPSGDClassifier

__all__ = ["DPSGDClassifier"]
