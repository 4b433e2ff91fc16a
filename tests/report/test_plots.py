import io

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from pate.exceptions import InvalidInputError
from pate.report import plots


def row(contestant="PATE", epsilon=1.0, accuracy=0.9):
    return {"contestant": contestant, "epsilon": epsilon, "accuracy": accuracy}


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_bars_show_mean_standard_deviation_and_every_seed():
    ax = plots.accuracy_bars([row(accuracy=a) for a in (0.90, 0.92, 0.97)])
    assert [bar.get_width() for bar in ax.patches] == [pytest.approx(0.93)]
    assert texts(ax) == ["93.0% ± 3.6"]  # sample standard deviation of the three
    (dots,) = [line for line in ax.lines if line.get_marker() == "o"]
    assert sorted(dots.get_xdata()) == [0.90, 0.92, 0.97]
    assert ax.get_xlim()[0] == 0  # bars that do not start at zero lie


def test_bars_of_one_seed_claim_no_spread():
    ax = plots.accuracy_bars([row(accuracy=0.5)])
    assert texts(ax) == ["50.0%"]
    assert not ax.containers[1:]  # bars only, no whiskers


def test_bars_without_guarantee_are_grey_and_name_no_epsilon():
    ax = plots.accuracy_bars([row(), row("no privacy", None, 0.95)])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["PATE, ε = 1", "no privacy"]
    colours = [matplotlib.colors.to_hex(bar.get_facecolor()) for bar in ax.patches]
    assert colours == [plots.COLOURS["series-0"], plots.COLOURS["reference"]]


def test_one_contestant_at_two_epsilons_has_two_bars_of_one_colour():
    ax = plots.accuracy_bars([row(epsilon=1.0), row(epsilon=2.0), row("DP-SGD", 1.0)])
    colours = [bar.get_facecolor() for bar in ax.patches]
    assert colours[0] == colours[1] != colours[2]


@pytest.mark.parametrize(("epsilons", "scale"), [((1.0, 5.0), "linear"), ((1.0, 5.1), "log")])
def test_epsilon_axis_is_logarithmic_beyond_a_factor_of_five(epsilons, scale):
    assert plots.accuracy_against_epsilon([row(epsilon=e) for e in epsilons]).get_xscale() == scale


def test_lines_are_sorted_means_with_a_band_of_one_standard_deviation():
    rows = [row(epsilon=e, accuracy=a) for e, a in ((2.0, 0.8), (2.0, 1.0), (1.0, 0.5), (1.0, 0.7))]
    ax = plots.accuracy_against_epsilon([*rows, row("DP-SGD", 1.0, 0.4)])
    first, second = ax.lines
    np.testing.assert_allclose(first.get_xydata(), [[1.0, 0.6], [2.0, 0.9]])
    np.testing.assert_allclose(second.get_xydata(), [[1.0, 0.4]])
    assert first.get_marker() != second.get_marker()
    (band,) = ax.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(0.6 - np.std([0.5, 0.7], ddof=1))
    assert heights.max() == pytest.approx(0.9 + np.std([0.8, 1.0], ddof=1))


