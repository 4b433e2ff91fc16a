"""Floors and ceilings: what a method must beat, and what it cannot."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.metaestimators import available_if

from pate.comparison.contestants._pate import quick_representation
from pate.comparison.contract import Setting
from pate.core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.mechanisms import GaussianSum
from pate.privacy.budget import Budget
from pate.recipes import kind_of
from pate.records import HardSpace, RecordVoters
from pate.release import release_ballots
from pate.representations import TableMap
from pate.studies.run import ordinary_model


class NoisyMajority(ClassifierMixin, BaseEstimator):
    """Says the commonest class of every row, by a noisy count of the classes that its budget pays for.

    The commonest class is no public fact: whoever knows all labels but one could learn that one from it. Every record
    (person) casts one bounded ballot for its class, whatever its row is, and noise goes to the sum
    (:class:`pate.mechanisms.GaussianSum`): the cheapest thing that labels can buy.

    Parameters
    ----------
    budget : Budget
    classes : sequence
    noise_seed : int or None
        For tests.

    Attributes
    ----------
    shares_ : float64 array of shape (n_classes,)
        Noisy shares of the classes, none negative, that sum to 1; public.
    statement_ : PrivacyStatement
    """

    def __init__(self, *, budget: Budget, classes: Any, noise_seed: int | None = None) -> None:
        self.budget = budget
        self.classes = classes
        self.noise_seed = noise_seed

    def fit(self, X: Any, y: Any, *, groups: Any = None) -> NoisyMajority:
        """Count classes, with noise; rows are not looked at.

        Raises
        ------
        InvalidInputError
            No label is among the classes.
        """
        y = np.asarray(y)
        # One cell that every record falls into; the other one stays empty.
        voters = RecordVoters(None, HardSpace(2, random_state=0).fit(_TWO), classes=tuple(self.classes))
        ballots = voters.cast(np.zeros((len(y), 1)), y, groups=groups)
        mechanism = GaussianSum.for_budget(self.budget)
        release = release_ballots(ballots, mechanism, budget=self.budget, noise_seed=self.noise_seed)
        cell = int(np.argmax(voters.transform(_TWO[:1])[0]))
        shares = np.maximum(release.statistics[cell] / release.n_units + 1 / len(self.classes), 0.0)
        self.shares_: FloatArray = shares / shares.sum() if shares.sum() > 0 else np.full(len(shares), 1 / len(shares))
        self.classes_ = np.asarray(self.classes)
        self.statement_ = release.statement
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the noisy shares for every row, shape (n, n_classes)."""
        return np.tile(self.shares_, (_length(X), 1))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class with the largest noisy share for every row."""
        return np.full(_length(X), self.classes_[self.shares_.argmax()])


_TWO = np.array([[0.0], [1.0]])


class PublicLabels(ClassifierMixin, BaseEstimator):
    """Learns from public rows of which a few were labelled by hand, and looks at no private row: a floor.

    What labelling so many rows oneself would give, for nothing in privacy: whoever can do that needs no private labels
    unless they give more.

    Parameters
    ----------
    representation : Representation
        Fitted on the public rows.
    y_public : int64 array of shape (n_public,)
        Class indices, -1 where a row has no label.
    classes : sequence
    """

    def __init__(self, representation: Any, y_public: Any, *, classes: Any) -> None:
        self.representation = representation
        self.y_public = y_public
        self.classes = classes

    def fit(self, X: Any, y: Any, *, X_public: Any = None) -> PublicLabels:
        """Learn from the labelled public rows; ``X`` and ``y`` are not looked at.

        Raises
        ------
        InvalidInputError
            There are no public rows, or none has a label.
        """
        told = np.asarray(self.y_public)
        if X_public is None or not (told >= 0).any():
            raise InvalidInputError("X_public must be public rows of which some have a label in y_public, got none.")
        z = self._seen(X_public)[told >= 0]
        self.classes_ = np.asarray(self.classes)
        self.n_labels_ = int((told >= 0).sum())
        labels = told[told >= 0]
        one = len(np.unique(labels)) == 1
        self.model_ = None if one else make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(z, labels)
        self._only = int(labels[0])
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return probabilities of shape (n, n_classes); a class without a label has none."""
        made = np.zeros((_length(X), len(self.classes)))
        if self.model_ is None:
            made[:, self._only] = 1.0
        else:
            made[:, self.model_.classes_] = self.model_.predict_proba(self._seen(X))
        return made

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the likeliest class of every row."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def _seen(self, X: Any) -> FloatArray:
        return np.asarray(self.representation.transform(X), dtype=np.float64)


class Ordinary(ClassifierMixin, BaseEstimator):
    """A good ordinary model of all private rows, without any privacy: a ceiling.

    Parameters
    ----------
    model : scikit-learn classifier
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: Any, y: Any) -> Ordinary:
        """Fit the model; an optimiser that was stopped early says nothing."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model_ = self.model.fit(X, y)
        self.classes_: IntArray = self.model_.classes_
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the model's classes."""
        return np.asarray(self.model_.predict(X))

    @available_if(lambda self: hasattr(self.model, "predict_proba"))
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the model's probabilities."""
        return np.asarray(self.model_.predict_proba(X))


def majority(setting: Setting) -> NoisyMajority:
    """Return the commonest class by a noisy count."""
    return NoisyMajority(budget=setting.budget, classes=setting.classes, noise_seed=setting.noise_seed)


def public_labels(setting: Setting) -> PublicLabels:
    """Return a model of the public rows that somebody labelled by hand, on record voters' own representation.

    Raises
    ------
    InvalidInputError
        The setting tells no labels of public rows.
    """
    if setting.y_public is None:
        raise InvalidInputError(
            "y_public must be told to a contestant of labelled public rows, got None. Give the Contestant "
            "n_public_labels, and make its setting by Setting.of(data, contestant, ...)."
        )
    return PublicLabels(quick_representation(setting), setting.y_public, classes=setting.classes)


def no_privacy(setting: Setting) -> Ordinary:
    """Return a good ordinary model for this kind of data: on images of 16 pixels and more, of what scattering sees."""
    model = ordinary_model(setting.kind, setting.n_records, seed=setting.seed)
    if kind_of(setting.X_public, setting.image_shape) == "image":
        return Ordinary(make_pipeline(FrozenEstimator(quick_representation(setting)), StandardScaler(), model))
    if setting.kind == "table":
        return Ordinary(make_pipeline(FrozenEstimator(setting.fitted(TableMap())), model))
    return Ordinary(model)


def _length(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)
