"""Tests by which a wrong epsilon is found.

Public names are loaded when first used.

Examples
--------
>>> from pate import GNMax, audit
>>> audit.law(GNMax(40.0), sampler=GNMax(30.0), n_classes=10, noise_seed=0)
AuditResult(law: REFUTED; 7 figures)
>>> audit.Claim.gaussian(3.0)
Claim('3-GDP')
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

_HOME = {
    "Claim": "pate.audit.claims",
    "independence": "pate.audit.laws",
    "law": "pate.audit.laws",
    "game": "pate.audit.game",
    "one_run": "pate.audit.one_run",
    "canary": "pate.audit.canaries",
    "pair": "pate.audit.pair",
}

__all__ = [*sorted(_HOME)]

if TYPE_CHECKING:
    from pate.audit.canaries import canary
    from pate.audit.claims import Claim
    from pate.audit.game import game
    from pate.audit.laws import independence, law
    from pate.audit.one_run import one_run
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
    from pate.audit.pair import pair


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'pate.audit' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)


class _Names(ModuleType):
    """Public names stay functions where a module of the same name is imported: ``audit.game`` can be called."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Names
