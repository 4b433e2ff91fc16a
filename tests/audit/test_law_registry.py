"""Every public mechanism is registered, and audited by that alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

import pate.comparison.baselines
import pate.dpsgd.mechanisms
import pate.mechanisms
from pate import Budget, GaussianSum, GNMax, InvalidInputError, VoteCap
from pate.audit import independence, law
from pate.audit.laws._training import Batches
from pate.audit.laws._votes import SmoothRelease, VectorRounds, _of
from pate.audit.testing import Numbers, forget, register, registered
from pate.comparison.baselines import SampledNeighbours, StabilityTest
from pate.dpsgd.mechanisms import BandedFTRL, PoissonSGD, Shape, ShuffledSGD, TreeFTRL, TruncatedPoissonSGD
from pate.mechanisms import Mechanism, SharedGaussian, SharedGNMax
from pate.privacy.noise.source import NoiseSource
from pate.privacy.publish.gate import PTRGate

ENTRIES = registered()
FIRST = [(kind, entry.examples[0]) for kind, entry in ENTRIES.items()][::-1]  # the last ones are quick
ALL = [(kind, example) for kind, entry in ENTRIES.items() for example in entry.examples]


def name_of(value):
    return value.__name__ if isinstance(value, type) else repr(value)


def public_mechanisms():
    """Every concrete subclass of ``Mechanism`` in the package, and what else prices and draws by itself."""
    found, waiting = set(), [Mechanism]
    while waiting:
        kinds = [k for k in waiting.pop().__subclasses__() if k.__module__.startswith("pate.")]
        found |= set(kinds)
        waiting += kinds
    # What else samples and charges: by its name in a room of mechanisms.
    for room in (pate.mechanisms, pate.comparison.baselines, pate.dpsgd.mechanisms):
        values = [getattr(room, name) for name in room.__all__]
        found |= {
            v
            for v in values
            if isinstance(v, type)
            and (hasattr(v, "charge") or hasattr(v, "guarantee"))
            and any(hasattr(v, draw) for draw in ("sample", "draw", "noise", "session"))
        }
    return found - {Mechanism, pate.dpsgd.mechanisms.TrainingMechanism}


def test_every_public_mechanism_is_registered():
    missing = public_mechanisms() - set(ENTRIES)
    assert not missing, f"register {missing} in pate/audit/laws: see docs/design.md"
    assert len(public_mechanisms()) >= 13
    assert {PTRGate, SmoothRelease, Batches, VectorRounds} <= set(ENTRIES)


@pytest.mark.few(1)
@pytest.mark.parametrize(("kind", "example"), FIRST, ids=name_of)
def test_what_is_sampled_is_what_is_accounted(kind, example):
    """From the operating system, by which people are protected: a right sampler fails once in a million runs."""
    assert isinstance(example, kind)
    n = min(3_000, ENTRIES[kind].max_releases)
    found = law(example, n_classes=ENTRIES[kind].n_classes, max_releases=n)
    assert not found.refuted, found.finding


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "example"), ALL, ids=name_of)
def test_thoroughly(kind, example):
    """Thousands of classes too, and ten times as many releases of what is slow to draw."""
    n = (
        max(50_000, ENTRIES[kind].max_releases)
        if ENTRIES[kind].max_releases >= 20_000
        else 10 * ENTRIES[kind].max_releases
    )
    found = law(example, max_releases=n)
    assert not found.refuted, found.finding


@pytest.mark.slow
@pytest.mark.parametrize("kind", [k for k in ENTRIES if issubclass(k, Mechanism)], ids=name_of)
def test_noise_is_drawn_afresh(kind):
    found = independence(ENTRIES[kind].examples[0], max_releases=200_000)
    assert not found.refuted, found.finding


@dataclass(frozen=True)
class Forgets(VoteCap):
    """Its teachers vote on, whatever they have voted before."""

    def session(self, *, n_teachers, n_classes, noise):
        return replace(self, max_votes=10**9).session_of_base(n_teachers=n_teachers, n_classes=n_classes, noise=noise)

    def session_of_base(self, **terms):
        return VoteCap.session(self, **terms)


def noise_of(mechanism, factor=1.0, claim=None):
    """A sampler of a training mechanism's noise, scaled, made independent by the matrix of another (None: of none)."""

    source = NoiseSource(3)

    def sample(counts):
        shape = Shape(64, 0.5, counts.shape[1], 32)
        steps = [step.numpy() for step in mechanism.noise(shape, len(counts), source)]
        matrix = np.eye(counts.shape[1]) if claim is None else claim.strategy(shape).dense()
        return factor * np.stack(steps, axis=1) @ np.linalg.cholesky(matrix.T @ matrix)

    return sample


GATE = ENTRIES[PTRGate].examples[0]
SMOOTH = ENTRIES[SmoothRelease].examples[0]

