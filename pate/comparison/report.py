"""What a comparison found: tidy rows, a table, a picture, files."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pate.comparison.cells import COLUMNS, Cell
from pate.core.files import write_json
from pate.core.pages import cell as as_cell
from pate.core.tables import lined_up
from pate.exceptions import InvalidInputError
from pate.report.result import Result, SensitiveResult, Stated
from pate.report.rows import Entrant, FitCost
from pate.statement.model import PrivacyStatement
from pate.studies.folders import refuse_other_results

if TYPE_CHECKING:
    from pate.report.plots import Display


def write_pages(folder: Path, report: ComparisonReport, *, command: str | None = None, sensitive: bool = False) -> None:
    """Write ``results.json`` and the pages into a folder that is known to be this comparison's."""
    from pate.report import write_report, write_sensitive_report

    result = report.result(command=command)
    write_json(folder / "results.json", result.to_dict())
    write_report(folder / "report.html", result)
    if sensitive:
        write_sensitive_report(folder / "sensitive.html", result, report.sensitive())


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ComparisonReport:
    """What :func:`compare` found: tidy rows first, then a table, a picture and files. Printing it shows the table.

    Attributes
    ----------
    cells : tuple of Cell
        By contestant, then budget, then repeat.
    dataset, protocol, description : str
    classes : tuple
    entrants : tuple of Entrant
        Who took part.
    settings : dict
        What was asked for.
    redraws : {"all rows", "training rows", "nothing"}
        What each repeat drew anew of the data; of ``"all rows"`` test rows of two repeats overlap.
    n_pool : int or None
        Rows that a repeat's parts are cut from.
    published : bool
        Whether the private rows are published: then ceilings stand among the cells, and costs may be shown.
    ceilings : tuple of Cell
        Fits without privacy, of data that are not published: **sensitive**, never printed.
    costs : tuple of FitCost
        Of every fit: **sensitive** (data-dependent epsilons always), never printed.
    created, commit, versions
        Where the numbers come from.

    Examples
    --------
    >>> cells = [Cell(contestant="PATE", epsilon=1.0, delta=1e-5, repeat=r, accuracy=a, seed=r)
    ...          for r, a in enumerate([0.90, 0.92])]
    >>> ComparisonReport(cells=tuple(cells), dataset="digits")
    Accuracy on the test rows of digits at delta = 1e-05 (mean ± standard deviation over seeds):
    contestant  epsilon  accuracy       fits
    PATE        1        0.910 ± 0.014  2
    """

    cells: tuple[Cell, ...]
    dataset: str
    protocol: str = ""
    description: str = ""
    classes: tuple[Any, ...] = ()
    entrants: tuple[Entrant, ...] = ()
    redraws: str = "nothing"
    n_pool: int | None = None
    published: bool = False
    ceilings: tuple[Cell, ...] = ()
    costs: tuple[FitCost, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    created: str = ""
    commit: str | None = None
    versions: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.cells:
            raise InvalidInputError("cells must hold at least one fit, got none. Use pate.compare to make a report.")

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per fit, with the fields of :class:`pate.report.rows.Row`.

        Examples
        --------
        >>> cell = Cell(contestant="A", epsilon=1.0, delta=1e-5, repeat=0, accuracy=0.9, seed=7)
        >>> ComparisonReport(cells=(cell,), dataset="digits").rows()[0]["accuracy"]
        0.9
        """
        return [cell.row().to_dict() for cell in self.cells]

    def to_frame(self) -> Any:
        """Return the rows as a pandas DataFrame.

        Examples
        --------
        >>> cell = Cell(contestant="A", epsilon=1.0, delta=1e-5, repeat=0, accuracy=0.9, seed=7)
        >>> ComparisonReport(cells=(cell,), dataset="digits").to_frame().shape
        (1, 19)
        """
        import pandas as pd

        return pd.DataFrame(self.rows(), columns=list(COLUMNS))

    def summary(self) -> list[dict[str, Any]]:
        """Return mean and spread by contestant and epsilon.

        Returns
        -------
        list of dict
            ``contestant``, ``epsilon`` (None of floors and ceilings), ``mean`` and ``std`` of the accuracy (sample
            standard deviation; NaN for a single fit), and ``n`` fits that were measured (a refused budget has none).

        Examples
        --------
        >>> cell = Cell(contestant="A", epsilon=1.0, delta=1e-5, repeat=0, accuracy=0.9, seed=7)
        >>> ComparisonReport(cells=(cell,), dataset="digits").summary()
        [{'contestant': 'A', 'epsilon': 1.0, 'mean': 0.9, 'std': nan, 'n': 1}]
        """
        groups: dict[tuple[str, float | None], list[float]] = {}
        for cell in self.cells:
            accuracies = groups.setdefault((cell.contestant, cell.epsilon), [])
            accuracies.extend([] if cell.accuracy is None else [cell.accuracy])
        found = []
        for (contestant, epsilon), measured in groups.items():
            accuracy = np.array(measured)
            std = float(accuracy.std(ddof=1)) if len(accuracy) > 1 else math.nan
            mean = float(accuracy.mean()) if len(accuracy) else math.nan
            found.append({"contestant": contestant, "epsilon": epsilon, "mean": mean, "std": std, "n": len(accuracy)})
        return found

    @property
    def statements(self) -> dict[tuple[str, float], PrivacyStatement]:
        """The privacy statement of each contestant at each epsilon, of its first fit."""
        found: dict[tuple[str, float], PrivacyStatement] = {}
        for cell in self.cells:
            if cell.statement is not None and cell.epsilon is not None:
                found.setdefault((cell.contestant, cell.epsilon), cell.statement)
        return found

    @property
    def _delta(self) -> float:
        return next((c.delta for c in self.cells if c.delta is not None), 0.0)

    @property
    def notes(self) -> list[str]:
        """What a reader must know before believing the numbers."""
        cells, delta = [c for c in self.cells if c.epsilon is not None and c.refused is None], self._delta
        names = list(dict.fromkeys(c.contestant for c in cells))
        total = sum(c.epsilon or 0.0 for c in cells)
        notes = [
            f"{len(cells)} fits on the private data were made, each a spend of its own: by plain composition all of "
            f"them cost epsilon = {total:g} at delta = {len(cells) * delta:g}. These numbers "
            "evaluate methods; they are not one release, and choosing a method by them on data that matters costs "
            "that sum.",
            "Accuracies were measured on held-out rows without noise.",
        ]
        if any(c.seeded for c in cells):
            notes.append("The noise was seeded: nothing here is private.")
        silent = [name for name in names if not any(c.statement for c in cells if c.contestant == name)]
        if silent:
            notes.append(
                f"{', '.join(silent)}: no privacy statement, so the epsilon is the budget that was given, and nobody "
                "vouches for it."
            )
        promises = {(s.unit, s.guarantee.adjacency) for s in self.statements.values()}
        if len(promises) > 1:
            told = "; ".join(f"{unit}, {adjacency}" for unit, adjacency in sorted(promises))
            notes.append(f"The contestants do not promise the same ({told}): equal epsilons do not mean equal privacy.")
        return notes

    def result(self, *, command: str | None = None) -> Result:
        """Return everything as what ``results.json`` holds and a report shows, all of it public.

        Parameters
        ----------
        command : str or None
            The command that made it, to be shown in the report.

        Examples
        --------
        >>> cell = Cell(contestant="A", epsilon=1.0, delta=1e-5, repeat=0, accuracy=0.9, seed=7)
        >>> ComparisonReport(cells=(cell,), dataset="digits").result()
        Result('A on digits')
        """
        names = list(dict.fromkeys(c.contestant for c in self.cells))
        return Result(
            kind="comparison",
            title=f"{' and '.join(names) if len(names) < 3 else ', '.join(names)} on {self.dataset}",
            dataset=self.dataset,
            protocol=self.protocol,
            description=self.description,
            command=command,
            created=self.created,
            versions=dict(self.versions),
            commit=self.commit,
            classes=self.classes,
            settings=self.settings,
            published=self.published,
            entrants=self.entrants,
            rows=tuple(cell.row() for cell in self.cells),
            statements=tuple(
                Stated(contestant=name, epsilon=epsilon, statement=statement)
                for (name, epsilon), statement in self.statements.items()
            ),
            notes=tuple(self.notes),
        )

    def sensitive(self) -> SensitiveResult:
        """Return what is the curator's: ceilings, times, memory, data-dependent epsilons.

        Examples
        --------
        >>> cell = Cell(contestant="A", epsilon=1.0, delta=1e-5, repeat=0, accuracy=0.9, seed=7)
        >>> ComparisonReport(cells=(cell,), dataset="digits").sensitive()
        SensitiveResult(<sensitive>)
        """
        return SensitiveResult(ceilings=tuple(cell.row() for cell in self.ceilings), costs=self.costs)

    def to_dict(self, *, command: str | None = None) -> dict[str, Any]:
        """Return :meth:`result` as JSON values.

        Examples
        --------
        >>> cell = Cell(contestant="A", epsilon=1.0, delta=1e-5, repeat=0, accuracy=0.9, seed=7)
        >>> ComparisonReport(cells=(cell,), dataset="digits").to_dict()["title"]
        'A on digits'
        """
        return self.result(command=command).to_dict()

    def plot(self, ax: Any = None) -> Display:
        """Draw accuracy against epsilon, a line and a band per contestant.

        Parameters
        ----------
        ax : matplotlib Axes or None

        Returns
        -------
        Display
            ``ax_`` and ``figure_``; the last line of a notebook's cell shows it.

        Examples
        --------
        >>> cell = Cell(contestant="A", epsilon=1.0, delta=1e-5, repeat=0, accuracy=0.9, seed=7)
        >>> ComparisonReport(cells=(cell,), dataset="digits").plot().ax_.get_ylabel()
        'accuracy on the test rows'
        """
        from pate.report.plots import Display, accuracy_against_epsilon

        rows = [cell.row().to_dict() for cell in self.cells if cell.epsilon is not None and cell.refused is None]
        return Display(accuracy_against_epsilon(rows, ax=ax))

    def save(self, folder: str | os.PathLike[str], *, command: str | None = None) -> Path:
        """Write ``results.json`` and ``report.html`` into a folder, and return the folder.

        Parameters
        ----------
        folder : path
            Made when absent; the ``out`` of :func:`compare` will do.
        command : str or None
            The command that made it, to be shown in the report.

        Raises
        ------
        RunFolderError
            The folder holds other results.
        """
        goal = Path(folder)
        refuse_other_results(goal, self.to_dict(command=command))
        write_pages(goal, self, command=command)
        return goal

    def _table(self) -> list[tuple[str, ...]]:
        table: list[tuple[str, ...]] = [("contestant", "epsilon", "accuracy", "fits")]
        for s in self.summary():
            spread = "" if math.isnan(s["std"]) else f" ± {s['std']:.3f}"
            epsilon = "" if s["epsilon"] is None else f"{s['epsilon']:g}"
            table.append((s["contestant"], epsilon, f"{s['mean']:.3f}{spread}" if s["n"] else "refused", str(s["n"])))
        return table

    def _repr_html_(self) -> str:
        heading, *rows = self._table()
        line = f"accuracy on the test rows of {self.dataset} at delta = {self._delta:g}"
        return as_cell("ComparisonReport", line, heads=heading, rows=rows, more=self.notes)

    def __repr__(self) -> str:
        what = "mean ± standard deviation over seeds" if any(s["n"] > 1 for s in self.summary()) else "one seed"
        head = f"Accuracy on the test rows of {self.dataset} at delta = {self._delta:g} ({what}):"
        return "\n".join([head, *lined_up(self._table())])
