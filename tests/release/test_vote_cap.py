"""VoteCap is charged right, and the naive individual filter, which is not private, cannot be had through it."""

import copy
import inspect
import math
import multiprocessing
import os
import pickle

import numpy as np
import pytest
from scipy.special import ndtr

from pate import (
    Budget,
    BudgetExceededError,
    GNMax,
    InvalidInputError,
    Ledger,
    NoisyHistogram,
    SensitiveValueError,
    VoteCap,
    calibrate,
    open_vote_cap,
)
from pate.exceptions import LedgerError
from pate.mechanisms import Mechanism, VoteCapSession
from pate.privacy import DEFAULT_ORDERS
from pate.privacy.noise.source import NoiseSource

CAP = VoteCap(max_votes=3, sigma=2.0)


def new_session(n_teachers=6, n_classes=3, cap=CAP, seed=0):
    return cap.session(n_teachers=n_teachers, n_classes=n_classes, noise=NoiseSource(seed))


# ---- the charge ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("votes", "sigma"), [(1, 40.0), (147, 64.0), (20, 3.0)])
def test_the_public_cost_is_that_of_as_many_answers_whatever_is_asked(votes, sigma):
    charge = VoteCap(votes, sigma).charge()
    assert charge.mu_squared == pytest.approx(2 * votes / sigma**2, rel=1e-15)
    assert charge == VoteCap(votes, sigma).charge(10**9)
    ceiling = np.array(DEFAULT_ORDERS) * votes / sigma**2
    assert (np.array(charge.rdp) <= ceiling * (1 + 1e-12)).all()
    # The certified curve is no cheaper than the argmax of all counts, a special case: no teacher ever abstains.
    assert (np.array(charge.rdp) >= np.array(GNMax(sigma).charge(votes).rdp) * (1 - 1e-12)).all()
    assert charge.guarantee(1e-5).epsilon <= NoisyHistogram(sigma).charge(votes).guarantee(1e-5).epsilon


def test_at_moderate_orders_the_cost_is_two_thirds_of_the_gaussians():
    rdp = np.array(VoteCap(10, 40.0).charge().rdp)[:20] / (10 * np.array(DEFAULT_ORDERS[:20]) / 40.0**2)
    assert (rdp > 0.636).all()
    assert (rdp < 0.66).all()


def test_a_declared_end_costs_no_more_than_that_many_votes():
    assert VoteCap(50, 9.0).charge(7) == VoteCap(7, 9.0).charge() == VoteCap(50, 9.0).charge(100, max_answers=7)
    assert VoteCap(50, 9.0).charge(0).mu_squared == 0


def test_calibration_meets_the_budget():
    cap = calibrate(VoteCap(40, 1.0), Budget(1.0, 1e-5), n_queries=10_000)
    assert 0.999 < cap.charge().guarantee(1e-5).epsilon <= 1.0


# ---- an adaptive adversary, and two neighbouring worlds on the same transcript ---------------------------------------


def worlds(seed, n_teachers=12, n_classes=4, rounds=60, cap=3):
    """Return the pair's squared distance at each query, for a changed teacher and an adversary that sees answers.

    Every teacher's rule looks at its own shard (a seed of its own) and at the transcript only. Both worlds are driven
    with one transcript, and the transcript is *arbitrary*: the bound must hold on every one of them.
    """
    rng = np.random.default_rng(seed)
    changed = int(rng.integers(n_teachers))
    mechanism = VoteCap(cap, 1.0)
    sessions = [new_session(n_teachers, n_classes, mechanism, seed) for _ in range(2)]
    shards = [[(seed, t, 0) for t in range(n_teachers)] for _ in range(2)]
    shards[1][changed] = (seed, changed, 1)
    transcript, distances = [], []
    for _ in range(rounds):
        batch = int(rng.integers(1, 4))
        counts = []
        for session, shard in zip(sessions, shards, strict=True):
            labels = np.full((n_teachers, batch), -1)
            for t in range(n_teachers):
                own = np.random.default_rng([*shard[t], sum(transcript), len(transcript)])
                eager = 0.05 + 0.9 * own.random()
                labels[t] = np.where(own.random(batch) < eager, own.integers(0, n_classes, batch), -1)
            counts.append(session._count(labels))
        distances += ((counts[0] - counts[1]) ** 2).sum(axis=1).tolist()
        transcript += rng.integers(0, n_classes, batch).tolist()
    return np.array(distances), [s._cast.reveal() for s in sessions], changed


@pytest.mark.few(8)
@pytest.mark.parametrize("seed", range(25))
def test_on_every_transcript_the_pairs_squared_distances_sum_to_at_most_twice_the_cap(seed):
    distances, (cast, other), changed = worlds(seed)
    assert set(np.unique(distances)) <= {0, 1, 2}
    assert distances.sum() <= 2 * 3
    # No other is touched by the change: the same teachers are left in both worlds.
    np.testing.assert_array_equal(np.delete(cast, changed), np.delete(other, changed))
    assert max(cast.max(), other.max()) <= 3


