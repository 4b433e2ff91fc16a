"""The exact divergence of one pair, against all its outcomes one by one, closed forms, and the bounds above it."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom, norm

from pate import Budget, Charge, ConfidentGNMax, GaussianSum, GNMax, LNMax, NoisyHistogram, Votes
from pate.audit import pair
from pate.audit._claims import Claim
from pate.audit._pair import n_moved
from pate.data import load_votes
from pate.exceptions import DatasetNotFoundError, InvalidInputError, SensitiveValueError
from pate.privacy.convert import gdp_to_epsilon
from pate.privacy.exact import GaussianNoise, LaplaceNoise, ThresholdTest, exact_rdp, pld_epsilon
from pate.privacy.exact._given_pair import given_pair
from pate.records import RecordVoters, SignedSpace, Units, count_cells
from pate.report.audit_result import AuditResult

LAWS = {
    "gaussian": {"noise": GaussianNoise(3.0)},
    "laplace": {"noise": LaplaceNoise(3.0)},
    "confident": {"noise": GaussianNoise(3.0), "threshold": ThresholdTest(6.0, 4.0)},
}
PAIR = "epsilon of the pair"


def some_pair(seed=0, n_queries=6, n_teachers=12, p=(0.5, 0.3, 0.2)):
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(n_teachers, p, size=n_queries)
    moved = counts.copy()
    for row in moved:
        row[rng.choice(np.flatnonzero(row))] -= 1
        row[rng.integers(len(row))] += 1
    return counts, moved


def all_outcomes(found, cap=None):
    """Log probabilities of every transcript under both laws."""
    rows = [(0.0, 0.0, 0)]
    for p, q in zip(found.log_p, found.log_q, strict=True):
        grown = []
        for a, b, answers in rows:
            if cap is not None and answers == cap:
                grown.append((a, b, answers))
                continue
            refusal = len(p) - 1 if cap is not None else -1
            grown += [(a + p[j], b + q[j], answers + (j != refusal)) for j in range(len(p))]
        rows = grown
    return np.array([r[0] for r in rows]), np.array([r[1] for r in rows])


def epsilon_of(log_p, log_q, delta):
    def excess(e):
        return np.maximum(np.exp(log_p) - np.exp(e + log_q), 0).sum() - delta

    return brentq(excess, 0.0, 50.0, xtol=1e-13) if excess(0.0) > 0 else 0.0


@pytest.mark.parametrize("cap", [None, 2])
@pytest.mark.parametrize("law", LAWS)
def test_it_is_the_divergence_of_all_transcripts(law, cap):
    if cap is not None and law != "confident":
        pytest.skip("only a mechanism that refuses may stop by its answers")
    found = given_pair(*some_pair(), **LAWS[law], cap=cap)
    p, q = all_outcomes(found, cap)
    for delta in (1e-1, 1e-3, 1e-6):
        found_epsilon = found.epsilon(delta)
        for (low, high), exact in (
            (found_epsilon.forward, epsilon_of(p, q, delta)),
            (found_epsilon.reverse, epsilon_of(q, p, delta)),
        ):
            assert low <= exact <= high
            assert low == pytest.approx(exact, rel=2e-3, abs=1e-9)
            assert cap is not None or high == pytest.approx(exact, rel=2e-3, abs=1e-9)
    orders = np.array([1.25, 2.0, 8.0, 40.0])
    for one, (a, b) in zip(found.rdp(orders), ((p, q), (q, p)), strict=True):
        wanted = np.log(np.exp(orders[:, None] * a + (1 - orders[:, None]) * b).sum(axis=1)) / (orders - 1)
        np.testing.assert_allclose(one, wanted, rtol=1e-9)


def test_a_run_that_asks_only_so_many_is_the_shorter_one():
    counts, moved = some_pair()
    whole = given_pair(counts, moved, noise=GaussianNoise(3.0), cap=4)
    assert whole.epsilon(1e-4) == given_pair(counts[:4], moved[:4], noise=GaussianNoise(3.0)).epsilon(1e-4)


@pytest.mark.parametrize(("gap", "sigma", "n"), [(0, 40.0, 300), (30, 40.0, 300), (4, 2.0, 20)])
def test_two_classes_in_closed_form(gap, sigma, n):
    """n equal queries of two classes are a binomial; the likelihood ratio grows with it."""
    top = 100 + gap
    p, q = (float(norm.cdf(g / (sigma * math.sqrt(2)))) for g in (gap, gap - 2))
    k = np.arange(n + 1)
    exact = epsilon_of(binom.logpmf(k, n, p), binom.logpmf(k, n, q), 1e-5)
    low, high = given_pair([[top, 100]] * n, [[top - 1, 101]] * n, noise=GaussianNoise(sigma)).epsilon(1e-5).forward
    assert low <= exact * (1 + 1e-10)
    assert exact <= high * (1 + 1e-10)
    assert low == pytest.approx(exact, rel=1e-4)
    assert high == pytest.approx(exact, rel=5e-3)


def test_clear_votes_at_small_noise_have_rare_large_losses():
    counts, moved = [[40, 0, 0]] * 3, [[39, 1, 0]] * 3
    found = given_pair(counts, moved, noise=GaussianNoise(2.0))
    p, q = all_outcomes(found)
    for delta in (1e-3, 1e-9):
        found_epsilon = found.epsilon(delta)
        for (low, high), exact in (
            (found_epsilon.forward, epsilon_of(p, q, delta)),
            (found_epsilon.reverse, epsilon_of(q, p, delta)),
        ):
            assert low <= exact + 1e-12
            assert exact <= high + 1e-12


def test_the_worst_neighbour_is_the_exact_analysis():
    """Over all neighbours of a histogram the largest divergence of a pair is exact_rdp's."""
    counts, orders = np.array([9, 6, 3, 0]), [2.0, 16.0]
    worst = np.zeros(2)
    for u in range(4):
        for b in range(4):
            if u != b and counts[u]:
                other = counts.copy()
                other[u] -= 1
                other[b] += 1
                worst = np.maximum(worst, given_pair(counts, other, noise=GaussianNoise(3.0)).rdp(orders).max(axis=0))
    np.testing.assert_allclose(worst, exact_rdp(counts, orders, noise=GaussianNoise(3.0))[0], rtol=1e-9)


