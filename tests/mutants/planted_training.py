"""Faults of training and of ballots: teachers that share something, and records that weigh more than is said."""

from __future__ import annotations

import warnings
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch
from zlib import crc32

import numpy as np
from planted_partition import BUDGET, CLASSES, Data, beyond, opposite, public, shards, thirtyfold, world
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.decomposition import PCA
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from wall import Mutant
from wall_looks import by_check, by_replay, by_sums

from pate import CoordinatedVoter, GNMax, RecordVoters, TeacherEnsemble, TorchTeacherEnsemble, release_labels
from pate.exceptions import InvalidInputError, PateError
from pate.mechanisms import GaussianSum
from pate.models.students._row_by_row import answers_alone
from pate.networks import MLP
from pate.records import HardSpace, SignedSpace, count_right
from pate.records.ballot_sum import GRID
from pate.release import release_ballots


def _sgd() -> SGDClassifier:
    return SGDClassifier("log_loss", max_iter=3, tol=None, alpha=0.01, warm_start=True)


def own_estimators(X, y, groups=None):
    return shards(X, y, estimator=_sgd())


def one_estimator(X, y, groups=None):
    """No clone: every teacher is the one object that was passed, and goes on where the last one stopped."""
    with patch("pate.teachers._ensemble.seeded_clone", lambda estimator, *given: estimator.set_params(random_state=0)):
        return shards(X, y, estimator=_sgd())


class Fails(ClassifierMixin, BaseEstimator):
    """Naive Bayes that does not take numbers beyond 25."""

    def __init__(self, random_state: int = 0) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Fails:
        if np.abs(X).max() > 25:
            raise ValueError("did not converge")
        noise = np.random.default_rng(self.random_state).normal(size=X.shape)
        self.model_ = GaussianNB().fit(X + 0.01 * noise, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X: Any) -> Any:
        return self.model_.predict(X)


def failing_alone(X, y, groups=None):
    return shards(X, y, estimator=Fails())


class StopsAll(TeacherEnsemble):
    """A teacher that fails takes the release with it."""

    def _train_all(self, *args):
        teachers = super()._train_all(*args)
        if self.failed_:
            raise PateError("a teacher could not be trained")
        return teachers


class RetrainsAll(TeacherEnsemble):
    """When a teacher fails, the whole group is trained again with the next seed."""

    def _train_all(self, *args):
        teachers = super()._train_all(*args)
        if self.failed_:
            self._seed += 1
            teachers = super()._train_all(*args)
        return teachers


def _by(ensemble: type[TeacherEnsemble], estimator: Any) -> Any:
    def pipeline(X, y, groups=None):
        teachers = ensemble(estimator, 20, classes=CLASSES, random_state=0)
        return release_labels(teachers.fit(X, y, groups=groups).vote(public()), GNMax(sigma=20.0), budget=BUDGET)

    return pipeline


# ---- votes drawn by a shared race ----


def public_race(X, y, groups=None, *, private=False):
    """Teachers draw their votes by one race, whose seed is public; or follows from what they vote."""
    teachers = TeacherEnsemble(GaussianNB(), 20, classes=CLASSES, random_state=0).fit(X, y, groups=groups)
    seed = crc32(teachers.vote(public()).counts.tobytes()) if private else 7
    votes = CoordinatedVoter(teachers, seed=seed).vote(public())
    return release_labels(votes, GNMax(sigma=20.0), budget=BUDGET)


def private_race(X, y, groups=None):
    return public_race(X, y, groups, private=True)


# ---- torch teachers ----


def people(seed: int) -> Data:
    X, y, groups = world(seed)
    return X.astype(np.float32), y, groups


def one_more_record(data: Data) -> Data:
    """A person has more records than before."""
    X, y, groups = data
    more = np.full(60, 7)
    return np.concatenate([X, X[more]]), np.concatenate([y, y[more]]), np.concatenate([groups, groups[more]])


