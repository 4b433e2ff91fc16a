"""Faults of the partition, and of steps that read private rows before or beside it: one record moves many teachers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_class_weight
from wall import Mutant
from wall_looks import by_check, by_replay

from pate import Budget, ConfidentGNMax, GNMax, TeacherEnsemble, release_labels
from pate._core.curator import warn_curator
from pate.data.partition import Partition
from pate.data.partition import partition as honest_partition
from pate.teachers._usable import about_labels

TEACHERS, CLASSES, PEOPLE = 20, (0, 1, 2), 130
BUDGET = Budget(50.0, 1e-5)
Data = tuple[Any, ...]
Cut = Callable[[np.ndarray, int], np.ndarray]


def world(seed: int) -> Data:
    """Private rows X, y and their owners; made up."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=400)
    return np.eye(4)[y] * 2 + rng.normal(size=(400, 4)), y, rng.permutation(np.arange(400) % PEOPLE)


def public(seed: int = 999) -> np.ndarray:
    return world(seed)[0][:30]


def another_label(data: Data) -> Data:
    X, y, groups = data
    y = y.copy()
    y[7] = (y[7] + 1) % 3
    return X, y, groups


def thirtyfold(data: Data) -> Data:
    X, y, groups = data
    X = X.copy()
    X[7] *= 30.0
    return X, y, groups


def beyond(data: Data) -> Data:
    """A record has values that no other has."""
    X, y, groups = data
    X = X.copy()
    X[7] = 40.0
    return X, y, groups


def contradiction(data: Data) -> Data:
    """A record stands far out on the side of another class."""
    X, y, groups = data
    X = X.copy()
    X[7] = 2000.0 * np.eye(X.shape[1])[(y[7] + 1) % 3]
    return X, y, groups


def opposite(data: Data) -> Data:
    """A record is replaced by one on the other side, of another class."""
    X, y, groups = data
    X, y = X.copy(), y.copy()
    X[7], y[7] = -X[7], (y[7] + 1) % 3
    return X, y, groups


def another_person(data: Data) -> Data:
    """All records of one person are other ones."""
    X, y, groups = data
    X, theirs = X.copy(), groups == groups[7]
    X[theirs] = -X[theirs]
    return X, y, groups


def shards(
    X: Any, y: Any, groups: Any = None, *, estimator: Any = None, mechanism: Any = None, rows: Any = None,
    classes: Any = CLASSES,
) -> Any:  # fmt: skip
    """The honest pipeline: cut, train, vote, release."""
    teachers = TeacherEnsemble(estimator or GaussianNB(), TEACHERS, classes=classes, random_state=0)
    votes = teachers.fit(X, y, groups=groups).vote(public() if rows is None else rows)
    if callable(mechanism):
        mechanism = mechanism(votes)
    return release_labels(votes, mechanism or GNMax(sigma=20.0), budget=BUDGET)


# ---- what looks at all private rows ----


def scaler_on_all(X, y, groups=None):
    scaler = StandardScaler().fit(X)
    return shards(scaler.transform(X), y, rows=scaler.transform(public()))


def weights_of_all(X, y, groups=None):
    weights = dict(enumerate(compute_class_weight("balanced", classes=np.arange(3), y=y)))
    return shards(X, y, estimator=LogisticRegression(class_weight=weights, max_iter=20, tol=1.0))


def plain_weights(X, y, groups=None):
    return shards(X, y, estimator=LogisticRegression(class_weight="balanced", max_iter=20, tol=1.0))


def _steps(n: int) -> LogisticRegression:
    return LogisticRegression(max_iter=n, tol=1e-9)


def stopped_on_all(X, y, groups=None):
    """As many steps as are best on all private rows, for a linear model of some of them."""
    weights, some, right, losses = np.zeros((X.shape[1], 3)), slice(100, 200), np.arange(len(y)), []
    for _ in range(12):
        odds = np.exp(X[some] @ weights)
        weights -= 0.2 * X[some].T @ (odds / odds.sum(axis=1, keepdims=True) - np.eye(3)[y[some]]) / 100
        scores = X @ weights
        losses.append((np.logaddexp.reduce(scores, axis=1) - scores[right, y]).mean())
    return shards(X, y, estimator=_steps(1 + int(np.argmin(losses))))


