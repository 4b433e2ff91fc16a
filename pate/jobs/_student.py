"""The model that a job leaves: who learns from the labels is chosen and tried before anything is paid for."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from pate.core.secret import training_seed
from pate.data import TableEncoder
from pate.data._columns import column_kind
from pate.data._door import is_texts
from pate.estimator import PATEClassifier
from pate.exceptions import InvalidInputError, PateError, StudentError
from pate.jobs._asked import JobSettings, LabelSettings
from pate.jobs._choice import take
from pate.jobs._reading import Sources, in_planes
from pate.jobs._records import ShardRoad
from pate.jobs._writing import write_labels
from pate.ledger import Ledger
from pate.mechanisms import NoisyHistogram
from pate.model import Door, Manifest
from pate.recipes import MappedLinear, RecordModel
from pate.release import LabelRelease, ReleasedLabels, check_measure, tell_doubts
from pate.representations import Representation
from pate.statement.files import bind_statement
from pate.students import ImageStudent, check_is_student, default_student, fit_student, make_student, mapped_student
from pate.students import try_student as try_on_rows
from pate.students._kept import keep_student
from pate.teachers import HeadTeacherEnsemble
from pate.votes import ABSTAIN

_Labels = TypeVar("_Labels", bound=ReleasedLabels)
#: Public rows on which it is seen that a student can be kept.
_TRIED = 100
_SEED_PATH = (0x57D, 1)
_GOES_ON = (
    "The labels are written, and the ledger keeps what was paid for: the same command with another --student and "
    "another --out makes a model of them for nothing."
)


@dataclass(frozen=True, eq=False, repr=False)
class Pupil:
    """Who learns from a job's labels, and through which public map.

    ``student`` is None where the model of records' ballots, or of DP-SGD, is kept; ``lens`` is what public rows taught
    of how rows become numbers, ``seen`` are public rows through it, ``door`` is what a row is that the model takes.
    """

    student: Any
    lens: Any
    seen: Any
    door: Door
    voters: str
    random_state: int | None = None

    @classmethod
    def of(
        cls,
        job: JobSettings,
        public: Any,
        image_shape: tuple[int, ...] | None = None,
        *,
        door: Door,
        voters: str,
        max_categories: int,
        n_classes: int,
        queries: npt.NDArray[np.int64],
        n_answers: int,
        noisy_counts: bool,
        teacher: Any = None,
        representation: Representation | None = None,
    ) -> Self:
        """Choose the student, and see on made-up labels that it learns, and that a file can hold it; nothing is spent.

        At most ``n_answers`` of the ``queries`` will be answered. A ``teacher``'s kind is the student's, where nothing
        is better; ``representation`` is that of heads, and of texts.
        """
        given: dict[str, Any] = {
            "queries": queries,
            "n_answers": n_answers,
            "n_classes": n_classes,
            "noisy_counts": noisy_counts,
        }
        lens: Any = None
        seen = in_planes(public, image_shape)
        if image_shape is None:
            of_texts = representation if is_texts(public) else None
            lens = of_texts or TableEncoder(max_categories=max_categories).fit(public)
            seen = lens.transform(public)
        named = job.student is not None
        if named:
            made = make_student(job.student)
        elif representation is not None and default_student(public, noisy_counts=noisy_counts) is None:
            made, lens = mapped_student(len(public), noisy_counts=noisy_counts), representation
            seen = representation.transform(in_planes(public, image_shape))
        else:
            made = default_student(seen, noisy_counts=noisy_counts) or _of_its_kind(teacher)
        if isinstance(made, ImageStudent) and made.image_shape is None and image_shape is not None:
            made.set_params(image_shape=image_shape)
        try:
            _rehearse(made, seen, **given)
        except InvalidInputError:
            if named:
                raise
            made = LogisticRegression(max_iter=500)  # nobody asked for that one
        return cls(made, lens, seen, door, voters, job.random_state)

    def learn(
        self,
        release: ReleasedLabels,
        queries: npt.NDArray[np.int64],
        *,
        model: RecordModel | MappedLinear | None = None,
        taught: Any = None,
        ledger: Ledger | None = None,
    ) -> PATEClassifier:
        """Return the classifier of what was released of these public rows: public, as the release is.

        ``model`` is that of the ballots, or of DP-SGD; ``taught`` the student of these very labels, where it was fitted
        already; the ledger binds the model's file when it is saved.
        """
        fitted: Any = model
        if self.student is not None:
            fitted = self.fitted(release, queries) if taught is None else taught
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

    @property
    def seed(self) -> int | None:
        """The student's."""
        return None if self.random_state is None else training_seed(self.random_state, *_SEED_PATH)


