from __future__ import annotations

from functools import cache

import exact_reference as reference
import mpmath as mp
import numpy as np
import pytest

from pate.exceptions import InvalidInputError
from pate.privacy.convert import DEFAULT_ORDERS, rdp_to_epsilon
from pate.privacy.exact import native
from pate.privacy.exact._histograms import distinct_histograms, group_counts, merge_far
from pate.privacy.exact._laws import exact_divergences, exact_rdp, group_divergences, log_probs, upper_bound
from pate.privacy.exact._quadrature import divergence_terms, log_terms, plan_orders
from pate.privacy.exact.noise import GaussianNoise, LaplaceNoise, ThresholdTest

ENGINES = ["numpy", "log", pytest.param("native", marks=pytest.mark.skipif(not native.available(), reason="not built"))]
ORDERS = (1.01, 1.3, 1.5, 2.0, 3.7, 8.0, 33.0, 256.0)


@pytest.fixture(autouse=True)
def _precision():
    with mp.workdps(50):
        yield


def relative(found, wanted):
    """Largest relative error; numbers below the smallest double count as equal to 0."""
    errors = [
        abs(mp.mpf(float(f)) / w - 1) if abs(w) > 1e-290 else abs(float(f)) for f, w in zip(found, wanted, strict=True)
    ]
    return float(max(errors))


CASES = [
    ([6, 3, 1], GaussianNoise(2.0), None),
    ([5, 5, 5, 5], GaussianNoise(3.0), None),
    ([50, 20, 20, 20, 20, 0], GaussianNoise(4.0), None),
    ([200, 0], GaussianNoise(1.0), None),  # a gap of 200 sigma
    ([120, 30, 0], GaussianNoise(2.0), None),  # 60 sigma: some outcomes wild, some lost
    ([30, 20, 1], GaussianNoise(0.7), None),
    ([4, 2], GaussianNoise(0.2), None),
    ([100, 80, 3, 0], GaussianNoise(1000.0), None),
    ([60, 30, 9, 1], GaussianNoise(10.0), ThresholdTest(70.0, 20.0)),
    ([3, 3, 2], GaussianNoise(2.0), ThresholdTest(200.0, 5.0)),
    ([9, 1], LaplaceNoise(0.5), None),
    ([6, 3, 1], LaplaceNoise(2.0), None),
    ([40, 0, 0], LaplaceNoise(0.4), None),
    ([5, 5, 5, 4], LaplaceNoise(3.0), None),
    ([12, 9, 2], LaplaceNoise(20.0), None),
]


@cache
def wanted(index):
    """Case by case: the processes of a parallel run share the work."""
    counts, noise, test = CASES[index]
    with mp.workdps(32):
        return reference.worst(
            counts,
            noise.scale,
            ORDERS,
            laplace=isinstance(noise, LaplaceNoise),
            threshold=(test.threshold, test.scale) if test else None,
        )


@pytest.mark.few(1)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("index", range(len(CASES)))
def test_every_neighbour_and_direction_against_multiprecision(index, engine):
    counts, noise, test = CASES[index]
    found = exact_divergences(counts, ORDERS, noise=noise, threshold=test, engine=engine)
    forward, reverse = wanted(index)
    assert relative(found.forward[0], forward) < 1e-11
    assert relative(found.reverse[0], reverse) < 1e-11


@pytest.mark.few(15)
@pytest.mark.parametrize("gap", [0, 1, 7, 40, 150])
@pytest.mark.parametrize("sigma", [1.0, 5.0, 40.0])
@pytest.mark.parametrize("engine", ENGINES)
def test_two_classes_closed_form(gap, sigma, engine):
    counts = [200 + gap, 200]

    def law(difference):
        low = mp.erfc(difference / (2 * mp.mpf(sigma))) / 2
        high = mp.erfc(-difference / (2 * mp.mpf(sigma))) / 2
        return [high, low]

    with mp.workdps(60):
        p = law(gap)
        moved = [law(gap + 2), law(gap - 2)]
        forward = [max(reference.divergence(p, q, a) for q in moved) for a in ORDERS]
        reverse = [max(reference.divergence(q, p, a) for q in moved) for a in ORDERS]
    found = exact_divergences(counts, ORDERS, noise=GaussianNoise(sigma), engine=engine)
    # 200 eps at order 1.01, where a - 1 = 0.01 amplifies the rounding of the order itself.
    assert relative(found.forward[0], forward) < 1e-12
    assert relative(found.reverse[0], reverse) < 1e-12
    logs = log_probs(counts, noise=GaussianNoise(sigma))[0]
    assert relative(logs, [mp.log(v) for v in p]) < 1e-12


