"""A ballot space that takes directions as they come, however long: for tests of what ballots do with them."""

import hashlib

import numpy as np


class PlainSpace:
    def __init__(self, kind, d):
        self.kind, self.n_components_ = kind, d
        self.provenance_ = "made up for a test"

    def transform(self, X):
        return np.asarray(X, dtype=np.float64)

    def fingerprint(self):
        return hashlib.sha256(f"plain {self.kind} {self.n_components_}".encode()).hexdigest()


class PlainModel:
    """Public probabilities that are a function of phi."""

    def __init__(self, weights):
        self.weights = np.asarray(weights, dtype=float)

    def predict_proba(self, phi):
        scores = phi @ self.weights
        e = np.exp(scores - scores.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def fingerprint(self):
        return hashlib.sha256(self.weights.tobytes()).hexdigest()
