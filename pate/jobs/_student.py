"""The model of a job: its student is chosen and tried before anything is paid for, and fitted to the labels."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from pate._core.curator import CuratorMessage
from pate._core.files import own_folder, write_json
from pate._core.secret import training_seed
from pate.data import TableEncoder, column_kind, is_texts
from pate.estimators import PATEClassifier
from pate.exceptions import InvalidInputError, PateError, StudentError
from pate.jobs._choice import take
from pate.jobs._plan import JobPlan
from pate.jobs._reading import Sources, in_planes
from pate.jobs._request import JobSettings
from pate.jobs._writing import write_labels
from pate.ledger import Ledger
from pate.mechanisms import ExactLaw
from pate.models.file import InputSpec, Manifest
from pate.models.recipes import MappedLinear, RecordModel
from pate.models.students import (
    ImageStudent,
    check_is_student,
    default_student,
    fit_student,
    keep_student,
    make_student,
    mapped_student,
)
from pate.models.students import try_student as try_on_rows
from pate.privacy.convert import format_up
from pate.release import LabelRelease, ReleasedLabels, warn_of_doubts, warn_of_student
from pate.release.account import USES, account
from pate.release.statement.files import bind_statement
from pate.representations import Representation
from pate.votes import ABSTAIN, Votes

if TYPE_CHECKING:
    from pate.dpsgd import Checkpoint

#: Public rows on which it is checked that a student can be saved.
_TRIED = 100
_SEED_PATH = (0x57D, 1)
_GOES_ON = (
    "The labels are written, and the ledger holds what was paid for: the same command with another --student and "
    "another --out makes a model of them at no further cost."
)


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """Made-up labels that a student is tried on: at most ``n_answers`` of the ``queries`` will be answered."""

    queries: npt.NDArray[np.int64]
    n_answers: int
    n_classes: int
    noisy_counts: bool

    def hold(self, student: Any, seen: Any) -> None:
        """Check that a student learns from such labels, and that a file can hold it; nothing is spent."""
        try_on_rows(student, seen, **vars(self))
        if isinstance(student, ImageStudent):
            if not isinstance(student.network, str) or student.init is not None:
                raise InvalidInputError("student must have a network that has a name: no file can hold another.")
            return
        rows = take(seen, np.arange(min(_TRIED, self.n_answers, len(self.queries))))
        if len(rows) < 2:
            return
        with tempfile.TemporaryDirectory(prefix="pate-model-") as folder, suppress(StudentError):
            keep_student(
                fit_student(student, rows, np.arange(len(rows)) % self.n_classes, random_state=0), Path(folder)
            )


@dataclass(frozen=True, eq=False, repr=False)
class Pupil:
    """The student of a job's labels, and the public map through which it sees rows.

    ``student`` is None where the model of records' ballots, or of DP-SGD, is used; ``lens`` is what public rows taught
    of how rows become numbers, ``seen`` are public rows through it, ``door`` is what a row is that the model takes.
    """

    student: Any
    lens: Any
    seen: Any
    door: InputSpec
    voters: str
    random_state: int | None = None

    @classmethod
    def of(
        cls,
        job: JobSettings,
        source: Sources,
        asked: Rehearsal,
        *,
        teacher: Any = None,
        representation: Representation | None = None,
    ) -> Self:
        """Choose the student, and rehearse with it, before anything is paid for.

        A ``teacher``'s kind is the student's, where nothing is better; ``representation`` is that of ballots, of heads
        and of texts.
        """
        public, noisy = source.public, asked.noisy_counts
        lens: Any = None
        seen = planes = in_planes(public, source.image_shape)
        if source.image_shape is None:
            of_texts = representation if is_texts(public) else None
            lens = of_texts or TableEncoder(max_categories=job.max_categories).fit(public)
            seen = lens.transform(public)
        named = job.student is not None
        if named:
            made = make_student(job.student)
        elif representation is not None and default_student(public, noisy_counts=noisy) is None:
            made, lens = mapped_student(len(public), noisy_counts=noisy), representation
            seen = representation.transform(planes)
        else:
            made = default_student(seen, noisy_counts=noisy) or _of_its_kind(teacher)
        if isinstance(made, ImageStudent) and made.image_shape is None and source.image_shape is not None:
            made.set_params(image_shape=source.image_shape)
        try:
            asked.hold(made, seen)
        except InvalidInputError:
            if named:
                raise
            made = LogisticRegression(max_iter=500)  # this student was not named by the user
        return cls(made, lens, seen, input_spec_of(source), str(job.voters), job.random_state)

    def learn(
        self,
        release: ReleasedLabels,
        queries: npt.NDArray[np.int64],
        *,
        learnt: Any = None,
        ledger: Ledger | None = None,
    ) -> PATEClassifier:
        """Return the classifier of what was released of these public rows: public, as the release is.

        ``learnt`` is the model of the ballots, of DP-SGD, or the student of these very labels, where it is there
        already; the ledger binds the model's file when it is saved.
        """
        fitted: Any = self.fitted(release, queries) if learnt is None else learnt
        values = release.classes
        classes = np.array(values, dtype=None if len({type(v) for v in values}) == 1 else object)
        kind = self.voters if self.student is None else "student"
        said = Manifest.of_classes(classes, kind=kind, door=self.door, settings={"voters": self.voters})
        return PATEClassifier._of_student(fitted, said, release.statement).set_params(ledger=ledger)

    def fitted(self, release: ReleasedLabels, queries: npt.NDArray[np.int64]) -> Any:
        """Return the student of these labels, with the public map before it."""
        n_public = int(self.seen.shape[0])
        labels = np.full(n_public, ABSTAIN, dtype=np.int64)
        labels[queries] = release.labels
        noisy = None
        if isinstance(release, LabelRelease) and release.noisy_counts is not None:
            noisy = np.full((n_public, len(release.classes)), np.nan)
            noisy[queries] = release.noisy_counts
        try:
            fitted = fit_student(self.student, self.seen, labels, noisy_counts=noisy, random_state=self.seed)
        except PateError as error:
            raise StudentError(f"{error} {_GOES_ON}") from error
        if self.lens is None:
            return fitted
        name = "representation" if isinstance(self.lens, Representation) else "encoder"
        return Pipeline([(name, self.lens), ("student", fitted)])

    def says(self, fitted: Any) -> Any:
        """Return what a student says of all public rows, as indices; None of a model that is no student."""
        if self.student is None:
            return None
        with suppress(Exception):  # for a warning alone: what is paid for is there
            return (fitted if self.lens is None else fitted[-1]).predict(self.seen)
        return None

    @property
    def seed(self) -> int | None:
        """The student's."""
        return None if self.random_state is None else training_seed(self.random_state, *_SEED_PATH)


