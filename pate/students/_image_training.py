"""Train an image student on public images and soft targets: everything in here is public."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional as F

from pate.core.files import atomic_path
from pate.core.seeds import training_seed
from pate.core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.networks._contract import logits_of
from pate.networks._generators import own_generator
from pate.representations.images._augment import Augmentation
from pate.students._image_views import views

_BLOCK = 512
_KEY = "pate.image-student"
#: The cosine ends here: the last steps at a small rate learn the wrong answers by heart (measured: 0.2 points).
_CUT = 0.7
#: No class is ruled out by less than this.
_LEAST = 1e-4
#: How little a row without an answer weighs while the student is in doubt about it.
_DOUBT = 2.0
#: So few rows may change their label in an epoch of a student that has settled.
_SETTLED = 1.0
#: Views of an image that a training asks the student's opinion of.
_VIEWS = 3
#: How far images are changed at strength 1, which suits glyphs; half of it suits clothes.
_CHANGES = Augmentation(
    rotate=12, scale=0.12, stretch=0.08, shear=0.15, shift=0.07, elastic=0.05, thicken=0.3, bright=0.2
)


@dataclass(frozen=True)
class Recipe:
    """Everything public that a training follows."""

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


def _cast(device: torch.device, bf16: bool) -> Any:
    return torch.autocast(device.type, torch.bfloat16) if bf16 else nullcontext()


def changes_of(strength: float, *, flip: bool, erase: float) -> Augmentation:
    """Return how far images are changed."""
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
    """Return the probabilities of images, on the device, in blocks: the mean over so many views."""
    network.eval()
    parts = []
    with torch.no_grad(), _cast(device, bf16):
        for block in images.split(_BLOCK):
            seen = views(block.to(device), changes or Augmentation(), n_views)
            said = [
                logits_of(network(v.contiguous(memory_format=torch.channels_last))).float().softmax(1) for v in seen
            ]
            parts.append(torch.stack(said).mean(0))
    return torch.cat(parts)


def last_features(network: nn.Module, images: torch.Tensor, device: torch.device) -> npt.NDArray[np.float32]:
    """Return what the last linear layer is told of each image, shape (n, n_features).

    Raises
    ------
    InvalidInputError
        The network has no linear layer.
    """
    layers = [module for module in network.modules() if isinstance(module, nn.Linear)]
    if not layers:
        raise InvalidInputError("network must have a linear layer for records to vote on what it is told.")
    told: list[torch.Tensor] = []
    hook = layers[-1].register_forward_pre_hook(lambda _, given: told.append(given[0].detach().flatten(1).float()))
    try:
        probabilities(network, images, device)
    finally:
        hook.remove()
    return torch.cat(told).cpu().numpy()


class Training:
    """One training: the network, its moving average, the moving targets, and where all of it stands.

    Parameters
    ----------
    network : nn.Module
    images : float32 array of shape (n, channels, height, width)
    targets : float array of shape (n, n_classes)
        Rows sum to 1; those of weight 0 are not looked at before the student has an opinion of its own.
    weights : float array of shape (n,)
    recipe : Recipe
    device : torch.device
    file : path or None
        Checkpoint, written after every epoch.
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
        self.images = torch.from_numpy(np.ascontiguousarray(images, dtype=np.float32)).to(device)
        self.released = torch.from_numpy(targets.astype(np.float32)).to(device)
        self.given = torch.from_numpy(weights.astype(np.float32)).to(device)
        self.targets, self.weights = self.released.clone(), self.given.clone()
        self.augmentation = changes_of(recipe.strength, flip=recipe.flip, erase=recipe.erase)
        # Batch norm cannot learn from one image: a rest of one joins the batch before.
        self.steps = max(1, round(len(images) / recipe.batch_size))
        self.optimizer = torch.optim.AdamW(
            self.network.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay
        )
        self.epoch, self.spent, self.history = 0, 0.0, list[dict[str, float]]()
        self.said: torch.Tensor | None = None
        self.resumed = False
        self.digest = self._digest()

    def run(self) -> Iterator[dict[str, float]]:
        """Train, from where the checkpoint left off; yields the facts of each epoch as it ends."""
        self._resume()
        while not self._done():
            begun = time.monotonic()
            with own_generator(training_seed(self.recipe.seed, 1, self.epoch), self.device):
                loss = self._one_epoch()
            # One more look at each epoch, and several where the answer counts.
            n_views = _VIEWS if self.recipe.views and self._progress(1.0) >= self.recipe.trust_from else 1
            opinion = probabilities(
                self.average,
                self.images,
                self.device,
                bf16=self.recipe.bf16,
                changes=self.augmentation,
                n_views=n_views,
            )
            said = opinion.argmax(1)
            changed = 1.0 if self.said is None else float((said != self.said).float().mean())
            self.said = said
            self.epoch += 1
            trust = self._adapt(opinion) if self._progress() >= self.recipe.trust_from else 0.0
            self.spent += time.monotonic() - begun
            agreement = float((said == self.released.argmax(1))[self.given > 0].float().mean())
            self.history.append({"loss": loss, "agreement": agreement, "changed": changed, "trust": trust})
            self._keep()
            yield self.history[-1]

    def _done(self) -> bool:
        r = self.recipe
        if r.patience is not None and len(self.history) >= r.patience + 1:
            last = self.history[-r.patience :]
            if self._progress() >= r.trust_from and all(h["changed"] * len(self.images) < _SETTLED for h in last):
                return True
        return self._progress() >= 1

    def _progress(self, within: float = 0.0) -> float:
        """Return the share of the training that is done, ``within`` an epoch's share of it further on."""
        r = self.recipe
        if r.seconds is None:
            return (self.epoch + within) / r.epochs
        each = self.spent / self.epoch if self.epoch else r.seconds / r.epochs
        # The last epoch is the one that would end nearest to the time given.
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
            with _cast(self.device, r.bf16):
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

    def _adapt(self, opinion: torch.Tensor) -> float:
        """Take the student's opinion as the prior of what was released: targets ~ released^weight * opinion^trust.

        A row without an answer has the opinion alone, and weighs as much as that is sure. Always from what was
        released: what the student once believed leaves no trace but in the student. Returns the trust.
        """
        trust = self.recipe.trust * self._merit(opinion)
        if not self.recipe.trust:
            return trust
        evidence = self.released.clamp_min(_LEAST).log() * self.given[:, None]
        self.targets = (evidence + trust * opinion.clamp_min(_LEAST).log()).softmax(1)
        sure = (self.targets.amax(1) - 1 / self.targets.shape[1]) / (1 - 1 / self.targets.shape[1])
        self.weights = torch.where(self.given > 0, self.given, sure.clamp_min(0.0) ** _DOUBT)
        return trust

    def _merit(self, opinion: torch.Tensor) -> float:
        """Return, from 0 to 1, what the opinion is worth, by how often it agrees with the answers.

        One that is right disagrees about as often as the answers claim to be wrong; what it disagrees beyond that is
        its own fault. Naming the commonest class has no merit: a student that knows nothing yet would overrule the
        answers for good.
        """
        weights = self.given / self.given.sum()
        agreement = float(((opinion.argmax(1) == self.released.argmax(1)) * weights).sum())
        commonest = float((self.released * weights[:, None]).sum(0).max())
        claimed = float((self.released.amax(1) * weights).sum())
        informed = min(1.0, max(0.0, agreement - commonest) / max(claimed - commonest, 1e-6))
        # Answers can be surer than they are right, so a tenth is always let pass in part.
        excess = max(0.0, claimed - agreement) / max(1 - claimed, 0.1)
        return informed * max(0.0, 1 - excess)

    def _digest(self) -> str:
        """Return by what a checkpoint knows its training: the recipe, the network's start, every image and target."""
        digest = hashlib.sha256(json.dumps(asdict(self.recipe) | {"device": self.device.type}).encode())
        for tensor in (*self.network.state_dict().values(), self.images, self.released, self.given):
            digest.update(str(tuple(tensor.shape)).encode())
            digest.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes())
        return digest.hexdigest()

    def _state(self) -> dict[str, torch.Tensor]:
        """Return everything that the next epoch hangs on, by name."""
        found = {f"network.{k}": v for k, v in self.network.state_dict().items()}
        found |= {f"average.{k}": v for k, v in self.average.state_dict().items()}
        for i, state in self.optimizer.state_dict()["state"].items():
            found |= {f"optimizer.{i}.{k}": v for k, v in state.items()}
        found |= {"targets": self.targets, "weights": self.weights}
        return found | ({} if self.said is None else {"said": self.said})

    def _keep(self) -> None:
        if self.file is None:
            return
        from safetensors.torch import save_file

        tensors = {k: v.detach().cpu().contiguous().clone() for k, v in self._state().items()}
        told = {"digest": self.digest, "epoch": self.epoch, "spent": self.spent, "history": self.history}
        with atomic_path(self.file) as path:
            save_file(tensors, path, metadata={_KEY: json.dumps(told)})

    def _resume(self) -> None:
        if self.file is None or not self.file.exists():
            return
        tensors, told = read_file(self.file, _KEY)
        if told.get("digest") != self.digest:
            raise InvalidInputError(
                f"checkpoint_dir={str(self.file.parent)!r} holds another training: other images, targets, settings or "
                "seed. Name another folder, or remove this one."
            )
        self.resumed = True
        at = {name: value.to(self.device) for name, value in tensors.items()}
        self.network.load_state_dict(_under(at, "network."))
        self.average.load_state_dict(_under(at, "average."))
        kept = self.optimizer.state_dict()
        for name, value in _under(tensors, "optimizer.").items():
            number, _, part = name.partition(".")
            kept["state"].setdefault(int(number), {})[part] = value
        self.optimizer.load_state_dict(kept)
        self.targets, self.weights, self.said = at["targets"], at["weights"], at.get("said")
        self.epoch, self.spent, self.history = int(told["epoch"]), float(told["spent"]), list(told["history"])


def read_file(path: str | os.PathLike[str], key: str) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Return the tensors of a safetensors file and the JSON under ``key``; nothing in it is run.

    Raises
    ------
    InvalidInputError
        It is not there, damaged, or of something else.
    """
    from safetensors import safe_open

    if not Path(path).is_file():
        raise InvalidInputError(f"path={os.fspath(path)!r} is no file. Name one that an image student was saved to.")
    try:
        with safe_open(os.fspath(path), framework="pt") as file:
            told = json.loads((file.metadata() or {})[key])
            tensors = {name: file.get_tensor(name) for name in sorted(file.keys())}
    except BaseException as error:  # any way in which a parser may fail; a panic in its Rust is no Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise InvalidInputError(
            f"{os.fspath(path)!r} is no intact file of an image student ({type(error).__name__}). Fit or fetch it anew."
        ) from None
    return tensors, told


def _under(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
