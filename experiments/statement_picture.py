"""Draw the picture of docs/statement.md: how the page of a privacy statement begins, on a phone.

    python experiments/statement_picture.py

labels scikit-learn's breast cancer table as docs/start.md does, with what a person states, and takes a picture of the
page in Chromium (tests/chromium.py), which must be installed.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from sklearn.datasets import load_breast_cancer

from pate import Budget, PATEClassifier

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "statement.png"
WIDTH, HEIGHT = 390, 1080
STATED = {
    "dataset": "biopsies of one clinic",
    "organisation": "Example Hospital",
    "purpose": "triage research",
    "one person": "one biopsy per patient, by number",
    "parameters": "fixed in the study's protocol",
}

sys.path.insert(0, str(ROOT / "tests"))
from chromium import Browser  # noqa: E402


def main() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    clf = PATEClassifier(budget=Budget(1.0, 1e-4), classes=[0, 1], stated=STATED)
    clf.fit(X[:400], y[:400], X_public=X[400:500])
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "statement.html"
        page.write_text(clf.statement_.html(), encoding="utf-8")
        with Browser(Path(folder) / "profile") as browser:
            seen = browser.look(page, width=WIDTH)
    beginning = Image.open(io.BytesIO(seen.png)).convert("RGB").crop((0, 0, WIDTH, HEIGHT))
    beginning.quantize(64).save(PICTURE, optimize=True)
    print(f"{PICTURE.relative_to(ROOT)}: {WIDTH} x {HEIGHT} pixels of {seen.height}")


if __name__ == "__main__":
    main()
