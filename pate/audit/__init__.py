"""Audits: attempts to refute what is claimed of a release, from certain to suggestive.

Public names are loaded when first used.

Examples
--------
>>> from pate import GNMax, audit
>>> audit.law(GNMax(40.0), sampler=GNMax(30.0), n_classes=10, noise_seed=0)
AuditResult(law: REFUTED; 7 figures)
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

_HOME = {
    "Audit": "pate.audit.report",
    "Claim": "pate.audit.claims",
    "attack": "pate.audit.attacks",
    "audit_job": "pate.audit.audited",
    "audit_mechanism": "pate.audit.audited",
    "audit_statement": "pate.audit.audited",
    "audit_votes": "pate.audit.audited",
    "canary": "pate.audit.canaries",
    "game": "pate.audit.game",
    "independence": "pate.audit.laws",
    "law": "pate.audit.laws",
    "neighbours": "pate.audit.replays",
    "one_run": "pate.audit.one_run",
    "pair": "pate.audit.pair",
    "replay": "pate.audit.replays",
    "replay_search": "pate.audit.replays",
}

__all__ = [*sorted(_HOME)]

if TYPE_CHECKING:
    from pate.audit.attacks import attack
    from pate.audit.audited import audit_job, audit_mechanism, audit_statement, audit_votes
    from pate.audit.canaries import canary
    from pate.audit.claims import Claim
    from pate.audit.game import game
    from pate.audit.laws import independence, law
    from pate.audit.one_run import one_run
    from pate.audit.pair import pair
    from pate.audit.replays import neighbours, replay, replay_search
    from pate.audit.report import Audit


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
