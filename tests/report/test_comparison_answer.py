"""What the page of a comparison says of who is ahead: on whom it stands, who is left out, what it does not promise."""

import re
from dataclasses import replace

import numpy as np
import pytest
from comparison_samples import SIDES, comparison
from test_report import Page

from pate import report as pages
from pate.comparison._cells import packed
from pate.release.statement.model import PrivacyStatement
from pate.report._answer import answer, looks
from pate.report._comparison import comparison_picture, view
from pate.report.result import Entrant

N = 400


def world(rows, **more):
    """A comparison at epsilon 1 from how many of the same rows each contestant has right in each repeat."""
    names = list(rows)
    made = comparison(epsilons=(1.0,), names=names, n_test=N, redraws="nothing", **more)
    sides = {name: SIDES["pdo".index(name[0])] for name in names}
    entrants = [Entrant(name=n, side=side) for n, side in sides.items()] + [Entrant(name="majority", role="floor")]

    def cell(old):
        if old.epsilon is None:
            return old
        right = np.arange(N) < rows[old.contestant][old.repeat]
        return replace(old, right=packed(right), accuracy=float(right.mean()))

    return replace(made, cells=tuple(map(cell, made.cells)), entrants=tuple(entrants))


def refused(report, name, repeat):
    def cell(old):
        if (old.contestant, old.repeat) != (name, repeat):
            return old
        return replace(old, accuracy=None, right=None, refused="too little")

    return replace(report, cells=tuple(map(cell, report.cells)))


WOBBLING = [335, 395, 275, 395, 275]
THREE = {"p1": [330] * 5, "p2": WOBBLING, "p3": [200] * 5, "d1": [250] * 5, "d2": [240] * 5, "d3": [180] * 5}


def test_the_card_shows_the_pair_on_which_the_verdict_stands():
    """The best of PATE wobbles, and is distinguished from no one; a steady one decides."""
    result = world(THREE).result()
    (found,) = result.side_verdicts
    assert (found.verdict, found.best, found.by, found.against) == ("ahead", "p2", "p1", "d1")
    assert found.low > 0
    (card,) = looks(result)
    assert card["word"] == "PATE ahead"
    assert card["by"].startswith("+20.0 points\n(+")
    assert card["whom"] == "p1 82.5%\nd1 62.5%"


def test_the_other_side_ahead_is_compared_with_its_own_contestant():
    result = world({name.translate(str.maketrans("pd", "dp")): rows for name, rows in THREE.items()}).result()
    (card,) = looks(result)
    assert card["word"] == "DP-SGD ahead"
    assert card["by"].startswith("+20.0 points\n(+")
    assert card["whom"] == "d1 82.5%\np1 62.5%"


def test_undecided_shows_an_interval_with_zero_in_it():
    rows = {**THREE, "p2": [190] * 5, "d1": [300] * 5, "d2": [r - 45 for r in WOBBLING]}
    result = world(rows).result()
    (found,) = result.side_verdicts
    assert (found.verdict, found.by, found.against) == ("undecided", "p1", "d2")
    assert found.low < 0 < found.high
    assert looks(result)[0]["whom"].startswith("p1 82.5%\nd2 ")


def test_every_pair_between_the_sides_stands_in_the_table():
    result = world(THREE).result()
    assert {(v.first, v.second) for v in result.side_pairs} == {(p, d) for p in ("p1", "p2", "p3")
                                                                 for d in ("d1", "d2", "d3")}  # fmt: skip
    lines = view(result)["verdicts"].rows
    pairs = [frozenset((line[1], line[3])) for line in lines]
    assert len(set(pairs)) == len(pairs) == 9 + 2  # and the leader against two of its own side
    assert all(line[4].startswith("+") for line in lines)  # the better mean first
    (line,) = [line for line in lines if {line[1], line[3]} == {"p3", "d1"}]
    assert line[1:4] == ("d1", "ahead of", "p3")


