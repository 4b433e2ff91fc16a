"""The sparse vector on distances to instability: its law, its exact divergence on small worlds, its delta."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import chisquare

from pate import Budget
from pate.comparison.baselines import StabilityTest, distance_to_instability
from pate.exceptions import BudgetExceededError, InvalidInputError
from pate.privacy.noise.source import NoiseSource


def neighbours_of(counts):
    """All tables of votes in which one teacher votes otherwise, query by query."""
    rows = []
    for row in counts:
        changed = [tuple(row)]
        for u, b in itertools.permutations(range(len(row)), 2):
            if row[u]:
                other = list(row)
                other[u] -= 1
                other[b] += 1
                changed.append(tuple(other))
        rows.append(changed)
    return itertools.product(*rows)


def test_the_distance_moves_by_one_and_vouches_for_the_plurality():
    rng = np.random.default_rng(0)
    for m in (2, 3, 6):
        for _ in range(150):
            row = rng.multinomial(int(rng.integers(1, 16)), rng.dirichlet(np.ones(m)))
            here = int(distance_to_instability([row])[0])
            for (other,) in neighbours_of([row]):
                there = int(distance_to_instability([other])[0])
                assert abs(there - here) <= 1
                if here >= 1:
                    assert int(np.argmax(other)) == int(np.argmax(row))


def noise_law(scale, reach):
    z = np.arange(-reach, reach + 1)
    p = np.exp(-np.abs(z) / scale)
    return z, p / p.sum()


def answers_law(test, counts):
    """P(pattern of labels; -1 unstable, -2 not asked), summed over the noises one by one."""
    distances, labels = distance_to_instability(counts), np.argmax(counts, axis=1)
    z, p = noise_law(test.query_scale, int(60 * test.query_scale))
    law: dict[tuple[int, ...], float] = {}
    for shift, weight in zip(*noise_law(test.threshold_scale, int(60 * test.threshold_scale)), strict=True):
        passes = [float(p[d + z >= test.threshold + shift].sum()) for d in distances]
        for pattern in itertools.product((True, False), repeat=len(counts)):
            answers, unstable, chance = [], 0, weight
            for stable, passing, label in zip(pattern, passes, labels, strict=True):
                if unstable >= test.max_unstable:
                    answers.append(-2)
                    chance *= 0.5  # both branches are one answer
                    continue
                chance *= passing if stable else 1 - passing
                unstable += not stable
                answers.append(int(label) if stable else -1)
            law[tuple(answers)] = law.get(tuple(answers), 0.0) + chance
    return law


def hockey_stick(P, Q, epsilon):
    return sum(max(0.0, p - math.exp(epsilon) * Q.get(key, 0.0)) for key, p in P.items())


@pytest.mark.few(1)
@pytest.mark.parametrize(("max_unstable", "epsilon", "delta"), [(1, 1.0, 1e-2), (2, 2.0, 1e-3), (1, 0.5, 0.05)])
def test_small_worlds_are_within_epsilon_and_delta(max_unstable, epsilon, delta):
    counts = [[4, 4, 0], [8, 0, 0], [4, 3, 1]]
    test = StabilityTest.for_budget(Budget(epsilon, delta), n_queries=3, max_unstable=max_unstable)
    here, most = answers_law(test, counts), 0.0
    assert sum(here.values()) == pytest.approx(1, abs=1e-9)
    promised = test.guarantee(3, delta)
    for other in itertools.islice(neighbours_of(counts), 0, None, 3):
        there = answers_law(test, other)
        most = max(most, *(hockey_stick(P, Q, promised.epsilon) for P, Q in ((here, there), (there, here))))
    assert most <= test.failure(3) + 1e-12
    assert most > 0  # a label that changes shows: there is no pure epsilon


def test_without_delta_it_would_not_be_private():
    """The canary: two queries of distance 0 whose plurality one teacher decides; the event is what delta pays for."""
    test = StabilityTest(3, 2.0, 2.0, 1)
    here, there = answers_law(test, [[5, 4]]), answers_law(test, [[4, 5]])
    seen = sum(p for key, p in here.items() if key == (0,))
    assert there.get((0,), 0.0) == 0.0
    assert 0.5 * test.failure(1) < seen <= test.failure(1)


@pytest.mark.long
def test_what_is_drawn_has_the_law_that_is_accounted():
    test = StabilityTest(2, 1.5, 2.5, 1)
    counts = np.array([[6, 0], [9, 1], [4, 4]])
    law, source, n = answers_law(test, counts), NoiseSource(3), 6_000
    drawn = [test.draw(counts, source) for _ in range(n)]
    code = {"answered": 0, "refused": -1, "not asked": -2}
    seen: dict[tuple[int, ...], int] = {}
    for one in drawn:
        answers = tuple(
            int(label) if status == "answered" else code[status]
            for label, status in zip(one.labels.tolist(), one.status.tolist(), strict=True)
        )
        seen[answers] = seen.get(answers, 0) + 1
    assert set(seen) <= set(law)
    keys = [key for key, p in law.items() if p * n >= 5]
    rest = n - sum(seen.get(k, 0) for k in keys)
    found = [*(seen.get(k, 0) for k in keys), rest]
    expected = [*(n * law[k] for k in keys), n * (1 - sum(law[k] for k in keys))]
    if expected[-1] < 1e-6:
        found, expected = found[:-1], expected[:-1]
    assert chisquare(found, np.array(expected) * sum(found) / sum(expected)).pvalue > 1e-6


def test_nothing_is_answered_after_the_last_unstable_query():
    test = StabilityTest.for_budget(Budget(2.0, 1e-5), n_queries=40, max_unstable=2)
    counts = np.array([[1000, 0], [500, 500]] * 20)
    drawn = test.draw(counts, NoiseSource(0))
    assert (drawn.status == "refused").sum() == 2
    assert (drawn.status[4:] == "not asked").all()
    assert drawn.labels[:4].tolist() == [0, -1, 0, -1]


@pytest.mark.parametrize(
    ("a", "b", "threshold", "n"),
    [(1.3, 2.1, 4, 3), (0.2, 0.4, 2, 50), (6.0, 3.0, 30, 7), (2.0, 2.0, 9, 4), (1.0, 3.0, 2, 90)],
)
def test_the_failure_against_sums_of_fifty_digits(a, b, threshold, n):
    def chances(scale):
        t = mp.exp(-1 / mp.mpf(scale))
        return t, (1 - t) / (1 + t)

    mp.mp.dps = 50
    (t, p), (u, _) = chances(a), chances(b)
    total = 0.0
    for z in range(-400, 401):
        at = threshold + z
        tail = u**at / (1 + u) if at >= 0 else 1 - u ** (1 - at) / (1 + u)
        total += p * t ** abs(z) * min(1, n * tail)
    found = StabilityTest(threshold, a, b, 1).failure(n)
    assert float(total) <= found <= float(total) * (1 + 1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 1000.0])
@pytest.mark.parametrize("max_unstable", [1, 5])
def test_the_budget_is_kept_exactly_and_spent(epsilon, max_unstable):
    test = StabilityTest.for_budget(Budget(epsilon, 1e-6), n_queries=30, max_unstable=max_unstable)
    assert test.epsilon == 1 / Fraction(test.threshold_scale) + 2 * max_unstable / Fraction(test.query_scale)
    assert test.epsilon <= Fraction(epsilon)
    assert test.failure(30) <= 1e-6
    if epsilon < 100:
        lower = replace(test, threshold=test.threshold - 1)
        assert lower.failure(30) > 1e-6
        assert float(test.epsilon) == pytest.approx(epsilon)


@pytest.mark.parametrize("max_unstable", [1, 4, 16])
def test_it_asks_less_than_the_paper(max_unstable):
    """Bassily, Thakkar and Thakurta: lambda = sqrt(32 T ln(2/delta)) / epsilon, w = 2 lambda ln(2 m / delta)."""
    epsilon, delta, m = 1.0, 1e-5, 100
    scale = math.sqrt(32 * max_unstable * math.log(2 / delta)) / epsilon
    test = StabilityTest.for_budget(Budget(epsilon, delta), n_queries=m, max_unstable=max_unstable)
    assert test.threshold < 2 * scale * math.log(2 * m / delta)


def test_what_no_noise_buys_is_refused():
    with pytest.raises(BudgetExceededError, match="a million"):
        StabilityTest.for_budget(Budget(1e-6, 1e-5), n_queries=3, max_unstable=4)
    with pytest.raises(InvalidInputError, match="threshold"):
        StabilityTest(3, 2.0, 2.0, 1).guarantee(5, 1e-5)
    for name, values in (("query_scale", (3, 2.0, 0.0, 1)), ("max_unstable", (3, 2.0, 2.0, 0))):
        with pytest.raises(InvalidInputError, match=name):
            StabilityTest(*values)
