"""What a unit of a tier moves: by its tier's weight and no further, in every kind of round; faults are found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_space import PlainModel, PlainSpace
from scipy.stats import norm

from pate import Budget
from pate.exceptions import InvalidInputError
from pate.mechanisms import GaussianSum
from pate.privacy.tiers import WHOLE, TierBudgets
from pate.records import RecordVoters, Tiers, _maps, count_right
from pate.records._right import right_sums
from pate.records.ballot_sum import GRID

pytestmark = pytest.mark.filterwarnings("ignore:.*records cannot be used:pate.exceptions.CuratorWarning")

D = 3
BUDGETS = TierBudgets.of({"gold": Budget(3.0, 1e-5), "silver": Budget(1.7, 1e-6), "basic": Budget(0.3, 1e-5)})


def cast(kind, m, records, tier, *, person=False, clip=None, hold=False):
    """The sum of one unit of this tier and two others, and what the unit may move it."""
    voters = RecordVoters(None, PlainSpace(kind, D), classes=m)
    X = np.array([x for x, _ in records] + [(0.1, 0.2, 0.3)] * 2, dtype=float).reshape(-1, D)
    y = [label for _, label in records] + [0, 1]
    groups = ["p"] * len(records) + ["q", "r"] if person else None
    tiers = Tiers.of(BUDGETS, [tier] * len(records) + ["gold", "silver"])
    held, given_y = X, y
    if hold:
        held, given_y = voters.hold(X, y, groups=groups, tiers=tiers), None
        groups = tiers = None
    if clip is None:
        found = voters.cast(held, given_y, groups=groups, tiers=tiers)
    else:
        model = PlainModel(np.zeros((D, m)))
        found = voters.cast_residuals(held, given_y, model, clip=clip, groups=groups, tiers=tiers)
    return found


def moved(a, b):
    return sum((int(p) - int(q)) ** 2 for p, q in zip(a.sums.ravel(), b.sums.ravel(), strict=True))


number = st.floats(-1e6, 1e6) | st.sampled_from([0.0, 1.0, -1.0, 1e300, math.nan, math.inf])
record = st.tuples(st.tuples(number, number, number), st.integers(-1, 1))
places = st.sampled_from(range(3))


@pytest.mark.long
@given(
    st.data(), places, st.sampled_from(["soft", "hard", "signed"]), st.sampled_from([None, 0.25, 1.2]), st.booleans()
)
@settings(max_examples=150)
def test_no_unit_moves_a_sum_past_its_weight(data, place, kind, clip, person):
    name, weight = BUDGETS.pairs[place]
    few = st.lists(record, min_size=1, max_size=5 if person else 1)
    a, b = (cast(kind, 2, data.draw(few), name, person=person, clip=clip) for _ in range(2))
    assert moved(a, b) <= a.delta_squared_of(weight)
    assert a.delta_squared_of(WHOLE) == a.delta_squared


E, F = (1.0, 0.0, 0.0), (0.6, 0.8, 0.0)
MINUS = tuple(-v for v in F)
#: Pairs that reach the bound, of test_ballots.
PAIRS = [
    ("soft", None, False, [(F, 0)], [(F, 1)]),
    ("signed", None, False, [(F, 1)], [(MINUS, 1)]),
    ("soft", None, True, [(F, 0)] * 7, [(F, 1)] * 900),
    ("signed", None, True, [(F, 1)] * 7, [(MINUS, 1)] * 900),
    ("signed", 0.5, False, [(E, 1)], [((-1.0, 0.0, 0.0), 1)]),
    ("signed", 0.5, True, [(F, 1)] * 9, [(MINUS, 1)] * 300),
]


def shares(hold=False):
    """The share of its tier's bound that each named pair moves the sum."""
    found = []
    for kind, clip, person, a, b in PAIRS:
        for name, weight in BUDGETS.pairs:
            one, other = (cast(kind, 3, r, name, person=person, clip=clip, hold=hold) for r in (a, b))
            found.append(moved(one, other) / one.delta_squared_of(weight))
    return found


@pytest.mark.parametrize("hold", [False, True])
def test_named_pairs_reach_their_tiers_bound_and_do_not_pass_it(hold):
    assert max(shares(hold)) <= 1
    assert min(shares(hold)) >= 0.98**2


