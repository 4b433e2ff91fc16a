"""Tests by which a wrong epsilon is found.

Public names are loaded when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "neighbours": "pate.audit.replays",
    "replay": "pate.audit.replays",
    "replay_search": "pate.audit.replays",
}

__all__ = sorted(_HOME)

if TYPE_CHECKING:
    from pate.audit.replays import neighbours as neighbours
    from pate.audit.replays import replay as replay
    from pate.audit.replays import replay_search as replay_search


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'pate.audit' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
