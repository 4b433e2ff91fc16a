"""Records that vote where they have something to say, and abstain elsewhere: for :func:`pate.open_vote_cap`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pate.core.checks import check_real
from pate.core.types import FloatArray, IntArray
from pate.records._maps import BLOCK_ROWS, PublicMap, n_rows, slabs
from pate.votes import ABSTAIN


@dataclass(frozen=True, eq=False, repr=False)
class CappedVotes:
    """What every record votes on public rows, or that it abstains: **sensitive**.

    Attributes
    ----------
    labels : int array of shape (n_records, n_queries)
        Class indices, ABSTAIN where the public row is farther from the record than the radius.
    classes : tuple
    n_units : int
        Number of records, each a teacher of its own (public under replace-one adjacency).
    query_hashes : tuple of str
    fingerprint : str
        By which a ledger recognises the records. **Sensitive.**
    """

    labels: Any
    classes: tuple[Any, ...]
    n_units: int
    query_hashes: tuple[str, ...]
    fingerprint: str = field(repr=False)

    @property
    def n_teachers(self) -> int:
        """As many as records."""
        return self.n_units

    def __repr__(self) -> str:
        return f"CappedVotes(n_queries={self.labels.shape[1]}, n_teachers={self.n_units}, labels=<sensitive>)"


def near_labels(maps: PublicMap, rows: Any, labels: IntArray, public: FloatArray, radius: float) -> Any:
    """Return each record's class for the public rows within ``radius`` of it, ABSTAIN for the others.

    Parameters
    ----------
    maps : PublicMap
    rows : private rows, n of them
    labels : int64 array of shape (n,)
        -1 abstains everywhere.
    public : float64 array of shape (n_queries, d)
        phi of public rows.
    radius : float
        Between directions: |phi_i - phi_j|, at most 2.
    """
    radius = check_real("radius", radius, low=0, low_open=True, high=2)
    found = np.full((n_rows(rows), len(public)), ABSTAIN, dtype=np.int16 if labels.max(initial=0) < 2**15 else np.int32)
    lengths = np.square(public).sum(axis=1)
    block = np.zeros((BLOCK_ROWS, maps.d))
    for start, end in slabs(len(found), BLOCK_ROWS):
        phi = maps.phi(rows, np.arange(start, end))
        block[: end - start] = phi
        apart = np.square(block).sum(axis=1)[:, None] + lengths - 2.0 * (block @ public.T)
        near = apart[: end - start] <= radius * radius
        found[start:end] = np.where(
            near & np.isfinite(phi).all(axis=1, keepdims=True), labels[start:end, None], ABSTAIN
        )
    return found
