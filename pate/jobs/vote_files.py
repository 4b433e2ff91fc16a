"""Read vote matrices that were made elsewhere from files, and release labels of them."""

from __future__ import annotations

import os
import shlex
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_choice, check_classes, check_int, check_path
from pate._core.moved import takes_former_names
from pate.data import BROKEN, read_npy, read_npz, read_table, votes_fingerprint, without_empty
from pate.data.queries import select_queries
from pate.exceptions import InvalidInputError
from pate.jobs._plan import VotePlan, about_total
from pate.jobs._reading import Sources
from pate.jobs._request import UNITS, JobSettings, check_absent, check_id, check_ledger, open_ledger
from pate.jobs._student import Learnt, LeavesModel, Pupil, Rehearsal
from pate.ledger import Registration
from pate.mechanisms import NoisyHistogram
from pate.privacy.budget import check_budget
from pate.release import (
    BatchPlan,
    Evidence,
    LabelRelease,
    check_release_stated,
    doubted,
    expected_of_votes,
    warn_if_weak,
)
from pate.votes import Votes, hash_queries

KINDS = ("counts", "labels")
#: A count beyond this is no number of teachers, and sums of such counts would not fit 64 bits.
_MOST_VOTES = 2**40
_SUFFIXES = (".npy", ".npz", ".csv")


def read_votes(
    path: str | os.PathLike[str],
    *,
    kind: str | None = None,
    key: str | None = None,
    n_teachers: int | None = None,
    classes: Any = None,
    rows: int | None = None,
    ask: Callable[[str], str] | None = None,
) -> Votes:
    """Read vote counts or teachers' labels.

    Parameters
    ----------
    path : path
        ``.npy``, ``.npz`` or ``.csv`` (numbers, commas, no header).
    kind : {"counts", "labels"} or None
        ``counts``: (n_queries, n_classes); ``labels``: (n_teachers, n_queries) of class indices. None decides only
        where there is no doubt: rows of one sum (``n_teachers``, when given) and a value that is too large for a class
        index, or ``classes`` that fit one kind alone.
    key : str or None
        Which array of an ``.npz``; needed when it has several.
    n_teachers : int or None
        What every row of counts must sum to.
    classes : iterable, int or None
        Class values or their number; needed for labels.
    rows : int or None
        Use the first ``rows`` queries only; at least 1.
    ask : callable or None
        Asked with a question when the kind is in doubt; returns the kind. None raises instead.

    Returns
    -------
    Votes

    Raises
    ------
    InvalidInputError
        No such file, a damaged one, not a matrix of whole numbers, rows that do not sum to the number of teachers, or a
        doubt about the kind.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "votes.npy"
    >>> np.save(file, [[8, 2], [5, 5]])
    >>> read_votes(file)
    Votes(n_queries=2, n_classes=2, n_teachers=10, counts=<sensitive>)
    """
    file = Path(path)
    if rows is not None:
        rows = check_int("rows", rows, low=1, remedy="Leave it out to use all queries.")
    if n_teachers is not None:
        n_teachers = check_int("n_teachers", n_teachers, low=1)
    if classes is not None:
        classes = check_classes(range(classes) if isinstance(classes, int | np.integer) else classes)
    check_vote_file(file)
    matrix = _read(file, key)
    if matrix.ndim != 2 or not matrix.size:
        raise InvalidInputError(f"{file} holds an array of shape {matrix.shape}; votes are a matrix with two axes.")
    if matrix.dtype.kind in "iuf" and not (np.abs(matrix.astype(np.float64)) <= _MOST_VOTES).all():
        raise InvalidInputError(
            f"{file} holds values that are not finite, or larger than {_MOST_VOTES}. Votes are counts or class indices."
        )
    if kind is None:
        kind = _certain_kind(file, matrix, n_teachers, None if classes is None else len(classes))
    if kind is None:
        question = (
            f"{file} has shape {matrix.shape}: is it counts (a row for each query, whose sum is the number of "
            "teachers) or labels (a row of class indices for each teacher)?"
        )
        if ask is None:
            raise InvalidInputError(f"{question} Say which: --kind counts or --kind labels.")
        kind = ask(question)
    if kind not in KINDS:
        raise InvalidInputError(f"kind must be one of 'counts', 'labels', got {kind!r}.")
    if kind == "counts":
        sums = np.unique(matrix.sum(axis=1)) if n_teachers is None else ()
        if len(sums) > 1:
            raise InvalidInputError(
                f"{file} holds no counts: its rows do not all sum to the number of teachers. If a row is a teacher's "
                "labels, say kind='labels' (--kind labels); if votes are missing, leave those rows out."
            )
        votes = Votes.from_counts(matrix, n_teachers=n_teachers, classes=classes)
    else:
        if classes is None:
            raise InvalidInputError(
                "classes must be given for labels: their number is public and cannot be read off the votes. "
                "Say --classes 10, for example."
            )
        votes = Votes.from_labels(matrix, classes=classes)
        if n_teachers is not None and votes.n_teachers != n_teachers:
            raise InvalidInputError(
                f"{file} has {votes.n_teachers} rows, but n_teachers={n_teachers}. Transpose the file?"
            )
    return votes if rows is None else votes.take(np.arange(min(rows, votes.n_queries)))


