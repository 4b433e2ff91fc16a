"""What the scripts of this folder share: published figures, what we measured, whether it is within what was stated.

A script has a frozen ``Config`` (every setting of the paper, the figures it published and, stated beforehand, how far
ours may lie from them) and a function ``measure(config, seed)`` that returns a number for each figure's key. Every
finished seed is kept, so that a stopped run goes on; another ``Config`` begins again.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import inspect
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pate._core.files import atomic_path
from pate._core.provenance import provenance
from pate.exceptions import DatasetNotFoundError

ROOT = Path(__file__).parents[2]
STORED = ROOT / "experiments" / "results" / "reproduce"
WORK = ROOT / "runs" / "reproduce"


@dataclass(frozen=True)
class Figure:
    """A number to measure, and what was published of it.

    Attributes
    ----------
    key : str
        Under which ``measure`` returns it.
    what, source : str
        In words; paper or file, and where in it.
    published, tolerance : float or None
        What was published, and how far ours may be from it, stated before it was measured; None: nobody published it,
        and it stands beside the others.
    why : str
        Why ours differs, or what it is.
    """

    key: str
    what: str
    source: str
    published: float | None = None
    tolerance: float | None = None
    why: str = ""


class NotRun(Exception):
    """Something is missing that this figure needs; the text says what."""


def line(figure: Figure, values: Sequence[float], seeds: Sequence[int], not_run: str | None) -> dict[str, Any]:
    """Return one row of the table."""
    mean = statistics.fmean(values) if values else None
    within = None
    if mean is not None and figure.published is not None:
        # A billionth: the difference of two rounded decimals is no rounding error of ours.
        within = abs(mean - figure.published) <= figure.tolerance + 1e-9
    return {
        "what": figure.what,
        "source": figure.source,
        "published": figure.published,
        "ours": {"mean": mean, "sd": statistics.stdev(values) if len(values) > 1 else None, "seeds": list(seeds)},
        "tolerance": figure.tolerance,
        "within": within,
        "why": figure.why,
        "not_run": not_run if mean is None else None,
    }


def table(figures: Sequence[Figure], cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of all figures from what each seed gave: numbers by key, and reasons (str) why there is none."""
    rows = []
    for figure in figures:
        found = [(c["values"].get(figure.key), c["seed"]) for c in cells]
        numbers = [(v, s) for v, s in found if isinstance(v, int | float)]
        reasons = [v for v, _ in found if isinstance(v, str)]
        values, seeds = [float(v) for v, _ in numbers], [s for _, s in numbers]
        rows.append(line(figure, values, seeds, reasons[0] if reasons else "not measured"))
    return rows


def or_why_not(measure: Callable[[], float | Mapping[str, float]], *keys: str) -> dict[str, Any]:
    """Return what ``measure`` gives, or for every key why there is nothing."""
    try:
        found = measure()
    except (NotRun, DatasetNotFoundError) as error:
        # Of a missing file its name is said, not the folder in which this ran.
        said = str(error) if isinstance(error, NotRun) else "not run: no file"
        return dict.fromkeys(keys, said)
    return dict(found) if isinstance(found, Mapping) else dict.fromkeys(keys, found)


def _digest(config: Any, measure: Callable[..., Any]) -> str:
    """Return a digest of all settings and of the script's functions, comments apart: what decides a number.

    How many seeds there are, and what is said of the figures, is not in it.
    """
    settings = {k: v for k, v in asdict(config).items() if k not in ("figures", "seeds")}
    module = ast.parse(Path(inspect.getfile(measure)).read_text(encoding="utf-8"))
    code = [ast.unparse(node) for node in module.body if isinstance(node, ast.FunctionDef)]
    return hashlib.sha256(json.dumps([settings, code], sort_keys=True).encode()).hexdigest()[:16]


def reproduce(
    name: str, title: str, config: Any, measure: Callable[[Any, int], Mapping[str, Any]], *, work: Path = WORK
) -> dict[str, Any]:
    """Measure every seed that is not there yet, and return the whole result."""
    work.mkdir(parents=True, exist_ok=True)
    kept, digest = work / f"{name}.jsonl", _digest(config, measure)
    old = [json.loads(text) for text in kept.read_text().splitlines()] if kept.exists() else []
    cells = {c["seed"]: c for c in old if c["config"] == digest and c["seed"] in config.seeds}
    for seed in config.seeds:
        if seed not in cells:
            start, cpu = time.perf_counter(), time.process_time()
            values = dict(measure(config, seed))
            took = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
            cells[seed] = {"config": digest, "seed": seed, "values": values, **took, **provenance()}
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(cells[seed]) + "\n")
    done = [cells[seed] for seed in config.seeds]
    stored = asdict(config)
    stored.pop("figures")
    last = max(done, key=lambda c: c["created"])
    return {
        "name": name,
        "title": title,
        "config": stored,
        "lines": table(config.figures, done),
        "seconds": sum(c["seconds"] for c in done),
        "cpu_seconds": sum(c["cpu_seconds"] for c in done),
        **{k: last[k] for k in ("created", "commit", "versions")},
    }


def show(name: str, rows: Sequence[Mapping[str, Any]], *, verdicts: bool = True) -> None:
    print(name)
    for row in rows:
        mean = row["ours"]["mean"]
        text = f"  {row['what']}: {row['not_run'] if mean is None else f'{mean:.4g}'}"
        if verdicts and row["published"] is not None:
            text += (
                f"; published {row['published']:g}" + {True: ", within", False: ", NOT within", None: ""}[row["within"]]
            )
            text += f" +-{row['tolerance']:g}"
        print(text)


def main(
    name: str, title: str, config: Any, smoke: Any, measure: Callable[[Any, int], Mapping[str, Any]], doc: str
) -> None:
    """Parse ``--smoke`` and ``--out``, run, show, and write ``results/reproduce/NAME.json``."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="tiny, in seconds: does it run? Nothing is stored")
    parser.add_argument("--out", type=Path, default=STORED, help="folder of the JSON")
    given = parser.parse_args()
    if given.smoke:
        seed = smoke.seeds[0]
        cell = {"seed": seed, "values": dict(measure(smoke, seed))}
        show(f"{name}, a smoke run", table(smoke.figures, [cell]), verdicts=False)
        return
    result = reproduce(name, title, config, measure)
    show(name, result["lines"])
    given.out.mkdir(parents=True, exist_ok=True)
    with atomic_path(given.out / f"{name}.json") as part:
        part.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