class LeavesModel:
    """What a job does with released labels; a mixin of :class:`pate.jobs.LabelJob` and ``VoteJob``."""

    queries_: npt.NDArray[np.int64]
    _pupil: Pupil | None = None
    _model: RecordModel | MappedLinear | None = None
    _ledger: Ledger | None = None
    #: Labels and the student of theirs that was measured.
    _taught: tuple[Any, Any] | None = None
    #: A release whose files were written, with the statement that names them: the model's is the same.
    _written: ReleasedLabels | None = None
    _of_files: ReleasedLabels | None = None

    @property
    def keeps_model(self) -> bool:
        """Whether :meth:`model` makes one."""
        return self._pupil is not None

    def model(self, release: ReleasedLabels) -> PATEClassifier:
        """Return the model of what ``run`` released, for any further rows; it costs nothing.

        Returns
        -------
        PATEClassifier
            With ``save(path)``; what ``pate label`` writes beside the labels.

        Raises
        ------
        StudentError
            The student cannot learn from these labels; they are paid for, and another may.
        InvalidInputError
            There is to be none: ``keep_model`` was False, or votes came without public rows.
        """
        if self._pupil is None:
            raise InvalidInputError("public and keep_model=True must be given for a model to be made of the labels.")
        if self._of_files is not None and release is self._written:
            release = self._of_files
        taught = None if self._taught is None or self._taught[0] is not release.labels else self._taught[1]
        return self._pupil.learn(release, self.queries_, model=self._model, taught=taught, ledger=self._ledger)

    def _bound(self, release: _Labels) -> _Labels:
        """Return a release whose statement the ledger knows, and tell what speaks against it."""
        bind_statement(release.statement, self._ledger)
        tell_doubts(release.statement, stacklevel=3)
        return release

    def _write(
        self, release: ReleasedLabels, rows: npt.NDArray[np.int64], out: str | os.PathLike[str], **how: Any
    ) -> list[Path]:
        paths, statement = write_labels(release, rows, out, ledger=self._ledger, **how)
        self._written, self._of_files = release, replace(release, statement=statement)
        return paths


def measured_for(measure: bool | str | None, *, keep_model: bool) -> bool | str | None:
    """Return whether the student of teachers' labels is measured: not where there is to be none."""
    measure = check_measure(measure)
    if measure and not keep_model:
        raise InvalidInputError(
            f"measure must be None or False with keep_model=False (--no-model), got {measure!r}: where teachers on "
            "shards vote, what is measured is the student that is kept as the model. Leave either out."
        )
    return measure if keep_model else False


def pupil_of_ballots(
    job: LabelSettings, source: Sources, *, n_classes: int, representation: Representation | None = None
) -> Pupil:
    """Return who learns where records vote, or DP-SGD: nobody, as a model is there already, unless one is named."""
    voters = str(job.voters)
    if job.student is None:
        return Pupil(None, None, None, _door_of(source), voters, job.random_state)
    n_public = len(source.public)
    return Pupil.of(
        job,
        source.public,
        source.image_shape,
        door=_door_of(source),
        voters=voters,
        max_categories=job.max_categories,
        n_classes=n_classes,
        queries=np.arange(n_public),
        n_answers=n_public,
        noisy_counts=False,
        representation=representation,
    )


def pupil_of_shards(job: LabelSettings, road: ShardRoad, *, teacher: Any, n_classes: int) -> Pupil:
    """Return who learns where teachers on shards vote; ``teacher`` is one of them, as it was named."""
    plan, source, heads = road.plan, road.source, isinstance(road.teachers, HeadTeacherEnsemble)
    return Pupil.of(
        job,
        source.public,
        source.image_shape,
        door=_door_of(source),
        voters=str(job.voters),
        max_categories=job.max_categories,
        n_classes=n_classes,
        queries=np.arange(sum(plan.rounds)) if plan.queries is None else plan.queries,
        n_answers=plan.n_free + plan.quote.max_answers,
        noisy_counts=isinstance(plan.mechanism, NoisyHistogram),
        teacher=None if heads else teacher,
        representation=road.teachers.representation if heads else road.encoder if source.kind == "texts" else None,
    )


def _door_of(source: Sources) -> Door:
    if source.kind != "texts":
        # Of a private table without a public one the declared kinds are asked alone, not its cells.
        return door_of(
            source.X if source.public is None else source.public, source.image_shape, source.kinds, source.decimal
        )
    return Door(kind="texts", n_features=1, columns=tuple(source.kinds.items()))


def door_of(public: Any, image_shape: tuple[int, ...] | None, kinds: Mapping[str, str], decimal: str = "") -> Door:
    """Return what a row is, by the public ones; ``kinds`` and ``decimal`` are those that their file's reader found."""
    if image_shape is None:
        columns = tuple((str(name), kinds.get(name) or column_kind(name, public[name])) for name in public.columns)
        return Door(kind="table", n_features=len(columns), columns=columns, decimal="," if decimal == "," else None)
    height, width = image_shape[-2:]
    return Door(
        kind="images",
        n_features=int(np.prod(image_shape)),
        image_shape=image_shape,
        mixed=False,
        size=(width, height),
        color="grey" if len(image_shape) == 2 else "rgb",
    )


def _of_its_kind(teacher: Any) -> Any:
    """Return a student of the teachers' kind, where that is one classifier."""
    with suppress(Exception):  # an estimator of somebody's own, whatever it says of itself
        if is_classifier(teacher) and not hasattr(teacher, "n_teachers"):
            check_is_student(teacher)
            return teacher
    return LogisticRegression(max_iter=500)


def _rehearse(
    student: Any, seen: Any, *, queries: npt.NDArray[np.int64], n_answers: int, n_classes: int, noisy_counts: bool
) -> None:
    try_on_rows(
        student, seen, n_classes=n_classes, queries=queries, n_answers=n_answers, noisy_counts=noisy_counts
    )  # fmt: skip
    if isinstance(student, ImageStudent):
        if not isinstance(student.network, str) or student.init is not None:
            raise InvalidInputError("student must have a network that has a name: no file can hold another.")
        return
    rows = take(seen, np.arange(min(_TRIED, n_answers, len(queries))))
    made_up = np.arange(len(rows)) % n_classes
    if len(rows) < 2:
        return
    with tempfile.TemporaryDirectory(prefix="pate-model-") as folder, suppress(StudentError):
        keep_student(fit_student(student, rows, made_up, random_state=0), Path(folder))
