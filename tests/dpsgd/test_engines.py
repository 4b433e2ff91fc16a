"""Engines of DP-SGD: what each promises, and that one that breaks it trains nothing; what they share with teachers."""

from __future__ import annotations

import ast
import copy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from dpsgd_steps import by_value
from torch import nn

import pate.dpsgd.engines
from pate import Budget, DPSGDClassifier, Ledger
from pate.dpsgd._run import build_engine, try_there
from pate.dpsgd._units import Units
from pate.dpsgd.engines import BookKeepingEngine, Engine, PerRecordEngine
from pate.dpsgd.engines._engine import clipped
from pate.exceptions import InvalidInputError, PrivacyLeakWarning
from pate.networks import MLP, Linear, make_module, named_modules
from pate.teachers import make_teacher

F, K, C = 6, 3, 0.01


class Smooth(MLP):
    def __init__(self, **kwargs):
        super().__init__(hidden=(7,), activation="tanh", **kwargs)


class Dropping(Smooth):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.layers.insert(3, nn.Dropout(0.5))


class Tied(nn.Module):
    def __init__(self, *, n_features, n_classes):
        super().__init__()
        self.one, self.two = nn.Linear(n_features, n_features), nn.Linear(n_features, n_features)
        self.two.weight, self.head = self.one.weight, nn.Linear(n_features, n_classes)

    def forward(self, x):
        return self.head(self.two(self.one(x).tanh()))


class Images(nn.Module):
    """Convolutions of one and two dimensions, norms, pooling and a sum of two ways."""

    def __init__(self, *, n_features, n_classes):
        super().__init__()
        self.rows = nn.Sequential(nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 2, padding=1), nn.GroupNorm(2, 4))
        self.again = nn.Conv2d(4, 4, (3, 1), stride=1, padding=(1, 0), dilation=1, bias=False)
        self.flat = nn.Sequential(nn.AdaptiveAvgPool2d((1, 4)), nn.Flatten(2), nn.Conv1d(4, 3, 2, stride=2, padding=1))
        self.head = nn.Sequential(nn.Flatten(), nn.LayerNorm(9), nn.Linear(9, n_classes))

    def forward(self, x):
        z = torch.tanh(self.rows(x))
        return self.head(self.flat(torch.relu(self.again(z) + z)))


