"""Truncated Poisson samples and shuffled batches: their laws, their pairs against brute force, their refusals."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting import pld
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import chisquare, norm

from pate import Budget, DPSGDClassifier, Ledger
from pate.dpsgd import SampledGaussian
from pate.dpsgd._calibration import dpsgd_epsilon
from pate.dpsgd.mechanisms import PoissonSGD, Shape, ShuffledSGD, TruncatedPoissonSGD
from pate.dpsgd.mechanisms._mechanism import sampled_rate, uniform_subset
from pate.exceptions import InvalidInputError
from pate.privacy import Accountant, gdp_to_epsilon
from pate.privacy.compose.dpsgd_accountants import pair_rdp
from pate.privacy.convert import DEFAULT_ORDERS
from pate.privacy.losses import Losses, SampledGaussianPair
from pate.privacy.noise.source import NoiseSource


def batch_law(n, q, most):
    """Every batch of a truncated Poisson sample with its probability, by writing all samples down."""
    law: dict[tuple[int, ...], float] = {}
    for sample in itertools.product([False, True], repeat=n):
        members = [i for i in range(n) if sample[i]]
        weight = q ** len(members) * (1 - q) ** (n - len(members))
        subsets = list(itertools.combinations(members, min(most, len(members))))
        for batch in subsets:
            law[batch] = law.get(batch, 0.0) + weight / len(subsets)
    return law


def hockey_stick(p, q, epsilon, grid):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * (grid[1] - grid[0]))


def pair_delta(pair, epsilon):
    """Delta of one step in closed form: the ratio of the pair's densities increases: the worst set is a half-line."""
    total = 0.0
    for weight, q, s in pair.branches:

        def excess(x, q=q, s=s):
            rest = np.log1p(-q) if q < 1 else -np.inf
            up = np.logaddexp(rest, math.log(q) + (2 * x - 1) / (2 * s * s))
            return up - np.logaddexp(rest, math.log(q) - (2 * x + 1) / (2 * s * s)) - epsilon

        far = 1 + s * s * (epsilon + 2 - math.log(q))
        start = brentq(excess, -far, far, xtol=1e-13)
        up, down = norm.sf(start, 1, s), norm.sf(start, -1, s)
        total += weight * ((1 - q) * -math.expm1(epsilon) * norm.sf(start, 0, s) + q * (up - math.exp(epsilon) * down))
    return total


# ---------------------------------------------------------------- the truncated pair


@pytest.mark.few(2)
@pytest.mark.parametrize(("n", "q", "most"), [(4, 0.5, 2), (4, 0.7, 1), (5, 0.3, 3), (3, 0.9, 3), (4, 1.0, 2)])
@pytest.mark.parametrize("sigma", [0.7, 2.0])
def test_no_neighbours_written_down_whole_are_further_apart_than_the_pair(n, q, most, sigma):
    """All batches, all gradients of norm 1 on a line: the mixtures themselves, in both directions."""
    law = batch_law(n, q, most)
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    pair = SampledGaussianPair.truncated(q, sigma, n_units=n, max_batch_size=most)
    grid = np.linspace(-n - 9 * sigma, n + 9 * sigma, 4001)

    def output(gradients):
        return sum(w * norm.pdf(grid, sum(gradients[i] for i in batch), sigma) for batch, w in law.items())

    closest = math.inf
    for epsilon in (0.0, 0.3, 1.0):
        bound = pair_delta(pair, epsilon)
        worst = 0.0
        # Others are alike: their order does not matter.
        for others in itertools.combinations_with_replacement([-1, 0, 1], n - 1):
            for one, other in ((1, -1), (-1, 1), (1, 0), (0, 1)):
                worst = max(worst, hockey_stick(output([*others, one]), output([*others, other]), epsilon, grid))
        assert worst <= bound * (1 + 1e-5)  # of the sum over a grid with a kink
        closest = min(closest, bound / worst) if worst > 1e-6 else closest
    # Attained where nothing is cut, and never wide of the mark: the sensitivity is 2, not 4.
    assert closest <= (1 + 1e-5 if most == n else 2.1)


