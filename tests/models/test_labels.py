"""Rounds of several labels: shares, bounds that some unit reaches, prices, the model and its measured quality."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from scipy.stats import norm
from sklearn.metrics import f1_score, precision_score, recall_score, roc_auc_score

from pate import Budget
from pate.exceptions import InvalidInputError
from pate.models import _labels as rules
from pate.models._labels import LabelsModel, LabelsPlan, label_quality
from pate.privacy.convert import gdp_from_budget
from pate.records import SignedSpace

NAMES = ("half", "few", "rare", "none")


def made(n, seed, d=5):
    """Return rows and labels: common, less common, rare, and one that nobody has."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, d))
    scores = np.stack([z[:, 0], z[:, 1] - 1, z[:, 2] + z[:, 0] - 3, np.full(n, -9.0)], axis=1)
    return z, (scores + 0.3 * rng.normal(size=scores.shape) > 0).astype(float)


def played(z, y, *, mu, n_public=500, seed=0, noisy=True, names=NAMES):
    """Play all rounds on the last rows; the first are public. Return the final state, and the map to phi."""
    public, rest = z[:n_public], slice(n_public, None)
    plan = LabelsPlan(names, n_units=len(y[rest]), mu=mu, n_public=n_public)
    space = SignedSpace(min(plan.recipe.n_components, z.shape[1]), alpha=0.5, constant=0.2).fit(public)
    phi, labels, state = space.transform(z[rest]), y[rest], plan.start(space.transform(public))
    held_out, rng, asked = np.arange(len(phi)) % 10 == 0, np.random.default_rng(seed), []
    while (ask := state.ask) is not None:
        asked.append(ask)
        part = held_out if ask.held_out else ~held_out
        r = ask.votes(phi[part], labels[part])
        assert np.linalg.norm(r, axis=1).max() <= ask.bound * (1 + 1e-12)
        assert ask.with_phi or (r >= 0).all()
        sums = (phi[part].T @ r if ask.with_phi else r.sum(axis=0)).reshape(ask.shape)
        sigma = ask.delta / (mu * math.sqrt(ask.share)) if noisy else 0.0
        state = state.updated(sums + sigma * rng.normal(size=ask.shape), sigma=sigma)
    return state, space, asked


@pytest.mark.parametrize("n_labels", [1, 2, 40])
@pytest.mark.parametrize("mu", [0.01, 3.0])
def test_the_shares_of_each_part_of_the_records_sum_to_one(n_labels, mu):
    plan = LabelsPlan(tuple(map(str, range(n_labels))), n_units=3_000, mu=mu, n_public=200)
    assert math.fsum(plan.shares) == pytest.approx(1)
    assert plan.held_out_shares == (1.0,)
    assert plan.n_training + plan.n_held_out == 3_000
    assert min(n_labels, 3) - 1e-9 <= plan.tau**2 <= n_labels + 1e-9


def test_golden_noise_of_a_budget():
    """By hand, from Delta = sqrt 2 tau, 2 C and sqrt(2 L), and sigma = Delta/(mu sqrt(share))."""
    mu = gdp_from_budget(Budget(1.0, 1e-5).epsilon, 1e-5)
    state = LabelsPlan(NAMES, n_units=1_000, mu=mu, n_public=50).start(np.eye(3))
    first = state.ask
    assert first.delta == pytest.approx(math.sqrt(2 * 3))
    q = np.array([0.5, 0.2, 0.1, 0.1])
    then = state.updated(q[None] * first.n, sigma=0.0).ask
    # w = s^-1/2 and s = sqrt(q (1 - q)): |w s|^2 = sum of s
    assert then.bound == pytest.approx(0.3 * math.sqrt(0.5 + 0.4 + 0.3 + 0.3))
    assert then.delta == pytest.approx(2 * then.bound)
    sigmas = [one.delta / (mu * math.sqrt(one.share)) for one in (first, then)]
    assert sigmas == pytest.approx([math.sqrt(6) / (mu * math.sqrt(0.05)), then.delta / (mu * math.sqrt(0.0475))])


def test_all_rounds_cost_what_dp_accounting_says_they_cost():
    mu = gdp_from_budget(1.0, 1e-5)
    plan = LabelsPlan(NAMES, n_units=1_000, mu=mu, n_public=50)
    first, *rest = plan.shares
    accountant = PLDAccountant()
    accountant.compose(GaussianDpEvent(1 / (mu * math.sqrt(first))))
    accountant.compose(SelfComposedDpEvent(GaussianDpEvent(1 / (mu * math.sqrt(rest[0]))), len(rest)))
    assert accountant.get_epsilon(1e-5) == pytest.approx(1.0, abs=2e-3)
    held_out = PLDAccountant().compose(GaussianDpEvent(1 / (mu * math.sqrt(plan.held_out_shares[0]))))
    assert held_out.get_epsilon(1e-5) == pytest.approx(1.0, abs=2e-3)


