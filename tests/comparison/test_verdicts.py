"""Verdicts, sides and crossover points: every pair counts as a comparison, and only compared pairs get a verdict."""

from __future__ import annotations

import numpy as np
import pytest

from pate.comparison._verdicts import (
    CrossoverPoint,
    CrossoverPoints,
    crossing,
    crossover_points,
    side_verdicts,
    verdicts,
)
from pate.comparison.statistics import PairedDifference, paired_difference
from pate.exceptions import InvalidInputError

N = 400


def rights(n_right, n_repeats=5):
    """So many of 400 rows are right, always the same ones: rows alone make the error."""
    return [np.arange(N) < n_right] * n_repeats


EASY = {
    "A": {1.0: rights(300), 3.0: rights(380)},
    "B": {1.0: rights(200), 3.0: rights(378)},
    "C": {3.0: rights(250)},
}


def test_the_leader_is_ahead_of_whom_the_intervals_say():
    first, second = verdicts(EASY, [1.0, 3.0], same_rows=True)
    assert (first.leader, first.ahead_of, first.undecided) == ("A", ("B",), ())
    assert (second.leader, second.ahead_of, second.undecided) == ("A", ("C",), ("B",))
    assert list(second.means) == ["A", "B", "C"]
    assert second.means["C"] == 250 / 400
    assert set(second.pairs) == {("A", "B"), ("A", "C"), ("B", "C")}


def test_every_pair_at_every_epsilon_is_a_look():
    first, second = verdicts(EASY, [1.0, 3.0], same_rows=True)
    assert first.n_comparisons == second.n_comparisons == 1 + 3
    assert all(found.n_comparisons == 4 for found in second.pairs.values())
    alone = paired_difference(EASY["A"][1.0], EASY["B"][1.0], same_rows=True, n_comparisons=4)
    assert first.pairs["A", "B"] == alone
    more = verdicts(EASY, [1.0, 3.0], same_rows=True, n_comparisons=100)
    assert more[0].pairs["A", "B"].low < alone.low
    with pytest.raises(InvalidInputError, match="n_comparisons must be a whole number >= 4"):
        verdicts(EASY, [1.0, 3.0], same_rows=True, n_comparisons=3)


def test_design_reaches_the_pairs():
    found = verdicts(EASY, [3.0], same_rows=False, test_share=0.25, level=0.9)[0].pairs["A", "B"]
    want = paired_difference(
        EASY["A"][3.0], EASY["B"][3.0], same_rows=False, test_share=0.25, level=0.9, n_comparisons=3
    )
    assert found == want
    persons = np.arange(N) // 4
    grouped = verdicts(EASY, [3.0], same_rows=True, groups=persons)[0].pairs["A", "B"]
    assert grouped == paired_difference(EASY["A"][3.0], EASY["B"][3.0], same_rows=True, groups=persons, n_comparisons=3)


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict", "best"),
    [
        ((360, 200), (250, 240), "ahead", (360, 250)),
        ((250, 240), (360, 200), "behind", (250, 360)),
        ((362, 200), (360, 200), "undecided", (362, 360)),
        ((300,), (302, 200, 100), "undecided", (300, 302)),
        # Ahead of the second but not of the best: not ahead.
        ((360,), (359, 100), "undecided", (360, 359)),
    ],
)
def test_a_side_is_ahead_when_one_of_it_is_ahead_of_all(ours, theirs, verdict, best):
    table = {f"ours {n}": {1.0: rights(n)} for n in ours} | {f"theirs {n}": {1.0: rights(n)} for n in theirs}
    names = [[name for name in table if name.startswith(side)] for side in ("ours", "theirs")]
    (found,) = side_verdicts(table, [1.0], ours=names[0], theirs=names[1], same_rows=True)
    assert (found.verdict, found.n_comparisons) == (verdict, len(ours) * len(theirs))
    assert found.not_behind == (verdict != "behind")
    assert (found.ours, found.theirs) == (f"ours {best[0]}", f"theirs {best[1]}")
    assert found.difference is found.pairs[found.deciding]
    assert found.difference.verdict == verdict
    (other,) = side_verdicts(table, [1.0], ours=names[1], theirs=names[0], same_rows=True)
    assert other.verdict == {"ahead": "behind", "behind": "ahead", "undecided": "undecided"}[verdict]


