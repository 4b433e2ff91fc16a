"""PATE as in the papers, on MNIST: 250 networks, three mechanisms, a student each, and DP-SGD at the same epsilons.

    PATE_DATA_HOME=... python experiments/papers_pipeline.py           # resumes; results/papers_pipeline.json
    PATE_DATA_HOME=... python experiments/papers_pipeline.py --smoke   # does it run?

The papers' protocol: 60,000 private records, the first 9,000 test rows public, accuracy on the last 1,000. Queries are
drawn once; a mechanism asks as many as its paper did. Shards come from a secret and noise from the operating system;
the seed decides weights, queries and students. Votes are kept in runs/: a stopped run goes on. Table and picture
go to docs/papers.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _pictures import SIZE, WIDTH, plain, write_svg
from _tables import Cell, filled, write_page, written
from matplotlib import rc_context
from matplotlib.figure import Figure

from pate import (
    Budget,
    ConfidentGNMax,
    DPSGDClassifier,
    GNMax,
    LNMax,
    TorchTeacherEnsemble,
    Votes,
    account,
    load_dataset,
    release_labels,
)
from pate.models.students import fit_student, make_student
from pate.networks import SmallCNN
from pate.report.plots import COLOURS
from pate.votes import ABSTAIN

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "experiments" / "results" / "papers_pipeline.json"
PAGE, PICTURE = ROOT / "docs" / "papers.md", ROOT / "docs" / "images" / "papers.svg"
WORK = ROOT / "runs" / "papers_pipeline"


@dataclass(frozen=True)
class Config:
    """What is run: teachers as in experiments/reproduce/papernot2018_mnist.py, mechanisms as in the papers' tables."""

    n_teachers: int = 250
    epochs: int = 20
    batch_size: int = 32
    n_private: int | None = None
    n_public: int | None = None
    delta: float = 1e-5
    #: Name, mechanism, its parameters, queries asked, and what was published: answers, epsilon, accuracy.
    releases: tuple[tuple[str, str, tuple[tuple[str, float], ...], int, tuple[float, float, float] | None], ...] = (
        ("2017", "LNMax", (("scale", 20.0),), 100, (100, 2.04, 98.0)),
        ("2018", "GNMax", (("sigma", 40.0),), 300, None),
        ("2018", "ConfidentGNMax", (("threshold", 200.0), ("sigma_threshold", 150.0), ("sigma", 40.0)), 640,
         (286, 1.97, 98.5)),
    )  # fmt: skip
    student: str = "image"
    seeds: tuple[int, ...] = (0,)


SMOKE = replace(
    Config(), n_teachers=5, epochs=1, n_private=500, n_public=300, student="label-spreading",
    releases=(("2018", "GNMax", (("sigma", 1.0),), 40, None),),
)  # fmt: skip
TABLES = ("teachers", "releases", "students", "dpsgd")
KINDS = ("public", "data_dependent")
MECHANISMS = {"LNMax": LNMax, "GNMax": GNMax, "ConfidentGNMax": ConfidentGNMax}


def images(c: Config) -> Any:
    """Return MNIST as the papers cut it."""
    return load_dataset("mnist", protocol="paper", n_private=c.n_private, n_public=c.n_public)


def kept(c: Config, seed: int, name: str) -> Path:
    """Return the file of the votes on all public rows, or of the labels that a mechanism released."""
    return WORK / f"{c.n_teachers}-{c.epochs}-{seed}.private" / f"{name}.npy"


def train(c: Config, seed: int) -> dict[str, Any]:
    """Train the teachers, keep their votes, and return times and accuracies."""
    data, file = images(c), kept(c, seed, "votes")
    teachers = TorchTeacherEnsemble(
        SmallCNN,
        c.n_teachers,
        classes=range(10),
        epochs=c.epochs,
        batch_size=c.batch_size,
        optimizer="adam",
        learning_rate=1e-3,
        device="cpu",
        n_jobs=1,
        random_state=seed,
    )
    start = time.process_time()
    teachers.fit(data.private.X, data.private.y)
    trained = time.process_time()
    votes = teachers.vote(data.public.X)
    voted = time.process_time()
    file.parent.mkdir(parents=True, exist_ok=True)
    np.save(file, votes.labels.astype(np.int8))
    truth = data.public.y_for_evaluation
    return {
        "training_cpu_s": round(trained - start),
        "voting_cpu_s": round(voted - trained),
        "teacher": round(100 * float((votes.labels == truth).mean()), 2),
        "plurality": round(100 * float((votes.counts.argmax(axis=1) == truth).mean()), 2),
    }


