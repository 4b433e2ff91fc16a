"""Numbers as they are printed: an epsilon is never rounded down."""

from __future__ import annotations

import re

from pate.privacy.convert import format_up


def number(value: float) -> str:
    """Return four digits of a number, short."""
    return _short(f"{value:.4g}")


def promised(value: float, digits: int = 4) -> str:
    """Return an epsilon or delta rounded up: what the reader takes for the guarantee must not be below it."""
    return _short(format_up(value, digits))


def percent(share: float) -> str:
    """Return a share of 1 in percent."""
    return f"{100 * share:.1f}%"


def _short(text: str) -> str:
    """Return a printed number without the zeros and the plus of its exponent."""
    return re.sub(r"e([+-])0*", lambda m: "e" + m.group(1).replace("+", ""), text)
