"""What students learn of 100 and of 400 released labels and all public images, as in the 2017 paper.

    PATE_DATA_HOME=... python experiments/few_labels.py            # half an hour of one core; the missing rows alone
    python experiments/few_labels.py --table                       # the page's table from the stored result alone
    python experiments/few_labels.py --smoke                       # does it run?

Real votes and LNMax: the paper's own for MNIST (250 teachers, Lap(20), published labels; at 100 labels the paper's
rows), teachers of logistic regression for the others. The data sets are public benchmarks, so that epsilons that depend
on votes may be shown. How few labels are spread was chosen on other draws of the queries and the noise, on MNIST's
public and training rows and on another split of optdigits; the test rows were scored for this table alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from _tables import Cell, by_command_line
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from pate import Budget, LNMax, TeacherEnsemble, account, load_dataset, release_labels
from pate.data import load_votes
from pate.models.students import ImageStudent, fit_student
from pate.votes import ABSTAIN, Votes

ROOT = Path(__file__).parents[1]
RESULT, PAGE = ROOT / "experiments" / "results" / "few_labels.json", ROOT / "docs" / "defaults.md"
#: What is trained is kept here.
WORK = ROOT / "runs" / "few_labels"
#: An ordinary classifier of the released labels alone; the student that trains on the answers as they are; the default.
METHODS = ("SVC", "answers alone", "default")


@dataclass(frozen=True)
class Config:
    """Fixed before a test row was scored.

    Attributes
    ----------
    data : tuple of (name, protocol, public rows, teachers, scale of the Laplace noise)
        No teachers: published votes.
    seeds : tuple of int
        How many, by data set: of the queries, the noise, the teachers and the student.
    epochs : tuple
        Of the image students.
    changes : tuple of dict
        Settings of the image students, as their documentation says: clothes are not glyphs.
    """

    data: tuple[tuple[str, str, int, int, float], ...] = (
        ("mnist", "paper", 9000, 0, 20.0),
        ("fashion_mnist", "paper", 3000, 250, 20.0),
        ("optdigits", "standard", 1000, 100, 8.0),
    )
    n_labels: tuple[int, ...] = (100, 400)
    seeds: tuple[int, ...] = (1, 1, 1)
    epochs: tuple[int | str, ...] = ("auto", 20, "auto")
    changes: tuple[dict[str, float], ...] = ({}, {"augmentation": 0.5, "trust": 1.0}, {})
    delta: float = 1e-5


SMOKE = Config(data=(("digits", "standard", 300, 5, 0.5),), n_labels=(20,), epochs=(1,))


@cache
def rows_and_votes(name: str, protocol: str, n_public: int, n_teachers: int, seed: int) -> tuple[Any, Votes]:
    """Return the data set, and the votes on all its public rows."""
    data = load_dataset(name, protocol=protocol, n_public=n_public, random_state=seed)
    if not n_teachers:
        return data, Votes.from_counts(load_votes("papernot_mnist").counts[:n_public])
    teachers = TeacherEnsemble(
        LogisticRegression(max_iter=200), n_teachers, classes=range(10), random_state=seed, partition_seed=seed
    )
    return data, teachers.fit(data.private.X, data.private.y).vote(data.public.X)


@cache
def released(place: tuple[Any, ...], n_labels: int, seed: int, delta: float) -> tuple[Any, dict[str, Any]]:
    """Return labels of all public rows, ABSTAIN where not asked, and how right and how private they are."""
    *_, n_teachers, scale = place
    data, votes = rows_and_votes(*place[:-1], seed)
    n_public, truth = votes.n_queries, np.asarray(data.public.y_for_evaluation)
    queries, mechanism = np.random.default_rng(seed).choice(n_public, n_labels, replace=False), LNMax(scale=scale)
    if not n_teachers and n_labels == 100:
        queries = np.asarray(load_votes("papernot_mnist").student_indices[:n_labels])
    asked = Votes.from_counts(votes.counts[queries])
    if n_teachers:
        released = release_labels(asked, mechanism, budget=Budget(100.0, delta), noise_seed=seed).labels
    else:
        released = load_votes("papernot_mnist").student_labels[queries]
    labels = np.full(n_public, ABSTAIN)
    labels[queries] = released
    paid = account(asked, mechanism, delta=delta)
    return labels, {
        "labels_right": float((labels[queries] == truth[queries]).mean()),
        "public": paid.public.epsilon,
        "data_dependent": paid.data_dependent.reveal().epsilon,
        "published_analysis": paid.papernot2017.reveal().epsilon,
    }


def cells(config: Config) -> Iterator[Cell]:
    """Yield every method on every data set, the fewest labels first."""
    for n_labels in config.n_labels:
        for i, (name, *_) in reversed(list(enumerate(config.data))):  # the cheapest first
            for seed in range(config.seeds[i]):
                for method in ("SVC", "default", "answers alone"):
                    key = {"data": name, "labels": n_labels, "seed": seed, "method": method}
                    yield "rows", key, partial(measure, config, i, n_labels, seed, method)


def measure(config: Config, i: int, n_labels: int, seed: int, method: str) -> dict[str, Any]:
    """Return one student's share of test rows that are right, with what its labels are and cost."""
    labels, facts = released(config.data[i], n_labels, seed, config.delta)
    data, _ = rows_and_votes(*config.data[i][:-1], seed)
    began = time.process_time()
    student: Any = SVC(C=10.0)
    if method != "SVC":
        student = ImageStudent(data.image_shape, epochs=config.epochs[i], device="cpu", **config.changes[i])
        if method == "default":
            # The self-supervised network of a seed is trained once for all numbers of labels.
            kept = WORK / f"{data.name}-{seed}"
            if n_labels > 100:
                (kept / "student.safetensors").unlink(missing_ok=True)
            student.set_params(checkpoint_dir=kept)
        else:
            student.set_params(spread_over=None)
    fitted = fit_student(student, data.public.X, labels, random_state=seed)
    seconds = time.process_time() - began
    spread = getattr(fitted, "spread_labels_", None)
    return {
        "accuracy": float((fitted.predict(data.test.X) == data.test.y).mean()),
        "spread_right": None if spread is None else float((spread == data.public.y_for_evaluation).mean()),
        "cpu_seconds": None if getattr(fitted, "resumed_", False) else round(seconds, 1),
        **facts,
    }


