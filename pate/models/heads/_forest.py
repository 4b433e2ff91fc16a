"""Heads trained on another head's labels of public rows: a ridge on features, and trees on columns."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import ExtraTreesRegressor

from pate._core.checks import check_int, check_real
from pate._core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.models.heads._likelihood import LikelihoodHead
from pate.models.heads._linear import Head, as_sure, public_rows
from pate.representations import own_product


class SelfTrainedHead(Head):
    """Ridge regression on public features, trained on another head's labels of the public rows (self-training).

    Labels from few noisy numbers are noisy; a smooth function of the features follows the clusters of the rows instead
    (Scudder, IEEE Trans. Information Theory 11, 1965). It helps where classes are clusters and noise is large, and
    costs a point of accuracy where they overlap and noise is small. It is post-processing of released numbers and
    public rows, and costs no privacy: Dwork & Roth (2014), Proposition 2.1.

    Parameters
    ----------
    ridge : float
        Penalty, over the public mean square of a row.

    Attributes
    ----------
    coef_ : float64 array of shape (n_features + 1, n_classes)
        The last row is the constant. Gives logits, scaled so that the mean largest probability of public rows is the
        first head's.

    Examples
    --------
    >>> from pate.models.heads import LinearHead
    >>> z = np.random.default_rng(0).normal(size=(200, 2))
    >>> first = LinearHead.of([[3.0, -3.0], [0.0, 0.0]], ("no", "yes"))
    >>> second = SelfTrainedHead().fit(first, z, features=z)
    >>> bool((second.predict(z) == first.predict(z)).mean() > 0.95)
    True
    """

    fitted_arrays: ClassVar[tuple[str, ...]] = ("coef_",)
    fitted_scalars: ClassVar[tuple[str, ...]] = ("takes", "n_components_")
    exact_: ClassVar[bool] = True

    coef_: FloatArray
    takes: str = "representation"
    risk_ = None

    def __init__(self, *, ridge: float = 5e-4) -> None:
        self.ridge = ridge

    def fit(self, head: Any, asked: Any, features: Any = None) -> Self:
        """Fit on a fitted head's labels of public rows.

        ``asked`` (n_public, ...) are the rows as ``head`` takes them, ``features`` (n_public, n_features) as this head
        will take them.
        """
        ridge = check_real("ridge", self.ridge, low=0, low_open=True)
        if not isinstance(head, Head):
            raise InvalidInputError(f"head must be a fitted head of pate.models.heads, got {type(head).__name__}.")
        z = np.asarray(features, dtype=np.float64)
        if z.ndim != 2:
            raise InvalidInputError(f"features must be public rows of shape (n_public, n_features), got {z.shape}.")
        z = public_rows(z, z.shape[1], name="features")
        p = head.predict_proba(asked)
        if len(p) != len(z):
            raise InvalidInputError(f"features must be of the {len(p)} public rows, got {len(z)}.")
        m = p.shape[1]
        y = np.eye(m)[p.argmax(axis=1)] - 1 / m
        mean, base = z.mean(axis=0), y.mean(axis=0)
        centred = z - mean
        gram = centred.T @ centred
        penalty = ridge * float(np.square(z).sum()) + 1e-12
        weights = np.linalg.solve(gram + penalty * np.eye(len(gram)), centred.T @ (y - base))
        scores = centred @ weights + base
        t = as_sure(scores, float(p.max(axis=1).mean()))
        self.coef_ = t * np.concatenate([weights, (base - mean @ weights)[None]])
        self.classes_, self.n_components_ = head.classes_, z.shape[1]
        return self

    def decision_function(self, phi: Any) -> FloatArray:
        """Return logits of the features of rows, shape (n_rows, n_classes)."""
        return own_product(self._rows(phi), self.coef_[:-1]) + self.coef_[-1]


#: The least probability that logarithms are taken of.
_LEAST = 1e-4


class ForestHead(Head):
    """Extremely randomised trees on the public rows' columns, trained on a head's probabilities, then corrected.

    Trees on the rows' columns (Geurts, Ernst and Wehenkel, Machine Learning 63, 2006) average a head's noise over
    similar rows, and use single columns. Released sums correct the trees' errors: logits are the log of the forest's
    probabilities plus phi V, with the V that maximises the likelihood of all released rounds (as
    :class:`LikelihoodHead`, with a narrower prior). Post-processing of released numbers and public rows, and free:
    Dwork & Roth (2014), Proposition 2.1.

    Its input has directions and columns side by side: ``[phi, columns]``.

    Parameters
    ----------
    n_trees : int
    leaf : int
        Fewest public rows in a leaf.
    tau : float
        Standard deviation of the prior on V, divided by the first head's.
    random_state : int
        Public.

    Attributes
    ----------
    coef_ : float64 array of shape (n_directions, n_classes)
        V.
    splits_ : int64 array of shape (n_nodes, 3)
        Column, left and right child of every node of all trees; a column of -1 is a leaf.
    thresholds_ : float64 array of shape (n_nodes,)
        A row goes left where the column's float32 is at most this.
    values_ : float64 array of shape (n_nodes, n_classes)
    roots_ : int64 array of shape (n_trees,)
    takes : "phi and columns"

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> phi, columns = np.repeat(np.eye(2), 50, axis=0), np.arange(100.0)[:, None]
    >>> release = SimpleNamespace(
    ...     statistics=[[30.0, -30.0], [-20.0, 20.0]],
    ...     sigma=2.0,
    ...     n_units=100,
    ...     classes=(0, 1),
    ... )
    >>> first = LikelihoodHead().fit(release, phi)
    >>> ForestHead().fit(first, phi, columns).predict([[1, 0, 3.0], [0, 1, 80.0]])
    array([0, 1])
    """

    fitted_arrays: ClassVar[tuple[str, ...]] = ("coef_", "splits_", "thresholds_", "values_", "roots_")
    fitted_scalars: ClassVar[tuple[str, ...]] = ("takes", "n_components_")
    exact_: ClassVar[bool] = True

    coef_: FloatArray
    splits_: IntArray
    thresholds_: FloatArray
    values_: FloatArray
    roots_: IntArray
    takes: str = "phi and columns"
    risk_ = None

    def __init__(self, *, n_trees: int = 100, leaf: int = 5, tau: float = 0.6, random_state: int = 0) -> None:
        self.n_trees = n_trees
        self.leaf = leaf
        self.tau = tau
        self.random_state = random_state

    def fit(self, head: Any, phi_public: Any, columns: Any = None) -> Self:
        """Fit on a :class:`LikelihoodHead` that predicts from directions, and the public rows it was fitted on.

        ``phi_public`` (n_public, n_directions) and ``columns`` (n_public, n_columns) are the same rows. Another head,
        one read from a file, rows that do not match, or a setting out of range is an InvalidInputError.
        """
        n_trees, leaf = check_int("n_trees", self.n_trees, low=1), check_int("leaf", self.leaf, low=1)
        tau = check_real("tau", self.tau, low=0, low_open=True)
        if not isinstance(head, LikelihoodHead) or getattr(head, "takes", "") != "phi":
            raise InvalidInputError(
                f"head must be a LikelihoodHead that predicts from directions, got {type(head).__name__}."
            )
        phi = public_rows(phi_public, head.n_components_)
        rows = np.asarray(columns)
        if rows.ndim != 2 or len(rows) != len(phi):
            raise InvalidInputError(f"columns must be of the {len(phi)} public rows, got shape {rows.shape}.")
        rows = _narrow(public_rows(rows, rows.shape[1], name="columns"))
        forest = ExtraTreesRegressor(
            n_trees, min_samples_leaf=leaf, max_features=1 / 3, random_state=self.random_state
        ).fit(rows, head.predict_proba(phi))
        trees = [tree.tree_ for tree in forest.estimators_]
        starts = np.cumsum([0, *(tree.node_count for tree in trees)])
        self.roots_ = np.asarray(starts[:-1], dtype=np.int64)
        self.splits_ = np.concatenate([_splits(tree, at) for tree, at in zip(trees, starts, strict=False)])
        self.thresholds_ = np.concatenate([tree.threshold for tree in trees])
        self.values_ = np.concatenate([tree.value[:, :, 0] for tree in trees])
        self.classes_, self.n_components_ = head.classes_, phi.shape[1] + rows.shape[1]
        self.coef_ = head.correction(self._log_probabilities(rows), tau=tau * head.tau)
        return self

    def decision_function(self, phi: Any) -> FloatArray:
        """Return logits of rows of ``[phi, columns]``, shape (n_rows, n_classes)."""
        rows, d = self._rows(phi), len(self.coef_)
        return np.asarray(self._log_probabilities(_narrow(rows[:, d:])) + own_product(rows[:, :d], self.coef_))

    def _log_probabilities(self, rows: npt.NDArray[np.float32]) -> FloatArray:
        """Return the log of the forest's probabilities; each row by itself, trees summed in order."""
        every = np.arange(len(rows))
        total = np.zeros((len(rows), self.values_.shape[1]))
        for root in self.roots_:
            at = np.full(len(rows), root)
            going = every[self.splits_[at, 0] >= 0]
            while len(going):
                node = at[going]
                column, left, right = self.splits_[node].T
                at[going] = np.where(rows[going, column] <= self.thresholds_[node], left, right)
                going = going[self.splits_[at[going], 0] >= 0]
            total += self.values_[at]
        return np.asarray(np.log(np.maximum(total / len(self.roots_), _LEAST)))


def _narrow(rows: FloatArray) -> npt.NDArray[np.float32]:
    """Return rows as float32, in which trees compare them."""
    return np.clip(rows, -1e38, 1e38).astype(np.float32)


def _splits(tree: Any, start: int) -> IntArray:
    """Return column, left and right child of a tree's nodes, numbered from ``start``."""
    inner = tree.children_left >= 0
    found = np.stack([tree.feature, tree.children_left + start, tree.children_right + start], axis=1)
    return np.where(inner[:, None], found, -1).astype(np.int64)
