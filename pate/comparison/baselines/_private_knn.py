"""Private kNN (Zhu, Yu, Chandraker, Wang 2020): noisy votes of the nearest records of a random sample."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pate._core.checks import check_int, check_real, largest_of, least_of, quietly
from pate._core.types import FloatArray, IntArray, Mask
from pate.comparison.baselines._base import Baseline, Priced, Task
from pate.data.partition import distinct_ids
from pate.exceptions import BudgetExceededError, InvalidInputError
from pate.mechanisms import ANSWERED, REFUSED, Draw
from pate.privacy.budget import Budget
from pate.privacy.compose.calibrate import least_between
from pate.privacy.cost import Charge
from pate.privacy.noise import real_argmax, real_at_least
from pate.privacy.noise.source import NoiseSource
from pate.privacy.sampled_votes import LEAST_SIGMA, sampled_votes_epsilon
from pate.privacy.words import Guarantee
from pate.records import PublicMap, own_throughout, rows_of, slabs
from pate.release import ballot_assumptions, with_public_rows
from pate.release.statement.model import PrivacyStatement
from pate.release.statement.plain import as_plain_text
from pate.representations import n_rows
from pate.teachers import as_column, class_indices, owned, usable
from pate.votes import ABSTAIN

# Exact distances of private records from public rows: whole numbers, on a grid that public rows define.

#: Floats hold every whole number up to here.
_WHOLE = 2**53
#: Records that are mapped and compared at once.
_SLAB = 8192


class Grid:
    """Round vectors to whole numbers, so small that their squared distances are exact in floats, in any order.

    A record's distance then does not depend on its place or on other records, not even in its last bit.

    Parameters
    ----------
    z_public : float array of shape (n_public, d)
        Their largest entry sets the scale; what is further out is clipped to four times that.
    """

    def __init__(self, z_public: FloatArray) -> None:
        self.n_components_ = z_public.shape[1]
        # |a - b|^2 <= d (2 * most)^2 < 2^53, and so is every part of it.
        self.most = min(2**20, math.isqrt(_WHOLE // (4 * max(1, self.n_components_))) - 1)
        self.scale = max(4 * float(np.abs(z_public).max(initial=0.0)), 1e-300)

    def transform(self, z: FloatArray) -> FloatArray:
        """Return whole numbers of shape (n, d), NaN where an entry is none."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(np.rint(np.clip(z / self.scale, -1.0, 1.0) * self.most))


def neighbour_votes(
    representation: Any, X: Any, labels: IntArray, groups: Any, z_public: FloatArray
) -> tuple[FloatArray, IntArray]:
    """Return each unit's squared distance from each public row, and the class it would vote for: **sensitive**.

    A person's distance is that of the nearest of their records, whose class is the person's vote; of equally near ones
    the first. No unit's distance depends on other units' records: a record that cannot be read, mapped or assigned to
    an owner, or without a class, is infinitely far.

    Parameters
    ----------
    representation : fitted public map
    X : n checked records
    labels : int array of shape (n,)
        Class indices, -1 where there is none.
    groups : array-like of shape (n,) or None
    z_public : float array of shape (n_queries, d)
        The representation of the public rows that are asked about.

    Returns
    -------
    distances : float64 array of shape (n_queries, n_units)
    labels : int64 array of shape (n_queries, n_units)
    """
    grid = Grid(z_public)
    public = grid.transform(z_public)
    look = PublicMap(representation, grid)
    rows, readable = rows_of(X, width=look.width)
    n = n_rows(rows)
    groups, has_owner = quietly("groups", owned, groups, n)
    usable = readable & has_owner & (labels != ABSTAIN)
    distances = np.empty((len(public), n))
    for start, end in slabs(n, _SLAB):
        z = look.phi(rows, np.arange(start, end))
        far = ~(np.isfinite(z).all(axis=1) & usable[start:end])
        z[far] = 0.0
        part = np.square(public).sum(axis=1)[:, None] - 2 * (public @ z.T) + np.square(z).sum(axis=1)
        distances[:, start:end] = np.where(far, np.inf, part)
    if groups is None:
        return distances, np.broadcast_to(labels, distances.shape)
    codes, ids = quietly("groups", distinct_ids, groups, n)
    return _of_persons(distances, labels, codes, len(ids))


