"""One site's part of a run: charged durably before anything is drawn, once, with fresh noise; and what is stated."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import jsonschema
import numpy as np
import pytest

from pate import Budget, GNMax, InvalidInputError, Ledger, RecordVoters, Votes
from pate.audit import replay
from pate.exceptions import BudgetExceededError, FederationError, LedgerError, ReplayError
from pate.ledger import Registration
from pate.mechanisms import SharedGaussian, SharedGNMax, institution_charge, rounds_charge
from pate.privacy.convert import format_up
from pate.privacy.noise.source import NoiseSource
from pate.records import SignedSpace, count_right
from pate.release import (
    FederationFacts,
    buy_labels,
    buy_shares,
    federation_statement,
    open_shares,
    release_labels,
    site_ledger,
)
from pate.release.statement.model import PrivacyStatement

BUDGET = Budget(2.0, 1e-5)
SCHEMA = json.loads((Path(__file__).parents[2] / "pate/_templates/statement.schema.json").read_text("utf-8"))


def votes(counts=((8, 2), (5, 5)), **more):
    return Votes.from_counts(counts, **{"n_units": 100, **more})


def ballots(n=30, seed=0):
    rng = np.random.default_rng(seed)
    space = SignedSpace().fit(np.eye(3))
    return RecordVoters(None, space, classes=3).cast(np.eye(3)[rng.integers(3, size=n)], rng.integers(3, size=n))


def opened(mechanism=None, *, given=None, ledger=None, request="plan 1", rounds=1, n_cells=40, budget=BUDGET, **more):
    given = votes() if given is None else given
    data = Registration.of_votes(given) if isinstance(given, Votes) else given.registration()
    mechanism = mechanism or SharedGaussian(20.0, n_sites=5, tolerate=2)
    return open_shares(
        [mechanism] * rounds, data=data, budget=budget, ledger=ledger, request=request, n_cells=n_cells,
        without_ledger=ledger is None, **more,
    )  # fmt: skip


@pytest.fixture
def ledger(tmp_path):
    return site_ledger(tmp_path / "site.sqlite", Budget(3.0, 1e-5))


# The charge ------------------------------------------------------------------------------------------------------


def test_all_rounds_are_charged_before_the_first_is_drawn(ledger):
    session = opened(ledger=ledger, rounds=3)
    (row,) = Ledger(ledger.path).releases()
    assert row.kind == "noise shares"
    assert row.charge == session.charge == rounds_charge(session.mechanisms, 40)
    assert row.charge.delta0 == 40 * 2.0**-70
    assert row.facts["n_cells"] == 40
    assert row.mechanism.startswith("3 x SharedGaussian(")
    assert session.n_left == 3
    assert ledger.verify().ok


def test_a_site_pays_again_and_again_from_one_ledger(ledger):
    """What was set aside for delta0 lasts: a ledger begun by the first charge alone would refuse the second."""
    first, second = opened(ledger=ledger, request="a"), opened(ledger=ledger, request="b")
    assert [row.id for row in ledger.releases()] == [first.release, second.release] == [1, 2]
    again = site_ledger(ledger.path, Budget(3.0, 1e-5))
    assert opened(ledger=again, request="c").release == 3
    with pytest.raises(LedgerError):
        site_ledger(ledger.path, Budget(4.0, 1e-5))


def test_labels_are_paid_from_a_ledger_of_renyi_divergence(tmp_path):
    labels = SharedGNMax(60.0, n_sites=5, tolerate=2, n_classes=2)
    of_labels = site_ledger(tmp_path / "labels.sqlite", Budget(3.0, 1e-5), labels=True)
    for request in "ab":
        opened(labels, ledger=of_labels, request=request)
    assert of_labels.currency.startswith("renyi:")
    opened(SharedGaussian(50.0, n_sites=5, tolerate=2), ledger=of_labels, request="c")


@pytest.mark.long
@pytest.mark.sample
@pytest.mark.parametrize("dies_in", ["sample", "discrete_gaussian"])
def test_a_site_that_is_killed_while_drawing_stays_charged(tmp_path, dies_in):
    code = f"""
