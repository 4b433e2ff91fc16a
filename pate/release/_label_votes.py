"""Votes of teachers on several labels at once: as votes of one class each, which releases know the price of.

**By label.** Every label of every row is a query of two classes. Replacing a person turns at most every label of one
teacher's ballot: with :class:`pate.NoisyHistogram` of sigma a row of L labels costs mu^2 = 2 L/sigma^2, which is L/s^2
for noise of s = sigma/sqrt(2) on the number of yes votes, the exact cost of a Gaussian on vectors of {0, 1}^L.

**One vote each.** Every teacher votes for its most confident positive label alone, or for none: mu^2 = 2/sigma^2 a row
however many labels there are. It is the clipped ballot of Dziedzic et al. (PoPETs 2023) with tau = 1, and pays where
rows have few labels; where they have many, most of a teacher's opinion is left out.

**Clipped.** Every teacher says yes to its t most confident positive labels at most, tau^2 = t in that paper: no entry
of a ballot is negative, so that a replaced one moves the numbers of yes votes by sqrt(2 t) at most, and a row costs
mu^2 = 2 t/s^2 with :class:`pate.NoisyBallots`. That is less than by label where 2 t < L.

Yes, no and abstaining are decided from released counts, free of cost (post-processing).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_classes, check_int, check_real
from pate._core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.mechanisms import NoisyBallots
from pate.release._labels import LabelRelease
from pate.votes import ABSTAIN, BallotVotes, Votes

#: The class of a vote for no label.
NONE = "none of them"


def label_votes(
    ballots: Any,
    names: Sequence[str],
    *,
    confidence: Any = None,
    unit: str = "record",
    n_units: int | None = None,
    query_hashes: tuple[str, ...] | None = None,
) -> Votes:
    """Return teachers' votes on several labels as queries of one class each: **sensitive**.

    Parameters
    ----------
    ballots : array-like of shape (n_teachers, n_rows, n_labels)
        1 where a teacher says that a row has a label, else 0.
    names : sequence of str
        Of the labels.
    confidence : array-like of that shape, or None
        How sure a teacher is of each label: then each casts one vote a row, for the label with 1 that it is surest of.
        None: it votes yes or no on every label.
    unit, n_units
        As of :class:`pate.Votes`.
    query_hashes : tuple of str or None
        One digest per row (:func:`pate.votes.hash_queries`).

    Returns
    -------
    Votes
        By label: n_rows n_labels queries, row by row. One vote each: n_rows queries with a class for none.

    Raises
    ------
    InvalidInputError
        Other shapes, or ballots that hold something else than 0 and 1.

    Examples
    --------
    >>> from pate import Budget, NoisyHistogram, release_labels
    >>> votes = label_votes(np.ones((90, 5, 3), dtype=int), ["ill", "old", "rich"])
    >>> release = release_labels(votes, NoisyHistogram(sigma=9.0), budget=Budget(9.0, 1e-5))
    >>> labels_of(release, 3).tolist() == [[1, 1, 1]] * 5
    True
    """
    held = _checked(ballots, names)
    n_teachers, n_rows, n_labels = held.shape
    said: dict[str, Any] = {"unit": unit, "n_units": n_units}
    if confidence is None:
        if query_hashes is not None:
            each = (hashlib.sha256(f"{row} {name}".encode()).hexdigest() for row in query_hashes for name in names)
            said["query_hashes"] = tuple(each)
        return Votes.from_labels(held.reshape(n_teachers, n_rows * n_labels).astype(int), classes=("no", "yes"), **said)
    sure = _sure(confidence, held)
    surest = np.where(held == 1, sure, -np.inf).argmax(axis=2)
    chosen = np.where(held.any(axis=2), surest, n_labels)
    return Votes.from_labels(chosen, classes=(*names, NONE), query_hashes=query_hashes, **said)


def clipped_votes(
    ballots: Any,
    names: Sequence[str],
    *,
    most_labels: int,
    confidence: Any = None,
    unit: str = "record",
    n_units: int | None = None,
    query_hashes: tuple[str, ...] | None = None,
) -> BallotVotes:
    """Return teachers' ballots cut to their surest labels, for :class:`pate.NoisyBallots`: **sensitive**.

    Each ballot is cut by itself: which labels of one teacher stay depends on no other teacher.

    Parameters
    ----------
    ballots : array-like of shape (n_teachers, n_rows, n_labels)
        1 where a teacher says that a row has a label, else 0.
    names : sequence of str
        Of the labels.
    most_labels : int
        The most labels that one teacher says yes to in one row: a public number, chosen without looking at the votes.
    confidence : array-like of that shape, or None
        How sure a teacher is of each label: it keeps the surest of those with 1, and of equally sure ones (None: of
        all) those that are named first.
    unit, n_units
        As of :class:`pate.Votes`.
    query_hashes : tuple of str or None
        One digest per row (:func:`pate.votes.hash_queries`).

    Raises
    ------
    InvalidInputError
        Other shapes, ballots that hold something else than 0 and 1, or most_labels not a whole number >= 1.

    Examples
    --------
    >>> from pate import Budget, NoisyBallots, release_labels
    >>> ballots = np.tile([1, 0, 0, 1], (90, 5, 1))
    >>> votes = clipped_votes(ballots, ["ill", "old", "rich", "tall"], most_labels=2)
    >>> release = release_labels(
    ...     votes, NoisyBallots(sigma=9.0, most_labels=2), budget=Budget(9.0, 1e-5)
    ... )
    >>> labels_of(release, 4, n_teachers=90).tolist() == [[1, 0, 0, 1]] * 5
    True
    """
    most_labels = check_int("most_labels", most_labels, low=1)
    held = _checked(ballots, names)
    sure = np.zeros(held.shape) if confidence is None else _sure(confidence, held)
    kept = np.zeros(held.shape, dtype=bool)
    for mine, ballot, how in zip(kept, held == 1, sure, strict=True):
        first = np.argsort(np.where(ballot, -how, np.inf), axis=1, kind="stable")[:, :most_labels]
        np.put_along_axis(mine, first, np.take_along_axis(ballot, first, axis=1), axis=1)
    if query_hashes is not None:  # a ledger's answer to ballots of other labels is no answer to these
        asked = f"ballots {most_labels} {list(names)}"
        query_hashes = tuple(hashlib.sha256(f"{row} {asked}".encode()).hexdigest() for row in query_hashes)
    return BallotVotes(kept, check_classes(names), most_labels, unit, n_units, query_hashes)


def _checked(ballots: Any, names: Sequence[str]) -> npt.NDArray[Any]:
    held = np.asarray(ballots)
    if held.ndim != 3 or held.shape[2] != len(names) or held.dtype.kind not in "biu" or not np.isin(held, (0, 1)).all():
        raise InvalidInputError(
            f"ballots must hold 0 and 1, of shape (n_teachers, n_rows, {len(names)}), got {held.dtype} of "
            f"{held.shape}. Each entry is what one teacher says of one label of one row."
        )
    return held


def _sure(confidence: Any, held: npt.NDArray[Any]) -> FloatArray:
    sure = np.asarray(confidence, dtype=np.float64)
    if sure.shape != held.shape or not np.isfinite(sure).all():
        raise InvalidInputError(f"confidence must be finite, of the ballots' shape {held.shape}, got {sure.shape}.")
    return sure


def labels_of(
    release: LabelRelease, n_labels: int, *, n_teachers: int | None = None, threshold: float = 0.5, gap: float = 0.0
) -> IntArray:
    """Return which labels released noisy counts say rows have: 1, 0, or -1 (abstain). Free: post-processing.

    Parameters
    ----------
    release : LabelRelease
        Of :func:`label_votes`, by :class:`pate.NoisyHistogram`, or of :func:`clipped_votes`, by
        :class:`pate.NoisyBallots`.
    n_labels : int
    n_teachers : int or None
        Needed with one vote each and with clipped votes.
    threshold : float
        The part of the teachers whose votes make a label; with one vote each, or clipped votes, less than one half may
        be wanted.
    gap : float
        Abstain where the yes votes are nearer to the threshold than so many votes.

    Returns
    -------
    int64 array of shape (n_rows, n_labels)

    Raises
    ------
    InvalidInputError
        A mechanism that released no counts, or another number of labels.
    """
    threshold, gap = check_real("threshold", threshold, low=0, high=1), check_real("gap", gap, low=0)
    check_int("n_labels", n_labels, low=1)
    clipped = isinstance(release.mechanism, NoisyBallots)
    counts, by_label = release.noisy_counts, not clipped and tuple(release.classes) == ("no", "yes")
    if counts is None:
        raise InvalidInputError(f"release must hold noisy counts, got one of {release.mechanism}. Use NoisyHistogram.")
    if (len(counts) % n_labels) if by_label else len(release.classes) != n_labels + (not clipped):
        raise InvalidInputError(f"n_labels must be that of label_votes, got {n_labels}. Pass the number of its names.")
    if by_label:  # all teachers vote: the difference of both counts says what each of them says, with less noise
        asked = counts.reshape(-1, n_labels, 2)
        over = (1 - threshold) * asked[..., 1] - threshold * asked[..., 0]
    else:
        over = counts[:, :n_labels] - threshold * check_int("n_teachers", n_teachers, low=1)
    hidden = np.isnan(over) | (np.abs(over) < gap)
    return np.asarray(np.where(hidden, ABSTAIN, over > 0), dtype=np.int64)
