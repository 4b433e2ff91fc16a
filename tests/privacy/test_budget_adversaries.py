"""One budget for everything: a ledger's accounting unit is fixed at the first charge, no caller passes its limit."""

import json
import math
import sqlite3
from contextlib import closing

import dp_accounting as dpa
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from pate import (
    Budget,
    BudgetExceededError,
    Charge,
    ConfidentGNMax,
    GDPFilter,
    GNMax,
    InvalidInputError,
    Ledger,
    LNMax,
    NoisyHistogram,
    RenyiFilter,
    VoteCap,
    Votes,
    calibrate,
    open_session,
    open_vote_cap,
    plan,
    quote,
    release_labels,
)
from pate.exceptions import LedgerError, PateError
from pate.ledger import KINDS
from pate.ledger._store import SCHEMA
from pate.privacy import from_dp_event, select_best
from pate.privacy.compose.accounting_unit import AccountingUnit, Opening, Terms, check_accounting_unit, choose_terms
from pate.privacy.noise.source import NoiseSource
from pate.privacy.publish.gate import PTRGate, ptr
from pate.votes import hash_queries

TOTAL = Budget(3.0, 1e-5)
COUNTS = Charge.gaussian(sensitivity=2**0.5, sigma=40.0)
LABEL = Charge.gaussian_argmax(40.0)
GATE = {"sigma": 40.0, "order": 8.0, "tau": 0.3, "width": 4.0, "delta": 1e-5, "delta0": 1e-6}
DPSGD = from_dp_event(dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(3.0)), 300))
MIXED = [COUNTS, LABEL, Charge.laplace(shifts=(1.0, 1.0), scale=30.0), Charge.threshold_test(50.0)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.sqlite"


def votes(n, start=0):
    rows = np.arange(start, start + n, dtype=float).reshape(-1, 1)
    counts = np.tile([230, 20], (n, 1))
    return Votes.from_counts(counts, classes=("no", "yes"), n_units=5000, query_hashes=hash_queries(rows))


def exact_epsilon(currency, price, delta):
    """The epsilon of a sum, by formulas written out here: Balle and Wang 2018; Canonne, Kamath and Steinke 2020."""
    if currency.order is None:
        mu, low, high = math.sqrt(price), 0.0, 50.0
        for _ in range(200):
            middle = (low + high) / 2
            here = norm.cdf(-middle / mu + mu / 2) - math.exp(middle) * norm.cdf(-middle / mu - mu / 2)
            low, high = (middle, high) if here > delta else (low, middle)
        return high
    a = currency.order
    return price + math.log1p(-1 / a) - (math.log(delta) + math.log(a)) / (a - 1)


# What a budget buys ---------------------------------------------------------------------------------------------------

BOUGHT = [
    (ConfidentGNMax(200, 150, 40), 640, Budget(2.6, 1e-5)),
    (GNMax(40.0), 1000, Budget(2.6, 1e-5)),
    (NoisyHistogram(40.0), 1000, Budget(2.6, 1e-5)),
    (LNMax(20.0), 500, Budget(8.0, 1e-5)),
    (LNMax(200.0), 10, Budget(0.05, 1e-5)),
]


@pytest.mark.few(3)
@pytest.mark.parametrize(("mechanism", "n", "budget"), BOUGHT, ids=lambda v: str(v)[:24])
def test_a_fresh_ledger_buys_what_the_budget_buys(path, mechanism, n, budget):
    """A ledger that counted mu^2 alone bought 298 of 409, and refused what costs 7.98 at 8."""
    terms = {"budget": budget, "on_exhausted": "abstain"}
    alone = quote(n, mechanism, **terms)
    fits = [
        k
        for k in range(n + 1)
        if (mechanism.charge(n, k) if mechanism.may_refuse else mechanism.charge(k)).guarantee(budget.delta).epsilon
        <= budget.epsilon
    ]
    assert alone.max_answers == max(fits)
    assert quote(n, mechanism, ledger=Ledger(path), **terms) == alone
    by_gdp = quote(n, mechanism, ledger=Ledger(path, currency="gdp"), **terms).max_answers
    assert by_gdp == alone.max_answers if isinstance(mechanism, NoisyHistogram) else by_gdp < 0.75 * alone.max_answers
    release = release_labels(votes(n), mechanism, ledger=(ledger := Ledger(path)), **terms)
    assert release.quote == alone
    assert ledger.total == budget
    assert ledger.verify().ok
    # In the currency that it chose it was all that fits.
    left = ledger.remaining()
    if alone.max_answers < n:
        assert not left.allows(mechanism.charge(1))


def test_the_figures_of_the_paper_and_of_adult(path):
    budget = Budget(2.598, 1e-5)
    terms = {"budget": budget, "on_exhausted": "abstain", "ledger": Ledger(path)}
    assert quote(640, ConfidentGNMax(200, 150, 40), **terms).max_answers == 409
    assert quote(500, LNMax(20.0), budget=Budget(8.0, 1e-5), ledger=Ledger(path)).guarantee.epsilon < 7.99


@settings(max_examples=60)
@given(
    mechanism=st.sampled_from([GNMax(30.0), LNMax(25.0), NoisyHistogram(30.0), ConfidentGNMax(200, 150, 40)]),
    n=st.integers(1, 900),
    share=st.floats(0.05, 1.0),
    delta=st.sampled_from([1e-3, 1e-5, 1e-9]),
)
def test_a_budget_that_is_met_to_the_last_digit_is_met_by_a_ledger_too(mechanism, n, share, delta):
    """The budget's check and the ledger's are two computations: they agree where they meet."""
    charge = mechanism.charge(n, max(1, int(share * n)))
    budget = Budget(charge.guarantee(delta).epsilon, delta)
    assert budget.allows(charge)
    terms = choose_terms(budget, charge)
    assert terms.refusal((), (), charge) == ""
    assert terms.refusal((terms.currency.price(charge),), (0.0,), charge) != ""


@pytest.mark.long
@settings(max_examples=60)
@given(
    epsilon=st.floats(0.05, 20.0),
    delta=st.sampled_from([1e-2, 1e-5, 1e-9, 1e-15]),
    order=st.one_of(st.none(), st.floats(1.5, 200.0)),
    share=st.floats(0.0, 0.9),
)
def test_a_full_limit_converts_to_no_more_than_the_budget(epsilon, delta, order, share):
    total, currency = Budget(epsilon, delta), AccountingUnit(order)
    limit = currency.limit(total, share * delta)
    if limit <= 0:
        with pytest.raises(InvalidInputError, match="order must be larger"):
            Terms.of(total, currency, share * delta)
        return
    assert exact_epsilon(currency, limit, delta * (1 - share)) <= epsilon * (1 + 1e-12)
    assert exact_epsilon(currency, limit * (1 + 1e-5) + 1e-7, delta * (1 - share)) > epsilon


# Who chooses the currency ---------------------------------------------------------------------------------------------


def test_the_first_charge_decides_by_public_facts_and_once(path):
    ledger = Ledger(path, total=TOTAL)
    assert ledger.currency is None
    ledger.record(LABEL * 50, mechanism="GNMax", n_queries=50)
    terms = ledger.remaining().terms
    assert terms == choose_terms(TOTAL, LABEL * 50)
    n = quote(9999, GNMax(40.0), budget=TOTAL, on_exhausted="abstain").n_queries
    assert terms.currency.order == (LABEL * n).guarantee(1e-5).order  # the best for as many as the total buys
    for cost in (COUNTS * 30, LABEL * 3, MIXED[2] * 5):
        ledger.record(cost, mechanism="m", n_queries=1)
        assert Ledger(path).remaining().terms == terms
    assert ledger.spent == math.fsum(terms.currency.price(c) for c in paid(ledger))


def paid(ledger):
    return [row.charge for row in ledger.releases()]


def test_released_counts_are_counted_in_mu_squared(path):
    ledger = Ledger(path, total=TOTAL)
    ledger.record(COUNTS * 100, mechanism="m", n_queries=100)
    assert ledger.currency == "gdp"
    assert ledger.used_fraction == pytest.approx(100 * 2 / 1600 / TOTAL.mu_squared)


@pytest.mark.parametrize(
    ("given", "name"),
    [("gdp", "gdp"), ("pure", "pure"), ("renyi", "renyi"), (("renyi", 12.5), "renyi:12.5"), ("renyi:32", "renyi:32")],
)
def test_a_currency_can_be_named(path, given, name):
    ledger = Ledger(path, total=TOTAL, currency=given)
    assert ledger.currency == Ledger(path).currency == check_accounting_unit(given) == name
    Ledger(path, total=TOTAL, currency=given)  # the same again
    ledger.record(Charge.laplace(shifts=(1.0,), scale=50.0), mechanism="m", n_queries=1)
    assert str(ledger.currency).startswith(name)
    Ledger(path, currency=given)
    with pytest.raises(LedgerError, match=r"not in renyi:9\. That is fixed when a ledger opens"):
        Ledger(path, currency="renyi:9")
    with pytest.raises(LedgerError, match="fixed when a ledger opens"):
        Ledger(path, failure_delta=1e-7)
    assert ledger.verify().ok


@pytest.mark.parametrize(
    "options",
    [
        {"currency": "euro"},
        {"currency": "renyi:x"},
        {"currency": ("renyi", 0.5)},
        {"currency": 8.0},
        {"currency": "renyi:1.2"},  # the conversion alone costs more than the budget
        {"failure_delta": 1e-5},
        {"failure_delta": -1e-9},
        {"failure_delta": "all"},
    ],
)
def test_terms_that_cannot_be_are_refused_and_no_ledger_is_made(path, options):
    with pytest.raises(InvalidInputError):
        Ledger(path, total=TOTAL, **options)
    assert Ledger(path).total is None


def test_a_cost_that_the_currency_cannot_pay_is_refused_with_the_remedy(path):
    ledger = Ledger(path, total=TOTAL, currency="gdp")
    with pytest.raises(BudgetExceededError, match=r"mu\^2.*is not known.*another currency"):
        ledger.record(DPSGD, mechanism="DP-SGD", n_queries=0, kind="DP-SGD")
    pure = Ledger(path.with_name("pure.sqlite"), total=TOTAL, currency="pure")
    with pytest.raises(BudgetExceededError, match=r"buys 0 .*pure epsilon.*is not known"):
        quote(5, GNMax(40.0), budget=TOTAL, ledger=pure)
    assert (ledger.releases(), pure.releases()) == ([], [])
    assert quote(5, LNMax(40.0), budget=TOTAL, ledger=pure).n_queries == 5


def test_pure_epsilon_is_chosen_only_where_nothing_else_buys_it():
    few = LNMax(200.0).charge(5)
    assert choose_terms(Budget(0.05, 1e-9), few).currency.name == "pure"
    assert choose_terms(Budget(0.5, 1e-9), few).currency.name != "pure"
    assert choose_terms(Budget(0.05, 1e-9), LNMax(200.0).charge(6)) is None


# No adversary passes the limit ---------------------------------------------------------------------------------------


class Adversary:
    """Chooses what to ask next by what is left, by the answers so far, and by chance; wants to get past the limit."""

    def __init__(self, seed, terms):
        self.rng, self.terms = np.random.default_rng(seed), terms
        self.answers = self.rng.integers(0, 2, 10_000).tolist()  # realised answers steer it too

    def next(self, left, failure_left):
        trick = int(self.rng.integers(8))
        scale = float(self.rng.choice([3.0, 12.0, 40.0, 150.0]))
        if trick == 0 and left < 0.1 * self.terms.limit:
            return self.filling(left)
        if trick == 1 and failure_left:
            return Charge.at_order(0.05, order=self.terms.currency.order or 8.0, delta0=failure_left)
        if trick == 2:  # dear at every order but cheap at one: as a best order afterwards would have it
            return Charge(left / 3, (0.001, 0.001 + left / 2, 5.0), orders=(2.0, 8.0, 64.0))
        if trick == 3:
            return select_best(Charge.laplace(shifts=(1.0,), scale=40 * scale), mean_runs=1.5, shape=0.0)
        if trick == 4:
            return DPSGD
        mechanism = [GNMax(scale), LNMax(scale), NoisyHistogram(scale), ConfidentGNMax(9, scale, scale)][trick % 4]
        asked = 1 + (7 if self.answers.pop() else 0)
        return mechanism.charge(asked, 1)

    def filling(self, left):
        """A cost whose price is what is left, as nearly as floats have it, or just beyond."""
        if self.terms.currency.order is None:
            cost = Charge.gaussian(sensitivity=1.0, sigma=1 / math.sqrt(left))
            step = int(self.rng.integers(-3, 4))
            mu_squared = cost.mu_squared + step * math.ulp(cost.mu_squared)
            return Charge(mu_squared, tuple(a * mu_squared for a in cost.rdp))
        price = left + int(self.rng.integers(-3, 4)) * math.ulp(left)
        return Charge.at_order(max(price, 0.0), order=self.terms.currency.order)


BUDGETS = [
    (Budget(1.0, 1e-5), "gdp", 0.0),
    (Budget(1.0, 1e-5), "renyi:20", 0.0),
    (Budget(4.0, 1e-6), "renyi:7.5", 3e-7),
    (Budget(0.3, 1e-5), "gdp", 2e-6),
]


def attack(adversary, terms, charge, turns):
    """Let the adversary at ``charge(cost) -> bool``; return price and failure of everything that got in."""
    prices, failures = [], []
    for _ in range(turns):
        left = terms.limit - math.fsum(prices)
        if left <= 0:
            break
        cost = adversary.next(left, max(0.0, terms.failure_delta - math.fsum(failures)))
        if charge(cost):
            prices.append(terms.currency.price(cost))
            failures.append(cost.delta0)
    return prices, failures


def check_spent(terms, prices, failures):
    spent, failed = math.fsum(prices), math.fsum(failures)
    assert math.fsum((*prices, -terms.limit)) <= 0
    assert math.fsum((*failures, -terms.failure_delta)) <= 0
    total = terms.total
    # Recomputed from scratch: what was spent, at what the failures leave of delta.
    assert exact_epsilon(terms.currency, spent, total.delta - failed) <= total.epsilon * (1 + 1e-12)
    assert exact_epsilon(terms.currency, spent, total.delta - terms.failure_delta) <= total.epsilon * (1 + 1e-12)


@pytest.mark.few(3)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("budget", "name", "aside"), BUDGETS, ids=lambda v: str(v)[:16])
def test_no_adaptive_sequence_gets_past_a_filter(budget, name, aside, seed):
    currency = AccountingUnit.named(name)
    stop = (
        GDPFilter(budget, gate_delta=aside) if name == "gdp" else RenyiFilter(budget, currency.order, gate_delta=aside)
    )
    terms = Terms.of(budget, currency, aside)

    def charge(cost):
        fits = stop.admits(cost)
        try:
            stop.spend(cost)
        except BudgetExceededError:
            assert not fits
            return False
        assert fits
        return True

    prices, failures = attack(Adversary(seed, terms), terms, charge, 400)
    assert len(prices) > 3
    check_spent(terms, prices, failures)
    # Filled up with the smallest thing there is; one more of it does not fit, and would break the budget's limit.
    small = Charge.gaussian(sensitivity=1.0, sigma=40.0 / math.sqrt(terms.limit))
    while stop.admits(small):
        stop.spend(small)
        prices.append(currency.price(small))
    check_spent(terms, prices, failures)
    assert math.fsum((*prices, currency.price(small), -terms.limit)) > 0
    assert stop.used_fraction == math.fsum(prices) / terms.limit <= 1


