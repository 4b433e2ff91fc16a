"""What DP-SGD measures of a private numeric target besides gradients: its range, and the trained model's errors.

The stated range may be far too wide, and noise on gradients is in proportion to how wide training takes it. So four
noisy histograms look for the part of it that holds the records, and for their mean and spread, by which training scales
the target; moments that shrink the trained module towards
the mean, a histogram of residuals and a sum of errors follow. Each is an exact sum of
:mod:`pate.records._vectors` with Gaussian noise of its own, and which cells, scale or clip it has follows from released
numbers: together with training they are adaptive composition, whatever comes first, priced as counts of right answers
are (:mod:`pate.dpsgd._measured` has the theorems).
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from torch import nn

from pate._core.types import FloatArray, IntArray, Mask
from pate.dpsgd._measured import Measured, ask_module, is_tight
from pate.dpsgd.mechanisms import Shape, TrainingMechanism
from pate.exceptions import InvalidInputError, NotWorthwhileError
from pate.mechanisms import GaussianSum
from pate.privacy.budget import Budget
from pate.privacy.convert import gdp_from_budget
from pate.privacy.noise.source import NoiseSource
from pate.records import (
    BLOCK_ROWS,
    ERRORS_BOUND,
    LEVEL,
    N_CELLS,
    Bins,
    Units,
    VectorSum,
    Zoom,
    bounded_errors,
    count_cells,
    error_clip,
    measured_errors,
    score_edges,
    sum_alone,
    tails,
)
from pate.release import PaidBallots
from pate.release.statement.fields import Doubt, MeasuredErrors

if TYPE_CHECKING:
    from pate.dpsgd._checkpoint import Checkpoint

#: Shares of mu^2: histograms of the target, the last of them fine.
_HISTOGRAMS = (0.015, 0.015, 0.015, 0.03)
#: Shares of what shrinks the model, of the histogram of residuals, and of the sum of errors: at this n mu all of mu^2,
#: least and most of it.
_SHRINKING, _INTERVAL, _ERRORS = (85.0, 0.02, 0.1), (235.0, 0.01, 0.05), (600.0, 0.02, 0.08)
#: What is summed to shrink the model, in spreads of the target, is clipped to this norm, at least and at most, and
#: between where noise is so large a part of a spread.
_LEAST_NORM, _MOST_NORM, _NOISE = 3.0, 12.0, 0.02
#: The model's outputs are stretched by no more than this.
_STRETCHED = 2.0
#: Means that shrink the model: of t, u, t u and u^2.
N_MOMENTS = 4
#: Of what is summed in the end: a record's errors, and how far its number is from the mean.
_BOUND = math.sqrt(ERRORS_BOUND**2 + 0.25)
#: Errors are clipped as if so much of the budget were there: R2 is known better, heavy tails are seen less.
_CLOSER = 0.25
#: Below this n mu the mean of all records predicts as well (as of :data:`pate.models._numbers.LEAST`).
_LEAST = 200.0
#: Training sees numbers from so many standard deviations below the mean to so many above as -1 to 1.
_SPREADS = 3.0
#: Ends of a range, and how narrow it may be relative to them, for histograms.
_FARTHEST, _NARROWEST = 1e70, 1e-6
#: Under which name a checkpoint holds the released histograms.
_KEPT = "histograms"


@dataclass(frozen=True)
class MeasuredNumber(Measured):
    """A training mechanism with histograms of its target before it and sums of its errors after it: one price."""

    then: ClassVar[str] = ", beside histograms of the target and of errors and a sum of errors"
    extra: ClassVar[str] = "histograms and sums"
    released: ClassVar[str] = "; noisy histograms of the target, and noisy sums of how far off the model is"
    covered: ClassVar[str] = "the noisy histograms of the target, and of how far the model is off"


@dataclass(frozen=True, eq=False)
class TargetScale:
    """Where training sees a target: (y - centre)/half, of numbers cut to [low, high]. Public.

    ``bounds`` is the stated range. ``bins`` have its mean and variance, None where nothing was asked of the records. An
    output of the trained module means ``intercept + slope output``: centre and half until the trained model is shrunk
    towards the mean.

    Examples
    --------
    >>> scale = TargetScale.stated((0.0, 100.0))
    >>> scale.scaled([25.0, 999.0]), scale.numbers([-0.5, 7.0])
    (array([-0.5,  1. ], dtype=float32), array([ 25., 100.]))
    """

    low: float
    high: float
    centre: float
    half: float
    bins: Bins | None = None
    bounds: tuple[float, float] = (-math.inf, math.inf)
    intercept: float = field(default=math.nan)
    slope: float = field(default=math.nan)

    def __post_init__(self) -> None:
        if math.isnan(self.slope):
            object.__setattr__(self, "intercept", self.centre)
            object.__setattr__(self, "slope", self.half)

    @classmethod
    def stated(cls, bounds: tuple[float, float]) -> TargetScale:
        """Return the scale of a stated range, where nothing else is known."""
        low, high = bounds
        return cls(low, high, low / 2 + high / 2, high / 2 - low / 2, bounds=bounds)

    @classmethod
    def found(cls, zoom: Zoom, n: int, bounds: tuple[float, float]) -> TargetScale:
        """Return the scale that released histograms of n units say."""
        bins = zoom.bins(2, n)
        centre = min(max(bins.mean, zoom.low), zoom.high)
        # Once in 500 draws noise leaves a range so wide that the variance drowns: then it is its error at least.
        half = min(_SPREADS * math.sqrt(max(bins.variance, bins.variance_error)), (zoom.high - zoom.low) / 2)
        return cls(zoom.low, zoom.high, centre, half, bins, bounds)

    def scaled(self, values: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Return numbers as training sees them; NaN stays. **Sensitive** where they are."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            inside = np.clip(np.asarray(values, dtype=np.float64), self.low, self.high)
            return np.asarray((inside - self.centre) / self.half, dtype=np.float32)

    def numbers(self, outputs: npt.ArrayLike) -> FloatArray:
        """Return what outputs of the trained module mean, within [low, high]."""
        found = np.asarray(outputs, dtype=np.float64)
        with np.errstate(over="ignore"):
            return np.clip(self.intercept + self.slope * found, self.low, self.high)

    @property
    def unit(self) -> float:
        """The target's spread, one standard error of its variance larger: noise rarely makes it far too small."""
        assert self.bins is not None
        return math.sqrt(self.bins.variance + self.bins.variance_error)

    def shrunk(self, moments: FloatArray, error: float, n: int) -> TargetScale:
        """Return the scale that shrinks a model towards the mean, by four noisy means over n records.

        They are of t, u, t u and u^2, the target and the module's value about ``centre`` in :attr:`unit`, each with
        noise of standard deviation ``error``. The slope is that of least squares, of t on u, times a positive-part
        Stein factor (James & Stein 1961) of its numerator: zero where noise might have made it.
        """
        t, u, tu, uu = (float(m) for m in moments)
        known = error**2 + max(uu, 0.0) / n
        both, variance = tu - t * u, max(uu - u * u, math.sqrt(known))
        slope = min((both - known / both) / variance, _STRETCHED) if both > math.sqrt(known) else 0.0
        return replace(self, intercept=self.centre + (t - slope * u) * self.unit, slope=slope * self.half)