#: What a file of votes is: the end of errors about other tables.
_WANTED = (
    "Votes are whole numbers alone, without a header line: counts (one line per public row, one column per class, "
    "which sum to the number of teachers) or labels (one line per teacher, one column per public row, class indices). "
    "To label a table of your own, run pate label; to see what a budget buys, pate plan."
)


def check_vote_file(path: str | os.PathLike[str]) -> None:
    """Refuse a table that is no votes by the first line of its CSV file, before all that would be asked about votes."""
    file = Path(path)
    if file.suffix == ".csv" and file.is_file():
        with file.open("rb") as opened:
            cells = opened.readline(2**16).decode("utf-8", "replace").split(",")
        if not all(_is_number(cell) for cell in cells if cell.strip()):
            raise InvalidInputError(f"{file} is no file of votes: its first line holds texts. {_WANTED}")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _certain_kind(file: Path, matrix: npt.NDArray[Any], n_teachers: int | None, n_classes: int | None) -> str | None:
    """Return the kind when it can only be one; None when in doubt.

    Rows of one sum are not enough: those of teachers who agree have it too.
    """
    if matrix.dtype.kind not in "iuf" or not (matrix >= 0).all() or not (matrix == np.floor(matrix)).all():
        raise InvalidInputError(f"{file} holds other values than whole numbers >= 0. {_WANTED}")
    n_columns, largest = matrix.shape[1], matrix.max()
    if n_classes is not None:
        counts, labels = n_columns == n_classes, largest < n_classes
        if not counts and not labels:
            raise InvalidInputError(
                f"{file} is neither counts nor labels of {n_classes} classes: it has {n_columns} columns, and "
                f"values that are no class index 0 .. {n_classes - 1}. Check classes; transpose the file?"
            )
        if counts != labels:
            return "counts" if counts else "labels"
    sums = matrix.sum(axis=1)
    equal = (sums == n_teachers).all() if n_teachers is not None else len(sums) > 1 and (sums == sums[0]).all()
    # As class indices these would need more classes than there are queries.
    return "counts" if equal and largest >= n_columns else None


