"""What a comparison is about: accuracy of classes or R2 of numbers, within which limits, and how it is printed."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["ACCURACY", "R2", "SCORES", "Score"]


@dataclass(frozen=True, kw_only=True)
class Score:
    """A score that is the mean of one value for each test row, greater where a contestant is better.

    Attributes
    ----------
    name : str
        As results name it.
    least : float
        The least that a mean can be; the greatest is 1.
    kind : str
        numpy's letter of a row's value: ``"b"`` for right or wrong, ``"f"`` for numbers.
    digits, percent : int, bool
        How it is printed: ``95.3%`` or ``0.953``.

    Examples
    --------
    >>> ACCURACY.text(0.953), ACCURACY.gap(0.012), R2.text(0.4531), R2.gap(-0.012), R2.title
    ('95.3%', '+1.2 points', '0.453', '−0.012', 'R2')
    """

    name: str
    least: float
    kind: str
    digits: int
    percent: bool

    @property
    def title(self) -> str:
        """Its name at the beginning of a sentence."""
        return self.name[:1].upper() + self.name[1:]

    @property
    def widest(self) -> float:
        """The greatest difference of two means."""
        return 1.0 - self.least

    @property
    def file(self) -> str:
        """What its picture's file is called."""
        return self.name.lower()

    def text(self, value: float) -> str:
        """Return a mean as text."""
        return f"{self.plain(value)}{'%' if self.percent else ''}"

    def plain(self, value: float) -> str:
        """Return a mean without its unit."""
        return f"{(100 if self.percent else 1) * value:.{self.digits}f}".replace("-", "−")

    def gap(self, value: float, *, unit: bool = True) -> str:
        """Return a difference of two means as text, with a minus as long as a plus."""
        text = f"{(100 if self.percent else 1) * value:+.{self.digits}f}".replace("-", "−")
        return f"{text} points" if unit and self.percent else text


#: The share of test rows that are classified right.
ACCURACY = Score(name="accuracy", least=0.0, kind="b", digits=1, percent=True)
#: One less the mean squared error over the variance of the test rows' numbers: 0 of their mean, 1 of the truth.
R2 = Score(name="R2", least=-math.inf, kind="f", digits=3, percent=False)
#: By name.
SCORES = {score.name: score for score in (ACCURACY, R2)}
