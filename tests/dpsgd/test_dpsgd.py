"""DP-SGD: accounting by independent routes, the mechanism against its account, the estimator's manners."""

from __future__ import annotations

import os
import pickle
import re
import warnings
from pathlib import Path

import dp_accounting
import numpy as np
import pytest
import torch
from dp_accounting import rdp as dp_rdp
from dpsgd_steps import by_value, least_noise_for, train
from opacus.accountants import PRVAccountant, RDPAccountant
from scipy.integrate import trapezoid
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from pate import Budget, DPSGDClassifier
from pate.dpsgd import SampledGaussian, _fit, _run
from pate.dpsgd._calibration import (
    SMALLEST_NOISE_MULTIPLIER,
    dpsgd_epsilon,
)
from pate.dpsgd._run import build_engine
from pate.dpsgd.engines import PerRecordEngine
from pate.dpsgd.mechanisms import PoissonSGD, Shape, _mechanism
from pate.dpsgd.mechanisms._mechanism import gaussian
from pate.exceptions import (
    BudgetExceededError,
    CuratorWarning,
    InvalidInputError,
    PrivacyLeakWarning,
    PrivacyParameterWarning,
)
from pate.networks import MLP, Linear
from pate.privacy.convert import gdp_to_epsilon
from pate.privacy.losses import discretization_interval
from pate.privacy.noise.source import NoiseSource

DELTA = 1e-5
SETTINGS = [(0.256, 80), (256 / 60_000, 1000), (0.02, 400)]


def epsilon(sigma, q, n_steps, adjacency="replace-one", interval=1e-3, delta=DELTA):
    return dpsgd_epsilon(sigma, delta=delta, sample_rate=q, n_steps=n_steps, adjacency=adjacency, interval=interval)


# ---------------------------------------------------------------- accounting


@pytest.mark.few(3)
@pytest.mark.parametrize("adjacency", ["replace-one", "add-or-remove"])
@pytest.mark.parametrize("target", [0.3, 4.0])
@pytest.mark.parametrize(("q", "n_steps"), [*SETTINGS, (1.0, 10)])
def test_calibrated_noise_spends_the_budget_and_no_more(target, q, n_steps, adjacency):
    sigma = least_noise_for(target, DELTA, sample_rate=q, n_steps=n_steps, adjacency=adjacency)
    fine = discretization_interval(target, n_steps) / 3
    again = epsilon(sigma, q, n_steps, adjacency, fine)
    assert 0.99 * target <= again <= target


@pytest.mark.few(1)
@pytest.mark.parametrize(("q", "n_steps"), SETTINGS)
@pytest.mark.parametrize("sigma", [0.9, 2.0])
def test_add_or_remove_agrees_with_three_other_accountants(sigma, q, n_steps):
    ours = epsilon(sigma, q, n_steps, "add-or-remove")
    event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma))
    theirs = dp_rdp.RdpAccountant().compose(event, n_steps).get_epsilon(DELTA)
    opacus_rdp = RDPAccountant()
    opacus_rdp.history = [(sigma, q, n_steps)]
    opacus_prv = PRVAccountant()
    opacus_prv.history = [(sigma, q, n_steps)]
    assert 0.6 * theirs < ours <= theirs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Opacus remarks on its largest or smallest order
        assert ours <= opacus_rdp.get_epsilon(DELTA)
    # eps_error=0.01: the other library's tight upper bound is within that of the truth.
    assert opacus_prv.get_epsilon(DELTA) == pytest.approx(ours, abs=0.025)


@pytest.mark.parametrize(("sigma", "n_steps"), [(8.0, 5), (20.0, 100), (3.0, 1)])
def test_replace_one_without_sampling_is_the_exact_gaussian(sigma, n_steps):
    exact = gdp_to_epsilon(2 * np.sqrt(n_steps) / sigma, DELTA)
    assert exact <= epsilon(sigma, 1.0, n_steps, interval=1e-4) <= exact * 1.001


def mixture(q, mean, sigma):
    def density(x):
        return (1 - q) * np.exp(-(x**2) / 2 / sigma**2) + q * np.exp(-((x - mean) ** 2) / 2 / sigma**2)

    return lambda x: density(x) / np.sqrt(2 * np.pi) / sigma


