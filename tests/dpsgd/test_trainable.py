"""Which modules DP-SGD takes at all, beside what Opacus says of the same ones."""

import numpy as np
import pytest
from opacus.grad_sample import GradSampleModule
from opacus.layers import DPGRU, DPLSTM, DPMultiheadAttention
from opacus.validators import ModuleValidator
from torch import nn

from pate import Budget, DPSGDClassifier
from pate.dpsgd._checks import check_trainable
from pate.exceptions import InvalidInputError


class Buffered(nn.Linear):
    def __init__(self):
        super().__init__(3, 2)
        self.register_buffer("seen", self.weight.detach().clone())


class AroundBuffers(nn.Module):
    """Weights of its own, and a layer with buffers inside."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(nn.Linear(1, 1).bias.detach())
        self.inner = frozen(Buffered())


class NeverTrains(nn.Linear):
    def train(self, mode=True):
        return super().train(False)


class KeptNorm(nn.BatchNorm1d):
    """Stays in evaluation mode, and is frozen."""

    def __init__(self, n, **options):
        super().__init__(n, **options)
        self.requires_grad_(False)

    def train(self, mode=True):
        return super().train(False)


def frozen(module):
    return module.requires_grad_(False)


def beside(*layers):
    return nn.Sequential(*layers, nn.Linear(3, 2))


TAKEN = {
    "linear": lambda: beside(),
    "group norm": lambda: beside(nn.GroupNorm(1, 3)),
    "instance norm": lambda: beside(nn.InstanceNorm1d(3, affine=True)),
    "untrained running statistics": lambda: beside(nn.InstanceNorm1d(3, track_running_stats=True)),
    "frozen buffers": lambda: beside(frozen(Buffered())),
    "frozen LSTM": lambda: beside(frozen(nn.LSTM(3, 3))),
    "frozen batch norm in evaluation mode": lambda: beside(KeptNorm(3)),
    "RNN": lambda: beside(nn.RNN(3, 3)),
    "DPLSTM": lambda: beside(DPLSTM(3, 3)),
    "DPGRU": lambda: beside(DPGRU(3, 3)),
    "DPMultiheadAttention": lambda: beside(DPMultiheadAttention(3, 1)),
}
REFUSED = {
    "batch norm": (lambda: beside(nn.BatchNorm1d(3)), "BatchNorm1d makes"),
    "batch norm whose parameters are trained": (lambda: beside(KeptNorm(3).requires_grad_(True)), "KeptNorm makes"),
    "running statistics": (lambda: beside(nn.InstanceNorm2d(3, affine=True, track_running_stats=True)), "running stat"),
    "buffers": (lambda: beside(Buffered()), "Buffered has buffers"),
    "buffers within": (AroundBuffers, "AroundBuffers has buffers"),
    "never in training": (lambda: NeverTrains(3, 2), "training mode"),
}


def opacus_refuses(module):
    return bool(ModuleValidator.validate(module, strict=False) or GradSampleModule.validate(module, strict=False))


@pytest.mark.parametrize("name", TAKEN)
def test_what_opacus_takes_is_taken(name):
    module = TAKEN[name]().train()
    assert not opacus_refuses(module)
    check_trainable(module)


@pytest.mark.parametrize("name", REFUSED)
def test_what_opacus_refuses_is_refused_in_words_of_our_own(name):
    make, said = REFUSED[name]
    module = make().train()
    assert opacus_refuses(module)
    with pytest.raises(InvalidInputError, match=f"cannot be trained with differential privacy: .*{said}"):
        check_trainable(module)


def test_a_frozen_batch_norm_is_refused_though_opacus_lets_it_pass():
    module = beside(frozen(nn.BatchNorm1d(3))).train()
    assert not opacus_refuses(module)
    with pytest.raises(InvalidInputError, match="BatchNorm"):
        check_trainable(module)
    with pytest.raises(InvalidInputError, match="KeptNorm makes"):
        check_trainable(beside(KeptNorm(3, track_running_stats=False)).train())


@pytest.mark.long
def test_a_frozen_batch_norm_is_trained_around():
    def module():
        norm = KeptNorm(3)
        norm.running_mean += 2.0
        return beside(norm)

    X = np.random.default_rng(0).normal(size=(200, 3)).astype("f4") + 2
    how = {"classes": [0, 1], "epochs": 5, "expected_batch_size": 50, "random_state": 0}
    clf = DPSGDClassifier(module, budget=Budget(50, 1e-4), **how).fit(X, (X[:, 0] > 2).astype(int))
    assert clf.score(X, X[:, 0] > 2) > 0.9
    assert clf.module_[0].running_mean.tolist() == [2.0] * 3
    assert clf.module_[0].num_batches_tracked == 0


def test_what_opacus_has_no_hooks_for_is_left_to_the_trial():
    for layer in (nn.LSTM(3, 3), nn.MultiheadAttention(3, 1), nn.TransformerEncoderLayer(3, 1, 4)):
        module = beside(layer).train()
        assert opacus_refuses(module)
        check_trainable(module)  # and test_dpsgd_modules.py compares their gradients with those of records alone
