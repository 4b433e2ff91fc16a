"""Fast test contestants that record their calls, and data for them."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.naive_bayes import GaussianNB

from pate.data import Dataset
from pate.data._named.dataset import HeldOutRows, PrivateRows, PublicRows
from pate.exceptions import StudentError
from pate.privacy.budget import Budget
from pate.privacy.words import Guarantee
from pate.release.statement.model import PrivacyStatement

DELTA = 1e-5
BUDGETS = [Budget(1.0, DELTA), Budget(4.0, DELTA)]

#: What every fake contestant was asked to do, in order.
CALLS: list[dict] = []


class Fake(ClassifierMixin, BaseEstimator):
    """Learns the class means from features blurred by 1 / epsilon."""

    def __init__(self, blur=1.0, budget=None, random_state=None, noise_seed=None, classes=None, n_jobs=None):
        self.blur = blur
        self.budget = budget
        self.random_state = random_state
        self.noise_seed = noise_seed
        self.classes = classes
        self.n_jobs = n_jobs

    def fit(self, X, y):
        return self._fit(X, y)

    def _fit(self, X, y, **extra):
        CALLS.append({"budget": self.budget, "seed": self.random_state, "noise_seed": self.noise_seed,
                      "X": X, "y": y, **extra})  # fmt: skip
        rng = np.random.default_rng([self.random_state, self.noise_seed or 0])
        self.model_ = GaussianNB().fit(X + self.blur / self.budget.epsilon * rng.normal(size=X.shape), y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X)


class WithPublic(Fake):
    def fit(self, X, y, X_public=None, groups=None):
        return self._fit(X, y, X_public=X_public, groups=groups)


class NoSeeds(ClassifierMixin, BaseEstimator):
    def __init__(self, budget=None):
        self.budget = budget

    def fit(self, X, y):
        self.model_ = GaussianNB().fit(X, y)
        return self

    def predict(self, X):
        return self.model_.predict(X)


class FailsLate(Fake):
    """Breaks at the last fit but one."""

    error: BaseException = StudentError("the student saw one class.")

    def fit(self, X, y):
        if len(CALLS) == 3:
            raise self.error
        return self._fit(X, y)


class Stating(Fake):
    """States a guarantee, ``factor`` times the budget."""

    def __init__(self, factor=1.0, unit="record", seeded=False, budget=None, random_state=None):
        super().__init__(budget=budget, random_state=random_state)
        self.factor = factor
        self.unit = unit
        self.seeded = seeded

    def fit(self, X, y):
        self._fit(X, y)
        promise = Guarantee(epsilon=self.factor * self.budget.epsilon, delta=DELTA, kind="public", method="gdp")
        self.statement_ = PrivacyStatement(
            released="labels", unit=self.unit, n_units=None, guarantee=promise, mechanism="m", accounting="a",
            seeded=self.seeded,
        )  # fmt: skip
        return self


def small_data(classes=(0, 1, 2), groups=False, seed=0) -> Dataset:
    rng = np.random.default_rng(seed)

    def part(n):
        y = np.arange(n) % 3
        return (4 * np.eye(3)[y] + rng.normal(size=(n, 3))).astype(np.float32), y.astype(np.int64)

    (X, y), (X_public, y_public), (X_test, y_test) = part(60), part(30), part(90)
    return Dataset(
        name="three",
        protocol="standard",
        kind="table",
        classes=classes,
        image_shape=None,
        description="Three blobs.",
        private=PrivateRows(X, y, np.arange(60) // 2 if groups else None),
        public=PublicRows(X_public, y_public),
        test=HeldOutRows(X_test, y_test),
    )
