"""The classifier warns its curator, before anything is spent, of rows in other units and of classes without records."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from pate_of import pate_of
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

from pate import Budget, InvalidInputError, Ledger
from pate.exceptions import CovariateShiftWarning, CuratorWarning, PrivacyLeakWarning

X, Y = load_digits(return_X_y=True)
PRIVATE, LABELS, PUBLIC = X[:1200], Y[:1200], X[1200:1300]
METHODS = ({}, {"estimator": GaussianNB(), "n_teachers": 20, "partition_seed": 0})


def classifier(**options):
    given = {"budget": Budget(2.0, 1e-4), "classes": range(10), "noise_seed": 0, "random_state": 0}
    return pate_of(**{**given, **options})


def test_of_other_units_there_is_a_warning_before_anything_is_spent(tmp_path):
    for i, method in enumerate(METHODS):
        ledger = Ledger(tmp_path / f"{i}.sqlite")
        with warnings.catch_warnings():
            warnings.simplefilter("error", CovariateShiftWarning)  # who wants to be stopped is, and nothing is spent
            with pytest.raises(CovariateShiftWarning, match="put a scaler inside the estimator"):
                classifier(ledger=ledger, **method).fit(PRIVATE / 16, LABELS, X_public=PUBLIC)
        assert not ledger.releases()


@pytest.mark.long
def test_it_changes_nothing_that_is_released_and_can_be_silenced():
    for method in METHODS:
        with pytest.warns(CovariateShiftWarning):
            warned = classifier(**method).fit(PRIVATE, LABELS, X_public=PUBLIC / 16)
        with warnings.catch_warnings():
            warnings.simplefilter("error", CovariateShiftWarning)
            warnings.simplefilter("ignore", CovariateShiftWarning)
            silent = classifier(**method).fit(PRIVATE, LABELS, X_public=PUBLIC / 16)
            classifier(**method).fit(PRIVATE, LABELS, X_public=PUBLIC)  # honest rows: nothing to say
        assert (warned.release_.labels == silent.release_.labels).all()


@pytest.mark.long
def test_classes_without_records_and_records_that_do_not_vote():
    text = LABELS.astype(str).astype(object)
    text[:30] = "O"
    for method, counted in zip(METHODS, (True, False), strict=True):
        with pytest.warns(CuratorWarning) as heard:
            classifier(classes=[*map(str, range(10)), "ten"], **method).fit(PRIVATE, text, X_public=PUBLIC)
        said = " ".join(str(w.message) for w in heard)
        assert "No record is of the class 'ten'." in said
        assert ("1,170 of 1,200 records (97.5%) vote: 30 of a class outside classes" in said) is counted
        assert "'O'" not in said
        assert counted or "30 of 1200 records cannot be used" in said


@pytest.mark.long
def test_an_amount_is_refused_where_no_class_was_named_and_only_there():
    amounts = np.arange(1200)
    for method in METHODS:
        with pytest.warns(PrivacyLeakWarning), pytest.raises(InvalidInputError, match="that is regression") as caught:
            classifier(classes=None, **method).fit(PRIVATE, amounts, X_public=PUBLIC)
        assert "1199" not in str(caught.value)
        with pytest.warns(CuratorWarning, match="records"):
            classifier(**method).fit(PRIVATE, amounts, X_public=PUBLIC)  # ten of 1,200 vote, and none is refused


@pytest.mark.long
@pytest.mark.parametrize("method", [{}, {"estimator": GaussianNB(), "n_teachers": 20}, {"voters": "dpsgd"}])
def test_a_column_of_ids_among_the_features_is_told_unless_persons_are_protected(method):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.normal(50, 10, 600), "patient": rng.permutation(600) // 3})
    y, public = (rows["age"][:540] > 50).astype(int), rows[540:]
    made = {**method, "classes": [0, 1], "budget": Budget(8.0, 1e-3)}
    said = r"'patient' has 200 values in 540 records.*groups=X\['patient'\]"
    with pytest.warns(CuratorWarning, match=said):
        classifier(**made).fit(rows[:540], y, X_public=public)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        classifier(**made).fit(rows[:540], y, X_public=public, groups=rows["patient"][:540])
    assert not [one for one in told if "as ids of people do" in str(one.message)]
