"""Where a result comes from: when, which commit, which versions."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pate._core.version import version_of

#: The packages a result depends on.
PACKAGES = ("pate", "numpy", "scipy", "scikit-learn", "pandas", "torch", "dp-accounting")
_GIT_SECONDS = 5.0


def now() -> str:
    """Return the time in UTC, to the second, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the installed :data:`PACKAGES`, without importing them."""
    found = {name: version_of(name) for name in PACKAGES}
    return {"python": platform.python_version(), **{name: version for name, version in found.items() if version}}


def git_commit(checkout: str | os.PathLike[str] | None = None) -> str | None:
    """Return the commit of the checkout this package runs from, ``-dirty`` appended when files differ from it.

    None where ``checkout`` (the folder that holds the package) is not itself the root of a git working tree: an
    installed package in another project must not claim that project's commit.
    """
    root = Path(checkout) if checkout is not None else Path(__file__).parents[2]
    top = _git(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != root.resolve():
        return None
    commit = _git(root, "rev-parse", "--verify", "HEAD")
    if commit is None:
        return None
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    return f"{commit}-dirty" if changed else commit


def provenance() -> dict[str, Any]:
    """Return ``created``, ``commit`` and ``versions``: the stamp of a result."""
    return {"created": now(), "commit": git_commit(), "versions": package_versions()}


def _git(folder: Path, *arguments: str) -> str | None:
    # A git hook's environment (GIT_DIR and the like) would point git at another repository.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=True,
            env=environment,
        )
    except (OSError, subprocess.SubprocessError, UnicodeError):
        return None
    return done.stdout.strip()
