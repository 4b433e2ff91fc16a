"""The interface of a mechanism: the noise of a release and its privacy cost, in one frozen value."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from pate._core.checks import check_int, check_real
from pate._core.recorder import note, playing
from pate.exceptions import InvalidInputError
from pate.privacy.convert import DEFAULT_ORDERS
from pate.privacy.cost import MIN_NOISE, Charge
from pate.privacy.noise.source import NoiseSource
from pate.votes import ABSTAIN

#: Replacing one unit's data changes one teacher, so one vote per query is replaced: two counts move by one.
VOTE_L2_SENSITIVITY = math.sqrt(2)
#: The largest count moves by at most one.
MAX_COUNT_SENSITIVITY = 1.0

#: What became of a query.
ANSWERED, REFUSED, NOT_ASKED = "answered", "refused", "not asked"


@dataclass(frozen=True, eq=False)
class Draw:
    """The outcome of a mechanism for a batch of queries: labels, status and, if released, noisy counts.

    Attributes
    ----------
    labels : int64 array of shape (n_queries,)
        Class indices, ``ABSTAIN`` where refused or not asked.
    status : array of str, shape (n_queries,)
        ``"answered"``, ``"refused"`` or ``"not asked"``.
    noisy_counts : float array of shape (n_queries, n_classes) or None
        Only where the mechanism releases them; NaN rows where not asked.

    Examples
    --------
    >>> Draw(np.array([2, -1]), np.array(["answered", "refused"]), None).labels
    array([ 2, -1])
    """

    labels: npt.NDArray[np.int64]
    status: npt.NDArray[np.str_]
    noisy_counts: npt.NDArray[np.float64] | None = None


def _noted(sample: Any) -> Any:
    """Make what a mechanism is asked to sample known to a replay, also for a mechanism of your own."""
    signature = inspect.signature(sample)

    @functools.wraps(sample)
    def noted(*args: Any, **options: Any) -> Any:
        if playing() is not None:
            # Of any signature: what comes after self is the votes, whatever it is called.
            (_, mechanism), *given = signature.bind(*args, **options).arguments.items()
            rest = dict(given[1:])
            rest |= rest.pop("options", {})
            note("draw", mechanism=mechanism, values=given[0][1], options=rest)
        return sample(*args, **options)

    return noted


@dataclass(frozen=True)
class Noisy:
    """Base of mechanisms: their noise scales, each checked, which grow together when one is calibrated."""

    #: The fields that hold a standard deviation or scale of noise; empty where there is none.
    noise_fields: ClassVar[tuple[str, ...]] = ("sigma",)
    #: The largest noise there may be, and what it is.
    _most: ClassVar[float] = math.inf
    _unit: ClassVar[str] = "It says how large the noise is, in votes."

    def __post_init__(self) -> None:
        for name in self.noise_fields:
            if not hasattr(self, name):
                raise InvalidInputError(
                    f"noise_fields of {type(self).__name__} must name fields that hold a scale of noise, got {name!r}. "
                    'Write noise_fields = ("width",) in the class, say; () where there is no such field.'
                )
            value = check_real(name, getattr(self, name), low=MIN_NOISE, high=self._most, remedy=self._unit)
            object.__setattr__(self, name, value)

    def scaled(self, factor: float) -> Self:
        """Return the same with every noise multiplied by ``factor``, as :func:`pate.privacy.calibrate` asks for."""
        return dataclasses.replace(self, **{name: getattr(self, name) * factor for name in self.noise_fields})


@dataclass(frozen=True)
class Mechanism(Noisy, ABC):
    """Base class of mechanisms: the noise of a release and its privacy cost, in one frozen value.

    Subclasses define :meth:`charge` and :meth:`sample` side by side, so that the noise that is drawn is the noise that
    is charged. Votes and generators are arguments. docs/extend.md shows how to write your own.

    Attributes
    ----------
    family : str
        The name by which a ledger recognises stored answers.
    noise_fields : tuple of str
        Fields that hold a scale of noise; ``("sigma",)`` if nothing else is said. Each is checked when one is made, and
        audits try other scales. A mechanism without such a field says ``()``, and may define ``scaled`` itself.
    may_refuse : bool
        Whether it may refuse to answer, so that a cap on answers lowers the price.

    Examples
    --------
    >>> from pate import GNMax
    >>> isinstance(GNMax(sigma=40.0), Mechanism)
    True
    """

    #: The family by which stored answers are recognised.
    family: ClassVar[str]
    #: Whether the mechanism may refuse, so that a cap on answers lowers the price.
    may_refuse: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if inspect.isfunction(vars(cls).get("sample")):  # a static method, say, is as it was
            cls.sample = _noted(cls.sample)  # type: ignore[method-assign]

    @abstractmethod
    def charge(self, n_queries: int, max_answers: int | None = None) -> Charge:
        """Return the worst-case cost of asking ``n_queries`` and answering at most ``max_answers`` of them."""

    @abstractmethod
    def sample(self, counts: npt.NDArray[np.int64], noise: NoiseSource, *, max_answers: int | None = None) -> Draw:
        """Draw the outcomes for counts of shape (n_queries, n_classes); ``max_answers`` stops early."""

    def check_classes(self, n_classes: int) -> None:
        """Refuse votes of so many classes where the mechanism is for others; nothing is spent."""

    def public_rdp(self, orders: npt.ArrayLike = DEFAULT_ORDERS) -> npt.NDArray[np.float64]:
        """Return the worst-case Renyi divergence of one query asked and answered, shape (n_orders,).

        ``orders`` outside :data:`~pate.privacy.DEFAULT_ORDERS` are interpolated by the chords of the convex
        (alpha - 1) D_alpha, which is an upper bound; beyond the last order it is infinite.
        """
        return self.charge(1).rdp_at(orders)

    def _asked(self, n_queries: int, max_answers: int | None) -> tuple[int, int]:
        n_queries = check_int("n_queries", n_queries, low=0)
        cap = n_queries if max_answers is None else check_int("max_answers", max_answers, low=0)
        return n_queries, min(cap, n_queries)


def all_answered(labels: npt.NDArray[np.int64], noisy: npt.NDArray[np.float64] | None = None) -> Draw:
    """Return a draw in which every query got its label."""
    return Draw(labels.astype(np.int64), np.full(len(labels), ANSWERED, dtype="<U9"), noisy)


def capped(passed: npt.NDArray[np.bool_], labels: npt.NDArray[np.int64], max_answers: int | None) -> Draw:
    """Return a draw that answers the first ``max_answers`` queries that passed and asks none after them."""
    status = np.where(passed, ANSWERED, REFUSED).astype("<U9")
    cap = len(passed) if max_answers is None else max_answers
    order = np.cumsum(passed)
    # Once the last allowed answer is given the run is over: later tests are never looked at.
    over = (order - passed >= cap) if cap else np.ones(len(passed), dtype=bool)
    status[over] = NOT_ASKED
    return Draw(np.where(status == ANSWERED, labels, ABSTAIN).astype(np.int64), status)
