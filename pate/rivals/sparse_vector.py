"""The sparse-vector scheme of Bassily, Thakkar and Thakurta (2018): stable queries of teachers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pate.core.checks import check_int
from pate.core.types import IntArray
from pate.mechanisms import Draw
from pate.noise.source import NoiseSource
from pate.privacy.budget import Budget
from pate.privacy.words import Guarantee
from pate.release import default_heads
from pate.release._assumptions import make_assumptions, vouch_for_training
from pate.rivals._base import Priced, Rival, Task
from pate.rivals._stability import StabilityTest
from pate.statement.model import PrivacyStatement
from pate.teachers import HeadTeacherEnsemble, ShardEnsemble, TeacherEnsemble

#: Of the rule: unstable queries that are tried, queries that prices are compared at, fewest asked for each class.
_MOST_UNSTABLE, _TYPICAL, _FEWEST = 32, 100, 5


def stability_settings(
    budget: Budget, *, n_units: int, n_classes: int, n_public: int, n_teachers: int
) -> tuple[int, int]:
    """Return how many unstable queries to allow, and how many queries to ask: by public facts alone.

    A law fitted on splits of training rows (docs/rivals.md) says at which distance to instability half of the queries
    of teachers with r records each are: N (1 - exp(-r / 3m)) / 2; and that 2^-(x^1.2) of them are as far as x times
    that. So many unstable ones are allowed as let the most answers be expected; four times as many rows are asked
    about, and five for each class at least: that costs only a logarithm.

    Returns
    -------
    max_unstable : int
    n_queries : int
    """
    typical = n_teachers / 2 * -math.expm1(-n_units / n_teachers / (3 * n_classes))

    def answers(max_unstable: int) -> float:
        test = StabilityTest.for_budget(budget, n_queries=_TYPICAL, max_unstable=max_unstable)
        stable = 2.0 ** -((test.least_distance / typical) ** 1.2)
        return max_unstable * stable / (1 - stable)

    best = max(range(1, _MOST_UNSTABLE + 1), key=answers)
    return best, min(n_public, max(_FEWEST * n_classes, math.ceil(4 * answers(best)) + best))


class SparseVectorPATE(Rival):
    """Label public rows by the exact plurality of shard teachers wherever that is stable, then train a student.

    Bassily, Thakkar and Thakurta, "Model-Agnostic Private Learning", NeurIPS 2018. Teachers are trained on disjoint
    shards. A public row on which the plurality would survive many changed teachers, by a noisy test, gets it without
    noise and for nothing; each row that does not pass the test costs, and after so many of them nothing more is asked.

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
        None: by :func:`pate.rivals.sparse_vector.stability_settings`.
    representation, image_shape, student, random_state, noise_seed, overlap_is_public, tuning, stated, verbose
        As for :class:`pate.rivals.PrivateKNN`.
    n_jobs : int or None
        Teachers side by side.

    Attributes
    ----------
    classes_, release_, queries_, student_, statement_
        As for :class:`pate.rivals.PrivateKNN`; a row without an answer is ``"refused"`` (unstable) or ``"not asked"``.
    mechanism_ : StabilityTest

    Notes
    -----
    **Guarantees.** (epsilon, delta) under replace-one, all of delta for the event that noise calls a query stable that
    is not; the proof, after theirs and after Lyu, Su and Li 2017, is in docs/rivals.md. Noise is discrete Laplace,
    sampled exactly, on whole numbers. Teachers, votes and shards are not kept. It takes no ledger: its delta is of a
    kind that does not add up there (:class:`pate.Charge`, ``delta0``).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> scheme = SparseVectorPATE(budget=Budget(20.0, 1e-5), classes=range(10), image_shape=(8, 8), random_state=0)
    >>> scheme = scheme.fit(X[:1200] / 16, y[:1200], X_public=X[1200:1500] / 16)
    >>> scheme.statement_.guarantee.epsilon <= 20.0, bool(scheme.score(X[1500:] / 16, y[1500:]) > 0.3)
    (True, True)
    """

    def __init__(
        self,
        *,
        budget: Budget | None = None,
        classes: Any = None,
        estimator: Any = None,
        n_teachers: int | None = None,
        max_unstable: int | None = None,
        n_queries: int | None = None,
        representation: Any = None,
        image_shape: Any = None,
        student: Any = None,
        n_jobs: int | None = None,
        random_state: int | None = None,
        noise_seed: int | None = None,
        overlap_is_public: bool = False,
        tuning: str = "",
        stated: Mapping[str, str] | None = None,
        verbose: bool = False,
    ) -> None:
        self.budget = budget
        self.classes = classes
        self.estimator = estimator
        self.n_teachers = n_teachers
        self.max_unstable = max_unstable
        self.n_queries = n_queries
        self.representation = representation
        self.image_shape = image_shape
        self.student = student
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.noise_seed = noise_seed
        self.overlap_is_public = overlap_is_public
        self.tuning = tuning
        self.stated = stated
        self.verbose = verbose

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
            verify=f"from pate.rivals import StabilityTest; {test!r}.guarantee({n_queries}, {promised.delta!r})",
        )
        looked = "declared" if self.overlap_is_public else "checked"
        where = "public" if self.estimator is None else "none"
        return vouch_for_training(statement, preprocessing=where, public_rows=looked).with_stated(self.stated)
