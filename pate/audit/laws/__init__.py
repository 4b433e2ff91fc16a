"""Statistical tests of a mechanism's releases against its exact law, over a bank of histograms."""

from pate.audit.laws._law import independence, law
from pate.audit.laws._registry import Entry, Numbers, forget, law_bank, register, registered

__all__ = ["Entry", "Numbers", "forget", "independence", "law", "law_bank", "register", "registered"]