def shares_of(n_mu: float) -> tuple[float, ...]:
    """Return the shares of mu^2 of all that is asked beside training, in order; more for less evidence ``n mu``."""
    after = (min(max((at / n_mu) ** 2, least), most) for at, least, most in (_SHRINKING, _INTERVAL, _ERRORS))
    return (*_HISTOGRAMS, *after)


def too_few(shape: Shape, unit: str, budget: Budget, bounds: tuple[float, float]) -> tuple[Doubt, ...]:
    """Return what speaks against relying on a model that was not measured."""
    n_mu = shape.n_units * gdp_from_budget(budget.epsilon, budget.delta)
    sentence = (
        "the model may predict no better than the mean of all records, above all where the stated range "
        f"({bounds[0]:g} to {bounds[1]:g}) is much wider than their numbers spread: {shape.n_units:,} {unit}s at this "
        f"budget (n mu = {n_mu:.3g}) were not asked where in it they lie, or how far off the model is, and there is no "
        "interval. Leave measure, mechanism and the noise multiplier as they are by default, or take a narrower range."
    )
    return (Doubt(kind="no better than the mean", sentence=sentence),)


def with_sums(said: Any, training: TrainingMechanism, shape: Shape) -> TrainingMechanism:
    """Return the training mechanism with the histograms and sums that settings ask for, or as it is.

    By default: with them under replace-one, where the composition is exact or by privacy loss distributions, and
    neither noise nor canaries were given.

    Raises
    ------
    NotWorthwhileError
        Too few records for the budget, and ``force`` is False.
    """
    low, high = said.bounds
    given = said.noise_multiplier is not None or said.canaries is not None
    possible = said.adjacency == "replace-one" and max(-low, high) <= _FARTHEST
    possible &= high - low >= max(_NARROWEST * max(abs(low), abs(high)), 1 / _FARTHEST)
    mu = gdp_from_budget(said.budget.epsilon, said.budget.delta)
    if shape.n_units * mu < _LEAST and not (said.force or given):
        raise NotWorthwhileError(
            f"{shape.n_units:,} records or persons at this budget (n mu = {shape.n_units * mu:.3g}) are too few to "
            f"predict a number better than its mean: take more records or a larger budget, so that n mu is {_LEAST:g} "
            "or more. Or say force=True (--force). Nothing was spent."
        )
    if not (said.measure is None or isinstance(said.measure, bool)):
        raise InvalidInputError(f"measure must be True, False or None, got {said.measure!r}. None asks where it pays.")
    if said.measure and not possible:
        raise InvalidInputError(
            "measure must be None or False here: records tell their range and errors under adjacency='replace-one', "
            "within a range whose ends are not nearly alike. Leave measure out."
        )
    wanted = said.measure
    if wanted is None:
        wanted = possible and not given and is_tight(training, shape, said.adjacency)
    if not wanted:
        return training
    shares = shares_of(shape.n_units * mu)
    return MeasuredNumber(training, tuple(GaussianSum(1 / (math.sqrt(share) * mu)) for share in shares))


