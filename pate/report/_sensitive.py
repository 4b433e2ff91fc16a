"""The report that stays with the curator: what private votes say without noise."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from pate.core.files import write_text
from pate.core.html import bullets, escape, number, page, percent, section, table
from pate.report import _schema as schema
from pate.report import plots
from pate.report._common import accuracy_text, heading, largest_epsilon, picture_of, promised, provenance

MARK = "SENSITIVE: made from private votes; not for publication"
BADGE = "SENSITIVE"


def write_sensitive_report(
    path: str | os.PathLike[str], result: Mapping[str, Any], sensitive: Mapping[str, Any]
) -> None:
    """Write the report that stays with the curator; only its owner may read the file (mode 0600).

    Parameters
    ----------
    path : path
    result : mapping
        As for :func:`write_report`.
    sensitive : mapping
        Any of :data:`pate.report._schema.SENSITIVE`: made from private votes, without noise.

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


def render_sensitive_report(result: Mapping[str, Any], sensitive: Mapping[str, Any]) -> str:
    """Return the curator's report as HTML; see :func:`write_sensitive_report`.

    Examples
    --------
    >>> row = {"contestant": "PATE", "epsilon": 2.0, "delta": 1e-5, "accuracy": 0.95, "seed": 0}
    >>> page = render_sensitive_report({"kind": "run", "title": "PATE on digits", "rows": [row]}, {"notes": ["mine"]})
    >>> MARK in page
    True
    """
    schema.check_result(result)
    schema.check_sensitive(sensitive)
    why = (
        "<p>This page shows what the private votes say without noise. No differential privacy covers any number on it, "
        "except where a row says so. It is for the curator alone: to see how far the released result is from what the "
        "private data could give, and why.</p>"
        "<p>Do not send it on, and do not copy a figure from it into something public. Settings chosen by looking at "
        "this page were tuned on private data: choose them beforehand, or say so in the privacy statement.</p>"
    )
    parts = [heading(result, badge=BADGE), section("Why this page exists", why, badge=BADGE)]
    if sensitive.get("references"):
        parts.append(section("Against references without privacy", _references(result, sensitive), badge=BADGE))
    if sensitive.get("margins"):
        parts.append(section("Vote margins", _margins(result, sensitive), badge=BADGE))
    if sensitive.get("teacher_accuracy"):
        values = sensitive["teacher_accuracy"]
        caption = (
            f"{len(values)} teachers, each trained on one shard: {percent(min(values))} to {percent(max(values))}, "
            f"median {percent(statistics.median(values))}."
        )
        picture = picture_of(plots.teacher_accuracies(values), caption, "Histogram of the teachers' accuracies")
        parts.append(section("The teachers' own accuracies", picture, badge=BADGE))
    if sensitive.get("ensemble_curve"):
        parts.append(section("How many teachers?", _ensemble_curve(sensitive["ensemble_curve"]), badge=BADGE))
    if sensitive.get("label_accuracy"):
        rows = [(escape(row["seed"]), percent(row["accuracy"])) for row in sensitive["label_accuracy"]]
        text = "<p>Share of the released labels that are right, against true labels kept for evaluation.</p>"
        body = text + table(["Seed", "Right"], rows, numbers={1})
        parts.append(section("How many released labels are right", body, badge=BADGE))
    if sensitive.get("seconds"):
        parts.append(section("How long a fit took", _seconds(sensitive["seconds"]), badge=BADGE))
    if sensitive.get("data_dependent"):
        parts.append(section("Data-dependent prices", _data_dependent(sensitive), badge=BADGE))
    if sensitive.get("notes"):
        parts.append(section("Notes", bullets(sensitive["notes"]), badge=BADGE))
    parts.append(section("How it was made", provenance(result), badge=BADGE))
    return page(f"SENSITIVE: {result['title']}", parts, running=MARK, styles=["report.css", "sensitive.css"])