def test_the_bound_is_reached():
    """Voting at different times in the two worlds, or differently at the same time: 2 B either way."""
    apart = np.array([[0, 0, 0, -1, -1, -1]]), np.array([[-1, -1, -1, 1, 1, 1]])
    against = np.array([[0, 0, 0]]), np.array([[1, 1, 1]])
    for one, two in (apart, against):
        a, b = new_session(1)._count(one), new_session(1)._count(two)
        assert ((a - b) ** 2).sum() == 2 * 3


def test_exact_renyi_divergence_of_a_whole_adaptive_run_stays_within_the_charge():
    """Two classes, B = 2, an adversary that asks the changed teacher again only after one answer: by exact sums."""
    sigma, others = 3.0, np.array([2, 2])  # other teachers' votes; the changed teacher votes 0 in D, 1 in D'

    def right(counts):
        return float(ndtr((counts[0] - counts[1]) / (sigma * math.sqrt(2))))

    def law(vote, budget, depth, last=0):
        """Return {transcript: probability} when the teacher votes if the last answer was 0 (or the run begins)."""
        if depth == 0:
            return {(): 1.0}
        votes = budget > 0 and last == 0
        counts = others + (np.eye(2, dtype=int)[vote] if votes else 0)
        out = {}
        for answer, p in ((0, right(counts)), (1, 1 - right(counts))):
            for rest, q in law(vote, budget - votes, depth - 1, answer).items():
                out[(answer, *rest)] = p * q
        return out

    for a in (2.0, 8.0, 32.0):
        p, q = law(0, 2, 8), law(1, 2, 8)
        assert sum(p.values()) == pytest.approx(1)
        charged = VoteCap(2, sigma).charge().rdp[DEFAULT_ORDERS.index(a)]
        for one, two in ((p, q), (q, p)):
            divergence = math.log(sum(one[t] ** a * two[t] ** (1 - a) for t in one)) / (a - 1)
            assert divergence <= charged
            if a == 2.0:
                assert divergence > 0.6 * charged


# ---- what the session does -------------------------------------------------------------------------------------------


def test_votes_beyond_the_cap_are_dropped_in_order_and_across_calls():
    session = new_session(2)
    np.testing.assert_array_equal(
        session._count(np.array([[0, -1, 0, 0, 0], [1, 1, -1, -1, -1]])),
        [[1, 1, 0], [0, 1, 0], [1, 0, 0], [1, 0, 0], [0, 0, 0]],
    )
    np.testing.assert_array_equal(session._count(np.array([[2, 2], [2, 2]])), [[0, 0, 1], [0, 0, 0]])
    one_by_one = new_session(2)
    labels = np.random.default_rng(0).integers(-1, 3, (2, 30))
    together = new_session(2)._count(labels)
    np.testing.assert_array_equal(together, np.vstack([one_by_one._count(labels[:, [i]]) for i in range(30)]))


def test_it_goes_on_answering_when_no_teacher_is_left_and_never_says_so():
    session = new_session(200, 2)
    first = session.ask(np.zeros((200, 3), dtype=int))
    assert first.labels.tolist() == [0, 0, 0]
    rest = session.ask(np.zeros((200, 400), dtype=int))
    assert set(rest.status) == {"answered"}
    assert rest.noisy_counts is None
    assert 140 < (rest.labels == 0).sum() < 260  # noise alone
    text = repr(session) + str(vars(session)["_cast"])
    assert "200, n_classes=2" in text
    assert "hidden" in text
    public = {name for name in dir(session) if not name.startswith("_")}
    assert public == {"ask", "mechanism", "n_classes", "n_teachers"}


def test_a_session_cannot_be_copied_or_stored():
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises((SensitiveValueError, TypeError)):
            way(new_session())


@pytest.mark.parametrize(
    "labels", [[[0, 1]] * 5, [0] * 6, [[3]] * 6, [[-2]] * 6, [[0.0]] * 6, [[True]] * 6, [["a"]] * 6]
)
def test_wrong_labels_are_refused_before_anything_is_spent(labels):
    session = new_session()
    with pytest.raises(InvalidInputError, match="labels must be"):
        session.ask(labels)
    assert session._cast.reveal().sum() == 0


@pytest.mark.parametrize("bad", [{"max_votes": 0}, {"max_votes": 2.5}, {"sigma": 0.0}, {"sigma": math.inf}])
def test_bad_parameters(bad):
    with pytest.raises(InvalidInputError):
        VoteCap(**{"max_votes": 3, "sigma": 1.0, **bad})


