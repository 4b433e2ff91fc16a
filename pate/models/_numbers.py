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
from pate.representations import own_product

# The plan: every share of the budget, before any record is read.

#: Histograms: shares of mu^2 of the training records. The first ones look for the range, if it was stated too wide.
_HISTOGRAMS = (0.02, 0.02, 0.02, 0.05)
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


@dataclass(frozen=True)
class NumbersPlan:
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
    def n_held_out(self) -> int:
        """The number of held-out units: one in ten; of persons about so many."""
        return max(1, round(self.n_units / _HELD_OUT))

    @property
    def n_training(self) -> int:
        """The number of training units."""
        return self.n_units - self.n_held_out

    @property
    def n_bins(self) -> int:
        """The most bins; fewer are made where many numbers are equal."""
        return max(_FEWEST, min(round(_N_BINS * (self.n_training * self.mu / _AT) ** _GROWTH), _MOST))

    @cached_property
    def recipe(self) -> Recipe:
        """The ballots' space, and the bins' rounds, which are clipped less than those of classes."""
        facts = PublicFacts(
            n_units=self.n_training,
            n_classes=self.n_bins,
            mu=self.mu * math.sqrt((1 - math.fsum(_HISTOGRAMS)) * _BINS),
            n_public=self.n_public,
            kind=self.kind,
            spectrum=self.spectrum,
        )
        found = by_descent(facts, ordered=True)
        return replace(found, rounds=tuple(replace(one, clip=_CLIP) for one in found.rounds))

    @property
    def shares(self) -> tuple[float, ...]:
        """Shares of mu^2 of the training records' rounds, in order; they sum to 1."""
        rest, k = 1 - math.fsum(_HISTOGRAMS), len(self.recipe.rounds)
        return (*_HISTOGRAMS, *(rest * _BINS / k,) * k, rest * (1 - _BINS))

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


# Histograms of the target: the range, and the bins.

#: Cells that look for the range, and of the histogram that bins are made of.
_COARSE, _FINE = 16, 64
#: The fewest cells in a row that hold this share of the records are kept, give or take two standard deviations of the
#: noise, if those are at most so large a share: else no cell is dropped.
_HELD, _KNOWN, _SURELY = 0.998, 0.05, 2.0
#: The range is found, and stays as it is, when more than this part of it would be kept.
_SETTLED = 0.45


@dataclass(frozen=True, eq=False)
class Zoom:
    """The target's range as far as it is known, and its histogram: cut to the cells that hold records, until it stays.

    Attributes
    ----------
    low, high : float
    settled : bool
        The range is found, and histograms are fine from now on.
    counts : float64 array of shape (64,) or None
        The mean of the fine histograms, weighted by their precision; None before the first.
    precision : float
        1/variance of the noise in each of the counts.

    Examples
    --------
    >>> votes = np.zeros(16)
    >>> votes[3] = 1_000
    >>> found = Zoom(0, 1600).updated(votes, sigma=5.0, n=1_000)
    >>> found.low, found.high, found.settled
    (300.0, 400.0, False)
    """

    low: float
    high: float
    settled: bool = False
    counts: FloatArray | None = None
    precision: float = 0.0

    def edges(self, *, fine: bool) -> FloatArray:
        """Return the edges of the next histogram's cells; ``fine`` where it is the last one."""
        return np.linspace(self.low, self.high, (_FINE if fine or self.settled else _COARSE) + 1)

    def updated(self, counts: FloatArray, *, sigma: float, n: int) -> Zoom:
        """Return the range after one more noisy histogram of n records."""
        if len(counts) == _FINE:
            weight = 1 / max(sigma, 1e-9) ** 2
            before = 0.0 if self.counts is None else self.counts * self.precision
            total = self.precision + weight
            return replace(self, counts=(before + counts * weight) / total, precision=total)
        start, stop = _fewest_cells(counts, sigma, n)
        if stop - start > _SETTLED * len(counts):
            return replace(self, settled=True)
        edges = self.edges(fine=False)
        return replace(self, low=float(edges[start]), high=float(edges[stop]))

    def bins(self, n_bins: int, n: int) -> Bins:
        """Return bins of about equally many of the n records; a cell with more than that is a bin by itself."""
        assert self.counts is not None
        weight = on_simplex(self.counts, n)
        edges = self.edges(fine=True)
        middle = (edges[1:] + edges[:-1]) / 2
        group = np.minimum((np.cumsum(weight) - weight / 2) / n * n_bins, n_bins - 1).astype(int)
        if group[0] == group[-1] or len(np.unique(group[weight > 0])) < 2:
            group = (np.arange(_FINE) > np.argmax(weight)).astype(int)
            if not group.any():  # all of it in the last cell
                group[-1] = 1
        last = np.append(np.flatnonzero(np.diff(group)), _FINE - 1)
        of = np.searchsorted(last, np.arange(_FINE))
        weight = weight + 1e-9 * n  # a bin without records has a mean too
        mass = np.bincount(of, weight)
        means = np.bincount(of, weight * middle) / mass
        width = edges[1] - edges[0]
        variances = np.bincount(of, weight * np.square(middle - means[of])) / mass + width**2 / 12
        # The nearest counts that sum to n, negative ones too: moments of them are unbiased.
        flat = self.counts + (n - self.counts.sum()) / _FINE
        mean = float(flat @ middle) / n
        far = np.square(middle - mean)
        variance = max(float(flat @ far) / n, 0.0) + float(width) ** 2 / 12
        noise = float(np.linalg.norm(far - far.mean())) / (n * math.sqrt(self.precision))
        return Bins(edges[last[:-1] + 1], means, variances, mean, variance, noise)


