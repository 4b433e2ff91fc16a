"""Private rows passed for public: the mix-up is refused, of a few the curator is warned, one person decides nothing."""

from __future__ import annotations

import os
import shutil
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from pate_of import pate_of
from scipy import sparse
from sklearn.naive_bayes import GaussianNB
from typer.testing import CliRunner

from pate import Budget, InvalidInputError, TeacherEnsemble
from pate.cli import app
from pate.data import check_public_rows
from pate.exceptions import PublicOverlapWarning
from pate.jobs import LabelJob

R = np.random.default_rng(11)
pytestmark = pytest.mark.filterwarnings("ignore::pate.exceptions.StudentWarning")
X = R.normal(size=(300, 4))
Y = (X[:, 0] > 0).astype(int)
PUBLIC = R.normal(size=(80, 4))
BUDGET = Budget(8.0, 1e-5)


class Never(GaussianNB):
    def fit(self, *_):
        raise AssertionError("a teacher was trained")


def classifier(teacher=None, **options):
    return pate_of(
        TeacherEnsemble(teacher or GaussianNB(), 10, partition_seed=0),
        budget=BUDGET,
        classes=[0, 1],
        random_state=0,
        **options,
    )


def outcome(private, public, groups=None):
    """Return "refused", "warned" or "silent"."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            check_public_rows(private, public, groups)
        except InvalidInputError:
            return "refused"
    return "warned" if any(w.category is PublicOverlapWarning for w in warned) else "silent"


# Every function that takes both ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "public", [X, X.copy(), X[100:200], np.vstack([X[:150], PUBLIC])], ids=["itself", "copy", "part", "mixed"]
)
def test_fit_refuses_private_rows_as_public_before_any_training(public):
    with pytest.raises(InvalidInputError, match=r"private records.*overlap is public") as caught:
        classifier(Never()).fit(X, Y, X_public=public)
    # How many, and which, is not for anyone who reads a log.
    assert not any(ch.isdigit() for ch in str(caught.value))
    assert caught.value.__cause__ is None


def test_a_curator_who_declares_them_public_goes_on_and_is_quoted():
    made = classifier(overlap_is_public=True).fit(X, Y, X_public=X).statement_
    said = next(a for a in made.assumptions if a.name == "public rows")
    assert (said.by, said.how) == ("curator", "declared, wherever they also stand")
    checked = classifier().fit(X, Y, X_public=PUBLIC).statement_
    said = next(a for a in checked.assumptions if a.name == "public rows")
    assert said.by == "nobody"
    assert "looked for private rows" in said.how


def test_a_few_private_rows_give_a_warning_and_change_nothing():
    mixed = PUBLIC.copy()
    mixed[[3, 70]] = X[[0, 1]]
    options = {"noise_seed": 3, "student": GaussianNB(), "n_queries": 80, "on_exhausted": "abstain", "measure": False}
    with pytest.warns(PublicOverlapWarning, match="2 of 80 distinct public rows") as warned:
        found = classifier(**options).fit(X, Y, X_public=mixed)
    assert "for the curator alone" in str(warned[0].message)
    same = classifier(overlap_is_public=True, **options).fit(X, Y, X_public=mixed)
    assert found.release_.labels.tolist() == same.release_.labels.tolist()
    assert found.release_.guarantee == same.release_.guarantee
    clean = classifier(**options).fit(X, Y, X_public=PUBLIC)
    assert str(found.statement_.rows()[:-1]) == str(clean.statement_.rows()[:-1])  # the page does not show it


@pytest.fixture
def tables(tmp_path):
    frame = pd.DataFrame(X, columns=list("abcd")).assign(ward=R.choice(["x", "y"], 300), ill=np.where(Y, "yes", "no"))
    frame.to_csv(tmp_path / "private.csv", index=False)
    return frame, tmp_path


def job(folder, public, **options):
    options = {"teacher": Never(), "n_teachers": 10, "budget": BUDGET, "classes": ["no", "yes"], **options}
    return LabelJob(folder / "private.csv", public, target="ill", **options)


@pytest.mark.parametrize("how", ["same file", "link", "copy", "no target", "other order"])
def test_a_job_refuses_private_rows_as_public(tables, how):
    frame, folder = tables
    public = folder / "public.csv"
    if how == "same file":
        public = folder / "private.csv"
    elif how == "link":
        os.symlink(folder / "private.csv", public)
    elif how == "copy":
        shutil.copy(folder / "private.csv", public)
    elif how == "no target":
        frame.drop(columns="ill").to_csv(public, index=False)
    else:
        frame.sample(frac=1, random_state=0)[["ward", "d", "c", "b", "a"]].to_csv(public, index=False)
    before = sorted(p.name for p in folder.iterdir())
    with pytest.raises(InvalidInputError, match="--overlap-is-public"):
        job(folder, public, ledger=folder / "l.sqlite")
    assert sorted(p.name for p in folder.iterdir()) == before  # no ledger, nothing


@pytest.mark.long
def test_the_command_refuses_and_takes_a_persons_word(tables):
    frame, folder = tables
    frame.drop(columns="ill").to_csv(folder / "public.csv", index=False)
    words = ["label", "--private", str(folder / "private.csv"), "--public", str(folder / "private.csv"), "--target",
             "ill", "--classes", "no,yes", "--epsilon", "8", "--teachers", "10", "--teacher", "naive-bayes", "--jobs",
             "1", "--out", str(folder / "labels.csv")]  # fmt: skip
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, InvalidInputError)
    assert "one file" in str(done.exception)
    done = CliRunner().invoke(app, [*words, "--overlap-is-public"])
    assert done.exit_code == 0, done.output
    assert "declared, wherever they also stand" in " ".join((folder / "labels.statement.txt").read_text().split())


def test_a_folder_of_images_cannot_be_both_sides(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for i in range(60):
        for folder in ("private/cat" if i % 2 else "private/dog", "public"):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
            pixels = np.random.default_rng(i).integers(0, 255, (6, 6), dtype=np.uint8)
            image.fromarray(pixels).save(tmp_path / folder / f"{i}.png")
    options = {"budget": BUDGET, "classes": ["cat", "dog"], "n_teachers": 5, "teacher": Never()}
    with pytest.raises(InvalidInputError, match="stand among the private records"):
        LabelJob(tmp_path / "private", tmp_path / "public", **options)


# What is equal -------------------------------------------------------------------------------------------------


def frame(**columns):
    return pd.DataFrame(columns)


@pytest.mark.parametrize(
    ("private", "public"),
    [
        ([[1, 2]], [[1.0, 2.0]]),
        ([[0.0, 1.0]], [[-0.0, 1.0]]),
        ([[np.nan, 1.0]], [[-np.nan, 1.0]]),
        (np.array([[0.1, 0.2]]), np.array([[0.1, 0.2]], dtype=np.float32)),
        (np.array([[True, False]]), np.array([[1, 0]])),
        (frame(a=[1], b=["x"]), frame(a=[1.0], b=["x"])),
        (frame(a=pd.array([None], dtype="Int64"), b=["x"]), frame(a=[np.nan], b=pd.Categorical(["x"]))),
        (frame(a=pd.array([True], dtype="boolean"), b=[None]), frame(a=[1.0], b=pd.Series([None], dtype="string"))),
        (frame(a=[0.1]), frame(a=np.array([0.1], dtype=np.float32))),
        (frame(a=[pd.Timestamp("2020-01-01")]), frame(a=[pd.Timestamp("2020-01-01")])),
        (frame(a=[[1, 2]]), frame(a=[[1, 2]])),
        (sparse.csr_array([[0.0, 2.0]]), sparse.csr_array([[0.0, 2.0]])),
        (sparse.csr_array([[0.0, 2.0]]), sparse.csc_matrix([[-0.0, 2.0]])),
        (np.array(["a text"], dtype=object), np.array(["a text"], dtype=object)),
        (frame(a=[1], b=["\u00e9"]), frame(a=[1], b=["e\u0301 "])),
    ],
)
def test_equal_rows_are_found_whatever_their_types(private, public):
    assert outcome(np.asarray(private) if isinstance(private, list) else private,
                   np.asarray(public) if isinstance(public, list) else public) == "warned"  # fmt: skip


@pytest.mark.parametrize(
    ("private", "public"),
    [
        (np.array([[1.0, 2.0]]), np.array([[2.0, 1.0]])),
        (frame(a=["x"], b=["y"]), frame(a=["y"], b=["x"])),
        (frame(a=["1"], b=[2]), frame(a=["1.0"], b=[2])),
        (sparse.csr_array([[0.0, 2.0]]), sparse.csr_array([[2.0, 0.0]])),
    ],
)
def test_other_rows_are_not(private, public):
    assert outcome(private, public) == "silent"


def test_brute_force_agrees():
    r = np.random.default_rng(0)
    for _ in range(200):
        private = r.integers(0, 12, (r.integers(1, 60), 2)).astype(float)
        public = r.integers(0, 12, (r.integers(1, 40), 2)).astype(float)
        rows = {tuple(p) for p in public}
        mine = [tuple(p) for p in private]
        found = rows & set(mine)
        p = np.mean([mine.count(row) == 1 for row in mine])
        chance = len(rows) * (1 - p)
        expected = "silent"
        if found and len(found) > chance + 3 * np.sqrt(chance * p):
            expected = "warned"
        one = max([1 for row in found if mine.count(row) == 1], default=0)
        new, most = len(rows) - len(found) + one, len(rows) * p
        if sum(row in found for row in mine) >= 25 and new < min(most / 2, most - 5 * np.sqrt(most)):
            expected = "refused"
        assert outcome(private, public) == expected


# Who decides ---------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_no_single_person_brings_a_refusal_about():
    """Whatever one person's records are (thousands of them, every public row among them), the job goes on."""
    r = np.random.default_rng(2)
    for levels in (2, 4, 10**6):  # a coarse table, where different people agree, and a fine one
        for n_people, n_public in ((40, 30), (200, 100), (1000, 60)):
            others = r.integers(0, levels, (n_people, 5)).astype(float)
            public = r.integers(0, levels, (n_public, 5)).astype(float)
            assert outcome(others, public) != "refused"
            noise = r.normal(size=(3000, 5))
            for theirs in (public, np.vstack([public, noise]), np.vstack([public, others, noise]), noise, public[:1]):
                records = np.vstack([others, theirs])
                people = np.concatenate([np.arange(n_people), np.full(len(theirs), n_people)])
                assert outcome(records, public, people) != "refused"
                # Nor one record of theirs, where each is a unit.
                assert outcome(np.vstack([others, theirs[:1]]), public) != "refused"


def test_other_rows_are_let_through_and_copies_are_not():
    """Same population, other people: never refused, seldom warned. The same people: always refused."""
    warned = []
    for seed in range(60):
        r = np.random.default_rng(seed)
        for levels, n in ((2, 500), (3, 500), (30, 2000)):
            people = r.integers(0, levels, (n, 4)).astype(float)
            warned.append(outcome(people, r.integers(0, levels, (200, 4)).astype(float)))
    assert warned.count("refused") == 0
    assert warned.count("warned") <= 0.05 * len(warned)
    fine = np.random.default_rng(0).normal(size=(2000, 4))
    assert outcome(fine, fine[:200].copy()) == "refused"
    assert outcome(fine, fine[:200].copy(), groups=np.arange(2000) // 4) == "refused"
    assert outcome(fine, fine[:20].copy()) == "warned"  # too few to tell a mix-up from one person


@pytest.mark.slow
def test_a_million_rows_take_seconds():
    r = np.random.default_rng(0)
    private, public = r.normal(size=(1_000_000, 10)), r.normal(size=(100_000, 10))
    started = time.perf_counter()
    check_public_rows(private, public)
    assert time.perf_counter() - started < 60
