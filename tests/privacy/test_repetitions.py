"""The number of runs of a private selection: drawn from exactly the law that is priced, and the price holds."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import logsumexp

from pate.exceptions import InvalidInputError
from pate.privacy import Charge
from pate.privacy.compose.repetitions import DISTRIBUTIONS, Repetitions, _chance, _gamma, _poisson_of_one
from pate.privacy.convert import DEFAULT_ORDERS
from pate.privacy.noise.source import NoiseSource

ORDERS = np.array(DEFAULT_ORDERS)
LAWS = [Repetitions(name, mean) for name in DISTRIBUTIONS for mean in (1.5, 4.0, 20.0)]


def generating(law: Repetitions, x: np.ndarray) -> np.ndarray:
    """E[x^K], written down once more."""
    p = float(law.parameter)
    if law.distribution == "poisson":
        return np.exp(p * (x - 1))
    if law.distribution == "geometric":
        return p * x / (1 - (1 - p) * x)
    return np.log1p(-(1 - p) * x) / math.log(p)


def divergences(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The larger of the Renyi divergences of two finite laws in both directions, at every order."""
    both = [
        logsumexp(np.log(a)[:, None] * ORDERS + np.log(b)[:, None] * (1 - ORDERS), axis=0) / (ORDERS - 1)
        for a, b in ((p, q), (q, p))
    ]
    return np.maximum(np.max(both, axis=0), 0)


def best_law(law: Repetitions, q: np.ndarray) -> np.ndarray:
    """Exact law of the best of K draws from q, whose values are in order; the last entry is that there was none."""
    below = np.concatenate([[0.0], np.cumsum(q)])
    below[-1] = 1.0
    return np.append(np.diff(generating(law, below)), generating(law, np.zeros(1)))


def test_probabilities_add_up_to_one_and_to_the_mean():
    k = np.arange(8000)
    for law in LAWS:
        probability = np.array([law.probability(int(i)) for i in k])
        assert probability.sum() == pytest.approx(1, abs=1e-9)
        assert (probability * k).sum() == pytest.approx(law.mean, rel=2e-8)
        x = np.array([0.0, 0.3, 0.9])
        assert np.polynomial.polynomial.polyval(x, probability) == pytest.approx(generating(law, x), rel=1e-9)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "law",
    [pytest.param(law, marks=pytest.mark.long) if law.mean == 20 else law for law in LAWS],
    ids=lambda law: f"{law.distribution}-{law.mean:g}",
)
def test_numbers_are_drawn_from_that_law(law):
    source, n = NoiseSource(5), 2000
    drawn = np.array([law.draw(source) for _ in range(n)])
    edges = [0]
    expected: list[float] = []
    mass = 0.0
    for k in range(4000):
        mass += n * law.probability(k)
        if mass >= 20:
            edges.append(k + 1)
            expected.append(mass)
            mass = 0.0
    expected[-1] += n - sum(expected)
    observed = np.histogram(np.minimum(drawn, edges[-1] - 1), bins=[*edges[:-1], edges[-1]])[0]
    assert observed.sum() == n
    assert stats.chisquare(observed, expected).pvalue > 1e-4


@pytest.mark.long
def test_the_parts_of_the_poisson_sampler_have_their_laws():
    source = NoiseSource(1)
    ones = np.bincount([_poisson_of_one(source) for _ in range(4000)], minlength=8)[:5]
    expected = 4000 * stats.poisson(1).pmf(np.arange(5))
    assert (np.abs(ones - expected) < 5 * np.sqrt(expected)).all()
    from fractions import Fraction

    third = sum(_chance(Fraction(1, 3), source) for _ in range(6000))
    assert abs(third - 2000) < 5 * math.sqrt(6000 * 2 / 9)
    assert [_chance(Fraction(p), source) for p in (0, 1)] == [False, True]


@settings(max_examples=60)
@given(st.floats(1.001, 1000.0), st.sampled_from(["geometric", "logarithmic"]))
def test_the_gamma_drawn_with_is_on_the_safe_side_of_the_one_priced(mean, name):
    """Mean at most the one said, gamma at least the one priced: both make the theorem's bound smaller."""
    law = Repetitions(name, mean)
    with mpmath.workdps(50):
        gamma = mpmath.mpf(law.parameter.numerator) / law.parameter.denominator
        true = 1 / gamma if name == "geometric" else (1 / gamma - 1) / mpmath.log(1 / gamma)
        assert gamma >= _gamma(law.shape, mean)
        assert mpmath.mpf(mean) * (1 - mpmath.mpf("5e-8")) <= true <= mpmath.mpf(mean)


