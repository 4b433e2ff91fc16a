"""Teachers' ballots clipped to a few labels: what a replaced one moves and costs, who may release them, and replays."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant

from pate import (
    Budget,
    BudgetExceededError,
    ConfidentGNMax,
    GNMax,
    InvalidInputError,
    Ledger,
    LNMax,
    NoisyBallots,
    NoisyHistogram,
    Votes,
    calibrate,
    open_session,
    quote,
    release_labels,
)
from pate.audit import law, replay
from pate.release import clipped_votes, label_interactively, label_votes, labels_of
from pate.release.account import account
from pate.votes import BallotVotes, hash_queries

NAMES = ["ill", "old", "rich", "tall"]
RNG = np.random.default_rng(0)
#: Twelve rows with two labels of four each; 200 teachers are right about 90% of the labels.
TRUTH = np.array([RNG.permutation([1, 1, 0, 0]) for _ in range(12)])
BALLOTS = np.where(RNG.random((200, 12, 4)) < 0.9, TRUTH, 1 - TRUTH)
SURE = np.where(BALLOTS == TRUTH, 1.0, 0.5) + 0.1 * RNG.random(BALLOTS.shape)
BUDGET = Budget(20.0, 1e-5)
HASHES = hash_queries(np.arange(12.0)[:, None])


def clipped(most_labels=2, **more):
    return clipped_votes(BALLOTS, NAMES, most_labels=most_labels, confidence=SURE, **more)


# What a replaced ballot moves.


def squared_distances(n_labels, most_labels, make=clipped_votes):
    """Return how far the counts of two teachers move when the first one's ballot is any other, for all pairs."""
    every = [np.array(one) for one in itertools.product((0, 1), repeat=n_labels)]
    rest = RNG.integers(0, 2, n_labels)
    names = [str(i) for i in range(n_labels)]
    sure = RNG.random((2, 1, n_labels))
    found = [make([[one], [rest]], names, most_labels=most_labels, confidence=sure).counts for one in every]
    return [int(np.square(a - b).sum()) for a, b in itertools.combinations(found, 2)]


