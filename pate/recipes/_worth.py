"""Whether letting records vote is worth its budget: told from public facts, before anything is spent."""

from __future__ import annotations

from dataclasses import replace

from pate.core.checks import check_real
from pate.exceptions import InvalidInputError
from pate.privacy.budget import Budget
from pate.privacy.convert import gdp_from_budget
from pate.recipes._expected import LABELLED, Expectation, by_hand, expected
from pate.recipes._facts import PublicFacts
from pate.recipes._recipe import Recipe
from pate.recipes._rule import choose

#: Of the accuracy without noise, above guessing: less is refused.
LEAST_WORTH = 0.05
#: Budgets that are looked at for a better one.
EPSILONS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0)
#: A better budget leaves that much of the accuracy without noise.
_GOOD = 0.8


def least_worth(n_classes: int, commonest: float | None = None) -> float:
    """Return the share of the accuracy without noise below which labels are worth nearly nothing.

    Guessing gives 1 / n_classes, and who always names the commonest class is right as often as that class is there.
    Accuracy without noise is at most 1, so that a share below is worse than that for certain.

    Parameters
    ----------
    n_classes : int
    commonest : float or None
        Share of the commonest class, where that is publicly known; in [1 / n_classes, 1).

    Examples
    --------
    >>> least_worth(2).__round__(3), least_worth(2, 0.76)
    (0.525, 0.76)
    """
    chance = 1 / n_classes
    least = chance + LEAST_WORTH * (1 - chance)
    if commonest is None:
        return least
    commonest = check_real("commonest", commonest, low=chance, high=1, high_open=True)
    return max(least, commonest)


def at_epsilon(facts: PublicFacts, epsilon: float, delta: float) -> Expectation:
    """Return what the same records and public rows are expected to give at another budget.

    Examples
    --------
    >>> facts = PublicFacts(n_units=900, n_classes=10, mu=0.02, n_public=400)
    >>> at_epsilon(facts, 0.1, 1e-5).share < at_epsilon(facts, 3.0, 1e-5).share
    True
    """
    other = replace(facts, mu=gdp_from_budget(epsilon, delta))
    return expected(other, choose(other))


def check_expected(
    facts: PublicFacts,
    recipe: Recipe,
    *,
    unit: str,
    delta: float,
    commonest: float | None = None,
) -> Expectation:
    """Return what to expect, and refuse what is worth nearly nothing, with a better budget.

    Parameters
    ----------
    facts : PublicFacts
        Their mu is what will be spent.
    recipe : Recipe
    unit : {"record", "group"}
    delta : float
    commonest : float or None
        See :func:`least_worth`.

    Raises
    ------
    InvalidInputError
        The expected share of the accuracy without noise is not above :func:`least_worth`.

    Examples
    --------
    >>> none = PublicFacts(n_units=200, n_classes=10, mu=0.02, n_public=1_000)
    >>> check_expected(none, choose(none), unit="record", delta=1e-5)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: nearly nothing is to be expected of 200 records with noise of 50 times ...
    """
    hope, least = expected(facts, recipe), least_worth(facts.n_classes, commonest)
    if hope.share >= least:
        return hope
    told = "guessing gives as much"
    if commonest is not None and commonest >= least:
        told = (
            f"about {hope.share:.0%} of the accuracy without noise is less than always naming the commonest class "
            f"gives ({commonest:.0%})"
        )
    raise InvalidInputError(
        f"nearly nothing is to be expected of {facts.n_units} {unit}s with noise of {1 / facts.mu:.4g} times what one "
        f"may change, in {facts.n_classes} classes: {told}. {better_budget(facts, delta, least)}, or say anyway=True "
        "(--anyway). Nothing was spent."
    )


def without_privacy(facts: PublicFacts, commonest: float | None = None) -> str:
    """Return what would be right how often and cost no privacy: naming the commonest class, and labels by hand.

    Parameters
    ----------
    facts : PublicFacts
    commonest : float or None
        See :func:`least_worth`.

    Examples
    --------
    >>> without_privacy(PublicFacts(n_units=90_000, n_classes=10, mu=0.1, n_public=400), commonest=0.4)
    'always answering the commonest class would be right for 40%'
    >>> few = PublicFacts(n_units=900, n_classes=10, mu=0.1, n_public=400)
    >>> without_privacy(few).partition("; ")[2]
    '100 public rows labelled by hand would reach about as much (so in ... of ... development runs with as few r...'
    """
    named = "always answering the commonest class would reach its share (--commonest, where it is publicly known)"
    if commonest is not None:
        named = f"always answering the commonest class would be right for {commonest:.0%}"
    found = by_hand(facts)
    if found is None:
        return named
    held, n = found
    return (
        f"{named}; {LABELLED} public rows labelled by hand would reach about as much (so in {held} of {n} development "
        "runs with as few records for the noise)"
    )


def better_budget(facts: PublicFacts, delta: float, least: float) -> str:
    """Return, as the beginning of a sentence, which budget would do, or how many records it would take.

    Examples
    --------
    >>> better_budget(PublicFacts(n_units=900, n_classes=10, mu=0.02, n_public=400), 1e-5, 0.145)
    'Take epsilon ... (... of the accuracy without noise...)'
    """
    wanted = max(_GOOD, least)
    for epsilon in EPSILONS:
        hope = at_epsilon(facts, epsilon, delta)
        if gdp_from_budget(epsilon, delta) > facts.mu and hope.share >= wanted:
            told = hope if hope.within else f"about {hope.share:.0%} of the accuracy without noise, which is not sure"
            return f"Take epsilon {Budget(epsilon, delta).epsilon:g} ({told})"
    return f"Gather more than {facts.n_units} private {'records' if facts.n_units != 1 else 'record'}"
