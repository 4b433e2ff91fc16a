"""Recipes: settings of record voters chosen from public facts, and plans that go from public rows to a model."""

from pate._core.moved import renamed
from pate.models.recipes._build import default_representation as default_representation
from pate.models.recipes._build import fitted_representation, kind_of
from pate.models.recipes._expected import EPSILONS as EPSILONS
from pate.models.recipes._expected import Expectation, expected
from pate.models.recipes._expected import at_epsilon as at_epsilon
from pate.models.recipes._expected import better_budget as better_budget
from pate.models.recipes._expected import check_expected as check_expected
from pate.models.recipes._expected import least_useful as least_useful
from pate.models.recipes._expected import without_privacy as without_privacy
from pate.models.recipes._model import MappedLinear, RecordModel
from pate.models.recipes._model import some_rows as some_rows
from pate.models.recipes._rule import FEWEST_PUBLIC as FEWEST_PUBLIC
from pate.models.recipes._rule import PublicFacts, Recipe, Round, choose, chosen_method
from pate.models.recipes._rule import without_student as without_student
from pate.models.recipes._run import RecordsPlan

#: The names for users; what is imported ``as`` itself is for pate's other packages.
__all__ = [
    "Expectation",
    "MappedLinear",
    "PublicFacts",
    "Recipe",
    "RecordModel",
    "RecordsPlan",
    "Round",
    "choose",
    "chosen_method",
    "expected",
    "fitted_representation",
    "kind_of",
]

__getattr__ = renamed(__name__, {"chosen_road": "chosen_method"})
