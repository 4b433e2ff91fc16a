"""Validate the plain values of a statement: what its JSON may contain, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from pate._core.checks import least_of
from pate._core.pages import ODD
from pate.exceptions import InvalidInputError
from pate.privacy.convert import format_up
from pate.privacy.cost import Charge
from pate.privacy.words import Guarantee

# What a charge promises besides one (epsilon, delta): Gaussian DP, concentrated DP, and epsilon at other deltas.

#: Public constants: a curve's deltas may not be chosen by the data.
CURVE_DELTAS = (1e-4, 1e-5, 1e-6, 1e-8, 1e-10)
#: Beyond this mu^2 (epsilon above 5e19) more numbers inform no one.
_MOST = 1e20


def promises(cost: Charge) -> dict[str, Any]:
    """Return a statement's ``mu``, ``rho`` and ``curve`` of a cost that was fixed beforehand."""
    return dict(_promises(cost))


@lru_cache(maxsize=64)  # every round of a session promises what the session does
def _promises(cost: Charge) -> dict[str, Any]:
    mu_squared, never_fails = cost.mu_squared, cost.delta0 == 0
    rho = least_of(mu_squared / 2, cost.pure * cost.pure / 2)
    if _MOST < mu_squared < math.inf:
        # An absurd price must not stop labels that were paid for: at other deltas it may be beyond the arithmetic.
        return {"mu": None, "rho": None, "curve": ()}
    # Twice delta0: what a chance of failing leaves of a delta near it would cost absurdly much.
    deltas = [delta for delta in CURVE_DELTAS if delta > 2 * cost.delta0]
    mu = math.sqrt(mu_squared) if never_fails and math.isfinite(mu_squared) else None
    return {
        "mu": mu,
        "rho": rho if never_fails and math.isfinite(rho) else None,
        "curve": (
            *((delta, cost.guarantee(delta).epsilon) for delta in deltas),
            *(at_epsilon_0(cost.total_variation()) if mu is None else ()),
        ),
    }


def at_epsilon_0(total_variation: float) -> tuple[tuple[float, float], ...]:
    """Return the point of a curve that is a bound on the total variation, to six digits; none where it says nothing."""
    delta = float(format_up(total_variation, 6))
    return ((delta, 0.0),) if delta < 1 else ()


#: What a statement may promise: a data-dependent epsilon is private, and one direction alone is no privacy.
_PROMISES = {
    "kind": ("public", "sanitised", "seeded"),
    "adjacency": ("replace-one", "add-or-remove", "zero-out"),
    "directions": ("both",),
}
_MOST_UNITS = 10**15
#: Largest number of a statement.
LARGEST = 1e300
#: Longest text of a statement's field, in characters. A page is a page.
MAX_TEXT = 4000


def check_text(name: str, value: Any) -> str:
    """Return a text that a page can show as it is."""
    if not isinstance(value, str) or len(value) > MAX_TEXT or ODD.search(value):
        raise InvalidInputError(
            f"{name} must be text of at most {MAX_TEXT} characters, none of them a control character, got "
            f"{_short(value)}. Convert or shorten it."
        )
    return str(value)


def as_plain_text(value: Any) -> str:
    r"""Return any value as a text that :func:`check_text` takes: odd characters become spaces, the end is cut off."""
    text = ODD.sub(" ", str(value))
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 4] + " ..."


def check_texts(name: str, values: Any) -> tuple[str, ...]:
    """Return a list of texts as a tuple."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InvalidInputError(f"{name} must be a list of texts, got {_short(values)}. Put it into a list.")
    return tuple(check_text(f"{name}[{i}]", value) for i, value in enumerate(values))


def check_keys(name: str, value: Any, keys: Sequence[str]) -> Mapping[str, Any]:
    """Return a mapping that has these keys and no others."""
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{name} must be a dictionary, got {_short(value)}. Pass what the file holds.")
    unknown = [key for key in value if key not in keys]
    if unknown:
        raise InvalidInputError(f"{name} has the unknown entry {_short(unknown[0])}. It may have: {', '.join(keys)}.")
    missing = [key for key in keys if key not in value]
    if missing:
        raise InvalidInputError(f"{name} lacks {missing[0]!r}. It must have: {', '.join(keys)}.")
    return value


def check_number(name: str, value: Any, *, low: float, high: float) -> float:
    """Return a number between the bounds as a float; a whole number of any length is compared before it is turned."""
    # numpy's float64 is a float; NaN fails both comparisons.
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise InvalidInputError(
            f"{name} must be a number from {low:g} to {high:g}, got {_short(value)}. Pass a plain number."
        )
    return float(value)


def check_whole(name: str, value: Any, *, low: int) -> int:
    """Return a whole number from ``low`` to 1e15, numpy's among them."""
    try:
        number = value.__index__()
    except (AttributeError, TypeError):
        number = -1
    if isinstance(value, bool) or not low <= number <= _MOST_UNITS:
        raise InvalidInputError(f"{name} must be a whole number from {low} to 1e15. Leave it out if it is not known.")
    return int(number)


def check_guarantee(promise: Guarantee) -> None:
    """Refuse a guarantee that no statement can carry."""
    check_number("guarantee epsilon", promise.epsilon, low=0, high=LARGEST)
    check_number("guarantee delta", promise.delta, low=0, high=1)
    if promise.order is not None:
        check_number("guarantee order", promise.order, low=0, high=LARGEST)
    for name in ("kind", "method", "adjacency", "directions", "adaptivity"):
        check_text(f"guarantee {name}", getattr(promise, name))
    for name, allowed in _PROMISES.items():
        value = getattr(promise, name)
        if value not in allowed:
            raise InvalidInputError(
                f"guarantee {name} must be one of {', '.join(allowed)}, got {_short(value)}. Pass the public one."
            )


def _short(value: Any) -> str:
    """Return the beginning of a value's repr; a huge one is neither printed whole nor made."""
    if isinstance(value, int) and abs(value) >= 10**20:
        return f"a whole number of {value.bit_length()} bits"
    if isinstance(value, str):
        return ascii(value[:40]) + ("..." if len(value) > 40 else "")
    if value is None or isinstance(value, int | float):
        return repr(value)
    return f"a {type(value).__name__}"
