"""Scores and ROC by the papers' formulas, written out model by model."""

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score, roc_curve

from pate.audit._shadows import Answers, Points, draw_halves, roc_of, said_of, scores


def world(n_shadows, n_units=50, seed=0, gap=1.0):
    rng = np.random.default_rng(seed)
    member = draw_halves(n_units, n_shadows, seed)
    own = rng.normal(size=n_units) * 2 + 1
    return Answers(own + gap * member + rng.normal(size=member.shape) * (1 + rng.random(n_units)), member)


def others(target, answers, earlier=False):
    pairs = np.arange(len(answers.member)) // 2
    return pairs < target // 2 if earlier else pairs != target // 2


def sides(values, answers, keep):
    """Mean and variance of every unit, in and out; the variance is one for all units with fewer than 31 a side."""
    found = []
    for side in (answers.member[keep], ~answers.member[keep]):
        per_unit = [values[keep][side[:, i], i] for i in range(values.shape[1])]
        mean = np.array([v.mean() for v in per_unit])
        if keep.sum() >= 62:
            variance = np.array([v.var(ddof=1) for v in per_unit])
            pooled = sum(((v - v.mean()) ** 2).sum() for v in per_unit) / sum(len(v) - 1 for v in per_unit)
            variance = np.maximum(variance, 0.01 * pooled)
        else:
            pooled = sum(((v - v.mean()) ** 2).sum() for v in per_unit) / sum(len(v) - 1 for v in per_unit)
            variance = np.full(len(mean), pooled)
        found.append((mean, variance))
    return found


@pytest.mark.few(3)
@pytest.mark.parametrize("n_shadows", [8, 16, 64, 70])
@pytest.mark.parametrize("earlier", [False, True])
def test_lira_online_and_offline_are_the_papers(n_shadows, earlier):
    answers = world(n_shadows)
    targets = np.arange(n_shadows)
    online = scores("lira", answers, targets, earlier=earlier)
    offline = scores("lira-offline", answers, targets, earlier=earlier)
    for target in targets[2 if earlier else 0 :]:
        keep = others(target, answers, earlier)
        if keep.sum() == 2:  # one model a side has no variance
            continue
        (mean_in, var_in), (mean_out, var_out) = sides(answers.logit, answers, keep)
        said = answers.logit[target]
        ratio = stats.norm(mean_in, var_in**0.5).logpdf(said) - stats.norm(mean_out, var_out**0.5).logpdf(said)
        np.testing.assert_allclose(online[target], ratio, atol=1e-8)
        # Carlini et al. 2022, equation 4, before the normal distribution function, which changes no order.
        np.testing.assert_allclose(stats.norm.cdf(offline[target]), 1 - stats.norm(mean_out, var_out**0.5).sf(said))
    if earlier:
        assert not online[:2].any()


@pytest.mark.parametrize("n_shadows", [8, 64])
def test_rmia_is_the_papers(n_shadows):
    answers = world(n_shadows, n_units=30)
    p = 1 / (1 + np.exp(-answers.logit))
    found = scores("rmia", answers, np.arange(n_shadows))
    for target in (0, 3, n_shadows - 1):
        keep = others(target, answers)
        inside, outside = (
            np.array([p[keep][side[keep][:, i], i].mean() for i in range(30)])
            for side in (answers.member, ~answers.member)
        )
        ratio = p[target] / ((inside + outside) / 2)
        beats = [np.mean([ratio[x] / ratio[z] >= 1 for z in range(30)]) for x in range(30)]
        np.testing.assert_allclose(found[target], beats, atol=1e-9)


def test_the_loss_needs_no_other_model():
    answers = world(8)
    found = scores("loss", answers, np.arange(8))
    np.testing.assert_allclose(found, -np.log1p(np.exp(-answers.logit)))


def test_a_targets_pair_and_what_is_left_out_are_never_looked_at():
    answers = world(16)
    twisted = answers.logit.copy()
    twisted[[7, 2, 3]] = 1e3  # 6's pair, and a pair that is left out
    before = scores("lira", answers, np.array([6]), without=np.array([1]))
    after = scores("lira", Answers(twisted, answers.member), np.array([6]), without=np.array([1]))
    np.testing.assert_allclose(before, after, atol=1e-6)
    assert np.abs(before - scores("lira", answers, np.array([6]))).max() > 1e-3
    later = answers.logit.copy()
    later[6:] = np.random.default_rng(5).normal(size=later[6:].shape)
    one, two = (scores("rmia", Answers(x, answers.member), np.arange(6), earlier=True) for x in (later, answers.logit))
    np.testing.assert_allclose(one, two, atol=1e-8)