@pytest.mark.long
@settings(max_examples=25)
@given(
    n=st.integers(2, 5000),
    rate=st.floats(0.01, 0.9),
    part=st.floats(0.3, 2.0),
    sigma=st.floats(0.6, 6),
    n_steps=st.integers(1, 300),
)
def test_the_composition_is_dp_accountings(n, rate, part, sigma, n_steps):
    most = max(1, round(part * rate * n))
    event = dp_accounting.dp_event.TruncatedSubsampledGaussianDpEvent(n, rate, most, sigma)
    accountant = pld.PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE, 1e-2)
    with np.errstate(over="ignore"):  # theirs holds cuts of probability 1e-300, whose reciprocals overflow
        accountant.compose(dp_accounting.SelfComposedDpEvent(event, n_steps))
        theirs = accountant.get_epsilon(1e-5)
    pair = SampledGaussianPair.truncated(rate, sigma, n_units=n, max_batch_size=most)
    ours = Losses(0.0, ((pair, n_steps),)).epsilon(1e-5, interval=1e-2)
    assume(theirs < 500)  # beyond 700 both overflow
    assert theirs * (1 - 1e-9) <= ours <= theirs * (1 + 1e-4) + 1e-9


@pytest.mark.few(1)
@pytest.mark.parametrize(("most", "sigma"), [(30, 1.0), (10, 2.0), (14, 0.8)])
def test_one_step_has_the_delta_of_its_densities(most, sigma):
    shape = Shape(100, 0.1, 1, 10)
    pair = SampledGaussianPair.truncated(0.1, sigma, n_units=100, max_batch_size=most)
    epsilon = TruncatedPoissonSGD(most).epsilon(sigma, shape, delta=1e-3, adjacency="replace-one", interval=1e-3)
    assert pair_delta(pair, epsilon) <= 1e-3 * (1 + 1e-9)
    assert pair_delta(pair, epsilon - 1e-3) > 1e-3  # no further than the grid is wide


@pytest.mark.parametrize(
    ("n", "q", "most"), [(60_000, 256 / 60_000, 300), (1000, 0.032, 60), (5000, 0.5, 2500), (7, 0.3, 6)]
)
def test_the_coin_is_the_binomials(n, q, most):
    pair = SampledGaussianPair.truncated(q, 1.0, n_units=n, max_batch_size=most)
    (kept, rate, _), (cut, within, half) = pair.branches

    def tail(above, of):
        with mpmath.workdps(50):
            if above == of - 1:
                return mpmath.mpf(q) ** of
            return mpmath.betainc(above + 1, of - above, 0, mpmath.mpf(q), regularized=True)

    at_least, more = tail(most - 1, n - 1), tail(most, n)
    assert (rate, half) == (q, 0.5)
    assert kept + cut == pytest.approx(1, abs=1e-15)
    assert abs(cut / at_least - 1) < 1e-11
    assert abs(within / (more * most / n / at_least) - 1) < 1e-11


def test_cuts_that_hardly_ever_happen_are_not_forgotten():
    """Too rare for any float, and still no bound on high moments: the attacker would see them at twice the shift."""
    pair = SampledGaussianPair.truncated(0.01, 0.6, n_units=100_000, max_batch_size=50_000)
    (_, _, _), (cut, within, half) = pair.branches
    assert (within, half, pair.error) == (0.01, 0.3, cut)
    assert 0 < cut <= 1e-300
    plain, found = (np.array(pair_rdp(p)) for p in (SampledGaussianPair.poisson(0.01, 0.6), pair))
    assert (found >= plain * (1 - 1e-12)).all()
    assert found[0] == pytest.approx(plain[0], rel=1e-8)
    assert found[-1] > 1.5 * plain[-1]
    epsilon = Losses(0.0, ((pair, 100),)).epsilon(1e-5, interval=1e-2)
    bare = Losses(0.0, ((SampledGaussianPair.poisson(0.01, 0.6), 100),)).epsilon(1e-5, interval=1e-2)
    assert epsilon == pytest.approx(bare, rel=1e-9)