import os, sys
from unittest.mock import patch
import pate.mechanisms._shares as shares
from pate import Budget, Votes
from pate.ledger import Registration
from pate.release import open_shares, site_ledger
votes = Votes.from_counts([[8, 2], [5, 5]])
session = open_shares([shares.SharedGaussian(20.0, 5, 2)], data=Registration.of_votes(votes), budget=Budget(2.0, 1e-5),
    ledger=site_ledger(sys.argv[1], Budget(3.0, 1e-5)), request="plan 1", n_cells=4)
dies = lambda *given: os._exit(9)
if {dies_in!r} == "sample":
    shares.SharedGaussian.sample = dies
else:
    shares.discrete_gaussian = dies
session.share(votes)
"""
    path = tmp_path / "site.sqlite"
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 9
    held = Ledger(path)
    assert [row.kind for row in held.releases()] == ["noise shares"]
    with pytest.raises(FederationError, match="was charged for this plan before"):
        opened(ledger=held)
    assert opened(ledger=held, request="plan 2").n_left == 1


def test_nothing_is_drawn_where_the_charge_fails(ledger):
    with patch.object(SharedGaussian, "sample", side_effect=AssertionError("drawn")) as drawn:
        for budget, total in ((Budget(0.05, 1e-5), ledger), (BUDGET, ledger)):
            with pytest.raises(BudgetExceededError):
                opened(SharedGaussian(20.0 if budget is not BUDGET else 1.0, 5, 2), ledger=total, budget=budget)
        with patch.object(Ledger, "record", side_effect=LedgerError("full disk")), pytest.raises(LedgerError):
            opened(ledger=ledger)
    assert not drawn.called
    assert ledger.releases() == []


def test_an_overspent_site_refuses(ledger):
    cost = SharedGaussian(4.0, n_sites=5, tolerate=2)
    while ledger.allows(cost.charge(40)):
        opened(cost, ledger=ledger, request=str(ledger.spent), budget=Budget(3.0, 1e-5))
    n = len(ledger.releases())
    with pytest.raises(BudgetExceededError, match=r"it takes .*: more than the [\d.]+% that is left"):
        opened(cost, ledger=ledger, request="one more", budget=Budget(3.0, 1e-5))
    assert n == len(ledger.releases()) > 1
    assert ledger.spent <= ledger.remaining().terms.limit


def test_a_plan_is_served_once(ledger):
    session = opened(ledger=ledger)
    with pytest.raises(FederationError, match="ask again by a new plan"):
        opened(ledger=ledger)
    session.close()
    with pytest.raises(FederationError):
        opened(ledger=Ledger(ledger.path))
    assert len(ledger.releases()) == 1


def test_two_at_once_serve_a_plan_once(ledger):
    """Whoever is second finds the charge inside of the transaction, however close they are."""
    found, barrier = [], threading.Barrier(4)

    def ask():
        barrier.wait()
        try:
            found.append(opened(ledger=Ledger(ledger.path)))
        except FederationError as error:
            found.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(one, FederationError) for one in found) == 3
    assert len(ledger.releases()) == 1


def test_a_ledger_of_other_records_refuses(ledger):
    opened(ledger=ledger, given=ballots())
    with pytest.raises(LedgerError):
        opened(ledger=ledger, given=ballots(31), request="plan 2")
    with pytest.raises(LedgerError):
        opened(ledger=ledger, request="plan 3")


def test_without_a_ledger_only_where_it_is_said():
    with pytest.raises(InvalidInputError, match=r"ledger must be a pate\.Ledger"):
        open_shares(
            [SharedGaussian(20.0, 5, 2)], data=Registration.of_votes(votes()), budget=BUDGET, ledger=None,
            request="plan", n_cells=4,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mechanism": GNMax(40.0)}, "mechanisms must be SharedGaussian"),
        ({"mechanism": SharedGNMax(40.0, 5, 2, 2), "rounds": 2}, "mechanisms must be SharedGaussian"),
        ({"rounds": 0}, "mechanisms must be SharedGaussian"),
        ({"request": ""}, "request must be a text"),
        ({"n_cells": 0}, "n_cells must be"),
    ],
)
def test_bad_plans(changes, said):
    with pytest.raises(InvalidInputError, match=said):
        opened(**changes)


def test_all_rounds_are_of_the_same_sites():
    with pytest.raises(InvalidInputError, match="of the same sites"):
        open_shares(
            [SharedGaussian(20.0, 5, 2), SharedGaussian(20.0, 6, 2)], data=Registration.of_votes(votes()),
            budget=BUDGET, ledger=None, request="plan", n_cells=4, without_ledger=True,
        )  # fmt: skip


# Drawing ---------------------------------------------------------------------------------------------------------


def test_rounds_and_numbers_are_used_up():
    session = opened(rounds=2, n_cells=7)
    assert len(session.share(votes())) == 4
    with pytest.raises(BudgetExceededError, match="3 numbers are paid for and left"):
        session.share(votes())
    assert len(session.share(votes(((8, 2),)))) == 2
    with pytest.raises(BudgetExceededError, match="0 rounds"):
        session.share(votes(((8, 2),)))
    assert session.n_left == 0


def test_a_round_that_failed_while_drawing_is_used_up():
    session = opened()
    with patch("pate.mechanisms._shares.discrete_gaussian", side_effect=RuntimeError), pytest.raises(RuntimeError):
        session.share(votes())
    with pytest.raises(BudgetExceededError):
        session.share(votes())


def test_sums_say_themselves_how_far_a_unit_moves_them():
    """Shares of a site without records, less nothing, have the scale that the sums' own sensitivity asks for."""
    cast, mechanism = ballots(200), SharedGaussian(20.0, n_sites=5, tolerate=2)
    session = opened(mechanism, given=cast, rounds=400, n_cells=10**5, budget=Budget(1e3, 1e-5))
    lattice = mechanism.lattice(cast.delta_squared)
    noise = np.array([session.share(cast) for _ in range(400)], dtype=float) - lattice * cast.sums.ravel()
    assert noise.std() / lattice == pytest.approx(mechanism.share_scale(cast.delta_squared), rel=0.06)
    moved = opened(mechanism, given=votes(), rounds=800, n_cells=10**5, budget=Budget(1e3, 1e-5))
    far = 2 * len(votes().counts)  # a teacher may vote otherwise on every row
    lattice = mechanism.lattice(far)
    noise = np.array([moved.share(votes()) for _ in range(800)], dtype=float) - lattice * votes().counts.ravel()
    assert noise.std() / lattice == pytest.approx(mechanism.share_scale(far), rel=0.06)


