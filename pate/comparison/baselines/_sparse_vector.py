"""The sparse-vector scheme of Bassily, Thakkar and Thakurta (2018): stable queries of teachers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_int, check_real, largest_of
from pate._core.recorder import resolve
from pate._core.types import IntArray
from pate.comparison.baselines._base import Baseline, Priced, Task
from pate.exceptions import BudgetExceededError, InvalidInputError
from pate.mechanisms import ANSWERED, NOT_ASKED, REFUSED, Draw
from pate.privacy.budget import Budget
from pate.privacy.convert import check_delta
from pate.privacy.noise import discrete_laplace
from pate.privacy.noise.source import NoiseSource
from pate.privacy.words import Guarantee
from pate.release import default_heads, make_assumptions, vouch_for_training
from pate.release.statement.model import PrivacyStatement
from pate.teachers import HeadTeacherEnsemble, ShardEnsemble, TeacherEnsemble
from pate.votes import ABSTAIN

# Distance to instability by the sparse vector technique (Bassily, Thakkar, Thakurta 2018): sampling and accounting.

#: Scales that the sampler of integers takes.
_LEAST_SCALE, _MOST_SCALE = 2.0**-6, 2.0**20
#: Share of epsilon that goes to the threshold's noise: those that are tried.
_SHARES = tuple(i / 40 for i in range(2, 29))


def distance_to_instability(counts: npt.ArrayLike) -> IntArray:
    """Return how many teachers may change their votes so that the same class still has strictly the most votes.

    ceil(gap / 2) - 1, and 0 at least, for a gap between the two largest counts. One replaced vote moves it by at most
    1, and where it is 1 or more all neighbours have the same plurality (Bassily, Thakkar, Thakurta 2018, section 3).

    Parameters
    ----------
    counts : int array of shape (n_queries, n_classes)

    Returns
    -------
    int64 array of shape (n_queries,)
        **Sensitive.**

    Examples
    --------
    >>> distance_to_instability([[5, 5], [6, 5], [7, 5], [8, 5], [10, 5]])
    array([0, 0, 0, 1, 2])
    """
    top = np.partition(np.asarray(counts, dtype=np.int64), -2, axis=1)
    return np.maximum((top[:, -1] - top[:, -2] + 1) // 2 - 1, 0)


@dataclass(frozen=True)
class StabilityTest:
    """The mechanism that answers stable queries by the exact plurality, until ``max_unstable`` queries were unstable.

    A query is called stable where its distance to instability plus discrete Laplace noise reaches a threshold with
    discrete Laplace noise of its own, drawn once.

    Attributes
    ----------
    threshold : int
        In teachers.
    threshold_scale, query_scale : float
        Scales of the two noises, in teachers.
    max_unstable : int
        Unstable queries after which no more are asked.

    Notes
    -----
    Guarantee: (epsilon, delta) under replace-one with epsilon = 1/threshold_scale + 2 max_unstable/query_scale and
    delta = the probability that noise alone calls one of ``n_queries`` queries of distance 0 stable; proof in
    docs/baselines.md. Queries may depend on earlier answers; their number and this test may not.

    Examples
    --------
    >>> test = StabilityTest.for_budget(Budget(1.0, 1e-5), n_queries=20, max_unstable=1)
    >>> print(test.guarantee(20, 1e-5))
    (1, 1e-05)-DP, public, by sparse vector and stability, adjacency replace-one, both directions, adaptive
    """

    threshold: int
    threshold_scale: float
    query_scale: float
    max_unstable: int

    def __post_init__(self) -> None:
        check_int("threshold", self.threshold, low=1, high=2**40)
        check_int("max_unstable", self.max_unstable, low=1)
        for name in ("threshold_scale", "query_scale"):
            remedy = "It is in teachers. A larger epsilon needs less noise."
            check_real(name, getattr(self, name), low=_LEAST_SCALE, high=_MOST_SCALE, remedy=remedy)

    @property
    def epsilon(self) -> Fraction:
        """The exact epsilon of the answers' pattern."""
        return 1 / Fraction(self.threshold_scale) + 2 * self.max_unstable / Fraction(self.query_scale)

    def failure(self, n_queries: int) -> float:
        """Return an upper bound on the probability that a query of distance 0, among so many, is called stable."""
        return _failure(
            self.threshold, self.threshold_scale, self.query_scale, check_int("n_queries", n_queries, low=1)
        )

    def guarantee(self, n_queries: int, delta: float) -> Guarantee:
        """Return the guarantee of so many queries, fixed before any record is read.

        Raises
        ------
        InvalidInputError
            The threshold is too low for this delta.
        """
        delta, epsilon = check_delta(delta), self.epsilon
        if self.failure(n_queries) > delta:
            raise InvalidInputError(
                f"threshold must be higher for {n_queries} queries at delta {delta:g}, got {self.threshold}. "
                "StabilityTest.for_budget chooses it."
            )
        up = float(epsilon)
        up = up if Fraction(up) >= epsilon else math.nextafter(up, math.inf)
        return Guarantee(epsilon=up, delta=delta, kind="public", method="sparse vector and stability")

    @classmethod
    def for_budget(cls, budget: Budget, *, n_queries: int, max_unstable: int) -> StabilityTest:
        """Return the test that spends the budget and requires the least distance of a stable query.

        Least is threshold + 2 query_scale, over how epsilon is shared between the two noises: public numbers alone.

        Raises
        ------
        BudgetExceededError
            The noise would be beyond a million teachers.
        """
        found = [
            cls(_threshold(a, b, n_queries, budget.delta), a, b, max_unstable)
            for a, b in _scales(budget.epsilon, max_unstable)
        ]
        fitting = [test for test in found if test.epsilon <= Fraction(budget.epsilon)]
        if not fitting:
            raise BudgetExceededError(
                f"{budget} does not buy a sparse vector with {max_unstable} unstable queries: its noise would be "
                "beyond a million teachers. Allow fewer of them, or take a larger epsilon."
            )
        return min(fitting, key=lambda test: test.least_distance)

    @property
    def least_distance(self) -> float:
        """A distance that is called stable with high probability: threshold + 2 query_scale."""
        return self.threshold + 2 * self.query_scale

    def draw(self, counts: npt.NDArray[np.int64], noise: NoiseSource) -> Draw:
        """Draw the noise, and return the plurality of stable queries.

        Parameters
        ----------
        counts : int array of shape (n_queries, n_classes)
            One vote of each teacher at most; equal counts go to the first class.
        noise : NoiseSource

        Returns
        -------
        Draw
            ``"refused"`` where a query was unstable, ``"not asked"`` after the last one that the budget allows.
        """
        line = self.threshold + discrete_laplace(self.threshold_scale, 1, noise)
        stable = distance_to_instability(counts) + discrete_laplace(self.query_scale, len(counts), noise) >= line
        before: IntArray = np.cumsum(~stable) - ~stable  # unstable ones met before
        asked = before < self.max_unstable
        status = np.where(asked, np.where(stable, ANSWERED, REFUSED), NOT_ASKED)
        drawn = Draw(np.where(asked & stable, counts.argmax(axis=1), ABSTAIN), status, None)
        return cast(Draw, resolve("stable plurality", drawn))