@pytest.mark.long
def test_a_largest_batch_out_of_reach_costs_nothing_and_one_within_it_does():
    settings_ = {"delta": 1e-5, "adjacency": "replace-one", "interval": 1e-3}
    shape = Shape(1000, 0.256, 80, 256)
    plain = dpsgd_epsilon(2.5, delta=1e-5, sample_rate=0.256, n_steps=80, interval=1e-3)
    assert TruncatedPoissonSGD(1000).epsilon(2.5, shape, **settings_) == pytest.approx(plain, rel=1e-9)
    found = [TruncatedPoissonSGD(most).epsilon(2.5, shape, **settings_) for most in (350, 300, 280, 260)]
    assert plain * (1 - 1e-9) <= found[0] < plain * 1.001
    assert found == sorted(found)
    assert found[-1] > 1.02 * plain


def test_room_of_six_deviations_costs_no_noise():
    """Many steps, where the batches known to the attacker would say nothing: hundreds of nats."""
    shape = Shape(51_000, 1024 / 51_000, 1000, 1024)
    settings_ = {"delta": 1e-5, "adjacency": "replace-one", "interval": 1e-3}
    plain = PoissonSGD().epsilon(1.8, shape, **settings_)
    assert TruncatedPoissonSGD(1216).epsilon(1.8, shape, **settings_) <= plain * (1 + 1e-3)


def test_batches_known_to_the_attacker_bound_what_the_pair_overstates():
    """All samples cut, little noise: twice the sensitivity is worse than the sensitivity without sampling."""
    shape = Shape(100, 1.0, 30, 100)
    found = TruncatedPoissonSGD(90).epsilon(8.0, shape, delta=1e-5, adjacency="replace-one", interval=1e-2)
    assert found == pytest.approx(gdp_to_epsilon(2 * math.sqrt(30) / 8, 1e-5), rel=1e-9)


def test_renyi_divergence_of_the_coin_is_the_integral():
    pair = SampledGaussianPair.truncated(0.1, 1.5, n_units=100, max_batch_size=10)
    curve = dict(zip(DEFAULT_ORDERS, pair_rdp(pair), strict=True))
    for order in (1.5, 4.0, 16.0):
        moment = 0.0
        for weight, q, s in pair.branches:
            x = np.linspace(-20, 20 + 2 * order, 400_001)
            rest = np.log1p(-q) + norm.logpdf(x, 0, s)
            p = np.logaddexp(rest, math.log(q) + norm.logpdf(x, 1, s))
            other = np.logaddexp(rest, math.log(q) + norm.logpdf(x, -1, s))
            moment += weight * np.exp(order * p + (1 - order) * other).sum() * (x[1] - x[0])
        assert curve[order] == pytest.approx(math.log(moment) / (order - 1), rel=1e-5)
        assert curve[order] >= math.log(moment) / (order - 1) * (1 - 1e-12)


@pytest.mark.parametrize("most", [40, 64])
def test_renyi_divergence_says_more_where_rounding_leaves_little_of_delta(most):
    shape = Shape(20_000, 0.002, 20_000, 40)
    mechanism = TruncatedPoissonSGD(most)
    by_renyi = replace(mechanism.charge(1.5, shape), losses=None).guarantee(1e-12).epsilon
    found = mechanism.epsilon(1.5, shape, delta=1e-12, adjacency="replace-one", interval=1e-2)
    assert found <= by_renyi * (1 + 1e-9)


