"""What is claimed of the models that are attacked: by the caller, or by the models' own statements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pate.audit.claims import Claim
from pate.privacy.words import Guarantee

#: Beyond it two steps promise nothing that could be measured.
_MOST_EPSILON = 250.0


@dataclass(frozen=True)
class Ceiling:
    """The claim that attacks are held against; None where there is none.

    Attributes
    ----------
    claim : Claim or None
    words : str
    remark : str
        What to add to the limits.
    """

    claim: Claim | None
    words: str
    remark: str = ""

    @property
    def sensitive(self) -> bool:
        """Whether the claim itself is a private number."""
        return self.claim is not None and self.claim.sensitive


def promised(given: Any, promises: Sequence[dict[str, Any]], unit: str) -> Ceiling:
    """Return what attacks on models fitted on halves of a fixed size are held against.

    Parameters
    ----------
    given : None, or what Claim.of takes
        None asks the models' own statements.
    promises : sequence of dict
        Of each model: "epsilon", "delta", "adjacency", "unit" and "seeded"; empty for one without a statement.
    unit : {"record", "group"}
        What is attacked.

    Notes
    -----
    **Guarantees.** A unit replaced by another is two steps for whom adding or removing one is a step, or emptying it: P
    <= e^epsilon (e^epsilon Q + delta) + delta.
    """
    if given is not None:
        if isinstance(given, Guarantee) and given.adjacency != "replace-one" and given.kind != "data-dependent":
            return _two_steps(Claim.of(given), given.epsilon, given.delta, given.adjacency, unit)
        claim = Claim.of(given)
        return Ceiling(claim, str(claim))
    if not all(promises):
        return Ceiling(None, "nothing")
    if any(p["seeded"] for p in promises):
        return Ceiling(None, "nothing", " Their noise is seeded: they promise nothing.")
    if {p["unit"] for p in promises} != {unit}:
        other = "record" if unit == "group" else "group"
        return Ceiling(None, "nothing", f" The models protect one {other}, not one {unit}: no ceiling is drawn.")
    weakest = max(promises, key=lambda p: (p["epsilon"], p["delta"]))
    epsilon, delta = weakest["epsilon"], max(p["delta"] for p in promises)
    claim = Claim.of((epsilon, delta))
    if weakest["adjacency"] == "replace-one":
        return Ceiling(claim, str(claim))
    return _two_steps(claim, epsilon, delta, weakest["adjacency"], unit)


def _two_steps(claim: Claim, epsilon: float, delta: float, adjacency: str, unit: str) -> Ceiling:
    if epsilon > _MOST_EPSILON:
        return Ceiling(claim, f"{claim} ({adjacency})", " So large an epsilon sets no ceiling.")
    replaced = (1 + math.exp(epsilon)) * delta
    if replaced >= 1:
        return Ceiling(None, f"{claim} ({adjacency})", f" Where a {unit} is replaced, that sets no ceiling.")
    twice = Claim.of((2 * epsilon, replaced))
    text = f"({2 * epsilon:.6g}, {replaced:.6g})-DP"
    return Ceiling(twice, f"{claim} ({adjacency}), {text} where a {unit} is replaced")
