"""What record voters end in: a public model of released ballots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from pate.core.seeds import training_seed
from pate.core.types import FloatArray, IntArray
from pate.records import RecordVoters
from pate.records._maps import take
from pate.representations import Representation

_SEED_PATH = (0x20B11C,)
#: Maps and heads are fitted on so many public rows at most: more cost time and memory, and hardly move them.
_MOST_ROWS = 20_000
#: Rows that are asked about at once.
_SLAB = 8192


class RecordModel(ClassifierMixin, BaseEstimator):
    """A public model of released ballots: raw rows in, probabilities out, for any row, for ever and for nothing.

    Attributes
    ----------
    voters : RecordVoters
        The public maps.
    head : Head
        Fitted on released ballots and public rows.
    columns : Representation or None
        What a head of columns sees of a row, beside its direction.
    classes_ : int64 array of shape (n_classes,)
        Class *indices*, as of every student here.

    Examples
    --------
    >>> from pate.heads import LinearHead
    >>> from pate.records import SignedSpace
    >>> voters = RecordVoters(None, SignedSpace().fit(np.eye(3)), classes=("no", "yes"))
    >>> model = RecordModel(voters, LinearHead.of(np.eye(2), ("no", "yes")))
    >>> model.predict_proba(np.eye(3)).shape
    (3, 2)
    """

    def __init__(self, voters: RecordVoters, head: Any, columns: Representation | None = None) -> None:
        self.voters = voters
        self.head = head
        self.columns = columns

    @property
    def classes_(self) -> IntArray:
        """Class indices."""
        return np.arange(len(self.voters.classes), dtype=np.int64)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return probabilities of shape (n_rows, n_classes)."""
        n = int(np.shape(X)[0])
        parts = [self.head.predict_proba(self.asked(take(X, slab))) for slab in _slabs(n)]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.classes_)))

    def predict(self, X: Any) -> IntArray:
        """Return class indices of shape (n_rows,)."""
        return np.asarray(self.predict_proba(X).argmax(axis=1), dtype=np.int64)

    def asked(self, X: Any) -> FloatArray:
        """Return what the head is asked with."""
        return asked_with(
            self.head, *self.voters.represent(X), None if self.columns is None else self.columns.vectors(X)
        )

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        for name in ("allow_nan", "categorical", "string"):  # its representation reads cell by cell
            setattr(tags.input_tags, name, True)
        return tags


def asked_with(head: Any, z: FloatArray, phi: FloatArray, columns: Any = None) -> FloatArray:
    """Return the representation or the direction, alone or beside the columns, as the head takes it.

    Examples
    --------
    >>> from pate.heads import LinearHead
    >>> asked_with(LinearHead.of([[1.0, 0.0]], (0, 1)), np.zeros((1, 3)), np.ones((1, 1)))
    array([[1.]])
    """
    takes = getattr(head, "takes", "phi")
    if takes == "phi and columns":
        return np.concatenate([phi, columns], axis=1)
    return phi if takes == "phi" else z


def some_rows(X_public: Any, random_state: int = 0) -> Any:
    """Return the public rows that maps and heads are fitted on: all, or 20,000 at random.

    Examples
    --------
    >>> some_rows(np.zeros((30_000, 1))).shape
    (20000, 1)
    """
    n = int(np.shape(X_public)[0])
    if n <= _MOST_ROWS:
        return X_public
    chosen = np.random.default_rng(training_seed(random_state, *_SEED_PATH)).permutation(n)[:_MOST_ROWS]
    return take(X_public, np.sort(chosen))


def _slabs(n: int) -> Iterator[IntArray]:
    for start in range(0, n, _SLAB):
        yield np.arange(start, min(start + _SLAB, n))
