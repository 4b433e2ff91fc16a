"""DP-SGD and modules that would mix records: refused on made-up rows, and harmless by construction if they were not."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import torch
from dpsgd_steps import train
from opacus import GradSampleModule
from opacus.layers import DPLSTM, DPRNN, DPMultiheadAttention
from opacus.optimizers import DPOptimizer
from torch import nn

from pate import Budget, DPSGDClassifier
from pate.dpsgd import Device, Optimizer, SampledGaussian
from pate.dpsgd._run import build_engine
from pate.dpsgd.engines import PerRecordEngine
from pate.dpsgd.engines._engine import clipped
from pate.dpsgd.mechanisms import PoissonSGD
from pate.exceptions import InvalidInputError, PerformanceWarning
from pate.networks import MLP, Linear, RowByRow, TanhCNN, brings_rules

F, K = 6, 3


class TanhMLP(MLP):
    def __init__(self, **kwargs):
        super().__init__(hidden=(64,), activation="tanh", **kwargs)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def mixing(change, *, training_only=False):
    """A linear module that does something to its batch first."""

    class Mixing(nn.Module):
        def __init__(self, *, n_features, n_classes):
            super().__init__()
            self.linear = nn.Linear(n_features, n_classes)

        def forward(self, x):
            return self.linear(x if training_only and not self.training else change(x))

    return Mixing


class BatchAsTime(nn.Module):
    """Takes the batch for a sequence, as a recurrent layer that is not ``batch_first`` does."""

    def __init__(self, *, n_features, n_classes):
        super().__init__()
        self.rnn, self.head = DPRNN(n_features, 5, batch_first=False), nn.Linear(5, n_classes)

    def forward(self, x):
        return self.head(self.rnn(x[:, None])[0][:, 0])


class Attending(nn.Module):
    def __init__(self, *, n_features, n_classes):
        super().__init__()
        self.attention, self.head = DPMultiheadAttention(n_features, 1), nn.Linear(n_features, n_classes)

    def forward(self, x):
        return self.head(self.attention(x[:, None], x[:, None], x[:, None])[0][:, 0])


class KeepsItsState(nn.Module):
    """Begins a sequence where the last one ended."""

    def __init__(self, *, n_features, n_classes):
        super().__init__()
        self.rnn, self.head, self.state = nn.LSTM(n_features, 5, batch_first=True), nn.Linear(5, n_classes), None

    def forward(self, x):
        fits = self.state is not None and self.state[0].shape[1] == len(x)
        found, state = self.rnn(x[:, None], self.state if fits else None)
        self.state = tuple(part.detach() for part in state)
        return self.head(found[:, 0])


class LSTMOverTheBatch(nn.Module):
    def __init__(self, *, n_features, n_classes):
        super().__init__()
        self.rnn, self.head = nn.LSTM(n_features, 5), nn.Linear(5, n_classes)

    def forward(self, x):
        return self.head(self.rnn(x[:, None])[0][:, 0])


class Remembering(Linear):
    """Adds what it saw in its last call."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        nn.init.normal_(self.linear.weight)
        self.last = None

    def forward(self, x):
        logits = super().forward(x)
        seen, self.last = self.last, logits.detach().sum(0)
        return logits if seen is None else logits + seen