@pytest.mark.long
@settings(max_examples=8)
@given(st.integers(0, 10_000), st.sampled_from([GNMax(6.0), LNMax(5.0), ConfidentGNMax(12, 8.0, 6.0)]))
def test_pair_below_data_dependent_below_public(seed, mechanism):
    counts, moved = some_pair(seed, n_queries=8, n_teachers=20, p=(0.55, 0.25, 0.1, 0.1))
    found = pair(counts, moved, mechanism, delta=1e-4, published=True)
    both = pld_epsilon(counts, 1e-4, **mechanism.exact_parameters())
    assert found[PAIR].low <= found[PAIR].high
    assert found[f"{PAIR}, forward"].low <= both.forward * (1 + 1e-9)
    assert found[f"{PAIR}, reverse"].low <= both.reverse * (1 + 1e-9)
    assert not found.refuted
    assert found["largest share of the claimed Renyi curve"].value <= 1
    mirrored = pair(moved, counts, mechanism, delta=1e-4, published=True)
    assert mirrored[f"{PAIR}, forward"].value == pytest.approx(found[f"{PAIR}, reverse"].value, rel=1e-3, abs=1e-6)
    shorter = pair(counts[:4], moved[:4], mechanism, delta=1e-4, published=True)
    assert shorter[PAIR].low <= found[PAIR].high * (1 + 1e-9)


@pytest.mark.long
@pytest.mark.parametrize("mechanism", [GNMax(40.0), LNMax(40.0), ConfidentGNMax(200, 150, 40)])
def test_the_chain_on_published_votes(mechanism):
    try:
        counts = load_votes("papernot_mnist").counts[:80].astype(np.int64)
    except DatasetNotFoundError:
        pytest.skip("needs the published votes")
    rng = np.random.default_rng(0)
    moved = counts.copy()
    for row in moved:
        row[rng.choice(10, p=row / row.sum())] -= 1
        row[rng.integers(10)] += 1
    found = pair(counts, moved, mechanism)
    above = pld_epsilon(counts, 1e-5, **mechanism.exact_parameters()).epsilon
    public = mechanism.charge(80).guarantee(1e-5).epsilon
    assert 0 < found[PAIR].low <= above <= public
    assert not found.refuted
    assert found.sensitive


