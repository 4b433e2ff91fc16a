"""Every planted fault is found by every layer that must find it, and the same layers let the honest code pass."""

from __future__ import annotations

import planted_accounting
import planted_dpsgd
import planted_ledger
import planted_noise
import planted_partition
import planted_training
import pytest
from wall import COLUMNS, Mutant

GROUPS = (
    planted_noise, planted_accounting, planted_ledger, planted_partition, planted_training, planted_dpsgd,
)  # fmt: skip
MUTANTS = [mutant for group in GROUPS for mutant in group.MUTANTS]
FINDS = [(mutant, layer) for mutant in MUTANTS for layer in mutant.finds]
NAMED = [f"{mutant.name}: {layer}" for mutant, layer in FINDS]


def test_the_wall_is_high_enough():
    assert len(MUTANTS) >= 40
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize(("mutant", "layer"), FINDS, ids=NAMED)
def test_the_fault_is_found(mutant: Mutant, layer: str):
    found = mutant.finds[layer](True, 1)
    assert found.refuted
    assert found.said


@pytest.mark.parametrize(("mutant", "layer"), FINDS, ids=NAMED)
def test_the_honest_code_passes(mutant: Mutant, layer: str):
    found = mutant.finds[layer](False, 1)
    assert not found.refuted, found.said
