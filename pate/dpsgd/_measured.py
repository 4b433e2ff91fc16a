"""Release, with Gaussian noise, how many private records the trained module classifies rightly.

The module is trained with differential privacy; the counts of :mod:`pate.records._right` are asked of it afterwards,
and released with Gaussian noise of their own. Training first and counts of what it gave are adaptive composition:

- *Training that is mu-GDP* (every unit in every step): mu^2 adds up, exactly (Dong, Roth, Su 2022, Corollary 3.3).
- *Poisson samples*: dominating pairs compose adaptively (Zhu, Dong, Wang 2022, Theorem 10). That of a count of L2
  sensitivity 1 with noise s is N(0, s^2) against N(1, s^2), the pair of an unsampled step of a noise multiplier of 2 s
  under replace-one (whose step moves by two clipping norms), of s under add-or-remove and zero-out. Several are one of
  1/s^2 = sum of 1/s_i^2.
- *Any other training*, replace-one: charges add up, each currency by its own theorem, and the least of them counts
  (:class:`pate.Charge`): an upper bound.

So training and counts are one mechanism with one price: the least noise is found for both together, a ledger is charged
for both at once, and the statement quotes both.
"""

from __future__ import annotations

import copy
import hashlib
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from pate._core.types import FloatArray, IntArray, Mask
from pate.dpsgd._calibration import dpsgd_epsilon
from pate.dpsgd.mechanisms import PoissonSGD, Shape, TrainingMechanism
from pate.exceptions import InvalidInputError
from pate.mechanisms import GaussianSum
from pate.networks import RowByRow
from pate.privacy.budget import Budget
from pate.privacy.convert import gdp_from_budget, gdp_to_epsilon
from pate.privacy.cost import Charge
from pate.privacy.noise.source import NoiseSource
from pate.privacy.words import Guarantee
from pate.records import BLOCK_ROWS, ask_alone, count_right
from pate.release import PaidBallots, ReleasedCounts, check_measure, measured_accuracy, measured_shares
from pate.release.statement.fields import MeasuredAccuracy

if TYPE_CHECKING:
    from pate.dpsgd._checkpoint import Checkpoint
    from pate.dpsgd._statement import Plan


@dataclass(frozen=True)
class Measured:
    """A training mechanism, and counts of right answers after it: one price, the training's batches and noise.

    Parameters
    ----------
    counts : tuple of GaussianSum
        Of the count, and perhaps of cells by class.
    """

    training: TrainingMechanism
    counts: tuple[GaussianSum, ...]
    #: In words: what follows the steps, what it is, and how a statement calls it.
    then: ClassVar[str] = ", then counts of right answers"
    extra: ClassVar[str] = "counts"
    released: ClassVar[str] = "; noisy counts of the records that it is right about"
    covered: ClassVar[str] = "the noisy counts of right answers"

    @property
    def name(self) -> str:
        """What it is called."""
        return self.training.name

    @property
    def prefixes(self) -> bool:
        """Whether the first steps, and all counts, cost what a shorter run would."""
        return self.training.prefixes

    @property
    def counted(self) -> Charge:
        """What the counts cost."""
        return Charge.total([(m.charge(1), 1) for m in self.counts])

    def check(self, shape: Shape, adjacency: str) -> None:
        """Refuse a run for which no theorem is known, alone or beside counts."""
        self.training.check(shape, adjacency)
        if adjacency != "replace-one" and not is_tight(self.training, shape, adjacency):
            raise InvalidInputError(
                f"measure must be None or False for {self.training.name} under {adjacency} adjacency: what it costs "
                "beside counts is known under replace-one. Leave measure out."
            )

    def epsilon(self, noise_multiplier: float, shape: Shape, *, delta: float, adjacency: str, interval: float) -> float:
        """Return an upper bound on the epsilon of training and counts: the module's composition."""
        if isinstance(self.training, PoissonSGD):  # exact without sampling
            return dpsgd_epsilon(
                noise_multiplier,
                beside=1 / math.sqrt(self.counted.mu_squared),
                delta=delta,
                sample_rate=shape.sample_rate,
                n_steps=shape.n_steps,
                adjacency=adjacency,
                interval=interval,
            )
        mu = self.mu(noise_multiplier, shape, adjacency)
        if mu is not None:
            return gdp_to_epsilon(mu, delta)
        return self.charge(noise_multiplier, shape).guarantee(delta).epsilon

    def charge(self, noise_multiplier: float, shape: Shape) -> Charge:
        """Return the cost under replace-one: both charges together."""
        return Charge.total([(self.training.charge(noise_multiplier, shape), 1), (self.counted, 1)])

    def batches(self, shape: Shape, n_units: int, source: NoiseSource) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the units of each step, as the training does."""
        return self.training.batches(shape, n_units, source)

    def noise(self, shape: Shape, size: int, source: NoiseSource) -> Iterator[torch.Tensor]:
        """Yield each step's noise, as the training does."""
        return self.training.noise(shape, size, source)

    def words(self, shape: Shape) -> str:
        """Return how steps are drawn, and what is counted."""
        multipliers = ", ".join(f"{m.noise_multiplier:.6g}" for m in self.counts)
        return f"{self.training.words(shape)}{self.then} with noise multiplier {multipliers}"

    def theorem(self, shape: Shape, adjacency: str) -> str:
        """Return what the accounting rests on."""
        return f"{self.training.theorem(shape, adjacency)}; the {self.extra} are one more Gaussian, composed adaptively"

    def sampling(self) -> str:
        """Return the statement's assumption about sampling."""
        return self.training.sampling()

    def verify(self, noise_multiplier: float, shape: Shape, guarantee: Guarantee, interval: float) -> str:
        """Return how to compute the epsilon again."""
        extra = " + ".join(f"1/{m.noise_multiplier!r}^2" for m in self.counts)
        return (
            f"{self.training.verify(noise_multiplier, shape, guarantee, interval)}; with a Gaussian of mu^2 = {extra}"
        )

    def replacing(self) -> Measured:
        """Return the same counts, made under add-or-remove, as they cost where one unit is replaced by another.

        A unit that is added moves them by one vector u with L2 norm <= 1 and no entry below 0; one that is replaced
        takes u away and adds such a v: |u - v|^2 <= |u|^2 + |v|^2 <= 2, their noise multiplier over sqrt 2.
        """
        return Measured(self.training, tuple(GaussianSum(m.noise_multiplier / math.sqrt(2)) for m in self.counts))

    def mu(self, noise_multiplier: float, shape: Shape, adjacency: str) -> float | None:
        """Return the mu of both, rounded up; None where training has none."""
        mu = self.training.mu(noise_multiplier, shape, adjacency)
        return None if mu is None else math.sqrt(mu * mu + self.counted.mu_squared) * (1 + 1e-12)


