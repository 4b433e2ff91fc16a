"""Every statement that Python hands out is known to the ledger that was charged for it, word for word."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

from pate import (
    Budget,
    DPSGDClassifier,
    GaussianSum,
    GNMax,
    Ledger,
    PATEClassifier,
    Queries,
    RecordVoters,
    Votes,
    open_ballot_session,
    open_session,
    open_vote_cap,
    release_ballots,
    release_labels,
)
from pate.exceptions import InvalidInputError, LedgerError, PateWarning
from pate.mechanisms import VoteCap
from pate.records import SignedSpace
from pate.release.statement.files import check_against_ledger

BUDGET, TOTAL = Budget(4.0, 1e-3), Budget(20.0, 1e-3)
VOTES = Votes.from_counts([[8, 1], [2, 7]], query_hashes=("aa", "bb"), classes=(0, 1), unit="record", n_units=90)
X, Y = np.arange(40.0).reshape(40, 1), np.repeat([0, 1], 20)


def labels(ledger):
    return release_labels(VOTES, GNMax(9.0), budget=BUDGET, ledger=ledger).statement


def labels_of_two_releases(ledger):
    """The statement quotes the ledger's total."""
    labels(ledger)
    more = replace(VOTES, counts=np.array([[8, 1], [7, 2]]), query_hashes=("aa", "cc"))
    statement = release_labels(more, GNMax(9.0), budget=BUDGET, ledger=ledger).statement
    assert statement.ledger_releases == (1, 2)
    assert statement.guarantee.epsilon == TOTAL.epsilon
    return statement


def stored_labels(ledger):
    labels(ledger)
    return labels(ledger)


def seeded(ledger):
    return release_labels(VOTES, GNMax(9.0), budget=BUDGET, ledger=ledger, noise_seed=1).statement


def session(ledger):
    with open_session(
        GNMax(9.0), n_queries=2, n_teachers=9, classes=2, budget=BUDGET, n_units=90, ledger=ledger
    ) as opened:
        first = opened.ask(replace(VOTES, counts=VOTES.counts[:1], query_hashes=("aa",))).statement
        check_against_ledger(first, ledger.path)
        return opened.ask(VOTES).statement


def capped_votes(ledger):
    run = open_vote_cap(VoteCap(3, 8.0), n_teachers=9, classes=2, budget=BUDGET, ledger=ledger)
    check_against_ledger(run.statement, ledger.path)
    run.ask(np.zeros((9, 1), dtype=int))
    return run.statement


def ballots():
    return RecordVoters(None, SignedSpace().fit(np.eye(3)), classes=2).cast(
        np.repeat(np.eye(3), 10, axis=0), [0, 1, 1] * 10
    )


def one_sum(ledger):
    return release_ballots(ballots(), GaussianSum(9.0), budget=BUDGET, ledger=ledger).statement


def rounds(ledger):
    opened = open_ballot_session(BUDGET, shares=[0.5, 0.5], classes=2, n_units=30, ledger=ledger)
    return opened.ask(ballots()).statement


def classifier(ledger):
    clf = PATEClassifier(n_teachers=4, budget=BUDGET, classes=[0, 1], ledger=ledger, queries=Queries(force=True))
    return clf.fit(X, Y, X_public=X[::4] + 0.5).statement_


def dpsgd(ledger):
    return (
        DPSGDClassifier("linear", budget=BUDGET, classes=[0, 1], epochs=1, expected_batch_size=8, ledger=ledger)
        .fit(X / 40, Y)
        .statement_
    )


#: What a forger might say instead.
CHANGES = {"threat_model": "anybody", "noise_source": "dice", "mu": 1e-3, "curve": ((1e-6, 1e-3),), "assumptions": ()}


@pytest.mark.parametrize(
    "make",
    [
        labels,
        labels_of_two_releases,
        stored_labels,
        seeded,
        session,
        capped_votes,
        one_sum,
        rounds,
        *(pytest.param(make, marks=pytest.mark.long) for make in (classifier, dpsgd)),
    ],
)
def test_a_statement_is_known_and_an_edited_one_refused(make, tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", total=TOTAL)
    spent_before = ledger.spent
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of settings as small as these
        statement = make(ledger)
    check_against_ledger(statement, ledger.path)
    (tmp_path / "mine.json").write_text(json.dumps(statement.to_dict()))
    assert ledger.verify(files=[tmp_path / "mine.json"]).as_released
    for name, value in CHANGES.items():
        if not (statement.seeded and name in ("mu", "curve")):  # seeded noise promises nothing in any case
            with pytest.raises(InvalidInputError, match=rf"changed: its (.*, )?{name}.* differ"):
                check_against_ledger(replace(statement, **{name: value}), ledger.path)
    assert ledger.spent > spent_before
    assert ledger.spent == pytest.approx(sum(row.price for row in ledger.releases()))


@pytest.mark.long
def test_a_model_saved_by_hand_is_known_whole(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = PATEClassifier(n_teachers=4, budget=BUDGET, classes=[0, 1], ledger=ledger, queries=Queries(force=True))
        clf.fit(X, Y, X_public=X[::4] + 0.5).save(tmp_path / "model.pate")
    assert ledger.verify(files=[tmp_path / "model.pate"]).as_released
    (tmp_path / "copy.pate").write_bytes((tmp_path / "model.pate").read_bytes())
    assert ledger.verify(files=[tmp_path / "copy.pate"]).as_released
    other = Ledger(tmp_path / "other.sqlite")
    other.open_total(BUDGET)
    assert [file.status for file in other.verify(files=[tmp_path / "copy.pate"]).files] == ["unknown"]
    with pytest.raises(LedgerError, match="has 0 releases: nothing of release 1 can be bound"):
        other.bind(tmp_path / "copy.pate")
    with pytest.raises(InvalidInputError, match=r"nowhere.csv.* cannot be read"):
        ledger.verify(files=["nowhere.csv"])


def test_what_was_paid_for_is_handed_out_even_where_nothing_can_be_bound(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "ledger.sqlite")

    def full(*_, **__):
        raise LedgerError("the disk is full.")

    monkeypatch.setattr(Ledger, "bind", full)
    with pytest.warns(PateWarning, match="pate verify` will not know it: the disk is full"):
        release = release_labels(VOTES, GNMax(9.0), budget=BUDGET, ledger=ledger)
    assert len(release.labels) == 2
    monkeypatch.undo()
    with pytest.raises(InvalidInputError, match="for which no file was bound"):
        check_against_ledger(release.statement, ledger.path)
    ledger.bind(release.statement.to_dict())
    check_against_ledger(release.statement, ledger.path)
