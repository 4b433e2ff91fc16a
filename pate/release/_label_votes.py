"""Votes of teachers on several labels at once: as votes of one class each, which releases know the price of.

**By label.** Every label of every row is a query of two classes. Replacing a person turns at most every label of one
teacher's ballot: with :class:`pate.NoisyHistogram` of sigma a row of L labels costs mu^2 = 2 L/sigma^2, which is L/s^2
for noise of s = sigma/sqrt(2) on the number of yes votes, the exact cost of a Gaussian on vectors of {0, 1}^L.

**One vote each.** Every teacher votes for its most confident positive label alone, or for none: mu^2 = 2/sigma^2 a row
however many labels there are. It is the clipped ballot of Dziedzic et al. (PoPETs 2023) with tau = 1, and pays where
rows have few labels; where they have many, most of a teacher's opinion is left out.

Yes, no and abstaining are decided from released counts, free of cost (post-processing).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from pate._core.checks import check_int, check_real
from pate._core.types import IntArray
from pate.exceptions import InvalidInputError
from pate.release._labels import LabelRelease
from pate.votes import ABSTAIN, Votes

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
    held = np.asarray(ballots)
    if held.ndim != 3 or held.shape[2] != len(names) or held.dtype.kind not in "biu" or not np.isin(held, (0, 1)).all():
        raise InvalidInputError(
            f"ballots must hold 0 and 1, of shape (n_teachers, n_rows, {len(names)}), got {held.dtype} of "
            f"{held.shape}. Each entry is what one teacher says of one label of one row."
        )
    n_teachers, n_rows, n_labels = held.shape
    said: dict[str, Any] = {"unit": unit, "n_units": n_units}
    if confidence is None:
        if query_hashes is not None:
            each = (hashlib.sha256(f"{row} {name}".encode()).hexdigest() for row in query_hashes for name in names)
            said["query_hashes"] = tuple(each)
        return Votes.from_labels(held.reshape(n_teachers, n_rows * n_labels).astype(int), classes=("no", "yes"), **said)
    sure = np.asarray(confidence, dtype=np.float64)
    if sure.shape != held.shape or not np.isfinite(sure).all():
        raise InvalidInputError(f"confidence must be finite, of the ballots' shape {held.shape}, got {sure.shape}.")
    surest = np.where(held == 1, sure, -np.inf).argmax(axis=2)
    chosen = np.where(held.any(axis=2), surest, n_labels)
    return Votes.from_labels(chosen, classes=(*names, NONE), query_hashes=query_hashes, **said)


def labels_of(
    release: LabelRelease, n_labels: int, *, n_teachers: int | None = None, threshold: float = 0.5, gap: float = 0.0
) -> IntArray:
    """Return which labels released noisy counts say rows have: 1, 0, or -1 (abstain). Free: post-processing.

    Parameters
    ----------
    release : LabelRelease
        Of :func:`label_votes`, by :class:`pate.NoisyHistogram`.
    n_labels : int
    n_teachers : int or None
        Needed with one vote each.
    threshold : float
        The part of the teachers whose votes make a label; with one vote each less than one half may be wanted.
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
    counts, by_label = release.noisy_counts, tuple(release.classes) == ("no", "yes")
    if counts is None:
        raise InvalidInputError(f"release must hold noisy counts, got one of {release.mechanism}. Use NoisyHistogram.")
    if (len(counts) % n_labels) if by_label else len(release.classes) != n_labels + 1:
        raise InvalidInputError(f"n_labels must be that of label_votes, got {n_labels}. Pass the number of its names.")
    if by_label:  # all teachers vote: the difference of both counts says what each of them says, with less noise
        asked = counts.reshape(-1, n_labels, 2)
        over = (1 - threshold) * asked[..., 1] - threshold * asked[..., 0]
    else:
        over = counts[:, :n_labels] - threshold * check_int("n_teachers", n_teachers, low=1)
    hidden = np.isnan(over) | (np.abs(over) < gap)
    return np.asarray(np.where(hidden, ABSTAIN, over > 0), dtype=np.int64)