def stopped_before(X, y, groups=None):
    return shards(X, y, estimator=_steps(5))


WORDS = ("pain", "cough", "fever", "rash", "none")


def texts(seed: int) -> Data:
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=400)
    lines = [" ".join([*rng.choice(WORDS, 4), WORDS[k]]) for k in y]
    return np.array(lines, dtype=object), y, None


def rare_word(data: Data) -> Data:
    X, y, groups = data
    X = X.copy()
    X[7] += " phlebotomy"
    return X, y, groups


def _reads(vocabulary: Any = None) -> Any:
    return make_pipeline(CountVectorizer(vocabulary=vocabulary), MultinomialNB())


def own_words(X, y, groups=None):
    return shards(X, y, estimator=_reads(), rows=texts(999)[0][:30])


def words_of_all(X, y, groups=None):
    return shards(X, y, estimator=_reads(CountVectorizer().fit(X).vocabulary_), rows=texts(999)[0][:30])


# ---- who goes where ----


@contextmanager
def cut_by(assign: Callable[[int, int, Any], np.ndarray]) -> Iterator[None]:
    """Cut shards by (n_records, n_shards, groups) instead of the secret."""

    def cut(n_records: int, n_shards: int, *, groups: Any = None, **_: Any) -> Partition:
        return Partition(assign(n_records, n_shards, groups), n_shards)

    with patch("pate.teachers._base.partition", cut):
        yield


def stratified(X, y, groups=None):
    def assign(n: int, k: int, _: Any) -> np.ndarray:
        shard = np.empty(n, dtype=np.int64)
        for i, (_, mine) in enumerate(StratifiedKFold(k, shuffle=True, random_state=0).split(X, y)):
            shard[mine] = i
        return shard

    with cut_by(assign):
        return shards(X, y)


def in_sorted_order(X, y, groups=None):
    def assign(n: int, k: int, _: Any) -> np.ndarray:
        shard = np.empty(n, dtype=np.int64)
        shard[np.argsort(X[:, 0], kind="stable")] = np.arange(n) * k // n
        return shard

    with cut_by(assign):
        return shards(X, y)


def persons_split(X, y, groups):
    """The partition gets no groups: a person's records go to several shards."""

    def cut(n: int, k: int, *, groups: Any = None, **key: Any) -> Partition:
        return honest_partition(n, k, **key)

    with patch("pate.teachers._base.partition", cut):
        return shards(X, y, groups)


def whole_persons(X, y, groups):
    return shards(X, y, groups)


def known_cut() -> tuple[str, str]:
    """Fingerprints of two cuts of the same data by a seed that everybody knows."""
    with patch("pate.teachers._base.fresh_secret", lambda: bytes(32)):
        return secret_cut()


def secret_cut() -> tuple[str, str]:
    X, y, _ = world(0)
    fits = [TeacherEnsemble(GaussianNB(), TEACHERS, classes=CLASSES, random_state=0).fit(X, y) for _ in range(2)]
    return fits[0].partition_.fingerprint(), fits[1].partition_.fingerprint()


def _alike(cuts: tuple[str, str]) -> str:
    return "two cuts of the same data are equal: who knows the seed knows the shards" if len({*cuts}) < 2 else ""


# ---- what is chosen after looking at private votes or rows ----


@cache
def _sevenths() -> np.ndarray:
    return np.concatenate([*(world(seed)[0][7:8] for seed in range(100)), public()])


def _neighbour() -> dict[str, Any]:
    """Teachers that say what their nearest record says, asked about private records among others."""
    return {"estimator": KNeighborsClassifier(1), "rows": _sevenths()}


def fixed_threshold(X, y, groups=None):
    return shards(X, y, mechanism=ConfidentGNMax(threshold=14, sigma_threshold=8, sigma=20), **_neighbour())


def tuned_threshold(X, y, groups=None):
    def tuned(votes: Any) -> ConfidentGNMax:
        return ConfidentGNMax(threshold=10 + float(votes.counts.std()), sigma_threshold=8, sigma=20)

    return shards(X, y, mechanism=tuned, **_neighbour())


