"""Book-keeping: which modules it takes, that no record moves another one's part, and what rounding costs."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import torch
from dpsgd_steps import train
from torch import nn

from pate import Budget, DPSGDClassifier
from pate.dpsgd import Device
from pate.dpsgd._run import build_engine
from pate.dpsgd.engines import BookKeepingEngine, PerRecordEngine, _book_keeping
from pate.dpsgd.engines._engine import loss_gradient, record_loss
from pate.dpsgd.mechanisms import _mechanism
from pate.exceptions import InvalidInputError
from pate.networks import MLP, Linear, TanhCNN, make_module, named_modules, read_program

F, K, C = 6, 3, 0.05


def of(forward, **layers):
    """Return a module of these layers with this forward."""
    kind = type("Made", (nn.Module,), {"forward": forward})
    module = kind()
    for name, layer in layers.items():
        setattr(module, name, layer)
    return module


def hooked():
    module = nn.Sequential(nn.Linear(F, K))
    module[0].register_forward_hook(lambda m, a, z: z.cumsum(0))
    return module


def patched():
    module = nn.Sequential(nn.Linear(F, K))
    module[0].forward = lambda x: x.cumsum(0)[:, :K]
    return module


def called():
    layer = nn.Tanh()
    layer._call_impl = lambda z: z.cumsum(0)
    return layer


class Spy(torch.Tensor):
    """Runs code of its own wherever it is met."""


def spying_buffer():
    layer = nn.Linear(F, F)
    weight = layer.weight.detach().as_subclass(Spy)
    del layer.weight
    layer.register_buffer("weight", weight)
    return layer


def spying_attribute():
    layer = nn.Linear(F, F)
    weight = layer.weight.detach().clone()
    del layer.weight
    layer.__dict__["weight"] = weight
    return layer


class Summing(nn.Linear):
    def forward(self, x):
        return super().forward(x.cumsum(0))


def tied():
    one = nn.Linear(F, F)
    two = nn.Linear(F, F)
    two.weight = one.weight
    return nn.Sequential(one, two, nn.Linear(F, K))


LIN, WIDE = (lambda: nn.Linear(F, K)), (lambda: nn.Linear(F, F))


@pytest.mark.few(33)
@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(LIN(), nn.BatchNorm1d(K)),
        nn.Sequential(nn.Dropout(0.1), LIN()),
        nn.Sequential(nn.Flatten(0), nn.Linear(F, K)),
        nn.Sequential(nn.Unflatten(0, (1, -1)), LIN()),
        nn.Sequential(nn.Softmax(0), LIN()),
        nn.Sequential(nn.InstanceNorm1d(F), LIN()),
        nn.Sequential(nn.Conv2d(2, 2, 1, groups=2), nn.Flatten(), LIN()),
        nn.Sequential(nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"), nn.Flatten(), LIN()),
        nn.Sequential(nn.Embedding(4, 2, max_norm=1.0), nn.Flatten(), LIN()),
        nn.Sequential(nn.Embedding(4, 2, sparse=True), nn.Flatten(), LIN()),
        nn.Sequential(nn.Embedding(4, 2, scale_grad_by_freq=True), nn.Flatten(), LIN()),
        nn.Sequential(nn.EmbeddingBag(4, F), LIN()),
        nn.Sequential(nn.ZeroPad2d((0, 0, 1, -1)), LIN()),
        nn.Sequential(nn.ZeroPad2d((0, 0, 0, 0, 0, 0, 1, -1)), LIN()),
        nn.Sequential(LIN(), nn.ReLU(inplace=True)),
        nn.Sequential(LIN().double()),
        nn.Sequential(LIN().to(torch.bfloat16)),
        nn.Sequential(called()),
        nn.Sequential(spying_buffer(), LIN()),
        nn.Sequential(spying_attribute(), LIN()),
        nn.Sequential(nn.RNN(F, K)),
        nn.Sequential(nn.MaxPool1d(2, return_indices=True), nn.Linear(3, K)),
        Summing(F, K),
        hooked(),
        patched(),
        tied(),
        of(lambda self, x: self.a(x) + self.a(2 * x), a=LIN()),
        of(lambda self, x: self.a(x) + self.a(x), a=LIN()),
        of(lambda self, x: self.a(x.cumsum(0)), a=LIN()),
        of(lambda self, x: self.a(x - x.mean(0)), a=LIN()),
        of(lambda self, x: self.a(x.flip(0)), a=LIN()),
        of(lambda self, x: self.a(x.mean(0, keepdim=True)), a=LIN()),
        of(lambda self, x: self.a(x).mean(), a=LIN()),
        of(lambda self, x: self.a(x).sum(dim=-1), a=LIN()),
        of(lambda self, x: self.a(x).sum(dim=(0, 1)), a=LIN()),
        of(lambda self, x: self.a(x).mean(()), a=LIN()),
        of(lambda self, x: self.a(x).sum(True), a=LIN()),
        of(lambda self, x: self.a(x).sum(1, dtype=torch.float64), a=LIN()),
        of(lambda self, x: self.a(x.transpose(0, 1)), a=LIN()),
        of(lambda self, x: self.a(x.transpose(1, -2)), a=LIN()),
        of(lambda self, x: self.a(x) + 1.0, a=LIN()),
        of(lambda self, x: self.a(x.flatten(0)), a=LIN()),
        of(lambda self, x: self.a(x.reshape(2, -1)), a=LIN()),
        of(lambda self, x: self.a(x.reshape(-1, x.shape[0])), a=LIN()),
        of(lambda self, x: self.a(x.reshape(F, -1).t()), a=LIN()),
        of(lambda self, x: self.a(torch.relu(x)) if x.sum() > 0 else self.a(x), a=LIN()),
        of(lambda self, x: self.a(x), a=LIN(), unused=WIDE()),
        of(lambda self, x: self.a(x) * self.scale, a=LIN(), scale=nn.Parameter(torch.ones(K))),
        of(lambda self, x: (self.a(x), x), a=LIN()),
    ],
    ids=lambda m: type(m).__name__,
)
def test_what_is_not_known_to_keep_records_apart_is_not_taken(module):
    assert read_program(module) is None
    assert not BookKeepingEngine.takes(module)


def test_ready_modules_are_taken_where_they_can_be():
    taken = {}
    for name in named_modules():
        options = {"norm": "group"} if name.startswith("small-resnet") else {}
        taken[name] = BookKeepingEngine.takes(make_module(name)(n_features=784, n_classes=10, **options))
    assert all(taken.values()), taken


def test_the_gradient_of_the_loss():
    torch.manual_seed(0)
    logits, labels = 5 * torch.randn(20, 7, dtype=torch.float64), torch.arange(20) % 7
    leaf = logits.clone().requires_grad_()
    record_loss(leaf, labels).sum().backward()
    torch.testing.assert_close(loss_gradient(logits, labels), leaf.grad)


class Dropping(nn.Sequential):
    def __init__(self, *, n_features, n_classes):
        super().__init__(nn.Dropout(0.1), nn.Linear(n_features, n_classes))


def books(module, **options):
    program = read_program(module)
    assert program is not None
    return BookKeepingEngine(module, program, **options)


def one_by_one(module, X, y, norm):
    """Return every record's clipped gradient, found by itself in float64."""
    exact = copy.deepcopy(module).double()
    found = []
    for x, label in zip(X, y, strict=True):
        loss = nn.functional.cross_entropy(exact(x[None].double()), label[None])
        used = [p for p in exact.parameters() if p.requires_grad]
        g = torch.cat([part.flatten() for part in torch.autograd.grad(loss, used)])
        found.append(g * min(1.0, norm / float(g.norm())))
    return torch.stack(found)


