"""The lock: never over budget, charged before seen, the price a constant, nothing private shown."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pate import (
    ABSTAIN,
    Budget,
    BudgetExceededError,
    ConfidentGNMax,
    GNMax,
    InvalidInputError,
    Ledger,
    LNMax,
    NoisyHistogram,
    Votes,
    calibrate,
    quote,
    release_labels,
)
from pate.exceptions import LedgerError, PrivacyParameterWarning
from pate.mechanisms import NOT_ASKED, VoteCap
from pate.release import open_vote_cap
from pate.votes import hash_queries

COUNTS = np.random.default_rng(0).multinomial(100, [0.7, 0.2, 0.1], size=60)
VOTES = Votes.from_counts(COUNTS, classes=["a", "b", "c"])
MECHANISMS = [GNMax(30.0), LNMax(30.0), NoisyHistogram(30.0), ConfidentGNMax(60.0, 60.0, 30.0)]


@pytest.mark.few(2)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.family)
@settings(max_examples=40)
@given(epsilon=st.floats(0.05, 12), delta=st.sampled_from([1e-8, 1e-5, 1e-3]), n=st.integers(1, 60))
def test_never_over_budget(mechanism, epsilon, delta, n):
    budget = Budget(epsilon, delta)
    release = release_labels(VOTES.take(np.arange(n)), mechanism, budget=budget, on_exhausted="abstain")
    price = release.quote
    assert release.guarantee.epsilon <= epsilon
    assert release.n_answered <= price.max_answers <= n
    assert (release.status != NOT_ASKED).sum() <= price.n_queries
    # maximal: one more query (or answer) would not have fitted
    if price.n_queries < n:
        assert not budget.allows(mechanism.charge(price.n_queries + 1, None))
    elif price.max_answers < n:
        assert not budget.allows(mechanism.charge(price.n_queries, price.max_answers + 1))


def test_the_price_does_not_depend_on_the_votes():
    rng = np.random.default_rng(1)
    budget = Budget(2.0, 1e-5)
    for mechanism in MECHANISMS:
        seen = {
            release_labels(
                Votes.from_counts(rng.multinomial(100, p, size=60)), mechanism, budget=budget, on_exhausted="abstain"
            ).quote
            for p in ([1, 0, 0], [0.34, 0.33, 0.33], [0.1, 0.8, 0.1])
        }
        assert len(seen) == 1


def test_exhausted_budget_raises_before_spending(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite")
    with pytest.raises(BudgetExceededError, match=r"buys \d+ of these 60 queries"):
        release_labels(VOTES, GNMax(5.0), budget=Budget(1.0, 1e-5), ledger=ledger)
    assert ledger.releases() == []
    assert ledger.total is None


def test_cap_on_answers_is_charged_whole_and_kept():
    mechanism = ConfidentGNMax(threshold=10, sigma_threshold=60, sigma=30)  # passes nearly always
    release = release_labels(VOTES, mechanism, budget=Budget(3.0, 1e-5), max_answers=7)
    assert release.n_answered == 7
    assert release.quote.charge == mechanism.charge(60, 7)
    after = np.flatnonzero(release.answered)[-1] + 1
    assert (release.status[after:] == NOT_ASKED).all()
    never = ConfidentGNMax(threshold=1e6, sigma_threshold=60, sigma=30)
    refused = release_labels(VOTES, never, budget=Budget(3.0, 1e-5), max_answers=7)
    # the price is the same although nothing was answered: the number of answers is private until released
    assert refused.n_answered == 0
    assert refused.guarantee == release.guarantee


def test_fewer_answers_of_a_plain_mechanism_cost_less():
    release = release_labels(VOTES, GNMax(30.0), budget=Budget(9.0, 1e-5), max_answers=4)
    assert release.quote.charge == GNMax(30.0).charge(4)
    assert release.n_answered == 4


def test_labels_values_and_decisions():
    release = release_labels(VOTES, NoisyHistogram(1.0), budget=Budget(500.0, 1e-5))
    assert (release.labels == COUNTS.argmax(axis=1)).mean() > 0.95
    assert set(release.values()) <= {"a", "b", "c"}
    decided = release.decide(gap=1e9)
    assert decided.n_answered == 0
    assert decided.guarantee is release.guarantee
    assert decided.values() == [None] * 60
    pushed = release.decide(offsets=[-1e9, 0, 1e9])
    assert (pushed.labels == 2).all()
    with pytest.raises(InvalidInputError, match="released labels only"):
        release_labels(VOTES, GNMax(30.0), budget=Budget(9.0, 1e-5)).decide(gap=1)
    with pytest.raises(InvalidInputError, match="offsets"):
        release.decide(offsets=[1, 2])
    with pytest.raises(InvalidInputError, match="gap"):
        release.decide(gap=-1)
    frame = release.to_frame()
    assert list(frame.columns) == ["row", "label", "status"]
    assert len(frame) == 60


def test_the_same_row_twice_is_asked_once():
    X = np.array([[1.0], [2.0], [1.0], [1.0]])
    votes = Votes.from_counts([[50, 50], [90, 10], [50, 50], [50, 50]], query_hashes=hash_queries(X))
    release = release_labels(votes, GNMax(30.0), budget=Budget(9.0, 1e-5))
    assert release.quote.n_queries == 2
    assert release.labels[0] == release.labels[2] == release.labels[3]


def hashed(n, start=0):
    rows = np.arange(start, start + n, dtype=float).reshape(-1, 1)
    return Votes.from_counts(COUNTS[start : start + n], query_hashes=hash_queries(rows))


def test_ledger_answers_again_for_free_and_adds_up(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", currency="gdp")
    budget = Budget(2.0, 1e-5)
    first = release_labels(hashed(20), GNMax(40.0), budget=budget, ledger=ledger)
    spent = ledger.spent
    again = release_labels(hashed(20), GNMax(40.0), budget=budget, ledger=ledger)
    assert np.array_equal(first.labels, again.labels)
    assert ledger.spent == spent
    assert again.guarantee.epsilon == pytest.approx(first.guarantee.epsilon)
    more = release_labels(hashed(40), GNMax(40.0), budget=budget, ledger=ledger)
    assert np.array_equal(more.labels[:20], first.labels)
    assert ledger.spent == pytest.approx(GNMax(40.0).charge(40).mu_squared)
    # labels of two releases: only the ledger's total is a guarantee for both
    assert (more.guarantee.epsilon, more.guarantee.method) == (2.0, "gdp-filter")
    # replaying the rows gives the live value
    assert math.fsum(r.charge.mu_squared for r in ledger.releases()) == pytest.approx(ledger.spent)
    assert Ledger(tmp_path / "l.sqlite").total == budget


def test_ledger_never_exceeds_its_total(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=Budget(1.0, 1e-5), currency="gdp")
    asked = 0
    while True:
        try:
            release_labels(hashed(6, asked), GNMax(40.0), budget=Budget(1.0, 1e-5), ledger=ledger)
        except BudgetExceededError:
            break
        asked += 6
        assert asked <= 54
    assert asked == 54  # 57 queries fit; the tenth batch of six does not
    assert ledger.spent <= Budget(1.0, 1e-5).mu_squared
    rest = release_labels(
        hashed(6, asked), GNMax(40.0), budget=Budget(1.0, 1e-5), ledger=ledger, on_exhausted="abstain"
    )
    assert rest.n_answered == 3
    assert (rest.labels[3:] == ABSTAIN).all()


def test_noisy_counts_survive_in_the_ledger(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite")
    first = release_labels(hashed(10), NoisyHistogram(40.0), budget=Budget(2.0, 1e-5), ledger=ledger)
    again = release_labels(hashed(10), NoisyHistogram(40.0), budget=Budget(2.0, 1e-5), ledger=ledger)
    assert np.array_equal(first.noisy_counts, again.noisy_counts)
    assert np.array_equal(first.decide(gap=20).labels, again.decide(gap=20).labels)


def test_nothing_is_returned_when_the_ledger_fails(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "l.sqlite", total=Budget(2.0, 1e-5))
    monkeypatch.setattr(Ledger, "record", lambda *a, **k: (_ for _ in ()).throw(LedgerError("disk full")))
    with pytest.raises(LedgerError):
        release_labels(hashed(5), GNMax(40.0), budget=Budget(2.0, 1e-5), ledger=ledger)
    assert ledger.releases() == []


def test_ledger_holds_no_votes(tmp_path):
    path = tmp_path / "l.sqlite"
    secret = Votes.from_counts([[87_654_321, 12_345_678]] * 3)
    release_labels(secret, GNMax(40.0), budget=Budget(2.0, 1e-5), ledger=Ledger(path))
    raw = path.read_bytes()
    assert b"87654321" not in raw
    assert (87_654_321).to_bytes(4, "big") not in raw
    assert path.stat().st_mode & 0o077 == 0


def test_ledger_refuses_another_total_and_foreign_files(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=Budget(1.0, 1e-5))
    with pytest.raises(LedgerError, match="holds a total budget"):
        ledger.open_total(Budget(5.0, 1e-5))
    junk = tmp_path / "junk.sqlite"
    junk.write_bytes(b"this is no database at all, certainly not" * 100)
    with pytest.raises(LedgerError, match="failed"):
        Ledger(junk)


def test_statement_says_what_was_done():
    release = release_labels(VOTES, GNMax(30.0), budget=Budget(9.0, 1e-5), tuning="nothing")
    data = release.statement.to_dict()
    json.dumps(data)
    assert data["private"] is True
    assert data["tier"] == "reasonable"
    assert data["unit"] == "record"
    assert data["guarantee"]["adjacency"] == "replace-one"
    assert data["tuning"] == "nothing"
    for word in ("replace-one", "GNMax(sigma=30.0)", "operating system", "Assumptions", "shard"):
        assert word in release.statement.text()
    # the recipe in the statement, run as it stands, gives the stated epsilon
    imports, recipe = data["verify"].split("; ")
    names: dict = {}
    exec(imports, names)
    assert eval(recipe, names) == release.guarantee


def test_seeded_noise_is_declared_not_private():
    a = release_labels(VOTES, GNMax(30.0), budget=Budget(9.0, 1e-5), noise_seed=3)
    b = release_labels(VOTES, GNMax(30.0), budget=Budget(9.0, 1e-5), noise_seed=3)
    assert np.array_equal(a.labels, b.labels)
    assert a.statement.headline.startswith("not private: seeded")
    assert a.statement.to_dict()["private"] is False
    assert not release_labels(VOTES, GNMax(30.0), budget=Budget(9.0, 1e-5)).statement.seeded


def test_seeded_answers_stay_not_private_when_read_from_the_ledger(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite")
    release_labels(hashed(5), GNMax(30.0), budget=Budget(9.0, 1e-5), ledger=ledger, noise_seed=3)
    assert release_labels(hashed(5), GNMax(30.0), budget=Budget(9.0, 1e-5), ledger=ledger).statement.seeded


def test_weak_delta_warns():
    votes = Votes.from_counts(COUNTS, n_units=1000)
    with pytest.warns(PrivacyParameterWarning, match="not below 1/n"):
        release_labels(votes, GNMax(30.0), budget=Budget(9.0, 1e-3))


def test_repr_shows_no_votes():
    release = release_labels(VOTES, GNMax(30.0), budget=Budget(9.0, 1e-5))
    assert str(COUNTS[0, 0]) not in repr(release).replace("60", "")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"votes": COUNTS}, "votes must be pate.Votes"),
        ({"mechanism": "gnmax"}, "mechanism must be"),
        ({"budget": 1.0}, "budget must be"),
        ({"on_exhausted": "stop"}, "on_exhausted"),
        ({"max_answers": 0}, "max_answers"),
        ({"noise_seed": -1}, "noise_seed"),
    ],
)
def test_bad_arguments(change, text):
    good = {"votes": VOTES, "mechanism": GNMax(30.0), "budget": Budget(9.0, 1e-5)}
    arguments = {**good, **change}
    with pytest.raises(InvalidInputError, match=text):
        release_labels(arguments.pop("votes"), arguments.pop("mechanism"), **arguments)


def test_quote_equals_what_is_charged(tmp_path):
    budget = Budget(2.0, 1e-5)
    ledger = Ledger(tmp_path / "l.sqlite")
    mechanism = calibrate(
        ConfidentGNMax(60, 90, 30), budget, n_queries=60, max_answers=20, left=ledger.remaining(default_total=budget)
    )
    price = quote(60, mechanism, budget=budget, max_answers=20)
    release = release_labels(VOTES, mechanism, budget=budget, max_answers=20, ledger=ledger)
    assert release.quote == price
    assert ledger.releases()[0].charge == price.charge


def test_two_processes_cannot_spend_the_same_budget(tmp_path):
    """Both quote while all is there; the second one to record is refused."""
    a, b = Ledger(tmp_path / "l.sqlite", total=Budget(1.0, 1e-5)), Ledger(tmp_path / "l.sqlite")
    charge = GNMax(40.0).charge(40)
    assert a.allows(charge)
    assert b.allows(charge)
    a.record(charge, mechanism="m", n_queries=40)
    with pytest.raises(BudgetExceededError):
        b.record(charge, mechanism="m", n_queries=40)
    assert len(a.releases()) == 1


def test_the_label_is_in_the_ledger_before_anybody_sees_it(tmp_path, monkeypatch):
    """Whatever comes after the charge finds it stored, and a failure there loses nothing."""
    ledger = Ledger(tmp_path / "l.sqlite")
    seen = []

    def stop(*arguments, **options):
        seen.append((len(ledger.releases()), len(ledger.stored(hashed(5).query_hashes, "gnmax"))))
        raise RuntimeError("after the charge")

    monkeypatch.setattr("pate.release._release_labels.make_statement", stop)
    with pytest.raises(RuntimeError, match="after the charge"):
        release_labels(hashed(5), GNMax(40.0), budget=Budget(2.0, 1e-5), ledger=ledger)
    assert seen == [(1, 5)]
    monkeypatch.undo()
    again = release_labels(hashed(5), GNMax(40.0), budget=Budget(2.0, 1e-5), ledger=ledger)
    assert (again.n_answered, again.quote.n_queries, len(ledger.releases())) == (5, 0, 1)


def test_a_request_is_looked_up_before_it_is_priced_and_where_it_is_charged(tmp_path, monkeypatch):
    calls = []
    ask = Ledger.has_request
    monkeypatch.setattr(Ledger, "has_request", lambda self, request: calls.append(request) or ask(self, request))
    ledger = Ledger(tmp_path / "l.sqlite")
    for _ in range(2):
        release_labels(hashed(5), GNMax(40.0), budget=Budget(2.0, 1e-5), ledger=ledger)
    assert len(calls) == 3  # the second one is free
    assert len(set(calls)) == 1
    assert ask(ledger, calls[0])


def test_the_statement_names_the_entry_in_the_chain(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite")
    first = release_labels(hashed(5), GNMax(40.0), budget=Budget(2.0, 1e-5), ledger=ledger)
    release_labels(hashed(5, start=5), GNMax(40.0), budget=Budget(2.0, 1e-5), ledger=ledger)
    assert first.statement.ledger_head == ledger.releases()[0].digest != ledger.head
    assert first.statement.ledger_releases == (1,)
    assert ledger.verify(head=first.statement.ledger_head).ok


def test_answers_of_a_run_of_capped_votes_are_kept(tmp_path):
    ledger, budget = Ledger(tmp_path / "l.sqlite", currency="gdp"), Budget(2.0, 1e-5)
    cap = VoteCap(max_votes=8, sigma=10.0)
    run = open_vote_cap(cap, n_teachers=60, classes=["no", "yes"], budget=budget, ledger=ledger, n_units=5000)
    spent = ledger.spent
    assert spent == cap.charge().mu_squared
    labels, names = np.zeros((60, 5), dtype=int), [f"q{i}" for i in range(5)]
    first = run.ask(labels, query_hashes=names)
    cast = run.session._cast.reveal().copy()
    # asked again in the same run: the same answers, no votes; a repeat within one call is asked once
    again = run.ask(np.zeros((60, 7), dtype=int), query_hashes=[*names[::-1], "new", "new"])
    assert again.labels[:5].tolist() == first.labels[::-1].tolist()
    assert again.labels[5] == again.labels[6]
    assert (run.session._cast.reveal() - cast).max() == 1
    run.ask(labels)
    stored = ledger.stored([*names, "new", "#6"], "vote-cap")
    assert [stored[n].label for n in names] == first.labels.tolist()
    assert set(stored) == {*names, "new", "#6"}
    assert {a.release for a in stored.values()} == {run.release} == {1}
    assert ledger.spent == spent
    assert ledger.show()[0]["n_answers"] == 11
    assert ledger.verify().ok
    with pytest.raises(InvalidInputError, match="query_hashes"):
        run.ask(labels, query_hashes=names[:2])


def test_an_answer_of_a_run_that_cannot_be_stored_is_not_shown(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "l.sqlite")
    run = open_vote_cap(VoteCap(4, 20.0), n_teachers=60, classes=2, budget=Budget(2.0, 1e-5), ledger=ledger)
    monkeypatch.setattr(Ledger, "add_answers", lambda *a: (_ for _ in ()).throw(LedgerError("disk full")))
    with pytest.raises(LedgerError, match="disk full"):
        run.ask(np.zeros((60, 1), dtype=int))
    monkeypatch.undo()
    # the vote is spent nevertheless
    assert run.session._cast.reveal().tolist() == [1] * 60
    assert ledger.verify().n_answers == 0


def test_a_run_of_capped_votes_has_a_statement(tmp_path):
    cap, budget = VoteCap(max_votes=8, sigma=40.0), Budget(2.0, 1e-5)
    ledger = Ledger(tmp_path / "l.sqlite", total=Budget(3.0, 1e-5))
    run = open_vote_cap(cap, n_teachers=60, classes=2, budget=budget, ledger=ledger, n_units=5000, unit="group")
    made = run.statement
    assert made.guarantee == run.guarantee == cap.charge().guarantee(1e-5)
    assert (made.unit, made.n_units, made.seeded) == ("group", 5000, False)
    assert made.ledger_releases == (1,)
    assert ledger.verify(head=made.ledger_head).ok
    assert "epsilon = 3" in made.text()
    imports, recipe = made.verify.split("; ")
    names: dict = {}
    exec(imports, names)
    assert eval(recipe, names) == run.guarantee
    json.dumps(made.to_dict())
    seeded = open_vote_cap(cap, n_teachers=60, classes=2, budget=budget, noise_seed=1)
    assert seeded.statement.headline.startswith("not private: seeded")


def test_a_run_of_other_records_is_refused(tmp_path):
    ledger, cap, budget = Ledger(tmp_path / "l.sqlite"), VoteCap(max_votes=1, sigma=40.0), Budget(2.0, 1e-5)
    options = {"n_teachers": 60, "classes": 2, "budget": budget, "ledger": ledger}
    open_vote_cap(cap, fingerprint="ab" * 32, **options)
    with pytest.raises(LedgerError, match="other private records"):
        open_vote_cap(cap, fingerprint="cd" * 32, **options)
    assert len(ledger.releases()) == 1


@pytest.mark.slow
def test_a_million_answers_in_bounded_memory(tmp_path):
    """Stored, found again and checked; the memory beyond the votes themselves stays small."""
    import resource

    n = 1_000_000
    hashes = tuple(f"{i:064x}" for i in range(n))
    votes = Votes(np.tile([70, 30], (n, 1)), None, 100, (0, 1), query_hashes=hashes)
    budget = Budget(1e6, 1e-5)
    ledger = Ledger(tmp_path / "l.sqlite")
    first = release_labels(votes, GNMax(40.0), budget=budget, ledger=ledger)
    assert first.n_answered == n
    assert ledger.verify().n_answers == n
    assert ledger.releases()[0].n_answers == n
    assert ledger.stored(hashes[::1000], "gnmax")[hashes[5000]].label == first.labels[5000]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 3_000_000  # kilobytes
