"""The page and the picture of ``choosing.py``, from its JSON alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from _choosing_data import QUESTIONS
from _page import table
from matplotlib.figure import Figure

from pate.report.plots import COLOURS, figure_to_png

_PICTURE = "images/choosing.png"
_TICKS = (-50, -20, -10, -5, -2, -1, 0, 1, 2, 5, 10, 20, 50)
_WORDS = {"ahead": "**PATE**", "behind": "**DP-SGD**", "undecided": "undecided"}
#: The chapter that says how to choose holds a short table between these lines.
BEGIN, END = "<!-- verdicts of experiments/choosing.py -->", "<!-- end -->"
_INTRODUCTION = """\
# PATE or DP-SGD, measured

All results behind the chapter [Choose: PATE or DP-SGD](pate-or-dpsgd.md). `experiments/choosing.py` writes this page \
from `experiments/results/choosing.json`; no figure is typed by hand:

    PATE_DATA_HOME=... python experiments/choosing.py

Each question below is one [comparison](comparison.md). Both sides take their defaults, the same private, public and \
test rows, replace-one adjacency and delta 1e-5. PATE means record voters: every private record is itself a teacher \
(`pate`; `pate-fast` trains no networks, so that images take minutes; [how they are set](record-recipes.md)). DP-SGD \
means its planner's recipe (`dpsgd`), which gets the public rows too.
"""


def _signed(share: float) -> str:
    return f"{100 * share:+.1f}"


def _interval(verdict: Mapping[str, Any]) -> str:
    if verdict["low"] is None:
        return f"{_signed(verdict['difference'])}"
    return f"{_signed(verdict['difference'])} ({_signed(verdict['low'])} to {_signed(verdict['high'])})"


def _of_pate(question: Mapping[str, Any]) -> dict[float, Mapping[str, Any]]:
    """Return by epsilon what is said of PATE against DP-SGD."""
    return {v["epsilon"]: v for v in question["side_verdicts"] if (v["side"], v["other"]) == ("PATE", "DP-SGD")}


def epsilons(stored: Mapping[str, Any]) -> list[float]:
    return sorted({e for q in stored["questions"] for e in _of_pate(q)})


def counted(questions: Sequence[Mapping[str, Any]], epsilon: float) -> dict[str, int]:
    """Return how many questions end in each verdict at one epsilon."""
    said = [found[epsilon]["verdict"] for q in questions if epsilon in (found := _of_pate(q))]
    return {word: said.count(word) for word in _WORDS}


def _where(questions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return who is ahead where, at any epsilon."""
    ahead: dict[str, list[str]] = {word: [] for word in _WORDS}
    for question in questions:
        said = {found["verdict"] for found in _of_pate(question).values()}
        for word in said & {"ahead", "behind"} or {"undecided"}:
            ahead[word].append(f"{question['name']} ({question['about']})")
    words = {
        "ahead": "PATE is ahead at some epsilon, by a whole interval",
        "behind": "DP-SGD is ahead at some epsilon",
        "undecided": "Nobody is shown to be ahead at any",
    }
    return [line for word, names in ahead.items() if names for line in (f"- {words[word]}: {'; '.join(names)}.",)] + [
        ""
    ]


def _mean(question: Mapping[str, Any], name: str, epsilon: float) -> float | None:
    found = [b["mean"] for b in question["bands"] if (b["contestant"], b["epsilon"]) == (name, epsilon)]
    return found[0] if found else None


