"""A PATEClassifier whose queries, ensemble and statement are said one by one, for tests that vary one of them."""

from __future__ import annotations

from pate import PATEClassifier, Queries
from pate.estimators import OVERLAP
from pate.teachers import make_ensemble

QUERIES = {"n_queries": "n", **{n: n for n in ("select", "gap", "max_answers", "on_exhausted", "force")}}
OF_SHARDS = ("n_jobs", "partition_seed")


def pate_of(estimator=None, **said):
    queries = {QUERIES[name]: said.pop(name) for name in QUERIES.keys() & said.keys()}
    cut = {name: value for name in OF_SHARDS if (value := said.pop(name, None)) is not None}
    stated = {"tuning": said.pop("tuning")} if "tuning" in said else {}
    stated |= {OVERLAP: "yes"} if said.pop("overlap_is_public", False) else {}
    if queries:
        said["queries"] = Queries(**queries)
    if stated:
        said["stated"] = stated | (said.get("stated") or {})
    if cut:
        bare = PATEClassifier(estimator, voters="heads" if said.get("voters") == "heads" else None)
        estimator = make_ensemble(bare._template(), **cut)
    return PATEClassifier(estimator, **said)