class Sequences(nn.Module):
    """A linear layer and a norm on every place of a sequence."""

    def __init__(self, *, n_features, n_classes):
        super().__init__()
        self.places = nn.Sequential(
            nn.Unflatten(1, (n_features // 2, 2)), nn.Linear(2, 5), nn.LayerNorm((5,)), nn.Tanh()
        )
        self.head = nn.Linear(5 * (n_features // 2), n_classes)

    def forward(self, x):
        return self.head(self.places(x).flatten(1))


#: A new engine stands here, and everything below is asked of it.
ENGINES = [PerRecordEngine, BookKeepingEngine]
MODULES = [Linear, Smooth, Dropping, Tied, Images, Sequences]
#: With random numbers of its own, and with a weight in two places.
NOT_IN_THE_BOOKS = (Dropping, Tied)


def flat(engine: Engine, X, y, **options):
    return torch.cat([part.flatten() for part in engine.clipped_sum(X, y, C, seed=3, **options)])


@pytest.fixture(params=ENGINES)
def engine_class(request):
    if request.param is BookKeepingEngine and request.node.callspec.params.get("module") in NOT_IN_THE_BOOKS:
        pytest.skip("left to the engine that takes anything")
    return request.param


@pytest.mark.few(1)
@pytest.mark.parametrize("module", MODULES)
def test_an_engine_keeps_its_promise(engine_class, module):
    torch.manual_seed(0)
    engine = build_engine(module, F, K, engine=engine_class)
    before = copy.deepcopy(engine.module.state_dict())
    X, y = torch.randn(9, F), torch.arange(9) % K
    wild = [torch.full((F,), v) for v in (3e38, -3e38, 1e-40, 0.0)] + [torch.tensor([np.inf, np.nan, 0, 1, 2, 3])]
    for j, row in enumerate(wild):
        other, label = X.clone(), y.clone()
        other[j], label[j] = row, (y[j] + 1) % K
        assert float(flat(engine, other[j : j + 1], label[j : j + 1]).norm()) <= C * (1 + 1e-9)
        moved = flat(engine, other, label) - flat(engine, X, y)
        assert torch.isfinite(moved).all()
        assert float(moved.norm()) <= 2 * C * (1 + 1e-6)
        rest = torch.arange(9) != j
        without = flat(engine, X[rest], y[rest], shared=True)
        assert float((flat(engine, X, y, shared=True) - without).norm()) <= C * (1 + 1e-3)
    assert float(moved.norm()) > 0.1 * C  # the last of them is in there
    assert all(torch.equal(a, before[name]) for name, a in engine.module.state_dict().items())
    # One float64 sum per trainable parameter, of its shape.
    found = engine.clipped_sum(X, y, C, seed=3)
    assert [(g.shape, g.dtype) for g in found] == [(p.shape, torch.float64) for p in engine.module.parameters()]


@pytest.mark.few(1)
@pytest.mark.parametrize("module", MODULES)
def test_an_engine_sums_what_autograd_finds_for_each_record_alone(engine_class, module):
    torch.manual_seed(0)
    engine = build_engine(module, F, K, engine=engine_class)
    X, y = torch.randn(5, F), torch.arange(5) % K
    if module is Dropping:
        engine.module.layers[3].p = 0.0  # its draws are the engine's own affair
    total = 0.0
    for x, label in zip(X, y, strict=True):
        loss = nn.functional.cross_entropy(engine.module(x[None]), label[None])
        g = torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(engine.module.parameters()))]).double()
        total = total + g * min(1.0, C / float(g.norm()))
    torch.testing.assert_close(flat(engine, X, y), total, rtol=1e-3, atol=1e-3 * C)


class Unclipped(PerRecordEngine):
    def clipped_sum(self, X, y, clip, **options):
        return clipped(self.gradients(X, y, **options), 1e9)


class ByLayer(PerRecordEngine):
    """Clips every layer by itself: each within the norm, together beyond it."""

    def clipped_sum(self, X, y, clip, **options):
        return [clipped([g], clip)[0] for g in self.gradients(X, y, **options)]


class Mixing(PerRecordEngine):
    """Clips what it took for gradients of records, after a sum over the batch: one record turns all of them."""

    def clipped_sum(self, X, y, clip, **options):
        return clipped([g.cumsum(0) for g in self.gradients(X, y, **options)], clip)


class Remembering(PerRecordEngine):
    def clipped_sum(self, X, y, clip, **options):
        with torch.no_grad():
            next(self.module.parameters()).add_(1e-9 + 1e-6 * X.sum())
        return super().clipped_sum(X, y, clip, **options)


class NotANumber(PerRecordEngine):
    def clipped_sum(self, X, y, clip, **options):
        found = super().clipped_sum(X, y, clip, **options)
        return [torch.full_like(g, torch.nan) for g in found]


class Spread(PerRecordEngine):
    """One number for each parameter, within the norm until it is added to every weight."""

    def clipped_sum(self, X, y, clip, **options):
        found = super().clipped_sum(X, y, clip, **options)
        return [g.norm().reshape(1) / len(found) for g in found]


class Coarse(PerRecordEngine):
    def clipped_sum(self, X, y, clip, **options):
        return [g.bfloat16() for g in super().clipped_sum(X, y, clip, **options)]


class SmallNormsOnly(PerRecordEngine):
    def clipped_sum(self, X, y, clip, **options):
        return super().clipped_sum(X, y, clip if clip.max_norm < 0.5 else 1e9, **options)


class SharedUnclipped(PerRecordEngine):
    def clipped_sum(self, X, y, clip, **options):
        return super().clipped_sum(X, y, 1e9 if options["shared"] else clip, **options)


class Signed(PerRecordEngine):
    """With a record less, all others count negatively: twice the norm of each."""

    def clipped_sum(self, X, y, clip, **options):
        found = super().clipped_sum(X, y, clip, **options)
        return [g * (-1) ** len(X) for g in found]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "broken",
    [
        *(Unclipped, ByLayer, Mixing, Remembering, NotANumber, Spread, Coarse, SmallNormsOnly, SharedUnclipped),
        Signed,
    ],
)
def test_an_engine_that_breaks_its_promise_trains_nothing(broken):
    with pytest.raises(InvalidInputError, match=f"by {broken.__name__}: on made-up rows"):
        build_engine(Smooth, F, K, engine=broken)


def test_engines_draw_no_noise_and_know_no_budget():
    """What is sampled, noised and accounted stands outside of them, once."""
    folder = Path(pate.dpsgd.engines.__file__).parent
    imported = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                imported.add(node.module)
            elif isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
    assert "pate.networks" in imported  # the reader sees something
    rooms = (
        "pate.privacy.noise",
        "pate.privacy",
        "pate.ledger",
        "pate.dpsgd._run",
        "pate.dpsgd._calibration",
        "opacus",
    )
    assert [name for name in imported if name.startswith(rooms)] == []


# ---------------------------------------------------------------- shared with torch teachers


