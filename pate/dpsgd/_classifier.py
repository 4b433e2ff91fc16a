"""DP-SGD (Abadi et al. 2016) as a scikit-learn classifier: the baseline PATE is measured against."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import nn

from pate._core.moved import takes_former_names
from pate.dpsgd._canaries import Canaries
from pate.dpsgd._fit import Fitted, fit_privately, linear_weights
from pate.dpsgd._optimizers import Optimizer
from pate.dpsgd._rows import input_spec, keep_columns, read_asked, rows_for
from pate.dpsgd._run import TrainingStep
from pate.dpsgd._units import ImageAugmentation
from pate.dpsgd._values import FORMER, Device, SampledGaussian, valued
from pate.dpsgd.clipping import Clipping
from pate.dpsgd.mechanisms import TrainingMechanism
from pate.dpsgd.recipes import DPSGDRecipe
from pate.exceptions import InvalidInputError
from pate.ledger import Ledger
from pate.models import write_kept
from pate.models.file import Manifest
from pate.models.recipes import MappedLinear, keep_linear, made_of_linear
from pate.networks import RowByRow, held_threads
from pate.privacy.budget import Budget
from pate.release import warn_of_doubts
from pate.release.statement import CountedFits, naming_fits_before
from pate.teachers import ClassScores

_PREDICTION_ROWS = 4096


def outputs(fitted: Any, X: Any, *, double: bool = False) -> torch.Tensor:
    """Return what the module of a fitted estimator makes of rows, float64 of shape (n, n_outputs).

    With ``double`` it is computed in that precision, so that a row's place among others shows in no digit that counts.
    """
    rows = torch.from_numpy(rows_for(fitted.module_, read_asked(fitted, X, fitted._method)))
    module = copy.deepcopy(fitted.module_)
    ask = RowByRow.of(module, rows[:1])
    if double:
        module.double()
        rows = rows.double() if rows.is_floating_point() else rows
    with held_threads(valued(Device, fitted.device).n_threads):
        return torch.cat([ask(part).double() for part in rows.split(_PREDICTION_ROWS)])


@takes_former_names(**FORMER)
@dataclass(repr=False, eq=False)
class DPSGDClassifier(ClassScores, CountedFits, BaseEstimator):
    """Train a torch module on private records by DP-SGD (differentially private stochastic gradient descent).

    Parameters
    ----------
    module : {"linear", "tanh-mlp", "tanh-cnn", ...}, a torch.nn.Module class, a function that makes one, or None
        The network: a name in :func:`pate.networks.named_modules`, or what
        :class:`pate.teachers.torch.TorchTeacherEnsemble` takes; with further arguments ``functools.partial(MLP,
        hidden=(128,))``. None leaves it to the recipe. Every fit makes a new one, with ``n_features`` and ``n_classes``
        added if it takes them. It maps rows as they are given to ``fit``, float32 of shape (batch, ...), to logits
        (batch, n_classes), or to a mapping or object that has them under ``logits``. A module that already exists is
        refused, because it may have learnt from other rows before. So is one that mixes the records of a batch (use
        group norm instead of batch norm).
    budget : Budget
        Spent whole by each fit.
    recipe : str, DPSGDRecipe or None
        A preset: the model, the public representation of the rows and all settings (:mod:`pate.dpsgd.recipes`, with
        sources). None and no module: a planner chooses one from public facts (docs/dpsgd-recipes.md). Parameters that
        you set here take precedence over it.
    representation : Representation or None
        For recipes: your own public map from rows to vectors, such as frozen features of a network trained elsewhere.
    image_shape : tuple or None
        For recipes, if rows are flattened images: (height, width) or (channels, height, width).
    classes : sequence or None
        Every class that could occur: public knowledge. None takes them from the private ``y`` and warns.
    epochs, expected_batch_size, learning_rate, max_grad_norm, optimizer
        None takes the recipe's value; for a module that you name: 20, 256, 0.25, 1.0 and sgd with momentum 0.9.
    epochs : int or None
        Each has ceil(n / expected_batch_size) steps; n is ``nominal_n`` where the mechanism has one.
    expected_batch_size : int or None
        Each record (person) enters a step independently, with probability expected_batch_size / n. Every noisy sum is
        divided by this number, whatever the size of the sample.
    learning_rate : float or None
        Applied to the noisy sum of clipped gradients, divided by the *expected* batch size.
    max_grad_norm : float or None
        L2 norm to which each record's gradient is clipped (each person's, with ``groups``).
    clipping : {"flat", "per-layer", "automatic", "quantile"} or an object of :mod:`pate.dpsgd.clipping`
        A name takes ``max_grad_norm``; an object has its own norm.
    mechanism : {"poisson", "ftrl"}, an object of :mod:`pate.dpsgd.mechanisms`, or SampledGaussian
        How records are sampled for a step, which noise is added, and what both cost.
        :class:`pate.dpsgd.SampledGaussian` sets everything else that the accounting uses: adjacency, the number of
        steps, your own noise multiplier.
    optimizer : {"sgd", "adam", "adam-bc"}, Optimizer or None
        :class:`pate.dpsgd.Optimizer` sets momentum, the schedule of the learning rate and averages of the weights. None
        of these costs privacy.
    augmentation : ImageAugmentation or None
        Each record's gradient is the mean over randomly changed copies of its image, clipped once (De et al. 2022).
    ledger : Ledger or None
        The fit is charged there before it begins, and stays within the ledger's total; replace-one only. The noise is
        the least that the budget and the ledger both allow (the ledger's accounting unit gives a run a somewhat higher
        cost: up to twice the noise). A fit that dies after the charge stays charged, and goes on only where
        ``checkpoint_dir`` is given; every further fit draws new noise and is charged again.
    device : str or Device
        ``"auto"`` takes a CUDA device where there is one. :class:`pate.dpsgd.Device` also holds threads and memory.
    random_state : int or None
        Seed of the initial weights and of dropout; never of the noise.
    noise_seed : int or None
        For tests and experiments only: makes samples and noise repeatable, and then nothing is private.
    checkpoint_dir : path or None
        A folder for a checkpoint of a long fit. The file is as private as the records (mode 600) and is deleted when
        the fit ends. It is written before the ledger is charged: if the process is killed, whenever that is, the same
        fit goes on from the file, with the samples and the noise that it had drawn, and is charged once.
    callbacks : sequence of callables
        Each is called with a :class:`pate.dpsgd.TrainingStep` after every step. If one returns true, the fit ends; its
        cost stays that of all planned steps.
    measure : bool, "by class" or None
        Whether to measure at the end, on the private records, how often the module is right: counts with Gaussian
        noise, within the same budget (:mod:`pate.dpsgd._measured`), as :class:`pate.PATEClassifier` does. None: measure
        if the noise alone gives an interval of less than five points to either side, and neither a noise multiplier nor
        canaries are given.
    force : bool
        Train although public numbers say that noise alone would decide which class is named.
    verbose : bool
        Show a progress bar on standard error, with what has been spent.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    noise_multiplier_ : float
        Standard deviation of the noise on the summed gradients, in units of ``max_grad_norm``.
    n_steps_ : int
        Steps done.
    sample_rate_ : float
    module_ : torch.nn.Module
        The trained module, on the CPU.
    canaries_ : CanaryScores
        If canaries were given: which of them were included, and their scores.
    recipe_ : DPSGDRecipe or None
        What was planned, and why (``reasons``).
    guarantee_ : Guarantee
    statement_ : PrivacyStatement
    measured_ : MeasuredAccuracy or None
        How often the module is right, with its interval; None where that was not measured.

    Notes
    -----
    **Guarantees.** The trained parameters, those of every intermediate step included, are (epsilon,
    delta)-differentially private for one record under the mechanism's ``adjacency``; the module
    ``pate.dpsgd._calibration`` has the theorem. Clipping bounds one record without relying on the module keeping
    records apart: a module of torch's own layers is run by an engine that knows them (book-keeping: one pass for many
    records), any other one record at a time, on a copy that is thrown away. What is returned is another module,
    made alike before training, with the trained parameters. Predictions and counts ask about each row by itself, in
    the same way. (Code that keeps rows outside of the module, in a global or a class attribute say, is not seen.)
    All parameters above are taken as public, and under replace-one the number of records. Each fit is a fresh spend:
    searching over k settings costs k budgets, which a ``ledger`` adds up (without one the statement counts the fits of
    this process). Features are used as they come: scale them by
    public knowledge (pixel / 255) or with statistics of public data, never with statistics of the private rows; in a
    pipeline around it as :class:`pate.PATEClassifier` says.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from pate import Budget, DPSGDClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = DPSGDClassifier(
    ...     "linear", budget=Budget(8.0, 1e-4), classes=range(10), epochs=5, random_state=0
    ... )
    >>> bool(clf.fit(X[:1200] / 16, y[:1200]).score(X[1200:] / 16, y[1200:]) > 0.5)
    True
    >>> clf.guarantee_.epsilon <= 8.0
    True

    With only a budget and the range of the columns, a recipe is chosen:

    >>> clf = DPSGDClassifier(budget=Budget(3.0, 1e-4), classes=range(10), random_state=0)
    >>> (
    ...     bool(
    ...         clf.fit(X[:1200], y[:1200], schema=(0, 16)).score(X[1200:], y[1200:]) > 0.8
    ...     ),
    ...     clf.recipe_.name,
    ... )
    (True, 'declared')
    """

    module: str | Callable[..., nn.Module] | None = None
    _: KW_ONLY
    budget: Budget
    recipe: str | DPSGDRecipe | None = None
    representation: Any = None
    image_shape: tuple[int, ...] | None = None
    classes: Any = None
    epochs: int | None = None
    expected_batch_size: int | None = None
    learning_rate: float | None = None
    max_grad_norm: float | None = None
    clipping: str | Clipping = "flat"
    mechanism: str | TrainingMechanism | SampledGaussian = "poisson"
    optimizer: str | Optimizer | None = None
    augmentation: ImageAugmentation | None = None
    ledger: Ledger | None = None
    device: str | Device = "cpu"
    random_state: int | None = None
    noise_seed: int | None = None
    checkpoint_dir: Any = None
    callbacks: Sequence[Callable[[TrainingStep], Any]] = ()
    measure: bool | str | None = None
    force: bool = False
    verbose: bool = False

    def fit(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike,
        *,
        X_public: Any = None,
        groups: npt.ArrayLike | None = None,
        schema: Any = None,
        canaries: Canaries | None = None,
    ) -> DPSGDClassifier:
        """Train on private records, spending the budget once.

        Parameters
        ----------
        X : array-like, table or sparse matrix of shape (n, n_features), or array of shape (n, ...) such as images
            Finite numbers on a scale fixed without looking at these rows. Sparse ones (n, n_features) are filled in
            for a named module. Recipes also take columns of texts, and texts of shape (n,).
        y : array-like of shape (n,)
            Class values.
        X_public : rows or None
            Public rows without labels, of the same columns: recipes fit their representation on them. A named module
            has no use for them.
        groups : array-like of shape (n,) or None
            The person each row belongs to: then persons are protected; each is sampled as a whole and clipped as a
            whole.
        schema : Schema; mapping of str to (low, high) or list of str; (low, high); list of (low, high); or None
            For recipes, in place of public rows: the range of each column of numbers, or all its categories, as you
            know them without these records, ``{"age": (0, 120), "sex": ["male", "female"]}``; of an array one range for
            all columns, or each column's. Numbers are scaled to it and clipped there; other categories count as
            missing. A :class:`pate.data.Schema` says the same.
        canaries : Canaries or None
            For an audit of one run: artificial records (or persons), each included by a coin toss
            (:class:`pate.dpsgd.Canaries`).

        Returns
        -------
        DPSGDClassifier
            This object. When anything fails, or on Ctrl-C, it stays exactly as it was before.

        Raises
        ------
        InvalidInputError
            A value is out of range, or the module cannot be trained with differential privacy.
        NotWorthwhileError
            The evidence n mu / (m Delta), of n records and m classes, is below 1, no noise multiplier was given, and
            ``force`` is False; nothing was spent.
        BudgetExceededError
            The noise multiplier that was given is too small for the budget, or the ledger does not pay for the fit.
        LedgerError
            The ledger could not be written, or is for other private data; nothing was trained.

        Examples
        --------
        >>> import numpy as np
        >>> from pate import Budget, DPSGDClassifier
        >>> clf = DPSGDClassifier(
        ...     "linear", budget=Budget(1.0, 1e-3), classes=[0, 1], expected_batch_size=8
        ... )
        >>> clf.fit(np.eye(16), np.arange(16) % 2).n_steps_
        40
        """
        of_fit = {"X_public": X_public, "groups": groups, "schema": schema, "canaries": canaries}
        with naming_fits_before(self):
            self._take(fit_privately(self, X, y, **of_fit, measuring=True))
        self._door = input_spec(self, X_public, schema)
        warn_of_doubts(self.statement_)
        return self

    def _take(self, done: Fitted) -> DPSGDClassifier:
        """Become what was fitted."""
        keep_columns(self, done.reader)
        self.classes_, self.module_ = np.asarray(done.classes), done.module
        self.noise_multiplier_, self.n_steps_ = done.plan.noise_multiplier, done.n_steps
        self.sample_rate_, self._method = done.plan.shape.sample_rate, done.recipe_plan
        self.recipe_ = None if done.recipe_plan is None else done.recipe_plan.recipe
        self.guarantee_, self.statement_, self.measured_ = done.guarantee, done.statement, done.statement.measured
        if done.canaries is not None:
            self.canaries_ = done.canaries.scores(self, done.canary_labels)
        if done.kept is not None:
            done.kept.remove()
        return self

    def predict_proba(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return class probabilities of shape (n, n_classes), in the order of ``classes_``."""
        check_is_fitted(self)
        return torch.softmax(outputs(self, X), dim=1).numpy()

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the likeliest class of each row, shape (n,)."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model and its statement to one file, which :meth:`pate.PATEClassifier.load` and the CLI read.

        Raises
        ------
        InvalidInputError
            The module is one of your own, or a named one: model files hold a recipe's linear model alone. Or
            :func:`pate.private_select` made this model.
        RunFolderError
            The file exists.
        """
        check_is_fitted(self)
        if self._method is None:
            raise InvalidInputError(
                "module must be None for a model file, which holds no code. Leave it out: a recipe's linear model of "
                "public maps is trained, and can be saved."
            )
        if "_door" not in self.__dict__:
            raise InvalidInputError(
                "save needs a model that fit made: pate.private_select made this one, and what rows it takes was not "
                "kept. Let PATEClassifier(voters='dpsgd') be the candidate."
            )
        model = MappedLinear(self._method.maps, linear_weights(self.module_))
        said = Manifest.of_classes(
            self.classes_, kind="dpsgd", door=self._door, made_of=made_of_linear(model), settings={"voters": "dpsgd"}
        )
        told = {name: value for name, value in vars(said).items() if name != "parts"}
        write_kept(path, partial(keep_linear, model), self.statement_, self.ledger, **told)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        bare = copy.copy(self)
        bare.random_state = bare.noise_seed = None  # who knows the noise can subtract it
        return BaseEstimator.__repr__(bare, N_CHAR_MAX)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.noise_seed is None
        tags.input_tags.sparse = self.module is not None  # a recipe's maps need public rows
        return tags
