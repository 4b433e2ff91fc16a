"""Audit with canaries: replace one record or person, and compute exactly how much its replacement shows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from pate._core.checks import check_choice, check_int, quietly, shown
from pate._core.frames import plain_column
from pate._core.types import FloatArray, IntArray
from pate.audit._pair import bounds_picture, laws_of, pair, reached, some_places
from pate.data import read_rows, records_fingerprint
from pate.estimators import PATEClassifier
from pate.exceptions import (
    CuratorWarning,
    DuplicateRecordsWarning,
    InvalidInputError,
    PateError,
    PrivacyParameterWarning,
)
from pate.mechanisms import ExactLaw
from pate.privacy.convert import check_delta
from pate.privacy.exact._given_pair import given_pair
from pate.records import BallotSum, RecordVoters
from pate.release import default_heads
from pate.release.account import account
from pate.report.audit_result import AuditResult, Figure, Picture
from pate.teachers import ShardEnsemble, class_indices, owned, take_rows
from pate.votes import Votes

__all__ = ["CANARIES", "QUERIES", "canary"]


# The voters under D and under D': shard teachers on queries, or records in one sum.

# The canary that replaces a record.

#: Kinds of canaries.
CANARIES = ("natural", "mislabelled", "out of distribution", "crafted", "person")
#: How many public deviations a record out of distribution is away, in every feature.
_FAR = 10.0


def other_class(labels: IntArray, n_classes: int, rng: np.random.Generator) -> IntArray:
    """Return class indices that all differ from ``labels``, by one shift for all of them; -1 becomes some class."""
    return np.asarray((labels + rng.integers(1, n_classes)) % n_classes)


def number_rows(name: str, X: Any, why: str) -> npt.NDArray[Any]:
    """Return rows as an array of numbers; other rows are refused; ``why`` names what needs numbers."""
    array = np.asarray(X) if not hasattr(X, "columns") and not hasattr(X, "tocsr") else None
    if array is None or array.dtype.kind not in "biuf" or array.ndim < 2:
        raise InvalidInputError(
            f"{name} must be an array of numbers for {why}. Encode it first (pate.TableEncoder, pate.representations), "
            "or take another canary."
        )
    return array


def far_row(X_public: Any, like: Any, rng: np.random.Generator) -> Any:
    """Return a row ten public standard deviations away from the public mean in every feature, either way."""
    rows = number_rows("X_public", X_public, "a canary out of distribution")
    private = number_rows("X", like, "a canary out of distribution")
    wide = rows.astype(np.float64)
    sign = rng.choice([-1.0, 1.0], size=rows.shape[1:])
    return (wide.mean(axis=0) + sign * _FAR * wide.std(axis=0)).astype(np.result_type(private.dtype, np.float32))


def with_copy(X: Any, unit: IntArray, source: int) -> Any:
    """Return ``X`` with the record at ``source`` in every place of ``unit``: arrays, tables, sparse rows, lists."""
    places = np.arange(X.shape[0] if hasattr(X, "shape") else len(X))
    places[unit] = source
    if hasattr(X, "iloc"):
        return X.iloc[places].set_axis(X.index)
    return [X[i] for i in places] if isinstance(X, list | tuple) else X[places]


def with_row(X: Any, unit: IntArray, row: Any) -> npt.NDArray[Any]:
    """Return a copy of an array ``X`` in which ``row`` stands in every place of ``unit``."""
    rows = number_rows("X", X, "this canary")
    moved = np.array(rows, dtype=np.result_type(rows.dtype, np.asarray(row).dtype))
    moved[unit] = row
    return moved


def with_labels(y: Any, unit: IntArray, values: Any) -> npt.NDArray[Any]:
    """Return a copy of ``y`` with ``values`` in the places of ``unit``."""
    moved = np.array(y, dtype=object)
    moved[unit] = values
    given = np.asarray(y)
    if given.dtype.kind == "O":
        return moved
    return np.array(moved.tolist(), dtype=None if given.dtype.kind in "US" else given.dtype)


# Which queries are asked: given ones, the most contested, or one that an adversary crafted.

#: Kinds of queries.
QUERIES = ("given", "most contested", "crafted")
#: How often a crafted query is asked by default.
REPEATS = 300
#: Renyi order by which queries are ranked: of many queries asked together, the small orders decide.
_ORDER = 2.0
#: Lines between public rows of two classes, points on each, and how often the interval is narrowed.
_LINES, _STEPS, _ROUNDS = 48, 7, 5
#: Rows that are compared by the exact law at the end.
_TORN = 32
#: Public rows are also taken so many times as far from their mean: teachers may agree on them the more.
_STRETCHED = (3.0,)
#: Public rows among which the ends of lines are searched.
_ENDS = 1000


def contested(counts: IntArray, mechanism: Any) -> FloatArray:
    """Return how much one vote can move the answer of each query: its exact Renyi divergence, else minus the gap."""
    if isinstance(mechanism, ExactLaw):
        return mechanism.exact_rdp(counts, [_ORDER])[:, 0]
    top = np.sort(counts, axis=1)
    return (top[:, -2] - top[:, -1]).astype(np.float64)


def effect_of_moves(counts: IntArray, of: IntArray, to: IntArray, mechanism: Any) -> FloatArray:
    """Return how much one vote moved from class ``of`` to class ``to`` moves the answer of each query."""
    moved, able = np.array(counts), np.flatnonzero((counts[np.arange(len(counts)), of] > 0) & (of != to))
    moved[able, of[able]] -= 1
    moved[able, to[able]] += 1
    if not isinstance(mechanism, ExactLaw):
        return ((moved - counts) ** 2).sum(axis=1).astype(np.float64)
    effect = np.zeros(len(counts))
    pair = given_pair(counts, moved, **mechanism.exact_parameters())
    effect[pair.places] = pair.rdp_by_query(_ORDER).max(axis=0)
    return effect


def turned(counts: IntArray, mechanism: Any) -> FloatArray:
    """Return how much one vote moved between the two leading classes moves the answer of each query, at best."""
    if not isinstance(mechanism, ExactLaw):
        return contested(counts, mechanism)
    first, second = np.argsort(-counts, axis=1, kind="stable")[:, :2].T
    return np.maximum(*(effect_of_moves(counts, of, to, mechanism) for of, to in ((first, second), (second, first))))


def own_teachers(teachers: ShardEnsemble, rows: Any, labels: Any, n_records: int, seed: int) -> ShardEnsemble:
    """Return an adversary's ensemble of the same kind, on their own rows, redrawn to as many as the private ones."""
    rng = np.random.default_rng(seed)
    X, y = number_rows("adversary[0]", rows, "an adversary's teachers"), np.asarray(labels)
    if len(X) != len(y):
        raise InvalidInputError(f"adversary must be (rows, labels) of one length, got {len(X)} and {len(y)}.")
    drawn = rng.permutation(len(X)) if len(X) >= n_records else rng.integers(len(X), size=n_records)
    drawn = drawn[:n_records]
    theirs = clone(teachers)
    theirs.set_params(random_state=seed, partition_seed=seed, checkpoint_dir=None, classes=teachers.classes_)
    with warnings.catch_warnings():
        # No private record is in these teachers' data.
        warnings.simplefilter("ignore", DuplicateRecordsWarning)
        warnings.simplefilter("ignore", CuratorWarning)
        return theirs.fit(X[drawn], y[drawn])


