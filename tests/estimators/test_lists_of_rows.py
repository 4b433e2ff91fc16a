"""A list of private rows declares neither width nor kind: public facts do, or it is refused whatever its cells are."""

import warnings

import numpy as np
import pytest
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline

from pate import Budget, DPSGDClassifier, DPSGDRegressor, InvalidInputError, PATEClassifier, TeacherEnsemble

N = 60
Y = [i % 2 for i in range(N)]
PUBLIC = np.random.default_rng(0).normal(size=(40, 3))
TRAINING = {"budget": Budget(1.0, 1e-5), "expected_batch_size": 30, "epochs": 1, "measure": False, "noise_seed": 0}
WIDE, NARROW, TEXT = [0.1, 0.2, 0.3], [0.1, 0.2], "a text"
#: Rows of which most are of one kind, and least: no count may tell.
LISTS = [[WIDE] * N, [NARROW] * 31 + [WIDE] * 29, [NARROW] * 29 + [WIDE] * 31, [TEXT] * 31 + [WIDE] * 29, [TEXT] * N]


def teachers() -> TeacherEnsemble:
    return TeacherEnsemble(GaussianNB(), 4, classes=(0, 1), random_state=0)


FITS = {
    "teachers": lambda X: teachers().fit(X, Y),
    "classifier": lambda X: PATEClassifier(budget=Budget(9.0, 1e-5), classes=[0, 1]).fit(X, Y),
    "schema of all columns": lambda X: PATEClassifier(
        budget=Budget(9.0, 1e-5), classes=[0, 1], voters="records"
    ).fit(X, Y, schema=(-4, 4)),
    "DP-SGD": lambda X: DPSGDClassifier("linear", classes=[0, 1], **TRAINING).fit(X, Y),
    "numbers": lambda X: DPSGDRegressor("linear", target_range=(0, 1), **TRAINING).fit(X, Y),
}  # fmt: skip


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_a_list_without_public_facts_is_refused_alike_whatever_its_rows_are(fit):
    told = set()
    for rows in LISTS:
        with pytest.raises(InvalidInputError, match="declared width") as refusal:
            fit(rows)
        told.add(str(refusal.value))
    assert len(told) == 1


@pytest.mark.long
def test_a_row_of_another_length_is_its_own_matter_where_public_rows_or_a_schema_give_the_width():
    few = [*PUBLIC[:20].tolist(), *np.ones((39, 2)).cumsum(axis=0).tolist(), TEXT]
    with pytest.warns(match="40 of 60 records cannot be used"):
        fitted = DPSGDClassifier(classes=[0, 1], **TRAINING).fit(few, Y, schema=[(-4, 4)] * 3)
    assert fitted.n_features_in_ == 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unreadable rows are alike
        voters = teachers().fit(few, Y, X_public=PUBLIC)
    assert voters.n_features_in_ == 3


def test_public_images_give_the_shape_of_a_list_of_private_ones():
    images = [*np.random.default_rng(1).normal(size=(N - 1, 2, 2)), np.zeros((3, 3))]
    with pytest.warns(match="1 of 60 records cannot be used"):
        read = teachers().fit(images, Y, X_public=np.zeros((5, 2, 2)))
    assert read._row_shape == (2, 2)


def test_an_array_of_objects_in_one_dimension_is_texts_by_its_shape():
    for texts in (0, 29, 31):
        rows = np.empty(N, dtype=object)
        rows[:] = [TEXT] * texts + [WIDE] * (N - texts)
        with pytest.raises(InvalidInputError, match="got texts"):
            teachers().fit(rows, Y)


@pytest.mark.parametrize("rows", [[TEXT, "other"] * 30, [TEXT, "other"] * 10 + [WIDE] * 40])
def test_a_vectoriser_says_that_a_row_is_one_text(rows):
    estimator = make_pipeline(HashingVectorizer(n_features=4, alternate_sign=False), MultinomialNB())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of repeats, and of rows that are no text
        fitted = TeacherEnsemble(estimator, 2, classes=(0, 1), random_state=0).fit(rows, Y)
    assert fitted.vote([TEXT]).counts.sum() == 2
