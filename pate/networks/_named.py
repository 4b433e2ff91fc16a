"""Built-in networks by name, for teachers and DP-SGD alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from pate._core.checks import check_choice, check_int, check_real
from pate.exceptions import InvalidInputError

# What several networks begin and end with.


def square_image_shape(n_features: int, channels: int | None = None, *, smallest: int = 4) -> tuple[int, int, int]:
    """Return (channels, side, side) of square images that have so many features.

    Without ``channels`` 1 or 3 are taken, whichever makes the images square (never both do). Images that are not
    square, or whose side is below ``smallest``, are refused.

    Examples
    --------
    >>> (
    ...     square_image_shape(784),
    ...     square_image_shape(3072),
    ...     square_image_shape(128, channels=2),
    ... )
    ((1, 28, 28), (3, 32, 32), (2, 8, 8))
    >>> square_image_shape(30)
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: n_features must be channels * side * side with side >= 4, got 30 ...
    """
    n_features = check_int("n_features", n_features, low=1)
    tried = (1, 3) if channels is None else (check_int("channels", channels, low=1),)
    for count in tried:
        side = math.isqrt(n_features // count)
        if side >= smallest and count * side * side == n_features:
            return count, side, side
    raise InvalidInputError(
        f"n_features must be channels * side * side with side >= {smallest}, got {n_features} features and "
        f"channels={channels}{' (1 and 3 were tried)' if channels is None else ''}. Pass channels=..., pad the images "
        "to squares, or use the MLP for data that are not square images."
    )


def as_images(shape: tuple[int, int, int]) -> list[nn.Module]:
    """Rows or images in, images out."""
    return [nn.Flatten(), nn.Unflatten(1, shape)]


def head(width: int, n_classes: int) -> nn.Linear:
    return nn.Linear(width, check_int("n_classes", n_classes, low=2))


class _Stack(nn.Module):
    """A sequence of layers."""

    layers: nn.Sequential

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, n_features) or images to logits of shape (batch, n_classes)."""
        return self.layers(x)


# Small networks: linear, multi-layer perceptron, convolutional, residual.


