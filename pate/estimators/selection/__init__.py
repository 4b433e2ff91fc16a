"""Private selection: the best of several private settings, found and paid for as one release."""

from pate.estimators.selection._contestant import Candidate
from pate.estimators.selection._select import Selection, private_select

__all__ = ["Candidate", "Selection", "private_select"]