def test_the_charge_composes_to_what_the_mechanism_says():
    shape, mechanism = Shape(1000, 0.05, 200, 50), TruncatedPoissonSGD(60)
    cost = mechanism.charge(1.5, shape)
    epsilon = mechanism.epsilon(1.5, shape, delta=1e-5, adjacency="replace-one", interval=1e-3)
    assert Accountant().add(cost).guarantee(1e-5).epsilon == pytest.approx(epsilon, rel=2e-3)
    assert cost.guarantee(1e-5).epsilon >= epsilon
    assert cost.mu_squared == 200 * (2 / 1.5) ** 2


# ---------------------------------------------------------------- what is drawn


def test_batches_have_exactly_the_law_that_is_accounted():
    n, q, most, times = 4, 0.5, 2, 22_000
    law = batch_law(n, q, most)
    seen = dict.fromkeys(law, 0)
    mechanism, shape = TruncatedPoissonSGD(most), Shape(n, q, times, max(1, round(n * q)))
    for batch in mechanism.batches(shape, n, NoiseSource(5)):
        seen[tuple(batch.tolist())] += 1
    assert chisquare(list(seen.values()), [times * w for w in law.values()]).pvalue > 1e-4


def test_every_unit_is_in_as_often_as_any_other():
    n, q, most, times = 60, 0.3, 16, 6000
    counts = np.zeros(n)
    sizes = []
    for batch in TruncatedPoissonSGD(most).batches(Shape(n, q, times, max(1, round(n * q))), n, NoiseSource(8)):
        assert (np.diff(batch) > 0).all()
        counts[batch] += 1
        sizes.append(len(batch))
    expected = np.mean(sizes) / n
    deviation = math.sqrt(expected * (1 - expected) / times)
    assert max(sizes) == most
    assert np.abs(counts / times - expected).max() < 4.5 * deviation


class Scripted:
    """A source whose words are given."""

    def __init__(self, *draws):
        self.draws = [np.array(d, dtype=np.uint64) for d in draws]

    def words(self, size):
        found = self.draws.pop(0)
        assert len(found) == size
        return found


def test_a_tie_at_the_border_is_drawn_again():
    members = np.array([10, 20, 30, 40])
    source = Scripted([5, 7, 7, 9], [3, 1, 9, 2])
    assert uniform_subset(members, 2, source).tolist() == [20, 40]
    assert source.draws == []
    # Equal words on one side of the border are no tie.
    assert uniform_subset(members, 2, Scripted([1, 1, 8, 8])).tolist() == [10, 20]


def test_the_rate_is_accounted_as_it_is_sampled():
    for q in (1.0, 0.1, 1 / 3, 1e-4, 3.3e-9):
        assert sampled_rate(q) <= q
        assert sampled_rate(q) == pytest.approx(q, rel=1e-9)
        assert int(sampled_rate(q) * 2.0**64) == int(q * 2.0**64)
    words = [0, 2**63 - 1, 2**63, 2**64 - 1]
    (sample,) = TruncatedPoissonSGD(4).batches(Shape(4, 0.5, 1, 2), 4, Scripted(words))
    assert sample.tolist() == [0, 1]


@pytest.mark.parametrize("mechanism", [TruncatedPoissonSGD(12), ShuffledSGD()])
def test_a_seed_repeats_everything_and_nothing_else_does(mechanism):
    shape = Shape(50, 0.2, 7, 10)

    def run(seed):
        source = NoiseSource(seed)
        batches = [b.tolist() for b in mechanism.batches(shape, 50, source)]
        return batches, [d.tolist() for d in mechanism.noise(shape, 3, source)]

    assert run(1) == run(1) != run(2)
    assert run(None) != run(None)
    assert len(run(1)[0]) == len(run(1)[1]) == 7


def test_noise_is_standard_normal_and_independent():
    draws = np.array([d.numpy() for d in ShuffledSGD().noise(Shape(10, 0.5, 4000, 5), 5, NoiseSource(3))])
    assert draws.shape == (4000, 5)
    assert np.abs(np.corrcoef(draws.T) - np.eye(5)).max() < 0.07
    assert abs(draws.std() - 1) < 0.03
    assert np.abs((draws[1:] * draws[:-1]).mean(axis=0)).max() < 0.07


