"""The job on private records: read, plan, train, ask, release."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from pate._core.checks import check_classes
from pate._core.curator import CuratorMessage, warn_curator
from pate.data import about_shift, check_other_file, check_public_rows, file_of, recognised_by
from pate.data.copula import about_cells
from pate.estimators import check_schema, method_of, tiers_of
from pate.exceptions import InvalidInputError
from pate.jobs._plan import BallotPlan, GradientPlan, LabelPlan, SyntheticRowsPlan
from pate.jobs._reading import as_classes, chosen_teacher, read_classes, read_sources
from pate.jobs._records import BallotMethod, GradientMethod, ShardMethod, SyntheticMethod
from pate.jobs._request import LabelSettings, check_absent, check_ledger, open_ledger
from pate.jobs._student import LeavesModel
from pate.jobs._writing import write_rows
from pate.ledger import Registration
from pate.models.recipes import to_equal
from pate.release import (
    LabelRelease,
    ModelLabels,
)
from pate.teachers import about_labels, class_indices, owned

if TYPE_CHECKING:
    pass


class LabelJob(LabelSettings, LeavesModel):
    """The job behind ``pate label``: read private records and public rows from files, plan, and release labels.

    Parameters
    ----------
    private, public : path
        Two tables (see :func:`pate.read_table`), or two folders of images (see :func:`pate.data.read_images`): private
        ones in one sub-folder per class, public ones flat. The public table decides which columns are numbers. A
        private cell that is not a number there, a missing label or a missing owner affects its own record only. Without
        a public table, records vote on synthetic rows of the ``schema``, or DP-SGD learns from the private table alone:
        you get a model, but no labels of rows of yours.
    target : str or None
        Column of the private table with the classes; None for folders, and for an npz with ``y``.
    classes : iterable or None
        Every class that could occur: public knowledge. None takes them from the private target and warns.
    budget : Budget, or mapping of str to Budget
        One for all, or (where records vote on a public table) one for each tier: see ``tiers``.
    tiers : str or None
        Column of the private table with the tier of each row, a text. It is not a feature, and not protected
        (docs/tiers.md).
    group : str or None
        Column with the person that each row belongs to: then a person is protected, with all their rows. For images
        ``"prefix"``: the part of a file's name before ``_``.
    drop : iterable of str
        Columns of either table to leave out.
    text : iterable of str
        Columns that hold text even if every cell looks like a number, such as codes. Columns that are text in the
        public table need not be named.
    id, only_common, sep, encoding, decimal, thousands, sheet, dates
        For tables; see :func:`pate.data.read_both`. Ids of the public table are written beside the labels.
    voters : {"auto", "records", "heads", "shards", "dpsgd"} or None
        Who votes, see :class:`pate.PATEClassifier`: None is ``"auto"`` (every private record, on all public rows, or
        DP-SGD, by a public rule), unless a parameter of teachers on shards is set (``teacher`` to ``preprocess`` below,
        or ``partition_seed``). Records need at least 20 public rows. ``"heads"`` trains small models (heads) on the
        shards. ``"dpsgd"``: nobody votes; a model learns from the records and labels all public rows.
    schema : mapping, Schema or None
        For DP-SGD: for each column of a table (low, high), or all its categories as texts; see
        :class:`pate.DPSGDClassifier`. A :class:`pate.data.Schema` also says which columns are dates. Without a public
        table, columns that the schema does not name are left out.
    teacher : str, classifier or None
        A name of :func:`pate.teachers.make_teacher`, or any scikit-learn classifier; with ``allow_import`` also
        ``package.module:attribute``. None takes ``"logistic-regression"``.
    allow_import : bool
        Import such a teacher, **which runs its code**.
    n_teachers : int or None
        None takes 100; for heads one for every 15 records, at least 10 and at most 1,000 (100 with ``group``).
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
        The model that learns from the released labels, which :meth:`model` returns: a name of
        :func:`pate.models.students.make_student`, or any scikit-learn classifier. None: where records vote, the model
        computed from their ballots; else the rule of :class:`pate.PATEClassifier`. With ``"uncertain"`` the next round
        asks about the rows where it is least sure (``"logistic-regression"``, if you name none).
    gap, max_answers, on_exhausted
        See :class:`pate.PATEClassifier`.
    preprocess : {"public", "shard", "none"}
        Where scaling and encoding of tables is learnt: from the public rows (always where records or heads vote), or
        inside every shard; never from all private rows. Pixels are divided by 255, which learns nothing.
    max_categories : int
        A text column becomes at most so many columns, for the categories that are frequent in public rows (in the
        shard, for ``"shard"``); others count as one.
    size, resize, color
        For images: (width, height); whether images of another size are resized to it; ``"grey"`` or ``"rgb"`` to
        convert all. None takes them from the public images, and refuses others.
    overlap_is_public : bool
        You declare that the public rows are public although they may also be among the private ones. Otherwise the same
        file on both sides, and public rows that are mostly private ones, are refused; see
        :func:`pate.data.check_public_rows`.
    ledger : path, Ledger or None
        File in which all releases from these private data are charged; their total is the first one's budget.
    accounting_unit : str or None
        The quantity that a new ledger adds up (``"gdp"``, ``"renyi"``, ...); see ``currency`` of :class:`pate.Ledger`.
    new_ledger : bool
        Start a new ledger although another one in its folder (or the private file's) is for these records.
    checkpoint_dir : path or None
        Folder for finished teachers (with records: for what was fitted on public rows; with DP-SGD: for the state of
        the run), so that a killed run goes on.
    commonest : float or None
        Share of the most common class, if that is publicly known: labels that are expected to be worse are refused.
    measure : bool, "by class" or None
        See :class:`pate.PATEClassifier`. Where teachers vote, the student is measured, which ``keep_model`` keeps.
    decide : {"likeliest", "balanced"}
        See :class:`pate.PATEClassifier`; not where teachers on shards vote.
    keep_model : bool
        Choose a student and test that it can learn before anything is paid for. False: labels only, no model.
    n_jobs, random_state, partition_seed, noise_seed, tuning, stated, force, verbose
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
    >>> from pathlib import Path
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

    With a parameter of teachers on shards, they vote instead of records:

    >>> by_teachers = LabelJob(
    ...     folder / "private.csv", folder / "public.csv", n_teachers=60, **given
    ... )
    >>> print(by_teachers.plan)
    600 records over 60 teachers; NoisyHistogram(sigma=...); ... public rows asked; will spend (...)-DP, public, ...

    Without public rows, but with a publicly known range:

    >>> alone = LabelJob(folder / "private.csv", schema={"age": (0, 1000)}, **given)
    >>> print(alone.plan)
    600 records give noisy sums over a schema, and vote on synthetic rows drawn from them; will spend (1, 0.0001)-DP...
    >>> release = alone.run()
    >>> (
    ...     release.n_queries,
    ...     alone.model(release).predict(pd.DataFrame({"age": [20.0, 580.0]})).tolist(),
    ... )
    (2000, ['no', 'yes'])
    """

    plan: BallotPlan | GradientPlan | LabelPlan | SyntheticRowsPlan

    def __post_init__(self) -> None:
        super().__post_init__()
        named = check_classes(self.classes) if self.classes is not None else None
        estimator = chosen_teacher(self.teacher, allow_import=self.allow_import)
        if self.public is not None and not self.overlap_is_public:
            check_other_file(self.private, self.public)
        self._source = source = read_sources(self, named)
        self._classes = named
        self._ledger = book = None if self.ledger is None else open_ledger(self.ledger, self.accounting_unit)
        if self.new_ledger:
            check_absent(book)
        self._private, self._warned = file_of(self.private), False
        why = ""
        if self.voters == "auto":
            self.voters, why = method_of(
                source.public,
                self.budget,
                n_units=source.n_units,
                n_classes=2 if named is None else len(named),
                image_shape=source.image_shape,
                schema=self.schema,
                n_columns=int(source.X.shape[1]) if source.kind == "table" else 0,
            )
        check_schema(self.schema, str(self.voters), source.public)
        if self.tier_budgets is not None:
            of_ledger = None if book is None else (book.registration or {}).get("tiers")
            self.tier_budgets, of = self.tier_budgets.held_to(of_ledger), str(self.voters)
            self.record_tiers = tiers_of(self.tier_budgets, source.tiers, of, source.public, column=self.tiers)
        if self.voters == "dpsgd" or self.public is None:
            self.check_heeded()
        if self.public is not None and not self.overlap_is_public:
            check_public_rows(source.X, source.public, source.groups)
        self._method: BallotMethod | GradientMethod | ShardMethod | SyntheticMethod
        if self.voters in ("dpsgd", "records"):
            self._classes = classes = read_classes(source.y) if named is None else named
            of_records = SyntheticMethod if self.public is None else BallotMethod
            by = GradientMethod if self.voters == "dpsgd" else of_records
            self._method = by.of(self, source, book, classes=classes, why=why)
        else:
            self._method = ShardMethod.of(self, source, book, classes=named, estimator=estimator)
        self.plan = self._method.plan
        if self.keep_model:
            self._pupil = self._method.pupil(2 if self._classes is None else len(self._classes))

    def __repr__(self) -> str:
        return f"LabelJob({self.plan})"

    def run(self) -> LabelRelease | ModelLabels:
        """Let records vote, or train teachers and ask them; release. The charge is stored before the release returns.

        Returns
        -------
        RecordLabels, ModelLabels or LabelRelease
            In the order of ``queries_``. The second of DP-SGD, without public rows of none; the last where teachers
            vote.
        """
        if not self._warned:
            self._warn_curator(counted=False)  # voters and teachers warn of records that they cannot use
        y, _ = self._checked()
        done = self._method.run(y, self._pupil)
        if self._ledger is not None:
            self._ledger.warn_of_other_features(done.release.statement.ledger_releases)
        release: LabelRelease | ModelLabels = self._released(done)
        return release

    def check_records(self) -> tuple[CuratorMessage, ...]:
        """Warn the curator before :meth:`run` of what it would warn of, or refuse: labels, owners, columns, the ledger.

        Returns
        -------
        tuple of CuratorMessage
            The warnings, and what of them is for a terminal alone. **Private:** nothing that is released depends on
            them; do not publish whether the run went on after they were read.

        Warns
        -----
        CuratorWarning
            Records do not vote; a class was named that none has; a column may be ids of people.
        CovariateShiftWarning
            Private columns have other values than public ones, as in other units.
        """
        return self._warn_curator()

    def _warn_curator(self, *, counted: bool = True) -> tuple[CuratorMessage, ...]:
        y, values = self._checked()
        self._warned, source = True, self._source
        method = self._method
        cells = about_cells(source.X, method.synthetic.schema) if isinstance(method, SyntheticMethod) else []
        shift = [] if source.public is None else about_shift(source.X, source.public, image_shape=source.image_shape)
        return warn_curator(
            [
                *about_labels(
                    y, source.groups, values, counted=counted, budget=self.budget, to_equal=to_equal(self.decide)
                ),
                *source.messages,
                *cells,
                *shift,
            ],
        )

    def _checked(self) -> tuple[npt.NDArray[Any], tuple[Any, ...]]:
        """Return labels and classes; check before training, not after, that the ledger is of these records."""
        values = self._classes
        if values is None:
            assert isinstance(self._method, ShardMethod)
            values = self._classes = self._method.teachers.classes = read_classes(self._source.y)
        y = as_classes(self._source.y, values)
        if self._ledger is not None:
            groups, _ = owned(self._source.groups, len(y))  # as the voters will see them
            known = recognised_by(self._source.X, class_indices(y, values), groups)
            tiers = None if self.tier_budgets is None else self.tier_budgets.pairs
            data = Registration(self.plan.unit, values, n_units=self.plan.n_units, tiers=tiers, **known)
            check_ledger(self._ledger, data, self._private, new_ledger=self.new_ledger)
            if not self.plan.is_paid:
                self._ledger.check_writable()
        return y, values

    @property
    def draws_rows(self) -> bool:
        """Whether records vote on synthetic rows, which :meth:`write_rows` writes."""
        return isinstance(self._method, SyntheticMethod)

    def write_rows(self, release: ModelLabels, out: str | os.PathLike[str], *, raw_csv: bool = False) -> Path:
        """Write the synthetic rows on which records voted, with the model's labels: public, as the release is.

        Parameters
        ----------
        release : RecordLabels
            What :meth:`run` returned.
        out : path
            A CSV file, which must not exist: the columns of the schema, and the target's. The rows are no records: they
            were drawn from a few noisy sums.
        raw_csv : bool
            As of :meth:`write`.

        Raises
        ------
        InvalidInputError
            The job drew none: there were public rows, or DP-SGD learnt.
        """
        if not isinstance(self._method, SyntheticMethod) or not (drawn := self._method.drawn):
            raise InvalidInputError(
                "there are no synthetic rows: DP-SGD learnt, or there were public rows. Leave it out."
            )
        kinds = self._method.synthetic.schema.kinds
        return write_rows(
            drawn[0], release, out, target=str(self.target), kinds=kinds, ledger=self._ledger, raw_csv=raw_csv
        )

    def finish(self) -> None:
        """Delete the checkpoint of a DP-SGD run, with its key, once all files are written; other methods have none.

        Until then the same job, after a kill, returns the model that was paid for.
        """
        if self._learnt is not None and self._learnt.checkpoint is not None:
            self._learnt.checkpoint.finish()
