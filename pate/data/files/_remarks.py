"""What is odd about a public column: a code that becomes a number, an id that becomes categories."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from pate.data._columns import as_number
from pate.data.files._csv import comma_numbers

if TYPE_CHECKING:
    import pandas as pd

#: Fewer cells say nothing about how many are equal.
_FEWEST = 20
_NEARLY_ALL = 0.95
#: So many numbers among texts are no codes.
_MOSTLY = 0.8
#: Parts of names that whoever counts things does not give to amounts.
_CODES = re.compile(
    r"(^|[^a-z])(id|ids|zip|zipcode|plz|post(al)?_?code|postleitzahl|code|codes|icd\d*|atc|mrn|ssn|key|phone|tel)($|[^a-z])"
    r"|_?id$",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def remark_on(name: str, column: pd.Series, *, zeros: bool = False) -> str:
    """Return what to ask about a public column that nobody spoke of; empty where there is nothing.

    Parameters
    ----------
    name : str
    column : Series of shape (n,)
        As :func:`pate.data.read_table` made it: float64, or text as objects.
    zeros : bool
        Whether cells of the file begin with a needless 0.
    """
    there = column.dropna()
    n, n_kinds = len(there), int(there.nunique())
    many = n >= _FEWEST and n_kinds >= _NEARLY_ALL * n
    remedy = "Then text= (--text), drop= (--drop) or id= (--id)"
    if column.dtype == np.float64:
        if zeros:
            return f"cells such as 007 lose their zeros: a code? {remedy}"
        if not n or not _whole(there):
            return ""
        if many:
            return f"whole numbers, nearly all of them different: an id or a code? {remedy}"
        return f"whole numbers under the name of a code? {remedy}" if n_kinds > 2 and _is_code(name) else ""
    if comma_numbers(column):
        return "numbers with decimal commas? Then decimal=',' (--decimal ,)"
    odd = _not_numbers(there)
    if odd:
        return (
            f"{n - len(odd):,} cells are numbers and {len(odd)} are not, such as {odd[0][:20]!r}: so it is {n_kinds:,} "
            "categories, and no number. Clean those, or leave them empty"
        )
    if many:
        return "texts, nearly all of them different: an id, a name, a remark? Then drop= (--drop) or id= (--id)"
    return ""


def _not_numbers(texts: Any) -> list[str]:
    """Return the cells that are no numbers, with points or decimal commas, where nearly all are; else none."""
    if len(texts) < _FEWEST:
        return []
    odd = [cell for cell in texts.tolist() if not np.isfinite(as_number(cell.replace(",", ".", 1)))]
    return odd if len(odd) <= (1 - _MOSTLY) * len(texts) else []


def _is_code(name: str) -> bool:
    return bool(_CODES.search(_CAMEL.sub("_", name)))


def _whole(numbers: Any) -> bool:
    values = numbers.to_numpy()
    return bool((values == np.floor(values)).all())
