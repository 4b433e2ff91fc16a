"""Epsilon where delta is smaller than an ordinary transform's rounding: exact integrals, brute force, dp_accounting."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dpsgd_steps import least_noise_for
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from pate import Budget
from pate.dpsgd import _calibration as calibration
from pate.dpsgd._calibration import dpsgd_epsilon
from pate.dpsgd._statement import make_plan
from pate.dpsgd.mechanisms import PoissonSGD, Shape, TruncatedPoissonSGD
from pate.privacy import dpsgd_epsilons
from pate.privacy.exact._composition import LossTable, compose_epsilons
from pate.privacy.exact.sampled_gaussian import DIRECTIONS, loss_masses, tilted_epsilon
from pate.privacy.losses import Losses, SampledGaussianPair, discretization_interval, needs_tilt

ADJACENCIES = ["replace-one", "add-or-remove"]


def converged(q, sigma, n_steps, delta, adjacency):
    """Epsilon on the grid that belongs to it."""
    found, settings_ = 1.0, {"sample_rate": q, "n_steps": n_steps, "adjacency": adjacency}
    for _ in range(3):
        interval = discretization_interval(max(found, 1e-2), n_steps)
        found = dpsgd_epsilon(sigma, delta=delta, interval=interval, **settings_)
    return found


# ---------------------------------------------------------------- an integral without any grid of losses


def exact_epsilon(branches, n_steps, direction, delta, near):
    """Invert the Laplace transform of delta in epsilon on a line through its saddle point; within 10 % of ``near``.

    delta(e) is the integral of exp(n K(z) - z e) / (z (z + 1)) over Re z = theta > 0, divided by 2 pi i, with K the
    cumulant of one step's loss, here by the trapezoid rule over outcomes: smooth, so that its error is about 1e-12.
    """
    losses, masses = [], []
    for weight, q, s in branches:
        x = np.linspace(-1 - 16 * s, 1 + 16 * s, 6001)
        up = np.logaddexp(math.log1p(-q), math.log(q) + (2 * x - 1) / 2 / s**2)
        down = np.logaddexp(math.log1p(-q), math.log(q) - (2 * x + 1) / 2 / s**2)
        density = weight * (x[1] - x[0]) / (s * math.sqrt(2 * math.pi)) * np.exp(-x * x / 2 / s**2)
        losses.append({"replace": up - down, "remove": up, "add": -down}[direction])
        masses.append(density * np.exp(0 if direction == "add" else up))
    loss, mass = np.concatenate(losses), np.concatenate(masses)
    loss, mass = loss[mass > 1e-130], mass[mass > 1e-130]

    def cumulant(z):
        return n_steps * np.log1p(np.expm1(np.atleast_1d(z)[:, None] * loss) @ mass)

    thetas = np.exp(np.linspace(-2, 8, 80))
    thetas = thetas[thetas * loss.max() < 650]
    real = cumulant(thetas)

    def log_delta(epsilon):
        theta = thetas[np.argmin(real - thetas * epsilon - np.log(thetas * (thetas + 1)))]
        k, kk, kkk = cumulant(theta * np.array([0.999, 1, 1.001]))
        step = 1 / math.sqrt((k - 2 * kk + kkk) / (1e-3 * theta) ** 2 + theta**-2) / 6
        total, start, size = 0.0, 0, math.inf
        while size > 1e-11 * abs(total):
            z = theta + 1j * step * np.arange(start, start + 32)
            values = np.exp(cumulant(z) - z * epsilon - kk + theta * epsilon) / (z * (z + 1))
            total += values.real.sum() - (values[0].real / 2 if start == 0 else 0)
            start, size = start + 32, abs(values[-1]) * 32
        return kk - theta * epsilon + math.log(total * step / math.pi) - math.log(delta)

    return brentq(log_delta, 0.9 * near, 1.1 * near, xtol=1e-9)


@pytest.mark.few(1)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(
    ("q", "sigma", "n_steps", "delta"),
    [
        (0.01, 1.0, 1000, 1e-12),
        (0.256, 2.5, 80, 1e-12),
        (0.5, 20.0, 15, 1e-12),
        (0.001, 1.0, 1_000_000, 1e-12),
        (0.01, 10.0, 1_000_000, 1e-10),
        (0.001, 20.0, 1_000_000, 1e-12),
        (0.01, 4.0, 10_000, 1e-9),
        (0.3, 0.8, 3, 1e-12),
    ],
)
def test_epsilon_is_never_below_the_integral_and_at_most_half_a_percent_above(q, sigma, n_steps, delta, adjacency):
    assert needs_tilt(n_steps, delta)
    found = converged(q, sigma, n_steps, delta, adjacency)
    exact = exact_epsilon(((1.0, q, sigma),), n_steps, DIRECTIONS[adjacency][0], delta, found)
    assert exact * (1 - 1e-8) <= found <= exact * 1.005


def test_the_integral_itself_is_the_gaussians():
    """Without sampling the answer is known: Balle and Wang 2018."""
    epsilon = exact_epsilon(((1.0, 1 - 1e-15, 10.0),), 25, "remove", 1e-12, 3.5)
    with mpmath.workdps(40):
        e, mu = mpmath.mpf(epsilon), mpmath.mpf(1) / 2
        delta = mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)
    assert float(delta) == pytest.approx(1e-12, rel=1e-6)


@pytest.mark.long
def test_a_published_run_of_a_hundred_thousand_steps():
    """VaultGemma (2025): noise 0.614, batches of 517,989 sequences of 1,024 tokens, 100,000 steps, delta 1.1e-10.

    Published: epsilon <= 2 for one sequence. How many sequences there are is not: here it is the published number of
    tokens, 13e12, over 1,024. Nor is the largest batch: here 1.05 times the expected one, which is never reached.
    """
    n_units, batch = 13 * 10**12 // 1024, 517_989
    shape = Shape(n_units, batch / n_units, 100_000, batch)
    options = {"delta": 1.1e-10, "interval": discretization_interval(2.0, shape.n_steps)}
    for adjacency, about in (("add-or-remove", 1.711), ("replace-one", 1.718)):
        found = PoissonSGD().epsilon(0.614, shape, adjacency=adjacency, **options)
        assert about < found < 1.005 * about
        exact = exact_epsilon(((1.0, shape.sample_rate, 0.614),), 100_000, DIRECTIONS[adjacency][0], 1.1e-10, found)
        assert exact <= found <= 1.002 * exact
    cut = [
        TruncatedPoissonSGD(most).epsilon(0.614, shape, adjacency="replace-one", **options)
        for most in (round(1.05 * batch), batch + 6000, batch + 4320)
    ]
    assert cut[0] == pytest.approx(found, rel=1e-8)
    assert cut == sorted(cut)
    assert cut[2] <= 2.0  # six deviations: the published figure allows for it


# ---------------------------------------------------------------- few steps, in many digits


def precise_delta(branches, direction, epsilon):
    """Delta of one step in 40 digits: a half-line's two probabilities, at any real epsilon."""
    total = mpmath.mpf(0)
    for weight, q, s in branches:
        q, s = mpmath.mpf(q), mpmath.mpf(s)
        grow = mpmath.exp(epsilon)

        def tail(x, mean, s=s):
            return mpmath.erfc((x - mean) / s / mpmath.sqrt(2)) / 2

        if direction == "replace":
            c = mpmath.exp(-1 / (2 * s * s))
            root = mpmath.sqrt(((1 - q) * (grow - 1)) ** 2 + 4 * grow * (q * c) ** 2)
            y = ((1 - q) * (grow - 1) + root) / (2 * q * c)
            if grow < 1:  # the same root, without cancellation
                y = 2 * grow * q * c / (root - (1 - q) * (grow - 1))
            x = s * s * mpmath.log(y)
            first = (1 - q) * tail(x, 0) + q * tail(x, 1)
            second = (1 - q) * tail(x, 0) + q * tail(x, -1)
        else:
            sign = 1 if direction == "remove" else -1
            ratio = (mpmath.exp(sign * epsilon) - 1 + q) / q
            if ratio <= 0:  # every outcome's loss is above (or below)
                total += mpmath.mpf(weight) * ((1 - grow) if sign > 0 else 0)
                continue
            x = sign * (mpmath.mpf(1) / 2 + s * s * mpmath.log(ratio))
            mixed = (1 - q) * tail(x, 0) + q * tail(x, sign)
            first, second = (mixed, tail(x, 0)) if sign > 0 else (tail(x, 0), mixed)
        total += mpmath.mpf(weight) * (first - grow * second)
    return total


