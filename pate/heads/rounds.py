"""How many rounds, of what clip and share, in how many dimensions: from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pate.core.checks import check_int, check_real
from pate.exceptions import InvalidInputError

#: (signal over noise from which on, rounds, clip, share of mu^2 of the first): what measured best, see docs/heads.md.
_MANY = ((140.0, 6, 0.3, 0.2), (100.0, 3, 0.5, 0.3), (40.0, 2, 0.7, 0.4))
_TWO_CLASSES = ((40.0, 2, 0.7, 0.3),)
#: Dimensions that served best: so many where mu n is so much, with 10 classes.
_DIMENSIONS, _AT, _GROWTH = 64.0, 1300.0, 0.75


@dataclass(frozen=True)
class RoundsAhead:
    """A plan of rounds, fixed before anything is asked.

    Attributes
    ----------
    n_components : int
    shares : tuple of float
        Of mu^2, one for each round; they add up to 1.
    clips : tuple of float
        One for each round after the first.

    Examples
    --------
    >>> RoundsAhead(64, (1.0,), ()).n_rounds
    1
    """

    n_components: int
    shares: tuple[float, ...]
    clips: tuple[float, ...]

    @property
    def n_rounds(self) -> int:
        """How many."""
        return len(self.shares)

    def mus(self, mu: float) -> tuple[float, ...]:
        """Return what each round may cost: mu^2 adds up to the whole.

        Examples
        --------
        >>> RoundsAhead(64, (0.36, 0.64), (0.5,)).mus(0.5)
        (0.3, 0.4)
        """
        return tuple(mu * math.sqrt(share) for share in self.shares)


def plan_rounds(mu: float, n_units: int, n_classes: int, spectrum: Sequence[float] | int) -> RoundsAhead:
    """Return rounds for signed ballots, from public facts.

    The signal over noise of a whole ballot sum is mu n / (Delta sqrt(d (m - 1))), with Delta = 2 sqrt(1 - 1/m). Under
    about 40 of it one round is best: to divide mu^2 costs more than small residuals save. The numbers are a rule of
    thumb that was found on a few data sets, and nothing of the guarantee hangs on them.

    Parameters
    ----------
    mu : float
        Of the whole budget, by Gaussian differential privacy.
    n_units : int
        Records, a public number.
    n_classes : int
    spectrum : sequence of float, or int
        Variances of the public representation, or how many there are.

    Raises
    ------
    InvalidInputError
        A number out of range.

    Examples
    --------
    >>> plan_rounds(0.502, 40_000, 10, 512).n_rounds, plan_rounds(0.0325, 40_000, 10, 512)
    (6, RoundsAhead(n_components=64, shares=(1.0,), clips=()))
    """
    mu = check_real("mu", mu, low=0, low_open=True)
    n_units, m = check_int("n_units", n_units, low=1), check_int("n_classes", n_classes, low=2)
    there = spectrum if isinstance(spectrum, int) else sum(1 for value in spectrum if value > 0)
    if there < 1:
        raise InvalidInputError("spectrum must have a direction with variance. Fit it on public rows that differ.")
    wanted = _DIMENSIONS * (mu * n_units / _AT) ** _GROWTH * (9 / (m - 1)) ** 0.25
    d = int(min(max(round(wanted), m), there))
    strength = mu * n_units / (2 * math.sqrt((1 - 1 / m) * d * (m - 1)))
    for least, n_rounds, clip, first in _TWO_CLASSES if m == 2 else _MANY:
        if strength >= least:
            rest = (1 - first) / (n_rounds - 1)
            return RoundsAhead(d, (first, *[rest] * (n_rounds - 1)), (clip,) * (n_rounds - 1))
    return RoundsAhead(d, (1.0,), ())
