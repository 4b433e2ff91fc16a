"""Mechanisms by name, for the command line."""

from __future__ import annotations

from pate.core.checks import check_choice
from pate.exceptions import InvalidInputError
from pate.mechanisms._base import Mechanism
from pate.mechanisms.noisy_max import ConfidentGNMax, GNMax, LNMax, NoisyHistogram

_PARAMETERS: dict[str, tuple[type[Mechanism], tuple[str, ...]]] = {
    "histogram": (NoisyHistogram, ("sigma",)),
    "gnmax": (GNMax, ("sigma",)),
    "lnmax": (LNMax, ("scale",)),
    "confident": (ConfidentGNMax, ("threshold", "sigma_threshold", "sigma")),
}


def named_mechanisms() -> tuple[str, ...]:
    """Return the names that :func:`make_mechanism` knows.

    Examples
    --------
    >>> named_mechanisms()
    ('histogram', 'gnmax', 'lnmax', 'confident')
    """
    return tuple(_PARAMETERS)


def make_mechanism(name: str, **parameters: float | None) -> Mechanism:
    """Return a mechanism by name from exactly its own parameters.

    Parameters
    ----------
    name : str
    **parameters : float or None
        ``sigma``, ``scale``, ``threshold``, ``sigma_threshold``; None counts as not given.

    Raises
    ------
    InvalidInputError
        An unknown name, a parameter missing, or one that this mechanism does not have.

    Examples
    --------
    >>> make_mechanism("gnmax", sigma=40.0)
    GNMax(sigma=40.0)
    >>> make_mechanism("confident", sigma=40.0)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: mechanism 'confident' needs threshold, sigma_threshold, sigma; ...
    """
    kind, needed = _PARAMETERS[check_choice("mechanism", name, _PARAMETERS)]
    given = {k: v for k, v in parameters.items() if v is not None}
    missing, foreign = [k for k in needed if k not in given], [k for k in given if k not in needed]
    if missing or foreign:
        parts = ([f"missing: {', '.join(missing)}"] if missing else []) + (
            [f"not its own: {', '.join(foreign)}"] if foreign else []
        )
        raise InvalidInputError(f"mechanism {name!r} needs {', '.join(needed)}; {'; '.join(parts)}.")
    return kind(**given)