def test_noisy_histograms_are_gaussians():
    found = pair([[9, 1]] * 300, [[8, 2]] * 300, NoisyHistogram(40.0), published=True)
    assert found[PAIR].high == pytest.approx(gdp_to_epsilon(math.sqrt(600) / 40, 1e-5), rel=1e-12)
    assert not found.refuted
    assert found["share of the claimed epsilon"].value == pytest.approx(1, rel=1e-8)
    half = pair([[9, 1]] * 300, [[8, 2]] * 300, NoisyHistogram(40.0), max_answers=150, published=True)
    assert half[PAIR].high == pytest.approx(gdp_to_epsilon(math.sqrt(300) / 40, 1e-5), rel=1e-12)


def test_ballot_sums_are_gaussians():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(2, size=60)
    voters = RecordVoters(None, SignedSpace().fit(X), classes=2)
    other = y.copy()
    other[5] = 1 - y[5]
    first, second = voters.cast(X, y), voters.cast(X, other)
    mechanism = GaussianSum(2.0)
    found = pair(first, second, mechanism)
    distance = math.sqrt(((first.sums - second.sums).astype(float) ** 2).sum())
    wanted = gdp_to_epsilon(distance / (2.0 * math.sqrt(first.delta_squared)), 1e-5)
    assert found[PAIR].high == pytest.approx(wanted, rel=1e-9)
    assert not found.refuted
    assert found["teachers moved"].value == 1
    with pytest.raises(InvalidInputError, match="more than one unit"):
        pair(first, voters.cast(X, 1 - y), mechanism)
    with pytest.raises(InvalidInputError, match="GaussianSum"):
        pair(first, second, GNMax(4.0))
    with pytest.raises(InvalidInputError, match="both be a BallotSum"):
        pair(first, [[3, 1]], mechanism)
    with pytest.raises(InvalidInputError, match="max_answers"):
        pair(first, second, mechanism, max_answers=1)


@dataclasses.dataclass(frozen=True)
class SensitivityOne(NoisyHistogram):
    """A count moves by one, and so it charges one: but two counts move."""

    def charge(self, n_queries, max_answers=None):
        return NoisyHistogram(self.sigma * math.sqrt(2)).charge(n_queries)


@dataclasses.dataclass(frozen=True)
class HalfThePrice(GNMax):
    def charge(self, n_queries, max_answers=None):
        return GNMax(self.sigma * math.sqrt(2)).charge(n_queries)


@dataclasses.dataclass(frozen=True)
class SmallOrdersWrong(GNMax):
    """Its curve is too low at small orders alone, which epsilon at the usual deltas does not rest on."""

    def charge(self, n_queries, max_answers=None):
        honest = super().charge(n_queries)
        rdp = tuple(0.9 * r if a < 4 else r for a, r in zip(honest.orders, honest.rdp, strict=True))
        return dataclasses.replace(honest, rdp=rdp)


@pytest.mark.few(1)
@pytest.mark.parametrize("mechanism", [SensitivityOne(40.0), HalfThePrice(40.0), SmallOrdersWrong(40.0)])
def test_a_price_that_is_too_low_is_refuted(mechanism):
    counts, moved = [[125, 125]] * 300, [[124, 126]] * 300
    found = pair(counts, moved, mechanism, published=True)
    assert found.refuted
    assert found.false_alarms == 0.0
    honest = type(mechanism).__mro__[1](40.0)
    assert not pair(counts, moved, honest, published=True).refuted


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("claim", "refuted"),
    [
        ((1.9, 1e-5), True),
        ((1.94, 1e-5), False),
        (Budget(1.0, 1e-5), True),
        (Claim.gaussian(0.6), False),
        (Claim.gaussian(0.4), True),
        ((3.0, 1e-8), False),
        ((1.3, 1e-3), True),  # found at a delta that no one asked for
        (GNMax(40.0).charge(300), False),
        (GNMax(40.0).charge(200), True),
    ],
)
def test_any_claim_can_be_held_against_it(claim, refuted):
    assert pair([[125, 125]] * 300, [[124, 126]] * 300, GNMax(40.0), claim=claim, published=True).refuted is refuted


