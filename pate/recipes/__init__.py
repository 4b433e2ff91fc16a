"""Recipes: how record voters are set, chosen from public facts alone, and the road from public rows to a model."""

from pate.recipes._build import fitted_representation, kind_of
from pate.recipes._expected import Expectation, expected
from pate.recipes._facts import PublicFacts
from pate.recipes._model import RecordModel, some_rows
from pate.recipes._recipe import Recipe, Round
from pate.recipes._rule import choose
from pate.recipes._run import RecordsPlan

__all__ = [
    "Expectation",
    "PublicFacts",
    "Recipe",
    "RecordModel",
    "RecordsPlan",
    "Round",
    "choose",
    "expected",
    "fitted_representation",
    "kind_of",
    "some_rows",
]
