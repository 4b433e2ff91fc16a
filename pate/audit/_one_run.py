"""Test a claim by scores: of many runs in two worlds, or of one run with many canaries.

**One run**, for models that can be trained once only.

Each of m canaries goes in by the toss of a fair coin; after the run, r of the coins are guessed from the scores, v
rightly. Both bounds below hold for any scores, and any r fixed beforehand:

* Steinke, Nasr, Jagielski 2023, Theorem 5.2: under (epsilon, delta)-DP, with b_j = P(Binomial(r, 1/(1 + e^-epsilon))
  >= j), P(V >= v) <= b_v + 2 m delta max_{1 <= i <= v} (b_{v-i} - b_v) / i.

* Mahloujifar, Melis, Chaudhuri 2025 (their iterative bound, two choices per coin): under a whole trade-off curve, with
  C its true positives at given false positives: if P(V >= v) were t, then from h = t (r - v)/m and s = t v/m on, for
  i = v - 1, ..., 0, put h' for the smallest number >= h with s <= C(h'), s + i/(r - i) (h' - h) for s and h' for h. In
  the end s + h may not exceed r/m. It is the sharper one wherever a claim is more than one (epsilon, delta).

A claim with a delta allows everything with that probability for each canary: no p-value is far below m delta.
The coins' neighbours are those of zero-out: a canary that is not in, is nowhere.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, expit
from scipy.stats import binom

from pate._core.checks import check_int, check_real
from pate._core.types import FloatArray, IntArray
from pate.audit._bounds import (
    bayesian_interval,
    curve_test,
    doubled,
    epsilon_bound,
    half_counts,
    mu_bound,
    own_generator,
    rates_bound,
    upper_rate,
)
from pate.audit._claims import Claim
from pate.exceptions import InvalidInputError
from pate.privacy.convert import gdp_to_epsilon
from pate.report.audit_result import AuditResult, Curve, Figure, Picture

__all__ = ["audit_scores", "curve_p_value", "one_run", "pair_p_value"]

#: Canaries guessed in each try, as parts of all: fixed beforehand, so that all are corrected for.
_PARTS = tuple(2.0**-j for j in range(8))
_MOST = 50.0
#: The plural of what was tried, by the singular.
_TRIES = {"rank": "ranks", "try": "numbers of guesses"}
#: Points of a line.
_N_POINTS = 100
_OF_TWO_WORLDS = (
    "What this attack did not find another may: a claim that stands was tried on these two worlds and this score, no "
    "more, and a bound from below does not say how far the truth lies above it."
)
_OF_ONE_RUN = (
    "One run bounds less than many runs of one canary would: canaries disturb one another, and only as much can be "
    "proved as that many coins can tell. It takes fair coins, each tossed by itself, and a claim on records that are "
    "in or nowhere (zero-out), not only on records replaced. A claim that stands was tried on these canaries and "
    "these scores."
)


@dataclass(frozen=True)
class _Asked:
    """The claim that scores are tested against, the delta of its epsilon bound, and confidence levels."""

    claim: Claim
    delta: float
    level: float
    false_alarms: float
    target: str
    published: bool

    @classmethod
    def of(cls, claim: Any, target: str, published: bool, **chances: float) -> _Asked:
        checked = {k: check_real(k, v, low=0, high=1, low_open=True, high_open=True) for k, v in chances.items()}
        return cls(Claim.of(claim), target=target, published=published, **checked)

    def result(
        self,
        p_value: float,
        finding: str,
        most: dict[str, float],
        epsilons: dict[str, float],
        mu: float,
        *,
        tried_as: str,
        share: float = 1.0,
        more: tuple[Figure, ...] = (),
        settings: dict[str, Any],
        **rest: Any,
    ) -> AuditResult:
        """Return the result: ``finding`` says how the claim is exceeded, ``most`` are figures of the best try.

        ``epsilons`` are lower bounds by the end of their names; ``tried_as`` is the name of one try.
        """
        at, refuted = f"delta {self.delta:g}", p_value <= self.false_alarms * share
        promised = self.claim.epsilon(self.delta)
        of_mu, leans = gdp_to_epsilon(mu, self.delta) if mu else 0.0, self.claim.kind != "gaussian"
        bound: dict[str, Any] = {"level": self.level, "of": at}
        return AuditResult(
            layer="game",
            target=self.target,
            claim=str(self.claim),
            refuted=refuted,
            finding=finding if refuted else "nothing that the claim does not allow",
            false_alarms=self.false_alarms,
            figures=(
                Figure(
                    name="p-value of the claimed curve", value=p_value, of=f"corrected for all {_TRIES[tried_as]} tried"
                ),
                *(Figure(name=name, value=value, of=f"the most extreme {tried_as}") for name, value in most.items()),
                Figure(name="claimed epsilon", value=promised if math.isfinite(promised) else None, of=at),
                *(Figure(name=f"lower bound on epsilon{n}", value=value, **bound) for n, value in epsilons.items()),
                *more,
                Figure(name="lower bound on mu", value=mu, level=self.level),
                Figure(name="epsilon of that mu", value=of_mu, estimate=leans, **bound),
            ),
            settings={"delta": self.delta, "level": self.level, **settings},
            sensitive=not self.published or self.claim.sensitive,
            **rest,
        )


def audit_scores(
    out: npt.ArrayLike,
    in_: npt.ArrayLike,
    *,
    claim: Any,
    delta: float = 1e-5,
    level: float = 0.95,
    false_alarms: float = 1e-6,
    target: str = "scores",
    tried: str = "",
    published: bool = False,
    share: float = 1.0,
    settings: dict[str, Any] | None = None,
    seconds: float = 0.0,
) -> AuditResult:
    """Test a claim by scores of runs in two neighbouring worlds, whatever made the scores.

    Parameters
    ----------
    out, in_ : array-like of shapes (n,) and (n',)
        Scores of independent runs without and with the record (of D and of D_prime); the higher, the more "in".
    claim : Claim, or what :meth:`Claim.of` takes
    delta : float
        Where epsilon is bounded, in (0, 1).
    level : float
        Confidence of each bound, in (0, 1).
    false_alarms : float
        Probability that a true claim is refuted, in (0, 1).
    target, tried : str
        Public words: what was audited, and how.
    published : bool
        Whether the data of both worlds are public or made up; else the result is sensitive.
    share : float
        Part of ``false_alarms`` and of 1 - ``level`` that may be spent here, in (0, 1]: the rest is for other
        analyses of the same runs.
    settings : dict, optional
        Further settings to be noted.
    seconds : float
        What the runs took.

    Returns
    -------
    AuditResult
        Of layer "game". Figures: "p-value of the claimed curve" (the rank test of
        :func:`pate.audit._bounds.curve_test`, by which alone the claim is refuted), "false positives", "true positives"
        and "allowed true positives" where it is most extreme, "lower bound on epsilon" (ranks) and "...,
        Clopper-Pearson", "epsilon, Bayesian interval" (an estimate), "lower bound on mu", "epsilon of that mu" (an
        estimate unless the claim is Gaussian).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = audit_scores(
    ...     rng.normal(size=500),
    ...     rng.normal(3, 1, 500),
    ...     claim=Claim.gaussian(1.0),
    ...     published=True,
    ... )
    >>> found.refuted, found["lower bound on mu"].value > 2
    (True, True)
    >>> print(found.finding)
    at ... false positives there are ... true positives, where the claim allows at most ...
    """
    asked = _Asked.of(claim, target, published, delta=delta, level=level, false_alarms=false_alarms)
    share = check_real("share", share, low=0, high=1, low_open=True)
    first, second = np.asarray(out), np.asarray(in_)
    test = curve_test(first, second, asked.claim)
    if min(len(first), len(second)) < 2:
        raise InvalidInputError("there must be 2 runs in each world at least. Play more.")
    finding = (
        f"at {test.false_positives:.2%} false positives there are {test.true_positives:.2%} true positives, where the "
        f"claim allows at most {test.allowed:.2%}"
    )
    # At this level each, so that the given level holds over all analyses.
    at: dict[str, Any] = {"delta": asked.delta, "level": 1 - (1 - asked.level) * share}
    counts = half_counts(first, second, **at)
    low, high = bayesian_interval(*counts, **at)
    by_halves = Figure(name="epsilon, Bayesian interval", low=low, high=high, level=asked.level,
                       of=f"delta {asked.delta:g}", estimate=True)  # fmt: skip
    found = asked.result(
        test.p_value,
        finding,
        {"false positives": test.false_positives, "true positives": test.true_positives,
         "allowed true positives": test.allowed},
        {"": epsilon_bound(first, second, **at), ", Clopper-Pearson": rates_bound(*counts, **at)},
        mu_bound(first, second, level=at["level"]),
        tried_as="rank",
        share=share,
        more=(by_halves,),
        settings={"ranks tried": test.n_tried, "share of alpha": share, **(settings or {})},
        tried=tried or "scores of runs in two worlds",
        n_releases=len(first) + len(second),
        seconds=seconds,
        limits=_OF_TWO_WORLDS,
        picture=roc(first, second, asked.claim),
    )  # fmt: skip
    if not found.refuted and len(np.unique(np.concatenate([first, second]))) == 1:
        return replace(found, finding="nothing: all scores are equal, so that no attack was made")
    return found


def roc(out: FloatArray, in_: FloatArray, claim: Claim, *, level: float = 0.95) -> Picture:
    """Return the ROC on log axes, with pointwise Clopper-Pearson intervals, under the claim's curve."""
    n, m = len(out), len(in_)
    k = np.unique(np.round(np.geomspace(1, n, _N_POINTS)).astype(int))
    # The threshold that at most k - 1 scores of the first world exceed; with ties fewer do.
    thresholds = np.sort(out)[::-1][k - 1]
    rates = (n - np.searchsorted(np.sort(out), thresholds, side="left")) / n
    rates, first = np.unique(rates, return_index=True)
    hits = m - np.searchsorted(np.sort(in_), thresholds[first], side="left")
    tail = (1 - level) / 2
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), m - hits + 1.0, tail), 0.0)
    band = {"low": low.tolist(), "high": upper_rate(hits, m, tail).tolist()}
    seen = Curve(label="attack", x=rates.tolist(), y=(hits / m).tolist(), **band)
    grid = np.geomspace(1 / (10 * n), 1, _N_POINTS)
    curves = (seen, *ceiling(claim, grid, "the most that the claim allows"))
    return Picture(x_label="false positives", y_label="true positives", scale="log", curves=curves)


