"""The account of a release: of its own queries, mechanism, cap and delta, and of no release that it would misprice."""

from __future__ import annotations

import copy
import itertools
import logging
import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from pate import (
    Budget,
    ConfidentGNMax,
    GNMax,
    InvalidInputError,
    Ledger,
    LNMax,
    NoisyHistogram,
    PATEClassifier,
    Votes,
    account,
    open_session,
    release_labels,
)
from pate.mechanisms import REFUSED
from pate.privacy import exact
from pate.release import label_interactively
from pate.votes import hash_queries

DELTA = 1e-5
RICH = Budget(1e3, DELTA)
CONFIDENT = ConfidentGNMax(threshold=24, sigma_threshold=6.0, sigma=4.0)
MECHANISMS = [GNMax(5.0), LNMax(6.0), CONFIDENT, NoisyHistogram(5.0)]
RNG = np.random.default_rng(0)
COUNTS = RNG.multinomial(30, [0.75, 0.15, 0.1], size=40)


def numbers(report):
    """All numbers of a report, private ones too."""
    return report.to_dict(include_sensitive=True), {k: g.epsilon for k, g in report.exact.reveal().items()}


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.family)
def test_it_is_the_account_of_what_was_asked(mechanism):
    votes = Votes.from_counts(COUNTS)
    release = release_labels(votes, mechanism, budget=RICH)
    report = account(votes, release)
    assert numbers(report) == numbers(account(votes, mechanism, delta=DELTA, max_answers=release.quote.max_answers))
    assert report.public == release.guarantee
    assert account(votes, release, delta=1e-7).public.delta == 1e-7


def test_golden_numbers_of_the_published_votes(golden, mnist2018_counts):
    mechanism = ConfidentGNMax(threshold=200, sigma_threshold=150, sigma=40)
    votes = Votes.from_counts(mnist2018_counts[:640])
    release = release_labels(votes, mechanism, budget=Budget(3.0, DELTA), max_answers=286)
    report = account(votes, release, pld=False)
    want = golden["mnist2018"]["confident_joint_T200_s150_40_first640"]["epsilon"]
    assert want * 0.998 < report.data_dependent.reveal().epsilon <= want  # directions are kept apart here
    assert round(report.papernot2018.reveal().epsilon, 3) == 1.999
    assert round(report.expected_answers.reveal(), 1) == 282.7
    assert round(report.public.epsilon, 3) == 2.155


def test_refused_queries_count_and_equal_rows_count_once():
    rows = np.repeat(np.arange(20.0)[:, None], 2, axis=0)
    counts = np.repeat(COUNTS[:20], 2, axis=0)
    votes = Votes.from_counts(counts, query_hashes=hash_queries(rows))
    release = release_labels(votes, CONFIDENT, budget=RICH)
    assert (release.status == REFUSED).any()
    once = Votes.from_counts(COUNTS[:20])
    assert numbers(account(votes, release)) == numbers(account(once, CONFIDENT, delta=DELTA, max_answers=20))


def test_a_budget_for_some_of_the_queries():
    votes = Votes.from_counts(COUNTS)
    budget = Budget(GNMax(5.0).charge(7).guarantee(DELTA).epsilon, DELTA)
    release = release_labels(votes, GNMax(5.0), budget=budget, on_exhausted="abstain")
    assert release.n_answered == 7
    assert numbers(account(votes, release)) == numbers(account(votes.take(range(7)), GNMax(5.0), delta=DELTA))


def transcripts(laws, cap):
    """The law of what a run shows that stops after ``cap`` answers; the last outcome of a query is a refusal."""
    found = {}
    for outcomes in itertools.product(*(range(len(law)) for law in laws)):
        shown, answers = [], 0
        for law, outcome in zip(laws, outcomes, strict=True):
            if answers == cap:
                break
            shown.append(outcome)
            answers += outcome < len(law) - 1
        probability = np.prod([law[outcome] for law, outcome in zip(laws, outcomes, strict=True)])
        found[tuple(shown)] = found.get(tuple(shown), 0.0) + probability
    return found


@pytest.mark.parametrize("cap", [1, 2])
def test_the_run_that_stops_at_its_cap_costs_no_more(cap):
    """By brute force: every neighbour's whole law of transcripts, in both directions, against the account's sum."""
    mechanism, alpha = ConfidentGNMax(threshold=4, sigma_threshold=1.5, sigma=1.0), 4.0
    counts = np.array([[5, 1], [3, 3], [4, 2]])
    moves = np.array([[0, 0], [-1, 1], [1, -1]])
    own = transcripts(np.exp(mechanism.log_probs(counts)), cap)
    worst = 0.0
    for chosen in itertools.product(moves, repeat=3):  # one teacher votes otherwise, in any of the queries
        other = transcripts(np.exp(mechanism.log_probs(counts + np.array(chosen))), cap)
        for p, q in ((own, other), (other, own)):
            worst = max(worst, np.log(sum(p[t] ** alpha * q[t] ** (1 - alpha) for t in p)) / (alpha - 1))
    total = exact.exact_divergences(counts, [alpha], **mechanism.exact_parameters()).totals().max()
    assert 0.5 * total < worst <= total * (1 + 1e-9)
    uncapped = transcripts(np.exp(mechanism.log_probs(counts)), 99)
    assert sum(uncapped.values()) == pytest.approx(1) == sum(own.values())


# What it would misprice is refused.


