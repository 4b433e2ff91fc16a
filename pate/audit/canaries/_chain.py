"""The chain pair <= data-dependent <= public, on one canary after the other."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pate.audit.canaries._voters import CANARIES, QUERIES, Asked, OfRecords, OfShards
from pate.audit.pair import bounds_picture, laws_of, pair, some_places
from pate.core.checks import check_choice, check_int
from pate.estimator import PATEClassifier
from pate.exceptions import InvalidInputError, PateError, PrivacyParameterWarning
from pate.privacy.convert import check_delta
from pate.records import BallotSum, RecordVoters
from pate.report.audit_result import AuditResult, Figure, Picture
from pate.studies.account import account
from pate.teachers import ShardEnsemble
from pate.votes import Votes

#: Rounding that is granted to an inequality.
_MARGIN = 1e-9


@dataclass(frozen=True)
class Bounds:
    """What one canary gave: the pair's result, the bound at D, the public one."""

    record: int
    votes: Votes | BallotSum = field(repr=False)
    prime: Votes | BallotSum = field(repr=False)
    pair: AuditResult
    data_dependent: float
    public: float

    @property
    def low(self) -> float:
        """The pair's epsilon, from below."""
        return float(self.pair["epsilon of the pair"].value or 0.0)

    def figures(self) -> list[Figure]:
        """Return them as rows of the table, all of this record."""
        of = f"record {self.record}"
        more = {
            "data-dependent epsilon": self.data_dependent,
            "public epsilon": self.public,
            "queries moved": float(_n_changed(self.votes, self.prime)),
        }
        own = [replace(f, of=of) for f in self.pair.figures if not f.name.endswith("claimed epsilon")]
        return own[:1] + [Figure(name=k, value=v, of=of) for k, v in more.items()] + own[1:]


def canary(
    voters: ShardEnsemble | PATEClassifier | RecordVoters,
    X: Any,
    y: Any,
    *,
    X_public: Any,
    groups: Any = None,
    mechanism: Any,
    canary: str = "mislabelled",
    queries: str = "given",
    records: int | Sequence[int] = 1,
    n_queries: int | None = None,
    max_answers: int | None = None,
    delta: float = 1e-5,
    adversary: tuple[Any, Any] | None = None,
    random_state: int = 0,
    published: bool = False,
) -> AuditResult:
    """Replace a record by a canary, train the one teacher it touches again, and tabulate what that shows.

    The pair's epsilon is exact (:func:`pate.audit.pair`), the data-dependent one :func:`pate.account`'s at D, the
    public one what the mechanism charges: pair <= data-dependent <= public. That they do not stand in this order would
    be an error of ours, and is raised.

    Parameters
    ----------
    voters : TeacherEnsemble, TorchTeacherEnsemble, HeadTeacherEnsemble, PATEClassifier or RecordVoters
        An ensemble fitted on these very ``X, y, groups``, or an unfitted one, of which a clone is fitted. Of a
        classifier, teachers like its own are fitted; nothing is released, and no ledger is touched.
    X, y, groups : the private records
        As in ``voters.fit``.
    X_public : public rows
        What is asked, or what queries are made of.
    mechanism : GNMax, LNMax, ConfidentGNMax or NoisyHistogram; GaussianSum for record voters
    canary : {"mislabelled", "natural", "out of distribution", "crafted", "person"}
        What stands in the record's place: the same row with another class; a copy of another record; a row ten public
        deviations away in every feature; a record made for the most contested query (the query itself, or further out,
        with the class that its teacher did not vote for); all of a person's records with another class (``groups``).
    queries : {"given", "most contested", "crafted"}
        All rows of ``X_public``; those of them whose answer one vote moves most; or one row that is made for it, on
        lines between public rows of two classes, and asked ``n_queries`` times. Record voters are asked nothing.
    records : int or sequence of int
        How many records to try one by one, drawn by ``random_state``; or which. A crafted canary picks, among records
        whose teachers can be turned, by itself, unless records are named.
    n_queries : int or None
        At most so many queries; a crafted one is asked so often (None: 300 times).
    max_answers, delta : as in :func:`pate.audit.pair`
    adversary : (rows, labels) or None
        Public or made-up records on which an adversary trains teachers of their own to craft the query. None: the
        adversary of the definition, who knows every record but one, and crafts it with D's own teachers.
    random_state : int
    published : bool
        The data are public or made up: the result is then no secret.

    Returns
    -------
    AuditResult
        The figures of the canary that shows most come first, each ``of`` its record: ``"epsilon of the pair"``
        (and directions), ``"data-dependent epsilon"``, ``"public epsilon"``, ``"largest share of the claimed Renyi
        curve"``, ``"teachers moved"``, ``"queries moved"``. The picture shows the three by the number of queries.
        **Sensitive** unless published.

    Raises
    ------
    PateError
        An inequality does not hold: the accounting (or what the mechanism says of itself) is wrong.
    InvalidInputError
        An unknown canary or kind of queries, voters fitted on other records, a person without ``groups``, or rows that
        are no numbers where numbers are made.

    Examples
    --------
    >>> from pate import GNMax, TeacherEnsemble
    >>> from sklearn.datasets import make_blobs
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X, y = make_blobs(300, centers=3, random_state=0)
    >>> teachers = TeacherEnsemble(KNeighborsClassifier(1), 20, classes=range(3), random_state=0, partition_seed=0)
    >>> found = canary(teachers, X[:200], y[:200], X_public=X[200:], mechanism=GNMax(8.0), records=2, published=True)
    >>> names = "epsilon of the pair", "data-dependent epsilon", "public epsilon"
    >>> low, middle, high = (found[name].value for name in names)
    >>> bool(0 <= low <= middle <= high)
    True
    """
    begun = time.perf_counter()
    check_choice("canary", canary, CANARIES)
    check_choice("queries", queries, QUERIES)
    delta = check_delta(delta)
    if n_queries is not None:
        n_queries = check_int("n_queries", n_queries, low=1)
    rng = np.random.default_rng(check_int("random_state", random_state, low=0))
    if canary == "person" and groups is None:
        raise InvalidInputError("canary='person' replaces all records of one person. Pass groups, one id per record.")
    told: Asked = (
        OfRecords(voters, X, y, groups, X_public)
        if isinstance(voters, RecordVoters)
        else OfShards(voters, X, y, groups, X_public)
    )
    told.prepare(queries, n_queries, mechanism, adversary, random_state)
    found, bounds = [], None
    for record in _records(records, told.n_records, rng):
        votes, moved, at = told.neighbours(canary, record, rng, free=isinstance(records, int | np.integer))
        result = pair(votes, moved, mechanism, delta=delta, max_answers=max_answers, published=published)
        bounds = bounds or _bounds(votes, mechanism, delta, max_answers)
        found.append(_checked(Bounds(at, votes, moved, result, *bounds), published))
    found.sort(key=lambda b: -b.low)
    worst = found[0]
    asked = "the sum of all ballots" if isinstance(voters, RecordVoters) else f"{told.n_queries:,} {queries} queries"
    return AuditResult(
        layer="pair",
        target=repr(mechanism),
        claim=worst.pair.claim,
        tried=f"{len(found)} {canary} canar{'y' if len(found) == 1 else 'ies'} against {asked}",
        refuted=False,
        finding=f"epsilon of the pair {worst.low:.4g}, data-dependent {worst.data_dependent:.4g}, public "
        f"{worst.public:.4g}, at delta {delta:g}",
        false_alarms=0.0,
        seconds=time.perf_counter() - begun,
        limits="Of these canaries and queries alone: other records, or other queries, may show more.",
        figures=tuple(figure for one in found for figure in one.figures()),
        picture=_picture(worst, mechanism, max_answers, delta),
        settings={
            "canary": canary,
            "queries": queries,
            "n_queries": told.n_queries,
            "delta": delta,
            "max_answers": max_answers,
            "random_state": random_state,
        },
        sensitive=not published,
    )


