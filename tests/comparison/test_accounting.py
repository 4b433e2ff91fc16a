"""account: the exact numbers of a vote matrix, never above the public one, and golden numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pate import (
    Budget,
    BudgetExceededError,
    ConfidentGNMax,
    GNMax,
    InvalidInputError,
    Ledger,
    LNMax,
    NoisyHistogram,
    SensitiveValueError,
    Votes,
    account,
)
from pate.privacy import DEFAULT_ORDERS, Guarantee, rdp_to_epsilon
from pate.privacy import exact as noisy_max
from pate.privacy.publish.smooth_sensitivity import SmoothSensitivity
from pate.release.account import PLD_SECONDS, USES, PrivacyReport, cost_by_queries

DELTA = 1e-5
CONFIDENT = ConfidentGNMax(threshold=200, sigma_threshold=150, sigma=40)
MECHANISMS = [
    GNMax(sigma=5.0),
    GNMax(sigma=40.0),
    LNMax(scale=6.0),
    ConfidentGNMax(threshold=20, sigma_threshold=12.0, sigma=5.0),
    NoisyHistogram(sigma=5.0),
]


def some_labels(n_teachers=30, n_queries=60, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n_queries)
    sure = rng.random(n_queries) < 0.7
    guess = rng.integers(0, n_classes, (n_teachers, n_queries))
    return np.where(rng.random((n_teachers, n_queries)) < np.where(sure, 0.95, 0.4), truth, guess)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "mechanism", MECHANISMS, ids=lambda m: m.family + str(m.noise_fields and getattr(m, m.noise_fields[-1]))
)
@pytest.mark.parametrize("kept", ["labels", "counts"])
def test_never_above_the_public_number(mechanism, kept):
    labels = some_labels()
    votes = Votes.from_labels(labels, classes=4)
    votes = votes if kept == "labels" else Votes.from_counts(votes.counts)
    report = account(votes, mechanism, delta=DELTA)
    found, exact = report.data_dependent.reveal(), report.exact.reveal()
    assert 0 <= found.epsilon <= report.public.epsilon
    assert found.epsilon == min([report.public.epsilon, *(g.epsilon for g in exact.values())])
    assert (found.kind, found.directions) == ("data-dependent", "both")
    assert set(exact) == (set() if isinstance(mechanism, NoisyHistogram) else {"rdp", "pld"})
    for name, guarantee in exact.items():
        assert guarantee.method == f"{name} of the exact law {'per teacher' if kept == 'labels' else 'per query'}"
        assert guarantee.adaptivity == "fixed queries"


@pytest.mark.few(1)
@pytest.mark.parametrize("mechanism", MECHANISMS[:-1], ids=lambda m: m.family)
def test_labels_are_worth_something(mechanism):
    votes = Votes.from_labels(some_labels(), classes=4)
    by_teacher = account(votes, mechanism, delta=DELTA).exact.reveal()
    by_query = account(Votes.from_counts(votes.counts), mechanism, delta=DELTA).exact.reveal()
    for name in ("rdp", "pld"):
        assert by_teacher[name].epsilon < by_query[name].epsilon
    assert by_query["pld"].epsilon < by_query["rdp"].epsilon
    assert by_teacher["pld"].epsilon < by_teacher["rdp"].epsilon


def test_both_directions_stand_apart_inside_the_sum():
    """The reverse direction is often the larger one; their maximum must be outside of the sum, query by query."""
    counts = np.array([[30, 0, 0]] * 40 + [[11, 10, 9]] * 20)
    mechanism = GNMax(sigma=5.0)
    found = noisy_max.exact_divergences(counts, DEFAULT_ORDERS, **mechanism.exact_parameters())
    each = [rdp_to_epsilon(noisy_max.upper_bound(total), DELTA)[0] for total in found.totals()]
    assert account(Votes.from_counts(counts), mechanism, delta=DELTA, pld=False).exact.reveal()["rdp"].epsilon == max(
        each
    )
    mixed = rdp_to_epsilon(mechanism.exact_rdp(counts).sum(axis=0), DELTA)[0]
    assert max(each) <= mixed * (1 + 1e-7)


def test_an_unhelpful_bound_leaves_the_public_number():
    """Where no vote is clear the exact RDP value lies above exact Gaussian composition at small epsilon."""
    votes = Votes.from_counts([[15, 15]] * 3)
    report = account(votes, GNMax(sigma=200.0), delta=DELTA, pld=False)
    assert report.data_dependent.reveal().epsilon <= report.public.epsilon
    assert report.data_dependent.reveal().kind == "data-dependent"


def test_the_cap_on_answers_lowers_the_public_number_only():
    votes = Votes.from_counts([[28, 2]] * 50)
    mechanism = ConfidentGNMax(threshold=20, sigma_threshold=12.0, sigma=5.0)
    all_answered, capped = (account(votes, mechanism, delta=DELTA, max_answers=n, pld=False) for n in (None, 5))
    assert capped.public.epsilon < all_answered.public.epsilon
    assert capped.exact.reveal() == all_answered.exact.reveal()


def test_when_privacy_loss_distributions_are_composed(monkeypatch):
    votes, mechanism = Votes.from_counts([[240, 10]] * 20), GNMax(sigma=40.0)
    for pld, names in ((True, {"rdp", "pld"}), (False, {"rdp"}), ("auto", {"rdp", "pld"})):
        assert set(account(votes, mechanism, delta=DELTA, pld=pld).exact.reveal()) == names
    monkeypatch.setattr("pate.release.account.PLD_SECONDS", 0.0)
    assert set(account(votes, mechanism, delta=DELTA).exact.reveal()) == {"rdp"}
    assert set(account(votes, mechanism, delta=DELTA, pld=True).exact.reveal()) == {"rdp", "pld"}
    with pytest.raises(InvalidInputError, match="pld"):
        account(votes, mechanism, delta=DELTA, pld="maybe")


def test_the_estimate_grows_with_the_work(mnist2018_counts):
    noise = GNMax(sigma=40.0).exact_parameters()["noise"]
    few, more = (noisy_max.pld_seconds(mnist2018_counts[:n], noise=noise) for n in (640, 3000))
    assert 0 < few < more
    assert few < PLD_SECONDS
    rng = np.random.default_rng(0)
    many_classes = rng.multinomial(10_000, rng.dirichlet(np.ones(200), 60))
    assert noisy_max.pld_seconds(many_classes, noise=noise) > PLD_SECONDS
    assert noisy_max.pld_seconds(np.zeros((0, 3), dtype=int), noise=noise) == 0


def test_no_queries_cost_nothing():
    votes = Votes.from_counts(np.zeros((0, 3), dtype=int), n_teachers=5)
    report = account(votes, GNMax(sigma=4.0), delta=DELTA)
    assert report.data_dependent.reveal().epsilon == 0


def test_abstaining_teachers_are_not_accounted_as_replaced_votes():
    """A removed or added vote is another neighbour than a replaced one: nothing below the public number is claimed."""
    import dataclasses

    votes = dataclasses.replace(Votes.from_counts([[28, 2]] * 50), n_teachers=31)
    report = account(votes, GNMax(sigma=4.0), delta=DELTA)
    assert report.exact.reveal() == {}
    assert report.data_dependent.reveal().epsilon == report.public.epsilon


def test_everything_about_the_votes_is_wrapped():
    report = account(Votes.from_counts([[28, 2]] * 50), GNMax(sigma=4.0), delta=DELTA)
    numbers = [f"{g.epsilon:.4g}" for g in (report.data_dependent.reveal(), *report.exact.reveal().values())]
    assert not any(n in text for n in numbers for text in (repr(report), str(report), repr(report.exact)))
    with pytest.raises(SensitiveValueError):
        report.data_dependent.reveal().to_dict()
    assert set(USES) <= set(PrivacyReport.__dataclass_fields__)
    assert all("never publish" in use for name, use in USES.items() if name not in ("public", "sanitised"))


def test_curves_end_in_the_report():
    votes = Votes.from_counts([[24, 6], [16, 14]] * 15)
    wrapped = cost_by_queries(votes, GNMax(sigma=9.0), delta=DELTA, n_points=4)
    assert "hidden" in repr(wrapped)
    curves = {c["label"]: c for c in wrapped.reveal()}
    report = account(votes, GNMax(sigma=9.0), delta=DELTA)
    assert list(curves) == [
        "public",
        "exact at these votes, RDP",
        "exact at these votes, PLD",
        "as published in 2018, one direction",
    ]
    for curve in curves.values():
        assert curve["queries"] == [1, 6, 16, 30]
        assert (np.diff(curve["epsilon"]) > 0).all()
    assert curves["public"]["epsilon"][-1] == report.public.epsilon
    assert curves["exact at these votes, PLD"]["epsilon"][-1] == report.exact.reveal()["pld"].epsilon
    with pytest.raises(InvalidInputError):
        cost_by_queries(votes, GNMax(sigma=9.0), delta=DELTA, n_points=1)


# --- golden numbers, computed elsewhere -------------------------------------------------------------------------------


def test_golden_divergences_and_laws(golden):
    checked = 0
    for row in golden["per_query"]:
        mechanism = GNMax(sigma=row["sigma"])
        want = np.maximum(row["forward"], row["reverse"])
        np.testing.assert_allclose(mechanism.exact_rdp([row["counts"]], golden["orders"])[0], want, rtol=1e-8)
        np.testing.assert_allclose(mechanism.log_probs([row["counts"]])[0], row["log_probs"], rtol=1e-8)
        checked += 1
    assert checked > 5


GOLDEN = {
    "gnmax_sigma40_first100": (GNMax(sigma=40.0), 100, 0.5224),
    "gnmax_sigma40_first640": (GNMax(sigma=40.0), 640, 1.3504),
    "gnmax_sigma40_first3000": (GNMax(sigma=40.0), 3000, 3.0474),
    "confident_joint_T200_s150_40_first640": (CONFIDENT, 640, 0.9293),
}


def test_golden_names(golden):
    assert set(golden["mnist2018"]) == set(GOLDEN)


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_totals(golden, mnist2018_counts, name):
    """Figures to reach: the larger direction of every query, summed; keeping directions apart is a little less."""
    mechanism, n, figure = GOLDEN[name]
    want = golden["mnist2018"][name]
    # the golden totals carry the same safety factor, 1 + 1e-8
    total = noisy_max.upper_bound(mechanism.exact_rdp(mnist2018_counts[:n], golden["total_orders"]).sum(axis=0))
    np.testing.assert_allclose(total, want["rdp"], rtol=1e-9)
    epsilon, order = rdp_to_epsilon(total, DELTA, orders=golden["total_orders"])
    assert epsilon == pytest.approx(want["epsilon"], rel=1e-8)
    assert order == want["order"]
    assert round(epsilon, 4) == figure
    report = account(Votes.from_counts(mnist2018_counts[:n]), mechanism, delta=DELTA, pld=False)
    found: Guarantee = report.exact.reveal()["rdp"]
    assert want["epsilon"] * 0.998 < found.epsilon <= want["epsilon"]
    assert report.papernot2018.reveal().epsilon > 1.5 * found.epsilon


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "below"),
    [
        ("gnmax_sigma40_first100", 0.4708),
        ("confident_joint_T200_s150_40_first640", 0.8444),
        ("gnmax_sigma40_first640", 1.2463),
        pytest.param("gnmax_sigma40_first3000", 2.8637, marks=pytest.mark.slow),
    ],
)
def test_privacy_loss_distributions_on_the_2018_votes(mnist2018_counts, name, below):
    mechanism, n, by_rdp = GOLDEN[name]
    report = account(Votes.from_counts(mnist2018_counts[:n]), mechanism, delta=DELTA, pld=True)
    found = report.data_dependent.reveal()
    assert "pld" in found.method
    assert 0.89 * by_rdp < found.epsilon
    assert found.epsilon <= below


HOW = SmoothSensitivity(order=8.0, beta=0.0125, noise_scale=4.0)


def open_ledger(folder, **terms):
    return Ledger(folder / "ledger.sqlite", total=Budget(20.0, 1e-5), **({"currency": "renyi"} | terms))


@pytest.mark.long
def test_a_sanitised_number_is_drawn_once_and_kept(tmp_path):
    votes = Votes.from_counts(np.tile([240, 10], (300, 1)))
    assert account(votes, GNMax(40.0), delta=1e-5, pld=False).sanitised is None
    ledger, gnmax = open_ledger(tmp_path), GNMax(40.0)

    def ask(votes=votes, mechanism=gnmax, how=HOW, delta=1e-5):
        return account(votes, mechanism, delta=delta, pld=False, sanitise=how, ledger=ledger).sanitised

    first = ask()
    assert first.kind == "sanitised"
    exact = account(votes, GNMax(40.0), delta=1e-5, pld=False).data_dependent.reveal().epsilon
    assert first.epsilon > exact
    again = [ask() for _ in range(12)] + [ask(Votes.from_counts(np.tile([240, 10], (300, 1))))]
    assert set(again) == {first}, "asking again is free, and returns the same"
    [row] = ledger.releases()
    assert (row.kind, row.n_queries, row.failure) == ("sanitised value", 0, 0.0)
    assert row.price == pytest.approx(HOW.cost.rdp_at([float(ledger.currency.split(":")[1])])[0], rel=1e-12)
    # Another question is another number, and paid for.
    ask(mechanism=ConfidentGNMax(200.0, 150.0, 40.0))
    ask(how=replace(HOW, noise_scale=5.0))
    ask(delta=1e-6 + 1e-7)
    ask(Votes.from_counts(np.tile([239, 11], (300, 1))))
    assert len(ledger.releases()) == 5
    # Also to another process that opens the file.
    assert (
        account(votes, GNMax(40.0), delta=1e-5, pld=False, sanitise=HOW, ledger=Ledger(ledger.path)).sanitised == first
    )
    assert ledger.verify().ok
    # Nothing in the file tells the votes: the request is keyed.
    assert b"240" not in b"".join(str(r.facts).encode() for r in ledger.releases())


def test_sanitise_takes_true_for_the_usual_settings(tmp_path):
    votes, ledger = (
        Votes.from_counts(np.tile([240, 10], (300, 1))),
        Ledger(tmp_path / "l.sqlite", total=Budget(20.0, 1e-5)),
    )

    def ask(how):
        return account(votes, GNMax(40.0), delta=1e-5, pld=False, sanitise=how, ledger=ledger).sanitised

    for wrong in ("usual", 8, {"order": 8}, np.ones(3)):
        with pytest.raises(InvalidInputError, match=r"sanitise must be True \(the usual settings\), None or"):
            ask(wrong)
    assert ask(False) is ask(None) is None
    assert ledger.releases() == []
    first = ask(True)
    assert (first.kind, ask(SmoothSensitivity.usual(1e-5)), len(ledger.releases())) == ("sanitised", first, 1)
    with pytest.raises(InvalidInputError, match="delta must be"):
        account(votes, GNMax(40.0), delta=2.0, sanitise=True, ledger=ledger)


def test_a_sanitised_number_needs_a_ledger(tmp_path):
    votes = Votes.from_counts(np.tile([240, 10], (30, 1)))
    with pytest.raises(InvalidInputError, match="ledger must be given with sanitise"):
        account(votes, GNMax(40.0), delta=1e-5, sanitise=HOW)
    with pytest.raises(InvalidInputError, match="have a total"):
        account(votes, GNMax(40.0), delta=1e-5, sanitise=HOW, ledger=Ledger(tmp_path / "none.sqlite"))
    ledger = open_ledger(tmp_path)
    with pytest.raises(InvalidInputError, match="sanitise must be None"):
        account(votes, LNMax(40.0), delta=1e-5, sanitise=HOW, ledger=ledger)
    with pytest.raises(InvalidInputError, match="delta0 must be below delta"):
        account(votes, GNMax(40.0), delta=1e-6, sanitise=HOW, ledger=ledger)
    assert account(votes, GNMax(40.0), delta=1e-5, sanitise=HOW, ledger=ledger, noise_seed=1).sanitised.kind == "seeded"
    assert [r.seeded for r in ledger.releases()] == [True]
    for name, terms in (("gdp", {"currency": "gdp"}), ("poor", {"currency": "renyi:8", "total": Budget(1.5, 1e-5)})):
        poor = Ledger(tmp_path / f"{name}.sqlite", **({"total": Budget(20.0, 1e-5)} | terms))
        with pytest.raises(BudgetExceededError, match="cannot pay for a sanitised epsilon"):
            account(votes, GNMax(40.0), delta=1e-5, sanitise=HOW, ledger=poor)
        assert poor.releases() == []