def page(stored: Mapping[str, Any]) -> str:
    """Return the page in Markdown."""
    questions, levels = stored["questions"], epsilons(stored)
    lines = [_INTRODUCTION]
    lines += [f"![By how much PATE is ahead of DP-SGD, with intervals]({_PICTURE})", ""]
    lines += ["## In short", ""]
    head = ["epsilon", "PATE ahead", "undecided", "DP-SGD ahead", "by the mean alone PATE is at or above"]
    rows = []
    for e in levels:
        count, asked = counted(questions, e), [q for q in questions if e in _of_pate(q)]
        above = sum(_of_pate(q)[e]["difference"] >= 0 for q in asked)
        results = [count["ahead"], count["undecided"], count["behind"], f"{above} of {len(asked)}"]
        rows.append([f"{e:g}", *map(str, results)])
    lines += table(head, rows)
    rule = next((q["rule"] for q in questions if q["rule"]), None)
    if rule:
        lines += [f"A verdict is spoken at level {rule['level']:g} for all epsilons of a question together.", ""]
    lines += _where(questions)
    asked = {q["name"] for q in questions}
    if missing := [q.name for q in QUESTIONS if q.name not in asked]:
        lines += [f"Not asked yet: {'; '.join(missing)}.", ""]
    lines += ["## Question by question", ""]
    lines += ["PATE minus DP-SGD in points of accuracy on the test rows, with the interval of the verdict.", ""]
    head = [
        "question",
        "what it is",
        "private records",
        "public rows",
        "classes",
        "repeats",
        *(f"{e:g}" for e in levels),
    ]
    rows = []
    for q in questions:
        found = _of_pate(q)
        cells = [f"{_WORDS[found[e]['verdict']]} {_interval(found[e])}" if e in found else "·" for e in levels]
        people = "" if q["n_units"] == q["n_private"] else f" of {q['n_units']:,} persons"
        facts = [f"{q['n_private']:,}{people}", f"{q['n_public']:,}", str(q["n_classes"]), str(q["repeats"])]
        rows.append([q["name"], q["about"], *facts, *cells])
    lines += table(head, rows)
    lines += ["## Accuracies", "", "Mean over the repeats in %: accuracy, and balanced accuracy in brackets.", ""]
    head = ["question", "contestant", *(f"{e:g}" for e in levels)]
    rows = []
    for q in questions:
        balanced = {(b["contestant"], b["epsilon"]): b["balanced"] for b in q["balanced"]}
        for name in dict.fromkeys(b["contestant"] for b in q["bands"]):
            cells = []
            for e in levels:
                key = e if _mean(q, name, e) is not None else None
                mean = _mean(q, name, key)  # type: ignore[arg-type]
                text = "·" if mean is None else f"{100 * mean:.1f}"
                more = balanced.get((name, key))
                cells.append(text if more is None or mean is None else f"{text} ({100 * more:.1f})")
            rows.append([q["name"], name, *cells])
    lines += table(head, rows)
    lines += ["Where the curves cross:", ""]
    lines += [f"- {q['name']}: {c['told']}" for q in questions for c in q["crossings"] if c["told"]]
    return "\n".join(lines).rstrip() + "\n"


def short(stored: Mapping[str, Any]) -> str:
    """Return the tables of the chapter: verdicts by epsilon, and the differences of every question."""
    questions, levels = stored["questions"], epsilons(stored)
    rows = []
    for e in levels:
        count, gaps = counted(questions, e), [of[e]["difference"] for q in questions if e in (of := _of_pate(q))]
        spread = [_signed(found(gaps)) for found in (min, median, max)]
        rows.append([f"{e:g}", *(str(count[word]) for word in ("ahead", "undecided", "behind")), *spread])
    head = ["epsilon", "PATE ahead", "undecided", "DP-SGD ahead", "smallest difference", "median", "largest"]
    lines = table(head, rows)
    rows = []
    for q in questions:
        found = _of_pate(q)
        cells = []
        for e in levels:
            verdict = found.get(e)
            word = "" if verdict is None or verdict["verdict"] == "undecided" else f"{_WORDS[verdict['verdict']]} "
            cells.append("·" if verdict is None else f"{word}{_signed(verdict['difference'])}")
        rows.append([q["name"], f"{q['n_private']:,}", *cells])
    lines += table(["question", "records", *(f"{e:g}" for e in levels)], rows)
    return "\n".join(lines).strip()


def write_chapter(stored: Mapping[str, Any], path: Path) -> None:
    """Put the short tables into the chapter."""
    before, mark, after = path.read_text(encoding="utf-8").partition(BEGIN)
    if not mark or END not in after:
        raise ValueError(f"{path} has no lines {BEGIN} and {END}")
    path.write_text(f"{before}{mark}\n\n{short(stored)}\n\n{END}{after.partition(END)[2]}", encoding="utf-8")


def draw(stored: Mapping[str, Any]) -> Any:
    """Return the picture: a row per question, a mark per epsilon."""
    questions, levels = stored["questions"], epsilons(stored)
    colours = [COLOURS[f"series-{i}"] for i in range(len(levels))]
    figure = Figure(figsize=(8, 0.5 + 0.42 * len(questions)), layout="constrained")
    ax = figure.subplots()
    for place, question in enumerate(reversed(questions)):
        for i, e in enumerate(levels):
            if (found := _of_pate(question).get(e)) is None:
                continue
            y = place + 0.3 - 0.6 * i / max(len(levels) - 1, 1)
            if found["low"] is not None:
                ax.plot([100 * found["low"], 100 * found["high"]], [y, y], color=colours[i], lw=1.2)
            ax.plot(
                100 * found["difference"], y, "o", ms=4, color=colours[i], label=f"ε = {e:g}" if not place else None
            )
    ax.axvline(0, color=COLOURS["soft"], lw=0.8)
    ax.set_yticks(range(len(questions)), [q["name"] for q in reversed(questions)])
    ax.set_xscale("symlog", linthresh=2)
    ax.set_xticks(_TICKS, [f"{tick:+d}" if tick else "0" for tick in _TICKS])
    ax.set_xticks([], minor=True)
    ax.set_xlabel("PATE minus DP-SGD, points of accuracy (right: PATE is more accurate)")
    ax.legend(loc="best", fontsize=8)
    return ax


def write_page(stored: Mapping[str, Any], path: Path) -> None:
    """Write the page and its picture."""
    path.write_text(page(stored), encoding="utf-8")
    (path.parent / _PICTURE).write_bytes(figure_to_png(draw(stored)))
