"""Train an image student on public images and soft targets; all of it is public."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional as F

from pate._core.checks import shown
from pate._core.secret import training_seed
from pate._core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.networks import (
    check_copied,
    logits_of,
    make,
    make_module,
    module_arguments,
    own_generator,
    read_state,
    save_state,
    state_of,
    take_state,
)
from pate.representations.images import Augmentation

# Fixed, slightly changed views of an image: their mean prediction is more accurate.

#: Shares of the largest change in training: of the rotation, then of the scale.
_TURN, _SIZE = 0.6, 0.6


def views(images: torch.Tensor, changes: Augmentation, n: int) -> Iterator[torch.Tensor]:
    """Yield ``n`` views of the images: as they are, turned, larger and smaller, about half as far as in training.

    Nothing is random: a row's views depend on that row alone.

    Shapes: ``images`` (batch, channels, height, width).
    """
    turn, size = math.radians(changes.rotate) * _TURN, changes.scale * _SIZE
    changed = [(0.0, 1.0), (turn, 1.0), (-turn, 1.0), (0.0, 1 - size), (0.0, 1 + size)]
    for i, (angle, scale) in enumerate(changed[:n]):
        mirror = -1.0 if changes.flip and i % 2 else 1.0
        if (angle, scale, mirror) == (0.0, 1.0, 1.0):
            yield images
            continue
        cos, sin = math.cos(angle) * scale, math.sin(angle) * scale
        matrix = images.new_tensor([[mirror * cos, -sin, 0.0], [mirror * sin, cos, 0.0]])
        grid = F.affine_grid(matrix.expand(len(images), 2, 3), list(images.shape), align_corners=False)
        yield F.grid_sample(images, grid, padding_mode="border", align_corners=False)


# The networks of an image student: its own small one, another by name, or a pre-trained one with a new last layer.

#: Attributes of fitted representations that hold a torch module.
_HELD_AS = ("module_", "encoder_", "_encoder")


class StudentCNN(nn.Module):
    """Five 3 x 3 convolutions with batch norm: 41,000 parameters, 5.5 million products for an image of 28 x 28.

    Batch norm mixes the rows of a batch; all of them are public here.
    """

    def __init__(
        self, *, image_shape: tuple[int, int, int], n_classes: int, widths: tuple[int, int, int] = (16, 32, 64)
    ) -> None:
        super().__init__()
        channels, height, width = image_shape
        a, b, c = widths
        layers = [*_block(channels, a, 1), *_block(a, a, 2), *_block(a, b, 1), *_block(b, b, 2), *_block(b, c, 1)]
        side = max(height, width)
        while side > 48:  # large images are halved to about the size of those this was measured on
            layers += _block(c, c, 2)
            side //= 2
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(3), nn.Flatten())
        self.last = nn.Linear(9 * c, n_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map (batch, channels, height, width) to logits of shape (batch, n_classes)."""
        return self.last(self.body(images))


