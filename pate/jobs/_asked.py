"""What a job is told, written once and handed on whole, and what of it does not go together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pate.core.checks import check_choice, check_int
from pate.data.schema import Schema
from pate.estimator._roads import chosen_voters
from pate.exceptions import InvalidInputError
from pate.jobs._choice import make_choice
from pate.ledger import Ledger, Registration
from pate.ledger._registration import ledgers_in
from pate.mechanisms import Mechanism
from pate.privacy.budget import Budget, check_budget
from pate.release import Asking, ReleaseTerms, check_enough, plan_release

#: Of a file of labels, whatever the job.
_COLUMNS = ("label", "status", "lead", "confidence")
PREPROCESSING = ("public", "shard", "none")
UNITS = ("record", "group")

#: Parameters of a job that speak of teachers on shards, their options, and what says nothing.
_OF_SHARDS: dict[str, tuple[str, Any]] = {
    "teacher": ("--teacher", None),
    "n_teachers": ("--teachers", None),
    "mechanism": ("--mechanism", None),
    "n_queries": ("--queries", None),
    "gap": ("--gap", None),
    "select": ("--select", "auto"),
    "rounds": ("--rounds", None),
    "max_answers": ("--max-answers", None),
    "on_exhausted": ("--on-exhausted", "raise"),
    "preprocess": ("--preprocess", "public"),
    "partition_seed": ("--partition-seed", None),
}
#: ... that DP-SGD does not heed.
_UNHEEDED: dict[str, tuple[str, Any]] = {"max_categories": ("--max-categories", 50), "commonest": ("--commonest", None)}
#: ... that speak of a public table.
_OF_PUBLIC: dict[str, tuple[str, Any]] = {
    "text": ("--text", ()),
    "only_common": ("--only-common", False),
    "overlap_is_public": ("--overlap-is-public", False),
    "dates": ("--dates", "auto"),
    "student": ("--student", None),
}


@dataclass(kw_only=True, eq=False, repr=False)
class JobSettings:
    """What every job is told, whoever votes."""

    budget: Budget
    classes: Any = None
    id: str | None = None
    n_teachers: int | None = None
    mechanism: Mechanism | None = None
    n_queries: int | None = None
    select: Any = "auto"
    gap: float | None = None
    max_answers: int | None = None
    on_exhausted: str = "raise"
    ledger: str | os.PathLike[str] | None = None
    ledger_currency: str | None = None
    new_ledger: bool = False
    random_state: int | None = 0
    noise_seed: int | None = None
    tuning: str = ""
    stated: Mapping[str, str] | None = None
    commonest: float | None = None
    student: Any = None
    keep_model: bool = True
    anyway: bool = False

    def terms(self, ledger: Ledger | None, stated: Mapping[str, str]) -> ReleaseTerms:
        """Return what a release is bound to."""
        return ReleaseTerms(
            budget=self.budget,
            ledger=ledger,
            max_answers=self.max_answers,
            on_exhausted=self.on_exhausted,
            noise_seed=self.noise_seed,
            tuning=self.tuning,
            stated=stated,
        )

    def asking(self, n_public: int, *, n_teachers: int, n_classes: int, **more: Any) -> Asking:
        """Return what teachers are asked; see :func:`pate.release.plan_release`."""
        return plan_release(
            self.budget,
            n_public,
            n_teachers=n_teachers,
            n_classes=n_classes,
            mechanism=self.mechanism,
            n_queries=self.n_queries,
            gap=self.gap,
            anyway=self.anyway,
            **more,
        )

    def check_enough(self, plan: Any, n_classes: int) -> None:
        """Refuse a plan that spends a budget on next to nothing."""
        if not (self.anyway or plan.is_paid):
            check_enough(
                plan.quote.max_answers + plan.n_free,
                plan.mechanism,
                budget=self.budget,
                n_public=plan.n_public,
                n_teachers=plan.n_teachers,
                n_classes=n_classes,
                commonest=self.commonest,
            )


@dataclass(kw_only=True, eq=False, repr=False)
class LabelSettings(JobSettings):
    """What a job on private records is told; see :class:`pate.jobs.LabelJob`."""

    private: str | os.PathLike[str] = field(kw_only=False)
    public: str | os.PathLike[str] | None = field(default=None, kw_only=False)
    target: str | None = None
    group: str | None = None
    drop: Iterable[str] = ()
    text: Iterable[str] = ()
    only_common: bool = False
    sep: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    sheet: str | None = None
    dates: str = "auto"
    voters: str | None = None
    ranges: Mapping[str, Any] | Schema | None = None
    teacher: Any = None
    allow_import: bool = False
    rounds: int | None = None
    preprocess: str = "public"
    max_categories: int = 50
    size: tuple[int, int] | None = None
    resize: bool = False
    color: str | None = None
    overlap_is_public: bool = False
    checkpoint_dir: str | os.PathLike[str] | None = None
    n_jobs: int | None = None
    partition_seed: int | None = None
    measure: bool | str | None = None
    decide: str = "likeliest"
    verbose: bool = False

    def __post_init__(self) -> None:
        """Refuse what does not go together, before any file is read; who votes is then known, or ``"auto"``."""
        check_budget(self.budget)
        check_choice("preprocess", self.preprocess, PREPROCESSING)
        check_int("max_categories", self.max_categories, low=2)
        given = {
            f"{name} ({option})": getattr(self, name)
            for name, (option, silent) in _OF_SHARDS.items()
            if not (isinstance(getattr(self, name), str) and getattr(self, name) == silent)
        }
        not_of_heads = [f"{name} ({_OF_SHARDS[name][0]})" for name in ("teacher", "preprocess")]
        self.voters = chosen_voters(self.voters, given, not_of_heads=not_of_heads)
        if self.public is None and self.voters not in ("auto", "dpsgd"):
            raise InvalidInputError(
                f"public must be given where voters={self.voters!r}: they label public rows. Name some, or say "
                "voters='dpsgd' (--voters dpsgd)."
            )
        if self.n_teachers is not None:
            self.n_teachers = check_int("n_teachers", self.n_teachers, low=1)
        learns = self.student if self.select == "uncertain" else None
        self.choice = make_choice(self.select, rounds=self.rounds, student=learns)
        if self.teacher is None:
            self.teacher = "logistic-regression"
        self.drop = [self.drop] if isinstance(self.drop, str) else list(self.drop)
        self.text = [self.text] if isinstance(self.text, str) else list(self.text)

    @property
    def public_rows(self) -> str:
        """How it is known that public rows are public, for the statement."""
        return "declared" if self.overlap_is_public else "checked"

    def check_heeded(self) -> None:
        """Refuse what would be passed over in silence where DP-SGD learns."""
        no_rows = ("where there are no public rows", _OF_PUBLIC)
        for where, names in (("with voters='dpsgd' (--voters dpsgd)", _UNHEEDED), no_rows):
            for name, (option, silent) in names.items() if names is _UNHEEDED or self.public is None else ():
                if getattr(self, name) != (list(silent) if silent == () else silent):
                    raise InvalidInputError(f"{name} ({option}) must be left out {where}. It would change nothing.")


def check_id(name: str | None, classes: Sequence[Any] | None = None) -> str | None:
    """Return the name of an id column, or refuse it: a file of labels would have two columns of that name."""
    if name in _COLUMNS or name in proba_columns(classes or ()):
        raise InvalidInputError(
            f"id must not be called {name!r}, as a column of the written labels is. Rename it in the table."
        )
    return name


def proba_columns(classes: Sequence[Any]) -> list[str]:
    """Return what the columns of probabilities are called."""
    return [f"p_{value}" for value in classes]


# One private data set, one ledger: a file of another name is not a fresh budget.


def find_ledger(records: str, *folders: Path) -> Path | None:
    """Return the ledger in these folders that knows these private records, or None.

    Parameters
    ----------
    records : str
        Their fingerprint. **Sensitive.** Ledgers hold it under their own keys only.
    folders : path

    Examples
    --------
    >>> import tempfile
    >>> find_ledger("0123abcd", Path(tempfile.mkdtemp())) is None
    True
    """
    known = (book.path for book in ledgers_in(Ledger, folders) if book.recognises(records))
    return next(known, None)


def check_only_ledger(book: Ledger, data: Registration, private: Path, *, new_ledger: bool) -> None:
    """Refuse to begin a ledger for records, or largely the same people's, that have one already.

    It is looked for beside them and beside the new one; so are releases whose ledger is gone. What is said depends on
    the records: it is for the curator's eyes, like every message of a run that was refused, and comes before anything
    is trained or released.
    """
    if book.registration is not None:
        return
    said = book.look_beside(str(private), data, private.parent)
    if said and not new_ledger:
        raise InvalidInputError(said)


def check_absent(book: Ledger | None) -> None:
    """Refuse to begin a new ledger where there is one, or where none is named."""
    if book is None:
        raise InvalidInputError("new_ledger starts the one that ledger= names, and ledger is None. Name a file.")
    if book.registration is not None:  # one that was opened with a total, and charged nothing yet, is new
        raise InvalidInputError(
            f"new_ledger (--new-ledger) starts one, but there is a ledger {str(book.path)!r} already. Leave it out to "
            "go on with that one, or name another file: ledger= (--ledger)."
        )
