"""What a run is set to: what its user said, then what the recipe says, then plain defaults."""

from __future__ import annotations

import copy
from typing import Any

from pate.dpsgd._augmentation import ImageAugmentation
from pate.dpsgd.recipes import DPSGDRecipe, RecipePlan
from pate.exceptions import InvalidInputError

#: Of a module that somebody names, with nothing else said.
PLAIN: dict[str, Any] = {
    "module_kwargs": None,
    "max_grad_norm": 1.0,
    "epochs": 20,
    "expected_batch_size": 256,
    "learning_rate": 0.25,
    "optimizer": "sgd",
    "momentum": 0.9,
    "schedule": "constant",
    "averaging": None,
    "augmentation": None,
}
#: What a recipe's own numbers follow from, and a user may fix.
_NUMBERS = ("expected_batch_size", "epochs", "learning_rate", "max_grad_norm", "momentum")


def is_planned(clf: Any) -> bool:
    """Whether a recipe sets what its user leaves open."""
    return clf.module is None or clf.recipe is not None


def filled(clf: Any, settings: dict[str, Any] | None = None) -> Any:
    """Return a copy of a classifier in which nothing is open: its own settings, then these, then the plain ones."""
    found = copy.copy(clf)
    for name, value in (PLAIN | (settings or {})).items():
        if getattr(clf, name, None) is None:
            setattr(found, name, value)
    return found


def check_recipe(clf: Any) -> None:
    """Refuse a recipe beside a module, and what goes with recipes alone.

    Raises
    ------
    InvalidInputError
    """
    if clf.recipe is not None and clf.module is not None:
        raise InvalidInputError(
            "module must be None where recipe= is given: the recipe says what is trained. Leave one of them out, or "
            "pass pate.dpsgd.recipes.DPSGDRecipe('mine', module=...)."
        )
    if not is_planned(clf) and clf.representation is not None:
        raise InvalidInputError(
            "representation must be None where module is named: a module sees rows as they are. Leave the module out, "
            "or map the rows beforehand."
        )
    if clf.ranges is not None and (not is_planned(clf) or clf.representation is not None):
        raise InvalidInputError(
            "ranges must be None where module or representation is named: they are what a recipe makes its own map of. "
            "Leave one of them out."
        )
    if is_planned(clf) and clf.sample_rate is not None and clf.expected_batch_size is None:
        raise InvalidInputError(
            "expected_batch_size must be given with sample_rate=, got None: without it a recipe cannot tell for how "
            "many records it plans. Pass it, or nominal_n."
        )
    if not (clf.recipe is None or isinstance(clf.recipe, str | DPSGDRecipe)):
        raise InvalidInputError(
            f"recipe must be a name, a pate.dpsgd.recipes.DPSGDRecipe or None, got {clf.recipe!r}. "
            "pate.dpsgd.recipes.named_recipes() has the names."
        )


def settle(
    clf: Any, row_shape: tuple[int, ...], X_public: Any, *, n_units: int, n_classes: int
) -> tuple[Any, RecipePlan | None]:
    """Return a copy of a classifier in which nothing is open, and the plan of its recipe if it has one.

    Parameters
    ----------
    clf : DPSGDClassifier
    row_shape : tuple of int
        Of the private rows; nothing else of them is asked.
    X_public : rows or None
    n_units : int
        Private records or persons; not used under add-or-remove.
    n_classes : int

    Raises
    ------
    InvalidInputError
        The recipe does not go with these rows.
    """
    if not is_planned(clf):
        return filled(clf), None
    if clf.sample_rate is not None:
        n_units = max(1, round(clf.expected_batch_size / clf.sample_rate))
    elif clf.nominal_n is not None:
        n_units = int(clf.nominal_n)
    plan = RecipePlan.of(
        row_shape,
        X_public,
        n_units=n_units,
        n_classes=n_classes,
        budget=clf.budget,
        name=clf.recipe,
        representation=clf.representation,
        image_shape=None if clf.image_shape is None else tuple(clf.image_shape),
        adjacency=clf.adjacency,
        numbers={name: getattr(clf, name) for name in _NUMBERS if getattr(clf, name) is not None},
        ranges=clf.ranges,
    )
    return along(clf, plan), plan


def along(clf: Any, plan: RecipePlan) -> Any:
    """Return a copy of a classifier in which nothing is open: its own settings, the plan's, then the plain ones."""
    settings = dict(plan.settings())
    copies = settings.pop("augmentation", 1)
    if copies > 1:
        settings["augmentation"] = ImageAugmentation(plan.facts.row_shape, multiplicity=copies)
    settled = filled(clf, settings)
    settled.module = plan.recipe.module
    return settled


def determining(run: Any, classes: tuple[Any, ...]) -> dict[str, Any]:
    """Return what the steps of a run follow from, but for the data: a checkpoint of another one is not taken up."""
    elsewhere = ("checkpoint_dir", "callbacks", "verbose", "ledger", "device", "n_threads", "module", "representation")
    settings = {name: value for name, value in run.get_params(deep=False).items() if name not in elsewhere}
    module = run.module if isinstance(run.module, str) else getattr(run.module, "__qualname__", "")
    return {**settings, "module": module, "classes": repr(classes), "charged": run.ledger is not None}
