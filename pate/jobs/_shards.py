"""What a job of teachers plans: which public rows are asked about, and in what form they are seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from pate.jobs._inputs import take
from pate.jobs._rounds import Chooser, RoundsPlan
from pate.release import Asking, BatchPlan, ReleaseTerms
from pate.votes import ABSTAIN, hash_queries


def plan_questions(
    terms: ReleaseTerms, asking: Asking, chooser: Chooser, hashed: Any, *, n_teachers: int
) -> BatchPlan | RoundsPlan:
    """Choose the rows, or how they will be chosen, and price them: a job's one quote.

    Parameters
    ----------
    terms : ReleaseTerms
    asking : Asking
    chooser : Chooser
    hashed : DataFrame or array of shape (n_public, ...)
        Public rows as they stand in the file, so that another encoding still finds its stored answers.
    n_teachers : int

    Examples
    --------
    >>> from pate import Budget, GNMax
    >>> from pate.jobs import OneRound
    >>> chooser, asking = Chooser(OneRound("first"), np.zeros((5, 1)), 0), Asking(GNMax(9.0), 2, 0.0)
    >>> rows = np.arange(5.0).reshape(5, 1)
    >>> plan_questions(ReleaseTerms(budget=Budget(5.0, 1e-5)), asking, chooser, rows, n_teachers=9).queries
    array([0, 1])
    """
    if len(chooser.rounds(asking.n_queries)) > 1:
        hashes = np.array(hash_queries(hashed), dtype=object)
        return RoundsPlan.of(terms, asking, chooser, hashes, n_teachers=n_teachers)
    n_public = len(hashed)
    queries = chooser.choose(asking.n_queries, np.full(n_public, ABSTAIN), np.arange(n_public), 0)
    return BatchPlan.of(terms, asking, queries, hash_queries(take(hashed, queries)))


def encoding_of(kind: str, n_columns: int, n_numbers: int, how: str) -> str:
    """Return in words how rows become numbers.

    Parameters
    ----------
    kind : {"table", "images"}
    n_columns, n_numbers : int
        Before, and after.
    how : {"heads", "public", "shard", "none"}
        By a representation, or as ``preprocess`` says.

    Examples
    --------
    >>> encoding_of("table", 3, 9, "public")
    '3 columns become 9 numbers, by what the public rows teach'
    """
    if kind == "images":
        return f"images of {n_numbers} numbers, pixels divided by 255"
    ways = {
        "heads": f"{n_columns} columns, by a representation that the public rows teach",
        "public": f"{n_columns} columns become {n_numbers} numbers, by what the public rows teach",
        "shard": f"{n_columns} columns, encoded inside every shard",
        "none": f"{n_columns} columns, encoded nowhere: as they are",
    }
    return ways[how]