def flat(parts):
    return torch.cat([part.flatten() for part in parts])


@pytest.mark.few(2)
@pytest.mark.parametrize("n", [1, _book_keeping.BLOCK - 1, _book_keeping.BLOCK, 2 * _book_keeping.BLOCK + 37])
@pytest.mark.parametrize("module", [Linear, MLP, TanhCNN])
@pytest.mark.parametrize("shared", [False, True])
def test_equal_to_a_loop_over_records(module, n, shared, monkeypatch):
    monkeypatch.setattr(_book_keeping, "_SMALL", 30)  # block products in one go, and one by one
    torch.manual_seed(0)
    features = 64 if module is TanhCNN else F
    net = module(n_features=features, n_classes=K)
    X, y = torch.randn(n, features), torch.arange(n) % K
    for norm in (C, 1e6):
        exact = one_by_one(net, X, y, norm).sum(dim=0)
        found = flat(books(net).clipped_sum(X, y, norm, seed=0, shared=shared))
        assert float((found - exact).norm()) <= 1e-5 * float(exact.norm())


@pytest.mark.long
@pytest.mark.parametrize(
    ("size", "dilation", "padding", "stride"),
    [((3, 3), (1, 1), (0, 0), (1, 1)), ((5, 2), (1, 2), (2, 1), (2, 3)), ((1, 3), (1, 2), (0, 2), (1, 1))],
)
def test_a_gpus_patches_are_torchs(size, dilation, padding, stride):
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 3, 9, 11)).astype(np.float32))
    for rows in (x, x.to(memory_format=torch.channels_last), x[1:2]):
        expected = nn.functional.unfold(rows, size, dilation, padding, stride)
        assert torch.equal(_book_keeping._copied(rows, size, dilation, padding, stride), expected)


