"""Mechanisms by name, for the command line, and by what a statement says of them."""

from __future__ import annotations

import re

from pate.core.checks import check_choice
from pate.exceptions import InvalidInputError
from pate.mechanisms._base import Mechanism
from pate.mechanisms.noisy_max import ConfidentGNMax, GNMax, LNMax, NoisyHistogram

_WRITTEN = re.compile(r"\b(NoisyHistogram|ConfidentGNMax|GNMax|LNMax)\(((?:\w+=[\d.eE+-]+(?:, )?)+)\)")
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


def read_mechanisms(text: str) -> list[Mechanism]:
    """Return the mechanisms that a text names as Python writes them, each once; nothing is run.

    Examples
    --------
    >>> read_mechanisms("GNMax(sigma=40.0), 250 teachers, 10 classes; LNMax(scale=20.0), 50 teachers")
    [GNMax(sigma=40.0), LNMax(scale=20.0)]
    >>> read_mechanisms("GNMax(sigma=high)")
    []
    """
    kinds = {kind.__name__: name for name, (kind, _) in _PARAMETERS.items()}
    found: dict[Mechanism, None] = {}
    for kind, inside in _WRITTEN.findall(text):
        try:
            given = {k: float(v) for k, _, v in (part.partition("=") for part in inside.split(", ") if part)}
            found[make_mechanism(kinds[kind], **given)] = None
        except ValueError:  # no numbers, or not this mechanism's (an InvalidInputError is one)
            continue
    return list(found)
