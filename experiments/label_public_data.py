"""Label a public table with what teachers learn from a private one: what `pate label` does, in a page of Python.

python experiments/label_public_data.py --smoke     (on scikit-learn's breast cancer table)
python experiments/label_public_data.py --private patients.csv --target ill --classes no,yes --public cohort.csv
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

from pate import Budget, Ledger, NoisyHistogram, TableEncoder, TeacherEnsemble, calibrate, release_labels
from pate.data import read_both
from pate.data.queries import select_queries
from pate.votes import hash_queries


@dataclass(frozen=True)
class Config:
    """Everything that decides the release; all of it is public and fixed before the private rows are looked at."""

    private: Path
    public: Path
    target: str
    classes: tuple[str, ...]
    epsilon: float
    delta: float
    out: Path
    group: str | None = None
    n_teachers: int = 50
    n_queries: int = 30


def label(config: Config) -> None:
    budget = Budget(config.epsilon, config.delta)

    # Private and public rows with the same columns; scaling and encoding are learnt from public rows alone.
    pair = read_both(config.private, config.public, target=config.target, group=config.group)
    private, public = pair.private, pair.public.X
    encoder = TableEncoder().fit(public)

    # What it will cost is known before anything is trained.
    rows = select_queries(public, min(config.n_queries, len(public)), strategy="first")
    mechanism = calibrate(NoisyHistogram(sigma=1.0), budget, n_queries=len(rows))
    print(f"{mechanism} for {len(rows)} questions: {mechanism.charge(len(rows)).guarantee(config.delta)}")

    # One teacher per disjoint shard; a person's rows (group) stay together.
    teachers = TeacherEnsemble(LogisticRegression(), config.n_teachers, classes=config.classes, n_jobs=-1)
    teachers.fit(encoder.transform(private.X), private.y, groups=private.groups)
    asked = public.iloc[rows]
    votes = replace(teachers.vote(encoder.transform(asked)), query_hashes=hash_queries(asked))

    # The only step that lets anything out: it charges the ledger first.
    ledger = Ledger(config.out.with_suffix(".ledger.sqlite"))
    release = release_labels(votes, mechanism, budget=budget, ledger=ledger)
    release.to_frame(rows=rows).to_csv(config.out, index=False)
    config.out.with_suffix(".statement.txt").write_text(release.statement.text())
    print(f"{release.n_answered} labels in {config.out}\n{release.statement.headline}")


def smoke() -> Config:
    """Write two tables to a temporary folder."""
    folder = Path(tempfile.mkdtemp())
    frame = load_breast_cancer(as_frame=True).frame
    frame["target"] = frame["target"].map({0: "malignant", 1: "benign"})
    frame.iloc[:469].to_csv(folder / "private.csv", index=False)
    frame.iloc[469:].drop(columns="target").to_csv(folder / "public.csv", index=False)
    return Config(
        private=folder / "private.csv",
        public=folder / "public.csv",
        target="target",
        classes=("malignant", "benign"),
        epsilon=1.0,
        delta=1e-4,
        out=folder / "labels.csv",
        n_teachers=40,
        n_queries=10,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--private", type=Path)
    parser.add_argument("--public", type=Path)
    parser.add_argument("--target")
    parser.add_argument("--classes", help="separated by commas")
    parser.add_argument("--group")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--teachers", type=int, default=50)
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path("labels.csv"))
    given = parser.parse_args()
    if given.smoke:
        label(smoke())
        return
    missing = [name for name in ("private", "public", "target", "classes") if getattr(given, name) is None]
    if missing:
        parser.error(f"needed: {', '.join('--' + name for name in missing)} (or --smoke)")
    label(
        Config(
            private=given.private,
            public=given.public,
            target=given.target,
            classes=tuple(given.classes.split(",")),
            epsilon=given.epsilon,
            delta=given.delta,
            out=given.out,
            group=given.group,
            n_teachers=given.teachers,
            n_queries=given.queries,
        )
    )


if __name__ == "__main__":
    main()