def ceiling(claim: Claim | None, rates: FloatArray, label: str) -> list[Curve]:
    """Return reference curves for a picture of rates: the claim's, if there is a claim, and guessing."""
    x = rates.tolist()
    lines = [] if claim is None else [Curve(label=label, x=x, y=claim.true_positives(rates).tolist(), role="claim")]
    return [*lines, Curve(label="guessing", x=x, y=x, role="reference")]


# One run with many canaries.


def pair_p_value(m: int, n_guesses: int, n_correct: int, *, epsilon: float, delta: float) -> float:
    """Return the probability, if the run is (epsilon, delta)-DP, of guessing so many coins rightly: an upper bound."""
    b = binom.sf(np.arange(-1, n_correct), n_guesses, expit(epsilon))  # b[j] = P(at least j)
    best = float(np.max((b[:-1][::-1] - b[-1]) / np.arange(1, n_correct + 1), initial=0.0)) if n_correct else 0.0
    return float(min(1.0, b[-1] + 2 * m * delta * best))


def curve_p_value(m: int, n_guesses: int, n_correct: int, claim: Claim) -> float:
    """Return the probability, if the claim's curve holds, of guessing so many coins rightly: an upper bound.

    Found by bisection of the t above, up to 1e-3 relative; not below 1e-15.
    """
    return _curve_p_values(m, np.array([n_guesses]), np.array([n_correct]), claim)[0]


