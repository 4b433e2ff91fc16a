"""The slow-moving bound and the propose-test-release gate built on it."""

from __future__ import annotations

import math
import os
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp
from scipy.stats import binom

from pate.exceptions import InvalidInputError, PateError
from pate.privacy.convert import rdp_to_epsilon
from pate.privacy.exact import GaussianNoise, ThresholdTest, exact_divergences, log_probs
from pate.privacy.noise.source import NoiseSource
from pate.privacy.public_curve import rho_star
from pate.privacy.publish import gate as ptr_module
from pate.privacy.publish.gate import PTRGate, ptr, query_scores, safe_distance
from pate.privacy.publish.tail_bound import (
    TailBound,
    _log_log_ratio,
    _water_fill,
    concave_table,
    log_term,
    loser_tables,
    outcome_scores,
    term_table,
)

GATE = {"sigma": 40.0, "order": 8.0, "tau": 0.5, "width": 4.0, "delta": 1e-5, "delta0": 1e-6}


def log_pair_terms(v, shift, order):
    """Return log psi: the largest log T over ordered pairs of v and a score at most ``shift`` away."""
    best = np.full(v.shape, -np.inf)
    for low in (v, v - shift):
        size = _log_log_ratio(low, shift)
        best = np.maximum(best, log_ndtr(low) + log_term(order, size, rising=True))
        best = np.maximum(best, log_ndtr(low + shift) + log_term(order, size, rising=False))
    return best


def random_counts(rng, n, m, k):
    """Histograms from consensus to contest, with ties, zeros and many equal losers."""
    weights = rng.dirichlet(np.full(m, rng.choice([0.05, 0.3, 1.0, 10.0])), size=n)
    return np.stack([rng.multinomial(k, w) for w in weights])


def changed(rng, counts, steps):
    """Each query with ``steps`` votes replaced."""
    out = counts.copy()
    rows = np.arange(len(out))
    for _ in range(steps):
        u = np.array([rng.choice(np.flatnonzero(row)) for row in out])
        b = rng.integers(0, out.shape[1], size=len(out))
        out[rows, u] -= 1
        out[rows, b] += 1
    return out


def law_scores(counts, sigma):
    """Phi^-1 of every class's probability, class by class."""
    log_p = log_probs(counts, noise=GaussianNoise(sigma))
    rest = np.stack([np.logaddexp.reduce(np.delete(log_p, j, axis=1), axis=1) for j in range(log_p.shape[1])], axis=1)
    return np.where(log_p < -0.7, ndtri_exp(np.minimum(log_p, 0)), -ndtri_exp(np.minimum(rest, 0)))


def worst(counts, sigma, orders, threshold=None):
    """Exact cost of each query: largest over neighbours and directions."""
    found = exact_divergences(counts, orders, noise=GaussianNoise(sigma), threshold=threshold)
    return found.per_query()


@pytest.mark.parametrize("sigma", [2.0, 10.0, 40.0])
@pytest.mark.parametrize("m", [2, 3, 10])
def test_one_vote_moves_every_score_by_at_most_mu_and_bystanders_by_half(sigma, m):
    rng = np.random.default_rng(m)
    mu = math.sqrt(2) / sigma
    counts = random_counts(rng, 40, m, 60)
    other = changed(rng, counts, 1)
    moved = np.abs(law_scores(other, sigma) - law_scores(counts, sigma))
    assert moved.max() <= mu * (1 + 1e-7)
    assert np.where(other == counts, moved, 0).max() <= mu / 2 * (1 + 1e-7)
    # The constant is not idle: a tie of two reaches nearly mu (exactly, were the others infinitely far).
    tie = np.array([[30, 30], [29, 31]])
    a, b = law_scores(tie, sigma)
    assert abs(a - b).max() == pytest.approx(mu, rel=1e-9)


def test_scores_of_a_leader_keep_their_digits():
    scores = outcome_scores(np.log([[1e-20, 1 - 1e-16, 1e-300]]))
    assert scores.answers[0] == pytest.approx([-ndtri(1e-20), ndtri(1e-20), ndtri(1e-300)], rel=1e-9)
    assert scores.rest[0] == -scores.answers[0, 0]


