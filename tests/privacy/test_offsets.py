"""Offsets of Confident-GNMax's test: the exact joint law, its cost, its sensitivity, and what is refused."""

from __future__ import annotations

import dp_accounting as dpa
import numpy as np
import pytest
from dp_accounting import rdp
from dp_event_oracle import mechanism_event
from scipy.special import ndtr

from pate import Budget, ConfidentGNMax, GNMax, InvalidInputError, Votes, account, audit, calibrate
from pate.audit._audited import audit_mechanism
from pate.audit._pair import worst_neighbour
from pate.mechanisms import make_mechanism, read_mechanisms
from pate.privacy.convert import DEFAULT_ORDERS, gdp_to_epsilon
from pate.privacy.exact import (
    GaussianNoise,
    ThresholdTest,
    exact_divergences,
    log_probs,
    per_teacher_pld_epsilon,
    per_teacher_rdp,
    pld_epsilon,
    vote_groups,
)
from pate.privacy.exact._given_pair import given_pair
from pate.privacy.exact._laws import group_divergences
from pate.privacy.noise.source import NoiseSource
from pate.privacy.offsets import check_offsets, margins_of

ORDERS = (1.1, 1.5, 2.0, 4.0, 8.0, 24.0)
FAIR = (15.0, 2.0, 11.0, 2.0, -3.0, -7.0, 3.0, 8.0, -22.0, -15.0)


def labels_law(counts, sigma):
    """The noisy maximum's law by the plain trapezoid rule: no groups, no tables, every class by itself."""
    x = np.arange(counts.min() - 11 * sigma, counts.max() + 11 * sigma, sigma / 10)
    below = ndtr((x - counts[:, None]) / sigma)
    density = np.exp(-(((x - counts[:, None]) / sigma) ** 2) / 2) / np.sqrt(2 * np.pi) / 10
    others = np.stack([np.prod(np.delete(below, j, axis=0), axis=0) for j in range(len(counts))])
    return (density * others).sum(axis=1)


def joint_law(counts, offsets, threshold, s1, s2):
    """Return the law of m + 1 outcomes, the refusal last, from the definition of the mechanism."""
    h = max(n - c for n, c in zip(counts, offsets, strict=True))
    return np.append(ndtr((h - threshold) / s1) * labels_law(counts, s2), ndtr((threshold - h) / s1))


def excess(p, q, order):
    """exp((a - 1) D(p || q)) - 1, as a sum of terms that are not below 0."""
    loss = np.log(p) - np.log(q)
    return float((q * (np.expm1(order * loss) - order * np.expm1(loss))).sum())


def neighbours(counts):
    for u in np.flatnonzero(counts):
        for b in range(len(counts)):
            if b != u:
                moved = counts.copy()
                moved[u] -= 1
                moved[b] += 1
                yield moved


def some_case(rng):
    m = int(rng.integers(2, 6))
    counts = rng.multinomial(int(rng.integers(4, 25)), rng.dirichlet(np.full(m, 0.7)))
    if rng.random() < 0.4:  # equal counts, told apart by their offsets alone
        counts[1] = counts[0] = max(1, counts[0])
    spread = rng.choice([0.4, 3.0, 12.0])
    offsets = np.asarray(check_offsets(rng.normal(0, spread, m)))
    if rng.random() < 0.3:
        offsets = np.round(offsets)  # ties of count less offset
    threshold = float(rng.uniform(-5, 25))
    return counts, offsets, threshold, float(rng.uniform(1.0, 8.0)), float(rng.uniform(1.0, 8.0))


def by_force(counts, offsets, threshold, s1, s2, orders):
    """Return D (2, n_orders): the largest over all neighbours, forward and reverse."""
    own = joint_law(counts, offsets, threshold, s1, s2)
    laws = [joint_law(other, offsets, threshold, s1, s2) for other in neighbours(counts)]
    sides = [
        [max(excess(own, q, a) for q in laws) for a in orders],
        [max(excess(q, own, a) for q in laws) for a in orders],
    ]
    return np.log1p(sides) / (np.array(orders) - 1)


