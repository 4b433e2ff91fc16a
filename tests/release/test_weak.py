"""Budgets that protect no one are used, and not in silence."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from pate import Budget, GaussianSum, GNMax, PATEClassifier, Queries, Votes, plan, release_ballots, release_labels
from pate.dpsgd import DPSGDClassifier
from pate.exceptions import PrivacyParameterWarning
from pate.records import RecordVoters, SignedSpace

VOTES = Votes.from_counts([[9, 1]])
X = np.random.default_rng(0).normal(size=(60, 2))
Y = (X[:, 0] > 0).astype(int)


def by_classifier(budget):
    clf = PATEClassifier(
        GaussianNB(), n_teachers=4, classes=[0, 1], budget=budget, mechanism=GNMax(9.0), queries=Queries(force=True)
    )
    clf.fit(X, Y, X_public=X[:30] + 0.5)
    return clf.statement_


def by_dpsgd(budget):
    clf = DPSGDClassifier(budget=budget, classes=[0, 1], module="linear", epochs=1, expected_batch_size=60)
    return clf.fit(X, Y).statement_


def by_ballots(budget):
    voters = RecordVoters(None, SignedSpace().fit(X[:30] + 0.5), classes=(0, 1))
    return release_ballots(voters.cast(X, Y), GaussianSum(0.1), budget=budget).statement


WAYS = {
    "labels": lambda budget: release_labels(VOTES, GNMax(9.0), budget=budget).statement,
    "ballots": by_ballots,
    "classifier": by_classifier,
    "DP-SGD": by_dpsgd,
    "plan": lambda budget: plan(budget, n_classes=2, n_queries=10),
}


@pytest.mark.parametrize("way", [pytest.param(way, marks=pytest.mark.long) if way == "DP-SGD" else way for way in WAYS])
@pytest.mark.filterwarnings("ignore::pate.exceptions.CuratorWarning", "ignore:X_public")
def test_of_an_epsilon_that_protects_no_one_there_is_a_warning(way):
    with pytest.warns(PrivacyParameterWarning, match="epsilon=1e[+]06 protects no one") as caught:
        made = WAYS[way](Budget(1e6, 1e-5))
    assert sum("protects no one" in str(w.message) for w in caught) >= 1
    if way in ("ballots", "DP-SGD"):
        assert made.to_dict()["tier"] == "weak"
        assert "the number alone is no evidence" in made.meaning
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyParameterWarning)
        WAYS[way](Budget(100.0, 1e-5))
