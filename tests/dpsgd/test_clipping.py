"""Clipping: nothing longer than the norm, whatever the norms are; what a noised count costs, and where it leads."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from dp_accounting import (
    ComposedDpEvent,
    GaussianDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest
from torch import nn

from pate.dpsgd._calibration import dpsgd_epsilon
from pate.dpsgd._run import build_engine
from pate.dpsgd.clipping import AutomaticClipping, FlatClipping, PerLayerClipping, QuantileClipping, as_clip
from pate.dpsgd.engines import BookKeepingEngine, PerRecordEngine
from pate.exceptions import InvalidInputError

NORMS = st.one_of(
    st.floats(min_value=0.0),
    st.sampled_from([0.0, 5e-324, 1e-300, 1.0, np.nextafter(1.0, 2.0), 1.7e308, math.inf, math.nan]),
)
LIMITS = st.floats(min_value=1e-8, max_value=1e6)


def clips(norm, share):
    return [
        (FlatClipping(norm), 1),
        (AutomaticClipping(norm, gamma=share), 1),
        (QuantileClipping(max_norm=norm).start(10), 1),
        (PerLayerClipping(norm), 3),
        (PerLayerClipping(norm, shares=(share, 1.0, 7.0)), 3),
    ]


@given(rows=st.lists(st.tuples(NORMS, NORMS, NORMS), min_size=1, max_size=6), norm=LIMITS, share=st.floats(1e-3, 1e3))
@settings(max_examples=80)
def test_no_unit_is_longer_than_the_norm(rows, norm, share):
    for clip, n_groups in clips(norm, share):
        norms = torch.tensor(rows, dtype=torch.float64)[:, :n_groups]
        factors = clip.factors(norms.clone())
        assert factors.shape == norms.shape
        assert factors.dtype == torch.float64
        assert torch.isfinite(factors).all()
        assert (factors >= 0).all()
        for lengths, scales in zip(norms.tolist(), factors.tolist(), strict=True):
            assert all(f == 0 for f, v in zip(scales, lengths, strict=True) if not math.isfinite(v))
            left = [Fraction(f) * Fraction(v) for f, v in zip(scales, lengths, strict=True) if math.isfinite(v)]
            assert sum(v * v for v in left) <= Fraction(clip.max_norm) ** 2  # exactly, not in floating point


def test_what_is_within_the_norm_stays():
    for clip, n_groups in clips(2.0, 1.0):
        if isinstance(clip, AutomaticClipping):
            continue
        factors = clip.factors(torch.full((1, n_groups), 0.01, dtype=torch.float64))
        torch.testing.assert_close(factors, torch.ones_like(factors), rtol=1e-11, atol=0)


def test_automatic_clipping_scales_every_gradient():
    norms = torch.tensor([[0.0], [1e-4], [0.5], [3.0], [1e9]], dtype=torch.float64)
    clip = AutomaticClipping(0.3, gamma=0.01)
    torch.testing.assert_close(clip.factors(norms), 0.3 / (norms + 0.01), rtol=1e-11, atol=0)
    left = clip.factors(norms) * norms
    assert torch.equal(left.sort(dim=0).values, left)  # the longer a gradient was, the longer it is
    assert 0.3 * (1 - 1e-6) < float(left[-1]) < 0.3


def test_layers_share_the_norm():
    names = ["0.weight", "0.bias", "2.weight", "head.inner.weight"]
    assert PerLayerClipping().groups(names) == (0, 0, 1, 2)
    assert PerLayerClipping().groups(["weight", "bias"]) == (0, 0)
    large = torch.full((1, 3), 1e9, dtype=torch.float64)
    equal = (PerLayerClipping(3.0).factors(large) * large).flatten()
    torch.testing.assert_close(equal, torch.full((3,), 3.0 / 3**0.5, dtype=torch.float64), rtol=1e-9, atol=0)
    shared = (PerLayerClipping(3.0, shares=(1.0, 2.0, 2.0)).factors(large) * large).flatten()
    torch.testing.assert_close(shared, torch.tensor([1.0, 2.0, 2.0], dtype=torch.float64), rtol=1e-9, atol=0)
    with pytest.raises(InvalidInputError, match=r"each of the 3 layers .* got 2\. They are 0, 2, head\.inner"):
        PerLayerClipping(shares=(1.0, 1.0)).groups(names)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: FlatClipping(0.0), "max_norm"),
        (lambda: FlatClipping(math.nan), "max_norm"),
        (lambda: PerLayerClipping(-1.0), "max_norm"),
        (lambda: PerLayerClipping(shares=()), "shares"),
        (lambda: PerLayerClipping(shares=[1.0]), "shares"),
        (lambda: PerLayerClipping(shares=(1.0, 0.0)), "shares"),
        (lambda: AutomaticClipping(1e7), "max_norm"),
        (lambda: AutomaticClipping(gamma=0.0), "gamma"),
        (lambda: QuantileClipping(1.0), "quantile"),
        (lambda: QuantileClipping(max_norm=1e7), "max_norm"),
        (lambda: QuantileClipping(learning_rate=0.0), "learning_rate"),
        (lambda: QuantileClipping(count_noise=0.0), "count_noise"),
        (lambda: QuantileClipping().start(0), "expected_batch_size"),
        (lambda: as_clip(1e-9), "max_grad_norm"),
    ],
)
def test_bad_settings_are_refused(make, word):
    with pytest.raises(InvalidInputError, match=f"{word} must be"):
        make()


@pytest.mark.parametrize("clip", [FlatClipping(), PerLayerClipping(), AutomaticClipping(), QuantileClipping()])
def test_settings_are_frozen_and_fixed_ones_release_nothing(clip):
    with pytest.raises(dataclasses.FrozenInstanceError):
        clip.max_norm = 2.0
    run = clip.start(64)
    adaptive = isinstance(clip, QuantileClipping)
    assert run.extra_draws == int(adaptive)
    assert (clip.gradient_noise_multiplier(1.5, 64) > 1.5) == adaptive
    run.step(torch.ones(run.extra_draws))
    assert (run.max_norm != 1.0) == adaptive
    assert bool(run.state_dict()) == adaptive
    run.load_state_dict(run.state_dict())
    assert f"{clip.max_norm:g}" in clip.words()


# ---------------------------------------------------------------- what a count costs


@pytest.mark.parametrize(
    ("sigma", "noise", "expected"),
    # (sigma^-2 - (2 noise)^-2)^(-1/2), by hand: 1/2.25 = 1/1.44 - 1/4; 1/4 = 1/3.6 - 1/36; 1/25 = 1/16 - 9/400.
    [(1.2, 1.0, 1.5), (math.sqrt(3.6), 3.0, 2.0), (4.0, 10 / 3, 5.0)],
)
def test_golden_noise(sigma, noise, expected):
    found = QuantileClipping(count_noise=noise).gradient_noise_multiplier(sigma, 64)
    assert expected <= found <= expected * (1 + 1e-10)


@given(sigma=st.floats(0.1, 100.0), ratio=st.floats(0.501, 1e3))
def test_gradients_and_count_together_are_one_gaussian_of_the_noise_that_is_accounted(sigma, ratio):
    clip = QuantileClipping(count_noise=ratio * sigma)
    noise = clip.gradient_noise_multiplier(sigma, 1.0)
    # In units of the noise: a gradient of norm 1 and half a count.
    assert math.hypot(1 / noise, 1 / (2 * ratio * sigma)) <= (1 + 1e-15) / sigma
    assert math.isclose(math.hypot(1 / noise, 1 / (2 * ratio * sigma)), 1 / sigma, rel_tol=1e-11)


def test_a_count_that_costs_more_than_the_step_is_refused():
    with pytest.raises(InvalidInputError, match=r"count_noise must be more than half .* got 0.5"):
        QuantileClipping().gradient_noise_multiplier(1.0, 10)
    assert QuantileClipping().gradient_noise_multiplier(1.0, 11) > 2


@pytest.mark.long
def test_the_cost_is_that_of_two_releases_of_dp_accounting():
    """Add-or-remove without sampling: gradients at sigma_g and centred bits (half a count) at sigma_b."""
    clip, sigma = QuantileClipping(count_noise=2.0), 1.7
    both = ComposedDpEvent(
        [GaussianDpEvent(clip.gradient_noise_multiplier(sigma, 64)), GaussianDpEvent(clip.count_noise_of(64) / 0.5)]
    )
    for steps in (1, 30):
        event = SelfComposedDpEvent(both, steps)
        for accountant in (RdpAccountant(), PLDAccountant(value_discretization_interval=1e-3)):
            found = accountant.compose(event).get_epsilon(1e-5)
            again = type(accountant)() if isinstance(accountant, RdpAccountant) else PLDAccountant()
            whole = again.compose(SelfComposedDpEvent(GaussianDpEvent(sigma), steps)).get_epsilon(1e-5)
            assert math.isclose(found, whole, rel_tol=2e-3)


def hockey_sticks(q, w, other, epsilon):
    """Return the plane's integral of max(P - e^epsilon Q, 0): a step whose unit gives w, or ``other``; brute force."""
    axis = np.linspace(-9, 9, 901)
    plane = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)

    def density(mean):
        return np.exp(-((plane - np.asarray(mean)) ** 2).sum(-1) / 2) / (2 * math.pi)

    nothing = (1 - q) * density((0.0, 0.0))
    p, r = nothing + q * density(w), nothing + q * density(other)
    return float(np.maximum(p - math.exp(epsilon) * r, 0).sum() * (axis[1] - axis[0]) ** 2)