def test_shares_add_up_to_the_sum_and_its_noise():
    mechanism = SharedGaussian(1e-3, n_sites=4, tolerate=1)  # nearly no noise: sums are seen
    sites = [ballots(30, seed) for seed in range(4)]
    free = {"rounds": 1, "budget": Budget(1e6, 1e-5)}
    parts = [opened(mechanism, given=one, **free).share(one) for one in sites]
    total = [sum(numbers) for numbers in zip(*parts, strict=True)]
    delta_squared = sites[0].delta_squared
    found = mechanism.opened(total, sites[0].sums.shape, delta_squared)
    exact = sum(one.sums for one in sites)
    assert np.abs(found - exact).max() < 8 * mechanism.total_scale(delta_squared)
    assert np.abs(exact).max() > 100 * mechanism.total_scale(delta_squared)
    assert max(map(abs, total)) <= mechanism.bound(delta_squared, int(np.abs(exact).max()))


def test_counts_of_right_answers_have_their_own_sensitivity():
    cast, said = ballots(30), np.random.default_rng(0)
    labels = said.integers(3, size=30)  # as ballots draws them after the rows
    labels = said.integers(3, size=30)
    counts = count_right(np.zeros(30, dtype=np.int64), labels, classes=range(3))
    session = opened(given=cast, rounds=2)
    session.share(cast)
    with patch.object(SharedGaussian, "sample", return_value=[1]) as drawn:
        assert session.share(counts) == [1]
    assert drawn.call_args.args[1] == counts.delta_squared != cast.delta_squared


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda: votes(((8, 2, 0),)), "another classes"),
        (lambda: votes(n_units=99), "another n_units"),
        (lambda: votes(unit="group"), "another unit"),
        (lambda: ballots(), "another classes"),
        (lambda: np.zeros((2, 2), dtype=np.int64), "sums must be a BallotSum"),
    ],
)
def test_sums_of_others_are_refused_and_use_up_nothing(given, said):
    session = opened()
    with pytest.raises(InvalidInputError, match=said):
        session.share(given())
    assert session.n_left == 1


def test_records_are_recognised_without_being_named():
    session = opened(given=ballots(30, 0))
    with pytest.raises(InvalidInputError, match="another fingerprint") as error:
        session.share(ballots(30, 1))
    assert ballots(30, 1).registration().fingerprint not in str(error.value)


