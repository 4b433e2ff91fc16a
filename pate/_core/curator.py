"""Warnings that name the user's own line; and those for the data curator alone, by which no release changes.

Private values are quoted on a terminal only, and on the logger ``pate.private``, which is off.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, NamedTuple

from pate._core.checks import canonical, folded
from pate._core.events import PRIVATE
from pate.exceptions import CuratorWarning, MissingExtraError

# Packages that only some people need, asked for where they are first missed.

#: What a module's package is called, where that is another name.
_PACKAGES = {"PIL": "pillow"}


def need(module: str, *, extra: str, why: str) -> None:
    """Refuse to go on without a package that ``pip install pate-privacy`` leaves out, and say how to get it.

    Called before anything is trained, drawn or paid for, not where the package is imported after all that.
    """
    if find_spec(module) is None:
        package = _PACKAGES.get(module, module)
        raise MissingExtraError(
            f'{why} needs {package}, which is not installed here. Install it: pip install "pate-privacy[{extra}]"'
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
        for no log but ``pate.private``. Empty where there is nothing to quote.
    category : type
        Of the warning.
    """

    text: str
    quoting: str = ""
    category: type[CuratorWarning] = CuratorWarning


#: Longer texts are no names, and so many are quoted.
_LONGEST, _QUOTED = 200, 5


def joined_texts(name: str, cells: Iterable[Any] | None) -> list[str]:
    """Say how many texts stand there in several spellings, which count as one; nothing where none does.

    Examples
    --------
    >>> joined_texts("'town'", ["Oslo", "Oslo ", "Rome", "Rome", 1])
    ["'town' has 1 text in several spellings (outer blanks, Unicode form), read as one"]
    """
    n = 0
    with suppress(Exception):  # an odd cell of one record may not stop a release, nor be quoted
        spelt = {cell for cell in (() if cells is None else cells) if isinstance(cell, str)}
        forms = Counter(form for cell in spelt if (form := canonical(cell)) != cell)
        n = sum(times + (form in spelt) > 1 for form, times in forms.items())
    text = f"{n:,} text{'s' * (n > 1)} in several spellings"
    return [f"{name} has {text} (outer blanks, Unicode form), read as one"] if n else []


def nearly_alike(values: Mapping[Any, int], known: Iterable[Any]) -> tuple[Counter[str], str]:
    """Return which private texts, counted, are public ones but for case or compatibility form; and lines that say so.

    The latter (Unicode NFKC) makes one of full-width letters, ligatures, superscripts and the plain ones.
    """
    names = [name for name in known if isinstance(name, str)]
    forms, exact = {folded(name): name for name in names}, set(map(canonical, names))
    others = {
        v: n for v, n in values.items() if isinstance(v, str) and len(v) <= _LONGEST and canonical(v) not in exact
    }
    found = Counter({value: n for value, n in others.items() if folded(value) in forms})
    lines = []
    for value, n in found.most_common(_QUOTED):
        name = forms[folded(value)]
        differs = "case" if canonical(value).casefold() == canonical(name).casefold() else "compatibility form"
        had = "1 record has" if n == 1 else f"{n:,} records have"
        lines.append(f"{had} {value!r}, which differs from {name!r} in {differs} alone: is that meant?")
    return found, "\n".join(lines)


def about_categories(name: str, cells: Iterable[Any], known: Iterable[str]) -> list[CuratorMessage]:
    """Return a message about private categories of a column that are public ones but for case or compatibility form."""
    found, quoting = nearly_alike(Counter(cells), known)
    cells_are = "1 cell that is" if found.total() == 1 else f"{found.total():,} cells that are"
    text = f"{name} has {cells_are} of no public category, but for case or compatibility form: spell them alike."
    return [CuratorMessage(text, quoting)] if found else []


#: Callers that are not the user's own code.
_BETWEEN = ("pate", "sklearn", "contextlib", "functools")


def warn(text: str, category: type[Warning]) -> None:
    """Warn at the innermost line that is neither of this package nor of scikit-learn: the user's own."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        frame = frame.f_back
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    name = frame.f_globals.get("__name__", "<unknown>")
    warnings.warn_explicit(text, category, frame.f_code.co_filename, frame.f_lineno, name, registry)


def tell_curator(text: str, category: type[CuratorWarning] = CuratorWarning) -> None:
    """Warn of something that is private, and log it where only those hear it who asked for that."""
    PRIVATE.warning(text, stacklevel=2)
    warn(text, category)


def warn_curator(found: Iterable[CuratorMessage]) -> tuple[CuratorMessage, ...]:
    """Warn of each, in one form, and return them; nothing that is released may depend on what is returned."""
    found = tuple(found)
    for message in found:
        if message.quoting:
            PRIVATE.warning(message.quoting)
        tell_curator(f"{message.text} {_PRIVATE}", message.category)
    return found