@pytest.mark.long
@pytest.mark.parametrize("q", [0.1, 1.0])
def test_replace_one_brute_force(q):
    """Whatever two units do to gradient (in its direction) and count, no more than the pair that is accounted."""
    sigma, epsilon = 0.8, 0.7
    clip = QuantileClipping(count_noise=0.9)
    noise = clip.gradient_noise_multiplier(sigma, 64)
    accounted = hockey_sticks(q, (1 / sigma, 0.0), (-1 / sigma, 0.0), epsilon)
    direct = PLDAccountant(NeighboringRelation.REPLACE_ONE, 1e-4).compose(
        PoissonSampledDpEvent(q, GaussianDpEvent(sigma))
    )
    if q < 1:
        assert math.isclose(direct.get_delta(epsilon), accounted, rel_tol=2e-3)
    rng = np.random.default_rng(0)
    corners = [((1.0, 0.5), (-1.0, -0.5)), ((1.0, 0.5), (-1.0, 0.5)), ((1.0, -0.5), (1.0, 0.5))]
    inner = [((rng.uniform(-1, 1), 0.5), (rng.uniform(-1, 1), -0.5)) for _ in range(3)]
    found = []
    for one, two in corners + inner:
        scaled = [(g / noise, b / 0.9) for g, b in (one, two)]
        found.append(hockey_sticks(q, *scaled, epsilon))
    assert max(found) <= accounted * (1 + 2e-4)
    assert math.isclose(found[0], accounted, rel_tol=2e-4)  # opposite in both: attained
    # Bits that are not centred would cost more, as soon as a unit may be out of the sample.
    uncentred = hockey_sticks(q, *[(g / noise, b / 0.9) for g, b in ((1.0, 1.0), (-1.0, 0.0))], epsilon)
    assert (uncentred > 2 * accounted) == (q < 1)


