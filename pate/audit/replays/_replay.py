"""Replay a pipeline on two neighbouring data sets with the same randomness, and compare its inner states."""

from __future__ import annotations

import copy
import hashlib
import inspect
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone

from pate._core.checks import check_choice, check_int, shown
from pate._core.curator import need
from pate._core.recorder import Outcome, ReplayRecorder, run_recorded
from pate._core.secret import global_generators, unreplayed_bytes
from pate._core.types import IntArray
from pate.audit.replays._compare import ANY, Allowed, CallWatcher, Difference, Moved, StopRun, compare
from pate.audit.replays._neighbours import (
    ADJACENCIES,
    Choice,
    Distance,
    Neighbour,
    Records,
    distance,
    make_neighbour,
    neighbours,
)
from pate.audit.replays._trace import Run, Trace, digest
from pate.exceptions import InvalidInputError, ReplayError
from pate.ledger import Ledger
from pate.privacy.budget import Budget
from pate.release import release_ballots, release_labels
from pate.release.statement import counted_elsewhere
from pate.report.audit_result import AuditResult, Figure

# What can be replayed: a function of private records, or an object that is fitted on them.

#: Large enough for any release: a replay is not private, and its cost is compared, not limited.
_AMPLE = Budget(1e6, 0.1)


Pipeline = Callable[[Records], Any]


def as_pipeline(target: Any, *, X_public: Any = None, mechanism: Any = None) -> tuple[Pipeline, str]:
    """Return the target as a function of records, and its name."""
    name = type(target).__name__
    if not isinstance(target, type):
        if hasattr(target, "cast") and hasattr(target, "space"):
            return _of_record_voters(target, mechanism), name
        if hasattr(target, "fit") and hasattr(target, "vote"):
            return _of_fitted(target, X_public, mechanism, votes=True), name
        if hasattr(target, "vote"):
            raise InvalidInputError(
                f"pipeline must say how its teachers come from private records; {name} has no fit. Pass a function of "
                "(X, y, groups) that makes them and calls vote."
            )
        if hasattr(target, "fit") and hasattr(target, "get_params"):
            return _of_fitted(target, X_public, mechanism, votes=False), name
    if not callable(target) or isinstance(target, type):
        raise InvalidInputError(
            f"pipeline must be a function of (X, y) or (X, y, groups), or have fit (and vote), got {shown(target)}."
        )
    return _of_function(target), f"the function {getattr(target, '__name__', name)}"


def _of_function(target: Callable[..., Any]) -> Pipeline:
    def takes(n: int) -> bool:
        try:
            inspect.signature(target).bind(*range(n))
        except TypeError:
            return False
        return True

    takes_groups, takes_two = takes(3), takes(2)

    def run(records: Records) -> Any:
        # Without groups a third parameter keeps its default, which may be anything.
        if takes_groups and not (records.groups is None and takes_two):
            return target(records.X, records.y, records.groups)
        if records.groups is not None:
            raise InvalidInputError("D has groups, and pipeline takes (X, y) alone. Let it take (X, y, groups).")
        return target(records.X, records.y)

    return run


@contextmanager
def _fresh(target: Any) -> Iterator[Any]:
    """Yield an unfitted copy without checkpoints, whose ledger is a temporary one."""
    try:
        made = clone(target)
    except TypeError:
        yield copy.deepcopy(target)
        return
    known = made.get_params(deep=False)
    if known.get("checkpoint_dir") is not None:
        made.set_params(checkpoint_dir=None)
    with tempfile.TemporaryDirectory(prefix="pate-replay-") as folder:
        if (ledger := known.get("ledger")) is not None:
            made.set_params(ledger=Ledger(Path(folder) / "ledger.sqlite", total=ledger.total))
        yield made


def _of_fitted(target: Any, X_public: Any, mechanism: Any, *, votes: bool) -> Pipeline:
    takes = not votes and "X_public" in inspect.signature(target.fit).parameters
    if X_public is None and (votes or takes):
        name = type(target).__name__
        raise InvalidInputError(f"X_public must be the public rows that {name} is asked about. Pass X_public=.")
    options = {"X_public": X_public} if takes else {}

    def run(records: Records) -> Any:
        groups = {} if records.groups is None else {"groups": records.groups}
        with _fresh(target) as made:
            fitted = made.fit(records.X, records.y, **options, **groups)
            if not votes:
                return fitted
            said = fitted.vote(X_public)
        return None if mechanism is None else release_labels(said, mechanism, budget=_AMPLE)

    return run


