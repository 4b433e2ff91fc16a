"""Comparisons of a numeric target: R2 by row, its verdicts, runs that resume, the page, and what is refused."""

import json
import os
from dataclasses import replace
from importlib import resources
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from comparison_samples import comparison
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score

from pate import DPSGDClassifier, PATERegressor
from pate.comparison._report import ComparisonReport
from pate.comparison.contestants import NAMES, default_contestants, named
from pate.comparison.contract import Contestant
from pate.comparison.run import compare, compare_on
from pate.comparison.statistics import band, paired_difference, r2_by_row
from pate.data import Dataset, load_dataset
from pate.data._named.dataset import HeldOutRows, PrivateRows, PublicRows
from pate.exceptions import InvalidInputError, RunFolderError
from pate.privacy.budget import Budget
from pate.report.plots import comparison_curves
from pate.report.scores import R2

BUDGETS = [Budget(1.0, 1e-3), Budget(4.0, 1e-3)]
SCHEMA = resources.files("pate") / "_templates" / "comparison.schema.json"


class Blurred(RegressorMixin, BaseEstimator):
    """A ridge of rows blurred by 1 / epsilon, with no guarantee; it counts its fits."""

    fits = 0

    def __init__(self, blur=1.0, budget=None, random_state=None):
        self.blur = blur
        self.budget = budget
        self.random_state = random_state

    def fit(self, X, y):
        type(self).fits += 1
        rng = np.random.default_rng(self.random_state)
        self.model_ = Ridge(1e-3).fit(X + self.blur / self.budget.epsilon * X.std() * rng.normal(size=X.shape), y)
        return self

    def predict(self, X):
        return self.model_.predict(X)


class Astray(Blurred):
    def predict(self, X):
        return np.full(len(X), np.nan)


def diabetes(**more):
    """scikit-learn's 442 patients: how far the disease went in a year, from 25 to 346."""
    X, y = load_diabetes(return_X_y=True)
    parts = {"private": PrivateRows(X[:250], y[:250]), "public": PublicRows(X[250:330], y[250:330]),
             "test": HeldOutRows(X[330:], y[330:])}  # fmt: skip
    made = {"name": "diabetes", "protocol": "own", "kind": "table", "classes": (), "image_shape": None,
            "description": "442 patients.", "target_range": (0, 400)}  # fmt: skip
    return Dataset(**{**made, **parts, **more}).pooled()


CLEAR, HAZY = Blurred(0.1), Blurred(2.0)


# R2 by row ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_the_mean_over_rows_is_r2_and_their_variance_is_its_error(seed):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=800) * rng.uniform(0.1, 50) + 7
    said = 0.7 * y + rng.standard_t(6, 800) * y.std() * rng.uniform(0.1, 2)
    by_row = r2_by_row(y, said)
    assert by_row.mean() == pytest.approx(r2_score(y, said), abs=1e-10)
    assert np.allclose(r2_by_row(1000 * y - 5, 1000 * said - 5), by_row)  # the unit says nothing
    places = (rng.integers(0, 800, 800) for _ in range(400))
    drawn = np.std([1 - np.square(y[i] - said[i]).mean() / y[i].var() for i in places])
    assert by_row.std() / np.sqrt(800) == pytest.approx(drawn, rel=0.2)


def fits_of(rng, rows, wrong):
    """A contestant's fits: four fifths of its error on a row are its own in every repeat that has that row."""
    own = {id(y): rng.standard_t(5, len(y)) for y in rows}
    drift = (wrong * (1 + 0.02 * rng.normal()) for _ in rows)
    return [
        r2_by_row(y, y + d * (0.8 * own[id(y)] + 0.6 * rng.standard_t(5, len(y))))
        for y, d in zip(rows, drift, strict=True)
    ]


@pytest.mark.long
def test_equal_contestants_are_seldom_told_apart_and_a_gap_is_found():
    """Level and power over made-up comparisons, on published rows and on redrawn ones."""
    rng = np.random.default_rng(1)
    found = {"equal": [], "apart": []}
    for turn in range(400):
        same = turn % 4 < 3
        y = rng.normal(size=400)
        rows = [y if same else rng.normal(size=400) for _ in range((3, 5, 10, 5)[turn % 4])]
        how = {"same_rows": same, "test_share": None if same else 0.2, "score": R2}
        for name, other in (("equal", 0.5), ("apart", 0.65)):
            one, two = (fits_of(rng, rows, wrong) for wrong in (0.5, other))
            found[name].append(paired_difference(one, two, **how).verdict)
    assert 400 - found["equal"].count("undecided") <= 28  # 5% of 400, and two standard deviations
    assert found["apart"].count("ahead") > 320
    assert "behind" not in found["apart"]


