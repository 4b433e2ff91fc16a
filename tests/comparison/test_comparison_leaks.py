"""Public files and pages of a comparison reveal no private rows or seeds, and state guarantees correctly."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
from contestants_at_play import BUDGETS, DELTA, Fake, Stating, small_data
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.naive_bayes import GaussianNB

from pate import Budget, GNMax, PATEClassifier, Queries, load_dataset
from pate.comparison._report import ComparisonReport
from pate.comparison.run import compare
from pate.data import Dataset, PrivateRows
from pate.exceptions import InvalidInputError, RunFolderError
from pate.privacy.words import Guarantee
from pate.release.statement.model import PrivacyStatement

PUBLIC = ("results.json", "cells.jsonl", "config.json", "report.html", "report.md")
#: Where the shards of every fit were cut.
CUTS: list = []


class Counting(ClassifierMixin, BaseEstimator):
    """Takes groups, states whom it protects and, under replace-one adjacency, how many there are."""

    def __init__(self, adjacency="replace-one", unit=None, budget=None, noise_seed=None, partition_seed=None):
        self.adjacency = adjacency
        self.unit = unit
        self.budget = budget
        self.noise_seed = noise_seed
        self.partition_seed = partition_seed

    def fit(self, X, y, groups=None):
        CUTS.append(self.partition_seed)
        self.model_ = GaussianNB().fit(X, y)
        e = self.budget.epsilon
        unit, n = ("record", len(y)) if groups is None else ("group", len(np.unique(groups)))
        self.statement_ = PrivacyStatement(
            released="labels", unit=self.unit or unit, n_units=n if self.adjacency == "replace-one" else None,
            guarantee=Guarantee(epsilon=e, delta=DELTA, kind="public", method="gdp", adjacency=self.adjacency),
            mechanism="m", accounting="a",
        )  # fmt: skip
        return self

    def predict(self, X):
        return self.model_.predict(X)


def clinic(n=60, groups=None):
    """Return data of so many private records: those of ``small_data``, the first ones once more at the end."""
    data = small_data()
    rows = np.arange(n) % 60
    return replace(data, private=PrivateRows(data.private.X[rows], data.private.y[rows], groups))


def files(folder):
    return {name: (folder / name).read_text(encoding="utf-8") for name in PUBLIC}


# --- sizes -------------------------------------------------------------------------------------------------------


def said_of_sizes(folder):
    """Return what is said of sizes in public files: all settings, the configuration, and the page's sentence."""
    result, config = (json.loads((folder / name).read_text()) for name in ("results.json", "config.json"))
    del config["stamp"]  # when the call was made
    page = (folder / "report.md").read_text()
    return result["settings"], result["n_pool"], config, page[page.index("All contestants get") :].splitlines()[0]


@pytest.mark.long
def test_one_person_more_or_less_of_whose_records_shows_nowhere(tmp_path):
    """Neighbours under replacement of a person have equally many persons, and any number of records."""
    said = []
    for n in (700, 737):
        data = clinic(n, np.r_[np.arange(700) % 200, np.full(n - 700, 5)])
        out = tmp_path / str(n)
        compare({"A": Counting()}, data, budgets=BUDGETS[:1], n_repeats=1, out=out)
        said.append(said_of_sizes(out))
        assert all(str(n) not in json.dumps(part) for part in said[-1])
    assert said[0] == said[1]
    settings, n_pool, _, sentence = said[0]
    assert (settings["unit"], settings["n_units"], n_pool) == ("group", 200, None)
    assert "n_private" not in settings
    assert "200 people with private records, 30 public rows" in sentence


@pytest.mark.long
def test_no_size_of_private_rows_where_presence_is_protected(tmp_path):
    said = []
    for n in (500, 501):
        contestants = {"A": Counting(), "B": Counting(adjacency="add-or-remove")}
        compare(contestants, clinic(n), budgets=BUDGETS[:1], n_repeats=1, out=tmp_path / str(n))
        said.append(said_of_sizes(tmp_path / str(n)))
    assert said[0] == said[1]
    assert not {"n_private", "n_units"} & set(said[0][0])
    silent = compare({"A": Counting(), "B": Fake()}, clinic(500), budgets=BUDGETS[:1], n_repeats=1).result()
    assert "n_private" not in silent.settings, "the adjacency of a contestant without a statement is unknown"


def test_sizes_that_are_public_are_reported():
    call = {"budgets": BUDGETS[:1], "n_repeats": 1}
    assert compare({"A": Counting()}, small_data(), **call).result().settings["n_private"] == 60
    data = small_data()
    named = data.drawn_by(lambda seed: data, published=True, redraws="nothing")
    result = compare({"A": Fake()}, named, **call).result()
    assert (result.settings["n_private"], result.n_pool) == (60, 90)
    assert compare({"A": Fake()}, small_data().pooled(), **call).result().n_pool == 180