@pytest.mark.parametrize("order", [1.25, 2.0, 8.0, 64.0, 256.0])
def test_a_term_is_never_too_low_and_nearly_exact(order):
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(800):
        for log_l in (-700.0, -300.0, -20.0, -9.3, -3.0, 0.0, 1.5, 3.0):
            size = mpmath.exp(mpmath.mpf(log_l))
            for rising in (True, False):
                lx = size if rising else -size
                exact = float(mpmath.log(mpmath.exp(order * lx) - 1 - order * (mpmath.exp(lx) - 1)))
                found = float(log_term(order, np.array([log_l]), rising=rising)[0])
                assert -1e-10 <= found - exact < 2e-4, (log_l, rising)


@pytest.mark.few(2)
@pytest.mark.parametrize("shift", [0.0014, 0.035, 0.3, 1.4])
@pytest.mark.parametrize("order", [1.5, 8.0, 32.0])
def test_tables_bound_the_running_maximum_from_either_side(shift, order):
    table = term_table(shift, order)
    rng = np.random.default_rng(1)
    v = np.sort(rng.uniform(-36 - order * shift, 36, size=4000))
    exact = log_pair_terms(v, shift, order)
    up, down = table.up_to(v), table.from_(v)
    assert (up >= np.maximum.accumulate(exact)).all()
    assert (down >= np.maximum.accumulate(exact[::-1])[::-1]).all()
    # Tight: at every point one of the two runs along psi itself, up to the table's cells.
    assert (np.minimum(up, down) - exact).min() < 1e-3
    assert (up[0] - exact[0]) < 0.1
    assert np.isfinite(up).all()


@pytest.mark.few(2)
@pytest.mark.parametrize(("shift", "order"), [(0.035, 8.0), (0.035, 64.0), (0.3, 16.0), (1.4, 2.0)])
def test_the_majorant_is_concave_and_above(shift, order):
    table = concave_table(shift, order)
    slopes = np.diff(table.y) / np.diff(table.p)
    assert (np.diff(slopes) <= 1e-9 * np.abs(slopes[1:]) + 1e-12).all()
    assert (slopes >= -1e-12).all()
    v = np.linspace(-29, 8, 5000)
    assert (np.log(table(ndtr(v))) + table.log_scale >= log_pair_terms(v, shift, order) - 1e-12).all()


def test_water_filling_finds_the_largest_sum():
    rng = np.random.default_rng(0)
    p, low, _, _ = loser_tables(0.1, 0.05, 8.0)
    for _ in range(20):
        caps = -np.sort(-rng.uniform(0, 0.3, size=(1, 3)))
        mass = np.array([rng.uniform(0.01, 0.8)])
        best = float(_water_fill(caps, mass, p, low)[0])
        shares = rng.dirichlet(np.ones(3), size=3000) * mass
        tried = np.interp(np.minimum(shares, caps), p, low).sum(axis=1)
        assert tried.max() <= best * (1 + 1e-9)
        assert tried.max() >= best * 0.9


@pytest.mark.few(1)
@pytest.mark.parametrize("sigma", [2.0, 10.0, 40.0])
@pytest.mark.parametrize("m", [2, 3, 10])
def test_the_bound_holds_for_every_data_set_within_d_teachers_both_directions(sigma, m):
    rng = np.random.default_rng(int(10 * sigma) + m)
    orders = [2.0, 16.0]
    for d in (0, 1, 5):
        counts = random_counts(rng, 25, m, 100)
        far = changed(rng, counts, d)
        exact = worst(far, sigma, orders)
        scores = outcome_scores(log_probs(counts, noise=GaussianNoise(sigma)))
        for k, order in enumerate(orders):
            bound = TailBound(sigma=sigma, order=order)
            cost = bound.cost(scores, d)
            assert (exact[:, k] <= cost * (1 + 1e-9) + 1e-190).all(), (d, order)
            assert (cost <= bound.cap).all()


@pytest.mark.long
def test_the_bound_holds_for_votes_moved_to_do_harm():
    """All d changes from the leader to the runner-up, or spread over all losers alike."""
    start = np.array([[95, 5, 0, 0, 0], [70, 20, 5, 5, 0], [60, 10, 10, 10, 10], [100, 0, 0, 0, 0]])
    scores = outcome_scores(log_probs(start, noise=GaussianNoise(15.0)))
    orders = [2.0, 8.0, 32.0]
    for d in (4, 12):
        one, spread = start.copy(), start.copy()
        one[:, 0] -= d
        one[:, 1] += d
        spread[:, 0] -= d
        spread[:, 1:] += d // 4
        exact = np.maximum(worst(one, 15.0, orders), worst(spread, 15.0, orders))
        cost = np.stack([TailBound(sigma=15.0, order=a).cost(scores, d) for a in orders], axis=1)
        assert (exact <= cost).all()
        assert (cost[:, 0] < 8 * exact[:, 0]).all(), "sound but useless"


