"""The expected accuracy of record voters, from public facts alone, before anything is spent."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
from scipy.special import expit

from pate._core.checks import check_real
from pate._core.types import FloatArray
from pate.exceptions import NotWorthwhileError
from pate.models.recipes._rule import PublicFacts, Recipe, choose
from pate.privacy.budget import Budget
from pate.privacy.convert import gdp_from_budget

# The expected accuracy of a recipe, before any private record is read, and where it is unknown.

_FILE = "expected.json"
#: With a wider interval the accuracy counts as unknown.
_WIDEST = 0.16
#: Half widths are stored at these levels of evidence.
_KNOTS = (2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 65.0, 100.0, 150.0, 250.0, 500.0)
#: Public rows labelled by hand, for a logistic regression without private records: where evidence is below this, that
#: reaches about as much (a hundredth less at most) in most development runs.
LABELLED = 100
_BY_HAND_BELOW = {"two": 40.0, "more": 20.0}
_PLURAL = {"image": "images", "glyph": "images", "text": "texts", "mixed": "tables with categories", "table": "tables"}


@dataclass(frozen=True)
class Expectation:
    """The expected accuracy, as a share of the accuracy without noise, and whether stored runs support it.

    "Without noise" is what the rule would reach with the same records and public rows at mu = 50; public facts cannot
    say how accurate that is.

    Attributes
    ----------
    share : float
        Accuracy, divided by what the rule reaches without noise: at least 1 / n_classes.
    plus_minus : float
        Half the width of an interval that holds nine in ten of the development runs at that level of evidence, on
        tables that the law was not fitted to.
    within : bool
        Whether it is known: the facts are like those of the development runs, and the interval is narrow.
    n_runs, n_tables : int
        How many runs the law was fitted to, on how many tables.
    doubt : str
        Why it is unknown, where it is.

    Examples
    --------
    >>> print(Expectation(0.95, 0.03, True))
    92% to 98% of the accuracy without noise
    """

    share: float
    plus_minus: float
    within: bool
    n_runs: int = 0
    n_tables: int = 0
    doubt: str = ""

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the interval, from 0 to 1."""
        return _ends(self.share, self.plus_minus)

    def __str__(self) -> str:
        low, high = self.interval
        if self.within:
            return f"{math.floor(100 * low)}% to {math.ceil(100 * high)}% of the accuracy without noise"
        return f"not known: {self.doubt or 'nothing like it was measured'}"


def expected(facts: PublicFacts, recipe: Recipe) -> Expectation:
    """Return the expected accuracy of record voters, as a share of the accuracy without noise, from public facts.

    The share above chance is a logistic function of log evidence, log public rows and whether there are two classes,
    fitted by ``experiments/_expected_law.py`` to the stored runs of ``rule_development.py``.

    Examples
    --------
    >>> from pate.models.recipes import choose
    >>> facts = PublicFacts(n_units=20_000, n_classes=10, mu=0.14, n_public=1_000)
    >>> expected(facts, choose(facts)).share > 0.9
    True
    >>> none = PublicFacts(n_units=450, n_classes=10, mu=0.03, n_public=1_000)
    >>> print(expected(none, choose(none)))
    not known: with so few records for this noise (evidence 0.955) tables differ too much
    """
    law = _law()
    share, half = _predicted(law, facts.evidence, facts.n_classes, facts.n_public)
    doubt = _unlike(law, facts, recipe)
    low, high = _ends(share, half)
    if not doubt and high - low > _WIDEST:
        doubt = f"with so few records for this noise (evidence {facts.evidence:.3g}) tables differ too much"
        if facts.evidence >= law["evidence"][0] and high - low < 0.5:
            doubt += f", {low:.0%} to {high:.0%} of the accuracy without noise"
    return Expectation(share, half, not doubt, law["n_runs"], len(law["tables"]), doubt)


def by_hand(facts: PublicFacts) -> tuple[int, int] | None:
    """Return (k, n): in k of n development runs 100 public rows labelled by hand reached about as much.

    None where evidence is too large for that to be likely, where there are fewer than 100 public rows, and where
    nothing similar was measured.
    """
    law, key = _law(), _key(facts.n_classes)
    if facts.n_public < LABELLED or facts.kind not in law["kinds"] or facts.n_classes > law["classes"][1]:
        return None
    held, n = law["by_hand"][key]
    return (held, n) if facts.evidence < _BY_HAND_BELOW[key] else None