def wobbling(n_right, by):
    """Rights of so many rows on average, and so many more or fewer in a repeat."""
    return [np.arange(N) < n_right + step for step in (0, by, -by, by, -by)]


def message(table, **options):
    names = [[name for name in table if name.startswith(side)] for side in "pd"]
    return side_verdicts(table, [1.0], ours=names[0], theirs=names[1], same_rows=True, **options)[0]


def test_a_verdict_names_the_pair_it_stands_on():
    """The best mean wobbles and differs from none surely: the second, steady one decides, and it is shown."""
    table = {"p1": rights(330), "p2": wobbling(335, 60), "p3": rights(200)}
    table |= {"d1": rights(250), "d2": rights(240), "d3": wobbling(180, 3)}
    table = {name: {1.0: of} for name, of in table.items()}
    found = message(table)
    assert (found.ours, found.theirs, found.verdict, found.deciding) == ("p2", "d1", "ahead", ("p1", "d1"))
    assert found.pairs["p2", "d1"].verdict == "undecided"
    assert found.difference.low > 0
    mirrored = {name.translate(str.maketrans("pd", "dp")): of for name, of in table.items()}
    found = message(mirrored)
    assert (found.ours, found.theirs, found.verdict, found.deciding) == ("p1", "d2", "behind", ("p1", "d1"))
    assert found.difference.high < 0


def test_undecided_shows_the_pair_that_prevents_a_verdict():
    """The best is sure of the best of the others, and not of one that wobbles."""
    table = {"p1": rights(330), "p2": rights(200), "p3": rights(190)}
    table |= {"d1": rights(300), "d2": wobbling(290, 60), "d3": rights(100)}
    found = message({name: {1.0: of} for name, of in table.items()})
    assert (found.ours, found.theirs, found.verdict, found.deciding) == ("p1", "d1", "undecided", ("p1", "d2"))
    assert found.pairs["p1", "d1"].verdict == "ahead"
    assert found.difference.low < 0 < found.difference.high


@pytest.mark.parametrize("n_repeats", [1, 4])
def test_whatever_is_said_of_sides_its_pair_says_too(n_repeats):
    rng, seen = np.random.default_rng(5), set()
    for _ in range(60):
        table = {}
        for name in ("p1", "p2", "p3", "d1", "d2", "d3"):
            level, by = rng.integers(150, 380), rng.choice([2, 15, 40])
            table[name] = {1.0: [np.arange(N) < level + round(by * rng.standard_normal()) for _ in range(n_repeats)]}
        found = message(table)
        assert found.difference.verdict == found.verdict
        assert found.difference is found.pairs[found.deciding]
        words = [{pair.verdict for (a, _), pair in found.pairs.items() if a == name} for name in ("p1", "p2", "p3")]
        assert (found.verdict == "ahead") == ({"ahead"} in words)
        seen.add(found.verdict)
    assert seen == ({"undecided"} if n_repeats == 1 else {"ahead", "behind", "undecided"})


def test_sides_meet_only_where_both_are():
    found = side_verdicts(EASY, [1.0, 3.0], ours=["A", "B"], theirs=["C"], same_rows=True)
    assert [(v.epsilon, v.n_comparisons) for v in found] == [(3.0, 2)]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"ours": ["a"]}, "ours must list contestants"),
        ({"ours": ["records"], "theirs": ["recods"]}, "Did you mean 'records'"),
        ({"theirs": []}, "theirs must list contestants"),
        ({"theirs": "B"}, "theirs must list contestants"),
        ({"theirs": ["A"]}, "no name in common"),
        ({"epsilons": [1.0, 1.0]}, "listed once each"),
        ({"epsilons": [0.0]}, "epsilon must be a finite number > 0"),
        ({"epsilons": [8.0]}, "none of the epsilons"),
    ],
)
def test_bad_sides_are_refused(changed, message):
    table = {**EASY, "records": EASY["A"]}
    said = {"epsilons": [1.0], "ours": ["A"], "theirs": ["B"], **changed}
    with pytest.raises(InvalidInputError, match=message):
        side_verdicts(table, said.pop("epsilons"), same_rows=True, **said)


