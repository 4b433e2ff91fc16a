"""What is measured of a fit: by class, by group, calibration, answers, the line of settings, time and memory."""

import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from contestants_at_play import small_data
from sklearn.metrics import balanced_accuracy_score, recall_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from pate import Budget, DPSGDClassifier, GNMax, PATEClassifier, Queries, load_dataset
from pate._core.progress import listening, timed
from pate.comparison._cells import Cell
from pate.comparison._fit import (
    _bits,
    asked_of,
    calibration_error,
    check_column,
    indices_of,
    peak_mib,
    scores,
    settings_of,
)
from pate.comparison._found import find
from pate.data import Dataset, HeldOutRows, PrivateRows, PublicRows
from pate.exceptions import DatasetNotFoundError, InvalidInputError


def test_scores_are_those_of_scikit_learn():
    data = small_data()
    model = GaussianNB().fit(data.private.X[:12], data.private.y[:12])
    found = scores(model, data, (0, 1, 2), None, None)
    said = model.predict(data.test.X)
    recall = recall_score(data.test.y, said, average=None)
    assert found["accuracy"] == (said == data.test.y).mean()
    assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(data.test.y, said))
    assert found["class_accuracy"] == pytest.approx(tuple(recall))
    assert found["worst_class_accuracy"] == pytest.approx(recall.min())
    cell = Cell(contestant="A", epsilon=1.0, delta=1e-5, seed=0, **found)
    assert (cell.rights() == (said == data.test.y)).all()
    assert 0 < cell.accuracy < 1


def test_calibration_error_is_the_sum_over_bins_of_the_definition():
    rng = np.random.default_rng(0)
    confidence, right = rng.uniform(0.2, 1.0, 500), rng.random(500) < 0.6
    expected = 0.0
    for low in np.arange(15) / 15:
        here = (confidence >= low) & (confidence < low + 1 / 15)
        if here.any():
            expected += here.mean() * abs(right[here].mean() - confidence[here].mean())
    assert calibration_error(confidence, right) == pytest.approx(expected)
    assert calibration_error(np.ones(4), np.ones(4, dtype=bool)) == 0


class OneColumn:
    """Knows two of three classes, in another order."""

    classes_ = np.array([2, 0])

    def predict(self, X):
        return np.full(len(X), 2)

    def predict_proba(self, X):
        return np.tile([0.7, 0.3], (len(X), 1))


def test_calibration_looks_at_the_predicted_class_whatever_the_order_of_classes():
    found = scores(OneColumn(), small_data(), (0, 1, 2), None, None)
    assert found["accuracy"] == pytest.approx(1 / 3)
    assert found["calibration_error"] == pytest.approx(0.7 - 1 / 3)
    assert found["worst_class_accuracy"] == 0
    assert found["class_accuracy"] == (0, 0, 1)
    del_proba = SimpleNamespace(predict=OneColumn().predict)
    assert scores(del_proba, small_data(), (0, 1, 2), None, None)["calibration_error"] is None


def test_a_class_without_test_rows_has_no_accuracy():
    data = small_data()
    few = Dataset("few", "own", "table", (0, 1, 2, 3), None, "", data.private, data.public, data.test)
    found = scores(OneColumn(), few, (0, 1, 2, 3), None, None)
    assert found["class_accuracy"] == (0, 0, 1, None)
    assert found["balanced_accuracy"] == pytest.approx(1 / 3)


def released(labels, status=None, classes=(0, 1, 2)):
    release = SimpleNamespace(labels=np.array(labels), classes=classes)
    if status is not None:
        release.status = np.array(status)
    return release


def test_answers_are_counted_by_what_was_said_and_by_what_is_true():
    data = small_data()  # public rows are of the classes 0, 1, 2, 0, 1, 2, ...
    model = OneColumn()
    model.release_, model.queries_ = released([0, 0, -1, -1, 1, 1]), np.array([0, 1, 2, 3, 4, 7])
    asked = asked_of(model, (0, 1, 2))
    found = scores(model, data, (0, 1, 2), None, asked)
    assert (found["queries"], found["answers"]) == (6, 4)
    assert found["class_answers"] == (2, 2, 0)
    assert found["class_answer_rate"] == (0.5, 1.0, 0.0)  # true classes of those rows: 0, 1, 2, 0, 1, 1


