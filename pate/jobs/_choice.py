"""Which public rows a job asks about, round by round: from public information alone, so the choice costs nothing."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_choice, check_int
from pate.core.secret import training_seed
from pate.exceptions import InvalidInputError, StudentError, StudentWarning
from pate.queries import STRATEGIES, least_sure, select_queries
from pate.students import check_is_student, fit_student, make_student, try_student
from pate.votes import ABSTAIN

#: Strategies by name.
CHOICES = (*STRATEGIES, "uncertain")
#: A round looks at so many unsure rows per question, and spreads its questions over them.
_POOL = 5
_CHUNK = 50_000


def take(rows: Any, positions: npt.NDArray[np.int64]) -> Any:
    """Return some rows of an array or a table."""
    return rows.iloc[positions] if hasattr(rows, "iloc") else rows[positions]


@runtime_checkable
class QueryChoice(Protocol):
    """Whoever chooses public rows to ask about; a plug-in of :class:`pate.jobs.LabelJob`.

    It is shown public rows and released labels, and nothing else: a choice made from them is post-processing.

    Examples
    --------
    >>> class Last:
    ...     def rounds(self, n_queries):
    ...         return (n_queries,)
    ...     def choose(self, rows, n_queries, *, labels, open_rows, random_state):
    ...         return open_rows[-n_queries:]
    >>> isinstance(Last(), QueryChoice)
    True
    """

    def rounds(self, n_queries: int) -> Sequence[int]:
        """Return how many rows each round asks about; they add up to ``n_queries``."""
        ...

    def choose(
        self,
        rows: Any,
        n_queries: int,
        *,
        labels: npt.NDArray[np.int64],
        open_rows: npt.NDArray[np.int64],
        random_state: int | None,
    ) -> npt.NDArray[np.int64]:
        """Return at most ``n_queries`` of ``open_rows``.

        Parameters
        ----------
        rows : array or DataFrame of shape (n_public, n_features)
        n_queries : int
        labels : int64 array of shape (n_public,)
            Class indices released so far, ``ABSTAIN`` (-1) where there is none.
        open_rows : int64 array
            Positions of the rows not asked about yet, ascending.
        random_state : int or None
        """
        ...


class OneRound:
    """All rows at once, by a strategy of :func:`pate.queries.select_queries`.

    Examples
    --------
    >>> rows, labels = np.zeros((5, 1)), np.full(5, ABSTAIN)
    >>> OneRound("first").choose(rows, 2, labels=labels, open_rows=np.arange(5), random_state=0)
    array([0, 1])
    """

    def __init__(self, strategy: str = "random") -> None:
        self.strategy = check_choice("strategy", strategy, STRATEGIES)

    def rounds(self, n_queries: int) -> tuple[int, ...]:
        """Return one round."""
        return (n_queries,)

    def choose(
        self,
        rows: Any,
        n_queries: int,
        *,
        labels: npt.NDArray[np.int64],
        open_rows: npt.NDArray[np.int64],
        random_state: int | None,
    ) -> npt.NDArray[np.int64]:
        """Return the strategy's rows; labels are not looked at."""
        some = rows if len(open_rows) == np.shape(rows)[0] else take(rows, open_rows)
        return open_rows[select_queries(some, n_queries, strategy=self.strategy, random_state=random_state)]