@pytest.mark.long
@pytest.mark.parametrize("order", [2.0, 8.0, 32.0])
def test_the_bound_holds_for_confident(order):
    rng = np.random.default_rng(4)
    test = ThresholdTest(70.0, 20.0)
    bound = TailBound(sigma=12.0, order=order, sigma_threshold=20.0)
    for d in (0, 3):
        counts = random_counts(rng, 40, 5, 100)
        exact = worst(changed(rng, counts, d), 12.0, [order], test)[:, 0]
        cost = bound.cost(query_scores(counts, 12.0, threshold=70.0, sigma_threshold=20.0), d)
        assert (exact <= cost * (1 + 1e-9)).all()
        assert (cost <= bound.cap).all()
        assert np.median(cost / exact) < 4


@pytest.mark.long
@pytest.mark.parametrize("sigma_threshold", [2.0, 6.0])
def test_the_bound_holds_for_confident_where_hardly_anything_is_answered(sigma_threshold):
    """The reverse direction weighs the label's cost by the neighbour's chance of an answer, which is the larger one."""
    counts = np.array([[20, 20, 20], [24, 20, 16], [30, 29, 1], [40, 10, 10], [60, 0, 0]])
    for order in (2.0, 6.0):
        bound = TailBound(sigma=3.0, order=order, sigma_threshold=sigma_threshold)
        exact = worst(counts, 3.0, [order], ThresholdTest(45.0, sigma_threshold))[:, 0]
        cost = bound.cost(query_scores(counts, 3.0, threshold=45.0, sigma_threshold=sigma_threshold), 0.0)
        assert (exact <= cost * (1 + 1e-9)).all()


def test_the_bound_moves_by_at_most_one_teacher_for_real_distances():
    rng = np.random.default_rng(5)
    counts = random_counts(rng, 60, 6, 80)
    near = changed(rng, counts, 1)
    bound = TailBound(sigma=9.0, order=6.0)
    here, there = (query_scores(c, 9.0) for c in (counts, near))
    distances = np.array([-30.3, -2.5, -1.0, 0.0, 0.4, 1.0, 7.7])
    mine, theirs = bound.cost(here, distances + 1e-6), bound.cost(there, distances - 1)
    assert (theirs <= mine).all()
    assert (np.diff(bound.cost(here, np.sort(distances)), axis=0) >= 0).all()
    assert bound.cost(here, -400).max() < 1e-20


@pytest.mark.long
def test_nothing_overflows_at_high_orders():
    counts = np.array([[250, 0, 0], [126, 124, 0], [90, 80, 80], [200, 50, 0]])
    for sigma in (2.0, 10.0):
        for order in (256.0,):
            bound = TailBound(sigma=sigma, order=order)
            with np.errstate(over="raise", invalid="raise"):
                cost = bound.cost(query_scores(counts, sigma), [-5.0, 0.0, 30.0])
            assert np.isfinite(cost).all()
            assert (cost <= bound.cap).all()
            assert (cost[1] >= worst(counts, sigma, [order])[:, 0] * (1 - 1e-9)).all()


@pytest.mark.long
def test_gamma_is_lipschitz():
    rng = np.random.default_rng(6)
    bound = TailBound(sigma=10.0, order=6.0)
    for _ in range(4):
        counts = random_counts(rng, 30, 4, 100)
        near = changed(rng, counts, 1)
        for tau in (0.02, 0.5):
            a, b = (safe_distance(query_scores(c, 10.0), bound, tau, limit=60) for c in (counts, near))
            assert abs(a - b) <= 1 + 1 / 1024


def test_gamma_is_the_largest_distance_on_its_lattice():
    bound = TailBound(sigma=40.0, order=8.0)
    scores = query_scores([[240, 10]] * 100, 40.0)
    gamma = safe_distance(scores, bound, 0.1, limit=100)
    assert bound.cost(scores, gamma).sum() <= 0.1 < bound.cost(scores, gamma + 1 / 1024).sum()
    assert safe_distance(scores, bound, 1e9, limit=7) == 7
    assert safe_distance(scores, bound, 1e-300, limit=7) == -7


