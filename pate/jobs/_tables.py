"""The job itself: read, plan, train, ask, release."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pate.core.checks import check_choice, check_classes, check_int
from pate.core.curator import Told, tell
from pate.core.secret import beside_ledger
from pate.data import check_other_file, check_public_rows, recognised_by
from pate.data._shift import about_shift
from pate.data.files._arrow import file_of
from pate.estimator._roads import check_likeliest, check_ranges, measured_with, road_of
from pate.exceptions import InvalidInputError, StudentError
from pate.jobs._choice import make_choice, who_votes
from pate.jobs._ledgers import check_absent, check_only_ledger
from pate.jobs._plan import BallotPlan, GradientPlan, LabelPlan
from pate.jobs._reading import as_classes, chosen_teacher, read_classes, read_sources, units_of
from pate.jobs._records import BallotRoad, GradientRoad, check_heeded, in_planes
from pate.jobs._shards import ShardRoad
from pate.jobs._student import LeavesModel, measured_for, pupil_of_ballots, pupil_of_shards
from pate.jobs._writing import write_statement
from pate.ledger import Ledger, Registration
from pate.mechanisms import Mechanism
from pate.privacy.budget import Budget, check_budget
from pate.release import (
    LabelRelease,
    ModelLabels,
    ReleasedLabels,
    ReleaseTerms,
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

PREPROCESSING = ("public", "shard", "none")


class LabelJob(LeavesModel):
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
    ranges : mapping or None
        Of DP-SGD, by column of a table: (low, high), or all categories as texts; see :class:`pate.DPSGDClassifier`.
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

    def __init__(
        self,
        private: str | os.PathLike[str],
        public: str | os.PathLike[str] | None = None,
        *,
        budget: Budget,
        target: str | None = None,
        classes: Any = None,
        group: str | None = None,
        drop: Iterable[str] = (),
        text: Iterable[str] = (),
        id: str | None = None,
        only_common: bool = False,
        sep: str | None = None,
        encoding: str | None = None,
        decimal: str | None = None,
        sheet: str | None = None,
        dates: str = "auto",
        voters: str | None = None,
        ranges: Mapping[str, Any] | None = None,
        teacher: Any = None,
        allow_import: bool = False,
        n_teachers: int | None = None,
        mechanism: Mechanism | None = None,
        n_queries: int | None = None,
        select: Any = "auto",
        rounds: int | None = None,
        student: Any = None,
        gap: float | None = None,
        max_answers: int | None = None,
        on_exhausted: str = "raise",
        preprocess: str = "public",
        max_categories: int = 50,
        size: tuple[int, int] | None = None,
        resize: bool = False,
        color: str | None = None,
        overlap_is_public: bool = False,
        ledger: str | os.PathLike[str] | None = None,
        ledger_currency: str | None = None,
        new_ledger: bool = False,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
        random_state: int | None = 0,
        partition_seed: int | None = None,
        noise_seed: int | None = None,
        tuning: str = "",
        stated: Mapping[str, str] | None = None,
        commonest: float | None = None,
        keep_model: bool = True,
        measure: bool | str | None = None,
        decide: str = "likeliest",
        anyway: bool = False,
        verbose: bool = False,
    ) -> None:
        check_budget(budget)
        check_choice("preprocess", preprocess, PREPROCESSING)
        check_int("max_categories", max_categories, low=2)
        said = {
            "teacher": teacher,
            "n_teachers": n_teachers,
            "mechanism": mechanism,
            "n_queries": n_queries,
            "select": select,
            "rounds": rounds,
            "gap": gap,
            "max_answers": max_answers,
            "on_exhausted": on_exhausted,
            "preprocess": preprocess,
            "partition_seed": partition_seed,
        }
        who = who_votes(voters, said)
        if public is None and who not in ("auto", "dpsgd"):
            raise InvalidInputError(
                f"public must be given where voters={who!r}: they label public rows. Name some, or say voters='dpsgd' "
                "(--voters dpsgd)."
            )
        if n_teachers is not None:
            n_teachers = check_int("n_teachers", n_teachers, low=1)
        choice = make_choice(select, rounds=rounds, student=student if select == "uncertain" else None)
        named = check_classes(classes) if classes is not None else None
        teacher = "logistic-regression" if teacher is None else teacher
        estimator = chosen_teacher(teacher, allow_import=allow_import)
        if public is not None and not overlap_is_public:
            check_other_file(private, public)
        source = read_sources(
            private, public, target=target, ranges=ranges, group=group, drop=drop, text=text, classes=named,
            table={"id": id, "only_common": only_common, "sep": sep, "encoding": encoding, "decimal": decimal,
                   "sheet": sheet, "dates": dates},
            size=size, resize=resize, color=color, verbose=verbose,
        )  # fmt: skip
        self._source, self._classes = source, named
        self._ledger = None if ledger is None else Ledger(ledger, currency=ledger_currency)
        if new_ledger:
            check_absent(self._ledger)
        self._private, self._new_ledger, self._told = file_of(private), new_ledger, False
        unit, n_units = units_of(source)
        why = ""
        if who == "auto":
            n_classes = 2 if named is None else len(named)
            shape = source.image_shape
            who, why = road_of(
                source.public, budget, n_units=n_units, n_classes=n_classes, image_shape=shape, ranges=ranges
            )
        check_ranges(ranges, who)
        self.voters = who
        if who == "dpsgd":
            check_heeded(
                {"max_categories": max_categories, "commonest": commonest, "text": text, "dates": dates,
                 "only_common": only_common, "overlap_is_public": overlap_is_public, "student": student},
                public=public is not None,
            )  # fmt: skip
        if public is not None and not overlap_is_public:
            check_public_rows(source.X, source.public, source.groups)
        public_rows = "declared" if overlap_is_public else "checked"
        terms = ReleaseTerms(
            budget=budget,
            ledger=self._ledger,
            max_answers=max_answers,
            on_exhausted=on_exhausted,
            noise_seed=noise_seed,
            tuning=tuning,
            stated=self._stated(stated, unit),
        )
        fitted: dict[str, Any] = {
            "max_categories": max_categories,
            "random_state": random_state,
            "checkpoint_dir": checkpoint_dir,
            "verbose": verbose,
        }
        if who == "dpsgd":
            self._classes = read_classes(source.y) if named is None else named
            self._training = GradientRoad.of(
                source,
                terms,
                classes=self._classes,
                classes_inferred=named is None,
                public_rows=public_rows,
                why=why,
                ranges=ranges,
                random_state=random_state,
                checkpoint_dir=checkpoint_dir,
                measure=measured_with(measure, student),
                decide=decide,
                verbose=verbose,
            )
            self.plan = self._training.plan
            if keep_model:
                self._pupil = pupil_of_ballots(
                    source, student, n_classes=len(self._classes), max_categories=max_categories,
                    random_state=random_state, voters=who,
                )  # fmt: skip
            elif public is None:
                raise InvalidInputError(
                    "keep_model must be True (no --no-model) where there are no public rows: the model is all there is."
                )
            return
        if self.voters == "records":
            self._classes = read_classes(source.y) if named is None else named
            self._ballots = BallotRoad.of(
                source,
                terms,
                classes=self._classes,
                classes_inferred=named is None,
                public_rows=public_rows,
                anyway=anyway,
                commonest=commonest,
                measure=measured_with(measure, student),
                decide=decide,
                n_jobs=n_jobs,
                why=why,
                **fitted,
            )
            self.plan = self._ballots.plan
            if keep_model:
                self._pupil = pupil_of_ballots(
                    source, student, n_classes=len(self._classes), max_categories=max_categories,
                    random_state=random_state, representation=self._ballots.ballots.voters.representation,
                )  # fmt: skip
            return
        check_likeliest(decide)
        self._measure_asked = bool(measure)
        self._shards = ShardRoad.of(
            source,
            terms,
            classes=named,
            heads=self.voters == "heads",
            teacher=teacher,
            estimator=estimator,
            n_teachers=n_teachers,
            mechanism=mechanism,
            n_queries=n_queries,
            gap=gap,
            choice=choice,
            select=select,
            preprocess=preprocess,
            public_rows=public_rows,
            anyway=anyway,
            commonest=commonest,
            measure=measured_for(measure, keep_model=keep_model),
            n_jobs=n_jobs,
            partition_seed=partition_seed,
            **fitted,
        )
        self.plan = self._shards.plan
        if keep_model:
            self._pupil = pupil_of_shards(
                self._shards, student, teacher=estimator, n_classes=2 if named is None else len(named),
                max_categories=max_categories, random_state=random_state,
            )  # fmt: skip
        if self._ledger is not None:
            self._shards.teachers.keep_secret_in(beside_ledger(self._ledger.path))

    def __repr__(self) -> str:
        return f"LabelJob({self.plan})"

    # Planning ----------------------------------------------------------------------------------------------------

    def _stated(self, stated: Mapping[str, str] | None, unit: str) -> dict[str, str]:
        if self.voters == "records":
            return check_ballots_stated(stated, residual=True)
        if self.voters == "dpsgd":
            return dict(stated or {})  # the plan knows what may be stated
        return check_release_stated(stated, unit=unit, classes_inferred=self._classes is None)

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
                    asked_for=self._measure_asked,
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
            check_only_ledger(self._ledger, data, self._private, new_ledger=self._new_ledger)
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
