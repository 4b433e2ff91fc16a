"""A scikit-learn classifier that learns from private data under a budget, plans before it, and private selection."""

from pate.estimators._classifier import PATEClassifier

__all__ = ["PATEClassifier"]
