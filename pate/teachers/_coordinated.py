"""Teachers that answer with probabilities draw votes with shared public random numbers, so that similar ones agree."""

from __future__ import annotations

import hashlib
import threading
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pate._core.checks import check_classes, check_int
from pate._core.secret import global_generators, training_seed
from pate._core.types import FloatArray
from pate.exceptions import InvalidInputError
from pate.teachers._base import ShardEnsemble
from pate.teachers._callables import CallableTeachers
from pate.votes import Votes

#: How far from one the sum of a row of probabilities may be: single precision, and nothing more.
_ROUNDING = 1e-3
#: Rows that a fitted classifier is asked about together.
_ROWS = 1024


def public_race(seed: int, digest: str, n_classes: int) -> FloatArray:
    """Return the logarithms of E_1, E_2, ..., independent and exponential: public, one race for all teachers.

    They follow from the seed and the row's digest alone (SHAKE-256), the same on every machine up to a last bit.

    Parameters
    ----------
    seed : int
        Public.
    digest : str
        Of the public row, as :func:`pate.votes.hash_queries` gives it.
    n_classes : int

    Examples
    --------
    >>> public_race(7, "ab12", 3).round(4).tolist()
    [0.7511, -3.8276, -1.0069]
    """
    held = hashlib.shake_256(f"pate public race\0{seed}\0{digest}".encode()).digest(8 * n_classes)
    # 52 bits and a half: neither 0 nor 1, and exactly a float.
    uniform = ((np.frombuffer(held, dtype="<u8") >> np.uint64(12)) + 0.5) * 2.0**-52
    return np.asarray(np.log(-np.log(uniform)), dtype=np.float64)