@pytest.mark.parametrize("kind", ["lira", "lira-offline", "rmia", "loss"])
def test_models_that_always_say_the_same_tell_nothing(kind):
    member = draw_halves(41, 16, 0)
    hard = np.random.default_rng(0).normal(size=41)
    roc, _ = roc_of(kind, Answers(np.tile(hard, (16, 1)), member), np.arange(16))
    area = roc.auc(0.95)
    assert area.value == pytest.approx(0.5, abs=0.02)  # one of 41 units is out of both halves
    assert area.low <= 0.5 <= area.high or area.value == pytest.approx(0.5, abs=1e-9)


def test_halves_are_of_one_size_share_no_unit_and_can_grow():
    few, many = draw_halves(51, 8, 3), draw_halves(51, 20, 3)
    assert (few == many[:8]).all()
    assert (many.sum(axis=1) == 25).all()
    assert not (many[0::2] & many[1::2]).any()
    share = draw_halves(30, 2_000, 0)[::2].mean(axis=0)
    assert share == pytest.approx(np.full(30, 0.5), abs=0.06)


def test_the_curve_is_scikit_learns():
    rng = np.random.default_rng(0)
    member = rng.random((6, 40)) < 0.5
    found = np.round(rng.normal(size=member.shape) + member, 1)  # with ties
    points = Points.of(found, member)
    assert points.auc() == pytest.approx(roc_auc_score(member.ravel(), found.ravel()))
    false, true, _ = roc_curve(member.ravel(), found.ravel(), drop_intermediate=False)
    for rate in (0.05, 0.2, 0.5):
        assert points.at(rate) == pytest.approx(
            np.interp(rate, false[np.r_[np.diff(false) > 0, True]], true[np.r_[np.diff(false) > 0, True]])
        )


@pytest.mark.long
def test_intervals_hold_what_many_attacks_give():
    """Over repeated attacks: their mean is in nearly all intervals, whose targets share their references."""
    kinds, n = ("lira", "loss"), 60
    made = {kind: [roc_of(kind, world(12, 60, seed, gap=0.7), np.arange(12))[0] for seed in range(n)] for kind in kinds}
    for rocs in made.values():
        for read in (lambda roc: roc.auc(0.95), lambda roc: roc.at(0.1, 0.95)):
            found = [read(roc) for roc in rocs]
            mean = np.mean([f.value for f in found])
            assert np.mean([f.low <= mean <= f.high for f in found]) >= 0.85


def test_rates_with_too_few_records_are_not_reported():
    roc, _ = roc_of("loss", world(8, 40), np.arange(8))
    assert roc.n_out == 160
    assert roc.at(0.05, 0.95) is None
    assert roc.at(0.1, 0.95) is not None


def test_probabilities_that_come_in_steps_are_no_certainties():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 4)), rng.integers(2, size=200)
    forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    logit, right = said_of(forest, X, y)
    least = forest.predict_proba(X)[forest.predict_proba(X) > 0].min() / 2
    assert logit.max() == pytest.approx(-np.log(least))
    assert right.mean() == pytest.approx(forest.score(X, y), abs=0.01)
    unknown, wrong = said_of(forest, X[:2], np.array([7, 7]))
    assert unknown.max() < -2
    assert not wrong.any()


@pytest.mark.long
def test_intervals_of_few_targets_are_wide_enough():
    """Of 32 pairs 4 are targets: 12 of 16 parts that are left out move little, and are no 15 degrees of freedom."""
    rng = np.random.default_rng(0)
    strength, centre = np.abs(rng.normal(1.0, 0.7, 100)), rng.normal(size=100)
    found = []
    for seed in range(100):
        member = draw_halves(100, 64, seed)
        noise = rng.normal(0, 0.6, member.shape) + rng.normal(0, 0.5, (64, 1))
        roc, _ = roc_of("lira", Answers(member * strength + centre + noise, member), np.arange(56, 64))
        found.append(roc.auc(0.95))
    truth = np.mean([i.value for i in found])
    assert np.mean([i.low <= truth <= i.high for i in found]) >= 0.93
