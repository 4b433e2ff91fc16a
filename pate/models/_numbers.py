"""Private regression on record voters: what to ask of the records, round by round, and the model of the noisy answers.

Nothing here reads a private record or draws noise. :class:`NumbersPlan` fixes all shares of the budget by public facts;
:meth:`NumbersPlan.start` gives a :class:`Numbers`, whose :attr:`~Numbers.ask` says what records contribute next, and
:meth:`~Numbers.updated` takes the released noisy sum. Steps: histograms find the range and quantile bins; the bins are
classes of a :class:`pate.models.heads.DescentHead`; one sum of residuals corrects its mean; records that were held out
give 90% intervals and the mean error. All of it is post-processing of released sums (Dwork & Roth 2014, Proposition
2.1), which compose adaptively (Dong, Roth & Su, JRSS B 84, 2022, Corollary 2).
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from pate._core.checks import check_int, check_real
from pate._core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.models.heads import DescentHead
from pate.models.heads._least_squares import eigen, folds, least_lambda, shrunk
from pate.models.heads._linear import Moments, public_rows
from pate.models.recipes._rule import PublicFacts, Recipe, by_descent
from pate.records import (
    ERRORS_BOUND,
    LEVEL,
    N_CELLS,
    Bins,
    MeasuredErrors,
    Zoom,
    bounded_errors,
    cells_of,
    error_clip,
    measured_errors,
    score_edges,
    tails,
)
from pate.representations import own_product

# The plan: every share of the budget, before any record is read.

#: Histograms: shares of mu^2 of the training records. Three look for the range, if it was stated too wide, each with
#: twice as much below n mu = _SCARCE; the last one is fine. Chosen with n from 1,000 to 29,000 (docs/numbers.md).
_RANGE, _SCARCE, _LAST = 0.02, 500.0, 0.05
_N_HISTOGRAMS = 4
#: Of what histograms leave: the bins' rounds; the others are of residuals of the number.
_BINS = 0.5
#: Clip of the bins' residuals. A smaller one (.1 is best for classes) leans to the commonest bin.
_CLIP = 0.5
#: Bins at n mu = _AT, growing with its power, and least and most of them.
_N_BINS, _AT, _GROWTH, _FEWEST, _MOST = 12.0, 3000.0, 0.6, 4, 12
#: One unit in so many is held out of training, for intervals and errors.
_HELD_OUT = 10
#: Of the held-out records' mu^2: the histogram of residuals. The rest measures the errors.
_INTERVAL = 0.5
#: Below this n mu the mean of all records predicts as well.
LEAST = 200.0
#: Ends of a range, and how narrow it may be relative to them: its fourth power and a thousandth are numbers.
_FARTHEST, _NARROWEST = 1e70, 1e-6


class OneInTenHeldOut:
    """How many of a plan's units are held out of training, to measure the model; a mixin of plans."""

    n_units: int

    @property
    def n_held_out(self) -> int:
        """The number of held-out units: one in ten; of persons about so many."""
        return max(1, round(self.n_units / _HELD_OUT))

    @property
    def n_training(self) -> int:
        """The number of training units."""
        return self.n_units - self.n_held_out