def _scales(epsilon: float, max_unstable: int) -> list[tuple[float, float]]:
    whole = epsilon * (1 - 1e-12)  # floats' reciprocals are rounded
    pairs = ((1 / (share * whole), 2 * max_unstable / ((1 - share) * whole)) for share in _SHARES)
    held = ((largest_of(a, _LEAST_SCALE), largest_of(b, _LEAST_SCALE)) for a, b in pairs)
    return [(a, b) for a, b in held if largest_of(a, b) <= _MOST_SCALE]


@lru_cache(maxsize=4096)
def _threshold(threshold_scale: float, query_scale: float, n_queries: int, delta: float) -> int:
    """Return the least threshold whose failure is within delta."""
    low, high = 0, 1
    while _failure(high, threshold_scale, query_scale, n_queries) > delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        within = _failure(middle, threshold_scale, query_scale, n_queries) <= delta
        low, high = (low, middle) if within else (middle, high)
    return high


def _failure(threshold: int, threshold_scale: float, query_scale: float, n_queries: int) -> float:
    """Return E[min(1, n P(query noise >= threshold + its noise))], rounded up, for discrete Laplace noises.

    P(noise = z) = (1 - t) / (1 + t) t^|z| with t = e^(-1/scale), and so P(noise >= x) = t^x / (1 + t) at x >= 0. Let x
    be the first number >= 0 where n queries fail less than surely: a failure is counted whole while the noisy threshold
    is below x, and is a sum of geometric series from there on.
    """
    a, b = threshold_scale, query_scale
    t, u = math.exp(-1 / a), math.exp(-1 / b)
    below = max(0, math.ceil(b * math.log(n_queries / (1 + u)))) - threshold
    whole = t ** (1 - below) / (1 + t) if below <= 0 else 1 - t**below / (1 + t)
    upper = max(below, 0)
    series = math.exp(-(upper + threshold) / b - upper / a) / -math.expm1(-1 / a - 1 / b)
    if below < 0:  # the sum over y = 1 .. -below of t^y u^(threshold - y), its largest term taken out
        rate, most = 1 / a - 1 / b, -below
        largest = 1 if rate >= 0 else most
        terms = float(most) if rate == 0 else math.expm1(-abs(rate) * most) / math.expm1(-abs(rate))
        series += math.exp(-largest / a - (threshold - largest) / b) * terms
    return (whole + -math.expm1(-1 / a) / (1 + t) * n_queries / (1 + u) * series) * (1 + 1e-9)