# ---------------------------------------------------------------- shuffled batches


@settings(max_examples=80)
@given(n=st.integers(1, 60), data=st.data(), n_steps=st.integers(1, 40))
def test_a_record_is_in_no_more_steps_than_epochs_are_paid_for(n, data, n_steps):
    size = data.draw(st.integers(1, n))
    shape = Shape(n, size / n, n_steps, size)
    batches = list(ShuffledSGD().batches(shape, n, NoiseSource(0)))
    assert len(batches) == n_steps
    assert all(len(set(b.tolist())) == len(b) <= size for b in batches)
    times = np.bincount(np.concatenate(batches), minlength=n)
    epochs = ShuffledSGD().charge(2.0, shape).mu_squared
    assert times.max() == round(epochs)  # mu^2 = 4 epochs / sigma^2
    per_epoch = -(-n // size)
    assert times.min() == n_steps // per_epoch  # every record, once in each whole epoch


def test_shuffling_is_charged_by_the_exact_gaussian_and_more_than_poisson_sampling():
    shape = Shape(1000, 0.05, 200, 50)
    options = {"delta": 1e-5, "interval": 1e-3}
    found = ShuffledSGD().epsilon(4.0, shape, adjacency="replace-one", **options)
    assert found == pytest.approx(gdp_to_epsilon(2 * math.sqrt(10) / 4, 1e-5), rel=1e-9)
    assert found > 3 * dpsgd_epsilon(4.0, delta=1e-5, sample_rate=0.05, n_steps=200, interval=1e-3)
    # A record that counts for nothing instead of for its opposite: half the way.
    assert ShuffledSGD().epsilon(2.0, shape, adjacency="zero-out", **options) == pytest.approx(found, rel=1e-9)
    assert ShuffledSGD().mu(4.0, shape, "replace-one") == pytest.approx(2 * math.sqrt(10) / 4)
    assert TruncatedPoissonSGD(60).mu(4.0, shape, "replace-one") is None
    cost = ShuffledSGD().charge(4.0, shape)
    assert cost.guarantee(1e-5).epsilon == pytest.approx(found, rel=1e-9)


def test_one_epoch_of_shuffling_is_no_further_apart_than_its_gaussian():
    """Two records' worth of steps, written down: P over both orders of the batches, against the bound."""
    sigma, grid = 1.2, np.linspace(-9, 9, 601)
    x, y = np.meshgrid(grid, grid)

    def output(gradients):  # two batches of two of four records; all 6 ways to cut are equally likely
        total = 0.0
        for first in itertools.combinations(range(4), 2):
            a = sum(gradients[i] for i in first)
            total = total + norm.pdf(x, a, sigma) * norm.pdf(y, sum(gradients) - a, sigma) / 6
        return total

    area = (grid[1] - grid[0]) ** 2
    for others in ((1, 1, 1), (1, -1, 1), (0, 0, 0)):
        p, q = output([*others, 1]), output([*others, -1])
        for epsilon in (0.2, 1.0):
            delta = np.maximum(p - math.exp(epsilon) * q, 0).sum() * area
            mu = 2 / sigma
            exact = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
            assert delta <= exact * (1 + 1e-3)


# ---------------------------------------------------------------- words and refusals


def test_what_is_said_names_what_is_drawn():
    shape = Shape(1000, 0.05, 200, 50)
    truncated, shuffled = TruncatedPoissonSGD(64), ShuffledSGD()
    assert truncated.words(shape) == "Poisson sampling at rate 0.05, at most 64 a step, cut at random"
    assert "amplification by shuffling is not claimed" in shuffled.words(shape)
    assert "amplification by shuffling is not claimed" in shuffled.theorem(shape, "replace-one")
    for mechanism in (truncated, shuffled):
        for text in (mechanism.theorem(shape, "replace-one"), mechanism.sampling()):
            assert "record" in text.format(unit="record") != text.format(unit="person")
    assert "Ganesh" in truncated.theorem(shape, "replace-one")


def test_what_verify_says_gives_the_epsilon_when_done():
    shape, mechanism = Shape(1000, 0.05, 200, 50), TruncatedPoissonSGD(60)
    guarantee = Accountant().add(mechanism.charge(1.5, shape)).guarantee(1e-5)
    text = mechanism.verify(1.5, shape, guarantee, 1e-3)
    assert "TruncatedSubsampledGaussianDpEvent(1000, 0.05, 60, 1.5)" in text
    accountant = pld.PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE, 1e-3)
    event = dp_accounting.dp_event.TruncatedSubsampledGaussianDpEvent(1000, 0.05, 60, 1.5)
    accountant.compose(dp_accounting.SelfComposedDpEvent(event, 200))
    slack = float(text.split("get_epsilon(1e-05 - ")[1].split(")")[0])
    epsilon = mechanism.epsilon(1.5, shape, delta=1e-5, adjacency="replace-one", interval=1e-3)
    assert accountant.get_epsilon(1e-5 - slack) == pytest.approx(epsilon, rel=1e-7)
    assert "mu = 2 sqrt(10) / 1.5" in ShuffledSGD().verify(1.5, shape, guarantee, 1e-3)