@pytest.mark.parametrize("engine", ENGINES)
def test_golden_numbers_per_query(golden, engine):
    for query in golden["per_query"]:
        noise = GaussianNoise(query["sigma"])
        found = exact_divergences(query["counts"], golden["orders"], noise=noise, engine=engine)
        np.testing.assert_allclose(found.forward[0], query["forward"], rtol=1e-10, atol=1e-300)
        np.testing.assert_allclose(found.reverse[0], query["reverse"], rtol=1e-10, atol=1e-300)
        np.testing.assert_allclose(log_probs(query["counts"], noise=noise)[0], query["log_probs"], rtol=1e-12)


def test_golden_totals(golden, mnist2018_counts):
    orders = golden["total_orders"]
    assert tuple(orders) == DEFAULT_ORDERS
    for name, entry in golden["mnist2018"].items():
        test = ThresholdTest(200.0, 150.0) if name.startswith("confident") else None
        if entry["queries"] > 700 and not native.available():
            continue
        found = exact_divergences(
            mnist2018_counts[: entry["queries"]], orders, noise=GaussianNoise(40.0), threshold=test
        )
        per_query = found.per_query().sum(axis=0) * (1 + 1e-8)
        np.testing.assert_allclose(per_query, entry["rdp"], rtol=1e-10)
        epsilon, order = rdp_to_epsilon(per_query, entry["delta"], orders=orders)
        assert epsilon == pytest.approx(entry["epsilon"], rel=1e-10)
        assert order == entry["order"]
        assert rdp_to_epsilon(found.totals()[0] * (1 + 1e-8), entry["delta"], orders=orders)[0] == pytest.approx(
            entry["epsilon_forward_only"], rel=1e-10
        )
        # Directions kept apart inside the sums can only help.
        assert (found.total() <= found.per_query().sum(axis=0) * (1 + 1e-12)).all()


def random_counts(seed, n=60, classes=6, teachers=60):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(classes, 0.4), n)
    return np.stack([rng.multinomial(teachers, row) for row in p])


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("noise", "test"),
    [
        (GaussianNoise(0.6), None),
        (GaussianNoise(1.0), None),
        (GaussianNoise(3.3), ThresholdTest(40.0, 9.0)),
        (GaussianNoise(10.0), None),
        (GaussianNoise(77.7), ThresholdTest(100.0, 5.0)),
        (LaplaceNoise(0.8), None),
        (LaplaceNoise(5.0), None),
        (LaplaceNoise(40.0), None),
    ],
)
def test_engines_agree(noise, test):
    counts = random_counts(int(noise.scale * 10))
    orders = (1.25, 1.5, 1.9, 2.0, 5.0, 17.0, 256.0)
    found = {e: exact_divergences(counts, orders, noise=noise, threshold=test, engine=e) for e in ("numpy", "log")}
    if native.available():
        found["native"] = exact_divergences(counts, orders, noise=noise, threshold=test, engine="native")
        for side in ("forward", "reverse"):
            np.testing.assert_allclose(
                getattr(found["native"], side), getattr(found["numpy"], side), rtol=1e-12, atol=1e-300
            )
    for side in ("forward", "reverse"):
        np.testing.assert_allclose(getattr(found["log"], side), getattr(found["numpy"], side), rtol=2e-11, atol=1e-300)


@pytest.mark.parametrize("noise", [GaussianNoise(2.0), GaussianNoise(40.0), LaplaceNoise(4.0)])
def test_groups_keep_the_loser_apart(noise):
    counts = random_counts(3, n=30)
    groups = group_counts(distinct_histograms(counts).rows)
    orders = np.array([1.5, 4.0, 64.0])
    by_group = group_divergences(groups, noise, orders, engine="numpy")
    whole = group_divergences(groups, noise, orders, per_group=False, engine="numpy")
    np.testing.assert_array_equal(np.maximum.reduceat(by_group, groups.offsets[:-1], axis=0), whole)
    assert (by_group[groups.values == 0] == 0).all()
    assert (by_group[groups.values > 0] > 0).all()
    if native.available():
        np.testing.assert_allclose(group_divergences(groups, noise, orders, engine="native"), by_group, rtol=1e-12)