@pytest.mark.long
def test_who_was_refused_in_a_repeat_is_not_the_best_and_is_named():
    full = world({**THREE, "p2": [390] * 5})
    result = refused(full, "p2", 3).result()
    assert (result.side_verdicts[0].best, result.side_verdicts[0].by) == ("p1", "p1")
    assert "Left out of the verdicts: p2 at ε = 1 (refused in 1 of 5 repeats)." in answer(result)
    assert not any(text.startswith("Left out") for text in answer(full.result()))
    table = view(result)["accuracy"]
    assert ("p2", "97.5%\n4 of 5 repeats") in table.rows
    assert [table.rows[r][0] for r, _ in table.strong] == ["p1"]
    assert [view(full.result())["accuracy"].rows[r][0] for r, _ in view(full.result())["accuracy"].strong] == ["p2"]
    hollow = [line for line in comparison_picture(result).get_lines()
              if len(line.get_xdata()) and line.get_linestyle() == "None" and line.get_marker() != "D"]  # fmt: skip
    assert [line.get_ydata()[0] for line in hollow] == pytest.approx([0.975])
    text = Page(pages.render_report(result)).text
    assert "Hollow marks" in text
    assert "Hollow marks" not in Page(pages.render_report(full.result())).text


def test_sides_below_a_floor_are_reported():
    low = {"p1": [90] * 5, "d1": [60] * 5, "o1": [300] * 5}
    sentences = answer(world(low).result())
    assert re.fullmatch(
        r"At ε = 1 the means of both sides lie below majority \(2\d\.\d%\), which sees no private row\.", sentences[-1]
    )
    assert not any("below majority" in text for text in answer(world({**low, "d1": [300] * 5}).result()))
    alone = answer(world({"o1": [60] * 5, "o2": [50] * 5}).result())
    assert "At ε = 1 the means of all lie below majority" in alone[-1]


def test_only_a_published_figure_is_a_diamond():
    made = comparison(8, (1.0,), dataset="mnist", n_repeats=1, n_test=50)
    ax = comparison_picture(made.result())
    diamonds = [line for line in ax.get_lines() if line.get_marker() in ("D", "d")]
    assert diamonds
    assert all(line.get_label().startswith("_") for line in diamonds)
    ticks = ax.get_xticks()
    assert 1.0 in ticks
    assert len(ticks) > 1  # epsilons of published figures, where there is one epsilon alone
    ax = comparison_picture(comparison(2, (0.5, 2.0), dataset="mnist", n_repeats=1, n_test=50).result())
    assert list(ax.get_xticks()) == [0.5, 2.0]


def test_settings_say_what_differs_but_for_the_seed():
    made = comparison(2, (1.0,), n_test=50)

    def seeded(c):
        if c.statement is None:
            return c
        mechanism = f"GaussianSum(sigma=10, space=PCA(random_state={c.repeat}, k=4), random_state={10 + c.repeat})"
        sentences = mechanism if c.contestant == "pate-a" else f"{mechanism}; planned; {7 + c.repeat // 4} steps"
        return replace(c, settings=sentences, statement=replace(c.statement, mechanism=mechanism))

    found = dict(view(replace(made, cells=tuple(map(seeded, made.cells))).result())["settings"])
    (line,) = found["pate-a"].rows
    assert line[2:4] == ("GaussianSum(sigma=10, space=PCA(k=4))", "–")
    (line,) = found["dp-sgd-a"].rows
    assert line[3] == "planned; 7 steps / planned; 8 steps"


def test_test_rows_without_owners_are_noted_where_persons_are_protected():
    made = comparison(2, (1.0,), n_test=64)

    def per_person(c, persons):
        statement = c.statement and PrivacyStatement(**{**vars(c.statement), "unit": "group"})
        return replace(c, statement=statement, persons=persons)

    for persons, noted in ((None, True), (packed(np.arange(64) % 2 == 0), False)):
        report = replace(made, cells=tuple(per_person(c, persons) for c in made.cells))
        assert any("the intervals are too narrow" in note for note in report.notes) == noted
    assert not any("too narrow" in note for note in made.notes)
