"""PATE's side where records vote: by default, without networks, and with nothing but a linear head."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from pate.comparison.contract import Setting
from pate.dpsgd.recipes import RecipePlan, TrainingFacts, facts_of
from pate.estimator import PATEClassifier
from pate.exceptions import PrivacyParameterWarning
from pate.mechanisms import Mechanism
from pate.privacy.budget import Budget
from pate.recipes import PublicFacts, Recipe, choose, default_representation, kind_of, without_student
from pate.recipes._build import scattered
from pate.representations import Representation, TableMap
from pate.rivals import PrivateKNN, SparseVectorPATE
from pate.students import make_student
from pate.studies.plan import shard_rows

# The public maps that contestants look through, fitted once for all budgets and contestants of a repeat.


def own_representation(setting: Setting) -> Any:
    """Return what record voters take by default, fitted on the public rows of this repeat."""
    X, shape = setting.X_public, setting.image_shape
    return setting.fitted(default_representation(kind_of(X, shape), X, image_shape=shape, random_state=setting.seed))


def quick_representation(setting: Setting) -> Any:
    """Return the same but for images of 16 pixels a side and more: scattering, however they look."""
    if kind_of(setting.X_public, setting.image_shape) != "image":
        return own_representation(setting)
    return setting.fitted(scattered(setting.X_public, setting.image_shape))


def planned(setting: Setting, *, name: str | None = None, representation: Representation | None = None) -> RecipePlan:
    """Return DP-SGD's plan for a setting: its representation is found where it was fitted for another contestant.

    Parameters
    ----------
    setting : Setting
    name : str or None
        Of a preset; None chooses.
    representation : Representation or None
        Fitted on public rows; None takes the recipe's.
    """
    return RecipePlan.of(
        tuple(np.shape(setting.X_public)[1:]),
        setting.X_public,
        n_units=setting.n_units,
        n_classes=len(setting.classes),
        budget=setting.budget,
        name=name,
        representation=representation,
        image_shape=setting.image_shape,
        random_state=setting.seed,
        fit=setting.fitted,
    )


def facts_of_setting(setting: Setting) -> TrainingFacts:
    """Return the public facts that DP-SGD's planner chooses from."""
    return facts_of(
        tuple(np.shape(setting.X_public)[1:]),
        setting.X_public,
        n_units=setting.n_units,
        n_classes=len(setting.classes),
        budget=setting.budget,
        image_shape=setting.image_shape,
    )


# The 2018 recipe: teachers on shards, GNMax and Confident-GNMax, planned per budget from public numbers.

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


# Other people's private methods, set by their own public rules.


def private_knn(setting: Setting) -> PrivateKNN:
    """Return private kNN; images are compared by scattering."""
    return PrivateKNN(**_said_of_rival(setting))


def sparse_vector(setting: Setting) -> SparseVectorPATE:
    """Return the sparse-vector scheme; images are seen by scattering."""
    return SparseVectorPATE(**_said_of_rival(setting), n_jobs=setting.n_jobs)


def _said_of_rival(setting: Setting) -> dict[str, Any]:
    return {
        "budget": setting.budget,
        "classes": setting.classes,
        "image_shape": setting.image_shape,
        "representation": quick_representation(setting),
        "random_state": setting.seed,
        "noise_seed": setting.noise_seed,
    }


#: Noise is then far below one ballot.
_NO_NOISE = 1e4


class Fast(PATEClassifier):
    """Record voters without a network: components of scattering are columns of a table, whatever images look like."""

    @staticmethod
    def _rule(facts: PublicFacts) -> Recipe:
        return choose(_as_columns(facts))


class HeadAlone(PATEClassifier):
    """Record voters whose linear head is the model: nobody learns from it."""

    @staticmethod
    def _rule(facts: PublicFacts) -> Recipe:
        return without_student(choose(facts))


class HeadOfColumns(HeadAlone):
    """The same on components of scattering."""

    @staticmethod
    def _rule(facts: PublicFacts) -> Recipe:
        return without_student(choose(_as_columns(facts)))


class Noiseless(PATEClassifier):
    """The default road with noise that moves nothing: a ceiling, with no privacy and so no statement."""

    def fit_keeping(self, X: Any, y: Any, *, X_public: Any = None, groups: Any = None) -> tuple[Any, Any]:
        """Fit as :class:`pate.PATEClassifier` does, and promise nothing."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyParameterWarning)  # nothing is promised
            kept = super().fit_keeping(X, y, X_public=X_public, groups=groups)
        del self.statement_
        return kept


def _as_columns(facts: PublicFacts) -> PublicFacts:
    return replace(facts, kind="table") if facts.kind in ("image", "glyph") else facts


def default(setting: Setting) -> PATEClassifier:
    """Return pate's default: nothing said, records vote on their own road, image student and all."""
    return PATEClassifier(**_said(setting), representation=own_representation(setting))


def auto(setting: Setting) -> PATEClassifier:
    """Return whoever pate's public rule chooses, records that vote or DP-SGD."""
    return PATEClassifier(**{**_said(setting), "voters": "auto"})


def fast(setting: Setting) -> PATEClassifier:
    """Return record voters without networks: of images scattering, of all else the default."""
    return Fast(**_said(setting), representation=quick_representation(setting))


def linear(setting: Setting) -> PATEClassifier:
    """Return record voters with a linear head and no student, on the default's own representation."""
    return HeadAlone(**_said(setting), representation=own_representation(setting))


def same(setting: Setting) -> PATEClassifier:
    """Return record voters with a linear head on the very representation that DP-SGD's recipe takes at this budget."""
    (map_,) = planned(setting).maps
    return HeadOfColumns(**_said(setting), representation=map_)


def noiseless(setting: Setting) -> PATEClassifier:
    """Return the default's votes without noise."""
    said = _said(setting) | {"budget": Budget(_NO_NOISE, setting.budget.delta)}
    return Noiseless(**said, representation=own_representation(setting))


def _said(setting: Setting) -> dict[str, Any]:
    return {
        "voters": "records",
        "budget": setting.budget,
        "classes": setting.classes,
        "image_shape": setting.image_shape,
        "random_state": setting.seed,
        "noise_seed": setting.noise_seed,
        "n_jobs": setting.n_jobs,
        "anyway": True,  # a comparison shows what comes of any budget
    }
