"""The job on private records whose target is a number: read, plan, ask, and release values with intervals."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pate._core.checks import as_names
from pate._core.curator import CuratorMessage, warn_curator
from pate.data import about_shift, check_other_file, check_public_rows, file_of
from pate.estimators import (
    FEWEST_PUBLIC,
    PATERegressor,
    about_numbers,
    registration_of_numbers,
)
from pate.exceptions import InvalidInputError
from pate.jobs._plan import ModelPlan, about_total
from pate.jobs._reading import Sources, about_thousands, in_planes, read_sources
from pate.jobs._request import LabelSettings, check_absent, check_ledger, check_places, open_ledger
from pate.jobs._student import input_spec_of
from pate.jobs._writing import as_csv, check_proba, new_paths, statement_files, write_files
from pate.ledger import Ledger
from pate.mechanisms import GaussianSum
from pate.models import RegressionPlan
from pate.privacy.budget import Budget
from pate.records import check_bounds, read_target
from pate.release import Evidence, ReleaseTerms, check_ballots_stated, counted, warn_if_weak, warn_of_doubts
from pate.release.statement.files import bind_statement

#: Columns of the written file beside the id.
_COLUMNS = ("row", "file", "value", "low", "high")


@dataclass(frozen=True, eq=False, kw_only=True)
class NumberPlan(ModelPlan):
    """The plan of a job whose target is a number: what it does and costs, from public shapes and rows alone.

    Attributes
    ----------
    n_units, n_public : int
    unit : {"record", "group"}
    bounds : (float, float)
        What the target lies between, as stated.
    n_bins, n_held_out : int
    mechanisms : tuple of GaussianSum
        The noise of every round.
    guarantee : Guarantee
        Of all rounds together.
    is_paid : bool
        An earlier run paid for them: this one spends nothing.
    doubt : str
        What speaks against it; empty where nothing does.

    Examples
    --------
    >>> noise = GaussianSum(9.0)
    >>> plan = NumberPlan(
    ...     n_units=900,
    ...     n_public=400,
    ...     unit="record",
    ...     encoding="3 columns",
    ...     bounds=(0.0, 120.0),
    ...     n_bins=12,
    ...     n_held_out=90,
    ...     mechanisms=(noise,),
    ...     guarantee=noise.charge(1).guarantee(1e-5),
    ...     is_paid=False,
    ... )
    >>> print(plan)
    900 records vote in 1 round on a number from 0 to 120; values of all 400 public rows; will spend ...
    """

    bounds: tuple[float, float]
    n_bins: int
    n_held_out: int
    mechanisms: tuple[GaussianSum, ...]
    doubt: str = ""

    def __str__(self) -> str:
        n = len(self.mechanisms)
        return (
            f"{self.n_units} {self.unit}s vote in {n} round{'s' * (n > 1)} on a number from {self.bounds[0]:g} to "
            f"{self.bounds[1]:g}; values of all {self.n_public} public rows; will spend {self._spends()}"
        )

    def lines(self) -> list[tuple[str, str]]:
        """Return what will be done, each with its name."""
        about = "about " if self.unit == "group" else ""
        return [
            ("voters", f"{self.n_units} {self.unit}s, {about}{self.n_held_out} held out for intervals and errors"),
            *self.files,
            ("rows", self.encoding),
            ("target", f"a number from {self.bounds[0]:g} to {self.bounds[1]:g}, as stated; in {self.n_bins} bins"),
            ("rounds", f"{len(self.mechanisms)}, all paid for before the first"),
            ("noise", "Gaussian, in multiples of what one unit may change: "
                      + counted(m.noise_multiplier for m in self.mechanisms)),
            ("values", f"all {self.n_public} public rows, with 90% intervals"),
            ("measures", "mean absolute error and R2, on the held-out units"),
            ("expects", self.doubt),
            *self._price(),
        ]  # fmt: skip


def check_sides(
    private: Any, public: Any, id: str | None, columns: Iterable[str], *, what: str, overlap_is_public: bool
) -> None:
    """Refuse, before any file is read, to do without public rows, to take private ones for them, and an id's name."""
    check_places(private, public)
    if public is None:
        raise InvalidInputError(
            f"public must be given where the target is {what}: private records vote on public rows. Name some."
        )
    if id is not None and id in tuple(columns):
        raise InvalidInputError(
            f"id must not be called {id!r}, as a column of the written file is. Rename it in the table."
        )
    if not overlap_is_public:
        check_other_file(private, public)


def _check_table(source: Sources) -> None:
    if source.kind == "images":
        raise InvalidInputError("private must be a table, got images: there labels are folders. Name a table.")