class RunningMean(Linear):
    """Keeps a mean of what it saw in a buffer."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        nn.init.normal_(self.linear.weight)
        self.register_buffer("mean", torch.zeros(F))

    def forward(self, x):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return super().forward(x - self.mean)


def mixup(x):
    return 0.7 * x + 0.3 * x[torch.randperm(len(x))]


MIXING = {
    "cumsum": mixing(lambda x: x.cumsum(0)),
    "previous row": mixing(lambda x: torch.cat([x[:1], x[1:] + x[:-1]])),
    "roll": mixing(lambda x: x + x.roll(1, 0)),
    "batch mean": mixing(lambda x: x - x.mean(0)),
    "batch mean, training only": mixing(lambda x: x - x.mean(0), training_only=True),
    "batch norm by hand": mixing(lambda x: (x - x.mean(0)) / (x.std(0, unbiased=False) + 1e-5)),
    "batch maximum": mixing(lambda x: x / (1e-3 + x.abs().max())),
    "sorted": mixing(lambda x: x.sort(0).values),
    "reversed": mixing(lambda x: x.flip(0)),
    "first row": mixing(lambda x: x - x[0]),
    "last row, for the first alone": mixing(lambda x: torch.cat([x[:1] + x[-1:], x[1:]])),
    "even batches": mixing(lambda x: x + x.sum(0) if len(x) % 2 == 0 else x),
    "batches of four and more": mixing(lambda x: x.cumsum(0) if len(x) > 3 else x),
    "large values": mixing(lambda x: x + x.mean(0) * (x.abs().max() > 20)),
    "values in a range": mixing(lambda x: x + torch.where((x > 0.4) & (x < 0.6), x, 0.0).sum()),
    "duplicates": mixing(lambda x: x * (torch.cdist(x, x) == 0).sum(1, keepdim=True)),
    "mixup": mixing(mixup, training_only=True),
    "softmax over the batch": mixing(lambda x: x.softmax(0)),
    "attention over the batch": mixing(lambda x: (x @ x.T).softmax(1) @ x),
    "attention layer over the batch": Attending,
    "batch as time": BatchAsTime,
    "LSTM over the batch": LSTMOverTheBatch,
    "LSTM that keeps its state": KeepsItsState,
    "attribute": Remembering,
    "buffer": RunningMean,
}


@pytest.mark.parametrize("name", MIXING)
def test_modules_that_mix_records_are_refused(name):
    with pytest.raises(InvalidInputError, match=r"mixes the records|from one call to the next"):
        build_engine(MIXING[name], F, K, None)


def step(module, X, y, *, sigma=1e-9, clip=1.0, physical=64):
    """Return the sum of clipped gradients, as one step without noise to speak of releases it."""
    before = torch.cat([p.detach().flatten().clone() for p in module.parameters() if p.requires_grad])
    trained = train(PerRecordEngine(module), X, y, sigma=sigma, clip=clip, max_physical_batch_size=physical)
    return before - torch.cat([p.detach().flatten() for p in trained.parameters() if p.requires_grad])


@pytest.mark.few(7)
@pytest.mark.parametrize("name", MIXING)
@pytest.mark.parametrize("physical", [64, 5])
def test_a_replaced_record_moves_the_sum_by_twice_the_norm_whatever_the_module_does(name, physical):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, F)), rng.integers(0, K, 80)
    other, label = X.copy(), y.copy()
    other[0], label[0] = -30 * X[0] + 5, (y[0] + 1) % K
    moved = []
    for rows, labels in ((X, y), (other, label)):
        torch.manual_seed(0)
        moved.append(step(MIXING[name](n_features=F, n_classes=K), rows, labels, physical=physical))
    assert (moved[0] - moved[1]).norm() <= 2 + 1e-4
    assert (moved[0] - moved[1]).norm() > 0.1  # it is in there


class Dropping(TanhMLP):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.layers.insert(3, nn.Dropout(0.5))


class Sequence(nn.Module):
    def __init__(self, *, n_features, n_classes):
        super().__init__()
        self.rnn, self.head = DPLSTM(2, 4, batch_first=True), nn.Linear(4, n_classes)

    def forward(self, x):
        return self.head(self.rnn(x.unflatten(1, (-1, 2)))[0][:, -1])


class OwnAttention(nn.Module):
    def __init__(self, *, n_features, n_classes):
        super().__init__()
        self.attention, self.head = DPMultiheadAttention(2, 1, batch_first=True), nn.Linear(2, n_classes)

    def forward(self, x):
        x = x.unflatten(1, (-1, 2))
        return self.head(self.attention(x, x, x)[0].mean(1))


class Tied(nn.Module):
    def __init__(self, *, n_features, n_classes):
        super().__init__()
        self.one, self.two = nn.Linear(n_features, n_features), nn.Linear(n_features, n_features)
        self.two.weight, self.head = self.one.weight, nn.Linear(n_features, n_classes)

    def forward(self, x):
        return self.head(self.two(self.one(x).tanh()))


class Frozen(Linear):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        nn.init.normal_(self.linear.weight)
        self.front = nn.Linear(F, F).requires_grad_(False)
        self.register_buffer("scale", torch.full((F,), 2.0))

    def forward(self, x):
        return super().forward(self.front(x) * self.scale)


class OverTime(nn.Module):
    """Some layer of torch's over a sequence of pairs, then a linear one on its last place."""

    def __init__(self, layer, *, n_features, n_classes, width=4):
        super().__init__()
        self.layer, self.head = layer, nn.Linear(width, n_classes)

    def forward(self, x):
        x = x.unflatten(1, (-1, 2))
        found = self.layer(x, x, x) if isinstance(self.layer, nn.MultiheadAttention) else self.layer(x)
        return self.head((found[0] if isinstance(found, tuple) else found)[:, -1])


def over_time(kind, *sizes, width=4, **options):
    def make(*, n_features, n_classes):
        return OverTime(
            kind(*sizes, batch_first=True, **options), n_features=n_features, n_classes=n_classes, width=width
        )

    return make


