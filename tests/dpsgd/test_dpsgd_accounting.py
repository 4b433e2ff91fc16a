"""DP-SGD's epsilon where delta is smallest, by computations that lose nothing there; what is public; what is paid."""

from __future__ import annotations

import math
import re
import traceback
import warnings
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from dpsgd_steps import by_value, least_noise_for
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from pate import Budget, DPSGDClassifier, Ledger
from pate.dpsgd import _fit
from pate.dpsgd._calibration import dpsgd_epsilon
from pate.dpsgd._statement import make_plan
from pate.dpsgd.mechanisms import PoissonSGD, Shape
from pate.exceptions import BudgetExceededError, InvalidInputError, LedgerError, PrivacyParameterWarning
from pate.release._quote import buy_rounds
from pate.release.statement.files import check_against_ledger

ADJACENCIES = ["replace-one", "add-or-remove"]


# ---------------------------------------------------------------- epsilon


def exact_delta(mu, epsilon):
    """Balle and Wang 2018, Theorem 8, in 60 digits."""
    with mpmath.workdps(60):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        tail = mpmath.exp(epsilon) * mpmath.ncdf(-epsilon / mu - mu / 2)
        return mpmath.ncdf(-epsilon / mu + mu / 2) - tail


@settings(max_examples=60)
@given(
    mu=st.floats(0.01, 20),
    n_steps=st.integers(1, 20_000),
    log_delta=st.floats(-12, -2),
    interval=st.sampled_from([1e-3, 1e-4, 1e-5]),
    adjacency=st.sampled_from(ADJACENCIES),
)
def test_without_sampling_epsilon_is_the_exact_gaussians_never_less(mu, n_steps, log_delta, interval, adjacency):
    apart, delta = 2 if adjacency == "replace-one" else 1, 10**log_delta
    sigma = apart * math.sqrt(n_steps) / mu
    found = dpsgd_epsilon(sigma, delta=delta, sample_rate=1.0, n_steps=n_steps, adjacency=adjacency, interval=interval)
    with mpmath.workdps(60):
        exact_mu = apart * mpmath.sqrt(n_steps) / mpmath.mpf(sigma)
    assert exact_delta(exact_mu, found) <= delta
    assert found == 0 or exact_delta(exact_mu, found * (1 - 1e-7)) > delta


def test_the_smallest_delta_after_many_steps():
    """10,000 steps and delta 1e-12: rounding in the composition's transform took .2 % off."""
    found = dpsgd_epsilon(100.0, delta=1e-12, sample_rate=1.0, n_steps=10_000, adjacency="add-or-remove", interval=1e-4)
    assert exact_delta(1, found) <= 1e-12


def least_delta(q, sigma, n_steps, adjacency, h):
    """A lower bound on delta, by epsilon: losses rounded down, composed where a tilt makes the tail the middle."""
    shift = 1.0 if adjacency == "replace-one" else 0.0
    x = np.linspace(-14 * sigma, 14 * sigma, 400_001)

    def log_ratio(x):
        up = np.logaddexp(math.log1p(-q), math.log(q) + (2 * x - 1) / 2 / sigma**2)
        down = np.logaddexp(math.log1p(-q), math.log(q) + (-2 * x - 1) / 2 / sigma**2) if shift else 0.0
        return up - down

    losses = log_ratio(x)
    grid = np.arange(math.floor(losses[0] / h), math.ceil(losses[-1] / h) + 1)
    edges = np.interp(grid * h, losses, x)

    def law(tail, x):
        return (1 - q) * tail(x, 0, sigma) + q * tail(x, 1, sigma)

    mass = np.where(edges[1:] < 0.5, np.diff(law(norm.cdf, edges)), -np.diff(law(norm.sf, edges)))
    grid, mass = grid[:-1][mass > 0], mass[mass > 0]  # what is left out makes the bound smaller
    loss = grid * h

    def tilted(theta):
        logs = np.log(mass) + theta * loss
        top = logs.max()
        weights = np.exp(logs - top)
        return weights / weights.sum(), math.log(weights.sum()) + top

    def delta_at(epsilon):
        low, high = 0.0, 100.0
        for _ in range(20):
            theta = (low + high) / 2
            low, high = (theta, high) if n_steps * (tilted(theta)[0] @ loss) < epsilon else (low, theta)
        weights, log_moment = tilted(theta)
        mean = weights @ loss
        size = 2 ** math.ceil(math.log2(60 * math.sqrt(n_steps * (weights @ (loss - mean) ** 2)) / h + 8 * len(mass)))
        start = round(n_steps * mean / h) - size // 2
        step = np.zeros(size)
        np.add.at(step, grid % size, weights)
        whole = np.fft.irfft(np.fft.rfft(step) ** n_steps, size)
        where = start + np.arange(size)
        at = where * h
        tail = at > epsilon
        terms = whole[where % size][tail] * -np.expm1(epsilon - at[tail])
        return math.exp(n_steps * log_moment - theta * epsilon) * float(terms @ np.exp(theta * (epsilon - at[tail])))

    return delta_at