def release(c: Config, seed: int, mechanism: str) -> dict[str, Any]:
    """Release labels by one mechanism, keep them, and return what they cost and how many are right."""
    _, _, parameters, n_queries, _ = next(r for r in c.releases if r[1] == mechanism)
    noise, truth = MECHANISMS[mechanism](**dict(parameters)), images(c).public.y_for_evaluation
    queries = np.random.default_rng(seed).permutation(len(truth))[:n_queries]
    votes = Votes.from_labels(np.load(kept(c, seed, "votes"))[:, queries], classes=range(10))
    most = {"max_answers": n_queries} if mechanism == "ConfidentGNMax" else {}
    released = release_labels(votes, noise, budget=Budget(1000.0, c.delta), **most)
    report = account(votes, noise, delta=c.delta, **most)
    labels = np.full(len(truth), ABSTAIN)
    labels[queries] = released.labels
    np.save(kept(c, seed, mechanism), labels)
    epsilons = {"public": report.public.epsilon, "data_dependent": report.data_dependent.reveal().epsilon}
    for kind, epsilon in epsilons.items():
        np.save(kept(c, seed, f"{mechanism}-{kind}"), epsilon)
    published = report.papernot2017 if report.papernot2018 is None else report.papernot2018
    answered = labels != ABSTAIN
    return {
        "answered": int(answered.sum()),
        "labels_right": round(100 * float((labels == truth)[answered].mean()), 2),
        **epsilons,
        "published": None if published is None else published.reveal().epsilon,
    }


def teach(c: Config, seed: int, mechanism: str) -> dict[str, Any]:
    """Return what a student of the released labels and of all public images reaches."""
    data, labels = images(c), np.load(kept(c, seed, mechanism))
    start = time.process_time()
    student = fit_student(make_student(c.student), data.public.X, labels, random_state=seed)
    seconds = time.process_time() - start
    right = float((student.predict(data.test.X) == data.test.y).mean())
    return {"accuracy": round(100 * right, 2), "cpu_s": round(seconds)}


def dpsgd(c: Config, seed: int, mechanism: str, kind: str) -> dict[str, Any]:
    """Return what DP-SGD reaches by default at an epsilon of this release."""
    epsilon = float(np.load(kept(c, seed, f"{mechanism}-{kind}")))
    data, start = images(c), time.process_time()
    clf = DPSGDClassifier(budget=Budget(epsilon, c.delta), classes=range(10), image_shape=(28, 28), random_state=seed)
    clf.fit(data.private.X, data.private.y, X_public=data.public.X)
    right = float(clf.score(data.test.X, data.test.y))
    return {"accuracy": round(100 * right, 2), "cpu_s": round(time.process_time() - start)}


def cells(c: Config) -> Iterator[Cell]:
    """Yield the training, every release, its student, and DP-SGD at both of its epsilons."""
    for seed in c.seeds:
        yield "teachers", {"seed": seed}, partial(train, c, seed)
        for _, mechanism, *_ in c.releases:
            key = {"seed": seed, "mechanism": mechanism}
            yield "releases", key, partial(release, c, **key)
            yield "students", key, partial(teach, c, **key)
            for kind in KINDS:
                yield "dpsgd", key | {"kind": kind}, partial(dpsgd, c, **key, kind=kind)


