"""The job on private records with several labels each: read, plan, ask, and release labels with probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pate._core.checks import as_names, shown
from pate.data import label_cells
from pate.estimators import PATEMultilabelClassifier, about_labels, registration_of_labels
from pate.exceptions import InvalidInputError
from pate.jobs._numbers import NumberJob, check_sides
from pate.jobs._plan import ModelPlan
from pate.jobs._reading import Sources
from pate.mechanisms import GaussianSum
from pate.models import SeveralPlan, proba_names
from pate.records import read_labels
from pate.release import counted

#: Columns of the written file beside the labels, their probabilities and the id.
_COLUMNS = ("row", "file")


@dataclass(frozen=True, eq=False, kw_only=True)
class SeveralLabelsPlan(ModelPlan):
    """The plan of a job with several labels: what it does and costs, from public shapes and rows alone.

    Attributes
    ----------
    n_units, n_public : int
    unit : {"record", "group"}
    names : tuple of str
        The labels.
    n_held_out : int
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
    >>> plan = SeveralLabelsPlan(
    ...     n_units=900,
    ...     n_public=400,
    ...     unit="record",
    ...     encoding="3 columns",
    ...     names=("ill", "old"),
    ...     n_held_out=90,
    ...     mechanisms=(noise,),
    ...     guarantee=noise.charge(1).guarantee(1e-5),
    ...     is_paid=False,
    ... )
    >>> print(plan)
    900 records vote in 1 round on 2 labels; labels of all 400 public rows; will spend ...
    """

    names: tuple[str, ...]
    n_held_out: int
    mechanisms: tuple[GaussianSum, ...]
    doubt: str = ""

    def __str__(self) -> str:
        n = len(self.mechanisms)
        return (
            f"{self.n_units} {self.unit}s vote in {n} round{'s' * (n > 1)} on {len(self.names)} labels; labels of all "
            f"{self.n_public} public rows; will spend {self._spends()}"
        )

    def lines(self) -> list[tuple[str, str]]:
        """Return what will be done, each with its name."""
        about = "about " if self.unit == "group" else ""
        return [
            ("voters", f"{self.n_units} {self.unit}s, {about}{self.n_held_out} held out to measure the model"),
            *self.files,
            ("rows", self.encoding),
            ("labels", ", ".join(self.names) + ": each yes or no, all in one ballot"),
            ("rounds", f"{len(self.mechanisms)}, all paid for before the first"),
            ("noise", "Gaussian, in multiples of what one unit may change: "
                      + counted(m.noise_multiplier for m in self.mechanisms)),
            ("answers", f"all labels of all {self.n_public} public rows, with probabilities"),
            ("measures", "accuracy, precision, recall and F1 of each label, on the held-out units"),
            ("expects", self.doubt),
            *self._price(),
        ]  # fmt: skip


class SeveralLabelsJob(NumberJob):
    """The job on files for several labels per record: read, plan, and release all labels of every public row.

    Parameters
    ----------
    private, public : path
        As of :class:`pate.jobs.LabelJob`. A private cell of a label that is neither yes nor no affects its own record
        only.
    target : iterable of str
        Columns of the private table with the labels, two or more: 0/1, no/yes or false/true.
    budget : Budget
    group, drop, text, id, only_common, sep, encoding, decimal, thousands, sheet, dates, overlap_is_public
        As of :class:`pate.jobs.LabelJob`.
    ledger, accounting_unit, new_ledger, random_state, noise_seed, tuning, stated, force, keep_model, verbose
        As of :class:`pate.jobs.LabelJob`.

    Attributes
    ----------
    plan : SeveralLabelsPlan

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
    >>> from pathlib import Path
    >>> from pate import Budget
    >>> folder = Path(tempfile.mkdtemp())
    >>> rows = pd.DataFrame({"size": np.arange(3000.0)})
    >>> labels = pd.DataFrame({"large": rows["size"] > 2000, "small": rows["size"] < 1000})
    >>> rows.join(labels).to_csv(folder / "private.csv", index=False)
    >>> (rows[::30] + 0.5).to_csv(folder / "public.csv", index=False)
    >>> job = SeveralLabelsJob(
    ...     folder / "private.csv",
    ...     folder / "public.csv",
    ...     target=["large", "small"],
    ...     budget=Budget(3.0, 1e-5),
    ... )
    >>> print(job.plan)
    3000 records vote in 22 rounds on 2 labels; labels of all 100 public rows; will spend (3, 1e-05)...
    >>> release = job.run()
    >>> bool((release.labels == labels[::30]).to_numpy().mean() > 0.9)
    True
    """

    _learns = PATEMultilabelClassifier
    _about = staticmethod(about_labels)

    def _begin(
        self, private: Any, public: Any, target: Any, target_range: Any, id: str | None, overlap: bool, written: Any
    ) -> tuple[str, ...]:
        names = as_names("target", target or ())
        if len(names) < 2 or len(set(names)) != len(names):
            raise InvalidInputError(
                f"target must name two or more columns, each once, got {shown(','.join(map(str, names)))}. Name each "
                "label's column once. For one label use LabelJob(target=..., classes=...)."
            )
        if target_range is not None:
            raise InvalidInputError("target_range must be left out: it is of a target that is a number.")
        columns = (*_COLUMNS, *names, *proba_names(names))
        if len(set(columns)) != len(columns):
            raise InvalidInputError(
                "target must name no column that is called as another of the written file is (row, file, p_LABEL). "
                "Rename it in the table."
            )
        check_sides(private, public, id, columns, what="several labels", overlap_is_public=overlap)
        self._cells, self._names = label_cells(private, names, like=public, **written), names
        self._registered = partial(registration_of_labels, names=names)
        return names

    def _read(self, source: Sources) -> tuple[Sources, Any]:
        names = self._names
        files = tuple((side, _as_labels(text, names) if side == "columns" else text) for side, text in source.files)
        return replace(source, files=files), read_labels(self._cells, names)[0]

    def _planner(self) -> Callable[..., SeveralPlan]:
        return partial(SeveralPlan.of, names=self._names)

    def _plan(self) -> SeveralLabelsPlan:
        return SeveralLabelsPlan(**self._planned(), names=self._names, n_held_out=self._rounds.numbers.n_held_out)


def _as_labels(columns: str, names: tuple[str, ...]) -> str:
    """Return what becomes of columns, where labels beside the first one were left out as features."""
    said = {f"{name}: {what}": f"{name}: a label" for name in names for what in ("the classes", "dropped")}
    return "\n".join(said.get(line, line) for line in columns.splitlines())
