"""The job on private records alone whose target is a number: DP-SGD learns within a schema of their columns."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pate._core.curator import CuratorMessage, warn_curator
from pate.data import file_of
from pate.estimators import about_numbers, begun_run, registration_of_numbers
from pate.exceptions import CuratorWarning, InvalidInputError
from pate.jobs._plan import GradientPlan, about_total
from pate.jobs._reading import about_thousands, read_sources
from pate.jobs._request import LabelSettings, check_absent, check_ledger, open_ledger
from pate.jobs._student import input_spec_of
from pate.jobs._writing import new_paths, statement_files, write_files
from pate.ledger import Ledger
from pate.privacy.budget import Budget, check_budget
from pate.records import check_bounds, read_target
from pate.release import warn_if_weak

if TYPE_CHECKING:
    from pate.dpsgd import Checkpoint


@dataclass(frozen=True, eq=False, kw_only=True)
class NumberTrainingPlan(GradientPlan):
    """The plan of such a job: what it does and costs, from public shapes and the schema alone.

    ``bounds`` is the stated range of the target, ``asks`` whether its histograms and the model's errors are released.
    """

    bounds: tuple[float, float]
    asks: bool

    def lines(self) -> list[tuple[str, str]]:
        """Return what will be done, each with its name."""
        low, high = self.bounds
        found = "noisy histograms first find the part of it that holds the records" if self.asks else "taken as it is"
        said = {
            "labels": "none, as there are no public rows: the model and its statement are what is written",
            "measures": "mean absolute error, R2 and a 90% interval, on the private records"
            if self.asks
            else "nothing",
        }
        lines = [(name, said.get(name, text)) for name, text in super().lines()]
        return [lines[0], ("target", f"a number from {low:g} to {high:g}, as stated; {found}"), *lines[1:]]


class NumberTrainingJob:
    """Read a private table, plan, and train a model of a number by DP-SGD, where there are no public rows.

    Parameters
    ----------
    private : path
        A table, as of :class:`pate.jobs.LabelJob`.
    schema : Schema
        What its columns hold, from public knowledge.
    target, group : str, str or None
        Columns of the numbers, and of the persons that records belong to.
    target_range, budget, noise_seed, force
        As of :class:`pate.DPSGDRegressor`.
    ledger : path, Ledger or None
    new_ledger : bool
    checkpoint_dir : path or None
        Where a run that is cut off can be taken up again, at no further cost.
    verbose : bool
    sep, encoding, decimal, thousands, sheet : str or None
        How the file is written, as in :func:`pate.data.read_table`.

    Attributes
    ----------
    plan : NumberTrainingPlan

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
    >>> import tempfile, pandas as pd
    >>> from pate.data import Schema
    >>> folder = Path(tempfile.mkdtemp())
    >>> rows = pd.DataFrame(
    ...     {"size": np.arange(3000) % 100, "price": np.arange(3000) % 100 * 2.0}
    ... )
    >>> rows.to_csv(folder / "private.csv", index=False)
    >>> job = NumberTrainingJob(
    ...     folder / "private.csv",
    ...     schema=Schema.declared({"size": (0, 100)}),
    ...     target="price",
    ...     target_range=(0, 10_000),
    ...     budget=Budget(3.0, 1e-5),
    ... )
    >>> print(job.plan)
    DP-SGD learns from 3000 records in 40 steps, ...; no public rows; will spend (...1e-05)-DP, ...
    >>> model = job.model(job.run())
    >>> bool(abs(model.predict(rows[["size"]]) - rows["price"]).mean() < 50)
    True
    """

    #: No rows are drawn.
    draws_rows = False

    def __init__(
        self,
        private: str | os.PathLike[str],
        *,
        schema: Any,
        target: str,
        target_range: Any,
        budget: Budget,
        group: str | None = None,
        ledger: str | os.PathLike[str] | Ledger | None = None,
        new_ledger: bool = False,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        noise_seed: int | None = None,
        force: bool = False,
        verbose: bool = False,
        sep: str | None = None,
        encoding: str | None = None,
        decimal: str | None = None,
        thousands: str | None = None,
        sheet: str | None = None,
    ) -> None:
        from pate.dpsgd import DPSGDRegressor, along, flat, make_plan, priced, read_mechanism, shape_of, with_sums
        from pate.dpsgd.recipes import RecipePlan

        check_budget(budget)
        bounds = check_bounds(target_range, name="target_range (--range)")
        settings = LabelSettings(
            private, schema=schema, budget=budget, target=target, group=group, checkpoint_dir=checkpoint_dir,
            verbose=verbose, sep=sep, encoding=encoding, decimal=decimal, thousands=thousands, sheet=sheet,
        )  # fmt: skip
        self._source = source = read_sources(settings)
        if source.kind != "table":
            raise InvalidInputError("private must be a table where the target is a number. Name a table.")
        self._ledger = book = None if ledger is None else open_ledger(ledger)
        if new_ledger:
            check_absent(book)
        self._private, self._new_ledger, self._schema = file_of(private), new_ledger, schema
        self._values = read_target(source.y, written=source.of_target)
        self._told = about_thousands(source.y[np.isnan(self._values)])
        warn_if_weak(budget.delta, source.n_units, epsilon=budget.epsilon)
        self._reg: Any = DPSGDRegressor(
            budget=budget, target_range=bounds, ledger=book, random_state=0, noise_seed=noise_seed,
            checkpoint_dir=checkpoint_dir, force=force, verbose=verbose,
        )  # fmt: skip
        self._kept: Checkpoint | None = None
        shape = tuple(np.shape(source.X)[1:])
        recipe_plan = RecipePlan.of(shape, n_units=source.n_units, n_classes=1, budget=budget, ranges=schema)
        run = along(flat(self._reg, schema=schema), recipe_plan)
        steps = shape_of(run, source.n_units, source.unit)
        begun = begun_run(checkpoint_dir, book)
        resumed = bool(begun.get("releases"))
        planned = make_plan(
            budget, steps, mechanism=with_sums(run, read_mechanism(run, steps), steps),
            noise_multiplier=begun.get("noise_multiplier"), ledger=None if resumed else book,
        )  # fmt: skip
        cost = priced(planned)
        self.plan = NumberTrainingPlan(
            n_units=source.n_units,
            n_public=0,
            unit=source.unit,
            encoding=f"{source.X.shape[1]} columns become {recipe_plan.maps[-1].n_features_out_} numbers, by declared "
            "ranges",
            reasons=recipe_plan.recipe.reasons,
            n_steps=steps.n_steps,
            sampling=planned.mechanism.words(steps).partition(",")[0],
            noise_multiplier=planned.noise_multiplier,
            guarantee=planned.guarantee,
            is_paid=resumed,
            total="" if resumed or cost is None else about_total(book, cost, private, budget),
            files=source.files,
            odd=source.odd,
            bounds=bounds,
            asks=len(getattr(planned.mechanism, "counts", ())) > 0,
            total_if_short=planned.total_if_short,
        )

    def __repr__(self) -> str:
        return f"NumberTrainingJob({self.plan})"

    def check_records(self) -> tuple[CuratorMessage, ...]:
        """Warn the curator before :meth:`run`, as :meth:`pate.jobs.LabelJob.check_records` does: **private**."""
        source = self._source
        self._check_ledger()
        return warn_curator([*about_numbers(self._values, source.groups), *source.messages, *self._told])

    def _check_ledger(self) -> None:
        book, source, plan = self._ledger, self._source, self.plan
        if book is None:
            return
        data = registration_of_numbers(source.X, self._values, source.groups, n_units=plan.n_units, unit=plan.unit)
        check_ledger(book, data, self._private, new_ledger=self._new_ledger)
        if not plan.is_paid:
            book.check_writable()

    def run(self) -> Any:
        """Charge the ledger, train, and return the fitted :class:`pate.DPSGDRegressor`."""
        self._check_ledger()
        source = self._source
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CuratorWarning)  # check_records warned
            self._kept = self._reg.fit_keeping(source.X, self._values, groups=source.groups, schema=self._schema)
        self._reg._door = input_spec_of(source)
        return self._reg

    def write(self, release: Any, out: str | os.PathLike[str]) -> list[Path]:
        """Write the statement of a run beside ``out``, the model's file; return its paths."""
        files = statement_files(new_paths(out), release.statement_)
        write_files(files, release.statement_, self._ledger)
        return list(files)

    def model(self, release: Any) -> Any:
        """Return the fitted regressor, with ``save(path)``."""
        return self._reg

    def finish(self) -> None:
        """Delete the checkpoint of the run, with its key, once all files are written.

        Until then the same job, after a kill, returns the model that was paid for.
        """
        if self._kept is not None:
            self._kept.finish()
