"""Texts that differ only by outer blanks or Unicode form are one, whoever compares them: what is released is the same.

Noise and cuts are seeded, so that equal data give equal releases.
"""

from __future__ import annotations

import unicodedata
import warnings

import numpy as np
import pandas as pd
import pytest
from dpsgd_steps import by_value
from pate_of import pate_of
from sklearn.naive_bayes import GaussianNB

from pate import Budget, CallableTeachers, DPSGDClassifier, InvalidInputError, PATERegressor, TeacherEnsemble
from pate._core.checks import check_classes
from pate._core.curator import warn_curator
from pate.comparison.baselines import PrivateKNN
from pate.data import Schema, TableEncoder, about_records, about_shift, copula
from pate.federation import SiteRecords
from pate.records import Tiers
from pate.representations import TableMap
from pate.teachers import about_labels, class_indices

N = 80
RNG = np.random.default_rng(0)
TOWNS = np.array(["Malm\u00f6", "Oslo"], dtype=object)
CLASSES = ("n\u00e9", "oui")


def people(n):
    old = RNG.random(n) < 0.5
    town = TOWNS[np.where(RNG.random(n) < 0.8, old, ~old).astype(int)]
    rows = {"age": np.where(old, 60.0, 40.0) + (12 * RNG.normal(size=n)).round(1), "town": town}
    rows |= {"ge\u0301nie": RNG.random(n).round(2)}
    return pd.DataFrame(rows), np.array(CLASSES, dtype=object)[old.astype(int)]


X, Y = people(N)
PUBLIC, _ = people(40)
GROUPS = np.array([f"Zo\u00eb {i // 2}" for i in range(N)], dtype=object)


def respelt(cells):
    """Return texts of which every second one has another Unicode form, or blanks around it."""
    ways = (str, lambda text: unicodedata.normalize("NFD", text), lambda text: f"\u00a0{text} \n")
    return np.array([ways[i % 3](cell) for i, cell in enumerate(cells)], dtype=object)


def labels_respelt(X, y, groups):
    return X, respelt(y), groups


def ids_respelt(X, y, groups):
    return X, y, respelt(groups)


def categories_respelt(X, y, groups):
    return X.assign(town=respelt(X["town"])), y, groups


def columns_respelt(X, y, groups):
    return X[["ge\u0301nie", "age", "town"]].set_axis([" g\u00e9nie", "age\u00a0", "town "], axis=1), y, groups


SCHEMA = {"age": (0, 120), "ge\u0301nie ": (0, 1), "town": [" Oslo", "Malmo\u0308"]}
SEEDS = {"budget": Budget(50.0, 1e-3), "classes": CLASSES, "random_state": 0, "noise_seed": 1}


def pate(**options):
    return pate_of(**SEEDS, overlap_is_public=True, **options)


def by(clf):
    return lambda X, y, g: clf().fit(X, y, X_public=PUBLIC, groups=g).predict_proba(PUBLIC)


TAKERS = {
    "teachers": lambda X, y, g: TeacherEnsemble(
        GaussianNB(), 10, classes=CLASSES, random_state=0, partition_seed=0
    ).fit(encoded(X), y, groups=g).vote(encoded(PUBLIC)).counts,
    "PATE by records": by(lambda: pate()),
    "PATE by shards": lambda X, y, g: pate(estimator=GaussianNB(), n_teachers=10, n_queries=30, partition_seed=0).fit(
        encoded(X), y, X_public=encoded(PUBLIC), groups=g
    ).release_.labels,
    "PATE by heads": lambda X, y, g: pate(voters="heads", n_teachers=10, n_queries=30, partition_seed=0).fit(
        X, y, X_public=PUBLIC, groups=g
    ).release_.labels,
    "DP-SGD by a recipe": by(lambda: DPSGDClassifier(**by_value(**SEEDS))),
    "PATE by a schema": lambda X, y, g: pate().fit(X, y, schema=SCHEMA, groups=g).predict_proba(PUBLIC),
    "DP-SGD by a schema": lambda X, y, g: DPSGDClassifier(**by_value(**SEEDS)).fit(
        X, y, schema=SCHEMA, groups=g
    ).predict_proba(PUBLIC),
    "a number": lambda X, y, g: PATERegressor(
        budget=SEEDS["budget"], target_range=(0, 1), random_state=0, noise_seed=1
    ).fit(X, (class_indices(y, CLASSES) == 1) * 1.0, X_public=PUBLIC, groups=g).predict(PUBLIC),
    "private kNN": lambda X, y, g: PrivateKNN(**SEEDS, overlap_is_public=True, n_queries=30).fit(
        X, y, X_public=PUBLIC, groups=g
    ).release_.labels,
}  # fmt: skip
ENCODER = TableEncoder().fit(PUBLIC)
encoded = ENCODER.transform


