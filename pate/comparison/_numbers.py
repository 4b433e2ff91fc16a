"""The contestants that predict a number, by name; a public rule sets each one's parameters for every budget."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import Pipeline, make_pipeline

from pate._core.types import FloatArray
from pate.comparison.contract import Contestant, Setting, Tuning, own_representation, quick_representation
from pate.dpsgd import DPSGDRegressor
from pate.estimators import PATERegressor
from pate.records import take
from pate.representations import TableMap


def _parameters(setting: Setting) -> dict[str, Any]:
    """Return the parameters that every private regressor takes from a setting."""
    own = {name: getattr(setting, name) for name in ("budget", "target_range", "noise_seed", "image_shape")}
    return {**own, "random_state": setting.seed}


def records(setting: Setting) -> PATERegressor:
    """Return record voters with default settings; a comparison shows the result of any budget."""
    return PATERegressor(**_parameters(setting), representation=own_representation(setting), force=True)


def by_recipe(setting: Setting) -> DPSGDRegressor:
    """Return DP-SGD by its planner."""
    return DPSGDRegressor(device="auto", **_parameters(setting))


class PublicNumbers(RegressorMixin, BaseEstimator):
    """Learn from a few public rows whose numbers are known, and from no private row: a floor."""

    def __init__(self, model: Any, y_public: Any, target_range: Any) -> None:
        self.model = model
        self.y_public = y_public
        self.target_range = target_range

    def fit(self, X: Any, y: Any, *, X_public: Any = None) -> PublicNumbers:
        """Learn from the labelled public rows; ``X`` and ``y`` are ignored."""
        known = np.flatnonzero(np.isfinite(self.y_public))
        self.model_ = self.model.fit(take(X_public, known), np.asarray(self.y_public)[known])
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return a number within the range for each row, shape (n,)."""
        return np.clip(np.asarray(self.model_.predict(X), dtype=np.float64), *self.target_range)


class OrdinaryNumbers(Pipeline):
    """A good ordinary model of all private rows that have a number, without any privacy: a ceiling."""

    def fit(self, X: Any, y: Any) -> OrdinaryNumbers:
        """Fit all steps."""
        known = np.flatnonzero(np.isfinite(y))
        return super().fit(take(X, known), np.asarray(y)[known])


def _seen(setting: Setting) -> FrozenEstimator:
    """Return the step that makes numbers of rows: of columns as public rows teach, of images by scattering."""
    return FrozenEstimator(setting.fitted(TableMap()) if setting.kind == "table" else quick_representation(setting))


def _ridge() -> RidgeCV:
    return RidgeCV(np.logspace(-2, 4, 13))


def public_mean(setting: Setting) -> PublicNumbers:
    """Return the mean of the labelled public rows."""
    return PublicNumbers(DummyRegressor(), setting.y_public, setting.target_range)


def public_labels(setting: Setting) -> PublicNumbers:
    """Return a linear model of the labelled public rows."""
    return PublicNumbers(make_pipeline(_seen(setting), _ridge()), setting.y_public, setting.target_range)


def trees(setting: Setting) -> OrdinaryNumbers:
    """Return boosted trees of all private rows."""
    model = HistGradientBoostingRegressor(random_state=setting.seed)
    return OrdinaryNumbers(make_pipeline(_seen(setting), model).steps)


def linear(setting: Setting) -> OrdinaryNumbers:
    """Return a linear model of all private rows."""
    return OrdinaryNumbers(make_pipeline(_seen(setting), _ridge()).steps)


#: Of both, the targets that were looked at; how many settings of the records' rule were tried was not written down.
_TARGETS = "Adult's age and hours, the price of diamonds, days in hospital (Diabetes 130)"
#: "A dozen settings by hand" (docs/dpsgd.md).
_TRIED_DPSGD = 12
RECORDS = Tuning(rule="its own rule, from public facts (docs/numbers.md)", n_tried=None, on=_TARGETS)
DPSGD = Tuning(rule="DP-SGD's planner, from public facts (docs/dpsgd.md)", n_tried=_TRIED_DPSGD, on=_TARGETS)
NOTHING = Tuning(rule="nothing to set")
#: Public rows whose numbers a floor gets.
_LABELLED = 100
_PRIVATE = "private rows and their numbers; public rows without"
_PUBLIC = f"no private row; public rows, {_LABELLED} of them with their numbers, as if found by hand"
_ALL = "private rows and their numbers without privacy"
_FLOOR: dict[str, Any] = {"role": "floor", "tuning": NOTHING, "sees": _PUBLIC, "n_public_labels": _LABELLED}

NUMBERS = (
    Contestant("pate", records, side="PATE", tuning=RECORDS, sees=_PRIVATE, predicts="numbers"),
    Contestant("dpsgd", by_recipe, side="DP-SGD", tuning=DPSGD, sees=_PRIVATE, predicts="numbers"),
    Contestant("mean", public_mean, predicts="numbers", **_FLOOR),
    Contestant("public-labels-100", public_labels, predicts="numbers", **_FLOOR),
    Contestant("ridge", linear, role="ceiling", tuning=NOTHING, sees=_ALL, predicts="numbers"),
    Contestant("no-privacy", trees, role="ceiling", tuning=NOTHING, sees=_ALL, predicts="numbers"),
)
