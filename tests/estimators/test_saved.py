"""A classifier that was saved predicts the very same, and its file holds what is public alone."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
from pate_of import pate_of
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from pate import Budget, InvalidInputError, PATEClassifier
from pate.exceptions import RunFolderError
from pate.models.file import read_model
from pate.models.heads import ForestHead, SelfTrainedHead
from pate.models.recipes import Recipe, RecordModel, Round
from pate.models.recipes._build import make_head
from pate.models.recipes._model import asked_with, noise_temperature, temperature_as_measured
from pate.representations import FromTransformer, TableMap, chain

N, N_PUBLIC = 500, 60
BUDGET = Budget(3.0, 1e-4)
#: Stands in private rows alone.
SECRET = 51.62534871


def frame(seed=0):
    rng = np.random.default_rng(seed)
    made = pd.DataFrame({"age": rng.normal(50, 10, N + N_PUBLIC), "bmi": rng.normal(size=N + N_PUBLIC)})
    return made, np.where(made["age"] > 50, "yes", "no")


def mixed():
    made, y = frame()
    made["town"] = np.random.default_rng(1).choice(["Oslo", "Rome"], len(made))
    made.loc[3, "age"] = np.nan
    return made, y


def two_types():
    X, y = frame()
    return X, np.array([value if value == "no" else 1 for value in y], dtype=object)


def texts():
    y = frame()[1]
    rng = np.random.default_rng(2)
    words = [" ".join(rng.choice(["a", "b", "c", "good" if v == "yes" else "bad"], 9)) for v in y]
    return np.array(words, dtype=object), y


def digits():
    X, y = load_digits(return_X_y=True)
    return X[: N + N_PUBLIC], y[: N + N_PUBLIC]


def shards(student=None, **more):
    classes = more.pop("classes", range(10))
    return pate_of(
        KNeighborsClassifier(1), n_teachers=50, student=student, budget=Budget(20.0, 1e-4), classes=classes,
        random_state=0, **more,
    )  # fmt: skip


def records(**more):
    return pate_of(budget=BUDGET, random_state=0, **{"classes": ["no", "yes"], **more})


def taught(clf, data):
    X, y = data
    return clf.fit(X[:N], y[:N], X_public=X[N:])


CASES = {
    "table": (records(), frame()),
    "array": (records(), (frame()[0].to_numpy(), frame()[1])),
    "mixed": (records(), mixed()),
    "texts": (records(), texts()),
    "pixels": (records(classes=range(10), image_shape=(8, 8)), digits()),
    "truth values": (records(classes=[False, True]), (frame()[0], frame()[1] == "yes")),
    "classes of two types": (
        records(classes=["no", 1]), two_types(),
    ),
    "heads": (PATEClassifier(voters="heads", budget=Budget(20.0, 1e-4), classes=range(10), random_state=0), digits()),
    "spreading": (shards(), digits()),
    "forest": (shards("random-forest"), digits()),
    "boosting": (shards(HistGradientBoostingClassifier(max_iter=5)), digits()),
    "neighbours": (shards("knn"), digits()),
    "no probabilities": (shards("svm"), digits()),
    "semi-supervised": (shards("label-spreading"), digits()),
    "texts by teachers": (
        PATEClassifier(make_pipeline(TfidfVectorizer(), LogisticRegression()), n_teachers=20, random_state=0,
                       budget=Budget(20.0, 1e-4), classes=["no", "yes"]), texts(),
    ),
}  # fmt: skip


@pytest.mark.few(2)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::pate.exceptions.PateWarning")
def test_what_was_saved_predicts_the_very_same(name, tmp_path):
    clf, data = CASES[name]
    clf = taught(clone(clf), data)
    clf.save(tmp_path / "a.pate")
    clf.save(tmp_path / "b.pate")
    new = PATEClassifier.load(tmp_path / "a.pate")
    X = data[0][:200]
    assert (new.predict(X) == clf.predict(X)).all()
    assert hasattr(new, "predict_proba") == hasattr(clf, "predict_proba")
    if hasattr(clf, "predict_proba"):
        assert (new.predict_proba(X) == clf.predict_proba(X)).all()
    assert (new.classes_.tolist(), new.classes_.dtype) == (clf.classes_.tolist(), clf.classes_.dtype)
    assert new.statement_ == clf.statement_
    assert type(new.student_) is type(clf.student_)
    for kept in ("n_features_in_", "feature_names_in_"):
        assert np.array_equal(getattr(new, kept, None), getattr(clf, kept, None))
    assert (tmp_path / "a.pate").read_bytes() == (tmp_path / "b.pate").read_bytes()
    if name != "forest":  # whose trees share one generator or have each their own
        new.save(tmp_path / "c.pate")
        assert (tmp_path / "c.pate").read_bytes() == (tmp_path / "a.pate").read_bytes()


@pytest.mark.long
def test_a_model_of_rounds_and_trees_comes_back(monkeypatch, tmp_path):
    """A recipe of one's own: residual rounds, and a forest of the public columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6_400, 4))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    rounds = (Round(0.5), Round(0.5, 0.7))
    trees = Recipe("kernel", "signed", 60, None, 0.8, 0.0, rounds, 0.45, "forest")
    monkeypatch.setattr(PATEClassifier, "_rule", staticmethod(lambda facts: trees))
    clf = PATEClassifier(budget=Budget(8.0, 1e-5), classes=[0, 1], random_state=0)
    clf.fit(X[:6_000], y[:6_000], X_public=X[6_000:])
    assert isinstance(clf.student_.head, ForestHead)
    clf.save(tmp_path / "a.pate")
    new = PATEClassifier.load(tmp_path / "a.pate")
    assert (new.predict_proba(X[:500]) == clf.predict_proba(X[:500])).all()


