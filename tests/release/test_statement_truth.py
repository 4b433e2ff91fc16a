"""What a statement says of itself is true: pate saw to it in this run, a person typed it, or it is open."""

from __future__ import annotations

import copy
import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from pate_of import pate_of
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from typer.testing import CliRunner

from pate import (
    Budget,
    GNMax,
    InvalidInputError,
    Ledger,
    LNMax,
    PATEClassifier,
    Queries,
    TeacherEnsemble,
    Votes,
    open_session,
    open_vote_cap,
    release_labels,
)
from pate._core.files import write_json
from pate._core.provenance import git_commit
from pate.cli import app
from pate.exceptions import DuplicateRecordsWarning
from pate.jobs import LabelJob
from pate.mechanisms import VoteCap
from pate.privacy.convert import DEFAULT_ORDERS
from pate.privacy.cost import Charge
from pate.release import LabelSession
from pate.release.statement.files import check_against_ledger, read_statement
from pate.release.statement.model import OPEN_TUNING, Assumption, PrivacyStatement

R = np.random.default_rng(5)
pytestmark = pytest.mark.filterwarnings("ignore::pate.exceptions.StudentWarning")
X = R.normal(size=(400, 3))
Y = (X[:, 0] > 0).astype(int)
PUBLIC = R.normal(size=(60, 3))
BUDGET = Budget(8.0, 1e-5)
VOTES = Votes.from_counts(np.random.default_rng(0).multinomial(250, [0.9, 0.06, 0.04], size=40), n_units=5000)


def fitted(x=X, y=Y, **options):
    options = {"n_teachers": 20, "budget": BUDGET, "classes": [0, 1], "random_state": 0, **options}
    return pate_of(GaussianNB(), **options).fit(x, y, X_public=PUBLIC)


def by(statement):
    return {a.name: a.by for a in statement.assumptions}


# Who vouches ---------------------------------------------------------------------------------------------------


def test_nothing_is_stated_by_the_curator_unless_it_was_typed():
    """Every public function, with nothing stated: what pate did not see to is open."""
    session = open_session(GNMax(40.0), n_queries=40, n_teachers=250, classes=3, budget=BUDGET, n_units=5000)
    cap = open_vote_cap(VoteCap(max_votes=5, sigma=20.0), n_teachers=90, classes=2, budget=BUDGET)
    typed = {"classes"}  # an argument these functions demand
    for statement, allowed in (
        (release_labels(VOTES, GNMax(40.0), budget=BUDGET).statement, set()),
        (session.ask(VOTES).statement, typed),
        (cap.statement, typed),
        (fitted().statement_, typed),
    ):
        assert {name for name, who in by(statement).items() if who == "curator"} <= allowed
        page = statement.text()
        assert page.count("stated by the curator") <= len(allowed)
        assert statement.tuning == OPEN_TUNING
    assert PrivacyStatement(
        released="labels",
        unit="record",
        n_units=1,
        mechanism="m",
        accounting="a",
        guarantee=release_labels(VOTES, GNMax(40.0), budget=BUDGET).guarantee,
        assumptions=("nobody is in twice",),
    ).assumptions == (Assumption(name="stated", claim="nobody is in twice", by="nobody"),)


def test_duplicates_that_were_only_warned_of_are_not_vouched_for():
    """pate looks, warns the curator and goes on: that is no assurance, and the page must not show what was found."""
    double = np.vstack([X, X[:40]])
    labels = np.concatenate([Y, Y[:40]])
    with pytest.warns(DuplicateRecordsWarning):
        found = fitted(double, labels).statement_
    clean = fitted(np.vstack([X, X[:40] + 9]), labels).statement_
    for statement in (found, clean):
        assert by(statement)["duplicates"] == "nobody"
        assert "who decided" not in statement.text()
    assert replace(found, created="", measured=None) == replace(clean, created="", measured=None)


@pytest.mark.long
def test_a_grid_search_says_that_its_fits_are_not_counted(tmp_path):
    estimator = PATEClassifier(
        LogisticRegression(), n_teachers=5, budget=Budget(3.0, 1e-3), classes=[0, 1], queries=Queries(force=True)
    )
    search = GridSearchCV(estimator, {"n_teachers": [4, 5]}, cv=2, error_score="raise")
    best = search.fit(X, Y, X_public=PUBLIC).best_estimator_.statement_  # five fits, epsilon 3 each
    assert by(best)["parameters"] == "nobody"
    assert "grid search" in best.tuning
    assert best.tuning.startswith("open:")
    assert "how many other fits were made on these data is not known" in best.text().replace("\n" + " " * 26, " ")
    with_ledger = PATEClassifier(
        LogisticRegression(),
        n_teachers=5,
        budget=Budget(1.0, 1e-3),
        classes=[0, 1],
        queries=Queries(force=True),
        ledger=Ledger(tmp_path / "l.sqlite", total=Budget(3.0, 1e-3)),
        stated={"tuning": "nothing"},
    ).fit(X, Y, X_public=PUBLIC)
    page = with_ledger.statement_.text()
    assert "nothing (stated by the curator)" in page
    assert "releases 1; head" in page


