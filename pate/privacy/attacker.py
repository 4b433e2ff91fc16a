"""How often an attacker's best guess about one unit is right, under a given guarantee.

The attacker knows everything but which of two neighbouring data sets it was, holds both for as likely beforehand, and
sees all that was released. Each number is the least of what is known: an (epsilon, delta), more such pairs, a mu.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from scipy.special import ndtr, ndtri

from pate.privacy.convert import format_up
from pate.privacy.words import Guarantee

#: Beyond e^34 (about 6e14) a factor is no longer worth printing.
_LARGEST_EXPONENT = 34.0
#: Covers the last digits of the normal distribution and of a mu.
_MARGIN = 1 + 1e-11

#: Pairs (delta, epsilon), as a statement's curve has them.
Curve = Iterable[tuple[float, float]]


def attack_bounds(
    epsilon: float, delta: float, *, mu: float | None = None, curve: Curve = ()
) -> dict[str, float | None]:
    """Return what a guarantee allows an attacker at most, each number rounded up.

    Parameters
    ----------
    epsilon, delta : float
    mu : float or None
        It is mu-GDP, too.
    curve : iterable of (delta, epsilon)
        Pairs that hold, too. One with epsilon 0 is a bound on the total variation.

    Notes
    -----
    **Guarantees.** Under (epsilon, delta)-DP the error rates a, b of a test satisfy a + e^epsilon b >= 1 - delta and
    the same with a and b exchanged (Kairouz, Oh, Viswanath 2015, Theorem 2.1); both together bound the advantage
    1 - a - b by (e^epsilon - 1 + 2 delta) / (e^epsilon + 1), at epsilon 0 by delta. Under mu-GDP b is at least
    Phi(Phi^-1(1 - a) - mu) (Dong, Roth, Su 2022, Definition 2.6), and the advantage at most 2 Phi(mu/2) - 1.
    """
    advantage = min(map(pair_advantage, *_columns(epsilon, delta, curve)))
    if mu is not None:
        advantage = min(advantage, math.erf(mu / math.sqrt(8)) * _MARGIN)
    return {
        "likelihood_factor": float(format_up(math.exp(epsilon))) if epsilon < _LARGEST_EXPONENT else None,
        "largest_advantage": min(1.0, float(format_up(advantage))),
        "largest_success": min(1.0, float(format_up((1 + advantage) / 2))),
    }


def largest_success(epsilon: float, delta: float, *, mu: float | None = None, curve: Curve = ()) -> float:
    """Return how often an attacker's best guess is right at most; see :func:`attack_bounds`."""
    return float(attack_bounds(epsilon, delta, mu=mu, curve=curve)["largest_success"] or 1.0)


def detection_bound(
    epsilon: float, delta: float, false_alarms: float, *, mu: float | None = None, curve: Curve = ()
) -> float:
    """Return the largest share of true cases that a test with so many false alarms finds, rounded up.

    Parameters
    ----------
    epsilon, delta : float
    false_alarms : float
        Share of the others that the test takes for true cases, in [0, 1].
    mu, curve
        See :func:`attack_bounds`.

    Notes
    -----
    **Guarantees.** With a = ``false_alarms`` and b the share missed, a + e^epsilon b >= 1 - delta and b + e^epsilon a
    >= 1 - delta (Kairouz, Oh, Viswanath 2015, Theorem 2.1), so 1 - b is at most e^epsilon a + delta, and at most
    1 - e^-epsilon (1 - delta - a). Under mu-GDP it is at most Phi(Phi^-1(a) + mu) (Dong, Roth, Su 2022, Definition
    2.6).
    """
    found = 1.0
    for e, d in zip(*_columns(epsilon, delta, curve), strict=True):
        by_alarms = false_alarms * math.exp(e) + d if e < _LARGEST_EXPONENT else 1.0
        by_misses = 1 - math.exp(-e) * max(0.0, 1 - d - false_alarms)
        found = min(found, by_alarms, by_misses)
    if mu is not None:
        found = min(found, float(ndtr(ndtri(false_alarms) + mu)) * _MARGIN)
    return min(1.0, float(format_up(found)))


def replaced_success(epsilon: float, delta: float, *, mu: float | None = None, curve: Curve = ()) -> float:
    """Return how often a test of what one unit says is right at most, where the guarantee is about its being there.

    Parameters
    ----------
    epsilon, delta : float
        Under add-or-remove or zero-out adjacency.
    mu, curve
        See :func:`attack_bounds`; under the same adjacency.

    Notes
    -----
    **Guarantees.** One unit's data replaced by others are two steps, by way of the data without it: each event has
    P <= e^epsilon (e^epsilon Q + delta) + delta, which is (2 epsilon, (1 + e^epsilon) delta)-DP; two steps of mu-GDP
    are 2 mu-GDP (Dong, Roth, Su 2022, Theorem 2.14).
    """
    pairs = [
        (2 * e, min(1.0, (1 + math.exp(e)) * d)) if e < _LARGEST_EXPONENT else (e, 1.0)
        for e, d in zip(*_columns(epsilon, delta, curve), strict=True)
    ]
    return largest_success(*pairs[0], mu=None if mu is None else 2 * mu, curve=[(d, e) for e, d in pairs[1:]])


def in_words(guarantee: Guarantee, unit: str, *, mu: float | None = None, curve: Curve = ()) -> str:
    """Return two sentences for readers who know no differential privacy.

    Parameters
    ----------
    guarantee : Guarantee
    unit : {"record", "group"}
    mu, curve
        See :func:`attack_bounds`.
    """
    bounds = attack_bounds(guarantee.epsilon, guarantee.delta, mu=mu, curve=curve)
    who = "one person's data" if unit == "group" else "one record"
    if guarantee.adjacency == "replace-one":
        question, otherwise = f"which of two given values {who} has", f"{who} had been other data"
    else:
        question, otherwise = f"whether {who} was in the private data", f"{who} had not been there"
    factor = bounds["likelihood_factor"]
    times = f"at most {factor:g} times" if factor is not None else "up to more than 1e14 times"
    success, advantage = _percent(bounds["largest_success"]), _percent(bounds["largest_advantage"])
    return (
        f"Any conclusion that somebody draws from the release is {times} as likely "
        f"(plus {format_up(guarantee.delta, 6)}) as if {otherwise}. Who knows everything else and must tell {question} "
        f"is right at most {success} of the time at even odds, where guessing is right 50%: an advantage of at most "
        f"{advantage}."
    )


def _columns(epsilon: float, delta: float, curve: Curve) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return all epsilons, and their deltas."""
    epsilons, deltas = zip((epsilon, delta), *((e, d) for d, e in curve), strict=True)
    return epsilons, deltas


def pair_advantage(epsilon: float, delta: float) -> float:
    """Return by how much true and false positive rate differ at most under (epsilon, delta)-DP; see above."""
    small = math.exp(-epsilon)
    return min(1.0, (1 - small + 2 * delta * small) / (1 + small))


def _percent(share: float | None) -> str:
    return f"{math.ceil(1000 * (share or 0.0) - 1e-9) / 10:.1f}%"