@pytest.mark.few(2)
@pytest.mark.parametrize(("budget", "name", "aside"), BUDGETS, ids=lambda v: str(v)[:16])
def test_no_adaptive_sequence_gets_past_a_ledger(path, budget, name, aside):
    ledger = Ledger(path, total=budget, currency=name, failure_delta=aside)
    terms = ledger.remaining().terms
    assert terms == Terms.of(budget, AccountingUnit.named(name), aside)
    books = [ledger, Ledger(path)]

    def charge(cost):
        book = books[len(path.read_bytes()) % 2]
        fits = book.allows(cost)
        try:
            book.record(cost, mechanism="m", n_queries=1)
        except BudgetExceededError:
            assert not fits
            return False
        assert fits
        return True

    prices, failures = attack(Adversary(5, terms), terms, charge, 50)
    check_spent(terms, prices, failures)
    rows = ledger.releases()
    assert [row.price for row in rows] == prices == [terms.currency.price(row.charge) for row in rows]
    assert [row.failure for row in rows] == failures
    assert ledger.spent == math.fsum(prices)
    assert ledger.verify().ok


def test_no_either_and_no_best_order_afterwards(path):
    """Where another order, or mu^2, says that less was spent, the ledger does not listen."""
    ledger = Ledger(path, total=Budget(1.0, 1e-5), currency="renyi:40")
    n = quote(10_000, GNMax(40.0), budget=TOTAL, ledger=ledger, on_exhausted="abstain").n_queries
    ledger.record(LABEL * n, mechanism="m", n_queries=n)
    assert (LABEL * n).guarantee(1e-5).epsilon < 0.96  # the odometer: order 20 would still have room
    assert not ledger.allows(LABEL)
    assert quote(5, GNMax(40.0), budget=TOTAL, ledger=ledger, on_exhausted="abstain").n_queries == 0
    left = ledger.remaining()
    assert left.fraction_left < LABEL.rdp[DEFAULT.index(40.0)] / left.terms.limit
    # All that can be read off is the filter's own scalar, and what one release of it would be.
    assert set(left.to_dict()) == {
        "total", "currency", "limit", "spent", "n_releases", "fraction_left", "epsilon_left", "failure_delta",
        "failure_left",
    }  # fmt: skip


