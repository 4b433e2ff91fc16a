"""Released sums of ballots: the law of the noise, its price, the ledger, sessions, the statement, and what is free."""

from __future__ import annotations

import copy
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from plain_space import PlainModel, PlainSpace
from scipy import stats

from pate import (
    BallotRelease,
    Budget,
    BudgetExceededError,
    GaussianSum,
    InvalidInputError,
    Ledger,
    RecordVoters,
    open_ballot_session,
    release_ballots,
)
from pate.exceptions import LedgerError
from pate.mechanisms import _ballot_sum as ballot_sum
from pate.privacy.convert import gdp_to_epsilon
from pate.privacy.noise.reals import rounded_counts
from pate.privacy.noise.source import NoiseSource
from pate.records import BallotFacts, BallotSum, SignedSpace
from pate.records.ballot_sum import UnitOwners
from pate.release import share_rounds
from pate.release.statement.model import PrivacyStatement

BUDGET = Budget(1.0, 1e-5)
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(300, 4)), RNG.integers(3, size=300)
VOTERS = RecordVoters(None, SignedSpace().fit(RNG.normal(size=(80, 4))), classes=("a", "b", "c"))
BALLOTS = VOTERS.cast(X, np.array(["a", "b", "c"])[Y])
MODEL = PlainModel(np.linspace(-1, 1, 12).reshape(4, 3))


def zeros(d, m, kind="signed", **more):
    """A sum of no ballots, as wide as one likes: what is released of it is noise alone."""
    facts = BallotFacts(kind=kind, clip=more.pop("clip", None), classes=tuple(range(m)), n_components=d, unit="record",
                        adjacency="replace-one", n=1000, space="ab", provenance="", own_maps=True, **more)  # fmt: skip
    owners = UnitOwners.of(np.zeros(1000, dtype=np.int64), None, None)
    return BallotSum(np.full((d, m), 12345, dtype=np.int64), facts, owners)


def contrasts(release):
    """Independent standard normals of a release of nothing, if its noise is what it says (Helmert contrasts)."""
    m = release.statistics.shape[1]
    helmert = np.array([[1.0] * j + [-j] + [0.0] * (m - j - 1) for j in range(1, m)])
    helmert /= np.sqrt(np.square(helmert).sum(axis=1, keepdims=True))
    return (release.statistics @ helmert.T / release.sigma).ravel()


def law_of(ballots, multiplier=3.0, seed=1):
    release = release_ballots(ballots, GaussianSum(multiplier), budget=Budget(9.0, 1e-5), noise_seed=seed)
    z = contrasts(release)
    # Both the shape and, more sharply, the size: the sum of squares is chi-squared.
    size = np.square(z).sum()
    return min(stats.kstest(z, "norm").pvalue, 2 * min(stats.chi2.cdf(size, len(z)), stats.chi2.sf(size, len(z))))


@pytest.mark.few(1)
@pytest.mark.parametrize("m", [2, 10])
def test_the_noise_has_the_law_that_is_accounted(m):
    for kind, clip in (("signed", None), ("soft", None), ("signed", 0.5)):
        assert law_of(zeros(4000, m, kind, clip=clip)) > 1e-3


@pytest.mark.parametrize("fault", ["too small by a tenth", "rounded coarsely", "one draw for two cells"])
def test_the_law_test_finds_a_fault(monkeypatch, fault):
    real = ballot_sum.rounded_counts

    def faulty(counts, *, scale, grid, source):
        if fault == "too small by a tenth":
            return real(counts, scale=0.9 * scale, grid=grid, source=source)
        if fault == "rounded coarsely":
            return np.rint(real(counts, scale=scale, grid=grid, source=source) / scale) * scale // grid * grid
        found = real(counts, scale=scale, grid=grid, source=source)
        found[:, 1] = found[:, 0]
        return found

    monkeypatch.setattr(ballot_sum, "rounded_counts", faulty)
    assert law_of(zeros(4000, 2)) < 1e-6