# --- sums and promises -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("redraws", "text"), [("all rows", "a public or a test row of another"), ("training rows", "a public row of")]
)
def test_no_epsilon_covers_repeats_with_redrawn_rows(redraws, text):
    pooled = small_data().pooled()

    def drawn(seed):
        return pooled.redrawn(seed) if redraws == "all rows" else replace(pooled.redrawn(seed), test=pooled.test)

    data = small_data().drawn_by(drawn, redraws=redraws)
    first, *_ = compare({"A": Counting()}, data, budgets=BUDGETS, n_repeats=3).notes
    assert f"a private row of one repeat is {text}" in first
    assert "No epsilon covers all repeats together" in first
    assert "those of one repeat cost epsilon = 5 at delta = 2e-05" in first
    assert "15" not in first
    once, *_ = compare({"A": Counting()}, data, budgets=BUDGETS, n_repeats=1).notes
    assert "all of them cost epsilon = 5 at delta = 2e-05" in once


def test_no_sum_of_promises_about_different_neighbours():
    contestants = {"A": Counting(), "B": Counting(adjacency="add-or-remove")}
    notes = compare(contestants, small_data(), budgets=BUDGETS, n_repeats=1).notes
    assert "They do not promise the same, so there is no sum" in notes[0]
    assert "epsilon =" not in notes[0]
    assert any("record, add-or-remove; record, replace-one" in note for note in notes)


@pytest.mark.long
def test_who_protects_less_than_a_person_is_named(tmp_path):
    contestants = {"deaf": Stating(), "mute": Fake(), "lesser": Counting(unit="record"), "whole": Counting()}
    data = small_data(groups=True)
    report = compare(contestants, data, budgets=BUDGETS[:1], n_repeats=1, out=tmp_path)
    (warning,) = [note for note in report.notes if "was not given the owners" in note]
    assert warning.startswith("deaf, mute: ")
    (warning,) = [note for note in report.notes if "promise is for one record" in note]
    assert warning.startswith("lesser: ")
    assert ComparisonReport.load(tmp_path).notes == report.notes
    alone = compare({"deaf": Stating()}, data, budgets=BUDGETS[:1], n_repeats=1)
    assert any("was not given the owners" in note for note in alone.notes)
    fine = compare({"whole": Counting()}, data, budgets=BUDGETS[:1], n_repeats=1)
    assert not any("the owners of the private rows" in note or "for one record" in note for note in fine.notes)
    records = compare({"deaf": Stating()}, small_data(), budgets=BUDGETS[:1], n_repeats=1)
    assert not any("the owners of the private rows" in note or "for one record" in note for note in records.notes)


def test_a_person_guarantee_of_a_fit_without_groups_is_refused():
    with pytest.raises(InvalidInputError, match="promises to protect one group, but its fit takes no groups"):
        compare({"A": Stating(unit="group")}, small_data(groups=True), budgets=BUDGETS, n_repeats=1)


# --- shards ------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.sample
@pytest.mark.parametrize("published", [False, True])
def test_the_curators_own_epsilon_is_in_the_curators_files_alone(tmp_path, published):
    data = load_dataset("digits", n_private=600, n_public=100)
    if not published:
        data = Dataset("mine", classes=data.classes, private=data.private, public=data.public, test=data.test)
    assert data.published is published
    mine = PATEClassifier(GaussianNB(), n_teachers=30, classes=range(10), mechanism=GNMax(2.0), queries=Queries(20))
    call = {"budgets": [Budget(30.0, DELTA)], "n_repeats": 1, "noise_seed": 1}
    report = compare({"mine": mine}, data, out=tmp_path, analysis="data-dependent", **call)
    (epsilon,) = [cost.data_dependent_epsilon for cost in report.costs]
    assert epsilon < 0.99 * report.statements["mine", 30.0].guarantee.epsilon
    secrets = [f"{epsilon:.4g}", f"{epsilon:.6f}"]
    inside = (tmp_path / "sensitive.html").read_text(encoding="utf-8")
    assert secrets[0] in inside
    # Said over the picture, in the table and beside them.
    for said in ("PRIVATE to the curator, not for publication", "Data-dependent ε, PRIVATE", "not publishable"):
        assert said in inside
    assert (tmp_path / "sensitive.html").stat().st_mode & 0o777 == 0o600
    report.save(tmp_path)
    report.save(tmp_path / "again")
    public = [p for p in tmp_path.rglob("*") if p.is_file() and p.name != "sensitive.html"]
    public = [p for p in public if "resume.private" not in p.parts and "cache" not in p.parts]
    assert len(public) >= 12
    for text in [*(p.read_bytes().decode("latin-1") for p in public), repr(report), report._repr_html_()]:
        for said in (*secrets, "PRIVATE to the curator", "by its votes"):
            assert said not in text
    assert secrets[1][:7] in (tmp_path / "resume.private" / "costs.jsonl").read_text()
    # Drawn when asked for by name, and never from files that may be published.
    drawn = report.plot(analysis="data-dependent")
    assert drawn.figure_.get_suptitle().startswith("PRIVATE to the curator, not for publication")
    (own,) = [line for line in drawn.ax_.lines if line.get_label() == "mine, by its votes: PRIVATE"]
    assert own.get_xdata() == [epsilon]
    assert "PRIVATE" not in "".join(report.plot().ax_.get_legend_handles_labels()[1])
    with pytest.raises(InvalidInputError, match="no fit of it has a data-dependent epsilon"):
        ComparisonReport.load(tmp_path).plot(analysis="data-dependent")


