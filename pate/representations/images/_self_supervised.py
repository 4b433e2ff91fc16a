"""Networks that learn what public images have in common without any label."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pate.core.checks import check_choice, check_int, check_real
from pate.exceptions import InvalidInputError
from pate.networks._devices import has_bf16, one_device
from pate.networks._generators import own_generator
from pate.representations._exact import one_sign
from pate.representations.images._augment import Augmentation, fitting
from pate.representations.images._cells import check_image_shape
from pate.representations.images._encoders import Encoder
from pate.representations.images._pixels import ImageMap
from pate.representations.images._training import Recipe, train

#: Images shown in all when nobody says how often, and the fewest and most epochs this makes.
_SHOWN, _FEWEST, _MOST = 400_000, 20, 200


class SelfSupervised(ImageMap):
    """A network trained on public images so that two changed views of one image are near, and not all images are.

    A vector is what the network's convolutions see, scaled to length 1 and turned to the principal axes of the public
    images. Vectors put images of one class together where the changes (:class:`Augmentation`) leave the class as
    it is. Which they are nobody can learn from private images: the public ones' looks decide, and none are mirrored.

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
        At least 2; each image of a batch is told apart from all others in it.
    temperature : float
        Of ``"simclr"`` only; smaller ones look at the nearest others only.
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
        Where a training is kept while it runs, so that one that was cut off goes on.
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

    _passing = ("device", "checkpoint_dir", "verbose")
    _block_rows = 512
    slow_ = True

    def __init__(
        self,
        *,
        n_features: int = 256,
        objective: str = "simclr",
        width: int = 32,
        epochs: int | str = "auto",
        batch_size: int = 256,
        temperature: float = 0.2,
        learning_rate: float = 2e-3,
        weight_decay: float = 1e-4,
        augmentation: Any = "auto",
        image_shape: Any = None,
        random_state: int = 0,
        device: str = "auto",
        precision: str = "auto",
        checkpoint_dir: str | os.PathLike[str] | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_features = n_features
        self.objective = objective
        self.width = width
        self.epochs = epochs
        self.batch_size = batch_size
        self.temperature = temperature
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.augmentation = augmentation
        self.image_shape = image_shape
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.checkpoint_dir = checkpoint_dir
        self.verbose = verbose

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
            raise InvalidInputError("X_public has one image: nothing to tell it apart from. Pass more public images.")
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
        with own_generator(0):  # a module draws its first weights, which are replaced, from everybody's generator
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
        """Return the parameters that a file keeps; bounds of the augmentation by name."""
        kept = super()._settings()
        wanted = self.augmentation
        return kept | {"augmentation": wanted if wanted == "auto" else Augmentation.of(wanted).as_dict()}

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
