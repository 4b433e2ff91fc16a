"""False verdicts: how often the rule of `pate compare` calls somebody ahead who is not, and how often it finds a gap.

    python experiments/false_verdicts.py            # ten minutes of one core: all worlds, then the page's tables
    python experiments/false_verdicts.py --page     # the tables of docs/comparison-statistics.md from the stored JSON
    python experiments/false_verdicts.py --smoke    # does it run?

Whole comparisons are made up in worlds where all contestants are equal (experiments/_worlds.py). A comparison counts as
false when any pair at any epsilon is called ahead or behind. Beside the rule: the one it replaced (the gap of the means
is more than both standard deviations together), and a paired t over repeats alone, corrected for as many
comparisons. The
JSON is written after every row: a killed run goes on where it was, with the same code and Config.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
from _tables import filled
from _worlds import Nearest, Pool, Published, Rights, Stumps, TrainingPart, ahead_by, tilted
from scipy import stats

from pate.comparison._verdicts import crossover_points, verdicts

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "experiments" / "results" / "false_verdicts.json"
PAGE = ROOT / "docs" / "comparison-statistics.md"
#: Between these lines of the page nothing is typed by hand.
BEGIN, END = "<!-- {} of experiments/false_verdicts.py -->", "<!-- end -->"

#: Name -> (world, what it is).
WORLDS: dict[str, tuple[Any, str]] = {
    "published": (Published(), "1,000 published test rows, calm repeats"),
    "restless": (Published(repeat=0.1), "1,000 published rows, repeats that differ by points"),
    "tastes": (Published(taste=0.8, repeat=0.02, chance=0.2), "1,000 published rows, contestants that miss others"),
    "few rows": (Published(n_rows=200, taste=0.6), "200 published test rows"),
    "wrong fits": (Published(wrong=0.1), "1,000 published rows, one fit in ten goes wrong"),
    "persons": (Published(taste=0.6, per_person=5), "1,000 published rows, five to a person"),
    "training part": (TrainingPart(), "real learners on parts of one training part of 600, 1,000 published test rows"),
    "pool": (Pool(n_rows=1800, n_classes=10, n_columns=8, noise=0.5), "real learners, one pool of 1,800"),
    "small pool": (Pool(n_rows=300, n_columns=60, apart=0.25, noise=0.0),
                   "real learners, one pool of 300, 60 columns, no noise"),
    "tiny pool": (Pool(n_rows=100, n_columns=20, apart=0.4, noise=0.0),
                  "real learners, one pool of 100, 20 columns, no noise"),
    "nearest": (Nearest(n_rows=200), "one nearest neighbour, one pool of 200"),
    "stumps": (Stumps(n_rows=100, test_share=0.1), "stumps, one pool of 100, a tenth of it for the test"),
}  # fmt: skip
#: Learners that depend on single rows, also over so many repeats; they know no epsilon.
UNSTABLE, MANY_REPEATS = ("nearest", "stumps"), 30
#: No rule over a few repeats can keep its level here (Bahadur and Savage 1956).
LOPSIDED: dict[str, tuple[Any, str]] = {
    "lopsided": (Published(wrong=0.1, lopsided=True), "one contestant fails in one fit of ten, the other loses as "
                 "much on average, a little every time"),
}  # fmt: skip
#: Where six contestants meet too: 15 pairs.
CROWDED = ("tastes", "wrong fits", "training part", "small pool")
#: For gaps that are there; 1,000 test rows each.
POWER: dict[str, tuple[Any, str]] = {
    "easy": (Published(ease=1.645, repeat=0.02), "published test rows, 95% right"),
    "alike": (Published(taste=0.15, repeat=0.01, chance=0.15), "85% right, contestants much alike"),
    "unlike": (Published(), "85% right, contestants less alike"),
    "restless": (Published(repeat=0.1), "85% right, repeats that differ by points"),
    "pool": (Pool(n_rows=5000, n_classes=10, n_columns=8, noise=0.2, apart=1.2), "real learners on cuts of one pool of "
             "5,000"),
}  # fmt: skip


#: Nobody is surely five points better than one who misses 5%.
EASY = "easy"


@dataclass(frozen=True)
class Config:
    """What is made up, how often."""

    repeats: tuple[int, ...] = (3, 5, 10)
    contestants: tuple[int, ...] = (2, 6)
    epsilons: tuple[int, ...] = (1, 5)
    level: float = 0.95
    gaps: tuple[float, ...] = (0.02, 0.05)
    slopes: tuple[float, ...] = (0.01, 0.025)
    studies: int = 1000
    studies_of_many: int = 150  # six contestants: 15 pairs
    seed: int = 20_240


SMOKE = Config(repeats=(3,), contestants=(2,), epsilons=(1,), gaps=(0.02,), studies=20)


def judged(right: Rights, world: Any, level: float) -> Any:
    """Return the verdicts of one comparison by pate's rule."""
    epsilons = [float(i + 1) for i in range(right.shape[1])]
    rights = {f"c{a}": {e: list(right[a, i]) for i, e in enumerate(epsilons)} for a in range(len(right))}
    share, groups = world.test_share, world.groups
    return verdicts(rights, epsilons, same_rows=world.same_rows, test_share=share, groups=groups, level=level)