def test_noise_is_added_to_the_sum_and_to_every_cell():
    rng = np.random.default_rng(3)
    sums = rng.integers(-(2**45), 2**45, size=(50, 3))
    drawn = [GaussianSum(2.0).sample(sums, 10**12, NoiseSource(seed)) for seed in range(40)]
    mean = np.mean([d - sums for d in drawn], axis=0)
    spread = np.std([d - sums for d in drawn])
    assert np.abs(mean).max() < 5 * 2e6 / math.sqrt(40)
    assert spread == pytest.approx(2e6, rel=0.05)
    grid = 2.0 ** (math.frexp(2e6)[1] - 1 - 20)
    assert all((d % grid == 0).all() for d in drawn)


def test_splitting_off_whole_grids_rounds_as_the_whole_does():
    """The sampler sees what is left over the grid: the same number as of the whole sum, bit by bit."""
    sums = np.random.default_rng(4).integers(-(2**30), 2**30, size=(200, 3))
    mechanism, delta2 = GaussianSum(3.0), 2**48
    scale = mechanism.scale(delta2)
    grid = 2.0 ** (math.frexp(scale)[1] - 1 - 20)
    assert grid > 1
    whole = rounded_counts(sums, scale=scale, grid=grid, source=NoiseSource(5))
    assert (mechanism.sample(sums, delta2, NoiseSource(5)) == whole).all()


@pytest.mark.parametrize("multiplier", [0.001, 0.3, 1.0, 7.3, 131.7, 1e6])
@pytest.mark.parametrize("delta_squared", [1, 2, 2 * (10 * 2**16) ** 2, 4 * (2**16 * 92681) ** 2])
def test_the_scale_is_never_below_multiplier_times_delta(multiplier, delta_squared):
    scale = GaussianSum(multiplier).scale(delta_squared)
    assert Fraction(scale) ** 2 >= Fraction(multiplier) ** 2 * delta_squared
    assert scale <= multiplier * math.sqrt(delta_squared) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("epsilon", "mu"),
    [(0.02, 0.00759), (0.05, 0.01731), (0.1, 0.03252), (0.25, 0.07527), (0.5, 0.14221), (1, 0.26805), (2, 0.50155)],
)
def test_golden_prices(epsilon, mu):
    """mu of an epsilon at delta 1e-5, as the design has it."""
    mechanism = GaussianSum.for_budget(Budget(epsilon, 1e-5))
    assert 1 / mechanism.noise_multiplier == pytest.approx(mu, abs=6e-6)
    assert mechanism.charge().mu_squared == pytest.approx(mu**2, rel=2e-3)
    assert gdp_to_epsilon(1 / mechanism.noise_multiplier, 1e-5) <= epsilon
    rounds = share_rounds(Budget(epsilon, 1e-5), [0.2, 0.5, 0.3])
    total = math.fsum(1 / m.noise_multiplier**2 for m in rounds)
    assert math.sqrt(total) == pytest.approx(mu, abs=6e-6)
    assert gdp_to_epsilon(math.sqrt(total), 1e-5) <= epsilon * (1 + 1e-12)
    assert [round(total * s * m.noise_multiplier**2, 6) for s, m in zip((0.2, 0.5, 0.3), rounds, strict=True)] == [
        1.0
    ] * 3


def test_the_statistics_are_the_sum_and_sigma():
    """With next to no noise: in units of one ballot with |phi| = 1 and the centred one-hot."""
    release = release_ballots(BALLOTS, GaussianSum(0.001), budget=Budget(1e6, 1e-5))
    phi = VOTERS.transform(X)
    wanted = phi.T @ (np.eye(3)[Y] - 1 / 3)
    assert np.abs(release.statistics - wanted).max() < 0.02
    assert release.sigma == pytest.approx(0.001 * 2 * math.sqrt(2 / 3), rel=1e-9)
    assert release.n_units == 300
    assert np.abs(release.statistics.sum(axis=1)).max() < 1e-9