def test_memory_is_bounded_by_passes_that_add_up():
    torch.manual_seed(0)
    engine = books(MLP(n_features=F, n_classes=K))
    X, y = torch.randn(300, F), torch.arange(300) % K
    whole = flat(engine.clipped_sum(X, y, C, seed=0))
    engine.at_once = 17
    torch.testing.assert_close(flat(engine.clipped_sum(X, y, C, seed=0)), whole, rtol=1e-5, atol=1e-6 * C)
    big = BookKeepingEngine.for_module(*trial_of(TanhCNN, 784))
    assert 16 <= big.at_once < 4096


def trial_of(module, features):
    from pate.dpsgd._checks import try_module

    made = module(n_features=features, n_classes=K).train()
    return made, try_module(made, (features,), K)


@pytest.mark.parametrize("module", [Linear, MLP, TanhCNN])
def test_not_a_bit_of_a_records_part_depends_on_the_others(module):
    """Others that leave nothing themselves: whatever they hold, the sum is the one record's vector, to the last bit."""
    torch.manual_seed(0)
    features = 64 if module is TanhCNN else F
    engine = books(module(n_features=features, n_classes=K))
    X, y = torch.randn(40, features), torch.arange(40) % K
    for keep in (0, 13, 39):
        sums = []
        for wild in (np.nan, np.inf, -np.inf):
            rows = torch.full_like(X, wild)
            rows[keep] = X[keep]
            sums.append(flat(engine.clipped_sum(rows, y, C, seed=0)))
            other = torch.where(torch.arange(40) == keep, y, (y + 1) % K)
            sums.append(flat(engine.clipped_sum(rows, other, C, seed=0)))
        assert all(torch.equal(found, sums[0]) for found in sums)
        assert float(sums[0].norm()) > 0.5 * C