@pytest.mark.few(2)
@pytest.mark.parametrize("change", [labels_respelt, categories_respelt, columns_respelt, ids_respelt])
@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.filterwarnings("ignore::pate.exceptions.CuratorWarning", "ignore::UserWarning")
def test_spellings_of_one_text_give_one_release(taker, change):
    release = TAKERS[taker]
    one, other = release(X, Y, GROUPS), release(*change(X, Y, GROUPS))
    np.testing.assert_array_equal(one, other)


def test_a_sites_columns_fit_public_ones_of_another_spelling():
    records = SiteRecords(columns_respelt(X, Y, None)[0], Y, classes=CLASSES)
    assert not records.amiss(["age", "town", "ge\u0301nie"])
    assert "lacks ['dose'] and has ['g\u00e9nie'] besides" in records.amiss(["age", "town ", "dose"])


# What the curator is told, and nobody else -------------------------------------------------------------------------


@pytest.fixture
def told(caplog):
    """What "pate.private" hears, which is off, of a call; and the warnings, which quote no cell."""
    caplog.set_level("WARNING", "pate.private")

    def of(call):
        caplog.clear()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            call()
        heard, said = "\n".join(caplog.messages), "\n".join(str(one.message) for one in warned)
        return heard, said

    return of


@pytest.mark.parametrize(("label", "reason"), [("OUI", "case"), ("\uff4fui", "compatibility form")])
def test_a_label_that_differs_in_case_or_compatibility_form_is_named_with_that_reason(told, label, reason):
    y = np.array([label, *Y[1:]], dtype=object)
    heard, said = told(lambda: warn_curator(about_labels(y, None, CLASSES)))
    assert f"1 record has {label!r}, which differs from 'oui' in {reason} alone: is that meant?" in heard
    assert "1 differ from a class in case or compatibility form alone, and are of none" in said
    assert label not in said


def test_a_category_that_differs_in_case_or_compatibility_form_is_named_with_that_reason(told):
    towns = np.array(["OSLO", "\uff2fslo", *X["town"][2:]], dtype=object)
    for look in (
        lambda: about_shift(X.assign(town=towns), PUBLIC),
        lambda: copula.about_cells(X.assign(town=towns), Schema.declared(SCHEMA)),
    ):
        heard, said = told(lambda look=look: warn_curator(look()))
        assert "1 record has 'OSLO', which differs from 'Oslo' in case alone" in heard
        assert "1 record has '\uff2fslo', which differs from 'Oslo' in compatibility form alone" in heard
        assert "'town' has 2 cells that are of no public category, but for case or compatibility form" in said
        assert "OSLO" not in said


def test_what_was_joined_is_told(told):
    heard, said = told(lambda: warn_curator(about_labels(respelt(Y), None, CLASSES)))
    assert "y has 2 texts in several spellings (outer blanks, Unicode form), read as one" in said
    frame = X.assign(town=respelt(X["town"]))
    heard, said = told(lambda: warn_curator(about_records(frame, respelt(GROUPS.repeat(3)[:N]))))
    assert "the column 'town' has 2 texts in several spellings" in said
    assert "groups has 14 texts in several spellings" in said
    assert "Oslo" not in said + heard
    heard, said = told(lambda: pate().fit(X, Y, schema=SCHEMA, groups=respelt(GROUPS.repeat(3)[:N])))
    assert "groups has 14 texts in several spellings" in said
    assert not [*about_records(X, GROUPS), *about_labels(Y, GROUPS, CLASSES)]


