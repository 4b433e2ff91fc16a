"""The durable record of releases and their charges: one SQLite file, safe between processes.

Only public facts are stored: mechanisms, worst-case charges, released answers. Never votes, never a data-dependent
cost, never the number of active teachers.
"""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "KINDS",
    "Answer",
    "FileCheck",
    "Ledger",
    "Remaining",
    "Verification",
    "verify_ledger",
]
