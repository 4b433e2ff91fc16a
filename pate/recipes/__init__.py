"""Recipes: how record voters are set, chosen from public facts alone, and the road from public rows to a model."""

from pate.recipes._build import default_representation, fitted_representation, kind_of
from pate.recipes._expected import Expectation, expected
from pate.recipes._facts import PublicFacts
from pate.recipes._linear import MappedLinear
from pate.recipes._model import RecordModel, some_rows
from pate.recipes._recipe import Recipe, Round
from pate.recipes._road import FEWEST_PUBLIC, chosen_road
from pate.recipes._rule import choose, without_student
from pate.recipes._run import RecordsPlan
from pate.recipes._worth import EPSILONS, at_epsilon, better_budget, check_expected, least_worth, without_privacy

__all__ = [
    "EPSILONS",
    "FEWEST_PUBLIC",
    "Expectation",
    "MappedLinear",
    "PublicFacts",
    "Recipe",
    "RecordModel",
    "RecordsPlan",
    "Round",
    "at_epsilon",
    "better_budget",
    "check_expected",
    "choose",
    "chosen_road",
    "default_representation",
    "expected",
    "fitted_representation",
    "kind_of",
    "least_worth",
    "some_rows",
    "without_privacy",
    "without_student",
]