def fixed_offsets(X, y, groups=None):
    mechanism = ConfidentGNMax(threshold=14, sigma_threshold=8, sigma=20, offsets=np.arange(len(CLASSES)))
    return shards(X, y, mechanism=mechanism, **_neighbour())


def offsets_by_votes(X, y, groups=None):
    """Classes that teachers vote for often get a higher threshold."""

    def tuned(votes: Any) -> ConfidentGNMax:
        return ConfidentGNMax(threshold=14, sigma_threshold=8, sigma=20, offsets=votes.counts.mean(axis=0))

    return shards(X, y, mechanism=tuned, **_neighbour())


def once(seed: int) -> Data:
    """One record alone has the last class."""
    X, y, groups = world(seed)
    y = y % 2
    y[7] = 2
    return X, y, groups


def warns_of_classes(X, y, groups=None):
    warn_curator(about_labels(y, None, CLASSES))
    return shards(X, y)


def acts_on_the_warning(X, y, groups=None):
    """Classes without records, by the curator's warning, are left out of those that were named."""
    warned = warn_curator(about_labels(y, None, CLASSES))
    return shards(X, y, classes=CLASSES[:-1] if warned else CLASSES)


def student_of_release(X, y, groups=None, *, C: float = 1.0):
    release = shards(X, y)
    return release, LogisticRegression(C=C).fit(public(), np.where(release.labels < 0, 0, release.labels))


def student_seen_by_private(X, y, groups=None):
    """The student's C is the best on private rows, and its score there is published."""
    tried = [student_of_release(X, y, C=C)[1] for C in (0.01, 1.0)]
    scores = [student.predict_proba(X)[np.arange(len(y)), y].mean() for student in tried]
    best = int(np.argmax(scores))
    return shards(X, y), tried[best], scores[best]


def _replayed(honest: Any, faulty: Any, make: Any, change: Any, *, people: bool = False) -> dict[str, Any]:
    return {"replay": by_replay(honest, faulty, make, change, people=people)}


ON_ALL = "scripts that prepare the data before they cut it"
MUTANTS = (
    Mutant("a scaler fitted on all private rows", ON_ALL, _replayed(shards, scaler_on_all, world, thirtyfold)),
    Mutant("a vocabulary of all private texts", ON_ALL, _replayed(own_words, words_of_all, texts, rare_word)),
    Mutant(
        "class weights of all private labels", ON_ALL, _replayed(plain_weights, weights_of_all, world, another_label)
    ),
    Mutant(
        "training stopped by all private rows", ON_ALL, _replayed(stopped_before, stopped_on_all, world, contradiction)
    ),
    Mutant(
        "stratified shards", "scikit-learn's splitters used to cut", _replayed(shards, stratified, world, another_label)
    ),
    Mutant(
        "shards cut after sorting",
        "scripts that cut a sorted table in slices",
        _replayed(shards, in_sorted_order, world, opposite),
    ),
    Mutant(
        "a person in two shards",
        "code that cuts by row",
        _replayed(whole_persons, persons_split, world, another_person, people=True),
    ),
    Mutant(
        "a known seed for the shards",
        "scripts that shuffle by seed 0 before they cut",
        {"check": by_check(secret_cut, known_cut, _alike)},
        blind={"replay": "the secret of the shards is held fixed in both runs"},
    ),
    Mutant(
        "a threshold tuned on private votes",
        "notebooks",
        _replayed(fixed_threshold, tuned_threshold, world, another_label),
    ),
    Mutant(
        "offsets by class from private votes",
        "thresholds by class that equalise the rates seen on the votes",
        _replayed(fixed_offsets, offsets_by_votes, world, another_label),
    ),
    Mutant(
        "the curator's warnings change what is released",
        "scripts that mend what they warn of",
        _replayed(warns_of_classes, acts_on_the_warning, once, another_label),
    ),
    Mutant(
        "a student validated on private rows",
        "notebooks",
        _replayed(student_of_release, student_seen_by_private, world, another_label),
    ),
)
