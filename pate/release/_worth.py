"""Whether a setting is worth its budget: told from public numbers, before anything is trained or spent."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from pate.core.checks import check_real
from pate.exceptions import NotWorthwhileError
from pate.mechanisms import Mechanism
from pate.privacy.budget import Budget

#: Noise per teacher where nothing is said, measured: docs/defaults.md. A constant: it may not depend on the votes.
NOISE_PER_TEACHER = 0.3
#: Queries where nothing is said, at least.
FEWEST = 10
#: Noise per teacher beyond which a setting is refused.
_MOST_NOISE_PER_TEACHER = 1.0
#: Records that make a teacher where nobody says how many teachers there are, measured for heads: docs/defaults.md.
RECORDS_PER_TEACHER = 15
_MOST_HEADS = 1000
_EPSILONS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0)


def affordable_queries(budget: Budget, n_teachers: int, *, share: float = 0.0) -> int:
    """Return how many queries keep the noise of a :class:`pate.NoisyHistogram` at or below 0.3 votes per teacher.

    ``share`` is the part of mu^2 that is set aside for something else.
    """
    return math.floor((1 - share) * budget.mu_squared * (NOISE_PER_TEACHER * n_teachers) ** 2 / 2)


def default_heads(n_records: int | None) -> int:
    """Return how many heads vote where nothing is said: one for every 15 records, ten at least and 1,000 at most.

    Parameters
    ----------
    n_records : int or None
        Private records, public under replace-one adjacency. None where persons are protected: how many records they
        have is private, and 100 heads vote.

    Examples
    --------
    >>> default_heads(1_038), default_heads(60_000), default_heads(40), default_heads(None)
    (69, 1000, 10, 100)
    """
    return 100 if n_records is None else min(_MOST_HEADS, max(FEWEST, n_records // RECORDS_PER_TEACHER))


def share_right(sigma: float, n_teachers: int, n_classes: int) -> float:
    """Return how probably the noisy maximum is right where three in four teachers agree: at least so probably.

    The other quarter is counted for every other class, which is the worst case.

    Parameters
    ----------
    sigma : float
        Standard deviation of normal noise on every count, in votes.
    n_teachers, n_classes : int

    Examples
    --------
    >>> round(share_right(100.0, 100, 2), 3), round(share_right(100.0, 100, 10), 3), share_right(10.0, 100, 10) > 0.99
    (0.638, 0.199, True)
    """
    return _sure(sigma, n_teachers / 2, n_classes)


def check_worth(
    mechanism: Mechanism,
    n_queries: int,
    *,
    budget: Budget | None,
    n_public: int,
    n_teachers: int,
    n_classes: int,
    n_records: int | None = None,
) -> None:
    """Refuse a setting from which nearly nothing is to be expected, and name a better one.

    Fewer questions than classes, where more public rows are there; less than two records for a teacher, which then
    says the class of its one record whatever it is asked; and noise above all the votes together, where a label is
    hardly more than a guess however well teachers agree.

    Parameters
    ----------
    mechanism : Mechanism
    n_queries : int
    budget : Budget or None
        What the mechanism was calibrated to; None where somebody named the mechanism.
    n_public, n_teachers, n_classes : int
    n_records : int or None
        Private records, where each is by itself and their number is public (replace-one adjacency).

    Raises
    ------
    NotWorthwhileError

    Examples
    --------
    >>> from pate import NoisyHistogram
    >>> from pate.privacy.compose.calibrate import calibrate
    >>> tight = Budget(1.0, 1e-5)
    >>> noisy = calibrate(NoisyHistogram(1.0), tight, n_queries=400)
    >>> check_worth(noisy, 400, budget=tight, n_public=1000, n_teachers=100, n_classes=10)
    Traceback (most recent call last):
    pate.exceptions.NotWorthwhileError: nearly nothing is to be expected of 400 queries with noise of 105.5 ...
    """
    sigma = _noise(mechanism)
    if n_queries < min(n_classes, n_public):
        raise NotWorthwhileError(
            f"n_queries must be at least the number of classes ({n_classes}), got {n_queries}: a student never says a "
            f"class of which it saw no label. Ask about {min(n_public, max(2 * n_classes, 25))} rows, or say "
            "anyway=True (--anyway)."
        )
    if n_records is not None and n_teachers <= n_records < 2 * n_teachers:
        raise NotWorthwhileError(
            f"n_teachers must be at most half the number of records ({n_records}), got {n_teachers}: a teacher of one "
            f"record says its class whatever it is asked, so that nearly nothing is to be expected. Take "
            f"{max(1, n_records // RECORDS_PER_TEACHER)} teachers, or say anyway=True (--anyway)."
        )
    if sigma is None or sigma <= _MOST_NOISE_PER_TEACHER * n_teachers:
        return
    better = [f"at least {math.ceil(sigma / NOISE_PER_TEACHER)} teachers"]
    if budget is not None:
        fewer = affordable_queries(budget, n_teachers)
        if n_classes <= fewer < n_queries:
            better.append(f"n_queries={fewer}")
        enough = [e for e in _EPSILONS if e > budget.epsilon]
        enough = [
            e for e in enough if affordable_queries(Budget(e, budget.delta), n_teachers) >= max(n_classes, FEWEST)
        ]
        if enough:
            better.append(f"epsilon {enough[0]:g} with n_queries left out")
    else:
        better.append(f"noise of {NOISE_PER_TEACHER * n_teachers:.4g} or less, on fewer queries")
    raise NotWorthwhileError(
        f"nearly nothing is to be expected of {n_queries} queries with noise of {sigma:.4g} votes on every count: the "
        f"{n_teachers} teachers have no more votes than that together, and where three in four of them agree a label "
        f"is right with probability {share_right(sigma, n_teachers, n_classes):.2f} (a guess among {n_classes}: "
        f"{1 / n_classes:.2f}). Take {', or '.join(better)}; or say anyway=True (--anyway). Nothing was spent."
    )


#: Labels that teach hardly anything, however right they are.
_FEW_LABELS = 5


def check_enough(
    n_answers: int,
    mechanism: Mechanism,
    *,
    budget: Budget,
    n_public: int,
    n_teachers: int,
    n_classes: int,
    commonest: float | None = None,
) -> None:
    """Refuse to spend a budget on a handful of labels, or on labels worse than a constant, and name a better setting.

    Parameters
    ----------
    n_answers : int
        Labels that will be paid for at most.
    mechanism : Mechanism
    budget : Budget
    n_public, n_teachers, n_classes : int
    commonest : float or None
        Share of the commonest class, where that is publicly known.

    Raises
    ------
    NotWorthwhileError

    Examples
    --------
    >>> from pate import GNMax
    >>> facts = {"budget": Budget(1.0, 1e-5), "n_public": 600, "n_teachers": 100, "n_classes": 2}
    >>> check_enough(3, GNMax(9.0), **facts)
    Traceback (most recent call last):
    pate.exceptions.NotWorthwhileError: 3 of 600 public rows would get a label, which teaches hardly anything. Leave ...
    >>> check_enough(60, GNMax(99.0), commonest=0.8, **facts)
    Traceback (most recent call last):
    pate.exceptions.NotWorthwhileError: labels with noise of 99 votes are right with probability 0.76 at most, even ...
    """
    more = min(n_public, max(n_classes, FEWEST, affordable_queries(budget, n_teachers)))
    if n_answers < min(_FEW_LABELS, n_public):
        raise NotWorthwhileError(
            f"{n_answers} of {n_public} public rows would get a label, which teaches hardly anything. Leave queries, "
            f"noise and caps out: then this budget is spent on {more} labels of {n_teachers} teachers; or say "
            "anyway=True (--anyway). Nothing was spent."
        )
    sigma = _noise(mechanism)
    if commonest is None or sigma is None:
        return
    most = _sure(sigma, n_teachers, n_classes)
    if most <= check_real("commonest", commonest, low=1 / n_classes, high=1, high_open=True):
        raise NotWorthwhileError(
            f"labels with noise of {sigma:.4g} votes are right with probability {most:.2f} at most, even where all "
            f"{n_teachers} teachers agree: always naming the commonest class is right more often ({commonest:g}). Take "
            f"at least {math.ceil(sigma / NOISE_PER_TEACHER)} teachers, fewer queries or a larger epsilon; or say "
            "anyway=True (--anyway). Nothing was spent."
        )


def _sure(sigma: float, lead: float, n_classes: int) -> float:
    """Return how probably a class that leads all others by so many votes comes out, of normal noise on every count."""
    points, weights = np.polynomial.hermite_e.hermegauss(100)
    below = ndtr(points + lead / sigma) ** (n_classes - 1)
    return float((weights * below).sum() / math.sqrt(2 * math.pi))


def expected_of_votes(mechanism: Mechanism, n_teachers: int, n_classes: int) -> str:
    """Return in words what labels are expected to be worth.

    Examples
    --------
    >>> from pate import GNMax
    >>> expected_of_votes(GNMax(30.0), 100, 2)
    'a label is right with probability 0.88 at least where three in four teachers agree and are right (a guess: 0.50)'
    """
    sigma = _noise(mechanism)
    if sigma is None:
        return ""
    return (
        f"a label is right with probability {share_right(sigma, n_teachers, n_classes):.2f} at least where three in "
        f"four teachers agree and are right (a guess: {1 / n_classes:.2f})"
    )


def _noise(mechanism: Mechanism) -> float | None:
    """Return the standard deviation of the noise on a count that decides a label; None where it has none to tell."""
    sigma = getattr(mechanism, "sigma", None)
    if sigma is not None:
        return float(sigma)
    scale = getattr(mechanism, "scale", None)
    return None if scale is None else math.sqrt(2) * float(scale)