#: For every kind: a claim, and something else that is sampled.
FAULTS = {
    "sum, a tenth less noise": (GaussianSum(4.0), GaussianSum(3.6)),
    "shares, a tenth less noise": (SharedGaussian(4.0, 5, 2), SharedGaussian(3.6, 5, 2)),
    "labels of shares, a tenth less noise": (SharedGNMax(10.0, 5, 2, 5), SharedGNMax(9.0, 5, 2, 5)),
    "rounds of vectors, of a larger budget": (VectorRounds(Budget(1.0, 1e-5)), VectorRounds(Budget(1.15, 1e-5))),
    "capped votes, a tenth less noise": (VoteCap(500, 10.0), VoteCap(500, 9.0)),
    "votes beyond the cap": (VoteCap(500, 10.0), Forgets(500, 10.0)),
    "neighbours, less noise": (SampledNeighbours(4, 0.5, 2.0), SampledNeighbours(4, 0.5, 1.7)),
    "neighbours, another rate": (SampledNeighbours(4, 0.5, 2.0), SampledNeighbours(4, 0.8, 2.0)),
    "neighbours, more of them": (SampledNeighbours(4, 0.5, 2.0), SampledNeighbours(9, 0.5, 2.0)),
    "stability, less noise": (StabilityTest(17, 2.0, 4.0, 1), StabilityTest(17, 2.0, 2.0, 1)),
    "stability, another line": (StabilityTest(17, 2.0, 4.0, 1), StabilityTest(17, 4.0, 4.0, 1)),
    "a gate of half the width": (GATE, PTRGate(**{**_of(GATE), "width": GATE.width / 2})),
    "smooth, half the noise": (SMOOTH, replace(SMOOTH, how=replace(SMOOTH.how, noise_scale=2.0))),
    "DP-SGD, a tenth less noise": (PoissonSGD(), noise_of(PoissonSGD(), 0.9)),
    "shuffled, a tenth less noise": (ShuffledSGD(), noise_of(PoissonSGD(), 0.9)),
    "truncated, a tenth less noise": (TruncatedPoissonSGD(2), noise_of(PoissonSGD(), 0.9)),
    "bands charged as independent": (PoissonSGD(), noise_of(BandedFTRL(2))),
    "independent noise charged as bands": (BandedFTRL(2), noise_of(PoissonSGD(), claim=BandedFTRL(2))),
    "trees begun again": (TreeFTRL(), noise_of(TreeFTRL(restart=2), claim=TreeFTRL())),
    "fixed batches charged as Poisson": (Batches(PoissonSGD()), Batches(ShuffledSGD())),
    "Poisson charged as fixed batches": (Batches(ShuffledSGD()), Batches(PoissonSGD())),
    "cut batches charged as Poisson": (Batches(PoissonSGD()), Batches(TruncatedPoissonSGD(2))),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", FAULTS)
def test_the_test_can_fail_for_every_kind(name):
    claim, sampled = FAULTS[name]
    assert law(claim, sampler=sampled, noise_seed=11, n_classes=ENTRIES[type(claim)].n_classes).refuted


def test_every_kind_has_a_fault():
    of_votes = {k for k in ENTRIES if issubclass(k, Mechanism)}  # in test_law.py
    assert {type(claim) for claim, _ in FAULTS.values()} | of_votes == set(ENTRIES)


@dataclass(frozen=True)
class Half(GNMax):
    """Half the noise it claims."""

    def sample(self, counts, noise, *, max_answers=None):
        return GNMax(self.sigma / 2).sample(counts, noise, max_answers=max_answers)


def test_a_new_mechanism_registers_once():
    register([Half(4.0)])
    try:
        assert registered()[Half].examples == (Half(4.0),)
        assert law(Half(4.0), noise_seed=1).refuted
    finally:
        forget(Half)
    assert Half not in registered()


class Coin:
    """Of another kind: no votes, a law of its own."""

    def __init__(self, heads):
        self.heads = heads


def test_a_mechanism_of_another_kind():
    register(
        [Coin(0.5)],
        law=lambda coin, counts: np.full((len(counts), 2), 0.5),
        bank=lambda coin, n_classes: {"a toss": np.zeros(2, dtype=np.int64)},
        sample=lambda coin, counts, noise: (noise.words(len(counts)) < np.uint64(coin.heads * 2**64)).astype(np.int64),
    )
    try:
        assert not law(Coin(0.5), noise_seed=1, max_releases=2_000).refuted
        assert law(Coin(0.6), noise_seed=1, max_releases=2_000).refuted
    finally:
        forget(Coin)


def test_examples_are_of_one_type():
    with pytest.raises(InvalidInputError, match="of one type"):
        register([GNMax(1.0), Coin(0.5)])
    with pytest.raises(InvalidInputError, match="got none"):
        register([])


def test_the_former_name_of_alternatives_warns():
    made, counts = Numbers(np.array([[0.0, 5.0]]), 2.0), np.array([[0, 5]])
    with pytest.warns(DeprecationWarning, match="alternatives"):
        former = made.rivals(made.edges(), counts)
    assert former.keys() == made.alternatives(made.edges(), counts).keys()