TRUNCATED = SampledGaussianPair.truncated(0.1, 1.5, n_units=100, max_batch_size=14).branches


# The same cases each time. Once another one was found: at sigma 0.375, a rate of 1e-4 and an interval of 1e-4 masses
# are 9e-5 above the exact 2.1e-11, dominating still, but not as tight as below.
@settings(max_examples=40)
@given(
    log_rate=st.floats(-5, -0.02),
    sigma=st.floats(0.3, 20),
    log_interval=st.floats(-4, -1.5),
    direction=st.sampled_from(["replace", "remove", "add", "truncated"]),
    where=st.lists(st.floats(-0.9, 0.9), min_size=3, max_size=3),
)
@example(log_rate=-4.0, sigma=1.0, log_interval=-4.0, direction="add", where=[0.0, 0.0, 0.0])
@example(log_rate=-4.0, sigma=0.5, log_interval=-4.0, direction="add", where=[0.0, 0.0, 0.0])
def test_masses_dominate_the_step_at_every_point_of_the_grid(log_rate, sigma, log_interval, direction, where):
    branches = ((1.0, 10**log_rate, sigma),) if direction != "truncated" else TRUNCATED
    direction = direction.replace("truncated", "replace")
    interval, reach = 10**log_interval, 2000
    masses, infinite = loss_masses(branches, direction, interval, reach)
    assert masses.min() >= 0
    assert masses.sum() + infinite == pytest.approx(1, abs=1e-12)
    losses = np.arange(-reach, reach + 1) * interval
    for k in {reach + round(w * reach) for w in where} | {reach, reach + 1}:
        above = masses[k:] * -np.expm1(losses[k] - losses[k:])
        found = math.fsum(above.tolist()) + infinite
        with mpmath.workdps(40):
            exact = float(precise_delta(branches, direction, mpmath.mpf(float(losses[k]))))
        assert found >= exact * (1 - 1e-13)  # of the sum above
        # The divergence at infinity is less than its mass; it need not be tight far below every delta (1e-12).
        assert found <= exact * (1 + 1e-5) + infinite + 1e-16


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("delta", [1e-12, 1e-9])
@pytest.mark.parametrize(("q", "sigma"), [(0.01, 0.7), (0.3, 3.0)])
def test_one_step_in_forty_digits(q, sigma, delta, adjacency):
    branches, direction = ((1.0, q, sigma),), DIRECTIONS[adjacency][0]
    found = tilted_epsilon([(branches, 1)], delta, 1e-3, adjacency=adjacency)
    with mpmath.workdps(40):
        assert precise_delta(branches, direction, found) <= delta < precise_delta(branches, direction, found - 1e-3)