def _unlike(law: Mapping[str, Any], facts: PublicFacts, recipe: Recipe) -> str:
    """Return how the facts differ from those of all development runs; empty if they do not."""
    if facts.kind not in law["kinds"]:
        return f"{_PLURAL[facts.kind]} were not measured"
    if recipe.student not in (None, "ridge"):
        return f"a student of kind {recipe.student!r} was not measured"
    most = law["classes"][1]
    if facts.n_classes > most:
        return f"{facts.n_classes} classes are more than were measured ({most})"
    for name, value in (("public rows", facts.n_public), ("private records", facts.n_units)):
        least = law[name.replace(" ", "_")][0]
        if value < least:
            return f"{value:,} {name} are fewer than were measured ({least:,})"
    return ""


def _key(n_classes: int) -> str:
    return "two" if n_classes == 2 else "more"


def _predicted(law: Mapping[str, Any], evidence: float, n_classes: int, n_public: int) -> tuple[float, float]:
    """Return the share that the law predicts, and half the width of its interval."""
    n_public = min(max(n_public, law["public_rows"][0]), law["public_rows"][1])
    x, chance = _inputs(evidence, n_classes, n_public), 1 / n_classes
    share = chance + (1 - chance) * float(expit(x @ np.asarray(law["coefficients"])))
    half = np.interp(math.log(max(evidence, 1e-300)), np.log(_KNOTS), law["half_width"][_key(n_classes)])
    return share, float(half)


def _ends(share: float, half: float) -> tuple[float, float]:
    return max(0.0, share - half), min(1.0, share + half)


def _inputs(evidence: float, n_classes: int, n_public: int) -> FloatArray:
    return np.array([1.0, math.log(max(evidence, 1e-300)), float(n_classes == 2), math.log(n_public)])


@lru_cache(maxsize=1)
def _law() -> dict[str, Any]:
    return dict(json.loads(files("pate.models.recipes").joinpath(_FILE).read_text(encoding="utf-8")))


#: Share of the accuracy without noise, above guessing; less is refused.
LEAST_USEFUL = 0.05
#: Budgets tried, to suggest a better one.
EPSILONS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0)
#: A better budget leaves that much of the accuracy without noise.
_GOOD = 0.8


def least_useful(n_classes: int, commonest: float | None = None) -> float:
    """Return the share of the accuracy without noise below which labels are nearly useless.

    Guessing gives 1 / n_classes, and always naming the commonest class gives its share. Accuracy without noise is at
    most 1, so a share below that is certainly worse.

    Parameters
    ----------
    n_classes : int
    commonest : float or None
        Share of the commonest class, where that is publicly known; in [1 / n_classes, 1).

    Examples
    --------
    >>> least_useful(2).__round__(3), least_useful(2, 0.76)
    (0.525, 0.76)
    """
    chance = 1 / n_classes
    least = chance + LEAST_USEFUL * (1 - chance)
    if commonest is None:
        return least
    commonest = check_real("commonest", commonest, low=chance, high=1, high_open=True)
    return max(least, commonest)


