"""The durable record of releases and their charges: one SQLite file, safe between processes.

Only public facts are stored: mechanisms, worst-case charges, released answers. Never votes, never a data-dependent
cost, never the number of active teachers.
"""

from pate.ledger._files import FileCheck
from pate.ledger._ledger import Ledger
from pate.ledger._rows import KINDS, Answer, LedgerRow, Registration, Remaining, Verification
from pate.ledger._verify import verify_ledger

__all__ = [
    "KINDS",
    "Answer",
    "FileCheck",
    "Ledger",
    "LedgerRow",
    "Registration",
    "Remaining",
    "Verification",
    "verify_ledger",
]
