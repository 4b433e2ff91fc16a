"""Whole runs among sites on this machine: real certificates, real secure sums, results and ledgers as they must be."""

import json
import math
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sites_of import PLAN, RECIPE, TOTAL, Local, blobs, engines_below, fixed_teachers

from pate import Budget, GaussianSum, PATEClassifier
from pate.exceptions import FederationError, InvalidInputError
from pate.federation import SiteRecords, _ask, ask
from pate.federation._archive import Question
from pate.federation._rounds import SitesPlan
from pate.mechanisms import NoisyHistogram

X, Y = blobs()
PUBLIC, TRUTH = X[1200:], Y[1200:]
BUDGET = Budget(3.0, 1e-5)


@pytest.fixture
def local(tmp_path):
    found = Local(tmp_path)
    yield found
    assert engines_below(tmp_path) == []


def records(local, **how):
    parts = [(X[i:1200:3], Y[i:1200:3]) for i in range(3)]
    return [local.site(i, part, classes=(0, 1), **how) for i, part in enumerate(parts)]


@pytest.mark.long
@pytest.mark.sample
def test_records_at_three_sites_label_public_rows(local, tmp_path):
    sites = records(local)
    with local.serving(*sites):
        release = ask(PUBLIC, **local.terms(recipe=RECIPE, model_file=tmp_path / "m.pate"))
    assert (release.labels == TRUTH).mean() > 0.95
    # What is opened is the central sum, but for the noise of three sites: its standard deviation is sqrt(3/2) times
    # that which is charged.
    plan = SitesPlan.of(PUBLIC, classes=(0, 1), budget=BUDGET, n_units=[400] * 3, tolerate=1, recipe=RECIPE)
    central = plan.ballots.voters.cast(X[:1200], Y[:1200])
    first, mechanism = release.rounds[0], plan.mechanisms[0]
    exact = central.sums / central.scale
    exact -= exact.mean(axis=1, keepdims=True)
    sigma = mechanism.total_scale(central.delta_squared) / central.scale
    assert first.sigma == pytest.approx(sigma)
    assert sigma == pytest.approx(
        GaussianSum(mechanism.noise_multiplier).scale(central.delta_squared) / central.scale * 1.5**0.5
    )
    assert 0 < np.abs(first.statistics - exact).max() < 6 * sigma
    # Who asks hears of the rounds, and who runs a site of their end.
    assert [text for text in local.said if text.startswith("round ")] == [
        f"round {i} of 3 is opened." for i in (1, 2, 3)
    ]
    assert local.said.count("the run has ended; 3 of 3 rounds were opened.") == 3
    # Every site charged what the release states, once, to its own ledger.
    for site in sites:
        (row,) = site.ledger.show()
        assert row["kind"] == "noise shares"
        assert row["epsilon"] == release.guarantee.epsilon
        assert site.ledger.registration["n_units"] == 400
    # At the delta that sites do not set aside it is the budget's.
    assert 0 <= 3.0 - release.guarantee.epsilon < 2e-4
    assert (PATEClassifier.load(tmp_path / "m.pate").predict(PUBLIC) == release.labels).mean() > 0.99
    # Asked again it comes from what was stored: no site is there any more.
    again = ask(PUBLIC, **local.terms(recipe=RECIPE))
    assert np.array_equal(again.labels, release.labels)
    assert np.array_equal(again.rounds[0].statistics, first.statistics)
    assert (tmp_path / "asked").stat().st_mode & 0o777 == 0o700


@pytest.mark.long
def test_a_site_that_asks_takes_part_and_gets_the_model_with_the_other_recipients(local):
    sites = records(local)
    with local.serving(*sites[1:]):
        release = ask(
            PUBLIC, **local.terms(own=sites[0], bundle=None, recipients=["site-0", "site-1"], recipe=RECIPE)
        )  # fmt: skip
    assert (release.labels == TRUTH).mean() > 0.95
    assert [len(site.ledger.show()) for site in sites] == [1, 1, 1]
    (model,) = sites[1].folder.glob("*.pate")
    assert (PATEClassifier.load(model).predict(PUBLIC) == release.labels).mean() > 0.99
    assert model.stat().st_mode & 0o777 == 0o600
    assert len(list(sites[1].folder.glob("*-?.json"))) == 3  # two rounds of ballots, and one that measures
    assert not list(sites[2].folder.glob("*"))


@pytest.mark.long
def test_counts_of_votes_are_opened_with_the_noise_that_is_charged(local):
    rows = np.arange(40.0).reshape(-1, 1)
    sites = [local.site(i, fixed_teachers(), n_units=300) for i in range(3)]
    with local.serving(*sites):
        release = ask(rows, **local.terms(opens="counts", sigma=5.0, budget=TOTAL))
    # Ten teachers a site, all for class row % 2: 30 votes and 0.
    exact = np.where(np.arange(40)[:, None] % 2 == np.arange(2), 30, 0)
    noise = release.noisy_counts - exact
    total = 5.0 * 1.5**0.5
    assert release.mechanism.sigma == pytest.approx(total)
    # 80 numbers: their mean square is within 5 standard errors of the variance that is stated.
    assert abs(np.mean(noise**2) / total**2 - 1) < 5 * math.sqrt(2 / 80)
    # Priced as one histogram of the honest sites' noise: 40 queries, sensitivity sqrt 2 each.
    assert release.quote.charge.mu_squared == pytest.approx(NoisyHistogram(5.0).charge(40).mu_squared)
    assert sites[0].ledger.show()[0]["epsilon"] == pytest.approx(release.guarantee.epsilon, rel=1e-3)
    assert release.decide(gap=100.0).n_answered == 0


