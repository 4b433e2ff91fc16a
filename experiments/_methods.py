"""The methods of ``accuracy_vs_epsilon.py``: each learns from one problem within one budget and answers the test rows.

No setting was chosen on test rows: records, heads and shards by what pate chooses itself, the 2018 recipe by its
paper, DP-SGD by ``pate.comparison.studies``.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from pate import Budget, ConfidentGNMax, Dataset, PATEClassifier, Queries, load_dataset
from pate.comparison.studies.config import make_dpsgd
from pate.data import encode_dataset
from pate.exceptions import BudgetExceededError
from pate.models.recipes import RecordsPlan, fitted_representation, kind_of
from pate.release import ReleaseTerms
from pate.representations import load

#: What images look like in a representation is kept up to so many bytes, then computed again.
_MOST_KEPT = 6 * 2**30
#: "No privacy": the same road with noise that moves nothing.
WITHOUT_PRIVACY = 1e5
#: The 2018 paper's MNIST and Adult, in votes of 250 teachers: threshold, its noise, the answers' noise, answers over
#: queries (Papernot et al., "Scalable Private Learning with PATE", table 1).
_PAPER = {"mnist": (200.0, 150.0, 40.0, 286 / 640), "adult": (300.0, 200.0, 40.0, 524 / 1500)}


#: Root mean square length of a row in DP-SGD on the representation; chosen on splits of training parts.
_LENGTH = 4.0


class Refused(Exception):
    """The budget buys nothing here: a cell without numbers, not a failure."""


@dataclass(frozen=True)
class DataSpec:
    """One data set and how it is cut."""

    name: str
    protocol: str = "standard"
    n_public: int | None = None
    n_private: int | None = None

    @property
    def label(self) -> str:
        return f"{self.name}/{self.protocol}"


class Remembered:
    """A map of images that is computed once per block of rows, and knows how long it took."""

    def __init__(self, transform: Callable[[Any], Any]) -> None:
        self.transform, self.kept, self.bytes, self.seconds = transform, {}, 0, 0.0

    def __call__(self, X: Any) -> Any:
        rows = np.ascontiguousarray(X)
        key = hashlib.sha256(rows.tobytes()).digest()
        if key not in self.kept:
            start = time.perf_counter()
            z = self.transform(X)
            self.seconds += time.perf_counter() - start
            if self.bytes + z.nbytes > _MOST_KEPT:
                return z
            self.kept[key] = z
            self.bytes += z.nbytes
        return self.kept[key]


class Problem:
    """A data set cut by one seed, with the public representation that every method of that seed shares."""

    def __init__(self, spec: DataSpec, seed: int, work: Path) -> None:
        self.spec, self.seed, self.work = spec, seed, work
        options = {"n_public": spec.n_public, "n_private": spec.n_private}
        self.data: Dataset = load_dataset(spec.name, protocol=spec.protocol, random_state=seed, **options)
        self.image_shape = self.data.image_shape
        self.kind = kind_of(self.data.public.X, self.image_shape)
        self.representation_seconds = 0.0
        self._remembered: Remembered | None = None

    @cached_property
    def encoded(self) -> Dataset:
        """As numbers, by what the public rows teach."""
        return encode_dataset(self.data)

    @property
    def classes(self) -> range:
        return range(len(self.data.classes))

    def representation(self, code: str) -> Any:
        """Return pate's default representation of these public rows by this seed, from ``work`` if it is there."""
        if getattr(self, "_representation", None) is None:
            start = time.perf_counter()
            names = (self.spec.name, self.spec.protocol, self.spec.n_public, self.spec.n_private, self.seed, code[:16])
            file = self.work / "representations" / f"{'-'.join(map(str, names))}.safetensors"
            if not file.exists():
                rep = fitted_representation(
                    self.kind, self.data.public.X, image_shape=self.image_shape, random_state=self.seed
                )
                file.parent.mkdir(parents=True, exist_ok=True)
                rep.save(file)
            self._representation = load(file)
            if self.kind == "image":
                self._remembered = Remembered(self._representation.transform)
                self._representation.transform = self._remembered
            self.representation_seconds = time.perf_counter() - start
        return self._representation

    @property
    def mapping_seconds(self) -> float:
        """How long rows were mapped so far, where that is kept and shared."""
        return 0.0 if self._remembered is None else self._remembered.seconds


@dataclass(frozen=True)
class Fit:
    """What a method said of the test rows, and at what price."""

    labels: Any
    probabilities: Any
    settings: str
    guarantee: Any