@dataclass(frozen=True, eq=False, repr=False)
class Learnt:
    """The result of a job: labels of these public rows, and the model that learnt.

    ``model`` is that of ballots or of DP-SGD, ``taught`` the student of these very labels that was measured,
    ``checkpoint`` what DP-SGD needs to resume, ``votes`` those of teachers on the queries: **sensitive**.
    """

    release: Any
    queries: npt.NDArray[np.int64]
    model: RecordModel | MappedLinear | None = None
    taught: Any = None
    checkpoint: Checkpoint | None = None
    votes: Votes | None = None


class LeavesModel:
    """Writes released labels and makes a model of them: a mixin of :class:`pate.jobs.LabelJob` and ``VoteJob``."""

    plan: JobPlan
    queries_: npt.NDArray[np.int64]
    _source: Sources
    _pupil: Pupil | None = None
    _ledger: Ledger | None = None
    _learnt: Learnt | None = None
    #: A release whose files were written, and the same with the statement that names them, as the model's does.
    _written: tuple[ReleasedLabels, ReleasedLabels] | None = None

    @property
    def keeps_model(self) -> bool:
        """Whether :meth:`model` makes one."""
        return self._pupil is not None

    def model(self, release: ReleasedLabels) -> PATEClassifier:
        """Return the model of what ``run`` released, for any further rows; this costs no privacy.

        Returns
        -------
        PATEClassifier
            With ``save(path)``; what ``pate label`` writes beside the labels.

        Raises
        ------
        StudentError
            The student cannot learn from these labels; they are paid for; another student may.
        InvalidInputError
            No model was asked for: ``keep_model`` was False, or votes came without public rows.
        """
        if self._pupil is None:
            raise InvalidInputError("public and keep_model=True must be given for a model to be made of the labels.")
        if self._written is not None and release is self._written[0]:
            release = self._written[1]
        learnt: Any = None
        if (done := self._learnt) is not None:
            same = done.release.labels is release.labels
            learnt = done.model if self._pupil.student is None else done.taught if same else None
        model = self._pupil.learn(release, self.queries_, learnt=learnt, ledger=self._ledger)
        warn_of_student(release, self._pupil.says(model.student_))
        return model

    def write(
        self, release: ReleasedLabels, out: str | os.PathLike[str], *, proba: bool = False, raw_csv: bool = False
    ) -> list[Path]:
        """Write the labels and the statement.

        Parameters
        ----------
        release : LabelRelease
        out : path
            A CSV file: the public rows' own ids where there are some (``id``), ``row`` (position in the public file, or
            among the votes' queries, from 0; for images ``file``, their name), ``label`` (empty where there is none)
            and ``status`` of *every* public row. Where records vote also ``confidence``, the probability of the label
            by the model that was released; where noisy counts were released ``margin``, in votes, and ``confidence``,
            how probable it is that the label leads the votes without their noise. The statement goes beside it as
            ``.statement.json``, ``.statement.txt`` and ``.statement.html`` (one page to print); alone where there are
            no public rows.
        proba : bool
            Also one column per class, ``p_CLASS``: of what ``confidence`` is the label's.
        raw_csv : bool
            Leave out the apostrophe before labels and names that a spreadsheet would take for a formula.

        Returns
        -------
        list of Path

        Raises
        ------
        RunFolderError
            One of them exists: results are never overwritten. Ask with :func:`pate.jobs.check_new_files` before
            :meth:`run`.
        """
        source = self._source
        paths, statement = write_labels(
            release,
            self.queries_,
            out,
            n_public=self.plan.n_public,
            proba=proba,
            ledger=self._ledger,
            names=source.names,
            ids=source.ids,
            id_name=source.id_name,
            raw_csv=raw_csv,
        )
        self._written = release, replace(release, statement=statement)
        return paths

    def write_account(self, out: str | os.PathLike[str]) -> CuratorMessage | None:
        """Write what the labels of ``run`` cost at the teachers' very votes, for the curator alone.

        It is in no statement, model file or ledger: it is a function of the votes, by which it could tell of a record.

        Parameters
        ----------
        out : path
            Where the labels are: for ``labels.csv`` it is ``labels.private/account.json`` (mode 0600).

        Returns
        -------
        CuratorMessage or None
            Where it stands, and the epsilon, for a terminal alone. None, and no file: no teachers voted, noise on
            counts, for which no epsilon at the votes is lower, or a release that :func:`pate.account` does not price.
        """
        done, folder = self._learnt, Path(out).with_name(Path(out).stem + ".private")
        path = folder / "account.json"
        path.unlink(missing_ok=True)  # of other labels
        if done is None or done.votes is None or done.release.asked is None:
            return None
        if not isinstance(done.release.mechanism, ExactLaw):
            return None
        own_folder("out", folder)
        report = account(done.votes, done.release)
        labels = {"mechanism": str(done.release.mechanism), "n_queries": len(done.release.asked.rows)}
        write_json(path, {**labels, **report.to_dict(include_sensitive=True), "uses": dict(USES)}, mode=0o600)
        epsilon = format_up(report.data_dependent.reveal().epsilon)
        return CuratorMessage(
            f"For the curator alone, never to be published: {path} has what these labels cost at the teachers' votes.",
            f"For the curator alone, at this terminal: epsilon = {epsilon} at these votes.",
        )

    def _released(self, done: Learnt) -> Any:
        """Return the release, bind its statement to the ledger, and warn of doubts about the labels."""
        self._learnt, self.queries_ = done, done.queries
        bind_statement(done.release.statement, self._ledger)
        warn_of_doubts(done.release.statement)
        return done.release


