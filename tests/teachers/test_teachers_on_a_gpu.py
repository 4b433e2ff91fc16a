"""Teachers trained on a CUDA device: the same as on the CPU up to rounding, and the same bit for bit every time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from pate import TorchTeacherEnsemble
from pate.exceptions import PerformanceWarning
from pate.networks import MLP, SmallCNN, steady_kernels

GPU = torch.device("cuda")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
DIGITS = load_digits()
X = (DIGITS.data / 16).astype(np.float32)
Y = DIGITS.target


class Curved(nn.Module):
    """No chain: goes through vmap."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(64, 12), nn.Linear(12, 10)

    def forward(self, x):
        return self.b(torch.sin(self.a(x))) + nn.functional.softplus(x[:, :10])


class Seen(nn.Module):
    """No chain, with convolutions that overlap when they are pooled."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 8, 3, padding=1), nn.Linear(8 * 36, 10)

    def forward(self, x):
        x = nn.functional.silu(self.a(x.reshape(-1, 1, 8, 8)))
        return self.b(nn.functional.max_pool2d(x, 3, stride=1).flatten(1))


class Normalised(nn.Module):
    """Batch normalisation: goes one by one."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 10)
        )

    def forward(self, x):
        return self.layers(x)


class Dropped(Normalised):
    def __init__(self):
        super().__init__(0.3)


def trained(module, device, rows=X[:600], **options):
    given = {"n_teachers": 6, "classes": range(10), "epochs": 3, "batch_size": 16, "random_state": 3}
    return TorchTeacherEnsemble(module, device=device, partition_seed=3, **given | options).fit(rows, Y[:600])


def apart(a, b):
    """Return the largest difference of two ensembles' weights."""
    pairs = [(one[n], other[n]) for one, other in zip(a.teachers_, b.teachers_, strict=True) for n in one]
    return max(float(np.abs(x.astype(float) - y).max()) for x, y in pairs)


@needs_gpu
@pytest.mark.long
@pytest.mark.parametrize("module", [SmallCNN, MLP, Curved, Seen])
@pytest.mark.parametrize("group_size", [1, 4, "auto"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_gpus_teachers_are_the_cpus(module, group_size, optimizer):
    here = trained(module, "cpu", precision="float64", optimizer=optimizer)
    there = trained(module, "cuda", precision="float64", optimizer=optimizer, group_size=group_size)
    assert apart(here, there) < 1e-9
    assert (here.vote(X[600:900]).labels == there.vote(X[600:900]).labels).all()


@needs_gpu
@pytest.mark.long
@pytest.mark.parametrize("module", [SmallCNN, MLP, Seen])
def test_in_float32_they_are_apart_by_its_rounding_alone(module):
    """TF32, which cuDNN takes by itself, would make it a thousand times as much."""
    there = trained(module, "cuda", epochs=1, optimizer="sgd", learning_rate=0.1)
    assert apart(trained(module, "cpu", epochs=1, optimizer="sgd", learning_rate=0.1), there) < 1e-5


@needs_gpu
@pytest.mark.long
@pytest.mark.parametrize("module", [SmallCNN, MLP, Curved, Seen])
@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("group_size", [1, 4, "auto"])
def test_the_same_seed_gives_the_same_bits_on_a_gpu(module, precision, group_size):
    one, two = (trained(module, "cuda", precision=precision, group_size=group_size) for _ in range(2))
    assert apart(one, two) == 0


@needs_gpu
@pytest.mark.long
def test_one_by_one_on_a_gpu_it_is_said_and_the_same():
    with pytest.warns(PerformanceWarning, match="one by one"):
        there = trained(Normalised, "cuda", precision="float64")
    assert apart(trained(Normalised, "cpu", precision="float64"), there) < 1e-9
    # Dropout is the exception: a GPU draws it by itself, from the same seed.
    with pytest.warns(PerformanceWarning, match="one by one"):
        one, two = (trained(Dropped, "cuda") for _ in range(2))
    assert apart(one, two) == 0


@needs_gpu
@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.* could not be trained")
@pytest.mark.parametrize("module", [SmallCNN, MLP, Curved])
def test_a_shard_of_huge_numbers_moves_no_other_teacher_of_its_group(module):
    fitted = trained(module, "cuda")
    spoilt = X[:600].copy()
    spoilt[fitted.partition_.shard(2)] *= 1e38
    other = trained(module, "cuda", rows=spoilt)
    for i in (0, 1, 3, 4, 5):
        for name, value in fitted.teachers_[i].items():
            np.testing.assert_array_equal(value, other.teachers_[i][name])


def settings():
    cudnn = torch.backends.cudnn
    kinds = [cudnn.conv.fp32_precision, cudnn.rnn.fp32_precision] if hasattr(cudnn, "conv") else [cudnn.allow_tf32]
    return [cudnn.enabled, cudnn.deterministic, cudnn.benchmark], kinds


def test_kernels_are_held_and_given_back():
    before = settings()
    with steady_kernels(torch.device("cpu")):
        assert settings() == before
    with steady_kernels(GPU, enabled=False):
        held, kinds = settings()
        assert held == [False, True, False]
        assert set(kinds) <= {"ieee", False}
    assert settings() == before
    with steady_kernels(GPU):
        assert settings()[0][0] is before[0][0]
