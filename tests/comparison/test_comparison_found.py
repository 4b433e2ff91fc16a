"""Verdicts computed from the fits' right test rows, and the files."""

import json
from dataclasses import replace

import pytest
from comparison_samples import comparison

from pate.comparison import statistics
from pate.comparison._cells import packed
from pate.comparison._found import find
from pate.comparison._report import ComparisonReport
from pate.exceptions import InvalidInputError, RunFolderError


def rights(report, name, epsilon):
    cells = [c for c in report.cells if (c.contestant, c.epsilon) == (name, epsilon)]
    return [cell.rights() for cell in sorted(cells, key=lambda c: c.repeat)]


@pytest.mark.parametrize("redraws", ["all rows", "training rows", "nothing"])
def test_verdicts_are_those_of_the_statistics(redraws):
    """The paired difference of the very bits, corrected for every pair between the sides at every epsilon."""
    made = comparison(3, (0.5, 2.0), redraws=redraws)
    drawn = {"same_rows": False, "test_share": 0.2} if redraws == "all rows" else {"same_rows": True}
    for v in made.side_verdicts():
        expected = statistics.paired_difference(
            rights(made, v.best, v.epsilon), rights(made, v.best_other, v.epsilon), n_comparisons=3, **drawn
        )
        assert (v.difference, v.low, v.high) == (expected.mean, expected.low, expected.high)
    rule = made.result().rule
    assert (rule.n_between, rule.n_others) == (2, 4)
    assert (rule.same_rows, rule.test_share) == (redraws != "all rows", 0.2 if redraws == "all rows" else None)
    third = [v for v in made.verdicts() if "other-a" in (v.first, v.second)]
    assert third
    for v in third:
        expected = statistics.paired_difference(
            rights(made, v.first, v.epsilon), rights(made, v.second, v.epsilon), n_comparisons=20, **drawn
        )
        assert (v.difference, v.low, v.high) == (expected.mean, expected.low, expected.high)


def test_all_that_is_said_holds_together():
    """At 3 comparisons each of the 2 pairs between the sides may be wrong with .05 / 3, at 20 each of the 4 others."""
    made = comparison(3, (0.5, 2.0))
    rule = made.result().rule
    assert (rule.n_between / 3 + rule.n_others / 20) * (1 - rule.level) <= 0.05
    two = comparison(2, (0.5, 2.0))
    v = two.side_verdicts()[0]
    expected = statistics.paired_difference(
        rights(two, v.best, v.epsilon),
        rights(two, v.best_other, v.epsilon),
        n_comparisons=2,
        same_rows=False,
        test_share=0.2,
    )
    assert (v.low, v.high) == (expected.low, expected.high)  # nothing else is said, so nothing is set aside


@pytest.mark.long
def test_a_pair_is_spoken_of_once():
    """A pair between the sides has one interval on the page, whichever of the two leads."""
    made = comparison(4, (0.1, 0.3, 1.0, 3.0, 8.0))
    sides = {(v.epsilon, frozenset((v.best, v.best_other))): v for v in made.side_verdicts()}
    shared = [(v, sides[key]) for v in made.verdicts() if (key := (v.epsilon, frozenset((v.first, v.second)))) in sides]
    assert shared
    for one, other in shared:
        assert abs(one.high - one.low) == pytest.approx(abs(other.high - other.low))


@pytest.mark.long
def test_bands_that_are_apart_are_contestants_that_are_apart():
    made = comparison(4, (0.3, 3.0, 8.0), n_test=4000)
    bands = {(b.contestant, b.epsilon): b for b in made.result().bands}
    apart, without = 0, 0
    for v in made.verdicts():
        first, second = bands[v.first, v.epsilon], bands[v.second, v.epsilon]
        if second.paired_high is None:  # too far below to be drawn beside the best
            assert v.difference > 0.15
            without += 1
        elif first.paired_low > second.paired_high:
            apart += 1
            assert v.verdict == "ahead"
    assert apart >= 2
    assert without >= 2


def test_one_who_was_refused_in_a_repeat_takes_no_part_there():
    made = comparison(3, (0.5, 2.0))
    first = next(c for c in made.cells if (c.contestant, c.epsilon, c.repeat) == ("pate-a", 0.5, 1))
    gone = replace(first, accuracy=None, refused="too little", right=None)
    found = replace(made, cells=tuple(gone if c is first else c for c in made.cells))
    assert {v.epsilon for v in found.side_verdicts()} == {2.0}
    assert not any("pate-a" in (v.first, v.second) for v in found.verdicts() if v.epsilon == 0.5)
    band = next(b for b in found.result().bands if (b.contestant, b.epsilon) == ("pate-a", 0.5))
    assert (band.n_repeats, band.low) == (4, None)


def test_without_the_bits_nothing_is_said_but_means():
    made = comparison(3, (0.5, 2.0))
    blind = replace(made, cells=tuple(replace(c, right=None) for c in made.cells))
    assert blind.verdicts() == blind.side_verdicts() == blind.crossover_points() == ()
    assert blind.result().rule is None
    assert [b.mean for b in blind.result().bands] == pytest.approx([b.mean for b in made.result().bands])
    # Test rows are drawn from who knows how many.
    assert find(made.cells, {}, redraws="all rows", n_pool=None).rule is None


