"""Audit a release of one's own, from certain to suggestive: replay, law, pair, game.

python experiments/audit_release.py --out runs/audit                             (digits, which are no secret)
python experiments/audit_release.py --out runs/audit --pictures docs/images      (and the pictures of docs/audit.md)
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from sklearn.neighbors import KNeighborsClassifier

from pate import Budget, GNMax, TeacherEnsemble, load_dataset, release_labels
from pate.audit import Audit, audit_votes, canary, replay_search
from pate.report.plots import figure_to_png

#: What is put into the data, and what is asked then.
CANARIES = {"mislabelled": "given", "out of distribution": "given", "crafted": "crafted"}


def audit(n_teachers: int = 250, sigma: float = 40.0, n_queries: int = 100) -> Audit:
    data = load_dataset("digits")
    X, y, public = data.private.X, data.private.y, data.public.X[:n_queries]
    # The release: teachers on shards, and their noisy votes. Leave published=True out where the data are a secret.
    teachers = TeacherEnsemble(KNeighborsClassifier(1), n_teachers, classes=range(10), random_state=0)
    votes, mechanism = teachers.fit(X, y).vote(public), GNMax(sigma)
    statement = release_labels(votes, mechanism, budget=Budget(20.0, 1e-5)).statement

    # One record changed, the same randomness: what else moves inside is a leak.
    replayed = replay_search(teachers, X, y, X_public=public, mechanism=mechanism, published=True)
    # Noise against its law; votes and their worst neighbour; an attacker of the worst case.
    found = audit_votes(votes, mechanism, claim=statement.guarantee, published=True)
    results = [replayed, *found.results]
    # A record put in, and the one teacher it touches trained again.
    for kind, asked in CANARIES.items():
        made = canary(teachers, X, y, X_public=public, mechanism=mechanism, canary=kind, queries=asked,
                      n_queries=n_queries, published=True)  # fmt: skip
        results.append(replace(made, figures=[replace(f, of=f"{kind} canary") for f in made.figures]))
    whole = replace(found, title="Audit of a release on digits", results=results, left_out=())
    print(whole, "The statement may say:", *statement.with_audits([whole]).audits, sep="\n")
    return whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="new folder for audit.html and audit.json")
    parser.add_argument("--pictures", type=Path, help="also draw the pictures of docs/audit.md here")
    given = parser.parse_args()
    found = audit()
    print(f"Open {found.save(given.out) / 'audit.html'}.")
    for name, display in (("roc", found["game"].plot()), ("bounds", found.plot())) if given.pictures else ():
        (given.pictures / f"audit_{name}.png").write_bytes(figure_to_png(display.figure_, dpi=100))
    raise SystemExit(int(found.refuted))


if __name__ == "__main__":
    main()
