"""Scikit-learn estimators that learn from private data within a budget; plans; private selection."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "PATEClassifier",
]
