"""Take the pictures of the page that `pate demo` writes: its first screen in a window, and on a phone.

    python experiments/demo_picture.py

runs the demo as it is, and opens its report in Chromium (tests/chromium.py), which must be installed.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

from pate import Budget
from pate.comparison.contestants import demo_config
from pate.comparison.studies.run import run_experiment

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
#: By file: width and height, and how many colours are kept.
SIZES = {"demo-page.png": (1280, 800, 64), "demo-page-phone.png": (390, 844, 64)}

sys.path.insert(0, str(ROOT / "tests"))
from chromium import Browser  # noqa: E402


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "demo"
        run_experiment(
            demo_config(Budget(3.0, 1e-5), n_jobs=-1),
            out=out,
            sensitive_report=True,
            command="pate demo",
            verbose=True,
        )
        with Browser(Path(folder) / "profile") as browser:
            for name, (width, height, colours) in SIZES.items():
                seen = browser.look(out / "report.html", width=width)
                image = Image.open(io.BytesIO(seen.png)).convert("RGB").crop((0, 0, width, height))
                image.quantize(colours).save(IMAGES / name, optimize=True)
                print(f"docs/images/{name}: {width} x {height} pixels of {seen.height}")


if __name__ == "__main__":
    main()
