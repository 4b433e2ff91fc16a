"""DP-SGD (Abadi et al. 2016) as a scikit-learn classifier: the baseline PATE is measured against."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from pate._random import NoiseSource, training_seed
from pate._validation import check_choice, check_classes, check_int, check_real, encode_labels
from pate.baselines._calibration import (
    ADJACENCIES,
    calibrate_noise_multiplier,
    discretization_interval,
    dpsgd_epsilon,
)
from pate.baselines._statement import dpsgd_statement
from pate.baselines._training import PoissonSampler, train
from pate.baselines.modules import build_module
from pate.exceptions import (
    BudgetExceededError,
    InvalidInputError,
    PrivacyLeakWarning,
    PrivacyParameterWarning,
)
from pate.privacy.budget import Budget
from pate.privacy.guarantee import Guarantee

_PREDICTION_ROWS = 4096


class DPSGDClassifier(ClassifierMixin, BaseEstimator):
    """Train a torch module with differentially private stochastic gradient descent.

    Parameters
    ----------
    module : {"linear", "mlp", "cnn"}, a torch.nn.Module class, or a function that makes a module
        Made anew by every fit as ``module(n_features=..., n_classes=..., **module_kwargs)``; maps a float32
        tensor (batch, n_features) to logits (batch, n_classes). A module that already exists is refused: it would
        carry what it learnt before. Nothing in it may mix the records of a batch (group norm instead of batch norm).
    budget : Budget
        Spent whole by each fit.
    max_grad_norm : float
        L2 norm to which each record's gradient is clipped.
    epochs : int
        Of ceil(n / expected_batch_size) steps each.
    expected_batch_size : int
        Each record enters a step with probability expected_batch_size / n, independently.
    learning_rate : float
        Of the noisy clipped sum divided by the *expected* batch size.
    optimizer : {"sgd", "adam"}
    momentum : float
        Of sgd only.
    module_kwargs : mapping or None
        More arguments of ``module``, such as ``{"hidden": (128,)}``.
    classes : sequence or None
        Every class that could occur: public knowledge. None reads them off y, with a warning.
    max_physical_batch_size : int
        Records whose gradients are held at once; has no effect on the result.
    noise_multiplier : float or None
        None takes the least noise the budget allows. A number is checked against the budget.
    adjacency : {"replace-one", "add-or-remove"}
        Replace-one, as everywhere in this package, gives epsilons that compare with PATE's. Most published DP-SGD
        epsilons are for add-or-remove, and smaller at the same noise (by half, where much noise is added).
    device : str
        ``"auto"`` takes a CUDA device where there is one.
    n_threads : int or None
        CPU threads of torch during fit and predict. One is fastest for small modules, by far when other processes
        want the same cores; None leaves torch as it is.
    random_state : int or None
        Of the initial weights and of dropout. Not of the noise.
    noise_seed : int or None
        For tests and experiments only: makes samples and noise repeatable, and then nothing is private.
    verbose : bool
        Show a progress bar on standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    noise_multiplier_ : float
        Standard deviation of the noise on the summed gradients, in units of ``max_grad_norm``.
    n_steps_ : int
    sample_rate_ : float
    module_ : torch.nn.Module
        The trained module, on the CPU.
    guarantee_ : Guarantee
    statement_ : PrivacyStatement

    Notes
    -----
    **Guarantees.** The trained parameters, those of every intermediate step included, are (epsilon,
    delta)-differentially private for one record under ``adjacency``; the module ``pate.baselines._calibration`` has
    the theorem. The number of records and all parameters above are taken as public. Each fit is a fresh spend:
    searching over k settings costs k budgets. Features are used as they come: scale them by public knowledge
    (pixel / 255) or with statistics of public data, never with statistics of the private rows.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from pate import Budget, DPSGDClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = DPSGDClassifier("linear", budget=Budget(8.0, 1e-4), classes=range(10), epochs=5, random_state=0)
    >>> bool(clf.fit(X[:1200] / 16, y[:1200]).score(X[1200:] / 16, y[1200:]) > 0.5)
    True
    >>> clf.guarantee_.epsilon <= 8.0
    True
    """

    def __init__(
        self,
        module: str | Callable[..., nn.Module],
        *,
        budget: Budget,
        max_grad_norm: float = 1.0,
        epochs: int = 20,
        expected_batch_size: int = 256,
        learning_rate: float = 0.25,
        optimizer: str = "sgd",
        momentum: float = 0.9,
        module_kwargs: Mapping[str, Any] | None = None,
        classes: Any = None,
        max_physical_batch_size: int = 64,
        noise_multiplier: float | None = None,
        adjacency: str = "replace-one",
        device: str = "cpu",
        n_threads: int | None = 1,
        random_state: int | None = None,
        noise_seed: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.module = module
        self.budget = budget
        self.max_grad_norm = max_grad_norm
        self.epochs = epochs
        self.expected_batch_size = expected_batch_size
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.momentum = momentum
        self.module_kwargs = module_kwargs
        self.classes = classes
        self.max_physical_batch_size = max_physical_batch_size
        self.noise_multiplier = noise_multiplier
        self.adjacency = adjacency
        self.device = device
        self.n_threads = n_threads
        self.random_state = random_state
        self.noise_seed = noise_seed
        self.verbose = verbose

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> DPSGDClassifier:
        """Train on private records, spending the budget once.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Finite numbers on a scale fixed without looking at these rows.
        y : array-like of shape (n,)
            Class values.

        Returns
        -------
        DPSGDClassifier
            This object. When anything fails, or on Ctrl-C, it stays exactly as it was before.

        Raises
        ------
        InvalidInputError
            A value is out of range, or the module cannot be trained with differential privacy.
        BudgetExceededError
            ``noise_multiplier`` is too small for the budget.

        Examples
        --------
        >>> import numpy as np
        >>> from pate import Budget, DPSGDClassifier
        >>> clf = DPSGDClassifier("linear", budget=Budget(1.0, 1e-3), classes=[0, 1], expected_batch_size=8)
        >>> clf.fit(np.eye(16), np.arange(16) % 2).n_steps_
        40
        """
        before = dict(self.__dict__)
        try:
            return self._fit(X, y)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> DPSGDClassifier:
        if not isinstance(self.budget, Budget):
            raise InvalidInputError(
                f"budget must be a pate.Budget, got {type(self.budget).__name__}. Pass Budget(epsilon=1.0, delta=1e-5)."
            )
        features, labels, classes = self._check_data(X, y)
        n_records, n_features = features.shape
        self._check_numbers(n_records)
        source = NoiseSource(self.noise_seed)
        device = _device(self.device)
        n_steps = self.epochs * -(-n_records // self.expected_batch_size)
        sample_rate = self.expected_batch_size / n_records
        sigma, guarantee = self._account(sample_rate, n_steps)

        cuda = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(devices=cuda), warnings.catch_warnings(), _threads(self.n_threads):
            _seed_torch(training_seed(self.random_state, 0), device)
            gradients = build_module(self.module, self._row_shape, len(classes), self.module_kwargs)
            module = gradients.module.to(device)
            trained = train(
                gradients,
                torch.from_numpy(features).to(device),
                torch.from_numpy(labels).to(device),
                sampler=PoissonSampler(n_records, sample_rate, n_steps, source),
                optimizer=self._make_optimizer(module),
                noise_multiplier=sigma,
                max_grad_norm=self.max_grad_norm,
                expected_batch_size=self.expected_batch_size,
                max_physical_batch_size=self.max_physical_batch_size,
                random_state=self.random_state,
                shared_draws=self.adjacency == "add-or-remove",
                show=self.verbose,
            )

        self.classes_ = np.asarray(classes)
        self.noise_multiplier_, self.n_steps_, self.sample_rate_ = sigma, n_steps, sample_rate
        self.module_ = trained
        self.guarantee_ = guarantee
        self.statement_ = dpsgd_statement(
            guarantee,
            n_records=n_records,
            n_steps=n_steps,
            sample_rate=sample_rate,
            noise_multiplier=sigma,
            max_grad_norm=self.max_grad_norm,
            interval=discretization_interval(self.budget.epsilon, n_steps),
            classes_given=self.classes is not None,
            seeded=source.seeded,
        )
        return self

    def _check_data(
        self, X: npt.ArrayLike, y: npt.ArrayLike
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64], tuple[Any, ...]]:
        if y is None:
            raise InvalidInputError(
                "DPSGDClassifier requires y to be passed, but the target y is None. Pass one class per row."
            )
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused just below
                features = validate_data(self, X, dtype=np.float32)
                target = column_or_1d(y, warn=True)
                check_classification_targets(target)
            if len(target) != len(features):
                raise ValueError(
                    f"X and y must have as many rows, got {len(features)} and {len(target)}. Pass one class per row."
                )
            check_classification_targets(target)
        except ValueError as error:
            raise InvalidInputError(str(error)) from error
        classes = self.classes
        if classes is None:
            warnings.warn(
                "classes=None: the set of classes is read off the private labels and becomes public with the "
                "model. Pass classes=, the list of every class that could occur.",
                PrivacyLeakWarning,
                stacklevel=4,
            )
            classes = np.unique(target)
            if len(classes) < 2:
                raise InvalidInputError("y holds 1 class: there is nothing to tell apart. Pass classes=.")
        values = check_classes(classes)
        return features, encode_labels("y", target, values), values

    def _check_numbers(self, n_records: int) -> None:
        check_real("max_grad_norm", self.max_grad_norm, low=0, low_open=True)
        check_real("learning_rate", self.learning_rate, low=0, low_open=True)
        check_real("momentum", self.momentum, low=0, high=1, high_open=True)
        check_int("epochs", self.epochs, low=1)
        check_int("max_physical_batch_size", self.max_physical_batch_size, low=1)
        check_choice("optimizer", self.optimizer, ["sgd", "adam"])
        check_choice("adjacency", self.adjacency, ADJACENCIES)
        if self.n_threads is not None:
            check_int("n_threads", self.n_threads, low=1)
        if self.random_state is not None:
            check_int("random_state", self.random_state, low=0)
        remedy = f"There are {n_records} private records, and a step cannot expect more than all of them."
        check_int("expected_batch_size", self.expected_batch_size, low=1, high=n_records, remedy=remedy)
        if self.noise_multiplier is not None:
            check_real("noise_multiplier", self.noise_multiplier, low=0, low_open=True)
        if self.budget.delta >= 1 / n_records:
            warnings.warn(
                f"delta={self.budget.delta:g} is not below 1/n for {n_records} records: such a guarantee allows "
                "publishing a whole record now and then. Use a smaller delta.",
                PrivacyParameterWarning,
                stacklevel=4,
            )

    def _account(self, sample_rate: float, n_steps: int) -> tuple[float, Guarantee]:
        epsilon, delta = self.budget.epsilon, self.budget.delta
        sigma = self.noise_multiplier
        if sigma is None:
            sigma = calibrate_noise_multiplier(
                epsilon, delta, sample_rate=sample_rate, n_steps=n_steps, adjacency=self.adjacency
            )
        spent = dpsgd_epsilon(
            sigma,
            delta=delta,
            sample_rate=sample_rate,
            n_steps=n_steps,
            adjacency=self.adjacency,
            interval=discretization_interval(epsilon, n_steps),
        )
        if spent > epsilon:
            raise BudgetExceededError(
                f"noise_multiplier={sigma:g} would cost epsilon={spent:.6g} over {n_steps} steps, more than "
                f"{self.budget}. Pass noise_multiplier=None to have it chosen, or train for fewer epochs."
            )
        guarantee = Guarantee(
            epsilon=spent,
            delta=delta,
            kind="public",
            method="privacy loss distributions of the Poisson-subsampled Gaussian (dp_accounting)",
            adjacency=self.adjacency,
        )
        return float(sigma), guarantee

    def _make_optimizer(self, module: nn.Module) -> torch.optim.Optimizer:
        parameters = [p for p in module.parameters() if p.requires_grad]
        if self.optimizer == "sgd":
            return torch.optim.SGD(parameters, lr=self.learning_rate, momentum=self.momentum)
        return torch.optim.Adam(parameters, lr=self.learning_rate)

    def predict_proba(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return class probabilities of shape (n, n_classes), in the order of ``classes_``.

        Examples
        --------
        >>> import numpy as np
        >>> from pate import Budget, DPSGDClassifier
        >>> clf = DPSGDClassifier("linear", budget=Budget(1.0, 1e-3), classes=[0, 1], expected_batch_size=8)
        >>> clf.fit(np.eye(16), np.arange(16) % 2).predict_proba(np.eye(16)).shape
        (16, 2)
        """
        check_is_fitted(self)
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                features = validate_data(self, X, dtype=np.float32, reset=False)
        except ValueError as error:
            raise InvalidInputError(str(error)) from error
        blocks = []
        with torch.inference_mode(), _threads(self.n_threads):
            for start in range(0, len(features), _PREDICTION_ROWS):
                logits = self.module_(torch.from_numpy(features[start : start + _PREDICTION_ROWS]))
                blocks.append(torch.softmax(logits.double(), dim=1).numpy())
        return np.concatenate(blocks)

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the likeliest class of each row, shape (n,).

        Examples
        --------
        >>> import numpy as np
        >>> from pate import Budget, DPSGDClassifier
        >>> clf = DPSGDClassifier("linear", budget=Budget(1.0, 1e-3), classes=["a", "b"], expected_batch_size=8)
        >>> set(clf.fit(np.eye(16), ["a", "b"] * 8).predict(np.eye(16)).tolist()) <= {"a", "b"}
        True
        """
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        bare = copy.copy(self)
        bare.random_state = bare.noise_seed = None  # whoever knows the noise can subtract it
        return BaseEstimator.__repr__(bare, N_CHAR_MAX)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.noise_seed is None
        return tags


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise InvalidInputError(f"device must be 'auto' or a torch device, got {name!r}.") from error
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise InvalidInputError(
                f"device={name!r} is not there: torch sees no CUDA device. Use device='cpu' or 'auto'."
            )
        # fork_rng and the seeding below need to know which one.
        return device if device.index is not None else torch.device("cuda", torch.cuda.current_device())
    return device


@contextmanager
def _threads(number: int | None) -> Iterator[None]:
    """Hold torch to this many CPU threads, and give it back as it was."""
    before = torch.get_num_threads()
    try:
        if number is not None:
            torch.set_num_threads(number)
        yield
    finally:
        torch.set_num_threads(before)


def _seed_torch(seed: int, device: torch.device) -> None:
    """Seed the generators that fork_rng gives back, and no other."""
    torch.random.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)
