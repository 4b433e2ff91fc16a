"""Sums of clipped gradients on a CUDA device: those of the CPU, within the norm, and each record's its own."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from pate import Budget, DPSGDClassifier, Ledger
from pate.dpsgd._run import build_engine
from pate.dpsgd.clipping import PerLayerClipping
from pate.dpsgd.engines import BookKeepingEngine, PerRecordEngine
from pate.exceptions import InvalidInputError
from pate.networks import own_generator

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.long,
]
GPU = torch.device("cuda")
NAMES = ("linear", "mlp", "small-cnn", "tanh-cnn")
ENGINES = (BookKeepingEngine, PerRecordEngine)
RNG = np.random.default_rng(0)
X = torch.from_numpy(RNG.random((300, 144), dtype=np.float32))
Y = torch.from_numpy(RNG.integers(0, 10, 300))


@cache
def engines(name, kind):
    """Return the same engine on the CPU and on the GPU."""
    found = []
    for device in (torch.device("cpu"), GPU):
        with own_generator(0):
            engine = build_engine(name, (144,), 10, engine=kind)
        engine.module.to(device)
        found.append(engine)
    return found


def flat(tensors):
    assert all(t.dtype == torch.float64 for t in tensors)
    return torch.cat([t.flatten() for t in tensors]).cpu()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize(
    "how", [{}, {"rows_per_unit": 2}, {"shared": True}, {"shared": True, "blocks": [80] * 3 + [60]}]
)
@pytest.mark.parametrize("clip", [0.1, 1.0, PerLayerClipping(0.5)])
def test_sums_are_the_cpus(name, kind, how, clip):
    """Up to the rounding of float32 within a record's gradient, which TF32 would make a thousand times as large."""
    here, there = engines(name, kind)
    ours = flat(there.clipped_sum(X.to(GPU), Y.to(GPU), clip, seed=0, **how))
    theirs = flat(here.clipped_sum(X, Y, clip, seed=0, **how))
    assert float((ours - theirs).norm()) < 2e-5 * float(theirs.norm())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6, 1e30])
def test_no_record_is_beyond_the_norm(name, kind, scale):
    engine = engines(name, kind)[1]
    for i in range(20):
        one = flat(engine.clipped_sum(scale * X[i : i + 1].to(GPU), Y[i : i + 1].to(GPU), 0.25, seed=0))
        assert float(one.norm()) <= 0.25 * (1 + engine.excess + 1e-9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ENGINES)
def test_a_record_has_the_same_gradient_in_any_batch(name, kind):
    """Kernels are chosen by the batch's size: what they round differently must stay far below a record's own norm."""
    engine = engines(name, kind)[1]
    x, y = X.to(GPU), Y.to(GPU)
    alone = [flat(engine.clipped_sum(x[i : i + 1], y[i : i + 1], 1.0, seed=0, shared=True)) for i in range(3)]
    for n in (2, 17, 64, 129, 256, 300):
        some = flat(engine.clipped_sum(x[:n], y[:n], 1.0, seed=0, shared=True))
        fewer = flat(engine.clipped_sum(x[1:n], y[1:n], 1.0, seed=0, shared=True))
        assert float((some - fewer - alone[0]).norm()) < 1e-6 * n, n


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ENGINES)
def test_the_same_sum_comes_out_every_time(name, kind):
    engine = engines(name, kind)[1]
    one, two = (flat(engine.clipped_sum(X.to(GPU), Y.to(GPU), 1.0, seed=0)) for _ in range(2))
    assert torch.equal(one, two)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ENGINES)
def test_records_that_are_not_finite_leave_no_trace(name, kind):
    engine = engines(name, kind)[1]
    odd = X[:40].clone()
    odd[3], odd[9] = torch.nan, torch.inf
    there = torch.ones(40, dtype=torch.bool)
    there[[3, 9]] = False
    weights = there.float()
    zeros = torch.where(there[:, None], X[:40], 0.0)
    found = flat(engine.clipped_sum(odd.to(GPU), Y[:40].to(GPU), 1.0, seed=0))
    without = flat(engine.clipped_sum(zeros.to(GPU), Y[:40].to(GPU), 1.0, seed=0, weights=weights.to(GPU)))
    assert torch.isfinite(found).all()
    assert float((found - without).norm()) < 1e-5 * float(without.norm())


class Scaled(nn.Module):
    """Keeps a tensor that is no parameter: it stays on the CPU."""

    def __init__(self, n_features, n_classes):
        super().__init__()
        self.linear, self.by = nn.Linear(n_features, n_classes), torch.ones(n_features)

    def forward(self, x):
        return self.linear(x * self.by)


def test_a_module_that_stays_on_the_cpu_is_refused_before_anything_is_charged(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite", currency="renyi", total=Budget(8.0, 1e-4))
    clf = DPSGDClassifier(Scaled, budget=Budget(8.0, 1e-4), classes=range(10), epochs=1, device="cuda", ledger=ledger)
    with pytest.raises(InvalidInputError, match="register_buffer"):
        clf.fit(X.numpy(), Y.numpy())
    assert not ledger.releases()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mechanism", ["poisson", "ftrl"])
def test_a_fit_is_the_cpus_under_the_same_noise(name, mechanism):
    rows, labels = X.numpy(), Y.numpy()
    here, there = (
        DPSGDClassifier(
            name, budget=Budget(8.0, 1e-4), classes=range(10), epochs=2, expected_batch_size=60, device=device,
            mechanism=mechanism, random_state=0, noise_seed=0, measure=False, learning_rate=0.05,
        ).fit(rows, labels)
        for device in ("cpu", "cuda")
    )  # fmt: skip
    assert there.guarantee_ == here.guarantee_
    for ours, theirs in zip(there.module_.parameters(), here.module_.parameters(), strict=True):
        assert ours.device.type == "cpu"
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
