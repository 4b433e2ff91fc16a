"""Packages that only some people need, asked for where they are first missed."""

from __future__ import annotations

from importlib.util import find_spec

from pate.exceptions import MissingExtraError

#: What a module's package is called, where that is another name.
_PACKAGES = {"PIL": "pillow"}


def need(module: str, *, extra: str, why: str) -> None:
    """Refuse to go on without a package that ``pip install pate`` leaves out, and say how to get it.

    Called before anything is trained, drawn or paid for, not where the package is imported after all that.

    Parameters
    ----------
    module : str
        As it is imported; nothing is.
    extra : str
        The extra of ``pyproject.toml`` that brings it.
    why : str
        What needs it: the beginning of a sentence.

    Raises
    ------
    MissingExtraError

    Examples
    --------
    >>> need("numpy", extra="plots", why="Counting")
    >>> need("no_such_module", extra="plots", why="A picture")
    Traceback (most recent call last):
    pate.exceptions.MissingExtraError: A picture needs no_such_module, ... Install it: pip install "pate[plots]"
    """
    if find_spec(module) is None:
        package = _PACKAGES.get(module, module)
        raise MissingExtraError(
            f'{why} needs {package}, which is not installed here. Install it: pip install "pate[{extra}]"'
        )