@dataclass(frozen=True, eq=False)
class TargetSums:
    """Asks private numbers what a run has paid for: **sensitive**.

    ``values`` (n,) are NaN where a record cannot be used; ``owners`` are the persons' indices, -1 for none, or None.
    """

    mechanism: MeasuredNumber
    values: FloatArray
    owners: IntArray | None
    source: NoiseSource
    kept: Checkpoint | None

    @property
    def units(self) -> Units:
        """The records' numbers and owners."""
        groups = None
        if self.owners is not None:
            groups = np.array([None if one < 0 else one for one in self.owners.tolist()], dtype=object)
        return Units.of(self.values, groups)

    def scale(self, bounds: tuple[float, float]) -> TargetScale:
        """Release the histograms, each within what those before it found, and return the scale that they say.

        Those of a run that is taken up are in its checkpoint, beside the key of its noise: they are not drawn again.
        """
        units, zoom, rounds = self.units, Zoom(*bounds), self.mechanism.counts[: len(_HISTOGRAMS)]
        kept = None if self.kept is None else self.kept.facts.get(_KEPT)
        if self.kept is not None and self.kept.facts.get("step") and kept is None:
            raise InvalidInputError(
                "checkpoint_dir= holds a run whose histograms of the target are not there: other ones would be paid "
                "for by nobody. Take it up with the version of pate that began it, or name another folder."
            )
        # By the run's own key: whole numbers of the very records that it is bound to come out the same again.
        paid, drawn = PaidBallots(rounds, self.source.child(4), None, None), []
        for j, mechanism in enumerate(rounds):
            edges = zoom.edges(fine=j == len(rounds) - 1)
            what = "a histogram of the target"
            found = count_cells(units, units.cells(edges), [len(edges) - 1], what=what, query=f"{j}", own=True)
            drawn.append(_drawn(paid, found) if kept is None else kept[j])
            counts, sigma = _in_units(drawn[j], found, mechanism)
            zoom = zoom.updated(counts, sigma=sigma, n=units.n)
        if self.kept is not None:
            self.kept.facts[_KEPT] = drawn
        return TargetScale.found(zoom, units.n, bounds)

    def errors(
        self, scale: TargetScale, module: nn.Module, rows: Any, usable: Mask
    ) -> tuple[TargetScale, tuple[float, float] | None, MeasuredErrors]:
        """Shrink the trained module's values, and release residuals and errors of them.

        Rows are asked as :func:`pate.dpsgd._measured.measure_module` asks them.

        Returns
        -------
        scale : TargetScale
            Of the shrunk model.
        interval : (float, float) or None
            Ends about a value; None where noise hides them.
        errors : MeasuredErrors
        """
        assert scale.bins is not None
        units, (zeroth, first, second) = self.units, self.mechanism.counts[len(_HISTOGRAMS) :]
        outputs = ask_module(module, rows, usable, size=BLOCK_ROWS if self.owners is None else 1)[:, 0]
        spread, n = scale.unit, units.n
        inside = np.clip(self.values, scale.low, scale.high)
        t, u = ((x - scale.centre) / scale.unit for x in (inside, scale.numbers(outputs)))
        norm = min(max(_LEAST_NORM, _NOISE * n / (2 * zeroth.noise_multiplier)), _MOST_NORM)
        what = "moments of the target and the module's values"
        moments = sum_alone(units, np.stack([t, u, t * u, u * u], axis=1), clip=norm, what=what, query="", own=True)
        far = np.square(np.clip(np.nan_to_num((self.values - scale.centre) / scale.half), -1.0, 1.0)) - 0.5

        def shrunk(noisy: list[float]) -> tuple[TargetScale, FloatArray, VectorSum]:
            statistics, sigma = _in_units(noisy, moments, zeroth)
            made = scale.shrunk(statistics * (norm / n), sigma * norm / n, n)
            # Numbers that the range which was found leaves out are as far off as they are.
            residuals = np.clip(self.values, *scale.bounds) - made.numbers(outputs)
            residuals[~np.isfinite(residuals)] = 0.0  # what is no number contributes nothing anyway
            cells = units.cells(score_edges(), residuals / spread)
            return (
                made,
                residuals,
                count_cells(units, cells, [N_CELLS], what="a histogram of residuals", query="", own=True),
            )

        def after(noisy: list[float], residuals: FloatArray, counts: VectorSum) -> tuple[Any, float, VectorSum]:
            statistics, sigma = _in_units(noisy, counts, first)
            scores = tails(statistics, sigma, n, (1 - LEVEL) / 2)
            many = _CLOSER * n / second.noise_multiplier
            clip = error_clip(scores, many=many, spread=spread, widest=scale.high - scale.low)
            votes = np.column_stack([bounded_errors(residuals, clip), far])
            what = "absolute and squared errors of the module, and the target's square about its mean"
            return scores, clip, sum_alone(units, votes, clip=_BOUND, what=what, query="", own=True)

        def draw() -> list[float]:
            # Never the kept key's: outputs are rounded, and other sums under the same noise would tell both.
            own = self.source.child(5) if self.source.seeded else NoiseSource()
            paid = PaidBallots((zeroth, first, second), own, None, None)
            noisy = _drawn(paid, moments)
            _, residuals, counts = shrunk(noisy)
            cells = _drawn(paid, counts)
            return [*noisy, *cells, *_drawn(paid, after(cells, residuals, counts)[2])]

        of = hashlib.sha256(repr((scale.low, scale.high, scale.centre, scale.half)).encode()).hexdigest()
        noisy = draw() if self.kept is None else self.kept.counts(of, draw)
        cells, sums = noisy[N_MOMENTS : N_MOMENTS + N_CELLS], noisy[N_MOMENTS + N_CELLS :]
        made, residuals, counts = shrunk(noisy[:N_MOMENTS])
        scores, clip, summed = after(cells, residuals, counts)
        statistics, sigma = _in_units(sums, summed, second)
        statistics, sigma = statistics * _BOUND, sigma * _BOUND
        # With less noise than the histogram has it, whose every empty cell counts.
        variance = max(statistics[2] / n + 0.5, 0.0) * scale.half**2
        bins = replace(scale.bins, variance=variance, variance_error=sigma / n * scale.half**2)
        found = measured_errors(statistics[:2], sigma=sigma, clip=clip, n=n, bins=bins)
        errors = MeasuredErrors(**asdict(found), unit=units.unit, held_out=False)
        return made, None if scores is None else (scores[0] * spread, scores[1] * spread), errors


def _drawn(paid: PaidBallots, found: VectorSum) -> list[float]:
    return [float(x) for x in paid.draw(found, {}, request="")[0].ravel()]


def _in_units(noisy: list[float], of: VectorSum, mechanism: GaussianSum) -> tuple[FloatArray, float]:
    """Return released numbers and their noise in units of what is summed."""
    scale = of.facts.scale
    return np.array(noisy, dtype=np.float64) / scale, mechanism.scale(of.facts.delta_squared) / scale