def _curve_p_values(m: int, r: IntArray, v: IntArray, claim: Claim) -> list[float]:
    low, high = np.full(len(r), math.log(1e-15)), np.zeros(len(r))
    first = _curve_refuted(m, r, v, np.exp(high), claim)
    for _ in range(16):
        middle = (low + high) / 2
        hit = _curve_refuted(m, r, v, np.exp(middle), claim)
        low, high = np.where(hit, low, middle), np.where(hit, middle, high)
    return [float(p) for p in np.where(first, np.exp(high), 1.0)]


def _curve_refuted(m: int, r: IntArray, v: IntArray, t: FloatArray, claim: Claim) -> npt.NDArray[np.bool_]:
    """Return, for each try, whether P(V >= v) >= t contradicts the claim."""
    s, h = t * v / m, t * (r - v) / m
    for step in range(int(v.max(initial=0))):
        i = v - 1 - step
        # The curve is symmetric, so that the least h with C(h) >= s is 1 - C(1 - s).
        needed = np.where(i >= 0, 1.0 - claim.true_positives(1.0 - np.minimum(s, 1.0)), h)
        rise = np.maximum(needed - h, 0.0)
        if not rise.any():  # neither h nor s will ever change again
            break
        s = np.minimum(s + i.clip(0) / (r - i.clip(0)) * rise, 1.0)
        h = h + rise
    return np.asarray((s + h > r / m * (1 + 1e-12)) & (v > 0))


