"""The report that stays with the curator: what private votes say without noise."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping
from typing import Any

from pate.core.files import write_text
from pate.core.pages import render
from pate.report import plots
from pate.report._comparison import comparison_picture
from pate.report._measures import costs, fits
from pate.report._numbers import number, percent, promised
from pate.report._parts import accuracy_text, facts, largest_epsilon, picture
from pate.report._sheet import Sheet
from pate.report.comparison_result import ComparisonResult, typed
from pate.report.result import EnsembleCurve, Result, SensitiveResult

MARK = "SENSITIVE: made from private votes; not for publication"
BADGE = "SENSITIVE"


def write_sensitive_report(
    path: str | os.PathLike[str],
    result: Result | Mapping[str, Any],
    sensitive: SensitiveResult | Mapping[str, Any],
) -> None:
    """Write the report that stays with the curator; only its owner may read the file (mode 0600).

    Parameters
    ----------
    path : path
    result : Result, or mapping
        As for :func:`write_report`.
    sensitive : SensitiveResult, or mapping
        Made from private votes, without noise: see :class:`pate.report.result.SensitiveResult`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> row = {"contestant": "PATE", "epsilon": 2.0, "delta": 1e-5, "accuracy": 0.95, "seed": 0}
    >>> goal = pathlib.Path(tempfile.mkdtemp()) / "sensitive.html"
    >>> result = {"kind": "run", "title": "PATE on digits", "rows": [row]}
    >>> write_sensitive_report(goal, result, {"margins": [3, 4], "n_teachers": 5})
    >>> oct(goal.stat().st_mode & 0o777)
    '0o600'
    """
    write_text(path, render_sensitive_report(result, sensitive), mode=0o600)


def render_sensitive_report(result: Result | Mapping[str, Any], sensitive: SensitiveResult | Mapping[str, Any]) -> str:
    """Return the curator's report as HTML; see :func:`write_sensitive_report`.

    Examples
    --------
    >>> row = {"contestant": "PATE", "epsilon": 2.0, "delta": 1e-5, "accuracy": 0.95, "seed": 0}
    >>> page = render_sensitive_report({"kind": "run", "title": "PATE on digits", "rows": [row]}, {"notes": ["mine"]})
    >>> MARK in page
    True
    """
    result, inside = typed(result), SensitiveResult.of(sensitive)
    return render(
        "sensitive.html",
        title=f"SENSITIVE: {result.title}",
        running=MARK,
        badge=BADGE,
        result=result,
        facts=facts(result),
        notes=inside.notes,
        references=_references(result, inside) if inside.references else None,
        margins=_margins(inside) if inside.margins else None,
        teachers=_teachers(inside.teacher_accuracy) if inside.teacher_accuracy else None,
        curve=_curve(inside.ensemble_curve) if inside.ensemble_curve else None,
        right=[(row.seed, percent(row.accuracy)) for row in inside.label_accuracy],
        seconds=[(row.name, row.seed, f"{row.seconds:.1f}") for row in inside.seconds],
        ceilings=_ceilings(result, inside) if inside.ceilings else None,
        fits=costs(inside.costs, private=True),
        prices=[(p.label, number(p.epsilon), number(p.delta), p.method, p.use) for p in inside.data_dependent],
    )


def _references(result: Result, inside: SensitiveResult) -> dict[str, Any]:
    rows: list[dict[str, Any]] = [row.to_dict() for row in result.rows]
    rows += [{"contestant": r.name, "epsilon": None, "accuracy": r.accuracy} for r in inside.references]
    caption = (
        "Coloured: released under the epsilon named. Grey: no privacy at all, and never to be released. "
        "Whisker: ± one standard deviation; dots: single seeds."
    )
    name = "Accuracy of the private contestants and of references without privacy"
    lines = [
        (
            contestant,
            "none" if epsilon is None else promised(largest_epsilon(members)),
            accuracy_text(members),
            len(members),
        )
        for (contestant, epsilon), members in plots.group_rows(rows).items()
    ]
    return {"picture": picture(lambda ax: plots.accuracy_bars(rows, ax=ax), caption, name), "lines": lines}


def _ceilings(result: Result, inside: SensitiveResult) -> dict[str, Any]:
    levels = {
        name: statistics.fmean(values)
        for (name, _), rows in fits(inside.ceilings).items()
        if (values := [row.accuracy for row in rows if row.accuracy is not None])
    }
    drawn = None
    if isinstance(result, ComparisonResult) and levels and result.epsilons:
        compared = result
        caption = "Accuracy on the test rows, mean over the repeats; dashed: without private rows, or without privacy."
        drawn = picture(
            lambda ax: comparison_picture(compared, ax, more_lines=levels), caption, "Accuracy, with the ceilings"
        )
    rows = [(name, percent(level)) for name, level in levels.items()]
    return {"picture": drawn, "table": Sheet(heads=["Without privacy", "Accuracy"], rows=rows, numbers=[1])}


def _margins(inside: SensitiveResult) -> str:
    margins, teachers = inside.margins, inside.n_teachers or 0
    noise = inside.ensemble_curve.margin_noise if inside.ensemble_curve is not None else None
    caption = f"{len(margins)} queries; median margin {statistics.median(margins):g} of {teachers} votes."
    if noise:
        share = sum(margin > noise for margin in margins) / len(margins)
        caption += f" {percent(share)} of the margins are wider than one standard deviation of the noise on them."
    marks = {"standard deviation of the noise on a margin": noise} if noise else None
    return picture(
        lambda ax: plots.margin_histogram(margins, teachers, marks, ax=ax), caption, "Histogram of vote margins"
    )


def _teachers(values: tuple[float, ...]) -> str:
    caption = (
        f"{len(values)} teachers, each trained on one shard: {percent(min(values))} to {percent(max(values))}, "
        f"median {percent(statistics.median(values))}."
    )
    return picture(lambda ax: plots.teacher_accuracies(values, ax=ax), caption, "Histogram of the teachers' accuracies")


def _curve(curve: EnsembleCurve) -> str:
    right, all_of_them = curve.accuracy, curve.n_teachers[-1]
    caption = (
        f"{curve.n_rows:,} test rows, {curve.n_draws} random subsets of each size (line: mean; band: from the "
        f"worst to the best). One teacher: {percent(right[0])} right; all {all_of_them}: {percent(right[-1])}."
    )
    if curve.clear is not None and curve.margin_noise is not None:
        caption += (
            f" With all of them {percent(curve.clear[-1])} of the margins are wider than two standard deviations of "
            f"the noise on them ({2 * curve.margin_noise:.4g} votes)."
        )
    values = curve.to_dict()
    return picture(
        lambda ax: plots.ensemble_curve(values, ax=ax), caption, "Accuracy of the vote against the number of teachers"
    )
