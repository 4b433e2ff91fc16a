"""Release labels from a file of votes that teachers elsewhere cast: files in, files out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pate.core.checks import check_choice, check_int
from pate.data import read_table, votes_fingerprint
from pate.exceptions import InvalidInputError
from pate.jobs._ledgers import check_votes_ledger
from pate.jobs._plan import VotePlan
from pate.jobs._student import LeavesModel, Pupil, door_of
from pate.jobs._writing import check_id
from pate.jobs.vote_files import read_votes
from pate.ledger import Ledger, Registration
from pate.mechanisms import Mechanism, NoisyHistogram
from pate.privacy.budget import Budget, check_budget
from pate.queries import select_queries
from pate.release import (
    BatchPlan,
    Evidence,
    LabelRelease,
    ReleaseTerms,
    check_enough,
    check_release_stated,
    doubted,
    expected_of_votes,
    plan_release,
    warn_if_weak,
)
from pate.votes import Votes, hash_queries

UNITS = ("record", "group")
#: Most columns that one text column becomes for the student.
_MAX_CATEGORIES = 50


class FileVotes:
    """Teachers elsewhere, whose votes are in a file: a :class:`pate.votes.Voter` on places in it, shape (n, 1)."""

    def __init__(self, votes: Votes) -> None:
        self.classes_, self.n_teachers, self._votes = votes.classes, votes.n_teachers, votes

    def __repr__(self) -> str:
        return f"FileVotes({self._votes!r})"

    def vote(self, X: Any) -> Votes:
        """Return the votes at these places."""
        return self._votes.take(np.asarray(X)[:, 0])


class VoteJob(LeavesModel):
    """Read votes that were cast elsewhere, plan, and release labels of the rows they are about.

    Parameters
    ----------
    votes : path
        ``.npy``, ``.npz`` or ``.csv``; see :func:`pate.jobs.vote_files.read_votes`.
    classes : iterable or int
        Every class that could occur, in the order of the votes' indices (or columns): public knowledge.
    budget : Budget
    public : path or None
        The table of public rows, of which line i is query i. With it the ledger recognises rows: what was answered
        before is free, and a run repeated after a crash spends nothing. Without it every run spends anew.
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
    ledger : path or None
        The ledger of all releases from the teachers' private data, whatever the file of votes is called. None: beside
        the votes, as ``NAME.ledger.sqlite``.
    ledger_currency : str or None
        What a new ledger counts in; see :class:`pate.Ledger`.
    new_ledger : bool
        Start that ledger, whose total is this budget: nothing was released from these private data before. Without it
        there must be one.
    student : str, classifier or None
        Who learns from the labels of ``public``, see :class:`pate.jobs.LabelJob`.
    keep_model : bool
        With ``public``: choose a student, and see that it learns, before anything is paid for.
    random_state, noise_seed, tuning, stated
        See :class:`pate.PATEClassifier`.
    commonest : float or None
        Share of the commonest class, where that is publicly known: labels that cannot do better are refused.
    anyway : bool
        Go on with a setting from which nearly nothing is to be expected.

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
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.save(folder / "votes.npy", [[98, 2], [5, 95], [60, 40]])
    >>> job = VoteJob(folder / "votes.npy", classes=["no", "yes"], budget=Budget(5.0, 1e-5), n_teachers=100,
    ...     new_ledger=True)
    >>> print(job.plan)
    100 teachers; NoisyHistogram(sigma=...); 3 of 3 public rows asked; will spend (...)-DP, public, ...
    >>> [path.name for path in job.write(job.run(), folder / "labels.csv")]
    ['labels.csv', 'labels.statement.json', 'labels.statement.txt', 'labels.statement.html']
    """

    def __init__(
        self,
        votes: str | os.PathLike[str],
        *,
        classes: Any,
        budget: Budget,
        public: str | os.PathLike[str] | None = None,
        id: str | None = None,
        unit: str = "record",
        n_units: int | None = None,
        kind: str | None = None,
        key: str | None = None,
        n_teachers: int | None = None,
        mechanism: Mechanism | None = None,
        n_queries: int | None = None,
        select: str = "auto",
        gap: float | None = None,
        max_answers: int | None = None,
        on_exhausted: str = "raise",
        ledger: str | os.PathLike[str] | None = None,
        ledger_currency: str | None = None,
        new_ledger: bool = False,
        random_state: int | None = 0,
        noise_seed: int | None = None,
        tuning: str = "",
        stated: Mapping[str, str] | None = None,
        commonest: float | None = None,
        student: Any = None,
        keep_model: bool = True,
        anyway: bool = False,
    ) -> None:
        check_budget(budget)
        check_choice("unit", unit, UNITS)
        said = check_release_stated(stated, unit=unit)
        select = {"auto": "random"}.get(select, select)  # there may be no rows to see
        check_choice("select", select, ("random", "first"))
        if classes is None:
            raise InvalidInputError("classes must name every class (or say how many there are), got None.")
        file = Path(votes)
        cast = read_votes(file, kind=kind, key=key, n_teachers=n_teachers, classes=classes)
        if n_units is not None:
            remedy = f"Every one of the {cast.n_teachers} teachers needs at least one."
            n_units = check_int("n_units", n_units, low=cast.n_teachers, remedy=remedy)
        if public is None and id is not None:
            raise InvalidInputError(f"id is a column of public, which is not given, got {id!r}. Name the table too.")
        shown = None if public is None else read_table(public, id=check_id(id, cast.classes))
        rows = None if shown is None else shown.X
        self._ids = None if shown is None else shown.ids
        self._id_name = id
        if rows is not None and len(rows) != cast.n_queries:
            raise InvalidInputError(
                f"public must have one row per query: {public} has {len(rows)}, {file} has votes on {cast.n_queries}."
            )
        warn_if_weak(budget.delta, n_units, epsilon=budget.epsilon)
        asking = plan_release(
            budget,
            cast.n_queries,
            n_teachers=cast.n_teachers,
            n_classes=cast.n_classes,
            mechanism=mechanism,
            n_queries=n_queries,
            gap=gap,
            anyway=anyway,
        )
        places = np.arange(cast.n_queries).reshape(-1, 1)  # never chosen by the votes
        queries = select_queries(places, asking.n_queries, strategy=select, random_state=random_state)
        self.queries_ = queries
        hashes = None if rows is None else hash_queries(rows.iloc[queries])
        records = cast.fingerprint or votes_fingerprint(cast.counts, cast.n_teachers)
        self._voter = FileVotes(replace(cast, unit=unit, n_units=n_units, fingerprint=records))
        place = file.with_name(file.name + ".ledger.sqlite") if ledger is None else ledger
        self._ledger = book = Ledger(place, currency=ledger_currency)
        data = Registration(unit, cast.classes, n_units=n_units, fingerprint=records)
        check_votes_ledger(book, data, file, new_ledger=new_ledger)
        book.check(data)
        terms = ReleaseTerms(
            budget=budget,
            ledger=book,
            max_answers=max_answers,
            on_exhausted=on_exhausted,
            noise_seed=noise_seed,
            tuning=tuning,
            stated=said,
        )
        self._asked, self._batch = places[queries], BatchPlan.of(terms, asking, queries, hashes)
        if rows is None and student is not None:
            raise InvalidInputError(
                f"student={student!r} has no rows to learn from: votes say nothing of what they are about. Name the "
                "public table too (public=, --public), line for line."
            )
        if rows is not None and keep_model:
            self._pupil = Pupil.of(
                rows,
                None,
                door=door_of(rows, None, {})
                if shown is None
                else door_of(rows, None, shown.kinds, shown.format.decimal),
                student=student,
                voters="shards",
                noisy_counts=isinstance(asking.mechanism, NoisyHistogram),
                n_classes=cast.n_classes,
                queries=queries,
                n_answers=self._batch.n_free + self._batch.quote.max_answers,
                max_categories=_MAX_CATEGORIES,
                random_state=random_state,
            )
        self.plan = VotePlan(
            n_public=cast.n_queries,
            n_teachers=cast.n_teachers,
            unit=unit,
            mechanism=asking.mechanism,
            queries=queries,
            gap=asking.gap,
            n_free=self._batch.n_free,
            quote=self._batch.quote,
            expectation=expected_of_votes(asking.mechanism, cast.n_teachers, cast.n_classes),
        )
        if not (anyway or self.plan.is_paid):
            check_enough(
                self._batch.quote.max_answers + self._batch.n_free,
                asking.mechanism,
                budget=budget,
                n_public=cast.n_queries,
                n_teachers=cast.n_teachers,
                n_classes=cast.n_classes,
                commonest=commonest,
            )

    def run(self) -> LabelRelease:
        """Release; the charge is in the ledger before this returns.

        Returns
        -------
        LabelRelease
            In the order of ``plan.queries``.
        """
        outcome = self._batch.run(self._voter, self._asked, Evidence(classes_inferred=False))
        return self._bound(doubted(outcome.release))

    def write(
        self, release: LabelRelease, out: str | os.PathLike[str], *, proba: bool = False, safe_csv: bool = False
    ) -> list[Path]:
        """Write the labels and the statement.

        Parameters
        ----------
        release : LabelRelease
        out : path
            A CSV file: ``row`` (position among the votes' queries, from 0), ``label`` (empty where there is none) and
            ``status`` of *every* row; where noisy counts are released ``lead`` and ``confidence``, see
            :meth:`pate.jobs.LabelJob.write`. The statement goes beside it as ``.statement.json``, ``.statement.txt``
            and ``.statement.html``.
        proba : bool
            Also one column per class, ``p_CLASS``.
        safe_csv : bool
            Put an apostrophe before labels that a spreadsheet would take for a formula.

        Returns
        -------
        list of Path

        Raises
        ------
        RunFolderError
            One of them exists: results are never overwritten. Ask with :func:`pate.jobs.check_new_files` before
            :meth:`run`.
        """
        return self._write(
            release,
            self._batch.queries,
            out,
            n_public=self.plan.n_public,
            ids=self._ids,
            id_name=self._id_name,
            proba=proba,
            safe_csv=safe_csv,
        )