@pytest.mark.few(2)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(("q", "sigma", "n_steps"), [(0.1, 2.0, 100), (0.5, 4.0, 60)])
@pytest.mark.parametrize("delta", [1e-12, 1e-5])
def test_with_sampling_epsilon_is_never_below_an_independent_bound(q, sigma, n_steps, delta, adjacency):
    at_least = least_delta(q, sigma, n_steps, adjacency, 5e-4)
    found = dpsgd_epsilon(sigma, delta=delta, sample_rate=q, n_steps=n_steps, adjacency=adjacency, interval=1e-4)
    assert at_least(found) <= delta < at_least(0.96 * found - 5e-4 * n_steps)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_noise_for_the_smallest_delta_is_found(adjacency):
    sigma = least_noise_for(2.0, 1e-12, sample_rate=0.05, n_steps=5000, adjacency=adjacency)
    plan = make_plan(Budget(2.0, 1e-12), Shape(5120, 0.05, 5000, 256), noise_multiplier=sigma, adjacency=adjacency)
    assert 1.9 < plan.guarantee.epsilon <= 2.0


# ---------------------------------------------------------------- what neighbours agree on


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(203, 5)).astype(np.float32)
    return X, (X[:, 0] > 0).astype(int)


def make(**kwargs):
    options = {"budget": Budget(3.0, 1e-5), "classes": [0, 1], "expected_batch_size": 20, "epochs": 2, **kwargs}
    return DPSGDClassifier("linear", **by_value(**options))


def public_of(statement):
    return {k: v for k, v in statement.to_dict().items() if k not in ("created", "digest")}


def words_of(statement):
    """Its text without hashes and the time, whose digits are chance."""
    return re.sub(r"\b[0-9a-f]{40,}\b|\d{4}-\d\d-\d\dT[\d:+]+", "", str(statement))


@pytest.mark.long
def test_neighbours_under_add_or_remove_get_the_same_statement(records):
    X, y = records
    options = {"adjacency": "add-or-remove", "nominal_n": 200, "budget": Budget(3.0, 4.9e-3), "measure": False}
    one, other = make(**options).fit(X, y), make(**options).fit(X[:-1], y[:-1])
    assert public_of(one.statement_) == public_of(other.statement_)
    assert (one.sample_rate_, one.n_steps_, one.noise_multiplier_) == (0.1, 20, other.noise_multiplier_)
    assert "203" not in words_of(one.statement_)
    assert "nominal number of 200 records" in str(one.statement_)
    with pytest.warns(PrivacyParameterWarning, match="for n = 200 units"):
        make(**{**options, "budget": Budget(3.0, 5e-3)}).fit(X, y)


def test_the_nominal_number_is_asked_for_where_it_is_needed_and_only_there(records):
    X, y = records
    with pytest.raises(InvalidInputError, match="nominal_n or sample_rate must be given for adjacency='add-or-remove'"):
        make(adjacency="add-or-remove").fit(X, y)
    with pytest.raises(InvalidInputError, match="nominal_n is for adjacency='add-or-remove'"):
        make(nominal_n=203).fit(X, y)
    with pytest.raises(InvalidInputError, match="expected_batch_size") as refused:
        make(adjacency="add-or-remove", nominal_n=10).fit(X, y)
    assert "203" not in str(refused.value)
    for wrong in (0, -5, 2.5, True):
        with pytest.raises(InvalidInputError, match="nominal_n must be a whole number"):
            make(adjacency="add-or-remove", nominal_n=wrong).fit(X, y)


# ---------------------------------------------------------------- the ledger


