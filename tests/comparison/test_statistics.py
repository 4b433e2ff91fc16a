"""Paired intervals: their parts, verdicts and validation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from pate.comparison.statistics import (
    LEAST_REPEATS,
    Design,
    PairedDifference,
    Spread,
    band,
    paired_bands,
    paired_difference,
)
from pate.exceptions import InvalidInputError

RNG = np.random.default_rng(11)


def draw(n_repeats=5, n_rows=300, accuracy=0.8, rng=RNG):
    hard = rng.random(n_rows)
    return [hard + 0.1 * rng.standard_normal(n_rows) < accuracy for _ in range(n_repeats)]


A, B = draw(), draw(accuracy=0.75)


def test_with_published_rows_both_errors_are_in_the_interval():
    found = paired_difference(A, B, same_rows=True, level=0.9, n_comparisons=4)
    values = np.array(A).astype(float) - np.array(B)
    j, n = values.shape
    assert found.mean == pytest.approx(np.mean(A) - np.mean(B))
    by_row = [values[:, i].mean() for i in range(n)]
    rows = sum((v - found.mean) ** 2 for v in by_row) / (n - 1) / n + 1 / n**2
    by_repeat = values.mean(axis=1)
    left = [[values[r, i] - by_repeat[r] - by_row[i] + found.mean for i in range(n)] for r in range(j)]
    chance = sum(v**2 for line in left for v in line) / ((j - 1) * (n - 1)) / n
    repeats = max(by_repeat.var(ddof=1), chance) / j
    half = math.sqrt(stats.t.ppf(1 - 0.0125, j - 1) ** 2 * repeats + stats.t.ppf(1 - 0.0125, n - 1) ** 2 * rows)
    assert (found.low, found.high) == pytest.approx((found.mean - half, found.mean + half))
    assert (found.se_repeats, found.se_rows, found.df) == pytest.approx((math.sqrt(repeats), math.sqrt(rows), j - 1))


def test_with_redrawn_rows_the_resampled_t_is_corrected_and_rows_are_the_least():
    a, b = ([draw(1, 100, accuracy)[0] for _ in range(5)] for accuracy in (0.8, 0.75))
    found = paired_difference(a, b, same_rows=False, test_share=0.2)
    values = np.array(a).astype(float) - np.array(b)
    nadeau_bengio = values.mean(axis=1).var(ddof=1) * (1 / 5 + 100 / 400)
    rows = (values.var(axis=1, ddof=1).mean() / 100 + 1e-4) * (1 / 5 + 4 / 5 * 0.2)
    half = max(stats.t.ppf(0.975, 4) * math.sqrt(nadeau_bengio), stats.t.ppf(0.975, 495) * math.sqrt(rows))
    assert found.high - found.mean == pytest.approx(half)
    alike = paired_difference([a[0]] * 5, [b[0]] * 5, same_rows=False, test_share=0.2)
    assert alike.se_repeats == 0
    assert alike.high - alike.mean >= stats.norm.ppf(0.975) * alike.se_rows > 0


def cuts(n_repeats):
    """Repeats with redrawn rows whose means spread, as those of real learners do."""
    rng = np.random.default_rng(3)
    levels = 0.8 + 0.05 * rng.standard_normal(n_repeats)
    return [rng.random(50) < level for level in levels], [rng.random(50) < 0.75 for _ in levels]


@pytest.mark.parametrize("n_repeats", [6, 10, 30])
def test_beyond_five_repeats_the_corrected_variance_stays(n_repeats):
    a, b = cuts(n_repeats)
    found = paired_difference(a, b, same_rows=False, test_share=0.2)
    values = np.array(a).astype(float) - np.array(b)
    corrected = values.mean(axis=1).var(ddof=1) * (1 / 5 + 0.25)
    assert found.se_repeats == pytest.approx(math.sqrt(corrected))
    assert found.high - found.mean == pytest.approx(stats.t.ppf(0.975, n_repeats - 1) * math.sqrt(corrected))


def test_where_rows_are_redrawn_repeats_are_said_to_be_needed_only_where_they_do():
    """Student's quantile falls to 1.98 at a hundred repeats, and the error stays."""
    design = Design(same_rows=False, test_share=0.2)
    error = math.sqrt(0.45)

    def needed(gap):
        return Spread(gap * error, 5, 50, 1.0, 0.0, 200).repeats_needed(design)

    assert needed(1.97) is None
    assert needed(2.8) == 5
    assert needed(2.3) == 10  # t(9) = 2.26, t(8) = 2.31