@pytest.mark.long
def test_the_joint_law_is_that_of_brute_force_in_a_thousand_random_cases():
    rng, furthest = np.random.default_rng(20), 0.0
    for _ in range(1000):
        counts, offsets, threshold, s1, s2 = case = some_case(rng)
        test = ThresholdTest(threshold, s1, tuple(offsets.tolist()))
        found = exact_divergences(counts, ORDERS, noise=GaussianNoise(s2), threshold=test)
        wanted = by_force(*case, ORDERS)
        got = np.concatenate([found.forward, found.reverse])
        furthest = max(furthest, float(np.abs(got / wanted - 1).max()))
    assert furthest < 1e-10


def test_both_engines_agree_and_the_law_is_the_definition():
    rng = np.random.default_rng(21)
    for _ in range(40):
        counts, offsets, threshold, s1, s2 = some_case(rng)
        noise, test = GaussianNoise(s2), ThresholdTest(threshold, s1, tuple(offsets.tolist()))
        law = np.exp(log_probs(counts, noise=noise, threshold=test))[0]
        np.testing.assert_allclose(law, joint_law(counts, offsets, threshold, s1, s2), rtol=1e-11, atol=1e-15)
        labels = np.repeat(np.arange(len(counts)), counts)[:, None]
        groups = vote_groups(labels, n_classes=len(counts), threshold=test).groups
        fast, slow = (
            group_divergences(groups, noise, np.array(ORDERS), threshold=test, engine=engine)
            for engine in ("numpy", "log")
        )
        np.testing.assert_allclose(fast, slow, rtol=1e-10, atol=1e-300)


def test_golden_numbers():
    noise, test = GaussianNoise(40.0), ThresholdTest(200.0, 60.0, FAIR)
    counts = np.array([[180, 30, 10, 5, 5, 5, 5, 5, 3, 2], [90, 30, 10, 5, 5, 5, 5, 5, 90, 5]])
    law = np.exp(log_probs(counts, noise=noise, threshold=test))
    # Phi((h - 200)/60) of h = 165 and 112, by hand.
    np.testing.assert_allclose(1 - law[:, -1], ndtr([-35 / 60, -88 / 60]), rtol=1e-14)
    found = exact_divergences(counts, [2.0, 8.0], noise=noise, threshold=test).per_query()
    wanted = [by_force(row, FAIR, 200.0, 60.0, 40.0, [2.0, 8.0]).max(axis=0) for row in counts]
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    np.testing.assert_allclose(found, GOLDEN, rtol=1e-11)


#: Order 2 and 8 of both rows, by multiprecision integration (tests/exact_reference.py) over all neighbours.
GOLDEN = [[0.00017346771540588, 0.00070553947766775], [0.0001383654574479, 0.00062186515636103]]


def test_no_offsets_and_equal_offsets_are_what_there_was_before():
    rng = np.random.default_rng(22)
    counts = rng.multinomial(60, [0.5, 0.2, 0.2, 0.1], size=30)
    plain = exact_divergences(counts, ORDERS, noise=GaussianNoise(4.0), threshold=ThresholdTest(30.0, 6.0))
    same = exact_divergences(counts, ORDERS, noise=GaussianNoise(4.0), threshold=ThresholdTest(27.0, 6.0, (3.0,) * 4))
    np.testing.assert_allclose(same.per_query(), plain.per_query(), rtol=1e-11)
    np.testing.assert_allclose(same.totals(), plain.totals(), rtol=1e-11)


def test_equal_histograms_of_other_classes_do_not_share_a_cost():
    # One sorted histogram, four costs: what a cache by sorted counts alone would take for one.
    test = ThresholdTest(30.0, 3.0, (8.0, 0.0, -8.0, 4.0))
    counts = np.array([np.roll([24, 6, 4, 2], k) for k in range(4)])
    found = exact_divergences(counts, [4.0], noise=GaussianNoise(6.0), threshold=test)
    assert len(found.histograms.rows) == 4
    each = found.per_query()[:, 0]
    wanted = [by_force(row, test.offsets, 30.0, 3.0, 6.0, [4.0]).max() for row in counts]
    np.testing.assert_allclose(each, wanted, rtol=1e-10)
    assert len(set(each.round(12))) == 4


