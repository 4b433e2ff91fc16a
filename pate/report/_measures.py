"""What a comparison measured beyond accuracy: classes, groups, answers and who gets too few, time and memory."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib import resources
from itertools import groupby
from typing import Any

from markupsafe import Markup

from pate.report._parts import Sheet, number, percent, promised
from pate.report.result import Band, ComparisonResult, Example, FitCost, Result, Row, gathered
from pate.report.scores import R2

# Who was ahead in this project's own measurements, PATE or DP-SGD, at the same epsilon, delta and split.

#: A verdict of PATE's side, and the heading of its column.
VERDICTS = {"ahead": "PATE ahead", "undecided": "undecided", "behind": "DP-SGD ahead"}


@lru_cache(maxsize=1)
def measurements() -> dict[str, Any]:
    """Return ``rows`` (data, epsilon, and the verdict of a comparison of ours), ``delta`` and ``sources``.

    They are written by ``experiments/who_wins.py`` from stored comparisons.
    """
    file = resources.files("pate") / "_templates" / "measured.json"
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def who_wins() -> dict[str, Any]:
    """Return a sentence, a table by epsilon, and where the figures are."""
    measured = measurements()
    rows = measured["rows"]
    counts = {name: sum(row["verdict"] == name for row in rows) for name in VERDICTS}
    lines = []
    for epsilon in sorted({row["epsilon"] for row in rows}):
        here = [row for row in rows if row["epsilon"] == epsilon]
        cells = ("; ".join(row["data"] for row in here if row["verdict"] == name) or "–" for name in VERDICTS)
        lines.append((f"ε = {epsilon:g}", *cells))
    n_data, delta = len({row["data"] for row in rows}), promised(measured["delta"])
    sentence = (
        f"In {len(rows)} comparisons on {n_data} tasks at δ = {delta}, our defaults on both sides, by paired "
        f"intervals: PATE ahead in {counts['ahead']}, DP-SGD in {counts['behind']}, undecided in {counts['undecided']}."
    )
    return {"sentence": sentence, "heads": ["", *VERDICTS.values()], "lines": lines, "sources": measured["sources"]}


# Public images and what was released of them, drawn small.


def thumbnails(examples: Sequence[Example]) -> list[dict[str, Any]]:
    """Return each image as markup, with its label and how sure the release is of it."""
    return [
        {"image": _drawn(e), "label": "none" if e.label is None else str(e.label), "sure": _sure(e)} for e in examples
    ]


def _sure(example: Example) -> str:
    if example.confidence is not None:
        return f"{percent(example.confidence)} sure"
    return "" if example.lead is None else f"lead of {example.lead:.0f} votes"


def _drawn(example: Example) -> Markup:
    """Return one path for each shade: runs of equal points, line by line."""
    runs: dict[str, list[str]] = {}
    for y, line in enumerate(example.image):
        x = 0
        for shade, points in groupby(line):
            n = len(list(points))
            if shade != "0":
                runs.setdefault(shade, []).append(f"M{x} {y}h{n}v1h-{n}z")
            x += n
    paths = Markup("").join(
        Markup("<path d='{}' fill-opacity='{}'/>").format("".join(places), f"{int(shade) / 9:.2g}")
        for shade, places in sorted(runs.items())
    )
    box = f"0 0 {len(example.image[0])} {len(example.image)}"
    text = "no label" if example.label is None else f"an image labelled {example.label}"
    return Markup("<svg class='thumb' viewBox='{}' role='img' aria-label='{}'>{}</svg>").format(box, text, paths)


#: A class or group is starved where its answer rate is below this share of the overall one ...
STARVED = 0.5
#: ... and at least so many answers were to be expected there.
EXPECTED = 10
_SECONDS = ("startup_seconds", "training_seconds", "labelling_seconds", "predicting_seconds")


def fits(rows: Iterable[Row]) -> dict[tuple[str, float | None], list[Row]]:
    """Gather measured rows by contestant and epsilon, in order of appearance."""
    return gathered((row for row in rows if row.refused is None), lambda row: (row.contestant, row.epsilon))


def plain_bands(rows: Iterable[Row]) -> list[Band]:
    """Return means by contestant and epsilon, without intervals."""
    known = {
        key: [row.score for row in members if row.score is not None]
        for key, members in gathered(rows, lambda row: (row.contestant, row.epsilon)).items()
    }
    return [
        Band(contestant=name, epsilon=epsilon, mean=statistics.fmean(values), n_repeats=len(values))
        for (name, epsilon), values in known.items()
        if values
    ]


def measures(result: ComparisonResult) -> Sheet:
    """Return, for every contestant and epsilon, means over the repeats of all that is measured."""
    if result.score == R2.name:
        columns: dict[str, Callable[[float], str]] = {"r2": R2.text, "mean_absolute_error": number}
        told = [
            (name, "–" if epsilon is None else promised(epsilon), *(_mean(rows, *column) for column in columns.items()))
            for (name, epsilon), rows in fits(result.rows).items()
        ]
        heads = ["Contestant", "ε", R2.title, "Mean absolute error"]
        return Sheet(heads=heads, rows=told, numbers=range(1, 4), kind="grouped")
    heads = ["Contestant", "ε", "Accuracy", "Balanced", "Worst class", "Calibration error", "Queries", "Answers"]
    lines = [
        (
            name,
            "–" if epsilon is None else promised(epsilon),
            *(_mean(rows, key) for key in ("accuracy", "balanced_accuracy", "worst_class_accuracy")),
            _mean(rows, "calibration_error"),
            span(row.queries for row in rows),
            span(row.answers for row in rows),
        )
        for (name, epsilon), rows in fits(result.rows).items()
    ]
    return Sheet(heads=heads, rows=lines, numbers=range(1, 8), kind="grouped")


def against_epsilon(result: Result, key: str, caption: str, shown: Callable[[float], str] = percent) -> Sheet:
    """Return one measure, contestants against epsilons: means over the repeats."""
    known = fits(result.rows)
    epsilons = sorted({epsilon for _, epsilon in known if epsilon is not None})
    lines = [
        (name, *(_mean(known.get((name, epsilon), ()), key, shown) for epsilon in epsilons))
        for name in dict.fromkeys(name for name, epsilon in known if epsilon is not None)
    ]
    lines = [line for line in lines if set(line[1:]) != {"–"}]
    heads = ["At ε =", *map(promised, epsilons)]
    return Sheet(heads=heads, rows=lines, numbers=range(1, len(heads)), caption=caption)


def _mean(rows: Sequence[Row], key: str, shown: Callable[[float], str] = percent) -> str:
    values = [value for row in rows if (value := getattr(row, key)) is not None]
    return shown(statistics.fmean(values)) if values else "–"


def span(values: Iterable[float | None], shown: Callable[[Any], str] = "{:,}".format) -> str:
    """Return numbers from the least to the largest."""
    known = sorted(value for value in values if value is not None)
    ends = dict.fromkeys(shown(value) for value in (*known[:1], *known[-1:]))
    return " to ".join(ends) or "–"


def by_class(result: Result) -> list[tuple[str, list[Sheet]]]:
    """Return two tables a contestant, classes against epsilons: accuracy, and the share that was answered."""
    names = [str(name) for name in result.classes]

    def parts(row: Row) -> list[dict[str, float | None]]:
        return [dict(zip(names, shares, strict=False)) for shares in (row.class_accuracy, row.class_answer_rate)]

    return _tables(result, names, "class", parts)


def by_group(result: Result) -> list[tuple[str, list[Sheet]]]:
    """Return two tables a contestant, named groups against epsilons: accuracy, and the share that was answered."""
    names = list(dict.fromkeys(group.value for row in result.rows for group in row.groups))

    def parts(row: Row) -> list[dict[str, float | None]]:
        return [{group.value: getattr(group, key) for group in row.groups} for key in ("accuracy", "answer_rate")]

    return _tables(result, names, "group", parts)


def _tables(
    result: Result, names: Sequence[str], what: str, parts: Callable[[Row], list[dict[str, float | None]]]
) -> list[tuple[str, list[Sheet]]]:
    found = []
    measured = fits(result.rows)
    for contestant in dict.fromkeys(name for name, _ in measured):
        epsilons = [epsilon for name, epsilon in measured if name == contestant]
        texts = [promised(epsilon) if epsilon is not None else "no ε" for epsilon in epsilons]
        heads = [f"{what.title()}, at ε =", *texts] if texts != ["no ε"] else [what.title(), ""]
        tables = []
        for place, caption in enumerate((f"Accuracy by {what}", f"Share of the queries answered, by {what}")):
            # A mean over the repeats that know the value, or None: of each name (a row), at each epsilon.
            by_fit = [[parts(row)[place] for row in measured[contestant, epsilon]] for epsilon in epsilons]
            known = [[[v for fit in of if (v := fit.get(name)) is not None] for of in by_fit] for name in names]
            shares = [[statistics.fmean(some) if some else None for some in line] for line in known]
            if all(share is None for line in shares for share in line):
                continue
            rows = [
                (name, *("–" if share is None else percent(share) for share in line))
                for name, line in zip(names, shares, strict=True)
            ]
            rounded = [[None, *(None if share is None else round(share, 3) for share in line)] for line in shares]
            places = range(1, len(heads))
            tables.append(Sheet(heads=heads, rows=rows, numbers=places, kind="heat", caption=caption, shares=rounded))
        if tables:
            found.append((contestant, tables))
    return found


def starved(result: Result) -> list[str]:
    """Return which classes and groups get far fewer answers than the others, and deserve a warning.

    Over all repeats of a contestant and epsilon: an answer rate below half the overall one, where at least ten answers
    were to be expected. That of a class is counted by the labels of public rows, which are used for evaluation alone.
    """
    texts = []
    for (name, part), found in _starved(result).items():
        epsilon, n, rate, overall = min(found, key=lambda entry: entry[2] / entry[3])
        overall_text = f"all {'classes' if part.startswith('class') else 'groups'} together {percent(overall)}"
        others = ", ".join(promised(entry[0]) for entry in found if entry[0] != epsilon)
        texts.append(
            f"{name} at ε = {promised(epsilon)}: {part} gets answers to {percent(rate)} of its {n:,} queries, "
            + overall_text
            + (f" (less than half as often, too, at ε = {others})." if others else ".")
        )
    return texts


def _starved(result: Result) -> dict[tuple[str, str], list[tuple[float, int, float, float]]]:
    """Return contestant and class or group, and where: epsilon, queries, answer rate, overall rate."""
    texts: dict[tuple[str, str], list[tuple[float, int, float, float]]] = {}
    for (name, epsilon), rows in fits(result.rows).items():
        asked, answered = sum(r.queries or 0 for r in rows), sum(r.answers or 0 for r in rows)
        if not asked or epsilon is None:
            continue
        overall = answered / asked
        parts: dict[str, list[tuple[int, float]]] = {}
        for row in rows:
            classes = zip(result.classes, row.class_queries, row.class_answer_rate, strict=False)
            groups = ((f"group {g.value}", g.n_queries, g.answer_rate) for g in row.groups)
            for value, n, rate in [*((f"class {c}", n, rate) for c, n, rate in classes), *groups]:
                if n and rate is not None:
                    parts.setdefault(value, []).append((n, rate))
        for part, counts in parts.items():
            n = sum(n for n, _ in counts)
            rate = sum(n * rate for n, rate in counts) / n
            if n * overall >= EXPECTED and rate < STARVED * overall:
                texts.setdefault((name, part), []).append((epsilon, n, rate, overall))
    return texts


def costs(fits_cost: Sequence[FitCost], *, by_epsilon: bool = True, private: bool = False) -> Sheet:
    """Return time and memory by contestant and epsilon: medians over the repeats."""
    groups = gathered(fits_cost, lambda cost: (cost.contestant, cost.epsilon if by_epsilon else None))
    memory = {"peak_mib": "Memory, MiB", "gpu_peak_mib": "GPU, MiB"}
    memory = {key: head for key, head in memory.items() if any(getattr(cost, key) is not None for cost in fits_cost)}
    heads = ["Contestant", *(["ε"] * by_epsilon), "Start-up, s", "Training, s", "Labelling, s", "Predicting, s"]
    heads += memory.values()
    keys = [*_SECONDS, *memory]
    lines = [
        (
            name,
            *(["–" if epsilon is None else promised(epsilon)] * by_epsilon),
            *(_median(members, key) for key in keys),
            *([span((m.data_dependent_epsilon for m in members), promised)] if private else []),
        )
        for (name, epsilon), members in groups.items()
    ]
    heads += ["Data-dependent ε"] if private else []
    return Sheet(heads=heads, rows=lines, numbers=range(1, len(heads)), kind="grouped" if by_epsilon else "stack")


def _median(members: Sequence[FitCost], key: str) -> str:
    values = [value for member in members if (value := getattr(member, key)) is not None]
    return _seconds(statistics.median(values)) if values else "–"


def _seconds(value: float) -> str:
    if 0 < value < 0.01:
        return "< 0.01"
    return f"{value:,.0f}" if value >= 100 else number(float(f"{value:.2g}"))