@pytest.mark.parametrize("same_rows", [True, False])
@pytest.mark.parametrize("n_repeats", [100, 101, 150])
def test_there_may_be_more_repeats_than_it_is_looked_for(n_repeats, same_rows):
    rng = np.random.default_rng(4)
    a, b = (rng.random((n_repeats, 40)) < level for level in (0.8, 0.79))
    share = None if same_rows else 0.2
    found = paired_difference(list(a), list(b), same_rows=same_rows, test_share=share)
    assert (found.verdict, found.repeats_needed, found.df) == ("undecided", None, n_repeats - 1)
    assert band(list(a), same_rows=same_rows, test_share=share).low < 0.8


def test_rows_of_one_certain_repeat_are_mcnemars():
    """No noise, no training: what is left is the variance that McNemar's test has."""
    n, b, c = 1000, 60, 30
    right = np.zeros((2, n), dtype=bool)
    right[0, :b], right[1, b : b + c] = True, True
    found = paired_difference([right[0]] * 4, [right[1]] * 4, same_rows=True)
    wald = (b + c - (b - c) ** 2 / n) / n**2
    assert found.se_rows**2 == pytest.approx(wald * n / (n - 1) + 1 / n**2)
    assert found.se_repeats == 0


@pytest.mark.parametrize("n_repeats", [1, 2])
def test_too_few_repeats_decide_nothing(n_repeats):
    everything, nothing = [np.ones(1000, dtype=bool)] * n_repeats, [np.zeros(1000, dtype=bool)] * n_repeats
    found = paired_difference(everything, nothing, same_rows=True)
    assert (found.low, found.high, found.verdict) == (None, None, "undecided")
    assert found.repeats_needed == LEAST_REPEATS
    assert found.mean == 1
    assert f"needs {LEAST_REPEATS} repeats" in str(found)
    decided = paired_difference(everything[:1] * 3, nothing[:1] * 3, same_rows=True)
    assert decided.verdict == "ahead"
    assert band(everything, same_rows=True).low is None


def test_comparisons_are_corrected_by_bonferroni():
    many = paired_difference(A, B, same_rows=True, level=0.95, n_comparisons=10)
    one = paired_difference(A, B, same_rows=True, level=0.995)
    assert (many.low, many.high) == pytest.approx((one.low, one.high))
    alone = paired_difference(A, B, same_rows=True)
    assert many.low < alone.low
    assert alone.high < many.high


def test_the_other_way_round_it_is_the_other_way_round():
    one, other = paired_difference(A, B, same_rows=True), paired_difference(B, A, same_rows=True)
    assert one.reversed() == other
    assert one.reversed().reversed() == one


def test_equal_contestants_are_undecided_with_some_width():
    found = paired_difference(A, A, same_rows=True)
    assert found.verdict == "undecided"
    assert found.low < 0 < found.high
    assert found.repeats_needed is None


def test_rows_of_one_person_count_once():
    """Every row five times over says no more than every row once."""
    fivefold = [[np.repeat(r, 5) for r in rights] for rights in (A, B)]
    owners = np.repeat(np.arange(300), 5)
    once = paired_difference(A, B, same_rows=True)
    grouped = paired_difference(*fivefold, same_rows=True, groups=owners)
    blind = paired_difference(*fivefold, same_rows=True)
    assert (grouped.low, grouped.high) == pytest.approx((once.low, once.high), abs=1e-3)
    assert blind.high - blind.low < 0.8 * (grouped.high - grouped.low)
    order = RNG.permutation(1500)
    shuffled = paired_difference(
        *([r[order] for r in rights] for rights in fivefold),
        same_rows=True,
        groups=[f"person {i}" for i in owners[order]],
    )
    assert shuffled.low == pytest.approx(grouped.low)
    again = paired_difference(*fivefold, same_rows=False, test_share=0.2, groups=[owners] * 5)
    bare = paired_difference(A, B, same_rows=False, test_share=0.2)
    assert again.se_rows == pytest.approx(bare.se_rows, rel=0.05)


