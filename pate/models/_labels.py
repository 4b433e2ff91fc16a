"""Several labels at once on record voters: what to ask of the records, round by round, and the model of the answers.

Nothing here reads a private record or draws noise. :class:`LabelsPlan` fixes all shares of the budget by public facts;
:meth:`LabelsPlan.start` gives a :class:`Labels`, whose :attr:`~Labels.ask` says what records contribute next, and
:meth:`~Labels.updated` takes the released noisy sum. Steps: one sum of label vectors gives how common each label is;
in every other round a record votes phi (x) clip_C(w (l - p)) for all labels at once, p being the model so far, so that
its cost does not grow with the number of labels as split budgets do; records that were held out are counted as true
and false positives and false negatives of each label. All of it is post-processing of released sums (Dwork & Roth
2014, Proposition 2.1), which compose adaptively (Dong, Roth & Su, JRSS B 84, 2022, Corollary 2).
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from pate._core.checks import check_int, check_real
from pate._core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.models._numbers import OneInTenHeldOut
from pate.models.heads._descent import _groups
from pate.models.heads._linear import public_rows
from pate.models.recipes._rule import PublicFacts, Recipe, by_descent
from pate.release.statement.fields import LabelFigures
from pate.release.statement.plain import as_plain_text
from pate.representations import own_product

# The plan: every share of the budget, before any record is read.

#: Share of mu^2 of the training records that tells how common each label is.
_PREVALENCES = 0.05
#: Rounds of residuals, of equal shares.
_ROUNDS = 20
#: Their clip, in units of the residual's root mean square before anything is known.
_CLIP = 0.3
#: Residuals of a label with deviation s = sqrt(q (1 - q)) are weighted by s^-_RARE: rare labels speak louder.
_RARE = 0.5
#: All rounds' noise together moves the logit of a row of length 1 by this at most; and a step is no longer than this
#: part of the one at which descent on the public rows' second moment would swing.
_LOGIT_NOISE, _LONGEST = 0.8, 1.0
#: Share of a James-Stein shrinkage that is applied, label by label and group by group of components.
_SHRUNK_BY = 0.75
#: Where label vectors are summed they are clipped to norm sqrt(t) of t labels: as many as leave the noise at this share
#: of the records, but so many at least.
_KNOWN, _LABELS = 0.01, 3.0
#: Below this n mu labels are guessed as well by how common they are.
LEAST = 200.0
#: A ratio of noisy counts is told where its denominator is above so many of its standard deviations.
_TOLD = 3.0


@dataclass(frozen=True)
class LabelsPlan(OneInTenHeldOut):
    """How several labels are learnt: clips, rounds and their shares of mu^2, by public facts alone.

    Parameters
    ----------
    names : tuple of str
        The labels.
    n_units : int
        Records, or persons where they are protected: training and held-out ones together.
    mu : float
        The budget, as Gaussian differential privacy. Training records pay all of it, and so do held-out ones: no unit
        is in both parts.
    n_public : int
    kind : {"table", "mixed", "image", "glyph", "text"}
    spectrum : sequence of float or None
        As in :class:`pate.models.recipes.PublicFacts`.

    Raises
    ------
    InvalidInputError
        A value out of its range.

    Examples
    --------
    >>> plan = LabelsPlan(("a", "b"), n_units=30_000, mu=0.27, n_public=2_000)
    >>> (
    ...     plan.recipe.n_components,
    ...     len(plan.shares),
    ...     round(sum(plan.shares), 9),
    ...     plan.held_out_shares,
    ... )
    (256, 21, 1.0, (1.0,))
    """

    names: tuple[str, ...]
    _: KW_ONLY
    n_units: int
    mu: float
    n_public: int
    kind: str = "table"
    spectrum: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not self.names or len(set(self.names)) != len(self.names):
            raise InvalidInputError(f"names must be of one label or more, each once, got {len(self.names)}.")
        check_int("n_units", self.n_units, low=2)
        check_real("mu", self.mu, low=0, low_open=True)
        _ = self.recipe  # checks all others

    @cached_property
    def recipe(self) -> Recipe:
        """The ballots' space, that of two classes; its rounds are this plan's."""
        facts = PublicFacts(
            n_units=self.n_training,
            n_classes=2,
            mu=self.mu * math.sqrt(1 - _PREVALENCES),
            n_public=self.n_public,
            kind=self.kind,
            spectrum=self.spectrum,
        )
        return by_descent(facts)

    @property
    def shares(self) -> tuple[float, ...]:
        """Shares of mu^2 of the training records' rounds, in order; they sum to 1."""
        return (_PREVALENCES, *((1 - _PREVALENCES) / _ROUNDS,) * _ROUNDS)

    @property
    def held_out_shares(self) -> tuple[float, ...]:
        """Shares of mu^2 of the held-out records' rounds: one."""
        return (1.0,)

    @property
    def tau(self) -> float:
        """The norm to which a label vector is clipped where label vectors are summed."""
        most = _PREVALENCES * (_KNOWN * self.n_training * self.mu) ** 2 / 2
        return math.sqrt(min(len(self.names), max(most, _LABELS)))

    @property
    def doubt(self) -> str | None:
        """Why labels may be guessed as well by how common they are; None where they should not."""
        found = self.n_units * self.mu
        if found >= LEAST:
            return None
        return (
            f"{self.n_units:,} records at this budget (n mu = {found:.3g}) are too few to predict labels better than "
            f"by how common they are: take more records or a larger budget, so that n mu is {LEAST:g} or more."
        )

    def start(self, phi_public: Any) -> Labels:
        """Return the state before the first round; ``phi_public`` (n_public, n_components) is of the recipe's space."""
        phi = np.asarray(phi_public)
        phi = public_rows(phi, phi.shape[1] if phi.ndim == 2 else 0)
        return Labels(self, phi)