def test_residual_statistics_too():
    ballots = VOTERS.cast_residuals(X, np.array(["a", "b", "c"])[Y], MODEL, clip=0.5)
    release = release_ballots(ballots, GaussianSum(0.001), budget=Budget(1e6, 1e-5))
    phi = VOTERS.transform(X)
    r = np.eye(3)[Y] - MODEL.predict_proba(phi)
    r *= np.minimum(1, 0.5 / np.sqrt(np.square(r).sum(axis=1, keepdims=True)))
    assert np.abs(release.statistics - phi.T @ r).max() < 0.02
    assert release.sigma == pytest.approx(0.001 * 2 * 0.5, rel=1e-4)
    assert release.clip == 0.5


# Decisions -----------------------------------------------------------------------------------------------------------


def fake(statistics, sigma):
    release = release_ballots(zeros(*statistics.shape), GaussianSum(9.0), budget=BUDGET)
    return BallotRelease(statistics, sigma, release.facts, release.mechanism, release.guarantee, release.statement)


def test_the_probability_is_that_of_two_classes():
    for lead in (0.0, 0.3, 1.0, 5.0):
        found = fake(np.array([[lead / 2, -lead / 2]]), 0.7).decide([[1.0], [2.0]])
        assert found.probability == pytest.approx([stats.norm.cdf(lead / (0.7 * math.sqrt(2)))] * 2, abs=1e-6)
        assert found.standard_error == pytest.approx([0.7 * math.sqrt(2), 1.4 * math.sqrt(2)])
        assert found.margin == pytest.approx([lead, 2 * lead])


def test_the_probability_is_how_often_the_noiseless_label_is_it():
    rng = np.random.default_rng(6)
    statistics, phi = rng.normal(size=(3, 5)), rng.normal(size=(4, 3))
    found = fake(statistics, 0.5).decide(phi)
    t = 0.5 * np.sqrt(np.square(phi).sum(axis=1))
    for i in range(4):
        without = (phi @ statistics)[i] - t[i] * rng.normal(size=(200_000, 5))
        share = (without.argmax(axis=1) == found.labels[i]).mean()
        assert found.probability[i] == pytest.approx(share, abs=0.005)


def test_a_direction_of_nothing_decides_nothing():
    found = fake(np.ones((2, 4)), 0.5).decide([[0.0, 0.0]])
    assert (found.probability.item(), found.margin.item()) == (0.25, 0.0)
    with pytest.raises(InvalidInputError, match="phi must be finite numbers"):
        fake(np.ones((2, 4)), 0.5).decide([[0.0, np.nan]])


def test_labels_come_from_the_voters_of_that_space():
    release = release_ballots(BALLOTS, GaussianSum(9.0), budget=BUDGET)
    assert set(VOTERS.label(release, X[:9]).values()) <= {"a", "b", "c"}
    other = RecordVoters(None, SignedSpace(alpha=0.0).fit(X), classes=("a", "b", "c"))
    with pytest.raises(InvalidInputError, match="another space"):
        other.label(release, X)


# Ledger --------------------------------------------------------------------------------------------------------------


def same(a, b):
    return (a.statistics == b.statistics).all() and a.sigma == b.sigma and a.facts == b.facts


def test_the_same_request_gives_what_is_stored(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=BUDGET)
    first = release_ballots(BALLOTS, GaussianSum(9.0), budget=BUDGET, ledger=ledger)
    spent = ledger.spent
    again = release_ballots(BALLOTS, GaussianSum(9.0), budget=BUDGET, ledger=Ledger(tmp_path / "l.sqlite"))
    assert same(first, again)
    assert (ledger.spent, len(ledger.releases()), ledger.n_answers(1)) == (spent, 1, 1)
    assert first.statement.ledger_releases == again.statement.ledger_releases == (1,)
    assert first.statement.ledger_head == again.statement.ledger_head
    assert ledger.releases()[0].kind == "ballots"
    assert ledger.verify().ok
    others = [
        {"name": "another"},
        {"mechanism": GaussianSum(10.0)},
        {"ballots": VOTERS.cast_residuals(X, np.array(["a", "b", "c"])[Y], MODEL, clip=0.5)},
        {"ballots": VOTERS.cast_residuals(X, np.array(["a", "b", "c"])[Y], PlainModel(MODEL.weights + 1), clip=0.5)},
    ]
    for n, given in enumerate(others, start=2):
        asked = {"ballots": BALLOTS, "mechanism": GaussianSum(9.0), **given}
        made = release_ballots(budget=BUDGET, ledger=ledger, **asked)
        assert len(ledger.releases()) == n
        assert not np.array_equal(made.statistics, first.statistics)
    assert ledger.export(tmp_path / "labels.jsonl") == 5  # the noisy sums: that is what was released