DEFAULT = list(LABEL.orders)


def test_two_currencies_never_pay_for_one_sequence():
    """Paying each release in whichever currency it is cheaper in would be the cheat; here it would buy more."""
    budget = Budget(2.0, 1e-5)
    gdp, renyi = Terms.of(budget, AccountingUnit()), Terms.of(budget, AccountingUnit(8.0))
    cheap = [min(gdp.currency.price(c) / gdp.limit, renyi.currency.price(c) / renyi.limit) for c in MIXED]
    for terms in (gdp, renyi):
        shares = [terms.currency.price(c) / terms.limit for c in MIXED]
        assert sum(shares) > sum(cheap) * 1.01
    for name in ("gdp", "renyi:8"):
        opening = Opening(budget, name, 0.0, None)
        assert all(opening.terms_for(c).currency.name == name for c in MIXED)


# Who can pay there ----------------------------------------------------------------------------------------------------


def test_everything_that_reads_private_data_is_charged_to_one_ledger(path):
    ledger = Ledger(path, total=Budget(9.0, 1e-5), currency="renyi:8", failure_delta=3e-6)
    budget, kinds = Budget(2.0, 1e-5), []
    release_labels(votes(40), GNMax(40.0), budget=budget, ledger=ledger)
    with open_session(
        GNMax(40.0), n_queries=9, n_teachers=250, classes=("no", "yes"), budget=budget, ledger=ledger, n_units=5000
    ) as session:
        session.ask(votes(3, start=100))
    run = open_vote_cap(
        VoteCap(9, 40.0), n_teachers=250, classes=("no", "yes"), budget=budget, ledger=ledger, n_units=5000
    )
    run.ask(np.zeros((250, 2), dtype=int))
    gate = ptr(votes(30, start=200), **GATE, noise=NoiseSource(), ledger=ledger)
    one = ledger.record(
        Charge.at_order(0.01, order=8.0, delta0=1e-6), mechanism="bound of a sum", n_queries=0,
        kind="sanitised value", facts={"value": 3.5}, request="a" * 64,
    )  # fmt: skip
    ledger.record(DPSGD, mechanism="DP-SGD(...)", n_queries=0, kind="DP-SGD", request="b" * 64)
    tuned = select_best(COUNTS, mean_runs=3, ledger=ledger, what="three learning rates")
    rows = ledger.releases()
    kinds = [row.kind for row in rows]
    assert kinds == [
        "labels", "session", "capped votes", "gate", "sanitised value", "DP-SGD", "selection",
    ]  # fmt: skip
    assert set(kinds) < set(KINDS)
    assert gate.release == 4
    assert [row.charge for row in rows[4:]] == paid(ledger)[4:]
    assert rows[6].charge == tuned
    assert rows[6].facts == {"mean_runs": 3.0, "shape": "1.0"}
    # Each in the ledger's one currency, recomputed here from the costs as they were given.
    given_costs = [GNMax(40.0).charge(40), GNMax(40.0).charge(9), VoteCap(9, 40.0).charge(), gate_cost(), DPSGD, tuned]
    expected = [c.rdp_at([8.0])[0] for c in given_costs]
    expected.insert(4, 0.01)
    assert [row.price for row in rows] == pytest.approx(expected, rel=1e-15)
    assert [row.failure for row in rows] == [0, 0, 0, 1e-6, 1e-6, 0, 0]
    shown = ledger.show()
    assert [row["kind"] for row in shown] == kinds
    assert sum(row["share"] for row in shown) == pytest.approx(ledger.used_fraction)
    assert ledger.find("a" * 64).id == one == 5
    assert ledger.find("a" * 64).facts == {"value": 3.5}
    assert ledger.find("b" * 64).kind == "DP-SGD"
    assert (ledger.find("c" * 64), ledger.has_request("b" * 64), ledger.has_request("c" * 64)) == (None, True, False)
    assert ledger.remaining().failure_left == pytest.approx(1e-6)
    assert ledger.verify().ok
    json.dumps(shown, allow_nan=False)