def test_tiers_are_compared_as_texts_are_and_the_nearest_is_named():
    budgets = {"g\u00e9nie": Budget(3.0, 1e-5), "basic ": Budget(1.0, 1e-5)}
    assert Tiers.of(budgets, ["ge\u0301nie", " basic"]).codes.tolist() == [1, 0]
    with pytest.raises(InvalidInputError, match=r"got 'BASIC'\. Did you mean 'basic'\?"):
        Tiers.of(budgets, ["BASIC"])
    with pytest.raises(InvalidInputError, match="names of tiers must differ by more than outer blanks"):
        Tiers.of({"a": Budget(3.0, 1e-5), "a ": Budget(1.0, 1e-5)}, ["a"])


# Categories -------------------------------------------------------------------------------------------------------


def test_two_spellings_of_a_public_category_are_one():
    towns = pd.DataFrame({"town": [*respelt(TOWNS[:1].repeat(3)), *["Oslo"] * 3]})
    assert TableMap().fit(towns).cells_.categories == (("Malm\u00f6", "Oslo"),)
    assert TableEncoder().fit(towns).get_feature_names_out().tolist() == ["town_Malm\u00f6", "town_Oslo"]
    one, other = (
        TableMap().fit(PUBLIC).transform(X.assign(town=pd.Categorical(t))) for t in (X["town"], respelt(X["town"]))
    )
    np.testing.assert_array_equal(one, other)
    assert Schema.learn(towns).columns[0].categories == ("Malm\u00f6", "Oslo")


@pytest.mark.parametrize("towns", [["Oslo", "Oslo "], ["Malm\u00f6", "Rome", "Malmo\u0308"]])
def test_declared_categories_that_are_one_are_refused_with_the_reason(towns):
    with pytest.raises(InvalidInputError, match=r"'town' must differ by more than outer blanks"):
        Schema.declared({"town": towns})


# Labels -----------------------------------------------------------------------------------------------------------


def test_labels_are_compared_with_classes_in_nfc_without_blanks():
    found = class_indices(np.array(["ne\u0301 ", "oui\t", " n\u00e9", "non", "Oui", None], dtype=object), CLASSES)
    assert found.tolist() == [0, 1, 0, -1, -1, -1]
    assert class_indices(["a", "b"], ("a ", "b\u00a0")).tolist() == [0, 1]  # declared with blanks, too
    assert class_indices(np.array(["1 ", "1"]), (1, 2)).tolist() == [-1, -1]  # a text is no number


@pytest.mark.parametrize("twice", [("a", "a "), ("\u00e9", "b", "e\u0301")])
def test_classes_that_are_one_when_compared_are_refused_with_the_reason(twice):
    with pytest.raises(InvalidInputError, match=r"differ by more than outer blanks or Unicode form, got .* and"):
        check_classes(twice)


@pytest.mark.filterwarnings("ignore::pate.exceptions.PrivacyLeakWarning")
def test_classes_read_off_labels_are_one_for_all_their_spellings():
    y = respelt(Y)
    clf = TeacherEnsemble(GaussianNB(), 4, random_state=0).fit(encoded(X), y)
    assert list(clf.classes_) == list(CLASSES)
    blank = TeacherEnsemble(GaussianNB(), 4, random_state=0).fit(encoded(X), [f"{label} " for label in Y])
    assert list(blank.classes_) == [f"{name} " for name in CLASSES]  # as all labels are written


@pytest.mark.filterwarnings("ignore::pate.exceptions.CuratorWarning", "ignore::UserWarning")
def test_a_score_counts_every_spelling_of_the_right_class_and_predict_takes_those_of_columns():
    clf = pate().fit(X, Y, X_public=PUBLIC)
    assert clf.score(X, respelt(Y)) == clf.score(X, Y) > 0.7
    np.testing.assert_array_equal(clf.predict(columns_respelt(X, Y, None)[0]), clf.predict(X))


def test_a_function_may_answer_with_another_spelling():
    teachers = CallableTeachers([lambda rows: [" oui\n"] * len(rows), lambda rows: ["ne\u0301"] * len(rows)],
                                classes=CLASSES)  # fmt: skip
    assert teachers.vote(["a", "b"]).counts.tolist() == [[1, 1], [1, 1]]