# ---- the public functions -------------------------------------------------------------------------------------------


def test_opening_charges_the_whole_run_first(tmp_path):
    cap, budget = VoteCap(20, 40.0), Budget(1.0, 1e-5)
    ledger = Ledger(tmp_path / "ledger.sqlite", total=budget, currency="gdp")
    run = open_vote_cap(cap, n_teachers=50, classes=["no", "yes"], budget=budget, ledger=ledger)
    assert ledger.spent == cap.charge().mu_squared
    for _ in range(5):
        run.ask(np.ones((50, 20), dtype=int))
    assert ledger.spent == cap.charge().mu_squared
    assert run.guarantee == cap.charge().guarantee(1e-5)
    with pytest.raises(BudgetExceededError):
        open_vote_cap(VoteCap(57, 40.0), n_teachers=50, classes=["no", "yes"], budget=budget, ledger=ledger)
    with pytest.raises(BudgetExceededError):
        open_vote_cap(VoteCap(200, 40.0), n_teachers=50, classes=2, budget=budget)
    seeded = open_vote_cap(cap, n_teachers=50, classes=2, budget=budget, noise_seed=1)
    assert seeded.guarantee.kind == "seeded"


# ---- the naive individual filter (the design notes, E1) -------------------------------------------------------------

SIGMA, ORDER, LIMIT = 40.0, 8.0, 3.170e-3


def two_class_loss(n, voted):
    """Exact divergence at ORDER between counts n and n with one vote of class ``voted`` moved; worse direction."""

    def win(gap):
        return float(ndtr(gap / (SIGMA * math.sqrt(2))))

    gap = n[0] - n[1]
    moved = gap - 2 if voted == 0 else gap + 2
    p, q = (win(gap), win(-gap)), (win(moved), win(-moved))

    def renyi(a, b):
        return math.log(sum(x**ORDER * y ** (1 - ORDER) for x, y in zip(a, b, strict=True))) / (ORDER - 1)

    return max(renyi(p, q), renyi(q, p))


def naive_filter(labels):
    """Retire each teacher whose exact loss on the actual histogram reaches LIMIT: what must not be done."""
    n = np.bincount(labels, minlength=2)
    return np.array([two_class_loss(n, v) < LIMIT for v in labels])


def counterexample():
    one = np.array([0] * 126 + [1] * 124)
    two = one.copy()
    two[0] = 1  # one class-0 voter switches
    return one, two


def test_the_naive_individual_filter_is_not_private():
    """One switched vote retires 124 *other* teachers in one world and none in the other."""
    one, two = counterexample()
    assert two_class_loss((126, 124), 1) == pytest.approx(3.1752e-3, rel=1e-4)
    assert two_class_loss((126, 124), 0) == pytest.approx(3.1657e-3, rel=1e-4)
    active, other = naive_filter(one), naive_filter(two)
    assert (~active).sum() == 124
    assert other.all()

    # Then the old class-0 voters vote 0, the others 1: the next histogram differs by 124 votes, not by one.
    later = np.where(one == 0, 0, 1)
    n, m = np.bincount(later[active], minlength=2), np.bincount(later[other], minlength=2)
    assert ((n - m) ** 2).sum() == 124**2
    p, q = (float(ndtr((c[0] - c[1]) / (SIGMA * math.sqrt(2)))) for c in (n, m))
    forward = math.log(p**2 / q + (1 - p) ** 2 / (1 - q))
    assert forward > 100 * LIMIT  # in one query, at order 2, against a claimed budget at order 8 for the whole run

    # With ten classes, the design page's figures: P(0 wins) = .922 and .507.
    x = np.linspace(-10, 16, 20001)
    density = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])

    def wins(own, other, empty):
        rest = ndtr(x + own / SIGMA) ** empty * ndtr(x) ** (8 - empty)
        return float((density * ndtr(x + (own - other) / SIGMA) * rest).sum())

    def law(n0, n1):
        zero, one = wins(n0, n1, 8), wins(n1, n0, 8)
        return np.array([zero, one, 1 - zero - one])

    p, q = law(126, 0), law(126, 124)
    assert (round(p[0], 3), round(q[0], 3)) == (0.922, 0.507)
    assert math.log((p**2 / q).sum()) == pytest.approx(0.70, abs=0.01)
    assert math.log((q**2 / p).sum()) == pytest.approx(3.29, abs=0.01)


def test_the_cap_leaves_the_others_alone_on_the_same_votes():
    one, two = counterexample()
    cap = VoteCap(2, SIGMA)
    sessions = [new_session(250, 2, cap) for _ in range(2)]
    later = np.where(one == 0, 0, 1)
    histograms = []
    for session, first in zip(sessions, (one, two), strict=True):
        histograms.append(session._count(np.stack([first, later, later], axis=1)))
    assert ((histograms[0] - histograms[1]) ** 2).sum(axis=1).tolist() == [2, 0, 0]
    np.testing.assert_array_equal(sessions[0]._cast.reveal(), sessions[1]._cast.reveal())


