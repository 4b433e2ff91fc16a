"""The reports: ``report.html``, which may be published, and ``sensitive.html``, which may not.

Each is one HTML file that asks nothing of the network and runs no script: styles and pictures are inline, and a
content policy in its head forbids the rest. The public one is made from a :class:`pate.report.result.Result` alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pate.report._comparison import comparison_picture, render_markdown
    from pate.report._public import (
        BADGE,
        MARK,
        render_report,
        render_sensitive_report,
        write_report,
        write_sensitive_report,
    )

_PLACES = {"_comparison": ("comparison_picture", "render_markdown"),
           "_public": ("BADGE", "MARK", "render_report", "render_sensitive_report", "write_report",
                       "write_sensitive_report")}  # fmt: skip

__all__ = [
    "BADGE",
    "MARK",
    "comparison_picture",
    "render_markdown",
    "render_report",
    "render_sensitive_report",
    "write_report",
    "write_sensitive_report",
]


def __getattr__(name: str) -> Any:
    # Lazy, because results are typed in this package too, and only a page needs matplotlib.
    for place, names in _PLACES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{place}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
