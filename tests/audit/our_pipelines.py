"""Small pipelines from private rows to releases, each a function of (X, y, groups), for replay."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from pate import (
    Budget,
    CallableTeachers,
    ConfidentGNMax,
    CoordinatedVoter,
    GNMax,
    HeadTeacherEnsemble,
    LNMax,
    NoisyHistogram,
    PATEClassifier,
    RecordVoters,
    TeacherEnsemble,
    TorchTeacherEnsemble,
    VoteCap,
    open_session,
    release_labels,
)
from pate.dpsgd import DPSGDClassifier
from pate.mechanisms import GaussianSum
from pate.networks import MLP
from pate.records import HardSpace, SignedSpace, SoftSpace
from pate.release import label_interactively, open_vote_cap, release_ballots

TEACHERS, CLASSES, RECORDS, PEOPLE = 12, (0, 1, 2), 240, 80
BUDGET = Budget(50.0, 1e-5)
Pipeline = Callable[[Any, Any, Any], Any]


def world(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Made-up rows, labels and owners."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=RECORDS)
    X = np.eye(5)[y] * 2 + rng.normal(size=(RECORDS, 5))
    return X.astype(np.float32), y, rng.permutation(np.arange(RECORDS) % PEOPLE)


PUBLIC = world(999)[0][:25]


def _voted(teachers: Any, X: Any, y: Any, groups: Any, mechanism: Any = None) -> Any:
    votes = teachers.fit(X, y, groups=groups).vote(PUBLIC)
    return release_labels(votes, mechanism or GNMax(sigma=20.0), budget=BUDGET)


def linear(X, y, groups=None):
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=30, tol=0.1))
    return _voted(TeacherEnsemble(model, TEACHERS, classes=CLASSES, random_state=0), X, y, groups)


def trees(X, y, groups=None):
    mechanism = ConfidentGNMax(threshold=8, sigma_threshold=8, sigma=20)
    return _voted(
        TeacherEnsemble(DecisionTreeClassifier(), TEACHERS, classes=CLASSES, random_state=0), X, y, groups, mechanism
    )


def torch_teachers(X, y, groups=None):
    teachers = TorchTeacherEnsemble(
        MLP, 6, module_kwargs={"hidden": (4,)}, classes=CLASSES, epochs=1, batch_size=8, device="cpu", random_state=0
    )
    return _voted(teachers, X, y, groups, LNMax(scale=10.0))


def head_teachers(X, y, groups=None):
    scaler = StandardScaler().fit(PUBLIC)
    return _voted(
        HeadTeacherEnsemble(scaler, TEACHERS, classes=CLASSES, random_state=0), X, y, groups, NoisyHistogram(sigma=20.0)
    )


def coordinated(X, y, groups=None):
    teachers = TeacherEnsemble(GaussianNB(), TEACHERS, classes=CLASSES, random_state=0).fit(X, y, groups=groups)
    return release_labels(CoordinatedVoter(teachers).vote(PUBLIC), NoisyHistogram(sigma=20.0), budget=BUDGET)


def own_functions(X, y, groups=None):
    """Functions of one shard each, cut by place."""

    def says(rows: Any, labels: Any) -> Callable[[Any], list[int]]:
        common = int(np.bincount(labels, minlength=3).argmax())
        return lambda asked: [common] * len(asked)

    shards = [says(X[i::TEACHERS], y[i::TEACHERS]) for i in range(TEACHERS)]
    votes = CallableTeachers(shards, classes=CLASSES).vote(PUBLIC)
    return release_labels(votes, GNMax(sigma=20.0), budget=BUDGET)


def adaptive_session(X, y, groups=None):
    teachers = TeacherEnsemble(DecisionTreeClassifier(), TEACHERS, classes=CLASSES, random_state=0).fit(
        X, y, groups=groups
    )
    facts = {"n_teachers": TEACHERS, "classes": CLASSES, "unit": teachers.partition_.unit}
    session = open_session(GNMax(sigma=20.0), n_queries=20, budget=BUDGET, **facts)
    first = session.ask(teachers.vote(PUBLIC[:10]))
    later = PUBLIC[10:20] if int(first.labels[0]) else PUBLIC[15:25]
    return first, session.ask(teachers.vote(later))


def interactive_session(X, y, groups=None):
    """Interactive-GNMax: a public student of earlier answers gives the offsets of the next round."""
    teachers = TeacherEnsemble(DecisionTreeClassifier(max_depth=4), TEACHERS, classes=CLASSES, random_state=0)
    votes = teachers.fit(X, y, groups=groups).vote(PUBLIC)
    facts = {name: getattr(votes, name) for name in ("n_teachers", "classes", "unit", "n_units")}
    session = open_session(ConfidentGNMax(8.0, 4.0, 3.0), n_queries=25, budget=BUDGET, **facts)

    def learn(labels):
        means = [PUBLIC[labels == j].mean(axis=0) if (labels == j).any() else PUBLIC.mean(axis=0) for j in CLASSES]
        near = np.exp(-((PUBLIC[:, None] - np.array(means)) ** 2).sum(axis=2))
        return near / near.sum(axis=1, keepdims=True)

    return label_interactively(session, votes, learn, n_rounds=3)


def capped_votes(X, y, groups=None):
    teachers = TeacherEnsemble(DecisionTreeClassifier(), TEACHERS, classes=CLASSES, random_state=0).fit(
        X, y, groups=groups
    )
    run = open_vote_cap(VoteCap(max_votes=5, sigma=20.0), n_teachers=TEACHERS, classes=CLASSES, budget=BUDGET)
    return run.ask(teachers.vote(PUBLIC).labels)


def _ballots(space: Any, X: Any, y: Any, groups: Any) -> Any:
    ballots = RecordVoters(None, space.fit(PUBLIC), classes=CLASSES).cast(X, y, groups=groups)
    return release_ballots(ballots, GaussianSum(noise_multiplier=4.0), budget=BUDGET)


def soft_ballots(X, y, groups=None):
    return _ballots(SoftSpace(n_centres=6, k=3, random_state=0), X, y, groups)


def hard_ballots(X, y, groups=None):
    return _ballots(HardSpace(n_centres=6, random_state=0), X, y, groups)


def signed_ballots(X, y, groups=None):
    return _ballots(SignedSpace(), X, y, groups)


def classifier_by_shards(X, y, groups=None):
    made = PATEClassifier(
        LogisticRegression(max_iter=30, tol=0.1), n_teachers=TEACHERS, budget=BUDGET, classes=CLASSES, random_state=0
    )
    return made.fit(X, y, groups=groups, X_public=PUBLIC).release_


def classifier_by_records(X, y, groups=None):
    made = PATEClassifier(budget=BUDGET, classes=CLASSES, voters="records", random_state=0)
    return made.fit(X, y, groups=groups, X_public=PUBLIC).predict(PUBLIC)


def private_training(X, y, groups=None):
    made = DPSGDClassifier(
        partial(MLP, hidden=(4,)),
        budget=Budget(3.0, 1e-5),
        classes=CLASSES,
        epochs=2,
        expected_batch_size=60,
        random_state=0,
    )
    return made.fit(X, y, groups=groups).predict_proba(PUBLIC)


PIPELINES: tuple[Pipeline, ...] = (
    linear, trees, torch_teachers, head_teachers, coordinated, adaptive_session, interactive_session, capped_votes,
    soft_ballots,
    hard_ballots, signed_ballots, classifier_by_shards, classifier_by_records, private_training,
)  # fmt: skip
#: Those that know no persons.
BY_RECORD_ALONE: tuple[Pipeline, ...] = (own_functions,)