def _of_persons(distances: FloatArray, labels: IntArray, codes: Any, n_persons: int) -> tuple[FloatArray, IntArray]:
    nearest = np.empty((len(distances), n_persons))
    votes = np.empty((len(distances), n_persons), dtype=np.int64)
    for j, row in enumerate(distances):
        order = np.lexsort((row, codes))  # stable: of equally near records the first
        first: Mask = np.r_[True, codes[order][1:] != codes[order][:-1]]
        nearest[j], votes[j] = row[order][first], labels[order][first]
    return nearest, votes


# Noisy votes of the nearest neighbours in a Poisson sample (Zhu, Yu, Chandraker, Wang 2020): sampling and accounting.

#: Coins are 32 random bits: a rate is a multiple of 2^-32.
_COIN = 2**32


@dataclass(frozen=True)
class SampledNeighbours:
    """The mechanism of private kNN: label a query by the noisy vote of its k nearest units in a fresh Poisson sample.

    Attributes
    ----------
    n_neighbors : int
        k. Where fewer are in the sample, all of them vote.
    sample_rate : float
        Probability with which each unit is in a query's sample, by itself, in (0, 1]; rounded down to a multiple of
        2^-32 (one of them at least).
    sigma : float
        Noise on every count, in votes.
    threshold, screening_sigma : float or None
        Noisy screening: a query is answered only where its largest count plus N(0, screening_sigma^2) is at least
        ``threshold``. Both or neither.

    Notes
    -----
    Guarantee: replace-one, fixed or adaptive queries; the guarantee is that of all queries answered.
    With sampling, :mod:`pate.privacy.sampled_votes`; without (a rate of 1), a replaced unit replaces one vote, at the
    certified cost of :class:`pate.GNMax`.

    Examples
    --------
    >>> m = SampledNeighbours(30, 0.25, 8.0)
    >>> print(m.guarantee(20, 1e-5))
    (0.773433, 1e-05)-DP, public, by pld, adjacency replace-one, both directions, adaptive
    """

    n_neighbors: int
    sample_rate: float
    sigma: float
    threshold: float | None = None
    screening_sigma: float | None = None

    def __post_init__(self) -> None:
        check_int("n_neighbors", self.n_neighbors, low=1)
        rate = check_real("sample_rate", self.sample_rate, low=0, high=1, low_open=True)
        object.__setattr__(self, "sample_rate", max(1, math.floor(rate * _COIN)) / _COIN)
        object.__setattr__(self, "sigma", check_real("sigma", self.sigma, low=LEAST_SIGMA))
        if (self.threshold is None) != (self.screening_sigma is None):
            check_real("threshold" if self.threshold is None else "screening_sigma", None, remedy="Say both.")
        if self.screening_sigma is not None:
            check_real("threshold", self.threshold)
            check_real("screening_sigma", self.screening_sigma, low=LEAST_SIGMA)

    def guarantee(self, n_queries: int, delta: float) -> Guarantee:
        """Return the guarantee of so many queries, fixed before any record is read."""
        charge = self.charge(n_queries)
        if charge is not None:
            return charge.guarantee(delta)
        epsilon = sampled_votes_epsilon(
            sample_rate=self.sample_rate,
            sigma=self.sigma,
            screening_sigma=self.screening_sigma,
            n_queries=n_queries,
            delta=delta,
        )
        return Guarantee(epsilon=epsilon, delta=delta, kind="public", method="pld")

    def charge(self, n_queries: int) -> Charge | None:
        """Return the charge without sampling; None with sampling, which no charge can describe."""
        if self.sample_rate < 1:
            return None
        charge = Charge.gaussian_argmax(self.sigma) * n_queries
        if self.screening_sigma is not None:
            charge += Charge.threshold_test(self.screening_sigma) * n_queries
        return charge

    def scaled(self, factor: float) -> SampledNeighbours:
        """Return the same mechanism with all noise multiplied by ``factor``."""
        screening = None if self.screening_sigma is None else self.screening_sigma * factor
        return replace(self, sigma=self.sigma * factor, screening_sigma=screening)

    def for_budget(self, budget: Budget, n_queries: int) -> SampledNeighbours:
        """Return the same mechanism with the least noise, in these proportions, that the budget allows (within 0.1 %).

        Raises
        ------
        BudgetExceededError
            No noise below a billion votes is enough.
        """

        def fits(factor: float) -> bool:
            return self.scaled(factor).guarantee(n_queries, budget.delta).epsilon <= budget.epsilon

        noises = [noise for noise in (self.sigma, self.screening_sigma) if noise is not None]
        least = LEAST_SIGMA / least_of(*noises) * (1 + 1e-12)
        # The central limit of the subsampled Gaussian: mu^2 = q^2 n |g|^2 (Dong, Roth, Su 2022).
        moved = 2 / self.sigma**2 + sum(1 / noise**2 for noise in noises[1:])
        low = high = largest_of(least, self.sample_rate * math.sqrt(n_queries * moved / budget.mu_squared))
        while not fits(high):
            low, high = high, 1.1 * high
            if high * self.sigma > 1e9:
                raise BudgetExceededError(
                    f"no amount of noise brings {n_queries} queries within {budget}. Ask fewer queries, or allow a "
                    "larger delta."
                )
        while low == high and low > least:
            low = largest_of(least, high / 1.1)
            low, high = (low, low) if fits(low) else (low, high)
        return self.scaled(least_between(low, high, fits, within=0.001))

    def draw(self, distances: FloatArray, labels: IntArray, n_classes: int, noise: NoiseSource) -> Draw:
        """Draw samples and noise, and return the labels.

        Parameters
        ----------
        distances : float array of shape (n_queries, n_units)
            Exact numbers, each of one query and one unit's own records; infinite where a unit has no vote.
        labels : int array of shape (n_queries, n_units)
            Class index of each unit's vote.
        n_classes : int
        noise : NoiseSource
            Also draws the samples, which are as secret as the noise.
        """
        counts = np.array([
            np.bincount(labels[j][self._nearest(row, noise)], minlength=n_classes) for j, row in enumerate(distances)
        ]).reshape(-1, n_classes)  # fmt: skip
        answered: Mask = np.ones(len(counts), dtype=bool)
        if self.screening_sigma is not None and self.threshold is not None:
            top, scale = counts.max(axis=1), self.screening_sigma
            answered = real_at_least(top, threshold=self.threshold, scale=scale, source=noise)
        chosen = real_argmax(counts, scale=self.sigma, source=noise)
        return Draw(np.where(answered, chosen, ABSTAIN), np.where(answered, ANSWERED, REFUSED), None)

    def _nearest(self, distances: FloatArray, noise: NoiseSource) -> IntArray:
        """Return the k nearest of a fresh sample; of equally near ones the first."""
        inside = np.flatnonzero(in_sample(len(distances), self.sample_rate, noise) & np.isfinite(distances))
        if len(inside) <= self.n_neighbors:
            return inside
        near = distances[inside]
        kth = np.partition(near, self.n_neighbors - 1)[self.n_neighbors - 1]
        nearer, equal = inside[near < kth], inside[near == kth]
        return np.concatenate([nearer, equal[: self.n_neighbors - len(nearer)]])


