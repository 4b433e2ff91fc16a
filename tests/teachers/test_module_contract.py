"""One contract for torch modules: what teachers take, DP-SGD takes, and what one refuses the other refuses alike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from pate import Budget, DPSGDClassifier
from pate.exceptions import InvalidInputError
from pate.networks import MLP, SmallCNN, make_module
from pate.teachers.torch import TorchTeacherEnsemble

K = 3


class Named(nn.Module):
    def __init__(self, n_features, n_classes, width=4):
        super().__init__()
        self.one, self.two = nn.Linear(n_features, width), nn.Linear(width, n_classes)

    def forward(self, x):
        return self.two(self.one(x.flatten(1)).tanh())


class PassingOn(Named):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)


class Unnamed(nn.Module):
    """Knows its sizes by itself."""

    def __init__(self, outputs=K):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.Tanh(), nn.Linear(4, outputs))

    def forward(self, x):
        return self.layers(x)


class Mapped(Named):
    def forward(self, x):
        return {"loss": None, "logits": super().forward(x)}


@dataclass
class Output:
    logits: torch.Tensor
    hidden: object = None


class Carried(Named):
    def forward(self, x):
        return Output(super().forward(x))


class Simple(Named):
    def forward(self, x):
        return SimpleNamespace(logits=super().forward(x))


def function(n_features, n_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(n_features, n_classes))


GOOD = {
    "named": (Named, None),
    "with an argument": (Named, {"width": 5}),
    "only features": (lambda n_features: nn.Sequential(nn.Flatten(), nn.Linear(n_features, K)), None),
    "passing on": (PassingOn, None),
    "unnamed": (Unnamed, None),
    "unnamed, sizes in kwargs": (Unnamed, {"outputs": K}),
    "function": (function, None),
    "partial": (partial(Named, width=3), None),
    "ready": (MLP, {"hidden": (4,)}),
    "image": (SmallCNN, None),
    "mapping": (Mapped, None),
    "object": (Carried, None),
    "namespace": (Simple, None),
}


class Returning(Named):
    what = staticmethod(lambda logits: logits)

    def forward(self, x):
        return self.what(super().forward(x))


def returning(what):
    return type("Returning", (Returning,), {"what": staticmethod(what)})


def plain():
    return nn.Sequential(nn.Linear(64, 5), nn.Tanh(), nn.Linear(5, K))


SHARED = Named(64, K)
WORDS = "a tensor, a mapping with an entry 'logits' or an object with an attribute logits"
BAD = {
    "tuple": (returning(lambda y: (y, None)), None, f"{WORDS}. It returned a tuple"),
    "mapping without": (returning(lambda y: {"scores": y}), None, "It returned a dict with the entries 'scores'"),
    "none": (returning(lambda y: None), None, "It returned a NoneType"),
    "object without": (returning(lambda y: Output(None)), None, "It returned a Output"),
    "too many logits": (Unnamed, {"outputs": K + 1}, r"logits.*4\)"),
    "one number": (returning(lambda y: y[:, 0]), None, "logits"),
    "logits of images": (returning(lambda y: {"logits": y[:, :, None]}), None, "logits"),
    "missing argument": (lambda wings: None, None, "module could not be made with"),
    "unknown argument": (Named, {"wings": 2}, "module could not be made with.*wings"),
    "an instance": (Named(64, K), None, "class|instance"),
    "no module": (lambda n_features: "net", None, "it made a str"),
    "the same every time": (lambda: SHARED, None, "parameters of its own at every call"),
    "lazy": (lambda n_classes: nn.Sequential(nn.Flatten(), nn.LazyLinear(n_classes)), None, "lazy layers"),
    "compiled": (lambda: torch.jit.script(plain()), None, "ScriptModule.*Pass the nn.Module that was compiled"),
    "traced within": (lambda: nn.Sequential(torch.jit.trace(plain(), torch.zeros(1, 64))), None, "ScriptModule"),
    "on several devices": (lambda: nn.DataParallel(plain()), None, r"DataParallel, .*inside it, \.module"),
    "nothing to train": (lambda: nn.Sequential(nn.Flatten(), nn.Identity()), None, "logits|no parameters"),
    "raises": (returning(lambda y: 1 / 0), None, "ZeroDivisionError"),
}


def teachers(module, kwargs):
    return TorchTeacherEnsemble(
        module, 3, module_kwargs=kwargs, classes=range(K), epochs=1, device="cpu", random_state=0
    )


def dpsgd(module, kwargs):
    return DPSGDClassifier(
        partial(make_module(module), **kwargs) if kwargs else module,
        budget=Budget(3.0, 1e-4),
        classes=range(K),
        expected_batch_size=10,
        epochs=1,
        random_state=0,
    )


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.random((30, 1, 8, 8)).astype(np.float32)
    return X, np.arange(30) % K


@pytest.mark.few(1)
@pytest.mark.parametrize("shape", [(64,), (1, 8, 8)])
@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("learner", [teachers, dpsgd])
def test_both_take_it(learner, name, shape, rows):
    X, y = rows[0].reshape(-1, *shape), rows[1]
    fitted = learner(*GOOD[name]).fit(X, y)
    assert fitted.n_features_in_ == 64
    if learner is teachers:
        assert fitted.vote(X[:4]).n_queries == 4
        assert fitted.module_of(0)(torch.from_numpy(X[:2])).shape == (2, K)
    else:
        assert fitted.predict_proba(X[:4]).shape == (4, K)
        assert fitted.module_(torch.from_numpy(X[:2])).shape == (2, K)
    other = rows[0].reshape(-1, *((1, 8, 8) if shape == (64,) else (64,)))
    with pytest.raises(InvalidInputError, match="rows of shape"):
        fitted.vote(other) if learner is teachers else fitted.predict(other)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("learner", [teachers, dpsgd])
def test_both_refuse_it_in_the_same_words(learner, name, rows):
    module, kwargs, words = BAD[name]
    with pytest.raises(InvalidInputError, match=words):
        learner(module, kwargs).fit(rows[0].reshape(-1, 64), rows[1])


def test_weights_of_another_type_are_named_as_the_reason(rows):
    for module in (lambda: plain().double(), lambda: plain().bfloat16()):
        with pytest.raises(
            InvalidInputError, match=r"weights of torch\.(float64|bfloat16), and rows come as .*float32"
        ):
            dpsgd(module, None).fit(rows[0].reshape(-1, 64), rows[1])
    teachers(lambda: plain().double(), None).fit(rows[0].reshape(-1, 64), rows[1])  # they are made of one type


@pytest.mark.long
def test_dpsgd_takes_the_names_of_both(rows):
    X, y = rows
    for name in ("linear", "mlp", "tanh-mlp", "tanh-cnn", "small-cnn"):
        assert dpsgd(name, None).fit(X, y).predict(X[:2]).shape == (2,)
    with pytest.raises(InvalidInputError, match="'small-resnet'"):
        dpsgd("oracle", None).fit(X, y)
    with pytest.raises(InvalidInputError, match="GroupNorm"):
        dpsgd("small-resnet", None).fit(X, y)
    assert dpsgd("small-resnet", {"norm": "group", "widths": (4, 4)}).fit(X, y).n_features_in_ == 64