def test_the_guarantee_is_a_constant_known_before_the_run():
    gate = PTRGate(**GATE)
    before = gate.guarantee
    cost = 0.5 + 8 * (1 + 1 / 1024) ** 2 / (2 * 4.0**2)
    assert before.epsilon == pytest.approx(rdp_to_epsilon([cost], 9e-6, orders=[8.0])[0], rel=1e-12)
    assert (before.kind, before.delta, before.directions) == ("public", 1e-5, "both")
    assert before.adaptivity == "fixed queries"
    gate.test([[240, 10]] * 10, NoiseSource())
    assert gate.guarantee == before
    assert gate.rdp([8.0])[0] == pytest.approx(cost)
    assert np.isinf(gate.rdp([8.5])).all()


def outcome_law(counts, gate):
    """Exact law of what the gate lets out: refused, or one label a query."""
    bound = TailBound(sigma=gate.sigma, order=gate.order)
    gamma = safe_distance(query_scores(counts, gate.sigma), bound, gate.tau, limit=40 * gate.width)
    passed = float(ndtr((gamma + gate.width * ndtri(gate.delta0)) / gate.width))
    p = np.exp(log_probs(counts, noise=GaussianNoise(gate.sigma)))
    labels = [math.prod(p[i, j] for i, j in enumerate(c)) for c in product(range(p.shape[1]), repeat=len(p))]
    return np.array([1 - passed, *(passed * np.array(labels))])


@pytest.mark.long
def test_what_is_promised_holds_exactly_over_the_edge_of_the_test():
    """Hockey-stick divergence of the whole output between neighbours, as the votes go from consensus to contest."""
    gate = PTRGate(sigma=3.0, order=3.0, tau=0.3, width=0.8, delta=0.02, delta0=0.01)
    epsilon = gate.guarantee.epsilon
    worst_delta, spread = 0.0, []
    for top in range(10, 31):
        here = np.array([[top, 30 - top]] * 3)
        for to in (-1, 1):
            if top + to > 30:
                continue
            a, b = outcome_law(here, gate), outcome_law(here + np.array([[to, -to]]), gate)
            worst_delta = max(worst_delta, np.maximum(a - math.exp(epsilon) * b, 0).sum())
            spread.append(a[0])
    assert worst_delta <= gate.delta
    assert min(spread) < 0.2
    assert max(spread) > 0.9


@pytest.mark.few(2)
@pytest.mark.parametrize("gamma", [-0.5, 4.0, 9.0])
def test_the_gate_passes_as_often_as_it_should(monkeypatch, gamma):
    monkeypatch.setattr(ptr_module, "safe_distance", lambda *_, **__: gamma)
    monkeypatch.setattr(ptr_module, "query_scores", lambda *_, **__: None)
    noise = NoiseSource(11)
    n = 3000
    passed = sum(
        PTRGate(sigma=40, order=8, tau=0.5, width=4.0, delta=0.1, delta0=0.05).test([[2, 1]], noise) for _ in range(n)
    )
    p = float(ndtr(gamma / 4 + ndtri(0.05)))
    low, high = binom.ppf([1e-5, 1 - 1e-5], n, p)
    assert low <= passed <= high
    for wrong in (4 * 0.7, 4 * 1.4):  # the test can tell another width
        p_wrong = float(ndtr((gamma + 4 * ndtri(0.05)) / wrong))
        if abs(p_wrong - p) > 0.08:
            low, high = binom.ppf([1e-5, 1 - 1e-5], n, p_wrong)
            assert not low <= passed <= high


def test_consensus_passes_and_contest_falls_back():
    noise = NoiseSource()
    seen = []
    gate = PTRGate(**GATE)
    got = gate.run([[240, 10]] * 100, noise, lambda c: seen.append(c) or "all", fallback=lambda c: "few")
    assert got == "all"
    assert seen[0].shape == (100, 2)
    assert not seen[0].flags.writeable
    gate = PTRGate(**GATE | {"tau": 0.05})
    assert gate.run([[125, 125]] * 100, noise, lambda c: "all", fallback=lambda c: "few") == "few"
    gate = PTRGate(**GATE | {"tau": 0.05})
    assert gate.run([[125, 125]] * 100, noise, lambda c: "all") is None
    assert gate.passed is False