def _of_record_voters(target: Any, mechanism: Any) -> Pipeline:
    def run(records: Records) -> Any:
        ballots = target.cast(records.X, records.y, groups=records.groups)
        return None if mechanism is None else release_ballots(ballots, mechanism, budget=_AMPLE)

    return run


# One recorded run of a pipeline, and the check that it repeats.


@contextmanager
def _seeded() -> Iterator[None]:
    """Seed the global generators, and torch's where it is imported, and restore them."""
    torch = sys.modules.get("torch")
    with global_generators(0), nullcontext() if torch is None else torch.random.fork_rng():
        if torch is not None:
            torch.manual_seed(0)
        yield


def run_in_replay(
    pipeline: Pipeline,
    records: Records,
    key: bytes,
    follows: tuple[Outcome, ...] | None = None,
    places: IntArray | None = None,
    watcher: CallWatcher | None = None,
) -> Run:
    """Run a pipeline once with recorded randomness; an error it raises is part of the run.

    Its warnings are not shown: they may reveal private records, and would come with every run.
    """
    trace = Trace()

    def watch(stage: str, facts: dict[str, Any]) -> None:
        trace.watch(stage, facts)
        if watcher is not None and stage == "rows" == watcher.before:
            raise StopRun

    recorder = ReplayRecorder(key, watch, follows, places)
    own = records.take(range(records.n))  # a pipeline may write into what it is given

    def run() -> tuple[Any, Exception | None]:
        with warnings.catch_warnings(), counted_elsewhere(), _seeded():
            warnings.simplefilter("ignore")
            try:
                with nullcontext() if watcher is None else watcher.watching(lambda: trace.silent):
                    return pipeline(own), None
            except ReplayError:
                raise
            except Exception as error:
                return None, error
            except StopRun:
                return None, None

    value, error = run_recorded(recorder, run)
    if error is None:
        trace.returned(value)
    return Run(tuple(trace.events), tuple(recorder.outcomes), error)


def check_repeats(pipeline: Pipeline, records: Records, key: bytes, first: Run) -> None:
    """Raise ReplayError unless the pipeline repeats exactly on the same data and randomness."""
    again = run_in_replay(pipeline, records, key)
    nothing = Allowed(units=0, shards=0, places=None, adjacency="replace-one")
    found = compare(first, again, nothing)
    drawn = [digest([(o.sampler, o.value) for o in run.outcomes]) for run in (first, again)]
    if not found.differences and first.outcomes and drawn[0] != drawn[1]:
        found.differences.append(Difference("noise", "other noise was drawn"))
    if found.differences:
        raise ReplayError(
            f"two runs on the same data differ: {found.differences[0].what}. Something in the pipeline draws random "
            "numbers that a replay does not know of: give it a seed (random_state=0 for estimators, "
            "np.random.default_rng(0)), make noise sources inside the pipeline, and draw noise in this process and "
            "thread."
        )


CLAIM = (
    "one unit moves at most its own teacher and one vote per query (or a sum by its sensitivity); what is asked, "
    "drawn, charged and learnt is the same, given what was released"
)
LIMITS = (
    "It shows these pairs of data sets alone, and what depends on random numbers only as they fell; what was fitted "
    "before the pipeline, or is stored outside it between runs, is not seen; that noise has its law, and that a "
    "charge is large enough, is tested by other layers."
)

#: Stages whose rows an earlier call may have mixed.
_BLAMED = ("teachers", "functions", "votes", "draw", "student", "returned", "rows")


@dataclass(frozen=True, repr=False)
class Found:
    """The result of one pair; **sensitive**.

    ``failed``: the pipeline fails on both alike, or validation refused one. ``stages``: stages of the pipeline.
    """

    what: str
    moved: Moved = field(default_factory=Moved)
    finding: str = ""  # the first difference in words; empty where there is none
    failed: Exception | None = None
    stages: frozenset[str] = frozenset()