def gate_cost():
    return PTRGate(**GATE).charge


def test_what_was_charged_comes_back_as_it_was(path):
    """Orders, unknown values and failure probabilities too."""
    ledger = Ledger(path, total=Budget(20.0, 1e-5), currency="renyi:8", failure_delta=9e-6)
    costs = [
        *MIXED,
        DPSGD,
        gate_cost(),
        Charge(math.inf, (0.1, 0.2), 3.0, (2.0, 8.0)),
        Charge.at_order(0.1, order=9),
    ]
    for cost in costs:
        ledger.record(cost, mechanism="m", n_queries=1)
    for cost, row in zip(costs, ledger.releases(), strict=True):
        assert row.charge == cost


def test_failures_are_paid_from_what_was_set_aside(path):
    ledger = Ledger(path, total=TOTAL, currency="renyi:8", failure_delta=2e-6)
    assert ledger.remaining().terms.limit < AccountingUnit(8.0).limit(TOTAL)
    for _ in range(2):
        ledger.record(PTRGate(**GATE).charge, mechanism="gate", n_queries=30)
    small = PTRGate(**{**GATE, "tau": 0.001, "width": 90.0}).charge
    with pytest.raises(BudgetExceededError, match=r"may fail with probability 1e-06.*set aside.*failure_delta"):
        ledger.record(small, mechanism="gate", n_queries=30)
    ledger.record(LABEL * 3, mechanism="m", n_queries=3)  # what cannot fail still fits


