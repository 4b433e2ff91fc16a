"""Columns of a private table whose values come again, as ids of people do: for the curator, who may have meant them."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np

from pate.core.curator import Told
from pate.data.files._opened import Opened

#: Names that whoever numbers people gives to the column.
_PEOPLE = re.compile(
    r"patient|person|people|subject|user|customer|client|member|employee|participant|household|student|pupil|account"
    r"|owner|visitor|respondent|proband|donor|insured|(^|_)(who|mrn|ssn|nhs|pid|uid|id|ids)($|_)|_?id$",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
#: Fewer values are no people, and people with more records each are rare.
_FEWEST, _MOST_EACH = 10, 100


def about_owners(held: Opened, *, without: Collection[str | None] = ()) -> list[Told]:
    r"""Return columns that seem to say whose record it is, where nobody named one.

    Parameters
    ----------
    held : Opened
        The private table.
    without : collection of str or None
        Columns of another role, such as the target.

    Notes
    -----
    **Guarantees.** What comes back is private, and nothing else comes of it. No cell can stop it.
    """
    names = [n for n in held.names if n not in without and _PEOPLE.search(_CAMEL.sub("_", n))]
    if not names:
        return []
    import pandas as pd

    try:
        frame = held.frame(names, {}) if held.blocks is None else pd.concat(held.blocks(names))
        columns = [frame[name].dropna().astype(str).to_numpy() for name in names]
    except Exception:  # an odd cell of one record may not stop a release, nor be quoted
        return []
    found = []
    for name, cells in zip(names, columns, strict=True):
        n_values = len(np.unique(cells))
        if _FEWEST <= n_values < len(cells) <= _MOST_EACH * n_values:
            found.append(
                Told(
                    f"the column {name!r} has {n_values:,} values in {len(cells):,} records, as ids of people do. If "
                    f"one person may have several records, protect people, not records: group={name!r} (--group "
                    f"{name})."
                )
            )
    return found