weights = st.lists(st.floats(0.02, 1.0), min_size=3, max_size=3)


@settings(max_examples=80)
@given(st.sampled_from(LAWS), weights, weights)
def test_no_best_of_a_toy_mechanism_costs_more_than_its_price(law, first, second):
    """Every law of outcomes by enumeration: the theorem's curve, and (epsilon, delta), are never below the truth."""
    p, q = (np.array(w) / sum(w) for w in (first, second))
    curve, pure = divergences(p, q), float(np.abs(np.log(p / q)).max())
    one = Charge(math.inf, tuple(curve.tolist()), pure)
    whole = law.charge(one)
    a, b = best_law(law, p), best_law(law, q)
    keep = a > 0  # no run at all has no probability but under Poisson
    assert (divergences(a[keep], b[keep]) <= np.array(whole.rdp) * (1 + 1e-9) + 1e-12).all()
    for delta in (1e-1, 1e-3, 1e-6):
        epsilon = whole.guarantee(delta).epsilon
        assert np.maximum(a - math.exp(epsilon) * b, 0).sum() <= delta * (1 + 1e-9)
        assert np.maximum(b - math.exp(epsilon) * a, 0).sum() <= delta * (1 + 1e-9)


@pytest.mark.parametrize(("name", "times"), [("geometric", 3), ("logarithmic", 2)])
def test_the_price_is_what_a_bad_case_costs(name, times):
    """(2 + eta) times epsilon is reached: a rare outcome below a likelier one that moves the other way."""
    e = 0.1
    p, q = np.array([0.0, 1e-6 * math.exp(e), 0.05]), np.array([0.0, 1e-6, 0.05 * math.exp(e)])
    p[0], q[0] = 1 - p.sum(), 1 - q.sum()
    law = Repetitions(name, 1000.0)
    curve = tuple(divergences(p, q).tolist())
    a, b = best_law(law, p)[:3], best_law(law, q)[:3]
    price = law.charge(Charge(math.inf, curve, e)).pure
    assert price == pytest.approx(times * e)
    assert 0.95 * price < np.abs(np.log(a / b)).max() <= price


@pytest.mark.parametrize("mu", [0.05, 0.2, 0.6])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law.distribution}-{law.mean:g}")
def test_the_best_of_gaussian_scores_costs_no_more_than_its_price(law, mu):
    """The score itself released, N(0, 1) against N(mu, 1): its density by the law of maxima, integrated."""
    whole = law.charge(Charge.gaussian(sensitivity=mu, sigma=1.0))
    y = np.linspace(-12, 12 + mu, 6001)
    logs = []
    for m in (0.0, mu):
        density = log_slope(law, stats.norm.sf(y - m)) + stats.norm.logpdf(y - m) + math.log(y[1] - y[0])
        none = float(generating(law, np.zeros(1))[0])
        logs.append(np.append(density, math.log(none)) if none else density)
    for order in (1.5, 4.0, 16.0):
        price = whole.rdp[DEFAULT_ORDERS.index(order)]
        for p, q in (logs, logs[::-1]):
            truth = logsumexp(order * p + (1 - order) * q) / (order - 1)
            assert truth <= price * (1 + 1e-3) + 1e-6


def log_slope(law: Repetitions, above: np.ndarray) -> np.ndarray:
    """Logarithm of the derivative of E[x^K] at x = 1 - above."""
    p = float(law.parameter)
    if law.distribution == "poisson":
        return math.log(p) - p * above
    rest = np.log(p + (1 - p) * above)
    if law.distribution == "geometric":
        return math.log(p) - 2 * rest
    return math.log1p(-p) - rest - math.log(-math.log(p))


@pytest.mark.parametrize("bad", [("fixed", 5.0), ("poisson", 1.0), ("poisson", 1e4), ("geometric", math.nan)])
def test_laws_that_have_no_theorem_are_refused(bad):
    with pytest.raises(InvalidInputError):
        Repetitions(*bad)
