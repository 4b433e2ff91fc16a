"""The answer of a comparison: who is ahead at which epsilon, how sure that is, where the curves cross."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pate.report._parts import Sheet, percent, promised
from pate.report.result import ComparisonResult, SideVerdict, Verdict, gathered
from pate.report.scores import ACCURACY, Score

_TONES = {"PATE": "cool", "DP-SGD": "warm"}
#: By score, how the error of the test rows is found.
_ROWS = {"accuracy": "as in McNemar's test", "R2": "by the delta method for a ratio"}


def interval(found: Verdict | SideVerdict, score: Score = ACCURACY, *, turned: bool = False) -> str:
    """Return a difference with its interval, of accuracies in points; turned: of the second against the first."""
    sign = -1 if turned else 1
    ends = sorted(sign * end for end in (found.low, found.high) if end is not None)
    between = " to ".join(score.gap(end, unit=False) for end in ends)
    return score.gap(sign * found.difference) + (f" ({between})" if len(ends) == 2 else "")


def answer(result: ComparisonResult) -> list[str]:
    """Return who is ahead, in sentences, the main one first."""
    if result.side_verdicts:
        texts = _of_sides(result.side_verdicts)
    elif result.verdicts:
        texts = _of_leaders(result.verdicts)
    else:
        texts = ["No verdict: there are no two contestants whose answers on the same test rows can be paired."]
    rule = result.rule
    if rule is not None and rule.n_repeats < rule.least_repeats:
        few = "One repeat was" if rule.n_repeats == 1 else f"{rule.n_repeats} repeats were"
        texts = [f"Undecided. {few} made, and a verdict needs at least {rule.least_repeats}."]
    crossed = [
        f"The curves of {found.first} and {found.second}, the best of either side over all ε: "
        f"{_lowered(found.told)}".replace("epsilon", "ε")
        for found in result.crossings
    ]
    return [*texts, *_left_out(result), *crossed, *_below_floors(result)]


def _lowered(texts: str) -> str:
    return texts[:1].lower() + texts[1:] if texts.startswith("Undecided") else texts


def _left_out(result: ComparisonResult) -> list[str]:
    """Return who takes no part in verdicts, for a fit of theirs was refused."""
    if result.rule is None:
        return []
    refused = Counter((row.contestant, row.epsilon) for row in result.rows if row.refused is not None)
    n = result.rule.n_repeats
    texts = [f"{name} at ε = {promised(epsilon)} (refused in {times} of {n} repeats)"
            for (name, epsilon), times in refused.items() if epsilon is not None]  # fmt: skip
    return [f"Left out of the verdicts: {listed(texts)}."] if texts else []


def _below_floors(result: ComparisonResult) -> list[str]:
    """Return where no contestant of either side (of all, where there are no sides) has a mean as high as a floor."""
    sides = {entrant.name: entrant.side for entrant in result.entrants}
    known = [band for band in result.bands if band.epsilon is not None]
    best: dict[float, float] = {}
    for band in [band for band in known if sides.get(band.contestant) in _TONES] or known:
        if band.epsilon is not None:
            best[band.epsilon] = max(band.mean, best.get(band.epsilon, band.mean))
    floors = {row.contestant for row in result.rows if row.role == "floor"}
    texts = []
    for band in result.bands:
        below = [promised(e) for e, mean in sorted(best.items()) if mean < band.mean]
        if band.epsilon is None and band.contestant in floors and below:
            whom = "both sides" if result.side_verdicts else "all"
            texts.append(
                f"At ε = {listed(below)} the means of {whom} lie below {band.contestant} "
                f"({result.scale.text(band.mean)}), which sees no private row."
            )
    return texts


def _of_sides(verdicts: Sequence[SideVerdict]) -> list[str]:
    side, other = verdicts[0].side, verdicts[0].other
    found = gathered(sorted(verdicts, key=lambda v: v.epsilon), lambda v: v.verdict)
    places = {word: [promised(v.epsilon) for v in members] for word, members in found.items()}
    if list(places) == ["undecided"]:
        return [f"Undecided between {side} and {other} at every ε looked at ({listed(places['undecided'])})."]
    names = {"ahead": f"{side} is ahead of {other}", "behind": f"{other} is ahead of {side}", "undecided": "undecided"}
    return ["; ".join(f"{name} at ε = {listed(places[word])}" for word, name in names.items() if word in places) + "."]


def _of_leaders(verdicts: Sequence[Verdict]) -> list[str]:
    texts = []
    for epsilon, here in sorted(gathered(verdicts, lambda v: v.epsilon).items()):
        behind = [v.second for v in here if v.verdict == "ahead"]
        open_ = [v.second for v in here if v.verdict == "undecided"]
        leader = here[0].first
        if not open_:
            text = f"{leader} is ahead of {'all others' if len(behind) > 1 else behind[0]}"
        elif behind:
            text = f"{leader} is ahead of {listed(behind)}, and not distinguished from {listed(open_)}"
        else:
            text = f"undecided: {leader} has the best mean, and is not distinguished from {listed(open_)}"
        texts.append(f"At ε = {promised(epsilon)}: {text}.")
    return texts


def looks(result: ComparisonResult) -> list[dict[str, Any]]:
    """Return what is said of every epsilon, as words for a card."""
    means = {(band.contestant, band.epsilon): band.mean for band in result.bands}

    def mean(name: str, epsilon: float) -> str:
        return f"{name} {result.scale.text(means[name, epsilon])}" if (name, epsilon) in means else name

    cards = []
    for v in sorted(result.side_verdicts, key=lambda v: v.epsilon):
        turned = v.verdict == "behind"
        winner = v.other if turned else v.side
        first, second = (v.against, v.by) if turned else (v.by, v.against)
        cards.append({
            "epsilon": promised(v.epsilon),
            "tone": "undecided" if v.verdict == "undecided" else _TONES.get(winner, ""),
            "word": "undecided" if v.verdict == "undecided" else f"{winner} ahead",
            "by": interval(v, result.scale, turned=turned).replace(" (", "\n("),
            "whom": f"{mean(first, v.epsilon)}\n{mean(second, v.epsilon)}",
        })  # fmt: skip
    return cards


def verdict_sheet(verdicts: Sequence[Verdict], side_pairs: Sequence[Verdict] = (), score: Score = ACCURACY) -> Sheet:
    """Return every verdict with its interval: the best mean against each other one, and all pairs between sides."""
    words = {"ahead": "ahead of", "behind": "behind", "undecided": "not distinguished from"}
    seen = {(v.epsilon, frozenset((v.first, v.second))) for v in verdicts}
    more = [v for v in side_pairs if (v.epsilon, frozenset((v.first, v.second))) not in seen]
    rows = [
        (promised(v.epsilon), v.first, words[v.verdict], v.second, interval(v, score) + _needs(v))
        for v in sorted([*verdicts, *map(_better_first, more)], key=lambda v: (v.epsilon, -v.difference))
    ]
    return Sheet(heads=["ε", "Better mean", "", "Rival", "Difference and interval"], rows=rows, kind="stack")


def _better_first(v: Verdict) -> Verdict:
    if v.difference >= 0:
        return v
    low, high = (None if end is None else -end for end in (v.high, v.low))
    word = {"ahead": "behind", "behind": "ahead"}.get(v.verdict, v.verdict)
    return replace(v, first=v.second, second=v.first, difference=-v.difference, low=low, high=high, verdict=word)


def _needs(found: Verdict) -> str:
    if found.verdict != "undecided" or found.low is None:
        return ""
    n = found.repeats_needed
    return "; more repeats alone would not decide it" if n is None else f"; would need about {n} repeats"


def rule_text(result: ComparisonResult) -> str:
    """Return by which rule the verdicts were found; empty where none was."""
    rule = result.rule
    if rule is None:
        return ""
    if rule.n_repeats < rule.least_repeats:
        return f"Below {rule.least_repeats} repeats no difference has an interval: two repeats can agree by chance."
    rows = (
        "All repeats have the same test rows."
        if rule.same_rows
        else f"Repeats overlap, as each draws {percent(rule.test_share or 0.0)} of the same rows for its test; the "
        "interval is widened for that (Nadeau and Bengio 2003)."
    )
    n = rule.n_between + rule.n_others
    apart = (
        f": four fifths of what may be wrong are for the {rule.n_between} between the sides"
        if rule.n_between and rule.n_others
        else ""
    )
    together = (
        f"The intervals of all {n} differences looked at hold together at {rule.level:.0%} (Bonferroni{apart})."
        if n > 1
        else f"The interval of the difference holds at {rule.level:.0%}."
    )
    return " ".join(
        [
            "A contestant is ahead where the whole interval of the paired difference is on its side; else undecided.",
            f"The interval has in it how much {rule.n_repeats} repeats differ (split, partition, noise, training: a",
            f"paired t) and the error of the test rows themselves (row by row, {_ROWS[result.score]}).",
            rows,
            together,
            "One-sided failures break that: where one contestant fails now and then and another loses as much by a",
            "little every time, repeats without a failure call the first one ahead too often (Bahadur and Savage 1956;",
            "docs/comparison-statistics.md, False verdicts, measured).",
        ]
    )


def listed(names: Sequence[str]) -> str:
    """Return names as one says them."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
