"""Recipes of DP-SGD: presets by name, and a planner that chooses one, with its numbers, from public facts alone."""

from pate.dpsgd.recipes._plan import RecipePlan
from pate.dpsgd.recipes._planner import (
    DPSGDRecipe,
    TrainingFacts,
    choose_recipe,
    facts_of,
    named_recipes,
    recipe,
)

__all__ = [
    "DPSGDRecipe",
    "RecipePlan",
    "TrainingFacts",
    "choose_recipe",
    "facts_of",
    "named_recipes",
    "recipe",
]
