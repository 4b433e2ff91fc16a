"""Draw the README's picture, accuracy against epsilon, from stored results.

    python experiments/readme_picture.py

reads experiments/results/choosing.json (PATE and DP-SGD as they come) and accuracy_vs_epsilon.json (without privacy),
and draws docs/images/readme.png.
"""

from __future__ import annotations

import json
from pathlib import Path

from matplotlib.figure import Figure

from pate.report.plots import COLOURS, figure_to_png

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments" / "results"
PICTURE = ROOT / "docs" / "images" / "readme.png"
#: Question, data set, title.
PANELS = (("pendigits", "pendigits", "pen strokes"), ("optdigits", "optdigits", "digits"), ("Adult", "adult", "census"))
LINES = {"pate": ("PATE", "series-0", "o"), "dpsgd": ("DP-SGD", "series-1", "P")}


def main() -> None:
    asked = json.loads((RESULTS / "choosing.json").read_text(encoding="utf-8"))["questions"]
    whole = json.loads((RESULTS / "accuracy_vs_epsilon.json").read_text(encoding="utf-8"))["summary"]
    figure = Figure(figsize=(10.2, 3.4), layout="constrained")
    for ax, (question, data, title) in zip(figure.subplots(1, len(PANELS)), PANELS, strict=True):
        (one,) = (q for q in asked if q["name"] == question)
        for contestant, (name, colour, marker) in LINES.items():
            bands = [b for b in one["bands"] if b["contestant"] == contestant]
            x = [b["epsilon"] for b in bands]
            mean, low, high = ([100 * b[key] for b in bands] for key in ("mean", "low", "high"))
            ax.fill_between(x, low, [min(100.0, h) for h in high], color=COLOURS[colour], alpha=0.15, lw=0)
            ax.plot(x, mean, label=name, color=COLOURS[colour], marker=marker, ms=6, lw=1.8)
        wanted = (data, "standard", "no-privacy")
        (without,) = (r for r in whole if (r["data"], r["protocol"], r["method"]) == wanted)
        ax.axhline(100 * without["accuracy"]["mean"], color=COLOURS["soft"], ls="--", lw=1.2, label="no privacy")
        about = f"{title} ({one['n_private']:,} records)"
        ax.set(xscale="log", title=about, xlabel="epsilon (smaller is more private)")
        ax.set_xticks([0.1, 0.5, 1, 3], ["0.1", "0.5", "1", "3"])
        ax.minorticks_off()
        ax.grid(axis="y", color=COLOURS["grid"], lw=0.8)
        ax.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("accuracy on new rows, %")
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False)
    PICTURE.write_bytes(figure_to_png(figure))
    print(f"{PICTURE.relative_to(ROOT)} from {len(PANELS)} questions")


if __name__ == "__main__":
    main()