def test_shards_of_data_that_are_not_published_are_cut_by_a_secret():
    data = small_data()
    named = data.drawn_by(lambda seed: data, published=True, redraws="nothing")

    def cut(data, **more):
        CUTS.clear()
        compare({"A": Counting(partition_seed=77)}, data, budgets=BUDGETS[:1], n_repeats=1, **more)
        return CUTS[0]

    assert cut(data) is None
    assert cut(data, random_state=3) is None
    assert cut(named, random_state=None) is None
    assert cut(named) == cut(named) not in (None, 77)
    assert cut(data, noise_seed=1) == cut(data, noise_seed=1) not in (None, 77)


def test_shards_that_may_be_known_are_noted_on_the_page():
    data = small_data()
    teachers = PATEClassifier(GaussianNB(), n_teachers=5, classes=range(3), queries=Queries(9, force=True))
    call = {"budgets": [Budget(8.0, DELTA)], "n_repeats": 1}
    warning = "shards were cut by a seed that may be known"
    secret = compare({"T": teachers}, data, **call)
    assert not any(warning in note for note in secret.notes)
    named = data.drawn_by(lambda seed: data, published=True, redraws="nothing")
    known = compare({"T": teachers, "A": Counting()}, named, **call)
    (note,) = [note for note in known.notes if warning in note]
    assert note.startswith("T: ")
    assert "so there is no sum" in known.notes[0], "the one promises more than the other"


# --- seeds and digests -------------------------------------------------------------------------------------------


def test_no_public_file_has_seeds_of_noise_or_shards_nor_what_finds_them(tmp_path):
    noise, shards, own = 471_100_003, 815_200_007, 923_300_011
    contestants = {"A": Counting(noise_seed=own, partition_seed=shards)}
    compare(contestants, small_data(), budgets=BUDGETS, n_repeats=1, noise_seed=noise, out=tmp_path)
    texts = files(tmp_path)
    for name, text in texts.items():
        for seed in (noise, shards, own):
            assert str(seed) not in text, name
            assert f"{seed:,}" not in text, name
        assert hashlib.sha256(f"noise {noise}".encode()).hexdigest() not in text, name
    assert json.loads(texts["config.json"])["noise"] == "given"
    assert "Counting(" in texts["report.html"], "the description of the contestant stays"


def test_public_files_have_no_digest_of_anything(tmp_path):
    """Who knows all test rows but one label would try that out; so with one unknown seed of a recipe."""
    compare({"A": Counting()}, small_data(), budgets=BUDGETS, n_repeats=1, out=tmp_path)
    kept = json.loads((tmp_path / "resume.private" / "fingerprint.json").read_text())["sha256"]
    assert set(kept) == {"contestants", "noise", "public rows", "test rows", "private rows"}
    for name, text in files(tmp_path).items():
        assert not [what for what, digest in kept.items() if digest in text], name


@pytest.mark.long
def test_another_label_of_a_test_row_is_another_comparison(tmp_path):
    call = {"budgets": BUDGETS, "n_repeats": 1, "out": tmp_path}
    data = small_data()
    compare({"A": Counting()}, data, **call)
    y = data.test.y.copy()
    y[0] = (y[0] + 1) % 3
    with pytest.raises(RunFolderError, match=r"other test rows\)"):
        compare({"A": Counting()}, replace(data, test=replace(data.test, y=y)), **call)


def test_it_is_said_that_test_rows_are_public():
    notes = compare({"A": Counting()}, small_data(), budgets=BUDGETS, n_repeats=1).notes
    assert "test rows and their labels are taken to be public" in notes[1]
