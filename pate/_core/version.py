"""The version of this source, and of other packages: what results, statements and ledgers are marked with."""

from functools import lru_cache
from importlib import metadata

#: pyproject.toml takes it from here.
VERSION = "0.1.0"


@lru_cache
def version_of(name: str) -> str | None:
    """Return the version of ``pate``, or of a distribution where it is installed; asked once: files are read for it."""
    if name == "pate":
        return VERSION
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
