"""What may be selected, by kind: DP-SGD, PATE, or a classifier whose price somebody states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pate.core.checks import shown
from pate.exceptions import InvalidInputError
from pate.selection._contestant import Candidate, Contestant, Facts, StatedContestant


def read_candidates(candidates: Any, facts: Facts) -> tuple[Contestant, ...]:
    """Return the contestants by name, checked as far as public numbers go.

    Raises
    ------
    InvalidInputError
        None, of an unknown kind, or with settings that are the selection's.
    """
    if isinstance(candidates, list | tuple):
        candidates = {f"candidate {i}": one for i, one in enumerate(candidates, start=1)}
    if not isinstance(candidates, Mapping) or not candidates:
        raise InvalidInputError(
            f"candidates must be a dictionary of names to classifiers, or a list of them, got {shown(candidates)}. For "
            'example {"slow": DPSGDClassifier(...), "fast": DPSGDClassifier(...)}.'
        )
    found = tuple(_contestant(name, one, facts) for name, one in candidates.items())
    for one in found:
        one.check_own()
    return found


def _contestant(name: Any, candidate: Any, facts: Facts) -> Contestant:
    if not isinstance(name, str) or not name.strip():
        raise InvalidInputError(f"candidates must have texts for names, got {shown(name)}.")
    if isinstance(candidate, Candidate):
        return StatedContestant(name, candidate.estimator, facts, candidate.charge)
    # By name: nobody pays for importing torch who has no use for it.
    rooms = {kind.__module__.rpartition(".")[0] for kind in type(candidate).__mro__}
    if "pate.dpsgd" in rooms:
        from pate.selection._by_dpsgd import DPSGDContestant

        return DPSGDContestant(name, candidate, facts)
    if "pate.estimator" in rooms:
        from pate.selection._by_pate import PATEContestant

        return PATEContestant(name, candidate, facts)
    raise InvalidInputError(
        f"the candidate {name!r} must be a DPSGDClassifier, a PATEClassifier or a pate.selection.Candidate(estimator, "
        f"charge), got {type(candidate).__name__}: no price is known of it."
    )