@pytest.mark.parametrize("table", [{}, {"A": rights(300)}, [rights(300)]])
def test_bad_rights_are_refused(table):
    with pytest.raises(InvalidInputError, match="rights must map"):
        verdicts(table, [1.0], same_rows=True)


def test_contestants_that_do_not_meet_are_named():
    with pytest.raises(InvalidInputError, match="A and B must have the same repeats"):
        verdicts({"A": {1.0: rights(300)}, "B": {1.0: rights(200, 4)}}, [1.0], same_rows=True)


def made(mean, half, n_comparisons=9):
    ends = (None, None) if half is None else (mean - half, mean + half)
    return PairedDifference(mean=mean, low=ends[0], high=ends[1], n_repeats=5, n_rows=100.0, level=0.95,
                            n_comparisons=n_comparisons,
                            se_repeats=0.01, se_rows=0.01, df=4, repeats_needed=5)  # fmt: skip


def test_a_crossover_point_is_found_on_the_logarithm():
    found = crossover_points([0.1, 1.0, 10.0], [made(0.2, 0.1), made(0.0, 0.1), made(-0.2, 0.1)])
    (one,) = found.where
    assert one.at == pytest.approx((1.0,))
    assert (one.low, one.high) == pytest.approx((10**-0.5, 10**0.5))
    assert (one.before, one.after, one.sure) == ("ahead", "behind", True)
    assert found.sure == found.where
    assert found.says("PATE", "DP-SGD") == ("PATE is ahead below epsilon 1, DP-SGD above (95% interval 0.32 to 3.2).")


def test_curves_that_do_not_cross():
    found = crossover_points([0.1, 1.0], [made(0.2, 0.1), made(0.3, 0.1)])
    assert found.where == ()
    assert found.says("a", "b") == "a is ahead at all compared epsilons (epsilon 0.1 to 1)."
    found = crossover_points([0.1, 1.0], [made(-0.2, 0.1), made(-0.3, 0.1)])
    assert found.says("a", "b") == "b is ahead at all compared epsilons (epsilon 0.1 to 1)."


def test_undecided_stretches_are_not_called_crossover_points():
    everywhere = crossover_points([0.1, 1.0], [made(0.05, 0.1), made(-0.05, 0.1)])
    assert everywhere.where == (CrossoverPoint(None, None, pytest.approx((0.1**0.5,)), None, None),)
    assert everywhere.sure == ()
    assert everywhere.says("a", "b") == "Undecided at all compared epsilons (epsilon 0.1 to 1)."
    at_the_end = crossover_points([0.1, 1.0, 10.0], [made(0.2, 0.1), made(0.2, 0.1), made(0.0, 0.1)])
    (one,) = at_the_end.where
    assert (one.high, one.before, one.after) == (None, "ahead", None)
    assert at_the_end.says("a", "b") == "a is ahead from epsilon 0.1 to 3.2; elsewhere undecided."
    in_the_middle = crossover_points([0.1, 1.0, 10.0], [made(0.0, 0.1), made(0.2, 0.1), made(0.0, 0.1)])
    assert in_the_middle.says("a", "b") == "a is ahead from epsilon 0.32 to 3.2; elsewhere undecided."
    dip = crossover_points([0.1, 1.0, 10.0], [made(0.2, 0.1), made(0.0, 0.1), made(0.2, 0.1)])
    assert [(c.before, c.after, c.sure) for c in dip.where] == [("ahead", "ahead", False)]
    assert dip.says("a", "b") == "a is ahead from epsilon 0.1 to 0.32 and from 3.2 to 10; elsewhere undecided."
    both = crossover_points([0.1, 1.0, 10.0, 100.0], [made(m, 0.1) for m in (0.2, -0.2, -0.2, 0.0)])
    assert both.says("a", "b") == (
        "a is ahead from epsilon 0.1 to 0.18, b is ahead from 0.56 to 32; elsewhere undecided. "
        "They cross at 0.32 (95% interval 0.18 to 0.56)."
    )
    assert (
        crossover_points([1.0], [made(0.2, 0.1)]).says("a", "b")
        == "a is ahead at all compared epsilons (epsilon 1 to 1)."
    )
    few = crossover_points([0.1, 1.0], [made(0.2, None), made(-0.2, None)])
    assert (few.sure, few.start) == ((), "undecided")
    assert few.says("a", "b").startswith("Undecided at all compared")