def _read(file: Path, key: str | None) -> npt.NDArray[Any]:
    if file.suffix not in _SUFFIXES:
        raise InvalidInputError(f"votes must be a {', '.join(_SUFFIXES)} file, got {file.name!r}.")
    if not file.is_file():
        raise InvalidInputError(f"there is no file {file}. Check the name and the folder.")
    if not file.stat().st_size:
        raise InvalidInputError(f"{file} is empty. Save it again.")
    if file.suffix == ".npz":
        arrays = read_npz(file, what="archive of numbers", remedy="Save it again.")
        names = list(arrays)
        if key is None and len(names) != 1:
            raise InvalidInputError(
                f"{file} holds the arrays {', '.join(names)}. Say which: --key {shlex.quote(names[0])}."
            )
        if key is not None and key not in names:
            raise InvalidInputError(f"key {key!r} is not in {file}, which holds {', '.join(names)}.")
        return arrays[names[0] if key is None else key]
    if file.suffix == ".npy":
        return read_npy(file, what="array of numbers", remedy="Save it again.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a file of blank lines: its shape is refused
            return np.loadtxt(file, delimiter=",", ndmin=2, encoding="utf-8")
    except BROKEN as error:
        # Not chained: the parser quotes a cell.
        raise InvalidInputError(f"{file} cannot be read as numbers ({type(error).__name__}). {_WANTED}") from None


# Labels released from such a file.


class FileVotes:
    """Teachers elsewhere, whose votes are in a file: a :class:`pate.votes.Voter` on places in it, shape (n, 1)."""

    def __init__(self, votes: Votes) -> None:
        self.classes_, self.n_teachers, self._votes = votes.classes, votes.n_teachers, votes

    def __repr__(self) -> str:
        return f"FileVotes({self._votes!r})"

    def vote(self, X: Any) -> Votes:
        """Return the votes at these places."""
        return self._votes.take(np.asarray(X)[:, 0])


@takes_former_names(anyway="force", ledger_currency="accounting_unit")
@dataclass(kw_only=True, eq=False, repr=False)
class VoteJob(JobSettings, LeavesModel):
    """The job behind ``pate label --votes``: read votes that were cast elsewhere, plan, and release labels.

    Parameters
    ----------
    votes : path
        ``.npy``, ``.npz`` or ``.csv``; see :func:`pate.jobs.vote_files.read_votes`.
    classes : iterable or int
        Every class that could occur, in the order of the votes' indices (or columns): public knowledge.
    budget : Budget
    public : path or None
        The table of public rows, of which line i is query i. With it the ledger recognises rows: what was answered
        before is free, and a run repeated after a crash spends nothing. Without it every run spends again.
    id : str or None
        Column of ``public`` that is written beside the labels, and is no part of a row.
    unit : {"record", "group"}
        What stands in one teacher's shard only: a record, or all records of a person (a site, ...).
    n_units : int or None
        How many of them there are, for the check of delta; public.
    kind, key, n_teachers
        See :func:`pate.jobs.vote_files.read_votes`.
    mechanism : Mechanism or None
        None calibrates a :class:`NoisyHistogram` to the budget.
    n_queries : int or None
        How many rows to ask about; see :class:`pate.PATEClassifier`.
    select : {"auto", "random", "first"}
        Which ones.
    gap, max_answers, on_exhausted
        See :class:`pate.PATEClassifier`.
    ledger : path, Ledger or None
        The ledger of all releases from the teachers' private data, whatever the file of votes is called. None: beside
        the votes, as ``NAME.ledger.sqlite``.
    accounting_unit : str or None
        What a new ledger counts in (``"gdp"``, ``"renyi"``, ...); see :class:`pate.Ledger`.
    new_ledger : bool
        Start that ledger, whose total is this budget: nothing was released from these private data before. Without it
        there must be one.
    student : str, classifier or None
        Who learns from the labels of ``public``, see :class:`pate.jobs.LabelJob`.
    keep_model : bool
        With ``public``: choose a student, and check that it learns, before anything is paid for.
    random_state, noise_seed, tuning, stated
        See :class:`pate.PATEClassifier`.
    commonest : float or None
        Share of the commonest class, where that is publicly known: labels that cannot do better are refused.
    force : bool
        Go on with a setting whose labels are expected to be useless.

    Attributes
    ----------
    plan : VotePlan
    queries_ : int64 array
        The rows that are asked about.

    Raises
    ------
    InvalidInputError
        Files or parameters that do not fit, or no ledger; nothing was spent.
    LedgerError
        The ledger is for other votes (or records): see :meth:`pate.Ledger.revise`.
    BudgetExceededError
        The budget, or what the ledger has left, does not buy the queries.

    Notes
    -----
    **Guarantees.** The file is taken at its word: one unit of the private data may change the votes of one teacher
    only. That holds if no unit stands in two shards (two sites, say) and no teacher saw anything of another one's.
    The charge is that of :func:`pate.release_labels`. Besides it the votes' values make a fingerprint, under the
    ledger's secret key, by which the ledger knows these votes again under any name, in any form and order of rows.

    Examples
    --------
    >>> import tempfile
    >>> from pate import Budget
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.save(folder / "votes.npy", [[98, 2], [5, 95], [60, 40]])
    >>> job = VoteJob(
    ...     folder / "votes.npy",
    ...     classes=["no", "yes"],
    ...     budget=Budget(5.0, 1e-5),
    ...     n_teachers=100,
    ...     new_ledger=True,
    ... )
    >>> print(job.plan)
    100 teachers; NoisyHistogram(sigma=...); 3 of 3 public rows asked; will spend (...)-DP, public, ...
    >>> [path.name for path in job.write(job.run(), folder / "labels.csv")]
    ['labels.csv', 'labels.statement.json', 'labels.statement.txt', 'labels.statement.html']
    """

    votes: str | os.PathLike[str] = field(kw_only=False)
    classes: Any = field()
    public: str | os.PathLike[str] | None = None
    unit: str = "record"
    n_units: int | None = None
    kind: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        check_path("votes", self.votes, remedy="For votes in memory: pate.Votes and pate.release_labels.")
        if self.public is not None:
            check_path("public", self.public)
        check_budget(self.budget)
        check_choice("unit", self.unit, UNITS)
        said = check_release_stated(self.stated, unit=self.unit)
        select = {"auto": "random"}.get(self.select, self.select)  # there may be no rows to see
        check_choice("select", select, ("random", "first"))
        if self.classes is None:
            raise InvalidInputError("classes must name every class (or say how many there are), got None.")
        file, public, n_units = Path(self.votes), self.public, self.n_units
        cast = read_votes(file, kind=self.kind, key=self.key, n_teachers=self.n_teachers, classes=self.classes)
        if n_units is not None:
            remedy = f"Every one of the {cast.n_teachers} teachers needs at least one."
            n_units = check_int("n_units", n_units, low=cast.n_teachers, remedy=remedy)
        if public is None and self.id is not None:
            raise InvalidInputError(
                f"id must be left out without public rows, got {self.id!r}: it is a column of theirs. Or name their "
                "table too."
            )
        shown = None if public is None else without_empty(read_table(public, id=check_id(self.id, cast.classes)))
        if shown is not None and len(shown.X) != cast.n_queries:
            raise InvalidInputError(
                f"public must have one row per query: {public} has {len(shown.X)}, {file} has votes on "
                f"{cast.n_queries}."
            )
        warn_if_weak(self.budget.delta, n_units, epsilon=self.budget.epsilon)
        asking = self.asking(cast.n_queries, n_teachers=cast.n_teachers, n_classes=cast.n_classes)
        places = np.arange(cast.n_queries).reshape(-1, 1)  # never chosen by the votes
        queries = select_queries(places, asking.n_queries, strategy=select, random_state=self.random_state)
        self.queries_ = queries
        hashes = None if shown is None else hash_queries(shown.X.iloc[queries])
        records = cast.fingerprint or votes_fingerprint(cast.counts, cast.n_teachers)
        self._voter = FileVotes(replace(cast, unit=self.unit, n_units=n_units, fingerprint=records))
        place = file.with_name(file.name + ".ledger.sqlite") if self.ledger is None else self.ledger
        self._ledger = book = open_ledger(place, self.accounting_unit)
        if self.new_ledger:
            check_absent(book)
        check_ledger(
            book,
            Registration(self.unit, cast.classes, n_units=n_units, fingerprint=records),
            file,
            new_ledger=self.new_ledger,
        )
        if not self.new_ledger and book.total is None:  # how often they were asked before is unknown
            raise InvalidInputError(
                f"there is no ledger {str(book.path)!r} for the votes {str(file)!r}. Name the one that all releases "
                "from these teachers' private data are charged to: ledger= (--ledger). If this is the first release "
                "from them, say new_ledger=True (--new-ledger)."
            )
        self._asked = places[queries]
        self._batch = batch = BatchPlan.of(self.terms(book, said), asking, queries, hashes)
        if shown is None and self.student is not None:
            raise InvalidInputError(
                f"student={self.student!r} has no rows to learn from: votes say nothing of what they are about. Name "
                "the public table too, line for line: public= (--public)."
            )
        if shown is None:
            self._source = Sources("table", None, np.empty(0), None, None, None)
        else:
            self._source = Sources(
                "table", None, np.empty(0), None, shown.X, shown.X, ids=shown.ids, id_name=shown.id_name,
                kinds=shown.kinds, written=shown.format,
            )  # fmt: skip
            if self.keep_model:
                noisy = isinstance(asking.mechanism, NoisyHistogram)
                n_answers = batch.n_free + batch.quote.max_answers
                self._pupil = Pupil.of(self, self._source, Rehearsal(queries, n_answers, cast.n_classes, noisy))
        self.plan = VotePlan(
            n_public=cast.n_queries,
            n_teachers=cast.n_teachers,
            unit=self.unit,
            mechanism=asking.mechanism,
            queries=queries,
            gap=asking.gap,
            n_free=batch.n_free,
            quote=batch.quote,
            total=about_total(book, batch.quote.charge, file, self.budget),
            expectation=expected_of_votes(asking.mechanism, cast.n_teachers, cast.n_classes),
        )
        self.check_enough(self.plan, len(queries), cast.n_classes)

    def run(self) -> LabelRelease:
        """Release; the charge is in the ledger before this returns.

        Returns
        -------
        LabelRelease
            In the order of ``plan.queries``.
        """
        outcome = self._batch.run(self._voter, self._asked, Evidence(classes_inferred=False))
        done = Learnt(doubted(outcome.release), outcome.queries, votes=outcome.votes)
        release: LabelRelease = self._released(done)
        return release
