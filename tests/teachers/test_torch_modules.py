"""Ready torch teachers: shapes, the papers' layers by independent arithmetic, errors; augmentations on a generator."""

from __future__ import annotations

import pickle

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

from pate.exceptions import InvalidInputError
from pate.networks import (
    MLP,
    PapernotCNN,
    PapernotDeepCNN,
    SmallCNN,
    SmallResNet,
    make_module,
    named_modules,
    square_image_shape,
)
from pate.teachers.torch.augment import Compose, RandomFlip, RandomShift

SHAPES = {"digits": (1, 8, 8), "mnist": (1, 28, 28), "svhn": (3, 32, 32)}


def size(module):
    return sum(p.numel() for p in module.parameters())


def conv(before, after, kernel):
    return before * after * kernel * kernel + after


def linear(before, after):
    return before * after + after


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


# ---------------------------------------------------------------- modules


@pytest.mark.few(8)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("name", named_modules())
def test_rows_and_images_give_the_same_logits(name, shape):
    torch.manual_seed(0)
    n_features = shape[0] * shape[1] * shape[2]
    network = make_module(name)(n_features=n_features, n_classes=7).eval()
    x = torch.rand(3, *shape)
    with torch.no_grad():
        logits = network(x)
        assert logits.shape == (3, 7)
        assert torch.equal(network(x.flatten(1)), logits)
        torch.testing.assert_close(network(x.contiguous(memory_format=torch.channels_last)), logits)
        # No row sees another, outside training.
        torch.testing.assert_close(network(x[1:2]), logits[1:2])
    network.train()(x).sum().backward()
    assert all(p.grad is not None for p in network.parameters())


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (SmallCNN, {"mnist": 46_730, "svhn": conv(3, 16, 5) + conv(16, 32, 5) + linear(800, 64) + linear(64, 10)}),
        (MLP, {"mnist": linear(784, 128) + linear(128, 64) + linear(64, 10)}),
        (
            PapernotCNN,
            {
                "mnist": conv(1, 64, 5) + conv(64, 128, 5) + linear(6272, 384) + linear(384, 192) + linear(192, 10),
                "svhn": conv(3, 64, 5) + conv(64, 128, 5) + linear(8192, 384) + linear(384, 192) + linear(192, 10),
            },
        ),
        (
            PapernotDeepCNN,
            {
                "svhn": conv(3, 96, 3)
                + 2 * conv(96, 96, 3)
                + conv(96, 192, 3)
                + 2 * conv(192, 192, 3)
                + conv(192, 192, 5)
                + linear(192 * 64, 192)
                + linear(192, 192)
                + linear(192, 10)
            },
        ),
    ],
)
def test_parameters_are_as_many_as_the_layers_say(module, expected):
    for data, n_parameters in expected.items():
        channels, side, _ = SHAPES[data]
        assert size(module(n_features=channels * side * side, n_classes=10)) == n_parameters


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("norm", ["batch", "group", "none"])
def test_the_residual_net_is_small(norm, shape):
    network = SmallResNet(n_features=shape[0] * shape[1] ** 2, n_classes=10, norm=norm)
    assert 100_000 < size(network) < 300_000
    kinds = {type(part) for part in network.modules()}
    assert (nn.BatchNorm2d in kinds, nn.GroupNorm in kinds) == (norm == "batch", norm == "group")
    assert bool(list(network.buffers())) == (norm == "batch")


def test_residual_stages_halve_the_image():
    network = SmallResNet(n_features=784, n_classes=10, widths=(8, 12), n_blocks=2)
    assert network.layers[:-3](torch.zeros(2, 784)).shape == (2, 12, 14, 14)


@pytest.mark.parametrize("module", [SmallCNN, MLP])
def test_the_quick_modules_are_plain_chains(module):
    plain = (nn.Unflatten, nn.Conv2d, nn.MaxPool2d, nn.ReLU, nn.Flatten, nn.Linear)
    network = module(n_features=784, n_classes=10)
    assert [type(child) for child in network.children()] == [nn.Sequential]
    assert all(type(layer) in plain for layer in network.layers)


