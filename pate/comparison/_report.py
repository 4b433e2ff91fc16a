"""The report of a comparison: tidy rows, a table, a picture, files."""

from __future__ import annotations

import json
import math
import os
import statistics
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pate._core.checks import check_choice
from pate._core.files import parse_json, read_json, write_bytes, write_json, write_text
from pate._core.pages import cell as as_cell
from pate._core.pages import lined_up
from pate.comparison._cells import COLUMNS, Cell, spent, warnings_of
from pate.comparison._found import Found, find
from pate.comparison.studies._folders import refuse_other_results
from pate.exceptions import InvalidInputError, RunFolderError
from pate.release.statement.model import PrivacyStatement
from pate.report import answer, listed, looks, promised
from pate.report.result import (
    ComparisonResult,
    Crossing,
    Entrant,
    FitCost,
    SensitiveResult,
    SideVerdict,
    Stated,
    Verdict,
    gathered,
)
from pate.report.scores import ACCURACY, SCORES, Score

if TYPE_CHECKING:
    from pate.report.plots import Display


#: By which epsilons a comparison is drawn: the public ones, or also those that depend on the votes, which are private.
ANALYSES = ("public", "data-dependent")


def check_analysis(analysis: str, predicts: str) -> bool:
    """Return whether data-dependent epsilons are asked for; refuse an unknown word, and votes on numbers."""
    by_votes = check_choice("analysis", analysis, ANALYSES) == "data-dependent"
    if by_votes and predicts == "numbers":
        raise InvalidInputError(
            f"analysis must be 'public' of a numeric target, got {analysis!r}: no teachers vote there, so no epsilon "
            "depends on votes. Leave it out."
        )
    return by_votes


# A comparison as text: on a terminal, and in a notebook's cell.


def accuracy_table(summary: Sequence[Mapping[str, Any]], score: Score = ACCURACY) -> list[tuple[str, ...]]:
    """Return a table of text: contestant, epsilon, accuracy (or R2) with its standard deviation, fits."""
    table: list[tuple[str, ...]] = [("contestant", "epsilon", score.name, "fits")]
    for s in summary:
        spread = "" if math.isnan(s["std"]) else f" ± {s['std']:.3f}"
        epsilon = "" if s["epsilon"] is None else f"{s['epsilon']:g}"
        table.append((s["contestant"], epsilon, f"{s['mean']:.3f}{spread}" if s["n"] else "refused", str(s["n"])))
    return table


def verdict_table(result: ComparisonResult) -> list[tuple[str, ...]]:
    """Return one row per epsilon: which contestant is ahead, by how much, and every contestant's score."""
    said = {card["epsilon"]: (card["word"], card["by"].replace("\n", " ")) for card in looks(result)}
    means = {(band.contestant, band.epsilon): result.scale.text(band.mean) for band in result.bands}
    names = list(dict.fromkeys(band.contestant for band in result.bands if band.epsilon is not None))
    table: list[tuple[str, ...]] = [("epsilon", "verdict", "difference", *names)]
    for epsilon in result.epsilons:
        word, by = said.get(promised(epsilon), ("", ""))
        table.append((promised(epsilon), word, by, *(means.get((name, epsilon), "–") for name in names)))
    return table


# The files of a comparison: JSON, page, Markdown and pictures, and how they are read back.

_CELLS = "cells.jsonl"


def write(folder: Path, result: ComparisonResult) -> None:
    """Write all that may be published into this comparison's folder."""
    from pate.report import comparison_picture, render_markdown, write_report
    from pate.report.plots import figure_to_png, figure_to_svg

    write_json(folder / "results.json", result.to_dict())
    write_report(folder / "report.html", result)
    if result.epsilons:
        picture = comparison_picture(result)
        write_text(folder / f"{result.scale.file}.svg", figure_to_svg(picture))
        write_bytes(folder / f"{result.scale.file}.png", figure_to_png(picture))
    write_text(folder / "report.md", render_markdown(result))


def read(folder: Path) -> tuple[ComparisonResult, tuple[Cell, ...]]:
    """Read a finished comparison from its folder: the result, and the fits in its order."""
    try:
        lines = (folder / _CELLS).read_bytes().splitlines()
        values = read_json(folder / "results.json")
    except OSError:
        raise RunFolderError(
            f"{folder} holds no finished comparison (results.json and {_CELLS}). Name the folder of one."
        ) from None
    try:
        result = ComparisonResult.from_dict(values)
        cells = {cell.key: cell for cell in (Cell.from_dict(parse_json(line)) for line in lines)}
        stored = tuple(cells[row.contestant, row.epsilon, row.repeat] for row in result.rows)
        same = all(cell.row() == row for cell, row in zip(stored, result.rows, strict=True))
    except (InvalidInputError, KeyError, ValueError, RecursionError):
        same, stored = False, ()
    if not same:
        raise RunFolderError(
            f"{folder / _CELLS} does not have the fits of {folder / 'results.json'}. Make the comparison again."
        )
    return result, stored


