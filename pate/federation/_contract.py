"""What an engine for secure computation among institutions is asked, and what it promises: any engine is one class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pate._core.checks import check_int
from pate._core.types import IntArray
from pate.exceptions import FederationError, InvalidInputError


class Heard(FederationError):
    """What an engine says of other parties: seldom the cause."""


@dataclass(frozen=True)
class Party:
    """One party of a secure computation: its name (as in its certificate), and the address where its engine listens.

    Examples
    --------
    >>> Party("hospital-a", "127.0.0.1", 7201).name
    'hospital-a'
    """

    name: str
    host: str
    port: int


@dataclass(frozen=True, kw_only=True)
class Trust:
    """What a secure-computation engine promises, and against whom; the accounting and the statement use it.

    Attributes
    ----------
    engine : str
        Name, version and method, for the statement.
    tolerate : int
        So many parties, the coordinator among them, may put together all that they received: they learn what is opened
        and their own inputs, nothing else.
    drop_outs : int
        So many parties may fall silent and the sum is opened all the same; 0: then nothing is opened.
    active : bool
        Whether that holds for parties too that send what the protocol does not say.
    comparison_bits : int
        A secure comparison reveals more than its result with probability at most 2^-comparison_bits; sums use no
        comparisons.

    Examples
    --------
    >>> Trust(engine="MPyC 0.11, Shamir sharing", tolerate=3).active
    False
    """

    engine: str
    tolerate: int
    drop_outs: int = 0
    active: bool = False
    comparison_bits: int = 60


def check_tolerate(tolerate: int, n_parties: int, who: str = "") -> int:
    """Return the size of a coalition that can be withstood: below half of all parties; ``who`` says who they are."""
    if 2 * check_int("tolerate", tolerate, low=1) >= n_parties:
        most = (n_parties - 1) // 2
        raise InvalidInputError(
            f"tolerate must be below half of the {n_parties} parties{who}, got {tolerate}. "
            f"{f'Tolerate at most {most}, or ask' if most > 0 else 'Ask'} {2 * tolerate + 1 - n_parties} more sites."
        )
    return tolerate


@runtime_checkable
class SecureAggregator(Protocol):
    """The interface of one party in a secure computation; all parties make the same calls in the same order.

    It can be used for several calls; closing it ends the processes that it started. Every call ends before its
    deadline: with the result, or with :class:`pate.exceptions.FederationError`, which names the party that did not
    answer; then nothing is revealed.

    Examples
    --------
    >>> isinstance(object(), SecureAggregator)
    False
    """

    trust: Trust

    def sum(
        self, values: Sequence[int] | None, *, length: int, bound: int, deadline: float, about: bytes = b""
    ) -> list[int] | None:
        """Return the exact sum over all parties of ``length`` whole numbers each; None where others get it.

        ``values`` of None count as zeros (a coordinator without data). ``bound`` is public: no sum is beyond it in
        absolute value. ``deadline`` in seconds from now. ``about`` is a digest of what the parties were asked: where
        one has another, nothing is summed.
        """

    def argmax(
        self, counts: Sequence[int] | None, *, n_classes: int, length: int, bound: int, deadline: float,
        about: bytes = b"",
    ) -> IntArray | None:  # fmt: skip
        """Return, for each of ``length / n_classes`` queries, the class with the largest sum over all parties.

        Nothing but these labels is opened; None where they are not opened to this party. Ties go to the class with the
        lowest index.
        """

    def close(self) -> None:
        """End the engine's process and remove its files."""
