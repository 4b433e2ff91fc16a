"""Privacy accounting: conversions, charges, budgets, statements and the ledger.

Needs nothing but numpy, scipy and the standard library.
"""

from pate.privacy.budget import Budget
from pate.privacy.calibration import calibrate
from pate.privacy.charge import Charge
from pate.privacy.conversion import (
    DEFAULT_ORDERS,
    gdp_from_budget,
    gdp_to_delta,
    gdp_to_epsilon,
    pure_to_gdp,
    rdp_to_epsilon,
)
from pate.privacy.guarantee import Guarantee, Sensitive
from pate.privacy.ledger import Ledger
from pate.privacy.statement import PrivacyStatement

__all__ = [
    "DEFAULT_ORDERS",
    "Budget",
    "Charge",
    "Guarantee",
    "Ledger",
    "PrivacyStatement",
    "Sensitive",
    "calibrate",
    "gdp_from_budget",
    "gdp_to_delta",
    "gdp_to_epsilon",
    "pure_to_gdp",
    "rdp_to_epsilon",
]
