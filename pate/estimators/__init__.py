"""The whole river as one scikit-learn classifier."""

from pate.estimators._classifier import PATEClassifier

__all__ = ["PATEClassifier"]