def test_many_equal_classes_need_and_get_a_finer_step():
    # The integrand of the last class is a product of 200 normal tails: 14 times narrower than one.
    counts = [30] * 200 + [0]
    found = {e: exact_divergences(counts, [2.0, 64.0], noise=GaussianNoise(1.0), engine=e) for e in ("numpy", "log")}
    np.testing.assert_allclose(found["numpy"].reverse, found["log"].reverse, rtol=1e-11)
    logs = log_probs(counts, noise=GaussianNoise(1.0))[0]
    assert np.logaddexp.reduce(logs) == pytest.approx(0, abs=1e-12)


def test_far_groups_are_merged_without_a_trace():
    counts = [[9000, 700, 20, 3, 0], [5000, 4950, 10, 40, 0], [10_000, 0, 0, 0, 0]]
    orders = np.array([1.5, 8.0, 256.0])
    groups = group_counts(distinct_histograms(np.array(counts)).rows)
    merged, _ = merge_far(groups, GaussianNoise(40.0).far(256.0))
    assert len(merged.values) < len(groups.values)
    by_group = group_divergences(groups, GaussianNoise(40.0), orders)
    log = group_divergences(groups, GaussianNoise(40.0), orders, engine="log")
    np.testing.assert_allclose(by_group, log, rtol=1e-10, atol=1e-300)


@pytest.mark.few(2)
@pytest.mark.parametrize("noise", [GaussianNoise(1.0), GaussianNoise(6.0), GaussianNoise(40.0), LaplaceNoise(3.0)])
def test_never_above_the_data_independent_cost(noise):
    counts = random_counts(11, n=80, classes=5, teachers=90)
    orders = np.array(DEFAULT_ORDERS)
    found = exact_rdp(counts, orders, noise=noise)
    if isinstance(noise, GaussianNoise):
        assert (found <= orders / noise.scale**2).all()
    else:
        assert (found <= 2 / noise.scale).all()
    # D_a and (a - 1) D_a both grow with a.
    assert (np.diff(found, axis=1) >= -1e-12 * found[:, 1:]).all()
    assert (found >= 0).all()
    assert (upper_bound(found) > found).all()


def test_classes_and_queries_may_be_permuted():
    counts = random_counts(5, n=40)
    noise, rng = GaussianNoise(5.0), np.random.default_rng(0)
    plain = exact_rdp(counts, [2.0, 9.0], noise=noise)
    order = rng.permutation(len(counts))
    np.testing.assert_array_equal(exact_rdp(counts[order], [2.0, 9.0], noise=noise), plain[order])
    np.testing.assert_array_equal(exact_rdp(rng.permuted(counts, axis=1), [2.0, 9.0], noise=noise), plain)
    np.testing.assert_array_equal(exact_rdp(counts, [9.0, 2.0], noise=noise), plain[:, ::-1])


def test_log_probs_follow_the_classes_and_include_refusal():
    test = ThresholdTest(10.0, 4.0)
    logs = log_probs([[1, 7, 2]], noise=GaussianNoise(2.0), threshold=test)
    assert logs.shape == (1, 4)
    assert np.exp(logs).sum() == pytest.approx(1, abs=1e-13)
    want = reference.with_threshold(reference.gaussian_probs([1, 7, 2], 2.0), [1, 7, 2], 10.0, 4.0)
    assert relative(logs[0], [mp.log(v) for v in want]) < 1e-12


def test_monte_carlo():
    rng = np.random.default_rng(1)
    counts, n = np.array([14, 11, 9, 2]), 400_000
    for noise, draw in ((GaussianNoise(6.0), rng.normal), (LaplaceNoise(4.0), rng.laplace)):
        winners = np.bincount((counts + draw(0, noise.scale, (n, 4))).argmax(axis=1), minlength=4) / n
        p = np.exp(log_probs(counts, noise=noise)[0])
        assert (np.abs(winners - p) < 5 * np.sqrt(p * (1 - p) / n)).all()


def test_edges():
    assert exact_rdp(np.zeros((0, 3), int), [2.0], noise=GaussianNoise(1.0)).shape == (0, 1)
    # No one voted: there is no vote to replace.
    assert exact_rdp([[0, 0]], [2.0], noise=GaussianNoise(1.0))[0, 0] == 0
    for bad in ([[1.5, 2]], [[-1, 2]], [[1]], [[[1, 2]]]):
        with pytest.raises(InvalidInputError, match="counts"):
            exact_rdp(bad, [2.0], noise=GaussianNoise(1.0))
    for orders in ([1.0], [], [np.nan], [np.inf]):
        with pytest.raises(InvalidInputError, match="orders"):
            exact_rdp([[1, 2]], orders, noise=GaussianNoise(1.0))
    with pytest.raises(InvalidInputError, match="scale"):
        GaussianNoise(0.0)