class Ended(nn.Module):
    """A pre-trained module with a new last linear layer."""

    def __init__(self, body: nn.Module, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.body = body
        self.last = nn.Linear(n_features, n_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Map images to logits."""
        return self.last(torch.relu(self.body(images).flatten(1)))


def make_network(network: Any, init: Any, image_shape: tuple[int, int, int], n_classes: int) -> nn.Module:
    """Return a new network, or one that starts from a copy of ``init``."""
    if init is not None:
        held = next((getattr(init, name) for name in _HELD_AS if hasattr(init, name)), None)
        module = init if isinstance(init, nn.Module) else held
        if not isinstance(module, nn.Module):
            raise InvalidInputError(
                f"init must be a torch.nn.Module or a fitted representation that holds one, got {shown(init)}. Leave "
                "it out for a new network."
            )
        check_copied(module)
        body = copy.deepcopy(module).cpu().float().requires_grad_(True)
        return Ended(body, _probed("init", body, image_shape).flatten(1).shape[1], n_classes)
    if network == "student-cnn":
        return StudentCNN(image_shape=image_shape, n_classes=n_classes)
    factory = make_module(network)
    n_features = int(image_shape[0] * image_shape[1] * image_shape[2])
    made = make(factory, module_arguments(factory, None, n_features=n_features, n_classes=n_classes))
    out = logits_of(_probed("network", made, image_shape))
    if out.shape[1:] != (n_classes,):
        raise InvalidInputError(
            f"network must return logits of shape (batch, {n_classes}), it returned {tuple(out.shape)} for two images."
        )
    return made


def _probed(name: str, module: nn.Module, image_shape: tuple[int, int, int]) -> torch.Tensor:
    """Return a module's output for two blank images."""
    module.eval()
    try:
        with torch.no_grad():
            out = logits_of(module(torch.zeros(2, *image_shape)))
    except Exception as error:
        raise InvalidInputError(
            f"{name} must take images of shape (batch, {', '.join(map(str, image_shape))}): {type(error).__name__}: "
            f"{error}."
        ) from error
    if out.ndim < 2 or len(out) != 2:
        raise InvalidInputError(f"{name} must return one row per image, it returned {tuple(out.shape)} for two images.")
    return out


def _block(before: int, after: int, step: int) -> list[nn.Module]:
    # Pooling before the norm and the relu: a quarter of their work.
    pool: list[nn.Module] = [nn.MaxPool2d(2)] if step == 2 else []
    return [nn.Conv2d(before, after, 3, padding=1, bias=False), *pool, nn.BatchNorm2d(after), nn.ReLU(inplace=True)]


_BLOCK = 512
KEY, WHAT = "pate.image-student", "an image student"
#: The cosine is cut here: last steps at a small rate memorise wrong answers (measured: 0.2 points).
_CUT = 0.7
#: The least probability of a class in a target or prediction.
_LEAST = 1e-4
#: Power of a prediction's certainty in the weight of a row without an answer.
_DOUBT = 2.0
#: A student has converged when fewer rows than this change their label in an epoch.
_CONVERGED = 1.0
#: Views per image for the student's predictions in training.
_VIEWS = 3
#: The augmentation of strength 1, which suits glyphs; half of it suits clothes.
_CHANGES = Augmentation(
    rotate=12, scale=0.12, stretch=0.08, shear=0.15, shift=0.07, elastic=0.05, thicken=0.3, bright=0.2
)


@dataclass(frozen=True)
class Recipe:
    """The settings of a training; all are public."""

    epochs: int
    seconds: float | None
    batch_size: int
    learning_rate: float
    weight_decay: float
    strength: float
    flip: bool
    erase: float
    trust: float
    trust_from: float
    ema_epochs: float
    patience: int | None
    views: bool
    bf16: bool
    seed: int


def changes_of(strength: float, *, flip: bool, erase: float) -> Augmentation:
    """Return the augmentation of this strength."""
    return replace(_CHANGES.scaled(strength), flip=flip, erase=erase)


def probabilities(
    network: nn.Module,
    images: torch.Tensor,
    device: torch.device,
    *,
    bf16: bool = False,
    changes: Augmentation | None = None,
    n_views: int = 1,
) -> torch.Tensor:
    """Return the probabilities of images, computed on the device in blocks, the mean over so many views."""
    network.eval()
    parts = []
    with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=bf16):
        for block in images.split(_BLOCK):
            seen = views(block.to(device), changes or Augmentation(), n_views)
            predicted = [
                logits_of(network(v.contiguous(memory_format=torch.channels_last))).float().softmax(1) for v in seen
            ]
            parts.append(torch.stack(predicted).mean(0))
    return torch.cat(parts)


def last_features(network: nn.Module, images: torch.Tensor, device: torch.device) -> npt.NDArray[np.float32]:
    """Return the input of the last linear layer for each image, shape (n, n_features)."""
    layers = [module for module in network.modules() if isinstance(module, nn.Linear)]
    if not layers:
        raise InvalidInputError(
            "network must have a linear layer, whose input records vote on. Take 'student-cnn', or add one."
        )
    inputs: list[torch.Tensor] = []
    hook = layers[-1].register_forward_pre_hook(lambda _, given: inputs.append(given[0].detach().flatten(1).float()))
    try:
        probabilities(network, images, device)
    finally:
        hook.remove()
    return torch.cat(inputs).cpu().numpy()


class Training:
    """One training: the network, its moving average, the current targets, and the progress.

    Shapes: ``images`` (n, channels, height, width), ``targets`` (n, n_classes), ``weights`` (n,).
    """

    def __init__(
        self,
        network: nn.Module,
        images: npt.NDArray[np.float32],
        targets: FloatArray,
        weights: FloatArray,
        recipe: Recipe,
        device: torch.device,
        file: str | os.PathLike[str] | None = None,
    ) -> None:
        self.recipe, self.device, self.file = recipe, device, None if file is None else Path(file)
        self.network = network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.average = copy.deepcopy(self.network).requires_grad_(False).eval()
        self.parts = {"network": self.network, "average": self.average}
        self.images = torch.from_numpy(np.ascontiguousarray(images, dtype=np.float32)).to(device)
        self.released = torch.from_numpy(targets.astype(np.float32)).to(device)
        self.given = torch.from_numpy(weights.astype(np.float32)).to(device)
        self.targets, self.weights = self.released.clone(), self.given.clone()
        self.augmentation = changes_of(recipe.strength, flip=recipe.flip, erase=recipe.erase)
        # Batch norm needs two images or more: a single one left over joins the batch before.
        self.steps = max(1, round(len(images) / recipe.batch_size))
        self.optimizer = torch.optim.AdamW(
            self.network.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay
        )
        self.epoch, self.spent, self.history = 0, 0.0, list[dict[str, float]]()
        self.labels: torch.Tensor | None = None
        self.resumed = False
        self.digest = self._digest()

    def run(self) -> Iterator[dict[str, float]]:
        """Train, resuming from the checkpoint if there is one; yield the facts of each epoch as it ends."""
        self._resume()
        while not self._done():
            begun = time.monotonic()
            with own_generator(training_seed(self.recipe.seed, 1, self.epoch), self.device):
                loss = self._one_epoch()
            # One view in the first epochs, and several where the predictions are used.
            n_views = _VIEWS if self.recipe.views and self._progress(1.0) >= self.recipe.trust_from else 1
            predicted = probabilities(
                self.average,
                self.images,
                self.device,
                bf16=self.recipe.bf16,
                changes=self.augmentation,
                n_views=n_views,
            )
            labels = predicted.argmax(1)
            changed = 1.0 if self.labels is None else float((labels != self.labels).float().mean())
            self.labels = labels
            self.epoch += 1
            trust = self._adapt(predicted) if self._progress() >= self.recipe.trust_from else 0.0
            self.spent += time.monotonic() - begun
            agreement = float((labels == self.released.argmax(1))[self.given > 0].float().mean())
            self.history.append({"loss": loss, "agreement": agreement, "changed": changed, "trust": trust})
            self._keep()
            yield self.history[-1]

    def _done(self) -> bool:
        r = self.recipe
        if r.patience is not None and len(self.history) >= r.patience + 1:
            last = self.history[-r.patience :]
            if self._progress() >= r.trust_from and all(h["changed"] * len(self.images) < _CONVERGED for h in last):
                return True
        return self._progress() >= 1

    def _progress(self, within: float = 0.0) -> float:
        """Return the share of the training that is done, plus the part ``within`` of an epoch."""
        r = self.recipe
        if r.seconds is None:
            return (self.epoch + within) / r.epochs
        each = self.spent / self.epoch if self.epoch else r.seconds / r.epochs
        # The last epoch is the one that ends nearest to the time given.
        return min(1.0, (self.spent + within * each) / max(r.seconds - each / 2, 1e-9))

    def _one_epoch(self) -> float:
        r, n = self.recipe, len(self.images)
        generator = torch.Generator(self.device).manual_seed(training_seed(r.seed, 2, self.epoch))
        order = torch.randperm(n, generator=generator, device=self.device)
        total = torch.zeros((), device=self.device)
        self.network.train()
        for i, batch in enumerate(torch.tensor_split(order, self.steps)):
            step = self.epoch * self.steps + i
            rate = r.learning_rate * 0.5 * (1 + math.cos(_CUT * math.pi * self._progress(i / self.steps)))
            for group in self.optimizer.param_groups:
                group["lr"] = rate * min(1.0, (step + 1) / (2 * self.steps))
            images = self.augmentation.apply(self.images[batch], generator).contiguous(
                memory_format=torch.channels_last
            )
            with torch.autocast(self.device.type, torch.bfloat16, enabled=r.bf16):
                logits = logits_of(self.network(images))
            weights = self.weights[batch]
            losses = -(self.targets[batch] * F.log_softmax(logits.float(), dim=1)).sum(1)
            loss = (losses * weights).sum() / weights.sum().clamp_min(1e-6)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.detach()
            self._follow(step)
        return float(total) / self.steps

    @torch.no_grad()
    def _follow(self, step: int) -> None:
        """Move the average towards the network; young averages move faster."""
        keep = min(1 - 1 / max(1.0, self.recipe.ema_epochs * self.steps), step / (step + 9))
        for mean, value in zip(self.average.parameters(), self.network.parameters(), strict=True):
            mean.lerp_(value, 1 - keep)
        for mean, value in zip(self.average.buffers(), self.network.buffers(), strict=True):
            # The running means of batch norm are of the network that moves; the average's are an average too.
            if mean.is_floating_point():
                mean.lerp_(value, 1 - keep)
            else:
                mean.copy_(value)

    def _adapt(self, predicted: torch.Tensor) -> float:
        """Take the student's predictions as the prior of the targets: targets ~ released^weight * predicted^trust.

        A row without an answer gets the prediction, with a weight by its certainty. It starts from the released
        answers each time, and not from earlier targets. Returns the trust.
        """
        trust = self.recipe.trust * self._quality(predicted)
        if not self.recipe.trust:
            return trust
        evidence = self.released.clamp_min(_LEAST).log() * self.given[:, None]
        self.targets = (evidence + trust * predicted.clamp_min(_LEAST).log()).softmax(1)
        sure = (self.targets.amax(1) - 1 / self.targets.shape[1]) / (1 - 1 / self.targets.shape[1])
        self.weights = torch.where(self.given > 0, self.given, sure.clamp_min(0.0) ** _DOUBT)
        return trust

    def _quality(self, predicted: torch.Tensor) -> float:
        """Return the quality of the predictions, from 0 to 1, by their agreement with the answers.

        Right predictions disagree about as often as the answers' probabilities imply that these are wrong; further
        disagreement lowers the quality. Predicting the commonest class has quality 0: an untrained student would
        otherwise replace the answers permanently.
        """
        weights = self.given / self.given.sum()
        agreement = float(((predicted.argmax(1) == self.released.argmax(1)) * weights).sum())
        commonest = float((self.released * weights[:, None]).sum(0).max())
        claimed = float((self.released.amax(1) * weights).sum())
        informed = min(1.0, max(0.0, agreement - commonest) / max(claimed - commonest, 1e-6))
        # Answers may be overconfident, so that a tenth of disagreement is tolerated in part.
        excess = max(0.0, claimed - agreement) / max(1 - claimed, 0.1)
        return informed * max(0.0, 1 - excess)

    def _digest(self) -> str:
        """Return a digest that identifies the training: the recipe, the initial network, every image and target."""
        digest = hashlib.sha256(json.dumps(asdict(self.recipe) | {"device": self.device.type}).encode())
        for tensor in (*self.network.state_dict().values(), self.images, self.released, self.given):
            digest.update(str(tuple(tensor.shape)).encode())
            digest.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes())
        return digest.hexdigest()

    def _keep(self) -> None:
        if self.file is None:
            return
        tensors = state_of(self.parts, self.optimizer, ".") | {"targets": self.targets, "weights": self.weights}
        tensors |= {} if self.labels is None else {"said": self.labels}
        facts = {"digest": self.digest, "epoch": self.epoch, "spent": self.spent, "history": self.history}
        save_state(self.file, tensors, KEY, facts)

    def _resume(self) -> None:
        if self.file is None or not self.file.exists():
            return
        tensors, facts = read_state(self.file, KEY, WHAT)
        if facts.get("digest") != self.digest:
            raise InvalidInputError(
                f"checkpoint_dir={str(self.file.parent)!r} holds another training: other images, targets, settings or "
                "seed. Name another folder, or remove this one."
            )
        self.resumed = True
        at = {name: value.to(self.device) for name, value in tensors.items()}
        take_state(tensors, self.parts, self.optimizer, ".")
        self.targets, self.weights, self.labels = at["targets"], at["weights"], at.get("said")
        self.epoch, self.spent, self.history = int(facts["epoch"]), float(facts["spent"]), list(facts["history"])