class Linear(nn.Module):
    """Multinomial logistic regression, with initial weights of zero.

    Parameters
    ----------
    n_features, n_classes : int
    bias : bool
        Under DP-SGD a bias takes half of a clipped gradient where rows have norm 1.

    Examples
    --------
    >>> Linear(n_features=4, n_classes=3)(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """

    def __init__(self, *, n_features: int, n_classes: int, bias: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(n_features, n_classes, bias=bias)
        nn.init.zeros_(self.linear.weight)
        if bias:
            nn.init.zeros_(self.linear.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, n_features) or images to logits of shape (batch, n_classes)."""
        return self.linear(x.flatten(1))


class MLP(_Stack):
    """A multilayer perceptron with one or more hidden layers.

    Parameters
    ----------
    n_features, n_classes : int
    hidden : tuple of int
        Widths of the hidden layers.
    activation : "relu" or "tanh"
        tanh keeps the gradients of single records small, which DP-SGD clips (Papernot et al. 2021).

    Examples
    --------
    >>> network = MLP(n_features=784, n_classes=10)
    >>> sum(p.numel() for p in network.parameters()), network(torch.zeros(2, 784)).shape
    (109386, torch.Size([2, 10]))
    """

    def __init__(
        self, *, n_features: int, n_classes: int, hidden: tuple[int, ...] = (128, 64), activation: str = "relu"
    ) -> None:
        super().__init__()
        check_choice("activation", activation, ("relu", "tanh"))
        width = check_int("n_features", n_features, low=1)
        layers: list[nn.Module] = [nn.Flatten()]
        for size in hidden:
            layers += [
                nn.Linear(width, check_int("hidden", size, low=1)),
                nn.Tanh() if activation == "tanh" else nn.ReLU(),
            ]
            width = size
        self.layers = nn.Sequential(*layers, head(width, n_classes))


class SmallCNN(_Stack):
    """Two convolutions and a hidden layer: 46,730 parameters at 28 x 28 x 1 and 10 classes.

    Images below 16 x 16 get 3 x 3 kernels that keep the size, others 5 x 5 ones.

    Parameters
    ----------
    n_features : int
        channels * side * side with side >= 4.
    n_classes : int
    channels : int or None
        None takes 1 or 3, whichever makes the images square.

    Examples
    --------
    >>> network = SmallCNN(n_features=784, n_classes=10)
    >>> sum(p.numel() for p in network.parameters()), network(torch.zeros(2, 784)).shape
    (46730, torch.Size([2, 10]))
    """

    def __init__(self, *, n_features: int, n_classes: int, channels: int | None = None) -> None:
        super().__init__()
        shape = square_image_shape(n_features, channels)
        kernel, padding = (5, 0) if shape[1] >= 16 else (3, 1)
        side = ((shape[1] - kernel + 1 + 2 * padding) // 2 - kernel + 1 + 2 * padding) // 2
        # A plain chain of common layers: the trainer runs such chains without autograd. Pooling before the relu is the
        # same function and a quarter of the work.
        self.layers = nn.Sequential(
            *as_images(shape),
            *(nn.Conv2d(shape[0], 16, kernel, padding=padding), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Conv2d(16, 32, kernel, padding=padding), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(32 * side * side, 64), nn.ReLU(), head(64, n_classes)),
        )


class SmallResNet(_Stack):
    """A small residual network, about 174,000 parameters; it halves the image before every stage except the first.

    Parameters
    ----------
    n_features : int
        channels * side * side with side >= 8.
    n_classes : int
    channels : int or None
        None takes 1 or 3, whichever makes the images square.
    widths : tuple of int
        Channels of each stage.
    n_blocks : int
        Residual blocks of two 3 x 3 convolutions per stage.
    norm : "batch", "group" or "none"
        Batch norm keeps running means of a teacher's own shard; group norm has no state and no tie between records.

    Examples
    --------
    >>> network = SmallResNet(n_features=3072, n_classes=10)
    >>> (
    ...     sum(p.numel() for p in network.parameters()),
    ...     network(torch.zeros(2, 3, 32, 32)).shape,
    ... )
    (174274, torch.Size([2, 10]))
    """

    def __init__(
        self,
        *,
        n_features: int,
        n_classes: int,
        channels: int | None = None,
        widths: tuple[int, ...] = (24, 48, 96),
        n_blocks: int = 1,
        norm: str = "batch",
    ) -> None:
        super().__init__()
        check_choice("norm", norm, ("batch", "group", "none"))
        n_blocks = check_int("n_blocks", n_blocks, low=1)
        shape = square_image_shape(n_features, channels, smallest=8)
        widths = tuple(check_int("widths", width, low=1) for width in widths)
        if not widths or shape[1] <= 2 ** (len(widths) - 1):
            raise InvalidInputError(
                f"widths must name 1 to {shape[1].bit_length() - 1} stages for images of side {shape[1]}, got {widths}."
            )
        layers: list[nn.Module] = [_conv3(shape[0], widths[0], 1, norm), _norm(norm, widths[0]), nn.ReLU()]
        last = widths[0]
        for stage, width in enumerate(widths):
            for block in range(n_blocks):
                layers.append(_ResidualBlock(last, width, 2 if stage and not block else 1, norm))
                last = width
        self.layers = nn.Sequential(
            *as_images(shape), *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), head(last, n_classes)
        )


class _ResidualBlock(nn.Module):
    def __init__(self, before: int, after: int, stride: int, norm: str) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            *(_conv3(before, after, stride, norm), _norm(norm, after), nn.ReLU()),
            *(_conv3(after, after, 1, norm), _norm(norm, after)),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            conv = nn.Conv2d(before, after, 1, stride=stride, bias=norm == "none")
            self.shortcut = nn.Sequential(conv, _norm(norm, after))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.branch(x) + self.shortcut(x))


def _conv3(before: int, after: int, stride: int, norm: str) -> nn.Conv2d:
    # A normalisation brings its own bias.
    return nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=norm == "none")


def _norm(norm: str, width: int) -> nn.Module:
    if norm == "batch":
        return nn.BatchNorm2d(width)
    return nn.GroupNorm(math.gcd(8, width), width) if norm == "group" else nn.Identity()


# The networks of Papernot et al.: teachers (2017) and tempered sigmoids for DP-SGD (2021).


class PapernotCNN(_Stack):
    """The teacher of Papernot et al. 2017 for MNIST (and SVHN, without ``--deeper``): ``inference`` of their code.

    Convolution 5 x 5 x 64, pooling 3 x 3 / 2, local response normalisation over 9 channels, convolution 5 x 5 x 128,
    normalisation, pooling, layers of 384 and 192; TensorFlow's "SAME" padding. The code is tensorflow/privacy,
    research/pate_2017/deep_cnn.py. Differences: the initial weights are torch's unless ``init="paper"``; dropout, off
    for their teachers, is not here, nor is what belongs to training: plain SGD with rate 0.05, batches of 128, 0.004
    times half the squared weights of the two hidden layers added to the loss, and predictions from a moving average
    of the weights (0.9999).

    Parameters
    ----------
    n_features : int
        channels * side * side with side >= 8.
    n_classes : int
    channels : int or None
        None takes 1 or 3, whichever makes the images square.
    init : "torch" or "paper"
        Initial weights: torch's, or theirs. Their convolutions start at 1e-4, which needs their thousands of steps: a
        teacher of 240 images is far behind after 12 epochs.

    Examples
    --------
    >>> network = PapernotCNN(n_features=784, n_classes=10)
    >>> sum(p.numel() for p in network.parameters()), network(torch.zeros(2, 784)).shape
    (2691274, torch.Size([2, 10]))
    """

    def __init__(self, *, n_features: int, n_classes: int, channels: int | None = None, init: str = "torch") -> None:
        super().__init__()
        shape, half, quarter = _paper_sides(n_features, channels, init)
        self.layers = nn.Sequential(
            *as_images(shape),
            *(nn.Conv2d(shape[0], 64, 5, padding=2), nn.ReLU(), _pool_same(shape[1]), _response_norm()),
            *(nn.Conv2d(64, 128, 5, padding=2), nn.ReLU(), _response_norm(), _pool_same(half)),
            *(nn.Flatten(), nn.Linear(128 * quarter * quarter, 384), nn.ReLU()),
            *(nn.Linear(384, 192), nn.ReLU(), head(192, n_classes)),
        )
        if init == "paper":
            _start(self, stds=(1e-4, 1e-4, 0.04, 0.04, 1 / 192), biases=(0.0, 0.1, 0.1, 0.1, 0.0))


class PapernotDeepCNN(_Stack):
    """The deeper teacher of Papernot et al. 2017 (``--deeper``, sized for SVHN): ``inference_deeper`` of their code.

    Six convolutions 3 x 3 (96, 96, 96 / 2, 192, 192, 192 / 2), one 5 x 5 x 192, layers of 192 and 192; TensorFlow's
    "SAME" padding. See :class:`PapernotCNN` for the source and the differences.

    Parameters
    ----------
    n_features : int
        channels * side * side with side >= 8.
    n_classes : int
    channels : int or None
        None takes 1 or 3, whichever makes the images square.
    dropout : float
        Share of values zeroed after both strides and before the last layer, in [0, 1). Theirs is 0 for teachers, 0.5
        where it is on.
    init : "torch" or "paper"
        Initial weights: torch's, or theirs.

    Examples
    --------
    >>> network = PapernotDeepCNN(n_features=3072, n_classes=10, dropout=0.5)
    >>> sum(p.numel() for p in network.parameters())
    4319050
    """

    def __init__(
        self,
        *,
        n_features: int,
        n_classes: int,
        channels: int | None = None,
        dropout: float = 0.0,
        init: str = "torch",
    ) -> None:
        super().__init__()
        dropout = check_real("dropout", dropout, low=0.0, high=1.0, high_open=True)
        shape, half, quarter = _paper_sides(n_features, channels, init)

        def drop() -> list[nn.Module]:
            return [nn.Dropout(dropout)] if dropout else []

        def stage(before: int, after: int, side: int) -> list[nn.Module]:
            """Return two convolutions, and one that halves the side."""
            two = [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.Conv2d(after, after, 3, padding=1), nn.ReLU()]
            return [*two, *_halve_same(after, side), nn.ReLU(), *drop()]

        self.layers = nn.Sequential(
            *(*as_images(shape), *stage(shape[0], 96, shape[1]), *stage(96, 192, half)),
            *(nn.Conv2d(192, 192, 5, padding=2), nn.ReLU(), nn.Flatten()),
            *(nn.Linear(192 * quarter * quarter, 192), nn.ReLU()),
            *(nn.Linear(192, 192), nn.ReLU(), *drop(), head(192, n_classes)),
        )
        if init == "paper":
            _start(self, stds=(*[0.05] * 6, 1e-4, 0.05, 0.05, 0.05), biases=(*[0.0] * 6, 0.1, 0.1, 0.1, 0.0))


class TanhCNN(nn.Module):
    """The small tanh network of Papernot et al. 2021 (tempered sigmoids) for square images.

    At 28 x 28 these are its layers exactly (26,010 parameters). Images below 16 x 16 get 3 x 3 kernels without
    strides.

    Parameters
    ----------
    n_features : int
        channels * side * side with side >= 4.
    n_classes : int
    channels : int or None
        None takes 1 or 3, whichever makes the images square.
    n_groups : int
        Groups of a group normalisation after each convolution, a divisor of 16; 0 leaves it out.

    Examples
    --------
    >>> network = TanhCNN(n_features=784, n_classes=10)
    >>> sum(p.numel() for p in network.parameters()), network(torch.zeros(2, 784)).shape
    (26010, torch.Size([2, 10]))
    """

    def __init__(self, *, n_features: int, n_classes: int, channels: int | None = None, n_groups: int = 0) -> None:
        super().__init__()
        self.shape = square_image_shape(n_features, channels)
        n_groups = check_int("n_groups", n_groups, low=0, high=16)
        if n_groups and 16 % n_groups:
            raise InvalidInputError(f"n_groups must be 0 or divide 16, got {n_groups}.")
        channels, side = self.shape[:2]
        if side >= 16:
            first: nn.Module = nn.Conv2d(channels, 16, 8, stride=2, padding=3)
            second: nn.Module = nn.Conv2d(16, 32, 4, stride=2)
            pool: nn.Module = nn.MaxPool2d(2, stride=1)
        else:
            first, second = nn.Conv2d(channels, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
            pool = nn.MaxPool2d(2)
        norms = [nn.GroupNorm(n_groups, size) if n_groups else nn.Identity() for size in (16, 32)]
        self.convolutions = nn.Sequential(
            *(first, norms[0], nn.Tanh(), pool),
            *(second, norms[1], nn.Tanh(), pool, nn.Flatten()),
        )
        with torch.no_grad():
            width = self.convolutions(torch.zeros(1, *self.shape)).shape[1]
        self.head = nn.Sequential(nn.Linear(width, 32), nn.Tanh(), nn.Linear(32, n_classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, n_features) or images to logits of shape (batch, n_classes)."""
        return self.head(self.convolutions(x.reshape(-1, *self.shape)))


def _paper_sides(n_features: int, channels: int | None, init: str) -> tuple[tuple[int, int, int], int, int]:
    """Return the shape of images, and their side after one stride and after two; check what both networks take."""
    check_choice("init", init, ("paper", "torch"))
    shape = square_image_shape(n_features, channels, smallest=8)
    half = -(-shape[1] // 2)
    return shape, half, -(-half // 2)


def _response_norm() -> nn.LocalResponseNorm:
    # TensorFlow's lrn(depth_radius=4, alpha=0.001 / 9) sums over 9 channels; torch divides alpha by the 9 itself.
    return nn.LocalResponseNorm(9, alpha=1e-3, beta=0.75, k=1.0)


def _pool_same(side: int) -> nn.MaxPool2d:
    """3 x 3 / 2 with "SAME" padding: an even side is padded after its end only, an odd one at both ends."""
    return nn.MaxPool2d(3, stride=2, padding=side % 2, ceil_mode=True)


def _halve_same(width: int, side: int) -> list[nn.Module]:
    """3 x 3 / 2 convolution with "SAME" padding, as :func:`_pool_same`."""
    if side % 2:
        return [nn.Conv2d(width, width, 3, stride=2, padding=1)]
    return [nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(width, width, 3, stride=2)]


def _start(module: nn.Module, *, stds: tuple[float, ...], biases: tuple[float, ...]) -> None:
    """Start the layers, in order, at normal numbers cut at two deviations (TensorFlow's) and constant biases."""
    layers = [part for part in module.modules() if isinstance(part, nn.Conv2d | nn.Linear)]
    for layer, std, bias in zip(layers, stds, biases, strict=True):
        nn.init.trunc_normal_(layer.weight, std=std, a=-2 * std, b=2 * std)
        if layer.bias is not None:
            nn.init.constant_(layer.bias, bias)


_NAMED: dict[str, Callable[..., nn.Module]] = {
    "linear": Linear,
    "mlp": MLP,
    "papernot-cnn": PapernotCNN,
    "papernot-deep-cnn": PapernotDeepCNN,
    "small-cnn": SmallCNN,
    "small-resnet": SmallResNet,
    "tanh-cnn": TanhCNN,
    "tanh-mlp": partial(MLP, hidden=(64,), activation="tanh"),
}


def named_modules() -> tuple[str, ...]:
    """Return the names that :func:`make_module` knows.

    Examples
    --------
    >>> "mlp" in named_modules()
    True
    """
    return tuple(_NAMED)


def make_module(name: Any) -> Callable[..., nn.Module]:
    """Return the class or function that builds a built-in network, by its name; a class or function is returned as is.

    Parameters
    ----------
    name : str, nn.Module class, or function that makes one
        One of :func:`named_modules`. Never an import path: a name from a command line must not run code.

    Raises
    ------
    InvalidInputError
        The name is not known, or a module was passed instead of its class.

    Examples
    --------
    >>> make_module("mlp").__name__
    'MLP'
    >>> make_module("oracle")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: module must be one of 'linear', ..., 'tanh-mlp', got 'oracle'. ...
    """
    remedy = "For anything else pass an nn.Module class, or a function that makes a module."
    if isinstance(name, nn.Module):
        raise InvalidInputError(
            f"module must be a class or a function that makes one, got an object of type {type(name).__name__}. "
            "Each training starts from a new module: pass the class, not an instance."
        )
    if not isinstance(name, str) and callable(name):
        return name
    return _NAMED[check_choice("module", name, _NAMED, remedy=remedy)]
