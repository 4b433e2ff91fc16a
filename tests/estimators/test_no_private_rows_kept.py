"""What a fit returns holds no private row: every estimator, every road, what it saves, and its ledger."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from private_cells import PrivateCells
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from torch import nn

from pate import (
    Budget,
    DPSGDClassifier,
    DPSGDRegressor,
    GNMax,
    HeadTeacherEnsemble,
    Ledger,
    PATEClassifier,
    PATEMultilabelClassifier,
    PATERegressor,
    TeacherEnsemble,
    TorchTeacherEnsemble,
    private_select,
    release_labels,
)
from pate.comparison.baselines import PrivateKNN, SparseVectorPATE
from pate.dpsgd import SampledGaussian
from pate.federation._records import SiteRecords
from pate.federation._rounds import LocalSites, SitesPlan
from pate.jobs import LabelJob, NumberJob, SeveralLabelsJob
from pate.models.students import fit_student
from pate.representations import FromModule, FromTransformer

RNG = np.random.default_rng(0)
N = 160
X, PUBLIC = RNG.uniform(-2, 2, size=(N, 4)), RNG.uniform(-2, 2, size=(80, 4))
Y = (X[:, 0] > 0).astype(int)
NAMES = [f"Ms {RNG.bytes(6).hex()}" for _ in range(N)]
WORDS = [f"note {RNG.bytes(6).hex()} {'good fine' if y else 'bad poor'}" for y in Y]
PUBLIC_WORDS = [f"note of {'good fine' if x[0] > 0 else 'bad poor'} things" for x in PUBLIC]
CELLS = PrivateCells(X, [*NAMES, *(words.split()[1] for words in WORDS)])
SAID = {"budget": Budget(50.0, 1e-4), "random_state": 0}
CLASSES = {**SAID, "classes": [0, 1]}
STEPS = {"mechanism": SampledGaussian(n_steps=2)}


def table(rows, names):
    return pd.DataFrame(rows, columns=list("abcd")).assign(town=names)


TABLE, PUBLIC_TABLE = table(X, NAMES), table(PUBLIC, ["Oslo", "Rome"] * 40)


class Keeps(ClassifierMixin, BaseEstimator):
    """Keeps what it is shown, when it is fitted and when it is asked."""

    def fit(self, X, y):
        self.rows_, self.classes_ = np.array(X), np.array([0, 1])
        return self

    def predict(self, X):
        self.asked_ = np.array(X)
        return (self.asked_[:, 0] > 0).astype(int)

    def predict_proba(self, X):
        return np.eye(2)[self.predict(X)]


class Shown(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.n_ = np.shape(X)[1]
        return self

    def transform(self, X):
        self.seen_ = np.array(X)
        return self.seen_ * 2


class Remembers(nn.Module):
    def __init__(self, n_features=4, n_classes=2):
        super().__init__()
        self.inner = nn.Linear(n_features, n_classes)

    def forward(self, x):
        self.seen = x
        return self.inner(x)


def shards(estimator, **more):
    return PATEClassifier(estimator, n_teachers=8, **CLASSES, **more)


#: Who is fitted, to what: by default numbers and classes.
ROADS = {
    "records": (PATEClassifier(**CLASSES), {}),
    "records of persons": (PATEClassifier(**CLASSES), {"groups": NAMES}),
    "records of a table": (PATEClassifier(**CLASSES), {"X": TABLE, "X_public": PUBLIC_TABLE}),
    "records of texts": (PATEClassifier(**CLASSES), {"X": WORDS, "X_public": PUBLIC_WORDS}),
    "a transformer of the user's": (PATEClassifier(representation=FromTransformer(Shown()), **CLASSES), {}),
    "a module of the user's": (
        PATEClassifier(representation=FromModule(Remembers(), provenance="none"), **CLASSES),
        {},
    ),
    "a measured student of the user's": (shards(GaussianNB(), student=Keeps(), measure=True), {}),
    "heads": (PATEClassifier(voters="heads", n_teachers=8, **CLASSES), {}),
    "heads on a user's module": (
        PATEClassifier(
            voters="heads", n_teachers=8, representation=FromModule(Remembers(), provenance="none"), **CLASSES
        ),
        {},
    ),
    "shards of neighbours": (shards(KNeighborsClassifier(3)), {"groups": NAMES}),
    "shards that keep rows": (shards(Keeps(), measure=True), {}),
    "shards of a table": (
        shards(
            make_pipeline(
                make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["town"]), remainder="passthrough"),
                KNeighborsClassifier(3),
            )
        ),
        {"X": TABLE, "X_public": PUBLIC_TABLE},
    ),
    "DP-SGD voters": (PATEClassifier(voters="dpsgd", **CLASSES), {}),
    "declared": (
        PATEClassifier(**{**CLASSES, "budget": Budget(1.0, 1e-4)}),
        {"X_public": None, "schema": [(-2, 2)] * 4},
    ),
    "several labels": (PATEMultilabelClassifier(**SAID), {"y": np.stack([Y, 1 - Y, Y], axis=1)}),
    "numbers": (PATERegressor(target_range=(-2, 2), **SAID), {"y": X[:, 0]}),
    "numbers of persons": (PATERegressor(target_range=(-2, 2), **SAID), {"y": X[:, 0], "groups": NAMES}),
    "DP-SGD": (DPSGDClassifier(Remembers, expected_batch_size=40, **STEPS, **CLASSES), {"X_public": None}),
    "DP-SGD by a recipe": (DPSGDClassifier(**STEPS, **CLASSES), {}),
    "DP-SGD of numbers": (DPSGDRegressor(target_range=(-2, 2), **STEPS, **SAID), {"y": X[:, 0]}),
    "neighbours": (PrivateKNN(n_neighbors=20, **CLASSES), {"groups": NAMES}),
    "sampled neighbours": (PrivateKNN(n_neighbors=20, sample_rate=0.5, **CLASSES), {}),
    "sparse vector": (SparseVectorPATE(n_teachers=8, **CLASSES), {}),
    "sparse vector of neighbours": (SparseVectorPATE(n_teachers=8, estimator=KNeighborsClassifier(3), **CLASSES), {}),
}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("road", ROADS)
def test_a_fitted_estimator_its_files_and_its_ledger_hold_no_private_cell(road, tmp_path):
    learner, given = ROADS[road]
    given = {"X": X, "y": Y, "X_public": PUBLIC} | given
    if "ledger" in learner.get_params():
        learner.set_params(ledger=Ledger(tmp_path / "ledger.sqlite"))
    learner.fit(**given)
    assert not CELLS.held_by(learner)
    learner.predict(given["X"])
    assert not CELLS.held_by(learner), "nor rows that were predicted"
    if hasattr(learner, "save"):
        try:
            learner.save(tmp_path / "model.pate")
        except ValueError:  # a student or module that no file holds
            assert "user" in road or road in ("shards that keep rows", "DP-SGD")
    (tmp_path / "statement.json").write_text(json.dumps(learner.statement_.to_dict()))
    assert CELLS.in_files(tmp_path) == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "ensemble",
    [
        TorchTeacherEnsemble(Remembers, 5, classes=[0, 1], epochs=1, device="cpu"),
        HeadTeacherEnsemble(FromModule(Remembers(), provenance="none").fit(PUBLIC), 5, classes=[0, 1]),
        TeacherEnsemble(KNeighborsClassifier(3), 5, classes=[0, 1]),
    ],
)
def test_nor_do_labels_released_of_teachers(ensemble):
    votes = ensemble.fit(X, Y, groups=NAMES).vote(PUBLIC)
    release = release_labels(votes, GNMax(2.0), budget=Budget(1e4, 1e-4))
    student = fit_student(KNeighborsClassifier(3), PUBLIC, release.labels)
    assert not CELLS.held_by([votes, release, student, release.statement, release.to_frame()])


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_nor_does_the_best_of_several():
    several = {
        "records": PATEClassifier(),
        "shards": PATEClassifier(KNeighborsClassifier(3), n_teachers=8),
    }
    found = private_select(several, X, Y, budget=SAID["budget"], classes=[0, 1], X_public=PUBLIC, mean_runs=4.0)
    assert not CELLS.held_by(found)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_nor_does_what_a_coordinator_gets_of_sites():
    sites = [SiteRecords(X[i::3], Y[i::3], classes=(0, 1), groups=NAMES[i::3]) for i in range(3)]
    plan = SitesPlan.of(
        PUBLIC, classes=(0, 1), budget=SAID["budget"], n_units=[s.n_units for s in sites], unit="group", tolerate=1
    )
    assert CELLS.held_by(sites)
    assert not CELLS.held_by([plan, *plan.run(LocalSites(plan, sites))])


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("job", "options"),
    [
        (LabelJob, {"target": "y", "classes": ["0", "1"], "measure": True}),
        (LabelJob, {"target": "y", "classes": ["0", "1"], "teacher": "naive-bayes", "n_teachers": 8}),
        (NumberJob, {"target": "a", "target_range": (-2, 2)}),
        (SeveralLabelsJob, {"target": ["y", "z"]}),
    ],
)
def test_nor_do_the_files_of_a_job(job, options, tmp_path):
    TABLE.assign(y=Y, z=1 - Y, who=NAMES).to_csv(tmp_path / "private.csv", index=False)
    PUBLIC_TABLE.drop(columns=["a"] if job is NumberJob else []).to_csv(tmp_path / "public.csv", index=False)
    rest = {"y", "z"} - set(options["target"])
    paths = (tmp_path / "private.csv", tmp_path / "public.csv")
    work = job(*paths, budget=SAID["budget"], group="who", drop=rest, ledger=tmp_path / "out.sqlite", **options)
    release = work.run()
    work.write(release, tmp_path / "out.csv")
    assert not CELLS.held_by(release)
    assert len(list(tmp_path.iterdir())) >= 6
    assert CELLS.in_files(tmp_path) == ["private.csv"]


@pytest.mark.filterwarnings("ignore")
def test_the_search_finds_what_is_kept(tmp_path):
    kept = Keeps().fit(X[:9], Y[:9])
    assert CELLS.held_by(kept)
    assert CELLS.held_by(lambda: kept.rows_.astype("f4"))
    assert CELLS.held_by({"module": Remembers(), "seen": [torch.from_numpy(X[3]).float()]})
    assert CELLS.held_by(NAMES[3].encode("utf-32-le"))
    assert CELLS.held_by(X[5].tolist())
    np.savez(tmp_path / "rows.npz", rows=X[:, 1])
    (tmp_path / "rows.json").write_text(str(X[4].tolist()))
    assert sorted(CELLS.in_files(tmp_path)) == ["rows.json", "rows.npz"]
    assert not CELLS.held_by([PUBLIC, PUBLIC_TABLE, Y])
