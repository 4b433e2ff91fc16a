"""The one rule for private records that cannot be used: each is its own matter, and only the curator is told.

Such a record (a class that is missing or none of those named, a missing or odd cell where numbers are needed, a line
of a file that is no row of its table, no owner) keeps its place and counts as a unit like the others; what it
contributes is fixed: a shard without it, the zero ballot, a zero gradient. Refusing the table would let one record
decide whether there is a release: a visible bit that no epsilon covers, and a way for anybody in the data to stop
everything. So it is where all records are such, too: a neighbour has one that is not, and is released. What a file or
a table is as a whole (its header, its columns, its declared types, its length) may be refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np

from pate.core.types import Mask
from pate.exceptions import CuratorWarning

OUTSIDE = "a class that is missing or outside classes"
ODD_CELLS = "a value that is missing (NaN or infinity) or of another kind"
NO_OWNER = "no owner in groups"


def usable_records(checks: Mapping[str, Mask], *, before: str = "") -> tuple[Mask, str]:
    """Return which records pass every check, and warn the curator of the others: nobody else, and nothing else.

    Parameters
    ----------
    checks : mapping of str to bool array of shape (n,)
        What is wrong with the records that fail a check, and which pass it.
    before : str
        What the warning begins with: the name of a file.

    Returns
    -------
    usable : bool array of shape (n,)
    told : str
        What the curator was told, empty where there was nothing to tell.
    """
    every = np.logical_and.reduce(list(checks.values()))
    n_out = int(np.count_nonzero(~every))
    if not n_out:
        return np.asarray(every), ""
    reasons = "; ".join(f"{np.count_nonzero(~fine)} with {what}" for what, fine in checks.items() if not fine.all())
    none = " NO RECORD IS LEFT: what is released will be noise." if n_out == len(every) else ""
    text = (
        f"{before}{n_out} of {len(every)} records cannot be used and contribute{'s' * (n_out == 1)} nothing: {reasons}."
        f"{none} (This is private: do not publish it.)"
    )
    warnings.warn(text, CuratorWarning, stacklevel=4)
    return np.asarray(every), text