def test_differences_of_r2_are_not_cut_off_and_the_same_ones_are_undecided():
    y = np.linspace(0, 1, 50)
    bad = [r2_by_row(y, y + 10 + 0.1 * r) for r in range(3)]
    good = [r2_by_row(y, y + 0.01 * np.cos(9 * y + r)) for r in range(3)]
    found = paired_difference(good, bad, same_rows=True, score=R2)
    assert found.mean > 900
    assert found.verdict == "ahead"
    assert str(found).startswith(f"+{found.mean:.3f} (")
    assert band(bad, same_rows=True, score=R2).low < -900
    assert band(good, same_rows=True, score=R2).high <= 1
    same = paired_difference(good, good, same_rows=True, score=R2)
    assert (same.mean, same.verdict, same.repeats_needed) == (0, "undecided", None)


@pytest.mark.parametrize(
    ("values", "score", "text"),
    [
        ([np.ones(5) > 0] * 3, {"score": R2}, "one float array"),
        ([np.ones(5)] * 3, {}, "one boolean array"),
        ([np.array([1.0, np.nan])] * 3, {"score": R2}, "finite numbers"),
    ],
)
def test_rows_of_another_score_are_refused(values, score, text):
    with pytest.raises(InvalidInputError, match=text):
        paired_difference(values, values, same_rows=True, **score)


# A comparison ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers") / "out"
    entrants = {"clear": CLEAR, "hazy": HAZY}
    return compare(entrants, diabetes(), budgets=BUDGETS, n_repeats=3, out=folder), folder


@pytest.mark.long
def test_rows_have_r2_and_the_mean_absolute_error(made):
    report, _ = made
    data = diabetes()
    for row in report.rows():
        assert row["accuracy"] is None
        drawn = data.redrawn(row["seed"])
        model = Blurred(0.1 if row["contestant"] == "clear" else 2.0, Budget(row["epsilon"], 1e-3), row["seed"])
        said = model.fit(drawn.private.X, drawn.private.y).predict(drawn.test.X)
        assert row["r2"] == pytest.approx(r2_score(drawn.test.y, said))
        assert row["mean_absolute_error"] == pytest.approx(np.abs(drawn.test.y - said).mean())
    assert {"r2", "mean_absolute_error"} <= set(report.to_frame().columns)
    mean = [s["mean"] for s in report.summary()]
    assert mean[0] > mean[2] + 0.1  # clear, hazy at epsilon 1
    assert report.summary()[0]["mean_absolute_error"] > 30
    (first, _) = report.verdicts()
    assert (first.first, first.second, first.verdict) == ("clear", "hazy", "ahead")
    assert first.difference == pytest.approx(mean[0] - mean[2], abs=1e-6)


@pytest.mark.long
def test_it_resumes_without_a_fit_and_loads_with_the_same_verdicts(made):
    report, folder = made
    before = Blurred.fits
    again = compare({"clear": CLEAR, "hazy": HAZY}, diabetes(), budgets=BUDGETS, n_repeats=3, out=folder)
    assert Blurred.fits == before
    assert again.cells == report.cells
    loaded = ComparisonReport.load(folder)
    assert loaded.score == "R2"
    assert loaded.verdicts() == report.verdicts()
    assert all(cell.right is None and len(cell.rights()) == 112 for cell in loaded.cells)
    assert all(cell.rights().mean() == pytest.approx(cell.r2, abs=1e-6) for cell in loaded.cells)
    with pytest.raises(RunFolderError, match="data set"):
        compare(
            {"clear": CLEAR, "hazy": HAZY}, diabetes(target_range=(0, 500)), budgets=BUDGETS, n_repeats=3, out=folder
        )


@pytest.mark.long
@pytest.mark.sample
def test_the_page_speaks_of_r2_alone(made):
    _, folder = made
    stored = json.loads((folder / "results.json").read_text())
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(stored)
    assert stored["score"] == "R2"
    names = {path.name for path in folder.iterdir()}
    assert {"r2.svg", "r2.png", "report.html"} <= names
    assert "accuracy.svg" not in names
    for name in ("report.html", "report.md"):
        text = (folder / name).read_text(encoding="utf-8")
        for said in ("R2 against epsilon", "Beyond R2", "Mean absolute error", "delta method", "target range"):
            assert said in text, said
        body = text.partition("<body")[2] or text
        for other in ("ccuracy", " points", "McNemar", "orst class", "alibration"):
            assert other not in body, other
    assert str(made[0]).startswith("R2 on the test rows of diabetes at delta = 0.001")


