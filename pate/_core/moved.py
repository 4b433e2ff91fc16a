"""Former names of modules still import: ``pate.heads`` is ``pate.models.heads``, with a ``DeprecationWarning``.

The module that an old name gives is the very same object, so that classes are too. Model files and folders of former
versions name modules by their old paths.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: Former path -> path now, below ``pate``; what is below a package moves with it.
MOVED = {
    "core": "_core",
    "estimator": "estimators",
    "heads": "models.heads",
    "model": "models.file",
    "noise": "privacy.noise",
    "queries": "data.queries",
    "recipes": "models.recipes",
    "rivals": "comparison.baselines",
    "selection": "estimators.selection",
    "statement": "release.statement",
    "students": "models.students",
    "studies": "comparison.studies",
    "studies.account": "release.account",
    "studies.plan": "estimators.plan",
    "testing": "audit.testing",
}
#: Short names that stay, without a warning.
STAY = {"testing"}


def new_path(name: str) -> str | None:
    """Return where a module stands now; None where it did not move.

    Examples
    --------
    >>> new_path("pate.heads.forest"), new_path("pate.studies.plan"), new_path("pate.release")
    ('pate.models.heads.forest', 'pate.estimators.plan', None)
    """
    root, _, path = name.partition(".")
    if root != "pate":
        return None
    head, rest = path, ""
    while head and head not in MOVED:
        head, _, last = head.rpartition(".")
        rest = f".{last}{rest}"
    return f"pate.{MOVED[head]}{rest}" if head else None


class _Finder(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        new = new_path(fullname)
        if new is None:
            return None
        if fullname.removeprefix("pate.") not in STAY:
            warnings.warn(f"{fullname} is now {new}: import that.", DeprecationWarning, stacklevel=2)
        return ModuleSpec(fullname, self)

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = import_module(str(new_path(module.__name__)))


def redirect_imports() -> None:
    """Have imports by a former path give the module as it is now; called once, by ``import pate``."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def former_attribute(old: str, new: str) -> property:
    """Return a read-only property for a renamed attribute: the value of ``new``, with a ``DeprecationWarning``."""

    def value(self: object) -> Any:
        name = type(self).__name__
        warnings.warn(f"{name}.{old} is deprecated: use {name}.{new}.", DeprecationWarning, stacklevel=2)
        return getattr(self, new)

    return property(value, doc=f"Deprecated: use ``{new}``.")