class NumberJob:
    """The job on files for a numeric target: read, plan, and release a number with an interval for every public row.

    Parameters
    ----------
    private, public : path
        As of :class:`pate.jobs.LabelJob`. A private cell of the target that is no number affects its own record only.
    target : str
        Column of the private table with the numbers.
    target_range : (float, float)
        Two numbers that they lie between, from public knowledge; see :class:`pate.PATERegressor`.
    budget : Budget
    group, drop, text, id, only_common, sep, encoding, decimal, thousands, sheet, dates, overlap_is_public
        As of :class:`pate.jobs.LabelJob`.
    ledger, accounting_unit, new_ledger, random_state, noise_seed, tuning, stated, force, keep_model, verbose
        As of :class:`pate.jobs.LabelJob`.

    Attributes
    ----------
    plan : NumberPlan

    Raises
    ------
    InvalidInputError
        Files, columns or parameters that do not fit; nothing was spent.
    NotWorthwhileError
        Too few records for the budget, and ``force`` is False.
    BudgetExceededError
        What the ledger has left does not buy it.

    Examples
    --------
    >>> import tempfile, numpy as np, pandas as pd
    >>> folder = Path(tempfile.mkdtemp())
    >>> rows = pd.DataFrame({"size": np.arange(3000.0), "price": np.arange(3000.0) * 2})
    >>> rows.to_csv(folder / "private.csv", index=False)
    >>> (rows[["size"]].iloc[::30] + 0.5).to_csv(folder / "public.csv", index=False)
    >>> job = NumberJob(
    ...     folder / "private.csv",
    ...     folder / "public.csv",
    ...     target="price",
    ...     target_range=(0, 10_000),
    ...     budget=Budget(3.0, 1e-5),
    ... )
    >>> print(job.plan)
    3000 records vote in 47 rounds on a number from 0 to 10000; values of all 100 public rows; will spend (3, 1e-05)...
    >>> release = job.run()
    >>> bool(abs(release.values - (rows["size"][::30] + 0.5) * 2).mean() < 500)
    True
    """

    _learns: Any = PATERegressor
    _about: Any = staticmethod(about_numbers)
    _registered: Any = staticmethod(registration_of_numbers)

    def __init__(
        self,
        private: str | os.PathLike[str],
        public: str | os.PathLike[str] | None = None,
        *,
        target: Any = None,
        target_range: Any = None,
        budget: Budget,
        group: str | None = None,
        drop: Iterable[str] = (),
        text: Iterable[str] = (),
        id: str | None = None,
        only_common: bool = False,
        sep: str | None = None,
        encoding: str | None = None,
        decimal: str | None = None,
        thousands: str | None = None,
        sheet: str | None = None,
        dates: str = "auto",
        overlap_is_public: bool = False,
        ledger: str | os.PathLike[str] | Ledger | None = None,
        accounting_unit: str | None = None,
        new_ledger: bool = False,
        random_state: int | None = 0,
        noise_seed: int | None = None,
        tuning: str = "",
        stated: Mapping[str, str] | None = None,
        force: bool = False,
        keep_model: bool = True,
        verbose: bool = False,
    ) -> None:
        written: dict[str, Any] = {
            "sep": sep, "encoding": encoding, "decimal": decimal, "thousands": thousands, "sheet": sheet,
        }  # fmt: skip
        target, *more = self._begin(private, public, target, target_range, id, overlap_is_public, written)
        self._settings = settings = LabelSettings(
            private, public, budget=budget, target=target, group=group, drop=(*as_names("drop", drop), *more),
            text=text, id=id, only_common=only_common, dates=dates, voters="records", ledger=ledger,
            overlap_is_public=overlap_is_public, accounting_unit=accounting_unit, new_ledger=new_ledger,
            random_state=random_state, noise_seed=noise_seed, tuning=tuning, stated=stated, force=force,
            keep_model=keep_model, verbose=verbose, **written,
        )  # fmt: skip
        self._source, self._values = self._read(read_sources(settings))
        self._prepare()
        self.plan = self._plan()

    def _begin(
        self, private: Any, public: Any, target: Any, target_range: Any, id: str | None, overlap: bool, written: Any
    ) -> tuple[Any, ...]:
        """Check what is said of the target, and return its column, and columns to leave out besides."""
        self._bounds = check_bounds(target_range, name="target_range (--range)")
        check_sides(private, public, id, _COLUMNS, what="a number", overlap_is_public=overlap)
        return (target,)

    def _read(self, source: Sources) -> tuple[Sources, Any]:
        """Return what was read, and the target of all records."""
        _check_table(source)
        values = read_target(source.y, written=source.of_target)
        told = about_thousands(source.y[np.isnan(values)])
        return replace(source, messages=(*source.messages, *told)), values

    def _planner(self) -> Callable[..., RegressionPlan]:
        """Return what chooses the rounds."""
        return partial(RegressionPlan.of, bounds=self._bounds)

    def _plan(self) -> Any:
        numbers = self._rounds.numbers
        return NumberPlan(**self._planned(), bounds=self._bounds, n_bins=numbers.n_bins, n_held_out=numbers.n_held_out)

    def _prepare(self) -> None:
        """Check both sides and plan all rounds; nothing is spent."""
        s, source = self._settings, self._source
        self._ledger = book = None if s.ledger is None else open_ledger(s.ledger, s.accounting_unit)
        if s.new_ledger:
            check_absent(book)
        self._private, self._new_ledger, self.keeps_model = file_of(s.private), s.new_ledger, s.keep_model
        if not s.overlap_is_public:
            check_public_rows(source.X, source.public, source.groups)
        n_public = len(source.public)
        if n_public < FEWEST_PUBLIC:
            raise InvalidInputError(f"public must have at least {FEWEST_PUBLIC} rows, got {n_public}. Add public rows.")
        warn_if_weak(s.budget.delta, source.n_units, epsilon=s.budget.epsilon)
        terms = ReleaseTerms(
            budget=s.budget, ledger=book, noise_seed=s.noise_seed, tuning=s.tuning,
            stated=check_ballots_stated(s.stated, residual=True),
        )  # fmt: skip
        self._rounds = self._planner()(
            terms, in_planes(source.public, source.image_shape), n_units=source.n_units, unit=source.unit,
            random_state=(s.random_state or 0) % 2**32, force=s.force, verbose=s.verbose,
        )  # fmt: skip
        self._evidence = Evidence(
            preprocessing="public" if self._rounds.voters.own_maps else "none", public_rows=s.public_rows
        )
        self._model: Any = None

    def _planned(self) -> dict[str, Any]:
        """Return what every plan of rounds says."""
        source, rounds = self._source, self._rounds
        before = f"{source.X.shape[1]} columns" if source.kind == "table" else source.kind
        return {
            "n_units": source.n_units,
            "n_public": len(source.public),
            "unit": source.unit,
            "encoding": f"{before} become {rounds.voters.space.n_features_in_} numbers, by what the public rows teach",
            "mechanisms": rounds.mechanisms,
            "guarantee": rounds.guarantee,
            "is_paid": rounds.stored,
            "total": ""
            if rounds.stored
            else about_total(self._ledger, rounds.charge, self._private, rounds.terms.budget),
            "doubt": rounds.numbers.doubt or "",
            "caution": rounds.numbers.doubt or "",
            "total_if_short": rounds.total_if_short,
            "files": source.files,
            "odd": source.odd,
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.plan})"

    def check_records(self) -> tuple[CuratorMessage, ...]:
        """Warn the curator before :meth:`run`, as :meth:`pate.jobs.LabelJob.check_records` does: **private**."""
        source = self._source
        self._check_ledger()
        shift = about_shift(source.X, source.public, image_shape=source.image_shape)
        return warn_curator([*self._about(self._values, source.groups), *source.messages, *shift])

    def _check_ledger(self) -> None:
        book, source, plan = self._ledger, self._source, self.plan
        if book is None:
            return
        data = self._registered(source.X, self._values, source.groups, n_units=plan.n_units, unit=plan.unit)
        check_ledger(book, data, self._private, new_ledger=self._new_ledger)
        if not plan.is_paid:
            book.check_writable()

    def run(self) -> Any:
        """Let records vote in all rounds, and release what is said of public rows; the charge is stored before that."""
        self._check_ledger()
        source = self._source
        release, self._model = self._rounds.run(source.X, self._values, groups=source.groups, evidence=self._evidence)
        if self._ledger is not None:
            self._ledger.warn_of_other_features(release.statement.ledger_releases)
        bind_statement(release.statement, self._ledger)
        warn_of_doubts(release.statement)
        return release

    def write(
        self, release: Any, out: str | os.PathLike[str], *, proba: bool = False, raw_csv: bool = False
    ) -> list[Path]:
        """Write what was released of all public rows, and the statement beside it.

        Parameters
        ----------
        release
            What :meth:`run` returned.
        out : path
            A CSV file: the public rows' own ids where there are some, ``row`` (from 0), ``value``, ``low`` and
            ``high``, the ends of a 90% interval. The statement goes beside it, as for a job of labels.
        proba : bool
            Must be False: there are no classes.
        raw_csv : bool
            As of :meth:`pate.jobs.LabelJob.write`.
        """
        if proba:
            check_proba(self.plan)
        source, paths = self._source, new_paths(out)
        frame = release.to_frame()
        content = as_csv(frame, names=source.names, ids=source.ids, id_name=source.id_name, raw_csv=raw_csv)
        statement = release.statement.of_file(paths[0].name, content)
        write_files({**statement_files(paths, statement), paths[0]: content}, statement, self._ledger)
        self._statement = statement
        return paths

    def model(self, release: Any) -> Any:
        """Return the model of what ``run`` released, for any further rows; this costs no privacy."""
        statement = getattr(self, "_statement", release.statement)
        reg = self._learns._of_model(self._model, input_spec_of(self._source), statement)
        return reg.set_params(ledger=self._ledger)

    def finish(self) -> None:
        """Do nothing: such a job leaves no checkpoint."""