def hockey_stick(moved, epsilon):
    """Return the divergence of N(0, 1) and N(moved, 1) at e^epsilon (Balle and Wang 2018, Theorem 5)."""
    far = norm.cdf(-epsilon / moved - moved / 2) if moved else 0.0
    near = norm.cdf(-epsilon / moved + moved / 2) if moved else 0.0
    return near - math.exp(epsilon) * far


@pytest.mark.parametrize("n_labels", [1, 2, 4])
def test_brute_force_no_two_records_are_told_apart_better_than_epsilon_allows(n_labels):
    """Every pair of label vectors and of directions, on one transcript: all rounds of a part are one Gaussian."""
    mu, names = gdp_from_budget(1.0, 1e-5), NAMES[:n_labels]
    directions = np.concatenate([np.eye(3), -np.eye(3), [[0.6, 0.8, 0]]])
    records = list(itertools.product(directions, itertools.product((0.0, 1.0), repeat=n_labels)))
    phi, labels = (np.array(part) for part in zip(*records, strict=True))
    state = LabelsPlan(names, n_units=900, mu=mu, n_public=50).start(np.eye(3))
    rng, moved = np.random.default_rng(0), {part: np.zeros((len(phi),) * 2) for part in (False, True)}
    while (ask := state.ask) is not None:
        r = ask.votes(phi, labels)
        given = np.einsum("nd,nl->ndl", phi, r).reshape(len(r), -1) if ask.with_phi else r
        sigma = ask.delta / (mu * math.sqrt(ask.share))
        squared = np.square(given[:, None] - given[None]).sum(axis=2)
        assert squared.max() <= ask.delta**2 * (1 + 1e-9)
        moved[ask.held_out] += squared / sigma**2
        state = state.updated(rng.normal(size=ask.shape) * sigma + ask.n / 3, sigma=sigma)
    for part in moved.values():
        assert hockey_stick(math.sqrt(part.max()), 1.0) <= 1e-5 * (1 + 1e-6)
    assert moved[True].max() == pytest.approx(mu**2)  # all true and all false positives: the bound is reached


def test_each_bound_is_reached():
    state = LabelsPlan(tuple("abcdef"), n_units=100, mu=0.1, n_public=50).start(np.eye(2))
    ask = state.ask
    two = ask.votes(np.eye(2), [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]])
    assert np.linalg.norm(two[0] - two[1]) == pytest.approx(ask.delta)
    ask = state.updated(np.full((1, 6), ask.n / 2), sigma=0.0).ask
    opposite = ask.votes(np.eye(2)[[0, 0]], [[1] * 6, [0] * 6])
    assert np.linalg.norm(opposite[0] - opposite[1]) == pytest.approx(ask.delta)


def test_it_learns_common_and_rare_labels_and_gives_them_as_often_as_they_are():
    z, y = made(8_000, 1)
    state, space, asked = played(z, y, mu=1.0)
    assert state.ask is None
    assert len(asked) == 22
    new, truth = made(3_000, 2)
    logits, said = (getattr(state.model, name)(space.transform(new)) for name in ("decision_function", "predict"))
    assert [roc_auc_score(truth[:, j], logits[:, j]) > 0.9 for j in range(3)] == [True] * 3
    assert said.mean(axis=0) == pytest.approx(truth.mean(axis=0), abs=0.05)
    assert state.model.prevalences == pytest.approx(y.mean(axis=0), abs=0.02)
    with pytest.raises(InvalidInputError, match="all rounds"):
        state.updated(np.zeros((1, 12)), sigma=1.0)


def test_measured_quality_is_that_of_scikit_learn_without_noise():
    rng = np.random.default_rng(0)
    given, said = (rng.random((2, 5_000)) < 0.3).astype(int)
    said[:1_000] = given[:1_000]
    counts = [(given & said).sum(), (~given & 1 & said).sum(), (given & 1 & ~said).sum()]
    found = label_quality("a", np.array(counts, dtype=float), sigma=0.0, n=5_000, prevalence=0.3)
    assert found.accuracy == pytest.approx((given == said).mean())
    for name, score in (("precision", precision_score), ("recall", recall_score), ("f1", f1_score)):
        assert getattr(found, name) == pytest.approx(score(given, said))