def _references(result: Mapping[str, Any], sensitive: Mapping[str, Any]) -> str:
    free = [{**row, "contestant": row["name"], "epsilon": None} for row in sensitive["references"]]
    rows = [*result["rows"], *free]
    picture = picture_of(
        plots.accuracy_bars(rows),
        "Coloured: released under the epsilon named. Grey: no privacy at all, and never to be released. "
        "Whisker: ± one standard deviation; dots: single seeds.",
        "Accuracy of the private contestants and of references without privacy",
    )
    lines = [
        (
            escape(name),
            "none" if epsilon is None else promised(largest_epsilon(members)),
            accuracy_text(members),
            str(len(members)),
        )
        for (name, epsilon), members in plots.group_rows(rows).items()
    ]
    return picture + table(["Model", "ε", "Accuracy", "Seeds"], lines, numbers={1, 2, 3})


def _margins(result: Mapping[str, Any], sensitive: Mapping[str, Any]) -> str:
    margins, teachers, settings = sensitive["margins"], sensitive["n_teachers"], result.get("settings") or {}
    noise = None
    if schema.is_number(settings.get("sigma")):
        noise = math.sqrt(2) * settings["sigma"]  # two Gaussian noises, subtracted
    elif schema.is_number(settings.get("scale")):
        noise = 2.0 * settings["scale"]  # two Laplace noises of variance 2 scale^2, subtracted
    caption = f"{len(margins)} queries; median margin {statistics.median(margins):g} of {teachers} votes."
    if noise:
        share = sum(margin > noise for margin in margins) / len(margins)
        caption += f" {percent(share)} of the margins are wider than one standard deviation of the noise on them."
    marks = {"standard deviation of the noise on a margin": noise} if noise else None
    text = (
        "<p>A wide margin survives the noise; a narrow one is decided by it. The margins say how much noise the "
        "ensemble can bear.</p>"
    )
    return text + picture_of(plots.margin_histogram(margins, teachers, marks), caption, "Histogram of vote margins")


def _ensemble_curve(curve: Mapping[str, Any]) -> str:
    sizes, right = curve["n_teachers"], curve["accuracy"]
    text = (
        "<p>How right the vote would have been without noise, had only some of these teachers been asked, and how "
        "often its margin stands clear of this run's noise. Where the first line is flat, more teachers of the same "
        "kind add nothing to the vote; where the second still rises, they make it safer against the noise. Every "
        "teacher keeps the shard it was trained on: in a run with fewer teachers each would have had more records, and "
        "been better than here.</p>"
        "<p><strong>This picture is private. Choosing the number of teachers by it is tuning on private data, which no "
        "epsilon here covers.</strong> What public numbers alone say about it, <code>pate plan</code> tells before any "
        "private record is read.</p>"
    )
    caption = (
        f"{curve['n_rows']:,} test rows, {curve['n_draws']} random subsets of each size (line: mean; band: from the "
        f"worst to the best). One teacher: {percent(right[0])} right; all {sizes[-1]}: {percent(right[-1])}."
    )
    if curve.get("clear") is not None:
        caption += (
            f" With all of them {percent(curve['clear'][-1])} of the margins are wider than two standard deviations of "
            f"the noise on them ({2 * curve['margin_noise']:.4g} votes)."
        )
    return text + picture_of(
        plots.ensemble_curve(curve), caption, "Accuracy of the vote against the number of teachers"
    )


def _seconds(measured: Sequence[Mapping[str, Any]]) -> str:
    text = (
        "<p>Training may end early or late by what the private rows are, so its time is private too: no public file "
        "of a run has it.</p>"
    )
    rows = [(escape(row["name"]), escape(row["seed"]), f"{row['seconds']:.1f}") for row in measured]
    return text + table(["Contestant", "Seed", "Seconds"], rows, numbers={2})


def _data_dependent(sensitive: Mapping[str, Any]) -> str:
    rows = [
        (escape(row["label"]), number(row["epsilon"]), number(row["delta"]), escape(row["method"]), escape(row["use"]))
        for row in sensitive["data_dependent"]
    ]
    text = (
        "<p>These prices depend on how the teachers voted, so each is itself a fact about the private data. None may "
        "be quoted as the guarantee of a release; the public statement's epsilon is.</p>"
    )
    return text + table(["Price", "ε", "δ", "Method", "May be used for"], rows, numbers={1, 2})
