"""The job itself: read, plan, train, ask, release."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_classes
from pate.core.curator import Told, tell
from pate.core.secret import beside_ledger
from pate.data import check_other_file, check_public_rows, recognised_by
from pate.data._shift import about_shift
from pate.data.files._arrow import file_of
from pate.estimator._roads import check_likeliest, check_ranges, road_of
from pate.exceptions import InvalidInputError, StudentError
from pate.jobs._asked import LabelSettings, check_absent, check_only_ledger
from pate.jobs._plan import BallotPlan, GradientPlan, LabelPlan
from pate.jobs._reading import as_classes, chosen_teacher, in_planes, read_classes, read_sources
from pate.jobs._records import BallotRoad, GradientRoad, ShardRoad
from pate.jobs._student import LeavesModel, measured_for, pupil_of_ballots, pupil_of_shards
from pate.jobs._writing import write_statement
from pate.ledger import Ledger, Registration
from pate.release import (
    LabelRelease,
    ModelLabels,
    ReleasedLabels,
    check_ballots_stated,
    check_release_stated,
    doubted,
)
from pate.students._asked import measured_labels
from pate.teachers import class_indices
from pate.teachers._usable import about_labels, owned
from pate.votes import hash_queries

if TYPE_CHECKING:
    from pate.dpsgd._checkpoint import Checkpoint


class LabelJob(LabelSettings, LeavesModel):
    """Read private records and public rows, plan, and release labels of public rows.

    Parameters
    ----------
    private, public : path
        Two tables (see :func:`pate.read_table`), or two folders of images (see :func:`pate.data.read_images`): private
        ones in one sub-folder per class, public ones flat. Of tables the public one says which columns are numbers; a
        private cell that is none there, a missing label or a missing owner is its own record's matter. No public one:
        DP-SGD learns from the private one alone, of a table within ``ranges``; there is a model then, and no labels.
    target : str or None
        Column of the private table with the classes; None for folders, and for an npz with ``y``.
    classes : iterable or None
        Every class that could occur: public knowledge. None reads them off the private target and warns.
    budget : Budget
    group : str or None
        Column that says whose row it is; then a person is protected, not a row. For images ``"prefix"``: whoever a
        file's name begins with, up to ``_``.
    drop : iterable of str
        Columns of either table to leave out.
    text : iterable of str
        Columns of codes: text even where all cells look like numbers. Columns that are text in the public table need
        not be named.
    id, only_common, sep, encoding, decimal, sheet, dates
        Of tables; see :func:`pate.data.read_both`. Ids of the public table are written beside the labels.
    voters : {"auto", "records", "heads", "shards", "dpsgd"} or None
        Who votes, see :class:`pate.PATEClassifier`: None is ``"auto"`` (every private record, on all public rows, or
        DP-SGD, by a public rule), unless something is said of teachers on shards (``teacher`` to ``preprocess`` below,
        or ``partition_seed``). Records need 20 public rows at least. ``"heads"`` trains small heads on the shards.
        ``"dpsgd"``: nobody votes; a model learns from the records, and labels all public rows.
    ranges : mapping, Schema or None
        Of DP-SGD, by column of a table: (low, high), or all categories as texts; see :class:`pate.DPSGDClassifier`. A
        :class:`pate.data.Schema` says the same, and which columns are dates.
        Columns without one are left out where there is no public table.
    teacher : str, classifier or None
        A name of :func:`pate.teachers.make_teacher`, or any scikit-learn classifier; with ``allow_import`` also
        ``package.module:attribute``. None takes ``"logistic-regression"``.
    allow_import : bool
        Import such a teacher, **which runs its code**.
    n_teachers : int or None
        None takes 100; of heads one for every 15 records, ten at least and 1,000 at most (100 with ``group``).
    mechanism : Mechanism or None
        None calibrates a :class:`NoisyHistogram` to the budget.
    n_queries : int or None
        See :class:`pate.PATEClassifier`.
    select : {"auto", "random", "first", "spread", "cluster", "uncertain"} or QueryChoice
        How public rows are chosen, from public information alone. ``"uncertain"`` asks in rounds, each where a student
        that learnt from the labels so far is least sure; all rounds are paid for before the first.
    rounds : int or None
        For ``"uncertain"``; None takes 5.
    student : str, classifier or None
        Who learns from the released labels, and is the model that :meth:`model` returns: a name of
        :func:`pate.students.make_student`, or any scikit-learn classifier. None takes the strongest for such data: the
        model of the ballots, where records vote, else the rule of :class:`pate.PATEClassifier`. With ``"uncertain"``
        its doubts also choose the rows of the next round (``"logistic-regression"``'s, where nobody is named).
    gap, max_answers, on_exhausted
        See :class:`pate.PATEClassifier`.
    preprocess : {"public", "shard", "none"}
        Where scaling and encoding of tables is learnt: from the public rows (always where records or heads vote), or
        inside every shard; never from all private rows. Pixels are divided by 255, which learns nothing.
    max_categories : int
        A text column becomes at most so many columns, for the categories that are frequent in public rows (in the
        shard, for ``"shard"``); others count as one.
    size, resize, color
        Of images: (width, height), whether to bring others to it, and ``"grey"`` or ``"rgb"`` to bring all to that.
        None takes them from the public images, and refuses others.
    overlap_is_public : bool
        You say that the public rows are public, wherever they also stand. Otherwise one file on both sides, and public
        rows that are mostly private ones, are refused; see :func:`pate.data.check_public_rows`.
    ledger : path or None
        All releases from this private data; their total is the first one's budget.
    ledger_currency : str or None
        What a new ledger counts in; see :class:`pate.Ledger`.
    new_ledger : bool
        Start another ledger although one beside it (or beside the private file) knows these records.
    checkpoint_dir : path or None
        Where finished teachers are kept (or what was fitted on public rows, where records vote; of DP-SGD its run): a
        killed run goes on.
    commonest : float or None
        Share of the commonest class, where that is publicly known: labels expected to be worse are refused.
    measure : bool, "by class" or None
        See :class:`pate.PATEClassifier`. Where teachers vote it is of the student, which ``keep_model`` keeps.
    decide : {"likeliest", "balanced"}
        See :class:`pate.PATEClassifier`; not where teachers on shards vote.
    keep_model : bool
        Choose a student, and see that it learns, before anything is paid for; False: there will be labels alone.
    n_jobs, random_state, partition_seed, noise_seed, tuning, stated, anyway, verbose
        See :class:`pate.PATEClassifier`.

    Attributes
    ----------
    voters : str
        Who votes, or ``"dpsgd"``.
    plan : BallotPlan, GradientPlan or LabelPlan
        The last where teachers vote.
    queries_ : int64 array
        After :meth:`run`: the public rows that were asked about, in the order of the release; all, where records vote
        or DP-SGD learns.

    Raises
    ------
    InvalidInputError
        Files, columns, classes or parameters that do not fit; nothing was trained or spent.
    BudgetExceededError
        The budget, or what the ledger has left, does not buy the queries.

    Examples
    --------
    >>> import tempfile, pandas as pd
    >>> from pate import Budget
    >>> folder = Path(tempfile.mkdtemp())
    >>> rows = pd.DataFrame({"age": range(600), "ill": ["no"] * 300 + ["yes"] * 300})
    >>> rows.to_csv(folder / "private.csv", index=False)
    >>> (rows[["age"]].iloc[::20] + 0.5).to_csv(folder / "public.csv", index=False)
    >>> given = {"target": "ill", "classes": ["no", "yes"], "budget": Budget(1.0, 1e-4)}
    >>> job = LabelJob(folder / "private.csv", folder / "public.csv", **given)
    >>> print(job.plan)
    600 records vote in ... rounds; Gaussian noise, ...; all 30 public rows; will spend (1, 0.0001)-DP, public, ...
    >>> job.run().n_answered
    30

    Teachers on shards, where something is said of them:

    >>> by_teachers = LabelJob(folder / "private.csv", folder / "public.csv", n_teachers=60, **given)
    >>> print(by_teachers.plan)
    600 records over 60 teachers; NoisyHistogram(sigma=...); ... public rows asked; will spend (...)-DP, public, ...

    No public rows, and a range that somebody knows:

    >>> alone = LabelJob(folder / "private.csv", ranges={"age": (0, 1000)}, **given)
    >>> print(alone.plan)
    DP-SGD learns from 600 records in 40 steps, ...; no public rows; will spend (1, 0.0001)-DP, public, ...
    >>> release = alone.run()
    >>> release.n_queries, alone.model(release).predict(pd.DataFrame({"age": [20.0, 580.0]})).tolist()
    (0, ['no', 'yes'])
    """

    queries_: npt.NDArray[np.int64]
    plan: BallotPlan | GradientPlan | LabelPlan
    _kept: Checkpoint | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        named = check_classes(self.classes) if self.classes is not None else None
        estimator = chosen_teacher(self.teacher, allow_import=self.allow_import)
        if self.public is not None and not self.overlap_is_public:
            check_other_file(self.private, self.public)
        self._source = source = read_sources(self, named)
        self._classes = named
        self._ledger = None if self.ledger is None else Ledger(self.ledger, currency=self.ledger_currency)
        if self.new_ledger:
            check_absent(self._ledger)
        self._private, self._told = file_of(self.private), False
        n_classes, why = 2 if named is None else len(named), ""
        if self.voters == "auto":
            self.voters, why = road_of(
                source.public,
                self.budget,
                n_units=source.n_units,
                n_classes=n_classes,
                image_shape=source.image_shape,
                ranges=self.ranges,
            )
        check_ranges(self.ranges, str(self.voters))
        if self.voters == "dpsgd":
            self.check_heeded()
        if self.public is not None and not self.overlap_is_public:
            check_public_rows(source.X, source.public, source.groups)
        terms = self.terms(self._ledger, self._stated())
        if self.voters in ("dpsgd", "records"):
            self._classes = classes = read_classes(source.y) if named is None else named
            representation = None
            if self.voters == "dpsgd":
                self._training = GradientRoad.of(self, source, terms, classes=classes, why=why)
                self.plan = self._training.plan
            else:
                self._ballots = BallotRoad.of(self, source, terms, classes=classes, why=why)
                self.plan = self._ballots.plan
                representation = self._ballots.ballots.voters.representation
            if self.keep_model:
                self._pupil = pupil_of_ballots(self, source, n_classes=len(classes), representation=representation)
            elif self.public is None:
                raise InvalidInputError(
                    "keep_model must be True (no --no-model) where there are no public rows: the model is all there is."
                )
            return
        check_likeliest(self.decide)
        measure = measured_for(self.measure, keep_model=self.keep_model)
        self._shards = ShardRoad.of(self, source, terms, classes=named, estimator=estimator, measure=measure)
        self.plan = self._shards.plan
        if self.keep_model:
            self._pupil = pupil_of_shards(self, self._shards, teacher=estimator, n_classes=n_classes)
        if self._ledger is not None:
            self._shards.teachers.keep_secret_in(beside_ledger(self._ledger.path))

    def __repr__(self) -> str:
        return f"LabelJob({self.plan})"

    # Planning ----------------------------------------------------------------------------------------------------

    def _stated(self) -> dict[str, str]:
        if self.voters == "records":
            return check_ballots_stated(self.stated, residual=True)
        if self.voters == "dpsgd":
            return dict(self.stated or {})  # the plan knows what may be stated
        return check_release_stated(self.stated, unit=self._source.unit, classes_inferred=self._classes is None)

    # Running -----------------------------------------------------------------------------------------------------

    def run(self) -> LabelRelease | ModelLabels:
        """Let records vote, or train teachers and ask them, and release; the charge is stored before this returns.

        Returns
        -------
        RecordLabels, ModelLabels or LabelRelease
            In the order of ``queries_``. The second of DP-SGD, without public rows of none; the last where teachers
            vote.
        """
        if not self._told:
            self._tell(counted=False)  # voters and teachers tell of records that they cannot use
        y, _ = self._checked()
        release: LabelRelease | ModelLabels
        if self.voters == "dpsgd":
            self.queries_ = np.arange(self.plan.n_public)
            release, self._model, self._kept = self._training.run(y)
        elif self.voters == "records":
            self.queries_ = np.arange(self.plan.n_public)
            release, self._model = self._ballots.run(y)
        else:
            release = self._by_teachers(y)
        if self._ledger is not None:
            self._ledger.warn_of_other_features(release.statement.ledger_releases)
        return self._bound(release)

    def _by_teachers(self, y: npt.NDArray[Any]) -> LabelRelease:
        """Train, ask and release; and count about how many records the labels' student is right, where that is paid."""
        source, outcome = self._source, self._shards.run(y)
        self.queries_, release, cells = outcome.queries, outcome.release, None
        if outcome.counts is not None and self._pupil is not None:
            with suppress(StudentError):  # model() says so, once the labels are written
                student = self._pupil.fitted(release, outcome.queries)
                release, cells = measured_labels(
                    release,
                    outcome.counts,
                    student,
                    in_planes(source.X, source.image_shape),
                    class_indices(y, release.classes),
                    usable=np.ones(len(y), dtype=bool),
                    groups=source.groups,
                    told=(self._pupil.student, self._pupil.lens, self._pupil.seed, hash_queries(source.hashed)),
                    asked_for=bool(self.measure),
                )
                self._taught = release.labels, student
        return doubted(release, commonest=self._shards.commonest, cells=cells)

    def check_records(self) -> tuple[Told, ...]:
        """Tell the curator before :meth:`run` what it would tell or refuse, of labels, owners, columns and the ledger.

        Returns
        -------
        tuple of Told
            What was warned of, and what of it is for a terminal alone. **Private:** nothing that is released hangs on
            it, and whether anybody went on after reading it is not for publication.

        Warns
        -----
        CuratorWarning
            Records do not vote; a class was named that none has; a column may be ids of people.
        CovariateShiftWarning
            Private columns stand elsewhere than public ones, as in other units.
        """
        return self._tell()

    def _tell(self, *, counted: bool = True) -> tuple[Told, ...]:
        y, values = self._checked()
        self._told, source = True, self._source
        shift = [] if source.public is None else about_shift(source.X, source.public, image_shape=source.image_shape)
        return tell([*about_labels(y, source.groups, values, counted=counted), *source.told, *shift], stacklevel=4)

    def _checked(self) -> tuple[npt.NDArray[Any], tuple[Any, ...]]:
        """Return labels and classes; see before days of training, not after, that the ledger is of these records."""
        values = self._classes
        if values is None:
            values = self._classes = self._shards.teachers.classes = read_classes(self._source.y)
        y = as_classes(self._source.y, values)
        if self._ledger is not None:
            groups, _ = owned(self._source.groups, len(y))  # as the voters will see them
            known = recognised_by(self._source.X, class_indices(y, values), groups)
            data = Registration(self.plan.unit, values, n_units=self.plan.n_units, **known)
            check_only_ledger(self._ledger, data, self._private, new_ledger=self.new_ledger)
            self._ledger.check(data)
            if not self.plan.is_paid:
                self._ledger.check_writable()
        return y, values

    def finish(self) -> None:
        """Take away what DP-SGD kept to go on with, key and all, once all files are written; nothing else has any.

        Until then the same job, after a kill, gives the very model that was paid for.
        """
        if self._kept is not None:
            self._kept.remove()

    def write(
        self, release: ReleasedLabels, out: str | os.PathLike[str], *, proba: bool = False, safe_csv: bool = False
    ) -> list[Path]:
        """Write the labels and the statement.

        Parameters
        ----------
        release : LabelRelease
        out : path
            A CSV file: the public rows' own ids where there are some (``id``), ``row`` (position in the public file,
            from 0; for images ``file``, their name), ``label`` (empty where there is none) and ``status`` of *every*
            public row. Where records vote also ``confidence``, the probability of the label by the model that was
            released; where noisy counts were released ``lead``, in votes, and ``confidence``, how probable it is that
            the label leads the votes without their noise. The statement goes beside it as ``.statement.json``,
            ``.statement.txt`` and ``.statement.html`` (one page to print); alone where there are no public rows.
        proba : bool
            Also one column per class, ``p_CLASS``: of what ``confidence`` is the label's.
        safe_csv : bool
            Put an apostrophe before labels and names that a spreadsheet would take for a formula.

        Returns
        -------
        list of Path
        """
        if self._source.public is None:
            return write_statement(release.statement, out, ledger=self._ledger)
        return self._write(
            release,
            self.queries_,
            out,
            n_public=self.plan.n_public,
            names=self._source.names,
            proba=proba,
            ids=self._source.ids,
            id_name=self._source.id_name,
            safe_csv=safe_csv,
        )