@dataclass(frozen=True)
class NumbersPlan(OneInTenHeldOut):
    """How a number in [low, high] is learnt: bins, clips, rounds and their shares of mu^2, by public facts alone.

    Parameters
    ----------
    low, high : float
        The stated range; numbers outside count as its ends. It may be a thousand times too wide.
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
    >>> plan = NumbersPlan(0, 100, n_units=30_000, mu=0.27, n_public=2_000)
    >>> plan.n_bins, plan.recipe.n_components, len(plan.shares)
    (12, 125, 45)
    >>> round(math.fsum(plan.shares), 9), math.fsum(plan.held_out_shares)
    (1.0, 1.0)
    """

    low: float
    high: float
    _: KW_ONLY
    n_units: int
    mu: float
    n_public: int
    kind: str = "table"
    spectrum: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        low, high = (check_real(end, getattr(self, end), low=-_FARTHEST, high=_FARTHEST) for end in ("low", "high"))
        if not low < high:
            raise InvalidInputError(f"low must be below high, got {low:g} and {high:g}. State the range of the target.")
        if high - low < max(_NARROWEST * max(abs(low), abs(high)), 1 / _FARTHEST):
            raise InvalidInputError(
                f"low and high must be further apart, got {low:.17g} and {high:.17g}: few numbers lie between them. "
                "Subtract a public constant from the target."
            )
        check_int("n_units", self.n_units, low=2)
        check_real("mu", self.mu, low=0, low_open=True)
        _ = self.recipe  # checks all others

    @property
    def n_bins(self) -> int:
        """The most bins; fewer are made where many numbers are equal."""
        return max(_FEWEST, min(round(_N_BINS * (self.n_training * self.mu / _AT) ** _GROWTH), _MOST))

    @property
    def _histograms(self) -> tuple[float, ...]:
        one = _RANGE if self.n_training * self.mu >= _SCARCE else 2 * _RANGE
        return (*(one,) * (_N_HISTOGRAMS - 1), _LAST)

    @cached_property
    def recipe(self) -> Recipe:
        """The ballots' space, and the bins' rounds, which are clipped less than those of classes."""
        facts = PublicFacts(
            n_units=self.n_training,
            n_classes=self.n_bins,
            mu=self.mu * math.sqrt((1 - math.fsum(self._histograms)) * _BINS),
            n_public=self.n_public,
            kind=self.kind,
            spectrum=self.spectrum,
        )
        found = by_descent(facts, ordered=True)
        return replace(found, rounds=tuple(replace(one, clip=_CLIP) for one in found.rounds))

    @property
    def shares(self) -> tuple[float, ...]:
        """Shares of mu^2 of the training records' rounds, in order; they sum to 1."""
        rest, k = 1 - math.fsum(self._histograms), len(self.recipe.rounds)
        return (*self._histograms, *(rest * _BINS / k,) * k, rest * (1 - _BINS))

    @property
    def held_out_shares(self) -> tuple[float, ...]:
        """Shares of mu^2 of the held-out records' rounds, which come last; they sum to 1."""
        return (_INTERVAL, 1 - _INTERVAL)

    @property
    def doubt(self) -> str | None:
        """Why the mean of all records may predict as well; None where it should not."""
        found = self.n_units * self.mu
        if found >= LEAST:
            return None
        return (
            f"{self.n_units:,} records at this budget (n mu = {found:.3g}) are too few to predict a number better than "
            f"its mean: take more records or a larger budget, so that n mu is {LEAST:g} or more."
        )

    def start(self, phi_public: Any) -> Numbers:
        """Return the state before the first round; ``phi_public`` (n_public, n_components) is of the recipe's space."""
        phi = np.asarray(phi_public)
        phi = public_rows(phi, phi.shape[1] if phi.ndim == 2 else 0)
        return Numbers(self, phi, Zoom(self.low, self.high))


# The model.

#: Residuals are clipped to so many of their standard deviations.
_RESIDUAL_CLIP = 1.75


