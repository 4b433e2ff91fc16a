"""What speaks against released labels is said in one sentence with its remedy, from what is public already."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from pate import Budget, GNMax, MeasuredAccuracy, PATEClassifier, Queries, Votes, release_labels
from pate.exceptions import CuratorWarning, ResultWarning
from pate.records._right import RightFacts
from pate.release import ModelLabels, ReleasedCounts, _measured, doubted, warn_of_doubts, warn_of_student

MEASURED = MeasuredAccuracy(
    estimate=0.58, low=0.55, high=0.61, unit="record", n=900, counted=0.6, correction=0.02, sigma=18.7, share=0.04
)
CLASSES = ("a", "b", "c")


def released(places, *, measured=None, probability=None):
    """Labels of these class indices, by a model."""
    base = release_labels(Votes.from_counts([[9, 0, 1]], classes=CLASSES), GNMax(9.0), budget=Budget(2.0, 1e-5))
    statement = replace(base.statement, measured=measured)
    if probability is None:
        probability = np.eye(3)[places]
    return ModelLabels.by_model(np.asarray(probability), CLASSES, base.quote.charge, statement)


def kinds(release):
    return [doubt.kind for doubt in release.statement.doubts]


def test_nothing_is_said_of_labels_that_nothing_speaks_against():
    release = released([0, 1, 2] * 10)
    assert doubted(release) is release
    assert doubted(release, n_map=100) is release
    assert "doubts" not in release.statement.to_dict()


def test_few_public_rows_that_make_the_map():
    (one_doubt,) = doubted(released([0, 1, 2] * 10), n_map=30).statement.doubts
    assert one_doubt.kind == "few public rows"
    assert str(one_doubt).startswith("only 30 public rows make the map")
    assert "100 public rows or more" in str(one_doubt)


def test_classes_that_no_label_names():
    (one_doubt,) = doubted(released([0] * 15)).statement.doubts
    assert str(one_doubt).startswith(
        "2 of 3 classes are never named by the 15 released labels ('b', 'c'): more records"
    )
    assert "1 of 3 classes is never named" in str(doubted(released([0, 1] * 10)).statement.doubts[0])
    assert kinds(doubted(released([0] * 14))) == []  # too few labels to say so


@pytest.mark.parametrize(
    ("commonest", "estimate", "said"),
    [(0.7, 0.58, "below the 70.0%"), (0.6, 0.58, "which is not above the 60.0%"), (0.57, 0.58, None)],
)
def test_below_the_commonest_class_as_stated(commonest, estimate, said):
    found = doubted(released([0, 1, 2] * 10, measured=replace(MEASURED, estimate=estimate)), commonest=commonest)
    assert kinds(found) == (["below the commonest"] if said else [])
    if said:
        text = str(found.statement.doubts[0])
        assert said in text
        assert "(as stated): take more records" in text


def test_the_share_is_that_of_noisy_cells_else_as_stated_else_of_mean_probabilities():
    release = released([0, 1, 2] * 10, measured=MEASURED, probability=[[0.64, 0.2, 0.16], [0.62, 0.3, 0.08]] * 10)
    facts = RightFacts(by_class=True, classes=CLASSES, unit="record", adjacency="replace-one", n=900)

    def cells(sigma):
        return ReleasedCounts(facts, np.array([300.0, 100, 100, 350, 30, 20]), sigma)

    for more, share, how in (
        ({"cells": cells(9.0), "commonest": 0.9}, "the 72.2% that", "(by the noisy counts of each class)"),
        ({"cells": cells(900.0), "commonest": 0.9}, "the 90.0% that", "(as stated)"),
        ({}, "the 63.0% that", "(by the released labels' mean probabilities)"),
    ):
        (one_doubt,) = (d for d in doubted(release, **more).statement.doubts if d.kind == "below the commonest")
        assert share in str(one_doubt)
        assert how in str(one_doubt)


def test_balanced_decisions_give_up_accuracy_on_purpose():
    release = released([0, 1, 2] * 10, measured=MEASURED)
    assert kinds(doubted(release, commonest=0.9)) == ["below the commonest"]
    assert kinds(doubted(release, commonest=0.9, balanced=True)) == []
    assert kinds(doubted(released([0] * 15, measured=MEASURED), balanced=True)) == ["classes never named"]


@pytest.mark.parametrize("voters", ["records", pytest.param("dpsgd", marks=pytest.mark.long)])
@pytest.mark.parametrize("decide", ["likeliest", "balanced"])
def test_a_fit_with_balanced_decisions_is_not_compared_with_the_commonest_class(voters, decide, monkeypatch):
    asked = []
    monkeypatch.setattr(_measured, "_below", lambda *_: asked.append(decide))
    rng = np.random.default_rng(0)
    X, public = rng.normal(size=(600, 2)), rng.normal(size=(120, 2))
    clf = PATEClassifier(voters=voters, budget=Budget(2.0, 1e-5), classes=[0, 1], decide=decide, random_state=0)
    clf.fit(X, (X[:, 0] > 0).astype(int), X_public=public)
    assert asked == (["likeliest"] if decide == "likeliest" else [])


def test_without_a_measurement_nothing_is_said_of_the_commonest():
    assert kinds(doubted(released([0, 1, 2] * 10), commonest=0.9)) == []


def test_each_is_one_public_warning():
    release = doubted(released([0] * 15, measured=MEASURED), n_map=30)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warn_of_doubts(release.statement)
    assert [str(one.message) for one in said] == [str(doubt) for doubt in release.statement.doubts]
    assert kinds(release) == ["few public rows", "classes never named", "below the commonest"]
    assert all(one.category is ResultWarning for one in said)
    assert not issubclass(ResultWarning, CuratorWarning)


def test_a_fit_says_so_when_it_ends_and_its_statement_does():
    X = np.random.default_rng(0).normal(size=(200, 2))
    y, public = (X[:, 0] > 0).astype(int), np.random.default_rng(1).normal(size=(40, 2))
    y[:3] = 2
    clf = PATEClassifier(n_teachers=8, budget=Budget(40.0, 1e-5), classes=[0, 1, 2], queries=Queries(force=True))
    with pytest.warns(ResultWarning, match="1 of 3 classes is never named by the 40 released labels") as said:
        clf.fit(X, y, X_public=public)
    assert clf.release_.n_answered == 40
    assert [w.filename for w in said if w.category is ResultWarning] == [__file__]
    assert clf.statement_.doubts[0].kind == "classes never named"


@pytest.mark.long
def test_so_do_records_and_dpsgd():
    rng = np.random.default_rng(0)
    X, public = rng.normal(size=(600, 2)), rng.normal(size=(40, 2))
    y = (X[:, 0] > 0).astype(int)
    for voters in ("records", "dpsgd"):
        clf = PATEClassifier(voters=voters, budget=Budget(2.0, 1e-5), classes=[0, 1], random_state=0)
        with pytest.warns(ResultWarning, match="only 40 public rows make the map") as said:
            clf.fit(X, y, X_public=public)
        assert [w.filename for w in said if w.category is ResultWarning] == [__file__]
        assert "few public rows" in [doubt.kind for doubt in clf.statement_.doubts]


def rare(n, seed, share=0.06):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return rng.normal(size=(n, 6)) + 1.5 * y[:, None] * (np.arange(6) < 2), y


class Constant(ClassifierMixin, BaseEstimator):
    """A student that names one class, whatever it learnt."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)