def test_no_function_takes_losses_masks_or_caps_of_single_teachers():
    """The only thing that retires a teacher is its own number of votes, against one public number for all."""
    allowed = {
        VoteCap.__init__: {"self", "max_votes", "sigma"},
        VoteCap.session: {"self", "n_teachers", "n_classes", "noise"},
        VoteCapSession.__init__: {"self", "mechanism", "n_teachers", "n_classes", "noise"},
        VoteCapSession.ask: {"self", "labels"},
    }
    for function, names in allowed.items():
        assert set(inspect.signature(function).parameters) == names
    for several in ([3, 3, 3], np.array([1, 2]), None):
        with pytest.raises(InvalidInputError):
            VoteCap(several, 1.0)
    # Nor does the ordinary lock take it: counts alone do not say who voted.
    assert not issubclass(VoteCap, Mechanism)


def test_answers_follow_the_noisy_maximum():
    draws = 4000
    session = VoteCap(draws, 5.0).session(n_teachers=10, n_classes=2, noise=NoiseSource(3))
    labels = np.repeat(np.array([0] * 8 + [1] * 2)[:, None], draws, axis=1)
    share = (session.ask(labels).labels == 0).mean()
    p = float(ndtr(6 / (5 * math.sqrt(2))))
    assert abs(share - p) < 5 * math.sqrt(p * (1 - p) / draws)


# ---- one process, one holder -----------------------------------------------------------------------------------------


def _ask_in_a_child(ask, queue):
    try:
        ask()
        queue.put("asked")
    except Exception as error:
        queue.put(f"{type(error).__name__}: {error}")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("kind", ["session", "run", "run with a ledger"])
def test_a_forked_copy_may_not_spend_the_votes_again(tmp_path, kind):
    labels = np.zeros((50, 2), dtype=int)
    options = {"n_teachers": 50, "classes": 2, "budget": Budget(4.0, 1e-5)}
    ledger = Ledger(tmp_path / "ledger.sqlite") if kind.endswith("ledger") else None
    session_ = new_session(50, 2) if kind == "session" else open_vote_cap(VoteCap(3, 8.0), ledger=ledger, **options)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_ask_in_a_child, args=(lambda: session_.ask(labels), queue))
    child.start()
    said = queue.get(timeout=60)
    child.join()
    assert said.startswith("InvalidInputError: this run was opened in another process")
    assert session_.ask(labels).labels.shape == (2,)
    assert ledger is None or ledger.n_answers(1) == 2


def test_a_copy_of_a_run_cannot_go_on_with_its_release(tmp_path):
    """By whatever means it was made: the ledger takes the next answers from one holder only."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    options = {"n_teachers": 50, "classes": 2, "budget": Budget(4.0, 1e-5), "ledger": ledger}
    run = open_vote_cap(VoteCap(3, 8.0), **options)
    ledger.add_answers(run.release, [("x", "vote-cap", 0, None)])
    with pytest.raises(LedgerError, match="another process goes on"):
        run.ask(np.zeros((50, 1), dtype=int))
    assert ledger.n_answers(run.release) == 1


def test_the_statement_of_a_run_is_about_its_last_answers(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    options = {"n_teachers": 50, "classes": 2, "budget": Budget(4.0, 1e-5), "ledger": ledger}
    run = open_vote_cap(VoteCap(3, 8.0), **options)
    old = ledger.path.read_bytes()
    run.ask(np.zeros((50, 1), dtype=int))
    assert run.statement.ledger_head == ledger.head_of([run.release])
    ledger.path.write_bytes(old)
    assert not ledger.verify(head=run.statement.ledger_head).ok


def test_a_second_run_remembers_its_own_answers(tmp_path):
    """The ledger's first answer of a row is an earlier run's: the row must not be asked again each time."""
    ledger = Ledger(tmp_path / "ledger.sqlite", total=Budget(8.0, 1e-5))
    options = {"n_teachers": 50, "classes": 2, "budget": Budget(2.0, 1e-5), "ledger": ledger}
    votes = np.array([[0, 1]] * 25 + [[1, 0]] * 25)
    open_vote_cap(VoteCap(3, 8.0), **options).ask(votes, query_hashes=["aa", "bb"])
    second = open_vote_cap(VoteCap(3, 8.0), **options)
    first = second.ask(votes, query_hashes=["aa", "bb"]).labels.tolist()
    assert all(second.ask(votes, query_hashes=["aa", "bb"]).labels.tolist() == first for _ in range(10))
    assert ledger.n_answers(second.release) == 2
