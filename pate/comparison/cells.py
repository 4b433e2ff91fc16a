"""One fit of a comparison, as it is kept."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from pate.exceptions import InvalidInputError
from pate.report.rows import Row
from pate.statement.model import PrivacyStatement

#: Which fit: contestant, epsilon (None of a floor or a ceiling), repeat.
Key = tuple[str, float | None, int]


def packed(right: npt.NDArray[np.bool_]) -> str:
    """Return truth values as text, eight to a byte."""
    return base64.b64encode(np.packbits(right).tobytes()).decode()


@dataclass(frozen=True, kw_only=True)
class Cell(Row):
    """One fit of one contestant at one budget, and what came of it: a row, and what a reader does not need.

    Attributes
    ----------
    contestant, epsilon, delta, repeat, accuracy, ...
        Those of :class:`pate.report.rows.Row`.
    seeded : bool or None
        Whether the noise could be repeated (then nothing is private); None where the contestant does not say.
    statement : PrivacyStatement or None
        The contestant's privacy statement (public).
    right : str or None
        Which of the test rows were classified right, packed (:meth:`rights`).
    persons : str or None
        Where test rows are persons', who then stand one after the other: which rows begin another person, packed
        (:meth:`owners`).
    took_groups : bool or None
        Whether the fit was told whose each private row is; None where the data do not say, and of floors.

    Examples
    --------
    >>> Cell(contestant="PATE", epsilon=1.0, delta=1e-5, repeat=0, accuracy=0.9, seed=7).key
    ('PATE', 1.0, 0)
    """

    _name = "cell"
    seeded: bool | None = None
    statement: PrivacyStatement | None = None
    right: str | None = None
    persons: str | None = None
    took_groups: bool | None = None

    def _check(self) -> None:
        super()._check()
        for name in ("right", "persons"):
            if (text := getattr(self, name)) is None:
                continue
            try:
                held = len(base64.b64decode(text, validate=True))
            except (binascii.Error, ValueError):
                held = -1
            if self.n_test is None or held != (self.n_test + 7) // 8:
                raise InvalidInputError(f"cell[{name!r}] must be the packed truth values of its test rows.")

    @property
    def key(self) -> Key:
        """Which fit of the comparison this is."""
        return self.contestant, self.epsilon, self.repeat

    def rights(self) -> npt.NDArray[np.bool_] | None:
        """Return which of the test rows were classified right, shape (n_test,); None where that was not kept.

        Examples
        --------
        >>> right = np.array([True, False, True])
        >>> cell = Cell(contestant="A", epsilon=1.0, delta=1e-5, accuracy=2 / 3, seed=7, n_test=3, right=packed(right))
        >>> cell.rights()
        array([ True, False,  True])
        """
        return self._unpacked(self.right)

    def owners(self) -> npt.NDArray[np.int64] | None:
        """Return whose each test row is, as numbers from 0 on, shape (n_test,); None where each is its own.

        Examples
        --------
        >>> begins = np.array([True, False, True])
        >>> cell = Cell(
        ...     contestant="A", epsilon=1.0, delta=1e-5, accuracy=1.0, seed=7, n_test=3, persons=packed(begins))
        >>> cell.owners()
        array([0, 0, 1])
        """
        begins = self._unpacked(self.persons)
        return None if begins is None else np.cumsum(begins) - 1

    def _unpacked(self, text: str | None) -> npt.NDArray[np.bool_] | None:
        if text is None:
            return None
        bits = np.frombuffer(base64.b64decode(text), dtype=np.uint8)
        return np.unpackbits(bits, count=self.n_test).astype(np.bool_)

    def row(self) -> Row:
        """Return what a result says of the fit.

        Examples
        --------
        >>> Cell(contestant="PATE", epsilon=1.0, delta=1e-5, repeat=0, accuracy=0.9, seed=7).row().accuracy
        0.9
        """
        return Row(**{name: getattr(self, name) for name in COLUMNS})


COLUMNS = tuple(f.name for f in fields(Row))
