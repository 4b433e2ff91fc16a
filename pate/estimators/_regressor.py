"""PATERegressor: learn to predict a number from private records, with intervals, within a privacy budget."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from pate._core.curator import CuratorMessage
from pate.data import recognised_by
from pate.estimators._public_rows import PublicRows, tags_of_maps
from pate.exceptions import InvalidInputError
from pate.ledger import Ledger, Registration
from pate.models import (
    AnswersNumbers,
    RegressionPlan,
    read_mapped_number,
    read_regression,
    write_number,
)
from pate.models.file import OF_NUMBERS, InputSpec, ModelFile, damaged, read_model
from pate.privacy.budget import Budget
from pate.records import NUMBER, check_bounds, number_codes, read_target
from pate.release.statement.fields import MeasuredErrors
from pate.release.statement.model import PrivacyStatement
from pate.teachers import NOBODY, owned


def about_numbers(values: npt.NDArray[np.float64], groups: Any) -> list[CuratorMessage]:
    """Return what the curator should know of a private target: how many records contribute nothing."""
    _, has_owner = owned(groups, len(values))
    numbers = np.isfinite(values)
    votes = numbers & has_owner
    if votes.all():
        return []
    left_out = ((~numbers, "without a number"), (~has_owner, "of an unknown owner"))
    why = [f"{int(out.sum()):,} {of}" for out, of in left_out if out.any()]
    told = f"{int(votes.sum()):,} of {len(values):,} records ({votes.mean():.1%}) vote: {', '.join(why)}."
    return [CuratorMessage(told if votes.any() else f"{told} {NOBODY}")]


@dataclass(eq=False, repr=False)
class PATERegressor(RegressorMixin, PublicRows):
    """Train a regressor on private records, by noisy votes on public rows, within a privacy budget.

    Noisy histograms find the range of the target (the number to predict) and cut it into bins. The records vote on the
    bins, then once on the errors that are left; each vote is a vector of bounded length, made by maps that were fitted
    on public rows alone (docs/numbers.md). One record in ten is held out of this: 90% intervals and the mean error are
    measured on those. ``predict`` and ``score`` never spend budget.

    Parameters
    ----------
    budget : Budget
        Spent whole by each ``fit`` on private data.
    target_range : (float, float)
        The least and the largest value of the target, from public knowledge; values outside count as the nearer end. A
        range that is a hundred times too wide costs little accuracy.
    representation, image_shape
        As of :class:`pate.PATEClassifier`.
    stated : mapping of str to str, or None
        As of :class:`pate.PATEClassifier`.
    ledger : Ledger or None
        The file in which the fit is charged (docs/ledger.md). The same fit again finds its sums there and costs
        nothing.
    force : bool
        Go on although there are so few records for the budget that the mean of all may predict as well.
    random_state : int or None
        Seed of public maps; never of the noise.
    noise_seed : int or None
        For tests and experiments only: the statement then says that nothing is private.
    verbose : bool
        Show progress.

    Attributes
    ----------
    release_ : NumberRelease
        Values of all public rows, with their intervals: public.
    statement_ : PrivacyStatement
    measured_ : MeasuredErrors
        Mean absolute error and R2 on held-out records, with their standard errors.
    n_features_in_ : int

    Notes
    -----
    **Guarantees.** Everything reachable from the fitted object satisfies the statement's (epsilon, delta) under
    replace-one adjacency, of a record, or of a person with all their records (``groups``). The sums are exact, each
    record's part is bounded in whole numbers (:mod:`pate.records._vectors`), and mu^2 of all rounds adds up (Dong, Roth
    and Su 2022, Corollary 3.3); rounds of held-out units are charged beside those of the others, not on top of them
    (parallel composition, McSherry 2009). Public rows must be public: see :class:`pate.PATEClassifier`.

    Examples
    --------
    >>> from pate import Budget, PATERegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5_000, 3))
    >>> y = 10 * X[:, 0] + rng.normal(size=5_000)
    >>> reg = PATERegressor(Budget(3.0, 1e-5), target_range=(-1000, 1000))
    >>> reg = reg.fit(X[:4000], y[:4000], X_public=X[4000:4500])
    >>> bool(reg.score(X[4500:], y[4500:]) > 0.8)
    True
    >>> value, low, high = reg.predict(X[4500:], return_interval=True)
    >>> bool(((low <= y[4500:]) & (y[4500:] <= high)).mean() > 0.8)
    True
    """

    budget: Budget | None = None
    _: KW_ONLY
    target_range: Any = None
    representation: Any = None
    image_shape: Any = None
    stated: Mapping[str, str] | None = None
    ledger: Ledger | None = None
    force: bool = False
    random_state: int | None = None
    noise_seed: int | None = None
    verbose: bool = False

    def fit(self, X: Any, y: Any, *, X_public: Any = None, groups: Any = None) -> Self:
        """Learn from private records and public rows, spending the budget once.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n, n_features), or texts of shape (n,)
            Private records.
        y : array-like of shape (n,)
            Their numbers. A record without one contributes nothing.
        X_public : rows of the same kind, at least 20
            Public ones: they teach how rows are read, and get the released values.
        groups : array-like of shape (n,) or None
            Whose each record is: then persons are protected, with all their records.

        Raises
        ------
        InvalidInputError
            A bad parameter, rows that do not fit, or mostly the same rows on both sides; nothing was spent.
        NotWorthwhileError
            Too few records for this budget, and ``force`` is False; nothing was spent.
        BudgetExceededError, LedgerError
            The ledger does not pay for it, or is for other data.
        """
        bounds = check_bounds(self.target_range)
        return self._fit_rounds(
            X, y, X_public, groups, read=read_target, about=about_numbers, registered=registration_of_numbers,
            planned=partial(RegressionPlan.of, bounds=bounds),
            without="train with DP-SGD, which needs a schema of the columns alone: "
            "pate.DPSGDRegressor(...).fit(X, y, schema=...)",
        )  # fmt: skip

    @property
    def measured_(self) -> MeasuredErrors | None:
        """How far the model is off, by held-out records."""
        check_is_fitted(self, "statement_")
        return self.statement_.errors

    def predict(self, X: Any, *, return_interval: bool = False) -> Any:
        """Return the value for each row, and its 90% interval where asked for; costs nothing.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_rows, n_features), or texts of shape (n_rows,)
        return_interval : bool

        Returns
        -------
        value : float64 array of shape (n_rows,)
        low, high : float64 arrays of shape (n_rows,)
            Only with ``return_interval``: nine in ten numbers lie between them, over rows drawn as the private ones.
        """
        check_is_fitted(self, "statement_")
        found = self._model.answer(self._check_rows(X, self._model))
        return tuple(found.T) if return_interval else found[:, 0]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model and its statement to one file, as :meth:`pate.PATEClassifier.save` does."""
        check_is_fitted(self, "statement_")
        write_number(path, self._model, self._rows_taken(), self.statement_, self.ledger)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, module: Any = None) -> Self:
        """Read a regressor that was saved, as :meth:`pate.PATEClassifier.load` does; it predicts the very same.

        It also reads what :meth:`pate.DPSGDRegressor.save` wrote.
        """
        return cls._of_file(read_model(path), module=module)

    @classmethod
    def _of_file(cls, file: ModelFile, *, module: Any = None) -> Self:
        said = file.manifest
        if said.kind not in OF_NUMBERS:
            raise InvalidInputError(
                f"{str(file.path)!r} holds a model of classes. Read it by pate.PATEClassifier.load."
            )
        if said.settings:
            raise damaged(file.path, "it holds no model of a number")
        with file.unpacked() as folder:
            read: Any = read_regression if said.kind == "numbers" else read_mapped_number
            model = read(folder, said.parts, module=module)
        return cls._of_model(model, said.door, file.statement)

    @classmethod
    def _of_model(cls, model: AnswersNumbers, door: InputSpec, statement: PrivacyStatement) -> Self:
        """Return a regressor around a model that was made elsewhere."""
        reg = cls(target_range=(model.low, model.high), image_shape=door.image_shape)
        reg._model, reg.statement_ = model, statement
        reg._remember(door)
        return reg

    def __sklearn_tags__(self) -> Any:
        return tags_of_maps(super().__sklearn_tags__(), self.representation)


def registration_of_numbers(X: Any, values: Any, groups: Any, *, n_units: int, unit: str) -> Registration:
    """Return the data set of a numeric target as a ledger registers it: **sensitive**."""
    owners, _ = owned(groups, len(values))
    known = recognised_by(X, number_codes(values), owners)
    return Registration(unit, NUMBER, n_units=n_units, **known)
