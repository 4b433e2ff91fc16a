"""Former names of modules still import: ``pate.heads`` is ``pate.models.heads``, with a ``DeprecationWarning``.

The module that an old name gives is the very same object, so that classes are too. Model files and folders of former
versions name modules by their old paths.
"""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
    >>> (
    ...     new_path("pate.heads.forest"),
    ...     new_path("pate.studies.plan"),
    ...     new_path("pate.release"),
    ... )
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


@dataclass(frozen=True)
class Former:
    """What became of a parameter that is now a part of another one, or is said elsewhere.

    Parameters
    ----------
    instead : str
        What to say now, for the warning.
    into : str
        The parameter that it is a part of; empty where it is said elsewhere: an object then keeps the former value in
        ``_former``, a dictionary.
    put : callable
        From the present value of ``into`` and the former value to the new value of ``into``.
    get : callable
        From the value of ``into`` to the former value; for what is kept, from the kept value or None.
    is_said : callable
        Whether a value of ``into`` says it already.
    """

    instead: str
    into: str = ""
    put: Callable[[Any, Any], Any] = lambda _, value: value
    get: Callable[[Any], Any] = lambda value: value
    is_said: Callable[[Any], bool] = lambda value: value is not None


def _renew(former: Mapping[str, str | Former], given: dict[str, Any], present: Callable[[str], Any]) -> dict[str, Any]:
    """Replace former names among keyword arguments by those of today; return those that an object is to keep."""
    kept, said = {}, dict(given)
    for old in [name for name in given if name in former]:
        now, value = former[old], given.pop(old)
        if isinstance(now, str):
            if said.get(now, value) != value:
                raise InvalidInputError(f"{old} is the former name of {now}, and both are given. Keep {now}.")
            warnings.warn(f"{old} is now called {now}: use that.", DeprecationWarning, stacklevel=3)
            given[now] = value
            continue
        if now.into in said and now.is_said(said[now.into]):
            raise InvalidInputError(f"{old} is the former name of {now.instead}, and both are given. Leave {old} out.")
        warnings.warn(f"{old} is deprecated: use {now.instead}.", DeprecationWarning, stacklevel=3)
        if not now.into:
            kept[old] = value
        else:
            given[now.into] = now.put(given.get(now.into, present(now.into)), value)
    return kept


def takes_former_names(**former: str | Former) -> Callable[[_Callable], _Callable]:
    """Return a decorator: a class or function also takes the former names of parameters, with a ``DeprecationWarning``.

    With :class:`Former` (of classes only) such a name is taken by ``set_params``, too, and may be read.

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
        parts = {old: now for old, now in former.items() if isinstance(now, Former)}
        places = [*inspect.signature(call).parameters]

        @functools.wraps(call)
        def renaming(*args: Any, **given: Any) -> Any:
            if parts:  # a part of a parameter that is given by its place
                given, args = {**dict(zip(places[1:], args[1:], strict=False)), **given}, args[:1]
            kept = _renew(former, given, lambda _: None)
            made = call(*args, **given)
            if kept:
                args[0]._former = kept
            return made

        if not of_class:
            return renaming  # type: ignore[return-value]
        cls: Any = thing
        cls.__init__ = renaming
        if parts:
            setting = cls.set_params

            @functools.wraps(setting)
            def set_params(self: Any, **given: Any) -> Any:
                kept = _renew(former, given, lambda name: getattr(self, name))
                if kept:
                    self._former = {**self.__dict__.get("_former", {}), **kept}
                return setting(self, **given)

            listing = cls.__dir__

            def __dir__(self: Any) -> list[str]:  # scikit-learn reads every attribute that it lists
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)
                    return [name for name in listing(self) if name not in parts]

            cls.set_params, cls.__dir__ = set_params, __dir__
        for old, now in parts.items():
            setattr(cls, old, _part(old, now))
        return thing

    return decorated


def _part(old: str, now: Former) -> property:
    def value(self: object) -> Any:
        warnings.warn(
            f"{type(self).__name__}.{old} is deprecated: use {now.instead}.", DeprecationWarning, stacklevel=2
        )
        return now.get(getattr(self, now.into) if now.into else self.__dict__.get("_former", {}).get(old))

    return property(value, doc=f"Deprecated: use {now.instead}.")


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