def test_labels_take_votes_of_their_classes_alone():
    session = opened(SharedGNMax(40.0, 5, 2, 3), budget=Budget(9.0, 1e-5))
    with pytest.raises(InvalidInputError, match="votes must be for 3 classes"):
        session.share(votes())
    with pytest.raises(InvalidInputError, match="labels: Votes"):
        opened(SharedGNMax(40.0, 5, 2, 3), given=ballots(), budget=Budget(9.0, 1e-5)).share(ballots())


def test_a_session_is_one_and_says_nothing():
    session = opened()
    for copied in (copy.copy, copy.deepcopy):
        with pytest.raises(InvalidInputError, match="cannot be copied"):
            copied(session)
    assert repr(session) == "ShareSession(1 rounds, n_left=1)"
    session.close()
    with pytest.raises(InvalidInputError, match="closed"):
        session.share(votes())


def test_noise_is_the_operating_systems_and_fresh():
    """No seed reaches it: two sessions of the same everything differ in every number."""
    a, b = opened(), opened()
    assert a._paid._noise.seeded is False
    assert not set(a.share(votes())) & set(b.share(votes()))


def test_a_replay_draws_nothing_of_a_session_from_outside():
    session = opened()

    def pipeline(X, y):
        session.share(votes())

    with pytest.raises(ReplayError):
        replay(pipeline, (np.zeros((4, 1)), np.zeros(4)), (np.eye(4)[:, :1], np.zeros(4)), published=True)


def summed(X, y):
    """A site's part, in a replay."""
    cast = RecordVoters(None, SignedSpace().fit(np.eye(3)), classes=3).cast(X, y)
    opened(SharedGaussian(20.0, 5, 2), given=cast).share(cast)


def twice(X, y):
    """Each record is cast twice: one unit moves the sum by two."""
    cast = RecordVoters(None, SignedSpace().fit(np.eye(3)), classes=3).cast(X, y)
    doubled = replace(cast, sums=2 * cast.sums)
    opened(SharedGaussian(20.0, 5, 2), given=cast).share(doubled)


def test_a_replay_holds_what_moved_against_the_charge():
    rng = np.random.default_rng(1)
    X, y = np.eye(3)[rng.integers(3, size=12)], rng.integers(3, size=12)
    moved = y.copy()
    moved[0] = (y[0] + 1) % 3
    assert not replay(summed, (X, y), (X, moved), published=True).refuted
    assert replay(twice, (X, y), (X, moved), published=True).refuted


# The attack on noise that is used twice --------------------------------------------------------------------------


def guesses_by_difference(again, n=400):
    """How often site 0's vote is read off two opened sums: of all sites, and then, as it fell silent, of all others.

    ``again`` gives the noise of each site in the second try.
    """
    mechanism, rng = SharedGaussian(100.0 / 2**0.5, n_sites=30, tolerate=1), np.random.default_rng(0)
    lattice, leads = mechanism.lattice(2), rng.integers(2, size=n)
    sites = [np.full((n, 2), 20, dtype=np.int64) for _ in range(30)]
    sites[0] = 40 * np.eye(2, dtype=np.int64)[leads]
    tries = [
        np.array([mechanism.sample(one, 2, source(i)) for i, one in enumerate(sites)][silent:], dtype=float).sum(axis=0)
        for silent, source in ((0, NoiseSource), (1, again))
    ]
    difference = (tries[0] - tries[1]).reshape(n, 2) / lattice
    return (difference.argmax(axis=1) == leads).mean()


def test_noise_that_is_used_again_gives_a_vote_away():
    """Of two tries with the same noise the difference is one site's votes under one share alone: 100 votes are 19."""
    assert guesses_by_difference(lambda site: NoiseSource(site)) > 0.9
    # What 59 shares leave is right with probability Phi(40 / (sqrt 2 x 143)) = 0.58; three standard errors.
    assert guesses_by_difference(lambda site: NoiseSource(1000 + site)) < 0.66


def test_a_retry_in_a_new_session_is_fresh(ledger):
    first = opened(ledger=ledger, request="try 1").share(votes())
    second = opened(ledger=ledger, request="try 2").share(votes())
    assert not set(first) & set(second)
    assert len(ledger.releases()) == 2


# Buying ----------------------------------------------------------------------------------------------------------


