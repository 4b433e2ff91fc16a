"""What DP-SGD does with noised gradients: optimisers, learning rates, averages of weights."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from dpsgd_steps import train
from torch import nn

from pate import Budget, DPSGDClassifier
from pate.dpsgd import _run
from pate.dpsgd._optimizers import (
    DPAdamBC,
    ExponentialAveraging,
    LearningRateSchedule,
    RunningAverage,
    TailAveraging,
    make_optimizer,
    set_noise_std,
)
from pate.dpsgd.engines import PerRecordEngine
from pate.exceptions import InvalidInputError


def gradients(n, shape=(5,), seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, *shape)))


def run(optimizer, p, found):
    seen = []
    for g in found:
        p.grad = g.to(p.dtype)
        optimizer.step()
        seen.append(p.detach().clone())
    return torch.stack(seen)


def test_without_noise_it_is_adam():
    ours, theirs = (nn.Parameter(torch.ones(5, dtype=torch.float64)) for _ in range(2))
    a = run(DPAdamBC([ours], 0.1, floor=1e-30, noise_std=0.0, weight_decay=0.1), ours, gradients(30))
    b = run(torch.optim.AdamW([theirs], 0.1, eps=0.0, weight_decay=0.1), theirs, gradients(30))
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def test_the_update_of_the_paper_by_hand():
    """Two steps, two numbers of which one falls below the floor."""
    p = nn.Parameter(torch.zeros(2, dtype=torch.float64))
    found = run(DPAdamBC([p], 0.5, floor=0.01, noise_std=0.3), p, [torch.tensor(g) for g in ([1.0, 0.2], [0.5, 0.1])])
    m, v, expected, at = np.zeros(2), np.zeros(2), [], np.zeros(2)
    for t, g in enumerate(np.array([[1.0, 0.2], [0.5, 0.1]]), start=1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        at = at - 0.5 * (m / (1 - 0.9**t)) / np.sqrt(np.maximum(v / (1 - 0.999**t) - 0.3**2, 0.01))
        expected.append(at)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_the_bias_is_gone():
    """What noise puts into the second moment is taken out, whatever its law over the steps; plain Adam's stays."""
    rng, size, true = np.random.default_rng(0), 20_000, 0.05
    p = nn.Parameter(torch.zeros(size, dtype=torch.float64))
    optimizer = DPAdamBC([p], 1e-3, betas=(0.9, 0.99))
    for t in range(200):
        std = 0.5 if t < 120 else 2.0  # a clipping norm that moved
        set_noise_std(optimizer, std)
        p.grad = torch.from_numpy(true + std * rng.normal(size=size))
        optimizer.step()
    state = optimizer.state[p]
    unbiased = (state["square"] - state["noise"]) / (1 - 0.99 ** state["step"])
    spread = float(unbiased.std()) / math.sqrt(size)
    assert abs(float(unbiased.mean()) - true**2) < 5 * spread
    assert float(state["square"].mean()) > 100 * true**2


@pytest.mark.long
def test_steps_are_those_of_small_and_large_gradients_alike():
    """With noise far above them, plain Adam moves a small gradient less than a large one; the corrected one as much."""
    rng, sizes = np.random.default_rng(1), torch.tensor([1.0, 0.3]).double().repeat_interleave(4000)
    moved = {}
    for name, options in (("adam-bc", {"betas": (0.9, 0.999), "floor": 1e-4}), ("adam", {})):
        p = nn.Parameter(torch.zeros(8000, dtype=torch.float64))
        optimizer = DPAdamBC([p], 1e-3, noise_std=2.0, **options) if options else torch.optim.Adam([p], 1e-3)
        noise = torch.from_numpy(2.0 * rng.normal(size=(1500, 8000)))
        for draw in noise:
            p.grad = sizes + draw
            optimizer.step()
        large, small = p.detach().view(2, 4000).median(dim=1).values.tolist()
        moved[name] = large / small
    assert moved["adam"] > 2.5
    assert moved["adam-bc"] < 2.0


def test_its_state_goes_on():
    one, other = (nn.Parameter(torch.ones(5)) for _ in range(2))
    first, second = (DPAdamBC([p], 0.1, noise_std=0.2) for p in (one, other))
    whole = run(first, one, gradients(8))
    run(second, other, gradients(8)[:4])
    kept, p = copy.deepcopy(second.state_dict()), nn.Parameter(other.detach().clone())
    third = DPAdamBC([p], 0.7)
    third.load_state_dict(kept)
    assert torch.equal(run(third, p, gradients(8)[4:]), whole[4:])