#: Of the rule: unstable queries that are tried, queries that prices are compared at, fewest asked for each class.
_MOST_UNSTABLE, _TYPICAL, _FEWEST = 32, 100, 5


def stability_settings(
    budget: Budget, *, n_units: int, n_classes: int, n_public: int, n_teachers: int
) -> tuple[int, int]:
    """Return how many unstable queries to allow, and how many queries to ask: by public facts alone.

    A law fitted on splits of training rows (docs/baselines.md) gives the distance to instability of half of the queries
    of teachers with r records each: N (1 - exp(-r / 3m)) / 2; and that 2^-(x^1.2) of them are as far as x times
    that. So many unstable ones are allowed as let the most answers be expected; four times as many rows are asked
    about, and five for each class at least: that costs only a logarithm.
    """
    typical = n_teachers / 2 * -math.expm1(-n_units / n_teachers / (3 * n_classes))

    def answers(max_unstable: int) -> float:
        test = StabilityTest.for_budget(budget, n_queries=_TYPICAL, max_unstable=max_unstable)
        stable = 2.0 ** -((test.least_distance / typical) ** 1.2)
        return max_unstable * stable / (1 - stable)

    best = max(range(1, _MOST_UNSTABLE + 1), key=answers)
    return best, min(n_public, max(_FEWEST * n_classes, math.ceil(4 * answers(best)) + best))


