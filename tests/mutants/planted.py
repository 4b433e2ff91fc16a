"""All planted faults, by group, each with every look at it."""

from __future__ import annotations

from dataclasses import replace

import planted_accounting
import planted_dpsgd
import planted_ledger
import planted_noise
import planted_partition
import planted_training
from planted_games import FOUND, TRIED
from wall import Mutant


def _with_games(mutant: Mutant) -> Mutant:
    if mutant.name in FOUND:
        game, textbook = FOUND[mutant.name]
        return replace(mutant, finds={**mutant.finds, "game": game}, tried={**mutant.tried, "textbook": textbook})
    if mutant.name in TRIED:
        game, textbook = TRIED[mutant.name]
        return replace(mutant, tried={**mutant.tried, "game": game, "textbook": textbook})
    return mutant


#: Name of a group to its faults.
GROUPS: dict[str, tuple[Mutant, ...]] = {
    name: tuple(map(_with_games, module.MUTANTS))
    for name, module in {
        "noise": planted_noise,
        "accounting": planted_accounting,
        "ledger": planted_ledger,
        "partition": planted_partition,
        "training": planted_training,
        "DP-SGD": planted_dpsgd,
    }.items()
}
MUTANTS = [mutant for group in GROUPS.values() for mutant in group]