def test_a_gate_that_opens_a_ledger_sets_aside_what_it_needs(path):
    gate, ledger = PTRGate(**GATE), Ledger(path)
    assert gate.test(votes(30), NoiseSource(), ledger=ledger) is True
    assert gate.release == 1
    assert ledger.total == Budget(gate.guarantee.epsilon, 1e-5)
    terms = ledger.remaining().terms
    assert (terms.currency.name, terms.failure_delta) == ("renyi:8", 1e-6)
    assert ledger.used_fraction == pytest.approx(1.0, rel=1e-12)
    assert ledger.registration["n_units"] == 5000
    # The answers that it paid for can be kept under its number, and no more than these.
    answers = [(h, "gnmax", 0, None) for h in votes(30).query_hashes]
    ledger.add_answers(gate.release, answers, 0)
    with pytest.raises(LedgerError, match="not paid for"):
        ledger.add_answers(gate.release, [("q", "gnmax", 0, None)])
    with pytest.raises(PateError, match="has been used"):
        gate.test(votes(30), NoiseSource())
    assert ledger.verify().ok


class Broken(NoiseSource):
    """Noise that fails as soon as it is drawn, and says whether it was."""

    drawn = False

    def words(self, size):
        self.drawn = True
        raise OSError("no noise today")


def test_a_gate_is_charged_before_its_noise_is_drawn(path):
    ledger, noise, gate = Ledger(path), Broken(), PTRGate(**GATE)
    with pytest.raises(OSError, match="no noise"):
        gate.run(votes(30), noise, lambda counts: "answers", ledger=ledger)
    assert len(ledger.releases()) == 1
    with pytest.raises(PateError, match="has been used"):
        gate.test(votes(30), NoiseSource(), ledger=ledger)
    assert len(ledger.releases()) == 1
    # and one that is not bought draws nothing and may be tried again elsewhere
    noise, refused = Broken(), PTRGate(**GATE)
    with pytest.raises(BudgetExceededError):
        refused.test(votes(30), noise, ledger=ledger)
    assert (noise.drawn, refused.passed, refused.release) == (False, None, None)
    assert refused.test(votes(30), NoiseSource())