@dataclass(kw_only=True, repr=False, eq=False)
class SparseVectorPATE(Baseline):
    """Label public rows by the teachers' exact plurality wherever a noisy test finds it stable, then train a student.

    Bassily, Thakkar and Thakurta, "Model-Agnostic Private Learning", NeurIPS 2018. Teachers are trained on disjoint
    shards. A noisy test asks whether many teachers would have to change their votes to change the plurality (the class
    with the most votes). If so, the row gets that class without noise and at no cost. Each row that fails the test
    costs privacy; after ``max_unstable`` of them no more rows are asked.

    Parameters
    ----------
    budget : Budget
        Spent whole by each fit.
    classes : iterable or None
        Every class that could occur: public knowledge. None takes them from the private ``y`` and warns.
    estimator : scikit-learn classifier or None
        The teacher, on rows as they are. None: ridge heads on the representation
        (:class:`pate.teachers.HeadTeacherEnsemble`), which need fewer records.
    n_teachers : int or None
        None: one for every 15 records, ten at least and 1,000 at most (100 with ``groups``).
    max_unstable, n_queries : int or None
        None: by :func:`pate.comparison.baselines._sparse_vector.stability_settings`.
    representation, image_shape, student, random_state, noise_seed, overlap_is_public, tuning, stated, verbose
        As for :class:`pate.comparison.baselines.PrivateKNN`.
    n_jobs : int or None
        Teachers side by side.

    Attributes
    ----------
    classes_, release_, queries_, student_, statement_
        As for :class:`pate.comparison.baselines.PrivateKNN`; a row without an answer is ``"refused"`` (unstable) or
        ``"not asked"``.
    mechanism_ : StabilityTest

    Notes
    -----
    **Guarantees.** (epsilon, delta) under replace-one, all of delta for the event that noise calls a query stable that
    is not; the proof, after theirs and after Lyu, Su and Li 2017, is in docs/baselines.md. Noise is discrete Laplace,
    sampled exactly, on whole numbers. Teachers, votes and shards are not stored. It takes no ledger: its delta is of a
    kind that does not add up there (:class:`pate.Charge`, ``delta0``).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> scheme = SparseVectorPATE(
    ...     budget=Budget(20.0, 1e-5), classes=range(10), image_shape=(8, 8), random_state=0
    ... )
    >>> scheme = scheme.fit(X[:1200] / 16, y[:1200], X_public=X[1200:1500] / 16)
    >>> (
    ...     scheme.statement_.guarantee.epsilon <= 20.0,
    ...     bool(scheme.score(X[1500:] / 16, y[1500:]) > 0.3),
    ... )
    (True, True)
    """

    estimator: Any = None
    n_teachers: int | None = None
    max_unstable: int | None = None
    n_jobs: int | None = None

    def _price(self, task: Task) -> Priced:
        n_teachers = min(task.n_units, default_heads(task.n_units if task.unit == "record" else None))
        if self.n_teachers is not None:
            n_teachers = check_int("n_teachers", self.n_teachers, low=2, high=task.n_units)
        allowed, wanted = stability_settings(
            task.budget,
            n_units=task.n_units,
            n_classes=task.n_classes,
            n_public=task.n_public,
            n_teachers=n_teachers,
        )
        n_queries = self._asked_about(task, wanted)
        test = StabilityTest.for_budget(
            task.budget,
            n_queries=n_queries,
            max_unstable=allowed if self.max_unstable is None else check_int("max_unstable", self.max_unstable, low=1),
        )
        self.mechanism_ = test

        def draw(queries: IntArray, noise: NoiseSource) -> Draw:
            asked = task.rows.iloc[queries] if hasattr(task.rows, "iloc") else task.rows[queries]
            teachers = self._teachers(task, n_teachers).fit(task.X, task.y, groups=task.groups, X_public=asked)
            return test.draw(teachers.vote(asked, keep_labels=False).counts, noise)

        return Priced(
            n_queries,
            test.guarantee(n_queries, task.budget.delta),
            draw,
            lambda promised: self._statement(task, test, n_queries, n_teachers, promised),
        )

    def _teachers(self, task: Task, n_teachers: int) -> ShardEnsemble:
        made = (
            HeadTeacherEnsemble(task.representation)
            if self.estimator is None
            else TeacherEnsemble(self.estimator, n_teachers)
        )
        return made.set_params(
            n_teachers=n_teachers,
            classes=tuple(self.classes_.tolist()),
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            verbose=self.verbose,
        )

    def _statement(
        self, task: Task, test: StabilityTest, n_queries: int, n_teachers: int, promised: Guarantee
    ) -> PrivacyStatement:
        statement = self._statement_of(
            task,
            promised,
            released=f"exact plurality labels of stable ones among {n_queries} public rows",
            mechanism=(
                f"sparse vector on the distance to instability of {n_teachers} teachers, threshold {test.threshold}: "
                f"discrete Laplace noise of scale {test.threshold_scale:.6g} on it, {test.query_scale:.6g} on queries; "
                f"stops after {test.max_unstable} unstable queries"
            ),
            accounting=(
                "sparse vector (Lyu, Su, Li 2017): 1/scale of the threshold + 2 (unstable queries)/scale of queries; "
                "delta is that of a query called stable by noise alone (Bassily, Thakkar, Thakurta 2018)"
            ),
            kept_back="the teachers, their votes and every file made from those",
            assumptions=make_assumptions(
                unit=task.unit,
                classes_inferred=self.classes is None,
                seeded=promised.kind == "seeded",
                classes_named=self.classes is not None,
            ),
            verify=(
                "from pate.comparison.baselines import StabilityTest; "
                f"{test!r}.guarantee({n_queries}, {promised.delta!r})"
            ),
        )
        looked = "declared" if self.overlap_is_public else "checked"
        where = "public" if self.estimator is None else "none"
        return vouch_for_training(statement, preprocessing=where, public_rows=looked).with_stated(self.stated)