def tf_same(x, kernel, stride, value):
    """TensorFlow's "SAME": ceil(n / stride) outputs, the odd pixel of padding at the end."""
    side = x.shape[-1]
    total = max((-(-side // stride) - 1) * stride + kernel - side, 0)
    before, after = total // 2, total - total // 2
    return functional.pad(x, (before, after, before, after), value=value)


def tf_lrn(x):
    """tf.nn.lrn(x, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75)."""
    squares = functional.pad(x**2, (0, 0, 0, 0, 4, 4))
    sums = sum(squares[:, i : i + x.shape[1]] for i in range(9))
    return x / (1.0 + 0.001 / 9.0 * sums) ** 0.75


def layers_of(network):
    return [part for part in network.modules() if isinstance(part, nn.Conv2d | nn.Linear)]


@pytest.mark.parametrize("side", [8, 9, 13, 28, 30])
def test_papernot_cnn_is_tensorflows_graph(side):
    torch.manual_seed(1)
    network = PapernotCNN(n_features=side * side, n_classes=10).double()
    first, second, *dense = layers_of(network)
    x = torch.rand(2, 1, side, side, dtype=torch.float64) * 20  # large enough for the normalisation to matter
    h = functional.conv2d(tf_same(x, 5, 1, 0), first.weight, first.bias).relu()
    h = tf_lrn(functional.max_pool2d(tf_same(h, 3, 2, -torch.inf), 3, 2))
    h = tf_lrn(functional.conv2d(tf_same(h, 5, 1, 0), second.weight, second.bias).relu())
    h = functional.max_pool2d(tf_same(h, 3, 2, -torch.inf), 3, 2).flatten(1)
    h = dense[1](dense[0](h).relu()).relu()
    torch.testing.assert_close(network(x), dense[2](h))


@pytest.mark.parametrize("side", [9, 10, 16])
def test_papernot_deep_cnn_is_tensorflows_graph(side):
    torch.manual_seed(1)
    network = PapernotDeepCNN(n_features=3 * side * side, n_classes=10).double()
    *convolutions, one, two, head = layers_of(network)
    h = x = torch.rand(2, 3, side, side, dtype=torch.float64)
    for layer, stride in zip(convolutions, (1, 1, 2, 1, 1, 2, 1), strict=True):
        h = functional.conv2d(tf_same(h, layer.weight.shape[-1], stride, 0), layer.weight, layer.bias, stride).relu()
    torch.testing.assert_close(network(x), head(two(one(h.flatten(1)).relu()).relu()))


@pytest.mark.parametrize(
    ("module", "stds", "biases"),
    [
        (PapernotCNN, [1e-4, 1e-4, 0.04, 0.04, 1 / 192], [0, 0.1, 0.1, 0.1, 0]),
        (PapernotDeepCNN, [0.05] * 6 + [1e-4] + [0.05] * 3, [0] * 6 + [0.1] * 3 + [0]),
    ],
)
def test_papernot_networks_start_where_theirs_did(module, stds, biases):
    torch.manual_seed(0)
    layers = layers_of(module(n_features=192, n_classes=10, init="paper"))
    for layer, std, bias in zip(layers, stds, biases, strict=True):
        assert torch.all(layer.bias == bias)
        assert layer.weight.abs().max() <= 2 * std * (1 + 1e-6)
        # A normal cut at two deviations has a deviation of 0.880 of them; four standard errors.
        n = layer.weight.numel()
        assert abs(layer.weight.std().item() / std - 0.8796) < 4 / n**0.5
    own = layers_of(module(n_features=192, n_classes=10))
    assert own[0].weight.std().item() != pytest.approx(layers[0].weight.std().item(), rel=0.1)


def test_dropout_is_on_in_training_only():
    def places(network):
        return [type(layer) for layer in network.modules()].count(nn.Dropout)

    assert places(PapernotDeepCNN(n_features=192, n_classes=3)) == 0
    network = PapernotDeepCNN(n_features=192, n_classes=3, dropout=0.5)
    assert places(network) == 3
    x = torch.rand(4, 192)
    assert not torch.equal(network(x), network(x))
    network.eval()
    assert torch.equal(network(x), network(x))


def test_square_image_shape():
    assert square_image_shape(4 * 25, channels=4) == (4, 5, 5)
    for wrong, channels in ((785, None), (784, 3), (9, None), (2 * 64, None)):
        with pytest.raises(InvalidInputError, match=r"n_features must be channels \* side \* side.*MLP"):
            square_image_shape(wrong, channels)


@pytest.mark.parametrize("module", [SmallCNN, PapernotCNN, PapernotDeepCNN, SmallResNet])
def test_other_than_square_images_are_refused(module):
    with pytest.raises(InvalidInputError, match="got 100 features and channels=3"):
        module(n_features=100, n_classes=10, channels=3)
    with pytest.raises(InvalidInputError, match="n_classes"):
        module(n_features=784, n_classes=1)


@pytest.mark.parametrize(
    ("module", "wrong", "text"),
    [
        (MLP, {"hidden": (8, 0)}, "hidden"),
        (SmallResNet, {"norm": "layer"}, "norm must be one of"),
        (SmallResNet, {"widths": ()}, "widths must name 1 to 4 stages"),
        (SmallResNet, {"widths": (8,) * 6}, "widths must name 1 to 4 stages"),
        (SmallResNet, {"n_blocks": 0}, "n_blocks"),
        (PapernotCNN, {"init": "zeros"}, "init must be one of"),
        (PapernotDeepCNN, {"dropout": 1.0}, "dropout"),
    ],
)
def test_settings_are_checked(module, wrong, text):
    with pytest.raises(InvalidInputError, match=text):
        module(n_features=784, n_classes=10, **wrong)


def test_any_number_of_stages_that_is_allowed_works():
    network = SmallResNet(n_features=256, n_classes=3, widths=(4,) * 4, norm="group")
    assert network(torch.zeros(1, 256)).shape == (1, 3)
    with pytest.raises(InvalidInputError, match="widths must name 1 to 4"):
        SmallResNet(n_features=256, n_classes=3, widths=(4,) * 5)


def test_modules_by_name():
    assert make_module("small-cnn") is SmallCNN
    assert make_module(SmallResNet) is SmallResNet
    assert set(named_modules()) >= {"small-cnn", "mlp", "papernot-cnn", "papernot-deep-cnn", "small-resnet"}
    with pytest.raises(InvalidInputError, match=r"module must be one of .* got 'torch.nn.Linear'"):
        make_module("torch.nn.Linear")
    with pytest.raises(InvalidInputError, match="pass the class, not an instance"):
        make_module(MLP(n_features=2, n_classes=2))


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "epochs"), [("small-cnn", 5), ("mlp", 5), ("small-resnet", 2), ("papernot-cnn", 4)])
def test_modules_learn_the_digits(name, epochs):
    digits = load_digits()
    X, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
    torch.manual_seed(0)
    order = torch.randperm(len(X))
    train, test = order[:400], order[1200:]
    network = make_module(name)(n_features=64, n_classes=10)
    adam = torch.optim.Adam(network.parameters(), lr=1e-3 if name == "papernot-cnn" else 3e-3)
    for _ in range(epochs):
        for batch in train[torch.randperm(len(train))].split(32):
            adam.zero_grad()
            functional.cross_entropy(network(X[batch]), y[batch]).backward()
            adam.step()
    network.eval()
    with torch.no_grad():
        accuracy = (network(X[test]).argmax(1) == y[test]).float().mean().item()
    assert accuracy > 0.65  # guessing is 0.1


# ---------------------------------------------------------------- augmentations

SHAPE = (2, 9, 7)
AUGMENTATIONS = [
    RandomShift(2, image_shape=SHAPE),
    RandomFlip(SHAPE),
    Compose((RandomShift(1, image_shape=SHAPE), RandomFlip(SHAPE, p=0.3))),
]


@pytest.mark.parametrize("augment", AUGMENTATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_augmentations_keep_shape_type_and_input(augment, dtype):
    x = torch.rand(20, *SHAPE, generator=generator(5)).to(dtype)
    before = x.clone()
    images, rows = augment(x, generator()), augment(x.flatten(1), generator())
    assert (images.shape, images.dtype, rows.shape) == (x.shape, dtype, (20, 126))
    assert torch.equal(images.flatten(1), rows)
    assert torch.equal(x, before)
    assert not torch.equal(images, x)
    assert augment(x[:0], generator()).shape == (0, *SHAPE)


@pytest.mark.parametrize("augment", AUGMENTATIONS)
def test_augmentations_depend_on_their_generator_alone(augment):
    x = torch.rand(30, *SHAPE)
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = augment(x, generator(7))
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert torch.equal(augment(x, generator(7)), first)
    assert not torch.equal(augment(x, generator(8)), first)
    going_on = generator(7)
    augment(x, going_on)
    assert not torch.equal(augment(x, going_on), first)


@pytest.mark.parametrize("augment", AUGMENTATIONS)
def test_augmentations_are_values(augment):
    again = pickle.loads(pickle.dumps(augment))
    assert again == augment
    assert hash(again) == hash(augment)
    assert repr(again) == repr(augment)
    x = torch.rand(5, *SHAPE)
    assert torch.equal(again(x, generator()), augment(x, generator()))


def test_a_shift_moves_each_image_whole_and_fills_with_zeros():
    pixels, (channels, height, width) = 2, SHAPE
    x = torch.rand(400, *SHAPE, generator=generator(3)) + 0.5
    moved = RandomShift(pixels, image_shape=SHAPE)(x, generator(4))
    seen = []
    for before, after in zip(x, moved, strict=True):
        matches = []
        for down in range(-pixels, pixels + 1):
            for right in range(-pixels, pixels + 1):
                expected = torch.zeros(channels, height, width)
                to, of = slice(max(down, 0), height + min(down, 0)), slice(max(-down, 0), height + min(-down, 0))
                to_, of_ = slice(max(right, 0), width + min(right, 0)), slice(max(-right, 0), width + min(-right, 0))
                expected[:, to, to_] = before[:, of, of_]
                if torch.equal(after, expected):
                    matches.append((down, right))
        assert len(matches) == 1
        seen += matches
    assert len(set(seen)) == 25  # 400 draws: each of 25 is missed with probability 8e-8


def test_what_stays_inside_is_conserved():
    x = torch.zeros(50, *SHAPE)
    x[:, :, 2:-2, 2:-2] = torch.rand(50, 2, 5, 3, generator=generator())
    moved = RandomShift(2, image_shape=SHAPE)(x, generator(1))
    assert torch.equal(moved.flatten(1).sort(1).values, x.flatten(1).sort(1).values)


def test_no_shift_and_no_flip_are_the_identity_and_two_flips_too():
    x = torch.rand(10, *SHAPE)
    for augment in (RandomShift(0, image_shape=SHAPE), RandomFlip(SHAPE, p=0.0), Compose(())):
        assert torch.equal(augment(x, generator()), x)
    flip = RandomFlip(SHAPE, p=1.0)
    assert torch.equal(flip(x, generator()), x.flip(-1))
    assert torch.equal(Compose((flip, flip))(x.flatten(1), generator()), x.flatten(1))


def test_a_flip_is_of_whole_images_at_its_rate():
    x = torch.rand(2000, *SHAPE, generator=generator(1))
    flipped = RandomFlip(SHAPE, p=0.3)(x, generator(2))
    mirrored = (flipped == x.flip(-1)).flatten(1).all(1)
    kept = (flipped == x).flatten(1).all(1)
    assert torch.all(mirrored ^ kept)
    assert abs(mirrored.float().mean().item() - 0.3) < 5 * (0.3 * 0.7 / 2000) ** 0.5


def test_compose_goes_in_order_on_one_generator():
    shift, flip = RandomShift(2, image_shape=SHAPE), RandomFlip(SHAPE)
    x = torch.rand(10, *SHAPE)
    shared = generator(3)
    assert torch.equal(Compose([shift, flip])(x, generator(3)), flip(shift(x, shared), shared))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: RandomShift(-1), "pixels must be a whole number >= 0"),
        (lambda: RandomShift(28), "pixels must be .* <= 27"),
        (lambda: RandomShift(1, image_shape=(28, 28)), r"image_shape must be \(channels, height, width\)"),
        (lambda: RandomFlip((1, 0, 8)), "image_shape must be a whole number >= 1"),
        (lambda: RandomFlip((1, 8, 8), p=1.5), "p must be"),
        (lambda: Compose(RandomFlip((1, 8, 8))), "augmentations must be a tuple"),
        (lambda: Compose(("flip",)), "augmentations must be a tuple"),
        (lambda: Compose(3), "augmentations must be a tuple"),
        (lambda: RandomShift(2)(torch.rand(3, 64), generator()), r"image_shape=\(1, 28, 28\).* rows of shape \(64,\)"),
        (lambda: RandomFlip((1, 8, 8))(torch.zeros(3, 64, dtype=torch.uint8), generator()), "float tensor"),
    ],
)
def test_augmentations_check_their_settings(make, text):
    with pytest.raises(InvalidInputError, match=text):
        make()
