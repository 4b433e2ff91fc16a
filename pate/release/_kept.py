"""What a ledger is to hold of a draw, and of the votes it was drawn for: public things alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.types import FloatArray
from pate.ledger._chain import NewAnswer
from pate.mechanisms import NOT_ASKED, Draw, GaussianSum, Mechanism
from pate.votes import ABSTAIN, Votes


def statistics_to_store(request: str, drawn: FloatArray) -> NewAnswer:
    """Return a released sum as one answer of the ledger: its numbers row by row.

    Examples
    --------
    >>> statistics_to_store("ab", np.array([[1.0, -1.0]]))
    ('ab', 'gaussian-sum', -1, [1.0, -1.0])
    """
    return request, GaussianSum.family, ABSTAIN, drawn.ravel().tolist()


def weaknesses(votes: Votes) -> dict[str, Any]:
    """Return the public facts of votes that a statement must tell wherever their answers are given again.

    Examples
    --------
    >>> weaknesses(Votes.from_counts([[9, 1]]))
    {}
    """
    return {name: True for name in ("classes_inferred", "partition_seeded") if getattr(votes, name)}


def answers_to_store(
    query_hashes: Sequence[str] | None, asked: npt.NDArray[np.int64], mechanism: Mechanism, draw: Draw
) -> Iterator[NewAnswer]:
    """Yield what was answered or refused: a refusal is an answer too, and asking again must not be a second chance."""
    labels, asked_rows = draw.labels.tolist(), asked.tolist()
    for position in np.flatnonzero(draw.status != NOT_ASKED).tolist():
        query = asked_rows[position]
        key = f"#{query}" if query_hashes is None else query_hashes[query]
        yield (
            key,
            mechanism.family,
            labels[position],
            None if draw.noisy_counts is None else draw.noisy_counts[position],
        )