def test_a_fallback_at_the_public_price_costs_no_more_than_tau():
    gate = PTRGate(**GATE)
    assert gate.fallback_queries() * 8 / 40**2 <= gate.tau
    assert gate.fallback_queries(0.0032) == 156


def test_a_gate_tests_once():
    gate = ptr([[9, 1]], 40.0, **{k: v for k, v in GATE.items() if k != "sigma"}, noise=NoiseSource())
    with pytest.raises(PateError, match="has been used"):
        gate.test([[9, 1]], NoiseSource())


def test_seeded_noise_is_said_to_protect_no_one():
    gate = PTRGate(**GATE)
    gate.test([[240, 10]], NoiseSource(1))
    assert gate.guarantee.kind == "seeded"


def test_the_gate_keeps_nothing_of_the_votes():
    calm, torn = PTRGate(**GATE), PTRGate(**GATE)
    assert calm.test([[240, 10]] * 100, NoiseSource())
    assert torn.test([[230, 20]] * 100, NoiseSource())
    assert repr(calm) == repr(torn) == "PTRGate(sigma=40, order=8, tau=0.5, width=4, delta=1e-05, delta0=1e-06: passed)"
    assert vars(calm) == vars(torn)
    scores = query_scores([[240, 10]] * 3, 40.0)
    assert repr(scores) == "QueryScores(3 queries)"


@pytest.mark.parametrize(
    ("field", "value"),
    [("tau", 0), ("width", -1), ("delta0", 1e-5), ("delta0", 0), ("order", 1), ("sigma", 0), ("threshold", 3.0)],
)
def test_bad_parameters_are_named(field, value):
    with pytest.raises(InvalidInputError, match=field):
        PTRGate(**GATE | {field: value})


def published_votes():
    home = os.environ.get("PATE_DATA_HOME")
    path = Path(home or "") / "pate2018_mnist_votes.npz"
    if not home or not path.is_file():
        pytest.skip("needs pate2018_mnist_votes.npz under PATE_DATA_HOME")
    with np.load(path, allow_pickle=False) as data:
        return data["counts"].astype(np.int64)


@pytest.mark.long
@pytest.mark.parametrize(
    ("n", "order", "width", "epsilon"), [(300, 10.0, 4.0, 1.94), (1000, 7.0, 3.0, 3.16), (3000, 5.0, 2.5, 5.18)]
)
def test_on_the_votes_of_2018_the_gate_beats_the_public_price(n, order, width, epsilon):
    """tau fitted so that these votes pass with 97.5%: the best case, as the design notes E3 states it."""
    votes = published_votes()[:n]
    scores = query_scores(votes, 40.0)
    each = float(rho_star([order], 40.0)[0])
    bound = TailBound(sigma=40.0, order=order, public=each)
    tau = float(bound.cost(scores, width * (1.96 - ndtri(1e-6))).sum())
    gate = PTRGate(sigma=40.0, order=order, tau=tau, width=width, delta=1e-5, delta0=1e-6, public=each)
    assert gate.guarantee.epsilon == pytest.approx(epsilon, abs=0.03)
    public = {300: 2.12, 1000: 4.163, 3000: 7.889}[n]  # rho*, the design notes
    assert gate.guarantee.epsilon < public
    exact = worst(votes, 40.0, [order])[:, 0]
    cost = TailBound(sigma=40.0, order=order).cost(scores, 0.0)
    assert (exact <= cost).all()
    assert 1 < cost.sum() / exact.sum() < 1.6


def test_a_public_cost_below_the_certified_one_is_refused():
    """It caps every query's bound: too small a cap would let tied votes pass."""
    words = {"order": 8.0, "tau": 0.01, "width": 4.0, "delta": 1e-5, "delta0": 1e-6}
    least = float(rho_star([8.0], 40.0)[0])
    for public in (0.0, 1e-9, 0.9 * least):
        with pytest.raises(InvalidInputError, match="public must be"):
            PTRGate(sigma=40.0, public=public, **words)
    assert PTRGate(sigma=40.0, public=least, **words).passed is None
    with pytest.raises(InvalidInputError, match="threshold must be"):
        PTRGate(sigma=40.0, threshold=float("nan"), sigma_threshold=100.0, **words)