class Uncertain:
    """A student learns from the labels so far, and the next round asks where it is least sure.

    The first round has half of the questions and spreads them over all rows by clustering: a student of a handful of
    labels does not know where it is unsure. Each later round takes the rows where the student's two likeliest classes
    are nearest to each other (margin sampling; Settles 2009, Section 3.1), and of five times as many as it needs it
    asks those that are spread best. Where the student cannot learn from the labels so far, the round is spread over all
    open rows, with a warning.

    Parameters
    ----------
    student : str or scikit-learn classifier
        With ``predict_proba``. Only ever fitted on released labels and public rows.
    n_rounds : int
        At least 2.

    Examples
    --------
    >>> rows = np.linspace(0, 1, 101).reshape(-1, 1)
    >>> labels = np.full(101, ABSTAIN)
    >>> labels[[0, 10, 90, 100]] = [0, 0, 1, 1]
    >>> asked = Uncertain().choose(rows, 3, labels=labels, open_rows=np.flatnonzero(labels == ABSTAIN), random_state=0)
    >>> bool((abs(rows[asked] - 0.5) < 0.1).all())
    True
    """

    def __init__(self, student: Any = "logistic-regression", *, n_rounds: int = 5) -> None:
        self.student = make_student(student)
        check_is_student(self.student)
        if not hasattr(self.student, "predict_proba"):
            raise InvalidInputError(
                f"student must have predict_proba to say how sure it is, got {self.student!r}. Use "
                "logistic-regression, random-forest, ..."
            )
        self.n_rounds = check_int("n_rounds", n_rounds, low=2, remedy="One round is what the other strategies do.")

    def rounds(self, n_queries: int) -> tuple[int, ...]:
        """Return half of the questions, and the other half in equal parts.

        Examples
        --------
        >>> Uncertain(n_rounds=4).rounds(20)
        (10, 4, 3, 3)
        """
        rest = n_queries // 2
        parts = np.array_split(np.arange(rest), min(self.n_rounds - 1, rest)) if rest else []
        return (n_queries - rest, *(len(part) for part in parts))

    def try_out(self, rows: Any, n_queries: int, n_classes: int) -> None:
        """Refuse, before anything is paid for, a student that could not learn from the first round's labels."""
        first = self.rounds(n_queries)[0]
        queries = np.arange(min(first, np.shape(rows)[0]))
        try_student(self.student, rows, n_classes=n_classes, queries=queries, n_answers=len(queries))

    def choose(
        self,
        rows: Any,
        n_queries: int,
        *,
        labels: npt.NDArray[np.int64],
        open_rows: npt.NDArray[np.int64],
        random_state: int | None,
    ) -> npt.NDArray[np.int64]:
        """Return the rows where the student is least sure, spread out."""
        answered = np.flatnonzero(labels != ABSTAIN)
        student = None
        if len(np.unique(labels[answered])) > 1:  # else there is nothing to be sure of yet
            try:
                seed = training_seed(random_state, 0x57D)
                student = fit_student(self.student, take(rows, answered), labels[answered], random_state=seed)
            except StudentError as error:  # every round is paid for: they are asked in any case
                warnings.warn(f"{error} This round's rows are spread over all open ones.", StudentWarning, stacklevel=2)
        if student is None:
            return OneRound("cluster").choose(
                rows, n_queries, labels=labels, open_rows=open_rows, random_state=random_state
            )
        sure = [
            student.predict_proba(take(rows, open_rows[start : start + _CHUNK]))
            for start in range(0, len(open_rows), _CHUNK)
        ]
        pool = open_rows[least_sure(np.concatenate(sure), min(len(open_rows), _POOL * n_queries))]
        return pool[select_queries(take(rows, pool), n_queries, strategy="cluster", random_state=random_state)]


def make_choice(select: Any, *, rounds: int | None = None, student: Any = None) -> QueryChoice:
    """Return a choice by name; one that has ``choose`` is returned as it is.

    Parameters
    ----------
    select : str or QueryChoice
        One of :data:`CHOICES`.
    rounds : int or None
        For ``"uncertain"``; None takes its own number.
    student : str, classifier or None
        Likewise.

    Examples
    --------
    >>> make_choice("uncertain", rounds=3).rounds(8)
    (4, 2, 2)
    >>> make_choice("best")
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: select must be one of 'auto', 'first', 'random', 'spread', 'cluster', ...
    """
    if not isinstance(select, str) and isinstance(select, QueryChoice):
        chosen = select
    else:
        name = check_choice("select", select, CHOICES)
        if name == "uncertain":
            more = {} if rounds is None else {"n_rounds": rounds}
            return Uncertain(*(() if student is None else (student,)), **more)
        chosen = OneRound(name)
    if rounds is not None or student is not None:
        raise InvalidInputError(
            f"rounds and student are for select='uncertain', got select={select!r}. Leave them out."
        )
    return chosen