def test_persons_with_several_test_rows_count_together():
    data = diabetes()
    owners = np.arange(len(data.test.y)) // 4
    grouped = replace(data, test=replace(data.test, groups=owners))
    one = compare({"clear": CLEAR, "hazy": HAZY}, grouped, budgets=BUDGETS[:1], n_repeats=3)
    assert [cell.owners().tolist() for cell in one.cells[:1]] == [owners.tolist()]
    alone = compare({"clear": CLEAR, "hazy": HAZY}, replace(data), budgets=BUDGETS[:1], n_repeats=3)
    assert [cell.r2 for cell in one.cells] == pytest.approx([cell.r2 for cell in alone.cells])
    assert one.verdicts()[0].high != alone.verdicts()[0].high


def test_of_classes_nothing_of_it_is_written():
    report = comparison(2, n_repeats=2)
    text = json.dumps(report.to_dict())
    assert not {"r2", "mean_absolute_error"} & set(report.to_frame().columns)
    for absent in ('"score"', '"r2"', "mean_absolute_error", '"row_scores"'):
        assert absent not in text
        assert absent not in json.dumps([cell.to_dict() for cell in report.cells])


def test_curves_far_below_zero_stay_on_the_picture():
    points = [{"contestant": "A", "epsilon": e, "mean": m, "paired_low": m - 0.1, "paired_high": m + 0.1}
              for e, m in ((1.0, -3.0), (8.0, 0.4))]  # fmt: skip
    for floor in (None, 0.0):
        ax = comparison_curves(points, sides={"A": "other"}, lines={"mean": -0.01}, floor=floor, score=R2)
        low, high = ax.get_ylim()
        assert low <= -3 < 0.4 <= high <= 1.1
        assert "R2 on the test rows" in ax.get_ylabel()
        assert any(text.get_text() == "mean −0.010" for text in ax.texts)


def test_names_of_two_lines_that_meet_stand_on_two_sides():
    points = [{"contestant": "A", "epsilon": 3.0, "mean": 0.32, "paired_low": None, "paired_high": None}]
    ax = comparison_curves(points, sides={"A": "other"}, lines={"one": 0.405, "two": 0.406}, floor=0.0, score=R2)
    assert {text.get_ha() for text in ax.texts} == {"left", "right"}


# What is refused ------------------------------------------------------------------------------------------------


Y = load_diabetes(return_X_y=True)[1]
HOLED = np.where(np.arange(112) == 3, np.nan, Y[330:])


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"target_range": (400, 0)}, "data.target_range must have the lower number first"),
        ({"target_range": (0, np.inf)}, "two finite numbers"),
        ({"target_range": None}, "data.target_range must be .low, high."),
        ({"test": HeldOutRows(np.zeros((112, 10)), HOLED)}, "data.test.y must hold finite numbers"),
        ({"test": HeldOutRows(np.zeros((112, 10)), np.ones(112))}, "two numbers at least"),
        ({"public": PublicRows(np.zeros((112, 10)), HOLED)}, "data.public.y_for_evaluation must hold finite"),
        (
            {"private": PrivateRows(np.zeros((2, 10)), np.array(["a", "b"]))},
            "data.private.y must hold numbers, got <U1",
        ),
    ],
)
def test_targets_that_are_no_numbers_are_refused_before_a_fit(more, text):
    before = Blurred.fits
    with pytest.raises(InvalidInputError, match=text):
        compare({"clear": CLEAR}, diabetes(**more), budgets=BUDGETS)
    assert Blurred.fits == before


def test_who_predicts_the_other_is_refused_before_a_fit(tmp_path):
    classifier = DPSGDClassifier("linear", budget=BUDGETS[0], classes=(0, 1))
    before = Blurred.fits
    for entrants in ({"clear": CLEAR, "linear": classifier}, [Contestant("own", lambda setting: CLEAR)]):
        with pytest.raises(InvalidInputError, match="predicts classes, and the target is numbers"):
            compare(entrants, diabetes(), budgets=BUDGETS, out=tmp_path / "out")
    assert Blurred.fits == before
    assert not (tmp_path / "out").exists()
    with pytest.raises(InvalidInputError, match="predicts numbers, and the target is classes"):
        compare({"pate": PATERegressor(BUDGETS[0], target_range=(0, 1))}, load_dataset("digits"), budgets=BUDGETS)
    for name in set(NAMES) - {c.name for c in default_contestants("table", predicts="numbers")}:
        with pytest.raises(InvalidInputError, match=f"must predict numbers, and '{name}' does not"):
            named(["pate", name], predicts="numbers")
    with pytest.raises(InvalidInputError, match="must predict classes, and 'mean' does not"):
        named(["mean"])


def test_no_epsilon_of_numbers_depends_on_votes(tmp_path):
    with pytest.raises(InvalidInputError, match=r"analysis must be .public. of a numeric target.* no teachers vote"):
        compare({"clear": CLEAR}, diabetes(), budgets=BUDGETS, out=tmp_path / "out", analysis="data-dependent")
    with pytest.raises(InvalidInputError, match="analysis must be 'public' of a numeric target"):
        compare_on("diabetes.csv", target="age", target_range=(0, 99), epsilons=[1.0], analysis="data-dependent")
    assert not (tmp_path / "out").exists()