def test_settings_that_cannot_be_are_refused():
    net = nn.Linear(2, 2)
    optimizer = make_optimizer("adam-bc", net, learning_rate=0.1)
    next(net.parameters()).grad = torch.ones(2, 2)
    with pytest.raises(InvalidInputError, match="noise_std must be given"):
        optimizer.step()
    for make, word in (
        (lambda: make_optimizer("rmsprop", net, learning_rate=0.1), "optimizer must be"),
        (lambda: DPAdamBC(net.parameters(), 0.1, floor=0.0), "floor"),
        (lambda: DPAdamBC(net.parameters(), 0.1, betas=(0.9, 1.0)), "betas"),
        (lambda: set_noise_std(optimizer, math.nan), "noise_std"),
        (lambda: LearningRateSchedule("step"), "kind must be"),
        (lambda: LearningRateSchedule(warmup=1.0), "warmup"),
        (lambda: LearningRateSchedule(final=2.0), "final"),
        (lambda: ExponentialAveraging(1.0), "decay"),
        (lambda: TailAveraging(0.0), "fraction"),
    ):
        with pytest.raises(InvalidInputError, match=word):
            make()


def test_frozen_parameters_and_others_noise_are_left_alone():
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    net[0].requires_grad_(False)
    for name in ("sgd", "adam", "adam-bc"):
        optimizer = make_optimizer(name, net, learning_rate=0.1, momentum=0.9)
        set_noise_std(optimizer, 0.5)
        assert [id(p) for p in optimizer.param_groups[0]["params"]] == [id(p) for p in net[1].parameters()]
        assert optimizer.param_groups[0].get("noise_std") == (0.5 if name == "adam-bc" else None)
        assert optimizer.param_groups[0]["weight_decay"] == 0.0


def test_training_tells_the_noise_that_it_adds(monkeypatch):
    set_to = []
    real = _run.set_noise_std
    monkeypatch.setattr(_run, "set_noise_std", lambda o, std: (set_to.append(std), real(o, std)))
    torch.manual_seed(0)
    net = nn.Linear(300, 40)
    before = torch.cat([p.detach().flatten().clone() for p in net.parameters()])
    train(PerRecordEngine(net), np.zeros((5, 300)), np.zeros(5), q=1e-12, sigma=3.0, clip=0.5, batch=10)
    moved = torch.cat([p.detach().flatten() for p in net.parameters()]) - before
    assert set_to == [pytest.approx(0.15)]
    assert abs(float(moved.std()) - 0.15) < 0.005


@pytest.mark.few(1)
@pytest.mark.parametrize("optimizer", ["adam-bc", "adam"])
def test_a_fit(optimizer):
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    X = rng.normal(size=(400, 5)) + 2 * y[:, None]
    clf = DPSGDClassifier(
        "linear", budget=Budget(5.0, 1e-4), classes=[0, 1], optimizer=optimizer, learning_rate=0.05, epochs=10,
        expected_batch_size=100, random_state=0, noise_seed=0,
    )  # fmt: skip
    assert clf.fit(X, y).score(X, y) > 0.85


# ---------------------------------------------------------------- learning rates


@pytest.mark.parametrize("kind", ["constant", "cosine", "linear"])
@pytest.mark.parametrize("n_steps", [1, 2, 7, 100])
def test_learning_rates(kind, n_steps):
    for warmup in (0.0, 0.3, 0.9):
        schedule = LearningRateSchedule(kind, warmup=warmup, final=0.25)
        found = [schedule.factor(step, n_steps) for step in range(n_steps)]
        rising = round(warmup * n_steps)
        assert found[:rising] == [(i + 1) / rising for i in range(rising)]
        after = found[rising:]
        assert all(0 < f <= 1 for f in found)
        assert after == sorted(after, reverse=True)
        if after:
            assert after[0] == 1
            assert math.isclose(after[-1], 1.0 if kind == "constant" or len(after) == 1 else 0.25)


# ---------------------------------------------------------------- averages


def test_averages_are_those_of_all_weights_at_once():
    weights, n = gradients(20, (3,)), 20
    for averaging, shares in (
        (TailAveraging(0.25), [0.0] * 15 + [1.0] * 5),
        (TailAveraging(1.0), [1.0] * 20),
        (TailAveraging(0.01), [0.0] * 19 + [1.0]),
        (ExponentialAveraging(0.9), [0.9 ** (19 - t) for t in range(20)]),
        (ExponentialAveraging(0.0), [0.0] * 19 + [1.0]),
    ):
        p = nn.Parameter(torch.full((3,), 1e6))
        average = RunningAverage(averaging, [p], n)
        for step, w in enumerate(weights):
            p.data.copy_(w)
            if step == 11:  # on from a checkpoint
                state, average = copy.deepcopy(average.state_dict()), RunningAverage(averaging, [p], n)
                average.load_state_dict(state)
            average.update(step)
        average.write()
        exact = (torch.tensor(shares, dtype=torch.float64)[:, None] * weights.float().double()).sum(0) / sum(shares)
        torch.testing.assert_close(p.detach().double(), exact, rtol=1e-6, atol=1e-6)


def test_an_average_of_other_parameters_is_refused():
    one, other = (RunningAverage(TailAveraging(), [nn.Parameter(torch.zeros(n))], 4) for n in (2, 3))
    with pytest.raises(InvalidInputError, match="shapes of the parameters"):
        other.load_state_dict(one.state_dict())
