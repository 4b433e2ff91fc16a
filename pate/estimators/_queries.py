"""Which public rows a classifier asks about: ``queries=`` of :class:`pate.PATEClassifier`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

from pate._core.checks import check_choice, check_int, check_real, shown
from pate._core.moved import Former
from pate.data.queries import STRATEGIES
from pate.exceptions import InvalidInputError, PateError
from pate.release import ON_EXHAUSTED


@dataclass(frozen=True)
class Queries:
    """Which public rows teachers are asked about, and what to do when the budget pays for fewer.

    Parameters
    ----------
    n : int or None
        How many public rows to ask about. None: all of them if a mechanism is given, else as many as keep the
        calibrated noise at or below 0.3 votes per teacher, but at least ten and at least one for each class.
    select : {"auto", "random", "first", "spread", "cluster"}
        How those rows are chosen, from public information alone; see :func:`pate.data.queries.select_queries`.
    gap : float or None
        Abstain where the noisy lead is below ``gap`` votes (:class:`pate.NoisyHistogram` only); None means 0.
    max_answers : int or None
        Cap on answers for mechanisms that may refuse; None takes the most the budget allows.
    on_exhausted : {"raise", "abstain"}
        What to do when the budget does not pay for all queries: raise, or answer the first ones and abstain on the
        rest.
    force : bool
        Go on with a setting that can be expected to give nearly useless labels (:func:`pate.release.check_useful`),
        which is refused otherwise. It also holds where records vote.

    Raises
    ------
    InvalidInputError
        One of them is out of range.

    Examples
    --------
    >>> Queries(300, select="random").n
    300
    >>> Queries.of(300) == Queries(300), Queries.of(None) == Queries()
    (True, True)
    """

    n: int | None = None
    _: KW_ONLY
    select: str = "auto"
    gap: float | None = None
    max_answers: int | None = None
    on_exhausted: str = "raise"
    force: bool = False

    def __post_init__(self) -> None:
        for name in ("n", "max_answers"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check_int(f"queries.{name}", value, low=1))
        if self.gap is not None:
            check_real("queries.gap", self.gap, low=0)
        check_choice("queries.select", self.select, STRATEGIES)
        check_choice("queries.on_exhausted", self.on_exhausted, ON_EXHAUSTED)

    @classmethod
    def of(cls, queries: Any) -> Self:
        """Return the queries for a value of ``queries=``: itself, a number of rows, or None for the defaults.

        Raises
        ------
        InvalidInputError
            It is none of these.
        """
        if isinstance(queries, cls):
            return queries
        try:
            return cls(queries)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"queries must be a number of public rows, from 1 on, pate.Queries(...) or None, got {shown(queries)}."
            ) from error

    def of_shards(self) -> dict[str, Any]:
        """Return those settings that are only for teachers on shards; None if there are none."""
        return {f"queries.{name}": getattr(self, name) for name in ("n", "gap", "max_answers")}


#: What errors call it that jobs may meet as well, and what every estimator calls it.
OF_ESTIMATORS = {"overlap_is_public=True (--overlap-is-public)": "stated={'overlap is public': 'yes'}"}
#: Likewise, and what a classifier calls it that asks teachers.
_HERE = {
    "n_queries": "queries",
    "on_exhausted='abstain'": "queries=Queries(on_exhausted='abstain')",
    "force=True (--force)": "queries=Queries(force=True)",
    **OF_ESTIMATORS,
}


@contextmanager
def in_own_words(words: Mapping[str, str] = _HERE) -> Iterator[None]:
    """Have errors name the parameters of an estimator, where those of jobs are others."""
    try:
        yield
    except PateError as error:
        if error.args and isinstance(text := error.args[0], str):
            for job, here in words.items():
                text = text.replace(job, here)
            error.args = (text, *error.args[1:])
        raise


def former_part(name: str) -> Former:
    """Return what became of a parameter that is now a part of ``queries``."""
    return Former(
        f"queries=Queries({name}=...)",
        "queries",
        put=lambda queries, value: replace(Queries.of(queries), **{name: value}),
        get=lambda queries: getattr(Queries.of(queries), name),
    )