@pytest.mark.long
def test_labels_alone_are_opened(local):
    rows = np.arange(12.0).reshape(-1, 1)
    sites = [local.site(i, fixed_teachers(), n_units=300) for i in range(3)]
    with local.serving(*sites):
        release = ask(rows, **local.terms(opens="labels", sigma=4.0, budget=TOTAL))
    assert release.noisy_counts is None
    assert (release.labels == np.arange(12) % 2).all()
    assert release.guarantee.epsilon <= 20


@pytest.mark.long
def test_of_two_asks_at_once_the_second_is_refused_and_charges_nothing(local, tmp_path):
    slow = threading.Event()
    sites = records(local)
    cast = sites[0]._data.cast

    def wait(*asked):
        slow.wait(30)
        return cast(*asked)

    sites[0]._data.cast = wait
    found = []
    with local.serving(*sites):
        first = threading.Thread(target=lambda: found.append(ask(PUBLIC, **local.terms(recipe=RECIPE))))
        first.start()
        while not any(site.at_work is not None and site.at_work.engine is not None for site in sites):
            threading.Event().wait(0.02)
        with pytest.raises(FederationError, match="another process asks the same"):
            ask(PUBLIC, **local.terms(recipe=RECIPE))
        with pytest.raises(FederationError, match=r"at work on another ask.* No site was charged"):
            ask(PUBLIC, **local.terms(recipe=RECIPE, checkpoint_dir=tmp_path / "other"))
        slow.set()
        first.join(60)
    assert len(found) == 1
    assert [len(site.ledger.show()) for site in sites] == [1, 1, 1]


@pytest.mark.long
def test_sites_wait_for_an_operator_who_takes_long_to_agree(local, monkeypatch):
    monkeypatch.setattr(_ask, "_ALIVE", 0.2)
    ended = threading.Event()
    slow = {0: {"approve": lambda plan, price: not ended.wait(7.5), "consent": None}}
    sites = [
        local.site(i, (X[i:1200:3], Y[i:1200:3]), classes=(0, 1), patience=3.0, **slow.get(i, {})) for i in range(3)
    ]
    with local.serving(*sites):
        ask(PUBLIC, **local.terms(recipe=RECIPE))
    assert [len(site.ledger.show()) for site in sites] == [1, 1, 1]


@pytest.mark.long
def test_who_does_not_agree_ends_the_wait_for_operators_who_look(local):
    told = threading.Event()  # only once the ask has ended
    slow = {0: {"approve": lambda plan, price: told.wait(60), "consent": None}}
    no = {1: {"approve": lambda plan, price: False, "consent": None}}
    sites = [local.site(i, (X[i:1200:3], Y[i:1200:3]), classes=(0, 1), **(slow | no).get(i, {})) for i in range(3)]
    with local.serving(*sites):
        try:
            with pytest.raises(FederationError, match=r"site-1 does not agree: its operator declined.*No site was"):
                ask(PUBLIC, **local.terms(recipe=RECIPE, agree_deadline=50.0))
            assert not told.is_set()
        finally:
            told.set()
    assert [site.ledger.show() for site in sites] == [[], [], []]


@pytest.mark.long
def test_an_overspent_site_refuses_and_nobody_is_charged(local):
    poor = {1: {"total": Budget(2.0, 1e-5)}}
    sites = [local.site(i, (X[i:1200:3], Y[i:1200:3]), classes=(0, 1), **poor.get(i, {})) for i in range(3)]
    with (
        local.serving(*sites),
        pytest.raises(FederationError, match=r"site-1 does not agree.*budget.*No site was charged"),
    ):
        ask(PUBLIC, **local.terms(recipe=RECIPE))
    assert [site.ledger.show() for site in sites] == [[], [], []]


@pytest.mark.parametrize(("n_rounds", "n_lines"), [(1, 1), (3, 3), (41, 11)])
def test_of_many_rounds_some_are_told(n_rounds, n_lines):
    said, session = [], _ask._Session.__new__(_ask._Session)
    session._line = SimpleNamespace(say=said.append, deadline=1.0, own=None)
    session.plan = replace(PLAN, noise_multipliers=(9.0,) * n_rounds)
    session.is_stored, session._run = False, {"opened": [], "started": True}
    session._party = SimpleNamespace(opened=[[1]] * n_rounds)
    session._everywhere = session._keep = lambda *asked: None
    for i in range(n_rounds):
        session.round("ballots", b"", n_cells=1, mechanism_index=i, bound=9)
    assert len(said) == n_lines
    assert (said[0], said[-1]) == (f"round 1 of {n_rounds} is opened.", f"round {n_rounds} of {n_rounds} is opened.")


