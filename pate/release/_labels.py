"""What was released; everything in it is public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_real
from pate.core.pages import cell
from pate.exceptions import InvalidInputError
from pate.mechanisms import ANSWERED, NOT_ASKED, REFUSED, Draw, GaussianSum, Mechanism, NoisyHistogram
from pate.privacy.cost import Charge
from pate.privacy.words import Guarantee
from pate.release._ballot_release import BallotRelease, probability_of
from pate.release._quote import Quote
from pate.statement.model import PrivacyStatement
from pate.votes import ABSTAIN

#: Rows that a notebook's cell shows.
_SHOWN = 5


@dataclass(frozen=True, eq=False, repr=False)
class ReleasedLabels:
    """Labels of public rows that were let out, whoever voted, with what they cost. Everything in it is public.

    Attributes
    ----------
    labels : int64 array of shape (n_queries,)
        Indices into ``classes``; ``ABSTAIN`` (-1) where there is none.
    status : array of str, shape (n_queries,)
        ``"answered"``, ``"refused"`` or ``"not asked"``.
    classes : tuple
    guarantee : Guarantee
        Covers these labels.
    statement : PrivacyStatement

    Examples
    --------
    >>> issubclass(LabelRelease, ReleasedLabels)
    True
    """

    labels: npt.NDArray[np.int64]
    status: npt.NDArray[np.str_]
    classes: tuple[Any, ...]
    guarantee: Guarantee
    statement: PrivacyStatement

    @property
    def answered(self) -> npt.NDArray[np.bool_]:
        """Mask of the rows with a label, shape (n_queries,)."""
        return np.asarray(self.labels != ABSTAIN)

    @property
    def n_queries(self) -> int:
        """Number of rows, answered or not."""
        return len(self.labels)

    @property
    def n_answered(self) -> int:
        """Number of rows with a label."""
        return int(self.answered.sum())

    def values(self, *, abstain: Any = None) -> list[Any]:
        """Return the class values, ``abstain`` where there is none.

        Examples
        --------
        >>> from pate import Budget, GNMax, Votes, release_labels
        >>> votes = Votes.from_counts([[98, 2], [5, 95]], classes=["no", "yes"])
        >>> release_labels(votes, GNMax(sigma=2.0), budget=Budget(10.0, 1e-5)).values()
        ['no', 'yes']
        """
        return [abstain if i == ABSTAIN else self.classes[i] for i in self.labels]

    def to_frame(self, *, rows: npt.ArrayLike | None = None) -> Any:
        """Return a pandas DataFrame: row, label (class value or missing), status.

        Parameters
        ----------
        rows : int array of shape (n_queries,) or None
            Which public rows were asked about; None numbers them 0, 1, ...

        Examples
        --------
        >>> from pate import Budget, GNMax, Votes, release_labels
        >>> votes = Votes.from_counts([[98, 2], [5, 95]], classes=["no", "yes"])
        >>> release_labels(votes, GNMax(sigma=2.0), budget=Budget(10.0, 1e-5)).to_frame()
           row label    status
        0    0    no  answered
        1    1   yes  answered
        """
        import pandas as pd

        index = np.arange(self.n_queries) if rows is None else np.asarray(rows)
        if index.shape != (self.n_queries,):
            raise InvalidInputError(
                f"rows must name the public row of each of the {self.n_queries} queries, got shape {index.shape}."
            )
        # As objects: beside a missing label pandas would turn class 5 into 5.0.
        labels = pd.Series(self.values(), dtype=object)
        return pd.DataFrame({"row": index, "label": labels, "status": self.status.tolist()})

    def _repr_html_(self) -> str:
        n = min(_SHOWN, self.n_queries)
        values = self.values(abstain="")[:n]
        rows = [(i, value, status) for i, (value, status) in enumerate(zip(values, self.status, strict=False))]
        more = [f"... {self.n_queries - n} more; .to_frame() has all of them."] if self.n_queries > n else []
        line = f"{self.n_answered} of {self.n_queries} rows labelled; {self.statement.headline}"
        return cell(type(self).__name__, line, heads=("row", "label", "status"), rows=rows, more=more)


@dataclass(frozen=True, eq=False, repr=False)
class LabelRelease(ReleasedLabels):
    """Labels that teachers gave: all of :class:`ReleasedLabels`, and by which mechanism.

    Attributes
    ----------
    mechanism : Mechanism
    quote : Quote
        What was charged now.
    noisy_counts : float array of shape (n_queries, n_classes) or None
        For :class:`NoisyHistogram`; NaN rows where not asked.
    counts : tuple of GaussianSum
        Counts of right answers that were charged with these labels, now or by an earlier run of the same request.

    Examples
    --------
    >>> from pate import Budget, GNMax, Votes, release_labels
    >>> votes = Votes.from_counts([[98, 2], [5, 95]])
    >>> release = release_labels(votes, GNMax(sigma=2.0), budget=Budget(10.0, 1e-5))
    >>> release.labels, release.n_answered
    (array([0, 1]), 2)
    """

    mechanism: Mechanism
    quote: Quote
    noisy_counts: npt.NDArray[np.float64] | None = None
    counts: tuple[GaussianSum, ...] = ()

    @classmethod
    def of(
        cls,
        found: Draw,
        classes: tuple[Any, ...],
        mechanism: Mechanism,
        price: Quote,
        statement: PrivacyStatement,
        counts: tuple[GaussianSum, ...] = (),
    ) -> LabelRelease:
        """Return the release of a draw, paid for and stored, with its statement's guarantee."""
        labels, status, noisy = found.labels, found.status, found.noisy_counts
        return cls(labels, status, classes, statement.guarantee, statement, mechanism, price, noisy, counts)

    def decide(self, *, gap: float = 0.0, offsets: Sequence[float] | None = None) -> LabelRelease:
        """Decide anew from the released noisy counts: free, since it is post-processing.

        Parameters
        ----------
        gap : float
            Abstain where the largest noisy count leads the second by less, in votes.
        offsets : sequence of float, shape (n_classes,), or None
            Added to the noisy counts before the argmax, to favour rare classes.

        Returns
        -------
        LabelRelease
            The same release, other labels, no new cost.

        Raises
        ------
        InvalidInputError
            The mechanism did not release counts, or a parameter is out of range.

        Examples
        --------
        >>> from pate import Budget, NoisyHistogram, Votes, release_labels
        >>> votes = Votes.from_counts([[98, 2], [51, 49]])
        >>> release = release_labels(votes, NoisyHistogram(sigma=2.0), budget=Budget(10.0, 1e-5))
        >>> release.decide(gap=40).labels
        array([ 0, -1])
        """
        if self.noisy_counts is None:
            raise InvalidInputError(
                f"decide needs released noisy counts, but {self.mechanism} released labels only. "
                "Use NoisyHistogram(sigma=...), whose counts are public."
            )
        gap = check_real("gap", gap, low=0)
        scores = self.noisy_counts
        if offsets is not None:
            shift = np.asarray(offsets, dtype=np.float64)
            if shift.shape != (len(self.classes),) or not np.isfinite(shift).all():
                raise InvalidInputError(f"offsets must be {len(self.classes)} finite numbers, got {offsets!r}.")
            scores = scores + shift
        asked = ~np.isnan(scores).any(axis=1)
        labels = np.full(len(scores), ABSTAIN, dtype=np.int64)
        if asked.any():
            top = np.sort(scores[asked], axis=1)
            clear = top[:, -1] - top[:, -2] >= gap
            labels[asked] = np.where(clear, scores[asked].argmax(axis=1), ABSTAIN)
        status = np.where(asked, np.where(labels == ABSTAIN, REFUSED, ANSWERED), NOT_ASKED).astype("<U9")
        return replace(self, labels=labels, status=status)

    @property
    def lead(self) -> npt.NDArray[np.float64]:
        """By how many noisy votes the largest count leads the second, shape (n_queries,); NaN where none is known.

        Examples
        --------
        >>> from pate import Budget, GNMax, NoisyHistogram, Votes, release_labels
        >>> votes = Votes.from_counts([[98, 2]])
        >>> bool(abs(release_labels(votes, NoisyHistogram(sigma=2.0), budget=Budget(10.0, 1e-5)).lead[0] - 96) < 20)
        True
        >>> release_labels(votes, GNMax(sigma=2.0), budget=Budget(10.0, 1e-5)).lead
        array([nan])
        """
        if self.noisy_counts is None:
            return np.full(self.n_queries, np.nan)
        top = np.sort(self.noisy_counts, axis=1)
        return np.asarray(top[:, -1] - top[:, -2])

    def leader_probability(self) -> npt.NDArray[np.float64]:
        """Return how probable it is of each class that it leads the votes themselves, shape (n_queries, n_classes).

        Given the noisy counts s and the public sigma of their noise: the probability that the class is the argmax of
        s - sigma Z with Z standard normal (the posterior under a flat prior, as in :meth:`BallotRelease.decide`). For
        two classes it is Phi(lead / (sigma sqrt 2)). Free; it speaks of the noise, not of whether the teachers are
        right. Rows sum to 1; they are NaN where nothing was asked.

        Raises
        ------
        InvalidInputError
            The mechanism did not release counts.

        Examples
        --------
        >>> from pate import Budget, NoisyHistogram, Votes, release_labels
        >>> votes = Votes.from_counts([[98, 2], [51, 49]])
        >>> release = release_labels(votes, NoisyHistogram(sigma=2.0), budget=Budget(10.0, 1e-5))
        >>> found = release.leader_probability()
        >>> found.sum(axis=1).round(6).tolist(), bool(found[0, 0] > 0.999)
        ([1.0, 1.0], True)
        """
        places = range(len(self.classes))
        return np.stack([self._leads(np.full(self.n_queries, place)) for place in places], axis=1)

    def confidence(self) -> npt.NDArray[np.float64]:
        """Return :meth:`leader_probability` of the labels alone, shape (n_queries,); NaN where there is none.

        Examples
        --------
        >>> from pate import Budget, NoisyHistogram, Votes, release_labels
        >>> votes = Votes.from_counts([[98, 2]])
        >>> release = release_labels(votes, NoisyHistogram(sigma=2.0), budget=Budget(10.0, 1e-5))
        >>> bool(release.confidence()[0] > 0.999)
        True
        """
        return np.where(self.answered, self._leads(np.where(self.answered, self.labels, 0)), np.nan)

    def _leads(self, labels: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return how probable it is that these classes lead the votes themselves."""
        if self.noisy_counts is None or not isinstance(self.mechanism, NoisyHistogram):
            raise InvalidInputError(
                f"how sure a label is, only released noisy counts say, and {self.mechanism} released labels alone. Use "
                "NoisyHistogram(sigma=...)."
            )
        asked = ~np.isnan(self.noisy_counts).any(axis=1)
        found = np.full(self.n_queries, np.nan)
        found[asked] = probability_of(self.noisy_counts[asked], labels[asked], self.mechanism.sigma)
        return found

    def __repr__(self) -> str:
        return (
            f"LabelRelease(n_queries={self.n_queries}, n_answered={self.n_answered}, mechanism={self.mechanism}, "
            f"guarantee={self.guarantee})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class ModelLabels(ReleasedLabels):
    """Labels of public rows by a model that was let out: all of :class:`ReleasedLabels`, and how probable they are.

    Attributes
    ----------
    probability : float64 array of shape (n_queries, n_classes)
        What the model says of each row.
    charge : Charge
        What the model cost.

    Examples
    --------
    >>> issubclass(ModelLabels, ReleasedLabels)
    True
    """

    probability: npt.NDArray[np.float64]
    charge: Charge

    @staticmethod
    def said(
        probability: npt.NDArray[np.float64], labels: npt.NDArray[np.int64] | None = None
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.str_]]:
        """Return the labels, by default the likeliest class of every row, and their status."""
        labels = probability.argmax(axis=1).astype(np.int64) if labels is None else labels
        return labels, np.full(len(labels), ANSWERED, dtype="<U9")

    @classmethod
    def by_model(
        cls,
        probability: npt.NDArray[np.float64],
        classes: tuple[Any, ...],
        charge: Charge,
        statement: PrivacyStatement,
        *,
        labels: npt.NDArray[np.int64] | None = None,
    ) -> ModelLabels:
        """Return the labels, by default the likeliest class of every row, under the statement of the model."""
        labels, status = ModelLabels.said(probability, labels)
        return ModelLabels(labels, status, classes, statement.guarantee, statement, probability, charge)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_queries={self.n_queries}, guarantee={self.guarantee})"


@dataclass(frozen=True, eq=False, repr=False)
class RecordLabels(ModelLabels):
    """Labels of public rows by a model of released ballots: all of :class:`ModelLabels`, and what they come from.

    Attributes
    ----------
    rounds : tuple of BallotRelease
        The noisy statistics, from which the labels of any other row follow for free.
    charge : Charge
        What all rounds cost together, whenever they were paid for.

    Examples
    --------
    >>> issubclass(RecordLabels, ReleasedLabels)
    True
    """

    rounds: tuple[BallotRelease, ...]

    @classmethod
    def of(
        cls,
        probability: npt.NDArray[np.float64],
        rounds: tuple[BallotRelease, ...],
        charge: Charge,
        statement: PrivacyStatement,
        *,
        labels: npt.NDArray[np.int64] | None = None,
    ) -> RecordLabels:
        """Return the labels, by default the likeliest class of every row, under the statement of all rounds."""
        labels, status = ModelLabels.said(probability, labels)
        return cls(labels, status, rounds[-1].classes, statement.guarantee, statement, probability, charge, rounds)

    def __repr__(self) -> str:
        return f"RecordLabels(n_queries={self.n_queries}, n_rounds={len(self.rounds)}, guarantee={self.guarantee})"