def table(stored: dict[str, Any]) -> str:
    """Return the page's table in Markdown: means over the seeds."""
    lines = [
        "| data, teachers | labels | right | epsilon: public; by the votes (exact; the papers' analysis) | SVC on them "
        "| image student, answers alone | image student | of it: images labelled right by spreading | CPU seconds |",
        "|---" * 9 + "|",
    ]
    for place in stored["config"]["data"]:
        for n_labels in stored["config"]["n_labels"]:
            here = [row for row in stored["rows"] if (row["data"], row["labels"]) == (place[0], n_labels)]
            if not here:
                continue
            of = {m: [row for row in here if row["method"] == m] for m in METHODS}
            n_seeds = len({row["seed"] for row in here})
            default, alone = of["default"], of["answers alone"]
            spread = [row["spread_right"] for row in default if row["spread_right"] is not None]
            cells = [
                f"{place[0]}, {place[3] or '250 of the paper'}" + (f" ({n_seeds} seeds)" if n_seeds > 1 else ""),
                str(n_labels),
                percent(here, "labels_right"),
                "; ".join(f"{mean(here, k):.2f}" for k in ("public", "data_dependent"))
                + f" ({mean(here, 'published_analysis'):.2f})",
                *(percent(of[m], "accuracy") if of[m] else "·" for m in METHODS[:2]),
                f"**{percent(default, 'accuracy')}**" if default else "·",
                f"{100 * np.mean(spread):.1f}" if spread else "not few: not spread",
                ", ".join(seconds(rows) for rows in (alone, default)),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def mean(rows: list[dict[str, Any]], name: str) -> float:
    return float(np.mean([row[name] for row in rows]))


def seconds(rows: list[dict[str, Any]]) -> str:
    """Return the mean processor time of what was trained here; "·" for a student that was trained elsewhere."""
    measured = [row for row in rows if row["cpu_seconds"] is not None]
    return f"{mean(measured, 'cpu_seconds'):.0f}" if measured else "·"


def percent(rows: list[dict[str, Any]], name: str) -> str:
    return f"{100 * mean(rows, name):.1f}"


if __name__ == "__main__":
    by_command_line(str(__doc__), cells, table, config=Config(), smoke=SMOKE, result=RESULT, page=PAGE)
