"""The networks of Papernot et al.: teachers (2017) and tempered sigmoids for DP-SGD (2021)."""

from __future__ import annotations

import torch
from torch import nn

from pate.core.checks import check_choice, check_int, check_real
from pate.exceptions import InvalidInputError
from pate.networks._parts import as_images, head, square_image_shape


class PapernotCNN(nn.Module):
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
        check_choice("init", init, ("paper", "torch"))
        shape = square_image_shape(n_features, channels, smallest=8)
        side, half = shape[1], -(-shape[1] // 2)
        quarter = -(-half // 2)
        self.layers = nn.Sequential(
            *as_images(shape),
            *(nn.Conv2d(shape[0], 64, 5, padding=2), nn.ReLU(), _pool_same(side), _response_norm()),
            *(nn.Conv2d(64, 128, 5, padding=2), nn.ReLU(), _response_norm(), _pool_same(half)),
            *(nn.Flatten(), nn.Linear(128 * quarter * quarter, 384), nn.ReLU()),
            *(nn.Linear(384, 192), nn.ReLU(), head(192, n_classes)),
        )
        if init == "paper":
            _start(self, stds=(1e-4, 1e-4, 0.04, 0.04, 1 / 192), biases=(0.0, 0.1, 0.1, 0.1, 0.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, n_features) or images to logits of shape (batch, n_classes)."""
        return self.layers(x)


class PapernotDeepCNN(nn.Module):
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
        check_choice("init", init, ("paper", "torch"))
        dropout = check_real("dropout", dropout, low=0.0, high=1.0, high_open=True)
        shape = square_image_shape(n_features, channels, smallest=8)
        side, half = shape[1], -(-shape[1] // 2)
        quarter = -(-half // 2)

        def drop() -> list[nn.Module]:
            return [nn.Dropout(dropout)] if dropout else []

        self.layers = nn.Sequential(
            *as_images(shape),
            *(nn.Conv2d(shape[0], 96, 3, padding=1), nn.ReLU()),
            *(nn.Conv2d(96, 96, 3, padding=1), nn.ReLU()),
            *(*_halve_same(96, side), nn.ReLU(), *drop()),
            *(nn.Conv2d(96, 192, 3, padding=1), nn.ReLU()),
            *(nn.Conv2d(192, 192, 3, padding=1), nn.ReLU()),
            *(*_halve_same(192, half), nn.ReLU(), *drop()),
            *(nn.Conv2d(192, 192, 5, padding=2), nn.ReLU(), nn.Flatten()),
            *(nn.Linear(192 * quarter * quarter, 192), nn.ReLU()),
            *(nn.Linear(192, 192), nn.ReLU(), *drop(), head(192, n_classes)),
        )
        if init == "paper":
            _start(
                self,
                stds=(0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 1e-4, 0.05, 0.05, 0.05),
                biases=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1, 0.1, 0.1, 0.0),
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, n_features) or images to logits of shape (batch, n_classes)."""
        return self.layers(x)


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
