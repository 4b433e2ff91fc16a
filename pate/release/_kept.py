"""What a ledger is to hold of a draw, and of the votes it was drawn for: public things alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pate.core.types import FloatArray
from pate.ledger._chain import NewAnswer
from pate.mechanisms import NOT_ASKED, Draw, GaussianSum, Mechanism
from pate.votes import ABSTAIN, Votes


def statistics_to_store(request: str, drawn: FloatArray) -> NewAnswer:
    """Return a released sum as one answer of the ledger: its numbers row by row."""
    return request, GaussianSum.family, ABSTAIN, drawn.ravel().tolist()


def counts_to_store(counts: Sequence[GaussianSum]) -> dict[str, Any]:
    """Return what a release's facts say of counts of right answers that were charged with its labels."""
    return {"right_counts": [mechanism.noise_multiplier for mechanism in counts]} if counts else {}


def counts_stored(facts: Mapping[str, Any]) -> tuple[GaussianSum, ...]:
    """Return the counts that such facts speak of."""
    return tuple(GaussianSum(value) for value in facts.get("right_counts", ()))


def with_counts(mechanism: Mechanism, counts: Sequence[GaussianSum]) -> str:
    """Return a mechanism in words, and what is counted after it."""
    if not counts:
        return str(mechanism)
    return f"{mechanism}, then {', '.join(map(str, counts))} on counts of right answers"


def round_key(index: int) -> str:
    """Return under which name a ledger keeps the facts of round ``index``."""
    return f"round {index + 1}"


def rounds_in(facts: Mapping[str, Any]) -> list[int]:
    """Return which rounds a ledger holds, in order: not always the first ones, as one that failed is used up."""
    return sorted(int(key[6:]) - 1 for key in facts if key.startswith("round ") and key[6:].isdigit())


def weaknesses(votes: Votes) -> dict[str, Any]:
    """Return the public facts of votes that a statement must tell wherever their answers are given again."""
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