class Padded(TorchTeacherEnsemble):
    """Shards of a group are filled up to its longest one, by taking their records again."""

    def _train_all(self, X, labels, shards, store, shown):
        longest = max(map(len, shards))
        return super()._train_all(X, labels, [np.resize(s, longest) if len(s) else s for s in shards], store, shown)


class StepsOfTheLongest(TorchTeacherEnsemble):
    """Every teacher takes the steps that the longest shard needs: how many records a person has decides them."""

    def _train_all(self, X, labels, shards, store, shown):
        self._recipe = replace(self._recipe, epochs=None, n_steps=max(map(len, shards)) // 8)
        return super()._train_all(X, labels, shards, store, shown)


def _torch(ensemble: type[TorchTeacherEnsemble]) -> Any:
    def pipeline(X, y, groups=None):
        teachers = ensemble(
            MLP,
            8,
            module_kwargs={"hidden": (4,)},
            classes=CLASSES,
            epochs=1,
            batch_size=8,
            device="cpu",
            random_state=0,
        )
        votes = teachers.fit(X, y, groups=groups).vote(public().astype(np.float32))
        return release_labels(votes, GNMax(sigma=20.0), budget=BUDGET)

    return pipeline


# ---- ballots ----


def cast(X: Any, y: Any, *, rows: Any = None, hard: bool = False) -> Any:
    """The honest sum of ballots; ``rows`` is what the public maps are fitted on."""
    rows = public() if rows is None else rows
    space = HardSpace(n_centres=6, random_state=0) if hard else SignedSpace()
    return RecordVoters(None, space.fit(rows), classes=CLASSES).cast(X, y)


def ballots(X, y, groups=None):
    return release_ballots(cast(X, y), GaussianSum(noise_multiplier=4.0), budget=BUDGET)


@contextmanager
def uncertified():
    """Directions become whole numbers, and their norm is not checked."""
    with patch("pate.records._maps.quantised", lambda phi, kind: np.trunc(phi * GRID).astype(np.int64)):
        yield


class Long(SignedSpace):
    """Rows are not brought to length 1."""

    def _phi(self, z):
        return 3.0 * super()._phi(z)


class TwoCells(HardSpace):
    """A record votes in its two nearest cells, as if cells were disjoint all the same."""

    def _phi(self, z):
        first = super()._phi(z)
        rest = np.where(first > 0, -np.inf, self._similarity(z))
        first[np.arange(len(z)), rest.argmax(axis=1)] = 1.0
        return first


def _voters(space: Any) -> Any:
    return RecordVoters(None, space.fit(public()), classes=CLASSES)


def signed_sum(X, y, groups=None):
    return cast(X, y)


def checked_sum(X, y, groups=None):
    """Labels are looked at all together, and refused all together."""
    if not np.isin(y, CLASSES).all():
        raise InvalidInputError("y holds other classes.")
    return cast(X, y)


def of_no_class(data: Data) -> Data:
    """A record is replaced by one of an unknown class."""
    X, y, groups = data
    y = y.copy()
    y[7] = 99
    return X, y, groups


def _refuses_one_of_two(summed: Any) -> str:
    """Say whether one of two neighbours has a sum and the other has none."""
    made = []
    for data in (world(0), of_no_class(world(0))):
        with warnings.catch_warnings(), suppress(PateError):
            warnings.simplefilter("ignore")
            made.append(summed(*data))
    return "" if len(made) == 2 else "one replaced record decides whether there is a release"


def long_sum(X, y, groups=None):
    with uncertified():
        return _voters(Long()).cast(X, y)


def hard_sum(X, y, groups=None):
    return cast(X, y, hard=True)


def two_cell_sum(X, y, groups=None):
    with uncertified():
        return _voters(TwoCells(n_centres=6, random_state=0)).cast(X, y)


def private_map_sum(X, y, groups=None):
    """Rows are represented by principal components of the private ones."""
    components = PCA(2, whiten=True).fit(X)
    voters = RecordVoters(None, SignedSpace().fit(components.transform(public())), classes=CLASSES)
    return voters.cast(components.transform(X), y)


def public_map_sum(X, y, groups=None):
    components = PCA(2, whiten=True).fit(public())
    voters = RecordVoters(None, SignedSpace().fit(components.transform(public())), classes=CLASSES)
    return voters.cast(components.transform(X), y)


# ---- measured accuracy ----


def centred(rows: Any) -> Any:
    """Rows less the mean of all rows that are handed over with them."""
    return rows - rows.mean(axis=0)


def far_away(data: Data) -> Data:
    X, y, groups = data
    X = X.copy()
    X[7] = 1e4
    return X, y, groups


def right_alone(X, y, groups=None):
    """A student that looks at the whole block is asked row by row: pate does not vouch for it."""
    X_public, y_public, _ = world(999)
    student = make_pipeline(FunctionTransformer(centred), GaussianNB()).fit(X_public, y_public)
    answers = answers_alone(student, X, np.ones(len(X), dtype=bool), n_classes=len(CLASSES), keep_places=True)
    return count_right(answers, y, classes=CLASSES)


def right_in_blocks(X, y, groups=None):
    """It is vouched for as code that takes each row by itself, and asked block by block."""
    with patch("pate.models.students._row_by_row.is_known_throughout", lambda student: True):
        return right_alone(X, y)


def _released(summed: Any) -> Any:
    def pipeline(X, y, groups=None):
        return release_ballots(summed(X, y), GaussianSum(noise_multiplier=4.0), budget=BUDGET)

    return pipeline


def _ballots(honest: Any, faulty: Any, change: Any = opposite) -> dict[str, Any]:
    return {
        "pair": by_sums(honest, faulty, world, change),
        "replay": by_replay(_released(honest), _released(faulty), world, change),
    }


MUTANTS = (
    Mutant(
        "one module object shared by all teachers",
        "loops that fit one object again and again",
        {"replay": by_replay(own_estimators, one_estimator, world, thirtyfold)},
    ),
    Mutant(
        "a failing teacher that stops the release",
        "loops over teachers without a plan for failures",
        {"replay": by_replay(failing_alone, _by(StopsAll, Fails()), world, beyond)},
    ),
    Mutant(
        "a group of torch teachers padded to its longest shard",
        "batched training of many small networks",
        {"replay": by_replay(_torch(TorchTeacherEnsemble), _torch(Padded), people, one_more_record, people=True)},
    ),
    Mutant(
        "teachers whose number of steps is that of the longest shard",
        "steps in place of epochs, counted after the cut",
        {
            "replay": by_replay(
                _torch(TorchTeacherEnsemble), _torch(StepsOfTheLongest), people, one_more_record, people=True
            )
        },
    ),
    Mutant(
        "a group of teachers retrained when one fails",
        "retries around a whole batch of jobs",
        {"replay": by_replay(failing_alone, _by(RetrainsAll, Fails()), world, beyond)},
    ),
    Mutant(
        "a shared race of votes, seeded by what the teachers answered",
        "sampling seeds that are hashes of the whole request",
        {"replay": by_replay(public_race, private_race, world, thirtyfold)},
    ),
    Mutant(
        "one record's oddity that decides whether there is a release",
        "readers and estimators that check a column as a whole",
        {"check": by_check(lambda: signed_sum, lambda: checked_sum, _refuses_one_of_two)},
    ),
    Mutant("a ballot beyond its norm", "embeddings that are taken for unit vectors", _ballots(signed_sum, long_sum)),
    Mutant(
        "a record counted in two cells of a parallel composition",
        "nearest-neighbour votes charged as a histogram",
        _ballots(hard_sum, two_cell_sum),
    ),
    Mutant(
        "a representation fitted on private rows",
        "embeddings trained on all data",
        _ballots(public_map_sum, private_map_sum, thirtyfold),
    ),
    Mutant(
        "a student that looks at all rows it is asked about vouched for as one that takes each by itself",
        "pipelines that standardise whatever they are handed at prediction",
        {"pair": by_sums(right_alone, right_in_blocks, world, far_away)},
    ),
)
