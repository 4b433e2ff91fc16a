"""Auditing users' samplers: clear errors for those that fail."""

from __future__ import annotations

import numpy as np
import pytest

from pate import ConfidentGNMax, GNMax, InvalidInputError, NoisyHistogram
from pate.audit import independence, law

RNG = np.random.default_rng(8)


def theirs(sigma):
    return lambda counts: (counts + RNG.normal(0, sigma, counts.shape)).argmax(axis=1)


def test_another_librarys_sampler_beside_a_claim():
    assert not law(GNMax(40.0), sampler=theirs(40.0), n_classes=10, max_releases=5_000).refuted
    found = law(GNMax(40.0), sampler=theirs(40 / np.sqrt(2)), n_classes=10)
    assert found.refuted
    assert "beside GNMax(sigma=40.0)" in found.target
    assert not found.sensitive
    assert found.cited() == {"layer": "law", "claim": found.claim, "tried": found.tried, "stood": False}
    assert type(found).from_dict(found.to_dict()) == found
    assert found.plot().ax_.get_ylabel() == "log e-value"


@pytest.mark.parametrize(
    ("sampler", "words"),
    [
        (lambda c: c.nothing, "sampler failed on counts of shape"),
        (lambda c: np.zeros(len(c)), "one whole number for each row of counts"),
        (lambda c: np.zeros((len(c), 2), dtype=int), "one whole number for each row of counts"),
        (lambda c: [0], "one whole number for each row of counts"),
        (lambda c: ["a"] * len(c), "one whole number for each row of counts"),
        (3, "sampler must be a function of counts"),
    ],
)
def test_samplers_that_fail_are_reported(sampler, words):
    with pytest.raises(InvalidInputError, match=words):
        law(GNMax(40.0), sampler=sampler, n_classes=4)


@pytest.mark.parametrize(
    ("claim", "sampler", "words"),
    [
        (GNMax(40.0), lambda c: np.full(len(c), 7), "released label 7"),
        (GNMax(40.0), lambda c: np.full(len(c), -1), "refused to answer"),
        (ConfidentGNMax(200, 150, 40), lambda c: np.full(len(c), -2), "released label -2"),
        (NoisyHistogram(40.0), lambda c: np.full(c.shape, np.nan), "not finite"),
    ],
)
def test_what_a_claim_never_does_refutes_it(claim, sampler, words):
    found = law(claim, sampler=sampler, n_classes=4)
    assert found.refuted
    assert words in found.finding


def test_a_sampler_cannot_change_the_bank():
    def spoils(counts):
        labels = theirs(40.0)(counts)
        counts[:] = 0
        return labels

    assert not law(GNMax(40.0), sampler=spoils, n_classes=4, max_releases=2_000).refuted


@pytest.mark.parametrize("bank", [[], [[1, 2], [3]], [[0.5, 0.5]], [1, 2]])
def test_banks_that_are_none(bank):
    with pytest.raises(InvalidInputError, match="bank must be whole counts"):
        law(GNMax(40.0), bank=bank)


def test_claims_that_are_none():
    with pytest.raises(InvalidInputError, match=r"pate\.testing\.register"):
        law(3)
    with pytest.raises(InvalidInputError, match="got the class GNMax itself"):
        law(GNMax)
    with pytest.raises(InvalidInputError, match="bank must be histograms"):
        law(lambda c: c)
    with pytest.raises(InvalidInputError, match="rows sum to 1"):
        law(lambda c: np.ones((len(c), 2)), sampler=theirs(1.0), bank=[[0, 0]])
    with pytest.raises(InvalidInputError, match="test must be one of"):
        law(GNMax(40.0), test="chi-square")


def test_alternatives_of_ones_own_speed_up_and_keep_the_level():
    def lucky(counts):  # seven once in a hundred
        return np.where(RNG.random(len(counts)) < 0.01, 7, theirs(40.0)(counts))

    def bet(counts):
        p = np.exp(GNMax(40.0).log_probs(counts))
        return 0.99 * p + 0.01 * np.eye(10)[7]

    n = {}
    for name, bets in (("with", {"seven": bet, "another": GNMax(39.0)}), ("without", None)):
        found = law(GNMax(40.0), sampler=lucky, n_classes=10, alternatives=bets, max_releases=60_000)
        assert found.refuted
        n[name] = found["releases of each histogram"].value
    assert n["with"] < n["without"]
    assert not law(GNMax(40.0), n_classes=10, alternatives={"seven": bet}, noise_seed=4, max_releases=5_000).refuted
    with pytest.raises(InvalidInputError, match=r"alternatives\['seven'\]"):
        law(GNMax(40.0), n_classes=10, alternatives={"seven": lambda c: np.ones((len(c), 3)) / 3})


# ---- independence ----


def reused(counts):
    noise = RNG.normal(0, 40, counts.shape)
    noise[1::2] = noise[0::2]
    return (counts + noise).argmax(axis=1)


def shared(counts):
    """One noise for the whole release."""
    return (counts + RNG.normal(0, 40, (1, counts.shape[1]))).argmax(axis=1)


def seeded(counts):
    return (counts + np.random.default_rng(7).normal(0, 40, counts.shape)).argmax(axis=1)


@pytest.mark.parametrize(
    ("sampler", "words"), [(reused, "queries 1 apart"), (shared, "fails after"), (seeded, "two releases differ")]
)
def test_noise_that_is_used_again_is_found(sampler, words):
    found = independence(GNMax(40.0), sampler=sampler)
    assert found.refuted
    assert words in found.finding
    assert found.n_releases <= 2_000


@pytest.mark.long
def test_noise_left_out_once_in_a_thousand():
    def forgetful(counts):
        some = RNG.random((len(counts), 1)) < 1e-3
        return (counts + np.where(some, 0, RNG.standard_normal(counts.shape, dtype=np.float32) * 40)).argmax(axis=1)

    found = independence(GNMax(40.0), sampler=forgetful, max_releases=120_000)
    assert found.refuted
    assert "every answer has noise" in found.finding


def test_noise_of_released_counts_is_used_once():
    def rows(counts):  # the same noise for all classes
        return counts + RNG.normal(0, 40, (len(counts), 1))

    assert "classes" in independence(NoisyHistogram(40.0), sampler=rows).finding
    assert not independence(NoisyHistogram(40.0), noise_seed=2, max_releases=20_000).refuted


@pytest.mark.few(1)
@pytest.mark.parametrize("claim", [GNMax(40.0), ConfidentGNMax(200, 150, 40)], ids=lambda m: m.family)
def test_noise_of_our_own_is_drawn_afresh(claim):
    found = independence(claim, noise_seed=9, max_releases=8_000)
    assert not found.refuted
    assert found["log e-value"].value < 5


def test_independence_needs_a_known_law():
    with pytest.raises(InvalidInputError, match="knows no law"):
        independence(lambda c: c)
