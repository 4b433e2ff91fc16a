"""Picture and figures of README and front page: PATE, DP-SGD and an ordinary model on four data sets.

    PATE_DATA_HOME=... python experiments/first_screens.py          # resumes: a few minutes of one core
    PATE_DATA_HOME=... python experiments/first_screens.py --page   # from stored results alone

PATE and DP-SGD as they come are of results/choosing.json, and records beside teachers of
results/accuracy_vs_epsilon.json; the ordinary models without privacy are fitted here, on the same splits
(results/first_screens.json). Writes docs/images/readme.svg, and the lines between the marks of README.md and
docs/index.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from _choosing_data import QUESTIONS
from _pictures import SIZE, WIDTH, plain, write_svg
from _tables import Cell, filled, write_page
from matplotlib import rc_context
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from pate import TorchTeacherEnsemble
from pate.comparison.studies.run import ordinary_model
from pate.data import encode_dataset
from pate.networks import SmallCNN
from pate.report.plots import COLOURS

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments" / "results"
STORED = RESULTS / "first_screens.json"
PICTURE = ROOT / "docs" / "images" / "readme.svg"
PAGES = (ROOT / "README.md", ROOT / "docs" / "index.md")
#: A kernel machine is fitted to so many records at most.
KERNEL_ROWS = 20_000
LINES = {"PATE": (("pate", "pate-fast"), "series-0", "o"), "DP-SGD": (("dpsgd",), "series-1", "P")}


@dataclass(frozen=True)
class Config:
    """Which questions of choosing.py are shown, and by what name; the last one is where DP-SGD leads."""

    panels: tuple[tuple[str, str], ...] = (
        ("optdigits", "handwritten digits"), ("Adult", "census"), ("pendigits", "pen strokes"),
        ("Fashion-MNIST, fast", "photos of clothes"),
    )  # fmt: skip
    repeats: int = 3
    #: The data set and the epsilon at which records are named beside teachers.
    beside: tuple[str, float] = ("digits", 1.0)


def without_privacy(question: str, seed: int) -> dict[str, Any]:
    """Return what an ordinary model of all private records of one split reaches.

    Of many images a convolutional network in eight epochs. Else the better of two, on a fifth of the private records
    held out: boosted trees, or what pate takes of images, and a kernel machine.
    """
    asked = next(q for q in QUESTIONS if q.name == question)
    data = encode_dataset(asked.load().redrawn(seed))
    X, y = data.private.X, data.private.y
    if data.kind == "image" and len(y) > KERNEL_ROWS:
        network = TorchTeacherEnsemble(
            SmallCNN, 1, classes=range(len(data.classes)), epochs=8, device="cpu", random_state=seed
        )
        right = float((network.fit(X, y).vote(data.test.X).labels[0] == data.test.y).mean())
        return {"model": "SmallCNN", "accuracy": round(right, 4)}
    models = [ordinary_model(data.kind, len(y), seed=seed)]
    if len(y) <= KERNEL_ROWS:
        models.append(make_pipeline(StandardScaler(), SVC(C=10)))
    fitted, held_out, labels, answers = train_test_split(X, y, test_size=0.2, random_state=seed)
    best = max(models, key=lambda model: clone(model).fit(fitted, labels).score(held_out, answers))
    right = float(best.fit(X, y).score(data.test.X, data.test.y))
    return {"model": type(best).__name__, "accuracy": round(right, 4)}


def cells(c: Config) -> Iterator[Cell]:
    """Yield every fit."""
    for question, _ in c.panels:
        for seed in range(c.repeats):
            key = {"question": question, "seed": seed}
            yield "ordinary", key, partial(without_privacy, **key)


def stored(name: str) -> Any:
    """Return the results of another experiment."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def picture(told: dict[str, Any]) -> Figure:
    """Return accuracy against epsilon, a panel for each question."""
    asked = {q["name"]: q for q in stored("choosing")["questions"]}
    with rc_context({"font.size": SIZE, "axes.titlesize": SIZE}):
        figure = Figure(figsize=(WIDTH, 6.4), layout="constrained")
        for ax, (question, title) in zip(figure.subplots(2, 2).flat, told["config"]["panels"], strict=True):
            one = asked[question]
            for name, (contestants, colour, marker) in LINES.items():
                bands = [b for b in one["bands"] if b["contestant"] in contestants]
                x = [b["epsilon"] for b in bands]
                mean, low, high = ([100 * b[key] for b in bands] for key in ("mean", "low", "high"))
                ax.fill_between(x, low, [min(100.0, h) for h in high], color=COLOURS[colour], alpha=0.15, lw=0)
                ax.plot(x, mean, label=name, color=COLOURS[colour], marker=marker, ms=7, lw=1.8)
            right = [100 * r["accuracy"] for r in told["ordinary"] if r["question"] == question]
            label = "an ordinary model without privacy"
            ax.axhline(statistics.fmean(right), color=COLOURS["soft"], ls="--", lw=1.4, label=label)
            ax.set(xscale="log", title=f"{title}, {one['n_private']:,}")
            ax.set_xticks([0.1, 0.5, 1, 3], ["0.1", "0.5", "1", "3"])
            plain(ax)
        for ax in figure.axes[2:]:
            ax.set_xlabel("epsilon (smaller is more private)")
        for ax in figure.axes[::2]:
            ax.set_ylabel("right on new rows, %")
        handles, names = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False)
        figure.draw_without_rendering()  # places all, while letters have their size
    return figure


def beside_teachers(data: str, epsilon: float) -> str:
    """Return a sentence: what records reach beside DP-SGD, teachers on shards, and rows labelled by hand."""
    ours = {
        r["method"]: r["accuracy"]["mean"]
        for r in stored("accuracy_vs_epsilon")["summary"]
        if (r["data"], r["protocol"], r["epsilon"]) == (data, "standard", epsilon)
    }
    (question,) = (q for q in stored("choosing")["questions"] if q["name"] == data)
    means = {(b["contestant"], b["epsilon"]): b["mean"] for b in question["bands"]}
    return (
        f"Right on new images of {question['n_private']:,} scikit-learn digits at epsilon {epsilon:g}: records "
        f"{means['pate', epsilon]:.0%}, DP-SGD {means['dpsgd', epsilon]:.0%}, teachers on shards "
        f"{ours['shards']:.0%}, the 2018 paper's recipe {ours['pate-2018']:.0%}."
    )


def main() -> None:
    """Fit what is missing, and write picture and lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="from stored results alone")
    given = parser.parse_args()
    if given.page:
        told = json.loads(STORED.read_text(encoding="utf-8"))
    else:
        told = filled(Config(), ["ordinary"], cells(Config()), STORED)
    write_svg(picture(told), PICTURE)
    for page in PAGES:
        write_page(page, "beside", beside_teachers(*told["config"]["beside"]))
    print(f"{PICTURE.relative_to(ROOT)}, and a line of {', '.join(page.name for page in PAGES)}")


if __name__ == "__main__":
    main()