def test_other_records_another_unit_or_adjacency_are_refused(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=BUDGET)
    release_ballots(BALLOTS, GaussianSum(9.0), budget=BUDGET, ledger=ledger)
    names = np.array(["a", "b", "c"])
    adding = RecordVoters(None, VOTERS.space, classes=VOTERS.classes, adjacency="add-or-remove", nominal_n=300)
    for other in (
        VOTERS.cast(X, names[(Y + 1) % 3]),
        VOTERS.cast(X, names[Y], groups=np.arange(300)),
        adding.cast(X, names[Y]),
    ):
        with pytest.raises(LedgerError):
            release_ballots(other, GaussianSum(9.0), budget=BUDGET, ledger=ledger, name="x")
    assert len(ledger.releases()) == 1


def test_corrected_features_give_what_was_stored_and_the_statement_says_so(tmp_path):
    """A ledger recognises labels and owners: features it cannot compare, and does not pretend to."""
    ledger, names = Ledger(tmp_path / "l.sqlite", total=BUDGET), np.array(["a", "b", "c"])
    ask = {"budget": Budget(0.3, 1e-6), "ledger": ledger}
    first = release_ballots(BALLOTS, GaussianSum(30.0), **ask)
    assert "as they were then" not in first.statement.released
    corrected = VOTERS.cast(-X, names[Y])
    again = release_ballots(corrected, GaussianSum(30.0), **ask)
    assert same(first, again)
    assert again.statement.released.endswith("their features are not")
    assert "stored by release 1 of the ledger, of the records as they were then" in again.statement.released
    paid = release_ballots(corrected, GaussianSum(30.0), name="corrected", **ask)
    assert not same(first, paid)
    assert paid.statement.ledger_releases == (2,)
    assert "as they were then" not in paid.statement.released
    # What is public is compared: another space is another request.
    other = RecordVoters(None, SignedSpace(alpha=0.5).fit(X[:80]), classes=VOTERS.classes).cast(X, names[Y])
    assert not same(first, release_ballots(other, GaussianSum(30.0), **ask))
    assert len(ledger.releases()) == 3


def test_a_session_says_which_rounds_are_of_before(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=BUDGET)
    with open_ballot_session(BUDGET, ledger=ledger, name="May", **ROUNDS) as session:
        assert "as they were then" not in session.ask(BALLOTS).statement.released
        assert "as they were then" not in session.ask(BALLOTS).statement.released  # cast now, and given once more
    with open_ballot_session(BUDGET, ledger=ledger, name="May", **ROUNDS) as session:
        later = session.ask(residuals())  # its model comes of the first round, which is of before
        assert "stored by release 1 of the ledger, of the records as they were then" in later.statement.released


def test_what_is_not_bought_is_not_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(GaussianSum, "sample", lambda *a: pytest.fail("drawn before it was paid for"))
    ledger = Ledger(tmp_path / "l.sqlite", total=Budget(0.1, 1e-5))
    for budget in (Budget(0.1, 1e-5), BUDGET):
        with pytest.raises(BudgetExceededError):
            release_ballots(BALLOTS, GaussianSum(3.7), budget=budget, ledger=ledger)
    assert ledger.releases() == []


def test_a_total_is_filled_up_exactly(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=BUDGET)
    half = share_rounds(BUDGET, [1, 1])[0]
    release_ballots(BALLOTS, half, budget=BUDGET, ledger=ledger)
    rest = GaussianSum.for_budget(BUDGET, ledger.remaining())
    assert rest.noise_multiplier == pytest.approx(half.noise_multiplier, rel=1e-6)
    release_ballots(BALLOTS, rest, budget=BUDGET, ledger=ledger, name="again")
    assert ledger.used_fraction > 1 - 1e-6
    with pytest.raises(BudgetExceededError):
        release_ballots(BALLOTS, GaussianSum(1000.0), budget=BUDGET, ledger=ledger, name="more")