def at_epsilon(facts: PublicFacts, epsilon: float, delta: float) -> Expectation:
    """Return the expected accuracy for the same records and public rows at another budget.

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
    """Return the expected accuracy; refuse if labels would be nearly useless, and suggest a better budget.

    The mu of the facts is what will be spent; for ``commonest`` see :func:`least_useful`.

    Raises
    ------
    NotWorthwhileError
        The expected share of the accuracy without noise is not above :func:`least_useful`.

    Examples
    --------
    >>> none = PublicFacts(n_units=200, n_classes=10, mu=0.02, n_public=1_000)
    >>> check_expected(none, choose(none), unit="record", delta=1e-5)
    Traceback (most recent call last):
    pate.exceptions.NotWorthwhileError: nearly nothing is to be expected of 200 records with noise of 50 times ...
    """
    hope, least = expected(facts, recipe), least_useful(facts.n_classes, commonest)
    if hope.share >= least:
        return hope
    reason = "guessing gives as much"
    if commonest is not None and commonest >= least:
        reason = (
            f"about {hope.share:.0%} of the accuracy without noise is less than always naming the commonest class "
            f"gives ({commonest:.0%})"
        )
    raise NotWorthwhileError(
        f"nearly nothing is to be expected of {facts.n_units} {unit}s with noise of {1 / facts.mu:.4g} times what one "
        f"may change, in {facts.n_classes} classes: {reason}. {better_budget(facts, delta, least)}, or say force=True "
        "(--force). Nothing was spent."
    )


#: Evidence below which DP-SGD did no better than chance: on digits and on two tables of two classes, of 400 to 2,000
#: records, six runs each. A guess for all other data: some will need more, a few might do with less.
LEAST_EVIDENCE = 1.0


def check_worth(facts: PublicFacts, *, unit: str, force: bool = False) -> None:
    """Refuse a model of classes that noise alone would decide, by public numbers and before anything is spent.

    Raises
    ------
    NotWorthwhileError
        The evidence is below 1, and ``force`` is False.

    Examples
    --------
    >>> check_worth(
    ...     PublicFacts(n_units=300, n_classes=2, mu=0.004, n_public=0), unit="record"
    ... )
    Traceback (most recent call last):
    pate.exceptions.NotWorthwhileError: nearly nothing is to be expected of 300 records in 2 classes at this budget: ...
    """
    if force or facts.evidence >= LEAST_EVIDENCE:
        return
    enough = math.ceil(facts.n_units * LEAST_EVIDENCE / facts.evidence)
    raise NotWorthwhileError(
        f"nearly nothing is to be expected of {facts.n_units:,} {unit}s in {facts.n_classes} classes at this budget: "
        f"the evidence n mu / (m Delta) is {facts.evidence:.3g}, and models of less than {LEAST_EVIDENCE:g} named "
        f"classes by chance. Take {enough:,} {unit}s or many more, or that many times the epsilon; or say force=True "
        "(--force). Nothing was spent."
    )


def caution(facts: PublicFacts, hope: Expectation, commonest: float | None = None) -> str:
    """Return a warning where labels may be no better than the commonest class, or nobody knows; "" elsewhere.

    Examples
    --------
    >>> from pate.models.recipes import choose
    >>> none = PublicFacts(n_units=450, n_classes=10, mu=0.03, n_public=1_000)
    >>> caution(none, expected(none, choose(none)))
    'how good the labels will be is not known: with so few records ... no better than always answering the commonest...'
    """
    about = ""
    if not hope.within:
        about = f"how good the labels will be is {hope}"
    elif hope.share < least_useful(facts.n_classes, commonest):
        about = f"about {hope.share:.0%} of the accuracy without noise is expected"
    return about and f"{about}. They may be no better than always answering the commonest class."


def share_in_words(hope: Expectation, commonest: float | None = None) -> str:
    """Return the expected share, and whether always naming the commonest class may be all of it.

    Examples
    --------
    >>> share_in_words(Expectation(0.95, 0.03, True), commonest=0.5)
    '92% to 98% of the accuracy without noise'
    >>> share_in_words(Expectation(0.95, 0.03, True)).partition("; ")[2]
    'where one class is common, always naming it may be all of that'
    """
    if not hope.within or (commonest is not None and commonest < hope.interval[0]):
        return str(hope)
    named = "where one class is common, always naming it"
    if commonest is not None:
        named = f"always naming the commonest class ({commonest:.0%})"
    return f"{hope}; {named} may be all of that"


def without_privacy(facts: PublicFacts, commonest: float | None = None) -> str:
    """Return a text on alternatives that cost no privacy: naming the commonest class, and labelling by hand.

    Examples
    --------
    >>> without_privacy(
    ...     PublicFacts(n_units=90_000, n_classes=10, mu=0.1, n_public=400), commonest=0.4
    ... )
    'always answering the commonest class would be right for 40%'
    >>> few = PublicFacts(n_units=900, n_classes=10, mu=0.1, n_public=400)
    >>> without_privacy(few).partition("; ")[2]
    '100 public rows labelled by hand would reach about as much (so in ... of ... development runs with as few r...'
    """
    named = "always answering the commonest class would reach its share (say it by --commonest, if publicly known)"
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
    """Return a remedy, the beginning of a sentence: a budget that would suffice, or more records.

    Examples
    --------
    >>> better_budget(
    ...     PublicFacts(n_units=900, n_classes=10, mu=0.02, n_public=400), 1e-5, 0.145
    ... )
    'Take epsilon ... (... of the accuracy without noise...)'
    """
    wanted = max(_GOOD, least)
    for epsilon in EPSILONS:
        hope = at_epsilon(facts, epsilon, delta)
        if gdp_from_budget(epsilon, delta) > facts.mu and hope.share >= wanted:
            given = hope if hope.within else f"about {hope.share:.0%} of the accuracy without noise, which is not sure"
            return f"Take epsilon {Budget(epsilon, delta).epsilon:g} ({given})"
    return f"Gather more than {facts.n_units} private {'records' if facts.n_units != 1 else 'record'}"