def is_tight(training: TrainingMechanism, shape: Shape, adjacency: str) -> bool:
    """Whether this training is composed with counts exactly, or by privacy loss distributions."""
    return isinstance(training, PoissonSGD) or training.mu(1.0, shape, adjacency) is not None


def with_counts(said: Any, training: TrainingMechanism, shape: Shape) -> TrainingMechanism:
    """Return the training mechanism with the counts that settings ask for, or as it is.

    By default: with counts where noise alone leaves less than five points to either side, the composition is
    exact or by privacy loss distributions, and noise was not given, nor canaries.
    """
    measure = check_measure(said.measure)
    given = said.noise_multiplier is not None or said.canaries is not None
    if measure is None and (given or not is_tight(training, shape, said.adjacency)):
        return training
    mu = gdp_from_budget(said.budget.epsilon, said.budget.delta)
    shares = measured_shares(measure, n=shape.n_units, mu=mu)
    if not shares:
        return training
    return Measured(training, tuple(GaussianSum(1 / (math.sqrt(share) * mu)) for share in shares))


def measure_module(
    plan: Plan,
    module: nn.Module,
    rows: Any,
    labels: IntArray,
    usable: Mask,
    owners: IntArray | None,
    *,
    classes: tuple[Any, ...],
    budget: Budget,
    source: NoiseSource,
    offsets: Any,
    kept: Checkpoint | None,
) -> MeasuredAccuracy:
    """Ask every private record whether the trained module is right about it, and release the counts paid for.

    Notes
    -----
    Where rows keep their places they are asked in blocks of one shape; where another unit's records might move them,
    each row is asked alone, so that no place shows in its last bits. A record that is not usable counts as wrong, and
    so does one on which the module raises.
    """
    mechanism, adjacency = plan.mechanism, plan.guarantee.adjacency
    assert isinstance(mechanism, Measured)
    counted = adjacency == "add-or-remove"
    block = BLOCK_ROWS if owners is None and not counted else 1

    logits = ask_module(module, rows, usable, size=block) - offsets
    answers = np.where(np.isfinite(logits).all(axis=1), logits.argmax(axis=1), -1)
    # Records without an owner are -1 here, and None there.
    groups = None if owners is None else np.array([None if one < 0 else one for one in owners.tolist()], dtype=object)
    paid = PaidBallots(mechanism.counts, source, None, None)
    sums = [
        count_right(
            answers, labels, classes=classes, groups=groups, by_class=by_class, own=True,
            adjacency="add-or-remove" if counted else "replace-one", nominal_n=plan.shape.n_units if counted else None,
        )
        for by_class in (False, True)[: len(mechanism.counts)]
    ]  # fmt: skip

    def draw() -> list[float]:
        return [float(x) for counts in sums for x in paid.draw(counts, {}, request="")[0].ravel()]

    of = hashlib.sha256(np.broadcast_to(np.asarray(offsets, dtype="<f8"), len(classes)).tobytes()).hexdigest()
    noisy = draw() if kept is None else kept.counts(of, draw)
    found: list[ReleasedCounts] = []
    for counts, paid_for in zip(sums, mechanism.counts, strict=True):
        n_cells = counts.sums.size
        found.append(ReleasedCounts.of(np.array(noisy[:n_cells])[:, None], counts.facts, paid_for, None))
        noisy = noisy[n_cells:]
    cost, mu = mechanism.counted.mu_squared, gdp_from_budget(budget.epsilon, budget.delta)
    return measured_accuracy(found, mu=math.sqrt(max(mu * mu - cost, 0.0)), share=min(1.0, cost / (mu * mu)))


def ask_module(module: nn.Module, rows: Any, usable: Mask, *, size: int) -> FloatArray:
    """Return what a module makes of each private row, from that row alone: float64 (n, n_outputs), **sensitive**.

    NaN where a row is not usable, or the module raises on it. ``size`` rows are asked at a time.
    """
    zeros = torch.from_numpy(np.zeros_like(rows[:1]))
    ask = RowByRow.of(copy.deepcopy(module), zeros)
    n_outputs = ask(zeros).shape[1]
    found = np.full((len(rows), n_outputs), np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they may quote private values
        ask_alone(lambda at: ask(torch.from_numpy(np.array(rows[at]))).double().numpy(), usable, found, size=size)
    return found