@pytest.mark.long
def test_the_epsilon_is_that_of_the_same_noise_multiplier():
    """What goes into accounting is the noise multiplier of the step, for any clipping."""
    shape = {"delta": 1e-5, "sample_rate": 0.05, "n_steps": 40}
    plain = dpsgd_epsilon(1.1, **shape)
    stronger = dpsgd_epsilon(QuantileClipping().gradient_noise_multiplier(1.1, 64), **shape)
    assert stronger < plain  # gradients alone cost less; the count makes up for it


# ---------------------------------------------------------------- how it moves


def replay(parts, draws, **options):
    run = QuantileClipping(**{"quantile": 0.3, "learning_rate": 0.5, **options}).start(50)
    seen = []
    for norms, draw in zip(parts, draws, strict=True):
        for part in norms:
            run.factors(torch.as_tensor(part, dtype=torch.float64)[:, None])
        run.step(torch.tensor([draw]))
        seen.append(run.max_norm)
    return seen


@pytest.mark.parametrize("size", [1, 7, 50, 1000])
def test_counts_survive_physical_batches(size):
    rng = np.random.default_rng(0)
    steps, draws = [rng.lognormal(size=n) for n in (40, 63, 0, 51)], rng.normal(size=4)
    cut = [[s[i : i + size] for i in range(0, len(s), size)] for s in steps]
    found = replay(cut, draws)
    norm, expected = 1.0, []
    for norms, draw in zip(steps, draws, strict=True):
        within = (norms <= norm).sum()
        share = (within - len(norms) / 2 + 50 / 20 * draw) / 50 + 0.5  # by the expected batch, whatever the sample
        norm *= math.exp(-0.5 * (share - 0.3))
        expected.append(norm)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_law_of_what_a_step_says():
    rng = np.random.default_rng(1)
    logs = []
    for draw in rng.normal(size=4000):
        [norm] = replay([[np.array([0.5] * 30 + [2.0] * 25)]], [draw], count_noise=6.0)
        logs.append(-math.log(norm) / 0.5 + 0.3)  # the noised share
    assert kstest((np.array(logs) - (0.5 + 2.5 / 50)) / (6.0 / 50), "norm").pvalue > 1e-3


