"""DP-SGD (Abadi et al. 2016) as a scikit-learn regressor: predict a number without public rows."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted
from torch import nn

from pate.dpsgd._classifier import outputs
from pate.dpsgd._fit import fit_privately, linear_weights
from pate.dpsgd._optimizers import Optimizer
from pate.dpsgd._rows import input_spec, keep_columns
from pate.dpsgd._run import TrainingStep
from pate.dpsgd._units import ImageAugmentation
from pate.dpsgd._values import Device, SampledGaussian
from pate.dpsgd.clipping import Clipping
from pate.dpsgd.mechanisms import TrainingMechanism
from pate.dpsgd.recipes import DPSGDRecipe
from pate.exceptions import InvalidInputError
from pate.ledger import Ledger
from pate.models import MappedNumber, write_number
from pate.privacy.budget import Budget
from pate.release import warn_of_doubts
from pate.release.statement import CountedFits, naming_fits_before
from pate.release.statement.fields import MeasuredErrors


@dataclass(repr=False, eq=False)
class DPSGDRegressor(CountedFits, RegressorMixin, BaseEstimator):
    """Train a regressor on private records by DP-SGD, with or without public rows.

    It trains as :class:`pate.DPSGDClassifier` does, with one output and half the squared error as the loss. Noisy
    histograms find where in the given range the target lies, and training scales the target accordingly. Gradients are
    clipped and charged as that classifier's are, so epsilon does not depend on the loss.

    Parameters
    ----------
    module : as of :class:`pate.DPSGDClassifier`
        Maps rows to shape (batch, 1); gets ``n_classes=1``.
    budget : Budget
        Spent whole by each fit.
    target_range : (float, float)
        The least and the largest value of the target, from public knowledge; values outside count as the nearer end. A
        range that is a hundred times too wide costs little if ``measure`` finds the part of it that holds the records;
        else the noise is proportional to its width.
    recipe, representation, image_shape, epochs, expected_batch_size, learning_rate, max_grad_norm, clipping
        As of :class:`pate.DPSGDClassifier`; gradients are of targets in [-1, 1].
    mechanism, optimizer, augmentation, ledger, device, random_state, noise_seed, checkpoint_dir, callbacks, verbose
        As of :class:`pate.DPSGDClassifier`.
    measure : bool or None
        Whether to spend 13 to 31% of the budget (of mu^2) on three measurements: first where in the given range the
        targets lie, by noisy histograms, so that training can scale them; at the end how far to shrink the model
        towards the mean, and how large its errors are then. None: measure under replace-one where no noise multiplier
        is given. Without it you are warned: the model may be noise.
    force : bool
        Train although there are so few records for the budget that the mean of all may predict as well.
    stated : mapping of str to str, or None
        As of :class:`pate.PATEClassifier`: what you vouch for in the statement, by the name of an assumption, and
        ``tuning``.

    Attributes
    ----------
    n_features_in_ : int
    measured_ : MeasuredErrors or None
        Mean absolute error and R2 on the private records, with standard errors; None where that was not measured.
    noise_multiplier_, n_steps_, sample_rate_, module_, recipe_, guarantee_, statement_
        As of :class:`pate.DPSGDClassifier`.

    Notes
    -----
    **Guarantees.** Those of :class:`pate.DPSGDClassifier`: (epsilon, delta) for the parameters of every step, of a
    record, or of a person with all their records (``groups``). The range is taken as public, as all parameters are.

    Examples
    --------
    >>> from pate import Budget, DPSGDRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(5_000, 3))
    >>> y = 40 + 10 * X[:, 0] + rng.normal(size=5_000)
    >>> reg = DPSGDRegressor(budget=Budget(3.0, 1e-5), target_range=(0, 100))
    >>> reg = reg.fit(X[:4000], y[:4000], schema=(-1, 1))
    >>> bool(reg.score(X[4000:], y[4000:]) > 0.5), reg.guarantee_.epsilon <= 3.0
    (True, True)
    """

    module: str | Callable[..., nn.Module] | None = None
    _: KW_ONLY
    budget: Budget
    target_range: Any = None
    recipe: str | DPSGDRecipe | None = None
    representation: Any = None
    image_shape: tuple[int, ...] | None = None
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
    measure: bool | None = None
    stated: Mapping[str, str] | None = None
    force: bool = False
    verbose: bool = False

    def fit(
        self, X: Any, y: Any, *, X_public: Any = None, groups: npt.ArrayLike | None = None, schema: Any = None
    ) -> DPSGDRegressor:
        """Train on private records, spending the budget once.

        Parameters
        ----------
        X, X_public, groups, schema
            As of :meth:`pate.DPSGDClassifier.fit`.
        y : array-like of shape (n,)
            Their numbers. A record without one contributes nothing.

        Returns
        -------
        DPSGDRegressor
            This object. When anything fails, or on Ctrl-C, it stays exactly as it was before.

        Raises
        ------
        InvalidInputError
            A value is out of range, or the module cannot be trained with differential privacy.
        NotWorthwhileError
            Too few records for the budget (n mu below 200), and ``force`` is False; nothing was spent.
        BudgetExceededError, LedgerError
            The budget or the ledger does not pay for it, or the ledger is for other data.
        """
        kept = self.fit_keeping(X, y, X_public=X_public, groups=groups, schema=schema)
        if kept is not None:
            kept.remove()
        return self

    def fit_keeping(self, X: Any, y: Any, *, X_public: Any = None, groups: Any = None, schema: Any = None) -> Any:
        """Fit, and return the checkpoint, if there is one: to be removed once the model is stored."""
        with naming_fits_before(self):
            done = fit_privately(self, X, y, X_public=X_public, groups=groups, schema=schema, measuring=True)
        keep_columns(self, done.reader)
        self._door = input_spec(self, X_public, schema)
        self._scale, self._interval = done.scale, done.interval
        self.module_, self._method = done.module, done.recipe_plan
        self.noise_multiplier_, self.n_steps_ = done.plan.noise_multiplier, done.n_steps
        self.sample_rate_ = done.plan.shape.sample_rate
        self.recipe_ = None if done.recipe_plan is None else done.recipe_plan.recipe
        self.guarantee_, self.statement_ = done.guarantee, done.statement
        warn_of_doubts(self.statement_)
        return done.kept

    @property
    def measured_(self) -> MeasuredErrors | None:
        """How far the model is off, by the private records."""
        check_is_fitted(self, "statement_")
        return self.statement_.errors

    def predict(self, X: Any, *, return_interval: bool = False) -> Any:
        """Return a number within the stated range for each row, and its 90% interval where asked for; costs nothing.

        Parameters
        ----------
        X : rows as those of fit
        return_interval : bool

        Returns
        -------
        value : float64 array of shape (n_rows,)
        low, high : float64 arrays of shape (n_rows,)
            Only with ``return_interval``: nine in ten numbers lie between them, over rows drawn as the private ones.
            Of one width about each value; NaN where nothing was measured, or noise hides it.
        """
        check_is_fitted(self, "module_")
        assert self._scale is not None
        outer = self._scale.numbers(outputs(self, X, double=True)[:, 0].numpy())
        if not return_interval:
            return outer
        low, high = (np.nan, np.nan) if self._interval is None else self._interval
        return outer, *(np.clip(outer + end, *self._scale.bounds) for end in (low, high))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model and its statement to one file, which :meth:`pate.PATERegressor.load` and the CLI read.

        Raises
        ------
        InvalidInputError
            The module is one of your own: model files hold no code. Leave ``module`` out, for a recipe's linear model.
        RunFolderError
            The file exists.
        """
        check_is_fitted(self, "module_")
        write_number(path, self.model_, self._door, self.statement_, self.ledger)

    @property
    def model_(self) -> MappedNumber:
        """The linear model of a recipe with its public maps and its scale: public, and what a file holds."""
        check_is_fitted(self, "module_")
        if self._method is None:
            raise InvalidInputError(
                "module must be None for a model file, which holds no code. Leave it out: a recipe's linear model of "
                "public maps is trained, and can be saved."
            )
        s, coef = self._scale, linear_weights(self.module_)
        assert s is not None
        return MappedNumber(self._method.maps, coef, s.low, s.high, s.intercept, s.slope, self._interval, s.bounds)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        bare = copy.copy(self)
        bare.random_state = bare.noise_seed = None  # who knows the noise can subtract it
        return BaseEstimator.__repr__(bare, N_CHAR_MAX)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.noise_seed is None
        tags.regressor_tags.poor_score = True  # of few records noise leaves little
        tags.input_tags.sparse = self.module is not None  # a recipe's maps need public rows
        return tags
