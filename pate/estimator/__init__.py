"""The whole river as one scikit-learn classifier."""

from pate.estimator._classifier import PATEClassifier

__all__ = ["PATEClassifier"]