def test_a_gate_on_other_peoples_votes_is_refused(path):
    ledger = Ledger(path)
    release_labels(votes(3), GNMax(40.0), budget=TOTAL, ledger=ledger)
    other = Votes.from_counts([[230, 20]] * 9, classes=("no", "yes"), n_units=777)
    with pytest.raises(LedgerError, match=r"5000 records \(or persons\), not 777"):
        PTRGate(**GATE).test(other, NoiseSource(), ledger=ledger)


def test_a_selection_that_is_not_bought_is_not_made(path):
    ledger = Ledger(path, total=Budget(0.5, 1e-5), currency="renyi")
    with pytest.raises(BudgetExceededError, match="best of 5 runs on average"):
        select_best(COUNTS * 300, mean_runs=5, ledger=ledger, what="noise")
    assert ledger.releases() == []
    with pytest.raises(LedgerError, match="no total budget yet"):
        select_best(COUNTS, mean_runs=5, ledger=Ledger(path.with_name("new.sqlite")))


def test_a_seeded_gate_is_recorded_as_seeded(path):
    PTRGate(**GATE).test(votes(3), NoiseSource(1), ledger=Ledger(path))
    assert Ledger(path).releases()[0].seeded


def test_kinds_are_the_known_ones(path):
    ledger = Ledger(path, total=TOTAL)
    with pytest.raises(InvalidInputError, match="kind must be one of 'labels', "):
        ledger.record(LABEL, mechanism="m", n_queries=1, kind="gift")
    for cost, n, kind in ((LABEL, 1, "labels"), (LABEL, 0, "other")):
        ledger.record(cost, mechanism="m", n_queries=n)
        assert ledger.releases()[-1].kind == kind


