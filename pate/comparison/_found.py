"""Compute verdicts, bands and crossover points of a comparison from the test rows that each fit predicted rightly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, comb
from statistics import fmean
from typing import Any

from pate.comparison import _verdicts as verdicts
from pate.comparison import statistics
from pate.comparison._cells import Cell
from pate.comparison.statistics import PairedDifference
from pate.report import plain_bands
from pate.report.result import Band, Crossing, Rule, SideVerdict, Stretch, Verdict, gathered
from pate.report.scores import ACCURACY, Score

#: The two sides that are compared; a positive difference is in favour of the first.
OURS, THEIRS = "PATE", "DP-SGD"
LEVEL = 0.95
#: A contestant that is further than this below the best has no paired band.
_NEAR = 0.15


@dataclass(frozen=True, kw_only=True)
class Found:
    """Bands, verdicts and crossover points of a comparison, for :class:`pate.report.result.ComparisonResult`."""

    bands: tuple[Band, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    side_verdicts: tuple[SideVerdict, ...] = ()
    side_pairs: tuple[Verdict, ...] = ()
    crossings: tuple[Crossing, ...] = ()
    rule: Rule | None = None


def find(
    cells: Sequence[Cell], sides: Mapping[str, str], *, redraws: str, n_pool: int | None, score: Score = ACCURACY
) -> Found:
    """Return bands, verdicts and crossover points of the fits of a comparison.

    A contestant takes part at an epsilon where every one of its repeats was measured; where it is unknown which
    test rows were right, or how they were drawn, only means are returned.
    """
    cells = sorted(cells, key=lambda cell: cell.repeat)
    fits = gathered(cells, lambda cell: (cell.contestant, cell.epsilon))
    n_repeats = len({cell.repeat for cell in cells})
    rights = {key: [cell.rights() for cell in members] for key, members in fits.items()}
    whole = {key: of for key, of in rights.items() if len(of) == n_repeats and all(r is not None for r in of)}
    rows, bands = _rows(cells, redraws, n_pool), plain_bands(cells)
    if rows is None or not whole:
        return Found(bands=tuple(bands))
    how: dict[str, Any] = {**rows, "groups": _owners(cells, redraws), "level": LEVEL, "score": score}
    by_name: dict[str, dict[float, Any]] = {}
    for (name, epsilon), of in whole.items():
        if epsilon is not None:
            by_name.setdefault(name, {})[epsilon] = of
    epsilons = sorted({epsilon for of in by_name.values() for epsilon in of})
    ours, theirs = ([name for name in by_name if sides.get(name) == side] for side in (OURS, THEIRS))
    n_between, n_all = _numbers(by_name, ours, theirs)
    # All verdicts hold together (Bonferroni): 4/5 of the error probability is for the sides, 1/5 for all other pairs.
    shared = 0 < n_between < n_all
    counts = (ceil(5 * n_between / 4), max(5 * (n_all - n_between), n_all)) if shared else (n_all, n_all)
    between: tuple[verdicts.SideVerdict, ...] = ()
    if n_between:
        between = verdicts.side_verdicts(by_name, epsilons, ours=ours, theirs=theirs, **how, n_comparisons=counts[0])
    among = verdicts.verdicts(by_name, epsilons, **how, n_comparisons=counts[1]) if n_all else ()
    # Each pair has one interval: pairs between the sides use the one computed there, among fewer comparisons.
    apart = {v.epsilon: v.pairs for v in between}
    pairs = {v.epsilon: {pair: _of(apart.get(v.epsilon, {}), *pair) or d for pair, d in v.pairs.items()} for v in among}
    paired = {(name, v.epsilon): band for v in among for name, band in _beside(v, pairs[v.epsilon]).items()}
    for place, band in enumerate(bands):
        key: Any = band.contestant, band.epsilon
        if key in whole:
            alone = statistics.band(whole[key], **how)
            bands[place] = band = replace(band, low=alone.low, high=alone.high)
        if key in paired:
            bands[place] = replace(band, paired_low=paired[key].low, paired_high=paired[key].high)
    return Found(
        bands=tuple(bands),
        verdicts=tuple(
            _verdict(v.epsilon, *pair, d) for v in among for pair, d in pairs[v.epsilon].items() if pair[0] == v.leader
        ),
        side_verdicts=tuple(map(_side_verdict, between)),
        side_pairs=tuple(_verdict(v.epsilon, *pair, d) for v in between for pair, d in v.pairs.items()),
        crossings=_crossover_points(between),
        rule=Rule(
            level=LEVEL,
            n_between=n_between,
            n_others=n_all - n_between,
            n_repeats=n_repeats,
            least_repeats=statistics.LEAST_REPEATS,
            **rows,
        )
        if n_all
        else None,
    )


def _numbers(by_name: Mapping[str, Mapping[float, Any]], ours: Sequence[str], theirs: Sequence[str]) -> tuple[int, int]:
    """Return how many differences there are between the sides, and in all."""
    epsilons = {epsilon for of in by_name.values() for epsilon in of}
    at = [{name for name, of in by_name.items() if epsilon in of} for epsilon in epsilons]
    between = sum(len(names & set(ours)) * len(names & set(theirs)) for names in at)
    return between, sum(comb(len(names), 2) for names in at)


def _beside(
    found: verdicts.EpsilonVerdict, pairs: Mapping[tuple[str, str], PairedDifference]
) -> dict[str, statistics.Band]:
    """Return paired bands of the two best and of all near them: one far below would widen all of them."""
    ranked = sorted(found.means.items(), key=lambda item: -item[1])
    near = {name: mean for place, (name, mean) in enumerate(ranked) if place < 2 or mean >= ranked[0][1] - _NEAR}
    return statistics.paired_bands(near, pairs)


def _of(pairs: Mapping[tuple[str, str], PairedDifference], a: str, b: str) -> PairedDifference | None:
    """Return the difference of two contestants, in whichever order the pair is stored."""
    return pairs[a, b] if (a, b) in pairs else pairs[b, a].reversed() if (b, a) in pairs else None


def _rows(cells: Sequence[Cell], redraws: str, n_pool: int | None) -> dict[str, Any] | None:
    """Return how the repeats share test rows, as the statistics ask it; None where that is not known."""
    if redraws != "all rows":
        return {"same_rows": True, "test_share": None}
    sizes = [cell.n_test for cell in cells if cell.n_test is not None]
    return {"same_rows": False, "test_share": max(sizes) / n_pool} if sizes and n_pool else None


def _owners(cells: Sequence[Cell], redraws: str) -> Any:
    """Return the owners of test rows: one array, or one per repeat where rows are redrawn; None without owners."""
    of = {cell.repeat: cell.owners() for cell in cells if cell.by_row is not None}
    if any(owners is None for owners in of.values()) or not of:
        return None
    arrays = [of[repeat] for repeat in sorted(of)]
    return arrays if redraws == "all rows" else arrays[0]


def _fields(found: PairedDifference) -> dict[str, Any]:
    names = ("low", "high", "verdict", "repeats_needed")
    return {"difference": found.mean, **{name: getattr(found, name) for name in names}}


def _verdict(epsilon: float, first: str, second: str, difference: PairedDifference) -> Verdict:
    return Verdict(epsilon=epsilon, first=first, second=second, **_fields(difference))


def _side_verdict(found: verdicts.SideVerdict) -> SideVerdict:
    by, against = found.deciding
    values = _fields(found.difference) | {"best": found.ours, "best_other": found.theirs, "verdict": found.verdict}
    return SideVerdict(epsilon=found.epsilon, side=OURS, other=THEIRS, by=by, against=against, **values)


def _crossover_points(between: Sequence[verdicts.SideVerdict]) -> tuple[Crossing, ...]:
    """Return where the curves of the best of both sides cross: those with the best mean over all epsilons.

    All pairs were compared, so that the intervals hold for the pair that is chosen.
    """
    common = set.intersection(*(set(v.pairs) for v in between)) if between else set()
    if len(between) < 2 or not common:
        return ()
    total = {pair: fmean(v.pairs[pair].mean for v in between) for pair in common}
    ours = max({a for a, _ in common}, key=lambda a: (fmean(total[pair] for pair in common if pair[0] == a), a))
    theirs = min({b for _, b in common}, key=lambda b: (fmean(total[pair] for pair in common if pair[1] == b), b))
    if (ours, theirs) not in common:
        return ()
    found = verdicts.crossover_points([v.epsilon for v in between], [v.pairs[ours, theirs] for v in between])
    stretches = tuple(Stretch(low=one.low, high=one.high, at=one.at, sure=one.sure) for one in found.where)
    return (Crossing(first=ours, second=theirs, stretches=stretches, told=found.says(ours, theirs)),)