class Replayer:
    """Runs a pipeline on pairs; the run on a data set is reused for all its neighbours."""

    def __init__(
        self, target: Any, *, X_public: Any = None, mechanism: Any = None, random_state: int | None = None
    ) -> None:
        self.pipeline, self.name = as_pipeline(target, X_public=X_public, mechanism=mechanism)
        # Random by default: then nothing that a pipeline stores depends on bits that others can reproduce.
        self._key = unreplayed_bytes(32)
        if random_state is not None:
            seed = check_int("random_state", random_state, low=0)
            self._key = hashlib.sha256(f"pate replay {seed}".encode()).digest()
        self._reference: tuple[Records, Run] | None = None
        self._checked = False
        self.n_runs = 0

    def reference_run(self, D: Records) -> Run:
        """Return the run on D that others follow; the very first is made twice, and must repeat exactly."""
        if self._reference is not None and self._reference[0] is D:
            return self._reference[1]
        run = run_in_replay(self.pipeline, D, self._key)
        self.n_runs += 1
        if self._reference is None:  # the first D is that of most pairs
            self._reference = (D, run)
        if run.error is not None:
            return run
        if not run.events:
            raise ReplayError(
                f"{self.name} did nothing that a replay sees: no teachers, votes, ballots, noise or charge, and "
                "nothing returned. Let it go through pate (fit, vote, release_labels), in this process and thread."
            )
        if not self._checked:
            self.n_runs += 1
            check_repeats(self.pipeline, D, self._key, run)
            self._checked = True
        return run

    def pair(self, D: Records, D_prime: Records, adjacency: str, what: str) -> Found:
        apart = distance(D, D_prime, adjacency)
        if not apart.are_neighbours(adjacency) and not apart.order:
            raise InvalidInputError(_not_neighbours(apart, adjacency, D))
        ours = self.reference_run(D)
        if adjacency == "add-or-remove" and any(event.stage == "teachers" for event in ours.events):
            raise InvalidInputError(
                f"adjacency must be 'replace-one' for {self.name}: teachers on shards are private between data sets "
                "with equally many units, got 'add-or-remove'."
            )
        places = _places(D, D_prime) if apart.order else None
        theirs = run_in_replay(self.pipeline, D_prime, self._key, ours.outcomes, places)
        self.n_runs += 1
        alike = ours.error is not None and type(ours.error) is type(theirs.error)
        failed = ours.error if alike else next((run.error for run in (ours, theirs) if run.refused), None)
        if failed is not None:
            return Found(what, failed=failed)
        moved = compare(ours, theirs, _allowed(apart, adjacency, ours, D, D_prime))
        finding = ""
        if moved.differences:
            cause = self._cause(D, D_prime, moved, apart)
            finding = moved.differences[0].what + (f": {cause}" if cause else "")
        return Found(what, moved, finding, stages=frozenset(event.stage for event in ours.events))

    def neighbours(self, records: Records, pair: Neighbour) -> Found:
        """Compare neighbours made of these records; pairs whose D is unchanged share its run."""
        same = pair.kind != "only of its class" and pair.adjacency == "replace-one"
        return self.pair(records if same else pair.D, pair.D_prime, pair.adjacency, pair.what)

    def _cause(self, D: Records, D_prime: Records, moved: Moved, apart: Distance) -> str:
        """Run both once more, watched, and return which call read all rows."""
        if apart.order or moved.differences[0].stage not in _BLAMED:
            return ""
        stage, n_changed, watcher = moved.differences[0].stage, apart.records, None
        for records in (D, D_prime):
            watcher = CallWatcher(records.n, stage, watcher, n_changed)
            run_in_replay(self.pipeline, records, self._key, watcher=watcher)
            self.n_runs += 1
        if watcher is not None and watcher.found:
            return f"{watcher.found} saw all {'records' if stage == 'rows' else 'shards'}"
        if moved.rows > n_changed and D.n == D_prime.n:
            return (
                f"the rows that teachers were given differ in {moved.rows:,} of {moved.n_rows:,} places, where the "
                f"data sets differ in {n_changed}"
            )
        return "the call that saw them is not known" if stage == "teachers" else ""


def _not_neighbours(apart: Distance, adjacency: str, D: Records) -> str:
    if apart.units == 0:
        return "D and D_prime hold the same records in the same order. neighbours(X, y) makes pairs that differ."
    if adjacency == "replace-one" and apart.sizes[0] != apart.sizes[1]:
        return (
            f"D and D_prime must have equally many {D.unit}s under replace-one adjacency, got {apart.sizes[0]} and "
            f"{apart.sizes[1]}. Say adjacency='add-or-remove' for a pipeline that claims that."
        )
    return (
        f"D and D_prime must be neighbours under {adjacency} adjacency, which differ in one {D.unit}; these are "
        f"{apart.units} steps apart. neighbours(X, y, groups=...) makes such pairs."
    )