def _fewest_cells(counts: FloatArray, sigma: float, n: int) -> tuple[int, int]:
    """Return start and stop of the fewest neighbouring cells that surely hold nearly all of n records."""
    k = len(counts)
    # Brought to the public sum n, which takes some of the noise away.
    before = np.concatenate([[0.0], np.cumsum(counts + (n - counts.sum()) / k)])
    for width in range(1, k):
        noise = sigma * math.sqrt(width * (k - width) / k)
        inside = before[width:] - before[:-width]
        start = int(np.argmax(inside))
        if 2 * noise <= _KNOWN * n and inside[start] >= _HELD * n - _SURELY * noise:
            return start, start + width
    return 0, k


def on_simplex(counts: FloatArray, total: float) -> FloatArray:
    """Return the nearest counts that are none negative and sum to ``total``.

    Examples
    --------
    >>> on_simplex(np.array([5.0, -1.0, 3.0]), 6.0)
    array([4., 0., 2.])
    """
    largest = np.sort(counts)[::-1]
    over = (np.cumsum(largest) - total) / np.arange(1, len(counts) + 1)
    return np.maximum(counts - over[np.flatnonzero(largest > over)[-1]], 0.0)


@dataclass(frozen=True, eq=False)
class Bins:
    """The target's bins, which are classes: ``edges`` between them, ``means`` and ``variances`` within them.

    ``mean`` and ``variance`` are of all records, ``variance_error`` is the standard error of the variance by noise.

    Examples
    --------
    >>> Bins(np.array([2.0]), np.array([1.0, 5.0]), np.zeros(2), 3.0, 4.0, 0.1).of([0.5, 9.0])
    array([0, 1])
    """

    edges: FloatArray
    means: FloatArray
    variances: FloatArray
    mean: float
    variance: float
    variance_error: float

    def of(self, y: Any) -> IntArray:
        """Return the bin of each number."""
        return cells_of(y, np.concatenate([[-np.inf], self.edges, [np.inf]]))


def cells_of(values: Any, edges: FloatArray) -> IntArray:
    """Return the index of each value's cell [edge, next edge); values outside count to the end cells.

    Examples
    --------
    >>> cells_of([-5.0, 0.0, 1.0, 2.0, 7.0], np.array([0.0, 1.0, 2.0]))
    array([0, 0, 1, 1, 1])
    """
    found = np.searchsorted(edges, np.asarray(values, dtype=np.float64), side="right") - 1
    return np.clip(found, 0, len(edges) - 2).astype(np.int64)


# The model.