def test_rows_that_the_budget_never_reached_were_not_asked_about():
    model = OneColumn()
    status = ["answered", "refused", "not asked"]
    model.release_, model.queries_ = released([1, -1, -1], status), np.array([0, 1, 2])
    asked = asked_of(model, (0, 1, 2))
    assert (len(asked.queries), asked.n_answers) == (2, 1)
    assert asked_of(OneColumn(), (0, 1, 2)) is None


def test_class_values_become_indices_in_the_order_of_the_data_set():
    model = OneColumn()
    model.release_, model.queries_ = released([0, 1], classes=("b", "a")), np.array([0, 1])
    assert asked_of(model, ("a", "b")).labels.tolist() == [1, 0]
    assert indices_of(np.array(["a", "z"]), ("a", "b")).tolist() == [0, -1]


def table_data() -> Dataset:
    rng = np.random.default_rng(0)

    def part(n):
        frame = pd.DataFrame({"x": rng.normal(size=n), "sex": np.where(np.arange(n) % 3 == 0, "F", "M")})
        frame.loc[frame.index[-1], "sex"] = None
        return frame, (frame["x"] > 0).to_numpy().astype(np.int64)

    (X, y), (X_public, y_public), (X_test, y_test) = part(60), part(30), part(90)
    return Dataset("table", "own", "table", ("no", "yes"), None, "", PrivateRows(X, y), PublicRows(X_public, y_public),
                   HeldOutRows(X_test, y_test))  # fmt: skip


class RightOfWomen:
    """Right on every third row, wrong on all others."""

    def predict(self, X):
        truth = (X["x"] > 0).to_numpy().astype(int)
        return np.where(X["sex"] == "F", truth, 1 - truth)


def test_groups_are_those_of_a_public_column():
    data, model = table_data(), RightOfWomen()
    model.release_, model.queries_ = released([1, -1, -1, 1], classes=(0, 1)), np.array([0, 1, 2, 3])
    found = scores(model, data, (0, 1), "sex", asked_of(model, (0, 1)))
    groups = {g.value: g for g in found["groups"]}
    assert set(groups) == {"F", "M", "missing"}
    assert (groups["F"].accuracy, groups["M"].accuracy) == (1, 0)
    assert (groups["F"].n_queries, groups["F"].answer_rate) == (2, 1.0)
    assert (groups["M"].n_queries, groups["M"].answer_rate) == (2, 0.0)
    assert (groups["missing"].n_queries, groups["missing"].answer_rate) == (0, None)
    assert sum(g.n_test for g in groups.values()) == 90


def test_a_column_that_names_no_groups_is_refused():
    check_column(table_data(), "sex")
    check_column(table_data(), None)
    with pytest.raises(InvalidInputError, match="by must be one of x, sex, got 'gender'"):
        check_column(table_data(), "gender")
    with pytest.raises(InvalidInputError, match="at most 20 values, and 'x' has 120"):
        check_column(table_data(), "x")
    with pytest.raises(InvalidInputError, match="by must be None: these rows have no columns"):
        check_column(small_data(), "sex")


@pytest.mark.long
def test_a_fitted_model_tells_how_it_was_set():
    data = load_dataset("digits", n_private=600, n_public=100)
    pate = PATEClassifier(
        KNeighborsClassifier(1),
        n_teachers=50,
        classes=range(10),
        mechanism=GNMax(8.0),
        queries=Queries(20, force=True),
        budget=Budget(8.0, 1e-5),
    )
    pate.fit(data.private.X, data.private.y, X_public=data.public.X)
    assert "GNMax(sigma=8" in settings_of(pate)
    assert "50 teachers" in settings_of(pate)
    dpsgd = DPSGDClassifier("linear", budget=Budget(8.0, 1e-4), classes=range(10), epochs=1)
    dpsgd.fit(data.private.X, data.private.y)
    assert f"{dpsgd.n_steps_:,} steps" in settings_of(dpsgd)
    assert settings_of(GaussianNB()) is None
    assert settings_of(SimpleNamespace(settings_="two knobs")) == "two knobs"


