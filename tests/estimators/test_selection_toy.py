"""A private selection small enough to be written out: three people, two candidates, every outcome enumerated."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from pate.estimators.selection._select import best_of, draw_index, split_units
from pate.estimators.selection._statement import worst_of
from pate.privacy import Charge
from pate.privacy.compose.repetitions import Repetitions
from pate.privacy.convert import DEFAULT_ORDERS
from pate.privacy.noise.integers import uniform_below
from pate.privacy.noise.source import NoiseSource

ORDERS = np.array(DEFAULT_ORDERS)
#: P(model = 1) of both candidates, in 64ths, by how many of the two people trained on say 1.
MODELS = [[24, 32, 36], [20, 30, 42]]
#: The score says in so many 64ths that the held-out person was called wrong when right, or the other way round.
FLIP = 26
LAWS = [Repetitions("poisson", 3.0), Repetitions("geometric", 3.0), Repetitions("logarithmic", 3.0)]


def renyi(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return logsumexp(np.log(p)[:, None] * ORDERS + np.log(q)[:, None] * (1 - ORDERS), axis=0) / (ORDERS - 1)


def coin(heads: int) -> np.ndarray:
    return np.array([64 - heads, heads]) / 64


def charge_of(pairs: list[tuple[int, int]]) -> Charge:
    curves = [renyi(coin(a), coin(b)) for a, b in pairs]
    return Charge(math.inf, tuple(np.maximum(np.max(curves, axis=0), 0).tolist()))


def price(law: Repetitions) -> Charge:
    """As a selection has it: the dearest candidate or the score, whichever is more, and the best of K of that."""
    moves = [(i, j) for i in range(3) for j in range(3) if abs(i - j) == 1]
    candidates = [charge_of([(m[i], m[j]) for i, j in moves]) for m in MODELS]
    return law.charge(worst_of([*candidates, charge_of([(FLIP, 64 - FLIP), (64 - FLIP, FLIP)])]))


def generating(law: Repetitions, x: float) -> float:
    if law.distribution == "poisson":
        return math.exp(law.mean * (x - 1))
    g = float(law.parameter)
    return g * x / (1 - (1 - g) * x) if law.distribution == "geometric" else math.log1p(-(1 - g) * x) / math.log(g)


def exact(law: Repetitions, bits: tuple[int, ...], held: int) -> dict[tuple[int, int, int], float]:
    """Law of (candidate, model, score) of the winner, or (-1, -1, -1): of equal scores in proportion to their law."""
    ones = sum(bits) - bits[held]
    one = {}
    for c, m, s in itertools.product((0, 1), repeat=3):
        right = int(m == bits[held])
        one[c, m, s] = 0.5 * coin(MODELS[c][ones])[m] * (coin(FLIP)[0] if s == right else coin(FLIP)[1])
    low = sum(v for (_, _, s), v in one.items() if s == 0)
    steps = {0: (0.0, low), 1: (low, 1.0)}
    found = {}
    for key, value in one.items():
        below, upto = steps[key[2]]
        found[key] = value / (upto - below) * (generating(law, upto) - generating(law, below))
    return {**found, (-1, -1, -1): generating(law, 0.0)}


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.distribution)
def test_no_replaced_person_shows_more_than_was_paid_for(law):
    """All 8 data sets, all replacements, every split; and the split itself, which is random, released or not."""
    paid = np.array(price(law).rdp)
    worst = np.zeros(len(ORDERS))
    for bits in itertools.product((0, 1), repeat=3):
        for person in range(3):
            other = tuple(1 - b if i == person else b for i, b in enumerate(bits))
            whole = []
            for held in range(3):
                a, b = (np.array(list(exact(law, x, held).values())) for x in (bits, other))
                keep = a > 0
                assert a.sum() == pytest.approx(1)
                worst = np.maximum(worst, renyi(a[keep], b[keep]))
                whole.append((a / 3, b / 3))
            p, q = (np.sum([w[i] for w in whole], axis=0) for i in (0, 1))
            assert (renyi(p[p > 0], q[p > 0]) <= paid).all()
    assert (worst <= paid).all()
    assert (worst > 0.15 * paid)[ORDERS > 8].all()  # and the price is of this mechanism, not of any


@pytest.mark.long
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.distribution)
def test_the_winner_has_the_law_that_was_enumerated(law):
    """The very functions that a selection draws with, on the toy."""
    bits, source, n = (1, 0, 1), NoiseSource(11), 2500
    expected: dict[tuple[int, int, int, int], float] = {}
    for held in range(3):
        for key, value in exact(law, bits, held).items():
            expected[(held, *key)] = n * value / 3
    seen = dict.fromkeys(expected, 0)
    for _ in range(n):
        n_runs = law.draw(source)
        train, (held,) = split_units(3, 1, source)
        ones = sum(bits[i] for i in train)

        def run(ones=ones, held=held):
            c = draw_index([1, 1], source)
            m = int(uniform_below([64], source)[0] < MODELS[c][ones])
            flipped = int(uniform_below([64], source)[0] < FLIP)
            s = int(m == bits[held]) ^ flipped
            return float(s), (c, m, s)

        best = best_of(n_runs, run)
        seen[(int(held), *((-1, -1, -1) if best is None else best[1]))] += 1
    keys = [k for k, v in expected.items() if v > 0]
    assert sum(seen[k] for k in keys) == n
    assert stats.chisquare([seen[k] for k in keys], [expected[k] for k in keys]).pvalue > 1e-4


def test_more_runs_find_a_better_winner():
    source = NoiseSource(3)

    def mean_score(mean: float) -> float:
        law = Repetitions("geometric", mean)
        draw = lambda: (float(uniform_below([1000], source)[0]), None)  # noqa: E731
        return float(np.mean([best_of(law.draw(source), draw)[0] for _ in range(600)]))  # type: ignore[index]

    scores = [mean_score(mean) for mean in (1.2, 4.0, 16.0)]
    assert scores[0] + 100 < scores[1] < scores[2] - 100


def test_candidates_are_drawn_by_their_weights():
    source = NoiseSource(4)
    drawn = np.bincount([draw_index([5, 1, 2], source) for _ in range(4000)], minlength=3)
    assert stats.chisquare(drawn, [2500, 500, 1000]).pvalue > 1e-4


def test_every_split_is_as_likely():
    source = NoiseSource(6)
    held = [tuple(split_units(4, 2, source)[1].tolist()) for _ in range(3000)]
    counts = [held.count(pair) for pair in itertools.combinations(range(4), 2)]
    assert sum(counts) == 3000
    assert stats.chisquare(counts).pvalue > 1e-4