def test_teachers_dropped_by_their_losses_are_refuted():
    """The counterexample of the naive individual filter: D drops the 124 voters of class 1, D' no one."""
    later, later_prime = [126, 0] + [0] * 8, [126, 124] + [0] * 8
    found = given_pair(later, later_prime, noise=GaussianNoise(40.0)).rdp([2.0])[:, 0]
    np.testing.assert_allclose(found, [0.70, 3.29], rtol=0.01)
    first, second = [[126, 124] + [0] * 8], [[125, 125] + [0] * 8]
    votes = np.array(first + [later] * 20), np.array(second + [later_prime] * 20)
    both = [Votes(v, None, 250, tuple(range(10))) for v in votes]
    with pytest.raises(InvalidInputError, match="differ in the votes of 124 teachers"):
        pair(*both, GNMax(40.0), published=True)
    assert pair(*both, GNMax(40.0), claim=(2.0, 1e-5), max_moved=124).refuted


def test_how_many_teachers_moved():
    labels = np.array([[0, 1, 1], [0, 0, 1], [1, 1, 1]])
    moved = labels.copy()
    moved[1, 0] = 1
    one, other = (Votes.from_labels(a, classes=2) for a in (labels, moved))
    assert n_moved(one, other) == 1
    assert n_moved(one, one) == 0
    moved[0, 1] = 0
    two = Votes.from_labels(moved, classes=2)
    assert n_moved(one, two) == 2  # one vote a query, and yet two teachers
    with pytest.raises(InvalidInputError, match="differ in the votes of some teachers"):
        pair(one, two, GNMax(2.0))
    assert pair(one, two, GNMax(2.0), max_moved=2)["teachers moved"].value == 2
    nothing = pair(one, one, GNMax(2.0))
    assert nothing[PAIR].value == 0 == nothing["largest share of the claimed Renyi curve"].value


def test_what_it_says_and_to_whom():
    counts, moved = some_pair()
    hidden = pair(counts, moved, ConfidentGNMax(6, 4.0, 3.0), max_answers=2)
    assert hidden.sensitive
    with pytest.raises(SensitiveValueError):
        hidden.rows()
    assert "epsilon" not in hidden.cited()["tried"]
    assert hidden.cited()["stood"] is True
    shown = pair(counts, moved, GNMax(3.0), published=True)
    assert AuditResult.from_dict(json.loads(json.dumps(shown.to_dict()))) == shown
    assert {"public", "this pair"} == {c.label for c in shown.picture.curves}
    assert shown.plot().ax_.get_ylabel() == "epsilon"
    assert shown[PAIR].value == shown[PAIR].low


def test_bad_input_is_refused():
    counts, moved = some_pair()
    with pytest.raises(InvalidInputError, match="same n_queries"):
        pair(counts, moved[:-1], GNMax(3.0))
    with pytest.raises(InvalidInputError, match="same n_teachers"):
        pair([[9, 1]], [[9, 2]], GNMax(3.0))
    with pytest.raises(InvalidInputError, match="no exact law is known"):
        pair(counts, moved, "gnmax")
    with pytest.raises(InvalidInputError, match="delta"):
        pair(counts, moved, GNMax(3.0), delta=0.0)
    with pytest.raises(InvalidInputError, match="max_moved"):
        pair(counts, moved, GNMax(3.0), max_moved=0)
    with pytest.raises(InvalidInputError, match="one shape"):
        given_pair(counts, moved[:-1], noise=GaussianNoise(1.0))


def test_sums_of_vectors():
    """Two units in different cells are as far apart as any: the pair meets the claim, and no more."""
    units, law = Units.of(np.ones(9)), GaussianSum(2.0)
    sums = [count_cells(units, np.full((9, 1), 0), [3], what="", query="")]
    sums.append(count_cells(units, np.array([[1], *[[0]] * 8]), [3], what="", query=""))
    found = pair(*sums, law, published=True)
    assert not found.refuted
    assert found["share of the claimed epsilon"].value == pytest.approx(1)
    assert pair(*sums, law, claim=Charge.gaussian(sensitivity=1, sigma=2.1), published=True).refuted