# What is said about it ------------------------------------------------------------------------------------------------


def test_labels_of_several_releases_are_stated_by_the_currency_of_the_ledger(path):
    ledger = Ledger(path)
    for start in (0, 20):
        release = release_labels(votes(20 + start), GNMax(40.0), budget=TOTAL, ledger=ledger)
    terms, said = ledger.remaining().terms, release.statement
    assert terms.currency.name == "renyi:8"
    g = release.guarantee
    assert (g.epsilon, g.delta, g.method, g.order) == (3.0, 1e-5, "renyi-filter", 8.0)
    assert "Renyi divergence at order 8, fixed before the first charge: Feldman and Zrnic 2021" in said.accounting
    assert repr(terms.limit) in said.verify
    assert "mu^2" not in said.accounting + said.verify
    # the recipe, followed
    limit = float(said.verify.split("compare it with ")[1].split(",")[0])
    assert 0 < sum(row.charge.rdp[DEFAULT.index(8.0)] for row in ledger.releases()) <= limit


def test_calibration_and_plans_follow_the_ledger(path):
    ledger = Ledger(path, total=TOTAL, currency="renyi:8")
    ledger.record(LABEL * 200, mechanism="m", n_queries=200)
    fitted = calibrate(GNMax(1.0), TOTAL, n_queries=100, left=ledger.remaining(default_total=TOTAL))
    price = AccountingUnit(8.0).price(fitted.charge(100))
    assert price == pytest.approx(ledger.remaining().left, rel=1e-8)
    assert ledger.allows(fitted.charge(100))
    rows = plan(TOTAL, n_queries=100, n_classes=10, n_teachers=250, ledger=ledger).rows
    assert rows[1].mechanism == fitted
    assert all(ledger.allows(row.mechanism.charge(row.n_queries, row.n_answers)) for row in rows)
    alone = plan(TOTAL, n_queries=100, n_classes=10, n_teachers=250).rows
    assert all(a.sigma < b.sigma for a, b in zip(alone, rows, strict=True))