def test_true_crossover_points_lie_in_the_stretches_whenever_the_truth_lies_in_the_intervals():
    rng, n_crossed = np.random.default_rng(3), 0
    for _ in range(300):
        n = int(rng.integers(2, 6))
        x = np.sort(rng.uniform(-3, 3, n))
        truth = rng.normal(0, 0.1, n)
        halves = rng.uniform(0.005, 0.15, n)
        means = truth + rng.uniform(-1, 1, n) * halves
        found = crossover_points(np.exp(x), [made(m, h) for m, h in zip(means, halves, strict=True)])
        stretches = np.log([(one.low or 1e-9, one.high or 1e9) for one in found.where]).reshape(-1, 2)
        fine = np.linspace(x[0], x[-1], 501)[:, None]
        truly = np.flatnonzero(np.diff(np.interp(fine[:, 0], x, truth) > 0))
        n_crossed += len(truly)
        assert ((stretches[:, 0] <= fine[truly + 1]) & (fine[truly] <= stretches[:, 1])).any(axis=1).all()
        # And no wider: outside of them the band is clear of zero, inside it is not.
        low, high = (np.interp(fine[:, 0], x, means + sign * halves) for sign in (-1, 1))
        inside = ((stretches[:, 0] + 1e-6 < fine) & (fine < stretches[:, 1] - 1e-6)).any(axis=1)
        outside = ((fine < stretches[:, 0] - 1e-6) | (fine > stretches[:, 1] + 1e-6)).all(axis=1)
        holds_zero = (low <= 0) & (high >= 0)
        assert holds_zero[inside].all()
        assert not holds_zero[outside].any()
        assert all(one.at for one in found.sure)
    assert n_crossed > 100


@pytest.mark.parametrize(
    ("epsilons", "differences", "message"),
    [
        ([], [], "must ascend"),
        ([1.0, 0.1], [made(0, 1), made(0, 1)], "must ascend"),
        ([1.0, 1.0], [made(0, 1), made(0, 1)], "must ascend"),
        ([1.0, 2.0], [made(0, 1)], "one difference for each"),
        ([0.0], [made(0, 1)], "epsilon must be a finite number > 0"),
        ([1.0, 2.0], [made(0, 1), made(0, 1, n_comparisons=1)], "n_comparisons >= 2"),
    ],
)
def test_bad_curves_are_refused(epsilons, differences, message):
    with pytest.raises(InvalidInputError, match=message):
        crossover_points(epsilons, differences)


def test_several_crossover_points_are_given_in_order():
    found = crossover_points([0.1, 1.0, 10.0], [made(0.2, 0.05), made(-0.2, 0.05), made(0.2, 0.05)])
    assert len(found.sure) == 2
    assert isinstance(found, CrossoverPoints)
    assert found.says("a", "b") == (
        "a is ahead from epsilon 0.1 to 0.24 and from 4.2 to 10, b is ahead from 0.42 to 2.4; elsewhere undecided. "
        "They cross at 0.32 (95% interval 0.24 to 0.42) and 3.2 (95% interval 2.4 to 4.2)."
    )


def test_the_former_name_of_crossover_points_warns():
    with pytest.warns(DeprecationWarning, match="crossover_points"):
        assert crossing([1.0], [made(0.2, 0.1)]) == crossover_points([1.0], [made(0.2, 0.1)])
