"""The reports: ``report.html``, which may be published, and ``sensitive.html``, which may not.

Each is one HTML file that asks nothing of the network and runs no script: styles and pictures are inline, and a
content policy in its head forbids the rest. The public one is made from ``result`` alone and refuses every name it
does not know, so that what was made from private votes cannot ride along.
"""

from __future__ import annotations

from pate.report._public import render_report, write_report
from pate.report._sensitive import BADGE, MARK, render_sensitive_report, write_sensitive_report

__all__ = ["BADGE", "MARK", "render_report", "render_sensitive_report", "write_report", "write_sensitive_report"]
