"""Columns of a table are known by name: another order is the same table, another name is an error that says so."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from pate_of import pate_of
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pate import (
    Budget,
    DPSGDClassifier,
    HeadTeacherEnsemble,
    PATEClassifier,
    RecordVoters,
    TeacherEnsemble,
    TorchTeacherEnsemble,
)
from pate.exceptions import InvalidInputError
from pate.networks import MLP
from pate.records import SignedSpace
from pate.representations import PublicPCA

RNG = np.random.default_rng(0)
NAMES = ["age", "dose", "weight", "height"]
#: Columns of very different scales: exchanged, they are another table.
TABLE = pd.DataFrame(RNG.normal(size=(260, 4)) * [1, 5, 30, 200] + [40, 10, 70, 150], columns=NAMES)
Y = (TABLE["dose"] + TABLE["age"] > 50).to_numpy().astype(int)[:200]
X, PUBLIC = TABLE.iloc[:200], TABLE.iloc[200:]
TURNED = PUBLIC[NAMES[::-1]]
OTHER = PUBLIC.rename(columns={"dose": "Dose"})
SETTINGS = {"budget": Budget(1e3, 1e-3), "classes": [0, 1], "random_state": 0, "noise_seed": 1}
BY = {"n_teachers": 10, "partition_seed": 0}
SCALED = make_pipeline(StandardScaler(), LogisticRegression())
ESTIMATORS = {
    "records": PATEClassifier(**SETTINGS),
    "shards": pate_of(SCALED, **BY, **SETTINGS),
    "heads": pate_of(voters="heads", **BY, **SETTINGS),
    "DP-SGD by a recipe": DPSGDClassifier(**SETTINGS),
    "DP-SGD": DPSGDClassifier("linear", expected_batch_size=20, **SETTINGS),
}


@pytest.mark.long
@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_takes_public_rows_and_rows_to_predict_in_any_order(name):
    clf = clone(ESTIMATORS[name]).fit(X, Y, X_public=PUBLIC)
    turned = clone(ESTIMATORS[name]).fit(X, Y, X_public=TURNED)
    wanted = clf.predict_proba(PUBLIC)
    assert wanted.std(axis=0).max() > 0
    for found in (turned.predict_proba(PUBLIC), clf.predict_proba(TURNED), turned.predict_proba(TURNED)):
        np.testing.assert_array_equal(found, wanted)
    assert clf.feature_names_in_.tolist() == NAMES
    with pytest.raises(InvalidInputError, match=r"X has other columns .*lacks 'dose'; it also has 'Dose'"):
        clf.predict(OTHER)
    if name != "DP-SGD":  # has no use for public rows
        with pytest.raises(InvalidInputError, match=r"has other columns .*'[dD]ose'.*: rename, add or drop"):
            clone(ESTIMATORS[name]).fit(X, Y, X_public=OTHER)


ENSEMBLES = {
    "scikit-learn": TeacherEnsemble(SCALED, 5, classes=[0, 1], random_state=0, partition_seed=0),
    "torch": TorchTeacherEnsemble(MLP, 3, classes=[0, 1], epochs=2, device="cpu", random_state=0, partition_seed=0),
    "heads": HeadTeacherEnsemble(PublicPCA(3).fit(PUBLIC), 5, classes=[0, 1], random_state=0, partition_seed=0),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ENSEMBLES)
def test_teachers_take_them_too(name):
    teachers, turned = (clone(ENSEMBLES[name]).fit(X, Y, X_public=public) for public in (PUBLIC, TURNED))
    wanted = teachers.vote(PUBLIC).counts
    for found in (teachers.vote(TURNED), turned.vote(PUBLIC)):
        np.testing.assert_array_equal(found.counts, wanted)
    with pytest.raises(InvalidInputError, match=r"lacks 'dose'; it also has 'Dose'"):
        teachers.vote(OTHER)


def test_records_cast_the_same_ballots():
    fitted = PublicPCA(3).fit(PUBLIC)
    for representation, space in (
        (fitted, SignedSpace().fit(fitted.transform(PUBLIC))),
        (None, SignedSpace().fit(PUBLIC)),
    ):
        voters = RecordVoters(representation, space, classes=2)
        sums = voters.cast(X, Y).sums
        assert sums.any()
        assert (voters.cast(X[NAMES[::-1]], Y).sums == sums).all()
        with pytest.raises(InvalidInputError, match=r"lacks 'dose'; it also has 'Dose'"):
            voters.cast(X.rename(columns={"dose": "Dose"}), Y)


def test_shards_say_it_where_one_of_both_has_no_names():
    with pytest.raises(InvalidInputError, match="X_public must be a DataFrame"):
        clone(ESTIMATORS["shards"]).fit(X, Y, X_public=PUBLIC.to_numpy())