def test_offsets_of_single_queries():
    rng = np.random.default_rng(23)
    counts = rng.multinomial(40, [0.6, 0.3, 0.1], size=12)
    offsets = np.asarray(check_offsets(rng.normal(0, 6, counts.shape)))
    test = ThresholdTest(20.0, 5.0, tuple(map(tuple, offsets.tolist())))
    found = exact_divergences(counts, ORDERS, noise=GaussianNoise(4.0), threshold=test).per_query()
    wanted = [by_force(n, c, 20.0, 5.0, 4.0, ORDERS).max(axis=0) for n, c in zip(counts, offsets, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    kept = [3, 7]
    some = exact_divergences(counts[kept], ORDERS, noise=GaussianNoise(4.0), threshold=test.of_queries(np.array(kept)))
    np.testing.assert_allclose(some.per_query(), found[kept], rtol=1e-14)
    with pytest.raises(InvalidInputError, match="shape"):
        exact_divergences(counts[:3], ORDERS, noise=GaussianNoise(4.0), threshold=test)


def test_the_sum_by_teacher_is_that_of_brute_force():
    rng = np.random.default_rng(24)
    labels = rng.integers(0, 4, (9, 6))
    offsets = (2.0, -1.5, 0.25, -3.0)
    test, noise = ThresholdTest(4.0, 2.0, offsets), GaussianNoise(2.0)
    found = per_teacher_rdp(labels, ORDERS, noise=noise, threshold=test, n_classes=4)
    wanted = np.zeros(found.shape)
    for t, row in enumerate(labels):
        for i, vote in enumerate(row):
            counts = np.bincount(labels[:, i], minlength=4)
            own = joint_law(counts, offsets, 4.0, 2.0, 2.0)
            moved = [counts - np.eye(4, dtype=int)[vote] + np.eye(4, dtype=int)[b] for b in range(4) if b != vote]
            laws = [joint_law(n, offsets, 4.0, 2.0, 2.0) for n in moved]
            for k, a in enumerate(ORDERS):
                wanted[t, k] += np.log1p(
                    [max(excess(own, q, a) for q in laws), max(excess(q, own, a) for q in laws)]
                ) / (a - 1)
    np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_privacy_loss_distributions_bound_the_worst_pair_of_laws():
    rng = np.random.default_rng(25)
    labels = rng.integers(0, 3, (25, 30)) * (rng.random((25, 30)) < 0.5)
    votes = Votes.from_labels(labels, classes=3)
    mechanism = ConfidentGNMax(12.0, 4.0, 4.0, offsets=(3.0, -2.5, 0.5))
    law = mechanism.exact_parameters()
    by_teacher = per_teacher_pld_epsilon(labels, 1e-5, n_classes=3, **law).epsilon
    by_query = pld_epsilon(votes.counts, 1e-5, **law).epsilon
    report = account(votes, mechanism, delta=1e-5, pld=True)
    assert by_teacher <= by_query
    assert report.data_dependent.reveal().epsilon == pytest.approx(min(by_teacher, report.public.epsilon), rel=1e-6)
    for reverse in (False, True):
        moved = worst_neighbour(votes, mechanism, reverse=reverse)
        reached = given_pair(votes.counts, moved, **law).epsilon(1e-5).epsilon[0]
        assert 0.5 * by_teacher < reached <= by_teacher * (1 + 1e-6)
        checked = audit.pair(votes.counts, moved, mechanism, published=True)
        assert not checked.refuted


def test_the_tested_number_moves_by_at_most_one_vote_and_reaches_it():
    rng, reached = np.random.default_rng(26), {-1.0: 0, 1.0: 0}
    for _ in range(300):
        m = int(rng.integers(2, 7))
        counts = rng.multinomial(int(rng.integers(1, 300)), rng.dirichlet(np.ones(m)))
        offsets = check_offsets(rng.normal(0, rng.choice([0.01, 1.0, 50.0]), m))
        test = ThresholdTest(5.0, 1.0, offsets)
        moved = np.array(list(neighbours(counts)))
        change = test.top(moved) - test.top(counts[None])
        assert (np.abs(change) <= 1.0).all()  # exactly: no rounding
        for side in reached:
            reached[side] += int((change == side).any())
    assert min(reached.values()) > 50


def test_counts_less_offsets_are_exact():
    offsets = check_offsets([np.pi * 1000, -1 / 3, 2.0**30 - 0.1])
    exact = margins_of(np.array([[2**31 - 2, 0, 1]]), offsets)
    assert [float(n - c) for n, c in zip((2**31 - 2, 0, 1), offsets, strict=True)] == exact[0].tolist()
    assert all(c * 2**20 == int(c * 2**20) for c in offsets)


@pytest.mark.parametrize(("n", "cap"), [(640, 300), (30, 30)])
def test_the_price_is_that_without_offsets_and_dp_accountings(n, cap):
    plain, fair = ConfidentGNMax(200, 150, 40), ConfidentGNMax(200, 150, 40, offsets=FAIR)
    assert fair.charge(n, cap) == plain.charge(n, cap)
    assert fair.charge(n, cap).guarantee(1e-5) == plain.charge(n, cap).guarantee(1e-5)
    theirs = rdp.RdpAccountant(orders=list(DEFAULT_ORDERS))
    theirs.compose(mechanism_event(fair, n, cap))
    assert fair.charge(n, cap).guarantee(1e-5).epsilon <= theirs.get_epsilon(1e-5) * (1 + 1e-9)
    # The Gaussian that dominates both is exactly theirs.
    mu = np.sqrt(fair.charge(n, cap).mu_squared)
    accountant = dpa.pld.PLDAccountant()
    accountant.compose(mechanism_event(fair, n, cap))
    assert gdp_to_epsilon(mu, 1e-5) == pytest.approx(accountant.get_epsilon(1e-5), rel=2e-3)


def test_the_public_curve_covers_every_exact_divergence():
    rng = np.random.default_rng(27)
    orders = np.array([1.5, 2.0, 8.0, 32.0])
    for _ in range(60):
        counts, offsets, threshold, s1, s2 = some_case(rng)
        mechanism = ConfidentGNMax(threshold, s1, s2, offsets=tuple(offsets))
        assert (mechanism.exact_rdp(counts, orders)[0] <= mechanism.public_rdp(orders) * (1 + 1e-9)).all()


def test_noise_of_nine_tenths_and_offsets_left_out_are_refuted():
    claimed = ConfidentGNMax(20.0, 6.0, 4.0, offsets=(8.0, -6.5, 0.0, 3.0))
    assert not audit.law(claimed, noise_seed=3).refuted
    for faulty in (
        ConfidentGNMax(20.0, 5.4, 4.0, offsets=claimed.offsets),
        ConfidentGNMax(20.0, 6.0, 3.6, offsets=claimed.offsets),
        ConfidentGNMax(20.0, 6.0, 4.0),
        ConfidentGNMax(20.0, 6.0, 4.0, offsets=tuple(-c for c in claimed.offsets)),
    ):
        assert audit.law(claimed, sampler=faulty, noise_seed=3).refuted, faulty


def test_the_audit_of_a_claim_with_offsets_knows_how_many_classes():
    found = audit_mechanism(ConfidentGNMax(9.0, 3.0, 3.0, offsets=(2.0, 0.0, -1.0)), n_queries=5, n_teachers=20,
                            n_classes=3, max_releases=500, n_runs=40)  # fmt: skip
    assert not any(r.refuted for r in found.results)
    assert {r.layer for r in found.results} >= {"law", "pair", "game"}


def test_a_sampled_answer_has_the_joint_law():
    mechanism = ConfidentGNMax(9.0, 3.0, 3.0, offsets=(2.0, 0.0, -1.5))
    counts = np.array([10, 6, 4])
    draw = mechanism.sample(np.tile(counts, (40_000, 1)), NoiseSource(5))
    law = joint_law(counts, mechanism.offsets, 9.0, 3.0, 3.0)
    seen = np.bincount(np.where(draw.labels < 0, 3, draw.labels), minlength=4)
    assert (np.abs(seen - 40_000 * law) < 4.5 * np.sqrt(40_000 * law * (1 - law))).all()
    # Offsets of single queries, in place of the mechanism's own.
    plain = ConfidentGNMax(9.0, 3.0, 3.0)
    rows = np.tile(mechanism.offsets, (len(draw.labels), 1))
    again = plain.sample(np.tile(counts, (40_000, 1)), NoiseSource(5), offsets=rows)
    assert np.array_equal(again.labels, draw.labels)


def test_what_a_mechanism_is_written_as():
    plain, fair = ConfidentGNMax(200, 150, 40), ConfidentGNMax(200, 150, 40, offsets=[1, -2.5])
    assert repr(plain) == "ConfidentGNMax(threshold=200.0, sigma_threshold=150.0, sigma=40.0)"
    assert repr(fair) == "ConfidentGNMax(threshold=200.0, sigma_threshold=150.0, sigma=40.0, offsets=(1.0, -2.5))"
    assert read_mechanisms(f"{plain}, 250 teachers; {fair}, 9 teachers") == [plain, fair]
    assert make_mechanism("confident-gnmax", threshold=200, sigma_threshold=150, sigma=40, offsets=[1, -2.5]) == fair
    assert fair != plain
    assert hash(fair) != hash(plain)
    assert fair.scaled(2.0).offsets == fair.offsets
    assert calibrate(fair, Budget(1.0, 1e-5), n_queries=100).offsets == fair.offsets
    with pytest.raises(InvalidInputError, match="not for it: offsets"):
        make_mechanism("gnmax", sigma=40.0, offsets=[1, 2])


@pytest.mark.parametrize(
    ("offsets", "said"),
    [
        ([1.0], "shape"),
        ([1.0, np.nan], "finite"),
        ([1.0, np.inf], "finite"),
        ([1.0, 2.0**31], "finite"),
        ("ab", "shape"),
        ([[1.0, 2.0], [3.0, 4.0]], "one number for each class"),
        (5.0, "shape"),
    ],
)
def test_bad_offsets_are_refused(offsets, said):
    with pytest.raises(InvalidInputError, match=said):
        ConfidentGNMax(200, 150, 40, offsets=offsets)


def test_offsets_of_other_classes_are_refused_before_anything_is_computed():
    votes, mechanism = Votes.from_counts([[9, 1]] * 3), ConfidentGNMax(5, 2, 2, offsets=(1.0, 2.0, 3.0))
    with pytest.raises(InvalidInputError, match="each of the 2 classes"):
        account(votes, mechanism, delta=1e-5)
    with pytest.raises(InvalidInputError, match="sanitise"):
        account(Votes.from_counts([[9, 1, 0]] * 3), mechanism, delta=1e-5, sanitise=True)
    groups = vote_groups([[0], [1], [1]], n_classes=3)
    with pytest.raises(InvalidInputError, match="grouped by the offsets"):
        per_teacher_rdp(groups, [2.0], **mechanism.exact_parameters())
    assert account(Votes.from_counts([[9, 1, 0]] * 3), mechanism, delta=1e-5).papernot2018 is None
    assert account(votes, GNMax(2.0), delta=1e-5).papernot2018 is not None


def test_many_classes_with_offsets_have_their_public_cost_alone():
    counts = np.zeros((2, 51), dtype=np.int64)
    counts[:, 0] = 30
    fair = ConfidentGNMax(20, 9, 9, offsets=np.arange(51))
    with pytest.raises(InvalidInputError, match="at most 50 classes"):
        fair.exact_rdp(counts, [2.0])
    report = account(Votes.from_counts(counts), fair, delta=1e-5)
    assert report.exact.reveal() == {}
    assert report.data_dependent.reveal().epsilon == report.public.epsilon
