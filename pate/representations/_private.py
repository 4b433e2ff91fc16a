"""What no representation may be fitted on, told by its type."""

from __future__ import annotations

from typing import Any

from pate.exceptions import SensitiveValueError

#: Types of this package that hold private things, or rows beside the public ones. By name: some stand on upper floors.
_REFUSED = {
    "BallotSum": "the sum of private ballots",
    "Dataset": "private and public rows together",
    "HeldOutRows": "rows to measure on",
    "Partition": "the cut of the private rows",
    "PrivateRows": "the private rows",
    "ReadRows": "private rows",
    "Sensitive": "a private value",
    "SensitiveResult": "private results",
    "Votes": "votes of teachers of private rows",
}


def refuse_private(name: str, X: Any) -> None:
    """Refuse what is private by its type, alone or in a list: a representation is fitted on public rows only.

    Arrays carry no type of their own: who passes private ones has broken the rule where no code can see it.

    Raises
    ------
    SensitiveValueError

    Examples
    --------
    >>> import numpy as np
    >>> from pate.data import PrivateRows
    >>> refuse_private("X_public", PrivateRows(np.zeros((2, 1)), np.array([0, 1])))
    Traceback (most recent call last):
    pate.exceptions.SensitiveValueError: X_public must be public rows, got a PrivateRows: the private rows. ...
    """
    kinds = {type(X)} | (set(map(type, X)) if isinstance(X, list | tuple) else set())
    if isinstance(X, dict):
        kinds |= set(map(type, X.values()))
    for kind in kinds:
        for base in kind.__mro__:
            if base.__name__ in _REFUSED and base.__module__.split(".")[0] == "pate":
                raise SensitiveValueError(
                    f"{name} must be public rows, got a {base.__name__}: {_REFUSED[base.__name__]}. A representation "
                    "is fitted on public rows only: pass those, such as data.public.X."
                )
