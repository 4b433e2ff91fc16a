"""A job ends in a model, for any further rows; and what is said of how sure labels are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from pate import Budget, GNMax, InvalidInputError, NoisyHistogram, PATEClassifier, Votes, release_labels
from pate.exceptions import ResultWarning, RunFolderError, StudentError
from pate.jobs import LabelJob, VoteJob, check_new_files, check_proba, predict_file
from pate.jobs._student import Pupil
from pate.jobs._writing import write_labels
from pate.models.recipes import RecordModel

N, N_PUBLIC = 600, 60
GIVEN = {"target": "ill", "classes": ["no", "yes"], "budget": Budget(20.0, 1e-4)}


def table():
    rng = np.random.default_rng(0)
    n = N + 2 * N_PUBLIC
    made = pd.DataFrame({"age": rng.normal(50, 10, n), "town": rng.choice(["Oslo", "Rome"], n)})
    made["ill"] = np.where(made["age"] > 50, "yes", "no")
    made["who"] = [f"{i:04d}" for i in range(n)]
    return made


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("files"), table()
    made[:N].drop(columns="who").to_csv(folder / "private.csv", index=False)
    public = made[N : N + N_PUBLIC].drop(columns=["ill", "who"])
    public.to_csv(folder / "public.csv", index=False)
    made[N + N_PUBLIC :][["who", "town", "ill", "age"]].to_csv(folder / "new.csv", index=False)
    np.save(folder / "votes.npy", np.where(public[["age"]] > 50, [[8, 92]], [[95, 5]]))
    return folder


def job(files, **options):
    return LabelJob(files / "private.csv", files / "public.csv", **{**GIVEN, **options})


def right(files, path):
    said, truth = pd.read_csv(path, dtype={"who": str}), pd.read_csv(files / "new.csv", dtype={"who": str})
    return said, float((said["label"] == truth["ill"]).mean())


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("options", "voters", "student"),
    [
        ({}, "records", "RecordModel"),
        ({"student": "decision-tree"}, "records", "Pipeline"),
        ({"n_teachers": 30}, "shards", "Pipeline"),
        ({"n_teachers": 30, "preprocess": "shard", "student": LogisticRegression()}, "shards", "Pipeline"),
        ({"n_teachers": 30, "mechanism": GNMax(4.0), "n_queries": 20}, "shards", "Pipeline"),
        ({"voters": "heads", "n_teachers": 40}, "heads", "Pipeline"),
        ({"n_teachers": 30, "select": "uncertain", "student": "naive-bayes", "n_queries": 30}, "shards", "Pipeline"),
    ],
)
@pytest.mark.filterwarnings("ignore::pate.exceptions.PateWarning")
def test_a_job_ends_in_a_model_that_a_file_holds(files, tmp_path, options, voters, student):
    done = job(files, **options)
    release = done.run()
    model = done.model(release)
    assert (type(model.student_).__name__, model.voters) == (student, voters)
    assert model.statement_ == release.statement
    model.save(tmp_path / "labels.pate")
    new = PATEClassifier.load(tmp_path / "labels.pate")
    rows = pd.read_csv(files / "public.csv")
    assert (new.predict_proba(rows) == model.predict_proba(rows)).all()
    found = predict_file(tmp_path / "labels.pate", files / "new.csv", tmp_path / "out.csv", id="who")
    assert (found.n_rows, found.left_out) == (N_PUBLIC, ("ill",))
    said, share = right(files, tmp_path / "out.csv")
    assert said.columns.tolist() == ["who", "row", "label", "confidence"]
    assert said["who"].tolist() == [f"{i:04d}" for i in range(N + N_PUBLIC, N + 2 * N_PUBLIC)]
    assert share > 0.8


def test_records_labels_are_the_models_own(files):
    done = job(files)
    release = done.run()
    model = done.model(release)
    assert isinstance(model.student_, RecordModel)
    assert (model.predict_proba(pd.read_csv(files / "public.csv")) == release.probability).all()


def test_votes_cast_elsewhere_make_a_model_of_the_public_table(files, tmp_path):
    given = {"classes": ["no", "yes"], "budget": Budget(20.0, 1e-4), "new_ledger": True}
    done = VoteJob(files / "votes.npy", public=files / "public.csv", ledger=tmp_path / "a.sqlite", **given)
    done.model(done.run()).save(tmp_path / "labels.pate")
    predict_file(tmp_path / "labels.pate", files / "new.csv", tmp_path / "out.csv")
    assert right(files, tmp_path / "out.csv")[1] > 0.8
    alone = VoteJob(files / "votes.npy", ledger=tmp_path / "b.sqlite", **given)
    assert not alone.keeps_model
    with pytest.raises(InvalidInputError, match="public and keep_model=True"):
        alone.model(alone.run())
    with pytest.raises(InvalidInputError, match=r"no rows to learn from.*--public"):
        VoteJob(files / "votes.npy", ledger=tmp_path / "c.sqlite", student="knn", **given)


def test_a_named_student_that_cannot_learn_is_refused_before_anything_is_spent(files, tmp_path):
    with pytest.raises(InvalidInputError, match="student must be able to learn from 3 labels"):
        job(
            files,
            n_teachers=100,
            n_queries=3,
            student=KNeighborsClassifier(5),
            force=True,
            ledger=tmp_path / "a.sqlite",
        )
    with pytest.raises(InvalidInputError, match="student must be one of"):
        job(files, student="oracle")
    assert not job(files, keep_model=False).keeps_model


class Mine(LogisticRegression):
    """A student whose code no file holds."""


def test_a_student_that_no_file_holds_is_refused_before_anything_is_spent(files):
    with pytest.raises(InvalidInputError, match="Mine cannot be saved in a model file"):
        job(files, student=Mine())
    done = job(files, teacher=Mine(), n_teachers=30, mechanism=GNMax(4.0), n_queries=20)  # its kind was not asked for
    assert type(done.model(done.run()).student_.steps[-1][1]) is LogisticRegression


def test_a_student_that_fails_on_the_released_labels_leaves_them_and_says_how_to_go_on(files, monkeypatch):
    done = job(files, student="logistic-regression")
    release = done.run()
    monkeypatch.setattr(LogisticRegression, "fit", lambda *_, **__: 1 / 0)
    with pytest.raises(StudentError, match=r"another --student and another --out"):
        done.model(release)
    assert release.n_answered == N_PUBLIC


def test_a_job_says_so_where_its_student_never_names_a_class(files, monkeypatch):
    done = job(files, student="logistic-regression")
    release = done.run()
    monkeypatch.setattr(LogisticRegression, "predict", lambda _, X: np.zeros(len(X), dtype=int))
    with pytest.warns(ResultWarning, match=r"1 of 2 classes on none of the 60 public rows \('yes'\)") as said:
        done.model(release)
    assert [w.filename for w in said if w.category is ResultWarning] == [__file__]


def test_the_model_is_made_of_public_rows_and_the_release_alone(files):
    """Nothing that the pupil holds, nor what it is given, is a private row, a vote or a teacher."""
    done = job(files, n_teachers=30)
    pupil = done._pupil
    public = pd.read_csv(files / "public.csv")
    assert set(vars(pupil)) == {"student", "lens", "seen", "door", "voters", "random_state"}
    assert (pupil.seen == pupil.lens.transform(public)).all()
    release = done.run()
    alone = Pupil(pupil.student, pupil.lens, pupil.seen, pupil.door, "shards", 0).learn(release, done.queries_)
    assert (alone.predict_proba(public) == done.model(release).predict_proba(public)).all()


# How sure labels are --------------------------------------------------------------------------------------------


def test_lead_and_confidence_stand_where_counts_were_released(files, tmp_path):
    done = job(files, n_teachers=30, mechanism=NoisyHistogram(sigma=6.0), n_queries=20, gap=3.0)
    release = done.run()
    done.write(release, tmp_path / "labels.csv", proba=True)
    said = pd.read_csv(tmp_path / "labels.csv")
    assert said.columns.tolist() == ["row", "label", "status", "margin", "confidence", "p_no", "p_yes"]
    asked = said[said["status"] != "not asked"]
    answered = asked[asked["status"] == "answered"]
    assert (len(said), len(asked)) == (N_PUBLIC, 20)
    assert said["margin"].notna().sum() == said["p_no"].notna().sum() == 20
    assert said["confidence"].notna().sum() == len(answered)
    counts = release.noisy_counts
    assert np.allclose(asked["margin"], np.abs(counts[:, 0] - counts[:, 1]), atol=1e-4)
    # Of two classes: the chance that noise did not turn them round.
    assert np.allclose(answered["confidence"], norm.cdf(answered["margin"] / (6 * np.sqrt(2))), atol=1e-3)
    assert np.allclose(answered["confidence"], np.where(answered["label"] == "no", answered["p_no"], answered["p_yes"]))
    assert np.allclose(asked["p_no"] + asked["p_yes"], 1, atol=2e-4)
    assert (asked[asked["status"] == "refused"]["margin"] < 3).all()


def test_the_probability_of_the_leader_is_what_noise_leaves():
    """Against a simulation of the posterior: three classes, flat prior."""
    votes = Votes.from_counts([[50, 40, 10], [34, 33, 33]])
    release = release_labels(votes, NoisyHistogram(sigma=12.0), budget=Budget(10.0, 1e-5))
    z = np.random.default_rng(0).normal(size=(100_000, 3))
    for scores, found in zip(release.noisy_counts, release.leader_probability(), strict=True):
        simulated = np.bincount((scores - 12 * z).argmax(axis=1), minlength=3) / len(z)
        assert np.allclose(found, simulated, atol=0.01)
    assert np.allclose(release.confidence(), release.leader_probability().max(axis=1))


def test_labels_alone_have_no_probabilities_and_that_is_said_first(files, tmp_path):
    done = job(files, n_teachers=30, mechanism=GNMax(4.0), n_queries=20)
    with pytest.raises(InvalidInputError, match=r"labels alone are released.*pate predict --proba"):
        check_proba(done.plan)
    done.write(done.run(), tmp_path / "labels.csv")
    assert pd.read_csv(tmp_path / "labels.csv").columns.tolist() == ["row", "label", "status"]
    check_proba(job(files).plan)


def test_ids_stand_first_as_they_are_written(tmp_path):
    release = release_labels(Votes.from_counts([[9, 1], [1, 9]]), GNMax(1.0), budget=Budget(50.0, 1e-5))
    write_labels(
        release, np.array([0, 2]), tmp_path / "a.csv", n_public=3, ids=np.array(["007", "=1", None], dtype=object),
        id_name="patient",
    )  # fmt: skip
    one, other = release.values()
    lines = ["patient,row,label,status", f"007,0,{one},answered", "'=1,1,,not asked", f",2,{other},answered"]
    assert (tmp_path / "a.csv").read_text().splitlines() == lines


def test_a_model_beside_the_labels_must_be_new_too(tmp_path):
    (tmp_path / "labels.pate").write_text("mine")
    check_new_files(tmp_path / "labels.csv")
    with pytest.raises(RunFolderError, match=r"labels\.pate"):
        check_new_files(tmp_path / "labels.csv", model=True)
    with pytest.raises(InvalidInputError, match="goes beside it"):
        check_new_files(tmp_path / "other.pate", model=True)


# Predicting -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(files, tmp_path_factory):
    done = job(files)
    path = tmp_path_factory.mktemp("model") / "labels.pate"
    done.model(done.run()).save(path)
    return path


@pytest.mark.parametrize(
    ("content", "options", "text"),
    [
        ("town\nOslo\n", {}, r"lacks columns that the model asks for: 'age'. It has: 'town'"),
        ("age,town\n1,Oslo\n", {"id": "who"}, "id column 'who' is not in rows.csv"),
        ("age,town\n1,Oslo\n", {"id": "age"}, "'age' is a feature of the model"),
        ("age,town,label\n1,Oslo,3\n", {"id": "label"}, "must not be called 'label'"),
        ("age,town,p_no\n1,Oslo,3\n", {"id": "p_no"}, "must not be called 'p_no'"),
        ("", {}, "is empty"),
        ("age,town\n", {}, "0 rows"),
        ("age,town\n1,Oslo\n", {"resize": True}, "resize is for folders"),
    ],
)
def test_rows_that_do_not_fit_are_refused_in_one_line(model, tmp_path, content, options, text):
    (tmp_path / "rows.csv").write_text(content)
    with pytest.raises(InvalidInputError, match=text) as caught:
        predict_file(model, tmp_path / "rows.csv", tmp_path / "out.csv", **options)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out.csv").exists()


def test_odd_cells_are_their_own_rows_matter_and_columns_go_by_name(model, tmp_path):
    (tmp_path / "rows.csv").write_text("note,town,age\nx,Oslo,80\ny,Rome,20\n")
    (tmp_path / "odd.csv").write_text("note,town,age\nx,Oslo,80\ny,Rome,20\nz,Bonn,about 50\n,,\n")
    predict_file(model, tmp_path / "rows.csv", tmp_path / "a.csv", proba=True)
    with pytest.warns(UserWarning, match="'age' has 1"):
        predict_file(model, tmp_path / "odd.csv", tmp_path / "b.csv", proba=True)
    plain, odd = pd.read_csv(tmp_path / "a.csv"), pd.read_csv(tmp_path / "b.csv")
    assert plain.columns.tolist() == ["row", "label", "confidence", "p_no", "p_yes"]
    assert plain["label"].tolist() == ["yes", "no"]
    assert odd[:2].equals(plain)
    assert len(odd) == 4


def test_predictions_never_overwrite(model, files, tmp_path):
    (tmp_path / "out.csv").write_text("mine")
    with pytest.raises(RunFolderError, match="exists"):
        predict_file(model, files / "new.csv", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "mine"


@pytest.mark.long
def test_models_of_arrays_and_texts_take_tables_by_place_and_one_column(tmp_path):
    made = table()
    y, texts = (
        made["ill"].to_numpy(),
        np.where(made["ill"] == "yes", "very ill today", "rather well now").astype(object),
    )
    for name, X, rows in (
        ("array", made[["age"]].to_numpy(), "who,x\n007,80\n008,20\n"),
        ("texts", texts, "who,note\n007,very ill\n008,well now\n"),
    ):
        clf = PATEClassifier(budget=Budget(20.0, 1e-4), classes=["no", "yes"], random_state=0)
        clf.fit(X[:N], y[:N], X_public=X[N:]).save(tmp_path / f"{name}.pate")
        (tmp_path / f"{name}.csv").write_text(rows)
        predict_file(tmp_path / f"{name}.pate", tmp_path / f"{name}.csv", tmp_path / f"{name}.out", id="who")
        lines = [line.split(",")[:3:2] for line in (tmp_path / f"{name}.out").read_text().splitlines()]
        assert lines == [["who", "label"], ["007", "yes"], ["008", "no"]]
        (tmp_path / "wide.csv").write_text("a,b\n1,2\n")
        with pytest.raises(InvalidInputError, match="the model takes"):
            predict_file(tmp_path / f"{name}.pate", tmp_path / "wide.csv", tmp_path / "wide.out")
        with pytest.raises(InvalidInputError, match="got a folder"):
            predict_file(tmp_path / f"{name}.pate", tmp_path, tmp_path / "folder.out")


def drawn(folder: Path, names, mode="RGB", size=(10, 8)):
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for i, (name, bright) in enumerate(names):
        shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
        pixels = rng.integers(0, 60, shape).astype(np.uint8)
        pixels[2:6, 2:6] += np.uint8(150 * bright)
        Image.fromarray(pixels, mode).save(folder / f"{name}{i:03d}.png")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("options", [{}, {"n_teachers": 20}])
def test_folders_of_images_are_read_as_the_models_own_were(tmp_path, options):
    drawn(tmp_path / "private" / "bright", [("b", True)] * 60)
    drawn(tmp_path / "private" / "dark", [("d", False)] * 60)
    drawn(tmp_path / "public", [("p", i % 2 == 0) for i in range(40)])
    drawn(tmp_path / "new", [("n", i % 2 == 1) for i in range(6)])
    given = {"classes": ["dark", "bright"], "budget": Budget(20.0, 1e-3), "overlap_is_public": True, **options}
    done = LabelJob(tmp_path / "private", tmp_path / "public", **given)
    done.model(done.run()).save(tmp_path / "m.pate")
    predict_file(tmp_path / "m.pate", tmp_path / "new", tmp_path / "out.csv")
    said = pd.read_csv(tmp_path / "out.csv")
    assert said.columns.tolist()[:2] == ["file", "label"]
    assert said["label"].tolist() == ["dark", "bright"] * 3
    drawn(tmp_path / "small", [("s", True)], size=(5, 4))
    with pytest.raises(InvalidInputError, match="10 x 8 pixels"):
        predict_file(tmp_path / "m.pate", tmp_path / "small", tmp_path / "b.csv")
    predict_file(tmp_path / "m.pate", tmp_path / "small", tmp_path / "b.csv", resize=True)
    with pytest.raises(InvalidInputError, match="the model takes images of 10 x 8 pixels, rgb"):
        predict_file(tmp_path / "m.pate", tmp_path / "out.csv", tmp_path / "c.csv")
    with pytest.raises(InvalidInputError, match="id is for tables"):
        predict_file(tmp_path / "m.pate", tmp_path / "new", tmp_path / "c.csv", id="who")
