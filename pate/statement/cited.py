"""What a statement may say of an audit: what was tried, and whether the claim stood; never what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pate.exceptions import InvalidInputError
from pate.statement.plain import check_keys, check_text

#: The layers of an audit, from certain to suggestive, and what each did.
LAYERS = {
    "replay": "inner states compared on two neighbouring data sets",
    "law": "what is drawn compared with the exact law",
    "pair": "the exact divergence of two neighbouring data sets",
    "game": "an attacker who tells two worlds apart",
    "attack": "membership inference",
}
#: A statement is a page.
MOST_AUDITS = 40


@dataclass(frozen=True, kw_only=True)
class CitedAudit:
    """An audit as it may be cited whatever the data were.

    Attributes
    ----------
    layer : {"replay", "law", "pair", "game", "attack"}
    claim : str
        What was to be refuted.
    tried : str
        What was tried.
    stood : bool
        Whether the claim stood. That it did proves nothing; that it did not is proof against it.
    """

    layer: str
    claim: str
    tried: str
    stood: bool

    def __post_init__(self) -> None:
        if not isinstance(self.layer, str) or self.layer not in LAYERS:
            raise InvalidInputError(f"a cited audit's layer must be one of {', '.join(LAYERS)}. Name its layer.")
        check_text("a cited audit's claim", self.claim)
        check_text("a cited audit's tried", self.tried)
        if not isinstance(self.stood, bool):
            raise InvalidInputError("a cited audit's stood must be True or False.")

    def __str__(self) -> str:
        word = "the claim stood" if self.stood else "the claim was REFUTED"
        return f"{self.layer} ({LAYERS[self.layer]}): tried {self.tried}, against {self.claim}; {word}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, where: str = "a cited audit") -> CitedAudit:
        """Return the audit behind its dictionary, strictly.

        Raises
        ------
        InvalidInputError
            An entry is unknown, missing or of another kind: what was found has no place here.
        """
        return cls(**check_keys(where, values, ["layer", "claim", "tried", "stood"]))


def check_audits(values: Any) -> tuple[CitedAudit, ...]:
    """Return a list of cited audits, given as such or as what ``cited()`` returns."""
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) > MOST_AUDITS:
        raise InvalidInputError(
            f"audits must be a list of at most {MOST_AUDITS} audits, each as its cited() gives it. Put them into a "
            "list, or cite those that matter."
        )
    return tuple(
        one if isinstance(one, CitedAudit) else CitedAudit.from_dict(one, where=f"audits[{i}]")
        for i, one in enumerate(values)
    )
