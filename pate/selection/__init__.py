"""Private selection: the best of several private settings, found and paid for as one release."""

from pate.selection._contestant import Candidate
from pate.selection._select import Selection, private_select

__all__ = ["Candidate", "Selection", "private_select"]