def test_a_whole_budget_is_bought_with_delta0(ledger):
    for held in (None, ledger):
        rounds = buy_shares(
            Budget(3.0, 1e-5), [1, 2, 1], n_sites=10, tolerate=3, n_cells=10**6, max_sites_per_person=2, ledger=held
        )
        cost = rounds_charge(rounds, 10**6)
        assert Budget(3.0, 1e-5).allows(cost)
        # The delta that a site's ledger does not set aside, to the last digit.
        assert cost.guarantee(1e-5 * (1 - 2**-10)).epsilon == pytest.approx(3.0, abs=1e-6 if held is None else 2e-3)
        assert rounds[0].noise_multiplier / rounds[1].noise_multiplier == pytest.approx(2**0.5)
        assert rounds[0].max_sites_per_person == 2
    assert ledger.allows(cost)
    opened(ledger=ledger, request="all", budget=Budget(3.0, 1e-5))
    with pytest.raises(InvalidInputError, match="shares must list"):
        buy_shares(BUDGET, [], n_sites=10, tolerate=3, n_cells=10)


@pytest.mark.parametrize("steps", [1, 32])
def test_labels_are_bought_with_the_least_noise(tmp_path, steps):
    held = site_ledger(tmp_path / "site.sqlite", Budget(1.0, 1e-5), labels=steps == 1)
    sites = {"n_sites": 10, "tolerate": 3, "n_classes": 10, "steps_per_vote": steps}
    labels = buy_labels(Budget(1.0, 1e-5), 100, ledger=held, **sites)
    assert held.allows(labels.charge(1000))
    assert not held.allows(replace(labels, sigma=labels.sigma * 0.999).charge(1000))
    assert labels.charge(1000).guarantee(1e-5).epsilon == pytest.approx(1.0, abs=0.02)
    # A budget that would allow less leaves the least there is.
    assert buy_labels(Budget(1e3, 1e-5), 1, **sites).sigma == pytest.approx(2 * 7**0.5)
    # Where noise of so few steps could fail too often for a small delta, there is more of it.
    careful = buy_labels(Budget(1e3, 1e-9), 500, **sites)
    assert careful.charge(5000).delta0 <= 1e-9 / 1024
    assert careful.sigma == pytest.approx(2 * 7**0.5) if steps == 1 else careful.sigma > 20
    with pytest.raises(InvalidInputError, match="tolerate must be below"):
        buy_labels(Budget(1.0, 1e-5), 1, **{**sites, "tolerate": 10})
    with pytest.raises(InvalidInputError, match=r"delta must be at least 8\.88e-11 for 5,000 queries of 10 classes"):
        buy_labels(Budget(1.0, 1e-12), 5000, **sites)


