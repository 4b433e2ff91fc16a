"""Who votes in a job where nobody says, and what speaks of teachers on shards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pate.estimator._roads import chosen_voters

#: Parameters of a job that speak of teachers on shards, their options, and what says nothing.
_OF_SHARDS: dict[str, tuple[str, Any]] = {
    "teacher": ("--teacher", None),
    "n_teachers": ("--teachers", None),
    "mechanism": ("--mechanism", None),
    "n_queries": ("--queries", None),
    "gap": ("--gap", None),
    "select": ("--select", "auto"),
    "rounds": ("--rounds", None),
    "max_answers": ("--max-answers", None),
    "on_exhausted": ("--on-exhausted", "raise"),
    "preprocess": ("--preprocess", "public"),
    "partition_seed": ("--partition-seed", None),
}


def who_votes(voters: str | None, said: Mapping[str, Any]) -> str:
    """Return who votes, by the rule of :class:`pate.PATEClassifier`: ``"auto"``, unless something is said of shards.

    Parameters
    ----------
    voters : {"auto", "records", "heads", "shards", "dpsgd"} or None
    said : mapping
        Parameters of the job by name, as they were given.

    Raises
    ------
    InvalidInputError
        They do not go together.
    """
    given = {
        f"{name} ({option})": said[name]
        for name, (option, silent) in _OF_SHARDS.items()
        if name in said and not (isinstance(said[name], str) and said[name] == silent)
    }
    not_of_heads = [f"{name} ({_OF_SHARDS[name][0]})" for name in ("teacher", "preprocess")]
    return chosen_voters(voters, given, not_of_heads=not_of_heads)
