"""Who is ahead at the same epsilon, delta and split: what the pages of `pate demo` and `pate run` say of it.

    python experiments/who_wins.py

reads experiments/results/choosing.json, whose verdicts are those of `pate compare`, and writes
pate/_templates/measured.json.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Config:
    """Where verdicts are read and written."""

    comparisons: Path = ROOT / "experiments" / "results" / "choosing.json"
    out: Path = ROOT / "pate" / "_templates" / "measured.json"


def measured(config: Config) -> dict[str, Any]:
    """Return what was said of PATE against DP-SGD, question by question and epsilon by epsilon."""
    stored = json.loads(config.comparisons.read_text(encoding="utf-8"))
    rows = [
        {"data": question["name"], "epsilon": found["epsilon"], "verdict": found["verdict"]}
        for question in stored["questions"]
        for found in question["side_verdicts"]
        if (found["side"], found["other"]) == ("PATE", "DP-SGD")
    ]
    return {"delta": stored["delta"], "sources": ["docs/choosing.md"], "rows": rows}


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    config = Config()
    made = measured(config)
    config.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    print(f"{config.out.relative_to(ROOT)}: {len(made['rows'])} rows")


if __name__ == "__main__":
    main()