def test_equal_answers_stay_undecided():
    made = comparison(3, (0.5, 2.0))
    copies = {(c.epsilon, c.repeat): c.rights() for c in made.cells if c.contestant == "pate-a"}
    cells = tuple(
        replace(c, right=packed(copies[c.epsilon, c.repeat]), accuracy=float(copies[c.epsilon, c.repeat].mean()))
        if c.epsilon
        else c
        for c in made.cells
    )
    assert {v.verdict for v in replace(made, cells=cells).side_verdicts()} == {"undecided"}
    assert {v.verdict for v in replace(made, cells=cells).verdicts()} == {"undecided"}


def test_curves_cross_where_they_were_made_to():
    found = comparison(3, (0.1, 4.0, 12.0, 18.0, 200.0), n_test=3000)
    with pytest.warns(DeprecationWarning, match="crossover_points"):
        assert found.crossings() == found.crossover_points()
    (crossing,) = found.crossover_points()
    assert (crossing.first, crossing.second) == ("pate-a", "dp-sgd-a")
    ours = {v.epsilon: v for v in found.side_verdicts()}
    assert ours[0.1].verdict == "ahead"
    assert ours[200.0].verdict == "behind"
    (sure,) = [s for s in crossing.stretches if s.sure]
    # 0.15 + 0.78 e / (e + 0.05) = 0.15 + 0.83 e / (e + 1) at e = 14.8.
    assert sure.low < 14.8 < sure.high
    pairs = [v.difference for v in found.side_verdicts()]
    assert pairs == sorted(pairs, reverse=True)


@pytest.mark.long
def test_it_is_read_back_from_its_folder(tmp_path):
    made = comparison(3, (0.5, 2.0), refuse=True)
    folder = made.save(tmp_path / "out", command="pate compare")
    assert {p.name for p in folder.iterdir()} == {
        "accuracy.png", "accuracy.svg", "cells.jsonl", "report.html", "report.md", "results.json",
    }  # fmt: skip
    back = ComparisonReport.load(folder)
    assert back.to_dict(command="pate compare") == made.to_dict(command="pate compare")
    assert back.verdicts() == made.verdicts()
    assert back.ceilings == ()
    before = (folder / "cells.jsonl").read_bytes()
    back.save(folder)
    assert (folder / "cells.jsonl").read_bytes() == before
    assert (folder / "accuracy.png").read_bytes()[:4] == b"\x89PNG"
    assert "<svg" in (folder / "accuracy.svg").read_text(encoding="utf-8")


@pytest.mark.long
def test_a_folder_whose_fits_do_not_fit_is_refused(tmp_path):
    folder = comparison(3, (0.5, 2.0)).save(tmp_path / "out")
    lines = (folder / "cells.jsonl").read_text().splitlines()
    cell = json.loads(lines[0])
    (folder / "cells.jsonl").write_text("\n".join([json.dumps({**cell, "accuracy": 0.99}), *lines[1:]]))
    with pytest.raises(RunFolderError, match="does not have the fits"):
        ComparisonReport.load(folder)
    (folder / "cells.jsonl").write_text("\n".join(lines[1:]))
    with pytest.raises(RunFolderError, match="does not have the fits"):
        ComparisonReport.load(folder)
    (folder / "cells.jsonl").unlink()
    with pytest.raises(RunFolderError, match="no finished comparison"):
        ComparisonReport.load(folder)


def test_a_notebook_shows_who_is_ahead():
    made = comparison(3, (0.5, 2.0))
    shown = made._repr_html_()
    assert "PATE ahead" in shown
    assert "PATE is ahead of DP-SGD at" in shown
    assert "98." not in shown.split("</table>")[0].split("<tbody>")[0]
    assert repr(made).splitlines()[-2].startswith("PATE is ahead of DP-SGD at ε = 0.5 and 2")


def test_the_picture_takes_axes_and_needs_a_curve():
    made = comparison(3, (0.5, 2.0), dataset="mnist")
    shown = made.plot()
    assert shown.ax_.get_xscale() == "log"
    names = [line.get_label() for line in shown.ax_.get_lines()]
    assert {"pate-a", "dp-sgd-a", "other-a"} <= set(names)
    assert {"B", "C"} <= {text.get_text() for text in shown.ax_.texts}
    assert any(text.get_text().startswith("majority") for text in shown.ax_.texts)
    assert made.plot(ax=shown.ax_).ax_ is shown.ax_
    floors = tuple(c for c in made.cells if c.epsilon is None)
    with pytest.raises(InvalidInputError, match="no curve to draw"):
        replace(made, cells=floors).plot()


def test_summary_has_intervals_and_measures():
    made = comparison(3, (0.5, 2.0))
    row = next(s for s in made.summary() if s["contestant"] == "pate-a" and s["epsilon"] == 0.5)
    assert row["low"] < row["mean"] < row["high"]
    assert row["n"] == 5
    assert 0 < row["worst_class_accuracy"] <= row["balanced_accuracy"] <= 1
    assert row["calibration_error"] == pytest.approx(0.03)
    assert row["answers"] == 160
    assert {s["role"] for s in made.summary()} == {"private", "floor", "ceiling"}