def test_what_a_person_states_is_theirs_and_takes_nothing_from_pate():
    said = {"one person": "patients are unique by number", "disjoint shards": "one site each", "dataset": "ward 7"}
    made = fitted(stated=said).statement_
    found = {a.name: a for a in made.assumptions}
    assert (found["one person"].by, found["one person"].how) == ("curator", "patients are unique by number")
    assert found["disjoint shards"].by == "pate"
    assert found["disjoint shards"].how.endswith("; the curator states: one site each")
    assert made.dataset == "ward 7"
    assert "data: ward 7" in made.text()
    assert "data: ward 7" in made.html()
    votes = release_labels(VOTES, GNMax(40.0), budget=BUDGET, stated={"own shard only": "three sites"}).statement
    assert by(votes)["own shard only"] == "curator"


@pytest.mark.parametrize(
    "stated",
    [
        {"noise": "we lost the seed"},
        {"duplicate": "none"},
        {"purpose": " "},
        {"purpose": 3},
        "x",
        {3: "x"},
        {"a\n": "b"},
    ],
)
def test_what_cannot_be_stated_is_refused_before_anything_is_spent(stated, tmp_path):
    book = Ledger(tmp_path / "l.sqlite", total=BUDGET)
    with pytest.raises(InvalidInputError, match="stated"):
        release_labels(VOTES, GNMax(40.0), budget=BUDGET, ledger=book, stated=stated)
    with pytest.raises(InvalidInputError, match="stated"):
        PATEClassifier(Never(), n_teachers=20, budget=BUDGET, classes=[0, 1], stated=stated, ledger=book).fit(
            X, Y, X_public=PUBLIC
        )
    for opener in (
        lambda: open_session(
            GNMax(40.0), n_queries=4, n_teachers=9, classes=3, budget=BUDGET, ledger=book, stated=stated
        ),
        lambda: open_vote_cap(VoteCap(5, 20.0), n_teachers=90, classes=2, budget=BUDGET, ledger=book, stated=stated),
    ):
        with pytest.raises(InvalidInputError, match="stated"):
            opener()
    assert book.releases() == []


class Never(GaussianNB):
    def fit(self, *_):
        raise AssertionError("a teacher was trained")


class OtherEnsemble(TeacherEnsemble):
    """An ensemble of another package: pate cannot know what it does with the records."""


def test_pate_vouches_for_its_own_ensembles_alone():
    options = {"n_teachers": 20, "budget": BUDGET, "classes": [0, 1], "student": GaussianNB()}
    own = PATEClassifier(TeacherEnsemble(GaussianNB(), 20), **options).fit(X, Y, X_public=PUBLIC).statement_
    other = PATEClassifier(OtherEnsemble(GaussianNB(), 20), **options).fit(X, Y, X_public=PUBLIC).statement_
    assert by(own)["own shard only"] == "pate"
    assert {name for name, who in by(other).items() if who == "pate"} == {"noise", "public model"}


# The file and its digest ---------------------------------------------------------------------------------------


def leaves(value, at=()):
    if isinstance(value, dict):
        for key in value:
            yield from leaves(value[key], (*at, key))
    elif isinstance(value, list):
        for i, entry in enumerate(value):
            yield from leaves(entry, (*at, i))
    else:
        yield at, value


def put(values, at, new):
    values = copy.deepcopy(values)
    place = values
    for step in at[:-1]:
        place = place[step]
    place[at[-1]] = new
    return values


STATEMENT = fitted(stated={"purpose": "triage"}).statement_.of_file("labels.csv", b"row,label\n")
WRITTEN = json.loads(json.dumps(STATEMENT.to_dict()))


def edited(at, old):
    """Another value of the same kind in a statement's place."""
    return {
        str: lambda: ("nobody" if old != "nobody" else "pate") if at[-1] == "by" else f"{old} " if old else "x",
        bool: lambda: not old,
        int: lambda: old + 1,
        float: lambda: math.nextafter(old, math.inf),
        type(None): lambda: 1,
    }[type(old)]()