def joined(told: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every release with its student's accuracy and DP-SGD's at its epsilons."""
    students = {(row["seed"], row["mechanism"]): row["accuracy"] for row in told["students"]}
    beside = {(row["seed"], row["mechanism"], row["kind"]): row["accuracy"] for row in told["dpsgd"]}
    keys = [(row["seed"], row["mechanism"]) for row in told["releases"]]
    return [
        {**row, "student": students[key], "dpsgd": {kind: beside[*key, kind] for kind in KINDS}}
        for row, key in zip(told["releases"], keys, strict=True)
    ]


def table(told: dict[str, Any]) -> str:
    """Return what was measured beside what was published, as Markdown."""
    settings = {mechanism: rest for _, mechanism, *rest in told["config"]["releases"]}
    years = {mechanism: year for year, mechanism, *_ in told["config"]["releases"]}
    lines = [
        "| mechanism | labels, right | epsilon: public / data-dependent / by the paper's analysis | student "
        "| DP-SGD at the public / data-dependent epsilon | published: labels, epsilon, student |",
        "|---" * 6 + "|",
    ]
    for row in joined(told):
        parameters, asked, published = settings[row["mechanism"]]
        named = ", ".join(f"{value:g}" for _, value in parameters)
        epsilons = [row[kind] for kind in (*KINDS, "published")]
        epsilon = " / ".join("·" if e is None else f"{e:.2f}" for e in epsilons)
        of = f" of {asked}" if row["answered"] < asked else ""
        paper = (
            "·"
            if published is None
            else ", ".join([f"{years[row['mechanism']]}: {published[0]}", *map(str, published[1:])])
        )
        beside = " / ".join(f"{row['dpsgd'][kind]:.1f}" for kind in KINDS)
        lines.append(
            f"| `{row['mechanism']}({named})` | {row['answered']}{of}, {row['labels_right']:.1f} | {epsilon} "
            f"| {row['student']:.1f} | {beside} | {paper} |"
        )
    return "\n".join(lines)


def times(told: dict[str, Any]) -> str:
    """Return a sentence: how long training took here, and takes on a GPU (benchmarks/gpu.py)."""
    (trained, *_), n = told["teachers"], told["config"]["n_teachers"]
    gpu = json.loads((ROOT / "benchmarks" / "results" / "gpu.json").read_text(encoding="utf-8"))["teachers"]
    seconds = n * gpu["cnn float32"]["training"]["grouped"]["seconds"]
    students = [row["cpu_s"] for row in told["students"]]
    return (
        f"The {n} teachers, `SmallCNN`s of 240 images each, are right on {trained['teacher']:.1f}% of the public "
        f"images, and their plurality on {trained['plurality']:.1f}%. Training takes "
        f"{trained['training_cpu_s'] / 60:.0f} minutes of one core, or {seconds:.0f} seconds on one "
        f"{gpu['machine']['gpu']} (`benchmarks/gpu.py`); a student "
        f"{max(students) / 60:.0f} minutes of one core. One run, and 1,000 test images: half a point means little."
    )


def page(told: dict[str, Any]) -> str:
    """Return what stands in docs/papers.md."""
    alt = "Accuracy against epsilon on MNIST: students at their public and data-dependent epsilon, and DP-SGD"
    return f"{table(told)}\n\n{times(told)}\n\n![{alt}](images/papers.svg)"


def picture(told: dict[str, Any]) -> Figure:
    """Return accuracy against epsilon: for each release both kinds of epsilon, and DP-SGD at both."""
    with rc_context({"font.size": SIZE}):
        figure = Figure(figsize=(WIDTH, 4.6), layout="constrained")
        ax = figure.subplots()
        blue, orange = COLOURS["series-0"], COLOURS["series-1"]
        rows = joined(told)
        for row in rows:
            own, public = row["data_dependent"], row["public"]
            ax.plot([own, public], 2 * [row["student"]], color=blue, lw=1.4, zorder=1)
            ax.plot([own], [row["student"]], "o", color=blue, mfc="none", ms=9)
            ax.plot([public], [row["student"]], "o", color=blue, ms=9)
            text = f"{row['mechanism']}, {row['answered']} labels"
            ax.annotate(text, (public, row["student"]), (10, 0), textcoords="offset points", va="center")
        points = sorted((row[kind], row["dpsgd"][kind]) for row in rows for kind in KINDS)
        ax.plot(*zip(*points, strict=True), "P-", color=orange, ms=8, lw=1.4)
        for label, form in (
            ("PATE's student, at its public epsilon", {"marker": "o", "color": blue}),
            ("the same at its data-dependent epsilon (private)", {"marker": "o", "color": blue, "mfc": "none"}),
            ("DP-SGD", {"marker": "P", "color": orange}),
        ):
            ax.plot([], [], ls="", ms=9, label=label, **form)
        ax.set(xscale="log", xlabel="epsilon (smaller is more private)", ylabel="accuracy on new images, %")
        ax.set_xlim(right=4 * max(epsilon for epsilon, _ in points))
        ticks = [0.2, 0.5, 1, 2, 5, 10, 20]
        low, high = ax.get_xlim()
        shown = [tick for tick in ticks if low <= tick <= high]
        ax.set_xticks(shown, [f"{tick:g}" for tick in shown])
        plain(ax)
        figure.legend(loc="outside lower center", frameon=False)
        figure.draw_without_rendering()  # places all, while letters have their size
    return figure


def main() -> None:
    """Measure what is missing, and store it, the table and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--page", action="store_true", help="compute nothing: table and picture from the stored JSON")
    asked = parser.parse_args()
    if asked.smoke:
        told = filled(SMOKE, TABLES, cells(SMOKE), None)
        picture(told)
        print(page(told))
        return
    c = Config()
    told = json.loads(RESULT.read_text(encoding="utf-8")) if asked.page else None
    if told is None:
        told = filled(c, TABLES, cells(c), RESULT)
        RESULT.write_text(written(told), encoding="utf-8")
    write_page(PAGE, "papers", page(told))
    write_svg(picture(told), PICTURE)


if __name__ == "__main__":
    main()