def test_rounding_moves_a_sum_by_less_than_the_noise_is_larger():
    """Neighbours that differ in one record: 2 C, and rounding of the others' sum within what ``excess`` pays for."""
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    net = Linear(n_features=50, n_classes=K)
    engine, worst = books(net), 0.0
    for _ in range(30):
        X = torch.from_numpy((rng.normal(size=(256, 50)) * 10.0 ** rng.integers(-3, 4, (256, 1))).astype("f4"))
        y = torch.from_numpy(rng.integers(0, K, 256))
        other, label = X.clone(), y.clone()
        j = int(rng.integers(256))
        other[j], label[j] = -X[j] * 10.0 ** rng.integers(-3, 4), (y[j] + 1) % K
        a, b = (flat(engine.clipped_sum(*given, C, seed=0)) for given in ((X, y), (other, label)))
        exact = one_by_one(net, X[j : j + 1], y[j : j + 1], C) - one_by_one(net, other[j : j + 1], label[j : j + 1], C)
        worst = max(worst, float((a - b - exact[0]).norm()) / C)
        assert float((a - b).norm()) <= (2 + engine.excess) * C
    assert worst < engine.excess


@pytest.mark.long
def test_the_excess_is_paid_in_noise(monkeypatch):
    drawn = []

    def ones(source, size):
        drawn.append(size)
        return torch.ones(size, dtype=torch.float64)

    monkeypatch.setattr(_mechanism, "gaussian", ones)
    moved = []
    for kind in (BookKeepingEngine, PerRecordEngine):
        torch.manual_seed(0)
        engine = build_engine("linear", F, K, engine=kind)
        before = flat(p.detach().clone() for p in engine.module.parameters()).double()
        trained = train(engine, np.zeros((5, F)), np.zeros(5), q=1e-12, sigma=3.0, clip=2.0)
        moved.append(before - flat(p.detach() for p in trained.parameters()).double())
    torch.testing.assert_close(moved[1], torch.full((F * K + K,), 6.0, dtype=torch.float64), rtol=1e-5, atol=0.0)
    ratio = moved[0] / moved[1]
    torch.testing.assert_close(ratio, torch.full_like(ratio, 1 + BookKeepingEngine.excess), rtol=1e-5, atol=0.0)
    assert 1e-4 < BookKeepingEngine.excess < 2e-3
    assert drawn == [F * K + K] * 2


def test_a_forgotten_factor_is_found(monkeypatch):
    """Planted faults: a norm that leaves something out, a gradient that is not the module's."""
    monkeypatch.setattr(_book_keeping.Outer, "squares", lambda self: _book_keeping._squares(self.back) * 0 + 1e-12)
    with pytest.raises(InvalidInputError, match="on made-up rows"):
        build_engine("linear", F, K, engine=BookKeepingEngine)
    monkeypatch.undo()
    real = _book_keeping.Outer.add
    monkeypatch.setattr(_book_keeping.Outer, "add", lambda self, f, *more: real(self, 0.9 * f, *more))
    with pytest.raises(InvalidInputError, match="other gradients"):
        build_engine("linear", F, K, engine=BookKeepingEngine)


class Gated(nn.Module):
    """Quiet on ordinary rows; then ``mixes`` is added."""

    def __init__(self, *, n_features, n_classes):
        super().__init__()
        self.head, self.gate = nn.Linear(n_features, n_classes), nn.Linear(n_features, n_features)
        self.out = nn.Linear(n_features, n_classes)
        with torch.no_grad():
            self.gate.bias.fill_(-1000.0)
        self.relu, self.tanh = nn.ReLU(), nn.Tanh()
        self.spread, self.pool = nn.Unflatten(1, (1, n_features)), nn.AdaptiveMaxPool2d((1, n_features))
        self.flat, self.shift = nn.Flatten(), nn.ZeroPad2d((0, 0, 1, -1))

    def forward(self, x):
        return self.head(x) + self.out(self.mixed(self.relu(self.gate(x))))

    def mixed(self, z):
        return self.tanh(z)


class Broadcast(Gated):
    def mixed(self, z):
        return self.flat(self.pool(z + self.spread(z)))


class Shifted(Gated):
    def mixed(self, z):
        return self.shift(z)