#: Torch's own, which Opacus has no hooks for.
OVER_TIME = {
    "LSTM both ways": over_time(nn.LSTM, 2, 2, bidirectional=True),
    "GRU of two layers, with dropout": over_time(nn.GRU, 2, 4, num_layers=2, dropout=0.5),
    "RNN": over_time(nn.RNN, 2, 4),
    "MultiheadAttention": over_time(nn.MultiheadAttention, 2, 1, dropout=0.3, width=2),
    "TransformerEncoderLayer": over_time(nn.TransformerEncoderLayer, 2, 1, 3, width=2),
}
GOOD = {
    **OVER_TIME,
    "linear": Linear,
    "mlp": TanhMLP,
    "dropout": Dropping,
    "sequence": Sequence,
    "attention": OwnAttention,
    "tied": Tied,
    "frozen": Frozen,
    "group norm": lambda *, n_features, n_classes: nn.Sequential(
        nn.Linear(n_features, 8), nn.GroupNorm(2, 8), nn.ReLU(), nn.Linear(8, n_classes)
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", GOOD)
def test_gradients_side_by_side_are_those_of_records_alone(name):
    torch.manual_seed(0)
    found = build_engine(GOOD[name], F, K, None, engine=PerRecordEngine)
    assert found.vectorised
    alone = PerRecordEngine(found.module, vectorised=False)
    X, y = torch.randn(9, F), torch.arange(9) % K
    both = [g.gradients(X, y, seed=3, shared=True) for g in (found, alone)]
    assert [g.shape for g in both[0]] == [(9, *p.shape) for p in found.module.parameters() if p.requires_grad]
    for a, b in zip(*both, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
    # Not a bit of a record's gradient depends on the others' values, however wild.
    wild = X.clone()
    wild[1:] = torch.tensor([np.inf, np.nan, 3e38, -3e38, 1e-40, 0.0, 7.0, -1.0])[:, None]
    first, again = found.gradients(X, y, seed=3), found.gradients(wild, (y + 1) % K, seed=3)
    label = found.gradients(torch.cat([X[:1], wild[1:]]), torch.cat([y[:1], (y[1:] + 1) % K]), seed=3)
    assert all(torch.equal(a[0], b[0]) for a, b in zip(first, label, strict=True))
    assert any(not torch.equal(a[0], b[0]) for a, b in zip(first, again, strict=True))  # another label of its own


@pytest.mark.long
def test_dropout_is_each_records_own_unless_one_may_be_missing():
    found = build_engine(Dropping, F, K, None)
    X, y = torch.randn(1, F).expand(6, F), torch.zeros(6, dtype=torch.int64)
    own, shared = found.gradients(X, y, seed=0), found.gradients(X, y, seed=0, shared=True)
    assert not torch.equal(own[0][0], own[0][1])
    assert all(torch.equal(g[0], row) for g in shared for row in g)
    # With shared numbers a record's gradient does not depend on how many stand before it, nor on the cut into parts.
    X, y = torch.randn(7, F), torch.arange(7) % K
    whole = step_with(found.module, X, y, shared=True, physical=64)
    parts = step_with(found.module, X, y, shared=True, physical=3)
    torch.testing.assert_close(whole, parts)
    less = step_with(found.module, X[1:], y[1:], shared=True, physical=3)
    assert (whole - less).norm() <= 1 + 1e-4


class Sampled(PoissonSGD):
    """One step on a given sample, without noise."""

    def __init__(self, *sample):
        object.__setattr__(self, "sample", np.array(sample))

    def batches(self, shape, n_units, source):
        yield self.sample

    def noise(self, shape, size, source):
        yield torch.zeros(size, dtype=torch.float64)


@pytest.mark.long
@pytest.mark.parametrize("adjacency", ["replace-one", "zero-out"])
@pytest.mark.parametrize("physical", [None, 7])
def test_a_sampled_record_moves_the_sum_by_its_own_gradient_alone(adjacency, physical):
    """Whether it is in is secret: a known random_state must not give those behind it other dropout then."""
    rng = np.random.default_rng(0)
    X, y = 9 * rng.normal(size=(40, F)).astype(np.float32), np.arange(40) % K

    def weights(sample):
        clf = DPSGDClassifier(
            Dropping,
            budget=Budget(1000.0, 1e-5),
            classes=range(K),
            mechanism=SampledGaussian(Sampled(*sample), adjacency=adjacency, noise_multiplier=1.0, n_steps=1),
            expected_batch_size=8,
            learning_rate=8.0,
            optimizer=Optimizer(momentum=0.0),
            device=Device(max_physical_batch_size=physical),
            random_state=0,
        )
        return torch.cat([p.detach().flatten() for p in clf.fit(X, y).module_.parameters()])

    assert (weights(range(40)) - weights(range(1, 40))).norm() <= 1 + 1e-4


def step_with(module, X, y, *, shared, physical):
    import copy

    module = copy.deepcopy(module)
    before = torch.cat([p.detach().flatten().clone() for p in module.parameters()])
    trained = train(PerRecordEngine(module), X, y, max_physical_batch_size=physical, shared_draws=shared)
    return before - torch.cat([p.detach().flatten() for p in trained.parameters()])


@pytest.mark.few(1)
@pytest.mark.parametrize(("module", "features"), [(Linear, F), (TanhMLP, F), (TanhCNN, 64)])
def test_the_clipped_sum_is_that_of_opacus(module, features):
    torch.manual_seed(0)
    ours = build_engine(module, features, K, None)
    X, y = torch.randn(11, features), torch.arange(11) % K
    found = ours.clipped_sum(X, y, 0.3, seed=0)
    theirs = GradSampleModule(ours.module)
    optimizer = DPOptimizer(
        torch.optim.SGD(ours.module.parameters(), lr=1.0),
        noise_multiplier=0.0,
        max_grad_norm=0.3,
        expected_batch_size=1,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Full backward hook is firing")
        nn.functional.cross_entropy(theirs(X), y).backward()
    optimizer.clip_and_accumulate()
    for a, p in zip(found, ours.module.parameters(), strict=True):
        torch.testing.assert_close(a.float(), p.summed_grad, rtol=1e-3, atol=1e-5)


class Branching(Linear):
    """Looks at the values of its rows."""

    def forward(self, x):
        return super().forward(x * 2 if float(x.abs().max()) > 1 else x)


class BatchedBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad.cumsum(0)


class MixingBackwards(TanhMLP):
    def forward(self, x):
        return BatchedBackward.apply(super().forward(x))


def test_a_backward_pass_that_mixes_records_finds_one():
    torch.manual_seed(0)
    with pytest.warns(PerformanceWarning, match="one after the other"):
        found = build_engine(MixingBackwards, F, K, None)
    plain = PerRecordEngine(TanhMLP(n_features=F, n_classes=K))
    plain.module.load_state_dict(found.module.state_dict())
    X, y = torch.randn(9, F), torch.arange(9) % K
    for a, b in zip(found.gradients(X, y, seed=0), plain.gradients(X, y, seed=0), strict=True):
        torch.testing.assert_close(a, b)


def test_a_module_that_looks_at_one_batch_as_a_whole_is_refused_and_at_one_row_not():
    with pytest.raises(InvalidInputError, match="mixes the records"):
        build_engine(Branching, F, K, None)

    class ByRow(Linear):
        def forward(self, x):
            return super().forward(torch.stack([row * 2 if float(row.max()) > 1 else row for row in x]))

    with pytest.warns(PerformanceWarning, match="one after the other"):
        found = build_engine(ByRow, F, K, None)
    assert not found.vectorised
    X, y = torch.randn(5, F) * 2, torch.arange(5) % K
    whole = found.gradients(X, y, seed=0)
    for i in range(5):
        one = found.gradients(X[i : i + 1], y[i : i + 1], seed=0)
        assert all(torch.equal(a[i], b[0]) for a, b in zip(whole, one, strict=True))


class RunningCentre(Linear):
    """Keeps a mean of what it saw in a frozen parameter, and uses it in evaluation."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        nn.init.normal_(self.linear.weight)
        self.centre = nn.Parameter(torch.zeros(F), requires_grad=False)

    def forward(self, x):
        if self.training:
            self.centre.data.mul_(0.9).add_(0.1 * x.detach().mean(0))
            return super().forward(x)
        return super().forward(x - self.centre)


def test_a_frozen_parameter_that_keeps_rows_is_refused_and_would_keep_none():
    with pytest.raises(InvalidInputError, match="its buffers or parameters change: centre"):
        build_engine(RunningCentre, F, K, None)
    module = RunningCentre(n_features=F, n_classes=K)
    gradients = PerRecordEngine(module, vectorised=False)
    gradients.gradients(torch.full((5, F), 7.0), torch.arange(5) % K, seed=0)
    assert not module.centre.any()


class NextRowsToo(torch.autograd.Function):
    """Does nothing to a row, and by its rule for batches adds to every other row the one before it."""

    @staticmethod
    def forward(x):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad

    @staticmethod
    def vmap(info, in_dims, x):
        x = x.movedim(in_dims[0], 0).clone()
        if len(x) > 2:
            x[1::2] += x[0::2][: len(x[1::2])]
        return x, 0


class OnTheWayBack(NextRowsToo):
    @staticmethod
    def backward(ctx, grad):
        return NextRowsToo.apply(grad)

    @staticmethod
    def vmap(info, in_dims, x):
        return OnTheWayBack.apply(x), in_dims[0]


@pytest.mark.long
@pytest.mark.parametrize("rule", [NextRowsToo, OnTheWayBack])
def test_a_batching_rule_of_the_modules_own_sees_one_record(rule):
    class Ruled(TanhMLP):
        def forward(self, x):
            return rule.apply(super().forward(x))

    with pytest.warns(PerformanceWarning, match="one after the other"):
        gradients = build_engine(Ruled, F, K, None)
    torch.manual_seed(0)
    X, y = torch.randn(9, F), torch.arange(9) % K
    before = clipped(gradients.gradients(X, y, seed=0), 1.0)
    X[0] = 50.0
    after = clipped(gradients.gradients(X, y, seed=0), 1.0)
    assert sum(float((a - b).square().sum()) for a, b in zip(before, after, strict=True)) ** 0.5 <= 2.0


@pytest.mark.parametrize("frozen", [False, True])
def test_a_batching_rule_is_found_before_the_first_layer_and_among_frozen_ones(frozen):
    class First(TanhMLP):
        def forward(self, x):
            return super().forward(NextRowsToo.apply(x))

    module = First(n_features=F, n_classes=K).requires_grad_(not frozen)
    X = torch.randn(9, F)
    assert torch.equal(RowByRow.of(module, X[:1])(X)[1:], RowByRow.of(module, X[:1])(X[1:]))


@pytest.mark.parametrize("way", ["no_grad", "detach"])
def test_a_batching_rule_is_found_where_no_gradient_passes(way):
    class Aside(TanhMLP):
        def forward(self, x):
            with torch.set_grad_enabled(way != "no_grad"):
                beside = NextRowsToo.apply(x.detach())
            return super().forward(x + beside.detach())

    module, X = Aside(n_features=F, n_classes=K), torch.randn(9, F)
    assert brings_rules(copy.deepcopy(module), X[:1])
    assert not brings_rules(TanhMLP(n_features=F, n_classes=K), X[:1])
    assert torch.equal(RowByRow.of(module, X[:1])(X)[1:], RowByRow.of(module, X[:1])(X[1:]))


@torch.library.custom_op("pate_tests::every_second", mutates_args=())
def every_second(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


every_second.register_fake(torch.empty_like)
every_second.register_vmap(lambda info, in_dims, x: (NextRowsToo.vmap(info, in_dims, x)[0], 0))


def test_a_batching_rule_of_an_operator_is_found():
    class Ruled(TanhMLP):
        def forward(self, x):
            return super().forward(every_second(x))

    assert brings_rules(Ruled(n_features=F, n_classes=K), torch.zeros(1, F))


def test_records_whose_gradients_depend_on_others_are_refused_whatever_mixed_them(monkeypatch):
    """Should a batching rule escape the search for one: pairs of rows alone are found by changing one of them."""
    monkeypatch.setattr("pate.dpsgd.engines._engine.brings_rules", lambda module, rows: False)

    class Ruled(TanhMLP):
        def forward(self, x):
            return OnTheWayBack.apply(super().forward(x))

    with pytest.raises(InvalidInputError, match="gradients for a record beside others"):
        build_engine(Ruled, F, K, None)


def test_a_norm_of_many_small_entries_is_not_too_small():
    gradient = torch.full((1, 10_000_000), 1.7e-4)
    gradient[0, 0] = 1.0
    assert float(clipped([gradient], 1.0)[0].double().norm()) <= 1.0


def test_a_sum_of_bfloat16_moves_by_two_at_most():
    ones = torch.ones(259, 1).bfloat16()
    other = ones.clone()
    other[0] = -1.0
    moved = clipped([ones], 1.0)[0].double() - clipped([other], 1.0)[0].double()
    assert float(moved.abs()) <= 2.0


def test_recurrent_layers_keep_off_kernels_that_draw_by_themselves():
    """cuDNN's dropout follows no seed of ours: on a GPU a record's mask could depend on its place in the batch."""
    for module, kept_off in ((nn.LSTM(3, 4, num_layers=2, dropout=0.5), True), (nn.Linear(3, 4), False)):
        before = torch.backends.cudnn.enabled
        with PerRecordEngine(module)._own_kernels(torch.device("cuda")):
            assert torch.backends.cudnn.enabled is (before and not kept_off)
        assert torch.backends.cudnn.enabled is before
