"""Whose votes a release is of, and that what is said of it is what was charged, whatever was planned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pate import Budget, ConfidentGNMax, GNMax, Ledger, LNMax, NoisyHistogram, Votes, open_session, release_labels
from pate.exceptions import InvalidInputError, LedgerError
from pate.ledger import Registration
from pate.release import Asking, BatchPlan, Evidence, ReleaseTerms

BUDGET = Budget(9.0, 1e-5)
OURS, THEIRS = "aa" * 32, "bb" * 32
ROWS = np.zeros((6, 1))


def votes(key, fingerprint=OURS, n_units=None):
    return replace(Votes.from_counts([[98, 2]], query_hashes=(key,), n_units=n_units), fingerprint=fingerprint)


def session(ledger=None, **said):
    return open_session(GNMax(2.0), n_queries=4, n_teachers=100, classes=2, budget=BUDGET, ledger=ledger, **said)


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.sqlite", total=BUDGET)


def test_a_session_that_did_not_say_whose_it_is_asks_the_ledger(ledger):
    ledger.register(Registration("record", (0, 1), n_units=1000, fingerprint=OURS))
    opened = session(ledger)
    for wrong in (votes("a", THEIRS), votes("a", OURS, n_units=999)):
        with pytest.raises(LedgerError, match="is for"):
            opened.ask(wrong)
    assert (opened.n_left, ledger.n_answers(1)) == (4, 0)
    assert opened.ask(votes("a", OURS, n_units=1000)).statement.n_units == 1000
    assert (opened.n_left, ledger.n_answers(1)) == (3, 1)


@pytest.mark.parametrize("kept", [True, False])
def test_the_first_votes_say_whose_a_session_is(ledger, kept):
    opened = session(ledger if kept else None)
    opened.ask(votes("a", None))  # not at hand: nothing is said
    opened.ask(votes("b", OURS, n_units=1000))
    with pytest.raises(InvalidInputError, match="other private records"):
        opened.ask(votes("c", THEIRS))
    with pytest.raises(InvalidInputError, match="n_units=1000"):
        opened.ask(votes("c", OURS, n_units=999))
    opened.ask(votes("c", None))
    assert opened.n_left == 1
    if kept:
        assert ledger.recognises(OURS)
        assert ledger.registration["n_units"] == 1000
        with pytest.raises(LedgerError, match="other private records"):
            session(ledger, fingerprint=THEIRS)


class Says:
    """A voter that returns what it was made to, whatever it is asked."""

    classes_, n_teachers = (0, 1), 100

    def __init__(self, said):
        self.said = said

    def vote(self, X):
        return self.said


ALL = Votes.from_counts([[60, 40]] * 6)


@pytest.mark.parametrize("hashes", [tuple("abcdef"), None])
@pytest.mark.parametrize(
    ("said", "text"),
    [
        (ALL.take(np.arange(5)), "n_queries=6"),
        (Votes.from_counts([[60, 40]] * 9), "n_queries=6"),
        (Votes.from_counts([[600, 400]] * 6), "n_teachers=100"),
        (ALL.counts, "must return pate.Votes"),
    ],
)
def test_a_voter_decides_neither_how_much_is_asked_nor_who_voted(ledger, hashes, said, text):
    plan = BatchPlan.of(ReleaseTerms(budget=BUDGET, ledger=ledger), Asking(GNMax(40.0), 6), np.arange(6), hashes)
    with pytest.raises(InvalidInputError, match=text):
        plan.run(Says(said), ROWS)
    assert ledger.releases() == []
    assert plan.run(Says(ALL), ROWS).release.quote.n_queries == len(hashes or ROWS)


@pytest.mark.parametrize(("inferred", "by"), [(None, "nobody"), (False, "curator"), (True, None)])
def test_classes_that_were_not_named_are_open(inferred, by):
    plan = BatchPlan.of(ReleaseTerms(budget=BUDGET), Asking(GNMax(40.0), 6), np.arange(6), None)
    evidence = None if inferred is None else Evidence(classes_inferred=inferred)
    statement = plan.run(Says(ALL), ROWS, evidence).release.statement
    assert [a.by for a in statement.assumptions if a.name == "classes"] == ([] if by is None else [by])
    assert any("read off" in text for text in statement.not_covered) == bool(inferred)


MECHANISMS = [GNMax(400.0), GNMax(20.0), LNMax(60.0), NoisyHistogram(30.0), ConfidentGNMax(70.0, 50.0, 40.0)]
TERMS = [
    ReleaseTerms(budget=BUDGET),
    ReleaseTerms(budget=Budget(9.0, 1e-3)),
    ReleaseTerms(budget=BUDGET, max_answers=2),
]


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_plan_whose_parts_were_replaced_says_what_it_costs(tmp_path, mechanism, terms):
    planned = BatchPlan.of(TERMS[0], Asking(MECHANISMS[0], 6), np.arange(6), tuple("abcdef"))
    ledger = Ledger(tmp_path / "ledger.sqlite", total=terms.budget)
    plan = replace(planned, asking=Asking(mechanism, 6), terms=replace(terms, ledger=ledger))
    release = plan.run(Says(ALL), ROWS).release
    (row,) = ledger.releases()
    assert release.guarantee == row.charge.guarantee(terms.budget.delta) == release.quote.guarantee
    assert row.charge == mechanism.charge(row.n_queries, row.facts["max_answers"])
    assert release.n_answered <= (terms.max_answers or 6)


@pytest.mark.parametrize("weakness", ["classes_inferred", "partition_seeded"])
@pytest.mark.parametrize("way", ["labels", "session", "session again"])
def test_answers_that_are_given_again_keep_what_weakens_them(ledger, way, weakness):
    sound = replace(ALL, query_hashes=tuple("abcdef"))
    weak = replace(sound, **{weakness: True})
    terms = {"budget": BUDGET, "ledger": ledger}
    if way == "labels":
        first = release_labels(weak, GNMax(40.0), **terms)
    else:
        with open_session(GNMax(40.0), n_queries=8, n_teachers=100, classes=2, name="May", **terms) as opened:
            first = opened.ask(weak)
    if way == "session again":
        with open_session(GNMax(40.0), n_queries=8, n_teachers=100, classes=2, name="May", **terms) as opened:
            again = opened.ask(sound)
    else:
        again = release_labels(sound, GNMax(40.0), **terms)
    assert again.labels.tolist() == first.labels.tolist()
    assert len(ledger.releases()) == 1
    assert ledger.verify().ok
    assert [a.name for a in again.statement.assumptions] == [a.name for a in first.statement.assumptions]
    assert again.statement.not_covered == first.statement.not_covered
    assert again.statement.assumptions != release_labels(sound, GNMax(40.0), budget=BUDGET).statement.assumptions