def moved_by_one(engine, n=64):
    """Return by how many norms the sum moves when one of the records that open the gate is replaced."""
    torch.manual_seed(0)
    X, y = 3e3 * torch.randn(n, F), torch.arange(n) % K
    other = X.clone()
    other[3] = 3e6 * torch.randn(F)
    a, b = (flat(engine.clipped_sum(rows, y, 1.0, seed=0)) for rows in (X, other))
    return float((a - b).norm())


@pytest.mark.long
@pytest.mark.parametrize("module", [Gated, Broadcast, Shifted])
def test_mixing_that_no_trial_sees(module):
    """Behind a gate that made-up rows never open: by construction, not by trial."""
    torch.manual_seed(0)
    engine = build_engine(module, F, K)
    assert isinstance(engine, BookKeepingEngine) == (module is Gated)
    assert moved_by_one(engine) <= 2 * (1 + engine.excess)


def test_a_padded_batch_is_seen():
    net = nn.Sequential(nn.ZeroPad2d((0, 0, 1, 0)), nn.Linear(F, K))
    with pytest.raises(InvalidInputError, match="one row for each record"):
        books(net).clipped_sum(torch.randn(4, F), torch.zeros(4, dtype=torch.int64), 1.0, seed=0)


def test_no_hook_and_no_other_layer_meets_a_batch():
    torch.manual_seed(0)
    engine = build_engine(Gated, F, K)
    seen, before = [], moved_by_one(engine)

    def spy(module, given, result=None):
        seen.append(module)
        return None if result is None else result.cumsum(0)

    handles = [
        torch.nn.modules.module.register_module_forward_hook(spy),
        torch.nn.modules.module.register_module_forward_pre_hook(spy),
        engine.module.tanh.register_forward_hook(spy),
        engine.module.tanh.register_forward_pre_hook(spy),
    ]
    try:
        engine.module.relu = nn.Softmax(0)
        engine.module.tanh._call_impl = lambda z: z.cumsum(0)
        assert moved_by_one(engine) == before
        assert not seen
    finally:
        for handle in handles:
            handle.remove()


def test_layers_that_change_their_type_are_not_run():
    class Cumulating(nn.Tanh):
        def forward(self, x):
            return x.cumsum(0)

    engine = build_engine(Gated, F, K)
    engine.module.tanh.__class__ = Cumulating
    with pytest.raises(InvalidInputError, match="stay what it was when the run began, got Cumulating"):
        moved_by_one(engine)


