"""Privacy accounting: conversions, charges, budgets, statements and the ledger.

Needs nothing but numpy, scipy and the standard library.
"""

from pate.privacy.budget import Budget
from pate.privacy.calibration import calibrate
from pate.privacy.charge import Charge
from pate.privacy.composition import Accountant, PublicCost
from pate.privacy.conversion import (
    DEFAULT_ORDERS,
    gdp_from_budget,
    gdp_to_delta,
    gdp_to_epsilon,
    pure_to_gdp,
    rdp_to_epsilon,
)
from pate.privacy.events import from_dp_event, to_dp_event
from pate.privacy.filters import GDPFilter, RenyiFilter
from pate.privacy.guarantee import Guarantee, Sensitive
from pate.privacy.ledger import Ledger
from pate.privacy.selection import select_best
from pate.privacy.statement import PrivacyStatement

__all__ = [
    "DEFAULT_ORDERS",
    "Accountant",
    "Budget",
    "Charge",
    "GDPFilter",
    "Guarantee",
    "Ledger",
    "PrivacyStatement",
    "PublicCost",
    "RenyiFilter",
    "Sensitive",
    "calibrate",
    "from_dp_event",
    "gdp_from_budget",
    "gdp_to_delta",
    "gdp_to_epsilon",
    "pure_to_gdp",
    "rdp_to_epsilon",
    "select_best",
    "to_dp_event",
]