def crafted_query(voter: ShardEnsemble, X_public: Any, mechanism: Any, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Return one row on which the votes of ``voter`` are nearly tied between two classes, shape (1, ...).

    On lines between public rows (or further out) that almost all agree on, towards where the vote is most contested.
    """
    rows = number_rows("X_public", X_public, "a crafted query")
    if len(rows) > _ENDS:
        rows = rows[rng.permutation(len(rows))[:_ENDS]]
    rows = rows.astype(np.result_type(rows.dtype, np.float32))
    centre = rows.mean(axis=0, dtype=rows.dtype)
    rows = np.concatenate([rows, *(centre + by * (rows - centre) for by in _STRETCHED)])
    counts = voter.vote(rows, keep_labels=False).counts
    starts, ends = _ends(counts, rng)
    tried, voting = [rows], [counts]
    low, high = np.zeros(len(starts)), np.ones(len(starts))
    lines = np.arange(len(starts))
    for _ in range(_ROUNDS):
        t = low + (high - low) * np.linspace(0.0, 1.0, _STEPS)[:, None]  # (steps, lines)
        mix = t.reshape(-1, *[1] * (rows.ndim - 1))
        first, last = (np.tile(rows[side], (_STEPS, *[1] * (rows.ndim - 1))) for side in (starts, ends))
        tried.append((first + mix * (last - first)).astype(rows.dtype))
        voting.append(voter.vote(tried[-1], keep_labels=False).counts)
        at = _second(voting[-1]).reshape(_STEPS, -1).argmax(axis=0)
        low, high = t[np.maximum(at - 1, 0), lines], t[np.minimum(at + 1, _STEPS - 1), lines]
    every, counts = np.concatenate(tried), np.concatenate(voting)
    # The exact law decides among those that have most votes for the second class: half of all at a pure tie.
    torn = np.argsort(-_second(counts), kind="stable")[:_TORN]
    return np.asarray(every[torn[[int(turned(counts[torn], mechanism).argmax())]]])


def _second(counts: IntArray) -> IntArray:
    return np.asarray(np.sort(counts, axis=1)[:, -2])


def _ends(counts: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return the ends of lines: clear rows of two classes each."""
    winner, margin = counts.argmax(axis=1), np.sort(counts, axis=1)
    clear = margin[:, -1] - margin[:, -2]
    by_class = (np.flatnonzero(winner == c) for c in np.unique(winner))
    of_class = [rows[np.argsort(-clear[rows], kind="stable")[:20]] for rows in by_class]
    if len(of_class) < 2:
        raise InvalidInputError(
            "X_public must hold rows of two classes, as the teachers vote, and they vote for one class on all of them. "
            "Pass other public rows."
        )
    pairs = (rng.choice(len(of_class), size=2, replace=False) for _ in range(_LINES))
    starts, ends = np.array([[int(rng.choice(of_class[c])) for c in pair] for pair in pairs]).T
    return starts, ends


# Crafted canaries: one record that changes its teacher's vote on a contested query, or moves a sum of ballots far.

#: Teachers that are tried, and public rows that a ballot is made of.
_TEACHERS, _BALLOTS = 8, 64
#: A query's row, and the same so many times as far from the public centre, which pulls harder at linear models.
_OUTWARD = (1.0, 3.0, 10.0, 30.0)


def _nearest(rows: Any, y: Any, shard: IntArray, query: Any, value: Any) -> int:
    """Return the shard's record nearest to the query, of the class its teacher votes for where there is one."""
    own = shard[y[shard] == value]
    own = own if len(own) else shard
    away = (rows[own].astype(np.float64) - np.asarray(query, dtype=np.float64)).reshape(len(own), -1)
    return int(own[int((away**2).sum(axis=1).argmin())])


def craft_ballot(voters: RecordVoters, X: Any, y: Any, record: int, X_public: Any, rng: np.random.Generator) -> Any:
    """Return (row, class) whose ballot is as far from the record's as any tried: its own row, or public ones."""
    rows, public = number_rows("X", X, "a crafted ballot"), number_rows("X_public", X_public, "a crafted ballot")
    tried = np.concatenate([rows[[record]], -rows[[record]], public[rng.permutation(len(public))[:_BALLOTS]]])
    own = _ballot(voters, rows[record], y[record])
    pairs = [(row, value) for row in tried for value in voters.classes]
    return max(pairs, key=lambda pair: float(((_ballot(voters, *pair) - own) ** 2).sum()))


def _ballot(voters: RecordVoters, row: Any, value: Any) -> FloatArray:
    return voters.cast(np.asarray(row)[None], np.array([value])).sums.astype(np.float64)


class Asked:
    """Private records and their voters."""

    classes: tuple[Any, ...]

    def __init__(self, X: Any, y: Any, groups: Any, X_public: Any) -> None:
        self.X, self.y, self.groups, self.X_public = X, np.asarray(plain_column(y)), groups, X_public
        if X_public is not None:
            self.X_public = read_rows(X_public, name="X_public")
        self.n_records = len(self.y)

    def replaced(self, kind: str, record: int, rng: np.random.Generator) -> tuple[Any, Any]:
        """Return X' and y' of a canary that is not crafted."""
        unit = np.array([record])
        if kind == "person":
            owners = np.asarray(plain_column(self.groups))
            unit = np.flatnonzero(owners == owners[record])
        if kind == "natural":
            others = np.setdiff1d(np.arange(self.n_records), unit)
            if not len(others):
                raise InvalidInputError(
                    "a natural canary needs another record to put in one's place. Pass more records."
                )
            at = int(rng.choice(others))
            return with_copy(self.X, unit, at), with_labels(self.y, unit, [self.y[at]])
        X = self.X if kind != "out of distribution" else with_row(self.X, unit, far_row(self.X_public, self.X, rng))
        labels = other_class(class_indices(self.y[unit], self.classes), len(self.classes), rng)
        return X, with_labels(self.y, unit, [self.classes[i] for i in labels])


class OfShards(Asked):
    """Teachers on shards, asked about public rows."""

    def __init__(self, voters: Any, X: Any, y: Any, groups: Any, X_public: Any) -> None:
        super().__init__(X, y, groups, X_public)
        if isinstance(voters, PATEClassifier):
            voters = _ensemble_of(voters, self.n_records, X_public)
        if not isinstance(voters, ShardEnsemble):
            raise InvalidInputError(
                "voters must be a TeacherEnsemble, TorchTeacherEnsemble, HeadTeacherEnsemble, PATEClassifier or "
                f"RecordVoters, got {shown(voters)}. For any other votes under D and D', use pate.audit.pair."
            )
        if not hasattr(voters, "teachers_"):
            voters = clone(voters).fit(X, y, groups=groups)
        elif voters._fingerprint != records_fingerprint(
            class_indices(self.y, voters.classes_), owned(groups, self.n_records)[0]
        ):
            raise InvalidInputError("voters were fitted on other records than X, y, groups. Pass those, or a clone.")
        quietly("X_public", voters._public_rows, self.X_public)  # refused here: all else asks of them as of X
        self.teachers, self.classes = voters, voters.classes_

    def prepare(self, queries: str, n_queries: int | None, mechanism: Any, adversary: Any, seed: int) -> None:
        """Choose the queries, and ask the teachers about each distinct one once."""
        if queries == "crafted":
            rng = np.random.default_rng([seed, 1])
            asked = self.teachers
            if adversary is not None:
                if not isinstance(adversary, list | tuple) or len(adversary) != 2:
                    raise InvalidInputError(f"adversary must be (rows, labels), got {shown(adversary)}.")
                asked = own_teachers(asked, adversary[0], adversary[1], self.n_records, seed)
            self.rows = crafted_query(asked, self.X_public, mechanism, rng)
            self.places = np.zeros(n_queries or REPEATS, dtype=np.int64)
        else:
            n_public = self.X_public.shape[0] if hasattr(self.X_public, "shape") else len(self.X_public)
            places = np.arange(n_public)[:n_queries]
            if queries == "most contested":
                votes = self.teachers.vote(self.X_public, keep_labels=False)
                places = np.argsort(-contested(votes.counts, mechanism), kind="stable")[: n_queries or REPEATS]
            self.rows, self.places = take_rows(self.X_public, places), np.arange(len(places))
        self.mechanism, self.n_queries = mechanism, len(self.places)
        self.votes = self.teachers.vote(self.rows)
        self.ours = self.votes.take(self.places)

    def neighbours(self, kind: str, record: int, rng: np.random.Generator, *, free: bool) -> tuple[Votes, int]:
        """Train the one teacher again and ask again."""
        if kind == "crafted":
            moved, record = self._crafted(None if free else record, rng)
        else:
            X, y = self.replaced(kind, record, rng)
            shard = int(self.teachers.partition_.assignment[record])
            moved = self.teachers.with_shard(X, y, groups=self.groups, shard=shard)
        return moved.vote(self.rows).take(self.places), record

    def _crafted(self, record: int | None, rng: np.random.Generator) -> tuple[ShardEnsemble, int]:
        """Return the ensemble with the first record found that changes its teacher's vote, and which was replaced.

        Between the two leading classes of the most contested query. None as ``record`` tries some teachers, and the
        record of each that is nearest to the query.
        """
        at_query = np.array([int(contested(self.votes.counts, self.mechanism).argmax())])
        query, votes, teachers = take_rows(self.rows, at_query), self.votes.take(at_query), self.teachers
        assert votes.labels is not None
        rows = number_rows("X", self.X, "a crafted record")
        public = number_rows("X_public", self.X_public, "a crafted record")
        said = votes.labels[:, 0]
        first, second = np.argsort(-votes.counts[0], kind="stable")[:2].tolist()

        def effect(of: int, to: int) -> float:
            return float(effect_of_moves(votes.counts, np.array([of]), np.array([to]), self.mechanism)[0])

        if record is None:
            turns = sorted([(first, second), (second, first)], key=lambda turn: -effect(*turn))
            places = [(int(s), to) for of, to in turns for s in rng.permutation(np.flatnonzero(said == of))[:_TEACHERS]]
        else:
            shard = int(teachers.partition_.assignment[record])
            places = [(shard, second if said[shard] == first else first)]
        centre = public.astype(np.float64).mean(axis=0)
        outward = np.asarray(query[0], dtype=np.float64) - centre
        tried: list[tuple[float, ShardEnsemble, int]] = []
        for shard, to in places:
            own = teachers.partition_.shard(shard)
            at = record if record is not None else _nearest(rows, self.y, own, query, teachers.classes_[said[shard]])
            for by in _OUTWARD:
                row = (centre + by * outward).astype(np.result_type(rows.dtype, np.float32))
                unit = np.array([at])
                X, y = with_row(self.X, unit, row), with_labels(self.y, unit, [teachers.classes_[to]])
                moved = teachers.with_shard(X, y, groups=self.groups, shard=shard)
                after = moved.vote(query)
                assert after.labels is not None
                now = int(after.labels[shard, 0])
                tried.append((effect(int(said[shard]), now), moved, int(at)))
                if now == to:
                    break
            if now == to:
                break
        return max(tried, key=lambda one: one[0])[1:]


class OfRecords(Asked):
    """Record voters: one exact sum of all ballots, and nothing is asked."""

    n_queries = 1

    def __init__(self, voters: RecordVoters, X: Any, y: Any, groups: Any, X_public: Any) -> None:
        super().__init__(X, y, groups, X_public)
        self.voters, self.classes = voters, voters.classes

    def prepare(self, queries: str, n_queries: int | None, mechanism: Any, adversary: Any, seed: int) -> None:
        """Cast all ballots."""
        if queries != "given" or n_queries is not None or adversary is not None:
            raise InvalidInputError(
                "queries, n_queries and adversary are for teachers: record voters release one sum, and are asked "
                "nothing. Leave them out."
            )
        self.ours = self.voters.cast(self.X, self.y, groups=self.groups)

    def neighbours(self, kind: str, record: int, rng: np.random.Generator, *, free: bool) -> tuple[BallotSum, int]:
        """Cast all ballots again."""
        if kind == "crafted":
            row, value = craft_ballot(self.voters, self.X, self.y, record, self.X_public, rng)
            unit = np.array([record])
            X, y = with_row(self.X, unit, row), with_labels(self.y, unit, [value])
        else:
            X, y = self.replaced(kind, record, rng)
        return self.voters.cast(X, y, groups=self.groups), record


def _ensemble_of(model: PATEClassifier, n_records: int, X_public: Any) -> ShardEnsemble:
    who = model.who_votes()
    if who not in ("heads", "shards"):
        raise InvalidInputError(
            "this PATEClassifier lets records vote, in a space that its plan chooses, or takes DP-SGD. Pass the "
            "RecordVoters themselves, a PATEClassifier with an estimator, or call DPSGDClassifier.fit(canaries=)."
        )
    teachers = clone(model).set_params(ledger=None)._ensemble(X_public)
    if who == "heads" and teachers.n_teachers is None:
        teachers.set_params(n_teachers=default_heads(n_records))
    return teachers


#: Rounding that is granted to an inequality.
_MARGIN = 1e-9


@dataclass(frozen=True)
class Bounds:
    """The result of one canary: the pair's epsilon, the bound at D, the public one."""

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
        """Return the results as figures of this record."""
        of, moved = f"record {self.record}", float(_n_changed(self.votes, self.prime))
        more = {"data-dependent epsilon": self.data_dependent, "public epsilon": self.public, "queries moved": moved}
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
    """Replace a record by an artificial one (a canary), retrain its teacher, and compute how much the votes reveal.

    The pair's epsilon is exact (:func:`pate.audit.pair`), the data-dependent one :func:`pate.account`'s at D, the
    public one what the mechanism charges: pair <= data-dependent <= public. Any other order is an
    error in the accounting, and is raised.

    Parameters
    ----------
    voters : TeacherEnsemble, TorchTeacherEnsemble, HeadTeacherEnsemble, PATEClassifier or RecordVoters
        An ensemble fitted on these very ``X, y, groups``, or an unfitted one, of which a clone is fitted. Of a
        classifier, teachers like its own are fitted; nothing is released, and no ledger is touched.
    X, y, groups : the private records
        As in ``voters.fit``.
    X_public : public rows
        The queries, or the rows that queries are made from.
    mechanism : GNMax, LNMax, ConfidentGNMax or NoisyHistogram; GaussianSum for record voters
    canary : {"mislabelled", "natural", "out of distribution", "crafted", "person"}
        What replaces the record: the same row with another class; a copy of another record; a row ten public
        deviations away in every feature; a record made for the most contested query (the query itself, or further out,
        with the class that its teacher did not vote for); all of a person's records with another class (``groups``).
    queries : {"given", "most contested", "crafted"}
        All rows of ``X_public``; those of them whose answer one vote moves most; or one row that is made for it, on
        lines between public rows of two classes, and asked ``n_queries`` times. Record voters are asked nothing.
    records : int or sequence of int
        How many records to try one by one, drawn by ``random_state``; or which. A crafted canary picks, among records
        whose teachers' votes can be changed, by itself, unless records are named.
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
        An inequality does not hold: the accounting, or the mechanism's description of itself, is wrong.
    InvalidInputError
        An unknown canary or kind of queries, voters fitted on other records, a person without ``groups``, or rows that
        are no numbers where numbers are made.

    Examples
    --------
    >>> from pate import GNMax, TeacherEnsemble
    >>> from sklearn.datasets import make_blobs
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X, y = make_blobs(300, centers=3, random_state=0)
    >>> teachers = TeacherEnsemble(
    ...     KNeighborsClassifier(1), 20, classes=range(3), random_state=0, partition_seed=0
    ... )
    >>> found = canary(
    ...     teachers,
    ...     X[:200],
    ...     y[:200],
    ...     X_public=X[200:],
    ...     mechanism=GNMax(8.0),
    ...     records=2,
    ...     published=True,
    ... )
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
    voting = (OfRecords if isinstance(voters, RecordVoters) else OfShards)(voters, X, y, groups, X_public)
    voting.prepare(queries, n_queries, mechanism, adversary, random_state)
    found, bounds = [], None
    for record in _records(records, voting.n_records, rng):
        moved, at = voting.neighbours(canary, record, rng, free=isinstance(records, int | np.integer))
        result = pair(voting.ours, moved, mechanism, delta=delta, max_answers=max_answers, published=published)
        bounds = bounds or bounds_at(voting.ours, mechanism, delta, max_answers)
        found.append(_checked(Bounds(at, voting.ours, moved, result, *bounds), published))
    found.sort(key=lambda b: -b.low)
    worst = found[0]
    asked = "the sum of all ballots" if isinstance(voters, RecordVoters) else f"{voting.n_queries:,} {queries} queries"
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
            "n_queries": voting.n_queries,
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


def bounds_at(
    votes: Votes | BallotSum, mechanism: Any, delta: float, max_answers: int | None, *, pld: bool | str = "auto"
) -> tuple[float, float]:
    """Return the data-dependent bound and the public one on epsilon."""
    if isinstance(votes, BallotSum):  # a Gaussian's divergence does not depend on where it sits
        public = mechanism.charge(1).guarantee(delta).epsilon
        return public, public
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyParameterWarning)  # nothing is released
        report = account(votes, mechanism, delta=delta, max_answers=max_answers, pld=pld)
    return report.data_dependent.reveal().epsilon, report.public.epsilon


def _picture(worst: Bounds, mechanism: Any, max_answers: int | None, delta: float) -> Picture | None:
    votes, prime = worst.votes, worst.prime
    if not isinstance(votes, Votes) or not isinstance(prime, Votes):
        return None
    places = some_places(votes.n_queries, max_answers)
    if not places:
        return None
    ours, inner, public = along(votes, prime, mechanism, delta, max_answers, places)
    return bounds_picture(places, {"this pair": ours, "data-dependent (Renyi)": inner}, public)


def along(
    votes: Votes, theirs: Votes, mechanism: Any, delta: float, max_answers: int | None, places: list[int]
) -> tuple[list[float], list[float], list[float]]:
    """Return the pair's epsilon, the data-dependent bound and the public one, of the first so many queries each."""
    laws, _ = laws_of(votes, theirs, mechanism, max_answers)
    # By Renyi divergences alone: seconds are saved at every place, and the line is smooth.
    bounds = [bounds_at(votes.take(np.arange(n)), mechanism, delta, max_answers, pld=False) for n in places]
    return reached(laws, places, delta), [b[0] for b in bounds], [b[1] for b in bounds]


def _n_changed(votes: Votes | BallotSum, moved: Votes | BallotSum) -> int:
    if isinstance(votes, BallotSum) or isinstance(moved, BallotSum):
        return 1
    return int((votes.counts != moved.counts).any(axis=1).sum())


def _checked(found: Bounds, published: bool) -> Bounds:
    """Return the bounds if they are in order, else raise; private ones are not quoted."""
    if found.low > found.data_dependent * (1 + _MARGIN) or found.data_dependent > found.public * (1 + _MARGIN):
        wrong = f"{found.low:.9g} <= {found.data_dependent:.9g} <= {found.public:.9g}"
    elif found.pair.refuted:
        wrong = found.pair.finding
    else:
        return found
    shown = f" ({wrong})" if published else ""
    raise PateError(
        f"pair <= data-dependent <= public does not hold{shown}: the accounting is wrong, or the mechanism's own "
        "charge or exact_parameters. If it is one of pate's, please report it."
    )