# Sessions ------------------------------------------------------------------------------------------------------------


def test_rounds_that_are_alike_are_stated_together():
    session = open_ballot_session(BUDGET, shares=[1] * 4, classes=VOTERS.classes, n_units=300)
    said = session.ask(BALLOTS).statement.released
    for i, clip in enumerate((0.5, 0.5, 0.3)):
        model = PlainModel(MODEL.weights + i)
        said = session.ask(VOTERS.cast_residuals(X, NAMES, model, clip=clip)).statement.released
    d = BALLOTS.facts.n_components
    assert said == (
        f"a noisy {d} x 3 sum of signed ballots; 2 noisy {d} x 3 sums of residual ballots clipped to 0.5, in a signed "
        f"space; a noisy {d} x 3 sum of residual ballots clipped to 0.3, in a signed space"
    )


@pytest.mark.long
def test_crumbs_are_not_bought(tmp_path):
    """Rounds of more noise than ballots are refused, as teachers' votes are; so is a ledger's last hundredth."""
    few = {"shares": [1.0], "classes": 3, "n_units": 30}
    for given in (
        {"budget": Budget(0.02, 1e-5), **few},
        {"budget": BUDGET, **few, "shares": [1e-4, 1.0]},
        {"budget": Budget(0.02, 1e-5), "shares": [1.0] * 100, "classes": 3, "nominal_n": 30},
    ):
        with pytest.raises(InvalidInputError, match=r"nearly nothing is to be expected .* force=True"):
            open_ballot_session(**given)
        assert open_ballot_session(**given, force=True).n_left == len(given["shares"])
    # A hundred rounds alike say together what one says, and that is enough here.
    assert open_ballot_session(BUDGET, shares=[1.0] * 100, classes=3, nominal_n=30).n_left == 100
    # The edge: a round's noise is n sensitivities.
    at = GaussianSum.for_budget(BUDGET).noise_multiplier
    assert open_ballot_session(BUDGET, shares=[1], classes=3, n_units=math.ceil(at)).n_left == 1
    with pytest.raises(InvalidInputError, match="nearly nothing"):
        open_ballot_session(BUDGET, shares=[1], classes=3, n_units=math.floor(at))

    ledger = Ledger(tmp_path / "l.sqlite", total=BUDGET)
    release_ballots(BALLOTS, GaussianSum(1.00001 * at), budget=BUDGET, ledger=ledger)
    for force in (False, True):
        with pytest.raises(BudgetExceededError, match="with so much noise nothing can be learnt"):
            open_ballot_session(BUDGET, ledger=ledger, force=force, **ROUNDS)
    assert len(ledger.releases()) == 1


NAMES = np.array(["a", "b", "c"])[Y]
ROUNDS = {"shares": [0.3, 0.7], "classes": ("a", "b", "c"), "n_units": 300}


def residuals(clip=0.5):
    return VOTERS.cast_residuals(X, NAMES, MODEL, clip=clip)


def test_a_session_is_charged_whole_and_then_asked(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=BUDGET)
    session = open_ballot_session(BUDGET, ledger=ledger, **ROUNDS)
    assert ledger.used_fraction > 1 - 1e-6
    first, again, second = session.ask(BALLOTS), session.ask(BALLOTS), session.ask(residuals())
    assert same(first, again)
    assert session.n_left == 0
    assert first.guarantee == second.guarantee == session.charge.guarantee(1e-5)
    assert (first.mechanism, second.mechanism) == session.mechanisms
    assert "residual" in second.statement.released
    assert "signed ballots" in second.statement.released
    with pytest.raises(BudgetExceededError, match="all 2 rounds"):
        session.ask(residuals(0.7))
    assert same(session.ask(residuals()), second)
    assert ledger.verify().ok
    assert len(ledger.releases()) == 1