def test_repr_shows_no_values():
    text = repr(exact_divergences([[125, 125]], [2.0], noise=GaussianNoise(40.0)))
    assert "0.0" not in text
    assert "125" not in text


@pytest.mark.parametrize("log", [-30.0, -2.0, -1e-3, -1e-9, 1e-12, 1e-5, 0.3, 2.0])
def test_order_chain_against_multiprecision(log):
    orders = (1.001, 1.25, 1.5, 1.75, 1.9, 2.0, 2.5, 3.0, 7.0, 33.0, 100.5, 256.0)
    log = float(log)
    r = mp.expm1(mp.mpf(log))
    found = divergence_terms(np.ones(1), np.array([float(r)]), plan_orders(orders))
    r = mp.mpf(float(r))
    for order, value in zip(orders, found, strict=True):
        exact = (1 + r) ** mp.mpf(order) - 1 - mp.mpf(order) * r
        # Order 1.001 cancels a thousandfold, and the last digit of numpy's exp differs between its versions.
        assert abs(value / exact - 1) < (3e-12 if order < 1.01 else 1e-12), order
        exact = mp.expm1(mp.mpf(order) * mp.mpf(log)) - mp.mpf(order) * mp.expm1(mp.mpf(log))
        assert abs(mp.mpf(float(log_terms(order, np.array([log]))[0])) - mp.log(exact)) < 1e-12 * max(
            1, abs(mp.log(exact))
        )


@pytest.mark.parametrize("noise", [GaussianNoise(1.0), LaplaceNoise(1.0)])
@pytest.mark.parametrize("d", [1e-4, 0.025, 0.9, 3.0])
def test_shifts_against_multiprecision(noise, d):
    t = np.array([-60.0, -12.0, -3.0, -1.0, -0.5 * d, 0.4 * d, 1.0, 5.0, 12.0])

    def cdf(x):
        if isinstance(noise, GaussianNoise):
            return mp.erfc(-x / mp.sqrt(2)) / 2
        return mp.exp(x) / 2 if x < 0 else 1 - mp.exp(-x) / 2

    with mp.workdps(150):
        for sign in (d, -d):
            want = [cdf(mp.mpf(float(x)) + mp.mpf(sign)) / cdf(mp.mpf(float(x))) - 1 for x in t]
            assert relative(noise.cdf_shift(t, sign), want) < 1e-12
            assert relative(noise.log_cdf_shift(t, sign), [mp.log1p(w) for w in want]) < 1e-10


# Found by random search (scratch): each once lost an overflow, a NaN or a ratio of -1 + 1e-16 on its way to a maximum.
HARD = [
    ([897, 0, 0, 980], GaussianNoise(0.2202664815810677), None),
    ([1, 966], GaussianNoise(4.824422240554145), None),
    ([0, 295, 0, 0, 8, 0], GaussianNoise(0.365580779420455), None),
    ([2242, 0], GaussianNoise(1.3738243121487403), None),
    ([0, 0, 0, 0, 912, 0, 0], GaussianNoise(0.5883419425538772), None),
    ([100, 101, 81, 110, 93, 95], GaussianNoise(2.3391812512451744), ThresholdTest(752.0558627790624, 14.6)),
    ([90, 0, 1920], GaussianNoise(15.792099014822304), ThresholdTest(2065.7937139240075, 1.7797861639480579)),
    ([0, 0, 0, 2973], GaussianNoise(0.3791374485912025), ThresholdTest(1716.0, 15.476191024589202)),
]


@pytest.mark.parametrize("engine", ["numpy", *ENGINES[2:]])
@pytest.mark.parametrize("index", range(len(HARD)))
def test_nothing_is_lost_at_extremes(index, engine):
    counts, noise, test = HARD[index]
    orders = (1.25, 2.0, 8.0, 256.0)
    found = exact_divergences(counts, orders, noise=noise, threshold=test, engine=engine)
    log = exact_divergences(counts, orders, noise=noise, threshold=test, engine="log")
    np.testing.assert_allclose(found.forward, log.forward, rtol=1e-9, atol=1e-290)
    np.testing.assert_allclose(found.reverse, log.reverse, rtol=1e-9, atol=1e-290)
    if test is None:
        assert (np.maximum(found.forward, found.reverse) <= np.array(orders) / noise.scale**2 * (1 + 1e-12)).all()
