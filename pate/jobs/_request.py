"""The settings of a job, and the checks that they fit together; nothing is read or spent here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pate._core.checks import as_names, check_choice, check_int, check_path
from pate._core.moved import takes_former_names
from pate.data.schema import Schema
from pate.estimators import chosen_voters
from pate.exceptions import InvalidInputError
from pate.jobs._choice import make_choice
from pate.ledger import Ledger, Registration, ledgers_in
from pate.mechanisms import Mechanism
from pate.privacy.budget import Budget
from pate.privacy.tiers import TierBudgets, as_budget
from pate.records import Tiers
from pate.release import Asking, ReleaseTerms, check_enough, plan_release

#: Of a file of labels, whatever the job.
_COLUMNS = ("label", "status", "margin", "confidence")
PREPROCESSING = ("public", "shard", "none")
UNITS = ("record", "group")

#: Parameters of a job that are only for teachers on shards.
_OF_SHARDS = ("teacher", "n_teachers", "mechanism", "n_queries", "gap", "select", "rounds", "max_answers",
              "on_exhausted", "preprocess", "partition_seed")  # fmt: skip
#: ... that DP-SGD does not use.
_UNHEEDED = ("max_categories", "commonest")
#: Parameters of a job that are only for a public table.
_OF_PUBLIC = ("text", "only_common", "overlap_is_public", "dates", "student")


def _spelt(name: str) -> str:
    """Return a parameter's name beside its option's."""
    return f"{name} (--{name.removeprefix('n_').replace('_', '-')})"


@dataclass(kw_only=True, eq=False, repr=False)
class JobSettings:
    """The settings that every job has, whichever method labels."""

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
    ledger: str | os.PathLike[str] | Ledger | None = None
    accounting_unit: str | None = None
    new_ledger: bool = False
    random_state: int | None = 0
    noise_seed: int | None = None
    tuning: str = ""
    stated: Mapping[str, str] | None = None
    commonest: float | None = None
    student: Any = None
    keep_model: bool = True
    force: bool = False
    voters: str | None = field(default="shards", init=False)
    max_categories: int = field(default=50, init=False)
    tier_budgets: TierBudgets | None = field(default=None, init=False)
    record_tiers: Tiers | None = field(default=None, init=False)

    def terms(self, ledger: Ledger | None, stated: Mapping[str, str]) -> ReleaseTerms:
        """Return the terms of a release: budget, ledger, caps and what is stated."""
        return ReleaseTerms(
            budget=self.budget,
            ledger=ledger,
            max_answers=self.max_answers,
            on_exhausted=self.on_exhausted,
            noise_seed=self.noise_seed,
            tuning=self.tuning,
            stated=stated,
            tiers=self.tier_budgets,
        )

    def asking(self, n_public: int, *, n_teachers: int, n_classes: int, **more: Any) -> Asking:
        """Return how teachers are asked; see :func:`pate.release.plan_release`."""
        return plan_release(
            self.budget,
            n_public,
            n_teachers=n_teachers,
            n_classes=n_classes,
            mechanism=self.mechanism,
            n_queries=self.n_queries,
            gap=self.gap,
            force=self.force,
            **more,
        )

    def check_enough(self, plan: Any, n_queries: int, n_classes: int) -> None:
        """Refuse a plan that spends a budget on useless labels, and warn of one that cannot answer ``n_queries``."""
        if not plan.is_paid:
            check_enough(
                plan.quote.max_answers + plan.n_free,
                plan.mechanism,
                budget=self.budget,
                n_queries=min(n_queries, plan.n_free + (self.max_answers or n_queries)),
                n_public=plan.n_public,
                n_teachers=plan.n_teachers,
                n_classes=n_classes,
                commonest=self.commonest,
                force=self.force,
            )


@takes_former_names(anyway="force", ledger_currency="accounting_unit", ranges="schema")
@dataclass(kw_only=True, eq=False, repr=False)
class LabelSettings(JobSettings):
    """The settings of a job on private records; see :class:`pate.jobs.LabelJob`."""

    private: str | os.PathLike[str] = field(kw_only=False)
    public: str | os.PathLike[str] | None = field(default=None, kw_only=False)
    target: str | None = None
    group: str | None = None
    tiers: str | None = None
    drop: Iterable[str] = ()
    text: Iterable[str] = ()
    only_common: bool = False
    sep: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    sheet: str | None = None
    dates: str = "auto"
    voters: str | None = None
    schema: Mapping[str, Any] | Schema | None = None
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
        """Refuse settings that do not fit together, before any file is read; ``voters`` is then set, or ``"auto"``."""
        check_places(self.private, self.public)
        if self.checkpoint_dir is not None:
            check_path("checkpoint_dir", self.checkpoint_dir)
        for name in ("random_state", "partition_seed"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), low=0)
        if self.n_jobs is not None and check_int("n_jobs", self.n_jobs) == 0:
            raise InvalidInputError("n_jobs must be None or a whole number other than 0, got 0. -1 takes all cores.")
        self.drop, self.text = as_names("drop", self.drop), as_names("text", self.text)
        self.budget, self.tier_budgets = as_budget(self.budget)
        if (self.tiers is None) != (self.tier_budgets is None):
            raise InvalidInputError(
                "tiers must name the column of the tiers where budget has one for each, and there alone, got "
                f"{self.tiers!r}. Say budget={{'gold': Budget(3.0, 1e-5), ...}} (--tiers COLUMN:gold=3,...)."
            )
        check_choice("preprocess", self.preprocess, PREPROCESSING)
        check_int("max_categories", self.max_categories, low=2)
        given = dict.fromkeys(self._said(*_OF_SHARDS), True)
        not_of_heads = [_spelt(name) for name in ("teacher", "preprocess")]
        self.voters = chosen_voters(self.voters, given, not_of_heads=not_of_heads)
        alone = ("auto", "dpsgd") if self.schema is None else ("auto", "dpsgd", "records")
        if self.public is None and self.voters not in alone:
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

    @property
    def public_rows(self) -> str:
        """How it is known that public rows are public, for the statement."""
        return "declared" if self.overlap_is_public else "checked"

    def _said(self, *names: str) -> list[str]:
        """Return the parameters among these that are not as they are left out, each beside its option."""
        return [_spelt(name) for name in names if getattr(self, name) != getattr(LabelSettings, name)]

    def check_heeded(self) -> None:
        """Refuse settings that would be silently ignored, of DP-SGD and where there are no public rows."""
        unheeded = self._said(*_UNHEEDED) if self.voters == "dpsgd" else []
        of_public = self._said(*_OF_PUBLIC) if self.public is None else []
        for where, said in (
            ("with voters='dpsgd' (--voters dpsgd)", unheeded),
            ("where there are no public rows", of_public),
        ):
            if said:
                raise InvalidInputError(f"{said[0]} must be left out {where}. It would change nothing.")
        if self.public is None and not self.keep_model:
            raise InvalidInputError(
                "keep_model=False (--no-model) must be left out where there are no public rows: the model is the only "
                "output."
            )


def check_places(private: Any, public: Any) -> None:
    """Refuse what names no file and no folder."""
    for name, value in (("private", private), ("public", public)):
        if name == "private" or value is not None:
            remedy = "For tables in memory: PATEClassifier, PATERegressor or PATEMultilabelClassifier."
            check_path(name, value, remedy=remedy)


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


# One private data set has one ledger: a copy under another name does not get a new budget.


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


def open_ledger(ledger: Any, accounting_unit: str | None = None) -> Ledger:
    """Return the ledger in this file, or the one that is given."""
    if not isinstance(ledger, Ledger):
        return Ledger(ledger, currency=accounting_unit)
    if accounting_unit is not None:
        raise InvalidInputError(
            f"accounting_unit must be None where ledger is a Ledger, got {accounting_unit!r}. Say "
            f"ledger=Ledger(path, currency={accounting_unit!r}), or ledger=path."
        )
    return ledger


def check_ledger(book: Ledger, data: Registration, private: Path, *, new_ledger: bool) -> None:
    """Refuse a ledger of other records, or to begin one for records that have one, or are largely of the same people.

    Other ledgers, and releases whose ledger is gone, are searched for beside the records and beside the new ledger. The
    message depends on the records: it is for the curator alone, like every message of a refused run, and comes before
    anything is trained or released.
    """
    if book.registration is None:
        # A link to the records is these records.
        said = book.check_beside(str(private), data, private.parent, Path(os.path.realpath(private)).parent)
        if said and not new_ledger:
            raise InvalidInputError(said)
    book.check(data)


def check_absent(book: Ledger | None) -> None:
    """Refuse to begin a new ledger where there is one, or where none is named."""
    if book is None:
        raise InvalidInputError("new_ledger starts the one that ledger= names, and ledger is None. Name a file.")
    if book.registration is not None:  # one that was opened with a total, and charged nothing yet, is new
        raise InvalidInputError(
            f"new_ledger (--new-ledger) starts one, but there is a ledger {str(book.path)!r} already. Leave it out to "
            "go on with that one, or name another file: ledger= (--ledger)."
        )