def test_a_session_without_a_ledger_draws_each_round_once():
    session = open_ballot_session(BUDGET, **ROUNDS)
    first = session.ask(BALLOTS)
    assert same(first, session.ask(BALLOTS))
    assert session.n_left == 1
    session.close()
    with pytest.raises(InvalidInputError, match="closed"):
        session.ask(BALLOTS)


def test_a_session_that_was_left_goes_on_by_its_name(tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite", total=BUDGET)
    with open_ballot_session(BUDGET, ledger=ledger, name="May", **ROUNDS) as session:
        first = session.ask(BALLOTS)
    with open_ballot_session(BUDGET, ledger=ledger, name="May", **ROUNDS) as session:
        assert session.n_left == 1
        assert same(session.ask(BALLOTS), first)
        assert session.n_left == 1
        second = session.ask(residuals())
        assert second.mechanism == session.mechanisms[1]
    with open_ballot_session(BUDGET, ledger=ledger, name="May", **ROUNDS) as session:
        assert session.n_left == 0
        assert same(session.ask(residuals()), second)
    assert len(ledger.releases()) == 1


def test_a_round_that_could_not_be_stored_is_used_up(tmp_path, monkeypatch):
    """Also after the session is opened again: no round's noise is drawn and shown twice for one price."""
    ledger = Ledger(tmp_path / "l.sqlite", total=BUDGET)
    session = open_ballot_session(BUDGET, ledger=ledger, name="May", **ROUNDS)
    real = Ledger.add_answers
    monkeypatch.setattr(Ledger, "add_answers", lambda *a, **k: (_ for _ in ()).throw(LedgerError("full")))
    with pytest.raises(LedgerError, match="full"):
        session.ask(BALLOTS)
    monkeypatch.setattr(Ledger, "add_answers", real)
    assert session.n_left == 1
    second = session.ask(residuals())
    assert second.mechanism == session.mechanisms[1]
    session.close()
    with open_ballot_session(BUDGET, ledger=ledger, name="May", **ROUNDS) as again:
        assert again.n_left == 0
        with pytest.raises(BudgetExceededError, match="all 2 rounds"):
            again.ask(BALLOTS)
        assert same(again.ask(residuals()), second)


def test_a_session_takes_ballots_of_its_own_records_alone(tmp_path):
    session = open_ballot_session(BUDGET, **ROUNDS)
    session.ask(BALLOTS)
    with pytest.raises(InvalidInputError, match="other private records"):
        session.ask(VOTERS.cast(X, np.array(["a", "b", "c"])[(Y + 1) % 3]))
    with pytest.raises(InvalidInputError, match="unit='record'"):
        session.ask(VOTERS.cast(X, NAMES, groups=np.arange(300)))
    with pytest.raises(InvalidInputError, match="n_units=300"):
        open_ballot_session(BUDGET, **ROUNDS).ask(VOTERS.cast(X[:200], NAMES[:200]))
    with pytest.raises(InvalidInputError, match="cannot be copied"):
        copy.copy(session)
    with pytest.raises(InvalidInputError, match="shares must list"):
        open_ballot_session(BUDGET, shares=[], classes=3)


# Statement and files -------------------------------------------------------------------------------------------------


def test_the_statement_says_what_it_must(tmp_path):
    said = {"public rows": "a census of 1990", "purpose": "triage"}
    release = release_ballots(BALLOTS, GaussianSum(9.0), budget=BUDGET, stated=said)
    text = release.statement.text()
    for words in ("lower for a Gaussian sum", "SignedSpace() fitted on 80 public rows", "a census of 1990", "triage",
                  "replace-one adjacency", "300 in all", "1/9.0^2"):  # fmt: skip
        assert words in " ".join(text.split()), words
    by = {a.name: a.by for a in release.statement.assumptions}
    assert by["own row only"] == by["noise"] == "pate"
    assert by["public rows"] == by["classes"] == "curator"
    assert by["preprocessing"] == by["parameters"] == "nobody"
    assert PrivacyStatement.from_dict(json.loads(json.dumps(release.statement.to_dict()))) == release.statement
    assert release.statement.mu == pytest.approx(1 / 9)
    with pytest.raises(InvalidInputError, match="unknown entry 'noise'"):
        release_ballots(BALLOTS, GaussianSum(9.0), budget=BUDGET, stated={"noise": "we threw it away"})


def test_the_statement_vouches_for_no_code_that_pate_does_not_know():
    plain = RecordVoters(None, PlainSpace("signed", 4), classes=3)
    release = release_ballots(plain.cast(X, Y), GaussianSum(9.0), budget=BUDGET)
    assert {a.name: a.by for a in release.statement.assumptions}["own row only"] == "nobody"
    release = release_ballots(residuals(), GaussianSum(9.0), budget=BUDGET)
    assert {a.name: a.by for a in release.statement.assumptions}["public model"] == "nobody"
    said = {"public model": "a head of last year's release"}
    release = release_ballots(residuals(), GaussianSum(9.0), budget=BUDGET, stated=said)
    assert {a.name: a.by for a in release.statement.assumptions}["public model"] == "curator"


def test_seeded_noise_is_not_private():
    release = release_ballots(BALLOTS, GaussianSum(9.0), budget=BUDGET, noise_seed=1)
    assert release.guarantee.kind == "seeded"
    assert "not private" in release.statement.headline


def test_under_add_or_remove_nothing_that_is_released_tells_the_number(tmp_path):
    adding = RecordVoters(None, VOTERS.space, classes=VOTERS.classes, adjacency="add-or-remove", nominal_n=280)
    made = []
    for n in (299, 300):
        ledger = Ledger(tmp_path / f"{n}.sqlite", total=BUDGET)
        release = release_ballots(adding.cast(X[:n], NAMES[:n]), GaussianSum(9.0), budget=BUDGET, ledger=ledger)
        made.append((release, ledger))
    (a, first), (b, second) = made
    assert a.facts == b.facts
    assert a.guarantee.adjacency == "add-or-remove"
    assert a.n_units == 280
    assert a.statement.n_units is None
    varying = ("digest", "created", "ledger_head")
    statements = [{k: v for k, v in r.statement.to_dict().items() if k not in varying} for r in (a, b)]
    assert statements[0] == statements[1]
    assert "a nominal number of 280 units" in a.statement.mechanism
    assert first.registration == second.registration
    assert [row.facts for row in first.releases()] == [row.facts for row in second.releases()]
    assert not any("300" in json.dumps(row.facts) for row in second.releases())
    # At half the Delta of signed ballots the same multiplier means half the noise.
    assert a.sigma == pytest.approx(release_ballots(BALLOTS, GaussianSum(9.0), budget=BUDGET).sigma / 2)


def test_saved_and_loaded_it_is_the_same(tmp_path):
    release = release_ballots(residuals(), GaussianSum(9.0), budget=BUDGET)
    release.save(tmp_path / "r.safetensors")
    again = BallotRelease.load(tmp_path / "r.safetensors")
    assert same(release, again)
    assert again.statement == release.statement
    assert (again.decide(X).scores == release.decide(X).scores).all()
    (tmp_path / "other").write_bytes((tmp_path / "r.safetensors").read_bytes()[:-9])
    with pytest.raises(InvalidInputError, match="must be a file written by pate"):
        BallotRelease.load(tmp_path / "other")


def test_wrong_things_are_refused():
    with pytest.raises(InvalidInputError, match="ballots must be a BallotSum"):
        release_ballots(BALLOTS.sums, GaussianSum(9.0), budget=BUDGET)
    with pytest.raises(InvalidInputError, match="mechanism must be GaussianSum"):
        release_ballots(BALLOTS, 9.0, budget=BUDGET)
    with pytest.raises(InvalidInputError, match="noise_multiplier must be"):
        GaussianSum(0.0)
    with pytest.raises(InvalidInputError, match="sums must be an int64 array"):
        GaussianSum(1.0).sample(np.zeros((2, 2)), 1, NoiseSource(0))
