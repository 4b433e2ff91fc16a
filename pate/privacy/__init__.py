"""Privacy accounting: budgets, charges, conversions, accountants and the noise that is drawn.

It needs only numpy, scipy and the standard library.
"""

from pate.privacy.budget import Budget
from pate.privacy.compose._filters import Accountant, GDPFilter, RenyiFilter
from pate.privacy.compose.calibrate import calibrate
from pate.privacy.compose.dpsgd_accountants import AccountedEpsilon as AccountedEpsilon
from pate.privacy.compose.dpsgd_accountants import dpsgd_epsilons, from_dp_event
from pate.privacy.compose.repetitions import select_best
from pate.privacy.convert import (
    DEFAULT_ORDERS,
    gdp_from_budget,
    gdp_to_delta,
    gdp_to_epsilon,
    pure_to_gdp,
    rdp_to_epsilon,
)
from pate.privacy.cost import Charge
from pate.privacy.words import Guarantee, Sensitive

__all__ = [
    "DEFAULT_ORDERS",
    "Accountant",
    "Budget",
    "Charge",
    "GDPFilter",
    "Guarantee",
    "RenyiFilter",
    "Sensitive",
    "calibrate",
    "dpsgd_epsilons",
    "from_dp_event",
    "gdp_from_budget",
    "gdp_to_delta",
    "gdp_to_epsilon",
    "pure_to_gdp",
    "rdp_to_epsilon",
    "select_best",
]