def test_as_many_repeats_as_are_said_to_be_needed_do():
    rng = np.random.default_rng(5)
    hard = rng.random(2000)
    a, b = ([hard + 0.1 * rng.standard_normal(2000) < level for _ in range(3)] for level in (0.81, 0.77))
    found = paired_difference(a, b, same_rows=True, n_comparisons=200)
    assert found.verdict == "undecided"
    assert 3 < found.repeats_needed < 20
    # Repeats that go on as these three did; two more rounds of them make up for the rows that were not in them.
    n = 3 * -(-found.repeats_needed // 3) + 3
    assert paired_difference((a * 10)[:n], (b * 10)[:n], same_rows=True, n_comparisons=200).verdict == "ahead"
    assert paired_difference(a, [~r for r in a], same_rows=True).repeats_needed == 3


def test_a_band_is_the_difference_from_always_wrong():
    alone = band(A, same_rows=True, n_comparisons=3)
    against = paired_difference(A, [np.zeros(300, dtype=bool)] * 5, same_rows=True, n_comparisons=3)
    assert (alone.mean, alone.low, alone.high) == pytest.approx((against.mean, against.low, against.high))
    sure = band([np.ones(50, dtype=bool)] * 5, same_rows=True)
    assert sure.high == 1 > sure.low


def test_paired_bands_that_do_not_meet_are_decided():
    names = ("a", "b", "c", "d")
    for seed in range(20):
        rng = np.random.default_rng(seed)
        hard = rng.random(300)
        rights = {
            name: [hard + 0.05 * rng.standard_normal(300) < level for _ in range(5)]
            for name, level in zip(names, (0.7, 0.72, 0.76, 0.9), strict=True)
        }
        means = {name: float(np.mean(right)) for name, right in rights.items()}
        pairs = {
            (a, b): paired_difference(rights[a], rights[b], same_rows=True, n_comparisons=6)
            for a in names
            for b in names
            if a < b
        }
        bands = paired_bands(means, pairs)
        for (a, b), found in pairs.items():
            apart = bands[a].low > bands[b].high or bands[b].low > bands[a].high
            assert not apart or found.verdict != "undecided"
        two = paired_bands({n: means[n] for n in "ab"}, pairs)
        assert (two["b"].low > two["a"].high) == (pairs["a", "b"].verdict == "behind")
        # Alone a contestant's band has the rows' common difficulty in it.
        assert (
            two["a"].high - two["a"].low
            < band(rights["a"], same_rows=True).high - band(rights["a"], same_rows=True).low
        )


def test_paired_bands_ask_for_every_pair_and_for_repeats():
    pair = paired_difference(A, B, same_rows=True)
    with pytest.raises(InvalidInputError, match="'b', 'c'"):
        paired_bands({"a": 0.8, "b": 0.7, "c": 0.6}, {("a", "b"): pair, ("a", "c"): pair})
    single = paired_difference(A[:1], B[:1], same_rows=True)
    assert paired_bands({"a": 0.8, "b": 0.7}, {("b", "a"): single})["a"].low is None
    assert paired_bands({"a": 0.8}, {})["a"].low is None


def good(**changed):
    return {"a": A, "b": B, "same_rows": True, **changed}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"a": [np.arange(300)] * 5}, "a must hold one boolean array"),
        ({"b": [r.astype(float) for r in B]}, "b must hold one boolean array"),
        ({"a": []}, "a must hold one boolean array"),
        ({"a": None}, "a must hold one boolean array"),
        ({"a": np.array(True)}, "a must hold one boolean array"),
        ({"a": [[True]], "b": [[True]]}, "at least 2 test rows"),
        ({"b": B[:4]}, "same repeats and test rows"),
        ({"a": [r[:200] for r in A]}, "same repeats and test rows"),
        ({"a": [*A[:4], A[4][:9]], "b": [*B[:4], B[4][:9]]}, "as many test rows in every repeat"),
        ({"same_rows": False}, "test_share must be given"),
        ({"same_rows": False, "test_share": 1.0}, "test_share must be a finite number > 0 and < 1"),
        ({"test_share": 0.2}, "test_share must be None"),
        ({"same_rows": 1}, "same_rows must be True or False"),
        ({"level": 95}, "level must be a finite number"),
        ({"n_comparisons": 0}, "n_comparisons must be a whole number >= 1"),
        ({"groups": np.arange(7)}, "groups must name the owner"),
        ({"groups": np.zeros(300)}, "at least two persons"),
    ],
)
def test_bad_input_is_refused_by_name(changed, message):
    with pytest.raises(InvalidInputError, match=message):
        paired_difference(**good(**changed))


def test_a_difference_says_what_it_is():
    made = {
        "n_repeats": 5,
        "n_rows": 100.0,
        "level": 0.95,
        "n_comparisons": 1,
        "se_repeats": 0.01,
        "se_rows": 0.01,
        "df": 4,
    }
    undecided = PairedDifference(mean=0.01, low=-0.02, high=0.04, repeats_needed=12, **made)
    assert str(undecided) == "+1.0 points (-2.0 to +4.0), undecided: would need about 12 repeats"
    hopeless = PairedDifference(mean=0.0, low=-0.02, high=0.02, repeats_needed=None, **made)
    assert str(hopeless).endswith("undecided: 100 repeats would not do")
    assert PairedDifference(mean=-0.1, low=-0.2, high=-0.01, repeats_needed=3, **made).verdict == "behind"


def test_the_former_name_of_n_comparisons_is_read_with_a_warning():
    found = paired_difference(A, B, same_rows=True, n_comparisons=4)
    with pytest.warns(DeprecationWarning, match="n_comparisons"):
        assert paired_difference(A, B, same_rows=True, looks=4) == found
    with pytest.warns(DeprecationWarning, match="n_comparisons"):
        assert found.looks == 4
    with pytest.warns(DeprecationWarning, match="n_comparisons"):
        assert band(A, same_rows=True, looks=4).n_comparisons == 4
