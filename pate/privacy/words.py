"""A guarantee with everything it needs to be read rightly, and a wrapper that hides private numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Generic, NoReturn, TypeVar

from pate._core.checks import largest_of
from pate.exceptions import SensitiveValueError
from pate.privacy.convert import format_up

T = TypeVar("T")

#: A constant known before the run / a private number about these very votes / a publishable form of the latter.
#: "seeded" is none of these: the noise can be subtracted by anyone who knows the seed.
KINDS = ("public", "data-dependent", "sanitised", "seeded")
#: What an epsilon up to so much is commonly called (Ponomareva et al. 2023); a larger one is weak.
STRONG, REASONABLE = 1.0, 10.0
TIERS = f"up to {STRONG:g} strong, up to {REASONABLE:g} reasonable, else weak"
#: Above this epsilon no one is protected at any usual delta.
NO_PROTECTION = 100.0
#: A delta above this part of 1/n is not well below 1/n.
WELL_BELOW = 0.1


def tier(epsilon: float, delta: float = 0.0, n_units: int | None = None) -> str:
    """Return what a guarantee is commonly called: "strong", "reasonable" or "weak".

    Publishing one whole record, picked at random, with probability p is (0, p/n)-DP. So a delta of 1/n or more is weak
    at any epsilon, and one above a tenth of that is not strong.

    Parameters
    ----------
    epsilon, delta : float
    n_units : int or None
        How many there are to pick from, where that is public; else only epsilon counts.
    """
    one_record = delta * (n_units or 0)
    if epsilon > REASONABLE or one_record >= 1:
        return "weak"
    return "strong" if epsilon <= STRONG and one_record <= WELL_BELOW else "reasonable"


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """An (epsilon, delta) with what it needs to mean something: its kind, theorem, adjacency and directions.

    Attributes
    ----------
    epsilon, delta : float
    kind : {"public", "data-dependent", "sanitised", "seeded"}
        Only public and sanitised numbers may be published; seeded noise protects no one.
    method : str
        The theorem that gives epsilon.
    order : float or None
        The Renyi order, where one was used.
    adjacency : str
        Which data sets are neighbours.
    directions : {"both", "forward"}
        ``"forward"`` bounds D(M(D) || M(D')) alone, as the 2018 paper does; privacy needs both.
    adaptivity : {"adaptive", "fixed queries"}
        Whether later queries may depend on earlier answers.

    Raises
    ------
    InvalidInputError
        epsilon or delta is NaN: what could not be computed promises nothing.

    Examples
    --------
    >>> print(Guarantee(epsilon=1.0, delta=1e-5, kind="public", method="gdp"))
    (1, 1e-05)-DP, public, by gdp, adjacency replace-one, both directions, adaptive
    """

    epsilon: float
    delta: float
    kind: str
    method: str
    order: float | None = None
    adjacency: str = "replace-one"
    directions: str = "both"
    adaptivity: str = "adaptive"

    def __post_init__(self) -> None:
        largest_of(self.epsilon)  # neither may be NaN
        largest_of(self.delta)

    def __str__(self) -> str:
        order = "" if self.order is None else f" (order {self.order:g})"
        directions = "both directions" if self.directions == "both" else "forward direction only"
        kind = "NOT PRIVATE: seeded noise" if self.kind == "seeded" else self.kind
        return (
            f"({format_up(self.epsilon, 6)}, {self.delta:g})-DP, {kind}, by {self.method}{order}, "
            f"adjacency {self.adjacency}, {directions}, {self.adaptivity}"
        )

    def to_dict(self, *, include_sensitive: bool = False) -> dict[str, Any]:
        """Return the fields for JSON; a data-dependent number only with ``include_sensitive=True``.

        Raises
        ------
        SensitiveValueError
            The number is a private one and was not asked for by name.
        """
        if self.kind == "data-dependent" and not include_sensitive:
            raise SensitiveValueError(
                "a data-dependent epsilon is itself a function of the private votes and must not be published. "
                "Export the public guarantee, or pass include_sensitive=True for a file that stays inside."
            )
        return asdict(self)


class Sensitive(Generic[T]):
    """A wrapper around a private value, which is visible only by a call of :meth:`reveal`.

    Printing, formatting, comparing, hashing, truth-testing, copying and pickling are refused or do not show it, so that
    the value does not get into a log, a notebook or a file by accident.

    Examples
    --------
    >>> secret = Sensitive(0.93, "data-dependent epsilon")
    >>> secret
    Sensitive(data-dependent epsilon: hidden; .reveal() shows it)
    >>> secret.reveal()
    0.93
    """

    __slots__ = ("__show", "_label")

    def __init__(self, value: T, label: str = "value") -> None:
        # In a closure: debuggers, inspect.getmembers and the like see a function, not the number.
        self.__show = lambda: value
        self._label = label

    def reveal(self) -> T:
        """Return the private value. Do not publish it."""
        return self.__show()

    def __repr__(self) -> str:
        return f"Sensitive({self._label}: hidden; .reveal() shows it)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def _refuse(self, *_: Any) -> NoReturn:
        raise SensitiveValueError(
            f"the {self._label} is private: it cannot be compared, converted, copied or pickled. "
            "Call .reveal() where its disclosure is meant."
        )

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __bool__ = __float__ = __int__ = __index__ = __hash__ = __reduce__ = __getstate__ = _refuse
