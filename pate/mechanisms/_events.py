"""The dp_accounting events of a mechanism."""

from __future__ import annotations

import math
from typing import Any

from pate.exceptions import InvalidInputError
from pate.mechanisms._base import Mechanism
from pate.mechanisms.noisy_max import ConfidentGNMax, GNMax, LNMax, NoisyHistogram
from pate.mechanisms.vote_cap import VoteCap


def mechanism_event(
    mechanism: Mechanism | VoteCap, n_queries: int | None = None, max_answers: int | None = None
) -> Any:
    """Return what so many queries are to dp_accounting, for use in its accountants.

    Parameters
    ----------
    mechanism : a mechanism of :mod:`pate.mechanisms`
    n_queries : int or None
        None only for :class:`VoteCap`, whose runs are open.
    max_answers : int or None
        The cap on answers.

    Returns
    -------
    dp_accounting.DpEvent
        The released noisy counts, of which an argmax is post-processing: dp_accounting has no event for rho*, so its
        epsilon is at least that of ``mechanism.charge(...)``. Noise multipliers are relative to replace-one
        neighbours: pass it to an accountant with its default relation, which reads them as they are.

    Raises
    ------
    InvalidInputError
        Not a mechanism of this package, or no number of queries.

    Examples
    --------
    >>> from pate import LNMax
    >>> mechanism_event(LNMax(scale=20.0), 50)
    SelfComposedDpEvent(event=LaplaceDpEvent(noise_multiplier=20.0), count=100)
    """
    import dp_accounting as dpa

    if isinstance(mechanism, VoteCap):
        # A whole run is one Gaussian of squared shift 2 B, also with an open end.
        votes = mechanism.max_votes if n_queries is None else min(mechanism.max_votes, n_queries)
        return dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(mechanism.sigma / math.sqrt(2)), votes)
    if n_queries is None:
        raise InvalidInputError("n_queries must be given: the number of queries is part of what is charged.")
    cap = n_queries if max_answers is None else min(max_answers, n_queries)
    if isinstance(mechanism, GNMax | NoisyHistogram):
        return dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(mechanism.sigma / math.sqrt(2)), n_queries)
    if isinstance(mechanism, LNMax):
        # Two counts move by one each, and their noises are independent.
        return dpa.SelfComposedDpEvent(dpa.LaplaceDpEvent(mechanism.scale), 2 * n_queries)
    if isinstance(mechanism, ConfidentGNMax):
        test = dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(mechanism.sigma_threshold), n_queries)
        answer = dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(mechanism.sigma / math.sqrt(2)), cap)
        return dpa.ComposedDpEvent([test, answer])
    raise InvalidInputError(f"no dp_accounting event is known for {mechanism!r}.")
