"""Published figures of the same data set, to stand beside a comparison: their papers' word, nothing measured here."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources


@dataclass(frozen=True)
class Anchor:
    """An accuracy at an epsilon as a paper states both.

    Attributes
    ----------
    dataset, method, side, source : str
    accuracy, epsilon, delta : float
    adjacency : str
        Empty where the paper's was not checked here.
    accounting : {"worst case", "data-dependent", "as claimed"}
    """

    dataset: str
    method: str
    side: str
    accuracy: float
    epsilon: float
    delta: float
    adjacency: str
    accounting: str
    source: str

    def differs(self, delta: float, adjacency: str | None) -> str:
        """Return in what its promise is another one than that of a comparison; empty where it is the same.

        Parameters
        ----------
        delta : float
            Of the comparison.
        adjacency : str or None
            Of the comparison; None where nobody says.
        """
        told = [] if delta == self.delta else [f"δ = {self.delta:g}"]
        if not self.adjacency:
            told.append("adjacency not checked here")
        elif adjacency != self.adjacency:
            told.append(f"{self.adjacency} adjacency")
        if self.accounting != "worst case":
            claimed = {"data-dependent": "its ε depends on the votes", "as claimed": "accounting not checked here"}
            told.append(claimed[self.accounting])
        return "; ".join(told)


def anchors(dataset: str | None) -> tuple[Anchor, ...]:
    """Return the published figures of one data set, by epsilon."""
    return tuple(sorted((a for a in _all() if a.dataset == dataset), key=lambda a: a.epsilon))


@lru_cache(maxsize=1)
def _all() -> tuple[Anchor, ...]:
    file = resources.files("pate") / "_templates" / "anchors.toml"
    told = tomllib.loads(file.read_text(encoding="utf-8"))
    return tuple(Anchor(**{**entry, "source": told["source"][entry["source"]]}) for entry in told["anchor"])
