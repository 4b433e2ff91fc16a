"""DP-SGD's side: what its planner says, its presets by name, and linear models on PATE's representation."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from pate.comparison.contestants._maps import facts_of_setting, own_representation, planned
from pate.comparison.contract import Setting
from pate.dpsgd import DPSGDClassifier
from pate.dpsgd._fit import fit_privately
from pate.dpsgd.recipes import RecipePlan, choose_recipe
from pate.exceptions import InvalidInputError
from pate.representations import PublicPCA, UnitRows, chain

_SMALL_IMAGE = 16
#: Whitening of components of PATE's representation, as of the planner's kernel.
_ALPHA = 0.7


class PlannedDPSGD(DPSGDClassifier):
    """DP-SGD whose recipe was planned beforehand, of public facts, with the representation that was kept for it."""

    def along(self, plan: RecipePlan) -> PlannedDPSGD:
        """Take a plan, and return this object."""
        self._plan_ahead = plan
        return self

    def __sklearn_clone__(self) -> Any:
        return super().__sklearn_clone__().along(self._plan_ahead)

    def fit(self, X: Any, y: Any, *, X_public: Any = None, groups: Any = None) -> DPSGDClassifier:
        """Fit as :class:`pate.DPSGDClassifier` does, along the plan."""
        return self._take(
            fit_privately(self, X, y, X_public=X_public, groups=groups, road=self._plan_ahead, measuring=True)
        )


def is_large(image_shape: tuple[int, ...] | None) -> bool:
    """Whether rows are images that maps of images are for; smaller ones are tables of pixels."""
    return image_shape is not None and min(image_shape[-2:]) >= _SMALL_IMAGE


def check_images(contestant: str, image_shape: tuple[int, ...] | None) -> None:
    """Refuse a contestant that is for images alone.

    Raises
    ------
    InvalidInputError
    """
    if not is_large(image_shape):
        raise InvalidInputError(
            f"contestant {contestant!r} is for images of at least {_SMALL_IMAGE} pixels a side, got "
            f"{'tables' if image_shape is None else f'images of {image_shape}'}. Take 'dpsgd', which plans for any "
            "data."
        )


def by_recipe(setting: Setting, *, name: str | None = None, contestant: str = "dpsgd") -> DPSGDClassifier:
    """Return DP-SGD by its planner, or by a preset.

    Raises
    ------
    InvalidInputError
        The preset is not for such data.
    """
    if name is not None:
        check_images(contestant, setting.image_shape)
    return _planned_classifier(setting, planned(setting, name=name))


def on_public(setting: Setting) -> DPSGDClassifier:
    """Return linear DP-SGD on the very representation that PATE's default fits on public rows."""
    rep = own_representation(setting)
    plan = planned(setting, representation=rep)
    # As the planner does on a representation of its own: as many components as the evidence bears, partly whitened.
    n = choose_recipe(facts_of_setting(setting)).n_components
    pca = PublicPCA(None if n is None else min(n, rep.n_features_out_), alpha=_ALPHA)
    last = chain(pca, UnitRows(constant=plan.recipe.constant)).fit(rep.vectors(setting.X_public))
    return _planned_classifier(setting, replace(plan, maps=(rep, last)))


def _planned_classifier(setting: Setting, plan: RecipePlan) -> DPSGDClassifier:
    return PlannedDPSGD(
        budget=setting.budget,
        classes=setting.classes,
        image_shape=setting.image_shape,
        device="auto",
        random_state=setting.seed,
        noise_seed=setting.noise_seed,
    ).along(plan)


scattering = partial(by_recipe, name="linear", contestant="dpsgd-linear-scattering")
tempered = partial(by_recipe, name="tempered-cnn", contestant="dpsgd-tempered-cnn")
