"""Releases of labels: everything in them is public."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from pate._core.checks import check_real
from pate._core.moved import former_attribute
from pate._core.pages import cell
from pate._core.tensors import load_tensors, save_tensors
from pate._core.types import FloatArray, IntArray
from pate.exceptions import InvalidInputError
from pate.mechanisms import ANSWERED, NOT_ASKED, REFUSED, GaussianSum, Mechanism, NoisyHistogram
from pate.privacy.cost import Charge
from pate.privacy.words import Guarantee
from pate.records import BallotFacts, VectorFacts
from pate.release._quote import Quote
from pate.release.statement.model import PrivacyStatement
from pate.votes import ABSTAIN

# What is public of a sum of ballots: noisy statistics, what their noise is, and what follows from both for free.


_FORM = "ballot release 1"
#: Points of the quadrature over the label's own noise, and rows taken at once.
_NODES, _BLOCK = 101, 4096


@dataclass(frozen=True, eq=False)
class Decisions:
    """Labels of rows, each with the probability that noise did not change it. Public.

    Attributes
    ----------
    labels : int64 array of shape (n,)
        Class indices: the largest score.
    margin : float64 array of shape (n,)
        The largest score minus the second largest, in units of one ballot with |phi| = 1.
    standard_error : float64 array of shape (n,)
        Standard error of the margin of one class over another: sigma |phi| sqrt 2.
    probability : float64 array of shape (n,)
        That the label is what the sum without noise would say, see :meth:`BallotRelease.decide`.
    scores : float64 array of shape (n, m)
    classes : tuple

    Examples
    --------
    >>> Decisions(
    ...     np.array([1]),
    ...     np.ones(1),
    ...     np.ones(1),
    ...     np.ones(1),
    ...     np.ones((1, 2)),
    ...     ("no", "yes"),
    ... ).values()
    ['yes']
    """

    labels: IntArray
    margin: FloatArray
    standard_error: FloatArray
    probability: FloatArray
    scores: FloatArray
    classes: tuple[Any, ...]

    lead = former_attribute("lead", "margin")

    def values(self) -> list[Any]:
        """Return the class values."""
        return [self.classes[i] for i in self.labels]


@dataclass(frozen=True, eq=False, repr=False)
class BallotRelease:
    """A released sum of ballots, with its noise: public. Whatever is computed from it and public rows costs nothing.

    Attributes
    ----------
    statistics : float64 array of shape (d, m)
        In units of one ballot with |phi| = 1 and the centred one-hot e_y - 1/m (a residual of length 1, for residual
        ballots); each row sums to zero, as centred ballots do (what the noise added there is taken off).
    sigma : float
        Standard deviation of the noise on every cell, in the same units, before rows were made to sum to zero: the
        noise that is left has covariance sigma^2 (I - 1 1'/m) along each row, independent between rows.
    facts : BallotFacts
    mechanism : GaussianSum
    guarantee : Guarantee
        Of the whole session, where it was one.
    statement : PrivacyStatement

    Examples
    --------
    >>> from pate import Budget, GaussianSum, RecordVoters, release_ballots
    >>> from pate.records import SignedSpace
    >>> X, y = np.repeat([[0.0, 1.0], [1.0, 0.0]], 300, axis=0), np.repeat([0, 1], 300)
    >>> voters = RecordVoters(None, SignedSpace().fit(X[::50]), classes=2)
    >>> release = release_ballots(
    ...     voters.cast(X, y), GaussianSum(9.0), budget=Budget(1.0, 1e-5)
    ... )
    >>> (
    ...     release.statistics.shape,
    ...     release.n_units,
    ...     release.decide(voters.transform([[0.1, 0.9]])).labels,
    ... )
    ((1, 2), 600, array([0]))
    """

    statistics: FloatArray
    sigma: float
    facts: BallotFacts
    mechanism: GaussianSum
    guarantee: Guarantee
    statement: PrivacyStatement

    @classmethod
    def of(
        cls,
        drawn: npt.ArrayLike,
        facts: BallotFacts,
        mechanism: GaussianSum,
        statement: PrivacyStatement,
        *,
        scale: float | None = None,
    ) -> BallotRelease:
        """Return the release of noisy whole numbers that are paid for and stored, with their statement's guarantee.

        ``scale`` is the standard deviation of their noise, where more was added than is charged for.
        """
        whole = np.asarray(drawn, dtype=np.float64).reshape(facts.n_components, facts.n_classes)
        statistics = whole / facts.scale
        statistics -= statistics.mean(axis=1, keepdims=True)
        sigma = (mechanism.scale(facts.delta_squared) if scale is None else scale) / facts.scale
        return cls(statistics, sigma, facts, mechanism, statement.guarantee, statement)

    @property
    def n_units(self) -> int:
        """Number of units; under add-or-remove adjacency the nominal one, with tiers what all weigh together."""
        return self.facts.n if self.facts.tiers is None else max(1, round(self.facts.weight))

    @property
    def kind(self) -> str:
        """Of the space: "soft", "hard" or "signed"."""
        return self.facts.kind

    @property
    def clip(self) -> float | None:
        """Of residual ballots; None for class ballots."""
        return self.facts.clip

    @property
    def classes(self) -> tuple[Any, ...]:
        """Class values, in the order of the columns."""
        return self.facts.classes

    @property
    def space_fingerprint(self) -> str:
        """Of representation and space (``RecordVoters.fingerprint()``)."""
        return self.facts.space

    def decide(self, phi: npt.ArrayLike) -> Decisions:
        """Return the labels of public rows, their margin, its standard error and how probable they are. Free of cost.

        Parameters
        ----------
        phi : float array of shape (n, d)
            ``voters.transform(X)``.

        Notes
        -----
        Scores are s = phi B; the noise in them is t (Z - mean Z) with t = sigma |phi| and Z standard normal in m
        dimensions, so the difference of two classes has standard error t sqrt 2. What the sum without noise would say
        is not known; the probability is that of the label's being its argmax when the noiseless scores are s - t Z
        (the posterior under a flat prior: the noise is symmetric), P(for all c: s_l - s_c >= t (Z_l - Z_c)) =
        integral of normal(z) prod over c != l of Phi((s_l - s_c)/t + z) dz, by Gauss-Hermite quadrature (to about 1e-6
        for two classes). For two classes it is Phi(margin / (t sqrt 2)). It speaks of the noise alone, not of whether
        the records' majority is right.
        """
        rows = np.asarray(phi, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.statistics) or not np.isfinite(rows).all():
            raise InvalidInputError(
                f"phi must be finite numbers of shape (n, {len(self.statistics)}), got {rows.shape}. Use "
                "voters.transform(X)."
            )
        scores = rows @ self.statistics
        labels = scores.argmax(axis=1)
        error = self.sigma * np.sqrt(np.square(rows).sum(axis=1))
        margin = _gaps(scores, labels).min(axis=1, initial=np.inf)
        probability = probability_of(scores, labels, error)
        return Decisions(labels, margin, error * np.sqrt(2), probability, scores, self.classes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write statistics, facts and statement as one safetensors file; :meth:`load` reads it."""
        facts: dict[str, Any] = {
            "facts": self.facts.to_dict(),
            "mechanism": asdict(self.mechanism),
            "statement": self.statement.to_dict(),
        }
        if self.sigma != self.mechanism.scale(self.facts.delta_squared) / self.facts.scale:
            facts["sigma"] = self.sigma
        save_tensors(path, {"statistics": self.statistics}, facts, form=_FORM)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> BallotRelease:
        """Read a release that was saved; its statement is read strictly, and was altered where that fails.

        Classes come back as JSON has them (texts, truth values and numbers as they are).
        """
        arrays, held = load_tensors(path, form=_FORM)
        try:
            facts = BallotFacts(**held["facts"])
            mechanism = GaussianSum(**held["mechanism"])
            statement = PrivacyStatement.from_dict(held["statement"])
            statistics = arrays["statistics"]
            sigma = float(held.get("sigma", mechanism.scale(facts.delta_squared) / facts.scale))
        except (KeyError, TypeError, ValueError):
            raise InvalidInputError(f"path must be a saved BallotRelease, got {str(path)!r}.") from None
        if statistics.dtype != np.float64 or statistics.shape != (facts.n_components, facts.n_classes):
            raise InvalidInputError(f"path must be a saved BallotRelease, got {str(path)!r} with odd statistics.")
        return cls(statistics, sigma, facts, mechanism, statement.guarantee, statement)

    def __repr__(self) -> str:
        clip = "" if self.clip is None else f", clip={self.clip:g}"
        return (
            f"BallotRelease(kind={self.kind!r}{clip}, shape={self.statistics.shape}, sigma={self.sigma:.4g}, "
            f"guarantee={self.guarantee})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class VectorRelease:
    """A sum of vectors with its noise: public, and whatever is computed from it and public rows costs nothing.

    Attributes
    ----------
    statistics : float64 array of shape ``facts.shape``
        In units of what was summed: units in a cell, squares of the bound, or multiples of the clip.
    sigma : float
        Standard deviation of the noise on every cell, in the same units.
    facts : VectorFacts
    mechanism : GaussianSum
    guarantee : Guarantee
        Of the whole session.
    statement : PrivacyStatement
    """

    statistics: FloatArray
    sigma: float
    facts: VectorFacts
    mechanism: GaussianSum
    guarantee: Guarantee
    statement: PrivacyStatement

    @classmethod
    def of(
        cls, drawn: npt.ArrayLike, facts: VectorFacts, mechanism: GaussianSum, statement: PrivacyStatement
    ) -> VectorRelease:
        """Return the release of noisy whole numbers that are paid for and stored, with their statement's guarantee."""
        statistics = np.asarray(drawn, dtype=np.float64).reshape(facts.shape) / facts.scale
        sigma = mechanism.scale(facts.delta_squared) / facts.scale
        return cls(statistics, sigma, facts, mechanism, statement.guarantee, statement)

    @property
    def n_units(self) -> int:
        """Number of units."""
        return self.facts.n


def probability_of(scores: FloatArray, labels: IntArray, error: Any) -> FloatArray:
    """Return how probable it is that ``labels`` are the argmax of scores without their noise, shape (n,)."""
    gaps, t = _gaps(scores, labels), np.broadcast_to(error, len(scores))
    parts = [_probability(gaps[i : i + _BLOCK], t[i : i + _BLOCK]) for i in range(0, len(scores), _BLOCK)]
    return np.concatenate([np.zeros(0), *parts])


def _gaps(scores: FloatArray, labels: IntArray) -> FloatArray:
    """Return by how much each label's score leads the others, shape (n, m); infinite for itself: Phi is 1 there."""
    every = np.arange(len(scores))
    rest = scores.copy()
    rest[every, labels] = -np.inf
    return np.asarray(scores[every, labels][:, None] - rest)


def _probability(gaps: FloatArray, error: FloatArray) -> FloatArray:
    """Return P(all c: gap_c + t (Z_c - Z_l) >= 0), shape (n,); ``gaps`` is infinite for the label itself."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    weights = weights / weights.sum()
    keep = weights > 1e-18
    nodes, weights = nodes[keep], weights[keep]
    with np.errstate(divide="ignore", invalid="ignore"):
        units = np.where(error[:, None] > 0, gaps / error[:, None], np.where(gaps > 0, np.inf, 0.0))
    total = np.zeros(len(gaps))
    for node, weight in zip(nodes, weights, strict=True):
        total += weight * ndtr(units + node).prod(axis=1)
    # Without noise and all equal (a zero direction), each class is as good as another.
    return np.where(error > 0, np.clip(total, 0.0, 1.0), np.where((gaps <= 0).any(axis=1), 1 / gaps.shape[1], 1.0))


#: Rows that a notebook's cell shows.
_SHOWN = 5


@dataclass(frozen=True, eq=False, repr=False)
class ReleasedLabels:
    """Released labels of public rows, by whatever voted, with their cost and statement. Everything in it is public.

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
        """Return the class values, ``abstain`` where there is none."""
        return [abstain if i == ABSTAIN else self.classes[i] for i in self.labels]

    def to_frame(self, *, rows: npt.ArrayLike | None = None) -> Any:
        """Return a pandas DataFrame: row, label (class value or missing), status.

        Parameters
        ----------
        rows : int array of shape (n_queries,) or None
            Which public rows were asked about; None numbers them 0, 1, ...
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


@dataclass(frozen=True, eq=False)
class Asked:
    """Which votes a release was drawn for; all of it is public: positions of rows, teachers, the rows' hashes."""

    rows: IntArray
    n_teachers: int
    query_hashes: tuple[str, ...] | None


@dataclass(frozen=True, eq=False, repr=False)
class LabelRelease(ReleasedLabels):
    """Released labels of public rows, by teachers' votes: a :class:`ReleasedLabels` that also holds the mechanism.

    Attributes
    ----------
    mechanism : Mechanism
    quote : Quote
        What was charged now.
    noisy_counts : float array of shape (n_queries, n_classes) or None
        For :class:`NoisyHistogram`; NaN rows where not asked.
    counts : tuple of GaussianSum
        Counts of right answers that were charged with these labels, now or by an earlier run of the same request.
    asked : Asked or None
        The rows that were charged and drawn, all at once, for these labels: what :func:`pate.account` prices at the
        votes. None where the votes alone do not say what the labels cost: stored answers, sessions, noise
        of several sites, budgets per tier, several labels, or a count of right answers beside.

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
    asked: Asked | None = None

    def decide(self, *, gap: float = 0.0, offsets: Sequence[float] | None = None) -> LabelRelease:
        """Decide again from the released noisy counts: free, since it is post-processing.

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
        asked, top = ~np.isnan(scores).any(axis=1), np.sort(scores, axis=1)
        clear = asked & (top[:, -1] - top[:, -2] >= gap)
        labels = np.where(clear, scores.argmax(axis=1), ABSTAIN).astype(np.int64)
        status = np.where(asked, np.where(labels == ABSTAIN, REFUSED, ANSWERED), NOT_ASKED).astype("<U9")
        return replace(self, labels=labels, status=status)

    @property
    def margin(self) -> npt.NDArray[np.float64]:
        """By how many noisy votes the largest count leads the second, shape (n_queries,); NaN where none is known.

        Examples
        --------
        >>> from pate import Budget, GNMax, NoisyHistogram, Votes, release_labels
        >>> votes = Votes.from_counts([[98, 2]])
        >>> bool(
        ...     abs(
        ...         release_labels(
        ...             votes, NoisyHistogram(sigma=2.0), budget=Budget(10.0, 1e-5)
        ...         ).margin[0]
        ...         - 96
        ...     )
        ...     < 20
        ... )
        True
        >>> release_labels(votes, GNMax(sigma=2.0), budget=Budget(10.0, 1e-5)).margin
        array([nan])
        """
        if self.noisy_counts is None:
            return np.full(self.n_queries, np.nan)
        top = np.sort(self.noisy_counts, axis=1)
        return np.asarray(top[:, -1] - top[:, -2])

    lead = former_attribute("lead", "margin")

    def leader_probability(self) -> npt.NDArray[np.float64]:
        """Return how probable it is of each class that it leads the votes themselves, shape (n_queries, n_classes).

        Given the noisy counts s and the public sigma of their noise: the probability that the class is the argmax of
        s - sigma Z with Z standard normal (the posterior under a flat prior, as in :meth:`BallotRelease.decide`). For
        two classes it is Phi(margin / (sigma sqrt 2)). Free; it speaks of the noise, not of whether the teachers are
        right. Rows sum to 1; they are NaN where nothing was asked.

        Raises
        ------
        InvalidInputError
            The mechanism did not release counts.

        Examples
        --------
        >>> from pate import Budget, NoisyHistogram, Votes, release_labels
        >>> votes = Votes.from_counts([[98, 2], [51, 49]])
        >>> release = release_labels(
        ...     votes, NoisyHistogram(sigma=2.0), budget=Budget(10.0, 1e-5)
        ... )
        >>> found = release.leader_probability()
        >>> found.sum(axis=1).round(6).tolist(), bool(found[0, 0] > 0.999)
        ([1.0, 1.0], True)
        """
        places = range(len(self.classes))
        return np.stack([self._noisy_margins(np.full(self.n_queries, place)) for place in places], axis=1)

    def confidence(self) -> npt.NDArray[np.float64]:
        """Return :meth:`leader_probability` of the labels alone, shape (n_queries,); NaN where there is none.

        Examples
        --------
        >>> from pate import Budget, NoisyHistogram, Votes, release_labels
        >>> votes = Votes.from_counts([[98, 2]])
        >>> release = release_labels(
        ...     votes, NoisyHistogram(sigma=2.0), budget=Budget(10.0, 1e-5)
        ... )
        >>> bool(release.confidence()[0] > 0.999)
        True
        """
        return np.where(self.answered, self._noisy_margins(np.where(self.answered, self.labels, 0)), np.nan)

    def _noisy_margins(self, labels: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
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
    """Labels of public rows by a released model: a :class:`ReleasedLabels` that also holds their probabilities.

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

    @classmethod
    def by_model(
        cls,
        probability: npt.NDArray[np.float64],
        classes: tuple[Any, ...],
        charge: Charge,
        statement: PrivacyStatement,
        *more: Any,
        labels: npt.NDArray[np.int64] | None = None,
    ) -> Self:
        """Return the labels, by default the likeliest class of every row, under the statement of the model."""
        labels = probability.argmax(axis=1).astype(np.int64) if labels is None else labels
        status = np.full(len(labels), ANSWERED, dtype="<U9")
        return cls(labels, status, classes, statement.guarantee, statement, probability, charge, *more)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_queries={self.n_queries}, guarantee={self.guarantee})"


@dataclass(frozen=True, eq=False, repr=False)
class RecordLabels(ModelLabels):
    """Labels of public rows by the model of record voters: a :class:`ModelLabels` that also holds the released sums.

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
        return cls.by_model(probability, rounds[-1].classes, charge, statement, rounds, labels=labels)

    def __repr__(self) -> str:
        return f"RecordLabels(n_queries={self.n_queries}, n_rounds={len(self.rounds)}, guarantee={self.guarantee})"
