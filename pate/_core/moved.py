"""Former names of modules still import: ``pate.heads`` is ``pate.models.heads``, with a ``DeprecationWarning``.

The module that an old name gives is the very same object, so that classes are too. Model files and folders of former
versions name modules by their old paths.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, TypeVar

from pate.exceptions import InvalidInputError

_Callable = TypeVar("_Callable", bound=Callable[..., Any])

#: Former path -> path now, below ``pate``; what is below a package moves with it.
MOVED = {
    "core": "_core",
    "data.files": "data._files",
    "data.named": "data._named",
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
    """Comes first: below a package that moved, the files are those of its new place."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        new = self.found(fullname)
        if new is None:
            return None
        if fullname.removeprefix("pate.") not in STAY:
            warnings.warn(f"{fullname} is now {new}: import that.", DeprecationWarning, stacklevel=2)
        return ModuleSpec(fullname, self)

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = import_module(str(self.found(module.__name__)))

    def found(self, name: str) -> str | None:
        return new_path(name)


class _PrivateFinder(_Finder):
    """Comes last: a module that nothing else finds may have become private, ``pate.a.b`` being ``pate.a._b``."""

    def found(self, name: str) -> str | None:
        package, _, last = name.rpartition(".")
        if package.partition(".")[0] != "pate" or last.startswith("_") or package not in sys.modules:
            return None
        private = f"{package}._{last}"
        return private if find_spec(private) is not None else None


def renamed(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a module's ``__getattr__`` that gives former public names, with a ``DeprecationWarning``.

    Examples
    --------
    >>> renamed("math", {"power": "pow"})("root")
    Traceback (most recent call last):
    AttributeError: module 'math' has no attribute 'root'
    """

    def __getattr__(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(f"{module}.{name} is now {module}.{names[name]}: use that.", DeprecationWarning, stacklevel=2)
        return getattr(sys.modules[module], names[name])

    return __getattr__


def takes_former_names(**former: str) -> Callable[[_Callable], _Callable]:
    """Return a decorator: a class or function also takes the former names of parameters, with a ``DeprecationWarning``.

    Examples
    --------
    >>> @takes_former_names(power="exponent")
    ... def squared(x, exponent=2):
    ...     return x**exponent
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     squared(2, power=3)
    8
    """

    def decorated(thing: _Callable) -> _Callable:
        of_class = isinstance(thing, type)
        call: Any = thing.__init__ if of_class else thing

        @functools.wraps(call)
        def renaming(*args: Any, **given: Any) -> Any:
            for old in former.keys() & given.keys():
                name = former[old]
                if given.get(name, given[old]) != given[old]:
                    raise InvalidInputError(f"{old} is the former name of {name}, and both are given. Keep {name}.")
                warnings.warn(f"{old} is now called {name}: use that.", DeprecationWarning, stacklevel=2)
                given[name] = given.pop(old)
            return call(*args, **given)

        if not of_class:
            return renaming  # type: ignore[return-value]
        thing.__init__ = renaming  # type: ignore[method-assign]
        return thing

    return decorated


def redirect_imports() -> None:
    """Have imports by a former path give the module as it is now; called once, by ``import pate``."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
        sys.meta_path.append(_PrivateFinder())


def former_attribute(old: str, new: str) -> property:
    """Return a read-only property for a renamed attribute: the value of ``new``, with a ``DeprecationWarning``."""

    def value(self: object) -> Any:
        name = type(self).__name__
        warnings.warn(f"{name}.{old} is deprecated: use {name}.{new}.", DeprecationWarning, stacklevel=2)
        return getattr(self, new)

    return property(value, doc=f"Deprecated: use ``{new}``.")
