"""What accountants of DP-SGD say of one and the same run: epsilon against epochs, as in figure 2 of the 2016 paper.

    python experiments/accountants.py

Abadi et al. 2016: sampling rate 0.01, noise multiplier 4, delta 1e-5, add-or-remove. No data is looked at. Broken lines
are no bounds: the central limit lies below the truth, and the paper's own curve of strong composition uses constants
that no theorem gives at this noise.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from matplotlib.figure import Figure

from pate._core.provenance import provenance
from pate.privacy import dpsgd_epsilons
from pate.report.plots import figure_to_png

ROOT = Path(__file__).parents[1]
STORED = ROOT / "experiments" / "results" / "dpsgd_accountants.json"
PICTURE = ROOT / "docs" / "images" / "dpsgd_accountants.png"

#: What each accountant is called in the picture, and its colour.
NAMES = {
    "strong composition": ("strong composition, proved", "#8c564b"),
    "strong composition, 2016": ("strong composition, 2016 figure (no bound)", "#c49c94"),
    "moments": ("moments accountant, 2016", "#d62728"),
    "rdp": ("Rényi DP", "#ff7f0e"),
    "pld": ("privacy loss distributions (used here)", "#1f77b4"),
    "gdp limit": ("Gaussian DP's central limit (no bound)", "#2ca02c"),
}


@dataclass(frozen=True)
class Config:
    """Everything that decides the picture."""

    noise_multiplier: float = 4.0
    sample_rate: float = 0.01
    delta: float = 1e-5
    adjacency: str = "add-or-remove"
    epochs: tuple[int, ...] = (1, 2, 5, 10, 20, 40, 60, 80, 100, 150, 200, 250, 300, 350, 400)


def table(config):
    """Return one row per number of epochs and accountant."""
    rows = []
    for epochs in config.epochs:
        found = dpsgd_epsilons(
            config.noise_multiplier,
            sample_rate=config.sample_rate,
            n_steps=round(epochs / config.sample_rate),
            delta=config.delta,
            adjacency=config.adjacency,
        )
        rows += [{"epochs": epochs, **asdict(row)} for row in found]
    return rows


def picture(rows, config):
    """Return the figure: logarithmic, as the accountants are a factor of 20 apart."""
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.add_subplot()
    for name, (label, colour) in NAMES.items():
        mine = [row for row in rows if row["accountant"] == name]
        if mine:
            line = "-" if mine[0]["is_bound"] else "--"
            axes.plot(
                [r["epochs"] for r in mine], [r["epsilon"] for r in mine], line, color=colour, label=label, lw=1.6
            )
    axes.set(
        xlabel="epochs",
        ylabel=f"epsilon at delta = {config.delta:g}",
        yscale="log",
        xlim=(0, max(config.epochs)),
        title=f"q = {config.sample_rate:g}, noise multiplier {config.noise_multiplier:g}, {config.adjacency}",
    )
    axes.set_yticks([0.1, 0.3, 1, 3, 10, 30], ["0.1", "0.3", "1", "3", "10", "30"])
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7.5, loc="lower right", framealpha=0.9)
    return figure


def show(rows):
    for epochs in sorted({row["epochs"] for row in rows}):
        cells = [f"{r['accountant']} {r['epsilon']:.3f}" for r in rows if r["epochs"] == epochs]
        print(f"{epochs:>4} epochs: " + ", ".join(cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="two points: does it run?")
    parser.add_argument("--out", type=Path, default=STORED)
    parser.add_argument("--picture", type=Path, default=PICTURE)
    given = parser.parse_args()
    config = Config(epochs=(1, 10)) if given.smoke else Config()
    rows = table(config)
    show(rows)
    if given.smoke:
        return
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps({"config": asdict(config), "rows": rows, **provenance()}, indent=1) + "\n")
    given.picture.write_bytes(figure_to_png(picture(rows, config), dpi=90))
    print(f"\nWrote {given.out} and {given.picture}")


if __name__ == "__main__":
    main()
