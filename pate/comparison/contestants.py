"""The contestants that can be compared by name; a public rule sets each one's parameters for every budget.

Examples
--------
To add a contestant of your own, write a function of a public :class:`~pate.comparison.contract.Setting`:

>>> from pate import Budget, DPSGDClassifier, load_dataset
>>> from pate.comparison.contestants import named
>>> from pate.comparison.contract import Contestant, Setting, Tuning
>>> from pate.representations import PublicPCA
>>> def ours(setting):
...     return DPSGDClassifier(
...         budget=setting.budget,
...         classes=setting.classes,
...         random_state=setting.seed,
...         representation=setting.fitted(PublicPCA(16)),
...     )
>>> contestant = Contestant(
...     "ours",
...     ours,
...     side="DP-SGD",
...     tuning=Tuning("16 components", n_tried=4, on="our 2024 data"),
... )
>>> data = load_dataset("digits", n_private=300, n_public=100)
>>> setting = Setting.of(data, contestant, budget=Budget(1.0, 1e-4), seed=0)
>>> model = contestant.make(setting).fit(
...     data.private.X, data.private.y, X_public=data.public.X
... )
>>> (
...     model.statement_.guarantee.epsilon <= 1.0,
...     [c.name for c in (*named(["pate", "dpsgd"]), contestant)],
... )
(True, ['pate', 'dpsgd', 'ours'])
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from pate._core.checks import check_choice
from pate._core.types import FloatArray, IntArray
from pate.comparison._numbers import NUMBERS
from pate.comparison.baselines import PrivateKNN, SparseVectorPATE
from pate.comparison.contract import PREDICTS, Contestant, Setting, Tuning, own_representation, quick_representation
from pate.comparison.studies.config import RunConfig, public_rows
from pate.comparison.studies.run import ordinary_model
from pate.dpsgd import DPSGDClassifier, fit_privately
from pate.dpsgd.recipes import RecipePlan, choose_recipe, facts_of
from pate.estimators import PATEClassifier, Queries, len_of
from pate.estimators.plan import PlanRow, shard_rows
from pate.exceptions import InvalidInputError, PrivacyParameterWarning
from pate.ledger import Registration
from pate.mechanisms import GaussianSum
from pate.models.recipes import PublicFacts, Recipe, choose, kind_of, without_student
from pate.models.students import VoteSpreading, fit_student
from pate.privacy.budget import Budget
from pate.records import HardSpace, RecordVoters, take
from pate.release import (
    BatchPlan,
    Evidence,
    Outcome,
    cast_votes,
    label_interactively,
    opened,
    release_ballots,
)
from pate.representations import PublicPCA, Representation, TableMap, UnitRows, chain
from pate.teachers import TeacherEnsemble
from pate.votes import ABSTAIN

__all__ = ["NAMES", "default_contestants", "named"]


def planned(setting: Setting, *, name: str | None = None, representation: Representation | None = None) -> RecipePlan:
    """Return DP-SGD's plan for a setting; a representation already fitted for another contestant is reused."""
    how: dict[str, Any] = {"random_state": setting.seed, "fit": setting.fitted}
    return RecipePlan.of(**_public_facts(setting), name=name, representation=representation, **how)


def _public_facts(setting: Setting) -> dict[str, Any]:
    parameters = {name: getattr(setting, name) for name in ("X_public", "n_units", "budget", "image_shape")}
    return {**parameters, "row_shape": tuple(np.shape(setting.X_public)[1:]), "n_classes": len(setting.classes)}


def _parameters(setting: Setting, **more: Any) -> dict[str, Any]:
    """Return the parameters that every classifier takes from a setting."""
    own = {name: getattr(setting, name) for name in ("budget", "classes", "noise_seed", "image_shape")}
    return {**own, "random_state": setting.seed, **more}


# The 2018 recipe: teachers on shards, GNMax and Confident-GNMax, planned per budget from public numbers.

#: Teachers of the paper, and how many records each has at least where there are fewer than that many for all.
_TEACHERS, _RECORDS_EACH, _FEWEST = 250, 20, 10
#: Noise on a count, in votes per teacher: the paper's 40 of 250.
_NOISE = 0.16
_TREES = 100