#: Of the intervals.
LEVEL = 0.9
#: Cells of the histogram of residuals, in units of a row's own spread: out to _OUTMOST, and narrow near zero.
_CELLS, _OUTMOST, _BEND = 34, 8.0, 3.5
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
        Ends of the interval, in spreads from the mean; None before they are measured.

    Examples
    --------
    >>> bins = Bins(np.array([2.0]), np.array([1.0, 5.0]), np.zeros(2), 3.0, 4.0, 0.1)
    >>> model = NumbersModel(bins, DescentHead(n_rounds=1).start(1, (0, 1)), np.array([0.5]), 0.0, 10.0, (-1.0, 2.0))
    >>> model.predict([[1.0]]), model.interval([[1.0]])
    (array([3.5]), (array([1.5]), array([7.5])))
    """

    bins: Bins
    head: DescentHead
    weights: FloatArray
    low: float
    high: float
    scores: tuple[float, float] | None = None

    def predict(self, phi: Any) -> FloatArray:
        """Return the mean for each row, shape (n_rows,)."""
        return self._both(phi)[0]

    def spread(self, phi: Any) -> FloatArray:
        """Return the standard deviation over the bins for each row, shape (n_rows,)."""
        return self._both(phi)[1]

    def interval(self, phi: Any) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper ends of each row's 90% interval, within the range that was found."""
        if self.scores is None:
            raise InvalidInputError("the model must have its interval's scores. Release the histogram of residuals.")
        mean, spread = self._both(phi)
        ends = (mean + score * spread for score in self.scores)
        low, high = (np.clip(end, self.low, self.high) for end in ends)
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
        return replace(self, scores=_tails(counts, sigma, n, (1 - LEVEL) / 2))


def _score_edges() -> FloatArray:
    even = np.linspace(-1, 1, _CELLS + 1)
    return np.asarray(_OUTMOST * np.sinh(_BEND * even) / math.sinh(_BEND))