def test_one_edited_field_is_caught():
    fields = dict(leaves(WRITTEN))
    assert len(fields) > 50
    for at, old in fields.items():
        with pytest.raises(InvalidInputError):  # noqa: PT012 - the field is said where none is raised
            PrivacyStatement.from_dict(put(WRITTEN, at, edited(at, old)))
            pytest.fail(f"{at} was edited unseen")
        assert PrivacyStatement.from_dict(put(WRITTEN, at, old)) == STATEMENT


def test_the_digest_is_of_the_canonical_json_and_of_nothing_else():
    from hashlib import sha256

    rest = {name: value for name, value in WRITTEN.items() if name != "digest"}
    text = json.dumps(dict(sorted(rest.items(), reverse=True)), sort_keys=True, separators=(",", ":"))
    assert WRITTEN["digest"] == sha256(text.encode()).hexdigest() == STATEMENT.digest
    assert WRITTEN["digest"] in STATEMENT.text()


def with_new_digest(values, at, new):
    """Edit a file as a person who reads the code would: the digest fits again."""
    fields = PrivacyStatement.from_dict(values)
    name = at[0]
    edited = replace(fields, **{name: new})
    return json.loads(json.dumps(edited.to_dict()))


@pytest.mark.long
def test_the_ledger_catches_a_new_digest(tmp_path):
    path = tmp_path / "l.sqlite"
    statement = release_labels(VOTES, GNMax(40.0), budget=BUDGET, ledger=Ledger(path)).statement
    values = json.loads(json.dumps(statement.to_dict()))
    write_json(tmp_path / "a.json", values)
    command = [sys.executable, "-c", "from pate.cli import main; main()", "statement"]
    run = lambda *more: subprocess.run(  # noqa: E731
        [*command, *map(str, more)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run("a.json", "--ledger", path).returncode == 0
    less = replace(statement.guarantee, epsilon=statement.guarantee.epsilon / 2)
    for at, new, what in (
        (("guarantee",), less, "changed: its guarantee.epsilon"),
        (("mechanism",), "GNMax(sigma=80.0), 250 teachers, 3 classes", "changed: its mechanism differs"),
        (("unit",), "group", "changed: .*unit differ"),
        (("n_units",), 9000, "changed: its n_units differs"),
        (("ledger_releases",), (2,), "changed: its ledger_releases differs"),
        (("ledger_releases",), (), "changed: its ledger_releases differs"),
        (("ledger_head",), "ab" * 32, "unknown: no file of this name or content"),
    ):
        edited = with_new_digest(values, at, new)
        with pytest.raises(InvalidInputError, match=what):
            check_against_ledger(PrivacyStatement.from_dict(edited), path)
    edited = with_new_digest(values, ("ledger_head",), "ab" * 32)
    write_json(tmp_path / "b.json", edited)
    done = run("b.json", "--ledger", path)
    assert done.returncode == 2
    assert "unknown" in done.stderr
    assert run("a.json", "--ledger", "none.sqlite").returncode == 2


# The numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [5.0, 40.0])
def test_mu_rho_and_curve_are_the_charges(sigma):
    made = release_labels(VOTES, GNMax(sigma), budget=Budget(50.0, 1e-5)).statement
    charge = GNMax(sigma).charge(40)
    assert made.mu == pytest.approx(math.sqrt(2 * 40) / sigma, rel=1e-12)
    assert made.rho == pytest.approx(40 / sigma**2, rel=1e-12)
    for delta, epsilon in made.curve:
        # Balle and Wang 2018: delta of mu-GDP at this epsilon; the argmax alone may cost less.
        exact = stats.norm.cdf(-epsilon / made.mu + made.mu / 2) - math.exp(epsilon) * stats.norm.cdf(
            -epsilon / made.mu - made.mu / 2
        )
        assert exact >= delta * (1 - 1e-6)
        assert epsilon == charge.guarantee(delta).epsilon
    assert dict(made.curve)[1e-5] == made.guarantee.epsilon
    # rho-zCDP is a line over the whole Renyi curve of what was charged.
    assert all(value <= made.rho * order * (1 + 1e-12) for order, value in zip(DEFAULT_ORDERS, charge.rdp, strict=True))
    text = made.text()
    assert "-GDP" in text
    assert "-zCDP" in text


def test_rho_of_a_pure_mechanism_bounds_its_renyi_curve():
    made = release_labels(VOTES, LNMax(20.0), budget=Budget(50.0, 1e-5)).statement
    charge = LNMax(20.0).charge(40)
    assert made.rho <= charge.pure**2 / 2
    assert all(value <= made.rho * order * (1 + 1e-9) for order, value in zip(DEFAULT_ORDERS, charge.rdp, strict=True))


def test_seeded_noise_has_no_curve_and_no_price_stops_labels():
    made = release_labels(VOTES, GNMax(40.0), budget=BUDGET, noise_seed=1).statement
    assert (made.mu, made.rho, made.curve) == (None, None, ())
    from pate.release.statement.plain import promises

    absurd = Charge(1e308, tuple(1e308 for _ in DEFAULT_ORDERS), math.inf)
    made = replace(STATEMENT, **promises(absurd))
    assert (made.mu, made.rho, made.curve) == (None, None, ())
    made.html()


@pytest.mark.long
def test_versions_and_commit_are_named_without_an_import():
    code = (
        "import sys; from pate.release.statement.model import versions; found = versions();"
        "print('torch' in sys.modules, 'torch' in found, 'dp-accounting' in found)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True"]
    assert STATEMENT.commit == (git_commit() or "")


# The command ---------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_pate_label_names_what_it_is_for(tmp_path):
    names = ["a", "b", "c"]
    pd.DataFrame(X, columns=names).assign(ill=np.where(Y, "yes", "no")).to_csv(tmp_path / "private.csv", index=False)
    pd.DataFrame(PUBLIC, columns=names).to_csv(tmp_path / "public.csv", index=False)
    done = CliRunner().invoke(app, [
        "label", "--private", str(tmp_path / "private.csv"), "--public", str(tmp_path / "public.csv"),
        "--target", "ill", "--classes", "no,yes", "--epsilon", "8", "--teachers", "20", "--teacher", "naive-bayes",
        "--out", str(tmp_path / "labels.csv"), "--dataset-name", "ward 7", "--organisation", "a hospital",
        "--purpose", "triage", "--stated", "one person=patients are unique", "--jobs", "1",
    ])  # fmt: skip
    assert done.exit_code == 0, done.output
    s = read_statement(tmp_path / "labels.statement.json")
    assert (s.dataset, s.organisation, s.purpose, s.label_file) == ("ward 7", "a hospital", "triage", "labels.csv")
    assert {name for name, who in by(s).items() if who == "curator"} == {"one person", "classes"}
    check_against_ledger(s, tmp_path / "private.csv.ledger.sqlite")
    for wrong in ("one person", "one person=a", "persons=b"):
        again = [*("--stated=one person=b",), f"--stated={wrong}"]
        done = CliRunner().invoke(app, [
            "label", "--private", str(tmp_path / "private.csv"), "--public", str(tmp_path / "public.csv"), "--target",
            "ill", "--classes", "no,yes", "--epsilon", "8", "--out", str(tmp_path / "more.csv"), *again,
        ])  # fmt: skip
        assert isinstance(done.exception, InvalidInputError), wrong
    assert not (tmp_path / "more.csv").exists()


@pytest.mark.long
def test_a_job_taken_up_again_does_not_vouch_for_an_earlier_process(tmp_path, monkeypatch):
    """Labels of the first round are of teachers that another process trained: those were not seen here."""
    names = ["a", "b", "c"]
    pd.DataFrame(X, columns=names).assign(ill=np.where(Y, "yes", "no")).to_csv(tmp_path / "private.csv", index=False)
    pd.DataFrame(PUBLIC, columns=names).to_csv(tmp_path / "public.csv", index=False)

    def job(**more):
        return LabelJob(
            tmp_path / "private.csv", tmp_path / "public.csv", target="ill", classes=["no", "yes"], budget=BUDGET,
            teacher="naive-bayes", n_teachers=20, mechanism=GNMax(20.0), n_queries=20, select="uncertain", rounds=3,
            ledger=tmp_path / "l.sqlite", **more,
        )  # fmt: skip

    ask, asked = LabelSession.ask, []

    def dies(self, *args, **more):
        asked.append(1)
        if len(asked) > 1:
            raise KeyboardInterrupt
        return ask(self, *args, **more)

    killed = job()
    with monkeypatch.context() as patch:
        patch.setattr(LabelSession, "ask", dies)
        with pytest.raises(KeyboardInterrupt):
            killed.run()
    made = job().run().statement
    assert {name for name, who in by(made).items() if who == "pate"} == {"noise"}
    (tmp_path / "l.sqlite").rename(tmp_path / "old.sqlite")
    (tmp_path / "l.sqlite.key").rename(tmp_path / "old.sqlite.key")
    assert by(job(new_ledger=True).run().statement)["own shard only"] == "pate"  # all rounds in one process


def test_an_open_assumption_takes_nothing_from_a_stated_one():
    open_ = Assumption(name="duplicates", claim="nobody is in twice")
    stated = open_.vouched("checked by the registry", "curator")
    assert stated.vouched("equal rows were looked for", "nobody") == stated
    assert stated.vouched("ids are unique", "pate").how == "ids are unique; the curator states: checked by the registry"