def count(world: Any, k: int, e: int, j: int, studies: int, config: Config) -> dict[str, int]:
    """Return how many of so many comparisons called an equal contestant ahead, by three rules."""
    rng = np.random.default_rng([config.seed, k, e, j])
    found = {"rule": 0, "old": 0, "repeats_alone": 0}
    critical = stats.t.isf((1 - config.level) / (2 * e * k * (k - 1) / 2), j - 1)
    for _ in range(studies):
        right = world.draw(rng, k, e, j)
        judgements = judged(right, world, config.level)
        found["rule"] += any(pair.verdict != "undecided" for at in judgements for pair in at.pairs.values())
        means = right.mean(axis=3)
        gaps = [means[a] - means[b] for a, b in combinations(range(k), 2)]
        spreads = [means[a].std(axis=1, ddof=1) + means[b].std(axis=1, ddof=1) for a, b in combinations(range(k), 2)]
        found["old"] += any((abs(g.mean(axis=1)) > s).any() for g, s in zip(gaps, spreads, strict=True))
        found["repeats_alone"] += any(
            (abs(g.mean(axis=1)) > critical * g.std(axis=1, ddof=1) / np.sqrt(j)).any() for g in gaps
        )
    return found


def power(world: Any, e: int, j: int, gap: float, config: Config) -> dict[str, Any]:
    """Return how often the gap of two contestants is found at one of ``e`` epsilons, and how often it is reversed."""
    rng = np.random.default_rng([config.seed, e, j, round(1e4 * gap)])
    found = {"found": 0, "reversed": 0}
    studies = max(config.studies // 4, 20)
    for _ in range(studies):
        judgements = judged(ahead_by(world.draw(rng, 2, e, j), gap, e // 2, rng), world, config.level)[e // 2]
        pair = judgements.pairs.get(("c0", "c1")) or judgements.pairs["c1", "c0"].reversed()
        found["found"] += pair.verdict == "ahead"
        found["reversed"] += pair.verdict == "behind"
    return {"studies": studies, **found}


def crossings(world: Any, j: int, slope: float, config: Config) -> dict[str, int]:
    """Return how often the stretches have the epsilon at which curves cross (sqrt 3), and how often it is seen."""
    rng = np.random.default_rng([config.seed, j, round(1e4 * slope)])
    epsilons, studies = (0.1, 0.3, 1.0, 3.0, 10.0), max(config.studies // 4, 20)
    found = {"studies": studies, "covered": 0, "sure": 0}
    for _ in range(studies):
        judgements = judged(tilted(world.draw(rng, 2, 5, j), slope, rng), world, config.level)
        pairs = [at.pairs.get(("c0", "c1")) or at.pairs["c1", "c0"].reversed() for at in judgements]
        seen = crossover_points(epsilons, pairs)
        found["covered"] += any((one.low or 0) <= 3**0.5 <= (one.high or np.inf) for one in seen.where)
        found["sure"] += bool(seen.sure)
    return found


def cells(config: Config) -> Iterator[tuple[str, dict[str, Any], Callable[[], dict[str, Any]]]]:
    """Yield every row's table, its key, and what measures it; the cheap ones first."""
    for k in config.contestants:
        studies = config.studies if k == 2 else config.studies_of_many
        worlds = {**WORLDS, **LOPSIDED} if k == 2 else {name: WORLDS[name] for name in CROWDED}
        for name, (world, _) in worlds.items():
            unstable = name in UNSTABLE
            tried = (*config.repeats, MANY_REPEATS) if unstable else config.repeats
            for e, j in product(config.epsilons[:1] if unstable else config.epsilons, tried):
                key = {"world": name, "contestants": k, "epsilons": e, "repeats": j, "studies": studies}
                yield "rates", key, partial(count, world, k, e, j, studies, config)
        if k == config.contestants[0]:
            for name, (world, _) in POWER.items():
                for gap, e, j in product(config.gaps, config.epsilons, config.repeats):
                    if gap < 0.04 or name != EASY:
                        key = {"world": name, "gap": gap, "epsilons": e, "repeats": j}
                        yield "power", key, partial(power, world, e, j, gap, config)
                for slope, j in product(config.slopes, config.repeats):
                    if name != EASY:
                        key = {"world": name, "slope": slope, "repeats": j}
                        yield "crossings", key, partial(crossings, world, j, slope, config)


def run(config: Config, result: Path | None) -> dict[str, Any]:
    """Measure what is missing, and return all rows."""
    return filled(config, ("rates", "power", "crossings"), cells(config), result)


def _percent(rows: list[dict[str, Any]], what: str) -> str:
    return "/".join(f"{100 * row[what] / row['studies']:.1f}" for row in rows)


def _most(rows: list[dict[str, Any]], what: str) -> str:
    """Return the highest share by number of repeats, over numbers of contestants and epsilons."""
    found: dict[int, list[float]] = {}
    for row in rows:
        found.setdefault(row["repeats"], []).append(100 * row[what] / row["studies"])
    return "/".join(f"{max(found[j]):.1f}" for j in sorted(found))


def tables(judgements: dict[str, Any]) -> dict[str, str]:
    """Return the page's tables in Markdown, by name."""
    repeats = "/".join(str(j) for j in judgements["config"]["repeats"])
    head = "| world | the rule | repeats alone | the old rule |\n|---|---|---|---|\n"

    def falses(names: dict[str, tuple[Any, str]]) -> str:
        lines = []
        for name, (_, says) in names.items():
            rows = [r for r in judgements["rates"] if r["world"] == name]
            lines.append(f"| {says} | {' | '.join(_most(rows, rule) for rule in ('rule', 'repeats_alone', 'old'))} |")
        return head + "\n".join(lines)

    honest = [r for r in judgements["rates"] if r["world"] in WORLDS]
    worst, level = max(honest, key=lambda r: r["rule"] / r["studies"]), 100 * judgements["config"]["level"]
    studies = " or ".join(f"{n:,}" for n in sorted({r["studies"] for r in judgements["rates"]}, reverse=True))
    many, levels = (sorted({r[key] for r in judgements["rates"]}) for key in ("contestants", "epsilons"))
    summary = (
        f"False verdicts in % of the made-up comparisons, at {repeats} repeats; a fourth number is at {MANY_REPEATS}. "
        f"Each number is the highest of those for {' or '.join(map(str, many))} contestants and "
        f"{' or '.join(map(str, levels))} epsilons ({studies} comparisons each; all of them are in "
        "[the result file](../experiments/results/false_verdicts.json)). "
        f"At most {100 - level:g} are promised. The most by the rule: {100 * worst['rule'] / worst['studies']:.1f} "
        f"({WORLDS[worst['world']][1]}; {worst['contestants']} contestants, {worst['epsilons']} "
        f"epsilon{'s' * (worst['epsilons'] > 1)}, {worst['repeats']} repeats)."
    )
    levels = sorted({r["epsilons"] for r in judgements["power"]})
    heads = [f"found, {e} epsilon{'s' * (e > 1)}" for e in levels]
    lines = [f"| world | gap | {' | '.join(heads)} | most called behind |", "|---" * (3 + len(levels)) + "|"]
    for name, (_, says) in POWER.items():
        for gap in dict.fromkeys(r["gap"] for r in judgements["power"] if r["world"] == name):
            rows = [r for r in judgements["power"] if (r["world"], r["gap"]) == (name, gap)]
            cells = [_percent([r for r in rows if r["epsilons"] == e], "found") for e in levels]
            lines.append(f"| {says} | {100 * gap:g} | {' | '.join(cells)} | {_most(rows, 'reversed')} |")
    crossed = ["| world | slope | in the stretches | surely seen |", "|---|---|---|---|"]
    for name, (_, says) in POWER.items():
        for slope in dict.fromkeys(r["slope"] for r in judgements["crossings"] if r["world"] == name):
            rows = [r for r in judgements["crossings"] if (r["world"], r["slope"]) == (name, slope)]
            crossed.append(f"| {says} | {100 * slope:g} | {_percent(rows, 'covered')} | {_percent(rows, 'sure')} |")
    return {
        "false verdicts": f"{summary}\n\n{falses(WORLDS)}",
        "lopsided worlds": falses(LOPSIDED),
        "gaps found": f"At {repeats} repeats:\n\n" + "\n".join(lines),
        "crossings": f"At {repeats} repeats:\n\n" + "\n".join(crossed),
    }


def write_page(result: Path, page: Path) -> None:
    """Put the tables of a stored result into the page."""
    judgements, text = json.loads(result.read_text(encoding="utf-8")), page.read_text(encoding="utf-8")
    for name, table in tables(judgements).items():
        before, mark, after = text.partition(BEGIN.format(name))
        text = f"{before}{mark}\n\n{table}\n\n{END}{after.partition(END)[2]}"
    page.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="a few comparisons in every world: does it run?")
    parser.add_argument("--page", action="store_true", help="write the tables of docs/comparison-statistics.md again")
    given = parser.parse_args()
    if given.smoke:
        print(tables(run(SMOKE, None))["false verdicts"])
        return
    if not given.page:
        run(Config(), RESULT)
    write_page(RESULT, PAGE)


if __name__ == "__main__":
    main()