def _pate(problem: Problem, budget: Budget, code: str | None, **options: Any) -> tuple[PATEClassifier, Any]:
    """Fit PATE on the raw rows, or (``encoded=True``) on the rows as numbers."""
    data = problem.encoded if options.pop("encoded", False) else problem.data
    if code is not None:
        options |= {"representation": problem.representation(code), "image_shape": problem.image_shape}
    given = {"classes": problem.classes, "random_state": problem.seed, "queries": Queries(force=True), **options}
    clf = PATEClassifier(budget=budget, **given)
    private = data.private
    with warnings.catch_warnings():
        # Benchmarks hold the same row twice; what the check says is for curators of private tables.
        warnings.simplefilter("ignore")
        made, _ = clf.fit_keeping(private.X, private.y, X_public=data.public.X, groups=private.groups)
    return clf, made


def _fit_of(clf: Any, X: Any, settings: str, guarantee: Any) -> Fit:
    can = hasattr(clf, "predict_proba")
    return Fit(np.asarray(clf.predict(X)), np.asarray(clf.predict_proba(X)) if can else None, settings, guarantee)


def _words(recipe: Any) -> str:
    """Return a recipe in one line: what was chosen, without the reasons."""
    space = f"{recipe.space} ballots of {recipe.n_components} numbers a class"
    rounds = ", ".join(
        f"{r.share:.2g}" + (f" (clip {r.clip:g}{', of the student' * r.of_student})" if r.clip else "")
        for r in recipe.rounds
    )
    learned = "matched head" + (f", {recipe.student} student" if recipe.student else "")
    return f"{recipe.representation} representation; {space}; shares of mu^2: {rounds}; {learned}"


def records(problem: Problem, budget: Budget, code: str) -> Fit:
    """Nothing said: every record votes."""
    clf, plan = _pate(problem, budget, code)
    return _fit_of(clf, problem.data.test.X, _words(plan.recipe), clf.release_.guarantee)


def records_alone(problem: Problem, budget: Budget, code: str) -> Fit:
    """As records, but nobody learns from the head: all of the budget is its own."""
    data, rep, groups = problem.data, problem.representation(code), problem.data.private.groups
    plan = RecordsPlan.of(
        ReleaseTerms(budget=budget),
        data.public.X,
        classes=problem.classes,
        n_units=len(data.private.y) if groups is None else len(np.unique(np.asarray(groups))),
        unit="record" if groups is None else "group",
        representation=rep,
        kind=problem.kind,
        image_shape=problem.image_shape,
        random_state=problem.seed,
        force=True,
    )
    own = [r for r in plan.recipe.rounds if not r.of_student]
    whole = sum(r.share for r in own)
    rounds = tuple(replace(r, share=r.share / whole) for r in own)
    plan = replace(plan, recipe=replace(plan.recipe, student=None, rounds=rounds), columns=None, table=None)
    labels, model = plan.run(data.private.X, data.private.y, groups=groups)
    return _fit_of(model, data.test.X, _words(plan.recipe), labels.guarantee)


def heads(problem: Problem, budget: Budget, code: str) -> Fit:
    """Small heads on shards, all on the shared public representation."""
    clf, teachers = _pate(problem, budget, code, voters="heads")
    described = f"{teachers.n_teachers} heads, {len(clf.queries_)} queries, {type(clf.student_).__name__}"
    return _fit_of(clf, problem.data.test.X, described, clf.release_.guarantee)


def shards(problem: Problem, budget: Budget, code: str) -> Fit:
    """Name an estimator, and nothing else: shard teachers by pate's rule."""
    clf, teachers = _pate(problem, budget, None, estimator=LogisticRegression(max_iter=200), encoded=True)
    described = (
        f"{teachers.n_teachers} logistic regressions, {len(clf.queries_)} queries, {type(clf.student_).__name__}"
    )
    return _fit_of(clf, problem.encoded.test.X, described, clf.release_.guarantee)


def pate_2018(problem: Problem, budget: Budget, code: str) -> Fit:
    """Take the 2018 paper's recipe: 250 teachers, Confident-GNMax, as many questions as the public budget buys."""
    forest = problem.kind == "mixed"
    threshold, test_noise, noise, answered = _PAPER["adult" if forest else "mnist"]
    mechanism = ConfidentGNMax(threshold=threshold, sigma_threshold=test_noise, sigma=noise)

    def bought(n: int) -> bool:
        return budget.allows(mechanism.charge(n, max(1, round(n * answered))))

    low, high = 0, len(problem.data.public.y_for_evaluation) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bought(middle) else (low, middle)
    if not low:
        raise Refused("the budget does not buy one answer at the paper's noise")
    seed = problem.seed
    teacher = RandomForestClassifier(100, random_state=seed) if forest else LogisticRegression(max_iter=200)
    clf, _ = _pate(
        problem,
        budget,
        None,
        estimator=teacher,
        n_teachers=250,
        mechanism=mechanism,
        queries=Queries(
            low,
            max_answers=max(1, round(low * answered)),
            on_exhausted="abstain",
            select="random",
            force=True,
        ),
        student=RandomForestClassifier(100, random_state=seed) if forest else "label-spreading",
        encoded=True,
    )
    described = (
        f"250 {'random forests' if forest else 'logistic regressions'}, Confident-GNMax({threshold:g}, {test_noise:g}, "
        f"{noise:g}), {low} queries, {'random forest' if forest else 'label spreading'}"
    )
    return _fit_of(clf, problem.encoded.test.X, described, clf.release_.guarantee)


