"""Recipes: how record voters are set, chosen from public facts alone."""

from pate.recipes._expected import Expectation, expected
from pate.recipes._facts import PublicFacts
from pate.recipes._recipe import Recipe, Round
from pate.recipes._rule import choose

__all__ = ["Expectation", "PublicFacts", "Recipe", "Round", "choose", "expected"]