# The file -------------------------------------------------------------------------------------------------------------


def tampered(path, *statements):
    triggers = [name for name, sql in SCHEMA.items() if sql.startswith("CREATE TRIGGER")]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for name in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
        for name in triggers:
            connection.execute(SCHEMA[name])


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE entries SET body = replace(body, 'renyi:8', 'renyi:7') WHERE kind = 'terms'",
        "UPDATE entries SET body = replace(body, '\"limit\":1', '\"limit\":2') WHERE kind = 'terms'",
        "UPDATE entries SET body = replace(body, 'delta\":0.0', 'delta\":1e-6') WHERE kind = 'terms'",
    ],
)
def test_changed_terms_are_not_believed(path, change):
    ledger = Ledger(path, total=TOTAL)
    ledger.record(LABEL * 200, mechanism="m", n_queries=200)
    tampered(path, change)
    with pytest.raises(LedgerError, match="did not write"):
        ledger.remaining()
    with pytest.raises(LedgerError, match="did not write"):
        ledger.record(LABEL, mechanism="m", n_queries=1)
    assert not ledger.verify().ok


def test_a_forged_chain_that_fits_is_found_by_its_prices_and_terms(path):
    """Anyone who rewrites the digests too: the price must still be the cost's, and the limit the currency's."""
    from pate.ledger import _entries

    ledger = Ledger(path, total=TOTAL, currency="renyi:8", failure_delta=0.0)
    with ledger._write() as connection:
        body = _entries.release_body((LABEL * 200), "m", 1, None, seeded=False, open_ended=False)
        _entries.append(connection, path, "release", "2026-01-01", body=body, release=1, price=0.01, failure=0.0)
    assert any("another price than its cost" in problem for problem in ledger.verify().problems)
    with ledger._write() as connection:
        terms = Terms.of(TOTAL, AccountingUnit())
        _entries.append(connection, path, "terms", "2026-01-02", body=_entries.terms_body(terms))
    problems = ledger.verify().problems
    assert any("fixes the currency again" in problem for problem in problems)
    assert any("another currency" in problem for problem in problems)
    assert ledger.remaining().terms.currency.name == "renyi:8"


def test_a_release_without_terms_is_found(path):
    from pate.ledger import _entries

    ledger = Ledger(path, total=TOTAL)
    with ledger._write() as connection:
        body = _entries.release_body(LABEL, "m", 1, None, seeded=False, open_ended=False)
        _entries.append(connection, path, "release", "2026-01-01", body=body, release=1, price=0.1, failure=0.0)
    assert any("before the currency was fixed" in problem for problem in ledger.verify().problems)


def test_labels_of_two_releases_in_a_huge_pure_ledger_get_their_statement(tmp_path):
    total = Budget(800.0, 1e-5)
    ledger = Ledger(tmp_path / "ledger.sqlite", total=total, currency="pure")
    votes = Votes.from_counts([[98, 2], [5, 95]], query_hashes=("a", "b"))
    release_labels(votes.take([0]), LNMax(1.0), budget=total, ledger=ledger)
    both = release_labels(votes, LNMax(1.0), budget=total, ledger=ledger)
    assert (both.guarantee.epsilon, both.statement.mu, both.n_answered) == (800.0, None, 2)


def test_what_a_ledger_writes_down_is_what_it_prices(path):
    """A charge that became free while its answers were drawn was priced at nothing, and written down in full."""
    ledger = Ledger(path, total=Budget(2.0, 1e-5), currency="gdp")
    cost = Charge.gaussian(sensitivity=1.0, sigma=4.0)
    paid_for = Charge.gaussian(sensitivity=1.0, sigma=4.0)

    def draw():
        object.__setattr__(cost, "mu_squared", 0.0)
        return {}

    ledger.record(cost, mechanism="mean", n_queries=0, facts=draw)
    assert [(row.charge, row.price) for row in ledger.releases()] == [(paid_for, paid_for.mu_squared)]
    assert ledger.verify().ok