@pytest.mark.long
def test_a_ledgers_cost_is_an_upper_bound_in_both_its_languages():
    for q, sigma, n_steps in ((0.1, 1.5, 50), (0.01, 0.8, 400), (1.0, 6.0, 10)):
        cost = PoissonSGD().charge(sigma, Shape(1000, q, n_steps, 1))
        epsilon = dpsgd_epsilon(sigma, delta=1e-5, sample_rate=q, n_steps=n_steps)
        assert epsilon <= cost.guarantee(1e-5).epsilon <= 1.35 * epsilon
        # mu: every trade-off of one step lies above that of (2 / sigma)-GDP, q or no q.
        mu = math.sqrt(cost.mu_squared / n_steps)
        x = np.linspace(-30, 30, 200_001) * sigma
        up = (1 - q) * norm.sf(x, 0, sigma) + q * norm.sf(x, 1, sigma)
        down = (1 - q) * norm.sf(x, 0, sigma) + q * norm.sf(x, -1, sigma)
        inside = (down > 1e-250) & (up < 0.999)
        assert (norm.isf(up[inside]) >= norm.isf(down[inside]) - mu - 1e-6).all()


@pytest.mark.long
def test_a_fit_is_charged_before_it_begins_and_stays_charged(records, tmp_path, monkeypatch):
    X, y = records
    ledger = Ledger(tmp_path / "ledger.sqlite", total=Budget(6.0, 1e-5), currency="renyi")
    clf = make(ledger=ledger).fit(X, y)
    (row,) = ledger.releases()
    assert (row.kind, row.n_queries, row.seeded) == ("DP-SGD", 0, False)
    assert row.facts["noise_multiplier"] == clf.noise_multiplier_
    assert clf.statement_.ledger_releases == (1,)
    assert clf.statement_.ledger_head == ledger.head_of([1])
    assert clf.guarantee_.epsilon <= 3.0
    check_against_ledger(clf.statement_, ledger.path)
    less = replace(clf.statement_, guarantee=replace(clf.guarantee_, epsilon=clf.guarantee_.epsilon / 2))
    with pytest.raises(InvalidInputError, match=r"its guarantee\.epsilon, .*differ"):
        check_against_ledger(less, ledger.path)
    left = ledger.remaining().left
    # The same fit again draws new noise: a second spend.
    monkeypatch.setattr(_fit, "run_training", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        make(ledger=ledger).fit(X, y)
    assert len(ledger.releases()) == 2  # it died, and is paid for
    assert ledger.remaining().left == pytest.approx(left - row.price)
    assert ledger.verify().ok


@pytest.mark.long
def test_the_first_budget_buys_one_fit_and_not_two(records, tmp_path):
    X, y = records
    ledger = Ledger(tmp_path / "ledger.sqlite")
    clf = make(ledger=ledger).fit(X, y)
    alone = make().fit(X, y)
    assert alone.noise_multiplier_ <= clf.noise_multiplier_ < 1.25 * alone.noise_multiplier_
    assert ledger.total == Budget(3.0, 1e-5)
    with pytest.raises(BudgetExceededError, match="ledger"):
        make(ledger=ledger).fit(X, y)
    assert len(ledger.releases()) == 1


def test_less_left_than_asked_for_is_said_before_it_is_taken_and_not_of_the_first_run(tmp_path):
    ledger, shape = Ledger(tmp_path / "ledger.sqlite", currency="gdp"), Shape(1000, 1.0, 10, 1000)
    first = make_plan(Budget(2.0, 1e-5), shape, ledger=ledger)
    assert first.total_if_short is None
    first.warn_if_short(Budget(2.0, 1e-5))
    ledger.open_total(Budget(3.0, 1e-5))
    ledger.record(first.cost, mechanism="m", n_queries=0)
    second = make_plan(Budget(2.5, 1e-5), shape, ledger=ledger)
    assert (second.total_if_short, second.guarantee.epsilon < 2.4) == (ledger.total, True)
    with pytest.warns(PrivacyParameterWarning, match=r"epsilon = 2\.5 was asked for, and the ledger has less left"):
        second.warn_if_short(Budget(2.5, 1e-5))
    assert make_plan(Budget(1.0, 1e-5), shape, ledger=ledger).total_if_short is None
    # What it leaves buys nothing, and records are not asked for it.
    ledger.record(second.cost, mechanism="m", n_queries=0)
    assert "nothing more of use can be released" in str(ledger.remaining())
    with pytest.raises(BudgetExceededError, match="less left than 1%"):
        buy_rounds(Budget(1.0, 1e-5), [1.0], ledger, n_units=None)


@pytest.mark.long
def test_nothing_is_charged_for_what_fails_before_training(records, tmp_path):
    X, y = records
    ledger = Ledger(tmp_path / "ledger.sqlite", total=Budget(6.0, 1e-5), currency="renyi")
    wrong = [
        (make(ledger=ledger).set_params(module=lambda n_features, n_classes: None), X, y),
        (make(ledger=ledger), X, y[:-1]),
        (make(ledger=ledger, expected_batch_size=500), X, y),
        (make(ledger=ledger, noise_multiplier=0.2), X, y),
        (make(ledger=ledger, adjacency="add-or-remove", nominal_n=200), X, y),
        (make(ledger="ledger.sqlite"), X, y),
    ]
    for clf, rows, labels in wrong:
        with pytest.raises((InvalidInputError, BudgetExceededError)):
            clf.fit(rows, labels)
    assert ledger.releases() == []
    make(ledger=ledger).fit(X, y)
    with pytest.raises(LedgerError, match="other private records"):
        make(ledger=ledger).fit(X, 1 - y)
    assert len(ledger.releases()) == 1


@pytest.mark.long
def test_a_ledger_that_counts_mu_squared_says_what_it_misses(records, tmp_path):
    X, y = records
    ledger = Ledger(tmp_path / "ledger.sqlite", total=Budget(3.0, 1e-5), currency="gdp")
    with pytest.raises(BudgetExceededError, match="currency='renyi'"):
        make(ledger=ledger).fit(X, y)
    # Without sampling mu^2 is exact: nothing is lost.
    whole = make(ledger=ledger, expected_batch_size=203).fit(X, y)
    assert whole.noise_multiplier_ == pytest.approx(make(expected_batch_size=203).fit(X, y).noise_multiplier_, rel=1e-4)


# ---------------------------------------------------------------- private cells

SECRET = "Jane Roe 078-05-1120"


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "poison",
    [
        lambda X, y: (np.where(np.arange(X.size).reshape(X.shape) == 7, SECRET, X.astype(object)), y),
        lambda X, y: ([[SECRET, *row[1:]] if i == 3 else row for i, row in enumerate(X.tolist())], y),
        lambda X, y: (X, [SECRET if i == 3 else v for i, v in enumerate(y.tolist())]),
        lambda X, y: ([SECRET] * len(X), y),
        lambda X, y: (X, [[SECRET, 1]] * len(X)),
        lambda X, y: (X, [{SECRET: 1}] * len(X)),
        lambda X, y: ([*X.tolist()[:-1], [SECRET]], y),
    ],
)
@pytest.mark.parametrize("classes", [[0, 1], None])
@pytest.mark.filterwarnings("ignore::pate.exceptions.PrivacyLeakWarning")
def test_no_error_quotes_a_private_cell(records, poison, classes):
    silent_on(*poison(*records), classes)


