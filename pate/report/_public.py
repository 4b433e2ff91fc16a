"""The report that may be published, made from the public result alone."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from pate._core.files import write_text
from pate._core.pages import render
from pate.privacy.words import TIERS
from pate.release.statement.catalogue import Catalogue, english
from pate.release.statement.model import UNITS, PrivacyStatement
from pate.release.statement.plain_language import explained, glossary, plain_language_page, tier
from pate.report import plots
from pate.report._answer import listed
from pate.report._comparison import by_votes, comparison_picture, render_comparison
from pate.report._measures import costs, plain_bands, span, thumbnails, who_wins
from pate.report._parts import (
    NEXT,
    Sheet,
    accuracy_text,
    facts,
    largest_epsilon,
    number,
    percent,
    picture,
    promised,
)
from pate.report.result import ComparisonResult, EnsembleCurve, Result, Row, SensitiveResult, typed
from pate.report.scores import ACCURACY

# The report that stays with the curator: what private votes say without noise.

MARK = "SENSITIVE: made from private votes; not for publication"
BADGE = "SENSITIVE"


def write_sensitive_report(
    path: str | os.PathLike[str],
    result: Result | Mapping[str, Any],
    sensitive: SensitiveResult | Mapping[str, Any],
) -> None:
    """Write the sensitive report, for the curator alone; only the file's owner can read it (mode 0600).

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
    >>> row = {
    ...     "contestant": "PATE",
    ...     "epsilon": 2.0,
    ...     "delta": 1e-5,
    ...     "accuracy": 0.95,
    ...     "seed": 0,
    ... }
    >>> goal = pathlib.Path(tempfile.mkdtemp()) / "sensitive.html"
    >>> result = {"kind": "run", "title": "PATE on digits", "rows": [row]}
    >>> write_sensitive_report(goal, result, {"margins": [3, 4], "n_teachers": 5})
    >>> oct(goal.stat().st_mode & 0o777)
    '0o600'
    """
    write_text(path, render_sensitive_report(result, sensitive), mode=0o600)


def render_sensitive_report(result: Result | Mapping[str, Any], sensitive: SensitiveResult | Mapping[str, Any]) -> str:
    """Return the sensitive report, for the curator alone, as HTML; see :func:`write_sensitive_report`.

    Examples
    --------
    >>> row = {
    ...     "contestant": "PATE",
    ...     "epsilon": 2.0,
    ...     "delta": 1e-5,
    ...     "accuracy": 0.95,
    ...     "seed": 0,
    ... }
    >>> page = render_sensitive_report(
    ...     {"kind": "run", "title": "PATE on digits", "rows": [row]}, {"notes": ["mine"]}
    ... )
    >>> MARK in page
    True
    """
    result = typed(result)
    inside = sensitive if isinstance(sensitive, SensitiveResult) else SensitiveResult.from_dict(sensitive)
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
        votes=_by_votes(result, inside) if isinstance(result, ComparisonResult) else None,
        fits=costs(inside.costs, private=True),
        prices=[(p.label, number(p.epsilon), number(p.delta), p.method, p.use) for p in inside.data_dependent],
    )


def _references(result: Result, inside: SensitiveResult) -> dict[str, Any]:
    rows: list[dict[str, Any]] = [row.to_dict() for row in result.rows if row.epsilon is not None]
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
    return {"picture": picture(caption, name, plots.accuracy_bars, rows), "lines": lines}


def _ceilings(result: Result, inside: SensitiveResult) -> dict[str, Any]:
    levels = {band.contestant: band.mean for band in plain_bands(inside.ceilings)}
    score = result.scale if isinstance(result, ComparisonResult) else ACCURACY
    drawn = None
    if isinstance(result, ComparisonResult) and levels and result.epsilons:
        dashed = "dashed: without private rows, or without privacy."
        caption = f"{score.title} on the test rows, mean over the repeats; {dashed}"
        drawn = picture(caption, f"{score.title}, with the ceilings", comparison_picture, result, more_lines=levels)
    rows = [(name, score.text(level)) for name, level in levels.items()]
    return {"picture": drawn, "table": Sheet(heads=["Without privacy", score.title], rows=rows, numbers=[1])}


def _by_votes(result: ComparisonResult, inside: SensitiveResult) -> dict[str, Any] | None:
    if not (points := by_votes(result, inside.costs)):
        return None
    title = f"{result.scale.title} against both kinds of epsilon"
    caption = (
        "Means over the repeats. Solid: by the public ε. Dotted: the same fits by their data-dependent ε, PRIVATE."
    )
    rows = [
        (p["contestant"], promised(p["budget"]), promised(p["epsilon"]), result.scale.text(p["mean"])) for p in points
    ]
    heads = ["Contestant", "Public ε", "Data-dependent ε, PRIVATE", result.scale.title]
    return {
        "picture": picture(caption, title, comparison_picture, result, costs=inside.costs),
        "table": Sheet(heads=heads, rows=rows, numbers=range(1, 4), kind="grouped"),
    }


def _margins(inside: SensitiveResult) -> str:
    margins, teachers = inside.margins, inside.n_teachers or 0
    noise = inside.ensemble_curve.margin_noise if inside.ensemble_curve is not None else None
    caption = f"{len(margins)} queries; median margin {statistics.median(margins):g} of {teachers} votes."
    if noise:
        share = sum(margin > noise for margin in margins) / len(margins)
        caption += f" {percent(share)} of the margins are wider than one standard deviation of the noise on them."
    marks = {"standard deviation of the noise on a margin": noise} if noise else None
    return picture(caption, "Histogram of vote margins", plots.margin_histogram, margins, teachers, marks)


def _teachers(values: tuple[float, ...]) -> str:
    caption = (
        f"{len(values)} teachers, each trained on one shard: {percent(min(values))} to {percent(max(values))}, "
        f"median {percent(statistics.median(values))}."
    )
    return picture(caption, "Histogram of the teachers' accuracies", plots.teacher_accuracies, values)


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
    name = "Accuracy of the vote against the number of teachers"
    return picture(caption, name, plots.ensemble_curve, curve.to_dict())


#: What a run writes beside its page.
FILES = (
    ("labels.csv", "the public rows with their released labels"),
    ("statement.txt, statement.json", "the privacy statement: hand it on with the labels"),
    ("results.json", "every number of this page"),
)
#: Accuracies shown on the first screen; the table has all.
_MOST_CARDS = 6


def write_report(path: str | os.PathLike[str], result: Result | Mapping[str, Any]) -> None:
    """Write the public report of a run or a comparison.

    Parameters
    ----------
    path : path
        The HTML file; written whole or not at all.
    result : Result, or mapping
        A mapping is the JSON of ``results.json``: see :class:`pate.report.result.Result`. It is public: accuracies of
        released models, released labels by class, prices that are constants.

    Raises
    ------
    InvalidInputError
        A name that is not known, or a value that is not plain: nothing is written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> row = {
    ...     "contestant": "PATE",
    ...     "epsilon": 2.0,
    ...     "delta": 1e-5,
    ...     "accuracy": 0.95,
    ...     "seed": 0,
    ... }
    >>> goal = pathlib.Path(tempfile.mkdtemp()) / "report.html"
    >>> write_report(goal, {"kind": "run", "title": "PATE on digits", "rows": [row]})
    >>> "PATE on digits" in goal.read_text(encoding="utf-8")
    True
    >>> write_report(
    ...     goal,
    ...     {"kind": "run", "title": "PATE on digits", "rows": [row], "margins": [3, 4]},
    ... )
    Traceback (most recent call last):
    pate.exceptions.InvalidInputError: result has the key 'margins', which no report knows. Allowed: ...
    """
    write_text(path, render_report(result))


def render_report(result: Result | Mapping[str, Any]) -> str:
    """Return the public report as HTML; see :func:`write_report`.

    Examples
    --------
    >>> row = {
    ...     "contestant": "PATE",
    ...     "epsilon": 2.0,
    ...     "delta": 1e-5,
    ...     "accuracy": 0.95,
    ...     "seed": 0,
    ... }
    >>> "<script" in render_report(
    ...     {"kind": "run", "title": "PATE on digits", "rows": [row]}
    ... )
    False
    """
    result = typed(result)
    if isinstance(result, ComparisonResult):
        return render_comparison(result)
    statement, say = result.statement, english()
    seeded = statement.seeded if statement else result.settings.get("noise_seed") is not None
    return render(
        "report.html",
        title=result.title,
        running=f"{result.title}, privacy report",
        result=result,
        facts=facts(result),
        seeded=seeded,
        promise=_promise(statement, say) if statement is not None and not seeded else None,
        prices=_prices(result) if statement is None and priced(result) else None,
        accuracy=_accuracy(result) if priced(result) else None,
        files=FILES if statement is not None else (),
        cost=_cost(result),
        classes=_classes(result),
        examples=thumbnails(result.examples),
        measured=who_wins(),
        next=NEXT,
        statement=None if statement is None else _statement(statement, say),
        glossary=glossary(say),
    )


def _statement(statement: PrivacyStatement, say: Catalogue) -> dict[str, Any]:
    return {
        "page": plain_language_page(statement, say, statement.digest),
        "rows": [(*explained(name, say), value) for name, value in statement.rows()],
        "record_title": say("page.record_title"),
        "record_intro": say("page.record_intro"),
    }


def priced(result: Result) -> list[Row]:
    """Return the rows that cost an epsilon and were measured."""
    return [row for row in result.rows if row.epsilon is not None and row.accuracy is not None]


def _prices(result: Result) -> dict[str, str]:
    rows = priced(result)
    names = list(dict.fromkeys(row.contestant for row in rows))
    return {
        "names": listed(names),
        "epsilons": ", ".join(sorted({promised(row.epsilon) for row in rows if row.epsilon}, key=float)),
        "deltas": ", ".join(sorted({promised(row.delta) for row in rows if row.delta}, key=float)),
    }


def _promise(statement: PrivacyStatement, say: Catalogue) -> dict[str, Any]:
    """Return the guarantee as the words of a sentence and as four facts."""
    g, n = statement.guarantee, statement.n_units
    level, epsilon, delta = tier(statement), promised(g.epsilon), promised(g.delta)
    meanings = {key: meaning.text for key, _, meaning in glossary(say)}

    def explained_by(key: str, name: str) -> Markup:
        return Markup("<abbr title='{}'>{}</abbr>").format(meanings[key], name)

    cards = [
        (explained_by("epsilon", "Epsilon (ε)"), epsilon, "worst case, public" if g.kind == "public" else g.kind),
        (explained_by("delta", "Delta (δ)"), delta, f"1/n is {number(1 / n)}" if n else ""),
        (explained_by("unit", "Unit of privacy"), statement.unit,
         f"{n:,} in the private data" if n else UNITS[statement.unit]),
        ("Tier", level, TIERS),
    ]  # fmt: skip
    unit = {"record": "record", "group": "group (all rows of one person)"}[statement.unit]
    return {"epsilon": epsilon, "delta": delta, "unit": unit, "adjacency": g.adjacency, "tier": level, "cards": cards}


#: What a row without an epsilon is.
_ROLES = {"floor": "sees no private row", "ceiling": "without privacy"}


def _accuracy(result: Result) -> dict[str, Any]:
    """Return accuracies as an answer in words, as cards, as a picture and as a table, what has an epsilon first."""
    found = [row for row in result.rows if row.accuracy is not None and row.epsilon is None]
    rows = [row.to_dict() for row in (*priced(result), *found)]
    groups = plots.group_rows(rows)
    names = list(dict.fromkeys(name for name, epsilon in groups if epsilon is not None))
    several = sum(epsilon is not None for _, epsilon in groups) > len(names)
    seeds = max(len(members) for members in groups.values())
    marks = "band: ± one standard deviation" if several else "whisker: ± one standard deviation; dots: single seeds"
    caption = "Accuracy on the test rows" + (f"; {marks}." if seeds > 1 else "; one seed, so no spread is known.")
    draw = plots.accuracy_against_epsilon if several else plots.accuracy_bars
    swatch = Markup("<span class='swatch' style='background:var(--series-{})'></span>{}")
    lines, cards = [], []
    for (name, epsilon), members in groups.items():
        at = "none" if epsilon is None else promised(largest_epsilon(members))
        told = _ROLES[members[0]["role"]] if epsilon is None else f"ε = {at}"
        n = len(members)
        cards.append((name, accuracy_text(members), f"{told}; {n} seed{'s' * (n > 1)}"))
        lines.append(
            (
                name if epsilon is None else swatch.format(names.index(name) % 6, name),
                at,
                " / ".join(dict.fromkeys(promised(row["delta"]) for row in members if row["delta"])) or "–",
                accuracy_text(members),
                n,
                span(row["queries"] for row in members),
                span(row["answers"] for row in members),
                (members[0].get("settings") or "–").partition(":")[0],
            )
        )
    own = [members for (name, _), members in groups.items() if name == names[0]]
    ends = [own[0], own[-1]] if len(own) > 1 else own
    texts = [f"{accuracy_text(m)} of the test rows at ε = {promised(largest_epsilon(m))}" for m in ends]
    return {
        "answer": f"{names[0]} is right on {listed(texts)}.",
        "cards": cards[:_MOST_CARDS],
        "several": len(names) > 1,
        "picture": picture(caption, "Accuracy of each contestant", draw, rows),
        "lines": lines,
        "seeds": seeds,
    }


def _cost(result: Result) -> Markup | None:
    if result.cost_curve is None:
        return None
    curve, budget = result.cost_curve.to_dict(), result.budget
    caption = (
        "Epsilon by number of queries, in the worst case over all votes: a constant of the mechanism and its noise, "
        "known before the first query" + (f"; δ = {promised(budget.delta)}." if budget else ".")
    )
    lines = (curve["curves"], curve["spent"])
    allowed = budget.epsilon if budget else None
    return picture(caption, "Epsilon against the number of queries", plots.cost_curves, *lines, budget=allowed)


def _classes(result: Result) -> Markup | None:
    counts = result.answers_per_class
    if not counts:
        return None
    caption = f"{sum(counts)} labels were released. These counts are computed from the released labels alone."
    return picture(caption, "Number of released labels of each class", plots.answers_per_class, counts, result.classes)