def _places(D: Records, D_prime: Records) -> IntArray:
    """Return the place in the first data set of each record of the second."""
    first, second = (sorted(range(r.n), key=r.digests().__getitem__) for r in (D, D_prime))
    places = np.empty(D.n, dtype=np.int64)
    places[second] = first
    return places


def _allowed(apart: Distance, adjacency: str, ours: Run, D: Records, D_prime: Records) -> Allowed:
    if not apart.order:
        # Where each person has one record, both units are the same.
        unit = D.unit if max(D.n_units, apart.sizes[1]) < max(D.n, D_prime.n) else "record"
        return Allowed(apart.units, apart.touched, apart.places, adjacency, (D.n, D_prime.n), unit)
    made = [event for event in ours.events if event.stage == "teachers"]
    # The shard of a record that moved holds the same records in another order; others hold theirs as before.
    keeps_order = bool(made) and all(event.private["keeps order"] for event in made)
    return Allowed(1, 1 if keeps_order else ANY, None, adjacency, order=True)


def replay(
    pipeline: Any,
    D: Any,
    D_prime: Any = None,
    *,
    X_public: Any = None,
    mechanism: Any = None,
    adjacency: str = "replace-one",
    published: bool = False,
    random_state: int | None = None,
) -> AuditResult:
    """Run a pipeline on two neighbouring data sets with the same random bits, and compare its internal states.

    Record-and-replay is due to Cebere et al. (2026). What is compared are states, not outputs: which teachers' weights
    moved, the votes, the sequence of draws with their scales, the charges and rows of the ledger, and what
    representation, student and choice of queries received. It finds leaks that thousands of releases would not show.

    Parameters
    ----------
    pipeline : callable or object
        A function of ``(X, y)`` or ``(X, y, groups)`` that calls pate; or what is fitted and votes (ensembles of
        teachers, any :class:`pate.Voter` with ``fit``); or an estimator such as :class:`pate.PATEClassifier`,
        :class:`pate.DPSGDClassifier` and the baselines; or :class:`pate.RecordVoters`. Objects are cloned, and their
        ledger and checkpoints replaced.
    D : (X, y), (X, y, groups) or Neighbour
        **Sensitive.** A :class:`Neighbour` (of :func:`neighbours`) holds both.
    D_prime : as D, or None
        Its neighbour, or the same records in another order.
    X_public : rows or None
        For objects that vote on public rows.
    mechanism : Mechanism, GaussianSum or None
        Releases an object's votes or ballots; None compares the votes alone.
    adjacency : {"replace-one", "add-or-remove"}
    published : bool
        Whether the data are public or synthetic: else the result is sensitive.
    random_state : int or None
        Seed of the random numbers; None draws a key for these runs. A number makes the audit repeatable.

    Returns
    -------
    AuditResult
        ``refuted`` where something moved that may not; ``finding`` names the first thing, in the order of the
        pipeline.

    Raises
    ------
    InvalidInputError
        The data sets are no neighbours.
    ReplayError
        Two runs on the same data differ, or the pipeline writes to a ledger that was there before.

    Notes
    -----
    Wherever noise decides, the second run releases what the first one did: given that, everything public must be equal.
    All bits of the operating system follow from the recorder's key, the cut of shards too, and both data sets are cut
    alike, as the guarantee conditions on the cut; a person who goes by another id moves two shards then. So **nothing
    that a pipeline makes in a replay is private**: statements say so, as with ``noise_seed``, ledgers mark it, and no
    ledger, secret or checkpoint that was there before is written to. Worker processes and other threads are not
    recorded; noise that is drawn there differs between two runs, and is refused.

    It reads the private data several times, and its result is private.

    Examples
    --------
    >>> import numpy as np
    >>> from pate import GNMax, TeacherEnsemble
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.preprocessing import StandardScaler
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    >>> X_prime = X.copy()
    >>> X_prime[7] *= 30
    >>> teachers = TeacherEnsemble(GaussianNB(), 5, classes=(0, 1), random_state=0)
    >>> honest = replay(
    ...     teachers,
    ...     (X, y),
    ...     (X_prime, y),
    ...     X_public=X[:9],
    ...     mechanism=GNMax(2.0),
    ...     published=True,
    ... )
    >>> honest, honest["teachers moved"].value
    (AuditResult(replay: the claim stands; 5 figures), 1.0)
    >>> def leaky(X, y):
    ...     return teachers.fit(StandardScaler().fit_transform(X), y).vote(np.zeros((9, 2)))
    >>> replay(leaky, (X, y), (X_prime, y), published=True).finding
    'teachers 0 to 4 moved: StandardScaler saw all shards'
    """
    start = perf_counter()
    what = "one pair of data sets"
    if isinstance(D, Neighbour):
        if D_prime is not None:
            raise InvalidInputError("D is a pair of neighbours already: leave D_prime out.")
        D, D_prime, adjacency, what = D.D, D.D_prime, D.adjacency, D.what
    check_choice("adjacency", adjacency, ADJACENCIES)
    replayer = Replayer(pipeline, X_public=X_public, mechanism=mechanism, random_state=random_state)
    found = replayer.pair(Records.of(D), Records.of(D_prime, "D_prime"), adjacency, what)
    return result_of(replayer, [found], start, adjacency=adjacency, published=published)


