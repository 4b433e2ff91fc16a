"""The wall of bugs: faults planted one by one, and the layers of the audit that find them.

Each fault is of a kind that published code has had. It stands in a subclass, a copy, or a patch of our own code that
ends with its test. A *look* runs one layer on the honest code or on the faulty one; what it must say of each is what
``test_wall.py`` checks, and ``experiments/wall_of_bugs.py`` makes the table of ``docs/audit-faults.md`` of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

#: From certain to suggestive; "textbook" is a game's (epsilon, delta) bound by Clopper and Pearson alone, and "check" a
#: check of something that the audit's layers hold fixed.
COLUMNS = ("replay", "law", "pair", "game", "textbook", "attack", "check")


@dataclass(frozen=True)
class Found:
    """What one look at one layer gave.

    Attributes
    ----------
    refuted : bool
    releases : int
        Outcomes drawn, or whole runs made; 0 where nothing is drawn.
    said : str
        The first thing found, in words.
    """

    refuted: bool
    releases: int = 0
    said: str = ""


#: A look at one layer: (planted, seed) to what was found; honest code where nothing is planted.
Look = Callable[[bool, int], Found]


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Attributes
    ----------
    name : str
        What is wrong, in a few words.
    seen : str
        In which kind of code it was seen.
    finds : mapping of layer to look
        The layers that must find it.
    tried : mapping of layer to look
        Layers that are tried and need not find it with the releases that they are given.
    blind : mapping of layer to str
        Layers that cannot see it, and why.
    slow : bool
        Whether its looks take more than a few seconds.
    """

    name: str
    seen: str
    finds: Mapping[str, Look]
    tried: Mapping[str, Look] = field(default_factory=dict)
    blind: Mapping[str, str] = field(default_factory=dict)
    slow: bool = False

    def __post_init__(self) -> None:
        named = [*self.finds, *self.tried, *self.blind]
        if not self.finds or len(set(named)) < len(named) or set(named) - set(COLUMNS):
            raise ValueError(f"{self.name}: every layer once, of {COLUMNS}, and one at least that finds it")
