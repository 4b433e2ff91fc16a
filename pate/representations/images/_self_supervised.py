"""Self-supervised networks, trained on public images without labels."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Mapping
from dataclasses import KW_ONLY, asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pate._core.checks import check_choice, check_int, check_real
from pate._core.curator import warn
from pate._core.progress import track
from pate._core.secret import training_seed
from pate.data import check_image_shape
from pate.exceptions import CheckpointWarning, InvalidInputError
from pate.networks import has_bf16, one_device, own_generator, read_state, save_state, state_of, take_state
from pate.representations._exact import one_sign
from pate.representations.images._augment import Augmentation, fitting
from pate.representations.images._pixels import ImageMap

# What two changed views of the same images are to agree on.


def simclr(one: Tensor, two: Tensor, temperature: float) -> Tensor:
    """Each view is to be nearer to its twin than to any other view in the batch.

    Shapes: ``one, two`` (n, p).

    References
    ----------
    Chen, Kornblith, Norouzi and Hinton, *A Simple Framework for Contrastive Learning of Visual Representations*, ICML
    2020, equation 1.
    """
    n = len(one)
    views = F.normalize(torch.cat([one, two]).float(), dim=1)
    nearness = views @ views.T / temperature
    nearness = nearness.masked_fill(torch.eye(2 * n, dtype=torch.bool, device=views.device), float("-inf"))
    twin = torch.arange(2 * n, device=views.device).roll(n)
    return F.cross_entropy(nearness, twin)


def vicreg(one: Tensor, two: Tensor) -> Tensor:
    """Twins are to be alike, each number to vary over the batch, and no two numbers to vary together.

    Shapes: ``one, two`` (n, p).

    References
    ----------
    Bardes, Ponce and LeCun, *VICReg: Variance-Invariance-Covariance Regularization for Self-Supervised Learning*, ICLR
    2022, equation 6 with their weights 25, 25 and 1; as in their code, the first term is a mean over numbers too, and
    the second one is halved.
    """
    loss = 25 * F.mse_loss(one.float(), two.float())
    for views in (one.float(), two.float()):
        apart = views - views.mean(dim=0)
        loss = loss + 12.5 * F.relu(1 - (apart.var(dim=0) + 1e-4).sqrt()).mean()
        together = apart.T @ apart / (len(views) - 1)
        loss = loss + (together.square().sum() - together.diagonal().square().sum()) / views.shape[1]
    return loss


# A small network that turns an image into a vector.

#: Length of the vectors that are compared in training; they are not what is used afterwards.
_COMPARED = 256
#: ... by VICReg, after a layer as wide: it asks for numbers that do not vary together, and for many.
_EXPANDED = 512
_LARGEST = 4


def _block(before: int, after: int, kernel: int, step: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, kernel, step, kernel // 2, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True)
    )


class Encoder(nn.Module):
    """Four convolutions, more for images of over 48 pixels a side, and a linear layer or two that only training needs.

    Images of 28 x 28 pixels are halved at once: of the networks tried, that learnt most in a second of a processor.

    Attributes
    ----------
    n_body : int
        Length of what :meth:`describe` gives.
    """

    def __init__(self, image_shape: tuple[int, int, int], width: int, *, expanded: bool = False) -> None:
        super().__init__()
        channels, height, across = image_shape
        side = min(height, across)
        if side < 4:
            raise InvalidInputError(f"images must have at least 4 pixels each way, got {height} x {across}.")
        plan = [(width, 5, 2 if side >= 16 else 1), (2 * width, 3, 2)]
        while side > 48:
            plan.append((2 * width, 3, 2))
            side //= 2
        plan += [(4 * width, 3, 1), (4 * width, 3, 2)]
        blocks, before, sides = [], channels, (height, across)
        for after, kernel, step in plan:
            blocks.append(_block(before, after, kernel, step))
            before, sides = after, (-(-sides[0] // step), -(-sides[1] // step))
        pooled = (min(sides[0], _LARGEST), min(sides[1], _LARGEST))
        self.n_body = before * pooled[0] * pooled[1]
        pool = [] if pooled == sides else [nn.AdaptiveAvgPool2d(pooled)]
        self.body = nn.Sequential(*blocks, *pool, nn.Flatten())
        hidden = [nn.Linear(self.n_body, _EXPANDED), nn.BatchNorm1d(_EXPANDED), nn.ReLU(inplace=True)]
        self.compared = (
            nn.Sequential(*hidden, nn.Linear(_EXPANDED, _EXPANDED)) if expanded else nn.Linear(self.n_body, _COMPARED)
        )

    def describe(self, images: Tensor) -> Tensor:
        """Return what the convolutions see, float tensor of shape (n, n_body), not negative."""
        return self.body(images)

    def forward(self, images: Tensor) -> Tensor:
        """Return what training compares, float tensor of shape (n, 256), or (n, 512) if ``expanded``."""
        return self.compared(self.body(images))


# Training a network on public images without labels, so that it can go on where it was cut off.

#: Seconds between two checkpoints; epochs are not cut.
_OFTEN = 30.0
#: A change of how networks are trained makes earlier checkpoints invalid.
_VERSION = 1


@dataclass(frozen=True)
class Recipe:
    """All that decides a training, but for the images and the machine."""

    objective: str
    width: int
    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    temperature: float
    augmentation: Augmentation
    seed: int
    bf16: bool


@dataclass
class _State:
    encoder: Encoder
    optimizer: torch.optim.Optimizer
    epoch: int = 0
    losses: tuple[float, ...] = ()


def train(
    images: npt.NDArray[np.float32],
    recipe: Recipe,
    device: torch.device,
    *,
    folder: str | os.PathLike[str] | None = None,
    show: bool = False,
) -> tuple[Encoder, tuple[float, ...]]:
    """Return a trained network, in evaluation mode on the CPU, and the mean loss of each epoch.

    Shapes: ``images`` (n, channels, height, width).
    """
    with own_generator(training_seed(recipe.seed, 0), device):
        encoder = Encoder(tuple(images.shape[1:]), recipe.width, expanded=recipe.objective == "vicreg")
        encoder = encoder.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        optimizer = torch.optim.AdamW(
            encoder.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay, fused=device.type != "mps"
        )
        state = _State(encoder, optimizer)
        file = None if folder is None else Path(folder) / f"training-{_key(images, recipe)}.safetensors"
        if file is not None and file.exists():
            _resume(state, file)
        rows, saved = torch.from_numpy(images), time.monotonic()
        left = range(state.epoch, recipe.epochs)
        for epoch in track(left, total=len(left), label="self-supervised epochs", show=show):
            state.losses += (_epoch(state, rows, recipe, epoch, device),)
            state.epoch = epoch + 1
            if file is not None and (time.monotonic() - saved > _OFTEN or state.epoch == recipe.epochs):
                facts = {"epoch": state.epoch, "losses": state.losses}
                save_state(file, state_of({"encoder": encoder}, optimizer, "/"), "training", facts)
                saved = time.monotonic()
    return encoder.eval().cpu(), state.losses


def _epoch(state: _State, images: torch.Tensor, recipe: Recipe, epoch: int, device: torch.device) -> float:
    """Show every image twice, changed at random; what is drawn depends on the seed and the epoch alone."""
    order = torch.Generator().manual_seed(training_seed(recipe.seed, 1, epoch))
    changes = torch.Generator(device=device).manual_seed(training_seed(recipe.seed, 2, epoch))
    size = min(recipe.batch_size, len(images))
    steps = len(images) // size
    turns = torch.randperm(len(images), generator=order)
    state.encoder.train()
    total = 0.0
    for step in range(steps):
        # Up in a line over a twentieth of all steps, at most 60, then down along a half cosine.
        done, all_steps = epoch * steps + step, recipe.epochs * steps
        warm = min(1.0, (done + 1) / max(1, min(60, all_steps // 20)))
        for group in state.optimizer.param_groups:
            group["lr"] = recipe.learning_rate * warm * (1 + math.cos(math.pi * done / all_steps)) / 2
        batch = images[turns[step * size : (step + 1) * size]].to(device)
        views = torch.cat([recipe.augmentation.apply(batch, changes) for _ in range(2)])
        with torch.autocast(device.type, torch.bfloat16, enabled=recipe.bf16):
            vectors = state.encoder(views.contiguous(memory_format=torch.channels_last))
        one, two = vectors[:size], vectors[size:]
        loss = vicreg(one, two) if recipe.objective == "vicreg" else simclr(one, two, recipe.temperature)
        state.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        state.optimizer.step()
        total += float(loss.detach())
    return total / steps


def _key(images: npt.NDArray[np.float32], recipe: Recipe) -> str:
    text = json.dumps({"version": _VERSION, "shape": list(images.shape), **asdict(recipe)}, sort_keys=True)
    digest = hashlib.sha256(text.encode())
    digest.update(np.ascontiguousarray(images).tobytes())
    return digest.hexdigest()[:32]


def _resume(state: _State, file: Path) -> None:
    """Take up a checkpoint; a damaged one is left, and training starts again."""
    try:
        tensors, facts = read_state(file, "training", "a training")
        epoch, losses = int(facts["epoch"]), tuple(map(float, facts["losses"]))
    except Exception as error:  # a damaged file may raise anything
        warn(f"{file.name} is damaged ({type(error).__name__}): training starts again.", CheckpointWarning)
        return
    take_state(tensors, {"encoder": state.encoder}, state.optimizer, "/")
    state.epoch, state.losses = epoch, losses


#: Images shown in all by default, and the fewest and most epochs this makes.
_SHOWN, _FEWEST, _MOST = 400_000, 20, 200


@dataclass(repr=False, eq=False)
class SelfSupervised(ImageMap):
    """A network trained on public images without labels, so that two changed views of one image get similar vectors.

    A vector is the output of the network's convolutions, scaled to length 1 and rotated to the principal axes of the
    public images. Images of one class get similar vectors if the changes (:class:`Augmentation`) do not change the
    class. Which changes to use is decided from public images alone, and no image is mirrored.

    Parameters
    ----------
    n_features : int
        Length of a vector at most: as many as the network and the public images allow.
    objective : {"simclr", "vicreg"}
        What keeps images apart: that each view is nearer to its twin than to any other view of the batch, or that the
        numbers of a vector vary, and do not vary together.
    width : int
        Channels of the first convolution; the others are wider (:class:`Encoder`). Twice the width costs about three
        times as much.
    epochs : int or "auto"
        How often every public image is shown. ``"auto"`` shows about 400,000 images in all, in 20 to 200 epochs.
    batch_size : int
        At least 2; each image of a batch is contrasted with all others in it.
    temperature : float
        Used by ``"simclr"`` only; with smaller values the nearest other images weigh most.
    learning_rate, weight_decay : float
        Of AdamW.
    augmentation : str or dict
        ``"glyphs"``, ``"mild"``, or bounds by name (:class:`Augmentation`), those not named being nought. ``"auto"``
        takes the first for grey public images made of strokes, else the second.
    image_shape : (height, width), (channels, height, width) or None
        None takes it from the images; flattened ones are taken for square ones of 1 or 3 channels, channels first.
    random_state : int
    device : str
        ``"auto"`` takes a GPU where there is one.
    precision : {"auto", "float32", "bf16"}
        What training computes in; ``"auto"`` is bf16 where the processor has it. Vectors are computed in float32.
    checkpoint_dir : path or None
        Folder for a checkpoint of the training, so that an interrupted training goes on.
    verbose : bool

    Attributes
    ----------
    augmentation_ : Augmentation
    losses_ : tuple of float
        Mean loss of each epoch.
    image_shape_ : (channels, height, width)

    Notes
    -----
    On the CPU the same seed, images, precision and number of threads give the same network.

    References
    ----------
    Chen, Kornblith, Norouzi and Hinton, *A Simple Framework for Contrastive Learning of Visual Representations*, ICML
    2020. Bardes, Ponce and LeCun, *VICReg: Variance-Invariance-Covariance Regularization for Self-Supervised Learning*,
    ICLR 2022.

    Examples
    --------
    >>> public = np.random.default_rng(0).uniform(size=(8, 12, 12))
    >>> rep = SelfSupervised(n_features=4, epochs=1, device="cpu").fit(public)
    >>> rep.transform(public).shape, len(rep.losses_)
    ((8, 4), 1)
    """

    _: KW_ONLY
    n_features: int = 256
    objective: str = "simclr"
    width: int = 32
    epochs: int | str = "auto"
    batch_size: int = 256
    temperature: float = 0.2
    learning_rate: float = 2e-3
    weight_decay: float = 1e-4
    augmentation: Any = "auto"
    image_shape: Any = None
    random_state: int = 0
    device: str = "auto"
    precision: str = "auto"
    checkpoint_dir: str | os.PathLike[str] | None = None
    verbose: bool = False

    _passing = ("device", "checkpoint_dir", "verbose")
    _block_rows = 512
    slow_ = True

    def _check(self) -> None:
        check_int("n_features", self.n_features, low=1)
        check_choice("objective", self.objective, ("simclr", "vicreg"))
        check_int("width", self.width, low=1)
        if self.epochs != "auto":
            check_int("epochs", self.epochs, low=1, remedy="Or 'auto'.")
        check_int("batch_size", self.batch_size, low=2)
        check_real("temperature", self.temperature, low=0, low_open=True)
        check_real("learning_rate", self.learning_rate, low=0, low_open=True)
        check_real("weight_decay", self.weight_decay, low=0)
        if self.augmentation != "auto":
            Augmentation.of(self.augmentation)
        check_image_shape(self.image_shape)
        check_int("random_state", self.random_state, low=0)
        check_choice("precision", self.precision, ("auto", "float32", "bf16"))
        one_device(self.device)

    def _learn(self, rows: npt.NDArray[Any]) -> None:
        self._shape()
        if len(rows) < 2:
            raise InvalidInputError("X_public has one image: nothing to contrast it with. Pass more public images.")
        device = one_device(self.device)
        images = self._all_images(rows)
        named = fitting(torch.from_numpy(images)) if self.augmentation == "auto" else self.augmentation
        self.augmentation_ = Augmentation.of(named)
        epochs = self.epochs if isinstance(self.epochs, int) else max(_FEWEST, min(_MOST, _SHOWN // len(rows)))
        recipe = Recipe(
            objective=self.objective,
            width=self.width,
            epochs=int(epochs),
            batch_size=self.batch_size,
            learning_rate=float(self.learning_rate),
            weight_decay=float(self.weight_decay),
            temperature=float(self.temperature),
            augmentation=self.augmentation_,
            seed=int(self.random_state),
            bf16=has_bf16(device) if self.precision == "auto" else self.precision == "bf16",
        )
        encoder, self.losses_ = train(images, recipe, device, folder=self.checkpoint_dir, show=self.verbose)
        self._weights = {name: value.detach().numpy().copy() for name, value in encoder.state_dict().items()}
        self._build()
        self._turn_to_main_directions(images)

    def _build(self) -> None:
        """Make the network of its weights, on the device."""
        self._device = one_device(self.device)
        with own_generator(0):  # a module draws its first weights, which are replaced, from the global generator
            encoder = Encoder(self.image_shape_, self.width, expanded=self.objective == "vicreg")
        encoder.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in self._weights.items()})
        self._encoder = encoder.to(self._device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]

    def _turn_to_main_directions(self, images: npt.NDArray[np.float32]) -> None:
        """Learn the principal axes of the public images' descriptions; the vectors keep what distances there are."""
        n_body = self._encoder.n_body
        total, squares = np.zeros(n_body), np.zeros((n_body, n_body))
        for start in range(0, len(images), self._block_rows):
            seen = self._described(images[start : start + self._block_rows])
            total += seen.sum(axis=0, dtype=np.float64)
            squares += seen.T @ seen
        mean = total / len(images)
        _, axes = np.linalg.eigh(squares / len(images) - np.outer(mean, mean))
        axes = axes[:, ::-1][:, : min(self.n_features, len(images) - 1)]
        self._mean, self._axes = mean.astype(np.float32), one_sign(axes).astype(np.float32)
        self.n_features_out_ = self._axes.shape[1]

    def _described(self, images: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the network's descriptions, float32, of length 1 each."""
        batch = torch.from_numpy(images).to(self._device).contiguous(memory_format=torch.channels_last)
        with torch.inference_mode():
            made = torch.nn.functional.normalize(self._encoder.describe(batch), dim=1)
        return made.cpu().numpy()

    def _map(self, block: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return (self._described(self._images(block)) - self._mean) @ self._axes

    def _settings(self) -> dict[str, Any]:
        """Return the parameters that a file stores; bounds of the augmentation by name."""
        settings = super()._settings()
        wanted = self.augmentation
        return settings | {"augmentation": wanted if wanted == "auto" else Augmentation.of(wanted).as_dict()}

    def _state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        weights = {f"encoder/{name}": value for name, value in self._weights.items()}
        words = {"image_shape": list(self.image_shape_), "losses": list(self.losses_)}
        words["changes"] = self.augmentation_.as_dict()
        return weights | {"mean": self._mean, "axes": self._axes}, words

    def _restore(self, arrays: Mapping[str, npt.NDArray[Any]], words: Mapping[str, Any]) -> None:
        self.image_shape_ = tuple(words["image_shape"])
        self.losses_ = tuple(words["losses"])
        self.augmentation_ = Augmentation.of(words["changes"])
        self._mean, self._axes = arrays["mean"], arrays["axes"]
        self._weights = {n.removeprefix("encoder/"): v for n, v in arrays.items() if n.startswith("encoder/")}
        self._build()
