"""An (epsilon, delta) in the terms of somebody who wants to find out about one unit."""

from __future__ import annotations

import math

from pate.privacy.convert import format_up
from pate.privacy.words import Guarantee

#: Beyond e^34 (about 6e14) a factor is no longer worth printing.
_LARGEST_EXPONENT = 34.0


def attack_bounds(epsilon: float, delta: float) -> dict[str, float | None]:
    """Return what (epsilon, delta) allows an attacker at most, each number rounded up.

    Parameters
    ----------
    epsilon, delta : float

    Returns
    -------
    dict
        ``likelihood_factor``: e^epsilon, how many times as likely (plus delta) any outcome, and so any conclusion drawn
        from it, is made by one unit's data; None where it is beyond 1e14. ``largest_advantage``: the most by which true
        and false positive rate of any test between two neighbours differ, (e^epsilon - 1 + 2 delta) / (e^epsilon + 1).
        ``largest_success``: the most often such a test is right at even odds, (1 + advantage) / 2.

    Notes
    -----
    **Guarantees.** Under (epsilon, delta)-DP the error rates a, b of a test satisfy a + e^epsilon b >= 1 - delta and
    the same with a and b exchanged (Kairouz, Oh, Viswanath 2015, Theorem 2.1); both together bound 1 - a - b.

    Examples
    --------
    >>> attack_bounds(1.0, 0.0)
    {'likelihood_factor': 2.719, 'largest_advantage': 0.4622, 'largest_success': 0.7311}
    """
    small = math.exp(-epsilon)
    advantage = min(1.0, (1 - small + 2 * delta * small) / (1 + small))
    return {
        "likelihood_factor": float(format_up(math.exp(epsilon))) if epsilon < _LARGEST_EXPONENT else None,
        "largest_advantage": min(1.0, float(format_up(advantage))),
        "largest_success": min(1.0, float(format_up((1 + advantage) / 2))),
    }


def detection_bound(epsilon: float, delta: float, false_alarms: float) -> float:
    """Return the largest share of true cases that a test with so many false alarms finds, rounded up.

    Parameters
    ----------
    epsilon, delta : float
    false_alarms : float
        Share of the others that the test takes for true cases, in [0, 1].

    Returns
    -------
    float
        In [0, 1].

    Notes
    -----
    **Guarantees.** With a = ``false_alarms`` and b the share missed, a + e^epsilon b >= 1 - delta and b + e^epsilon a
    >= 1 - delta (Kairouz, Oh, Viswanath 2015, Theorem 2.1), so 1 - b is at most e^epsilon a + delta, and at most
    1 - e^-epsilon (1 - delta - a).

    Examples
    --------
    >>> detection_bound(1.0, 0.0, 0.01), detection_bound(50.0, 1e-5, 0.01)
    (0.02719, 1.0)
    """
    small = math.exp(-epsilon)
    by_alarms = false_alarms * math.exp(epsilon) + delta if epsilon < _LARGEST_EXPONENT else 1.0
    by_misses = 1 - small * max(0.0, 1 - delta - false_alarms)
    return min(1.0, float(format_up(min(by_alarms, by_misses))))


def replaced_success(epsilon: float, delta: float) -> float:
    """Return how often a test of what one unit says is right at most, where the guarantee is about its being there.

    Parameters
    ----------
    epsilon, delta : float
        Under add-or-remove or zero-out adjacency.

    Returns
    -------
    float
        At even odds, rounded up.

    Notes
    -----
    **Guarantees.** One unit's data replaced by others are two steps, by way of the data without it: each event has
    P <= e^epsilon (e^epsilon Q + delta) + delta, which is (2 epsilon, (1 + e^epsilon) delta)-DP.

    Examples
    --------
    >>> replaced_success(1.0, 0.0) == attack_bounds(2.0, 0.0)["largest_success"], replaced_success(50.0, 1e-5)
    (True, 1.0)
    """
    if epsilon >= _LARGEST_EXPONENT:
        return 1.0
    found = attack_bounds(2 * epsilon, min(1.0, (1 + math.exp(epsilon)) * delta))["largest_success"]
    return 1.0 if found is None else found


def in_words(guarantee: Guarantee, unit: str) -> str:
    """Return two sentences for readers who know no differential privacy.

    Parameters
    ----------
    guarantee : Guarantee
    unit : {"record", "group"}

    Examples
    --------
    >>> print(in_words(Guarantee(epsilon=1.0, delta=0.0, kind="public", method="pure"), "record"))
    Any conclusion that somebody draws from the release is at most 2.719 times as likely (plus 0) as if one record ...
    """
    bounds = attack_bounds(guarantee.epsilon, guarantee.delta)
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


def _percent(share: float | None) -> str:
    return f"{math.ceil(1000 * (share or 0.0) - 1e-9) / 10:.1f}%"