def hockey_stick(p, r, e):
    """Integrate (p - e^e r)+ by the trapezoidal rule; the integrand has one kink, so the error is O(h^2)."""
    x = np.linspace(-30, 30, 600_001)
    return trapezoid(np.clip(p(x) - np.exp(e) * r(x), 0, None), x)


@pytest.mark.long
@pytest.mark.parametrize(("q", "sigma"), [(0.3, 1.0), (0.05, 0.7), (0.9, 2.0)])
def test_one_replace_one_step_is_the_integral_of_its_pair(q, sigma):
    found = dpsgd_epsilon(sigma, delta=1e-4, sample_rate=q, n_steps=1, interval=1e-4)
    p, r = mixture(q, 1.0, sigma), mixture(q, -1.0, sigma)
    assert hockey_stick(p, r, found) <= 1e-4 * (1 + 1e-4)
    assert hockey_stick(p, r, found - 2e-3) > 1e-4


@pytest.mark.few(1)
@pytest.mark.parametrize(("q", "n_steps"), SETTINGS)
@pytest.mark.parametrize("sigma", [0.9, 2.0])
def test_replace_one_lies_between_its_bounds(sigma, q, n_steps):
    ours = epsilon(sigma, q, n_steps)
    # Renyi divergence of the pair by quadrature, Canonne-Kamath-Steinke conversion: an upper bound by another route.
    x = np.linspace(-40 * sigma - 1, 40 * sigma + 1, 200_001)
    log_p = np.logaddexp(np.log1p(-q) + norm.logpdf(x, 0, sigma), np.log(q) + norm.logpdf(x, 1, sigma))
    log_r = log_p[::-1]
    bounds = []
    for order in (*np.linspace(1.1, 10.9, 50), *range(11, 40)):
        log_terms = order * log_p + (1 - order) * log_r
        top = log_terms.max()
        rho = (top + np.log(trapezoid(np.exp(log_terms - top), x))) / (order - 1)
        bounds.append(
            n_steps * rho + np.log1p(-1 / order) - (np.log(DELTA) + np.log(order)) / (order - 1),
        )
    assert 0.7 * min(bounds) < ours <= min(bounds)
    # Replacing contains adding-or-removing against a zero gradient, and is a removal followed by an addition.
    assert ours > epsilon(sigma, q, n_steps, "add-or-remove")
    if ours < 12:  # beyond, the removal's delta is too small to be computed
        half = DELTA
        while (1 + np.exp(epsilon(sigma, q, n_steps, "add-or-remove", delta=half))) * half > DELTA:
            half /= 4
        assert ours <= 2 * epsilon(sigma, q, n_steps, "add-or-remove", delta=half)


@pytest.mark.long
def test_replace_one_agrees_with_our_own_transform():
    q, sigma, n_steps, h = 0.1, 1.3, 60, 2e-3
    edges = np.linspace(-30, 30, 400_001)
    cdf = (1 - q) * norm.cdf(edges, 0, sigma) + q * norm.cdf(edges, 1, sigma)
    middle = (edges[1:] + edges[:-1]) / 2
    loss = np.log(mixture(q, 1, sigma)(middle) / mixture(q, -1, sigma)(middle))
    size = 2**17
    mass = np.zeros(size)
    np.add.at(mass, np.rint(loss / h).astype(int) % size, np.diff(cdf))
    total = np.fft.irfft(np.fft.rfft(mass) ** n_steps, size)
    losses = h * np.fft.fftfreq(size, 1 / size)
    found = epsilon(sigma, q, n_steps, interval=1e-4)
    delta = np.sum(total * np.clip(-np.expm1(found - losses), 0, None))
    assert delta == pytest.approx(DELTA, rel=0.02)