@pytest.mark.few(4)
@pytest.mark.parametrize("norm", [1.0, 1e-2, 1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize("flush", [False, True])
def test_no_record_is_longer_than_the_norm_however_small_or_large_its_numbers(norm, flush):
    """Squares that float32 would lose, factors that it would round up, rows near its end."""
    torch.manual_seed(0)
    confident = nn.Linear(784, 10)
    nn.init.zeros_(confident.weight)
    nn.init.zeros_(confident.bias)
    confident.bias.data[0] = 52.0
    steep = nn.Sequential(nn.Linear(64, 64, bias=False), nn.Linear(64, 4, bias=False))
    for p in steep.parameters():
        nn.init.constant_(p, 1e18)
        p.data[::2] *= -1
    torch.set_flush_denormal(flush)
    try:
        for net, size in ((confident, 784), (steep, 64), (nn.Linear(50, 3), 50)):
            for row in (2.2e18, 1e29, 3e31, 3e38, 1.0, 1e-5, 1e-30, 1e-42):
                found = flat(books(net).clipped_sum(torch.full((1, size), row), torch.tensor([0]), norm, seed=0))
                assert float(found.norm()) <= norm
    finally:
        torch.set_flush_denormal(False)


def test_a_norm_that_float32_cannot_hold_is_refused():
    with pytest.raises(InvalidInputError, match=r"max_grad_norm must be a finite number >= 1e-08 .* got 1e-44"):
        books(nn.Linear(F, K)).clipped_sum(torch.ones(1, F), torch.tensor([0]), 1e-44, seed=0)


def test_a_callers_autocast_rounds_no_sum():
    net = nn.Linear(1, 2)
    nn.init.zeros_(net.weight)
    nn.init.zeros_(net.bias)
    X, y = torch.ones(128, 1), torch.zeros(128, dtype=torch.int64)
    other = X.clone()
    other[0] = -1.0
    label = y.clone()
    label[0] = 1
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a, b = (flat(books(net).clipped_sum(*given, 1.0, seed=0)) for given in ((X, y), (other, label)))
    assert float((a - b).norm()) <= 2 + BookKeepingEngine.excess


def test_a_record_that_is_not_finite_stops_nothing_under_anomaly_detection():
    net = nn.Sequential(nn.Linear(F, 4), nn.Tanh(), nn.Linear(4, K))
    X, y = torch.randn(5, F), torch.arange(5) % K
    X[2] = torch.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.set_detect_anomaly(True):
            found = flat(books(net).clipped_sum(X, y, C, seed=0))
    assert torch.isfinite(found).all()


def test_bfloat16_products_are_not_relied_on(monkeypatch):
    taken = []
    real = _book_keeping.Outer.add
    monkeypatch.setattr(_book_keeping.Outer, "add", lambda self, f, *m: (taken.append(f.dtype), real(self, f, *m)))
    before = torch.get_float32_matmul_precision()
    try:
        for precision in ("highest", "medium"):
            torch.set_float32_matmul_precision(precision)
            books(nn.Linear(F, K)).clipped_sum(torch.ones(3, F), torch.zeros(3, dtype=torch.int64), C, seed=0)
    finally:
        torch.set_float32_matmul_precision(before)
    assert taken == [torch.float32, torch.float64]


@pytest.mark.long
def test_a_module_that_is_refused_here_falls_back(monkeypatch):
    monkeypatch.setattr(_book_keeping, "loss_gradient", lambda logits, y: 2 * loss_gradient(logits, y))
    with pytest.raises(InvalidInputError, match="other gradients"):
        build_engine("linear", F, K, engine=BookKeepingEngine)
    assert isinstance(build_engine("linear", F, K), PerRecordEngine)


@pytest.mark.long
@pytest.mark.parametrize(("module", "word"), [("linear", "a trace of the module"), (Dropping, "alone, by a copy")])
def test_the_statement_says_how_records_were_kept_apart(module, word):
    rng = np.random.default_rng(0)
    X, y = rng.random((24, 784)).astype("f4"), np.arange(24) % K
    clf = DPSGDClassifier(module, budget=Budget(3.0, 1e-3), classes=range(K), epochs=1, expected_batch_size=12)
    statement = clf.fit(X, y).statement_
    assert word in next(a.how for a in statement.assumptions if a.name == "clipping")


@pytest.mark.long
def test_the_default_is_book_keeping_and_both_train_alike():
    rng = np.random.default_rng(0)
    X, y = rng.random((60, 12)).astype("f4"), np.arange(60) % K
    options = {"budget": Budget(5.0, 1e-3), "classes": range(K), "epochs": 3, "expected_batch_size": 20}
    fits = []
    for at_once in (None, 7):
        clf = DPSGDClassifier(
            "tanh-mlp", random_state=0, noise_seed=0, device=Device(max_physical_batch_size=at_once), **options
        )
        fits.append(flat(p.detach() for p in clf.fit(X, y).module_.parameters()))
    torch.testing.assert_close(*fits, rtol=1e-4, atol=1e-5)
    assert isinstance(build_engine("tanh-mlp", 12, K), BookKeepingEngine)
    assert isinstance(build_engine(Dropping, 12, K), PerRecordEngine)
    assert _book_keeping.BLOCK == _book_keeping.BLOCK
