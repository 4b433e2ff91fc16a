"""The wall of bugs: what each layer of the audit needs to find each of some forty faults planted in our own code.

    python experiments/wall_of_bugs.py            # some minutes of one core: every fault by every layer, then the page
    python experiments/wall_of_bugs.py --only "a person in two shards"        # that one again, put into the JSON
    python experiments/wall_of_bugs.py --page     # the table of docs/audit-faults.md from the stored JSON
    python experiments/wall_of_bugs.py --smoke    # does it run?

The faults and the looks at them are those of tests/mutants, which must find them in every test run. Here each look is
made with several seeds, on the faulty code and on the honest one; the table has medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "experiments" / "results" / "wall_of_bugs.json"
PAGE = ROOT / "docs" / "audit-faults.md"
#: Between these lines of the page nothing is typed by hand.
BEGIN, END = "<!-- wall:begin -->", "<!-- wall:end -->"

sys.path.insert(0, str(ROOT / "tests" / "mutants"))
from planted import GROUPS  # noqa: E402
from wall import COLUMNS, Look, Mutant  # noqa: E402

from pate._core.provenance import provenance  # noqa: E402


@dataclass(frozen=True)
class Config:
    """Everything that is fixed before the wall is looked at."""

    seeds: tuple[int, ...] = (1, 2, 3)


def looked(look: Look, config: Config) -> dict[str, Any]:
    """Return whether the fault was found with every seed, medians of releases and seconds, and honest refutations."""
    found, seconds = [], []
    look(True, 0)  # imports and caches cost no one
    for seed in config.seeds:
        start = time.process_time()
        found.append(look(True, seed))
        seconds.append(time.process_time() - start)
    honest = [look(False, seed).refuted for seed in config.seeds]
    return {
        "found": sum(f.refuted for f in found),
        "of": len(found),
        "releases": int(statistics.median(f.releases for f in found)),
        "seconds": float(f"{statistics.median(seconds):.2g}"),
        "said": found[0].said,
        "honest_refuted": sum(honest),
    }


def row(mutant: Mutant, group: str, config: Config) -> dict[str, Any]:
    """Return one fault's row."""
    layers = {layer: looked(look, config) for layer, look in {**mutant.finds, **mutant.tried}.items()}
    return {
        "name": mutant.name,
        "group": group,
        "seen": mutant.seen,
        "must_find": list(mutant.finds),
        "layers": {layer: layers[layer] for layer in COLUMNS if layer in layers},
        "blind": dict(mutant.blind),
    }


def run(config: Config, before: dict[str, Any] | None = None, only: Sequence[str] = ()) -> dict[str, Any]:
    """Return the whole wall; with ``only`` their rows alone are made, and the others are taken from ``before``."""
    known = {r["name"]: r for r in before["rows"]} if before else {}
    rows = []
    for group, mutants in GROUPS.items():
        for mutant in mutants:
            if only and mutant.name not in only:
                rows.append({**known[mutant.name], "seen": mutant.seen})
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows.append(row(mutant, group, config))
            print(f"{mutant.name}: {_cells(rows[-1])}", flush=True)
    return {"config": asdict(config), "rows": rows, "provenance": provenance()}


def _count(n: int, layer: str) -> str:
    what = "run" if layer in ("replay", "game", "textbook") else "release"
    return f"no {what}" if n == 0 else f"{n:,} {what}{'s' * (n != 1)}"


def _cell(stored: dict[str, Any], layer: str) -> str:
    """Return what one layer needs for one fault, in a few words."""
    if layer in stored["blind"]:
        return "blind"
    if layer not in stored["layers"]:
        return ""
    got = stored["layers"][layer]
    took = f"{_count(got['releases'], layer)}, {got['seconds']:g} s"
    if got["found"] == got["of"]:
        return took
    return f"missed ({took})" if not got["found"] else f"{got['found']} of {got['of']} times ({took})"


def _cells(stored: dict[str, Any]) -> dict[str, str]:
    return {layer: cell for layer in COLUMNS if (cell := _cell(stored, layer))}


def _few(names: Sequence[str]) -> str:
    """Return the first names of faults, and how many more there are; the table has them all."""
    more = f"; and {len(names) - 3} more" if len(names) > 3 else ""
    return "; ".join(names[:3]) + more


def table(stored: dict[str, Any]) -> str:
    """Return the wall in Markdown, and why layers are blind."""
    seeds = len(stored["config"]["seeds"])
    lines = [
        f"{len(stored['rows'])} faults, each planted by itself; medians of {seeds} runs, one core. Empty: this layer "
        "was not tried. Missed: it was tried with so many runs and did not find it. Blind: it cannot see such a fault. "
        "Textbook: the game's runs, held against the claim's epsilon at delta 1e-5 alone. Check: of something that the "
        "layers hold fixed.",
        "",
        f"| fault | kind of code | {' | '.join(COLUMNS)} |",
        f"|---|---|{'---|' * len(COLUMNS)}",
    ]
    lines += [
        f"| {r['name']} | {r['seen']} | {' | '.join(_cell(r, layer) for layer in COLUMNS)} |" for r in stored["rows"]
    ]
    why: dict[tuple[str, str], list[str]] = {}
    for r in stored["rows"]:
        for layer, reason in r["blind"].items():
            why.setdefault((layer, reason), []).append(r["name"])
    if why:
        lines += ["", "Where a layer is blind:", ""]
        lines += [f"- *{layer}*: {reason} ({_few(names)})" for (layer, reason), names in why.items()]
    return "\n".join(lines)


def write_page(result: Path, page: Path) -> None:
    """Put the table of a stored result between the page's marks."""
    stored, text = json.loads(result.read_text(encoding="utf-8")), page.read_text(encoding="utf-8")
    before, mark, after = text.partition(BEGIN)
    if not mark or END not in after:
        raise ValueError(f"{page} lacks the lines {BEGIN} and {END}")
    page.write_text(f"{before}{mark}\n\n{table(stored)}\n\n{END}{after.partition(END)[2]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="one seed, nothing written")
    parser.add_argument("--page", action="store_true", help="write the table of docs/audit-faults.md again")
    parser.add_argument("--only", default=[], nargs="*", help="names of faults: their rows alone are made again")
    given = parser.parse_args()
    if given.smoke:
        print(table(run(Config(seeds=(1,)))))
        return
    if not given.page:
        before = json.loads(RESULT.read_text(encoding="utf-8")) if given.only else None
        RESULT.write_text(
            json.dumps(run(Config(), before, given.only), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    write_page(RESULT, PAGE)


if __name__ == "__main__":
    main()
