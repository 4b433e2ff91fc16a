"""The page of a comparison, made from its public result alone: ``report.html``, and ``report.md`` in the same words."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from statistics import fmean
from typing import Any

from markupsafe import Markup

from pate._core.pages import render
from pate.release.statement.catalogue import english
from pate.release.statement.plain_language import glossary
from pate.report import plots
from pate.report._answer import answer, listed, looks, rule_text, verdict_sheet
from pate.report._measures import against_epsilon, by_class, by_group, costs, fits, measures, plain_bands, span, starved
from pate.report._parts import NEXT, Sheet, facts, number, percent, picture, plain, promised
from pate.report.result import Band, ComparisonResult, FitCost, gathered
from pate.report.scores import R2, Score

# Published figures of the same data set, to stand beside a comparison: their papers' word, nothing measured here.


@dataclass(frozen=True)
class Anchor:
    """An accuracy at an epsilon as a paper states both."""

    dataset: str
    method: str
    side: str
    accuracy: float
    epsilon: float
    delta: float
    adjacency: str  # empty where the paper's was not checked here
    accounting: str  # {"worst case", "data-dependent", "as claimed"}
    source: str

    def differs(self, delta: float, adjacency: str | None) -> str:
        """Return in what its promise is another one than that of a comparison; empty where it is the same."""
        texts = [] if delta == self.delta else [f"δ = {self.delta:g}"]
        if not self.adjacency:
            texts.append("adjacency not checked here")
        elif adjacency != self.adjacency:
            texts.append(f"{self.adjacency} adjacency")
        if self.accounting != "worst case":
            claimed = {"data-dependent": "its ε depends on the votes", "as claimed": "accounting not checked here"}
            texts.append(claimed[self.accounting])
        return "; ".join(texts)


@lru_cache(maxsize=8)
def anchors(dataset: str | None) -> tuple[Anchor, ...]:
    """Return the published figures of one data set, by epsilon."""
    file = resources.files("pate") / "_templates" / "anchors.toml"
    texts = tomllib.loads(file.read_text(encoding="utf-8"))
    found = (Anchor(**{**entry, "source": texts["source"][entry["source"]]}) for entry in texts["anchor"])
    return tuple(sorted((a for a in found if a.dataset == dataset), key=lambda a: a.epsilon))


#: Of a line of settings: the seed of a repeat, by which lines that say the same would differ.
_SEED = re.compile(r", random_state=\d+|(?<=\()random_state=\d+(?:, )?")
_SHORT = {
    "worst_class_accuracy": ("Accuracy in the worst class", percent),
    "calibration_error": ("Calibration error", percent),
    "mean_absolute_error": ("Mean absolute error, in the target's unit", number),
}
_REDRAWN = {
    "all rows": "Every repeat draws again: private, public and test rows, the partition, the noise and all training. "
    "Test rows of two repeats overlap, which the intervals allow for.",
    "training rows": "Every repeat draws again: private and public rows, the partition, the noise and all training. "
    "The test rows are the published ones in every repeat.",
    "nothing": "The split stays the same in every repeat; partition, noise and training are drawn again. What another "
    "split would give is not in the intervals.",
}
_MEASURED = (
    "Means over the repeats. Balanced: mean of the classes' accuracies. Calibration error: expected, of the predicted "
    "class, in 15 bins of equal width (Guo et al. 2017). Queries: public rows asked about."
)
_NUMBERS = (
    "Means over the repeats. R2: 0 of the test rows' own mean, 1 of their very numbers, below 0 of what is worse."
)
_COST = (
    "Medians of one fit. Start-up is apart: imports, and what public rows teach. Memory is the most that the process "
    "held. Shown because the data are published; of private data it is private."
)


def render_comparison(result: ComparisonResult) -> str:
    """Return the public page of a comparison as HTML."""
    return render(
        "comparison.html",
        title=result.title,
        running=f"{result.title}, a comparison",
        result=result,
        facts=_facts(result),
        seeded=result.settings.get("noise_seed") is not None,
        view=view(result),
        picture=_picture(result),
        glossary=glossary(english()),
        files=[
            ("report.md", "this page as Markdown"),
            (f"{result.scale.file}.png, {result.scale.file}.svg", "the picture"),
            ("results.json, cells.jsonl", "every number, and every fit by itself"),
        ],
        next=NEXT,
    )


def view(result: ComparisonResult) -> dict[str, Any]:
    """Return all that the page says, as text and tables."""
    published = _published(result)
    styles = plots.styles(sides(result))
    return {
        "score": result.scale,
        "answer": answer(result),
        "looks": looks(result),
        "rule": rule_text(result),
        "price": _price(result),
        "warnings": starved(result),
        "verdicts": verdict_sheet(result.verdicts, result.side_pairs, result.scale),
        "swatches": {name: role for name, (role, _, _) in styles.items()},
        "accuracy": _accuracy(result),
        "references": _references(result),
        "anchors": published,
        "sizes": _sizes(result),
        "entrants": _contestants(result),
        "settings": _settings(result),
        "short": [table for key, how in _SHORT.items() if (table := against_epsilon(result, key, *how))],
        "measures": measures(result),
        "measured": _NUMBERS if result.score == R2.name else _MEASURED,
        "classes": by_class(result),
        "groups": by_group(result),
        "by": str(result.settings.get("by") or "group"),
        "cost": costs(result.fit_costs, by_epsilon=False),
        "costs": costs(result.fit_costs),
        "cost_text": _COST,
        "refused": _refused(result),
        "protocol": _protocol(result),
    }


def sides(result: ComparisonResult) -> dict[str, str]:
    """Return the side of each contestant that keeps a budget, in order."""
    known = {entrant.name: entrant.side for entrant in result.entrants}
    names = dict.fromkeys(row.contestant for row in result.rows if row.role == "private")
    return {name: known.get(name, "other") for name in names}


def bands(result: ComparisonResult) -> list[Band]:
    """Return the bands, or plain means where none were made."""
    return list(result.bands) or plain_bands(result.rows)


def by_votes(result: ComparisonResult, costs: Sequence[FitCost]) -> list[dict[str, Any]]:
    """Return data-dependent epsilons and scores, means over the repeats, by contestant and budget: **sensitive**."""
    means = {(band.contestant, band.epsilon): band.mean for band in bands(result)}
    known = [(cost, cost.data_dependent_epsilon) for cost in costs if cost.data_dependent_epsilon is not None]
    return [
        {"contestant": key[0], "budget": key[1], "epsilon": fmean(e for _, e in found), "mean": means[key]}
        for key, found in gathered(known, lambda pair: (pair[0].contestant, pair[0].epsilon)).items()
        if key in means
    ]


def comparison_picture(
    result: ComparisonResult,
    ax: Any = None,
    *,
    more_lines: Mapping[str, float] | None = None,
    costs: Sequence[FitCost] = (),
) -> Any:
    """Draw the picture of a comparison, on axes given or new ones.

    For the curator alone: ``more_lines`` of reference, and curves by the data-dependent epsilons of ``costs``.

    Examples
    --------
    >>> from pate.report.result import Row
    >>> band = Band(contestant="PATE", epsilon=1.0, mean=0.9, n_repeats=1)
    >>> row = {
    ...     "contestant": "PATE",
    ...     "epsilon": 1.0,
    ...     "delta": 1e-5,
    ...     "accuracy": 0.9,
    ...     "seed": 0,
    ... }
    >>> made = ComparisonResult(
    ...     kind="comparison", title="t", rows=[Row.from_dict(row)], bands=[band]
    ... )
    >>> comparison_picture(made).get_ylabel()
    'accuracy on the test rows, one repeat'
    """
    found, n = bands(result), _n_repeats(result)
    marks = [{"mark": mark, "epsilon": a.epsilon, "accuracy": a.accuracy} for mark, a in _marked(result)]
    return plots.comparison_curves(
        [band.to_dict() | {"whole": band.n_repeats == n} for band in found if band.epsilon is not None],
        sides=sides(result),
        lines={**{band.contestant: band.mean for band in found if band.epsilon is None}, **(more_lines or {})},
        anchors=marks,
        stretches=[stretch.to_dict() for found in result.crossings[:1] for stretch in found.stretches],
        private=by_votes(result, costs),
        floor=_floor(result),
        score=result.scale,
        ax=ax,
    )


def _floor(result: ComparisonResult) -> float | None:
    """Return where the axis of one repeat starts: what always saying the commonest class gave, or else chance."""
    if _n_repeats(result) != 1:
        return None
    said = [row.accuracy for row in result.rows if row.contestant == "majority" and row.accuracy is not None]
    return min(said) if said else 1 / len(result.classes) if result.classes else 0.0


def _picture(result: ComparisonResult) -> Markup | None:
    found, floor, n = bands(result), _floor(result), _n_repeats(result)
    curves = [band for band in found if band.epsilon is not None]
    if not curves:
        return None
    means = [band.mean for band in curves] + [a.accuracy for _, a in _marked(result)]
    paired, partly = any(b.paired_low is not None for b in found), any(band.n_repeats < n for band in curves)
    shaded = [c for c in result.crossings[:1] if any(s.low is not None or s.high is not None for s in c.stretches)]
    title = result.scale.title
    texts = {
        f"{title} on the test rows, mean over the repeats.": floor is None,
        f"{title} on the test rows of one repeat: a second one may turn every difference round.": floor is not None,
        "Bands are paired: where two of them are apart at one ε, so are the contestants.": paired,
        "Who is far below the best has none.": paired,
        "No bands: there are too few repeats, or no other contestant to pair with.": not paired
        and result.rule is not None,
        "Dashed lines: what can be had without private rows, or without privacy.": len(curves) < len(found),
        "Hollow marks: means of some repeats alone, as others were refused.": partly,
        "Diamonds: published figures, named below.": bool(_marked(result)),
        "The upright axis is stretched towards 100%.": floor is None
        and plots.stretched(min(means), max(means), result.scale),
        **{f"Shaded: where {c.first} and {c.second} may be equal.": True for c in shaded},
    }
    caption = " ".join(text for text, holds in texts.items() if holds)
    return picture(caption, f"{title} against epsilon", comparison_picture, result)


def _accuracy(result: ComparisonResult) -> Sheet:
    found = [band for band in bands(result) if band.epsilon is not None]
    epsilons = sorted({band.epsilon for band in found if band.epsilon is not None})
    cells = {(band.contestant, band.epsilon): band for band in found}
    names = list(dict.fromkeys(band.contestant for band in found))
    asked = {(row.contestant, row.epsilon) for row in result.rows}
    n = _n_repeats(result)
    # Who was refused in a repeat takes no part in verdicts: its mean is of other repeats than the others'.
    whole = [band for band in found if band.n_repeats == n]
    best = {band.epsilon: band.mean for band in sorted(whole, key=lambda band: band.mean)}
    lines, strong = [], []
    for r, name in enumerate(names):
        line = [name]
        for c, epsilon in enumerate(epsilons, start=1):
            band = cells.get((name, epsilon))
            absent = "refused" if (name, epsilon) in asked else "–"
            line.append(absent if band is None else _band_text(band, result.scale, "\n"))
            if band is not None and band.n_repeats < n:
                line[-1] += f"\n{band.n_repeats} of {n} repeats"
            elif band is not None and band.mean == best[epsilon] and len(names) > 1:
                strong.append((r, c))
        lines.append(tuple(line))
    heads = ["At ε =", *map(promised, epsilons)]
    return Sheet(heads=heads, rows=lines, numbers=range(1, len(heads)), strong=strong)


def _n_repeats(result: ComparisonResult) -> int:
    return len({row.repeat for row in result.rows})


def _band_text(band: Band, score: Score, between: str = " ") -> str:
    if band.low is None or band.high is None:
        return score.text(band.mean)
    ends = (score.plain(end) for end in (band.low, band.high))
    return f"{score.text(band.mean)}{between}({('–' if score.percent else ' to ').join(ends)})"


def _references(result: ComparisonResult) -> str:
    levels = {band.contestant: _band_text(band, result.scale) for band in bands(result) if band.epsilon is None}
    of = {role: [f"{e.name}: {levels[e.name]}" for e in result.entrants if e.role == role and e.name in levels]
          for role in ("floor", "ceiling")}  # fmt: skip
    texts = []
    if any(band.low is not None for band in result.bands):
        texts.append(
            f"In brackets: the interval of each {result.scale.name} by itself, at "
            f"{result.rule.level if result.rule else 0.95:.0%}. Contestants of a repeat have much of it in common; "
            "verdicts rest on the differences. Bold: the best mean of those who were measured in every repeat."
        )
    if of["floor"]:
        texts.append(f"Floors, which see no private row: {'; '.join(of['floor'])}.")
    if of["ceiling"]:
        texts.append(
            f"Ceilings, without any privacy, shown because the data are published: {'; '.join(of['ceiling'])}."
        )
    hidden = [entrant.name for entrant in result.entrants if entrant.role == "ceiling" and entrant.name not in levels]
    if hidden:
        texts.append(f"Ceilings are private, and stand on the sensitive page alone: {listed(hidden)}.")
    return " ".join(texts)


def _marked(result: ComparisonResult) -> list[tuple[str, Anchor]]:
    return [(chr(ord("A") + i), anchor) for i, anchor in enumerate(anchors(result.dataset))]


def _published(result: ComparisonResult) -> Sheet:
    delta = next((row.delta for row in result.rows if row.delta is not None), 0.0)
    promises = {stated.statement.guarantee.adjacency for stated in result.statements}
    adjacency = promises.pop() if len(promises) == 1 else None
    rows = []
    for mark, a in _marked(result):
        differs = a.differs(delta, adjacency) or "nothing"
        rows.append((f"{mark}: {a.method}", percent(a.accuracy), f"{a.epsilon:g}", differs, a.source))
    return Sheet(heads=["Method", "Accuracy", "ε", "Promise differs by", "Source"], rows=rows, kind="stack")


def _sizes(result: ComparisonResult) -> str:
    names = {"n_private": "private records", "n_units": "people with private records"}
    names |= {"n_public": "public rows without labels", "n_test": "test rows"}
    texts = [
        f"{result.settings[key]:,} {name}" for key, name in names.items() if isinstance(result.settings.get(key), int)
    ]
    return f"All contestants get the same rows: {listed(texts)}." if texts else ""


def _contestants(result: ComparisonResult) -> Sheet:
    rows = []
    for entrant in result.entrants:
        role = entrant.side if entrant.role == "private" else entrant.role
        tried = "not said" if entrant.n_tried is None else f"{entrant.n_tried:,}" if entrant.n_tried else "none"
        where = f", on {entrant.tried_on}" if entrant.tried_on else ""
        rows.append((entrant.name, role, entrant.sees or "not said", entrant.rule or "not said", tried + where))
    return Sheet(heads=["Contestant", "Side", "Sees", "Set by", "Settings tried"], rows=rows, kind="stack")


def _settings(result: ComparisonResult) -> list[tuple[str, Sheet]]:
    statements = {(s.contestant, s.epsilon): s.statement for s in result.statements}
    found: dict[str, list[tuple[str, ...]]] = {}
    for (name, epsilon), rows in fits(result.rows).items():
        if epsilon is None:
            continue
        statement = statements.get((name, epsilon))
        mechanism = "no statement" if statement is None else _SEED.sub("", statement.mechanism)
        said = [_SEED.sub("", row.settings).removeprefix(mechanism).removeprefix("; ") for row in rows if row.settings]
        texts = list(dict.fromkeys(text for text in said if text))
        text = " / ".join(texts[:3]) + (f" / {len(texts) - 3} more" if len(texts) > 3 else "")
        g = None if statement is None else statement.guarantee
        promise = "–" if g is None else f"ε = {promised(g.epsilon)}, δ = {promised(g.delta)}"
        asked, answered = (span(getattr(row, key) for row in rows) for key in ("queries", "answers"))
        line = (promised(epsilon), promise, mechanism, text or ("–" if said else "not said"), asked, answered)
        found.setdefault(name, []).append(line)
    heads = ["ε", "Promises", "Mechanism", "Settings", "Queries", "Answers"]
    return [(name, Sheet(heads=heads, rows=lines, kind="stack")) for name, lines in found.items()]


def _refused(result: ComparisonResult) -> Sheet:
    reasons = Counter((row.contestant, row.epsilon, row.refused) for row in result.rows if row.refused is not None)
    rows = [(name, "–" if e is None else promised(e), str(n), why) for (name, e, why), n in reasons.items()]
    return Sheet(heads=["Contestant", "ε", "Repeats", "Reason"], rows=rows, kind="stack")


def _price(result: ComparisonResult) -> str:
    """Return what every epsilon is at, in words; empty where nothing has one."""
    deltas = sorted({row.delta for row in result.rows if row.delta is not None})
    whom = _protects(result)
    return (
        f"Every ε is at δ = {listed([promised(delta) for delta in deltas])}{whom and f'; it {whom}'}." if deltas else ""
    )


def _protects(result: ComparisonResult) -> str:
    promises = {(s.statement.unit, s.statement.guarantee.adjacency) for s in result.statements}
    if len(promises) != 1:
        return ""
    ((unit, adjacency),) = promises
    return f"protects one {unit}, {adjacency} adjacency"


def _protocol(result: ComparisonResult) -> list[str]:
    texts = [
        _REDRAWN[result.redraws],
        "All contestants of a repeat meet on the same rows: differences are paired by repeat and by test row.",
    ]
    if whom := _protects(result):
        texts.append(f"Every stated guarantee {whom}.")
    return texts


def _facts(result: ComparisonResult) -> list[tuple[str, str]]:
    """Return how it was made; the contestants have a table of their own."""
    made_of = [(f"{entrant.name} is", entrant.made_of) for entrant in result.entrants if entrant.made_of]
    return [(name, text) for name, text in facts(result) if text not in ("None", "")] + made_of


def render_markdown(result: ComparisonResult) -> str:
    """Return the report of a comparison as Markdown, with the same text and tables as its HTML page.

    Examples
    --------
    >>> from pate.report.result import Row
    >>> row = Row(contestant="PATE", epsilon=2.0, delta=1e-5, accuracy=0.95, seed=0)
    >>> print(
    ...     render_markdown(
    ...         ComparisonResult(kind="comparison", title="PATE on digits", rows=[row])
    ...     ).split("##")[0]
    ... )
    # PATE on digits
    <BLANKLINE>
    """
    texts = view(result)
    lines = [f"# {plain(result.title)}", ""]

    def section(title: str, *parts: Any) -> None:
        said = [part.markdown() if isinstance(part, Sheet) else plain(part) for part in parts if part]
        if said:
            lines.extend([f"## {title}", ""])
            lines.extend(line for text in said for line in (text, ""))

    seeded = "Not private: seeded noise." if result.settings.get("noise_seed") is not None else ""
    section("Who is ahead", seeded, *texts["answer"], texts["rule"], *texts["warnings"], texts["verdicts"])
    score = result.scale
    section(f"{score.title} against epsilon", texts["accuracy"], texts["references"], texts["anchors"])
    if texts["accuracy"]:
        lines.extend([f"![{score.title} against epsilon]({score.file}.png)", ""])
    section("The contestants", texts["sizes"], texts["entrants"])
    for name, table in texts["settings"]:
        section(f"{plain(name)}: mechanism and settings", table)
    section(f"Beyond {score.name}", texts["measured"], texts["measures"])
    for name, tables in [*texts["classes"], *texts["groups"]]:
        section(f"{plain(name)}: classes and groups", *tables)
    section("Time and memory", *([texts["cost_text"], texts["costs"]] if texts["cost"] else []))
    section("Fits that were refused", texts["refused"])
    section("The protocol, and what it costs", *texts["protocol"], *result.notes)
    section("How it was made", Sheet(heads=["", ""], rows=[("command", result.command or "not said"), *_facts(result)]))
    return "\n".join(lines).rstrip() + "\n"
