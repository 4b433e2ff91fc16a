"""What speaks against the use of released labels, as a statement tells it: a kind, and a sentence with its remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pate.exceptions import InvalidInputError
from pate.statement.plain import check_keys, check_text

#: What there may be to say.
KINDS = ("classes never named", "below the commonest", "few public rows")
#: A statement is a page.
MOST_DOUBTS = 20


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """A reason not to rely on released labels; public, as it follows from what was released and from public rows.

    Parameters
    ----------
    kind : {"classes never named", "below the commonest", "few public rows"}
    sentence : str
        What is so, and what helps.

    Raises
    ------
    InvalidInputError
        Another kind, or no plain text.
    """

    kind: str
    sentence: str

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            raise InvalidInputError(f"a doubt's kind must be one of {', '.join(KINDS)}. Name its kind.")
        check_text("a doubt's sentence", self.sentence)

    def __str__(self) -> str:
        return self.sentence

    def to_dict(self) -> dict[str, str]:
        """Return the fields as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, where: str = "a doubt") -> Doubt:
        """Return the doubt behind its dictionary, strictly.

        Raises
        ------
        InvalidInputError
            An entry is unknown, missing or of another kind.
        """
        return cls(**check_keys(where, values, ["kind", "sentence"]))


def check_doubts(values: Any) -> tuple[Doubt, ...]:
    """Return a list of doubts, given as such or as dictionaries."""
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) > MOST_DOUBTS:
        raise InvalidInputError(f"doubts must be a list of at most {MOST_DOUBTS} doubts. Put them into a list.")
    return tuple(
        one if isinstance(one, Doubt) else Doubt.from_dict(one, where=f"doubts[{i}]") for i, one in enumerate(values)
    )
