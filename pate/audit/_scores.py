"""What scores of two worlds say of a claim, as the result of an audit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from pate.audit.bounds import bayesian_interval, curve_test, epsilon_bound, half_counts, mu_bound, rates_bound
from pate.audit.claims import Claim
from pate.core.checks import check_real, shown
from pate.core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.mechanisms import ConfidentGNMax, GNMax, LNMax, NoisyHistogram
from pate.noise.source import NoiseSource
from pate.privacy.convert import gdp_to_epsilon
from pate.report.audit_result import AuditResult, Curve, Figure, Picture
from pate.votes import ABSTAIN

# How one run becomes one number: the higher, the more it looks like the second world.


def is_learnt(score: Any) -> bool:
    """Return whether the score is a classifier, which must be trained on runs of its own."""
    return (isinstance(score, str) and score == "classifier") or hasattr(score, "predict_proba")


def said(score: Any) -> str:
    """Return the score in words."""
    if isinstance(score, str):
        return {"likelihood": "the log likelihood ratio", "classifier": "a classifier trained on half of the runs"}[
            score
        ]
    name = getattr(score, "__name__", type(score).__name__)
    return (
        f"a classifier ({name}) trained on half of the runs" if is_learnt(score) else f"a function of the user ({name})"
    )


def scorer(score: Any, release: Any) -> Callable[[Any, Any, Any, bool], FloatArray]:
    """Return what turns outputs into an array with one row per run: a score, or the features of a classifier.

    Raises
    ------
    InvalidInputError
        "likelihood" for a release that knows none, or something that is no score.
    """
    if isinstance(score, str) and score == "likelihood":
        if not callable(getattr(release, "log_ratio", None)):
            raise InvalidInputError(
                "score='likelihood' needs a release with log_ratio(outputs, D, D_prime), such as MechanismRelease. "
                "Pass a function of one output, or score='classifier'."
            )
        return partial(_likelihood, release)
    if is_learnt(score):
        return _features
    if callable(score):
        return partial(_own, score)
    raise InvalidInputError(
        f"score must be 'likelihood', 'classifier', a function of an output or a classifier, got {shown(score)}."
    )


def _likelihood(release: Any, outputs: Any, D: Any, D_prime: Any, batched: bool) -> FloatArray:
    whole = outputs if batched else np.stack([np.asarray(output) for output in outputs])
    return np.asarray(release.log_ratio(whole, D, D_prime), dtype=np.float64)


def _own(score: Any, outputs: Any, D: Any, D_prime: Any, batched: bool) -> FloatArray:
    return np.asarray(score(outputs) if batched else [score(output) for output in outputs], dtype=np.float64)


def _features(outputs: Any, D: Any, D_prime: Any, batched: bool) -> FloatArray:
    rows = [np.asarray(output, dtype=np.float64).ravel() for output in outputs]
    if len({len(row) for row in rows}) > 1:
        raise InvalidInputError("a classifier needs outputs of one size. Pass a score of your own, score=function.")
    return np.stack(rows)


def trained(score: Any, out: FloatArray, in_: FloatArray, seed: int) -> Callable[[FloatArray], FloatArray]:
    """Return the log odds of the second world, as a classifier learnt them from runs that are used for nothing else.

    ``"classifier"``: a logistic regression or a forest, whichever has the better cross-validated likelihood there.
    """
    from sklearn.base import clone
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = np.concatenate([out, in_]), np.repeat([0, 1], [len(out), len(in_)])
    if isinstance(score, str):
        candidates = [
            make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
            RandomForestClassifier(200, min_samples_leaf=5, random_state=seed),
        ]
        folds = min(5, len(out), len(in_))
        means = [cross_val_score(c, X, y, scoring="neg_log_loss", cv=folds).mean() for c in candidates]
        chosen = candidates[int(np.argmax(means))]
    else:
        chosen = clone(score)
    model = chosen.fit(X, y)

    def score_of(rows: FloatArray) -> FloatArray:
        p = np.clip(model.predict_proba(rows)[:, 1], 1e-15, 1 - 1e-15)
        return np.asarray(np.log(p) - np.log1p(-p))

    return score_of


# What is played: anything that makes a release of a world, and ready ones for mechanisms.


class Release(Protocol):
    """A whole run: of a world's data and a seed, what gets out. With ``size``, that many runs at once.

    What is fixed before the release (the partition, training seeds, the public rows) must stay the same in every run
    of both worlds: a guarantee holds given them, and drawing them anew hides a leak in their noise. The seed is for
    the noise that the guarantee is about.

    A release whose likelihoods are known has ``log_ratio(outputs, D, D_prime) -> (size,)`` as well: the log likelihood
    of each output under D_prime over that under D.

    Examples
    --------
    >>> made: Release = NoisySum(1.0)
    >>> made(np.zeros(2), 0).shape
    (2,)
    """

    def __call__(self, world: Any, seed: int, /) -> Any: ...


def _check_alike(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> None:
    if a.shape != b.shape:
        raise InvalidInputError(f"D and D_prime must have one shape, got {a.shape} and {b.shape}: they are neighbours.")


@dataclass(frozen=True)
class NoisySum:
    """Release an array plus N(0, sigma^2) on every entry: noisy counts, sums of clipped gradients.

    Parameters
    ----------
    sigma : float

    Examples
    --------
    >>> one = NoisySum(0.1)
    >>> outputs = one(np.zeros(2), 7, 1000)
    >>> outputs.shape, bool(one.log_ratio(outputs, np.zeros(2), np.ones(2)).mean() < 0)
    ((1000, 2), True)
    """

    sigma: float

    def __post_init__(self) -> None:
        check_real("sigma", self.sigma, low=0, low_open=True)

    def __call__(self, world: npt.ArrayLike, seed: int, size: int | None = None) -> FloatArray:
        values = np.asarray(world, dtype=np.float64)
        noise = np.random.default_rng(seed).normal(0.0, self.sigma, (size or 1, *values.shape))
        return values + noise if size else (values + noise)[0]

    def log_ratio(self, outputs: FloatArray, D: npt.ArrayLike, D_prime: npt.ArrayLike) -> FloatArray:
        """Return log likelihood ratios, shape (size,)."""
        a, b = (np.asarray(world, dtype=np.float64) for world in (D, D_prime))
        _check_alike(a, b)
        ratio = ((outputs - a) ** 2 - (outputs - b) ** 2) / (2 * self.sigma**2)
        return np.asarray(ratio.reshape(len(outputs), -1).sum(axis=1))


@dataclass(frozen=True)
class MechanismRelease:
    """Release what a mechanism lets out about vote counts; a world is counts of shape (n_queries, n_classes).

    Parameters
    ----------
    mechanism : GNMax, LNMax, ConfidentGNMax or NoisyHistogram
        What is claimed: outputs are scored by its exact law.
    sampler : callable or None
        Of counts (n, n_classes) to labels (n,), or to noisy counts (n, n_classes): what really draws, such as another
        library's mechanism. None lets ``mechanism`` draw.

    Examples
    --------
    >>> release = MechanismRelease(GNMax(1.0))
    >>> labels = release([[3, 3], [4, 2]], 7, 100)   # 100 runs of two queries
    >>> labels.shape, release.log_ratio(labels, [[3, 3], [4, 2]], [[2, 4], [4, 2]]).shape
    ((100, 2), (100,))
    """

    mechanism: GNMax | LNMax | ConfidentGNMax | NoisyHistogram
    sampler: Callable[[npt.NDArray[np.int64]], npt.ArrayLike] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, GNMax | LNMax | ConfidentGNMax | NoisyHistogram):
            raise InvalidInputError(
                "mechanism must be GNMax, LNMax, ConfidentGNMax or NoisyHistogram, whose laws are known, got "
                f"{shown(self.mechanism)}. Write a release of your own, and pass score= to the game."
            )

    def __call__(self, world: npt.ArrayLike, seed: int, size: int | None = None) -> npt.NDArray[Any]:
        counts = np.atleast_2d(np.asarray(world, dtype=np.int64))
        rows = np.tile(counts, (size or 1, 1))
        if self.sampler is not None:
            drawn = np.asarray(self.sampler(rows))
        else:
            draw = self.mechanism.sample(rows, NoiseSource(seed))
            drawn = draw.labels if draw.noisy_counts is None else draw.noisy_counts
        if len(drawn) != len(rows):
            raise InvalidInputError(f"sampler must return one outcome for each of {len(rows)} rows, got {len(drawn)}.")
        return drawn.reshape(size, len(counts), *drawn.shape[1:]) if size else drawn

    def log_ratio(self, outputs: npt.NDArray[Any], D: npt.ArrayLike, D_prime: npt.ArrayLike) -> FloatArray:
        """Return log likelihood ratios, shape (size,)."""
        a, b = (np.atleast_2d(np.asarray(world, dtype=np.int64)) for world in (D, D_prime))
        _check_alike(a, b)
        if isinstance(self.mechanism, NoisyHistogram):
            return NoisySum(self.mechanism.sigma).log_ratio(outputs, a, b)
        ratio = self.mechanism.log_probs(b) - self.mechanism.log_probs(a)  # a refusal stands last
        n_classes, refuses = a.shape[1], ratio.shape[1] > a.shape[1]
        if not ((outputs < n_classes) & (outputs >= (ABSTAIN if refuses else 0))).all():
            refusal = f", or {ABSTAIN} where it refuses" if refuses else ""
            raise InvalidInputError(
                f"sampler must return labels 0 to {n_classes - 1}{refusal}: {self.mechanism!r} releases nothing else. "
                "Its claim does not hold of such a sampler."
            )
        columns = np.where(outputs == ABSTAIN, ratio.shape[1] - 1, outputs)
        return np.asarray(ratio[np.arange(len(a))[None, :], columns].sum(axis=1))


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