@pytest.mark.parametrize("voters", ["shards", "heads", "records"])
def test_a_student_that_never_names_a_class_that_labels_name_is_spoken_of(voters):
    (X, y), (public, _) = rare(4_000, 0, share=0.4), rare(300, 1, share=0.4)
    clf = PATEClassifier(
        voters=voters, budget=Budget(8.0, 1e-5), classes=["no", "yes"], student=Constant(), random_state=0
    )
    with pytest.warns(ResultWarning, match=r"the student names 1 of 2 classes on none of the 300 .*\('yes'\)") as said:
        clf.fit(X, np.array(["no", "yes"])[y], X_public=public)
    assert [w.filename for w in said if w.category is ResultWarning] == [__file__]
    assert "classes never named" not in kinds(clf.release_)
    with pytest.warns(ResultWarning, match="on none of the 300") as said:
        clf.refit_student(public)
    assert [w.filename for w in said] == [__file__]
    clf.set_params(student="knn").refit_student(public)


def test_what_the_labels_doubts_say_is_not_said_of_the_student_again():
    few, none = released([0, 1] * 7), released([0] * 20)
    with pytest.warns(ResultWarning, match=r"names 2 of 3 classes on none of the 15 public rows \('b', 'c'\)"):
        warn_of_student(few, [0] * 15)
    for release, said in ((few, [0] * 14), (none, [0] * 20), (none, [0, 1] * 20), (few, [0, 1, 2] * 9), (few, None)):
        warn_of_student(release, said)