class CoordinatedVoter(CallableTeachers):
    """Draw votes from teachers' probabilities with shared public random numbers, so that similar teachers agree.

    Use it for questions with many right answers: the next word of a text, a field of a synthetic record. If every
    teacher votes for its most probable class, the answer is always the same one. If each draws independently, votes
    scatter and the noise decides. Here each vote has its teacher's own distribution, and teachers with similar
    distributions mostly draw the same class.

    Parameters
    ----------
    teachers : list of callables or of fitted classifiers, or a fitted TeacherEnsemble
        One for each shard. A callable answers ``rows`` (at most ``batch_size``, as in :class:`CallableTeachers`) with
        probabilities, shape (n_rows, n_classes), in the order of ``classes``. Of a classifier ``predict_proba`` is
        asked, and its columns are known by its ``classes_``; a class that its shard lacks has probability 0.
    seed : int or None
        Seed of the races: **public**, in every statement, and fixed without a look at private data. None draws one
        from the operating system. One row under one seed keeps its votes: for another text from one prompt take
        another seed.
    classes : iterable or None
        Every class that could occur, such as a vocabulary: **public** knowledge. An ensemble brings its own.
    checkpoint_dir, checkpoint_key
        As in :class:`CallableTeachers`; ``seed`` must be given with them. Votes are kept, not probabilities: under
        another seed teachers are asked again.
    **options
        ``unit``, ``n_units`` (of an ensemble its own), ``batch_size``, ``n_retries``, ``retry_wait``, ``n_jobs`` and
        ``verbose``, as in :class:`CallableTeachers`. Classifiers run one at a time, and are not tried again unless
        ``n_retries`` says so.

    Attributes
    ----------
    seed : int
    classes_ : tuple
    n_teachers : int
    failed_in_vote_ : dict of int -> str
        **Sensitive.**

    Raises
    ------
    InvalidInputError
        An ensemble whose classifier has no ``predict_proba``; ``checkpoint_dir`` without ``seed``; what
        :class:`CallableTeachers` refuses.
    sklearn.exceptions.NotFittedError
        An ensemble that is not fitted.

    Notes
    -----
    **The race** (Hot PATE: Cohen et al., ICLR 2026). For every row public E_1, E_2, ... ~ Exp(1), independent, are
    drawn; teacher t votes for the j with the least E_j / p_t(j), the first one of equals. E_j / p_t(j) is exponential
    of rate p_t(j), so that the vote's law is exactly p_t. Two teachers with p and q agree with probability
    sum_j 1 / sum_i max(p_i/p_j, q_i/q_j), over j with p_j, q_j > 0 (Moulton and Jiang 2018). As the inner sum is at
    most (1 + TV) / min(p_j, q_j), that is at least (1 - TV) / (1 + TV), TV their total variation distance.

    **Guarantees.** Given E, a vote is a function of its teacher's shard, and a replaced unit moves one vote a query, as
    in :class:`CallableTeachers`. E is independent of the data, so a cost that holds for every E holds for both
    together: E may be published, and the mechanism's cost is unchanged. Votes under many seeds are many queries.

    A row of answers with a number that is not finite or is negative, or that does not sum to 1 within 0.001, is a
    failed call: it is tried again, and a teacher that keeps failing votes for its fixed class
    (:meth:`CallableTeachers.vote`). No number is quoted.

    Examples
    --------
    >>> words = ("tea", "coffee", "water", "milk")
    >>> def teacher_of(shard):
    ...     odds = np.array([1 + shard.count(word) for word in words]) / (4 + len(shard))
    ...     return lambda prompts: [odds] * len(prompts)
    >>> shards = [
    ...     ["tea", "coffee", "water", "tea"],
    ...     ["coffee", "tea", "water", "water"],
    ...     ["tea", "tea", "coffee"],
    ... ]
    >>> teachers = CoordinatedVoter(
    ...     [teacher_of(s) for s in shards], seed=7, classes=words, n_units=11
    ... )
    >>> votes = teachers.vote(["she drank", "they ordered", "a cup of"])
    >>> votes.counts.tolist(), votes.races
    ([[0, 0, 3, 0], [0, 0, 0, 3], [3, 0, 0, 0]], (7,))
    """

    def __init__(
        self,
        teachers: Sequence[Any] | ShardEnsemble,
        *,
        seed: int | None = None,
        classes: Any = None,
        checkpoint_dir: Any = None,
        checkpoint_key: str | None = None,
        **options: Any,
    ) -> None:
        if seed is None and checkpoint_dir is not None:
            raise InvalidInputError(
                "seed must be given with checkpoint_dir, got None: another one would be drawn next time, and every row "
                "asked again. Any number that was fixed without a look at private data will do."
            )
        self.seed = training_seed(None) if seed is None else check_int("seed", seed, low=0, remedy="It is public.")
        self._ensemble = teachers if isinstance(teachers, ShardEnsemble) else None
        if isinstance(teachers, ShardEnsemble):
            _check_ensemble(teachers, [*options, *(["classes"] if classes is not None else [])])
            cut, classes, models = teachers.partition_, teachers.classes_, teachers.teachers_
            places: Sequence[Any] = range(len(classes))  # its classifiers were fitted on these
            given: list[Any] = [_Untrained() if model is None else model for model in models]
            options |= {"unit": cut.unit, "n_units": cut.n_units}
        else:
            classes = places = check_classes(classes)
            given = list(map(_classifier_of, teachers)) if isinstance(teachers, list | tuple) else []
        fitted = [hasattr(one, "predict_proba") for one in given]
        if not given or not all(known or callable(one) for known, one in zip(fitted, given, strict=True)):
            raise InvalidInputError(
                "teachers must be a list of functions or of fitted classifiers with predict_proba, one per shard, or a "
                f"fitted TeacherEnsemble, got a {type(teachers).__name__} that is not."
            )
        place = {value: i for i, value in enumerate(places)}
        functions = [partial(_asked, one, place) if known else one for known, one in zip(fitted, given, strict=True)]
        if all(fitted):  # nothing to wait for
            options = {"batch_size": _ROWS, "n_retries": 0} | options
        if isinstance(checkpoint_key, str) and checkpoint_key.strip():
            checkpoint_key = f"public race {self.seed}: {checkpoint_key}"
        super().__init__(
            functions, classes=classes, checkpoint_dir=checkpoint_dir, checkpoint_key=checkpoint_key, **options
        )

    def __repr__(self) -> str:
        return f"CoordinatedVoter(n_teachers={self.n_teachers}, n_classes={len(self.classes_)}, seed={self.seed})"

    def vote(self, X: Any, *, keep_labels: bool = True) -> Votes:
        """Ask every teacher about public rows that it has not answered yet: see :meth:`CallableTeachers.vote`.

        A row's digest in ``votes.query_hashes`` tells the seed as well: under another seed it is another query.

        Examples
        --------
        >>> teachers = [
        ...     lambda rows: [[0.5, 0.5]] * len(rows),
        ...     lambda rows: [[0.5, 0.5]] * len(rows),
        ... ]
        >>> CoordinatedVoter(teachers, seed=2, classes=("no", "yes")).vote(
        ...     [[1.0], [2.0], [3.0]]
        ... ).counts.tolist()
        [[0, 2], [2, 0], [2, 0]]
        """
        facts: dict[str, Any] = {"races": (self.seed,)}
        if self._ensemble is not None:
            X, _ = self._ensemble._public_rows(X)
            for name in ("classes_inferred", "fingerprint", "partition_seeded"):
                facts[name] = getattr(self._ensemble, f"_{name}")
        votes = super().vote(X, keep_labels=keep_labels)
        hashes = (hashlib.sha256(f"public race {self.seed} {h}".encode()) for h in votes.query_hashes or ())
        return replace(votes, query_hashes=tuple(h.hexdigest() for h in hashes), **facts)

    def _labels(self, answers: Any, hashes: Sequence[str]) -> tuple[list[int] | None, str]:
        odds, shape = np.asarray(answers), (len(hashes), len(self.classes_))
        if odds.shape != shape or odds.dtype.kind not in "biuf":
            return None, "its function did not return one probability per row and class"
        odds = odds.astype(np.float64)
        if not (np.isfinite(odds).all() and (odds >= 0).all() and (abs(odds.sum(axis=1) - 1) <= _ROUNDING).all()):
            return None, "its function returned rows that are no probabilities"
        times = np.array([public_race(self.seed, digest, shape[1]) for digest in hashes])
        with np.errstate(divide="ignore"):  # log 0: a class that is never first
            return (times - np.log(odds)).argmin(axis=1).tolist(), ""


