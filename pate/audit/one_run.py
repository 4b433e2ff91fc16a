"""What one run with many canaries proves, for models that can be trained once only.

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
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from scipy.stats import binom

from pate.audit.bounds import own_generator
from pate.audit.claims import Claim
from pate.core.checks import check_int, check_real
from pate.core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.privacy.convert import gdp_to_epsilon
from pate.report.audit_result import AuditResult, Figure

__all__ = ["curve_p_value", "one_run", "pair_p_value"]

#: Canaries guessed in each try, as parts of all: fixed beforehand, so that each is paid for.
_PARTS = tuple(2.0**-j for j in range(8))
_MOST = 50.0
LIMITS = (
    "One run bounds less than many runs of one canary would: canaries disturb one another, and only as much can be "
    "proved as that many coins can tell. It takes fair coins, each tossed by itself, and a claim on records that are "
    "in or nowhere (zero-out), not only on records replaced. A claim that stands was tried on these canaries and "
    "these scores."
)


def pair_p_value(m: int, n_guesses: int, n_correct: int, *, epsilon: float, delta: float) -> float:
    """Return the probability, if the run is (epsilon, delta)-DP, of guessing so many coins rightly, from above."""
    b = binom.sf(np.arange(-1, n_correct), n_guesses, expit(epsilon))  # b[j] = P(at least j)
    best = float(np.max((b[:-1][::-1] - b[-1]) / np.arange(1, n_correct + 1), initial=0.0)) if n_correct else 0.0
    return float(min(1.0, b[-1] + 2 * m * delta * best))


def curve_p_value(m: int, n_guesses: int, n_correct: int, claim: Claim) -> float:
    """Return the probability, if the claim's curve holds, of guessing so many coins rightly, from above.

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
    """Hold what one run tells of its canaries' coins against a claim.

    Parameters
    ----------
    scores : array-like of shape (m,), or CanaryScores
        The higher, the likelier the canary was in. ``DPSGDClassifier(canaries=...).fit(...).canaries_`` has both.
    included : array-like of bool, shape (m,)
        How the coins fell: fair and independent, or nothing here holds.
    claim : Claim, or what :meth:`Claim.of` takes
        For neighbours that differ in one canary's being there.
    delta, level, false_alarms : float
        Where epsilon is bounded; confidence of each bound; probability that a true claim is refuted.
    target : str
        Public words for what was audited.
    published : bool
        Whether the data are public or made up; else the result is sensitive.

    Returns
    -------
    AuditResult
        Of layer "game". The highest scores are guessed in, as many of the lowest out: all canaries, half of them, a
        quarter, ... a 128th, each try paid for by Bonferroni. Figures: "p-value of the claimed curve"
        (f-DP), "lower bound on epsilon" (Steinke et al.) and "..., f-DP" of (epsilon, delta) alone, "lower bound on
        mu", "epsilon of that mu" (an estimate unless the claim is Gaussian).

    Raises
    ------
    InvalidInputError
        Scores and coins do not go together.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> coins = rng.random(1000) < 0.5
    >>> found = one_run(coins * 3.0 + rng.normal(size=1000), coins, claim=(0.5, 1e-5), published=True)
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
    held = Claim.of(claim)
    m = check_int("the number of canaries", len(values), low=2, remedy="Hundreds are needed to prove anything.")
    delta = check_real("delta", delta, low=0, high=1, low_open=True, high_open=True)
    level = check_real("level", level, low=0, high=1, low_open=True, high_open=True)
    alarms = check_real("false_alarms", false_alarms, low=0, high=1, low_open=True, high_open=True)
    r, v = _guesses(values, coins)
    p_values = _curve_p_values(m, r, v, held)
    p = min(1.0, min(p_values) * len(r))
    best, tail = int(np.argmin(p_values)), np.full(len(r), (1 - level) / len(r))

    def by_pair(epsilon: float) -> bool:
        found = [pair_p_value(m, int(a), int(b), epsilon=epsilon, delta=delta) for a, b in zip(r, v, strict=True)]
        return bool((np.array(found) <= tail).any())

    mu = _largest(lambda x: bool(_curve_refuted(m, r, v, tail, Claim.gaussian(max(x, 1e-9))).any()))
    by_curve = _largest(lambda x: bool(_curve_refuted(m, r, v, tail, Claim.of((x, delta))).any()))
    of, refuted = f"delta {delta:g}", p <= alarms
    promised = held.epsilon(delta)
    figures = (
        Figure(name="p-value of the claimed curve", value=p, of="paid for all numbers of guesses tried"),
        Figure(name="guesses", value=int(r[best]), of="the most telling try"),
        Figure(name="right guesses", value=int(v[best]), of="the most telling try"),
        Figure(name="claimed epsilon", value=promised if math.isfinite(promised) else None, of=of),
        Figure(name="lower bound on epsilon", value=_largest(by_pair), level=level, of=of),
        Figure(name="lower bound on epsilon, f-DP", value=by_curve, level=level, of=of),
        Figure(name="lower bound on mu", value=mu, level=level),
        Figure(
            name="epsilon of that mu",
            value=gdp_to_epsilon(mu, delta) if mu else 0.0,
            level=level,
            of=of,
            estimate=held.kind != "gaussian",
        ),
    )
    return AuditResult(
        layer="game",
        target=target,
        claim=str(held),
        tried=f"one run with {m:,} canaries, each in by the toss of a coin",
        refuted=refuted,
        finding=f"{v[best]} of {r[best]} guesses are right" if refuted else "nothing that the claim does not allow",
        false_alarms=alarms,
        n_releases=1,
        seconds=time.perf_counter() - begun,
        limits=LIMITS,
        figures=figures,
        settings={"delta": delta, "level": level, "canaries": m, "guesses tried": tuple(int(n) for n in r)},
        sensitive=not published or held.sensitive,
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
    low, high = 0.0, 1.0
    if not refuted(low):
        return 0.0
    while refuted(high):
        low, high = high, 2 * high
        if low >= _MOST:
            return _MOST
    for _ in range(16):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