def test_no_pair_of_gradients_beats_opposite_ones():
    """The domination the module's docstring proves, tried on a plane."""
    rng = np.random.default_rng(0)
    q, sigma = 0.2, 0.8
    axis = np.linspace(-7, 7, 351)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    cell = (axis[1] - axis[0]) ** 2

    def density(mean):
        def normal(m):
            return np.exp(-((grid - m) ** 2).sum(-1) / (2 * sigma**2)) / (2 * np.pi * sigma**2)

        return (1 - q) * normal(np.zeros(2)) + q * normal(mean)

    worst = {e: hockey_stick(mixture(q, 1, sigma), mixture(q, -1, sigma), e) for e in (0.0, 0.3, 1.0, 2.0)}
    best = dict.fromkeys(worst, 0.0)
    for _ in range(12):
        angles, radii = rng.uniform(0, 2 * np.pi, 2), rng.choice([0.3, 0.8, 1.0], 2)
        p, r = (density(s * np.array([np.cos(a), np.sin(a)])) for a, s in zip(angles, radii, strict=True))
        for e in worst:
            best[e] = max(best[e], np.clip(p - np.exp(e) * r, 0, None).sum() * cell)
    p, r = density(np.array([0.6, 0.8])), density(np.array([-0.6, -0.8]))
    for e, bound in worst.items():
        assert best[e] <= bound + 1e-9
        # and it is attained
        assert np.clip(p - np.exp(e) * r, 0, None).sum() * cell == pytest.approx(bound, rel=1e-3)


def test_more_noise_fewer_steps_and_rarer_samples_cost_less():
    base = epsilon(2.0, 0.1, 100)
    assert epsilon(2.5, 0.1, 100) < base < epsilon(2.0, 0.1, 150)
    assert epsilon(2.0, 0.05, 100) < base < epsilon(2.0, 0.2, 100)


def test_a_generous_budget_stops_at_the_floor():
    assert least_noise_for(500.0, 0.1, sample_rate=0.05, n_steps=1) == SMALLEST_NOISE_MULTIPLIER


@pytest.mark.parametrize(
    "change", [{"delta": 1e-13}, {"delta": 1.0}, {"sample_rate": 0.0}, {"sample_rate": 1.5}, {"n_steps": 0}]
)
def test_accounting_refuses_what_it_cannot_do(change):
    arguments = {"delta": 1e-5, "sample_rate": 0.1, "n_steps": 3, **change}
    with pytest.raises(InvalidInputError, match=next(iter(change))):
        dpsgd_epsilon(1.0, **arguments)


# ---------------------------------------------------------------- the mechanism


def run(module, X, y, *, q, n_steps, sigma, seed=1, clip=1.0, batch=8, physical=64, lr=1.0):
    steps = {"q": q, "n_steps": n_steps, "sigma": sigma, "seed": seed, "clip": clip, "batch": batch, "lr": lr}
    return train(PerRecordEngine(module), X, y, max_physical_batch_size=physical, **steps)


def flat(module):
    return torch.cat([p.detach().flatten() for p in module.parameters()]).double().numpy()