@dataclass(frozen=True, eq=False)
class NumbersModel:
    """A public model of a number: its mean, its spread and a 90% interval for each row's direction phi.

    The mean is sum_k p_k means_k + phi w, with the head's probabilities p of the bins; the spread is the standard
    deviation of those bins, whose scale held-out records measure.

    Attributes
    ----------
    bins : Bins
    head : DescentHead
    weights : float64 array of shape (n_components,)
        w.
    low, high : float
        The range that was found: means lie in it.
    scores : (float, float) or None
        Ends of the interval, in spreads from the mean; None before they are measured, and where noise hides them.
    bounds : (float, float)
        The stated range: intervals lie in it, for numbers may lie outside of the range that was found.

    Examples
    --------
    >>> bins = Bins(np.array([2.0]), np.array([1.0, 5.0]), np.zeros(2), 3.0, 4.0, 0.1)
    >>> model = NumbersModel(
    ...     bins,
    ...     DescentHead(n_rounds=1).start(1, (0, 1)),
    ...     np.array([0.5]),
    ...     0.0,
    ...     10.0,
    ...     (-1.0, 2.0),
    ... )
    >>> model.predict([[1.0]]), model.interval([[1.0]])
    (array([3.5]), (array([1.5]), array([7.5])))
    """

    bins: Bins
    head: DescentHead
    weights: FloatArray
    low: float
    high: float
    scores: tuple[float, float] | None = None
    bounds: tuple[float, float] = (-math.inf, math.inf)

    def predict(self, phi: Any) -> FloatArray:
        """Return the mean for each row, shape (n_rows,)."""
        return self._both(phi)[0]

    def spread(self, phi: Any) -> FloatArray:
        """Return the standard deviation over the bins for each row, shape (n_rows,)."""
        return self._both(phi)[1]

    def interval(self, phi: Any) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper ends of each row's 90% interval, NaN where it is not known."""
        mean, spread = self._both(phi)
        ends = (mean + score * spread for score in self.scores or (math.nan, math.nan))
        low, high = (np.clip(end, *self.bounds) for end in ends)
        return low, high

    def scored(self, phi: Any, y: Any) -> FloatArray:
        """Return each record's residual in its row's spreads. **Sensitive** where the records are."""
        mean, spread = self._both(phi)
        return np.asarray((np.asarray(y, dtype=np.float64) - mean) / spread)

    def _both(self, phi: Any) -> tuple[FloatArray, FloatArray]:
        # By sums and products that round a row alike wherever it stands: records are asked about in blocks.
        p, bins = np.asarray(self.head.predict_proba(phi)), self.bins
        mean = (p * bins.means).sum(axis=1)
        # About the mean of each row: no cancelling for targets far from zero.
        far = bins.means - mean[:, None]
        spread = np.sqrt((p * (bins.variances + far**2)).sum(axis=1))
        left = own_product(np.asarray(phi, dtype=np.float64), self.weights[:, None])[:, 0]
        return np.clip(mean + left, self.low, self.high), spread

    def corrected(self, sums: FloatArray, *, sigma: float, clip: float, n: int, phi_public: FloatArray) -> NumbersModel:
        """Return the model after a noisy sum of phi times clipped residuals, both in units of the clip.

        One Newton step of least squares: w = U f(L) U^T b with b the mean residual moment and U L U^T the public rows'
        second moment; f shrinks by Stein's risk, as a least-squares head's does.
        """
        v = float(np.square(self.spread(phi_public)).mean())
        # The noise of one number is that of two classes, which sum to zero.
        mean = np.asarray(sums, dtype=np.float64)[:, None] * (clip / n)
        moments = Moments(mean, sigma * clip / n, n, (0, 1), phi_public, "residual")
        parts = folds(moments, min(5, len(phi_public)), spread=np.full(len(phi_public), v))
        _, lam, power = least_lambda(parts, (3.0,), v)
        values, vectors = eigen(phi_public)
        step = vectors @ (shrunk(values, lam, power) * (vectors.T @ mean[:, 0]))
        return replace(self, weights=self.weights + step)

    def calibrated(self, counts: FloatArray, *, sigma: float, n: int) -> NumbersModel:
        """Return the model with the interval of a noisy histogram of n held-out records' scores."""
        return replace(self, scores=tails(counts, sigma, n, (1 - LEVEL) / 2))


# The rounds.


