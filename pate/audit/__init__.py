"""Tests by which a wrong epsilon is found.

Public names are loaded when first used.

Examples
--------
>>> from pate import audit
>>> audit.Claim.gaussian(3.0)
Claim('3-GDP')
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "Claim": "pate.audit.claims",
}

__all__ = [*sorted(_HOME)]

if TYPE_CHECKING:
    from pate.audit.claims import Claim


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'pate.audit' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
