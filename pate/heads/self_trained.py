"""A head that learns from another head's labels of public rows, where classes are clusters."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from pate.core.checks import check_real
from pate.core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.heads._linear import Head
from pate.heads._moments import as_sure, public_rows
from pate.representations._exact import own_product


class SelfTrainedHead(Head):
    """Ridge regression, on public features, of the labels that another head gives to the public rows.

    Labels that follow from few noisy numbers are ragged; a smooth map of the features to them follows the rows' own
    clusters instead (self-training, Scudder, IEEE Trans. Information Theory 11, 1965). It helps where classes are
    clusters and little was told, and takes a point where they overlap and much was told. Free, as all that follows
    from released numbers and public rows: Dwork & Roth (2014), Proposition 2.1.

    Parameters
    ----------
    ridge : float
        Penalty, over the public mean square of a row.

    Attributes
    ----------
    coef_ : float64 array of shape (n_features + 1, n_classes)
        The last row is the constant. Of logits: scaled so that it is as sure of public rows as the first head, on
        average.

    Examples
    --------
    >>> from pate.heads import LinearHead
    >>> z = np.random.default_rng(0).normal(size=(200, 2))
    >>> first = LinearHead.of([[3.0, -3.0], [0.0, 0.0]], ("no", "yes"))
    >>> second = SelfTrainedHead().fit(first, z, features=z)
    >>> bool((second.predict(z) == first.predict(z)).mean() > 0.95)
    True
    """

    _arrays: ClassVar[tuple[str, ...]] = ("coef_",)
    _scalars: ClassVar[tuple[str, ...]] = ("takes", "n_components_")
    exact_: ClassVar[bool] = True

    coef_: FloatArray
    takes: str = "representation"
    risk_ = None

    def __init__(self, *, ridge: float = 5e-4) -> None:
        self.ridge = ridge

    def fit(self, head: Any, asked: Any, features: Any = None) -> Self:
        """Fit on a fitted head's labels.

        Parameters
        ----------
        head : Head
        asked : array of shape (n_public, ...)
            Public rows as ``head`` is asked with them.
        features : array of shape (n_public, n_features)
            The same rows, as this head will be asked with them.
        """
        ridge = check_real("ridge", self.ridge, low=0, low_open=True)
        if not isinstance(head, Head):
            raise InvalidInputError(f"head must be a fitted head of pate.heads, got {type(head).__name__}.")
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