def _dpsgd(problem: Problem, budget: Budget, module: str, data: Dataset, described: str = "", **settings: Any) -> Fit:
    clf = make_dpsgd(module, data, budget, random_state=problem.seed).set_params(**settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(data.private.X, data.private.y, groups=data.private.groups)
    words = f"{module}, {clf.epochs} epochs, batch {clf.expected_batch_size}, rate {clf.learning_rate:g}{described}"
    return _fit_of(clf, data.test.X, words, clf.guarantee_)


def _module(data: Dataset) -> str:
    """Return the module for the rows as they are, by defaults that hold whatever the budget."""
    large = data.image_shape is not None and min(data.image_shape) >= 28
    return "tanh-cnn" if large else "linear"


def dp_sgd(problem: Problem, budget: Budget, code: str) -> Fit:
    """DP-SGD on the rows themselves, by a named module's defaults (recipes: ``dpsgd_recipes.py``)."""
    return _dpsgd(problem, budget, _module(problem.encoded), problem.encoded)


def _represented(problem: Problem, code: str) -> tuple[Dataset, str]:
    """Return the data in the records' representation, centred and scaled by one public number."""
    data = problem.data
    rep = problem.representation(code)

    def blocks(X: Any) -> Any:
        cut = [X.iloc[i : i + 1024] if hasattr(X, "iloc") else X[i : i + 1024] for i in range(0, len(X), 1024)]
        return np.concatenate([np.asarray(rep.transform(part), dtype=np.float32) for part in cut])

    public = blocks(data.public.X)
    centre = public.mean(axis=0)
    unit = float(np.sqrt(((public - centre) ** 2).sum(axis=1).mean())) / _LENGTH
    mapped = replace(
        data,
        private=replace(data.private, X=(blocks(data.private.X) - centre) / unit),
        test=replace(data.test, X=(blocks(data.test.X) - centre) / unit),
    )
    return mapped, f", {public.shape[1]} numbers of the representation"


def dp_sgd_on_representation(problem: Problem, budget: Budget, code: str) -> Fit:
    """Linear DP-SGD on the records' representation."""
    mapped, described = _represented(problem, code)
    return _dpsgd(problem, budget, "linear", mapped, described)


def dp_sgd_best(problem: Problem, budget: Budget, code: str) -> Fit:
    """DP-SGD's best of six settings, chosen on the test rows themselves: an upper bound of what choosing would give."""
    rows, (mapped, described) = problem.encoded, _represented(problem, code)
    fits, groups = [], rows.private.groups
    n = len(rows.private.y) if groups is None else len(np.unique(np.asarray(groups)))
    for module, data, words in ((_module(rows), rows, ""), ("linear", mapped, described)):
        fits.append(_dpsgd(problem, budget, module, data, words))
        for batch, rate in ((n // 2, 0.5), (n, 1.0)):  # large batches, which small budgets ask for
            fits.append(_dpsgd(problem, budget, module, data, words, expected_batch_size=batch, learning_rate=rate))
    return max(fits, key=lambda fit: float(np.mean(fit.labels == problem.data.test.y)))


def without_privacy(problem: Problem, budget: Budget, code: str) -> Fit:
    """Take the records' road at an epsilon that promises nothing."""
    return records(problem, Budget(WITHOUT_PRIVACY, budget.delta), code)


#: By name; ``code`` is the digest of the code that makes representations, by which kept ones are found.
METHODS: dict[str, Callable[[Problem, Budget, str], Fit]] = {
    "records": records,
    "records-head": records_alone,
    "heads": heads,
    "shards": shards,
    "pate-2018": pate_2018,
    "dp-sgd": dp_sgd,
    "dp-sgd-representation": dp_sgd_on_representation,
    "dp-sgd-best": dp_sgd_best,
    "no-privacy": without_privacy,
}
#: Those that know no epsilon: one cell a seed.
WITHOUT_EPSILON = ("no-privacy",)
#: Those that need no representation.
ON_ROWS = ("shards", "pate-2018", "dp-sgd")
#: Refusals that are results.
REFUSALS = (Refused, BudgetExceededError)