@dataclass(frozen=True, eq=False)
class Ask:
    """What each record contributes to the next sum, a function of that record and of public numbers.

    Attributes
    ----------
    step : {"range", "bins", "residuals", "interval", "errors"}
    held_out : bool
        Held-out units contribute, else training ones.
    share : float
        Of mu^2: the noise of every entry is sigma = delta/(mu sqrt(share)).
    shape : tuple of int
        Of the sum.
    with_phi : bool
        The contribution is phi (x) r, |phi| <= 1; else r itself.
    one_hot : bool
        r is a one-hot row.
    bound : float
        |r| <= bound.
    n : int
        How many units contribute.

    Examples
    --------
    >>> plan = NumbersPlan(0, 160, n_units=1_000, mu=1, n_public=50)
    >>> ask = plan.start(np.eye(3)).ask
    >>> ask.shape, ask.delta == math.sqrt(2), ask.votes(np.eye(3)[:2], [5.0, 999.0])[:, -1]
    ((16,), True, array([0., 1.]))
    """

    step: str
    held_out: bool
    share: float
    shape: tuple[int, ...]
    with_phi: bool
    one_hot: bool
    bound: float
    n: int
    state: Numbers = field(repr=False)

    @property
    def delta(self) -> float:
        """How far a replaced unit moves the sum, L2."""
        return math.sqrt(2) * self.bound if self.one_hot else 2 * self.bound

    def votes(self, phi: Any, y: Any) -> FloatArray:
        """Return each record's r, shape (n_records, shape[-1]), or (n_records, 1) for a number. **Sensitive**."""
        return self.state._votes(self, np.asarray(phi, dtype=np.float64), np.asarray(y, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class Numbers:
    """What is known after some rounds, and what to ask next: frozen, public, and the same for the same answers.

    Attributes
    ----------
    plan : NumbersPlan
    phi : float64 array of shape (n_public, n_components)
    zoom : Zoom
    model : NumbersModel or None
        None before the histograms are known.
    n_rounds : int
        Rounds so far.
    clip : float
        Of the residuals, or errors, that are asked next.
    errors : MeasuredErrors or None
        After the last round.

    Examples
    --------
    >>> state = NumbersPlan(0, 10, n_units=1_000, mu=100, n_public=20).start(
    ...     np.eye(2)[[0, 1] * 10]
    ... )
    >>> y, phi = np.repeat([2.0, 8.0], 500), np.eye(2)[np.repeat([0, 1], 500)]
    >>> while (ask := state.ask) is not None:
    ...     part = np.arange(1_000) % 10 == 0
    ...     part = part if ask.held_out else ~part
    ...     r = ask.votes(phi[part], y[part])
    ...     state = state.updated(
    ...         (phi[part].T @ r if ask.with_phi else r.sum(axis=0)).reshape(ask.shape),
    ...         sigma=1e-3,
    ...     )
    >>> state.model.predict(np.eye(2)).round(1)
    array([2., 8.])
    """

    plan: NumbersPlan
    phi: FloatArray
    zoom: Zoom
    model: NumbersModel | None = None
    n_rounds: int = 0
    clip: float = 1.0
    errors: MeasuredErrors | None = None

    @property
    def ask(self) -> Ask | None:
        """The next round; None when all were asked."""
        plan, d = self.plan, self.phi.shape[1]
        shares = (*plan.shares, *plan.held_out_shares)
        if self.n_rounds == len(shares):
            return None
        step = self._step
        held_out = step in ("interval", "errors")
        n = plan.n_held_out if held_out else plan.n_training
        shape, with_phi, one_hot, bound = {
            "range": lambda: ((len(self._edges) - 1,), False, True, 1.0),
            "bins": lambda: ((d, len(self._model.bins.means)), True, False, _CLIP),
            "residuals": lambda: ((d,), True, False, 1.0),
            "interval": lambda: ((N_CELLS,), False, True, 1.0),
            "errors": lambda: ((2,), False, False, ERRORS_BOUND),
        }[step]()
        return Ask(step, held_out, shares[self.n_rounds], shape, with_phi, one_hot, bound, n, self)

    @property
    def _step(self) -> str:
        n_range, n_all = _N_HISTOGRAMS, len(self.plan.shares)
        if self.n_rounds < n_range:
            return "range"
        if self.n_rounds < n_all - 1:
            return "bins"
        return ("residuals", "interval", "errors")[self.n_rounds - n_all + 1]

    @property
    def _edges(self) -> FloatArray:
        return self.zoom.edges(fine=self.n_rounds == _N_HISTOGRAMS - 1)

    @property
    def _model(self) -> NumbersModel:
        assert self.model is not None
        return self.model

    def _votes(self, ask: Ask, phi: FloatArray, y: FloatArray) -> FloatArray:
        """Return the contributions r of these records."""
        if ask.step == "range":
            return _one_hot(cells_of(y, self._edges), ask.shape[0])
        model = self._model
        if ask.step == "interval":  # and those that the range which was found leaves out
            scored = model.scored(phi, np.clip(y, self.plan.low, self.plan.high))
            return _one_hot(cells_of(scored, score_edges()), N_CELLS)
        y = np.clip(y, self.zoom.low, self.zoom.high)
        if ask.step == "bins":
            r = _one_hot(model.bins.of(y), ask.shape[1]) - model.head.predict_proba(phi)
            length = np.linalg.norm(r, axis=1, keepdims=True)
            return np.asarray(r * np.minimum(1.0, _CLIP / np.maximum(length, _CLIP)))
        errors = y - model.predict(phi)
        if ask.step == "errors":
            return bounded_errors(errors, self.clip)
        return np.asarray(np.clip(errors / self.clip, -1.0, 1.0)[:, None])

    def updated(self, sums: Any, *, sigma: float) -> Numbers:
        """Return the state after the released noisy sum that was asked for; ``sigma`` is the noise in its entries.

        Raises
        ------
        InvalidInputError
            The sum has another shape or is not finite, sigma is negative, or nothing was asked.
        """
        ask = self.ask
        if ask is None:
            raise InvalidInputError("all rounds of these numbers were asked. Read the model.")
        sums = np.asarray(sums, dtype=np.float64)
        if sums.shape != ask.shape or not np.isfinite(sums).all():
            raise InvalidInputError(f"sums must be finite, of shape {ask.shape}, got shape {sums.shape}.")
        check_real("sigma", sigma, low=0)
        after = replace(self, n_rounds=self.n_rounds + 1)
        if ask.step == "range":
            return replace(after, zoom=self.zoom.updated(sums, sigma=sigma, n=ask.n))._with_bins()
        model = self._model
        if ask.step == "bins":
            classes = model.head.classes_
            release: Any = SimpleNamespace(statistics=sums, sigma=sigma, n_units=ask.n, classes=classes, clip=_CLIP)
            model = replace(model, head=model.head.updated(release))
            return replace(after, model=model, clip=_RESIDUAL_CLIP * _mean_spread(model, self.phi))
        if ask.step == "residuals":
            model = model.corrected(sums, sigma=sigma, clip=self.clip, n=ask.n, phi_public=self.phi)
            return replace(after, model=model)
        if ask.step == "interval":
            model = model.calibrated(sums, sigma=sigma, n=ask.n)
            many = ask.n * self.plan.mu * math.sqrt(1 - _INTERVAL)
            spread, widest = _mean_spread(model, self.phi), self.zoom.high - self.zoom.low
            return replace(after, model=model, clip=error_clip(model.scores, many=many, spread=spread, widest=widest))
        errors = measured_errors(sums, sigma=sigma, clip=self.clip, n=ask.n, bins=model.bins)
        return replace(after, errors=errors)

    def _with_bins(self) -> Numbers:
        """Return the state with bins, and a model that knows nothing yet, once the last histogram was asked."""
        if self.n_rounds < _N_HISTOGRAMS:
            return self
        bins = self.zoom.bins(self.plan.n_bins, self.plan.n_training)
        n_rounds, classes = len(self.plan.recipe.rounds), tuple(range(len(bins.means)))
        head = DescentHead(n_rounds=n_rounds).start(self.phi.shape[1], classes)
        model = NumbersModel(
            bins,
            head,
            np.zeros(self.phi.shape[1]),
            self.zoom.low,
            self.zoom.high,
            bounds=(self.plan.low, self.plan.high),
        )
        return replace(self, model=model)


def _mean_spread(model: NumbersModel, phi: FloatArray) -> float:
    """Return the root of the mean variance over the bins."""
    return math.sqrt(float(np.square(model.spread(phi)).mean()))


def _one_hot(cells: IntArray, n_cells: int) -> FloatArray:
    return np.asarray(np.eye(n_cells)[cells])