@pytest.mark.parametrize("quantile", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("start", [1e-3, 100.0])
def test_the_norm_finds_the_quantile(quantile, start):
    rng = np.random.default_rng(0)
    run = QuantileClipping(quantile, max_norm=start).start(500)
    late = []
    for t in range(400):
        norms = rng.lognormal(sigma=1.0, size=rng.poisson(500))
        run.factors(torch.from_numpy(norms)[:, None])
        run.step(torch.from_numpy(rng.normal(size=1)))
        late += [run.max_norm] if t > 300 else []
    share = float((rng.lognormal(size=100_000) <= np.median(late)).mean())
    assert abs(share - quantile) < 0.03


def test_a_run_goes_on_from_its_state_and_shows_no_count():
    rng = np.random.default_rng(0)
    one, draws = QuantileClipping().start(20), torch.from_numpy(rng.normal(size=(6, 1)))
    parts = [torch.from_numpy(rng.lognormal(size=(20, 1))) for _ in range(6)]
    for part, draw in zip(parts[:3], draws[:3], strict=True):
        one.factors(part)
        one.step(draw)
    other = QuantileClipping().start(20)
    other.factors(torch.full((7, 1), 9.0, dtype=torch.float64))  # a step that was cut off is forgotten
    other.load_state_dict(one.state_dict())
    for run in (one, other):
        for part, draw in zip(parts[3:], draws[3:], strict=True):
            run.factors(part)
            run.step(draw)
    assert one.max_norm == other.max_norm
    one.factors(parts[0])
    assert repr(one) == f"QuantileRun(max_norm={one.max_norm:g})"
    with pytest.raises(InvalidInputError, match="between steps"):
        one.state_dict()
    with pytest.raises(InvalidInputError, match="max_norm must be"):
        other.load_state_dict({})


def test_the_norm_stays_within_its_limits():
    for quantile, draw in ((0.5, 1e9), (0.5, -1e9)):
        run = QuantileClipping(quantile).start(1)
        for _ in range(10):
            run.step(torch.tensor([draw]))
        assert run.max_norm == (1e-8 if draw > 0 else 1e6)


@pytest.mark.few(1)
@pytest.mark.parametrize("engine", [BookKeepingEngine, PerRecordEngine])
def test_an_engine_shows_each_units_norm_once(engine):
    class Counting(FlatClipping):
        seen: list = []  # noqa: RUF012

        def factors(self, norms):
            self.seen.append(norms.clone())
            return super().factors(norms)

    torch.manual_seed(0)
    built = build_engine("linear", 4, 3, engine=engine)
    built.at_once, Counting.seen = 4, []
    X, y = torch.randn(12, 4), torch.arange(12) % 3
    X[3] = torch.nan
    built.clipped_sum(X, y, Counting(0.5), rows_per_unit=2, seed=0)
    norms = torch.cat(Counting.seen)
    assert norms.shape == (6, 1)
    assert not torch.isfinite(norms[1])
    for u in (0, 2, 5):
        layer = nn.Linear(4, 3)
        layer.load_state_dict({k.rpartition(".")[2]: v for k, v in built.module.state_dict().items()})
        loss = nn.functional.cross_entropy(layer(X[2 * u : 2 * u + 2]), y[2 * u : 2 * u + 2])
        g = torch.autograd.grad(loss, list(layer.parameters()))
        exact = math.sqrt(sum(float(part.square().sum()) for part in g))
        assert exact * (1 - 1e-5) <= float(norms[u]) <= exact * (1 + 1e-4)
    run = QuantileClipping(max_norm=float(norms[0]) + 1e-6, learning_rate=1.0, count_noise=1e9).start(6)
    built.clipped_sum(X, y, run, rows_per_unit=2, seed=0)
    within = int((norms[:, 0] <= run.max_norm).sum())
    run.step(torch.zeros(1))
    assert math.isclose(math.log(run.max_norm / (float(norms[0]) + 1e-6)), -(within / 6 - 0.5), abs_tol=1e-9)
