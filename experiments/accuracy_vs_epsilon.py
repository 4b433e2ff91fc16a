"""How accurate is each method at each epsilon? Eight data sets, five seeds; records that vote against the others.

    PATE_DATA_HOME=... python experiments/accuracy_vs_epsilon.py                        # everything: days
    python experiments/accuracy_vs_epsilon.py --data adult digits --methods records dp-sgd --seeds 0 1
    python experiments/accuracy_vs_epsilon.py --page                                    # page and picture from the JSON
    python experiments/accuracy_vs_epsilon.py --smoke                                   # under a minute: does it run?

Split, representation, noise and student are drawn by every seed (the paper protocol's split is published, and
fixed). A representation is fitted once per data set and seed; all methods on it, and all epsilons, share it. Finished
cells are appended to ``WORK/cells.jsonl``, so a killed run goes on where it was; a cell of other code or settings is
computed again. Several runs may fill one folder, each with other --data. Numbers, page and picture come from the JSON.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path

from _methods import METHODS
from _page import draw, write_page
from _summary import merged, summarise
from _sweep import SMOKE, Config, read_rows, run

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "experiments" / "results" / "accuracy_vs_epsilon.json"
PAGE = ROOT / "docs" / "accuracy.md"
PICTURE = ROOT / "docs" / "images" / "accuracy_vs_epsilon.png"


def configure(options: argparse.Namespace) -> Config:
    config = SMOKE if options.smoke else Config()
    chosen = {
        name: tuple(getattr(options, name)) for name in ("methods", "epsilons", "seeds") if getattr(options, name)
    }
    if options.data:
        known = [spec.label for spec in config.data] + [spec.name for spec in config.data]
        strangers = [name for name in options.data if name not in known]
        if strangers:
            raise SystemExit(f"--data must be among {', '.join(dict.fromkeys(known))}; got {', '.join(strangers)}.")
        chosen["data"] = tuple(s for s in config.data if s.name in options.data or s.label in options.data)
    return replace(config, **chosen)


def publish(
    folders: list[Path], result: Path, page: Path, picture: Path, config: Config, *, onto_stored: bool = False
) -> None:
    """Write the JSON from these folders' cells, then page and picture from the JSON.

    ``onto_stored``: a method on a data set of which these folders have no cell stays as the stored JSON has it.
    """
    rows = read_rows([folder / "cells.jsonl" for folder in folders])
    summary = summarise(rows, config)
    if onto_stored:
        summary = merged(summary, json.loads(result.read_text(encoding="utf-8")))
    result.parent.mkdir(parents=True, exist_ok=True)
    result.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    from_json(result, page, picture)


def from_json(result: Path, page: Path, picture: Path) -> None:
    summary = json.loads(result.read_text(encoding="utf-8"))
    page.parent.mkdir(parents=True, exist_ok=True)
    picture.parent.mkdir(parents=True, exist_ok=True)
    drawn = draw(summary)
    if drawn is not None:
        picture.write_bytes(drawn)
    there = f"{picture.parent.name}/{picture.name}" if drawn is not None else None
    page.write_text(write_page(summary, there), encoding="utf-8")
    print(f"wrote {result.name}, {page.name}" + (f", {picture.name}" if drawn is not None else ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", help="names such as adult, mnist, mnist/paper")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS))
    parser.add_argument("--epsilons", nargs="+", type=float)
    parser.add_argument("--seeds", nargs="+", type=int)
    parser.add_argument("--work", type=Path, nargs="+", default=[Path("runs/accuracy_vs_epsilon")],
                        help="folder of cells and representations; with --page several")  # fmt: skip
    parser.add_argument("--page", action="store_true", help="compute nothing: JSON from --work, page and picture")
    parser.add_argument("--onto-stored", action="store_true", help="with --page: what --work lacks stays as stored")
    parser.add_argument("--from-json", action="store_true", help="page and picture from the stored JSON alone")
    parser.add_argument("--smoke", action="store_true", help="two budgets, one seed, few rows; publishes nothing")
    options = parser.parse_args()
    if options.from_json:
        from_json(RESULT, PAGE, PICTURE)
        return
    config = configure(options)
    if options.page:
        publish(options.work, RESULT, PAGE, PICTURE, config, onto_stored=options.onto_stored)
        return
    if options.smoke:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            fine = run(config, folder)
            publish([folder], folder / "result.json", folder / "accuracy.md", folder / "images" / "a.png", config)
        raise SystemExit(0 if fine else 1)
    try:
        fine = run(config, options.work[0])
    except KeyboardInterrupt:
        print("\nStopped. What is finished is kept: the same command goes on.")
        raise SystemExit(130) from None
    raise SystemExit(0 if fine else "Some cells failed: they are tried again by the same command.")


if __name__ == "__main__":
    main()