#: By score, what a summary has beside it.
_MEASURES = {
    "accuracy": ("balanced_accuracy", "worst_class_accuracy", "calibration_error", "answers"),
    "R2": ("mean_absolute_error",),
}
#: By score: how it was measured, and what is public by that.
_OF_TEST_ROWS = {
    "accuracy": "Accuracies were measured on held-out rows without noise, and cells.jsonl says which of them each fit "
    "had right: test rows and their labels are taken to be public, and nothing protects them.",
    "R2": "R2 and errors were measured on held-out rows without noise, and cells.jsonl says what each of them adds to "
    "a fit's R2: test rows and their numbers are taken to be public, and nothing protects them.",
}


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ComparisonReport:
    """The result of :func:`compare`: rows of data, a table, a figure and files. Printing it shows the table.

    Attributes
    ----------
    cells : tuple of Cell
        Results, ordered by contestant, then budget, then repeat.
    dataset, protocol, description : str
    classes : tuple
    entrants : tuple of Entrant
        The contestants.
    settings : dict
        What was asked for.
    redraws : {"all rows", "training rows", "nothing"}
        Which rows each repeat drew again; of ``"all rows"`` test rows of two repeats overlap.
    n_pool : int or None
        Rows that a repeat's parts are cut from; None where that number is private.
    score : {"accuracy", "R2"}
    published : bool
        Whether the private rows are published: then ceilings are among the cells, and costs may be shown.
    ceilings : tuple of Cell
        Fits without privacy, of data that are not published: **sensitive**, never printed.
    costs : tuple of FitCost
        Costs of every fit: **sensitive** (data-dependent epsilons always), never printed.
    created, commit, versions
        Where the numbers come from.

    Examples
    --------
    >>> cells = [
    ...     Cell(contestant="PATE", epsilon=1.0, delta=1e-5, repeat=r, accuracy=a, seed=r)
    ...     for r, a in enumerate([0.90, 0.92])
    ... ]
    >>> ComparisonReport(cells=tuple(cells), dataset="digits")
    Accuracy on the test rows of digits at delta = 1e-05 (mean ± standard deviation over repeats):
    contestant  epsilon  accuracy       fits
    PATE        1        0.910 ± 0.014  2
    No verdict: there are no two contestants whose answers on the same test rows can be paired.
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
    score: str = ACCURACY.name
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
        """Return one dict per fit, with the fields of :class:`pate.report.result.Row`.

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
        (1, 20)
        """
        import pandas as pd

        rows = self.rows()
        return pd.DataFrame(rows, columns=[name for name in COLUMNS if any(name in row for row in rows)])

    def summary(self) -> list[dict[str, Any]]:
        """Return means, spread and intervals by contestant and epsilon.

        Returns
        -------
        list of dict
            ``contestant``, ``role``, ``epsilon`` (None of floors and ceilings); ``mean`` and ``std`` of the accuracy
            (sample standard deviation; NaN for a single fit), ``low`` and ``high`` (its interval at 95%, None where
            nothing is known), ``n`` fits that were measured (a refused budget has none); and means of
            ``balanced_accuracy``, ``worst_class_accuracy``, ``calibration_error`` and ``answers`` (None where not
            measured). Of a numeric target mean, spread and interval are of R2, beside ``mean_absolute_error``.

        Examples
        --------
        >>> cell = Cell(contestant="A", epsilon=1.0, delta=1e-5, repeat=0, accuracy=0.9, seed=7)
        >>> (found,) = ComparisonReport(cells=(cell,), dataset="digits").summary()
        >>> found["mean"], found["std"], found["n"], found["low"]
        (0.9, nan, 1, None)
        """
        bands = {(band.contestant, band.epsilon): band for band in self._found.bands}
        found = []
        for (contestant, epsilon), cells in gathered(self.cells, lambda cell: (cell.contestant, cell.epsilon)).items():
            known = [cell.score for cell in cells if cell.score is not None]
            band = bands.get((contestant, epsilon))
            found.append(
                {
                    "contestant": contestant,
                    "role": cells[0].role,
                    "epsilon": epsilon,
                    "mean": statistics.fmean(known) if known else math.nan,
                    "std": statistics.stdev(known) if len(known) > 1 else math.nan,
                    "low": None if band is None else band.low,
                    "high": None if band is None else band.high,
                    "n": len(known),
                    **{key: _mean(cells, key) for key in _MEASURES[self.score]},
                }
            )
        return found

    @cached_property
    def _found(self) -> Found:
        sides = {entrant.name: entrant.side for entrant in self.entrants}
        return find(self.cells, sides, redraws=self.redraws, n_pool=self.n_pool, score=SCORES[self.score])

    def verdicts(self) -> tuple[Verdict, ...]:
        """Return, at every epsilon, whether the contestant with the best mean is surely ahead of each other one."""
        return self._found.verdicts

    def side_verdicts(self) -> tuple[SideVerdict, ...]:
        """Return, at every epsilon, whether PATE or DP-SGD is surely ahead, where both have contestants."""
        return self._found.side_verdicts

    def crossover_points(self) -> tuple[Crossing, ...]:
        """Return the epsilons at which the accuracy curves of the best of both sides cross, with intervals."""
        return self._found.crossings

    def crossings(self) -> tuple[Crossing, ...]:
        """Return :meth:`crossover_points`: its former name."""
        warnings.warn("crossings() is now crossover_points(): call that.", DeprecationWarning, stacklevel=2)
        return self.crossover_points()

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
        """Warnings about privacy and about the limits of the numbers."""
        cells = [c for c in self.cells if c.epsilon is not None and c.refused is None]
        names = list(dict.fromkeys(c.contestant for c in cells))
        notes = [
            spent(cells, self.redraws),
            _OF_TEST_ROWS[self.score],
        ]
        if any(c.seeded for c in cells):
            notes.append("The noise was seeded: nothing here is private.")
        persons = any(s.unit != "record" for s in self.statements.values())
        if persons and all(c.persons is None for c in self.cells if c.by_row is not None):
            notes.append(
                "Contestants protect a person with all their rows, but the test rows have no owners: every row "
                "counts by itself, and where a person has several, the intervals are too narrow. Give the test rows "
                "groups, too."
            )
        silent = [name for name in names if not any(c.statement for c in cells if c.contestant == name)]
        if silent:
            notes.append(
                f"{', '.join(silent)}: no privacy statement, so the epsilon is the budget that was given; "
                "that the fit keeps it is not shown."
            )
        return [*notes, *warnings_of(cells, self.settings.get("unit"))]

    def result(self, *, command: str | None = None) -> ComparisonResult:
        """Return all public results: what ``results.json`` holds and a report shows.

        Parameters
        ----------
        command : str or None
            The command that made it, to be shown in the report.
        """
        shared = {name: getattr(self, name) for name in _SHARED} | vars(self._found)
        names = list(dict.fromkeys(cell.contestant for cell in self.cells if cell.role == "private"))
        whom = listed([*names[:2], f"{len(names) - 2} others"] if len(names) > 4 else names)
        stated = self.statements.items()
        return ComparisonResult(
            kind="comparison",
            title=f"{whom} on {self.dataset}".lstrip(),
            command=command,
            rows=tuple(cell.row() for cell in self.cells),
            statements=tuple(Stated(contestant=name, epsilon=epsilon, statement=s) for (name, epsilon), s in stated),
            notes=tuple(self.notes),
            # Of published data alone; what depends on the votes is private always.
            fit_costs=tuple(replace(c, data_dependent_epsilon=None) for c in self.costs) if self.published else (),
            **shared,
        )

    def sensitive(self) -> SensitiveResult:
        """Return the private results, for the curator: ceilings, time, memory and data-dependent epsilons."""
        return SensitiveResult(ceilings=tuple(cell.row() for cell in self.ceilings), costs=self.costs)

    def to_dict(self, *, command: str | None = None) -> dict[str, Any]:
        """Return :meth:`result` as JSON values."""
        return self.result(command=command).to_dict()

    def plot(self, ax: Any = None, *, analysis: str = "public") -> Display:
        """Draw accuracy against epsilon: curves with paired bands, floors as lines, published figures as marks.

        Parameters
        ----------
        ax : matplotlib Axes or None
        analysis : {"public", "data-dependent"}
            ``"data-dependent"`` also draws contestants whose teachers vote by their data-dependent epsilon, and says on
            the picture that it is **private to the curator, not for publication**.

        Returns
        -------
        Display
            ``ax_`` and ``figure_``; the last line of a notebook's cell shows it.

        Raises
        ------
        InvalidInputError
            No fit has an epsilon; none has a data-dependent one (files that :meth:`load` reads have none).

        Examples
        --------
        >>> cell = Cell(contestant="A", epsilon=1.0, delta=1e-5, repeat=0, accuracy=0.9, seed=7)
        >>> ComparisonReport(cells=(cell,), dataset="digits").plot().ax_.get_ylabel()
        'accuracy on the test rows, one repeat'
        """
        from pate.report import comparison_picture
        from pate.report.plots import Display

        result = self.result()
        if not result.epsilons:
            raise InvalidInputError("cells must hold a fit with an epsilon, got none: there is no curve to draw.")
        costs = (
            self.costs if check_analysis(analysis, "classes" if self.score == ACCURACY.name else "numbers") else None
        )
        if costs is not None and all(cost.data_dependent_epsilon is None for cost in costs):
            raise InvalidInputError(
                "analysis must be 'public' for this report, got 'data-dependent': no fit of it has a data-dependent "
                "epsilon. Take the report that compare returned, with 'gnmax' or 'confident-gnmax' among contestants."
            )
        return Display(comparison_picture(result, ax, costs=costs or ()))

    def save(self, folder: str | os.PathLike[str], *, command: str | None = None) -> Path:
        """Write everything that may be published into a folder, and return the folder.

        ``report.html`` (the page), ``report.md``, ``accuracy.svg``, ``accuracy.png`` (of a numeric target ``r2.svg``,
        ``r2.png``), ``results.json`` (its schema:
        ``pate/_templates/comparison.schema.json``) and ``cells.jsonl``, from which :meth:`load` reads it back.

        Parameters
        ----------
        folder : path
            Made when absent; may be the ``out`` of :func:`compare`.
        command : str or None
            The command that made it, to be shown in the report.

        Raises
        ------
        RunFolderError
            The folder holds other results.

        Examples
        --------
        >>> import tempfile
        >>> cell = Cell(contestant="A", epsilon=1.0, delta=1e-5, repeat=0, accuracy=0.9, seed=7)
        >>> report = ComparisonReport(cells=(cell,), dataset="digits")
        >>> folder = report.save(Path(tempfile.mkdtemp()) / "digits")
        >>> ComparisonReport.load(folder).rows() == report.rows()
        True
        """
        goal = Path(folder)
        result = self.result(command=command)
        refuse_other_results(goal, result.to_dict())
        write(goal, result)
        if not (goal / _CELLS).exists():  # unless a run has left them there
            lines = (json.dumps(cell.to_dict(), allow_nan=False) + "\n" for cell in self.cells)
            write_text(goal / _CELLS, "".join(lines))
        return goal

    def save_sensitive(self, path: str | os.PathLike[str]) -> None:
        """Write the curator's page: ceilings, time and memory, data-dependent epsilons. Not for publication; mode 0600.

        Parameters
        ----------
        path : path

        Examples
        --------
        >>> import tempfile
        >>> cell = Cell(contestant="A", epsilon=1.0, delta=1e-5, repeat=0, accuracy=0.9, seed=7)
        >>> goal = Path(tempfile.mkdtemp()) / "sensitive.html"
        >>> ComparisonReport(cells=(cell,), dataset="digits").save_sensitive(goal)
        >>> oct(goal.stat().st_mode & 0o777)
        '0o600'
        """
        from pate.report import write_sensitive_report

        write_sensitive_report(path, self.result(), self.sensitive())

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Read a report from a folder of :meth:`save` or :func:`compare`; verdicts are computed again from the fits.

        Private ceilings and costs stay where they are: they are not read.

        Parameters
        ----------
        folder : path

        Raises
        ------
        RunFolderError
            It holds no finished comparison, or one that is damaged.

        Examples
        --------
        >>> ComparisonReport.load("nowhere")
        Traceback (most recent call last):
        pate.exceptions.RunFolderError: nowhere holds no finished comparison (results.json and cells.jsonl). ...
        """
        result, cells = read(Path(folder))
        shared = {name: value for name in _SHARED if (value := getattr(result, name)) is not None}
        return cls(cells=cells, costs=result.fit_costs, **shared)

    def _repr_html_(self) -> str:
        result = self.result()
        heading, *rows = verdict_table(result)
        line = f"who is ahead on the test rows of {self.dataset} at delta = {self._delta:g}"
        return as_cell("ComparisonReport", line, heads=heading, rows=rows, more=[*answer(result), *self.notes])

    def __repr__(self) -> str:
        summary = self.summary()
        what = "mean ± standard deviation over repeats" if any(s["n"] > 1 for s in summary) else "one repeat"
        score = SCORES[self.score]
        head = f"{score.title} on the test rows of {self.dataset} at delta = {self._delta:g} ({what}):"
        return "\n".join([head, *lined_up(accuracy_table(summary, score)), *answer(self.result())])


def _mean(cells: list[Cell], key: str) -> float | None:
    values = [value for cell in cells if (value := getattr(cell, key)) is not None]
    return statistics.fmean(values) if values else None


#: Fields that the report and its result share.
_SHARED = {f.name for f in fields(ComparisonReport)} & {f.name for f in fields(ComparisonResult)}