@pytest.mark.long
def test_a_map_of_ones_own_is_kept_where_its_parts_are(tmp_path):
    from sklearn.decomposition import TruncatedSVD

    X, y = frame()
    clf = taught(records(representation=chain(TableMap(), FromTransformer(TruncatedSVD(2, random_state=0)))), (X, y))
    clf.save(tmp_path / "a.pate")
    assert (PATEClassifier.load(tmp_path / "a.pate").predict_proba(X) == clf.predict_proba(X)).all()


def test_of_what_fit_knew_nothing_is_there_and_it_says_so(tmp_path):
    clf = taught(shards(), digits())
    clf.save(tmp_path / "a.pate")
    new, X = PATEClassifier.load(tmp_path / "a.pate"), digits()[0]
    assert not hasattr(new, "release_")
    with pytest.raises(InvalidInputError, match="no model file keeps them"):
        new.refit_student(X[N:])
    with pytest.raises(InvalidInputError, match="budget must be"):
        new.fit(X[:N], digits()[1][:N], X_public=X[N:])
    with pytest.raises(InvalidInputError, match="features"):
        new.predict(X[:3, :5])


def test_nothing_is_overwritten_and_other_endings_are_refused(tmp_path):
    clf = taught(records(), frame())
    (tmp_path / "a.pate").write_text("mine")
    with pytest.raises(RunFolderError, match="exists"):
        clf.save(tmp_path / "a.pate")
    with pytest.raises(InvalidInputError, match=r"must end in \.pate"):
        clf.save(tmp_path / "a.pkl")
    with pytest.raises(InvalidInputError, match="cannot be written"):
        clf.save(tmp_path / "a.pate" / "b.pate")
    assert [p.name for p in tmp_path.iterdir()] == ["a.pate"]


class Mine(LogisticRegression):
    """A student whose code no file holds."""


def test_a_student_of_ones_own_code_is_refused_in_one_line(tmp_path):
    clf = taught(shards(Mine()), digits())
    with pytest.raises(InvalidInputError, match=r"Mine cannot be saved in a model file.*Name another student"):
        clf.save(tmp_path / "a.pate")
    assert list(tmp_path.iterdir()) == []


# What is in a file ---------------------------------------------------------------------------------------------


def test_a_students_file_follows_from_the_release_and_public_rows(tmp_path):
    clf = taught(shards(), digits())
    clf.save(tmp_path / "a.pate")
    again = copy.copy(clf)
    for private in ("student_", "teachers_", "votes_", "partition_"):
        again.__dict__.pop(private, None)
    again.refit_student(digits()[0][N:])
    again._measured_of = again.student_
    again.save(tmp_path / "b.pate")
    assert (tmp_path / "b.pate").read_bytes() == (tmp_path / "a.pate").read_bytes()


@pytest.mark.long
def test_a_ballots_model_follows_from_the_release_and_public_rows(tmp_path):
    X, y = frame()
    clf = records()
    plan, _ = clf.fit_keeping(X[:N], y[:N], X_public=X[N:])
    clf.save(tmp_path / "a.pate")
    first, *later = clf.release_.rounds
    head = make_head(plan.recipe, plan.voters.space, plan.voters.classes)
    head = head.fit(first, plan.phi) if plan.recipe.rounds[0].clip is None else head.updated(first)
    for release in later:
        head = head.updated(release, plan.phi)
    taught = head
    if plan.recipe.student == "ridge":
        taught = SelfTrainedHead().fit(head, asked_with(head, plan.z, plan.phi), features=plan.z)
    elif plan.recipe.student == "forest":
        taught = ForestHead().fit(head, plan.phi, plan.table)
    again = copy.copy(clf)
    again.student_ = again._measured_of = RecordModel(plan.voters, taught, plan.columns)
    again.student_.temperature = noise_temperature(head, plan.phi)
    if clf.measured_ is not None:
        found = again.student_.untempered(X[N:])
        again.student_.temperature = temperature_as_measured(found, found.argmax(axis=1), clf.measured_.estimate)
    again.save(tmp_path / "b.pate")
    assert (tmp_path / "b.pate").read_bytes() == (tmp_path / "a.pate").read_bytes()


@pytest.mark.long
def test_what_was_measured_goes_with_the_student_it_was_measured_of(tmp_path):
    X, y = frame()
    clf = records().set_params(measure=True).fit(X[:N], y[:N], X_public=X[N:])
    clf.save(tmp_path / "a.pate")
    assert clf.measured_ == PATEClassifier.load(tmp_path / "a.pate").measured_ == clf.statement_.measured
    clf.set_params(student="decision-tree").refit_student(X[N:])
    assert clf.measured_ is None
    assert clf.statement_.measured is not None  # of the labels, as they were released
    clf.save(tmp_path / "b.pate")
    other = PATEClassifier.load(tmp_path / "b.pate")
    assert other.measured_ is other.statement_.measured is None


@pytest.mark.long
@pytest.mark.parametrize("make", [records, lambda: shards("random-forest", classes=["no", "yes"])])
def test_no_private_cell_is_in_a_file(tmp_path, make):
    X, y = frame()
    X.loc[:9, "bmi"] = SECRET
    clf = taught(make(), (X, y))
    clf.save(tmp_path / "a.pate")
    data = (tmp_path / "a.pate").read_bytes()
    for kind in ("<f8", "<f4"):
        assert np.array(SECRET, dtype=kind).tobytes() not in data
    assert b"51.6253" not in data
    parts = read_model(tmp_path / "a.pate").parts
    assert set(parts) <= {"representation.safetensors", "space.safetensors", "head.safetensors", "columns.safetensors",
                          "student.skops"}  # fmt: skip
