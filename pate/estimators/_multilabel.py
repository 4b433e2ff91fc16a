"""PATEMultilabelClassifier: learn several labels at once from private records, within one privacy budget."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from pate._core.curator import CuratorMessage
from pate._core.types import FloatArray, IntArray
from pate.data import recognised_by
from pate.estimators._public_rows import PublicRows, tags_of_maps
from pate.exceptions import InvalidInputError
from pate.ledger import Ledger, Registration
from pate.models import SeveralModel, SeveralPlan, keep_several, made_of_several, read_several, write_kept
from pate.models.file import InputSpec, ModelFile, damaged, read_model
from pate.privacy.budget import Budget
from pate.records import label_codes, read_labels
from pate.release.statement.fields import MeasuredQuality
from pate.release.statement.model import PrivacyStatement
from pate.teachers import owned


def about_labels(labels: FloatArray, groups: Any) -> list[CuratorMessage]:
    """Return what the curator should know of private labels: how many records contribute nothing."""
    _, has_owner = owned(groups, len(labels))
    said = np.isfinite(labels).all(axis=1)
    votes = said & has_owner
    if votes.all():
        return []
    left_out = ((~said, "with a label that is neither 0 nor 1"), (~has_owner, "of an unknown owner"))
    why = [f"{int(out.sum()):,} {of}" for out, of in left_out if out.any()]
    share = f"({votes.mean():.1%})"
    text = f"{int(votes.sum()):,} of {len(labels):,} records {share} vote: {', '.join(why)}."
    if not votes.any():
        blank = [str(i + 1) for i, column in enumerate(labels.T) if np.isnan(column).all()]
        text += " Nothing would be learnt, and the budget would be spent: see how labels are written, before you go on."
        text += f" No record says 0 or 1 of label {', '.join(blank)}." if blank else ""
    return [CuratorMessage(text)]


def registration_of_labels(
    X: Any, labels: FloatArray, groups: Any, *, names: tuple[str, ...], n_units: int, unit: str
) -> Registration:
    """Return the data set of several labels as a ledger registers it: **sensitive**."""
    owners, _ = owned(groups, len(labels))
    return Registration(unit, names, n_units=n_units, **recognised_by(X, label_codes(labels), owners))


@dataclass(eq=False, repr=False)
class PATEMultilabelClassifier(ClassifierMixin, PublicRows):
    """Train a classifier of several labels on private records, by noisy votes on public rows, within one budget.

    Every record votes for all labels in one *ballot*, a vector of bounded length made by maps that were fitted on
    public rows alone (docs/labels.md): so the cost is that of one ballot, however many labels there are. One record in
    ten is held out of this: accuracy, precision, recall and F1 of each label are measured on those. ``predict`` and
    ``score`` never spend budget.

    Parameters
    ----------
    budget : Budget
        Spent whole by each ``fit`` on private data.
    labels : sequence of str or None
        Names of the labels, in the order of the columns of y. None: the names of a DataFrame's columns, or "0", "1",
        ...
    representation, image_shape
        As of :class:`pate.PATEClassifier`.
    stated : mapping of str to str, or None
        As of :class:`pate.PATEClassifier`.
    ledger : Ledger or None
        The file in which the fit is charged (docs/ledger.md). The same fit again finds its sums there and costs
        nothing.
    force : bool
        Go on although there are so few records for the budget that the labels' frequencies alone may predict as well.
    random_state : int or None
        Seed of public maps; never of the noise.
    noise_seed : int or None
        For tests and experiments only: the statement then says that nothing is private.
    verbose : bool
        Show progress.

    Attributes
    ----------
    classes_ : array of shape (n_labels,)
        The labels' names, in the order of the columns.
    prevalences_ : float64 array of shape (n_labels,)
        How common each label is among the private records, as released with noise.
    thresholds_ : float64 array of shape (n_labels,)
        Thresholds of the logits, at which public rows get a label as often as private records have it.
    release_ : SeveralRelease
        Labels of all public rows, with their probabilities: public.
    statement_ : PrivacyStatement
    measured_quality_ : MeasuredQuality
        Accuracy, precision, recall and F1 of each label on held-out records, with their standard errors.
    n_features_in_ : int

    Notes
    -----
    **Guarantees.** Everything reachable from the fitted object satisfies the statement's (epsilon, delta) under
    replace-one adjacency, of a record, or of a person with all their records (``groups``). The sums are exact, each
    record's part is bounded in whole numbers (:mod:`pate.records._vectors`), and mu^2 of all rounds adds up (Dong, Roth
    and Su 2022, Corollary 3.3); the round of held-out units is charged beside those of the others, not on top of them
    (parallel composition, McSherry 2009). Public rows must be public: see :class:`pate.PATEClassifier`.

    Examples
    --------
    >>> from pate import Budget, PATEMultilabelClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5_000, 3))
    >>> Y = (X + 0.3 * rng.normal(size=X.shape) > [0, 0.5, 1]).astype(int)
    >>> clf = PATEMultilabelClassifier(Budget(3.0, 1e-5), labels=["low", "middle", "high"])
    >>> clf = clf.fit(X[:4000], Y[:4000], X_public=X[4000:4500])
    >>> bool((clf.predict(X[4500:]) == Y[4500:]).mean() > 0.85)
    True
    >>> clf.classes_.tolist(), clf.predict_proba(X[4500:]).shape
    (['low', 'middle', 'high'], (500, 3))
    """

    budget: Budget | None = None
    _: KW_ONLY
    labels: Sequence[str] | None = None
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
        y : array-like, DataFrame or sparse matrix of shape (n, n_labels)
            1 where a record has a label, else 0; also true/false and yes/no. A record with another cell contributes
            nothing.
        X_public : rows of the same kind, at least 20
            Public ones: they teach how rows are read, and get the released labels.
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
        labels, names = read_labels(y, self.labels)
        return self._fit_rounds(
            X, labels, X_public, groups, read=lambda found: found, about=about_labels,
            planned=partial(SeveralPlan.of, names=names), registered=partial(registration_of_labels, names=names),
            without="learn each label by itself with a part of the budget: DP-SGD needs no public rows "
            "(pate.DPSGDClassifier)",
        )  # fmt: skip

    @property
    def _labels(self) -> Any:
        check_is_fitted(self, "statement_")
        return self._model.labels

    @property
    def classes_(self) -> Any:
        """The labels' names."""
        _ = self._labels
        return np.asarray(self._model.names, dtype=object)

    @property
    def prevalences_(self) -> FloatArray:
        """How common each label is, as released."""
        return self._labels.prevalences.copy()

    @property
    def thresholds_(self) -> FloatArray:
        """The logit above which a row gets each label."""
        return self._labels.thresholds.copy()

    @property
    def measured_quality_(self) -> MeasuredQuality | None:
        """How good the model is at each label, by held-out records."""
        check_is_fitted(self, "statement_")
        return self.statement_.quality

    def decision_function(self, X: Any) -> FloatArray:
        """Return the logit of each label for each row, shape (n_rows, n_labels); costs nothing."""
        check_is_fitted(self, "statement_")
        found: FloatArray = self._model.decision_function(self._check_rows(X, self._model))
        return found

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each label for each row, shape (n_rows, n_labels); costs nothing.

        Use them to rank rows. How often a label with probability 0.3 is really there was not measured.
        """
        logits = self.decision_function(X)
        found: FloatArray = self._labels.probable(logits)
        return found

    def predict(self, X: Any) -> IntArray:
        """Return which labels each row has, 0 or 1, shape (n_rows, n_labels); costs nothing."""
        logits = self.decision_function(X)
        found: IntArray = self._labels.decided(logits)
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model and its statement to one file, as :meth:`pate.PATEClassifier.save` does."""
        check_is_fitted(self, "statement_")
        write_kept(
            path, partial(keep_several, self._model), self.statement_, self.ledger, kind="labels",
            classes=self._model.names, dtype="|O", door=self._rows_taken(), made_of=made_of_several(self._model),
        )  # fmt: skip

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, module: Any = None) -> Self:
        """Read a classifier that was saved, as :meth:`pate.PATEClassifier.load` does; it predicts the very same."""
        return cls._of_file(read_model(path), module=module)

    @classmethod
    def _of_file(cls, file: ModelFile, *, module: Any = None) -> Self:
        said = file.manifest
        if said.kind != "labels":
            raise InvalidInputError(
                f"{str(file.path)!r} holds no model of several labels. Read it by pate.PATEClassifier.load, or by "
                "pate.PATERegressor.load."
            )
        if said.settings:
            raise damaged(file.path, "it holds no model of several labels")
        with file.unpacked() as folder:
            model = read_several(folder, said.parts, said.classes, module=module)
        return cls._of_model(model, said.door, file.statement)

    @classmethod
    def _of_model(cls, model: SeveralModel, door: InputSpec, statement: PrivacyStatement) -> Self:
        """Return a classifier around a model that was made elsewhere."""
        clf = cls(labels=model.names, image_shape=door.image_shape)
        clf._model, clf.statement_ = model, statement
        clf._remember(door)
        return clf

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label, tags.target_tags.multi_output = True, True
        return tags_of_maps(tags, self.representation)