def _unseen(stages: frozenset[str]) -> str:
    said = ""
    if "functions" in stages:
        said += " Of functions as teachers, estimators of their own alone were looked at."
    elif stages & {"votes", "draw"} and "teachers" not in stages:
        said += " No teachers were seen: votes alone were compared, and what moved all teachers but no vote is missed."
    if "rows" not in stages:
        said += " No private rows were seen to come to pate: what was made of them before is not compared."
    return said


def result_of(
    replayer: Replayer, found: Iterable[Found], start: float, *, adjacency: str, published: bool
) -> AuditResult:
    """Return what some pairs showed as one result; with the finding of the first that leaks."""
    every = list(found)
    pairs = [one for one in every if one.failed is None]
    if not pairs:
        raise every[0].failed or ReplayError("no pair was run.")
    failed = "; ".join(dict.fromkeys(one.what for one in every if one.failed is not None))
    unseen = _unseen(frozenset().union(*(one.stages for one in pairs)))
    if failed:
        unseen += f" The pipeline fails on both, or refuses one before anything is drawn, where {failed}."
    bad, n = [one for one in pairs if one.finding], len(pairs)
    kinds = "; ".join(dict.fromkeys(one.what for one in pairs))
    finding = bad[0].finding if bad else "nothing moved that may not"
    if bad and n > 1:
        finding += f" (when {bad[0].what}; {len(bad)} of {n} pairs)"
    moved = np.max([(one.moved.teachers, one.moved.votes, one.moved.most) for one in pairs], axis=0).tolist()
    most = zip(("teachers moved", "votes moved on a query", "sum moved, of what it may"), moved, strict=True)
    return AuditResult(
        layer="replay",
        target=replayer.name,
        claim=CLAIM,
        tried=f"{n} pair{'' if n == 1 else 's'} of neighbours ({adjacency}), inner states compared: {kinds}",
        refuted=bool(bad),
        finding=finding,
        false_alarms=0.0,
        n_releases=replayer.n_runs,
        seconds=perf_counter() - start,
        limits=LIMITS + unseen,
        figures=(
            *(Figure(name=name, value=float(value), of="the most") for name, value in most),
            Figure(name="pairs that leak", value=float(len(bad)), of=f"{n} pairs"),
            Figure(name="pairs refused", value=float(len(every) - n), of=f"{len(every)} pairs"),
        ),
        settings={"adjacency": adjacency, "runs": replayer.n_runs},
        sensitive=not published,
    )


# Replay over many neighbours: one of each kind, many of each, or found by hypothesis.


