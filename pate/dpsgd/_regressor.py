"""DP-SGD (Abadi et al. 2016) as a scikit-learn regressor: predict a number without public rows."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted
from torch import nn

from pate.dpsgd._classifier import outputs
from pate.dpsgd._fit import fit_privately
from pate.dpsgd._optimizers import Optimizer
from pate.dpsgd._rows import keep_columns
from pate.dpsgd._run import TrainingStep
from pate.dpsgd._units import ImageAugmentation
from pate.dpsgd._values import Device, SampledGaussian
from pate.dpsgd.clipping import Clipping
from pate.dpsgd.mechanisms import TrainingMechanism
from pate.dpsgd.recipes import DPSGDRecipe
from pate.ledger import Ledger
from pate.privacy.budget import Budget
from pate.records import check_bounds
from pate.release.statement import CountedFits


@dataclass(repr=False, eq=False)
class DPSGDRegressor(CountedFits, RegressorMixin, BaseEstimator):
    """Learn to predict a number from private records by DP-SGD, with public rows or without.

    The engine of :class:`pate.DPSGDClassifier` with one output and half the squared error as the loss; the target is
    scaled from its stated range to [-1, 1] and clipped there. Gradients are clipped and priced as that classifier's
    are, so the loss has no say in epsilon.

    Parameters
    ----------
    module : as of :class:`pate.DPSGDClassifier`
        Maps rows to shape (batch, 1); gets ``n_classes=1``.
    budget : Budget
        Spent whole by each fit.
    target_range : (float, float)
        Two numbers that the target lies between, from public knowledge; numbers beyond count as the nearer one. Keep
        it tight: noise is in proportion to its width (docs/dpsgd.md has what a wide one costs). Where only a much too
        wide range is known, and there are public rows, take :class:`pate.PATERegressor`.
    recipe, representation, image_shape, epochs, expected_batch_size, learning_rate, max_grad_norm, clipping
        As of :class:`pate.DPSGDClassifier`; gradients are of targets in [-1, 1].
    mechanism, optimizer, augmentation, ledger, device, random_state, noise_seed, checkpoint_dir, callbacks, verbose
        As of :class:`pate.DPSGDClassifier`.

    Attributes
    ----------
    n_features_in_ : int
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
        BudgetExceededError, LedgerError
            The budget or the ledger does not pay for it, or the ledger is for other data.
        """
        done = fit_privately(self, X, y, X_public=X_public, groups=groups, schema=schema)
        keep_columns(self, done.reader)
        self._bounds, self.module_, self._method = check_bounds(self.target_range), done.module, done.recipe_plan
        self.noise_multiplier_, self.n_steps_ = done.plan.noise_multiplier, done.n_steps
        self.sample_rate_ = done.plan.shape.sample_rate
        self.recipe_ = None if done.recipe_plan is None else done.recipe_plan.recipe
        self.guarantee_, self.statement_ = done.guarantee, done.statement
        if done.kept is not None:
            done.kept.remove()
        return self

    def predict(self, X: Any) -> npt.NDArray[np.float64]:
        """Return a number within the stated range for each row, shape (n,)."""
        check_is_fitted(self, "module_")
        low, high = self._bounds
        found = outputs(self, X, double=True)[:, 0].numpy().clip(-1, 1)
        return low * ((1 - found) / 2) + high * ((1 + found) / 2)

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
