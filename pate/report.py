"""The reports: ``report.html``, which may be published, and ``sensitive.html``, which may not.

Each is one HTML file that asks nothing of the network and runs no script: styles and pictures are inline, and a
content policy in its head forbids the rest. The public one is made from ``result`` alone and refuses every name it
does not know, so that what was made from private votes cannot ride along.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from pate import _report_schema as schema
from pate import plots
from pate._files import write_text
from pate._html import bullets, definitions, escape, figure, number, page, percent, preformatted, section, short, table
from pate.privacy.conversion import format_up
from pate.privacy.statement import UNITS, PrivacyStatement, tier

__all__ = ["render_report", "render_sensitive_report", "write_report", "write_sensitive_report"]

MARK = "SENSITIVE: made from private votes; not for publication"
BADGE = "SENSITIVE"


def write_report(path: str | os.PathLike[str], result: Mapping[str, Any]) -> None:
    """Write the public report of a run or a comparison.

    Parameters
    ----------
    path : path
        The HTML file; written whole or not at all.
    result : mapping
        Plain JSON values: ``kind``, ``title`` and ``rows``, and whatever else of :data:`pate._report_schema.RESULT` is
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
        Any of :data:`pate._report_schema.SENSITIVE`: made from private votes, without noise.

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
                _figure(
                    plots.answers_per_class(counts, classes),
                    f"{sum(counts)} labels were released. These counts are computed from the released labels alone.",
                    "Number of released labels of each class",
                ),
            )
        )
    if result.get("notes"):
        parts.append(section("Notes", bullets(result["notes"])))
    if statement is not None:
        text = "<h3>The same as plain text</h3>" + preformatted(statement.text(), css_class="page")
        parts.append(section("Privacy statement", definitions(_statement_rows(statement)) + text, new_page=True))
    parts.append(section("How it was made", _provenance(result)))
    return page(result["title"], parts, running=f"{result['title']}, privacy report", styles=["report.css"])


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
    parts = [_heading(result, badge=BADGE), section("Why this page exists", why, badge=BADGE)]
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
        picture = _figure(plots.teacher_accuracies(values), caption, "Histogram of the teachers' accuracies")
        parts.append(section("The teachers' own accuracies", picture, badge=BADGE))
    if sensitive.get("label_accuracy"):
        rows = [(escape(row["seed"]), percent(row["accuracy"])) for row in sensitive["label_accuracy"]]
        text = "<p>Share of the released labels that are right, against true labels kept for evaluation.</p>"
        body = text + table(["Seed", "Right"], rows, numbers={1})
        parts.append(section("How many released labels are right", body, badge=BADGE))
    if sensitive.get("data_dependent"):
        parts.append(section("Data-dependent prices", _data_dependent(sensitive), badge=BADGE))
    if sensitive.get("notes"):
        parts.append(section("Notes", bullets(sensitive["notes"]), badge=BADGE))
    parts.append(section("How it was made", _provenance(result), badge=BADGE))
    return page(f"SENSITIVE: {result['title']}", parts, running=MARK, styles=["report.css", "sensitive.css"])


# The parts of the public page


def _heading(result: Mapping[str, Any], *, badge: str = "") -> str:
    facts = [
        f"data: {result['dataset']}" if result.get("dataset") else "",
        f"protocol: {result['protocol']}" if result.get("protocol") else "",
        f"made {result['created'].replace('T', ' ')}" if result.get("created") else "",
    ]
    mark = f"<span class='badge'>{badge}</span>" if badge else ""
    text = f"<h1>{escape(result['title'])}{mark}</h1><p class='meta'>{escape('; '.join(filter(None, facts)))}</p>"
    return text + (f"<p>{escape(result['description'])}</p>" if result.get("description") else "")


def _opening(result: Mapping[str, Any], statement: PrivacyStatement | None) -> list[str]:
    seeded = statement.seeded if statement else (result.get("settings") or {}).get("noise_seed") is not None
    parts = []
    if seeded:
        parts.append(
            "<div class='alarm'><strong>Not private: seeded noise</strong><p>The noise of this run can be repeated by "
            "whoever knows the seed. Every epsilon below is what fresh noise would have cost, not a guarantee. Use it "
            "for tests and experiments only.</p></div>"
        )
    parts.append(_heading(result))
    if statement is not None and not seeded:
        parts.append(_promise(statement))
    elif statement is None and result["rows"]:
        epsilons = sorted({_promised(row["epsilon"]) for row in result["rows"]}, key=float)
        deltas = sorted({_promised(row["delta"]) for row in result["rows"]}, key=float)
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
        ("Epsilon (ε)", _promised(g.epsilon), "worst case, public" if g.kind == "public" else g.kind),
        ("Delta (δ)", _promised(g.delta), f"1/n is {number(1 / statement.n_units)}" if statement.n_units else ""),
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
        f"<p><strong>What is released here is differentially private: ε = {_promised(g.epsilon)} at "
        f"δ = {_promised(g.delta)} for one {unit}, {escape(g.adjacency)} adjacency; a {level} guarantee.</strong> "
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
    body += _figure(picture, caption, "Accuracy of each contestant")
    lines = []
    for (name, _), members in groups.items():
        lines.append(
            (
                f"<span class='swatch' style='background:var(--series-{names.index(name) % 6})'></span>{escape(name)}",
                _promised(_largest_epsilon(members)),
                " / ".join(dict.fromkeys(_promised(row["delta"]) for row in members)),
                _accuracy_text(members),
                str(len(members)),
                _mean(members, "seconds"),
                _range(members, "queries"),
                _range(members, "answers"),
            )
        )
    heads = ["Contestant", "ε", "δ", "Accuracy", "Seeds", "Seconds", "Queries", "Answers"]
    body += table(heads, lines, numbers=set(range(1, 8)))
    fine = "Accuracy is the mean over the seeds, ± one standard deviation; seconds are the mean of a whole fit."
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
        largest = max(_largest_epsilon(members) for (_, e), members in groups.items() if e == epsilon)
        verdicts.append(f"At ε = {_promised(largest)}: {verdict}.")
    return verdicts