def one_run(
    scores: Any,
    included: npt.ArrayLike | None = None,
    *,
    claim: Any,
    delta: float = 1e-5,
    level: float = 0.95,
    false_alarms: float = 1e-3,
    target: str = "one run",
    published: bool = False,
) -> AuditResult:
    """Test a privacy claim by one training run with many artificial records (canaries), each included by a coin toss.

    Parameters
    ----------
    scores : array-like of shape (m,), or CanaryScores
        The higher, the likelier the canary was in. ``DPSGDClassifier(...).fit(X, y, canaries=...).canaries_``
        has both.
    included : array-like of bool, shape (m,)
        How the coins fell: fair and independent, or nothing here holds.
    claim : Claim, or what :meth:`Claim.of` takes
        The claim to test, for neighbours of which only one includes a given canary.
    delta, level, false_alarms : float
        The delta at which epsilon is bounded; the confidence of each bound; the probability, at most, that a true claim
        is refuted.
    target : str
        Public words for what was audited.
    published : bool
        Whether the data are public or made up; else the result is sensitive.

    Returns
    -------
    AuditResult
        The layer is "game". The canaries with the highest scores are guessed to be in, as many with the lowest to be
        out: all canaries, half of them, a quarter, ... a 128th, corrected by Bonferroni. Figures: "p-value of the
        claimed curve" (f-DP), "lower bound on epsilon" (Steinke et al.) and "..., f-DP" of (epsilon, delta) alone,
        "lower bound on mu", "epsilon of that mu" (an estimate unless the claim is Gaussian).

    Raises
    ------
    InvalidInputError
        Scores and coins do not go together.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> coins = rng.random(1000) < 0.5
    >>> found = one_run(
    ...     coins * 3.0 + rng.normal(size=1000), coins, claim=(0.5, 1e-5), published=True
    ... )
    >>> found.refuted, 0.5 < found["lower bound on epsilon"].value < 17
    (True, True)
    """
    begun = time.perf_counter()
    if included is None:
        scores, included = getattr(scores, "scores", scores), getattr(scores, "included", None)
    values, coins = np.asarray(scores, dtype=np.float64), np.asarray(included)
    if coins.dtype.kind != "b" or values.ndim != 1 or coins.shape != values.shape or np.isnan(values).any():
        raise InvalidInputError(
            "scores and included must be vectors of one length: numbers without NaN, and True where the canary was in. "
            "Pass a model's canaries_, or both arrays."
        )
    asked = _Asked.of(claim, target, published, delta=delta, level=level, false_alarms=false_alarms)
    m = check_int("the number of canaries", len(values), low=2, remedy="Hundreds are needed to prove anything.")
    delta = asked.delta
    r, v = _guesses(values, coins)
    p_values = _curve_p_values(m, r, v, asked.claim)
    p = min(1.0, min(p_values) * len(r))
    best, tail = int(np.argmin(p_values)), np.full(len(r), (1 - asked.level) / len(r))

    def by_pair(epsilon: float) -> bool:
        found = [pair_p_value(m, int(a), int(b), epsilon=epsilon, delta=delta) for a, b in zip(r, v, strict=True)]
        return bool((np.array(found) <= tail).any())

    def by_curve(other: Claim) -> bool:
        return bool(_curve_refuted(m, r, v, tail, other).any())

    return asked.result(
        p,
        f"{v[best]} of {r[best]} guesses are right",
        {"guesses": int(r[best]), "right guesses": int(v[best])},
        {"": _largest(by_pair), ", f-DP": _largest(lambda x: by_curve(Claim.of((x, delta))))},
        _largest(lambda x: by_curve(Claim.gaussian(max(x, 1e-9)))),
        tried_as="try",
        settings={"canaries": m, "guesses tried": r.tolist()},
        tried=f"one run with {m:,} canaries, each in by the toss of a coin",
        n_releases=1,
        seconds=time.perf_counter() - begun,
        limits=_OF_ONE_RUN,
    )


def _guesses(scores: FloatArray, coins: npt.NDArray[np.bool_]) -> tuple[IntArray, IntArray]:
    """Return how many coins are guessed in each try, and how many of them rightly; ties are broken at random."""
    m = len(scores)
    order = np.lexsort((own_generator().random(m), scores))
    sides = np.unique(np.maximum(1, np.array([int(part * m) // 2 for part in _PARTS])))
    right = [int(coins[order[m - k :]].sum() + (~coins[order[:k]]).sum()) for k in sides]
    return 2 * sides.astype(np.int64), np.array(right, dtype=np.int64)


def _largest(refuted: Callable[[float], bool]) -> float:
    """Return about the largest number that is refuted; 0 where none is."""
    low, high = doubled(refuted, 0.0, _MOST)
    for _ in range(16 if low < high else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