def _records(records: int | Sequence[int], n_records: int, rng: np.random.Generator) -> list[int]:
    if isinstance(records, int | np.integer):
        return rng.choice(n_records, size=check_int("records", records, low=1, high=n_records), replace=False).tolist()
    if not len(records):
        raise InvalidInputError("records must name at least one record, or be how many to draw.")
    remedy = "Name records by their places in X."
    return [check_int("records", r, low=0, high=n_records - 1, remedy=remedy) for r in records]


def _bounds(
    votes: Votes | BallotSum, mechanism: Any, delta: float, max_answers: int | None, *, pld: bool | str = "auto"
) -> tuple[float, float]:
    """Return the data-dependent bound and the public one."""
    if isinstance(votes, BallotSum):  # a Gaussian's divergence does not depend on where it sits
        public = mechanism.charge(1).guarantee(delta).epsilon
        return public, public
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyParameterWarning)  # nothing is released
        report = account(votes, mechanism, delta=delta, max_answers=max_answers, pld=pld)
    return report.data_dependent.reveal().epsilon, report.public.epsilon


def _picture(worst: Bounds, mechanism: Any, max_answers: int | None, delta: float) -> Picture | None:
    """Return the three bounds by the number of queries, side by side."""
    votes, prime = worst.votes, worst.prime
    if not isinstance(votes, Votes) or not isinstance(prime, Votes):
        return None
    if max_answers is not None and max_answers < votes.n_queries:
        return None  # a run that stops is worked out anew for every place, slowly
    places = some_places(votes.n_queries)
    laws, _ = laws_of(votes, prime, mechanism, max_answers)
    # By Renyi divergences alone: seconds are saved at every place, and the line is smooth.
    bounds = [_bounds(votes.take(np.arange(n)), mechanism, delta, max_answers, pld=False) for n in places]
    of_pair = [laws.first(n).epsilon(delta).epsilon[0] for n in places]
    measured = {"this pair": of_pair, "data-dependent (Renyi)": [b for b, _ in bounds]}
    return bounds_picture(places, measured, [p for _, p in bounds])


def _n_changed(votes: Votes | BallotSum, moved: Votes | BallotSum) -> int:
    if isinstance(votes, BallotSum) or isinstance(moved, BallotSum):
        return 1
    return int((votes.counts != moved.counts).any(axis=1).sum())


def _checked(found: Bounds, published: bool) -> Bounds:
    """Return the bounds if they stand in their order; private ones are not quoted."""
    if found.low > found.data_dependent * (1 + _MARGIN) or found.data_dependent > found.public * (1 + _MARGIN):
        wrong = f"{found.low:.9g} <= {found.data_dependent:.9g} <= {found.public:.9g}"
    elif found.pair.refuted:
        wrong = found.pair.finding
    else:
        return found
    shown = f" ({wrong})" if published else ""
    raise PateError(
        f"pair <= data-dependent <= public does not hold{shown}: the accounting is wrong, or what the mechanism says "
        "of itself (charge, exact_parameters) is. If it is one of pate's, please report it."
    )
