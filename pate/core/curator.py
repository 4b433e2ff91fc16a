"""What the curator alone is told: warnings that change nothing, and what of them is for a terminal only."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import NamedTuple

from pate.exceptions import CuratorWarning

_PRIVATE = "(This is for the curator alone: it depends on the private records, and changes nothing that is released.)"


class Told(NamedTuple):
    """Something that was noticed of the private records.

    Attributes
    ----------
    text : str
        For a warning: numbers and public names, no cell.
    quoting : str
        What also quotes private values, such as a class that is spelt nearly alike: for a person at a terminal, and
        for no log. Empty where there is nothing to quote.
    category : type
        Of the warning.
    """

    text: str
    quoting: str = ""
    category: type[CuratorWarning] = CuratorWarning


def tell(found: Iterable[Told], *, stacklevel: int = 2) -> tuple[Told, ...]:
    """Warn of each, in one form, and return them; nothing that is released may hang on what is returned.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     _ = tell([Told("9 of 10 records vote.", quoting="'il' is what one of them has")])
    >>> "'il'" in str(said[0].message), said[0].category.__name__
    (False, 'CuratorWarning')
    """
    found = tuple(found)
    for told in found:
        warnings.warn(f"{told.text} {_PRIVATE}", told.category, stacklevel=stacklevel + 1)
    return found