@pytest.fixture(autouse=True)
def one_thread():
    """Threads that wait for each other on busy cores are slow."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_the_poisson_sampler_has_its_rate():
    q, n = 0.3, 2000
    samples = list(PoissonSGD().batches(Shape(n, q, 50, 600), n, NoiseSource(0)))
    sizes = np.array([len(s) for s in samples])
    spread = np.sqrt(q * (1 - q) / (50 * n))
    assert abs(sizes.mean() / n - q) < 4 * spread
    assert not abs(sizes.mean() / n - 1.1 * q) < 4 * spread  # the test can tell
    assert 0.6 < sizes.var() / (n * q * (1 - q)) < 1.6  # binomial, not fixed-size
    counts = np.bincount(np.concatenate(samples), minlength=n)
    assert counts.var() == pytest.approx(50 * q * (1 - q), rel=0.15)  # records independent of each other's past


def test_empty_samples_are_noisy_steps_scaled_by_the_expected_size():
    n_steps, sigma, clip, batch, lr = 25, 3.0, 0.5, 16, 0.7
    module = Linear(n_features=200, n_classes=10)
    before = flat(module)
    released = run(
        *(module, np.ones((4, 200)), np.zeros(4, dtype=int)),
        **{"q": 1e-12, "n_steps": n_steps, "sigma": sigma, "clip": clip, "batch": batch, "lr": lr, "seed": 3},
    )
    expected = np.sqrt(n_steps) * sigma * clip * lr / batch
    ratio = (flat(released) - before).std() / expected
    assert abs(ratio - 1) < 5 / np.sqrt(2 * 2010)
    assert abs(ratio * np.sqrt(n_steps / (n_steps - 4)) - 1) > 5 / np.sqrt(2 * 2010)  # four silent steps would show


@pytest.mark.long
@pytest.mark.parametrize("name", ["linear", "tanh-mlp", "tanh-cnn"])
def test_one_step_is_the_clipped_sum_plus_one_noise(name):
    rng = np.random.default_rng(0)
    X, y = rng.random((23, 64)).astype("f4"), rng.integers(0, 10, 23)
    torch.manual_seed(0)
    module = build_engine(name, 64, 10, None).module
    clip, batch, sigma = 0.8, 5, 2.0
    total = np.zeros(len(flat(module)))
    for row, label in zip(X, y, strict=True):
        module.zero_grad()
        nn.functional.cross_entropy(module(torch.as_tensor(row[None])), torch.as_tensor([label])).backward()
        g = torch.cat([p.grad.flatten() for p in module.parameters()]).double().numpy()
        total += g * min(1.0, clip / np.linalg.norm(g))
    module.zero_grad(set_to_none=True)
    before = flat(module)
    noise = clip * sigma * gaussian(NoiseSource(1).child(1), len(before)).numpy()
    for physical in (64, 4):  # one physical batch or six: the same step, one noise
        torch.manual_seed(0)
        fresh = build_engine(name, 64, 10, None).module
        released = run(fresh, X, y, q=1.0, n_steps=1, sigma=sigma, clip=clip, batch=batch, physical=physical)
        np.testing.assert_allclose(before - flat(released), (total + noise) / batch, rtol=2e-3, atol=2e-6)


def test_replacing_a_record_moves_a_step_by_at_most_twice_the_norm():
    rng = np.random.default_rng(1)
    X, y = rng.random((12, 6)), rng.integers(0, 3, 12)
    other, label = X.copy(), y.copy()
    X[0], y[0], other[0], label[0] = 50.0, 0, 50.0, 1
    moved = np.linalg.norm(
        flat(run(Linear(n_features=6, n_classes=3), X, y, q=1.0, n_steps=1, sigma=1.0, clip=0.5, batch=1))
        - flat(run(Linear(n_features=6, n_classes=3), other, label, q=1.0, n_steps=1, sigma=1.0, clip=0.5, batch=1))
    )
    assert 0.5 < moved <= 2 * 0.5 + 1e-5  # more than one norm: add-or-remove noise would be sold as replace-one


def test_a_record_cannot_break_the_sum_by_overflowing():
    X, y = np.full((4, 3), 3e38), np.array([0, 1, 0, 1])
    released = run(Linear(n_features=3, n_classes=2), X, y, q=1.0, n_steps=4, sigma=1.0)
    assert np.isfinite(flat(released)).all()


def test_nothing_per_record_leaves_with_the_module():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x):
            self.seen = self.seen + x.sum()
            self.last = x
            return x

    module = nn.Sequential(Counter(), nn.Linear(3, 2))
    released = run(module, np.ones((8, 3)), np.zeros(8, dtype=int), q=0.9, n_steps=3, sigma=1.0)
    assert released[0].seen == 0  # the module was never run: copies were
    assert not hasattr(released[0], "last")
    for p in released.parameters():
        assert p.grad is None
        assert not hasattr(p, "grad_sample")
    assert not released[1]._forward_hooks


# ---------------------------------------------------------------- the estimator


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = (X[order] / 16).astype(np.float32), y[order]
    return X[:1000], y[:1000], X[1000:], y[1000:]


def make(module="linear", **kwargs):
    settings = {"budget": Budget(3.0, DELTA), "classes": range(10), "random_state": 0, **kwargs}
    return DPSGDClassifier(**by_value(module=module, **settings))


@pytest.mark.long
@pytest.mark.parametrize(("module", "least"), [("linear", 0.82), ("tanh-mlp", 0.80)])
def test_digits_at_epsilon_three(digits, module, least):
    X, y, X_test, y_test = digits
    clf = make(module).fit(X, y)
    assert clf.score(X_test, y_test) > least
    assert clf.n_steps_ == 20 * 4
    assert clf.sample_rate_ == 0.256
    assert 2.97 < clf.guarantee_.epsilon <= 3.0
    proba = clf.predict_proba(X_test)
    assert proba.shape == (797, 10)
    np.testing.assert_allclose(proba.sum(1), 1)
    assert (clf.predict(X_test) == clf.classes_[proba.argmax(1)]).all()


@pytest.mark.long
def test_the_statement_says_it_all(digits):
    clf = make(epochs=2, measure=False).fit(*digits[:2])
    statement = clf.statement_
    assert statement.to_dict()["private"]
    assert statement.guarantee is clf.guarantee_
    assert (statement.guarantee.adjacency, statement.n_units, statement.unit) == ("replace-one", 1000, "record")
    assert f"{clf.noise_multiplier_:.6g}" in statement.mechanism
    assert repr(clf.noise_multiplier_) in statement.verify
    event = dp_accounting.PoissonSampledDpEvent(clf.sample_rate_, dp_accounting.GaussianDpEvent(clf.noise_multiplier_))
    accountant = dp_accounting.pld.PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE, 1e-3)
    assert accountant.compose(event, clf.n_steps_).get_epsilon(DELTA) == pytest.approx(statement.guarantee.epsilon)
    assert "operating system" in statement.noise_source
    usual = make(epochs=2, adjacency="add-or-remove", nominal_n=1000, measure=False).fit(*digits[:2])
    assert usual.statement_.n_units is None
    assert "add-or-remove" in str(usual.statement_)
    assert usual.noise_multiplier_ < 0.9 * clf.noise_multiplier_
    # What it would be under replace-one is computed, not guessed.
    event = dp_accounting.PoissonSampledDpEvent(
        usual.sample_rate_, dp_accounting.GaussianDpEvent(usual.noise_multiplier_)
    )
    accountant = dp_accounting.pld.PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE, 1e-3)
    other = accountant.compose(event, usual.n_steps_).get_epsilon(DELTA)
    said = re.search(r"that would be ([\d.]+) at delta", usual.statement_.accounting)
    assert float(said[1]) == pytest.approx(other, rel=1e-3)
    assert other > usual.guarantee_.epsilon
    assert "that would be" not in statement.accounting


@pytest.mark.long
def test_seeds(digits):
    X, y = digits[:2]

    def fitted(**kwargs):
        return make("tanh-mlp", epochs=1, **kwargs).fit(X, y)

    one, two = fitted(noise_seed=5), fitted(noise_seed=5)
    assert np.array_equal(flat(one.module_), flat(two.module_))
    assert not one.statement_.to_dict()["private"]
    assert one.statement_.headline.startswith("not private: seeded")
    assert one.guarantee_.kind == one.statement_.guarantee.kind == "seeded"
    assert "NOT PRIVATE" in str(one.guarantee_)
    assert not np.array_equal(flat(one.module_), flat(fitted(noise_seed=6).module_))
    assert not np.array_equal(flat(one.module_), flat(fitted(noise_seed=5, random_state=1).module_))
    # The training seed alone fixes nothing that protects.
    assert not np.array_equal(flat(fitted().module_), flat(fitted().module_))
    assert "5" not in repr(make(noise_seed=5, budget=Budget(3.0, 0.001)))


@pytest.mark.long
def test_global_state_is_left_alone(digits):
    torch.manual_seed(11)
    torch.set_num_threads(2)
    np.random.seed(11)  # noqa: NPY002 - the global state is what is tested
    before = torch.get_rng_state()
    legacy = np.random.get_state()[1].copy()  # noqa: NPY002
    filters = list(warnings.filters)
    make("tanh-mlp", epochs=1).fit(*digits[:2])
    assert torch.equal(before, torch.get_rng_state())
    assert torch.get_num_threads() == 2
    assert np.array_equal(legacy, np.random.get_state()[1])  # noqa: NPY002
    assert warnings.filters == filters


@pytest.mark.long
def test_it_clones_pickles_pipes_and_takes_a_budget(digits):
    X, y, X_test, _ = digits
    clf = make(epochs=1)
    other = clone(clf).set_params(budget=Budget(1.0, DELTA), random_state=3).fit(X, y)
    assert other.guarantee_.epsilon <= 1.0
    assert not hasattr(clf, "module_")
    again = pickle.loads(pickle.dumps(other))
    np.testing.assert_array_equal(again.predict_proba(X_test), other.predict_proba(X_test))
    assert again.statement_ == other.statement_
    pipe = make_pipeline(FunctionTransformer(np.sqrt), clf).fit(X, y)
    assert pipe.predict(X_test).shape == (797,)


@pytest.mark.long
def test_strings_and_absent_classes(digits):
    X, y, X_test, _ = digits
    names = np.array([f"digit {i}" for i in y])
    clf = make(classes=[f"digit {i}" for i in range(12)], epochs=1).fit(X, names)
    assert clf.predict_proba(X_test).shape == (797, 12)
    assert set(clf.predict(X_test)) <= set(clf.classes_)


@pytest.mark.long
def test_adam_the_cnn_and_group_norm_train(digits):
    X, y, X_test, y_test = digits
    clf = make("tanh-cnn", module_kwargs={"n_groups": 4}, optimizer="adam", learning_rate=0.02, epochs=3, noise_seed=0)
    clf.set_params(budget=Budget(8.0, DELTA)).fit(X, y)
    assert clf.score(X_test, y_test) > 0.3
    assert any(isinstance(m, nn.GroupNorm) for m in clf.module_.modules())


@pytest.mark.long
def test_own_noise_is_checked_against_the_budget(digits):
    X, y = digits[:2]
    enough = make(epochs=1).fit(X, y).noise_multiplier_
    clf = make(epochs=1, noise_multiplier=1.5 * enough).fit(X, y)
    assert clf.guarantee_.epsilon < 2.4
    with pytest.raises(BudgetExceededError, match="noise_multiplier"):
        make(epochs=1, noise_multiplier=0.8 * enough).fit(X, y)


@pytest.mark.long
def test_ctrl_c_leaves_everything_as_it_was(digits, monkeypatch):
    X, y = digits[:2]
    clf = make(epochs=1).fit(X, y)
    before = dict(clf.__dict__)
    calls = []

    def interrupted(source, size):
        calls.append(size)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return gaussian(source, size)

    monkeypatch.setattr(_mechanism, "gaussian", interrupted)
    with pytest.raises(KeyboardInterrupt):
        clf.set_params(epochs=2).fit(X[:, :50], y)
    assert len(calls) == 3
    assert {k: v for k, v in clf.__dict__.items() if k != "epochs"} == {
        k: v for k, v in before.items() if k != "epochs"
    }
    assert clf.n_features_in_ == 64
    calls.clear()
    fresh = make(epochs=1)
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(X, y)
    assert not [name for name in vars(fresh) if name.endswith("_")]


@pytest.mark.long
def test_the_bar_counts_steps_and_nothing_private(digits, monkeypatch):
    asked = []

    def track(items, **words):
        asked.append(words)
        yield from items

    monkeypatch.setattr(_run, "track", track)
    make(epochs=2, verbose=True).fit(*digits[:2])
    make(epochs=1).fit(*digits[:2])
    notes = [words.pop("note") for words in asked]
    assert asked == [
        {"total": 8, "label": "DP-SGD steps", "show": True, "begun": 0},
        {"total": 4, "label": "DP-SGD steps", "show": False, "begun": 0},
    ]
    assert (notes[0](0), notes[0](8)) == ("", "epsilon 3")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"budget": 3.0}, "budget must be a pate.Budget"),
        ({"budget": None}, "budget must be a pate.Budget"),
        ({"expected_batch_size": 1001}, "1000 private records"),
        ({"expected_batch_size": 0}, "expected_batch_size"),
        ({"max_grad_norm": 0.0}, "max_grad_norm"),
        ({"learning_rate": -1}, "learning_rate"),
        ({"momentum": 1.0}, "momentum"),
        ({"epochs": 0}, "epochs"),
        ({"max_physical_batch_size": 0}, "max_physical_batch_size"),
        ({"optimizer": "lion"}, "'sgd', 'adam'"),
        ({"adjacency": "swap"}, "'replace-one', 'add-or-remove', 'zero-out'"),
        ({"noise_multiplier": 0.0}, "noise_multiplier"),
        ({"random_state": -1}, "random_state"),
        ({"noise_seed": -1}, "noise_seed"),
        ({"device": "abacus"}, "device"),
        ({"n_threads": 0}, "n_threads"),
        ({"classes": [1]}, "at least two"),
        ({"module": "transformer"}, "'linear', 'mlp', .*'tanh-mlp'"),
        ({"module": nn.Linear(64, 10)}, "not an instance"),
        ({"module": nn.Linear}, "n_features, n_classes"),
        ({"module": Linear, "module_kwargs": {"hidden": 3}}, "hidden"),
        ({"module": "tanh-cnn", "module_kwargs": {"channels": 3}}, "side"),
        ({"budget": Budget(3.0, 1e-13)}, "delta"),
    ],
)
def test_bad_values_are_refused_before_anything_is_trained(digits, monkeypatch, change, words):
    monkeypatch.setattr(_fit, "run_training", lambda *_, **__: pytest.fail("it trained"))
    with pytest.raises(InvalidInputError, match=words):
        make(**change).fit(*digits[:2])


@pytest.mark.few(1)
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_numbers_that_are_not_finite_are_refused(digits, value):
    X = digits[0].astype(np.float64)
    X[3, 4] = value
    with pytest.raises(InvalidInputError, match=r"NaN|infinity"):
        make(classes=None).fit(X, digits[1])  # then all records decide what is public
    with pytest.warns(CuratorWarning, match="1 of 1000 records cannot be used"):
        clf = make(epochs=1).fit(X, digits[1])
    with pytest.raises(InvalidInputError, match=r"NaN|infinity"):
        clf.predict(X)


def batch_norm(*, n_features, n_classes, frozen=False):
    norm_layer = nn.BatchNorm1d(n_features).requires_grad_(not frozen)
    return nn.Sequential(norm_layer, nn.Linear(n_features, n_classes))


class Centred(MLP):
    def forward(self, x):
        return super().forward(x - x.mean(0))


class Idle(Linear):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.spare = nn.Linear(2, 2)


class Buffered(Linear):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.linear.register_buffer("mean", torch.zeros(3))


@pytest.mark.parametrize(
    ("module", "kwargs", "words"),
    [
        (batch_norm, None, "GroupNorm"),
        (batch_norm, {"frozen": True}, "BatchNorm"),
        (Centred, None, "mixes the records"),
        (Idle, None, "do not reach its output: spare"),
        (Buffered, None, "buffer"),
        (lambda *, n_features, n_classes: Linear(n_features=n_features, n_classes=n_classes + 1), None, "logits"),
        (lambda *, n_features, n_classes: nn.Flatten(), None, "no parameters"),
        (lambda *, n_features, n_classes: "module", None, "made a str"),
    ],
)
def test_modules_that_cannot_be_private_are_refused(module, kwargs, words):
    with pytest.raises(InvalidInputError, match=words):
        build_engine(module, 8, 3, kwargs)


@pytest.mark.long
def test_warnings(digits):
    X, y = digits[:2]
    with pytest.warns(PrivacyLeakWarning, match="classes="):
        clf = make(classes=None, epochs=1).fit(X, y)
    assert "read off the labels" in str(clf.statement_.to_dict())
    with pytest.warns(PrivacyParameterWarning, match="1/n"):
        make(budget=Budget(3.0, 1e-3), epochs=1).fit(X, y)


@pytest.mark.few(3)
@parametrize_with_checks(
    [
        DPSGDClassifier(
            "linear",
            budget=Budget(100.0, 1e-4),
            mechanism=SampledGaussian(noise_multiplier=1.5),
            expected_batch_size=1,
            epochs=2,
            learning_rate=0.05,
            noise_seed=1,
        )
    ]
)
@pytest.mark.filterwarnings("ignore::pate.exceptions.PateWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
def test_mnist_at_epsilon_three():
    folder = os.environ.get("PATE_DATA_HOME")
    path = Path(folder or ".") / "mnist.npz"
    if not folder or not path.exists():
        pytest.skip("needs PATE_DATA_HOME with mnist.npz")
    with np.load(path) as data:
        X, y = data["x_train"].reshape(60_000, -1) / np.float32(255), data["y_train"]
        X_test, y_test = data["x_test"].reshape(10_000, -1) / np.float32(255), data["y_test"]
    clf = make("tanh-cnn", epochs=3, expected_batch_size=1024, learning_rate=0.5).fit(X, y)
    assert clf.score(X_test, y_test) > 0.94
