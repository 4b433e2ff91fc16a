"""A scikit-learn classifier that learns from private data under a budget, plans before it, and private selection."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "PATEClassifier",
]
