"""The report that may be published, made from the public dictionary alone."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from pate.core.files import write_text
from pate.core.html import bullets, definitions, escape, number, page, percent, preformatted, section, table
from pate.report import _schema as schema
from pate.report import plots
from pate.report._common import accuracy_text, heading, largest_epsilon, picture_of, promised, provenance
from pate.statement.model import UNITS, PrivacyStatement, tier


def write_report(path: str | os.PathLike[str], result: Mapping[str, Any]) -> None:
    """Write the public report of a run or a comparison.

    Parameters
    ----------
    path : path
        The HTML file; written whole or not at all.
    result : mapping
        Plain JSON values: ``kind``, ``title`` and ``rows``, and whatever else of :data:`pate.report._schema.RESULT` is
        known. It is public: accuracies of released models, released labels by class, prices that are constants.

    Raises
    ------
    InvalidInputError
        A name that is not known, or a value that is not plain: nothing is written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> row = {"contestant": "PATE", "epsilon": 2.0, "delta": 1e-5, "accuracy": 0.95, "seed": 0}
    >>> goal = pathlib.Path(tempfile.mkdtemp()) / "report.html"
    >>> write_report(goal, {"kind": "run", "title": "PATE on digits", "rows": [row]})
    >>> "PATE on digits" in goal.read_text(encoding="utf-8")
    True
    >>> write_report(goal, {"kind": "run", "title": "PATE on digits", "rows": [row], "margins": [3, 4]})
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: result has the key 'margins', which no report knows. Allowed: ...
    """
    write_text(path, render_report(result))


def render_report(result: Mapping[str, Any]) -> str:
    """Return the public report as HTML; see :func:`write_report`.

    Examples
    --------
    >>> row = {"contestant": "PATE", "epsilon": 2.0, "delta": 1e-5, "accuracy": 0.95, "seed": 0}
    >>> "<script" in render_report({"kind": "run", "title": "PATE on digits", "rows": [row]})
    False
    """
    schema.check_result(result)
    statement = schema.read_statement(result.get("statement"))
    parts = [*_opening(result, statement), _accuracy(result)]
    if result.get("cost_curve"):
        parts.append(_cost(result))
    if result.get("answers_per_class"):
        counts, classes = result["answers_per_class"], result["classes"]
        parts.append(
            section(
                "Released labels by class",
                picture_of(
                    plots.answers_per_class(counts, classes),
                    f"{sum(counts)} labels were released. These counts are computed from the released labels alone.",
                    "Number of released labels of each class",
                ),
            )
        )
    if result.get("notes"):
        parts.append(section("Notes", bullets(result["notes"])))
    if statement is not None:
        shown = [(name, escape(v) if isinstance(v, str) else bullets(v)) for name, v in statement.rows()]
        text = "<h3>The same as plain text</h3>" + preformatted(statement.text(), css_class="page")
        parts.append(section("Privacy statement", definitions(shown) + text, new_page=True))
    parts.append(section("How it was made", provenance(result)))
    return page(result["title"], parts, running=f"{result['title']}, privacy report", styles=["report.css"])


def _opening(result: Mapping[str, Any], statement: PrivacyStatement | None) -> list[str]:
    seeded = statement.seeded if statement else (result.get("settings") or {}).get("noise_seed") is not None
    parts = []
    if seeded:
        parts.append(
            "<div class='alarm'><strong>Not private: seeded noise</strong><p>The noise of this run can be repeated by "
            "whoever knows the seed. Every epsilon below is what fresh noise would have cost, not a guarantee. Use it "
            "for tests and experiments only.</p></div>"
        )
    parts.append(heading(result))
    if statement is not None and not seeded:
        parts.append(_promise(statement))
    elif statement is None and result["rows"]:
        epsilons = sorted({promised(row["epsilon"]) for row in result["rows"]}, key=float)
        deltas = sorted({promised(row["delta"]) for row in result["rows"]}, key=float)
        names = list(dict.fromkeys(row["contestant"] for row in result["rows"]))
        parts.append(
            f"<p><strong>{escape(_and(names))} at ε = {', '.join(epsilons)}, δ = {', '.join(deltas)}.</strong> "
            "Each epsilon is the price of one run with fresh noise. This page releases no labels or model; where one "
            "is released, its own privacy statement goes with it.</p>"
        )
    return parts


def _promise(statement: PrivacyStatement) -> str:
    """Say the guarantee as a sentence, as four facts, and as what an attacker could do with it."""
    g = statement.guarantee
    level = tier(g.epsilon)
    unit = {"record": "record", "group": "group (all rows of one person)"}[statement.unit]
    size = f"{statement.n_units:,} in the private data" if statement.n_units else UNITS[statement.unit]
    cards = [
        ("Epsilon (ε)", promised(g.epsilon), "worst case, public" if g.kind == "public" else g.kind),
        ("Delta (δ)", promised(g.delta), f"1/n is {number(1 / statement.n_units)}" if statement.n_units else ""),
        ("Unit of privacy", statement.unit, size),
        ("Tier", level, "≤ 1 strong, ≤ 10 reasonable, else weak"),
    ]
    boxes = "".join(
        f"<div class='card'><dt>{name}</dt><dd>{escape(value)}<span class='fine'>{escape(more)}</span></dd></div>"
        for name, value, more in cards
    )
    # Best success of a test between two neighbours, even odds: (1 + total variation) / 2 under (epsilon, delta).
    success = min(1.0, (1 + g.delta * math.exp(-g.epsilon)) / (1 + math.exp(-g.epsilon)))
    question = (
        f"which of two given values one {unit} has"
        if g.adjacency == "replace-one"
        else f"whether one {unit} was in the private data"
    )
    weak = (
        " <strong>At this epsilon the number alone is no evidence of anonymisation: audit as well.</strong>"
        if level == "weak"
        else ""
    )
    return (
        f"<p><strong>What is released here is differentially private: ε = {promised(g.epsilon)} at "
        f"δ = {promised(g.delta)} for one {unit}, {escape(g.adjacency)} adjacency; a {level} guarantee.</strong> "
        f"Released: {escape(statement.released)}.</p><dl class='cards'>{boxes}</dl>"
        f"<p>In words: someone who knows everything else and has to tell {question}, with even odds beforehand, is "
        f"right at most {percent(success, up=True)} of the time after seeing the release.{weak}</p>"
    )


def _accuracy(result: Mapping[str, Any]) -> str:
    rows = result["rows"]
    groups = plots.group_rows(rows)
    names = list(dict.fromkeys(name for name, _ in groups))
    several = len(groups) > len(names)
    body = ""
    if not rows:
        return section("Accuracy and cost", "<p>No accuracy was measured: there were no test rows with classes.</p>")
    if result["kind"] == "comparison":
        body += bullets(_verdicts(groups))
    picture = plots.accuracy_against_epsilon(rows) if several else plots.accuracy_bars(rows)
    seeds = max(len(members) for members in groups.values())
    marks = "band: ± one standard deviation" if several else "whisker: ± one standard deviation; dots: single seeds"
    caption = "Accuracy on the test rows" + (f"; {marks}." if seeds > 1 else "; one seed, so no spread is known.")
    body += picture_of(picture, caption, "Accuracy of each contestant")
    lines = []
    for (name, _), members in groups.items():
        lines.append(
            (
                f"<span class='swatch' style='background:var(--series-{names.index(name) % 6})'></span>{escape(name)}",
                promised(largest_epsilon(members)),
                " / ".join(dict.fromkeys(promised(row["delta"]) for row in members)),
                accuracy_text(members),
                str(len(members)),
                _range(members, "queries"),
                _range(members, "answers"),
            )
        )
    heads = ["Contestant", "ε", "δ", "Accuracy", "Seeds", "Queries", "Answers"]
    body += table(heads, lines, numbers=set(range(1, 7)))
    fine = "Accuracy is the mean over the seeds, ± one standard deviation."
    if seeds > 1:
        fine += " Each epsilon is that of one run. The repeats measure the method; releasing every one would cost more."
    return section("Accuracy and cost", body + f"<p class='fine'>{fine}</p>")


def _verdicts(groups: Mapping[tuple[str, float | None], Sequence[Mapping[str, Any]]]) -> list[str]:
    """Who is ahead at each epsilon, and whether the seeds allow saying so."""
    verdicts = []
    for epsilon in sorted({e for _, e in groups if e is not None}):
        field = [
            (statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, name)
            for (name, e), members in groups.items()
            if e == epsilon and (values := [row["accuracy"] for row in members])
        ]
        if len(field) < 2:
            continue
        (best, s1, first), (next_best, s2, second), *_ = sorted(field, key=lambda f: -f[0])
        numbers = f"{percent(best)} against {percent(next_best)} ({second})"
        if s1 is None or s2 is None:
            verdict = f"{first} is ahead, {numbers}, on a single seed"
        elif best - next_best <= s1 + s2:
            verdict = f"too close to call with these seeds: {first} {numbers}"
        else:
            verdict = f"{first} is ahead, {numbers}"
        largest = max(largest_epsilon(members) for (_, e), members in groups.items() if e == epsilon)
        verdicts.append(f"At ε = {promised(largest)}: {verdict}.")
    return verdicts


def _cost(result: Mapping[str, Any]) -> str:
    curve, budget = result["cost_curve"], result.get("budget")
    picture = plots.cost_curves(curve["curves"], curve.get("spent"), budget=budget["epsilon"] if budget else None)
    caption = (
        "Epsilon by number of queries, in the worst case over all votes: a constant of the mechanism and its noise, "
        "known before the first query" + (f"; δ = {promised(budget['delta'])}." if budget else ".")
    )
    return section(
        "What more queries would cost", picture_of(picture, caption, "Epsilon against the number of queries")
    )


def _range(members: Sequence[Mapping[str, Any]], key: str) -> str:
    values = [row[key] for row in members if row.get(key) is not None]
    if not values:
        return "–"
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1] if names else ""
