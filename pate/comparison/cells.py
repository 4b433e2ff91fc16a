"""One fit of a comparison, as it is kept."""

from __future__ import annotations

from dataclasses import dataclass, fields

from pate.report.result import Row
from pate.statement.model import PrivacyStatement


@dataclass(frozen=True, kw_only=True)
class Cell(Row):
    """One fit of one contestant at one budget, and what came of it: a row, and what a reader does not need.

    Attributes
    ----------
    contestant, epsilon, delta, accuracy, seed, queries, answers
        Those of :class:`pate.report.result.Row`.
    repeat : int
        0, 1, ...
    seeded : bool or None
        Whether the noise could be repeated (then nothing is private); None where the contestant does not say.
    statement : PrivacyStatement or None
        The contestant's privacy statement (public).

    Examples
    --------
    >>> Cell(contestant="PATE", epsilon=1.0, delta=1e-5, repeat=0, accuracy=0.9, seed=7).key
    ('PATE', 1.0, 0)
    """

    _name = "cell"
    repeat: int
    seeded: bool | None = None
    statement: PrivacyStatement | None = None

    @property
    def key(self) -> tuple[str, float, int]:
        """Which fit of the comparison this is."""
        return self.contestant, self.epsilon, self.repeat

    def row(self) -> Row:
        """Return what a result says of the fit.

        Examples
        --------
        >>> Cell(contestant="PATE", epsilon=1.0, delta=1e-5, repeat=0, accuracy=0.9, seed=7).row()
        Row(contestant='PATE', epsilon=1.0, delta=1e-05, accuracy=0.9, seed=7, queries=None, answers=None)
        """
        return Row(**{name: getattr(self, name) for name in COLUMNS})


COLUMNS = tuple(f.name for f in fields(Row))
