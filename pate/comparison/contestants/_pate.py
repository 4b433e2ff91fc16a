"""PATE's side where records vote: by default, without networks, and with nothing but a linear head."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

from pate.comparison.contestants._maps import own_representation, planned, quick_representation
from pate.comparison.contract import Setting
from pate.estimator import PATEClassifier
from pate.exceptions import PrivacyParameterWarning
from pate.privacy.budget import Budget
from pate.recipes import PublicFacts, Recipe, choose, without_student

#: Noise is then far below one ballot.
_NO_NOISE = 1e4


class Fast(PATEClassifier):
    """Record voters without a network: components of scattering are columns of a table, whatever images look like."""

    @staticmethod
    def _rule(facts: PublicFacts) -> Recipe:
        return choose(_as_columns(facts))


class HeadAlone(PATEClassifier):
    """Record voters whose linear head is the model: nobody learns from it."""

    @staticmethod
    def _rule(facts: PublicFacts) -> Recipe:
        return without_student(choose(facts))


class HeadOfColumns(HeadAlone):
    """The same on components of scattering."""

    @staticmethod
    def _rule(facts: PublicFacts) -> Recipe:
        return without_student(choose(_as_columns(facts)))


class Noiseless(PATEClassifier):
    """The default road with noise that moves nothing: a ceiling, with no privacy and so no statement."""

    def fit_keeping(self, X: Any, y: Any, *, X_public: Any = None, groups: Any = None) -> tuple[Any, Any]:
        """Fit as :class:`pate.PATEClassifier` does, and promise nothing."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyParameterWarning)  # nothing is promised
            kept = super().fit_keeping(X, y, X_public=X_public, groups=groups)
        del self.statement_
        return kept


def _as_columns(facts: PublicFacts) -> PublicFacts:
    return replace(facts, kind="table") if facts.kind in ("image", "glyph") else facts


def default(setting: Setting) -> PATEClassifier:
    """Return pate's default: nothing said, records vote on their own road, image student and all."""
    return PATEClassifier(**_said(setting), representation=own_representation(setting))


def auto(setting: Setting) -> PATEClassifier:
    """Return whoever pate's public rule chooses, records that vote or DP-SGD."""
    return PATEClassifier(**{**_said(setting), "voters": "auto"})


def fast(setting: Setting) -> PATEClassifier:
    """Return record voters without networks: of images scattering, of all else the default."""
    return Fast(**_said(setting), representation=quick_representation(setting))


def linear(setting: Setting) -> PATEClassifier:
    """Return record voters with a linear head and no student, on the default's own representation."""
    return HeadAlone(**_said(setting), representation=own_representation(setting))


def same(setting: Setting) -> PATEClassifier:
    """Return record voters with a linear head on the very representation that DP-SGD's recipe takes at this budget."""
    (map_,) = planned(setting).maps
    return HeadOfColumns(**_said(setting), representation=map_)


def noiseless(setting: Setting) -> PATEClassifier:
    """Return the default's votes without noise."""
    said = _said(setting) | {"budget": Budget(_NO_NOISE, setting.budget.delta)}
    return Noiseless(**said, representation=own_representation(setting))


def _said(setting: Setting) -> dict[str, Any]:
    return {
        "voters": "records",
        "budget": setting.budget,
        "classes": setting.classes,
        "image_shape": setting.image_shape,
        "random_state": setting.seed,
        "noise_seed": setting.noise_seed,
        "n_jobs": setting.n_jobs,
        "anyway": True,  # a comparison shows what comes of any budget
    }