def _classifier_of(given: Any) -> Any:
    """Return what ``model.predict_proba`` belongs to: its columns are the model's own classes, in their order."""
    return given.__self__ if getattr(given, "__name__", "") == "predict_proba" and hasattr(given, "__self__") else given


class _Untrained:
    """In the place of a teacher that could not be trained: it fails, and votes as it does in its ensemble."""

    def predict_proba(self, X: Any) -> Any:
        raise NotImplementedError


#: Classifiers run one at a time: warnings and generators are the whole process's.
_ALONE = threading.Lock()


def _asked(model: Any, place: dict[Any, int], rows: Any) -> FloatArray:
    """Return a fitted classifier's probabilities by place: columns in the order of ``place``."""
    rows = np.array(rows, dtype=object) if isinstance(rows, list) else rows
    with _ALONE, warnings.catch_warnings(), global_generators():
        warnings.simplefilter("ignore")  # they may quote private values
        said = np.asarray(model.predict_proba(rows))
        columns = [place[value] for value in np.asarray(model.classes_).tolist()]
    odds = np.zeros((len(said), len(place)))
    odds[:, columns] = said
    return odds


def _check_ensemble(ensemble: Any, said: Sequence[str]) -> None:
    if not hasattr(getattr(ensemble, "estimator", None), "predict_proba"):
        raise InvalidInputError(
            f"teachers must answer with probabilities, got a {type(ensemble).__name__} that has none. Take a "
            "TeacherEnsemble of a classifier with predict_proba, or functions."
        )
    check_is_fitted(ensemble, "teachers_")
    for name in ("classes", "unit", "n_units"):
        if name in said:
            raise InvalidInputError(f"{name} is the ensemble's own, and must not be given again. Leave it out.")
