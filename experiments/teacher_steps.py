"""How many steps do torch teachers take until more of them add nothing? What the rule of their default rests on.

    PATE_DATA_HOME=... python experiments/teacher_steps.py      # a few minutes of one core, then the page
    python experiments/teacher_steps.py --page                  # the table of docs/defaults.md from the stored JSON
    python experiments/teacher_steps.py --smoke                 # does it run?

Training parts alone: shards are cut from private rows, and scored on private rows that no shard holds. Everything but
the number of steps is at its default (Adam, 0.001, batches of 32). A finished cell is kept: a killed run goes on.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _tables import Cell, filled

from pate import TorchTeacherEnsemble, load_dataset
from pate.data import TableEncoder
from pate.networks import make_module

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "experiments" / "results" / "teacher_steps.json"
PAGE = ROOT / "docs" / "defaults.md"
#: Between these lines of the page nothing is typed by hand.
BEGIN, END = "<!-- table of experiments/teacher_steps.py -->", "<!-- end -->"


@dataclass(frozen=True)
class Config:
    """Fixed before any row is looked at."""

    #: Data set, module, records of a shard, teachers.
    questions: tuple[tuple[str, str, int, int], ...] = (
        ("digits", "small-cnn", 15, 6),
        ("digits", "small-cnn", 60, 6),
        ("digits", "mlp", 60, 6),
        ("digits", "linear", 60, 6),
        ("pendigits", "mlp", 60, 6),
        ("pendigits", "mlp", 400, 6),
        ("spambase", "mlp", 60, 6),
        ("adult", "mlp", 60, 6),
        ("adult", "mlp", 4000, 2),
        ("mnist", "mlp", 240, 4),
        ("mnist", "mlp", 4000, 2),
        ("mnist", "small-cnn", 60, 4),
        ("mnist", "small-cnn", 240, 4),
        ("fashion_mnist", "mlp", 1000, 3),
        ("fashion_mnist", "small-cnn", 60, 4),
        ("fashion_mnist", "small-cnn", 1000, 2),
    )
    passes: int = 20  # what the default was before it counted steps
    n_steps: tuple[int, ...] = (80, 160, 320, 500, 1000)
    n_scored: int = 2000
    seed: int = 0


SMOKE = Config(questions=(("digits", "mlp", 60, 2),), n_steps=(5, 10), n_scored=100)


def rows_of(name: str, config: Config) -> tuple[Any, Any, Any, Any, tuple[Any, ...]]:
    """Return rows and classes for shards, then those to score on, then all classes."""
    data = load_dataset(name)
    X = TableEncoder().fit(data.public.X).transform(data.private.X) if data.kind == "table" else data.private.X
    order = np.random.default_rng(config.seed).permutation(len(X))
    held, rest = np.split(order, [min(config.n_scored, len(X) // 4)])
    return X[rest], data.private.y[rest], X[held], data.private.y[held], tuple(range(len(data.classes)))


def cells(config: Config) -> Iterator[Cell]:
    """Yield what is measured: each question by passes, by the rule, and by each number of steps."""
    for name, module, records, n_teachers in config.questions:
        for passes, n_steps in ((config.passes, None), (None, None), *((None, n) for n in config.n_steps)):
            key = {"data": name, "module": module, "records": records, "passes": passes, "n_steps": n_steps}
            yield "cells", key, partial(measure, config, n_teachers=n_teachers, **key)


def measure(
    config: Config, data: str, module: str, records: int, n_teachers: int, passes: int | None, n_steps: int | None
) -> dict[str, Any]:
    """Return shares of rows that are right, of a teacher (mean) and of the vote without noise, and CPU seconds."""
    X, y, held, truth, classes = rows_of(data, config)
    teachers = TorchTeacherEnsemble(
        make_module(module), n_teachers, classes=classes, epochs=passes, n_steps=n_steps, device="cpu", n_jobs=1,
        partition_seed=config.seed, random_state=config.seed,
    )  # fmt: skip
    began = time.process_time()
    teachers.fit(X[: records * n_teachers], y[: records * n_teachers])
    seconds = (time.process_time() - began) / n_teachers
    votes = teachers.vote(held)
    return {
        "teacher": float((votes.labels == truth).mean()),
        "vote": float((votes.counts.argmax(axis=1) == truth).mean()),
        "commonest": float(np.bincount(truth).max() / len(truth)),
        "cpu_seconds": round(seconds, 3),
    }


def table(stored: dict[str, Any]) -> str:
    """Return the page's table in Markdown."""
    config = stored["config"]
    kinds: list[tuple[str, int | None, int | None]] = [
        (f"{config['passes']} passes (the default before)", config["passes"], None),
        *((f"{n:,} steps", None, n) for n in config["n_steps"]),
        ("**by the rule**", None, None),
    ]
    lines = [
        f"| data | module | records | commonest | {' | '.join(k for k, _, _ in kinds)} | CPU seconds |",
        "|---|---|---|---|" + "---|" * (len(kinds) + 1),
    ]
    for name, module, records, _ in config["questions"]:
        here = [c for c in stored["cells"] if (c["data"], c["module"], c["records"]) == (name, module, records)]
        found = {(c["passes"], c["n_steps"]): c for c in here}
        shown = [f"{100 * found[p, n]['teacher']:.1f} / {100 * found[p, n]['vote']:.1f}" for _, p, n in kinds]
        rule, before = found[None, None], found[config["passes"], None]
        cost = f"{before['cpu_seconds']:.2f}, {rule['cpu_seconds']:.2f}"
        lines.append(
            f"| {name} | {module} | {records:,} | {100 * rule['commonest']:.0f} | {' | '.join(shown)} | {cost} |"
        )
    return "\n".join(lines)


def write_page(result: Path, page: Path) -> None:
    """Put the table between its marks in the page."""
    text = page.read_text(encoding="utf-8")
    before, mark, after = text.partition(BEGIN)
    made = table(json.loads(result.read_text(encoding="utf-8")))
    page.write_text(f"{before}{mark}\n\n{made}\n\n{END}{after.partition(END)[2]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="one question, a few steps: does it run?")
    parser.add_argument("--page", action="store_true", help="compute nothing")
    given = parser.parse_args()
    if given.smoke:
        print(table(filled(SMOKE, ["cells"], cells(SMOKE), None)))
        return
    if not given.page:
        filled(Config(), ["cells"], cells(Config()), RESULT)
    write_page(RESULT, PAGE)


if __name__ == "__main__":
    main()
