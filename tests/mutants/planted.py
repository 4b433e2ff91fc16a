"""All planted faults, by group, each with every look at it."""

from __future__ import annotations

from dataclasses import replace

import planted_accounting
import planted_dpsgd
import planted_federation
import planted_ledger
import planted_noise
import planted_numbers
import planted_partition
import planted_training
from planted_games import FOUND, TRIED
from wall import Mutant

_DRAWN = "what is drawn has the law that was meant; what is wrong is the account, or what was voted on"
#: Where a layer is blind by its nature, by group: layer to why.
BLIND = {
    "noise": {
        "replay": "both runs draw alike, and what they draw is not held against an account",
        "pair": "it takes the mechanism's own law for what is drawn",
    },
    "accounting": {"replay": "both runs are charged alike", "law": _DRAWN},
    "ledger": {"law": _DRAWN},
    "partition": {"law": _DRAWN},
    "training": {"law": _DRAWN},
    "numbers": {"law": _DRAWN},
    "federation": {"replay": "it is of one site, which draws and is charged alike in both runs"},
    "DP-SGD": {},
}


def _whole(mutant: Mutant, group: str) -> Mutant:
    """A fault with its games, and with the layers that cannot see it."""
    finds, tried = dict(mutant.finds), dict(mutant.tried)
    if mutant.name in FOUND:
        finds["game"], tried["textbook"] = FOUND[mutant.name]
    if mutant.name in TRIED:
        tried["game"], tried["textbook"] = TRIED[mutant.name]
    blind = {layer: why for layer, why in BLIND[group].items() if layer not in {*finds, *tried}}
    return replace(mutant, finds=finds, tried=tried, blind=blind | dict(mutant.blind))


#: Name of a group to its faults.
GROUPS: dict[str, tuple[Mutant, ...]] = {
    name: tuple(_whole(mutant, name) for mutant in module.MUTANTS)
    for name, module in {
        "noise": planted_noise,
        "accounting": planted_accounting,
        "ledger": planted_ledger,
        "partition": planted_partition,
        "training": planted_training,
        "numbers": planted_numbers,
        "federation": planted_federation,
        "DP-SGD": planted_dpsgd,
    }.items()
}
MUTANTS = [mutant for group in GROUPS.values() for mutant in group]
