"""The 2018 recipe: teachers on shards, GNMax and Confident-GNMax, planned per budget from public numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from pate.comparison.contract import Setting
from pate.estimator import PATEClassifier
from pate.mechanisms import Mechanism
from pate.recipes import kind_of
from pate.representations import TableMap
from pate.students import make_student
from pate.studies._shard_rows import shard_rows

#: Teachers of the paper, and how many records each has at least where there are fewer than that many for all.
_TEACHERS, _RECORDS_EACH, _FEWEST = 250, 20, 10
#: Noise on a count, in votes per teacher: the paper's 40 of 250.
_NOISE = {"gnmax": 0.16, "confident": 0.16}
_TREES = 100


@dataclass(frozen=True)
class ShardPlan:
    """What is asked of how many teachers, with which noise."""

    n_teachers: int
    n_queries: int
    n_answers: int
    mechanism: Mechanism


def plan_shards(
    setting: Setting, name: str, *, noise: float | None = None, records_each: int = _RECORDS_EACH
) -> ShardPlan:
    """Return the rows of ``pate plan`` at as many queries as keep the noise at the paper's share of the votes.

    250 teachers, or one for every 20 records (persons) where that is fewer; ten queries, and one for each class, at
    least; at most all public rows. All of it is public, and nothing carries over from one budget to another.

    Parameters
    ----------
    setting : Setting
    name : {"gnmax", "confident"}
    noise : float or None
        Standard deviation on a count, in votes per teacher; None: the paper's.
    records_each : int
    """
    n_teachers = min(_TEACHERS, max(_FEWEST, setting.n_units // records_each), setting.n_units)
    n_public = len(setting.X_public)
    most = n_teachers * (_NOISE[name] if noise is None else noise)

    def row(n: int) -> Any:
        rows = shard_rows(
            setting.budget,
            n,
            len(setting.classes),
            n_records=setting.n_units,
            n_teachers=n_teachers,
            max_answers=None,
            right=0.99,
            ledger=None,
        )
        return next(r for r in rows if r.name == name)

    low = min(n_public, max(_FEWEST, len(setting.classes)))
    found, high = row(low), n_public + 1
    while high - low > max(1, low // 50):  # to 2%
        middle = (low + high) // 2
        there = row(middle)
        if there.sigma <= most:
            low, found = middle, there
        else:
            high = middle
    return ShardPlan(n_teachers, found.n_queries, found.n_answers, found.mechanism)


def by_2018(setting: Setting, *, name: str) -> PATEClassifier:
    """Return PATE by the 2018 recipe: labels alone are released, and a student learns from them.

    Teachers are random forests where columns are categories (as the paper's of Adult), support vector machines on
    images, logistic regressions on all other tables; the student is semi-supervised where the rows are numbers (label
    spreading stands for the paper's GAN). Which rows are asked about pate's default says.
    """
    plan = plan_shards(setting, name)
    teacher, student = _models(setting)
    return PATEClassifier(
        teacher,
        n_teachers=plan.n_teachers,
        budget=setting.budget,
        classes=setting.classes,
        mechanism=plan.mechanism,
        n_queries=plan.n_queries,
        max_answers=plan.n_answers,
        on_exhausted="abstain",
        student=student,
        n_jobs=setting.n_jobs,
        random_state=setting.seed,
        noise_seed=setting.noise_seed,
        anyway=True,
    )


def _models(setting: Setting) -> tuple[Any, Any]:
    kind = kind_of(setting.X_public, setting.image_shape)
    spread = make_student("label-spreading")
    if kind == "image":
        return SVC(), spread
    if setting.kind == "image":
        return LogisticRegression(max_iter=200), spread
    if kind == "mixed":
        encoded = FrozenEstimator(setting.fitted(TableMap()))
        forest = make_pipeline(encoded, RandomForestClassifier(_TREES, random_state=setting.seed))
        return forest, forest
    teacher = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
    return teacher, make_pipeline(StandardScaler(), spread)


gnmax = partial(by_2018, name="gnmax")
confident = partial(by_2018, name="confident")