@pytest.mark.parametrize("delta", [1e-12, 1e-9])
@pytest.mark.parametrize(("q", "sigma"), [(0.01, 0.7), (0.3, 3.0)])
def test_two_steps_as_one_integral_over_the_first(q, sigma, delta):
    x = np.linspace(-11 * sigma, 1 + 11 * sigma, 40_001)

    def mixture(probability, x, mean):
        return (1 - q) * probability(x / sigma) + q * probability((x - mean) / sigma)

    loss = np.logaddexp(math.log1p(-q), math.log(q) + (2 * x - 1) / 2 / sigma**2)
    loss -= np.logaddexp(math.log1p(-q), math.log(q) - (2 * x + 1) / 2 / sigma**2)
    weight = mixture(norm.pdf, x, 1.0) * (x[1] - x[0]) / sigma

    def exact_delta(epsilon):
        left = epsilon - loss
        start = sigma**2 * (left / 2 + np.arcsinh((1 - q) / q * math.exp(0.5 / sigma**2) * np.sinh(left / 2)))
        return float(weight @ (mixture(norm.sf, start, 1.0) - np.exp(left) * mixture(norm.sf, start, -1.0)))

    found = tilted_epsilon([(((1.0, q, sigma),), 2)], delta, 1e-3)
    assert exact_delta(found) <= delta * (1 + 1e-9) < exact_delta(found * (1 - 1e-5) - 1e-5)


