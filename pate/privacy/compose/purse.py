"""What the mathematics asks of whoever keeps the money: that it is paid before anything is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pate.privacy.budget import Budget
    from pate.privacy.cost import Charge


class Allowance(Protocol):
    """What is left to spend, such as :meth:`pate.Ledger.remaining`.

    Examples
    --------
    >>> from pate.privacy import Budget, Charge
    >>> isinstance(Budget(1.0, 1e-5).allows(Charge.zero()), bool)
    True
    """

    def allows(self, cost: Charge) -> bool:
        """Return whether a release of this cost fits."""


class Purse(Protocol):
    """What a gate or a private selection is paid from, such as a :class:`pate.Ledger`.

    Examples
    --------
    >>> from pate import Ledger
    >>> callable(Ledger.pay)
    True
    """

    def pay(
        self,
        cost: Charge,
        *,
        what: str,
        kind: str,
        total: Budget | None = None,
        votes: Any = None,
        n_queries: int = 0,
        facts: dict[str, Any] | None = None,
        seeded: bool = False,
        open_ended: bool = False,
    ) -> int:
        """Charge a cost, or raise and charge nothing; return the charge's number.

        Parameters
        ----------
        cost : Charge
            A worst case fixed beforehand.
        what, kind : str
            What is paid for, in words; and one of :data:`pate.ledger.KINDS`.
        total : Budget or None
            What a purse that has no total yet is opened with.
        votes : Votes or None
            Whose they are is compared with whom the purse is for.
        n_queries : int
        facts : dict or None
            Further public facts.
        seeded : bool
            Whether the noise can be repeated.
        open_ended : bool
            Whether answers will be stored under the number.
        """