def test_cost_curves_show_what_was_spent_and_the_budget():
    ax = plots.cost_curves(
        [{"label": "A", "queries": [1, 2], "epsilon": [0.1, 0.2]}, {"label": "B", "queries": [1], "epsilon": [0.3]}],
        {"queries": 2, "epsilon": 0.2},
        budget=0.5,
    )
    assert [line.get_label() for line in ax.lines[:3]] == ["A", "B", "budget, ε = 0.5"]
    assert texts(ax) == ["this run: 2 queries, ε = 0.2"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["A", "B", "budget, ε = 0.5"]


@pytest.mark.parametrize("classes", [("no", "yes"), ("a very long class name " * 3, "another one")])
def test_answers_per_class_upright_or_lying(classes):
    ax = plots.answers_per_class([12, 3], classes)
    assert texts(ax) == ["12", "3"]
    sizes = [max(bar.get_height(), bar.get_width()) for bar in ax.patches]
    assert sizes == [12, 3]


def test_answers_per_class_stays_readable_with_many_classes():
    ax = plots.answers_per_class(range(150), range(150))
    assert ax.figure.get_size_inches()[1] < 20
    assert len(ax.patches) == 150


def test_answers_per_class_refuses_counts_that_do_not_fit():
    with pytest.raises(InvalidInputError, match="one number a class, got 2 for 3"):
        plots.answers_per_class([1, 2], "abc")


@pytest.mark.parametrize("n_teachers", [1, 10, 39, 40, 41, 250, 5000])
def test_margin_histogram_keeps_every_margin(n_teachers):
    margins = [0, n_teachers // 2, n_teachers, n_teachers]
    ax = plots.margin_histogram(margins, n_teachers)
    assert sum(bar.get_height() for bar in ax.patches) == 4
    assert len(ax.patches) <= 41


def test_margin_histogram_marks():
    ax = plots.margin_histogram([1, 2], 10, {"noise": 2.5})
    assert [line.get_label() for line in ax.lines] == ["noise: 2.5"]
    assert set(ax.lines[0].get_xdata()) == {2.5}


def test_teacher_accuracies_counts_every_teacher():
    ax = plots.teacher_accuracies([0.5, 0.7, 0.9])
    assert sum(bar.get_height() for bar in ax.patches) == 3
    assert ax.lines[0].get_label() == "mean: 70.0%"


@pytest.mark.parametrize(("sizes", "scale"), [((1, 2, 5), "linear"), ((1, 9, 1000), "log")])
def test_ensemble_curve_draws_accuracy_clear_margins_and_the_spread(sizes, scale):
    curve = {"n_teachers": sizes, "accuracy": [0.5, 0.7, 0.9], "low": [0.4, 0.6, 0.9], "high": [0.6, 0.8, 0.9]}
    ax = plots.ensemble_curve({**curve, "clear": [0.0, 0.2, 0.4]})
    right, clear = ax.lines
    np.testing.assert_allclose(right.get_xydata(), list(zip(sizes, curve["accuracy"], strict=True)))
    np.testing.assert_allclose(clear.get_ydata(), [0.0, 0.2, 0.4])
    assert right.get_marker() != clear.get_marker()
    (band,) = ax.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (0.4, 0.9)
    assert ax.get_xscale() == scale
    assert ax.get_ylim()[0] == 0
    assert len(plots.ensemble_curve({**curve, "clear": None}).lines) == 1


@pytest.mark.parametrize("n", [1, 12, 13])
def test_ensemble_curve_names_the_first_and_the_last_size(n):
    sizes = [2**i for i in range(n)]
    ax = plots.ensemble_curve({"n_teachers": sizes, "accuracy": [0.5] * n, "low": [0.4] * n, "high": [0.6] * n})
    ticks = [int(t) for t in ax.get_xticks()]
    assert (ticks[0], ticks[-1]) == (sizes[0], sizes[-1])
    assert len(set(ticks)) == len(ticks) <= 8


def test_nothing_to_draw_is_an_error():
    for draw in (plots.accuracy_bars, plots.accuracy_against_epsilon, plots.cost_curves, plots.teacher_accuracies):
        with pytest.raises(InvalidInputError, match="must not be empty"):
            draw([])


def test_draws_on_the_axes_given():
    ax = Figure().add_subplot()
    assert plots.accuracy_bars([row()], ax=ax) is ax
    assert isinstance(plots.accuracy_bars([row()]).figure, Figure)


def test_svg_is_the_same_every_time_and_changes_nothing_global():
    before = dict(matplotlib.rcParams)
    rows = [row(epsilon=e, accuracy=a) for e in (1, 2) for a in (0.8, 0.9)]
    first, second = (plots.figure_to_svg(plots.accuracy_against_epsilon(rows)) for _ in range(2))
    assert first == second
    assert dict(matplotlib.rcParams) == before
    assert "<dc:date>" not in first


def test_names_are_text_never_formulas_or_markup():
    names = ["$5-$10", "<b>&\"'", "年齢", "_hidden"]
    svg = plots.figure_to_svg(plots.answers_per_class([1, 2, 3, 4], names))
    for shown in ("$5-$10", "&lt;b&gt;&amp;", "年齢", "_hidden"):
        assert shown in svg
    assert "<b>" not in svg
    curve = {"label": "$a$ <i>", "queries": [1, 2], "epsilon": [0.1, 0.2]}
    assert "$a$ &lt;i&gt;" in plots.figure_to_svg(plots.cost_curves([curve]))


def test_png_is_a_picture():
    picture = imread(io.BytesIO(plots.figure_to_png(plots.accuracy_bars([row()]), dpi=50)))
    assert picture.shape[1] == pytest.approx(50 * 6.8, abs=1)
    assert picture[..., :3].std() > 0.01  # not blank


def test_subfigure_axes_are_saved_with_their_figure():
    ax = Figure().subfigures(1, 2)[0].add_subplot()
    assert "<svg" in plots.figure_to_svg(plots.accuracy_bars([row()], ax=ax))


@pytest.mark.parametrize("means", [(0.0, 1.0), (1.0, 1.0), (0.0, 0.0), (0.5, 0.5)])
def test_a_comparison_of_extremes_can_be_drawn(means):
    """None and all right: both are infinitely far on a stretched axis."""
    bands = [
        {"contestant": name, "epsilon": e, "mean": mean, "paired_low": mean - 0.1, "paired_high": mean + 0.1}
        for name, mean in zip("AB", means, strict=True)
        for e in (0.1, 1.0)
    ]
    ax = plots.comparison_curves(bands, sides={"A": "PATE", "B": "other"}, lines={"floor": 0.0, "ceiling": 1.0})
    assert plots.figure_to_svg(ax).count("<svg ") == 1
    low, high = ax.get_ylim()
    assert low < high
    assert [line.get_label() for line in ax.get_lines()][:2] == ["A", "B"]


def test_many_contestants_keep_colours_by_side_and_differ_in_marks():
    sides = {f"c{i}": ("PATE", "DP-SGD", "other")[i % 3] for i in range(9)}
    styles = plots.styles(sides)
    assert len(set(styles.values())) == 9
    hues = [{styles[name][0] for name in sides if sides[name] == side} for side in ("PATE", "DP-SGD", "other")]
    assert not hues[0] & hues[1]
    bands = [{"contestant": n, "epsilon": 1.0, "mean": 0.9, "paired_low": None, "paired_high": None} for n in sides]
    bands += [{**band, "epsilon": 2.0} for band in bands]
    ax = plots.comparison_curves(bands, sides=sides, stretches=[{"low": None, "high": 1.5, "at": [1.2]}])
    figure = ax.figure
    figure.canvas.draw()
    box = ax.get_legend().get_window_extent()
    assert box.x1 <= figure.bbox.x1  # no legend runs out of the picture


def squares(ax, role):
    """Sides of the squares of one colour."""
    (found,) = [
        c
        for c in ax.collections
        if c.get_paths() and plots.COLOURS[role] in map(matplotlib.colors.to_hex, c.get_facecolor())
    ]
    return [path.vertices[:, 0].max() - path.vertices[:, 0].min() for path in found.get_paths()]


def test_panels_draw_numbers_as_areas_and_signs_as_colours():
    ax = plots.viewer_panels([{"title": "a", "note": "b", "values": [[4.0, -1.0], [0.0, 2.0]]}], ["x", "y"])
    assert squares(ax, "series-0") == pytest.approx([0.96, 0.96 / 2**0.5])
    assert squares(ax, "series-1") == pytest.approx([0.48])
    assert texts(ax) == ["a", "b", "largest: 4", "x", "y"]


def test_panels_stand_beside_each_other_and_two_by_two_on_a_phone():
    panels = [{"title": str(i), "note": "", "values": [[i, 1]] * 3} for i in range(4)]
    wide = plots.viewer_panels(panels, "ab")
    narrow = plots.viewer_panels(panels, "ab", ax=plots.narrow_axes(wide))
    tops = {ax: {text.get_position()[1] for text in ax.texts if text.get_text() in {*"0123"}} for ax in (wide, narrow)}
    assert [len(tops[ax]) for ax in (wide, narrow)] == [1, 2]
    assert narrow.figure.get_figheight() > wide.figure.get_figheight()


def test_panels_refuse_rows_that_do_not_fit_and_draw_zeros():
    with pytest.raises(InvalidInputError, match="a number for each of the 2 columns"):
        plots.viewer_panels([{"title": "", "note": "", "values": [[1, 2], [3]]}], "ab")
    ax = plots.viewer_panels([{"title": "", "note": "", "values": [[0, 0]]}], "ab")
    assert all(not c.get_paths() for c in ax.collections[:2])
