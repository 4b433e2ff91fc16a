"""Recipes: how record voters are set, chosen from public facts alone, and the road from public rows to a model."""

from pate.models.recipes._build import default_representation, fitted_representation, kind_of
from pate.models.recipes._expected import (
    EPSILONS,
    Expectation,
    at_epsilon,
    better_budget,
    check_expected,
    expected,
    least_useful,
    without_privacy,
)
from pate.models.recipes._model import MappedLinear, RecordModel, some_rows
from pate.models.recipes._rule import FEWEST_PUBLIC, PublicFacts, Recipe, Round, choose, chosen_method, without_student
from pate.models.recipes._run import RecordsPlan

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
    "chosen_method",
    "default_representation",
    "expected",
    "fitted_representation",
    "kind_of",
    "least_useful",
    "some_rows",
    "without_privacy",
    "without_student",
]