@pytest.mark.parametrize("budget", [Budget(1.0, 1e-5), Budget(0.1, 1e-3), Budget(10.0, 1e-9), Budget(4.0, 1e-11)])
def test_a_site_whose_ledger_has_that_total_pays(tmp_path, budget):
    """For what was bought by the same budget, with no ledger at hand: what the coordinator asks the sites for."""
    sites = {"n_sites": 10, "tolerate": 3}
    rounds = buy_shares(budget, [1, 3], n_cells=5000, **sites)
    labels = buy_labels(budget, 100, n_classes=10, **sites)
    assert labels.charge_of("outsider", 1000).delta0 <= budget.delta / 4096
    fewer = replace(labels, steps_per_vote=labels.steps_per_vote // 2)
    assert fewer.steps_per_vote == 1 or fewer.charge_of("outsider", 1000).delta0 > budget.delta / 4096
    assert buy_labels(budget, 100, n_classes=10, sigma=99.0, **sites).sigma == 99.0
    for n, charge in enumerate([rounds_charge(rounds, 5000), labels.charge(1000)]):
        assert site_ledger(tmp_path / f"{n}.sqlite", budget).allows(charge)
        assert 0.98 * budget.epsilon < charge.guarantee(budget.delta).epsilon <= budget.epsilon


# The statement ---------------------------------------------------------------------------------------------------

WHO = FederationFacts(
    engine="MPyC 0.11, Shamir sharing", coordinator="registry", sites=tuple("abcde"), recipients=("registry",),
    most_units=90,
)  # fmt: skip


def stated(mechanisms=None, who=WHO, **more):
    mechanisms = mechanisms or [SharedGaussian(20.0, n_sites=5, tolerate=2)] * 3
    return federation_statement(mechanisms, who, **{"n_cells": 27, "delta": 1e-5, "facts": [ballots().facts], **more})


def test_the_headline_is_the_coalitions():
    s = stated()
    assert s.guarantee == rounds_charge([SharedGaussian(20.0, 5, 2)] * 3, 27).guarantee(1e-5)
    by = {one.viewer: one for one in s.viewers}
    assert by["coalition"].epsilon == s.guarantee.epsilon > by["coordinator"].epsilon > by["outsider"].epsilon
    assert by["coalition"].n_parties == 2
    central = rounds_charge([SharedGaussian(20.0 * (5 / 3) ** 0.5, 5, 0)] * 3, 27)
    assert by["outsider"].epsilon == pytest.approx(central.guarantee(1e-5).epsilon, rel=1e-9)
    assert all(one.advantage <= s.viewers[0].advantage for one in s.viewers)


def test_the_statement_names_the_institutions_ledgers():
    s = stated()
    assert dict(s.rows())["Ledger"].startswith("each institution's own, in which this release is charged")
    assert "Every organisation keeps a ledger of its own" in s.html()
    assert "there is no ledger" not in s.html()


def test_the_statement_says_who_learns_what():
    s = stated([SharedGaussian(20.0, n_sites=5, tolerate=2, max_sites_per_person=2)] * 3)
    text = " ".join(s.text().split())
    whole = institution_charge([SharedGaussian(20.0, 5, 2)] * 3, 27, 90).guarantee(1e-5).epsilon
    for said in (
        "any 2 of the parties together, the coordinator among them",
        "follow the protocol and look at all that they receive",
        "if one falls silent, nothing is opened",
        "MPyC 0.11, Shamir sharing",
        f"if all its 90 units were replaced, epsilon {format_up(whole)}",
        "one institution that lies about its sums can choose them",
        "does not learn more of others' data by it",
        "a person's records are at 2 institutions at most (stated by the curator",
        "the price is 2 times the mu of one",
        "neither a data-dependent cost nor rho* holds",
        "opened to registry",
    ):
        assert said in text, said
    assert not any(a.name == "noise" for a in s.assumptions)  # pate saw to its own alone
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(json.dumps(s.to_dict())))
    assert PrivacyStatement.from_dict(json.loads(json.dumps(s.to_dict()))) == s
    active = stated(who=replace(WHO, active=True, drop_outs=1, sites=tuple("abcdef")))
    assert "1 may fall silent" in active.setting
    assert not any(a.name == "passive" for a in active.assumptions)


def test_labels_alone_say_that_data_dependent_figures_do_not_hold():
    labels = SharedGNMax(40.0, n_sites=5, tolerate=2, n_classes=10)
    s = stated([labels], facts=(), n_cells=3000, n_queries=300, n_units=450)
    assert s.guarantee.method == "rdp"
    assert s.mu is None
    text = " ".join(s.text().split())
    assert "for a coalition, which knows shares and so faces another histogram, data-dependent costs and rho*" in text
    assert "labels of 300 public rows, of 5 institutions together" in text
    # A reader can compute it again from what is said.
    recipe = s.verify.removeprefix("pate.mechanisms.")
    assert eval(recipe, {"SharedGNMax": SharedGNMax}) == s.guarantee


def test_a_ledgers_release_is_named(ledger):
    session = opened(ledger=ledger)
    s = stated(ledger=ledger, release=session.release, stated={"dataset": "five wards", "coalition": "a contract"})
    assert s.ledger_releases == (1,)
    assert s.ledger_head == ledger.head_of([1])
    assert s.dataset == "five wards"
    assert any(a.name == "coalition" and a.by == "curator" for a in s.assumptions)


def test_sites_are_as_many_as_share():
    with pytest.raises(InvalidInputError, match="must name 5 sites"):
        stated(who=replace(WHO, sites=tuple("abcd")))
    with pytest.raises(InvalidInputError, match="the noise of a silent site is missing"):
        stated(who=replace(WHO, drop_outs=1))


def test_statements_without_viewers_are_as_they_were():
    s = release_labels(Votes.from_counts([[8, 2]] * 9), GNMax(40.0), budget=Budget(2.0, 1e-5)).statement
    assert "viewers" not in s.to_dict()
    assert "Learnt by whom" not in s.text()
