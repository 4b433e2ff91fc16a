"""The public maps that contestants look through, fitted once for all budgets and contestants of a repeat."""

from __future__ import annotations

from typing import Any

import numpy as np

from pate.comparison.contract import Setting
from pate.dpsgd.recipes import RecipePlan, TrainingFacts, facts_of
from pate.recipes import default_representation, kind_of
from pate.recipes._images import scattered
from pate.representations import Representation


def own_representation(setting: Setting) -> Any:
    """Return what record voters take by default, fitted on the public rows of this repeat."""
    X, shape = setting.X_public, setting.image_shape
    return setting.fitted(default_representation(kind_of(X, shape), X, image_shape=shape, random_state=setting.seed))


def quick_representation(setting: Setting) -> Any:
    """Return the same but for images of 16 pixels a side and more: scattering, however they look."""
    if kind_of(setting.X_public, setting.image_shape) != "image":
        return own_representation(setting)
    return setting.fitted(scattered(setting.X_public, setting.image_shape))


def planned(setting: Setting, *, name: str | None = None, representation: Representation | None = None) -> RecipePlan:
    """Return DP-SGD's plan for a setting: its representation is found where it was fitted for another contestant.

    Parameters
    ----------
    setting : Setting
    name : str or None
        Of a preset; None chooses.
    representation : Representation or None
        Fitted on public rows; None takes the recipe's.
    """
    return RecipePlan.of(
        tuple(np.shape(setting.X_public)[1:]),
        setting.X_public,
        n_units=setting.n_units,
        n_classes=len(setting.classes),
        budget=setting.budget,
        name=name,
        representation=representation,
        image_shape=setting.image_shape,
        random_state=setting.seed,
        fit=setting.fitted,
    )


def facts_of_setting(setting: Setting) -> TrainingFacts:
    """Return the public facts that DP-SGD's planner chooses from."""
    return facts_of(
        tuple(np.shape(setting.X_public)[1:]),
        setting.X_public,
        n_units=setting.n_units,
        n_classes=len(setting.classes),
        budget=setting.budget,
        image_shape=setting.image_shape,
    )