def test_too_few_sites_for_a_coalition_are_refused_with_the_numbers(local):
    with pytest.raises(InvalidInputError, match=r"below half of the 4 parties.*at most 1, or ask 1 more sites"):
        ask(PUBLIC, **local.terms(tolerate=2))


def test_a_site_that_asks_is_no_party_more(local):
    """A plan of rounds counts who asks besides the sites; where a site asks there is nobody besides."""
    two = replace(local.members, sites=local.members.sites[:2])
    own = local.site(0, (X, Y), classes=(0, 1))
    with pytest.raises(InvalidInputError, match=r"the 2 parties \(2 sites, one of which asks\), got 1\. Ask 1 more"):
        ask(PUBLIC, **local.terms(sites=two, own=own, bundle=None, recipe=RECIPE))
    said = {"classes": (0, 1), "budget": Budget(3.0, 1e-5), "n_units": [400] * 2, "recipe": RECIPE}
    terms = {"nonce": "ab", "sites": ("site-0", "site-1")}
    plan, open_plan = (SitesPlan.of(PUBLIC, tolerate=t, **said) for t in (1, 0))
    assert plan.agreed(coordinator="registry", recipients=("registry",), **terms).n_parties == 3
    for one, asks in ((plan, "site-0"), (open_plan, "site-0"), (open_plan, "registry")):
        with pytest.raises(InvalidInputError, match="tolerate must be"):
            one.agreed(coordinator=asks, recipients=(asks,), **terms)


def test_a_silent_site_is_named(local):
    with pytest.raises(FederationError, match=r"site-\d \(127.0.0.1:\d+\) cannot be reached.*running"):
        ask(PUBLIC, **local.terms())


def test_sites_that_differ_are_named(local):
    sites = records(local)
    sites[1] = local.site(1, (X[1:1200:3], Y[1:1200:3]), classes=(1, 0))
    with (
        local.serving(*sites),
        pytest.raises(FederationError, match=r"site-1 differs .*site-0, in its classes: \[1, 0\], not \[0, 1\]"),
    ):
        ask(PUBLIC, **local.terms())


def test_votes_of_teachers_answer_no_ask_for_ballots(local):
    sites = [local.site(i, fixed_teachers(), n_units=300) for i in range(3)]
    with (
        local.serving(*sites),
        pytest.raises(FederationError, match=r"site-0 differs from what is asked in its data: votes, not records"),
    ):
        ask(PUBLIC, **local.terms())


def test_records_are_bound_to_the_maps_of_the_plan():
    """Records that served a plan before check the first round of the next one as they did the first one's."""
    held = SiteRecords(X[:300], Y[:300], classes=(0, 1))
    plans = [
        SitesPlan.of(PUBLIC[:n], classes=(0, 1), budget=BUDGET, n_units=[300] * 3, tolerate=1, recipe=RECIPE)
        for n in (90, 100)
    ]
    first, second = (
        Question(kind="ballots", voters=plan.ballots.voters, unit="record", door=plan.door).to_bytes() for plan in plans
    )
    agreed = [plan.agreed(nonce="n", coordinator="registry", sites="abc", recipients=["registry"]) for plan in plans]
    assert held.sums(agreed[0], "ballots", first).facts.space == plans[0].representation
    with pytest.raises(FederationError, match="other public maps"):
        held.sums(agreed[1], "ballots", first)
    assert held.sums(agreed[1], "ballots", second).facts.space == plans[1].representation


@pytest.mark.long
def test_a_coordinator_that_asks_sites_different_things_opens_nothing(local, monkeypatch):
    """Of sums of different kinds at different sites, noise made for one would not hide the other."""
    send = _ask._Line.ask

    def lie(line, site, path, head, data, deadline):
        if path == "/round" and site.name == "site-1":
            asked = Question.from_bytes(data, {})
            data = replace(asked, text="something else").to_bytes()
        return send(line, site, path, head, data, deadline)

    monkeypatch.setattr(_ask._Line, "ask", lie)
    sites = records(local)
    with local.serving(*sites), pytest.raises(FederationError, match="was asked something else"):
        ask(PUBLIC, **local.terms(recipe=RECIPE))
    (run,) = local.folder.glob("asked/*/run-*.json")
    assert json.loads(run.read_text())["opened"] == []


@pytest.mark.long
def test_a_bound_that_is_too_small_is_refused_by_public_facts_before_anything_is_charged(local, monkeypatch):
    """Else a refusal would tell whether a site's share is beyond it."""
    round_of = _ask._Session.round
    monkeypatch.setattr(
        _ask._Session, "round", lambda self, *asked, bound, **how: round_of(self, *asked, bound=9, **how)
    )
    sites = records(local)
    with local.serving(*sites), pytest.raises(FederationError, match=r"bound is below.* No site was charged"):
        ask(PUBLIC, **local.terms(recipe=RECIPE))
    assert [site.ledger.show() for site in sites] == [[], [], []]