def test_time_goes_to_the_innermost_part():
    with listening() as watch, timed("training"):
        time.sleep(0.02)
        with timed("startup"):
            time.sleep(0.05)
    assert watch.seconds["startup"] >= 0.05
    assert watch.seconds["training"] >= 0.02
    assert watch.seconds["predicting"] == watch.seconds["labelling"] == 0
    with timed("training"):  # no one listens any more
        time.sleep(0.01)
    assert sum(watch.seconds.values()) == pytest.approx(watch.seconds["training"] + watch.seconds["startup"])


@pytest.mark.long
def test_the_parts_of_a_pate_fit_are_timed_separately():
    data = load_dataset("digits", n_private=600, n_public=100)
    pate = PATEClassifier(
        KNeighborsClassifier(1),
        n_teachers=50,
        classes=range(10),
        queries=Queries(20, force=True),
        budget=Budget(8.0, 1e-5),
    )
    with listening() as shards:
        pate.fit(data.private.X, data.private.y, X_public=data.public.X)
    assert shards.seconds["training"] > 0
    assert shards.seconds["labelling"] > 0
    assert shards.seconds["startup"] == 0
    with listening() as records:
        PATEClassifier(classes=range(10), budget=Budget(8.0, 1e-5)).fit(
            data.private.X, data.private.y, X_public=data.public.X
        )
    assert records.seconds["startup"] > 0
    assert records.seconds["labelling"] > 0


_PEAK = """
import numpy as np
from pate.comparison._fit import forget_peak, peak_mib

if forget_peak():
    before, _ = peak_mib(True)
    block = np.ones(200 * 2**20 // 8)  # 200 MiB
    during, _ = peak_mib(True)
    del block
    forget_peak()
    print(before, during, *peak_mib(True)[:1])
"""


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux alone can reset a process's peak")
def test_peak_memory_is_that_of_the_fit():
    # a process of its own: an old and large one may lose idle pages to the system in the midst of it
    settings_of = subprocess.run(
        [sys.executable, "-c", _PEAK], capture_output=True, text=True, check=True
    ).stdout.split()
    if not settings_of:
        pytest.skip("this system does not let a process reset its peak")
    before, during, after = map(float, settings_of)
    assert during > before + 150
    assert after < during - 100
    assert peak_mib(False)[0] is None


def test_rows_of_one_person_stand_together_and_count_together():
    right, owners = np.array([True, False, True, True, False]), np.array(["b", "a", "b", "c", "a"])
    cell = Cell(contestant="A", epsilon=1.0, delta=1e-5, accuracy=0.6, seed=0, n_test=5, **_bits(right, owners))
    np.testing.assert_array_equal(cell.owners(), [0, 0, 1, 1, 2])
    np.testing.assert_array_equal(cell.rights(), [False, False, True, True, True])
    assert "persons" not in _bits(right, None)


def test_an_interval_is_wider_where_each_person_has_five_test_rows():
    rng = np.random.default_rng(0)
    persons = np.repeat(np.arange(60), 5)

    def cells(owners):
        for repeat in range(3):
            for name, share in (("A", 0.9), ("B", 0.7)):
                right = np.repeat(rng_of(name).random(60) < share, 5) ^ (rng.random(300) < 0.02)
                yield Cell(contestant=name, epsilon=1.0, delta=1e-5, accuracy=float(right.mean()), seed=0, n_test=300,
                           repeat=repeat, **_bits(right, owners))  # fmt: skip

    def rng_of(name):
        return np.random.default_rng(ord(name))

    sides = {"A": "PATE", "B": "DP-SGD"}
    wide, narrow = (
        find(list(cells(owners)), sides, redraws="training rows", n_pool=None).side_verdicts[0]
        for owners in (persons, None)
    )
    assert wide.high - wide.low > 1.5 * (narrow.high - narrow.low)


def test_test_rows_of_diabetes_know_their_persons():
    try:
        data = load_dataset("diabetes130", n_private=500, n_public=200, download=False)
    except DatasetNotFoundError:
        pytest.skip("diabetes130 is not in PATE_DATA_HOME")
    assert data.test.groups.shape == data.test.y.shape
    assert not set(data.test.groups.tolist()) & set(data.private.groups.tolist())
