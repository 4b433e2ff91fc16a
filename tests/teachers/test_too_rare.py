"""The curator is told of classes that are too rare for the budget, and nobody else."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from pate import Budget, PATEClassifier
from pate.exceptions import CuratorWarning, InvalidInputError
from pate.teachers._usable import about_labels


def _said(y, groups=None, *, epsilon=1.0, classes=("no", "yes")):
    return [message.text for message in about_labels(y, groups, classes, budget=Budget(epsilon, 1e-5))]


def test_a_class_below_the_least_is_named_with_its_records():
    y = ["no"] * 3_000 + ["yes"] * 12
    assert "the class 'yes' (12 records). With fewer than 32 records" in _said(y)[0]
    assert "fewer than 12 records" in _said(["no"] * 3_000 + ["yes"] * 11, epsilon=3.0)[0]


@pytest.mark.parametrize(("n_yes", "epsilon"), [(32, 1.0), (12, 3.0), (0, 1.0)])
def test_nothing_is_said_from_the_least_on_nor_of_a_class_without_records(n_yes, epsilon):
    assert not any("rare" in text for text in _said(["no"] * 3_000 + ["yes"] * n_yes, epsilon=epsilon))


def test_a_small_table_of_equal_classes_is_none_of_it():
    assert _said(["no", "yes"] * 10, epsilon=0.1) == []


def test_persons_count_once():
    y = ["no"] * 3_000 + ["yes"] * 50
    owners = [f"p{i}" for i in range(3_000)] + ["q", "r"] * 25
    assert "the class 'yes' (2 persons)" in _said(y, owners)[0]
    assert _said(y) == []


def test_odd_owners_and_labels_stop_nothing():
    y = ["no"] * 3_000 + ["yes"] * 5 + [None, 3, "else"]
    assert "(5 records)" in " ".join(_said(y))
    assert "(4 persons)" in " ".join(_said(y, [f"p{i}" for i in range(3_004)] + [None, [1], "a", "b"]))


class Unhashable(str):
    __hash__ = None


@pytest.mark.parametrize("voters", ["records", "shards"])
def test_one_odd_id_stops_no_run(voters):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [400, 3])
    X, ids = rng.normal(size=(403, 3)) + y[:, None], [f"p{i}" for i in range(402)] + [Unhashable("p")]
    shards = {"n_teachers": 10} if voters == "shards" else {}
    clf = PATEClassifier(budget=Budget(3.0, 1e-4), classes=[0, 1], voters=voters, measure=False, **shards)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(X, y, X_public=rng.normal(size=(60, 3)), groups=ids)
    assert clf.statement_.unit == "group"


@pytest.mark.filterwarnings("ignore::pate.exceptions.CuratorWarning")
def test_groups_of_another_shape_are_refused_in_words_of_groups():
    rng = np.random.default_rng(0)
    clf = PATEClassifier(budget=Budget(1.0, 1e-4), classes=[0, 1], voters="records")
    with pytest.raises(InvalidInputError, match=r"groups must have shape \(60,\), one id per record"):
        clf.fit(
            rng.normal(size=(60, 3)),
            [0, 1] * 30,
            X_public=rng.normal(size=(40, 3)),
            groups=np.arange(60).reshape(60, 1),
        )


def test_the_classifier_warns_before_it_spends_and_releases_the_same():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [1_000, 8])
    X = rng.normal(size=(1_008, 3)) + y[:, None]
    clf = PATEClassifier(budget=Budget(1.0, 1e-5), classes=[0, 1], voters="records", measure=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf.fit(X, y, X_public=rng.normal(size=(200, 3)))
    said = [str(one.message) for one in caught if issubclass(one.category, CuratorWarning)]
    assert any("Too rare for this budget: the class 1 (8 records)" in text for text in said)
    assert "8 records" not in str(clf.statement_.to_dict())


def _of_balanced(y, groups=None, *, classes=("no", "yes")):
    found = about_labels(y, groups, classes, budget=Budget(1.0, 1e-5), to_equal=0.1)
    return " ".join(message.text for message in found)


def test_where_balanced_decisions_help_little_the_curator_is_told_before():
    y = ["no"] * 5_000 + ["yes"] * 150
    assert "may still name too seldom the class 'yes' (150 records)" in _of_balanced(y)
    assert "a class of less than 5.00% of all" in _of_balanced(y)
    assert _said(y) == [] == _said(["no"] * 900 + ["yes"] * 100)
    assert _of_balanced(["no"] * 900 + ["yes"] * 100) == ""
    hidden = _of_balanced(["no"] * 5_000 + ["yes"] * 12)  # said once, by what no decision mends
    assert "Too rare" in hidden
    assert "balanced" not in hidden
    few = _of_balanced(["a"] * 5_000 + ["b"] * 5_000 + ["c"] * 200, [*range(10_000), *range(200)], classes="abc")
    assert "'c' (200 persons)" in few


@pytest.mark.parametrize("decide", ["likeliest", "balanced"])
def test_a_class_that_no_label_names_is_promised_no_decision_that_was_made_already(decide):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [2_000, 60])
    X = rng.normal(size=(2_060, 3))
    clf = PATEClassifier(
        budget=Budget(1.0, 1e-5), classes=[0, 1], voters="records", measure=False, decide=decide, noise_seed=0
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf.fit(X, y, X_public=rng.normal(size=(30, 3)))
    said = " ".join(str(one.message) for one in caught)
    assert ("decide='balanced' (--decide balanced) may still" in said) == (decide == "balanced")
    assert "(60 records)" not in str(clf.statement_.to_dict())
    doubts = [str(doubt) for doubt in clf.statement_.doubts if doubt.kind == "classes never named"]
    assert all(("decide='balanced'" in doubt) == (decide == "likeliest") for doubt in doubts)
