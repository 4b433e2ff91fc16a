"""Replay a pipeline of 250 linear teachers on neighbours: leaks are found, what is honest stands, and what it costs.

Run ``python experiments/audit_replays.py``; it writes ``experiments/results/audit_replays.json``. Data are synthetic.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_class_weight

from pate import Budget, ConfidentGNMax, TeacherEnsemble, Votes, release_labels
from pate.audit import replay_search

N, D, TEACHERS, QUERIES = 5000, 20, 250, 200
BUDGET = Budget(1e6, 1e-5)
OUT = Path(__file__).parent / "results" / "audit_replays.json"

RNG = np.random.default_rng(7)
X = RNG.normal(size=(N, D))
Y = (X[:, 0] + 0.5 * X[:, 1] + 0.5 * RNG.normal(size=N) > 0).astype(int)
X_PUBLIC = RNG.normal(size=(QUERIES, D))


def released(votes: Votes) -> Any:
    """Let labels out by Confident-GNMax."""
    return release_labels(votes, ConfidentGNMax(150.0, 30.0, 20.0), budget=BUDGET)


def ensemble(model: Any = None) -> TeacherEnsemble:
    """Return the teachers, unfitted."""
    return TeacherEnsemble(model or RidgeClassifier(), TEACHERS, classes=(0, 1), random_state=0)


def by_hand(X: Any, y: Any, shards: Any) -> Any:
    """Train a teacher on each shard without pate."""
    said = [RidgeClassifier().fit(X[s], y[s]).predict(X_PUBLIC) for s in shards]
    return released(Votes.from_labels(np.array(said), classes=(0, 1)))


def honest(X: Any, y: Any) -> Any:
    """Ridge classifiers on shards that pate cuts."""
    return released(ensemble().fit(X, y).vote(X_PUBLIC))


def honest_logistic(X: Any, y: Any) -> Any:
    """Logistic regressions, which take longer."""
    return released(ensemble(LogisticRegression()).fit(X, y).vote(X_PUBLIC))


def scaler(X: Any, y: Any) -> Any:
    """Scale by all private rows."""
    return released(ensemble().fit(StandardScaler().fit_transform(X), y).vote(X_PUBLIC))


def stratified(X: Any, y: Any) -> Any:
    """Cut shards by labels."""
    cut = StratifiedKFold(TEACHERS, shuffle=True, random_state=0)
    return by_hand(X, y, [test for _, test in cut.split(X, y)])


def sorting(X: Any, y: Any) -> Any:
    """Cut shards from a sorted file."""
    return by_hand(X, y, np.array_split(np.argsort(X[:, 2]), TEACHERS))


def weighted(X: Any, y: Any) -> Any:
    """Weigh classes by all private labels."""
    weights = dict(enumerate(compute_class_weight("balanced", classes=np.array([0, 1]), y=y)))
    return released(ensemble(RidgeClassifier(class_weight=weights)).fit(X, y).vote(X_PUBLIC))


def row(pipeline: Any, n_pairs: int | None, *, stop: bool) -> dict[str, Any]:
    """Replay one pipeline and return what was found."""
    busy = time.process_time()
    found = replay_search(
        pipeline, X, Y, n_pairs=n_pairs, stop=stop, published=True, kinds=KINDS if pipeline in LEAKS else None
    )
    busy = time.process_time() - busy
    n_runs, pairs = found.n_releases, int(found["pairs that leak"].of.split()[0])
    made = {
        "pipeline": pipeline.__name__,
        "pairs": pairs,
        "runs": n_runs,
        "leaking_pairs": int(found["pairs that leak"].value or 0),
        "most_teachers_moved": int(found["teachers moved"].value or 0),
        "most_votes_moved_on_a_query": int(found["votes moved on a query"].value or 0),
        "finding": found.finding,
        "seconds_of_a_core": round(busy, 2),
        "seconds_of_a_core_per_pair": round(busy / pairs, 3),
    }
    print(json.dumps(made), flush=True)
    return made


LEAKS = (scaler, stratified, sorting, weighted)
KINDS = ["replace", "flip", "scale", "duplicate"]


def main() -> None:
    """Write the results, after each pipeline: those asked for take the place of what was there."""
    plans: dict[str, Callable[[int], dict[str, Any]]] = {
        "honest": lambda n: row(honest, n, stop=False),
        "honest_logistic": lambda n: row(honest_logistic, max(1, n // 10), stop=False),
        **{f.__name__: lambda n, f=f: row(f, None, stop=True) for f in LEAKS},
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--only", nargs="*", choices=list(plans), default=list(plans))
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    honest(X, Y)  # imports cost no one
    facts = {"records": N, "features": D, "teachers": TEACHERS, "queries": QUERIES, "python": platform.python_version()}
    held = json.loads(args.out.read_text(encoding="utf-8"))["rows"] if args.out.exists() else []
    rows = {one["pipeline"]: one for one in held}
    for name in args.only:
        rows[name] = plans[name](args.pairs)
        ordered = [rows[n] for n in plans if n in rows]
        args.out.write_text(json.dumps({"facts": facts, "rows": ordered}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
