"""Draw the README's picture from the stored result of `pate demo`.

    pate demo --out runs/demo && python experiments/demo_picture.py --result runs/demo/results.json

copies that result to experiments/results/demo_digits.json and draws docs/images/demo.png from it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pate.report.plots import accuracy_bars, figure_to_png

ROOT = Path(__file__).parents[1]
STORED = ROOT / "experiments" / "results" / "demo_digits.json"
PICTURE = ROOT / "docs" / "images" / "demo.png"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--result", type=Path, default=STORED, help="results.json of a run (default: the stored one)")
    given = parser.parse_args()
    result = json.loads(given.result.read_text())
    if given.result != STORED:
        STORED.write_text(json.dumps(result, indent=2) + "\n")
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_bytes(figure_to_png(accuracy_bars(result["rows"])))
    print(f"{PICTURE.relative_to(ROOT)} from {len(result['rows'])} rows of commit {result['commit']}")


if __name__ == "__main__":
    main()