def in_sample(n_units: int, sample_rate: float, noise: NoiseSource) -> Mask:
    """Return which units are in a Poisson sample: one coin of 32 random bits each, exact for multiples of 2^-32."""
    heads = round(sample_rate * _COIN)
    if heads == _COIN:
        return np.ones(n_units, dtype=bool)
    coins = noise.words((n_units + 1) // 2).view(np.uint32)[:n_units]
    return np.asarray(coins < np.uint32(heads))


#: Of the rule: queries over a class's signal, neighbours by its root (and least), most queries.
_QUERIES, _SHARE, _LEAST_SHARE, _MOST_QUERIES = 0.6, 5.5, 0.1, 1000


def neighbour_settings(budget: Budget, *, n_units: int, n_classes: int, n_public: int) -> tuple[float, int]:
    """Return the share of the sampled units that vote, and how many queries to ask: by public facts alone.

    With k = f q n neighbours, votes over noise are f n mu / sqrt(2 queries) whatever the sampling rate q. With S = n mu
    / m the rule asks 0.6 S queries (one for each class at least, 1,000 at most) and takes f = min(1, 5.5/sqrt(S)) / m:
    five times the noise, and nearer neighbours where there are many. The numbers were chosen on splits of training
    rows: docs/baselines.md.
    """
    signal = n_units * math.sqrt(budget.mu_squared) / n_classes
    n_queries = min(max(round(min(_MOST_QUERIES, _QUERIES * signal)), n_classes), n_public)
    return min(1.0, max(_LEAST_SHARE, _SHARE / math.sqrt(signal))) / n_classes, n_queries


@dataclass(kw_only=True, repr=False, eq=False)
class PrivateKNN(Baseline):
    """Private kNN: label public rows by a noisy vote of their nearest private records, then train a student on them.

    Zhu, Yu, Chandraker and Wang, "Private-kNN: Practical Differential Privacy for Computer Vision", CVPR 2020. For each
    public row that is asked about, every record enters a sample with probability q; the k nearest of the sample, in a
    public representation, vote; Gaussian noise goes on the counts; the largest is the label.

    Parameters
    ----------
    budget : Budget
        Spent whole by each fit.
    classes : iterable or None
        Every class that could occur: public knowledge. None takes them from the private ``y`` and warns.
    sample_rate : float
        q, in (0, 1]. 1 asks all records: votes over noise at one epsilon are the same for every rate
        (docs/baselines.md), and without sampling a certified cost applies that is lower still. The paper
        samples: 0.15, say.
    n_neighbors : int or None
        k. None: by :func:`pate.comparison.baselines._private_knn.neighbour_settings`.
    n_queries : int or None
        How many public rows to ask about; None: by the same rule.
    screening : (threshold, ratio) or None
        Noisy screening: answer only where the largest count plus Gaussian noise, ``ratio`` times that of the votes, is
        at least ``threshold`` votes. Every query is charged for it, answered or not.
    representation : Representation or None
        As for :class:`pate.PATEClassifier`; None takes the default of this kind of data.
    image_shape : tuple or None
        Says that rows are flattened images.
    student : scikit-learn classifier, str or None
        Sees rows through the representation. None: :class:`pate.models.students.VoteSpreading`.
    random_state : int or None
        Seed of the representation, the choice of rows and the student; never of the samples or the noise.
    noise_seed : int or None
        For tests and experiments only: then nothing is private.
    overlap_is_public : bool
        Do not look for private records among the public rows.
    tuning : str
    stated : mapping of str to str, or None
        For the statement, as for :class:`pate.PATEClassifier`.
    verbose : bool

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    release_ : ReleasedLabels
        On the rows ``queries_`` of ``X_public``; public.
    queries_ : int64 array
    mechanism_ : SampledNeighbours
        The mechanism: k, q and the noise.
    student_ : fitted classifier
    statement_ : PrivacyStatement

    Notes
    -----
    **Guarantees.** What is released is (epsilon, delta)-differentially private for one replaced record (or person),
    fixed before any record is read: :mod:`pate.privacy.sampled_votes` has the theorem and its proof. The
    sample is as secret as the noise and comes from the same source; samples of fewer than k records, ties and records
    that cannot be read are inside the mechanism. Distances are exact whole numbers. A person votes once, by the nearest
    of their records. It takes no ledger: no accounting unit of a ledger describes its dominating pair.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> knn = PrivateKNN(
    ...     budget=Budget(3.0, 1e-5), classes=range(10), image_shape=(8, 8), random_state=0
    ... )
    >>> knn = knn.fit(X[:1200] / 16, y[:1200], X_public=X[1200:1500] / 16)
    >>> (
    ...     knn.statement_.guarantee.epsilon <= 3.0,
    ...     bool(knn.score(X[1500:] / 16, y[1500:]) > 0.5),
    ... )
    (True, True)
    """

    sample_rate: float = 1.0
    n_neighbors: int | None = None
    screening: tuple[float, float] | None = None

    def _price(self, task: Task) -> Priced:
        share, wanted = neighbour_settings(
            task.budget, n_units=task.n_units, n_classes=task.n_classes, n_public=task.n_public
        )
        n_queries = self._asked_about(task, wanted)
        threshold, ratio = (None, None) if self.screening is None else _pair(self.screening)
        whole = SampledNeighbours(1, self.sample_rate, 1.0)  # validates the rate
        k = max(1, round(share * whole.sample_rate * task.n_units)) if self.n_neighbors is None else self.n_neighbors
        mechanism = SampledNeighbours(k, whole.sample_rate, 1.0, threshold, ratio).for_budget(task.budget, n_queries)
        self.mechanism_ = mechanism

        def draw(queries: IntArray, noise: NoiseSource) -> Draw:
            classes = tuple(self.classes_.tolist())
            labels = class_indices(as_column(task.y), classes)
            known = owned(task.groups, len(labels))[1]
            usable(classes, labels, None, known)
            votes = neighbour_votes(task.representation, task.X, labels, task.groups, task.z_public[queries])
            return mechanism.draw(*votes, task.n_classes, noise)

        return Priced(
            n_queries,
            mechanism.guarantee(n_queries, task.budget.delta),
            draw,
            lambda promised: self._statement(task, mechanism, n_queries, promised),
            mechanism.charge(n_queries),
        )

    def _statement(
        self, task: Task, mechanism: SampledNeighbours, n_queries: int, promised: Guarantee
    ) -> PrivacyStatement:
        seeded, charge = promised.kind == "seeded", mechanism.charge(n_queries)
        assumptions = ballot_assumptions([], unit=task.unit, adjacency="replace-one", seeded=seeded, residual=False)
        if self.classes is None:
            assumptions = tuple(a for a in assumptions if a.name != "classes")
        sampled = (
            f"each {task.unit} in with probability {mechanism.sample_rate!r}, drawn afresh for each query; "
            if not charge
            else ""
        )
        screened = (
            f"; answered where the largest count plus N(0, {mechanism.screening_sigma:.6g}^2) is at least "
            f"{mechanism.threshold:g}"
            if mechanism.screening_sigma is not None
            else ""
        )
        statement = self._statement_of(
            task,
            promised,
            released=f"noisy labels of {n_queries} public rows",
            mechanism=(
                f"private kNN: {sampled}one vote of each of the {mechanism.n_neighbors} nearest, Gaussian noise of "
                f"{mechanism.sigma:.6g} votes on every class, the largest count{screened}; distances by "
                + as_plain_text(str(getattr(task.representation, "provenance_", "a public map")))[:1000]
            ),
            accounting=(
                "GNMax: one replaced record replaces at most one vote of each query"
                if charge
                else "privacy loss distributions of a pair that dominates every replaced record, derived in "
                "pate.privacy.sampled_votes; composed after Zhu, Dong, Wang 2022"
            ),
            kept_back="distances, samples and votes, and every file made from those",
            assumptions=assumptions,
            verify=(
                "from pate.comparison.baselines import SampledNeighbours; "
                f"{mechanism!r}.guarantee({n_queries}, {promised.delta!r})"
            ),
            charge=charge,
        )
        own = own_throughout(task.representation)
        if own and (task.unit == "record" or bool(getattr(task.representation, "exact_", False))):
            how = "pate mapped every row by its own classes, in blocks of one fixed shape; distances are whole numbers"
            statement = statement.with_evidence("own row only", how)
        if not self.overlap_is_public:
            statement = with_public_rows(statement, "checked")
        return statement.with_stated(self.stated)


def _pair(screening: Any) -> tuple[float, float]:
    try:
        threshold, ratio = screening
        return float(threshold), float(ratio)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"screening must be (threshold in votes, noise over the votes' noise) or None, got {screening!r}. "
            "Try (40, 2)."
        ) from None
