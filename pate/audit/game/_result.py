"""What scores of two worlds say of a claim, as the result of an audit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from pate.audit.bounds import bayesian_interval, curve_test, epsilon_bound, half_counts, mu_bound, rates_bound
from pate.audit.claims import Claim
from pate.core.checks import check_real
from pate.core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.privacy.convert import gdp_to_epsilon
from pate.report.audit_result import AuditResult, Curve, Figure, Picture

LIMITS = (
    "What this attack did not find another may: a claim that stands was tried on these two worlds and this score, no "
    "more, and a bound from below says nothing of how far the truth lies above it."
)
#: Points of a line.
_N_POINTS = 100


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
    """Hold scores of two worlds against a claim: for anybody who has scores, wherever they are from.

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
        Part of ``false_alarms`` and of 1 - ``level`` that may be spent here, in (0, 1]: the rest went or will go to
        other looks at the same runs.
    settings : dict, optional
        More to be noted.
    seconds : float
        What the runs took.

    Returns
    -------
    AuditResult
        Of layer "game". Figures: "p-value of the claimed curve" (the rank test of :func:`pate.audit.bounds.curve_test`,
        by which alone the claim is refuted), "false positives", "true positives" and "allowed true positives" where it
        is most telling, "lower bound on epsilon" (ranks) and "..., Clopper-Pearson", "epsilon, Bayesian interval" (an
        estimate), "lower bound on mu", "epsilon of that mu" (an estimate unless the claim is Gaussian).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = audit_scores(rng.normal(size=500), rng.normal(3, 1, 500), claim=Claim.gaussian(1.0), published=True)
    >>> found.refuted, found["lower bound on mu"].value > 2
    (True, True)
    >>> print(found.finding)
    at ... false positives there are ... true positives, where the claim allows at most ...
    """
    held = Claim.of(claim)
    delta = check_real("delta", delta, low=0, high=1, low_open=True, high_open=True)
    level = check_real("level", level, low=0, high=1, low_open=True, high_open=True)
    alarms = check_real("false_alarms", false_alarms, low=0, high=1, low_open=True, high_open=True)
    share = check_real("share", share, low=0, high=1, low_open=True)
    first, second = np.asarray(out), np.asarray(in_)
    test = curve_test(first, second, held)
    if min(len(first), len(second)) < 2:
        raise InvalidInputError("there must be 2 runs in each world at least. Play more.")
    refuted = test.p_value <= alarms * share
    verdict = (
        f"at {test.false_positives:.2%} false positives there are {test.true_positives:.2%} true positives, where the "
        f"claim allows at most {test.allowed:.2%}"
        if refuted
        else "nothing that the claim does not allow"
    )
    if not refuted and len(np.unique(np.concatenate([first, second]))) == 1:
        verdict = "nothing: all scores are equal, so that no attack was made"
    return AuditResult(
        layer="game",
        target=target,
        claim=str(held),
        tried=tried or "scores of runs in two worlds",
        refuted=refuted,
        finding=verdict,
        false_alarms=alarms,
        n_releases=len(first) + len(second),
        seconds=seconds,
        limits=LIMITS,
        figures=tuple(_figures(first, second, held, delta, level, 1 - (1 - level) * share, test)),
        picture=roc(first, second, held),
        settings={
            "delta": delta,
            "level": level,
            "ranks tried": test.n_tried,
            "share of alpha": share,
            **(settings or {}),
        },
        sensitive=not published or held.sensitive,
    )


def _figures(
    out: FloatArray, in_: FloatArray, claim: Claim, delta: float, level: float, inner: float, test: Any
) -> Any:
    """Yield the figures; ``inner`` is the level that each is computed at, so that ``level`` holds over all looks."""
    of = f"delta {delta:g}"
    yield Figure(name="p-value of the claimed curve", value=test.p_value, of="paid for all ranks tried")
    yield Figure(name="false positives", value=test.false_positives, of="the most telling rank")
    yield Figure(name="true positives", value=test.true_positives, of="the most telling rank")
    yield Figure(name="allowed true positives", value=test.allowed, of="the most telling rank")
    promised = claim.epsilon(delta)
    yield Figure(name="claimed epsilon", value=promised if math.isfinite(promised) else None, of=of)
    ranks = epsilon_bound(out, in_, delta=delta, level=inner)
    yield Figure(name="lower bound on epsilon", value=ranks, level=level, of=of)
    counts = half_counts(out, in_, delta=delta, level=inner)
    usual = rates_bound(*counts, delta=delta, level=inner)
    yield Figure(name="lower bound on epsilon, Clopper-Pearson", value=usual, level=level, of=of)
    low, high = bayesian_interval(*counts, delta=delta, level=inner)
    yield Figure(name="epsilon, Bayesian interval", low=low, high=high, level=level, of=of, estimate=True)
    mu = mu_bound(out, in_, level=inner)
    yield Figure(name="lower bound on mu", value=mu, level=level)
    by_mu = gdp_to_epsilon(mu, delta) if mu else 0.0
    yield Figure(name="epsilon of that mu", value=by_mu, level=level, of=of, estimate=claim.kind != "gaussian")


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
    high = np.where(hits < m, betaincinv(hits + 1.0, np.maximum(m - hits, 1), 1 - tail), 1.0)
    grid = np.geomspace(1 / (10 * n), 1, _N_POINTS)
    return Picture(
        x_label="false positives",
        y_label="true positives",
        scale="log",
        curves=(
            Curve(label="attack", x=_t(rates), y=_t(hits / m), low=_t(low), high=_t(high)),
            Curve(label="the most that the claim allows", x=_t(grid), y=_t(claim.true_positives(grid)), role="claim"),
            Curve(label="guessing", x=_t(grid), y=_t(grid), role="reference"),
        ),
    )


def _t(values: Any) -> tuple[float, ...]:
    return tuple(np.asarray(values, dtype=np.float64).tolist())