@pytest.mark.parametrize("mechanism", [TruncatedPoissonSGD(12), ShuffledSGD()])
def test_what_no_theorem_covers_is_refused(mechanism):
    shape = Shape(50, 0.2, 7, 10)
    with pytest.raises(InvalidInputError, match="adjacency must be 'replace-one'"):
        mechanism.check(shape, "add-or-remove")
    with pytest.raises(InvalidInputError, match="adjacency must be 'replace-one'"):
        mechanism.epsilon(1.0, shape, delta=1e-5, adjacency="add-or-remove", interval=1e-3)
    with pytest.raises(InvalidInputError, match="n_units must be the 50"):
        next(mechanism.batches(shape, 51, NoiseSource(0)))


def test_sizes_that_mean_nothing_are_refused():
    for wrong in (0, -3, 2.5, True):
        with pytest.raises(InvalidInputError, match="max_batch_size must be a whole number"):
            TruncatedPoissonSGD(wrong)


# ---------------------------------------------------------------- a whole fit


@pytest.mark.long
@pytest.mark.parametrize(
    ("mechanism", "sampling"),
    [
        (TruncatedPoissonSGD(30), "Poisson sampling at rate 0.1, at most 30 a step, cut at random"),
        (ShuffledSGD(), "amplification by shuffling is not claimed"),
    ],
)
def test_a_fit_says_pays_and_keeps_what_its_mechanism_says(mechanism, sampling, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    options = {"budget": Budget(3.0, 1e-4), "classes": [0, 1], "expected_batch_size": 20, "epochs": 3}
    ledger = Ledger(tmp_path / "ledger.sqlite", total=Budget(6.0, 1e-4), currency="renyi")
    clf = DPSGDClassifier("linear", mechanism=mechanism, ledger=ledger, **options).fit(X, y)
    plain = DPSGDClassifier("linear", mechanism=PoissonSGD(), **options).fit(X, y)
    assert clf.n_steps_ == 30
    assert 1.0 < clf.guarantee_.epsilon <= 3.0
    assert clf.noise_multiplier_ >= plain.noise_multiplier_ * (1 - 1e-3)  # never for free
    text = str(clf.statement_)
    assert sampling in text
    assert "{unit}" not in text
    (row,) = ledger.releases()
    shape = Shape(200, 0.1, 30, 20)
    assert row.charge == mechanism.charge(clf.noise_multiplier_, shape)
    said = SampledGaussian(mechanism, adjacency="add-or-remove", nominal_n=200)
    with pytest.raises(InvalidInputError, match="adjacency must be 'replace-one'"):
        DPSGDClassifier("linear", mechanism=said, **options).fit(X, y)