def replay_search(
    pipeline: Any,
    X: Any,
    y: Any,
    *,
    X_public: Any = None,
    groups: Any = None,
    mechanism: Any = None,
    adjacency: str = "replace-one",
    kinds: Iterable[str] | None = None,
    classes: Any = None,
    n_pairs: int | None = None,
    n_examples: int = 0,
    stop: bool = True,
    published: bool = False,
    random_state: int | None = None,
) -> AuditResult:
    """Make neighbouring data sets from one, and replay a pipeline on each pair: :func:`neighbours`, :func:`replay`.

    Parameters
    ----------
    pipeline, X_public, mechanism, adjacency, published : as in replay
    X, y, groups : the private records
        **Sensitive.**
    kinds : iterable of str or None
        See :func:`neighbours`.
    classes : iterable or None
        The public classes.
    n_pairs : int or None
        So many pairs, kinds in turn and other records each time; None takes one of each kind.
    n_examples : int
        Further pairs that hypothesis searches (``pip install "pate-privacy[search]"``): records, labels and factors,
        made as small as still leaks where one leaks.
    stop : bool
        Whether to stop at the first pair that leaks.
    random_state : int or None
        Which records are changed (None: as by 0), and seed of the random numbers (None: a key for these runs).

    Returns
    -------
    AuditResult

    Raises
    ------
    InvalidInputError
        No kind gives neighbours here.
    MissingExtraError
        hypothesis is needed and not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from pate import TeacherEnsemble
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    >>> teachers = TeacherEnsemble(GaussianNB(), 4, classes=(0, 1), random_state=0)
    >>> found = replay_search(teachers, X, y, X_public=X[:5], published=True)
    >>> found.refuted, found["teachers moved"].value, found["pairs that leak"].of
    (False, 1.0, '7 pairs')
    """
    start = perf_counter()
    check_choice("adjacency", adjacency, ADJACENCIES)
    n_examples = check_int("n_examples", n_examples, low=0)
    if n_examples:
        need("hypothesis", extra="search", why="A search (n_examples)")
    records = Records.of((X, y, groups), "(X, y, groups)")
    replayer = Replayer(pipeline, X_public=X_public, mechanism=mechanism, random_state=random_state)
    options: dict[str, Any] = {"adjacency": adjacency, "classes": classes}
    asked = None if kinds is None else list(kinds)
    seed = 0 if random_state is None else random_state
    first = neighbours(records.X, records.y, groups=records.groups, kinds=asked, random_state=seed, **options)
    if not first:
        raise InvalidInputError("kinds must name one that gives neighbours of these records; none does.")
    wanted = len(first) if n_pairs is None else check_int("n_pairs", n_pairs, low=1)
    known = [pair.kind for pair in first]
    found: list[Found] = []
    # All kinds by one seed, then by the next one.
    turns = ((kind, at) for at in count(seed) for kind in known)
    for kind, at in islice(turns, 2 * wanted + len(known)):
        if len(found) == wanted or (stop and found and found[-1].finding):
            break
        try:
            pair = neighbours(records.X, records.y, groups=records.groups, kinds=[kind], random_state=at, **options)[0]
        except InvalidInputError:  # it would change nothing in the chosen records
            continue
        found.append(replayer.neighbours(records, pair))
    if n_examples and not (stop and found[-1].finding):
        found += _by_hypothesis(replayer, records, known, n_examples, options)
    return result_of(replayer, found, start, adjacency=adjacency, published=published)


def _by_hypothesis(
    replayer: Replayer, records: Records, kinds: list[str], n_examples: int, options: dict[str, Any]
) -> list[Found]:
    from hypothesis import HealthCheck, Phase, find, settings
    from hypothesis import strategies as st
    from hypothesis.errors import NoSuchExample

    found: list[Found] = []
    leaking: list[Found] = []
    choices = st.builds(
        Choice,
        at=st.integers(0, records.n - 1),
        other=st.integers(0, max(0, records.n - 2)),
        label=st.integers(0, 1000),
        factor=st.sampled_from([30.0, 0.0, -1.0, 1e3, 1e-3, 1e6]),
    )

    def leaks(example: tuple[str, Choice]) -> bool:
        kind, choice = example
        try:
            pair = make_neighbour(kind, records, choice, **options)
        except InvalidInputError:  # nothing changes in these records
            return False
        found.append(replayer.neighbours(records, pair))
        if found[-1].finding:
            leaking.append(found[-1])
        return bool(found[-1].finding)

    how: dict[str, Any] = {"phases": (Phase.generate, Phase.shrink), "suppress_health_check": list(HealthCheck)}
    try:
        # What leaks is private: there is no database.
        quiet = settings(max_examples=n_examples, database=None, deadline=None, derandomize=True, **how)
        find(st.tuples(st.sampled_from(kinds), choices), leaks, settings=quiet)
    except NoSuchExample:
        return found
    # The last that leaked is the smallest.
    return [*(one for one in found if not one.finding), leaking[-1]]