# The model.


@dataclass(frozen=True, eq=False)
class LabelsModel:
    """A public model of several labels: a logit for each, linear in a row's direction phi, and a threshold.

    Attributes
    ----------
    weights : float64 array of shape (n_components, n_labels)
    offsets : float64 array of shape (n_labels,)
        Logits of the prevalences.
    prevalences : float64 array of shape (n_labels,)
        How common each label is, as released.
    thresholds : float64 array of shape (n_labels,)
        Of the logits: at them public rows get a label as often as private records have it.

    Examples
    --------
    >>> model = LabelsModel(np.eye(2), np.zeros(2), np.full(2, 0.5), np.array([0.5, 0.5]))
    >>> model.predict([[1.0, 0.0]]), model.predict_proba([[1.0, 0.0]]).round(2)
    (array([[1, 0]]), array([[0.73, 0.5 ]]))
    """

    weights: FloatArray
    offsets: FloatArray
    prevalences: FloatArray
    thresholds: FloatArray

    def decision_function(self, phi: Any) -> FloatArray:
        """Return logits, shape (n_rows, n_labels)."""
        # By sums and products that round a row alike wherever it stands: records are asked about in blocks.
        return np.asarray(own_product(np.asarray(phi, dtype=np.float64), self.weights) + self.offsets)

    def predict_proba(self, phi: Any) -> FloatArray:
        """Return the probability of each label, shape (n_rows, n_labels)."""
        return self.probable(self.decision_function(phi))

    def predict(self, phi: Any) -> IntArray:
        """Return which labels each row has, 0 or 1, shape (n_rows, n_labels)."""
        return self.decided(self.decision_function(phi))

    def probable(self, logits: FloatArray) -> FloatArray:
        """Return the probabilities of logits."""
        return np.asarray(1 / (1 + np.exp(-np.clip(logits, -700, 700))))

    def decided(self, logits: FloatArray) -> IntArray:
        """Return which labels rows with these logits have, 0 or 1."""
        return (logits > self.thresholds).astype(np.int64)

    def at_prevalences(self, phi_public: FloatArray) -> LabelsModel:
        """Return the model with thresholds at which public rows get each label as often as records have it."""
        scores = np.sort(self.decision_function(phi_public), axis=0)
        rank = np.rint((1 - self.prevalences) * len(scores)).astype(int)  # so many rows are below
        padded = np.concatenate([scores[:1] - 1, scores, scores[-1:] + 1])
        columns = np.arange(len(self.prevalences))
        return replace(self, thresholds=(padded[rank, columns] + padded[rank + 1, columns]) / 2)


# Measured quality.


def label_quality(name: str, counts: FloatArray, *, sigma: float, n: int, prevalence: float) -> LabelFigures:
    """Return what noisy counts of true positives, false positives and false negatives among n units say.

    Standard errors are those of the delta method, for noise of ``sigma`` on every count and a random sample of units. A
    ratio is None where noise leaves too little to tell.

    Examples
    --------
    >>> print(
    ...     label_quality(
    ...         "ill", np.array([80.0, 20.0, 40.0]), sigma=3.0, n=1_000, prevalence=0.12
    ...     )
    ... )
    ill (12.0%): accuracy 0.940 (0.009), precision 0.800 (0.047), recall 0.667 (0.047), F1 0.727 (0.037)
    """
    _, fp, fn = (float(c) for c in counts)
    share = np.clip(counts / n, 0, 1)
    share = share / max(float(share.sum()), 1.0)
    cov = sigma**2 * np.eye(3) + n * (np.diag(share) - np.outer(share, share))

    def told(top: tuple[float, ...], bottom: tuple[float, ...]) -> tuple[float | None, float | None]:
        a, b = np.asarray(top, dtype=float), np.asarray(bottom, dtype=float)
        below = float(b @ counts)
        if below <= _TOLD * math.sqrt(max(float(b @ cov @ b), 0.0)) or below <= 0:
            return None, None
        ratio = float(a @ counts) / below
        slope = (a - ratio * b) / below
        return min(max(ratio, 0.0), 1.0), math.sqrt(max(float(slope @ cov @ slope), 0.0))

    wrong = np.array([0.0, 1.0, 1.0])
    ratios = {"precision": (1, 1, 0), "recall": (1, 0, 1), "f1": (2, 1, 1)}
    found = {name: told((bottom[0], 0, 0), bottom) for name, bottom in ratios.items()}
    return LabelFigures(
        name=as_plain_text(name),
        prevalence=prevalence,
        accuracy=min(max(1 - (fp + fn) / n, 0.0), 1.0),
        accuracy_error=math.sqrt(max(float(wrong @ cov @ wrong), 0.0)) / n,
        **{name: value for name, (value, _) in found.items()},
        **{f"{name}_error": error for name, (_, error) in found.items()},
    )


