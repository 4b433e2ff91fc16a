"""Warnings for the data curator alone: no release changes by them; private values are quoted on a terminal only."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from importlib.util import find_spec
from typing import NamedTuple

from pate.exceptions import CuratorWarning, MissingExtraError

# Packages that only some people need, asked for where they are first missed.

#: What a module's package is called, where that is another name.
_PACKAGES = {"PIL": "pillow"}


def need(module: str, *, extra: str, why: str) -> None:
    """Refuse to go on without a package that ``pip install pate`` leaves out, and say how to get it.

    Called before anything is trained, drawn or paid for, not where the package is imported after all that.
    """
    if find_spec(module) is None:
        package = _PACKAGES.get(module, module)
        raise MissingExtraError(
            f'{why} needs {package}, which is not installed here. Install it: pip install "pate[{extra}]"'
        )


_PRIVATE = "(This is for the curator alone: it depends on the private records, and changes nothing that is released.)"


class CuratorMessage(NamedTuple):
    """Something that was noticed of the private records.

    Attributes
    ----------
    text : str
        For a warning: numbers and public names, no cell.
    quoting : str
        What also quotes private values, such as a class that is spelt nearly alike: for a person at a terminal, and
        for no log. Empty where there is nothing to quote.
    category : type
        Of the warning.
    """

    text: str
    quoting: str = ""
    category: type[CuratorWarning] = CuratorWarning


def warn_curator(found: Iterable[CuratorMessage], *, stacklevel: int = 2) -> tuple[CuratorMessage, ...]:
    """Warn of each, in one form, and return them; nothing that is released may depend on what is returned."""
    found = tuple(found)
    for message in found:
        warnings.warn(f"{message.text} {_PRIVATE}", message.category, stacklevel=stacklevel + 1)
    return found