@pytest.mark.few(2)
@pytest.mark.parametrize("theta", [0.0, 1.0, 6.0, 12.0, 40.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-12])
def test_a_composition_is_never_below_the_one_by_whole_numbers(theta, delta):
    """All sums of 60 losses written down as fractions."""
    masses = [Fraction(1, 64), Fraction(3, 16), Fraction(35, 64), Fraction(7, 32), Fraction(1, 32)]
    law = [Fraction(1)]
    for _ in range(60):
        law = [
            sum((masses[j] * law[i - j] for j in range(5) if 0 <= i - j < len(law)), Fraction(0))
            for i in range(len(law) + 4)
        ]
    interval = 0.25

    def exact_delta(epsilon):
        terms = [(float(p), (k - 120) * interval) for k, p in enumerate(law)]
        return math.fsum(-p * math.expm1(epsilon - at) for p, at in terms if at > epsilon)

    exact = brentq(lambda e: math.log(exact_delta(e) / delta), 0, 25, xtol=1e-12)
    table = LossTable(interval, np.array([[float(m) for m in masses]]))
    found = compose_epsilons(table, [[60]], delta, theta)[0]
    assert found >= exact * (1 - 1e-12)
    if theta in {1e-3: (0.0, 1.0), 1e-12: (1.0, 6.0)}[delta]:
        assert found == pytest.approx(exact, rel=1e-6)


# ---------------------------------------------------------------- dp_accounting, where its rounding does not matter


@pytest.mark.long
@settings(max_examples=40)
@given(
    log_rate=st.floats(-4, -0.05),
    sigma=st.floats(0.5, 8),
    log_steps=st.floats(0, 4),
    log_delta=st.floats(-6, -3),
    adjacency=st.sampled_from(ADJACENCIES),
)
def test_where_rounding_does_not_matter_it_is_dp_accountings(log_rate, sigma, log_steps, log_delta, adjacency):
    q, n_steps, delta = 10**log_rate, int(10**log_steps), 10**log_delta
    assert not needs_tilt(n_steps, delta)
    theirs = dpsgd_epsilon(sigma, delta=delta, sample_rate=q, n_steps=n_steps, adjacency=adjacency, interval=5e-3)
    ours = tilted_epsilon([(((1.0, q, sigma),), n_steps)], delta, 5e-3, adjacency=adjacency)
    assert ours == pytest.approx(theirs, rel=5e-5, abs=1e-6) or theirs > 100  # they count the tails they cut as lost


@pytest.mark.long
def test_several_kinds_a_coin_and_a_gaussian_are_dp_accountings_too():
    kinds = ((SampledGaussianPair.poisson(0.05, 1.2), 100), (SampledGaussianPair(TRUNCATED), 20))
    both = Losses(0.2, kinds)
    theirs = both.epsilon(1e-5, interval=1e-3)
    gauss = ((1.0, 1.0, 2 / math.sqrt(0.2)),)
    ours = tilted_epsilon([*((pair.branches, n) for pair, n in kinds), (gauss, 1)], 1e-5, 1e-3)
    assert ours == pytest.approx(theirs, rel=1e-6)
    # And by the public function, at a delta that needs it: more than any part alone, less than by Renyi divergence.
    found = both.epsilon(1e-12, interval=1e-3)
    assert found > Losses(0.0, kinds).epsilon(1e-12, interval=1e-3) > theirs
    finer = both.epsilon(1e-12, interval=2.5e-4)
    assert finer <= found <= finer * 1.005