def _cost(result: Mapping[str, Any]) -> str:
    curve, budget = result["cost_curve"], result.get("budget")
    picture = plots.cost_curves(curve["curves"], curve.get("spent"), budget=budget["epsilon"] if budget else None)
    caption = (
        "Epsilon by number of queries, in the worst case over all votes: a constant of the mechanism and its noise, "
        "known before the first query" + (f"; δ = {_promised(budget['delta'])}." if budget else ".")
    )
    return section("What more queries would cost", _figure(picture, caption, "Epsilon against the number of queries"))


def _statement_rows(s: PrivacyStatement) -> list[tuple[str, str]]:
    g = s.guarantee
    order = "" if g.order is None else f", order {g.order:g}"
    kind = "NOT PRIVATE: seeded noise" if s.seeded else g.kind
    return [
        ("Guarantee", escape(s.headline)),
        ("Setting", escape(s.setting)),
        ("Released", escape(s.released)),
        ("Unit of privacy", escape(UNITS[s.unit] + (f"; {s.n_units:,} in all" if s.n_units else ""))),
        ("Adjacency", escape(f"{g.adjacency}: data sets that differ in one unit's data are neighbours")),
        ("Mechanism", escape(s.mechanism)),
        ("Noise from", escape(s.noise_source)),
        ("Accounting", escape(s.accounting)),
        (
            "Epsilon and delta",
            escape(f"({_promised(g.epsilon, 6)}, {_promised(g.delta)}), {kind}, by {g.method}{order}"),
        ),
        ("Directions and queries", escape(f"{g.directions} directions; {g.adaptivity}")),
        ("Covered", bullets(s.covered) or "the release alone"),
        ("Not covered", bullets(s.not_covered) or "nothing named"),
        ("Tuned on private data", escape(s.tuning)),
        ("Assumptions", bullets([str(a) for a in s.assumptions]) or "none named"),
        ("To verify", escape(s.verify or "no recipe given")),
        ("Versions", escape(", ".join(f"{name} {version}" for name, version in s.versions.items()))),
        ("Created", escape(s.created)),
    ]


def _provenance(result: Mapping[str, Any]) -> str:
    text = ""
    if result.get("command"):
        text += "<p>To run it again:</p>" + preformatted(result["command"], css_class="command")
    settings = dict(result.get("settings") or {})
    if result.get("budget"):
        budget = {name: _promised(value) for name, value in result["budget"].items()}
        settings = {"budget": "ε = {epsilon}, δ = {delta}".format(**budget), **settings}
    rows = [(str(name), escape(_setting(value))) for name, value in settings.items()]
    if result.get("versions"):
        rows.append(("versions", escape(", ".join(f"{name} {value}" for name, value in result["versions"].items()))))
    if result.get("commit"):
        rows.append(("commit", escape(result["commit"])))
    return text + (definitions(rows) if rows else "")


# The parts of the sensitive page


def _references(result: Mapping[str, Any], sensitive: Mapping[str, Any]) -> str:
    free = [{**row, "contestant": row["name"], "epsilon": None} for row in sensitive["references"]]
    rows = [*result["rows"], *free]
    picture = _figure(
        plots.accuracy_bars(rows),
        "Coloured: released under the epsilon named. Grey: no privacy at all, and never to be released. "
        "Whisker: ± one standard deviation; dots: single seeds.",
        "Accuracy of the private contestants and of references without privacy",
    )
    lines = [
        (
            escape(name),
            "none" if epsilon is None else _promised(_largest_epsilon(members)),
            _accuracy_text(members),
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
    return text + _figure(plots.margin_histogram(margins, teachers, marks), caption, "Histogram of vote margins")


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


def _figure(ax: Any, caption: str, name: str) -> str:
    return figure(plots.figure_to_svg(ax), caption, name=name, colours=plots.COLOURS)


def _promised(value: float, digits: int = 4) -> str:
    """Return an epsilon or delta rounded up: what the reader takes for the guarantee must not be below it."""
    return short(format_up(value, digits))


def _largest_epsilon(members: Sequence[Mapping[str, Any]]) -> float:
    return max(float(row["epsilon"]) for row in members)


def _accuracy_text(members: Sequence[Mapping[str, Any]]) -> str:
    values = [float(row["accuracy"]) for row in members]
    spread = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return percent(statistics.fmean(values)) + spread


def _mean(members: Sequence[Mapping[str, Any]], key: str) -> str:
    values = [row[key] for row in members if row.get(key) is not None]
    return f"{statistics.fmean(values):.3g}" if values else "–"


def _range(members: Sequence[Mapping[str, Any]], key: str) -> str:
    values = [row[key] for row in members if row.get(key) is not None]
    if not values:
        return "–"
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _setting(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1] if names else ""
