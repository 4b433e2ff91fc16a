"""A student for images: a small network trained on all public images with weighted soft targets."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from pate._core.checks import check_choice, check_int, check_real, shown
from pate._core.files import check_can_write
from pate._core.progress import track
from pate._core.secret import training_seed
from pate._core.types import FloatArray
from pate.data import read_numbers
from pate.exceptions import InvalidInputError, SensitiveValueError
from pate.models.students._spreading import released_labels, spread
from pate.representations import Representation, private_kind
from pate.votes import ABSTAIN

if TYPE_CHECKING:
    import torch

    from pate.models.students._image_training import Recipe


# Validation of an image student's input.


def read_shape(given: Any, found: tuple[int, ...]) -> tuple[int, int, int]:
    """Return (channels, height, width) of the images, as given, or else as found."""
    from pate.networks import square_image_shape

    if given is not None:
        if not isinstance(given, list | tuple) or len(given) not in (2, 3):
            raise InvalidInputError(f"image_shape must be (channels, height, width), got {shown(given)}.")
        sides = tuple(check_int(f"image_shape[{i}]", side, low=1) for i, side in enumerate(given))
        shape = sides if len(sides) == 3 else (1, *sides)
    elif len(found) == 2:
        shape = square_image_shape(found[1])
    elif len(found) in (3, 4):
        shape = tuple(found[1:]) if len(found) == 4 else (1, *found[1:])
    else:
        raise InvalidInputError(f"X must be images of shape (channels, height, width) or flat ones, got {found[1:]}.")
    if min(shape[1:]) < 4:
        raise InvalidInputError(f"image_shape must have at least 4 pixels each way, got {shape}.")
    return (shape[0], shape[1], shape[2])


def read_targets(y: Any, weights: Any, n_rows: int, label_error: float) -> tuple[FloatArray, FloatArray]:
    """Check targets, and return probabilities and weights; rows without an answer get uniform ones and weight 0."""
    table = np.asarray(y)
    if table.ndim == 2:
        table = read_numbers(y, name="y", user="ImageStudent", missing=True).astype(np.float64)
        if len(table) != n_rows or table.shape[1] < 2:
            raise InvalidInputError(
                f"y must have shape ({n_rows}, n_classes), the probabilities of every public row, got {table.shape}."
            )
        answered = ~np.isnan(table).any(axis=1)
        sums = table[answered].sum(axis=1, keepdims=True)
        if (table[answered] < 0).any() or (sums <= 0).any():
            raise InvalidInputError(
                "y must hold probabilities >= 0 with a sum > 0 in each row, NaN rows where there is no answer. A "
                "head's predict_proba gives them; scores are not probabilities."
            )
        even = np.full_like(table, 1 / table.shape[1])
        even[answered] = table[answered] / sums
        table = even
    else:
        labels = released_labels(y, n_rows)
        answered = labels != ABSTAIN
        n_classes = max(2, int(labels.max(initial=0)) + 1)
        table = np.full((n_rows, n_classes), 1 / n_classes)
        table[answered] = probabilities_of(labels[answered], n_classes, label_error)
    if weights is None:
        given = np.ones(n_rows)
    else:
        given = (
            read_numbers(np.reshape(weights, (-1, 1)), name="weights", user="ImageStudent").ravel().astype(np.float64)
        )
        if len(given) != n_rows or (given < 0).any() or (given > 1).any():
            raise InvalidInputError(f"weights must be {n_rows} numbers from 0 to 1, one per public row.")
    given = given * answered
    if not given.any():
        raise InvalidInputError("y must hold at least one answer of weight > 0, got none. Ask about more public rows.")
    return table, given


def probabilities_of(labels: npt.NDArray[Any], n_classes: int, label_error: float) -> FloatArray:
    """Return the probabilities of labels of which such a share is wrong, shape (n, n_classes)."""
    return np.asarray(label_error / n_classes + (1 - label_error) * np.eye(n_classes)[labels])


def refuse_private(name: str, value: Any) -> None:
    """Refuse an object of a private type."""
    private = private_kind(value)
    if private is not None:
        raise SensitiveValueError(f"{name} must be public, got a {private}. Pass public rows and released values.")


_FORMAT = 1


@dataclass(repr=False, eq=False)
class ImageStudent(ClassifierMixin, BaseEstimator):
    """A student for images: a convolutional network trained on all public images, with or without a released label.

    Targets are probabilities, each with a weight. Images are augmented at random. A moving average of the network's
    weights is the student. After a part of the training its predictions become the prior of the targets: they replace
    uncertain answers, while sure ones stay (self-adaptive targets, after Huang et al. 2020; a mean teacher, after
    Tarvainen and Valpola 2017, which predicts the images without augmentation once an epoch).

    Few answers (fewer than 500, and than a tenth of 1,000 rows or more) are first spread over the graph of nearest
    neighbours of all public images, seen through a self-supervised network, and the student is trained on the labels
    that every image then has: answers around a wrong one outvote it (``spread_over``).

    All inputs are public, so training is post-processing, and costs no privacy.

    Parameters
    ----------
    image_shape : (channels, height, width) or None
        None: flat rows are taken as square images with 1 or 3 channels.
    network : str, nn.Module class, or function that makes one
        ``"student-cnn"``, or one of :func:`pate.networks.named_modules`. A class is made with ``n_features`` and
        ``n_classes`` where it takes them, gets (batch, channels, height, width), and returns logits.
    init : nn.Module, fitted representation that holds one, or None
        Pre-trained on public images: a copy of it with a fresh linear layer is trained, and ``network`` is not used.
    epochs : int or "auto"
        ``"auto"`` takes 20, and up to 100 where few images make few steps.
    seconds : float or None
        Duration of training, in place of ``epochs``; two runs then differ in their number of steps.
    batch_size : int
    learning_rate, weight_decay : float
        Parameters of AdamW; the rate rises for two epochs, then falls as a cosine to a fifth.
    augmentation : float
        Strength of the random augmentation; 0 is none. 1 suits glyphs, 0.5 clothes.
    flip : bool
        Whether to mirror images left to right at random.
    erase : float
        Largest side of a blanked rectangle, as a share of the image's.
    trust : float
        Weight of the student's predictions relative to released answers, as an exponent; 0 leaves the targets. It is
        reduced while predictions agree with fewer answers than the targets' probabilities imply.
    trust_from : float
        The share of the training after which ``trust`` applies.
    label_error : float
        The assumed share of wrong labels, where targets are labels and not probabilities.
    spread_over : "auto", representation or None
        The public map whose nearest neighbours share a label, where there are few answers; a copy of it is fitted on
        the images. ``"auto"`` is :class:`~pate.representations.images.SelfSupervised`, 10 epochs for 9,000 images. None
        trains on the answers alone.
    ema_epochs : float
        Time constant, in epochs, of the moving average of the weights.
    average_views : bool
        Predictions are the mean over the image and some slightly turned or scaled copies (MNIST: a fifth fewer errors),
        which takes five times as long.
    patience : int or None
        Stop when no row changed its label for so many epochs, a public fact.
    precision : "auto", "float32" or "bfloat16"
        Number format of training. ``"auto"`` takes bfloat16 where it is faster on this machine. Predictions are
        float32.
    device : str
        ``"auto"`` takes a GPU where there is one.
    random_state : int or None
    checkpoint_dir : path or None
        Folder where the training is saved after every epoch (safetensors); an interrupted fit resumes from it, on the
        CPU with identical results. It is not removed afterwards. A checkpoint of another training is refused.
    verbose : bool
        A progress bar.

    Attributes
    ----------
    classes_ : int64 array of shape (n_classes,)
    network_ : nn.Module
        The averaged network, on the CPU, in evaluation mode.
    history_ : list of dict
        Per epoch: ``loss``; ``agreement`` of the student with the (spread) answers; ``changed``, the share of rows
        whose label it changed; ``trust``, the weight of its predictions.
    targets_ : float array of shape (n_public, n_classes)
        The final targets of every public row, from released answers and the student's predictions.
    spread_labels_ : int array of shape (n_public,), or None
        The label of each public image after the answers were spread; None where they were not.
    image_shape_ : (channels, height, width)
    resumed_ : bool
        Whether the fit was resumed from ``checkpoint_dir``.

    Notes
    -----
    The same seed, data, precision and number of threads give the same student on the CPU.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = np.arange(60) % 2
    >>> images = rng.uniform(size=(60, 8, 8)) * 0.2
    >>> images[truth == 1, 2:6, 2:6] += 0.8
    >>> some = np.where(np.arange(60) < 40, truth, -1)
    >>> student = ImageStudent(epochs=10, batch_size=10, random_state=0, device="cpu").fit(
    ...     images, some
    ... )
    >>> float((student.predict(images) == truth).mean()) > 0.9
    True
    """

    image_shape: Any = None
    _: KW_ONLY
    network: Any = "student-cnn"
    init: Any = None
    epochs: int | str = "auto"
    seconds: float | None = None
    batch_size: int = 128
    learning_rate: float = 3e-3
    weight_decay: float = 1e-3
    augmentation: float = 1.0
    flip: bool = False
    erase: float = 0.3
    trust: float = 2.0
    trust_from: float = 0.4
    label_error: float = 0.05
    spread_over: Any = "auto"
    ema_epochs: float = 2.0
    average_views: bool = True
    patience: int | None = None
    precision: str = "auto"
    device: str = "auto"
    random_state: int | None = None
    checkpoint_dir: str | os.PathLike[str] | None = None
    verbose: bool = False

    def fit(self, X: Any, y: Any, weights: Any = None) -> Self:
        """Train on public images and their released answers.

        Parameters
        ----------
        X : float array of shape (n_public, n_features), (n_public, height, width) or (n_public, channels, height,
            width). All public images, those without an answer too.
        y : int array of shape (n_public,), or float array of shape (n_public, n_classes)
            Released class indices, ``ABSTAIN`` (-1) where there is none; or probabilities, NaN rows where there are
            none. Rows are divided by their sums.
        weights : float array of shape (n_public,) or None
            Weight of each answer, from 0 (ignored) to 1 (full).

        Raises
        ------
        InvalidInputError
            Images of another shape or with missing pixels, targets or weights of other lengths or kinds, no answer at
            all, or a setting out of bounds.
        SensitiveValueError
            Something private was passed.
        """
        for name, value in (("X", X), ("y", y), ("weights", weights)):
            refuse_private(name, value)
        images = self._images(X, learn=True)
        if len(images) < 2:
            raise InvalidInputError("X must have at least two images, got n_samples=1.")
        recipe, device = self._recipe(len(images))
        targets, given = read_targets(y, weights, len(images), self.label_error)

        from pate.models.students._image_training import Training, make_network
        from pate.networks import own_generator

        file = None if self.checkpoint_dir is None else Path(self.checkpoint_dir) / FILE
        if file is not None:
            check_can_write("checkpoint_dir", file)
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.spread_labels_ = self._spread(images, targets, given, recipe)
        if self.spread_labels_ is not None:
            targets = probabilities_of(self.spread_labels_, targets.shape[1], self.label_error)
            given = np.ones(len(images))
        with own_generator(training_seed(recipe.seed, 0)):
            network = make_network(self.network, self.init, self.image_shape_, targets.shape[1])
        training = Training(network, images, targets, given, recipe, device, file)
        for _ in track(training.run(), total=recipe.epochs, label="student", show=self.verbose):
            pass
        self.history_, self.resumed_ = training.history, training.resumed
        self.targets_ = training.targets.double().cpu().numpy()
        self.classes_ = np.arange(targets.shape[1])
        self.network_ = training.average.cpu().eval()
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of images, shape (n, n_classes)."""
        check_is_fitted(self, "network_")
        from pate.models.students._image_training import changes_of, probabilities

        changes = changes_of(float(self.augmentation), flip=bool(self.flip), erase=0.0)
        found = self._on_device(
            probabilities, self._images(X), changes=changes, n_views=_VIEWS if self.average_views else 1
        )
        return np.asarray(found.double().cpu().numpy())

    def predict(self, X: Any) -> npt.NDArray[np.int64]:
        """Return the class indices of images, shape (n,)."""
        return np.asarray(self.predict_proba(X).argmax(axis=1), dtype=np.int64)

    def _spread(
        self, images: npt.NDArray[np.float32], targets: FloatArray, given: FloatArray, recipe: Recipe
    ) -> npt.NDArray[np.int64] | None:
        """Return the label of each image by spreading the answers, or None where there are many."""
        seen_by, n_answers = self.spread_over, int((given > 0).sum())
        if seen_by is None or n_answers >= min(_FEW, len(images) / 10) or len(images) < _MANY:
            return None
        if isinstance(seen_by, str):
            from pate.representations.images import SelfSupervised

            seen_by = SelfSupervised(
                epochs=max(_SHOWN[0], min(_SHOWN[1], _SHOWN[2] // len(images))),
                image_shape=self.image_shape_,
                random_state=training_seed(recipe.seed, 3),
                precision="bf16" if recipe.bf16 else "float32",
                **{name: getattr(self, name) for name in ("device", "checkpoint_dir", "verbose")},
            )
        evidence = np.eye(targets.shape[1])[targets.argmax(axis=1)] * given[:, None]
        # Classes weigh alike, as a class asked about more often would win the rows between; a single answer, less.
        evidence /= 1 + evidence.sum(axis=0)
        rows = clone(seen_by).fit(images).transform(images)
        return np.asarray(spread(rows, evidence, _NEIGHBOURS, _REACH).argmax(axis=1))

    def _last_features(self, images: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the input of the last layer for each image."""
        from pate.models.students._image_training import last_features

        return np.asarray(self._on_device(last_features, images))

    def _on_device(self, ask: Any, images: npt.NDArray[np.float32], **how: Any) -> Any:
        import torch

        from pate.networks import one_device

        device = one_device(self.device)
        try:
            return ask(self.network_.to(device), torch.from_numpy(images), device, **how)
        finally:
            self.network_.cpu()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted student as a safetensors file with the settings as JSON, without pickle.

        Code (a ``network`` that is no name, ``init``) is not saved, and must be given to :meth:`load` again.
        """
        check_is_fitted(self, "network_")
        from pate.models.students._image_training import KEY
        from pate.networks import save_state

        settings = {k: v for k, v in self.get_params(deep=False).items() if k not in _NOT_SAVED}
        settings["network"] = self.network if isinstance(self.network, str) else None
        facts = {
            "format": _FORMAT,
            "settings": settings | {"image_shape": list(self.image_shape_)},
            "init": self.init is not None,
            "n_classes": len(self.classes_),
            "history": self.history_,
        }
        save_state(path, self.network_.state_dict(), KEY, facts)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, network: Any = None, init: Any = None) -> ImageStudent:
        """Read a student that was saved; nothing in the file is run.

        ``network`` and ``init`` are those that the student was made with, if they are not names: they give the
        architecture, and the file the weights. A file that is missing, damaged, of something else or of another
        architecture is an InvalidInputError.
        """
        from pate.models.students._image_training import KEY, WHAT, make_network
        from pate.networks import own_generator, read_state

        tensors, facts = read_state(path, KEY, WHAT)
        if facts.get("format") != _FORMAT:
            raise InvalidInputError(
                f"{os.fspath(path)!r} is of format {shown(facts.get('format'))}; this version of pate reads {_FORMAT}."
            )
        settings = dict(facts["settings"])
        if settings["network"] is None or network is not None:
            settings["network"] = network
        needed = "init" if facts["init"] else "network"
        if (init is None) == facts["init"] or (settings["network"] is None and not facts["init"]):
            raise InvalidInputError(
                f"{needed} must be given as the student was made: {os.fspath(path)!r} holds weights only."
            )
        student = cls(**settings | {"image_shape": tuple(settings["image_shape"])}, init=init)
        student.image_shape_ = student.image_shape
        student.classes_ = np.arange(int(facts["n_classes"]))
        student.history_ = list(facts["history"])
        with own_generator(0):  # drawn weights are replaced
            made = make_network(student.network, init, student.image_shape_, len(student.classes_))
        try:
            made.load_state_dict(tensors)
        except RuntimeError as error:
            raise InvalidInputError(f"{needed} is not the network of {os.fspath(path)!r}: {error}") from None
        import torch

        # The memory format of training, for the same sums to the last bit.
        laid_out = made.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        student.network_ = laid_out.eval().requires_grad_(False)
        return student

    def _recipe(self, n_rows: int) -> tuple[Recipe, torch.device]:
        """Return the checked settings, and the device."""
        from pate.models.students._image_training import Recipe
        from pate.networks import has_bf16, one_device

        device = one_device(self.device)
        check_choice("precision", self.precision, ("auto", "float32", "bfloat16"))
        for name in ("flip", "average_views", "verbose"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise InvalidInputError(f"{name} must be True or False, got {shown(getattr(self, name))}.")
        seed = self.random_state if self.random_state is None else check_int("random_state", self.random_state, low=0)
        if seed is None and self.checkpoint_dir is not None:
            raise InvalidInputError(
                "random_state must be given with checkpoint_dir, got None: a fit without a seed cannot be resumed."
            )
        check_int("batch_size", self.batch_size, low=2)
        open_ends: dict[str, Any] = {"low": 0, "low_open": True}
        recipe = Recipe(
            epochs=self._epochs(n_rows),
            seconds=None if self.seconds is None else check_real("seconds", self.seconds, **open_ends),
            batch_size=int(self.batch_size),
            learning_rate=check_real("learning_rate", self.learning_rate, **open_ends),
            weight_decay=check_real("weight_decay", self.weight_decay, low=0),
            strength=check_real("augmentation", self.augmentation, low=0, high=4),
            flip=bool(self.flip),
            erase=check_real("erase", self.erase, low=0, high=1),
            trust=check_real("trust", self.trust, low=0),
            trust_from=check_real("trust_from", self.trust_from, low=0, high=1),
            ema_epochs=check_real("ema_epochs", self.ema_epochs, **open_ends),
            patience=None if self.patience is None else check_int("patience", self.patience, low=1),
            views=bool(self.average_views),
            bf16=has_bf16(device) if self.precision == "auto" else self.precision == "bfloat16",
            seed=training_seed(seed),
        )
        check_real("label_error", self.label_error, low=0, high=1, high_open=True)
        if not isinstance(self.spread_over, Representation | None):
            check_choice("spread_over", self.spread_over, ("auto",), remedy="Or None, or one of pate.representations.")
        return recipe, device

    def _epochs(self, n_rows: int) -> int:
        if self.epochs != "auto":
            return check_int("epochs", self.epochs, low=1, remedy="Or 'auto'.")
        return max(_EPOCHS[0], min(_EPOCHS[1], round(_STEPS * self.batch_size / n_rows)))

    def _images(self, X: Any, *, learn: bool = False) -> npt.NDArray[np.float32]:
        rows = read_numbers(X, user="ImageStudent")
        if learn:
            self.image_shape_ = read_shape(self.image_shape, rows.shape)
        shape = self.image_shape_
        if rows.shape[1:] not in (shape, (int(np.prod(shape)),)) and (shape[0] != 1 or rows.shape[1:] != shape[1:]):
            raise InvalidInputError(
                f"X must have images of shape {shape}, or flat ones, got {rows.shape[1:]} each. Pass "
                "images of the shape that the student was fitted on."
            )
        return np.ascontiguousarray(rows.reshape(len(rows), *shape), dtype=np.float32)


#: Views of an image that a prediction is the mean over.
_VIEWS = 5
#: Fewest and most epochs that "auto" takes, and how many steps it would have.
_EPOCHS, _STEPS = (20, 100), 1400
#: Answers are spread where they are fewer and images are more: over so many neighbours, and so far (Zhou's alpha).
_FEW, _MANY, _NEIGHBOURS, _REACH = 500, 1000, 7, 0.99
#: Fewest and most epochs of the self-supervised network, and how many images it would be shown.
_SHOWN = (5, 100, 90_000)


#: A fit's file in its ``checkpoint_dir``.
FILE = "student.safetensors"
#: Settings of a run, not of a student.
_NOT_SAVED = ("image_shape", "init", "spread_over", "device", "checkpoint_dir", "verbose")