def make(module="linear", **kwargs):
    settings = {"budget": Budget(3.0, 1e-5), "classes": range(K), "epochs": 1, "expected_batch_size": 8}
    return DPSGDClassifier(**by_value(module=module, **{**settings, "random_state": 0, "noise_seed": 0, **kwargs}))


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).random((24, 64)).astype("f4"), np.arange(24) % K


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(set(named_modules()) - {"papernot-cnn", "papernot-deep-cnn"}))
def test_one_name_is_one_network_for_teachers_and_for_dpsgd(name, rows):
    teachers = make_teacher(f"torch-{name}").set_params(n_teachers=2, classes=range(K), epochs=1, device="cpu")
    options = dict(teachers.module_kwargs or {})
    trained = teachers.fit(*rows).module_of(0)
    ours = make(name, module_kwargs=options).fit(*rows).module_
    assert repr(ours) == repr(trained)
    assert [*ours.state_dict()] == [*trained.state_dict()]


def test_the_two_perceptrons_are_one_class():
    plain, tanh = make_module("mlp")(n_features=4, n_classes=2), make_module("tanh-mlp")(n_features=4, n_classes=2)
    assert type(plain) is type(tanh) is MLP
    kinds = [[type(part).__name__ for part in network.layers] for network in (plain, tanh)]
    assert kinds == [["Flatten", *["Linear", "ReLU"] * 2, "Linear"], ["Flatten", "Linear", "Tanh", "Linear"]]
    with pytest.raises(InvalidInputError, match=r"activation must be one of 'relu', 'tanh', got 'gelu'"):
        MLP(n_features=4, n_classes=2, activation="gelu")


@pytest.mark.long
def test_what_a_module_draws_from_numpy_at_its_start_is_repeatable_too(rows):
    class Drawn(Linear):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            start = np.random.normal(size=tuple(self.linear.weight.shape))  # noqa: NPY002 - what a user may do
            self.linear.weight.data = torch.from_numpy(start.astype("f4"))

    one, two = (make(Drawn).fit(*rows).module_.linear.weight for _ in range(2))
    assert torch.equal(one, two)


@pytest.mark.parametrize("where", ["meta", "cpu"])
def test_a_device_that_cannot_run_a_module_is_found_on_made_up_rows(where):
    """Where there is no GPU: rows of shapes alone, and a module whose weights are elsewhere."""
    units = Units(np.ones((9, F), np.float32), np.zeros(9, np.int64), np.arange(9) // 3, 2, torch.device("cpu"))
    engine = PerRecordEngine(torch.nn.Linear(F, 3))
    if where == "cpu":
        try_there(engine, units)
        return
    units.X = units.X.to(where)
    with pytest.raises(InvalidInputError, match=r"device='meta' cannot run the module: .* raised"):
        try_there(engine, units)


@pytest.mark.long
def test_a_device_without_float64_is_refused_before_anything_is_charged(rows, monkeypatch, tmp_path):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    ledger = Ledger(tmp_path / "ledger.sqlite", currency="renyi", total=Budget(3.0, 1e-5))
    with pytest.raises(InvalidInputError, match="device='mps' has no float64"):
        make(device="mps", ledger=ledger, noise_seed=None).fit(*rows)
    assert not ledger.releases()
    assert make(device="auto").fit(*rows).n_steps_ == 3


# ---------------------------------------------------------------- what a fit leaves behind


@pytest.mark.long
def test_columns_are_those_of_the_last_fit_that_went_well(rows, monkeypatch):
    X, y = rows
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(64)])
    clf = make().fit(frame, y)
    assert clf.feature_names_in_[3] == "c3"
    monkeypatch.setattr(PerRecordEngine, "clipped_sum", lambda *_, **__: 1 / 0)
    monkeypatch.setattr(BookKeepingEngine, "clipped_sum", lambda *_, **__: 1 / 0)
    monkeypatch.setattr("pate.dpsgd._run.check_promise", lambda *_: None)
    with pytest.raises(InvalidInputError, match="training failed"):
        clf.fit(X[:, :9], y)
    assert (clf.n_features_in_, len(clf.feature_names_in_)) == (64, 64)
    monkeypatch.undo()
    assert clf.fit(X[:, :9], y).n_features_in_ == 9
    assert not hasattr(clf, "feature_names_in_")


@pytest.mark.long
def test_a_warning_points_at_the_caller_of_fit(rows):
    with pytest.warns(PrivacyLeakWarning) as seen:
        make(classes=None).fit(*rows)
    assert {w.filename for w in seen if issubclass(w.category, PrivacyLeakWarning)} == {__file__}
