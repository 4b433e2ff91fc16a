"""What record voters end in: a public model of released ballots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pate.core.progress import track
from pate.core.seeds import training_seed
from pate.core.types import FloatArray, IntArray, Mask
from pate.data.files._blocks import let_go
from pate.recipes._answers import Answers, decided
from pate.records import RecordVoters
from pate.records._maps import in_blocks, is_own, n_rows, own_throughout, rows_of, take
from pate.records._work import HeldRecords
from pate.records.ballots import GRID
from pate.representations import Representation

_SEED_PATH = (0x20B11C,)
#: Maps and heads are fitted on so many public rows at most: more cost time and memory, and hardly move them.
_MOST_ROWS = 20_000
#: Rows that are asked about at once.
_SLAB = 8192


class RecordModel(Answers):
    """A public model of released ballots: raw rows in, probabilities out, for any row, for ever and for nothing.

    Attributes
    ----------
    voters : RecordVoters
        The public maps.
    head : Head
        Fitted on released ballots and public rows.
    columns : Representation or None
        What a head of columns sees of a row, beside its direction.
    temperature : float
        Logits are divided by it before they are told as probabilities.
    weights : tuple of float
        The head's probabilities are divided by them before the largest one is taken; empty: they are not.
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

    def __init__(
        self,
        voters: RecordVoters,
        head: Any,
        columns: Representation | None = None,
        *,
        temperature: float = 1.0,
        weights: tuple[float, ...] = (),
    ) -> None:
        self.voters = voters
        self.head = head
        self.columns = columns
        self.temperature = temperature
        self.weights = weights

    @property
    def classes_(self) -> IntArray:
        """Class indices."""
        return np.arange(len(self.voters.classes), dtype=np.int64)

    def untempered(self, X: Any) -> FloatArray:
        """Return the head's own probabilities of shape (n_rows, n_classes)."""
        n = int(np.shape(X)[0])
        parts = [self.head.predict_proba(self.asked(take(X, slab))) for slab in slabs(n)]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.classes_)))

    def asked(self, X: Any) -> FloatArray:
        """Return what the head is asked with."""
        return asked_with(
            self.head, *self.voters.represent(X), None if self.columns is None else self.columns.vectors(X)
        )

    def answers(self, X: Any, *, verbose: bool = False) -> IntArray:
        """Return the class index of each **private** row, from that row alone; -1 where it cannot be asked with.

        Parameters
        ----------
        X : rows, or records that the same voters hold
            The latter are asked with the directions that they cast, phi in whole 2^-16, as residual ballots are.
        verbose : bool
            Show progress: for records whose number is public.

        Returns
        -------
        int64 array of shape (n_rows,)
            **Sensitive.** Rows are asked in blocks of one fixed shape; one that is not finite is not asked.
        """
        if isinstance(X, HeldRecords):
            pieces = track(X.pieces, total=len(X.pieces), label="answers", show=verbose)
            parts = []
            for piece in pieces:
                parts.append(in_blocks(self._of_directions, piece.p, len(piece.p)))
                let_go()
            casts = [p.labels >= 0 for p in X.pieces]
            return np.where(np.concatenate(casts), np.concatenate(parts), -1)
        rows, readable = rows_of(X, width=self.voters._map.width)
        n = n_rows(rows)
        made = track(slabs(n), total=-(-n // _SLAB), label="answers", show=verbose)
        parts = [in_blocks(self._of_rows, take(rows, slab), len(slab)) for slab in made]
        return np.where(readable, np.concatenate([np.zeros(0, dtype=np.int64), *parts]), -1)

    def takes_held(self, held: Any, voters: RecordVoters) -> bool:
        """Whether :meth:`answers` can be asked with records that these voters hold, in their own order."""
        alike = voters is self.voters and getattr(self.head, "takes", "phi") == "phi"
        return alike and isinstance(held, HeldRecords) and not held.whose.grouped

    def own(self, *, unit: str) -> bool:
        """Whether pate vouches that each record is answered from its own row alone, to the last bit.

        Under replace-one adjacency: of records, whose places are fixed, by pate's own code; of persons, who may have
        more records or fewer, where all of it is exact wherever a row stands, too.
        """
        maps, head = self.voters._map, self.head
        own = maps.own and is_own(head, ".heads") and bool(getattr(head, "own_", False))
        columns = self.columns is None or own_throughout(self.columns)
        exact = maps.exact and bool(getattr(head, "exact_", False))
        exact = exact and (self.columns is None or bool(getattr(self.columns, "exact_", False)))
        return own and columns and (exact or (unit == "record" and self.voters.adjacency == "replace-one"))

    def _of_rows(self, rows: Any) -> tuple[IntArray, Mask]:
        return self._said(self.asked(rows))

    def _of_directions(self, p: Any) -> tuple[IntArray, Mask]:
        return self._said(np.asarray(p, dtype=np.float64) / GRID)

    def _said(self, asked: FloatArray) -> tuple[IntArray, Mask]:
        fine = np.asarray(np.isfinite(asked).all(axis=1))
        probability = np.asarray(self.head.predict_proba(np.where(fine[:, None], asked, 0.0)))
        return decided(probability, self.weights), fine

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        for name in ("allow_nan", "categorical", "string"):  # its representation reads cell by cell
            setattr(tags.input_tags, name, True)
        return tags


def asked_with(head: Any, z: FloatArray, phi: FloatArray, columns: Any = None) -> FloatArray:
    """Return the representation or the direction, alone or beside the columns, as the head takes it."""
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


def slabs(n: int) -> Iterator[IntArray]:
    """Yield the positions of rows that are asked about at once."""
    for start in range(0, n, _SLAB):
        yield np.arange(start, min(start + _SLAB, n))
