"""Every planted fault is found by every layer that must find it, and the same layers let the honest code pass."""

from __future__ import annotations

import pytest
from planted import MUTANTS
from planted_games import FOUND, TRIED
from wall import Mutant

FINDS = [(mutant, layer) for mutant in MUTANTS for layer in mutant.finds]
NAMED = [f"{mutant.name}: {layer}" for mutant, layer in FINDS]


def test_the_wall_is_high_enough():
    assert len(MUTANTS) >= 40
    names = {mutant.name for mutant in MUTANTS}
    assert len(names) == len(MUTANTS)
    assert {*FOUND, *TRIED} <= names, "a game of no fault"


@pytest.mark.few(3)
@pytest.mark.parametrize(("mutant", "layer"), FINDS, ids=NAMED)
def test_the_fault_is_found(mutant: Mutant, layer: str):
    found = mutant.finds[layer](True, 1)
    assert found.refuted
    assert found.said


@pytest.mark.few(1)
@pytest.mark.parametrize(("mutant", "layer"), FINDS, ids=NAMED)
def test_the_honest_code_passes(mutant: Mutant, layer: str):
    found = mutant.finds[layer](False, 1)
    assert not found.refuted, found.said


#: Looks that leave nothing to chance but the seeds of training and cuts are repeated less.
REPEATS = {"replay": 8, "pair": 8}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("mutant", "layer"), FINDS, ids=NAMED)
def test_the_honest_code_passes_again_and_again(mutant: Mutant, layer: str):
    refuted = [seed for seed in range(REPEATS.get(layer, 100)) if mutant.finds[layer](False, seed).refuted]
    assert refuted == []
