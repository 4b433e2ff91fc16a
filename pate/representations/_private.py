"""What nothing public may be fitted on (representations, ballot spaces, students), told by its type."""

from __future__ import annotations

from typing import Any

from pate.exceptions import SensitiveValueError

#: Types of this package that hold private things, or rows beside the public ones. By name: some stand on upper floors.
_REFUSED = {
    "BallotSum": "the sum of private ballots",
    "CappedVotes": "votes of private records",
    "Dataset": "private and public rows together",
    "HeldOutRows": "rows to measure on",
    "HeldRecords": "directions of private records",
    "Partition": "the cut of the private rows",
    "PrivateRows": "the private rows",
    "ReadRows": "private rows",
    "Sensitive": "a private value",
    "SensitiveResult": "private results",
    "Votes": "votes of teachers of private rows",
}


def private_kind(X: Any) -> str | None:
    """Return the name of the private type that ``X`` is of, or something in a list or dict is; None: it is of none."""
    kinds = {type(X)} | (set(map(type, X)) if isinstance(X, list | tuple) else set())
    if isinstance(X, dict):
        kinds |= set(map(type, X.values()))
    for kind in kinds:
        for base in kind.__mro__:
            if base.__name__ in _REFUSED and base.__module__.split(".")[0] == "pate":
                return base.__name__
    return None


def refuse_private(name: str, X: Any) -> None:
    """Refuse what is private by its type, alone or in a list: a representation is fitted on public rows only.

    Arrays carry no type of their own: who passes private ones has broken the rule where no code can see it.

    Raises
    ------
    SensitiveValueError
    """
    found = private_kind(X)
    if found is not None:
        raise SensitiveValueError(
            f"{name} must be public rows, got a {found}: {_REFUSED[found]}. A representation "
            "is fitted on public rows only: pass those, such as data.public.X."
        )
