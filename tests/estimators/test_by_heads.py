"""Heads as voters: where no student could learn from the public rows as they are, it sees them as heads do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from pate_of import pate_of
from sklearn.pipeline import Pipeline

from pate import Budget, GNMax
from pate.models.students import VoteSpreading

AMPLE = Budget(200.0, 1e-5)


def mixed(n, seed):
    rng = np.random.default_rng(seed)
    town = rng.choice(["Oslo", "Rome", "Kyiv"], n)
    age = rng.normal(40, 12, n)
    old = np.where((town == "Rome") | (age > 55), "yes", "no")
    age[rng.random(n) < 0.05] = np.nan
    return pd.DataFrame({"age": age, "town": town, "noise": rng.normal(size=n)}), old


def texts(n, seed):
    rng = np.random.default_rng(seed)
    good = rng.random(n) < 0.5
    words = np.where(good, "well healthy", "ill fever"), rng.choice(["today", "here", "visit", "ward"], (n, 3))
    return np.array([f"{first} {' '.join(rest)}" for first, rest in zip(*words, strict=True)], dtype=object), np.where(
        good, "no", "yes"
    )


def tables(n, seed):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return X, np.where(X[:, 0] > 0, "yes", "no")


def heads(**options):
    seeds = {"random_state": 0, "partition_seed": 0, "noise_seed": 0}
    return pate_of(voters="heads", budget=AMPLE, classes=["no", "yes"], **(seeds | options))


@pytest.mark.few(2)
@pytest.mark.parametrize("mechanism", [None, GNMax(2.0)], ids=["histogram", "labels alone"])
@pytest.mark.parametrize(("rows", "mapped"), [(mixed, True), (texts, True), (tables, False)])
@pytest.mark.filterwarnings("ignore::pate.exceptions.PrivacyParameterWarning", "ignore::pate.exceptions.CuratorWarning",
                            "ignore::pate.exceptions.DuplicateRecordsWarning")  # fmt: skip
def test_a_student_for_rows_of_any_kind(rows, mapped, mechanism):
    (X, y), (public, _), (new, truth) = rows(900, 0), rows(150, 1), rows(400, 2)
    clf = heads(mechanism=mechanism, n_queries=100, overlap_is_public=rows is texts).fit(X, y, X_public=public)
    assert clf.score(new, truth) > 0.8
    np.testing.assert_array_equal(clf.classes_[clf.predict_proba(new).argmax(axis=1)], clf.predict(new))
    mapped = mapped or mechanism is not None
    assert isinstance(clf.student_, Pipeline) == mapped
    student = clf.student_.steps[-1][1] if mapped else clf.student_
    assert isinstance(student, VoteSpreading) == (mechanism is None)
    said = clf.predict(new)
    assert (clf.refit_student(public).predict(new) == said).all()


@pytest.mark.filterwarnings("ignore::pate.exceptions.PrivacyParameterWarning", "ignore::pate.exceptions.CuratorWarning")
def test_a_named_student_sees_the_rows_themselves():
    (X, y), (public, _) = tables(900, 0), tables(150, 1)
    clf = heads(student="naive-bayes", n_queries=100).fit(X, y, X_public=public)
    assert clf.student_.n_features_in_ == 3