def _tails(counts: FloatArray, sigma: float, n: int, tail: float) -> tuple[float, float]:
    """Return the scores that leave at most ``tail`` of the records outside on either side, if noise is one sd off."""
    edges = _score_edges()

    def end(inward: FloatArray, limits: FloatArray) -> float:
        before = 0.0
        for j, outside in enumerate(np.cumsum(inward) + sigma * np.sqrt(np.arange(1, _CELLS + 1))):
            if outside > tail * n:
                part = (tail * n - before) / (outside - before) if j else 0.0  # the end cell has no outer end
                return float(limits[j] + max(part, 0.0) * (limits[j + 1] - limits[j]))
            before = max(before, float(outside))
        return float(limits[_CELLS // 2])

    return min(end(counts, edges), 0.0), max(end(counts[::-1], edges[::-1]), 0.0)


# Measured errors.

#: Errors are clipped to so many times the end of the interval at the root-mean-square spread, at least and at most, and
#: between where noise adds this part to their mean square (about (end/1.645)^2).
_LEAST_CLIP, _MOST_CLIP, _NOISE = 2.5, 4.0, 0.05
#: Of that end, in spreads: it lies further out only where noise widened it.
_FARTHEST_ERROR = 3.0
#: Kurtosis of errors, less 1, for the sampling error of their mean square.
_KURTOSIS = 4.0


@dataclass(frozen=True)
class MeasuredErrors:
    """Mean absolute error and R2 on held-out records, with their standard errors by noise and sampling.

    ``r2`` is None where the target's variance is not known to a third of itself. Errors beyond ``clip`` count as that.

    Examples
    --------
    >>> MeasuredErrors(2.0, 0.1, 0.5, 0.05, 900, 10.0).r2
    0.5
    """

    mae: float
    mae_error: float
    r2: float | None
    r2_error: float | None
    n: int
    clip: float


def measured_errors(sums: FloatArray, *, sigma: float, clip: float, n: int, bins: Bins) -> MeasuredErrors:
    """Return the errors that a noisy sum of (|e|/c - 1/2, e^2/c^2 - 1/2) says there are, e = y - f clipped to c."""
    a, q = (float(s) / n + 0.5 for s in sums)
    mse = min(max(q, 0.0), 1.0) * clip**2
    mae = min(max(a, 0.0), 1.0) * clip
    mae_error = math.sqrt((sigma * clip / n) ** 2 + max(mse - mae**2, 0.0) / n)
    if bins.variance_error > bins.variance / 3:
        return MeasuredErrors(mae, mae_error, None, None, n, clip)
    mse_error = math.sqrt((sigma * clip**2 / n) ** 2 + _KURTOSIS * mse**2 / n)
    ratio = mse / bins.variance
    r2_error = math.hypot(mse_error, ratio * bins.variance_error) / bins.variance
    return MeasuredErrors(mae, mae_error, 1 - ratio, r2_error, n, clip)


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
    >>> state = NumbersPlan(0, 10, n_units=1_000, mu=100, n_public=20).start(np.eye(2)[[0, 1] * 10])
    >>> y, phi = np.repeat([2.0, 8.0], 500), np.eye(2)[np.repeat([0, 1], 500)]
    >>> while (ask := state.ask) is not None:
    ...     part = np.arange(1_000) % 10 == 0
    ...     part = part if ask.held_out else ~part
    ...     r = ask.votes(phi[part], y[part])
    ...     state = state.updated((phi[part].T @ r if ask.with_phi else r.sum(axis=0)).reshape(ask.shape), sigma=1e-3)
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
            "interval": lambda: ((_CELLS,), False, True, 1.0),
            "errors": lambda: ((2,), False, False, math.sqrt(0.5)),
        }[step]()
        return Ask(step, held_out, shares[self.n_rounds], shape, with_phi, one_hot, bound, n, self)

    @property
    def _step(self) -> str:
        n_range, n_all = len(_HISTOGRAMS), len(self.plan.shares)
        if self.n_rounds < n_range:
            return "range"
        if self.n_rounds < n_all - 1:
            return "bins"
        return ("residuals", "interval", "errors")[self.n_rounds - n_all + 1]

    @property
    def _edges(self) -> FloatArray:
        return self.zoom.edges(fine=self.n_rounds == len(_HISTOGRAMS) - 1)

    @property
    def _model(self) -> NumbersModel:
        assert self.model is not None
        return self.model

    def _votes(self, ask: Ask, phi: FloatArray, y: FloatArray) -> FloatArray:
        """Return the contributions r of these records."""
        if ask.step == "range":
            return _one_hot(cells_of(y, self._edges), ask.shape[0])
        y, model = np.clip(y, self.zoom.low, self.zoom.high), self._model
        if ask.step == "bins":
            r = _one_hot(model.bins.of(y), ask.shape[1]) - model.head.predict_proba(phi)
            length = np.linalg.norm(r, axis=1, keepdims=True)
            return np.asarray(r * np.minimum(1.0, _CLIP / np.maximum(length, _CLIP)))
        if ask.step == "interval":
            return _one_hot(cells_of(model.scored(phi, y), _score_edges()), _CELLS)
        r = np.clip((y - model.predict(phi)) / self.clip, -1.0, 1.0)
        return r[:, None] if ask.step == "residuals" else np.stack([np.abs(r) - 0.5, r**2 - 0.5], axis=1)

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
            assert model.scores is not None
            far = min(max(*map(abs, model.scores), 1e-3), _FARTHEST_ERROR)
            many = ask.n * self.plan.mu * math.sqrt(1 - _INTERVAL)
            times = math.sqrt(_NOISE * many / (math.sqrt(2) * 1.645**2))
            clip = max(_LEAST_CLIP, min(times, _MOST_CLIP)) * far * _mean_spread(model, self.phi)
            return replace(after, model=model, clip=min(clip, self.zoom.high - self.zoom.low))
        errors = measured_errors(sums, sigma=sigma, clip=self.clip, n=ask.n, bins=model.bins)
        return replace(after, errors=errors)

    def _with_bins(self) -> Numbers:
        """Return the state with bins, and a model that knows nothing yet, once the last histogram was asked."""
        if self.n_rounds < len(_HISTOGRAMS):
            return self
        bins = self.zoom.bins(self.plan.n_bins, self.plan.n_training)
        n_rounds, classes = len(self.plan.recipe.rounds), tuple(range(len(bins.means)))
        head = DescentHead(n_rounds=n_rounds).start(self.phi.shape[1], classes)
        model = NumbersModel(bins, head, np.zeros(self.phi.shape[1]), self.zoom.low, self.zoom.high)
        return replace(self, model=model)


def _mean_spread(model: NumbersModel, phi: FloatArray) -> float:
    """Return the root of the mean variance over the bins."""
    return math.sqrt(float(np.square(model.spread(phi)).mean()))


def _one_hot(cells: IntArray, n_cells: int) -> FloatArray:
    return np.asarray(np.eye(n_cells)[cells])
