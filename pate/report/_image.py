"""A public image, small enough to stand in a result, and what was released of it."""

from __future__ import annotations

from dataclasses import dataclass

from pate.exceptions import InvalidInputError
from pate.report._record import Record, Scalar


@dataclass(frozen=True, kw_only=True)
class Example(Record):
    """A public image and what was released of it.

    Attributes
    ----------
    image : tuple of str
        Its lines from above, a digit for each point: 0 for none, 9 for most.
    label : str, number, or None
        The class value released; None where none was.
    confidence : float or None
        Its probability by the released model.
    lead : float or None
        Noisy votes of the first class minus the second, where counts were released.
    """

    _name = "example"
    image: tuple[str, ...]
    label: Scalar
    confidence: float | None = None
    lead: float | None = None

    def _check(self) -> None:
        widths = {len(line) for line in self.image}
        plain = all(line.isascii() and line.isdecimal() for line in self.image)
        if not plain or len(widths) != 1 or max(*widths, len(self.image)) > 64:
            raise InvalidInputError(
                f"{self._name} must have lines of equal length, of digits alone, at most 64 by 64. "
                "Take a smaller image."
            )