# The rounds.


@dataclass(frozen=True, eq=False)
class LabelsAsk:
    """What each record contributes to the next sum, a function of that record and of public numbers.

    Attributes
    ----------
    step : {"prevalences", "residuals", "quality"}
    held_out : bool
        Held-out units contribute, else training ones.
    share : float
        Of mu^2: the noise of every entry is sigma = delta/(mu sqrt(share)).
    shape : (int, int)
        Of the sum.
    bound : float
        Contributions, phi (x) r with |phi| <= 1 where ``step`` is "residuals" and r else, have |r| <= bound.
    n : int
        How many units contribute.

    Examples
    --------
    >>> ask = LabelsPlan(("a", "b"), n_units=1_000, mu=1, n_public=50).start(np.eye(3)).ask
    >>> ask.step, round(ask.delta, 9), ask.votes(np.eye(3)[:2], [[1, 1], [0, 1]])
    ('prevalences', 2.0, array([[1., 1.],
           [0., 1.]]))
    """

    step: str
    held_out: bool
    share: float
    shape: tuple[int, int]
    bound: float
    n: int
    state: Labels = field(repr=False)

    @property
    def with_phi(self) -> bool:
        """The contribution is phi (x) r; else r itself."""
        return self.step == "residuals"

    @property
    def delta(self) -> float:
        """How far a replaced unit moves the sum, L2; contributions that are never negative do so less."""
        return (2 if self.step == "residuals" else math.sqrt(2)) * self.bound

    def votes(self, phi: Any, labels: Any) -> FloatArray:
        """Return each record's r, shape (n_records, L), or (n_records, 3 L) of "quality". **Sensitive**."""
        phi, given = np.asarray(phi, dtype=np.float64), np.asarray(labels, dtype=np.float64)
        if self.step == "prevalences":
            return _clipped(given, self.bound)
        model = self.state.model
        assert model is not None
        if self.step == "residuals":
            return _clipped(self.state.weighting * (given - model.predict_proba(phi)), self.bound)
        said = model.predict(phi)
        cells = np.stack([(given == 1) & (said == 1), (given == 0) & (said == 1), (given == 1) & (said == 0)], axis=2)
        return cells.reshape(len(given), -1).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Labels:
    """What is known after some rounds, and what to ask next: frozen, public, and the same for the same answers.

    Attributes
    ----------
    plan : LabelsPlan
    phi : float64 array of shape (n_public, n_components)
    model : LabelsModel or None
        None before prevalences are known.
    n_rounds : int
        Rounds so far.
    steps : float64 array of shape (n_components, n_labels) or None
        The sum of all steps so far.
    variance : float
        Of the noise in each of its entries.
    quality, pooled : tuple of LabelFigures, LabelFigures or None
        Of each label, and of all labels' counts together, after the last round.

    Examples
    --------
    >>> state = LabelsPlan(("a", "b"), n_units=1_000, mu=100, n_public=20).start(
    ...     np.eye(2)[[0, 1] * 10]
    ... )
    >>> labels, phi = (
    ...     np.repeat([[1, 0], [0, 1]], 500, axis=0),
    ...     np.eye(2)[np.repeat([0, 1], 500)],
    ... )
    >>> while (ask := state.ask) is not None:
    ...     part = np.arange(1_000) % 10 == 0
    ...     part = part if ask.held_out else ~part
    ...     r = ask.votes(phi[part], labels[part])
    ...     state = state.updated(
    ...         (phi[part].T @ r if ask.with_phi else r.sum(axis=0)).reshape(ask.shape),
    ...         sigma=1e-3,
    ...     )
    >>> state.model.predict(np.eye(2)), round(state.quality[0].f1, 3)
    (array([[1, 0],
           [0, 1]]), 1.0)
    """

    plan: LabelsPlan
    phi: FloatArray
    model: LabelsModel | None = None
    n_rounds: int = 0
    steps: FloatArray | None = None
    variance: float = 0.0
    quality: tuple[LabelFigures, ...] = ()
    pooled: LabelFigures | None = None

    @property
    def _deviations(self) -> FloatArray:
        assert self.model is not None
        return np.sqrt(self.model.prevalences * (1 - self.model.prevalences))

    @property
    def weighting(self) -> FloatArray:
        """The weight of each label's residual, shape (n_labels,)."""
        return np.asarray(self._deviations**-_RARE)

    @property
    def ask(self) -> LabelsAsk | None:
        """The next round; None when all were asked."""
        plan, n_labels = self.plan, len(self.plan.names)
        shares = (*plan.shares, *plan.held_out_shares)
        if self.n_rounds == len(shares):
            return None
        share = shares[self.n_rounds]
        if self.n_rounds == 0:
            return LabelsAsk("prevalences", False, share, (1, n_labels), plan.tau, plan.n_training, self)
        if self.n_rounds == len(shares) - 1:
            return LabelsAsk("quality", True, share, (1, 3 * n_labels), math.sqrt(n_labels), plan.n_held_out, self)
        clip = _CLIP * float(np.linalg.norm(self.weighting * self._deviations))
        return LabelsAsk("residuals", False, share, (self.phi.shape[1], n_labels), clip, plan.n_training, self)

    def updated(self, sums: Any, *, sigma: float) -> Labels:
        """Return the state after the released noisy sum that was asked for; ``sigma`` is the noise in its entries.

        Raises
        ------
        InvalidInputError
            The sum has another shape or is not finite, sigma is negative, or nothing was asked.
        """
        ask = self.ask
        if ask is None:
            raise InvalidInputError("all rounds of these labels were asked. Read the model.")
        sums = np.asarray(sums, dtype=np.float64)
        if sums.shape != ask.shape or not np.isfinite(sums).all():
            raise InvalidInputError(f"sums must be finite, of shape {ask.shape}, got shape {sums.shape}.")
        check_real("sigma", sigma, low=0)
        after = replace(self, n_rounds=self.n_rounds + 1)
        if ask.step == "prevalences":
            least = min((0.5 * sigma + 1) / ask.n, 0.5)  # what noise leaves of a label that nobody has
            q = np.clip(sums[0] / ask.n, least, 1 - least)
            none = np.zeros((self.phi.shape[1], len(q)))
            return replace(after, model=LabelsModel(none, np.log(q / (1 - q)), q, np.zeros(len(q))), steps=none)
        model = self.model
        assert model is not None
        if ask.step == "quality":
            cells, shares, n_labels = sums.reshape(-1, 3), model.prevalences.tolist(), len(self.plan.names)
            each = zip(self.plan.names, cells, shares, strict=True)
            found = (label_quality(name, one, sigma=sigma, n=ask.n, prevalence=q) for name, one, q in each)
            total, noise = cells.sum(axis=0), sigma * math.sqrt(n_labels)
            common = sum(shares) / n_labels
            pooled = label_quality("all labels", total, sigma=noise, n=ask.n * n_labels, prevalence=common)
            return replace(after, quality=tuple(found), pooled=pooled)
        step = self._step(sigma, ask.n)
        total, variance = self.steps + step * sums, self.variance + (step * sigma) ** 2
        model = replace(model, weights=_shrunk(total, variance))
        if after.n_rounds == len(self.plan.shares):
            model = model.at_prevalences(self.phi)
        return replace(after, model=model, steps=total, variance=variance)

    def _step(self, sigma: float, n: int) -> float:
        """Return the step length, a factor of a round's sums."""
        largest = float(np.linalg.eigvalsh(self.phi.T @ self.phi / len(self.phi))[-1])
        # A label's curvature is at most that times q (1 - q); clipping leaves about _CLIP of a residual.
        curvature = largest * _CLIP * float((self.weighting * self._deviations**2).max())
        longest = _LONGEST / (n * max(curvature, 1e-12))
        return min(longest, _LOGIT_NOISE / (sigma * math.sqrt(_ROUNDS))) if sigma > 0 else longest


def _clipped(r: FloatArray, most: float) -> FloatArray:
    length = np.sqrt(np.square(r).sum(axis=1, keepdims=True))
    return np.asarray(r * np.minimum(1.0, most / np.maximum(length, most)))


def _shrunk(total: FloatArray, variance: float) -> FloatArray:
    """Return weights: the steps' sum, shrunk for each label and group of components by its known noise."""
    left = np.ones_like(total)
    for group in _groups(len(total), constant=True):
        noise = variance * (group.stop - group.start)
        if noise > 0:
            size = np.square(total[group]).sum(axis=0)
            left[group] = 1 - _SHRUNK_BY * noise / np.maximum(size, noise)
    return total * left
