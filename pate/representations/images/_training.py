"""Training a network on public images without labels, so that it can go on where it was cut off."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pate.core.files import atomic_path
from pate.core.progress import track
from pate.core.seeds import training_seed
from pate.exceptions import CheckpointWarning
from pate.networks._generators import own_generator
from pate.representations.images._augment import Augmentation
from pate.representations.images._encoders import Encoder
from pate.representations.images._losses import simclr, vicreg

#: Seconds between two checkpoints; epochs are not cut.
_OFTEN = 30.0
#: A change of how networks are trained makes earlier checkpoints strangers.
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

    Parameters
    ----------
    images : float32 array of shape (n, channels, height, width)
        Public images in [0, 1].
    recipe : Recipe
    device : torch device
    folder : path or None
        Checkpoints are kept here; a training that was cut off goes on from its last one, to the same end.
    show : bool
        A progress bar over the epochs.
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
        rows, kept = torch.from_numpy(images), time.monotonic()
        left = range(state.epoch, recipe.epochs)
        for epoch in track(left, total=len(left), label="self-supervised epochs", show=show):
            state.losses += (_epoch(state, rows, recipe, epoch, device),)
            state.epoch = epoch + 1
            if file is not None and (time.monotonic() - kept > _OFTEN or state.epoch == recipe.epochs):
                _keep(state, file)
                kept = time.monotonic()
    return encoder.eval().cpu(), state.losses


def _epoch(state: _State, images: torch.Tensor, recipe: Recipe, epoch: int, device: torch.device) -> float:
    """Show every image twice, changed at random; whatever is drawn hangs on the seed and the epoch alone."""
    order = torch.Generator().manual_seed(training_seed(recipe.seed, 1, epoch))
    changes = torch.Generator(device=device).manual_seed(training_seed(recipe.seed, 2, epoch))
    size = min(recipe.batch_size, len(images))
    steps = len(images) // size
    turns = torch.randperm(len(images), generator=order)
    state.encoder.train()
    total = 0.0
    for step in range(steps):
        _set_rate(state.optimizer, recipe, epoch * steps + step, recipe.epochs * steps)
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


def _set_rate(optimizer: torch.optim.Optimizer, recipe: Recipe, step: int, steps: int) -> None:
    """Up in a line over a twentieth of the steps, at most 60, then down along a half cosine."""
    warm = min(1.0, (step + 1) / max(1, min(60, steps // 20)))
    for group in optimizer.param_groups:
        group["lr"] = recipe.learning_rate * warm * (1 + math.cos(math.pi * step / steps)) / 2


def _key(images: npt.NDArray[np.float32], recipe: Recipe) -> str:
    text = json.dumps({"version": _VERSION, "shape": list(images.shape), **asdict(recipe)}, sort_keys=True)
    digest = hashlib.sha256(text.encode())
    digest.update(np.ascontiguousarray(images).tobytes())
    return digest.hexdigest()[:32]


def _keep(state: _State, file: Path) -> None:
    from safetensors.torch import save_file

    tensors = {f"encoder/{k}": v.detach().cpu().contiguous() for k, v in state.encoder.state_dict().items()}
    for number, moments in state.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{number}/{k}": v.detach().cpu().contiguous() for k, v in moments.items()}
    words = json.dumps({"epoch": state.epoch, "losses": state.losses})
    with atomic_path(file) as beside:
        save_file(tensors, beside, metadata={"training": words})


def _resume(state: _State, file: Path) -> None:
    """Take up a checkpoint; a damaged one is left, and training begins anew."""
    from safetensors import safe_open

    moments: dict[int, dict[str, Any]] = {}
    try:
        with safe_open(os.fspath(file), framework="pt") as kept:
            words = json.loads(kept.metadata()["training"])
            tensors = {name: kept.get_tensor(name) for name in kept.keys()}  # noqa: SIM118
        for name, value in tensors.items():
            if name.startswith("optimizer/"):
                _, number, moment = name.split("/")
                moments.setdefault(int(number), {})[moment] = value
        weights = {n.removeprefix("encoder/"): v for n, v in tensors.items() if n.startswith("encoder/")}
        epoch, losses = int(words["epoch"]), tuple(map(float, words["losses"]))
        state.encoder.load_state_dict(weights)
    except Exception as error:  # whatever a damaged file leads to
        warnings.warn(
            f"{file.name} is damaged ({type(error).__name__}): training begins anew.", CheckpointWarning, stacklevel=3
        )
        return
    # A fused optimiser goes through memory: its moments lie as their parameters do, channels last.
    parameters = list(state.encoder.parameters())
    for number, kept_moments in moments.items():
        for name, value in kept_moments.items():
            if value.ndim:
                kept_moments[name] = torch.empty_like(parameters[number]).copy_(value)
    groups = state.optimizer.state_dict()["param_groups"]
    state.optimizer.load_state_dict({"state": moments, "param_groups": groups})
    state.epoch, state.losses = epoch, losses