def test_no_error_quotes_a_label_outside_the_classes(records):
    X, y = records
    silent_on(X, np.array([SECRET, *y[1:].astype(str)]), ["0", "1"])


def silent_on(X, y, classes):
    """Whether the rows are refused, or only the records that cannot be used are warned of, no cell is quoted."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            make(classes=classes).fit(X, y)
            refusal = None
        except InvalidInputError as error:
            refusal = error
    assert said or refusal is not None
    assert not any("Jane" in str(one.message) for one in said)
    if refusal is not None:
        text = "".join(traceback.format_exception(refusal))
        shown = [line for line in text.splitlines() if "test_dpsgd_accounting" not in line]
        assert "Jane" not in "\n".join(shown)
        assert refusal.__cause__ is None
        assert refusal.__context__ is None


def test_what_a_module_says_of_private_rows_is_not_shown(records):
    from torch import nn

    class Talking(nn.Linear):
        def __init__(self, n_features, n_classes):
            super().__init__(n_features, n_classes)

        def forward(self, x):
            if self.training and float(x.abs().max()) > 400:  # unlike the made-up rows
                raise ValueError(f"a value of {x.abs().max()} is too large")
            return super().forward(x)

    X, y = records
    X = X.copy()
    X[5, 2] = 4321.0
    clf = make(expected_batch_size=203).set_params(module=Talking)
    with pytest.warns(UserWarning, match="one after the other"), pytest.raises(InvalidInputError) as refused:
        clf.fit(X, y)
    text = "".join(traceback.format_exception(refused.value))
    assert "raised ValueError" in text
    assert "4321" not in text
