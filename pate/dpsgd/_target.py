"""What DP-SGD measures of a private numeric target besides gradients: its range, and the trained model's errors.

The stated range may be far too wide, and noise on gradients is in proportion to how wide training takes it. So four
noisy histograms look for the part of it that holds the records, and for their mean and spread, by which training scales
the target; a histogram of residuals and a sum of errors of the trained module follow. Each is an exact sum of
:mod:`pate.records._vectors` with Gaussian noise of its own, and which cells, scale or clip it has follows from released
numbers: together with training they are adaptive composition, whatever comes first, priced as counts of right answers
are (:mod:`pate.dpsgd._measured` has the theorems).
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from torch import nn

from pate._core.types import FloatArray, IntArray, Mask
from pate.dpsgd._measured import Measured, asked_of, is_tight
from pate.dpsgd.mechanisms import Shape, TrainingMechanism
from pate.exceptions import InvalidInputError
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
    slabs,
    sum_alone,
    tails,
)
from pate.release import PaidBallots
from pate.release.statement.fields import Doubt, MeasuredErrors

if TYPE_CHECKING:
    from pate.dpsgd._checkpoint import Checkpoint

#: Shares of mu^2: histograms of the target, the last of them fine.
_HISTOGRAMS = (0.015, 0.015, 0.015, 0.03)
#: Shares of the histogram of residuals, and of the sum of errors: at this n mu all of mu^2, least and most of it.
_INTERVAL, _ERRORS = (235.0, 0.01, 0.05), (600.0, 0.02, 0.08)
#: Of what is summed in the end: a record's errors, and how far its number is from the mean.
_BOUND = math.sqrt(ERRORS_BOUND**2 + 0.25)
#: Errors are clipped as if so much of the budget were there: R2 is known better, heavy tails are seen less.
_CLOSER = 0.25
#: By default from this n mu on: with less, what noise makes of histograms costs more where the stated range is tight
#: than they save where it is wide. Tried on three made-up and three real targets, n mu 100 to 800.
_WORTH = 500.0
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

    ``bins`` have its mean and variance, None where nothing was asked of the records; ``scores`` are the ends of a 90%
    interval around a prediction, None where they were not measured.

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

    @classmethod
    def stated(cls, bounds: tuple[float, float]) -> TargetScale:
        """Return the scale of a stated range, where nothing else is known."""
        low, high = bounds
        return cls(low, high, low / 2 + high / 2, high / 2 - low / 2)

    @classmethod
    def found(cls, zoom: Zoom, n: int) -> TargetScale:
        """Return the scale that released histograms of n units say."""
        bins = zoom.bins(2, n)
        centre = min(max(bins.mean, zoom.low), zoom.high)
        half = min(_SPREADS * math.sqrt(bins.variance), (zoom.high - zoom.low) / 2)
        return cls(zoom.low, zoom.high, centre, half, bins)

    def scaled(self, values: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Return numbers as training sees them; NaN stays. **Sensitive** where they are."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            inside = np.clip(np.asarray(values, dtype=np.float64), self.low, self.high)
            return np.asarray((inside - self.centre) / self.half, dtype=np.float32)

    def numbers(self, outputs: npt.ArrayLike) -> FloatArray:
        """Return what outputs of the trained module mean, within [low, high]."""
        found = np.asarray(outputs, dtype=np.float64)
        with np.errstate(over="ignore"):
            return np.clip(self.centre + self.half * found, self.low, self.high)


def shares_of(n_mu: float) -> tuple[float, ...]:
    """Return the shares of mu^2 of all that is asked beside training, in order; more for less evidence ``n mu``."""
    after = (min(max((at / n_mu) ** 2, least), most) for at, least, most in (_INTERVAL, _ERRORS))
    return (*_HISTOGRAMS, *after)


def too_few(shape: Shape, unit: str, budget: Budget, bounds: tuple[float, float]) -> tuple[Doubt, ...]:
    """Return what speaks against relying on a model that was not measured: fewer records than tell anything."""
    n_mu = shape.n_units * gdp_from_budget(budget.epsilon, budget.delta)
    if n_mu >= _WORTH:
        return ()
    sentence = (
        "the model may predict no better than the mean of all records, above all where the stated range "
        f"({bounds[0]:g} to {bounds[1]:g}) is much wider than their numbers spread: {shape.n_units:,} {unit}s at this "
        f"budget (n mu = {n_mu:.3g}, where {_WORTH:g} would do) are too few to find where in it they lie, or how far "
        "off the model is. Take more records, a larger budget or a narrower range."
    )
    return (Doubt(kind="no better than the mean", sentence=sentence),)


def with_sums(said: Any, training: TrainingMechanism, shape: Shape) -> TrainingMechanism:
    """Return the training mechanism with the histograms and sums that settings ask for, or as it is.

    By default: with them where histograms can tell one cell from another, under replace-one, where the composition is
    exact or by privacy loss distributions, and neither noise nor canaries were given.
    """
    low, high = said.bounds
    given = said.noise_multiplier is not None or said.canaries is not None
    possible = said.adjacency == "replace-one" and max(-low, high) <= _FARTHEST
    possible &= high - low >= max(_NARROWEST * max(abs(low), abs(high)), 1 / _FARTHEST)
    mu = gdp_from_budget(said.budget.epsilon, said.budget.delta)
    if not (said.measure is None or isinstance(said.measure, bool)):
        raise InvalidInputError(f"measure must be True, False or None, got {said.measure!r}. None asks where it pays.")
    if said.measure and not possible:
        raise InvalidInputError(
            "measure must be None or False here: records tell their range and errors under adjacency='replace-one', "
            "within a range whose ends are not nearly alike. Leave measure out."
        )
    wanted = said.measure
    if wanted is None:
        wanted = possible and not given and shape.n_units * mu >= _WORTH and is_tight(training, shape, said.adjacency)
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
        return TargetScale.found(zoom, units.n)

    def errors(
        self, scale: TargetScale, module: nn.Module, rows: Any, usable: Mask
    ) -> tuple[tuple[float, float], MeasuredErrors]:
        """Release residuals and errors of the trained module; return the interval's ends about a value, and errors.

        Rows are asked as :func:`pate.dpsgd._measured.measure_module` asks them.
        """
        assert scale.bins is not None
        units, (first, second) = self.units, self.mechanism.counts[len(_HISTOGRAMS) :]
        outputs = _outputs(module, rows, usable, BLOCK_ROWS if self.owners is None else 1)
        residuals = np.clip(self.values, scale.low, scale.high) - scale.numbers(outputs)
        residuals[~np.isfinite(residuals)] = 0.0  # what is no number contributes nothing anyway
        spread, n = math.sqrt(scale.bins.variance), units.n
        cells = units.cells(score_edges(), residuals / spread)
        far = np.square(np.clip(np.nan_to_num((self.values - scale.centre) / scale.half), -1.0, 1.0)) - 0.5
        counts = count_cells(units, cells, [N_CELLS], what="a histogram of residuals", query="", own=True)

        def after(noisy: list[float]) -> tuple[tuple[float, float], float, VectorSum]:
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
            paid = PaidBallots((first, second), own, None, None)
            noisy = _drawn(paid, counts)
            return [*noisy, *_drawn(paid, after(noisy)[2])]

        of = hashlib.sha256(repr((scale.low, scale.high, scale.centre, scale.half)).encode()).hexdigest()
        noisy = draw() if self.kept is None else self.kept.counts(of, draw)
        scores, clip, summed = after(noisy[:N_CELLS])
        statistics, sigma = _in_units(noisy[N_CELLS:], summed, second)
        statistics, sigma = statistics * _BOUND, sigma * _BOUND
        # With less noise than the histogram has it, whose every empty cell counts.
        variance = max(statistics[2] / n + 0.5, 0.0) * scale.half**2
        bins = replace(scale.bins, variance=variance, variance_error=sigma / n * scale.half**2)
        found = measured_errors(statistics[:2], sigma=sigma, clip=clip, n=n, bins=bins)
        errors = MeasuredErrors(**asdict(found), unit=units.unit, held_out=False)
        return (scores[0] * spread, scores[1] * spread), errors


def _drawn(paid: PaidBallots, found: VectorSum) -> list[float]:
    return [float(x) for x in paid.draw(found, {}, request="")[0].ravel()]


def _in_units(noisy: list[float], of: VectorSum, mechanism: GaussianSum) -> tuple[FloatArray, float]:
    """Return released numbers and their noise in units of what is summed."""
    scale = of.facts.scale
    return np.array(noisy, dtype=np.float64) / scale, mechanism.scale(of.facts.delta_squared) / scale


def _outputs(module: nn.Module, rows: Any, usable: Mask, block: int) -> FloatArray:
    """Return what the module says of each record, shape (n,), zero of those that cannot be asked: **sensitive**."""
    found = np.zeros(len(rows))
    for a, b in slabs(len(rows), block):
        which = np.concatenate([np.arange(a, b), np.full(block - (b - a), a)])
        part = np.array(rows[which])
        part[~usable[which]] = 0
        found[a:b] = asked_of(module, part)[: b - a, 0]
    return np.where(usable, found, 0.0)