def input_spec_of(source: Sources) -> InputSpec:
    """Return what rows the model takes, by the public ones.

    Of a private table without a public one the declared kinds are asked alone, not its cells.
    """
    kinds, shape = source.kinds, source.image_shape
    written: dict[str, Any] = {
        "decimal": "," if source.written.decimal == "," else None,
        "encoding": source.written.encoding if source.written.encoding not in ("", "utf-8") else None,
        "thousands": source.written.thousands or None,
    }
    if source.kind == "texts":
        return InputSpec(kind="texts", n_features=1, columns=tuple(kinds.items()), **written)
    if shape is None:
        rows = source.X if source.public is None else source.public
        columns = tuple((str(name), kinds.get(name) or column_kind(name, rows[name])) for name in rows.columns)
        return InputSpec(kind="table", n_features=len(columns), columns=columns, **written)
    height, width = shape[-2:]
    return InputSpec(
        kind="images",
        n_features=int(np.prod(shape)),
        image_shape=shape,
        mixed=False,
        size=(width, height),
        color="grey" if len(shape) == 2 else "rgb",
    )


def _of_its_kind(teacher: Any) -> Any:
    """Return a student of the teachers' kind, where that is one classifier."""
    with suppress(Exception):  # a user's own estimator may raise anything here
        if is_classifier(teacher) and not hasattr(teacher, "n_teachers"):
            check_is_student(teacher)
            return teacher
    return LogisticRegression(max_iter=500)
