"""What the curator alone should know of private labels before anything is spent: who votes, and classes nobody has."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from pate.core.curator import Told
from pate.teachers._usable import as_column, class_indices, owned

_PARTS = re.compile(r"\s*[,;|/+&]\s*")
#: Longer texts are no classes, and of more values than these none is meant for a class that was named.
_LONGEST, _MOST_VALUES = 200, 10_000


def about_labels(y: Any, groups: Any, classes: Sequence[Any], *, counted: bool = True) -> list[Told]:
    """Return what the curator should know of private labels; nothing else may come of it.

    Parameters
    ----------
    y : array-like of shape (n_records,)
    groups : array-like of shape (n_records,) or None
    classes : sequence
        As they were named: public.
    counted : bool
        Whether to say how many records do not vote; False where whoever trains says so.

    Returns
    -------
    list of Told
        Empty where all records vote, and some for each class. Texts have numbers and the classes that were named;
        ``quoting`` has values of ``y``.
    """
    values = as_column(y).ravel()
    n = len(values)
    places = class_indices(values, classes)
    _, has_owner = owned(groups, n)
    votes = (places >= 0) & has_owner
    absent = [value for i, value in enumerate(classes) if not (places == i).any()]
    others = _others(values[places < 0])
    several = sum(k for value, k in others.items() if _holds_several(value, classes))
    parts = []
    if counted and not votes.all():
        why = [f"{n_out:,} {of}" for n_out, of in (
            (int((places < 0).sum()), "of a class outside classes"), (int((~has_owner).sum()), "of an unknown owner")
        ) if n_out]  # fmt: skip
        parts.append(f"{int(votes.sum()):,} of {n:,} records ({votes.mean():.1%}) vote: {', '.join(why)}.")
    if several:
        parts.append(f"{several:,} hold several classes in one cell: a record votes for one.")
    if absent:
        named = ", ".join(map(repr, absent[:5])) + (f" and {len(absent) - 5} more" if len(absent) > 5 else "")
        parts.append(f"No record is of the class{'es' * (len(absent) > 1)} {named}.")
    return [Told(" ".join(parts), _nearest(absent, others))] if parts else []


def _others(values: npt.NDArray[Any]) -> Counter[str]:
    found = Counter(value for value in values.tolist() if isinstance(value, str) and len(value) <= _LONGEST)
    return found if len(found) <= _MOST_VALUES else Counter()


def _holds_several(value: str, classes: Sequence[Any]) -> bool:
    known = {str(c) for c in classes}
    parts = _PARTS.split(value.strip())
    return len(parts) > 1 and any(part in known for part in parts)


def _nearest(absent: list[Any], others: Counter[str]) -> str:
    """Say which values are spelt nearly as a class that nobody has."""
    folded: dict[str, str] = {}
    for value, _ in others.most_common():
        folded.setdefault(value.strip().casefold(), value)
    lines = []
    for name in absent:
        near = difflib.get_close_matches(str(name).strip().casefold(), folded, n=1)
        if near:
            value = folded[near[0]]
            n = others[value]
            had = "1 record has" if n == 1 else f"{n:,} records have"
            lines.append(f"{name!r} was named, and {had} {value!r}: is that meant?")
    return "\n".join(lines)
