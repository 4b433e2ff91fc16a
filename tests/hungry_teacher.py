"""A classifier for test_isolation, in a module of its own: workers that are to be killed import little else."""

from __future__ import annotations

import os
import signal

import numpy as np
from sklearn.naive_bayes import GaussianNB

MARK = 1e6


class Hungry(GaussianNB):
    """Takes its worker along, or all memory, on a shard that holds the marked record."""

    def __init__(self, how="kill", when="fit", home=0, var_smoothing=0.1):
        super().__init__(var_smoothing=var_smoothing)
        self.how, self.when, self.home = how, when, home

    def _eat(self):
        if self.how == "kill" and os.getpid() != self.home:
            os.kill(os.getpid(), signal.SIGKILL)
        raise MemoryError("1.2 TiB for John Doe")

    def fit(self, X, y):
        self.marked_ = bool((X > MARK / 2).any())
        if self.marked_ and self.when == "fit":
            self._eat()
        return super().fit(np.minimum(X, 1.0), y)

    def predict(self, X):
        if self.marked_ and self.when == "predict":
            self._eat()
        return super().predict(X)