def test_standard_errors_are_those_of_noise_and_sampling():
    rng, n, sigma = np.random.default_rng(0), 2_000, 15.0
    share = np.array([0.1, 0.05, 0.08])
    drawn = rng.multinomial(n, [*share, 1 - share.sum()], size=3_000)[:, :3] + sigma * rng.normal(size=(3_000, 3))
    found = [label_quality("a", one, sigma=sigma, n=n, prevalence=0.2) for one in drawn]
    truth = label_quality("a", share * n, sigma=0.0, n=n, prevalence=0.2)
    for name in ("accuracy", "precision", "recall", "f1"):
        values, errors = (np.array([getattr(one, of) for one in found]) for of in (name, f"{name}_error"))
        assert values.std() == pytest.approx(errors.mean(), rel=0.1)
        assert values.mean() == pytest.approx(getattr(truth, name), abs=0.01)


def test_what_noise_hides_is_not_told():
    found = label_quality("rare", np.array([2.0, 3.0, 1.0]), sigma=20.0, n=1_000, prevalence=0.01)
    assert (found.precision, found.recall, found.f1, found.f1_error) == (None, None, None, None)
    assert found.accuracy_error > 0.02


@pytest.mark.parametrize("mu", [1e-4, 0.05, 50.0])
@pytest.mark.parametrize("fill", [0.0, 1.0])
def test_odd_labels_give_a_finite_model(mu, fill):
    z, y = made(900, 4)
    state, space, _ = played(z, np.full_like(y, fill), mu=mu)
    assert np.isfinite(state.model.decision_function(space.transform(z))).all()
    if mu == 50:
        assert (state.model.predict(space.transform(z)) == fill).mean() > 0.9


def test_thresholds_give_labels_as_often_as_prevalences_say():
    model = LabelsModel(np.eye(2), np.zeros(2), np.array([0.25, 0.999]), np.zeros(2))
    phi = np.random.default_rng(0).normal(size=(1_000, 2))
    assert model.at_prevalences(phi).predict(phi).mean(axis=0) == pytest.approx([0.25, 0.999])


def test_one_ballot_for_all_labels_is_worth_more_than_split_budgets():
    """Twelve labels: an AUC that each reaches with 1/12 of mu^2 is below that of one ballot."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(6_500, 6))
    y = (z @ rng.normal(size=(6, 12)) + rng.normal(size=(6_500, 12)) > 3).astype(float)
    new = rng.normal(size=(3_000, 6))
    together, space, _ = played(z, y, mu=0.06, names=tuple(map(str, range(12))))
    truth = (new @ np.linalg.lstsq(z, y - y.mean(axis=0), rcond=None)[0]) > 0.15
    alone = [played(z, y[:, [j]], mu=0.06 / math.sqrt(12), names=("a",), seed=j)[0] for j in range(12)]
    auc = [roc_auc_score(truth[:, j], together.model.decision_function(space.transform(new))[:, j]) for j in range(12)]
    split = [
        roc_auc_score(truth[:, j], one.model.decision_function(space.transform(new))[:, 0])
        for j, one in enumerate(alone)
    ]
    assert np.mean(auc) > np.mean(split) + 0.02


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"names": ()}, "names"),
        ({"names": ("a", "a")}, "names"),
        ({"n_units": 1}, "n_units"),
        ({"mu": 0}, "mu"),
        ({"n_public": -1}, "n_public"),
        ({"kind": "sound"}, "kind"),
    ],
)
def test_a_plan_refuses_what_is_no_plan(changed, match):
    settings = {"names": NAMES, "n_units": 1_000, "mu": 0.3, "n_public": 100} | changed
    with pytest.raises(InvalidInputError, match=match):
        LabelsPlan(settings.pop("names"), **settings)


def test_a_state_refuses_sums_that_were_not_asked_for():
    state = LabelsPlan(NAMES, n_units=1_000, mu=0.3, n_public=100).start(np.eye(3))
    for sums, sigma in ((np.zeros((1, 3)), 1.0), (np.full((1, 4), math.nan), 1.0), (np.zeros((1, 4)), -1.0)):
        with pytest.raises(InvalidInputError):
            state.updated(sums, sigma=sigma)


def test_small_budgets_are_doubted():
    assert "too few" in LabelsPlan(NAMES, n_units=250, mu=0.1, n_public=50).doubt
    assert LabelsPlan(NAMES, n_units=2_500, mu=0.1, n_public=50).doubt is None
    assert rules.LEAST == 200