def test_predictions_that_are_no_numbers_name_the_fit():
    with pytest.raises(InvalidInputError, match=r"contestant 'astray' failed at epsilon=1.*finite number"):
        compare({"astray": Astray()}, diabetes(), budgets=BUDGETS[:1], n_repeats=1)


def test_groups_are_for_classes():
    with pytest.raises(InvalidInputError, match="by must be None of a numeric target"):
        compare({"clear": CLEAR}, diabetes(), budgets=BUDGETS, by="sex")


# Tables and named data sets ------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    frame = load_diabetes(as_frame=True, scaled=False).frame
    frame.to_csv(tmp_path / "diabetes.csv", index=False)
    frame.assign(bmi=frame["bmi"].where(frame.index != 3), sex="m").to_csv(tmp_path / "odd.csv", index=False)
    return tmp_path


def test_a_table_of_ones_own_is_cut_and_cut_again(table):
    path = table / "diabetes.csv"
    data = load_dataset(str(path), target="target", target_range=(0, 400), n_private=200)
    assert (data.name, data.classes, data.target_range) == ("diabetes.csv (target)", (), (0.0, 400.0))
    assert (data.redraws, data.published, data.n_pool) == ("all rows", False, 442)
    assert [len(part.X) for part in (data.private, data.public, data.test)] == [200, 53, 88]
    assert "target" not in data.test.X.columns
    other = data.redrawn(5)
    assert other.target_range == (0.0, 400.0)
    assert not np.array_equal(other.test.y, data.test.y)


@pytest.mark.parametrize(
    ("name", "target", "bounds", "text"),
    [
        ("diabetes.csv", "target", None, "target_range must be said beside target='target'"),
        ("diabetes.csv", None, (0, 9), "target must name the column of numbers"),
        ("diabetes.csv", "target", (9, 0), "target_range must have the lower number first"),
        ("diabetes.csv", "aim", (0, 9), "got 'aim', no column of it"),
        ("odd.csv", "sex", (0, 9), "got 'sex', a column of text"),
        ("odd.csv", "bmi", (0, 9), "1 of 442 have none"),
        ("none.csv", "bmi", (0, 9), "there is no file"),
        ("diabetes.csv", None, None, "dataset must be a named one"),
    ],
)
def test_a_table_that_cannot_be_compared_on_is_refused(table, name, target, bounds, text):
    call = {"contestants": ["pate"], "epsilons": [1.0], "target": target, "target_range": bounds, "out": table / "o"}
    with pytest.raises(InvalidInputError, match=text):
        compare_on(str(table / name), **call)
    assert not (table / "o").exists()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::pate.exceptions.ResultWarning")
def test_pate_beside_dpsgd_on_a_table_of_ones_own(table):
    call = {"epsilons": [20.0], "delta": 1e-3, "n_repeats": 1, "n_public": 100, "out": table / "out"}
    where = str(table / "diabetes.csv")
    report = compare_on(where, target="target", target_range=(0, 400), sensitive_report=True, **call)
    r2 = {cell.contestant: cell.r2 for cell in (*report.cells, *report.ceilings)}
    assert set(r2) == {"pate", "dpsgd", "mean", "public-labels-100", "ridge", "no-privacy"}
    assert abs(r2["mean"]) < 0.1
    assert min(r2["pate"], r2["dpsgd"], r2["public-labels-100"], r2["ridge"]) > 0.2
    assert {s.guarantee.adjacency for s in report.statements.values()} == {"replace-one"}
    assert all(s.guarantee.epsilon <= 20 for s in report.statements.values())
    assert "ridge" not in {cell.contestant for cell in report.cells}  # nobody said that the table is published
    assert "R2" in (table / "out" / "sensitive.html").read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.skipif("PATE_DATA_HOME" not in os.environ, reason="needs the files of Adult")
@pytest.mark.filterwarnings("ignore::pate.exceptions.ResultWarning")
def test_adults_age():
    if not (Path(os.environ["PATE_DATA_HOME"]) / "adult.data.gz").exists():
        pytest.skip("needs the files of Adult")
    call = {"epsilons": [3.0], "n_repeats": 1, "n_private": 4000, "n_public": 600}
    report = compare_on("adult", contestants=["pate", "dpsgd", "ridge"], target="age", target_range=(0, 100), **call)
    r2 = {cell.contestant: cell.r2 for cell in report.cells}
    assert report.dataset == "adult (age)"
    assert report.cells[0].n_test == 16_281
    assert all(0.25 < value < 0.5 for value in r2.values()), r2