def test_accountants_side_by_side_use_it_under_both_adjacencies():
    for adjacency in ADJACENCIES:
        rows = {
            r.accountant: r.epsilon
            for r in dpsgd_epsilons(1.0, sample_rate=0.01, n_steps=1000, delta=1e-12, adjacency=adjacency)
        }
        assert rows["pld"] == pytest.approx(converged(0.01, 1.0, 1000, 1e-12, adjacency), rel=2e-3)
        assert rows["pld"] < 0.95 * rows["rdp"]


# ---------------------------------------------------------------- order


@pytest.mark.long
@settings(max_examples=20)
@given(
    log_rate=st.floats(-4, -0.1),
    sigma=st.floats(0.6, 6),
    log_steps=st.floats(1.2, 5),
    log_delta=st.floats(-11.5, -9),
    more=st.floats(1.05, 3),
    adjacency=st.sampled_from(ADJACENCIES),
)
def test_more_steps_less_delta_and_less_noise_cost_more(log_rate, sigma, log_steps, log_delta, more, adjacency):
    q, n_steps, delta = 10**log_rate, int(10**log_steps), 10**log_delta
    interval = 0.3 / math.sqrt(n_steps)

    def epsilon(sigma=sigma, n_steps=n_steps, delta=delta):
        options = {"sample_rate": q, "adjacency": adjacency, "interval": interval}
        return dpsgd_epsilon(sigma, delta=delta, n_steps=n_steps, **options)

    first = epsilon()
    assume(first < 200)  # beyond, the grid of losses is coarser than what is compared
    least = first * (1 - 1e-7)
    assert epsilon(n_steps=math.ceil(n_steps * more)) >= least
    assert epsilon(delta=delta / more) >= least
    assert epsilon(sigma=sigma / more) >= least


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_both_ways_of_composing_meet(adjacency, monkeypatch):
    run = {"sample_rate": 0.01, "n_steps": 1000, "adjacency": adjacency, "interval": 1e-3}
    delta = 64 * 1000 * 2.0**-53 * 1e4  # as small as goes without a tilt
    without = dpsgd_epsilon(1.0, delta=delta, **run)
    with_ = dpsgd_epsilon(1.0, delta=delta * (1 - 1e-9), **run)
    assert with_ == pytest.approx(without, rel=1e-5)
    assert with_ <= without * (1 + 1e-8)
    # Which one is used is what was said.
    monkeypatch.setattr(calibration, "_composed", lambda *_: pytest.fail("composed without a tilt"))
    assert dpsgd_epsilon(1.0, delta=delta * (1 - 1e-9), **run) == with_


def test_noise_for_tiny_deltas_is_calibrated_to_the_budget():
    sigma = least_noise_for(1.0, 1e-11, sample_rate=0.001, n_steps=50_000)
    found = converged(0.001, sigma, 50_000, 1e-11, "replace-one")
    assert 0.99 < found <= 1.0 + 1e-6
    assert needs_tilt(50_000, 1e-11)


@pytest.mark.few(1)
@pytest.mark.parametrize("mechanism", [PoissonSGD(), TruncatedPoissonSGD(60)])
def test_what_verify_says_gives_the_epsilon_at_a_tiny_delta(mechanism):
    shape, interval = Shape(1000, 0.05, 200, 50), 1e-3
    guarantee = make_plan(Budget(9.0, 1e-11), shape, mechanism=mechanism).guarantee
    text = mechanism.verify(1.5, shape, guarantee, interval)
    assert "tilted_epsilon at delta 1e-11 and interval 0.001" in text
    kinds = [(((1.0, 0.05, 1.5),), 200)]
    if isinstance(mechanism, TruncatedPoissonSGD):
        pair = SampledGaussianPair.truncated(0.05, 1.5, n_units=1000, max_batch_size=60)
        kinds = [(pair.branches, 200)]
    found = mechanism.epsilon(1.5, shape, delta=1e-11, adjacency="replace-one", interval=interval)
    assert tilted_epsilon(kinds, 1e-11, interval) == pytest.approx(found, rel=1e-4)