FAULTS = {
    "no weights": (_maps, "weighed", lambda p, scales: p),
    "rounded up": (
        _maps,
        "weighed",
        lambda p, s: p if s is None else np.ceil(p * (s / GRID)[:, None] * 1.01).astype(int),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_same_check_finds_a_planted_fault(monkeypatch, fault):
    where, name, broken = FAULTS[fault]
    monkeypatch.setattr(where, name, broken)
    assert max(shares()) > 1


def test_a_person_is_clipped_to_the_weight_and_not_to_one(monkeypatch):
    whole = _maps.person_sums
    monkeypatch.setattr(_maps, "person_sums", lambda *given, scales, **about: whole(*given, scales=None, **about))
    assert max(shares()) > 1


@pytest.mark.parametrize("name", BUDGETS.names)
def test_a_unit_has_exactly_its_mu_and_no_more(name):
    """Brute force: the divergence of the two laws of the release along the line on which they differ, by integration.

    Two Gaussians with one covariance differ in the direction of their means alone.
    """
    budget, weight = BUDGETS.mapping[name], dict(BUDGETS.pairs)[name]
    mechanism = GaussianSum.for_budget(BUDGETS.top)
    a, b = (cast("signed", 2, [(v, 1)], name) for v in (F, MINUS))
    apart = math.sqrt(moved(a, b)) / mechanism.scale(a.delta_squared)
    assert apart <= weight / WHOLE / mechanism.noise_multiplier
    x = np.linspace(-12, 12 + apart, 400_001)
    density, other = norm.pdf(x, apart), norm.pdf(x)
    found = np.trapezoid(np.maximum(density - math.exp(budget.epsilon) * other, 0), x)
    assert 0.99 * budget.delta < found <= budget.delta
    # With nine tenths of the noise the tier's budget is broken.
    loud = norm.pdf(x, apart / 0.9)
    assert np.trapezoid(np.maximum(loud - math.exp(budget.epsilon) * other, 0), x) > budget.delta


@given(st.data(), places, st.booleans(), st.booleans())
@settings(max_examples=60)
def test_no_unit_moves_counts_past_its_weight(data, place, by_class, person):
    _, weight = BUDGETS.pairs[place]
    sums = []
    for _ in range(2):
        n = data.draw(st.integers(1, 6)) if person else 1
        index = st.lists(st.integers(-1, 1), min_size=n, max_size=n)
        answers, labels = (np.array([*data.draw(index), 1]) for _ in range(2))
        owners = np.array([0] * n + [1]) if person else None
        scales = np.array([weight] * n + [WHOLE])
        sums.append(right_sums(answers, labels, owners, n_classes=2, counted=False, by_class=by_class, scales=scales))
    assert int(np.square(sums[0] - sums[1]).sum()) <= (2 if by_class else 1) * weight**2


def test_counts_weigh_as_ballots_do():
    tiers = Tiers.of(BUDGETS, ["gold", "basic", "basic", "silver"])
    weight = dict(BUDGETS.pairs)
    counts = count_right(np.array([0, 1, 1, 1]), np.array([0, 1, 0, 1]), classes=(0, 1), tiers=tiers)
    assert counts.sums[0, 0] == weight["gold"] + weight["basic"] + weight["silver"]
    assert counts.facts.weight == (weight["gold"] + 2 * weight["basic"] + weight["silver"]) / WHOLE
    assert counts.facts.tiers == tuple((n, weight[n], {"basic": 2}.get(n, 1)) for n in BUDGETS.names)


def test_records_of_full_weight_cast_what_they_would_without_tiers():
    voters = RecordVoters(None, PlainSpace("signed", D), classes=2)
    X, y = np.random.default_rng(0).normal(size=(40, D)), np.arange(40) % 2
    for groups in (None, np.arange(40) // 3):
        one = voters.cast(X, y, groups=groups, tiers=Tiers.of(BUDGETS, ["gold"] * 40))
        assert (one.sums == voters.cast(X, y, groups=groups).sums).all()
    assert voters.cast(X, y).facts.to_dict().keys() == one.facts.to_dict().keys() - {"tiers"}


def test_what_makes_no_tiers_is_refused():
    voters = RecordVoters(None, PlainSpace("signed", D), classes=2)
    X, y = np.eye(D), [0, 1, 1]
    tiers = Tiers.of(BUDGETS, ["gold", "basic", "basic"])
    with pytest.raises(InvalidInputError, match="one person"):
        voters.cast(X, y, groups=["p", "p", "q"], tiers=tiers)
    with pytest.raises(InvalidInputError, match="chunks"):
        voters.cast([(X, y)], tiers=tiers)
    with pytest.raises(InvalidInputError, match="one tier for each"):
        voters.cast(X[:2], y[:2], tiers=tiers)
    with pytest.raises(InvalidInputError, match="cannot be added"):
        voters.cast(X, y, tiers=tiers) + voters.cast(X, y, tiers=tiers)
    private = RecordVoters(None, PlainSpace("signed", D), classes=2, adjacency="add-or-remove", nominal_n=3)
    with pytest.raises(InvalidInputError, match="replace-one"):
        private.cast(X, y, tiers=tiers)
    for odd in (["gold", "copper", "basic"], ["gold", None, "basic"], "gold", None, [["gold"]] * 3):
        with pytest.raises(InvalidInputError, match="tiers must name"):
            Tiers.of(BUDGETS, odd)


@pytest.mark.parametrize(
    ("last", "found"),
    [
        (None, r"got an empty cell\."),
        (float("nan"), r"got an empty cell\."),
        ("basc", r"got 'basc'\. Did you mean 'basic'\?"),
    ],
)
def test_a_tier_that_is_missing_or_misspelt_is_said_so(last, found):
    with pytest.raises(InvalidInputError, match=rf"{found} Correct the name, or leave out records without one"):
        Tiers.of(BUDGETS, np.array(["gold", "basic", last], dtype=object))