def plan_shards(setting: Setting, name: str) -> PlanRow:
    """Return the row of ``pate plan`` at as many queries as keep the noise at the paper's share of the votes.

    250 teachers, or one for every 20 records (persons) where that is fewer; ten queries, and one for each class, at
    least; at most all public rows. All of it is public, and nothing carries over from one budget to another.
    """
    n_teachers = min(_TEACHERS, max(_FEWEST, setting.n_units // _RECORDS_EACH), setting.n_units)
    n_public = len(setting.X_public)

    def row(n: int) -> PlanRow:
        more: dict[str, Any] = {"n_records": setting.n_units, "n_teachers": n_teachers}
        return next(r for r in shard_rows(setting.budget, n, len(setting.classes), **more) if r.name == name)

    low = min(n_public, max(_FEWEST, len(setting.classes)))
    found, high = row(low), n_public + 1
    while high - low > max(1, low // 50):  # to 2%
        middle = (low + high) // 2
        there = row(middle)
        if there.sigma <= _NOISE * n_teachers:
            low, found = middle, there
        else:
            high = middle
    return found


def by_2018(setting: Setting, *, name: str, kind: type[PATEClassifier] = PATEClassifier) -> PATEClassifier:
    """Return PATE by the 2018 recipe: labels alone are released, and a student learns from them.

    Teachers are random forests where columns are categories (as the paper's of Adult), support vector machines on
    images, logistic regressions on all other tables. The student learns from all public rows, labelled or not: labels
    spread to similar rows (:class:`pate.models.students.VoteSpreading` stands for the paper's GAN). Rows to ask about
    are chosen by pate's default.
    """
    plan = plan_shards(setting, name)
    teacher, student = _models(setting)
    teachers = TeacherEnsemble(teacher, plan.n_teachers, n_jobs=setting.n_jobs)
    queries = Queries(plan.n_queries, max_answers=plan.n_answers, on_exhausted="abstain", force=True)
    parameters = _parameters(setting, mechanism=plan.mechanism, queries=queries, image_shape=None)
    return kind(teachers, n_teachers=plan.n_teachers, student=student, **parameters)


def _models(setting: Setting) -> tuple[Any, Any]:
    kind = kind_of(setting.X_public, setting.image_shape)
    if setting.kind == "image":  # pixels are of one scale
        return SVC() if kind == "image" else LogisticRegression(max_iter=200), VoteSpreading()
    if kind == "mixed":
        encoded = FrozenEstimator(setting.fitted(TableMap()))
        forest = make_pipeline(encoded, RandomForestClassifier(_TREES, random_state=setting.seed))
        return forest, make_pipeline(encoded, VoteSpreading())
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=200)), VoteSpreading(scale=True)


gnmax = partial(by_2018, name="gnmax")
confident = partial(by_2018, name="confident-gnmax")


def interactive(setting: Setting) -> PATEClassifier:
    """Return Interactive-GNMax, planned as Confident-GNMax is."""
    return by_2018(setting, name="confident-gnmax", kind=InteractivePATE)


#: Of the teachers' number: what the count less the student's share must reach.
_LATER_SHARE = 0.2


class InteractivePATE(PATEClassifier):
    """The 2018 recipe by Interactive-GNMax: what a public student of earlier answers knows is not answered again."""

    def _outcome(
        self, plan: BatchPlan, teachers: Any, asked: Any, evidence: Evidence, student: Any, seen: Any
    ) -> Outcome:
        votes = cast_votes(teachers, asked, plan.hashes, evidence, n_queries=len(plan.queries))
        session = opened(
            plan.asking.mechanism,
            plan.terms,
            Registration.of_votes(votes),
            votes.classes,
            n_queries=max(1, plan.quote.n_queries),
            classes_inferred=votes.classes_inferred,
        )

        def learn(labels: IntArray) -> FloatArray:
            known = np.full(seen.shape[0], ABSTAIN, dtype=np.int64)
            known[plan.queries] = labels
            fitted = fit_student(student, seen, known, random_state=self._student_seed())
            found = np.zeros((len(labels), len(votes.classes)))
            found[:, np.asarray(fitted.classes_)] = fitted.predict_proba(take(seen, plan.queries))
            return found / found.sum(axis=1, keepdims=True)

        later = _LATER_SHARE * votes.n_teachers
        release = label_interactively(session, votes, learn, later_threshold=later)
        return Outcome(evidence.message_in(release, teachers), plan.queries, votes)


# Published private methods by other authors, set by public rules of their own.


def private_knn(setting: Setting) -> PrivateKNN:
    """Return private kNN; images are compared by scattering."""
    return PrivateKNN(**_parameters(setting, representation=quick_representation(setting)))


def sparse_vector(setting: Setting) -> SparseVectorPATE:
    """Return the sparse-vector scheme; images are mapped by scattering."""
    parameters = _parameters(setting, representation=quick_representation(setting), n_jobs=setting.n_jobs)
    return SparseVectorPATE(**parameters)


#: Noise is then far below one ballot.
_NO_NOISE = 1e4


class Fast(PATEClassifier):
    """Record voters without a network: components of scattering are columns of a table, whatever the images are."""

    @staticmethod
    def _rule(facts: PublicFacts) -> Recipe:
        return choose(_as_columns(facts))


class HeadAlone(PATEClassifier):
    """Record voters whose linear head is the model, without a student."""

    @staticmethod
    def _rule(facts: PublicFacts) -> Recipe:
        return without_student(choose(facts))


class HeadOfColumns(HeadAlone):
    """HeadAlone on components of scattering."""

    @staticmethod
    def _rule(facts: PublicFacts) -> Recipe:
        return without_student(choose(_as_columns(facts)))


class Noiseless(PATEClassifier):
    """The default method with negligible noise: a ceiling, without privacy and so without a statement."""

    def fit_keeping(
        self, X: Any, y: Any, *, X_public: Any = None, groups: Any = None, schema: Any = None, tiers: Any = None
    ) -> tuple[Any, Any]:
        """Fit as :class:`pate.PATEClassifier` does, without a statement."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyParameterWarning)  # nothing is promised
            kept = super().fit_keeping(X, y, X_public=X_public, groups=groups, schema=schema, tiers=tiers)
        del self.statement_
        return kept


def _as_columns(facts: PublicFacts) -> PublicFacts:
    return replace(facts, kind="table") if facts.kind in ("image", "glyph") else facts


def default(
    setting: Setting,
    *,
    kind: type[PATEClassifier] = PATEClassifier,
    seen: Callable[[Setting], Any] = own_representation,
) -> PATEClassifier:
    """Return record voters with default settings, with the image student where ``kind`` is PATEClassifier."""
    return kind(**_records(setting), representation=seen(setting))


def auto(setting: Setting) -> PATEClassifier:
    """Return the method that pate's public rule chooses: record voters or DP-SGD."""
    return PATEClassifier(**_records(setting) | {"voters": "auto"})


#: Without networks: of images scattering, of all else the default.
fast = partial(default, kind=Fast, seen=quick_representation)
linear = partial(default, kind=HeadAlone)


def same(setting: Setting) -> PATEClassifier:
    """Return record voters with a linear head on the very representation that DP-SGD's recipe takes at this budget."""
    (map_,) = planned(setting).maps
    return HeadOfColumns(**_records(setting), representation=map_)


def noiseless(setting: Setting) -> PATEClassifier:
    """Return the default's votes without noise."""
    return default(replace(setting, budget=Budget(_NO_NOISE, setting.budget.delta)), kind=Noiseless)


def _records(setting: Setting) -> dict[str, Any]:
    # A comparison shows the result of any budget.
    return _parameters(setting, voters="records", queries=Queries(force=True))


# Floors and ceilings: accuracies that a method must exceed, and those that it cannot.


class _Likeliest(ClassifierMixin, BaseEstimator):
    """A classifier that predicts the likeliest class of its ``predict_proba``."""

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the likeliest class of every row."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])


class NoisyMajority(_Likeliest):
    """Predict the commonest class for every row, found by a noisy count that spends the budget.

    The commonest class is not public: anyone who knows all labels but one could learn that one from it. Every record
    (person) casts one bounded ballot for its class, whatever its row is, and noise goes to the sum
    (:class:`pate.mechanisms.GaussianSum`): the cheapest release of labels.
    """

    def __init__(self, *, budget: Budget, classes: Any, noise_seed: int | None = None) -> None:
        self.budget = budget
        self.classes = classes
        self.noise_seed = noise_seed

    def fit(self, X: Any, y: Any, *, groups: Any = None) -> NoisyMajority:
        """Count classes, with noise; rows are ignored."""
        y = np.asarray(y)
        # One cell that every record falls into; the other one stays empty.
        voters = RecordVoters(None, HardSpace(2, random_state=0).fit(_TWO), classes=tuple(self.classes))
        ballots = voters.cast(np.zeros((len(y), 1)), y, groups=groups)
        mechanism = GaussianSum.for_budget(self.budget)
        release = release_ballots(ballots, mechanism, budget=self.budget, noise_seed=self.noise_seed)
        cell = int(np.argmax(voters.transform(_TWO[:1])[0]))
        shares = np.maximum(release.statistics[cell] / release.n_units + 1 / len(self.classes), 0.0)
        self.shares_: FloatArray = shares / shares.sum() if shares.sum() > 0 else np.full(len(shares), 1 / len(shares))
        self.classes_ = np.asarray(self.classes)
        self.statement_ = release.statement
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the noisy shares for every row, shape (n, n_classes)."""
        return np.tile(self.shares_, (len_of(X), 1))


_TWO = np.array([[0.0], [1.0]])


class PublicLabels(_Likeliest):
    """Learn from a few hand-labelled public rows and from no private row: a floor.

    It costs no privacy: where labelling so many rows by hand is possible, private labels are needed only if they give a
    higher accuracy.
    """

    def __init__(self, representation: Any, y_public: Any, *, classes: Any) -> None:
        self.representation = representation
        self.y_public = y_public
        self.classes = classes

    def fit(self, X: Any, y: Any, *, X_public: Any = None) -> PublicLabels:
        """Learn from the labelled public rows; ``X`` and ``y`` are ignored."""
        given = np.asarray(self.y_public)
        if X_public is None or not (given >= 0).any():
            raise InvalidInputError("X_public must be public rows of which some have a label in y_public, got none.")
        z = self._seen(X_public)[given >= 0]
        self.classes_ = np.asarray(self.classes)
        self.n_labels_ = int((given >= 0).sum())
        labels = given[given >= 0]
        several = LogisticRegression(max_iter=500)
        self.model_ = (several if len(np.unique(labels)) > 1 else DummyClassifier()).fit(z, labels)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return probabilities of shape (n, n_classes); a class without a label has none."""
        made = np.zeros((len_of(X), len(self.classes)))
        made[:, self.model_.classes_] = self.model_.predict_proba(self._seen(X))
        return made

    def _seen(self, X: Any) -> FloatArray:
        return np.asarray(self.representation.transform(X), dtype=np.float64)


class Ordinary(Pipeline):
    """A good ordinary model of all private rows, without any privacy: a ceiling."""

    def fit(self, X: Any, y: Any) -> Ordinary:
        """Fit all steps, without warnings of an optimiser that was stopped early."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return super().fit(X, y)


def majority(setting: Setting) -> NoisyMajority:
    """Return the commonest class by a noisy count."""
    return NoisyMajority(budget=setting.budget, classes=setting.classes, noise_seed=setting.noise_seed)


def public_labels(setting: Setting) -> PublicLabels:
    """Return a linear model of the hand-labelled public rows, on their columns; on scattering for images of 16 pixels.

    Not on record voters' own representation: hundreds of components of a kernel are too many for a hundred labels.
    """
    if setting.y_public is None:
        raise InvalidInputError(
            "y_public must be given to a contestant of labelled public rows, got None. Give the Contestant "
            "n_public_labels, and make its setting by Setting.of(data, contestant, ...)."
        )
    large = kind_of(setting.X_public, setting.image_shape) == "image"
    seen = quick_representation(setting) if large else setting.fitted(TableMap())
    return PublicLabels(seen, setting.y_public, classes=setting.classes)


def no_privacy(setting: Setting) -> Ordinary:
    """Return a good ordinary model for this kind of data: on scattering for images of 16 pixels and more."""
    model = ordinary_model(setting.kind, setting.n_records, seed=setting.seed)
    steps: list[Any] = []
    if kind_of(setting.X_public, setting.image_shape) == "image":
        steps = [FrozenEstimator(quick_representation(setting)), StandardScaler()]
    elif setting.kind == "table":
        steps = [FrozenEstimator(setting.fitted(TableMap()))]
    return Ordinary(make_pipeline(*steps, model).steps)


# The contestants by name.

# How many settings were tried to find each contestant's rule (docs/comparison-statistics.md).

#: Settings of record voters that docs/research-log.md names, by section; what was tried and not written down is not
#: counted.
_RECORDS = {
    "ballots": 19,
    "representations": 27,
    "heads": 20,
    "residual rounds": 13,
    "self-supervision": 4,
    "trees": 50,
    "students": 63,
}
#: "Best of a dozen" for linear DP-SGD on scattering (docs/accuracy.md); six for digits (experiments/README.md).
#: How many kernels and components were tried for the table presets was not written down.
_DPSGD = {"scattering": 12, "digits": 6}

RECORDS = Tuning(
    rule="pate's rule for record voters, from public facts (docs/record-recipes.md)",
    n_tried=sum(_RECORDS.values()),
    on="splits of training parts (digits, optdigits, pendigits, spambase, Adult, MNIST, Fashion-MNIST) and made "
    "tables; at least so many, as far as the research log names them",
)
DPSGD = Tuning(
    rule="DP-SGD's planner, from public facts (docs/dpsgd-recipes.md)",
    n_tried=sum(_DPSGD.values()),
    on="splits of private parts of digits, Adult, pendigits, MNIST and Fashion-MNIST, and digits itself; at least so "
    "many, as far as they were written down",
)
#: 4, 10 or 20 records to a teacher, noise of 0.16, 0.22 or 0.3 of the votes, label or vote spreading, or the teachers'
#: kind as a student.
_TUNED_SHARDS = 14
PATE_2018 = Tuning(
    rule="the rows of pate plan at the paper's share of noise, 250 teachers or one for every 20 records",
    n_tried=_TUNED_SHARDS,
    on="splits of the private parts of digits, optdigits, pendigits, spambase, Adult and MNIST, epsilon 0.5 to 8",
)
#: Votes that a count less the student's share must reach: 0.2, 0.4 or 0.6 of the teachers.
_TUNED_INTERACTIVE = 3
INTERACTIVE = Tuning(
    rule=f"{PATE_2018.rule}; later rounds by a fixed share of the teachers",
    n_tried=_TUNED_SHARDS + _TUNED_INTERACTIVE,
    on=PATE_2018.on,
)
#: As many components as the evidence bears, or all.
_ON_PUBLIC = 2
DPSGD_ON_PUBLIC = Tuning(
    rule="DP-SGD's planner, from public facts, on PATE's representation",
    n_tried=sum(_DPSGD.values()) + _ON_PUBLIC,
    on=f"what DP-SGD's presets were tried on; {_ON_PUBLIC} ways to take PATE's representation on one split each of the "
    "private parts of digits and pendigits, epsilon 0.5, 1 and 3",
)
#: The rule for images or for tables, with a student or without.
_WITHOUT_NETWORKS = 3
FAST = Tuning(
    rule=RECORDS.rule,
    n_tried=sum(_RECORDS.values()) + _WITHOUT_NETWORKS,
    on=f"{RECORDS.on}; {_WITHOUT_NETWORKS} ways to take scattering on one split each of 23,000 private rows of "
    "MNIST and Fashion-MNIST, epsilon 0.1, 0.5, 1 and 3",
)
#: Of the settings of private kNN; those of the sparse vector come from a law of distances (docs/baselines.md).
_TRIED_BASELINES = 451
BASELINES = Tuning(
    rule="a rule of its own, from public facts (docs/baselines.md)",
    n_tried=_TRIED_BASELINES,
    on="splits of training parts of digits, optdigits and pendigits; combinations of data set and setting, for private "
    "kNN and the sparse vector together",
)
NOTHING = Tuning(rule="nothing to set")


# DP-SGD: by its planner, by presets, and linear models on PATE's representation.

_SMALL_IMAGE = 16
#: Whitening of components of PATE's representation, as of the planner's kernel.
_ALPHA = 0.7


class PlannedDPSGD(DPSGDClassifier):
    """DP-SGD with a plan made beforehand from public facts, and a representation that is already fitted."""

    def along(self, plan: RecipePlan) -> PlannedDPSGD:
        """Take a plan, and return this object."""
        self._plan_ahead = plan
        return self

    def __sklearn_clone__(self) -> Any:
        return super().__sklearn_clone__().along(self._plan_ahead)

    def fit(self, X: Any, y: Any, *, X_public: Any = None, groups: Any = None, **more: Any) -> DPSGDClassifier:
        """Fit as :class:`pate.DPSGDClassifier` does, along the plan."""
        more |= {"X_public": X_public, "groups": groups, "recipe_plan": self._plan_ahead}
        return self._take(fit_privately(self, X, y, **more, measuring=True))


def is_large(image_shape: tuple[int, ...] | None) -> bool:
    """Whether rows are images large enough for image maps; smaller ones are treated as tables of pixels."""
    return image_shape is not None and min(image_shape[-2:]) >= _SMALL_IMAGE


def check_images(contestant: str, image_shape: tuple[int, ...] | None) -> None:
    """Raise unless rows are images large enough for a contestant."""
    if not is_large(image_shape):
        raise InvalidInputError(
            f"contestant {contestant!r} is for images of at least {_SMALL_IMAGE} pixels a side, got "
            f"{'tables' if image_shape is None else f'images of {image_shape}'}. Use 'dpsgd', which plans for any "
            "data."
        )


def by_recipe(setting: Setting, *, name: str | None = None, contestant: str = "dpsgd") -> DPSGDClassifier:
    """Return DP-SGD by its planner, or by a preset."""
    if name is not None:
        check_images(contestant, setting.image_shape)
    return _planned_classifier(setting, planned(setting, name=name))


def on_public(setting: Setting) -> DPSGDClassifier:
    """Return linear DP-SGD on the very representation that PATE's default fits on public rows."""
    rep = own_representation(setting)
    plan = planned(setting, representation=rep)
    # As the planner does on a representation of its own: as many components as the evidence bears, partly whitened.
    n = choose_recipe(facts_of(**_public_facts(setting))).n_components
    pca = PublicPCA(None if n is None else min(n, rep.n_features_out_), alpha=_ALPHA)
    last = chain(pca, UnitRows(constant=plan.recipe.constant)).fit(rep.vectors(setting.X_public))
    return _planned_classifier(setting, replace(plan, maps=(rep, last)))


def _planned_classifier(setting: Setting, plan: RecipePlan) -> DPSGDClassifier:
    return PlannedDPSGD(device="auto", **_parameters(setting)).along(plan)


scattering = partial(by_recipe, name="linear", contestant="dpsgd-linear-scattering")
tempered = partial(by_recipe, name="tempered-cnn", contestant="dpsgd-tempered-cnn")


_PRIVATE = "private rows and labels; public rows without labels"
_SHARDS = "private rows and labels, in shards; public rows without labels, some of which get noisy ones"
_PIXELS = "private rows and labels; of public rows how many there are"

_ALL = (
    Contestant("pate", default, side="PATE", tuning=RECORDS, sees=_PRIVATE),
    Contestant("pate-fast", fast, side="PATE", tuning=FAST, sees=_PRIVATE),
    Contestant("records-linear", linear, side="PATE", tuning=RECORDS, sees=_PRIVATE),
    Contestant("records-same", same, side="PATE", tuning=RECORDS, sees=_PRIVATE),
    Contestant("gnmax", gnmax, side="PATE", tuning=PATE_2018, sees=_SHARDS),
    Contestant("confident-gnmax", confident, side="PATE", tuning=PATE_2018, sees=_SHARDS),
    Contestant("interactive-gnmax", interactive, side="PATE", tuning=INTERACTIVE, sees=_SHARDS),
    Contestant("dpsgd", by_recipe, side="DP-SGD", tuning=DPSGD, sees=_PRIVATE),
    Contestant("dpsgd-linear-public", on_public, side="DP-SGD", tuning=DPSGD_ON_PUBLIC, sees=_PRIVATE),
    Contestant("dpsgd-linear-scattering", scattering, side="DP-SGD", tuning=DPSGD, sees=_PRIVATE),
    Contestant("dpsgd-tempered-cnn", tempered, side="DP-SGD", tuning=DPSGD, sees=_PIXELS),
    Contestant("auto", auto, tuning=RECORDS, sees=_PRIVATE),
    Contestant("private-knn", private_knn, tuning=BASELINES, sees=_PRIVATE),
    Contestant("sparse-vector", sparse_vector, tuning=BASELINES, sees=_SHARDS),
    Contestant("majority", majority, tuning=NOTHING, sees="private labels, through a noisy count"),
    Contestant(
        "public-labels-100",
        public_labels,
        role="floor",
        tuning=NOTHING,
        sees="no private row; public rows, 100 of them with their labels, as if labelled by hand",
        n_public_labels=100,
    ),
    Contestant(
        "noiseless",
        noiseless,
        role="ceiling",
        tuning=RECORDS,
        sees="private rows and labels without privacy: the default's ballots, without noise; public rows",
    ),
    Contestant(
        "no-privacy",
        no_privacy,
        role="ceiling",
        tuning=NOTHING,
        sees="private rows and labels without privacy; of public rows how columns are encoded",
    ),
)
_OF = {what: {one.name: one for one in found} for what, found in zip(PREDICTS, (_ALL, NUMBERS), strict=True)}

#: All names of contestants that predict classes.
NAMES = tuple(_OF["classes"])
#: Of large images ``pate-fast`` stands for ``pate``: networks take hours of a comparison, and are asked for by name.
_USUAL = ("pate", "gnmax", "dpsgd", "majority", "public-labels-100", "no-privacy")
#: Contestants for images of 16 pixels a side and more only.
_OF_IMAGES = ("dpsgd-linear-scattering", "dpsgd-tempered-cnn")


def named(
    names: Iterable[str],
    *,
    kind: str | None = None,
    image_shape: tuple[int, ...] | None = None,
    predicts: str = "classes",
) -> tuple[Contestant, ...]:
    """Return built-in contestants (methods to compare) by their names, in the same order.

    Parameters
    ----------
    names : iterable of str
        Of :data:`NAMES`:

        ======================= ========================================================================================
        pate                    this package's default: records vote; images by a network that learns from their labels
        pate-fast               record voters without networks: images by scattering; of tables the same as ``pate``
        records-linear          record voters on ``pate``'s representation, their linear head alone
        records-same            record voters' linear head on the representation that ``dpsgd`` takes
        gnmax, confident-gnmax  the 2018 recipe: 250 teachers (or one for every 20 records), labels alone are released
        interactive-gnmax       the same in rounds: teachers answer where they contradict a student of earlier answers
        dpsgd                   DP-SGD by its planner: a linear model on what public rows teach
        dpsgd-linear-public     linear DP-SGD on ``pate``'s representation
        dpsgd-linear-scattering images: linear DP-SGD on scattering (what the planner takes there)
        dpsgd-tempered-cnn      images: a small tanh network on pixels
        auto                    ``voters="auto"``: records or DP-SGD by a public rule; it counts as neither side
        private-knn             noisy votes of the nearest records (Zhu et al. 2020), on scattering or ``pate``'s map
        sparse-vector           teachers' plurality where it is stable (Bassily et al. 2018), on the same
        majority                the commonest class, by a noisy count of the private labels
        public-labels-100       a floor: 100 public rows labelled by hand, and no private row
        noiseless               a ceiling: the ballots of ``pate`` without noise
        no-privacy              a ceiling: a good ordinary model of all private rows
        ======================= ========================================================================================

        Of numbers:

        ======================= ========================================================================================
        pate, dpsgd             :class:`pate.PATERegressor`, :class:`pate.DPSGDRegressor`, as they set themselves
        mean, public-labels-100 floors: the mean of 100 public rows labelled by hand, a linear model of them
        ridge, no-privacy       ceilings: a linear model, boosted trees of all private rows
        ======================= ========================================================================================

    kind : {"table", "image"} or None
        Kind of data, with ``image_shape``: a contestant that is not for such data is then refused at once.
    image_shape : tuple or None
    predicts : {"classes", "numbers"}
        What the target is.

    Returns
    -------
    tuple of Contestant

    Raises
    ------
    InvalidInputError
        An unknown or repeated name, or none; a contestant that is not for such data, or not for such a target.

    Examples
    --------
    >>> [contestant.side for contestant in named(["pate", "dpsgd"])]
    ['PATE', 'DP-SGD']
    >>> named(["pat"])
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: contestants must be one of ... Did you mean 'pate'?
    """
    known = _OF[check_choice("predicts", predicts, PREDICTS)]
    wanted: list[Any] = [names] if isinstance(names, str) else list(names)
    if not wanted or len({str(name) for name in wanted}) < len(wanted):
        raise InvalidInputError(
            f"contestants must be names, one or more and each once, got {wanted!r}. Known are {', '.join(known)}."
        )
    other = next((name for name in wanted if name not in known and any(name in of for of in _OF.values())), None)
    if other is not None:
        raise InvalidInputError(
            f"contestants must predict {predicts}, and {other!r} does not. Those that do: {', '.join(known)}."
        )
    found = tuple(known[check_choice("contestants", name, known)] for name in wanted)
    for contestant in found if kind is not None else ():
        if contestant.name in _OF_IMAGES:
            check_images(contestant.name, image_shape if kind == "image" else None)
    return found


#: What the demo shows, under names that say what learns.
_DEMO = {"gnmax": "PATE with teachers", "pate": "PATE with records", "dpsgd": "DP-SGD"}


def demo_config(budget: Budget, *, n_repeats: int = 5, n_jobs: int | None = None) -> RunConfig:
    """Return the run that ``pate demo`` makes: three private methods on scikit-learn's digits, set by their rules."""
    shown = tuple(replace(contestant, name=_DEMO[contestant.name]) for contestant in named(_DEMO))
    more: dict[str, Any] = {"n_public": public_rows("digits"), "n_repeats": n_repeats, "n_jobs": n_jobs}
    return RunConfig(dataset="digits", budget=budget, contestants=shown, **more)


def default_contestants(
    kind: str, image_shape: tuple[int, ...] | None = None, *, predicts: str = "classes"
) -> tuple[Contestant, ...]:
    """Return the methods that :func:`pate.compare` compares by default for a kind of data: those that take minutes.

    For images of at least 16 x 16 pixels, ``pate-fast`` takes the place of ``pate``, whose networks take a quarter of
    an hour per fit on one core (docs/accuracy.md). To include ``pate``, name it.

    Parameters
    ----------
    kind : {"table", "image"}
    image_shape : tuple or None
    predicts : {"classes", "numbers"}
        What is predicted. All contestants that predict numbers take minutes.

    Examples
    --------
    >>> [contestant.name for contestant in default_contestants("image", (28, 28))][:2]
    ['pate-fast', 'gnmax']
    >>> [contestant.name for contestant in default_contestants("table")][:3]
    ['pate', 'gnmax', 'dpsgd']
    """
    check_choice("kind", kind, ("table", "image"))
    if predicts != "classes":
        return named(_OF[check_choice("predicts", predicts, PREDICTS)], predicts=predicts)
    large = kind == "image" and is_large(image_shape)
    return named("pate-fast" if name == "pate" and large else name for name in _USUAL)