def refused(votes, release, text="charged and drawn all its labels at once", **options):
    with pytest.raises(InvalidInputError, match=text):
        account(votes, release, **options)


def test_stored_answers_and_sessions_are_refused(tmp_path):
    """Stored answers may be of other teachers; later queries of a session may follow from earlier answers."""
    votes = Votes.from_counts(COUNTS[:8], query_hashes=hash_queries(np.arange(8.0)[:, None]))
    ledger = Ledger(tmp_path / "ledger.sqlite", total=RICH)
    first = release_labels(votes.take(range(4)), GNMax(5.0), budget=RICH, ledger=ledger)
    assert account(votes.take(range(4)), first).public == first.guarantee
    for other in (votes, votes.take(range(4))):
        release = release_labels(other, GNMax(5.0), budget=RICH, ledger=ledger)
        refused(other, release)
    with open_session(GNMax(5.0), n_queries=8, n_teachers=30, classes=3, budget=RICH) as session:
        refused(votes, session.ask(votes))


def test_offsets_that_follow_from_answers_are_refused():
    votes = Votes.from_counts(COUNTS)
    with open_session(CONFIDENT, n_queries=40, n_teachers=30, classes=3, budget=RICH) as session:
        refused(votes, label_interactively(session, votes, lambda labels: np.full((40, 3), 1 / 3), n_rounds=2))


def test_tiers_and_measured_students_are_refused():
    votes = {name: replace(Votes.from_counts(COUNTS), n_units=900) for name in ("gold", "basic")}
    budget = {"gold": Budget(3.0, DELTA), "basic": Budget(1.0, DELTA)}
    refused(votes["gold"], release_labels(votes, NoisyHistogram(500.0), budget=budget))
    X, y = RNG.normal(size=(300, 2)), RNG.integers(0, 2, 300)
    clf = PATEClassifier(
        GaussianNB(), n_teachers=10, mechanism=GNMax(2.0), measure=True, budget=RICH, classes=[0, 1], random_state=0
    )
    _, counted = clf.fit_keeping(X, y, X_public=RNG.normal(size=(40, 2)))
    assert clf.release_.counts
    refused(counted, clf.release_, r"measure=")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("voters", ["records", "dpsgd"])
def test_who_has_no_teachers_has_no_votes(voters):
    X, y = RNG.normal(size=(300, 2)), RNG.integers(0, 2, 300)
    clf = PATEClassifier(voters=voters, budget=RICH, classes=[0, 1], random_state=0)
    _, votes = clf.fit_keeping(X, y, X_public=RNG.normal(size=(40, 2)))
    assert votes is None
    refused(votes, clf.release_, "records voted or DP-SGD learnt, so there are no votes of teachers")


def test_other_votes_and_terms_of_its_own_are_refused():
    votes = Votes.from_counts(COUNTS)
    release = release_labels(votes, GNMax(5.0), budget=RICH)
    refused(votes.take(range(9)), release, "on 40 queries of 3 classes")
    refused(Votes.from_counts(COUNTS, classes=list("abc")), release, "must be those of the release")
    refused(Votes.from_counts(7 * COUNTS), release, "by 30 teachers")
    hashed = [replace(votes, query_hashes=hash_queries(rows)) for rows in (COUNTS, COUNTS[::-1])]
    refused(hashed[1], release_labels(hashed[0], GNMax(5.0), budget=RICH), "in their order")
    refused(votes, release, "max_answers must be None with a release", max_answers=3)
    with pytest.raises(InvalidInputError, match="delta must be"):
        account(votes, GNMax(5.0))


def test_seeded_noise_promises_nothing_here_either():
    votes = Votes.from_counts(COUNTS)
    report = account(votes, release_labels(votes, GNMax(5.0), budget=RICH, noise_seed=1))
    assert report.public.kind == "seeded"
    assert report.data_dependent.reveal().kind == "data-dependent"


# Nothing private travels.


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_a_fitted_classifier_keeps_neither_votes_nor_account(tmp_path, caplog, capsys):
    caplog.set_level(logging.DEBUG)
    X, y = RNG.normal(size=(400, 2)), RNG.integers(0, 2, 400)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    clf = PATEClassifier(
        GaussianNB(), n_teachers=20, mechanism=ConfidentGNMax(11, 4.0, 3.0), student=GaussianNB(), budget=RICH,
        classes=[0, 1], ledger=ledger, random_state=0,
    )  # fmt: skip
    _, votes = clf.fit_keeping(X, y, X_public=RNG.normal(size=(60, 2)))
    report = account(votes, clf.release_)
    epsilon = report.data_dependent.reveal().epsilon
    assert 0 < epsilon < report.public.epsilon
    clf.save(tmp_path / "model.pate")
    said = [repr(report), report._repr_html_(), repr(votes), str(clf.statement_), str(clf.statement_.to_dict())]
    said += [str(report.to_dict()), caplog.text, *capsys.readouterr()]
    for text in said:
        assert str(epsilon)[:6] not in text
    for found in (clf, copy.deepcopy(clf), PATEClassifier.load(tmp_path / "model.pate")):
        data = pickle.dumps(found)
        assert b"pate.votes" not in data
        assert votes.counts.tobytes() not in data
        assert votes.counts[:, 0].tobytes() not in data
    with pytest.raises(Exception, match="private"):
        pickle.dumps(report)
    for path in tmp_path.iterdir():
        assert str(epsilon)[:6].encode() not in path.read_bytes()
