"""Teachers' votes on 16 labels: by label, and clipped to each teacher's surest labels, at one price.

    PATE_DATA_HOME=... python experiments/clipped_votes.py           # resumes; results/clipped_votes.json
    PATE_DATA_HOME=... python experiments/clipped_votes.py --smoke   # does it run?

Which of the 16 chapters of ICD-9 a patient's three diagnoses lie in (Diabetes 130, as in `several_labels.py`). Private
rows are cut into shards; a teacher is a ridge regression of its shard's labels on public directions. It is the surer of
a label the further its probability lies above the label's share in its own shard, in standard deviations of the label.
Ballots are dense (yes wherever it lies above: half of all labels) or sparse (of those the three surest: a patient has
three diagnoses, whoever the patient is). Public rows are asked at the whole budget, by `pate.release_labels` with noise
of a seed. AUC and average precision of the released yes votes are means over labels and draws of noise.

A first run asked three times the rows, with one draw of noise: on its first split, votes by label (dense ballots) were
ahead in AUC. Number of rows, sparse ballots and draws were set after it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _tables import Cell, filled, write_page
from several_labels import parts_of
from sklearn.metrics import average_precision_score, roc_auc_score

from pate import Budget, NoisyBallots, NoisyHistogram, calibrate, release_labels
from pate.release import clipped_votes, label_votes

RESULT = Path(__file__).parent / "results" / "clipped_votes.json"
PAGE = Path(__file__).parents[1] / "docs" / "labels.md"


@dataclass(frozen=True)
class Config:
    """Of the measurement."""

    sizes: tuple[int, int] = (55_000, 5_000)
    n_teachers: int = 250
    n_rows: int = 100
    #: Penalty, in rows of a shard.
    ridge: float = 1.0
    epsilons: tuple[float, ...] = (1.0, 3.0)
    #: Labels of each teacher; 0 stands for votes by label.
    most_labels: tuple[int, ...] = (0, 1, 2, 3, 5)
    seeds: tuple[int, ...] = (0, 1)
    #: Of noise, for each split.
    draws: int = 10
    delta: float = 1e-5


@cache
def ballots_of(c: Config, seed: int) -> tuple[Any, Any, Any, tuple[str, ...]]:
    """Return ballots, how sure teachers are, the asked rows' labels, and the labels' names."""
    _, (z, z_public), (y, y_public), names = parts_of("chapters", c.sizes, seed)
    scale = np.where(z_public.std(axis=0) > 1e-6, z_public.std(axis=0), 1.0)
    private, asked = ((held - z_public.mean(axis=0)) / scale for held in (z, z_public[: c.n_rows]))
    sure = np.empty((c.n_teachers, c.n_rows, len(names)))
    for teacher, shard in enumerate(np.array_split(np.random.default_rng(seed).permutation(len(y)), c.n_teachers)):
        x, base = private[shard], (y[shard].sum(axis=0) + 1) / (len(shard) + 2)
        gram = x.T @ x + c.ridge * len(shard) * np.eye(x.shape[1])
        above = asked @ np.linalg.solve(gram, x.T @ (y[shard] - base))
        sure[teacher] = above / np.sqrt(base * (1 - base))
    return sure > 0, sure, y_public[: c.n_rows], names


def measured(c: Config, kind: str, epsilon: float, most_labels: int, seed: int) -> dict[str, Any]:
    """Release yes-votes, and return what the rows' labels say of them."""
    ballots, sure, there, names = ballots_of(c, seed)
    if kind == "sparse":
        ballots = clipped_votes(ballots, names, most_labels=3, confidence=sure).ballots
    budget = Budget(epsilon, c.delta)
    clipped = clipped_votes(ballots, names, most_labels=most_labels or len(names), confidence=sure)
    binary = label_votes(ballots, names)
    mechanism = (
        calibrate(NoisyBallots(1.0, most_labels), budget, n_queries=c.n_rows)
        if most_labels
        else calibrate(NoisyHistogram(1.0), budget, n_queries=binary.n_queries)
    )
    some, found = [j for j in range(len(names)) if 0 < there[:, j].sum() < c.n_rows], []
    for draw in range(c.draws):
        asked = clipped if most_labels else binary
        counts = release_labels(asked, mechanism, budget=budget, noise_seed=c.draws * seed + draw).noisy_counts
        assert counts is not None
        yes = counts if most_labels else (counts[:, 1] - counts[:, 0]).reshape(c.n_rows, -1) / 2
        for score in (roc_auc_score, average_precision_score):
            found.append(np.mean([score(there[:, j], yes[:, j]) for j in some]))
    return {
        "noise": round(float(mechanism.sigma / (1 if most_labels else np.sqrt(2))), 1),
        "yes": round(float(clipped.ballots.sum(axis=2).mean()), 2),
        "auc": round(float(np.mean(found[::2])), 4),
        "precision": round(float(np.mean(found[1::2])), 4),
    }


def cells(c: Config) -> Iterator[Cell]:
    """Yield what is measured, seed by seed."""
    for seed in c.seeds:
        for kind, epsilon, most in product(("dense", "sparse"), c.epsilons, c.most_labels):
            if kind == "dense" or most <= 3:
                key = {"ballots": kind, "epsilon": epsilon, "most_labels": most, "seed": seed}
                yield "runs", key, partial(measured, c, kind, epsilon, most, seed)
        ballots_of.cache_clear()
        parts_of.cache_clear()


def table(told: dict[str, Any]) -> str:
    """Return the means over seeds as Markdown, of every epsilon in one line."""
    rows, epsilons = pd.DataFrame(told["runs"]), told["config"]["epsilons"]
    # Cut to three labels or fewer, dense ballots are sparse ones.
    rows = rows[(rows["ballots"] == "dense") | (rows["most_labels"] == 0)].sort_values(["most_labels", "epsilon"])
    heads = ["votes", "yes of a teacher", "noise", *(f"epsilon {epsilon:g}" for epsilon in epsilons)]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for (most, kind), part in rows.groupby(["most_labels", "ballots"], sort=False):
        how = f"{most} each" if most else f"by label, {kind}"
        mean = part.groupby("epsilon")[["noise", "yes", "auc", "precision"]].mean()
        noise = "/".join(f"{one:.0f}" for one in mean["noise"])
        scores = [f"{one.auc:.3f}/{one.precision:.3f}" for one in mean.itertuples()]
        lines.append(f"| {how} | {mean['yes'].mean():.1f} | {noise} | {' | '.join(scores)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure what is missing, and store it and the page's table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--page", action="store_true", help="compute nothing: the page's table from the stored JSON")
    asked = parser.parse_args()
    if asked.page:
        write_page(PAGE, "clipped", table(json.loads(RESULT.read_text(encoding="utf-8"))))
        return
    small = Config(sizes=(3_000, 400), n_teachers=20, n_rows=40, epsilons=(3.0,), most_labels=(0, 2), seeds=(0,))
    c = small if asked.smoke else Config()
    told = filled(c, ["runs"], cells(c), None if asked.smoke else RESULT)
    print(table(told))
    if not asked.smoke:
        write_page(PAGE, "clipped", table(told))


if __name__ == "__main__":
    main()