@pytest.mark.parametrize(("n_labels", "most_labels"), [(2, 1), (4, 1), (4, 2), (5, 2), (6, 3)])
def test_a_replaced_ballot_moves_the_counts_by_sqrt_2t_at_most_and_some_by_all_of_it(n_labels, most_labels):
    assert max(squared_distances(n_labels, most_labels)) == 2 * most_labels
    assert NoisyBallots(1.0, most_labels).charge(1).mu_squared == pytest.approx(2 * most_labels, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_so_do_random_ballots_of_any_confidence(seed):
    rng = np.random.default_rng(seed)
    for _ in range(100):
        n_labels = int(rng.integers(2, 12))
        t = int(rng.integers(1, n_labels // 2 + 1))
        ballots, sure = rng.random((2, 6, 3, n_labels)) < rng.random(), rng.normal(size=(2, 6, 3, n_labels)).round(1)
        changed = int(rng.integers(6))
        ballots[1, np.arange(6) != changed], sure[1, np.arange(6) != changed] = (
            held[0, np.arange(6) != changed] for held in (ballots, sure)
        )
        names = [str(i) for i in range(n_labels)]
        a, b = (
            clipped_votes(one, names, most_labels=t, confidence=how) for one, how in zip(ballots, sure, strict=True)
        )
        assert (np.square(a.counts - b.counts).sum(axis=1) <= 2 * t).all()
        differs = (a.ballots != b.ballots).any(axis=(1, 2))
        assert set(np.flatnonzero(differs)) <= {changed}  # no other teacher's ballot is touched
        assert (a.ballots <= ballots[0]).all()
        assert (a.ballots.sum(axis=2) == np.minimum(ballots[0].sum(axis=2), t)).all()


def test_ballots_that_are_not_cut_would_move_them_further_and_are_refused():
    """The planted fault: a cut that keeps one label more."""

    def too_many(ballots, names, *, most_labels, confidence):
        return clipped_votes(ballots, names, most_labels=most_labels + 1, confidence=confidence)

    assert max(squared_distances(4, 1, too_many)) > 2
    for cut in (BALLOTS == 1, clipped(3).ballots):
        with pytest.raises(InvalidInputError, match="at most most_labels=2"):
            BallotVotes(cut, tuple(NAMES), 2)


def test_what_was_checked_is_what_is_counted():
    held = np.zeros((3, 2, 4), dtype=bool)
    held[:, 0, 0] = True
    votes = BallotVotes(held, tuple(NAMES), 1)
    held[:] = True
    assert votes.counts.tolist() == [[3, 0, 0, 0], [0, 0, 0, 0]]
    assert not votes.ballots[:, :, 1:].any()
    assert "3" not in repr(votes).partition("counts=")[2]


def test_a_teacher_keeps_its_surest_labels_and_of_equals_the_first():
    ballots = [[[1, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 1]]]
    sure = [[[0.2, 0.99, 0.7, 0.6], [0.5, 0.5, 0.5, 0.5], [0.9, 0.9, 0.9, 0.1]]]
    kept = clipped_votes(ballots, NAMES, most_labels=2, confidence=sure).ballots[0].astype(int).tolist()
    assert kept == [[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]]
    kept = clipped_votes(ballots, NAMES, most_labels=2).ballots[0].astype(int).tolist()
    assert kept == [[1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 1]]


# What it costs.


def renyi(one, other, sigma, order):
    """Return D_order between Gaussians at two points, by numerical sums along each label: no formula of a Gaussian."""
    x = np.linspace(-60 * sigma, 60 * sigma, 40_001)

    def log_density(at):
        return -((x - at) ** 2) / (2 * sigma**2) - math.log(sigma * math.sqrt(2 * math.pi))

    def along(a, b):
        logs = order * log_density(a) + (1 - order) * log_density(b)
        return math.log(np.exp(logs).sum() * (x[1] - x[0])) / (order - 1)

    return sum(along(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(("n_labels", "most_labels"), [(2, 1), (3, 1), (4, 1), (4, 2)])
def test_the_largest_divergence_over_all_pairs_of_ballots_is_the_charge(n_labels, most_labels):
    sigma, allowed = 3.0, [b for b in itertools.product((0, 1), repeat=n_labels) if sum(b) <= most_labels]
    mechanism = NoisyBallots(sigma, most_labels)
    for order in (1.5, 2.0, 8.0):
        worst = max(renyi(a, b, sigma, order) for a, b in itertools.product(allowed, repeat=2))
        assert worst == pytest.approx(float(mechanism.public_rdp([order])[0]), rel=1e-6)
        assert worst == pytest.approx(float(mechanism.charge(1).rdp_at([order])[0]), rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_delta_is_the_hockey_stick_divergence_on_a_grid(epsilon):
    """Two labels, one vote each: a sum over the plane, for every pair of ballots."""
    sigma = 2.0
    x = np.arange(-14.0, 15.0, 0.02)
    claimed = NoisyBallots(sigma, 1).charge(1).guarantee(1e-2)
    ballots = [(0, 0), (0, 1), (1, 0)]
    density = {
        b: np.exp(-((x[:, None] - b[0]) ** 2 + (x[None] - b[1]) ** 2) / (2 * sigma**2)) / (2 * math.pi * sigma**2)
        for b in ballots
    }

    def delta(a, b, at):
        return np.maximum(density[a] - math.exp(at) * density[b], 0).sum() * 0.02**2

    pairs = list(itertools.permutations(ballots, 2))
    assert max(delta(a, b, claimed.epsilon) for a, b in pairs) == pytest.approx(1e-2, rel=1e-3)
    assert max(delta(a, b, epsilon) for a, b in pairs) == delta((0, 1), (1, 0), epsilon)


@pytest.mark.parametrize(("n_rows", "most_labels"), [(1, 1), (40, 2), (7, 5)])
def test_it_costs_what_dp_accounting_says_of_a_gaussian(n_rows, most_labels):
    sigma = 30.0
    charge = NoisyBallots(sigma, most_labels).charge(n_rows)
    assert charge.mu_squared == pytest.approx(2 * most_labels * n_rows / sigma**2, rel=1e-12)
    accountant = PLDAccountant()
    accountant.compose(SelfComposedDpEvent(GaussianDpEvent(sigma / math.sqrt(2 * most_labels)), n_rows))
    assert charge.guarantee(1e-5).epsilon == pytest.approx(accountant.get_epsilon(1e-5), rel=5e-3)


def test_it_is_cheaper_than_by_label_exactly_where_twice_the_votes_are_fewer_than_the_labels():
    s = 20.0
    by_label = NoisyHistogram(s * math.sqrt(2)).charge(len(NAMES))
    assert NoisyBallots(s, 1).charge(1).mu_squared == pytest.approx(by_label.mu_squared / 2)
    assert NoisyBallots(s, 2).charge(1).mu_squared == pytest.approx(by_label.mu_squared)
    with pytest.raises(InvalidInputError, match="at most half the number of labels, 4, got 3"):
        release_labels(clipped(3), NoisyBallots(s, 3), budget=BUDGET)


# How it is released.


def test_what_is_sampled_is_what_is_accounted_and_less_noise_is_refuted():
    """The registry's test asks the first example; here another one, and nine tenths of its noise."""
    mechanism, seeded = NoisyBallots(12.0, 2), {"noise_seed": 3, "n_classes": 4, "max_releases": 3000}
    assert not law(mechanism, **seeded).refuted
    rng = np.random.default_rng(0)
    assert law(mechanism, sampler=lambda counts: counts + rng.normal(0, 10.8, counts.shape), **seeded).refuted


def test_nine_tenths_of_the_noise_or_of_the_budget_are_refused_and_nothing_is_spent(tmp_path):
    budget = Budget(2.0, 1e-5)
    mechanism = calibrate(NoisyBallots(1.0, 2), budget, n_queries=12)
    assert mechanism.most_labels == 2
    assert 0.999 * 2.0 < mechanism.charge(12).guarantee(1e-5).epsilon <= 2.0
    ledger = Ledger(tmp_path / "l.sqlite", total=budget)
    votes = clipped(query_hashes=HASHES)
    for noise, allowed in ((mechanism.scaled(0.9), budget), (mechanism, Budget(1.8, 1e-5))):
        with pytest.raises(BudgetExceededError):
            release_labels(votes, noise, budget=allowed, ledger=ledger)
    assert ledger.releases() == []
    release_labels(votes, mechanism, budget=budget, ledger=ledger)
    assert ledger.spent == pytest.approx(mechanism.charge(12).mu_squared)


@pytest.mark.parametrize(
    "mechanism",
    [
        GNMax(20.0), LNMax(20.0), ConfidentGNMax(20.0, 20.0, 20.0), NoisyHistogram(20.0), NoisyBallots(20.0, 1),
        NoisyHistogram,
    ],
    ids=str,
)  # fmt: skip
def test_what_is_priced_for_fewer_labels_refuses_them(mechanism, tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=BUDGET)
    with pytest.raises(InvalidInputError, match="NoisyBallots"):
        release_labels(clipped(), mechanism, budget=BUDGET, ledger=ledger)
    assert ledger.releases() == []
    if isinstance(mechanism, NoisyBallots | GNMax):
        session = open_session(mechanism, n_queries=12, n_teachers=200, classes=NAMES, budget=BUDGET)
        with pytest.raises(InvalidInputError, match="NoisyBallots"):
            session.ask(clipped())
        assert session.n_left == 12


def test_whatever_takes_one_vote_of_each_teacher_refuses_them():
    assert not isinstance(clipped(), Votes)
    with pytest.raises(InvalidInputError, match=r"votes must be pate\.Votes"):
        account(clipped(), GNMax(20.0), delta=1e-5)
    session = open_session(
        ConfidentGNMax(9.0, 9.0, 9.0), n_queries=12, n_teachers=200, classes=NAMES, budget=Budget(90.0, 1e-5)
    )
    with pytest.raises(InvalidInputError, match="NoisyBallots"):
        label_interactively(session, clipped(), lambda *held: np.full((12, 4), 0.25))
    assert session.n_left == 12


def test_votes_of_one_class_each_are_ballots_of_one_label():
    votes = label_votes(BALLOTS, NAMES, confidence=SURE)
    release = release_labels(votes, NoisyBallots(20.0, 2), budget=BUDGET)
    assert release.statement.verify == quoted(NoisyBallots(20.0, 2))


def quoted(mechanism):
    price = quote(12, mechanism, budget=BUDGET)
    recipe = f"{mechanism}.charge({price.n_queries}, {price.max_answers}).guarantee(1e-05)"
    return f"from pate import NoisyBallots; {recipe}"


def test_released_statement_recipe_and_ledger(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=BUDGET)
    mechanism = NoisyBallots(9.0, 2)
    release = release_labels(clipped(query_hashes=HASHES), mechanism, budget=BUDGET, ledger=ledger)
    imports, recipe = release.statement.verify.split("; ")
    names: dict[str, object] = {}
    exec(imports, names)
    assert eval(recipe, names).epsilon == release.guarantee.epsilon == release.statement.guarantee.epsilon
    assert release.statement.mechanism.startswith("NoisyBallots(sigma=9.0, most_labels=2), 200 teachers")
    assert release.statement.released.startswith("noisy vote counts of 12 public rows")
    assert ledger.verify(head=release.statement.ledger_head).ok
    # The same rows again are answered from the ledger; ballots cut elsewhere are other questions.
    again = release_labels(clipped(query_hashes=HASHES), mechanism, budget=BUDGET, ledger=ledger)
    assert np.array_equal(again.noisy_counts, release.noisy_counts)
    assert len(ledger.releases()) == 1
    release_labels(clipped(1, query_hashes=HASHES), NoisyBallots(30.0, 1), budget=BUDGET, ledger=ledger)
    assert len(ledger.releases()) == 2
    for page in (str(release.statement), release.statement.html()):
        assert "NoisyBallots" in page


def test_a_session_asks_in_rounds():
    session = open_session(NoisyBallots(9.0, 2), n_queries=12, n_teachers=200, classes=NAMES, budget=BUDGET)
    release = session.ask(clipped(query_hashes=HASHES))
    assert (labels_of(release, 4, n_teachers=200) == TRUTH).all()
    assert session.n_left == 0
    assert np.array_equal(session.ask(clipped(query_hashes=HASHES)).noisy_counts, release.noisy_counts)


def test_yes_no_and_abstaining_are_decided_for_free():
    release = release_labels(clipped(), NoisyBallots(9.0, 2), budget=BUDGET)
    assert (labels_of(release, 4, n_teachers=200) == TRUTH).all()
    assert (labels_of(release, 4, n_teachers=200, gap=1e6) == -1).all()
    with pytest.raises(InvalidInputError, match="n_teachers"):
        labels_of(release, 4)
    with pytest.raises(InvalidInputError, match="n_labels"):
        labels_of(release, 3, n_teachers=200)
    # Two labels that are called no and yes are no votes by label.
    two = clipped_votes(BALLOTS[:, :, :2], ["no", "yes"], most_labels=1, confidence=SURE[:, :, :2])
    named = release_labels(two, NoisyBallots(9.0, 1), budget=BUDGET)
    assert labels_of(named, 2, n_teachers=200).shape == (12, 2)


@pytest.mark.parametrize("most_labels", [0, -1, 1.5, None])
def test_a_bad_number_of_labels_is_refused(most_labels):
    for make in (lambda t: NoisyBallots(9.0, t), lambda t: clipped_votes(BALLOTS, NAMES, most_labels=t)):
        with pytest.raises(InvalidInputError, match="most_labels"):
            make(most_labels)


@pytest.mark.parametrize(
    ("ballots", "more", "text"),
    [
        (BALLOTS[0], {}, "shape"),
        (BALLOTS * 2, {}, "0 and 1"),
        (BALLOTS, {"confidence": np.full(BALLOTS.shape, np.nan)}, "confidence"),
        (BALLOTS, {"unit": "person"}, "unit"),
        (BALLOTS, {"query_hashes": ("aa",)}, "query_hashes"),
    ],
)
def test_what_is_no_ballot_is_refused(ballots, more, text):
    with pytest.raises(InvalidInputError, match=text):
        clipped_votes(ballots, NAMES, most_labels=2, **more)


# Replays on neighbouring records.

SHARDS = np.array_split(np.arange(60), 12)


def asked(cut):
    """Return a pipeline: each teacher says of six rows which of ten labels its shard's sum speaks for."""

    def pipeline(X, y):
        means = np.stack([X[shard].sum(axis=0) for shard in SHARDS])
        scores = means[:, None, :] + np.linspace(-1, 1, 60).reshape(6, 10)
        return release_labels(cut(scores), NoisyBallots(9.0, 3), budget=Budget(50.0, 1e-5))

    return pipeline


def honest(scores):
    return clipped_votes(scores > 0, [str(i) for i in range(10)], most_labels=3, confidence=scores)


def by_all(scores):
    """The planted fault: a label is kept by a rule that looks at all teachers."""
    return honest(np.where(scores.sum(axis=0) > 0, scores, -1.0))


def twice(scores):
    """The planted fault: each ballot counts twice."""
    votes = honest(scores)
    object.__setattr__(votes, "counts", 2 * votes.counts)
    return votes


def uncut(scores):
    """The planted fault: ballots of all labels, past the check."""
    votes = honest(scores)
    object.__setattr__(votes, "counts", (scores > 0).sum(axis=0).astype(np.int64))
    return votes


@pytest.mark.filterwarnings("ignore")
def test_a_replay_finds_planted_faults_and_no_other():
    X = np.random.default_rng(1).normal(size=(60, 10))
    y = np.zeros(60, dtype=int)
    other = X.copy()
    other[7] = -40 * np.sign(X[SHARDS[1]].sum(axis=0))
    found = replay(asked(honest), (X, y), (other, y), published=True)
    assert not found.refuted, found.finding
    assert found["teachers moved"].value == 1
    for fault in (by_all, twice, uncut):
        assert replay(asked(fault), (X, y), (other, y), published=True).refuted, fault.__name__
